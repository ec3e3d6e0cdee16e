"""From a reference that seldom finds what is paid: reward, divergence and diversity of TBA beside on-policy methods.

Tasks begin at their reference. `arms`: 4 prompts of 64 arms, of which 8 are good (paid 1 with chance 0.9, the others
0.05) and have chance 0.02 together; `tokens`: 8 tokens of 8, paid by the share that is right, each with chance 0.02 of
the right one and 0.9 of a wrong one; `rare`: 12 bits, paid 1 if 11 are right, the reference uniform. Batches have 4
groups of 8 samples. Adam; every arm at all rates and all prices `beta` of a nat. Arms: `TBA`; `RLOO` without a ratio
and `Proximal RLOO`, with PPO's clip at 0.2, whose rewards lose beta nats when the data are drawn; `RLOO, KL of now`,
whose penalty is that of the policy that is trained; `Dr. GRPO`, that clip and the penalty k3 at beta. Read is the
policy that is trained, exactly:
return    expected reward; objective  return - beta kl
kl        KL(policy || reference) of a whole answer, nats; entropy  nats per token
distinct  expected number of different good arms among 64 draws of a prompt, of 8 (`arms` only)
Rows, with 95 percent intervals between `samples` replicates, by `reading`: course, before update `number`; mean, end:
over all updates, over the last tenth.
`part` "grid": data `steps` updates old. "search": TBA's system with `place` searchers (generators), half of the groups
recent. "buffer": the loop of `_tba_buffer`; `place` says how it draws, the share of recent samples, samples a prompt
stored at every exchange, and the size of the buffer, samples a prompt. "reset": the same loop, `place` the updates
between resets of the reference (0: never); kl is to the first reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Step
from experiments import _tba_buffer, _vcpo, tba_returns

PLACE = ["part", "task", "steps", "arm", "place", "beta", "rate", "number", "reading", "quantity"]
COLUMNS = [*PLACE, "value", "low", "high", "samples"]
GROUPS, SAMPLES, ARMS, GOOD, DRAWS = 4, 8, 64, 8, 64
PEAKED = "peaked:0.02:0.9"


def begun() -> tuple[np.ndarray, np.ndarray]:
    """Means and logits `[G, A]` of `arms`: the first ones are good and have chance 0.02 together, unevenly."""
    draw = np.random.default_rng(0)
    logits = draw.standard_normal((GROUPS, ARMS))
    chance = np.exp(logits)
    for part, total in ((slice(GOOD), 0.02), (slice(GOOD, None), 0.98)):
        chance[:, part] *= total / chance[:, part].sum(1, keepdims=True)
    return np.where(np.arange(ARMS) < GOOD, 0.9, 0.05) * np.ones((GROUPS, 1)), np.log(chance)


MEANS, LOGITS = begun()
m = sim.methods
_LEAVE = sim.advantages.leave_one_out()
CURRENT = "RLOO, KL of now"
PENALIZED = ("RLOO", "Proximal RLOO", CURRENT)
"""Arms whose reward has the penalty."""
NAMES = ("TBA", *PENALIZED, "Dr. GRPO")
STEPS = (0, 1, 2, 15, 64)
PRICES = {"arms": (0.004, 0.014, 0.05, 0.1, 0.2, 0.4), "tokens": (0.004, 0.014, 0.02, 0.025, 0.03, 0.05)}
"""Reward a nat; `tokens` earn an eighth for each token."""
RATES = [0.025 * 2.0**k for k in range(6)]
SEARCHERS = (1, 2, 4, 8, 16, 32)
_SIZES = {"updates": 240, "every": 12, "replicates": 24, "rates": RATES, "seed": 0}
_GRID = {"part": "grid", **_SIZES}
_LOOP = {"arm": "TBA", "task": "arms", "updates": 240, "every": 12, "replicates": 32, "rates": RATES, "seed": 0}
_BUFFER = {"part": "buffer", "beta": 0.05, **_LOOP}
_RESET = {"part": "reset", "recent": 0.5, "rule": "uniform", "stored": 32, "size": 768, **_LOOP}
DRAWN = [("uniform", 0.0), ("uniform", 0.95), ("reward", 0.0), ("reward", 0.5)]
"""How the buffer is drawn from: the rule, and the share that is recent."""
SETTINGS: list[dict[str, Any]] = [
    *(
        {**_GRID, "task": task, "steps": s, "arm": arm, "betas": PRICES[task]}
        for task in PRICES
        for s in STEPS
        for arm in NAMES
    ),
    *(
        {**_SIZES, "part": "search", "arm": "TBA", "task": task, "place": searchers, "betas": (0.004,)}
        for task in ("arms", "rare")
        for searchers in SEARCHERS
    ),
    *(
        {**_BUFFER, "rule": rule, "recent": recent, "stored": stored, "size": 24 * stored}
        for rule, recent in DRAWN
        for stored in (8, 32, 128)
    ),
    *({**_BUFFER, "rule": "reward", "recent": 0.5, "stored": 32, "size": size} for size in (32, 64, 128, 256)),
    *({**_RESET, "beta": beta, "reset": reset} for beta in (0.05, 0.2) for reset in (0, 100, 50, 25)),
]
_FEW = {"updates": 12, "every": 3, "replicates": 2, "rates": RATES[2:4]}
QUICK = [
    {
        **each,
        **_FEW,
        "steps": min(4, each.get("steps", 0)),
        **({"betas": each["betas"][::3]} if "betas" in each else {}),
    }
    for each in SETTINGS
    if each.get("steps", 0) in (0, 15) and each.get("place", 1) in (1, 16) and each["task"] != "tokens"
    if each.get("stored", 8) == 8 or (each["part"] == "reset" and each["reset"] in (0, 50)) or each.get("size") == 256
]


def task(name: str, beta: float = 0.0, at: str = "behavior") -> Any:
    """A task with its reference; a penalty of `beta` reward a nat when data are drawn, or at the current policy."""
    penalty: Any = {"kl_coef": beta, "kl_at": at, "reference": "start"}
    if name == "arms":
        return sim.tasks.softmax_bandit(ARMS, MEANS, logits=LOGITS, **penalty)
    if name == "tokens":
        return sim.tasks.token_bandit(8, 8, "position", start=PEAKED, **penalty)
    return tba_returns.TASKS["rare"]


def method(arm: str, betas: tuple[float, ...]) -> Any:
    """An arm, its price one for each replicate where it has one."""
    price: Any = betas[0] if len(set(betas)) == 1 else betas
    if arm == "TBA":
        return m.tba(price)
    if arm in ("RLOO", CURRENT):
        return m.reinforce(_LEAVE)
    if arm == "Proximal RLOO":
        return m.ppo_clip(0.2, 0.2, advantage=_LEAVE, aggregator="sequence_sum")
    return m.grpo(advantage=sim.advantages.group_mean(), aggregator="sequence_sum", kl=price)


def rows_of_table(step: Step) -> Tensor:
    """Log-probs of the current policy, `[R, S, A]`."""
    table: Any = step.policy
    return torch.log_softmax(step.parameters.reshape(-1, table.rows, table.actions), -1)


def reference(task: Any) -> Tensor:
    """Log-probs of the reference, `[S, A]`."""
    logits = np.zeros((task.rows, task.actions)) if task.reference is None else np.array(task.reference)
    return torch.log_softmax(torch.as_tensor(logits), -1)


def divergence(log_prob: Tensor, known: Tensor, prompts: int) -> Tensor:
    """KL(policy || reference) of an answer, `[R]`: summed over rows, which are read once each; mean over prompts."""
    return (log_prob.exp() * (log_prob - known)).sum((-1, -2)) / prompts


def entropy(log_prob: Tensor) -> Tensor:
    """Entropy of a token, nats, `[R]`."""
    return -(log_prob.exp() * log_prob).sum(-1).mean(-1)


def distinct(log_prob: Tensor) -> Tensor:
    """Expected number of different good arms among `DRAWS` draws of a prompt, `[R]`."""
    return (1.0 - (1.0 - log_prob[..., :GOOD].exp()) ** DRAWS).sum(-1).mean(-1)


def earned(step: Step) -> Tensor:
    """Expected reward without the penalty, exact, `[R]`."""
    chance, task = rows_of_table(step).exp(), step.task
    if task.horizon == 1:
        return (chance * torch.as_tensor(MEANS)).sum(-1).mean(-1)
    # Bits are known by counting; else the share that is right is the mean chance of token 0.
    return task.exact(step.policy, step.parameters)[0] if task.actions == 2 else chance[..., 0].mean(-1)


def metrics(name: str) -> list[Any]:
    """What runs record."""
    found = [
        Metric("return", earned, range=(0.0, 1.0)),
        Metric("kl", lambda step: divergence(rows_of_table(step), reference(step.task), step.task.prompts)),
        Metric("entropy", lambda step: entropy(rows_of_table(step))),
    ]
    if name == "arms":
        found.append(Metric("distinct", lambda step: distinct(rows_of_table(step))))
    return found


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one setting."""
    rows = looped(setting) if setting["part"] in ("buffer", "reset") else trained(setting)
    place = {name: setting.get(name) for name in ("part", "task", "arm")} | {"steps": setting.get("steps", -1)}
    place |= {"place": "", "number": -1}
    return [{name: {**place, **row}.get(name, np.nan) for name in COLUMNS} for row in rows]


