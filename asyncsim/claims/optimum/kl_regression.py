r"""Regression on the sampling policy, solved exactly, tilts it by e^{r/beta}; staleness only slows this process.

`n` exact regressions on stale data end at `start * e^(k r/beta)`, with `k = ceil(n / (lag + 1))`; the value estimated
from `N` samples is too low by about `beta Var(e^(r/beta)) / (2 N (E e^(r/beta))^2)`

The residual r - V - beta log(pi/mu), V = beta log E_mu e^{r/beta}, vanishes for every sample at pi ~ mu e^{r/beta}. So
n solves, each on data of the solve before, give start e^{n r/beta}. Where data lag by tau more solves, theta_k =
theta_{max(k-1-tau, 0)} + r/beta: n is replaced by ceil(n/(tau+1)), and nothing becomes unstable. From N samples the
plug-in V = beta log mean e^{r/beta} is low on average, by about beta Var(e^{r/beta}) / (2 N (E e^{r/beta})^2). Domain:
one softmax of full support, exact solves, rewards without noise. Second route: probabilities solve by solve; the mean
logarithm as the integral of (e^{-u E x} - (E e^{-u x/N})^N)/u over u > 0.
"""

import itertools
import math

import numpy as np
from scipy.integrate import quad

from asyncsim.base.declared import Integer, Positive, Vector
from asyncsim.claims._bandit import Arms, counted, softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, indexed, lab, replaced, sim, up_to

_SOLVE, _MOMENTUM, _TOLERANCE, _GROUPS = 160, 0.8, 1e-4, 100_000
_ARMS = {"start_logits": (0.6, 0.0, -0.3), "rewards": (0.0, 0.5, 1.0)}
_POINT = {**_ARMS, "beta": 0.5, "solves": 3, "lag": 1, "samples": 3}


class KlRegression(Arms, Claim):
    kind, source = "identity", "arXiv 2602.19362 (form); derived"
    relative_to, through = "norm", "loop, oracle"

    start_logits = Vector(typical=(-1.0, 1.0), sizes=(2, 4), example=(0.6, 0.0, -0.3), doc="initial logits")
    rewards = Vector(typical=(0.0, 1.0), example=(0.0, 0.5, 1.0), unit="reward", doc="rewards of the arms")
    beta = Positive(typical=(0.5, 2.0), example=0.5, unit="reward per nat", doc="KL coefficient")
    solves = Integer(1, 64, typical=(1, 5), example=5, doc="regressions solved one after the other")
    lag = Integer(0, 64, typical=(0, 3), example=1, unit="solves", doc="number of solves by which the data are stale")
    samples = Integer(2, 8, typical=(2, 5), example=3, doc="samples of a group for the estimate of V")

    def joint(self) -> None:
        span = float(np.ptp(self.rewards)) / self.beta
        self.require(1e-3 < span < 50.0, "beta", "such that rewards span 0.001 to 50 beta", "change it")
        self.start = softmax(self.start_logits)
        # Shifted rewards shift V alike.
        self.grown = np.exp((self.rewards - self.rewards.max()) / self.beta)

    def _tilted(s, tilts: float) -> dict[str, float]:
        return indexed("pi", softmax(s.start_logits + tilts * s.rewards / s.beta))

    def predict(s) -> dict[str, float]:
        # Mean over all groups of N samples, less the population's value.
        counts, log_mass = counted(s.samples, np.log(s.start))
        bias = s.beta * float(np.exp(log_mass) @ np.log(counts @ s.grown / s.samples / (s.start @ s.grown)))
        return {**s._tilted(math.ceil(s.solves / (s.lag + 1))), "value_bias": bias}

    def check(s) -> dict[str, float]:
        policies = [s.start]
        for _ in range(s.solves):
            tilted = policies[max(len(policies) - 1 - s.lag, 0)] * s.grown
            policies.append(tilted / tilted.sum())
        relative = s.grown / (s.start @ s.grown)

        def density(z: float) -> float:
            u = math.exp(z)
            return math.exp(-u) - float(s.start @ np.exp(-u * relative / s.samples)) ** s.samples

        # u = e^z, as far as the term that falls more slowly matters.
        edges = np.linspace(-25.0, math.log(40.0 / float(relative.min())), 40)
        total = math.fsum(quad(density, a, b, epsabs=1e-15, epsrel=1e-12)[0] for a, b in itertools.pairwise(edges))
        return {**indexed("pi", policies[-1]), "value_bias": s.beta * total}

    wrong = {"lag ignored": lambda s: s._tilted(s.solves), "unbiased value": lambda s: {"value_bias": 0.0}}

    points = (_POINT,)
    more = ({**_POINT, "beta": 1.0, "solves": 4, "lag": 0}, {**_POINT, "solves": 4, "lag": 2, "samples": 5})

    _few = f"at most {_GROUPS} groups, which are listed; take fewer samples or arms"
    reach = staticmethod(up_to(_GROUPS, lambda point: len(point["rewards"]) ** point["samples"], _few))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        rewards, start, beta = point["rewards"], np.array(point["start_logits"]), point["beta"]
        task = sim.tasks.softmax_bandit(len(rewards), rewards, rewards="fixed", logits=start)

        def regressing(length: int) -> lab.Spec:
            system = lab.fixed(min(point["lag"], point["solves"] - 1), batches_per_publish=length)
            spec = lab.ascent(task, system, sim.methods.oapl(beta), 1.0, length * point["solves"])
            return spec.replace(update=sim.chain(sim.updates.momentum(_MOMENTUM), sim.updates.sgd(0.7 / beta**2)))

        def ending(length: int) -> np.ndarray:
            return lab.probabilities(lab.run(regressing(length), seed, plant).parameters[0])

        end = lab.arms("pi", lab.settled(ending, _SOLVE, 0.1 * _TOLERANCE), _TOLERANCE)
        # Mean of r - A of the method over all groups of N samples, less that of the population.
        spec, chances = plant(regressing(_SOLVE)), lab.probabilities(start)
        groups = np.array(list(itertools.product(range(len(rewards)), repeat=point["samples"])))
        reward, log_prob = (lab.torch.from_numpy(np.array(x)[groups]) for x in (rewards, np.log(chances)))
        weighed = spec.method.weigh(log_prob.unsqueeze(-1), log_prob.unsqueeze(-1), rewards=reward)
        value = (reward - weighed.advantage[..., 0].reshape(reward.shape)).mean(-1).numpy()
        everything = sim.oracle.population_step(spec.task, spec.method, start)
        whole = float((everything.reward - everything.advantages)[0, 0, 0])
        estimated = float(chances[groups].prod(axis=1) @ value)
        return {**end, "value_bias": Estimate(estimated - whole, tolerance=1e-9)}

    defects = {
        "reference never refreshed": lambda: replaced(system=sim.schedules.frozen(batches_per_publish=_SOLVE)),
        "mean reward for the value": lambda: lab.with_method(advantage=sim.advantages.group_mean()),
    }
