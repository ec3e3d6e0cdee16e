"""Bits chosen one after another, paid only if enough of them are right; exact for any length by counting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.policies._policy import Policy
from asyncsim.step.versions import Weights
from asyncsim.tasks._recursion import cells, tilted
from asyncsim.tasks._tabular import TabularTask, penalty, start_rows
from asyncsim.tasks._task import Turn


@dataclass(frozen=True)
class BitChain(TabularTask):
    """H bits with a row of logits each, reward 1 for enough right ones; see `bit_chain`."""

    fraction: float

    closed = True
    solved = True
    scores = (0.0, 1.0)
    best = 1.0

    @property
    def needed(self) -> int:
        """Right bits that are paid."""
        return math.ceil(self.fraction * self.horizon - 1e-9)

    def step(self, world: Tensor, action: Tensor, token: int, draws: Any) -> Turn:
        """One row per position."""
        # The row after the last bit is never read, but has to exist.
        return Turn((world + 1).clamp(max=self.rows - 1), torch.ones(world.shape, dtype=torch.bool))

    def score(self, state: Tensor, action: Tensor, mask: Tensor) -> Tensor:
        """Whether enough bits are right."""
        return ((action == 0).sum(-1) >= self.needed).to(torch.float64)

    def exact(self, policy: Policy, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """J `[R]` and its gradient `[R, P]` from the distribution of the number of right bits, O(H^2), not enumerated.

        With f_t(k) = P(k right before bit t) and b_t(k) = P(paid | k right before bit t),
        J = b_0(0) and grad J = sum_t sum_a pi_t(a) sum_k f_t(k) b_{t+1}(k + 1[a = 0]) grad log pi_t(a).
        The penalty's own part is sum_t KL(pi_t || reference), whose gradient stands in closed form as well.
        """
        prob, pull = cells(policy, parameters, self.rows, self.actions)
        paid = self._paid(prob)
        reached = torch.zeros_like(paid[0])
        reached[:, 0] = 1.0
        weight = torch.zeros_like(prob)
        for t in range(self.horizon):
            right, wrong = prob[:, t, 0:1], prob[:, t, 1:2]
            weight[:, t, 0] = prob[:, t, 0] * (reached * _one_more(paid[t + 1])).sum(-1)
            weight[:, t, 1] = prob[:, t, 1] * (reached * paid[t + 1]).sum(-1)
            moved = reached * right
            reached = reached * wrong
            reached[:, 1:] += moved[:, :-1]
            reached[:, -1] += moved[:, -1]
        if self.penalty.coefficient:
            weight = weight - self.penalty.coefficient * prob * self._gap(prob)
        return self._value(prob, paid[0]), pull(weight)

    def expected(self, policy: Policy, parameters: Tensor, weights: Weights) -> Tensor:
        """J `[R]`, the first half of `exact`."""
        prob = self.chances(policy, parameters, weights)
        return self._value(prob, self._paid(prob)[0])

    def _value(self, prob: Tensor, paid: Tensor) -> Tensor:
        if not self.penalty.coefficient:
            return paid[:, 0]
        return paid[:, 0] - self.penalty.coefficient * (prob * self._gap(prob)).sum((1, 2))

    def _gap(self, prob: Tensor) -> Tensor:
        """log pi - log reference of every choice, `[R, H, 2]`."""
        return torch.where(prob > 0, prob.log() - self._log_reference, torch.zeros((), dtype=prob.dtype))

    def ratio_moment(self, policy: Policy, parameters: Tensor, behavior: Tensor, power: float) -> Tensor:
        """E_mu W^power of the sequence ratio W = prod_t pi_t/mu_t, `[R]`: a product over bits."""
        then, now = (cells(policy, at, self.rows, self.actions).prob for at in (behavior, parameters))
        return tilted(then, now, power).sum(-1).prod(-1)

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {**super().describe(), "fraction": self.fraction}

    def _paid(self, prob: Tensor) -> list[Tensor]:
        """b_t(k), `[R, needed + 1]` for t = 0..H; more right bits than needed count as needed."""
        end = torch.zeros((prob.shape[0], self.needed + 1), dtype=prob.dtype)
        end[:, -1] = 1.0
        tables = [end]
        for t in reversed(range(self.horizon)):
            after = tables[-1]
            tables.append(prob[:, t, 0:1] * _one_more(after) + prob[:, t, 1:2] * after)
        return tables[::-1]


def _one_more(table: Tensor) -> Tensor:
    """Entries at k + 1, the last one staying itself."""
    return torch.cat([table[:, 1:], table[:, -1:]], 1)


def bit_chain(
    horizon: int = 4,
    fraction: float = 1.0,
    kl_coef: float = 0.0,
    reference: Any = None,
    kl_at: str = "behavior",
    logits: Any = None,
) -> BitChain:
    """Choose H bits in order, each from its own row: reward 1 if at least the fraction f of them is right, else 0.

    J = P(K >= f H), K = sum_t 1[bit t right] a sum of independent bits (Poisson binomial). So J and its gradient are
    exact for chains of hundreds of bits.

    Arguments: `horizon` H in bits; `fraction` f of right bits that is paid; `kl_coef` (reward per nat), `reference`
    (logits `[H, 2]` or one row), `kl_at`: penalty as in `token_bandit`; `logits`, initial table `[H, 2]` in nats,
    right bit (action 0) first. Returns a task whose own policy is `policies.tabular`, a row per position. Raises
    `InputError` for a horizon below 1, a fraction outside [0, 1], or tables of another shape. Source: textbook.

    >>> import torch
    >>> task = bit_chain(horizon=200, fraction=0.5)
    >>> round(task.exact(task.policy(), torch.zeros(1, 400, dtype=torch.float64))[0].item(), 6)
    0.528174
    """
    checks.integer("horizon", horizon, 1, "a chain has at least one bit", checks.LARGEST)
    checks.real("fraction", fraction, "give the fraction of right bits that earns 1", 0.0, 1.0)
    start = start_rows(logits, (horizon, 2), "give one row of two logits per bit")
    return BitChain(
        rows=horizon,
        actions=2,
        horizon=horizon,
        prompts=1,
        rewards="fixed",
        deviation=0.0,
        penalty=penalty(kl_coef, reference, kl_at, (horizon, 2)),
        logits=start,
        fraction=float(fraction),
    )
