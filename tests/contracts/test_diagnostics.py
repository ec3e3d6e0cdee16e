"""Every diagnostic is driven to both ends of its range: one that cannot move measures nothing."""

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Step
from tests.contracts import ends
from tests.contracts.laboratory import acting, case, make, names
from tests.contracts.measuring import BACK, FROZEN, NAN, PEAKED, ending, ess_ends, measure, parted, stale, told


def waiting(name, share):
    """The diagnostic where so many rewards are replaced by 0."""
    task, rewards = sim.tasks.softmax_bandit(arms=2), sim.rewards.late(share, "bootstrap", stand_in=0.0)
    spec = sim.Spec(task, sim.schedules.fixed(0), sim.methods.reinforce(), sim.chain(), updates=1, replicates=2,
                    diagnostics=[name], rewards=rewards)  # fmt: skip
    return sim.run(spec, progress=False)[name]


ENDS = {
    "batch_return": lambda n: (measure(n, means=(0.0, 0.0))[0], 0.0, measure(n, means=(1.0, 1.0))[0], 1.0),
    "trained_return": lambda n: (measure(n, start=PEAKED)[0], 0.0, measure(n, start=BACK)[0], 1.0),
    "exact_return": lambda n: (measure(n, start=PEAKED)[0], 0.0, measure(n, start=BACK)[0], 1.0),
    "entropy": lambda n: (measure(n, start=PEAKED)[0], 0.0, measure(n)[0], math.log(2.0)),
    "ess": ess_ends,
    # A sample of a population has no share, an only sample has it all.
    "max_weight_share": lambda n: (
        stale(n, [40.0, 0.0], sampling="enumerate"),
        0.0,
        stale(n, [40.0, 0.0], samples_per_group=1, replicates=12),
        1.0,
    ),
    # Population weights after a move to log odds s: w = 2 sigma(+-s); chi-square -> 1, kl(mu, pi) -> s/2 - log 2.
    "chi_square": lambda n: (measure(n)[0], 0.0, stale(n, [40.0, 0.0], sampling="enumerate"), 1.0),
    "kl": lambda n: (measure(n)[0], 0.0, stale(n, [40.0, 0.0], sampling="enumerate"), 20.0 - math.log(2.0)),
    "log_ratio_mean": lambda n: (stale(n, [40.0, 0.0], sampling="enumerate"), math.log(2.0) - 20.0, measure(n)[0], 0.0),
    "log_ratio_variance": lambda n: (measure(n)[0], 0.0, stale(n, [40.0, 0.0], sampling="enumerate"), 400.0),
    # One sample: its weight is 2 or 0 after the move.
    "mean_weight": lambda n: (
        stale(n, [40.0, 0.0], samples_per_group=1, replicates=12).min(keepdims=True),
        0.0,
        stale(n, [40.0, 0.0], samples_per_group=1, replicates=12).max(keepdims=True),
        2.0,
    ),
    "staleness": lambda n: (measure(n)[0], 0.0, measure(n, system=FROZEN, updates=6)[5], 5.0),
    "gradient_norm": lambda n: (
        measure(n, means=(0.0, 0.0))[0],
        0.0,
        measure(n, means=(8.0, 8.0), samples_per_group=1)[0],
        8.0 / math.sqrt(2.0),
    ),
    "exact_gradient_norm": lambda n: (
        measure(n, start=PEAKED)[0],
        0.0,
        measure(n, means=(0.0, 8.0))[0],
        8.0 * 0.25 * math.sqrt(2.0),
    ),
    # With one sample the gradient points along its arm: with or against the exact gradient.
    "exact_cosine": lambda n: (
        measure(n, means=(0.5, 1.0), samples_per_group=1, replicates=12).min(keepdims=True)[0],
        -1.0,
        measure(n, means=(0.5, 1.0), samples_per_group=1, replicates=12).max(keepdims=True)[0],
        1.0,
    ),
    "gradient_cosine": lambda n: (
        measure(n, means=(0.5, 1.0), samples_per_group=1, replicates=12, updates=2)[1:].min(keepdims=True)[0],
        -1.0,
        measure(n, means=(0.5, 1.0), samples_per_group=1, replicates=12, updates=2)[1:].max(keepdims=True)[0],
        1.0,
    ),
    # Stale data without a ratio: the population gradient is (1, -1)/2, the exact one vanishes.
    "bias": lambda n: (
        measure(n)[0],
        0.0,
        stale(n, [400.0, 0.0], method=sim.methods.reinforce(sim.advantages.none())),
        math.sqrt(0.5),
    ),
    # One sample of a fair coin worth 0 or 1: g = (0, 0) or (-1, 1)/2, so the total variance is 2 (1/4)^2 = 1/8.
    "variance": lambda n: (measure(n, start=PEAKED)[0], 0.0, measure(n, samples_per_group=1)[0], 0.125),
    "tail_index": lambda n: (
        stale(n, [-40.0, 0.0], start=[3.0, 0.0], samples_per_group=40),
        "finite",
        measure(n, samples_per_group=40)[0],
        math.inf,
    ),
    # Each part moves with its own cause and stays where the other one is large.
    "ess_staleness": lambda n: (parted(n, stale=40.0), 0.5, parted(n, rounded=40.0), 1.0),
    "ess_mismatch": lambda n: (parted(n, rounded=40.0), 0.5, parted(n, stale=40.0), 1.0),
    "kl_staleness": lambda n: (parted(n, stale=40.0), -20.0, parted(n, rounded=40.0), 0.0),
    "kl_mismatch": lambda n: (parted(n, rounded=40.0), -20.0, parted(n, stale=40.0), 0.0),
    "staleness_variance": lambda n: (parted(n, rounded=40.0), 0.0, parted(n, stale=40.0), 400.0),
    "mismatch_variance": lambda n: (parted(n, stale=40.0), 0.0, parted(n, rounded=40.0), 400.0),
    "episodes": lambda n: (ending(n, False, NAN), 0.0, ending(n, True, 1.0), 40.0),
    "episode_return": lambda n: (ending(n, True, -3.0), -3.0, ending(n, True, 5.0), 5.0),
    "late_share": lambda n: (waiting(n, 0.0), 0.0, waiting(n, 1.0), 1.0),
    "lost_share": lambda n: (waiting(n, 0.0), 0.0, waiting(n, 1.0), 1.0),
    "autocorrelogram": None,
    "texts": None,
    **ends.ENDS,
}

