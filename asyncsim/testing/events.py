"""Random events of asynchronous runs: versions of tokens, logs, and admission controllers.

Versions come from imposed laws and from small systems; controllers follow laws of tickets that bound staleness, or err.
"""

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from asyncsim import schedules as laws_of
from asyncsim.base import checks
from asyncsim.base.checks import ShortRunWarning
from asyncsim.base.feeds import Source
from asyncsim.base.laws import empirical, gamma, lognormal
from asyncsim.base.records import Schedule
from asyncsim.conformance import _admission as runs
from asyncsim.conformance.controller import Controller, Names
from asyncsim.conformance.reports import ConformanceError, Failure, Report
from asyncsim.systems._settings import RELEASES
from asyncsim.systems._system import System

KINDS = ("fixed", "sawtooth", "random", "frozen", "system")
MODES = ("drain", "restart", "reprefill", "keep", "pin")
_IN_FLIGHT = ("keep", "reprefill")
LARGEST = 9
"""Largest staleness of an imposed law, in versions."""

# Few values, all exact in binary: many events fall on the same instant, and no order of additions can tell.
EIGHTHS = st.lists(st.integers(1, 24).map(lambda n: n / 8), min_size=1, max_size=4).map(empirical)
SMOOTH = st.sampled_from([lognormal(1.0, 0.8), gamma(1.0, 0.5), lognormal(0.3, 2.0)])


def sources(*kinds: str) -> st.SearchStrategy[Source]:
    """Hypothesis strategy for systems and schedules, such as `sim.Spec` takes: objects with a method `schedule`.

    An imposed distribution of staleness up to 9 versions, or a system of up to eight generator slots. Its events often
    fall on the same instant. One to three groups are in a batch (a system: four), one to three batches in a publish.

    Arguments: `kinds` among fixed, sawtooth, random, frozen and system; all where none is given. The first use of
    system compiles the event kernel, which takes a minute once in an installation. Raises `InputError` for other
    kinds. Source: textbook; `systems/MODEL.md`.

    >>> from hypothesis import find
    >>> find(sources("fixed"), lambda law: law.knobs["staleness"] > 2)
    Imposed('fixed', staleness=3)
    """
    checks.each_of("kinds", kinds, KINDS, "name kinds of schedules")
    chosen = kinds or KINDS
    if "system" in chosen:
        _compiled()
    return st.one_of(*(_SOURCES[kind] for kind in chosen))


_COUNTS = {"groups_per_batch": st.integers(1, 3), "batches_per_publish": st.integers(1, 3)}
_STALENESS = st.integers(0, LARGEST)
_SHARES = st.lists(st.integers(0, 4), min_size=1, max_size=LARGEST + 1).filter(any)


@st.composite
def plain_systems(draw: Any, exact: bool = True, modes: tuple[str, ...] = MODES) -> dict[str, Any]:
    """Hypothesis strategy for valid settings of a `System`; `exact` adds tied durations and instant training."""
    batch, publish = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    quantum = draw(st.sampled_from([1, 1, 2, 3]))
    places = draw(st.integers(quantum, 8))
    release = draw(st.sampled_from(RELEASES))
    least = batch * (publish if release == "publish" else 1) + quantum - 1
    return {
        "groups_per_batch": batch,
        "batches_per_publish": publish,
        "quantum": quantum,
        "release": release,
        "mode": draw(st.sampled_from(modes)),
        "train_time": draw(st.one_of(st.just(0.0), EIGHTHS) if exact else SMOOTH),
        "length": draw(EIGHTHS if exact else SMOOTH),
        "tickets": draw(st.integers(least, least + 3 * batch * publish)),
        "rates": tuple(draw(st.lists(st.sampled_from([1.0, 0.5, 2.0]), min_size=places, max_size=places))),
    }


