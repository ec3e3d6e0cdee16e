"""What notebooks 6 and 8 call: the number by which a loss or a method multiplies the score of each token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim.base import checks


def score_weights(
    loss: Any, log_ratios: Any, advantages: Any, lengths: Any = None, rows: int | None = None
) -> np.ndarray:
    """Weights of grad log pi in the ascent direction, times the number of tokens: `[row, token]`.

    Arguments: `loss`, a `Method`, or fn(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask) as of
    `sim.conformance.adapters`, asked by autograd; `log_ratios` pi / mu `[row, token]` in nats; `advantages` `[row]`;
    `lengths`, tokens of each row (default: all); `rows` of a micro-batch, over which a loss is averaged. It is the
    first update on the batch: the proximal policy is the current one. Raises `InputError`.

    >>> import asyncsim as sim
    >>> score_weights(sim.methods.cispo(high=1.0), np.log([[1.5], [3.0]]), [1.0, -1.0]).round(6).tolist()
    [[1.5], [-2.0]]
    """
    import torch

    log = torch.from_numpy(checks.finite_array("log_ratios", log_ratios, (None, None), "one a token"))
    count, width = log.shape
    advantage = torch.from_numpy(checks.finite_array("advantages", advantages, (count,), "one a row"))
    ends = np.full(count, width) if lengths is None else np.asarray(lengths)
    checks.require(ends.shape == (count,), "lengths", ends.shape, f"({count},)", "give one length a row")
    mask = (torch.arange(width) < torch.from_numpy(ends).unsqueeze(1)).double()
    # Log-probs of -1 and below, so that no ratio needs a probability above 1.
    behavior = (-1.0 - log.clamp(min=0.0).max()) * torch.ones_like(log)
    now = behavior + log * mask
    if hasattr(loss, "weigh"):
        proximal = {"proximal_log_prob": now} if loss.proximal else {}
        found = loss.weigh(now, behavior, advantages=advantage, mask=mask, rewards=advantage, **proximal)
        return np.asarray(found.cotangent * mask.sum()) + 0.0
    return _by_autograd(loss, (now, behavior, advantage.unsqueeze(1).expand_as(mask), mask), rows or count)


def _by_autograd(loss: Callable[..., Any], tensors: tuple[Any, ...], rows: int) -> np.ndarray:
    """-dL/d log_prob times the number of tokens, of a loss that is averaged over micro-batches."""
    now, behavior, advantage, mask = tensors
    leaf = now.clone().requires_grad_()
    parts = [slice(start, start + rows) for start in range(0, len(now), rows)]
    values = [loss(leaf[part], behavior[part], now[part], advantage[part], mask[part]) for part in parts]
    (sum(values) / len(parts)).backward()
    gradient = leaf.grad
    checks.require(gradient is not None, "loss", "no gradient", "one in log_prob", "detach less")
    return np.asarray(-gradient * mask.sum()) + 0.0  # no negative zero


def drawn_gradients(task: Any, method: Any, pi: np.ndarray, mu: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Gradients of single responses in the logits of one row, `[response, token kind]`, drawn from `mu`.

    g = sum_t a c_t (e_{y_t} - pi): the method weighs each response alone. Arguments: `task`, a `token_bandit` whose
    tokens are independent; `count` of responses. Raises `InputError`. Source: textbook (score of a softmax).

    >>> import asyncsim as sim
    >>> half = np.array([0.5, 0.5])
    >>> task, method = sim.tasks.token_bandit(2, 1), sim.methods.reinforce(sim.advantages.none())
    >>> sorted(set(map(tuple, drawn_gradients(task, method, half, half, 99, seed=0).tolist())))
    [(0.0, 0.0), (0.5, -0.5)]
    """
    import torch

    checks.integer("count", count, 1, "draw one response at least")
    checks.integer("seed", seed, 0, "give a non-negative integer seed")
    actions = np.random.default_rng(seed).choice(len(mu), size=(count, 1, 1, task.horizon), p=mu)
    drawn = torch.from_numpy(actions)
    # Each response is a replicate of its own, so that nothing is averaged.
    now, then = (torch.from_numpy(np.log(policy))[drawn] for policy in (pi, mu))
    rewards = task.score(torch.zeros_like(drawn), drawn, torch.ones_like(now))
    cotangent = method.weigh(now, then, rewards=rewards).cotangent.numpy()[:, 0, 0]
    return np.einsum("nt,nta->na", cotangent, np.eye(len(mu))[actions[:, 0, 0]] - pi)
