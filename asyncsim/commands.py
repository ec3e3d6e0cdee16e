"""What the commands do: from words on a command line to specs, tables and files."""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim import checks, plugins, records

if TYPE_CHECKING:
    from rich.console import Console

    from asyncsim.spec import Spec
    from asyncsim.trace import Trace

SINGULAR = {
    "tasks": "task",
    "policies": "policy",
    "systems": "system",
    "schedules": "schedule",
    "methods": "method",
    "advantages": "advantage",
    "updates": "link",
    "diagnostics": "diagnostics",
    "claims": "claim",
}
"""What messages call one thing of a kind: its option, where there is one."""
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


def settings(pairs: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """KEY=VALUE pairs; values are Python or JSON literals where they can be, else text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        checks.require(bool(key and equals), option, pair, "of the form KEY=VALUE", "write for example load=1.5")
        key = key.strip().replace("-", "_")
        checks.require(key not in found, option, pair, f"the only value of {key}", "give each key once")
        found[key] = _value(text.strip())
    return found


def _value(text: str) -> Any:
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return text


def build(kind: str, name: str, arguments: dict[str, Any], prefix: str = "") -> Any:
    """A part made by its public function, with unknown or missing arguments refused by name.

    `prefix` is what stands before an argument's name behind --set.
    """
    make = plugins.load(f"asyncsim.{kind}", name, SINGULAR[kind])
    signature = inspect.signature(make)
    for key in arguments:
        remedy = f"see `asyncsim list {kind} {name}`"
        if not signature.parameters:
            raise checks.InputError(f"{name} argument", key, "left out", f"{name} takes no arguments")
        checks.one_of(f"{name} argument", key, signature.parameters, remedy)
    missing = [
        p.name
        for p in signature.parameters.values()
        if p.default is p.empty and p.name not in arguments and p.kind is not p.VAR_POSITIONAL
    ]
    checks.require(
        not missing,
        f"{name} argument",
        ", ".join(missing),
        "given",
        "add " + " ".join(f"--set {prefix}{m}=VALUE" for m in missing),
    )
    return make(**arguments)


def spec(
    parts: dict[str, str | None],
    links: Sequence[str],
    staleness: int | None,
    coupled: bool,
    pairs: Sequence[str],
    sizes: dict[str, Any],
) -> Spec:
    """A spec from the words of `asyncsim run`."""
    from asyncsim.spec import Spec
    from asyncsim.updates._link import chain

    links = [name.replace("-", "_") for name in links]
    given = _by_part(parts, links, pairs)
    method = given.get("method", {})
    if parts["advantage"]:
        twice = "advantage" in method
        checks.require(not twice, "--set", "method.advantage", "left out beside --advantage", "name the advantage once")
        method["advantage"] = build("advantages", parts["advantage"], given.get("advantage", {}), "advantage.")
    update = [
        build("updates", name, {**({"lr": 0.1} if name == "sgd" else {}), **given.get(name, {})}, f"{name}.")
        for name in links
    ]
    return Spec(
        task=build("tasks", str(parts["task"]), given.get("task", {}), "task."),
        policy=build("policies", parts["policy"], given.get("policy", {}), "policy.") if parts["policy"] else None,
        system=_source(parts, staleness, coupled, given),
        method=build("methods", str(parts["method"]), method, "method."),
        update=chain(*update),
        **sizes,
    )


def _by_part(parts: dict[str, str | None], links: Sequence[str], pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Settings PART.KEY=VALUE by part; those of a part that this run does not have are refused."""
    optional = [name for name in ("policy", "advantage", "system") if parts[name]] + (
        [] if parts["system"] else ["schedule"]
    )
    used = ["task", "method", *optional, *links]
    given: dict[str, dict[str, Any]] = {}
    for key, value in settings(pairs).items():
        part, dot, argument = key.partition(".")
        checks.require(bool(dot), "--set", key, "of the form PART.KEY=VALUE", "write for example task.arms=5")
        unused = part in parts or part in plugins.summaries("asyncsim.updates")
        option = part if part in parts else f"link {part}"
        remedy = f"add --{option}{' NAME' if part in parts else ''}" if unused else "name a part of the run"
        checks.one_of("--set part", part, used, remedy)
        given.setdefault(part, {})[argument] = value
    return given


def _source(
    parts: dict[str, str | None], staleness: int | None, coupled: bool, given: dict[str, dict[str, Any]]
) -> Any:
    """The system or schedule of a run, from exactly one of its options."""
    chosen = [name for name in ("system", "schedule") if parts[name]] + (["staleness"] if staleness is not None else [])
    checks.require(
        len(chosen) <= 1,
        "--" + " and --".join(chosen),
        "given together",
        "one of them",
        "choose one source of staleness",
    )
    schedule = given.get("schedule", {})
    if parts["system"]:
        system = build("systems", parts["system"], given.get("system", {}), "system.")
        return build("schedules", "coupled", {"system": system}) if coupled else system
    checks.require(not coupled, "--coupled", True, "used with --system", "name the system whose lengths it couples")
    if parts["schedule"]:
        wrapped = parts["schedule"] == "coupled"
        checks.require(not wrapped, "--schedule", "coupled", "a schedule of its own", "write --system NAME --coupled")
        return build("schedules", parts["schedule"], schedule, "schedule.")
    twice = staleness is not None and "staleness" in schedule
    checks.require(not twice, "--set", "schedule.staleness", "left out beside --staleness", "give the staleness once")
    return build("schedules", "fixed", {"staleness": staleness or 0, **schedule}, "schedule.")


def outputs(plot: Path | None = None, **paths: Path | None) -> None:
    """Refuse, before any work, files that cannot be written: the picture's ending first."""
    if plot is not None:
        from asyncsim.plotting import _style

        _style.kind_of(plot)
    for name, path in {"plot": plot, **paths}.items():
        if path is not None:
            records.writable(f"--{name}", path)


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
    preset: str, knobs: dict[str, Any], updates: int, samples: int, seed: int, plot: Path | None, save: Path | None
) -> dict[str, Any]:
    """Simulate a preset, print its realized staleness and use of resources, draw and save."""
    system = build("systems", preset, knobs)
    checks.integer("updates", updates, 1, "train one batch at least")
    whole = f"a multiple of updates_per_batch = {system.updates_per_batch}"
    checks.require(updates % system.updates_per_batch == 0, "updates", updates, whole, "whole batches are trained")
    record = system.timeline(updates // system.updates_per_batch, samples, seed=seed)
    groups, resources = record.groups, record.resources
    trained = groups["batch"] >= 0
    staleness = groups["v_train"][trained] - groups["v_start"][trained]
    # Start-up is left out: the groups admitted on version 0 age one batch after the other.
    window = (system.tickets or len(system.rates)) / (system.groups_per_batch * system.batches_per_publish)
    steady = staleness[groups["batch"][trained] >= 2 * np.ceil(window) * system.batches_per_publish]
    steady = steady if len(steady) else staleness
    total = resources["busy"] + resources["idle"] + resources["syncing"]
    used = np.divide(resources["busy"], total, out=np.zeros_like(total), where=total > 0)
    result = {
        "system": record.header,
        "staleness": {
            "mean": float(steady.mean()),
            "std": float(steady.std()),
            "max": int(steady.max()),
            "pmf": (np.bincount(steady) / len(steady)).tolist(),
        },
        "throughput": float(trained.sum() / record.header["seconds"]),
        "trainer_utilization": float(used[-1]),
        "generator_utilization": float(used[:-1].mean()),
        "seconds": float(record.header["seconds"]),
    }
    _print_header(record.header)
    law = ", ".join(f"{k}: {p:.3f}" for k, p in enumerate(result["staleness"]["pmf"]) if p >= 0.0005)
    print(f"\nstaleness (versions): mean {steady.mean():.3f}, std {steady.std():.3f}, max {steady.max()}\n  {law}")
    busy = f"trainer busy {used[-1]:.1%}, generators busy {used[:-1].mean():.1%}"
    print(f"throughput {result['throughput']:.4g} groups a second; {busy}")
    if save is not None:
        record.save(save)
    if plot is not None:
        _draw(record, plot)
    return result


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
