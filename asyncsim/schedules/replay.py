"""The log of a real run: every batch is generated under the versions that the trainer recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.base import checks, files, records
from asyncsim.base.feeds import Source
from asyncsim.schedules import _log_stacks as stacks

if TYPE_CHECKING:
    from asyncsim.schedules._log import Log


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
    """Staleness = trained version - generating version, both as logged, of every token of a real run.

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
    from asyncsim.schedules import _log
    from asyncsim.schedules._log_table import Declared

    conventions = stacks.stack_of(stack)
    checks.one_of("unknown", unknown, ("refuse", "keep", "even"), "say what becomes of missing versions")
    first_version = checks.integer("first_version", first_version, 0, "count publishes", checks.LARGEST)
    for name, value in (("train_offset", train_offset), ("stamp_offset", stamp_offset)):
        if value is not None:
            checks.integer(name, value, -checks.LARGEST, "give what is added to a version", checks.LARGEST)
    start_is = checks.one_of("start_is", start_is or conventions.start_is, stacks.STARTS, "say which stamp it is")
    unit = conventions.unit if unit is None and stack is not None else unit
    units = _units(unit, batches_per_publish, updates_per_batch, samples_per_publish)
    declared = Declared(
        conventions, stack, stacks.mapping_of(columns), units, train_offset, stamp_offset, start_is, unknown == "keep"
    )
    where, counts = files.named("path", path), (batches_per_publish, samples_per_publish)
    log = _log.import_log(where, stack, declared, *counts, first_version)
    return Replay(log, {} if updates_per_batch is None else {"epochs": updates_per_batch}, unknown)


def _units(unit: str | None, publish: int | None, updates: int | None, samples: int | None) -> Any:
    """What a publish and a batch are in the unit of a log."""
    from asyncsim.schedules._log_versions import Units

    counts = {"batches_per_publish": publish, "updates_per_batch": updates, "samples_per_publish": samples}
    for name, value in counts.items():
        if value is not None:
            checks.integer(name, value, 1, "count from one", checks.LARGEST)
    remedy = "declare what the versions of the log count: a wrong unit gives a wrong staleness"
    checks.one_of("unit", unit, stacks.UNITS, remedy)
    required = {
        "publishes": [],
        "batches": ["batches_per_publish"],
        "updates": ["batches_per_publish", "updates_per_batch"],
        "samples": ["samples_per_publish"],
    }[str(unit)]
    for name in required:
        checks.require(counts[name] is not None, name, None, f"given where versions count {unit}", remedy)
    if unit == "samples":
        samples_between, parts = int(samples or 1), int(publish or 1)
        fits, bound = samples_between % parts == 0, f"a multiple of batches_per_publish = {parts}"
        checks.require(fits, "samples_per_publish", samples_between, bound, remedy)
        return Units("samples", samples_between, samples_between // parts)
    each = int(updates or 1) if unit == "updates" else 1
    return Units(str(unit), 1, 0) if unit == "publishes" else Units(str(unit), int(publish or 1) * each, each)


@dataclass(frozen=True, eq=False)
class Replay(Source):
    """A logged run as an imposed schedule; it has the interface of a system."""

    log: Log
    recommended: Mapping[str, Any]
    unknown: str

    name = "replay"
    random = False
    """A log is one realization, and always the same."""

    @property
    def knobs(self) -> dict[str, Any]:
        """What the log was read as."""
        log = self.log
        return {
            "source": log.source,
            "sha256": log.digest,
            "stack": log.stack,
            "unit": log.unit,
            "start_is": log.reference,
            "first_version": log.first_version,
            "unknown": self.unknown,
        }

    @property
    def groups_per_batch(self) -> int:
        """Groups of a batch."""
        return self.log.grid.shape[1]

    @property
    def batches_per_publish(self) -> int:
        """Batches between two publishes."""
        return self.log.batches_per_publish

    @property
    def mode(self) -> str | None:
        """Keep where the log has versions inside samples, which then differ from token to token."""
        return "keep" if len(self.log.steps.at) > len(self.log.steps.length) else None

    def describe(self) -> dict[str, Any]:
        """All parameters as JSON can hold them, and what the log leaves open."""
        return {
            "name": self.name,
            "knobs": records.plain(self.knobs),
            "groups_per_batch": self.groups_per_batch,
            "batches_per_publish": self.batches_per_publish,
            "recommended": dict(self.recommended),
            "refused": records.plain(self.log.refused),
            "unchecked": list(self.log.unchecked),
        }

    def realizations(self, replicates: int) -> int:
        """M for so many replicates: always one."""
        return 1

    def schedule(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int
    ) -> records.Schedule:
        """The schedule value of the first batches: versions `[M, B, G, N, T or 1]`, ids and works `[M, B, G, N]`."""
        log = self.log
        checks.integer("tokens", tokens, 1, "give the length of the longest trajectory")
        checks.integer("realizations", realizations, 1, "ask for at least one realization")
        checks.integer("batches", batches, 1, "train no more updates than the log has", len(log.grid))
        bound = f"{log.grid.shape[2]}, as in the log"
        remedy = "use the group size of the run" + ("" if log.grid.shape[2] > 1 else "; map group_id if it had groups")
        checks.require(samples_per_group == log.grid.shape[2], "samples_per_group", samples_per_group, bound, remedy)
        version = log.versions(batches, tokens, self.unknown == "even")
        self._refuse_unknown(version)
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

    def _refuse_unknown(self, version: np.ndarray) -> None:
        if self.unknown == "keep" or not (version < 0).any():
            return
        log, position = self.log, np.unravel_index(int(np.argmax(version < 0)), version.shape)
        sample = log.grid[position[:3]]
        early = 0 <= log.samples["v_start"][sample] < log.first_version
        value = f"unknown at token {position[3]} of {version.shape[3]}, row {log.samples['row'][sample]}"
        remedy = (
            "leave out the batches that were generated before the log begins, with a later first_version"
            if early
            else "log versions by token, or end_version (columns='end_version=START' says that it is the first "
            "token's) and unknown='even' for the tokens between"
        )
        raise checks.InputError("versions", value, "known for every token that is trained", remedy)
