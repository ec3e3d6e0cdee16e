r"""What a divergence penalty adds to an update: the slope of what is printed, which is not that of what it estimates.

With D = log pi - log of the policy that is held close, summed over the tokens of stale responses with weight w (none,
the token's ratio, or the response's, all detached): k1 adds -w, k2 = D^2/2 adds -w D, k3 = e^-D - 1 + D adds
-w (1 - e^-D), on the score of the token. `pull` is the part along descent on KL(pi || other) of whole responses. It is
1 for k2 of responses and for D inside the reward, both with the response's ratio. k2 by token holds visits fixed. k3
has the other direction of KL, k1 regularizes nothing (with a ratio it is 0). Sums over all actions ("exact") and an
entropy bonus have no such noise. A penalty inside the task's reward has D of the behavior or of the current policy.
`value` is what a trace reports, by token. Derivation: derivatives with w and the drawn tokens held fixed. Domain:
policies that differ. Second route: complex steps through the printed terms. Source: Schulman 2020, "Approximating KL
divergence"; 2402.03300, equation 4; 1909.08593, equation 2; gradients derived.
"""

from __future__ import annotations

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import complex_gradient, logit_table, softmax
from asyncsim.theory._declared import Choice, Draw, Positive
from asyncsim.theory._ragged import LaterRagged, Listed
from asyncsim.theory._stated import stated

_SAMPLED = ("k1", "k2", "k2_whole", "k3", "straight_through", "reward")
_WIDE = ("exact", "exact_reverse", "entropy")
_REWARDS = ("task_behavior", "task_current")


class _Setting(LaterRagged):
    reference_logits = logit_table("reference", (0.2, 0.3, -0.3), (0.4, -0.1, 0.0), (-0.2, 0.0, 0.5))
    penalty = Choice(*_SAMPLED, *_WIDE, *_REWARDS, example="k3", doc="term of the objective, or of the task's reward")
    to = Choice("reference", "behavior", "proximal", example="reference", doc="policy that is held close")
    ratio = Choice("none", "token", "sequence", example="sequence", doc="weight of stale samples")
    coefficient = Positive(typical=(0.05, 2.0), example=0.5, unit="reward per nat", doc="price of a nat")

    def joint(self) -> None:
        """What a penalty cannot combine."""
        super().joint()
        plain = self.penalty in _SAMPLED or self.ratio != "token"
        checks.require(plain, "ratio", self.ratio, "none or sequence for a sum over all actions", "leave it out")
        own = self.penalty not in (*_REWARDS, "entropy") or (self.to, self.ratio) == ("reference", "none")
        checks.require(own, "to, ratio", (self.to, self.ratio), "reference and none in a reward", "say so")
        zero = self.penalty == "k1" and self.ratio != "none"
        checks.require(not zero, "ratio", self.ratio, "none for k1", "with a ratio it adds 0")
        split = self.penalty == "k2_whole" and self.ratio == "token"
        checks.require(not split, "ratio", self.ratio, "none or sequence for k2_whole", "it is of one whole response")
        apart = float(np.abs(softmax(self.current_logits) - softmax(self.other)).max()) > 1e-6
        checks.require(apart, "current_logits", self.current_logits.tolist(), "another policy", "else KL has no slope")

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, object]:
        """Settings that can be combined."""
        point = super().drawn(draw)
        if point["penalty"] in (*_REWARDS, "entropy"):
            return point | {"to": "reference", "ratio": "none"}
        fixed = point["penalty"] in (*_WIDE, "k1") or (point["penalty"], point["ratio"]) == ("k2_whole", "token")
        return point | ({"ratio": "none"} if fixed else {})

    @property
    def other(self) -> np.ndarray:
        """Logits of the policy that is held close."""
        table: np.ndarray = getattr(self, f"{self.to}_logits")
        return table


def _carried(s: _Setting, e: Listed) -> np.ndarray:
    """Weight of a token's term, `[Y, T or 1]`."""
    ratio = {"token": e.log_ratio, "sequence": e.log_ratio.sum(1, keepdims=True)}
    return np.exp(ratio[s.ratio]) if s.ratio in ratio else np.ones_like(e.mask)


def _value(gap: np.ndarray, penalty: str, e: Listed) -> np.ndarray:
    """The estimate of the divergence, by token."""
    if penalty in ("k1", "reward"):
        return gap
    if penalty == "k2":
        return 0.5 * gap**2
    if penalty == "k2_whole":
        return 0.5 * gap.sum(1, keepdims=True) ** 2 / e.length * e.mask
    return np.expm1(-gap) + gap


