"""Points of the claims on throughput, overflow and open loops, for the tables in `points.py`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from asyncsim.theory import _work

STATED: dict[str, dict[str, Any]] = {
    "systems/synchronous-throughput": {
        "groups_per_batch": 8,
        "samples_per_group": 4,
        "length": "lognormal:1.0:0.8",
        "rate": 2.0,
        "train_time": "exponential:1.5",
        "sync_time": 0.25,
    },
    "systems/asynchronous-throughput": {
        "places": 12,
        "samples_per_group": 4,
        "groups_per_batch": 4,
        "batches_per_publish": 2,
        "length": "exponential:1",
        "train_time": 0.5,
        "sync_time": 0.25,
        "generator_pauses": True,
        "capacity": 24,
        "overflow": "drop_oldest",
    },
    "systems/ticket-throughput": {
        "places": 16,
        "samples_per_group": 2,
        "groups_per_batch": 2,
        "batches_per_publish": 2,
        "tickets": 6,
        "release": "publish",
        "length": "exponential:1",
        "train_time": 0.5,
        "sync_time": 0.1,
        "generator_pauses": False,
    },
    "systems/closed-loop": {
        "places": 8,
        "tickets": 8,
        "samples_per_group": 1,
        "length": "lognormal:1.0:1.5",
        "train_time": "exponential:0.15",
    },
    "systems/list-scheduling": {
        "slots": 4,
        "groups_per_batch": 4,
        "samples_per_group": 4,
        "length": "pareto:1:1.5",
        "train_time": 1.0,
        "sync_time": 0.0,
    },
    "systems/list-scheduling-pool": {
        "slots": 16,
        "groups_per_batch": 4,
        "samples_per_group": 8,
        "ahead": 1,
        "length": "lognormal:1.0:0.8",
        "train_time": 1.0,
    },
    "systems/little": {
        "places": 8,
        "tickets": 8,
        "release": "publish",
        "groups_per_batch": 1,
        "samples_per_group": 3,
        "length": "lognormal:1.0:0.8",
        "train_time": "exponential:0.4",
    },
    "systems/overflow": {
        "places": 32,
        "samples_per_group": 4,
        "groups_per_batch": 8,
        "length": "exponential:1",
        "train_time": 1.0,
        "capacity": 16,
    },
    "systems/open-loop-mean": {
        "places": 40,
        "samples_per_group": 4,
        "groups_per_batch": 8,
        "length": "lognormal:1.0:0.8",
        "train_time": 0.976,
        "capacity": 8,
    },
}


WORKS = st.sampled_from(
    ["constant:2", "exponential:1", "lognormal:1:0.8", "gamma:2:3", "pareto:1:1.5", "empirical:1:2:2:7"]
)
SECONDS = st.sampled_from([0.5, "exponential:1.5"])


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False)


def settings_of(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Batches of a few groups of a few samples, with the given settings besides."""
    common = {"groups_per_batch": st.integers(1, 6), "samples_per_group": st.integers(1, 6), "length": WORKS}
    return st.fixed_dictionaries({**common, "train_time": SECONDS, **more})


@st.composite
def open_loops(draw: Any) -> dict[str, Any]:
    point = draw(settings_of(places=st.integers(1, 9), batches_per_publish=st.integers(1, 3)))
    pauses, sync = draw(st.booleans()), draw(st.sampled_from([0.0, 0.3]))
    more = {"sync_time": sync, "generator_pauses": pauses, "overflow": draw(st.sampled_from(["block", "drop_oldest"]))}
    # The ratio of the two sides stays away from the knee, the buffer large enough for chance.
    ratio = draw(numbers(0.2, 0.7) | numbers(1.4, 4.0))
    work = _work.longest(_work.law_of("length", point["length"]), point["samples_per_group"])
    train = ratio * point["groups_per_batch"] * work / point["places"]
    away = 0.0 if pauses or ratio > 1.0 else 0.1 * sync
    more["sync_time"] = min(sync, train) if away == 0.0 else min(away, 0.1 * train)
    capacity = 4 * point["groups_per_batch"] * point["batches_per_publish"] + 40
    return point | more | {"train_time": train, "capacity": capacity}


@st.composite
def ticketed(draw: Any, publish: bool = True) -> dict[str, Any]:
    more = {"places": st.integers(1, 12), "release": st.sampled_from(["publish", "dequeue"])}
    point = draw(settings_of(**more))
    if not publish:
        return point | {"tickets": point["groups_per_batch"] + draw(st.integers(0, 12))}
    batches = draw(st.integers(1, 3))
    sync = {"generator_pauses": draw(st.booleans()), "sync_time": draw(numbers(0.0, 1.0))}
    rest = {"batches_per_publish": batches, **sync}
    return point | rest | {"tickets": batches * point["groups_per_batch"] + draw(st.integers(0, 12))}


@st.composite
def closed_loops(draw: Any) -> dict[str, Any]:
    tickets = draw(st.integers(1, 9) | st.integers(25, 40))
    train = f"exponential:{draw(numbers(0.05, 2.0))!r}"
    point = {"tickets": tickets, "places": tickets + draw(st.integers(0, 3)), "train_time": train}
    return point | {"length": draw(WORKS), "samples_per_group": draw(st.integers(1, 4))}


@st.composite
def buffered(draw: Any, ratios: st.SearchStrategy[float]) -> dict[str, Any]:
    """Open loops that drop their oldest, at the given groups generated for each one trained."""
    samples, groups = draw(st.integers(1, 4)), draw(st.integers(8, 16))
    places = groups * draw(st.integers(4, 6)) + draw(st.integers(0, 5))
    length = draw(st.sampled_from(["constant:2", "exponential:1", "lognormal:1:0.8", "gamma:2:3", "empirical:1:2:2:7"]))
    work = _work.longest(_work.law_of("length", length), samples)
    point = {"places": places, "samples_per_group": samples, "groups_per_batch": groups, "length": length}
    train = draw(ratios) * groups * work / places
    return point | {"train_time": train, "capacity": groups * draw(st.integers(1, 4)) + draw(st.integers(0, 3))}


DRAWN: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "systems/synchronous-throughput": settings_of(rate=numbers(0.5, 2.0), sync_time=numbers(0.0, 1.0)),
    "systems/asynchronous-throughput": open_loops(),
    "systems/ticket-throughput": ticketed(),
    "systems/closed-loop": closed_loops(),
    "systems/list-scheduling": settings_of(slots=st.integers(2, 12), sync_time=numbers(0.0, 1.0)),
    "systems/list-scheduling-pool": settings_of(slots=st.integers(1, 12), ahead=st.integers(0, 4)),
    "systems/little": ticketed(publish=False)
    | closed_loops().map(lambda point: point | {"groups_per_batch": 1, "release": "publish"}),
    "systems/overflow": buffered(numbers(1.8, 4.0)),
    "systems/open-loop-mean": buffered(numbers(0.1, 0.5) | numbers(1.6, 5.0)),
}
