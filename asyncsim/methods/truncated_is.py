"""Truncated importance sampling: c = min(W, cap) A (sequence) or min(r, cap) A (token)."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import knob
from asyncsim.methods._importance import BoundedRatio, NormalizedBounds, NormalizedRatio, lowest
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Ratio, Weight

_DEFAULTS = {"sequence": (8.0, "sequence_mean"), "token": (2.0, "token_mean"), "geometric": (2.0, "sequence_mean")}


def truncated_is(
    level: str = "sequence",
    cap: Any = None,
    advantage: Advantage | None = None,
    aggregator: str | None = None,
    normalize: str = "none",
    floor: Any = None,
) -> Method:
    """Importance sampling with the ratio truncated from above and detached: c = min(w, cap) A.

    Level "sequence": w = W_i, cap 8, sequence-mean. Level "token": w = r_it, cap 2, token-mean. Bias of the gradient:
    -E_mu[(w - cap)_+ A grad log pi] (`estimator/truncation-bias`). Level "geometric": w = s_i = exp(mean_t log r_it),
    cap 2, sequence-mean; s is no importance weight, E_mu[s] is not 1 (`estimator/geometric-ratio`). With a floor, c =
    max(min(w, cap), floor) A: samples that have become improbable count at least that much, which adds the bias
    E_mu[(floor - w)_+ A grad log pi].
    With `normalize`, c = min(w, cap) A / m: m is the mean of the truncated weights over all tokens of the whole step
    ("tokens"), or over its sequences of their token means ("sequences"). A common factor of the weights cancels, and
    samples of a step are coupled. The trace has m; where it is not finite, c = 0.

    Arguments: `level`, "sequence", "token" or "geometric"; `cap` >= 1, a pure number (or one per replicate);
    `advantage` (default group mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant";
    `normalize`, "none", "tokens" or "sequences"; `floor` in [0, 1], a pure number (or one per replicate), None for
    none. Returns a `Method` whose weight is `[R, G, N, 1]`, or `[R, G, N, T]` (token). Raises `InputError` for a cap
    below 1, a floor outside its range, an unknown level, aggregator or normalization. Source: 2602.17616 (sequence
    form); verl, documentation of rollout correction, for the normalization; slime (`tis_clip_low`), NeMo-RL and
    OpenRLHF for the floor; AReaL for the geometric mean as a weight.

    >>> truncated_is(level="token").describe()["cap"]
    2.0
    >>> truncated_is(level="token", cap=5.0, floor=0.5).describe()["floor"]
    0.5
    """
    default_cap, default_aggregator = _DEFAULTS[
        checks.one_of("level", level, ("token", "sequence", "geometric"), "say which ratio multiplies the score")
    ]
    checked = knob(
        "cap", default_cap if cap is None else cap, "a cap below 1 shrinks on-policy samples; use at least 1", 1.0
    )
    checks.one_of("normalize", normalize, ("none", "tokens", "sequences"), "say over what weights are averaged")
    return Method(
        "truncated_is",
        or_default(advantage, advantages.group_mean()),
        _weight(level, checked, normalize, lowest(floor)),
        aggregator or default_aggregator,
    )


def _weight(level: str, cap: Any, normalize: str, floor: Any) -> Weight:
    if normalize != "none":
        return (
            NormalizedRatio(level, cap, normalize) if floor is None else NormalizedBounds(level, cap, normalize, floor)
        )
    if floor is None and level != "geometric":
        return Ratio(level, cap)
    return BoundedRatio(level, cap, 0.0 if floor is None else floor)
