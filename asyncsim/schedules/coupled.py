"""A system whose trajectories are as long as the policy makes them: the same event model, stepped lazily."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asyncsim.base import checks, records
from asyncsim.base.feeds import Source
from asyncsim.systems._system import System


def coupled(system: System) -> Coupled:
    """The system with lengths from the policy instead of its law; everything else is as in the system.

    Whenever samples start, the learning loop is asked for their numbers of tokens, given the version of each token as
    far as known. In mode keep (and restart) it is asked again for samples in flight when weights are installed. Works
    are then in tokens and rates in tokens a second. Its record, replayed as a schedule, gives the same trace.

    Arguments: `system`, an event system. Returns an object with the interface of a system whose only schedule is the
    record of a run. Raises `InputError`, also for a load, which would refer to the law that is not used. Source: this
    package.

    >>> from asyncsim.systems import one_step_off
    >>> feed = coupled(one_step_off()).feed(3, 2, 4, 1, seed=0)
    >>> lengths_of = lambda realization, trajectory, token_version: 1.0 + trajectory % 4
    >>> [feed.take(b, lengths_of)[0].ravel().tolist() for b in range(3)]
    [[0, 0], [0, 0], [1, 1]]
    """
    checks.require(isinstance(system, System), "system", system, "an event system", "impose a schedule as it is")
    remedy = "give train_time: lengths that depend on the policy have no distribution to scale it by"
    checks.require(system.load is None, "load", system.load, "absent in a coupled system", remedy)
    remedy = "how long a repaired response becomes is not asked again; let failures begin anew"
    checks.require(not system.failure_keeps, "failure_keeps", True, "False in a coupled system", remedy)
    return Coupled(system)


@dataclass(frozen=True)
class Coupled(Source):
    """An event system whose samples take their lengths from the policy."""

    system: System

    coupled = True
    """The loop has to step it: its schedule is not known beforehand."""

    random = True
    """Lengths come from sampled actions, so realizations always differ by chance."""

    @property
    def name(self) -> str:
        """Name of the coupled system."""
        return f"coupled {self.system.name}"

    @property
    def knobs(self) -> dict[str, Any]:
        """Knobs of the system."""
        return dict(self.system.knobs)

    @property
    def groups_per_batch(self) -> int:
        """Groups of a batch."""
        return self.system.groups_per_batch

    @property
    def batches_per_publish(self) -> int:
        """Batches between two publishes."""
        return self.system.batches_per_publish

    @property
    def redundant(self) -> int:
        """Samples that a group starts beyond those that it keeps."""
        return self.system.redundant

    @property
    def mode(self) -> str | None:
        """What an install does to the samples in flight."""
        return self.system.mode

    @property
    def recommended(self) -> Mapping[str, Any]:
        """What the system recommends to a spec."""
        return self.system.recommended

    def describe(self) -> dict[str, Any]:
        """All parameters as JSON can hold them."""
        return {**self.system.describe(), "name": self.name, "length": "from the policy"}

    def realizations(self, replicates: int) -> int:
        """M for so many replicates: one for each, since a replicate's lengths are its own."""
        return replicates

    def schedule(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int
    ) -> records.Schedule:
        """Refused: the schedule exists only after the policy has been asked; take the record of the feed."""
        bound = "a system whose lengths do not depend on the policy"
        raise checks.InputError("system", self.name, bound, "run it and use the record of its feed")

    def feed(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int, first: int = 0
    ) -> Any:
        """The lazily stepped system, to be taken batch by batch; its realizations are numbered from `first` on."""
        from asyncsim.schedules._stepped import SteppedFeed

        return SteppedFeed(self.system, self.describe(), batches, samples_per_group, tokens, realizations, seed, first)
