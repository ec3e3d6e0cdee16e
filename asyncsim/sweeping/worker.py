"""A worker process: reads what a unit is told from its input, one JSON line each, and answers how it ended.

It ends when its input does, so nobody has to end it when the process that started it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a user's part prints is no answer
    asked = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # what a user's part reads is no unit
    os.close(nothing)
    first = json.loads(asked.readline())
    sys.path[:] = first["path"]
    from asyncsim.sweeping import units

    for line in asked:
        told = json.loads(line)
        ended = units.perform(told["where"], told["content"])
        answers.write(json.dumps(ended) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
