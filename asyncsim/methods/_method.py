"""A method as one value: advantage, weight on the score, penalty, aggregator.

The ascent direction of every method here is

    g = sum_it a_it m_it { c_it grad log pi(y_it) + sum_v e_itv grad log pi(v|s_it) }

`a` from the aggregator, `m` the mask, `c` the detached score weight, `e` a detached term on the whole distribution, 0
for most. A loss with a live ratio and one with a detached ratio times log pi have the same c, since grad(r A) = r A
grad log pi.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from asyncsim.advantages._advantage import Advantage, from_function
from asyncsim.base import arguments, calls, checks, plugins
from asyncsim.methods import _given
from asyncsim.methods._weights import Weight
from asyncsim.policies._policy import Forward, Policy
from asyncsim.step import versions
from asyncsim.step.batch import Batch, Outputs
from asyncsim.step.step import Carried, Step
from asyncsim.step.versions import View, Weights
from asyncsim.tasks._task import Task


def sequence_sum(step: Step) -> Tensor:
    """Aggregator mass / G per token, which gives the gradient of the expected reward."""
    return (step.mass / step.groups).unsqueeze(-1)


def sequence_mean(step: Step) -> Tensor:
    """Aggregator mass / (G T_i) per token: all sequences have equal weight, so tokens of long sequences have less."""
    return (step.mass / (step.groups * step.lengths.clamp(min=1.0))).unsqueeze(-1)


def token_mean(step: Step) -> Tensor:
    """Aggregator mass / sum(mass T_i) over the step: every token has equal weight."""
    tokens = (step.mass * step.lengths).sum((1, 2), keepdim=True)
    # Nothing may be left when groups were dropped: 0 / 1, not 0 / 0.
    return (step.mass / torch.where(tokens > 0, tokens, torch.ones_like(tokens))).unsqueeze(-1)


def constant(step: Step) -> Tensor:
    """Aggregator mass / (G T_max) per token: the sum over tokens is divided by a constant length."""
    return (step.mass / (step.groups * step.mask.shape[-1])).unsqueeze(-1)


AGGREGATORS: Mapping[str, Callable[[Step], Tensor]] = {
    each.__name__: each for each in (sequence_sum, sequence_mean, token_mean, constant)
}
ANCHORS = ("behavior", "proximal")


class Factor(Protocol):
    """A factor of the score weights, applied before aggregation: a mask, or a weight per sample.

    `factor(step, advantage)` is `[R, G, N, T or 1]`, detached; the denominators of aggregators do not see it.
    """

    @property
    def proximal(self) -> bool: ...

    def factor(self, step: Step, advantage: Tensor) -> Tensor: ...

    def describe(self) -> dict[str, Any]: ...


class Penalty(Protocol):
    """A term of the objective without an advantage, added to score weights c, `[R, G, N, T]`, and e (or None).

    Its sign is that of ascent: descent on beta KL adds negative numbers. Factors do not touch it.
    """

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def proximal(self) -> bool: ...

    def score_weight(self, step: Step) -> Tensor | None: ...

    def spread(self, step: Step) -> Tensor | None: ...

    def describe(self) -> dict[str, Any]: ...


_ADDED = (
    ("factors", "factor proximal describe", "Factor of asyncsim.factors._factor"),
    ("penalties", "score_weight spread outputs proximal describe", "Penalty of asyncsim.penalties.divergences"),
)
"""What a method adds to its weight: attributes that each has, and a base with most of them."""


def masked(weight: Tensor, factor: Tensor) -> Tensor:
    """Product of weight and factor, exactly 0 where the factor is 0, even if the weight is infinite or NaN."""
    return torch.where(factor == 0, torch.zeros((), dtype=weight.dtype, device=weight.device), weight * factor)


@calls.named
@dataclass(frozen=True)
class Method:
    """A method of policy optimization: advantage, score weight and aggregator, each of which can be replaced.

    `at` names the parameters of the pullback: "current", or "behavior" (A3C, asynchronous SGD). `anchor` names the
    policy that ratios refer to. `constants` are cotangents per unit of mass on other outputs: {"loss": -1.0} descends
    a loss, {"entropy": 0.01} is an entropy bonus. `critic` is the coefficient c of the value loss c (V - target)^2, V
    the output `critic_output`. `factors` multiply score weights (masks, weights of samples); `penalties` add
    weights of their own, aggregated like the method's. With `drop_equal`, groups whose rewards are all equal leave the
    step before anything is counted. `on_policy` says what the method is when all
    policies agree; `status` is "published" or "reconstruction" (formula or constants are partly ours).
    """

    name: str
    advantage: Advantage
    weight: Weight
    aggregator: str
    at: str = "current"
    anchor: str = "behavior"
    scored: bool = True
    constants: Mapping[str, float] = field(default_factory=dict)
    critic: float = 0.0
    critic_output: str = "value"
    factors: tuple[Factor, ...] = ()
    penalties: tuple[Penalty, ...] = ()
    drop_equal: bool = False
    on_policy: str = "policy gradient"
    status: str = "published"

    def __post_init__(self) -> None:
        if arguments.is_advantage(self.advantage) or (isinstance(self.advantage, str) and ":" in self.advantage):
            object.__setattr__(self, "advantage", from_function(self.advantage))
        remedy = plugins.by_name(self.advantage, "advantages", "write sim.advantages.NAME(...)")
        checks.require(hasattr(self.advantage, "check"), "advantage", self.advantage, "an advantage", remedy)
        checks.one_of("aggregator", self.aggregator, AGGREGATORS, "say how tokens are averaged")
        checks.one_of("at", self.at, ("current", "behavior"), "say at which parameters the gradient is taken")
        checks.one_of("anchor", self.anchor, ANCHORS, "say which policy ratios refer to")
        checks.real("critic", self.critic, "give the coefficient of the value loss, 0 for none", 0.0)
        for kind, of, base in _ADDED:
            parts, remedy = getattr(self, kind), f"write ({kind}.NAME(...),)"
            checks.require(isinstance(parts, (tuple, list)), kind, parts, f"a tuple of {kind}", remedy)
            for part in parts:
                lacks = [name for name in of.split() if not hasattr(part, name)]
                checks.require(of.split()[0] not in lacks, kind, part, f"a tuple of {kind}", remedy)
                checks.require(not lacks, kind, part, f"objects with {', '.join(lacks)}", f"inherit {base}")

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the policy outputs that the method uses."""
        names = [*["log_prob"] * self.scored, *self.constants, *[self.critic_output] * bool(self.critic)]
        names += [*self.weight.outputs, *self.advantage.reads]
        return tuple(dict.fromkeys(names + [name for penalty in self.penalties for name in penalty.outputs]))

    @property
    def proximal(self) -> bool:
        """Whether the method uses log-probs of the proximal policy, the weights at the start of a batch."""
        parts: tuple[Any, ...] = (self.weight, *self.factors, *self.penalties)
        return (self.anchor == "proximal" and self.weight.anchored) or any(part.proximal for part in parts)

    @property
    def ratio_to(self) -> str:
        """Denominator of the method's ratios: "none", "behavior", "proximal" or "behavior and proximal"."""
        anchored = self.weight.anchored and self.anchor == "proximal"
        if self.proximal and not anchored:
            return "behavior and proximal"
        if self.weight.level == "none" and not self.factors:
            return "none"
        return "proximal" if anchored else "behavior"

    def counted(self, mass: Tensor, reward: Tensor) -> Tensor | None:
        """1 for groups that the method keeps, 0 for groups that it drops, `[R, G, 1]`; None if it keeps all."""
        if not self.drop_equal:
            return None
        present = mass.expand(reward.shape) > 0
        some = torch.where(present, reward, torch.full((), -math.inf, dtype=reward.dtype)).amax(-1, keepdim=True)
        other = torch.where(present, reward, torch.full((), math.inf, dtype=reward.dtype)).amin(-1, keepdim=True)
        return (some > other).to(mass.dtype)

    def factor(self, step: Step, advantages: Tensor) -> Tensor:
        """Product of all factors of the method, `[R, G, N, T or 1]`, exactly 0 where any factor is 0."""
        product = self.factors[0].factor(step, advantages)
        for part in self.factors[1:]:
            factor = part.factor(step, advantages)
            nothing = torch.zeros((), dtype=product.dtype, device=product.device)
            product = torch.where((product == 0) | (factor == 0), nothing, product * factor)
        return product

    def factored(self, step: Step, advantages: Tensor, weight: Tensor) -> Tensor:
        """A score weight times all factors of the method, exactly 0 where any factor is 0, `[R, G, N, T or 1]`."""
        return masked(weight, self.factor(step, advantages)) if self.factors else weight

    def applied(self, step: Step) -> Tensor:
        """Score weight of each token at advantage 1, with factors and masks, `[R, G, N, T or 1]`."""
        return self.factored(step, torch.ones_like(step.mask[..., :1]), self.weight.applied(step))

    def share(self, step: Step) -> Tensor:
        """Aggregator times mask, a m: the weight of each token in the step, `[R, G, N, T]`."""
        return AGGREGATORS[self.aggregator](step) * step.mask

    def cotangents(self, step: Step) -> Outputs:
        """Cotangents of the policy outputs by name, one detached number per element, `[R, G, N, T]` or with actions."""
        share = self.share(step)
        cotangents: Outputs = {name: value * share for name, value in self.constants.items()}
        if self.scored:
            cotangents |= self._of_scores(step, share)
        if self.critic:
            if self.at == "current":
                value = step.current[self.critic_output]
            else:
                value = step.recorded(self.critic_output)
                value = torch.where(step.mask > 0, value, torch.zeros_like(value))
            cotangents[self.critic_output] = 2.0 * self.critic * (step.targets - value) * share
        return cotangents

    def _of_scores(self, step: Step, share: Tensor) -> Outputs:
        """Cotangents of `log_prob`, and of `log_probs` if a part has a term on the full distribution."""
        mask, advantages = step.mask, step.advantages
        advantages = advantages if advantages.ndim == 4 else advantages.unsqueeze(-1)
        # The estimator: c and e for these advantages.
        weight, spread = self.weight.score_weight(step, advantages), self.weight.spread(step, advantages)
        # Factors multiply both; what they take out is counted.
        if self.factors:
            factor = self.factor(step, advantages)
            weight = masked(weight, factor)
            spread = None if spread is None else masked(spread, factor.unsqueeze(-1))
            remaining = ((factor != 0) & (mask > 0)).to(share.dtype)
            step.statistics["kept_tokens"] = (step.share * remaining).sum((1, 2, 3))
            step.statistics["kept_sequences"] = (step.step_mass * remaining.amax(-1)).sum((1, 2))
        for penalty in self.penalties:
            added, wide = penalty.score_weight(step), penalty.spread(step)
            weight = weight if added is None else weight + added
            spread = wide if spread is None else spread if wide is None else spread + wide
        # Aggregate. Weights of masked tokens may be infinite; 0 * inf must not reach the sum.
        for own, every in zip_longest(weight.shape[::-1], share.shape[::-1], fillvalue=1):
            if own not in (1, every):
                bound = f"[R, G, N, T] = {list(share.shape)}, or 1 for an axis"
                remedy = f"let {self.name}, its advantage and its penalties return one number per token or sample"
                raise checks.InputError("shape of score weights", list(weight.shape), bound, remedy)
        total = weight * share
        cotangents = {"log_prob": total if step.batch.full else torch.where(mask > 0, total, torch.zeros_like(share))}
        if spread is not None:
            wide = spread * share.unsqueeze(-1)
            cotangents["log_probs"] = torch.where(mask.unsqueeze(-1) > 0, wide, torch.zeros_like(spread))
        return cotangents

    def replace(self, **changes: Any) -> "Method":
        """Copy of the method with some parts replaced."""
        return calls.replaced(self, changes)

    def weigh(self, log_prob: Tensor, behavior_log_prob: Tensor, *arguments: Any, **settings: Any) -> _given.Weighed:
        """Apply the method to given log-probs: the cotangent a m c of every token, and its factors a m and c.

        Arguments: `log_prob` (current), `behavior_log_prob` (of the true sampler) and, where the method reads it,
        `proximal_log_prob` (start of the batch), each `[N, T]` (one group), `[G, N, T]` or `[R, G, N, T]` in nats;
        `rewards` `[..., N]` (the method's own advantage is taken) or `advantages` `[..., N]` or `[..., N, T]` (taken as
        they are; then rewards are for methods that drop groups or weigh by them); `mask` 0 or 1, like `log_prob`;
        `staleness` in versions, NaN where unknown, and `reference_log_prob`, both like `log_prob`, where read;
        `categorical=False` for densities. Returns `Weighed`, every tensor detached and shaped like `log_prob`. Raises
        `InputError` for shapes that do not match, a mask of zeros, and a group of one with a group advantage. So it
        does for log-probs that are missing or above 0, and NaN or +inf in one that counts.

        >>> import asyncsim as sim
        >>> now, then = torch.tensor([[-0.5], [-1.5]]), torch.tensor([[-1.0], [-1.0]])
        >>> found = sim.methods.truncated_is("token", cap=1.5).weigh(now, then, advantages=torch.tensor([1.0, -1.0]))
        >>> [round(c, 3) for c in found.score_weight.flatten().tolist()]
        [1.5, -0.607]
        """
        return _given.weigh(self, log_prob, behavior_log_prob, *arguments, **settings)

    def loss(self, log_prob: Tensor, behavior_log_prob: Tensor, *arguments: Any, **settings: Any) -> Tensor:
        """Loss for `backward`, with value -sum a m c, whose gradient in `log_prob` is minus the method's cotangent.

        Arguments as in `weigh`; `log_prob` carries the graph. Tokens that are impossible now, of log-prob -inf, have no
        gradient. Raises `InputError` also for a method whose gradient belongs to the behavior parameters.

        >>> import asyncsim as sim
        >>> now = torch.tensor([[-0.5], [-1.5]], requires_grad=True)
        >>> then, rewards = torch.tensor([[-1.0], [-1.0]]), torch.tensor([1.0, 0.0])
        >>> sim.methods.reinforce(sim.advantages.group_mean()).loss(now, then, rewards=rewards).backward()
        >>> now.grad.flatten().tolist()
        [-0.25, 0.25]
        """
        return _given.loss(self, log_prob, behavior_log_prob, *arguments, **settings)

    def describe(self) -> dict[str, Any]:
        """Settings of the method for the header of a run, including the anchor."""
        weight = self.weight.describe()
        # Both may have a setting of one name, as `scope` or `normalize`.
        baseline = {f"advantage_{k}" if k in weight else k: value for k, value in self.advantage.describe().items()}
        header = {"method": self.name, **baseline, "aggregator": self.aggregator, **weight, "at": self.at}
        header |= {"anchor": self.anchor, "constants": dict(self.constants), "critic": self.critic}
        parts: dict[str, tuple[Any, ...]] = {"factors": self.factors, "penalties": self.penalties}
        header |= {name: [part.describe() for part in each] for name, each in parts.items() if each}
        return header | ({"drop_equal": True} if self.drop_equal else {})


