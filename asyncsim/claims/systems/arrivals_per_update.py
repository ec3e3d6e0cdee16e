r"""With N workers that restart at once and P results per update, mean staleness is E[s] = (N - 1)/P.

with `P` results per update, mean staleness is `(N - 1)/P`; staleness is distributed as `floor((uniform + geometric)/P)`

Derivation of the mean: mean-staleness identity. At an update the N - 1 other workers are out and nothing waits; P
groups are consumed; service law and rates never enter. At P = 1, update on arrival, that is N - 1. Exponential service,
p_i = r_i / sum r: a worker restarts with r deliveries waiting, r uniform on 0..P-1 for every worker. J of the others
deliver before it does, P(J = j) = p_i q_i^j, and s = floor((r + J)/P). So P(s >= k | i) = (1/P) sum_r q_i^max(kP - r,
0), a share p_i of the updates being i's. At P = 1 that is a mixture of geometric laws, P(s = k) = sum_i p_i^2 q_i^k.
Domain: a worker never waits, neither for a permit nor for an update. Training takes no time; a worker keeps the weights
of its start; service time has a finite mean. Cells of the distribution (`cells` > 0) only for exponential service.
Second route: a path of deliveries repeated P times, its lags counted; and the chain of (waiting, versions).
"""

import heapq

import numpy as np

from asyncsim.base import checks, laws
from asyncsim.base.declared import Count, Integer, Parsed, Vector
from asyncsim.claims import _work
from asyncsim.claims._claim import Estimate, Plant, Point, heavy, indexed, lab, named, replaced, units_for, within
from asyncsim.claims._engines import Engines

_point = named("workers", "groups_per_batch", "law", "cells", "rates", cells=0, rates=None)


def _quantities(mean: float, tails: np.ndarray) -> dict[str, float]:
    """The mean, the cells and the remaining tail, from P(s >= k) for k = 0 .. cells."""
    law = indexed("p", -np.diff(tails)) | {"tail": float(tails[-1])} if len(tails) > 1 else {}
    return {"mean": float(mean)} | law


def _order(workers: int, updates: int, rates: np.ndarray) -> np.ndarray:
    """Worker that makes each update, int `[updates]`; log-normal service times (sigma 1) divided by the given rates."""
    generator = np.random.default_rng(0)
    work = iter(generator.lognormal(0.0, 1.0, updates + workers))
    queue = [(next(work) / rates[w], w) for w in range(workers)]
    heapq.heapify(queue)
    sequence = np.empty(updates, dtype=np.int64)
    for t in range(updates):
        now, w = queue[0]
        sequence[t] = w
        heapq.heapreplace(queue, (now + next(work) / rates[w], w))
    return sequence


