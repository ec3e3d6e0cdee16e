"""Commands of the command line: from specs and names to tables and files."""

from __future__ import annotations

import ast
import inspect
import json
import math
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.app import logs, streams
from asyncsim.app.options import KINDS, Options
from asyncsim.base import calls, checks, files, knobs, notation, outside, plugins, records, stopping

if TYPE_CHECKING:
    from asyncsim.base.trace import Trace
    from asyncsim.running.spec import Spec

WIDE = 150
"""Width in columns of a table that is not shown on a terminal."""
SIZES = ("samples_per_group", "updates", "replicates", "epochs", "minibatches")
TIMES = ("length", "rates", "train_time", "load")
"""Settings in the header of a run or a system by default, in addition to the knobs that were set."""
SETTINGS = 10
"""Maximum number of settings whose final values are printed."""
MANY = 20
"""Length above which a list on a terminal has a line for each name, below headings."""
FIRST = ["reinforce", "ppo_clip", "grpo", "truncated_is", "full_is", "a2c", "group_mean", "synchronous"]
"""Names at the head of a long list, with their families: what others are compared with."""
MADE = "Made from other parts"


def names(kind: str, of: str = "") -> list[dict[str, str]]:
    """Names and summaries of all items of a kind, or of one paper's statements, read without importing any item."""
    if kind in plugins.PARTS:
        package = f"asyncsim.{kind}"
        others = {name: f"of another package, {value}." for name, value in outside.registered(package).items()}
        return [{"name": n, "summary": s} for n, s in (others | plugins.listed(package)).items()]
    if kind == "logs":
        return logs.names()
    if kind == "fields":
        from asyncsim.sweeping.advising import FIELDS

        return [{"name": name, "summary": means} for name, (_, means) in FIELDS.items()]
    if kind in ("adapters", "like"):
        return [{"name": name, "summary": doc.splitlines()[0]} for name, (_, doc) in _conformance(kind).items()]
    if kind == "exports":
        return [{"name": name, "summary": fits} for name, (fits, _) in _exports().items()]
    from asyncsim import claims

    if kind == "papers":
        said = claims.papers_of(of) if of else claims.papers().values()
        from asyncsim.claims._registry import paper_row

        titles = {each.paper: paper_row(each.paper)[0] for each in said}
        return [{"name": x.id, "summary": f"{titles[x.paper]}: {x.text} ({x.status})"} for x in said]
    from asyncsim.claims._registry import summaries

    rows = [{"name": name, "summary": line} for name, line in summaries().items()]
    others = outside.registered("asyncsim.claims")
    return [*rows, *({"name": n, "summary": f"of another package, {value}."} for n, value in others.items())]


def family(kind: str, name: str) -> str:
    """Heading of a name in a long list: the first word of an id, or the topic of the file that defines a part."""
    kind = next(iter(plugins.kinds_of(name)), kind) if kind == "exports" else kind
    home = plugins.home_of(f"asyncsim.{kind}", name) if kind in plugins.PARTS else None
    if home is None:
        return re.split("[/_]", name)[0]
    if home.startswith("_"):
        return MADE
    text = (Path(__file__).parents[1] / kind / f"{home}.py").read_text(encoding="utf-8")
    return re.split("[:;.]", ast.get_docstring(ast.parse(text)) or "")[0]


def _exports() -> dict[str, tuple[str, str]]:
    """For each method or link, the trainers that it is exported for, and what prevents the others."""
    from asyncsim.exporting.exports import exportable

    told = {}
    for name, trainers in exportable().items():
        fits = ", ".join(trainer for trainer, why in trainers.items() if not why)
        why = re.search(r"\(this one (.*)\)", next(iter(trainers.values())))
        line = f"written for {fits}" if fits else f"for no trainer{f': the method {why[1]}' if why else ''}"
        line += ", instead of the step of an optimizer" * ("torch" in trainers)
        reasons = [f"* {trainer}: {f'must be {why}' if why else 'written'}" for trainer, why in trainers.items()]
        told[name] = line, "\n".join([f"{line}.", "", *reasons])
    return told


def _conformance(kind: str) -> dict[str, tuple[str, str]]:
    """Signatures and docstrings by name, of loss adapters or of the reference metrics for `--like`."""
    from asyncsim.conformance import adapters, metrics

    if kind == "like":
        own = plugins.summaries("asyncsim.diagnostics")
        told = dict[str, tuple[str, str]]()
        for name in metrics.METRICS:
            base = max((each for each in own if name.startswith(f"{each}_")), key=len, default="")
            variant = f"variant of {base or 'a number'}: `{name.removeprefix(base).strip('_')}`."
            told[name] = "", f"{own.get(name, variant)}\n\nasyncsim conformance my.py:f --metric --like {name}"
        return told
    made = {**adapters.ADAPTERS, **adapters.INSTALLED}
    return {name: (f"{name}{inspect.signature(make)}", inspect.getdoc(make) or "") for name, make in made.items()}


