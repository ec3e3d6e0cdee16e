"""Weights of the library's methods as they are printed: c, which multiplies grad log pi of a token, and objectives.

`C` has the detached number of each token; `OBJECTIVES` what a trainer would differentiate, where its ratio is live. Of
all others the objective is c, detached, times log pi. r = pi/mu, u = pi/pi_prox, h = pi_prox/mu; W and s are product
and geometric mean of a response's r.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from asyncsim.theory._ragged import Listed
from asyncsim.theory.estimator import _thresholds as thresholds

Printed = Callable[[Any, Listed, np.ndarray], Any]
"""Of the point, the listed responses and their advantages `[Y, 1]`: numbers `[Y, T or 1]`."""


def r(e: Listed) -> np.ndarray:
    """Token ratio to behavior."""
    return np.exp(e.log_ratio)


def u(e: Listed) -> np.ndarray:
    """Token ratio to the proximal policy."""
    return np.exp(e.drift)


def h(e: Listed) -> np.ndarray:
    """What staleness alone has changed: proximal over behavior."""
    return np.exp(e.lag)


def whole(e: Listed) -> np.ndarray:
    """Ratio of the response."""
    return np.exp(e.log_ratio.sum(1, keepdims=True))


def geometric(e: Listed) -> np.ndarray:
    """Geometric mean of its token ratios."""
    return np.exp(e.mean(e.log_ratio))


def still(x: np.ndarray, gain: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Where a step along A may still move x: up to `high` for A > 0, down to `low` for A < 0."""
    return np.where(gain > 0, x.real <= high, x.real >= low)


