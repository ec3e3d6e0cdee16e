"""Versions of a log: stamps of any unit in publishes, the version of every token as a step function, the log itself."""

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks, files
from asyncsim.base.notation import plural
from asyncsim.schedules._log_cells import MISSING, Cells, absent, empty, listed, narrow, whole
from asyncsim.schedules._log_stacks import FATES, STALENESS


def refuse(
    wrong: np.ndarray,
    field: str,
    value: str | np.ndarray | Callable[[int], str],
    bound: str,
    remedy: str,
    row_of: np.ndarray | None = None,
) -> None:
    """Raise `InputError` for the first wrong row of a log, and state how many rows are wrong."""
    if not wrong.any():
        return
    entries = np.flatnonzero(wrong)
    rows, first = np.unique(entries if row_of is None else row_of[entries], return_index=True)
    entry = int(entries[first[0]])
    text = value if isinstance(value, str) else str(value[entry] if isinstance(value, np.ndarray) else value(entry))
    more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
    raise checks.InputError(field, f"row {rows[0] + 1}: {text}{more}", bound, remedy)


def resumed(row: np.ndarray, version: np.ndarray) -> str:
    """Rows to omit from a log that returns to earlier versions a few times, as text; "" for any other log."""
    back = np.flatnonzero(np.diff(version) < 0) + 1
    at = int(back[0]) if 0 < len(back) <= 8 else 0
    again = row[:at][version[:at] >= version[at]]
    goes = f"row {row[at]} goes from {version[at - 1]:g} back to {version[at]:g}"
    return f"{goes}: if the run was resumed, leave out rows {again.min()} to {again.max()}" if at else ""


