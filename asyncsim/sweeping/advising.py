"""Advice on the staleness limit: a described system, simulated at every limit and with other numbers of machines."""

import itertools
import math
import os
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import calls, checks, feeds, files, plugins
from asyncsim.base.advice import Advice, Setting, mean_interval
from asyncsim.base.laws import FILE, as_law, from_file
from asyncsim.base.notation import plural
from asyncsim.base.progress import Progress
from asyncsim.base.quantiles import Tail

TOKENS = 16
"""Number of equally spaced tokens of a response whose versions are read."""
SAMPLES = 1 << 19
"""Maximum number of samples for the 99th percentile of one setting."""
SHORTER = "fewer updates, realizations, limits, machines or slots shorten it"
SYNCHRONOUS = "synchronous training of the same machines is trainer='areal', staleness_limit=0"
_UNSET = {None: "unset, which is a batch", -1: "-1, which is as many batches as the limit"}


class Trainer(NamedTuple):
    """Names of the options of a trainer's preset, by field of a system's description.

    `batch`, `running`: options for prompts per batch and in generation at once; with a final `*` they count samples.
    `partial`: the option for partial rollouts, or whether samples always continue. `limits`: the default limits, from
    the smallest possible one; `whole`: no fractions between them.
    """

    preset: str
    limit: str
    batch: str
    limits: Sequence[float]
    partial: str | bool = True
    whole: bool = True
    running: str = ""
    publish: str = ""
    size: str = ""

    def fields(self) -> dict[str, str]:
        """Field of a system's description for each of the trainer's own options."""
        own = {self.limit: "staleness_limit", self.batch: "prompts_per_batch", self.running: "prompts_at_once"}
        own |= {self.publish: "publish_every", self.size: "samples_per_prompt", str(self.partial): "partial_rollouts"}
        return {name.removesuffix("*"): field for name, field in own.items() if name not in ("", "True", "False")}


TRAINERS = {name: Trainer(**row) for name, row in checks.table(__file__, "trainers.toml").items()}
"""Trainers with a staleness limit, by their common names."""

_ROWS = checks.table(__file__, "fields.toml")
_ROWS["trainer"][1] = _ROWS["trainer"][1].format(", ".join(TRAINERS))
_SAID: dict[Any, Any] = {"required": ..., "unset": None}
FIELDS: dict[str, tuple[Any, str]] = {n: (_SAID.get(str(usual), usual), what) for n, (usual, what) in _ROWS.items()}
"""Fields of a description: default (`...`: required) and meaning."""
OPTIONS = {*FIELDS, *(name for each in TRAINERS.values() for name in each.fields())}
"""Fields, and the options of trainers that stand for one."""
LEFT = ("prompts_at_once", "publish_every", "partial_rollouts")
"""Fields that the trainer decides where they are left out."""


