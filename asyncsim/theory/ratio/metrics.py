r"""What metrics of ratios, clips and gradients read on sequences of known laws, every one by its definition.

Sequences end with their last kind of token; i counts sequences by their probability under mu, it their tokens, each
with the share mass_i / E T. W_i is the product of r_it = pi/mu, l its log. `log_ratio`: mean, variance, least, largest
and a quantile of l. `moment`: E W, E W^2 - 1, sd W, E r, E r^2 - 1, sd r, E [log^2 r] over all tokens and over those
that moved along their advantage A = R - E R (no mean of W is 1 for tokens: long sequences count more). `share`: ratios
of sequences above and below a bound, of tokens above it; tokens outside a clip's band, stopped by it (A > 0 and r > 1 +
high, A < 0 and r < 1 - low or r > dual), by its dual part alone, masked whatever the sign (r > dual > 1 + high), and
sequences that are stopped whole. `applied`: mean and ESS of r where it is not stopped. `batch`: return, mean over
samples of the mean entropy of their tokens, norm of the gradient E sum_t c A grad log pi / E T. Derivation: textbook
definitions. Domain: no ratio within 1e-9 of a bound, no advantage 0. Second route: a walk through the tree of
sequences, powers by recursion, the gradient by complex steps. Source: definitions as in the metrics' own docstrings.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import Sequences, complex_gradient, drawn_tables, logit_table, softmax
from asyncsim.theory._declared import Choice, Draw, Real
from asyncsim.theory._stated import stated

_CLEAR = 1e-9
_BEHAVIOR = ((0.3, -0.2, 0.5), (0.0, 0.7, -0.4), (-0.5, 0.2, 0.1))
_CURRENT = ((1.0, -0.6, 0.2), (0.4, 0.2, -0.8), (0.9, -0.9, 0.6))


class _Setting(Sequences):
    dependence = Choice("iid", "position", example="position", doc="rule that picks the row of logits of a token")
    behavior_logits = logit_table("behavior", *_BEHAVIOR)
    current_logits = logit_table("current", *_CURRENT)
    level = Real(0.01, 0.99, typical=(0.05, 0.95), example=0.3, doc="level of the quantile")
    bound = Real(1.0, open_low=True, typical=(1.05, 3.0), example=1.3, doc="bound of ratios; below: its inverse")
    low = Real(0.0, 1.0, typical=(0.05, 0.5), example=0.15, doc="the clip's lower bound is 1 - low")
    high = Real(0.0, 1.0, typical=(0.05, 0.5), example=0.2, doc="the clip's upper bound is 1 + high")
    dual = Real(1.0, open_low=True, typical=(1.55, 2.0), example=1.25, doc="largest ratio of negative advantages")

    def joint(self) -> None:
        """Nothing on an edge: neither a ratio on a bound, nor an advantage of 0, nor a level that is reached."""
        super().joint()
        above = self.dual > 1.0 + self.high
        checks.require(above, "dual", self.dual, "above 1 + high", "where A > 0 is stopped first")
        s = self.listed
        some = bool(_open(self, np.exp(s.log_ratio), s.advantage[:, None])[s.mask > 0].any())
        checks.require(some, "low, high", (self.low, self.high), "open for some token", "widen the band")
        moved = float(np.ptp(s.total)) > 1e-3
        checks.require(moved, "current_logits", self.current_logits.tolist(), "not those of behavior", "change one")
        tokens, whole = np.exp(s.log_ratio[s.mask > 0]), np.exp(s.total)
        edges = [tokens - x for x in (1.0 - self.low, 1.0 + self.high, self.dual, self.bound)]
        edges += [whole - x for x in (self.bound, 1.0 / self.bound)]
        order = np.argsort(s.total)
        edges += [np.cumsum(s.mass[order]) - self.level, s.advantage]
        clear = min(float(np.abs(edge).min()) for edge in edges) > _CLEAR
        checks.require(clear, "current_logits", self.current_logits.tolist(), "off every bound", "change one")

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Tables of the shape that the other parameters set."""
        names = [name for name in cls.parameters if not name.endswith("_logits")]
        point = {name: draw(cls.parameters[name]) for name in names}
        height = point["horizon"] if point["dependence"] == "position" else 1
        return {**point, **drawn_tables(draw, height, point["actions"])}

    @cached_property
    def listed(self) -> _Listed:
        """Every sequence as it would go on if nothing ended it; what it would write then is masked."""
        tokens = np.stack([g.ravel() for g in np.indices((self.actions,) * self.horizon)], axis=1)
        rows, ended = self.rows(tokens), np.cumsum(tokens == self.actions - 1, axis=1)
        mask = np.pad(ended[:, :-1] == 0, ((0, 0), (1, 0)), constant_values=True).astype(float)
        mu, pi = softmax(self.behavior_logits), softmax(self.current_logits)
        mass = mu[rows, tokens].prod(axis=1)
        log_ratio = np.log(pi / mu)[rows, tokens] * mask
        reward = ((tokens == 0) * mask).sum(axis=1) / self.horizon
        return _Listed(tokens, rows, mask, mass, log_ratio, reward)


