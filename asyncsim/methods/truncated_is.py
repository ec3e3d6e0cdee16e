"""Truncated importance sampling: c = min(W, cap) A (sequence) or min(r, cap) A (token)."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import knob
from asyncsim.methods._importance import NormalizedRatio
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Ratio, Weight, checked_level


def truncated_is(
    level: str = "sequence",
    cap: Any = None,
    advantage: Advantage | None = None,
    aggregator: str | None = None,
    normalize: str = "none",
) -> Method:
    """Importance sampling with the ratio truncated from above and detached: c = min(w, cap) A.

    Level "sequence": w = W_i, cap 8, sequence-mean. Level "token": w = r_it, cap 2, token-mean. Bias of the gradient:
    -E_mu[(w - cap)_+ A grad log pi] (`estimator/truncation-bias`). With `normalize`, c = min(w, cap) A / m: m is the
    mean of the truncated weights over all tokens of the step ("tokens") or over its sequences, each with the mean of
    its tokens ("sequences"); a common factor of the weights cancels, and samples of a step are coupled. m is that of
    the whole step, however it is split, and goes into the trace; where it is not finite, c = 0.

    Arguments: `level`; `cap` >= 1, a pure number (or one per replicate); `advantage` (default group mean);
    `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant"; `normalize`, "none", "tokens" or
    "sequences". Returns a `Method` whose weight is `[R, G, N, 1]` (sequence) or `[R, G, N, T]` (token). Raises
    `InputError` for a cap below 1, an unknown level, aggregator or normalization. Source: 2602.17616 (sequence form);
    verl, documentation of rollout correction, for the normalization.

    >>> truncated_is(level="token").describe()["cap"]
    2.0
    """
    default_cap, default_aggregator = {"sequence": (8.0, "sequence_mean"), "token": (2.0, "token_mean")}[
        checked_level(level)
    ]
    checked = knob(
        "cap", default_cap if cap is None else cap, "a cap below 1 shrinks on-policy samples; use at least 1", 1.0
    )
    checks.one_of("normalize", normalize, ("none", "tokens", "sequences"), "say over what weights are averaged")
    weight: Weight = Ratio(level, checked) if normalize == "none" else NormalizedRatio(level, checked, normalize)
    return Method(
        "truncated_is", or_default(advantage, advantages.group_mean()), weight, aggregator or default_aggregator
    )
