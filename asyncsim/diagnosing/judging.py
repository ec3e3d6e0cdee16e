"""`judge_runs`: is setting B better than setting A, from the logs of a few finished runs of each.

Axes: `n` runs of an arm, `W` windows of equal length along the stretch that is read.
"""

from __future__ import annotations

import fnmatch
import glob
import itertools
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special

from asyncsim.base import calls, checks, files
from asyncsim.base.judgment import UNKNOWN, Judgment, RunsOfArm
from asyncsim.base.quantiles import critical
from asyncsim.comparing import intervals
from asyncsim.comparing.judging import BOUNDS, between_runs, inside_runs
from asyncsim.diagnosing import aliases
from asyncsim.diagnosing.telemetry import Setup, read
from asyncsim.schedules import _log_files, _log_places
from asyncsim.validation.judging import missed_rate

ELAPSED = {"_runtime": 0.0, "_timestamp": 1.0}
"""W&B's clocks of a row, in seconds; 1 where the first row is the origin."""
STEP_SECONDS = ("timing_s/step", "perf/time_per_step", "time/step", "timing/train/total_step_time")
"""Seconds of a step: verl twice, prime-rl, NeMo-RL."""
COUNTERS = ("Step", "_step")
"""W&B's counts of logging calls, which are no steps of a trainer."""
ALIKE = 8
"""Values in a row that two independent runs do not share."""
POWER, SURE = 0.9, 0.95
"""Of plans; and the probability with which the true spread lies below the one that a plan counts with."""
SEEDS = (3, 5, 10)
"""Of plans where no spread is known."""
MOST = 100_000
SLACK, PACE = 0.02, 1.1
"""Share of the range by which lengths may differ unsaid, and the ratio of seconds a step likewise."""
DRAWN = 60
"""Windows of a curve in a picture, at most."""


class Curve(NamedTuple):
    """One run: its metric `y` at steps and at places `x` of the axis, elapsed seconds there (None: no clock)."""

    name: str
    column: str
    scope: str
    counted: str
    step: np.ndarray
    x: np.ndarray
    y: np.ndarray
    seconds: np.ndarray | None

    def windows(self, low: float, high: float, count: int) -> np.ndarray:
        """Means over windows of equal length, `[W]`: areas below straight lines between the logged values."""
        edges = np.linspace(low, high, count + 1)
        at = np.union1d(self.x, edges)
        value = np.interp(at, self.x, self.y)
        area = np.append(0.0, np.cumsum(np.diff(at) * (value[1:] + value[:-1]) / 2.0))
        return np.asarray(np.diff(np.interp(edges, at, area)) / (edges[1] - edges[0]))