def _cyclic_mean_lag(sequence: np.ndarray, groups: int) -> float:
    """Mean staleness in versions of `groups` deliveries each, when the order of workers repeats forever.

    Lags are integers, so an identity that holds for every order can be checked on any.
    """
    # So many rounds close a cycle of versions, behind as many in which every worker has begun.
    deliveries = np.tile(sequence, 2 * groups)
    restarts, stalenesses = dict.fromkeys(sequence.tolist(), 0), []
    for t, worker in enumerate(deliveries.tolist()):
        stalenesses.append(t // groups - restarts[worker])
        restarts[worker] = (t + 1) // groups
    return sum(stalenesses[len(deliveries) // 2 :]) / (len(deliveries) // 2)


def _slowest(point: Point) -> float:
    """Mean number of deliveries between two of the slowest worker."""
    rates = point.get("rates") or (1.0,) * point["workers"]
    return float(sum(rates) / min(rates))


class ArrivalsPerUpdate(Engines):
    kind, source, relative_to = "distribution", "derived: mean-staleness identity; memoryless service", "norm"
    effect = 0.05

    workers = Integer(
        2, typical=(2, 12), example=3, doc="workers that restart at once",
        remedy="one worker is never stale; give at least two",
    )  # fmt: skip
    rates = Vector(
        0.0, typical=(0.5, 4.0), example=(1.0, 2.0, 5.5), optional=True, unit="work per second",
        doc="speed of each worker (default: all equal)",
    )  # fmt: skip
    groups_per_batch = Count(1, 4096, typical=(1, 6), example=2, unit="groups", doc="results per update")
    law = Parsed(
        _work.law_text, "the text of a distribution of finite mean", typical=("exponential:1",),
        example="exponential:1", unit="seconds", doc="distribution of the time from reading to delivering at rate 1",
    )  # fmt: skip
    cells = Integer(
        0, typical=(0, 6), example=6, remedy="ask for 0 cells (the mean alone) or more",
        doc="cells of the distribution that are asked for, 0 for the mean alone",
    )  # fmt: skip

    def joint(self) -> None:
        """Require one rate per worker, and set each worker's fraction of the total rate."""
        if self.rates is not None:
            checks.finite_array("rates", self.rates.tolist(), [self.workers], "give each worker a rate")
        rates = np.ones(self.workers) if self.rates is None else self.rates
        self.shares = rates / rates.sum()
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
        path = np.concatenate([_order(s.workers, 20 * s.workers, s.shares), np.arange(s.workers)])
        # State k P + r: k versions since the restart, r deliveries waiting; what is beyond the last cell never returns.
        mass, pmf = np.zeros((s.workers, s.cells * s.groups_per_batch)), np.zeros((s.workers, s.cells))
        mass[:, : s.groups_per_batch] = 1.0 / s.groups_per_batch
        share = s.shares[:, None]
        for _ in range(s.cells * s.groups_per_batch):
            pmf += share * mass.reshape(s.workers, s.cells, s.groups_per_batch).sum(axis=2)
            mass = np.pad((1.0 - share) * mass[:, :-1], ((0, 0), (1, 0)))
        tails = s.shares @ np.pad(1.0 - np.cumsum(pmf, axis=1), ((0, 0), (1, 0)), constant_values=1.0)
        return _quantities(_cyclic_mean_lag(path, s.groups_per_batch), tails)

    wrong = {
        "deliveries that wait at the restart forgotten": lambda s: _quantities(s.mean, s._tails(1)),
        "a worker's own update counted as staleness": lambda s: {"mean": s.workers / s.groups_per_batch},
    }

    points = (
        *(_point(8, 4, "exponential:1.0", 6), _point(6, 4, "exponential:1.0", 5, (1.0, 1.0, 2.0, 2.0, 4.0, 6.0))),
        *(_point(3, 1, "exponential:1.0", 6, (1.0, 2.0, 4.0)), _point(16, 1, "lognormal:1.0:1.0")),
        _point(5, 1, "constant:1.0"),
    )
    more = (
        *(_point(8, 3, "lognormal:1.0:0.8"), _point(6, 4, "pareto:1.0:2.5"), _point(8, 1, "exponential:1.0", 16)),
        *(_point(8, 1, "exponential:1.0", 0, (1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 5.0)), _point(32, 1, "gamma:1.0:0.5")),
    )

    def reach(self, point: Point) -> str | None:
        """Refuse heavy tails, which converge too slowly to a stationary mean, and very slow workers."""
        if _slowest(point) > 4000.0:
            return f"a worker in 4000 deliveries or more often, not in {_slowest(point):.3g}; raise its rate"
        return heavy(point, "law", index=2.5, shape=0.0) or within(cells=64, workers=1000)(point)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        workers, batch, cells = point["workers"], point["groups_per_batch"], point["cells"]
        realizations = max(24, units_for(0.05, effect, 32))
        rates = (1.0,) * workers if point.get("rates") is None else tuple(point["rates"])
        law, between = laws.as_law("law", point["law"]), _slowest(point)
        system = lab.System("workers", {}, law, rates, groups_per_batch=batch, mode="pin", train_time=0.0)
        # Ten service times of the slowest worker or more, then as many updates as the mean needs.
        warm_up = (int(max(40 * workers, 10 * between)) + 200) // batch + 1
        window = int(max(12_000, 40 * workers, 10 * between)) // batch
        heads = lab.stationary_heads(plant(system), warm_up + window, warm_up, realizations, seed)
        mean = lab.mean_over_realizations(heads)
        # Without chance, what is outstanding at both ends differs by the same number in every realization.
        ends = 0.0 if law.random else workers * between / (window * batch) / batch
        mean = mean._replace(tolerance=mean.tolerance + ends)
        return {"mean": mean} | (lab.law_of(heads, cells) if cells else {})

    defects = {
        "restart before the own update is written": lambda: replaced(train_time=1e-9),
        "a generator slot freed twice": lambda: lab.kernel_defects.place_freed_twice,
        "an install not counted": lambda: lab.kernel_defects.version_off_by_one,
    }
