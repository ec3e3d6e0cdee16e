"""Softmax policies with finite actions: Fisher matrices, enumeration of token sequences, and a dynamic program for J.

A sequence policy has logits `[S, A]`. S = 1 for independent equal tokens ("iid"); S = T for a row per position
("position"). S = A + 1 for rows that follow the previous token ("markov"): row 0 at the start, row 1 + a after token a.
A sequence's reward is 1 when at least the fraction `success` of its tokens is token 0. Where `success` is None, the
reward is that fraction itself.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln, log_softmax

from asyncsim.base import checks
from asyncsim.base.declared import Choice, Declared, Integer, Parsed, Real, Table, Vector

LIMIT = 2**20
"""Most sequences that are enumerated."""
DEPENDENCES = ("iid", "position", "markov")


def softmax(logits: np.ndarray) -> np.ndarray:
    """Softmax probabilities along the last axis; complex logits are allowed, for complex-step derivatives."""
    weights = np.exp(logits - logits.real.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def fisher(probabilities: np.ndarray) -> np.ndarray:
    """Fisher matrix F = diag p - p p^T of one softmax, `[A, A]`; zero row sums avoid rounding in p (1 - p) near 1."""
    products = np.outer(probabilities, probabilities)
    np.fill_diagonal(products, 0.0)
    return np.diag(products.sum(axis=1)) - products


def score_norm_squared(probabilities: np.ndarray) -> np.ndarray:
    """Squared score norm |e_a - p|^2 = 1 - 2 p_a + |p|^2 of every action, `[A]`."""
    return 1.0 - 2.0 * probabilities + probabilities @ probabilities


def complex_gradient(function: Callable[[np.ndarray], Any], at: np.ndarray) -> np.ndarray:
    """Gradient of an analytic function by complex steps, exact to rounding; the last axis holds its components."""
    tiny = 1e-40
    columns = []
    for k in range(at.size):
        point = at.astype(complex)
        point.flat[k] += 1j * tiny
        columns.append(np.imag(function(point)) / tiny)
    return np.stack(columns, axis=-1)


def compositions(total: int, parts: int) -> np.ndarray:
    """All ways to write `total` as a sum of `parts` ordered counts, `[K, parts]`, by stars and bars."""
    if parts == 3:
        # By far the fastest way to list many.
        first, second = (x.ravel() for x in np.indices((total + 1, total + 1)))
        return np.stack([first, second, total - first - second], axis=1)[first + second <= total]
    bars = np.array(list(itertools.combinations(range(total + parts - 1), parts - 1)), dtype=np.int64)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=-1)
    edges[:, -1] = total + parts - 1
    return np.diff(edges, axis=1) - 1


def counted(total: int, log_chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All counts of A outcomes in `total` draws, `[K, A]`, and their log probabilities `[K]`."""
    counts = compositions(total, len(log_chance))
    return counts, gammaln(total + 1.0) - gammaln(counts + 1.0).sum(axis=1) + counts @ log_chance


def refuse_equal(rewards: np.ndarray, remedy: str = "equal arms have no gradient") -> None:
    """Raise `InputError` if the rewards `[A]` of all arms are equal."""
    checks.require(bool(np.ptp(rewards) > 0.0), "rewards", rewards.tolist(), "rewards that differ", remedy)


class Arms(Declared):
    """Base class of claim points with vectors of one entry per arm; the first sets their typical length."""

    def joint(self) -> None:
        """Require at least two arms, and vectors of equal length."""
        first, *others = (name for name, p in self.parameters.items() if isinstance(p, Vector))
        vector = getattr(self, first)
        checks.require(vector.size >= 2, first, vector.tolist(), "numbers for two arms or more", "add an arm")
        for name in others:
            checks.finite_array(name, getattr(self, name).tolist(), [vector.size], f"give as many as {first}")


def arm_logits(policy: str, *example: float, most: float = 2.0, sizes: tuple[int, int] = (2, 5)) -> Vector:
    """Declare a parameter that is a vector of logits, one per arm."""
    return Vector(typical=(-most, most), sizes=sizes, example=example, doc=f"logits of the {policy} policy")


