"""The answer of `advise`: seconds, staleness and slot-hours of every simulated setting, the knee, possible gains."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.base import calls, checks
from asyncsim.base.answers import aligned
from asyncsim.base.notation import plural
from asyncsim.base.pages import wrap
from asyncsim.base.quantiles import Tail, critical
from asyncsim.base.records import plain
from asyncsim.base.uncertainty import between

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.05
"""Error rate of every interval."""
BUSY = 0.1
"""Idle share of an update, without the sync, below which a side counts as the bottleneck."""
RARE = 0.005
"""Share of discarded prompts above which the answer mentions them."""
BLIND = checks.advice("blind", "advice")


def mean_interval(values: Any, tests: int = 1) -> tuple[float, float, float]:
    """Mean over realizations `[M]` with its t interval, Bonferroni-corrected for `tests`; width 0 for equal values."""
    found = between(values)
    half = critical(LEVEL / tests, found.freedom) * found.error if found.error > 1e-12 * abs(found.value) else 0.0
    return found.value, found.value - half, found.value + half


@dataclass(frozen=True, eq=False)
class Setting(calls.Told):
    """One setting simulated by `advise`: limit, machines, slots, knobs, and `numbers` per realization `[M]`.

    `limit` is in the trainer's own unit, `seconds` per update, `tokens` trained per second. `generator_idle` is the
    share of time in which a slot generates nothing, `trainer_idle` that without training. Both are also in seconds per
    update, with `sync_seconds` that pause both. `staleness` of a trained token is in versions; `dropped` is a share
    of groups; `kept_length` divides mean lengths of trained and generated responses; `steady` is 1 for runs long
    enough. `p99` is the 99th percentile of staleness over trained tokens. `knobs` are those of the trainer's preset;
    `defaults` says how they differ from the trainer's defaults where the user did not set them.
    """

    limit: float
    machines: int
    slots: int
    partial: bool
    numbers: Mapping[str, np.ndarray]
    p99: Tail
    knobs: Mapping[str, Any]
    defaults: str

    def mean(self, name: str) -> float:
        """Mean of one number of the setting over realizations."""
        return float(self.numbers[name].mean())

    def interval(self, name: str) -> tuple[float, float, float]:
        """Mean of one number of the setting, or the 99th percentile of staleness, with its interval."""
        if name == "p99":
            return self.p99[:3]
        return mean_interval(self.numbers[name] if name in self.numbers else getattr(self, name))

    @property
    def slot_hours(self) -> np.ndarray:
        """Slot-hours per 1,000 updates, `[M]`: slots x seconds per update x 1,000 / 3,600."""
        return np.asarray(self.numbers["seconds"] * self.slots / 3.6)

    @property
    def machine_hours(self) -> np.ndarray:
        """Hours of generation machines (GPUs, where a machine is one) per 1,000 updates, `[M]`."""
        return np.asarray(self.numbers["seconds"] * self.machines / 3.6)

    def row(self) -> dict[str, Any]:
        """The setting as a JSON object: means with their intervals."""
        each = (*self.numbers, "slot_hours", "machine_hours")
        own = {name: dict(zip(("mean", "low", "high"), self.interval(name), strict=True)) for name in each}
        own["p99"] = self.p99._asdict()
        names = ("limit", "machines", "slots", "partial", "knobs", "defaults")
        return {**{name: getattr(self, name) for name in names}, **own}


@dataclass(frozen=True)
class Advice(calls.Told):
    """The answer of `advise`: all simulated `settings`, those with today's machines first, ordered by their limits.

    `knob` is the trainer's name for the limit; `about` describes the system; `share` is the accepted relative slowdown;
    `knee` is the smallest limit with today's machines whose mean seconds exceed the minimum by at most that share.
    `between` bounds it among all limits, tried or not. `least` is the trainer's smallest limit; `whole`: no fractions;
    `causes`: seconds of an update that no machine shortens, and what takes them.
    """

    trainer: str
    knob: str
    about: str
    share: float
    settings: tuple[Setting, ...]
    realizations: int
    updates: int
    least: float
    whole: bool
    causes: tuple[tuple[float, str], ...] = ()

    def table(self) -> "pd.DataFrame":
        """One row per setting: limit, machines, slots, and each number as NAME_mean, NAME_low and NAME_high."""
        import pandas as pd

        from asyncsim.base.tables import Table

        return Table(pd.json_normalize([each.row() for each in self.settings], sep="_")).drop(columns="defaults")

    def curve(self, machines: int | None = None, partial: bool | None = None) -> list[Setting]:
        """Settings at one number of machines and in one rollout mode, by staleness limit; default: today's."""
        first = self.settings[0]
        wanted = (first.machines if machines is None else machines, first.partial if partial is None else partial)
        return [each for each in self.settings if (each.machines, each.partial) == wanted]

    def slower(self, *of: Any) -> list[tuple[float, float, float]]:
        """Relative slowdown of each limit of a `curve` against its fastest, paired by realization: mean, interval."""
        curve = self.curve(*of)
        best = min(curve, key=lambda each: each.mean("seconds")).numbers["seconds"]
        return [mean_interval(each.numbers["seconds"] / best - 1.0, max(1, len(curve) - 1)) for each in curve]

    def _at(self, limit: float, own: Setting) -> Setting:
        return next(each for each in self.curve(own.machines, own.partial) if each.limit == limit)

    def _least(self, end: int, *curve: Any) -> Setting:
        rows = self.curve(*curve)
        return next(each for each, loss in zip(rows, self.slower(*curve), strict=True) if loss[end] <= self.share)

    @property
    def knee(self) -> Setting:
        """The recommended setting with today's machines: the smallest limit that is fast enough."""
        return self._least(0)

    @property
    def between(self) -> tuple[float | None, float]:
        """The largest tried limit that is certainly too slow (or None), and the smallest that is certainly fast enough.

        At 95 % the knee among all limits is above the first and at most the second, if seconds fall with the limit.
        """
        high, rows = self._least(2).limit, zip(self.curve(), self.slower(), strict=True)
        return max((s.limit for s, loss in rows if s.limit < high and loss[1] > self.share), default=None), high

    @property
    def reach(self) -> str:
        """The interval of the recommended staleness limit, in words."""
        low, high = self.between
        return f"95 %: at most {high:g}" if low is None else f"95 %: above {low:g}, at most {high:g}"

    @property
    def gaps(self) -> str:
        """Suggest untried staleness limits inside the interval of the recommended one, if there are any."""
        low, high = self.between
        tried = [each.limit for each in self.curve() if (low is None or each.limit >= low) and each.limit <= high]
        wide = [(a, b) for a, b in itertools.pairwise(tried) if b - a > (1.0 if self.whole else 0.1 * b)]
        more = [(a + b) // 2.0 if self.whole else (a + b) / 2.0 for a, b in wide]
        if low is None and high > self.least:
            more = [self.least, *more]
        limits = ",".join(f"{x:g}" for x in sorted({*more, *(each.limit for each in self.curve())}))
        narrow = f"To narrow the 95 % interval of the recommended {self.knob}"
        return f"{narrow}, add --set staleness_limit={limits}" * bool(more)

    def knees(self) -> list[Setting]:
        """Smallest limit within `share` of the fastest limit, for each number of machines and rollout mode."""
        return [self._least(0, *curve) for curve in dict.fromkeys((s.machines, s.partial) for s in self.settings)]

    def _with(self, other: Setting) -> str:
        """Describe what another setting changes: the number of machines, partial rollouts, or both."""
        more = plural(other.machines, "machine") * (other.machines != self.knee.machines)
        way = f"partial rollouts {'on' if other.partial else 'off'}" * (other.partial != self.knee.partial)
        return " and ".join(filter(None, (more, way)))

    @property
    def sentence(self) -> str:
        """The recommendation in one sentence, with value, unit and interval."""
        knee = self.knee
        mean, least, most = mean_interval(knee.numbers["seconds"])
        if len({each.limit for each in self.settings}) == 1:
            return (
                f"Only {self.knob} {knee.limit:g} was tried: {mean:.4g} s [{least:.4g}, {most:.4g}] per update. "
                "To compare limits, write staleness_limit as a list, [0, 1, 2, 4], or leave it out."
            )
        return (
            f"Set {self.knob} to {knee.limit:g} ({self.reach}): {mean:.4g} s [{least:.4g}, {most:.4g}] per update, "
            f"within {100.0 * self.share:g} % of the fastest limit tried, at a mean staleness of "
            f"{knee.mean('staleness'):.2g} versions per token, 99th percentile {knee.p99}."
        )

    @property
    def standstill(self) -> str:
        """Idle seconds per update of trainer and generator at the recommended setting, and the bottleneck."""
        knee, words, busy = self.knee, [], []
        sync, seconds = knee.mean("sync_seconds"), knee.mean("seconds")
        for side, who in (("trainer", "the trainer waits"), ("generator", "a generator slot waits")):
            mean, low, high = knee.interval(f"{side}_idle_seconds")
            words.append(f"{who} {mean:.3g} s [{low:.3g}, {high:.3g}]")
            busy += [side] if mean - sync < BUSY * seconds else []
        # Of a synchronous step the generator's part is what the trainer waits.
        taken = (seconds, seconds - sync, knee.mean("trainer_idle_seconds") - sync)
        cause = next((why for own, why in self.causes if any(abs(own - t) <= self.share * own for t in taken)), "")
        slower = "Both sides are busy" if busy else f"Each side waits for the other{cause}"
        slower = f"The bottleneck is the {busy[0]} side" if len(busy) == 1 else slower
        own = f", of which the sync takes {sync:.3g} s" if sync else ""
        return f"Per update, {' and '.join(words)}{own}. {slower}."

    def gains(self) -> list[str]:
        """Compare other machines and rollout modes with today's, at equal limits and at their recommended limits."""
        knee, lines = self.knee, []
        for own in self.knees()[1:]:
            limits = sorted({knee.limit, own.limit}, reverse=True)
            pairs = [(f"at the same limit of {k:g}", self._at(k, own), self._at(k, knee)) for k in limits]
            knees = f"with its knee of {own.limit:g} instead of today's knee of {knee.limit:g}"
            for where, one, other in [*pairs, *[(knees, own, knee)] * (len(pairs) > 1)]:
                seconds = _signed(mean_interval(one.numbers["seconds"] - other.numbers["seconds"]), "s per update")
                hours = _signed(mean_interval(one.slot_hours - other.slot_hours), "slot-hours")
                lines.append(f"With {self._with(own)}, {where}: {seconds}; {hours} per 1,000 updates.")
        return lines

    def __str__(self) -> str:
        """Format the answer for a terminal: recommendation, table of settings, possible gains, limitations."""
        cells = [["limit", "mach.", "partial", "s/update", "tok/s", "wait", "idle", "stale", "p99", "slot-h"]]
        knee, knees = self.knee, self.knees()
        for each in (s for s in self.settings if s.limit == knee.limit or s in (*self.curve(), *knees)):
            mean, low, high = mean_interval(each.numbers["seconds"])
            reach = f" ± {float(f'{max(mean - low, high - mean):.1g}'):g}" if high > low else ""
            row = [f"{each.limit:g}{' *' if each in knees else '  '}", f"{each.machines}"]
            row += ["on" if each.partial else "off", f"{mean:.4g}{reach}", f"{each.mean('tokens'):.4g}"]
            stands = (each.mean(f"{side}_idle_seconds") for side in ("trainer", "generator"))
            row += [f"{number:{'.0f' if number >= 100.0 else '.3g'}}" for number in stands]
            row += [f"{each.mean('staleness'):.2f}", str(each.p99)]
            cells.append([*row, f"{each.slot_hours.mean():,.0f}"])
        table = aligned(cells)
        short = [] if all(each.mean("steady") == 1.0 for each in self.settings) else [_SHORT]
        if not all(each.p99.stands for each in self.settings):
            short.append("A percentile with 'about' still changes in longer runs: raise --updates.")
        if knee.mean("dropped") >= RARE:
            longer = f"trained responses have {knee.mean('kept_length'):.0%} of the mean length of generated ones"
            short.append(f"There, {knee.mean('dropped'):.1%} of the prompts are discarded as too stale, and {longer}.")
        ends = [self._with(each) or "your present system" for each in knees if each.limit == self.curve()[-1].limit]
        where = f" ({', '.join(ends)})" * (len(knees) > 1)
        short += [self.gaps] * bool(self.gaps and len(self.curve()) > 1)
        short += [f"The knee is the largest limit tried{where}: larger limits may be faster."] * bool(ends)
        parts = [self.sentence, "", self.about, "", *table, "", *_KEY, "", self.standstill, *self.gains(), *short, ""]
        knobs = ", ".join(f"{name}={value}" for name, value in knee.knobs.items())
        parts += [f"Options of {self.trainer} for that setting: {knobs}.", knee.defaults, "", BLIND]
        return wrap(parts, kept=table)

    def row(self) -> dict[str, Any]:
        """The answer of `advise` as a JSON object."""
        low, high = self.between
        names = ("trainer", "knob", "about", "share", "realizations", "updates", "sentence", "standstill", "gaps")
        own = {name: getattr(self, name) for name in names}
        rows = [each.row() for each in self.settings]
        knee = {"limit": self.knee.limit, "low": low, "high": high}
        return dict(plain({**own, "knee": knee, "settings": rows, "gains": self.gains(), "unknown": BLIND}))


_KEY = (
    "*           knee: the smallest limit that is nearly as fast as the fastest",
    "wait, idle  seconds per update without training (trainer) or decoding (slot)",
    "stale, p99  mean and 99th percentile of staleness in versions, per token",
    "slot-h      slot-hours per 1,000 updates: machine-hours x slots_per_machine",
    "± and []    95 % intervals over realizations",
)
_SHORT = "Some settings have not reached their steady state in so few updates: raise --updates."


def _signed(numbers: tuple[float, float, float], unit: str) -> str:
    mean, low, high = (x if abs(x) > 1e-9 else 0.0 for x in numbers)
    apart = "" if low > 0.0 or high < 0.0 or low == high == 0.0 else ", not significantly different"
    digits = ",.0f" if abs(mean) >= 100.0 else ".3g"
    return f"{mean:+{digits}} {unit} [{low:+{digits}}, {high:+{digits}}]{apart}"
