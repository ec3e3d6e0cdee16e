"""M2PO's own figures over updates: return, clipped share, second moment, KL of every arm on data 256 updates old.

The stale harness of `m2po`: batches of 4 groups of 8 samples, 4 minibatches each, every batch `staleness` updates old
(and up to 3 more), the first ones all of the start. Adam behind a norm clip of 1, advantages of GRPO. Tasks stand for
the models of the paper's table: `chain`, 16 bits, paid 1 if three quarters are right; `long`, 32 bits, eleven
sixteenths; `forks`, `graded` and `bandit` of `m2po`; `anchored`, `forks` with a penalty. Three charge 0.03 per nat of
divergence (`chain` and `long` from uniform, `anchored` from the start), so that no policy is ever done learning; the
paper has no penalty. Arms, all at staleness 256 but `fresh`: `clip` is GRPO's at 0.2, `none` the ratio alone, `m2po`
the paper's mask, then `cispo`, `areal` (decoupled PPO), `topr`, `gppo` and `gspo` at their published settings. Every
arm runs at every `rate`. `over` says what `at` is:
"run"       nothing. `return` is the exact return of the trained policy (penalty included), mean over updates; `end`,
            over the last tenth; `peak`, its largest mean over 100 updates; `fell`, share of replicates that gained 0.1
            and end below half of their largest gain; `masked`, share of tokens with an advantage but no weight
"updates"   the middle of 100 updates, at the rates of `CURVES`. `return` and `masked` as above; `second`, mean squared
            log ratio of harmful tokens (those a step would push outward), nats^2, before the mask, and `kept` after
            it; `kl`, mean log ratio of behavior to current policy, nats; `chi`, mean squared (ratio - 1), and `bound`,
            the paper's on it
"distance"  middle of an interval of |ratio - 1|. `entropy` of the current policy at such tokens, nats, `middle` updates
"kind"      1 for a fork, 0 for a bit that is nearly certain at first. `clipped`, share of such tokens, same updates
`samples` replicates; intervals are 95 percent between them.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

import asyncsim as sim
from asyncsim.diagnostics import _levels
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running.spec import Spec
from asyncsim.step.step import Step
from experiments import _vcpo, m2po

COLUMNS = [
    "task", "staleness", "arm", "tau", "rate", "over", "at", "quantity", "value", "low", "high", "samples", "note",
]  # fmt: skip
PENALTY: dict[str, Any] = {"kl_coef": 0.03, "kl_at": "current"}
TASKS: dict[str, Any] = {
    "chain": sim.tasks.bit_chain(16, 0.75, **PENALTY),
    "long": sim.tasks.bit_chain(32, 0.6875, **PENALTY),
    "anchored": sim.tasks.bit_chain(32, 0.9, logits=m2po.BITS, reference="start", **PENALTY),
    **m2po.TASKS,
}


def gppo(log_prob: Tensor, behavior_log_prob: Tensor, advantage: Tensor) -> Tensor:
    """GPPO: where PPO's clip at 0.2 closes, the ratio stays at the bound and the gradient goes on."""
    ratio = (log_prob - behavior_log_prob).exp().detach()
    bounded = torch.where(advantage > 0, ratio.clamp(max=1.0 + m2po.CLIP), ratio.clamp(min=1.0 - m2po.CLIP))
    return -bounded * advantage * log_prob


