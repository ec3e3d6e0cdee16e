"""Every task through a whole run: what its batches hold, and what a run promises about seeds, blocks and replicates.

All checks are exact but where a network is computed in other shapes (float32). Each has defects beside it that it sees.
"""

from functools import partial

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.diagnostics._diagnostic import Metric
from tests.contracts import broken
from tests.contracts.laboratory import make, names, policy_of

R, G, N, UPDATES = 3, 2, 3, 4

CASES = {name: partial(make, "tasks", name) for name in names("tasks")} | {
    "gym in segments": partial(make, "tasks", "gym", trajectory="segment"),
    "gym with a box": partial(make, "tasks", "gym", id="Pendulum-v1", steps=6),
    "gym with a box in segments": partial(make, "tasks", "gym", id="Pendulum-v1", steps=6, trajectory="segment"),
}
each_task = pytest.mark.parametrize("label", CASES)


def spec_of(task, policy=None, staleness=2, ratio=False, rate=0.1, **changes):
    """A short run. The offset is what moves a policy that has not earned anything yet."""
    policy = policy or policy_of(task)
    advantage = sim.advantages.offset(0.3)
    method = sim.methods.truncated_is("token", advantage=advantage) if ratio else sim.methods.reinforce(advantage)
    if "log_prob" not in policy.outputs:
        method = sim.methods.gradient(at="current")
    settings = {"samples_per_group": N, "updates": UPDATES, "replicates": R, "diagnostics": ["gradient_norm"]}
    system = sim.schedules.fixed(staleness, groups_per_batch=G)
    # A bounded step: some environments pay in tens, and a normal head of no width has no digits left.
    update = sim.chain(sim.updates.clip_norm(1.0), sim.updates.sgd(rate))
    return sim.Spec(task, system, method, update, policy, **settings | changes)


def in_bits(spec):
    """Whether blocks and drawing leave every bit alone: tables and vectors, not networks."""
    return spec.precision == "float64"


def begun(spec, seed=0):
    """Initial parameters `[R, P]`, alike in no two replicates."""
    start = spec.trained_policy.initial(R, torch.float64).numpy()
    return start + 0.1 * np.random.default_rng(seed).normal(size=start.shape)


def identical(first, second):
    np.testing.assert_array_equal(first.parameters, second.parameters, strict=True)
    assert first.metrics
    for name, values in first.metrics.items():
        np.testing.assert_array_equal(values, second.metrics[name], strict=True, err_msg=name)


def alike(first, second, exact):
    """Equal to the bit, or to what another shape of a float32 product leaves after a few updates."""
    if exact:
        identical(first, second)
    assert first.parameters.shape == second.parameters.shape
    np.testing.assert_allclose(first.parameters, second.parameters, rtol=1e-4, atol=1e-6)


# What a batch holds.


