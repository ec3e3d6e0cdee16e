"""What claims on sampler and trainer promise beyond their verdicts: their rules, their regimes, and what they catch."""

import math

import pytest

from asyncsim import claims, validation
from asyncsim.claims._trial import untouched
from tests.theory.drawing import stated

FLOOR, CUT, ADDS, LATE = "ratio/engine-floor", "ratio/top-p", "ratio/mismatch-adds", "estimator/delayed-reward-bias"
CONSTANTS = (FLOOR, CUT, ADDS, *(id for id in claims.claims() if "estimator/" in id))


def predict(name, **changes):
    return claims.claim(name).predict(stated(name) | changes)


@pytest.mark.parametrize("name", [pytest.param(FLOOR, marks=pytest.mark.rows), *CONSTANTS[1:]])
def test_a_constant_that_is_two_percent_off_is_caught(name):
    """In each quantity alone, at a point of the trial; missed with probability at most 0.05, at this seed never.

    What is relative to a norm is off in all components.
    """
    claim, trial = claims.claim(name), claims.trial(name)
    for point in trial.points[-1:] if name in (FLOOR, CUT, ADDS, LATE) else trial.points:
        measured, right = trial.measure(point, trial.effect, 0, untouched), claim.predict(point)
        for stem in {quantity.partition("[")[0] for quantity in right}:
            for factor in (1.0, 1.02, 0.98):
                wrong = {q: factor * x if q.partition("[")[0] == stem else x for q, x in right.items()}
                found = validation.join(claim, [point], [measured], [wrong], trial.effect)
                assert found.verdict == ("held" if factor == 1.0 else "violated"), (stem, factor)


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
def test_the_rule_of_a_floor_holds_in_its_regime(noise):
    """Both rules are off by the terms that the claim states, within a tenth of them."""
    T, shift = 100, (0.02, -0.01, 0.0)
    behavior = (1.0, 0.0, -0.5)
    current = tuple(b + d for b, d in zip(behavior, shift, strict=True))
    found = predict(FLOOR, behavior_logits=behavior, current_logits=current, horizon=T, noise=noise)
    mu, pi = ([math.exp(x) / sum(map(math.exp, row)) for x in row] for row in (behavior, current))
    square = sum(p * p for p in mu)
    q, chi = 1.0 - square, sum(p * p / m for p, m in zip(pi, mu, strict=True)) - 1.0
    error = math.exp(-T * noise**2 * q) / found["ess_0"] - 1.0
    assert error == pytest.approx(0.5 * T * noise**4 * q * (1.0 - q), rel=0.1) and error < 0.002
    error = found["share"] * (1.0 + chi) ** T - 1.0
    third = T * noise**2 * (sum(p * p for p in pi) / (1.0 + chi) - square)
    assert error == pytest.approx(third, rel=0.1) and 0.0 < error < 0.02


def test_the_ess_is_blind_to_what_is_kept():
    """Rows of independent tokens, unchanged weights: every ratio is the product of kept masses, and ESS is N."""
    table = ((2.0, 1.0, 0.0), (0.5, 0.0, -0.5))
    same = {"behavior_logits": table, "current_logits": table, "horizon": 2, "dependence": "position"}
    kept = {}
    for top_k in (1, 2):
        found = predict(CUT, **same, top_p=1.0, top_k=top_k)
        mass = [sum(sorted(math.exp(x) for x in row)[-top_k:]) / sum(map(math.exp, row)) for row in table]
        kept[top_k] = math.prod(mass)
        assert found["mean_weight"] == pytest.approx(kept[top_k], rel=1e-12)
        assert found["kl_mismatch"] == pytest.approx(-math.log(kept[top_k]), rel=1e-12)
        assert found["ess"] == pytest.approx(1.0, rel=1e-12)
    assert kept[1] < 0.5 * kept[2]


def test_a_policy_that_sharpens_to_its_sampler_has_no_ratios():
    """Delta theta = (1/tau - 1) theta: both parts vary, and their sum does not."""
    row = stated(ADDS)["behavior_logits"][:1]
    sharper = {"behavior_logits": row, "current_logits": (tuple(x / 0.8 for x in row[0]),), "dependence": "iid"}
    found = predict(ADDS, **sharper, temperature=0.8, noise=0.0)
    assert found["staleness"] == pytest.approx(found["mismatch"], rel=1e-12) and found["staleness"] > 0.01
    assert abs(found["variance"]) < 1e-15
