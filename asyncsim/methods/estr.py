"""ESTR: token ratios inside a trust region that is as wide as the token's distribution is uncertain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import Masked


@dataclass(frozen=True)
class EntropyRegion(Masked):
    """c = r A where |l| <= limit max(H, floor); see `estr`."""

    limit: Any = field(metadata=MARK)
    floor: Any = field(metadata=MARK)

    outputs: ClassVar[tuple[str, ...]] = ("entropy",)

    def inside(self, step: Step, advantage: Tensor) -> Tensor:
        """1 for tokens whose log ratio is small for their entropy, `[R, G, N, T]`."""
        floor = per_sample(self.floor)
        entropy = step.current["entropy"]
        wide = entropy.clamp(min=floor if isinstance(floor, float) else floor.to(entropy.dtype))
        return (step.log_ratio.abs() <= per_sample(self.limit) * wide).to(step.mask.dtype)


def estr(
    limit: Any = 0.5, floor: Any = 0.01, advantage: Advantage | None = None, aggregator: str = "token_mean"
) -> Method:
    """Trust region scaled by entropy: c_t = r_t A [|l_t| <= limit max(H_t, floor)], l = log r, H_t of pi at the token.

    Log ratios of sure tokens are noise of sampler and trainer, which one bound for all lets pass. Those of uncertain
    tokens are large by nature, and one bound drops them. Here the bound grows with the entropy of the current policy in
    the token's state. Dropped tokens stay in the denominators; one whose log-prob is NaN is dropped. A reconstruction:
    only the abstract could be read. It says that each token's deviation is scaled by its local entropy; the form, both
    constants and the untruncated ratio inside are ours.

    Arguments: `limit` >= 0, nats of log ratio per nat of entropy, and `floor` >= 0 on the entropy in nats (each may be
    one per replicate); `advantage` (default group mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or
    "constant". Returns a `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for negative numbers, unknown
    names, and with a policy that has no `entropy`. Source: 2607.22186, abstract.

    >>> estr(limit=1.0).describe()["limit"]
    1.0
    """
    weight = EntropyRegion(
        knob("limit", limit, "give how far a log ratio may be, per nat of entropy", 0.0),
        knob("floor", floor, "give the entropy in nats below which tokens share one bound", 0.0),
    )
    return Method("estr", or_default(advantage, advantages.group_mean()), weight, aggregator, status="reconstruction")
