"""A decision process from tables of one's own: transitions, rewards, start; exact values by recursion."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from asyncsim.base import checks
from asyncsim.tasks._mdp import TabularMDP, Transitions, walk

_TRANSITION = (((1.0, 0.0), (0.2, 0.8)), ((0.5, 0.5), (0.0, 0.9)))
_REWARDS = ((0.0, 0.2), (0.0, 1.0))
_ROUNDING = 1e-12


@dataclass(frozen=True)
class MDP(TabularMDP):
    """Tables as they were given; see `mdp`."""

    transition: tuple[tuple[tuple[float, ...], ...], ...]
    paid: tuple[tuple[float, ...], ...]
    first: tuple[float, ...]

    @cached_property
    def law(self) -> Transitions:
        """Possible outcomes of every action, the likeliest first; the last state of the tables stands for the end."""
        onward = torch.tensor(self.transition, dtype=torch.float64)
        end = (1.0 - onward.sum(-1, keepdim=True)).clamp(min=0.0)
        end = torch.where(end > _ROUNDING, end, torch.zeros((), dtype=end.dtype))
        probability, outcome = torch.cat([onward, end], -1).sort(dim=-1, descending=True, stable=True)
        possible = int((probability > 0).sum(-1).max())
        probability, outcome = probability[..., :possible], outcome[..., :possible]
        terminal = outcome == self.rows
        reward = torch.tensor(self.paid, dtype=torch.float64).unsqueeze(-1).expand(probability.shape)
        following = torch.where(terminal, torch.zeros_like(outcome), outcome)
        return Transitions(probability, following, reward, terminal, torch.tensor(self.first, dtype=torch.float64))

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        tables = {"transition": self.transition, "rewards": self.paid, "start": self.first}
        return {**super().describe(), **tables}


def mdp(
    transition: Any = _TRANSITION,
    rewards: Any = _REWARDS,
    start: Any = None,
    horizon: int = 20,
    discount: float = 1.0,
    logits: Any = None,
) -> MDP:
    """Decision process of S states and A actions: s' ~ P(.|s, a), reward r(s, a), at most T steps.

    J = E sum_t gamma^t r(s_t, a_t). Where gamma^T is negligible, J = start^T (I - gamma P_pi)^-1 r_pi. Its gradient is
    d(s) pi(a|s) A(s, a) with the unnormalized occupancy d = (I - gamma P_pi)^-T start (`convergence/mdp-gradient`).

    Arguments: `transition` P, `[S, A, S]`; what the entries of a row lack to 1 is the probability that the episode ends
    there; `rewards` r, `[S, A]`; `start`, distribution of the first state, `[S]` (default: the first one); `horizon` T
    in steps; `discount` gamma in [0, 1]; `logits`, initial values `[S, A]`. Returns a task whose own policy is
    `policies.tabular` with a row per state; J and its gradient are exact by recursion. It can be enumerated where
    nothing but the actions is random. Raises `InputError` for tables of other shapes, or for probabilities that are
    negative or add up to more than 1. Source: textbook.

    >>> import torch
    >>> task = mdp(transition=[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0]] * 2], rewards=[[0.0, 0.0], [1.0, 1.0]], horizon=3)
    >>> task.exact(task.policy(), torch.zeros(1, 4, dtype=torch.float64))[0].item()
    1.25
    """
    paid = checks.finite_array("rewards", rewards, (None, None), "give r(s, a), a row per state")
    S, A = paid.shape
    checks.require(S >= 1 and A >= 2, "rewards", (S, A), "a table of one state and two actions at least", "add actions")
    onward = _chances("transition", transition, (S, A, S))
    first = np.eye(S)[0] if start is None else _chances("start", start, (S,))
    whole = abs(first.sum() - 1.0) <= _ROUNDING
    checks.require(whole, "start", first.tolist(), "probabilities that add up to 1", "normalize it")
    if logits is not None:
        logits = _nested(checks.finite_array("logits", logits, (S, A), "give one per action, a row per state"))
    random = bool(((onward > 0.0).sum(-1) + (onward.sum(-1) < 1.0 - _ROUNDING) > 1).any())
    grid = walk(S, horizon, random, discount)
    return MDP(
        **{**grid, "actions": A, "logits": logits}, transition=_nested(onward), paid=_nested(paid), first=_nested(first)
    )


def _chances(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Probabilities along the last axis that add up to at most 1."""
    table = checks.finite_array(name, value, shape, f"give a table {list(shape)}")
    sums = bool((table >= 0.0).all() and (table.sum(-1) <= 1.0 + _ROUNDING).all())
    checks.require(sums, name, table.tolist(), "probabilities that add up to at most 1", "normalize the rows")
    return table


def _nested(table: np.ndarray) -> Any:
    """A table as tuples of tuples."""
    return tuple(_nested(row) for row in table) if table.ndim else float(table)
