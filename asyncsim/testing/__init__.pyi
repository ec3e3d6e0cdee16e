"""For a trainer's own tests: its loss and its staleness manager held to asyncsim, and strategies that draw input."""

from asyncsim.testing.admission import Admission as Admission
from asyncsim.testing.admission import controllers as controllers
from asyncsim.testing.logged import LogRows as LogRows
from asyncsim.testing.logged import logs as logs
from asyncsim.testing.tensors import Batch as Batch
from asyncsim.testing.tensors import DrawnLoss as DrawnLoss
from asyncsim.testing.tensors import batches as batches
from asyncsim.testing.tensors import losses as losses
from asyncsim.testing.versions import schedules as schedules
from asyncsim.testing.versions import sources as sources

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
