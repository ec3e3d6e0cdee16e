"""The stated error rates are true: repeated measurements against the prediction, as it is and shifted by the effect.

For one sampled claim of each kind, 200 seeded repetitions. Unshifted, the number called violated stays in the binomial
band of the stated false_fail; with the prediction moved by the effect, the number called held stays in the band of the
false_pass that the verdicts themselves attained. Bands at level 1e-6 per comparison (12 comparisons: 1.2e-5 in all).
Deterministic claims have rates of exactly 0: one repetition each way decides.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from asyncsim import theory, trials, validation
from asyncsim.trials._trial import untouched

pytestmark = pytest.mark.long

REPETITIONS = 200
LEVEL = 1e-6
SAMPLED = {
    "identity": "alignment/lag1-closed-form",
    "expectation": "ess/limit",
    "distribution": "systems/geometric",
    "bound": "convergence/constant-delay",
    "exponent": "convergence/bias-slope",
}


def band(rate: float) -> tuple[int, int]:
    """Counts that a rate leaves with probability at most LEVEL."""
    law = stats.binom(REPETITIONS, rate)
    return int(law.ppf(LEVEL / 2)), int(law.isf(LEVEL / 2))


@pytest.mark.parametrize("kind", SAMPLED)
def test_rates(kind: str) -> None:
    claim, trial = theory.claim(SAMPLED[kind]), trials.trial(SAMPLED[kind])
    assert claim.kind == kind
    point = trial.points[0]
    predicted = claim.predict(point)
    # A bound is sensitive to a bound that is lower; everything else is shifted up.
    factor = 1.0 - trial.effect if kind == "bound" else 1.0 + trial.effect
    shifted = {name: factor * value for name, value in predicted.items()}
    violated, passed, stated_fail, stated_pass = 0, 0, [], []
    for repetition in range(REPETITIONS):
        measured = [trial.measure(point, trial.effect, 1000 + 17 * repetition, untouched)]
        true = validation.join(claim, [point], measured, [predicted], trial.effect)
        false = validation.join(claim, [point], measured, [shifted], trial.effect)
        violated += true.verdict == "violated"
        passed += false.verdict == "held"
        stated_fail.append(true.false_fail)
        stated_pass.append(true.false_pass)
    low, high = band(float(np.mean(stated_fail)))
    assert low <= violated <= high, (violated, low, high)
    # A verdict over several quantities is held only if each is, so its rate is at most that of the weakest one.
    assert passed <= band(float(np.mean(stated_pass)))[1], (passed, np.mean(stated_pass))


@pytest.mark.parametrize("name", [n for n in sorted(theory.claims()) if theory.claim(n).kind == "threshold"])
def test_thresholds_are_decided(name: str) -> None:
    claim, trial = theory.claim(name), trials.trial(name)
    point = trial.points[-1]
    measured = [trial.measure(point, trial.effect, 0, untouched)]
    for shift, verdict in ((1.0, "held"), (1.0 + trial.effect, "violated"), (1.0 - trial.effect, "violated")):
        predicted = {k: shift * v for k, v in claim.predict(point).items()}
        assert validation.join(claim, [point], measured, [predicted], trial.effect).verdict == verdict


@pytest.mark.parametrize("replicates", [40])
def test_false_pass_is_sharp_where_the_sample_is_just_large_enough(replicates: int) -> None:
    """A normal mean judged with just enough replicates: the rate of missed shifts lies in the band on both sides."""
    claim = theory.claim("systems/update-on-arrival")
    rng = np.random.default_rng(3)
    from asyncsim import uncertainty

    passed, stated = 0, []
    for _ in range(REPETITIONS * 10):
        sample = uncertainty.between(rng.normal(1.0, 0.0225, replicates))
        row = validation.judge(sample, 1.02, claim.kind, 1.0, 0.02, false_pass=0.999)
        passed += row.verdict == "held"
        stated.append(row.false_pass)
    law = stats.binom(REPETITIONS * 10, float(np.mean(stated)))
    assert law.ppf(1e-6) <= passed <= law.isf(1e-6), (passed, np.mean(stated))
