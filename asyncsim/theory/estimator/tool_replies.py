r"""Tokens that a tool inserts have no gradient, no ratio and no length, but what follows depends on them.

The policy writes a word, which ends the sequence, or a call, behind which a tool writes L tokens. The last of them is
a word, drawn evenly among K the first time and repeated later; the policy's next row is that of the word. Row 0 holds
before any reply. A word pays 1/K in row 0, else q if it is the word said and (1 - q)/(K - 1) if not; each call costs
its price; nothing is paid beyond T tokens, replies included. `gradient`: with exact sequence ratios and the group
mean it is grad J, J by a recursion V(t, row). With token ratios, averaged over tokens, it is E_mu [A sum_t r_t s_t] /
E_mu n, n own tokens alone. `weight`: E W = 1, ESS/N = 1 / E W^2, mean token ratio E sum r / E n. `tokens` is E n, the
turns too, since replies part them. Derivation: masked tokens contribute factors 1 and terms 0. Domain: population,
full support. Second route: every sequence walked through. Source: derived; masks as in arXiv 2503.09516.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import complex_gradient, drawn_tables, logit_table, softmax
from asyncsim.theory._declared import Choice, Count, Declared, Draw, Flag, Real
from asyncsim.theory._stated import indexed, stated

_BEHAVIOR = ((0.1, -0.2, 0.9), (0.6, 0.1, 0.2), (-0.3, 0.5, 0.3))
_CURRENT = ((-0.4, 0.1, 1.4), (1.2, -0.3, -0.2), (-0.6, 1.1, 0.4))


class _Setting(Declared):
    words = Count(2, 8, typical=(2, 3), example=2, doc="words, one of which is right")
    horizon = Count(1, 16, typical=(3, 7), example=6, unit="tokens", doc="tokens of a sequence, replies included")
    reply_tokens = Count(1, 8, typical=(1, 2), example=1, unit="tokens", doc="tokens of a reply")
    accuracy = Real(0.0, 1.0, typical=(0.6, 1.0), example=0.9, doc="chance that the tool says the right word")
    price = Real(0.0, 1.0, typical=(0.0, 0.3), example=0.1, unit="reward", doc="price of a call")
    opens = Flag(example=False, doc="whether a reply stands in front of the first token")
    weighting = Choice("sequence", "token", example="token", doc="ratio of sequences summed, or of tokens averaged")
    behavior_logits = logit_table("behavior", *_BEHAVIOR)
    current_logits = logit_table("current", *_CURRENT)

    def joint(self) -> None:
        """Rows for what the tool may have said; room behind the first reply; a tool no worse than a guess."""
        shape = [self.words + 1, self.words + 1]
        for name in ("behavior_logits", "current_logits"):
            remedy = "give a row for no reply and one for each word, a number for each word and the call"
            checks.finite_array(name, getattr(self, name).tolist(), shape, remedy)
        useful = self.accuracy >= 1.0 / self.words
        checks.require(useful, "accuracy", self.accuracy, "at least 1/words", "raise it")
        room = self.horizon > (self.reply_tokens if self.opens else 0)
        checks.require(room, "horizon", self.horizon, "more than the first reply", "lengthen the sequence")
        apart = float(np.abs(softmax(self.behavior_logits) - softmax(self.current_logits)).max()) > 1e-3
        checks.require(apart, "current_logits", self.current_logits.tolist(), "not those of behavior", "change one")

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Tables as high as there are words."""
        point = {name: draw(p) for name, p in cls.parameters.items() if not name.endswith("_logits")}
        return {**point, **drawn_tables(draw, point["words"] + 1, point["words"] + 1)}

    @property
    def mu(self) -> np.ndarray:
        return softmax(self.behavior_logits)

    @property
    def pi(self) -> np.ndarray:
        return softmax(self.current_logits)

    def pays(self, row: int, word: int) -> float:
        """Chance that a word is right."""
        if row == 0:
            return 1.0 / self.words
        return self.accuracy if word == row - 1 else (1.0 - self.accuracy) / (self.words - 1)

    def said(self, row: int) -> list[tuple[float, int]]:
        """Chances and rows behind a reply."""
        return [(1.0, row)] if row else [(1.0 / self.words, 1 + k) for k in range(self.words)]

    @property
    def starts(self) -> list[tuple[float, int, int]]:
        """Chances, positions and rows of the first own token."""
        known = self.said(0) if self.opens else [(1.0, 0)]
        return [(chance, self.reply_tokens if self.opens else 0, row) for chance, row in known]


