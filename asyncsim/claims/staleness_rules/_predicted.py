"""The staleness rule that applies to the settings of an event system, and its prediction, or that none applies."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import poisson

from asyncsim.base import checks
from asyncsim.claims import _openloop, _registry
from asyncsim.claims.staleness_rules import _bounded, _few_places
from asyncsim.claims.staleness_rules._facts import ADAPTS, Answer, Facts, PredictedStaleness, first

_LEVELS = 5
_OMITTED = 1e-9
"""Probability beyond the last reported cell of a distribution."""
_CELLS = 4096
_SHARE = 0.02
"""Relative error of the mean by laws of Poisson arrivals where arrivals are not quite Poisson."""
_FULL = 2.0
"""Groups generated for each one trained from which a buffer counts as full."""


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
        mean = _bounded.mean(s)
        reason = f"{s.tickets} group permits are in use at every publish, {s.publish} groups are trained per publish"
        arrivals = _without_permits(s) if s.instant and s.publish == 1 and s.tickets == s.places else ""
        if isinstance(arrivals, PredictedStaleness):
            return arrivals._replace(mean=mean, also=("systems/cap-binds",))
        if bound is None:
            tail = _stragglers(s)
            also = () if tail is None else ("systems/straggler-tail",)
            return PredictedStaleness("systems/cap-binds", mean, tail=tail, also=also, reason=reason)
        hard = _hard(s, bound, reason)
        return hard._replace(mean=mean, pmf=_pmf(hard.support, mean), also=("systems/cap-binds",))
    if bound is not None:
        return _hard(s, bound, f"no mean: {why_no_mean}")
    # Bound the tickets that wait for places.
    ticket_mean = _few_places.find(s)
    if isinstance(ticket_mean, PredictedStaleness):
        return ticket_mean
    # Else let places or buffer decide.
    loop_law = _without_permits(s)
    if isinstance(loop_law, PredictedStaleness):
        return loop_law
    few = s.tickets is not None and why_no_mean == s.why_places_bind()
    reasons = [loop_law] if s.tickets is None else dict.fromkeys([why_no_mean, ticket_mean, loop_law])
    return PredictedStaleness(None, reason=why_no_mean if few else "; ".join(reasons))


def _hard(s: Facts, bound: _bounded.Bound, reason: str) -> PredictedStaleness:
    support = (_bounded.smallest(s, bound, _bounded.why_no_mean(s) is None), bound.largest)
    mean = float(bound.largest) if support[0] == support[1] else None
    text = f"{bound.rule}: at most {bound.largest}; {reason}"
    return PredictedStaleness("systems/hard-bounds", mean, support, _pmf(support, mean), reason=text)


def _pmf(support: tuple[int, int] | None, mean: float | None) -> tuple[float, ...] | None:
    """Distribution where the mean determines it: one value, two neighbors, or all mass at the maximum."""
    if support is None or mean is None:
        return None
    low, high = support
    if math.isclose(mean, high):
        return (0.0,) * high + (1.0,)
    return None if high - low != 1 else (0.0,) * low + (high - mean, mean - low)


def _stragglers(s: Facts) -> dict[int, float] | None:
    """P(s >= k) at the first levels beyond the permits, if the trainer never waits and the oldest group goes first."""
    plain = s.work_alone and not s.sync_time and not s.prefetch
    oldest = s.order == "oldest_start" and s.window is None and s.age_action != "wait"
    roomy = s.places >= s.tickets and s.capacity is None
    running = s.mode in ("keep", "pin", "reprefill") and s.batches == 1 and s.quantum == 1 and s.visible == "completion"
    if not (plain and oldest and roomy and running and s.period and s.rate) or s.redundant or s.why_dependent():
        return None
    lowest = math.ceil(s.tickets / s.batch + (s.release == "dequeue"))
    levels, law = tuple(range(lowest, lowest + _LEVELS)), _registry.claim("systems/straggler-tail")
    point = {
        "tickets": s.tickets, "groups_per_batch": s.batch, "release": s.release, "samples_per_group": s.drawn,
        "length": s.length, "period": s.period * s.rate, "levels": levels,
    }  # fmt: skip
    return None if law.domain(point) else dict(zip(levels, law.predict(point).values(), strict=True))


def _without_permits(s: Facts) -> Answer:
    """Prediction when slots and buffer, not permits, limit the groups outstanding, or why there is none."""
    return _why_not(s) or (_arrivals(s) if s.instant else _clocked(s))


def _why_not(s: Facts) -> str | None:
    """Return why no formula applies to these settings, or None."""
    if s.cuts:
        return f"groups older than {s.max_age} are cut, and which depends on the lengths"
    if s.accept < 1.0 or s.max_uses != 1:
        return s.why_dropped()
    alone = s.order in ("target", "version_strict") or s.window is not None or s.age_action == "wait"
    reasons = {
        ADAPTS: s.target_staleness is not None,
        f"a group ends with {s.samples} of its {s.started} samples": s.redundant > 0,
        f"every epoch of {s.epoch} batches begins and ends with nothing outstanding": s.epoch is not None,
        "an install stops generation for a while": s.mode == "drain" or s.sync_time > 0.0,
        "groups wait for their reward outside the generator slots": s.reward is not None and not s.reward_holds,
        "groups become visible at a publish only": s.visible != "completion",
        f"groups are admitted by {s.quantum} at once": s.quantum > 1,
        "training takes no time and a publish waits for the next batch": s.publish_waits and s.instant,
        f"order {s.order} lets a batch wait for single groups": alone,
    }
    later = s.why_some_never_train, s.why_stamps_move, s.why_starved
    return s.why_dependent() or first(reasons) or next(filter(None, (why() for why in later)), None)


def _room(s: Facts) -> int | None:
    """Number of finished groups that permits allow to wait; None without permits."""
    if s.tickets is None:
        return None
    return int(s.tickets) - int(s.places) - (s.publish if s.release == "publish" else 0)


def _arrivals(s: Facts) -> Answer:
    """Prediction for instant training: a slot that finishes restarts at once with its own update in the weights."""
    room = _room(s)
    # A delivery that completes a publish, or a batch, has its ticket back before it starts again.
    if room is not None and room < (-1 if s.release == "publish" else s.batch - 1):
        return f"{s.tickets} group permits are too few for {s.places} generator slots that start again at once"
    if s.places < 2:
        return "one generator slot is never stale"
    plain = s.work_alone and s.law.kind == "exponential" and s.drawn == 1
    rates = tuple(float(r) for r in s.rates) if isinstance(s.rates, list | tuple) else None
    # Cells of the law until all but `_OMITTED` is counted: the slowest place is the last.
    speeds = np.array(rates or (1.0,) * s.places)
    slowest = float(speeds.min() / speeds.sum())
    cells = min(_CELLS, math.ceil(math.log(_OMITTED) / math.log1p(-slowest) / s.publish) + 1) if plain else 0
    point = {"workers": s.places, "rates": rates, "groups_per_batch": s.publish, "law": s.length, "cells": cells}
    result = _of_claim("systems/arrivals-per-update", point, "mean")
    lockstep = s.publish == 1 and s.work_alone and s.law.kind == "constant" and s.rate is not None
    if isinstance(result, PredictedStaleness) and lockstep:
        # Equal times: all others deliver once between a delivery and the next of the same place.
        return result._replace(support=(s.places - 1,) * 2, pmf=(0.0,) * (s.places - 1) + (1.0,))
    return result


def _clocked(s: Facts) -> Answer:
    """Prediction for a positive training time, by whichever side is slower."""
    period, rate = s.period, s.rate
    if period is None or rate is None or not s.work_alone:
        return "formulas of open loops are known for one constant training time, equal generator slots and work alone"
    try:
        group = s.law.expected_max(s.drawn) / rate
    except checks.InputError as refusal:
        return str(refusal)
    ratio = s.places * period / (group * s.batch)
    return _generators_busy(s, period * rate, ratio) if ratio < 1.0 else _trainer_busy(s, period * rate, ratio)


def _open_loop(s: Facts, period: float) -> dict[str, Any]:
    """Point for the claims on open loops."""
    sizes = {"places": s.places, "groups_per_batch": s.batch, "samples_per_group": s.drawn}
    return {**sizes, "length": s.length, "train_time": period}


def _generators_busy(s: Facts, period: float, ratio: float) -> Answer:
    if s.publish_waits:
        return "generators are the slower side, and a publish waits for their next batch"
    if s.lead is not None and s.lead < 1 + s.prefetch // s.batches:
        return f"admission waits while packed batches lead by more than {s.lead}"
    limits = [room for room in (s.capacity, _room(s)) if room is not None]
    try:
        for limit in limits:
            _openloop.refuse_chance(ratio, s.batch, limit)
    except checks.InputError as refusal:
        return f"generator slots may stand still: {refusal}"
    result = _of_claim("systems/cap-idle", _open_loop(s, period), "mean")
    if isinstance(result, str):
        return result
    exact = s.law.kind == "exponential" and s.drawn == 1 and not limits
    mean = (result.mean or 0.0) / s.batches
    return result._replace(mean=mean, approximate=0.0 if exact else _SHARE * mean)


def _trainer_busy(s: Facts, period: float, ratio: float) -> Answer:
    if s.capacity is None:
        few = s.tickets is not None and s.places < s.tickets
        return f"{s.places} generator slots do not hold {s.tickets} group permits" if few else "the buffer has no bound"
    closes, maximum = s.overflow == "close", s.places + s.capacity + s.prefetch * s.batch + s.publish
    drops = s.overflow == "drop_oldest"
    uneven = f"{s.tickets} group permits are too few to fill generator slots and buffer, and too many to be used always"
    reasons = {
        "whether admission waits for the lead depends on the lengths": s.lead is not None,
        uneven: s.tickets is not None and s.tickets < maximum,
        f"admission is closed while the buffer holds {s.capacity}, and what is outstanding rises and falls": closes,
        "a full buffer drops its oldest group": drops and (s.batches > 1 or s.order != "done" or s.prefetch),
    }
    reason = first(reasons)
    if reason:
        return reason
    if drops:
        result = _of_claim("systems/open-loop-mean", _open_loop(s, period) | {"capacity": s.capacity}, "mean")
        return result if isinstance(result, str) else result._replace(approximate=_SHARE * (result.mean or 0.0))
    return _all_full(s, ratio)


def _all_full(s: Facts, ratio: float) -> Answer:
    """Prediction when buffer and packed batches are full at every install: places + capacity + prefetch P groups."""
    if ratio < _FULL:
        return f"{ratio:.3g} groups are generated for each one trained; below {_FULL:g} the buffer is not always full"
    outstanding = s.places + s.capacity + s.prefetch * s.batch
    # A buffer that is not full has its places all writing; then a batch's worth is missing where few of them end.
    ends = np.arange(s.batch)
    shortfall = float(((s.batch - ends) * poisson.pmf(ends, ratio * s.batch)).sum())
    mean, tolerance = outstanding / s.publish, shortfall / s.publish
    if tolerance > _SHARE * mean:
        return f"few of {s.places} generator slots end by chance, and the buffer is not always full"
    held = f"{s.places} generator slots, {s.capacity} in the buffer and {s.prefetch} packed batches"
    text = f"the trainer never waits: {held} are outstanding at every install"
    return PredictedStaleness("systems/mean-staleness-identity", mean, approximate=tolerance, reason=text)


def _of_claim(claim: str, point: Mapping[str, Any], key: str) -> Answer:
    """Prediction of a claim at a point of its domain, or why the point is outside."""
    law = _registry.claim(claim)
    outside = law.domain(point)
    if outside:
        return outside
    values = law.predict(point)
    pmf = tuple(p for name, p in values.items() if name.startswith("p[")) or None
    support = (len(pmf) - 1,) * 2 if pmf and max(pmf) >= 1.0 else None
    return PredictedStaleness(claim, values[key], support, pmf, reason=law.statement.replace("`", ""))
