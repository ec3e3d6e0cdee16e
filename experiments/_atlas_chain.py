"""The chain of the atlas: tokens that follow the previous one, the path of its policies, and their exact laws."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import rng

DIRECTIONS = 16
"""Random directions of drift; replicate r uses number r mod 16."""


class Law(NamedTuple):
    """Of a log ratio per token (root mean square) and of the whole sequence under behavior: mean, deviation."""

    token: float
    mean: float
    deviation: float


def table(actions: int, sticky: float, spread: float, seed: int) -> np.ndarray:
    """Initial logits `[A + 1, A]`: `sticky` for repeating the last token, plus keyed normal numbers times `spread`."""
    noise = rng.Stream(seed, "atlas table").normal(0, np.arange((actions + 1) * actions))
    logits = spread * noise.reshape(actions + 1, actions)
    logits[1:] += sticky * np.eye(actions)
    return logits


def exact(logits: np.ndarray, horizon: int) -> tuple[float, np.ndarray]:
    """Expected share of tokens 0 and its gradient `[A + 1, A]` by recursion over rows, forwards and backwards.

    grad J = sum_t sum_(s, a) d_t(s) pi(a|s) (Q_t - V_t)(s, a) grad log pi(a|s), d_t the law of the row at token t.
    """
    prob = np.exp(log_softmax(logits))
    earned = np.eye(prob.shape[1])[0] / horizon
    ahead, gains = np.zeros(len(prob)), []
    for _ in range(horizon):
        value = earned + ahead[1:]
        ahead = prob @ value
        gains.append(prob * (value - ahead[:, None]))
    here, gradient = np.eye(len(prob))[0], np.zeros_like(prob)
    for gain in reversed(gains):
        gradient += here[:, None] * gain
        here = np.concatenate([[0.0], here @ prob])
    return float(ahead[0]), gradient


def path(start: np.ndarray, horizon: int, step: float, updates: int) -> list[np.ndarray]:
    """Logits after 0, 1, ..., `updates` steps of length `step` along the exact gradient."""
    found = [start]
    for _ in range(updates):
        gradient = exact(found[-1], horizon)[1]
        found.append(found[-1] + step * gradient / np.linalg.norm(gradient))
    return found


def law(behavior: np.ndarray, current: np.ndarray, horizon: int) -> Law:
    """Moments of log ratios under behavior by recursion over rows."""
    then, now = log_softmax(behavior), log_softmax(current)
    prob, change = np.exp(then), now - then
    mean, second = np.zeros(len(prob)), np.zeros(len(prob))
    here, tokens = np.eye(len(prob))[0], 0.0
    for _ in range(horizon):
        second = (prob * (change**2 + 2.0 * change * mean[1:] + second[1:])).sum(1)
        mean = (prob * (change + mean[1:])).sum(1)
        tokens += float((here[:, None] * prob * change**2).sum())
        here = np.concatenate([[0.0], here @ prob])
    return Law(math.sqrt(tokens / horizon), float(mean[0]), math.sqrt(max(0.0, float(second[0] - mean[0] ** 2))))


def random_drift(current: np.ndarray, deviation: float, horizon: int, seed: int) -> np.ndarray:
    """Behavior logits `[16, A + 1, A]` in random directions, each as far off as gives log W that deviation."""
    noise = rng.Stream(seed, "atlas drift").normal(np.arange(DIRECTIONS)[:, None], np.arange(current.size))
    found = []
    for direction in noise.reshape(DIRECTIONS, *current.shape):
        direction = direction - direction.mean(1, keepdims=True)
        away = 0.1 * direction / np.linalg.norm(direction)
        for _ in range(8):
            # Deviations are nearly proportional to the distance, so few corrections do.
            away *= deviation / law(current - away, current, horizon).deviation
        found.append(current - away)
    return np.array(found)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities of every row."""
    shifted = logits - logits.max(-1, keepdims=True)
    found: np.ndarray = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found


def cell(setting: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Initial, behavior (`[..., A + 1, A]`, one or one per direction) and current logits of a setting."""
    start = table(setting["actions"], setting["sticky"], setting["spread"], setting["seed"])
    known = path(start, setting["path_length"], setting["step"], setting["updates"])
    then, now = known[-1 - setting["staleness"]], known[-1]
    if setting["drift"] == "ascent":
        return start, then[None], now
    deviation = law(then, now, setting["length"]).deviation
    return start, random_drift(now, deviation, setting["length"], setting["seed"]), now
