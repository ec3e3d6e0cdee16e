"""Admission controllers with drawn settings: laws of tickets that bound staleness, or that have a known mistake."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from asyncsim.base import checks
from asyncsim.conformance import _admission as runs
from asyncsim.conformance.controller import Controller, Names
from asyncsim.conformance.reports import ConformanceError, Failure, Report

RETURNS = ("publish", "dequeue", "reset")
"""When tickets of trained groups return: at the publish, at the dequeue, or at the publish in a count made anew."""
_EVENTS = (*("submit", "accept", "accept", "consume", "consume", "publish", "publish"), *runs.HOOK_OF, *runs.CRASHES)
"""What may happen. What cannot happen is left out of a run, so what moves it on stands here more than once."""
_LENGTH = 80


@dataclass(frozen=True)
class Admission:
    """Settings of a controller, the law that `make()` follows, and one run of events to try a controller on.

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
        """The four settings by name, for a controller of one's own and for `check_admission`."""
        names = ("batch_size", "max_staleness", "max_concurrent", "batches_per_publish")
        return {name: getattr(self, name) for name in names}

    @property
    def rules(self) -> runs.Rules:
        """What `check_admission` asks of it."""
        limit = runs.tickets_of(self.batch_size, self.max_staleness, self.batches_per_publish)
        return runs.Rules(self.batch_size, self.batches_per_publish, limit, self.max_concurrent, self.losses, True)

    def make(self) -> Controller:
        """A new controller."""
        return runs.Tickets(self.law, self.rules)

    def check(self, controller: Callable[[], Any], names: Names | None = None) -> None:
        """Lead a controller through the events; raises `ConformanceError` where it breaks a rule of `check_admission`.

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
    """Admission controllers: settings, a right one with them, and events; see `Admission`.

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
    for name in returns:
        checks.one_of("returns", name, RETURNS, "say when the permits of trained groups return")
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
