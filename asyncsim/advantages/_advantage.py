"""What an advantage is."""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, overload

from torch import Tensor

from asyncsim.base import checks, parts, plugins
from asyncsim.step.step import Step


class Advantage(Protocol):
    """A rule for advantages: maps a step to advantages `[R, G, N]` or `[R, G, N, T]`, always detached.

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
    """Defaults of advantages: nothing to check, class name as header, return to go as the critic's target."""

    once = False
    outputs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    finishes = False
    """Whether it is `finished(step, estimate(step))`: then a minibatch can finish what was estimated in its batch."""

    def targets(self, step: Step) -> Tensor:
        """Sum of rewards from each token to the end of its episode, `[R, G, N, T]`, discounted if it has a discount."""
        from asyncsim.advantages._traces import tokens, traced

        return traced(tokens(step, None), getattr(self, "discount", 1.0), 1.0)

    def check(self, samples_per_group: float) -> None:
        """Accept any group size."""

    def describe(self) -> dict[str, Any]:
        return {"advantage": plugins.name_of(self), **vars(self)}


class GroupBaseline(Baseline):
    """An advantage that compares a sample with its group."""

    def check(self, samples_per_group: float) -> None:
        """Refuse groups of one sample, which has nothing to be compared with."""
        bound = "at least 2 for a group advantage"
        remedy = "raise samples_per_group, or use advantages.none() or offset()"
        checks.require(samples_per_group >= 2, "samples_per_group", samples_per_group, bound, remedy)


Settings = ParamSpec("Settings")


class Declares(Protocol):
    """Decorator that turns a rule, a function of a step and its knobs or a class, into its public factory."""

    @overload
    def __call__(self, body: type[Baseline]) -> Callable[..., Baseline]: ...

    @overload
    def __call__(self, body: Callable[Concatenate[Step, Settings], Tensor]) -> Callable[Settings, Baseline]: ...


def advantage(
    source: str, *, group: bool = True, unit: str = "in units of reward", shape: str = "[R, G, N]", raises: str = ""
) -> Declares:
    """Decorator for a rule: a function of a step and its knobs, or a class of this name with `__call__`.

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
