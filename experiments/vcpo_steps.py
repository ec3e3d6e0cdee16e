"""What happens over updates when training on old data falls: return, ESS, gradient norm, divergence, masked share?

The regime of VCPO (arXiv 2602.17616): a policy that already prefers right tokens, pass-or-fail rewards, data 12
versions old, one learning rate for all methods. Task: 32 bits, each right at first with chance 0.7, paid 1 if 26 are
right, less 0.03 a nat of divergence from the start policy. 4 groups of 8 samples, Adam behind a norm clip of 1.
Laws: `constant`, data 12 versions old; `mixed`, each trajectory 0 to 24, equally likely; `fresh`, synchronous. A run
falls as in `alarms`: after it has learned, the trailing mean of its exact return is below half of its own largest gain.
Every row is over `samples` replicates, with 95 percent `low` and `high`.

`part` "rates", an arm at a `rate`: share of runs that fall (`quantity` fell), and exact return of the trained policy,
mean over all updates (return) and over the last tenth (end).
`part` "curve", an arm at a rate of `CURVES` and an `update`; means over replicates where not said otherwise:
  return, accuracy  of the trained policy, exact, with and without the penalty
  ess               of the batch's sequence ratios, over its samples
  norm              median gradient norm before the clip
  kl_start          exact divergence of the trained policy from the start policy, nats a sequence
  kl_behavior       median divergence of behavior from the trained policy on the batch, nats a sequence
  removed           share of tokens with an advantage whose gradient the method's own clip or mask stops
`part` "single": return, ess and norm of the first run that falls at the 4× rate; `note` says when it falls.
`part` "aligned": medians `update` updates after a fall (negative: before it), `among` runs that "fell" and "others" at
the same updates, at the rates of `ALIGNED` together; norm over the run's own median `FAR` to `NEAR` updates before.
`part` "cap": as "rates", of ratios of a `level` truncated at a `cap` (0: not at all), and `when`, the median update of
the fall, runs that never fall counting as the length of the run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor

import asyncsim as sim
from asyncsim.diagnostics import _levels
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Step
from experiments import _vcpo, alarms

COLUMNS = [
    *("part", "law", "arm", "level", "cap", "rate", "update", "among", "quantity", "value", "low", "high", "samples"),
    "note",
]
BITS, NEEDED, CHANCE, PENALTY = 32, 26, 0.7, 0.03
LAG, GROUPS, SAMPLES = 12, 4, 8
_START = np.tile(np.log([CHANCE, 1.0 - CHANCE]), (BITS, 1))
TASK = sim.tasks.bit_chain(
    BITS, NEEDED / BITS, start=f"peaked:{CHANCE}", kl_coef=PENALTY, kl_at="current", reference=_START
)
LEAVE = sim.advantages.leave_one_out()
ARMS: dict[str, Any] = {
    "RLOO": sim.methods.reinforce(LEAVE, aggregator="sequence_mean"),
    "GRPO": sim.methods.grpo(),
    "PPO": sim.methods.ppo_clip(),
    "GSPO": sim.methods.gspo(),
    "CISPO": sim.methods.cispo(),
    "M2PO": sim.methods.m2po_mask(),
    "TIS, token": sim.methods.truncated_is("token", cap=2.0),
    "TIS, sequence": sim.methods.truncated_is("sequence", cap=8.0),
    "MIS, token": sim.methods.icepop(),
    "MIS, sequence": sim.methods.sequence_mis(),
    "MIS, geometric": sim.methods.geometric_rs(),
    "VCPO": sim.methods.vcpo(),
    "VCPO, standardized": sim.methods.vcpo(advantage=sim.advantages.opob(standardize=True)),
}
"""The last one divides rewards less their baseline by their standard deviation, as the release does."""
LAWS = {
    "constant": sim.schedules.fixed(LAG, groups_per_batch=GROUPS),
    "mixed": sim.schedules.random(f"uniform:0:{2 * LAG}", per="trajectory", groups_per_batch=GROUPS),
    "fresh": sim.schedules.fixed(0, groups_per_batch=GROUPS),
}
MIXED = ("RLOO", "PPO", "M2PO", "TIS, sequence", "MIS, geometric", "VCPO")
RATES = [0.025 * 2.0 ** (k / 2) for k in range(11)]
USUAL, BOLD = RATES[4], RATES[8]
"""The best synchronous rate, and four times that."""
CURVES, ALIGNED, EVERY = (USUAL, BOLD), (RATES[7], RATES[8], RATES[9]), 4
NEAR, FAR, AFTER, LEAST = 8, 32, 24, 6
"""Updates around a fall; fewest falls that are aligned."""
CAPS = (1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 0.0)
METRICS = {
    "accuracy": "accuracy",
    "ess": "ess",
    "norm": "gradient_norm",
    "kl_start": "kl_start",
    "kl_behavior": "kl_k1",
    "removed": "removed",
}
MEDIANS = ("norm", "kl_behavior")
_SIZES = {"updates": 240, "replicates": 48, "rates": RATES, "seed": 0}
_ARM = {"part": "arm", **_SIZES}
_CAP = {"part": "cap", "law": "constant", **_SIZES, "rates": [USUAL, RATES[7], BOLD]}
SETTINGS = [
    *({**_ARM, "law": "constant", "arm": arm} for arm in ARMS),
    *({**_ARM, "law": "mixed", "arm": arm, "rates": list(CURVES)} for arm in MIXED),
    {**_ARM, "law": "fresh", "arm": "RLOO"},
    *({**_CAP, "level": level} for level in ("sequence", "token")),
]
QUICK = [
    {**setting, "updates": 32, "replicates": 3, "rates": [USUAL, BOLD]}
    for setting in SETTINGS
    if setting.get("arm") in (None, *(MIXED[2::2] if setting["law"] == "mixed" else MIXED), "VCPO, standardized")
]


def largest() -> float:
    """Best return of bits that are all right with one chance."""
    p = np.linspace(CHANCE, 1.0, 3001)
    price = special.rel_entr(p, CHANCE) + special.rel_entr(1.0 - p, 1.0 - CHANCE)
    return float((stats.binom.sf(NEEDED - 1, BITS, p) - PENALTY * BITS * price).max())


def divergence(step: Step) -> Tensor:
    """Exact divergence of the current policy from the start policy, nats a sequence, `[R]`."""
    now = torch.log_softmax(step.parameters.reshape(-1, BITS, 2), -1)
    return (now.exp() * (now - torch.as_tensor(_START))).sum((1, 2))


def accuracy(step: Step) -> Tensor:
    """Chance that the current policy is paid, `[R]`: bits are independent, so chances of counts follow one by one."""
    right = torch.softmax(step.parameters.reshape(-1, BITS, 2), -1)[..., 0]
    counts = torch.zeros((len(right), BITS + 2), dtype=right.dtype)
    counts[:, 1] = 1.0
    for bit in right.T:
        # Column 0 stays empty: it feeds the count of none.
        counts[:, 1:] = torch.lerp(counts[:, 1:], counts[:, :-1], bit.unsqueeze(-1))
    return counts[:, NEEDED + 1 :].sum(-1)


def removed(step: Step) -> Tensor:
    """Share of the tokens with an advantage whose gradient a clip, a mask or a factor stops, `[R]`."""
    share, advantage = _levels.token_share(step), _levels.advantages(step)
    known = advantage != 0
    dropped = step.method.factored(step, advantage, torch.ones_like(advantage)) == 0
    part = torch.where(known & dropped, torch.ones_like(share), _levels.stopped(step))
    # A batch without any advantage has nothing to remove.
    return (share * part).sum((1, 2, 3)) / (share * known).sum((1, 2, 3))


RECORDED = [
    Metric("accuracy", accuracy), Metric("kl_start", divergence), Metric("removed", removed),
    "ess", "gradient_norm", "kl_k1",
]  # fmt: skip


def trained(setting: dict[str, Any], method: Any, scaled: bool, at: tuple[float, ...]) -> dict[str, np.ndarray]:
    """Curves `[U, R]` by quantity, of replicates at these rates."""
    links = (sim.updates.ess_step("sqrt"),) if scaled else ()
    spec = sim.Spec(
        TASK,
        LAWS[setting["law"]],
        method,
        sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(at), *links),
        samples_per_group=SAMPLES,
        updates=setting["updates"],
        replicates=len(at),
        diagnostics=RECORDED,
    )
    trace = sim.run(spec, seed=setting["seed"], progress=False)
    found = {name: trace[metric] for name, metric in METRICS.items()}
    return {"return": found["accuracy"] - PENALTY * found["kl_start"], **found}


def fall(returns: np.ndarray) -> np.ndarray:
    """Update at which each run falls, `[R]`; -1 where it does not."""
    return alarms.fallen(returns, float(returns[0].mean()), largest()).collapsed


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one arm at all rates, or of all caps of one level."""
    rows = caps(setting) if setting["part"] == "cap" else arm_rows(setting)
    shared = {name: setting.get(name) for name in ("law", "arm", "level")}
    return [{**dict.fromkeys(COLUMNS), **shared, **row} for row in rows]


