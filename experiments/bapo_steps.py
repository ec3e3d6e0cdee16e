"""From a policy that is nearly sure of a wrong token: what do clips and BAPO do to entropy and return over updates?

Every row of the table begins with chance 0.02 of the right one of 8 tokens and 0.9 of a wrong one. Tasks: `tokens`, 16
tokens, paid by the share that is right; `long`, 64 tokens; `noisy`, 16 tokens with normal noise of deviation 0.3 on the
reward. Batches have 4 groups of 8 samples; Adam behind a norm clip of 1; advantages of GRPO; the ratio's anchor is the
policy that sampled. Arms: `clip`, PPO's at 0.2; `higher`, 0.2 below and 0.28 above; `bapo`, the paper's search to its
target 0.4, and `half` to its other target 0.5; `weighed`, the latter with its signal times the behavior probability;
`none`, the ratio alone. At staleness 0 data are fresh and all ratios 1. A setting is one arm at all rates, at
`staleness` updates on data that are gone through `epochs` times. Rows, with 95 percent intervals between `samples`
replicates, are of the policy that is trained:
course   return, entropy (nats per token) and positive (share of the gradient's weights with an advantage above 0)
         before update `number`; low, high: the bounds that BAPO finds there
mean, end   return, over all updates and over the last tenth; entropy_mean, entropy_end: of entropy
Where `part` is "knob", `knob` and `number` say what is varied: `c_high` or `c_low` of a fixed clip whose other bound is
0.8 or 1.2, or `rho_0` of BAPO, or its `low_cap`, `high_cap` or `high_step` at the target 0.5.
`part` "blocked": what the clip blocks of its own run's pushes, from the start `knob`: `up`, `down`, the share of what
raises and lowers entropy, by `plain` and `natural` gradient. "tokens": of the same run by |log ratio|, `number` the
lower edge of a bin: `share` of tokens, mean `prob` (of the behavior policy) and `entropy` (of the current one, nats);
closed positive, closed negative: the share of tokens with such an advantage that the clip blocks, `number` the lower
edge of `prob`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

import asyncsim as sim
from asyncsim.diagnostics import _levels
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Step
from experiments import _bapo, _vcpo, m2po

PLACE = ["part", "task", "staleness", "epochs", "arm", "knob", "rate", "number", "quantity"]
COLUMNS = [*PLACE, "value", "low", "high", "samples"]
GROUPS, SAMPLES, CLIP, GAIN = _bapo.GROUPS, _bapo.SAMPLES, _bapo.CLIP, _bapo.GAIN
HALF = 0.5
"""Target of the share of positive advantages: equal lengths give it half already, so that 0.4 is met without a move."""
PEAKED, UNIFORM = "peaked:0.02:0.9", "uniform"
m, tasks = sim.methods, sim.tasks
MADE: dict[str, Callable[..., Any]] = {
    "tokens": lambda **start: tasks.token_bandit(8, 16, "position", **start),
    "long": lambda **start: tasks.token_bandit(8, 64, "position", **start),
    "noisy": lambda **start: tasks.token_bandit(8, 16, "position", rewards="gaussian", deviation=0.3, **start),
}
ARMS: dict[str, Any] = {
    "clip": m.ppo_clip(CLIP, CLIP, advantage=GAIN),
    "higher": m.ppo_clip(CLIP, 0.28, advantage=GAIN),
    "bapo": m.bapo_paper(advantage=GAIN),
    "half": m.bapo_paper(HALF, advantage=GAIN),
    "weighed": m.bapo_paper(HALF, advantage=GAIN, weigh="behavior"),
    "none": m.ppo_clip(1.0, 1e9, advantage=GAIN),
}
KNOBS: dict[str, list[float]] = {
    "c_high": [1.1, 1.2, 1.28, 1.5, 2.0, 3.0, 10.0],
    "c_low": [0.0, 0.2, 0.4, 0.6, 0.8, 0.9],
    "rho_0": [0.3, 0.4, 0.45, 0.5, 0.6],
    "low_cap": [0.6, 0.8, 0.9, 0.95],
    "high_cap": [1.5, 2.0, 3.0, 5.0],
    "high_step": [0.02, 0.05, 0.2],
}
RATES = [0.0125 * 2.0**k for k in range(8)]
STALE, OLDEST, REUSED = (2, 8, 32), 32, (2, 4, 8)
BINS, CHANCES = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0), (0.0, 0.1, 0.5)
"""Lower edges of |log ratio| and of the behavior probability."""
_SIZES = {"updates": 320, "every": 20, "replicates": 16, "seed": 0}
_GRID = {"part": "grid", "epochs": 1, "rates": RATES, **_SIZES}
_KNOB = {"part": "knob", "staleness": OLDEST, "epochs": 1, "rates": RATES[3:7], **_SIZES}
_TOKENS = {"part": "tokens", "staleness": OLDEST, "epochs": 1, "arm": "clip", **_SIZES, "rates": [0.05, 0.2]}
_LONG: dict[Any, dict[str, Any]] = {"long": {"replicates": 12}}
SETTINGS: list[dict[str, Any]] = [
    {**each, **_LONG.get(each["task"], {})}
    for each in (
        *({**_GRID, "task": task, "staleness": 0, "arm": "clip"} for task in MADE),
        *(
            {**_GRID, "task": task, "staleness": s, "arm": arm}
            for task in MADE
            for s in STALE
            for arm in ARMS
            if arm != "weighed" or (s == OLDEST and task == "tokens")
        ),
        *(
            {**_GRID, "task": task, "staleness": 0, "epochs": epochs, "arm": arm}
            for task in MADE
            for epochs in REUSED
            for arm in ("clip", "higher", "bapo", "half", "none")
        ),
        *({**_KNOB, "task": "tokens", "knob": knob} for knob in KNOBS),
        *({**_KNOB, "task": "long", "knob": knob} for knob in ("c_high", "c_low", "rho_0")),
        *({**_TOKENS, "task": task, "knob": start} for task in ("tokens", "long") for start in (UNIFORM, PEAKED)),
    )
]
_FEW = {"updates": 8, "every": 2, "replicates": 2}
_SHOWN = ("rho_0", "c_low", "c_high", UNIFORM, PEAKED, None)
QUICK = [
    {**each, **_FEW, "staleness": min(6, each["staleness"]), "rates": each["rates"][-2:]}
    for each in SETTINGS
    if each["task"] == "tokens" and each["staleness"] not in (2, 8) and each["epochs"] in (1, 8)
    if each.get("knob") in _SHOWN
]


def method(setting: dict[str, Any], value: Any = None) -> Any:
    """The arm of a setting, or the clip or BAPO with one knob moved."""
    knob = setting.get("knob")
    if setting["part"] != "knob":
        return ARMS[setting["arm"]]
    if knob in ("c_low", "c_high"):
        low, high = (value, 1.0 + CLIP) if knob == "c_low" else (1.0 - CLIP, value)
        return m.ppo_clip(1.0 - low, high - 1.0, advantage=GAIN)
    moved: dict[str, Any] = {"target": value} if knob == "rho_0" else {"target": HALF, str(knob): value}
    return m.bapo_paper(**moved, advantage=GAIN)


def trained(setting: dict[str, Any], made: Any, metrics: list[Any]) -> dict[str, np.ndarray]:
    """Curves `[U, rates, replicates]` of a method by name; rates ride as replicates of one run."""
    start = setting.get("knob") if setting["part"] == "tokens" else PEAKED
    rates, each = setting["rates"], setting["replicates"]
    spec = sim.Spec(
        MADE[setting["task"]](**({} if start == UNIFORM else {"start": start})),
        sim.schedules.fixed(setting["staleness"], groups_per_batch=GROUPS),
        made,
        sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(tuple(float(x) for x in np.repeat(rates, each)))),
        samples_per_group=SAMPLES,
        replicates=len(rates) * each,
        minibatches=1,
        diagnostics=metrics,
        **{name: setting[name] for name in ("updates", "every", "epochs")},
    )
    trace = sim.run(spec, seed=setting["seed"], progress=False)
    return {name: trace[name].reshape(-1, len(rates), each) for name in trace.metrics}


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one setting."""
    rows = {"grid": gridded, "knob": moved, "tokens": seen}[setting["part"]](setting)
    names = ("part", "task", "staleness", "epochs", "arm", "knob")
    place = {name: setting.get(name, "") for name in names} | {"number": -1.0}
    return [{name: {**place, **row}.get(name, np.nan) for name in COLUMNS} for row in rows]


