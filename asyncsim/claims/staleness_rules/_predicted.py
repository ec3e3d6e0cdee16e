"""Which law of staleness holds for the settings of an event system, and what it predicts: or that there is none."""

import math
from collections.abc import Mapping
from typing import Any

from asyncsim.base import checks
from asyncsim.claims import _registry
from asyncsim.claims.staleness_rules import _bounded, _few_places, _unticketed
from asyncsim.claims.staleness_rules._facts import Facts, PredictedStaleness

_LEVELS = 5


def predicted(settings: Mapping[str, Any], samples_per_group: int) -> PredictedStaleness:
    """See `claims.predicted_staleness`."""
    samples = checks.integer("samples_per_group", samples_per_group, 1, "a group has at least one sample")
    s = Facts(settings, samples)
    if s.rounds:
        text = f"rounds of {s.quantum} groups, all of a batch under the version that it trains"
        return PredictedStaleness("systems/dynamic-sampling", 0.0, (0, 0), (1.0,), reason=text)
    # Use tickets: a known mean, then bounds.
    bound, why_no_mean = _bounded.tightest(s), _bounded.why_no_mean(s)
    if why_no_mean is None:
        return _always_in_use(s, bound)
    if bound is not None:
        return _hard(s, bound, f"no mean: {why_no_mean}")
    # Bound the tickets that wait for places.
    ticket_mean = _few_places.find(s)
    if isinstance(ticket_mean, PredictedStaleness):
        return ticket_mean
    # Else let places or buffer decide.
    loop_law = _unticketed.find(s)
    if isinstance(loop_law, PredictedStaleness):
        return loop_law
    reasons = [loop_law] if s.tickets is None else dict.fromkeys([why_no_mean, ticket_mean, loop_law])
    return PredictedStaleness(None, reason="; ".join(reasons))


def _always_in_use(s: Facts, bound: _bounded.Bound | None) -> PredictedStaleness:
    """Every ticket is in use at every install: the mean is known, and more where a bound or the order says so."""
    mean = _bounded.mean(s)
    reason = f"{s.tickets} group permits are in use at every install, {s.publish} groups are trained between two"
    arrivals = _unticketed.find(s) if s.instant and s.publish == 1 and s.tickets == s.places else ""
    if isinstance(arrivals, PredictedStaleness):
        return arrivals._replace(mean=mean, also=("systems/cap-binds",))
    if bound is None:
        tail = _stragglers(s)
        also = () if tail is None else ("systems/straggler-tail",)
        return PredictedStaleness("systems/cap-binds", mean, tail=tail, also=also, reason=reason)
    hard = _hard(s, bound, reason)
    return hard._replace(mean=mean, pmf=_pmf(hard.support, mean), also=("systems/cap-binds",))


def _hard(s: Facts, bound: _bounded.Bound, reason: str) -> PredictedStaleness:
    known = _bounded.why_no_mean(s) is None
    support = (_bounded.smallest(s, bound, known), bound.largest)
    mean = float(bound.largest) if support[0] == support[1] else None
    text = f"{bound.rule}: at most {bound.largest}; {reason}"
    return PredictedStaleness("systems/hard-bounds", mean, support, _pmf(support, mean), reason=text)


def _pmf(support: tuple[int, int] | None, mean: float | None) -> tuple[float, ...] | None:
    """The law where a mean leaves no choice: one value, two neighbors, or all mass at the largest value."""
    if support is None or mean is None:
        return None
    low, high = support
    if math.isclose(mean, high):
        return (0.0,) * high + (1.0,)
    if high - low != 1:
        return None
    return (0.0,) * low + (high - mean, mean - low)


def _stragglers(s: Facts) -> dict[int, float] | None:
    """P(s >= k) of the first levels behind the tickets where the trainer never waits and the oldest go first."""
    plain = s.work_alone and not s.sync_time and not s.prefetch
    oldest = s.order == "oldest_start" and s.window is None and s.age_action != "wait"
    roomy = s.places >= s.tickets and s.capacity is None
    running = s.mode in ("keep", "pin", "reprefill") and s.batches == 1 and s.quantum == 1 and s.visible == "completion"
    if not (plain and oldest and roomy and running and s.period and s.rate) or s.redundant or s.why_dependent():
        return None
    first = math.ceil(s.tickets / s.batch + (s.release == "dequeue"))
    levels, law = tuple(range(first, first + _LEVELS)), _registry.claim("systems/straggler-tail")
    point = {
        "tickets": s.tickets, "groups_per_batch": s.batch, "release": s.release, "samples_per_group": s.drawn,
        "length": s.length, "period": s.period * s.rate, "levels": levels,
    }  # fmt: skip
    return None if law.domain(point) else dict(zip(levels, law.predict(point).values(), strict=True))