def well_formed(spec, staleness=2):
    """Run it, and hold every batch against the contract; the parameters move and stay finite."""
    seen = []

    def look(step):
        batch = step.batch
        check_batch(spec, batch)
        seen.append((batch.train_version, batch.version))
        return step.gradient.norm(dim=1)

    start = begun(spec)
    watched = spec.replace(diagnostics=[Metric("look", look)], initial=start, drawing="late")
    trace = sim.run(watched, seed=1)
    blocks = -(-R // spec.together)
    assert [trained for trained, _ in seen] == [*range(UPDATES)] * blocks
    for trained, version in seen:
        assert (version == max(0, trained - staleness)).all()
    assert (trace.diverged == -1).all() and np.isfinite(trace.parameters).all()
    moved = np.abs(trace.parameters - start.astype(spec.precision)).max(1)
    assert (moved > 1e-6).all(), "a replicate did not learn"


def check_batch(spec, batch):
    task, policy = spec.fitted_task, spec.trained_policy
    B, T = batch.reward.shape[0], task.horizon
    shape = (B, G, N, T)
    assert batch.action.shape[:4] == batch.mask.shape == shape and batch.reward.shape == shape[:3]
    assert batch.state.shape[:4] == ((*shape[:3], 1) if task.still else shape)
    assert (batch.mask[..., 0] == 1).all() and (task.tools or (batch.mask.diff(dim=-1) <= 0).all())
    assert torch.isfinite(batch.reward).all() and not torch.isnan(batch.state.double()).any()
    assert ((batch.mass.broadcast_to(shape[:3]).sum(-1) - 1.0).abs() < 1e-12).all()
    assert batch.trajectory.shape[1:] == (G, N)
    check_behavior(policy, batch, shape)
    if task.pays:
        check_pay(batch, shape)
    else:
        assert batch.token_reward is None and batch.ended is None and batch.finished is None


def check_behavior(policy, batch, shape):
    """What was recorded at the draw is what the behavior weights say."""
    recorded = policy.outputs[0]
    again = policy.forward(batch.view, batch, (recorded,)).outputs[recorded]
    assert batch.behavior[recorded].shape == shape
    spoken = batch.mask > 0
    slack = 1e-12 if policy.precision == "float64" else 1e-5
    torch.testing.assert_close(
        batch.behavior[recorded][spoken].double(), again[spoken].double(), rtol=slack, atol=slack
    )
    if policy.critic:
        assert batch.behavior["value"].shape == batch.behavior["successor_value"].shape == shape


def check_pay(batch, shape):
    """Rewards of tokens, ends and finished returns, all on generated tokens only."""
    spoken = batch.mask > 0
    assert batch.token_reward.shape == batch.ended.shape == batch.finished.shape == shape
    assert (batch.token_reward[~spoken] == 0).all() and not (batch.ended & ~spoken).any()
    torch.testing.assert_close(batch.token_reward.sum(-1), batch.reward)
    assert torch.isfinite(batch.finished[batch.ended]).all()


@pytest.mark.parametrize("staleness", [0, 2])
@each_task
def test_a_run_is_well_formed(label, staleness):
    """Any two of task, staleness and method meet."""
    ratio = ([*CASES].index(label) + staleness // 2) % 2 == 1
    well_formed(spec_of(CASES[label](), staleness=staleness, ratio=ratio), staleness)


# What a run promises.


def reproducible(spec):
    """One seed gives the same bits; another one, and another replicate, other draws from the same start."""
    identical(*(sim.run(spec, seed=1) for _ in range(2)))
    together = spec.replace(initial=begun(spec)[0])
    one, two = (sim.run(together, seed=seed).parameters for seed in (1, 2))
    assert (one != two).any(1).all(), "the seed does nothing"
    assert (one[0] != one[1]).any() and (one[0] != one[2]).any(), "replicates repeat each other"


def free_of_blocks(spec):
    """Replicates one by one are the replicates together."""
    whole, single, again = (sim.run(spec.replace(block=block), seed=1) for block in (R, 1, 1))
    identical(single, again)
    alike(whole, single, in_bits(spec))


def free_of_drawing(spec):
    """Drawn when trained, or when the weights are current."""
    late, early = (sim.run(spec.replace(drawing=when), seed=1) for when in ("late", "early"))
    alike(late, early, in_bits(spec))


def isolated(spec):
    """Other initial parameters of replicate 1 leave the others bit-identical."""
    start = begun(spec)
    moved = start.copy()
    moved[1] = begun(spec, seed=1)[1]
    spec = spec.replace(diagnostics="default")
    one, two = (sim.run(spec.replace(initial=initial), seed=1) for initial in (start, moved))
    assert (one.parameters[1] != two.parameters[1]).any()
    np.testing.assert_array_equal(one.parameters[[0, 2]], two.parameters[[0, 2]])
    for name, values in one.metrics.items():
        np.testing.assert_array_equal(values[:, [0, 2]], two[name][:, [0, 2]], err_msg=name)


@pytest.mark.parametrize("promise", [reproducible, free_of_blocks, isolated], ids=lambda promise: promise.__name__)
@each_task
def test_a_run_keeps_its_promises(label, promise):
    promise(spec_of(CASES[label]()))


@each_task
def test_the_time_of_drawing_does_not_matter(label):
    spec = spec_of(CASES[label](), ratio=True)
    if not spec.task.pays:
        return free_of_drawing(spec)
    with pytest.raises(InputError, match="late for a task that pays by token"):
        sim.run(spec.replace(drawing="early"))


# Defects.


def chain(**wrappers):
    """A run of three tokens from a table, with large steps, its task or policy wrapped."""
    task = sim.tasks.token_bandit(actions=3, horizon=3, dependence="markov", ends=True)
    task, policy = (wrappers.get(kind, lambda x: x)(x) for kind, x in (("task", task), ("policy", task.policy())))
    return spec_of(task, policy, ratio=True, rate=5.0)


def cart(wrapper):
    """A run of carts in segments, its task wrapped."""
    task = CASES["gym in segments"]()
    return spec_of(wrapper(task), policy_of(task))


# What is drawn has the mean that is computed.


def listed(make_task):
    """Whether the task draws rewards whose mean it can compute; the quadratic has a loss only."""
    try:
        task = make_task()
    except pytest.skip.Exception:  # its package is not installed
        return False
    return task.enumerable and "log_prob" in policy_of(task).outputs


ENUMERATED = [label for label, make_task in CASES.items() if listed(make_task)]


def drawn_as_expected(spec):
    """Mean of drawn rewards beside the exact return, over replicates with policies of their own that stand still.

    5 standard errors: false alarms below 1 in 1e6 for each task; a mean that is off by 8 of them is missed as rarely.
    """
    replicates = 256
    start = spec.trained_policy.initial(replicates, torch.float64).numpy()
    start = start + np.random.default_rng(1).normal(size=start.shape)
    still = sim.chain(sim.updates.sgd(0.0))
    settings = {"updates": 2, "replicates": replicates, "samples_per_group": 8, "initial": start}
    trace = sim.run(spec.replace(update=still, diagnostics=["batch_return", "exact_return"], **settings), seed=4)
    gap = (trace["batch_return"] - trace["exact_return"]).mean(0)
    error = gap.std(ddof=1) / np.sqrt(replicates)
    assert abs(gap.mean()) <= 5.0 * error + 1e-9, (
        f"rewards drawn differ from `exact` by {gap.mean():.3g} +- {error:.3g}"
    )


@pytest.mark.parametrize("label", ENUMERATED)
def test_rewards_are_drawn_as_exact_expects(label):
    drawn_as_expected(spec_of(CASES[label](), staleness=0))


DEFECTS = [
    (drawn_as_expected, lambda: chain(task=broken.Flipped)),
    (reproducible, lambda: chain(task=broken.Unkeyed)),
    (reproducible, lambda: cart(broken.UnkeyedStart)),
    (reproducible, lambda: chain(policy=broken.Seedless)),
    (reproducible, lambda: chain(policy=broken.Alone)),
    (free_of_blocks, lambda: chain(policy=broken.Placed)),
    (free_of_blocks, lambda: chain(policy=broken.Centered)),
    (free_of_blocks, lambda: cart(broken.Ranked)),
    (free_of_drawing, lambda: chain(policy=broken.Newest)),
    (isolated, lambda: chain(policy=broken.Centered)),
    (isolated, lambda: cart(broken.Ranked)),
    (well_formed, lambda: chain(policy=broken.Misrecorded)),
    (well_formed, lambda: chain(policy=broken.Unmoved)),
    (well_formed, lambda: chain(task=broken.Shared)),
    (well_formed, lambda: cart(broken.Overpaid)),
]


@pytest.mark.parametrize(("promise", "defective"), DEFECTS, ids=lambda part: getattr(part, "__name__", ""))
def test_a_defect_is_seen(promise, defective):
    # A reward of another shape is refused before a promise is asked.
    with pytest.raises((AssertionError, InputError)):
        promise(defective())


def test_wrapping_alone_breaks_nothing():
    """What the defects are seen by is their defect."""
    for promise in (well_formed, reproducible, free_of_blocks, isolated):
        promise(chain(task=broken.Wrapped, policy=broken.Wrapped))
        promise(cart(broken.Wrapped))
    free_of_drawing(chain(task=broken.Wrapped, policy=broken.Wrapped))