_SOURCES: dict[str, st.SearchStrategy[Any]] = {
    "fixed": st.builds(laws_of.fixed, _STALENESS, **_COUNTS),
    "sawtooth": st.builds(laws_of.sawtooth, st.integers(1, LARGEST), groups_per_batch=_COUNTS["groups_per_batch"]),
    "random": st.builds(
        laws_of.random,
        _SHARES.map(lambda shares: [share / sum(shares) for share in shares]),
        per=st.sampled_from(["update", "group", "trajectory"]),
        **_COUNTS,
    ),
    "frozen": st.builds(laws_of.frozen, **_COUNTS),
    # Those of two modes once more: they alone change the version inside a sample.
    "system": st.one_of(
        *(plain_systems(modes=modes).map(lambda found: System("drawn", {}, **found)) for modes in (MODES, _IN_FLIGHT))
    ),
}


@cache
def _compiled() -> None:
    """Load the event kernel before hypothesis times the first example."""
    System("", {}, empirical([1.0]), (1.0,), tickets=1, train_time=0.0).schedule(1, 1, 1, 1, 0)


def schedules(
    *kinds: str, batches: int = 12, samples: int = 3, tokens: int = 4, realizations: int = 2
) -> st.SearchStrategy[Schedule]:
    """Hypothesis strategy for schedules of these kinds: versions `[M, B, G, N, T or 1]`, trajectories `[M, B, G, N]`.

    Arguments: `kinds` as in `sources`; the largest `batches` B, `samples` N, `tokens` T and `realizations` M, each at
    least 1. A law that a short run does not reach is no warning here. Raises `InputError`. Source: textbook.

    >>> from hypothesis import find
    >>> find(schedules("fixed", "random"), lambda schedule: schedule.staleness().max() == 2).version.ravel().tolist()
    [0, 0, 0]
    """
    remedy, most = "give the largest count that may be drawn", checks.LARGEST
    counts = {"batches": batches, "samples": samples, "tokens": tokens, "realizations": realizations}
    shape = tuple(checks.integer(name, value, 1, remedy, most) for name, value in counts.items())
    return _schedules(sources(*kinds), shape)


@st.composite
def _schedules(draw: Any, source: st.SearchStrategy[Source], shape: tuple[int, ...]) -> Schedule:
    counts = [draw(st.integers(1, most)) for most in shape]
    with warnings.catch_warnings(action="ignore", category=ShortRunWarning):
        return draw(source).schedule(*counts, draw(st.integers(0, 999)))


Row = dict[str, Any]

CONTRADICTIONS: Mapping[str, tuple[str, Callable[[Row], Row]]] = {
    "ends under an older version than it started": (
        "end_version",
        lambda row: {"start_version": row["train_version"] + 1, "end_version": row["train_version"]},
    ),
    "trained before its last token": ("train_version", lambda row: {"end_version": row["train_version"] + 1}),
    "started after it was trained": (
        "staleness",
        lambda row: {"start_version": row["train_version"] + 1, "end_version": None},
    ),
    "a start that is missing": ("start_version", lambda row: {"start_version": None}),
    "versions of no token": ("versions", lambda row: {"versions": []}),
    "no tokens": ("tokens", lambda row: {"tokens": 0}),
    "a fate that nobody knows": ("fate", lambda row: {"fate": "eaten"}),
    "a sample without a name": ("sample_id", lambda row: {"sample_id": None}),
    "times that run backwards": ("t_end", lambda row: {"t_end": row["t_start"] - 1.0}),
}
"""What may be wrong with one row: the field by which `schedules.replay` refuses it, and the cells that change."""


