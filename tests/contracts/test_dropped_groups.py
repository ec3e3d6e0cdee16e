"""A group that the method drops does not exist: for any metric, any link, and anything a weight reports.

Exact: the step with the group is compared with the batch that never had it, for everything that is discovered. The
planted defect counts masses of the batch in place of those that are left, as ESS once did.
"""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Step
from asyncsim.updates._link import Record
from tests.contracts.laboratory import case, make, names

# Two groups alone have the 25 samples that a fitted tail takes.
G, N, T = 4, 14, 3
METRICS = [n for n in names("diagnostics") if isinstance(make("diagnostics", n), Metric)]
MADE = {n: make("diagnostics", n) for n in METRICS}
PLAIN = [n for n in METRICS if not MADE[n].enumerates and set(MADE[n].outputs) <= {"log_prob"}]
OF_STEP = [n for n in PLAIN if MADE[n].subject == "step"]
METHODS = {
    "dapo": sim.methods.dapo(),
    "dual": sim.methods.ppo_clip(dual=1.2, advantage=sim.advantages.mean()).replace(drop_equal=True),
    "m2po": sim.methods.m2po_mask(advantage=sim.advantages.offset(0.4)).replace(drop_equal=True),
    "masked": sim.methods.truncated_is("token", advantage=sim.advantages.mean()).replace(
        drop_equal=True, factors=(sim.factors.token_mask(0.7, 1.4),)
    ),
}


def trial_with(dropped, seed, drift=0.7):
    """One replicate whose groups have several versions; rewards of the `dropped` are equal, those of the others not."""
    trial = case(seed, R=1, G=G, N=N, T=T, drift=drift)
    random = np.random.default_rng(seed)
    version = random.integers(1, 4, (1, G, N, T)).astype(np.int32)
    # The oldest data of all lies in the groups that are dropped.
    version[0, sorted(dropped), :, 0] = 0
    trial.batch.version = version
    rounded = 0.3 * torch.from_numpy(random.standard_normal((1, G, N, T)))
    trial.batch.behavior["scored_log_prob"] = trial.batch.behavior["log_prob"] + rounded
    # As if some tokens had been sampled with old cache entries.
    trial.batch.behavior["reread_log_prob"] = trial.batch.behavior["scored_log_prob"]
    trial.batch.behavior["stale_cache"] = (rounded > 0).to(rounded.dtype)
    trial.batch.arrivals = {"late": torch.from_numpy(random.integers(0, 2, (1, G, N)).astype(float))}
    for g in range(G):
        trial.batch.reward[:, g] = 1.0
        if g not in dropped:
            trial.batch.reward[:, g, : 2 + g] = 0.0
    return trial


def without(batch, dropped):
    """The batch that never had the groups."""
    rows = [g for g in range(G) if g not in dropped]
    moved = {name: getattr(batch, name)[:, rows] for name in ("action", "state", "mask", "reward", "mass")}
    behavior = {name: x[:, rows] for name, x in batch.behavior.items()}
    moved["arrivals"] = {name: x[:, rows] for name, x in batch.arrivals.items()}
    return {**moved, "behavior": behavior, "version": batch.version[:, rows], "trajectory": batch.trajectory[:, rows]}


def step_of(trial, method, **changes):
    """The step of a trial's batch, two updates after its version was published."""
    step, gradient = trial.evaluate(method, **changes)
    step.update, step.updates_per_version, step.elapsed = 1, 3, 2
    step.parameters, step.previous = trial.new, torch.ones_like(gradient)
    return step


def same(found, expected, what, atol=1e-12):
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=atol, err_msg=str(what))


LINKS = 1e-9
"""Of steps of links: Adam divides by root + 1e-8, which makes as much of the rounding of a gradient that is 0."""


DROPPED = st.sets(st.integers(0, G - 1), min_size=1, max_size=G - 1)


@pytest.mark.parametrize("label", METHODS)
@settings(max_examples=12, deadline=None)
@given(dropped=DROPPED, seed=st.integers(0, 1000))
def test_no_metric_and_no_link_sees_a_dropped_group(label, dropped, seed):
    method, trial = METHODS[label], trial_with(dropped, seed)
    whole, rest = step_of(trial, method), step_of(trial, method, **without(trial.batch, dropped))
    agree(whole, rest, [name for name in PLAIN if MADE[name].subject != "batch"])


def agree(whole, rest, metrics):
    """Two steps have one gradient, one report, one value of each metric and one effect on every link."""
    same(whole.gradient, rest.gradient, "gradient")
    for name in metrics:
        same(MADE[name].at(whole), MADE[name].at(rest), name)
    for name, value in rest.reported.items():
        same(whole.reported[name], value, name)
    for name in names("updates"):
        one, other = (applied(name, step) for step in (whole, rest))
        assert one.keys() == other.keys()
        for key, value in other.items():
            same(one[key], value, (name, key), LINKS)


def applied(name, step):
    """Direction, skips, statistics and states of a link, its second update in a row."""
    link = make("updates", name)
    chain = sim.chain(link).numbered(np.arange(len(step.gradient)))
    states = chain.init(step.parameters)
    for _ in range(2):
        record = Record(step.gradient, torch.zeros(len(step.gradient), dtype=torch.bool), step)
        record, states = chain.apply(record, states)
    return {"direction": record.direction, "skip": record.skip, **record.statistics, **states[0]}


