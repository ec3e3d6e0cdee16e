r"""In live processes, permits set the staleness at every publish, and throughput times the seconds that they are kept.

with `K` permits in use and `M` groups per batch, a live run has mean staleness `K/M - 1` (release at publish) or `K/M`
(release at dequeue) at every single publish

K permits, a generator slot for each, M groups a batch. Of the groups admitted before version v appears, those trained
behind it number K - M where permits return at the publish (its M groups still hold theirs) and K where they return at
the dequeue. Each such group grows one version staler. So over the publishes
    mean staleness = least = most = K/M - 1  (publish)  or  K/M  (dequeue)      [versions a trained group],
whatever the processes, their speed, and the order in which messages arrive. Staleness counts from the admission: a
first token may come publishes later, and those are the race of a real trainer (`Live.raced`).

Little's law for permits: groups per second times the mean seconds for which a group keeps its permit, from admission to
return, are "held" = K. All K are held at every instant, so the seconds of a window times K are the seconds held in it.
It needs each permit handed out again at once. What a real run loses is the time between a return and the next
admission: the claim says that it is below the effect. So a live trainer is as fast as its measured latencies say.
Domain: nothing dropped, every permit used at once. Second route: permits handed out and back in a random order at
random times, the versions counted and the time for which they are held added up. Source of the law: Little 1961.
"""

import numpy as np

from asyncsim.claims._claim import Estimate, Plant, Point, lab, replaced
from asyncsim.claims.live._permits import BATCHES, POINT, Permits

_TRAINED = 60


class Staleness(Permits):
    kind = "identity"
    source = "derived: groups outstanding at a publish grow one version staler; Little, Oper. Res. 9 (1961)"

    def quantities(s, mean: float, least: float, most: float, held: float) -> dict[str, float]:
        return {"mean": mean, "least": least, "most": most, "held": held}

    def predict(s) -> dict[str, float]:
        return s.quantities(*(s.outstanding / s.publish_groups,) * 3, float(s.tickets))

    def check(s) -> dict[str, float]:
        made = s.path()
        ends = [made.trained.get(group, BATCHES) for group in range(len(made.admitted))]
        spans = list(zip(made.admitted, ends, strict=True))
        levels = [sum(first < v <= last for first, last in spans) / s.publish_groups for v in range(1, BATCHES)]
        end = max(made.ends.values())
        seconds = [made.ends.get(group, end) - begin for group, begin in enumerate(made.begins)]
        return s.quantities(sum(levels) / len(levels), min(levels), max(levels), sum(seconds) / end)

    wrong = {
        "permits counted as if all stayed out": lambda s: s.quantities(
            *(s.tickets / s.publish_groups + 1.0,) * 3, float(s.tickets)
        ),
        "groups of the batch in training not counted": lambda s: {"held": float(s.tickets - s.publish_groups)},
    }

    points = (POINT, *({"tickets": 4, "publish_groups": groups, "release": "dequeue"} for groups in (4, 2)))
    more = ({"tickets": 4, "publish_groups": 1, "release": "publish"},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # Responses that are long beside the time between a return and the next admission.
        live, rows = lab.live_runs.ran(point, _TRAINED, seed, plant, 0.03)
        # Each group once, from its admission to its training; those never trained are out until the end.
        groups = {row["group_id"]: row for row in rows}.values()
        first, last = np.array([(row["submit_version"], row.get("train_version", _TRAINED)) for row in groups]).T
        versions = np.arange(1, _TRAINED)[:, None]
        levels = ((first < versions) & (versions <= last)).sum(1) / point["publish_groups"]
        numbers = {"mean": levels.mean(), "least": levels.min(), "most": levels.max()}
        found = {name: Estimate(float(x), tolerance=1e-12 * x, samples=len(levels)) for name, x in numbers.items()}
        returned = live.t_install[1:] if point["release"] == "publish" else live.t_train
        start, end = np.array([row["t_submit"] for row in groups]), float(returned[-1])
        batch = np.array([row.get("batch", len(returned)) for row in groups])
        until = np.append(returned, end)[np.minimum(batch.astype(int), len(returned))]
        trained = int((until <= end).sum())
        seconds = float(np.clip(np.minimum(until, end) - np.minimum(start, end), 0.0, None).sum())
        # Groups per second times the mean seconds of one.
        held = trained / (end - start.min()) * (seconds / trained)
        # Which takes a share of 0.1 percent of a permit's time, measured also with two processes to a core.
        return found | {"held": Estimate(held, tolerance=0.004 * point["tickets"], samples=trained)}

    defects = {
        "a permit lost": lambda: lab.live_runs.planted(replaced(tickets=5)),
        "permits returned at the dequeue": lambda: lab.live_runs.planted(replaced(release="dequeue")),
    }
