r"""A live run learns exactly what a simulation on its log learns: versions matter, seconds do not.

a live run and the simulated run on its log have the same parameters, to the last bit

same = (parameters of the live run that equal those of a simulated run with the same versions and draws)/(all) = 1, to
the last bit. Derivation: an update is a function of weights, draws and the versions of the tokens. Draws are keyed by
group, not by time or process. So two runs in which each group has the same versions and the same batch are the same
function. A stamp that is off by one version, a weight read while it was written, or a sample trained twice would show.
So the schedule of versions alone predicts the learning curve of an asynchronous trainer, and every claim on schedules
applies to it. Domain: tables, whose arithmetic does not depend on how many samples share a call. Second route: a toy
learner, theta += (theta of the group's version + its draw)/8, run once in the order of events and once from its log.
"""

from dataclasses import replace
from typing import Any

from asyncsim.claims._claim import Estimate, Plant, Point, lab, sim
from asyncsim.claims.live._permits import BATCHES, POINT, Permits


def _as_fresh(live: Any) -> Any:
    """Plant that replays the log without staleness.

    Permits for three batches are out at once, so some groups train stale whatever the clocks do. The mean staleness
    for every sample is no defect: runs whose processes happen to take turns have it exactly."""
    return replace(live, schedule=lab.fixed(0, groups_per_batch=live.spec.system.groups_per_batch))


class Learning(Permits):
    kind, source = "identity", "derived: an update depends on weights, draws and versions alone"

    def predict(s) -> dict[str, float]:
        return {"same": 1.0}

    def check(s, late: int = 0) -> dict[str, float]:
        """Train the toy learner in order of events, and from a log whose stamps are `late` versions late."""
        made = s.path()

        def learned(seen: dict[int, int]) -> list[float]:
            theta = [1.0]
            for batch in range(BATCHES):
                groups = sorted(group for group, version in made.trained.items() if version == batch)
                step = sum((theta[seen[group]] + (group * 0.618) % 1.0 - 0.5) / 8.0 for group in groups)
                theta.append(theta[-1] - step / len(groups))
            return theta

        first = learned(dict(enumerate(made.admitted)))
        # As late as the training of a group allows.
        second = learned({group: min(made.admitted[group] + late, last) for group, last in made.trained.items()})
        return {"same": sum(a == b for a, b in zip(first, second, strict=True)) / len(first)}

    wrong = {"stamps one version late": lambda s: Learning.check(s, late=1)}

    points = (POINT, {"tickets": 4, "publish_groups": 4, "release": "dequeue"})

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        live, _ = lab.live_runs.ran(point, 40, seed, plant)
        again = sim.run(replace(live.spec, system=live.schedule), seed=live.seed, progress=False)
        same = live.trace.parameters == again.parameters
        return {"same": Estimate(float(same.mean()), samples=same.size)}

    defects = {"every sample as if it were fresh": lambda: lab.live_runs.planted(_as_fresh, sim.live.Live)}
