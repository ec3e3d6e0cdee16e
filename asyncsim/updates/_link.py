"""Links and chains: transformations of the direction, composed in order.

Order is placement: before `adam` a link acts on the gradient, after it on the step.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.optim import adam as functional

from asyncsim.base import calls, checks, parts, plugins
from asyncsim.base.parts import T
from asyncsim.fusing.tape import none, surely
from asyncsim.step.ratios import LARGE
from asyncsim.step.step import Step

NOTHING = "no links: the gradient itself is added, learning rate 1"
"""What the header of a run says of the empty chain."""
PIECE = 1 << 17
"""Parameters of a large model that a CPU updates together: whole arrays beside it would not fit the cache."""
State = dict[str, Tensor]
"""State of a link: named tensors with the replicate axis first."""


@dataclass
class Record(calls.Told):
    """Data passed along a chain of update links, such as the direction and the step's record.

    `direction` `[R, P]`, ascent; `skip` bool `[R]`, replicates whose update is skipped (it still counts and publishes);
    `step`, what the method made of the batch; `statistics`, named numbers `[R]` that links report. A link replaces
    tensors of the record, it does not change them in place. `spare`: nobody needs the link's own state of before, so
    that a link on a large model may write over it.
    """

    direction: Tensor
    skip: Tensor
    step: Step
    statistics: dict[str, Tensor] = field(default_factory=dict)
    spare: bool = False


class Link(Protocol):
    """One transformation of the update, with explicit state; `outputs` names the policy outputs that it uses.

    Optional, for links that compare directions: `lost(state, flag)`, the state of replicates whose update was skipped
    because their direction was not finite. For links that draw: `numbered(replicates)`, the same link for replicates
    with these global numbers.
    """

    def init(self, parameters: Tensor) -> State: ...

    def apply(self, record: Record, state: State) -> tuple[Record, State]: ...


class Stateless:
    """Base of update links without state."""

    def init(self, parameters: Tensor) -> State:
        """Return the empty state of a link without state."""
        return {}


@calls.named
@dataclass(frozen=True)
class Chain:
    """Update links applied in order; the empty chain adds the plain gradient to the parameters."""

    links: tuple[Link, ...] = ()

    def init(self, parameters: Tensor) -> list[State]:
        """Initial states of the chain's links for parameters `[R, P]`."""
        return [link.init(parameters) for link in self.links]

    def apply(self, record: Record, states: list[State]) -> tuple[Record, list[State]]:
        """Compute the update `[R, P]` in `record.direction`, 0 if it is skipped, and the links' new states.

        Links behind the one that skips keep their state: a skipped update does not exist for them.
        """
        following, nobody = [], record.skip
        for link, state in zip(self.links, states, strict=True):
            skipped, direction = record.skip, record.direction
            record.spare = skipped is nobody
            made = link.apply(record, state)
            if not (type(made) is tuple and len(made) == 2 and getattr(made[0], "direction", None) is not None):
                _refuse(link, f"a {type(made).__name__}", "(record, state)", "return record, state")
            record, fresh = made
            if record.direction.shape != direction.shape:
                shape = str(list(record.direction.shape))
                _refuse(link, shape, f"a direction of shape {list(direction.shape)}, [R, P]", "keep its shape")
            if skipped is not nobody and not none(skipped):
                if hasattr(link, "lost"):
                    state = link.lost(state, skipped & ~torch.isfinite(direction).all(-1))
                for name, new in fresh.items():
                    fresh[name] = torch.where(skipped.reshape(-1, *(1,) * (new.ndim - 1)), state[name], new)
            following.append(fresh)
        if record.skip is not nobody and not none(record.skip):
            still = torch.zeros_like(record.direction)
            record.direction = torch.where(record.skip.unsqueeze(-1), still, record.direction)
        return record, following

    def numbered(self, replicates: np.ndarray) -> "Chain":
        """The same chain for replicates with these global numbers, so that draws do not depend on blocks."""
        if not any(hasattr(link, "numbered") for link in self.links):
            return self
        return Chain(tuple(x.numbered(replicates) if hasattr(x, "numbered") else x for x in self.links))

    def describe(self) -> list[str]:
        return [checks.plain(repr(link)) for link in self.links] or [NOTHING]


