r"""Workers that update on arrival conserve total staleness: workers - 1 per update, path by path.

with `N` workers updating on arrival, staleness of applied and pending gradients sums to `N-1` per update

sum of delays of applied gradients + sum of ages of gradients in flight = (N - 1) T after T updates. Derivation: between
two reads of one worker pass its delay plus its own update. So for each worker delays + own updates + present age = T.
Sum over the N workers, whose own updates add up to T. Domain: one gradient in flight per worker, all read before the
first update; any time law. Second route: the count itself on a path of log-normal service times.
"""

from asyncsim.base import laws
from asyncsim.claims import _work, lab
from asyncsim.claims._claim import Claim, Estimate, Integer, Parsed, Plant, Point, sim
from asyncsim.claims._engines import lags_and_ages, order

_POINT = {"workers": 16, "law": "pareto:1.0:1.2", "updates": 400}


class MeanStaleness(Claim):
    kind, source, through = "identity", "derived: exchange of the sums over workers and updates", "kernel"

    workers = Integer(
        2, typical=(2, 12), example=8, doc="number of workers", remedy="one worker is never stale; give at least two"
    )
    law = Parsed(
        _work.text, "any distribution of times", typical=("exponential:1",), example="lognormal:1.0:0.8",
        doc="distribution of service times",
    )  # fmt: skip
    updates = Integer(1, typical=(1, 200), example=500, unit="updates", doc="length of a run")

    def predict(s) -> dict[str, float]:
        return {"total_per_update": float(s.workers - 1)}

    def check(s) -> dict[str, float]:
        lags, ages = lags_and_ages(s.workers, order(s.workers, s.updates))
        return {"total_per_update": int(lags.sum() + ages.sum()) / s.updates}

    wrong = {"a worker's own update counted as staleness": lambda s: {"total_per_update": float(s.workers)}}

    points = (_POINT, {**_POINT, "law": "exponential:1.0"}, {**_POINT, "law": "lognormal:1.0:2.0"})
    more = ({**_POINT, "workers": 64, "updates": 60_000},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        system = plant(sim.systems.update_on_arrival(point["workers"], laws.as_law("law", point["law"])))
        updates = point["updates"]
        samples = system.timeline(updates, seed=seed).samples
        applied = samples["batch"] >= 0
        delays = int((samples["batch"][applied] - samples["v_start"][applied]).sum())
        # The worker of the last update has restarted at the newest version: its age is 0.
        ages = int((updates - samples["v_start"][~applied]).sum())
        return {"total_per_update": Estimate((delays + ages) / updates, tolerance=1e-12 * point["workers"])}

    defects = {"stamp taken at completion": lambda: lab.late_stamp}
