"""What the penalties share: the gap to the policy that is held close, and the ratio of samples from another one."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import parts, plugins
from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import T, choice, number
from asyncsim.step import ratios
from asyncsim.step.step import Step


class Penalty:
    """-coefficient times a divergence of the current policy from `to`; `ratio` is what samples are weighted with."""

    coefficient: Any = number(
        0.04, "beta, reward per nat", 0.0, remedy="give the price of one nat in units of reward, 0 for none"
    )
    to: Any = choice("reference", "behavior", "proximal", words="which policy is held close")
    ratio: Any = choice("none", "token", "sequence", words="how samples of another policy are weighted")

    @property
    def outputs(self) -> tuple[str, ...]:
        """What it reads of the current policy besides `log_prob`."""
        return ("reference",) if self.to == "reference" else ()

    @property
    def proximal(self) -> bool:
        return self.to == "proximal"

    def describe(self) -> dict[str, Any]:
        settings = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {"penalty": plugins.name_of(self), **settings}

    def gap(self, step: Step) -> Tensor:
        """D = log pi - log of the other policy at each token, `[R, G, N, T]`, exactly 0 where masked."""
        if self.to == "reference":
            return ratios.log_ratio(step.current["log_prob"], step.current["reference"], step.mask)
        return step.log_ratio if self.to == "behavior" else step.drift

    def carried(self, step: Step) -> Tensor | None:
        """Ratio to behavior by which every token's term is multiplied, `[R, G, N, T or 1]`; None: 1."""
        if self.ratio == "none":
            return None
        return ratios.usable(step.sequence(step.log_ratio) if self.ratio == "sequence" else step.log_ratio)

    def report(self, step: Step, value: Tensor) -> None:
        """Leave the mean of the values `[R, G, N, T]` over the step's tokens for the trace, weighted as the terms."""
        weight = self.carried(step)
        value = value if weight is None else value * weight
        step.statistics[f"{plugins.name_of(self)}_penalty"] = step.token_mean(value)


class Sampled(Penalty):
    """c_t = -coefficient ratio slope_t, from the gap at the tokens that were drawn."""

    def score_weight(self, step: Step) -> Tensor:
        """What it adds to c, `[R, G, N, T]`."""
        gap = self.gap(step)
        self.report(step, self.value(step, gap))
        # An infinite gap pulls back as hard as the largest that is used; weight 0 would let it go.
        slope = self.slope(step, gap.clamp(-ratios.LOG_LIMIT, ratios.LOG_LIMIT))
        weight = self.carried(step)
        return -per_sample(self.coefficient) * (slope if weight is None else weight * slope)

    def spread(self, step: Step) -> None:
        """Nothing: only the token that was drawn is known."""

    def slope(self, step: Step, gap: Tensor) -> Tensor:
        """The number on the score of each token per unit of coefficient."""
        raise NotImplementedError

    def value(self, step: Step, gap: Tensor) -> Tensor:
        """The estimate of the divergence at each token, in nats."""
        raise NotImplementedError


def k3_value(gap: Tensor) -> Tensor:
    """exp(-D) - 1 + D; infinite where D is."""
    return torch.where(torch.isinf(gap), gap.abs(), torch.expm1(-gap) + gap)


def penalty(source: str, *, spread: bool = False) -> Callable[[type[T]], type[T]]:
    """A penalty of a page: a class of its name; becomes the public function that checks its knobs."""
    term = "`spread` `[R, G, N, T, A]`" if spread else "`score_weight` `[R, G, N, T]`, log ratios limited to +-20"
    return parts.page(source, f"a penalty with {term}")