@dataclass(frozen=True, eq=False)
class LogRows:
    """A generated log under this package's column names, with one row per sample, and its true schedule.

    `schedule`, what was logged: staleness `[1, B, G, N, T or 1]` is `schedule.staleness()`; `contradiction`, what is
    wrong with one row ("": nothing), and `refused`, the field by which `schedules.replay` refuses it.
    """

    rows: tuple[Row, ...]
    schedule: Schedule
    contradiction: str = ""

    @property
    def refused(self) -> str:
        """Field of the log that an importer should name in its error; "" if the log is consistent."""
        return CONTRADICTIONS[self.contradiction][0] if self.contradiction else ""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the generated log as JSON lines; raise `InputError` for a name that does not end in .jsonl."""
        path = Path(path)
        checks.require(path.suffix == ".jsonl", "path", str(path), "a file .jsonl", "name it log.jsonl")
        path.write_text("".join(json.dumps(row) + "\n" for row in self.rows), encoding="utf-8")
        return path


def logs(
    *kinds: str, batches: int = 8, samples: int = 3, tokens: int = 4, contradictions: bool = False
) -> st.SearchStrategy[LogRows]:
    """Hypothesis strategy for logs of the `schedules` of these kinds, to test importers of a trainer's log.

    Each sample has sample_id, group_id, train_version, batch, tokens, t_start, t_end, fate, and its versions as a list
    (one for each token), as start_version and end_version where they are all the same, or both. Versions count
    publishes: `sim.schedules.replay(log.save(path), unit="publishes")` gives the schedule back.

    Arguments: `kinds` as in `sources`; the largest `batches` B, `samples` N and `tokens` T; `contradictions`, whether
    one row of each log contradicts itself. Raises `InputError`. Source: this package.

    >>> from hypothesis import find
    >>> find(logs("fixed"), lambda log: log.schedule.staleness().max() == 1).rows[1]["train_version"]
    1
    """
    checks.boolean("contradictions", contradictions, "say whether one row contradicts itself")
    drawn = schedules(*kinds, batches=batches, samples=samples, tokens=tokens, realizations=1)
    return _logs(drawn, contradictions)


@st.composite
def _logs(draw: Any, schedules: st.SearchStrategy[Schedule], contradictions: bool) -> LogRows:
    schedule = draw(schedules)
    rows = _rows(schedule, draw(st.sampled_from(("both", "versions", "ends"))))
    if not contradictions:
        return LogRows(tuple(rows), schedule)
    name = draw(st.sampled_from(list(CONTRADICTIONS)))
    row = rows[draw(st.integers(0, len(rows) - 1))]
    # A row of ends alone: its list would contradict the planted ones as well.
    row.pop("versions", None)
    row |= {"start_version": row["train_version"], "end_version": row["train_version"]}
    row |= CONTRADICTIONS[name][1](row)
    return LogRows(tuple(rows), schedule, name)


def _rows(schedule: Schedule, stamps: str) -> list[Row]:
    """One row per sample, in the order of batches, groups and samples."""
    version, (batches, groups, samples) = schedule.version[0], schedule.trajectory.shape[1:]
    rows = []
    for b, g, n in np.ndindex(batches, groups, samples):
        versions = version[b, g, n].tolist()
        row = {
            "sample_id": int(schedule.trajectory[0, b, g, n]), "group_id": b * groups + g,
            "train_version": b // schedule.batches_per_publish, "batch": b, "tokens": len(versions),
            "t_start": float(b), "t_end": b + 0.5, "fate": "trained",
        }  # fmt: skip
        # Ends alone say nothing of the tokens between two versions.
        if stamps != "ends" or len(set(versions)) > 1:
            row["versions"] = versions
        if stamps != "versions" or len(set(versions)) == 1:
            row |= {"start_version": versions[0], "end_version": versions[-1]}
        rows.append(row)
    return rows


RETURNS = ("publish", "dequeue", "reset")
"""When tickets of trained groups return: at the publish, at the dequeue, or at the publish in a count made anew."""
_EVENTS = (*("submit", "accept", "accept", "consume", "consume", "publish", "publish"), *runs.HOOK_OF, *runs.CRASHES)
"""What may happen. What cannot happen is left out of a run, so what moves it on stands here more than once."""
_LENGTH = 80


@dataclass(frozen=True)
class Admission:
    """Test case for admission controllers: settings, the accounting rule of `make()`, and the events of one run.

    P = `batch_size` groups, eta = `max_staleness` publishes, C = `max_concurrent` groups or None, S =
    `batches_per_publish`. `losses`, groups that it can lose between two publishes (None: any number); `returns`, when
    permits return. `events`, each with a number of groups; `mistake`, what is wrong with the rule ("": nothing).
    """

    batch_size: int
    max_staleness: float
    max_concurrent: int | None
    batches_per_publish: int
    losses: int | None
    returns: str
    law: runs.Law
    events: tuple[tuple[str, int], ...] = ()
    mistake: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """The four settings by name, for your own controller and for `check_admission`."""
        names = ("batch_size", "max_staleness", "max_concurrent", "batches_per_publish")
        return {name: getattr(self, name) for name in names}

    @property
    def rules(self) -> runs.Rules:
        """Rules that `check_admission` requires of the controller under test."""
        limit = runs.tickets_of(self.batch_size, self.max_staleness, self.batches_per_publish)
        return runs.Rules(self.batch_size, self.batches_per_publish, limit, self.max_concurrent, self.losses, True)

    def make(self) -> Controller:
        """Make a new controller with the test case's accounting rule."""
        return runs.Tickets(self.law, self.rules)

    def check(self, controller: Callable[[], Any], names: Names | None = None) -> None:
        """Run a controller through the events; raise `ConformanceError` if it breaks a rule of `check_admission`.

        `controller` makes a new one with these settings; `names` as in `check_admission`.
        """
        found = runs.replayed(runs.Run(self.rules, controller, names or {}), list(self.events))
        if found is not None:
            run, broken = runs.shortened(*found)
            failure = Failure(broken.rule, broken.message, broken.value, broken.bound, tuple(run.lines))
            raise ConformanceError(Report(False, 1, self.settings, failure=failure))