ARMS: dict[str, Any] = {
    "fresh": m2po.METHODS["clip"],
    **{arm: m2po.METHODS[arm] for arm in ("clip", "m2po", "none")},
    "cispo": sim.methods.cispo(advantage=m2po.GAIN),
    "areal": sim.methods.decoupled_ppo(advantage=m2po.GAIN),
    "topr": sim.methods.topr(advantage=m2po.GAIN),
    "gppo": sim.methods.from_loss(gppo, advantage=m2po.GAIN),
    "gspo": sim.methods.gspo(advantage=m2po.GAIN),
}
RATES = [0.0015625 * 2.0**k for k in range(10)]
CURVES = {"chain": (0.05, 0.1, 0.2, 0.4), "forks": (0.003125, 0.0125)}
"""Rates whose curves are kept, by task."""
SWEPT, LEVELS = ("clip", "m2po", "none"), (0, 32, 64, 128)
TAUS = [0.0025 * 2.0**k for k in range(13)]
BINS = np.linspace(0.0, 0.6, 7)
WINDOW = 4
"""Records of a mean: as many as a batch has minibatches."""
_SIZES: dict[str, Any] = {"updates": 2048, "every": 25, "middle": [800, 1200], "seed": 3}
_MANY, _FEW = {"replicates": 32, **_SIZES}, {"replicates": 16, **_SIZES}
_SWEEP = [(t, s, a) for t in CURVES for s in LEVELS for a in SWEPT]
SETTINGS = [
    *({"task": t, "staleness": 256 * (a != "fresh"), "arm": a, "rates": RATES, **_MANY} for t in CURVES for a in ARMS),
    *(
        {"task": t, "staleness": 256 * (a != "fresh"), "arm": a, "rates": RATES, **_FEW}
        for t in TASKS
        if t not in CURVES
        for a in ARMS
    ),
    *({"task": t, "staleness": s, "arm": a, "rates": list(CURVES[t]), **_MANY} for t, s, a in _SWEEP),
    *({"task": t, "staleness": 256, "arm": "m2po", "rates": list(CURVES[t]), "taus": TAUS, **_FEW} for t in CURVES),
]
_TRIAL = {"updates": 24, "every": 3, "middle": [6, 18], "replicates": 2}
_OLD = {**_TRIAL, "staleness": 16, "rates": [0.025, 0.05, 0.1, 0.2, 0.4]}
QUICK = [
    {**SETTINGS[0], **_OLD, "staleness": 0},
    *({**setting, **_OLD} for setting in SETTINGS[1 : len(ARMS)]),
    {**SETTINGS[len(ARMS) + 1], **_OLD, "rates": list(CURVES["forks"])},
    {**SETTINGS[-2], **_OLD, "rates": list(CURVES["chain"]), "taus": TAUS[::4]},
]


def expected(step: Step) -> Tensor:
    """Exact return of the current policy, `[R]`, penalty included."""
    return m2po.expected(step)


def kept(step: Step) -> Tensor:
    """Part of each harmful token that keeps its weight, `[R, G, N, T]`."""
    return m2po.harmful(step) * (1.0 - _levels.stopped(step))


def bound(step: Step) -> Tensor:
    """R^2 M2 of theorem 5.1, on all tokens of the step, `[R]`."""
    farthest = (step.log_ratio.abs() * step.mask).amax((1, 2, 3))
    return farthest.mul(2.0).exp() * m2po.total(step, step.mask > 0, step.log_ratio**2)


METRICS = [
    Metric("policy_return", expected),
    *(metric for metric in m2po.SUMS if metric.name in ("masked", "harmful", "squares")),
    Metric("kept", lambda step: m2po.total(step, kept(step))),
    Metric("kept_squares", lambda step: m2po.total(step, kept(step), step.log_ratio**2)),
    Metric("chi", lambda step: m2po.total(step, step.mask > 0, (step.log_ratio.exp() - 1.0) ** 2)),
    Metric("bound", bound),
]


def within(low: float, high: float) -> list[Metric]:
    """Share of the tokens whose ratio is so far from 1, and their entropy."""

    def near(step: Step) -> Tensor:
        distance = (step.log_ratio.exp() - 1.0).abs()
        return (distance >= low) & (distance < high)

    return [
        Metric(f"share_{low:.1f}", lambda step: m2po.total(step, near(step))),
        Metric(f"entropy_{low:.1f}", lambda step: m2po.total(step, near(step), m2po.entropies(step))),
    ]


def forks(step: Step) -> Tensor:
    """Every fourth token, `[1, 1, 1, T]`."""
    return (torch.arange(step.mask.shape[-1]) % 4 == 0).view(1, 1, 1, -1)


TOKENS = [metric for low, high in pairwise(BINS) for metric in within(low, high)]
TOKENS += [
    Metric("fork_clipped", lambda step: m2po.total(step, forks(step) * _levels.stopped(step))),
    Metric("fork_all", lambda step: m2po.total(step, forks(step) & (step.mask > 0))),
]


def looked(setting: dict[str, Any]) -> bool:
    """Whether tokens are looked at one by one."""
    return setting["arm"] == "clip" and setting["task"] in CURVES and setting["staleness"] > 0


