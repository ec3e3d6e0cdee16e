"""Claims asked away from their own points: held, refused, or undecided, but never called violated.

False alarm of each sampled claim <= 1e-3 at a fixed seed. The planted defect: a trial that ignores a key of its point.
"""

from __future__ import annotations

from typing import Any

import pytest

from asyncsim import theory, trials
from asyncsim.app import verifying
from asyncsim.base import checks
from asyncsim.trials._trial import untouched

CLAIMS = sorted(theory.claims())
REFUSED = [(name, at) for name in CLAIMS for at in trials.trial(name).refused]
# The first place of every claim each time, the others in the long check.
PLACES = [
    pytest.param(name, at, marks=[pytest.mark.long] * (i > 0))
    for name in CLAIMS
    for i, at in enumerate(trials.trial(name).elsewhere)
]


@pytest.mark.parametrize(("name", "at"), PLACES)
def test_a_true_claim_is_not_called_violated_elsewhere(name: str, at: dict[str, Any]) -> None:
    verdict = verifying.verify_one(name, at=at)
    assert verdict.verdict in ("held", "holds, not tight", "inconclusive"), verdict


@pytest.mark.parametrize(("name", "at"), REFUSED)
def test_what_a_trial_cannot_measure_is_refused(name: str, at: dict[str, Any]) -> None:
    with pytest.raises(checks.InputError):
        verifying.verify_one(name, at=at)


class Read(dict):
    """A point that remembers which of its keys were asked for."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_trial_reads_every_key_of_its_point(name: str) -> None:
    trial = trials.trial(name)
    # Which keys are read may depend on which there are, and on words among them; not on numbers.
    kinds = {tuple((key, at) if isinstance(at, str) else key for key, at in p.items()): p for p in trial.points}
    for point in kinds.values():
        seen = Read(point)
        trial.measure(seen, 20 * trial.effect, 0, untouched)
        assert seen.asked == set(point), set(point) - seen.asked
