"""Does gating by advantage times surprisal beat importance weights on stale data, and does it point better?

The delightful policy gradient (DG, arXiv 2603.20521) beside no correction, exact and truncated importance sampling, PPO
and a gate that does not read the sign of the advantage. DG and that gate stand at temperature 1, the paper's, and 1/4.
`part` "cosine": one prompt, `ARMS` arms, the first right; the learner fails with a chance of `failure`, the advantage
is 1/2 or -1/2. A share `SHARE` of the data is from a faulty actor: `bug`, one wrong arm; `uniform`, any arm. `older`:
all data from a policy that fails four times as often, mostly by one arm. Weights are those of the methods; all samples
and batches are enumerated, so no row has an error.
  mean   cosine of the mean estimate with the policy gradient; 1 - mean is bias
  batch  mean cosine of batches of `BATCH`; mean - batch is noise; worst, the smallest of any batch
  across second moment of a failure's term perpendicular to the policy gradient, over that without correction
`part` "prompts": the same for `PROMPTS` prompts, which fail with `failure` down to a thousandth of it: mean.
`part` "compare": rows of `_compared` beside no correction, on tasks and laws of `league`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor

import asyncsim as sim
from asyncsim.base.knobs import per_sample
from asyncsim.step.step import Step
from experiments import _compared, league

COLUMNS = ["part", "place", "failure", "quantity", "value", "task", "law", *_compared.COLUMNS]
ARMS, BATCH, SHARE, PROMPTS = 5, 16, 0.2, 32
ADVANTAGE = np.where(np.arange(ARMS) == 0, 0.5, -0.5)
FAILURES = [0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001]
ACTORS = ("bug", "uniform", "older")
_Delight: Any = type(sim.methods.delight().weight)


@dataclass(frozen=True)
class Blind(_Delight):
    """c = sigmoid(-|A| s / temperature) A: a failure is gated as by DG, and a success as the failure."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Gate times A, `[R, G, N, T]`."""
        surprisal = -step.current["log_prob"]
        return torch.sigmoid(-advantage.abs() * surprisal / per_sample(self.temperature)) * advantage


m: Any = sim.methods
gain = sim.advantages.group_mean()


def blind(temperature: float, advantage: Any) -> Any:
    """DG without the sign of the advantage."""
    return replace(m.delight(temperature, advantage), name="blind", weight=Blind(temperature))


BASE = "no correction"
METHODS: dict[str, Any] = {
    BASE: m.reinforce(gain, "token_mean"),
    "exact IS": m.full_is("sequence", gain, "token_mean"),
    "truncated IS": m.truncated_is("token", advantage=gain),
    "PPO": m.ppo_clip(advantage=gain),
    "DG": m.delight(1.0, gain),
    "DG, 1/4": m.delight(0.25, gain),
    "sign-blind": blind(1.0, gain),
    "sign-blind, 1/4": blind(0.25, gain),
}
ESTIMATORS = [arm for arm in METHODS if arm != "PPO"]
_COMPARE = {"part": "compare", "updates": 200, "most": 512, "arms": list(METHODS), "seed": 1}
PLACES = [(task, law) for task in league.TASKS for law in ("fresh", "constant 32")]
SETTINGS: list[dict[str, Any]] = [
    *({"part": "cosine", "place": actor, "failures": FAILURES} for actor in ACTORS),
    {"part": "prompts", "failures": FAILURES},
    *({**_COMPARE, "task": task, "law": law} for task, law in PLACES),
]
_ENDS = [FAILURES[0], FAILURES[5], FAILURES[-1]]
_FEW = {"updates": 24, "most": 64, "arms": [BASE, "DG"]}
QUICK = [
    *({**setting, "failures": _ENDS} for setting in SETTINGS[: len(ACTORS) + 1]),
    *({**_COMPARE, **_FEW, "task": task, "law": law} for task, law in PLACES[:2] + PLACES[3:4]),
]


def learner(failure: float) -> np.ndarray:
    """Chances of the arms, `[A]`: wrong ones are alike."""
    return np.r_[1.0 - failure, np.full(ARMS - 1, failure / (ARMS - 1))]


