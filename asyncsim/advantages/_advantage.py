"""What an advantage is, and one made from a function of rewards."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, Protocol, overload

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import arguments, checks, outside, parts, plugins
from asyncsim.step.step import Step

GIVEN = ("rewards", "mask", "group", "size", "groups")
"""What a user's function of rewards gets, by role."""


class Advantage(Protocol):
    """Rule that computes the advantages of a step, `[R, G, N]` or `[R, G, N, T]`, without a gradient.

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


class Baseline:
    """Base class of advantages: accepts any group size, and uses the return to go as the critic's target."""

    once = False
    outputs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    finishes = False
    """Whether it is `finished(step, estimate(step))`: then a minibatch can finish what was estimated in its batch."""

    def targets(self, step: Step) -> Tensor:
        """Sum of rewards from each token to its episode's end, `[R, G, N, T]`, with the advantage's own discount."""
        from asyncsim.advantages._traces import tokens, traced

        return traced(tokens(step, None), getattr(self, "discount", 1.0), 1.0)

    def check(self, samples_per_group: float) -> None:
        """Accept groups of any size."""

    def describe(self) -> dict[str, Any]:
        return {"advantage": plugins.name_of(self), **vars(self)}


class GroupBaseline(Baseline):
    """Base class of advantages that compare a sample's reward with the rewards of its group."""

    def check(self, samples_per_group: float) -> None:
        """Refuse groups of one sample, which leave no other sample to compare with."""
        bound = "at least 2 for a group advantage"
        remedy = "write samples_per_group=8, or use advantages.none() or offset()"
        checks.require(samples_per_group >= 2, "samples_per_group", samples_per_group, bound, remedy)


Settings = ParamSpec("Settings")


class Declares(Protocol):
    """Type of the decorator that turns an advantage rule, a function or a class, into its public factory."""

    @overload
    def __call__(self, body: type[Baseline]) -> Callable[..., Baseline]: ...

    @overload
    def __call__(self, body: Callable[Concatenate[Step, Settings], Tensor]) -> Callable[Settings, Baseline]: ...


def advantage(
    source: str, *, group: bool = True, unit: str = "in units of reward", shape: str = "[R, G, N]", raises: str = ""
) -> Declares:
    """Decorator that makes an advantage from a function of a step and settings, or from a class with `__call__`.

    `group`: whether a function's rule compares with the group, so that a group of one makes no sense. `raises` says in
    which runs a rule is refused.
    """

    def make(body: Any) -> Any:
        name, own = body.__name__, parts.declared(body)
        bases = (GroupBaseline if group else Baseline,)

        def call(self: Any, step: Step) -> Tensor:
            """Advantages `[R, G, N]`."""
            return body(step, **{n: getattr(self, n) for n in own})

        kind = parts.kind_of(body, own, bases, __call__=call)
        lonely = "a run with groups of one" * (group and not isinstance(body, type))
        refused = " and in ".join(filter(None, ["settings outside their range" * bool(own), lonely, raises]))
        return parts.public(name, body, own, kind, f"an advantage, `{shape}` {unit}", refused, source)

    return make


@dataclass(frozen=True)
class Written(Baseline):
    """Advantage computed by a user's function of one replicate's rewards; `roles` says what each argument is."""

    fn: Callable[..., Any]
    roles: Mapping[str, str]
    library: str
    once: bool = True

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`, or `[R, G, N, T]` of a function with a mask."""
        alike = math.isfinite(step.size) and bool((step.batch.mass == step.batch.mass.reshape(-1)[0]).all())
        remedy = "a function of rewards knows no masses"
        checks.require(alike, "sampling", "outcomes with masses", "monte_carlo samples", remedy)
        rewards = step.token_reward if "mask" in self.roles.values() else step.reward
        return torch.stack([self.of(*each) for each in zip(rewards, step.mask, strict=True)])

    def of(self, rewards: Tensor, mask: Tensor) -> Tensor:
        """Advantages `[G, N]` or `[G, N, T]` of one replicate's rewards, which the function may overwrite."""
        groups, size = rewards.shape[:2]
        flat = rewards if {*self.roles.values()} == {"rewards"} else rewards.flatten(0, 1)
        rows: list[Any] = [each.clone().cpu() for each in (flat, mask.flatten(0, 1))]
        rows = rows if self.library == "torch" else [each.numpy() for each in rows]
        # Ids stay NumPy, since tensors would be other keys of a dictionary.
        known = dict(zip(GIVEN, (*rows, np.repeat(np.arange(groups), size), size, groups), strict=True))
        out = self.fn(**{name: known[role] for name, role in self.roles.items()})
        out = next(iter(out.values())) if isinstance(out, Mapping) else out[0] if isinstance(out, tuple) else out
        found = torch.as_tensor(out).to(rewards)
        if found.numel() % (groups * size):
            raise ValueError(f"it returned shape {tuple(found.shape)}, where rewards have {tuple(flat.shape)}")
        found = found.reshape(groups, size, -1)
        return found.squeeze(-1) if found.shape[-1] == 1 else found

    def describe(self) -> dict[str, Any]:
        return {"advantage": self.fn.__name__}


def from_function(fn: Callable[..., Any] | str) -> Written:
    """An advantage from your own function of rewards and group ids.

    Argument: `fn(rewards, group_ids, ...)`, a group baseline with the names of arguments that
    `conformance.check_advantage` knows, or its place, as my.py:name. Of one replicate it gets rewards `[B]` beside ids,
    `num_generations` or `num_groups`, `[G, N]` alone, `[B, T]` beside a mask; others keep their defaults. Arrays are of
    torch if the function names torch, else of NumPy if it runs so, as in the check. Advantages are what it returns, or
    the first of several. Returns an advantage. Raises `InputError` for other arguments without a default, such as
    values of a critic, and if it fails on a small batch. Source: this package.

    >>> made = from_function(lambda rewards: rewards - rewards.mean(1, keepdims=True))
    >>> made.of(torch.tensor([[0.0, 1.0]]), torch.ones(1, 2, 1)).tolist()
    [[-0.5, 0.5]]
    """
    fn = outside.loaded(fn, "advantage") if isinstance(fn, str) else fn
    taken = inspect.signature(fn).parameters
    roles = {name: role for name in taken if (role := arguments.role_of_reward(name)) in GIVEN}
    fits = "rewards" in roles.values() and all(name in roles or p.default is not p.empty for name, p in taken.items())
    bound = "a function of rewards, group_ids, num_generations, num_groups or mask, with defaults for others"
    remedy = "for values of a critic write sim.advantages.gae(...)"
    checks.require(fits, "advantage", f"{fn.__name__}({', '.join(taken)})", bound, remedy)
    small, errors = torch.eye(2, 3), list[Exception]()
    for library in arguments.libraries(fn):
        made = Written(fn, roles, library)
        try:
            made.of(small.unsqueeze(-1) if "mask" in roles.values() else small, torch.ones(2, 3, 1))
        except Exception as error:
            errors.append(error)
        else:
            return made
    remedy = "run asyncsim conformance FILE:NAME --kind advantage"
    raise outside.user_error(errors[0], "advantage", fn.__name__, "able to run on 2 groups of 3", remedy) from errors[0]
