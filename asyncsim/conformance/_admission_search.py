"""The state machine of admission: hypothesis chooses the events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, configuration, settings
from hypothesis import seed as set_seed
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as searched

from asyncsim.conformance._admission_runs import CRASHES, HOOK_OF, LOSSES, Rules, Run, Violation, replayed, shortened
from asyncsim.conformance.controller import Names


class Search:
    """Random runs of one controller: how many there were, and one that broke a rule."""

    def __init__(self, rules: Rules, factory: Callable[[], Any], names: Names) -> None:
        self.rules, self.factory, self.names = rules, factory, names
        self.examples = 0
        self.searching = True
        self.broken: tuple[Run, Violation] | None = None

    def begin(self) -> Run:
        """A run from the start."""
        self.examples += self.searching
        return Run(self.rules, self.factory, self.names)

    def note(self, run: Run, violation: Violation) -> None:
        """Keep a run that broke a rule."""
        self.searching = False
        self.broken = (run, violation)

    def go(self, examples: int, steps: int, seed: int) -> None:
        """Search; the result is in `broken`."""
        machine = _machine(self)
        set_seed(seed)(machine)
        chosen = settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=True,
            report_multiple_bugs=False,
            print_blob=False,
            verbosity=Verbosity.quiet,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        try:
            with _without_folder():
                searched(machine, settings=chosen)
        except (Violation, Flaky):
            if self.broken is not None:
                self.broken = self._settled(*self.broken)

    def _settled(self, run: Run, violation: Violation) -> tuple[Run, Violation]:
        """The run shortened; where it does not break the rule again, the controller does not depend on events alone."""
        if replayed(run, run.events) is None:
            text = f"the same events gave different answers; once: {violation.message}"
            return run, Violation("same events, same answers", text, violation.value, violation.bound)
        return shortened(run, violation)


@contextmanager
def _without_folder() -> Iterator[None]:
    """Keep hypothesis from making a folder of its own where the user stands: a path below a device cannot be made."""
    before = vars(configuration).get("__hypothesis_home_directory")
    configuration.set_hypothesis_home_dir(os.devnull)
    try:
        yield
    finally:
        configuration.set_hypothesis_home_dir(before)


def _machine(search: Search) -> type[RuleBasedStateMachine]:
    def chosen(event: str) -> Any:
        @precondition(lambda self: event in self.able)
        @rule(data=st.data())
        def step(self: Any, data: Any) -> None:
            most = self.able[event]
            n = data.draw(st.integers(1, most)) if most > 1 and data.draw(st.booleans()) else most
            self.watch(lambda: self.run.happen(event, n))

        return step

    class Admission(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.run = search.begin()
            self.able: dict[str, int] = {}
            self.losses, self.crashes = True, 0

        @initialize(losses=st.booleans(), crashes=st.sampled_from((0, 1, 1, 3)))
        def choose(self, losses: bool, crashes: int) -> None:
            # What leaks a little shows only in long runs, in which few crashes and losses begin the count anew.
            self.losses, self.crashes = losses, crashes

        def watch(self, action: Callable[[], None]) -> None:
            try:
                action()
            except Violation as violation:
                search.note(self.run, violation)
                raise

        @invariant()
        def every_rule_is_kept(self) -> None:
            self.watch(self.run.check)
            able = self.run.limits()
            budget = self.crashes - sum(event in CRASHES for event, _ in self.run.events)
            barred = (() if self.losses else LOSSES) + (() if budget > 0 else CRASHES)
            self.able = {event: most for event, most in able.items() if event not in barred}

    for event in (*HOOK_OF, *CRASHES):
        setattr(Admission, event, chosen(event))
    return Admission
