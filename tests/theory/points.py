"""Points of the claims: a stated one for each, at which its formula defects must show, and laws to draw more from."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from tests.theory import throughput_points

RATES = (1.0, 2.0, 5.5)
BEHAVIOR = (0.3, -0.2, 0.5)
CLOCKED = {"length": "lognormal:1.0:0.8", "period": 0.4, "places": 64, "groups_per_batch": 8}

STATED: dict[str, dict[str, Any]] = {
    "systems/update-on-arrival": {"workers": 3, "law": "exponential:1", "rates": RATES},
    "systems/geometric": {"workers": 3, "rates": RATES, "cells": 12},
    "systems/mean-staleness-identity": {"max_head_offpolicyness": 2, "consumer_batch_size": 4},
    "systems/cap-binds": {"tickets": 7, "publish_groups": 3, "release": "publish", "zero_train_time": False},
    **throughput_points.STATED,
    "systems/cap-idle": {
        "places": 4,
        "groups_per_batch": 4,
        "samples_per_group": 1,
        "length": "exponential:1.0",
        "train_time": 0.8,
    },
    "systems/hard-bounds": {
        "rule": "window:3",
        "tickets": 9,
        "groups_per_batch": 3,
        "batches_per_publish": 1,
        "length": "pareto:0.5:1.5",
        "train_time": 1.0,
        "sync_time": 0.0,
    },
    "systems/arrivals-per-update": {
        "workers": 3,
        "groups_per_batch": 2,
        "law": "exponential:1",
        "cells": 6,
        "rates": RATES,
    },
    "systems/in-flight": CLOCKED | {"cells": 6},
    "systems/token-staircase": CLOCKED,
    "systems/straggler-tail": {
        "tickets": 128,
        "groups_per_batch": 32,
        "release": "publish",
        "samples_per_group": 1,
        "length": "pareto:0.5:1.5",
        "period": 1.0,
        "levels": (4, 5, 6, 8),
    },
    "systems/age-cut-length-bias": {
        "length": "lognormal:1.0:0.8",
        "places": 256,
        "groups_per_batch": 64,
        "max_age": 1,
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
def arrivals(draw: Any, **more: st.SearchStrategy[Any]) -> dict[str, Any]:
    workers = draw(st.integers(1, 12))
    return {"workers": workers} | {name: draw(law) for name, law in more.items()}


@st.composite
def rated_arrivals(draw: Any, **more: st.SearchStrategy[Any]) -> dict[str, Any]:
    point = draw(arrivals(**more))
    return point | {"rates": draw(st.none() | tuples(0.5, 4.0, point["workers"]))}


@st.composite
def tickets(draw: Any) -> dict[str, Any]:
    groups = draw(st.integers(1, 6))
    point = {
        "tickets": groups + draw(st.integers(0, 20)),
        "publish_groups": groups,
        "release": draw(st.sampled_from(["publish", "dequeue"])),
        "zero_train_time": draw(st.booleans()),
    }
    if draw(st.booleans()):
        return point
    places = draw(st.integers(1, point["tickets"]))
    # Places that are 8 times as fast as training: a ticket that finds none in 200 batches is rare.
    work = {"length": draw(st.sampled_from(["lognormal:1:0.8", "exponential:1", "constant:1"])), "samples_per_group": 1}
    return point | work | {"zero_train_time": False, "places": places, "period": 8.0 * groups / places}


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


LENGTHS = ("exponential:2.0", "lognormal:1.0:0.8", "lognormal:0.3:0.1", "gamma:1.0:0.5", "gamma:2.0:9.0")
HEAVY = (*LENGTHS, "pareto:0.5:1.5")


@st.composite
def idle_caps(draw: Any) -> dict[str, Any]:
    """One exponential sample a group at any load, or other lengths over many places at a moderate one."""
    groups = draw(st.integers(1, 24))
    length, samples = draw(st.sampled_from([("exponential:1.0", 1), ("lognormal:1.0:0.8", 4), ("gamma:1.0:2.0", 1)]))
    exact = length == "exponential:1.0"
    return {
        "places": draw(st.integers(1 if exact else 4 * groups, 8 * groups)),
        "groups_per_batch": groups,
        "samples_per_group": samples,
        "length": length,
        "train_time": draw(numbers(0.01, 1.0)),
    }


@st.composite
def bounded(draw: Any) -> dict[str, Any]:
    groups, batches = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    tickets = groups * batches + draw(st.integers(1, 12))
    number = draw(st.integers(1, 9))
    return {
        "rule": draw(st.sampled_from(["target", "version_strict", "drain", f"window:{number}", f"wait:{number}"])),
        "tickets": tickets,
        "groups_per_batch": groups,
        "batches_per_publish": batches,
        "length": "pareto:0.5:1.5",
        "train_time": 1.0,
        "sync_time": draw(st.sampled_from([0.0, 0.4])),
    }


@st.composite
def clocked(draw: Any, lengths: tuple[str, ...] = HEAVY, **more: st.SearchStrategy[Any]) -> dict[str, Any]:
    point: dict[str, Any] = {"length": draw(st.sampled_from(lengths)), "period": draw(numbers(0.1, 3.0))}
    point |= {"places": draw(st.integers(16, 512)), "groups_per_batch": draw(st.integers(1, 8))}
    return point | {name: draw(law) for name, law in more.items()}


@st.composite
def stragglers(draw: Any) -> dict[str, Any]:
    groups = draw(st.integers(16, 48))
    tickets = groups * draw(st.integers(3, 12)) + draw(st.integers(0, 15))
    first = tickets // groups + 2
    return {
        "tickets": tickets,
        "groups_per_batch": groups,
        "release": draw(st.sampled_from(["publish", "dequeue"])),
        "samples_per_group": draw(st.integers(1, 4)),
        "length": draw(st.sampled_from(HEAVY)),
        "period": draw(numbers(0.5, 4.0)),
        "levels": tuple(first + k for k in sorted(draw(st.sets(st.integers(0, 12), min_size=1, max_size=4)))),
    }


@st.composite
def age_cuts(draw: Any) -> dict[str, Any]:
    groups = draw(st.integers(16, 64))
    return {
        "length": draw(st.sampled_from(HEAVY)),
        "places": groups * draw(st.integers(1, 8)),
        "groups_per_batch": groups,
        "max_age": draw(st.integers(0, 8)),
    }


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
    "systems/update-on-arrival": rated_arrivals(law=st.just("constant:1")),
    "systems/geometric": rated_arrivals(cells=st.integers(1, 6)),
    "systems/mean-staleness-identity": st.just({}),
    "systems/cap-binds": tickets(),
    **throughput_points.DRAWN,
    "systems/cap-idle": idle_caps(),
    "systems/hard-bounds": bounded(),
    "systems/arrivals-per-update": rated_arrivals(
        groups_per_batch=st.integers(1, 6), law=st.just("exponential:1"), cells=st.integers(0, 6)
    ),
    "systems/in-flight": clocked(cells=st.integers(1, 8)),
    "systems/token-staircase": clocked(LENGTHS),
    "systems/straggler-tail": stragglers(),
    "systems/age-cut-length-bias": age_cuts(),
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
