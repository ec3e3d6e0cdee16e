"""Late rewards: a run equals a plain loop, expectations equal enumeration, and nothing is trained twice.

Everything is compared number by number: there is no rate of false alarms.
"""

import dataclasses
import importlib
import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base import rng
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.methods._method import evaluate
from tests.contracts.laboratory import make, plain_batch
from tests.contracts.test_late_rewards import Told
from tests.core import plain
from tests.core.runs import identical
from tests.refusals import refused

LATE = importlib.import_module("asyncsim.rewards.late").Late
MEANS = np.array([[0.2, 0.9], [0.7, 0.4]])
SIZES = {"groups": 3, "samples": 5, "lag": 1, "rate": 0.8, "batches": 9}
KINDS = {
    "drop": {"share": (0.6, 0.2)},
    "bootstrap": {"share": (0.6, 0.2), "then": "bootstrap"},
    "stand-in": {"share": 0.5, "then": "bootstrap", "stand_in": 0.3},
    "reinject": {"share": (0.3, 0.7), "then": "reinject", "by": 2, "reinjected": 0.6},
}


def spec_of(kind, **changes):
    task = sim.tasks.softmax_bandit(arms=2, means=MEANS)
    system = sim.schedules.fixed(SIZES["lag"], groups_per_batch=SIZES["groups"])
    method = sim.methods.full_is(advantage=sim.advantages.group_mean())
    options = {"samples_per_group": SIZES["samples"], "updates": SIZES["batches"], "replicates": 3}
    rewards = None if kind is None else sim.rewards.late(**(kind if isinstance(kind, dict) else KINDS[kind]))
    return sim.Spec(task, system, method, sim.chain(sim.updates.sgd(SIZES["rate"])), rewards=rewards,
                    **{**options, "diagnostics": "none", **changes})  # fmt: skip


