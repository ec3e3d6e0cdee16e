"""What notebooks 5 to 8 call: sizes of a batch, weights of scores, gradients of single responses, tables of arms."""

from typing import Any

import numpy as np
import pytest
import torch

import asyncsim as sim
import lessons

MU, PI = lessons.policies(6, 0.5)
ALONE: dict[str, Any] = {"advantage": sim.advantages.offset(0.5), "aggregator": "sequence_sum"}


@pytest.mark.parametrize("size", range(5))
def test_sizes_of_a_large_batch_are_those_of_its_law(size: int) -> None:
    """Of 60,000 responses of 12 tokens, within 3 percent; so near no other of the three distinct values is."""
    name = lessons.SIZES[size]
    shown = lessons.sizes(lessons.responses(MU, PI, 12, (1, 60_000), seed=1), clamp=1.5)[name][0]
    law = lessons.large_batch(MU, PI, 12, clamp=1.5)
    assert abs(shown / law[name] - 1.0) < 0.03
    # A defect it must catch: tokens for responses, or another clamp.
    wrong = {"sequence": law["token"], "clamped": lessons.large_batch(MU, PI, 12, clamp=3.0)["clamped"]}
    assert abs(shown / wrong.get(name, law["sequence"]) - 1.0) > 0.03


def test_a_batch_shows_its_exact_mean_and_micro_batches_more() -> None:
    """Mean of 4,000 batches of 10 responses, cut into parts of 4, 4 and 2: 5 standard errors."""
    logs = lessons.batch(MU, PI, 8, (4000, 10), seed=2)
    for rows, wrong in ((None, 9), (4, None)):
        seen = lessons.micro_batched(logs, rows or 10)
        error = seen.std() / len(seen) ** 0.5
        assert abs(seen.mean() - (lessons.shown_size(MU, PI, 8, 10, rows) or 0.0)) < 5 * error
        # A defect it must catch: whole batches in place of parts.
        assert wrong or abs(seen.mean() - (lessons.shown_size(MU, PI, 8, 10) or 0.0)) > 5 * error
    assert lessons.shown_size(MU, PI, 2000, 10) is None and lessons.shown_size(MU, PI, 2000, 1) == 1.0


def test_a_loss_and_its_method_have_the_same_weights() -> None:
    log = np.random.default_rng(3).normal(0.0, 1.0, (6, 5))
    signs, lengths = np.array([1.0, -1.0, 2.0, -0.5, 1.0, -1.0]), [5, 3, 1, 2, 4, 5]
    method = sim.methods.ppo_clip(0.2, 0.3)

    def loss(now: Any, then: Any, proximal: Any, advantages: Any, mask: Any, high: float = 1.3) -> Any:
        ratio = (now - then).exp()
        return -(torch.min(ratio * advantages, ratio.clamp(0.8, high) * advantages) * mask).sum() / mask.sum()

    ours, theirs = (lessons.score_weights(each, log, signs, lengths) for each in (loss, method))
    assert np.allclose(ours, theirs, atol=1e-12) and (ours[1, 3:] == 0).all() and (ours != 0).any()
    other = lessons.score_weights(lambda *tensors: loss(*tensors, high=3.0), log, signs, lengths)
    assert not np.allclose(other, theirs, atol=1e-3)
    # Averaged over micro-batches a token of a short row weighs more: 15 tokens over 6 parts of one row.
    parts = lessons.score_weights(loss, 0 * log, np.ones(6), lengths, rows=1)[:, 0]
    assert np.allclose(parts * lengths, 20 / 6)


@pytest.mark.parametrize("name", ["full_is", "reinforce", "topr"])
def test_drawn_gradients_have_the_moments_of_the_oracle(name: str) -> None:
    """40,000 responses: the mean within 5 standard errors in each coordinate, and none of it by another policy."""
    task = sim.tasks.token_bandit(actions=3, horizon=3, success=0.6)
    method = getattr(sim.methods, name)(**ALONE)
    drawn = lessons.drawn_gradients(task, method, PI, MU, 40_000, seed=4)
    error = drawn.std(0) / 200.0
    exact = sim.oracle.moments(task, method, np.log(PI), np.log(MU), samples=1)
    assert (np.abs(drawn.mean(0) - exact.mean) < 5 * error).all()
    assert abs(drawn.var(0).sum() / exact.variance - 1.0) < 0.1
    turned = sim.oracle.moments(task, method, np.log(MU), np.log(PI), samples=1)
    assert (np.abs(drawn.mean(0) - turned.mean) > 5 * error).any()


