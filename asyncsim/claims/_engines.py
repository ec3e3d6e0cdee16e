"""Parameters that points of event systems have in common, each with its bound, unit and meaning.

A claim adds `example` and `typical`, and changes what differs there.
"""

from __future__ import annotations

from typing import Any

from asyncsim.base.declared import Choice, Count, Declared, Draw, Flag, Integer, Parsed, Real
from asyncsim.base.laws import Law
from asyncsim.claims import _lengths, _work

WORKS = ("constant:2", "exponential:1", "lognormal:1:0.8", "gamma:2:3", "pareto:1:1.5", "empirical:1:2:2:7")
"""Typical works of a sample: one value, light and heavy tails, few values."""


class Engines(Declared):
    """A point of an event system; a parameter without `typical` depends on others, and a subclass draws it."""

    @property
    def group(self: Any) -> float:
        """E[T], mean seconds of a group at rate 1: those of the longest of its samples."""
        return _work.longest(self.length, self.samples_per_group)

    @property
    def group_by_quantiles(self: Any) -> float:
        """The same by a second route."""
        return _work.longest_by_quantiles(self.length, self.samples_per_group)

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """What is typical by itself."""
        return {name: draw(p) for name, p in cls.parameters.items() if p.typical}


def places(**details: Any) -> Integer:
    """Groups in generation at once."""
    return Count(1, None, **{"unit": "groups", "doc": "groups in generation", **details})


def tickets(high: int | None = None, **details: Any) -> Integer:
    """Groups that may be out at once."""
    return Count(1, high, **{"unit": "groups", "doc": "groups that are out", **details})


def groups(low: int = 1, high: int | None = None, **details: Any) -> Integer:
    """Groups of a batch."""
    return Count(low, high, **{"unit": "groups", "doc": "groups of a batch", **details})


def batches(high: int | None = None, **details: Any) -> Integer:
    """Batches of a publish."""
    return Count(1, high, **{"unit": "batches", "doc": "batches of a publish", **details})


def samples(high: int | None = None, **details: Any) -> Integer:
    """Samples of a group."""
    return Count(1, high, **{"unit": "samples", "doc": "samples of a group", **details})


def slots(low: int = 1, **details: Any) -> Integer:
    """Samples decoded at once."""
    return Count(low, None, **{"unit": "samples", "doc": "samples decoded at once", **details})


def capacity(**details: Any) -> Integer:
    """Room of the buffer."""
    return Count(1, None, **{"unit": "groups", "doc": "finished groups that the buffer holds", **details})


def cells(most: int | None = None, **details: Any) -> Integer:
    """Cells of a law."""
    return Integer(
        1,
        most,
        **{"doc": "cells of the distribution that are asked for", "remedy": "ask for at least one cell", **details},
    )


def work(**details: Any) -> Parsed[Law]:
    """Law of the work of a sample, of finite mean: seconds at rate 1."""
    doc = "distribution of the work of a sample, seconds at rate 1"
    accepts = "the text of a distribution of finite mean, or a positive number"
    return Parsed(_work.law_of, accepts, **{"typical": WORKS, "unit": "seconds", "doc": doc, **details})


def smooth_length(**details: Any) -> Parsed[Law]:
    """Law of the generation seconds of a sample, with a density."""
    accepts = f"the text of a distribution with a density: {', '.join(_lengths.SMOOTH)}"
    doc = "distribution of the seconds of a sample"
    return Parsed(_lengths.read_law, accepts, **{"typical": _lengths.HEAVY, "unit": "seconds", "doc": doc, **details})


def train_time(least: str = ">= 0", **details: Any) -> Parsed[float]:
    """Mean seconds of the training of a batch; `least`: ">= 0" or "> 0"."""
    parse = {">= 0": _work.seconds, "> 0": _work.some_seconds}[least]
    defaults = {"unit": "seconds", "doc": "training time of a batch"}
    return Parsed(parse, f"number {least}, or the text of a distribution", **defaults | details)


def sync_time(**details: Any) -> Real:
    """Seconds of a synchronization."""
    doc = "seconds of a synchronization, from the snapshot to the install"
    return Real(0.0, **{"unit": "seconds", "doc": doc, **details})


def generator_pauses(**details: Any) -> Flag:
    """Whether a synchronization stops the generators."""
    doc = "whether a synchronization stops the generators"
    return Flag(**{"doc": doc, "remedy": f"say {doc}", **details})


def release(**details: Any) -> Choice:
    """When a ticket returns."""
    return Choice(
        "publish",
        "dequeue",
        **{"doc": "when a group permit returns", "remedy": "say when a group permit returns", **details},
    )