def metrics() -> list[Any]:
    """What the grid records."""
    sides = [
        Metric(f"signal {side}", lambda step, sign=sign: _bapo.signal(step, sign, False))
        for side, sign in _bapo.SIDES.items()
    ]
    return [_bapo.RETURN, Metric("policy_entropy", _bapo.entropy), *sides]


def gridded(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Curves and their means at every rate."""
    curves = trained(setting, method(setting), metrics())
    named = {"return": "policy_return", "entropy": "policy_entropy", "low": "bapo_low", "high": "bapo_high"}
    rows = []
    for k, rate in enumerate(setting["rates"]):
        own = {name: curve[:, k] for name, curve in curves.items()}
        for at in range(len(own["policy_return"])):
            row = {"rate": rate, "number": float(setting["every"] * at), "part": "course"}
            up, down = (own[f"signal {side}"][at] for side in _bapo.SIDES)
            if (up + down).any():
                rows.append({**row, "quantity": "positive", **m2po.ratio(up, up + down)})
            found = {key: own[name][at] for key, name in named.items() if name in own}
            rows += [{**row, "quantity": key, **_vcpo.mean(values)} for key, values in found.items()]
        rows += [{"rate": rate, **row} for row in summed(own)]
    return rows


def summed(own: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Return and entropy of one rate, over the run and at its end."""
    last = max(1, len(own["policy_return"]) // 10)
    rows = []
    for prefix, name in (("", "policy_return"), ("entropy_", "policy_entropy")):
        for key, values in (("mean", own[name].mean(0)), ("end", own[name][-last:].mean(0))):
            rows.append({"quantity": prefix + key, **_vcpo.mean(values)})
    return rows


def moved(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Means at every value of one knob."""
    rows = []
    for value in KNOBS[setting["knob"]]:
        curves = trained(setting, method(setting, value), metrics()[:2])
        for k, rate in enumerate(setting["rates"]):
            own = {name: curve[:, k] for name, curve in curves.items()}
            rows += [{"rate": rate, "number": value, **row} for row in summed(own)]
    return rows


def inside(values: Tensor, edges: tuple[float, ...], k: int) -> Tensor:
    """Whether values lie between an edge and the next."""
    above = values >= edges[k]
    return above & (values < edges[k + 1]) if k + 1 < len(edges) else above


def binned(step: Step) -> dict[str, Tensor]:
    """Sums over a step `[R]`: tokens by |log ratio|, with probability and entropy; tokens and blocked ones by side."""
    share, prob = _levels.token_share(step), step.behavior["log_prob"].exp()
    far, entropy = step.log_ratio.abs(), m2po.entropies(step)
    sums: dict[str, Tensor] = {}
    for k, edge in enumerate(BINS):
        own = share * inside(far, BINS, k)
        parts = {"share": own, "prob": own * prob, "entropy": own * entropy}
        sums |= {f"{name} {edge:g}": values for name, values in parts.items()}
    advantage = _levels.advantages(step).expand(step.mask.shape)
    closed = _bapo.weights(step, step.method) == 0
    for side, sign in _bapo.SIDES.items():
        for k, edge in enumerate(CHANCES):
            own = share * (sign * advantage > 0) * inside(prob, CHANCES, k)
            sums |= {f"{side} {edge:g}": own, f"closed {side} {edge:g}": own * closed}
    return {name: values.sum((1, 2, 3)) for name, values in sums.items()}


class Pass(_bapo.Pass):
    """One pass over a step for all metrics of `binned`."""

    def metric(self, name: str) -> Metric:
        """One of the sums as a metric."""

        def measure(step: Step) -> Tensor:
            if self.step is not step:
                self.step, self.sums = step, binned(step)
            return self.sums[name]

        return Metric(name, measure)


def seen(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """What a clip blocks from one start, and which tokens they are."""
    one, two = _bapo.Pass(), Pass()
    pushes = [f"{kind} {way}" for kind in _bapo.KINDS for way in _bapo.WAYS]
    bounds = [f"{push} clip {bound}" for push in pushes for bound in _bapo.BOUNDS]
    sums = [f"{name} {edge:g}" for name in ("share", "prob", "entropy") for edge in BINS]
    sides = [f"{name}{side} {edge:g}" for name in ("", "closed ") for side in _bapo.SIDES for edge in CHANCES]
    asked = [*(one.metric(name) for name in (*pushes, *bounds)), *(two.metric(name) for name in (*sums, *sides))]
    curves, rows = trained(setting, method(setting), asked), []
    for k, rate in enumerate(setting["rates"]):
        own = {name: curve[:, k].mean(0) for name, curve in curves.items()}
        for push in pushes:
            blocked = own[f"{push} clip low"] + own[f"{push} clip high"]
            rows.append({"part": "blocked", "rate": rate, "quantity": push, **m2po.ratio(blocked, own[push])})
        for edge in BINS:
            row, tokens = {"rate": rate, "number": edge}, own[f"share {edge:g}"]
            rows.append({**row, "quantity": "share", **_vcpo.mean(tokens)})
            if tokens.any():
                quantities = ("prob", "entropy")
                rows += [{**row, "quantity": q, **m2po.ratio(own[f"{q} {edge:g}"], tokens)} for q in quantities]
        for side in _bapo.SIDES:
            for edge in CHANCES:
                tokens, closed = own[f"{side} {edge:g}"], own[f"closed {side} {edge:g}"]
                if tokens.any():
                    quantity = f"closed {side}"
                    rows.append({"rate": rate, "number": edge, "quantity": quantity, **m2po.ratio(closed, tokens)})
    return rows
