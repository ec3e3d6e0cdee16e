"""Do stale gradients align in training, can the staleness be read off them, and what else aligns gradients?

Five parts, told apart by `part`; `staleness` in updates, `fraction` the step over the largest stable step under
staleness `LATE`, `task` the policy-gradient task (REINFORCE, leave-one-out), `value` with a 95 percent interval.
training   a Gaussian bandit from far to its optimum, in windows of updates that end with `update`: `cosine`, the
           mean cosine of neighboring gradients, and `correlation` as below
steady     three tasks at their optimum: `correlation`, mean product of neighboring gradients over the mean squared
           length (a ratio of averages), stale and synchronous at the same steps
reading    the delayed linear model: `correlation` at each `lag`, and after `update` updates the shares of runs that
           `_gac.read` reads `right`, answers `none` or a `wrong` staleness, and of those whose lag of the largest fall
           is not the staleness (`unchecked`)
nulls      the same shares where that model does not hold (`condition`); right is `none` without one true staleness
causes     `correlation` of neighboring gradients under each `condition`, stale and not
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from experiments import _gac

LATE = 8
COLUMNS = [
    "part", "task", "condition", "staleness", "fraction", "step", "update", "lag", "quantity",
    "value", "low", "high", "error", "samples", "reason",
]  # fmt: skip
DIMENSION, SAMPLES, START = 16, 64, 3.0
"""Of the Gaussian bandit: coordinates, samples of a batch, and the distance of each coordinate from its optimum."""
MEANS, BETA, SPREAD = (0.1, 0.4, 0.6, 0.9), 0.5, 0.05
"""Of the softmax bandit: rewards of its arms, penalty per nat, and standard deviation of rewards."""
HORIZON, TOKENS, TOKEN_BETA = 4, 3, 0.25
"""Of the token bandit: tokens of a sequence, choices for each, and penalty per nat."""
FRACTIONS = (0.2, 0.4, 0.6, 0.8, 0.9)
"""Shares of the largest stable step under staleness `LATE` at which three tasks are watched."""
LAGS, LENGTHS = 24, (30, 60, 120, 240, 480, 960, 1920, 3840, 7680)
"""Lags of a correlogram, and updates after which the staleness is read off it."""
CONDITIONS: dict[str, dict[str, Any]] = {
    "far, batch 16": {"samples": 16, "start": START, "share": 1e-4, "steady": False},
    "far, batch 256": {"samples": 256, "start": START, "share": 1e-4, "steady": False},
    "batch used 4 times": {"share": 0.3, "passes": 4},
    "momentum": {"step": 0.1, "momentum": 0.9},
    "small step": {"share": 0.3},
    "large step": {"share": 0.9},
    "large step, random": {"share": 0.9, "schedule": "random"},
}
"""Share of the largest stable step, and what differs; where it is not `steady` the policy hardly moves."""
NULLS: dict[str, dict[str, Any]] = {
    "synchronous, large step": {"staleness": 0, "fraction": 0.7},
    "synchronous, same step": {"staleness": 0, "share": 0.9},
    "synchronous, momentum": {"staleness": 0, "step": 0.05, "momentum": 0.9},
    "batch used 4 times": {"staleness": 0, "share": 0.3, "passes": 4},
    "batch used twice": {"staleness": 0, "fraction": 1 / 6, "passes": 2},
    "in turn": {"staleness": LATE, "fraction": 0.7, "schedule": "sawtooth"},
    "random": {"staleness": LATE, "fraction": 0.7, "schedule": "random"},
    "stale": {"staleness": LATE, "fraction": 0.7},
    "stale, small step": {"staleness": LATE, "fraction": 0.3},
    "stale, momentum": {"staleness": LATE, "step": 0.007, "momentum": 0.9},
    "stale, flat modes": {"staleness": LATE, "fraction": 0.7, "flat": 0.05},
    "stale, learning": {"staleness": LATE, "fraction": 0.7, "start": 20.0, "after": LAGS, "updates": 60},
}
"""What the reading is tried on: steps as shares of the own limit (`fraction`) or of that at staleness `LATE` (`share`);
all coordinates but one have the curvature `flat`."""


def _training(staleness: int, fraction: float, updates: int = 1200, replicates: int = 96) -> dict[str, Any]:
    own: dict[str, Any] = {"part": "training", "task": "gaussian", "staleness": staleness, "fraction": fraction}
    return {**own, "updates": updates, "replicates": replicates, "seed": 0}


def _steady(task: str, staleness: int) -> dict[str, Any]:
    own: dict[str, Any] = {"part": "steady", "task": task, "staleness": staleness, "fractions": FRACTIONS}
    return {**own, "after": 600, "updates": 1200, "replicates": 32, "seed": 0}


def _reading(staleness: int, lengths: tuple[int, ...]) -> dict[str, Any]:
    own: dict[str, Any] = {"part": "reading", "staleness": staleness, "fraction": 0.7, "lengths": lengths}
    return {**own, "after": 40 * staleness + 40, "dimension": 8, "replicates": 512, "seed": 0}


def _null(condition: str, updates: int = LENGTHS[-1], replicates: int = 256) -> dict[str, Any]:
    own = NULLS[condition]
    shared = {"part": "nulls", "condition": condition, "staleness": own["staleness"], "dimension": 8}
    length = {"after": own.get("after", 600), "updates": own.get("updates", updates)}
    return {**shared, **length, "replicates": replicates, "seed": list(NULLS).index(condition)}


def _cause(condition: str, staleness: int) -> dict[str, Any]:
    own: dict[str, Any] = {"part": "causes", "condition": condition, "staleness": staleness}
    return {**own, "after": 400, "updates": 800, "replicates": 48, "seed": 0}


TASKS = ("gaussian", "softmax", "token")
STALE_ONLY, FRESH_ONLY = ("large step, random",), ("batch used 4 times", "momentum")
CAUSES = [
    (name, tau)
    for name in CONDITIONS
    for tau in (0, LATE)
    if not (tau == 0 and name in STALE_ONLY) and not (tau and name in FRESH_ONLY)
]
SETTINGS = [
    *(_training(tau, fraction) for tau, fraction in ((0, 0.9), (LATE, 0.3), (LATE, 0.9))),
    *(_steady(task, tau) for task in TASKS for tau in (0, LATE)),
    *(_reading(tau, LENGTHS[: 6 + (tau > 2) + 2 * (tau > 4)]) for tau in (1, 2, 4, 8, 16)),
    *(_null(name) for name in NULLS),
    *(_cause(name, tau) for name, tau in CAUSES),
]
_TINY: dict[str, Any] = {"after": 100, "updates": 200, "replicates": 12}
QUICK = [
    *(_training(tau, fraction, 160, 16) for tau, fraction in ((0, 0.9), (LATE, 0.3), (LATE, 0.9))),
    *({**_steady(task, tau), **_TINY, "fractions": (0.4, 0.8)} for task in TASKS for tau in (0, LATE)),
    *({**_reading(tau, (60, 240)), "replicates": 128} for tau in (1, 4, 16)),
    *(_null(name, 480, 64) for name in NULLS),
    *({**_cause(name, tau), **_TINY} for name, tau in CAUSES),
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one setting."""
    parts = {"training": training, "steady": steady, "reading": reading, "nulls": nulls, "causes": causes}
    part = parts[setting["part"]]
    shared = {**dict.fromkeys(COLUMNS), **{name: setting[name] for name in COLUMNS if name in setting}}
    return [{**shared, **row} for row in part(setting)]