def _recursion(s: _Setting, factor: np.ndarray, paid: np.ndarray) -> np.ndarray:
    """V `[T + L + 2, K + 1]` = sum_a factor (paid + V behind a call), 0 behind a word and beyond T."""
    values = np.zeros((s.horizon + s.reply_tokens + 2, s.words + 1), dtype=factor.dtype)
    for t in reversed(range(s.horizon)):
        for row in range(s.words + 1):
            later = sum(chance * values[t + 1 + s.reply_tokens, known] for chance, known in s.said(row))
            values[t, row] = (factor[row] * paid[row]).sum() + factor[row, -1] * later
    return values


def _from_start(s: _Setting, values: np.ndarray) -> Any:
    return sum(chance * values[t, row] for chance, t, row in s.starts)


def _rewards(s: _Setting) -> np.ndarray:
    """What each own token earns at once, `[K + 1, K + 1]`."""
    return np.array([[*(s.pays(row, word) for word in range(s.words)), -s.price] for row in range(s.words + 1)])


def _squares(s: _Setting) -> float:
    """E_mu W^2: sequences end with a word, or with the last own token that has room."""
    values = np.ones((s.horizon + s.reply_tokens + 2, s.words + 1))
    for t in reversed(range(s.horizon)):
        for row in range(s.words + 1):
            later = sum(chance * values[t + 1 + s.reply_tokens, known] for chance, known in s.said(row))
            square = s.pi[row] ** 2 / s.mu[row]
            values[t, row] = square[:-1].sum() + square[-1] * later
    return float(_from_start(s, values))


def _visits(s: _Setting) -> np.ndarray:
    """Probability under mu that an own token stands at t in a row, `[T + L + 2, K + 1]`."""
    seen = np.zeros((s.horizon + s.reply_tokens + 2, s.words + 1))
    for chance, t, row in s.starts:
        seen[t, row] += chance
    for t in range(s.horizon):
        for row in range(s.words + 1):
            for chance, known in s.said(row):
                seen[t + 1 + s.reply_tokens, known] += seen[t, row] * s.mu[row, -1] * chance
    return seen[: s.horizon]


def _token_gradient(s: _Setting, tokens: float) -> np.ndarray:
    """E_mu [A sum_t r_t s_t] / E_mu n: A by what is to be expected behind every own token."""
    values, earned = _recursion(s, s.mu, _rewards(s)), _rewards(s)
    mean, gradient = float(_from_start(s, values)), np.zeros_like(s.pi)
    first = s.starts[0][1]
    for (t, row), chance in np.ndenumerate(_visits(s)):
        calls = (t - first) // (1 + s.reply_tokens)
        ahead = earned[row].copy()
        ahead[-1] += sum(c * values[t + 1 + s.reply_tokens, known] for c, known in s.said(row))
        advantage = s.pi[row] * (ahead - s.price * calls - mean)
        gradient[row] += chance * (advantage - s.pi[row] * advantage.sum())
    return gradient / tokens


def _predict(s: _Setting) -> dict[str, float]:
    ones = np.ones_like(s.mu)
    tokens = float(_from_start(s, _recursion(s, s.mu, ones)))
    # Every own token has the mean ratio 1 where it stands, so that only whole lengths are left.
    ratio = float(_visits(s).sum()) / tokens

    def value(flat: np.ndarray) -> Any:
        return _from_start(s, _recursion(s, softmax(flat.reshape(s.pi.shape)), _rewards(s)))

    exact = s.weighting == "sequence"
    gradient = complex_gradient(value, s.current_logits.ravel()) if exact else _token_gradient(s, tokens)
    mean = float(_from_start(s, _recursion(s, s.mu, _rewards(s))))
    return _quantities(mean, tokens, 1.0, 1.0 / _squares(s), ratio, gradient)


