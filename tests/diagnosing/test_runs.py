"""Telemetry of the product's own runs: real policy gradients on real staleness, read without knowing the run."""

import numpy as np
import pytest

import asyncsim as sim

COLUMNS = {
    "ess_token": "ess",
    "chi_square_token": "chi_square",
    "token_ratio_mean": "ratio_mean",
    "gradient_cosine": "gradient_cosine",
    "update_staleness": "staleness_max",
    "kl": "kl_k3",
}
"""Metrics of a run and the names under which they are diagnosed; sequences have one token."""


def logs(schedule, policy=None, *, rate=0.2, replicates=40, updates=120):
    """A table for every replicate of a softmax bandit."""
    task = sim.tasks.softmax_bandit(arms=5)
    spec = sim.Spec(
        task, schedule, sim.methods.reinforce(), sim.chain(sim.updates.sgd(rate)),
        policy=None if policy is None else task.policy(**policy), samples_per_group=64, updates=updates,
        replicates=replicates, diagnostics=list(COLUMNS),
    )  # fmt: skip
    trace = sim.run(spec, seed=7, progress=False)
    tables = []
    for r in range(replicates):
        table = {"step": list(range(updates))}
        for metric, name in COLUMNS.items():
            table[name] = [None if np.isnan(x) else float(x) for x in trace[metric][:, r]]
        # All samples of a step have one staleness here.
        tables.append(table | {"staleness_min": table["staleness_max"]})
    return tables


@pytest.mark.parametrize("schedule", [sim.schedules.fixed(0), sim.schedules.fixed(3), sim.schedules.sawtooth(4)])
def test_runs_without_a_fault_are_left_alone(schedule):
    """40 replicates each at level 0.002: one that differs has probability 0.08, two 0.003."""
    causes = [sim.diagnose(table, batch=64).causes for table in logs(schedule)]
    assert sum(bool(each) for each in causes) <= 1, causes


@pytest.mark.parametrize(
    ("policy", "cause"), [({"temperature": 0.6}, "engine mismatch"), ({"top_p": 0.7}, "wrong log-probs")]
)
def test_another_sampler_is_seen_on_fresh_data(policy, cause):
    found = [sim.diagnose(table, batch=64).causes for table in logs(sim.schedules.fixed(0), policy, replicates=4)]
    assert all(cause in causes for causes in found), found


def test_workers_that_update_on_arrival_have_their_distribution():
    """Exponential workers are geometric; constant times in rotation are constant."""
    for service, cause in (("exponential:1", "geometric staleness"), ("constant:1", "constant staleness")):
        system = sim.systems.update_on_arrival(workers=5, service=service)
        staleness = np.arange(2000) - system.schedule(2000, 1, 1, 1, seed=3).version.reshape(2000)
        log = {"step": range(2000), "staleness_min": staleness, "staleness_max": staleness}
        assert sim.diagnose(log).findings[0].cause == cause
