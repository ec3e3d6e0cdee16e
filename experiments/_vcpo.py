"""What the experiments on VCPO share: three problems with exact returns, how an arm is trained, what a curve comes to.

Problems: `graded`, 32 tokens out of 8, each following the previous one, paid by the share of tokens 0 plus normal noise
of deviation 0.2; `exact`, 32 bits, paid 1 if at least 60 percent are right, else 0; `noisy`, the same with that noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from asyncsim import methods, schedules, tasks, updates
from asyncsim.base import rng, uncertainty
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.methods._method import Method
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.step.step import Step
from asyncsim.step.versions import tensor
from asyncsim.updates._link import Chain, Link, Record, State, chain

LENGTH, SAMPLES, NOISE, HELD_OUT = 32, 16, 0.2, 1000
"""Tokens of a sequence, samples of a batch, deviation of the reward's noise, and what is added to a seed to choose."""
SHORT, LONG, OLDEST = 500, 1600, 128
"""Updates of a run; and those of a run at the oldest data, where the short one is over after four waves of data."""
FRACTION = 0.6
BITS = tasks.bit_chain(LENGTH, FRACTION)
PROBLEMS: dict[str, Any] = {
    "graded": tasks.token_bandit(8, LENGTH, "markov", rewards="gaussian", deviation=NOISE),
    "exact": BITS,
    "noisy": tasks.token_bandit(2, LENGTH, "position", success=FRACTION, rewards="gaussian", deviation=NOISE),
}
METHODS: dict[str, Method] = {"group mean": methods.truncated_is("sequence", cap=8.0), "opob": methods.vcpo()}
RULES: dict[str, Any] = {"adam": "sqrt", "sgd": "linear"}
GAIN = 0.1
"""Return that a run must have gained before it can be said to have lost it."""


def read_rows(prob: Tensor, length: int) -> Tensor:
    """Share of the tokens of sequences so long that read each row of the table `[R, S, A]`, exact, `[R, S]`."""
    if prob.shape[-1] == 2:
        return torch.full(prob.shape[:2], 1.0 / length, dtype=prob.dtype)
    chance, total = prob[:, 0], torch.zeros_like(prob[:, 0])
    for _ in range(length - 1):
        # Row 1 + a follows token a; row 0 is the start.
        total = total + chance
        chance = (chance.unsqueeze(-1) * prob[:, 1:]).sum(1)
    return torch.cat([torch.ones_like(total[:, :1]), total], 1) / length


def expected(step: Step) -> Tensor:
    """Exact expected return of the current policy, `[R]`: no reward noise, no staleness."""
    prob = _table(step)
    if prob.shape[-1] == 2:
        return BITS.exact(step.policy, step.parameters)[0]
    return (read_rows(prob, step.task.horizon) * prob[..., 0]).sum(-1)


def entropy(step: Step) -> Tensor:
    """Exact entropy of the current policy's tokens where it goes itself, nats per token, `[R]`."""
    prob = _table(step)
    return -(read_rows(prob, step.task.horizon) * torch.xlogy(prob, prob).sum(-1)).sum(-1)


def _table(step: Step) -> Tensor:
    table: Any = step.policy
    return torch.softmax(step.parameters.reshape(-1, table.rows, table.actions), -1)


RETURN = Metric("policy_return", expected)
ENTROPY = Metric("policy_entropy", entropy)
RECORDED = (ENTROPY, "ess", "kl_k1", "gradient_norm")


