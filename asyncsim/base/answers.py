"""The answers of `compare`, `sweep`, `boundary` and collapse prediction: verdicts, and the numbers behind them."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from asyncsim.base import calls, checks, notation, pages, uncertainty
from asyncsim.base import store as storing
from asyncsim.base.records import Estimate, plain

if TYPE_CHECKING:
    import pandas as pd

NAMED = 4
"""Maximum number of settings in the name of a task."""
UNNAMED = ("task", "prompts", "rewards", "kl_coef", "kl_at", "deviation")
"""Settings that are left out of the name of a task."""
NARROW = 13
"""Length of an arm's name up to which its line has room for the final value."""
PAIRED = 1.05
"""Ratio of variances above which pairing is reported as a gain."""
ROUNDED = 1e-9
"""Difference below which two numbers count as one."""
NUMBER = re.compile(r"([-+]?\.?\d[\d.,e+-]*|inf|nan)( %?$|%|$| [±*\[(])")
OF_TASK = ("task", "interval", "bounds", "unseen", "blind", "optimum", "axis", "setting")
OF_ARM = (
    *("name", "method", "replicates", "mean", "low", "high", "end", "end_error", "start"),
    *("diverged", "never", "short", "lacking", "staleness_mean", "staleness_p99"),
)
OF_ROW = ("method", "mean", "low", "high", "end", "replicates", "never", "staleness_mean", "staleness_p99")
OF_TUNED = ("knob", "chosen", "grid", "scores", "errors", "flat")
OF_ANSWER = ("metric", "reading", "unit", "statistic", "better", "smallest", "error", "seed", "seconds", "word")
"""Fields of the JSON object."""
UNCOUNTED = "seconds are not counted here"
"""Start of a note that arms are not equally fast although the reading counts updates."""
SAME_TASK = "not distinguishable on this task"
SHARE = "share of replicates"
"""The unit of an event's frequency."""
POOLED = "note: staleness_p99 is a mean over short runs; a single timeline pools longer runs, and is often higher"
UNTOLD = "cannot tell"
"""The verdict of a pair whose numbers support no other."""
HARDLY = 0.02
"""Fraction of the missing return below which training has gained next to nothing."""
CHANCE = 0.1
"""Excess of the area over 1/2 below which a signal counts as no better than chance."""


@dataclass(frozen=True)
class Tuned:
    """Result of tuning one arm of a comparison.

    `knob` is its name ("" if nothing was tuned), `chosen` its value; `grid` and `scores` are the values tried and the
    mean of the reading at each, `errors` their standard errors; `pilot` `[n]`, the numbers at the chosen value; `flat`,
    the ratio of the largest to the smallest inner value that is as good as the best within the tolerance.
    """

    knob: str
    chosen: float
    grid: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    pilot: np.ndarray = field(default_factory=lambda: np.empty(0))
    flat: float = 1.0


@dataclass(frozen=True)
class Look:
    """One interim look at a pair of arms: difference, interval and verdict after `replicates` of each arm.

    `seen`: ends of the interval and the verdict, if no event is rarer than what the replicates show. `unseen`: the
    probability up to which they can miss an event, and how far such an event is assumed to move a replicate at most
    (0: the interval assumes nothing).
    """

    replicates: int
    difference: float
    low: float
    high: float
    word: str
    seen: tuple[float, float, str]
    unseen: tuple[float, float]


@dataclass(frozen=True)
class Pair:
    """One arm of a comparison, compared with the base arm.

    A difference is the arm's number less the base's, so where lower is better, a better arm has a negative one.
    `pairing`: how many times larger the variance would be without common draws.
    """

    arm: str
    base: str
    looks: tuple[Look, ...]
    pairing: float
    ratio: tuple[float, float, float] | None = None
    """Ratio of the arm's mean to that of the base, with its interval, for seconds or cost until a target."""
    why: str = ""
    """Why the verdict is "cannot tell", and the remedy."""
    notes: tuple[str, ...] = ()
    """Qualifications of the verdict, such as a final value with the opposite sign."""

    @property
    def word(self) -> str:
        """Verdict on the pair of arms: better, worse, equal, undecided or "cannot tell"."""
        return self.looks[-1].word

    @property
    def last(self) -> Look:
        """The look at which the verdict was decided, or the final look if none decided."""
        return self.looks[-1]

    def sentence(self, word: str, where: str = "") -> str:
        """Verdict on the pair in one line: the `word`, the condition `where` it holds, and the numbers."""
        last = self.last
        relation = {"better": "is better than", "worse": "is worse than", "equal": "equals"}.get(word, "")
        said = f"{self.arm} {relation} {self.base}{where}" if relation else f"{self.arm}, {self.base}: {word}"
        numbers = f"difference {last.difference:+.3g} [{last.low:+.3g}, {last.high:+.3g}]"
        numbers = numbers if word != UNTOLD else f"difference {last.difference:+.3g}, without an interval"
        if self.ratio is not None:
            numbers += ", ratio {:.3g} [{:.3g}, {:.3g}]".format(*self.ratio)
        return f"{said}; {numbers}, {last.replicates} replicates each"

    def details(self, word: str) -> str:
        """What pairing gained, and, with `-v` or if it decides, the interval that ignores unseen rare events."""
        gain, last = f"pairing cut the variance {self.pairing:.2g} times", self.last
        saved = gain if self.pairing > PAIRED else "pairing did not help"
        if not math.isfinite(self.pairing):
            alike = abs(last.difference) < ROUNDED
            saved = f"the same {'numbers' if alike else 'difference'} in every replicate"
            saved += ", so the two are the same on this task" * (alike and word not in ("undecided", UNTOLD))
        low, high, apart = last.seen
        decides = word == "undecided" != apart
        seen = f"{apart} " * decides + f"[{low:+.3g}, {high:+.3g}] without rare events; "
        return f"{seen * ((low, high) != (last.low, last.high) and (decides or pages.VERBOSE.get()))}{saved}"

    def __str__(self) -> str:
        """The verdict and its numbers in one line."""
        return self.sentence(self.word)


