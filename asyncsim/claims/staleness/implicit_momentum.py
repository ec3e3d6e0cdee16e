r"""With exponential workers, asynchrony acts on the mean as momentum 1 - 1/M, whatever the loss.

with `M` workers of exponential duration that update on arrival, mean descent has momentum: `E[x_(t+1) - x_t] = (1 -
1/M) E[x_t - x_(t-1)] - (step/M) E[grad f(x_t)]`

E[x_{t+1} - x_t] = (1 - 1/M) E[x_t - x_{t-1}] + (step/M) E g(x_t) for t >= 1, x_1 - x_0 = step g(x_0), g the mean ascent
direction. Derivation: the mean over workers of g at what they have read changes by (g(x_t) - g(read)) / M an update. On
a linear gradient the mean is stable iff step * curvature < 2 (2 M - 1). Domain: M workers with independent exponential
times of one rate, each reads after its own update; the mean alone (`staleness/exponential-workers-second-moment`). Here
x are logits of a softmax bandit. Second route: the mean over every order of workers, and root finding on the radius of
the recursion of iterate and mean read value.
"""

import numpy as np

from asyncsim.claims._bandit import refuse_equal, softmax
from asyncsim.claims._claim import Estimate, Plant, Point, Positive, Vector, indexed, lab, sim, units_for, within
from asyncsim.claims._random import ExponentialWorkers, paths
from asyncsim.claims._recursion import first_unstable

_POINT = {"workers": 3, "updates": 5, "curvature": 2.0, "rewards": (0.0, 0.5, 1.0), "step": 2.0}


class ImplicitMomentum(ExponentialWorkers):
    kind, source, relative_to, through = "expectation", "arXiv 1605.09774; derived for any loss", "norm", "kernel, loop"

    rewards = Vector(typical=(0.1, 1.0), length=3, example=(0.0, 0.5, 1.0), doc="rewards of the arms")
    step = Positive(typical=(0.01, 3.0), example=2.0, unit="logits per gradient", doc="learning rate of the run")

    def joint(self) -> None:
        refuse_equal(self.rewards)

    def ascent(self, logits: np.ndarray) -> np.ndarray:
        """Policy gradient pi o (r - pi . r), `[K, A]`."""
        pi = softmax(logits)
        return pi * (self.rewards - (pi @ self.rewards)[:, None])

    def orders(self) -> np.ndarray:
        """Logits along every order of workers, `[K, T+1, A]`."""
        return paths(self.workers, self.updates, np.zeros(3), lambda read: self.step * self.ascent(read))

    def quantities(s, boundary: float, logits: np.ndarray) -> dict[str, float]:
        return {"step": boundary / s.curvature} | indexed("logit", logits)

    def predict(s, scale: float | None = None) -> dict[str, float]:
        """Mean logits by the momentum recursion with learning rate step * `scale` (default 1/M)."""
        keep = 1.0 - 1.0 / s.workers
        scale = 1.0 / s.workers if scale is None else scale
        forces = [s.ascent(each).mean(axis=0) for each in s.orders().transpose(1, 0, 2)]
        mean, change = s.step * forces[0], s.step * forces[0]
        for force in forces[1:-1]:
            change = keep * change + s.step * scale * force
            mean = mean + change
        return s.quantities(2.0 * (2 * s.workers - 1), mean)

    def check(s) -> dict[str, float]:
        def moved(a: float) -> np.ndarray:
            share = 1.0 / s.workers
            return np.array([[1.0, -a], [share, 1.0 - share - share * a]])

        return s.quantities(first_unstable(moved, 0.1, 5.0 * s.workers), s.orders()[:, -1].mean(axis=0))

    wrong = {"full learning rate beside the momentum": lambda s: s.predict(scale=1.0)}

    points = (_POINT,)
    more = ({**_POINT, "workers": 2, "updates": 8}, {**_POINT, "workers": 6})
    reach = staticmethod(within(workers=12))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        updates, task = point["updates"], sim.tasks.softmax_bandit(3, point["rewards"], rewards="fixed")
        system, size = lab.paths.of_workers(point["workers"], updates, units_for(0.06, effect, 12), seed)
        spec = lab.ascent(task, system, sim.methods.reinforce(), point["step"], updates, **size)
        logits = lab.run(spec, seed, plant).parameters
        found = {f"logit[{k}]": lab.paths.mean_of(logits[:, k]) for k in range(3)}
        # The mean of a linear gradient has two roots; a defect may add one.
        bracket = (0.05 / point["curvature"], 5.0 * point["workers"] / point["curvature"])
        orders = lab.paths.orders(point["workers"], 6)
        step = lab.paths.moment_boundary(*orders, point["curvature"], bracket, seed, plant, power=1)
        return {"step": step, **found}

    defects = {
        "off-by-one version": lambda: lab.off_by_one_version,
        "workers in rotation": lambda: lab.paths.in_rotation,
    }
