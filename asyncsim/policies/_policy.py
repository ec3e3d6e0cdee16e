"""What every policy offers, and the records that acting and a forward pass return."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.versions import View, Weights

Pullback = Callable[[Outputs], Tensor]
"""Cotangents by output name, each `[R, G, N, T]`, to the ascent direction `[R, P]`."""


class Forward(NamedTuple):
    """Detached outputs of a policy on a batch, and the pullback at the parameters that they were computed with."""

    outputs: Outputs
    pullback: Pullback


class Act(NamedTuple):
    """Actions of one token position, `[R, G, N]` or `[R, G, N, D]`, and the outputs recorded while choosing them.

    Without outputs the rollout scores the finished batch itself.
    """

    action: Tensor
    outputs: Outputs


class Keys(NamedTuple):
    """What the noise of an engine is keyed by: the run's seed, global numbers of replicates `[R]`, and a version."""

    seed: int
    replicates: np.ndarray
    version: int


class Policy(Protocol):
    """A map from parameters `[R, P]` and a batch to named outputs.

    `size` is P; `outputs` names what it can compute; `threads` is how many its tensors are big enough for; `together`
    is the most replicates that one block can hold (None: any number); `apart` whether a replicate has the same bits
    whatever others are in its block (absent: it may not); `whole` whether it reads a trajectory as a whole, so that
    its tokens cannot be taken apart (absent: it does not); `devices` are those it can run on; `drawing` is when its
    trajectories are drawn and `precision` the type of its parameters unless a spec says otherwise; `critic` says
    whether it has the output `value`; `mismatched` whether it samples with other numerics than it is trained with
    (then `score` gives the trainer's log-probs, and `compared` what is recorded beside those sampled). `prepare` turns
    parameters into the weights that are published;
    `install` is what the engine makes of them (without keys: where outcomes are listed outside of a run); `record` what
    it says of a batch that it did not score while acting, `misreport` what it says wrongly of drawn samples, and `law`
    the log-probs that it drew from;
    `remember` starts what it carries from token to token, `recall` cuts one of its samples out of that, `packed` and
    `unpacked` turn it into plain containers and back; `act` chooses the actions of one token position from keyed
    draws, at least for the rows that are `active` (None: all); `hear` notes a token that the environment wrote, int64
    `[R, G, N]`, for some rows, bool `[R, G, N]`; `value` is the critic at an observation; `forward`
    returns detached outputs with their pullback; `absorb` updates the buffers among the parameters from a batch that
    has been trained; `score_norm` is the squared norm of each sample's summed score with a weight per token.
    """

    @property
    def together(self) -> int | None: ...

    @property
    def devices(self) -> tuple[str, ...]: ...

    @property
    def drawing(self) -> str: ...

    @property
    def precision(self) -> str: ...

    @property
    def mismatched(self) -> bool: ...

    @property
    def size(self) -> int: ...

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def threads(self) -> int: ...

    @property
    def critic(self) -> bool: ...

    def initial(self, replicates: int | np.ndarray, dtype: torch.dtype, seed: int = 0) -> Tensor: ...

    def prepare(self, parameters: Tensor) -> Weights: ...

    def install(self, weights: Weights, keys: Keys | None) -> Weights: ...

    def record(self, view: View, batch: Batch) -> Outputs: ...

    def misreport(self, outputs: Outputs, draws: Draws) -> Outputs: ...

    def law(self, view: View, batch: Batch) -> Tensor | None: ...

    def remember(self, seen: Tensor) -> Any: ...

    def recall(self, memory: Any, row: int) -> Any: ...

    def packed(self, memory: Any) -> Any: ...

    def unpacked(self, tree: Any) -> Any: ...

    def act(
        self, view: View, seen: Tensor, draws: Draws, token: int, memory: Any = None, active: Tensor | None = None
    ) -> Act: ...

    def hear(self, memory: Any, token: int, action: Tensor, rows: Tensor) -> None: ...

    def value(self, view: View, seen: Tensor) -> Tensor: ...

    def score(self, view: View, batch: Batch) -> Tensor: ...

    def compared(self, view: View, batch: Batch) -> Outputs: ...

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward: ...

    def absorb(self, parameters: Tensor, batch: Batch) -> Tensor: ...

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor: ...

    def describe(self) -> dict[str, Any]: ...


