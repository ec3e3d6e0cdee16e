r"""Logits that differ by at most D give E w^2 <= cosh(D)^{2 T} over T tokens; stale REINFORCE moves them slowly.

if logits changed by at most `D`, then `E w^2 <= cosh(D)^(2 T)`; stale REINFORCE with even `N` moves them by at most
`step * spread * N/(4 (N - 1))` per update

"second_moment": ratios of one token have M/m <= e^{2D}, so E w^2 <= (m + M)^2/(4 m M) = cosh^2 D; attained by two arms,
the one with behavior probability e^{-D}/(2 cosh D) raised by D and the other lowered by D. "move": on a group of N with
rewards in a range `spread`, leave-one-out REINFORCE without ratio moves a logit by at most step * spread * floor(N^2/4)
/ (N (N - 1)) per update. For even N this is step * spread * N / (4 (N - 1)). It is attained where half of the group are
one arm and earn all. "stale_second_moment": after S updates from one frozen policy D is S times that, so ESS/N >=
sech^2(S move). Derivation: Kantorovich's inequality; the covariance of reward and arm in a group. Domain: one softmax
row for all tokens, one context. Second route: the largest value over shares of the arm that rises.
"""

import math

import numpy as np
from scipy.optimize import minimize_scalar

import asyncsim as sim
from asyncsim.base import rng
from asyncsim.claims import lab
from asyncsim.claims._claim import Claim, Count, Estimate, Integer, Plant, Point, Positive, Real, Staleness, multiplied

_REPLICATES, _DRAWN = 2048, 200
_LIKELY = 20.0
"""Replicates that are expected to take the worst path; all miss it with a chance of e^-20."""
_POINT = {"radius": 0.7, "horizon": 1, "samples": 2, "spread": 1.0, "step": 0.6, "staleness": 3}


def _largest_moves(point: Point) -> float:
    """Largest change of an arm's logit, which occurs when half of a group draws the arm."""
    half, N = point["samples"] // 2, point["samples"]
    return float(point["step"] * point["spread"] * half * (N - half) / (N * (N - 1)))


