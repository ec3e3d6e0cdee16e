"""`judge_runs`: is setting B better than setting A, from the logs of a few finished runs of each.

Axes: `n` runs of an arm, `W` windows of equal length along the stretch that is read.
"""

import fnmatch
import glob
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special

from asyncsim.base import calls, checks, files, notation
from asyncsim.base.judgment import UNKNOWN, Judgment, RunsOfArm
from asyncsim.base.quantiles import critical
from asyncsim.comparing.judging import BOUNDS, between_runs, inside_runs
from asyncsim.diagnosing import aliases
from asyncsim.diagnosing.telemetry import BOARD, Setup, Telemetry, declarable, read, refuse_runs
from asyncsim.schedules import _log_files, _log_places, _log_stacks
from asyncsim.validation.judging import missed_rate

COUNTERS = ("Step", "_step")
"""W&B's counts of logging calls, which are no steps of a trainer."""
GOOD = re.compile("reward|score|acc|return|pass|solve|success|win|throughput|per_sec")
"""Names of metrics of which higher values are better for sure."""
ALIKE = 8
"""Values in a row that two independent runs do not share."""
SURE = 0.95
"""Probability with which the true spread lies below the one that a plan counts with."""
SEEDS = (3, 5, 10)
"""Of plans where no spread is known."""
MOST = 10_000
"""Seeds from which on a plan is one for normal numbers."""
SLACK, PACE, STRIDE = 0.02, 1.1, 2.0
"""Share of the range, ratio of seconds a step, ratio of steps a row: from there on two runs are said to differ."""
DRAWN = 60
"""Windows of a curve in a picture, at most."""


class Curve(NamedTuple):
    """One run: its metric `y` by step and by position `x` on the axis, and elapsed seconds there (None: no clock)."""

    name: str
    column: str
    scope: str
    counted: str
    step: np.ndarray
    x: np.ndarray
    y: np.ndarray
    seconds: np.ndarray | None
    own: Sequence[str] = ()
    end: float = -np.inf

    def windows(self, low: float, high: float, count: int) -> np.ndarray:
        """Means of the metric over windows of equal length, `[W]`, from linear interpolation of logged values."""
        edges = np.linspace(low, high, count + 1)
        at = np.union1d(self.x, edges)
        value = np.interp(at, self.x, self.y)
        area = np.append(0.0, np.cumsum(np.diff(at) * (value[1:] + value[:-1]) / 2.0))
        return np.asarray(np.diff(np.interp(edges, at, area)) / (edges[1] - edges[0]))


class Between(NamedTuple):
    """Fields of a `Judgment`: the difference of the settings, and the basis of its interval."""

    difference: float
    half: float
    freedom: float
    spread: float
    basis: str


