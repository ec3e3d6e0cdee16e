"""VCPO: truncated sequence ratios with the off-policy optimal baseline; its step rule is a link, `ess_step`."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import knob
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Ratio


def vcpo(cap: Any = 8.0, advantage: Advantage | None = None, aggregator: str = "sequence_mean") -> Method:
    """Variance-controlled policy optimization, the loss: c_it = min(W_i, cap) A_i with A_i = r_i - b, b as in `opob`.

    W_i = prod_t pi/mu is detached, so that sequences above the cap keep their gradient. Two of its three parts are
    here. The third scales the step by the ESS of the untruncated ratios and is an update link: behind `adam` put
    `updates.ess_step("sqrt")`, behind `sgd` `updates.ess_step("linear")`. No clip.

    Arguments: `cap` >= 1, a pure number (or one per replicate), published 8; `advantage` (default `opob()`);
    `aggregator`, "sequence_sum", "sequence_mean" (published), "token_mean" or "constant". Returns a `Method` whose
    weight is `[R, G, N, 1]`. Raises `InputError` for a cap below 1 or an unknown aggregator, and in a run with groups
    of one. Assumes a policy with scores of single samples. Source: 2602.17616.

    >>> vcpo().describe()["advantage"]
    'opob'
    """
    checked = knob("cap", cap, "a cap below 1 shrinks on-policy samples; use at least 1", 1.0)
    return Method("vcpo", or_default(advantage, advantages.opob()), Ratio("sequence", checked), aggregator)
