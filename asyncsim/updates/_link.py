"""Links and chains: transformations of the direction, composed in order.

Order is placement: before `adam` a link acts on the gradient, after it on the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, parts
from asyncsim.fusing.tape import none, surely
from asyncsim.step.step import Step

T = TypeVar("T")
NOTHING = "no links: the gradient itself is added, learning rate 1"
"""What the header of a run says of the empty chain."""
LARGE, PIECE = 1 << 20, 1 << 17
"""Parameters from which on a model is updated in pieces of so many: whole arrays beside it would not fit the cache."""
State = dict[str, Tensor]
"""State of a link: named tensors with the replicate axis first."""


@dataclass
class Record:
    """What travels along a chain.

    `direction` `[R, P]`, ascent; `skip` bool `[R]`, replicates whose update is skipped (it still counts and publishes);
    `step`, what the method made of the batch; `statistics`, named numbers `[R]` that links report. A link replaces
    tensors of the record, it does not change them in place.
    """

    direction: Tensor
    skip: Tensor
    step: Step
    statistics: dict[str, Tensor] = field(default_factory=dict)


class Link(Protocol):
    """One transformation with explicit state; one that reads the policy's outputs names them in `outputs`.

    Optional, for links that compare directions: `lost(state, flag)`, the state of replicates whose update was skipped
    because their direction was not finite. For links that draw: `numbered(replicates)`, the same link for replicates
    with these global numbers.
    """

    def init(self, parameters: Tensor) -> State: ...

    def apply(self, record: Record, state: State) -> tuple[Record, State]: ...


class Stateless:
    """A link that remembers nothing."""

    def init(self, parameters: Tensor) -> State:
        """No state."""
        return {}


@dataclass(frozen=True)
class Chain:
    """Links applied in order; the empty chain adds the gradient itself."""

    links: tuple[Link, ...] = ()

    def init(self, parameters: Tensor) -> list[State]:
        """States of all links for parameters `[R, P]`."""
        return [link.init(parameters) for link in self.links]

    def apply(self, record: Record, states: list[State]) -> tuple[Record, list[State]]:
        """The step `[R, P]` in `record.direction`, 0 where the update is skipped, and the new states.

        Links behind the one that skips keep their state: a skipped update does not exist for them. A chain begins with
        nobody skipped.
        """
        following, nobody = [], record.skip
        for link, state in zip(self.links, states, strict=True):
            skipped, direction = record.skip, record.direction
            record, fresh = link.apply(record, state)
            if skipped is not nobody and not none(skipped):
                if hasattr(link, "lost"):
                    state = link.lost(state, skipped & ~torch.isfinite(direction).all(-1))
                fresh = {name: torch.where(_column(skipped, new), state[name], new) for name, new in fresh.items()}
            following.append(fresh)
        if record.skip is not nobody and not none(record.skip):
            record.direction = torch.where(
                record.skip.unsqueeze(-1), torch.zeros_like(record.direction), record.direction
            )
        return record, following

    def numbered(self, replicates: np.ndarray) -> Chain:
        """The same chain for replicates with these global numbers, so that draws do not depend on blocks."""
        if not any(hasattr(link, "numbered") for link in self.links):
            return self
        return Chain(tuple(x.numbered(replicates) if hasattr(x, "numbered") else x for x in self.links))

    def describe(self) -> list[str]:
        """Header of a run."""
        return [repr(link) for link in self.links] or [NOTHING]


def chain(*links: Link) -> Chain:
    """Compose update links; `chain()` adds the gradient itself to the parameters.

    >>> chain().describe()
    ['no links: the gradient itself is added, learning rate 1']
    """
    for link in links:
        checks.require(
            hasattr(link, "init") and hasattr(link, "apply"),
            "link",
            link,
            "an update link",
            "write sim.updates.NAME(...)",
        )
    return Chain(tuple(links))


def advance(
    parameters: Tensor, step: Tensor, diverged: Tensor, update: int | Tensor, limit: float, broken: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Add the step `[R, P]`; a replicate that would leave the finite range stays where it was from then on.

    So does one that is `broken` (bool `[R]`): its environment failed. Returns the parameters and, for each replicate,
    the update at which it stopped (-1: never).
    """
    moved = parameters + step.to(parameters.dtype)
    inside = (moved * moved).sum(-1) < limit * limit
    if broken is not None:
        inside = inside & ~broken
    going = inside & (diverged < 0)
    if surely(lambda: bool(going.all())):
        return moved, diverged
    diverged = torch.where(~inside & (diverged < 0), torch.as_tensor(update, device=diverged.device), diverged)
    return torch.where(going.unsqueeze(-1), moved, parameters), diverged


def norm(direction: Tensor) -> Tensor:
    """Euclidean norm over all parameters, `[R, 1]`, accumulated in float64."""
    pieces = [direction] if direction.shape[1] <= LARGE else direction.split(PIECE, dim=1)
    lengths = [torch.linalg.vector_norm(piece, dim=-1, keepdim=True, dtype=torch.float64) for piece in pieces]
    whole = lengths[0] if len(lengths) == 1 else torch.linalg.vector_norm(torch.cat(lengths, 1), dim=-1, keepdim=True)
    return whole.to(direction.dtype)


def _column(flag: Tensor, like: Tensor) -> Tensor:
    return flag.reshape(-1, *(1,) * (like.ndim - 1))


def link(source: str, *, reports: str = "") -> Callable[[type[T]], type[T]]:
    """A link of a page: a class of its name with `init` and `apply`; becomes the public function that checks its knobs.

    `reports`: names in the trace. `joint(**knobs)` of the class raises for knobs that do not go together.
    """

    def make(body: Any) -> Any:
        name, own = body.__name__, parts.declared(body)
        returns = f"a link on directions `[R, P]`{f' that reports {reports}, `[R]`' * bool(reports)}"
        refused = "values outside these ranges" * bool(own)
        return parts.public(name, body, own, parts.kind_of(body, own, ()), returns, refused, source)

    return make
