"""All comparisons of a claim in one verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from asyncsim import checks
from asyncsim.records import Claim, Comparison, Estimate, Point, Verdict
from asyncsim.validation.judging import judge

TIGHT = 0.97
"""A bound is tested only where the measurement reaches this share of it."""

PRECEDENCE = ("violated", "outside", "inconclusive", "held")


def join(
    claim: Claim,
    points: Sequence[Point],
    measured: Sequence[Mapping[str, Estimate]],
    predicted: Sequence[Mapping[str, float]],
    effect: float,
    false_fail: float = 1e-3,
    false_pass: float = 0.05,
    seconds: float = 0.0,
) -> Verdict:
    """Judge a claim at all its points: the worst verdict of violated, outside, inconclusive, held.

    Each of the n (point, quantity) pairs inside the domain is judged at level false_fail/n, so the claim errs at most
    at `false_fail`. A bound is held only if at one point or more measured/predicted >= 0.97 and a bound lower by the
    effect would have been found there; elsewhere it is a plain inequality.

    Arguments: `claim`; `points`; per point the `measured` estimates and the `predicted` numbers by quantity (empty
    where the point is outside the domain); `effect`, a fraction of the scale that `claim.relative_to` names; `seconds`.
    Returns a `Verdict`: scalar fields of the comparison with least margin among those that decide; `false_fail` the sum
    of the rows', `false_pass` the largest (of a bound: the smallest, at its tightest point).
    Raises `InputError` without points, for lists of different lengths, or a predicted quantity that was not measured.

    >>> claim = Claim("x/y", "two is two", "identity", "exact", lambda p: None, lambda p: {}, lambda p: {}, "derived")
    >>> join(claim, [{}], [{"x": Estimate(2.0)}], [{"x": 2.0}], effect=0.02).verdict
    'held'
    """
    sizes = (len(points), len(measured), len(predicted))
    checks.require(min(sizes) == max(sizes) > 0, "points, measured, predicted", sizes, "equally many, at least one",
                   "measure and predict at every point")
    reasons = [claim.domain(point) for point in points]
    n = sum(len(numbers) for numbers, reason in zip(predicted, reasons, strict=True) if reason is None)
    rows: list[Comparison] = []
    for point, found, numbers, reason in zip(points, measured, predicted, reasons, strict=True):
        if reason is not None:
            rows.append(_outside(point, reason))
            continue
        missing = sorted(set(numbers) - set(found)) if numbers else ["any"]
        checks.require(not missing, "measured quantities", sorted(found), f"such as to include {', '.join(missing)}",
                       "let the trial measure what the claim predicts")
        scales = _scales(claim.relative_to, numbers)
        rows += [
            judge(found[name], numbers[name], claim.kind, scales[name], effect, false_fail, false_pass, n, point, name)
            for name in numbers
        ]
    return _verdict(claim, rows, false_fail, false_pass, seconds)


def _verdict(
    claim: Claim, rows: list[Comparison], false_fail: float, false_pass: float, seconds: float
) -> Verdict:
    verdict = min((row.verdict for row in rows), key=PRECEDENCE.index)
    decisive = min((row for row in rows if row.verdict == verdict), key=lambda row: row.margin)
    reason = decisive.reason
    judged = [row for row in rows if row.verdict != "outside"]
    missed = [row.false_pass for row in judged]
    if claim.kind == "bound":
        missed = [row.false_pass for row in judged if row.measured >= row.predicted - (1 - TIGHT) * abs(row.predicted)]
        if verdict == "held" and min(missed, default=1.0) > false_pass:
            verdict, reason = "inconclusive", f"no point at {TIGHT:g} of the bound or above where the effect would show"
    attained = (min(missed, default=1.0) if claim.kind == "bound" else max(missed)) if judged else math.nan
    return Verdict(
        id=claim.id, statement=claim.statement, kind=claim.kind, status=claim.status, verdict=verdict,
        predicted=decisive.predicted, measured=decisive.measured, low=decisive.low, high=decisive.high,
        false_fail=_total(judged, false_fail), false_pass=attained,
        seconds=seconds, quantity=decisive.quantity, points=tuple(rows), reason=reason,
    )


def _total(judged: list[Comparison], false_fail: float) -> float:
    """Sum of the rows' rates, which rounding must not lift above the level that was divided among them."""
    return min(math.fsum(row.false_fail for row in judged), false_fail) if judged else math.nan


def _scales(relative_to: str, numbers: Mapping[str, float]) -> dict[str, float]:
    """What an effect refers to: each number itself, or the norm of all that share the text before "["."""
    if relative_to == "value":
        return {name: abs(number) for name, number in numbers.items()}
    stems = {name: name.partition("[")[0] for name in numbers}
    norms = {stem: math.hypot(*(numbers[name] for name in numbers if stems[name] == stem)) for stem in stems.values()}
    return {name: norms[stem] for name, stem in stems.items()}


def _outside(point: Point, reason: str) -> Comparison:
    nan = math.nan
    return Comparison(point=dict(point), quantity="", predicted=nan, measured=nan, low=nan, high=nan, verdict="outside",
                      false_fail=nan, false_pass=nan, margin=math.inf, samples=0, reason=reason)
