r"""The mean gradient of every advantage of a group, over all batches, with the ratio that makes a constant one exact.

Groups of N sequences, ended by their last kind of token or by T, from behavior mu; reward R the share of tokens 0;
sequence ratios W multiply scores, g = (1/N) sum_i W_i sum_t A_it s_it. A is r less a baseline b. opo: sum T r / sum T;
opob: weights W^2 |sum_t s_t|^2; normalized: weights W; each with or (`_others`) without the sample itself. group_std
divides by the deviation of N - 1, maxrl by the mean. soft_value: b = beta log mean exp(r / beta). remax: b = R of the
greedy response. pass_at_k: mean over sets of k with i of their best less the best without i. gdpo: reward and shortness
standardized apart, summed, standardized. By token: returns_to_go (discounted; less their mean over all tokens),
reinforce_plus_plus (less the mean of whole returns, then standardized over tokens), otb (weights W^2 sum of |s_k|^2 up
to the token, none for the last one going). Without the sample itself, and for remax and returns at discount 1, the mean
is grad J. Derivation: enumeration. Domain: N >= 2, full support, at most 4096 batches. Second route: counts of outcomes
with formulas of their own. Source: 2505.23585, 2602.17616, 2402.14740, 2602.02710, 2405.19107, 2310.10505, 2601.05242,
2501.03262, 2602.07078.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import Sequences, compositions, drawn_tables, logit_table, softmax
from asyncsim.theory._declared import Choice, Count, Draw, Positive, Real
from asyncsim.theory._stated import indexed, stated
from asyncsim.theory.estimator._groups import KINDS, Group, Knobs, by_counts, by_samples

_LIMIT = 4096


class _Setting(Sequences):
    actions = Count(2, 3, typical=(2, 3), example=3, doc="kinds of tokens, the last of which ends a sequence")
    horizon = Count(1, 3, typical=(1, 2), example=2, unit="tokens", doc="largest length")
    dependence = Choice("position", example="position", doc="rule that picks the row of logits of a token")
    behavior_logits = logit_table("behavior", (0.3, -0.2, 0.4), (0.0, 0.5, -0.4))
    current_logits = logit_table("current", (0.9, -0.6, 0.2), (0.4, 0.2, -0.8))
    samples = Count(2, 6, typical=(2, 3), example=3, doc="samples of a group")
    advantage = Choice(*KINDS, example="opob", doc="advantage of a sample or of its tokens")
    discount = Real(0.0, 1.0, typical=(0.5, 1.0), example=0.8, doc="discount per token of returns")
    temperature = Positive(typical=(0.2, 2.0), example=0.5, unit="reward", doc="beta of the soft value")
    k = Count(2, 6, typical=(2, 2), example=2, doc="samples of a set of pass@k")
    limit = Count(1, 3, typical=(1, 1), example=1, unit="tokens", doc="most tokens of a short response")
    weight = Real(typical=(0.2, 1.5), example=0.7, doc="weight of shortness in gdpo")

    def joint(self) -> None:
        """Few enough batches; sets inside a group; a greedy response without ties."""
        super().joint()
        few = len(self.outcomes.reward) ** self.samples <= _LIMIT
        checks.require(few, "samples", self.samples, f"such that batches are at most {_LIMIT}", "use fewer")
        checks.require(self.k <= self.samples, "k", self.k, f"at most samples = {self.samples}", "lower it")
        order = np.sort(self.current_logits, axis=1)
        clear = float((order[:, -1] - order[:, -2]).min()) > 1e-6
        remedy = "one token has to be the likeliest"
        checks.require(clear, "current_logits", self.current_logits.tolist(), "without ties in a row", remedy)

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Tables of the shape that the other parameters set."""
        point = {name: draw(p) for name, p in cls.parameters.items() if not name.endswith("_logits")}
        return {**point, **drawn_tables(draw, point["horizon"], point["actions"])}

    @property
    def knobs(self) -> Knobs:
        """What advantages read."""
        return Knobs(self.discount, self.temperature, self.k, self.limit, self.weight)

    @cached_property
    def sequences(self) -> list[tuple[int, ...]]:
        """All that can be written."""
        last = self.actions - 1
        going = [[(*head, last) for head in itertools.product(range(last), repeat=n)] for n in range(self.horizon - 1)]
        return [*itertools.chain(*going), *self._full(last)]

    def _full(self, last: int) -> list[tuple[int, ...]]:
        heads = itertools.product(range(last), repeat=self.horizon - 1)
        return [(*head, a) for head in heads for a in range(self.actions)]

    @cached_property
    def outcomes(self) -> Group:
        """Every sequence as a sample."""
        mu, pi = softmax(self.behavior_logits), softmax(self.current_logits)
        rows = [list(enumerate(y)) for y in self.sequences]
        ratio = np.array([math.prod(pi[c] / mu[c] for c in row) for row in rows])
        token, mask = np.zeros((2, len(rows), self.horizon))
        for i, row in enumerate(rows):
            for t, a in row:
                token[i, t], mask[i, t] = 1.0 - 2.0 * pi[t, a] + pi[t] @ pi[t], 1.0
        greedy = tuple(np.argmax(pi, axis=1).tolist())
        said = next(y for y in self.sequences if greedy[: len(y)] == y)
        reward = np.array([y.count(0) / self.horizon for y in self.sequences])
        # Rows of different positions are orthogonal.
        norm = ratio**2 * (token * mask).sum(axis=1)
        return Group(reward, mask.sum(axis=1), ratio, norm, token, mask, said.count(0) / self.horizon)

    @cached_property
    def chance(self) -> np.ndarray:
        """Of each sequence under mu."""
        mu = softmax(self.behavior_logits)
        return np.array([math.prod(mu[c] for c in enumerate(y)) for y in self.sequences])

    @cached_property
    def scores(self) -> np.ndarray:
        """Of every token, `[n, T, P]`."""
        pi = softmax(self.current_logits)
        table = np.zeros((len(self.sequences), self.horizon, *pi.shape))
        for i, y in enumerate(self.sequences):
            for t, a in enumerate(y):
                table[i, t, t] = np.eye(self.actions)[a] - pi[t]
        return table.reshape(*table.shape[:2], -1)


