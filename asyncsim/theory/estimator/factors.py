r"""What a mask or a weight by age leaves of an update: exactly its part of the sum, over an unchanged denominator.

E g = E_mu[sum_t m_t A grad log pi_t] / E_mu[T_i] with the factor m_t in {0, 1}, or a weight, and A the reward less its
mean: dropped tokens count in the token mean, so that others are not inflated. `kept` is the share of tokens that
remain; `along`, `size` and `longer` are those of `estimator/clipped-field`. Bands and bounds read r = pi/mu of tokens,
of the response, or its geometric mean ("lag": pi_prox/mu, "drift": pi/pi_prox), k2 = l^2/2 and k3 = e^l - 1 - l. Ages
are those of one version a token: token t of T_i is `wait` + T_i - t versions old. So long responses begin older, and a
cut by age is a cut by length. Domain: no statistic on its bound. Second route: token by token, in probabilities.
Source: IcePop 2510.18855; verl, documentation of rollout correction; 2512.02556; FLSim for weights by age.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim.theory._declared import Choice, Count, Real
from asyncsim.theory._ragged import LaterRagged, Listed
from asyncsim.theory._stated import stated

_Factor = Callable[[Any, Listed, np.ndarray], np.ndarray]
"""Of the point, the listed responses and their advantages `[Y, 1]`: numbers `[Y, T or 1]`."""


def _of(kind: str, e: Listed) -> np.ndarray:
    return {"": e.log_ratio, "lag": e.lag, "drift": e.drift}[kind]


def _band(level: str, kind: str = "") -> _Factor:
    def keep(s: Any, e: Listed, gain: np.ndarray) -> np.ndarray:
        ratio = np.exp(_reduced(_of(kind, e), level, e))
        return (ratio >= s.low) & (ratio <= s.high)

    return keep


def _reduced(each: np.ndarray, level: str, e: Listed) -> np.ndarray:
    whole = each.sum(1, keepdims=True)
    peak = np.where(e.mask > 0, each, -np.inf).max(1, keepdims=True)
    return {"token": each, "sum": whole, "mean": whole / e.length, "max": peak}[level]


def _bounded(statistic: Callable[[np.ndarray], np.ndarray], level: str, kind: str = "") -> _Factor:
    return lambda s, e, gain: _reduced(statistic(_of(kind, e)), level, e) <= s.bound


def _k2(gap: np.ndarray) -> np.ndarray:
    return 0.5 * gap**2


def _k3(gap: np.ndarray) -> np.ndarray:
    return np.expm1(gap) - gap


def _tv(gap: np.ndarray) -> np.ndarray:
    return np.abs(np.expm1(gap))


def _fallen(kind: str) -> _Factor:
    return lambda s, e, gain: (gain >= 0) | (-e.mean(_of(kind, e)) <= s.bound)


def _age(s: Any, e: Listed) -> np.ndarray:
    return np.maximum(s.wait + e.length - 1.0 - np.arange(s.horizon), 0.0)


def _clamped(level: str, kind: str = "") -> _Factor:
    return lambda s, e, gain: np.abs(_reduced(_of(kind, e), level, e)) <= s.bound


_FACTORS: dict[str, _Factor] = {
    "token_mask": _band("token"), "token_mask_lag": _band("token", "lag"),
    "sequence_mask": _band("sum"), "sequence_mask_lag": _band("sum", "lag"),
    "geometric_mask": _band("mean"), "geometric_mask_lag": _band("mean", "lag"),
    "k2_token": _bounded(_k2, "token"), "k2_sum": _bounded(_k2, "sum"), "k2_mean": _bounded(_k2, "mean"),
    "k2_max": _bounded(_k2, "max"), "k2_max_lag": _bounded(_k2, "max", "lag"),
    "k3_token": _bounded(_k3, "token"), "k3_sum": _bounded(_k3, "sum"), "k3_mean": _bounded(_k3, "mean"),
    "k3_max": _bounded(_k3, "max"), "k3_mean_lag": _bounded(_k3, "mean", "lag"),
    "token_veto": lambda s, e, gain: -_reduced(-e.log_ratio, "max", e) >= np.log(s.low),
    "token_veto_lag": lambda s, e, gain: -_reduced(-e.lag, "max", e) >= np.log(s.low),
    "opsm": _fallen(""), "opsm_drift": _fallen("drift"),
    "log_clamp_token": _clamped("token"), "log_clamp_sequence": _clamped("sum"),
    "log_clamp_geometric": _clamped("mean"), "log_clamp_drift": _clamped("token", "drift"),
    "log_clamp_lag": _clamped("token", "lag"),
    "tv_mask": _bounded(_tv, "mean"), "tv_mask_lag": _bounded(_tv, "mean", "lag"),
    "tv_signed": lambda s, e, gain: _bounded(_tv, "mean")(s, e, gain) | (e.log_ratio * gain <= 0),
    "drop_stale_token": lambda s, e, gain: _age(s, e) <= s.limit,
    "drop_stale_head": lambda s, e, gain: s.wait + e.length - 1.0 <= s.limit,
    "polynomial": lambda s, e, gain: ((1.0 + _age(s, e)) / (1.0 + s.limit)) ** -s.scale,
    "token_mask_polynomial": lambda s, e, gain: (
        _band("token")(s, e, gain) * ((1.0 + _age(s, e)) / (1.0 + s.limit)) ** -s.scale
    ),
    "threshold": lambda s, e, gain: np.where(_age(s, e) <= s.limit, 1.0, s.scale),
}  # fmt: skip
"""What multiplies the weight of each token, `[Y, T or 1]`."""


class _Setting(LaterRagged):
    factor = Choice(*_FACTORS, example="token_mask", doc="mask or weight, and the ratio that it reads")
    low = Real(0.0, 1.0, open_low=True, typical=(0.3, 0.95), example=0.7, doc="smallest ratio that stays")
    high = Real(1.0, typical=(1.05, 2.0), example=1.35, doc="largest ratio that stays")
    bound = Real(0.0, 20.0, open_low=True, typical=(0.02, 1.0), example=0.1, doc="largest divergence that stays")
    wait = Count(0, 1000, typical=(0, 3), example=1, doc="versions since the last token of each response")
    limit = Real(
        0.0, typical=(0.5, 3.5), example=1.5, unit="versions", doc="largest age of full weight, or of weight 1"
    )
    scale = Real(0.0, 1.0, open_low=True, typical=(0.1, 0.9), example=0.5, doc="exponent, or weight of older tokens")


def _update(s: _Setting, factor: np.ndarray, share: np.ndarray | None = None) -> dict[str, float]:
    found = s.listed()
    part = found.share("token_mean") if share is None else share
    kept = float((found.token_share * (factor != 0)).sum())
    return s.read(s.pulled(part * factor * found.advantage("mean"))) | {"kept": kept}


def _factor(s: _Setting, name: str = "") -> np.ndarray:
    found = s.listed()
    values = _FACTORS[name or s.factor](s, found, found.advantage("mean"))
    return np.broadcast_to(values, found.mask.shape).astype(np.float64)


def _weight(s: _Setting, ratios: dict[str, list[float]], gain: float, place: int) -> float:
    """The factor of one token, from the ratios of its response as plain numbers."""
    stem, _, tail = s.factor.rpartition("_")
    kind = tail if tail in ("lag", "drift") else ""
    name = stem if kind else s.factor
    seen, count = ratios[kind], len(ratios[kind])
    own, product = seen[place], math.prod(seen)
    age, oldest = s.wait + count - 1 - place, s.wait + count - 1
    distance = sum(abs(x - 1.0) for x in seen) / count
    squares = [math.log(x) ** 2 / 2.0 for x in seen]
    excess = [x - 1.0 - math.log(x) for x in seen]
    tests: dict[str, Callable[[], float]] = {
        "token_mask": lambda: s.low <= own <= s.high,
        "sequence_mask": lambda: s.low <= product <= s.high,
        "geometric_mask": lambda: s.low**count <= product <= s.high**count,
        "token_veto": lambda: min(seen) >= s.low,
        "opsm": lambda: gain >= 0 or product >= math.exp(-count * s.bound),
        "log_clamp": lambda: math.exp(-s.bound) <= own <= math.exp(s.bound),
        "log_clamp_token": lambda: math.exp(-s.bound) <= own <= math.exp(s.bound),
        "log_clamp_sequence": lambda: math.exp(-s.bound) <= product <= math.exp(s.bound),
        "log_clamp_geometric": lambda: math.exp(-s.bound * count) <= product <= math.exp(s.bound * count),
        "tv_mask": lambda: distance <= s.bound,
        "tv_signed": lambda: distance <= s.bound or (own - 1.0) * gain <= 0,
        "drop_stale_token": lambda: age <= s.limit,
        "drop_stale_head": lambda: oldest <= s.limit,
        "polynomial": lambda: (1.0 + s.limit) ** s.scale / (1.0 + age) ** s.scale,
        "token_mask_polynomial": lambda: (
            (s.low <= own <= s.high) * (1.0 + s.limit) ** s.scale / (1.0 + age) ** s.scale
        ),
        "threshold": lambda: 1.0 if age <= s.limit else s.scale,
    }  # fmt: skip
    if name in tests:
        return float(tests[name]())
    letter, _, level = name.partition("_")
    terms = squares if letter == "k2" else excess
    total = sum(terms)
    return float({"token": terms[place], "sum": total, "mean": total / count, "max": max(terms)}[level] <= s.bound)


def _cross_check(s: _Setting) -> dict[str, float]:
    found, gains = s.listed(), s.listed().advantage("mean")
    chances = {"": (found.current, found.behavior), "lag": (found.proximal, found.behavior)}
    chances["drift"] = found.current, found.proximal
    factor = np.zeros_like(found.mask)
    for y, length in enumerate(found.length[:, 0].astype(int)):
        ratios = {
            kind: [math.exp(a) / math.exp(b) for a, b in zip(above[y, :length], below[y, :length], strict=True)]
            for kind, (above, below) in chances.items()
        }
        factor[y, :length] = [_weight(s, ratios, float(gains[y, 0]), t) for t in range(length)]
    part = found.share("token_mean") * factor * gains
    update = s.slope(lambda e: (part * e.current).sum())
    return s.read(update) | {"kept": float((found.mass * (factor != 0)).sum() / (found.mass * found.length).sum())}


def _renormalized(s: _Setting) -> dict[str, float]:
    factor = _factor(s)
    share = s.listed().share("token_mean")
    return _update(s, factor, share * share.sum() / (share * (factor != 0)).sum())


claim = stated(
    id="estimator/factors",
    statement="a factor leaves `E_mu[sum_t m_t A grad log pi_t] / E_mu[T_i]`: what is dropped stays in the denominator",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=lambda s: _update(s, _factor(s)),
    cross_check=_cross_check,
    reference="arXiv 2510.18855, 2512.02556; documentation of verl; FLSim",
    formula_defects={
        "dropped tokens leave the denominator": _renormalized,
        "bounds on the inverse ratio": lambda s: _update(s, _factor(s.but(low=1.0 / s.high, high=1.0 / s.low))),
        "ratio of the response": lambda s: _update(s, _factor(s, "sequence_mask")),
        "staleness alone": lambda s: _update(s, _factor(s, "token_mask_lag")),
    },
)
