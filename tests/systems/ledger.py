"""What the event model conserves, counted from a twin's records; each broken law is named."""

from __future__ import annotations

from collections import Counter


def broken(twin):
    """Names of the laws that a finished (or stalled) run breaks."""
    laws = (fates, batches, instants, versions, work, installs, ages, prompts)
    return [law.__name__ for law in laws if not law(twin)] + sorted(audit(twin))


def audit(twin):
    """Names of the laws of a state that this one breaks: tickets, places, permits, slots, buffer, publishes."""
    system, groups = twin.s, list(twin.groups.values())
    found = set()
    if system.tickets is not None and twin.tickets + tickets_out(twin) != system.tickets:
        found.add("tickets")
    held = Counter(group.place for group in groups if group.holds)
    opened = {place for place, second in enumerate(system.offsets or [0.0] * len(system.rates)) if second <= twin.now}
    if max(held.values(), default=0) > 1 or len(twin.free) != len(set(twin.free)) or held.keys() & set(twin.free):
        found.add("places")
    # Places that open at this very instant may not have been served yet.
    if not {p for p in opened if not system.offsets or system.offsets[p] < twin.now} <= held.keys() | set(twin.free):
        found.add("places")
    for server in twin.servers:
        own = [sample for sample in twin.samples.values() if sample.place % system.servers == server.number]
        holding = sum(sample.holds for sample in own)
        if holding != server.held or holding > (system.slots or holding) or any(not s.holds for s in server.active):
            found.add("slots")
    permits = sum(sample.permit for sample in twin.samples.values())
    if permits != twin.permitted or permits > (system.permits or permits):
        found.add("permits")
    most = len(twin.buffer) if system.capacity is None else system.capacity
    if system.overflow == "close" and system.reward is None:
        # Admission closes; what is in generation then still comes.
        most += len(system.rates) - 1
    elif system.overflow == "close":
        most = len(twin.buffer)
    if len(twin.buffer) > most or twin.v_t - twin.v_g not in (0, 1):
        found.add("buffer, publishes")
    return found


def tickets_out(twin):
    """Tickets that groups hold, from the fates: those not yet returned at the dequeue, the install or the drop."""
    system, out = twin.s, 0
    for group in twin.groups.values():
        lost = group.fate in ("rejected", "dropped_age", "dropped_overflow")
        if lost:
            late = system.release_dropped == "publish" and group.v_left == twin.v_g
            out += system.release_dropped == "never" or late
        elif system.release == "dequeue":
            out += group.t_pack is None
        else:
            out += group.fate == "unfinished" or group.batch // system.batches_per_publish >= twin.v_g
    return out


def fates(twin):
    """Admitted = trained + dropped + rejected + unfinished; trained are those of the batches."""
    taken = Counter(number for batch in twin.batches for number in batch.taken)
    first = {}
    for number, batch in enumerate(twin.batches):
        for group in batch.taken:
            first.setdefault(group, number)
    known = {"trained", "dropped_age", "dropped_overflow", "rejected", "unfinished"}
    return all(
        group.fate in known
        and (group.fate == "trained") == (number in taken)
        and (group.uses, group.batch) == (taken[number], first.get(number, -1))
        and (group.t_left is None) == (group.fate == "unfinished")
        for number, group in twin.groups.items()
    )


def batches(twin):
    """Every batch has P different groups, all of whose samples are scored; no group is used too often."""
    size, most = twin.s.groups_per_batch, twin.s.max_uses
    for batch in twin.batches:
        if len(set(batch.taken)) != size or len(batch.taken) != size:
            return False
        groups = [[s.t_scored for s in kept(twin.groups[number])] for number in batch.taken]
        if any(len(scored) != twin.kept for scored in groups):
            return False
        if any(time is None or time > batch.t_pack for scored in groups for time in scored):
            return False
    return most is None or all(group.uses <= most for group in twin.groups.values())


def kept(group):
    """The samples of a group that are not cancelled."""
    return [sample for sample in group.samples if not sample.cancelled]