@dataclass(frozen=True)
class Arm:
    """One arm of a comparison: its tuned value, its mean over replicates, and its metric at start and end."""

    name: str
    tuned: Tuned
    replicates: int
    mean: float
    end: float
    end_error: float
    start: float
    diverged: int
    curve: np.ndarray = field(repr=False, compare=False)
    """Mean of the metric over replicates, `[U/every]`."""
    band: np.ndarray = field(default_factory=lambda: np.empty((2, 0)), repr=False, compare=False)
    """Ends of its 95 percent interval between replicates, `[2, U/every]`; `low` and `high` are those of `mean`."""
    low: float = math.nan
    high: float = math.nan
    never: int = 0
    """Number of replicates that never reach the target, and count as the end of the axis; `short`: end early."""
    short: int = 0
    why: str = ""
    """When and why replicates diverged, in the first run in which some did; `lacking` replicates have no value."""
    lacking: int = 0
    method: str = ""
    staleness_mean: float = math.nan
    """Mean staleness of tokens in versions before the horizon, and its 99th percentile; NaN without a clock."""
    staleness_p99: float = math.nan


@dataclass(frozen=True)
class OnTask:
    """Result of a comparison on one task.

    `interval` names the kind of interval; `bounds` are the smallest and largest possible number of a replicate;
    `optimum` is the best expected return, NaN where unknown; `in_metric` whether differences are in units of the
    metric; `updates` are those of the arms' curves.
    """

    task: dict[str, Any]
    interval: str
    arms: tuple[Arm, ...]
    pairs: tuple[Pair, ...]
    bounds: tuple[float, float]
    optimum: float
    smallest: float
    in_metric: bool
    updates: np.ndarray = field(repr=False, compare=False)
    axis: str = "update"
    """Unit of `updates`, the abscissae of the curves: updates, simulated seconds or slot-hours."""
    setting: dict[str, Any] = field(default_factory=dict)
    """Values of the grid's parameters at this setting, by name; empty without a grid."""
    target: float = math.nan
    latest: float = math.nan
    """Where on the axis the last replicate reaches the `target`; the end of the axis if some replicate never does."""
    event: str = ""
    """What is counted, "collapse", "fall" or "reached", where numbers are shares of replicates."""

    @property
    def idle(self) -> tuple[str, str]:
        """Statement that no replicate, or every replicate, has the event, and what to try; else ("", "")."""
        return idle(self.event, {arm.mean for arm in self.arms})

    @property
    def blind(self) -> str:
        """Why no arm can be better: `idle`, all arms end at the optimum, or none leaves its start; "" if an arm can.

        The latter only for differences in units of the metric, and if no pair is better or worse.
        """
        if self.idle[0]:
            return f"{self.idle[0]}, so nothing was tested"
        if not self.in_metric or any(pair.word in ("better", "worse", UNTOLD) for pair in self.pairs):
            return ""
        ends = [(arm.end, 2.0 * arm.end_error) for arm in self.arms]
        if all(abs(end - self.optimum) + slack < self.smallest for end, slack in ends):
            return f"all arms end within {self.smallest:g} of the optimum {self.optimum:g}"
        starts = [arm.start for arm in self.arms]
        if all(abs(end - start) + slack < self.smallest for (end, slack), start in zip(ends, starts, strict=True)):
            return f"no arm moves by {self.smallest:g} from where it started"
        return ""

    @property
    def unseen(self) -> str:
        """Which rare events the replicates cannot exclude, and what is assumed about them; "" without an assumption."""
        last = max((pair.last for pair in self.pairs), key=lambda look: look.unseen)
        chance, event = last.unseen
        if event == 0.0:
            return ""
        # Intervals have room for three times what was seen, which may be more than the range of a number allows.
        most = self.bounds[1] - self.bounds[0] + abs(last.difference)
        beyond = "" if math.isfinite(most) else "; larger ones are assumed not to occur"
        still = f"cannot exclude that 1 replicate in {1.0 / chance:.0f} differs by up to {min(event, most):.3g}"
        return f"rare events: {last.replicates} replicates {still}; the intervals allow for this{beyond}"

    def twins(self) -> list[str]:
        """Statements on arms that are not compared with each other but have identical curves."""
        found = itertools.combinations(self.arms[1:], 2)
        alike = [(a, b) for a, b in found if np.allclose(a.curve, b.curve, ROUNDED, ROUNDED, equal_nan=True)]
        full = ", whose sequences all have full length (task.ends=true varies it)" * (self.task.get("ends") is False)
        return [f"  {a.name} and {b.name} have the same curve: they are the same on this task{full}" for a, b in alike]

    def word_of(self, pair: Pair) -> str:
        """Verdict on a pair of arms, or the statement that the task cannot distinguish them."""
        return SAME_TASK if pair.word in ("equal", "undecided") and self.blind else pair.word

    @property
    def name(self) -> str:
        """Name of the task with its first settings."""
        sizes = ", ".join(f"{key}={value}" for key, value in self._sizes())
        varied = "".join(f", {name} = {cell(value)}" for name, value in self.setting.items())
        return f"{self.task.get('task', 'task')}({sizes}){varied}"

    @property
    def title(self) -> str:
        """Name of the task with its first settings in words, without those that are off."""
        words = [f"{key} {value}" for key, value in self._sizes() if value is not False]
        return f"{self.task.get('task', 'task')}{': ' * bool(words)}{', '.join(words)}".replace("_", " ")

    def _sizes(self) -> list[tuple[str, Any]]:
        named = ((key, value) for key, value in self.task.items() if isinstance(value, (int, float, str)))
        return [(key, value) for key, value in named if key not in UNNAMED][:NAMED]