@calls.named
def judge_runs(
    a: Any,
    b: Any = None,
    *,
    metric: str = "reward",
    over: str = "steps",
    last: float = 0.2,
    at: float | None = None,
    better: str | None = None,
    error: float = 0.05,
    within: float | None = None,
    run: Any = None,
    seed_spread: float | None = None,
    pilot: Any = (),
    power: float = 0.9,
    columns: Any = None,
) -> Judgment:
    """Judge from the logs of finished runs whether setting B is better than setting A on fresh seeds.

    Each run gives one number: the mean of its metric over the last share of the steps, or seconds, that all runs have.
    The difference's interval is computed between runs, never between steps (`comparing.judging.between_runs`). With one
    run of an arm the spread between seeds is unknown, and the verdict is "cannot tell", with whether the runs differ
    beyond their own noise (`comparing.judging.inside_runs`), and the spread that would overturn this.

    Arguments: `a`, `b`: the runs of an arm, each a path, a pattern of paths, or columns by name; a list of them for
    several seeds. `metric`: a quantity of docs/diagnose.md or a column. `over`: "steps", "seconds", or a column that
    never falls, such as tokens. `last`: share in (0, 1] of the common range; 1 is the area below the curve. `at`: where
    the stretch ends (default: with the shortest run). `better`: "higher" or "lower" (default: lower for a KL, loss,
    time, staleness or clipped share). `error`: rate of wrong verdicts. `within` > 0: differences that do not matter, in
    units of the metric, without which no arm is equal. `run`: the run, or a pattern, where a W&B file has several; two
    are for A and B, which may be one file. `seed_spread` > 0: known standard deviation between seeds of this number.
    `pilot`: two or more runs of one setting, which measure it. `power` in (0, 1), of the seeds of the plan. `columns`:
    asyncsim's names for columns of other names, as "reward=my/score". Returns a `Judgment`. Raises `InputError` for
    another metric or unit of steps in one of the runs, a run that is given twice, a step or clock that goes back, or a
    constant column. Assumes independent seeds, nearly normal numbers of runs, and, if a spread is given, the same
    spread in both arms. Source: this package.

    >>> import numpy as np, asyncsim as sim
    >>> draw = np.random.default_rng(0).normal
    >>> runs = [{"step": np.arange(100), "reward": draw(level, 0.05, 100)} for level in (0.50, 0.51, 0.60, 0.61)]
    >>> sim.judge_runs(runs[:2], runs[2:]).word, sim.judge_runs(runs[0], runs[2]).word
    ('better', 'cannot tell')
    """
    sided = better or metric == "reward" or notation.COST.match(metric) or GOOD.search(metric)
    better = better or ("lower" if notation.COST.match(metric) else "higher")
    checks.one_of("better", better, ("higher", "lower"), "say which values are good")
    for name, share in (("error", error), ("power", power)):
        checks.rate(name, share, "state the rate you accept")
    for name, value in (("within", within), ("seed_spread", seed_spread)):
        if value is not None:
            checks.real(name, value, "give a positive number in units of the metric", 0.0, open_low=True)
    patterns = list(run) if isinstance(run, (list, tuple)) else [run, run]
    checks.require(len(patterns) == 2, "run", run, "one pattern, or two", "give one for A and one for B")
    both = b is not None or patterns[0] != patterns[1]
    of_one = str(run).replace(",", " --run ") if run and "," in str(run) else "A --run B"
    remedy = f"give both arms: judge A.csv B.csv, or two runs of one file: --run {of_one}"
    lacks = "--seed-spread VALUE" * bool(within) or "--within DIFFERENCE" * bool(seed_spread)
    remedy += f"; for the number of seeds without logs add {lacks}" * bool(lacks and not a)
    given = (("a", a, patterns[0]), ("b", a if b is None else b, patterns[1]), ("pilot", pilot, patterns[0]))
    mapping = _log_stacks.mapping_of(columns, declarable(system=True), "write columns='reward=THEIRS'")
    if pilot and not both:
        _curves(*given[2], metric, over, mapping)  # a file that does not exist is the nearer mistake
    checks.require(both, "b", None, "the runs of B", remedy)
    groups = [_curves(*each, metric, over, mapping) for each in given]
    for (name, runs, _), group, least in zip(given, groups, (1, 1, 0 if seed_spread else 2), strict=True):
        fits = len(group) >= least or (name == "pilot" and not group)
        checks.require(fits, name, runs, f"{least} runs or more", "give more logs")
    checks.require(not (seed_spread and groups[2]), "seed_spread", seed_spread, "left out beside pilot", "give one")
    curves = list(itertools.chain(*groups))
    every = sorted({name for curve in curves for name in curve.own})
    for ours, theirs in mapping.items():
        known, without = theirs.rpartition(" - ")[2] in every, f"{curves[0].column} is read without it"
        remedy = without if ours == metric else checks.hint(theirs, every, "correct the name")
        checks.require(known, f"columns[{ours}]", theirs, "a column of one of the runs", remedy)
    notes = _refuse_mixed(groups, metric, over, at)
    notes += [] if sided else [f"that higher {metric} is better is a guess: state it as `better`"]
    start, stop, points = _stretch(groups, over, last, at, notes)
    count = max((w for w in BOUNDS if 2 * w <= points), default=min(BOUNDS))
    windows = [[curve.windows(start, stop, count) for curve in group] for group in groups]
    numbers = [np.array([each.mean() for each in group]) for group in windows]
    found = _between(numbers, seed_spread, error)
    word, inside = _word(found, within, better), None
    if len(numbers[0]) == len(numbers[1]) == 1:
        if points >= min(BOUNDS):
            inside = float(inside_runs(windows[1][0] - windows[0][0]).half)
        else:
            few = f"{points} values in the stretch do not tell whether these two runs differ beyond their own noise"
            notes.append(f"{few}: {min(BOUNDS)} may, so raise last")
    spent = ([math.nan if c.seconds is None else np.interp(stop, c.x, c.seconds) for c in each] for each in groups[:2])
    seconds = [float(np.mean(each)) for each in spent]
    effect = abs(found.difference) if within is None else within
    arms = [
        RunsOfArm(letter, tuple(c.name for c in group), own, mean, *_drawn(group))
        for letter, group, own, mean in zip("AB", groups, numbers, seconds, strict=False)
    ]
    return Judgment(
        metric=groups[0][0].column, axis=over, start=start, stop=stop, last=last, better=better, error=error,
        within=within, arms=(arms[0], arms[1]), word=word, **found._asdict(), inside=inside, effect=effect, power=power,
        overturned=abs(found.difference) / (critical(error) * _scale(numbers)),
        plan=_plan(effect, found, error, power, [len(x) for x in numbers[:2]], seconds) if word == UNKNOWN else (),
        notes=(*notes, *_cautions(arms, seconds, word, over, error)),
    )  # fmt: skip