class _Listed(NamedTuple):
    """Tokens, rows, masks `[Y, T]`; probabilities `[Y]`, log ratios of tokens `[Y, T]`, rewards `[Y]`."""

    tokens: np.ndarray
    rows: np.ndarray
    mask: np.ndarray
    mass: np.ndarray
    log_ratio: np.ndarray
    reward: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """log W, `[Y]`."""
        return np.asarray(self.log_ratio.sum(axis=1))

    @property
    def share(self) -> np.ndarray:
        """Of each token, `[Y, T]`."""
        weight = self.mass[:, None] * self.mask
        return np.asarray(weight / weight.sum())

    @property
    def advantage(self) -> np.ndarray:
        """R - E R, `[Y]`."""
        return np.asarray(self.reward - self.mass @ self.reward)


def _open(s: _Setting, ratio: Any, advantage: Any) -> Any:
    below = (ratio <= 1.0 + s.high) | (advantage < 0)
    return below & ((advantage > 0) | ((ratio >= 1.0 - s.low) & (ratio <= s.dual)))


def _quantile(values: np.ndarray, mass: np.ndarray, level: float) -> float:
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(mass[order]), level)])


def _predict(s: _Setting, advantage: np.ndarray | None = None) -> dict[str, float]:
    y = s.listed
    a = (y.advantage if advantage is None else advantage)[:, None]
    found = _of_ratios(s, a) | _of_clips(s, a)
    return {name: float(value) for name, value in found.items()} | _of_batch(s, a)


def _of_ratios(s: _Setting, a: np.ndarray) -> dict[str, Any]:
    y = s.listed
    share, mass, r, log_w = y.share, y.mass, np.exp(y.log_ratio), y.total
    w, mean, harmful = np.exp(log_w), mass @ log_w, share * (a * y.log_ratio > 0)
    return {
        "log_ratio[mean]": mean,
        "log_ratio[variance]": mass @ (log_w - mean) ** 2,
        "log_ratio[least]": log_w.min(),
        "log_ratio[largest]": log_w.max(),
        "log_ratio[quantile]": _quantile(log_w, mass, s.level),
        "moment[sequence]": mass @ w,
        "moment[chi_square]": mass @ w**2 - 1.0,
        "moment[sd]": np.sqrt(mass @ (w - mass @ w) ** 2),
        "moment[token]": (share * r).sum(),
        "moment[token_chi_square]": (share * r**2).sum() - 1.0,
        "moment[token_sd]": np.sqrt((share * (r - (share * r).sum()) ** 2).sum()),
        "moment[m2]": (share * y.log_ratio**2).sum(),
        "moment[harmful]": (harmful * y.log_ratio**2).sum() / max(harmful.sum(), 1e-300),
        "share[above]": mass @ (w > s.bound),
        "share[below]": mass @ (w < 1.0 / s.bound),
        "share[token_above]": (share * (r > s.bound)).sum(),
    }


def _of_clips(s: _Setting, a: np.ndarray) -> dict[str, Any]:
    y = s.listed
    share, r = y.share, np.exp(y.log_ratio)
    open_ = _open(s, r, a)
    applied = share * r * open_
    return {
        "share[outside]": (share * ((r < 1.0 - s.low) | (r > 1.0 + s.high))).sum(),
        "share[stopped]": (share * ~open_).sum(),
        "share[dual]": (share * ((r > s.dual) & (a < 0))).sum(),
        "share[masked]": (share * (r > s.dual)).sum(),
        "share[silent]": y.mass @ (~open_ | (y.mask == 0)).all(axis=1),
        "applied[mean]": applied.sum(),
        "applied[ess]": applied.sum() ** 2 / max((share * r**2 * open_).sum(), 1e-300),
    }


