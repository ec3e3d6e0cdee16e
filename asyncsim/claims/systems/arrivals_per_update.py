r"""N workers, P deliveries per update, each worker restarts at once: E[s] = (N - 1)/P, floor of a geometric variable.

with `P` deliveries per update mean staleness is `(N-1)/P`, distributed as `floor((uniform + geometric)/P)`

Derivation of the mean: mean-staleness identity. At an update the N - 1 other workers are out and nothing waits; P
groups are consumed; service law and rates never enter. Exponential service, p_i = r_i / sum r: a worker restarts with r
deliveries waiting, r uniform on 0..P-1 for every worker. J of the others deliver before it does, P(J = j) = p_i q_i^j,
and s = floor((r + J)/P). So P(s >= k | i) = (1/P) sum_r q_i^max(kP - r, 0), a share p_i of the updates being i's.
Domain: a worker never waits, neither for a permit nor for an update. Training takes no time; a worker keeps the weights
of its start; service time has a finite mean. Cells of the distribution (`cells` > 0) only for exponential service.
Second route: a path of deliveries repeated P times, its lags counted; and the chain of (waiting, versions) stepped
delivery by delivery.
"""

import numpy as np

from asyncsim.base import checks, laws
from asyncsim.base.declared import Count, Integer
from asyncsim.claims._claim import Estimate, Plant, Point, heavy, indexed, lab, named, replaced, units_for, within
from asyncsim.claims._engines import Workers, cyclic_mean_lag, order, service

_point = named("workers", "groups_per_batch", "law", "cells", "rates", cells=0, rates=None)


def _quantities(mean: float, tails: np.ndarray) -> dict[str, float]:
    """The mean, the cells and the remaining tail, from P(s >= k) for k = 0 .. cells."""
    law = indexed("p", -np.diff(tails)) | {"tail": float(tails[-1])} if len(tails) > 1 else {}
    return {"mean": float(mean)} | law


class ArrivalsPerUpdate(Workers):
    kind, source, relative_to = "distribution", "derived: mean-staleness identity; memoryless service", "norm"
    effect = 0.05

    groups_per_batch = Count(1, 4096, typical=(1, 6), example=2, unit="groups", doc="deliveries of an update")
    law = service(typical=("exponential:1",), example="exponential:1")
    cells = Integer(
        0, typical=(0, 6), example=6, remedy="ask for 0 cells (the mean alone) or more",
        doc="cells of the distribution that are asked for, 0 for the mean alone",
    )  # fmt: skip

    def joint(self) -> None:
        self.mean = (self.workers - 1) / self.groups_per_batch
        known = self.cells == 0 or self.law.kind == "exponential"
        reason = "the distribution of staleness is known for exponential only"
        checks.require(known, "cells", self.cells, f"0 for service {self.law}", reason)

    def _tails(s, waiting: int) -> np.ndarray:
        """P(s >= k), k = 0 .. cells, where the deliveries waiting at a restart are uniform below `waiting`."""
        p, q = s.shares, 1.0 - s.shares
        powers = np.maximum(np.arange(s.cells + 1)[:, None] * s.groups_per_batch - np.arange(waiting), 0)
        return np.asarray((p * q ** powers[:, :, None]).sum(axis=2).mean(axis=1))

    def predict(s) -> dict[str, float]:
        return _quantities(s.mean, s._tails(s.groups_per_batch))

    def check(s) -> dict[str, float]:
        path = np.concatenate([order(s.workers, 20 * s.workers, s.shares), np.arange(s.workers)])
        # State k P + r: k versions since the restart, r deliveries waiting; what is beyond the last cell never returns.
        mass, pmf = np.zeros((s.workers, s.cells * s.groups_per_batch)), np.zeros((s.workers, s.cells))
        mass[:, : s.groups_per_batch] = 1.0 / s.groups_per_batch
        share = s.shares[:, None]
        for _ in range(s.cells * s.groups_per_batch):
            pmf += share * mass.reshape(s.workers, s.cells, s.groups_per_batch).sum(axis=2)
            mass = np.pad((1.0 - share) * mass[:, :-1], ((0, 0), (1, 0)))
        tails = s.shares @ np.pad(1.0 - np.cumsum(pmf, axis=1), ((0, 0), (1, 0)), constant_values=1.0)
        return _quantities(cyclic_mean_lag(path, s.groups_per_batch), tails)

    wrong = {"deliveries that wait at the restart forgotten": lambda s: _quantities(s.mean, s._tails(1))}

    points = (_point(8, 4, "exponential:1.0", 6), _point(6, 4, "exponential:1.0", 5, (1.0, 1.0, 2.0, 2.0, 4.0, 6.0)))
    more = (_point(8, 3, "lognormal:1.0:0.8"), _point(6, 4, "pareto:1.0:2.5"))

    def reach(self, point: Point) -> str | None:
        """Refuse heavy tails, which converge too slowly to a stationary mean."""
        return heavy(point, "law", index=2.5, shape=0.0) or within(cells=64, workers=1000)(point)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        workers, batch, cells = point["workers"], point["groups_per_batch"], point["cells"]
        realizations = max(24, units_for(0.05, effect, 32))
        rates = (1.0,) * workers if point.get("rates") is None else tuple(point["rates"])
        system = lab.System(
            "workers", {}, laws.as_law("law", point["law"]), rates, groups_per_batch=batch, mode="pin", train_time=0.0
        )
        warm_up = (40 * workers + 200) // batch + 1
        updates = warm_up + max(12_000, 40 * workers) // batch
        heads = lab.stationary_heads(plant(system), updates, warm_up, realizations, seed)
        return {"mean": lab.mean_over_realizations(heads)} | (lab.law_of(heads, cells) if cells else {})

    defects = {
        "restart before the own update is written": lambda: replaced(train_time=1e-9),
        "a generator slot freed twice": lambda: lab.kernel_defects.place_freed_twice,
        "an install not counted": lambda: lab.kernel_defects.version_off_by_one,
    }
