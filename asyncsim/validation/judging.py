"""One measured number beside its prediction."""

import math
from collections.abc import Mapping
from typing import Any

from asyncsim.base import checks
from asyncsim.base.records import KINDS, LOOSE, Comparison, Estimate
from asyncsim.base.uncertainty import critical
from asyncsim.validation.rates import missed_rate, p_value, sides


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
    """Compare a measurement with a prediction so that both mistakes have a stated probability.

    With a = false_fail/comparisons (Bonferroni), c the critical value at level a and D = effect * scale:
        violated      iff |measured - predicted| > c error + tolerance   (kinds bound, ordering: measured - predicted)
        held          iff not violated and a deviation D would have been missed with probability <= false_pass
        inconclusive  otherwise; violated with reason "diverged" where the measured value is not finite.
    A bound is an upper bound, and its missed rate is for a bound lower by D. That rate is small only where the
    measurement is close below the bound. One that is not exceeded, and not close either, "holds, not tight": it could
    be lower.

    Arguments: `estimate`, as `Trace.final` gives it; `kind` of the claim. `predicted`: finite, or a prediction with
    `mean` and `reason` such as that of `claims.predicted_staleness`. Where it is None, or its mean is, the verdict is
    "outside". `scale` >= 0: what the fraction `effect` refers to (|predicted| unless given). `effect`: the least
    deviation worth detecting. `false_fail` of all `comparisons` of the claim together; `false_pass` of this one;
    `point`, `quantity` for the row.
    Returns a `Comparison`: `false_fail` is a (0 without sampling), `false_pass` the missed rate at the realized error.
    [low, high] = measured -+ (c error + tolerance); `margin` = (c error + tolerance - deviation)/D. `p` is the p-value
    of this comparison alone, so that it is violated iff p < a.
    Raises `InputError` for an error bar known to be false, a negative error or a prediction that is not finite.
    Assumes a normal estimate with an independent error of `freedom` degrees of freedom.

    >>> print(judge(Estimate(1.001, 0.002), 1.0))
    held: predicted 1, measured 1.0010 ± 0.0066
    >>> judge(Estimate(1.02, 0.002), 1.0, "expectation", 1.0, 0.02).verdict
    'violated'
    >>> judge(Estimate(1.02, 0.02), 1.0, "expectation", 1.0, 0.02).verdict
    'inconclusive'
    >>> print(judge(Estimate(1.02, 0.02), None))
    outside: predicted —, measured 1.020 ± 0.066 (no formula: no prediction was given)
    """
    reason = getattr(predicted, "reason", "") or "no prediction was given"
    predicted = predicted.mean if hasattr(predicted, "reason") else predicted
    if predicted is None:
        # A measurement without a prediction.
        known = estimate.independent and math.isfinite(estimate.error)
        crit = critical(false_fail / comparisons, estimate.freedom) if known else math.nan
        value, reach = float(estimate.value), estimate.tolerance + crit * estimate.error
        ends: dict[str, Any] = {"measured": value, "low": value - reach, "high": value + reach}
        return Comparison(dict(point or {}), quantity, **ends, samples=estimate.samples, reason=f"no formula: {reason}")
    # Check the prediction and the rates.
    predicted = checks.real("prediction", predicted, "check the point against the claim's domain")
    scale = abs(predicted) if scale is None else scale
    bound, remedy = ">= 2 where the schedule is random", "raise realizations=, since replicates on one shared schedule"
    checks.require(estimate.independent, "realizations", 1, bound, f"{remedy} make a false error bar")
    checks.one_of("kind", kind, KINDS, "use a kind of `records.KINDS`")
    checks.real("scale", scale, "give the size that the effect refers to", 0.0)
    checks.real("effect", effect, "state the smallest deviation worth seeing", 0.0, open_low=True)
    for name, rate in (("false_fail", false_fail), ("false_pass", false_pass)):
        checks.require(0.0 < rate < 1.0, name, rate, "in (0, 1)", "state the error rate you accept")
    checks.integer("comparisons", comparisons, 1, "count the comparisons of the claim")
    if math.isfinite(estimate.value):
        checks.real("estimate.error", estimate.error, "estimate it between independent units", 0.0, finite=False)
        checks.real("estimate.tolerance", estimate.tolerance, "give the systematic allowance", 0.0)
    # Describe the comparison.
    value, error, freedom, tolerance = estimate.value, estimate.error, estimate.freedom, estimate.tolerance
    row: dict[str, Any] = {"point": dict(point or {}), "quantity": quantity, "predicted": float(predicted)}
    row["samples"] = estimate.samples
    # Call a diverged measurement violated.
    if not math.isfinite(value):
        certain: dict[str, Any] = {"false_fail": 0.0, "false_pass": 0.0, "margin": -math.inf, "p": 0.0}
        return Comparison(measured=value, verdict="violated", reason="diverged", **certain, **row)
    # Split the level among comparisons.
    alpha = false_fail / comparisons
    crit = critical(alpha, freedom, sides(kind))
    reach = tolerance + (crit * error if error else 0.0)
    # Compute the rate of missed deviations.
    deviation = value - predicted if sides(kind) == 1 else abs(value - predicted)
    smallest = effect * scale
    # A bound lowered by as much as it exceeds the measurement is not contradicted.
    shift = smallest - max(predicted - value, 0.0) if kind == "bound" else smallest
    missed = missed_rate(shift, error, tolerance, crit, freedom)
    plain_inequality = kind == "bound" and deviation <= tolerance
    reason = f"measured/bound = {value / predicted:.4g}" if kind == "bound" and predicted else ""
    # Choose the verdict.
    if deviation > reach:
        verdict = "violated"
    elif missed <= false_pass:
        verdict = "held"
    elif plain_inequality:
        verdict = LOOSE
    else:
        # Say what a held verdict would take.
        verdict, needed = "inconclusive", smallest - 2.0 * tolerance
        limit = needed / (crit + critical(false_pass, sides=1))
        hidden = f"error {error:.3g} hides the effect {smallest:.3g}, which needs an error below {limit:.3g}"
        reason = hidden if needed > 0.0 else f"tolerance {tolerance:.3g} leaves no room for the effect {smallest:.3g}"
    room = reach - deviation
    edge = math.copysign(math.inf, room) if room else 0.0
    return Comparison(
        measured=float(value),
        low=value - reach,
        high=value + reach,
        verdict=verdict,
        false_fail=alpha if error else 0.0,
        false_pass=missed,
        margin=room / smallest if smallest else edge,
        p=p_value(deviation - tolerance, error, freedom, sides(kind)),
        reason=reason,
        **row,
    )
