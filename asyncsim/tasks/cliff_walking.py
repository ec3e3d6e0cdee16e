"""The cliff walk of gymnasium: -1 a step, -100 for a fall; exact values by recursion over its own tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asyncsim.tasks._mdp import TabularMDP, walk


@dataclass(frozen=True)
class CliffWalking(TabularMDP):
    """The shortest way runs along a cliff; see `cliff_walking`."""

    def environment(self) -> Any:
        """gymnasium's own environment, which has no time limit."""
        from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv

        # Older releases have no such argument.
        return CliffWalkingEnv(is_slippery=True) if self.slippery else CliffWalkingEnv()


def cliff_walking(horizon: int = 100, slippery: bool = False, discount: float = 1.0) -> CliffWalking:
    """Walk along a cliff on a 4 x 12 grid: -1 a step, -100 and back to the start for a fall; the goal ends the episode.

    J = E sum_t gamma^t r_t over at most T steps. The cost of later steps is not counted, so J is at least -100 T.
    Actions: 0 up, 1 right, 2 down, 3 left. Rows of the table that no episode visits (the cliff, the goal) keep their
    logits.

    Arguments: `horizon` T in steps (gymnasium sets none); `slippery`, whether a step goes to each side of the chosen
    direction with probability 1/3; `discount` gamma in [0, 1]. Returns a task whose own policy is `policies.tabular`
    with a row per field `[48, 4]`; J and its gradient are exact by recursion. Raises `InputError` for a horizon below
    1, or a discount outside [0, 1]. Source: gymnasium, CliffWalking-v1.

    >>> task = cliff_walking(horizon=1)
    >>> round(task.exact(task.policy(), task.policy().initial(1))[0].item(), 12)
    -25.75
    """
    return CliffWalking(**walk(48, horizon, slippery, discount))
