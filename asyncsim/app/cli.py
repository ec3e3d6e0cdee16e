"""The command line: from list, run and compare to advise, calibrate, forecast, judge, export, log and diagnose.

Each has --help, --json PATH and an exit status that a script can use (docs/runs.md).
Files are written before anything is printed about the result, so that a closed pipe loses none of them.
"""

import contextlib
import json
import re
import shlex
import signal
import sys
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from asyncsim.app import commands, conforming, logs, parsing, streams, sweeping, wording
from asyncsim.app.options import ALSO, DESCRIBES, KINDS, STDOUT, Options
from asyncsim.app.parsing import command
from asyncsim.base import checks, outside, pages, plugins, records, stopping
from asyncsim.base.notation import plural
from asyncsim.base.store import TRASH, opened

app = typer.Typer(
    cls=parsing.Sections,
    no_args_is_help=True,
    epilog="\b\nExit status: 0 success, 1 violated or failed, 2 bad input, 3 undecided,\n"
    "4 an output file was not written. docs/runs.md has the others.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    # Help is as wide as the terminal.
    context_settings={"max_content_width": streams.WIDEST, "help_option_names": ["-h", "--help"]},
    help="Simulate how stale rollouts become in asynchronous RL, and what staleness costs.\n\n"
    "\b\nSimulate a trainer:\n  asyncsim timeline areal --set max_head_offpolicyness=2 --set load=1.5 \\\n    --set "
    "consumer_batch_size=4 --set max_concurrent_rollouts=12 \\\n    --set length=lognormal:1:1\n\n"
    "\b\nTrain on stale data:\n  asyncsim run --method grpo --staleness 16 --plot out.png",
)

results = typer.Typer(no_args_is_help=True, help="Inspect stored sweeps: ls, show, verify, gc.")
app.add_typer(results, name="results")


def _lines(rows: Sequence[dict[str, str]], kind: str = "") -> str:
    width, columns = max(len(row["name"]) for row in rows) + 2, streams.width()
    # Lines of a pipe are not wrapped and have no headings, unless COLUMNS says otherwise.
    brief, wide = len(rows) > commands.MANY and columns < sys.maxsize, max(columns, 40)
    # Where names take half of a line, their summaries are printed below them.
    below = 2 * width > columns
    indent = " " * (2 * brief + (4 if below else width))
    wrapper = textwrap.TextWrapper(wide, indent, indent, break_on_hyphens=False)
    families: dict[str, list[str]] = {}
    first = commands.FIRST * brief
    for row in sorted(rows, key=lambda row: first.index(row["name"]) if row["name"] in first else len(first)):
        name, text = "  " * brief + row["name"], wrapper.fill(row["summary"])
        line = f"{name}\n{text}" if below else name + text[len(name) :]
        families.setdefault(commands.family(kind, row["name"]) if brief else "", []).append(line)
    pages = sorted(families.items(), key=lambda family: family[0] == commands.MADE)
    page = "\n\n".join("\n".join([textwrap.fill(name, wide), *each]).lstrip("\n") for name, each in pages)
    return page + f"\n\nasyncsim list {kind} NAME describes one of these {len(rows)}." * brief


def _signature(text: str) -> str:
    """A signature with a line per argument where it is longer than a line, and types without their modules."""
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text.replace("collections.abc.", "").replace("typing.", ""))
    if len(text) <= min(streams.width(), streams.WIDEST):
        return text
    head, _, rest = text.partition("(")
    return f"{head}(\n    " + re.sub(r", (?=[\w*]+[:=]|\*)", ",\n    ", rest)


def _reflowed(text: str, wide: int) -> str:
    """Paragraphs of full lines at another width; what has lines of its own, as code has, is kept."""
    pages = ((p, p[:5] == "Argum" or all(len(line) > 90 for line in p.split("\n")[:-1])) for p in text.split("\n\n"))
    return "\n\n".join(textwrap.fill(page, wide) if full and page[:1] not in " >*|" else page for page, full in pages)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"asyncsim {sys.modules['asyncsim'].__version__}")
        raise typer.Exit(0)


