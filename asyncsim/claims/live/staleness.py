r"""In live processes, the number of groups outstanding at each publish is exactly that of their permits.

a live run with `K` permits and `M` groups per batch has mean staleness `K/M-1` (release at publish) or `K/M` (release
at dequeue), at every single publish

K permits, a generator slot for each, M groups a batch. Of the groups admitted before version v appears, those trained
behind it number K - M where permits return at the publish (its M groups still hold theirs) and K where they return at
the dequeue. Each such group grows one version staler. So over the publishes
    mean staleness = least = most = K/M - 1  (publish)  or  K/M  (dequeue)      [versions a trained group],
whatever the processes, their speed, and the order in which messages arrive. Staleness counts from the admission: a
first token may come publishes later, and those are the race of a real trainer (`Live.raced`). Domain: nothing dropped,
every permit used at once. Second route: permits handed out and back in a random order, the versions counted.
"""

import numpy as np

from asyncsim.claims._claim import Estimate, Plant, Point, lab, replaced
from asyncsim.claims.live._permits import BATCHES, POINT, Permits

_TRAINED = 60


class Staleness(Permits):
    kind, source = "identity", "derived: groups outstanding at a publish grow one version staler"

    def predict(s) -> dict[str, float]:
        return dict.fromkeys(("mean", "least", "most"), s.outstanding / s.publish_groups)

    def check(s) -> dict[str, float]:
        made = s.path()
        ends = [made.trained.get(group, BATCHES) for group in range(len(made.admitted))]
        spans = list(zip(made.admitted, ends, strict=True))
        levels = [sum(first < v <= last for first, last in spans) / s.publish_groups for v in range(1, BATCHES)]
        return {"mean": sum(levels) / len(levels), "least": min(levels), "most": max(levels)}

    wrong = {
        "permits counted as if all stayed out": lambda s: dict.fromkeys(s.predict(), s.tickets / s.publish_groups + 1.0)
    }

    points = (POINT, {"tickets": 4, "publish_groups": 4, "release": "dequeue"})
    more = ({"tickets": 4, "publish_groups": 1, "release": "publish"},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        _, rows = lab.live_runs.ran(point, _TRAINED, seed, plant)
        # Each group once, from its admission to its training; those never trained are out until the end.
        groups = {row["group_id"]: (row["submit_version"], row.get("train_version", _TRAINED)) for row in rows}
        first, last = np.array(list(groups.values())).T
        versions = np.arange(1, _TRAINED)[:, None]
        levels = ((first < versions) & (versions <= last)).sum(1) / point["publish_groups"]
        numbers = {"mean": levels.mean(), "least": levels.min(), "most": levels.max()}
        each = {name: float(value) for name, value in numbers.items()}
        return {name: Estimate(x, tolerance=1e-12 * x, samples=len(levels)) for name, x in each.items()}

    defects = {
        "a permit lost": lambda: lab.live_runs.planted(replaced(tickets=5)),
        "permits returned at the dequeue": lambda: lab.live_runs.planted(replaced(release="dequeue")),
    }