def train(setting, replicate, seed, groups, samples, lag, rate, batches):
    """Full importance sampling on late rewards, as one would write it down: no versions, masses or replicates."""
    task, streams = plain.Bandit(MEANS), [rng.Stream(seed, name) for name in ("rollout", "late")]
    low_high, then, by = np.broadcast_to(setting["share"], 2), setting.get("then", "drop"), setting.get("by", 1)
    history = [task.start.copy()]
    for batch in range(batches):
        theta, trained = history[-1], []
        again = [batch - by] if then == "reinject" and batch >= by else []
        for origin in [batch, *again]:
            old = history[max(origin - lag, 0)]
            mu = np.exp(old) / np.exp(old).sum(1, keepdims=True)
            for group in range(groups):
                members = []
                for i in (origin * groups + group) * samples + np.arange(samples):
                    s = plain.generate(task, streams[0], replicate, i, i // samples, mu)
                    u, v = (streams[1].uniform(replicate, i, 0, draw) for draw in (0, 1))
                    s.late, s.back = u < low_high[int(s.earned > 0.5)], v < setting.get("reinjected", 1.0)
                    members.append(s)
                known = [s for s in members if not s.late or (origin < batch and s.back)]
                if then == "bootstrap" and (known or "stand_in" in setting):
                    guess = setting.get("stand_in", np.mean([s.earned for s in known] or [0.0]))
                    for s in members:
                        s.earned = guess if s.late else s.earned
                    known = members
                chosen = [s for s in known if s.late and s.back] if origin < batch else known
                trained += [(s, s.earned - np.mean([k.earned for k in known])) for s in chosen]
        pi, step = np.exp(theta) / np.exp(theta).sum(1, keepdims=True), np.zeros_like(theta)
        for s, advantage in trained:
            row, arm = s.rows[0], s.actions[0]
            ratio = np.exp(np.log(pi[row, arm]) - s.then[0])
            step[row] += advantage * ratio * (np.eye(2)[arm] - pi[row]) / len(trained)
        history.append(theta + rate * step)
    return history[-1].ravel()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_a_plain_loop(kind, compiled):
    trace = sim.run(spec_of(kind, compiled=compiled), seed=4, progress=False)
    for replicate in range(3):
        np.testing.assert_allclose(trace.parameters[replicate], train(KINDS[kind], replicate, 4, **SIZES), atol=1e-12)
    usual = sim.run(spec_of(None), seed=4, progress=False)
    assert np.abs(trace.parameters - usual.parameters).min() > 1e-4


def wrong(change):
    """`arriving` with something else done to the batch: its masses or rewards, or the number that it is told."""
    right = LATE.arriving
    return lambda self, batch, draws, number: change(right, self, batch, draws, number)


def trained_as_zero(right, self, batch, draws, number):
    found = right(self, batch, draws, number)
    late = found.reward != found.arrivals["earned"]
    return dataclasses.replace(found, reward=torch.where(late, 0.0, found.reward), kept=batch.mass.expand_as(late))


def twice(right, self, batch, draws, number):
    found = right(self, batch, draws, number)
    return dataclasses.replace(found, kept=found.kept * (1.0 + found.arrivals["late"]))


def always_back(right, self, batch, draws, number):
    return right(dataclasses.replace(self, reinjected=1.0), batch, draws, number)


DEFECTS = {
    "late rewards trained as 0": ("drop", trained_as_zero),
    "reinjected twice": ("reinject", twice),
    "all come back": ("reinject", always_back),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_plain_loop_sees_a_defect(defect, monkeypatch):
    kind, change = DEFECTS[defect]
    monkeypatch.setattr(LATE, "arriving", wrong(change))
    trace = sim.run(spec_of(kind), seed=4, progress=False)
    assert np.abs(trace.parameters[0] - train(KINDS[kind], 0, 4, **SIZES)).max() > 1e-3


# Expectations of a bandit of two arms with rewards 0 and 1.

PROBABILITY, PAID = np.array([0.3, 0.7]), np.array([0.8, 0.25])
LOGITS = np.log(PROBABILITY)
SCORE = np.eye(2) - PROBABILITY


def expected(setting, advantage, samples):
    """Mean gradient over all actions, rewards and fates of one group of so many samples, none from earlier batches."""
    rewards, total = sim.rewards.late(**setting), np.zeros(2)
    cells = list(itertools.product(range(2), (0.0, 1.0), (False, True)))
    chance = {}
    for arm, reward, late in cells:
        share = rewards.share[int(reward)]
        paid = PAID[arm] if reward else 1.0 - PAID[arm]
        chance[arm, reward, late] = PROBABILITY[arm] * paid * (share if late else 1.0 - share)
    for group in itertools.product(cells, repeat=samples):
        known = [(arm, reward) for arm, reward, late in group if not late]
        if rewards.then == "bootstrap" and (known or rewards.stand_in is not None):
            guess = np.mean([r for _, r in known]) if rewards.stand_in is None else rewards.stand_in
            known = [(arm, guess if late else reward) for arm, reward, late in group]
        if known:
            base = np.mean([r for _, r in known]) if advantage is None else advantage
            step = np.mean([(r - base) * SCORE[arm] for arm, r in known], axis=0)
            total += np.prod([chance[cell] for cell in group]) * step
    return total


def through_the_product(setting, advantage, samples):
    """The same: every group with every fate is a replicate, put together and weighed by the product."""
    rewards, task = sim.rewards.late(**setting), sim.tasks.softmax_bandit(arms=2, means=[PAID])
    rows = list(itertools.product(range(2), (0.0, 1.0), (False, True)))
    groups = np.array(list(itertools.product(range(8), repeat=samples)))
    arm, reward, late = (torch.tensor([row[k] for row in rows])[groups].unsqueeze(1) for k in range(3))
    reward = reward.double()
    policy, R = task.policy(), len(groups)
    weights = policy.prepare(torch.from_numpy(LOGITS).expand(R, -1))
    fields = {"reward": reward, "behavior": {"log_prob": torch.from_numpy(LOGITS)[arm].unsqueeze(-1)}}
    fields["version"] = np.zeros((1, 1, samples, 1), dtype=np.int32)
    action = arm.unsqueeze(-1)
    batch = rewards.arriving(plain_batch(action, torch.zeros_like(action), **fields), Told(late), 0)
    given = sim.advantages.group_mean() if advantage is None else sim.advantages.offset(advantage)
    step = evaluate(sim.methods.reinforce(given), task, policy, weights, batch)
    paid = np.where(reward[:, 0] > 0, PAID[arm[:, 0]], 1.0 - PAID[arm[:, 0]])
    share = np.where(reward[:, 0] > 0, rewards.share[1], rewards.share[0])
    chance = (PROBABILITY[arm[:, 0]] * paid * np.where(late[:, 0], share, 1.0 - share)).prod(-1)
    assert abs(chance.sum() - 1.0) < 1e-12
    return chance @ step.gradient.numpy()


@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize("advantage", [None, 0.35])
@pytest.mark.parametrize("kind", ["drop", "bootstrap", "stand-in"])
def test_the_mean_gradient_is_that_of_enumeration(kind, advantage, samples):
    setting = KINDS[kind]
    found = through_the_product(setting, advantage, samples)
    np.testing.assert_allclose(found, expected(setting, advantage, samples), atol=1e-14)
    if kind == "drop" and advantage is not None:
        # Whoever is there is a draw from the law of those in time, whatever their number.
        low, high = setting["share"]
        exact = PROBABILITY * (PAID - PROBABILITY @ PAID)
        success = PROBABILITY @ PAID
        missing = success * high + (1.0 - success) * low
        tilted = ((1 - high) * (1 - advantage) + (1 - low) * advantage) / (1.0 - missing) * exact
        np.testing.assert_allclose(found, (1.0 - missing**samples) * tilted, atol=1e-14)


@pytest.mark.parametrize("back", [0.0, 0.6, 1.0])
def test_of_a_population_the_bias_is_linear_in_what_is_not_reinjected(back):
    """Per generated sample (1 - phi (s1 (1 - b) + s0 b)) grad J, exactly; trained is the share 1 - phi s."""
    low, high, offset = 0.5, 0.1, 0.3
    rewards = sim.rewards.late((low, high), "reinject", by=2, reinjected=back)
    gradients, trained = [], []
    watch = Metric("seen", lambda step: (gradients.append(step.gradient), trained.append(step.groups))[0] or
                   step.gradient[:, 0])  # fmt: skip
    spec = sim.Spec(sim.tasks.softmax_bandit(arms=2, means=[PAID]), sim.schedules.fixed(1),
                    sim.methods.reinforce(sim.advantages.offset(offset)), sim.chain(sim.updates.scale(0.0)),
                    updates=5, replicates=1, sampling="enumerate", initial=LOGITS, rewards=rewards,
                    diagnostics=[watch])  # fmt: skip
    sim.run(spec, progress=False)
    success, left = PROBABILITY @ PAID, 1.0 - back
    exact = PROBABILITY * (PAID - success)
    for number, (gradient, part) in enumerate(zip(gradients, trained, strict=True)):
        phi = left if number >= 2 else 1.0
        assert abs(float(part) - (1.0 - phi * (success * high + (1.0 - success) * low))) < 1e-12
        linear = (1.0 - phi * (high * (1.0 - offset) + low * offset)) * exact
        np.testing.assert_allclose(gradient[0].numpy() * float(part), linear, atol=1e-12)


# What is trained, and when.


def watched(seen):
    """A metric that notes who is trained in which update, and how stale."""

    def note(step):
        batch = step.batch
        ids = np.broadcast_to(batch.trajectory[batch.realization], batch.reward.shape)
        kept = (step.mass.expand(batch.reward.shape) > 0).numpy()
        age = batch.staleness[..., 0].expand(batch.reward.shape).numpy()
        seen.extend((r, int(ids[r, g, n]), step.update, int(age[r, g, n])) for r, g, n in np.argwhere(kept))
        return step.mean(batch.reward)

    return Metric("watch", note)


@settings(max_examples=25, deadline=None)
@given(
    share=st.one_of(st.floats(0, 1), st.tuples(st.floats(0, 1), st.floats(0, 1))), by=st.integers(1, 5),
    lag=st.integers(0, 3), groups=st.integers(1, 3), samples=st.integers(1, 4), publish=st.integers(1, 2),
    seed=st.integers(0, 50),
)  # fmt: skip
def test_what_comes_back_is_trained_once_and_counts_its_age(share, by, lag, groups, samples, publish, seed):
    """With all reinjected each sample is trained exactly once, `by` batches later and older if late."""
    batches, seen = 8, []
    system = sim.schedules.fixed(lag, groups_per_batch=groups, batches_per_publish=publish)
    spec = sim.Spec(sim.tasks.softmax_bandit(arms=2, means=[PAID]), system,
                    sim.methods.full_is(advantage=sim.advantages.none()), sim.chain(sim.updates.sgd(0.1)),
                    samples_per_group=samples, updates=batches, replicates=2, diagnostics=[watched(seen)],
                    rewards=sim.rewards.late(share, "reinject", by=by))  # fmt: skip
    sim.run(spec, seed=seed, progress=False)
    times = Counter((r, i) for r, i, _, _ in seen)
    assert set(times.values()) <= {1}
    versions = np.arange(batches) // publish
    for _, i, update, age in seen:
        own = i // (groups * samples)
        assert update in (own, own + by)
        assert age == versions[update] - max(versions[own] - lag, 0)
    for r, i in itertools.product(range(2), range((batches - by) * groups * samples)):
        assert times[r, i] == 1


def test_staleness_metrics_count_what_comes_back():
    names = ["staleness", "staleness_mean", "staleness_head", "staleness_max", "update_staleness", "late_share",
             "lost_share"]  # fmt: skip
    kind = {"share": 0.5, "then": "reinject", "by": 3, "reinjected": 0.5}
    trace = sim.run(spec_of(kind, updates=12, replicates=200, diagnostics=names), seed=1, progress=False)
    late = trace["late_share"]
    assert (late[:3] == 0).all() and 0.2 < np.nanmean(late[3:]) < 0.45
    for name in names[:3]:
        np.testing.assert_allclose(trace[name][4:], (1.0 + 3.0 * late)[4:], atol=1e-12)
    for name in ("staleness_max", "update_staleness"):
        present = late[4:] > 0
        assert (trace[name][4:][present] == 4.0).all() and (
            trace[name][4:][~present & ~np.isnan(late[4:])] == 1.0
        ).all()
    # A quarter is lost: within 5 standard errors, which a right program leaves for one seed in a million.
    n = trace["lost_share"].size * SIZES["groups"] * SIZES["samples"]
    assert abs(trace["lost_share"].mean() - 0.25) < 5.0 * np.sqrt(0.25 * 0.75 / n)


# What does not matter.


def test_without_late_rewards_nothing_changes():
    usual = sim.run(spec_of(None), seed=2, progress=False)
    for then in ("drop", "bootstrap"):
        identical_parameters = sim.run(spec_of({"share": 0.0, "then": then}), seed=2, progress=False).parameters
        np.testing.assert_array_equal(identical_parameters, usual.parameters)
    again = sim.run(spec_of({"share": 0.0, "then": "reinject"}), seed=2, progress=False).parameters
    np.testing.assert_allclose(again, usual.parameters, atol=1e-14)


@pytest.mark.parametrize("kind", ["drop", "reinject"])
def test_blocks_drawing_files_and_checkpoints_do_not_matter(kind, tmp_path):
    options = {"diagnostics": ["late_share", "lost_share", "batch_return"], "replicates": 5}
    spec = spec_of(kind, **options)
    trace = sim.run(spec, seed=6, progress=False)
    identical(trace, sim.run(spec.replace(block=2), seed=6, progress=False))
    identical(trace, sim.run(spec.replace(drawing="early"), seed=6, progress=False))
    spec.save(tmp_path / "spec.json")
    identical(trace, sim.run(sim.Spec.load(tmp_path / "spec.json"), seed=6, progress=False))
    # Stopped behind the fifth batch, resumed.
    path = tmp_path / "run.checkpoint"
    with pytest.raises(RuntimeError, match="enough"):
        sim.run(spec, seed=6, progress=False, checkpoint=path, checkpoint_every="1 updates", callback=stop)
    identical(trace, sim.run(resume=path, progress=False))


def stop(recorded):
    if recorded.update == 5:
        raise RuntimeError("enough")


def test_a_simulated_system_and_minibatches_take_late_rewards():
    system = sim.systems.verl_fully_async(4, staleness_threshold=0.5, length=1.0, load=1.0)
    for then in ("drop", "reinject"):
        spec = sim.Spec(sim.tasks.token_bandit(actions=3, horizon=4), system, sim.methods.grpo(),
                        sim.chain(sim.updates.sgd(0.5)), samples_per_group=4, updates=24, epochs=1, minibatches=2,
                        cut="samples", replicates=4, rewards=sim.rewards.late(0.4, then),
                        diagnostics=["late_share", "staleness", "ess"])  # fmt: skip
        trace = sim.run(spec, progress=False)
        assert np.isfinite(trace.parameters).all() and (trace["late_share"].max() > 0) == (then == "reinject")


def test_language_models_take_late_rewards():
    task, policy = make("tasks", "arithmetic"), make("policies", "causal_lm")
    for kind in ("drop", "bootstrap", "reinject"):
        spec = sim.Spec(task, sim.schedules.fixed(1, groups_per_batch=2), sim.methods.grpo(),
                        sim.chain(sim.updates.sgd(0.1)), policy=policy, samples_per_group=4, updates=4, replicates=1,
                        rewards=sim.rewards.late(**KINDS[kind]), diagnostics=["late_share", "staleness"])  # fmt: skip
        trace = sim.run(spec, progress=False)
        assert np.isfinite(trace.parameters).all() and (trace["late_share"].max() > 0) == (kind != "drop")
        if kind == "reinject":
            np.testing.assert_allclose(trace["staleness"][3], 1.0 + 2.0 * trace["late_share"][3], atol=1e-12)


# What is refused.

REFUSED = [
    (lambda: sim.rewards.late(1.0), "share"),
    (lambda: sim.rewards.late((0.2, 1.2)), "share"),
    (lambda: sim.rewards.late((0.2, 0.1, 0.3)), "share"),
    (lambda: sim.rewards.late(float("nan")), "share"),
    (lambda: sim.rewards.late(0.2, "forget"), "then"),
    (lambda: sim.rewards.late(0.2, by=2), "by"),
    (lambda: sim.rewards.late(0.2, "bootstrap", reinjected=0.5), "reinjected"),
    (lambda: sim.rewards.late(0.2, "reinject", stand_in=0.5), "stand_in"),
    (lambda: sim.rewards.late(1.0, "reinject", reinjected=0.0), "share"),
    (lambda: spec_of({"share": 0.2, "then": "reinject", "by": 9}), "rewards.by"),
    (lambda: spec_of("drop", sampling="counts"), "sampling"),
    (lambda: spec_of("bootstrap", sampling="enumerate"), "rewards.then"),
    (lambda: spec_of("drop", diagnostics=["bias"]), "diagnostics"),
    (lambda: spec_of("drop").replace(rewards=0.2), "rewards"),
    (lambda: spec_of("drop").replace(task=sim.tasks.quadratic((1.0,)), method=sim.methods.gradient()), "rewards"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "field"), REFUSED)
def test_what_makes_no_sense_is_refused_by_name(make, field):
    refusal = refused("", make)
    assert refusal.field == field


def test_a_coupled_system_takes_no_reinjection():
    system = sim.schedules.coupled(sim.systems.synchronous(length=1.0))
    refused(r"rewards.then", lambda: spec_of({"share": 0.2, "then": "reinject"}, replicates=2).replace(system=system))
    spec = spec_of("drop", replicates=2).replace(system=system)
    assert np.isfinite(sim.run(spec, progress=False).parameters).all()
