"""AReaL, PipelineRL, rivals of VCPO and GAC: committed rows against what must hold, beside what would not pass."""

import numpy as np
import pytest
import torch

from experiments import _store, pipeline_rl, rivals, roll_flash
from paper_figures import pipeline_rl as figure
from tests.experiments._lab import rows_of

pytestmark = pytest.mark.committed

pipeline = rows_of("pipeline_rl")


def test_every_rival_stands_beside_each_base_at_every_place():
    rows = _store.read("rivals")
    counts = rows.groupby(["task", "law", "base"]).arm.nunique()
    assert (counts == len(rivals.ARMS) + 1).all() and len(counts) == len(rivals.SETTINGS)


def test_no_pool_beats_the_one_that_never_idles():
    rows = _store.read("areal")
    own = rows[rows.part == "speed"]
    assert (own.value > roll_flash.IDEAL * (1 - 1e-3)).all()
    assert (own[own.eta >= 0].value >= roll_flash.TRAINING / own[own.eta >= 0].share * (1 - 1e-3)).all()


@pytest.mark.parametrize("sigma", pipeline_rl.SPREADS)
def test_tokens_are_as_stale_as_predicted(pipeline, sigma):
    """Planted: samples that begin at any phase of a publish, which is half a publish off along nearly all of them."""
    own = pipeline[(pipeline.part == "stairs") & (pipeline.sigma == sigma)].groupby("place").value.mean()
    places = own.index.to_numpy()
    assert np.abs(own.to_numpy() - figure.predicted(sigma, places)).max() < 0.05
    assert np.abs(own.to_numpy() - (pipeline_rl.HEAD - pipeline_rl.PUBLISHES * places)).max() > 0.4


def test_conventional_lags_are_exact_and_no_step_beats_the_pool(pipeline):
    own = pipeline[(pipeline.part == "speed") & (pipeline.steps > 0)]
    assert (own.lag == (own.steps - 1) / 2).all()
    ideal = pipeline_rl.GROUPS * pipeline_rl.SAMPLES / roll_flash.POOL + pipeline_rl.TRAINING
    assert (pipeline[pipeline.part == "speed"].seconds > ideal * (1 - 1e-2)).all()


def test_chosen_rates_lie_inside_the_grid_and_nine_tenths_get_there(pipeline):
    chosen = pipeline[(pipeline.part == "learning") & pipeline.chosen.eq(True)]
    assert len(chosen) == len(pipeline_rl.TASKS) * (len(pipeline_rl.STEPS) + 1)
    assert chosen.rate.between(pipeline_rl.RATES[1], pipeline_rl.RATES[-2]).all() and (chosen.missed <= 0.1).all()


def test_the_return_of_graded_sequences_is_exact():
    """Against the task's own count over all sequences, three tokens long; planted: the last token's chance alone."""
    import asyncsim as sim

    task = sim.tasks.token_bandit(3, 3, "position")
    parameters = torch.randn(2, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    class Step:
        policy = task.policy()

    Step.task, Step.parameters = task, parameters
    exact = task.exact(Step.policy, parameters)[0]
    torch.testing.assert_close(pipeline_rl.expected(Step), exact)
    assert not torch.allclose(torch.softmax(parameters.reshape(2, 3, 3), -1)[:, -1, 0], exact)