def kinds() -> list[dict[str, str]]:
    """Name and summary of each kind of item that `asyncsim list` shows, read without importing it."""
    summaries = {kind: checks.advice(kind, "list") for kind in KINDS if kind not in plugins.PARTS}
    for kind in plugins.PARTS:
        text = (Path(__file__).parents[1] / kind / "__init__.py").read_text(encoding="utf-8")
        summaries[kind] = (ast.get_docstring(ast.parse(text)) or "").splitlines()[0].partition(": ")[2]
    return [{"name": kind, "summary": summaries[kind]} for kind in KINDS]


def described(kind: str, name: str) -> dict[str, Any]:
    """Describe one item of a kind: signature, arguments with defaults (None: required), docstring."""
    if kind == "logs":
        return logs.described(name)
    if kind in ("adapters", "like", "exports"):
        made = {n: ("", doc) for n, (_, doc) in _exports().items()} if kind == "exports" else _conformance(kind)
        known = {key.replace("_", "-"): (key, *each) for key, each in made.items()}
        checks.one_of(kind, name.replace("_", "-"), known, f"see `asyncsim list {kind}`")
        own, signature, doc = known[name.replace("_", "-")]
        return {"name": own, "signature": signature, "arguments": [], "doc": doc}
    if kind == "papers":
        from asyncsim import claims
        from asyncsim.claims._registry import paged

        remedy = paged(name) or "give an arXiv id or a name of `asyncsim list papers`"
        checks.one_of("paper", name, claims.papers(), remedy)
        found = claims.papers()[name]
        facts = {"status": found.status, "claims": list(found.claims), "verdict": found.verdict, "when": found.when}
        return {"name": name, "signature": "", "arguments": [], "doc": found.doc, "number": found.number(), **facts}
    if kind == "claims":
        from asyncsim import claims

        claim = claims.claim(name)
        text = ast.get_docstring(ast.parse(claims.claims()[claim.id].read_text(encoding="utf-8"))) or ""
        facts = {"statement": claim.statement, "kind": claim.kind, "status": claim.status, "reference": claim.reference}
        point = claim.point.described()
        lines = [
            f"{p['name']}: {p['domain']}{', optional' if p['optional'] else ''}"
            f"{', in ' + p['unit'] if p['unit'] else ''}; {p['doc']}"
            for p in point
        ]
        source = [] if "Source: " in text else [f"Source: {claim.reference}."]
        doc = "\n".join([text, *source, "", *(["Parameters of a point:"] if lines else []), *lines])
        return {"name": claim.id, "signature": "", "arguments": point, "doc": doc.rstrip(), **facts}
    about = plugins.described(f"asyncsim.{kind}", name, plugins.PARTS[kind])
    if kind == "systems":
        read = getattr(plugins.load("asyncsim.systems", name, "system"), "source", None)
        about |= {"doc": f"{about['doc']}\n\n{read.line()}", "read": read._asdict()} if read else {}
    return about


def facts(kind: str, name: str) -> dict[str, Any]:
    """Properties of a method, advantage, factor, penalty, link, metric or a paper's statement, for a table."""
    if kind == "papers":
        about = described(kind, name)
        return {key: about[key] for key in ("status", "claims", "verdict", "when", "number")}
    if kind not in ("methods", "advantages", "factors", "penalties", "updates", "diagnostics"):
        return {}
    part = plugins.described(f"asyncsim.{kind}", name, plugins.PARTS[kind])
    source = re.search(r"Source:\s+(.*?)\.?\s*(?:\n\n|$)", part["doc"], re.DOTALL)
    entries: dict[str, Any] = {
        "arguments": {a["name"]: a["default"] for a in part["arguments"]},
        "reference": " ".join(source[1].split()) if source else None,
    }
    if kind == "diagnostics":
        from asyncsim.diagnostics._diagnostic import Metric

        metric = plugins.load("asyncsim.diagnostics", name, "diagnostics")()
        return entries | {"reads": list(metric.outputs), "default": isinstance(metric, Metric) and metric.default}
    if kind == "methods" and name in plugins.summaries("asyncsim.methods"):
        method = plugins.load("asyncsim.methods", name, "method")()
        entries |= {"level": method.weight.level, "anchor": method.ratio_to, "aggregator": method.aggregator}
        entries |= {"weight": method.weight.describe(), "advantage": method.advantage.describe()}
        entries |= {"on_policy": method.on_policy, "status": method.status}
    return entries