def training(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Cosine and correlation in windows that grow by a seventh."""
    from asyncsim.base import uncertainty
    from asyncsim.running import running

    step, updates = setting["fraction"] * _gac.boundary("fixed", LATE), setting["updates"]
    spec = gaussian(setting["staleness"], step, setting["replicates"], updates, START)
    spec = spec.replace(diagnostics=["gradient_cosine", "gradient_norm"])
    trace, rows = running.run(spec, seed=setting["seed"], progress=False), []
    cosine, norm, energy = trace["gradient_cosine"], trace["gradient_norm"], trace["gradient_norm"] ** 2
    ends = np.unique(np.geomspace(2, updates, round(np.log(updates / 2) / np.log(8 / 7))).astype(int))
    for start, end in pairwise((1, *ends)):
        products = cosine[start:end] * norm[start:end] * norm[start - 1 : end - 1]
        found = {
            "cosine": uncertainty.between(cosine[start:end].T),
            "correlation": uncertainty.ratio(products.T, (energy[start:end] + energy[start - 1 : end - 1]).T / 2),
        }
        shared = {"step": step, "update": int(end) - 1}
        rows += [{**shared, "quantity": name, **_gac.measured(value)} for name, value in found.items()]
    return rows


def steady(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Correlation of neighbors at every fraction, all of them in one run."""
    from asyncsim import diagnostics
    from asyncsim.base import uncertainty
    from asyncsim.running import running

    size = setting["replicates"]
    edge = _gac.boundary("fixed", LATE) / curvatures(setting["task"])[0].max()
    steps = np.repeat(np.array(setting["fractions"]) * edge, size)
    length = setting["after"] + setting["updates"]
    if setting["task"] == "gaussian":
        spec = gaussian(setting["staleness"], steps, len(steps), length)
    else:
        spec = tabular(setting["task"], setting["staleness"], steps, length)
    spec = spec.replace(diagnostics=[diagnostics.autocorrelogram(lags=1, after=setting["after"])])
    products = running.run(spec, seed=setting["seed"], progress=False).accumulated["autocorrelogram"]
    rows = []
    for index, fraction in enumerate(setting["fractions"]):
        energy, neighbors = products[:, index * size : (index + 1) * size]
        shared = {"quantity": "correlation", "fraction": fraction, "step": float(steps[index * size]), "lag": 1}
        rows.append({**shared, **_gac.measured(uncertainty.ratio(neighbors, energy))})
    return rows


def reading(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """The correlogram of all runs, and how single runs of each length are read."""
    from asyncsim.base import uncertainty

    tau, lengths = setting["staleness"], tuple(setting["lengths"])
    step = setting["fraction"] * _gac.boundary("fixed", tau)
    products = correlograms(setting, {"staleness": tau}, step, lengths)
    rows = []
    for lag in range(1, LAGS + 1):
        found = uncertainty.ratio(products[-1, lag], products[-1, 0])
        rows.append({"quantity": "correlation", "lag": lag, "step": step, **_gac.measured(found)})
    for length, seen in zip(lengths, products, strict=True):
        rows += [{"update": length, "step": step, **row} for row in answers(seen, tau, length * setting["dimension"])]
    return rows


def nulls(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """How single runs are read that are not the model behind the reading."""
    own, tau = NULLS[setting["condition"]], setting["staleness"]
    kind = own.get("schedule", "fixed")
    share = own["fraction"] * _gac.boundary(kind, tau) if "fraction" in own else None
    step = own["step"] if "step" in own else own["share"] * _gac.boundary("fixed", LATE) if share is None else share
    seen = correlograms(setting, own, step, (setting["updates"],))[0]
    true, shared = tau if kind == "fixed" else 0, {"update": setting["updates"], "step": step}
    return [{**shared, **row} for row in answers(seen, true, setting["updates"] * setting["dimension"])]


def answers(seen: np.ndarray, true: int, count: int) -> list[dict[str, Any]]:
    """Shares of runs by the staleness read off their correlograms; `true` is 0 where no single one is."""
    from asyncsim.base import uncertainty

    found, unchecked = _gac.read(seen, count), _gac.largest_fall(seen)
    kinds = {
        "right": found == true,
        "none": found == 0,
        "wrong": (found != true) & (found != 0),
        "unchecked": unchecked != true,
    }
    shares = {name: uncertainty.proportion(int(kind.sum()), len(kind)) for name, kind in kinds.items()}
    return [{"quantity": name, **_gac.measured(share)} for name, share in shares.items()]


def correlograms(setting: dict[str, Any], own: dict[str, Any], step: float, lengths: tuple[int, ...]) -> np.ndarray:
    """Mean products of gradients of noisy descent by lag, after each length."""
    from asyncsim import methods, schedules, tasks, updates
    from asyncsim.running import running
    from asyncsim.running.spec import Spec
    from asyncsim.updates._link import chain

    system = _gac.system(own.get("schedule", "fixed"), own["staleness"])
    if "passes" in own:
        system = schedules.fixed(0)
    links = [updates.momentum(own["momentum"])] if "momentum" in own else []
    curvatures = (1.0, *[own.get("flat", 1.0)] * (setting["dimension"] - 1))
    spec = Spec(
        tasks.quadratic(curvatures, noise=1.0, start=own.get("start", 0.0)),
        system,
        methods.gradient(),
        chain(*links, updates.sgd(step)),
        samples_per_group=1,
        updates=setting["after"] + max(lengths),
        epochs=own.get("passes"),
        replicates=setting["replicates"],
        diagnostics=[_gac.Readings(LAGS, setting["after"], lengths)],
    )
    found: np.ndarray = running.run(spec, seed=setting["seed"], progress=False).accumulated["readings"]
    return found


def causes(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Correlation of neighbors under one condition."""
    import asyncsim as sim
    from asyncsim import diagnostics
    from asyncsim.base import uncertainty
    from asyncsim.running import running

    own, tau = CONDITIONS[setting["condition"]], setting["staleness"]
    step = own["step"] if "step" in own else own["share"] * _gac.boundary("fixed", LATE)
    still = not own.get("steady", True)
    after, updates = (LATE + 1, 240) if still else (setting["after"], setting["updates"])
    sizes = {"start": own.get("start", 0.0), "samples": own.get("samples", SAMPLES)}
    spec = gaussian(tau, step, setting["replicates"], after + updates, **sizes)
    if own.get("schedule") == "random":
        spec = spec.replace(system=_gac.system("random", tau))
    if "passes" in own:
        spec = spec.replace(system=sim.schedules.fixed(0), epochs=own["passes"])
    if "momentum" in own:
        spec = spec.replace(update=sim.chain(sim.updates.momentum(own["momentum"]), sim.updates.sgd(step)))
    spec = spec.replace(diagnostics=[diagnostics.autocorrelogram(lags=1, after=after)])
    trace = running.run(spec, seed=setting["seed"], progress=False)
    energy, neighbors = trace.accumulated["autocorrelogram"]
    found = uncertainty.ratio(neighbors, energy, trace.realization, own.get("schedule") == "random")
    return [{"quantity": "correlation", "step": step, "lag": 1, **_gac.measured(found)}]


def gaussian(
    staleness: int, step: Any, replicates: int, updates: int, start: float = 0.0, samples: int = SAMPLES
) -> Any:
    """Normal policy on a quadratic reward of curvature 1: the linear delayed model, with noise that grows outside."""
    import asyncsim as sim

    return sim.Spec(
        task=sim.tasks.gaussian_bandit(1.0, dimension=DIMENSION, start=start),
        system=sim.schedules.fixed(staleness),
        method=sim.methods.reinforce(),
        update=sim.chain(sim.updates.sgd(step)),
        samples_per_group=samples,
        updates=updates,
        replicates=replicates,
        diagnostics="none",
    )


def tabular(task: str, staleness: int, steps: np.ndarray, updates: int) -> Any:
    """A softmax bandit or a bandit over sequences, at the optimum that its penalty gives it."""
    import asyncsim as sim

    logits = tuple(curvatures(task)[1])
    noisy: dict[str, Any] = {"rewards": "gaussian", "deviation": SPREAD}
    if task == "softmax":
        built: Any = sim.tasks.softmax_bandit(len(MEANS), MEANS, kl_coef=BETA, logits=logits, **noisy)
    else:
        built = sim.tasks.token_bandit(TOKENS, HORIZON, kl_coef=TOKEN_BETA, logits=logits, **noisy)
    return sim.Spec(
        task=built,
        system=sim.schedules.fixed(staleness),
        method=sim.methods.reinforce(),
        update=sim.chain(sim.updates.sgd(steps)),
        samples_per_group=32,
        updates=updates,
        replicates=len(steps),
        diagnostics="none",
    )


def curvatures(task: str) -> tuple[np.ndarray, np.ndarray]:
    """Curvatures of a task at its optimum, one per mode that its gradients have noise in, and the optimal logits.

    With rewards r, penalty beta and a uniform reference the optimum is softmax(r / beta); curvatures are beta times
    the eigenvalues of diag(pi) - pi pi', times the tokens of a sequence, whose reward r is shared by all of them.
    """
    if task == "gaussian":
        return np.ones(1), np.zeros(0)
    tokens, beta = (1, BETA) if task == "softmax" else (HORIZON, TOKEN_BETA)
    rewards = np.array(MEANS) if task == "softmax" else np.eye(TOKENS)[0] / HORIZON
    logits = rewards / beta
    pi = np.exp(logits) / np.exp(logits).sum()
    # The first eigenvalue is 0: adding the same to all logits changes nothing.
    modes: np.ndarray = tokens * beta * np.linalg.eigvalsh(np.diag(pi) - np.outer(pi, pi))[1:]
    return modes, logits