def _refuse(link: Link, value: str, bound: str, remedy: str) -> NoReturn:
    name = made.name if (made := calls.of(link)) else type(link).__name__
    raise checks.InputError(f"what apply of link {name} returns", value, bound, remedy)


FACTORS = {"EssStep", "StalenessStep", "LrByLag", "Scale", "LrSchedule"}
"""Types of links that multiply by a factor."""
_PROTOCOL = "an object with init(parameters), a dict of tensors, and apply(record, state), which returns both"


@calls.named
def chain(*links: Link) -> Chain:
    """Compose update links in the order given; without links, `chain()` adds the plain gradient to the parameters.

    >>> chain().describe()
    ['no links: the gradient itself is added, learning rate 1']
    """
    listed = len(links) == 1 and isinstance(links[0], (list, tuple))
    checks.require(not listed, "links", "a list", "given one by one", "write chain(a, b), or chain(*links)")
    for link in links:
        maker = isinstance(link, type) or hasattr(link, "knobs")
        fits = hasattr(link, "init") and hasattr(link, "apply") and not maker
        remedy = plugins.by_name(link, "updates", f"write sim.updates.NAME(...), or {_PROTOCOL}")
        remedy = f"call it: {getattr(link, '__name__', '')}(...)" if maker else remedy
        checks.require(fits, "link", link, "an update link", remedy)
    names = [type(link).__name__ for link in links]
    # Adam divides its input by its own scale: a constant factor in front of it has no effect.
    ahead = [name for k, name in enumerate(names) if name in FACTORS and {"Adam", "Adamw"} & {*names[k:]}]
    remedy = "put lr_schedule behind the link that has the learning rate, as --link adam --link lr-schedule"
    checks.require("LrSchedule" not in ahead, "links", ", ".join(names), "in the order in which they act", remedy)
    if ahead:
        doubt = f"{ahead[0]} acts before Adam, which divides most of its factor away; to scale the step, put it behind"
        warnings.warn(checks.RunWarning(doubt), stacklevel=3)
    return Chain(tuple(links))


