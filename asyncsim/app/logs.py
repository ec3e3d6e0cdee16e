"""Trainer logs on the command line: what each trainer writes, code to add missing columns, and reports."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncsim.app import wording
from asyncsim.base import checks

if TYPE_CHECKING:
    from asyncsim.diagnosing import Finding

NEEDED = "import json\nfrom typing import Any\n\n"
"""Imports that a pasted log writer needs."""


def names() -> list[dict[str, str]]:
    """Name and summary of every trainer whose logs can be read."""
    from asyncsim.schedules._log_stacks import STACKS

    state = {True: "read as written", False: "needs a writer function"}
    return [{"name": name, "summary": f"{state[stack.whole]}: {stack.disk}."} for name, stack in STACKS.items()]


def writers() -> dict[str, str]:
    """Functions that write missing stamps, to paste into trainers, by the trainer's name."""
    _, *texts = checks.resource(__file__, "log_writers.txt").split("\n\n\n")
    return {text.removeprefix("def ").partition("(")[0]: f"{text.strip()}\n" for text in texts}


def described(name: str) -> dict[str, Any]:
    """Describe the logs of one trainer: columns, units, offsets, traps, source, and the log writer if it needs one."""
    from asyncsim.schedules import _log_stacks

    name = name.lower().replace("-", "_")
    checks.one_of("log", name, _log_stacks.STACKS, "see `asyncsim list logs`")
    stack = _log_stacks.STACKS[name]
    writer = writers().get(name)
    width = max(map(len, stack.columns))
    lines = [
        f"On disk: {stack.disk}.",
        f"Versions count {stack.unit}; start_version is stamped at the {stack.start_is}; added to trained versions "
        f"{stack.train_offset:+d}, to generating ones {stack.stamp_offset:+d}.",
        *(f"Files below a folder: {stack.layout.files}" for _ in range(bool(stack.layout.files))),
        "",
        "Columns, ours and theirs (the first that the file has; path:x_# is the number in the file's path):",
        *(f"  {ours:{width}}  {' or '.join(theirs)}" for ours, theirs in stack.columns.items()),
        *(f"  not {theirs} for {ours}: {reason}" for (ours, theirs), reason in stack.traps.items()),
        "",
        f"Source: {stack.source}; read in November 2026.",
    ]
    paste = "What it writes lacks a stamp. Paste this where its first line says:"
    lines += ["", paste, "", f"{NEEDED}{writer}"] if writer else []
    facts = {"columns": {ours: list(theirs) for ours, theirs in stack.columns.items()}, "unit": stack.unit}
    offsets = {"train_offset": stack.train_offset, "stamp_offset": stack.stamp_offset, "start_is": stack.start_is}
    about = {"whole": stack.whole, "disk": stack.disk, "reference": stack.source, "writer": writer}
    page = {"name": name, "signature": "", "arguments": [], "doc": "\n".join(lines).rstrip()}
    return page | facts | offsets | about


def settings(pairs: list[str]) -> dict[str, Any]:
    """Parse the arguments of `replay` from KEY=VALUE pairs; raises `InputError` for an unknown key."""
    counts = ("batches_per_publish", "updates_per_batch", "samples_per_publish")
    known = ("unit", *counts, "train_offset", "stamp_offset", "start_is", "first_version")
    found = wording.settings(pairs)
    checks.each_of("--set", found, known, "see `asyncsim log --help`")
    return found


def shown(
    path: Path, settings: dict[str, Any], plot: Path | None, staleness: str | None = None
) -> tuple[dict[str, Any], str]:
    """Report of a log as JSON values and as text; unknown versions stay unknown. Draws a figure with `plot`.

    The report ends with the distribution of the staleness; `staleness` is the expected distribution.
    """
    from asyncsim import diagnosing, plotting, schedules

    try:
        replayed = schedules.replay(path, unknown="keep", **settings)
    except checks.InputError as error:
        raise (_referred(path, error) if "train_version" in error.field else error) from None
    if plot is not None:
        batches, _, samples = replayed.log.grid.shape
        plotting.plot(replayed.schedule(batches, samples, 1, 1, 0), plot)
    law = diagnosing.log_law(replayed.log, staleness)
    text = _law(law, "expected" if staleness else "predicted")
    return replayed.log.report() | {"law": law.row()}, f"{replayed.log.text()}\n{text}"


def _referred(path: Path, error: checks.InputError) -> checks.InputError:
    """An error that refers to `diagnose` if it can read the rows as steps or tokens, else the original error."""
    from asyncsim.diagnosing import diagnose

    with suppress(checks.InputError):
        found = diagnose(path)
        if set(found.columns) - {"reward"}:
            remedy = f"use `asyncsim diagnose {path}`, which reads averages and tokens of {found.steps} steps"
            return checks.InputError("path", str(path), "a log with a row a sample, which has versions", remedy)
    return error


def _law(finding: "Finding", word: str) -> str:
    """Format the distribution of the staleness in three lines."""
    from asyncsim.diagnosing.findings import HARMLESS

    cause = f" ({finding.cause})" if finding.cause else ""
    lines = [f"{finding.question}: {finding.verdict}{cause}", f"  {finding.sentence} [{finding.claim}]"]
    if finding.measured is not None:
        fit = "" if finding.p is None else f"; p {finding.p:.2g}"
        against = "" if finding.predicted is None else f"; {word} {finding.predicted[0]:.4g}"
        reach = f"95 % interval {finding.low:.4g} to {finding.high:.4g}"
        lines.append(f"  mean {finding.measured:.4g} {finding.unit}; {reach}{against}{fit}")
    return "\n".join([*lines, *([f"  {finding.action}"] if finding.action != HARMLESS else [])])


def recorded(path: Path, column: str, settings: list[str], beside: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Report of a column of delays as JSON values and as text; raises `InputError` for options that need a log."""
    from asyncsim import schedules

    for option, value in beside.items():
        checks.require(value is None, f"--{option}", str(value), "left out beside --delays", "it is for a whole log")
    found = wording.settings(settings)
    checks.each_of("--set", found, ("unit",), "see `asyncsim list schedules delays`")
    report = schedules.delays(f"{path}:{column}", **found).report()
    return report.row(), str(report)
