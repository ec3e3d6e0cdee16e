r"""Softmax policy gradients approach the best arm as (1 - 1/K)/(step t), whatever the rewards and the staleness.

with exact gradients of any staleness, a softmax bandit's return approaches the best as `r* - J = (1 - 1/K)/(step * t)`

K arms, exact gradients tau updates old. Late in a run the best arm has nearly all mass and x_a = pi_a (r* - r_a) of any
other arm obeys d log x_a = -step (x_a + X) dt, X = sum x = r* - J: its own logit falls with x_a, that of the best arm
rises with X. All solutions end at x_a = 1/(K step t). So
    1/(r* - J_t) grows by step K/(K - 1) at each update   ("rate").
Gaps of rewards only set when that begins. Staleness shifts t by tau, so it costs nothing in the end. Arms come to equal
x like t^{-1/K}. Where step and staleness together make the first updates overshoot, that takes long. Domain: one best
arm, noiseless, group baselines without ratio. Second route: the fixed point of y = t x by linear algebra.
"""

import numpy as np

from asyncsim.base.declared import Positive, Staleness, Vector
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, checks, lab, named, sim, up_to

_UPDATES, _LONGEST, _EVERY, _EFFECT = 400, 12_800, 4, 0.02
"""Updates that see this effect near the points below, those of the longest run, and how often they are recorded."""
_SWING = 8.0
"""Most that a logit moves before the first update is answered, times the range of rewards."""
_TWO, _THREE = (0.0, 1.0), (0.0, 0.5, 1.0)
_point = named("rewards", "step", "staleness")


class LastIterate(Claim):
    kind, status, source = "exponent", "asymptotic", "derived; arXiv 2005.06392 for the order 1/t"
    effect = _EFFECT

    rewards = Vector(typical=(0.0, 1.0), sizes=(2, 4), example=(0.0, 0.4, 1.0), unit="reward", doc="mean of each arm")
    step = Positive(typical=(0.1, 4.0), example=1.0, unit="logit per gradient", doc="learning rate")
    staleness = Staleness(0, 64, typical=(0, 12), example=4)

    def joint(self) -> None:
        rewards = self.rewards.tolist()
        self.require(len(rewards) >= 2, "rewards", "rewards of at least two arms", "add an arm")
        best = int((self.rewards == self.rewards.max()).sum())
        self.require(best == 1, "rewards", "one best arm", "lower the others")

    def predict(s) -> dict[str, float]:
        return {"rate": s.step / (1.0 - 1.0 / s.rewards.size)}

    def check(s) -> dict[str, float]:
        others = s.rewards.size - 1
        # y_a = t step x_a stands still where 1 = y_a + sum y.
        still = np.linalg.solve(np.eye(others) + np.ones((others, others)), np.ones(others))
        return {"rate": s.step / float(still.sum())}

    wrong = {"slower by the staleness": lambda s: {"rate": s.predict()["rate"] / (s.staleness + 1)}}

    points = (_point(_TWO, 4.0, 0), _point(_TWO, 1.0, 4), _point(_THREE, 4.0, 1))
    more = (_point(_THREE, 4.0, 0), _point((0.2, 0.8), 2.0, 4), _point((0.5, 0.5, 1.0), 2.0, 2))

    _fast = f"step (staleness + 1) range at most {_SWING:g}, not {{:.3g}}; take smaller steps"
    reach = staticmethod(up_to(_SWING, lambda p: p["step"] * (p["staleness"] + 1) * float(np.ptp(p["rewards"])), _fast))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        def growth(gap: np.ndarray) -> float:
            """Slope of 1/gap `[U]` in t over the last three quarters, fitted with a logarithmic correction."""
            late = slice(len(gap) // 4, None)
            t = trace.updates[: len(gap)][late].astype(np.float64)
            columns = np.stack([t, np.ones_like(t), np.log(t)], axis=1)
            return float(np.linalg.lstsq(columns / t[-1], (1.0 / gap)[late] / t[-1], rcond=None)[0][0])

        task = sim.tasks.softmax_bandit(len(point["rewards"]), point["rewards"], rewards="fixed")
        method = sim.methods.reinforce(sim.advantages.group_mean())
        schedule = lab.fixed(point["staleness"])
        settings = {"diagnostics": ["exact_return"], "every": _EVERY}
        # What is left of the approach falls like 1/t or slower.
        updates = _UPDATES * max(1, round((_EFFECT / effect) ** 2))
        while True:
            trace = lab.run(lab.ascent(task, schedule, method, point["step"], updates, **settings), seed, plant)
            gap, half = max(point["rewards"]) - trace["exact_return"][:, 0], len(trace.updates) // 2
            least = gap.min()
            checks.require(least > 0.0, "distance to the best arm", least, "above rounding", "take smaller steps")
            rate = growth(gap)
            # What is left falls at least like the square root of the time: half the run has 1.4 times as much. It may
            # change its sign between the two, at a size that was 2e-4 at most in forty points.
            left = 1e-3 * abs(rate) + 2.5 * abs(rate - growth(gap[:half]))
            if left <= 0.4 * effect * abs(rate):
                return {"rate": Estimate(rate, tolerance=left)}
            bound = f"at most {0.4 * effect:g} of the rate"
            remedy = "take larger steps, less staleness or a clearer best arm"
            share = left / max(abs(rate), 1e-300)
            checks.require(updates < _LONGEST, f"what {updates} updates leave of the approach", share, bound, remedy)
            updates *= 2

    defects = {
        "momentum inserted": lambda: lab.momentum_inserted,
        "entropy bonus": lambda: lab.with_method(constants={"entropy": 0.01}),
    }
