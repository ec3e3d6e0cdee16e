"""`compare` decides which arm is better, by how much and how certainly; `power` plans the number of replicates."""

import math
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from asyncsim.base import calls, checks, notation, uncertainty
from asyncsim.base.answers import ROUNDED, UNTOLD, Answer, Arm, Look, OnTask, Pair, Tuned, summarized
from asyncsim.base.notation import RETURNS, TRAINED
from asyncsim.base.progress import Progress
from asyncsim.base.records import Estimate
from asyncsim.base.trace import Trace
from asyncsim.comparing import arms as pairing
from asyncsim.comparing import intervals
from asyncsim.comparing.arms import recorded, refuse
from asyncsim.comparing.keeping import site_of, together
from asyncsim.comparing.readings import CLOCKS, Reading, ages, course, ending, timed
from asyncsim.comparing.settings import by_label, with_setting
from asyncsim.comparing.tuning import PILOT, STEPS, explore, knob_of, set_knob, settle, spread, start_of
from asyncsim.running.running import run
from asyncsim.running.spec import Spec
from asyncsim.running.spreading import Site

FIRST = 64
"""Replicates at the first look; every further look doubles them."""
FEWEST = 5
"""Minimum number of complete pairs for which a difference is printed."""
FREE = (-math.inf, math.inf)


