"""The imported log of a run: batches, groups and staleness of every sample, and what it leaves open."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.schedules import _log_cells, _log_places, _log_table
from asyncsim.schedules._log_stacks import FATES, TIMES
from asyncsim.schedules._log_table import Declared
from asyncsim.schedules._log_versions import Steps


@dataclass(frozen=True, eq=False)
class Log:
    """Samples of a real run, staleness in publishes; NaN or -1 where the log has no value, never 0.

    `samples`: one entry for each use of a sample, `batch` -1 for those that were not trained; `grid` int `[B, G, N]`,
    their positions by batch; `refused`, rows that could not be placed, by reason; `rows` of the file; `unchecked`,
    questions that this log leaves open.
    """

    source: str
    digest: str
    stack: str | None
    unit: str
    reference: str
    first_version: int
    batches_per_publish: int
    samples: dict[str, np.ndarray] = field(repr=False)
    steps: Steps = field(repr=False)
    grid: np.ndarray = field(repr=False)
    refused: dict[str, int]
    rows: int
    unchecked: tuple[str, ...]

    def versions(self, batches: int, tokens: int, even: bool = False) -> np.ndarray:
        """Version of token t of T, that of the logged token at the fraction t/T, int32 `[B, G, N, T]`; -1 unknown.

        Versions count from `first_version`; one from before it is unknown. With `even`, tokens between a known first
        and last version have the versions between them in equal shares.
        """
        index = self.grid[:batches].reshape(-1)
        version = self.steps.take(index, tokens)
        if even:
            first, last = (self.samples[name][index, None] for name in ("v_start", "v_last"))
            share = first + np.arange(tokens) * (last - first + 1) // tokens
            version = np.where((version < 0) & (first >= 0) & (last >= 0), share, version)
        shifted = np.where(version >= self.first_version, version - self.first_version, -1)
        return shifted.reshape(*self.grid[:batches].shape, tokens).astype(np.int32)

    def report(self) -> dict[str, Any]:
        """Contents of the log and what it leaves open, as JSON can hold it."""
        batches, groups, samples = self.grid.shape
        used = self.samples["trained"]
        counts = np.bincount(self.samples["fate"], minlength=len(FATES))
        fates = {name: place for place, name in enumerate(FATES) if counts[place]}
        length = np.where(self.steps.length > 0, self.steps.length, np.nan)
        return {
            "source": self.source,
            "sha256": self.digest,
            "stack": self.stack,
            "unit": self.unit,
            "reference": self.reference,
            "rows": self.rows,
            "batches": batches,
            "groups_per_batch": groups,
            "samples_per_group": samples,
            "batches_per_publish": self.batches_per_publish,
            "trained_versions": [int(self.samples["v_train"][used].min()), int(self.samples["v_train"][used].max())],
            "staleness": {name: _summary(self.samples[name], used) for name in STALENESS},
            "tokens": {name: _summary(length, self.samples["fate"] == place) for name, place in fates.items()},
            "fates": {name: int(counts[place]) for name, place in fates.items()},
            "refused": dict(self.refused),
            "unchecked": list(self.unchecked),
        }

    def text(self) -> str:
        """The report on one page."""
        report = self.report()
        first, last = report["trained_versions"]
        lines = [
            f"log {self.source} ({self.stack or 'own names'}; {self.rows} rows; versions in {self.unit})",
            f"{report['batches']} batches of {report['groups_per_batch']} groups of {report['samples_per_group']} "
            f"samples trained at versions {first} to {last}, {self.batches_per_publish} batches to a publish",
            f"staleness in publishes, by the stamp at {self.reference}:",
        ]
        for name, row in report["staleness"].items():
            known = row["known"] > 0
            text = (
                f"mean {row['mean']:.3f}, max {row['max']:g}, known for {row['known']} of {row['of']}" if known else ""
            )
            lines.append(f"  {name:12}{text or 'not known'}")
        lines.append("fates: " + ", ".join(f"{name} {count}" for name, count in report["fates"].items()))
        lines += [f"refused: {count} rows, {reason}" for reason, count in self.refused.items()]
        lines += [f"cannot be told: {reason}" for reason in self.unchecked]
        return "\n".join(lines)


STALENESS = {
    "head": ("v_train", "v_start"),
    "newest": ("v_train", "v_last"),
    "token_mean": ("v_train", "versions of tokens"),
    "span": ("v_last", "v_start"),
    "in_flight": ("v_end", "v_start"),
    "in_queue": ("v_train", "v_end"),
}
"""Staleness of a sample: the newer version, and the older one that is taken from it."""


def _summary(values: np.ndarray, used: np.ndarray) -> dict[str, Any]:
    known = values[used & np.isfinite(values)]
    mean, largest = (float(known.mean()), float(known.max())) if known.size else (None, None)
    return {"mean": mean, "max": largest, "known": int(known.size), "of": int(used.sum())}


def import_log(
    path: Path,
    stack: str | None,
    declared: Declared,
    batches_per_publish: int | None,
    samples_per_publish: int | None,
    first_version: int,
) -> Log:
    """The log of a file, its batches laid out; raises `InputError` where that cannot be done."""
    places = _log_places.found(path, declared.stack.layout.files)
    loaded = _log_table.load(path, places, declared)
    columns = loaded.columns
    checks.require(
        bool(columns["trained"].any()), "train_version", None, "given for some sample", "log what was trained when"
    )
    number, publish = _numbers(columns, batches_per_publish, "batch" in loaded.names, first_version)
    grid = _grid(columns, number, loaded.refused)
    fits = samples_per_publish in (None, publish * grid[0].size)
    bound = f"{publish * grid[0].size}, the samples of {publish} batches in the log"
    checks.require(fits, "samples_per_publish", samples_per_publish, bound, "count the samples between publishes")
    columns["batch"] = number
    origin = path.name, _log_places.digest(places), stack, declared.units.unit, declared.start_is
    samples = Samples(columns, loaded.steps), loaded.steps, grid
    rows = loaded.refused, loaded.rows, _unchecked(loaded, declared)
    return Log(*origin, first_version, publish, *samples, *rows)


def _numbers(
    columns: dict[str, np.ndarray], publish: int | None, has_batches: bool, first_version: int
) -> tuple[np.ndarray, int]:
    """Number of the batch of every sample (-1: not trained), and batches to a publish; batch b trains at b // S."""
    used = columns["trained"]
    labels, member = _log_cells.distinct(columns["label"][used])
    version = np.full(len(labels), -1)
    version[member] = columns["v_train"][used]
    remedy = "see that the batch and train_version columns belong together, and check unit and train_offset"
    same = version[member] == columns["v_train"][used]
    checks.require(
        bool(same.all()), "batch", int(labels[member[int(np.argmin(same))]]), "trained at one version", remedy
    )
    decreases = np.flatnonzero(np.diff(version) < 0)
    fits = not len(decreases)
    bound = "not decreasing from batch to batch"
    checks.require(
        fits, "train_version", version[decreases[:1]].tolist() + version[decreases[:1] + 1].tolist(), bound, remedy
    )
    publish = int((version == version[0]).sum()) if publish is None else publish
    bound = f"{first_version} in the first batch"
    remedy = (
        "check train_offset (steps counted from one train on version step - 1); for a log that begins inside a run "
        "give its first_version"
    )
    checks.require(int(version[0]) == first_version, "train_version", int(version[0]), bound, remedy)
    wrong = np.flatnonzero(version != first_version + np.arange(len(version)) // publish)
    checks.require(
        not len(wrong),
        f"train_version of batch {wrong[:1].sum()}",
        version[wrong[:1]].tolist(),
        f"{first_version + int(wrong[:1].sum()) // publish} with batches_per_publish = {publish}",
        "log every batch"
        + ("" if has_batches else ", with a column batch where a publish has several")
        + ", and check unit, batches_per_publish and updates_per_batch",
    )
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
    """Positions of trained samples, int64 `[B, G, N]`: groups by the first of their ids, samples by their ids."""
    index = np.flatnonzero(number >= 0)
    many = int(columns["group"].max(initial=0)) + 1
    pairs, member = _log_cells.distinct(number[index].astype(np.int64) * many + columns["group"][index])
    size, pairs = np.bincount(member), pairs // many
    ids = columns["trajectory"][index]
    first = np.full(len(pairs), np.iinfo(np.int64).max)
    np.minimum.at(first, member, ids)
    lost = "".join(f"; {count} rows were refused: {reason}" for reason, count in refused.items())
    odd = int(np.argmax(size != size[0]))
    fits = bool((size == size[0]).all())
    bound = f"{size[0]}, as in the other groups"
    remedy = "log every sample of a group, with a group_id that no other group of the batch has" + lost
    checks.require(fits, f"samples of a group in batch {pairs[odd]}", int(size[odd]), bound, remedy)
    groups = np.bincount(pairs)
    odd = int(np.argmax(groups != groups[0]))
    bound = f"{groups[0]}, as in the other batches"
    remedy = "leave batches out that the log holds in part, as the last one" + lost
    checks.require(bool((groups == groups[0]).all()), f"groups of batch {odd}", int(groups[odd]), bound, remedy)
    keys = number[index], first[member], ids
    if not _ascending(*keys):
        index = index[np.lexsort(keys[::-1])]
    return index.reshape(len(groups), groups[0], size[0])


def _ascending(*keys: np.ndarray) -> bool:
    """Whether rows stand in the order of the first key, then of the next."""
    tied = np.ones(max(0, len(keys[0]) - 1), dtype=bool)
    for key in keys:
        if (tied & (key[1:] < key[:-1])).any():
            return False
        tied &= key[1:] == key[:-1]
    return True


class Samples(dict[str, np.ndarray]):
    """Columns of a log. Staleness of every trained use, float64 in publishes, is worked out when it is asked for.

    NaN where it is unknown. Kept for ten million samples, six of them would take half a gigabyte.
    """

    def __init__(self, columns: dict[str, np.ndarray], steps: Steps) -> None:
        super().__init__(columns)
        self.steps = steps

    def __missing__(self, name: str) -> np.ndarray:
        if name not in STALENESS:
            raise KeyError(name)
        if name == "token_mean":
            return self._known("v_train") - self.steps.token_mean()
        newer, older = STALENESS[name]
        left = self._known(newer)
        left -= self._known(older)
        return left

    def _known(self, name: str) -> np.ndarray:
        known = self["trained"] if name == "v_train" else self[name] >= 0
        return np.where(known, self[name], np.nan)


def _unchecked(loaded: _log_table.Rows, declared: Declared) -> tuple[str, ...]:
    names, columns = loaded.names, loaded.columns
    used = columns["trained"]
    segments = loaded.rows - len(columns["row"])
    unknown = int(np.isnan(loaded.steps.token_mean()[used]).sum())
    rest = f"token_mean rests on the {int(used.sum()) - unknown} of {int(used.sum())} samples with all versions known"
    reasons = {
        "no column fate: dropped samples are not seen, so neither the mean-staleness identity (L1) nor the length bias "
        "of a staleness limit can be checked": "fate" not in names,
        "the first token's version: the stamp is that of the submission, so staleness is an upper bound": (
            declared.start_is == "submit"
        ),
        "the first token's version: the stamp is taken at the end, so head staleness is unknown": (
            declared.start_is == "end"
        ),
        "the version at the end, so neither the span nor what was in flight and in queue": bool(
            (columns["v_end"][used] < 0).any()
        ),
        f"versions inside samples that weights changed under: {rest}": unknown > 0,
        "no column tokens: nothing about lengths": not bool((loaded.steps.length[used] > 0).any()),
        "no column group_id: every sample is taken as a group of its own": "group_id" not in names,
        "no times "
        + ", ".join(t for t in TIMES if t not in names)
        + ": distributions in seconds cannot be checked": not set(TIMES) <= set(names),
        "no column batch: what was trained at one version is taken as one batch": declared.units.batch == 0
        and "batch" not in names,
        f"{segments} rows are further segments of samples": segments > 0,
    }
    return tuple(reason for reason, holds in reasons.items() if holds)
