"""What finished responses score: outputs of every token from one pass over each text, and their gradient."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from asyncsim.policies._language_network import Model, headless, logits_of, products
from asyncsim.policies._language_prompts import Prompts, lay_out, refuse_long, teacher_forced
from asyncsim.policies._language_sampling import Distribution, owners
from asyncsim.policies._policy import Forward
from asyncsim.step.batch import Batch, Outputs
from asyncsim.step.versions import View


@dataclass(frozen=True)
class Piece:
    """Rows int64 `[b]` of one pass through the network, and which of their tokens use the pass's weights, `[b, T]`."""

    owner: int
    rows: Tensor
    chosen: Tensor


WIDE = ("log_probs",)
"""Outputs with one number for every token of the vocabulary."""

LARGE, CHUNK, LEAST = 1 << 24, 1 << 22, 64
"""Logits above which a head is computed for some tokens at a time, how many logits those have, and their least number.

Below that logits stay in memory for the pass backwards, which then need not make them again.
"""


@dataclass(frozen=True, eq=False)
class Graph:
    """A `Piece` with its outputs and the weights on which the outputs depend.

    Outputs are differentiable, unless the head was computed in chunks: then `states` `[b, T, W]` are, a critic's value
    behind them, of responses int64 `[b, T]` that differ; every row of the piece is one of them, `which`.
    """

    piece: Piece
    outputs: Outputs
    leaves: list[nn.Parameter]
    network: nn.Module
    states: Tensor | None
    action: Tensor
    which: Tensor


