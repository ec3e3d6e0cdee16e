"""The pytest plugin: fixtures that hold a loss, an advantage, a metric and an admission controller to asyncsim.

It loads in every pytest run of whoever installed asyncsim, so it imports pytest alone until a fixture is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from asyncsim.conformance import AdvantageReport, LossReport, MetricReport, Report


@pytest.fixture(scope="session")
def asyncsim_loss() -> Callable[..., LossReport]:
    """Call with a loss: the test fails where it has a bug, or is not the method that it is meant to be.

    `asyncsim_loss(fn, like, **settings)` takes what `conformance.check_loss` takes, `[B, T]` tensors; with
    `strict=True` hazards count too, and `allow` names bugs that do not. Moments are left out unless `bias=True`.
    Returns the report. The test fails with one line for each finding, and with one line for an argument that is wrong.
    """
    return _checked_loss


@pytest.fixture(scope="session")
def asyncsim_controller() -> Callable[..., Report]:
    """Call with a maker of admission controllers: the test fails where one breaks a rule that bounds staleness.

    `asyncsim_controller(lambda: Yours(...), batch_size=P, max_staleness=eta, ...)` takes what
    `conformance.check_admission` takes; P in groups, eta in publishes. Returns the report. The test fails with the
    rule, the shortest run that breaks it, and the mistake by name; with one line for an argument that is wrong.
    """
    return _checked_controller


@pytest.fixture(scope="session")
def asyncsim_advantage() -> Callable[..., AdvantageReport]:
    """Call with a function of rewards: the test fails where its advantages have a bug, or are not what they should be.

    `asyncsim_advantage(fn, like, **settings)` takes what `conformance.check_advantage` takes, arrays `[B, T]`. Returns
    the report, which is what the test fails with.
    """
    return partial(_checked_number, "check_advantage")


@pytest.fixture(scope="session")
def asyncsim_metric() -> Callable[..., MetricReport]:
    """Call with a metric: the test fails where its number has a bug, or is not what it should be.

    `asyncsim_metric(fn, like, **settings)` takes what `conformance.check_metric` takes, tokens `[B, T]`. Returns the
    report, which is what the test fails with.
    """
    return partial(_checked_number, "check_metric")


def _checked_number(check: str, fn: Callable[..., Any], like: str | None = None, **settings: Any) -> Any:
    __tracebackhide__ = True
    from asyncsim import conformance

    report = _asked(getattr(conformance, check), fn, like, **settings)
    if not report.conforms:
        pytest.fail(str(report), pytrace=False)
    return report


def _checked_loss(fn: Callable[..., Any], like: Any = None, *, bias: bool = False, **settings: Any) -> LossReport:
    __tracebackhide__ = True
    from asyncsim.conformance import check_loss

    report: LossReport = _asked(check_loss, fn, like, bias=bias, **settings)
    if not report.conforms:
        kinds = ("bug", "hazard") if settings.get("strict") else ("bug",)
        counted = [f for f in report.findings if f.kind in kinds and f.name not in settings.get("allow", ())]
        pytest.fail("\n".join([*report.heading(), *map(str, counted)]), pytrace=False)
    return report


def _checked_controller(factory: Callable[[], Any], *arguments: Any, **settings: Any) -> Report:
    __tracebackhide__ = True
    from asyncsim.conformance import check_admission

    report: Report = _asked(check_admission, factory, *arguments, **settings)
    if not report.passed:
        pytest.fail(str(report), pytrace=False)
    return report


def _asked(check: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """The report; a wrong argument fails the test in its one line."""
    __tracebackhide__ = True
    from asyncsim.base.checks import InputError

    try:
        return check(*arguments, **settings)
    except InputError as error:
        line = str(error)
    pytest.fail(line, pytrace=False)
