"""What a benchmark is: two sides that are measured in turn, and what a reader has to know of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import NamedTuple

Measure = Callable[[], float]


class Benchmark(NamedTuple):
    """Two functions without arguments that do their work once and return its rate, in `unit`, more being better.

    `what`: both sides in a few words; `target`: the ratio of ours to theirs that was set; `needs`: the module of a peer
    that may not be installed; `rounds`: most paired measurements, for work that takes many seconds.
    """

    ours: Measure
    theirs: Measure
    unit: str
    what: str = ""
    target: float | None = None
    needs: str | None = None
    rounds: int | None = None

    @property
    def installed(self) -> bool:
        """Whether the peer is there."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None
