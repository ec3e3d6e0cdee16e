r"""If staleness is drawn anew for every gradient, the mean square diverges at a smaller step than the mean.

with `B` values of staleness drawn for every update, the mean square of descent is bounded iff `a^2/B (phi_0 - sum p_d
p_e phi_(|d-e|)) < 1`; if 0 and 1 are equally likely, iff `a < B (sqrt(1 + 4/B) - 1)`

x_{t+1} = x_t - (a/B) sum_b x_{t-d_b}, B independent draws. On the averaged recursion the draws act as noise of energy
a^2/B (gamma_0 - sum p_d p_e gamma_{|d-e|}). At the boundary it keeps itself up: a^2/B (phi_0 - sum p_d p_e phi_{|d-e|})
= 1, phi the covariances under unit noise. For equal chances of 0 and 1: a = B (sqrt(1 + 4/B) - 1), so 1.236 at B = 1,
where the mean allows 2. Domain: linear gradient, B draws an update of one law. Second route: E x_T^2 over every
sequence of draws, and root finding on the radius of (1/B) sum p_d A_d x A_d + (1 - 1/B) A x A, A = sum p_d A_d.
"""

import itertools
import math
from typing import Any

import numpy as np

from asyncsim.claims import _random, lab
from asyncsim.claims._claim import Count, Estimate, Plant, Point, Real, sim, units_for, up_to
from asyncsim.claims._random import RandomDelays, check_paths, enumerated
from asyncsim.claims._recursion import first_unstable

_PATHS = 4000
_TWO = {"law": (0.5, 0.5), "groups": 2, "curvature": 2.0, "share": 0.25, "updates": 3}
_ONE = {**_TWO, "law": (0.25, 0.75), "groups": 1}


def _sets(point: Point) -> dict[tuple[int, ...], float]:
    """Unordered stalenesses of a batch's groups, with their probabilities."""
    chances: dict[tuple[int, ...], float] = {}
    for each in itertools.product(np.flatnonzero(point["law"]).tolist(), repeat=point["groups"]):
        key = tuple(sorted(each))
        chances[key] = chances.get(key, 0.0) + math.prod(point["law"][d] for d in each)
    return chances


def _length(point: Point) -> int:
    """Number of values of E x_t^2 that determine its recurrence, from products of as many iterates as stalenesses."""
    size = len(point["law"])
    return size * (size + 1)


def _one_draw(spec: Any) -> Any:
    """Plant in which all groups of a batch share one draw; enumerated orders stay unchanged."""
    law = spec.system.knobs.get("law")
    return spec.replace(system=sim.schedules.random(law, groups_per_batch=spec.groups)) if law else spec


class RandomMeanSquare(RandomDelays):
    kind, source, through = "threshold", "derived: the draws are white noise to the averaged recursion", "loop"

    groups = Count(1, 16, typical=(1, 2), example=2, doc="independent draws of an update")
    share = Real(0.0, 2.0, typical=(0.01, 1.0), example=0.7, doc="step * curvature of the run")
    updates = Count(1, 8, typical=(1, 4), example=4, unit="updates", doc="updates of the run")

    def joint(self) -> None:
        check_paths(self.law, self.updates, self.groups)

    def predict(s) -> dict[str, float]:
        # E x_T^2 by the recursion of moments.
        moments, size = np.ones((len(s.law), len(s.law))), len(s.law)
        matrices, average = _random.companions(s.law, s.share), _random.averaged(s.law, s.share)
        for _ in range(s.updates):
            drawn = sum((p * m @ moments @ m.T for p, m in zip(s.law, matrices, strict=True)), np.zeros((size, size)))
            moments = drawn / s.groups + (1.0 - 1.0 / s.groups) * average @ moments @ average.T
        boundary = _random.mean_square_boundary(s.law, s.groups)
        return {"step": boundary / s.curvature, "second_moment": float(moments[0, 0])}

    def check(s) -> dict[str, float]:
        def moved(a: float) -> np.ndarray:
            matrices, average = _random.companions(s.law, a), _random.averaged(s.law, a)
            drawn = sum(p * np.kron(m, m) for p, m in zip(s.law, matrices, strict=True))
            return np.asarray(drawn / s.groups + (1.0 - 1.0 / s.groups) * np.kron(average, average))

        last, mass = enumerated(s.law, s.share, s.updates, s.groups)
        boundary = first_unstable(moved, 0.2 / len(s.law), 6.0)
        return {"step": boundary / s.curvature, "second_moment": float(mass @ last**2)}

    wrong = {"boundary of the mean": lambda s: {"step": _random.mean_boundary(s.law) / s.curvature}}

    points = (_ONE, _TWO)
    more = ({**_TWO, "groups": 3}, {**_ONE, "law": (0.6, 0.0, 0.4)})

    _many = f"at most {_PATHS} sequences of draws; take laws of fewer values, or fewer groups"
    reach = staticmethod(up_to(_PATHS, lambda point: len(_sets(point)) ** (_length(point) - 1), _many))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        system = sim.schedules.random(point["law"], "group", groups_per_batch=point["groups"])
        trace = lab.paths.drawn(point, system, units_for(1.0, effect, 6), seed, plant)
        second = lab.paths.mean_of(trace.parameters[:, 0] ** 2, trace.realization)
        # The boundary from all sequences of draws; what the last update does is not seen.
        sets, count, scale = _sets(point), _length(point), 1.0 / point["curvature"]
        paths = lab.paths.listed(list(sets), count - 1)
        chance = lab.paths.listed(list(sets.values()), count - 1).prod(axis=1)
        version = np.arange(count)[None, :, None] - np.concatenate([paths, paths[:, :1]], axis=1)
        bracket = (0.4 * scale / len(point["law"]), 4.5 * scale)
        versions = np.maximum(version, 0)
        step = lab.paths.moment_boundary(versions, chance, point["curvature"], bracket, seed, plant)
        return {"step": step, "second_moment": second}

    defects = {
        "off-by-one version": lambda: lab.off_by_one_version,
        "one draw shared by the batch": lambda: (_one_draw, {**_TWO, "share": 1.0}),
    }
