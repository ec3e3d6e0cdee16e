"""PPO with a clipped token ratio to a declared anchor."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import knob
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import DualClip, band
from asyncsim.methods._weights import Clip


def ppo_clip(
    low: Any = 0.2,
    high: Any = 0.2,
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
    critic: float = 0.0,
    entropy: float = 0.0,
    dual: Any = None,
) -> Method:
    """Clipped surrogate: c_it = rho_it A_i where the clip is open, 0 where it is closed.

    The clip closes for A > 0 above 1 + high and for A < 0 below 1 - low. rho is the token ratio to `anchor`: "behavior"
    (the policy that generated the token) or "proximal" (the weights at the start of the batch's training). In the first
    update of a batch the latter is independent of staleness (`estimator/ppo-gate`). For A < 0 a ratio above 1 has no
    bound, unless `dual` is given: the objective is then max(min(rho A, clip(rho) A), dual A) for A < 0, which closes
    above `dual`. With a critic, critic (V - target)^2 is descended beside it, neither its values nor its error clipped.

    Arguments: `low` in [0, 1], `high` >= 0, pure numbers (or one per replicate); `anchor`; `advantage` (default group
    mean; for actor-critic `gae(normalize=True)`); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or
    "constant"; `critic` >= 0, coefficient of the value loss, per unit of reward; `entropy`, coefficient of an entropy
    bonus, reward per nat; `dual` > 1, a pure number (or one per replicate), 3 as published, None for none. Returns a
    `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for bounds outside their range, unknown names, or
    coefficients that are not finite. Source: 1707.06347, equations 7 and 9; 1912.09729 for the dual clip.

    >>> ppo_clip(anchor="proximal").describe()["anchor"]
    'proximal'
    """
    low, high = band(low, high)
    clip = Clip(low, high)
    if dual is not None:
        ceiling = knob("dual", dual, "an upper bound up to 1 would stop unchanged tokens; use 3", 1.0, open_low=True)
        clip = DualClip(low, high, ceiling)
    bonus = checks.real("entropy", entropy, "give one coefficient for all replicates, 0 for no bonus")
    return Method(
        "ppo_clip",
        or_default(advantage, advantages.group_mean()),
        clip,
        aggregator,
        anchor=anchor,
        constants={"entropy": bonus} if bonus else {},
        critic=critic,
    )
