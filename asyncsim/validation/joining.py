"""All comparisons of a claim in one verdict, and the tightness of each term of a bound.

A part is tested where a smaller one would have been exceeded.
"""

import math
from collections.abc import Mapping, Sequence

from asyncsim.base import checks
from asyncsim.base.records import LOOSE, Claim, Comparison, Estimate, Point, Tightness, Unmeasured, Verdict
from asyncsim.base.uncertainty import critical
from asyncsim.validation.judging import judge, missed_rate, sides

TIGHT = 0.97
"""A bound is tested only where the measurement reaches this share of it."""
_HALVINGS = 24
"""Halvings of the interval in which the smallest lowering that would be seen is looked for."""
PRECEDENCE = ("violated", "outside", "inconclusive", LOOSE, "held")


def join(
    claim: Claim,
    points: Sequence[Point],
    measured: Sequence[Mapping[str, Estimate] | Unmeasured],
    predicted: Sequence[Mapping[str, float]],
    effect: float,
    false_fail: float = 1e-3,
    false_pass: float = 0.05,
    seconds: float = 0.0,
) -> Verdict:
    """Judge a claim at all its points by its worst verdict, in the order violated, outside, inconclusive, held.

    Each of the n (point, quantity) pairs inside the domain is judged at level false_fail/n, so the claim errs at most
    at `false_fail`. A bound is held only if every quantity and term of it (`Claim.terms`) is tight at one point or
    more. There measured/predicted >= 0.97, and a term lower by the effect would have been detected. A bound that
    nothing exceeded, with a term that is nowhere tight, "holds, not tight". It is inconclusive where more
    samples could decide.

    Arguments: `claim`; `points`; per point the `measured` estimates, or why there are none, and the `predicted` numbers
    by quantity (empty where the point is outside the domain). `effect`: a fraction of the scale that
    `claim.relative_to` names; `seconds`.
    Returns a `Verdict` with the scalar fields of the comparison with least margin among those that decide. Of a bound
    that is not tight they are those of the one that tests its loosest term best. `false_fail` is the sum of the rows',
    `false_pass` the largest; of a bound, the largest over its terms, each at the point that tests it best. `p` is n
    times the smallest p-value of a comparison, at most 1 (Bonferroni); not a number where none was judged.
    Raises `InputError` without points, for lists of different lengths, or a predicted quantity that was not measured.

    >>> claim = Claim("x/y", "two is two", "identity", "exact", lambda p: None, lambda p: {}, lambda p: {}, "derived")
    >>> join(claim, [{}], [{"x": Estimate(2.0)}], [{"x": 2.0}], effect=0.02).verdict
    'held'
    """
    sizes = (len(points), len(measured), len(predicted))
    equal, remedy = min(sizes) == max(sizes) > 0, "measure and predict at every point"
    checks.require(equal, "points, measured, predicted", sizes, "equally many, at least one", remedy)
    # Divide the error rate among comparisons.
    reasons = [claim.domain(point) for point in points]
    states = [
        own if reason is None or isinstance(own, Unmeasured) else Unmeasured(reason)
        for own, reason in zip(measured, reasons, strict=True)
    ]
    n = sum(len(numbers) for numbers, own in zip(predicted, states, strict=True) if not isinstance(own, Unmeasured))
    rows: list[Comparison] = []
    tested: list[Tested] = []
    for point, estimates, numbers in zip(points, states, predicted, strict=True):
        if isinstance(estimates, Unmeasured):
            reason, verdict = estimates
            margin = math.inf if verdict == "outside" else -math.inf
            rows.append(Comparison(dict(point), "", verdict=verdict, margin=margin, reason=reason))
            continue
        missing = sorted(set(numbers) - set(estimates)) if numbers else ["any"]
        bound, remedy = f"such as to include {', '.join(missing)}", "let the trial measure what the claim predicts"
        checks.require(not missing, "measured quantities", sorted(estimates), bound, remedy)
        # What an effect refers to: each number itself, or the norm of all that share the text before "[".
        scales = {name: abs(number) for name, number in numbers.items()}
        if claim.relative_to != "value":
            stems = {name: name.partition("[")[0] for name in numbers}
            shared = {stem: [numbers[name] for name in numbers if stems[name] == stem] for stem in stems.values()}
            scales = {name: math.hypot(*shared[stem]) for name, stem in stems.items()}
        for name in numbers:
            row = judge(
                estimates[name], numbers[name], claim.kind, scales[name], effect, false_fail, false_pass, n, point, name
            )
            rows.append(row)
            if claim.kind == "bound":
                tested.append(Tested(claim, point, row, estimates[name], false_fail / n))
    verdict = min((row.verdict for row in rows), key=PRECEDENCE.index)
    decisive = min((row for row in rows if row.verdict == verdict), key=lambda row: row.margin)
    reason = decisive.reason
    judged = [row for row in rows if not math.isnan(row.p)]
    attained = max((row.false_pass for row in judged), default=math.nan)
    terms: list[Tightness] = []
    if claim.kind == "bound" and judged:
        terms, undecided = tightness(claim, tested, effect, false_pass)
        attained = max((term.false_pass for term in terms), default=1.0)
        if verdict in ("held", LOOSE):
            loose = [str(term) for term in terms if not term.tight]
            verdict, reason = "held", f"every term of the bound is attained within {100.0 * (1.0 - TIGHT):g} %"
            if not terms or loose:
                verdict = "inconclusive" if undecided else LOOSE
                reason = "; ".join(loose) or "a lower bound would change none of its quantities"
            loosest = max(terms, key=lambda term: (not term.tight, term.seen), default=None)
            if loosest is not None:
                decisive = next(row for row in rows if (row.quantity, row.point) == (loosest.quantity, loosest.point))
    about = {name: getattr(claim, name) for name in ("id", "statement", "kind", "status")}
    about |= {name: getattr(decisive, name) for name in ("predicted", "measured", "low", "high", "quantity")}
    return Verdict(
        **about,
        verdict=verdict,
        # Rounding must not lift the sum above the level that was divided among the rows.
        false_fail=min(math.fsum(row.false_fail for row in judged), false_fail) if judged else math.nan,
        false_pass=attained,
        seconds=seconds,
        points=tuple(rows),
        reason=reason,
        terms=tuple(terms),
        p=min(1.0, len(judged) * min(row.p for row in judged)) if judged else math.nan,
    )


