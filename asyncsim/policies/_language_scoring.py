"""What finished responses score: outputs of every token from one pass over each text, and their gradient."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from asyncsim.policies._language_network import Model, products
from asyncsim.policies._language_prompts import Prompts, lay_out, refuse_long, teacher_forced
from asyncsim.policies._language_sampling import Distribution, owners
from asyncsim.policies._policy import Forward
from asyncsim.step.batch import Batch, Outputs
from asyncsim.step.versions import View


@dataclass(frozen=True)
class Piece:
    """Rows int64 `[b]` that go through the network together, and which of their tokens read its weights, `[b, T]`."""

    owner: int
    rows: Tensor
    chosen: Tensor


WIDE = ("log_probs",)
"""Outputs with one number for every token of the vocabulary."""

Graph = tuple[Piece, Outputs, list[nn.Parameter]]
"""A piece with its differentiable outputs and the weights that they depend on."""


@dataclass
class Scoring:
    """Responses int64 `[B, T]` behind prompts, to be scored in `form` by rows in `pieces`.

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
        """V."""
        return self.model.vocabulary

    def outputs(self, network: nn.Module, piece: Piece) -> Outputs:
        """Outputs by name, 0 where another owner's weights are read; differentiable in live weights.

        Equal responses to equal prompts go through the network once.
        """
        T = int(piece.chosen.any(0).nonzero()[-1]) + 1
        prompts, action = self.prompts.rows(piece.rows), self.action[piece.rows, :T]
        first, which = prompts.alike(action)
        action = action[first]
        raw = teacher_forced(network, prompts.rows(first), action)
        log_probs, value_of = self.law.log_prob(raw[..., : self.vocabulary]), raw[..., self.vocabulary :]
        outputs: Outputs = {}
        for name in self.names:
            value = (value_of[..., 0] if name == "value" else _output(name, log_probs, action))[which]
            chosen = piece.chosen[:, :T].reshape(*value.shape[:2], *(1,) * (value.ndim - 2))
            value = torch.where(chosen, value, torch.zeros((), dtype=value.dtype))
            outputs[name] = nn.functional.pad(value, (*(0, 0) * (value.ndim - 2), 0, self.action.shape[1] - T))
        return outputs

    def graphs(self, live: bool) -> Iterator[Graph]:
        """Every piece with its outputs, where `live` with their graph; weights are bound once for an owner's pieces."""
        for owner, pieces in groupby(self.pieces, key=lambda piece: piece.owner):
            network, leaves = self.model.bound(self.flat.flatten(0, 1)[owner], self.form, live)
            for piece in pieces:
                with torch.set_grad_enabled(live):
                    outputs = self.outputs(network, piece)
                yield piece, outputs, leaves

    def values(self, graphs: Iterable[Graph] | None = None) -> Outputs:
        """All outputs, detached."""
        shape = tuple(self.action.shape)
        wide = {name: (*shape, self.vocabulary) if name in WIDE else shape for name in self.names}
        totals = {name: torch.zeros(each, dtype=self.flat.dtype) for name, each in wide.items()}
        for piece, outputs, _ in self.graphs(False) if graphs is None else graphs:
            for name, value in outputs.items():
                totals[name][piece.rows] += value.detach().to(self.flat.dtype)
        return totals

    def pull(self, cotangents: Outputs, graphs: list[Graph] | None) -> Tensor:
        """Gradient `[R, P]` of the sum of outputs times cotangents; graphs that were not kept are made again.

        Each owner's gradient goes to its replicate: owner modulo R.
        """
        total = torch.zeros(self.flat.shape[1:], dtype=self.flat.dtype)
        for piece, value, leaves in self.graphs(True) if graphs is None else graphs:
            terms, weights = [], []
            for name, cotangent in cotangents.items():
                live = value[name]
                # A token outside the nucleus has no gradient, whatever its weight.
                weight = torch.where(torch.isfinite(live.detach()), cotangent[piece.rows].to(live.dtype), 0.0)
                terms.append(live)
                weights.append(weight)
            with products(self.form, self.flat.device):
                gradients = torch.autograd.grad(terms, leaves, weights, retain_graph=graphs is not None)
            row = total[piece.owner % len(total)]
            for part, gradient in zip(row.split([g.numel() for g in gradients]), gradients, strict=True):
                part += gradient.reshape(-1).to(total.dtype)
        return total


def _output(name: str, log_probs: Tensor, action: Tensor) -> Tensor:
    """An output of responses int64 `[b, T]` from the log-probs of every token `[b, T, V]`."""
    if name == "log_probs":
        return log_probs
    if name == "log_prob":
        return log_probs.gather(2, action.clamp(min=0).unsqueeze(2)).squeeze(2)
    return -(log_probs.exp() * log_probs.masked_fill(log_probs == -torch.inf, 0.0)).sum(2)


def prepare(policy: Any, form: str, law: Distribution, view: View, batch: Batch, names: tuple[str, ...]) -> Scoring:
    """What a `CausalLM` scores a batch with, in a number format and in pieces of at most `micro_batch` rows."""
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
    """Outputs `[R, G, N, T, ...]` and their pullback; with several pieces the pullback computes each of them again."""
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
    """Numbers `[B, t, ...]` of the first t tokens as `[R, G, N, T, ...]`, 0 behind them."""
    behind = (*(0, 0) * (value.ndim - 2), 0, shape[-1] - value.shape[1])
    return nn.functional.pad(value, behind).reshape(*shape, *value.shape[2:])
