"""Score centering: the mean score of the sampler is taken out of every token's gradient."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import knob
from asyncsim.methods._corrections import Centered
from asyncsim.methods._method import Method


def score_centering(
    weight: str = "none",
    cap: Any = 2.0,
    top: int | None = None,
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
) -> Method:
    """Weighted scores less their mean under mu: c_t = w(r_t) A, e_v = -A mu_v w(pi_v/mu_v), w = 1 or min(r, cap).

    Off policy E_mu[w grad log pi] is not 0, so that a mean advantage other than 0 pulls pi toward mu. The term for all
    actions subtracts that mean at each token: with w = 1 the expected gradient is Cov_mu(A, grad log pi); with the full
    ratio there is nothing to subtract (`estimator/score-centering`). `top` k knows only the sampler's k likeliest
    actions H: e_v = -A (mu_v w_v - alpha pi_v) on H, alpha = rho w(1/rho), rho the odds of the rest, (1 - sum_H
    mu)/max(1 - sum_H pi, 1e-6): exact where mu is proportional to pi outside H. A hypothesis: a paired study of others
    found no sure gain.

    Arguments: `weight`, "none" or "truncated"; `cap` >= 1 of the truncated weight, a pure number (or one per
    replicate); `top` k >= 1 (default all actions); `advantage` (default group mean, not standardized); `aggregator`,
    "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a `Method` of weight `[R, G, N, T or 1]` with a
    term for all actions, `[R, G, N, T, A]`. Raises `InputError` for a cap below 1, a top below 1 or unknown names.
    Assumes rows of the behavior policy (late drawing), complete and in the trainer's numerics. Reconstruction: formulas
    from documentation, exactness derived here. Source: 2609.20807.

    >>> score_centering(top=128).describe()["top"]
    128
    """
    truncated = checks.one_of("weight", weight, ("none", "truncated"), "say what multiplies the score") == "truncated"
    checked = knob("cap", cap, "a cap below 1 shrinks on-policy samples; use at least 1", 1.0)
    if top is not None:
        checks.integer("top", top, 1, "leave it out for all actions", checks.LARGEST)
    return Method(
        "score_centering",
        or_default(advantage, advantages.group_mean()),
        Centered(truncated, checked, top),
        aggregator,
        status="reconstruction",
    )
