r"""Groups per second of a live run are its permits divided by the mean seconds for which a group keeps a permit.

groups per second of a live run, times the mean seconds for which a group keeps its permit, equal its `K` permits

X E[hold] = K, hold from the admission to the return of the permit: to the dequeue or to the publish. Derivation:
Little's law for permits. All K are held at every instant, so the seconds of a window times K are the seconds held in
it. It needs each permit handed out again at once. So a live trainer is as fast as its measured latencies say, and no
other property of the machine enters. What a real run loses is the time between a return and the next admission: the
claim says that it is below the effect. Domain: a generator slot for each permit. Second route: permits handed out and
back in a random order at random times, the time for which they are held added up.
"""

import numpy as np

from asyncsim.claims._claim import Estimate, Plant, Point, lab, replaced
from asyncsim.claims.live._permits import POINT, Permits


class Throughput(Permits):
    kind, source = "identity", "Little, Oper. Res. 9 (1961)"

    def predict(s) -> dict[str, float]:
        return {"held": float(s.tickets)}

    def check(s) -> dict[str, float]:
        made = s.path()
        end = max(made.ends.values())
        seconds = [made.ends.get(group, end) - begin for group, begin in enumerate(made.begins)]
        return {"held": sum(seconds) / end}

    wrong = {"groups of the batch in training not counted": lambda s: {"held": float(s.tickets - s.publish_groups)}}

    points = (POINT, {"tickets": 4, "publish_groups": 2, "release": "dequeue"})
    more = ({"tickets": 4, "publish_groups": 1, "release": "publish"},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # Responses that are long beside the time between a return and the next admission.
        live, rows = lab.live_runs.ran(point, 60, seed, plant, 0.03)
        returned = live.t_install[1:] if point["release"] == "publish" else live.t_train
        begin, end = min(row["t_submit"] for row in rows), float(returned[-1])
        groups = {row["group_id"]: (row["t_submit"], row.get("batch", len(returned))) for row in rows}
        first, batch = np.array(list(groups.values())).T
        last = np.append(returned, end)[np.minimum(batch.astype(int), len(returned))]
        trained = int((last <= end).sum())
        held = float(np.clip(np.minimum(last, end) - np.minimum(first, end), 0.0, None).sum())
        # Groups per second times the mean seconds of one.
        value = trained / (end - begin) * (held / trained)
        # Which takes a share of 0.1 percent of a permit's time, measured also with two processes to a core.
        return {"held": Estimate(value, tolerance=0.004 * point["tickets"], samples=trained)}

    defects = {"a permit lost": lambda: lab.live_runs.planted(replaced(tickets=5))}
