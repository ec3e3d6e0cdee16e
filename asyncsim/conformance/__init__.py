"""Checks for code outside this package: admission controllers, and losses of trainers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from asyncsim.conformance.admission import check_admission
from asyncsim.conformance.controller import Controller
from asyncsim.conformance.reports import ConformanceError, Failure, Report

if TYPE_CHECKING:
    from asyncsim.conformance.losses import check_loss
    from asyncsim.conformance.reports import Finding, LossReport

_LATER = {"check_loss": "losses", "LossReport": "loss_reports", "Finding": "loss_reports"}
"""What is loaded when it is first used: losses need torch."""

__all__ = [
    "ConformanceError",
    "Controller",
    "Failure",
    "Finding",
    "LossReport",
    "Report",
    "check_admission",
    "check_loss",
]


def __getattr__(name: str) -> Any:
    if name == "adapters":
        return importlib.import_module("asyncsim.conformance.adapters")
    if name not in _LATER:
        raise AttributeError(f"asyncsim.conformance has no {name!r}; see dir(asyncsim.conformance)")
    return getattr(importlib.import_module(f"asyncsim.conformance.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "adapters"})
