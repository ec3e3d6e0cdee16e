"""What presets share: reading knobs, places that are all alike, systems that differ in a setting or two."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from asyncsim import checks, plugins
from asyncsim.laws import Law, as_law
from asyncsim.systems._system import PLACES, System

Length = Law | float | str
Time = Law | float | None


def count(name: str, value: Any, low: int = 1, remedy: str = "count groups", high: int = PLACES) -> int:
    """A number of groups, batches or versions."""
    return checks.integer(name, value, low, remedy, high)


def renamed(**names: str) -> Callable[[Callable[..., System]], Callable[..., System]]:
    """Refuse names that a trainer's knobs had before, each with the name that it has now."""
    today = {before: f"the trainer's knob is {now} today; write that" for before, now in names.items()}
    return lambda make: plugins.refusing(make, today)


def optional(name: str, value: Any, low: int, remedy: str) -> int | None:
    """A number, or None (or infinity) for no limit."""
    endless = value is None or (isinstance(value, float) and value == math.inf)
    return None if endless else count(name, value, low, f"{remedy}, or None for no limit")


def alike(name: str, value: Any, places: int) -> tuple[float, ...]:
    """Places of rate 1; too many of them are blamed on the knob that asks for them."""
    checks.require(
        1 <= places <= PLACES,
        name,
        value,
        f"such that 1 to {PLACES} groups are generated at once",
        f"{places} places follow from it; choose a smaller number",
    )
    return (1.0,) * places


def share(name: str, value: Any, remedy: str, low: float = 0.0, high: float = math.inf, **more: Any) -> int | float:
    """A knob that is a share of something, whole or not, to be multiplied as its trainer does.

    Trainers round the product of floats: 115 % of 100 are 114 where they cut it off, 110 % of 100 are 111 where they
    round it up.
    """
    number = checks.real(name, value, remedy, low, high, **more)
    return int(number) if number.is_integer() else number


def groups_of(name: str, samples: Any, size: int, by: str) -> int:
    """Groups in so many samples, of which a group has `size`, the knob `by`."""
    number = count(name, samples, 1, "count samples", checks.LARGEST)
    checks.require(number % size == 0, name, number, f"a multiple of {by} = {size}", "train whole groups")
    return number // size


def verl(
    name: str, knobs: dict[str, Any], *, length: Length, load: float | None, train_time: Time, sync_time: float
) -> System:
    """verl's fully asynchronous recipe: K = int((1 + tau) M) tickets back at the publish, M = P S."""
    batch = count("ppo_mini_batch_size", knobs["ppo_mini_batch_size"])
    parts = count("require_batches", knobs["require_batches"])
    every = count("trigger_parameter_sync_step", knobs["trigger_parameter_sync_step"], 1, "count batches")
    partial = checks.boolean("partial_rollout", knobs["partial_rollout"], "say whether samples go on after a publish")
    each = count("concurrent_samples_per_replica", knobs["concurrent_samples_per_replica"])
    replicas = count("replicas", knobs["replicas"], 1, "count inference replicas")
    tau = share("staleness_threshold", knobs["staleness_threshold"], "give the share of a publish window to run ahead")
    # In the order of verl's factors, whose rounding decides on the last ticket.
    tickets = int(batch * parts * (tau + 1) * every)
    bound = f"such that at most {checks.LARGEST} groups are out"
    checks.require(tickets <= checks.LARGEST, "staleness_threshold", tau, bound, "give the share of a window")
    places = min(each * replicas, tickets)
    return System(
        name,
        knobs,
        as_law("length", length),
        alike("concurrent_samples_per_replica", each, places),
        groups_per_batch=batch * parts,
        batches_per_publish=every,
        servers=min(replicas, places),
        train_time=train_time,
        load=load,
        tickets=tickets,
        release="publish",
        release_dropped="publish",
        capacity=tickets,
        overflow="drop_oldest",
        order="done",
        mode="reprefill" if partial else "drain",
        sync_time=sync_time,
    )


def gated(
    name: str,
    knobs: dict[str, Any],
    ahead: str,
    *,
    length: Length,
    load: float | None,
    train_time: Time,
    sync_time: float,
    mode: str = "keep",
    **more: Any,
) -> System:
    """NeMo-RL's gate: batch i of prompts starts once version i - N is installed, N the knob `ahead`.

    K = (N + 1) P tickets that return at the publish, asked for P at a time, a place for each.
    """
    batch = count("num_prompts_per_step", knobs["num_prompts_per_step"])
    versions = count(ahead, knobs[ahead], more.pop("low", 0), "give a number of versions")
    tickets = (versions + 1) * batch
    return System(
        name,
        knobs,
        as_law("length", length),
        alike(ahead, versions, tickets),
        groups_per_batch=batch,
        train_time=train_time,
        load=load,
        tickets=tickets,
        release="publish",
        quantum=batch,
        mode=mode,
        sync_time=sync_time,
        **more,
    )


def arrivals(
    name: str, workers: int, service: Length, rates: Sequence[float] | None, stagger: bool, **settings: Any
) -> System:
    """N workers that restart at once; training takes no time and a sample ends under the weights it began with."""
    number = count("workers", workers, 1, "give a number of workers")
    checks.boolean("stagger", stagger, "say whether workers start one after the other")
    law = as_law("service", service)
    given = [1.0] * number if rates is None else rates
    speeds = tuple(checks.finite_array("rates", given, (number,), "give each worker its rate").tolist())
    offsets = tuple(w * law.mean() / number for w in range(number)) if stagger else None
    knobs = {
        "workers": number,
        **settings.pop("knobs", {}),
        "service": str(law),
        "rates": None if rates is None else list(speeds),
        "stagger": stagger,
    }
    return System(name, knobs, law, speeds, offsets=offsets, mode="pin", train_time=0.0, **settings)
