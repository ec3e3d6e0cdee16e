"""M2PO over updates: GPPO's weights, moments after the mask, tokens by kind; figures of quick rows."""

import numpy as np
import pandas as pd
import pytest
import torch

import asyncsim as sim
from experiments import m2po, m2po_steps
from paper_figures import _m2po_steps as steps
from paper_figures import m2po_clipped, m2po_divergence, m2po_methods, m2po_staleness, m2po_tokens
from paper_figures import m2po_steps as drawn
from tests.experiments._lab import rows_of

rows = rows_of("m2po_steps", quick=True)
SHORT = {"task": "chain", "rates": [0.2, 0.4], **m2po_steps._FEW, "updates": 60, "every": 3, "replicates": 4}


def test_gppo_bounds_what_a_clip_closes_and_nothing_else():
    """CISPO with the same band (planted) also bounds tokens on their way back."""
    log_ratio = torch.log(torch.tensor([[0.5, 0.9, 1.1, 2.0], [0.5, 0.9, 1.1, 2.0]], dtype=torch.float64))
    behavior = torch.full_like(log_ratio, -3.0)
    signs = torch.tensor([1.0, -1.0])

    def weights(method):
        return method.weigh(behavior + log_ratio, behavior, advantages=signs).score_weight.reshape(2, 4).abs()

    right = [[0.5, 0.9, 1.1, 1.2], [0.8, 0.9, 1.1, 2.0]]
    np.testing.assert_allclose(weights(m2po_steps.ARMS["gppo"]), right)
    both = weights(sim.methods.cispo(0.2, 0.2, advantage=m2po.GAIN))
    assert not np.allclose(both, right) and np.allclose(both.amax(), 1.2)


@pytest.mark.parametrize(("arm", "inside"), [("m2po", True), ("none", False)])
def test_the_second_moment_after_the_mask_is_inside_the_bound_and_divergence_inside_the_papers(arm, inside):
    """Without a mask (planted) it leaves the bound."""
    trace = sim.run(m2po_steps.spec({**SHORT, "staleness": 16, "arm": arm}), seed=1, progress=False)
    moment = trace["kept_squares"] / np.maximum(trace["kept"], 1e-12)
    assert (moment.max() <= m2po.TAU + 1e-9) == inside
    assert (trace["chi"] <= trace["bound"] * (1 + 1e-9)).all() and (trace["kept"] <= trace["harmful"] + 1e-12).all()


def test_tokens_are_counted_by_kind_and_records_in_whole_batches():
    zero = np.zeros((8, 3))
    own = {metric.name: zero for metric in m2po_steps.TOKENS}
    own |= {"masked": zero + 0.03, "fork_clipped": zero + 0.02, "fork_all": zero + 0.25}
    found = pd.DataFrame(m2po_steps.by_token(own, {"every": 3, "middle": [6, 18]})).set_index(["over", "at"]).value
    assert found["kind", 1.0] == pytest.approx(0.08) and found["kind", 0.0] == pytest.approx(0.01 / 0.75)
    np.testing.assert_allclose(m2po_steps.windows(np.arange(9.0)[:, None]), [[1.5], [5.5]])
    assert all(s["every"] % 2 and m2po.PARTS == m2po_steps.WINDOW for s in m2po_steps.SETTINGS + m2po_steps.QUICK)


def test_the_best_synchronous_rate_is_the_least_that_is_as_good(rows):
    made = rows[(rows.arm == "fresh") & (rows.quantity == "return") & (rows.over == "run")].copy()
    made["value"] = 0.9 - 0.004 * (made.rate != 0.1) - 0.1 * (made.rate < 0.05)
    assert steps.usual(made) == 0.05


def test_figures_draw_the_rows(rows):
    figure, rate = drawn.draw(rows), steps.usual(rows)
    right = steps.curve(rows, "clip", "return", rate)
    lines = [line for line in figure.axes[0].lines if line.get_color() == steps.LOOKS["clip"]["color"]]
    np.testing.assert_allclose(lines[0].get_ydata(), right.value)
    for module in (drawn, m2po_methods, m2po_staleness, m2po_tokens):
        assert module.draw(rows).axes and module.numbers(rows)
    assert m2po_clipped.draw(rows).axes and m2po_divergence.draw(rows).axes
