"""Wrong statistics of effective samples, in place of the metric that a trial reads."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from asyncsim.claims._trial import Plant, replaced
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step import ratios
from asyncsim.step.step import Step


def with_ess(statistic: Callable[[Step], Tensor], *others: str) -> Plant:
    """A plant: another statistic in place of "ess", beside the other metrics of the trial."""
    return replaced(diagnostics=[Metric("ess", statistic, ("log_prob",)), *others])


def pooled(step: Step) -> Tensor:
    """Sums averaged over batches before they are divided, the reading of one large batch."""
    weight = step.sequence_log_ratio.exp().flatten(1)
    return (weight.mean() ** 2 / (weight**2).mean()).expand(len(weight))


def clamped(step: Step) -> Tensor:
    """The statistic taken on weights clamped to [1/2, 2]: it has a floor of 0.64."""
    return ratios.ess(step.sequence_log_ratio, step.step_mass, clamp=2.0)
