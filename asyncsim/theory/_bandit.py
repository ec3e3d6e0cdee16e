"""Softmax policies with finite actions: Fisher matrices, enumeration of token sequences, and a dynamic program for J.

A sequence policy has logits `[S, A]`: S = 1 for independent equal tokens ("iid"), S = T for a row per position
("position"), S = A + 1 for rows that follow the previous token ("markov": row 0 at the start, row 1 + a after token
a). A sequence's reward is 1 when at least the fraction `success` of its tokens is token 0, or, where `success` is
None, the fraction of its tokens that is token 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax

from asyncsim import checks
from asyncsim.records import Point
from asyncsim.theory._points import select

LIMIT = 2**20
"""Most sequences that are enumerated."""
DEPENDENCES = ("iid", "position", "markov")


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis; complex logits pass through, for complex-step derivatives.

    >>> softmax(np.zeros(2)).tolist()
    [0.5, 0.5]
    """
    weights = np.exp(logits - logits.real.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def fisher(probabilities: np.ndarray) -> np.ndarray:
    """F = diag p - p p^T of one softmax, `[A, A]`."""
    return np.diag(probabilities) - np.outer(probabilities, probabilities)


def score_norm_squared(probabilities: np.ndarray) -> np.ndarray:
    """|e_a - p|^2 = 1 - 2 p_a + |p|^2 for every action, `[A]`."""
    return 1.0 - 2.0 * probabilities + probabilities @ probabilities


def complex_gradient(function: Callable[[np.ndarray], Any], at: np.ndarray) -> np.ndarray:
    """Derivative of an analytic function by a complex step, exact to rounding; components of `at` on the last axis.

    >>> complex_gradient(lambda x: (x**3).sum(), np.array([2.0])).round(12).tolist()
    [12.0]
    """
    tiny = 1e-40
    columns = []
    for k in range(at.size):
        moved = at.astype(complex)
        moved.flat[k] += 1j * tiny
        columns.append(np.imag(function(moved)) / tiny)
    return np.stack(columns, axis=-1)


class SequencePair(NamedTuple):
    """Behavior and current logits `[S, A]` of a sequence policy with the rule that picks the row of each token."""

    actions: int
    horizon: int
    dependence: str
    behavior: np.ndarray
    current: np.ndarray

    def rows(self, sequences: np.ndarray) -> np.ndarray:
        """Row of every token, int `[Y, T]`."""
        if self.dependence == "iid":
            return np.zeros_like(sequences)
        if self.dependence == "position":
            return np.broadcast_to(np.arange(self.horizon), sequences.shape)
        return np.concatenate([np.zeros_like(sequences[:, :1]), 1 + sequences[:, :-1]], axis=1)

    def successor(self, row: int, action: int, position: int) -> int:
        """Row of the token after `action` was taken in `row` at `position`."""
        if self.dependence == "iid":
            return 0
        return position + 1 if self.dependence == "position" else 1 + action


SEQUENCE_KEYS = "actions horizon dependence behavior_logits current_logits"


def read_sequence(point: Point, required: str = "", nullable: str = "") -> tuple[SequencePair, list[Any]]:
    """The policies of a point, and the values of the further keys; refuses more than `LIMIT` sequences."""
    values = select(point, f"{SEQUENCE_KEYS} {required}", nullable)
    actions = checks.integer("actions", values[0], 2, "give at least two actions")
    horizon = checks.integer("horizon", values[1], 1, "give at least one token")
    dependence = checks.one_of("dependence", values[2], DEPENDENCES, "say which row of logits a token follows")
    count = f"{actions}**{horizon}"
    checks.require(
        actions**horizon <= LIMIT, "horizon", horizon, f"such that {count} <= {LIMIT}", "shorten the sequences"
    )
    height = {"iid": 1, "position": horizon, "markov": actions + 1}[dependence]
    behavior, current = (
        checks.finite_array(name, value, [height, actions], f"give one row of logits per {dependence} state")
        for name, value in zip(("behavior_logits", "current_logits"), values[3:5], strict=True)
    )
    return SequencePair(actions, horizon, dependence, behavior, current), values[5:]


class Enumeration(NamedTuple):
    """Every sequence: tokens and their log-probabilities under both policies `[Y, T]`, scores `[Y, S*A]`.

    `score` is the gradient of the current log-probability of the whole sequence in the flat logits.
    """

    tokens: np.ndarray
    log_behavior: np.ndarray
    log_current: np.ndarray
    score: np.ndarray

    @property
    def mass(self) -> np.ndarray:
        """Probability of each sequence under the behavior policy, `[Y]`."""
        mass: np.ndarray = np.exp(self.log_behavior.sum(axis=1))
        return mass

    @property
    def ratio(self) -> np.ndarray:
        """Sequence ratio W, `[Y]`."""
        ratio: np.ndarray = np.exp((self.log_current - self.log_behavior).sum(axis=1))
        return ratio


def enumerate_sequences(pair: SequencePair) -> Enumeration:
    """All A**T sequences of a pair of policies."""
    tokens = np.stack([g.ravel() for g in np.indices((pair.actions,) * pair.horizon)], axis=1)
    rows = pair.rows(tokens)
    log_behavior = log_softmax(pair.behavior, axis=1)[rows, tokens]
    log_current = log_softmax(pair.current, axis=1)[rows, tokens]
    return Enumeration(tokens, log_behavior, log_current, sequence_scores(pair, pair.current, tokens))


def sequence_scores(pair: SequencePair, logits: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """sum_t (e_{a_t} - p_{row_t}) placed in the row of each token, flat `[Y, S*A]`."""
    probabilities, rows = softmax(logits), pair.rows(tokens)
    score = np.zeros((len(tokens), *logits.shape))
    every = np.arange(len(tokens))
    for t in range(pair.horizon):
        score[every, rows[:, t]] -= probabilities[rows[:, t]]
        score[every, rows[:, t], tokens[:, t]] += 1.0
    return score.reshape(len(tokens), -1)


def reward(zeros: Any, horizon: int, success: float | None) -> Any:
    """Reward of a sequence with that many tokens equal to 0.

    >>> reward(np.array([0, 1, 2]), 2, 0.5).tolist()
    [0.0, 1.0, 1.0]
    """
    share = np.asarray(zeros) / horizon
    return share if success is None else (share >= success).astype(np.float64)


def read_success(value: Any) -> float | None:
    """The fraction of tokens 0 that pays, in (0, 1], or None."""
    return (
        None
        if value is None
        else checks.real("success", value, "give a fraction of the tokens, or None", 0.0, 1.0, open_low=True)
    )


def exact_return(pair: SequencePair, logits: np.ndarray, success: float | None) -> Any:
    """J of the policy with these logits by forward recursion on (row, count of token 0), without enumeration."""
    probabilities = softmax(logits)
    height = max(len(logits), pair.horizon + 1)
    mass = np.zeros((height, pair.horizon + 1), dtype=probabilities.dtype)
    mass[0, 0] = 1.0
    for t in range(pair.horizon):
        after = np.zeros_like(mass)
        for row in range(len(logits)):
            for a in range(pair.actions):
                moved = mass[row] * probabilities[row, a]
                after[pair.successor(row, a, t)] += np.roll(moved, 1) if a == 0 else moved
        mass = after
    return mass.sum(axis=0) @ reward(np.arange(pair.horizon + 1), pair.horizon, success)


def exact_gradient(pair: SequencePair, logits: np.ndarray, success: float | None) -> np.ndarray:
    """grad J in the flat logits by complex step through `exact_return`, `[S*A]`."""
    return complex_gradient(lambda moved: exact_return(pair, moved, success), logits)
