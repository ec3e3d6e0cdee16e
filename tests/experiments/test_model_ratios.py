"""Ratios of language models: weights in between are the right ones, and formulas hold where the answer is known."""

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.step import ratios
from experiments import _models, model_ratios

SETTING = {**model_ratios.QUICK[0], "rate": 1e-2}


class Ends(model_ratios.Look):
    """How far log-probs at the remembered weights are from what the sampler recorded, and from the current ones."""

    def observe(self, step):
        super().observe(step)
        behind, *_, start, _ = self.settings
        if step.update >= start:
            for age in (0, behind - 1, behind):
                for name in ("behavior", "current"):
                    gap = self.scored(step, age) - getattr(step, name)["log_prob"]
                    self.note(age, {(name, 0): (gap * step.mask).abs().amax((1, 2, 3))})


def test_the_oldest_weights_drew_the_batch_and_the_newest_are_trained():
    look = Ends(3, (1, 2, 3), (), start=4, window=2)
    trace = sim.run(_models.spec(SETTING, 3, 6, [look, "log_ratio_variance"]), progress=False)
    found = {name: values.max() for name, values in trace.accumulated.items()}
    assert found["3 behavior 0"] < 1e-5 and found["0 current 0"] < 1e-5
    # One version off, either way, is seen.
    assert found["2 behavior 0"] > 1e-3 and found["0 behavior 0"] > 1e-3 and found["3 current 0"] > 1e-3
    np.testing.assert_allclose(trace.accumulated["3 variance 0"], trace["log_ratio_variance"][4:].mean(0), rtol=1e-4)


@pytest.mark.parametrize("drift", [0.0, 1.0])
def test_drift_is_read_off_changes_of_known_correlation(drift):
    made = torch.Generator().manual_seed(1)
    one, many = (torch.randn((n, 1, 4, 2500), generator=made, dtype=torch.float64) for n in (1, 3))
    step = type("Step", (), {"step_mass": torch.full((1, 4, 2500), 1e-4, dtype=torch.float64)})
    assert float(model_ratios.drift(one.expand(3, -1, -1, -1) if drift else many, step)) == pytest.approx(
        drift, abs=0.03
    )


def test_the_tail_of_lognormal_weights_is_as_long_as_predicted():
    draws = torch.randn((4000, 32), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = float(1.0 / (1.0 / ratios.tail_index(0.7 * draws)).mean())
    assert found == pytest.approx(model_ratios.hill(0.49, 32), rel=0.03)
    assert abs(found / model_ratios.hill(0.98, 32) - 1.0) > 0.2


def test_the_largest_twentieth_is_counted_among_generated_tokens():
    squares = torch.arange(1.0, 41.0).sqrt().reshape(1, 1, 4, 10)
    mask = torch.ones_like(squares)
    assert float(model_ratios.largest(squares, mask)) == pytest.approx((40 + 39) / 820)
    mask[..., -1, :] = 0.0
    assert float(model_ratios.largest(squares, mask)) == pytest.approx((30 + 29) / 465)
