"""A bandit over sequences of T categorical tokens with an outcome reward, optionally with a token that ends them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from asyncsim.base import checks
from asyncsim.policies._policy import Policy
from asyncsim.step.versions import Weights
from asyncsim.tasks._tabular import REWARDS, SUMMED, TabularTask, penalty, start_rows
from asyncsim.tasks._task import Turn

_ROWS = {
    "iid": lambda actions, horizon: 1,
    "position": lambda actions, horizon: horizon,
    "markov": lambda actions, horizon: actions + 1,
}


@dataclass(frozen=True)
class TokenBandit(TabularTask):
    """T tokens, reward by how many of them are token 0; see `token_bandit`."""

    dependence: str
    success: float | None
    ends: bool

    scores = (0.0, 1.0)
    best = 1.0

    def step(self, state: Tensor, action: Tensor, token: int, draws: Any) -> Turn:
        """Row 0 always (iid), one row per position, or one per previous token (row 0 is the start)."""
        following = {"iid": torch.zeros_like(state), "position": state + 1, "markov": action + 1}[self.dependence]
        goes_on = action != self.actions - 1 if self.ends else torch.ones(state.shape, dtype=torch.bool)
        # The row after the last token is never read, but has to exist.
        return Turn(following.clamp(max=self.rows - 1), goes_on)

    def score(self, state: Tensor, action: Tensor, mask: Tensor) -> Tensor:
        """Fraction of the T tokens that are token 0, or whether it reaches `success`."""
        right = ((action == 0) & (mask > 0)).sum(-1).to(torch.float64)
        if self.success is None:
            return right / self.horizon
        return (right >= self.success * self.horizon - 1e-9).to(torch.float64)

    @property
    def solved(self) -> bool:  # type: ignore[override]
        """Whether there is no penalty and little to sum over, or a short list."""
        terms = self.horizon * self.rows * self.actions * (1 if self.success is None else self.horizon + 1)
        small = self.dependence != "markov" or terms <= 16 * SUMMED
        return (self.penalty.coefficient == 0.0 and small) or super().solved

    def expected(self, policy: Policy, parameters: Tensor, weights: Weights) -> Tensor:
        """J `[R]` from the chance of each row, with each number of right tokens where `success` counts them together.

        Each replicate is summed by itself: a product of matrices would round it by how many stand beside it.
        """
        if self.penalty.coefficient:
            return super().expected(policy, parameters, weights)
        prob, T = self.chances(policy, parameters, weights), self.horizon
        chained, joint = self.dependence == "markov", self.success is not None
        if not (chained or joint or self.ends):
            return prob[:, :, 0].mean(-1)
        worth = (torch.arange(T + 1 if joint else 1) >= (self.success or 0.0) * T - 1e-9).to(prob.dtype) * joint
        reached = prob.new_zeros((len(prob), self.rows if chained else 1, len(worth)))
        reached[:, 0, 0] = 1.0
        earned = prob.new_zeros(len(prob))
        for t in range(T):
            rows = prob if chained else prob[:, t % self.rows].unsqueeze(1)
            taken = (rows.unsqueeze(-1) * reached.unsqueeze(-2)).sum(1)
            if joint:
                # No more than t of t tokens are right, so that nothing is rolled over.
                taken[:, 0] = taken[:, 0].roll(1, -1)
            else:
                earned = earned + taken[:, 0, 0] / T
            if self.ends:
                earned = earned + (taken[:, -1] * worth).sum(-1)
                taken[:, -1] = 0.0
            reached = pad(taken, (0, 0, 1, 0)) if chained else taken.sum(1, keepdim=True)
        return earned + (reached.sum(1) * worth).sum(-1)

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        own = {"dependence": self.dependence, "success": self.success, "ends": self.ends}
        return {**super().describe(), **own}


def token_bandit(
    actions: int = 3,
    horizon: int = 4,
    dependence: str = "iid",
    success: float | None = None,
    ends: bool = False,
    rewards: str = "fixed",
    deviation: float = 1.0,
    kl_coef: float = 0.0,
    reference: Any = None,
    kl_at: str = "behavior",
    logits: Any = None,
) -> TokenBandit:
    """Sequence y_1..y_T of tokens from softmax(theta_row), reward R(y) at the end only.

    Arguments: `actions` A; `horizon` T in tokens; `dependence`, which row of the table `[S, A]` a token reads: "iid" (S
    = 1), "position" (S = T) or "markov" (S = A + 1: row 0 the start, row 1 + a after token a); `success` f, reward 1
    when at least the fraction f of the T tokens is token 0 (None: the fraction itself); `ends`, whether token A - 1
    ends the sequence, whose length is then the work of a coupled run; `rewards` and `deviation` as in `softmax_bandit`,
    with R as the mean; `kl_coef` (reward per nat), `reference`, `kl_at`: penalty on the sum of token log-probs;
    `logits`, initial table. Returns a task whose own policy is `policies.tabular`. Raises `InputError` for unknown
    names, a success outside [0, 1], or tables of another shape. Source: textbook.

    >>> import torch
    >>> task = token_bandit(actions=2, horizon=3, success=1.0)
    >>> round(task.exact(task.policy(), torch.zeros(1, 2, dtype=torch.float64))[0].item(), 12)
    0.125
    """
    # Check the settings.
    checks.integer("actions", actions, 2, "a token needs a choice", checks.LARGEST)
    checks.integer("horizon", horizon, 1, "a sequence has at least one token", checks.LARGEST)
    checks.boolean("ends", ends, "say whether the last token ends the sequence")
    checks.one_of("dependence", dependence, _ROWS, "say which row a token reads")
    checks.one_of("rewards", rewards, REWARDS, "choose how rewards are drawn")
    checks.real("deviation", deviation, "give the noise of gaussian rewards", 0.0)
    if success is not None:
        checks.real("success", success, "give the fraction of right tokens that earns 1", 0.0, 1.0)
    # Size the table.
    rows = _ROWS[dependence](actions, horizon)
    start = start_rows(logits, (rows, actions))
    return TokenBandit(
        rows=rows,
        actions=actions,
        horizon=horizon,
        prompts=1,
        rewards=rewards,
        deviation=float(deviation),
        penalty=penalty(kl_coef, reference, kl_at, (rows, actions)),
        logits=start,
        dependence=dependence,
        success=success,
        ends=ends,
    )
