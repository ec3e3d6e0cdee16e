"""VCPO over updates: exact returns and divergences, what a mask removes, medians around planted falls, and titles."""

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from experiments import vcpo_prefix as chains
from experiments import vcpo_steps
from paper_figures import vcpo_fall, vcpo_masks
from paper_figures import vcpo_steps as figure
from tests.experiments._lab import rows_of

rows = rows_of("vcpo_steps", quick=True)
SETTING = {"law": "constant", "updates": 16, "seed": 0}


def exact(step):
    return step.task.exact(step.policy, step.parameters)[0]


@pytest.mark.parametrize("task", ["steps", "penalty", "free"])
def test_returns_are_exact(task, monkeypatch):
    check = Metric("check", exact)
    if task == "steps":
        monkeypatch.setattr(vcpo_steps, "RECORDED", [*vcpo_steps.RECORDED, check])
        monkeypatch.setattr(vcpo_steps, "METRICS", {**vcpo_steps.METRICS, "check": "check"})
        found = vcpo_steps.trained(SETTING, vcpo_steps.ARMS["RLOO"], False, (0.1, 0.4))
        value, right, without = found["return"], found["check"], found["accuracy"]
    else:
        monkeypatch.setattr(chains, "METRICS", [*chains.METRICS, check])
        cell = {**chains.CENTER, "ratio": "token", "updates": 10, "replicates": 2, "horizon": 24, "lag": 1, "batch": 16}
        trace = sim.run(chains.spec({**cell, "task": task}), seed=0, progress=False)
        value, right, without = trace["success"] - trace["price"], trace["check"], trace["success"]
    np.testing.assert_allclose(value, right, atol=1e-12)
    # Without its penalty it is another number, where there is one.
    assert (np.abs(without - right)[-1] > 1e-4).all() == (task != "free")


def test_a_geometric_band_removes_all_old_data_and_a_wide_one_nothing():
    narrow = vcpo_steps.trained(SETTING, vcpo_steps.ARMS["MIS, geometric"], False, (0.4, 0.4))["removed"]
    wide = vcpo_steps.trained(SETTING, sim.methods.geometric_rs(0.0, 1e9), False, (0.4, 0.4))["removed"]
    assert narrow[0].max() == 0.0 and np.nanmin(narrow[2:12]) > 0.95
    assert np.nanmax(wide) == 0.0


def test_a_planted_spike_is_found_at_the_fall_and_nowhere_else():
    updates, runs = 120, 16
    fell = np.where(np.arange(runs) < 8, 60, -1)
    norm = np.ones((updates, runs))
    norm[58:63, :8] = 5.0
    found = {"return": np.ones((updates, runs)), "ess": np.ones((updates, runs)), "norm": norm}

    def norms(when):
        aligned = [row for row in vcpo_steps.aligned(found, when) if row["quantity"] == "norm"]
        return {(row["among"], row["update"]): row["value"] for row in aligned}

    medians = norms(fell)
    assert medians["fell", 0] == 5.0 and medians["fell", -20] == 1.0 and medians["others", 0] == 1.0
    # Read too early, the spike is lost.
    assert norms(fell - 12)["fell", 0] == 1.0


def test_figures_of_quick_rows_claim_nothing(rows):
    for made in (figure, vcpo_fall, vcpo_masks):
        assert made.draw(rows) is not None
        assert all(isinstance(text, str) for text in made.numbers(rows).values())
    assert not vcpo_fall.spikes(rows)
