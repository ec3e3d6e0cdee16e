"""A policy from any torch module: replicates by `torch.func`, gradients by autograd."""

import copy
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from asyncsim.base import checks, outside, plugins
from asyncsim.base.parts import flag, handed_on, made, whole
from asyncsim.policies._mlp_network import SAMPLER, Categorical, Networked, checked, merged, passes, rounded
from asyncsim.policies._policy import Act, Forward, Replicates, fingerprint, numbers
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.versions import View

_TEXTS = checks.table(__file__, "texts.toml")["_module"]

_HEAD = Categorical()
_TRIAL = 3
"""Observations that a module is tried on."""


@dataclass(frozen=True)
class Module(Networked):
    """Categorical policy from a torch module, with flat parameters `[R, P]`; see `module`."""

    make: Callable[[], nn.Module]
    observation: int
    actions: int
    has_critic: bool
    sampler: str | None = None

    head: ClassVar[str] = "categorical"

    @cached_property
    def template(self) -> nn.Module:
        """A copy of the torch module that provides its structure; its weights do not matter."""
        return _seeded(self.make, 0, 0).eval()

    @property
    def frozen(self) -> str | None:
        """Fingerprint of the module's buffers, which keep their initial values and are not trained."""
        buffers = list(self.template.named_buffers())
        return fingerprint(buffers) if buffers else None

    @property
    def outputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("log_prob", "entropy", *(("value",) if self.has_critic else ()), "log_probs")

    @property
    def size(self) -> int:
        return sum(each.numel() for each in self.template.parameters())

    def initial(self, replicates: Replicates, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
        """Initial parameters `[R, P]`, from a module created for each replicate with its own seed."""
        modules = [_seeded(self.make, seed, int(number)) for number in numbers(replicates)]
        rows = [parameters_to_vector(each.parameters()).detach() for each in modules]
        return torch.stack(rows).to(torch.get_default_device(), dtype)

    def rounded(self, parameters: Tensor, form: str) -> Tensor:
        """Parameters with every tensor rounded to a number format; int8 has a scale per row of a matrix."""
        parts = []
        for part, each in self._parts(parameters):
            along = tuple(range(2, part.ndim)) if each.ndim > 1 else None
            parts.append(rounded(part, form, along).flatten(1))
        return torch.cat(parts, 1)

    def act(
        self, view: View, seen: Tensor, draws: Draws, token: int, memory: Any = None, active: Tensor | None = None
    ) -> Act:
        """Sample actions of one token position, int64 `[R, G, N]`, with log-probs and state values."""
        shape = seen.shape[:3]
        name = "sampled" if self.mismatched else "parameters"
        raw, value = self._evaluated(passes(view, (*shape, 1), name), seen.flatten(1, 2))
        if self.mismatched and value is not None:
            # The trainer values what the sampler has seen.
            _, value = self._evaluated(passes(view, (*shape, 1)), seen.flatten(1, 2))
        action = _HEAD.draw(raw, _spread(raw), draws, token)
        outputs = {"log_prob": _HEAD.log_prob(raw, _spread(raw), action.flatten(1, 2)).unflatten(1, shape[1:])}
        if value is not None:
            outputs["value"] = value.unflatten(1, shape[1:])
        return Act(action, outputs)

    def value(self, view: View, seen: Tensor) -> Tensor:
        """State values `[R, G, N]` of observations `[R, G, N, D]`."""
        shape = seen.shape[:3]
        _, value = self._evaluated(passes(view, (*shape, 1)), seen.flatten(1, 2))
        return super().value(view, seen) if value is None else value.unflatten(1, shape[1:])

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """Outputs by name, `[R, G, N, T]` (`log_probs` `[R, G, N, T, A]`), and the pullback, by autograd."""
        shape, names = batch.action.shape[:4], self.named(names)
        rows, action = batch.state.expand(*shape, self.observation).flatten(1, 3), batch.action.flatten(1, 3)
        with torch.enable_grad():
            leaves = [(p.detach().requires_grad_(), chosen) for p, chosen in passes(view, shape)]
            raw, value = self._evaluated(leaves, rows)
            graph = {name: _output(name, raw, value, action) for name in names}
        outputs = {name: each.detach().unflatten(1, shape[1:]) for name, each in graph.items()}

        def pullback(cotangents: Outputs) -> Tensor:
            with torch.enable_grad():
                # At other weights than the current ones no output was asked for.
                ends = [graph[name] if name in graph else _output(name, raw, value, action) for name in cotangents]
            weights = [each.expand(*shape, *each.shape[4:]).flatten(1, 3) for each in cotangents.values()]
            inputs = [leaf for leaf, _ in leaves]
            gradients = torch.autograd.grad(
                ends, inputs, [w.to(e.dtype) for w, e in zip(weights, ends, strict=True)], retain_graph=True
            )
            return torch.stack(gradients).sum(0)

        return Forward(outputs, pullback)

    def _evaluated(self, versions: list[tuple[Tensor, Tensor | None]], rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Logits `[R, n, A]` and values `[R, n]` of rows `[R, n, D]`, each with its own weights."""
        evaluated = [(self._call(parameters, rows.to(parameters.dtype)), chosen) for parameters, chosen in versions]
        raw = merged([(raw, chosen) for (raw, _), chosen in evaluated])
        values = [(value, chosen) for (_, value), chosen in evaluated if value is not None]
        return raw, merged(values) if values else None

    def _parts(self, parameters: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter for every replicate `[R, ...]`, and in the template; a scalar is `[R, 1]`."""
        start = 0
        for each in self.template.parameters():
            yield parameters[:, start : start + each.numel()].unflatten(1, each.shape or (1,)), each
            start += each.numel()

    def _call(self, parameters: Tensor, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Evaluate the module on each replicate's rows with its parameters `[R, P]`."""
        names = [name for name, _ in self.template.named_parameters()]
        named = {
            name: part.squeeze(-1) if each.ndim == 0 else part
            for name, (part, each) in zip(names, self._parts(parameters), strict=True)
        }
        # Buffers are as they were made, in float32 on the CPU; integers stay integers.
        buffers = {
            name: each.to(parameters.device, parameters.dtype if each.is_floating_point() else each.dtype)
            for name, each in self.template.named_buffers()
        }
        result = vmap(lambda own, seen: functional_call(self.template, own | buffers, (seen,)))(named, rows)
        raw, value = result if self.has_critic else (result, None)
        return raw, value if value is None else value.reshape(raw.shape[:-1])

    def as_module(self, parameters: Tensor) -> nn.Module:
        """Torch module with the parameters `[P]`."""
        own = copy.deepcopy(self.template)
        vector_to_parameters(parameters.to(next(own.parameters()).dtype), own.parameters())
        return own

    def describe(self) -> dict[str, Any]:
        own = {"policy": "module", "module": plugins.name_of(self.template), "observation": self.observation}
        own |= {"actions": self.actions, "critic": self.has_critic, "parameters": self.size}
        return {**own, **({"sampler": self.sampler} if self.sampler else {})}


def _seeded(make: Callable[[], nn.Module], seed: int, number: int) -> nn.Module:
    """Create a module with its own random seed; the caller's generator is unchanged."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))
        return make()


def _spread(raw: Tensor) -> Tensor:
    """Empty log standard deviation, since a softmax has none."""
    return raw.new_zeros((raw.shape[0], 1, 0))


def _output(name: str, raw: Tensor, value: Tensor | None, action: Tensor) -> Tensor:
    if name == "value":
        assert value is not None
        return value
    if name == "log_probs":
        return raw.log_softmax(-1)
    return _HEAD.log_prob(raw, _spread(raw), action) if name == "log_prob" else _HEAD.entropy(raw, _spread(raw))


@made(**_TEXTS["module"])
def module(
    make: Any = handed_on(..., **_TEXTS["make"]),
    observation: int = whole(..., low=1, high=checks.LARGEST, **_TEXTS["observation"]),
    actions: int = whole(..., "A, number of actions", 2, checks.LARGEST, remedy="an action needs a choice"),
    critic: bool = flag("the module returns values too"),
    sampler: str | None = SAMPLER,
) -> Module:
    """Any torch module as a policy over a finite number of actions: pi(a | s) = softmax(module(s))_a.

    Replicates are one call of the module by `torch.func.vmap`, gradients are autograd's. The module runs in eval mode.
    Assumes that the module does not change its buffers.

    >>> policy = module(lambda: nn.Linear(4, 2), observation=4, actions=2)
    >>> policy.size, policy.outputs
    (10, ('log_prob', 'entropy', 'log_probs'))
    """
    if isinstance(make, str):
        make = outside.loaded(make, "make")
    if isinstance(make, nn.Module):
        start = copy.deepcopy(make)  # its owner may train it later
        make = lambda: copy.deepcopy(start)  # noqa: E731 - a function of no name, as users write it
    try:
        first = _seeded(make, 0, 0) if callable(make) else make
    except Exception as error:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        raise checks.InputError("make", text, "a function of no arguments", "write lambda: nn.Linear(...)") from error
    checks.require(isinstance(first, nn.Module), "make", first, "a function of a module", "give lambda: nn.Linear(...)")
    policy = Module(make, observation, actions, critic, checked(sampler))
    returns = "logits and values [n]" if critic else "logits alone (logits and values: critic=True)"
    remedy = f"let it map [n, {observation}] to [n, {actions}], {returns}, or correct observation= and actions="
    frozen = [name for name, each in policy.template.named_parameters() if not each.requires_grad]
    checks.require(not frozen, "frozen parameters", ", ".join(frozen), "none", "register them as buffers")
    checks.require(policy.size > 0, "parameters of the module", 0, "at least one", "give it something to learn")
    try:
        raw, _ = policy._call(policy.initial(2), torch.zeros(2, _TRIAL, observation))
    except Exception as error:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        raise checks.InputError("module", text, f"callable on [n, {observation}] by vmap", remedy) from error
    shape = tuple(raw.shape[1:]) if isinstance(raw, Tensor) else f"a {type(raw).__name__}"
    checks.require(shape == (_TRIAL, actions), "logits of the module", shape, f"[n, {actions}]", remedy)
    one = bool((raw >= 0).all() and torch.allclose(raw.sum(-1), torch.ones(())))
    remedy = "return logits: leave out the last softmax, which the policy applies"
    checks.require(not one, "logits of the module", "nonnegative, with sum 1", "logits, not probabilities", remedy)
    _refuse_modes(first, observation)
    return policy


def _refuse_modes(module: nn.Module, observation: int) -> None:
    """Refuse a module that behaves differently in training mode, where behavior and policy would differ."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        rows, copied = torch.randn(_TRIAL * 16, observation), copy.deepcopy(module).float().cpu()
        ends = [copied.train(mode)(rows) for mode in (False, True)]
    pairs = zip(*(end if isinstance(end, tuple) else (end,) for end in ends), strict=True)
    same = [torch.allclose(one, other, equal_nan=True) for one, other in pairs]
    parts = {type(each).__name__ for each in module.modules() if re.search("Drop|Norm", type(each).__name__)}
    remedy = "leave Dropout out, and take nn.LayerNorm for BatchNorm"
    checks.require(all(same), "module", ", ".join(sorted(parts)) or module, "the same in eval and train mode", remedy)
