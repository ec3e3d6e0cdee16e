r"""Variances from mismatch and staleness add if both are independent; a sampling temperature makes them dependent.

`Var log W` adds that of staleness, that of mismatch and twice their covariance, which is 0 for noisy reports

The log ratio of a token is that of the weights, log pi/pi_0, plus that of sampler and trainer, log pi_0/mu. With the
sampler mu ~ pi_0^{1/tau}, tau its temperature, both are logits up to constants: Delta theta and (1 - 1/tau) theta_0. So
over independent tokens Var L = sum_t Var_mu(Delta theta) + (1 - 1/tau)^2 Var_mu(theta_0) + 2 (1 - 1/tau) Cov_mu(Delta
theta, theta_0). The covariance is 0 where what moves is not what is mismatched. It has the sign of the product where a
policy sharpens or flattens: with Delta theta = c theta_0 all is (c + 1 - 1/tau)^2 Var_mu(theta_0), which is 0 at tau =
1/(1 + c). Noise of the reports, standard deviation s, is independent of both at any size. It adds T s^2 where every
token has its own, T^2 s^2 where a sequence has one.

Noise in the logits is independent to second order only: beside s^2 (1 - |pi_0|^2) a token gets 4 s^2 Cov_pi0(pi_0,
Delta theta). Domain: tokens that are equal or have a row for each position; (2 A)^T at most 2^20. Second route: every
sequence with every sign of noise of two values.
"""

import itertools

import numpy as np
from scipy.special import log_softmax

from asyncsim.base.declared import Choice, Integer, Real
from asyncsim.claims._bandit import LIMIT, SequencePair, softmax
from asyncsim.claims._claim import BEHAVIOR, CURRENT, Claim, Estimate, Plant, Point, lab, sequence_point, sim

_METRICS = {"staleness": "staleness_variance", "mismatch": "mismatch_variance", "variance": "log_ratio_variance"}
_SPREAD = 1.6
"""Relative standard deviation of one squared deviation: 1.42 for normal log ratios, less for those of few actions."""
_SHARPER = sequence_point("iid", 3, 1, temperature=0.8, noise=0.0, noise_per="token") | {
    "current_logits": tuple(tuple(1.4 * x for x in row) for row in BEHAVIOR[:1])
}
_APART = sequence_point("position", 2, 2, temperature=0.8, noise=0.0, noise_per="token") | {
    "behavior_logits": ((0.0, 0.0, 0.0), BEHAVIOR[1]),
    "current_logits": (CURRENT[0], BEHAVIOR[1]),
}
_NOISY = sequence_point("position", 3, 3, temperature=1.3, noise=0.3, noise_per="token")


class MismatchAdds(SequencePair, Claim):
    kind, source = "identity", "derived"

    horizon = Integer(1, typical=(1, 3), example=4, unit="tokens", doc="length of a sequence")
    dependence = Choice("iid", "position", example="position", doc="how the row of logits of a token is selected")
    temperature = Real(0.05, 20.0, typical=(0.5, 2.0), example=0.7, doc="temperature of the sampler")
    noise = Real(0.0, 10.0, typical=(0.0, 1.0), example=0.2, unit="nats", doc="standard deviation of reports' noise")
    noise_per = Choice("token", "sequence", example="sequence", doc="how long one draw of the noise lasts")

    def joint(self) -> None:
        count = f"(2 * {self.actions})**{self.horizon}"
        few = (2 * self.actions) ** self.horizon <= LIMIT
        self.require(few, "horizon", f"such that {count} <= {LIMIT}", "shorten the sequences")

    def predict(s) -> dict[str, float]:
        """Sum variances over tokens under the sampler; mismatch is a multiple of the behavior logits."""
        sampler = softmax(s.behavior_logits / s.temperature)
        change, own = s.current_logits - s.behavior_logits, (1.0 - 1.0 / s.temperature) * s.behavior_logits
        stale, mismatch, both = (
            float(((sampler * x * x).sum(1) - (sampler * x).sum(1) ** 2).sum()) for x in (change, own, change + own)
        )
        times = s.horizon if s.dependence == "iid" else 1
        noise = s.noise**2 * (s.horizon**2 if s.noise_per == "sequence" else s.horizon)
        return {"staleness": times * stale, "mismatch": times * mismatch + noise, "variance": times * both + noise}

    def check(s) -> dict[str, float]:
        """Enumerate every sequence under the sampler with every sign of its noise."""
        tokens = np.array(list(itertools.product(range(s.actions), repeat=s.horizon)))
        rows = s.rows(tokens)
        current, behavior, sampler = (
            log_softmax(table, axis=1)[rows, tokens].sum(1)
            for table in (s.current_logits, s.behavior_logits, s.behavior_logits / s.temperature)
        )
        draws = s.horizon if s.noise_per == "token" else 1
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=draws))).sum(1)
        noise = s.noise * signs * (s.horizon / draws)
        mass = np.repeat(np.exp(sampler), len(noise)) / len(noise)
        mismatch = np.subtract.outer(behavior - sampler, noise).ravel()
        stale = np.repeat(current - behavior, len(noise))
        parts = {"staleness": stale, "mismatch": mismatch, "variance": stale + mismatch}
        return {name: float(mass @ (x - mass @ x) ** 2) for name, x in parts.items()}

    wrong = {
        "parts added without their covariance": lambda s: {
            "variance": s.predict()["staleness"] + s.predict()["mismatch"]
        }
    }

    points = (_SHARPER, _APART, _NOISY)
    more = ({**_NOISY, "noise": 0.2, "noise_per": "sequence"},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        task = sim.tasks.token_bandit(point["actions"], point["horizon"], point["dependence"])
        replicates = lab.replicates_for(_SPREAD, effect, 9) if point["noise"] else 2
        size = lab.SAMPLES, lab.BATCHES, replicates
        spec = lab.displaced(task, lab.places(point)[::-1], list(_METRICS.values()), size)
        engine = {name: point[name] for name in ("temperature", "noise", "noise_per")}
        listed = {} if point["noise"] else {"sampling": "enumerate"}
        trace = lab.run(spec.replace(policy=task.policy(**engine, noise_in="reports"), **listed), seed, plant)
        if point["noise"]:
            return {part: lab.variance_of(trace, lab.SAMPLES, name) for part, name in _METRICS.items()}
        means = {part: lab.mean_of(trace, name) for part, name in _METRICS.items()}
        return {part: x._replace(error=0.0, tolerance=lab.ROUNDING * x.value) for part, x in means.items()}

    defects = {
        "trainer's log-probs recorded as the sampler's": lambda: lab.with_policy(lab.Unscored),
        "temperature applied twice": lambda: (lab.engine_replaced(temperature=0.8**2), _APART),
    }