def arm_rewards(*example: float, doc: str, low: float = 0.0, most: float = 1.0, least: int = 2) -> Vector:
    """Declare a parameter that is a vector of rewards, one per arm; random points have `least` to 4 arms."""
    return Vector(typical=(low, most), sizes=(least, 4), example=example, unit="reward", doc=doc)


class Frozen(Arms):
    """Base class of claim points with the rewards of arms and the logits of a frozen behavior policy mu."""

    _logits = (0.5, 0.1, -0.3, 0.2, 0.0)
    behavior_logits = Vector(typical=(-2.0, 2.0), sizes=(4, 4), example=_logits, doc="frozen behavior's logits, by arm")
    rewards = arm_rewards(0.0, 0.3, 0.9, 1.0, 0.5, least=4, doc="rewards of the arms")

    def joint(self) -> None:
        self.mu = softmax(self.behavior_logits)
        self.mean = float(self.mu @ self.rewards)


def project(x: np.ndarray) -> np.ndarray:
    """Euclidean projection onto the simplex: shift and clip, the shift from the largest support that stays positive."""
    ordered = np.sort(x)[::-1]
    shifts = (np.cumsum(ordered) - 1.0) / np.arange(1, x.size + 1)
    return np.maximum(x - shifts[np.flatnonzero(ordered > shifts)[-1]], 0.0)


class PolicyPair(Arms):
    """Base class of claim points with two softmax policies over one set of actions."""

    behavior_logits = arm_logits("behavior", 0.3, -0.2, 0.5)
    current_logits = arm_logits("current", 1.5, -0.9, 0.1)

    def joint(self) -> None:
        """Set the behavior policy `mu`, the current policy `pi`, and their chi-square divergence."""
        self.logits = self.behavior_logits, self.current_logits
        self.mu, self.pi = map(softmax, self.logits)
        self.chi_square = float(((self.pi - self.mu) ** 2 / self.mu).sum())

    def list_counts(self, name: str, tokens: int) -> None:
        """Refuse a length with more than 20,000 vectors of action counts, since all of them are enumerated."""
        actions = self.behavior_logits.size
        longest = next((n for n in range(tokens) if math.comb(n + actions, actions - 1) > 20_000), tokens)
        self.require(longest == tokens, name, f"at most {longest} tokens for {actions} actions", "shorten sequences")


class PaidGroup(PolicyPair):
    """Base class of claim points with a group of `samples` arms drawn, fixed `rewards`, and all batches enumerated."""

    behavior_logits = arm_logits("behavior", 0.3, -0.2, 0.5, most=1.5, sizes=(2, 4))
    current_logits = arm_logits("current", 1.5, -0.9, 0.1, most=1.5)
    rewards = Vector(typical=(0.1, 1.0), example=(0.2, 0.5, 1.0), doc="rewards of the arms")
    samples: Any

    def joint(self) -> None:
        """Refuse more than 2^16 batches; set `ratio` and `scores` of the arms, and the exact `gradient`."""
        arms, most, remedy = self.rewards.size, 2**16, "ask for fewer samples or arms"
        self.require(arms**self.samples <= most, "samples", f"such that {arms}**samples <= {most}", remedy)
        self.ratio, self.scores = self.pi / self.mu, np.eye(arms) - self.pi
        self.gradient = self.pi * (self.rewards - self.pi @ self.rewards)

    def batches(self) -> tuple[np.ndarray, np.ndarray]:
        """All ordered batches as arm indices `[B, N]`, and their probabilities `[B]`."""
        picks = np.array(list(itertools.product(range(self.rewards.size), repeat=self.samples)))
        return picks, self.mu[picks].prod(axis=1)


def logit_table(policy: str, *example: tuple[float, ...]) -> Table:
    """Declare a parameter that is a table of logits, with the number of rows that `dependence` requires."""
    accepts, remedy = "a table of logits, a row for each state", "give one row of logits per state"
    return Table(accepts, remedy, typical=(-1.5, 1.5), example=example, doc=f"logits of the {policy} policy")


