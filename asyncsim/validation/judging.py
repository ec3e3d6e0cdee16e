"""One measured number compared with its prediction, and the error rates of this comparison.

Many claims at once: Holm's correction over a page, and bets against a claim that may be judged after every run.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from scipy import special

from asyncsim.base import calls, checks
from asyncsim.base.records import KINDS, LOOSE, Comparison, Estimate
from asyncsim.base.uncertainty import critical

ONE_SIDED = ("bound", "ordering")
"""Kinds whose prediction is an upper bound: only measurements above it contradict the claim."""


def sides(kind: str) -> int:
    """Number of tails in a claim's test: 1 for kinds that only an excess contradicts, else 2.

    >>> sides("bound"), sides("identity")
    (1, 2)
    """
    return 1 if kind in ONE_SIDED else 2


def p_value(excess: float, error: float, freedom: float, sides: int) -> float:
    """Probability that a true claim shows a deviation at least this large: `sides` P(T > excess/error), at most 1.

    T has the t distribution of `freedom`. The systematic allowance is taken off first. So it is too large rather than
    too small where that allowance is not used up.

    Arguments: `excess`, |measured - predicted| less the tolerance (for one side without the bars), and `error`, in the
    units of the estimate; `freedom`; `sides`, 1 or 2. Returns a probability. Without an error it is 1 up to an excess
    of 0, and 0 above. Assumes a normal estimate with an independent error.

    >>> round(p_value(1.96, 1.0, float("inf"), 2), 3), p_value(1e-9, 0.0, float("inf"), 2)
    (0.05, 0.0)
    """
    if error == 0.0:
        return 1.0 if excess <= 0.0 else 0.0
    if not math.isfinite(error):
        return 1.0
    score = -excess / error
    return min(1.0, sides * float(special.ndtr(score) if math.isinf(freedom) else special.stdtr(freedom, score)))


def missed_rate(deviation: float, error: float, tolerance: float, crit: float, freedom: float) -> float:
    """Probability that a true deviation D goes unnoticed: P(T' <= c), T' noncentral t with shift (D - 2 tol)/error.

    The tolerance counts twice: it widens acceptance, and the systematic error that it allows can mask an equal
    deviation. The normal distribution where `freedom` is infinite; 0 or 1 where `error` is 0.

    Arguments: `deviation` D, `error`, `tolerance` in the units of the estimate; `crit` c in standard errors; `freedom`.
    Returns a probability; 1 where it cannot be computed, so that nothing is claimed. Assumes a normal estimate.

    >>> round(missed_rate(3.6, 1.0, 0.0, 1.96, float("inf")), 3)
    0.051
    """
    if error == 0.0:
        # Without a deviation nothing is missed; below zero the lowered bound still exceeds the measurement.
        return 0.0 if deviation > 2.0 * tolerance or (tolerance == 0.0 and deviation == 0.0) else 1.0
    shift = (deviation - 2.0 * tolerance) / error
    if shift == math.inf:
        return 0.0
    if not math.isfinite(error):
        return 1.0
    rate = float(special.ndtr(crit - shift) if math.isinf(freedom) else special.nctdtr(freedom, shift, crit))
    if math.isfinite(rate):
        return rate
    # The series of the noncentral t fails for large shifts; its normal approximation is accurate there.
    return float(special.ndtr((crit * (1.0 - 0.25 / freedom) - shift) / math.sqrt(1.0 + crit**2 / (2.0 * freedom))))


def sample_size(
    spread: float,
    effect: float,
    scale: float,
    false_fail: float,
    false_pass: float,
    comparisons: int = 1,
    kind: str = "expectation",
) -> int:
    """Number of independent units for which a deviation of effect * scale is found, and a true claim holds.

    The least n, up to steps of 2 percent, at which the missed rate with n-1 degrees of freedom is at most `false_pass`.
    The error is taken 2.5 of its own deviations above spread/sqrt(n). A verdict uses the realized error, half of the
    time above its expectation. Near ((z_{1-a/2} + z_{1-b}) spread / (effect scale))^2, a = false_fail/comparisons.

    Arguments: `spread`, standard deviation of one unit, and `scale`, both in the units of the estimate; `effect`, a
    fraction. `false_fail` of all `comparisons` together; `false_pass` of each; `kind` of the claim.
    Returns n >= 2. Raises `InputError` for a spread below 0 or an effect, scale or rate of 0.

    >>> sample_size(1.0, 0.05, 1.0, 1e-3, 0.05)
    10243
    """
    checks.real("spread", spread, "measure it in a pilot run", 0.0)
    remedy = "state the smallest deviation worth seeing"
    deviation = checks.real("effect", effect, remedy, 0.0, open_low=True)
    deviation *= checks.real("scale", scale, remedy, 0.0, open_low=True)
    count = checks.integer("comparisons", comparisons, 1, "judge at least one number")
    alpha = checks.rate("false_fail", false_fail) / count
    checks.rate("false_pass", false_pass)
    units = 2
    while True:
        freedom = units - 1.0
        error = spread / math.sqrt(units) * (1.0 + 2.5 / math.sqrt(2.0 * freedom))
        if missed_rate(deviation, error, 0.0, critical(alpha, freedom, sides(kind)), freedom) <= false_pass:
            return units
        units = math.ceil(units * 1.02)


@calls.named
def judge(
    estimate: Estimate,
    predicted: Any,
    kind: str = "expectation",
    scale: float | None = None,
    effect: float = 0.05,
    false_fail: float = 1e-3,
    false_pass: float = 0.05,
    comparisons: int = 1,
    point: Mapping[str, Any] | None = None,
    quantity: str = "",
) -> Comparison:
    """Compare a measurement with a claim's prediction, with stated probabilities of both errors.

    With a = false_fail/comparisons (Bonferroni), c the critical value at level a and D = effect * scale:
        violated      iff |measured - predicted| > c error + tolerance   (kinds bound, ordering: measured - predicted)
        held          iff not violated and a deviation D would have been missed with probability <= false_pass
        inconclusive  otherwise; violated with reason "diverged" where the measured value is not finite.
    A bound is an upper bound, and its missed rate is for a bound lower by D. That rate is small only where the
    measurement is close below the bound. A bound that is neither exceeded nor
    close "holds, not tight": it could be lower.

    Arguments: `estimate`, as `Trace.final` gives it; `kind` of the claim. `predicted`: finite, or a prediction with
    `mean` and `reason` such as that of `claims.predicted_staleness`. Where it is None, or its mean is, the verdict is
    "outside". `scale` >= 0: what the fraction `effect` refers to (|predicted| unless given). `effect`: the least
    deviation worth detecting. `false_fail` of all `comparisons` of the claim together; `false_pass` of this one;
    `point`, `quantity` for the row. Returns a `Comparison`: `false_fail` is a (0 without sampling), `false_pass` the
    missed rate at the realized error. [low, high] = measured -+ (c error + tolerance); `margin` = (c error + tolerance
    - deviation)/D. `p` is the p-value of this comparison alone, so that it is violated iff p < a. Raises `InputError`
    for an error bar known to be false, a negative error or a prediction that is not finite. Assumes a normal estimate
    with an independent error of `freedom` degrees of freedom.

    >>> print(judge(Estimate(1.001, 0.002), 1.0))
    held: predicted 1, measured 1.0010 ± 0.0066
    >>> judge(Estimate(1.02, 0.002), 1.0, "expectation", 1.0, 0.02).verdict
    'violated'
    >>> judge(Estimate(1.02, 0.02), 1.0, "expectation", 1.0, 0.02).verdict
    'inconclusive'
    >>> print(judge(Estimate(1.02, 0.02), None))
    outside: predicted —, measured 1.020 ± 0.066 (no formula: no prediction was given)
    """
    remedy = "write judge(trace.final(NAME), predicted); of logs of two settings sim.judge_runs(a, b)"
    checks.require(isinstance(estimate, Estimate), "estimate", estimate, "an Estimate", remedy)
    reason = getattr(predicted, "reason", "") or "no prediction was given"
    predicted = predicted.mean if hasattr(predicted, "reason") else predicted
    if predicted is None:
        # A measurement without a prediction.
        known = estimate.independent and math.isfinite(estimate.error)
        crit = critical(false_fail / comparisons, estimate.freedom) if known else math.nan
        value, reach = float(estimate.value), estimate.tolerance + crit * estimate.error
        ends: dict[str, Any] = {"measured": value, "low": value - reach, "high": value + reach}
        return Comparison(dict(point or {}), quantity, **ends, samples=estimate.samples, reason=f"no formula: {reason}")
    predicted = checks.real("prediction", predicted, "check the point against the claim's domain")
    scale = abs(predicted) if scale is None else scale
    bound, remedy = ">= 2 where the schedule is random", "raise realizations=, since replicates on one shared schedule"
    checks.require(estimate.independent, "realizations", 1, bound, f"{remedy} make a false error bar")
    checks.one_of("kind", kind, KINDS, "use a kind of `records.KINDS`")
    checks.real("scale", scale, "give the size that the effect refers to", 0.0)
    checks.real("effect", effect, "state the smallest deviation worth seeing", 0.0, open_low=True)
    checks.rate("false_fail", false_fail)
    checks.rate("false_pass", false_pass)
    checks.integer("comparisons", comparisons, 1, "count the comparisons of the claim")
    if math.isfinite(estimate.value):
        checks.real("estimate.error", estimate.error, "estimate it between independent units", 0.0, finite=False)
        checks.real("estimate.tolerance", estimate.tolerance, "give the systematic allowance", 0.0)
    value, error, freedom, tolerance = estimate.value, estimate.error, estimate.freedom, estimate.tolerance
    row: dict[str, Any] = {"point": dict(point or {}), "quantity": quantity, "predicted": float(predicted)}
    row["samples"] = estimate.samples
    if not math.isfinite(value):
        certain: dict[str, Any] = {"false_fail": 0.0, "false_pass": 0.0, "margin": -math.inf, "p": 0.0}
        return Comparison(measured=value, verdict="violated", reason="diverged", **certain, **row)
    alpha = false_fail / comparisons
    crit = critical(alpha, freedom, sides(kind))
    reach = tolerance + (crit * error if error else 0.0)
    deviation = value - predicted if sides(kind) == 1 else abs(value - predicted)
    smallest = effect * scale
    # A bound lowered by as much as it exceeds the measurement is not contradicted.
    shift = smallest - max(predicted - value, 0.0) if kind == "bound" else smallest
    missed = missed_rate(shift, error, tolerance, crit, freedom)
    plain_inequality = kind == "bound" and deviation <= tolerance
    reason = f"measured/bound = {value / predicted:.4g}" if kind == "bound" and predicted else ""
    if deviation > reach:
        verdict = "violated"
        reason = f"{reason}, above an upper bound".lstrip(", ") if kind == "bound" else reason
    elif missed <= false_pass:
        verdict = "held"
    elif plain_inequality:
        verdict = LOOSE
    else:
        # Say what a held verdict would take.
        verdict, needed = "inconclusive", smallest - 2.0 * tolerance
        limit = needed / (crit + critical(false_pass, sides=1))
        hidden = f"error {error:.3g} hides the effect {smallest:.3g}, which needs an error below {limit:.3g}"
        ratio = error / limit if limit > 1e-3 * error else 0.0  # errors fall as one over the root of the replicates
        hidden += f", about {math.ceil(ratio**2)} times as many replicates" * bool(ratio > 0.0)
        reason = hidden if needed > 0.0 else f"tolerance {tolerance:.3g} leaves no room for the effect {smallest:.3g}"
    room = reach - deviation
    edge = math.copysign(math.inf, room) if room else 0.0
    return Comparison(
        measured=float(value), low=value - reach, high=value + reach, verdict=verdict,
        false_fail=alpha if error else 0.0, false_pass=missed, margin=room / smallest if smallest else edge,
        p=p_value(deviation - tolerance, error, freedom, sides(kind)), reason=reason, **row,
    )  # fmt: skip


SURE = 1e-12
"""Least p-value that a bet believes: nobody has checked tails beyond it."""


def holm(values: Mapping[str, float]) -> dict[str, float]:
    """Holm's adjusted p-values: p_(k) becomes max over j <= k of (m - j + 1) p_(j), at most 1.

    Whoever rejects those up to a level rejects any true claim with at most that probability, whatever depends on what.

    Arguments: `values`, p-values by name; those that are not a number were not judged and stay so. m counts the others.
    Returns adjusted p-values by name. Source: Holm 1979.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    order = sorted((name for name in values if not math.isnan(values[name])), key=values.__getitem__)
    adjusted, largest = dict(values), 0.0
    for k, name in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - k) * values[name]))
        adjusted[name] = largest
    return adjusted