def _sampled(s: _Setting, penalty: str = "") -> np.ndarray:
    """Weight of the score of each drawn token, `[Y, T]`."""
    e = s.listed()
    gap, whole = e.current - s.token_log_probs(s.other), np.ones_like(e.mask)
    behind = gap[:, ::-1].cumsum(1)[:, ::-1]
    slope = {
        "k1": whole, "k2": gap, "k2_whole": gap.sum(1, keepdims=True) * whole, "k3": 1.0 - np.exp(-gap),
        "straight_through": gap, "reward": behind, "task_current": gap.sum(1, keepdims=True) * whole,
        "task_behavior": (e.behavior - s.token_log_probs(s.other)).sum(1, keepdims=True) * whole,
    }[penalty or s.penalty]  # fmt: skip
    return -s.coefficient * _carried(s, e) * slope


def _wide(s: _Setting) -> np.ndarray:
    """Update of a term on all actions, `[T, A]`: in the logits of the rows that are visited."""
    e, pi, other = s.listed(), softmax(s.current_logits), softmax(s.other)
    gap = np.log(pi) - (0.0 if s.penalty == "entropy" else np.log(other))
    row = other - pi if s.penalty == "exact_reverse" else -pi * (gap - (pi * gap).sum(1, keepdims=True))
    visits: np.ndarray = (e.mass * _carried(s, e) * e.mask).sum(0)
    return s.coefficient * visits[:, None] * row


def _read(s: _Setting, update: np.ndarray, value: float) -> dict[str, float]:
    e = s.listed()
    gap = (e.current - s.token_log_probs(s.other)).sum(1, keepdims=True)
    down = -s.expected(gap)
    found = s.read(update) | {"pull": float((update * down).sum() / (down**2).sum()) / s.coefficient}
    return found | ({} if s.penalty in (*_REWARDS, "entropy") else {"value": value})


def _reported(s: _Setting) -> float:
    e, pi, other = s.listed(), softmax(s.current_logits), softmax(s.other)
    if s.penalty in _WIDE:
        above, below = (other, pi) if s.penalty == "exact_reverse" else (pi, other)
        value = (above * np.log(above / below)).sum(1) * e.mask
    else:
        value = _value(e.current - s.token_log_probs(s.other), s.penalty, e)
    return float((e.token_share * _carried(s, e) * value).sum())


def _predict(s: _Setting) -> dict[str, float]:
    if s.penalty in _WIDE:
        return _read(s, _wide(s), _reported(s))
    return _of(s, _sampled(s))


def _of(s: _Setting, weight: np.ndarray) -> dict[str, float]:
    return _read(s, s.pulled(s.listed().mass * weight), _reported(s))


def _printed(s: _Setting, fixed: Listed, e: Listed, logits: np.ndarray, reported: bool = False) -> np.ndarray:
    """What is descended, or reported, by token of the listed responses: detached numbers from `fixed`."""
    gap, frozen = e.current - s.token_log_probs(s.other), fixed.current - s.token_log_probs(s.other)
    if s.penalty in _WIDE:
        pi, other = softmax(logits), softmax(s.other)
        terms = {
            "exact": pi * np.log(pi / other),
            "exact_reverse": other * np.log(other / pi),
            "entropy": pi * np.log(pi),
        }
        rows: np.ndarray = terms[s.penalty].sum(1) * e.mask
        return rows
    if s.penalty in ("reward", *_REWARDS) and not reported:
        paid = fixed.behavior - s.token_log_probs(s.other) if s.penalty == "task_behavior" else frozen
        answered = paid[:, ::-1].cumsum(1)[:, ::-1] if s.penalty == "reward" else paid.sum(1, keepdims=True)
        return e.current * answered
    names = {"straight_through": "k3" if reported else "k2"}
    return _value(gap, names.get(s.penalty, s.penalty), e)


def _cross_check(s: _Setting) -> dict[str, float]:
    fixed = s.listed()
    weight = fixed.mass * fixed.mask * _carried(s, fixed)

    def descended(logits: np.ndarray) -> np.ndarray:
        return -s.coefficient * (weight * _printed(s, fixed, s.listed(logits), logits)).sum()

    update = complex_gradient(descended, s.current_logits).reshape(s.current_logits.shape)
    terms = weight * _printed(s, fixed, fixed, s.current_logits, reported=True)
    return _read(s, update, float(terms.sum() / (fixed.mass * fixed.length).sum()))


claim = stated(
    id="estimator/penalties",
    statement="a KL penalty adds the slope of its print: k2 `-w D`, k3 `-w (1 - e^-D)`, k1 `-w`, `D` of drawn tokens",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="Schulman 2020, Approximating KL divergence; arXiv 2402.03300, 1909.08593; gradients derived",
    formula_defects={
        "gradient of what is estimated": lambda s: _of(s, _sampled(s, "k2_whole")),
        "k2 in place of k3": lambda s: _of(s, _sampled(s, "k2")),
        "ratio forgotten": lambda s: _predict(s.but(ratio="none")),
        "half the price": lambda s: _predict(s.but(coefficient=0.5 * s.coefficient)),
    },
)
