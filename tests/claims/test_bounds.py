"""A verdict about a bound says what was tested: every term, lowered or raised, must change it.

The mistakes that once passed as *held*: a coefficient of a delay times 0.5, 2, 10, 100, the largest delay in place of
the mean one, a bound that one row without delay certified. Measurements at the trials' own points, sizes and seed 0.
"""

from dataclasses import replace
from functools import cache

import pytest

from asyncsim import claims, validation
from asyncsim.base.records import LOOSE, Claim, Estimate
from asyncsim.claims._trial import untouched

BOUNDS = [name for name in sorted(claims.claims()) if claims.claim(name).kind == "bound"]
TERMS = [(name, term) for name in BOUNDS for term in claims.claim(name).terms]


@cache
def measured(name):
    trial = claims.trial(name)
    return [trial.measure(point, trial.effect, 0, untouched) for point in trial.points]


def judged(name, predict, *terms):
    """The verdict of a claim's own measurements beside other predictions, on some of its terms (default: all)."""
    claim, trial = claims.claim(name), claims.trial(name)
    claim = replace(claim, terms={term: claim.terms[term] for term in terms or claim.terms})
    return validation.join(claim, trial.points, measured(name), [predict(p) for p in trial.points], trial.effect)


def test_there_are_bounds_with_terms():
    """A new bound belongs here; one of several quantities or regimes names its terms."""
    assert len(BOUNDS) >= 7 and len(TERMS) > 25
    for name in BOUNDS:
        claim, points = claims.claim(name), claims.trial(name).points
        regimes = {tuple(claim.predict(point)) for point in points}
        assert claim.terms or len(regimes) == len(next(iter(regimes))) == 1, f"{name}: name its terms"


@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_holds_and_a_wrong_one_does_not(name):
    """Not tight where the trial says so. The planted defect: wrong formulas, of which one at least shows."""
    claim, loose = claims.claim(name), claims.trial(name).loose
    assert judged(name, claim.predict).verdict == (LOOSE if loose else "held")
    assert "violated" in {judged(name, formula).verdict for formula in claim.formula_defects.values()}


@pytest.mark.parametrize(("name", "term"), TERMS)
def test_a_term_is_a_part_of_the_bound(name, term):
    """Times 1 it is the prediction; less of it is less; it occurs at a quick point."""
    claim, occurs = claims.claim(name), False
    for point in claims.trial(name).points:
        whole, half, none = (claim.terms[term](point, factor) for factor in (1.0, 0.5, 0.0))
        assert whole == pytest.approx(claim.predict(point), rel=1e-12)
        assert all(none[k] <= half[k] <= whole[k] for k in whole)
        occurs |= any(half[k] < whole[k] for k in whole)
    assert occurs


@pytest.mark.parametrize(("name", "term"), TERMS)
def test_a_wrong_coefficient_is_never_held(name, term):
    """Larger: not tight, or undecided where one point is too noisy. Smaller: violated where the term is tight."""
    claim, loose = claims.claim(name), term in claims.trial(name).loose
    for factor in (2.0, 10.0, 100.0):
        found = judged(name, lambda p, f=factor: claim.terms[term](p, f), term)
        assert found.verdict in (LOOSE, "inconclusive"), factor
        assert {t.term for t in found.terms if not t.tight} == {term}
    for factor in (0.5, 0.9):
        found = judged(name, lambda p, f=factor: claim.terms[term](p, f), term)
        assert found.verdict in ((LOOSE, "inconclusive", "violated") if loose else ("violated",)), factor


@pytest.mark.parametrize("name", [name for name in BOUNDS if not claims.claim(name).terms])
def test_a_bound_of_one_term_is_tested_as_a_whole(name):
    claim = claims.claim(name)
    for factor, verdict in ((2.0, LOOSE), (1.06, LOOSE), (1.0, "held"), (0.94, "violated")):
        assert judged(name, lambda p, f=factor: {k: f * v for k, v in claim.predict(p).items()}).verdict == verdict


def test_the_largest_delay_in_place_of_the_mean_is_not_held():
    """Nothing tells them apart, since the term is attained nowhere; the verdict must not claim it."""
    claim = claims.claim("convergence/arbitrary-delay")
    verdict = judged(claim.id, lambda p: claim.predict({**p, "mean": float(p["maximum"])}))
    assert verdict.verdict == LOOSE and "noise of the staleness" in verdict.reason


def test_a_square_of_the_staleness_is_not_held():
    """At staleness 1 it is the same bound; only points beyond know, and none of them is tight."""
    claim = claims.claim("convergence/constant-delay")
    wrong = judged(claim.id, lambda p: claim.terms["noise of staleness above 1"](p, max(1.0, p["staleness"])))
    assert wrong.verdict == LOOSE
    assert {t.term for t in wrong.terms if not t.tight} == {"noise of staleness above 1"}


def test_a_row_certifies_its_own_term_only():
    """Two terms, two points: exact, so each is tight where it is all there is, and nowhere else."""
    claim = Claim(
        "toy/bound", "a + b", "bound", "exact", lambda p: None, lambda p: {"x": p["a"] + p["b"]}, lambda p: {}, "here",
        terms={"a": lambda p, f: {"x": f * p["a"] + p["b"]}, "b": lambda p, f: {"x": p["a"] + f * p["b"]}},
    )  # fmt: skip
    first, second, both = ({"a": a, "b": b} for a, b in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)))

    def verdict(*rows):
        points = [point for point, _ in rows]
        found = [{"x": Estimate(value)} for _, value in rows]
        return validation.join(claim, points, found, [claim.predict(p) for p in points], 0.05)

    assert verdict((first, 1.0)).verdict == "held"
    alone = verdict((first, 1.0), (second, 0.5))
    assert alone.verdict == LOOSE and [t.term for t in alone.terms if t.tight] == ["a"]
    assert alone.terms[1].seen == pytest.approx(0.5, abs=1e-6) and alone.false_pass == 1.0 and alone.measured == 0.5
    assert verdict((first, 1.0), (second, 1.0), (both, 0.7)).verdict == "held"
    # 0.98 of the whole is 0.96 of a term that is half of it.
    half = verdict((both, 1.96))
    assert half.verdict == "held" and {round(t.seen, 6) for t in half.terms} == {0.04}
    assert verdict((both, 1.94)).verdict == LOOSE
    assert verdict((first, 1.0), (second, 1.01)).verdict == "violated"
