"""How probable every token of a step is under three policies: what weights, penalties and advantages read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from asyncsim import checks, ratios
from asyncsim.batch import Outputs


@dataclass
class Likelihoods:
    """Detached log-probs of one step under three policies, with the masses of its samples.

    `current`, `proximal` and `behavior` hold outputs by name, `[R, G, N, T]`: at the parameters that are trained, at
    those of the batch's first update, and as recorded at the draw (the true sampler, token by token). `mask`
    `[R, G, N, T]`; `mass` `[R or 1, G, N]`, total 1 inside a group; `size`, samples that the mass stands for; `reward`
    `[R, G, N]` as paid, without penalties; `anchor` names the policy that anchored ratios refer to; `age`: staleness of
    every token in versions, `[R, G, N, T or 1]`, NaN where unknown; `elsewhere`: outputs of the behavior weights that
    were not recorded, by name; `plain`: one token per sample and none masked; `groups`: how many there are (G, or
    `[R, 1, 1]` where some were dropped); `ended`: where episodes end, bool like `mask`. Weights leave numbers `[R]` for
    the trace in `statistics`.
    """

    current: Outputs
    behavior: Outputs
    proximal: Callable[[], Outputs]
    mask: Tensor
    mass: Tensor
    size: float
    reward: Tensor
    anchor: str = "behavior"
    age: Callable[[], Tensor] | None = None
    elsewhere: Callable[[str], Tensor] | None = None
    plain: bool = False
    groups: Tensor | int = 0
    ended: Tensor | None = None
    statistics: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.groups, int) and self.groups == 0:
            self.groups = self.mass.shape[1]

    @cached_property
    def lengths(self) -> Tensor:
        """Generated tokens of each sample, `[R, G, N]`."""
        return self.mask.sum(-1)

    @cached_property
    def log_ratio(self) -> Tensor:
        """l = log pi - log mu of each token, `[R, G, N, T]`, 0 where masked."""
        return self._between(self.current["log_prob"], self.behavior["log_prob"])

    @cached_property
    def drift(self) -> Tensor:
        """log u = log pi - log pi_prox of each token, `[R, G, N, T]`: what changed since the batch's first update."""
        return self._between(self.current["log_prob"], self.proximal()["log_prob"])

    @cached_property
    def lag(self) -> Tensor:
        """log h = log pi_prox - log mu of each token, `[R, G, N, T]`: staleness and mismatch when training began."""
        return self._between(self.proximal()["log_prob"], self.behavior["log_prob"])

    @property
    def anchored(self) -> Tensor:
        """Log ratio of the current policy to the declared anchor, `[R, G, N, T]`."""
        return self.log_ratio if self.anchor == "behavior" else self.drift

    @cached_property
    def share(self) -> Tensor:
        """Mass of each token in the step, `[R, G, N, T]`, total 1 over all generated tokens of a replicate."""
        weight = self.mass.unsqueeze(-1) * self.mask
        total = weight.sum((1, 2, 3), keepdim=True)
        return weight.div_(torch.where(total > 0, total, torch.ones_like(total)))

    @property
    def step_mass(self) -> Tensor:
        """Mass of each sample in the step, `[R or 1, G, N]`, total 1."""
        return self.mass / self.groups

    @property
    def staleness(self) -> Tensor:
        """Staleness of every token in versions, `[R, G, N, T or 1]`; NaN where a version is unknown."""
        if self.age is None:
            raise checks.InputError("staleness", None, "known for this method", "hand over the versions of the tokens")
        return self.age()

    def recorded(self, name: str) -> Tensor:
        """An output of the behavior policy: as recorded at the draw, or computed at the weights that were kept."""
        if name in self.behavior:
            return self.behavior[name]
        if self.elsewhere is None:
            raise checks.InputError(
                f"behavior {name}", None, "recorded or computable", "use drawing='late', which keeps weights"
            )
        return self.elsewhere(name)

    def mean(self, values: Tensor) -> Tensor:
        """Mean of values `[R, G, N, T]` over the step's generated tokens, `[R]`; 0 if there is none."""
        total = (self.mass * self.lengths).sum((1, 2))
        sums = (values * self.mask).sum(-1)
        if sums.device.type != "cpu" or not math.isfinite(sums.sum()):
            # What stands on masked tokens may be infinite.
            sums = torch.where(self.mask > 0, values, torch.zeros_like(values)).sum(-1)
        return (self.mass * sums).sum((1, 2)) / torch.where(total > 0, total, torch.ones_like(total))

    def sequence(self, log_ratio: Tensor) -> Tensor:
        """Sum over the tokens of each sample, `[R, G, N, 1]`."""
        return log_ratio if log_ratio.shape[-1] == 1 else log_ratio.sum(-1, keepdim=True)

    def geometric(self, log_ratio: Tensor) -> Tensor:
        """Mean over the tokens of each sample, `[R, G, N, 1]`: the log of the geometric mean."""
        return self.sequence(log_ratio) / self.lengths.clamp(min=1.0).unsqueeze(-1)

    def of_samples(self, weight: Tensor) -> Tensor:
        """One weight for each sample, `[R, G, N]`: that of the sequence, or the mean of its tokens' weights."""
        if weight.shape[-1] == 1:
            return weight[..., 0]
        return (weight * self.mask).sum(-1) / self.lengths.clamp(min=1.0)

    def _between(self, above: Tensor, below: Tensor) -> Tensor:
        gap = above - below
        # A single token was possible where it was drawn; of several, some may be outside both nuclei.
        if self.plain:
            return gap
        # A finite sum has finite terms: then a product masks them, at a fifth of the price. A GPU would have to wait.
        if gap.device.type == "cpu" and math.isfinite(gap.sum()):
            return gap.mul_(self.mask).add_(0.0)
        return ratios.log_ratio(above, below, self.mask)
