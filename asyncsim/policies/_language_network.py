"""A loaded language model whose trained weights are one flat vector, and copies of it in other number formats."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.random import fork_rng
from torch.utils._python_dispatch import TorchDispatchMode

from asyncsim.base import checks
from asyncsim.policies._mlp_network import levels

FORMATS = {name: getattr(torch, kind) for name, kind in checks.table(__file__, "texts.toml")["formats"].items()}
"""Number formats and the type in which each of them computes."""

FORM = "asyncsim_form"
"""Name of the number format inside a network."""

CRITIC = "asyncsim_critic"
"""Name of the value head inside a network."""

ADAPTER = "lora_"
"""What names of the weights of adapters hold."""
LARGE = 1 << 24
"""Weights above which a network that is trained whole does not keep those that it was loaded with."""

_OPERANDS = {"mm": (0, 2), "bmm": (0, 2), "addmm": (1, 3), "baddbmm": (1, 3)} | {
    f"_scaled_dot_product_flash_attention_for_cpu{suffix}": (0, count) for suffix, count in (("", 3), ("_backward", 4))
}
"""Products of matrices as a CPU does them, and which of their arguments are multiplied: from, to."""

FIELDS = (
    *("r", "lora_alpha", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "rank_pattern"),
    *("alpha_pattern", "use_rslora", "use_dora", "init_lora_weights", "lora_dropout"),
)
"""Settings of adapters: fields of `peft.LoraConfig` that train nothing else."""

_LAYER = re.compile(r"(?:^|\.)(?:layers|layer|blocks|h)\.(\d+)\.")


class Head(nn.Module):
    """Linear output layer that makes its input rows contiguous first, since torch is fifty times slower on a slice.

    While it is `idle` it makes no logits: `read` then gives the states that they are made from.
    """

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.weight, self.bias, self.idle = linear.weight, linear.bias, False

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits `[..., V]` of the output layer, or empty `[..., 0]` while it is idle."""
        if self.idle:
            return hidden[..., :0]
        rows = hidden.reshape(-1, hidden.shape[-1]).contiguous()
        return nn.functional.linear(rows, self.weight, self.bias).view(*hidden.shape[:-1], -1)


class Products(TorchDispatchMode):
    """Context in which CPU matrix products emulate TF32: operands with 10 mantissa bits, sums in float32."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Run the operation, with rounded operands if it is a matrix product."""
        begin, end = _OPERANDS.get(func._schema.name.removeprefix("aten::"), (0, 0))
        args = (*args[:begin], *map(tf32, args[begin:end]), *args[end:])
        return func(*args, **(kwargs or {}))


def tf32(x: Tensor) -> Tensor:
    """Round a float32 tensor to 10 mantissa bits, to nearest, ties to even; other types are unchanged."""
    if x.dtype != torch.float32:
        return x
    bits = x.view(torch.int32)
    return ((bits + 0x0FFF + ((bits >> 13) & 1)) & -0x2000).view(torch.float32)


@contextmanager
def products(form: str, device: torch.device) -> Iterator[None]:
    """Context for matrix products in a number format; on cuda, TF32 is on only for "tf32", and restored afterwards."""
    if device.type != "cuda":
        with Products() if form == "tf32" else nullcontext():
            yield
        return
    backend: Any = torch.backends.cuda.matmul
    newer = getattr(backend, "fp32_precision", None)
    try:
        older = torch.get_float32_matmul_precision()
    except RuntimeError:  # settings of both kinds that differ: the older one is as it was in the beginning
        older = "highest"
    backend.allow_tf32 = form == "tf32"
    try:
        yield
    finally:
        backend.allow_tf32 = older != "highest"
        if older == "medium":
            torch.set_float32_matmul_precision(older)
        if newer is not None:
            backend.fp32_precision = newer


class Known(NamedTuple):
    """Output of a network's blocks whose last hidden states are already known, without caches and routers."""

    last_hidden_state: Tensor
    past_key_values: None = None
    hidden_states: None = None
    attentions: None = None
    cross_attentions: None = None
    router_logits: None = None