def arm_rows(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rates, curves, and what happens around falls, of one arm."""
    rates, each, arm = np.array(setting["rates"]), setting["replicates"], setting["arm"]
    at = tuple(float(rate) for rate in np.repeat(rates, each))
    found = trained(setting, ARMS[arm], arm.startswith("VCPO"), at)
    fell, rows = fall(found["return"]), []
    for k, rate in enumerate(rates):
        own = slice(k * each, (k + 1) * each)
        rows += [{"part": "rates", "rate": rate, **row} for row in ends(found["return"][:, own], fell[own])]
        if np.isclose(rate, CURVES).any():
            one = {name: values[:, own] for name, values in found.items()}
            rows += [{"rate": rate, **row} for row in curves(one, fell[own], rate)]
    chosen = np.isclose(np.array(at)[:, None], ALIGNED).any(1)
    return rows + aligned({name: found[name][:, chosen] for name in ("return", "ess", "norm")}, fell[chosen])


def ends(returns: np.ndarray, fell: np.ndarray) -> list[dict[str, Any]]:
    """Falls and returns of the replicates of one rate."""
    late = returns[-max(1, len(returns) // 10) :]
    found = {"fell": _vcpo.share(fell >= 0), "return": _vcpo.mean(returns.mean(0)), "end": _vcpo.mean(late.mean(0))}
    return [{"quantity": name, **row} for name, row in found.items()]


def curves(found: dict[str, np.ndarray], fell: np.ndarray, rate: float) -> list[dict[str, Any]]:
    """All quantities over updates; at the 4× rate also of the first run that falls."""
    rows = []
    for name, values in found.items():
        of = _vcpo.median if name in MEDIANS else _vcpo.mean
        for update in range(0, len(values), EVERY):
            now = values[update][np.isfinite(values[update])]
            if len(now) > 1:
                rows.append({"part": "curve", "quantity": name, "update": update, **of(now)})
    if rate == BOLD and (fell >= 0).any():
        first = int(np.argmax(fell >= 0))
        shared = {"part": "single", "samples": 1, "note": str(fell[first])}
        for name in ("return", "ess", "norm"):
            one = found[name][:, first]
            rows += [{**shared, "quantity": name, "update": u, "value": float(x)} for u, x in enumerate(one)]
    return rows


def aligned(found: dict[str, np.ndarray], fell: np.ndarray) -> list[dict[str, Any]]:
    """Medians around falls, and of runs that did not fall at the same updates."""
    length = len(found["return"])
    cases = np.flatnonzero((fell >= FAR) & (fell < length - AFTER))
    others = np.flatnonzero(fell < 0)
    if min(len(cases), len(others)) < LEAST:
        reason = f"{len(cases)} falls and {len(others)} other runs, fewer than {LEAST}"
        return [{"part": "aligned", **_vcpo.missing(reason)}]
    rows = []
    # Every other run is read at the fall of one of those that fell, in turn.
    sides = {"fell": (cases, fell[cases]), "others": (others, fell[cases[np.arange(len(others)) % len(cases)]])}
    for among, (runs, when) in sides.items():
        before = when[None] + np.arange(-FAR, -NEAR)[:, None]
        usual = np.median(found["norm"][before, runs], axis=0)
        for lead in range(-FAR, AFTER + 1, 2):
            for name in ("return", "ess", "norm"):
                now = found[name][when + lead, runs] / (usual.clip(1e-300) if name == "norm" else 1.0)
                rows.append({"part": "aligned", "among": among, "update": lead, "quantity": name, **_vcpo.median(now)})
    return rows


def caps(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Falls and returns at every cap, side by side in the replicates; no cap is a cap that no ratio reaches."""
    rates, each, rows = setting["rates"], setting["replicates"], []
    places = [(cap, rate) for cap in CAPS for rate in rates]
    cap = np.repeat([one or 1e300 for one, _ in places], each)
    method = sim.methods.truncated_is(setting["level"], cap=cap)
    at = tuple(float(rate) for rate in np.repeat([rate for _, rate in places], each))
    returns = trained(setting, method, False, at)["return"]
    fell = fall(returns)
    for k, (one, rate) in enumerate(places):
        own = slice(k * each, (k + 1) * each)
        when = np.where(fell[own] < 0, len(returns), fell[own]).astype(float)
        found = [*ends(returns[:, own], fell[own]), {"quantity": "when", **_vcpo.median(when)}]
        rows += [{"part": "cap", "cap": one, "rate": rate, **row} for row in found]
    return rows
