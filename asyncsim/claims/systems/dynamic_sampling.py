r"""Rounds of generation per batch if a filter rejects groups: full rounds, until P groups are accepted.

`P` accepted groups take `sum_r P(Bin(r R, a) < P)` rounds of `R` groups on average, each accepted with probability `a`

Each round generates R groups, each is accepted with probability a by itself, and rounds go on until P or more are; what
is beyond P is discarded. N rounds, A accepted. P(N > r) = P(Bin(r R, a) < P), so E N = sum_{r>=0} P(Bin(r R, a) < P).
N is decided by rounds so far, so Wald gives E A = a R E N, and of the accepted groups the share P / E A is kept.
R = 1 replaces every rejected group by one other: N is negative binomial of mean P/a, and nothing accepted is lost. Any
system that does so, synchronous or not, generates as many: acceptance knows nothing of lengths. Domain: rounds one
after the other under one version, acceptance independent of the lengths and of other groups. Second route: the chain
of the number accepted so far, solved as a linear system. Source: derived; the filter is that of DAPO (2503.14476).
"""

import numpy as np
from scipy.special import bdtr
from scipy.stats import binom

from asyncsim.base import laws
from asyncsim.claims import _engines, lab
from asyncsim.claims._claim import Count, Estimate, Plant, Point, Real, Timeline, replaced, within

_LARGEST = 1024


class DynamicSampling(_engines.Engines):
    kind, source = "expectation", "derived: binomial tails, Wald"

    groups_per_batch = _engines.groups(high=_LARGEST, typical=(1, 24), example=16)
    round = Count(1, _LARGEST, typical=(1, 24), example=12, unit="groups", doc="R, groups generated in a round")
    accept = Real(0.01, 1.0, typical=(0.1, 1.0), example=0.6, doc="a, probability to pass", remedy="accept some")

    def quantities(s, rounds: float) -> dict[str, float]:
        generated = s.round * rounds / s.groups_per_batch
        return {"rounds": rounds, "generated": generated, "kept": 1.0 / (s.accept * generated)}

    def predict(s) -> dict[str, float]:
        # Forty standard deviations of the number drawn until P are accepted.
        last = (s.groups_per_batch + 40.0 * np.sqrt(s.groups_per_batch) + 40.0) / (s.accept * s.round)
        drawn, few = np.arange(int(last) + 2) * s.round, s.groups_per_batch - 1
        more_rounds = np.where(drawn <= few, 1.0, bdtr(np.minimum(few, drawn), drawn, s.accept))
        return s.quantities(float(more_rounds.sum()))

    def check(s) -> dict[str, float]:
        size = s.groups_per_batch
        missing = np.arange(size)
        step = binom.pmf(missing[None, :] - missing[:, None], s.round, s.accept)
        return s.quantities(float(np.linalg.solve(np.eye(size) - step, np.ones(size))[0]))

    wrong = {"parts of rounds": lambda s: s.quantities(s.groups_per_batch / (s.accept * s.round))}

    points = ({"groups_per_batch": 16, "round": 24, "accept": 0.6}, {"groups_per_batch": 8, "round": 4, "accept": 0.8})
    more = ({"groups_per_batch": 4, "round": 1, "accept": 0.5},)

    def reach(self, point: Point) -> str | None:
        if point["accept"] < 0.1:
            return "an acceptance of at least 0.1; accept more, so that groups are few enough to be generated"
        return within(groups_per_batch=64, round=128)(point)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        system = lab.System(
            "rounds", {}, laws.lognormal(1.0, 0.8), (1.0,) * point["round"], point["groups_per_batch"],
            quantum=point["round"], accept=float(point["accept"]), rounds=True, train_time=0.5,
        )  # fmt: skip

        def numbers(record: Timeline) -> dict[str, float]:
            fate, generated = record.groups["fate"], len(record.groups["fate"]) / len(record.uses["group"])
            accepted = ((fate == "trained") | (fate == "dropped_overflow")).sum()
            rounds = generated * point["groups_per_batch"] / point["round"]
            return {"rounds": rounds, "generated": generated, "kept": float((fate == "trained").sum() / accepted)}

        count = lab.realizations_for(0.013, effect, 0.0, comparisons=6)
        return lab.means(lab.timelines(plant(system), 1000, 1, count, seed), numbers)

    defects = {
        "a rejected group trained": lambda: replaced(accept=1.0),
        "groups replaced one by one": lambda: replaced(quantum=1),
        "surplus counted as trained": lambda: lab.kernel_defects.dropped_counted_as_trained,
    }
