"""Points of the claims: a stated one for each, at which its formula defects must show, and laws to draw more from."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

BEHAVIOR, CURRENT = (0.3, -0.2, 0.5), (1.5, -0.9, 0.1)
BEHAVIOR_ROWS = ((0.3, -0.2, 0.5), (0.0, 0.7, -0.4), (-0.5, 0.2, 0.1), (0.9, 0.1, 0.0))
CURRENT_ROWS = ((1.0, -0.6, 0.2), (0.4, 0.2, -0.8), (0.3, -0.3, 0.6), (0.2, 0.8, -0.5))
SEQUENCE = {
    "actions": 3,
    "horizon": 3,
    "dependence": "markov",
    "behavior_logits": BEHAVIOR_ROWS,
    "current_logits": CURRENT_ROWS,
}
CHAIN = {"horizon": 7, "behavior_margins": (0.2, 1.1), "current_margins": (1.2, 0.7)}

STATED: dict[str, dict[str, Any]] = {
    "staleness/heavy-ball": {"staleness": 4, "momentum": 0.5, "curvatures": (1.0, 0.5, 3.0)},
    "staleness/soft-optimum-step": {
        "workers": 5,
        "rewards": (0.0, 0.5, 1.0),
        "reference_logits": (0.0, 0.3, -0.2),
        "kl": 0.15,
    },
    "staleness/mean-staleness": {"workers": 8, "law": "lognormal:1.0:0.8", "updates": 500},
    "staleness/stale-reinforce-is-delayed-ascent": {
        "rewards": (0.0, 0.5, 1.0),
        "initial_logits": (0.0, 0.1, 0.0),
        "staleness": 4,
        "step": 2.0,
        "updates": 12,
        "behavior_logits": BEHAVIOR,
        "current_logits": CURRENT,
        "samples": 4,
    },
    "alignment/lag-identity": {"staleness": 2, "curvatures": (1.0, 0.3, 0.7), "noise": 0.5, "step": 0.55},
    "alignment/projection-restores-sync-boundary": {
        "staleness": 4,
        "curvature": 2.0,
        "noise": 0.5,
        "others": 7,
        "step": 0.3,
        "reference": "raw",
    },
    "alignment/sawtooth-cosine": {"updates": 4, "curvature": 2.0, "noise": 0.5, "step": 0.15},
    "alignment/random-delay-cosine": {"law": (0.4, 0.0, 0.2, 0.4), "curvature": 2.0, "noise": 0.5, "step": 0.2},
    "alignment/noise-floor": {"dimension": 5, "threshold": 0.6},
    "ratio/gaussian-shift": {"shift": 0.7},
    "ratio/sequence-product": SEQUENCE,
    "ratio/chain-moments": CHAIN,
    "ratio/chain-law": CHAIN | {"levels": (-0.6, 0.1, 0.5)},
    "ratio/drift-growth": {
        "means": (0.2, 0.5, 0.9),
        "logits": BEHAVIOR,
        "rewards": "bernoulli",
        "samples": 4,
        "sampling": "monte_carlo",
        "step": 0.1,
        "stalenesses": (1, 2, 4, 8),
    },
    "ratio/markov-moments": {name: value for name, value in SEQUENCE.items() if name != "dependence"},
    "sequence/success-probability": CHAIN | {"fraction": 0.75},
    "sequence/gradient": CHAIN | {"fraction": 0.75},
    "ess/limit": {"behavior_logits": BEHAVIOR, "current_logits": CURRENT},
    "ess/clamp-floor": {"clamp": 2.0},
    "ess/finite-sample": {"samples": 4, "horizon": 3, "behavior_logits": BEHAVIOR, "current_logits": CURRENT},
    "estimator/full-is": SEQUENCE | {"success": 0.6},
    "estimator/truncation-bias": SEQUENCE | {"cap": 1.1, "success": None},
    "estimator/optimal-baseline": {
        "rewards": (0.2, 0.5, 1.0),
        "behavior_logits": BEHAVIOR,
        "current_logits": CURRENT,
        "cap": 1.2,
    },
    "convergence/bias-slope": {
        "curvature": 2.0,
        "start": 1.0,
        "noise": 1.5,
        "step": 0.01,
        "stalenesses": (1, 2, 4, 8, 16),
    },
    "convergence/constant-delay": {
        "curvature": 2.0,
        "staleness": 4,
        "step": 0.1,
        "noise": 1.0,
        "start": 1.0,
        "updates": 400,
    },
    "convergence/arbitrary-delay": {
        "curvature": 2.0,
        "maximum": 6,
        "mean": 3.5,
        "in_flight": 5,
        "step": 0.05,
        "noise": 1.0,
        "start": 1.0,
        "updates": 400,
    },
    "convergence/bandit-smoothness": {"rewards": (0.1, 0.4, 0.9)},
    "convergence/bandit-noise": {"rewards": (0.0, 0.4, 1.0), "behavior_logits": BEHAVIOR, "samples": 5},
    "optimum/asymre-projection": {
        "behavior_logits": (0.5, 0.1, -0.3, 0.2, 0.0),
        "rewards": (0.0, 0.3, 0.9, 1.0, 0.5),
        "offset": 0.2,
    },
}
"""One point of every claim; the measured tower's own points are elsewhere."""


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False)