def evaluate(
    method: Method,
    task: Task,
    policy: Policy,
    weights: Weights,
    batch: Batch,
    start: Carried | None = None,
    also: tuple[str, ...] = (),
    micro_batches: int = 1,
) -> Step:
    """Compute a method's step on a batch, with the ascent direction `[R, P]` as `gradient`.

    `weights` are the current ones; only the pullback itself may be at others (`at="behavior"`). `start`: what the first
    update on the batch has left (None: this is the first); `also` names further outputs to compute; `micro_batches`, in
    how many passes the policy does it.
    """
    view = {"current": versions.current(weights), "behavior": batch.view}[method.at]
    remedy = "use drawing='late', which keeps weights"
    if view is None:
        raise checks.InputError("at", method.at, "current with early drawing", remedy)
    names, at_current = tuple(dict.fromkeys((*method.outputs, *also))), method.at == "current"
    asked, whole = names if at_current else (), micro_batches == 1
    passed = policy.forward(view, batch, asked) if whole else forward(policy, view, batch, asked, micro_batches)
    step = Step(method, batch, passed.outputs if at_current else None, start, task, policy, weights, view, names)
    step.gradient = passed.pullback(method.cotangents(step))
    return step


def forward(policy: Policy, view: View, batch: Batch, names: tuple[str, ...], parts: int) -> Forward:
    """Evaluate `policy.forward` on `parts` micro-batches of about equal size, split between groups or samples.

    What a micro-batch needs for its pullback is computed again there: a pass holds no more than one of them.
    """
    axis, edges = _cuts(batch, parts)
    spans = list(pairwise(edges))

    def passed(low: int, high: int) -> Forward:
        seen = View(view.weights, _rows(view.slot, axis, low, high), view.realization)
        return policy.forward(seen, _part(batch, axis, low, high), names)

    done = [passed(*span).outputs for span in spans]
    outputs = {name: torch.cat([each[name] for each in done], axis) for name in names}

    def pullback(cotangents: Outputs) -> Tensor:
        shape = batch.action.shape[:4]
        whole = {name: each.expand(*shape, *each.shape[4:]) for name, each in cotangents.items()}

        def pulled(low: int, high: int) -> Tensor:
            return passed(low, high).pullback({name: x.narrow(axis, low, high - low) for name, x in whole.items()})

        total = pulled(*spans[0]).clone()
        for span in spans[1:]:
            total += pulled(*span)
        return total

    return Forward(outputs, pullback)


