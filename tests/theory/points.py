"""Points of the claims: a stated one for each, at which its formula defects must show, and laws to draw more from."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.theory import throughput_points

RATES = (1.0, 2.0, 5.5)
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
CLOCKED = {"length": "lognormal:1.0:0.8", "period": 0.4, "places": 64, "groups_per_batch": 8}

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
def rated_arrivals(draw: Any, **more: st.SearchStrategy[Any]) -> dict[str, Any]:
    point = draw(arrivals(**more))
    return point | {"rates": draw(st.none() | tuples(0.5, 4.0, point["workers"]))}


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


SUCCESS = st.none() | numbers(0.1, 1.0)

DRAWN: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "staleness/heavy-ball": curvatures(momentum=numbers(0.0, 0.99)),
    "staleness/soft-optimum-step": soft_optimum(),
    "staleness/mean-staleness": arrivals(law=st.just("exponential:1"), updates=st.integers(1, 200)),
    "staleness/stale-reinforce-is-delayed-ascent": reinforce(),
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
}