class Behind(nn.Module):
    """Replaces a network's blocks, so that the network computes only the logits of known states `[n, W]`."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.known = Known(states.unsqueeze(0))

    @property
    def decoder(self) -> nn.Module:
        """Attribute under which some architectures have their blocks."""
        return self

    def forward(self, *_: Any, **__: Any) -> Known:
        """Return the known hidden states."""
        return self.known


def logits_of(network: Any, states: Tensor) -> Tensor:
    """Logits `[n, V]` of hidden states `[n, W]`: the head, and later operations of the network (scales, soft caps)."""
    twin = copy.copy(network)
    twin.__dict__ = dict(network.__dict__)
    twin._modules = {**network._modules, network.base_model_prefix: Behind(states)}
    ids = torch.zeros(1, len(states), dtype=torch.int64, device=states.device)
    with products(getattr(network, FORM, "float32"), states.device):
        logits: Tensor = twin(input_ids=ids, use_cache=False).logits[0]
    return logits


@contextmanager
def headless(network: Any) -> Iterator[None]:
    """Context in which `read` returns hidden states `[B, count, W]` instead of logits."""
    head = network.get_output_embeddings()
    head.idle = True
    try:
        yield
    finally:
        head.idle = False


@dataclass
class Model:
    """A language model's network, and the positions of its trained weights in a flat vector `[P]`.

    `shape` is a network of the right shape; `load` gives the one with weights, which is called once, when they are
    needed; `train_layers` is how many of the last blocks are trained (None: everything). With `lora`, fields of
    `peft.LoraConfig`, adapters are trained and nothing else. With `critic` there is a value head as well, always
    trained. With `again` weights can be loaded again: a large network that is trained whole lets them go once they were
    read, since only the flat vector is used from then on.
    """

    shape: nn.Module
    load: Callable[[], nn.Module]
    train_layers: int | None = None
    frozen: dict[tuple[str, torch.device], nn.Module] = field(default_factory=dict)
    critic: bool = False
    lora: Mapping[str, Any] | None = None
    again: bool = False
    gone: bool = False

    def __post_init__(self) -> None:
        self._extend(self.shape)

    @cached_property
    def network(self) -> nn.Module:
        """The network as loaded, with the only copy of the frozen weights."""
        network: Any = self.load().eval()
        if network is not self.shape:
            self._extend(network)
        if hasattr(network, "set_output_embeddings"):
            network.set_output_embeddings(Head(network.get_output_embeddings()))
        return network.requires_grad_(False)

    @cached_property
    def trained(self) -> list[tuple[str, torch.Size]]:
        """Names and shapes of the trained weights, in the order of the flat vector."""
        named = [(name, weight.shape) for name, weight in self.shape.named_parameters()]
        if self.lora is not None:
            return [(name, shape) for name, shape in named if ADAPTER in name or name.startswith(CRITIC)]
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
    def parts(self) -> bool:
        """Whether logits can be computed from hidden states, some rows at a time, as tried on three tokens."""
        network: Any = self.network
        place = torch.arange(3, device="cpu").unsqueeze(0)
        inputs = (place % self.vocabulary, place, (place <= place.mT)[None, None], None, 3)
        try:
            with torch.no_grad(), torch.device("cpu"):
                whole = read(network, *inputs)[0, :, : self.vocabulary]
                with headless(network):
                    states = read(network, *inputs)[0, :, : _embedding(network).shape[1]]
                return torch.allclose(logits_of(network, states), whole, rtol=1e-5, atol=1e-5)
        except (AttributeError, TypeError, ValueError, RuntimeError, IndexError, KeyError):
            return False

    @cached_property
    def vocabulary(self) -> int:
        """Number of tokens that have a logit, V."""
        return _embedding(self.shape).shape[0]

    @cached_property
    def size(self) -> int:
        return sum(shape.numel() for _, shape in self.trained)

    @cached_property
    def rowwise(self) -> bool:
        """Whether trained weights process the rows of a batch in order; mixture-of-experts weights do not."""
        return not any("expert" in name or len(shape) > 2 for name, shape in self.trained)

    def flat(self) -> Tensor:
        """Trained weights of the network as they were loaded, float32 `[P]`."""
        if self.gone:
            self.__dict__.pop("network", None)
        weights = dict(self.network.named_parameters())
        flat = torch.cat([weights[name].detach().float().reshape(-1) for name, _ in self.trained])
        self.gone = self.again and len(self.trained) == len(weights) and self.size > LARGE
        if self.gone:
            _ = self.parts  # asked while there are weights
            nothing = {name: weight.new_zeros(()).expand(weight.shape) for name, weight in weights.items()}
            empty = {id(weights[name]): nn.Parameter(x, requires_grad=False) for name, x in nothing.items()}
            self.shape = self.network = substituted(self.network, empty)
            self.frozen.clear()
        return flat

    def loaded(self) -> list[tuple[str, Tensor]]:
        """All loaded weights by name, except those of adapters."""
        return [(name, weight) for name, weight in self.network.named_parameters() if ADAPTER not in name]

    def drawn(self, seed: int) -> Tensor:
        """Trained weights `[P]` before the first update; only those of adapters depend on a seed."""
        if self.lora is not None:
            with fork_rng(devices=[]), torch.device("cpu"):
                torch.manual_seed(seed)
                for each in self.network.modules():
                    module: Any = each
                    if hasattr(module, "reset_lora_parameters"):
                        module.reset_lora_parameters("default", self.lora.get("init_lora_weights", True))
        return self.flat()

    def _extend(self, network: nn.Module) -> None:
        """Add trained modules that the loaded network lacks: adapters and a critic."""
        if self.lora is not None:
            adapted(network, self.lora)
        if self.critic:
            # It says 0 at first.
            with torch.device("cpu"):
                head = nn.Linear(_embedding(network).shape[1], 1).requires_grad_(False)
            for weight in head.parameters():
                nn.init.zeros_(weight)
            network.add_module(CRITIC, head)

    def bound(self, flat: Tensor, form: str, live: bool = False) -> tuple[nn.Module, list[nn.Parameter]]:
        """A network with the trained weights `[P]` in a number format, and these weights as separate parameters."""
        parts = flat.detach().split([shape.numel() for _, shape in self.trained])
        network, fresh = self._frozen(form, flat.device), dict[int, nn.Parameter]()
        for part, (name, shape) in zip(parts, self.trained, strict=True):
            leaf = nn.Parameter(rounded(part.reshape(shape), form), requires_grad=live)
            fresh[id(network.get_parameter(name))] = leaf
        bound: Any = substituted(network, fresh)
        setattr(bound, FORM, form)
        return bound, list(fresh.values())

    def _frozen(self, form: str, device: torch.device) -> nn.Module:
        """The loaded network with every weight in a number format, created once."""
        if form in ("float32", "tf32") and device.type == "cpu":
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
    """Convert a weight to a number format; int8 rounds each row of a matrix to 255 symmetric levels, in float32."""
    return levels(weight.float(), 1) if form == "int8" and weight.ndim == 2 else weight.to(FORMATS[form])


def substituted(module: nn.Module, fresh: Mapping[int, nn.Parameter]) -> nn.Module:
    """The same network with some weights replaced by others, tied weights included."""
    twin = copy.copy(module)
    twin.__dict__ = dict(module.__dict__)
    twin._parameters = {k: fresh.get(id(p), p) for k, p in module._parameters.items()}
    twin._buffers = dict(module._buffers)
    twin._modules = {k: None if m is None else substituted(m, fresh) for k, m in module._modules.items()}
    return twin


class Several:
    """Several versions of one network weight, for rows sorted by version: `rows` of each version.

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
        """One version's part of an argument: its own weight, or its rows of a tensor `[k B, ...]`."""
        if isinstance(given, Several):
            return given.versions[number]
        if not isinstance(given, Tensor) or given.ndim < 2:
            return given
        times, left = divmod(given.shape[0], sum(self.rows))
        assert left == 0, "rows of a text stay together"
        return given.split([times * each for each in self.rows])[number]

    def __getattr__(self, name: str) -> Any:
        """Tensor methods applied per version, and attributes that all versions share."""
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
    """Combine copies of a network that differ in their trained weights, for rows sorted by version, `rows` of each."""
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
    """Index of the block that a weight belongs to, -1 outside of blocks."""
    match = _LAYER.search(name)
    return int(match[1]) if match else -1


