"""The bit chain: its recursion against enumeration, convolutions, closed forms and sampling."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

import asyncsim as sim
from asyncsim.claims._trial import untouched
from asyncsim.claims.lab import overriding
from asyncsim.claims.lab.chains import AFFINITY, BATCHES, SAMPLES
from asyncsim.claims.lab.plants import with_policy
from asyncsim.claims.lab.runs import MeanGradient, displaced, mean_of, run
from asyncsim.tasks._tabular import TabularTask
from tests.refusals import refused

POINT = {"horizon": 40, "behavior_margins": (0.5, 1.3), "current_margins": (0.7, 1.5), "fraction": 0.75}
LONG = {"horizon": 200, "behavior_margins": (-0.4, 0.9), "current_margins": (-0.2, 0.8), "fraction": 0.6}
MARGINS = st.tuples(st.floats(-2.0, 2.0), st.floats(-2.0, 2.0))
REFERENCE = np.linspace(-0.5, 0.5, 14).reshape(7, 2)


def table(horizon, R=3):
    return torch.from_numpy(np.random.default_rng(0).normal(size=(R, 2 * horizon)))


class Chain:
    """A chain of bits, and flat parameters of two policies whose margins go evenly from the first to the last bit."""

    def __init__(self, point, fraction=1.0):
        bits = point["horizon"]
        self.task = sim.tasks.bit_chain(bits, fraction)
        margins = [np.linspace(*point[f"{name}_margins"], bits) for name in ("behavior", "current")]
        self.behavior, self.current = (np.stack([each, np.zeros(bits)], 1).ravel() for each in margins)

    def moment(self, power):
        current, behavior = (torch.from_numpy(place[None]) for place in (self.current, self.behavior))
        return float(self.task.ratio_moment(self.task.policy(), current, behavior, power))

    def exact(self, place):
        value, gradient = self.task.exact(self.task.policy(), torch.from_numpy(place[None]))
        return value.item(), gradient[0].numpy()


def solved(parameters, needed, without=None):
    """P(at least `needed` right bits) of independent bits, one bit after another; a bit may be left out."""
    law = np.ones(1)
    for t, p in enumerate(1.0 / (1.0 + np.exp(-parameters[::2]))):
        law = law if t == without else np.convolve(law, [1.0 - p, p])
    return law[max(needed, 0) :].sum()


@pytest.mark.parametrize(
    "penalty", [{}, {"kl_coef": 0.4}, {"kl_coef": 0.4, "reference": REFERENCE, "kl_at": "current"}]
)
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.75, 1.0])
def test_recursion_equals_enumeration(fraction, penalty):
    """Value and gradient to rounding; one right bit more is seen."""
    task = sim.tasks.bit_chain(7, fraction, **penalty)
    theta = table(7)
    value, gradient = task.exact(task.policy(), theta)
    expected, slope = TabularTask.exact(task, task.policy(), theta)
    torch.testing.assert_close(value, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(gradient, slope, rtol=0, atol=1e-14)
    other = dataclasses.replace(task, fraction=fraction + 1 / 7)
    assert (other.exact(task.policy(), theta)[0] - expected).abs().min() > 1e-3 or fraction == 1.0


def test_recursion_equals_a_convolution_at_two_hundred_bits():
    """dJ/dm_t = p_t (1 - p_t) (P(enough | t right) - P(enough | t wrong))."""
    chain = Chain(LONG, LONG["fraction"])
    gradient, p = chain.exact(chain.current)[1], 1.0 / (1.0 + np.exp(-chain.current[::2]))
    short = [solved(chain.current, 119, t) - solved(chain.current, 120, t) for t in range(200)]
    np.testing.assert_allclose(gradient[::2], p * (1.0 - p) * short, rtol=1e-10)
    np.testing.assert_allclose(gradient[1::2], -gradient[::2], rtol=1e-10)
    assert abs(chain.exact(chain.behavior)[1][0] / gradient[0] - 1.0) > 0.1


def test_equal_bits_are_binomial():
    task = sim.tasks.bit_chain(300, 0.5)
    theta = torch.tensor([0.1, 0.0], dtype=torch.float64).repeat(1, 300)
    p = 1.0 / (1.0 + np.exp(-0.1))
    assert task.exact(task.policy(), theta)[0].item() == pytest.approx(stats.binom.sf(149, 300, p), rel=1e-11)


def test_both_ends():
    """Nothing asked: success for certain and nothing to learn. All asked: a product, however small."""
    theta = table(100, 1)
    nothing, everything = sim.tasks.bit_chain(100, 0.0), sim.tasks.bit_chain(100)
    value, gradient = nothing.exact(nothing.policy(), theta)
    assert value.item() == pytest.approx(1.0, abs=1e-14) and gradient.abs().max() < 1e-14
    value, gradient = everything.exact(everything.policy(), theta)
    right = torch.softmax(theta.reshape(100, 2), -1)[:, 0]
    assert value.item() == pytest.approx(right.prod().item(), rel=1e-12)
    np.testing.assert_allclose(gradient[0, ::2], value.item() * (1.0 - right), rtol=1e-11)


@given(st.integers(1, 40), st.floats(0.0, 1.0), MARGINS, MARGINS)
@example(200, 0.6, (-0.4, 0.9), (-0.2, 0.8))
def test_returns_and_ratio_moments_are_those_of_a_convolution(horizon, fraction, behavior, current):
    """E W^0 = E W^1 = 1 whatever the policies; a bit left out of the product is seen where the policies differ."""
    point = {"horizon": horizon, "behavior_margins": behavior, "current_margins": current}
    chain = Chain(point, fraction)
    for place in (chain.behavior, chain.current):
        assert chain.exact(place)[0] == pytest.approx(solved(place, chain.task.needed), rel=1e-10)
    assert chain.moment(0.0) == pytest.approx(1.0, abs=1e-12) and chain.moment(1.0) == pytest.approx(1.0, abs=1e-12)
    mu, pi = (1.0 / (1.0 + np.exp(-np.linspace(*margins, horizon))) for margins in (behavior, current))
    square, root = (((pi**p * mu ** (1 - p)) + (1 - pi) ** p * (1 - mu) ** (1 - p)).prod() for p in (2.0, 0.5))
    assert chain.moment(2.0) == pytest.approx(square, rel=1e-10)
    assert chain.moment(0.5) == pytest.approx(root, rel=1e-10)
    if horizon > 1 and min(np.abs(np.subtract(behavior, current))) > 0.1:
        assert abs(Chain({**point, "horizon": horizon - 1}).moment(2.0) / square - 1.0) > 1e-9


def scores(plant=untouched):
    """z of sampled means against the product's own recursions: returns, ESS, affinity, and each gradient component."""
    chain = Chain(POINT, POINT["fraction"])
    metrics = ["batch_return", "ess", "chi_square", AFFINITY, MeanGradient()]
    method = sim.methods.full_is(advantage=sim.advantages.offset(0.5))
    places, size = (chain.behavior, chain.current), (SAMPLES, BATCHES, 48)
    trace = run(displaced(chain.task, places, metrics, size, method), 5, plant)
    gradient = trace.accumulated["gradient"]
    expected = chain.exact(chain.current)[1]
    found = {
        "return": (mean_of(trace, "batch_return"), chain.exact(chain.behavior)[0]),
        "second": (mean_of(trace, "chi_square"), chain.moment(2.0) - 1.0),
        "ess": (mean_of(trace, "ess"), 1.0 / chain.moment(2.0)),
        "affinity": (mean_of(trace, "affinity"), chain.moment(0.5)),
    }
    z = {name: (estimate.value - truth) / estimate.error for name, (estimate, truth) in found.items()}
    error = gradient[::2].std(axis=1, ddof=1) / np.sqrt(gradient.shape[1])
    z["gradient"] = np.abs((gradient[::2].mean(axis=1) - expected[::2]) / error).max()
    return z


