r"""Permits that wait for a place or a slot: how many are left over when the next ones return.

Permits are customers of a queue: M of them return every `window` seconds, C places serve them, a group takes T seconds.
F_j counts those without a place just before the j-th return. It obeys F_{j+1} <= (F_j + M - N_j)^+, N_j the groups that
end meanwhile in places that are busy throughout. Where a place was idle no permit waited. Over n windows N counts C
renewal processes. Their mean is n rho M, rho = C window / (M E[T]); their variance about c times the mean, c = Var T /
E[T]^2. N is taken as c Poisson(n rho M / c), c = 1 where T varies less. Then, by Spitzer's identity, E[F] = sum_n E[(n
M - N)^+] / n. A trainer that waits returns permits later and leaves fewer.

So for samples that wait for slots or permits, with M N samples, each by itself. A group has begun with the first of
them. Where its place decides on the server, arrivals at a server vary too, by whole groups. Checked by simulation: the
sum was never exceeded in 576 settings of places and 1720 of slots. Source: derived; sum over n: Spitzer (1956).
"""

import math

import numpy as np
from scipy.stats import poisson

from asyncsim.base.laws import Law
from asyncsim.claims import _openloop
from asyncsim.claims.staleness_rules import _bounded
from asyncsim.claims.staleness_rules._facts import Answer, Facts, PredictedStaleness, first

_SHARE = 0.02
"""Largest share by which tickets left over may lower the mean for the law to be reported."""
_TERMS = 100_000


def left_over(returned: float, ratio: float, spread: float) -> float:
    """Bound on mean permits without a slot: `returned` at once, load `ratio`, time `spread`; infinite if ratio <= 1."""
    if ratio <= 1.0 or not math.isfinite(spread):
        return math.inf
    c = max(1.0, spread)
    last = 64 + 80.0 * c / (returned * min(1.0, ratio - 1.0) ** 2)
    if last > _TERMS:
        return math.inf
    n = np.arange(1, int(last) + 1)
    level, rate = n * returned / c, n * returned * ratio / c
    shortfall = level * poisson.cdf(np.floor(level), rate) - rate * poisson.cdf(np.floor(level) - 1.0, rate)
    return c * max(0.0, math.fsum(shortfall / n))


def heavy(law: Law) -> bool:
    """Whether a distribution has infinite variance."""
    return law.kind == "pareto" and law.parameters[1] <= 2.0


def spread(law: Law, n: int) -> float:
    """Squared coefficient of variation Var T / E[T]^2 of the maximum T of n draws; infinite without variance."""
    if heavy(law):
        return math.inf
    atoms = _openloop._atoms(law, n)
    if atoms is not None:
        values, mass = atoms
        mean, square = float(values @ mass), float(values**2 @ mass)
        return square / mean**2 - 1.0
    t, weight = _openloop._panels(law, n, law.mean())
    with np.errstate(divide="ignore"):
        exceeds = -np.expm1(n * np.log1p(-law.survival(t * law.mean())))
    return float(2.0 * weight @ (t * exceeds)) / float(weight @ exceeds) ** 2 - 1.0


def find(s: Facts) -> Answer:
    """Mean staleness of a permit system with too few generator slots for all permits, or why it is unknown."""
    reason = s.why_dependent() or _why_not(s)
    if reason:
        return reason
    mean = _bounded.mean(s)
    seconds = float(s.period or 0.0) * (s.batches if s.release == "publish" else 1)
    work = (seconds if s.generator_pauses else seconds + s.sync_time) * float(s.rate or 0.0)
    waiting = _of_slots(s, work) if s.why_samples_wait() else of_places(s.law, s.drawn, s.places, s.returned, work)
    loss = waiting / s.publish
    if loss > _SHARE * mean:
        waits = f"up to {waiting:.3g} group permits wait at a publish on average"
        subject = waits if math.isfinite(waiting) else "group permits pile up"
        return f"{subject} for generator slots that are too few or too slow"
    text = f"{s.tickets} group permits are in use at every publish, except {loss * s.publish:.2g} at most on average"
    return PredictedStaleness("systems/cap-binds", mean, approximate=loss, reason=text)


def of_places(law: Law, samples: int, places: int, returned: int, work: float) -> float:
    """Bound on the mean number of permits without a slot; a slot does `work` units of work between two returns."""
    if heavy(law):
        return math.inf
    ratio = places * work / (law.expected_max(samples) * returned)
    return left_over(returned, ratio, spread(law, samples))


def _of_slots(s: Facts, work: float) -> float:
    """Bound on the mean number of groups without a slot, computed per server from the samples that wait."""
    if heavy(s.law):
        return math.inf
    # One queue for all permits, one for each server's slots.
    servers, slots = (s.servers, s.slots) if s.permits is None else (1, s.permits)
    share = s.returned * s.samples / servers
    variability = spread(s.law, 1) + (s.samples if servers > 1 else 0)
    waiting = left_over(share, float(slots) * work / (s.law.mean() * share), variability)
    return waiting * servers / s.samples


def _why_not(s: Facts) -> str | None:
    """Return why the queue of permits does not describe these settings, or None."""
    obstacle = _bounded.why_no_mean(s, crowded=True)
    if obstacle:
        return obstacle
    waits, crowded = s.why_samples_wait(), "group permits wait for generator slots"
    holds = s.difficulty or s.environment or s.rate_curve or s.failure_rate or s.redundant
    reads = s.mode == "reprefill" and s.prefill_speedup is not None
    bind, both = waits and s.why_places_bind(), s.slots is not None and s.permits is not None
    reasons = {
        f"{s.places} generator slots make group permits wait, and samples wait beside them": bind,
        "samples wait for slots, and those of a group have the same work": waits and s.drawn < s.samples,
        f"{s.slots} slots of a server and {s.permits} permits both make samples wait": both,
        f"{crowded}, and the training time is not one constant": not s.period,
        f"{crowded} while weights are on their way and training goes on": not s.follows,
        f"{crowded} that differ": s.rate is None,
        f"{crowded} while a drain or training closes admission": s.mode == "drain" or s.colocated,
        f"{crowded} that hold groups for other than their work": holds or (s.reward and s.reward_holds) or reads,
        f"group permits are taken {s.quantum} at once": s.quantum > 1,
        "finished groups may keep their generator slots": s.capacity is not None and s.capacity < s.tickets,
    }
    return first(reasons)