def _last_norm(name: str) -> bool:
    """Whether a weight belongs to the norm after the blocks: a norm outside of them that is not the embedding's."""
    module = name.lower().rpartition(".")[0]
    norm = "norm" in module or module.rpartition(".")[2].startswith("ln")
    return norm and _layer(name) < 0 and "emb" not in module


def weights_of(network: nn.Module) -> int:
    """Number of weights in a network, with tied weights counted once."""
    return sum(weight.numel() for weight in network.parameters())


def _embedding(network: Any) -> Tensor:
    """Weights `[V, W]` that map the last hidden states to logits."""
    head = network.get_output_embeddings() if hasattr(network, "get_output_embeddings") else network.embedding
    weight: Tensor = head.weight
    return weight


def adapted(network: Any, fields: Mapping[str, Any]) -> None:
    """Add low-rank adapters (LoRA) of rank r to the named linear maps of a network, by default to all but the head.

    y = W x + (alpha / r) B A x with B = 0 at first: 2106.09685, equation 3.
    """
    try:
        import peft
        from transformers.pytorch_utils import Conv1D
    except ImportError as error:
        bound, remedy = "an installed package (it makes adapters)", checks.extra("llm", "peft")
        raise checks.InputError("package", "peft", bound, remedy) from error
    head = network.get_output_embeddings() if hasattr(network, "get_output_embeddings") else None
    maps = (nn.Linear, Conv1D)
    linear = [name for name, module in network.named_modules() if isinstance(module, maps) and module is not head]
    checks.each_of("field of lora", fields, FIELDS, "only adapters of linear maps are trained, and merged on export")
    try:
        config = peft.LoraConfig(**{"target_modules": linear, **fields})
        with fork_rng(devices=[]), torch.device("cpu"):
            peft.inject_adapter_in_model(config, network)
    except (AttributeError, TypeError, ValueError) as error:
        remedy = f"name fields of peft.LoraConfig ({' '.join(str(error).split())})"
        raise checks.InputError("lora", dict(fields), "what adapters can be made of", remedy) from error
    # The head and tied embeddings are read in two places, of which an adapter would change one.
    wrapped = [(name, each) for name, each in network.named_modules() if hasattr(each, "base_layer")]
    wrong = [name for name, each in wrapped if each.base_layer is head or not isinstance(each.base_layer, maps)]
    checks.require(not wrong, "target_modules", ", ".join(wrong), "linear maps but the head", "name layers of blocks")


