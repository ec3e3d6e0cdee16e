"""Every response of a policy that may stop early, under three policies: what an update expects of it, listed.

Token t is drawn from row t of a table `[T, A]`, and the last action ends the response, so lengths run from 1 to T. The
reward is the fraction of the T tokens that are token 0: long responses earn more. Data is of the behavior policy `mu`,
training of the batch began at `pi_prox`, and the update is taken at `pi`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import complex_gradient, logit_table, softmax
from asyncsim.theory._declared import Declared, Draw, Integer, Parsed, Vector

LIMIT = 4096
"""Most responses that are listed."""


@dataclass(frozen=True)
class Listed:
    """All responses: log-probs of their tokens under three policies `[Y, T]`, 0 where masked; the current may be
    complex. `tokens` int and `mask` `[Y, T]`, `reward` and `mass` (chance under behavior) `[Y, 1]`."""

    tokens: np.ndarray
    mask: np.ndarray
    behavior: np.ndarray
    proximal: np.ndarray
    current: np.ndarray
    reward: np.ndarray

    @property
    def log_ratio(self) -> np.ndarray:
        """log pi/mu, `[Y, T]`."""
        return self.current - self.behavior

    @property
    def drift(self) -> np.ndarray:
        """log pi/pi_prox, `[Y, T]`."""
        return self.current - self.proximal

    @property
    def lag(self) -> np.ndarray:
        """log pi_prox/mu, `[Y, T]`."""
        return self.proximal - self.behavior

    @cached_property
    def length(self) -> np.ndarray:
        """Tokens, `[Y, 1]`."""
        return self.mask.sum(1, keepdims=True)

    @cached_property
    def mass(self) -> np.ndarray:
        """Chance under behavior, `[Y, 1]`."""
        return np.exp(self.behavior.sum(1, keepdims=True))

    @cached_property
    def token_share(self) -> np.ndarray:
        """Share of each token among all generated ones, `[Y, T]`."""
        mass: np.ndarray = self.mass * self.mask
        return mass / mass.sum()

    def mean(self, log_ratio: np.ndarray) -> np.ndarray:
        """Mean over a response's own tokens, `[Y, 1]`."""
        return log_ratio.sum(1, keepdims=True) / self.length

    def share(self, aggregator: str) -> np.ndarray:
        """What a token counts in the step, `[Y, T]`."""
        divisor: Any = {
            "sequence_sum": 1.0,
            "sequence_mean": self.length,
            "token_mean": float((self.mass * self.length).sum()),
            "constant": float(self.mask.shape[1]),
        }[aggregator]
        return self.mass * self.mask / divisor

    def advantage(self, kind: str, scale: float = 0.0) -> np.ndarray:
        """Reward less what stands for a baseline in a population, `[Y, 1]`."""
        mean = float((self.mass * self.reward).sum())
        deviation = float((self.mass * (self.reward - mean) ** 2).sum()) ** 0.5
        soft = scale * np.log(float((self.mass * np.exp(self.reward / scale)).sum())) if kind == "soft" else 0.0
        return {
            "none": self.reward,
            "mean": self.reward - mean,
            "shifted": self.reward - mean + scale,
            "lowered": self.reward - mean - scale,
            "std": (self.reward - mean) / (deviation + 1e-6),
            "soft": self.reward - soft,
        }[kind]


