"""A point of a live run: its permits, and when they return."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from asyncsim.base import checks
from asyncsim.base.declared import Draw, Integer
from asyncsim.claims import _engines


class Permits(_engines.Engines):
    """K permits with a generator slot for each, M groups a batch, every batch published."""

    tickets = _engines.tickets(64, example=6)
    publish_groups = _engines.groups(high=32, typical=(1, 5), example=2)
    release = _engines.release(example="publish", typical=("publish", "dequeue"))

    def joint(self) -> None:
        """What is left when a batch trains has to be a group at least."""
        least = self.publish_groups + (self.release == "publish")
        reason = "give permits for a batch, and one more where they return at the publish"
        checks.integer("tickets", self.tickets, least, reason)

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Up to 12 permits more than a batch takes."""
        point = super().drawn(draw)
        return point | {"tickets": point["publish_groups"] + draw(Integer(1, typical=(1, 12)))}

    @property
    def outstanding(self) -> int:
        """Groups with a permit when a version appears that are not in the batch it came from."""
        return self.tickets - (self.publish_groups if self.release == "publish" else 0)


class Path(NamedTuple):
    """Groups in order of admission: version at admission, at training, and steps at which a permit came and went."""

    admitted: list[int]
    trained: dict[int, int]
    begins: list[int]
    ends: dict[int, int]


def path(s: Permits, batches: int, seed: int = 0) -> Path:
    """The bookkeeping of permits alone, groups finishing in any order: no seconds are needed."""
    chance, version, step = random.Random(seed), 0, 0
    made = Path([0] * s.tickets, {}, [0] * s.tickets, {})
    out = list(range(s.tickets))

    def admit(leaving: list[int]) -> None:
        for group in leaving:
            made.ends[group] = step
            out.append(len(made.admitted))
            made.admitted.append(version)
            made.begins.append(step)

    for _ in range(batches):
        step += chance.randint(1, 9)
        batch = [out.pop(chance.randrange(len(out))) for _ in range(s.publish_groups)]
        made.trained.update(dict.fromkeys(batch, version))
        if s.release == "dequeue":
            admit(batch)
        step += chance.randint(1, 9)
        version += 1
        if s.release == "publish":
            admit(batch)
    return made