@calls.named
def compare(
    *arms: Any,
    smallest: float,
    metric: Any = TRAINED,
    over: str = "mean",
    statistic: str = "mean",
    error: float = 0.05,
    tune: str | Mapping[str, Sequence[float]] | None = "lr",
    tasks: Iterable[Any] = (),
    target: float | None = None,
    better: str | None = None,
    along: Mapping[str, Any] | None = None,
    horizon: float | None = None,
    trainer_slots: float = 0.0,
    interval: str = "auto",
    max_replicates: int = 1024,
    seed: int = 0,
    progress: bool | None = None,
    workers: int | None = None,
    store: str | None = None,
) -> Answer:
    """Decide whether each arm is better or worse than the first, or equal within `smallest`, at a given error rate.

    The learning rate of each arm is first tuned on the same grid, with separate seeds. Then all arms run on fresh seeds
    with common draws, so that x_i = a_i - b_i of a replicate i is a paired difference. After 64, 128, ... replicates an
    interval for the mean of x_i is computed, whose error rate covers all these looks. It ends when every pair is
    decided: better or worse once the interval excludes 0, equal once the interval lies inside (-smallest, smallest).
    The interval allows for rare events that n replicates cannot exclude, in up to about 3/n of them
    (`intervals.planned`). Looks at which this alone prevents a verdict are skipped. With several arms each interval has
    the level error/(arms - 1), so that all verdicts of a task together err with probability <= error.

    Arguments:
        arms: two or more `Spec`s, or one mapping from names to specs; the others are compared with the first. smallest:
        the smallest difference that matters, in units of the reading (for "improvement", of a probability). metric:
        name of the compared metric in the trace, or a value of `sim.diagnostics`; default: the trained policy's return.
        over: how the metric's curve becomes a number: "mean" over updates, "end", updates until `target` ("time"),
        whether it is "reached", or whether the replicate has a "collapse" or "fall". "seconds": arms at equal simulated
        seconds of their event systems, whatever their numbers of updates: the mean over the last tenth before the
        `horizon`, or with a target the seconds until it is reached. A replicate that never reaches it counts as the
        horizon. "slot-hours": the same at equal cost, slots x seconds / 3600. This counts the sample slots of the
        system, busy or idle, and `trainer_slots`, the number of slots that the trainer is worth. horizon: in seconds or
        slot-hours (default: the end of the shortest arm's run). statistic: "mean", "median" (for heavy tails), "iqm"
        (mean of the middle half) or "improvement" (probability that the arm wins, minus one half). error: probability
        that any verdict of a task is wrong. tune: the knob tuned for every arm, "lr" or a name such as "adam.lr" or
        "method.cap"; a mapping from the knob to its grid; or None. tasks: further tasks for the same comparison.
        better: "higher" or "lower" (default: lower for a KL, loss, time). interval: "planned" (nearly normal numbers,
        with room for unseen events), "betting" (bounded numbers, no other assumption) or "auto": betting if it can
        decide within `max_replicates`. along: one setting of all arms with its values, such as {"staleness": [4, 16,
        64]} or {"system.max_staleness": [1, 8]}: an answer for each value, with each arm tuned anew, in a table and in
        one figure. seed: of all random draws. progress and workers: as in `run`; arms are trained in parallel, and the
        answer does not depend on it. store: a folder or an address such as s3://bucket/folder that keeps every training
        run by spec, seed and code (default: nothing is kept). Stored runs are read, so a stopped comparison continues,
        with identical bits, when it is called again.

    Returns an `Answer`: print it, `.word`, `.pairs`, `.row()` for JSON, `sim.plot(answer)`. Raises `InputError` for
    arms that do not differ or cannot be paired, a metric that an arm lacks, smallest = 0, or a best value at the edge
    of its grid after three extensions. If an arm's mean has heavy tails, or some of its replicates have no value, the
    verdict is "cannot tell", with the reason. Assumes independent replicates; with random schedules each replicate has
    its own realization. Planned looks assume that an event which no replicate shows affects one arm only, and, for an
    unbounded metric, that it is no larger than the answer says. Source: this package; for the intervals see
    `comparing.intervals`.

    >>> import asyncsim as sim
    >>> a = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(4), sim.methods.reinforce(),
    ...              sim.chain(sim.updates.sgd(0.5)), updates=20)
    >>> compare(a, a.replace(system=sim.schedules.fixed(0)), smallest=0.01, tune=None).word
    'equal'
    """
    start = time.monotonic()
    checks.real("smallest", smallest, "state the smallest difference that matters, as 0.05", 0.0, open_low=True)
    checks.rate("error", error)
    kinds, remedy = tune is None or isinstance(tune, (str, Mapping)), "write tune='adam.lr', or None for no tuning"
    checks.require(kinds, "tune", tune, "a name, a mapping to a grid, or None", remedy)
    checks.integer("max_replicates", max_replicates, FIRST, f"looks begin at {FIRST} replicates")
    checks.integer("seed", seed, 0, "give a non-negative integer seed", 2**63 - 1)
    checks.one_of("statistic", statistic, intervals.STATISTICS, "say what of the numbers is compared")
    checks.one_of("interval", interval, ("auto", *intervals.INTERVALS), "say which interval is used")
    checks.real("trainer_slots", trainer_slots, "say as how many slots the trainer counts", 0.0)
    remedy = "use it with over='seconds' (the length of a task's sequences: --set task.horizon=16)"
    checks.require(horizon is None or over in CLOCKS, "horizon", horizon, "left out", remedy)
    if horizon is not None:
        checks.real("horizon", horizon, "give the seconds or slot-hours at which arms are compared", 0.0)
    specs = pairing.named(arms, over in CLOCKS)
    diagnostics, name = recorded(metric)
    specs = {key: spec.replace(diagnostics=diagnostics, block=None, realizations=None) for key, spec in specs.items()}
    tasks = (tasks,) if hasattr(tasks, "horizon") else tuple(tasks)
    stated = math.inf if horizon is None and over in CLOCKS else horizon
    reading = Reading(name, over, target, better, stated, trainer_slots)
    every = [specs, *({key: spec.replace(task=task) for key, spec in specs.items()} for task in tasks)]
    settings = [each for asked in every for each in _along(asked, along, tune, over in CLOCKS)]
    refuse([reading], ((f"arm {key}", spec) for _, asked in settings for key, spec in asked.items()))
    # One horizon for all settings and tasks: numbers of one table are at equal seconds.
    reading = min((timed(reading, each, seed) for _, each in settings), key=lambda own: own.horizon or 0.0)
    fits = not reading.event or smallest < 1.0
    checks.require(fits, "smallest", smallest, "below 1, as a share", "write 0.05 for 5 %")
    if name in RETURNS and reading.unit == name and statistic != "improvement":
        low, high = next(iter(specs.values())).fitted_task.earnings
        remedy = f"give it in units of {name}, as 0.05" + f"; in {over} only with a target to reach" * reading.clocked
        checks.require(smallest <= high - low, "smallest", smallest, f"at most {high - low:g}, all of {name}", remedy)
    question = Question(reading, statistic, smallest, error, tune, interval, max_replicates, seed)
    # One bar for all settings and tasks.
    total, answers = len(specs) * FIRST * 2 ** (question.looks - 1), list[OnTask]()
    bar = Progress("replicates", total * len(settings), progress, "fewer updates, arms or samples shorten it")
    many = f" of {len(settings)}: " * (len(settings) > 1)
    with site_of(workers, store, name, reading.clocked) as site, bar as shown:
        for number, (setting, each) in enumerate(settings, 1):
            answers.append(replace(question.on(each, shown, site, many and f"{number}{many}"), setting=setting))
            shown.add(number * total - shown.done)
    return Answer(
        metric=name,
        reading=("" if statistic == "mean" else f"{statistic} of ") + str(reading) + pairing.caution(name, specs),
        unit=reading.unit if statistic != "improvement" else "probability",
        better="higher" if statistic == "improvement" or reading.orientation > 0.0 else "lower",
        statistic=statistic,
        smallest=smallest,
        error=error,
        seed=seed,
        tasks=tuple(answers),
        seconds=time.monotonic() - start,
        notes=tuple(dict.fromkeys(x for _, own in settings for x in pairing.notes(reading, own, seed, smallest))),
    )


