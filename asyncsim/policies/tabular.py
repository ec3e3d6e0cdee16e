"""A softmax over a table of logits: one row per state, one column per action, with closed-form pullbacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import checks
from asyncsim.batch import Batch, Draws, Outputs
from asyncsim.policies._policy import Forward
from asyncsim.versions import View, Weights

CERTAIN = 2.0
"""A CDF value above every uniform: the last action with positive probability is never passed over by rounding."""


@dataclass(frozen=True)
class Tabular:
    """Softmax policy with free logits theta `[R, S, A]`, parameters flat `[R, P]`, P = S A; see `tabular`."""

    rows: int
    actions: int
    logits: tuple[tuple[float, ...], ...] | None = None
    reference: tuple[tuple[float, ...], ...] | None = None

    outputs = ("log_prob", "entropy", "kl")
    threads = 1

    @property
    def size(self) -> int:
        """P = S A."""
        return self.rows * self.actions

    def initial(self, replicates: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """Initial parameters `[R, P]`: the given logits, or zeros (uniform)."""
        start = np.zeros((self.rows, self.actions)) if self.logits is None else np.array(self.logits)
        return torch.as_tensor(start, dtype=dtype).reshape(1, -1).repeat(replicates, 1)

    def prepare(self, parameters: Tensor) -> Weights:
        """Tables that are published: log-probabilities and CDF, each `[R, S, A]`."""
        logits = parameters.reshape(-1, self.rows, self.actions)
        shifted = logits - logits.amax(-1, keepdim=True)
        heavy = shifted.exp()
        total = heavy.sum(-1, keepdim=True)
        log_prob, prob = shifted - total.log(), heavy / total
        cdf = prob.cumsum(-1)
        cdf = torch.where(cdf == cdf[..., -1:], torch.full((), CERTAIN, dtype=cdf.dtype), cdf)
        return {"log_prob": log_prob, "prob": prob, "cdf": cdf}

    def act(self, view: View, state: Tensor, draws: Draws, token: int) -> Tensor:
        """Actions of one token position by inverse CDF, int64 `[R, G, N]`."""
        from asyncsim.policies import _tabular_kernels as kernels

        action = torch.empty(state.shape, dtype=torch.int64)
        kernels.choose(
            draws.uniform(token, 0).numpy(), draws.realization, view.weights["cdf"].double().numpy(), view.slot[..., 0],
            state.numpy(), action.numpy(),
        )
        return action

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """Outputs by name, `[R, G, N, T]` each, and the pullback.

        d log pi(a|s)/d theta_s = e_a - pi_s; dH/d theta = -pi (log pi + H); dKL/d theta = pi (log pi - log ref - KL).
        """
        cells = self._cells(view, batch)
        tables = {"log_prob": lambda: view.weights["log_prob"], "entropy": lambda: self._entropy(view), "kl": lambda: self._kl(view)}
        outputs: Outputs = {}
        for name in names:
            checks.one_of("policy output", name, self.outputs, "use a policy that offers it")
            index = cells if name == "log_prob" else torch.div(cells, self.actions, rounding_mode="floor")
            outputs[name] = torch.take(tables[name](), index)
        return Forward(outputs, lambda cotangents: self._pull(view, cells, cotangents))

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """|sum_t w_t grad log pi(a_t|s_t)|^2 for each sample, `[R, G, N]`; `weight` is `[R, G, N, T]`.

        Tokens of different rows are orthogonal; in one row the inner product of two scores is
        1[a = a'] - pi(a) - pi(a') + |pi|^2.
        """
        cells = self._cells(view, batch)
        prob = torch.take(view.weights["prob"], cells)
        row = torch.div(cells, self.actions, rounding_mode="floor")
        square = torch.take((view.weights["prob"] ** 2).sum(-1), row)
        same_row = row.unsqueeze(-1) == row.unsqueeze(-2)
        same_cell = (cells.unsqueeze(-1) == cells.unsqueeze(-2)).to(prob.dtype)
        # pi(a') has to be read in the row of a; rows are equal wherever the product counts.
        inner = same_cell - prob.unsqueeze(-1) - prob.unsqueeze(-2) + square.unsqueeze(-1)
        pairs = weight.unsqueeze(-1) * weight.unsqueeze(-2) * torch.where(same_row, inner, torch.zeros_like(inner))
        return pairs.sum((-1, -2))

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"policy": "tabular", "rows": self.rows, "actions": self.actions}

    def _cells(self, view: View, batch: Batch) -> Tensor:
        """Index of every token's (slot, replicate, row, action) in the stacked tables, int64 `[R, G, N, T]`."""
        if batch.index is None:
            replicate = torch.arange(batch.action.shape[0]).reshape(-1, 1, 1, 1)
            batch.index = (replicate * self.rows + batch.state) * self.actions + batch.action
        if view.single:
            offset = int(view.slot.flat[0]) * batch.action.shape[0] * self.size
            return batch.index + offset if offset else batch.index
        return batch.index + view.slots(tuple(batch.action.shape)) * (batch.action.shape[0] * self.size)

    def _entropy(self, view: View) -> Tensor:
        return -(view.weights["prob"] * _finite(view.weights["log_prob"])).sum(-1)

    def _kl(self, view: View) -> Tensor:
        return (view.weights["prob"] * (_finite(view.weights["log_prob"]) - self._log_reference())).sum(-1)

    def _log_reference(self) -> Tensor:
        table = np.zeros((self.rows, self.actions)) if self.reference is None else np.array(self.reference)
        return torch.log_softmax(torch.as_tensor(table, dtype=torch.float64), dim=-1)

    def _pull(self, view: View, cells: Tensor, cotangents: Outputs) -> Tensor:
        from asyncsim.policies import _tabular_kernels as kernels

        prob, log_prob = view.weights["prob"], view.weights["log_prob"]
        table = torch.zeros_like(prob)
        for name, cotangent in cotangents.items():
            cotangent = cotangent.expand(cells.shape)
            rows = torch.zeros(prob.shape[:-1], dtype=prob.dtype)
            if name == "log_prob":
                kernels.scatter(
                    kernels.contiguous(cotangent), kernels.contiguous(cells), self.actions,
                    kernels.contiguous(table), kernels.contiguous(rows),
                )
                table -= rows.unsqueeze(-1) * prob
                continue
            row = torch.div(cells, self.actions, rounding_mode="floor")
            kernels.scatter_rows(kernels.contiguous(cotangent), kernels.contiguous(row), kernels.contiguous(rows))
            if name == "entropy":
                slope = -prob * (_finite(log_prob) + self._entropy(view).unsqueeze(-1))
            else:
                slope = prob * (_finite(log_prob) - self._log_reference() - self._kl(view).unsqueeze(-1))
            table += rows.unsqueeze(-1) * slope
        return table.sum(0).reshape(table.shape[1], -1)


