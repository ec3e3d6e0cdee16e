"""Tools for a trainer's own tests: checks of its loss and its staleness manager, and strategies that draw input.

Two fixtures come with the package, in every pytest run where it is installed (`plugin`): `asyncsim_loss(fn, like)` and
`asyncsim_controller(factory, ...)` fail the test with what `conformance.check_loss` and `check_admission` find.

Strategies for hypothesis are drawn in tests of one's own:

- `batches()`, tensors as a loss takes them; `losses()`, methods of this package as such losses.
- `controllers()`, admission controllers with settings.
- `schedules()`, which version generates which token; `sources()`, what makes them.
- `logs()`, rows of a trainer's log, right or planted wrong.
"""

import importlib
from typing import Any

_MODULES = {
    **dict.fromkeys(("Admission", "LogRows", "controllers", "logs", "schedules", "sources"), "events"),
    **dict.fromkeys(("Batch", "DrawnLoss", "batches", "losses"), "tensors"),
}
"""Where each name is defined. Nothing is imported before it is used: the plugin beside loads in every pytest run."""

__all__ = ["Admission", "Batch", "DrawnLoss", "LogRows", "batches", "controllers", "logs", "losses", "schedules"]
__all__ += ["sources"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"asyncsim.testing has no {name!r}; it has {', '.join(__all__)}")
    try:
        module = importlib.import_module(f"asyncsim.testing.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        from asyncsim.base import checks

        remedy = f"{checks.extra('conformance', 'hypothesis')}: it draws what strategies describe"
        raise checks.InputError("hypothesis", None, "installed", remedy) from error
    from asyncsim.base import calls

    return calls.answering(getattr(module, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
