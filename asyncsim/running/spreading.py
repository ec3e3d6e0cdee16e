"""Whether blocks are trained in this process alone or in workers beside it, and how large they are then."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

from asyncsim.base import checks, workers
from asyncsim.running.spec import ARRAYS, Spec

LOOK = 1.0
"""Seconds of training after which it is known how long the rest takes."""
WORTH = 15.0
"""Seconds that are left where workers are started unasked: their start takes 1 to 3 s."""
LEAST = 1 << 15
"""Tokens that a batch of a block keeps which is made smaller unasked: below, most of the time is Python's own."""
BYTES = 512 << 20
"""Memory of a worker before its first block."""


class Site:
    """This process and the workers beside it, which stay from one run to the next until the site is closed.

    `asked`: how many processes train, this one included; None: one a core, once that pays.
    """

    def __init__(self, asked: int | None) -> None:
        if asked is not None:
            checks.integer("workers", asked, 1, "give at least one worker, or leave it out", workers.MOST)
        self.asked = asked
        self.count = asked or (1 if workers.nested() else workers.cores())
        self.began = time.monotonic()
        self.crew: workers.Crew | None = None

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def ready(self) -> bool:
        """Whether workers are used from the first block on."""
        return self.count > 1 and (self.asked is not None or self.crew is not None)

    def refuse(self, reason: str) -> None:
        """Train in this process alone from now on; whoever asked for more hears why."""
        self.explain(reason)
        self.count = 1

    def explain(self, reason: str) -> None:
        """Say why one process trains, to whoever asked for more."""
        if self.asked is not None and self.count > 1:
            say(f"one process: {reason}")

    def fit(self, spec: Spec) -> None:
        """Have no more workers, unasked, than memory holds."""
        if self.asked is None:
            each = BYTES + 8 * ARRAYS * spec.together * tokens_of(spec)
            self.count = min(self.count, 1 + checks.available()[0] // each)

    def start(self) -> None:
        """Have workers; each begins with its first call."""
        if self.crew is None:
            self.crew = workers.Crew(self.count - 1)

    def call(self, name: str, *arguments: Any) -> Any:
        """What a function gives in a worker; it raises `Died` where its worker did."""
        if self.crew is None:
            raise workers.Died("the work is over")
        return self.crew.submit(name, *arguments).result()

    def close(self) -> None:
        """End all workers at once."""
        if self.crew is not None:
            self.crew.close()
            self.crew = None


class Watch:
    """Tells, once, that what is left is known to take much longer than a start of workers."""

    def __init__(self, site: Site) -> None:
        self.site, self.over = site, site.count == 1 or site.ready
        self.begun = 0.0
        self.before: int | None = None

    def pays(self, done: int, left: int) -> bool:
        """Whether to start them behind so many updates of a block, times replicates, where so many are left."""
        now = time.monotonic()
        if self.before is None or done <= self.before:
            # Whatever has to be compiled is compiled in a block's first batch.
            self.begun, self.before = now, done
        if now - self.begun < LOOK:
            return False
        self.over = True
        seconds = left * (now - self.begun) / (done - self.before)
        # Who has computed for long already will go on: a comparison has many short runs.
        return seconds >= (WORTH if now - self.site.began < WORTH else 2 * LOOK)


def tokens_of(spec: Spec) -> int:
    """Tokens of a batch of one replicate."""
    return spec.groups * spec.samples_per_group * spec.task.horizon


def blocks(spec: Spec, start: int = 0, shares: int = 1, least: int = 1) -> list[range]:
    """Blocks of the replicates from `start` on: as the spec says, or smaller ones, a multiple of so many shares.

    Smaller ones keep `least` tokens of a batch, and are made only where the policy's bits do not depend on blocks.

    >>> import asyncsim as sim
    >>> spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.grpo(), sim.chain())
    >>> blocks(spec), blocks(spec, shares=3)
    ([range(0, 64)], [range(0, 22), range(22, 44), range(44, 64)])
    """
    left, size = spec.replicates - start, spec.together
    if shares > 1 and left > 0 and getattr(spec.trained_policy, "apart", False):
        whole = math.ceil(left / size)
        most = max(whole, left * tokens_of(spec) // least)
        size = math.ceil(left / min(shares * math.ceil(whole / shares), most, left))
    return [range(k, min(k + size, spec.replicates)) for k in range(start, spec.replicates, size)]


def say(text: str) -> None:
    """One line on stderr."""
    print(f"asyncsim: {text}", file=sys.stderr, flush=True)