def _along(specs: Any, along: Any, tuned: Any, clocked: bool) -> list[tuple[dict[str, Any], dict[str, Spec]]]:
    """The arms at each value of the one setting that varies, with its label."""
    if along is None:
        return [({}, specs)]
    one = isinstance(along, Mapping) and len(along) == 1
    checks.require(one, "along", along, "one setting with its values", "write along={'staleness': [4, 16, 64]}")
    ((name, values),) = along.items()
    own = tuned if isinstance(tuned, (str, type(None))) else next(iter(tuned))
    remedy = "give tune=None, or another setting: each arm has its own best value of what is tuned"
    checks.require(own is None or own.rpartition(".")[2] != name.rpartition(".")[2], "along", name, "not tuned", remedy)
    settings = []
    try:
        for label, value in by_label(name, values).items():
            varied = {key: with_setting(spec, name, value) for key, spec in specs.items()}
            settings.append(({name: label}, pairing.named([varied], clocked)))
    except checks.InputError as error:
        raise checks.InputError(error.field.replace("grid", "along"), error.value, error.bound, error.remedy) from None
    return settings


@dataclass(frozen=True)
class Question:
    """The question of a comparison, answered task by task; fields are arguments of `compare`, `most` the replicates."""

    reading: Reading
    statistic: str
    smallest: float
    error: float
    tuned: Any
    interval: str
    most: int
    seed: int

    @property
    def looks(self) -> int:
        """K, the number of looks within the maximum number of replicates."""
        return 1 + int(math.log2(self.most / FIRST))

    @property
    def in_metric(self) -> bool:
        """Whether differences between arms are in units of the metric."""
        return self.reading.unit == self.reading.metric and self.statistic != "improvement"

    @staticmethod
    def exact(specs: Mapping[str, Spec]) -> bool:
        """Whether no arm is random: all train on full populations, with schedules that are not random."""
        return all(spec.sampling == "enumerate" and not spec.system.random for spec in specs.values())

    def on(self, specs: Mapping[str, Spec], shown: Progress, site: Site, many: str = "") -> OnTask:
        """The answer on the task of these specs, trained in parallel on `site`; `many` names the task in messages."""
        first = "pilot" if self.tuned is None else "tuning (--tune none skips it)"
        site.hears = lambda share: shown.beat(f"{many}{first}, {100.0 * share:.3g} % of the updates under way")
        best = self._tune(specs, site)
        ready = {name: set_knob(specs[name], arm.knob, arm.chosen, FIRST) for name, arm in best.items() if arm.knob}
        site.hears = lambda share: shown.beat(f"{many}comparing, {100.0 * share:.3g} % of the updates under way")
        return self._decide({**specs, **ready}, best, shown, site)

    def _tune(self, specs: Mapping[str, Spec], site: Site) -> dict[str, Tuned]:
        seed = seed_of(self.seed, 0, 0)
        if self.tuned is None:

            def pilot(spec: Spec) -> Generator[Spec, Trace, Tuned]:
                trace = yield spread(spec.replace(replicates=PILOT))
                return Tuned("", math.nan, pilot=self.reading.of_arm(spec).numbers(trace, lacking=True))

            pilots = [pilot(spec) for spec in specs.values()]
            return dict(zip(specs, _side_by_side(pilots, seed, site), strict=True))
        wanted, given = (self.tuned, None) if isinstance(self.tuned, str) else _only(self.tuned)
        names = {name: knob_of(spec, wanted) for name, spec in specs.items()}
        grid = given or _grid([start_of(spec, names[name]) for name, spec in specs.items()])
        smallest = self.smallest if self.statistic != "improvement" else 0.0
        readings = {name: self.reading.of_arm(spec) for name, spec in specs.items()}
        fixed = given is not None
        first = [explore(each, names[arm], grid, fixed, readings[arm], smallest) for arm, each in specs.items()]
        found = dict(zip(specs, _side_by_side(first, seed, site), strict=True))
        # Arms are compared at their best values of one grid: a value that one arm needed is tried for all.
        common = sorted({value for scores in found.values() for value in scores})
        arms = [
            settle(each, arm, names[arm], found[arm], common, fixed, readings[arm], smallest)
            for arm, each in specs.items()
        ]
        return dict(zip(specs, _side_by_side(arms, seed, site), strict=True))

    def _decide(self, specs: Mapping[str, Spec], best: Mapping[str, Tuned], shown: Progress, site: Site) -> OnTask:
        seen = {name: Seen() for name in specs}
        base, *others = specs
        looks: dict[str, list[Look]] = {name: [] for name in others}
        task, why = specs[base].fitted_task, dict.fromkeys(others, "")
        stale: dict[str, dict[str, Any]] = {name: ages(self.reading, spec, self.seed) for name, spec in specs.items()}
        look, going, done = 1, others, 0
        while True:
            count = (FIRST << (look - 1)) - done
            done += count
            seed, names = seed_of(self.seed, 1, look), (base, *going)
            runs = [(spread(specs[name].replace(replicates=count)), seed) for name in names]
            for name, trace in zip(names, together(runs, site), strict=True):
                seen[name].add(trace, self.reading.of_arm(specs[name]))
                shown.add(count)
            bounds = self.reading.bounds(trace, task)
            kind = self._kind(bounds)
            for name in going:
                a, b = _known(seen[name].numbers, seen[base].numbers)
                exact = self.exact({base: specs[base], name: specs[name]})
                why[name] = self._why({arm: (best[arm].pilot, seen[arm].numbers) for arm in (name, base)}, bounds)
                looks[name].append(self._look(a, b, "" if why[name] else kind, bounds, len(others), exact))
            saved = {name: _saved(*_known(seen[name].numbers, seen[base].numbers)) for name in others}
            pairs = tuple(Pair(name, base, tuple(k), saved[name], why=why[name]) for name, k in looks.items())
            most = bounds[1] if self.reading.until else math.inf
            made = (seen[name].arm(name, best[name], most, self.reading.event) for name in specs)
            arms = tuple(replace(arm, method=specs[arm.name].method.name, **stale[arm.name]) for arm in made)
            optimum = task.optimum if self.reading.metric in RETURNS else math.nan
            about = (bounds, optimum, self.smallest, self.in_metric, seen[base].places, self.reading.axis)
            target = math.nan if self.reading.target is None else self.reading.target
            latest = max(each.numbers.max() for each in seen.values()) if self.reading.until else math.nan
            event = self.reading.over * self.reading.event
            answer = OnTask(task.describe(), kind, arms, pairs, *about, target=target, latest=latest, event=event)
            # Decided pairs stay decided.
            going = [name for name in others if looks[name][-1].word == "undecided"]
            last = [looks[name][-1] for name in going]
            alike = answer.blind and not event and all(each.seen[-1] == "equal" for each in last)
            if not going or look == self.looks or alike:
                return replace(answer, pairs=tuple(self._told(pair, seen, answer) for pair in pairs))
            look = min(self._next(look, each) for each in last)

    def _told(self, pair: Pair, seen: Mapping[str, "Seen"], on: OnTask) -> Pair:
        """Add the ratio of a pair and its notes: truncated differences, or a final value with the opposite sign."""
        two = arm, base = [next(each for each in on.arms if each.name == name) for name in (pair.arm, pair.base)]
        cut = [each for each in two if 2 * each.never > each.replicates]
        never, notes = "most replicates of " + " and of ".join(each.name for each in cut), []
        if cut and pair.word == "equal":
            why = self._never(f"{never} never reach", on.bounds[1])
            return replace(pair, looks=(*pair.looks[:-1], _untold(pair.last.replicates, pair.last.difference)), why=why)
        if cut and not pair.why:
            what = f"a bound: the true one is {'above' if cut == [arm] else 'below'} it"
            what = what if min(arm.never, base.never) == 0 else "one of means that are cut off"
            notes.append(f"{never} never reach the target, so the difference is {what}")
        ahead, behind = two if pair.word == "worse" else two[::-1]
        lead = (ahead.end - behind.end) * (1.0 if self.reading.better == "higher" else -1.0)
        shown = [f"{each.end:.3g}" for each in (ahead, behind)]
        apart = shown[0] != shown[1] and lead > 2.0 * math.hypot(ahead.end_error, behind.end_error)
        averaged = self.reading.until if self.reading.clocked else self.reading.over != "end"
        if apart and averaged and pair.word in ("better", "worse"):
            remedy = "a comparison without the target" if self.reading.clocked else "over='end'"
            at = f"at the end the order is reversed: {ahead.name} {shown[0]}, {behind.name} {shown[1]}"
            notes.append(f"{at}; {remedy} compares the ends")
        if self.reading.clocked and self.reading.until and self.statistic == "mean" and not pair.why:
            numbers, level = (seen[pair.arm].numbers, seen[pair.base].numbers), self.error / len(on.pairs)
            pair = replace(pair, ratio=intervals.ratio(on.interval, *numbers, on.bounds, self.looks, level))
        return replace(pair, notes=tuple(notes))

    def _never(self, who: str, most: float) -> str:
        later = " and a later horizon," if self.reading.clocked else ""
        within = f"{self.reading.target:g} within {most:.6g} {self.reading.unit}"
        return f"{who} {within}; give more updates{later} or an easier target"

    def _next(self, look: int, last: Look) -> int:
        """The next look at which unseen events matter less than the smallest effect or the observed interval."""
        moved, (low, high, _) = math.prod(last.unseen), last.seen
        wanted = max(-low, high, self.smallest)
        return next((k for k in range(look + 1, self.looks) if moved * 2.0 ** (look - k) < wanted), self.looks)

    def _why(self, arms: Mapping[str, tuple[np.ndarray, np.ndarray]], bounds: tuple[float, float]) -> str:
        """Why no verdict on these arms is possible, given pilot and numbers of each, with the remedy; "" if one is.

        Heavy tails are detected in the pilots, before any number that a verdict uses is seen.
        """
        plain = self.statistic == "mean" and self.interval == "auto" and self._kind(bounds) == "planned"
        if self.reading.until and all((numbers >= bounds[1]).all() for _, numbers in arms.values()):
            return self._never("no replicate of either arm reaches", bounds[1])
        for name, (pilot, numbers) in arms.items():
            empty = int(np.isnan(numbers).sum())
            if empty:
                known = f"{empty} of {len(numbers)} replicates of {name} have no {self.reading.metric}"
                return f"{known}, and the others are a selection; use a metric that every replicate has"
            if plain and not math.isfinite(bounds[1] - bounds[0]) and intervals.heavy(pilot[~np.isnan(pilot)]):
                tail = f"heavy tails: one of {len(pilot)} pilot replicates of {name} has most of their variance"
                return f"{tail}, so no interval of a mean is valid; use the statistic median, iqm or improvement"
        return ""

    def _kind(self, bounds: tuple[float, float]) -> str:
        """The kind of interval, chosen before any number that it judges is seen."""
        if self.statistic != "mean":
            return intervals.OWN[self.statistic]
        bounded = math.isfinite(bounds[1] - bounds[0])
        if self.interval != "auto":
            remedy = "use interval='planned', or a statistic that needs no bounds"
            checks.require(self.interval != "betting" or bounded, "interval", "betting", "for bounded numbers", remedy)
            return self.interval
        # Events may be rare, and no pilot shows that.
        if self.reading.event or (bounded and intervals.betting_decides(bounds, self.most, self.smallest)):
            return "betting"
        return "planned"

    def _look(
        self, numbers: np.ndarray, base: np.ndarray, kind: str, bounds: tuple[float, float], pairs: int, exact: bool
    ) -> Look:
        sign, level = self.reading.orientation, self.error / pairs
        if self.statistic == "improvement":
            # A probability to win: more of it is better, whatever is read.
            numbers, base, sign = sign * numbers, sign * base, 1.0
        kind = "exact" if exact and kind == "planned" else kind
        if len(numbers) < FEWEST:
            return _untold(len(numbers), math.nan)
        value, ends, seen, event = intervals.difference(self.statistic, kind, numbers, base, bounds, self.looks, level)
        if not kind:
            return _untold(len(numbers), value)
        word, apart = (_word(*each, self.smallest, sign) for each in (ends, seen))
        chance = -math.log(intervals.MISSED * level) / len(numbers)
        return Look(len(numbers), value, *ends, word, (*seen, apart), (chance, event))