ELSEWHERE = {"exact_cosine", "gradient_cosine", "ess_mismatch", "late_share", "lost_share", "truncated"}
ELSEWHERE |= {"solved_groups", "unsolved_groups", "mixed_groups"}
"""Bounded metrics of gradients, of a sampler that rounds, of rewards, of ends: log ratios do not move them."""
GATHERED = {"autocorrelogram", "texts"}
"""What is gathered over a run, and is no metric."""


def bounded(name):
    """Whether a metric states a least and a largest value."""
    made = make("diagnostics", name)
    return isinstance(made, Metric) and made.range is not None and np.isfinite(made.range).all()


def driven(metric):
    """Whether the batches move a metric inside its range, up to the upper end of that."""
    (low, high), (least, most) = metric.range, ends.spanned(metric)
    return low - 1e-9 <= least < most - 0.1 and abs(most - high) < 1e-9


def test_every_diagnostic_has_its_ends():
    missing = {name for name in set(ENDS) ^ set(names("diagnostics")) if name in ENDS or not bounded(name)}
    assert not missing, f"write both ends of {missing} into tests/contracts/ends.py"


@pytest.mark.parametrize("name", [n for n in names("diagnostics") if bounded(n) and n not in ELSEWHERE])
def test_a_bounded_metric_is_driven_to_its_upper_end(name):
    assert driven(make("diagnostics", name)), (
        f"write both ends of {name} into tests/contracts/ends.py, or widen `batches`"
    )


def test_a_metric_that_stands_still_or_states_too_much_is_not_driven():
    ess = make("diagnostics", "ess")
    assert driven(ess) and not driven(dataclasses.replace(ess, range=(0.0, 2.0)))
    assert not driven(dataclasses.replace(ess, range=(0.5, 1.0)))
    assert not driven(dataclasses.replace(ess, measure=lambda step: torch.ones(1, dtype=torch.float64)))


@pytest.mark.parametrize("name", [n for n in ENDS if ENDS[n]])
def test_both_ends(name):
    low, least, high, most = ENDS[name](name)
    if least == "finite":
        low, least = torch.nan_to_num(torch.as_tensor(low), posinf=-1.0).numpy(), None
        assert (low > 0).any()
    else:
        np.testing.assert_allclose(low, least, rtol=0, atol=1e-9)
    np.testing.assert_allclose(high, most, rtol=1e-9, atol=1e-9)
    assert np.size(low) and np.size(high)


def test_no_episode_has_no_return():
    """NaN, never 0, and for that replicate alone."""
    assert np.isnan(ending("episode_return", False, NAN)).all()
    ended, finished = torch.zeros((2, 2, 5, 4), dtype=torch.bool), torch.full((2, 2, 5, 4), NAN).double()
    ended[1, 0, 3, 2], finished[1, 0, 3, 2] = True, 7.0
    ended[1, 1, 0, 0], finished[1, 1, 0, 0] = True, 8.0
    assert told("episodes", acting(), ended=ended, finished=finished).tolist() == [0.0, 2.0]
    np.testing.assert_array_equal(told("episode_return", acting(), ended=ended, finished=finished), [NAN, 7.5])