class Ragged(Declared):
    """Base of points with two policies that draw responses of several lengths: training begins at the current one."""

    behavior_logits = logit_table("behavior", (0.3, -0.2, 0.1), (0.0, 0.7, -0.4), (-0.5, 0.2, 0.1))
    current_logits = logit_table("current", (1.1, -0.9, 0.1), (0.7, 0.2, -0.7), (0.3, 0.8, -0.3))

    def joint(self) -> None:
        """Tables of one shape, few enough responses, and rewards that a policy can change."""
        shape = self.behavior_logits.shape
        for name in (name for name, p in self.parameters.items() if isinstance(p, Parsed)):
            checks.finite_array(name, getattr(self, name).tolist(), list(shape), "give as many as behavior_logits")
        fits = shape[1] >= 2 and float(shape[1]) ** shape[0] <= LIMIT
        remedy = "two actions or more, and shorter responses"
        checks.require(fits, "behavior_logits", shape, f"[T, A] with A >= 2 and A**T <= {LIMIT}", remedy)
        self.horizon, self.actions = shape

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Tables of one shape."""
        horizon, actions = draw(Integer(1, typical=(2, 3))), draw(Integer(2, typical=(2, 3)))
        row = Vector(length=actions, typical=(-1.0, 1.0))
        return {
            name: tuple(draw(row) for _ in range(horizon)) if isinstance(p, Parsed) else draw(p)
            for name, p in cls.parameters.items()
        }

    @cached_property
    def tokens(self) -> np.ndarray:
        """Tokens of every response, int `[Y, T]`; those behind its end are 0."""
        last, rows = self.actions - 1, []
        for row in itertools.product(range(self.actions), repeat=self.horizon):
            end = row.index(last) + 1 if last in row else self.horizon
            if not any(row[end:]):
                rows.append(row)
        return np.array(rows)

    @cached_property
    def mask(self) -> np.ndarray:
        """1 for tokens up to the end, `[Y, T]`."""
        ended = np.cumsum(self.tokens == self.actions - 1, axis=1) - (self.tokens == self.actions - 1)
        return (ended == 0).astype(np.float64)

    def listed(self, logits: np.ndarray | None = None) -> Listed:
        """All responses, the current policy at other logits if they are given (which may be complex)."""
        current = self.current_logits if logits is None else logits
        tables = (self.behavior_logits, getattr(self, "proximal_logits", self.current_logits), current)
        behavior, proximal, current = map(self.token_log_probs, tables)
        reward = ((self.tokens == 0) * self.mask).sum(1, keepdims=True) / self.horizon
        return Listed(self.tokens, self.mask, behavior, proximal, current, reward)

    def token_log_probs(self, logits: np.ndarray) -> np.ndarray:
        """Log-probs of all tokens under a table, `[Y, T]`, 0 where masked."""
        return np.log(softmax(logits))[np.arange(self.horizon), self.tokens] * self.mask

    def pulled(self, weights: np.ndarray, logits: np.ndarray | None = None) -> np.ndarray:
        """sum of weights `[Y, T]` times grad log pi of the tokens, `[T, A]`."""
        prob = softmax(self.current_logits if logits is None else logits)
        scores = np.eye(self.actions)[self.tokens] - prob
        pulled: np.ndarray = np.einsum("yt,yta->ta", weights * self.mask, scores)
        return pulled

    def slope(self, objective: Callable[[Listed], Any]) -> np.ndarray:
        """Derivative in the current logits of a number made of the listed responses, by complex steps, `[T, A]`."""
        slopes = complex_gradient(lambda logits: objective(self.listed(logits)), self.current_logits)
        return slopes.reshape(self.current_logits.shape)

    def expected(self, values: np.ndarray) -> np.ndarray:
        """Gradient of the mean of values of responses `[Y, 1]` under the current policy, `[T, A]`."""
        return self.pulled(np.exp(self.listed().current.sum(1, keepdims=True)) * values)

    def read(self, update: np.ndarray) -> dict[str, float]:
        """What is said of an update: how much of the policy gradient it has, how long it is, what it does to length."""
        found = self.listed()
        gradient, longer = self.expected(found.reward), self.expected(found.length)
        return {
            "along": float((update * gradient).sum() / (gradient**2).sum()),
            "size": float(np.sqrt((update**2).sum() / (gradient**2).sum())),
            "longer": float((update * longer).sum() / (gradient**2).sum() ** 0.5),
        }


class LaterRagged(Ragged):
    """The same with a third policy, at which training of the batch began."""

    proximal_logits = logit_table("proximal", (0.6, -0.4, 0.1), (0.2, 0.2, -0.3), (0.1, 0.0, 0.2))