def _stretch(
    groups: list[list[Curve]], over: str, last: float, at: float | None, notes: list[str]
) -> tuple[float, float, int]:
    """Ends of the range that is compared, and the minimum number of values that a run logged in it."""
    curves = list(itertools.chain(*groups))
    first, end, longest = max(c.x[0] for c in curves), min(c.x[-1] for c in curves), max(c.x[-1] for c in curves)
    checks.require(end > first, over, [first, end], "shared by all runs", "give runs that have a stretch in common")
    if at is None and longest > end + SLACK * (end - first):
        notes.append(f"the runs end between {over} {end:.5g} and {longest:.5g}; all are cut at {end:.5g}")
    remedy = f"end the stretch where all runs are, from {first:g} to {end:g}"
    for c in (c for c in curves if c.end > c.step[-1] + 2.0 * np.diff(c.step).max(initial=0.0)):
        notes.append(f"{c.name} has no {c.column} after step {c.step[-1]:g} of {c.end:g}: if it diverged, it failed")
    stop = float(end) if at is None else checks.real("at", at, remedy, first, end, open_low=True)
    share = "write 0.5 for the second half of the runs"
    if checks.is_number(last) and 1.0 < last < stop - first:
        share = f"write {last / (stop - first):.3g}, the share of the last {last:g} {over}"
    checks.require(not checks.is_number(last) or last <= 1.0, "last", last, "a share in (0, 1]", share)
    checks.real("last", last, share, 0.0, 1.0, open_low=True)
    start = float(stop - last * (stop - first))
    points = min(int(((c.x >= start) & (c.x <= stop)).sum()) for c in curves)
    checks.require(points > 0, "last", last, "a stretch in which every run logged the metric", "raise last")
    return start, stop, points


def _scale(numbers: list[np.ndarray]) -> float:
    """Standard error of a difference of means, in units of the standard deviation across seeds."""
    return math.sqrt(1.0 / len(numbers[0]) + 1.0 / len(numbers[1]))


def _between(numbers: list[np.ndarray], seed_spread: float | None, error: float) -> Between:
    """Difference of the arms with its interval across seeds; NaN if the standard deviation is unknown."""
    a, b, pilot = numbers
    difference = float(b.mean() - a.mean())
    if seed_spread is not None or len(pilot):
        spread, freedom = (seed_spread, math.inf) if seed_spread else (float(pilot.std(ddof=1)), len(pilot) - 1.0)
        source = "taken as exact" if seed_spread else f"of {len(pilot)} pilot runs"
        basis = f"The spread between seeds, {spread:.3g}, is {source}, and assumed to be that of both arms."
        return Between(difference, critical(error, freedom) * spread * _scale(numbers), freedom, spread, basis)
    _, half, freedom = between_runs(a, b, error) if min(len(a), len(b)) > 1 else (difference, 0.0, math.nan)
    if half == 0.0:
        what = "Equal scores do" if min(len(a), len(b)) > 1 else "A single run per arm does"
        return Between(difference, math.nan, math.nan, math.nan, f"{what} not show the spread between seeds.")
    spread = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2.0)
    basis = f"Welch's t interval between runs, {freedom:.2g} degrees of freedom; scores are assumed nearly normal."
    return Between(difference, float(half), float(freedom), spread, basis)


