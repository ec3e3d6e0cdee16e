"""Methods that set their bounds from the tokens of the step: what each keeps, found by trying every bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.theory._ragged import Listed


def by_second_moment(s: Any, e: Listed, gain: np.ndarray, over: str) -> np.ndarray:
    """M2PO's mask: the largest harmful log ratios go until the mean square, theirs or of all left, is tau."""
    outward = e.log_ratio.real * np.sign(gain) * np.ones_like(e.mask)
    harmful = (outward > 0.0) & (e.mask > 0)
    counted = e.token_share * (harmful if over == "harmful" else 1.0)
    return _left(outward, counted, harmful, s.scale)


def _left(size: np.ndarray, share: np.ndarray, free: np.ndarray, tau: float) -> np.ndarray:
    """Part of each token that is left where the largest of some go until the mean square of the others is tau."""

    def short(theta: float) -> float:
        left = share * (~free | (size <= theta))
        return float((left * (tau - size**2)).sum())

    values = np.unique(size[free])
    fitting = [k for k, x in enumerate(values) if short(x) >= 0.0]
    theta, after = (values[fitting[-1]], fitting[-1] + 1) if fitting else (-np.inf, 0)
    part = np.where(~free | (size <= theta), 1.0, 0.0)
    if after < len(values) and short(theta) > 0.0:
        # Of equal tokens so many stay that the mean is tau.
        here = free & (size == values[after])
        part[here] = short(theta) / ((values[after] ** 2 - tau) * share[here].sum())
    return part


def by_water_level(s: Any, e: Listed, gain: np.ndarray) -> np.ndarray:
    """M2PO as released: harmful tokens up to the level at which limited squares have the mean tau."""
    outward = e.log_ratio.real * np.sign(gain) * np.ones_like(e.mask)
    share, square = e.token_share * (outward > 0.0), outward**2
    low, high = 0.0, float(square.max()) + 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        below = (share * np.minimum(square, middle)).sum() < s.scale * share.sum()
        low, high = (middle, high) if below else (low, middle)
    return (outward <= 0.0) | (square <= low)


def by_lag(s: Any, e: Listed) -> np.ndarray:
    """AReaL's M2PO: the largest log pi_prox/mu go until their mean square is tau; one token has no mass."""
    return _left(np.abs(e.lag), e.token_share, e.mask > 0, s.scale)


def balanced(s: Any, e: Listed, gain: np.ndarray, form: str) -> tuple[float, float]:
    """BAPO's bounds: raised one after the other until positive advantages have their part of the signal."""
    ratio, share = np.exp(e.log_ratio.real), e.token_share * np.abs(gain)
    up = np.broadcast_to(gain > 0, e.mask.shape)
    low, low_cap, low_step, high, high_cap, high_step = {
        "paper": (0.6, 0.9, 0.02, 1.2, 3.0, 0.05), "code": (0.6, 0.8, 0.05, 1.2, 2.0, 0.05),
    }["paper" if form == "paper" else "code"]  # fmt: skip
    # What lies beyond a bound counts as the bound, or, as in the gradient, not at all.
    beyond = 0.0 if form == "gradient" else 1.0

    def short() -> bool:
        positive = (share * np.where(ratio <= high, ratio, beyond * high))[up].sum()
        negative = (share * np.where(ratio >= low, ratio, beyond * low))[~up].sum()
        goal = negative / s.scale if form != "paper" else s.scale * (positive + negative)
        return bool(positive < goal * (1.0 - 1e-12))

    for side in ("high", "low") if form == "paper" else ("low", "high"):
        while side == "high" and short() and high < high_cap - 1e-9:
            high = min(high + high_step, high_cap)
        while side == "low" and short() and low < low_cap - 1e-9:
            low = min(low + low_step, low_cap)
    return low, high


def shrunk(s: Any, e: Listed, kernel: str) -> np.ndarray:
    """SAT's share of the band that a token keeps: less beyond a quantile of |log r|, `[Y, T]`."""
    size = np.abs(e.log_ratio.real)
    values = np.unique(size[e.mask > 0])
    gate = next(x for x in values if (e.token_share * (size <= x)).sum() >= s.scale * (1.0 - 1e-9))
    if gate == 0.0:
        return np.ones_like(size)
    far = size / gate
    falling = 1.0 / (1.0 + (far - 1.0) ** 2) if kernel == "continuous" else 1.0 / (1.0 + far**2)
    return np.where(far > 1.0, falling, 1.0)


def covariances(e: Listed, gain: np.ndarray) -> np.ndarray:
    """(A - mean A)(log pi - mean log pi) of each token, `[Y, T]`."""
    log_prob, share = e.current.real, e.token_share
    wide = gain * np.ones_like(e.mask)
    return (wide - (share * wide).sum()) * (log_prob - (share * log_prob).sum())


def thinned(s: Any, e: Listed, gain: np.ndarray, still: np.ndarray) -> np.ndarray:
    """Clip-Cov: what is left of a token whose covariance is in the band, `[Y, T]`."""
    together = covariances(e, gain)
    inside = (together > s.floor) & (together < s.cap) & still
    return 1.0 - inside * min(1.0, s.scale / max(float((e.token_share * inside).sum()), 1e-300))


def largest(s: Any, e: Listed, gain: np.ndarray) -> np.ndarray:
    """KL-Cov: part of each token that is among those of the largest covariances which hold the share, `[Y, T]`."""
    together, present = covariances(e, gain), e.mask > 0
    values = np.unique(together[present])[::-1]
    least = next(x for x in values if (e.token_share * (together >= x)).sum() >= s.scale - 1e-12)
    equal = np.abs(together - least) <= 1e-12 * (1.0 + abs(least))
    above = (together > least) & ~equal
    part = (s.scale - e.token_share[above].sum()) / e.token_share[equal].sum()
    return above + equal * part
