"""Exact claims on estimators: a constant that is two percent off is caught in every quantity, whichever way it is off.

Nothing is sampled, so no rate of error is stated. The planted defect is the constant itself.
"""

import pytest

from asyncsim import claims, validation
from asyncsim.claims._trial import untouched

SAMPLED = ("estimator/delayed-reward-bias",)
EXACT = [name for name in sorted(claims.claims()) if name.startswith("estimator/") and name not in SAMPLED]


@pytest.mark.parametrize("name", EXACT)
def test_a_constant_two_percent_off_is_caught(name: str) -> None:
    claim, trial = claims.claim(name), claims.trial(name)
    for point in trial.points:
        measured, right = trial.measure(point, trial.effect, 0, untouched), claim.predict(point)
        assert validation.join(claim, [point], [measured], [right], trial.effect).verdict == "held"
        for stem in {quantity.partition("[")[0] for quantity in right}:
            for factor in (0.98, 1.02):
                wrong = {q: factor * x if q.partition("[")[0] == stem else x for q, x in right.items()}
                found = validation.join(claim, [point], [measured], [wrong], trial.effect)
                assert found.verdict == "violated", (stem, factor)
