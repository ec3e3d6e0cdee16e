"""The pytest plugin: fixtures that check a loss, an advantage, a metric and an admission controller.

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
    """Fixture to call with a loss; the test fails if it has a bug or differs from the intended method.

    `asyncsim_loss(fn, like, **settings)` takes what `conformance.check_loss` takes, `[B, T]` tensors; with
    `strict=True` hazards count too, and `allow` names bugs that do not. Moments are left out unless `bias=True`.
    Returns the report. The test fails with one line for each finding, and with one line for an argument that is wrong.
    """
    return partial(_checked, "check_loss", bias=False)


@pytest.fixture(scope="session")
def asyncsim_controller() -> Callable[..., Report]:
    """Fixture to call with a maker of admission controllers; the test fails if a staleness rule is broken.

    `asyncsim_controller(lambda: Yours(...), batch_size=P, max_staleness=eta, ...)` takes what
    `conformance.check_admission` takes; P in groups, eta in publishes. Returns the report. The test fails with the
    rule, the shortest run that breaks it, and the mistake by name; with one line for an argument that is wrong.
    """
    return partial(_checked, "check_admission")


@pytest.fixture(scope="session")
def asyncsim_advantage() -> Callable[..., AdvantageReport]:
    """Fixture to call with an advantage function; the test fails if it has a bug or is not the intended one.

    `asyncsim_advantage(fn, like, **settings)` takes what `conformance.check_advantage` takes, arrays `[B, T]`. Returns
    the report, which is what the test fails with.
    """
    return partial(_checked, "check_advantage")


@pytest.fixture(scope="session")
def asyncsim_metric() -> Callable[..., MetricReport]:
    """Fixture to call with a metric; the test fails if it has a bug or is not the intended one.

    `asyncsim_metric(fn, like, **settings)` takes what `conformance.check_metric` takes, tokens `[B, T]`. Returns the
    report, which is what the test fails with.
    """
    return partial(_checked, "check_metric")


def _checked(check: str, *arguments: Any, **settings: Any) -> Any:
    """Return the report of a check; the test fails with its findings, or with one line for a wrong argument."""
    __tracebackhide__ = True
    from asyncsim import conformance
    from asyncsim.base.checks import InputError

    try:
        report = getattr(conformance, check)(*arguments, **settings)
        failure = "" if report.passed else str(report)
        if failure and isinstance(report, conformance.LossReport):
            allow, strict = settings.get("allow", ()), settings.get("strict", False)
            allow = [allow] if isinstance(allow, str) else allow
            counted = [str(finding) for finding in report.findings if finding.counts(allow, strict)]
            failure = "\n".join([*report.heading(), *counted])
    except InputError as error:
        failure = str(error)
    if failure:
        pytest.fail(failure, pytrace=False)
    return report
