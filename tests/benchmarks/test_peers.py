"""Every peer does the same work as the product: a speed against a wrong program says nothing."""

import dataclasses

import numpy as np
import pytest

import asyncsim as sim
from benchmarks import bandit, events, peers, scan, sequences

SAMPLES, UPDATES = 3000, 150


@pytest.mark.parametrize("loop", [peers.heap_loop, peers.compiled_loop])
def test_the_heap_agrees_on_every_version(loop):
    assert peers.heap_versions(SAMPLES, loop)[0].tolist() == events.kernel_versions(SAMPLES)[0].tolist()


def test_salabim_agrees_on_every_version():
    pytest.importorskip("salabim")
    assert peers.salabim_versions(SAMPLES)[0] == events.kernel_versions(SAMPLES)[0].tolist()


def test_ciw_agrees_in_law():
    """Different draws: means within 2 percent, quartiles and spread within 5, as 10,000 samples tell."""
    pytest.importorskip("ciw")
    theirs = peers.ciw_staleness(10_000)[0]
    samples = events.SYSTEM.timeline(10_000).samples
    ours = (samples["batch"] - samples["v_start"])[samples["batch"] >= 0]
    assert abs(theirs.mean() / ours.mean() - 1) < 0.02
    assert abs(theirs.std() / ours.std() - 1) < 0.05
    for part in (0.25, 0.5, 0.75):
        assert abs(np.quantile(theirs, part) / np.quantile(ours, part) - 1) < 0.05


@pytest.fixture
def fast(monkeypatch):
    """A learning rate at which staleness and ratios matter, and the mean reward of the product's batches there.

    Means over 150 batches of right programs differ by less than 0.001. Planted, these differ by more than 0.0024: a
    staleness of 7, of 0, no importance weight, no (B / (B - 1)), a uniform policy in the place of pi.
    """
    for module in (bandit, scan):
        monkeypatch.setattr(module, "LR", 1.0)
    scan.program.cache_clear()
    spec = bandit.spec(UPDATES, ["batch_return"])
    yield sim.run(spec, seed=0, progress=False)["batch_return"].mean()
    scan.program.cache_clear()


def test_the_numpy_program_learns_the_same(fast):
    assert abs(bandit.numpy_curve(UPDATES)[0].mean() - fast) < 0.0018


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
def test_the_jax_program_learns_the_same(fast, kind):
    pytest.importorskip("jax")
    assert abs(scan.jax_curve(UPDATES, kind)[0].mean() - fast) < 0.0018


@pytest.mark.parametrize("side", ["numpy", "jax"])
def test_the_programs_of_sequences_learn_the_same(side):
    """Means over 120 batches of right programs differ by less than 0.002; a staleness of 12 gives 0.03 more."""
    if side == "jax":
        pytest.importorskip("jax")
    sizes = (12, 16, 120)
    ours = sequences.our_curve(*sizes, ["batch_return"])[0]["batch_return"].mean()
    theirs = getattr(sequences, f"{side}_curve")(*sizes)[0].mean()
    assert abs(theirs - ours) < 0.004


@pytest.mark.rows
def test_a_language_model_says_the_same_by_both():
    """Where only the likeliest token may be drawn; without that bound both draw several."""
    pytest.importorskip("transformers")
    import torch

    from benchmarks import generation

    assert torch.equal(generation.ours(top_k=1, tokens=6)[0], generation.theirs(sample=False, tokens=6)[0])
    said = [side(tokens=2)[0][:, 0] for side in (generation.ours, generation.theirs)]
    assert all(len(each.unique()) > 1 for each in said)


@pytest.mark.rows
def test_an_update_of_a_language_model_is_the_plain_loops():
    """Adam's first step has the gradient's signs; those near 0 are rounding. Planted: advantages of another order."""
    pytest.importorskip("transformers")
    import torch

    from asyncsim.running.updating import When
    from benchmarks import decoding

    updater, now, batch = decoding.update()
    ids, network, _ = decoding.peer()
    before = torch.cat([weight.detach().reshape(-1) for weight in network.parameters()])
    decoding.plain()
    theirs = torch.cat([weight.detach().reshape(-1) for weight in network.parameters()]) - before
    assert ids.shape == (32, 72) and torch.equal(before, now.parameters[0])

    def alike(given):
        with torch.no_grad():
            ours = updater(now, given, None, When(0, 0))[1].parameters[0] - before
        return float(torch.nn.functional.cosine_similarity(ours, theirs, 0))

    assert alike(batch) > 0.99 > 0.9 > alike(dataclasses.replace(batch, reward=batch.reward.flip(2)))