def outputs(plot: Path | None = None, **paths: Path | None) -> None:
    """Check before a command's work that its output files can be written; the figure's suffix is checked first."""
    if plot is not None:
        from asyncsim.plotting import _style

        _style.kind_of(plot)
    for name, path in ((name, path) for name, path in {"plot": plot, **paths}.items() if path is not None):
        page = name not in ("html", "report") or path.suffix.lower() in (".html", ".htm", ".md", "")
        checks.require(page, f"--{name}", str(path), "a path ending in .html or .md", "choose one of them")
        if name == "save":
            files.ends_in_npz("--save", path, "--json writes numbers as text")
        files.writable(f"--{name}", path)


def run(spec: Spec, o: Options) -> int:
    """Run a spec, print header and final metrics, write the requested files; return the exit status.

    Results of a run that a signal stops are written and printed as well.
    """
    from asyncsim.comparing import arms, readings
    from asyncsim.running import callbacks, checkpoint, running

    names = ("checkpoint", "checkpoint_every", "resume", "workers")
    arguments = {name: vars(o)[name] for name in names if vars(o)[name] is not None}
    arguments |= {"callback": [callbacks.named(text) for text in o.log]} if o.log else {}
    arguments |= {"other_code": True} if o.other_code else {}
    given = [word.partition("=")[0].rpartition(".")[2] for word in o.set or ()] + ["lr"] * bool(o.file or o.resume)
    print_header(spec.describe() | {"seed": o.seed}, o.verbose, spec.system, given)
    if o.dry_run:
        return 0
    if (lost := [each.name for each in spec.recorded[1]]) and not (o.files.paths["save"] or o.files.paths["json"]):
        read = f"sim.Trace.load('run.npz').{'texts()' if 'texts' in lost else 'accumulated'}"
        streams.complain(f"{', '.join(lost)} of this run will not be kept: add --save run.npz, in Python read {read}")
    if every := o.checkpoint_every:
        remedy = "add --checkpoint FILE, else nothing is written"
        checks.require(bool(o.checkpoint or o.resume), "--checkpoint-every", every, "beside --checkpoint", remedy)
        seconds, updates = checkpoint.interval(every)
        told = f"{seconds:g} seconds; for updates write '{seconds:g} updates'" if seconds else f"{updates} updates"
        streams.complain(f"a checkpoint is written every {told}")
    stopped: running.Interrupted | None = None
    start = time.perf_counter()
    try:
        with streams.announced():
            trace = running.run(spec, o.seed, **arguments)
    except running.Interrupted as interrupted:
        if interrupted.trace is None:
            raise
        stopped, trace = interrupted, interrupted.trace
    seconds = time.perf_counter() - start
    # A second signal must not lose what the first one left.
    with stopping.deferred() as received:
        o.files.write("save", trace.save)
        ends = _ends(trace)
        header = {key: value for key, value in trace.header.items() if key != "settings"}
        result = {
            # Of all replicates where they have one setting, else None beside `settings`.
            "final": ends.get(""),
            "settings": [
                {"setting": part.header.get("setting", {}), "replicates": part.replicates, "final": ends[name]}
                for name, part in trace.split().items()
            ],
            "accumulated": trace.accumulated,
            "diverged": int((trace.diverged >= 0).sum()),
            "why_diverged": trace.why_diverged(),
            "staleness": trace.staleness().tolist(),
        }
        o.files.json({**result, **header, "knobs": trace.header["settings"]})
        o.files.draw(trace)
    _print_ends(trace, ends, o.diagnostics if o.file is None and "default" in o.diagnostics.split(",") else "")
    if not np.isnan(stale := _last_tenth(trace)).all():
        high = float(np.nanpercentile(stale, 99, method="inverted_cdf"))
        say_fresh(spec.system, float(np.nanmean(stale)), high, trace.schedule.batches)
    if sys.stderr.isatty():
        streams.complain(f"{seconds:.1f} s")
    if not (o.file or o.resume):
        _say_flat(spec, trace)
        for line in arms.notes(readings.Reading(), {spec.method.name: spec}, o.seed, those="settings"):
            streams.complain(line, o.files.typed)
    o.files.say("plot: {}", "plot")
    o.files.say("trace: {}, one file for sim.Trace.load", "save")
    if stopped is not None:
        path = o.checkpoint or o.resume
        remedy = "start it again" if path is None else f"go on with asyncsim run --resume {path}"
        kept = f"stopped by {stopped.by} after {running.how_far(trace)}; what was recorded is kept"
        other = "sim.Spec(..., initial=trace.parameters) starts from the weights reached"
        streams.complain(f"{kept}. For the whole run {remedy}; {other}")
        return int(128 + stopped.number)
    return o.files.status(128 + received[0] if received else 0)


