"""Every claim is well formed, holds at the quick size, and falls with each of its defects."""

import pytest

from asyncsim import claims
from asyncsim.app import verifying
from asyncsim.base import checks
from asyncsim.base.records import Estimate, Verdict
from asyncsim.claims._trial import untouched
from tests.claims import places

CLAIMS = sorted(claims.claims())


@pytest.mark.parametrize("name", CLAIMS)
def test_trial_is_well_formed(name: str) -> None:
    claim, trial = claims.claim(name), claims.trial(name)
    exact = claim.kind in ("identity", "expectation")
    assert trial.defects and claim.formula_defects
    assert trial.effect <= (0.02 if exact else 0.05)
    assert places.ELSEWHERE.get(name), f"{name}: tests/claims/places.py names a place at which it must hold"
    for point in (*trial.points, *trial.more, *(d.point for d in trial.defects.values())):
        assert claim.domain(point) is None


def test_eight_claims_run_through_the_loop_and_four_through_the_kernel() -> None:
    through = [claims.trial(name).through for name in CLAIMS]
    assert sum("loop" in t for t in through) >= 8 and sum("kernel" in t for t in through) >= 4


@pytest.mark.parametrize("name", CLAIMS)
def test_claim_holds_and_every_defect_flips_it(name: str) -> None:
    """False fail of each claim <= 1e-3 (fixed seed); false pass <= 0.05 against the trial's effect."""
    verdict = verifying.verify_one(name, defects=True)
    loose = claims.trial(name).loose
    assert verdict.verdict == ("holds, not tight" if loose else "held"), verdict
    assert {term.term for term in verdict.terms if not term.tight} == loose
    assert verdict.false_fail <= 1e-3
    assert all(term.false_pass <= 0.05 for term in verdict.terms if term.tight)
    assert verdict.false_pass <= 0.05 or loose
    assert {d["verdict"] for d in verdict.defects} == {"violated"}
    assert {d["verdict"] for d in verdict.formula_defects} == {"violated"}
    if verdict.status == "exact" and verdict.kind in ("identity", "expectation", "distribution", "threshold"):
        assert sees_two_percent(verdict)


def sees_two_percent(verdict: Verdict) -> bool:
    """Whether all predictions times 1.02 are violated somewhere, and so are those times 0.98."""
    rows = [row for row in verdict.points if row.predicted and row.verdict != "outside"]
    return all(any(not row.low <= by * row.predicted <= row.high for row in rows) for by in (0.98, 1.02))


@pytest.mark.parametrize("name", CLAIMS)
def test_trial_measures_what_the_claim_predicts(name: str) -> None:
    claim, trial = claims.claim(name), claims.trial(name)
    point = trial.points[0]
    measured = trial.measure(point, 10 * trial.effect, 1, untouched)
    assert set(claim.predict(point)) <= set(measured)
    assert all(isinstance(e, Estimate) for e in measured.values())


def test_a_point_outside_the_domain_is_refused_by_name() -> None:
    with pytest.raises(checks.InputError, match="staleness"):
        verifying.verify_one("staleness/stability-boundary", at={"staleness": -1})
    with pytest.raises(checks.InputError, match="parameter"):
        verifying.verify_one("staleness/stability-boundary", at={"nope": 1})


def test_one_random_realization_is_refused_where_a_verdict_is_asked() -> None:
    import numpy as np

    from asyncsim import validation
    from asyncsim.base import uncertainty

    shared = uncertainty.between(np.arange(8.0), np.zeros(8, dtype=int), random=True)
    with pytest.raises(checks.InputError, match="realizations"):
        validation.judge(shared, 1.0, "expectation", 1.0, 0.02)
