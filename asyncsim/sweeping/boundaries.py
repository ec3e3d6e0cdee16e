"""`boundary`: the critical value of a knob at which replicates start to fail, by bisection with an error rate."""

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asyncsim.base import calls, checks
from asyncsim.base.answers import Boundary, unlearned
from asyncsim.base.notation import TRAINED
from asyncsim.base.progress import Progress
from asyncsim.base.trace import Trace
from asyncsim.comparing import intervals, settings
from asyncsim.comparing.arms import named, recorded, refuse
from asyncsim.comparing.deciding import seed_of
from asyncsim.comparing.readings import FALLS, Reading
from asyncsim.comparing.tuning import knob_of, set_knob, spread
from asyncsim.running.running import run
from asyncsim.running.spec import Spec
from asyncsim.sweeping import grids
from asyncsim.sweeping.plans import predicted

INSIDE = 7
"""Number of values tried between two ends in one run."""
FIRST = 16
"""Replicates per value at its first look; every further look doubles them."""
STAGE = 3
"""Stage of the seeds, unused by sweeps, tuning and comparisons."""
EVENTS = ("collapse", "fall", "reached")


@calls.named
def boundary(
    spec: Spec | Mapping[str, Spec],
    knob: str,
    *,
    low: float,
    high: float,
    along: Mapping[str, Any] | None = None,
    metric: str = TRAINED,
    over: str = "collapse",
    target: float | None = None,
    better: str | None = None,
    share: float = 0.5,
    ratio: float = 1.05,
    error: float = 0.05,
    claim: str | None = None,
    at: Mapping[str, Any] | None = None,
    max_replicates: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Boundary:
    """Find the value of a setting at which a given share of replicates collapses or reaches a target, for every arm.

    With p(x) the probability of the event at value x of the knob, assumed to rise with x, the boundary is the x* with
    p(x*) = share. Bisection keeps a bracket: p is significantly below the share at its low end and above it at its high
    end. Seven values between them run as replicates of one run, doubled until the interval of each p excludes the
    share. It ends at high/low <= ratio, or if values between the ends are still undecided at `max_replicates`.

    Arguments: `spec`, or arms by name as in `compare`, a row for each; `knob`, such as "lr" or "sgd.lr", or a setting
    that is not a knob: "staleness", "system.load", "task.horizon", with one run per value; `low`, `high`, values below
    and above every boundary. If both are integers and the setting is not a knob, integers are bisected down to two
    neighbors: the share is significantly below at the first and above at the second. `along`, a grid of other settings
    as in `sweep`, such as {"staleness": [0, 4, 16]}; `metric`, whose curve is read; `over`, the event, "collapse",
    "fall" or "reached"; `target` and `better`, as in `compare`; `share`, of replicates with the event at the boundary;
    `ratio`, high/low at which the search ends; `error`, probability that a bracket misses its boundary; `claim`, a
    claim that predicts the boundary, `at` its parameters that the grid lacks; `max_replicates` per value; `seed`;
    `progress`. Returns a `Boundary`: print it, `.table()`, `sim.plot(result)`; where the low end is not below or the
    high end not above, its row has the shares at both ends and says what to widen. Assumes that p rises with the knob,
    and independent replicates. Source: this package; for intervals `comparing.intervals.share`.

    >>> import asyncsim as sim
    >>> task, update = sim.tasks.quadratic((1.0,), noise=0.0, start=1.0), sim.chain(sim.updates.sgd(0.1))
    >>> spec = sim.Spec(task, sim.schedules.fixed(1), sim.methods.gradient(), update, samples_per_group=1, updates=1000)
    >>> found = boundary(spec, "lr", low=0.6, high=2.0, metric="exact_return", over="reached", better="lower",
    ...                  target=-1e4, claim="staleness/stability-boundary",
    ...                  at={"staleness": 1, "curvatures": (1.0,)})
    >>> row = found.rows[0]
    >>> row["low"] < row["predicted"] < row["high"]
    True
    """
    checks.one_of("over", over, EVENTS, "name an event; a boundary is where its share crosses a half")
    reading = Reading(metric, over, target, better)
    remedy = "give values below and above the boundary"
    rides = not (knob in settings.FIELDS or knob == "staleness" or knob.startswith(grids.STRUCTURES))
    arms = named([spec]) if isinstance(spec, Mapping) else {"": spec}
    if rides and not all(settings.has_knob(each, knob) for each in arms.values()):
        made = [(p, calls.of(getattr(each, p))) for p in ("system", "method", "task") for each in arms.values()]
        remedy = checks.hint(knob, ["lr", "staleness", *settings.FIELDS], "name lr, or a setting as task.horizon")
        remedy = next((f"write {part}.{knob}" for part, call in made if call and knob in call.arguments), remedy)
        raise checks.InputError("knob", knob, "one knob of the spec, or a setting of one of its parts", remedy)
    whole = not rides and all(isinstance(each, (int, np.integer)) for each in (low, high))
    low = checks.real("low", low, remedy, 0.0, open_low=not whole)
    high = checks.real("high", high, remedy, low, open_low=True)
    for name, value, remedy in (("share", share, "give a share below 1"), ("error", error, "state your error rate")):
        checks.rate(name, value, remedy)
    checks.real("ratio", ratio, "give the ratio of the ends that is narrow enough", 1.0, open_low=True)
    checks.integer("seed", seed, 0, "give a non-negative integer seed", 2**63 - 1)
    checks.integer("max_replicates", max_replicates, FIRST, f"looks begin at {FIRST} replicates")
    cells = list[grids.Cell]()
    for name, arm in arms.items():
        grid = grids.grid_of(arm, along) if along else grids.Grid({}, {}, lambda _, arm=arm: arm)  # type: ignore[misc]
        checks.require(knob not in grid.names, "along", knob, "another setting than the knob", "leave it out")
        settings.once({each: settings.grid_knob(arm, each) for each in (*grid.knobs, *[knob] * rides)})
        numbers: Any = {other: dict(zip(values, values, strict=True)) for other, values in grid.knobs.items()}
        every = grids.Grid({**grid.structures, **numbers}, {}, grid.build).cells()
        cells += [grids.Cell({**({"arm": name} if name else {}), **each.setting}, each.subject) for each in every]
    search = Search(knob, reading, share, ratio, error, max_replicates, seed, rides, whole)
    # A claim that does not fit is refused before any run.
    refuse([reading], ((x.name, x.subject.replace(diagnostics=recorded(metric)[0])) for x in cells))
    for cell in cells if knob == "staleness" else []:
        batches = (cell.subject.updates - 1) // cell.subject.passes + 1
        bound, longer = f"below the {batches} batches that a run trains on", f"give high={batches - 1}, or more updates"
        checks.require(high < batches, "high", high, bound, longer)
    for cell in cells if not rides else []:
        for end in (low, high):
            search.at(cell.subject, end)
    beside = [{"predicted": predicted(claim, cell.setting, at or {})} if claim else {} for cell in cells]
    rows = []
    with Progress("boundaries", len(cells), progress) as shown:
        for cell, prediction in zip(cells, beside, strict=True):
            rows.append(search.row(cell.subject, cell.setting, low, high) | prediction)
            shown.add()
    return Boundary(knob, tuple(cells[0].setting), tuple(rows), str(reading), share, error, claim or "")


@dataclass(frozen=True)
class Search:
    """One bisection for the boundary value of a setting; its fields are arguments of `boundary`."""

    knob: str
    reading: Reading
    share: float
    ratio: float
    error: float
    most: int
    seed: int
    rides: bool = True
    whole: bool = False
    events: dict[float, tuple[int, int]] = field(default_factory=dict)
    """How many replicates had the event at each value tried, of how many."""
    early: Counter[float] = field(default_factory=Counter)
    """How many of these never learned."""
    learned: Counter[bool] = field(default_factory=Counter)
    """How many runs of all values learned, and how many did not."""

    def at(self, spec: Spec, value: float) -> Spec:
        """The spec with the searched setting, which is not vectorized, at a value."""
        return settings.with_setting(spec, self.knob, round(value) if self.whole else float(value))

    def narrow(self, low: float, high: float) -> bool:
        """Whether the bracket [low, high] is narrow enough; integers have to be neighbors."""
        return high - low <= 1 if self.whole else high / low <= self.ratio

    def inside(self, low: float, high: float) -> np.ndarray:
        """Values of the searched setting to try next between the ends of its bracket."""
        if not self.whole:
            return np.geomspace(low, high, INSIDE + 2)[1:-1]
        values = np.unique(np.round(np.geomspace(low + 1.0, high + 1.0, INSIDE + 2)[1:-1] - 1.0))
        return values[(values > low) & (values < high)]

    def row(self, spec: Spec, setting: Mapping[str, Any], low: float, high: float) -> dict[str, Any]:
        """Find the bracket of the boundary at one structure of the grid."""
        for counted in (self.events, self.early, self.learned):
            counted.clear()
        spec = spec.replace(diagnostics=recorded(self.reading.metric)[0], block=None, realizations=None)
        octaves = high - low if self.whole else (math.log(high) - math.log(low)) / math.log(self.ratio)
        # Where values stay undecided, a round narrows less than its share.
        rounds = 2 + max(0, math.ceil(math.log(octaves) / math.log(INSIDE + 1.0)))
        level = self.error / (2 + INSIDE * rounds)
        ends, used = self._sides(spec, np.array([low, high]), level)
        if (ends[0], ends[1]) != (-1, 1):
            words = [f"{('below', 'undecided at', 'above')[side + 1]} {self.share:g}" for side in ends]
            at = [f"at {name}={x:g} ({self.told(x)})" for name, x in (("low", low), ("high", high))]
            both = f"{words[0]} at both ends, {at[0]} and {at[1]}" if words[0] == words[1] else ""
            unsure = "; an interval of these counts still includes the share: raise max_replicates" * int(0 in ends)
            remedy = self._remedy(spec, low, high, "low" if ends[0] != -1 else "high") + unsure
            none = f"the share is {both or f'{words[0]} {at[0]} and {words[1]} {at[1]}'}; {remedy}"
            nan, counts = math.nan, {"events_low": self.told(low), "events_high": self.told(high)}
            return {**setting, "low": nan, "high": nan, **counts, "narrow": False, "replicates": used, "none": none}
        for _ in range(rounds):
            if self.narrow(low, high):
                break
            values = self.inside(low, high)
            sides, count = self._sides(spec, values, level)
            used += count
            before = (low, high)
            # p rises: everything up to the last value below is below.
            low = max([low, *values[sides < 0].tolist()])
            high = min([high, *values[(sides > 0) & (values > low)].tolist()])
            if (low, high) == before:
                break
        found: dict[str, Any] = {"low": float(low), "high": float(high)}
        found |= {f"events_{name}": self.told(value) for name, value in found.items()}
        return {**setting, **found, "narrow": self.narrow(low, high), "replicates": used}

    def told(self, value: float) -> str | None:
        """Describe how many replicates had the event at a value, and how many of these never learned."""
        early = f", {self.early[value]} of which never learned" * bool(self.early[value])
        return "{} of {}".format(*self.events[value]) + early if value in self.events else None

    def _remedy(self, spec: Spec, low: float, high: float, end: str) -> str:
        """The remedy for an end on the wrong side, from counts between the ends and, of a knob, far beyond this end."""
        beyond, last = [high * 10.0, high * 100.0] if end == "high" else [low / 100.0, low / 10.0], end == "high"
        values, none = self.inside(low, high), checks.advice(f"{self.reading.over}-{end}", "nowhere")
        far = min(4.0 * high, (spec.updates - 1) // spec.passes) if self.knob == "staleness" else 4.0 * high
        usual = f"give high={far:g}" if last else f"give low={low // 4 if self.whole else low / 4:g}" if low else none
        usual = "give more updates, which allow a larger high" if last and far <= high else usual
        if self.rides:
            with suppress(checks.InputError):  # of a share, which has an upper bound
                settings.with_setting(spec, self.knob, max(beyond))
                values = np.unique([*values, *beyond])
        if not len(values):
            return usual
        counts, half = self._events(spec, values, FIRST, 0), self.share * FIRST
        # A low end lies before a rise, a high one may lie on top of one. Within a standard error the next call refuses.
        best = counts.argmax() if last else counts[: max(1, len(counts) - 1)].argmin()
        least = math.sqrt(half * (1.0 - self.share))
        below = counts[best] < max(half - least, 1.0) and counts[best:].max() > half
        fits = counts[best] > min(half + least, FIRST - 1) if last else below
        each = ", ".join(f"{value:.4g}: {count:.0f}" for value, count in zip(values, counts, strict=True))
        remedy = none if self.rides else usual
        top, place = max((counts[best] / FIRST, values[best]), (self.events[high][0] / self.events[high][1], high))
        if self.learned and not self.learned[True]:
            remedy = unlearned(spec.fitted_task.describe(), some=False)
        elif fits:
            turns = "the share does not rise all the way, so " * bool(low < values[best] < high)
            remedy = f"{turns}give {end}={values[best]:.4g}"
        elif last and top > 2 / FIRST:
            wider = f"take more staleness, or give share={top / 2.0:.2g} and high={place:.4g}"
            remedy = f"no share is clearly above; it is largest at {place:.4g}: {wider}"
        return f"{remedy}; of {FIRST} replicates at other values, {each}"

    def _sides(self, spec: Spec, values: np.ndarray, level: float) -> tuple[np.ndarray, int]:
        """-1 if p is significantly below the share, 1 if above, 0 if undecided at the cap; and the replicates used."""
        sides, used, events, trials = np.zeros(len(values), dtype=int), 0, np.zeros(len(values)), 0
        count, look = FIRST, 0
        going = np.arange(len(values))
        while len(going) and trials < self.most:
            events[going] += self._events(spec, values[going], count, look)
            trials += count
            used += count * len(going)
            for k in going:
                inside = intervals.share(int(events[k]), trials, level)
                sides[k] = 1 if inside.low > self.share else -1 if inside.high < self.share else 0
                self.events[float(values[k])] = int(events[k]), trials
            going = np.flatnonzero(sides == 0)
            count, look = min(trials, self.most - trials), look + 1
        return sides, used

    def _events(self, spec: Spec, values: np.ndarray, count: int, look: int) -> np.ndarray:
        """Count the replicates with the event among `count` fresh ones, for each value."""
        if not self.rides:
            specs = [self.at(spec, value).replace(replicates=count) for value in values]
            traces = [run(spread(each), seed_of(self.seed, STAGE, look), progress=False) for each in specs]
            return np.concatenate([self._counted(values[[k]], trace) for k, trace in enumerate(traces)])
        every = tuple(float(value) for value in np.repeat(values, count))
        tried = set_knob(spec, knob_of(spec, self.knob, "knob", "the spec"), every, len(every))
        return self._counted(values, run(spread(tried), seed_of(self.seed, STAGE, look), progress=False))

    def _counted(self, values: np.ndarray, trace: Trace) -> np.ndarray:
        """Count the replicates with the event in equal parts of a run, one for each value."""
        numbers = self.reading.numbers(trace, parts=len(values)).reshape(len(values), -1)
        if self.reading.over in FALLS:
            never = self.reading.unlearned(trace, len(values)).reshape(numbers.shape)
            self.early.update(dict(zip(values.tolist(), (numbers * never).sum(1).astype(int).tolist(), strict=True)))
            self.learned.update((~never).ravel().tolist())
        return np.asarray(numbers.sum(1))