def _last_tenth(trace: Trace) -> np.ndarray:
    """Staleness of tokens in versions over the last tenth of batches; NaN if it is unknown."""
    stale = trace.schedule.staleness()
    return stale[:, -max(1, stale.shape[1] // 10) :]


def say_fresh(system: Any, mean: float, high: float, batches: float, who: str = "") -> None:
    """Print a hint if `high`, the 99th percentile of staleness, is below half of the system's staleness limit."""
    from asyncsim.sweeping.advising import TRAINERS

    name = getattr(system, "name", "")
    limit = next((each.limit for each in TRAINERS.values() if each.preset == name), "")
    allowed = getattr(system, "knobs", {}).get(limit)
    # A run of fewer versions than the limit cannot be that stale.
    if allowed and batches > allowed + 1 and high < allowed / 2.0:
        stale = (
            f"{who}mean staleness is {mean:.2g} (99th percentile {high:g}), although {limit} = {allowed} allows more"
        )
        streams.complain(f"{stale}; more load or prompts in generation at once would use it: asyncsim timeline {name}")


def _say_flat(spec: Spec, trace: Trace) -> None:
    """Print a hint if the learning rate gained next to nothing of the possible return."""
    from asyncsim.base.answers import HARDLY

    moved = bool(np.any(trace.metrics.get("gradient_norm", 1.0)))
    if moved and len(trace.metrics.get(notation.TRAINED, ())) >= 10:
        first, last = trace[notation.TRAINED][0].mean(), trace.final(notation.TRAINED).value
        missing = spec.fitted_task.optimum - first
        if missing > 0.0 and last - first < HARDLY * missing:
            rates = {k: v for k, v in knobs.values(spec.update, "update").items() if k.endswith(".lr")}
            at = f"the run gained {last - first:.2g} of {missing:.2g} in return that are missing"
            for name, rate in rates.items() if len(rates) == 1 else ():
                streams.complain(f"at {name}={rate:g} {at}; write --set {name}=VALUE, a larger one, or more --updates")


def _ends(trace: Trace) -> dict[str, dict[str, dict[str, float | None]]]:
    """Mean and 95 percent interval over the last tenth of updates, by setting and metric; None if there is none."""
    ends: dict[str, dict[str, dict[str, float | None]]] = {}
    for name, part in trace.split().items():
        ends[name] = {}
        for metric in part.metrics:
            ends[name][metric] = {"value": None, "low": None, "high": None}
            try:
                estimate = part.final(metric)
            except checks.InputError:
                continue  # nothing finite at the end
            low, high = part.interval(metric, estimate._replace(independent=True))
            ends[name][metric] |= {"value": estimate.value} | ({} if math.isnan(low) else {"low": low, "high": high})
    return ends


def _print_ends(trace: Trace, ends: dict[str, Any], usual: str) -> None:
    """Print the final values of the metrics by setting; beside `usual` diagnostics, constants on one line."""
    updates = trace.header["spec"]["updates"] if trace.partial is None else trace.partial["updates"]
    for name, part in list(trace.split().items())[:SETTINGS]:
        of = notation.plural(part.replicates, "replicate") + f" of {name}" * bool(name)
        print(f"\nlast tenth of {notation.plural(updates, 'update')}, mean and 95 percent interval over {of}:")
        width = max([24, *(len(notation.whose(metric)) for metric in ends[name])])
        constant = []
        for metric, end in sorted(ends[name].items(), key=lambda pair: pair[0] != notation.TRAINED):
            if usual and end["value"] == end["low"] == end["high"] is not None and metric not in notation.RETURNS:
                constant.append(f"{metric} {end['value']:.5g}")
            elif end["value"] is not None:
                value, bounds = f"{end['value']:.5g}", "[no interval: a single replicate]"
                if end["low"] is not None:
                    value, bounds = notation.bounded(*end.values())
                print(f"  {notation.whose(metric):{width}} {value:>12}  {bounds}")
        if constant:
            streams.show([f"  constant: {', '.join(constant)}"])
        # Where schedules are random, the staleness of tokens.
        stale = _last_tenth(part)
        if part.schedule.random and bool(np.isfinite(stale).any()):
            mean, high = np.nanmean(stale), np.nanpercentile(stale, 99, method="inverted_cdf")
            print(f"  staleness of tokens in versions: mean {mean:.4g}, 99th percentile {high:.4g}")
        # Error bars can be trusted where schedules are not random, or there are several.
        if part.schedule.random and part.replicates > 1 and len(np.unique(part.realization)) == 1:
            remedy = "raise realizations or replicates"
            print(f"  (intervals are too narrow: replicates share one random schedule; {remedy})")
        print(f"  {'diverged replicates':{width}} {int((part.diverged >= 0).sum()):12d}")
        if usual and notation.TRAINED not in ends[name]:
            more = f"--diagnostics {usual},trained_return evaluates the trained policy on fresh samples"
            streams.complain(f"batch_return is of the older policies that wrote the data; {more}")
        if why := part.why_diverged():
            print(f"  {why}")
    if len(ends) > SETTINGS:
        print(f"\n{len(ends) - SETTINGS} more settings; --json lists all")


def print_header(header: dict[str, Any], verbose: bool, part: Any, given: Iterable[str] = ()) -> None:
    """Print the settings that determine the result: all with `verbose`, else the main and the given ones."""
    flat = {k: v for k, v in header.items() if not isinstance(v, dict) and v not in (None, [])}
    parts = [f"{name}: {_listed(part)}" for name, part in header.items() if isinstance(part, dict) and part]
    brief = _brief(header, {*TIMES, *given}, calls.of(part))
    streams.show([_listed(flat), *parts] if verbose else [*brief, "-v prints all settings"], 2, WIDE)


def _brief(header: dict[str, Any], given: set[str], made: calls.Made | None) -> Iterable[str]:
    """Lines on what is trained, on the system (alone in a timeline), and sizes; of a step one argument or all."""
    system = header.get("system", header)
    if "task" in header:
        own = _listed({k: v for k, v in header.items() if k in given and k not in (*SIZES, "advantage")})
        links = [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", t).lower() if t[-1] == ")" else t for t in header["update"]]
        short = (re.sub(r"\((.*?)(, \w+=.*)?\)$", r" \1", text).strip() for text in links)
        # An argument that was given is not left out.
        both = zip(links, short, strict=True)
        steps = (text if given & {*re.findall(r"(\w+)=", text)[1:]} else first for text, first in both)
        untold = " (default: tune it for each method)" * ("lr" not in given)
        mean = f"aggregator {header['aggregator']}" if header.get("weight") == "loss" else ""
        method = ", ".join(filter(None, (f"{header['method']}", mean, f"advantage {header.get('advantage')}", own)))
        size = f", {header.get('model_parameters', 0):,} weights"
        policy = f"{header['policy']} {header['model']}{size}" if header["policy"] == "causal_lm" else header["policy"]
        yield f"{header['task']} ({policy}) with {method}; {', '.join(steps)}{untold}"
    usual = {k: v for k, v in system["knobs"].items() if made and v is not None and k not in made.arguments}
    chosen = {k: v for k, v in {**system["knobs"], **system}.items() if k in {*system["knobs"], *given} - {*usual}}
    if "rates" in chosen and (decode := system.get("decode")) and isinstance(speed := chosen["rates"], float):
        chosen["rates"] = f"{speed:g} (one sample alone; {speed * decode[-1]:g} each of {len(decode)})"
    kind = "schedule" if system["name"] in plugins.summaries("asyncsim.schedules") else "system"
    yield f"{kind} {system['name']}: {_listed(chosen)}{f'; defaults: {_listed(usual)}' * bool(usual)}"
    said = (name for name in SIZES if header.get(name, 1) != 1 or name == SIZES[0])
    sizes = [f"{header[name]} {name.replace('_', ' ')}" for name in said]
    many = system.get("places", 0) * (system is header and not {"slots", "permits"} & {*system})
    every = many * (header[SIZES[0]] + system.get("redundant", 0))
    sizes[0] += f" ({many:,} groups or {every:,} samples at once)" * (every > many in system["knobs"].values())
    yield re.sub(r"^1 samples", "1 sample", ", ".join([*sizes, f"seed {header['seed']}"]))


def _listed(settings: dict[str, Any]) -> str:
    """Format settings as NAME=VALUE, separated by commas."""
    return ", ".join(f"{name}={_word(value)}" for name, value in settings.items() if value is not None)


def _word(value: Any) -> str:
    """Format text as it is, other settings as JSON with floats rounded to twelve digits; shorten what is long."""
    plain = json.loads(json.dumps(records.plain(value)), parse_float=lambda text: float(f"{float(text):.12g}"))
    return checks.clipped(plain if isinstance(plain, str) else json.dumps(plain), 240)