class LogitRadius(Claim):
    kind, source = "bound", "derived; Kantorovich inequality"
    through = "oracle, loop"

    radius = Real(0.0, 5.0, open_low=True, typical=(0.05, 2.0), example=0.7, unit="nats", doc="D, maximum logit change")
    horizon = Integer(1, 64, typical=(1, 4), example=2, unit="tokens", doc="length of a sequence")
    samples = Count(2, typical=(2, 9), example=4, doc="samples of a group")
    spread = Positive(typical=(0.1, 2.0), example=1.0, unit="reward", doc="maximum minus minimum reward")
    step = Positive(typical=(0.05, 0.5), example=0.8, unit="logits per gradient", doc="learning rate")
    staleness = Staleness(1, typical=(1, 4), example=3)

    def joint(self) -> None:
        largest = max(self.horizon * self.radius, self.staleness * self._move())
        allowed = math.log(1e12) / 2.0
        bound = f"such that the logits of a sequence ({largest:.3g}) move by at most {allowed:.3g}"
        self.require(largest <= allowed, "horizon", bound, "lower the radius or the step")

    def _move(s) -> float:
        return float(s.step * s.spread * (s.samples**2 // 4) / (s.samples * (s.samples - 1)))

    def predict(s) -> dict[str, float]:
        move = s._move()
        second, stale = math.cosh(s.radius) ** (2 * s.horizon), math.cosh(s.staleness * move) ** 2
        return {"second_moment": second, "move": move, "stale_second_moment": stale}

    def check(s) -> dict[str, float]:
        N = s.samples

        def worst(radius: float) -> float:
            """Maximum E w^2 of two arms over the log odds of the arm that rises."""

            def second(log_odds: float) -> float:
                up = 1.0 / (1.0 + math.exp(log_odds))
                mean = up * math.exp(radius) + (1.0 - up) * math.exp(-radius)
                return (up * math.exp(2.0 * radius) + (1.0 - up) * math.exp(-2.0 * radius)) / mean**2

            how = {"bounds": (-1.0, 4.0 * radius + 1.0), "method": "bounded", "options": {"xatol": 1e-10}}
            return -float(minimize_scalar(lambda x: -second(x), **how).fun)

        # Of k samples that earn `spread` each has the advantage spread (N - k)/(N - 1).
        move = max(s.step * k / N * s.spread * (N - k) / (N - 1) for k in range(N + 1))
        second, stale = worst(s.radius) ** s.horizon, worst(s.staleness * move)
        return {"second_moment": second, "move": move, "stale_second_moment": stale}

    wrong = {
        "group mean in place of leave-one-out": lambda s: s.but(step=s.step * (s.samples - 1) / s.samples).predict()
    }

    terms = {
        "arms within the radius": multiplied("second_moment"),
        "move of an update": multiplied("move"),
        "moves add up": multiplied("stale_second_moment"),
    }

    points = (_POINT, {"radius": 0.3, "horizon": 4, "samples": 4, "spread": 2.0, "step": 0.3, "staleness": 2})
    more = ({**_POINT, "radius": 2.0, "horizon": 2, "samples": 5, "staleness": 1},)

    def reach(self, point: Point) -> str | None:
        if 3 ** point["horizon"] > 1000:
            return "horizon at most 6; shorten it, longer sequences are too many to list"
        N, half = point["samples"], point["samples"] // 2
        share = 1.0 / (1.0 + np.exp(2.0 * _largest_moves(point) * point["staleness"]))
        splits = {half, N - half}
        each = sum(
            np.prod([(N - k + i) / i for i in range(1, k + 1)]) * share**k * (1 - share) ** (N - k) for k in splits
        )
        if _REPLICATES * each ** point["staleness"] < _LIKELY:
            return "a path that one in a hundred replicates takes; lower samples or staleness"
        return None

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        def second_moment(current: np.ndarray, behavior: np.ndarray, tokens: int = 1) -> float:
            spec = plant(lab.weights.bandit(current.shape[1], ["chi_square"], tokens))
            return 1.0 + float(lab.metrics_of(spec, current, behavior)[0].max())

        # The worst pair, and drawn pairs with drawn changes of three logits.
        radius, up = point["radius"], np.array([[1.0, -1.0]])
        worst, drawn = -radius * up, lab.weights.drawn(3, seed, "logit-radius")[0][:_DRAWN]
        shift = radius * (2.0 * rng.Stream(seed, "shift").uniform([[k] for k in range(_DRAWN)], range(3)) - 1.0)
        pairs = (worst + radius * up, worst), (drawn + shift, drawn)
        # Logits of every replicate after updates on data of the frozen first policy.
        place, step = _largest_moves(point) * point["staleness"] * np.array([-1.0, 1.0]), point["step"]
        task = sim.tasks.softmax_bandit(2, (point["spread"], 0.0), rewards="fixed")
        options = {"samples_per_group": point["samples"], "replicates": _REPLICATES, "sampling": "monte_carlo"}
        run = lab.ascent(task, sim.schedules.frozen(), sim.methods.reinforce(), step, 1, initial=place, **options)
        ends = [lab.run(run.replace(updates=n), seed + k, plant) for k, n in enumerate((1, point["staleness"]))]
        after_one, after_all = (trace.parameters for trace in ends)
        read = {
            "second_moment": max(second_moment(now, then, point["horizon"]) for now, then in pairs),
            "move": float(np.abs(after_one - place).max()),
            "stale_second_moment": second_moment(after_all, place[None]),
        }
        return lab.to_share(read, 1e-9, _REPLICATES)

    defects = {
        "momentum inserted": lambda: lab.momentum_inserted,
        "scored at another temperature": lambda: lab.with_policy(lab.Tempered),
    }