def _quantities(
    mean: float, tokens: float, weight: float, ess: float, ratio: float, gradient: np.ndarray
) -> dict[str, float]:
    weights = {"weight[mean]": weight, "weight[ess]": ess, "weight[token]": ratio}
    return {"return": mean, "tokens": tokens} | weights | indexed("gradient", gradient)


class _Leaf(NamedTuple):
    """A whole sequence: its probability under mu, own tokens as (row, token), its reward."""

    mass: float
    own: tuple[tuple[int, int], ...]
    reward: float


def _walk(s: _Setting, t: int, row: int, leaf: _Leaf) -> Iterator[_Leaf]:
    if t >= s.horizon:
        yield leaf
        return
    for a in range(s.words + 1):
        mass, own = leaf.mass * s.mu[row, a], (*leaf.own, (row, a))
        if a < s.words:
            yield _Leaf(mass, own, leaf.reward + s.pays(row, a))
            continue
        for chance, known in s.said(row):
            yield from _walk(s, t + 1 + s.reply_tokens, known, _Leaf(mass * chance, own, leaf.reward - s.price))


def _cross_check(s: _Setting) -> dict[str, float]:
    leaves = [leaf for chance, t, row in s.starts for leaf in _walk(s, t, row, _Leaf(chance, (), 0.0))]
    mean, tokens = (sum(leaf.mass * x for leaf, x in zip(leaves, each, strict=True)) for each in _moments(leaves))
    first, second, ratio, gradient = 0.0, 0.0, 0.0, np.zeros_like(s.pi)
    for leaf in leaves:
        ratios = [s.pi[at] / s.mu[at] for at in leaf.own]
        whole = float(np.prod(ratios))
        first, second = first + leaf.mass * whole, second + leaf.mass * whole**2
        ratio += leaf.mass * sum(ratios) / tokens
        for (row, a), r in zip(leaf.own, ratios, strict=True):
            weight = whole if s.weighting == "sequence" else r / tokens
            gradient[row] += leaf.mass * weight * (leaf.reward - mean) * (np.eye(s.words + 1)[a] - s.pi[row])
    return _quantities(mean, tokens, first, 1.0 / second, ratio, gradient)


def _moments(leaves: list[_Leaf]) -> tuple[list[float], list[float]]:
    return [leaf.reward for leaf in leaves], [float(len(leaf.own)) for leaf in leaves]


def _with_replies(s: _Setting) -> dict[str, float]:
    """Tokens of replies counted as own ones: lengths, and means over tokens."""
    right = _predict(s)
    calls = float(_from_start(s, _recursion(s, s.mu, np.eye(s.words + 1)[-1] * np.ones_like(s.mu))))
    factor = 1.0 + calls * s.reply_tokens / right["tokens"]
    short = {name: x / factor for name, x in right.items() if name.startswith("gradient")}
    return right | {"tokens": right["tokens"] * factor} | (short if s.weighting == "token" else {})


claim = stated(
    id="estimator/tool-replies",
    statement="tokens that a tool inserts count nowhere: ratios are products, and lengths and means over tokens sums, "
    "over the policy's own tokens, whose rows depend on the replies; with `E W = 1` the exact ratio gives `grad J`",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; masks as in 2503.09516",
    formula_defects={
        "replies counted as own tokens": _with_replies,
        "what the tool says forgotten": lambda s: _predict(
            s.but(current_logits=np.tile(s.current_logits[:1], (s.words + 1, 1)))
        ),
        "replies that take no room": lambda s: _predict(s.but(horizon=s.horizon + 2 * s.reply_tokens)),
        "calls that cost nothing": lambda s: _predict(s.but(price=0.0)),
        "sums for means over tokens": lambda s: _predict(s.but(weighting="sequence")),
    },
    relative_to="norm",
)
