"""Random points of claims whose parameters depend on one another: from a claim's class and a draw of typical values."""

from __future__ import annotations

from functools import partial
from typing import Any

from asyncsim.base.declared import Choice, Counts, Draw, Flag, Integer, Real, Vector
from asyncsim.claims import _lengths, _work
from asyncsim.claims._delay import critical
from asyncsim.claims.systems import cap_idle


def many_places(cls: Any, draw: Draw) -> dict[str, Any]:
    """Places for one to eight batches."""
    point = cls.drawn(draw)
    return point | {"places": point["groups_per_batch"] * draw(Integer(1, typical=(1, 8)))}


def away_from_the_knee(cls: Any, draw: Draw) -> dict[str, Any]:
    """The ratio of the two sides stays away from the knee, and the buffer is large enough for chance."""
    point = cls.drawn(draw)
    ratio = draw(Real(typical=(0.2, 0.7) if draw(Flag()) else (1.4, 4.0)))
    groups, sync = point["groups_per_batch"], point["sync_time"]
    work = _work.longest(_work.law_of("length", point["length"]), point["samples_per_group"])
    train = ratio * groups * work / point["places"]
    absence = 0.0 if point["generator_pauses"] or ratio > 1.0 else 0.1 * sync
    return point | {
        "train_time": train,
        "sync_time": min(sync, train) if absence == 0.0 else min(absence, 0.1 * train),
        "capacity": 4 * groups * point["batches_per_publish"] + 40,
    }


def crowded_permits(cls: Any, draw: Draw) -> dict[str, Any]:
    """Every other has few places, 8 times as fast as training: tickets without one in 200 batches are rare."""
    groups = draw(cls.publish_groups)
    tickets = groups + draw(Integer(0, typical=(0, 20)))
    rest = {"release": draw(cls.release), "zero_train_time": draw(cls.zero_train_time)}
    point = {"tickets": tickets, "publish_groups": groups, **rest}
    if draw(Flag()):
        return point
    places = draw(Integer(1, typical=(1, tickets)))
    work = {"length": draw(Choice(*cls.length.typical)), "samples_per_group": 1, "period": 8.0 * groups / places}
    return point | work | {"zero_train_time": False, "places": places}


def slow_places(cls: Any, draw: Draw) -> dict[str, Any]:
    """One exponential sample a group at any load, or other lengths over many places at a moderate one."""
    point = cls.drawn(draw)
    law, samples = _lengths.read_law("length", point["length"]), point["samples_per_group"]
    exact = law.kind == "exponential" and samples == 1
    groups = point["groups_per_batch"]
    most = cap_idle._PLACES_PER_GROUP * groups
    places = draw(Integer(1, typical=(1 if exact else most, 2 * most)))
    busy = draw(Real(typical=(0.01, cap_idle._BUSIEST if exact else cap_idle._MODERATE)))
    return point | {"places": places, "train_time": busy * law.expected_max(samples) * groups / places}


def loop(draw: Draw) -> dict[str, Any]:
    """Few tickets or so many that the balance has one phase, a place for each and more, exponential training."""
    tickets = draw(Integer(1, typical=(1, 9))) + 25 * draw(Integer(0, typical=(0, 1)))
    train = f"exponential:{draw(Real(typical=(0.05, 2.0)))!r}"
    return {"tickets": tickets, "places": tickets + draw(Integer(0, typical=(0, 3))), "train_time": train}


def kept_samples(cls: Any, draw: Draw) -> dict[str, Any]:
    """As many kept as are started, or fewer."""
    point = cls.drawn(draw)
    return point | {"kept": min(point["kept"], point["started"])}


def any_loop(cls: Any, draw: Draw) -> dict[str, Any]:
    """Any ticket system, or a closed loop whose numbers are known."""
    point = cls.drawn(draw)
    if draw(Flag()):
        return point | {"groups_per_batch": 1, "release": "publish"} | loop(draw)
    return point | {"tickets": point["groups_per_batch"] + draw(Integer(0, typical=(0, 12)))}


def permits(least: int, cls: Any, draw: Draw) -> dict[str, Any]:
    """Permits for a publish, and from `least` to a dozen groups more."""
    point = cls.drawn(draw)
    publish = point["groups_per_batch"] * point["batches_per_publish"]
    return point | {"tickets": publish + draw(Integer(0, typical=(least, 12)))}


def live_permits(cls: Any, draw: Draw) -> dict[str, Any]:
    """Up to 12 permits more than a batch takes."""
    point = cls.drawn(draw)
    return point | {"tickets": point["publish_groups"] + draw(Integer(1, typical=(1, 12)))}


