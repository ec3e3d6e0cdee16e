"""Announces that the event kernel is being compiled: ten seconds without output look like a hang."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asyncsim.app import streams

KERNEL = "asyncsim.systems._kernel"
LINE = "compiling the event kernel, once after an installation (about ten seconds)"


@contextmanager
def announced() -> Iterator[None]:
    """One line on stderr where the event kernel is compiled meanwhile, nothing where its compiled code is at hand."""
    # numba reports the start of a compilation; loading from disk is no such event.
    from numba.core import event

    class CompileListener(event.Listener):
        reported = False

        def on_start(self, event: Any) -> None:
            if not self.reported and event.data["dispatcher"].py_func.__module__ == KERNEL:
                self.reported = True
                streams.complain(LINE)

        def on_end(self, event: Any) -> None:
            """The results that follow show that it has ended."""

    with event.install_listener("numba:compile", CompileListener()):
        yield