def test_returns_at_rates_are_those_of_runs_at_each() -> None:
    arm = sim.Spec(
        sim.tasks.softmax_bandit(4), sim.schedules.fixed(1), sim.methods.reinforce(), sim.chain(sim.updates.adam(0.1)),
        updates=6, replicates=3, diagnostics=["trained_return"],
    )  # fmt: skip
    found = lessons.returns_at(arm, [0.1, 0.5], 3, seed=5)
    alone = sim.run(arm, seed=5)["trained_return"].mean(0)
    assert found.shape == (2, 3) and np.allclose(found[0], alone) and not np.allclose(found[1], alone)


def test_the_right_winner_is_picked_as_often_as_normal_runs_predict() -> None:
    """Normal arms one and a quarter deviations apart: within 4 standard errors of 1,000 tables, and ties count half."""
    random = np.random.default_rng(6)
    one, other = random.normal(0.0, 1.0, 20_000), random.normal(1.0, 1.0, 20_000)
    for gap in (1.0, 0.25):
        other = one + gap if gap < 1.0 else other
        shares = lessons.right_winners(one, other, [1, 4, 16], seed=7)
        predicted = lessons.normal_winners(one, other, [1, 4, 16])
        assert all(abs(share.value - p) < 4 * share.error for share, p in zip(shares, predicted, strict=True))
        # A defect it must catch: twice as many runs.
        assert abs(shares[1].value - lessons.normal_winners(one, other, [16])[0]) > 4 * shares[1].error
    equal = np.ones(5)
    assert lessons.normal_winners(equal, equal, [1, 9]) == [0.5, 0.5]
    assert [share.value for share in lessons.right_winners(equal, equal, [1, 9], seed=0)] == [0.5, 0.5]
    assert lessons.right_winners(equal, equal - 1.0, [1], seed=0)[0].error > 0.0


def test_the_best_rate_varies_as_much_as_the_runs() -> None:
    """Two rates apart by the standard error of their difference: the better one is best in 0.84 of the resamples."""
    runs = np.tile([-1.0, 1.0], 32)
    found = lessons.best_rates([0.1, 1.0], np.stack([runs, runs + 2**0.5 / 8.0]), seed=3)
    assert abs((found == 1.0).mean() - 0.841) < 4 * (0.841 * 0.159 / 1000) ** 0.5
    assert set(lessons.best_rates([0.1, 1.0], np.stack([runs, runs + 9.0]), seed=3)) == {1.0}


@pytest.mark.parametrize(
    "call",
    [
        lambda: lessons.responses(MU, PI, 0, (1, 1), 0),
        lambda: lessons.responses(MU, PI, 1, (1, 0), 0),
        lambda: lessons.sizes(np.zeros((2, 3)), 2.0),
        lambda: lessons.sizes(np.zeros((1, 2, 3)), 0.5),
        lambda: lessons.large_batch(MU, PI, 10**6, 2.0),
        lambda: lessons.micro_batched(np.zeros((1, 4)), 0),
        lambda: lessons.score_weights(sim.methods.reinforce(), [[0.0]], [1.0, 2.0]),
        lambda: lessons.score_weights(sim.methods.reinforce(), [[0.0]], [1.0], lengths=[1, 1]),
        lambda: lessons.drawn_gradients(sim.tasks.token_bandit(3, 2), sim.methods.full_is(**ALONE), PI, MU, 0, 0),
        lambda: lessons.best_rates([0.1], np.ones((2, 3)), 0),
        lambda: lessons.right_winners([], [1.0], [1], 0),
    ],
)
def test_bad_input_is_named(call: Any) -> None:
    with pytest.raises(sim.InputError):
        call()
