"""How closely the parts of a bound were tested: a part is tested where a smaller one would have been exceeded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from asyncsim.base.records import Claim, Comparison, Estimate, Point, Tightness
from asyncsim.base.uncertainty import critical
from asyncsim.validation.rates import missed_rate, sides

TIGHT = 0.97
"""A bound is tested only where the measurement reaches this share of it."""
_HALVINGS = 24
"""Halvings of the interval in which the smallest lowering that would be seen is looked for."""


class Tested:
    """One comparison of a bound with what its parts would be if they were lower."""

    def __init__(self, claim: Claim, point: Point, row: Comparison, estimate: Estimate, level: float) -> None:
        self.claim, self.point, self.row, self.estimate = claim, point, row, estimate
        self.crit = critical(level, estimate.freedom, sides(claim.kind))

    @property
    def ratio(self) -> float:
        """Measured/bound; 1 for a bound of 0 that is attained."""
        if self.row.predicted == 0.0:
            return 1.0 if self.row.measured == 0.0 else -math.inf
        return 1.0 - (self.row.predicted - self.row.measured) / abs(self.row.predicted)

    def drop(self, term: str, lowering: float) -> float:
        """What the bound loses when a term is lower by that share; 0 where the term does not decide it.

        In a least of several, a term equal to another does not: a larger one would leave the bound unchanged.
        """
        if term not in self.claim.terms:
            return lowering * abs(self.row.predicted)
        whole, less, more = (self.scaled(term, factor) for factor in (1.0, 1.0 - lowering, 1.0 + lowering))
        if not less < whole < more:
            return 0.0
        # A wrong formula is judged with the shares of the right one.
        return (whole - less) * (abs(self.row.predicted / whole) if whole else 1.0)

    def scaled(self, term: str, factor: float) -> float:
        """The bound with one term multiplied by a factor."""
        return self.claim.terms[term](self.point, factor)[self.row.quantity]

    def missed(self, term: str, lowering: float) -> float:
        """Probability that a term lower by that share would pass unnoticed; 1 where the point does not contain it."""
        drop = self.drop(term, lowering)
        if not drop > 0.0 or not math.isfinite(self.row.measured):
            return 1.0
        shift = drop - max(self.row.predicted - self.row.measured, 0.0)
        # A bound lowered to the measurement itself is not exceeded.
        if self.estimate.error == 0.0 and shift == 0.0:
            return 1.0
        return missed_rate(shift, self.estimate.error, self.estimate.tolerance, self.crit, self.estimate.freedom)

    def seen(self, term: str, false_pass: float) -> float:
        """The smallest lowering of a term that would be found; infinity where its absence would not be."""
        low, high = 0.0, 1.0
        if self.missed(term, high) > false_pass:
            return math.inf
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            low, high = (low, middle) if self.missed(term, middle) <= false_pass else (middle, high)
        return high

    def undecided(self, term: str, effect: float) -> bool:
        """Whether more samples could show the term to be tight here: the interval reaches high enough.

        A point whose error exceeds what it should see would need thirty times as many, and decides nothing.
        """
        drop = self.drop(term, effect)
        if drop < self.estimate.error:
            return False
        enough = max(self.row.predicted - drop, self.row.predicted - (1.0 - TIGHT) * abs(self.row.predicted))
        return self.estimate.error > 0.0 and drop > 0.0 and self.row.high > enough


def tightness(
    claim: Claim, tested: Sequence[Tested], effect: float, false_pass: float
) -> tuple[list[Tightness], Mapping[int, bool]]:
    """For every quantity and term that occurs, the comparison that tests it best; and whether it is still undecided.

    A term is tight iff two conditions hold at some point. There measured/bound >= 0.97, and a term lower by `effect`
    would be missed with probability at most `false_pass`. The mapping says, by the index in the list, whether more
    samples could still show that a loose term is tight.
    """
    parts: list[Tightness] = []
    undecided: dict[int, bool] = {}
    for quantity in dict.fromkeys(each.row.quantity for each in tested):
        for term in claim.terms or (quantity,):
            candidates = [each for each in tested if each.row.quantity == quantity and each.drop(term, effect) > 0.0]
            if not candidates:
                continue
            rates = [each.missed(term, effect) if each.ratio >= TIGHT else 1.0 for each in candidates]
            seen = [each.seen(term, false_pass) for each in candidates]
            best = min(range(len(candidates)), key=lambda k: (rates[k], seen[k], -candidates[k].ratio))
            tight = rates[best] <= false_pass
            undecided[len(parts)] = not tight and any(each.undecided(term, effect) for each in candidates)
            parts.append(
                Tightness(
                    quantity, term, tight, candidates[best].ratio, seen[best], rates[best], dict(candidates[best].point)
                )
            )
    return parts, undecided