@calls.named
def judge_runs(
    a: Any,
    b: Any = None,
    *,
    metric: str = "reward",
    over: str = "steps",
    last: float = 0.2,
    at: float | None = None,
    better: str = "higher",
    error: float = 0.05,
    within: float | None = None,
    run: Any = None,
    seed_spread: float | None = None,
    pilot: Any = (),
) -> Judgment:
    """Say whether setting B is better than setting A on fresh seeds, from logs of finished runs of each.

    A run is one number: the mean of its metric over the last share of the steps, or seconds, that all runs have. The
    interval of the difference is between runs, never between steps (`comparing.judging.between_runs`). With one run of
    an arm the spread between seeds is unknown and the word is "cannot tell"; what is said then is whether these two
    runs differ beyond their own noise (`comparing.judging.inside_runs`), and which spread would overturn that.

    Arguments: `a`, `b`: the runs of an arm, each a path, a pattern of paths, or columns by name; a list of them for
    several seeds. `metric`: a quantity of docs/diagnose.md or a column. `over`: "steps", "seconds", or a column that
    never falls, such as tokens. `last`: share in (0, 1] of the common range; 1 is the area below the curve. `at`: where
    the stretch ends (default: with the shortest run). `better`: "higher" or "lower". `error`: of a wrong word. `within`
    > 0: differences that do not matter, in units of the metric, without which no arm is equal. `run`: the run, or a
    pattern of runs, where a W&B file has several; two of them are for A and for B, which may then be the same file.
    `seed_spread` > 0: known standard deviation between seeds of this number. `pilot`: runs of one setting, two or more,
    that tell it. Returns a `Judgment`. Raises `InputError` for another metric or unit of steps in one of the runs, a
    run that is given twice, a step or clock that goes back, or a constant column. Assumes independent seeds, numbers of
    runs near normal, and with a spread that is given the same spread in both arms. Source: this package.

    >>> import numpy as np, asyncsim as sim
    >>> draw = np.random.default_rng(0).normal
    >>> runs = [{"step": np.arange(100), "reward": draw(level, 0.05, 100)} for level in (0.50, 0.51, 0.60, 0.61)]
    >>> sim.judge_runs(runs[:2], runs[2:]).word, sim.judge_runs(runs[0], runs[2]).word
    ('better', 'cannot tell')
    """
    checks.one_of("better", better, ("higher", "lower"), "say which values are good")
    for name, value in (("last", last), ("error", error)):
        checks.real(name, value, "give a share", 0.0, 1.0, open_low=True)
    checks.require(error < 1.0, "error", error, "below 1", "state the error rate you accept")
    for name, given in (("within", within), ("seed_spread", seed_spread)):
        if given is not None:
            checks.real(name, given, "give a positive number in units of the metric", 0.0, open_low=True)
    both = seed_spread is not None and bool(_several(pilot))
    checks.require(not both, "seed_spread", seed_spread, "left out beside pilot", "give one of the two")
    patterns = list(run) if isinstance(run, (list, tuple)) else [run, run]
    checks.require(len(patterns) == 2, "run", run, "one pattern, or two", "give one for A and one for B")
    checks.require(b is not None or patterns[0] != patterns[1], "b", None, "the runs of B", "give files of both arms")
    given = zip("ab", (a, a if b is None else b), patterns, strict=True)
    groups = [_curves(name, runs, pattern, metric, over) for name, runs, pattern in given]
    groups.append(_curves("pilot", pilot, patterns[0], metric, over) if _several(pilot) else [])
    curves, notes = [curve for group in groups for curve in group], _refuse_mixed(groups, over, at)
    first, end = max(c.x[0] for c in curves), min(c.x[-1] for c in curves)
    checks.require(end > first, over, [first, end], "shared by all runs", "give runs that have a stretch in common")
    longest = max(c.x[-1] for c in curves)
    if at is None and longest > end + SLACK * (end - first):
        notes.append(f"the runs end between {over} {end:.6g} and {longest:.6g}; all are read up to the first of these")
    remedy = f"end the stretch where all runs are, from {first:g} to {end:g}"
    stop = end if at is None else checks.real("at", at, remedy, first, end, open_low=True)
    start = stop - last * (stop - first)
    points = min(int(((c.x >= start) & (c.x <= stop)).sum()) for c in curves)
    checks.require(points > 0, "last", last, "a stretch in which every run logged the metric", "raise last")
    count = max((w for w in BOUNDS if 2 * w <= points), default=min(BOUNDS))
    windows = [[c.windows(start, stop, count) for c in group] for group in groups]
    numbers = [np.array([w.mean() for w in group]) for group in windows]
    found = _between(numbers, seed_spread, error)
    word = _word(float(found.difference), found.half, within, better)
    inside, pair = None, len(numbers[0]) == len(numbers[1]) == 1
    if pair and points >= min(BOUNDS):
        inside = float(inside_runs(windows[1][0] - windows[0][0]).half)
    elif pair:
        notes.append(
            f"{min(BOUNDS)} values in the stretch tell whether two runs differ, and here are {points}: raise last"
        )
    seconds = [_seconds(group, stop) for group in groups[:2]]
    notes += _cautions(numbers, seconds, word, over, error)
    arms = [
        RunsOfArm(letter, tuple(c.name for c in group), own, mean, *_drawn(group, first, end))
        for letter, group, own, mean in zip("AB", groups, numbers, seconds, strict=False)
    ]
    effect = abs(found.difference) if within is None else within
    plan = _plan(effect, found, error, [len(x) for x in numbers[:2]], seconds) if word == UNKNOWN else ()
    return Judgment(
        metric=curves[0].column, axis=over, start=start, stop=stop, last=last, better=better, error=error, within=within,
        arms=(arms[0], arms[1]), word=word, **found._asdict(), inside=inside,
        overturned=abs(found.difference) / (critical(error) * _scale(numbers)), effect=effect, power=POWER, plan=plan,
        notes=tuple(notes),
    )  # fmt: skip


