"""TBA's buffer and frontier: draws against enumerated chances, the loop against the package, figures of quick rows."""

import numpy as np
import pytest
import torch
from scipy import stats

import asyncsim as sim
from asyncsim.base.checks import InputError
from experiments import _tba_buffer, tba_steps
from paper_figures import _pipeline
from paper_figures import _tba_steps as tba
from tests.experiments._lab import rows_of

rows = rows_of("tba_steps", quick=True)
REWARDS, AGE = torch.tensor([[[1.0, 0.0, 0.0, 1.0]]], dtype=torch.float64), torch.tensor([[[0, 0, 1, -1]]])
MEANS = torch.tensor([[0.9, 0.1, 0.5]], dtype=torch.float64)
START = torch.tensor([[-1.0, 1.0, 0.0]], dtype=torch.float64)


def test_draws_have_the_enumerated_chances():
    """An empty place is never drawn; draws by reward that were uniform (planted) are refused."""
    stale, fresh = torch.tensor([[False]]), torch.tensor([[True]])
    own = _tba_buffer.Loop(beta=0.1, updates=1, rule="reward", heat=0.5)
    weight = np.array([np.exp(2.0), 1.0, 1.0, 0.0])
    chance = _tba_buffer.chances(REWARDS, AGE, stale, own)
    np.testing.assert_allclose(chance[0, 0], weight / weight.sum())
    np.testing.assert_allclose(_tba_buffer.chances(REWARDS, AGE, fresh, own)[0, 0], [0.5, 0.5, 0.0, 0.0])
    taken = _tba_buffer.pick(chance, 4000, torch.Generator().manual_seed(1))
    counts = np.bincount(taken.flatten(), minlength=4)
    assert counts[3] == 0 and stats.chisquare(counts[:3], 4000 * weight[:3] / weight.sum()).pvalue > 1e-3
    assert stats.chisquare(counts[:3]).pvalue < 1e-6


@pytest.mark.parametrize(
    ("field", "wrong"), [("rule", "best"), ("recent", 1.5), ("heat", 0.0), ("size", 8), ("sync", 0)]
)
def test_a_loop_that_cannot_be_is_refused(field, wrong):
    with pytest.raises(InputError, match=field):
        _tba_buffer.Loop(**{"beta": 0.1, "updates": 1, "stored": 32, field: wrong})


def test_the_loop_trains_as_the_package_does_on_data_one_update_old():
    """A reference that is reset at every update (planted) ends elsewhere."""
    sizes = {"updates": 40, "stored": 512, "size": 512, "sync": 1, "recent": 1.0, "every": 39}
    share = lambda logits: {"good": torch.softmax(logits, -1)[:, 0, 0]}  # noqa: E731
    ends = {}
    for reset in (0, 1):
        own = _tba_buffer.Loop(beta=0.5, reset=reset, **sizes)
        ends[reset] = _tba_buffer.train(MEANS, START, torch.full((128,), 0.1), own, 3, share)["good"][-1]
    made = sim.tasks.softmax_bandit(3, MEANS.numpy(), logits=START.numpy(), reference="start")
    chain, old = sim.chain(sim.updates.adam(0.1)), sim.schedules.fixed(1)
    good = sim.diagnostics._diagnostic.Metric("good", lambda step: torch.softmax(step.parameters, -1)[:, 0])
    spec = sim.Spec(made, old, sim.methods.tba(0.5), chain, samples_per_group=8, updates=40, replicates=128)
    there = sim.run(spec.replace(diagnostics=[good]), seed=5, progress=False)["good"][-1]
    errors = {reset: np.hypot(float(end.std()), float(there.std())) / np.sqrt(128) for reset, end in ends.items()}
    apart = {reset: abs(float(end.mean()) - float(there.mean())) / errors[reset] for reset, end in ends.items()}
    assert apart[0] < 4.0 < 8.0 < apart[1]


def test_no_policy_is_above_the_frontier_and_the_optimum_is_on_it():
    kl, earned, _ = tba.frontier(np.array([0.1]))
    assert tba.best_at(float(kl[0])) == pytest.approx(float(earned[0]), abs=1e-4)
    draw = np.random.default_rng(2)
    known = torch.log_softmax(torch.as_tensor(tba_steps.LOGITS), -1)
    for size in (0.3, 1.0, 3.0):
        own = torch.log_softmax(known + size * torch.as_tensor(draw.standard_normal(known.shape)), -1)
        reach = float(tba_steps.divergence(own[None], known, len(known)))
        assert float((own.exp() * torch.as_tensor(tba_steps.MEANS)).sum(-1).mean()) < tba.best_at(reach)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["tba_frontier", "tba_asynchrony", "tba_buffer"])
def test_quick_rows_are_drawn_and_counted(rows, name):
    assert _pipeline.picture(name, [rows]) is not None
    assert all(isinstance(text, str) for text in _pipeline.numbers(name, [rows], False).values())
