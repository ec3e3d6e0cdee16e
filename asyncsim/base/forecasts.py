"""What `forecast` says: numbers of a run now and at other settings, each with its band, its law and its reach."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import Any

from asyncsim.base.answers import aligned

WIDE = 100
"""Columns of a table."""
UNITS = "Staleness in versions per token; idle, waits, discarded and outside are shares; ESS is over N; k3 in nats."
ASK = (
    "How well a policy learns at that staleness is not forecast: ask `asyncsim compare` with several staleness values."
)


@dataclass(frozen=True)
class Band:
    """A number with its 95 % band; `value` None where it cannot be told, for the reason `why`."""

    value: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""

    def covers(self, value: float) -> bool:
        """Whether a number lies in the band."""
        return self.low is not None and self.high is not None and self.low <= value <= self.high

    def __str__(self) -> str:
        if self.value is None or self.low is None or self.high is None:
            return "cannot tell"
        return f"{_digits(self.value)} [{_digits(self.low)}, {_digits(self.high)}]"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


@dataclass(frozen=True)
class Line:
    """One quantity: name, law (a claim, or the event model), measured now, and forecasts by setting."""

    name: str
    law: str
    measured: Band | None
    forecasts: tuple[Band, ...]

    @property
    def missed(self) -> bool:
        """Whether the forecast of today's setting excludes what was measured."""
        now, found = self.forecasts[0], self.measured
        if found is None or found.low is None or found.high is None or now.low is None or now.high is None:
            return False
        return found.high < now.low or found.low > now.high


@dataclass(frozen=True)
class Forecast:
    """Lines of all quantities; `settings`: today's first, as words; `notes`, what is extrapolated or assumed."""

    about: str
    settings: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    draws: int
    updates: int

    def line(self, name: str) -> Line:
        """The line of a quantity."""
        return next(each for each in self.lines if each.name == name)

    @property
    def misses(self) -> list[str]:
        """Quantities whose measurement lies outside of the forecast of today's setting."""
        return [each.name for each in self.lines if each.missed]

    def row(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self) | {"misses": self.misses}

    def __str__(self) -> str:
        """Whether the calibration reproduces the run, then a table, laws, and what cannot be told."""
        compared = [each for each in self.lines if each.measured is not None and each.forecasts[0].value is not None]
        if self.misses:
            first = f"The forecast of today's setting misses the log in {', '.join(self.misses)}: other numbers below "
            first += "rest on a description that does not reproduce the run. Check the fields that were given."
        else:
            first = (
                f"The forecast of today's setting agrees with the log in all {len(compared)} numbers that both have."
            )
        parts = [textwrap.fill(first, 80), textwrap.fill(self.about, 80), *self._tables()]
        laws: dict[str, list[str]] = {}
        for each in self.lines:
            laws.setdefault(each.law, []).append(each.name)
        said = "; ".join(f"{', '.join(names)}: {law}" for law, names in laws.items())
        band = f"Bands are 95 % over {self.draws} draws of the calibration, for means of {self.updates} updates."
        whys = dict.fromkeys(f"{each.name}: {b.why}." for each in self.lines for b in each.forecasts if b.why)
        parts += [textwrap.fill(f"{UNITS} {band} Laws: {said}.", 80)]
        parts += [textwrap.fill(each, 80) for each in (*whys, *self.notes, ASK)]
        return "\n\n".join(parts)

    def _tables(self) -> list[str]:
        """Tables of at most `WIDE` columns: what was measured and today's forecast, then the other settings."""
        names = [["", *(each.name for each in self.lines)]]
        rest = [["measured", *(str(each.measured or "-") for each in self.lines)]]
        rest += [[words, *(str(each.forecasts[k]) for each in self.lines)] for k, words in enumerate(self.settings)]
        tables, columns = list[str](), names
        for each in rest:
            lines = aligned(list(zip(*columns, each, strict=True)))
            if len(lines[0]) > WIDE and len(columns) > 1:
                tables.append("\n".join(aligned(list(zip(*columns, strict=True)))))
                columns = names
            columns = [*columns, each]
        return [*tables, "\n".join(aligned(list(zip(*columns, strict=True))))]