def _side_by_side(arms: Sequence[Generator[Spec, Trace, Any]], seed: int, site: Site) -> list[Any]:
    """Run generators of arms that request runs: in each round, all requested runs are trained together."""
    found: dict[int, Any] = {}
    sent: dict[int, Trace | None] = dict.fromkeys(range(len(arms)))
    while sent:
        asked: dict[int, Spec] = {}
        for number, trace in sent.items():
            try:
                asked[number] = next(arms[number]) if trace is None else arms[number].send(trace)
            except StopIteration as end:
                found[number] = end.value
        traces = together([(spec, seed) for spec in asked.values()], site) if asked else []
        sent = dict(zip(asked, traces, strict=True))
    return [found[number] for number in range(len(arms))]


class Seen:
    """Results of all replicates of one arm so far."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []
        self.curves: list[np.ndarray] = []
        self.diverged = self.short = 0
        self.why = ""
        self.places = np.empty(0)

    def add(self, trace: Trace, reading: Reading) -> None:
        """Add the replicates of one more training run to the arm's results."""
        curve = course(trace, reading.metric, lacking=True)
        self.parts.append(reading.numbers(trace, lacking=True))
        self.places, drawn = reading.drawn(curve, trace)
        self.curves.append(drawn[:, ~np.isnan(drawn).any(0)])
        self.short += int((reading.places(trace)[-1] < (reading.horizon or 0.0)).sum()) if reading.clocked else 0
        self.diverged += int((trace.diverged >= 0).sum())
        self.why = self.why or trace.why_diverged()

    @property
    def numbers(self) -> np.ndarray:
        """The number read from each of the arm's replicates so far, `[n]`."""
        return np.concatenate(self.parts)

    def arm(self, name: str, tuned: Tuned, most: float, event: bool) -> Arm:
        """Summary of an arm's replicates; `event`: numbers are 0 or 1; `most`: the number without the target."""
        curve = np.concatenate(self.curves, axis=1)
        ends, numbers = ending(curve), summarized(self.numbers, None, event)
        freedom = max(1, len(ends) - 1)
        with np.errstate(over="ignore", invalid="ignore"):
            half = uncertainty.critical(0.05, freedom) * curve.std(1, ddof=len(ends) > 1) / math.sqrt(len(ends))
        return Arm(
            name=name, tuned=tuned, replicates=len(self.numbers), mean=numbers["mean"], end=float(ends.mean()),
            end_error=float(ends.std(ddof=len(ends) > 1) / math.sqrt(len(ends))), start=float(curve[0].mean()),
            diverged=self.diverged, curve=curve.mean(1), why=self.why,
            band=np.clip([curve.mean(1) - half, curve.mean(1) + half], curve.min(1), curve.max(1)),
            low=numbers["low"], high=numbers["high"], never=int((self.numbers >= most).sum()), short=self.short,
            lacking=int(np.isnan(self.numbers).sum()),
        )  # fmt: skip


