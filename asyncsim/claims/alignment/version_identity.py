r"""The products of a gradient with the moves after and before its weights differ in sign, even at random staleness.

with any optimizer and any staleness above zero, the mean product of a gradient with the move `d` after its own weights
is `+E d^T H d / 2`, and with the move before them minus this value

x_{v+1} = x_v + d_v by any optimizer, stationary, loss x^T H x / 2. For a gradient g' read at x_v and applied later,
E<g', d_v> = -E d^T H d / 2 and E<g', d_{v-1}> = +E d^T H d / 2, in ascent direction with both signs reversed.
Quantities are in units of E d^T H d, ascent. Derivation: E x^T H x is the same before and after a move, so 2 E x^T H d
= -E d^T H d; the same with x_{v+1} = x_v + d_v one move later. Only the mean of g' given x_v enters, so its noise must
not have moved x_v: staleness of 1 or more. Domain: symmetric Hessian, staleness drawn anew for every update, stationary
with finite variance. Second route: the law itself. For gradient descent and heavy ball it is the Kronecker solution of
the covariances of iterates and velocity. For descent by signs (Adam with both decay rates 0) it is that of a Markov
chain on the lattice of iterates.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_matrix, eye
from scipy.sparse.linalg import spsolve
from scipy.special import ndtr

from asyncsim.base.declared import Choice, Positive, Vector
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab, replaced, sim, units_for, up_to
from asyncsim.claims._random import staleness_law

_BETA = 0.5
"""Momentum of the heavy ball."""
_UPDATES, _LONGEST_RUN = 300, 3000
_SPREAD = {"sgd": 0.075, "momentum": 0.055, "sign": 0.055}
"""Largest relative standard deviation of one replicate's product at the points below (measured)."""
_SGD = {"optimizer": "sgd", "law": (0.0, 0.7, 0.0, 0.3), "curvatures": (1.0, 0.5), "noise": 1.0, "step": 0.45}
_SIGN = {**_SGD, "optimizer": "sign", "law": (0.0, 0.7, 0.3), "step": 1.0}


@dataclass
class Stamped:
    """Mean products of gradients with parameter moves by version, and of moves with themselves, times curvature.

    Its result, `[R]` each: "after" the version, "before" it, "energy". `kept` iterates reach back to the oldest stamp.
    """

    curvatures: tuple[float, ...]
    kept: int
    after: int
    path: list[np.ndarray] = field(default_factory=list, repr=False)
    sums: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    name = "stamped"
    outputs = ()

    def fresh(self) -> Stamped:
        return dataclasses.replace(self, path=[], sums={})

    def observe(self, step: lab.Step) -> None:
        self.path = [*self.path[-self.kept :], step.parameters.double().numpy().copy()]
        if step.update < self.after:
            return
        late = step.batch.train_version - step.batch.version[:, 0, 0, 0]
        path, rows = np.array(self.path), np.arange(len(step.parameters))
        at = len(path) - 1 - np.broadcast_to(late, rows.shape)
        gradient, here = step.gradient.double().numpy(), path[at, rows]
        moves = {"after": path[np.minimum(at + 1, len(path) - 1), rows] - here, "before": here - path[at - 1, rows]}
        last = path[-1] - path[-2]
        products = {name: (gradient * move).sum(-1) for name, move in moves.items()}
        products["energy"] = (last**2 * np.array(self.curvatures)).sum(-1)
        for name, product in products.items():
            self.sums[name] = self.sums.get(name, 0.0) + product

    def result(self) -> dict[str, np.ndarray]:
        return self.sums


def _warm_up(point: Point) -> int:
    """Warm-up updates: at least ten relaxation times of the slowest mode."""
    relaxing = point["step"] * min(point["curvatures"]) / (point["noise"] if point["optimizer"] == "sign" else 1.0)
    return max(30 * len(point["law"]), math.ceil(10.0 / relaxing))


