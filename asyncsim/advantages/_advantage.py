"""What an advantage is."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.learning.step import Step


class Advantage(Protocol):
    """A baseline rule: a step to advantages `[R, G, N]` or `[R, G, N, T]`, always detached.

    `once`: whether it depends on the data only, so that it is computed once for all updates on a batch; `outputs` of
    the policy that it reads among those recorded at the draw; `targets`, what a critic should say, `[R, G, N, T]`. One
    that reads outputs of the current policy names them in `reads`; its targets are then computed at every update.
    """

    @property
    def once(self) -> bool: ...

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def reads(self) -> tuple[str, ...]: ...

    def __call__(self, step: Step) -> Tensor: ...

    def check(self, samples_per_group: float) -> None: ...

    def targets(self, step: Step) -> Tensor: ...

    def describe(self) -> dict[str, Any]: ...


def or_default(advantage: Advantage | None, default: Advantage) -> Advantage:
    """The advantage, or the default of a method where none is given; what is no advantage is refused by `Method`."""
    return default if advantage is None else advantage


class Baseline:
    """Shared defaults of advantages: nothing to check, the class name as header, the return to go for a critic."""

    once = False
    outputs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    finishes = False
    """Whether it is `finished(step, estimate(step))`: then a minibatch can finish what was estimated in its batch."""

    def targets(self, step: Step) -> Tensor:
        """Sum of the rewards from each token to the end of its episode, undiscounted, `[R, G, N, T]`."""
        from asyncsim.advantages._traces import tokens, traced

        return traced(tokens(step, None), 1.0, 1.0)

    def check(self, samples_per_group: float) -> None:
        """Accept any group size."""

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"advantage": plugins.name_of(self), **vars(self)}


class GroupBaseline(Baseline):
    """An advantage that compares a sample with its group."""

    def check(self, samples_per_group: float) -> None:
        """A group of one has nothing to compare with."""
        checks.require(
            samples_per_group >= 2,
            "samples_per_group",
            samples_per_group,
            "at least 2 for a group advantage",
            "raise samples_per_group, or use advantages.none() or offset()",
        )