@app.callback()
def everything(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that come before any command."""


@command(app, "list")
def list_names(o: Options) -> int:
    """List the parts of asyncsim, or describe one of them.

    Examples: `asyncsim list`, `asyncsim list systems`, `asyncsim list systems areal`. `--json` without a path prints
    JSON.
    """
    kind = ALSO.get(o.kind or "", o.kind)
    about: Any
    own = ((each, row["name"]) for each in KINDS if kind not in (None, *KINDS) for row in commands.names(each))
    word = str(kind).replace("-", "_")
    named = [(each, name) for each, name in own if f"{name}_".replace("-", "_").startswith(f"{word}_")]
    named = [pair for pair in named if pair[0] in ("systems", "methods") or len(pair[1]) == len(word)]
    named = named[:3] + [("papers", str(kind))] * bool(checks.advice(word, "paper"))
    write = " or ".join(f"asyncsim list {each} {name}" for each, name in named)
    remedy = f"write {write}" if write else checks.advice(word, "list")
    remedy = remedy or ("" if kind in (None, *KINDS) else wording.of_trainers(word, str(kind)))
    # Names of all claims are read only for what may be a family of them, or the arXiv id of a paper.
    alone = not o.name or (re.match(r"[\w.]+/[a-z]", o.name) and "arxiv" not in o.name.lower())
    several = commands.names(kind, str(o.name)) if kind in ("claims", "papers") and not alone else []
    family = [row for row in several if kind == "papers" or row["name"].startswith(f"{str(o.name).lower()}/")]
    if kind is None:
        about = commands.kinds()
        page = f"{_lines(about)}\n\nOne kind: asyncsim list systems. One of its names: asyncsim list systems areal."
    elif family:
        from asyncsim.claims._registry import paper_row

        title, _, what, where = paper_row(str(o.name))
        about, page = family, _lines(family) + f"\n\n{title} is {what}. {where} tests the paper." * bool(what)
    elif kind != "fields" and checks.one_of("kind", kind, KINDS, remedy) and o.name is not None:
        about = commands.described(kind, o.name)
        doc = about["doc"] if streams.width() > streams.WIDEST else _reflowed(about["doc"], streams.width())
        page = "\n\n".join(filter(None, (_signature(about["signature"]) or about["name"], doc)))
    else:
        rows = commands.names(kind)
        about = rows if o.json is None else [row | commands.facts(kind, row["name"]) for row in rows]
        page = _lines(rows, kind)
    if o.json == STDOUT:
        page = json.dumps(records.plain(about), indent=2)
    else:
        o.files.json(about)
    print(page)
    return o.files.status(0)


@command(app, "run")
def run(o: Options) -> int:
    """Train many replicates with the staleness of a system.

    Gradients of methods differ in scale: tune the learning rate, or use --link adam. Runs with the same --seed share
    schedules and random numbers, so compare them in pairs. Write an argument of a part as PART.KEY=VALUE: task.arms=5,
    method.cap=4, adam.lr=0.01, system.load=2; model.rate=30 is a setting of the system's event model. --log writes to
    tensorboard:FOLDER, wandb:PROJECT, trackio:PROJECT, live or live:METRIC.
    """
    streams.load()
    counts = {name: vars(o)[name] for name in ("updates", "replicates", "epochs", "minibatches") if name in o.given}
    if o.resume is not None and {"file", *DESCRIBES} & {*o.given} <= {*counts}:
        from asyncsim.running import checkpoint

        saved = checkpoint.read(o.resume)
        # A seed or a number that was given stands, and is compared when the run goes on.
        spec, o.seed = saved.remade(o.trust).replace(**counts), o.seed if "seed" in o.given else saved.seed
    elif o.file is not None:
        spec = wording.of_file(o.file, o.given, o.trust)
    else:
        names = o.diagnostics if o.diagnostics in ("default", "none") else o.diagnostics.split(",")
        spec = wording.spec({name: vars(o)[name] for name in DESCRIBES} | {"diagnostics": names}, o.set)
    if o.print_spec:
        print(json.dumps(spec.to_dict(), indent=2))
        return 0
    return commands.run(spec, o)


@command(app, "compare")
def compare(o: Options) -> int:
    """Decide which arm is better, with stated error rates.

    An arm is a method or another choice of settings, with an optional name: "tight: method=grpo method.low=0.1". Each
    arm is tuned to its own best learning rate, and compared with the first. Give settings that all arms share as
    options of `run`, such as --task gym or --staleness 16, or with --set.
    """
    streams.load()
    from asyncsim import comparing
    from asyncsim.base.answers import UNTOLD

    o.metric, o.tune = o.metric.replace("-", "_"), None if o.tune.lower() == "none" else o.tune
    # Options that `sim.compare` has under the same names.
    passed = (
        *("smallest", "metric", "over", "statistic", "error", "tune", "target", "better", "interval"),
        *("horizon", "trainer_slots", "max_replicates", "seed", "store", "workers"),
    )
    key, equals, values = o.arms[0].rpartition("=")
    several = " ".join(f"{key}{equals}{each}" for each in values.split(",")) if "," in values else ""
    apart = f"write {several or 'for example method=grpo method=cispo'}"
    checks.require(len(o.arms) > 1, "arms", o.arms, "two or more", apart)
    loose = [arm for arm in o.arms if o.along and not isinstance(wording.value(arm), str)]
    remedy = f"write --along {','.join([*(o.along or ())[-1:], *loose])}"
    checks.require(not loose, "--along", " ".join(loose), "behind commas, without spaces", remedy)
    values = sweeping.values_of(o.along, "--along") if o.along else {}
    arms = " ".join([*o.arms, *map(str, values.get("method", ()))])
    apart = f"methods are arms: asyncsim compare {arms}" if "method" in values else "run the command for each"
    checks.require(len(values) < 2 and "method" not in values, "--along", " ".join(o.along), "one setting", apart)
    path = dict(word.partition("=")[::2] for word in o.set).get("system", "")
    if wording.is_file(path):
        # A description has one limit, which varies as the option of its trainer.
        o.set += [f"{name}={next(iter(each))}" for name, each in values.items() if name.startswith("system.")]
        values = wording.of_trainer(path, values)
    specs = wording.specs_of(o.arms, o.set)
    named = [word for text in (*o.arms, *o.set) for word in text.split()]
    fewer = "for fewer of slow runs write asyncsim sweep --grid KEY=A,B --replicates 8, which prints the difference"
    for word in named:
        looks = f"--max-replicates says where they end; {fewer}"
        checks.require(not word.startswith("replicates="), "--set", word, "left out: looks begin at 64", looks)
    rates = " and ".join(dict.fromkeys(word for word in named if wording.names_rate([word])))
    if rates and "tune" not in o.given:
        streams.complain(f"each arm's rate is tuned, and {rates} is where that begins; --tune none keeps it")
    checks.require(o.max_replicates >= 64, "--max-replicates", o.max_replicates, "64 or more", fewer)
    grid = "it names the knob, and its grid is chosen; a grid of one's own is tune={'lr': [...]} of sim.compare"
    checks.require("=" not in str(o.tune), "--tune", o.tune, "a name, as lr", grid)
    shared = [word for word in o.set if not wording.of_task(word)]
    tasks = [wording.of_words([*shared, *wording.task_words(o.set, other)], "--also").task for other in o.also]
    fields = {"samples": "samples_per_group"}
    along = {fields.get(key, key): [wording.understood(v, None) for v in each] for key, each in values.items()} or None
    with streams.announced():
        answer = comparing.compare(specs, tasks=tasks, along=along, **{name: vars(o)[name] for name in passed})
    for arm in answer.tasks[0].arms if not along else ():
        stale = arm.staleness_mean, arm.staleness_p99  # on a clock alone
        commands.say_fresh(specs[arm.name].system, *stale, specs[arm.name].updates, f"{arm.name}: ")
    own = zip(specs, map(wording.words_of, o.arms), strict=True)
    wording.tell_unnamed({f"arm {name}": [*o.set, *o.along, *words] for name, (_, words) in own})
    undecided = any(on.word_of(pair) in ("undecided", UNTOLD) for on in answer.tasks for pair in on.pairs)
    pages.VERBOSE.set(o.verbose)
    return o.files.answer(answer, 3 if undecided else 0)


@command(app, "sweep")
def sweep(o: Options) -> int:
    """Train at every setting of a grid; store all results.

    A sweep uses all cores or a cluster. A stopped sweep resumes, and does not repeat the settings in the store.
    Examples of --grid: staleness=0,4,16; method=grpo,my.py:loss; lr=0.01:1:9 (min:max:count, logarithmic). Give
    settings that all runs share as options of `run`, such as --method my.py:loss, or with --set.
    """
    for option, path in (("--plot", o.plot), ("--csv", o.csv)):
        checks.require(not (o.dry_run and path), option, str(path), "left out beside --dry-run", "nothing is run then")
    streams.load()
    return sweeping.sweep(o)


@command(results, "results ls")
def results_ls(o: Options) -> int:
    """List the sweeps of a store, with their progress."""
    from asyncsim.sweeping import plans

    store = opened(o.store, make=False)
    kept, trainings = plans.sweeps(store), len(list(store.names("trainings")))
    o.files.json([each.row() for each in kept])
    alone = f"; {plural(trainings, 'training')} of `asyncsim compare`, which continues them" if trainings else ""
    print("\n".join(map(str, kept)) or f"no sweeps in {o.store}{alone}")
    return o.files.status(0)


@command(results, "results show")
def results_show(o: Options) -> int:
    """Print the table of one sweep, with the results so far."""
    from asyncsim.sweeping import sweeps

    path = bool(o.name) and ("/" in o.name or Path(o.name).is_dir())
    checks.require(not path, "name", o.name, "the beginning of a sweep's id", f"write --store {o.name}")
    return sweeping.show(sweeps.stored(o.store, o.name), o.files)


@command(results, "results verify")
def results_verify(o: Options) -> int:
    """Check that stored rows are intact and reproducible."""
    checks.integer("--again", o.again, 0, "count units")
    checks.integer("--seed", o.seed, 0, "give a non-negative integer seed")
    from asyncsim.sweeping import plans

    count, faults = plans.verified(opened(o.store, make=False), o.again, o.seed, o.trust)
    again = min(o.again, count)
    o.files.json({"units": count, "again": again, "faults": [vars(fault) for fault in faults]})
    for fault in faults:
        print(f"{fault.name}: {fault.what}")
    done = f", {again} of them done again" if o.again else ""
    print(f"{plural(count, 'unit')} read{done}: {len(faults) or 'none'} not as written")
    if faults:
        print("remove these files; the sweep that needs them makes them again")
    return o.files.status(sweeping.FAILED if faults else 0)


@command(results, "results gc")
def results_gc(o: Options) -> int:
    """Move units that no sweep needs into the store's trash.

    Messages of resolved failures move there, too.
    """
    from asyncsim.sweeping import plans

    store = opened(o.store, make=False)
    with store.held(alone=True):
        spare = plans.unneeded(store)
        size = sum(store.size(name) for name in spare)
        folder = store.set_aside(spare) if spare and not o.dry_run else TRASH
    would = "would be " if o.dry_run else ""
    moved = f"{plural(len(spare), 'file')}, {size / 1024:.1f} KiB, {would}moved to {o.store}/{folder}"
    print(moved + ("; remove that folder to free them" if spare and not o.dry_run else ""))
    return 0


@command(app, "verify")
def verify(o: Options) -> int:
    """Compare formulas with simulation, and give verdicts.

    Verdicts have stated error rates. --size full detects deviations half as large, at more points. --size long also
    uses new seeds, and combines the results of all its runs in --evidence.
    """
    from asyncsim.app import verdicts

    parameters = wording.settings(o.at, "--at")
    point = {key: wording.understood(value, None) for key, value in parameters.items()} if o.at else None
    request = verdicts.Request(o.claims, o.size, o.defects, o.seed, point, o.evidence, o.workers)
    return verdicts.verify(request, o.report, o.json, o.verbose)[1]


@command(app, "timeline")
def timeline(o: Options) -> int:
    """Simulate a system: staleness, idle time and cost.

    Settings of the event model: rate=30 (tokens per second of a sample), slots=64 (samples that a server decodes at
    once), reward=exponential:2 or reward=@delays.csv:reward_ms*0.001 (seconds until a reward).

    \b
    Example:
      asyncsim timeline areal --set max_head_offpolicyness=4 \\
        --set consumer_batch_size=8 --set max_concurrent_rollouts=40 \\
        --set length=lognormal:1:0.8 --set load=1.5
    """
    own = [pair.removeprefix("model.") for pair in o.set if pair.startswith("model.")]
    knobs = wording.settings([pair.removeprefix("system.") for pair in o.set if not pair.startswith("model.")])
    changes = wording.settings([*o.model, *own], "--model")
    if o.sweep:
        for option, path in (("--save", o.save), ("--trace", o.trace)):
            checks.require(path is None, option, str(path), "left out beside --sweep", "record a single timeline")
        return sweeping.timeline(o, knobs, changes)
    bound = "left out, or given with --sweep"
    checks.require(o.realizations is None, "--realizations", o.realizations, bound, "add --sweep KNOB=V1,V2")
    from asyncsim.app import timelines

    system = wording.system(o.preset, knobs, changes, "--model")
    o.samples = wording.samples_of(o.preset, knobs, system, o.samples, 1, "")
    with streams.announced():
        recorded = any(path for name, path in o.files.paths.items() if name != "json")
        result, record = timelines.timeline(system, o.updates, o.samples, o.seed, recorded)
    with stopping.deferred() as received:
        o.files.json(result)
        if record is not None:
            timelines.write(record, o.files)
    commands.print_header(timelines.header(system, o.samples, o.seed), o.verbose, system, changes)
    if wording.is_file(o.preset):
        print("all machines of the file are one server here, with the slots of all")
    print()
    streams.show(timelines.lines(result, o.verbose), piped=commands.WIDE)
    o.files.say("timeline: {}", "save")
    o.files.say("plot: {}", "plot")
    o.files.say("trace: {} (open it at ui.perfetto.dev)", "trace")
    return o.files.status(128 + received[0] if received else 0)


@command(app, "advise")
def advise(o: Options) -> int:
    """Recommend a staleness limit for your system.

    The file describes machines, slots, tokens per second, response lengths and training seconds. The answer gives
    seconds per update and slot-hours. If the file has several numbers of machines or both rollout modes, the answer
    compares them.
    """
    from asyncsim.sweeping import advising

    checks.real("--within", o.within, "give the share of seconds that you allow", 0.0, 1.0, open_low=True)
    with streams.announced():
        advice = advising.advise(o.file, o.within, o.updates, o.realizations, o.seed, **wording.settings(o.set))
    return o.files.answer(advice)


@command(app, "calibrate")
def calibrate(o: Options) -> int:
    """Estimate lengths, rates and drift from a run's log.

    Writes a description with 95 % intervals, which `advise` and `forecast` read. If the log lacks a quantity, the
    message says which column to log, or which value to give.
    """
    from asyncsim.forecasting import calibrating

    with streams.announced():
        own = {"columns": o.columns, "run": o.run, "stack": o.stack, **wording.settings(o.set)}
        made = calibrating.calibrate(o.logs, o.preset, **own)
    o.files.write("out", made.save)
    status = o.files.answer(made)
    o.files.say("description: {}", "out")
    return status


@command(app, "forecast")
def forecast(o: Options) -> int:
    """Forecast your run at another setting.

    Forecasts staleness, seconds, idle slots, discarded prompts, ESS and clipped share, each with a 95 % band, its
    formula and the number of the log. Several --set change several settings at once.
    """
    from asyncsim.forecasting import forecasting

    changed = wording.settings(o.set)
    for name in changed:
        remedy = f"it is an option: write --{name} {changed[name]}"
        checks.require(not hasattr(o, name), "--set", name, "a field of the system", remedy)
    with streams.announced():
        found = forecasting.forecast(o.file, o.method, o.draws, o.updates, o.seed, **changed)
    return o.files.answer(found)


@command(app, "log")
def read_log(o: Options) -> int:
    """Measure how stale a real run was, from its log.

    Prints the distribution of staleness, the fate of the samples, and open questions. --delays reports the
    autocorrelation of a column of delays, or of a multiple (ms*0.001). --set takes unit, batches_per_publish,
    updates_per_batch, samples_per_publish, train_offset, stamp_offset, start_is, first_version.
    """
    own = {"stack": o.stack, "columns": o.columns}
    if o.delays is not None:
        report, text = logs.recorded(o.path, o.delays, o.set, own | {"staleness": o.staleness, "plot": o.plot})
    else:
        report, text = logs.shown(o.path, own | logs.settings(o.set), o.plot, o.staleness)
    o.files.json(report)
    streams.show([text])
    return o.files.status(int("law" in report and report["law"]["verdict"] == "differs"))


@command(app, "conformance")
def conformance(o: Options) -> int:
    """Identify the method of a loss, and find known mistakes.

    Checks losses, metrics, advantages and staleness controllers (--kind). --set gives arguments of the method of --like
    (high=0.28), the adapter (adapter.old=behavior), the check of an advantage (dones=before) or a controller
    (batch_size=4). Arguments of the controller's class are controller.KEY. --names capacity=get_capacity maps a call to
    your controller's method; capacity=none omits it.
    """
    o.hazards = o.hazards or o.strict or (o.json is None and sys.stdout.isatty())
    result, status = conforming.check(o)
    o.files.json(result)
    return o.files.status(status)


@command(app, "export")
def export(o: Options) -> int:
    """Write a method as the loss function of a trainer.

    Writes one torch function with the signature of the trainer's hook. Before writing, asyncsim compares its gradients
    with those of the method, and check_loss must identify the method. The links ess_scaling and gac become steps around
    a torch optimizer.
    """
    from asyncsim.exporting import exports

    name, bound = o.method.replace("-", "_"), "a method or link of `asyncsim list exports`"
    remedy = f"give its name; a loss of your own needs no export: check it by asyncsim conformance {o.method}:NAME"
    checks.require(not name.endswith(".py"), "method", o.method, bound, remedy)
    part = outside.made_by(outside.loaded(o.method, "method")) if ":" in name else ""
    remedy = f"a {part} of your own has no export; asyncsim run --{part} {o.method} trains with it"
    checks.require(not part, "method", o.method, bound, remedy)
    known = exports.NAMES.get(name, {})
    pairs = wording.settings(o.set).items()
    arguments = known.get("settings", {}) | {key.removeprefix("method.").removeprefix("link."): v for key, v in pairs}
    command = ["asyncsim", "export", o.method, "--for", o.for_, *(word for pair in o.set for word in ("--set", pair))]
    about: Any = {"name": name if name.isidentifier() else None, "command": shlex.join(command)}
    if "link" in known or name in plugins.summaries("asyncsim.updates"):
        checks.one_of("--for", o.for_, ("torch",), "a link acts on a step of an optimizer: write --for torch")
        made = exports.export_link(wording.build("updates", known.get("link", name), arguments, "link."), **about)
    else:
        checks.one_of("--for", o.for_, exports.TRAINERS, "choose the trainer whose hook is filled")
        method = wording.build("methods", known.get("method", o.method), arguments, "method.")
        made = exports.export_loss(method, o.for_, **about)
    o.files.text("out", lambda: made.text)
    o.files.json({"name": made.name, "text": made.text, "deviation": made.deviation})
    if o.out is None:
        print(made.text, end="")
    o.files.say(f"{made.name}: {{}} (maximum deviation from the method's gradient: {made.deviation:.0e})", "out")
    return o.files.status(0)


@command(app, "diagnose")
def diagnose(o: Options) -> int:
    """Compare the metrics of a run with theory.

    Checks staleness, engine mismatch, drift, ESS, gradient cosine, the stability boundary, and known bugs.
    """
    from asyncsim.app import diagnosing
    from asyncsim.diagnosing import diagnose as ask

    names = ("tokens", "batch", "staleness", "floor", "learning_rate", "curvature", "momentum", "cap", "columns", "run")
    found = ask(o.path, **{name: vars(o)[name] for name in names})
    o.files.json(found.json())
    o.files.write("html", lambda path: diagnosing.write(found, path))
    print(found.text(min(streams.width(), 100), o.verbose))
    return o.files.status(int(found.counts["differs"] > 0))


@command(app, "judge")
def judge(o: Options) -> int:
    """Decide from logs of finished runs whether B beats A.

    The interval counts differences between runs, so it applies to new seeds. If there are too few runs, the answer says
    what they show, and how many seeds would decide.
    """
    from asyncsim.diagnosing.judging import judge_runs, seeds_for

    a, b = [*o.arms[:1], *o.a], [*o.arms[1:], *o.b]
    if not (a or b or o.pilot) and o.within and o.seed_spread:
        said = seeds_for(o.within, o.seed_spread, o.error, o.power)
        o.files.json({"sentence": said, "seeds": int(said.split()[0].replace(",", ""))})
        streams.show([said])
        return o.files.status(0)
    remedy = f"a difference to find is asyncsim judge --within {o.power:g} --seed-spread {o.seed_spread or 'VALUE'}"
    checks.require(bool(a or b or o.within or "power" not in o.given), "--power", o.power, "a probability", remedy)
    checks.require(len(o.arms) < 3, "arms", o.arms, "two", "quote patterns, or repeat --a and --b; judge two at a time")
    names = ("metric", "over", "last", "at", "error", "within", "better", "seed_spread", "pilot", "power", "columns")
    run = o.run if len(o.run) > 1 else (o.run or [None])[0]
    found = judge_runs(a, b or None, run=run, **{name: vars(o)[name] for name in names})
    return o.files.answer(found, 3 if found.word == "cannot tell" else 0)


@command(app, "device")
def device(o: Options) -> int:
    """Check in a minute that a device agrees with the CPU.

    Compares log-probs, gradients, greedy tokens and resumed runs of a language model; the exit status is 1 if one
    differs. It also reports sampler mismatch by number format, tokens per second, updates per minute, peak memory.
    """
    from asyncsim.app import devices

    found = devices.check(o.where, devices.QUICK if o.quick else None)
    o.files.json(found)
    print("\n".join(devices.lines(found)))
    return o.files.status(int(not found["holds"]))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the `asyncsim` command; `arguments` default to those of the process."""
    warnings.formatwarning, _SAID[:] = _one_line, []
    with streams.guarded() as out, stopping.terminable():
        status = _status(list(sys.argv[1:] if arguments is None else arguments))
        out.flush()
        if isinstance(out.failure, BrokenPipeError):
            # As of any program whose reader has seen enough, such as `head`.
            status = status or streams.READ
        elif out.failure is not None:
            reason = getattr(out.failure, "strerror", None) or out.failure
            remedy = "files are written; send the page elsewhere" if status == 0 else "send the page elsewhere"
            streams.complain(str(checks.InputError("stdout", str(reason), "open and with room to the end", remedy)))
            status = status or streams.UNREAD
    sys.exit(status)


_FORMAT, _SAID = warnings.formatwarning, list[str]()


def _one_line(message: Any, category: type[Warning], *where: Any, **more: Any) -> str:
    """Our own warnings as errors are printed, each once, those of others as they are."""
    if issubclass(category, checks.RunWarning):
        _SAID.append(f"asyncsim: {message}\n")
        return _SAID[-1] * (_SAID.count(_SAID[-1]) == 1)
    return _FORMAT(message, category, *where, **more)


def _status(arguments: list[str]) -> int:
    command: Any = typer.main.get_command(app)
    if arguments[:1] == ["list"] and arguments[-1] == "--json":
        arguments.append(str(STDOUT))
    try:
        arguments = parsing.rewritten(arguments, command)
        parsing.refuse(arguments, command)
        typed = parsing.piped(arguments, command)
        # Beside a result on standard output, what is printed goes to standard error.
        with contextlib.nullcontext() if typed == arguments else contextlib.redirect_stdout(sys.stderr):
            return int(command.main(typed, prog_name="asyncsim", standalone_mode=False, obj=arguments) or 0)
    except checks.InputError as error:
        streams.complain(error)
        return 2
    except parsing.USAGE as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
        else:
            streams.complain(
                told := parsing.translated(error, arguments, list(command.commands)),
                whole=parsing.whole(told, arguments),
            )
        return 2
    except typer.Abort:
        streams.complain("stopped before there was anything to keep")
        return 128 + signal.SIGINT


if __name__ == "__main__":
    main()
