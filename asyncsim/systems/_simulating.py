"""From settings to finished states: the kernel is started, driven and fed until a run ends."""

from __future__ import annotations

from typing import Any

from asyncsim.base import checks, memory
from asyncsim.systems import _state
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
        raise StalledError(_explained(system, state, reason == _state.STARVED))


def _explained(system: Settings, state: State, starving: bool) -> str:
    """One line: where groups, tickets and the trainer stand, and what each of them waits for."""
    run, now = state.run, float(state.run.now)
    what = "starved: events go on, but no batch is formed," if starving else "stalled"
    head = f"{system.name}: {what} after {int(run.finished)} batches at {now:g} s"
    parts = [_trainer(system, run), _admission(system, run), *_groups(run), *_remedies(system, run)]
    return f"{head}; {'; '.join(parts)}"


def _trainer(s: Settings, run: Any) -> str:
    if run.wanted and s.mode == "drain":
        return f"the publish waits for {int(run.in_flight)} groups in generation to drain"
    return (
        f"the trainer waits for {s.groups_per_batch} groups that order {s.order} lets it take together, "
        f"{int(run.ready)} are finished"
    )


def _admission(s: Settings, run: Any) -> str:
    tickets, free = int(run.tickets), int(run.free)
    if s.tickets is not None and tickets < s.quantum:
        out = int(run.admitted - run.gone)
        lost = s.tickets - tickets - out
        back = "the next publish" if s.release == "publish" else "the next dequeue"
        missing = f", {lost} are not with any of them" if lost > 0 else ""
        return (
            f"generators wait for {s.quantum} group permits, {tickets} of {s.tickets} are free and {out} are out with "
            f"groups{missing}; permits return at {back}, those of dropped groups: {s.release_dropped}"
        )
    if s.permits is not None and int(run.permitted) >= s.permits:
        return f"generators wait for a sample permit, all {s.permits} are with samples under way"
    if free < s.quantum:
        return f"generators wait for {s.quantum} generator slots, {free} of {len(s.rates)} are free"
    if s.overflow == "close" and s.capacity is not None and int(run.ready) >= s.capacity:
        return f"admission is closed while the buffer holds its capacity, {s.capacity} groups"
    ahead = int(run.packs // s.batches_per_publish - run.installed)
    if s.lead is not None and ahead > s.lead:
        return f"generators wait for a publish: {ahead} packed versions ahead, lead = {s.lead}"
    return "generators are free to go on"


def _remedies(s: Settings, run: Any) -> list[str]:
    out = int(run.admitted - run.gone)
    if s.tickets is not None and s.release_dropped != "now" and s.tickets - int(run.tickets) > out:
        return ["set release_dropped to now, or drop and reject less"]
    if s.failure_rate > 0.0 and s.failure_rate * s.mean_work() > 1.0 and not s.failure_keeps:
        return ["samples fail before they end: lower failure_rate or set failure_keeps"]
    return ["raise tickets, capacity or max_age, or take another order"]


def _groups(run: Any) -> list[str]:
    counts = {
        "in generation": run.in_flight,
        "await rewards": run.scoring,
        "await the buffer": run.blocked,
        "become visible at the next publish": run.hidden,
    }
    return [f"{int(count)} groups {words}" for words, count in counts.items() if count]
