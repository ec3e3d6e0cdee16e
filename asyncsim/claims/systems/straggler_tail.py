r"""If the oldest ready group is trained first, a straggler is as stale as it is late: P(s >= k) = P(T > (k - 1) tau).

if the oldest group is trained first and the trainer never waits, `P(s >= k) = P(T > (k - 1) tau)` for `k >= K/P`

K permits, a slot for each, P groups a batch, one batch a publish. The trainer never waits and so publishes every tau
seconds (constant train time); T is the generation time of a group. For k >= K/P where permits return at the publish, k
>= K/P + 1 at the dequeue. Derivation: a group starts right after a publish, and batches form every tau seconds. All
groups ahead of a late one have trained before it ends. So it joins the first batch after its end, ceil(T/tau) publishes
on. Groups in time have s < K/P. The mean stays that of `systems/cap-binds`. Exact as P grows at fixed K/P. For finite P
a straggler waits when P others become ready in one period, and the trainer by chance. Domain: P >= 16 and c = K/P (K/P
+ 1 at the dequeue) >= 2 + E[T]/tau. Then c - 1 - sum_j P(T > j tau) batches are ready at a publish, about one and a
half or more. Second route: versions as masses that flow, oldest first.
"""

import math
from typing import Any

import numpy as np

from asyncsim.base import checks, laws
from asyncsim.claims import _engines, lab
from asyncsim.claims._claim import Estimate, Parsed, Plant, Point, named, replaced, within

_DEEPEST = 256
_FINITE = 0.005
"""How far batches of the fewest groups within reach are from infinitely many, by the norm (measured)."""
_point = named(
    "tickets", "groups_per_batch", "length", "levels", "release", "samples_per_group",
    release="publish", samples_per_group=1, period=1.0,
)  # fmt: skip
_PARETO = _point(128, 32, "pareto:0.5:1.5", (4, 5, 6, 8))


def _levels(field: str, value: Any) -> list[int]:
    is_list = isinstance(value, tuple | list) and len(value) > 0
    checks.require(is_list, field, value, "a tuple of integers", "name levels k")
    return [checks.integer(field, k, 1, "count versions", _DEEPEST) for k in value]


class StragglerTail(_engines.Engines):
    kind, status, source = "distribution", "asymptotic", "derived: stragglers join the first batch after their end"
    relative_to, effect = "norm", 0.05

    tickets = _engines.tickets(example=128)
    groups_per_batch = _engines.groups(
        low=16, typical=(16, 48), example=32, remedy="stragglers wait for each other in small batches"
    )
    release = _engines.release(example="publish")
    samples_per_group = _engines.samples(typical=(1, 4), example=1)
    length = _engines.smooth_length(example="pareto:0.5:1.5")
    period = _engines.period(typical=(0.5, 4.0), example=1.0)
    levels = Parsed(
        _levels, f"whole numbers up to {_DEEPEST}", example=(4, 5, 6, 8), unit="versions", doc="levels k of P(s >= k)"
    )

    def joint(self) -> None:
        reason = "give at least one group permit for each group of a batch"
        checks.integer("tickets", self.tickets, self.groups_per_batch, reason)
        early = self.release == "dequeue"
        self.cover = self.tickets / self.groups_per_batch + early
        needed = 2.0 + self.length.expected_max(self.samples_per_group) / self.period
        reason = "with fewer the trainer waits; raise the tickets or the period"
        self.require(self.cover >= needed, "tickets", f">= {needed - early:.4g} batches", reason)
        reason = "below K/P it is the order and not the length that decides"
        for level in self.levels:
            checks.integer("levels", level, math.ceil(self.cover), reason, _DEEPEST)

    def survival(self, seconds: np.ndarray) -> np.ndarray:
        """P(T > seconds) for a group, whose time is that of its longest sample."""
        with np.errstate(divide="ignore"):
            return np.asarray(-np.expm1(self.samples_per_group * np.log1p(-self.length.survival(seconds))))

    def quantities(s, tails: np.ndarray) -> dict[str, float]:
        return {f"tail[{k}]": float(tail) for k, tail in zip(s.levels, tails, strict=True)}

    def predict(s) -> dict[str, float]:
        return s.quantities(s.survival((np.array(s.levels) - 1.0) * s.period))

    def check(s) -> dict[str, float]:
        """Deterministic fluid: each version admits mass 1 at its publish, and each batch trains mass 1, oldest first.

        Outstanding and not in training is K/P - 1, all of it version 0 at the start. One version behind the start-up is
        followed until the last level.
        """
        tagged = 2 * math.ceil(s.cover) + 8
        last = tagged + max(s.levels)
        finished_share = 1.0 - s.survival(np.arange(last + 1) * s.period)
        size, trained_mass = np.zeros(last + 1), np.zeros(last + 1)
        size[0] = s.cover - 1.0
        untrained_share = {}
        for now in range(1, last + 1):
            # Batch `now` forms at the publish of version `now`, whose groups are admitted behind it.
            ready = size[:now] * finished_share[now:0:-1] - trained_mass[:now]
            batch = np.minimum(np.cumsum(np.maximum(ready, 0.0)), 1.0)
            trained_mass[:now] += np.diff(batch, prepend=0.0)
            size[now] = batch[-1]
            untrained_share[now] = 1.0 - trained_mass[tagged] / size[tagged] if now > tagged else 1.0
        return s.quantities(np.array([untrained_share[tagged + k - 1] for k in s.levels]))

    wrong = {"a level early": lambda s: s.quantities(s.survival(np.array(s.levels) * s.period))}

    points = (_PARETO, _point(96, 32, "lognormal:0.7:0.8", (4, 5, 6), "dequeue", 4))
    more = (_point(64, 16, "exponential:1.0", (4, 5, 6)),)

    def reach(self, point: Point) -> str | None:
        law, samples = laws.as_law("length", point["length"]), point["samples_per_group"]
        tail = float(law.survival((min(point["levels"]) - 1) * point["period"]))
        rare = "levels that two of a hundred groups reach; lower them"
        return within(tickets=1024)(point) or (None if 1.0 - (1.0 - tail) ** samples >= 0.02 else rare)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        tickets, batch, levels = point["tickets"], point["groups_per_batch"], point["levels"]
        realizations = lab.realizations_for(0.06, effect, _FINITE, 16)
        system = plant(lab.engine(point, places=tickets, order="oldest_start", train_time=point["period"]))
        warm_up, versions = 4 * -(-tickets // batch) + 40, 6000 // batch
        last = warm_up + versions + max(levels) + 1
        rows = []
        for record in lab.timelines(system, last, point["samples_per_group"], realizations, seed):
            groups = record.groups
            inside = (groups["v_start"] >= warm_up) & (groups["v_start"] < warm_up + versions)
            # A group that has not been trained by the end of the record is older than every level.
            training_version = np.where(groups["v_train"] >= 0, groups["v_train"], last)[inside]
            staleness = training_version - groups["v_start"][inside]
            rows.append([np.mean(staleness >= k) for k in levels])
        tails = [lab.mean_over_realizations(column) for column in np.array(rows).T]
        norm = float(np.hypot.reduce([t.value for t in tails]))
        return {f"tail[{k}]": t._replace(tolerance=_FINITE * norm) for k, t in zip(levels, tails, strict=True)}

    defects = {
        "stragglers wait their turn": lambda: replaced(order="done"),
        "an install not counted": lambda: lab.kernel_defects.version_off_by_one,
        "a longer period": lambda: replaced(train_time=1.1),
    }
