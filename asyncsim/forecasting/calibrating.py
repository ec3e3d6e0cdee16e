"""Calibration: the parameters of a run from its trainer's log, with intervals and drift, as input of `advise`."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import calls, checks, files, laws
from asyncsim.base.pages import page
from asyncsim.base.quantiles import critical
from asyncsim.base.uncertainty import batch_means
from asyncsim.diagnosing import aliases, mismatch, telemetry
from asyncsim.forecasting import drifts
from asyncsim.schedules.replay import replay
from asyncsim.sweeping import advising

FEWEST = 16
"""Steps behind the warm-up from which on means have an interval."""
REALIZATIONS, ROUNDS = 4, 5
"""Realizations of the event model whose staleness stands in for what a log lacks; rounds that fit lengths to it."""
TABLE = checks.table(__file__, "quantities.toml")
CUT = 0.05
"""Spread of the longest response of a step, relative, below which a limit cuts lengths: a log-normal's is wider."""
CUTS = ("response_length/clip_ratio", "completions/clipped_ratio", "response_clip_ratio")
"""Columns of the share of responses that the limit cuts."""
RARE = 1e-3
"""Share of cut responses from which on it matters."""
SELECTED = 0.01
"""Share of discarded responses from which on trained ones do not stand for all."""
QUANTILES = 1000
"""Numbers of a lengths file that stand for a distribution."""
FEWER = 0.75
"""Step of the search for the fewest prompts at once, as a factor."""
SURE = 0.05
"""Wait of a batch, in steps, from which on it is not the time in which a trainer wakes up."""
STRETCHES = 6
"""Stretches of the log whose pauses are compared."""
NEXT = 0.1
"""Pause of a slot, in mean responses, below which nothing but the slot kept the next response waiting."""
OWN = "seconds of training"
"""Scope of a column that has all of training, not a part of it."""
UPDATES = "training/global_step"
"""verl's count of updates, in logs that have one row per sync."""
SCOPES = ("groups", "samples", "rollouts")
"""Staleness that is logged as a mean over these is that of the first token."""


class Measured(NamedTuple):
    """Mean of one logged quantity over the run, with its 95 % interval, its log `column` and the number of `steps`."""

    value: float
    low: float
    high: float
    column: str
    steps: int
    freedom: float
    scope: str = ""

    def row(self) -> dict[str, Any]:
        """Convert the mean, its interval and its origin to plain values for the description that `save` writes."""
        numbers = {name: float(f"{getattr(self, name):.6g}") for name in ("value", "low", "high")}
        about = {"from": self.column, "steps": self.steps, "freedom": self.freedom}
        return {**numbers, **about, **({"scope": self.scope} if self.scope else {})}


