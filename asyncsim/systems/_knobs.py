"""What presets share: reading knobs, places that are all alike, systems that differ in a setting or two."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from asyncsim.base import checks, plugins
from asyncsim.base.laws import Law
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
