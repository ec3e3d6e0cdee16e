"""Asking one question at many settings: units of work, worker processes or a cluster, and one store of rows."""

from asyncsim.sweeping.advising import advise
from asyncsim.sweeping.boundaries import boundary
from asyncsim.sweeping.sweeps import sweep

__all__ = ["advise", "boundary", "sweep"]