def buffered(point: dict[str, Any], ratio: float, draw: Draw) -> dict[str, Any]:
    """Many places, at `ratio` groups generated for each one trained, and a buffer of a few batches."""
    groups = point["groups_per_batch"]
    places = groups * draw(Integer(4, typical=(4, 6))) + draw(Integer(0, typical=(0, 5)))
    capacity = groups * draw(Integer(1, typical=(1, 4))) + draw(Integer(0, typical=(0, 3)))
    work = _work.longest(_work.law_of("length", point["length"]), point["samples_per_group"])
    return point | {"places": places, "train_time": ratio * groups * work / places, "capacity": capacity}


def open_loop(cls: Any, draw: Draw) -> dict[str, Any]:
    """Generators well below or well above the trainer."""
    ratio = draw(Real(typical=(0.1, 0.5) if draw(Flag()) else (1.6, 5.0)))
    return buffered(cls.drawn(draw), ratio, draw)


def shares_of_time(cls: Any, draw: Draw) -> dict[str, Any]:
    """Times of training as shares of what there is."""
    point = cls.drawn(draw)
    spare = point["seconds"] / point["places"]
    return {**point, "train_time": spare * point["train_time"], "sync_time": spare * point["sync_time"]}


def levels(cls: Any, draw: Draw) -> dict[str, Any]:
    """Three to thirteen batches of tickets, and levels behind them."""
    point = cls.drawn(draw)
    groups = point["groups_per_batch"]
    tickets = groups * draw(Integer(3, typical=(3, 12))) + draw(Integer(0, typical=(0, 15)))
    levels = sorted(draw(Counts(0, least=1, typical=(0, 12))))
    return point | {"tickets": tickets, "levels": tuple(tickets // groups + 2 + k for k in levels)}


def workers(cls: Any, draw: Draw) -> dict[str, Any]:
    """As many rates as workers, or none."""
    point = {name: draw(p) for name, p in cls.parameters.items() if name != "rates"}
    return point | {"rates": draw(Vector(0.0, point["workers"], typical=cls.rates.typical, optional=True))}


def short_delays(cls: Any, draw: Draw) -> dict[str, Any]:
    """Staleness of at most 2."""
    weights = [*draw(Vector(typical=(0.0, 1.0), sizes=(0, 2))), 1.0]
    law = tuple(weight / sum(weights) for weight in weights)
    return {name: law if name == "law" else draw(p) for name, p in cls.parameters.items()}


def offset(cls: Any, draw: Draw) -> dict[str, Any]:
    """A share of the penalty's weight."""
    point = cls.drawn(draw)
    return point | {"offset": draw(Real(typical=(-1.9, 2.9))) * point["kl"]}


def unequal_arms(cls: Any, draw: Draw) -> dict[str, Any]:
    """One arm pays nothing, so that rewards differ."""
    point = cls.drawn(draw)
    return point | {"rewards": (0.0, *point["rewards"][1:])}


def growing(cls: Any, draw: Draw) -> dict[str, Any]:
    """Steps of 1.05 to 2.5 times the boundary."""
    point = cls.drawn(draw)
    return point | {"step": draw(Real(typical=(1.05, 2.5))) * critical(point["staleness"]) / point["curvature"]}


POINTS = {
    "systems/age-cut-length-bias": many_places,
    "systems/asynchronous-throughput": away_from_the_knee,
    "systems/cap-binds": crowded_permits,
    "systems/cap-idle": slow_places,
    "systems/closed-loop": lambda cls, draw: cls.drawn(draw) | loop(draw),
    "systems/first-k-length-bias": kept_samples,
    "systems/hard-bounds": partial(permits, 1),
    "systems/little": any_loop,
    "systems/open-loop-mean": open_loop,
    "systems/overflow": lambda cls, draw: buffered(cls.drawn(draw), draw(Real(typical=(1.8, 4.0))), draw),
    "systems/pipeline": shares_of_time,
    "systems/straggler-tail": levels,
    "systems/ticket-throughput": partial(permits, 0),
    "staleness/baseline-offset-immunity": offset,
    "predictor/lead-time": growing,
    **dict.fromkeys(("systems/geometric", "systems/arrivals-per-update", "systems/update-on-arrival"), workers),
    **dict.fromkeys(("live/learning", "live/staleness", "live/throughput"), live_permits),
    **dict.fromkeys(
        ("staleness/random-mean", "staleness/random-mean-square", "staleness/constant-is-worst"), short_delays
    ),
    **dict.fromkeys(("staleness/implicit-momentum", "staleness/stale-reinforce-is-delayed-ascent"), unequal_arms),
}
"""A random point of each claim whose class cannot draw one parameter after the other."""