def tuples(low: float, high: float, length: int) -> st.SearchStrategy[tuple[float, ...]]:
    return st.tuples(*[numbers(low, high)] * length)


@st.composite
def curvatures(draw: Any, **more: st.SearchStrategy[Any]) -> dict[str, Any]:
    return {
        "staleness": draw(st.integers(0, 24)),
        "curvatures": draw(st.lists(numbers(0.1, 9.0), min_size=1, max_size=3)),
        **{name: draw(strategy) for name, strategy in more.items()},
    }


@st.composite
def soft_optimum(draw: Any) -> dict[str, Any]:
    arms = draw(st.integers(2, 4))
    return {
        "workers": draw(st.integers(1, 9)),
        "rewards": draw(tuples(0.0, 1.0, arms)),
        "reference_logits": draw(tuples(-1.0, 1.0, arms)),
        "kl": draw(numbers(0.2, 3.0)),
    }


@st.composite
def arrivals(draw: Any, **more: st.SearchStrategy[Any]) -> dict[str, Any]:
    workers = draw(st.integers(1, 12))
    return {"workers": workers} | {name: draw(law) for name, law in more.items()}


@st.composite
def reinforce(draw: Any) -> dict[str, Any]:
    arms = draw(st.integers(2, 5))
    logits = tuples(-2.0, 2.0, arms)
    return {
        "rewards": (0.0, *draw(tuples(0.1, 1.0, arms - 1))),
        "initial_logits": draw(logits),
        "staleness": draw(st.integers(0, 6)),
        "step": draw(numbers(0.01, 3.0)),
        "updates": draw(st.integers(1, 20)),
        "behavior_logits": draw(logits),
        "current_logits": draw(logits),
        "samples": draw(st.integers(2, 32)),
    }


@st.composite
def stationary(draw: Any, modes: bool) -> dict[str, Any]:
    """Below 0.95 of the boundary: closer, the Lyapunov equation itself loses the digits."""
    tau, top = draw(st.integers(0, 12)), draw(numbers(0.1, 5.0))
    step = draw(numbers(0.05, 0.95)) * 2.0 * math.sin(math.pi / (2.0 * (2 * tau + 1))) / top
    point = {"staleness": tau, "noise": draw(numbers(0.1, 3.0)), "step": step}
    if not modes:
        return point | {"curvature": top}
    return point | {"curvatures": (top, *(top * share for share in draw(st.lists(numbers(0.1, 1.0), max_size=3))))}