def test_a_trajectory_that_is_paid_at_its_end_is_an_episode():
    assert (measure("episodes") == 4.0).all()
    for mean in (0.0, 1.0):
        assert (measure("episode_return", means=(mean, mean)) == mean).all()


def test_staleness_and_mismatch_together_are_the_ratio():
    """Both parts add up to the log ratio of `log_ratio_variance`; without other numerics the mismatch is exactly 0."""
    assert parted("log_ratio_variance", stale=3.0, rounded=-1.0) == pytest.approx((3.0 - 1.0) ** 2 / 4)
    exact = {"ess_staleness": "ess", "staleness_variance": "log_ratio_variance"}
    for name, whole in exact.items():
        np.testing.assert_array_equal(told(name, case()), told(whole, case()))
        assert (told(whole, case()) != told(whole, case(drift=0.0))).all()
    assert (told("ess_mismatch", case()) == 1.0).all() and (told("mismatch_variance", case()) == 0.0).all()


def test_ess_reaches_one_sample_of_many():
    """A weight on one sample of 512 reads 1/512 in the product's own run."""
    value = stale("ess", [-40.0, 0.0], means=(0.0, 1.0), start=[6.0, 0.0], samples_per_group=512, replicates=40)
    # exp(6): about one sample in 400 is arm 1, and it has all the weight.
    assert value[np.isfinite(value)].min() == pytest.approx(1 / 512)


@pytest.mark.parametrize(
    ("name", "default"), [(n, make("diagnostics", n).default) for n in names("diagnostics") if n not in GATHERED]
)
def test_default_diagnostics_need_no_enumeration(name, default):
    metric = make("diagnostics", name)
    assert isinstance(metric, Metric) and metric.name == name
    assert not (default and metric.enumerates)


def test_default_is_what_the_policy_offers():
    known = {n for n in names("diagnostics") if getattr(make("diagnostics", n), "default", False)}
    run = partial(sim.Spec, updates=1, replicates=2, samples_per_group=2)
    tabular = sim.run(run(sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.reinforce(), sim.chain()))
    assert tabular.metrics.keys() == known
    bare = sim.run(run(sim.tasks.quadratic(), sim.schedules.fixed(0), sim.methods.gradient(), sim.chain()))
    assert bare.metrics.keys() == {n for n in known if not make("diagnostics", n).outputs}
    none = sim.run(
        run(sim.tasks.quadratic(), sim.schedules.fixed(0), sim.methods.gradient(), sim.chain(), diagnostics="none")
    )
    assert none.metrics == {} and none.parameters.shape == (2, 1)


def test_cosine_to_the_update_before():
    """Invalid (NaN, never 0) at the first update and where a gradient vanishes; to the gradient just before."""
    value = measure("gradient_cosine", means=(0.5, 1.0), updates=8, links=[sim.updates.sgd(1.0)])
    assert np.isnan(value[0]).all() and np.isfinite(value[1:]).all()
    assert np.isnan(measure("gradient_cosine", means=(0.0, 0.0), updates=3)).all()


@pytest.mark.parametrize("every", [1, 2, 5])
def test_recording_every_so_many_updates(every):
    """Sparser rows of the same run, the cosine still to the update before."""
    run = partial(measure, "gradient_cosine", means=(0.5, 1.0), updates=11, links=[sim.updates.sgd(1.0)])
    np.testing.assert_array_equal(run(every=every), run(every=1)[::every])


@pytest.mark.parametrize(("signs", "expected"), [([1.0, 1.0], [1.0, 1.0, 1.0]), ([1.0, -1.0], [1.0, -1.0, 1.0])])
def test_autocorrelogram_at_both_ends(signs, expected):
    """Of constant and of alternating gradients."""
    found = sim.diagnostics.autocorrelogram(lags=2, after=3).fresh()
    for update in range(9):
        gradient = signs[update % 2] * torch.tensor([[0.6, 0.8], [3.0, 0.0]], dtype=torch.float64)
        # What came before `after` must not count.
        found.observe(Step(None, None, None, update=update, gradient=gradient if update >= 3 else 100 * gradient))
    result = found.result()["autocorrelogram"]
    np.testing.assert_allclose(result, np.outer(expected, [1.0, 9.0]), rtol=1e-12)


