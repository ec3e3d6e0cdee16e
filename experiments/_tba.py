"""E[reward] - beta KL(policy || reference) on a small table: its optimum, and mean dynamics by enumeration.

A sequence of T tokens reads a row of logits for each: `counts[y, s, a]` says how often sequence y takes action a in row
s. So log pi(y) = sum counts log pi(a|s) and its score is counts - (visits to s) pi(a|s). Nothing here is simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Field = Callable[["Table", np.ndarray, np.ndarray], np.ndarray]
"""Mean direction from current and behavior logits `[S, A]`."""


@dataclass(frozen=True)
class Table:
    """All sequences of a task: `counts` `[Y, S, A]`, `rewards` `[Y]`, `reference` logits `[S, A]`.

    `beta`: reward per nat. `samples` of a group: they matter where the group's mean counts the sample itself.
    """

    counts: np.ndarray
    rewards: np.ndarray
    reference: np.ndarray
    beta: float
    samples: int

    def log_probs(self, logits: np.ndarray) -> np.ndarray:
        """log pi of every sequence, `[Y]`."""
        return np.asarray(np.einsum("ysa,sa->y", self.counts, _log_softmax(logits)))

    def gap(self, logits: np.ndarray) -> np.ndarray:
        """D = log pi - log reference, `[Y]`."""
        return self.log_probs(logits) - self.log_probs(self.reference)

    def scores(self, logits: np.ndarray) -> np.ndarray:
        """Gradient of every log-prob in the logits, `[Y, S, A]`."""
        visits = self.counts.sum(-1, keepdims=True)
        return np.asarray(self.counts - visits * np.exp(_log_softmax(logits)))

    @property
    def best(self) -> np.ndarray:
        """log pi* = log(reference exp(reward / beta) / Z), `[Y]`."""
        tilted = self.log_probs(self.reference) + self.rewards / self.beta
        return np.asarray(tilted - np.logaddexp.reduce(tilted))

    def distance(self, logits: np.ndarray) -> float:
        """KL(pi || pi*) in nats; beta times it is what the objective lacks."""
        now = self.log_probs(logits)
        return float(np.exp(now) @ (now - self.best))


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    return np.asarray(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))


def covariance(table: Table, current: np.ndarray, behavior: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Cov of values `[Y]` and current scores over the behavior policy: leave-one-out, no ratio."""
    mu = np.exp(table.log_probs(behavior))
    return np.asarray(np.einsum("y,ysa->sa", mu * (values - mu @ values), table.scores(current)))


def balanced(table: Table, current: np.ndarray, behavior: np.ndarray) -> np.ndarray:
    """Trajectory balance times beta/2: (1 - 1/N) Cov_mu(reward - beta D(current), score)."""
    values = table.rewards - table.beta * table.gap(current)
    return (1.0 - 1.0 / table.samples) * covariance(table, current, behavior, values)


def unweighted(table: Table, current: np.ndarray, behavior: np.ndarray) -> np.ndarray:
    """RLOO without a ratio, the penalty taken when the data were drawn: Cov_mu(reward - beta D(behavior), score)."""
    return covariance(table, current, behavior, table.rewards - table.beta * table.gap(behavior))


def weighted(table: Table, current: np.ndarray, behavior: np.ndarray) -> np.ndarray:
    """RLOO with the sequence ratio and the current penalty: the gradient of the objective, whatever drew the data."""
    del behavior
    return covariance(table, current, current, table.rewards - table.beta * table.gap(current))


FIELDS: dict[str, Field] = {"TBA": balanced, "RLOO": unweighted, "RLOO, ratio": weighted}


def dynamics(table: Table, field: Field, start: np.ndarray, drawn: np.ndarray, rate: float) -> np.ndarray:
    """Logits before each update, `[U + 1, S, A]`: theta_(u+1) = theta_u + rate mean_g field(theta_u, theta_drawn).

    `drawn` `[U, G]`: the update before which the behavior policy of group g of batch u was current.
    """
    path = np.empty((len(drawn) + 1, *start.shape))
    path[0] = start
    for u, sources in enumerate(drawn):
        versions, groups = np.unique(sources, return_counts=True)
        steps = [share * field(table, path[u], path[v]) for v, share in zip(versions, groups, strict=True)]
        path[u + 1] = path[u] + rate * np.sum(steps, 0) / len(sources)
    return path
