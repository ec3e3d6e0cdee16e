r"""Bad samples of frozen data push naive REINFORCE away without limit; TOPR's ratio lets this push decay.

if bad samples have probability `q`, the difference of logits moves as `d - e^-d = 2 q t + const` without a ratio, as `d
+ sinh d = t + const` under TOPR; with baseline `b`, a share `p` of good ones acts as `p (1 - b) / (1 + (1 - 2 p) b)`

Two arms: reward -1 on the one that behavior draws with probability q, 0 on the other, no baseline. In time t (step
times updates) the logit gap d, other less bad, obeys d' = 2 q / (1 + e^-d) without a ratio, so that d - e^-d = 2 q t +
const: a straight line in the end. With min(pi/mu, 1) it obeys d' = 1 / (1 + cosh d), so that d + sinh d = t + const:
log(2 t). Rewards +-1 with a share p = 1 - q of good samples: a baseline b acts like the share p (1 - b) / (1 + (1 - 2
p) b), as long as the policy is no better than behavior. Domain: small steps, start at behavior, |b| < 1. Second route:
the flow of both logits by an ODE solver, weights of both samples one by one.
"""

import math

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import wrightomega

from asyncsim.claims._bandit import softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Positive, Real, lab, replaced, sim

_UPDATES = 100
_POINT = {"bad_mass": 0.3, "time": 6.0, "baseline": 0.5, "setback": 0.7}


class ToprNegatives(Claim):
    kind, source = "identity", "arXiv 2503.14286 (method); derived"
    through = "loop, oracle"

    bad_mass = Real(0.01, 0.99, typical=(0.05, 0.8), example=0.3, doc="probability of the bad arm under behavior")
    time = Positive(typical=(0.5, 8.0), example=6.0, unit="step times updates", doc="length of the training")
    baseline = Real(
        -0.99, 0.99, typical=(-0.9, 0.9), example=0.5, unit="reward", doc="constant subtracted from all rewards"
    )
    setback = Real(0.0, 4.0, typical=(0.0, 2.0), example=0.7, unit="nats", doc="gap to the target in logits")

    def joint(self) -> None:
        # Logit gap of the behavior.
        self.start = math.log(1.0 / self.bad_mass - 1.0)

    def predict(s) -> dict[str, float]:
        constant = s.start - math.exp(-s.start) + 2.0 * s.bad_mass * s.time
        naive, p, b = float(constant + np.real(wrightomega(-constant))), 1.0 - s.bad_mass, s.baseline
        share = p * (1.0 - b) / (1.0 + (1.0 - 2.0 * p) * b)
        end, most = s.start + math.sinh(s.start) + s.time, abs(s.start) + s.time
        tapered = float(brentq(lambda d: d + math.sinh(d) - end, -most, most, xtol=1e-15, rtol=1e-15))
        return {"naive_gap": naive, "topr_gap": tapered, "positive_share": share}

    def check(s) -> dict[str, float]:
        mu = np.array([s.bad_mass, 1.0 - s.bad_mass])

        def gap(tapered: bool) -> float:
            def flow(t: float, logits: np.ndarray) -> np.ndarray:
                pi = softmax(logits)
                weight = -mu[0] * min(pi[0] / mu[0], 1.0) if tapered else -mu[0]
                return weight * (np.array([1.0, 0.0]) - pi)

            run = solve_ivp(flow, (0.0, s.time), np.array([0.0, s.start]), method="DOP853", rtol=3e-14, atol=1e-14)
            return float(run.y[1, -1] - run.y[0, -1])

        pi = softmax(np.array([0.0, s.start - s.setback]))
        good, bad = mu[1] * (1.0 - s.baseline), mu[0] * min(pi[0] / mu[0], 1.0) * (1.0 + s.baseline)
        return {"naive_gap": gap(False), "topr_gap": gap(True), "positive_share": good / (good + bad)}

    wrong = {"escape without the policy's own share": lambda s: {"naive_gap": s.start + 2.0 * s.bad_mass * s.time}}

    points = (_POINT,)
    more = ({**_POINT, "bad_mass": 0.6, "time": 3.0, "baseline": -0.3}, {**_POINT, "bad_mass": 0.1, "setback": 0.0})

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        bad = point["bad_mass"]
        logits = np.log([bad, 1.0 - bad])
        bandit = {"behavior_logits": logits, "rewards": (-1.0, 0.0)}

        def gap(method: lab.Method) -> Estimate:
            # Two sizes of the step: their difference says what is left to the flow.
            specs = [lab.offline(bandit, method, point["time"] / n, n) for n in (_UPDATES // 2, _UPDATES)]
            coarse, fine = (float(np.diff(lab.run(spec, seed, plant).parameters[0])[0]) for spec in specs)
            return Estimate(2.0 * fine - coarse, tolerance=0.25 * abs(fine - coarse))

        made = {"naive_gap": sim.methods.reinforce, "topr_gap": sim.methods.topr}
        gaps = {name: gap(make(sim.advantages.none())) for name, make in made.items()}
        # What the weights of good and bad samples add up to, under a policy that has fallen behind.
        task = sim.tasks.softmax_bandit(2, (-1.0, 1.0), rewards="fixed")
        spec = plant(lab.population(task, sim.methods.topr(sim.advantages.offset(point["baseline"]))))
        now = logits + np.array([point["setback"], 0.0])
        pull = sim.oracle.population_step(spec.task, spec.method, now, logits).cotangents["log_prob"]
        share = float(pull.clamp(min=0.0).sum() / pull.abs().sum())
        return {**gaps, "positive_share": Estimate(share, tolerance=1e-12)}

    defects = {"behavior refreshed": lambda: replaced(system=lab.fixed(0)), "ratio dropped": lambda: lab.dropped_ratio}