def instants(twin):
    """Submitted, started, ended, scored, ready, packed, trained: in this order, as far as a group came."""
    for group in twin.groups.values():
        trained = [twin.batches[group.batch].t_start] if group.fate == "trained" else []
        for s in kept(group):
            times = [s.t_submit, s.t_start, s.t_end, s.t_scored, group.t_ready, group.t_pack]
            known = [time for time in times if time is not None] + trained
            if known != sorted(known) or (trained and None in times):
                return False
    ends = [time for batch in twin.batches for time in (batch.t_start, batch.t_end) if time is not None]
    shifts = [time for p in twin.publishes for time in (p.t_snapshot, p.t_install) if time is not None]
    return ends == sorted(ends) and shifts == sorted(shifts)


def versions(twin):
    """Versions of a sample never fall; V_T of a batch counts the publishes before it; drain, restart: no span."""
    count = [p.t_install for p in twin.publishes]
    for number, batch in enumerate(twin.batches):
        lag = batch.v_t - batch.v_g
        if batch.v_t != number // twin.s.batches_per_publish or lag not in ((0,) if twin.s.trainer_waits else (0, 1)):
            return False
    for group in twin.groups.values():
        trained = [twin.batches[group.batch].v_t] if group.fate == "trained" else []
        for s in group.samples:
            last = [s.v_ready] if s.t_end is not None else []
            stamps = [s.v_submit, *(version for _, version in s.breakpoints), *last, *trained]
            if stamps != sorted(stamps) or (s.breakpoints and s.breakpoints[0] != (0.0, s.v_start)):
                return False
            if s.t_end is not None and not installed(count, s.v_ready, s.t_end, twin.s.rolling):
                return False
            if s.t_start is not None and not installed(count, s.v_start, s.t_start, twin.s.rolling):
                return False
            if s.t_end is not None and twin.s.mode in ("drain", "restart") and s.v_end != s.v_start:
                return False
            if s.t_end is not None and s.v_end != s.breakpoints[-1][1]:
                return False
    return True


def installed(times, version, time, ahead=0):
    """Whether `version` installs lie before `time`, or, of those at this very instant, some; or it is one `ahead`."""
    before = sum(t is not None and t < time for t in times)
    return before <= version <= sum(t is not None and t <= time for t in times) + ahead


def work(twin):
    """What the servers wrote, summed over time, is trained + lost + thrown away whole + not finished."""
    written = {"trained": 0.0, "thrown": 0.0, "unfinished": 0.0}
    for group in twin.groups.values():
        kind = group.fate if group.fate in written else "thrown"
        for s in group.samples:
            written["thrown"] += s.wasted
            if s.t_end is not None:
                written["thrown" if s.cancelled else kind] += s.work
            elif group.fate == "unfinished" and not s.cancelled:
                written[kind] += twin.done(s)
    return abs(sum(written.values()) - twin.generated) <= 1e-9 * max(twin.generated, 1.0)


def installs(twin):
    """Installs that groups see while outstanding, counted by group and by install."""
    left = [group.v_left if group.fate != "unfinished" else twin.v_g for group in twin.groups.values()]
    seen = sum(left) - sum(group.v_submit for group in twin.groups.values())
    levels = [p.levels for p in twin.publishes if p.t_install is not None]
    stages = ("in_flight", "scoring", "blocked", "ready", "packed")
    split = all(level["outstanding"] == sum(level[stage] for stage in stages) for level in levels)
    return split and seen == sum(level["outstanding"] for level in levels)


def ages(twin):
    """Where the age rule runs before every packing, nothing older is trained (planned version, first use)."""
    s = twin.s
    if s.max_age is None or s.age_action == "wait" or s.age_at_pack == "none":
        return True
    return all(
        number // s.batches_per_publish - twin.stamp(twin.groups[group]) <= s.max_age
        for number, batch in enumerate(twin.batches)
        for group in batch.taken
    )


def prompts(twin):
    """A prompt is asked once, and once more after every cut that asks for it; targets are never out twice."""
    asked = Counter(group.prompt for group in twin.groups.values())
    cut = Counter(group.prompt for group in twin.groups.values() if group.fate == "dropped_age")
    again = cut if twin.s.age_action == "requeue" else Counter()
    pending = Counter(twin.requeued)
    alive = Counter(group.target for group in twin.groups.values() if group.fate in ("trained", "unfinished"))
    known = sorted([*alive.elements(), *twin.returned])
    targets = twin.s.order != "target" or known == list(range(twin.targets))
    return targets and all(asked[p] == 1 + again[p] - pending[p] for p in asked)