def _of_batch(s: _Setting, advantage: np.ndarray) -> dict[str, float]:
    y, pi = s.listed, softmax(s.current_logits)
    open_ = _open(s, np.exp(y.log_ratio), advantage)
    entropy = -(pi * np.log(pi)).sum(axis=1)[y.rows] * y.mask
    weight = y.share * np.exp(y.log_ratio) * open_ * advantage
    gradient = np.zeros_like(s.current_logits)
    np.add.at(gradient, (y.rows, y.tokens), weight)
    np.add.at(gradient, y.rows, -weight[..., None] * pi[y.rows])
    return {
        "batch[return]": float(y.mass @ y.reward),
        "batch[entropy]": float(y.mass @ (entropy.sum(axis=1) / y.mask.sum(axis=1))),
        "batch[gradient]": float(np.linalg.norm(gradient)),
    }


class _Leaf(NamedTuple):
    """A whole sequence: its probability under mu, ratios of its tokens, their rows, and its reward."""

    mass: float
    ratios: tuple[Any, ...]
    rows: tuple[int, ...]
    reward: float


def _walk(s: _Setting, current: np.ndarray, prefix: _Leaf | None = None) -> Iterator[_Leaf]:
    """All sequences, token by token; current probabilities may be complex."""
    start = prefix or _Leaf(1.0, (), (), 0.0)
    mu, place = softmax(s.behavior_logits), len(start.rows)
    row = place if s.dependence == "position" else 0
    for a in range(s.actions):
        paid = start.reward + (a == 0) / s.horizon
        ratios = (*start.ratios, current[row, a] / mu[row, a])
        leaf = _Leaf(start.mass * mu[row, a], ratios, (*start.rows, row), paid)
        if a == s.actions - 1 or place + 1 == s.horizon:
            yield leaf
        else:
            yield from _walk(s, current, leaf)


def _power(s: _Setting, exponent: float, derivative: bool = False) -> float:
    """E W^k by recursion from the last token; its derivative in k, E log W W^k, by a complex step."""
    mu, pi = softmax(s.behavior_logits), softmax(s.current_logits)
    k = exponent + (1e-40j if derivative else 0.0)
    value: Any = 1.0
    for place in reversed(range(s.horizon)):
        row = place if s.dependence == "position" else 0
        terms = mu[row] * np.exp(k * np.log(pi[row] / mu[row]))
        value = terms[-1] + terms[:-1].sum() * value
    return float(value.imag / 1e-40 if derivative else value)


def _cross_check(s: _Setting) -> dict[str, float]:
    leaves = sorted(_walk(s, softmax(s.current_logits)), key=lambda leaf: float(np.prod(leaf.ratios)))
    length = sum(leaf.mass * len(leaf.rows) for leaf in leaves)
    earned = sum(leaf.mass * leaf.reward for leaf in leaves)
    rows = [_Row(leaf.mass / length, float(r), leaf.reward - earned) for leaf in leaves for r in leaf.ratios]
    found = _walked_sequences(s, leaves) | _walked_tokens(s, rows) | _walked_clips(s, rows, leaves, earned)
    found |= _walked_batch(s, leaves, earned, length)
    return {name: float(found[name]) for name in _predict(s)}


class _Row(NamedTuple):
    """A token: its share, its ratio, the advantage of its sequence."""

    share: float
    ratio: float
    advantage: float


def _walked_sequences(s: _Setting, leaves: list[_Leaf]) -> dict[str, float]:
    """Powers by recursion, the others leaf by leaf, of which the first has the smallest ratio."""
    logs, reached = [float(np.log(leaf.ratios).sum()) for leaf in leaves], 0.0
    masses = [leaf.mass for leaf in leaves]
    place = 0
    while reached + masses[place] < s.level:
        reached, place = reached + masses[place], place + 1
    mean, one, two = _power(s, 0.0, derivative=True), _power(s, 1.0), _power(s, 2.0)
    return {
        "log_ratio[mean]": mean,
        "log_ratio[variance]": sum(m * x * x for m, x in zip(masses, logs, strict=True)) - mean**2,
        "log_ratio[least]": logs[0],
        "log_ratio[largest]": logs[-1],
        "log_ratio[quantile]": logs[place],
        "moment[sequence]": one,
        "moment[chi_square]": two - 1.0,
        "moment[sd]": float(np.sqrt(max(two - one**2, 0.0))),
        "share[above]": sum(m for m, x in zip(masses, logs, strict=True) if x > np.log(s.bound)),
        "share[below]": sum(m for m, x in zip(masses, logs, strict=True) if -x > np.log(s.bound)),
    }


