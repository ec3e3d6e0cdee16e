"""What `asyncsim conformance` does: find somebody's loss or admission controller, check it, print what was found."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asyncsim.app import wording
from asyncsim.base import checks, outside

if TYPE_CHECKING:
    from asyncsim.conformance import LossReport, Report

_PARTS = ("adapter", "controller", "names")


@dataclass(frozen=True)
class Asked:
    """How a loss is to be checked; `hazards`, whether the print has them."""

    like: str | None = None
    adapter: str | None = None
    advantages_per: str | None = None
    strict: bool = False
    allow: Sequence[str] = ()
    seed: int = 0
    hazards: bool = True


def check(
    target: str, asked: Asked, pairs: list[str] | None, names: list[str] | None = None
) -> tuple[dict[str, Any], int]:
    """Check what the target names; the record of the finding, and the exit status: 0 conforms, 1 deviates."""
    own, parts = _settings(pairs or [])
    parts["names"] |= _names(names or [])
    found = None if target in _installed() else outside.loaded(target)
    if found is not None and _is_controller(found, asked):
        given = {
            "--like": asked.like,
            "--adapter": asked.adapter,
            "--strict": asked.strict or None,
            "--allow": asked.allow or None,
            "--advantages-per": asked.advantages_per,
        }
        for option, value in given.items():
            checks.require(value is None, option, value, "left out for an admission controller", "it is for losses")
        return _admission(found, own, parts)
    return _loss(target, found, asked, own, parts)


def _settings(pairs: list[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Settings of the thing itself, and those of its parts, PART.KEY=VALUE."""
    own: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {name: {} for name in _PARTS}
    for key, value in wording.settings(pairs).items():
        part, dot, name = key.partition(".")
        if dot:
            checks.one_of("--set part", part, _PARTS, "write KEY=VALUE, or adapter.KEY=VALUE")
            parts[part][name] = value
        else:
            own[key] = value
    return own, parts


def _names(pairs: list[str]) -> dict[str, Any]:
    """Names of a controller's methods, CALL=METHOD; those of "none" are left out."""
    found: dict[str, Any] = {}
    for pair in pairs:
        call, equals, method = pair.partition("=")
        checks.require(bool(equals and call and method), "--names", pair, "CALL=METHOD", "write capacity=get_capacity")
        found[call] = None if method in ("none", "None") else method
    return found


def _installed() -> tuple[str, ...]:
    return "trl", "torchrl"


def _is_controller(found: Any, asked: Asked) -> bool:
    """Whether this is a controller: a class that is no module of torch, or a function that makes one."""
    if inspect.isclass(found):
        return not hasattr(found, "forward") and asked.adapter is None
    # A loss takes tensors; what takes nothing makes a controller.
    return inspect.isfunction(found) and not inspect.signature(found).parameters


def _loss(
    target: str, found: Any, asked: Asked, own: dict[str, Any], parts: Mapping[str, dict[str, Any]]
) -> tuple[dict[str, Any], int]:
    from asyncsim.conformance import adapters, check_loss

    for part, option in (("controller", "--set"), ("names", "--names")):
        checks.require(not parts[part], option, parts[part], "left out for a loss", "it is no controller")
    like, adapter = asked.like, asked.adapter
    remedy = "name the method; settings of an adapter are adapter.KEY=VALUE"
    checks.require(like is not None or not own, "--set", ", ".join(own), "used with --like", remedy)
    if found is None:
        checks.require(adapter is None, "--adapter", adapter, "left out for an installed package", "it has its own")
    method = None if like is None else wording.build("methods", like, own)
    name = target if found is None else adapter
    if name is None:
        checks.require(not parts["adapter"], "--set adapter", parts["adapter"], "used with --adapter", "name one")
        fn = found
    else:
        known = adapters.INSTALLED if found is None else adapters.ADAPTERS
        checks.one_of("--adapter", name, known, "choose the style of the function")
        fn = _adapted(known[name], name, found, parts["adapter"])
    anchor = "either" if method is not None and "anchor" not in own else None
    report = check_loss(
        fn,
        method,
        anchor=anchor,
        advantages_per=asked.advantages_per,
        strict=asked.strict,
        allow=tuple(asked.allow),
        seed=asked.seed,
    )
    _print(report, asked.hazards)
    return report.record(), 0 if report.conforms else 1


def _adapted(make: Callable[..., Any], name: str, found: Any, settings: dict[str, Any]) -> Any:
    from asyncsim.conformance.adapters import own_settings

    if inspect.isclass(found):
        found = _instance(found)
    try:
        return make(**settings) if found is None else make(found, **settings)
    except TypeError as error:
        remedy = f"settings of {name} are {', '.join(own_settings(name))}"
        raise checks.InputError("--adapter", name, f"called with its settings ({error})", remedy) from error


def _instance(kind: type) -> Any:
    try:
        return kind()
    except TypeError as error:
        remedy = f"name an instance: file.py:loss, with loss = {kind.__name__}(...) in file.py"
        raise checks.InputError("target", kind.__name__, f"made without arguments ({error})", remedy) from error


def _admission(found: Any, own: dict[str, Any], parts: Mapping[str, dict[str, Any]]) -> tuple[dict[str, Any], int]:
    from asyncsim.conformance import check_admission

    every = inspect.signature(check_admission).parameters
    known = [name for name in every if name not in ("controller", "check", "names")]
    for key in own:
        checks.one_of("--set", key, known, "see asyncsim.conformance.check_admission")
    own = {key: wording.understood(value, every[key].default) for key, value in own.items()}
    for key in ("batch_size", "max_staleness"):
        checks.require(key in own, "target", found.__name__, f"given {key}", f"add --set {key}=VALUE")
    try:
        found(**parts["controller"])
    except TypeError as error:
        remedy = "add --set controller.KEY=VALUE"
        raise checks.InputError("target", found.__name__, f"made with its settings ({error})", remedy) from error
    report = check_admission(lambda: found(**parts["controller"]), names=parts["names"] or None, **own)
    print(report)
    return _admission_record(report), 0 if report.passed else 1


def _admission_record(report: Report) -> dict[str, Any]:
    failure = report.failure
    return {
        "passed": report.passed,
        "examples": report.examples,
        "settings": dict(report.settings),
        "unchecked": list(report.unchecked),
        "failure": None
        if failure is None
        else {
            "rule": failure.rule,
            "message": failure.message,
            "events": list(failure.events),
            "likely": list(failure.likely),
        },
        "without_losses": list(report.without_losses),
    }


def _print(report: LossReport, hazards: bool) -> None:
    """The verdict, a table of findings, then what was measured; without `hazards` their number stands for them."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    stream = sys.stdout
    console = Console(file=stream, width=None if stream.isatty() else 150)
    for line in report.heading():
        console.print(Text(line))
    shown = [finding for finding in report.findings if hazards or finding.kind != "hazard"]
    folded = len(report.findings) - len(shown)
    if folded:
        console.print(Text(f"{folded} hazard{'s' if folded > 1 else ''} not printed: add --hazards to see them"))
    if shown:
        table = Table(box=None, pad_edge=False)
        for column in ("finding", "kind", "evidence", "remedy"):
            table.add_column(column)
        colors = {"bug": "red", "hazard": "yellow", "note": ""}
        for finding in shown:
            cells = (finding.name, finding.kind, finding.evidence, finding.remedy)
            table.add_row(*(Text(cell, style=colors[finding.kind] if i < 2 else "") for i, cell in enumerate(cells)))
        console.print(table)
    for line in report.ending():
        console.print(Text(line))
