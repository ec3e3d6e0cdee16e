"""How often a comparison errs: p-values, the rate of missed deviations, and the sample size that keeps it low."""

import math

from scipy import special

from asyncsim.base import checks
from asyncsim.base.uncertainty import critical

ONE_SIDED = ("bound", "ordering")
"""Kinds whose prediction is an upper bound: only measurements above it contradict the claim."""


def sides(kind: str) -> int:
    """1 for kinds that only an excess contradicts, else 2.

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
    """Probability that a true deviation D passes unnoticed: P(T' <= c), T' noncentral t of shift (D - 2 tol)/error.

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
    """Independent units that a mean needs so that a deviation of effect * scale is found and a true claim is held.

    The least n, up to steps of 2 percent, at which the missed rate with n-1 degrees of freedom is at most `false_pass`.
    The error is taken 2.5 of its own deviations above spread/sqrt(n). A verdict uses the realized error, which exceeds
    its expectation half of the time. Near ((z_{1-a/2} + z_{1-b}) spread / (effect scale))^2,
    a = false_fail/comparisons.

    Arguments: `spread`, standard deviation of one unit, and `scale`, both in the units of the estimate; `effect`, a
    fraction. `false_fail` of all `comparisons` together; `false_pass` of each; `kind` of the claim.
    Returns n >= 2. Raises `InputError` for a spread below 0 or an effect, scale or rate of 0.

    >>> sample_size(1.0, 0.05, 1.0, 1e-3, 0.05)
    10243
    """
    checks.real("spread", spread, "measure it in a pilot run", 0.0)
    remedy = "state the smallest deviation worth seeing"
    deviation = checks.real("effect", effect, remedy, 0.0, open_low=True) * checks.real(
        "scale", scale, remedy, 0.0, open_low=True
    )
    alpha = _rate("false_fail", false_fail) / checks.integer("comparisons", comparisons, 1, "judge at least one number")
    _rate("false_pass", false_pass)
    units = 2
    while True:
        freedom = units - 1.0
        error = spread / math.sqrt(units) * (1.0 + 2.5 / math.sqrt(2.0 * freedom))
        if missed_rate(deviation, error, 0.0, critical(alpha, freedom, sides(kind)), freedom) <= false_pass:
            return units
        units = math.ceil(units * 1.02)


def _rate(field: str, value: float) -> float:
    checks.require(0.0 < value < 1.0, field, value, "in (0, 1)", "state the error rate you accept")
    return float(value)