def spec(setting: dict[str, Any]) -> Spec:
    """An arm on the harness, at every bound and every rate, each with its own replicates."""
    taus = setting.get("taus", [m2po.TAU])
    each, many = setting["replicates"], len(setting["rates"]) * setting["replicates"]
    rates = tuple(float(rate) for rate in np.repeat(setting["rates"], each)) * len(taus)
    method = ARMS[setting["arm"]]
    if len(taus) > 1:
        method = sim.methods.m2po_mask(tuple(float(tau) for tau in np.repeat(taus, many)), advantage=m2po.GAIN)
    return sim.Spec(
        TASKS[setting["task"]],
        sim.systems.m2po(m2po.GROUPS, setting["staleness"] // m2po.PARTS, length=1.0, load=2.0),
        method,
        sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(rates)),
        samples_per_group=m2po.SAMPLES,
        updates=setting["updates"],
        every=setting["every"],
        replicates=len(rates),
        diagnostics=[*METRICS, "kl_k1", *(TOKENS if looked(setting) else [])],
        compiled=False,
    )


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one arm at one staleness, at all bounds and rates."""
    trace = sim.run(spec(setting), seed=setting["seed"], progress=False)
    taus = setting.get("taus", [m2po.TAU if setting["arm"] == "m2po" else math.nan])
    shape = (-1, len(taus), len(setting["rates"]), setting["replicates"])
    found = {name: trace[name].reshape(shape) for name in trace.metrics}
    place = {name: setting[name] for name in ("task", "staleness", "arm")}
    rows = []
    for i, tau in enumerate(taus):
        for k, rate in enumerate(setting["rates"]):
            own = {name: values[:, i, k] for name, values in found.items()}
            made = summed(own)
            if rate in CURVES.get(setting["task"], ()) and len(taus) == 1:
                made += curves(own, setting["every"])
                made += by_token(own, setting) if looked(setting) else []
            rows += [{**place, "tau": tau, "rate": rate, **row} for row in made]
    return [{name: row.get(name) for name in COLUMNS} for row in rows]


def windows(curve: np.ndarray) -> np.ndarray:
    """Means over as many records as a batch has minibatches, `[W, R]`; a rest at the end is left out."""
    whole = len(curve) // WINDOW
    return curve[: whole * WINDOW].reshape(whole, WINDOW, -1).mean(1)


def row(over: str, at: float, quantity: str, value: dict[str, Any]) -> dict[str, Any]:
    """One value at its place."""
    return {"over": over, "at": at, "quantity": quantity, **value}


def summed(own: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """What a run comes to."""
    returns = np.concatenate([own["policy_return"][:1], windows(own["policy_return"])])
    outcome = _vcpo.outcome(returns)
    values = {
        "return": _vcpo.mean(own["policy_return"].mean(0)),
        "end": _vcpo.mean(own["policy_return"][-(len(own["policy_return"]) // 10) :].mean(0)),
        "peak": _vcpo.mean(returns.max(0)),
        "fell": _vcpo.share(outcome.collapsed),
        "masked": _vcpo.mean(own["masked"].mean(0)),
    }
    return [row("run", math.nan, name, value) for name, value in values.items()]


def curves(own: dict[str, np.ndarray], every: int) -> list[dict[str, Any]]:
    """Quantities over updates, with the start."""
    rows = [row("updates", 0.0, "return", _vcpo.mean(own["policy_return"][0]))]
    mean = {name: windows(values) for name, values in own.items()}
    plain = {"return": "policy_return", "masked": "masked", "kl": "kl_k1", "chi": "chi", "bound": "bound"}
    for w in range(len(mean["masked"])):
        at = (w + 0.5) * WINDOW * every
        rows += [row("updates", at, name, _vcpo.mean(mean[key][w])) for name, key in plain.items()]
        for name, above, below in (("second", "squares", "harmful"), ("kept", "kept_squares", "kept")):
            some = mean[below][w].any()
            value = m2po.ratio(mean[above][w], mean[below][w]) if some else _vcpo.missing("no harmful token")
            rows.append(row("updates", at, name, value))
    return rows


def by_token(own: dict[str, np.ndarray], setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Entropy by distance of the ratio from 1, and share that is clipped by kind of token."""
    first, last = (round(update / setting["every"]) for update in setting["middle"])
    mean = {name: values[first:last].mean(0) for name, values in own.items()}
    rows = []
    for low, high in pairwise(BINS):
        above, below = mean[f"entropy_{low:.1f}"], mean[f"share_{low:.1f}"]
        value = m2po.ratio(above, below) if below.any() else _vcpo.missing("no such token")
        rows.append(row("distance", (low + high) / 2, "entropy", value))
    # All tokens that are not forks are of the other kind.
    others = mean["masked"] - mean["fork_clipped"], 1.0 - mean["fork_all"]
    rows.append(row("kind", 1.0, "clipped", m2po.ratio(mean["fork_clipped"], mean["fork_all"])))
    rows.append(row("kind", 0.0, "clipped", m2po.ratio(*others)))
    return rows
