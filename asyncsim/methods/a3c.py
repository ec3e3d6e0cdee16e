"""Asynchronous actor-critic: the whole gradient belongs to the parameters that drew the data."""

from __future__ import annotations

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.methods._method import Method
from asyncsim.methods._weights import NoRatio


def a3c(
    steps: int = 5,
    advantage: Advantage | None = None,
    critic: float = 0.5,
    entropy: float = 0.0,
    aggregator: str = "token_mean",
) -> Method:
    """A2C with delayed gradients: theta_(k+1) = theta_k + eta g(theta_(k-tau)), data and scores equally stale.

    g ascends A_t log pi(a_t|s_t) + entropy H(s_t) - critic (V(s_t) - G_t)^2, with n-step returns G and A = G - V, all
    of it at the behavior parameters; g itself is an unbiased gradient, of an older policy. `a2c` takes the score, and
    the critic's error, at the current parameters instead: there data are old and scores new.

    Arguments: `steps` n of the returns (5 is known from second hand only); `advantage` (default `n_step(steps)`);
    `critic` >= 0, coefficient of the value loss, per unit of reward; `entropy`, coefficient of an entropy bonus, reward
    per nat; `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a `Method` of weight 1,
    `[R, G, N, T]`. Raises `InputError` for steps below 1, unknown names or coefficients that are not finite. Assumes a
    policy with the output `value`, and late drawing. Reconstruction: constants, and every token looks n steps ahead.
    Source: 1602.01783, algorithm S3.

    >>> a3c().at
    'behavior'
    """
    returns = advantages.n_step(steps)
    bonus = checks.real("entropy", entropy, "give one coefficient for all replicates, 0 for no bonus")
    return Method(
        "a3c",
        or_default(advantage, returns),
        NoRatio(),
        aggregator,
        at="behavior",
        constants={"entropy": bonus} if bonus else {},
        critic=critic,
        status="reconstruction",
    )