def e_value(p: float) -> float:
    """Payoff of a unit stake in a fair bet against a claim, from its p-value: e = (1 - p + p log p) / (p log(p)^2).

    It is the mean of k p^(k-1) over k in (0, 1), so its mean is 1 where p is uniform, and at most 1 where p is too
    large. A p-value below 1e-12 counts as 1e-12.

    Arguments: `p` in [0, 1]. Returns a pure number from 1/2 at p = 1 to 1.3e9. Raises `InputError` for another p.
    Source: Vovk and Wang 2021, section 2 (1912.06116).

    >>> e_value(1.0), round(e_value(0.05), 2), round(e_value(1e-3), 1)
    (0.5, 1.78, 20.8)
    """
    t = -math.log(max(SURE, checks.real("p", p, "give a p-value", 0.0, 1.0)))
    # The difference cancels where p is close to 1.
    return 0.5 + t / 6.0 if t < 1e-6 else (math.expm1(t) - t) / (t * t)


def wealth(values: Iterable[float]) -> list[float]:
    """Wealth of a bettor against a claim after each bet, from 1: run t opens a bet with 1/(t (t+1)), then reinvested.

        A_t = (A_{t-1} + 1/(t (t+1))) e_t,    E_t = A_t + 1/(t+1),
    the second term what was not yet staked. A true claim lets E grow in the mean never, so E ever reaches x with a
    probability of at most 1/x (Ville). Many runs of a true claim cost a later deviation a factor of t^2, not 2^t.

    Arguments: `values`, p-values of runs in order, each too large or uniform given those before. Returns E_1, E_2, ...,
    at most 1e300. Raises `InputError` as `e_value`. Assumes that each run has draws of its own.

    >>> [round(e, 3) for e in wealth([1.0, 1.0, 1e-6])]
    [0.75, 0.542, 1528.331]
    """
    staked, money = 0.0, []
    for t, p in enumerate(values, 1):
        staked = min(1e300, (staked + 1.0 / (t * (t + 1))) * e_value(p))
        money.append(staked + 1.0 / (t + 1))
    return money
