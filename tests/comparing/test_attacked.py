"""Mistakes that a second attack on `compare` found, each with the run that showed it."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.comparing import arms
from asyncsim.comparing.deciding import Question
from asyncsim.comparing.intervals import heavy
from asyncsim.comparing.readings import Reading
from asyncsim.comparing.tuning import set_knob, spread
from asyncsim.diagnosing import alarms
from tests.comparing.test_deciding import bandit
from tests.policies.test_module import Both, cartpole
from tests.refusals import refused

# Arms.

MANY = 1500
"""Numbers of an array whose `repr` leaves its middle out."""


@dataclasses.dataclass(frozen=True)
class Tilted(type(bandit().task)):
    """A user's task that keeps an array."""

    tilt: np.ndarray | torch.Tensor = None


@dataclasses.dataclass(frozen=True)
class Scale(type(sim.updates.sgd(0.1))):
    """A user's link that keeps an array."""

    table: np.ndarray | torch.Tensor = None


def array(change=0.0, kind=np.asarray):
    values = np.zeros(MANY)
    values[MANY // 2] += change
    return kind(values)


def task(*arguments):
    own = bandit().task
    return Tilted(**{f.name: getattr(own, f.name) for f in dataclasses.fields(own)}, tilt=array(*arguments))


def saved(change=0):
    schedule = sim.schedules.fixed(4).schedule(MANY, 1, 16, 1, seed=0)
    version = schedule.version.copy()
    version[:, MANY // 2] -= change
    version[:, MANY // 2 + 1] += change
    return dataclasses.replace(schedule, version=version)


def measured(change=0.0):
    lengths = np.linspace(1.0, 2.0, MANY)
    lengths[[700, 701]] += [change, -change]  # as many values, and the same mean
    return sim.systems.areal(1, 2, length=sim.empirical(lengths), load=1.0)


ARMS = {
    "link": lambda change: {"update": sim.chain(Scale(0.1, array(change)))},
    "tensor": lambda change: {"update": sim.chain(Scale(0.1, array(change, torch.as_tensor)))},
    "saved schedule": lambda change: {"system": saved(int(change))},
    "lengths": lambda change: {"system": measured(change)},
}


@pytest.mark.parametrize("case", ARMS)
def test_arms_that_differ_in_the_middle_of_a_long_array_are_two(case):
    base = bandit()
    arms.named([base.replace(**ARMS[case](0.0)), base.replace(**ARMS[case](1.0))])
    with pytest.raises(InputError, match="different from every other arm"):
        arms.named([base.replace(**ARMS[case](1.0)), base.replace(**ARMS[case](1.0))])


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_tasks_that_differ_in_the_middle_of_a_long_array_do_not_pair(kind):
    one, other, again = (bandit().replace(task=task(change, kind)) for change in (0.0, 1.0, 0.0))
    refused("task of arm b", arms.named, [one, other.replace(system=sim.schedules.fixed(0))])
    arms.named([one, again.replace(system=sim.schedules.fixed(0))])


# Randomness.


@pytest.mark.parametrize(
    "system",
    [
        sim.systems.areal(1, 2, length="exponential:1", load=1.0),
        sim.schedules.random("uniform:0:4"),
        sim.schedules.coupled(sim.systems.areal(1, 2, length=1.0, train_time=1.0)),
    ],
    ids=["events", "random", "coupled"],
)
def test_every_replicate_has_a_schedule_of_its_own_at_every_look(system):
    ending = sim.tasks.token_bandit(actions=4, horizon=6, ends=True)
    spec = bandit(updates=6).replace(task=ending, system=system, block=10)
    seen = set()
    for look in (1, 2):
        trace = sim.run(spread(spec.replace(replicates=24, block=None)), look, progress=False)
        versions = trace.schedule.version[trace.realization].reshape(24, -1)
        assert len(np.unique(trace.realization)) == 24
        seen |= {row.tobytes() for row in versions}
    assert len(seen) > 24


def test_a_pilot_of_a_plan_takes_specs_with_realizations_and_blocks():
    a = bandit(replicates=128, block=128).replace(system=sim.schedules.random("uniform:0:4"), realizations=128)
    plain = bandit().replace(system=a.system)
    other = sim.chain(sim.updates.sgd(0.1))
    plans = [sim.power(one, one.replace(update=other), effect=0.01, pilot=16) for one in (a, plain)]
    assert plans[0].spread == plans[1].spread


def test_a_population_under_a_random_schedule_is_not_exact():
    """Differences that never varied decide nothing unless no chance is left: schedules and the other arm count too."""
    listed = bandit(sampling="enumerate")
    random = listed.replace(system=sim.schedules.random([0.99, 0.01]))
    drawn = bandit()
    told = {}
    for name, (base, other) in {
        "populations": (listed, listed.replace(method=sim.methods.grpo())),
        "random": (random, random.replace(method=sim.methods.grpo())),
        "drawn": (listed, drawn),
    }.items():
        told[name] = Question.exact({"a": base, "b": other})
    assert told == {"populations": True, "random": False, "drawn": False}


# Knobs.

PAIRS = {
    "second link": (lambda: {"update": sim.chain(sim.updates.adam(0.1), sim.updates.adam(0.2))}, "adam2.lr"),
    "advantage": (lambda: {"method": sim.methods.reinforce(sim.advantages.soft_value())}, "advantage.temperature"),
    "made inside": (lambda: {"method": sim.methods.oapl()}, "method.beta"),
    "factor": (
        lambda: {"method": sim.methods.reinforce().replace(factors=(sim.factors.drop_stale(8.0),))},
        "drop_stale.limit",
    ),
    "second factor": (
        lambda: {"method": sim.methods.reinforce().replace(factors=(sim.factors.k2_mask(), sim.factors.k2_mask(3.0)))},
        "k2_mask2.high",
    ),
    "factor of a method": (lambda: {"method": sim.methods.sequence_mis()}, "sequence_mask.low"),
    "advantage of a method": (lambda: {"method": sim.methods.per_decision_is()}, "advantage.discount"),
}


@pytest.mark.parametrize("case", PAIRS)
def test_a_knob_is_set_and_checked_by_its_own_part(case):
    changes, knob = PAIRS[case]
    spec = bandit().replace(**changes())
    tried = set_knob(spec, knob, 0.75, 2)
    assert "0.75" in repr((tried.method, tried.update)) and repr(spec) != repr(tried)
    refused(knob.rpartition(".")[2], set_knob, spec, knob, -1.0, 2)


# Losses.


def truncated(log_prob, behavior_log_prob, advantage):
    ratio = (log_prob - behavior_log_prob).exp().clamp(max=2.0).detach()
    return -ratio * advantage * log_prob


def averaged(log_prob, behavior_log_prob, advantage):
    return truncated(log_prob, behavior_log_prob, advantage).mean()


def masked(log_prob, behavior_log_prob, advantage, mask):
    return (truncated(log_prob, behavior_log_prob, advantage) * mask).sum() / mask.sum()


def groups(method, **changes):
    """Four groups a batch of a task whose groups are often all right or all wrong."""
    chain = sim.tasks.bit_chain(horizon=3, fraction=0.75)
    system = sim.systems.synchronous(4)
    return bandit(updates=6, samples_per_group=3, replicates=8, **changes).replace(
        task=chain, system=system, method=method
    )


@pytest.mark.parametrize("loss", [averaged, masked])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_average_of_its_own_is_over_the_groups_that_are_left(loss, dtype):
    dropping = {"drop_equal": True}
    own = groups(sim.methods.from_loss(loss).replace(**dropping), dtype=dtype)
    token = groups(sim.methods.from_loss(truncated, aggregator="token_mean").replace(**dropping), dtype=dtype)
    one, other = (sim.run(spec, seed=0, progress=False) for spec in (own, token))
    assert (one["gradient_norm"] > 0).any()
    tolerance = 1e-9 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(one["gradient_norm"], other["gradient_norm"], rtol=tolerance, atol=1e-7)


def test_losses_of_float32_networks_are_those_of_float64():
    policy = sim.policies.mlp(4, 2, hidden=(8,), critic=False, normalize=False)

    def aged(log_prob, behavior_log_prob, proximal_log_prob, advantage, mask, staleness):
        drift = (log_prob - proximal_log_prob).clamp(-1.0, 1.0)
        return (truncated(log_prob, behavior_log_prob, advantage) / (1.0 + staleness) - 0.1 * drift) * mask

    for loss in (averaged, aged):
        spec = cartpole(policy).replace(method=sim.methods.from_loss(loss))
        wide, narrow = (sim.run(spec.replace(dtype=kind), seed=0) for kind in ("float64", "float32"))
        np.testing.assert_allclose(wide["gradient_norm"][0], narrow["gradient_norm"][0], rtol=1e-3)


@pytest.mark.parametrize("sampling", ["counts", "enumerate"])
def test_a_loss_by_token_is_averaged_by_mass(sampling):
    kinds = [sim.methods.from_loss(truncated, sim.advantages.group_mean(), "sequence_sum"), None]
    kinds[1] = sim.methods.truncated_is("token", 2.0, advantage=sim.advantages.group_mean()).replace(
        aggregator="sequence_sum"
    )
    ours, theirs = (sim.run(bandit(sampling=sampling, replicates=4).replace(method=kind), seed=0) for kind in kinds)
    np.testing.assert_allclose(ours["gradient_norm"], theirs["gradient_norm"], rtol=1e-9)


# Modules.


class Scaled(nn.Module):
    """A module with a buffer, as normalizers have."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.full((4,), 0.5))
        self.last = nn.Linear(4, 2)

    def forward(self, seen):
        return self.last(seen * self.scale) + (self.scale @ seen.mT)[:, None]


def test_buffers_have_the_precision_of_the_parameters():
    policy = sim.policies.module(Scaled, 4, 2)
    runs = [sim.run(cartpole(policy, dtype=kind, updates=2), seed=0) for kind in ("float64", "float32")]
    np.testing.assert_allclose(*(run["gradient_norm"] for run in runs), rtol=1e-3)


def test_a_module_that_is_trained_later_is_as_it_was():
    network = nn.Linear(4, 2)
    policy = sim.policies.module(network, 4, 2)
    before = policy.initial(1)
    with torch.no_grad():
        network.weight.add_(1.0)
    assert torch.equal(policy.initial(1), before)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["reinforce", "a2c"])
def test_micro_batches_and_mixed_versions_give_one_gradient(name, dtype):
    policy = sim.policies.module(Both, observation=4, actions=2, critic=True)
    system = sim.systems.areal(2, 1, 3, length="lognormal:8:1", load=1.5)
    spec = cartpole(policy, dtype=dtype, updates=5).replace(
        system=system, method=getattr(sim.methods, name)(), samples_per_group=4
    )
    whole = sim.run(spec, seed=1)
    assert (np.ptp(whole.schedule.version, axis=-1) > 0).any()
    for pieces in (2, 4):
        parts = sim.run(spec.replace(micro_batches=pieces), seed=1)
        tolerance = 1e-9 if dtype == "float64" else 1e-3
        np.testing.assert_allclose(parts["gradient_norm"], whole["gradient_norm"], rtol=tolerance)


def test_a_gradient_at_behavior_weights_is_that_of_the_built_in_network():
    """No output is asked for at other weights than the current ones; the pullback finds its own."""
    built_in = sim.policies.mlp(4, 2, hidden=(), critic=False, normalize=False)
    own = sim.policies.module(lambda: nn.Linear(4, 2), observation=4, actions=2)
    start = np.random.default_rng(0).normal(size=(3, 10)) * 0.3
    turned = np.concatenate([start[:, :8].reshape(3, 2, 4).transpose(0, 2, 1).reshape(3, 8), start[:, 8:]], axis=1)
    method = sim.methods.reinforce().replace(at="behavior", constants={"entropy": 0.01})
    runs = [
        sim.run(cartpole(policy, initial=initial, micro_batches=pieces).replace(method=method), seed=1)
        for policy, initial, pieces in ((own, start, 1), (own, start, 3), (built_in, turned, 1))
    ]
    for other in runs[1:]:
        np.testing.assert_allclose(runs[0]["gradient_norm"], other["gradient_norm"], rtol=1e-9)


# Readings.


def test_a_tail_is_heavy_where_a_run_has_left_the_finite_range():
    assert heavy(np.array([0.0] * 31 + [1e200])) and not heavy(np.zeros(32))


def traced(curve, every=1):
    trace = sim.run(bandit(replicates=curve.shape[1], updates=every * len(curve), every=every), seed=0, progress=False)
    return dataclasses.replace(trace, metrics={"batch_return": curve})


@pytest.mark.parametrize("every", [1, 7])
def test_a_target_is_not_reached_before_the_metric_has_a_value(every):
    nan = np.nan
    curve = np.array([[nan, 0.0, nan], [nan, 0.2, 0.1], [0.9, nan, 0.3], [0.1, 0.9, nan]])
    told = Reading("batch_return", "time", 0.8).numbers(traced(curve, every))
    assert told.tolist() == [2.0 * every, 3.0 * every, 4.0 * every]


def test_a_collapse_is_told_of_a_replicate_by_itself():
    curve = np.array([[0.0, 0.0], [1.0, 100.0], [0.1, 100.0]])
    together = Reading("batch_return", "collapse").numbers(traced(curve))
    alone = Reading("batch_return", "collapse").numbers(traced(curve[:, :1]))
    assert alone.tolist() == [1.0] and together.tolist() == [1.0, 0.0]


def test_a_fall_counts_however_deep_it_is():
    """Start -5, maximum -0.6: with the end in the scale, a fall to -3e5 would make the gain too small to be lost."""
    ends = [-0.6, -2.0, -3.0, -40.0, -3e5]
    rose = np.array([[-5.0] * 5, [-0.6] * 5, ends])
    assert Reading("batch_return", "collapse").numbers(traced(rose)).tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
    # A replicate that never gained has collapsed if it ends below its start by more than half of its size.
    sank = np.array([[0.5, 0.5, -5.0, -5.0, 0.0], [0.5, 0.5, -5.0, -5.0, 0.0], [0.26, 0.24, -7.4, -7.6, 0.0]])
    assert Reading("batch_return", "collapse").numbers(traced(sank)).tolist() == [0.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("depth", [1.0, 10.0, 1e3, 1e5])
def test_predict_and_compare_count_the_same_collapses(depth):
    draw = np.random.default_rng(0)
    curve = -5.0 + 4.4 * np.minimum(np.arange(200)[:, None] / 50.0, 1.0) + 0.05 * draw.normal(size=(200, 32))
    curve[120:, ::2] -= 4.0 * depth
    found = alarms.course(curve, -5.0, 0.0, window=10).collapsed >= 0
    assert found.tolist() == [True, False] * 16
    assert Reading("batch_return", "collapse").numbers(traced(curve)).tolist() == found.tolist()
