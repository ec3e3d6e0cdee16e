"""What every policy offers, and the records that acting and a forward pass return."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from asyncsim.base import calls, checks, plugins
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.versions import View, Weights

Replicates = int | np.ndarray
"""How many replicates, or the global numbers of a block."""
Pullback = Callable[[Outputs], Tensor]
"""Cotangents by output name, each `[R, G, N, T]`, to the ascent direction `[R, P]`."""


class Forward(NamedTuple):
    """Detached outputs of a policy on a batch, and the pullback of cotangents at the same parameters."""

    outputs: Outputs
    pullback: Pullback


class Act(NamedTuple):
    """Actions of one token position, `[R, G, N]` or `[R, G, N, D]`, and the outputs recorded while choosing them.

    Without outputs the rollout scores the finished batch itself.
    """

    action: Tensor
    outputs: Outputs


class Moves(NamedTuple):
    """Transition table of trajectories: `following` int64 `[S, A]`, next state per action, -1 after the last token.

    `passed` int64 `[1, 1, 1, T]`: the states of all trajectories, where these are the same whatever is chosen.
    """

    following: np.ndarray
    passed: Tensor | None


class Walk(NamedTuple):
    """Columns `[R, G, N, T]` of full trajectories that were sampled at once.

    `cell`: which one of the policy's table each token reads; `full`: whether none ends before the horizon.
    """

    state: Tensor
    action: Tensor
    mask: Tensor
    outputs: Outputs
    cell: Tensor
    full: bool


class Written(NamedTuple):
    """Columns `[R, G, N, T, ...]` of trajectories sampled at once by `write`; `action` None if none is sampled yet."""

    action: Tensor | None
    mask: Tensor
    outputs: Outputs


class Keys(NamedTuple):
    """Keys of a sampling engine's noise: the run's seed, global replicate numbers `[R]`, and a version."""

    seed: int
    replicates: np.ndarray
    version: int


class Policy:
    """A map from parameters `[R, P]` and a batch to named outputs; by default without memory, buffers or critic.

    `size` is P; `outputs` names what it can compute; `threads` is how many its tensors are big enough for; `together`
    is the most replicates that one block can hold (None: any number); `apart` whether a replicate has the same bits
    whatever others are in its block; `whole` whether it reads a trajectory as a whole, so that its tokens cannot be
    taken apart; `devices` are those it can run on; `drawing` is when its trajectories are drawn and `precision` the
    type of its parameters unless a spec says otherwise; `mismatched` whether it samples with other numerics than it is
    trained with; `truncates` whether its trainer, too, gives tokens outside a nucleus the log-prob -inf.
    """

    outputs: ClassVar[tuple[str, ...]]
    # For networks, a second thread gains a factor below 2 and loses one of 10 where another process holds its core.
    threads: ClassVar[int] = 1
    together: ClassVar[int | None] = None
    apart: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    drawing: ClassVar[str] = "late"
    precision: ClassVar[str] = "float64"
    mismatched: ClassVar[bool] = False
    truncates: ClassVar[bool] = False

    @property
    def size(self) -> int:
        """Number of the policy's parameters, P."""
        raise NotImplementedError

    @property
    def critic(self) -> bool:
        """Whether the policy has an output `value`."""
        return "value" in self.outputs

    def __call__(self, *given: Any) -> Any:
        """Raise `TypeError`, since only a run calls a policy."""
        raise TypeError(f"a policy is no network; {checks.advice('()', 'Policy')}")

    def initial(self, replicates: Replicates, dtype: torch.dtype, seed: int = 0) -> Tensor:
        """Initial parameters `[R, P]` of the first replicates, or of the replicates with given global numbers."""
        raise NotImplementedError

    def prepare(self, parameters: Tensor) -> Weights:
        """Weights to publish for parameters `[R, P]`, by default the parameters themselves."""
        return {"parameters": parameters}

    def install(self, weights: Weights, keys: Keys | None = None) -> Weights:
        """Weights as the sampling engine installs them; without keys if outcomes are enumerated outside of a run."""
        return weights

    def record(self, view: View, batch: Batch) -> Outputs:
        """Outputs that the engine reports for a batch that it did not sample itself: the policy's first output."""
        return self.forward(view, batch, self.outputs[:1]).outputs

    def misreport(self, outputs: Outputs, draws: Draws) -> Outputs:
        """Outputs recorded while sampling, with the engine's reporting errors."""
        return outputs

    def law(self, view: View, batch: Batch) -> Tensor | None:
        """Log-probs under the distribution of the sampled actions, `[R, G, N, T]`; None for the recorded log-probs."""
        return None

    def remember(self, seen: Tensor) -> Any:
        """Initial memory of the policy (such as caches), which is carried from token to token."""

    def recall(self, memory: Any, row: int) -> Any:
        """The policy's memory of one sample."""

    def packed(self, memory: Any) -> Any:
        """Convert the policy's memory to plain containers of numbers and tensors, which a checkpoint can store."""
        return memory

    def unpacked(self, tree: Any) -> Any:
        """Restore the policy's memory from the result of `packed`."""
        return tree

    def act(
        self, view: View, seen: Tensor, draws: Draws, token: int, memory: Any = None, active: Tensor | None = None
    ) -> Act:
        """Sample actions at one token position from keyed draws, at least for `active` rows (None: all)."""
        raise NotImplementedError

    def walk(self, view: View, moves: Moves, state: Tensor, draws: Draws, horizon: int) -> Walk | None:
        """Sample all tokens from first states `[R, G, N]` at once, as `act` would one by one; None if unsupported."""
        return None

    def writes(self, weights: Weights) -> bool:
        """Whether `write` is supported, which samples the same tokens as `act` does one by one."""
        return False

    def write(
        self, view: View, seen: Tensor, draws: Draws, stops: tuple[int, ...], before: Written, where: Tensor | None
    ) -> Written:
        """Sample all tokens that `where` selects (bool `[R, G, N, T]`; None: all), after those in the columns `before`.

        A trajectory ends behind an id of `stops`. Nothing is remembered: where it goes on, it is read again.
        """
        raise NotImplementedError

    def hear(self, memory: Any, token: int, action: Tensor, rows: Tensor) -> None:
        """Record a token that the environment wrote, int64 `[R, G, N]`, for some rows, bool `[R, G, N]`."""

    def value(self, view: View, seen: Tensor) -> Tensor:
        """Critic's value of an observation."""
        raise checks.InputError("policy", plugins.name_of(self), "one with a critic", "use one with a value output")

    def score(self, view: View, batch: Batch) -> Tensor:
        """The trainer's log-probs of a batch at the behavior weights, `[R, G, N, T]`."""
        return self.forward(view, batch, ("log_prob",)).outputs["log_prob"]

    def compared(self, view: View, batch: Batch) -> Outputs:
        """The trainer's log-probs, `scored_log_prob`, to record beside those of a mismatched sampler."""
        return {"scored_log_prob": self.score(view, batch)}

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """Outputs of the policy on a batch, detached, and their pullback."""
        raise NotImplementedError

    def named(self, names: Iterable[str], remedy: str = "use a policy that offers it") -> tuple[str, ...]:
        """Return the requested output names; refuse names of outputs that the policy does not have."""
        return tuple(checks.one_of("policy output", name, self.outputs, remedy) for name in names)

    def absorb(self, parameters: Tensor, batch: Batch) -> Tensor:
        """Parameters with their buffers (such as normalizers) updated from a trained batch."""
        return parameters

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """Squared norm of each sample's score, summed with a weight per token; too expensive for most networks."""
        bound = "one that needs no score norm of each sample"
        raise checks.InputError("advantage", "opob", bound, "use advantages.group_mean()")

    def as_module(self, parameters: Tensor) -> nn.Module:
        """The policy's network with parameters `[P]` as a plain torch module."""
        bound, remedy = "a network", "use policies.mlp, policies.module or policies.causal_lm"
        raise checks.InputError("policy", plugins.name_of(self), bound, remedy)

    def export(self, parameters: Tensor, folder: Any) -> None:
        """Write the policy's network with parameters `[P]` in the format of `transformers`."""
        bound, remedy = "a model that transformers reads", "save trace.module() with torch.save"
        raise checks.InputError("policy", plugins.name_of(self), bound, remedy)

    def describe(self) -> dict[str, Any]:
        """Settings of the policy for the header of a run."""
        raise NotImplementedError


