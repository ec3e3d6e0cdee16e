r"""Exponential workers that update on arrival have geometric staleness.

the staleness of exponential workers that update on arrival is mixed geometric, `sum_i p_i^2 (1-p_i)^k`

With rates r_i and p_i = r_i / sum r: P(s = k) = sum_i p_i^2 (1 - p_i)^k, tail P(s >= c) = sum_i p_i (1 - p_i)^c.
Derivation: service is memoryless, so each arrival is worker i's with probability p_i whatever came before. Between i's
restart and its next delivery the arrivals of others are geometric, and a share p_i of the updates is i's. Domain:
exponential service, each worker restarts at once. Second route: the others deliver as a Poisson stream during i's
exponential service time; quadrature over that time.
"""

from collections.abc import Callable

import numpy as np
from scipy.stats import poisson

from asyncsim.base import laws
from asyncsim.claims import _engines, _lengths, lab
from asyncsim.claims._claim import Estimate, Plant, Point, sim, units_for, within
from asyncsim.claims._engines import Workers


class Geometric(Workers):
    kind, source, effect = "distribution", "derived: memoryless service", 0.05

    cells = _engines.cells(typical=(1, 6), example=12)

    def quantities(s, cell: Callable[[int], float], tail: float) -> dict[str, float]:
        return {f"p[{k}]": float(cell(k)) for k in range(s.cells)} | {"tail": float(tail)}

    def predict(s, late: int = 0) -> dict[str, float]:
        p, q = s.shares, 1.0 - s.shares
        return s.quantities(lambda k: (p**2 * q ** (k + late)).sum(), (p * q ** (s.cells + late)).sum())

    def check(s) -> dict[str, float]:
        counts = np.arange(s.cells)[:, None]
        cells, tail = np.zeros(s.cells), 0.0
        for p in s.shares:
            # Time in units of the mean gap between arrivals; e^{-60} of the mass lies beyond the end. Panels that widen
            # with time stay finer than the spread of a Poisson count.
            edges = np.concatenate([[0.0], np.geomspace(0.05, 60.0 / p, 80)])
            time, weights = _lengths.panels(edges, 24)
            density = weights * p * np.exp(-p * time)
            cells += p * (poisson.pmf(counts, (1.0 - p) * time) @ density)
            tail += p * float(poisson.sf(s.cells - 1, (1.0 - p) * time) @ density)
        return s.quantities(lambda k: cells[k], tail)

    wrong = {"exponent one too large": lambda s: s.predict(late=1)}

    points = ({"workers": 4, "rates": None, "cells": 8}, {"workers": 3, "rates": (1.0, 2.0, 4.0), "cells": 6})
    more = ({"workers": 8, "rates": None, "cells": 16},)
    reach = staticmethod(within(workers=64, cells=200))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        realizations = max(32, units_for(0.1, effect, 16))
        system = plant(sim.systems.update_on_arrival(point["workers"], laws.exponential(1.0), point.get("rates")))
        warm_up = 40 * point["workers"] + 200
        heads = lab.stationary_heads(system, warm_up + 8000, warm_up, realizations, seed)
        return lab.law_of(heads, point["cells"])

    defects = {
        "restart before the own update is written": lambda: lab.restarts_early,
        "a group permit lost": lambda: lab.ticket_lost,
    }
