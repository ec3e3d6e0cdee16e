"""Claims asked away from their own points: held, refused, or undecided, but never called violated.

False alarm of each sampled claim <= 1e-3 at a fixed seed. The planted defect: a trial that ignores a key of its point.
"""

from __future__ import annotations

from typing import Any

import pytest

from asyncsim import checks, theory, trials, verifying
from asyncsim.trials._trial import untouched

CLAIMS = sorted(theory.claims())
ELSEWHERE: dict[str, list[dict[str, Any]]] = {
    "alignment/lag-identity": [{"staleness": 2, "step": 0.3}],
    "alignment/lag1-closed-form": [{"staleness": 0, "step": 1.2}, {"staleness": 3, "step": 0.25}],
    "convergence/bias-slope": [{"noise": 0.0, "step": 0.1}, {"start": 3.0, "noise": 1.0}],
    "convergence/constant-delay": [{"updates": 7, "start": 2.0}],
    "ess/clamp-floor": [{"clamp": 1.0}, {"clamp": 30.0}],
    "ess/limit": [{"current_logits": (0.0, 0.0, 0.0)}],
    "estimator/full-is": [{"horizon": 2, "success": 0.5}],
    "estimator/optimal-baseline": [{"rewards": (0.0, 0.0, 1.0)}],
    "estimator/truncation-bias": [{"cap": 1.01}],
    "optimum/asymre-projection": [{"offset": 0.05}],
    "ratio/chain-law": [{"horizon": 10, "levels": (-0.3,)}],
    "ratio/chain-moments": [{"horizon": 1}, {"current_margins": (0.6, 1.4)}],
    "ratio/drift-growth": [{"samples": 2, "stalenesses": (1, 3)}, {"means": (0.9, 0.1, 0.9, 0.3), "step": 1e-3}],
    "ratio/markov-moments": [{"horizon": 1}],
    "sequence/gradient": [{"horizon": 12}],
    "sequence/success-probability": [{"fraction": 0.6}, {"horizon": 30}],
    "ratio/gaussian-shift": [{"shift": 0.3}, {"shift": 0.7}],
    "ratio/sequence-product": [{"horizon": 1}],
    "staleness/mean-staleness": [{"workers": 2, "updates": 3}, {"law": "constant:2.0"}],
    "staleness/soft-optimum-step": [{"workers": 3, "kl": 1.5}],
    "staleness/stability-boundary": [{"staleness": 24}, {"curvatures": (7.0,)}],
    "staleness/stale-reinforce-is-delayed-ascent": [{"staleness": 0, "samples": 2}],
    "systems/cap-binds": [{"tickets": 10}, {"release": "dequeue"}, {"zero_train_time": True}, {"tickets": 50}],
    "systems/geometric": [{"workers": 2, "cells": 3}],
    "systems/mean-staleness-identity": [{"load": 4.0, "max_head_offpolicyness": 1}],
    "systems/update-on-arrival": [{"workers": 300}, {"workers": 2, "law": "gamma:1.0:0.3"}],
}
REFUSED = [
    ("systems/update-on-arrival", {"law": "pareto:1.0:1.2"}),
    ("systems/update-on-arrival", {"workers": 1}),
    ("systems/cap-binds", {"tickets": 4}),
    ("systems/geometric", {"cells": 1_000_000}),
    ("alignment/lag1-closed-form", {"step": 0.995}),
    ("ratio/gaussian-shift", {"shift": 3.0}),
    ("ratio/chain-moments", {"current_margins": (2.5, 3.0)}),
    ("ratio/drift-growth", {"step": 0.1}),
    ("ratio/drift-growth", {"means": (0.01, 0.01, 0.01, 0.01)}),
    ("ratio/drift-growth", {"stalenesses": (1, 1000)}),
    ("ratio/markov-moments", {"horizon": 400}),
    ("sequence/success-probability", {"fraction": 1.0}),
    ("sequence/gradient", {"behavior_margins": (-3.0, -3.0)}),
    ("staleness/stability-boundary", {"staleness": 500}),
]


@pytest.mark.parametrize(("name", "at"), [(name, at) for name in ELSEWHERE for at in ELSEWHERE[name]])
def test_a_true_claim_is_not_called_violated_elsewhere(name: str, at: dict[str, Any]) -> None:
    verdict = verifying.verify_one(name, at=at)
    assert verdict.verdict in ("held", "inconclusive"), verdict


def test_every_claim_is_asked_elsewhere() -> None:
    assert set(ELSEWHERE) == set(CLAIMS)


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
    for point in trial.points:
        seen = Read(point)
        trial.measure(seen, 20 * trial.effect, 0, untouched)
        assert seen.asked == set(point), set(point) - seen.asked