class Plain:
    """Defaults of a policy without memory, buffers, critic or device, whose sampler is its trainer."""

    outputs: ClassVar[tuple[str, ...]]
    together: ClassVar[int | None] = None
    apart: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    drawing: ClassVar[str] = "late"
    precision: ClassVar[str] = "float64"
    mismatched: ClassVar[bool] = False

    @property
    def critic(self) -> bool:
        """Whether there is an output `value`."""
        return "value" in self.outputs

    def install(self, weights: Weights, keys: Keys | None) -> Weights:
        """The weights as they were published."""
        return weights

    def record(self, view: View, batch: Batch) -> Outputs:
        """The first output at the weights that generated the batch."""
        return self.forward(view, batch, self.outputs[:1]).outputs

    def misreport(self, outputs: Outputs, draws: Draws) -> Outputs:
        """What was recorded is what was drawn from."""
        return outputs

    def law(self, view: View, batch: Batch) -> Tensor | None:
        """Log-probs of the law that actions were drawn from, `[R, G, N, T]`; None: the recorded ones."""
        return None

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """Every policy has its own."""
        raise NotImplementedError

    def remember(self, seen: Tensor) -> Any:
        """Nothing."""

    def recall(self, memory: Any, row: int) -> Any:
        """Nothing."""

    def packed(self, memory: Any) -> Any:
        """What is remembered, as it is: numbers, tensors and containers of them can be written to a checkpoint."""
        return memory

    def unpacked(self, tree: Any) -> Any:
        """What was remembered."""
        return tree

    def hear(self, memory: Any, token: int, action: Tensor, rows: Tensor) -> None:
        """Nothing: what the environment wrote stands in the next state."""

    def value(self, view: View, seen: Tensor) -> Tensor:
        """There is no critic."""
        raise checks.InputError("policy", plugins.name_of(self), "one with a critic", "use one with a value output")

    def score(self, view: View, batch: Batch) -> Tensor:
        """The sampler is the trainer: its log-probs are the recorded ones."""
        return batch.behavior["log_prob"]

    def compared(self, view: View, batch: Batch) -> Outputs:
        """The trainer's log-probs, `scored_log_prob`."""
        return {"scored_log_prob": self.score(view, batch)}

    def absorb(self, parameters: Tensor, batch: Batch) -> Tensor:
        """No buffers."""
        return parameters

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """Refused: a gradient per sample is too much for a network."""
        raise checks.InputError(
            "advantage", "opob", "one that needs no score norm of each sample", "use advantages.group_mean()"
        )


_REMEDIES = {
    "value": "use a policy with a critic: policies.mlp(critic=True), policies.causal_lm(critic=True)",
    "action_value": "use policies.mlp(critic='action')",
    "action_values": "use policies.mlp(critic='action')",
    "log_probs": "use a policy with a finite number of actions",
    "reference": "use policies.tabular(reference=...)",
    "log_prob": "the quadratic goes with methods.gradient()",
    "loss": "the quadratic goes with methods.gradient()",
}
"""Where an output that a part reads can be had."""


def require_outputs(policy: Policy, names: Iterable[str], field: str, value: Any) -> None:
    """Refuse a part that reads outputs which a policy does not have."""
    lacking = set(names) - set(policy.outputs)
    remedy = next((text for name, text in _REMEDIES.items() if name in lacking), "leave it out")
    bound = "computable from the policy's outputs " + ", ".join(policy.outputs)
    checks.require(not lacking, field, value, bound, f"it reads {', '.join(sorted(lacking))}; {remedy}")


def installed(policy: Policy, weights: Weights, keys: Keys | None = None) -> Weights:
    """What the engine of a policy makes of published weights; they are left alone where the sampler is the trainer."""
    return policy.install(weights, keys) if policy.mismatched else weights


def absorbed(
    policy: Policy, parameters: Tensor, weights: Weights, batch: Batch, diverged: Tensor
) -> tuple[Tensor, Weights]:
    """Parameters with the buffers that a batch leaves behind, and their prepared weights.

    A replicate that has stopped (`diverged` `[R]` is not -1) keeps its own.
    """
    fresh = policy.absorb(parameters, batch)
    if fresh is parameters:
        return parameters, weights
    fresh = torch.where((diverged < 0).unsqueeze(-1), fresh, parameters)
    return fresh, policy.prepare(fresh)


def fingerprint(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """12 hexadecimal digits of named tensors by their contents.

    >>> fingerprint([("a", torch.zeros(2))]) == fingerprint([("a", torch.tensor([0.0, -0.0]))])
    False
    """
    whole = hashlib.sha256()
    for name, tensor in tensors:
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        whole.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()[:12]


def count(replicates: int | np.ndarray) -> int:
    """How many replicates: a number, or the global numbers of a block."""
    return replicates if isinstance(replicates, int) else len(replicates)


def gathered(view: View, name: str, shape: tuple[int, ...]) -> Tensor:
    """The weights `[R, D]` that each sample reads, `[R, G, N, D]` (or broadcastable to it)."""
    stack = view.weights[name]
    if view.single:
        return stack[int(view.slot.flat[0])][:, None, None, :]
    replicate = torch.arange(stack.shape[1]).reshape(-1, 1, 1)
    return stack[view.slots((*shape, 1))[..., 0], replicate]
