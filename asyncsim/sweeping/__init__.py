"""Sweeps: one question at many settings, with units of work, worker processes or a cluster, and a store of results."""

from asyncsim.sweeping.advising import advise
from asyncsim.sweeping.boundaries import boundary
from asyncsim.sweeping.sweeps import stored, sweep

__all__ = ["advise", "boundary", "stored", "sweep"]