def test_autocorrelogram_of_a_run_is_that_of_its_gradients():
    """Against gradients read off the parameters of runs of every length."""

    def spec(updates):
        return sim.Spec(
            sim.tasks.softmax_bandit(arms=3),
            sim.schedules.fixed(1),
            sim.methods.reinforce(),
            sim.chain(sim.updates.sgd(2.0)),
            updates=updates,
            replicates=3,
            diagnostics=[sim.diagnostics.autocorrelogram(lags=3, after=2)],
        )

    states = [np.zeros((3, 3))] + [
        sim.run(spec(12).replace(updates=u, diagnostics="none")).parameters for u in range(1, 13)
    ]
    g = np.diff(states, axis=0)[2:] / 2.0
    expected = [(g[3:] * g[3 - k : len(g) - k]).sum(-1).mean(0) for k in range(4)]
    found = sim.run(spec(12)).accumulated["autocorrelogram"]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


# Divergence is data.


def test_a_replicate_that_leaves_the_finite_range_is_frozen():
    """Its update is recorded, its metrics are missing from then on, the others go on to the bit."""
    steps = np.array([0.1, 50.0, 0.1])
    options = {"updates": 400, "replicates": 3, "diagnostics": "default"}
    run = partial(
        sim.Spec, sim.tasks.quadratic(noise=0.1, start=1.0), sim.schedules.fixed(0), sim.methods.gradient(), **options
    )
    trace = sim.run(run(update=sim.chain(sim.updates.clip_norm(1e300), sim.updates.sgd(steps))), seed=1)
    calm = sim.run(run(update=sim.chain(sim.updates.clip_norm(1e300), sim.updates.sgd(0.1))), seed=1)
    when = int(trace.diverged[1])
    assert 50 < when < 150 and trace.diverged[[0, 2]].tolist() == [-1, -1]
    assert np.isfinite(trace.parameters).all() and abs(trace.parameters[1, 0]) > 1e140
    assert trace.metrics
    for name, values in trace.metrics.items():
        assert np.isnan(values[when:, 1]).all(), name
        assert np.isfinite(values[1:when, 1]).all(), name
        np.testing.assert_array_equal(values[:, [0, 2]], calm[name][:, [0, 2]], err_msg=name)
    table = trace.table()
    assert (table[table["update"] > when]["replicates"] == 2).all()
    assert trace.split()["sgd.lr=0.1"].final("gradient_norm").samples == 2


def test_variance_of_several_prompts_is_that_of_the_prompt_asked():
    """Group b asks prompt b mod 2; one prompt is certain, the other a fair bet."""
    task = sim.tasks.softmax_bandit(arms=2, means=[[0.0, 0.0], [0.0, 1.0]], rewards="fixed")
    options = {"updates": 4, "replicates": 2, "samples_per_group": 1, "diagnostics": ["variance"]}
    spec = sim.Spec(
        task,
        sim.schedules.fixed(0),
        sim.methods.reinforce(sim.advantages.none()),
        sim.chain(sim.updates.sgd(0.0)),
        **options,
    )
    np.testing.assert_allclose(sim.run(spec)["variance"][:, 0], [0.0, 0.125, 0.0, 0.125], rtol=0, atol=1e-12)


@pytest.mark.parametrize("cut", ["parts", "samples"])
def test_a_minibatch_asks_the_prompt_of_its_batch(cut):
    """Two groups of four ask one prompt of three each; halves of a batch are worth what the prompt is.

    One arm pays 0, 1 or 2 at the prompts, the other nothing: of single samples at even odds |grad| is q/sqrt(8).
    """
    task = sim.tasks.softmax_bandit(arms=2, means=[[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]], rewards="fixed")
    method = sim.methods.reinforce(sim.advantages.none())
    spec = sim.Spec(task, sim.schedules.fixed(0), method, sim.chain(sim.updates.sgd(0.0)), updates=6, replicates=2,
                    samples_per_group=4, minibatches=2, cut=cut, diagnostics=["bias", "variance"])  # fmt: skip
    trace, worth = sim.run(spec, progress=False), np.repeat([0.0, 1.0, 2.0], 2)
    # Own prompt's gradient q/4 (-1, 1) less a third of all prompts', each in its own rows of the table.
    own, others = worth / 4 * (2 / 3), [np.delete([0.0, 1.0, 2.0], q) / 12 for q in (0, 0, 1, 1, 2, 2)]
    expected = np.sqrt(2 * (own**2 + np.square(others).sum(1)))
    np.testing.assert_allclose(trace["bias"][:, 0], expected, rtol=1e-12)
    ratio = trace["variance"][2:, 0] / trace["variance"][2, 0]
    np.testing.assert_allclose(trace["variance"][:2, 0], 0.0, atol=1e-15)
    np.testing.assert_allclose(ratio, [1.0, 1.0, 4.0, 4.0], rtol=1e-12)