setattr(Policy, "__getattr__", vars(calls.Told)["__getattr__"])  # noqa: B010 - its methods are called too often to wrap


def require_outputs(policy: Policy, names: Iterable[str], field: str, value: Any) -> None:
    """Refuse a part of a method that needs outputs which the policy does not have."""
    lacking = set(names) - set(policy.outputs)
    advice = (checks.advice(name, "output") for name in sorted(lacking, reverse=True))
    remedy = next(filter(None, advice), "leave it out")
    bound = "computable from the policy's outputs " + ", ".join(policy.outputs)
    checks.require(not lacking, field, value, bound, f"it reads {', '.join(sorted(lacking))}; {remedy}")


def absorbed(
    policy: Policy, parameters: Tensor, weights: Weights, batch: Batch, diverged: Tensor
) -> tuple[Tensor, Weights]:
    """Parameters with buffers updated from a trained batch, and the weights to publish for them.

    A replicate that has stopped (`diverged` `[R]` is not -1) keeps its own.
    """
    fresh = policy.absorb(parameters, batch)
    if fresh is parameters:
        return parameters, weights
    fresh = torch.where((diverged < 0).unsqueeze(-1), fresh, parameters)
    return fresh, policy.prepare(fresh)


def fingerprint(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Hash of named tensors by their contents, 12 hexadecimal digits."""
    whole = hashlib.sha256()
    for name, tensor in tensors:
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        whole.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()[:12]


def numbers(replicates: Replicates) -> np.ndarray:
    """Global numbers of replicates, given as a count or as numbers."""
    return np.arange(replicates) if isinstance(replicates, (int, np.integer)) else np.asarray(replicates)


def count(replicates: Replicates) -> int:
    """Number of replicates, given as a count or as global numbers."""
    return len(numbers(replicates))


def gathered(view: View, shape: tuple[int, ...]) -> Tensor:
    """Parameters that each sample uses, `[R, G, N, D]` (or broadcastable to it), from parameters `[R, D]`."""
    stack = view.weights["parameters"]
    if view.single:
        return stack[int(view.slot.flat[0])][:, None, None, :]
    replicate = torch.arange(stack.shape[1]).reshape(-1, 1, 1)
    return stack[view.slots((*shape, 1))[..., 0], replicate]
