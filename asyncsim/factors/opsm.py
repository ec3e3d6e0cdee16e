"""Drop sequences of negative advantage that have moved far from another policy (off-policy sequence masking)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim import checks
from asyncsim.factors._factor import Mask
from asyncsim.knobs import MARK, knob, per_sample
from asyncsim.step import Step


@dataclass(frozen=True)
class OffPolicySequenceMask(Mask):
    """1 - [A < 0 and mean_t(log pi_x - log pi) > delta]; see `opsm`."""

    delta: Any = field(default=1e-4, metadata=MARK)
    reference: str = "behavior"

    @property
    def proximal(self) -> bool:
        """Whether it reads log-probs of the proximal policy."""
        return self.reference == "proximal"

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Where the advantage is not negative or the sequence has not become unlikely, `[R, G, N, T or 1]`."""
        of_tokens = step.log_ratio if self.reference == "behavior" else step.drift
        fallen = -step.geometric(of_tokens.double())
        return torch.isfinite(fallen) & ((advantage >= 0) | (fallen <= per_sample(self.delta)))


def opsm(delta: Any = 1e-4, reference: str = "behavior") -> OffPolicySequenceMask:
    """Mask of sequences: c_t -> c_t (1 - [A < 0 and mean_t(log pi_x - log pi) > delta]).

    The mean over the sequence's own tokens estimates KL(x, pi) from samples of x: what x drew, the current policy has
    come to avoid, and a negative advantage would push it further down. Positive advantages are never dropped. pi_x is
    "behavior" (as published) or "proximal" (as some code has it: then nothing is dropped in the first update on a
    batch, whatever the lag). Means that are not finite are dropped. Advantages that differ from token to token decide
    for their token. Formula and constant of the published form are known from second hand: a reconstruction.

    Arguments: `delta` >= 0 in nats per token (or one per replicate); `reference`, "behavior" or "proximal". Returns a
    factor `[R, G, N, T or 1]`, shaped like the advantages. Raises `InputError` for a negative delta or an unknown
    reference. Source: 2512.02556, off-policy sequence masking.

    >>> opsm(reference="proximal").proximal
    True
    """
    return OffPolicySequenceMask(
        knob("delta", delta, "give the largest mean fall in nats per token that stays", 0.0),
        checks.one_of("reference", reference, ("behavior", "proximal"), "say from which policy the fall is measured"),
    )