class Units(NamedTuple):
    """Size of one publish and one batch in the unit of a log's versions; `batch` 0 means unknown."""

    unit: str
    publish: int
    batch: int

    def stamps(self, field: str, values: np.ndarray, offset: int, row_of: np.ndarray) -> np.ndarray:
        """Convert generating versions to publishes, int64, -1 if missing; `row_of` gives each entry's row."""
        known = values != MISSING
        shifted = np.where(known, values + offset, 0)
        bound = f"a version >= 0 after adding stamp_offset = {offset}"
        remedy = "leave the cell empty where it is unknown, or give the right stamp_offset"
        refuse(shifted < 0, field, values, bound, remedy, row_of)
        bound = f"a multiple of {self.publish}, the {self.unit} between publishes (generators hold published weights)"
        remedy = "check unit, batches_per_publish, updates_per_batch and samples_per_publish"
        if self.publish > 1:
            refuse(shifted % self.publish != 0, field, values, bound, remedy, row_of)
        return np.where(known, shifted // self.publish, -1)

    def trained(self, field: str, values: np.ndarray, offset: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Trained versions in publishes, and batch numbers (None if the unit does not determine them), int64."""
        known = values != MISSING
        shifted = np.where(known, values + offset, 0)
        bound = f"a version >= 0 after adding train_offset = {offset}"
        remedy = "give the right train_offset (steps counted from one train on version step - 1)"
        refuse(shifted < 0, field, values, bound, remedy)
        number = np.where(known, shifted // self.batch, -1) if self.batch else None
        return np.where(known, shifted // self.publish, -1), number


class Steps(NamedTuple):
    """Token versions of n samples as step functions: entries `first[i]` to `first[i + 1]` belong to sample i.

    From token `at` on the version is `version` (-1 unknown); `length` [n] tokens (-1 unknown).
    """

    first: np.ndarray
    at: np.ndarray
    version: np.ndarray
    length: np.ndarray

    @property
    def owner(self) -> np.ndarray:
        """Sample index of every step-function entry, int64 [k]."""
        return np.repeat(np.arange(len(self.length)), np.diff(self.first))

    def oldest(self) -> np.ndarray:
        """Version of each sample's first token, -1 if unknown."""
        return self.version[self.first[:-1]]

    def newest(self) -> np.ndarray:
        """Version of each sample's last token, -1 if unknown."""
        return self.version[self.first[1:] - 1]

    def parts(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Chunks of samples: their first entries, and sample, version and number of tokens of every entry.

        Versions and numbers of tokens are float64, NaN where unknown.
        """
        # In parts: for ten million samples these arrays would take a gigabyte.
        for low in range(0, len(self.length), PART):
            length = self.length[low : low + PART]
            first = self.first[low : low + len(length) + 1]
            entries = slice(first[0], first[-1])
            first, at, version = first - first[0], self.at[entries], self.version[entries]
            owner = np.repeat(np.arange(len(length)), np.diff(first))
            until = np.append(at[1:], 0)
            until[first[1:] - 1] = length
            tokens = np.where(length[owner] > 0, until - at, np.nan)
            yield first[:-1], low + owner, np.where(version >= 0, version, np.nan), tokens

    def token_mean(self) -> np.ndarray:
        """Mean version of each sample over its tokens, float64 [n]; NaN if a version or a length is unknown."""
        if len(self.at) == len(self.length):
            return np.where(self.version >= 0, self.version, np.nan)
        means = []
        for first, owner, version, tokens in self.parts():
            weight = np.where(np.bincount(owner - owner[0])[owner - owner[0]] == 1, 1.0, tokens)
            means.append(np.add.reduceat(version * weight, first) / np.add.reduceat(weight, first))
        return np.concatenate(means)

    def take(self, index: np.ndarray, tokens: int) -> np.ndarray:
        """Versions of tokens 0 .. T-1 of the samples `index`, int64 `[n, T]`, where token t is at fraction t/T.

        That is token floor(t L / T) of the L logged ones; L is taken as T where it is unknown.
        """
        token = np.arange(tokens) * np.where(self.length[index] > 0, self.length[index], tokens)[:, None] // tokens
        # One ascending key for all samples turns the ragged search into a single one.
        span = int(max(token.max(initial=0), self.at.max(initial=0))) + 1
        entry = np.searchsorted(self.owner * span + self.at, index[:, None] * span + token, side="right") - 1
        return self.version[entry]


PART = 1 << 19
"""Samples whose mean versions are worked out at once."""
STEP = 100
"""Bytes that one change of version takes until the log is laid out: measured."""

Listed = tuple["array[int]", "array[int]", int]
"""Tokens from which on a version holds, these versions as logged, and the number of tokens (-1 unknown)."""


def of_cells(field: str, cells: Cells, budget: files.Budget) -> tuple[np.ndarray, list[Listed]]:
    """Rows of a log whose cell lists token versions, and these lists; refused if they take too much memory."""
    has_list, values = ~empty(cells), listed(cells)
    lists = []
    for row in np.flatnonzero(has_list).tolist():
        lists.append(_steps(field, values[row], row, budget))
        budget.take(STEP * len(lists[-1][0]))
    return has_list, lists


def _steps(field: str, value: Any, row: int, budget: files.Budget) -> Listed:
    """Parse one cell: a version per token, or pairs [first token, version]; -1 marks a token of the environment."""
    entries = _entries(field, value, row, budget)
    where, remedy = f"{field}, row {row + 1}", "log one version for each token, or pairs [first token, version]"
    if any(isinstance(entry, (list, tuple)) for entry in entries):
        pairs = all(isinstance(entry, (list, tuple)) and len(entry) == 2 for entry in entries)
        checks.require(pairs, where, value, "pairs [first token, version] throughout", remedy)
        at = [whole(field, first, row) for first, _ in entries]
        rising = at[0] == 0 and all(a < b for a, b in pairwise(at)) and at[-1] <= checks.LARGEST
        checks.require(rising, where, value, f"pairs that begin at token 0 and ascend to {checks.LARGEST}", remedy)
        return array("q", at), array("q", [MISSING if absent(v) else whole(field, v, row) for _, v in entries]), -1
    versions = [MISSING if absent(v) else whole(field, v, row) for v in entries]
    # Prompt and environment tokens carry -1: nobody generated them under any weights.
    generated = np.array([v for v in versions if v != -1], dtype=np.int64)
    checks.require(generated.size > 0, where, value, "a list with a generated token", remedy)
    changes = np.flatnonzero(np.append(True, generated[1:] != generated[:-1]))
    return array("q", changes.astype(np.int64).tobytes()), array("q", generated[changes].tobytes()), len(generated)


def _entries(field: str, value: Any, row: int, budget: files.Budget) -> list[Any]:
    if isinstance(value, str):
        budget.fit(files.TEXT * len(value))
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    usable = isinstance(value, (list, tuple)) and len(value) > 0
    checks.require(usable, f"{field}, row {row + 1}", value, "a list", "write lists as JSON: [3, 3, 4]")
    return list(value)


def of_calls(field: str, cells: Cells, budget: files.Budget) -> tuple[np.ndarray, np.ndarray]:
    """First and last version of each row, from cells with a version per engine call; `MISSING` for empty cells."""
    values = listed(cells)
    ends = np.full((2, len(values)), MISSING)
    for row, value in enumerate(values):
        if not absent(value) and value != [] and str(value).strip():
            calls = [whole(field, call, row) for call in _entries(field, value, row, budget)]
            rising = all(a <= b for a, b in pairwise(calls))
            bound = "versions that do not go backwards inside a sample"
            checks.require(rising, f"{field}, row {row + 1}", value, bound, "check that the calls are in order")
            ends[:, row] = calls[0], calls[-1]
    return ends[0], ends[1]


def joined(start: np.ndarray, last: np.ndarray, length: np.ndarray, has_list: np.ndarray, lists: list[Listed]) -> Steps:
    """Step functions of all rows in the log's unit: as listed, or as first and last version imply.

    Between two different versions, and behind a first one whose last is unknown, tokens are unknown (`MISSING`).
    """
    ends, read = of_ends(start, last, length, MISSING), iter(lists)
    # Plain lists take five times as much where versions change with every token.
    at, version, first = array("q"), array("q"), array("q", [0])
    lengths = length.copy()
    for row in range(len(start)):
        if has_list[row]:
            places, values, size = next(read)
            lengths[row] = size if size > 0 else length[row]
        else:
            entries = slice(ends.first[row], ends.first[row + 1])
            places, values = ends.at[entries].tolist(), ends.version[entries].tolist()
        at.extend(places)
        version.extend(values)
        first.append(len(at))
    return Steps(np.array(first), np.array(at), np.array(version), lengths)


def of_ends(start: np.ndarray, last: np.ndarray, length: np.ndarray, unknown: int = -1) -> Steps:
    """Step functions of samples from first and last versions only, vectorized; `unknown` marks an unknown stamp."""
    one = (start == last) | (length == 1)
    open_end = ~one & ((last == unknown) | (length < 0))
    middle = ~one & ~open_end & (length != 2)
    first = np.zeros(len(start) + 1, dtype=np.int64)
    np.cumsum(np.where(one, np.int8(1), np.where(middle, np.int8(3), np.int8(2))), out=first[1:])
    at, version = np.zeros(first[-1], dtype=np.int32), np.full(first[-1], unknown, dtype=np.result_type(start, last))
    first = narrow(first)
    version[first[:-1]] = start
    at[first[:-1][~one] + 1] = 1
    closed = ~one & ~open_end
    version[first[1:][closed] - 1] = last[closed]
    at[first[1:][middle] - 1] = length[middle] - 1
    return Steps(first, at, version, length.copy())


def appended(steps: Steps, member: np.ndarray, count: int) -> Steps:
    """Join the step functions of segments to those of samples; `member` [n] is each segment's sample."""
    order = np.argsort(member, kind="stable")
    sizes = np.diff(steps.first)
    length = np.bincount(member, steps.length, minlength=count).astype(np.int64)
    before = np.cumsum(steps.length[order]) - steps.length[order]
    before -= np.repeat((np.cumsum(length) - length), np.bincount(member, minlength=count))
    pick = np.concatenate([np.arange(steps.first[i], steps.first[i + 1]) for i in order])
    at = steps.at[pick] + np.repeat(before, sizes[order])
    first = np.append(0, np.cumsum(np.bincount(member, sizes, minlength=count))).astype(np.int64)
    return Steps(first, at, steps.version[pick], length)


@dataclass(frozen=True, eq=False)
class Log:
    """Samples of a real run, with staleness in publishes; missing values are NaN or -1, never 0.

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
        """Version of token t of T, at fraction t/T of the logged tokens, int32 `[B, G, N, T]`; -1 if unknown.

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
        """Contents and gaps of the log, as JSON values."""
        batches, groups, samples = self.grid.shape
        used = self.samples["trained"]
        counts = np.bincount(self.samples["fate"], minlength=len(FATES))
        fates = {name: place for place, name in enumerate(FATES) if counts[place]}
        length = np.where(self.steps.length > 0, self.steps.length, np.nan)
        versions = self.samples["v_train"][used]
        report: dict[str, Any] = {"source": self.source, "sha256": self.digest, "stack": self.stack, "unit": self.unit}
        report |= {"reference": self.reference, "rows": self.rows, "batches": batches, "groups_per_batch": groups}
        report |= {"samples_per_group": samples, "batches_per_publish": self.batches_per_publish}
        return report | {
            "trained_versions": [int(versions.min()), int(versions.max())],
            "staleness": {name: _summary(self.samples[name], used) for name in STALENESS}
            | self._between(used)
            | self._tokens(used),
            "tokens": {name: _summary(length, self.samples["fate"] == place) for name, place in fates.items()},
            "fates": {name: int(counts[place]) for name, place in fates.items()},
            "refused": dict(self.refused),
            "unchecked": list(self.unchecked),
        }

    def _between(self, used: np.ndarray) -> dict[str, Any]:
        """Bounds of the mean staleness per token if some samples have none: the known ones are not representative."""
        known = self.samples["token_mean"][used]
        lacking = np.isnan(known)
        if not lacking.any():
            return {}
        ends = {end: np.where(lacking, self.samples[name][used], known) for end, name in ENDS.items()}
        limits = {end: None if np.isnan(each).any() else float(each.mean()) for end, each in ends.items()}
        row = {"mean": None, "p99": None, "max": None, "known": int((~lacking).sum()), "of": len(known)}
        return {"token_mean": row | limits}

    def _tokens(self, used: np.ndarray) -> dict[str, Any]:
        """Staleness over all tokens, each counted once: a long sample counts more. None if any token's is unknown."""
        sizes: Counter[float] = Counter()
        unknown = 0
        for _, owner, version, tokens in self.steps.parts():
            stale = np.where(used, self.samples["v_train"], np.nan)[owner] - version
            lacking = used[owner] & np.isnan(stale * tokens)
            unknown += np.unique(owner[lacking]).size
            found, place = np.unique(stale[used[owner] & ~lacking], return_inverse=True)
            sizes.update(dict(zip(found.tolist(), np.bincount(place, tokens[used[owner] & ~lacking]), strict=True)))
        count = {"known": int(used.sum()) - unknown, "of": int(used.sum())}
        if unknown or not sizes:
            return {"tokens": {"mean": None, "p99": None, "max": None} | count}
        value, size = np.array(sorted(sizes.items())).T
        reached = np.cumsum(size)
        tail = float(value[np.searchsorted(reached, 0.99 * reached[-1] * (1.0 - 1e-12))])
        return {"tokens": {"mean": float(value @ size / size.sum()), "p99": tail, "max": float(value[-1])} | count}

    def text(self) -> str:
        """Format the report on one page."""
        report = self.report()
        first, last = report["trained_versions"]
        lines = [
            f"log {self.source} ({self.stack or 'own names'}; {plural(self.rows, 'row')}; versions in {self.unit})",
            f"{report['batches']} batches of {report['groups_per_batch']} groups of {report['samples_per_group']} "
            f"samples trained at versions {first} to {last}, batches per publish: {self.batches_per_publish}",
            f"staleness in publishes of the samples trained, warm-up included, by the stamp at {self.reference}:",
        ]
        for name, row in report["staleness"].items():
            text = "not known"
            if row["mean"] is not None:
                text = "mean {mean:.3f}, p99 {p99:g}, max {max:g}, known for {known} of {of}".format(**row)
            if row.get("low") is not None and row.get("high") is not None:
                text = "mean between {low:.3f} and {high:.3f}, known for {known} of {of}".format(**row)
            meaning = STALENESS[name][2] if name in STALENESS else "all tokens, each token once"
            lines.append(f"  {name:12}{meaning:39}{text}")
        lines.append("fates: " + ", ".join(f"{name} {count}" for name, count in report["fates"].items()))
        lines += [f"refused: {count} rows, {reason}" for reason, count in self.refused.items()]
        lines += [f"cannot be told: {reason}" for reason in self.unchecked]
        return "\n".join(lines)


ENDS = {"low": "newest", "high": "head"}
"""Staleness that bounds the mean over tokens."""


def _summary(values: np.ndarray, used: np.ndarray) -> dict[str, Any]:
    known = values[used & np.isfinite(values)]
    # The 99th percentile is a value that occurs.
    count = {"known": int(known.size), "of": int(used.sum())}
    if not known.size:
        return {"mean": None, "p99": None, "max": None} | count
    tail = float(np.quantile(known, 0.99, method="inverted_cdf"))
    return {"mean": float(known.mean()), "p99": tail, "max": float(known.max())} | count


class Samples(dict[str, np.ndarray]):
    """Columns of a log; the staleness of every trained use, float64 in publishes, is computed at first access.

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
        newer, older, _ = STALENESS[name]
        left = self._known(newer)
        left -= self._known(older)
        return left

    def _known(self, name: str) -> np.ndarray:
        return np.where(self["trained"] if name == "v_train" else self[name] >= 0, self[name], np.nan)
