r"""Seconds a batch of a pool of (a + 1) batches on k slots: mean load, a share of the straggler, and training.

batch_seconds <= Q mu/k + E[max of (a+1) Q works]/(a+1) + t_T. Q = P N samples a batch; (a + 1) P tickets return at the
publish, with a place for each. Heuristic: (a + 1) batches form one list for the slots, whose straggler counts once in a
+ 1 batches. At a = 0 it follows from list scheduling; for a > 0 there is no proof, hence open. The form with a maximum
in place of the sum, max(Q mu/k + E[max]/(a+1), t_T), is no bound. It fails at a = 0, where training adds, and by a few
percent at a = 1 (three slots, batches of four unit works). Each term is attained where it is all there is: many samples
on few slots, training much longer than generation, a slot for every sample. With random works of a wide spread a pool
is much faster than the bound (0.46 of it for exponential works at a = 1). Domain: one server, speed independent of the
number active, no synchronization time, rewards at once, nothing dropped. Second route: the maximum by its quantile
function. Source: derived.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from asyncsim.theory import _engines, _work
from asyncsim.theory._declared import Count
from asyncsim.theory._stated import stated


class _Setting(_engines.Engines):
    slots = _engines.slots(typical=(1, 12), example=16)
    groups_per_batch = _engines.groups(typical=(1, 6), example=4)
    samples_per_group = _engines.samples(typical=(1, 6), example=8)
    ahead = Count(0, typical=(0, 4), example=1, unit="batches", doc="batches out besides the one that is needed next")
    length = _engines.work(example="lognormal:1.0:0.8")
    train_time = _engines.train_time(typical=(0.5, "exponential:1.5"), example=1.0)

    @property
    def samples(self) -> int:
        """Q, samples of a batch."""
        return self.groups_per_batch * self.samples_per_group

    def sum(self, mean: float, longest: float) -> dict[str, float]:
        """The bound from the mean work and the mean of the pool's longest."""
        return {"batch_seconds": math.fsum(self.parts(mean, longest).values())}

    def parts(self, mean: float, longest: float) -> dict[str, float]:
        """Terms of the bound, under names of their own where several batches are out."""
        terms = {
            "load": self.samples * mean / self.slots,
            "random straggler" if longest > mean else "straggler": longest / (self.ahead + 1),
            "training": self.train_time,
        }
        return {f"{name} of a pool" if self.ahead else name: value for name, value in terms.items()}


def _parts(s: _Setting) -> dict[str, float]:
    return s.parts(s.length.mean(), _work.longest(s.length, s.samples * (s.ahead + 1)))


def _predict(s: _Setting) -> dict[str, float]:
    return {"batch_seconds": math.fsum(_parts(s).values())}


def _scaled(term: str) -> Callable[[_Setting, float], dict[str, float]]:
    """The bound with one term multiplied by a factor."""

    def bound(s: _Setting, factor: float) -> dict[str, float]:
        parts = _parts(s)
        return {"batch_seconds": math.fsum(x * (factor if name == term else 1.0) for name, x in parts.items())}

    return bound


def _cross_check(s: _Setting) -> dict[str, float]:
    longest = _work.longest_by_quantiles(s.length, s.samples * (s.ahead + 1))
    return s.sum(_work.longest_by_quantiles(s.length, 1), longest)


claim = stated(
    id="systems/list-scheduling-pool",
    statement="a pool of `a+1` batches on `k` slots takes at most `Q mu/k + E[longest of the pool]/(a+1) + t_T` a "
    "batch",
    kind="bound",
    status="open",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived at a = 0; a conjecture beyond",
    formula_defects={
        "training hidden behind generation": lambda s: {
            "batch_seconds": max(_predict(s)["batch_seconds"] - s.train_time, s.train_time)
        },
        "perfect balance, no straggler": lambda s: s.sum(s.length.mean(), 0.0),
    },
    terms={
        name: _scaled(name)
        for part in ("load", "straggler", "random straggler", "training")
        for name in (part, f"{part} of a pool")
    },
)
