"""Does a bound on the second moment of log ratios save training on stale data, and what does it mask?

The stale harness of M2PO: batches of 4 groups of 8 samples, 4 minibatches each, data `staleness` updates old (and up to
3 more), all from the start until there is older data. Tasks: `forks`, 32 bits of which every fourth is wrong at first
with probability 0.62 and the others with 0.05, paid 1 if nine tenths are right; `graded` of `_vcpo`; `bandit`, 4
prompts of 8 arms paid 0 or 1. Advantages are those of GRPO, averaged over tokens, Adam behind a clip at norm 1.
Arms: `m2po`, the paper's mask at tau = 0.04; `release` and `areal`, what two code bases made of it; `clip`, PPO's at
0.2; `none`, the ratio alone, no trust region; `fresh`, clip at staleness 0.
`part` "compare": `sim.compare` of all arms with `m2po` ("mean") or `fresh` ("end"), each at its own best `rate` of one
grid, chosen on seeds of its own, never an edge. `over` says what of the exact return is read: "mean" over updates,
"end", its last tenth.
  level       mean reading of an arm; difference  arm minus that one, `word` the verdict; intervals count all looks
`part` "grid": every arm at every `rate`; 95 percent intervals between replicates.
  return, end, peak  exact return: mean over updates, over the last tenth, and its largest
  collapsed   share of replicates that gained 0.1 and lost half of their largest gain
  masked      share of tokens with an advantage but no weight; harmful  share of tokens that a step would push outward
  cut         masked over harmful; second  mean squared log ratio of harmful tokens, nats^2
  entropy     of the current policy at all tokens, nats; entropy_masked, entropy_far: at masked ones, and at those whose
              ratio is more than 0.2 from 1; missing where there is none
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import asyncsim as sim
from asyncsim import uncertainty
from asyncsim.diagnostics import _levels
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running.spec import Spec
from asyncsim.step.step import Step
from experiments import _vcpo

COLUMNS = [
    "part", "task", "staleness", "arm", "over", "rate", "quantity", "value", "low", "high", "samples", "word", "note",
]  # fmt: skip
TAU, CLIP, GROUPS, SAMPLES, PARTS = 0.04, 0.2, 4, 8, 4
SMALLEST = 0.03
"""Least difference in return that matters; the best return is 1, of `bandit` 0.84."""
BITS = np.stack([np.where(np.arange(32) % 4 == 0, -0.5, 3.0), np.zeros(32)], 1)
MEANS = np.random.default_rng(0).uniform(0.1, 0.9, (GROUPS, 8))
TASKS: dict[str, Any] = {
    "forks": sim.tasks.bit_chain(32, 0.9, logits=BITS),
    "graded": _vcpo.PROBLEMS["graded"],
    "bandit": sim.tasks.softmax_bandit(8, means=MEANS),
}
GAIN = sim.advantages.group_std()
METHODS: dict[str, Any] = {
    "m2po": sim.methods.m2po_mask(TAU, advantage=GAIN),
    "clip": sim.methods.ppo_clip(CLIP, CLIP, advantage=GAIN),
    "none": sim.methods.ppo_clip(1.0, 1e9, advantage=GAIN),
    "release": sim.methods.m2po_waterfill(TAU, advantage=GAIN),
    "areal": sim.methods.m2po_areal(TAU, advantage=GAIN),
}
RATES = [0.1 * 2.0**k for k in (-7, -6, -5, -4, -3, -2, 0, 2)]
MASKING, BETWEEN = ("m2po", "clip", "release"), (0.0019, 0.0022, 0.0026, 0.0037, 0.0044, 0.0052)
"""Arms and rates for where the clip masks about one percent."""
_COMPARE = {"part": "compare", "staleness": 256, "updates": 1024, "every": 25, "most": 128, "seed": 1}
_GRID = {"part": "grid", "updates": 1024, "every": 25, "rates": RATES, "replicates": 16, "seed": 2}
SETTINGS = [
    *({**_GRID, "task": t, "staleness": 256, "arms": [*METHODS]} for t in TASKS),
    *({**_COMPARE, "task": t, "over": "mean", "arms": [*METHODS, "fresh"]} for t in TASKS),
    *({**_COMPARE, "task": t, "over": "end", "arms": ["fresh", "m2po", "none"], "most": 512} for t in TASKS),
    *({**_GRID, "task": t, "staleness": 16, "arms": ["m2po", "clip", "none"]} for t in TASKS),
    *({**_GRID, "task": t, "staleness": 0, "arms": ["clip"]} for t in TASKS),
    *({**_GRID, "task": t, "staleness": 256, "arms": list(MASKING), "rates": list(BETWEEN)} for t in TASKS),
]
_FEW = {"updates": 40, "every": 5}
QUICK = [
    {
        **_COMPARE,
        **_FEW,
        "task": "bandit",
        "staleness": 16,
        "over": "mean",
        "arms": ["m2po", "clip", "none"],
        "most": 64,
    },
    *(
        {**_GRID, **_FEW, "task": t, "rates": [0.1, 0.4], "replicates": 4, "staleness": s, "arms": [*METHODS]}
        for t in TASKS
        for s in (0, 16)
    ),
]


def expected(step: Step) -> Tensor:
    """Exact expected return of the current policy, `[R]`: in closed form, where the task has one, by counting else."""
    task: Any = step.task
    markov = task.horizon > 1 and not task.closed
    return _vcpo.expected(step) if markov else task.exact(step.policy, step.parameters)[0]


RETURN = Metric("policy_return", expected, range=(0.0, 1.0))


def entropies(step: Step) -> Tensor:
    """Entropy of the current policy where each token was chosen, nats, `[R, G, N, T]`."""
    table: Any = step.policy
    prob = torch.softmax(step.parameters.reshape(-1, table.rows, table.actions), -1)
    rows = -torch.xlogy(prob, prob).sum(-1)
    state = step.batch.state.expand(step.batch.mask.shape)
    return torch.gather(rows, 1, state.flatten(1)).reshape(state.shape)


def harmful(step: Step) -> Tensor:
    """Tokens that a step would push further from behavior, bool `[R, G, N, T]`."""
    return _levels.advantages(step) * step.log_ratio > 0


def total(step: Step, flag: Tensor, values: Tensor | float = 1.0) -> Tensor:
    """Sum over flagged tokens of their share of the step times a value, `[R]`."""
    return (_levels.token_share(step) * flag * values).sum((1, 2, 3))


def far(step: Step) -> Tensor:
    """Tokens whose ratio is further than the clip from 1."""
    return (step.log_ratio.exp() - 1.0).abs() > CLIP


SUMS = [
    Metric("masked", lambda step: total(step, _levels.stopped(step))),
    Metric("masked_entropy", lambda step: total(step, _levels.stopped(step), entropies(step))),
    Metric("far", lambda step: total(step, far(step))),
    Metric("far_entropy", lambda step: total(step, far(step), entropies(step))),
    Metric("harmful", lambda step: total(step, harmful(step))),
    Metric("squares", lambda step: total(step, harmful(step), step.log_ratio**2)),
    Metric("entropy", lambda step: total(step, step.mask > 0, entropies(step))),
]
RATIOS = {
    "cut": ("masked", "harmful"),
    "second": ("squares", "harmful"),
    "entropy_masked": ("masked_entropy", "masked"),
    "entropy_far": ("far_entropy", "far"),
}


def spec(setting: dict[str, Any], arm: str, rate: Any, **more: Any) -> Spec:
    """An arm on the harness; records are an odd number of updates apart, so that every minibatch has its turn."""
    old = 0 if arm == "fresh" else setting["staleness"] // PARTS
    return sim.Spec(
        TASKS[setting["task"]],
        sim.systems.m2po(GROUPS, old, length=1.0, load=2.0),
        METHODS["clip" if arm == "fresh" else arm],
        sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(rate)),
        samples_per_group=SAMPLES,
        updates=setting["updates"],
        every=setting["every"],
        diagnostics=[RETURN, *SUMS],
        compiled=False,
        **more,
    )


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one comparison, or of one grid."""
    rows = compared(setting) if setting["part"] == "compare" else gridded(setting)
    place = {name: setting[name] for name in ("part", "task", "staleness")}
    blank = {"over": setting.get("over", ""), "word": "", "note": ""}
    return [{**place, **blank, **row} for row in rows]


