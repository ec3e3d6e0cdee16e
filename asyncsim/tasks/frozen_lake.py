"""The frozen lake of gymnasium: cross the ice to the goal; exact values by recursion over its own tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asyncsim.base import checks
from asyncsim.tasks._mdp import TabularMDP, walk

_MAPS = ("4x4", "8x8")


@dataclass(frozen=True)
class FrozenLake(TabularMDP):
    """Reward 1 at the goal, nothing in holes; see `frozen_lake`."""

    map_name: str
    desc: tuple[str, ...] | None

    def environment(self) -> Any:
        """gymnasium's own environment, without a time limit."""
        from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

        desc = None if self.desc is None else list(self.desc)
        return FrozenLakeEnv(desc=desc, map_name=self.map_name, is_slippery=self.slippery)

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {**super().describe(), "map": self.map_name if self.desc is None else list(self.desc)}


def frozen_lake(
    map_name: str = "4x4",
    slippery: bool = True,
    horizon: int | None = None,
    discount: float = 1.0,
    desc: Sequence[str] | None = None,
) -> FrozenLake:
    """Cross a frozen lake: reward 1 on reaching the goal, 0 otherwise; a hole or the goal ends the episode.

    J = E sum_t gamma^t r_t over at most T steps. On slippery ice a step goes as chosen or to either side of that, each
    with probability 1/3. Actions: 0 left, 1 down, 2 right, 3 up.

    Arguments: `map_name` "4x4" or "8x8"; `slippery`; `horizon` T in steps (default that of gymnasium: 100, or 200 for
    "8x8"); `discount` gamma in [0, 1]; `desc`, rows of a map of one's own in gymnasium's letters (S start, F ice, H
    hole, G goal), in place of `map_name`. Returns a task whose own policy is `policies.tabular` with a row per field
    `[S, 4]`; J and its gradient are exact by recursion. Raises `InputError` for an unknown map, rows of different
    lengths, or numbers outside their ranges. Source: gymnasium, FrozenLake-v1.

    >>> task = frozen_lake(slippery=False)
    >>> round(task.exact(task.policy(), task.policy().initial(1))[0].item(), 4)
    0.0139
    """
    checks.one_of("map_name", map_name, _MAPS, "choose a map of gymnasium, or give desc")
    if horizon is None:
        horizon = 200 if map_name == "8x8" and desc is None else 100
    rows = None if desc is None else _checked_map(desc)
    fields = len(rows) * len(rows[0]) if rows else {"4x4": 16, "8x8": 64}[map_name]
    return FrozenLake(map_name=map_name, desc=rows, **walk(fields, horizon, slippery, discount))


def _checked_map(desc: Sequence[str]) -> tuple[str, ...]:
    """Rows of equal length in the four letters, with a start."""
    bound = "rows of equal length in the letters S, F, H, G, with a start S"
    fits = (
        isinstance(desc, (list, tuple))
        and len(desc) > 0
        and all(isinstance(row, str) and row and set(row) <= set("SFHG") for row in desc)
        and len({len(row) for row in desc}) == 1
        and any("S" in row for row in desc)
    )
    checks.require(fits, "desc", desc, bound, 'write ("SF", "HG")')
    return tuple(desc)