def advance(
    parameters: Tensor, step: Tensor, diverged: Tensor, update: int | Tensor, limit: float, broken: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Add the update `[R, P]` to the parameters; freeze replicates that would leave the finite range.

    So does one that is `broken` (bool `[R]`): its environment failed. Returns the parameters and, for each replicate,
    the update at which it stopped (-1: never).
    """
    moved = parameters + step.to(parameters.dtype)
    elsewhere = moved.device.type != "cpu"
    if elsewhere or moved.shape[1] > LARGE:
        inside = torch.linalg.vector_norm(moved, dim=-1) < limit
    else:
        inside = (moved * moved).sum(-1) < limit * limit
    if broken is not None:
        inside = inside & ~broken
    going = inside & (diverged < 0)
    if elsewhere:
        # Whether all go on is not asked, since the host would have to wait for the answer.
        diverged = diverged.masked_fill(~inside & (diverged < 0), update)
        return torch.where(going.unsqueeze(-1), moved, parameters, out=moved), diverged
    if surely(lambda: bool(going.all())):
        return moved, diverged
    diverged = torch.where(~inside & (diverged < 0), torch.as_tensor(update, device=diverged.device), diverged)
    return torch.where(going.unsqueeze(-1), moved, parameters), diverged


def norm(direction: Tensor) -> Tensor:
    """Euclidean norm of each replicate's vector of parameters, `[R, 1]`, accumulated in float64."""
    if direction.shape[1] > LARGE and direction.device.type == "cpu":
        return norm(torch.cat([norm(piece.double()) for piece in direction.split(PIECE, dim=1)], 1)).to(direction.dtype)
    return torch.linalg.vector_norm(direction, dim=-1, keepdim=True, dtype=torch.float64).to(direction.dtype)


def moved(
    g: Tensor,
    first: Tensor,
    second: Tensor,
    beta1: Tensor,
    beta2: Tensor,
    size: Tensor,
    scale: Tensor,
    eps: float,
    spare: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Update of `adam_step`, with the new moments.

    Of large models piece by piece on a CPU, with the same bits; where `spare`, into the moments of before.
    """
    if g.shape[1] <= LARGE or g.device.type != "cpu":
        first = first * beta1.to(g.dtype) + g * (1.0 - beta1).to(g.dtype)
        second = (g * g).mul_((1.0 - beta2).to(g.dtype)).add_(second * beta2.to(g.dtype))
        return adam_step(first, second, size, scale, eps), first, second
    whole = torch.empty_like(g), *((first, second) if spare else (torch.empty_like(g), torch.empty_like(g)))
    for begin in range(0, g.shape[1], PIECE):
        part = slice(begin, begin + PIECE)
        made = moved(g[:, part], first[:, part], second[:, part], beta1, beta2, size, scale, eps)
        for array, numbers in zip(whole, made, strict=True):
            array[:, part] = numbers
    return whole


def in_one(
    g: Tensor, first: Tensor, second: Tensor, count: Tensor, lr: float, beta1: float, beta2: float, eps: float
) -> Tensor:
    """Update of `adam_step` by torch's fused kernel in one pass, which overwrites the previous moments."""
    step, counts = torch.zeros_like(g), count[:, 0].float()
    steps, gradients, firsts, seconds, numbers = (list(x.unbind(0)) for x in (step, g, first, second, counts))
    # A step is where parameters at 0 move to. Theirs descends; to maximize it would turn the moments as well.
    knobs: dict[str, Any] = {"lr": -lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": 0.0}
    knobs |= {"amsgrad": False, "maximize": False, "fused": True}
    functional.adam(steps, gradients, firsts, seconds, [], numbers, **knobs)
    return step


def one_kernel(record: Record, *knobs: Any) -> bool:
    """Whether `in_one` can compute the update: off the CPU, equal knobs for all replicates, old moments not needed."""
    return record.direction.device.type != "cpu" and record.spare and all(isinstance(each, float) for each in knobs)


def adam_step(first: Tensor, second: Tensor, size: Tensor, scale: Tensor, eps: float) -> Tensor:
    """Adam's update size first / (sqrt(scale second) + eps), with bias corrections `size` and `scale`, `[R, 1]`."""
    root = (second * scale.to(second.dtype)).sqrt_().add_(eps)
    step = (first * size.to(first.dtype)).div_(root)
    # Without eps a gradient that was always 0 gives 0 / 0, which is no step.
    return step if eps > 0.0 else torch.where(root > 0.0, step, torch.zeros_like(step))


def cosine(g: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and inner product of two update directions `[R, P]`, float64 `[R, 1]`; NaN if one is unusable."""
    g, reference = g.double(), reference.double()
    inner = (g * reference).sum(-1, keepdim=True)
    # Rounding may carry the cosine of parallel vectors beyond 1.
    lengths = g.norm(dim=-1, keepdim=True) * reference.norm(dim=-1, keepdim=True)
    return (inner / lengths).clamp(-1.0, 1.0), inner


def forgotten(reference: Tensor, lost: Tensor) -> Tensor:
    """Reference direction `[R, P]`, set to zero for replicates whose update was lost, bool `[R]`."""
    return torch.where(lost.unsqueeze(-1), torch.zeros_like(reference), reference)


def remembered(direction: Tensor) -> Tensor:
    """Update direction as a later reference; a direction that is not finite becomes zero, which means none."""
    usable = torch.isfinite(direction).all(-1, keepdim=True)
    return torch.where(usable, direction, torch.zeros_like(direction))


def link(source: str, *, reports: str = "") -> Callable[[type[T]], type[T]]:
    """Decorator that makes an update link from a class with `init` and `apply`; `joint(**knobs)` checks its knobs."""
    returns = f"a link on directions `[R, P]`{f' that reports {reports}, `[R]`' * bool(reports)}"
    return parts.page(source, returns, "values outside these ranges")
