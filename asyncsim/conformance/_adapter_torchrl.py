"""ClipPPOLoss on given log-probs: an actor whose distribution says what it is told."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.conformance._loss_subject import Loss


class _Told:
    """A distribution with given log-probs."""

    def __init__(self, log_prob: Tensor) -> None:
        self.value = log_prob

    def log_prob(self, action: Tensor) -> Tensor:
        """What it was told."""
        return self.value


class _Actor(torch.nn.Module):
    """A policy that reads its log-probs from the batch."""

    in_keys = ("log_prob",)
    out_keys = ("action",)

    def get_dist(self, batch: Any) -> _Told:
        """The distribution at every token."""
        return _Told(batch["log_prob"])


def loss(old: str, **settings: Any) -> Loss:
    """A loss of the installed torchrl; see `adapters.torchrl`."""
    try:
        from tensordict import TensorDict
        from torchrl.objectives import ClipPPOLoss
    except ImportError as error:
        raise checks.InputError("torchrl", None, "installed", "run `pip install torchrl`") from error
    known = {name for kind in ClipPPOLoss.__mro__[:2] for name in inspect.signature(kind.__init__).parameters}
    for name in settings:
        remedy = "settings of this adapter are old, and the arguments of ClipPPOLoss"
        checks.require(name in known, f"torchrl {name}", settings[name], "an argument of ClipPPOLoss", remedy)
    try:
        objective = ClipPPOLoss(_Actor(), None, functional=False, entropy_bonus=False, **settings)
    except (TypeError, ValueError) as error:
        raise checks.InputError(
            "torchrl settings", settings, f"those of ClipPPOLoss ({error})", "see its arguments"
        ) from error
    objective.set_keys(sample_log_prob="old", action="action", advantage="advantage")

    def asked(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        kept = mask > 0
        before = proximal if old == "proximal" else behavior
        tokens = {"log_prob": log_prob[kept], "old": before[kept].detach(), "advantage": advantages[kept].unsqueeze(-1)}
        tokens["action"] = torch.zeros_like(before[kept])
        found: Tensor = objective(TensorDict(tokens, batch_size=[int(kept.sum())]))["loss_objective"]
        return found

    return asked
