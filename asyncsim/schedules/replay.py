"""The log of a real run: every batch is generated under the versions that the trainer recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsim.base import calls, checks, files, records
from asyncsim.base.feeds import Source
from asyncsim.schedules import _log_places, _log_table
from asyncsim.schedules import _log_stacks as stacks
from asyncsim.schedules._log_stacks import TIMES
from asyncsim.schedules._log_table import Declared
from asyncsim.schedules._log_versions import Log, Samples, Units, resumed


def replay(
    path: str | os.PathLike[str],
    stack: str | None = None,
    columns: Mapping[str, str] | str | None = None,
    unit: str | None = None,
    batches_per_publish: int | None = None,
    updates_per_batch: int | None = None,
    samples_per_publish: int | None = None,
    train_offset: int | None = None,
    stamp_offset: int | None = None,
    start_is: str | None = None,
    first_version: int = 0,
    unknown: str = "refuse",
) -> Replay:
    """Staleness of a real run, replayed from its log: trained version minus generating version of every token.

    One row for each sample (rows of one sample in one batch are its segments). Columns have these names, those of the
    trainer or those given. Needed: sample_id; start_version or versions; train_version, or train_step with its offset.
    Used where known: group_id, end_version, batch, tokens, t_submit, t_start, t_end, t_ready, t_train, fate. Versions
    are one for each token, -1 where nobody generated it, or pairs [first token, version]. Batch b is trained at version
    b // batches_per_publish; token t of T has the version of the logged token at the fraction t / T of its sample; an
    absent end_version is unknown, and a version that is missing never 0. A log that contradicts itself is refused, and
    so is one that takes more memory than ASYNCSIM_READ_LIMIT (4 GiB) when it is read.

    Arguments: `path` of a .csv, .jsonl, .parquet, .pt or .pkl file (.gz and .zst too), a folder of them, or a pattern;
    `stack`, the trainer, whose column names, unit and offsets are used (`asyncsim list logs`): areal, miles, nemo_rl,
    open_instruct, pipeline_rl, prime_rl, roll, skyrl, slime, tinker_cookbook, torchforge, torchtitan, trl, verl,
    verl_fully_async; `columns`, ours to theirs, a mapping or "sample_id=uid,batch=step"; of theirs "a+b" joins two,
    "a.b" is b inside a, "path:step_#" the number in the file's path, "file:key" stands beside the samples of a file of
    tensors, "row:" numbers rows; `unit` of all versions: publishes, updates, batches, samples; `batches_per_publish` S
    (counted in the log unless given), `updates_per_batch` U (recommended to a spec as its epochs),
    `samples_per_publish`; `train_offset` and `stamp_offset`, in the unit, added to trained and to generating versions;
    `start_is`, whether start_version is stamped at the start, the submission or the end; `first_version`, in publishes,
    that the first batch is trained at; `unknown`, what becomes of missing versions: refuse, keep (as -1), or even
    (equal shares between a known first and last one, else refuse). Returns an imposed schedule, versions `[M, B, G, N,
    T or 1]`, whose `log` is the imported table. Raises `InputError`. Source: this package; AReaL (2505.24298) logs
    versions by token.

    >>> import pathlib, tempfile
    >>> rows = "sample_id,start_version,end_version,train_version\\n0,0,0,0\\n1,0,0,1\\n2,0,1,2\\n"
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = path.write_text(rows)
    >>> replay(path, unit="publishes").schedule(3, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0]
    """
    conventions, path = stacks.stack_of(stack), files.named("path", path)
    places = _log_places.found(path, conventions.layout.files)
    checks.one_of("unknown", unknown, ("refuse", "keep", "even"), "say what becomes of missing versions")
    first_version = checks.integer("first_version", first_version, 0, "count publishes", checks.LARGEST)
    for name, value in (("train_offset", train_offset), ("stamp_offset", stamp_offset)):
        if value is not None:
            checks.integer(name, value, -checks.LARGEST, "give what is added to a version", checks.LARGEST)
    start_is = checks.one_of("start_is", start_is or conventions.start_is, stacks.STARTS, "say which stamp it is")
    unit = conventions.unit if unit is None and stack is not None else unit
    asked = list[checks.InputError]()
    units = _units(unit, batches_per_publish, updates_per_batch, samples_per_publish, asked)
    offsets = train_offset, stamp_offset
    declared = Declared(conventions, stack, stacks.mapping_of(columns), units, *offsets, start_is, unknown == "keep")
    loaded = _log_table.load(path, places, declared, asked)
    table = loaded.columns
    used = table["trained"]
    checks.require(bool(used.any()), "train_version", None, "given for some sample", "log what was trained when")
    number, publish = _numbers(table, batches_per_publish, "batch" in loaded.names, first_version)
    grid = _grid(table, number, loaded.refused)
    fits = samples_per_publish in (None, publish * grid[0].size)
    bound = f"{publish * grid[0].size}, the samples of {publish} batches in the log"
    checks.require(fits, "samples_per_publish", samples_per_publish, bound, "count the samples between publishes")
    table["batch"] = number
    origin = path.name, _log_places.digest(places), stack, units.unit, start_is, first_version, publish
    samples = Samples(table, loaded.steps), loaded.steps, grid
    log = Log(*origin, *samples, loaded.refused, loaded.rows, _unchecked(loaded, declared))
    return Replay(log, {} if updates_per_batch is None else {"epochs": updates_per_batch}, unknown)


def _units(
    unit: str | None, publish: int | None, updates: int | None, samples: int | None, asked: list[checks.InputError]
) -> Units:
    """Size of a publish and a batch in the log's unit; missing information is appended to `asked`."""
    counts = {"batches_per_publish": publish, "updates_per_batch": updates, "samples_per_publish": samples}
    for name, value in counts.items():
        if value is not None:
            checks.integer(name, value, 1, "count from one", checks.LARGEST)
    remedy = "declare what the versions of the log count: a wrong unit gives a wrong staleness"
    if unit is not None:
        checks.one_of("unit", unit, stacks.UNITS, remedy)
    lacks = [name for name in stacks.UNITS.get(unit or "", ()) if counts[name] is None]
    if lacks:
        write = f"write {' '.join(f'{name}=8' for name in lacks)}, with your numbers"
        asked.append(checks.InputError(", ".join(lacks), None, f"given where versions count {unit}", write))
    if unit is None:
        bound = ", ".join(f"{each} (with {' and '.join(n)})" if n else each for each, n in stacks.UNITS.items())
        asked.append(checks.InputError("unit", None, f"one of {bound}", f"{remedy}; write unit='publishes' if they do"))
    if asked:
        return Units("publishes", 1, 0)
    if unit == "samples":
        samples_between, parts = int(samples or 1), int(publish or 1)
        fits, bound = samples_between % parts == 0, f"a multiple of batches_per_publish = {parts}"
        checks.require(fits, "samples_per_publish", samples_between, bound, remedy)
        return Units("samples", samples_between, samples_between // parts)
    each = int(updates or 1) if unit == "updates" else 1
    return Units(str(unit), 1, 0) if unit == "publishes" else Units(str(unit), int(publish or 1) * each, each)


@dataclass(frozen=True, eq=False)
class Replay(Source, calls.Told):
    """Imposed schedule that replays a logged run, with the interface of a system."""

    log: Log
    recommended: Mapping[str, Any]
    unknown: str

    name = "replay"
    random = False
    """A log is one realization, and always the same."""

    @property
    def knobs(self) -> dict[str, Any]:
        """Settings with which the run's log was read."""
        log = self.log
        origin = {"source": log.source, "sha256": log.digest, "stack": log.stack, "unit": log.unit}
        return origin | {"start_is": log.reference, "first_version": log.first_version, "unknown": self.unknown}

    @property
    def groups_per_batch(self) -> int:
        """Number of groups per batch of the logged run."""
        return self.log.grid.shape[1]

    @property
    def batches_per_publish(self) -> int:
        """Number of batches per publish of the logged run."""
        return self.log.batches_per_publish

    @property
    def mode(self) -> str | None:
        """Mode "keep" if token versions differ inside some samples of the log; else None."""
        return "keep" if len(self.log.steps.at) > len(self.log.steps.length) else None

    def describe(self) -> dict[str, Any]:
        """All parameters of the replay as JSON values, and what the log leaves unknown."""
        left_open = {"refused": records.plain(self.log.refused), "unchecked": list(self.log.unchecked)}
        return {**super().describe(), "recommended": dict(self.recommended), **left_open}

    def realizations(self, replicates: int) -> int:
        """Number of realizations M, which is always one."""
        return 1

    def schedule(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int
    ) -> records.Schedule:
        """Schedule of the log's first batches: versions `[M, B, G, N, T or 1]`, ids and works `[M, B, G, N]`."""
        log = self.log
        checks.integer("tokens", tokens, 1, "give the length of the longest trajectory")
        checks.integer("realizations", realizations, 1, "ask for at least one realization")
        checks.integer("batches", batches, 1, "train no more updates than the log has", len(log.grid))
        bound = f"{log.grid.shape[2]}, as in the log"
        remedy = "use the group size of the run" + ("" if log.grid.shape[2] > 1 else "; map group_id if it had groups")
        checks.require(samples_per_group == log.grid.shape[2], "samples_per_group", samples_per_group, bound, remedy)
        version = log.versions(batches, tokens, self.unknown == "even")
        if self.unknown != "keep" and (version < 0).any():
            position = np.unravel_index(int(np.argmax(version < 0)), version.shape)
            sample = log.grid[position[:3]]
            value = f"unknown at token {position[3]} of {version.shape[3]}, row {log.samples['row'][sample]}"
            remedy = (
                "leave out the batches that were generated before the log begins, with a later first_version"
                if 0 <= log.samples["v_start"][sample] < log.first_version
                else "log versions by token, or end_version (columns='end_version=START' says that it is the first "
                "token's) and unknown='even' for the tokens between"
            )
            raise checks.InputError("versions", value, "known for every token that is trained", remedy)
        if (version == version[..., :1]).all():
            version = version[..., :1]
        index = log.grid[:batches]
        work = log.steps.length[index].astype(np.float64)
        shape = (realizations, *index.shape)
        return records.Schedule(
            np.broadcast_to(version, (realizations, *version.shape)),
            np.broadcast_to(log.samples["trajectory"][index], shape),
            self.batches_per_publish,
            False,
            np.broadcast_to(work, shape) if (work > 0).all() else None,
            {**self.describe(), "seed": seed},
        )


def _numbers(
    columns: dict[str, np.ndarray], publish: int | None, has_batches: bool, first_version: int
) -> tuple[np.ndarray, int]:
    """Batch number of every sample (-1: not trained), and batches per publish; batch b trains at b // S."""
    used = columns["trained"]
    labels, member = np.unique(columns["label"][used], return_inverse=True)
    version = np.full(len(labels), -1)
    version[member] = columns["v_train"][used]
    remedy = "see that the batch and train_version columns belong together, and check unit and train_offset"
    same = version[member] == columns["v_train"][used]
    odd = int(labels[member[int(np.argmin(same))]])
    checks.require(bool(same.all()), "batch", odd, "trained at one version", remedy)
    back = np.flatnonzero(np.diff(version) < 0)[:1]
    decrease = [*version[back].tolist(), *version[back + 1].tolist()]
    checks.require(not decrease, "train_version", decrease, "not decreasing from batch to batch", remedy)
    publish = int((version == version[0]).sum()) if publish is None else publish
    bound = f"{first_version} in the first batch"
    early = int(version[0]) - first_version
    remedy = (
        f"if steps count from {early}, add {-early} to train_offset; if the log begins inside a run, "
        f"write first_version={version[0]}"
    )
    if (columns["v_start"][used][member == 0] > first_version).any():
        remedy = f"weights count from {early} too: write first_version={version[0]}"
    checks.require(int(version[0]) == first_version, "train_version", int(version[0]), bound, remedy)
    if (wrong := np.flatnonzero(version != first_version + np.arange(len(version)) // publish)).size:
        at, apart = int(wrong[0]), int(np.gcd.reduce(version - version[0]))
        remedy = "log every batch" + ("" if has_batches else ", with a column batch where a publish has several")
        remedy += ", and check unit, batches_per_publish and updates_per_batch"
        if apart > 1:
            remedy = f"if they count updates, write unit='updates', batches_per_publish=1, updates_per_batch={apart}"
        elif at and version[at] > version[at - 1] + 1:
            remedy += f"; or begin behind the gap, with the rows from {version[at]} on and first_version={version[at]}"
        bound = f"{first_version + at // publish} with batches_per_publish = {publish}"
        raise checks.InputError(f"train_version of batch {at}", int(version[at]), bound, remedy)
    number = np.full(len(used), -1, dtype=np.int32)
    number[used] = member
    if "t_train" in columns:
        first = np.full(number.max() + 1, np.inf)
        np.fmin.at(first, number[used], columns["t_train"][used])
        steps = np.diff(first[np.isfinite(first)])
        bound, remedy = "not decreasing from batch to batch", "write all times from one clock, in seconds"
        checks.require(bool((steps >= 0).all()), "t_train", float(steps.min(initial=0.0)), bound, remedy)
    return number, publish


def _grid(columns: dict[str, np.ndarray], number: np.ndarray, refused: dict[str, int]) -> np.ndarray:
    """Positions of trained samples, int64 `[B, G, N]`: groups ordered by their first id, samples by their ids."""
    index = np.flatnonzero(number >= 0)
    many = int(columns["group"].max(initial=0)) + 1
    pairs, member = np.unique(number[index].astype(np.int64) * many + columns["group"][index], return_inverse=True)
    size, pairs = np.bincount(member), pairs // many
    ids = columns["trajectory"][index]
    first = np.full(len(pairs), np.iinfo(np.int64).max)
    np.minimum.at(first, member, ids)
    lost = "".join(f"; {count} rows were refused: {reason}" for reason, count in refused.items())
    usual = int(np.bincount(size).argmax())
    odd, several = int(np.argmax(size != usual)), int((size != usual).sum())
    found = f"{size[odd]} samples in a group of batch {pairs[odd]}, and {several} of {len(size)} groups differ"
    back = resumed(columns["row"][index], columns["v_train"][index])
    remedy = "log every sample of a group, with a group_id of its own, or leave batches with other groups out" + lost
    checks.require(several == 0, "group_id", found, f"of groups of one size, as {usual} in most", back or remedy)
    groups = np.bincount(pairs)
    usual = int(np.bincount(groups).argmax())
    odd = int(np.argmax(groups != usual))
    remedy = back or "leave batches out that the log holds in part, as its first or last" + lost
    fits = bool((groups == usual).all())
    checks.require(fits, f"groups of batch {odd}", int(groups[odd]), f"{usual}, as in most batches", remedy)
    return index[np.lexsort((ids, first[member], number[index]))].reshape(len(groups), usual, size[0])


def _unchecked(loaded: _log_table.Rows, declared: Declared) -> tuple[str, ...]:
    names, columns = loaded.names, loaded.columns
    used = columns["trained"]
    segments = loaded.rows - len(columns["row"])
    unknown = int(np.isnan(loaded.steps.token_mean()[used]).sum())
    rest = f"token_mean is known for {int(used.sum()) - unknown} of {int(used.sum())} samples, with all their versions"
    submit, end = (declared.start_is == at for at in ("submit", "end"))
    gone, cut = ", ".join(t for t in TIMES if t not in names), bool((columns["v_end"][used] < 0).any())
    tokens = f" (if {loaded.counts[0]} counts them, add tokens={loaded.counts[0]} to columns)" if loaded.counts else ""
    reasons = {
        "no column fate: dropped samples are not seen, so neither the mean-staleness identity (L1) nor the length bias "
        "of a staleness limit can be checked": "fate" not in names,
        "the first token's version: the stamp is that of the submission, so staleness is an upper bound": submit,
        "the first token's version: the stamp is taken at the end, so head staleness is unknown": end,
        "the version at the end, so neither the span nor what was in flight and in queue": cut,
        f"versions inside samples that weights changed under: {rest}": unknown > 0,
        f"no column tokens: nothing about lengths{tokens}": not bool((loaded.steps.length[used] > 0).any()),
        "no column group_id: every sample is taken as a group of its own": "group_id" not in names,
        f"no times {gone}: distributions in seconds cannot be checked": bool(gone),
        "no column batch: what was trained at one version is taken as one batch": declared.units.batch == 0
        and "batch" not in names,
        f"{segments} rows are further segments of samples": segments > 0,
    }
    return tuple(reason for reason, holds in reasons.items() if holds)
