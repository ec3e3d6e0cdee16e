"""From the last layer of a policy network to actions: a softmax over choices, or a normal with its own spread."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from asyncsim.step.batch import Draws, Outputs

_LOG_TWO_PI = math.log(2.0 * math.pi)


class Head(Protocol):
    """`raw` is the last layer's output `[R, n, width]`, `log_std` `[R, 1, spread]`, `action` `[R, n]` or `[R, n, D]`.

    `draw` chooses actions `[R, G, N]` or `[R, G, N, D]`; `log_prob` and `entropy` are `[R, n]` in nats; `pull` turns
    their cotangents `[R, n]` into those of `raw`, and of `log_std` per row (`[R, n, spread]`). A softmax also takes
    those of `log_probs`, `[R, n, width]`.
    """

    def draw(self, raw: Tensor, log_std: Tensor, draws: Draws, token: int) -> Tensor: ...

    def log_prob(self, raw: Tensor, log_std: Tensor, action: Tensor) -> Tensor: ...

    def entropy(self, raw: Tensor, log_std: Tensor) -> Tensor: ...

    def pull(self, raw: Tensor, log_std: Tensor, action: Tensor, cotangents: Outputs) -> tuple[Tensor, Tensor]: ...


def log_softmax(raw: Tensor) -> Tensor:
    """log softmax over the choices, taken along the transpose, as they lie: rows of few numbers cost ten times that."""
    return raw.mT.log_softmax(-2).mT.contiguous()


class Categorical:
    """pi(a) = exp(raw_a) / sum_b exp(raw_b)."""

    def draw(self, raw: Tensor, log_std: Tensor, draws: Draws, token: int) -> Tensor:
        """Inverse CDF on draw 0 of the token; in float64, so that no action of chance 0 is left at the end."""
        cumulative = raw.double().softmax(-1).cumsum(-1)
        uniform = draws.uniform(token, 0).to(raw.device)
        below = (cumulative <= uniform.reshape(*raw.shape[:-1], 1)).sum(-1)
        return below.clamp_(max=raw.shape[-1] - 1).reshape(uniform.shape)

    def log_prob(self, raw: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
        """raw_a - log sum exp raw."""
        return log_softmax(raw).gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self, raw: Tensor, log_std: Tensor) -> Tensor:
        """-sum pi log pi."""
        log_prob = log_softmax(raw)
        return -(log_prob.exp() * log_prob).sum(-1)

    def pull(self, raw: Tensor, log_std: Tensor, action: Tensor, cotangents: Outputs) -> tuple[Tensor, Tensor]:
        """d log pi(a)/d raw = e_a - pi, for one action or for all of them; dH/d raw = -pi (log pi + H)."""
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
    """a = raw + exp(log_std) z, one spread for all states."""

    def draw(self, raw: Tensor, log_std: Tensor, draws: Draws, token: int) -> Tensor:
        """Normal draws 0, ..., D - 1 of the token."""
        normals = draws.normals(token, raw.shape[-1])
        actions = raw + log_std.exp() * normals.to(raw.device, raw.dtype).reshape(raw.shape)
        return actions.reshape(normals.shape)

    def log_prob(self, raw: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
        """-sum_d z_d^2/2 + log_std_d + log(2 pi)/2."""
        standard = (action - raw) * (-log_std).exp()
        return -0.5 * (standard**2).sum(-1) - (log_std + 0.5 * _LOG_TWO_PI).sum(-1)

    def entropy(self, raw: Tensor, log_std: Tensor) -> Tensor:
        """sum_d log_std_d + log(2 pi e)/2."""
        return (log_std + 0.5 * (_LOG_TWO_PI + 1.0)).sum(-1).expand(raw.shape[:-1])

    def pull(self, raw: Tensor, log_std: Tensor, action: Tensor, cotangents: Outputs) -> tuple[Tensor, Tensor]:
        """d log pi/d raw = z/std; d log pi/d log_std = z^2 - 1; dH/d log_std = 1."""
        gradient, spread = torch.zeros_like(raw), torch.zeros_like(raw)
        if "log_prob" in cotangents:
            each, inverse = cotangents["log_prob"].unsqueeze(-1), (-log_std).exp()
            standard = (action - raw) * inverse
            gradient, spread = each * standard * inverse, each * (standard**2 - 1.0)
        if "entropy" in cotangents:
            spread = spread + cotangents["entropy"].unsqueeze(-1)
        return gradient, spread


HEADS: dict[str, Head] = {"categorical": Categorical(), "gaussian": Normal()}
