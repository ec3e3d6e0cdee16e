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
import sys
from typing import Any

from asyncsim.base import calls, plugins

sys.modules[__name__].__class__ = plugins.Public
_HOMES = {
    "admission": "check_admission",
    "advantages": "check_advantage",
    "controller": "Controller",
    "losses": "check_loss",
    "metrics": "check_metric",
    "reports": "AdvantageReport ConformanceError Failure Finding LossReport MetricReport Report",
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names.split()}
"""Names and the module that defines each; what is about losses, metrics and advantages needs torch."""
__all__ = sorted([*_NAMES, "adapters"])


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    module = importlib.import_module(f"asyncsim.conformance.{_NAMES.get(name, name)}")
    return calls.answering(getattr(module, name, module))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