@st.composite
def sawtooths(draw: Any) -> dict[str, Any]:
    updates, curvature = draw(st.integers(1, 16)), draw(numbers(0.1, 5.0))
    step = draw(numbers(0.02, 0.98)) * 2.0 / updates / curvature
    return {"updates": updates, "curvature": curvature, "noise": draw(numbers(0.1, 3.0)), "step": step}


@st.composite
def random_delays(draw: Any) -> dict[str, Any]:
    weights = [*draw(st.lists(numbers(0.0, 1.0), max_size=8)), 1.0]
    law = tuple(weight / sum(weights) for weight in weights)
    curvature = draw(numbers(0.1, 5.0))
    step = draw(numbers(0.05, 0.9)) * 2.0 * math.sin(math.pi / (2.0 * (2 * len(law) - 1))) / curvature
    return {"law": law, "curvature": curvature, "noise": draw(numbers(0.1, 3.0)), "step": step}


@st.composite
def chains(draw: Any, longest: int, **more: st.SearchStrategy[Any]) -> dict[str, Any]:
    point: dict[str, Any] = {"horizon": draw(st.integers(1, longest))}
    point |= {f"{name}_margins": draw(tuples(-2.0, 2.0, 2)) for name in ("behavior", "current")}
    return point | {name: draw(law) for name, law in more.items()}


@st.composite
def sequences(
    draw: Any, dependences: tuple[str, ...] = ("iid", "position", "markov"), **more: st.SearchStrategy[Any]
) -> dict[str, Any]:
    actions, horizon = draw(st.integers(2, 3)), draw(st.integers(1, 4))
    dependence = draw(st.sampled_from(dependences))
    height = {"iid": 1, "position": horizon, "markov": actions + 1}[dependence]
    rows = st.tuples(*[tuples(-1.5, 1.5, actions)] * height)
    point = {
        "actions": actions,
        "horizon": horizon,
        "dependence": dependence,
        "behavior_logits": draw(rows),
        "current_logits": draw(rows),
    }
    return point | {name: draw(law) for name, law in more.items()}


@st.composite
def bandits(draw: Any, arms: int = 4, **more: st.SearchStrategy[Any]) -> dict[str, Any]:
    logits = tuples(-2.0, 2.0, arms)
    point = {"behavior_logits": draw(logits), "current_logits": draw(logits)}
    return point | {name: draw(law) for name, law in more.items()}


@st.composite
def delayed_bounds(draw: Any) -> dict[str, Any]:
    tau, curvature = draw(st.integers(0, 12)), draw(numbers(0.1, 5.0))
    return {
        "curvature": curvature,
        "staleness": tau,
        "step": draw(numbers(0.02, 1.0)) / (curvature * (1 + tau)),
        "noise": draw(numbers(0.1, 2.0)),
        "start": draw(numbers(-2.0, 2.0)),
        "updates": draw(st.integers(1, 300)),
    }


@st.composite
def arbitrary_delays(draw: Any) -> dict[str, Any]:
    maximum, curvature = draw(st.integers(0, 20)), draw(numbers(0.1, 5.0))
    in_flight = draw(st.integers(1, maximum)) if maximum else 0
    allowed = 2.0 / (1.0 + math.sqrt(1.0 + 8.0 * maximum * in_flight))
    return {
        "curvature": curvature,
        "maximum": maximum,
        "mean": draw(numbers(0.0, 1.0)) * maximum,
        "in_flight": in_flight,
        "step": draw(numbers(0.02, 1.0)) * allowed / curvature,
        "noise": draw(numbers(0.1, 2.0)),
        "start": draw(numbers(-2.0, 2.0)),
        "updates": draw(st.integers(1, 300)),
    }


SUCCESS = st.none() | numbers(0.1, 1.0)
SLOPES = st.fixed_dictionaries(
    {
        "curvature": numbers(0.1, 5.0),
        "start": numbers(0.1, 2.0),
        "noise": numbers(0.0, 5.0),
        "step": numbers(1e-4, 0.1),
        "stalenesses": st.lists(st.integers(1, 64), min_size=2, max_size=5, unique=True),
    }
) | st.fixed_dictionaries(
    {
        "curvature": numbers(0.1, 5.0),
        "start": numbers(0.1, 2.0),
        "noise": numbers(0.0, 5.0),
        "staleness": st.integers(1, 64),
        "steps": st.just((1e-3, 3e-3, 1e-2)),
    }
)

