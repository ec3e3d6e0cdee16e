"""What an inference engine makes of a published table: temperature, truncation, and noise of its numerics."""

from __future__ import annotations

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
EACH = ("token", "sequence", "prompt", "version")
PLACES = ("logits", "reports")
DEGREES = 5.0
"""Degrees of freedom of "student" unless it says others: the fourth moment is the last one that is finite."""
LARGEST_NOISE = 10.0
_STREAM = "engine"
_CENTERED = "noise of its reports must have exponential moments; use noise_law='normal' or 'uniform'"


@dataclass(frozen=True)
class Engine:
    """The sampler of a table: mu(a|s) ~ exp((log pi(a|s) + e_a) / temperature) on the actions that it keeps.

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

    def check(self, actions: int) -> Engine:
        """The engine itself; refuses settings outside their ranges by name."""
        checks.real("temperature", self.temperature, "1 samples from the policy as it is", 0.0, 1e6, open_low=True)
        checks.real("top_p", self.top_p, "1 keeps every action, 0 would keep none", 0.0, 1.0, open_low=True)
        checks.integer("top_k", self.top_k, 0, "0 keeps every action", actions)
        checks.real("noise", self.noise, "give a standard deviation in nats, 0 for none", 0.0, LARGEST_NOISE)
        checks.one_of("noise_per", self.noise_per, EACH, "say how long one draw of the noise lasts")
        checks.one_of("noise_in", self.noise_in, PLACES, "say whether sampling is off, or only what is recorded of it")
        _ = self.law
        return self

    @property
    def law(self) -> tuple[int, float]:
        """Number of the law for the kernels, and its degrees of freedom."""
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
        """Whether it samples from the policy as it is and says so."""
        return self.temperature == 1.0 and self.top_p == 1.0 and self.top_k == 0 and self.noise == 0.0

    @property
    def apart(self) -> bool:
        """Whether tokens of one version differ in noise: no table then holds what is drawn from."""
        return self.noise > 0.0 and self.noise_per != "version"

    def describe(self) -> dict[str, Any]:
        """What differs from a sampler without mismatch."""
        own = {name: value for name, value in vars(self).items() if value != getattr(PLAIN, name)}
        return {"sampler": own} if own else {}

    # Noise of the reports in closed form.

    def report_moment(self, power: float) -> float:
        """E exp(-power e) of one draw of the noise of the reports, a pure number.

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

    def mean_ratio(self, tokens: int = 1, kept: float = 1.0) -> float:
        """E_mu[W] of a sequence of `tokens` at staleness 0: `kept`, the policy's mass on what is kept, times noise.

        Noise in the logits leaves it alone. Noise of the reports multiplies it by E exp(-e) for each token, or by
        E exp(-T e) where one draw lasts for the sequence or longer. Raises `InputError` where that is infinite.

        >>> round(Engine(noise=0.1, noise_in="reports").mean_ratio(tokens=100), 6)
        1.648721
        """
        lasting = self.noise_per != "token"
        return kept * (self.report_moment(tokens) if lasting else self.report_moment(1.0) ** tokens)

    def report_ess(self, tokens: int = 1) -> float:
        """ESS/N that noise of the reports alone leaves to sequences of `tokens`: (E W)^2 / E W^2, in (0, 1].

        exp(-T s^2) for the normal law per token and exp(-T^2 s^2) per sequence; 1 per version, whose common factor
        cancels. Raises `InputError` where a moment is infinite, and for noise in the logits, which the table shapes.
        Noise per prompt is refused: 1 with one prompt, and that of sequences where each has its own.

        >>> round(Engine(noise=0.02, noise_in="reports").report_ess(9000), 4)
        0.0273
        """
        remedy = "measure ess_mismatch: what noise in the logits does depends on the table"
        checks.require(self.noise == 0.0 or self.noise_in == "reports", "noise_in", self.noise_in, "'reports'", remedy)
        if self.noise == 0.0 or self.noise_per == "version":
            return 1.0
        remedy = "measure ess_mismatch: it depends on how many prompts a batch has"
        checks.require(self.noise_per != "prompt", "noise_per", "prompt", "'token', 'sequence' or 'version'", remedy)
        each, times = (tokens, 1) if self.noise_per == "sequence" else (1, tokens)
        return float((self.report_moment(each) ** 2 / self.report_moment(2 * each)) ** times)

    # Tables of a version, and tokens.

    def install(self, weights: Weights, keys: Keys | None) -> Weights:
        """Published weights with the engine's own tables `[R, S, A]`.

        `cdf` and `sampled` (log mu) are drawn from; `reported` is recorded. Without keys noise is refused: it has no
        list.
        """
        if self.noise > 0.0 and keys is None:
            remedy = "use sampling='monte_carlo' and estimate, or an engine with noise=0"
            raise checks.InputError("noise", self.noise, "0 where outcomes are listed without a run", remedy)
        table = weights["log_prob"].double().contiguous()
        noise = self._of_version(table, keys)
        logits = noise if self.noise_in == "logits" else torch.zeros((0, 0, 0), dtype=torch.float64)
        from asyncsim.policies import _engine_kernels as kernels

        sampled, cdf = torch.empty_like(table), torch.empty_like(table)
        cut = (self.temperature, self.top_k, self.top_p)
        kernels.lay_out(table.numpy(), logits.numpy(), *cut, sampled.numpy(), cdf.numpy())
        reported = sampled + noise if self.noise_in == "reports" and noise.numel() else sampled
        dtype = weights["log_prob"].dtype
        own = {"cdf": cdf, "sampled": sampled, "reported": reported}
        return {**weights, **{name: rows.to(dtype) for name, rows in own.items()}}

    def act(self, view: View, state: Tensor, draws: Draws, token: int) -> Act:
        """Actions `[R, G, N]` of one token position drawn from noisy logits, and their log-probs."""
        from asyncsim.policies import _engine_kernels as kernels

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
        """Log-probs `[R, G, N, T]` of an engine that samples rightly, with the noise of their tokens and longer."""
        R, G, N, T = log_prob.shape
        each = T if self.noise_per == "token" else 1
        stream, ids = self._keyed(draws)
        ids = ids.reshape(len(ids), G * N)
        noise = self._drawn(stream, draws.stream.seed, draws.replicates, draws.realization, ids, each)
        return log_prob + torch.from_numpy(noise.reshape(R, G, N, each)).to(log_prob.dtype)

    def _keyed(self, draws: Draws) -> tuple[str, np.ndarray]:
        """Stream and ids int64 `[M, G, N]` of the noise: of trajectories, or of prompts at whatever version."""
        return (f"{_STREAM} prompts", draws.asked) if self.noise_per == "prompt" else (_STREAM, draws.trajectory)

    def _of_version(self, table: Tensor, keys: Keys | None) -> Tensor:
        """Noise of a version: `[R, S, A]` in the logits, one number `[R, 1, 1]` in the reports, else nothing."""
        if keys is None or self.noise == 0.0 or self.noise_per != "version":
            return torch.zeros((0, 0, 0), dtype=torch.float64)
        shape = tuple(table.shape) if self.noise_in == "logits" else (table.shape[0], 1, 1)
        one, row = np.array([[keys.version]]), np.zeros(shape[0], dtype=np.int64)
        noise = self._drawn(f"{_STREAM} versions", keys.seed, keys.replicates, row, one, shape[1] * shape[2])
        return torch.from_numpy(noise.reshape(shape))

    def _drawn(
        self, stream: str, seed: int, replicates: np.ndarray, row: np.ndarray, ids: np.ndarray, each: int
    ) -> np.ndarray:
        """Noise of ids `[M, n]`, `each` numbers of every one, `[R, n, each]`."""
        from asyncsim.policies import _engine_kernels as kernels

        out = np.empty((len(replicates), ids.shape[1], each))
        kernels.fill_noise(*rng.Stream(seed, stream).key, replicates, row, ids, *self.law, self.noise, out)
        return out


PLAIN = Engine()
"""The sampler that is the policy."""