@dataclass(frozen=True)
class Answer(calls.Told):
    """The answer of `compare`, with one `OnTask` per task.

    Each verdict of a task is wrong with probability at most `error`, whatever the number of looks, if events that the
    replicates do not show move a replicate by no more than is printed (`OnTask.unseen`). `better`: whether "higher"
    or "lower" numbers, and so differences, are better.
    """

    metric: str
    reading: str
    unit: str
    statistic: str
    better: str
    smallest: float
    error: float
    seed: int
    tasks: tuple[OnTask, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    """What a reader has to know of the arms, such as different numbers of samples per update."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Pairs of arms on the first task."""
        return self.tasks[0].pairs

    @property
    def word(self) -> str:
        """Verdict on the first pair of arms on the first task."""
        return self.tasks[0].word_of(self.pairs[0])

    @property
    def difference(self) -> float:
        """Difference between the arms of the first pair on the first task."""
        return self.pairs[0].last.difference

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the difference of the first pair on the first task."""
        return self.pairs[0].last.low, self.pairs[0].last.high

    def __str__(self) -> str:
        """Format the answer for a terminal: verdicts, then differences with intervals, tuned values, replicates."""
        reading = self.reading if self.better == "higher" else f"{self.reading}, lower is better"
        assumed = ", if rare events are no larger than the intervals allow" * any(on.unseen for on in self.tasks)
        # On a clock, a return could be taken for seconds.
        clocked = f" in {self.unit}" * (self.tasks[0].axis != "update")
        unit = clocked if self.unit == self.metric else f" {self.unit}"
        title = [f"{reading}; smallest difference that matters {self.smallest:g}{unit}"]
        title.append(f"error rate {self.error:g} per task{assumed}")
        trains = {arm.name: arm.method for arm in self.tasks[0].arms}
        if "method" not in self.tasks[0].setting and any(trains[name] not in name for name in trains):
            same = len({*trains.values()}) == 1
            each = (f"{name} trains {method}" for name, method in trains.items())
            title.append(f"every arm trains {self.tasks[0].arms[0].method}" if same else ", ".join(each))
        title += [f"note: {note}" for note in self.notes]
        where = " at equal updates" if any(note.startswith(UNCOUNTED) for note in self.notes) else ""
        along, said, lines = bool(self.tasks[0].setting), list[str](), ["", *title]
        for on in self.tasks:
            clock = "" if on.axis == "update" else f", first {on.updates[-1]:.6g} {on.axis} of each arm"
            lines += ["", f"{on.name}{clock}", *([] if along else self._table((on,)))]
            for pair in on.pairs:
                word = on.word_of(pair)
                sentence = pair.sentence(word, f" within {self.smallest:g}" if word == "equal" else where)
                lines += [sentence] * along
                said.append(f"{on.name}: " * (len(self.tasks) > 1) + sentence)
                details = pair.details(UNTOLD if on.idle[0] else word)
                whose = f"{pair.arm}: " * (len(on.pairs) > 1 and not along)
                lines += [f"  {whose}{line}" for line in (details, pair.why, *pair.notes) if line]
            other = other_task(on.task, harder=not on.blind.startswith("no arm"))
            if on.idle[0]:
                tuned = on.event in ("collapse", "fall") and on.arms[0].tuned.knob
                other = "--tune none, as tuning prefers rates that spare runs, with " * bool(tuned) + on.idle[1]
            elif not (on.blind.startswith("no arm") or any(math.isfinite(pair.pairing) for pair in on.pairs)):
                alike = "settings in which the arms differ", "another kind of task, such as token_bandit"
                other = alike[on.task.get("task") != "token_bandit"]
            if on.axis != "update" and "reaches" not in self.reading:
                aim = on.arms[0].start + 0.9 * (on.arms[0].end - on.arms[0].start)
                aims = f"target={aim:.2g} (--target {aim:.2g}, with --smallest in {on.axis.split()[-1]})"
                other = f"{aims}, which asks when each arm gets there, or {other}"
            lines += on.twins()
            rare = pages.VERBOSE.get() or any(on.word_of(p) == "undecided" != p.last.seen[-1] for p in on.pairs)
            advice = f"{on.blind}; most likely remedy: {other}" if on.blind else ""
            lines += [f"  {line}" for line in (on.unseen * rare, advice) if line]
            lines += [f"  {arm.name}: {lost}" for arm in on.arms if (lost := self._lost(arm, on))]
        return "\n".join([*(self._table(self.tasks) if along else said), *lines])

    def _lost(self, arm: Arm, on: OnTask) -> str:
        """What is particular of an arm: another number of replicates, and those that diverged or end early."""
        lost = f", {arm.replicates} replicates" * (len({other.replicates for other in on.arms}) > 1)
        lost += "; a difference is over those of both arms" * bool(lost and arm is on.arms[-1])
        lost += f", {arm.diverged} diverged ({arm.why.partition(' diverged ')[2]})" if arm.diverged else ""
        if arm.never:
            most = f"{on.bounds[1]:.6g} {self.unit}"
            lost += f", {arm.never} of {arm.replicates} never reach the target within {most} and count as that"
        lost += f", {arm.lacking} of {arm.replicates} have no value" if arm.lacking else ""
        if arm.short:
            lost += f", {arm.short} of {arm.replicates} end before that and keep their last value: raise updates"
        return lost.removeprefix(", ")

    def table(self) -> "pd.DataFrame":
        """One row per task, setting and arm: mean with its 95 percent interval, tuned value, verdict of its pair.

        Columns: `task`, the setting, `arm`, `method`, `mean`, `low`, `high`, `end`, `replicates`, `never`, on a clock
        `staleness_mean` and `staleness_p99`, `knob`, `chosen`. The pair with the first arm has `difference`,
        `difference_low`, `difference_high` and `word` (missing for that arm).
        """
        from asyncsim.base.tables import Table

        return Table(list(self._rows(self.tasks)))

    def _rows(self, tasks: Sequence[OnTask]) -> Iterator[dict[str, Any]]:
        for on in tasks:
            pairs = {pair.arm: pair for pair in on.pairs}
            for arm in on.arms:
                row = {"task": on.name, **on.setting, "arm": arm.name}
                row |= {name: getattr(arm, name) for name in OF_ROW} | on.setting
                row |= {"knob": arm.tuned.knob, "chosen": arm.tuned.chosen}
                if arm.name in pairs:
                    pair, last = pairs[arm.name], pairs[arm.name].last
                    row |= {"difference": last.difference, "difference_low": last.low, "difference_high": last.high}
                    row |= {"word": on.word_of(pair)}
                yield row

    def _table(self, tasks: Sequence[OnTask]) -> list[str]:
        """Lines of the table of arms, on one task or along a grid; there each row has its verdict."""
        form, along = "{difference:+.3g} [{difference_low:+.3g}, {difference_high:+.3g}]", [*tasks[0].setting]
        # A difference of medians or middle halves need not have the sign of one of means.
        means = self.statistic in ("mean", "improvement")
        room = not along and max(len(arm.name) for arm in tasks[0].arms) <= NARROW
        lines: list[dict[str, str]] = []
        for row in self._rows(tasks):
            cells = {name: cell(row[name]) for name in along} | {"arm": row["arm"]}
            cells |= {"mean": mean_of({**row, "never": 0}, self.unit == SHARE)} if means else {}
            cells |= {"end": f"{row['end']:.3g}"} if means and room and not self.reading.endswith("last tenth") else {}
            clocked, stale = math.isfinite(row["staleness_mean"]), "{staleness_mean:.2g} ({staleness_p99:g})"
            cells |= {"staleness (p99)": stale.format(**row)} if clocked else {}
            cells["best"] = f"{row['knob']} {row['chosen']:.3g}" if row["knob"] else "not tuned"
            cells["difference"] = form.format(**row) if "word" in row else ""
            lines.append(cells | ({"": row.get("word", "")} if along else {}))
        return aligned([[*lines[0]], *([*each.values()] for each in lines)])

    def row(self) -> dict[str, Any]:
        """The answer of `compare` as a JSON object."""
        tasks = []
        for on in self.tasks:
            pairs = [{**plain(asdict(pair)), "word": on.word_of(pair)} for pair in on.pairs]
            arms = [{**_plain(arm, OF_ARM), "tuned": _plain(arm.tuned, OF_TUNED)} for arm in on.arms]
            tasks.append({**_plain(on, OF_TASK), "arms": arms, "pairs": pairs})
        return {**_plain(self, OF_ANSWER), "notes": list(self.notes), "tasks": tasks}


def _plain(value: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: plain(getattr(value, name)) for name in names}


def idle(event: str, shares: set[float]) -> tuple[str, str]:
    """The statement that no run, or every run, has an event (all shares are 0, or all are 1), and what to try."""
    none, _, other = checks.advice(f"{event}-{'-'.join(map(str, shares))}", "idle").partition("; ")
    return none, other


def other_task(task: Mapping[str, Any], harder: bool) -> str:
    """Suggest how to change a task on which all runs end at the optimum, or on which no run learns."""
    chain = task.get("task") == "bit_chain"
    if harder:
        return f"a larger horizon, else fewer updates{' or a harder task, such as bit_chain' * (not chain)}"
    easier = "task.fraction=0.75 with a shorter horizon" if chain and task.get("fraction") == 1.0 else "an easier task"
    return f"more updates, else a larger learning rate or {easier}"


def unlearned(task: Mapping[str, Any], some: bool) -> str:
    """The statement that no run learned, with what to try; `some`: whether some runs collapsed."""
    other = "a smaller learning rate" if some else other_task(task, harder=False)
    return f"{checks.advice('unlearned', 'idle')}; try {other}"


def unseen(rows: Sequence[Mapping[str, Any]], event: str, optimum: float, task: Mapping[str, Any]) -> str:
    """Why the rows of a sweep show nothing (event in no or every run, no gain, all at the optimum), and what to try."""
    if all(row.get("unlearned") == row["replicates"] for row in rows):
        return unlearned(task, some=any(row["mean"] for row in rows))
    none, other = idle(event, {row["mean"] for row in rows})
    if none:
        return f"{none.replace(' arm', ' setting')}; try {other}"
    same = len({row[k] for row in rows for k in ("mean", "low", "high", "end") if k in row}) == 1 and "end" in rows[0]
    flat = f"every return is {rows[0]['mean']:.4g}: nothing was learned; are the rewards of a group all alike?" * same
    gains = [(row.get("end", row["mean"]) - row["start"], optimum - row["start"]) for row in rows if "start" in row]
    if not gains or not all(0.0 < missing < math.inf for _, missing in gains):
        return flat
    if all(gain < HARDLY * missing for gain, missing in gains):
        most = max(0.0, *(100.0 * gain / missing for gain, missing in gains))
        return f"no setting gains more than {most:.2g} % of the missing return; try {other_task(task, harder=False)}"
    alike = max(row["low"] for row in rows) <= min(row["high"] for row in rows)
    if alike and all(missing - gain < HARDLY * missing for gain, missing in gains):
        return f"all settings end at the optimum {optimum:g}; try {other_task(task, harder=True)}"
    return ""


PACE = "groups_per_hour"
"""The metric of a system whose knee is computed."""
PRINTED = 40
"""Maximum number of rows in the printed form."""


@dataclass(frozen=True)
class Sweep(calls.Told):
    """The answer of `sweep`: a summary of each metric at each setting, and its units.

    `id`, its name in the store at the path `store`; `names` of what was varied, with their `values`; `metrics`, the
    numbers of each replicate; `summary`, a mapping for each setting and metric (see `table`); `units`, the number of
    units, and `made`, how many this call computed; `failed`, settings without numbers, with the reason; `replicates` of
    a setting; `reading`, in words how a curve became a number; `seconds` of this call; `files` with the numbers;
    `folder`, a temporary one that is deleted with the answer; `lines`, structures with the prediction of a claim.
    """

    id: str
    store: str
    names: tuple[str, ...]
    values: dict[str, tuple[Any, ...]]
    metrics: tuple[str, ...]
    summary: tuple[dict[str, Any], ...]
    units: int
    made: int
    failed: tuple[dict[str, Any], ...]
    replicates: int
    reading: str
    seconds: float
    files: tuple[str, ...] = field(default=(), repr=False)
    folder: Any = field(default=None, repr=False, compare=False)
    lines: tuple[dict[str, Any], ...] = ()
    differences: tuple[dict[str, Any], ...] = ()
    """Of two settings and each metric: the second less the first, replicate by replicate, with its interval."""
    notes: tuple[str, ...] = ()
    """What a reader has to know of the settings, as of the arms of `Answer`, and why they may show nothing."""

    def table(self) -> "pd.DataFrame":
        """Table of the sweep, with one row per setting and metric.

        Columns: the setting, `metric`, `mean`, `standard_error`, `low`, `high`, `median`, `diverged`, `diverged_at`,
        `replicates`. `low` and `high` are the 95 percent interval of the mean between replicates. `diverged` is the
        share that left the finite range, `diverged_at` its median update. `replicates` counts those with a value,
        `never` those that do not reach the target of over="time" and count as all updates; `end` is the mean over the
        last tenth of the updates, for over="mean"; `start` is the trained return of the initial policy. For
        over="collapse" `unlearned` counts runs that never came half of the way to the best of their setting, `early`
        those of them that collapse.
        """  # fmt: skip
        from asyncsim.base.tables import Table

        return Table(list(self.summary))

    def rows(self) -> "Iterator[pd.DataFrame]":
        """Recorded numbers of every replicate: one table per unit, in the order of the grid, read lazily."""
        store = storing.Store(self.store)
        for name, data in zip(self.files, store.read_all(self.files), strict=True):
            yield storing.unpack(data, name)[0].to_pandas(use_threads=False)

    def row(self) -> dict[str, Any]:
        """The answer of `sweep` as a JSON object."""
        hidden = {"files", "folder", *(name for name in ("differences", "notes") if not getattr(self, name))}
        return plain({name: value for name, value in vars(self).items() if name not in hidden})

    @property
    def shares(self) -> bool:
        """Whether the numbers of the sweep are fractions of replicates with an event, such as collapse."""
        return self.reading.startswith(SHARE)

    def knee(self, share: float = 0.95) -> tuple[str, Any] | None:
        """The only varied number of a system, and its cheapest value that reaches `share` of the best pace.

        That is the smallest one, of times the longest. None if anything else was varied, or if the cheapest suffices.
        """
        rows = [row for row in self.summary if row["metric"] == PACE]
        if len(self.names) != 1 or not rows or any(isinstance(row[self.names[0]], (str, bool)) for row in rows):
            return None
        name, most = self.names[0], max(row["mean"] for row in rows)
        cheap = max if name.endswith("_time") else min
        knee = cheap(row[name] for row in rows if row["mean"] >= share * most)
        return None if knee == cheap(row[name] for row in rows) else (name, knee)

    @property
    def title(self) -> str:
        """The knee of the sweep in one sentence; "" if the sweep has none."""
        name, value = self.knee() or ("", None)
        least = "longest" if name.endswith("_time") else "smallest"
        words = f"is the {least} value with 95 % of the maximum groups per hour"
        return f"{name} = {cell(value)} {words}" if name else ""

    def __str__(self) -> str:
        """Format the answer for a terminal: a table of means with intervals, failed settings, and the work done."""
        word = [f"knee: {self.title.replace(' = ', '=')}"] if self.title else []
        settings: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in self.summary:
            settings.setdefault(tuple(row[name] for name in self.names), {})[row["metric"]] = row
        ended = {row["metric"] for row in self.summary if "end" in row} & {*notation.RETURNS}
        cells = [[*self.names, *(n for metric in self.metrics for n in (metric, "end")[: 1 + (metric in ended)])]]
        for values, found in list(settings.items())[:PRINTED]:
            cells.append([*map(cell, values)])
            for metric in self.metrics:
                end = f"{found.get(metric, {}).get('end', math.nan):.3g}"
                cells[-1] += [mean_of(found.get(metric), self.shares), end][: 1 + (metric in ended)]
        sign = "[low, high] is the exact" if self.shares else "± is the"
        final = ", end the mean over the last tenth" * bool(ended)
        lines = [f"{self.reading}; {self.replicates} replicates a setting, {sign} 95 percent interval{final}"]
        lines += aligned(cells)
        if {"bias", "variance"} & {*self.metrics}:
            lines.append("each row follows its own run; sim.oracle.moments compares methods at the same policies")
        if any(row["metric"] == "staleness_p99" and row["standard_error"] > 0.0 for row in self.summary):
            word.insert(0, POOLED)
        for row in self.differences:
            less = " less ".join(", ".join(map(cell, values)) for values in reversed(settings))
            sure = "which includes 0" if row["low"] <= 0.0 <= row["high"] else "so they differ"
            lines.append(f"{row['metric']} at {less}, seed by seed: {mean_of(row)}, {sure}")
        word += [f"note: {note}" for note in self.notes]
        more = len(settings) - PRINTED
        lines += [*([f"{more} more settings; table() lists all"] if more > 0 else []), *word]
        for each in self.failed:
            setting = ", ".join(f"{name}={value}" for name, value in each["setting"].items()) or "every setting"
            lines.append(f"failed at {setting}: {each['reason']} ({each['units']} units)")
        before = self.units - self.made - sum(each["units"] for each in self.failed)
        known = f", {before} were there" if before else ""
        where = f"sweep {self.id} in {self.store}" if self.folder is None else "no store was named, so nothing is kept"
        return "\n".join([*lines, f"{self.units} units: {self.made} made{known}; {self.seconds:.1f} s; {where}"])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows of cells as lines with aligned columns: numbers on the right, words on the left."""
    columns = list[list[str]]()
    for column in zip(*rows, strict=True):
        side, width = str.rjust if any(map(NUMBER.match, column[1:])) else str.ljust, max(map(len, column))
        columns.append([side(text, width) for text in column])
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def cell(value: Any) -> str:
    """Format the value of a setting with at most six significant digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def mean_of(row: Mapping[str, Any] | None, share: bool = False) -> str:
    """Format a mean with half its interval, or a `share` with its interval; a half-width from rounding is 0."""
    if row is None:
        return "failed"
    if row.get("diverged") == 1.0:
        return f"all diverged, half by update {row['diverged_at']:.0f}"
    if row["replicates"] == 0:
        return "no value"
    if share:
        return " ".join(notation.bounded(row["mean"], row["low"], row["high"]))
    half = (row["high"] - row["low"]) / 2.0
    half = 0.0 if half <= 1e-12 * abs(row["mean"]) else half
    text = notation.measurement(row["mean"], half, 0.0) + " ± 0" * (half == 0.0)
    never = row.get("never")
    return f"{text}, target not reached in {never} of {row['replicates']}" if never else text


def summarized(values: np.ndarray, diverged: np.ndarray | None, event: bool = False) -> dict[str, Any]:
    """Statistics of one number per replicate `[n]`: mean, standard error, 95 percent interval, median, divergence.

    Replicates without a value (NaN) are omitted from all but `diverged`; `replicates` counts the others. Numbers that
    count an `event`, 0 or 1, have the interval of Clopper and Pearson, which is not empty where all are equal.
    """
    share = 0.0 if diverged is None else float((diverged >= 0).mean())
    at = float(np.median(diverged[diverged >= 0])) if diverged is not None and share else math.nan
    values = values[~np.isnan(values)]
    n, mean, error, half, median = len(values), math.nan, math.nan, math.nan, math.nan
    if n > 0:
        # Numbers of replicates that left the finite range have squares that overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            mean, median = float(values.mean()), float(np.median(values))
            error = float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.inf
        half = uncertainty.critical(0.05, n - 1) * error if n > 1 else math.inf
    low, high = mean - half, mean + half
    if event and n > 0:
        low, high = stats.binomtest(int(values.sum()), n).proportion_ci()
    numbers = {"mean": mean, "standard_error": error, "low": float(low), "high": float(high), "median": median}
    return {**numbers, "diverged": share, "diverged_at": at, "replicates": n}


@dataclass(frozen=True)
class Boundary(calls.Told):
    """The answer of `boundary`: brackets of a critical value of a knob.

    `knob` is the name; `names` those of the structures; `rows` holds a mapping per structure: setting, low, high,
    narrow (whether it is as narrow as requested), replicates, and predicted if a `claim` predicts it. Its events_low
    and events_high count the replicates with the event at both ends; `none` says why there is none between (NaN).
    `event`: in words; `share` of replicates with the event at the boundary; `error`, probability that a bracket misses
    it.
    """

    knob: str
    names: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    event: str
    share: float
    error: float
    claim: str = ""

    def table(self) -> "pd.DataFrame":
        """One row per structure, as in `rows`."""
        from asyncsim.base.tables import Table

        return Table(list(self.rows))

    def row(self) -> dict[str, Any]:
        """The answer of `boundary` as a JSON object."""
        return plain(vars(self))

    def __str__(self) -> str:
        """Format the answer for a terminal, one line per structure."""
        lines = [f"{self.knob} at which the {self.event} crosses {self.share:g}; error rate per bracket {self.error:g}"]
        for row in self.rows:
            setting = ", ".join(f"{name}={cell(row[name])}" for name in self.names)
            beside = f"; predicted {row['predicted']:.5g}" if "predicted" in row else ""
            wide = "" if row["narrow"] else " (undecided in between: raise max_replicates)"
            low, high = (f"{row[end]:.5g} ({row.get(f'events_{end}')})" for end in ("low", "high"))
            found = f"none found, as {row['none']}" if "none" in row else f"{low} to {high}{beside}{wide}"
            lines.append(f"  {setting or 'this spec'}: {found}")
        lines += [checks.advice(event, "ends") for event in re.findall(r" (collapse|fall)s", lines[0])]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Alarm:
    """How well one signal predicts falls.

    `area`: probability that a run about to fall scores above a healthy run cut at the same time, at the first lead, and
    its maximum error with probability 0.95. `unequal`, by lead: the same at other times, which alone can shift it.
    `roc`: rates of false alarms and of detections at every level, `[K, 2]`. `level`: exceeded in a watch by the share
    `rate` of one half of the healthy runs; `at` has it in words. At this level `false_alarms` of the other half,
    `detections` of falls; `missed` falls with an exact interval; `ahead`, median lead in recorded updates (NaN: none).
    `word`, of `area`; `why` it is "cannot tell"; `event`; `watch`, how many updates before it count.
    """

    signal: Any
    area: tuple[float, float]
    unequal: dict[int, Estimate]
    roc: np.ndarray
    level: float
    false_alarms: Estimate
    detections: Estimate
    word: str
    missed: tuple[float, float, float]
    ahead: float
    why: str
    event: str = "fall"
    watch: int | None = None

    @property
    def at(self) -> str:
        """The alarm in units of its metric."""
        own, level = self.signal, -self.level if self.signal.low else self.level
        side, mean = "below" if own.low else "above", "geometric mean" if own.log else "mean"
        extreme = {"largest": "minimum" if own.low else "maximum", "smallest": "maximum" if own.low else "minimum"}
        of = f"{extreme.get(own.over, mean)} of {own.window} update{'s' * (own.window > 1)}"
        of += f" {'divided by' if own.log else 'less'} the {mean} of the {own.past} before" * bool(own.past)
        return f"{own.metric} {side} {math.exp(level) if own.log else level:.4g} ({of})"

    @property
    def more(self) -> str:
        """How many times as many runs would decide, if more would: widths fall as 1 / sqrt(number of runs)."""
        area, reach = self.area
        times = (min(reach, 1.0) / max(abs(area - 0.5), 0.5 + CHANCE - area)) ** 2
        untold = self.word == UNTOLD and not self.why
        return f"; about {math.ceil(times)} times as many runs would decide, if the area stays" if untold else ""

    def __str__(self) -> str:
        """The verdict and its direction."""
        side = f"{'low' if self.signal.low else 'high'} {self.signal.metric}"
        survival = f" ({side} goes with survival)" * self.word.startswith("worse")
        if self.word == UNTOLD:
            return f"{UNTOLD} whether {side} predicts a {self.event}{self.why and ': '}{self.why}"
        return f"{side} predicts a {self.event} {self.word}{survival}"


@dataclass(frozen=True, eq=False)
class Prediction(calls.Told):
    """Outcome of each run, and how well each signal predicted which runs would collapse.

    `course` has the times of each run. `runs` counts runs that "fell" (or "collapsed"), "recovered" of them, "healthy"
    and "never learned" ones; `scored` those used for the areas; `others`: why not all; `stretch`: what of the history
    is scored. `alarms` are keyed by signals' names; empty where there is a `reason`. `counted`: what a fall is.
    """

    course: Any
    runs: dict[str, int]
    scored: dict[str, int]
    others: str
    stretch: str
    alarms: dict[str, Alarm]
    reason: str = ""
    counted: str = ""

    def __str__(self) -> str:
        """Format the answer for a terminal: alarms, the best first; counts of outcomes, runs scored."""
        lines = list[str]()
        for name, alarm in sorted(self.alarms.items(), key=lambda each: -each[1].area[0]):
            half = {lead: uncertainty.critical(0.05, e.freedom) * e.error for lead, e in alarm.unequal.items()}
            areas = (f"{notation.measurement(e.value, half[lead], 1.0)} at {lead}" for lead, e in alarm.unequal.items())
            fair = "area {:.2f} ± {:.2f} at equal times, wrong with probability at most 0.05; ".format(*alarm.area)
            missed, low, high = alarm.missed
            told = f"{alarm.at} announces {1.0 - missed:.2f} [{1.0 - high:.2f}, {1.0 - low:.2f}] of {alarm.event}s"
            told += f" at least {next(iter(alarm.unequal))} updates ahead"
            told += f" (median {alarm.ahead:g}{f' of {alarm.watch}' * bool(alarm.watch)})" * (alarm.ahead > 0.0)
            within = f"in any {alarm.watch} updates" if alarm.watch else "in a whole history"
            told += f"; false alarms in {alarm.false_alarms.value:.2f} of healthy runs {within}\n  "
            word = f"{name}: {alarm}{alarm.more} ({fair * (not alarm.why)}scored: {self.stretch})"
            lines.append(told * (not alarm.why) + word)
            lines += [f"  by lead, at unequal times (no verdict) ± 95 % interval: {', '.join(areas)}"] * (not alarm.why)
        told = ", ".join(f"{count} {name}" for name, count in self.runs.items())
        lines += [re.sub(r"( fell), (\d+ recovered)", r"\1 (\2)", told), self.counted]
        used = ", ".join(f"{count} of {self.runs[name]} {name}" for name, count in self.scored.items())
        lines.append(f"scored: {used}" + f" ({self.others})" * any(n < self.runs[k] for k, n in self.scored.items()))
        return "\n".join([*lines, *([self.reason] if self.reason else [])])