DRAWN: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "staleness/heavy-ball": curvatures(momentum=numbers(0.0, 0.99)),
    "staleness/soft-optimum-step": soft_optimum(),
    "staleness/mean-staleness": arrivals(law=st.just("exponential:1"), updates=st.integers(1, 200)),
    "staleness/stale-reinforce-is-delayed-ascent": reinforce(),
    "alignment/lag-identity": stationary(True),
    "alignment/projection-restores-sync-boundary": st.fixed_dictionaries(
        {
            "staleness": st.integers(1, 24),
            "curvature": numbers(0.1, 5.0),
            "noise": numbers(0.1, 3.0),
            "others": st.integers(1, 100),
            "step": numbers(0.01, 2.0),
            "reference": st.sampled_from(["raw", "applied"]),
        }
    ),
    "alignment/sawtooth-cosine": sawtooths(),
    "alignment/random-delay-cosine": random_delays(),
    "alignment/noise-floor": st.fixed_dictionaries({"dimension": st.integers(2, 300), "threshold": numbers(0.01, 0.9)}),
    "ratio/gaussian-shift": st.fixed_dictionaries({"shift": numbers(0.01, 8.0)}),
    "ratio/sequence-product": sequences(),
    "ratio/chain-moments": chains(200),
    "ratio/chain-law": chains(12, levels=tuples(-1.0, 1.0, 2)),
    "ratio/drift-growth": st.fixed_dictionaries(
        {
            "means": tuples(0.0, 1.0, 3),
            "logits": tuples(-2.0, 2.0, 3),
            "rewards": st.sampled_from(["fixed", "bernoulli"]),
            "samples": st.integers(2, 5),
            "sampling": st.sampled_from(["monte_carlo", "counts", "enumerate"]),
            "step": numbers(0.01, 1.0),
            "stalenesses": st.lists(st.integers(1, 64), min_size=2, max_size=4, unique=True).map(tuple),
        }
    ),
    "ratio/markov-moments": sequences(("markov",)).map(lambda p: {k: v for k, v in p.items() if k != "dependence"}),
    "sequence/success-probability": chains(60, fraction=numbers(0.0, 1.0)),
    "sequence/gradient": chains(30, fraction=numbers(0.0, 1.0)),
    "ess/limit": bandits(),
    "ess/clamp-floor": st.fixed_dictionaries({"clamp": numbers(1.0, 50.0)}),
    "ess/finite-sample": bandits(3, samples=st.integers(2, 40), horizon=st.integers(1, 8)),
    "estimator/full-is": sequences(success=SUCCESS),
    "estimator/truncation-bias": sequences(success=SUCCESS, cap=numbers(0.2, 2.0)),
    "estimator/optimal-baseline": bandits(rewards=tuples(0.1, 1.0, 4), cap=st.none() | numbers(0.3, 3.0)),
    "convergence/bias-slope": SLOPES,
    "convergence/constant-delay": delayed_bounds(),
    "convergence/arbitrary-delay": arbitrary_delays(),
    "convergence/bandit-smoothness": st.fixed_dictionaries({"rewards": tuples(-1.0, 2.0, 4)}),
    "convergence/bandit-noise": bandits(rewards=tuples(-1.0, 2.0, 4), samples=st.integers(2, 60)).map(
        lambda point: {key: value for key, value in point.items() if key != "current_logits"}
    ),
    "optimum/asymre-projection": st.builds(
        lambda point, rewards, offset: {
            "behavior_logits": point["behavior_logits"],
            "rewards": rewards,
            "offset": offset,
        },
        bandits(),
        tuples(0.0, 1.0, 4),
        numbers(-1.0, 0.5),
    ),
}