class Between(NamedTuple):
    """Fields of a `Judgment`."""

    difference: float
    half: float
    freedom: float
    spread: float
    basis: str


def _scale(numbers: list[np.ndarray]) -> float:
    """Standard error of a difference over the spread between seeds."""
    return math.sqrt(1.0 / len(numbers[0]) + 1.0 / len(numbers[1]))


def _between(numbers: list[np.ndarray], seed_spread: float | None, error: float) -> Between:
    """The difference of the arms with its interval between seeds, NaN where their spread is not known."""
    a, b, pilot = numbers
    difference = float(b.mean() - a.mean())
    if seed_spread is not None:
        basis = f"The spread between seeds, {seed_spread:.3g}, is taken as exact and as that of both arms."
        return Between(difference, critical(error) * seed_spread * _scale(numbers), math.inf, seed_spread, basis)
    if len(pilot):
        checks.require(len(pilot) > 1, "pilot", len(pilot), "two runs or more", "give more runs of one setting")
        spread, freedom = float(pilot.std(ddof=1)), len(pilot) - 1.0
        basis = (
            f"The spread between seeds, {spread:.3g} of {len(pilot)} pilot runs, is assumed to be that of both arms."
        )
        return Between(difference, critical(error, freedom) * spread * _scale(numbers), freedom, spread, basis)
    if min(len(a), len(b)) < 2:
        basis = "One run of an arm does not tell how much seeds differ."
        return Between(difference, math.nan, math.nan, math.nan, basis)
    _, half, freedom = map(float, between_runs(a, b, error))
    spread = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2.0)
    basis = f"Interval between runs, Welch's t with {freedom:.2g} degrees of freedom; means of runs are assumed near normal."
    if half == 0.0:
        half, basis = math.nan, "All runs of an arm have the same number, so their spread is not known."
    return Between(difference, half, freedom, spread, basis)


def _word(difference: float, half: float, within: float | None, better: str) -> str:
    if within is not None and abs(difference) + half < within:
        return "equal"
    if not abs(difference) > half:
        return UNKNOWN
    return "better" if (difference > 0.0) == (better == "higher") else "worse"


@lru_cache(maxsize=1024)
def findable(seeds: int, error: float) -> float:
    """Difference over the spread between seeds that Welch's interval of so many seeds of each arm finds, power 0.9.

    The root of P(T <= t_f(1 - error/2)) = 0.1, T noncentral t of shift difference/(spread sqrt(2/n)), f = 2n - 2.

    >>> round(findable(17, 0.05), 2)
    1.15
    """
    freedom = 2.0 * seeds - 2.0
    bound = critical(error, freedom)
    low, high = 0.0, 4.0 * bound + 8.0
    shift = optimize.brentq(lambda x: missed_rate(x, 1.0, 0.0, bound, freedom) - (1.0 - POWER), low, high, xtol=1e-6)
    return float(shift) * math.sqrt(2.0 / seeds)


def _enough(ratio: float, error: float) -> int:
    """Seeds of each arm that find a difference of so many spreads, at most `MOST`."""
    low, high = 1, 2
    while high < MOST and findable(high, error) > ratio:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if findable(middle, error) <= ratio else (middle, high)
    return min(high, MOST)


def _plan(
    effect: float, found: Between, error: float, counts: list[int], seconds: list[float]
) -> tuple[tuple[int, float, float], ...]:
    """Seeds of each arm, the spread with which they suffice, and hours of the runs that are still to be made."""
    if effect == 0.0:
        return ()
    if math.isnan(found.spread):
        rows = [(n, effect / findable(n, error)) for n in SEEDS]
    else:
        wide = (
            math.sqrt(found.freedom / float(special.chdtri(found.freedom, SURE))) if found.freedom < math.inf else 1.0
        )
        spreads = dict.fromkeys((found.spread, found.spread * wide))
        rows = [(_enough(effect / spread, error), spread) for spread in spreads if spread > 0.0]
    more = [(sum(max(0, n - k) * s for k, s in zip(counts, seconds, strict=True)) / 3600.0) for n, _ in rows]
    return tuple((n, spread, hours) for (n, spread), hours in zip(rows, more, strict=True))