class VersionIdentity(Claim):
    kind, source = "identity", "derived: a move leaves E x^T H x as it was"

    optimizer = Choice("sgd", "momentum", "sign", example="sgd", doc="rule that makes a step of gradients")
    law = staleness_law(", the first 0", 0.0, 0.6, 0.0, 0.4)
    curvatures = Vector(0.0, example=(1.0, 0.3), unit="gradient per parameter", doc="curvatures of the modes")
    noise = Positive(typical=(0.5, 2.0), example=0.5, unit="gradient", doc="noise of one gradient in each mode")
    step = Positive(example=0.2, unit="parameter per gradient", doc="learning rate")

    def joint(self) -> None:
        """Require a stable recursion, and no staleness 0, because a fresh gradient's noise enters its own move."""
        law, longest = self.law, {"sgd": 12, "momentum": 12, "sign": 3}[self.optimizer] + 1
        fits = bool((law >= 0.0).all()) and abs(float(law.sum()) - 1.0) < 1e-9 and law[0] == 0.0 and law[-1] > 0.0
        bound = f"probabilities of 2 to {longest} values that add up to 1, the first 0, the last above 0"
        self.require(fits and len(law) <= longest, "law", bound, "divide by their sum")
        top, low = (self.step * float(h) for h in (self.curvatures.max(), self.curvatures.min()))
        if self.optimizer == "sign":
            inside = 0.05 * self.noise <= low and top <= 2.0 * self.noise
            self.require(inside, "step", "such that step * curvature is in [0.05, 2] noise", "scale it")
        else:
            growth = np.abs(np.linalg.eigvals(self._transition(float(self.curvatures.max()))[0])).max()
            self.require(growth < 0.99, "step", "below the mean-square boundary", "lower the learning rate")

    def _transition(s, curvature: float) -> tuple[np.ndarray, np.ndarray]:
        """Means over staleness of A kron A and of A, which advances the iterates, newest first, and the last move."""
        beta, size = (_BETA if s.optimizer == "momentum" else 0.0), len(s.law) + 1
        matrices = []
        for delay in range(len(s.law)):
            matrix = np.eye(size, k=-1)
            matrix[-1], matrix[0, 0] = 0.0, 1.0
            matrix[-1, delay], matrix[-1, -1] = -s.step * curvature, beta
            matrix[0] += matrix[-1]
            matrices.append(matrix)
        pairs: np.ndarray = sum(p * np.kron(m, m) for p, m in zip(s.law, matrices, strict=True))
        return pairs, sum(p * m for p, m in zip(s.law, matrices, strict=True))

    def _linear(s, curvature: float) -> np.ndarray:
        """(E d^2, E x_v d_v, E x_v d_{v-1}) for one mode of descent with momentum."""
        transition, average = s._transition(curvature)
        size = len(average)
        moves = np.zeros(size)
        moves[[0, -1]] = s.step * s.noise
        covariance = np.linalg.solve(np.eye(size**2) - transition, np.outer(moves, moves).ravel()).reshape(size, size)
        following = average @ covariance
        return np.array([covariance[-1, -1], following[-1, 0], covariance[0, -1]])

    def _signs(s, curvature: float) -> np.ndarray:
        """The same moments for sign descent: iterates on a lattice, together with the last moves of all delays."""
        depth = len(s.law) - 1
        reach = 2 * depth + int(np.ceil(9.0 * s.noise / (s.step * curvature)))
        histories = np.array(list(itertools.product((-1, 1), repeat=depth)))
        place = np.repeat(np.arange(-reach, reach + 1), len(histories))
        history = np.tile(np.arange(len(histories)), 2 * reach + 1)
        older = place[:, None] - np.cumsum(np.pad(histories[history], ((0, 0), (1, 0))), axis=1)
        up = ndtr(-older * s.step * curvature / s.noise) @ s.law
        shifted, rows, columns, chances = history // 2, [], [], []
        for move, chance in ((1, up), (-1, 1.0 - up)):
            to = (np.clip(place + move, -reach, reach) + reach) * len(histories)
            columns.append(to + shifted + (len(histories) // 2 if move == 1 else 0))
            rows.append(np.arange(place.size))
            chances.append(chance)
        chain = coo_matrix((np.concatenate(chances), (np.concatenate(rows), np.concatenate(columns))))
        # Its law adds up to 1; one closed class leaves an equation too many.
        middle, right = place.size // 2, np.zeros(place.size)
        equations = (eye(place.size, format="csr") - chain.tocsr().T).tolil()
        equations[middle], right[middle] = 1.0, 1.0
        law = spsolve(equations.tocsc(), right)
        last = histories[history, 0]
        return s.step**2 * np.array([1.0, law @ (place * (2.0 * up - 1.0)), law @ (place * last)])

    def predict(s) -> dict[str, float]:
        return {"after": 0.5, "before": -0.5}

    def check(s) -> dict[str, float]:
        """Predict from the stationary distribution, with each mode's moves weighted by its curvature."""
        mode = s._signs if s.optimizer == "sign" else s._linear
        laws = np.array([mode(h) for h in s.curvatures])
        after, before = -(s.curvatures @ laws[:, 1:]) / (s.curvatures @ laws[:, 0])
        return {"after": float(after), "before": float(before)}

    wrong = {"factor 1/2 forgotten": lambda s: {"after": 1.0, "before": -1.0}}

    points = (_SGD, {**_SGD, "optimizer": "momentum", "law": (0.0, 0.6, 0.4), "step": 0.3}, _SIGN)
    more = ({**_SGD, "law": (0.0, *(0.25,) * 4), "step": 0.35},)

    _slow = f"a warm-up of at most {_LONGEST_RUN} updates, not {{}}; take a larger step"
    reach = staticmethod(up_to(_LONGEST_RUN, _warm_up, _slow))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # Equal coordinates of each curvature under one realization of delays.
        curvatures, after, step = point["curvatures"] * 24, _warm_up(point), point["step"]
        descent, rule = sim.updates.sgd(step), point["optimizer"]
        with_memory = {"momentum": (sim.updates.momentum(_BETA), descent), "sign": (lab.adam(step, 0.0, 0.0, 0.0),)}
        links, replicates = with_memory.get(rule, (descent,)), units_for(_SPREAD[rule], effect, 8)
        task, late = sim.tasks.quadratic(curvatures, noise=point["noise"]), sim.schedules.random(point["law"])
        stamped = Stamped(curvatures, len(point["law"]) + 2, after)
        size = {"updates": _UPDATES + after, "replicates": replicates, "diagnostics": [stamped]}
        trace = lab.run(lab.descent(task, late, *links, **size), seed, plant)
        sums, unit = trace.accumulated, trace.realization
        return {name: lab.ratio(sums[name], sums["energy"], unit, random=True) for name in ("after", "before")}

    defects = {
        "gradient at the current weights": lambda: lab.with_method(at="current"),
        "batch used twice": lambda: replaced(epochs=2),
    }
