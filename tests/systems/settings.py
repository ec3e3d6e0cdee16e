"""Random systems for hypothesis, and their draws as plain functions of single entities."""

from functools import partial
from types import SimpleNamespace

import numba
import numpy as np
from hypothesis import strategies as st

from asyncsim.base import rng, rng_compiled
from asyncsim.base.laws import empirical
from asyncsim.systems import _build
from asyncsim.systems._settings import RELEASES
from asyncsim.systems._system import System
from asyncsim.testing.events import MODES, SMOOTH, plain_systems

ORDERS = ("done", "oldest_start", "version_strict", "target", "freshest", "random", "latest")

SECONDS = st.lists(st.integers(1, 8).map(lambda n: n / 8), min_size=1, max_size=3).map(empirical)
FACTORS = st.just(empirical([0.5, 1.0, 2.0]))
CURVES = st.sampled_from([(1.0, 0.5), (1.0, 1.0, 0.5, 0.25), (2.0, 1.0), (0.5,)])


def some(*values):
    return st.sampled_from(values)


def servers(draw, found, exact):
    found["servers"] = draw(st.integers(1, min(3, len(found["rates"]))))
    found["slots"] = draw(some(None, 1, 2, 3))
    found["decode"] = draw(st.one_of(st.none(), CURVES if exact else some((1.0, 0.9, 0.7, 0.5))))


def offsets(draw, found, exact):
    places = len(found["rates"])
    found["offsets"] = tuple(draw(st.lists(some(0.0, 0.5, 0.5, 3.0), min_size=places, max_size=places)))


def work(draw, found, exact):
    found["difficulty"] = draw(FACTORS if exact else SMOOTH)
    found["work_by"] = draw(some("sample", "group"))
    found["accept"] = draw(some(1.0, 0.7, 0.4))


def redundant(draw, found, exact):
    found["redundant"] = draw(st.integers(1, 3))


def rewards(draw, found, exact):
    found["reward"] = draw(SECONDS if exact else SMOOTH)
    found["reward_holds"] = draw(st.booleans())


def turns(draw, found, exact):
    found["turns"] = draw(some(2, 4))
    found["environment"] = draw(SECONDS if exact else SMOOTH)
    found["environment_holds"] = draw(st.booleans())


def trainer(draw, found, exact):
    found["token_time"] = draw(some(0.0, 0.125))
    found["prefetch"] = draw(st.integers(0, 3))


def sync(draw, found, exact):
    found["sync_time"] = draw(some(0.125, 1.5, 4.0) if exact else some(0.3, 2.0))
    found["trainer_waits"] = draw(st.booleans())
    found["generator_pauses"] = draw(st.booleans())


def colocated(draw, found, exact):
    found.update(colocated=True, trainer_waits=True, generator_pauses=True, publish_waits=False, rolling=False)
    found["sync_time"] = draw(some(0.0, 0.5))
    if found["mode"] == "drain":
        found["mode"] = draw(some("keep", "pin", "reprefill", *["restart"] * (not found.get("failure_keeps"))))


def prefill(draw, found, exact):
    found["mode"] = "reprefill"
    found["prompt"] = draw(some(0.0, 1.0, 2.5))
    found["prefill_speedup"] = draw(some(4.0, 16.0, float("inf")))


def lead(draw, found, exact):
    found["lead"] = draw(st.integers(0, 2))


def order(draw, found, exact):
    found["order"] = draw(some(*ORDERS[1:]))
    if found["order"] == "oldest_start":
        found["window"] = draw(some(None, 1, 2, 5))
    if found["order"] == "random":
        found["recent"] = draw(some(0.0, 0.5, 1.0))


def buffer(draw, found, exact):
    found["capacity"] = found["groups_per_batch"] + draw(st.integers(0, 4))
    found["overflow"] = draw(some("block", "drop_oldest", "close"))


def visible(draw, found, exact):
    if found.get("order") == "target":
        return
    # Groups that can be used again: else a trainer that has used up what it sees waits for its own publish.
    found["max_uses"] = found["tickets"] = None
    found["visible"] = "publish"
    found["initial_fill"] = found["groups_per_batch"] * found["batches_per_publish"] + draw(st.integers(0, 2))


def replay(draw, found, exact):
    if found.get("order") == "target" or found.get("visible") == "publish":
        return
    found["max_uses"] = draw(some(2, 3, None))
    open_loop(draw, found, exact)


def open_loop(draw, found, exact):
    found["tickets"] = None
    if found["train_time"] != 0.0 or found.get("token_time"):
        draw(some(buffer, age))(draw, found, exact)


