"""Who waits for what, when a system has come to a standstill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsim.systems import _state as k

if TYPE_CHECKING:
    from asyncsim.systems._state import State
    from asyncsim.systems._system import System


def explained(system: System, state: State, starving: bool) -> str:
    """One line: where groups, tickets and the trainer stand, and what each of them waits for."""
    n, now = state.n, float(state.x[k.NOW])
    what = "starved: events go on, but no batch is formed," if starving else "stalled"
    head = f"{system.name}: {what} after {int(n[k.FINISHED])} batches at {now:g} s"
    parts = [_trainer(system, n), _admission(system, n), *_groups(system, n), *_remedies(system, n)]
    return f"{head}; {'; '.join(parts)}"


def _trainer(s: System, n: object) -> str:
    count = {name: int(n[getattr(k, name)]) for name in ("WANTED", "READY", "FLYING", "GROUPS")}  # type: ignore[index]
    if count["WANTED"] and s.mode == "drain":
        return f"the publish waits for {count['FLYING']} groups in generation to drain"
    return (
        f"the trainer waits for {count['GROUPS']} groups that order {s.order} lets it take together, "
        f"{count['READY']} are finished"
    )


def _admission(s: System, n: object) -> str:
    tickets, free = int(n[k.TICKETS]), int(n[k.FREE])  # type: ignore[index]
    if s.tickets is not None and tickets < s.quantum:
        out = int(n[k.ADMITTED] - n[k.GONE])  # type: ignore[index]
        lost = s.tickets - tickets - out
        back = "the next publish" if s.release == "publish" else "the next dequeue"
        gone = f", {lost} are not with any of them" if lost > 0 else ""
        return (
            f"generators wait for {s.quantum} tickets, {tickets} of {s.tickets} are free and {out} are out with "
            f"groups{gone}; tickets return at {back}, those of dropped groups: {s.release_dropped}"
        )
    if s.permits is not None and int(n[k.PERMITTED]) >= s.permits:  # type: ignore[index]
        return f"generators wait for a permit, all {s.permits} are with samples under way"
    if free < s.quantum:
        return f"generators wait for {s.quantum} places, {free} of {len(s.rates)} are free"
    if s.overflow == "close" and s.capacity is not None and int(n[k.READY]) >= s.capacity:  # type: ignore[index]
        return f"admission is closed while the buffer holds its capacity, {s.capacity} groups"
    ahead = int(n[k.PACKS] // n[k.BATCHES] - n[k.INSTALLED])  # type: ignore[index]
    if s.lead is not None and ahead > s.lead:
        return f"generators wait for a publish: {ahead} packed versions ahead, lead = {s.lead}"
    return "generators are free to go on"


def _remedies(s: System, n: object) -> list[str]:
    out = int(n[k.ADMITTED] - n[k.GONE])  # type: ignore[index]
    if s.tickets is not None and s.release_dropped != "now" and s.tickets - int(n[k.TICKETS]) > out:  # type: ignore[index]
        return ["set release_dropped to now, or drop and reject less"]
    if s.failure_rate > 0.0 and s.failure_rate * s.mean_work() > 1.0 and not s.failure_keeps:
        return ["samples fail before they end: lower failure_rate or set failure_keeps"]
    return ["raise tickets, capacity or max_age, or take another order"]


def _groups(s: System, n: object) -> list[str]:
    parts = []
    for name, words in (("FLYING", "in generation"), ("SCORING", "await rewards"), ("BLOCKED", "await the buffer"),
                        ("HIDDEN", "become visible at the next publish")):
        count = int(n[getattr(k, name)])  # type: ignore[index]
        if count:
            parts.append(f"{count} groups {words}")
    return parts
