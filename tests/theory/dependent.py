"""Random points of claims whose parameters depend on one another: from a claim's class and a draw of typical values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim.base.declared import Choice, Counts, Flag, Integer, Parameter, Parsed, Real, Vector
from asyncsim.claims import _bandit, _lengths, _work
from asyncsim.claims._delay import critical
from asyncsim.claims._mdp import Process
from asyncsim.claims.convergence._descent import Descent
from asyncsim.claims.staleness.gaussian_bandit import GaussianBandit
from asyncsim.claims.systems import cap_idle

Draw = Callable[[Parameter[Any]], Any]
"""Gives a typical value of a parameter."""


def typical(cls: Any, draw: Draw) -> dict[str, Any]:
    """What is typical of each parameter, or of parameters of one kind together; a point outside is drawn again."""
    kind = next((made for base, made in KINDS.items() if issubclass(cls, base)), one_by_one)
    return kind(cls, draw)


def one_by_one(cls: Any, draw: Draw) -> dict[str, Any]:
    return {name: draw(p) for name, p in cls.parameters.items() if p.typical}


def arms(cls: Any, draw: Draw) -> dict[str, Any]:
    """All vectors of one length."""
    vectors = [name for name, p in cls.parameters.items() if isinstance(p, Vector)]
    sizes = cls.parameters[vectors[0]].sizes
    size = draw(Integer(*sizes, typical=sizes))
    return {
        name: draw(Vector(length=size, typical=p.typical) if name in vectors else p)
        for name, p in cls.parameters.items()
        if p.typical
    }


def rows(draw: Draw, height: int, length: int, *typical: float) -> tuple[Any, ...]:
    """A table."""
    return tuple(draw(Vector(length=length, typical=typical)) for _ in range(height))


def tables(cls: Any, draw: Draw) -> dict[str, Any]:
    """Tables of the shape that the other parameters set."""
    parsed = {name: p for name, p in cls.parameters.items() if isinstance(p, Parsed)}
    point = {name: draw(p) for name, p in cls.parameters.items() if name not in parsed}
    height = _bandit._height(*(point[name] for name in ("actions", "horizon", "dependence")))
    return point | {name: rows(draw, height, point["actions"], *p.typical) for name, p in parsed.items()}


def process(cls: Any, draw: Draw) -> dict[str, Any]:
    """Tables of one size."""
    S, A = draw(Integer(1, typical=(1, 3))), draw(Integer(2, typical=(2, 3)))
    chances = _bandit.softmax(np.reshape(rows(draw, S, A * (S + 1), -3.0, 3.0), (S, A, S + 1)))[..., :S]
    nested = tuple(tuple(tuple(row) for row in state) for state in chances.tolist())
    policies = {name: rows(draw, S, A, -2.0, 2.0) for name in cls.policies()}
    return {"transition": nested, "rewards": rows(draw, S, A, -1.0, 1.0), "discount": draw(cls.discount), **policies}


def stepping(
    low: float, high: float, limit: Callable[[dict[str, Any]], float] = lambda point: critical(point["staleness"])
) -> Callable[[Any, Draw], dict[str, Any]]:
    """Learning rates of these shares of a limit, over the curvature."""

    def drawn(cls: Any, draw: Draw) -> dict[str, Any]:
        point = one_by_one(cls, draw)
        return point | {"step": draw(Real(typical=(low, high))) * limit(point) / point["curvature"]}

    return drawn


KINDS: dict[type, Callable[[Any, Draw], dict[str, Any]]] = {
    _bandit.Arms: arms,
    _bandit.Sequences: tables,
    Process: process,
    GaussianBandit: stepping(0.05, 0.6),
    Descent: stepping(0.02, 1.0, lambda point: 1.0 / (1 + point["staleness"])),
}


def then(change: Callable[[dict[str, Any], Draw], dict[str, Any]]) -> Callable[[Any, Draw], dict[str, Any]]:
    """Typical values, and what is changed of them."""

    def drawn(cls: Any, draw: Draw) -> dict[str, Any]:
        point = typical(cls, draw)
        return point | change(point, draw)

    return drawn


def weights(draw: Draw, most: int) -> tuple[float, ...]:
    """Probabilities of so many values and one more, at most."""
    drawn = [*draw(Vector(typical=(0.0, 1.0), sizes=(0, most))), 1.0]
    return tuple(weight / sum(drawn) for weight in drawn)


def in_flight(cls: Any, draw: Draw) -> dict[str, Any]:
    """A mean delay and a learning rate that the delays allow."""
    point = one_by_one(cls, draw)
    most = point["maximum"]
    count = draw(Integer(1, most, typical=(1, most))) if most else 0
    mean, allowed = draw(Real(typical=(0.0, 1.0))) * count, 2.0 / (1.0 + math.sqrt(1.0 + 8.0 * most * count))
    step = draw(Real(typical=(0.02, 1.0))) * allowed / point["curvature"]
    return point | {"in_flight": count, "mean": mean, "step": step}


@then
def modes(point: dict[str, Any], draw: Draw) -> dict[str, Any]:
    """Below 0.95 of the boundary: closer, the Lyapunov equation itself loses the digits."""
    top = draw(Real(typical=(0.1, 5.0)))
    others = (top * share for share in draw(Vector(typical=(0.1, 1.0), sizes=(0, 3))))
    step = draw(Real(typical=(0.05, 0.95))) * critical(point["staleness"]) / top
    return {"curvature": top, "others": tuple(others) or None, "step": step}


@then
def random_delays(point: dict[str, Any], draw: Draw) -> dict[str, Any]:
    """Below 0.9 of the boundary of a delay that is always the largest."""
    law = weights(draw, 8)
    return {"law": law, "step": draw(Real(typical=(0.05, 0.9))) * critical(len(law) - 1) / point["curvature"]}


def stamped(cls: Any, draw: Draw) -> dict[str, Any]:
    """Each optimizer well inside of its boundary."""
    optimizer, noise = draw(cls.optimizer), draw(cls.noise)
    law, top = (0.0, *weights(draw, 2 if optimizer == "sign" else 5)), draw(Real(typical=(0.1, 5.0)))
    curvatures = (top, *(top * share for share in draw(Vector(typical=(0.5, 1.0), sizes=(0, 2)))))
    largest = {"sign": noise, "sgd": critical(len(law) - 1), "momentum": 0.5 * critical(len(law) - 1)}[optimizer]
    step = draw(Real(typical=(0.2, 0.8))) * largest / top
    return {"optimizer": optimizer, "law": law, "curvatures": curvatures, "noise": noise, "step": step}


def ring(cls: Any, draw: Draw) -> dict[str, Any]:
    """Tables of a ring of states, and caps in their order."""
    states, actions = draw(Integer(2, 4, typical=(2, 4))), draw(Integer(2, 3, typical=(2, 3)))
    point = {name: draw(cls.parameters[name]) for name in ("discount", "steps")}
    trace, rho = sorted((draw(cls.trace_cap), draw(cls.rho_cap)))
    names = ("rewards", "behavior_logits", "current_logits")
    return point | {"rho_cap": rho, "trace_cap": trace} | {k: rows(draw, states, actions, -1.0, 1.0) for k in names}


def greedy(cls: Any, draw: Draw) -> dict[str, Any]:
    """Groups for whole minibatches, each with one likeliest arm."""
    point = {name: draw(cls.parameters[name]) for name in ("minibatches", "cut", "advantages_from")}
    groups = point["minibatches"] * draw(Integer(2, typical=(2, 3)))
    logits = tuple((1.0, *row) for row in rows(draw, groups, 1, -1.0, 0.5))
    return point | {"rewards": draw(Vector(length=groups, typical=(-1.0, 1.0))), "logits": logits}


def followed(cls: Any, draw: Draw) -> dict[str, Any]:
    """A row of logits for the start and one for each token."""
    point = {"actions": draw(cls.actions), "horizon": draw(cls.horizon)}
    height, length = point["actions"] + 1, point["actions"]
    return point | {k: rows(draw, height, length, -1.5, 1.5) for k in ("behavior_logits", "current_logits")}


def slopes(cls: Any, draw: Draw) -> dict[str, Any]:
    """Over learning rates or over stalenesses, by parameters that are always given."""
    point = {name: draw(cls.parameters[name]) for name in ("curvature", "start", "noise")}
    if draw(Flag()):
        return point | {"staleness": draw(Integer(1, typical=cls.staleness.typical)), "steps": (1e-3, 3e-3, 1e-2)}
    ages = draw(Counts(1, typical=cls.stalenesses.typical))
    return point | {"step": draw(Real(typical=cls.step.typical)), "stalenesses": ages}


@then
def away_from_the_knee(point: dict[str, Any], draw: Draw) -> dict[str, Any]:
    """The ratio of the two sides stays away from the knee, and the buffer is large enough for chance."""
    ratio = draw(Real(typical=(0.2, 0.7) if draw(Flag()) else (1.4, 4.0)))
    groups, sync = point["groups_per_batch"], point["sync_time"]
    work = _work.longest(_work.law_of("length", point["length"]), point["samples_per_group"])
    train = ratio * groups * work / point["places"]
    absence = 0.0 if point["generator_pauses"] or ratio > 1.0 else 0.1 * sync
    return {
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


@then
def slow_places(point: dict[str, Any], draw: Draw) -> dict[str, Any]:
    """One exponential sample a group at any load, or other lengths over many places at a moderate one."""
    law, samples = _lengths.read_law("length", point["length"]), point["samples_per_group"]
    exact = law.kind == "exponential" and samples == 1
    groups = point["groups_per_batch"]
    most = cap_idle._PLACES_PER_GROUP * groups
    places = draw(Integer(1, typical=(1 if exact else most, 2 * most)))
    busy = draw(Real(typical=(0.01, cap_idle._BUSIEST if exact else cap_idle._MODERATE)))
    return {"places": places, "train_time": busy * law.expected_max(samples) * groups / places}


@then
def any_loop(point: dict[str, Any], draw: Draw) -> dict[str, Any]:
    """Any ticket system, or a closed loop whose numbers are known: its balance has one phase where tickets are many."""
    if not draw(Flag()):
        return {"tickets": point["groups_per_batch"] + draw(Integer(0, typical=(0, 12)))}
    tickets = draw(Integer(1, typical=(1, 9))) + 25 * draw(Integer(0, typical=(0, 1)))
    loop = {"tickets": tickets, "train_time": f"exponential:{draw(Real(typical=(0.05, 2.0)))!r}"}
    places = tickets + draw(Integer(0, typical=(0, 3)))
    return loop | {"places": places, "groups_per_batch": 1, "release": "publish"}


def permits(more: Integer, *sizes: str) -> Callable[[Any, Draw], dict[str, Any]]:
    """Permits for a publish, the product of these sizes, and some more."""
    return then(lambda point, draw: {"tickets": math.prod(point[name] for name in sizes) + draw(more)})


def buffered(point: dict[str, Any], ratio: float, draw: Draw) -> dict[str, Any]:
    """Many places, at `ratio` groups generated for each one trained, and a buffer of a few batches."""
    groups = point["groups_per_batch"]
    places = groups * draw(Integer(4, typical=(4, 6))) + draw(Integer(0, typical=(0, 5)))
    capacity = groups * draw(Integer(1, typical=(1, 4))) + draw(Integer(0, typical=(0, 3)))
    work = _work.longest(_work.law_of("length", point["length"]), point["samples_per_group"])
    return point | {"places": places, "train_time": ratio * groups * work / places, "capacity": capacity}


@then
def levels(point: dict[str, Any], draw: Draw) -> dict[str, Any]:
    """Three to thirteen batches of tickets, and levels behind them."""
    groups = point["groups_per_batch"]
    tickets = groups * draw(Integer(3, typical=(3, 12))) + draw(Integer(0, typical=(0, 15)))
    levels = sorted(draw(Counts(0, least=1, typical=(0, 12))))
    return {"tickets": tickets, "levels": tuple(tickets // groups + 2 + k for k in levels)}


POINTS: dict[str, Callable[..., dict[str, Any]]] = {
    "systems/age-cut-length-bias": then(
        lambda point, draw: {"places": point["groups_per_batch"] * draw(Integer(1, typical=(1, 8)))}
    ),
    "systems/asynchronous-throughput": away_from_the_knee,
    "systems/cap-binds": crowded_permits,
    "systems/cap-idle": slow_places,
    "systems/first-k-length-bias": then(lambda point, draw: {"kept": min(point["kept"], point["started"])}),
    "systems/hard-bounds": permits(Integer(0, typical=(1, 12)), "groups_per_batch", "batches_per_publish"),
    "systems/little": any_loop,
    # Generators well below or well above the trainer.
    "systems/open-loop-mean": then(
        lambda point, draw: buffered(point, draw(Real(typical=(0.1, 0.5) if draw(Flag()) else (1.6, 5.0))), draw)
    ),
    # Times of training as shares of what there is.
    "systems/pipeline": then(
        lambda point, draw: {k: point["seconds"] / point["places"] * point[k] for k in ("train_time", "sync_time")}
    ),
    "systems/straggler-tail": levels,
    "systems/ticket-throughput": permits(Integer(0, typical=(0, 12)), "groups_per_batch", "batches_per_publish"),
    "staleness/baseline-offset-immunity": then(
        lambda point, draw: {"offset": draw(Real(typical=(-1.9, 2.9))) * point["kl"]}
    ),
    "convergence/step-size-law": stepping(1.05, 2.5),
    "alignment/lag1-closed-form": modes,
    "alignment/projection-second-moment": stepping(
        0.6, 1.0, lambda point: critical(point["staleness"]) * min(2.4, 0.6 / max(1.0 - point["strength"], 0.1))
    ),
    "alignment/random-delay-cosine": random_delays,
    "alignment/sawtooth-cosine": stepping(0.02, 0.98, lambda point: 2.0 / point["updates"]),
    "alignment/version-identity": stamped,
    "convergence/arbitrary-delay": in_flight,
    "convergence/bias-slope": slopes,
    "estimator/cut-advantages": greedy,
    "estimator/v-trace": ring,
    "ratio/markov-moments": followed,
    # As many rates as workers, or none.
    "systems/arrivals-per-update": then(
        lambda point, draw: {"rates": draw(Vector(0.0, point["workers"], typical=(0.5, 4.0), optional=True))}
    ),
    **dict.fromkeys(("live/learning", "live/staleness"), permits(Integer(1, typical=(1, 12)), "publish_groups")),
    **dict.fromkeys(
        ("staleness/random-mean", "staleness/random-mean-square", "staleness/constant-is-worst"),
        then(lambda point, draw: {"law": weights(draw, 2)}),
    ),
    # One arm pays nothing, so that rewards differ.
    **dict.fromkeys(
        ("staleness/implicit-momentum", "staleness/stale-reinforce-is-delayed-ascent"),
        then(lambda point, draw: {"rewards": (0.0, *point["rewards"][1:])}),
    ),
}
"""A random point of each claim whose class cannot draw one parameter after the other."""