def age(draw, found, exact):
    found["max_age"] = draw(st.integers(0, 2))
    found["age_action"] = draw(some("drop", "drop", "requeue"))
    reaches = some(
        ("ready", "none"), ("all", "none"), ("none", "ready"), ("none", "all"), ("ready", "all"), ("all", "ready")
    )
    found["age_at_pack"], found["age_at_publish"] = draw(reaches)
    found["age_reference"] = draw(some("start", "submit", "end"))
    found["release_dropped"] = draw(some("now", "publish", "never"))


def wait(draw, found, exact):
    if found["tickets"] is not None:
        publish = found["groups_per_batch"] * found["batches_per_publish"]
        found.update(age_action="wait", order="oldest_start", recent=0.0)
        found["max_age"] = -(-found["tickets"] // publish) - 1 + draw(st.integers(0, 1))


def failures(draw, found, exact):
    found["failure_rate"] = draw(some(0.05, 0.3))
    found["restart_delay"] = draw(some(0.0, 0.5))
    found["failure_keeps"] = found["mode"] != "restart" and draw(st.booleans())
    # Failures come anywhere: what ends together but for their rounding is nobody's to put in order.
    found["length"] = draw(SMOOTH)


def epochs(draw, found, exact):
    if found.get("max_uses", 1) != 1 or found.get("visible") == "publish" or found.get("publish_waits"):
        return
    found["epoch"] = draw(st.integers(1, 4)) * found["quantum"]


def permits(draw, found, exact):
    found["permits"] = draw(st.integers(1, 6))


def adapting(draw, found, exact):
    found["permits"] = draw(st.integers(2, 12))
    found["target_staleness"] = draw(some(0.0, 0.5, 1.0, 1.5))


def publish_waits(draw, found, exact):
    found.update(publish_waits=True, prefetch=max(1, found.get("prefetch", 0)))
    found["lead"] = draw(some(None, 1, 2)) if "lead" in found else None
    if found["mode"] == "drain":
        found["mode"] = draw(some("keep", "restart", "pin", "reprefill"))
    if found["tickets"] is not None and found["release"] == "publish":
        # Beside the batches of a publish the one that it waits for.
        found["tickets"] += found["groups_per_batch"] + found["quantum"]


def rounds(draw, found, exact):
    found.update(rounds=True, tickets=None, capacity=None, max_age=None, age_action="drop", lead=None, prefetch=0)
    found.update(max_uses=1, visible="completion", window=None, recent=0.0, accept=draw(some(1.0, 0.7, 0.4)))
    found["order"] = draw(some("done", "oldest_start"))
    for name in ("epoch", "permits", "target_staleness", "publish_waits"):
        found.pop(name, None)
    found["quantum"] = draw(st.integers(1, len(found["rates"])))


def rolling(draw, found, exact):
    places = len(found["rates"])
    if places == 1:
        found["rates"], places = found["rates"] * 2, 2
        found.pop("offsets", None)
    found["rolling"] = True
    found["servers"] = draw(st.integers(2, min(3, places)))
    found["sync_time"] = draw(some(0.125, 0.5, 2.0) if exact else some(0.3, 1.1))
    found["trainer_waits"] = True
    found["generator_pauses"] = draw(st.booleans())
    if found["mode"] == "drain":
        found["mode"] = draw(some("keep", "pin", "reprefill", *["restart"] * (not found.get("failure_keeps"))))


FEATURES = {
    part.__name__: part
    for part in (
        *(servers, offsets, work, redundant, rewards, turns, trainer, sync, prefill, lead, publish_waits, order),
        *(
            buffer,
            visible,
            age,
            wait,
            failures,
            open_loop,
            replay,
            epochs,
            permits,
            adapting,
            rounds,
            rolling,
            colocated,
        ),
    )
}
"""Parts of the model that an example may switch on; later ones read what earlier ones have set."""


@st.composite
def systems(draw, exact: bool = True, modes=MODES, features=tuple(FEATURES), most: int = 4, must=()):
    """A system that the checks accept: a plain one with the parts `must` of the model and up to `most` of `features`.

    `exact`: durations that tie, training that takes no time.
    """
    found = draw(plain_systems(exact, modes))
    count = draw(st.integers(0, min(most, len(features))))
    chosen = draw(st.lists(some(*features), min_size=count, max_size=count, unique=True))
    for name, feature in FEATURES.items():
        if name in chosen or name in must:
            feature(draw, found, exact)
    if found["mode"] not in modes:
        found["mode"] = modes[0]
        if found["mode"] == "restart":
            found.pop("failure_keeps", None)
    if found["mode"] == "drain":
        found.pop("rolling", None)
        found.pop("publish_waits", None)
        found.pop("colocated", None)
    if found.get("publish_waits") and found.get("max_age") == 0:
        # The batch that a publish waits for is packed a version before it is trained.
        found["max_age"] = 1
    if found.get("age_action") == "wait" and found["tickets"] is None:
        found["age_action"] = "drop"
    if found.get("accept", 1.0) < 1.0 and found.get("release_dropped") == "never":
        found["release_dropped"] = "publish"
    if found.get("visible") == "publish":
        # What is seen may not leave before a publish shows more.
        found.update(max_age=None, age_action="drop", overflow="block", capacity=None)
    strict = found.get("window") or found.get("order") in ("version_strict", "target")
    if found.get("capacity") and (strict or found.get("age_action") == "wait"):
        # Else the group that is waited for could stand before a full buffer.
        found["capacity"] = max(found["capacity"], found["tickets"] or 0)
        if not found["tickets"]:
            found["overflow"] = "drop_oldest"
    cuts = found.get("max_age") is not None and found.get("age_action") != "wait"
    if found.get("epoch") and (found.get("accept", 1.0) < 1.0 or cuts or found.get("overflow") == "drop_oldest"):
        # Lost groups are asked for one by one.
        found["quantum"] = 1
    if found.get("permits"):
        found["quantum"] = 1
    return System("random", {}, **found)


@numba.njit
def exponential_of(draw, rate):
    return -np.log1p(-draw) / rate


def failures_of(system, samples, attempts, realization, seed):
    """Units of work that attempts write before they fail, by the kernel's expression, to the bit."""
    if system.failure_rate == 0.0:
        return np.full(np.broadcast_shapes(np.shape(samples), np.shape(attempts)), np.inf)
    draw = rng_compiled.uniform(rng.Stream(seed, _build.FAILURE), realization, samples, attempts)
    return exponential_of(draw, system.failure_rate)


def choices_of(batches, draws, realization, seed):
    """Uniform numbers of the choice of batches under order random."""
    return rng_compiled.uniform(rng.Stream(seed, _build.CHOICE), realization, batches, 0, draws)


def draws_of(system, batches, samples, seed, realization=0):
    """The draws of a system as the functions that the twin asks."""
    at = {"realization": realization, "seed": seed}

    def one(method, *entity):
        return method(*(np.array([number]) for number in entity), **at)[0].item()

    def of(method):
        return partial(method, system)

    size = samples + system.redundant if system.work_by == "group" else 1
    return SimpleNamespace(
        work=lambda sample: one(of(_build.works), sample // size),
        reward=lambda sample: one(of(_build.rewards), sample),
        environment=lambda sample, turn: one(of(_build.environments), sample, turn),
        failure=lambda sample, attempt: one(of(failures_of), sample, attempt),
        difficulty=lambda group: one(of(_build.difficulties), group),
        accepted=lambda group: system.accept == 1.0 or one(_build.acceptances, group) < system.accept,
        uniform=lambda batch, draw: one(choices_of, batch, draw),
        train_times=_build.train_times(system, batches, samples, realization, seed).tolist(),
    )


CUTS = {"age_at_pack": "all", "age_at_publish": "all", "tickets": 14}
CORNERS = {
    "strict": {"order": "version_strict", "servers": 2, "slots": 2},
    "targets": {**CUTS, "order": "target", "max_age": 1, "accept": 0.7},
    "requeue": {**CUTS, "order": "freshest", "max_age": 0, "age_action": "requeue"},
    "late": {**CUTS, "order": "freshest", "max_age": 0, "release_dropped": "publish"},
    "blocked": {**CUTS, "order": "freshest", "max_age": 1, "capacity": 3},
    "recent": {
        "order": "random",
        "recent": 0.5,
        "visible": "publish",
        "initial_fill": 6,
        "max_uses": None,
        "tickets": None,
    },
    "queues": {
        "turns": 4,
        "environment": empirical([0.125, 0.5, 1.0]),
        "environment_holds": False,
        "slots": 2,
        "servers": 2,
        "mode": "restart",
    },
    "between": {
        "turns": 2,
        "environment": empirical([0.125, 2.0]),
        "environment_holds": False,
        "slots": 1,
        "mode": "restart",
    },
}
"""Systems in which rules come into play that random ones seldom reach."""


@st.composite
def corners(draw, name):
    """A busy system in the named corner: many places, few groups in a batch, short training."""
    laws = st.lists(st.integers(2, 24).map(lambda n: n / 8), min_size=3, max_size=4).map(empirical)
    base = {
        "length": draw(laws),
        "rates": tuple(draw(st.lists(some(1.0, 0.5, 2.0), min_size=6, max_size=9))),
        "groups_per_batch": draw(some(2, 1, 3)),
        "batches_per_publish": draw(some(1, 2)),
        "tickets": 9,
        "train_time": draw(some(0.25, 0.5, 0.125, 1.0)),
        "sync_time": draw(some(0.0, 0.125)),
        "release": draw(some(*RELEASES)),
        "mode": draw(some("keep", "pin", "reprefill")),
        "difficulty": draw(st.one_of(st.none(), FACTORS)),
    }
    return System("corner", {}, **{**base, **CORNERS[name]})