@calls.named
def advise(
    system: Mapping[str, Any] | str | os.PathLike[str],
    share: float = 0.05,
    updates: int = 100,
    realizations: int = 8,
    seed: int = 0,
    **settings: Any,
) -> Advice:
    """Recommend the smallest staleness limit whose updates take at most `share` longer than those of the fastest limit.

    Every limit is simulated with the same responses, for today's machines and for others in the description.

    Arguments: `system`, a mapping with `FIELDS`, a JSON or YAML file of it, with its data files in the same folder, or
    the name of a trainer; `share` of seconds, in (0, 1); `updates` per simulation; `realizations` M, whose spread gives
    intervals. `settings`: other values of its fields; a calibrated log's limit is tried beside the usual ones. Returns
    an `Advice` in seconds and slot-hours. Raises `InputError`.

    >>> print(advise({"trainer": "areal", "slots_per_machine": 8, "tokens_per_second": 30, "prompts_per_batch": 4,
    ...     "samples_per_prompt": 1, "response_lengths": "lognormal:300:0.5", "train_seconds": 8,
    ...     "staleness_limit": [0, 1, 2]}).knee.limit)
    2.0
    """
    share = checks.real("share", share, "give the loss in seconds that you allow", 0.0, 1.0, open_low=True)
    realizations = checks.integer("realizations", realizations, 2, "an interval needs two or more", 4096)
    folder = Path()
    if isinstance(system, (str, os.PathLike)):
        trainers = {each.preset: name for name, each in TRAINERS.items()} | {name: name for name in TRAINERS}
        named, folder = trainers.get(str(system).replace("-", "_")), Path(system).parent
        log, say = FILE.search(str(system)), "name a trainer, or a JSON or YAML file (docs/which-limit.md)"
        make = f"make one: asyncsim calibrate {system} --preset NAME --out cal.yaml"
        checks.require(not log, "system", str(system), "a description of a system, not a log", make)
        if not (named or Path(system).suffix or Path(system).exists()):
            checks.one_of("system", str(system), TRAINERS, say)
        system = {"trainer": named} if named else files.read_mapping(system, "system")
    checks.require(isinstance(system, Mapping), "system", system, "a mapping or a path", "see docs/which-limit.md")
    given = read(changed(system, settings), folder)
    trainer = TRAINERS[given["trainer"]]
    if "measured" in system and "staleness_limit" not in settings:
        given["staleness_limit"] = sorted({*trainer.limits, *given["staleness_limit"]})
    varied = itertools.product(given["machines"], given["partial_rollouts"])
    today = (given["machines"][0], given["partial_rollouts"][0])
    # Machines and partial rollouts are varied one at a time.
    curves = sorted((each for each in varied if each[0] == today[0] or each[1] == today[1]), key=lambda c: c != today)
    plan = [(limit, *curve) for curve in curves for limit in given["staleness_limit"]]
    systems, differs = zip(*(system_of(given, *each) for each in plan), strict=True)
    size = given["samples_per_prompt"]
    for made in systems:
        passes = feeds.updates_of(made)
        checks.integer("updates", updates, 2 * passes, f"train two batches of {passes} updates at least")

    def measured(work: tuple[Any, int]) -> dict[str, float]:
        made, realization = work
        return measure(made, updates // feeds.updates_of(made), size, seed, realization)[0]

    bar = Progress("simulations", len(systems) * (realizations + 1), True, SHORTER)
    with bar, ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        found = list(bar.counted(pool.map(measured, itertools.product(systems, range(realizations)))))
        ends = pool.map(lambda s: _tail(s, updates // feeds.updates_of(s), size, seed, realizations), systems)
        tails = list(bar.counted(ends))
    tried = list[Setting]()
    for k, (limit, machines, partial) in enumerate(plan):
        rows = found[k * realizations : (k + 1) * realizations]
        numbers = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        slots, knobs = machines * given["slots_per_machine"], options_of(trainer, systems[k], machines)
        tried.append(Setting(limit, machines, slots, partial, numbers, tails[k], knobs, differs[k]))
    about = _about(trainer, given)
    own = (min(trainer.limits), trainer.whole, _causes(given))
    return Advice(given["trainer"], trainer.limit, about, share, tuple(tried), realizations, updates, *own)


def changed(rows: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """System description with changed fields; model.KEY changes a key of the field `model`, "none" removes a field."""
    trainer = str(changes.get("trainer", rows.get("trainer")))
    rows, changes = renamed(renamed(rows, str(rows.get("trainer"))), trainer), renamed(changes, trainer)
    model = {n.removeprefix("model."): value for n, value in changes.items() if n.startswith("model.")}
    left = {n: None if n in LEFT and x in ("none", "auto", "") else x for n, x in changes.items() if n[:6] != "model."}
    kept = {n: x for n, x in rows.items() if not (n[:5] == "slots" and any(each[:5] == "slots" for each in changes))}
    return {**kept, **({"model": {**rows.get("model", {}), **model}} if model else {}), **left}


def per_machine(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the number of all slots by that of one of today's machines, and say so."""
    if "slots" not in rows:
        return dict(rows)
    total, many, field = rows["slots"], rows.get("machines", 1), "slots_per_machine"
    checks.require(field not in rows, "slots", total, f"left out beside {field}", "give one of the two")
    now = checks.integer("machines", many[0] if isinstance(many, (list, tuple)) else many, 1, FIELDS["machines"][1])
    each, rest = divmod(checks.integer("slots", total, 1, "count the slots of all machines"), now)
    near = f"a multiple of {plural(now, 'machine')}", f"write slots={max(each, 1) * now}, or {field}"
    checks.require(rest == 0, "slots", total, *near)
    warnings.warn(checks.RunWarning(f"slots={total} is of all machines: {each} on each of {now}"), stacklevel=3)
    return {field: each, **{n: x for n, x in rows.items() if n != "slots"}}


def renamed(rows: Mapping[str, Any], trainer: str) -> dict[str, Any]:
    """Replace a trainer's options by the description's fields that mean the same number, unless both are given."""
    row = TRAINERS.get(trainer)
    same = {o: field for o, field in row.fields().items() if f"{o}*" not in row and "replica" not in o} if row else {}
    return {n if same.get(n, n) in rows else same[n]: value for n, value in rows.items()}


def described(path: str, changes: Mapping[str, Any], prefix: str = "") -> Any:
    """System that a description file defines, after `changes` of fields or trainer options."""
    rows = files.read_mapping(path, "system")
    trainer = TRAINERS.get(str(rows.get("trainer")))
    names = trainer.fields() if trainer else {}
    given = read(changed(rows, {names.get(n, n): value for n, value in changes.items()}), Path(path).parent, prefix)
    limits = given["staleness_limit"]
    remedy = f"add --set {prefix}staleness_limit={limits[len(limits) // 2]:g}; asyncsim advise {path} compares limits"
    checks.require(len(limits) == 1, "staleness_limit", limits, "one limit, of a system that is run", remedy)
    for name in {"machines", "partial_rollouts"} & {*changes}:
        remedy = f"write {name}={given[name][0]}; asyncsim advise {path} compares several"
        checks.require(len(given[name]) == 1, name, given[name], "one value, of a system that is run", remedy)
    return system_of(given, limits[0], given["machines"][0], given["partial_rollouts"][0])[0]


def _causes(given: Mapping[str, Any]) -> tuple[tuple[float, str], ...]:
    """Seconds of an update by the prompts at once, and by the longest response of a batch, and a sentence for each."""
    size, batch, at_once = (given[name] for name in ("samples_per_prompt", "prompts_per_batch", "prompts_at_once"))
    many = (min(n, 10_000) for n in (size, size * batch))
    one, longest = (given["response_lengths"].expected_max(n) / given["tokens_per_second"][1][0] for n in many)
    more, own = "s on average, on any number of machines", f", since prompts_at_once={at_once} limits: a prompt takes"
    prompts = (batch * one / (at_once or batch), f"{own} {one:,.4g} {more}. Raise it to see what machines bring")
    why = f", since the longest response of a batch takes {longest:,.4g} {more}. Fewer tokens at most shorten it"
    return (*[prompts] * bool(at_once), (longest, why))


class Batches(NamedTuple):
    """Staleness of the batches in one simulated realization, in versions and in training steps.

    `cells`: shares of work at staleness 0, 1, ... versions, averaged over the batches after the warm-up, and `ages` at
    0, 1, ... training steps since its weights; `moments` `[B, 2]`, mean and mean square age over the tokens of every
    batch from the start; `lengths` `[B, 2]`, mean and maximum length; `head`, mean staleness of trained groups; `warm`,
    number of warm-up batches.
    """

    cells: np.ndarray
    ages: np.ndarray
    moments: np.ndarray
    lengths: np.ndarray
    head: float
    warm: int


def measure(system: Any, batches: int, size: int, seed: int, realization: int) -> tuple[dict[str, float], Batches]:
    """Simulate one realization of a system; return its numbers, as in `Setting`, and its batches' staleness."""
    from asyncsim.systems import _record, _summary

    # All permits are out at once, but groups that wait for the trainer, whose tokens are stale, are as many only later.
    each, ramp = system.batches_per_publish, _summary.warm_up(system, batches, size)
    fill = _summary.fill(system, system.tickets or 0, size) - ramp
    more = min(each * math.ceil(max(fill, 0.0) / each), batches)
    state = system.simulate(batches + more, size, realization, seed, warm=(warm := ramp + more))
    version, _, work, _ = _record.trained(state, 2 * TOKENS)
    # The middles of so many parts of a response: at their starts tokens are older than on average.
    version = version[..., 1::2] if version.shape[-1] > 1 else version
    every = state.batch.version[: len(version)].reshape(-1, 1, 1, 1) - version
    weight, stale = np.broadcast_to(work[..., None], every.shape), every[warm:]
    # Between two syncs the trained weights move on, and no version counts that.
    age = each * every + (np.arange(len(every)) % each).reshape(-1, 1, 1, 1)
    at, parts = stale.ravel().astype(np.int64), (weight / weight.sum((1, 2, 3), keepdims=True))[warm:].ravel()
    cells, ages = (np.bincount(x, parts) / len(stale) for x in (at, age[warm:].ravel().astype(np.int64)))
    total, s = np.cumsum(np.bincount(at, weight[warm:].ravel())), _summary.summary(system, state)
    longer = "simulate more, as updates=100"
    checks.require(s["mean_length_generated"] > 0.0, "updates", batches, "enough to generate behind the start", longer)
    moments = np.stack([np.average(age.astype(float) ** k, (1, 2, 3), weight) for k in (1, 2)], axis=-1)
    trainer, slots = (max(0.0, round(1.0 - s[f"{side}_utilization"], 12)) for side in ("trainer", "generator"))
    sync = system.sync_time * (system.trainer_waits and system.generator_pauses)
    numbers = {
        "seconds": (seconds := s["seconds_per_update"]),
        "tokens": s["throughput"] * size * s["mean_length_trained"],
        "trainer_idle": trainer,
        "generator_idle": slots,
        "trainer_idle_seconds": trainer * seconds,
        "generator_idle_seconds": slots * seconds,
        "sync_seconds": sync / (system.batches_per_publish * feeds.updates_of(system)),
        "staleness": s["token_staleness"],
        "p99": float(np.searchsorted(total, 0.99 * total[-1] * (1.0 - 1e-12))),
        "dropped": s["dropped_fraction"],
        "kept_length": s["mean_length_trained"] / s["mean_length_generated"],
        "steady": float(s["steady"]),
    }
    lengths = np.stack([work.mean((1, 2)), work.max((1, 2))], axis=-1)
    return numbers, Batches(cells, ages, moments, lengths, s["staleness"]["mean"], warm)


def _tail(system: Any, batches: int, size: int, seed: int, realizations: int) -> Tail:
    """99th percentile of the staleness of trained tokens."""
    from asyncsim.systems import _record, _summary

    def count(length: int, realization: int) -> np.ndarray:
        warm = length // 2
        state = system.simulate(length, size, realization, seed, warm=warm)
        version, _, work, _ = _record.trained(state, TOKENS)
        stale = (state.batch.version[: len(version)].reshape(-1, 1, 1, 1) - version)[warm:].astype(np.int64)
        return np.bincount(stale.ravel(), np.broadcast_to(work[warm:, ..., None], stale.shape).ravel())

    return _summary.tail(system, batches, size, count, realizations, SAMPLES)


def known_fields(names: Mapping[str, Any], trainer: str, of: str, fields: Collection[str] = FIELDS) -> None:
    """Refuse all unknown fields of a system description at once; for a trainer's option, name the right field."""
    near = {n: _meant(n, trainer, of, fields).replace("VALUE", str(x)) for n, x in names.items() if n not in fields}
    for name, meant in near.items():
        error = checks.InputError("field of the system", name, "a field", meant or "`asyncsim list fields` has all")
        for other in [*near][1:]:
            error.add_note(f"also {other}: {near[other] or 'no such field; `asyncsim list fields` has all'}")
        raise error.explaining(" ".join(n for n in near if not near[n]), {n: FIELDS[n][1] for n in fields}, 4)


def _meant(name: str, trainer: str, of: str, fields: Collection[str]) -> str:
    """What to write for a name that is no field; "" if nothing is near."""
    known = ""
    for word in checks.sectioned(name):
        known = known or checks.advice(word, of)
        for whose in (trainer, "", *TRAINERS):
            known = known or checks.hint(word, fields, "", 3.0) * (not whose)
            if not known and (row := TRAINERS.get(whose)) and (own := row.fields().get(word)):
                known = f"did you mean {own}? It is {whose}'s {word}{' over samples_per_prompt' * (f'{word}*' in row)}"
    return known or checks.advice(word, "learner") or checks.hint(word, fields, "", 0.75)


def _refuse_configuration(rows: Mapping[str, Any]) -> None:
    """Refuse a trainer's configuration, in which GPUs, batches of samples and maximum lengths stand for no field."""
    own = [n for n, each in rows.items() if isinstance(each, Mapping) and (n not in FIELDS or n == "trainer")]
    if not own:
        return
    inner = ", ".join(f"{name}={value!r}" for name, value in rows[own[0]].items() if name in FIELDS)
    nested = len(own) == 1 and {*rows[own[0]]} <= {*FIELDS}
    checks.require(not nested, "field of the system", own[0], "a field, not a mapping of fields", f"write {inner}")
    import pandas as pd

    theirs = {name: each for name, each in rows.items() if name in own or name not in FIELDS}
    (flat,) = pd.json_normalize(theirs).to_dict("records")
    last = {name: name.rpartition(".")[2] for name in flat}
    trainer = next((name for name, each in TRAINERS.items() if each.limit in last.values()), "TRAINER")
    owners = TRAINERS[trainer].fields() if trainer in TRAINERS else {}
    field = r"did you mean ((?!response_lengths)\w+)\?(?! A machine|.*over samples)"
    pairs = {
        meant[1]: f" --set {meant[1]}={value}".lower()
        for name, value in sorted(flat.items(), key=lambda each: last[each[0]] in owners)
        if isinstance(value, bool) or (checks.is_number(value) and value > 0)
        if (meant := re.match(field, _meant(name, trainer, "advise", FIELDS)))
    }
    write = f"in a shell write asyncsim advise {trainer}{''.join(pairs.values())}, and add what its answer asks for"
    raise checks.InputError("system", ", ".join(own), "a description, not a trainer's configuration", write)


def read(rows: Mapping[str, Any], folder: Path, prefix: str | None = None) -> dict[str, Any]:
    """Check a description, and fill in defaults; what varies becomes lists. One that is run has a `prefix`."""
    rows = per_machine(rows)
    _refuse_configuration(rows)
    known_fields(rows, str(rows.get("trainer")), "advise")
    lacks = [name for name, (usual, _) in FIELDS.items() if usual is ... and name not in rows]
    if lacks:
        lacks += ["staleness_limit"] * (prefix is not None and "staleness_limit" not in rows)
        each = " ".join(f"--set {prefix or ''}{name}={checks.advice(name, 'example')}" for name in lacks)
        remedy = f"add each, as NAME: VALUE, or in a shell {each}"
        lacking = checks.InputError("field of the system", ", ".join(lacks), "given", remedy)
        raise lacking.explaining("", {name: FIELDS[name][1] for name in lacks})
    given = {name: rows.get(name, usual) for name, (usual, _) in FIELDS.items()}
    one, *more = str(given["trainer"]).strip("[]").replace("'", "").replace(" ", "").split(",")
    remedy = f"name the trainer whose limit it is; {SYNCHRONOUS}"
    remedy = f"one a run: give trainer={one}, and run the command again with trainer={more[0]}" if more else remedy
    checks.one_of("trainer", given["trainer"], TRAINERS, checks.advice(one, "trainer", otherwise=remedy))
    trainer = TRAINERS[given["trainer"]]
    fixed = [trainer.partial] if isinstance(trainer.partial, bool) else [True, False]
    given["staleness_limit"] = trainer.limits if given["staleness_limit"] is None else given["staleness_limit"]
    given["partial_rollouts"] = fixed[:1] if given["partial_rollouts"] is None else given["partial_rollouts"]
    if given["publish_every"] is None:
        make = plugins.load("asyncsim.systems", trainer.preset, "system")
        given["publish_every"] = make.knobs[trainer.publish].usual if trainer.publish else 1
    for name in ("machines", "staleness_limit", "partial_rollouts"):
        span = re.match(r"([\d.]+?)(?::|\.\.|-)([\d.]+)(:|$)", str(given[name]))
        listed = f"write each value, as {name}={span[1]},{span[2]}" if span else ""
        checks.require(not span, name, given[name], "values, not a range", listed)
        given[name] = list(given[name]) if isinstance(given[name], (list, tuple)) else [given[name]]
        different = bool(given[name]) and len(set(given[name])) == len(given[name])
        checks.require(different, name, given[name], "one value or different ones", FIELDS[name][1])
    counts = [(name, given[name]) for name in ("slots_per_machine", "prompts_per_batch", "samples_per_prompt")]
    counts += [("publish_every", given["publish_every"]), *(("machines", number) for number in given["machines"])]
    counts += [("prompts_at_once", given["prompts_at_once"])] if given["prompts_at_once"] is not None else []
    for name, number in counts:
        checks.integer(name, number, 1, FIELDS[name][1], checks.LARGEST)
    remedy = f"give {trainer.limit} in {given['trainer']}'s own unit; several limits are a list, [0, 1, 2, 4]"
    remedy += "; for no limit one that nothing reaches, as 1000"
    given["staleness_limit"] = sorted(checks.real("staleness_limit", x, remedy, 0.0) for x in given["staleness_limit"])
    for value in given["partial_rollouts"]:
        one = "give one per run; asyncsim advise compares both" * (prefix is not None)
        checks.boolean("partial_rollouts", value, one or "for both write partial_rollouts=[True,False], today's first")
        bound, remedy = f"{fixed[0]} for {given['trainer']}", "the trainer has no other way; leave the field out"
        checks.require(value in fixed, "partial_rollouts", value, bound, remedy)
    given["sync_seconds"] = checks.real("sync_seconds", given["sync_seconds"], FIELDS["sync_seconds"][1], 0.0)
    for name in ("response_lengths", "train_seconds"):
        value = given[name]
        file = isinstance(value, str) and FILE.search(value)
        given[name] = from_file(name, str(folder / value.removeprefix("@"))) if file else as_law(name, value)
    for name in ("model", "measured", "drift"):
        checks.require(isinstance(given[name], Mapping), name, given[name], "a mapping", FIELDS[name][1])
    rates, speeds = given["tokens_per_second"] = _speeds(given["tokens_per_second"])
    if len(rates) > 1 and rates[-1] < given["slots_per_machine"]:
        ends = f"tokens_per_second ends at {rates[-1]} responses at once; {speeds[-1]:g} is used from there on"
        warnings.warn(checks.RunWarning(f"{ends}: add a row for {given['slots_per_machine']}"), stacklevel=3)
    between = given["publish_every"] * (train := given["train_seconds"].mean())
    for name, value, most, unit in (
        ("tokens_per_second", max(speeds), 1_000.0, "tokens a second of one response, not of a machine"),
        ("train_seconds", train, 10_000.0, "seconds of one training step"),
        ("sync_seconds", given["sync_seconds"], between, f"seconds of one sync (training takes {between:g} s)"),
    ):
        slow = name == "tokens_per_second" and value < 1.0
        if value > most or slow:
            size = "small" if slow else "large"
            warnings.warn(checks.RunWarning(f"{name} = {value:g} is {size}; is its unit {unit}?"), stacklevel=3)
    law = given["response_lengths"]
    if law.kind == "lognormal" and 3.0 < (mean := law.mean()) < 12.0:
        tokens = f"write lognormal:{math.exp(mean + law.parameters[1] ** 2 / 2.0):.0f}:{law.parameters[1]:g}"
        doubt = f"response_lengths has a mean of {mean:g} tokens; if {mean:g} is the mean of their logarithms, {tokens}"
        warnings.warn(checks.RunWarning(doubt), stacklevel=3)
    return {**given, "unsaid": {*FIELDS} - {*rows}}


def _speeds(value: Any) -> tuple[list[int], list[float]]:
    """Tokens per second of one response by the number of responses on its machine, ascending."""
    name, remedy = "tokens_per_second", FIELDS["tokens_per_second"][1]
    if not isinstance(value, Mapping):
        return [1], [checks.real(name, value, remedy, 0.0, open_low=True)]
    checks.require(bool(value), name, value, "a table with a row at least", remedy)
    rows = sorted(checks.integer(f"{name} row", n, 1, "count responses at once", 1 << 16) for n in value)
    return rows, [checks.real(f"{name} at {n}", value[n], remedy, 0.0, open_low=True) for n in rows]


def pooled(rows: Sequence[int], speeds: Sequence[float], machines: int, slots: int) -> tuple[float, ...] | None:
    """Generation speed per response with n responses on all machines, relative to one response, by interpolation.

    n = f machines + k responses are spread evenly: k machines have f + 1 of them, the others f. The speed is the mean
    over responses. None if the speed is constant.
    """
    if len(set(speeds)) == 1:
        return None
    each = np.interp(np.arange(slots + 2), rows, speeds)
    n = np.arange(1, machines * slots + 1)
    f, more = n // machines, n % machines
    written = more * (f + 1) * each[f + 1] + (machines - more) * f * each[f]
    return tuple((written / n / each[1]).tolist())


def options_of(trainer: Trainer, made: Any, machines: int) -> dict[str, Any]:
    """Options to set in the trainer for a simulated preset; with replicas, machines share the number in generation."""
    if "replicas" not in made.knobs:
        return dict(made.knobs)
    return {**made.knobs, trainer.running: -(-made.knobs[trainer.running] // machines), "replicas": machines}


def system_of(given: Mapping[str, Any], limit: float, machines: int, partial: bool) -> tuple[Any, str]:
    """Preset of a described trainer at one setting, and where it differs from the trainer's defaults."""
    trainer = TRAINERS[given["trainer"]]
    size, batch, slots = given["samples_per_prompt"], given["prompts_per_batch"], machines * given["slots_per_machine"]
    limit = int(limit) if float(limit).is_integer() else limit
    running = given["prompts_at_once"] or slots
    fits, remedy = trainer.running or not given["prompts_at_once"], f"{given['trainer']} has no such option"
    checks.require(bool(fits), "prompts_at_once", running, "unset", f"{remedy}: leave the field out")
    if trainer.preset == "skyrl":
        remedy = "its workers are a batch at least: give more, or leave it out"
        enough = running >= batch or not given["prompts_at_once"]
        checks.require(enough, "prompts_at_once", running, f"at least prompts_per_batch = {batch} of skyrl", remedy)
        # Its workers are a batch at least, and no more than its permits.
        running = int(min(max(running, batch), batch * (limit + 1)))
    # Trainers count prompts or, where `*` says so, samples; slots need not hold all samples of a prompt.
    at_once = running * size if given["prompts_at_once"] else max(slots, size)
    values = {**given, "staleness_limit": limit, "partial_rollouts": partial}
    values["prompts_per_batch"] = batch * size if trainer.batch.endswith("*") else batch
    values["prompts_at_once"] = at_once if trainer.running.endswith("*") else running
    owners = trainer.fields()
    knobs = {name: values[field] for name, field in owners.items()}
    remedy = f"{given['trainer']} syncs after every step; leave the field out"
    own = bool(trainer.publish) or given["publish_every"] == 1
    checks.require(own, "publish_every", given["publish_every"], "1", remedy)
    rows, speeds = given["tokens_per_second"]
    decode = pooled(rows, speeds, machines, given["slots_per_machine"])
    model = {"slots": slots, "rate": speeds[0], **({"decode": decode} if decode else {}), **given["model"]}
    times = {name: given[f"{field}_seconds"] for name, field in (("train_time", "train"), ("sync_time", "sync"))}
    make = plugins.load("asyncsim.systems", trainer.preset, "system")
    try:
        made = make(**knobs, **times, length=given["response_lengths"], model=model)
        usual = {n: make.knobs[n] for n in knobs if owners[n] in given["unsaid"] and n != trainer.limit}
        shown = options_of(trainer, made, machines)
        words = {n: f"{n} {_UNSET.get(k.usual, k.usual)}" for n, k in usual.items() if k.usual != shown[n]}
        unit = " over machines" if "replicas" in shown else ", in samples" * trainer.running.endswith("*")
        runs = trainer.running.removesuffix("*")
        words = {n: f"{w} (field {owners[n]}{unit * (n == runs)})" for n, w in words.items()}
        differs = f"`asyncsim list systems {trainer.preset}` explains them."
        differs += f" The trainer's own defaults: {'; '.join(words.values())}." * bool(words)
        if running < (given["prompts_at_once"] or 0):
            differs += f" It allows {running} prompts at once, fewer than yours."
        if runs in words and "replicas" in shown:
            differs += f" To simulate this, set prompts_at_once to {make.knobs[runs].usual * machines}."
        elif runs in words:
            differs += " If this is fewer than your slots, some slots stay idle; set prompts_at_once to your own value."
        return made, differs
    except checks.InputError as error:
        own = f"{owners[error.field]} ({error.field})" if error.field in owners else error.field
        none = f"; {SYNCHRONOUS}" * (error.field == trainer.limit and error.value == 0)
        raise checks.InputError(own, error.value, error.bound, error.remedy + none) from None


def _about(trainer: Trainer, given: Mapping[str, Any]) -> str:
    """Describe the system in one sentence."""
    slots, (_, speeds) = given["machines"][0] * given["slots_per_machine"], given["tokens_per_second"]
    speed = f"{speeds[0]:g}" if len(speeds) == 1 else f"{speeds[-1]:g} to {speeds[0]:g}"
    lengths, train, doubt = given["response_lengths"], given["train_seconds"].mean(), ""
    length, sync, every, note = lengths.mean(), given["sync_seconds"], given["publish_every"], ""
    spread = f" (standard deviation {lengths.deviation():.4g})" * (0.0 < lengths.deviation() < math.inf)
    if lengths.kind == "constant":
        doubt = f" All responses have exactly {length:g} tokens: if this is their mean, write lognormal:{length:g}:0.8."
    elif lengths.kind == "empirical" and (n := len(lengths.parameters)) > 1:
        mean, low, _ = mean_interval(lengths.parameters)
        error = f"{100.0 * (mean - low) / mean:.2g} % (95 %)"
        doubt = f" The mean of the {n} lengths is uncertain by {error}; the intervals below take it as exact."
    elif lengths.kind not in ("empirical", "recorded") and not lengths.cut:
        longest = lengths.expected_max(min(given["prompts_per_batch"] * given["samples_per_prompt"], 10_000))
        text = ":".join([lengths.kind, *(f"{each:g}" for each in lengths.parameters)])
        doubt = f" Lengths have no maximum: the longest response of a step has {longest:,.0f} tokens on average; if the"
        doubt += f" trainer stops at 8,192, write response_lengths={text}:8192."
    if trainer.publish and "publish_every" in given["unsaid"]:
        note = " (the trainer's default; yours is publish_every)"
    return (
        f"{given['trainer']} ({trainer.preset}): {slots} slots on {plural(given['machines'][0], 'machine')}, {speed} "
        f"tokens per second each; {given['prompts_per_batch']} prompts x {given['samples_per_prompt']} responses of "
        f"{length:.4g} tokens on average{spread}; {train:g} s per training step, {sync:g} s per sync after every "
        f"{f'{every} steps' if every > 1 else 'step'}{note}. The limit is {trainer.limit}.{doubt}"
    )
