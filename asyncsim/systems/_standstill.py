"""Who waits for what, when a system has come to a standstill."""

from __future__ import annotations

from typing import Any

from asyncsim.systems._settings import Settings
from asyncsim.systems._state import State


def explain(system: Settings, state: State, starving: bool) -> str:
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
