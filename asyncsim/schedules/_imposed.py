"""Imposed schedules: staleness is given, without events."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from asyncsim.base import checks, records
from asyncsim.base.feeds import EagerFeed, Source


class Request(NamedTuple):
    """Request to an imposed law; `train_version` int64 `[B]`."""

    train_version: np.ndarray
    realizations: int
    groups: int
    samples: int
    seed: int


@dataclass(frozen=True, repr=False)
class Imposed(Source):
    """A law that sets the version every trajectory is generated under; it has the interface of a system.

    `versions(request)` returns integers that broadcast to `[M, B, G, N]`. From version `reached` on the law is not cut
    at the first version; a schedule that ends before warns (`ShortRunWarning`).
    """

    name: str
    knobs: Mapping[str, Any]
    versions: Callable[[Request], np.ndarray]
    random: bool = False
    groups_per_batch: int = 1
    batches_per_publish: int = 1
    reached: int = 0

    recommended: ClassVar[Mapping[str, Any]] = {}
    """A law recommends nothing to a learner."""

    def __post_init__(self) -> None:
        for name in ("groups_per_batch", "batches_per_publish"):
            checks.integer(name, getattr(self, name), 1, "count from one", checks.LARGEST)

    def __repr__(self) -> str:
        """Name, knobs and counts; 400 characters at most."""
        counts = {k: v for k, v in self.describe().items() if k not in ("name", "knobs") and v != 1}
        parts = [repr(self.name), *(f"{k}={checks.shown(v)}" for k, v in {**self.knobs, **counts}.items())]
        return checks.clipped(f"Imposed({', '.join(parts)})", 400)

    def describe(self) -> dict[str, Any]:
        """All parameters as JSON can hold them."""
        return {
            "name": self.name,
            "knobs": records.plain(self.knobs),
            "groups_per_batch": self.groups_per_batch,
            "batches_per_publish": self.batches_per_publish,
        }

    def realizations(self, replicates: int) -> int:
        """M for so many replicates: one where the law is deterministic, else one for each."""
        return replicates if self.random else 1

    def schedule(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int
    ) -> records.Schedule:
        """The schedule value: versions `[M, B, G, N, 1]`, as read-only views where nothing varies."""
        shape = shape_of(realizations, batches, self.groups_per_batch, samples_per_group, tokens)
        train_version = np.arange(batches) // self.batches_per_publish
        last = int(train_version[-1])
        if last < self.reached:
            enough = self.reached * self.batches_per_publish + 1
            text = f"{self.name}: staleness {self.reached} is not reached, the run ends at {last}"
            warnings.warn(checks.ShortRunWarning(f"{text}; train on at least {enough} batches"), stacklevel=2)
        request = Request(train_version, realizations, self.groups_per_batch, samples_per_group, seed)
        version = np.asarray(self.versions(request), dtype=np.int32)
        trajectory = np.arange(np.prod(shape[1:], dtype=np.int64)).reshape(shape[1:])
        return records.Schedule(
            np.broadcast_to(version, shape)[..., None],
            np.broadcast_to(trajectory, shape),
            self.batches_per_publish,
            self.random,
            header={**self.describe(), "seed": seed},
        )

    def feed(self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int) -> EagerFeed:
        """The schedule, to be taken batch by batch."""
        return EagerFeed(self.schedule(batches, samples_per_group, tokens, realizations, seed))


def shape_of(realizations: int, batches: int, groups: int, samples: int, tokens: int) -> tuple[int, int, int, int]:
    """The shape [M, B, G, N] of a request after its numbers have been checked."""
    checks.integer("tokens", tokens, 1, "give the length of the longest trajectory")
    return (
        checks.integer("realizations", realizations, 1, "ask for at least one realization"),
        checks.integer("batches", batches, 1, "ask for at least one batch"),
        groups,
        checks.integer("samples_per_group", samples, 1, "a group has at least one sample"),
    )