def controllers(
    *returns: str, batch: int = 4, staleness: int = 3, mistakes: bool = False
) -> st.SearchStrategy[Admission]:
    """Hypothesis strategy for test cases of `Admission`: settings, a correct controller for them, and events.

    P groups in a batch, S of 1 to 3 batches to a publish, eta in publishes, whole or not, C of 1 to 9 groups or None.
    In a test `drawn.check(lambda: Yours(**drawn.settings))` holds a staleness manager of one's own to the rules, and
    `drawn.make()` answers beside it. `check_admission` searches by itself, so it does not belong inside `given`.

    Arguments: `returns`, when tickets return, all of them unless named: "publish"; "dequeue" (eta M are a batch at
    least); "reset", a count made anew at the publish (at most eta M groups are lost before it). Name that of a manager
    of one's own. The largest `batch` P and `staleness` eta; `mistakes`, whether each law has a known mistake, of which
    some only waste room. Raises `InputError`. Source: AReaL (2505.24298).

    >>> from hypothesis import find
    >>> drawn = find(controllers("publish"), lambda one: one.batch_size == 4 and one.max_staleness >= 1)
    >>> drawn.check(drawn.make)
    >>> drawn.settings, drawn.make().capacity()
    ({'batch_size': 4, 'max_staleness': 1.0, 'max_concurrent': None, 'batches_per_publish': 1}, 8)
    """
    checks.each_of("returns", returns, RETURNS, "say when the permits of trained groups return")
    checks.integer("batch", batch, 1, "give the largest batch, in groups", 1000)
    least = int(returns != () and set(returns) == {"dequeue"})
    checks.integer("staleness", staleness, least, "give the largest staleness, in publishes", 1000)
    checks.boolean("mistakes", mistakes, "say whether each has a mistake")
    return _controllers(returns or RETURNS, batch, staleness, mistakes)


@st.composite
def _controllers(draw: Any, allowed: tuple[str, ...], most: int, staleness: int, mistakes: bool) -> Admission:
    batch, publish = draw(st.integers(1, most)), draw(st.integers(1, 3))
    returns = draw(st.sampled_from(allowed if staleness else [name for name in allowed if name != "dequeue"]))
    # Tickets that return at the dequeue are eta M, which must be a batch at least.
    spare = draw(st.integers(batch if returns == "dequeue" else 0, staleness * batch * publish))
    concurrent = draw(st.none() | st.integers(1, 9))
    law = runs.Law(**{"publish": runs.BASES[0], "dequeue": runs.BASES[1], "reset": runs.RESET}[returns])
    losses = spare if returns == "reset" else None
    # By a seed: the failing run is made short by `check`, whose rules know which events can be left out.
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    numbers = zip(random.integers(len(_EVENTS), size=_LENGTH), random.integers(1, 30, size=_LENGTH), strict=True)
    events = tuple((_EVENTS[event], int(n)) for event, n in numbers)
    right = Admission(batch, spare / (batch * publish), concurrent, publish, losses, returns, law, events)
    if not mistakes:
        return right
    name, law = draw(st.sampled_from(runs.laws(right.rules)))
    return replace(right, losses=None, law=law, mistake=name)
