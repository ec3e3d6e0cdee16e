"""A loaded language model whose trained weights are one flat vector, and copies of it in other number formats."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from asyncsim.base import checks
from asyncsim.policies._mlp_network import levels

FORMATS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.float32, "float64": torch.float64}
"""Number formats and the type in which each of them computes."""

CRITIC = "asyncsim_critic"
"""Name of the value head inside a network."""

_LAYER = re.compile(r"(?:^|\.)(?:layers|layer|blocks|h)\.(\d+)\.")


class Head(nn.Module):
    """A linear map that lays its rows out first: of a slice, torch makes many small products, fifty times slower."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits `[..., V]`."""
        rows = hidden.reshape(-1, hidden.shape[-1]).contiguous()
        return nn.functional.linear(rows, self.weight, self.bias).view(*hidden.shape[:-1], -1)


@dataclass
class Model:
    """A network and where its trained weights stand in a flat vector `[P]`.

    `shape` is a network of the right shape; `load` gives the one with weights, which is called once, when they are
    needed; `train_layers` is how many of the last blocks are trained (None: everything). With `critic` there is a value
    head as well, always trained.
    """

    shape: nn.Module
    load: Callable[[], nn.Module]
    train_layers: int | None = None
    frozen: dict[tuple[str, torch.device], nn.Module] = field(default_factory=dict)
    critic: bool = False

    def __post_init__(self) -> None:
        if self.critic:
            self.shape.add_module(CRITIC, value_head(self.shape))

    @cached_property
    def network(self) -> nn.Module:
        """The network as loaded: where the frozen weights stand, once."""
        network: Any = self.load().eval().requires_grad_(False)
        if hasattr(network, "set_output_embeddings"):
            network.set_output_embeddings(Head(network.get_output_embeddings()))
        if self.critic:
            network.add_module(CRITIC, value_head(network))
        return network

    @cached_property
    def trained(self) -> list[tuple[str, torch.Size]]:
        """Names and shapes of the trained weights, in the order of the flat vector."""
        named = [(name, weight.shape) for name, weight in self.shape.named_parameters()]
        if self.train_layers is None:
            return named
        layers = 1 + max((_layer(name) for name, _ in named), default=-1)
        whole = "this architecture is trained whole: leave train_layers out"
        checks.require(layers > 0, "train_layers", self.train_layers, "absent for a model without known blocks", whole)
        remedy = "train fewer layers, or leave train_layers out to train everything"
        checks.integer("train_layers", self.train_layers, 1, remedy, layers)
        first = layers - self.train_layers
        return [(n, s) for n, s in named if _layer(n) >= first or _last_norm(n) or n.startswith(CRITIC)]

    @cached_property
    def vocabulary(self) -> int:
        """V, the tokens that have a logit."""
        return _embedding(self.shape).shape[0]

    @cached_property
    def size(self) -> int:
        return sum(shape.numel() for _, shape in self.trained)

    @cached_property
    def rowwise(self) -> bool:
        """Whether each trained weight meets the rows of a batch in order: experts get theirs sorted otherwise."""
        return not any("expert" in name or len(shape) > 2 for name, shape in self.trained)

    def flat(self) -> Tensor:
        """Trained weights as they were loaded, float32 `[P]`."""
        weights = dict(self.network.named_parameters())
        return torch.cat([weights[name].detach().float().reshape(-1) for name, _ in self.trained])

    def bound(self, flat: Tensor, form: str, live: bool = False) -> tuple[nn.Module, list[nn.Parameter]]:
        """A network that computes with the weights `[P]` in a number format, and these weights one by one.

        With `live` they are leaves that gradients can be taken for. Frozen weights are shared with every other copy.
        """
        parts = flat.detach().split([shape.numel() for _, shape in self.trained])
        network, fresh = self._frozen(form, flat.device), dict[int, nn.Parameter]()
        for part, (name, shape) in zip(parts, self.trained, strict=True):
            leaf = nn.Parameter(rounded(part.reshape(shape), form), requires_grad=live)
            fresh[id(network.get_parameter(name))] = leaf
        return substituted(network, fresh), list(fresh.values())

    def _frozen(self, form: str, device: torch.device) -> nn.Module:
        """The loaded network with every weight in a number format, made once."""
        if form == "float32" and device.type == "cpu":
            return self.network
        if (form, device) not in self.frozen:
            trained = {name for name, _ in self.trained}
            fresh = {
                id(weight): nn.Parameter(rounded(weight.data, form).to(device), requires_grad=False)
                for name, weight in self.network.named_parameters()
                if name not in trained
            }
            network = substituted(self.network, fresh)
            for module in network.modules():
                module._buffers = {k: None if b is None else b.to(device) for k, b in module._buffers.items()}
            self.frozen[form, device] = network
        return self.frozen[form, device]


def rounded(weight: Tensor, form: str) -> Tensor:
    """A weight in a number format; int8: each row of a matrix to 255 levels, symmetric about 0, as float32 again."""
    if form == "int8" and weight.ndim == 2:
        return levels(weight.float(), 1)
    return weight.to(FORMATS[form])