def _finite(log_prob: Tensor) -> Tensor:
    """Log-probabilities with those of impossible actions replaced by 0: they are multiplied by probability 0."""
    return torch.where(torch.isinf(log_prob), torch.zeros((), dtype=log_prob.dtype), log_prob)


def tabular(
    rows: int = 1,
    actions: int = 2,
    logits: Any = None,
    reference: Any = None,
) -> Tabular:
    """Softmax policy over a table of free logits: pi(a|s) = exp(theta_sa) / sum_b exp(theta_sb).

    Arguments: `rows` S and `actions` A of the table; `logits`, initial values `[S, A]` (default zeros); `reference`,
    logits `[S, A]` of the distribution that the output `kl` refers to (default uniform).
    Outputs: `log_prob`, `entropy`, `kl` = KL(pi || reference), each per token in nats.
    Raises `InputError` for sizes below 1 (2 actions) or logits of another shape.

    >>> policy = tabular(rows=1, actions=2, logits=[[0.0, 1.0]])
    >>> policy.prepare(policy.initial(1))["prob"].round(decimals=3).tolist()
    [[[0.269, 0.731]]]
    """
    checks.integer("rows", rows, 1, "give every state a row")
    checks.integer("actions", actions, 2, "a policy needs a choice")
    shape = (rows, actions)
    tables = []
    for name, value in (("logits", logits), ("reference", reference)):
        tables.append(None if value is None else _rows(checks.finite_array(name, value, shape, "give one row per state")))
    return Tabular(rows, actions, *tables)


def _rows(table: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(x) for x in row) for row in table)