def _known(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs in which both numbers are known."""
    both = ~np.isnan(a) & ~np.isnan(b[: len(a)])
    return a[both], b[: len(a)][both]


def _saved(a: np.ndarray, b: np.ndarray) -> float:
    """Ratio of the variance of the difference without common draws to that with them."""
    if len(a) < FEWEST:
        return 1.0
    apart, together = float(a.var(ddof=1) + b.var(ddof=1)), float((a - b).var(ddof=1))
    return apart / together if together > ROUNDED**2 * apart else math.inf


def _untold(count: int, value: float) -> Look:
    return Look(count, value, *FREE, UNTOLD, (*FREE, UNTOLD), (0.0, 0.0))


def _word(low: float, high: float, smallest: float, sign: float) -> str:
    if -smallest < low and high < smallest:
        return "equal"
    if low <= 0.0 <= high:
        return "undecided"
    return "better" if sign * low > 0.0 else "worse"


def seed_of(seed: int, stage: int, look: int) -> int:
    """Independent seeds of a comparison, for tuning (stage 0) and for each look (stage 1)."""
    return int(np.random.SeedSequence([seed, stage, look]).generate_state(1, np.uint64)[0] >> 1)


def _only(grid: Mapping[str, Sequence[float]]) -> tuple[str, tuple[float, ...]]:
    checks.require(len(grid) == 1, "tune", sorted(grid), "one knob", "tune one knob at a time")
    ((name, values),) = grid.items()
    remedy = "give at least three ascending positive values"
    numbers = checks.finite_array("tune", values, (None,), remedy)
    fits = len(numbers) >= 3 and bool((np.diff(numbers) > 0).all()) and numbers[0] > 0.0
    checks.require(fits, "tune", list(values), "ascending, positive, at least three", remedy)
    return name, tuple(float(x) for x in numbers)


def _grid(starts: Sequence[float]) -> tuple[float, ...]:
    """Powers of two around the geometric mean of the arms' own rates, common to all arms."""
    remedy = "give every arm a positive learning rate to start from"
    for value in starts:
        checks.real("learning rate", value, remedy, 0.0, open_low=True)
    middle = math.exp(sum(map(math.log, starts)) / len(starts))
    return tuple(middle * 2.0**k for k in range(-STEPS, STEPS + 1))


MOST = 1 << 30
"""Maximum number of replicates in a plan."""
SURE = 0.95
"""Probability that the true spread is below the upper bound used in a plan."""


@dataclass(frozen=True)
class Plan(calls.Told):
    """Plan of a comparison: the replicates that it needs, and the pilot's spread and cost behind them.

    `replicates` of each arm, in looks of 64, 128, ...; `spread`, standard deviation of a paired difference in the
    pilot, and `unpaired`, that without common draws; `seconds` of all arms.
    """

    replicates: int
    effect: float
    power: float
    error: float
    spread: float
    unpaired: float
    seconds: float

    def __str__(self) -> str:
        """The plan in one line."""
        return (
            f"{self.replicates} replicates find an effect of {self.effect:g} with probability {self.power:g} (error "
            f"rate {self.error:g}); about {notation.number(self.seconds)} s; spread {self.spread:.3g} paired, "
            f"{self.unpaired:.3g} unpaired"
        )


@calls.named
def power(
    *arms: Any,
    effect: float,
    power: float = 0.9,
    metric: Any = notation.TRAINED,
    over: str = "mean",
    target: float | None = None,
    better: str | None = None,
    error: float = 0.05,
    pilot: int = FIRST,
    seed: int = 0,
) -> Plan:
    """Number of replicates that `compare` needs to detect a true difference of `effect`, from a pilot of paired runs.

    With s the spread of a paired difference and K looks at 64, 128, ..., n replicates,
        r_n + z_power s'/sqrt(n) <= effect,    s' = s sqrt((m - 1)/chi2_{0.05}(m - 1)).
    Here s' is an upper bound of the spread, exceeded in 1 of 20 pilots of m. The half-width of an interval of
    `intervals.planned` at s' is r_n, including the unseen events that `compare` would allow for after the pilot. If the
    arms are equal, the verdict is then "equal" within the effect with probability at least 2 power - 1. Pass the number
    of replicates to `compare` as `max_replicates`, so that its looks are those planned.

    Arguments: `arms`, two or more specs or a mapping, with their present learning rates; `effect` > 0 in units of the
    reading; `power` in (0, 1); `metric`, `over`, `target`, `better`, `error` as in `compare`; `pilot` m, replicates per
    arm; `seed`. Returns a `Plan` for the pair that needs most replicates. Raises `InputError` as `compare` does.
    Assumes nearly normal paired differences, and planned looks. Source: this package.

    >>> import asyncsim as sim
    >>> a = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(4), sim.methods.reinforce(),
    ...              sim.chain(sim.updates.sgd(0.5)), updates=20)
    >>> plan = power(a, a.replace(system=sim.schedules.fixed(0)), effect=0.01)
    >>> plan.spread < plan.unpaired
    True
    """
    checks.real("effect", effect, "state the effect to find", 0.0, open_low=True)
    for name, value in (("power", power), ("error", error)):
        checks.rate(name, value, "give a probability")
    checks.integer("pilot", pilot, 8, "a spread takes at least eight replicates")
    specs = pairing.named(arms)
    diagnostics, name = recorded(metric)
    reading = Reading(name, over, target, better)
    specs = {key: spec.replace(diagnostics=diagnostics) for key, spec in specs.items()}
    refuse([reading], ((f"arm {key}", spec) for key, spec in specs.items()))
    numbers, seconds = [], []
    for spec in specs.values():
        start = time.monotonic()
        few = spread(spec.replace(replicates=pilot, block=None, realizations=None))
        trace = run(few, seed_of(seed, 2, 0), progress=False)
        numbers.append(reading.numbers(trace))
        seconds.append(time.monotonic() - start)
    base, *others = numbers
    bounds = reading.bounds(trace, few.fitted_task)
    # The first run may have compiled something.
    each = len(specs) * min(seconds) / pilot
    # The pair that varies most decides.
    worst = max(others, key=lambda other: float((other - base).std()))
    paired = float((worst - base).std(ddof=1))
    remedy = "raise pilot, or read something that differs between replicates"
    checks.require(paired > 0.0, "spread of the pilot", paired, "above 0", remedy)
    wide = paired * math.sqrt((pilot - 1) / float(special.chdtri(pilot - 1, SURE)))
    event = max(max(intervals.unseen(other - base, intervals.events(other, base, bounds))) for other in others)
    count = _enough(wide, event, effect, power, error / len(others))
    unpaired = math.sqrt(float(worst.var(ddof=1) + base.var(ddof=1)))
    return Plan(count, effect, power, error, paired, unpaired, each * count)


def _enough(spread: float, event: float, effect: float, power: float, level: float) -> int:
    """The first planned look at which the effect exceeds the interval plus the random error of the mean."""
    count, looks = FIRST, 1
    while True:
        error = spread / math.sqrt(count)
        mean = Estimate(float(special.ndtri(power)) * error, error, samples=count)
        if intervals.around(mean, looks, level, (event, event)).high < effect:
            return count
        count, looks = 2 * count, looks + 1
        checks.require(count <= MOST, "replicates", count, f"at most {MOST}", "ask for a larger effect")
