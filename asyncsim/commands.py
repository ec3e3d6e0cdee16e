"""What the commands do: from specs and names to tables and files."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim import checks, files, plugins, records
from asyncsim.wording import SINGULAR

if TYPE_CHECKING:
    from rich.console import Console

    from asyncsim.spec import Spec
    from asyncsim.trace import Trace

WIDE = 150
"""Columns of a table that is not shown on a terminal."""


def names(kind: str) -> list[dict[str, str]]:
    """Name and summary of everything of a kind, read without importing it."""
    if kind != "claims":
        return [{"name": n, "summary": s} for n, s in plugins.summaries(f"asyncsim.{kind}").items()]
    from asyncsim import theory

    rows = []
    for name, path in theory.claims().items():
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        rows.append({"name": name, "summary": docstring.splitlines()[0]})
    return rows


def described(kind: str, name: str) -> dict[str, Any]:
    """Everything about one thing of a kind: signature, arguments with their defaults (None: required), docstring."""
    if kind == "claims":
        from asyncsim import theory

        claim = theory.claim(name)
        module = ast.parse(theory.claims()[claim.id].read_text(encoding="utf-8"))
        facts = {"statement": claim.statement, "kind": claim.kind, "status": claim.status, "reference": claim.reference}
        return {"name": claim.id, "signature": "", "arguments": [], "doc": ast.get_docstring(module) or "", **facts}
    return plugins.described(f"asyncsim.{kind}", name, SINGULAR[kind])


def facts(kind: str, name: str) -> dict[str, Any]:
    """What a table of methods, advantages, factors, penalties, links or metrics needs to know of one of them.

    Defaults of its arguments (None: required or left to the part) and the reference; of a method also level, anchor,
    aggregator, what it is when all policies agree, and whether it is a reconstruction.
    """
    if kind not in ("methods", "advantages", "factors", "penalties", "updates", "diagnostics"):
        return {}
    part = plugins.described(f"asyncsim.{kind}", name, SINGULAR[kind])
    source = re.search(r"Source:\s+(.*?)\.?\s*(?:\n\n|$)", part["doc"], re.DOTALL)
    found: dict[str, Any] = {
        "arguments": {a["name"]: a["default"] for a in part["arguments"]},
        "reference": " ".join(source[1].split()) if source else None,
    }
    if kind == "diagnostics":
        metric = plugins.load("asyncsim.diagnostics", name, "diagnostics")()
        return found | {"reads": list(metric.outputs), "default": bool(getattr(metric, "default", False))}
    if kind == "methods":
        method = plugins.load("asyncsim.methods", name, "method")()
        found |= {
            "level": method.weight.level,
            "anchor": method.ratio_to,
            "aggregator": method.aggregator,
            "weight": method.weight.describe(),
            "advantage": method.advantage.describe(),
            "on_policy": method.on_policy,
            "status": method.status,
        }
    return found


def outputs(plot: Path | None = None, **paths: Path | None) -> None:
    """Refuse, before any work, files that cannot be written: the picture's ending first."""
    if plot is not None:
        from asyncsim.plotting import _style

        _style.kind_of(plot)
    for name, path in {"plot": plot, **paths}.items():
        if path is not None:
            files.writable(f"--{name}", path)


def run(spec: Spec, seed: int, plot: Path | None, save: Path | None) -> dict[str, Any]:
    """Run, print the header and where the metrics ended, draw and save."""
    from asyncsim import running, uncertainty

    header = spec.describe()
    _print_header(header)
    trace = running.run(spec, seed)
    final: dict[str, dict[str, float | None]] = {}
    print(f"\nlast tenth of {spec.updates} updates, mean and 95 percent interval over {spec.replicates} replicates:")
    for name in trace.metrics:
        final[name] = {"value": None, "low": None, "high": None}
        try:
            found = trace.final(name)
        except checks.InputError:
            continue  # nothing finite at the end
        half = uncertainty.critical(0.05, found.freedom) * found.error if np.isfinite(found.error) else np.inf
        final[name] = {"value": found.value, "low": found.value - half, "high": found.value + half}
        print(f"  {name:24} {found.value:12.5g}  [{found.value - half:.5g}, {found.value + half:.5g}]")
    if not _apart(trace):
        print("  (intervals are too narrow: replicates share one random schedule; raise realizations or replicates)")
    diverged = int((trace.diverged >= 0).sum())
    print(f"  {'diverged replicates':24} {diverged:12d}")
    if save is not None:
        trace.save(save)
    if plot is not None:
        _draw(trace, plot)
    return {
        "final": final,
        "accumulated": trace.accumulated,
        "diverged": diverged,
        "staleness": trace.staleness().tolist(),
        **trace.header,
    }


