"""Metrics of runs that end early, in a module that workers find, unlike the tests' own."""

import os
import signal
import time
from pathlib import Path

import torch

import asyncsim as sim
from asyncsim.base import workers
from asyncsim.base.checks import InputError


def interrupts(step):
    """Sends Ctrl-C to the process that was asked, in the middle of its fifth update."""
    if step.update == 4 and workers.number() is None:
        signal.raise_signal(signal.SIGINT)
    return torch.full(step.parameters.shape[:1], float(step.update), dtype=torch.float64)


def interrupts_twice(step):
    if workers.number() is None:
        interrupts(step)
    return interrupts(step)


def interrupts_late(step, calls=[]):  # noqa: B006, it counts
    """Sends Ctrl-C in the third block that this process trains."""
    calls.extend([step.update] if step.update == 4 and workers.number() is None else [])
    if len(calls) == 3:
        return interrupts(step)
    return torch.full(step.parameters.shape[:1], float(step.update), dtype=torch.float64)


def waits(step):
    """Keeps workers busy for a minute."""
    if workers.number() is not None:
        time.sleep(60)
    return interrupts_twice(step)


def dies(step):
    """Ends its worker in the middle of an update: once, or as often as the variable says."""
    left = Path(os.environ["ASYNCSIM_TEST_DEATHS"])
    if workers.number() is not None and step.update == 4 and left.read_text(encoding="utf-8"):
        left.write_text(left.read_text(encoding="utf-8")[1:], encoding="utf-8")
        os.kill(os.getpid(), signal.SIGKILL)
    return torch.zeros(step.parameters.shape[:1], dtype=torch.float64)


def refuses(step):
    if workers.number() is not None:
        raise InputError("reward", "NaN", "a number", "mend the task")
    return torch.zeros(step.parameters.shape[:1], dtype=torch.float64)


def run_long(spec):
    """Updates of a run, as a call by name."""
    return len(sim.run(spec).updates)