def test_samples_have_the_moments_of_the_recursions():
    """48 replicates of 6,144 samples: |z| < 6 (t of 47 degrees) for 44 numbers, which a right program exceeds for one
    seed in 10^5; one number for all bits is far outside."""
    assert SAMPLES * BATCHES == 6144
    assert max(map(abs, scores().values())) < 6.0
    one_number = overriding(act=lambda policy, view, seen, draws, token, *more: policy.act(view, seen, draws, 0, *more))
    broken = scores(with_policy(one_number))
    assert abs(broken["return"]) > 20.0 and abs(broken["second"]) > 20.0


@pytest.mark.parametrize("drawing", ["late", "early"])
def test_a_stale_run_with_the_exact_return_beside_it(drawing):
    task, system = sim.tasks.bit_chain(40, 0.6), sim.schedules.fixed(2)
    options = {"updates": 60, "replicates": 8, "diagnostics": ["exact_return", "batch_return"], "drawing": drawing}
    spec = sim.Spec(task, system, sim.methods.truncated_is(cap=2.0), sim.chain(sim.updates.sgd(8.0)), **options)
    trace = sim.run(spec, seed=0)
    assert trace["exact_return"][-1].mean() > trace["exact_return"][0].mean() + 0.2
    other = sim.run(spec.replace(drawing="late"), seed=0)
    np.testing.assert_array_equal(trace.parameters, other.parameters)


def test_long_chains_are_not_enumerated():
    refused(r"actions \*\* horizon", lambda: sim.tasks.bit_chain(24).outcomes(torch.zeros(1, dtype=torch.int64)))


def test_logits_of_another_horizon_are_refused():
    refused(r"shape \[3, 2\]", lambda: sim.tasks.bit_chain(horizon=3, logits=[[0.0, 1.0]]))