def _predict(s: _Setting, kind: str | None = None, weighted: bool = True) -> dict[str, float]:
    """Batch by batch, in the order of their samples."""
    g, total = s.outcomes, np.zeros(s.scores.shape[2])
    weight = g.ratio if weighted else np.ones_like(g.ratio)
    for picks in itertools.product(range(len(g.reward)), repeat=s.samples):
        index = np.array(picks)
        advantage = by_samples(kind or s.advantage, g.of(index), s.knobs)
        total += s.chance[index].prod() * np.einsum("i,it,itp->p", weight[index], advantage, s.scores[index])
    return indexed("gradient", total / s.samples)


def _cross_check(s: _Setting) -> dict[str, float]:
    """Count by count, with the multinomial probability of each."""
    g, total = s.outcomes, np.zeros(s.scores.shape[2])
    for count in compositions(s.samples, len(g.reward)):
        there = np.flatnonzero(count)
        ways = math.factorial(s.samples) / math.prod(math.factorial(c) for c in count.tolist())
        chance = ways * float(np.prod(s.chance[there] ** count[there]))
        advantage = by_counts(s.advantage, g.of(there), count[there].astype(float), s.knobs)
        total += chance * np.einsum("i,it,itp->p", count[there] * g.ratio[there], advantage, s.scores[there])
    return indexed("gradient", total / s.samples)


claim = stated(
    id="estimator/baselines",
    statement="the mean gradient of every advantage of a group of `N` samples is that of its formula over all batches: "
    "what a baseline contains of the sample itself is a bias of order `1/N`",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="2505.23585, 2602.17616, 2402.14740, 2602.02710, 2405.19107, 2310.10505, 2601.05242, 2501.03262, "
    "2602.07078",
    formula_defects={
        "group mean": lambda s: _predict(s, kind="group_mean" if s.advantage != "group_mean" else "leave_one_out"),
        "not weighted by the ratio": lambda s: _predict(s, weighted=False),
        "a sample more": lambda s: (
            _predict(s.but(samples=s.samples - 1, k=2)) if s.samples > 2 else _predict(s, "remax")
        ),
    },
    relative_to="norm",
)
