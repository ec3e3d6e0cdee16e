r"""The variance of the log ratio grows as the staleness S if updates are noise, and as S^2 if they are drift.

in `S` updates, log ratios reach the variance `E Var_mu(log pi/mu) = v_1 ((1 - f) S + f S^2)`, `f` the share of drift

One softmax policy: log pi/mu is the change of the logits less a constant of the whole table, so Var_mu(log pi/mu) =
Var_mu(Delta theta), an identity. Take S steps of learning rate eta along gradients of mean gbar that are independent
given the policy mu that generated their data. Let v_1 = eta^2 E Var_mu(g) and f = Var_mu(gbar) / E Var_mu(g). Then E
v_S = v_1 ((1 - f) S + f S^2): slope 1 in S for f = 0 (diffusive), 2 for f = 1 (ballistic). "growth[S]" is E v_S /
eta^2, "slope" the least-squares slope of its log over log S. "identity" is the ratio of both sides of the identity.

A group of N with the leave-one-out baseline has g = mean over pairs of (r_i - r_j)(e_i - e_j)/2, the sample covariance
of reward and arm, whatever the trainer's policy. f = 0 iff all arms are equal in mean. Its covariance is Hoeffding's,
(4 (N - 2) zeta_1 + 2 zeta_2)/(N (N - 1)) with zeta_1 that of one sample's share and zeta_2 that of one pair.
Derivation: take the mean square of a sum of S independent vectors in the metric diag mu - mu mu^T. It is S times the
trace of their covariance plus S^2 times the square of their mean. Domain: one context, data of all S updates from mu,
at most 2500 compositions of a group (the second route enumerates them, in pairs). "enumerate" is a population, f = 1.
"""

import math

import numpy as np
from scipy.special import log_softmax

from asyncsim.base.declared import Choice, Counts, Integer, Real, Vector
from asyncsim.claims._bandit import Arms, complex_gradient, counted, fisher, softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab, sim, units_for

_LIMIT = 2500
"""Most compositions of a group that are enumerated."""
_SMALLEST = 1e-6
"""Least growth in one update that exceeds rounding in double precision."""
_ROUNDING = 1e-9
_MOST, _DRAWN, _COARSEST = 6000, 25_000.0, 0.05
"""Samples of one replicate over all runs of a point, those of all replicates times the square of the effect, and by how
much an update may part logits, at most."""
_NOISE = {
    "means": (0.5, 0.5, 0.5, 0.5), "logits": (0.5, 0.2, 0.0, -0.5), "rewards": "bernoulli", "samples": 6,
    "sampling": "monte_carlo", "step": 1e-4, "stalenesses": (1, 2, 4, 8),
}  # fmt: skip
_MIXED = {**_NOISE, "means": (0.2, 0.5, 0.8), "logits": (0.5, 0.0, -0.5), "samples": 8}
_SHORT = {**_NOISE, "stalenesses": (1, 2)}
_DRIFT = {**_MIXED, "sampling": "enumerate", "stalenesses": (1, 2, 4, 8, 16)}


def _drawn(point: Point) -> int:
    """Number of samples of one replicate over all runs."""
    return int(point["samples"] * sum(age + 2 for age in point["stalenesses"]))


def _moved(point: Point) -> float:
    """Maximum change of the difference of two logits in one step."""
    means, N = np.array(point["means"], dtype=np.float64), point["samples"]
    spread = 1.0 if point["rewards"] == "bernoulli" else float(np.ptp(means))
    return float(point["step"] * spread / (2.0 if point["sampling"] == "enumerate" else 2.0 * (N - 1) / N))


