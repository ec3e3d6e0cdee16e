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
    "alignment/sawtooth-cosine": [{"updates": 6, "step": 0.2}, {"updates": 1, "step": 1.0, "curvature": 0.9}],
    "alignment/random-delay-cosine": [{"law": (0.3, 0.7), "step": 0.5}, {"law": (0.0, 0.0, 1.0), "noise": 0.2}],
    "alignment/noise-floor": [{"dimension": 9, "threshold": 0.4}, {"dimension": 60, "threshold": 0.1}],
    "alignment/snr": [{"signal": 3.0}, {"dimension": 2, "samples": 2}, {"noise": 0.3}],
    "alignment/adam-inflation": [
        {"dimension": 1, "signal": 0.6, "strength": 0.9, "reference": "known"},
        {"dimension": 40, "signal": 0.2, "strength": 1.0},
        {"dimension": 2, "signal": 2.0, "strength": 0.3},
    ],
    "alignment/projection-restores-sync-boundary": [
        {"step": 0.995, "others": 1},
        {"step": 2.6, "curvature": 0.5, "staleness": 1},
        {"step": 5.0, "noise": 1e-3, "staleness": 7},
        {"reference": "applied", "staleness": 2, "others": 4},
    ],
    "convergence/bias-slope": [{"noise": 0.0, "step": 0.1}, {"start": 3.0, "noise": 1.0}],
    "convergence/constant-delay": [{"updates": 7, "start": 2.0}],
    "convergence/arbitrary-delay": [{"maximum": 3, "mean": 1.5, "in_flight": 3, "step": 0.2}],
    "convergence/bandit-smoothness": [{"rewards": (3.0, 0.0, 1.0)}],
    "convergence/bandit-noise": [{"samples": 3}, {"rewards": (1.0, 1.0, 1.0)}],
    "ess/clamp-floor": [{"clamp": 1.0}, {"clamp": 30.0}],
    "ess/finite-sample": [{"horizon": 1}, {"samples": 64}, {"samples": 2, "horizon": 20}],
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
    "staleness/heavy-ball": [{"staleness": 12, "momentum": 0.7}, {"curvatures": (7.0,), "momentum": 0.0}],
    "staleness/stale-reinforce-is-delayed-ascent": [{"staleness": 0, "samples": 2}],
    "systems/age-cut-length-bias": [{"max_age": 3}, {"length": "gamma:1.0:2.0", "groups_per_batch": 128}],
    "systems/arrivals-per-update": [{"groups_per_batch": 1}, {"workers": 3, "law": "gamma:1.0:0.5", "cells": 0}],
    "systems/cap-idle": [{"places": 3}, {"places": 96, "groups_per_batch": 12, "length": "gamma:1.0:2.0"}],
    "systems/hard-bounds": [{"rule": "window:7"}, {"rule": "target", "groups_per_batch": 1}, {"rule": "wait:5"}],
    "systems/in-flight": [{"length": "pareto:1.0:2.5"}, {"period": 2.0, "cells": 1}, {"groups_per_batch": 2}],
    "systems/straggler-tail": [{"tickets": 120, "levels": (5,)}, {"samples_per_group": 2, "length": "gamma:1.0:2.0"}],
    "systems/token-staircase": [{"length": "lognormal:1.0:0.5"}, {"period": 3.0}],
    "systems/cap-binds": [{"tickets": 10}, {"release": "dequeue"}, {"zero_train_time": True}, {"tickets": 50}],
    "systems/geometric": [{"workers": 2, "cells": 3}],
    "systems/mean-staleness-identity": [{"load": 4.0, "max_head_offpolicyness": 1}, {"trouble": "slots", "load": 0.3}],
    "systems/asynchronous-throughput": [
        {"length": "constant:2"},
        {"places": 1, "groups_per_batch": 1, "length": "exponential:1", "train_time": 0.2},
        {"batches_per_publish": 3, "generator_pauses": False, "capacity": 128},
    ],
    "systems/closed-loop": [{"tickets": 1}, {"length": "pareto:1:3.0"}, {"places": 40, "tickets": 30}],
    "systems/list-scheduling": [{"slots": 20}, {"length": "lognormal:1.0:1.5", "sync_time": 1.0}],
    "systems/list-scheduling-pool": [{"ahead": 2}, {"slots": 1}, {"slots": 64, "length": "exponential:1"}],
    "systems/little": [{"length": "pareto:1:1.1"}, {"places": 1, "tickets": 4}, {"train_time": 0.0}],
    "systems/open-loop-mean": [{"groups_per_batch": 16, "places": 64, "capacity": 32}, {"train_time": 0.15}],
    "systems/overflow": [
        {"places": 16, "train_time": 4.0},
        {"length": "constant:1"},
        {"samples_per_group": 1, "length": "gamma:1:0.3", "train_time": 2.0},
    ],
    "systems/synchronous-throughput": [
        {"groups_per_batch": 1, "samples_per_group": 1, "train_time": 0.0},
        {"train_time": "exponential:2", "groups_per_batch": 64},
    ],
    "systems/ticket-throughput": [{"release": "dequeue"}, {"tickets": 16}, {"train_time": 0.0}],
    "systems/update-on-arrival": [{"workers": 300}, {"workers": 2, "law": "gamma:1.0:0.3"}],
}
REFUSED = [
    ("systems/update-on-arrival", {"law": "pareto:1.0:1.2"}),
    ("systems/update-on-arrival", {"workers": 1}),
    ("systems/cap-binds", {"tickets": 4}),
    ("systems/cap-binds", {"places": 4, "length": "lognormal:1:0.8", "samples_per_group": 1, "period": 1.0}),
    ("systems/geometric", {"cells": 1_000_000}),
    ("systems/age-cut-length-bias", {"groups_per_batch": 32}),
    ("systems/arrivals-per-update", {"law": "pareto:1.0:1.5", "cells": 0}),
    ("systems/cap-idle", {"length": "lognormal:1.0:0.8"}),
    ("systems/hard-bounds", {"tickets": 4}),
    ("systems/in-flight", {"length": "pareto:1.0:2.0"}),
    ("systems/straggler-tail", {"levels": (3,)}),
    ("systems/straggler-tail", {"levels": (40,)}),
    ("systems/token-staircase", {"length": "lognormal:1.0:1.4"}),
    ("systems/asynchronous-throughput", {"train_time": 0.6}),
    ("systems/closed-loop", {"length": "pareto:1:2.0"}),
    ("systems/open-loop-mean", {"train_time": 0.4}),
    ("systems/overflow", {"places": 15, "train_time": 4.0}),
    ("systems/synchronous-throughput", {"length": "pareto:1:1.5"}),
    ("systems/ticket-throughput", {"tickets": 8}),
    ("alignment/lag1-closed-form", {"step": 0.995}),
    ("alignment/sawtooth-cosine", {"step": 0.49}),
    ("alignment/random-delay-cosine", {"step": 0.6}),
    ("alignment/noise-floor", {"dimension": 64}),
    ("alignment/snr", {"signal": 0.1}),
    ("alignment/adam-inflation", {"signal": 0.05}),
    ("alignment/adam-inflation", {"signal": 20.0}),
    ("alignment/projection-restores-sync-boundary", {"staleness": 40}),
    ("ratio/gaussian-shift", {"shift": 3.0}),
    ("ratio/chain-moments", {"current_margins": (2.5, 3.0)}),
    ("ratio/drift-growth", {"step": 0.1}),
    ("ratio/drift-growth", {"means": (0.01, 0.01, 0.01, 0.01)}),
    ("ratio/drift-growth", {"stalenesses": (1, 1000)}),
    ("ratio/markov-moments", {"horizon": 400}),
    ("ess/finite-sample", {"samples": 4096}),
    ("sequence/success-probability", {"fraction": 1.0}),
    ("sequence/gradient", {"behavior_margins": (-3.0, -3.0)}),
    ("staleness/stability-boundary", {"staleness": 500}),
    ("staleness/heavy-ball", {"staleness": 30, "momentum": 0.95}),
]


# The first place of every claim each time, the others in the long check.
PLACES = [
    pytest.param(name, at, marks=[pytest.mark.long] * (i > 0))
    for name, changes in ELSEWHERE.items() for i, at in enumerate(changes)
]


@pytest.mark.parametrize(("name", "at"), PLACES)
def test_a_true_claim_is_not_called_violated_elsewhere(name: str, at: dict[str, Any]) -> None:
    verdict = verifying.verify_one(name, at=at)
    assert verdict.verdict in ("held", "holds, not tight", "inconclusive"), verdict


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
    # Which keys are read may depend on which there are, and on words among them; not on numbers.
    kinds = {tuple((key, at) if isinstance(at, str) else key for key, at in p.items()): p for p in trial.points}
    for point in kinds.values():
        seen = Read(point)
        trial.measure(seen, 20 * trial.effect, 0, untouched)
        assert seen.asked == set(point), set(point) - seen.asked