def compared(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Each arm at its own best rate, beside M2PO at its own."""
    arms = {arm: spec(setting, arm, 0.1) for arm in setting["arms"]}
    choices = {"smallest": SMALLEST, "max_replicates": setting["most"], "seed": setting["seed"]}
    answer = sim.compare(arms, metric=RETURN, over=setting["over"], progress=False, workers=1, **choices)
    (found,) = answer.tasks
    rows, rate = [], {arm.name: arm.tuned.chosen for arm in found.arms}
    for arm in found.arms:
        value = arm.mean
        row = {"arm": arm.name, "rate": rate[arm.name], "quantity": "level", "value": value, "low": value}
        rows.append({**row, "high": value, "samples": found.pairs[0].last.replicates, "note": found.interval})
    for pair in found.pairs:
        last = pair.last
        row = {"arm": pair.arm, "rate": rate[pair.arm], "quantity": "difference", "value": last.difference}
        rows.append({**row, "low": last.low, "high": last.high, "samples": last.replicates, "word": last.word})
    return rows


def gridded(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Each arm at each rate, rates riding as replicates of one run."""
    rows, each = [], setting["replicates"]
    for arm in setting["arms"]:
        rates = tuple(float(x) for x in np.repeat(setting["rates"], each))
        trace = sim.run(spec(setting, arm, rates, replicates=len(rates)), seed=setting["seed"], progress=False)
        shape = (-1, len(setting["rates"]), each)
        curves = {name: trace[name].reshape(shape) for name in trace.metrics}
        for place, rate in enumerate(setting["rates"]):
            own = {name: curve[:, place] for name, curve in curves.items()}
            rows += [{"arm": arm, "rate": rate, "quantity": key, **value} for key, value in measured(own).items()]
    return rows


def measured(found: dict[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """Quantities of curves `[U, R]` by name."""
    outcome = _vcpo.outcome(found["policy_return"])
    rows = {
        "return": _vcpo.mean(found["policy_return"].mean(0)),
        "end": _vcpo.mean(outcome.final),
        "peak": _vcpo.mean(found["policy_return"].max(0)),
        "collapsed": _vcpo.share(outcome.collapsed),
        **{name: _vcpo.mean(found[name].mean(0)) for name in ("masked", "harmful", "entropy")},
    }
    for name, (over, under) in RATIOS.items():
        above, below = found[over].mean(0), found[under].mean(0)
        rows[name] = ratio(above, below) if below.any() else _vcpo.missing("no such token")
    return rows


def ratio(above: np.ndarray, below: np.ndarray) -> dict[str, Any]:
    """Ratio of means over replicates with its 95 percent interval."""
    found = uncertainty.ratio(above, below)
    reach = uncertainty.critical(0.05, found.freedom) * found.error
    return {"value": found.value, "low": found.value - reach, "high": found.value + reach, "samples": found.samples}
