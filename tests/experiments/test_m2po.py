"""M2PO rebuilt: its rule against the clip on equal batches, sums of the experiment, figures that show the rows."""

import numpy as np
import pandas as pd
import pytest
import torch

import asyncsim as sim
from experiments import m2po
from paper_figures import m2po_masked
from tests.experiments._lab import rows_of

rows = rows_of("m2po")


def closed(method, log_ratio, advantage):
    """Tokens that a method masks in one batch `[N, T]`."""
    behavior = torch.full_like(log_ratio, -50.0)
    return method.weigh(behavior + log_ratio, behavior, advantages=advantage).score_weight == 0


def batches(count=60):
    """Log ratios of many widths and tails, and advantages that are never 0."""
    draw = np.random.default_rng(3)
    for _ in range(count):
        width = 10.0 ** draw.uniform(-2, 0.5)
        log_ratio = torch.as_tensor(width * draw.standard_t(draw.choice([1.5, 3.0, 30.0]), (8, 6))).clamp(-20, 20)
        yield log_ratio, torch.as_tensor(draw.choice([-1.0, 1.0], 8))


def test_on_one_batch_m2po_masks_no_token_nearer_than_the_root_of_tau():
    """Sorted squares have rising means, so whatever is dropped exceeds tau, and so does the level of the release. At
    tau = 0.01 (planted) tokens nearer than 0.2 are masked. The release masks whatever the paper's rule does."""
    near = far = released = 0
    for log_ratio, advantage in batches():
        paper, code = (closed(m2po.METHODS[name], log_ratio, advantage) for name in ("m2po", "release"))
        harmful = advantage[:, None] * log_ratio > 0
        for mask in (paper, code):
            assert not (mask & (~harmful | (log_ratio.abs() <= m2po.TAU**0.5))).any()
        assert not (paper & ~code).any()
        released += int((code & ~paper).sum())
        near += int((closed(sim.methods.m2po_mask(0.01), log_ratio, advantage) & (log_ratio.abs() <= 0.2)).sum())
        clip = closed(m2po.METHODS["clip"], log_ratio, advantage)
        far += int((clip & ~paper).sum())
        # Beyond 0.2 both ends of the clip but (0.8, exp(-0.2)) are closed.
        assert (
            not (paper & ~clip & (log_ratio < np.log(1 - m2po.CLIP))).any()
            and not (paper & ~clip & (log_ratio > 0)).any()
        )
    assert near > 0 and far > 0 and released > 0


def test_no_trust_region_masks_nothing():
    for log_ratio, advantage in batches(20):
        assert not closed(m2po.METHODS["none"], log_ratio, advantage).any()


@pytest.mark.parametrize("task", m2po.TASKS)
def test_sums_over_a_step_are_those_of_its_tokens(task):
    setting = {**m2po.QUICK[-1], "task": task, "staleness": 4, "updates": 12, "every": 3}
    trace = sim.run(m2po.spec(setting, "clip", 0.4, replicates=3), seed=5, progress=False)
    found = {name: trace[name] for name in trace.metrics}
    assert (found["masked"] <= found["harmful"] + 1e-12).all() and found["masked"].max() > 0
    most = np.log(m2po.TASKS[task].actions)
    assert (found["masked_entropy"] <= most * found["masked"] + 1e-12).all()
    assert (found["far"] >= found["masked"] - 1e-12).all()
    assert ((found["entropy"] > 0) & (found["entropy"] <= most + 1e-12)).all()
    assert ((found["policy_return"] >= 0) & (found["policy_return"] <= 1)).all()


def test_a_record_meets_every_minibatch():
    """With a record every 4 updates only first minibatches would be seen, where nothing is masked at staleness 0."""
    assert all(setting["every"] % 2 for setting in m2po.SETTINGS + m2po.QUICK)


@pytest.mark.committed
def test_rates_of_comparisons_are_inside_their_grids(rows):
    own = rows[rows.part == "compare"]
    assert set(own.task) == set(m2po.TASKS) and len(set(own.task)) >= 2
    assert (own.rate > 0).all() and set(own.word[own.quantity == "difference"]) <= {
        "better", "worse", "equal", "undecided"
    }  # fmt: skip


@pytest.mark.committed
def test_the_figure_of_masked_shares_has_the_rows(rows):
    (ax,) = m2po_masked.draw(rows).axes
    own = rows[(rows.part == "grid") & (rows.staleness == 256) & (rows.quantity == "masked")]
    for box, task in zip(ax.containers, m2po.TASKS, strict=True):
        masked, clip = (own[(own.task == task) & (own.arm == arm)].set_index("rate").value for arm in ("m2po", "clip"))
        right = (masked / clip[clip > 0]).dropna().sort_index()
        np.testing.assert_allclose(box[0].get_xdata().astype(float), right.index)
        np.testing.assert_allclose(box[0].get_ydata().astype(float), right)


def test_a_share_is_read_at_the_rate_of_the_clip():
    made = [
        {
            "part": "grid",
            "task": "forks",
            "staleness": 256,
            "arm": arm,
            "rate": rate,
            "quantity": "masked",
            "value": value,
        }
        for arm, values in {"clip": (0.0, 0.01, 0.03), "m2po": (0.0, 0.002, 0.006)}.items()
        for rate, value in zip((0.001, 0.01, 0.1), values, strict=True)
    ]
    assert m2po_masked.arms.beside(pd.DataFrame(made), "forks", 0.02, "m2po") == pytest.approx(0.004)
    assert np.isnan(m2po_masked.arms.beside(pd.DataFrame(made), "forks", 0.2, "m2po"))
