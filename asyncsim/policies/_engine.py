"""How an inference engine changes a published table: temperature, truncation, and noise of its numerics."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, rng
from asyncsim.fusing import tape
from asyncsim.policies._policy import Act, Keys
from asyncsim.step.batch import Draws
from asyncsim.step.versions import View, Weights

LAWS = ("normal", "uniform", "student")
DEGREES = 5.0
"""Degrees of freedom of "student" unless it says others: the fourth moment is the last one that is finite."""
_STREAM = "engine"
_CENTERED = "noise of its reports must have exponential moments; use noise_law='normal' or 'uniform'"


@dataclass(frozen=True)
class Engine:
    """Sampling engine of a table: mu(a|s) ~ exp((log pi(a|s) + e_a) / temperature) on the actions that it keeps.

    `top_k` likeliest actions are kept (0: all), then the likeliest that hold `top_p`; equal ones go together. `noise` e
    has standard deviation `noise` in nats. In the "logits" it moves what is drawn and what is recorded alike, so that
    E_mu[pi/mu] stays what is kept of pi. In the "reports" the draw is right, and log mu + e is recorded.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    noise: float = 0.0
    noise_law: str = "normal"
    noise_per: str = "token"
    noise_in: str = "logits"

    @property
    def law(self) -> tuple[int, float]:
        """Index of the engine's noise distribution for the kernels, and its degrees of freedom."""
        remedy = "name one; student:3 has 3 degrees of freedom"
        checks.require(isinstance(self.noise_law, str), "noise_law", self.noise_law, "a name", remedy)
        kind, colon, text = self.noise_law.partition(":")
        checks.one_of("noise_law", kind, LAWS, remedy)
        if not colon:
            return LAWS.index(kind), DEGREES
        checks.require(kind == "student", "noise_law", self.noise_law, "student:DEGREES, or a name alone", remedy)
        try:
            degrees = float(text)
        except ValueError:
            degrees = math.nan
        above = "the scale is a standard deviation, which t has above 2"
        return LAWS.index(kind), checks.real("noise_law degrees", degrees, above, 2.0, 1e3, open_low=True)

    @property
    def plain(self) -> bool:
        """Whether the engine samples from the unmodified policy and reports exact log-probs."""
        return self.temperature == 1.0 and self.top_p == 1.0 and self.top_k == 0 and self.noise == 0.0

    @property
    def apart(self) -> bool:
        """Whether an engine's noise differs between tokens of one version, so that no table has the distribution mu."""
        return self.noise > 0.0 and self.noise_per != "version"

    def describe(self) -> dict[str, Any]:
        """Settings in which the engine differs from a sampler without mismatch."""
        own = {name: value for name, value in vars(self).items() if value != getattr(PLAIN, name)}
        return {"sampler": own} if own else {}

    def report_moment(self, power: float) -> float:
        """Moment E exp(-power e) of one noise draw e in the reported log-probs, a pure number.

        exp(s^2 p^2 / 2) for the normal law, sinh(sqrt(3) s p) / (sqrt(3) s p) for the uniform one. Raises `InputError`
        for "student", where it is infinite.
        """
        if self.noise == 0.0 or self.noise_in == "logits" or power == 0.0:
            return 1.0
        kind, _ = self.law
        scale = self.noise * power
        if LAWS[kind] == "normal":
            return math.exp(0.5 * scale * scale)
        checks.require(LAWS[kind] == "uniform", "noise_law", self.noise_law, "one whose ratios have a mean", _CENTERED)
        width = math.sqrt(3.0) * scale
        return math.sinh(width) / width

    def install(self, weights: Weights, keys: Keys | None) -> Weights:
        """Published weights together with the engine's own log-prob and CDF tables, `[R, S, A]`."""
        if self.noise > 0.0 and keys is None:
            remedy = "use sampling='monte_carlo' and estimate, or an engine with noise=0"
            raise checks.InputError("noise", self.noise, "0 where outcomes are listed without a run", remedy)
        table = weights["log_prob"].double().contiguous()
        noise = self._of_version(table, keys)
        logits = noise if self.noise_in == "logits" else torch.zeros((0, 0, 0), dtype=torch.float64)
        from asyncsim.policies import _kernels as kernels

        sampled, cdf = torch.empty_like(table), torch.empty_like(table)
        cut = (self.temperature, self.top_k, self.top_p)
        kernels.lay_out(table.numpy(), logits.numpy(), *cut, sampled.numpy(), cdf.numpy())
        reported = sampled + noise if self.noise_in == "reports" and noise.numel() else sampled
        dtype = weights["log_prob"].dtype
        own = {"cdf": cdf, "sampled": sampled, "reported": reported}
        return {**weights, **{name: rows.to(dtype) for name, rows in own.items()}}

    def act(self, view: View, state: Tensor, draws: Draws, token: int) -> Act:
        """Sample actions `[R, G, N]` of one token position from noisy logits, with their log-probs."""
        from asyncsim.policies import _kernels as kernels

        tape.refuse("noise of an engine's tokens")
        uniform, slot = draws.uniform(token, 0).numpy(), view.slot[..., 0]
        action, log_prob = torch.empty(state.shape, dtype=torch.int64), torch.empty(state.shape, dtype=torch.float64)
        lasting = token if self.noise_per == "token" else 0
        stream, ids = self._keyed(draws)
        keys = (*rng.Stream(draws.stream.seed, stream).key, draws.replicates, draws.realization, ids, lasting)
        table, cut = view.weights["log_prob"].double().numpy(), (self.temperature, self.top_k, self.top_p)
        drawn = (uniform, slot, state.numpy(), action.numpy(), log_prob.numpy())
        kernels.act_on_noise(*keys, *self.law, self.noise, table, *cut, *drawn)
        return Act(action, {"log_prob": log_prob.to(view.weights["log_prob"].dtype)})

    def misreport(self, log_prob: Tensor, draws: Draws) -> Tensor:
        """Log-probs `[R, G, N, T]` of an exact sampler plus the engine's reporting noise."""
        R, G, N, T = log_prob.shape
        each = T if self.noise_per == "token" else 1
        stream, ids = self._keyed(draws)
        ids = ids.reshape(len(ids), G * N)
        noise = self._drawn(stream, draws.stream.seed, draws.replicates, draws.realization, ids, each)
        return log_prob + torch.from_numpy(noise.reshape(R, G, N, each)).to(log_prob.dtype)

    def _keyed(self, draws: Draws) -> tuple[str, np.ndarray]:
        """Stream and ids int64 `[M, G, N]` of the noise, per trajectory, or per prompt at any version."""
        return (f"{_STREAM} prompts", draws.asked) if self.noise_per == "prompt" else (_STREAM, draws.trajectory)

    def _of_version(self, table: Tensor, keys: Keys | None) -> Tensor:
        """Noise of a version: `[R, S, A]` in the logits, one number `[R, 1, 1]` in the reports, else empty."""
        if keys is None or self.noise == 0.0 or self.noise_per != "version":
            return torch.zeros((0, 0, 0), dtype=torch.float64)
        shape = tuple(table.shape) if self.noise_in == "logits" else (table.shape[0], 1, 1)
        one, row = np.array([[keys.version]]), np.zeros(shape[0], dtype=np.int64)
        noise = self._drawn(f"{_STREAM} versions", keys.seed, keys.replicates, row, one, shape[1] * shape[2])
        return torch.from_numpy(noise.reshape(shape))

    def _drawn(
        self, stream: str, seed: int, replicates: np.ndarray, row: np.ndarray, ids: np.ndarray, each: int
    ) -> np.ndarray:
        """Noise of ids `[M, n]` with `each` numbers per id, `[R, n, each]`."""
        from asyncsim.policies import _kernels as kernels

        out = np.empty((len(replicates), ids.shape[1], each))
        kernels.fill_noise(*rng.Stream(seed, stream).key, replicates, row, ids, *self.law, self.noise, out)
        return out