def trained(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """An arm at all prices and rates; those that the method has ride as replicates of one run."""
    arm, name, rates, each = (setting[key] for key in ("arm", "task", "rates", "replicates"))
    searching = setting["part"] == "search"
    system: Any = (
        tba_returns.replayed(0.5, setting["place"])
        if searching
        else sim.schedules.fixed(setting["steps"], groups_per_batch=GROUPS)
    )
    betas, rows = tuple(setting["betas"]), []
    for own in [(beta,) for beta in betas] if arm in PENALIZED else [betas]:
        lanes = [(beta, rate) for beta in own for rate in rates]
        prices, steps = (tuple(float(x) for x in np.repeat(values, each)) for values in zip(*lanes, strict=True))
        spec = sim.Spec(
            task(name, own[0] if arm in PENALIZED else 0.0, "current" if arm == CURRENT else "behavior"),
            system,
            method(arm, prices),
            sim.chain(sim.updates.adam(steps)),
            samples_per_group=SAMPLES,
            updates=setting["updates"],
            every=setting["every"],
            replicates=len(steps),
            diagnostics=metrics(name),
        )
        trace = sim.run(spec, seed=setting["seed"], progress=False)
        curves = {q: trace[q].reshape(-1, len(lanes), each) for q in trace.metrics}
        for k, (beta, rate) in enumerate(lanes):
            courses = not searching and beta == betas[0]
            place = {"beta": beta, "rate": rate, "place": str(setting.get("place", ""))}
            values = {q: curve[:, k] for q, curve in curves.items()}
            rows += [{**place, **row} for row in read(values, beta, setting["every"], courses)]
    return rows


def read(curves: dict[str, np.ndarray], beta: float, every: int, courses: bool) -> list[dict[str, Any]]:
    """Means over the run and over its end of curves `[U, R]`, and the curves if asked."""
    names = [name for name in ("return", "kl", "entropy", "distinct") if name in curves]
    found = {name: curves[name] for name in names} | {"objective": curves["return"] - beta * curves["kl"]}
    last, rows = max(1, len(curves["return"]) // 10), []
    for name, curve in found.items():
        rows.append({"reading": "mean", "quantity": name, **_vcpo.mean(curve.mean(0))})
        rows.append({"reading": "end", "quantity": name, **_vcpo.mean(curve[-last:].mean(0))})
        if courses and name != "objective":
            course = [{"number": every * at, **_vcpo.mean(values)} for at, values in enumerate(curve)]
            rows += [{"reading": "course", "quantity": name, **row} for row in course]
    return rows


def looped(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """TBA on a buffer, at all rates."""
    rates, each = setting["rates"], setting["replicates"]
    names = ("beta", "updates", "every", "rule", "recent", "stored", "size", "reset")
    loop = _tba_buffer.Loop(**{name: setting[name] for name in names if name in setting})
    means, start = torch.as_tensor(MEANS), torch.as_tensor(LOGITS)
    first = torch.log_softmax(start, -1)

    def watch(logits: Tensor) -> dict[str, Tensor]:
        own = torch.log_softmax(logits, -1)
        earned = (own.exp() * means).sum(-1).mean(-1)
        return {
            "return": earned,
            "kl": divergence(own, first, GROUPS),
            "entropy": entropy(own),
            "distinct": distinct(own),
        }

    found = _tba_buffer.train(means, start, torch.tensor(np.repeat(rates, each)), loop, setting["seed"], watch)
    place = f"{loop.rule} {loop.recent:g} {loop.stored} {loop.size}" if setting["part"] == "buffer" else f"{loop.reset}"
    rows = []
    for k, rate in enumerate(rates):
        own = {name: values[:, k * each : (k + 1) * each].numpy() for name, values in found.items()}
        row = {"beta": loop.beta, "rate": rate, "place": place}
        rows += [{**row, **each_row} for each_row in read(own, loop.beta, loop.every, setting["part"] == "reset")]
    return rows