class Tested:
    """One comparison with a bound, to test whether a lower term in the bound would be noticed."""

    def __init__(self, claim: Claim, point: Point, row: Comparison, estimate: Estimate, level: float) -> None:
        self.claim, self.point, self.row, self.estimate = claim, point, row, estimate
        self.crit = critical(level, estimate.freedom, sides(claim.kind))

    @property
    def ratio(self) -> float:
        """Measured value divided by the bound; 1 for a bound of 0 that is attained."""
        if self.row.predicted == 0.0:
            return 1.0 if self.row.measured == 0.0 else -math.inf
        return 1.0 - (self.row.predicted - self.row.measured) / abs(self.row.predicted)

    def drop(self, term: str, lowering: float) -> float:
        """Decrease of the bound when a term is lowered by a fraction; 0 if the term does not determine the bound."""
        if term not in self.claim.terms:
            return lowering * abs(self.row.predicted)
        bound, factors = self.claim.terms[term], (1.0, 1.0 - lowering, 1.0 + lowering)
        whole, less, more = (bound(self.point, factor)[self.row.quantity] for factor in factors)
        if not less < whole < more:
            return 0.0
        # A wrong formula is judged with the shares of the right one.
        return (whole - less) * (abs(self.row.predicted / whole) if whole else 1.0)

    def missed(self, term: str, lowering: float) -> float:
        """Probability that a term lowered by a fraction goes unnoticed; 1 if the bound lacks the term at this point."""
        drop = self.drop(term, lowering)
        if not drop > 0.0 or not math.isfinite(self.row.measured):
            return 1.0
        shift = drop - max(self.row.predicted - self.row.measured, 0.0)
        # A bound lowered to the measurement itself is not exceeded.
        if self.estimate.error == 0.0 and shift == 0.0:
            return 1.0
        return missed_rate(shift, self.estimate.error, self.estimate.tolerance, self.crit, self.estimate.freedom)

    def seen(self, term: str, false_pass: float) -> float:
        """Smallest fraction by which lowering a term would be noticed; infinite if its absence would not."""
        low, high = 0.0, 1.0
        if self.missed(term, high) > false_pass:
            return math.inf
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            low, high = (low, middle) if self.missed(term, middle) <= false_pass else (middle, high)
        return high

    def undecided(self, term: str, effect: float) -> bool:
        """Whether more samples could show that a bound's term is tight here, since the interval reaches far enough."""
        drop = self.drop(term, effect)
        if drop < self.estimate.error:
            return False
        enough = max(self.row.predicted - drop, self.row.predicted - (1.0 - TIGHT) * abs(self.row.predicted))
        return self.estimate.error > 0.0 and drop > 0.0 and self.row.high > enough


def tightness(claim: Claim, tested: Sequence[Tested], effect: float, false_pass: float) -> tuple[list[Tightness], bool]:
    """Best test of tightness for every quantity and term of a bound, and whether one is still undecided.

    A term is tight iff two conditions hold at some point. There measured/bound >= 0.97, and a term lower by `effect`
    would be missed with probability at most `false_pass`. A loose term is undecided where more samples could decide.
    """
    parts: list[Tightness] = []
    undecided = False
    for quantity in dict.fromkeys(each.row.quantity for each in tested):
        for term in claim.terms or (quantity,):
            candidates = [each for each in tested if each.row.quantity == quantity and each.drop(term, effect) > 0.0]
            if not candidates:
                continue
            rates = [each.missed(term, effect) if each.ratio >= TIGHT else 1.0 for each in candidates]
            seen = [each.seen(term, false_pass) for each in candidates]
            best = min(range(len(candidates)), key=lambda k: (rates[k], seen[k], -candidates[k].ratio))
            tight = rates[best] <= false_pass
            undecided = undecided or (not tight and any(each.undecided(term, effect) for each in candidates))
            chosen = candidates[best]
            parts.append(Tightness(quantity, term, tight, chosen.ratio, seen[best], rates[best], dict(chosen.point)))
    return parts, undecided
