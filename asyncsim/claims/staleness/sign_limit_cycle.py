r"""Steps of a fixed size do not diverge on stale gradients: they end in a cycle whose range grows with staleness.

steps of fixed size on stale gradients end in a cycle of range `(2 tau + 1) * step`, period `4 tau + 2` and variance
`step^2 * ((2 tau + 1)^2 + 2)/12`

x_{t+1} = x_t - step sign(x_{t-tau}), which is Adam without memory (beta1 = beta2 = eps = 0). Behind a change of sign x
goes on for tau updates more, to either side, so the range is (2 tau + 1) step and the period 4 tau + 2: that of the
marginal mode of linear descent. The cycle visits both ends once and all places between twice, of variance step^2 ((2
tau + 1)^2 + 2)/12. The curvature does not matter. Domain: one coordinate without noise, no iterate at 0, a history that
did not change sign within tau updates (faster cycles exist for others). Second route: the recursion on integers, and
its first return to a whole history.
"""

import math

import numpy as np

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Positive, Real, Staleness, lab, replaced, sim

_POINT = {"staleness": 4, "step": 0.1, "start": 2.3, "curvature": 2.0}


class SignLimitCycle(Claim):
    kind, source, through = "identity", "derived", "loop"

    staleness = Staleness(0, 64, typical=(0, 16), example=4)
    step = Positive(typical=(0.01, 1.0), example=0.1, unit="parameter", doc="size of every step")
    start = Real(0.05, 64.95, typical=(0.1, 20.0), example=2.3, unit="steps", doc="distance at the start")
    curvature = Positive(typical=(0.1, 10.0), example=2.0, doc="curvature of the loss (does not affect the result)")

    def joint(self) -> None:
        """Require a start off the multiples of the step size, where the gradient would be 0 up to rounding."""
        apart = abs(self.start - round(self.start)) >= 0.01
        self.require(apart, "start", "at least 0.01 steps from a whole number of them", "move it")

    def stated(s, width: float, period: float, variance: float) -> dict[str, float]:
        return {"range": width * s.step, "period": period, "variance": variance * s.step**2}

    def predict(s) -> dict[str, float]:
        width = 2 * s.staleness + 1
        return s.stated(width, 2 * width, (width**2 + 2) / 12.0)

    def check(s) -> dict[str, float]:
        # Places in hundredths of a step, so that all are whole numbers and none is 0.
        history = [100 * math.floor(s.start) + 50] * (s.staleness + 1)
        seen: dict[tuple[int, ...], int] = {}
        visited: list[int] = []
        while tuple(history) not in seen:
            seen[tuple(history)] = len(visited)
            visited.append(history[-1])
            history = [*history[1:], history[-1] - (100 if history[0] > 0 else -100)]
        cycle = np.array(visited[seen[tuple(history)] :]) / 100.0
        return s.stated(float(np.ptp(cycle)), cycle.size, float(cycle.var()))

    wrong = {
        "period 4 tau + 4": lambda s: {"period": 4.0 * s.staleness + 4.0},
        "variance of a sine": lambda s: {"variance": s.predict()["range"] ** 2 / 8.0},
    }

    points = (_POINT, {**_POINT, "staleness": 0}, {**_POINT, "staleness": 1})
    more = ({**_POINT, "staleness": 16}, {**_POINT, "staleness": 8, "start": 11.7, "curvature": 0.3})

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        tau, step, start = point["staleness"], point["step"], point["start"]
        # The way to 0, and some cycles more.
        way, count = math.ceil(start) + 4 * tau + 6, math.ceil(start) + 16 * tau + 24
        task = sim.tasks.quadratic((point["curvature"],), noise=0.0, start=start * step)
        memoryless = lab.adam(step, 0.0, 0.0, eps=0.0)
        options = {"updates": count, "replicates": 1, "sampling": "enumerate", "diagnostics": [lab.PLACE]}
        place = lab.run(lab.descent(task, lab.fixed(tau), memoryless, **options), seed, plant)["place"][:, 0]
        # The shortest shift under which all of what follows repeats itself.
        rest = place[way:]
        returned = [p for p in range(1, rest.size // 2) if np.abs(rest[p:] - rest[:-p]).max() < 1e-6 * step]
        period = min(returned, default=rest.size)
        cycle = rest[:period]
        return {
            "range": Estimate(float(np.ptp(cycle)), tolerance=1e-6 * step),
            "period": Estimate(float(period)),
            "variance": Estimate(float(cycle.var()), tolerance=1e-6 * step**2),
        }

    defects = {
        "off-by-one version": lambda: lab.off_by_one_version,
        "momentum inserted": lambda: lab.momentum_inserted,
        "steps in proportion to the gradient": lambda: replaced(update=sim.chain(sim.updates.sgd(0.1))),
    }