def of_states(doc: str, unit: str, *example: tuple[float, ...]) -> Table:
    """Declare a parameter that is a table with one row per state of a ring and one column per action."""
    accepts, remedy = "a table, a row for each state", "give one row for each state"
    return Table(accepts, remedy, typical=(-1.5, 1.5), example=example, unit=unit, doc=doc)


class Sequences(Declared):
    """Base class of claim points with sequence policies, whose logits `[S, A]` are parameters of type `Parsed`."""

    actions = Integer(2, typical=(2, 3), example=3, doc="number of actions")
    horizon = Integer(1, typical=(1, 4), example=3, unit="tokens", doc="length of a sequence")
    dependence = Choice(*DEPENDENCES, example="markov", doc="how the row of logits of a token is selected")

    def joint(self) -> None:
        """Refuse more than `LIMIT` sequences, and tables without one row per state of the dependence."""
        count = f"{self.actions}**{self.horizon}"
        few = self.actions**self.horizon <= LIMIT
        self.require(few, "horizon", f"such that {count} <= {LIMIT}", "shorten the sequences")
        shape = [_height(self.actions, self.horizon, self.dependence), self.actions]
        for name in (name for name, p in self.parameters.items() if isinstance(p, Parsed)):
            remedy = f"give one row of logits per {self.dependence} state"
            checks.finite_array(name, getattr(self, name).tolist(), shape, remedy)

    def rows(self, sequences: np.ndarray) -> np.ndarray:
        """Row of the logit table for every token of every sequence, int `[Y, T]`."""
        if self.dependence == "iid":
            return np.zeros_like(sequences)
        if self.dependence == "position":
            return np.broadcast_to(np.arange(self.horizon), sequences.shape)
        return np.concatenate([np.zeros_like(sequences[:, :1]), 1 + sequences[:, :-1]], axis=1)

    def successor(self, row: int, action: int, position: int) -> int:
        """Row of the logit table for the next token, after `action` was taken in `row` at `position`."""
        return {"iid": 0, "position": position + 1, "markov": 1 + action}[self.dependence]

    def behind(self, values: np.ndarray, position: int, last: float = 0.0) -> np.ndarray:
        """Value of the next row after each row and action at `position`, `[S, A]`; `last` after the final token."""
        if position + 1 == self.horizon:
            return np.full((len(values), self.actions), last)
        pairs = np.ndindex(len(values), self.actions)
        rows = [self.successor(row, action, position) % len(values) for row, action in pairs]
        return values[rows].reshape(-1, self.actions)


class SequencePair(Sequences):
    """Base class of claim points with behavior and current logits `[S, A]` of a sequence policy."""

    behavior_logits = logit_table("behavior", (0.3, -0.2, 0.5), (0.0, 0.7, -0.4), (-0.5, 0.2, 0.1), (0.9, 0.1, 0.0))
    current_logits = logit_table("current", (1.0, -0.6, 0.2), (0.4, 0.2, -0.8), (0.3, -0.3, 0.6), (0.2, 0.8, -0.5))


def _height(actions: int, horizon: int, dependence: str) -> int:
    """Number of rows in a table of logits."""
    return {"iid": 1, "position": horizon, "markov": actions + 1}[dependence]


@dataclass(frozen=True)
class Enumeration:
    """All sequences, with tokens, their rows, log-probabilities under both policies and log ratios, `[Y, T]`.

    `mass` is the probability of the sequence under behavior and `ratio` its ratio W, `[Y]`.
    """

    tokens: np.ndarray
    rows: np.ndarray
    current_logits: np.ndarray
    log_behavior: np.ndarray
    log_current: np.ndarray
    log_ratio: np.ndarray
    mass: np.ndarray
    ratio: np.ndarray

    @cached_property
    def score(self) -> np.ndarray:
        """Gradient of the current log-probability of each sequence with respect to the flat logits, `[Y, S*A]`."""
        # sum_t (e_{a_t} - p_{row_t}), placed in the row of each token.
        probabilities, index = softmax(self.current_logits), np.arange(len(self.tokens))
        score = np.zeros((len(self.tokens), *self.current_logits.shape))
        for row, token in zip(self.rows.T, self.tokens.T, strict=True):
            score[index, row] -= probabilities[row]
            score[index, row, token] += 1.0
        return score.reshape(len(self.tokens), -1)


