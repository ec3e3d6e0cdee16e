"""Permit systems: the maximum staleness that a rule allows, and mean and distribution if every permit is in use.

By counting of groups: take a group of version v, with K permits. At most K - 1 + (W - 1) other groups, admitted before
or after it, train first. So its batch is known up to that, and a batch's version is its number divided by S.
"""

import math
from typing import NamedTuple

from asyncsim.claims.staleness_rules._facts import Facts, first


class Bound(NamedTuple):
    """Upper bound of staleness, the rule that implies it, and whether versions train in order."""

    largest: int
    rule: str
    sorted: bool = False


def tightest(s: Facts) -> Bound | None:
    """Return the smallest staleness bound that holds for these settings; None if there is none."""
    known = filter(None, (ticket_bound(s), _waited(s), _cut(s)))
    return min(known, key=lambda each: (each.largest, not each.sorted), default=None)


def ticket_bound(s: Facts) -> Bound | None:
    """Return the staleness bound that permits and the order of training imply together; None if there is none."""
    if s.tickets is None or s.max_uses != 1:
        return None
    if s.release == "publish" and s.tickets == s.publish:
        return Bound(0, "as many group permits as a publish consumes", True)
    if s.release == "dequeue" and s.immediate and s.tickets == s.batch == s.publish:
        return Bound(0, "one batch of group permits that return after the publish", True)
    # Why versions train one after the other. Groups scored outside their place may enter the buffer behind groups of
    # the next version. A drain waits for generation only: groups that await a reward cross the install, with or
    # without a place.
    in_turn = s.order in ("done", "oldest_start") and (s.reward is None or s.reward_holds)
    reasons = {
        f"order {s.order}": s.order in ("target", "version_strict"),
        "a window of 1": s.order == "oldest_start" and s.window == 1,
        "a drain, first in first out": in_turn and s.mode == "drain" and s.reward is None,
        "one batch in generation at a time": in_turn and s.serial,
    }
    rule = first(reasons) if s.visible == "completion" else None
    younger = s.window if s.order == "oldest_start" and s.window is not None and rule is None else 1
    if rule is None and younger == 1:
        return None
    # So many groups, those ahead and the window's, train first.
    ahead = s.tickets + younger - 2
    if s.release == "publish":
        largest = ahead // s.publish
    else:
        # A ticket comes back when its batch is packed, while the trainer may still be `prefetch` batches behind.
        batches = ahead // s.batch + (0 if s.immediate else 1) + s.prefetch
        largest = math.ceil(batches / s.batches) + (0 if s.follows else 1)
    return Bound(largest, rule or f"a window of {s.window}", rule is not None)


def _waited(s: Facts) -> Bound | None:
    if s.age_action != "wait" or s.max_age is None or s.tickets is None or s.release != "publish":
        return None
    if s.why_closed() or s.why_places_bind() or s.why_dropped() or s.prefetch or s.window is not None or not s.follows:
        return None
    return Bound(int(s.max_age), f"no batch while a group in generation is {s.max_age} versions behind")


def _cut(s: Facts) -> Bound | None:
    """Return the bound from the age rule, where the planned version is the version at which the batch will train."""
    stamped = s.age_reference in ("submit", "start") or (s.age_reference == "end" and s.mode == "drain")
    if not s.cuts or not stamped:
        return None
    rule = f"older than {s.max_age} is cut"
    if s.age_at_pack != "none":
        return Bound(int(s.max_age), rule)
    if s.age_at_publish != "all":
        return None
    # Batches packed until the next look at ages: the rest of this version's, and those that may wait.
    later = (s.prefetch - 1) // s.batches + 1 if s.prefetch else 0
    return Bound(int(s.max_age) + later + (0 if s.follows else 1), f"{rule} at every install")


def why_no_mean(s: Facts, crowded: bool = False) -> str | None:
    """Return why the number of outstanding groups varies between installs; `crowded` ignores waits for slots."""
    if s.tickets is None:
        return "an open loop has no group permits"
    bound = ticket_bound(s)
    if s.cuts and (bound is None or bound.largest > s.max_age):
        return f"groups older than {s.max_age} are cut, and which depends on the lengths"
    known = s.why_dropped() or s.why_closed() or (None if crowded else s.why_places_bind()) or s.why_some_never_train()
    known = known or s.why_stamps_move(crowded) or s.why_starved()
    if known or s.release == "publish":
        return known
    late = s.instant and (s.batches > 1 or not s.immediate)
    reasons = {
        "group permits return while batches wait for the trainer, and how many wait depends on the rates": s.prefetch,
        "group permits return while weights are on their way": not s.follows,
        "training takes no time, but not every batch is published at once": late,
    }
    return first(reasons)


def mean(s: Facts) -> float:
    """Mean staleness if `why_no_mean` returns None: groups outstanding at an install, divided by groups per publish."""
    offset = 1.0 if s.release == "publish" or s.instant else 0.0
    return float(s.tickets / s.publish - offset)


def smallest(s: Facts, bound: Bound | None, known: bool) -> int:
    """Minimum staleness of a system in the steady state; `known` says that `mean` gives its mean."""
    if bound is not None and bound.sorted and known:
        return math.floor(mean(s))
    two_batches = s.tickets is not None and (s.release == "dequeue" or s.tickets >= 2 * s.batch)
    plain = s.lead is None and not s.instant and not s.cuts and s.prefetch == 0 and s.batches == 1 and s.epoch is None
    reason = s.why_dropped() or s.why_stamps_move() or s.why_starved()
    # The next batch is admitted when this one leaves its places, before it has trained.
    return int(s.serial and two_batches and plain and bound is not None and bound.sorted and not reason)
