r"""Q samples in any order on k slots end between the mean load and the mean load plus one straggler.

samples on `k` slots all end between `max(total/k, longest)` and `total/k + (1 - 1/k) * longest`

With works L and generation time T of a batch: max(sum L/k, max L) <= T <= sum L/k + (1 - 1/k) max L, always.
Derivation: for the lower bound, slots do no more than one unit a second each. For the upper bound, all k slots are busy
until the last sample to end starts. So it starts at (sum L - its own)/k at the latest. As upper bounds, k slots:
  excess = (T - sum L/k)/max L <= 1 - 1/k;   load = sum L/(k T) <= 1;   longest = max L/T <= 1;
  step_seconds = E[step] <= Q mu/k + (1 - 1/k) E[max of Q] + t_T + t_sync (expectation of the above, Q = P N).
Equal works attain all but the third: the first and last with Q = n k + 1, the second with Q = n k. A few samples on
many slots attain the third, and the last with random works. The first three bound extremes: measure the largest of many
batches. Domain: one server whose speed does not depend on the number active, all samples waiting from the start
(synchronous: P permits, quantum P, drain), rewards at once. Second route: scheduled instances, extremal and random.
"""

import heapq
import math

import numpy as np

from asyncsim.claims import _engines, _work, lab
from asyncsim.claims._claim import Estimate, Plant, Point, each_term, replaced, within

_STEPS = 400
_COLUMNS = ("work", "t_submit", "t_end")
_POINT = {
    "slots": 4, "groups_per_batch": 13, "samples_per_group": 1, "length": "constant:1", "train_time": 0.5,
    "sync_time": 0.25,
}  # fmt: skip
"""Equal works and one more than slots can share: attained."""
_FEW = _POINT | {"slots": 1024, "groups_per_batch": 4, "length": "exponential:1"}
"""A slot for every sample: the longest decides, and what it adds to the mean load is nearly all of it."""
_HEAVY = _POINT | {"groups_per_batch": 4, "samples_per_group": 4, "length": "pareto:1:1.5", "train_time": 1.0}


class ListScheduling(_engines.Engines):
    kind, source = "bound", "Graham, SIAM J. Appl. Math. 17 (1969)"

    slots = _engines.slots(low=2, typical=(2, 12), example=4, remedy="one slot leaves nothing to schedule; give two")
    groups_per_batch = _engines.groups(typical=(1, 6), example=4)
    samples_per_group = _engines.samples(typical=(1, 6), example=4)
    length = _engines.work(example="pareto:1:1.5")
    train_time = _engines.train_time(typical=(0.5, "exponential:1.5"), example=1.0)
    sync_time = _engines.sync_time(typical=(0.0, 1.0), example=0.0)

    def joint(self) -> None:
        # What the longest sample adds to the mean load at most.
        self.share = 1.0 - 1.0 / self.slots

    def parts(self, share: float) -> dict[str, float]:
        """Terms of the seconds per step, with `share` of the longest sample on top of the mean load."""
        longest = _work.longest(self.length, self.batch)
        return {
            "load": self.batch * self.length.mean() / self.slots,
            "random straggler" if longest > self.length.mean() else "straggler": share * longest,
            "training": self.train_time,
            "synchronization": self.sync_time,
        }

    def scaled(s, term: str, factor: float) -> dict[str, float]:
        """The bounds, with a factor on one term of the seconds per step, or on the bounds of the extremes."""
        reduction = (1.0 - factor) * s.parts(s.share).get(term, 0.0)
        values = {name: x * (factor if term == "extremes" else 1.0) for name, x in s.predict().items()}
        return values | {"step_seconds": s.predict()["step_seconds"] - reduction}

    def predict(s, share: float | None = None) -> dict[str, float]:
        """Predict the bounds with `share` of the longest sample on top of the mean load."""
        share = s.share if share is None else share
        return {"excess": share, "load": 1.0, "longest": 1.0, "step_seconds": math.fsum(s.parts(share).values())}

    def check(s) -> dict[str, float]:
        """Largest ratios that the bounds limit, over instances that attain the bounds and over random ones."""

        def scheduled(works: np.ndarray) -> float:
            """Makespan of list scheduling: each work goes, in order, to the slot that is free first."""
            ends = [0.0] * k
            for work in works:
                heapq.heapreplace(ends, ends[0] + float(work))
            return max(ends)

        generator, k = np.random.default_rng(0), s.slots
        instances = [np.ones(n * k + 1) for n in (1, 3)] + [np.append(np.ones(k * (k - 1)), k), np.ones(2 * k)]
        instances += [_work.draws(s.length, generator, (int(generator.integers(1, 4 * k)),)) for _ in range(20)]
        seconds = np.array([scheduled(works) for works in instances])
        busy, largest = (np.array([over(works) for works in instances]) for over in (lambda x: x.sum() / k, np.max))
        slowest = _work.longest_by_quantiles(s.length, s.batch)
        mean = _work.longest_by_quantiles(s.length, 1)
        step = (s.batch - 1) * mean / k + slowest + (mean - slowest) / k + s.train_time + s.sync_time
        extremes = {"excess": (seconds - busy) / largest, "load": busy / seconds, "longest": largest / seconds}
        return {name: float(values.max()) for name, values in extremes.items()} | {"step_seconds": step}

    wrong = {"perfect balance, no straggler": lambda s: s.predict(0.0)}
    terms = each_term(scaled, "extremes", "load", "straggler", "random straggler", "training", "synchronization")

    points = (_POINT, _POINT | {"groups_per_batch": 12}, _FEW, _HEAVY)
    more = (_POINT | {"slots": 8, "groups_per_batch": 25}, _HEAVY | {"slots": 3, "length": "gamma:1:0.5"})
    reach = staticmethod(within(groups_per_batch=512, samples_per_group=64))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        groups, samples, slots = point["groups_per_batch"], point["samples_per_group"], point["slots"]
        system = lab.synchronous(point, slots=slots)
        texts = [str(point[name]) for name in ("length", "train_time")]
        # But for pareto:1:1.5, whose mean step stays below its bound.
        spread = 0.05 if any(":" in text and not text.startswith("constant") for text in texts) else 0.0
        count = lab.realizations_for(spread, effect, 0.0, comparisons=16, kind="bound")
        steps, extremes = [], dict.fromkeys(("excess", "load", "longest"), -math.inf)
        for record in lab.timelines(plant(system), _STEPS, samples, count, seed):
            # Samples of one batch in a row.
            columns = [record.samples[name][np.argsort(record.samples["batch"], kind="stable")] for name in _COLUMNS]
            work, begin, end = (column.reshape(-1, groups * samples) for column in columns)
            seconds, load, longest = end.max(axis=1) - begin.min(axis=1), work.sum(axis=1) / slots, work.max(axis=1)
            each = {"excess": (seconds - load) / longest, "load": load / seconds, "longest": longest / seconds}
            extremes = {name: max(value, float(each[name].max())) for name, value in extremes.items()}
            steps.append(float(record.publishes["t_install"][-1]) / _STEPS)
        found = {name: Estimate(value, tolerance=1e-9) for name, value in extremes.items()}
        return found | {"step_seconds": lab.average(steps)}

    defects = {
        "a slot lost": lambda: replaced(slots=3),
        "a slot freed twice": lambda: (lab.kernel_defects.slot_freed_twice, _HEAVY),
    }
