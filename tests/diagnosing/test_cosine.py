"""What one cosine is worth as an alarm near the noise: both norms of its two gradients, and more than one of them.

A gradient has the signal m in one of P coordinates and noise of energy n^2 in all. With kappa = m^2 sqrt(P)/n^2 fixed
and P large, the cosine and the sum of both squared norms over their means are normal about kappa and 0 with variance
1/P and 2/P. So areas against runs without signal tend to Phi(kappa/sqrt 2) for both, and to Phi(kappa/2) for one norm.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

import asyncsim as sim
from asyncsim.diagnosing.alarms import auc

P, RUNS, KAPPA = 400, 3000, 1.5


def gradients(signal: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosine of the last two gradients and both squared norms of each run, through the loop."""
    task = sim.tasks.quadratic((1.0,) + (1e-9,) * (P - 1), noise=1.0, start=signal)
    sizes = {"samples_per_group": 1, "updates": 2, "replicates": RUNS}
    spec = sim.Spec(task, sim.schedules.fixed(0), sim.methods.gradient(), sim.chain(sim.updates.sgd(1e-9)), **sizes)
    trace = sim.run(spec.replace(diagnostics=["gradient_norm", "gradient_cosine"]), seed=seed, progress=False)
    return trace["gradient_cosine"][1], trace["gradient_norm"] ** 2


@pytest.fixture(scope="module")
def areas() -> dict[str, float]:
    """Areas of three alarms, on the same runs."""
    runs = [gradients(math.sqrt(KAPPA * math.sqrt(P)), 1), gradients(0.0, 2)]
    alarms = {
        "cosine": [cosine for cosine, _ in runs],
        "both norms": [squares.sum(axis=0) for _, squares in runs],
        "one norm": [squares[1] for _, squares in runs],
    }
    return {name: auc(*pair).value for name, pair in alarms.items()}


def test_one_cosine_is_worth_two_norms_and_more_than_one(areas: dict[str, float]) -> None:
    """Standard errors are 0.005 to 0.006, of differences 0.008; terms of order 1/sqrt(P) take 0.02 from the limits.

    At 4.5 errors a right program fails for one seed in 10^5. Planted: one norm for both, whose area is 0.08 lower.
    """
    both, one = norm.cdf(KAPPA / math.sqrt(2.0)), norm.cdf(KAPPA / 2.0)
    equal = 4.5 * 0.008
    assert abs(areas["cosine"] - areas["both norms"]) < equal < areas["cosine"] - areas["one norm"]
    assert abs(areas["cosine"] - both) < 0.02 + 4.5 * 0.005
    assert abs(areas["one norm"] - one) < 0.02 + 4.5 * 0.006