@dataclass
class Scoring:
    """Scoring of responses int64 `[B, T]` after prompts, in number format `form` and passes of the rows in `pieces`.

    Outputs are `[B, T]`, log-probs of the whole vocabulary `[B, T, V]`.
    """

    model: Model
    law: Distribution
    form: str
    flat: Tensor
    prompts: Prompts
    action: Tensor
    pieces: list[Piece]
    names: tuple[str, ...]

    @property
    def vocabulary(self) -> int:
        """Number of tokens that have a logit, V."""
        return self.model.vocabulary

    def graph(self, network: nn.Module, leaves: list[nn.Parameter], piece: Piece) -> Graph:
        """Outputs of one pass by name, 0 for tokens that use other weights than the pass."""
        T = int(piece.chosen.any(0).nonzero()[-1]) + 1
        prompts, action = self.prompts.rows(piece.rows), self.action[piece.rows, :T]
        first, which = prompts.alike(action)
        action = action[first]
        large = action.numel() * self.vocabulary > LARGE and not set(self.names) & set(WIDE) and self.model.parts
        with headless(network) if large else nullcontext():
            raw = teacher_forced(network, prompts.rows(first), action)
        if large:
            with torch.no_grad():
                parts = [self.outputs(part, said, self.names, network) for part, said in self._chunks(raw, action)]
            values = {name: torch.cat([part[name] for part in parts]).view_as(action) for name in self.names}
        else:
            values = self.outputs(raw, action, self.names)
        outputs = {name: self._laid_out(piece, value[which]) for name, value in values.items()}
        return Graph(piece, outputs, leaves, network, raw if large else None, action, which)

    def outputs(self, raw: Tensor, action: Tensor, names: Iterable[str], network: nn.Module | None = None) -> Outputs:
        """Outputs by name for tokens `[...]`, from logits `[..., V]`, or from hidden states `[..., W]` and network."""
        wide, value = (raw[..., :-1], raw[..., -1]) if self.model.critic else (raw, raw[..., 0])
        log_probs = self.law.log_prob(wide if network is None else logits_of(network, wide))
        return {name: value if name == "value" else _output(name, log_probs, action) for name in names}

    def _chunks(self, states: Tensor, action: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """States `[b, T, W]` and tokens `[b, T]` as rows, in chunks."""
        rows = max(LEAST, CHUNK // self.vocabulary)
        return zip(states.flatten(0, 1).split(rows), action.flatten().split(rows), strict=True)

    def _laid_out(self, piece: Piece, value: Tensor) -> Tensor:
        """Values `[b, t, ...]` of a piece's rows padded to response length, 0 for tokens with other weights."""
        T = value.shape[1]
        chosen = piece.chosen[:, :T].reshape(*value.shape[:2], *(1,) * (value.ndim - 2))
        value = torch.where(chosen, value, torch.zeros((), dtype=value.dtype))
        return nn.functional.pad(value, (*(0, 0) * (value.ndim - 2), 0, self.action.shape[1] - T))

    def graphs(self, live: bool) -> Iterator[Graph]:
        """Outputs of every pass, with their autograd graph if `live`; each set of weights is bound once."""
        for owner, pieces in groupby(self.pieces, key=lambda piece: piece.owner):
            network, leaves = self.model.bound(self.flat.flatten(0, 1)[owner], self.form, live)
            for piece in pieces:
                # Nothing here holds a graph while the next one is made.
                yield torch.set_grad_enabled(live)(self.graph)(network, leaves, piece)

    def values(self, graphs: Iterable[Graph] | None = None) -> Outputs:
        """Outputs of all passes by name, detached."""
        shape = tuple(self.action.shape)
        wide = {name: (*shape, self.vocabulary) if name in WIDE else shape for name in self.names}
        totals = {name: torch.zeros(each, dtype=self.flat.dtype) for name, each in wide.items()}
        for graph in self.graphs(False) if graphs is None else graphs:
            for name, value in graph.outputs.items():
                totals[name][graph.piece.rows] += value.detach().to(self.flat.dtype)
            del graph
        return totals

    def pull(self, cotangents: Outputs, graphs: list[Graph] | None) -> Tensor:
        """Gradient `[R, P]` of the sum of outputs times cotangents; passes whose graph was not kept are recomputed."""
        total, keep = torch.zeros(self.flat.shape[1:], dtype=self.flat.dtype), graphs is not None
        for graph in self.graphs(True) if graphs is None else graphs:
            weights = {name: cotangent[graph.piece.rows] for name, cotangent in cotangents.items()}
            row = total[graph.piece.owner % len(total)]
            with added(graph.leaves, row), products(self.form, self.flat.device):
                if graph.states is None:
                    _backward(graph.outputs, weights, graph.leaves, keep)
                else:
                    gradient = self._pull_head(graph, graph.states.detach(), weights)
                    graph.states.backward(gradient, inputs=graph.leaves, retain_graph=keep)
            del graph
        return total

    def _pull_head(self, graph: Graph, states: Tensor, weights: Outputs) -> Tensor:
        """Gradient in states `[b, T, W]`, recomputing each chunk of logits; leaves accumulate their own."""
        shape = graph.action.shape
        mine = {name: torch.where(graph.piece.chosen, each, 0.0)[:, : shape[1]] for name, each in weights.items()}
        flat = {name: each.new_zeros(shape).index_add_(0, graph.which, each).flatten() for name, each in mine.items()}
        gradient, end = torch.empty_like(states), 0
        for part, said in self._chunks(states, graph.action):
            begin, end = end, end + len(said)
            with torch.enable_grad():
                live = part.detach().requires_grad_()
                outputs = self.outputs(live, said, flat, graph.network)
            _backward(outputs, {name: each[begin:end] for name, each in flat.items()}, [live, *graph.leaves], False)
            assert live.grad is not None
            gradient.flatten(0, 1)[begin:end] = live.grad
        return gradient


def _backward(terms: Outputs, weights: Outputs, leaves: Sequence[Tensor], keep: bool) -> None:
    """Accumulate the gradient of terms times weights in leaves; tokens outside of the nucleus have none."""
    usable = [torch.where(torch.isfinite(x := terms[n].detach()), w.to(x.dtype), 0.0) for n, w in weights.items()]
    torch.autograd.backward([terms[name] for name in weights], usable, retain_graph=keep, inputs=leaves)


@contextmanager
def added(leaves: list[nn.Parameter], row: Tensor) -> Iterator[None]:
    """Context in which each weight's gradient is added to its part of a flat vector `[P]`, in the vector's type."""

    def adding(part: Tensor) -> Callable[[Tensor], None]:
        def add(leaf: Tensor) -> None:
            assert leaf.grad is not None
            part.add_(leaf.grad.reshape(-1).to(part.dtype))
            leaf.grad = None

        return add

    places = row.split([leaf.numel() for leaf in leaves])
    with ExitStack() as stack:
        for leaf, part in zip(leaves, places, strict=True):
            stack.callback(leaf.register_post_accumulate_grad_hook(adding(part)).remove)
        yield


def _output(name: str, log_probs: Tensor, action: Tensor) -> Tensor:
    """One output of tokens int64 `[...]` from the log-probs of the vocabulary `[..., V]`."""
    if name == "log_probs":
        return log_probs
    if name == "log_prob":
        return log_probs.gather(-1, action.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return -(log_probs.exp() * log_probs.masked_fill(log_probs == -torch.inf, 0.0)).sum(-1)


def prepare(policy: Any, form: str, law: Distribution, view: View, batch: Batch, names: tuple[str, ...]) -> Scoring:
    """Prepare to score a batch with a `CausalLM` in a number format, in passes of at most `micro_batch` rows."""
    R, G, N, T = batch.action.shape
    mask = batch.mask.reshape(-1, T) > 0
    longest = int(mask.any(0).nonzero()[-1]) + 1
    prompts = lay_out(batch.state.reshape(R * G * N, -1), policy.context)
    reach = torch.where(mask, torch.arange(1, T + 1), 0).amax(1)
    refuse_long(int((prompts.length + reach).max()), policy.context)
    owner = owners(view, (R, G, N, T)).reshape(-1, T)[:, :longest]
    mask = mask[:, :longest]
    pieces = []
    for one in torch.unique(owner[mask]).tolist():
        chosen = mask & (owner == one)
        rows = chosen.any(1).nonzero()[:, 0]
        pieces += [Piece(one, part, chosen[part]) for part in rows.split(policy.micro_batch or len(rows))]
    flat, action = view.weights["parameters"], batch.action.reshape(-1, T)[:, :longest]
    return Scoring(policy.model, law, form, flat, prompts, action, pieces, names)


def forward(scoring: Scoring, shape: tuple[int, ...]) -> Forward:
    """Outputs `[R, G, N, T, ...]` and their pullback, which recomputes every pass if there are several."""
    graphs = list(scoring.graphs(True)) if len(scoring.pieces) == 1 else None
    T = scoring.action.shape[1]

    def pullback(cotangents: Outputs) -> Tensor:
        flat = {}
        for name, each in cotangents.items():
            wide = each.expand(*shape, *each.shape[4:])
            flat[name] = wide[:, :, :, :T].reshape(-1, T, *each.shape[4:])
        if set(flat) <= set(scoring.names):
            return scoring.pull(flat, graphs)
        # Outputs that nobody asked for here: those of a gradient at the behavior weights are computed elsewhere.
        return dataclasses.replace(scoring, names=tuple(flat)).pull(flat, None)

    return Forward({name: widened(value, shape) for name, value in scoring.values(graphs).items()}, pullback)


def widened(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Reshape values `[B, t, ...]` of the first t tokens to `[R, G, N, T, ...]`, padded with 0."""
    behind = (*(0, 0) * (value.ndim - 2), 0, shape[-1] - value.shape[1])
    return nn.functional.pad(value, behind).reshape(*shape, *value.shape[2:])


def score_norm(scoring: Scoring, weight: Tensor) -> Tensor:
    """Squared norm of each response's weighted score, |sum_t w_t grad log pi_t|^2, `[B]`, for weights `[B, T]`.

    A pass for each response, since passes over several share the prompts that are equal.
    """
    total, own = torch.zeros(len(weight), dtype=weight.dtype), dict[int, list[Piece]]()
    for piece in scoring.pieces:
        for row, chosen in zip(piece.rows.split(1), piece.chosen.split(1), strict=True):
            own.setdefault(int(row), []).append(Piece(piece.owner, row, chosen))
    for number, pieces in own.items():
        total[number] = dataclasses.replace(scoring, pieces=pieces).pull({"log_prob": weight}, None).square().sum()
    return total