PLAIN = Engine()
"""The sampler that is the policy."""


class Engines:
    """Named engines: arguments of `task.policy(...)` on tables that reproduce measured errors of inference engines.

    Measured once by `python -m experiments engine_errors` on the character model (0.9 million weights) that answers
    sums: the error of a logit is half of the squared gap between the errors of the two likeliest tokens, root mean
    square. Its tail is that of a t distribution of the same kurtosis; large errors belong to few states. It lasts for a
    version, as rounding is the same whenever the same text is read. A table draws it anew for every version, while
    between two updates of a model part of it stays (0.4 in bfloat16, 0.6 in int8). Larger models have other errors.
    """

    @staticmethod
    def bfloat16() -> dict[str, Any]:
        """A bfloat16 engine with a float32 trainer: logit errors of 0.018 nats, t-distributed (4.2 degrees of freedom).

        mu(a|s) ~ pi(a|s) exp(e_a), e of standard deviation 0.018, drawn for each state, action and version.

        Returns the settings `noise` in nats, `noise_law`, `noise_per` and `noise_in` of `policies.tabular`. Raises
        nothing. Assumes the errors of one small model. Source: this package, `experiments/engine_errors.py`.

        >>> import asyncsim as sim
        >>> sim.tasks.softmax_bandit().policy(**sim.policies.engines.bfloat16()).engine.noise
        0.018
        """
        return {"noise": 0.018, "noise_law": "student:4.2", "noise_per": "version", "noise_in": "logits"}

    @staticmethod
    def int8() -> dict[str, Any]:
        """An engine with row-scaled int8 weights: logit errors of 0.017 nats, t-distributed (4.4 degrees of freedom).

        mu(a|s) ~ pi(a|s) exp(e_a), e of standard deviation 0.017, drawn for each state, action and version.

        Returns the settings `noise` in nats, `noise_law`, `noise_per` and `noise_in` of `policies.tabular`. Raises
        nothing. Assumes the errors of one small model. Source: this package, `experiments/engine_errors.py`.

        >>> import asyncsim as sim
        >>> sim.tasks.token_bandit().policy(**sim.policies.engines.int8(), top_p=0.9).engine.noise_law
        'student:4.4'
        """
        return {"noise": 0.017, "noise_law": "student:4.4", "noise_per": "version", "noise_in": "logits"}


engines = Engines()
"""The named engines."""