def merged(network: Any) -> nn.Module:
    """A network without adapters, whose maps contain them as W + (alpha / r) B A."""
    for name, module in [each for each in network.named_modules() if hasattr(each[1], "base_layer")]:
        module.merge()
        parent, _, own = name.rpartition(".")
        setattr(network.get_submodule(parent), own, module.base_layer)
    return network


def read(network: Any, ids: Tensor, place: Tensor, mask: Tensor, cache: Any, count: int) -> Tensor:
    """Logits of the last `count` positions, `[B, count, V]`; `mask` `[B, 1, L, C]` marks the visible cache columns.

    A mask of floats is added to the attention's logits as it is. Of a network with a critic `[B, count, V + 1]`, its
    values behind them. An idle head leaves states `[B, count, W]`.
    """
    bias = mask
    if mask.dtype == torch.bool:
        dtype = next(network.parameters()).dtype
        bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)
    about = {"input_ids": ids, "position_ids": place, "attention_mask": bias, "past_key_values": cache}
    critic, hidden = getattr(network, CRITIC, None), list[Tensor]()
    head = network.get_output_embeddings() if hasattr(network, "get_output_embeddings") else None
    idle = getattr(head, "idle", False)
    # The critic reads the states that the head reads.
    listening: Any = nullcontext()
    if head is not None and (idle or critic is not None):
        listening = head.register_forward_pre_hook(lambda _, seen: hidden.append(seen[0]))
    elif critic is not None:
        listening = network.norm.register_forward_hook(lambda *seen: hidden.append(seen[2]))
    with listening, products(getattr(network, FORM, "float32"), ids.device):
        logits: Tensor = network(**about, logits_to_keep=count, use_cache=False).logits
        logits = hidden[-1] if idle else logits
        return logits if critic is None else torch.cat([logits, critic(hidden[-1]).to(logits.dtype)], -1)
