"""Tools for a trainer's own tests: checks of its loss and its staleness manager, and strategies that draw input."""

from asyncsim.testing.events import Admission as Admission
from asyncsim.testing.events import LogRows as LogRows
from asyncsim.testing.events import controllers as controllers
from asyncsim.testing.events import logs as logs
from asyncsim.testing.events import schedules as schedules
from asyncsim.testing.events import sources as sources
from asyncsim.testing.tensors import Batch as Batch
from asyncsim.testing.tensors import DrawnLoss as DrawnLoss
from asyncsim.testing.tensors import batches as batches
from asyncsim.testing.tensors import losses as losses

__all__ = [
    "Admission",
    "Batch",
    "DrawnLoss",
    "LogRows",
    "batches",
    "controllers",
    "logs",
    "losses",
    "schedules",
    "sources",
]
