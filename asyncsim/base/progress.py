"""Progress of long work: a bar on a terminal, else a line at intervals; always on stderr."""

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

LONG = 2000
"""Minimum number of steps for which a bar is shown."""
SECONDS = 30.0
"""Seconds between lines if there is no terminal."""
SOON = 8.0
"""Seconds after which work is announced that says what makes it shorter, with or without a completed step."""
KNOWN = 0.03
"""Share of the steps after which the time left is told; the first ones may wait for a compilation."""


class Progress:
    """Counter of completed steps out of a total, which shows the progress."""

    def __init__(self, what: str, total: int, wanted: bool | None = None, shorter: str = "") -> None:
        self.what, self.total, self.done, self.before = what, total, 0, 0
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self.barred = terminal and (total >= LONG if wanted is None else wanted)
        self.spoken = wanted is not False and not self.barred
        self.bar: Any = None
        self.shorter, self.start = shorter, time.monotonic()
        self.last, self.timer = self.start, threading.Timer(SOON, self._announce)

    def __enter__(self) -> "Progress":
        if self.spoken and self.shorter:
            self.timer.daemon = True
            self.timer.start()
        if self.barred:
            from rich.console import Console
            from rich.progress import Progress as Bar

            self.bar = Bar(console=Console(stderr=True), transient=True)
            self.bar.start()
            self.bar.add_task(self.what, total=self.total)
        return self

    def __exit__(self, *exception: object) -> None:
        self.timer.cancel()
        if self.bar is not None:
            self.bar.stop()

    def begin(self, steps: int) -> None:
        """Set the number of steps that an earlier run completed, which do not count for the speed."""
        self.done = self.before = steps
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=steps)

    def beat(self, words: str) -> None:
        """Describe the current work while no step completes: beside the bar, or in a line if one is due."""
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], description=f"{self.what} ({words})")
        elif self.spoken and time.monotonic() - self.last >= SECONDS:
            self.last = time.monotonic()
            print(f"asyncsim: {words}, {self.last - self.start:.0f} s so far", file=sys.stderr, flush=True)

    def add(self, steps: int = 1) -> None:
        """Add completed steps to the counter."""
        self.done += steps
        if self.bar is not None:
            self.bar.advance(self.bar.task_ids[0], steps)
        elif self.spoken and time.monotonic() - self.last >= SECONDS:
            self.last = time.monotonic()
            print(self._line(self.last - self.start), file=sys.stderr, flush=True)

    def counted(self, steps: Iterable[Any]) -> Iterator[Any]:
        """Yield each step, and count it when the next one is asked for."""
        for step in steps:
            yield step
            self.add()

    def _line(self, spent: float) -> str:
        share, made = self.done / self.total, self.done - self.before
        more = f", about {spent * (self.total - self.done) / made:.0f} s more" if made >= KNOWN * self.total else ""
        return f"asyncsim: {share:.0%} of the {self.what} after {spent:.0f} s{more}"

    def _announce(self) -> None:
        """Say from a thread of its own, since no step may end for minutes, what makes the work shorter."""
        print(f"{self._line(time.monotonic() - self.start)}; {self.shorter}", file=sys.stderr, flush=True)
