"""The trained policy's return where no formula has it: fresh samples of the current weights, at some of the updates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.sampling.rollouts import Sampler, rolled_out
from asyncsim.step import versions
from asyncsim.step.step import Step

SHARE, FEWEST, MOST = 8, 4, 32
"""One of so many batches is followed by an evaluation, but at least and at most so many in a run."""


class Evaluation(NamedTuple):
    """What evaluating a run takes: at which updates, on how many samples each, and their tokens per trained token."""

    updates: tuple[int, ...]
    samples: int
    cost: float

    def __str__(self) -> str:
        plural = "" if self.samples == 1 else "s"
        at = f"{len(self.updates)} updates, +{100.0 * self.cost:.2g} % of samples"
        return f"on {self.samples} fresh sample{plural} of the current weights at {at}"


def evaluation(spec: Any) -> Evaluation:
    """As many tokens as a batch has, at updates as far apart as possible, first and last recorded ones among them."""
    batches, recorded = max(1, spec.updates // spec.passes), -(-spec.updates // spec.every)
    count = min(recorded, max(FEWEST, min(MOST, batches // SHARE)))
    tokens = spec.groups * spec.samples_per_group * spec.task.horizon
    horizon = getattr(spec.fitted_task, "whole", spec.task).horizon
    samples = max(1, tokens // horizon)
    rows = np.unique(np.linspace(0, recorded - 1, count).round().astype(int))
    return Evaluation(tuple((rows * spec.every).tolist()), samples, len(rows) * samples * horizon / (batches * tokens))


class Fresh:
    """Draws a block's evaluations by a sampler with keys of its own, so that nothing else changes a bit."""

    def __init__(self, sampler: Sampler, planned: Evaluation) -> None:
        seed = int(np.random.SeedSequence([sampler.seed, MOST]).generate_state(1, np.uint64)[0] >> 1)
        self.number = {update: number for number, update in enumerate(planned.updates)}
        self.samples, one = planned.samples, np.zeros_like(sampler.realization)
        task = getattr(sampler.task, "whole", sampler.task)
        self.sampler = replace(sampler, task=task, samples=1, seed=seed, realization=one, redundant=0)

    def __call__(self, step: Step) -> Tensor:
        """Mean reward of samples of the weights before the update, `[R]`, with the task's penalty; NaN in between."""
        number, sampler = self.number.get(step.update), self.sampler
        if number is None:
            return torch.full((len(sampler.replicates),), torch.nan, dtype=torch.float64)
        # Each sample asks the next prompt, so that evaluations together ask all of them equally often.
        ids = (number * self.samples + np.arange(self.samples)).reshape(1, -1, 1)
        view = versions.current(step.weights)
        drawn, reward = rolled_out(sampler, view, sampler.draws(ids), sampler.prompts(ids))
        batch = sampler.batch(drawn, reward, 1, ids[..., None] * 0, 0, ids, view, torch.ones_like(reward[:1]))
        return sampler.task.reward(batch, batch.behavior).double().mean((1, 2))
