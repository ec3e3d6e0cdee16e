"""Parts of the product with a mistake inside, which claims plant."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, methods
from asyncsim.advantages._traces import Tokens, behind, corrected, tokens
from asyncsim.claims.lab.plants import rescoring
from asyncsim.methods._weights import Clip, DualClip, zero_outside
from asyncsim.methods.actor_critic import Centered
from asyncsim.step import ratios
from asyncsim.step.batch import Batch
from asyncsim.step.step import Step

InterpolatedClip: Any = type(methods.a3po().weight)
Vtrace: Any = type(advantages.vtrace())
Tba: Any = type(methods.tba().weight)
Tapered: Any = type(methods.topr().weight)


@dataclass(frozen=True)
class Exchanged(InterpolatedClip):
    """The clip reads the ratio of the snapshot to behavior."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        other = step.staleness / (step.staleness - 1.0)
        return super().score_weight(dataclasses.replace(step, age=other), advantage)


@dataclass(frozen=True)
class VersionMore(InterpolatedClip):
    """Staleness counted from the version that is about to be published."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        return super().score_weight(dataclasses.replace(step, age=step.staleness + 1.0), advantage)


@dataclass(frozen=True)
class Swapped(DualClip):
    """A gate that stops what comes back and lets go on what has gone far: that of the other sign."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        return -super().score_weight(step, -advantage)


@dataclass(frozen=True)
class BothSides(Clip):
    """A clipped ratio without the minimum: nothing outside the band has a gradient."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        ratio = self.applied(step)
        return zero_outside(ratio * advantage, torch.abs(ratio - 1.0) <= self.low)


@dataclass(frozen=True)
class Unweighted(Centered):
    """The mean score of the sampler without the weights."""

    def spread(self, step: Step, advantage: Tensor) -> Tensor:
        return -advantage.unsqueeze(-1) * step.recorded("log_probs").exp()


@dataclass(frozen=True)
class AlphaOne(Centered):
    """The rest of the sampler taken to be the trainer's."""

    def _without_tail(self, mean: Tensor, prob: Tensor, drawn: Tensor, top: int) -> Tensor:
        head = torch.zeros_like(prob).scatter_(-1, drawn.topk(top, dim=-1).indices, 1.0)
        return head * (mean - prob)


@dataclass(frozen=True)
class Shifted(Vtrace):
    """The product of traces begins with the next token, as in Retrace."""

    def _corrections(self, step: Step) -> tuple[Tokens, Tensor]:
        trajectory = tokens(step, step.current["value"])
        ratio = ratios.usable(step.log_ratio)
        rho, keep = ratio.clamp(max=self.rho_cap), ratio.clamp(max=self.trace_cap)
        return trajectory, corrected(trajectory, self.discount, rho, behind(trajectory, keep))


class Weighted(Tba):
    """Residuals weighted by the sequence ratio."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        return super().score_weight(step, advantage) * step.sequence(step.log_ratio).exp()


class OwnNormalizer(Tba):
    """log Z from the mean reward alone: the group's mean log ratio to the reference is not part of it."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        gap = (step.current["log_prob"] - step.current["reference"]).sum(-1, keepdim=True)
        return 2.0 * (advantage / self.beta - gap)


class AllTapered(Tapered):
    """The truncated ratio on good samples too."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        return step.sequence(step.log_ratio).exp().clamp(max=1.0) * advantage


def _with_noise(policy: Any, log_prob: Tensor, batch: Batch) -> Tensor:
    noise = np.random.default_rng(0).normal(scale=policy.engine.noise, size=log_prob.shape)
    return log_prob + log_prob.new_tensor(noise)


NoisyTrainer = rescoring(_with_noise)
"""A trainer that draws the engine's noise anew when it scores."""