@dataclass(frozen=True)
class Given:
    """direction * scales[u, r], u the updates made so far; scales `[U, R]` that were measured elsewhere."""

    scales: np.ndarray = field(repr=False, compare=False)
    replicates: np.ndarray | None = field(default=None, repr=False, compare=False)

    def numbered(self, replicates: np.ndarray) -> Given:
        """The same link for replicates with these global numbers."""
        return Given(self.scales, np.asarray(replicates))

    def init(self, parameters: Tensor) -> State:
        """No update yet."""
        return {"count": torch.zeros((len(parameters), 1), dtype=torch.int64)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Scale the direction."""
        count = state["count"]
        replicates = np.arange(len(count)) if self.replicates is None else self.replicates
        factor = tensor(self.scales[count[:, 0].numpy(), replicates]).unsqueeze(-1)
        record.direction = record.direction * factor.to(record.direction.dtype)
        return record, {"count": count + 1}


def update(optimizer: str, step: Any, *tail: Link) -> Chain:
    """The release's clip at norm 1, the optimizer, then what scales its step."""
    rule = updates.adam(step) if optimizer == "adam" else updates.sgd(step)
    return chain(updates.clip_norm(1.0), rule, *tail)


def ess_step(optimizer: str) -> Link:
    """VCPO's step rule for this optimizer."""
    return updates.ess_step(RULES[optimizer])


def train(
    problem: str,
    staleness: int,
    baseline: str,
    links: Chain,
    length: int,
    replicates: int,
    seed: int,
    record: tuple[Any, ...] = (),
) -> dict[str, np.ndarray]:
    """Curves `[U, R]` of an arm: `policy_return`, what is asked for, and what the links report."""
    spec = Spec(
        PROBLEMS[problem],
        schedules.fixed(staleness),
        METHODS[baseline],
        links,
        samples_per_group=SAMPLES,
        updates=length,
        replicates=replicates,
        diagnostics=[RETURN, *record],
    )
    return running.run(spec, seed=seed, progress=False).metrics


def horizons(staleness: int, short: int = SHORT, long: int = LONG) -> list[int]:
    """The updates after which the end of a run at this staleness is read; the last is its length."""
    return [short, long] if staleness == OLDEST else [short]


def grid(
    problem: str, staleness: int, baseline: str, optimizer: str, tail: tuple[Link, ...], setting: dict[str, Any]
) -> np.ndarray:
    """Returns over the run for each of `setting["steps"]`, `[U, steps, choosing]`, on held-out seeds."""
    steps, each = setting["steps"], setting["choosing"]
    chosen = update(optimizer, np.repeat(steps, each), *tail)
    length = setting["horizons"][-1]
    found = train(problem, staleness, baseline, chosen, length, len(steps) * each, setting["seed"] + HELD_OUT)
    return found["policy_return"].reshape(length, len(steps), each)


@dataclass(frozen=True)
class Outcome:
    """What became of each replicate, all `[R]`.

    `final`: mean return over the last tenth of the updates; `collapsed`: gained more than `GAIN` at its peak and had
    lost more than half of that gain by the last tenth; `solved`: final above 0.9; `onset`: the last update at which 90
    percent of the peak gain was there.
    """

    final: np.ndarray
    collapsed: np.ndarray
    solved: np.ndarray
    onset: np.ndarray


def outcome(curve: np.ndarray) -> Outcome:
    """Outcome of curves `[U, R]` of exact returns."""
    start, gain = curve[0], curve.max(axis=0) - curve[0]
    final = curve[-max(1, len(curve) // 10) :].mean(axis=0)
    collapsed = (gain > GAIN) & (final < start + 0.5 * gain)
    onset = len(curve) - 1 - np.argmax((curve >= start + 0.9 * gain)[::-1], axis=0)
    return Outcome(final, collapsed, final > 0.9, onset)


def shuffled(scales: np.ndarray, seed: int) -> np.ndarray:
    """The scales `[U, R]` of every replicate in a random order of updates."""
    U, R = scales.shape
    keys = rng.Stream(seed, "vcpo shuffle").uniform(np.arange(R)[None], np.arange(U)[:, None])
    return np.take_along_axis(scales, np.argsort(keys, axis=0), axis=0)


def mean(values: np.ndarray) -> dict[str, Any]:
    """Mean over replicates `[R]` with its 95 percent interval."""
    found = uncertainty.between(values)
    reach = uncertainty.critical(0.05, found.freedom) * found.error
    return _row(found.value, found.value - reach, found.value + reach, len(values))


def share(hits: np.ndarray) -> dict[str, Any]:
    """Share of replicates `[R]` with Wilson's 95 percent interval, which stays inside [0, 1]."""
    n, p, z = len(hits), float(hits.mean()), uncertainty.critical(0.05)
    middle, reach = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = ((middle + sign * reach) / (1 + z * z / n) for sign in (-1, 1))
    return _row(p, min(p, low), max(p, high), n)


def median(values: np.ndarray) -> dict[str, Any]:
    """Median over replicates `[R]` with the order statistics that enclose the true one in at least 95 of 100 cases.

    Below six replicates not even the extremes do; then they are given.
    """
    ordered, n = np.sort(values), len(values)
    first = max(0, int(stats.binom.ppf(0.025, n, 0.5)) - 1)
    return _row(float(np.median(ordered)), float(ordered[first]), float(ordered[n - 1 - first]), n)


def missing(why: str) -> dict[str, Any]:
    """A row without a measurement, and why."""
    return _row(math.nan, math.nan, math.nan, 0, why)


def _row(value: float, low: float, high: float, samples: int, note: str = "") -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "samples": samples, "note": note}
