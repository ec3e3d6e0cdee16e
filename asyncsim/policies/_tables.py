"""A softmax over a table of logits, one row per state, one column per action: free, or computed by a perceptron."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.fusing.tape import added, counted, entries, first_places, primitive, rows_of
from asyncsim.policies._engine import PLAIN, Engine
from asyncsim.policies._mlp_network import HEADS, Evaluation, Layout, Network, passes, score_norm
from asyncsim.policies._policy import Act, Forward, Keys, Moves, Policy, Replicates, Walk, count, numbers
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.versions import View, Weights


@dataclass(frozen=True)
class Tabular(Policy):
    """Softmax policy with free logits theta `[R, S, A]` as flat parameters `[R, P]`, P = S A; see `tabular`."""

    rows: int
    actions: int
    logits: tuple[tuple[float, ...], ...] | None = None
    reference: tuple[tuple[float, ...], ...] | None = None
    engine: Engine = PLAIN

    outputs: ClassVar[tuple[str, ...]] = ("log_prob", "entropy", "kl", "log_probs", "reference", "reference_log_probs")
    apart: ClassVar[bool] = True

    @cached_property
    def mismatched(self) -> bool:  # type: ignore[override]
        """Whether the table's engine samples from, or reports, another distribution than the policy."""
        return not self.engine.plain

    @property
    def cells(self) -> int:
        """Number of entries in the table of logits, S A."""
        return self.rows * self.actions

    @property
    def size(self) -> int:
        return self.cells

    def initial(self, replicates: Replicates, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
        """Initial parameters `[R, P]`: the given logits, or zeros (the uniform policy)."""
        start = np.zeros((self.rows, self.actions)) if self.logits is None else np.array(self.logits)
        return torch.as_tensor(start, dtype=dtype).reshape(1, -1).repeat(count(replicates), 1)

    def prepare(self, parameters: Tensor) -> Weights:
        """Tables to publish: log-probabilities and CDF, each `[R, S, A]`."""
        logits = parameters.reshape(-1, self.rows, self.actions)
        shifted = logits - logits.amax(-1, keepdim=True)
        weights = shifted.exp()
        total = weights.sum(-1, keepdim=True)
        log_prob, prob = shifted - total.log(), weights / total
        return {"log_prob": log_prob, "prob": prob, "cdf": prob.cumsum(-1)}

    def install(self, weights: Weights, keys: Keys | None = None) -> Weights:
        """Published tables, together with the tables that the engine samples from if they differ."""
        return self.engine.install(weights, keys) if self.mismatched else weights

    def record(self, view: View, batch: Batch) -> Outputs:
        """Log-probs of a batch as the engine reports them."""
        return {"log_prob": self._of_engine("reported", view, batch)}

    def misreport(self, outputs: Outputs, draws: Draws) -> Outputs:
        """Recorded outputs with the noise that the engine's reports add to each token or sequence."""
        if not self.engine.apart or self.engine.noise_in == "logits":
            return outputs
        return {**outputs, "log_prob": self.engine.misreport(outputs["log_prob"], draws)}

    def law(self, view: View, batch: Batch) -> Tensor | None:
        """Log-probs of the engine's sampling distribution; refused if every token has its own distribution."""
        bound = "'version' where outcomes are listed"
        remedy = "use sampling='monte_carlo' without the diagnostics bias and variance"
        checks.require(not self.engine.apart, "noise_per", self.engine.noise_per, bound, remedy)
        return self._of_engine("sampled", view, batch)

    def act(
        self, view: View, state: Tensor, draws: Draws, token: int, memory: Any = None, active: Tensor | None = None
    ) -> Act:
        """Sample actions of one token position by inverse CDF, int64 `[R, G, N]`; noisy engines also give outputs."""
        if self.engine.apart and self.engine.noise_in == "logits":
            return self.engine.act(view, state, draws, token)
        from asyncsim.policies import _kernels as kernels

        uniform, cdf = draws.uniform(token, 0), view.weights["cdf"].double()
        with primitive(counted(kernels.BELOW), uniform, cdf, state) as done:
            action = torch.empty(state.shape, dtype=torch.int64)
            kernels.choose(
                uniform.numpy(), draws.realization, cdf.numpy(), view.slot[..., 0], state.numpy(), action.numpy()
            )
            return Act(done(action), {})

    def walk(self, view: View, moves: Moves, state: Tensor, draws: Draws, horizon: int) -> Walk | None:
        """Sample all tokens in one compiled loop; None for an engine whose noise differs between tokens."""
        if self.engine.apart and self.engine.noise_in == "logits":
            return None
        from asyncsim.policies import _kernels as kernels

        following, passed = moves
        shape, whole = (*state.shape, horizon), bool((following >= 0).all())
        # What is the same in every trajectory takes no memory; else tokens behind the end stay in the first cell.
        make = torch.empty if whole else torch.zeros
        action = make(shape, dtype=torch.int64)
        states = torch.zeros(shape if passed is None else 0, dtype=torch.int64)
        mask = torch.zeros(0 if whole else shape, dtype=torch.float64)
        index = torch.empty_like(action) if whole else first_places(shape[0], self.cells).expand(shape).clone()
        cdf, said = view.weights["cdf"].double(), view.weights["reported" if self.mismatched else "log_prob"]
        log_prob, numbers = make(shape, dtype=said.dtype), torch.empty((2, *state.shape), dtype=torch.float64)
        keys = (*draws.stream.key, draws.replicates, draws.realization, draws.trajectory)
        columns = (state, states.reshape(-1), mask.reshape(-1), action, log_prob, index, numbers)
        kernels.walk(*keys, cdf.numpy(), said.numpy(), view.slot, following, *(x.numpy() for x in columns))
        draws.blocks[0, 0] = (numbers[0], numbers[1])
        if whole:
            mask = torch.ones((), dtype=torch.float64).expand(shape)
        states = states if passed is None else passed.expand(shape)
        return Walk(states, action, mask, {"log_prob": log_prob}, index, whole)

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """Outputs by name, `[R, G, N, T]` each (for all actions `[R, G, N, T, A]`), and the pullback.

        d log pi(a|s)/d theta_s = e_a - pi_s; dH/d theta = -pi (log pi + H); dKL/d theta = pi (log pi - log ref - KL);
        the log-probs of the reference do not move.
        """
        view, cells = _narrow(view), self._cells(view, batch)
        outputs: Outputs = {}
        for name in self.named(names):
            if name == "log_prob":
                outputs[name] = entries(view.weights["log_prob"], cells)
            elif name == "log_probs":
                outputs[name] = rows_of(view.weights["log_prob"], self._row(cells))
            elif name in ("entropy", "kl"):
                outputs[name] = entries(self._entropy(view) if name == "entropy" else self._kl(view), self._row(cells))
            else:
                rows = self._log_reference()[self._row(cells) % self.rows]
                outputs[name] = rows if name != "reference" else rows.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        return Forward(outputs, lambda cotangents: self._pull(view, cells, cotangents))

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """|sum_t w_t grad log pi(a_t|s_t)|^2 for each sample, `[R, G, N]`; `weight` is `[R, G, N, T]`.

        At one set of weights the sum stands in a table of its own for each sample. Else pairs of tokens are compared:
        those of different states are orthogonal. In one state the inner product of the scores of token t under pi and
        token t' under pi' is 1[a = a'] - pi(a') - pi'(a) + pi . pi'.
        """
        view, cells = _narrow(view), self._cells(view, batch)
        if view.single and self.cells <= cells.shape[3] ** 2:
            table = weight.new_zeros((*cells.shape[:3], self.cells))
            table.scatter_add_(-1, cells % self.cells, weight.expand(cells.shape))
            table = table.unflatten(-1, (self.rows, self.actions))
            prob = view.weights["prob"][0].reshape(-1, 1, 1, self.rows, self.actions).to(table.dtype)
            return (table - table.sum(-1, keepdim=True) * prob).square().sum((-1, -2))
        prob = rows_of(view.weights["prob"], self._row(cells))
        action, state = batch.action.unsqueeze(-2), batch.state
        crossed = prob.gather(-1, action.expand(*cells.shape, cells.shape[-1]))
        inner = (action == action.mT).to(prob.dtype) - crossed - crossed.mT + prob @ prob.mT
        same_state = state.unsqueeze(-1) == state.unsqueeze(-2)
        pairs = weight.unsqueeze(-1) * weight.unsqueeze(-2) * torch.where(same_state, inner, torch.zeros_like(inner))
        return pairs.sum((-1, -2))

    def describe(self) -> dict[str, Any]:
        return {"policy": "tabular", "rows": self.rows, "actions": self.actions, **self.engine.describe()}

    def _of_engine(self, name: str, view: View, batch: Batch) -> Tensor:
        """Entries of one of the engine's tables, `[R, G, N, T]`."""
        view = _narrow(view)
        return entries(view.weights[name], self._cells(view, batch))

    def _cells(self, view: View, batch: Batch) -> Tensor:
        """Index of every token's (slot, replicate, row, action) in the narrowed tables, int64 `[R, G, N, T]`."""
        if batch.index is None:
            table = first_places(batch.action.shape[0], self.cells)
            cell = batch.action if self.rows == 1 else batch.state * self.actions + batch.action
            batch.index = table + cell
        if view.single:
            return batch.index
        return batch.index + view.slots(tuple(batch.action.shape)) * (batch.action.shape[0] * self.cells)

    def _row(self, cells: Tensor) -> Tensor:
        """Index (slot, replicate, state) of every token's row."""
        return torch.div(cells, self.actions, rounding_mode="floor")

    def _entropy(self, view: View) -> Tensor:
        return -(view.weights["prob"] * _finite(view.weights["log_prob"])).sum(-1)

    def _kl(self, view: View) -> Tensor:
        return (view.weights["prob"] * (_finite(view.weights["log_prob"]) - self._log_reference())).sum(-1)

    def _log_reference(self) -> Tensor:
        table = np.zeros((self.rows, self.actions)) if self.reference is None else np.array(self.reference)
        return torch.log_softmax(torch.as_tensor(table, dtype=torch.float64), dim=-1)

    def _pull(self, view: View, cells: Tensor, cotangents: Outputs) -> Tensor:
        prob, log_prob = view.weights["prob"], view.weights["log_prob"]
        table = torch.zeros_like(prob)
        for name, cotangent in cotangents.items():
            if name in ("reference", "reference_log_probs"):
                continue
            if name in ("log_prob", "log_probs"):
                every = cells
                if name == "log_probs":
                    every = self._row(cells).unsqueeze(-1) * self.actions + torch.arange(self.actions)
                scattered = _scattered(cotangent, every, prob)
                table += scattered - scattered.sum(-1, keepdim=True) * prob
                continue
            rows = _scattered(cotangent, self._row(cells), prob[..., 0]).unsqueeze(-1)
            if name == "entropy":
                table -= rows * prob * (_finite(log_prob) + self._entropy(view).unsqueeze(-1))
            else:
                table += rows * prob * (_finite(log_prob) - self._log_reference() - self._kl(view).unsqueeze(-1))
        return self._gradient(view, table)

    def _gradient(self, view: View, table: Tensor) -> Tensor:
        """Ascent direction `[R, P]` from cotangents of the logits of every slot, `[H, R, S, A]`."""
        return (table[0] if table.shape[0] == 1 else table.sum(0)).reshape(table.shape[1], -1)


@dataclass(frozen=True)
class Shared(Tabular):
    """Softmax policy whose logits a perceptron computes from one-hot states; see `mlp`."""

    hidden: tuple[int, ...] = ()
    gain: float = 0.0

    # A product of matrices rounds by how many replicates stand beside one another.
    apart: ClassVar[bool] = False

    @cached_property
    def layout(self) -> Layout:
        """Positions of the perceptron's layers in the flat parameters."""
        return Layout(self.rows, self.hidden, self.actions, 0, 0, False)

    @property
    def size(self) -> int:
        return self.layout.size

    def initial(self, replicates: Replicates, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
        """Initial parameters `[R, P]`: orthogonal weights with a gain and no bias."""
        return self.layout.initial(numbers(replicates), seed, self.gain, 0.0).to(dtype)

    def prepare(self, parameters: Tensor) -> Weights:
        """Tables to publish, and the perceptron's parameters from which they were computed."""
        logits = self._network(parameters).outputs
        return {**super().prepare(logits.contiguous()), "parameters": parameters}

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """Squared norm of each sample's score, from the perceptron evaluated at the states of all tokens."""
        shape, seen = batch.action.shape[:4], self._seen[0, batch.state].flatten(1, 3)
        evaluated = [(Evaluation(self.layout, own, seen), rows) for own, rows in passes(view, shape)]
        return score_norm(HEADS["categorical"], evaluated, batch.action, weight)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "policy": "mlp", "hidden": list(self.hidden)}

    def _gradient(self, view: View, table: Tensor) -> Tensor:
        parameters = view.weights["parameters"].flatten(0, 1)
        gradient = torch.zeros_like(parameters)
        self._network(parameters).pull(table.flatten(0, 1), self.layout.actor(gradient))
        return gradient.unflatten(0, table.shape[:2]).sum(0)

    def _network(self, parameters: Tensor) -> Network:
        """Evaluate the perceptron on all states, logits `[R, S, A]`."""
        seen = self._seen.to(parameters.dtype).expand(len(parameters), -1, -1)
        return Network(self.layout.actor(parameters), seen)

    @cached_property
    def _seen(self) -> Tensor:
        return torch.eye(self.rows, dtype=torch.float64).unsqueeze(0)


def _scattered(cotangent: Tensor, index: Tensor, like: Tensor) -> Tensor:
    """Add cotangents `[R, G, N, T]` to the cells of a table shaped and typed like another."""
    from asyncsim.policies import _kernels as kernels

    with primitive(added, cotangent, index) as done:
        table = torch.zeros(like.shape, dtype=like.dtype)
        values = cotangent.expand(index.shape)
        kernels.scatter(kernels.contiguous(values), kernels.contiguous(index), kernels.contiguous(table))
        return done(table)


def _narrow(view: View) -> View:
    """Restrict a view that uses one slot to that slot."""
    if not view.single or view.weights["prob"].shape[0] == 1:
        return view
    slot = int(view.slot.flat[0])
    return View({k: w[slot : slot + 1] for k, w in view.weights.items()}, np.zeros_like(view.slot), view.realization)


def _finite(log_prob: Tensor) -> Tensor:
    """Log-probabilities with 0 for impossible actions, which are multiplied by probability 0."""
    return torch.where(torch.isinf(log_prob), torch.zeros((), dtype=log_prob.dtype), log_prob)