def behavior(actor: str, failure: float) -> np.ndarray:
    """Chances under which the data were drawn, `[A]`."""
    own = learner(failure)
    if actor == "older":
        more = min(0.8, 4.0 * failure)
        return np.r_[1.0 - more, more * np.array([0.7, 0.1, 0.1, 0.1])]
    faulty = np.eye(ARMS)[1] if actor == "bug" else np.full(ARMS, 1.0 / ARMS)
    return np.asarray((1.0 - SHARE) * own + SHARE * faulty)


def terms(arm: str, policy: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """What one sample of each arm adds to the estimate: c (e_a - pi), c the method's own weight, `[A, A]`."""
    current, then = (torch.as_tensor(np.log(chances))[:, None] for chances in (policy, drawn))
    weight = METHODS[arm].weigh(current, then, advantages=torch.as_tensor(ADVANTAGE)).score_weight
    return np.asarray(weight.numpy() * (np.eye(len(policy)) - policy))


def cosine(vectors: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Cosines of `[..., A]` with the policy gradient `[A]`."""
    return np.asarray(vectors @ true / (np.linalg.norm(vectors, axis=-1) * np.linalg.norm(true)))


def batches(size: int) -> tuple[np.ndarray, np.ndarray]:
    """How often each arm is drawn in every possible batch, `[B, A]`, and log of the number of orders, `[B]`."""
    bars = np.array(list(itertools.combinations(range(size + ARMS - 1), ARMS - 1)))
    ends = np.full((len(bars), 1), -1), np.full((len(bars), 1), size + ARMS - 1)
    counts = np.diff(np.hstack([ends[0], bars, ends[1]])) - 1
    return counts, special.gammaln(size + 1) - special.gammaln(counts + 1).sum(1)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one part."""
    rows = {"cosine": enumerated, "prompts": prompted, "compare": compared}[setting["part"]](setting)
    shared = {name: setting.get(name, "") for name in ("part", "place", "task", "law")}
    return [{name: (shared | row).get(name) for name in COLUMNS} for row in rows]


def enumerated(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Cosines and second moments of every estimator as the learner improves."""
    counts, orders = batches(BATCH)
    rows = []
    for failure in setting["failures"]:
        policy, drawn = learner(failure), behavior(setting["place"], failure)
        true = policy @ terms(BASE, policy, policy)
        chance = np.exp(orders + counts @ np.log(drawn))
        plain = 0.0
        for arm in ESTIMATORS:
            each = terms(arm, policy, drawn)
            found = cosine(counts @ each, true)
            across = perpendicular(each, true, drawn)
            plain = across if arm == BASE else plain
            values = {"mean": cosine(drawn @ each, true), "batch": chance @ found, "worst": found.min()}
            rows += [
                {"arm": arm, "failure": failure, "quantity": name, "value": float(value)}
                for name, value in {**values, "across": across / plain}.items()
            ]
    return rows


def perpendicular(each: np.ndarray, true: np.ndarray, drawn: np.ndarray) -> float:
    """Second moment of failures' terms perpendicular to the policy gradient."""
    along = each @ true / np.linalg.norm(true)
    left = (each**2).sum(1) - along**2
    return float((drawn * left)[1:].sum())


def prompted(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Cosines of mean estimates over all prompts together; a uniform actor."""
    rows = []
    for failure in setting["failures"]:
        own = failure * 10.0 ** np.linspace(0.0, -3.0, PROMPTS)
        pairs = [(learner(each), behavior("uniform", each)) for each in own]
        true = np.concatenate([policy @ terms(BASE, policy, policy) for policy, _ in pairs])
        for arm in ESTIMATORS:
            mean = np.concatenate([drawn @ terms(arm, policy, drawn) for policy, drawn in pairs])
            rows.append({"arm": arm, "failure": failure, "quantity": "mean", "value": float(cosine(mean, true))})
    return rows


def compared(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Every arm at its own best rate beside no correction."""

    def spec(arm: str) -> sim.Spec:
        return sim.Spec(
            league.TASKS[setting["task"]],
            league.LAWS[setting["law"]],
            METHODS[arm],
            sim.chain(sim.updates.adam(league.RATE)),
            samples_per_group=league.SAMPLES,
            updates=setting["updates"],
        )

    choices = {
        "smallest": league.SMALLEST,
        "metric": league.RETURN,
        "tune": "adam.lr",
        "max_replicates": setting["most"],
    }
    arms = {arm: spec(arm) for arm in setting["arms"]}
    return _compared.rows(arms, BASE, seed=setting["seed"], progress=False, workers=1, **choices)