def test_what_is_of_the_batch_is_named_and_counts_all():
    """Rewards decide which groups are dropped, so the mean reward of the rest would be that of a selection."""
    named = {n for n in METRICS if MADE[n].subject == "batch"}
    answers = {"response_length", "truncated", "solved_groups", "unsolved_groups", "mixed_groups"}
    assert named == {"batch_return", "episodes", "episode_return", "lost_share", "turns"} | answers
    trial, method = trial_with({1}, 3), METHODS["dapo"]
    for name in named:
        both = (MADE[name].at(step_of(trial, m)) for m in (method, method.replace(drop_equal=False)))
        same(*both, name)
    reward = trial.batch.reward
    assert reward.mean() != reward[:, [0, 2, 3]].mean()


def test_replicates_drop_groups_of_their_own():
    """Two replicates that drop different groups read what each reads alone."""
    trials = [trial_with(dropped, 5 + k) for k, dropped in enumerate(({0}, {1, 3}))]
    method, joined = METHODS["dapo"], dataclasses.replace(trials[0])
    joined.old, joined.new = (torch.cat([getattr(t, name) for t in trials]) for name in ("old", "new"))
    one = dataclasses.replace(trials[0].batch)
    for name in ("action", "state", "mask", "reward"):
        setattr(one, name, torch.cat([getattr(t.batch, name) for t in trials]))
    one.behavior = {name: torch.cat([t.batch.behavior[name] for t in trials]) for name in one.behavior}
    one.arrivals = {name: torch.cat([t.batch.arrivals[name] for t in trials]) for name in one.arrivals}
    one.version = np.concatenate([t.batch.version for t in trials])
    one.trajectory, one.realization = np.repeat(one.trajectory, 2, 0), np.arange(2)
    joined.batch = one
    together, alone = step_of(joined, method), [step_of(t, method) for t in trials]
    for name in PLAIN:
        same(MADE[name].at(together), torch.cat([MADE[name].at(step) for step in alone]), name)


def test_a_step_without_groups_has_no_statistics():
    """Missing, never a number; links brake as hard as they may, and nothing becomes NaN in the direction."""
    trial = trial_with(set(range(G)), 2)
    step = step_of(trial, METHODS["masked"])
    assert bool(step.empty.all()) and (step.gradient == 0).all()
    for name in PLAIN:
        missing = MADE[name].subject == "step" or name == "gradient_cosine"
        assert torch.isnan(MADE[name].at(step)).all() == missing, name
    assert step.reported and all(torch.isnan(x).all() for x in step.reported.values())
    for name in names("updates"):
        assert torch.isfinite(applied(name, step)["direction"]).all(), name
    assert applied("ess_step", step)["ess_step_broken"].item() == 1.0
    assert applied("ess_step", step)["ess_step_scale"].item() == 0.1
    assert applied("lr_by_lag", step)["largest"].item() == 0.0


def test_a_run_records_what_a_step_says():
    """Through the recorder: a replicate without groups is missing, the other is not."""
    task = sim.tasks.softmax_bandit(arms=2, means=[0.0, 1.0], rewards="fixed")
    start = torch.tensor([[0.0, 60.0], [0.0, 0.0]])
    spec = sim.Spec(task, sim.schedules.fixed(0), sim.methods.dapo(), sim.chain(sim.updates.ess_step()),
                    samples_per_group=8, replicates=2, updates=1, initial=start,
                    diagnostics=["ess", "staleness", "batch_return", "gradient_norm", "kl"])  # fmt: skip
    trace = sim.run(spec, seed=1, progress=False)
    for name in ("ess", "staleness", "kl"):
        assert np.isnan(trace[name][0, 0]) and np.isfinite(trace[name][0, 1]), name
    assert trace["batch_return"][0, 0] == 1.0 and trace["gradient_norm"][0].tolist()[0] == 0.0


@pytest.fixture(scope="module")
def apart():
    """How far each metric of the step is from its value without the dropped groups: as it is, and with the defect."""
    trials = [trial_with({1, 2}, seed) for seed in range(4)]

    def found():
        pairs = [(step_of(t, m), step_of(t, m, **without(t.batch, {1, 2}))) for t in trials for m in METHODS.values()]
        return {n: max(torch.nan_to_num(MADE[n].at(a) - MADE[n].at(b)).abs().item() for a, b in pairs) for n in OF_STEP}

    with pytest.MonkeyPatch.context() as planted:
        right = found()
        planted.setattr(Step, "mass", property(lambda self: self.batch.mass))
        planted.setattr(Step, "groups", property(lambda self: self.batch.groups))
        return right, found()


@pytest.mark.parametrize("name", OF_STEP)
def test_a_metric_of_the_step_may_not_read_masses_of_the_batch(name, apart):
    """The planted defect: dropped groups keep their mass. Whatever differs between groups must show it somewhere."""
    right, planted = apart
    assert right[name] < 1e-9
    assert planted[name] > 1e-6, name