def mean_of(values: np.ndarray, column: str, scope: str = "", fewest: int = FEWEST) -> Measured | None:
    """Mean of an autocorrelated series with the wider of two batch-means intervals; None for too few values."""
    values = values[np.isfinite(values)]
    if len(values) < max(fewest, 4):
        return None
    most = min(len(values), max(6, min(24, len(values) // 6)))
    found = [batch_means(values, n) for n in (most, max(4, most // 2))]
    widest = max(found, key=lambda each: each.error * critical(0.05, each.freedom))
    value, half = float(values.mean()), widest.error * critical(0.05, widest.freedom)
    return Measured(value, value - half, value + half, column, len(values), widest.freedom, scope)


@dataclass(frozen=True)
class Calibration(calls.Told):
    """Description of a logged run: `fields` as `advise` takes them, `measured` and `drift` by quantity.

    `lengths`, tokens of responses, where the log has them one by one; `notes`, what is assumed or not known; `rows`,
    the seconds of a row and of an update where a row is several updates.
    """

    fields: dict[str, Any]
    measured: dict[str, Measured]
    drift: dict[str, drifts.Drift]
    lengths: np.ndarray | None
    notes: tuple[str, ...]
    steps: int
    warm: int
    given: tuple[str, ...] = field(default=())
    rows: str = ""

    def row(self) -> dict[str, Any]:
        """Convert the run's full description to plain values, without the response lengths."""
        measured = {name: each.row() for name, each in self.measured.items()}
        return {**self.fields, "measured": measured, "drift": {name: each.row() for name, each in self.drift.items()}}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run's description as YAML, and its response lengths beside it as `NAME.lengths.txt`."""
        import yaml

        path, row = files.named("path", path), self.row()
        fits, remedy = path.suffix in (".yaml", ".yml"), f"write {path.stem}.yaml"
        checks.require(fits, "path", str(path), "a path ending in .yaml", remedy)
        if self.lengths is not None:
            beside = path.with_name(f"{path.stem}.lengths.txt")
            text = "".join(f"{n:g}\n" for n in self.lengths)
            files.write_atomically(beside, lambda file: file.write(text.encode()))
            row["response_lengths"] = beside.name
        text = yaml.safe_dump(row, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
        files.write_atomically(path, lambda file: file.write(text.encode()))

    def __str__(self) -> str:
        """Format what was read, with columns and intervals, what was given, and what is unknown."""
        means = [f"  {n:16} {x.value:.4g} [{x.low:.4g}, {x.high:.4g}]  {x.column}" for n, x in self.measured.items()]
        found = [f"  {name:16} {', '.join(each.words())}" for name, each in self.drift.items()]
        return page("calibration", kept={*means, *found}, c=self, means=means, drifts=found)


@calls.named
def calibrate(
    logs: Any,
    preset: str,
    out: str | os.PathLike[str] | None = None,
    columns: Any = None,
    run: str | None = None,
    stack: str | None = None,
    **given: Any,
) -> Calibration:
    """Estimate a run's response lengths, rates, seconds and log-ratio drift from its log, for `advise` and `forecast`.

    Means are over the steps after the warm-up, with 95 percent intervals from the spread between stretches of steps.
    Drift is v(s) = floor + a s + b s^2 in nats^2 per token, s in training steps since a token's weights (0 at first).

    Arguments: `logs`, columns by name, a path or several of one run; a file has a row a step, a token or a sample.
    `preset`, the trainer as in docs/which-limit.md. `out`: where to write the description. `columns` and `run` as in
    `diagnose`; `stack` as in `schedules.replay`. What a log does not have is `given` by the names of that page, such as
    slots_per_machine=8. Returns a `Calibration`. Raises `InputError` that names what is missing, and what to log.
    Assumes a run that is steady behind its warm-up. Source: this package; each law names its claim.
    """
    several = list(logs) if isinstance(logs, (list, tuple)) else [logs]
    checks.require(bool(several), "logs", logs, "one or more", "name the files of one run")
    described = [str(each) for each in several if str(each).endswith((".yaml", ".yml"))]
    checks.require(not described, "logs", described, "logs, not a system", "give its fields as --set NAME=VALUE")
    read = _read(several, columns, run, stack)
    logged = aliases.beside((name for name in read.names.values() if "/" in name), ())[0].lower().replace("-", "_")
    wrote = f"its columns are those of {logged}: write preset='{logged}'" if logged in advising.TRAINERS else ""
    checks.one_of("preset", preset, advising.TRAINERS, wrote or "name the trainer that wrote the log")
    given = advising.per_machine(advising.renamed(given, preset))
    advising.known_fields(given, preset, "calibrate")
    if logged in {*advising.TRAINERS} - {preset}:
        warnings.warn(checks.RunWarning(TABLE["other_trainer"].format(logged, preset)), stacklevel=2)
    fields = _fields(preset, read, given)
    lacking = {name: words for name, words in TABLE["lacking"].items() if fields.get(name) is None}
    lacking |= {name: TABLE["cut"] for name in {*lacking} & {"response_lengths"} if "length_max" in read.series}
    if {*lacking} - {"machines"}:
        gaps = checks.InputError("log", ", ".join(lacking), "known", "add these, or log them")
        words = {f"{name}=VALUE": words for name, words in lacking.items()}
        why = {**read.telemetry.refused, **read.telemetry.unknown} if read.telemetry else {}
        left = [n for n, each in why.items() if not isinstance(each, str) or each.startswith(("lengths", "seconds"))]
        words |= {"columns='OURS=THEIRS'": TABLE["unread"].format(", ".join(left))} if left else {}
        raise gaps.explaining("", words)
    fields = {name: fields[name] for name in advising.FIELDS if fields.get(name) is not None}
    limit, remedy = fields["staleness_limit"], "give the limit at which the log ran"
    checks.require(not isinstance(limit, (list, tuple)), "staleness_limit", limit, "one number", remedy)
    lengths = None if "response_lengths" in given else read.lengths
    steps, own = read.steps, ({} if lengths is None else {"response_lengths": laws.empirical(lengths)})
    bound = f"{read.warm + FEWEST} or more: {read.warm} warm up, and an interval needs {FEWEST}"
    checks.require(steps - read.warm >= FEWEST, "steps of the log", steps, bound, "give a longer part of the run")
    known = advising.read(fields | own, Path())
    measured, each = _measured(read, read.warm, known), read.batches_of(known)
    one, slots = measured.get("tokens"), known["machines"][0] * known["slots_per_machine"]
    if one and one.high < slots:
        warnings.warn(checks.RunWarning(TABLE["slow"].format(one.value, slots)), stacklevel=2)
    if one and "tokens_per_second" in given:
        fastest = max(known["tokens_per_second"][1])
        bound = f"{one.low / slots:.4g} or more: the log has {one.value:.4g} tokens per second"
        remedy = f"give the rate of one of {slots} slots, or more machines or slots_per_machine"
        remedy += f"; a row counts as {each} updates, {read.why(known)}" * (each > 1)
        checks.require(fastest * slots >= one.low, "tokens_per_second", fastest, bound, remedy)
    taken = {*given, *own}
    fields |= _rates(measured, known, taken)
    size = known["samples_per_prompt"]
    for _ in range(ROUNDS):
        known = advising.read(fields | own, Path())
        now, _ = advising.system_of(known, limit, known["machines"][0], known["partial_rollouts"][0])
        many = (read.first + steps) * each
        ran = [advising.measure(now, many, size, 0, k) for k in range(REALIZATIONS)]
        found = [
            x._replace(moments=x.moments[:many], lengths=x.lengths[:many], warm=min(x.warm, many // 2)) for _, x in ran
        ]
        if read.log is not None and own and "length_max" in read.series and ran[0][0]["dropped"] > SELECTED:
            lengths, own, taken = None, {}, {*given}
            fields |= _rates(measured, known, taken)
            read.notes.append("The log lacks discarded responses, which are longer: a log-normal stands for lengths.")
            continue
        if "longest_response" not in measured or "response_lengths" in taken:
            break
        # Trained responses have the lengths of the log: those that are discarded are longer.
        law, (mean, longest) = known["response_lengths"], np.mean([x.lengths[x.warm :].mean(0) for x in found], axis=0)
        own_mean, own_longest = measured["response_tokens"].value, measured["longest_response"].value
        sigma = law.parameters[1] * math.log(max(own_longest / own_mean, 1.001)) / math.log(max(longest / mean, 1.001))
        fields["response_lengths"] = f"lognormal:{law.mean() * own_mean / mean:.6g}:{min(sigma, 3.0):.4g}"
    warm = max(read.warm, min(-(-found[0].warm // each) - read.first, steps - FEWEST, steps // 2))
    measured = _measured(read, warm, known)
    drift, notes = _drifts(read, found, known["prompts_per_batch"], each, now.batches_per_publish)
    usual = {"train_seconds": known["train_seconds"].mean(), "sync_seconds": known["sync_seconds"]}
    for name in sorted(usual.keys() & given & measured.keys()):
        one, value = measured[name], usual[name]
        if abs(value - one.value) > max(one.high - one.value, SURE * one.value):
            unit = f", where a row counts as {each} updates, {read.why(known)}" * (each > 1)
            notes.append(f"{name} is given as {value:.4g}, which forecasts use; the log has {one.value:.4g}{unit}.")
    notes += [read.overlap] * (bool(read.overlap) and "train_seconds" not in given)
    if "staleness_mean" not in read.series:
        others = (*read.telemetry.refused, *read.telemetry.unknown) if read.telemetry else ()
        near = next(filter(aliases.STALE.search, others), "COLUMN")
        notes.append(TABLE["no_staleness"].format(near))
    if not drift:
        notes.append(TABLE["no_drift"])
    notes += _fewer_at_once(known, measured, many)
    for odd, alike in read.telemetry.unknown.items() if read.telemetry else ():
        ours = aliases.steps(True).get((*alike, "step")[0], ("step",))[0]
        notes += [TABLE["unknown"].format(odd, ours)] * (ours not in {*read.series, "step"})
    fields |= _rates(measured, known, {*taken, "response_lengths"})
    kept = tuple(name for name in given if name in fields)
    pace = measured["seconds"].value if "seconds" in measured and each > 1 else 0.0
    rows = TABLE["rows"].format(each, read.why(known), each * pace, pace) * (pace > 0.0)
    notes = [*assumed(known), *read.notes, *notes]
    made = Calibration(fields, measured, drift, lengths, tuple(notes), steps, warm, kept, rows)
    if out is not None:
        made.save(out)
    return made


def assumed(known: Mapping[str, Any]) -> list[str]:
    """Describe the settings taken from the trainer's preset because the caller gave none; empty if all are given."""
    trainer, machines = advising.TRAINERS[known["trainer"]], known["machines"][0]
    knob, samples, _ = trainer.running.partition("*")
    made, _ = advising.system_of(known, known["staleness_limit"][0], machines, known["partial_rollouts"][0])
    at_once = knob and f"{made.knobs[knob]}{' responses' if samples else ''}, from the number of slots"
    usual = {"prompts_at_once": at_once, "machines": "1", "publish_every": trainer.publish and known["publish_every"]}
    usual |= {"sync_seconds": "0", "partial_rollouts": "true" if isinstance(trainer.partial, str) else ""}
    words = "; ".join(f"{name} {value}" for name, value in usual.items() if value and name in known["unsaid"])
    return [TABLE["assumed"].format(words)] * bool(words)


def _fewer_at_once(known: Mapping[str, Any], measured: Mapping[str, Measured], many: int) -> list[str]:
    """Note with how few prompts at once, which no log has, the seconds per update of the log come out as well."""
    trainer, batch, size = (known[name] for name in ("trainer", "prompts_per_batch", "samples_per_prompt"))
    knob = advising.TRAINERS[trainer].running
    if not knob or "prompts_at_once" not in known["unsaid"] or "seconds" not in measured:
        return []
    now = [known[name][0] for name in ("staleness_limit", "machines", "partial_rollouts")]
    fits = usual = now[1] * known["slots_per_machine"] // (size if knob.endswith("*") else 1)
    while (fewer := int(FEWER * fits)) >= (batch if trainer == "skyrl" else max(1, batch // 2)):
        made, _ = advising.system_of({**known, "prompts_at_once": fewer}, *now)
        seconds = advising.measure(made, many, size, 0, 0)[0]["seconds"]
        if not measured["seconds"].low <= seconds <= measured["seconds"].high:
            break
        fits = fewer
    return [TABLE["fewer_at_once"].format(fits, usual)] * (fits < usual)


SAMPLED = {"sample_id", "train_version", "train_step", "start_version", "versions", "call_versions"}
"""Columns that only a log with a row a sample has."""


@dataclass
class Read:
    """Contents of a run's logs: series by quantity `[U]` with their columns, sample rows, and response lengths."""

    series: dict[str, np.ndarray] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    scope: dict[str, str] = field(default_factory=dict)
    telemetry: telemetry.Telemetry | None = None
    log: Any = None
    lengths: np.ndarray | None = None
    pauses: np.ndarray | None = None
    first: int = 0
    stride: int = 0
    overlap: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Number of steps in the longest logged series."""
        return max((len(each) for each in self.series.values()), default=0)

    @property
    def rows_of_sync(self) -> int:
        """Log rows per weight sync, if every two syncs are equally many rows apart; else 1."""
        gaps = np.diff(np.flatnonzero(np.nan_to_num(self.series.get("seconds_sync", np.empty(0))) > 0.0))
        return int(gaps[0]) if len(gaps) and (gaps == gaps[0]).all() else 1

    def batches_of(self, known: Mapping[str, Any]) -> int:
        """Updates per log row; verl logs one row per weight sync, with all seconds since the previous sync."""
        summed = self.rows_of_sync == 1 and any(n.startswith("timing_s/") for n in self.names.values())
        return (self.stride or int(known["publish_every"])) if summed else 1

    def why(self, known: Mapping[str, Any]) -> str:
        """Explain how many updates a log row covers, and how to set another number."""
        if self.stride:
            return TABLE["stride"].format(self.stride)
        return TABLE["sync" if "publish_every" in known["unsaid"] else "said"].format(known["publish_every"])

    @property
    def warm(self) -> int:
        """Number of warm-up steps, until staleness reaches 90 % of its later mean; at least the first step."""
        if self.first > 0:
            return 0
        stale, half = self.series.get("staleness_mean"), self.steps // 2
        if stale is None or not np.isfinite(stale[half:]).any():
            return 1
        risen = np.flatnonzero(stale >= 0.9 * np.nanmean(stale[half:]))
        return max(1, min(int(risen[0]) if len(risen) else half, half))


def _read(logs: Sequence[Any], columns: Any, run: str | None, stack: str | None) -> Read:
    """Read all logs of one run, each with rows per step, token or sample."""
    read, of_steps = Read(), set[str]()
    pairs = columns if isinstance(columns, Mapping) else str(columns or "").split(",")
    sampled = not SAMPLED.isdisjoint(str(each).partition("=")[0].strip() for each in pairs)
    unit = None if stack else "publishes"
    own = {"columns": columns} if stack or sampled else {}
    for source in logs:
        refused = None
        try:
            if isinstance(source, (str, os.PathLike)):
                _samples(read, replay(source, stack=stack, unknown="keep", unit=unit, **own).log)
                continue
        except checks.InputError as error:
            refused = error
        try:
            found = telemetry.read(source, None, telemetry.Setup(), columns, run, system=True)
        except checks.InputError as error:
            # A row a sample, which `replay` has refused for a reason of its own.
            samples = stack or sampled or "asyncsim log" in error.remedy
            if samples and hasattr(source, "to_json"):
                remedy = "give a file: df.to_json('samples.jsonl', orient='records', lines=True)"
                raise checks.InputError("logs", "a DataFrame", "of steps; here a row is a sample", remedy) from None
            raise refused if refused is not None and samples else error from None
        if found.tokens is not None:
            read.telemetry = found
            continue
        step = found.quantities["step"]
        # W&B counts calls, several of which may be a step, and verl updates, several of which are a row.
        counts = ("Step", "_step", UPDATES)
        apart = (step[-1] - step[0]) / max(len(step) - 1, 1) if found.names.get("step") in counts else 1.0
        read.stride = round(apart) if found.names.get("step") == UPDATES else 0
        read.first = max(0, round(step[0] / max(apart, 1.0)) - 1)
        # Steps of one file may repeat what samples of another imply; two tables of steps are two runs.
        twice = sorted(of_steps & {*found.quantities} - {"step"})
        of_steps |= {*found.quantities}
        checks.require(not twice, "logs", ", ".join(twice), "read from one file each", "give the files of one run")
        read.series |= {name: each for name, each in found.quantities.items() if name != "step"}
        read.names |= found.names
        read.scope |= found.scope
        read.notes += [f"{found.names[name]} is read as milliseconds." for name in found.milliseconds]
        if "sync_after" in found.names and "sync_after" not in (columns or {}):
            read.notes.append(TABLE["after"].format(found.names["sync_after"], found.names.get("seconds_step")))
        read.telemetry = read.telemetry or found
    clock = read.series.pop("clock", None)
    if clock is not None and "seconds_step" not in read.series and "sync_after" not in read.series:
        read.series["seconds_step"] = np.append(np.nan, np.diff(clock))
        read.names["seconds_step"] = f"differences of {read.names['clock']}"
    checks.require(bool(read.series), "logs", "tokens alone", "with one row per step or sample", "add the log of steps")
    return read


def _samples(read: Read, log: Any) -> None:
    """Read series from a log with one row per sample: staleness, tokens and seconds per batch, and all lengths."""
    import pandas as pd

    read.log, column = log, log.samples
    used, length = column["trained"], log.steps.length.astype(float)
    names = [name for name in ("t_start", "t_end", "t_ready", "t_train") if name in column]
    rows = pd.DataFrame({n: column[n][used] for n in ("batch", "token_mean", "head", "v_start", "v_end", *names)})
    rows["length"] = length[used]

    def add(name: str, values: Any, origin: str) -> None:
        """Means over the samples of every batch, NaN if one value is unknown."""
        read.series[name] = pd.Series(values).groupby(rows["batch"]).agg(lambda x: x.to_numpy().mean()).to_numpy()
        read.names[name] = origin

    for key, scope in (("token_mean", "tokens"), ("head", "samples")):
        if "staleness_mean" not in read.series and rows[key].notna().all():
            # Of tokens, as trainers take the mean of a step.
            size = rows["length"] if key == "token_mean" and (rows["length"] > 0).all() else 0.0 * rows["length"] + 1.0
            share = size / size.groupby(rows["batch"]).transform("mean")
            add("staleness_mean", rows[key] * share, f"versions of samples ({key})")
            read.scope["staleness_mean"] = scope
    if (rows["length"] > 0).all():
        read.lengths = length[length > 0]
        add("length_mean", rows["length"], "tokens")
        if not length[~used].any():
            read.series["length_max"] = rows.groupby("batch")["length"].max().to_numpy()
            read.names["length_max"] = "tokens"
        if {"t_start", "t_end"} <= {*names}:
            span = rows["t_end"] - rows["t_start"]
            bound, remedy = "at or behind t_start", "write all times from one clock, in seconds"
            checks.require(not (span < 0.0).any(), "t_end", float(span.min()), bound, remedy)
            add("rate", span, "tokens, t_start, t_end")
            add("syncs", rows["v_end"] - rows["v_start"], "")
            read.pauses = pauses(column["t_start"], column["t_end"])
            read.notes.append("tokens_per_second is that of the log's load: give a table to let it follow the load.")
    if "reward" in column:
        add("reward", column["reward"][used], "reward")
    if "t_train" in names:
        batches = rows.groupby("batch")
        first = batches["t_train"].min().to_numpy()
        seconds = np.append(np.nan, np.diff(first))
        read.series["seconds_step"], read.names["seconds_step"] = seconds, "t_train"
        late = next((name for name in ("t_ready", "t_end") if name in names), None)
        if late is not None:
            # A batch that was ready well before it was trained waited for the trainer: all time between is training.
            # Of the others training took at most that time; to leave them out would leave out short times.
            until = batches[late].max().to_numpy() + SURE * np.nanmean(seconds)
            bound, most = until < first, until - np.append(np.nan, first[:-1])
            if bound[read.warm :].sum() >= FEWEST:
                factor = censored(np.where(bound, seconds, most)[read.warm :], bound[read.warm :])
                read.series["busy"] = np.where(bound, seconds * factor, np.nan)
                read.names["busy"] = "t_train of batches that waited for the trainer"
    if "fate" in column and not any("no column fate" in each for each in log.unchecked):
        read.notes.append("Discarded samples are those whose fate the log names.")


def pauses(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Pauses of a slot between two responses, divided by the mean response time, if only the slot causes the pauses.

    The k-th response that ends makes room for the k-th that starts when all slots are in use. Empty where most
    responses wait for the limit, or for others of their group: then short waits are theirs.

    >>> pauses(np.array([0.0, 0.0, 1.01, 2.02]), np.array([1.0, 2.0, 3.0, 4.0])).round(3)
    array([0.006, 0.011])
    """
    start, end, mean = np.sort(start), np.sort(end), float(np.nanmean(end - start))
    slots = int((np.arange(1, len(start) + 1) - np.searchsorted(end, start, "right")).max())
    found = (start[slots:] - end[: len(start) - slots]) / mean
    short = found < NEXT
    return found[short & (short.mean() > 0.5)]


def censored(seconds: np.ndarray, known: np.ndarray) -> float:
    """Kaplan-Meier mean of times, some known only by an upper bound, divided by the mean of the known times.

    >>> round(censored(np.array([1.0, 3.0, 3.0]), np.array([True, True, False])), 4)
    0.8333
    """
    from scipy.stats import CensoredData, ecdf

    # Times of the other sign are bounded from below, as in survival.
    cdf = ecdf(CensoredData.right_censored(-seconds, ~known)).cdf
    share = np.diff(cdf.probabilities, prepend=0.0)
    return float(-(cdf.quantiles @ share) / share.sum() / seconds[known].mean())


def _fields(preset: str, read: Read, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the description known from the log or the user; the user's values take precedence."""
    found: dict[str, Any] = {"trainer": preset}
    if read.log is not None:
        shape = read.log.grid.shape
        if "group_id" in "".join(read.log.unchecked):
            read.notes.append("The log has no group_id: each sample is taken as a prompt of its own.")
        found |= {"prompts_per_batch": shape[1], "samples_per_prompt": shape[2]}
        if advising.TRAINERS[preset].publish:
            found["publish_every"] = read.log.batches_per_publish
    elif advising.TRAINERS[preset].publish and read.rows_of_sync > 1:
        found["publish_every"] = read.rows_of_sync
        read.notes.append(f"publish_every {read.rows_of_sync}: rows between two syncs of the log.")
    for name, value in found.items():
        remedy = "leave it out: the log has it"
        if name == "samples_per_prompt" and value == 1:
            remedy = "map the log's column of groups: columns='group_id=THEIRS'"
        same = name == "trainer" or given.get(name, value) == value
        checks.require(same, name, given.get(name), f"{value}, as in the log", remedy)
    if read.stride and advising.TRAINERS[preset].publish and not {"publish_every"} & {*found, *given}:
        found["publish_every"] = read.stride
        read.notes.append(f"publish_every {read.stride}: {TABLE['stride'].format(read.stride)}, and a row is a sync.")
    names, longest, mean = read.series.keys(), read.series.get("length_max"), read.series.get("length_mean")
    if read.lengths is None and longest is not None and mean is not None:
        shares = [each for name, each in read.series.items() if name.removeprefix("share ") in CUTS]
        share = float(np.nanmean(shares[0][read.warm :])) if shares else 0.0
        typical, most = float(np.nanmean(mean[read.warm :])), float(np.nanmean(longest))
        if share > RARE:
            read.lengths = cut_lengths(typical, float(np.nanmax(longest)), share)
            read.notes.append("Lengths follow a truncated log-normal with the logged mean, maximum and share cut.")
        elif np.nanstd(longest) >= CUT * most or most < 1.1 * typical:
            found["response_lengths"] = 1.0
            cut = "" if shares else " If a limit cuts responses, log their share (verl: response_length/clip_ratio)."
            read.notes.append(f"Lengths follow a log-normal with the logged mean and mean maximum per step.{cut}")
    trains = "busy" in names or {"seconds_step", "seconds_wait"} <= names or any(n.startswith("part_") for n in names)
    # The numbers themselves are read when it is known how many rows warm up.
    has = {"tokens_per_second": "rate" in names, "response_lengths": read.lengths is not None, "train_seconds": trains}
    # No sync is longer than this training.
    return found | {name: 1e4 if name == "train_seconds" else 1.0 for name, known in has.items() if known} | dict(given)


def _measured(read: Read, warm: int, known: Mapping[str, Any]) -> dict[str, Measured]:
    """Means after the warm-up, per training step if rows are sums over several."""
    series, found, steps = read.series, dict[str, Measured](), read.batches_of(known)

    def add(name: str, values: Any, *names: str, origin: str = "", fewest: int = FEWEST) -> None:
        column = origin or ", ".join(read.names[each] for each in names if each in series)
        row = None if values is None else mean_of(values[warm:], column, read.scope.get(name, ""), fewest)
        if row is not None:
            found[name] = row

    def seconds(name: str) -> Any:
        """Series of seconds, 0 where missing."""
        return np.nan_to_num(series.get(name, 0.0))

    whole, wait, after = (series.get(name) for name in ("seconds_step", "seconds_wait", "sync_after"))
    parts = [name for name in series if name.startswith("part_")]
    trained: Any = sum(series[name] for name in parts)
    inside = ("seconds_step", "seconds_wait", "seconds_sync")
    if whole is not None and wait is not None:
        left = whole - wait - seconds("seconds_sync")
        parts = ["part_train"] if (own := read.scope.get("part_train") == OWN) else parts
        trained = sum(series[name] for name in parts) + 0.0 * whole
        ran, apart, waits, every = (float(np.nanmean(x[warm:])) for x in (trained, left, wait, whole))
        means = ", ".join(f"{read.names[n]} {np.nanmean(series[n][warm:]):.4g}" for n in inside if n in series)
        # A part of training that is longer than what the wait leaves of the step runs while responses are awaited.
        beside = bool(parts) and waits <= every and max(apart, 0.0) * (1.0 + SURE) < ran <= every
        checks.require(beside or not apart <= 0.0, "mean of columns", means, *TABLE["parts"])
        add("train_seconds", trained / steps if beside or own else left / steps, *(parts if beside or own else inside))
        if beside or (own and abs(ran - apart) > SURE * apart):
            columns = ", ".join(read.names[name] for name in parts)
            read.overlap = TABLE["overlap" if beside else "own"].format(ran / steps, columns, apart / steps, means)
    elif "busy" in series:
        add("train_seconds", series["busy"] - known["sync_seconds"], "busy")
    elif parts:
        add("train_seconds", trained / steps, *parts)
    synced = series.get("seconds_sync") if after is None else after
    if synced is not None and read.rows_of_sync > 1:
        synced = np.where(synced > 0.0, synced, np.nan)
    add("sync_seconds", synced, "seconds_sync", "sync_after", fewest=FEWEST // read.rows_of_sync)
    names = ["seconds_step", "sync_after"]
    if whole is None and wait is not None and parts:
        whole, names = wait + trained + seconds("seconds_sync"), ["seconds_wait", *parts]
    if whole is not None:
        every = (whole + seconds("sync_after")) / steps
        add("seconds", every, *names)
        if "length_mean" in series:
            size = known["prompts_per_batch"] * known["samples_per_prompt"]
            over = ", ".join(read.names[n] for n in ("length_mean", *names) if n in series).replace(", ", " over ", 1)
            # All tokens over all seconds, with the deviations of a ratio: a mean over steps favors short steps.
            tokens = series["length_mean"] * size
            of, mean = (np.nanmean((x + 0.0 * tokens * every)[warm:]) for x in (tokens, every))
            add("tokens", of / mean + (tokens - of / mean * every) / mean, origin=over)
    if "rate" in series:
        # Generators pause while weights are synced.
        writing = series["rate"] - known["sync_seconds"] * series["syncs"]
        add("tokens_per_second", series["length_mean"] / np.maximum(writing, 1e-9), "rate")
    if read.pauses is not None and len(read.pauses) >= FEWEST * STRETCHES:
        # Medians leave out the pauses in which the limit held a response back, and long ones that are the slot's own.
        # Pauses follow whatever else the machine does, so the range of stretches stands for another time.
        each = np.array_split(read.pauses, STRETCHES)
        low, high = min(float(np.median(x)) for x in each), max(float(x.mean()) for x in each)
        about = ("t_start, t_end", len(read.pauses), STRETCHES - 1.0)
        found["pause"] = Measured((low + high) / 2.0, low, high, *about)
    add("response_tokens", series.get("length_mean"), "length_mean")
    add("longest_response", series.get("length_max"), "length_max")
    for name in ("staleness_mean", "ess", "kl_k3", "kl_k1", "chi_square",
                 "log_ratio_abs", "chi_square_sequence", "geometric_abs", "clip_fraction", "reward"):  # fmt: skip
        add(name, series.get(name), name)
    return found


def _rates(measured: Mapping[str, Measured], known: Mapping[str, Any], given: Container[str]) -> dict[str, Any]:
    """Fields of the description from the means; the user's values take precedence."""
    found: dict[str, Any] = {}
    for name in ("train_seconds", "sync_seconds", "tokens_per_second"):
        if name in measured and name not in given:
            checks.require(measured[name].value > 0.0, name, measured[name].value, *TABLE["positive"])
            found[name] = float(f"{measured[name].value:.6g}")
    if "longest_response" in measured and "response_lengths" not in given:
        number = known["prompts_per_batch"] * known["samples_per_prompt"]
        mean = measured["response_tokens"].value
        sigma = sigma_of(mean, measured["longest_response"].value, number)
        found["response_lengths"] = f"lognormal:{mean:.6g}:{sigma:.4g}"
    return found


def sigma_of(mean: float, longest: float, number: int) -> float:
    """Standard deviation of log length if the longest of `number` responses has this mean length; 0 without spread."""
    from scipy.optimize import brentq

    if number < 2 or longest <= mean * (1.0 + 1e-9):
        return 0.0

    def excess(sigma: float) -> float:
        return laws.lognormal(mean, sigma).expected_max(number) - longest

    return float(brentq(excess, 1e-3, 3.0, xtol=1e-4)) if excess(1e-3) < 0.0 < excess(3.0) else 3.0


def cut_lengths(mean: float, limit: float, share: float) -> np.ndarray:
    """Quantiles of log-normal lengths with the given mean, truncated at a limit that a given fraction reaches.

    >>> x = cut_lengths(1900.0, 8192.0, 0.02)
    >>> round(float(x.mean())), float(np.mean(x == 8192.0))
    (1900, 0.02)
    """
    from scipy.optimize import brentq
    from scipy.special import ndtri

    checks.require(0.0 < share < 0.5 and mean < limit, "share of cut responses", share, "in (0, 0.5)",
                   "give response_lengths")  # fmt: skip
    normal = ndtri((np.arange(QUANTILES) + 0.5) / QUANTILES)

    def lengths(sigma: float) -> np.ndarray:
        return np.asarray(limit * np.exp(np.minimum(sigma * (normal - ndtri(1.0 - share)), 0.0)))

    # The mean falls from the limit as sigma grows.
    return lengths(float(brentq(lambda sigma: lengths(sigma).mean() - mean, 0.0, 20.0)))


def _drifts(
    read: Read, found: Sequence[advising.Batches], prompts: int, each: int, publish: int
) -> tuple[dict[str, drifts.Drift], list[str]]:
    """Drift by every gauge that the log provides, and the assumptions; a row is `each` steps, a sync `publish`."""
    drift, notes, learns = dict[str, drifts.Drift](), list[str](), 0.0
    reward = read.series.get("reward", np.empty(0))
    if np.isfinite(reward).sum() >= FEWEST:
        learns = drifts.learning(reward[np.isfinite(reward)], prompts * each) / each
    else:
        notes.append(TABLE["no_reward"])
    moments, stale = np.mean([one.moments for one in found], axis=0), read.series.get("staleness_mean")
    # A log without staleness does not show how its settled steps differ; those of a realization look like a floor.
    moments[found[0].warm :] = moments[found[0].warm :].mean(0)
    first, second = moments.reshape(-1, each, 2).mean(1)[read.first :].T
    if stale is not None:
        shares = np.sum([np.pad(each.cells, (0, 4096))[:4096] for each in found], axis=0)
        s = np.arange(len(shares))
        token, head = np.average(s, weights=shares), np.mean([each.head for each in found])
        counted = token / head if read.scope.get("staleness_mean", "").startswith(SCOPES) and head > 0.0 else 1.0
        # Steps since a sync at the first row, from the rows that take one if they tell.
        began = -1 - int(np.argmax(read.series["seconds_sync"] > 0.0)) if read.rows_of_sync > 1 else read.first * each
        past = ((began + np.arange(len(stale) * each)) % publish).reshape(-1, each).mean(1)
        first = publish * counted * stale + past
        # A step of mean 0.5 has tokens of 0 and 1: its mean square is no fixed multiple of its squared mean.
        mean, square = np.concatenate([each.moments[each.warm :] for each in found]).T
        terms = np.linalg.lstsq(np.stack([mean, mean**2], axis=1), square, rcond=None)[0]
        second = np.maximum(np.stack([first, first**2], axis=-1) @ terms, first**2)

    def add(name: str, v: np.ndarray, mean: np.ndarray, square: np.ndarray, column: str) -> None:
        made = drifts.fitted(v, mean, square, column)
        if made is not None:
            # Rows are means over so many batches; trends and errors are those of single batches.
            made = made._replace(steps=made.steps * each, trend=made.trend / each, noise=made.noise * math.sqrt(each))
            drift[name] = made._replace(learns=learns)

    for name, gauge in drifts.GAUGES.items():
        if name in read.series:
            add(name, gauge.variance(read.series[name]), first, second, read.names[name])
    table = None if read.telemetry is None else mismatch.levels(read.telemetry)
    if table is not None and len(table.staleness) > 1:
        past, s = np.arange(publish), np.broadcast_to(table.staleness, table.square.shape).ravel()
        age = publish * s[:, None] + past
        add("levels", table.square.ravel(), age.mean(1), (age**2).mean(1), "log ratios by staleness")
    loose = [name for name, each in drift.items() if not each.identified]
    if loose:
        notes.append(
            f"{', '.join(loose)}: staleness hardly varies, so floor and growth cannot be separated, and bands allow "
            "for both. Log the first steps of the run, whose data are fresh."
        )
    return drift, notes