def _walked_tokens(s: _Setting, rows: list[_Row]) -> dict[str, float]:
    first, second = (sum(m * r**k for m, r, _ in rows) for k in (1, 2))
    harm = [(m, np.log(r) ** 2) for m, r, a in rows if (r > 1.0) == (a > 0.0) and r != 1.0]
    return {
        "moment[token]": first,
        "moment[token_chi_square]": second - 1.0,
        "moment[token_sd]": float(np.sqrt(max(second - first**2, 0.0))),
        "moment[m2]": sum(m * np.log(r) ** 2 for m, r, _ in rows),
        "moment[harmful]": sum(m * x for m, x in harm) / sum(m for m, _ in harm) if harm else 0.0,
        "share[token_above]": sum(m for m, r, _ in rows if r > s.bound),
    }


def _walked_clips(s: _Setting, rows: list[_Row], leaves: list[_Leaf], earned: float) -> dict[str, float]:
    used = [(m, r) for m, r, a in rows if _open(s, r, a)]
    applied = sum(m * r for m, r in used)
    alive = [leaf for leaf in leaves if np.any([_open(s, r, leaf.reward - earned) for r in leaf.ratios])]
    return {
        "share[outside]": 1.0 - sum(m for m, r, _ in rows if 1.0 - s.low <= r <= 1.0 + s.high),
        "share[stopped]": 1.0 - sum(m for m, _ in used),
        "share[dual]": sum(m for m, r, a in rows if a < 0.0 and r > s.dual),
        "share[masked]": sum(m for m, r, _ in rows if r > s.dual),
        "share[silent]": 1.0 - sum(leaf.mass for leaf in alive),
        "applied[mean]": applied,
        "applied[ess]": applied**2 / sum(m * r * r for m, r in used),
    }


def _walked_batch(s: _Setting, leaves: list[_Leaf], earned: float, length: float) -> dict[str, float]:
    def objective(flat: np.ndarray) -> Any:
        """The printed surrogate, whose real part says which branch is the smaller."""
        total = 0.0
        for leaf in _walk(s, softmax(flat.reshape(s.current_logits.shape))):
            a = leaf.reward - earned
            total += leaf.mass / length * sum(a * r for r in leaf.ratios if _open(s, r.real, a))
        return total

    p = softmax(s.current_logits)
    entropy = [float(-p[row] @ np.log(p[row])) for row in range(len(p))]
    return {
        "batch[return]": earned,
        "batch[entropy]": sum(leaf.mass * float(np.mean([entropy[row] for row in leaf.rows])) for leaf in leaves),
        "batch[gradient]": float(np.linalg.norm(complex_gradient(objective, s.current_logits.ravel()))),
    }


def _instead(s: _Setting, **values: float) -> dict[str, float]:
    right = _predict(s)
    return right | {f"{name.replace('__', '[')}]": value for name, value in values.items()}


def _per_sample(s: _Setting) -> dict[str, float]:
    """Tokens averaged within their sequence first."""
    y = s.listed
    weight = y.mass[:, None] * y.mask / y.mask.sum(axis=1, keepdims=True)
    return _instead(s, moment__token=float((weight * np.exp(y.log_ratio)).sum()))


claim = stated(
    id="ratio/metrics",
    statement="metrics read their definitions: means over sequences count each by its probability, those over tokens "
    "count long sequences more, and a clip stops what moved along its advantage beyond its band",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="definitions",
    formula_defects={
        "tokens averaged within sequences": _per_sample,
        "all tokens that moved taken for harmful": lambda s: _instead(
            s, moment__harmful=_predict(s)["moment[m2]"] / (s.listed.share * (s.listed.log_ratio != 0)).sum()
        ),
        "outside the band taken for stopped": lambda s: _instead(s, share__stopped=_predict(s)["share[outside]"]),
        "deviation for variance": lambda s: _instead(
            s, log_ratio__variance=np.sqrt(_predict(s)["log_ratio[variance]"])
        ),
        "sign of the advantage forgotten": lambda s: _predict(s, np.abs(s.listed.advantage)),
    },
    relative_to="norm",
)