def enumerate_sequences(pair: SequencePair) -> Enumeration:
    """Enumerate all A**T sequences for a pair of policies."""
    tokens = np.stack([g.ravel() for g in np.indices((pair.actions,) * pair.horizon)], axis=1)
    rows = pair.rows(tokens)
    log_behavior = log_softmax(pair.behavior_logits, axis=1)[rows, tokens]
    log_current = log_softmax(pair.current_logits, axis=1)[rows, tokens]
    log_ratio = log_current - log_behavior
    mass, ratio = np.exp(log_behavior.sum(axis=1)), np.exp(log_ratio.sum(axis=1))
    return Enumeration(tokens, rows, pair.current_logits, log_behavior, log_current, log_ratio, mass, ratio)


def chained(pair: SequencePair, terms: np.ndarray) -> Any:
    """Sum over all sequences of the product of per-token terms `[S, A]`, without enumeration; terms may be complex."""
    if pair.dependence == "iid":
        return terms.sum() ** pair.horizon
    if pair.dependence == "position":
        return terms.sum(axis=1).prod()
    return (terms[0] @ np.linalg.matrix_power(terms[1:], pair.horizon - 1)).sum()


def reward(zeros: Any, horizon: int, success: float | None) -> Any:
    """Reward of a sequence in which `zeros` of the `horizon` tokens equal 0."""
    share = np.asarray(zeros) / horizon
    return share if success is None else (share >= success).astype(np.float64)


def share_that_pays(example: float | None = None) -> Real:
    """Declare the fraction of tokens equal to 0 that earns reward 1; with None, the fraction is the reward."""
    doc, remedy = "fraction of tokens 0 that pays", "give a fraction of the tokens, or None"
    return Real(0.0, 1.0, open_low=True, optional=True, typical=(0.1, 1.0), example=example, doc=doc, remedy=remedy)


class PaidSequencePair(SequencePair):
    """Base class of claim points with two sequence policies and a reward."""

    success = share_that_pays()

    def joint(self) -> None:
        """Enumerate the sequences, their rewards, and each reward times its probability under behavior, `[Y]`."""
        self.sequences = enumerate_sequences(self)
        self.paid = reward((self.sequences.tokens == 0).sum(axis=1), self.horizon, self.success)
        self.paid_mass = self.sequences.mass * self.paid


def exact_return(pair: SequencePair, logits: np.ndarray, success: float | None, only: int | None = None) -> Any:
    """Expected return J of a policy by forward recursion on (row, count of token 0), without enumeration."""
    probabilities, others = softmax(logits), softmax(pair.behavior_logits)
    height = max(len(logits), pair.horizon + 1)
    mass = np.zeros((height, pair.horizon + 1), dtype=probabilities.dtype)
    mass[0, 0] = 1.0
    for t in range(pair.horizon):
        successors, chance = np.zeros_like(mass), probabilities if only in (None, t) else others
        for row, a in np.ndindex(*chance.shape):
            flow = mass[row] * chance[row, a]
            successors[pair.successor(row, a, t)] += np.roll(flow, 1) if a == 0 else flow
        mass = successors
    return mass.sum(axis=0) @ reward(np.arange(pair.horizon + 1), pair.horizon, success)


def exact_gradient(
    pair: SequencePair, logits: np.ndarray, success: float | None, only: int | None = None
) -> np.ndarray:
    """Gradient of J with respect to the flat logits, `[S*A]`, by a complex step through `exact_return`."""
    return complex_gradient(lambda point: exact_return(pair, point, success, only), logits)
