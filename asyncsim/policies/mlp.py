"""Two perceptrons with tanh units, one for actions and one for values, batched over replicates."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from asyncsim.base import checks
from asyncsim.base.parts import choice, handed_on, made, real, whole
from asyncsim.policies import _mlp_network as network
from asyncsim.policies._policy import Act, Forward, Replicates, numbers
from asyncsim.policies._tables import Shared
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.versions import View

_TEXTS = checks.table(__file__, "texts.toml")["mlp"]

_WIDE = ("log_probs", "action_values")
"""Outputs with one number for each action."""


@dataclass(frozen=True)
class Mlp(network.Networked):
    """Perceptron policy (an actor and an optional critic) with flat parameters `[R, P]`; see `mlp`."""

    observation: int
    actions: int
    head: str
    hidden: tuple[int, ...]
    has_critic: bool
    normalize: bool
    log_std: float
    gain: float
    by_action: bool = False
    sampler: str | None = None

    @property
    def outputs(self) -> tuple[str, ...]:  # type: ignore[override]
        values = ("action_value", "action_values") if self.by_action else ("value",)
        every = ("log_probs",) if self.head == "categorical" else ()
        return ("log_prob", "entropy", *(values if self.has_critic else ()), *every)

    @property
    def critic(self) -> bool:
        """Whether observations have a value: the critic's, or the policy's mean of its action values."""
        return self.has_critic

    @property
    def layout(self) -> network.Layout:
        """Positions of the networks' layers in the flat parameters."""
        spread = self.actions if self.head == "gaussian" else 0
        values = int(self.has_critic) * (self.actions if self.by_action else 1)
        return network.Layout(self.observation, self.hidden, self.actions, spread, values, self.normalize)

    @property
    def size(self) -> int:
        return self.layout.size

    def initial(self, replicates: Replicates, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
        """Initial parameters `[R, P]` of the first replicates, or of the replicates with given global numbers."""
        made = self.layout.initial(numbers(replicates), seed, self.gain, self.log_std)
        return made.to(torch.get_default_device(), dtype)

    def rounded(self, parameters: Tensor, form: str) -> Tensor:
        """Parameters with the policy network rounded to a number format; int8 has a scale per unit's inputs."""
        out = parameters.clone()
        for weight, bias in self.layout.actor(out):
            weight.copy_(network.rounded(weight, form, 1))
            bias.copy_(network.rounded(bias, form, None))
        spread = self.layout.log_std(out)
        spread.copy_(network.rounded(spread, form, None))
        return out

    def on_table(self, rows: int) -> Shared:
        """The policy network as a table of logits, with one-hot states as observations."""
        for name, value, wanted, remedy in (
            ("observation", self.observation, rows, "give the number of states"),
            ("head", self.head, "categorical", "a table has a finite number of actions"),
            ("critic", "action" if self.by_action else self.has_critic, False, "a table has no critic: critic=False"),
            ("normalize", self.normalize, False, "leave it out: states are no measurements"),
            ("sampler", self.sampler, None, "leave it out, or use an engine of policies.tabular"),
        ):
            checks.require(value == wanted, name, value, f"{wanted} on a task with a table of {rows} states", remedy)
        return Shared(rows, self.actions, hidden=self.hidden, gain=self.gain)

    def act(
        self, view: View, seen: Tensor, draws: Draws, token: int, memory: Any = None, active: Tensor | None = None
    ) -> Act:
        """Sample actions of a position, int64 `[R, G, N]` or float `[R, G, N, D]`, with log-probs and state values."""
        shape, rows = seen.shape[:3], seen.flatten(1, 2)
        own = self._evaluated(network.passes(view, (*shape, 1)), rows)
        drawn = self._evaluated(network.passes(view, (*shape, 1), "sampled"), rows) if self.mismatched else own
        raw = network.merged([(at.actor.outputs, chosen) for at, chosen in drawn])
        log_std = network.merged([(at.log_std, chosen) for at, chosen in drawn])
        action = self._head.draw(raw, log_std, draws, token)
        outputs = {"log_prob": self._head.log_prob(raw, log_std, action.flatten(1, 2))}
        if "value" in self.outputs:
            # The trainer values what the sampler has seen.
            outputs["value"] = network.merged([(at.value, chosen) for at, chosen in own])
        return Act(action, {name: each.unflatten(1, shape[1:]) for name, each in outputs.items()})

    def value(self, view: View, seen: Tensor) -> Tensor:
        """State values `[R, G, N]` of observations `[R, G, N, D]`."""
        if not self.has_critic:
            return super().value(view, seen)
        shape = seen.shape[:3]
        evaluated = self._evaluated(network.passes(view, (*shape, 1)), seen.flatten(1, 2))
        return network.merged([(at.value, chosen) for at, chosen in evaluated]).unflatten(1, shape[1:])

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """Outputs by name, `[R, G, N, T]` (for all actions `[R, G, N, T, A]`), and a hand-written pullback."""
        shape = batch.action.shape[:4]
        action, evaluated = batch.action.flatten(1, 3), self._at(view, batch)
        outputs: Outputs = {}
        for name in self.named(names):
            rows = [(self._output(name, at, action), chosen) for at, chosen in evaluated]
            outputs[name] = network.merged(rows).unflatten(1, shape[1:])

        def pullback(cotangents: Outputs) -> Tensor:
            gradient = torch.zeros_like(evaluated[0][0].parameters)
            for at, chosen in evaluated:
                rows = {k: self._rows(k, x, shape, chosen).to(gradient.dtype) for k, x in cotangents.items()}
                self._pull(at, action, rows, gradient)
            return gradient

        return Forward(outputs, pullback)

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """|sum_t w_t grad log pi(a_t|s_t)|^2 for each sample, `[R, G, N]`; `weight` is `[R, G, N, T]`.

        The gradient of a layer is the sum over tokens of input x delta. So the inner product of two tokens is (delta .
        delta') (input . input' + 1), added over layers: T^2 numbers per sample.
        """
        return network.score_norm(self._head, self._at(view, batch), batch.action, weight)

    def absorb(self, parameters: Tensor, batch: Batch) -> Tensor:
        """Parameters with the observation normalizer updated from the batch (Welford's sums, per replicate).

        Before the first batch mean 0 and variance 1 stand for nothing: their count is 0.
        """
        if not self.normalize:
            return parameters
        weight = (batch.mask * (batch.generated.mass > 0).unsqueeze(-1)).flatten(1).unsqueeze(-1)
        rows = self._observations(batch).to(weight.dtype)
        mean, variance, count = (part.to(weight.dtype) for part in self.layout.normalizer(parameters))
        fresh = weight.sum(1)
        center = (weight * rows).sum(1) / fresh.clamp(min=1.0)
        squares = (weight * (rows - center.unsqueeze(1)) ** 2).sum(1)
        total = (count + fresh).clamp(min=1.0)
        shift = center - mean
        squares = variance * count + squares + shift**2 * count * fresh / total
        known = fresh > 0
        out = parameters.clone()
        renewed = mean + shift * fresh / total, squares / total, count + fresh
        for part, new in zip(self.layout.normalizer(out), renewed, strict=True):
            part.copy_(torch.where(known, new.to(out.dtype), part))
        return out

    def as_module(self, parameters: Tensor) -> nn.Module:
        """Torch module from observations `[n, D]` to logits or means `[n, A]`, and values `[n]` if it has a critic."""
        return network.Perceptron(self.layout, parameters, self.by_action)

    def describe(self) -> dict[str, Any]:
        names = ("observation", "actions", "head", "hidden", "critic", "normalize", "log_std", "gain")
        shown = {"hidden": list(self.hidden), "critic": "action" if self.by_action else self.has_critic}
        own = {name: shown.get(name, getattr(self, name)) for name in names}
        return {"policy": "mlp", **own, **({"sampler": self.sampler} if self.sampler else {})}

    @property
    def _head(self) -> network.Head:
        return network.HEADS[self.head]

    def _observations(self, batch: Batch) -> Tensor:
        """Observation at every token, `[R, n, D]`."""
        return batch.state.expand(*batch.action.shape[:4], self.observation).flatten(1, 3)

    def _evaluated(self, weights: list[network.Pass], rows: Tensor) -> list[tuple[network.Evaluation, Tensor | None]]:
        return [(network.Evaluation(self.layout, each, rows), chosen) for each, chosen in weights]

    def _at(self, view: View, batch: Batch) -> list[tuple[network.Evaluation, Tensor | None]]:
        """Evaluations at all tokens of a batch, each with the rows that use it."""
        return self._evaluated(network.passes(view, batch.action.shape[:4]), self._observations(batch))

    def _output(self, name: str, at: network.Evaluation, action: Tensor) -> Tensor:
        if name == "value":
            return at.value
        if name == "action_values":
            return at.valuer.outputs
        if name == "action_value":
            return at.valuer.outputs.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        raw = at.actor.outputs
        if name == "log_probs":
            return network.log_softmax(raw)
        if name == "log_prob":
            return self._head.log_prob(raw, at.log_std, action)
        return self._head.entropy(raw, at.log_std)

    def _rows(self, name: str, cotangent: Tensor, shape: tuple[int, ...], chosen: Tensor | None) -> Tensor:
        """Cotangents `[R, n]`, or `[R, n, A]` for an output over all actions; 0 in rows that are not `chosen`."""
        wide = name in _WIDE
        rows = (cotangent.expand(*shape, self.actions) if wide else cotangent.expand(shape)).flatten(1, 3)
        if chosen is None:
            return rows
        return torch.where(chosen.unsqueeze(-1) if wide else chosen, rows, torch.zeros_like(rows))

    def _pull(self, at: network.Evaluation, action: Tensor, cotangents: Outputs, gradient: Tensor) -> None:
        """Accumulate the gradient for cotangents `[R, n]` of one set of weights."""
        layout = self.layout
        if not cotangents.keys().isdisjoint(("log_prob", "entropy", "log_probs")):
            raw, spread = self._head.pull(at.actor.outputs, at.log_std, action, cotangents)
            at.actor.pull(raw, layout.actor(gradient))
            layout.log_std(gradient).add_(spread.sum(1))
        if "value" in cotangents:
            at.valuer.pull(cotangents["value"].unsqueeze(-1), layout.valuer(gradient))
        if not cotangents.keys().isdisjoint(("action_value", "action_values")):
            every = cotangents.get("action_values")
            every = torch.zeros_like(at.valuer.outputs) if every is None else every
            if "action_value" in cotangents:
                every = every.scatter_add(-1, action.unsqueeze(-1), cotangents["action_value"].unsqueeze(-1))
            at.valuer.pull(every, layout.valuer(gradient))


@made(**_TEXTS["mlp"])
def mlp(
    observation: int = whole(..., "D, coordinates of what it reads", 1, remedy="a policy reads at least one number"),
    actions: int = handed_on(..., "number of choices, or coordinates of a Gaussian action"),
    head: str = choice(*network.HEADS, words="how actions are drawn", remedy="choose how actions are drawn"),
    hidden: tuple[int, ...] = handed_on((64, 64), "units of each hidden layer"),
    critic: bool | str = handed_on(True, **_TEXTS["critic"]),
    normalize: bool = handed_on(False, **_TEXTS["normalize"]),
    log_std: float = real(0.0, "initial log of the spread in units of the action"),
    gain: float = real(0.01, low=0.0, **_TEXTS["gain"]),
    sampler: str | None = network.SAMPLER,
) -> Mlp:
    """Perceptron policy: two networks with tanh units, one for actions and one for values, vectorized over replicates.

    h_0 = s, h_l = tanh(W_l h_(l-1) + b_l), raw = W h_L + b; values come from a network of their own. Categorical:
    log pi(a|s) = raw_a - log sum_b exp(raw_b). Gaussian: a ~ N(raw, diag(exp(2 log_std))), a spread that does not
    depend on the state. Weights begin orthogonal (gain sqrt(2) in hidden layers, `gain` in the policy's last, 1 in the
    value's), biases at 0; every replicate of a run has its own. On a task with a table of S states it reads a one for
    its state (`observation=S, critic=False`), and logits of all states are computed once a version.

    >>> policy = mlp(observation=4, actions=2)
    >>> policy.size, policy.outputs
    (9155, ('log_prob', 'entropy', 'value', 'log_probs'))
    """
    least = 2 if head == "categorical" else 1
    remedy = "a policy needs a choice" if least == 2 else "give the action a dimension"
    checks.integer("actions", actions, least, remedy)
    units = isinstance(hidden, (tuple, list))
    checks.require(units, "hidden", hidden, "a tuple of layer widths", "write hidden=(64, 64), or () for none")
    remedy = "give every hidden layer a unit"
    widths = tuple(checks.integer(f"hidden[{number}]", width, 1, remedy) for number, width in enumerate(hidden))
    by_action = isinstance(critic, str)
    if by_action:
        checks.one_of("critic", critic, ("action",), "say whether there is one, or 'action' for a value of each choice")
        checks.require(head == "categorical", "critic", critic, "True or False for a normal head", "use critic=True")
    for name, flag in (("critic", by_action or critic), ("normalize", normalize)):
        checks.boolean(name, flag, "say whether there is one")
    more = (by_action, network.checked(sampler))
    return Mlp(observation, actions, head, widths, bool(critic), bool(normalize), log_std, gain, *more)