def _cautions(numbers: list[np.ndarray], seconds: list[float], word: str, over: str, error: float) -> list[str]:
    """What a reader has to know of these runs."""
    notes, few = [], min(map(len, numbers[:2]))
    slower = seconds[1] / seconds[0] if min(seconds) > 0.0 else math.nan
    if over == "steps" and abs(math.log(slower)) > math.log(PACE):
        notes.append(f"B takes {slower:.2f} times the seconds of A to the same step; --over seconds counts them")
    for letter, own in zip("AB", numbers, strict=False):
        if intervals.heavy(own):
            notes.append(
                f"one run of {letter} makes most of its spread: look at it, since few runs do not tell such a mean"
            )
    if few > 1 and word != UNKNOWN:
        notes.append(
            f"an event, such as a collapse, that none of {few} runs shows may strike up to {1.0 - error ** (1.0 / few):.0%} "
            "of fresh runs; it is not counted in"
        )
    return notes


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _curves(field: str, given: Any, pattern: str | None, metric: str, over: str) -> list[Curve]:
    """The runs of an arm: each file of a pattern, and each run of a W&B file that fits."""
    found = []
    for source in _several(given):
        paths: list[Any] = [source]
        if isinstance(source, (str, Path)) and glob.has_magic(str(source)) and not Path(source).exists():
            paths = sorted(glob.glob(str(source)))
            checks.require(bool(paths), field, str(source), "a pattern that some file fits", "correct the pattern")
        for path in paths:
            checks.require(
                isinstance(path, (str, Path, Mapping)), field, path, "columns or a path", "give the log of a run"
            )
            names = _names(path)
            runs = list(dict.fromkeys(name.rpartition(" - ")[0] for name in names if " - " in name))
            fits: list[str | None] = [
                each for each in runs if pattern in (None, each) or fnmatch.fnmatch(each, str(pattern))
            ]
            if runs and pattern is None and len(runs) > 1:
                checks.one_of("run", None, runs, "name the runs of A and of B (--run twice; patterns such as 'grpo*')")
            checks.require(
                bool(fits) or pattern is None, "run", pattern, f"one of {', '.join(runs)}", "correct the name"
            )
            label = Path(path).name if not isinstance(path, Mapping) else f"{field}[{len(found)}]"
            for each in fits or [None]:
                found.append(_curve(f"{label}: {each}" if len(runs) > 1 else label, path, names, each, metric, over))
    checks.require(bool(found), field, given, "one run or more", "give the log of a run")
    return found


def _names(source: Any) -> list[str]:
    if isinstance(source, Mapping):
        return [str(name) for name in source]
    names = _log_files.read(_log_places.found(Path(source), ""), (), files.Budget(Path(source))).names
    return [name for name in names if name != _log_files.NUMBERED]


def _curve(label: str, source: Any, names: Sequence[str], run: str | None, metric: str, over: str) -> Curve:
    """One run, its metric at steps, and where that is on the axis."""
    prefix = "" if run is None else f"{run} - "
    own = [name.removeprefix(prefix) for name in names if name.startswith(prefix) or " - " not in name]

    def read_as(column: str) -> tuple[np.ndarray, np.ndarray, Any]:
        """Steps at which a column has a number, and its numbers."""
        full = prefix + column if prefix + column in names else column
        known = column == metric and metric not in own
        log = read(source, None, Setup(), None if known else {"reward": full}, run)
        quantity = metric if known else "reward"
        step, values = log.quantities["step"], log.quantities[quantity]
        kept = np.isfinite(values) & np.isfinite(step)
        about = (
            log.names.get(quantity, column),
            log.scope.get(quantity, "") if known else "",
            log.names.get("step", "row"),
        )
        checks.require(
            bool(kept.sum() > 1), f"column {about[0]} of {label}", int(kept.sum()), "two numbers or more", "log it"
        )
        return step[kept], values[kept], about

    meant = [name for name in own if aliases.steps().get(aliases.plain(name), ("",))[0] == metric]
    if not meant and metric not in own:
        checks.one_of(f"metric of {label}", metric, own, "give a column, or a quantity of docs/diagnose.md")
    step, y, (column, scope, counted) = read_as(metric)
    moves = float(np.ptp(y)) > 0.0
    checks.require(
        moves, f"column {column} of {label}", float(y[0]), "not the same in every row", "give a metric that moves"
    )
    clock, seconds = next((name for name in (*ELAPSED, *STEP_SECONDS) if name in own), None), None
    if clock is not None:
        at, values, _ = read_as(clock)
        values = np.cumsum(values) if clock in STEP_SECONDS else values - ELAPSED[clock] * values[0]
        _refuse_back(clock, label, values)
        seconds = np.interp(step, at, values)
    x = step
    if over == "seconds":
        bound = f"a run with a clock: {', '.join((*ELAPSED, *STEP_SECONDS))}"
        checks.require(
            seconds is not None, f"over of {label}", over, bound, "export one of these columns, or over='steps'"
        )
        x = seconds  # type: ignore[assignment]
    elif over != "steps":
        checks.one_of(f"over of {label}", over, ["steps", "seconds", *own], "name an axis")
        at, values, _ = read_as(over)
        _refuse_back(over, label, values)
        x = np.interp(step, at, values)
    # Two rows of one second, or one number of tokens: the first stands.
    x, first = np.unique(x, return_index=True)
    checks.require(len(x) > 1, f"{over} of {label}", float(x[0]), "an axis that moves", "name another axis")
    return Curve(label, column, scope, counted, step[first], x, y[first], None if seconds is None else seconds[first])


