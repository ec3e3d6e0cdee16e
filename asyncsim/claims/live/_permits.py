"""A point of a live run: its permits, and when they return."""

import random
from typing import NamedTuple

from asyncsim.claims import _engines
from asyncsim.claims._claim import checks, within

BATCHES = 40
"""Of the bookkeeping that second routes count."""
POINT = {"tickets": 6, "publish_groups": 2, "release": "publish"}


class Path(NamedTuple):
    """Groups by admission: versions at admission and training, and steps at which a permit was taken and returned."""

    admitted: list[int]
    trained: dict[int, int]
    begins: list[int]
    ends: dict[int, int]


class Permits(_engines.Engines):
    """Base class of live points with K permits, a generator slot each, and M groups per batch; all batches publish."""

    through = "live"
    reach = staticmethod(within(tickets=32))

    tickets = _engines.tickets(64, example=6)
    publish_groups = _engines.groups(high=32, typical=(1, 5), example=2)
    release = _engines.release(example="publish", typical=("publish", "dequeue"))

    def joint(self) -> None:
        least = self.publish_groups + (self.release == "publish")
        reason = "give permits for a batch, and one more where they return at the publish"
        checks.integer("tickets", self.tickets, least, reason)
        # Groups with a permit when a version appears that are not in the batch it came from.
        self.outstanding = self.tickets - (self.publish_groups if self.release == "publish" else 0)

    def path(s) -> Path:
        """Simulate the accounting of permits alone, without seconds; groups finish in any order."""
        chance, publish, late = random.Random(0), 0, s.release == "publish"
        made, out = Path([0] * s.tickets, {}, [0] * s.tickets, {}), list(range(s.tickets))
        for version in range(BATCHES):
            dequeue = publish + chance.randint(1, 9)
            batch = [out.pop(chance.randrange(len(out))) for _ in range(s.publish_groups)]
            made.trained.update(dict.fromkeys(batch, version))
            publish = dequeue + chance.randint(1, 9)
            for group in batch:
                made.ends[group] = publish if late else dequeue
                out.append(len(made.admitted))
                made.admitted.append(version + late)
                made.begins.append(made.ends[group])
        return made