@lru_cache(maxsize=1024)
def findable(seeds: int, error: float, power: float) -> float:
    """Difference, in standard deviations across seeds, that Welch's test with `seeds` per arm detects.

    The root of P(T <= t_f(1 - error/2)) = 1 - power, T noncentral t of shift difference/(spread sqrt(2/n)). Welch's
    freedom is random; f = 2n(n - 1)/(n + 1) is its mean where both arms spread alike, to first order in 1/n. From 3
    seeds on a power of 0.9 is 0.90 by simulation; 2n - 2 would give 0.82 at 3.

    >>> round(findable(17, 0.05, 0.9), 2)
    1.15
    """
    freedom = 2.0 * seeds * (seeds - 1.0) / (seeds + 1.0)
    bound = critical(error, freedom)
    missed = lambda shift: missed_rate(shift, 1.0, 0.0, bound, freedom) - (1.0 - power)  # noqa: E731
    return float(optimize.brentq(missed, 0.0, 4.0 * bound + 8.0, xtol=1e-6)) * math.sqrt(2.0 / seeds)


def seeds_for(within: float, seed_spread: float, error: float = 0.05, power: float = 0.9) -> str:
    """Say how many seeds per arm find a difference of `within`, from a known spread between seeds and without logs."""
    for name, value in (("within", within), ("seed_spread", seed_spread)):
        checks.real(name, value, "give a positive number in units of the metric", 0.0, open_low=True)
    for name, value in (("error", error), ("power", power)):
        checks.rate(name, value, "state the rate you accept")
    known = Between(0.0, 0.0, math.inf, seed_spread, "")
    seeds = _plan(within, known, error, power, [0, 0], [0.0, 0.0])[0][0]
    found = f"{seeds:,} seeds per arm find a difference of {within:g} with probability {power:g}"
    return f"{found}, if the standard deviation between seeds is {seed_spread:g} (error rate {error:g})."


def _plan(
    effect: float, found: Between, error: float, power: float, counts: list[int], seconds: list[float]
) -> tuple[tuple[int, float, float], ...]:
    """Seeds per arm, the standard deviation for which they suffice, and hours of the runs still needed."""
    if effect == 0.0:
        return ()
    rows = [(n, effect / findable(n, error, power)) for n in SEEDS]
    if not math.isnan(found.spread):
        wide = 1.0 if math.isinf(found.freedom) else found.freedom / float(special.chdtri(found.freedom, SURE))
        rows = []
        for spread in dict.fromkeys((found.spread, found.spread * math.sqrt(wide))):
            # Normal numbers of a known spread would do with fewer; of very many seeds the two agree.
            ratio = effect / spread
            least = max(3, int(2.0 * ((critical(error) + float(special.ndtri(power))) / ratio) ** 2))
            enough = (n for n in itertools.count(least) if n > MOST or findable(n, error, power) <= ratio)
            rows.append((next(enough), spread))
    hours = [sum(max(0, n - k) * s for k, s in zip(counts, seconds, strict=True)) / 3600.0 for n, _ in rows]
    return tuple((n, spread, each) for (n, spread), each in zip(rows, hours, strict=True))


def _word(found: Between, within: float | None, better: str) -> str:
    """Verdict on a difference between runs, with its interval."""
    if within is not None and abs(found.difference) + found.half < within:
        return "equal"
    if not abs(found.difference) > found.half:
        return UNKNOWN
    return "better" if (found.difference > 0.0) == (better == "higher") else "worse"


