r"""Seconds per batch of a pool of (a + 1) batches on k slots: mean load, a share of the straggler, and training.

a pool of `a+1` batches on `k` slots takes at most `Q mu/k + E[longest of the pool]/(a+1) + t_T` a batch

batch_seconds <= Q mu/k + E[max of (a+1) Q works]/(a+1) + t_T. Q = P N samples a batch; (a + 1) P tickets return at the
publish, with a place for each. Heuristic: (a + 1) batches form one list for the slots, whose straggler counts once in a
+ 1 batches. At a = 0 it follows from list scheduling; for a > 0 there is no proof, hence open. The form with a maximum
in place of the sum, max(Q mu/k + E[max]/(a+1), t_T), is no bound. It fails at a = 0, where training adds, and by a few
percent at a = 1 (three slots, batches of four unit works). Each term is attained where it is all there is: many samples
on few slots, training much longer than generation, a slot for every sample. With random works of a wide spread a pool
is much faster than the bound (0.46 of it for exponential works at a = 1). Domain: one server, speed independent of the
number active, no synchronization time, rewards at once, nothing dropped. Second route: the maximum by its quantile
function.
"""

import math

from asyncsim.claims import _engines, _work, lab
from asyncsim.claims._claim import Count, Estimate, Plant, Point, each_term, replaced, sampled

_POINT = {
    "slots": 64, "groups_per_batch": 65, "samples_per_group": 1, "ahead": 0, "length": "constant:1", "train_time": 2.0,
}  # fmt: skip
"""Equal works and one more than slots: 0.996 of the bound, of which the straggler is a quarter."""
_RANDOM = _POINT | {"slots": 4096, "groups_per_batch": 64, "length": "exponential:1", "train_time": 0.5}
"""A slot for every sample: the longest decides."""
_AHEAD = _POINT | {"slots": 4, "groups_per_batch": 64, "samples_per_group": 4, "ahead": 1, "train_time": 0.3}
"""Few slots: the load decides."""
_TRAINING = _AHEAD | {"groups_per_batch": 4, "samples_per_group": 1, "train_time": 200.0}
_LONGEST = _TRAINING | {"groups_per_batch": 1, "samples_per_group": 64, "slots": 8192, "train_time": 0.001} | {
    "length": "empirical:0.5:1:1.5:2"
}  # fmt: skip
"""So many samples a group that each group and the whole pool have the same longest."""


class ListSchedulingPool(_engines.Engines):
    kind, status, source, effect = "bound", "open", "derived at a = 0; a conjecture beyond", 0.04

    slots = _engines.slots(typical=(1, 12), example=16)
    groups_per_batch = _engines.groups(typical=(1, 6), example=4)
    samples_per_group = _engines.samples(typical=(1, 6), example=8)
    ahead = Count(0, typical=(0, 4), example=1, unit="batches", doc="batches out besides the one that is needed next")
    length = _engines.work(example="lognormal:1.0:0.8")
    train_time = _engines.train_time(typical=(0.5, "exponential:1.5"), example=1.0)

    def parts(self, mean: float, longest: float) -> dict[str, float]:
        """Terms of the bound by name, with separate names if several batches are outstanding."""
        terms = {
            "load": self.batch * mean / self.slots,
            "random straggler" if longest > mean else "straggler": longest / (self.ahead + 1),
            "training": self.train_time,
        }
        return {f"{name} of a pool" if self.ahead else name: value for name, value in terms.items()}

    def predict(s, term: str = "", factor: float = 1.0) -> dict[str, float]:
        """Predict the bound with one term multiplied by a factor."""
        parts = s.parts(s.length.mean(), _work.longest(s.length, s.batch * (s.ahead + 1)))
        return {"batch_seconds": math.fsum(x * (factor if name == term else 1.0) for name, x in parts.items())}

    def check(s) -> dict[str, float]:
        longest = _work.longest_by_quantiles(s.length, s.batch * (s.ahead + 1))
        return {"batch_seconds": math.fsum(s.parts(_work.longest_by_quantiles(s.length, 1), longest).values())}

    wrong = {
        "perfect balance, no straggler": lambda s: {"batch_seconds": math.fsum(s.parts(s.length.mean(), 0.0).values())}
    }
    terms = each_term(
        predict,
        *(f"{part}{of}" for part in ("load", "straggler", "random straggler", "training") for of in ("", " of a pool")),
    )

    points = (_POINT, _RANDOM, _AHEAD, _TRAINING, _TRAINING | {"slots": 1024, "train_time": 0.001}, _LONGEST)
    more = (
        _AHEAD | {"length": "gamma:1:4", "train_time": 0.2},
        _AHEAD | {"groups_per_batch": 16, "ahead": 3, "length": "exponential:1"},
    )
    reach = staticmethod(sampled("length", "train_time", groups_per_batch=512, samples_per_group=64, ahead=8))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        out = (point["ahead"] + 1) * point["groups_per_batch"]
        system = lab.engine(point, places=out, tickets=out)
        count = lab.realizations_for(lab.spread_of(point, 0.04), effect, 0.0, comparisons=8, kind="bound")
        records = lab.timelines(plant(system), 240, point["samples_per_group"], count, seed)
        intervals = (lab.interval(record, 40) for record in records)
        return {"batch_seconds": lab.average([seconds / batches for batches, seconds in intervals])}

    defects = {
        "a slot lost": lambda: (replaced(slots=3), _AHEAD),
        "slower with more samples at once": lambda: replaced(decode=tuple(max(0.2, 1.0 - 0.05 * n) for n in range(64))),
    }