class DriftGrowth(Arms, Claim):
    kind, source = "expectation", "derived; Hoeffding 1948 for the covariance"

    # A point also has N (`group`, None: a population) and the cells of what one sample can be: an arm (row of `arm`
    # `[K, A]`) with a reward `[K]` and its probability `mass` `[K]` under behavior `mu`.
    means = Vector(typical=(0.0, 1.0), sizes=(3, 3), example=(0.2, 0.5, 0.9), doc="mean rewards of the arms")
    logits = Vector(typical=(-2.0, 2.0), example=(0.3, -0.2, 0.5), doc="logits of the behavior policy")
    rewards = Choice("fixed", "bernoulli", example="bernoulli", doc="distribution of rewards")
    samples = Integer(2, typical=(2, 5), example=4, doc="samples of a group", remedy="a baseline over others needs two")
    sampling = Choice("monte_carlo", "counts", "enumerate", example="monte_carlo", doc="layout of a batch")
    step = Real(1e-5, 1.0, typical=(0.01, 1.0), example=0.1, unit="logits per gradient", doc="size of one step")
    stalenesses = Counts(1, 4096, typical=(1, 64), example=(1, 2, 4, 8), unit="updates", doc="staleness values")

    def joint(self) -> None:
        means, coin = self.means, self.rewards == "bernoulli"
        inside = not coin or ((means >= 0.0) & (means <= 1.0)).all()
        self.require(inside, "means", "in [0, 1]", "they are success probabilities")
        mu, arms = softmax(self.logits), np.eye(len(means))
        cells = (np.vstack([arms, arms]), np.repeat([1.0, 0.0], len(mu)), np.concatenate([means, 1.0 - means]))
        arm, reward, chance = cells if coin else (arms, means, np.ones_like(means))
        mass = chance * np.tile(mu, len(chance) // len(mu))
        possible = mass > 0.0
        self.group = None if self.sampling == "enumerate" else self.samples
        self.mu, self.arm, self.reward, self.mass = mu, arm[possible], reward[possible], mass[possible]
        if self.group is not None:
            count = math.comb(self.group + len(self.mass) - 1, self.group)
            self.require(count <= _LIMIT, "samples", f"such that compositions ({count}) <= {_LIMIT}", "lower samples")
        bound = f"apart or random enough for a growth of {_SMALLEST:g}"
        self.require(sum(self._shares()) >= _SMALLEST, "means", bound, "spread them")

    def _shares(s) -> tuple[float, float]:
        """Contributions of noise and drift to the variance after the first update, divided by eta^2."""
        metric, centered = fisher(s.mu), s.arm - s.mu
        deviation = s.reward - s.mass @ s.reward
        mean = (s.mass * deviation) @ centered
        drift = float(mean @ metric @ mean)
        if s.group is None:
            return 0.0, drift
        # Hoeffding's covariance of one gradient, `[A, A]`.
        share = 0.5 * (deviation[:, None] * centered - mean)
        share_covariance = share.T @ (s.mass[:, None] * share)
        kernel = 0.5 * (s.reward[:, None] - s.reward)[..., None] * (s.arm[:, None] - s.arm)
        pair_covariance = np.einsum("i,j,ija,ijb->ab", s.mass, s.mass, kernel, kernel) - np.outer(mean, mean)
        N = s.group
        covariance = (4.0 * (N - 2) * share_covariance + 2.0 * pair_covariance) / (N * (N - 1))
        return float((metric * covariance).sum()), drift

    def _named(s, growth: np.ndarray, identity: float) -> dict[str, float]:
        x, y = np.log(s.stalenesses), np.log(growth)
        x = x - x.mean()
        cells = {f"growth[{age}]": float(value) for age, value in zip(s.stalenesses, growth, strict=True)}
        return {**cells, "slope": float(x @ y / (x @ x)), "identity": identity}

    def _grown(s, noise: float, drift: float) -> dict[str, float]:
        age = np.array(s.stalenesses, dtype=np.float64)
        return s._named(noise * age + drift * age**2, 1.0)

    def _spread(s, change: np.ndarray) -> list[np.ndarray]:
        """Variances under mu of the log ratio after logit changes `[..., A]`, and of the changes, `[...]` each."""
        both = log_softmax(s.logits + change, axis=-1) - np.log(s.mu), change
        return [(values - (values @ s.mu)[..., None]) ** 2 @ s.mu for values in both]

    def predict(s) -> dict[str, float]:
        return s._grown(*s._shares())

    def check(s) -> dict[str, float]:
        scale = s.step**2
        if s.group is None:
            velocity = complex_gradient(lambda logits: softmax(logits) @ s.means, s.logits)
            ratio, change = s._spread(s.step * np.outer(s.stalenesses, velocity))
            return s._named(ratio / scale, float(ratio[0] / change[0]))
        # Every distinct gradient of a group `[Y, A]`, by the definition of the baseline, and its probability `[Y]`.
        counts, log_mass = counted(s.group, np.log(s.mass))
        others = ((counts @ s.reward)[:, None] - s.reward) / (s.group - 1)
        gradient = (counts * (s.reward - others)) @ (s.arm - s.mu) / s.group
        _, distinct, group = np.unique(gradient.round(12), axis=0, return_index=True, return_inverse=True)
        gradient, mass = gradient[distinct], np.bincount(group.ravel(), weights=np.exp(log_mass))
        ratio, change = (mass @ part for part in s._spread(s.step * gradient))
        pairs, _ = s._spread(s.step * (gradient[:, None] + gradient))
        first, second = float(ratio) / scale, float(mass @ pairs @ mass) / scale
        # A mean square of a sum of independent vectors is quadratic in their number: two values determine all others.
        age = np.array(s.stalenesses, dtype=np.float64)
        return s._named(age * first + 0.5 * age * (age - 1.0) * (second - 2.0 * first), float(ratio / change))

    wrong = {"S^2 where updates are noise": lambda s: s._grown(0.0, sum(s._shares()))}

    points = (_NOISE, _MIXED, _DRIFT)
    more = ({**_MIXED, "rewards": "fixed", "sampling": "counts", "samples": 12},)

    def reach(self, point: Point) -> str | None:
        if _moved(point) > _COARSEST:
            return f"logits that part by at most {_COARSEST} in an update, not {_moved(point):.2g}; take a smaller step"
        if _drawn(point) > _MOST:
            return f"samples times updates, over all stalenesses, at most {_MOST}, not {_drawn(point)}; take fewer"
        # Two samples that are alike in arm or reward move nothing.
        means = np.array(point["means"], dtype=np.float64)
        weights = np.exp(np.array(point["logits"]) - np.max(point["logits"]))
        pairs = np.outer(weights, weights) / weights.sum() ** 2
        np.fill_diagonal(pairs, 0.0)
        coins = np.add.outer(means, means) - 2.0 * np.outer(means, means)
        differ = coins if point["rewards"] == "bernoulli" else np.subtract.outer(means, means) != 0
        rare = "two samples that differ in arm and reward with a chance of 0.05; rarer updates are too few to average"
        return rare if point["sampling"] != "enumerate" and float((pairs * differ).sum()) < 0.05 else None

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        ages, means, logits, N = (point[name] for name in ("stalenesses", "means", "logits", "samples"))
        # Relative standard deviation of one replicate's growth at the points above (measured: at most 1.09).
        count = min(units_for(1.1, effect, 25), int(_DRAWN / effect**2 / _drawn(point)))
        population = point["sampling"] == "enumerate"

        def drift(step: lab.Step) -> lab.Tensor:
            """Variance over the batch of the change in the chosen arm's logit since the start."""
            action, change = step.batch.action, step.parameters - step.parameters.new_tensor(logits)
            shift = lab.torch.gather(change, 1, action.flatten(1)).reshape(action.shape[:3])
            return sim.ratios.log_moments(shift, step.step_mass)[1]

        task = sim.tasks.softmax_bandit(len(means), means, rewards=point["rewards"], logits=tuple(logits))
        size = {"samples_per_group": N, "replicates": 2 if population else count, "sampling": point["sampling"]}
        metrics = ["log_ratio_variance", lab.Metric("drift", drift, ("log_prob",))]
        traces = []
        for k, age in enumerate(ages):
            # As far as the first update behind the warm-up.
            run = (task, lab.fixed(age), sim.methods.reinforce(), point["step"], age + 2)
            traces.append(lab.run(lab.ascent(*run, diagnostics=metrics, **size), seed + 1000 * k, plant))
        # The variance of N samples about their own mean is low by the factor (N - 1)/N.
        factor = (1.0 if population else N / (N - 1)) / point["step"] ** 2
        rows = [factor * trace["log_ratio_variance"][-1] for trace in traces]
        allowance = math.expm1(_moved(point)) + _ROUNDING
        found = {f"growth[{age}]": lab.between(row) for age, row in zip(ages, rows, strict=True)}
        estimates = {name: each._replace(tolerance=allowance * each.value) for name, each in found.items()}
        slope = lab.slope(ages, np.stack(rows, axis=1), log=True)
        x = np.log(ages) - np.log(ages).mean()
        estimates["slope"] = slope._replace(tolerance=allowance * float(np.abs(x).sum() / (x @ x)))
        # One update earlier behavior is still version 0, whose logits are known.
        sides = (traces[-1][name][-2] for name in ("log_ratio_variance", "drift"))
        estimates["identity"] = lab.ratio(*sides)._replace(tolerance=_ROUNDING)
        return estimates

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, _DRIFT),
        "own reward in the baseline": lambda: (lab.with_method(advantage=sim.advantages.group_mean()), _SHORT),
    }