def _cautions(arms: list[RunsOfArm], seconds: list[float], word: str, over: str, error: float) -> list[str]:
    """Notes that a reader of the judgment needs about these runs; an outlier is one of Grubbs' test at 1 %."""
    notes, few = [], min(len(arm.numbers) for arm in arms)
    if over == "steps" and max(seconds) > PACE * min(seconds):
        slower = seconds[1] / seconds[0]
        notes.append(f"B takes {slower:.2f} times as long per step as A; a comparison over seconds includes this")
    for arm in arms:
        n, apart = len(arm.numbers), (arm.numbers - arm.numbers.mean()) ** 2
        if n > 2 and apart.max() > apart.sum() * (n - 1) / n / (1.0 + (n - 2) / critical(0.01 / n, n - 2.0) ** 2):
            of = f"one run of {arm.letter}, {arm.names[int(apart.argmax())]},"
            notes.append(f"{of} causes most of its spread, so its mean is uncertain: inspect this run")
    if few > 1 and word != UNKNOWN:
        chance = 1.0 - error ** (1.0 / few)
        notes.append(f"{few} runs cannot exclude an event, such as a collapse, in up to {chance:.0%} of fresh runs")
    return notes


def _drawn(group: list[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Curves for a picture `[n, K]`, up to the shortest run of the arm, and the centers `[K]` of their windows."""
    first, end = max(c.x[0] for c in group), min(c.x[-1] for c in group)
    edges = np.linspace(first, end, min([DRAWN, *(len(c.x) for c in group)]) + 1)
    return np.array([c.windows(first, end, len(edges) - 1) for c in group]), (edges[1:] + edges[:-1]) / 2.0


def _curves(field: str, given: Any, pattern: str | None, *asked: Any) -> list[Curve]:
    """The runs of an arm: each file of a pattern, and each matching run in a W&B file."""
    found = list[Curve]()
    for one in list(given) if isinstance(given, (list, tuple)) else [given]:
        source = dict(one.items()) if hasattr(one, "columns") and hasattr(one, "items") else one
        known = isinstance(source, (str, Path, Mapping))
        remedy = "give logs; of specs write sim.compare(spec, other), of numbers comparing.judging.between_runs(a, b)"
        checks.require(known, field, source, "columns or a path", remedy)
        magic = not isinstance(source, Mapping) and glob.has_magic(str(source)) and not Path(source).exists()
        paths: list[Any] = sorted(glob.glob(str(source))) if magic else [source]
        remedy = f"{checks.beside(source)}correct the pattern"
        checks.require(bool(paths), field, str(source), "a pattern that some file fits", remedy)
        for path in paths:
            names = _names(path, {*asked[:2], *asked[2].values()})
            runs = list(dict.fromkeys(name.rpartition(" - ")[0] for name in names if " - " in name))
            fits = [each for each in runs if pattern in (None, each) or fnmatch.fnmatch(each, str(pattern))]
            if pattern is not None or len(runs) > 1:
                one = bool(fits) and pattern is not None
                fit = next((x for x in (f"{pattern}*", f"*{pattern}*") if pattern and fnmatch.filter(runs, x)), "")
                meant = fnmatch.filter(runs, fit)
                remedy = "name the runs of A and of B (--run twice), also by patterns such as 'grpo*'"
                remedy = f"for {len(meant)} of them write --run '{fit}'" if meant else remedy
                checks.require(one, "run", pattern, f"of {', '.join(runs) or 'a W&B chart'}", remedy)
            label = f"{field}[{len(found)}]" if isinstance(path, Mapping) else Path(path).name
            labels = {each: f"{label}: {each}" if len(runs) > 1 else label for each in fits or [""]}
            found += [_curve(text, path, names, each, *asked) for each, text in labels.items()]
    return found


def _names(source: Any, wanted: set[str]) -> list[str]:
    if isinstance(source, Mapping):
        return [str(name) for name in source]
    names = _log_files.read(_log_places.found(Path(source), ""), wanted, files.Budget(Path(source))).names
    refuse_runs(names)
    return [name for name in names if name != _log_files.NUMBERED]


def _curve(
    label: str, source: Any, names: Sequence[str], run: str, metric: str, over: str, mapping: Mapping[str, str]
) -> Curve:
    """Read one run: its metric at steps, and the positions of these steps on the axis."""
    own = [name.removeprefix(f"{run} - ") for name in names if name.startswith(f"{run} - ") or " - " not in name]
    has = {aliases.steps(system=True).get(aliases.plain(name), ("",))[0] for name in own}
    mapped = {ours: theirs for ours, theirs in mapping.items() if theirs in own or ours not in has}
    known = metric in mapped or metric in has or set(own) >= BOARD
    relative = next((name for name in own if name.startswith("Relative Time")), None)  # W&B's, in seconds
    if relative and not {"step", "clock"} & {*has, *mapped}:
        mapped["clock"] = relative

    def log(ours: str, name: str, remedy: str = "") -> Telemetry:
        """Read the log with a column mapped to one of our names."""
        given = mapped | ({ours: name} if name else {})
        full = {key: f"{run} - {one}" if f"{run} - {one}" in names else one for key, one in given.items()}
        try:
            return read(source, None, Setup(), full, run or None, system=True)
        except checks.InputError as error:
            advice = remedy or error.remedy
            if not isinstance(source, Mapping) and Path(source).is_dir():
                advice = f"a folder is one run: of several write '{source}/*{sorted(Path(source).iterdir())[0].suffix}'"
            raise checks.InputError(f"{error.field} of {label}", error.value, error.bound, advice) from None

    def series(found: Telemetry, quantity: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps with a finite value, and the values."""
        values = found.quantities.get(quantity, np.empty(0))
        kept = np.isfinite(values)
        bound, remedy = "numbers of two steps or more", "log it in each step, in a row a step"
        name = f"column {found.names.get(quantity, quantity)} of {label}"
        checks.require(bool(kept.sum() > 1), name, int(kept.sum()), bound, remedy)
        return found.quantities["step"][kept], values[kept]

    def along(found: Telemetry, quantity: str) -> np.ndarray:
        """Values of the axis at the steps of the metric; seconds per step are accumulated."""
        at, values = series(found, quantity)
        if quantity == "seconds_step":
            clock = len(values) > 3 and bool((np.diff(values) > 0.0).all()) and values[-1] > 3.0 * values[0]
            column = found.names[quantity]
            remedy = f"it only rises, as seconds since the start do: name it as --columns clock={column}"
            checks.require(not clock, f"column {column} of {label}", float(values[-1]), "seconds of a step", remedy)
            values = np.cumsum(values)
        return np.asarray(np.interp(step, at, values - values[0] * (found.names[quantity] == "_timestamp")))

    if not known:
        remedy = "give a column that all runs have, or metric='reward' and what it is: columns='reward=THEIRS'"
        checks.one_of(f"metric of {label}", metric, own, checks.hint(metric, [*own, *has], remedy, 0.75))
    found, quantity = log("reward", "" if known else metric), metric if known else "reward"
    step, y = series(found, quantity)
    where, remedy = f"column {found.names[quantity]} of {label}", "give a metric that moves"
    checks.require(float(np.ptp(y)) > 0.0, where, float(y[0]), "not the same in every row", remedy)
    timed = next((name for name in ("clock", "seconds_step") if name in found.quantities), None)
    seconds = along(found, timed) if timed else None
    x: Any = step if over == "steps" else seconds
    shared = any(" - " in name and not name.startswith(f"{run} - ") for name in names) and len(step) < found.steps
    merged = "step" not in found.names and (bool(relative) or shared)
    bound = f"of a column, but rows without one are {f'points of {relative}' if relative else 'of all runs'}"
    named = ", columns='clock=THEIRS'" * (not timed)
    remedy = f"export it with Step as x axis, or write over='seconds'{named}"
    checks.require(not merged or over != "steps", f"steps of {label}", "row numbers", bound, remedy)
    clock = next((name for name in own if re.search(r"elapsed|clock|second|time", name)), None)
    wanted = re.search("time|second|hour|minute|clock", over)
    remedy = "export _runtime, or use over='steps'" if not merged else f"write over='seconds'{named}"
    if clock or timed:
        remedy = "write over='seconds'" + f", columns='seconds_step={clock}' for seconds of a step" * (not timed)
    if over not in ("steps", "seconds"):
        axes = ["steps", *["seconds"] * bool(timed), *own]
        checks.require(over in own or not wanted, f"over of {label}", over, f"one of {', '.join(axes)}", remedy)
        checks.one_of(f"over of {label}", over, axes, "leave it out for steps")
        axis = "name an axis that never falls: steps, seconds or tokens so far"
        axis += f"; of seconds of each step write over='seconds', columns='seconds_step={over}'" * bool(wanted)
        x = along(log("clock", over, axis), "clock")
    elif x is None and clock:
        with suppress(checks.InputError):
            log("clock", clock)  # what falls is no clock
            remedy += f", or over={clock!r} for a clock"
    checks.require(x is not None, f"over of {label}", over, "an axis of this run, where no clocks are known", remedy)
    # Of two rows of one second the first stands.
    x, first = np.unique(x, return_index=True)
    checks.require(len(x) > 1, f"{over} of {label}", float(x[0]), "more than one value", "name another axis")
    ends = -np.inf if shared or " - " in "".join(names) else float(found.quantities["step"][-1])
    scope, counted = found.scope[quantity] if known else "", found.names.get("step", "row")
    seconds = None if seconds is None else seconds[first]
    return Curve(label, found.names[quantity], scope, counted, step[first], x, y[first], seconds, own, ends)


def _refuse_mixed(groups: list[list[Curve]], metric: str, over: str, at: float | None) -> list[str]:
    """Refuse runs that are not independent runs of one metric on one axis; return notes on doubtful ones."""
    arms, notes = [*groups[0], *groups[1]], dict[str, None]()
    base = arms[0]
    for one, two in itertools.combinations(arms, 2):
        _, i, j = np.intersect1d(one.step, two.step, return_indices=True)
        same, names = one.y[i] == two.y[j], f"{one.name} and {two.name}"
        copied = len(same) >= ALIKE and bool(same.all())
        remedy = f"give each run once; of different runs give a metric that differs, unlike {one.column}"
        checks.require(not copied, "runs", names, "two runs, not one: all numbers are the same", remedy)
        if len(same) > ALIKE and same[:ALIKE].all():
            shared = int(np.argmin(same))
            notes[f"{names} share their first {shared} values, so their seeds do not vary what came before"] = None
    for each in (*arms[1:], *groups[2]):
        bound = f"{base.column} ({base.scope}), as in {base.name}"
        own = f"{each.column} ({each.scope})"
        remedy = f"name one column as metric, or, if they mean the same, --columns {metric}={each.column}"
        checks.require(each.scope == base.scope, f"metric of {each.name}", own, bound, remedy)
        low, high = sorted((base, each), key=lambda curve: float(curve.y.max()))
        bound, remedy = f"fractions, as in {low.name} (or percent in both)", "divide the percents by 100, in that file"
        values = f"{high.y.min():g} to {high.y.max():g}"
        # One run in percent, the other in fractions: by its range, and ten times larger in every quarter.
        ranges = low.y.min() >= 0.0 and low.y.max() <= 1.0 < high.y.max() <= 100.0 and high.y.min() >= 0.0
        quarters = [curve.windows(curve.x[0], curve.x[-1], 4) for curve in (low, high)]
        percent = bool(ranges and (quarters[1] >= 10.0 * quarters[0]).all())
        checks.require(not percent, f"column {high.column} of {high.name}", values, bound, remedy)
        if each.column != base.column:
            notes[f"the metric is {base.column} in {base.name} and {each.column} in {each.name}"] = None
        strides = [float(np.median(np.diff(c.step))) for c in (base, each)]
        rows = sorted((len(base.x), len(each.x)))
        scaled = max(strides) >= STRIDE * min(strides) and rows[1] < 1.5 * rows[0]
        mixed = scaled or (each.counted in COUNTERS) != (base.counted in COUNTERS)
        remedy = "export the same step column of both, or give at if the unit is the same"
        bound = f"as in {base.name}: {base.counted}, {strides[0]:g} between rows"
        own = f"{each.counted}, {strides[1]:g} between rows"
        checks.require(over != "steps" or at is not None or not mixed, f"steps of {each.name}", own, bound, remedy)
    return list(notes)
