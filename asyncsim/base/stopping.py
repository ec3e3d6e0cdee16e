"""Handling of Ctrl-C, SIGTERM and SIGHUP: the first signal stops work after it is saved, a second stops at once."""

import _thread
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

NAMES: dict[int, str] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
"""Signals that end a run early, with their names in messages."""
if hasattr(signal, "SIGHUP"):  # Windows has no terminal that hangs up
    NAMES[signal.SIGHUP] = "SIGHUP"
PATIENCE = 1.0
"""Seconds after which a message says why the stop takes time."""
SOON = 5.0
"""Seconds after which a batch that is under way is given up, so that what was recorded before it is soon kept."""
_WAITING = b"asyncsim: stopping after the current batch; press Ctrl-C again to stop at once and lose the run\n"
_LEAVING = b"asyncsim: stopping; what was recorded before this batch is kept. Press Ctrl-C again to lose it as well\n"
_open = False
"""Whether the work under way may be given up."""


class Stopped(KeyboardInterrupt):
    """An interrupt of a run with the number of its signal; `text` says where it occurred."""

    def __init__(self, number: int, text: str = "") -> None:
        self.number = number
        super().__init__(f"stopped by {NAMES[number]}{text}")


class Kept(Stopped):
    """An interrupt of a command whose finished results are stored; its text says how many, and how to resume."""


class Terminated(Stopped):
    """SIGTERM or SIGHUP, as raised by the handler of the command line."""


class Unfinished(KeyboardInterrupt):
    """Raised inside a batch when a signal has waited too long for the end of the batch."""


def number_of(error: KeyboardInterrupt) -> int:
    """The number of the signal that caused an interrupt."""
    return int(error.number if isinstance(error, Stopped) else signal.SIGINT)


def terminate(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM and SIGHUP in the command line: raise `Terminated`."""
    raise Terminated(number)


@contextmanager
def terminable() -> Iterator[None]:
    """Context in which SIGTERM and SIGHUP raise as Ctrl-C does; ignored signals stay ignored."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        ends = [number for number in NAMES if signal.getsignal(number) is signal.SIG_DFL]  # not so under nohup
        before = {number: signal.signal(number, terminate) for number in ends}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def abandonable(may: bool) -> Iterator[None]:
    """Set whether, inside the context, a signal that has waited for `SOON` seconds raises `Unfinished`."""
    global _open
    before, _open = _open, may
    try:
        yield
    finally:
        _open = before


@contextmanager
def deferred(patience: float = PATIENCE) -> Iterator[list[int]]:
    """Context that collects signals in a list instead of raising them; a second signal is raised.

    Only Python's own handler of Ctrl-C and `terminate` are replaced, and only in the main thread.
    """
    received: list[int] = []
    late: list[bool] = []
    before: dict[int, Any] = {}

    def give_up() -> None:
        late.append(True)
        _thread.interrupt_main(signal.Signals(received[0]))

    timers = threading.Timer(patience, _say), threading.Timer(SOON, give_up)

    def note(number: int, frame: FrameType | None) -> None:
        if late:
            late.clear()
            if _open:
                raise Unfinished
        elif received:
            before[number](number, frame)
        else:
            received.append(number)
            for timer in timers:
                timer.daemon = True
                timer.start()

    if threading.current_thread() is threading.main_thread():
        for each in NAMES:
            handler = signal.getsignal(each)
            if handler in (signal.default_int_handler, terminate):
                before[each] = handler
                signal.signal(each, note)
    try:
        yield received
    finally:
        for timer in timers:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _say() -> None:
    # Not through sys.stderr, whose lock the interrupted thread may hold.
    with suppress(OSError):
        os.write(2, _LEAVING if _open else _WAITING)
