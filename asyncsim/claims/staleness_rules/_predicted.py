"""Which law of staleness holds for the settings of an event system, and what it predicts: or that there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from asyncsim.base import checks
from asyncsim.claims import _registry
from asyncsim.claims.staleness_rules import _bounded, _few_places, _unticketed
from asyncsim.claims.staleness_rules._facts import Facts

_LEVELS = 5


class PredictedStaleness(NamedTuple):
    """Head staleness of trained groups, in versions, in the steady state.

    `law`, the claim that decides, None where no law's conditions hold (of the staleness then nothing is known but
    `systems/mean-staleness-identity`); `also`, further claims used. `mean`; `support`, least and largest value, hard;
    `pmf`, probabilities of 0, 1, ...; `tail`, P(s >= k) by k: each None where no law gives it. `approximate`, what
    `mean` may be off by in versions where its law is not exact. `reason`, why this law, or why none.
    """

    law: str | None
    mean: float | None = None
    support: tuple[int, int] | None = None
    pmf: tuple[float, ...] | None = None
    tail: dict[int, float] | None = None
    approximate: float = 0.0
    also: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        """The mean, its law and the reason; or that there is no law, and why."""
        if self.law is None:
            return f"no formula: {self.reason}"
        return f"{'no mean' if self.mean is None else f'mean staleness {self.mean:g}'}, by {self.law}: {self.reason}"

    def row(self) -> dict[str, Any]:
        """The JSON object of this prediction."""
        row = self._asdict()
        row["tail"] = None if self.tail is None else {str(k): p for k, p in self.tail.items()}
        return row | {
            "support": self.support and list(self.support),
            "pmf": self.pmf and list(self.pmf),
            "also": list(self.also),
        }


def predicted(settings: Mapping[str, Any], samples_per_group: int) -> PredictedStaleness:
    """See `theory.predicted_staleness`."""
    samples = checks.integer("samples_per_group", samples_per_group, 1, "a group has at least one sample")
    s = Facts(settings, samples)
    if s.rounds:
        text = f"rounds of {s.quantum} groups, all of a batch under the version that it trains"
        return PredictedStaleness("systems/dynamic-sampling", 0.0, (0, 0), (1.0,), reason=text)
    # Use tickets: a known mean, then bounds.
    bound = min(_bounded.bounds(s), key=lambda each: (each.largest, not each.sorted), default=None)
    why_no_mean = _bounded.why_no_mean(s)
    if why_no_mean is None:
        return _always_in_use(s, bound)
    if bound is not None:
        return _hard(s, bound, f"no mean: {why_no_mean}")
    # Bound the tickets that wait for places.
    ticket_mean = _few_places.find(s)
    if isinstance(ticket_mean, _few_places.CrowdedMean):
        unused = f"{ticket_mean.loss * s.publish:.2g}"
        text = f"{s.tickets} group permits are in use at every install, but for {unused} at most on average"
        return PredictedStaleness("systems/cap-binds", ticket_mean.mean, approximate=ticket_mean.loss, reason=text)
    # Else let places or buffer decide.
    loop_law = _unticketed.find(s)
    if isinstance(loop_law, str):
        reasons = [loop_law] if s.tickets is None else dict.fromkeys([why_no_mean, ticket_mean, loop_law])
        return PredictedStaleness(None, reason="; ".join(reasons))
    support = _single(loop_law.pmf)
    return PredictedStaleness(
        loop_law.claim, loop_law.mean, support, loop_law.pmf, None, loop_law.approximate, (), loop_law.reason
    )


def _single(pmf: tuple[float, ...] | None) -> tuple[int, int] | None:
    """The support of a law of one value."""
    return None if pmf is None or max(pmf) < 1.0 else (len(pmf) - 1,) * 2


def _always_in_use(s: Facts, bound: _bounded.Bound | None) -> PredictedStaleness:
    """Every ticket is in use at every install: the mean is known, and more where a bound or the order says so."""
    mean = _bounded.mean(s)
    reason = f"{s.tickets} group permits are in use at every install, {s.publish} groups are trained between two"
    arrivals = _unticketed.find(s) if s.instant and s.publish == 1 and s.tickets == s.places else ""
    if isinstance(arrivals, _unticketed.LoopLaw):
        claim, _, pmf, _, reason = arrivals
        return PredictedStaleness(claim, mean, _single(pmf), pmf, None, 0.0, ("systems/cap-binds",), reason)
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
    plain = not any((s.difficulty, s.environment, s.reward, s.rate_curve, s.failure_rate, s.sync_time, s.prefetch))
    oldest = s.order == "oldest_start" and s.window is None and s.age_action != "wait"
    roomy = s.places >= s.tickets and s.capacity is None
    running = s.mode in ("keep", "pin", "reprefill") and s.batches == 1 and s.quantum == 1 and s.visible == "completion"
    if not (plain and oldest and roomy and running and s.period and s.rate) or s.redundant or s.why_dependent():
        return None
    first = math.ceil(s.tickets / s.batch + (s.release == "dequeue"))
    point = {
        "tickets": s.tickets,
        "groups_per_batch": s.batch,
        "release": s.release,
        "samples_per_group": s.drawn,
        "length": s.length,
        "period": s.period * s.rate,
        "levels": tuple(range(first, first + _LEVELS)),
    }
    law = _registry.claim("systems/straggler-tail")
    if law.domain(point):
        return None
    return dict(zip(point["levels"], law.predict(point).values(), strict=True))
