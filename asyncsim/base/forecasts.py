"""The answer of `forecast`: quantities of a run now and at other settings, each with its band, formula and validity."""

from dataclasses import asdict, dataclass, field
from typing import Any

from asyncsim.base import calls, checks
from asyncsim.base.answers import aligned
from asyncsim.base.pages import COLUMNS, page

WIDE = 100
"""Maximum width of a table in characters."""


@dataclass(frozen=True)
class Band:
    """A number with its 95 % band; `value` is None if it cannot be computed, for the reason `why`."""

    value: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""

    def __str__(self) -> str:
        if self.value is None or self.low is None or self.high is None:
            return "cannot tell"
        return f"{_digits(self.value)} [{_digits(self.low)}, {_digits(self.high)}]"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


@dataclass(frozen=True)
class Line:
    """Forecast of one quantity: name, `law` (the claim or model used), measured value, and forecasts by setting."""

    name: str
    law: str
    measured: Band | None
    forecasts: tuple[Band, ...]

    @property
    def compared(self) -> bool:
        """Whether the quantity has both a forecast and a measurement at today's setting."""
        return self.measured is not None and self.forecasts[0].value is not None

    @property
    def missed(self) -> bool:
        """Whether the quantity's forecast and measured bands at today's setting do not overlap."""
        now: Any = self.forecasts[0]
        found: Any = self.measured
        return self.compared and (found.high < now.low or found.low > now.high)


@dataclass(frozen=True)
class Forecast(calls.Told):
    """The answer of `forecast`: quantities; `settings`, today's first; `at`, values by field; `notes`: assumptions."""

    about: str
    settings: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    draws: int
    updates: int
    at: dict[str, list[float]] = field(default_factory=dict)

    def line(self, name: str) -> Line:
        """The line of a quantity, such as seconds per update, by its name."""
        known = {each.name: each for each in self.lines}
        checks.one_of("quantity", name, known, "name a line of the forecast")
        return known[name]

    @property
    def misses(self) -> list[str]:
        """Quantities whose measured band lies outside the forecast band at today's setting."""
        return [each.name for each in self.lines if each.missed]

    @property
    def pace(self) -> float:
        """Seconds per update of the log divided by those of the forecast; 1 without a miss."""
        line: Any = self.line("seconds per update")
        return line.measured.value / line.forecasts[0].value if line.missed else 1.0

    @staticmethod
    def far(ratio: float) -> str:
        """Format a ratio above 1: from 1.1 as a factor, below as the excess in percent."""
        return f"{ratio:.2g} times" if ratio >= 1.1 else f"{100.0 * (ratio - 1.0):.1f} %"

    def row(self) -> dict[str, Any]:
        """The forecast as plain values, for JSON."""
        return asdict(self) | {"misses": self.misses}

    def __str__(self) -> str:
        """Format the forecast: how well it reproduces the run, tables as wide as the terminal, formulas, unknowns.

        The first table has measured values and the forecast at today's setting.
        """
        columns = [["measured", *(str(each.measured or "-") for each in self.lines)]]
        columns += [[words, *(str(each.forecasts[k]) for each in self.lines)] for k, words in enumerate(self.settings)]
        tables = list[list[str]]()
        while columns:
            names = ["", *(each.name for each in self.lines)]
            wide = [aligned(list(zip(names, *columns[:n], strict=True))) for n in range(1, len(columns) + 1)]
            fits = max(1, sum(len(table[0]) <= (COLUMNS.get() or WIDE) for table in wide))
            tables, columns = [*tables, wide[fits - 1]], columns[fits:]
        whys = dict.fromkeys(f"{each.name}: {b.why}." for each in self.lines for b in each.forecasts if b.why)
        return page("forecast", kept=set().union(*tables), f=self, tables=tables, whys=whys)