def _apart(trace: Trace) -> bool:
    """Whether error bars can be trusted: schedules are not random, or there are several."""
    return not trace.schedule.random or len(np.unique(trace.realization)) > 1


def verify(
    claims: Sequence[str], size: str, defects: bool, seed: int, at: dict[str, Any] | None, report: Path
) -> tuple[dict[str, Any], int]:
    """Verify, print the table, write the report; the exit status says whether all held and all defects were caught."""
    from rich.progress import Progress

    from asyncsim import reporting, theory, verifying

    asked = [theory.claim(name).id for name in claims] or verifying.every_claim()
    console = _console()
    with Progress(console=_console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task("claims", total=len(asked))
        verdicts = verifying.verify_many(asked, size, defects, seed, at, lambda verdict: progress.advance(bar))
    console.print(_table(verdicts, defects))
    held = sum(v.verdict == "held" for v in verdicts)
    caught = [d["verdict"] for v in verdicts for d in v.defects]
    rates = f"false fail <= {verifying.FALSE_FAIL:g} each, false pass <= {verifying.FALSE_PASS:g}"
    line = f"{held} of {len(verdicts)} claims held ({rates})"
    if defects:
        line += f"; {caught.count('violated')} of {len(caught)} planted defects turned their claim to violated"
    console.print(line)
    manifest = verifying.manifest_of(seed, size)
    reporting.write_report(
        verdicts, manifest, report, references={v.id: theory.claim(v.id).reference for v in verdicts}
    )
    console.print(f"report: {report}")
    status = 0 if held == len(verdicts) and all(c == "violated" for c in caught) else 1
    return {"claims": [v.row() for v in verdicts], "manifest": manifest}, status


def timeline(
    preset: str, knobs: dict[str, Any], model: dict[str, Any], updates: int, samples: int, seed: int,
    paths: dict[str, Path | None],
) -> dict[str, Any]:
    """Simulate a preset, print its realized staleness beside the predicted law, and what it costs."""
    from asyncsim import timelines

    system = timelines.system_of(preset, knobs, model)

    def announce(header: dict[str, Any]) -> None:
        _print_header(header)
        print()

    return timelines.timeline(system, updates, samples, seed, paths, announce)


def _table(verdicts: Sequence[records.Verdict], defects: bool) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name, justify in (
        ("claim", "left"),
        ("quantity", "left"),
        ("prediction", "right"),
        ("measured [interval]", "left"),
        ("verdict", "left"),
        ("seconds", "right"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    if defects:
        table.add_column("planted defects")
    for v in verdicts:
        color = {"held": "green", "violated": "red"}.get(v.verdict, "yellow")
        row = [
            v.id,
            v.quantity,
            f"{v.predicted:.6g}",
            f"{v.measured:.6g} [{v.low:.6g}, {v.high:.6g}]",
            f"[{color}]{v.verdict}[/]",
            f"{v.seconds:.1f}",
        ]
        if defects:
            row.append("; ".join(f"{d['name']}: {d['verdict']}" for d in v.defects))
        table.add_row(*(cell.replace("[", r"\[") if i in (1, 3) else cell for i, cell in enumerate(row)))
    return table


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else WIDE)


def _draw(value: Any, path: Path) -> None:
    from asyncsim.plotting import plot

    plot(value, path)
    print(f"plot: {path}")


def _print_header(header: dict[str, Any]) -> None:
    """Everything that the result depends on, nested parts on lines of their own."""
    flat = {k: v for k, v in header.items() if not isinstance(v, dict) and v not in (None, [])}
    print("  ".join(f"{k}={json.dumps(records.plain(v))}" for k, v in flat.items()))
    for name, part in header.items():
        if isinstance(part, dict) and part:
            print(
                f"{name}: " + "  ".join(f"{k}={json.dumps(records.plain(v))}" for k, v in part.items() if v is not None)
            )