def _cuts(batch: Batch, parts: int) -> tuple[int, list[int]]:
    """Axis along which the step is split, and the edges; every micro-batch has about the same size."""
    groups, samples = batch.action.shape[1:3]
    axis, length = (1, groups) if groups >= parts else (2, samples)
    bound = f"at most the groups ({groups}) or the samples of a group ({samples})"
    checks.require(parts <= length, "micro_batches", parts, bound, "use fewer micro-batches")
    return axis, [round(length * k / parts) for k in range(parts + 1)]


def _part(batch: Batch, axis: int, low: int, high: int) -> Batch:
    def cut(x: Tensor) -> Tensor:
        return x.narrow(axis, low, high - low) if x.shape[axis] > 1 else x

    columns = ("action", "state", "mask", "reward", "mass", "token_reward", "ended", "finished")
    changes: dict[str, Any] = {name: cut(x) for name in columns if (x := getattr(batch, name)) is not None}
    behavior = {name: cut(value) for name, value in batch.behavior.items()}
    version, trajectory = (_rows(x, axis, low, high) for x in (batch.version, batch.trajectory))
    return dataclasses.replace(
        batch, **changes, behavior=behavior, version=version, trajectory=trajectory, index=None, age=None, _full=None
    )


def _rows(x: np.ndarray, axis: int, low: int, high: int) -> np.ndarray:
    return x if x.shape[axis] == 1 else x.take(np.arange(low, high), axis)


def added(method: Method, penalties: Sequence[Any] = (), factors: Sequence[Any] = ()) -> Method:
    """A method extended by penalties (`sim.penalties`) and factors (`sim.factors`).

    Arguments: what to add, in order. Returns a method. Raises `InputError` for what is no method, penalty or factor.
    Source: this package.

    >>> import asyncsim as sim
    >>> sim.methods.added(sim.methods.grpo(), penalties=[sim.penalties.k3(0.01)]).penalties
    (K3(coefficient=0.01, to='reference', ratio='none'),)
    """
    checks.require(isinstance(method, Method), "method", method, "a method", "write sim.methods.NAME(...)")
    for kind, parts in (("penalties", penalties), ("factors", factors)):
        listed = isinstance(parts, (list, tuple))
        checks.require(listed, kind, parts, "a list", f"write {kind}=[sim.{kind}.NAME(...)]")
    return method.replace(penalties=(*method.penalties, *penalties), factors=(*method.factors, *factors))
