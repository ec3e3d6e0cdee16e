"""A bandit with a softmax over arms, one or several prompts, and an optional divergence penalty."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.fusing.tape import entries
from asyncsim.tasks._tabular import CELLS, REWARDS, TabularTask, as_rows, penalty


@dataclass(frozen=True)
class SoftmaxBandit(TabularTask):
    """One choice per prompt among A arms; see `softmax_bandit`."""

    means: tuple[tuple[float, ...], ...]

    def begin(self, prompt: Tensor, draws: Any, carried: Any = None) -> Tensor:
        """The state is the prompt."""
        return prompt

    def score(self, state: Tensor, action: Tensor, mask: Tensor) -> Tensor:
        """Mean reward of the chosen arm."""
        cell = action[..., 0] if self.prompts == 1 else state[..., 0] * self.actions + action[..., 0]
        return entries(self._means, cell)

    @property
    def scores(self) -> tuple[float, float]:  # type: ignore[override]
        """Least and largest mean reward."""
        return min(map(min, self.means)), max(map(max, self.means))

    @property
    def best(self) -> float:  # type: ignore[override]
        """Mean over prompts of the best arm's mean reward."""
        return sum(map(max, self.means)) / len(self.means)

    @cached_property
    def _means(self) -> Tensor:
        return torch.as_tensor(np.array(self.means))


def softmax_bandit(
    arms: int = 10,
    means: Any = None,
    rewards: str = "bernoulli",
    deviation: float = 1.0,
    kl_coef: float = 0.0,
    reference: Any = None,
    kl_at: str = "behavior",
    logits: Any = None,
) -> SoftmaxBandit:
    """Bandit: choose an arm a ~ softmax(theta_x) for prompt x, earn r with mean m_xa.

    Exact gradient of one prompt without penalty: pi * (m - pi . m).

    Arguments: `arms` A; `means`, `[A]` or `[prompts, A]` (default: evenly spaced from 0.1 to 0.9); `rewards`, "fixed"
    (r = m), "bernoulli" (r = 1 with probability m) or "gaussian" (m plus noise of standard deviation `deviation`);
    `kl_coef` beta in reward per nat, the reward becomes r - beta (log p(a) - log reference(a)) with p at `kl_at` =
    "behavior" or "current" log-probs and `reference` given as logits (None: uniform, an entropy bonus up to a
    constant); `logits`, initial values. Returns a task whose own policy is `policies.tabular`. Raises `InputError` for
    means outside [0, 1] with Bernoulli rewards, NaN, or shapes that do not fit. Source: textbook.

    >>> import torch
    >>> task = softmax_bandit(arms=3, means=[0.0, 0.5, 1.0], rewards="fixed")
    >>> value, gradient = task.exact(task.policy(), torch.zeros(1, 3, dtype=torch.float64))
    >>> round(value.item(), 3), [round(x, 4) for x in gradient[0].tolist()]
    (0.5, [-0.1667, 0.0, 0.1667])
    """
    # Check the rewards.
    checks.integer("arms", arms, 2, "a bandit needs a choice", CELLS)
    table = np.linspace(0.1, 0.9, arms) if means is None else means
    remedy = "give one finite mean per arm, or one row per prompt"
    table = checks.finite_array("means", as_rows("means", table, remedy), (None, arms), remedy)
    checks.one_of("rewards", rewards, REWARDS, "choose how rewards are drawn")
    checks.real("deviation", deviation, "give the noise of gaussian rewards", 0.0)
    outside = table[(table < 0) | (table > 1)]
    bound, remedy = "in [0, 1] for bernoulli rewards", "rescale them or use rewards='fixed'"
    checks.require(rewards != "bernoulli" or outside.size == 0, "means", outside[:1].tolist(), bound, remedy)
    # Repeat initial logits for every prompt.
    prompts = table.shape[0]
    if logits is not None:
        each = "give one per arm, the same for all prompts or one row for each"
        start = as_rows("logits", logits, each)
        shape = (prompts if len(start) != 1 else 1, arms)
        logits = _rows(np.broadcast_to(checks.finite_array("logits", start, shape, each), (prompts, arms)))
    return SoftmaxBandit(
        rows=prompts,
        actions=arms,
        horizon=1,
        prompts=prompts,
        rewards=rewards,
        deviation=float(deviation),
        penalty=penalty(kl_coef, reference, kl_at, (prompts, arms)),
        logits=logits,
        means=_rows(table),
    )


def _rows(table: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(x) for x in row) for row in table)