def _refuse_back(name: str, label: str, values: np.ndarray) -> None:
    back = np.flatnonzero(np.diff(values) < 0.0)
    row = int(back[0]) + 1 if len(back) else 0
    remedy = "cut the log where the run was resumed"
    checks.require(
        not len(back),
        f"column {name} of {label}, number {row + 1}",
        float(values[row]),
        "not below the one before",
        remedy,
    )


def _refuse_mixed(groups: list[list[Curve]], over: str, at: float | None) -> list[str]:
    """Refuse runs that are no independent runs of one metric on one axis; notes on what may be another thing."""
    arms = [*groups[0], *groups[1]]
    base, notes = arms[0], []
    for one, two in itertools.combinations(arms, 2):
        _, i, j = np.intersect1d(one.step, two.step, return_indices=True)
        same = one.y[i] == two.y[j]
        copied = len(same) >= ALIKE and bool(same.all())
        names = f"{one.name} and {two.name}"
        checks.require(not copied, "runs", names, "two runs: they have the same numbers", "give each run once")
        if len(same) > ALIKE and same[:ALIKE].all():
            notes.append(
                f"{names} share their first {int(np.argmin(same))} values: their seeds do not vary what came before"
            )
    for each in (*arms[1:], *groups[2]):
        bound = f"{base.column} ({base.scope}), as {base.name} has"
        other = f"{each.column} ({each.scope})"
        checks.require(each.scope == base.scope, f"metric of {each.name}", other, bound, "name one column with metric")
        if each.column != base.column:
            notes.append(f"the metric is {base.column} in {base.name} and {each.column} in {each.name}")
        if over == "steps" and at is None:
            mixed = (each.counted in COUNTERS) != (base.counted in COUNTERS)
            pace = [float(np.median(np.diff(c.x))) for c in (base, each)]
            rows = len(base.x) / len(each.x)
            other = max(pace) >= 2.0 * min(pace) and 1.0 / 1.5 < rows < 1.5
            remedy = "export the same step column of both, or say with at that the unit is the same"
            value = f"{each.counted}, {pace[1]:g} between rows"
            bound = f"the unit of {base.name}: {base.counted}, {pace[0]:g} between rows"
            checks.require(not (mixed or other), f"steps of {each.name}", value, bound, remedy)
    return notes


def _seconds(group: list[Curve], stop: float) -> float:
    """Mean seconds of a run until it was read; NaN where a run has no clock."""
    return float(np.mean([math.nan if c.seconds is None else np.interp(stop, c.x, c.seconds) for c in group]))


def _drawn(group: list[Curve], first: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Curves of a picture `[n, K]`, and the middles `[K]` of their windows."""
    count = min([DRAWN, *(len(c.x) for c in group)])
    edges = np.linspace(first, end, count + 1)
    return np.array([c.windows(first, end, count) for c in group]), (edges[1:] + edges[:-1]) / 2.0
