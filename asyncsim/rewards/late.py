"""Rewards that arrive too late for their batch: samples are dropped, get a substitute reward, or are reinjected."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, records
from asyncsim.step.batch import Batch, Draws

_LISTING = ("bias", "variance")
"""Metrics that list outcomes at the behavior weights, and so know nothing of rewards that are late."""


class _Twice(NamedTuple):
    """Fields of a schedule that a feed uses; a `Schedule` would be refused because its groups are out of order."""

    version: np.ndarray
    trajectory: np.ndarray
    train_version: np.ndarray
    batches_per_publish: int

    @property
    def batches(self) -> int:
        """Number of batches, B."""
        return len(self.train_version)


@dataclass(frozen=True)
class Late:
    """Late rewards: some are missing when their batch is trained; see `late`.

    `share`: of rewards up to `above`, and of those above it.
    """

    share: tuple[float, float]
    then: str
    by: int
    reinjected: float
    above: float
    stand_in: float | None

    @property
    def kept(self) -> int:
        """Number of batches for which late samples and their weights are kept until their rewards return."""
        return self.by if self.then == "reinject" else 0

    def describe(self) -> dict[str, Any]:
        """Settings of the late rewards for the header of a run."""
        return {"rewards": "late", **dataclasses.asdict(self)}

    def check(self, spec: Any, metrics: list[str]) -> None:
        """Refuse a spec in which rewards cannot arrive late in this way."""
        name = "rewards.then"
        paid = spec.method.scored and not spec.task.pays
        remedy = "late rewards are those of whole responses"
        checks.require(paid, "rewards", "late", "of a task that pays at the end, with a method of advantages", remedy)
        remedy = "use sampling='monte_carlo'"
        checks.require(spec.sampling != "counts", "sampling", "counts", "another where rewards are late", remedy)
        single = spec.sampling == "monte_carlo" or self.then != "bootstrap"
        checks.require(single, name, self.then, "'drop' or 'reinject' of a population", remedy)
        listing = [each for each in metrics if each in _LISTING]
        checks.require(not listing, "diagnostics", ", ".join(listing), "recorded without late rewards", "leave it out")
        if self.then == "reinject":
            eager = not getattr(spec.system, "coupled", False)
            remedy = "use then='drop' or 'bootstrap', or a system that is not coupled"
            checks.require(eager, name, self.then, "another where lengths come from the policy", remedy)
            batches = spec.updates // spec.passes
            remedy = "nothing would ever come back: run longer, or use then='drop'"
            checks.require(self.by < batches, "rewards.by", self.by, f"less than the run's {batches} batches", remedy)

    def scheduled(self, schedule: records.Schedule) -> Any:
        """Schedule in which each batch also has the groups of the batch `by` batches earlier, `[M, B, 2G, N, T]`.

        The first batches have their own groups twice, of which `arriving` trains nothing.
        """
        if self.then != "reinject":
            return schedule
        ids = schedule.trajectory.reshape(schedule.trajectory.shape[0], -1)
        single = bool((np.diff(np.sort(ids, axis=1), axis=1) > 0).all())
        remedy = "a sample that is trained several times has its reward in the end; use then='drop'"
        checks.require(single, "system", "one that trains samples several times", "one that trains each once", remedy)
        number = np.arange(schedule.batches)
        before = np.where(number < self.by, number, number - self.by)
        arrays = {name: getattr(schedule, name) for name in ("version", "trajectory")}
        twice = {name: np.concatenate([x, x[:, before]], axis=2) for name, x in arrays.items()}
        return _Twice(**twice, train_version=schedule.train_version, batches_per_publish=schedule.batches_per_publish)

    def arriving(self, batch: Batch, draws: Draws, number: int) -> Batch:
        """Batch as trained now, whose late and returned rewards are decided by draws 0 and 1 of each trajectory.

        Of a population the chances themselves are taken. `number`: of the batch; in front of batch `by` nothing can
        come back.
        """
        mass, reward = batch.mass.expand(batch.reward.shape), batch.reward
        late, back = (x.to(mass.dtype) for x in self._fates(batch, draws))
        own = reward.shape[1] // 2 if self.then == "reinject" else reward.shape[1]
        again = (torch.arange(reward.shape[1]) >= own).to(mass.dtype).reshape(1, -1, 1)
        # What of each sample is known, and what is trained.
        returned = again * late * back
        known = 1.0 - late + returned
        trained = (1.0 - again) * (1.0 - late) + returned * float(number >= self.by)
        if self.then == "bootstrap":
            trained = torch.ones_like(late)
        weight, stand_in, some = self._known(batch, mass, known)
        arrivals = {
            "earned": reward,
            "fresh": mass * (1.0 - again),
            "late": again + late * float(self.then == "bootstrap"),
            "lost": late * (1.0 - back) if self.then == "reinject" else late,
        }
        # Nobody may read what is not known yet.
        reward = torch.where(known > 0, reward, stand_in)
        kept = mass * trained * some
        mass = mass if self.then == "bootstrap" else weight
        return dataclasses.replace(batch, reward=reward, mass=mass, kept=kept, arrivals=arrivals)

    def _known(self, batch: Batch, mass: Tensor, known: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Masses `[R, G, N]` of known rewards, substitutes for others `[R, G, 1]`, and whether a substitute exists."""
        # Single samples are counted: n of them have mass 1/n, so that equal rewards have exactly their mean.
        there = mass * known if math.isinf(batch.size) else known
        total = there.sum(-1, keepdim=True)
        some = total > 0
        weight = torch.where(some, there / torch.where(some, total, torch.ones_like(total)), mass)
        if self.stand_in is not None:
            return weight, torch.full_like(total, self.stand_in), torch.ones_like(some)
        mean = (weight * batch.reward).sum(-1, keepdim=True)
        return weight, torch.where(some, mean, torch.zeros_like(mean)), some

    def _fates(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """Whether each reward is late and whether it would return, `[R, G, N]`; probabilities for a population."""
        low, high = self.share
        chance = torch.where(
            batch.reward > self.above, torch.full_like(batch.reward, high), torch.full_like(batch.reward, low)
        )
        if math.isinf(batch.size):
            return chance, torch.full_like(batch.reward, self.reinjected)
        return draws.uniform(0, 0) < chance, draws.uniform(0, 1) < self.reinjected


def late(
    share: Any,
    then: str = "drop",
    by: int = 1,
    reinjected: float = 1.0,
    above: float = 0.5,
    stand_in: float | None = None,
) -> Late:
    """Late rewards: each reward is missing, with a given probability, when its batch is trained (slow verifiers).

    Then "drop" leaves the sample out for good. "bootstrap" trains it on the mean of the group's known rewards, or on
    `stand_in`. "reinject" trains it `by` batches later, at the staleness it has by then, and a share `reinjected` of
    them comes back. A step is the mean over the samples in it. A group's baseline is made of the rewards that are
    known, for reinjected samples those of their own group. A group of which nothing is known is left out.

    With share s(r), phi = 1 - reinjected and a constant baseline, a generated sample adds E[(1 - phi s(r)) A grad log
    pi] on average. So the bias -phi E[s(r) A grad log pi] is linear in what is not reinjected. The step's mean divides
    by E[1 - phi s(r)]: with one share for all rewards samples are lost, but no direction. What is still late when the
    run ends is not trained. Event systems have reward times of their own, by which whole groups are ready later: those
    are waited for, these are not.

    Arguments: `share` in [0, 1], one number, or two: of rewards up to `above` and of those above it (wrong and right
    answers); `then` as described; `by` >= 1 in batches, and `reinjected` in [0, 1], for "reinject"; `above` and
    `stand_in` in units of reward, the latter for "bootstrap". Returns the setting `rewards` of a `Spec`. Raises
    `InputError` for numbers out of range, arguments of another `then`, and where nothing would ever be trained. Assumes
    that samples are late independently of each other. Source: a reconstruction; 2606.29526 and 2606.27580 were not
    read.

    >>> late(0.2, "reinject", by=3, reinjected=0.7).share
    (0.2, 0.2)
    """
    remedy = "give one share, or two: of rewards up to `above` and of those above it"
    pair = (share, share) if np.ndim(share) == 0 else tuple(share)
    checks.require(len(pair) == 2, "share", share, "one number or two", remedy)
    low, high = (checks.real("share", each, remedy, 0.0, 1.0) for each in pair)
    checks.one_of("then", then, ("drop", "bootstrap", "reinject"), "say what becomes of samples whose reward is late")
    owned = (
        ("by", by, 1, "reinject"),
        ("reinjected", reinjected, 1.0, "reinject"),
        ("stand_in", stand_in, None, "bootstrap"),
    )
    for name, value, default, owner in owned:
        fits = then == owner or value == default
        checks.require(fits, name, value, f"left out with then={then!r}", f"it belongs to then={owner!r}")
    checks.integer("by", by, 1, "count the batches until the reward is there", checks.LARGEST)
    checks.real("reinjected", reinjected, "give the share of late samples that come back", 0.0, 1.0)
    checks.real("above", above, "give the reward above which the second share holds")
    if stand_in is not None:
        checks.real("stand_in", stand_in, "give the reward that late ones are trained on, or None")
    nothing = low == high == 1.0 and (reinjected == 0.0 if then == "reinject" else stand_in is None)
    checks.require(not nothing, "share", share, "below 1 where late rewards never come", "nothing would be trained")
    instead = None if stand_in is None else float(stand_in)
    return Late((low, high), then, int(by), float(reinjected), float(above), instead)
