"""Checks for code outside this package: admission controllers, and losses, metrics and advantages of trainers.

`admission` has `check_admission`, `controller` what a controller is asked and told, `_admission` its runs beside the
true counts, and mistakes as laws of tickets.

`losses` has `check_loss`, `adapters` the styles of trainers. `_loss_subject` binds and asks a loss, on the batches of
`_loss_probes`; `_loss_parts` reads off its curve, its penalty and what it divides by, `_loss_readings` what it makes of
its inputs; `_loss_methods` has what it is compared with, `_loss_search` finds the nearest; `_loss_case` is all that was
measured, on which `_loss_findings` tries one experiment for each known mistake.

`metrics` has `check_metric`, with words and remedies. `_metric_search` binds and asks a function and finds metrics that
give the same numbers, on the batches and among the right and wrong metrics of `_metric_catalogue`.

`advantages` has `check_advantage`, which binds and asks a function, among the right and wrong advantages of
`_advantage_catalogue`. `reports` has what each check returns.
"""

import importlib
from typing import Any

from asyncsim.conformance.admission import check_admission
from asyncsim.conformance.controller import Controller
from asyncsim.conformance.reports import (
    AdvantageReport,
    ConformanceError,
    Failure,
    Finding,
    LossReport,
    MetricReport,
    Report,
)

__all__ = [
    "AdvantageReport",
    "ConformanceError",
    "Controller",
    "Failure",
    "Finding",
    "LossReport",
    "MetricReport",
    "Report",
    "adapters",
    "check_admission",
    "check_advantage",
    "check_loss",
    "check_metric",
]

_LATER = {"check_advantage": "advantages", "check_loss": "losses", "check_metric": "metrics"}


def __getattr__(name: str) -> Any:
    # What is about losses, metrics and advantages needs torch.
    if name == "adapters":
        return importlib.import_module("asyncsim.conformance.adapters")
    if name in _LATER:
        return getattr(importlib.import_module(f"asyncsim.conformance.{_LATER[name]}"), name)
    raise AttributeError(f"asyncsim.conformance has no {name!r}; see dir(asyncsim.conformance)")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
