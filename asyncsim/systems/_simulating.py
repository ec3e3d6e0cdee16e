"""From settings to finished states: the kernel is started, driven and fed until a run ends."""

from __future__ import annotations

from asyncsim.base import checks, memory
from asyncsim.systems import _standstill, _state
from asyncsim.systems._settings import Plan, Settings
from asyncsim.systems._state import State

_RETAINED = 8 << 20
"""Arrays up to so many bytes keep their memory in the process for the next simulation."""


class StalledError(checks.RunError):
    """No event is left, or events go on without a batch; the message names who waits for what."""


def start(system: Settings, plan: Plan) -> State:
    """Kernel state at time 0."""
    from asyncsim.systems import _build, _limits

    memory.keep(_RETAINED)
    checks.integer("batches", plan.batches, 1, "ask for at least one batch")
    samples = checks.integer("samples_per_group", plan.samples, 1, "a group has at least one sample")
    bound = "1 where lengths come from the policy"
    remedy = "a length that changes has no turns; give the system one turn"
    checks.require(plan.drawn or system.turns == 1, "turns", system.turns, bound, remedy)
    if plan.drawn:
        _check_divergence(system, samples)
        _limits.refuse_endless(system, plan.batches, samples, plan.record)
    return _build.new_state(system, plan._replace(samples=samples))


def _check_divergence(s: Settings, samples_per_group: int) -> None:
    bounded = s.tickets is not None or s.capacity is not None or s.lead is not None or s.rounds
    if bounded or s.max_age is not None or s.max_uses != 1:
        return
    generated, seconds = s.generation_rate(samples_per_group), s.mean_train_time(samples_per_group)
    ratio = generated * s.accept * seconds / s.groups_per_batch
    bound = f"a number where {ratio:.4g} groups are generated for each one trained"
    remedy = "the buffer of an open loop grows without end; set tickets, capacity, max_age or a shorter train_time"
    checks.require(ratio <= 1.0, "tickets", None, bound, remedy)


def simulate(system: Settings, plan: Plan) -> State:
    """The finished kernel state of one realization, run until the last batch has trained and been published."""
    state, reason = stepped(system, start(system, plan), _state.UNLIMITED, plan.batches, plan.seed)
    refuse_standstill(system, state, reason)
    return state


def stepped(system: Settings, state: State, stop_started: int, stop_finished: int, seed: int) -> tuple[State, int]:
    """Advance until the kernel needs more than room or draws; the state and the reason."""
    from asyncsim.systems import _build, _kernel

    while True:
        reason = _kernel.advance(state, stop_started, stop_finished)
        if reason == _state.FULL:
            state = _build.grow(state)
        elif reason == _state.SUPPLY:
            _build.refill(system, state, seed)
        else:
            return state, reason


def refuse_standstill(system: Settings, state: State, reason: int) -> None:
    """Raise `StalledError` where no event is left, or events go on without training."""
    if reason in (_state.STALLED, _state.STARVED):
        raise StalledError(_standstill.explain(system, state, reason == _state.STARVED))