def substituted(module: nn.Module, fresh: Mapping[int, nn.Parameter]) -> nn.Module:
    """The same network with other weights, by the identity of the old ones, in tied places too.

    It shares every other tensor, and runs beside it.
    """
    twin = copy.copy(module)
    twin.__dict__ = dict(module.__dict__)
    twin._parameters = {k: fresh.get(id(p), p) for k, p in module._parameters.items()}
    twin._buffers = dict(module._buffers)
    twin._modules = {k: None if m is None else substituted(m, fresh) for k, m in module._modules.items()}
    return twin


class Several:
    """One weight of a network in several versions, for rows sorted by version: `rows` of each in turn.

    A function of it and of texts is computed for the rows of each version, and the results stand behind one another. A
    function of weights alone is computed for each version.
    """

    def __init__(self, versions: Sequence[Tensor], rows: Sequence[int]) -> None:
        self.versions, self.rows = list(versions), list(rows)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [*args, *kwargs.values()]
        one = next(each for each in given if isinstance(each, cls))
        split = any(isinstance(each, Tensor) and each.ndim > 1 for each in given)
        results = []
        for number in range(len(one.rows)):
            mine = [one._part(each, number) for each in args]
            results.append(func(*mine, **{name: one._part(each, number) for name, each in kwargs.items()}))
        return torch.cat(results) if split else cls(results, one.rows)

    def _part(self, given: Any, number: int) -> Any:
        """What one version sees of an argument: its own weight, or its rows of a tensor `[k B, ...]`."""
        if isinstance(given, Several):
            return given.versions[number]
        if not isinstance(given, Tensor) or given.ndim < 2:
            return given
        times, left = divmod(given.shape[0], sum(self.rows))
        assert left == 0, "rows of a text stay together"
        return given.split([times * each for each in self.rows])[number]

    def __getattr__(self, name: str) -> Any:
        """Methods of a tensor for each version, and what all versions have in common."""
        method = getattr(Tensor, name)
        if not callable(method):
            return getattr(self.versions[0], name)
        return lambda *args, **kwargs: Several.__torch_function__(method, (), (self, *args), kwargs)

    def __mul__(self, other: Any) -> Any:
        return Several.__torch_function__(Tensor.__mul__, (), (self, other))

    def __add__(self, other: Any) -> Any:
        return Several.__torch_function__(Tensor.__add__, (), (self, other))

    __rmul__, __radd__ = __mul__, __add__


def beside(networks: Sequence[Any], rows: Sequence[int]) -> Any:
    """One network for rows sorted by version, `rows` of each, from copies that differ in their trained weights.

    Everything but the trained weights is computed once for all rows.
    """
    first = networks[0]
    if all(network is first for network in networks):
        return first
    twin = copy.copy(first)
    twin.__dict__ = dict(first.__dict__)
    twin._parameters = {
        name: weight
        if all(n._parameters[name] is weight for n in networks)
        else Several([n._parameters[name] for n in networks], rows)
        for name, weight in first._parameters.items()
    }
    twin._modules = {
        name: None if module is None else beside([n._modules[name] for n in networks], rows)
        for name, module in first._modules.items()
    }
    return twin


def _layer(name: str) -> int:
    """Number of the block that a weight belongs to, -1 outside of them."""
    match = _LAYER.search(name)
    return int(match[1]) if match else -1


def _last_norm(name: str) -> bool:
    """Whether a weight belongs to the norm behind the blocks: one outside of them that is not the embedding's."""
    module = name.lower().rpartition(".")[0]
    norm = "norm" in module or module.rpartition(".")[2].startswith("ln")
    return norm and _layer(name) < 0 and "emb" not in module


def weights_of(network: nn.Module) -> int:
    """How many weights a network has, tied ones once."""
    return sum(weight.numel() for weight in network.parameters())


def _embedding(network: Any) -> Tensor:
    """Weights `[V, W]` that map the last hidden states to logits."""
    head = network.get_output_embeddings() if hasattr(network, "get_output_embeddings") else network.embedding
    weight: Tensor = head.weight
    return weight


def value_head(network: nn.Module) -> nn.Linear:
    """A linear map of the last hidden states, which says 0 at first."""
    with torch.device("cpu"):
        head = nn.Linear(_embedding(network).shape[1], 1).requires_grad_(False)
    for weight in head.parameters():
        nn.init.zeros_(weight)
    return head


def read(network: Any, ids: Tensor, place: Tensor, mask: Tensor, cache: Any, count: int) -> Tensor:
    """Logits of the last `count` positions, `[B, count, V]`; `mask` `[B, 1, L, C]` says which columns may be seen.

    A mask of floats is added to the attention's logits as it is. Of a network with a critic `[B, count, V + 1]`, its
    values behind them.
    """
    bias = mask
    if mask.dtype == torch.bool:
        dtype = next(network.parameters()).dtype
        bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)
    about = {"input_ids": ids, "position_ids": place, "attention_mask": bias, "past_key_values": cache}
    critic, hidden = getattr(network, CRITIC, None), list[Tensor]()
    # The critic reads the states that the head reads.
    listening: Any = nullcontext()
    if critic is not None and hasattr(network, "get_output_embeddings"):
        listening = network.get_output_embeddings().register_forward_pre_hook(lambda _, seen: hidden.append(seen[0]))
    elif critic is not None:
        listening = network.norm.register_forward_hook(lambda *seen: hidden.append(seen[2]))
    with listening:
        logits: Tensor = network(**about, logits_to_keep=count, use_cache=False).logits
    return logits if critic is None else torch.cat([logits, critic(hidden[-1]).to(logits.dtype)], -1)
