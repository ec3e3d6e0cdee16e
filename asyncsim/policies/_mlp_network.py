"""Perceptrons with tanh units, one per replicate: their layout in flat parameters, forward pass and pullback.

From the last layer of a policy network to actions there is a softmax over choices, or a normal with its own spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from asyncsim.base import checks, rng
from asyncsim.base.parts import handed_on
from asyncsim.policies._policy import Keys, Policy
from asyncsim.step.batch import Draws, Outputs
from asyncsim.step.versions import View, Weights

_LOG_TWO_PI = math.log(2.0 * math.pi)
_CLIP = 10.0
_EPS = 1e-8
_PAIRS = 1 << 27
"""Most pairs of tokens that one score norm may form: 1 GiB in float64."""
SAMPLERS = ("bfloat16", "int8")
"""Formats that the weights of a network's sampler may be rounded to."""
SAMPLER = handed_on(
    None,
    'format that the weights actions are drawn from are rounded to, "bfloat16" or "int8" (a scale for each unit, or '
    "row of a matrix), None for the trainer's own",
)

Layers = list[tuple[Tensor, Tensor]]
"""Weights `[R, inputs, outputs]` and biases `[R, outputs]` of each layer, from the input on."""


@dataclass(frozen=True)
class Layout:
    """Order of the parameters `[R, P]`: policy layers, log std of a normal head, value layers, observation normalizer.

    `observation` D; `hidden`, units of each hidden layer of both networks; `width`, outputs of the policy network;
    `spread`, entries of `log_std` (0: none); `values`, outputs of the value network (0: there is none); `normalize`,
    whether there is a normalizer.
    """

    observation: int
    hidden: tuple[int, ...]
    width: int
    spread: int
    values: int
    normalize: bool

    def shapes(self, outputs: int) -> list[tuple[int, int]]:
        """Input and output size of every layer of a perceptron."""
        return list(pairwise((self.observation, *self.hidden, outputs)))

    @property
    def spread_begin(self) -> int:
        """Number of parameters in the policy layers, after which the log standard deviation begins."""
        return sum((i + 1) * o for i, o in self.shapes(self.width))

    @property
    def critic_begin(self) -> int:
        """Number of parameters before the value layers."""
        return self.spread_begin + self.spread

    @property
    def trained(self) -> int:
        """Number of parameters with a gradient, which come before the observation normalizer."""
        return self.critic_begin + (sum((i + 1) * o for i, o in self.shapes(self.values)) if self.values else 0)

    @property
    def size(self) -> int:
        return self.trained + (2 * self.observation + 1 if self.normalize else 0)

    def actor(self, flat: Tensor) -> Layers:
        """Weights of the policy layers, as views of the flat parameters."""
        return self._layers(flat, 0, self.width)

    def valuer(self, flat: Tensor) -> Layers:
        """Weights of the value layers, as views of the flat parameters."""
        return self._layers(flat, self.critic_begin, self.values)

    def log_std(self, flat: Tensor) -> Tensor:
        """Log standard deviation of a normal head, `[R, spread]`, as a view of the flat parameters."""
        return flat[:, self.spread_begin : self.critic_begin]

    def normalizer(self, flat: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Views of the observations' running mean and variance, `[R, D]`, and of their count, `[R, 1]`."""
        mean, variance, count = flat[:, self.trained :].split((self.observation, self.observation, 1), dim=1)
        return mean, variance, count

    def _layers(self, flat: Tensor, begin: int, outputs: int) -> Layers:
        layers = []
        for i, o in self.shapes(outputs):
            weight = flat[:, begin : begin + i * o].unflatten(1, (i, o))
            layers.append((weight, flat[:, begin + i * o : begin + (i + 1) * o]))
            begin += (i + 1) * o
        return layers

    def initial(self, replicates: np.ndarray, seed: int, gain: float, log_std: float) -> Tensor:
        """Orthogonal initial weights, float64 `[R, P]`: gain sqrt(2) for hidden layers, `gain` and 1 for last ones."""
        flat = torch.zeros((len(replicates), self.size), dtype=torch.float64)
        networks = [(self.actor(flat), gain)] + ([(self.valuer(flat), 1.0)] if self.values else [])
        layer = 0
        for layers, last in networks:
            for k, (weight, _) in enumerate(layers):
                scale = math.sqrt(2.0) if k + 1 < len(layers) else last
                weight.copy_(scale * _orthogonal(replicates, seed, layer, weight.shape[1], weight.shape[2]))
                layer += 1
        self.log_std(flat).fill_(log_std)
        if self.normalize:
            self.normalizer(flat)[1].fill_(1.0)
        return flat


def _orthogonal(replicates: np.ndarray, seed: int, layer: int, inputs: int, outputs: int) -> Tensor:
    """One uniformly random matrix with orthonormal rows or columns per replicate, float64 `[R, inputs, outputs]`."""
    from asyncsim.base import rng_compiled

    long, short = max(inputs, outputs), min(inputs, outputs)
    normals = np.empty((len(replicates), long, short))
    rows, first = np.arange(long).reshape(1, -1), np.zeros(len(replicates), dtype=np.int64)
    rng_compiled.fill_normals(*rng.Stream(seed, "initial").key, replicates, first, rows, layer, 0, normals)
    q, r = torch.linalg.qr(torch.from_numpy(normals))
    # QR leaves the signs of the columns open; those of the diagonal make it unique, hence uniform.
    q = q * torch.where(r.diagonal(dim1=1, dim2=2) < 0, -1.0, 1.0).unsqueeze(1)
    return q if inputs >= outputs else q.mT


class Network:
    """Evaluated perceptron with the inputs of every layer, `[R, n, units]`, and the outputs `[R, n, outputs]`."""

    def __init__(self, layers: Layers, observation: Tensor) -> None:
        self.layers = layers
        self.inputs = [observation]
        minus_one = torch.tensor(-1.0, dtype=observation.dtype)
        for weight, bias in layers[:-1]:
            # tanh x = 2 sigmoid(2x) - 1: torch's sigmoid takes a tenth of the time of its tanh.
            twice = torch.baddbmm(bias.unsqueeze(1), self.inputs[-1], weight, beta=2, alpha=2).sigmoid_()
            self.inputs.append(torch.add(minus_one, twice, alpha=2.0, out=twice))
        weight, bias = layers[-1]
        # A product with few columns is faster as one with few rows.
        self.outputs = torch.baddbmm(bias.unsqueeze(2), weight.mT, self.inputs[-1].mT).mT

    def deltas(self, cotangent: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Cotangents of each layer's pre-activations, `[R, n, units]`, with the layer's index, from last to first."""
        delta = cotangent
        for number in range(len(self.layers) - 1, -1, -1):
            yield number, delta
            if number:
                weight = self.layers[number][0].mT
                # Of one column and one row it is a table of products, which `bmm` takes ten times as long for.
                product = delta * weight if delta.shape[-1] == 1 else torch.bmm(delta, weight)
                delta = torch.ops.aten.tanh_backward.grad_input(product, self.inputs[number], grad_input=product)

    def pull(self, cotangent: Tensor, into: Layers) -> None:
        """Accumulate the perceptron's gradient for cotangents of its outputs, in the views `into`."""
        for number, delta in self.deltas(cotangent):
            (weight, bias), inputs = into[number], self.inputs[number]
            few = delta.shape[-1] < inputs.shape[-1]
            weight += torch.bmm(delta.mT, inputs).mT if few else torch.bmm(inputs.mT, delta)
            bias += delta.sum(1)


class Evaluation:
    """Policy and value networks with parameters `[R, P]` on observations `[R, n, D]`, evaluated at first use."""

    def __init__(self, layout: Layout, parameters: Tensor, observation: Tensor) -> None:
        self.layout, self.parameters = layout, parameters
        self.observation = observation.to(parameters.dtype)
        if layout.normalize:
            mean, variance, _ = layout.normalizer(parameters)
            scale = (variance + _EPS).rsqrt().unsqueeze(1)
            self.observation = ((self.observation - mean.unsqueeze(1)) * scale).clamp_(-_CLIP, _CLIP)

    @cached_property
    def actor(self) -> Network:
        """The evaluated policy network."""
        return Network(self.layout.actor(self.parameters), self.observation)

    @cached_property
    def valuer(self) -> Network:
        """The evaluated value network."""
        return Network(self.layout.valuer(self.parameters), self.observation)

    @property
    def log_std(self) -> Tensor:
        """Log standard deviation of a normal head, `[R, 1, spread]`."""
        return self.layout.log_std(self.parameters).unsqueeze(1)

    @property
    def value(self) -> Tensor:
        """State values, `[R, n]`; if the critic has a value per action, their expectation under the policy."""
        values = self.valuer.outputs
        if values.shape[-1] == 1:
            return values[..., 0]
        return (self.actor.outputs.softmax(-1) * values).sum(-1)


class Perceptron(nn.Module):
    """Policy and value networks as torch modules, with `log_std` of a normal head."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, layout: Layout, parameters: Tensor, by_action: bool) -> None:
        super().__init__()
        flat = parameters.detach().unsqueeze(0)
        self.policy, self.by_action = _stacked(layout.actor(flat)), by_action
        self.values = _stacked(layout.valuer(flat)) if layout.values else None
        self.log_std = nn.Parameter(layout.log_std(flat)[0].clone()) if layout.spread else None
        self.normalize = layout.normalize
        if layout.normalize:
            for name, numbers in zip(("mean", "variance", "count"), layout.normalizer(flat), strict=True):
                self.register_buffer(name, numbers[0].clone())

    def forward(self, observation: Tensor) -> Any:
        """Logits or means of actions, and state values if there is a critic."""
        if self.normalize:
            observation = ((observation - self.mean) * (self.variance + _EPS).rsqrt()).clamp(-_CLIP, _CLIP)
        raw = self.policy(observation)
        if self.values is None:
            return raw
        values = self.values(observation)
        return raw, (raw.softmax(-1) * values).sum(-1) if self.by_action else values[..., 0]


def _stacked(layers: Layers) -> nn.Sequential:
    """Linear layers with tanh between them."""
    stack: list[nn.Module] = []
    for weight, bias in layers:
        linear = nn.Linear(weight.shape[1], weight.shape[2], dtype=weight.dtype, device=weight.device)
        linear.weight.data, linear.bias.data = weight[0].T.clone(), bias[0].clone()
        stack += [linear, nn.Tanh()]
    return nn.Sequential(*stack[:-1])


Pass = tuple[Tensor, Tensor | None]
"""Weights `[R, P]`, and which rows `[R, n]` read them (None: all)."""


def passes(view: View, shape: tuple[int, ...], name: str = "parameters") -> list[Pass]:
    """Forward passes that evaluate every row of `shape` (`[R, G, N, T]`) at the row's own weights.

    One pass per distinct version of the replicate that has most of them. Every pass evaluates all rows: the rounding of
    a product depends on its shape, and must not depend on which version the other rows read.
    """
    stack = view.weights[name]
    if view.single:
        return [(stack[int(view.slot.flat[0])], None)]
    table = _distinct(view.slot.reshape(view.slot.shape[0], -1))
    table = table if table.shape[0] == 1 else table[view.realization]
    chosen = torch.from_numpy(np.broadcast_to(table, (shape[0], table.shape[1])).copy()).to(stack.device)
    replicate = torch.arange(shape[0], device=stack.device)
    if chosen.shape[1] == 1:
        return [(stack[chosen[:, 0], replicate], None)]
    slots = view.slots(shape).to(stack.device).flatten(1)
    return [(stack[slot.clamp(min=0), replicate], slots == slot.unsqueeze(1)) for slot in chosen.unbind(1)]


def _distinct(slots: np.ndarray) -> np.ndarray:
    """Distinct entries of each row in ascending order, padded with -1.

    >>> _distinct(np.array([[3, 1, 3], [2, 2, 2]])).tolist()
    [[1, 3], [2, -1]]
    """
    ordered = np.sort(slots, axis=1)
    rank = np.cumsum(np.diff(ordered, axis=1, prepend=ordered[:, :1]) != 0, axis=1)
    table = np.full((len(slots), int(rank.max()) + 1), -1, dtype=np.int64)
    np.put_along_axis(table, rank, ordered, axis=1)
    return table


def merged(parts: list[tuple[Tensor, Tensor | None]]) -> Tensor:
    """Rows `[R, n, ...]` of several forward passes, each row from the pass with its weights."""
    out = parts[0][0]
    for rows, chosen in parts[1:]:
        if chosen is not None:
            out = torch.where(chosen.reshape(chosen.shape + (1,) * (rows.ndim - 2)), rows, out)
    return out


def score_norm(head: Head, evaluated: list[tuple[Evaluation, Tensor | None]], action: Tensor, weight: Tensor) -> Tensor:
    """|sum_t w_t grad log pi(a_t|s_t)|^2 of each sample, `[R, G, N]`, from evaluations and the rows that use them."""
    shape = action.shape[:4]
    pairs = shape.numel() * shape[3]
    remedy = "take fewer samples or shorter trajectories, or another advantage than opob"
    checks.require(pairs <= _PAIRS, "pairs of tokens in score_norm", pairs, f"at most {_PAIRS}", remedy)
    results = []
    for at, chosen in evaluated:
        rows = {"log_prob": weight.expand(shape).flatten(1).to(at.parameters.dtype)}
        raw, spread = head.pull(at.actor.outputs, at.log_std, action.flatten(1, 3), rows)
        layers = [(at.actor.inputs[k], delta) for k, delta in at.actor.deltas(raw)]
        results.append(([spread, *(x for layer in layers for x in layer)], chosen))
    parts = [
        merged([(part[i], chosen) for part, chosen in results]).unflatten(1, (-1, shape[3]))
        for i in range(len(results[0][0]))
    ]
    total = parts[0].sum(2).square().sum(-1)
    for inputs, delta in zip(parts[1::2], parts[2::2], strict=True):
        total = total + ((delta @ delta.mT) * (inputs @ inputs.mT + 1.0)).sum((-1, -2))
    return total.unflatten(1, shape[1:3])


def levels(weight: Tensor, along: int | tuple[int, ...]) -> Tensor:
    """Round weights to 255 symmetric levels; entries along the given axes share a scale, their maximum size / 127.

    >>> levels(torch.tensor([[127.0, 1.4], [0.0, 0.5]]), 1).tolist()
    [[127.0, 1.0], [0.0, 0.5]]
    """
    scale = weight.abs().amax(along, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / 127.0
    return (weight / scale).round() * scale


def rounded(weight: Tensor, form: str, along: int | tuple[int, ...] | None) -> Tensor:
    """Round weights to a number format, in the trainer's type; int8 leaves weights without rows unchanged."""
    if form == "bfloat16":
        return weight.to(torch.bfloat16).to(weight.dtype)
    return weight if along is None else levels(weight, along)


def checked(sampler: str | None) -> str | None:
    """Validate the name of a number format; None stands for the trainer's own weights."""
    if sampler is not None:
        checks.one_of("sampler", sampler, SAMPLERS, "leave it out for the trainer's own weights")
    return sampler


def log_softmax(raw: Tensor) -> Tensor:
    """Log softmax over the last axis, computed on the transpose, since rows of few numbers take ten times as long."""
    return raw.mT.log_softmax(-2).mT.contiguous()


class Categorical:
    """Categorical action head: pi(a) = exp(raw_a) / sum_b exp(raw_b)."""

    def draw(self, raw: Tensor, log_std: Tensor, draws: Draws, token: int) -> Tensor:
        """Sample actions by inverse CDF from draw 0 of the token, in float64, so that none has probability 0."""
        cumulative = raw.double().softmax(-1).cumsum(-1)
        uniform = draws.uniform(token, 0).to(raw.device)
        below = (cumulative <= uniform.reshape(*raw.shape[:-1], 1)).sum(-1)
        return below.clamp_(max=raw.shape[-1] - 1).reshape(uniform.shape)

    def log_prob(self, raw: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
        """Log-prob of an action from logits: raw_a - log sum exp raw."""
        return log_softmax(raw).gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self, raw: Tensor, log_std: Tensor) -> Tensor:
        """Entropy of the categorical distribution in nats, -sum pi log pi."""
        log_prob = log_softmax(raw)
        return -(log_prob.exp() * log_prob).sum(-1)

    def pull(self, raw: Tensor, log_std: Tensor, action: Tensor, cotangents: Outputs) -> tuple[Tensor, Tensor]:
        """Pullback to the logits: d log pi(a)/d raw = e_a - pi, of one or all actions; dH/d raw = -pi (log pi + H)."""
        log_prob = log_softmax(raw)
        prob, gradient = log_prob.exp(), torch.zeros_like(log_prob)
        if "log_prob" in cotangents:
            each = cotangents["log_prob"].unsqueeze(-1)
            gradient = (-each * prob).scatter_add_(-1, action.unsqueeze(-1), each)
        if "log_probs" in cotangents:
            every = cotangents["log_probs"]
            gradient = gradient + every - prob * every.sum(-1, keepdim=True)
        if "entropy" in cotangents:
            entropy = -(prob * log_prob).sum(-1, keepdim=True)
            gradient = gradient - cotangents["entropy"].unsqueeze(-1) * prob * (log_prob + entropy)
        return gradient, log_std.new_zeros((*raw.shape[:2], 0))


class Normal:
    """Normal action head: a = raw + exp(log_std) z, with one log_std for all states."""

    def draw(self, raw: Tensor, log_std: Tensor, draws: Draws, token: int) -> Tensor:
        """Sample actions from normal draws 0, ..., D - 1 of the token."""
        normals = draws.normals(token, raw.shape[-1])
        actions = raw + log_std.exp() * normals.to(raw.device, raw.dtype).reshape(raw.shape)
        return actions.reshape(normals.shape)

    def log_prob(self, raw: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
        """Log density of an action, -(sum_d z_d^2/2 + log_std_d + log(2 pi)/2)."""
        standard = (action - raw) * (-log_std).exp()
        return -0.5 * (standard**2).sum(-1) - (log_std + 0.5 * _LOG_TWO_PI).sum(-1)

    def entropy(self, raw: Tensor, log_std: Tensor) -> Tensor:
        """Entropy of the normal distribution in nats, sum_d log_std_d + log(2 pi e)/2."""
        return (log_std + 0.5 * (_LOG_TWO_PI + 1.0)).sum(-1).expand(raw.shape[:-1])

    def pull(self, raw: Tensor, log_std: Tensor, action: Tensor, cotangents: Outputs) -> tuple[Tensor, Tensor]:
        """Pullback to the head: d log pi/d raw = z/std; d log pi/d log_std = z^2 - 1; dH/d log_std = 1."""
        gradient, spread = torch.zeros_like(raw), torch.zeros_like(raw)
        if "log_prob" in cotangents:
            each, inverse = cotangents["log_prob"].unsqueeze(-1), (-log_std).exp()
            standard = (action - raw) * inverse
            gradient, spread = each * standard * inverse, each * (standard**2 - 1.0)
        if "entropy" in cotangents:
            spread = spread + cotangents["entropy"].unsqueeze(-1)
        return gradient, spread


Head = Categorical | Normal
"""`raw` is the last layer's output `[R, n, width]`, `log_std` `[R, 1, spread]`, `action` `[R, n]` or `[R, n, D]`.

`draw` chooses actions `[R, G, N]` or `[R, G, N, D]`; `log_prob` and `entropy` are `[R, n]` in nats; `pull` turns their
cotangents `[R, n]` into those of `raw`, and of `log_std` per row (`[R, n, spread]`). A softmax also takes those of
`log_probs`, `[R, n, width]`.
"""
HEADS: dict[str, Head] = {"categorical": Categorical(), "gaussian": Normal()}


class Networked(Policy):
    """Base of network policies, whose sampler may round the weights to fewer bits than the trainer."""

    has_critic: bool
    sampler: str | None

    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    precision: ClassVar[str] = "float32"

    @property
    def mismatched(self) -> bool:  # type: ignore[override]
        """Whether the sampler uses rounded weights."""
        return self.sampler is not None

    def rounded(self, parameters: Tensor, form: str) -> Tensor:
        """Parameters `[R, P]` rounded to the sampler's number format."""
        raise NotImplementedError

    def install(self, weights: Weights, keys: Keys | None = None) -> Weights:
        """Published parameters, and the rounded parameters that the sampler uses."""
        own = weights["parameters"]
        return weights if self.sampler is None else {**weights, "sampled": self.rounded(own, self.sampler)}