def inside(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """Where x is in a band."""
    return (x.real >= low) & (x.real <= high)


def limited(x: Any, low: Any, high: Any) -> Any:
    """x in a band; what was limited has no derivative."""
    return np.where(x.real < low, low, np.where(x.real > high, high, x))


def _band(s: Any) -> tuple[float, float]:
    return 1.0 - s.low, 1.0 + s.high


def _ppo(s: Any, x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """x A where PPO's clip is open."""
    return x * gain * still(x, gain, *_band(s))


def _lesser(s: Any, x: Any, gain: np.ndarray) -> Any:
    """min(x A, clip(x) A)."""
    clip = limited(x, *_band(s))
    return np.where((x * gain).real <= (clip * gain).real, x * gain, clip * gain)


def _moved(e: Listed) -> np.ndarray:
    return np.exp(e.current.real) - np.exp(e.behavior)


def _binary(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    p, q = (np.clip(x, 1e-6, 1.0 - 1e-6) for x in (p, q))
    return p * np.log(p / q) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q))


def _two_ways(e: Listed) -> tuple[np.ndarray, np.ndarray]:
    now, then = np.exp(e.current.real), np.exp(e.behavior)
    return _binary(then, now), _binary(now, then)


def _off_mean(e: Listed) -> np.ndarray:
    """Log ratio of a response to the start of the batch, less its mean in the group."""
    gap = e.drift.sum(1, keepdims=True)
    return gap - (e.mass * gap.real).sum()


def _over_mean(s: Any, e: Listed, weight: np.ndarray, share: np.ndarray) -> np.ndarray:
    return weight / (share * weight).sum()


def _gmpo(s: Any, e: Listed, gain: np.ndarray) -> np.ndarray:
    bounded = np.where(gain > 0, np.minimum(e.log_ratio, s.high), np.maximum(e.log_ratio, -s.low))
    return np.exp(e.mean(bounded * e.mask)) * gain * still(e.log_ratio, gain, -s.low, s.high)


def _gmpo_objective(s: Any, e: Listed, gain: np.ndarray) -> Any:
    terms = [np.exp(limited(e.log_ratio, -np.inf, s.high)), np.exp(limited(e.log_ratio, -s.low, np.inf))]
    each = np.where(gain > 0, *terms) * np.abs(gain)
    return np.prod(np.where(e.mask > 0, each, 1.0), 1, keepdims=True) ** (1.0 / e.length) * np.sign(gain)


def _steepness(s: Any, gain: np.ndarray) -> np.ndarray:
    return np.where(gain > 0, s.scale, 1.0 + s.scale)


def _entropy(s: Any) -> np.ndarray:
    table = s.current_logits - s.current_logits.max(1, keepdims=True)
    chance = np.exp(table) / np.exp(table).sum(1, keepdims=True)
    entropy: np.ndarray = -(chance * np.log(chance)).sum(1)
    return entropy


def _gamma(ratio: np.ndarray, gain: np.ndarray, k: float, lam: float) -> np.ndarray:
    # The two signs have exchanged exponents here.
    power, rate = np.where(gain >= 0, k, lam), np.where(gain >= 0, lam, k)
    weight: np.ndarray = ratio**power * np.exp(rate * (1.0 - ratio))
    return weight


def _ess(e: Listed) -> float:
    ratio = np.exp(e.log_ratio.real)
    return float((e.token_share * ratio).sum() ** 2 / (e.token_share * ratio**2).sum())


def _sat(s: Any, e: Listed, gain: np.ndarray, kernel: str) -> np.ndarray:
    part = thresholds.shrunk(s, e, kernel)
    return still(r(e), gain, 1.0 - s.low * part, 1.0 + s.high * part)


def _bapo(s: Any, e: Listed, gain: np.ndarray, form: str) -> np.ndarray:
    dual = (gain > 0) | (r(e).real <= 3.0) if form != "paper" else True
    return still(r(e), gain, *thresholds.balanced(s, e, gain, form)) & dual


def _gated(gate: Printed) -> Printed:
    return lambda s, e, gain: r(e) * gain * gate(s, e, gain)


def _between(s: Any, e: Listed) -> np.ndarray:
    """A-3PO's snapshot: log-probs between behavior and the current policy, by staleness."""
    share = 1.0 - 1.0 / s.staleness
    between: np.ndarray = share * e.current.real + (1.0 - share) * e.behavior
    return between


GATES: dict[str, Printed] = {
    "icepop": lambda s, e, gain: inside(r(e), s.floor, s.cap),
    "m2po_mask": lambda s, e, gain: thresholds.by_second_moment(s, e, gain, "harmful"),
    "m2po_all": lambda s, e, gain: thresholds.by_second_moment(s, e, gain, "all"),
    "m2po_waterfill": lambda s, e, gain: thresholds.by_water_level(s, e, gain),
    "bapo_paper": lambda s, e, gain: _bapo(s, e, gain, "paper"),
    "bapo_code": lambda s, e, gain: _bapo(s, e, gain, "code"),
    "bapo_gradient": lambda s, e, gain: _bapo(s, e, gain, "gradient"),
    "sat": lambda s, e, gain: _sat(s, e, gain, "continuous"),
    "sat_hill": lambda s, e, gain: _sat(s, e, gain, "hill"),
    "icepop_lag": lambda s, e, gain: inside(h(e), s.floor, s.cap),
    "estr": lambda s, e, gain: np.abs(e.log_ratio.real) <= s.high * np.maximum(_entropy(s), s.floor),
}
"""Which tokens keep c = r A."""


C: dict[str, Printed] = {
    name: _gated(gate) for name, gate in GATES.items()
} | {
    "full_is": lambda s, e, gain: whole(e) * gain,
    "full_is_token": lambda s, e, gain: r(e) * gain,
    "user_loss": lambda s, e, gain: r(e) * gain,
    "tba": lambda s, e, gain: 2.0 / s.scale * (gain - s.scale * _off_mean(e)).real,
    "vcpo": lambda s, e, gain: np.minimum(whole(e), s.cap) * gain,
    "a3po": lambda s, e, gain: r(e) * gain * still(np.exp(e.log_ratio / s.staleness), gain, *_band(s)),
    "icepop_pulled": lambda s, e, gain: (
        r(e) * gain * inside(r(e), s.floor, s.cap) - 2.0 * s.scale * e.log_ratio
    ),
    "topr_shifted": lambda s, e, gain: np.where(gain < 0, np.minimum(whole(e), 1.0), 1.0) * gain,
    "truncated_whole": lambda s, e, gain: np.minimum(whole(e), s.cap) * gain,
    "truncated_token": lambda s, e, gain: np.minimum(r(e), s.cap) * gain,
    "truncated_sequence": lambda s, e, gain: np.clip(whole(e), s.floor, s.cap) * gain,
    "truncated_geometric": lambda s, e, gain: np.minimum(geometric(e), s.cap) * gain,
    "normalized_tokens": lambda s, e, gain: _over_mean(s, e, np.minimum(r(e), s.cap), e.token_share) * gain,
    "normalized_sequences": lambda s, e, gain: (
        _over_mean(s, e, np.minimum(r(e), s.cap), e.mass * e.mask / e.length) * gain
    ),
    "cispo": lambda s, e, gain: np.clip(r(e), *_band(s)) * gain,
    "cispo_rollout": lambda s, e, gain: np.clip(u(e), *_band(s)) * np.minimum(h(e), s.cap) * gain,
    "cispo_masked": lambda s, e, gain: np.minimum(r(e), s.cap) * gain * still(r(e), gain, *_band(s)),
    "ppo_clip": lambda s, e, gain: _ppo(s, r(e), gain),
    "ppo_dual": lambda s, e, gain: _ppo(s, r(e), gain) * ((gain > 0) | (r(e) <= s.cap)),
    "dapo": lambda s, e, gain: _ppo(s, r(e), gain),
    "grpo": lambda s, e, gain: _ppo(s, r(e), gain),
    "decoupled_ppo": lambda s, e, gain: np.minimum(h(e), s.cap) * _ppo(s, u(e), gain),
    "decoupled_drop": lambda s, e, gain: h(e) * (h(e) <= s.cap) * _ppo(s, u(e), gain),
    "three_policy_tis": lambda s, e, gain: np.clip(h(e), s.floor, s.cap) * _ppo(s, u(e), gain),
    "sequence_mis": lambda s, e, gain: whole(e) * inside(whole(e), s.floor, s.cap) * gain,
    "geometric_rs": lambda s, e, gain: np.minimum(r(e), 1.0 + s.scale) * inside(geometric(e), s.floor, s.cap) * gain,
    "gspo": lambda s, e, gain: _ppo(s, geometric(e), gain),
    "gmpo": _gmpo,
    "sapo": lambda s, e, gain: r(e) / np.cosh(0.5 * _steepness(s, gain) * (r(e) - 1.0)) ** 2 * gain,
    "topr": lambda s, e, gain: np.where(gain < 0, np.minimum(whole(e), 1.0), 1.0) * gain,
    "topr_roll": lambda s, e, gain: (
        np.where(e.reward > 0, s.scale, (1.0 + s.scale) * np.minimum(r(e), 1.0)) * gain
    ),
    "dppo_kl": lambda s, e, gain: (
        np.minimum(r(e), s.cap) * gain * still(np.sign(e.log_ratio) * _two_ways(e)[0], gain, -s.low, s.high)
    ),
    "dppo_tv": lambda s, e, gain: np.minimum(r(e), s.cap) * gain * still(_moved(e), gain, -s.low, s.high),
    "dppo_prime": lambda s, e, gain: (
        r(e) * gain * still(_moved(e), gain, -s.low, s.high) - 2.0 * s.scale * e.log_ratio
    ),
    "vespo": lambda s, e, gain: _gamma(whole(e), gain, s.scale, s.cap) * gain,
    "kpop": lambda s, e, gain: (
        r(e) * gain * (np.maximum(*_two_ways(e)) <= s.high) - 2.0 * s.scale * e.log_ratio
    ),
    "ipo_mask": lambda s, e, gain: r(e) * gain * (np.abs(_moved(e)) <= s.high) - 2.0 * s.scale * e.log_ratio,
    "dro": lambda s, e, gain: gain - s.scale * e.log_ratio,
    "kimi": lambda s, e, gain: gain - s.scale * e.drift.sum(1, keepdims=True),
    "oapl": lambda s, e, gain: 2.0 * s.scale * (gain - s.scale * e.log_ratio.sum(1, keepdims=True)),
    "opmd": lambda s, e, gain: gain / (1.0 + s.scale),
    "asymre": lambda s, e, gain: gain,
    "gipo": lambda s, e, gain: np.exp(-0.5 * (e.log_ratio.real / s.scale) ** 2) * r(e) * gain,
    "delight": lambda s, e, gain: expit(-e.current.real * gain / s.scale) * gain,
    "prefix_is": lambda s, e, gain: np.exp(np.cumsum(e.log_ratio, 1)) * gain,
    "per_decision_is": lambda s, e, gain: whole(e) * gain,
    "m2po_areal": lambda s, e, gain: _ppo(s, u(e), gain) * thresholds.by_lag(s, e),
    "p3o": lambda s, e, gain: np.minimum(r(e), _ess(e)) * gain - (1.0 - _ess(e)) * r(e) * e.log_ratio,
    "p3o_code": lambda s, e, gain: np.minimum(r(e), _ess(e)) * gain - (1.0 - _ess(e)) * (1.0 - 1.0 / r(e)),
    "clip_cov": lambda s, e, gain: _ppo(s, r(e), gain) * thresholds.thinned(s, e, gain, still(r(e), gain, *_band(s))),
    "kl_cov": lambda s, e, gain: r(e) * gain - s.cap * np.sign(e.log_ratio.real) * thresholds.largest(s, e, gain),
}  # fmt: skip


def _surrogate(x: Callable[[Listed], np.ndarray]) -> Printed:
    return lambda s, e, gain: _lesser(s, x(e), gain)


def _squared(s: Any, e: Listed, gain: np.ndarray, kept: Any) -> Any:
    return r(e) * gain * kept - s.scale * e.log_ratio**2


def _dual(s: Any, e: Listed, gain: np.ndarray) -> Any:
    least = _lesser(s, r(e), gain)
    return np.where((gain < 0) & (least.real < s.cap * gain), s.cap * gain, least)


def _capped_ess(s: Any, e: Listed, gain: np.ndarray) -> Any:
    return np.minimum(r(e).real, _ess(e)) * gain * e.current


OBJECTIVES: dict[str, Printed] = {
    name: _gated(gate) for name, gate in GATES.items()
} | {
    "full_is": lambda s, e, gain: whole(e) * gain / e.length,
    "full_is_token": lambda s, e, gain: r(e) * gain,
    "user_loss": lambda s, e, gain: r(e) * gain,
    "icepop_pulled": lambda s, e, gain: _squared(s, e, gain, inside(r(e), s.floor, s.cap)),
    "a3po": lambda s, e, gain: (
        np.exp(_between(s, e) - e.behavior) * _lesser(s, np.exp(e.current - _between(s, e)), gain)
    ),
    "tba": lambda s, e, gain: -((_off_mean(e) - gain / s.scale) ** 2) / e.length,
    "ppo_clip": _surrogate(r),
    "ppo_dual": _dual,
    "dapo": _surrogate(r),
    "grpo": _surrogate(r),
    "decoupled_ppo": lambda s, e, gain: np.minimum(h(e), s.cap) * _lesser(s, u(e), gain),
    "decoupled_drop": lambda s, e, gain: h(e) * (h(e) <= s.cap) * _lesser(s, u(e), gain),
    "three_policy_tis": lambda s, e, gain: np.clip(h(e), s.floor, s.cap) * _lesser(s, u(e), gain),
    "sequence_mis": lambda s, e, gain: whole(e) * inside(whole(e), s.floor, s.cap) * gain / e.length,
    "gspo": _surrogate(geometric),
    "gmpo": _gmpo_objective,
    "sapo": lambda s, e, gain: (
        4.0 / _steepness(s, gain) / (1.0 + np.exp(-_steepness(s, gain) * (r(e) - 1.0))) * gain
    ),
    "dppo_prime": lambda s, e, gain: _squared(s, e, gain, still(_moved(e), gain, -s.low, s.high)),
    "kpop": lambda s, e, gain: _squared(s, e, gain, np.maximum(*_two_ways(e)) <= s.high),
    "ipo_mask": lambda s, e, gain: _squared(s, e, gain, np.abs(_moved(e)) <= s.high),
    "dro": lambda s, e, gain: gain * e.current - 0.5 * s.scale * e.log_ratio**2,
    "kimi": lambda s, e, gain: (
        gain * e.current - 0.5 * s.scale * e.drift.sum(1, keepdims=True) ** 2 / e.length
    ),
    "oapl": lambda s, e, gain: -((gain - s.scale * e.log_ratio.sum(1, keepdims=True)) ** 2) / e.length,
    "per_decision_is": lambda s, e, gain: whole(e) * gain / e.length,
    "m2po_areal": lambda s, e, gain: _lesser(s, u(e), gain) * thresholds.by_lag(s, e),
    "p3o": lambda s, e, gain: _capped_ess(s, e, gain) - (1.0 - _ess(e)) * (1.0 - r(e) + r(e) * e.log_ratio),
    "p3o_code": lambda s, e, gain: _capped_ess(s, e, gain) - (1.0 - _ess(e)) * (1.0 / r(e) - 1.0 + e.log_ratio),
    "kl_cov": lambda s, e, gain: (
        r(e) * gain - s.cap * np.sign(e.log_ratio.real) * e.log_ratio * thresholds.largest(s, e, gain)
    ),
}  # fmt: skip
"""What is differentiated where a ratio is live, by token, `[Y, T or 1]`."""

_MEAN, _STD, _WHOLE = ("token_mean", "mean"), ("token_mean", "std"), ("sequence_sum", "mean")
STEPS: dict[str, tuple[str, str]] = dict.fromkeys(C, _MEAN) | {
    "full_is": _WHOLE, "full_is_token": _WHOLE, "topr_shifted": ("sequence_sum", "lowered"),
    "vcpo": ("sequence_mean", "opob"), "tba": _WHOLE, "truncated_whole": ("sequence_mean", "mean"),
    "truncated_sequence": ("sequence_mean", "mean"), "truncated_geometric": ("sequence_mean", "mean"),
    "cispo": _STD, "cispo_rollout": _STD, "cispo_masked": _STD, "dapo": _STD, "grpo": ("sequence_mean", "std"),
    "gspo": ("sequence_mean", "std"), "gmpo": ("sequence_mean", "std"), "sapo": ("sequence_mean", "std"),
    "topr": _WHOLE, "vespo": _STD, "kimi": _WHOLE, "oapl": ("sequence_sum", "soft"), "opmd": ("token_mean", "soft"),
    "asymre": ("sequence_sum", "shifted"), "prefix_is": _WHOLE, "per_decision_is": ("sequence_sum", "none"),
    "clip_cov": _STD, "kl_cov": _STD,
}  # fmt: skip
"""Aggregator and advantage of each method, as it is published."""
