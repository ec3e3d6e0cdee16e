"""From the columns of a log to one record for each sample, checked against itself."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks, files
from asyncsim.schedules import _log_cells as cells_of
from asyncsim.schedules import _log_files
from asyncsim.schedules import _log_versions as versions
from asyncsim.schedules._log_cells import MISSING, Cells, listed, ranked
from asyncsim.schedules._log_places import Place
from asyncsim.schedules._log_stacks import COLUMNS, FATES, STACKS, STAMPS, TIMES, TRAINED, Stack
from asyncsim.schedules._log_versions import Steps, Units, refuse

IDS = ("sample_id", "group_id")
"""Columns that only name rows: what joins them may be any number for each."""


class Declared(NamedTuple):
    """Declarations of the caller about a log; None for the trainer's known convention."""

    stack: Stack
    name: str | None
    columns: dict[str, str]
    units: Units
    train_offset: int | None
    stamp_offset: int | None
    start_is: str
    keep: bool


class Rows(NamedTuple):
    """Rows of a log that was read and checked: columns, token versions, and refused rows by reason."""

    columns: dict[str, np.ndarray]
    steps: Steps
    refused: dict[str, int]
    rows: int
    names: dict[str, str]
    counts: list[str]


def load(path: Path, places: list[Place], declared: Declared, asked: Sequence[checks.InputError] = ()) -> Rows:
    """Read a log and check every row; raises `InputError` for contradictions and missing values."""
    budget = files.Budget(path)
    # Every name that `_choose` may choose.
    stack, mapping = declared.stack, declared.columns
    known = [name for ours in COLUMNS for name in (mapping.get(ours, ours), *stack.columns.get(ours, ()), ours)]
    wanted = {part for name in known for part in name.split("+")}
    table = _log_files.read(places, wanted, budget, stack.layout)
    names = _choose(table.names, stack, mapping)
    # A stamp stands under the trainer's name, or as mapped, or under ours where a writer makes its log.
    stamps = {ours: names[ours] for ours in STAMPS if ours in stack.columns and ours in names}
    own = any(not stack.whole or ours != theirs or ours in stack.columns[ours] for ours, theirs in stamps.items())
    if declared.name and not own:
        _refuse_other(path, places, declared)
    _require(names, declared, asked, table.names)
    rows = table.rows
    cells = {ours: _cells(table.cells, ours, theirs) for ours, theirs in names.items()}
    table.cells.clear()
    columns = _plain(cells, rows)
    # What was read leaves as soon as it is laid out: it would double the memory of a long log.
    for name in (*_PLAIN, *TIMES):
        cells.pop(name, None)
    columns.update(_trained(cells, names, declared, columns["fate"]))
    for name in ("train_version", "train_step", "batch"):
        cells.pop(name, None)
    steps, last = _generated(cells, rows, names, declared, budget)
    columns["v_last"] = cells_of.narrow(last)
    columns, steps = _joined(columns, steps)
    last = columns["v_last"]
    # A pinned sample is stamped with its generating version, not with the version at its end.
    columns["v_end"] = np.full_like(last, -1) if stack.pinned else last
    columns["v_start"] = steps.oldest()
    _check(columns, steps)
    refused = _unknown(columns, steps, declared)
    return Rows(columns, steps, refused, rows, names, [name for name in table.names if re.search(COUNTS, name.lower())])


def _choose(names: list[str], stack: Stack, mapping: Mapping[str, str]) -> dict[str, str]:
    """Name in the file for each of our columns: as mapped, the trainer's, or our own."""
    columns = {}
    for ours in COLUMNS:
        if ours in mapping:
            reason = stack.traps.get((ours, mapping[ours]))
            bound = "the right column of this trainer"
            checks.require(reason is None, f"columns[{ours}]", mapping[ours], bound, str(reason))
            lacking = [name for name in mapping[ours].split("+") if name not in names]
            bound = "a column of the file: " + ", ".join(names[: checks.MANY]) + ", ..." * (len(names) > checks.MANY)
            checks.require(not lacking, f"columns[{ours}]", mapping[ours], bound, "correct the name")
            columns[ours] = mapping[ours]
            continue
        for theirs in (*stack.columns.get(ours, ()), ours):
            if all(name in names for name in theirs.split("+")):
                columns[ours] = theirs
                break
    return columns


def _cells(table: Mapping[str, Cells], ours: str, name: str) -> Cells:
    """Return one column, or join several: ids to one number per distinct row, others to tuples."""
    if "+" not in name:
        return table[name]
    parts = [table[part] for part in name.split("+")]
    if ours not in IDS or not all(isinstance(part, np.ndarray) and part.dtype.kind == "i" for part in parts):
        return list(zip(*map(listed, parts), strict=True))
    # In order of appearance; an empty cell is a value too.
    number, *others = (ranked(np.asarray(part)) for part in parts)
    for other in others:
        # Ranks are below the number of rows, so that no product of two overflows.
        number = ranked(number * (int(other.max(initial=0)) + 1) + other)
    return number


def _refuse_other(path: Path, places: list[Place], declared: Declared) -> None:
    """Refuse a log that lacks the named trainer's stamps but has those of another trainer, or ours."""
    stamps = {name: [own for ours in STAMPS for own in stack.columns.get(ours, ())] for name, stack in STACKS.items()}
    every = {*STAMPS, *(theirs for names in stamps.values() for theirs in names)}
    have = set(_log_files.read(places, every, files.Budget(path)).names) & every
    others = {name: sorted(have & {*names}) for name, names in stamps.items() if have & {*names}}
    own = [theirs for ours in STAMPS for theirs in declared.stack.columns.get(ours, ())]
    beside = "; ".join(f"{', '.join(names)} of {name}" for name, names in others.items())
    bound = f"a log of {declared.name}, which has {' or '.join(own)}; this one has {beside or ', '.join(sorted(have))}"
    remedy = f"give stack={' or stack='.join(map(repr, others))}" if others else "leave stack out: these are our names"
    checks.require(not have, "stack", declared.name, bound, remedy)


_PLAIN = ("sample_id", "attempt", "group_id", "prompt_tokens", "reward", "fate")
_LIKE = {"sample_id": "(sample|rollout|response).*id", "train_version": "train|learner|step",
         "start_version": "rollout|behavio|gener|sampl|actor|policy|version"}  # fmt: skip
COUNTS = "^(n|num|completion|response|output)_(tokens?|len(gth)?s?)$|^len(gth)?$"
"""What a column is probably called that a log must have, and one that counts tokens."""


def _require(
    present: Mapping[str, str], declared: Declared, asked: Sequence[checks.InputError], columns: Iterable[str]
) -> None:
    stamps = {"start_version", "versions", "call_versions"} | ({"end_version"} if declared.start_is == "end" else set())
    lacking: dict[str, str] = {}
    for field, wanted in (
        ("sample_id", {"sample_id"}),
        ("train_version", {"train_version", "train_step"}),
        ("start_version", stamps),
    ):
        names = sorted(name for ours in wanted for name in declared.stack.columns.get(ours, ()))
        known = f" (this trainer calls it {' or '.join(names)})" if names else ""
        if not wanted & set(present):
            lacking[field] = f"{' or '.join(sorted(wanted))}{known}"
    errors = []
    if lacking:
        free = [name for name in columns if name not in {*present.values(), _log_files.NUMBERED}]
        means, free = [name for name in free if "/" in name], [name for name in free if "/" not in name]
        likely = {"sample_id": _log_files.NUMBERED}
        for field in lacking:
            found = (name for name in free if re.search(_LIKE[field], name.lower()) and name not in likely.values())
            likely[field] = next(found, likely.get(field, "THEIRS"))
        numbered = likely["sample_id"] == _log_files.NUMBERED and "sample_id" in lacking
        ours = {field: "versions" if likely[field].lower().endswith("versions") else field for field in lacking}
        mapped = f"map it: columns='{','.join(f'{ours[field]}={likely[field]}' for field in lacking)}'"
        mapped += f" ({_log_files.NUMBERED} counts each row as a sample)" * numbered
        writer = f"what {declared.name} writes itself lacks it: `asyncsim list logs {declared.name}` has a writer"
        plain = "without a version for each sample use the preset of the system"
        for stale in (name for name in free if name.lower() == "staleness" and "start_version" in lacking):
            plain = f"write start_version, which is train_version minus {stale}"
        remedy = f"{writer if declared.name and not declared.stack.whole else plain}; {mapped}"
        remedy = f"diagnose reads means of steps, as {means[0]}" if means else remedy
        remedy = f"is this the right file? {remedy}" if means or len(lacking) == 3 else remedy
        bound = f"{'a column' if len(lacking) == 1 else 'columns'} of the log: {'; '.join(lacking.values())}"
        errors.append(checks.InputError(", ".join(lacking), None, bound, remedy))
    if asked:
        bound = "; ".join(f"{each.field} {each.bound}" if len(asked) > 1 else each.bound for each in asked)
        remedy = "; ".join(dict.fromkeys(each.remedy for each in asked))
        errors.append(checks.InputError(", ".join(each.field for each in asked), None, bound, remedy))
    for other in errors[1:]:
        errors[0].add_note(str(other))
    if errors:
        raise errors[0]


def _plain(cells: Mapping[str, Cells], rows: int) -> dict[str, np.ndarray]:
    """Columns that need no conversion of versions."""
    ids = cells["sample_id"]
    refuse(cells_of.empty(ids), "sample_id", "empty", "given in every row", "log the number of every sample")
    attempt = np.zeros(rows, dtype=np.int32)
    if "attempt" in cells:
        attempt = cells_of.narrow(np.maximum(cells_of.integers("attempt", cells["attempt"]), -1))
    sample = cells_of.narrow(cells_of.codes("sample_id", ids))
    columns = {
        "row": cells_of.narrow(np.arange(1, rows + 1)),
        "sample": sample,
        "attempt": attempt,
        "group": cells_of.narrow(cells_of.codes("group_id", cells["group_id"])) if "group_id" in cells else sample,
        "trajectory": _trajectories(ids, sample, attempt),
    }
    for name in (*TIMES, "prompt_tokens", "reward"):
        if name in cells:
            columns[name] = cells_of.seconds(name, cells[name])

    def fate_of(value: Any, row: int) -> int:
        """Index in `FATES` of a sample's fate; an empty cell means trained."""
        fate = TRAINED if cells_of.absent(value) else str(value).lower()
        return FATES.index(checks.one_of("fate", fate, FATES, "translate the fates of the log"))

    nothing = np.zeros(rows, dtype=np.int8)
    columns["fate"] = cells_of.converted(cells["fate"], fate_of, np.int8) if "fate" in cells else nothing
    return columns


def _trajectories(ids: Cells, sample: np.ndarray, attempt: np.ndarray) -> np.ndarray:
    """Numbers that key the draws: the log's ids if they are small integers, else in order of appearance."""
    single = not len(attempt) or bool((attempt == attempt[0]).all())
    if isinstance(ids, np.ndarray):
        plain = ids.dtype.kind == "i" and bool(((ids >= 0) & (ids < 1 << 32)).all())
    else:
        plain = all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 1 << 32 for v in ids)
    if plain and single:
        return np.array(ids, dtype=np.int64)
    return sample if single else cells_of.codes("sample_id", list(zip(sample.tolist(), attempt.tolist(), strict=True)))


def _trained(
    cells: Mapping[str, Cells], names: Mapping[str, str], declared: Declared, fate: np.ndarray
) -> dict[str, np.ndarray]:
    """Trained version in publishes, and batch label; -1 if missing."""
    name = "train_version" if "train_version" in names else "train_step"
    theirs = names[name] in declared.stack.columns.get("train_version", ())
    offset = declared.train_offset
    if offset is None:
        bound = "declared for a column train_step"
        remedy = "give -1 where steps are counted from one, 0 where they are counted from zero"
        checks.require(theirs or name == "train_version", "train_offset", None, bound, remedy)
        offset = declared.stack.train_offset if theirs else 0
    version, number = declared.units.trained(names[name], cells_of.integers(names[name], cells[name]), offset)
    if "batch" in cells:
        label = cells_of.integers("batch", cells["batch"])
        lost = (label == MISSING) & (version >= 0) & (fate == 0)
        remedy = "log the batch of each, or leave the column out"
        refuse(lost, "batch", "empty", "given for every trained sample", remedy)
        number = np.where(label == MISSING, -1, label)
    version = cells_of.narrow(version)
    return {"v_train": version, "label": version if number is None else cells_of.narrow(number)}


def _generated(
    cells: dict[str, Cells], rows: int, names: Mapping[str, str], declared: Declared, budget: files.Budget
) -> tuple[Steps, np.ndarray]:
    """Versions of all tokens and of the last token in publishes; -1 if missing."""
    length = _lengths(cells, rows)
    start, last = _ends(cells, names, declared, rows, budget)
    has_list, lists = np.zeros(rows, dtype=bool), list[versions.Listed]()
    if "versions" in cells:
        has_list, lists = versions.of_cells(names["versions"], cells["versions"], budget)
    # What was read leaves as soon as it is laid out: it would double the memory of a long log.
    cells.clear()
    steps = versions.joined(start, last, length, has_list, lists) if has_list.any() else None
    if steps is not None:
        odd = has_list & (length > 0) & (steps.length != length)
        bound = "the number of generated tokens in the list of versions"
        refuse(odd, "tokens", length, bound, "count generated tokens only, or leave tokens out")
        short = has_list & (steps.length > 0) & (steps.at[steps.first[1:] - 1] >= steps.length)
        refuse(short, "tokens", length, "more than the first token of the last version", "count all generated tokens")
    stamp = next(name for name in ("versions", "start_version", "call_versions", "end_version") if name in names)
    offset, stack = declared.stamp_offset, declared.stack
    if offset is None:
        is_theirs = names[stamp] in stack.columns.get(stamp, ())
        offset = stack.paired.get(names.get("train_version", ""), stack.stamp_offset) if is_theirs else 0

    def converted(field: str, values: np.ndarray, row_of: np.ndarray) -> np.ndarray:
        return cells_of.narrow(declared.units.stamps(field, values, offset, row_of))

    each = np.arange(rows, dtype=np.int32)
    first = converted(names.get("start_version", stamp), start, each)
    del start
    newest = converted(names.get("end_version", stamp), last, each)
    del last, each
    length = cells_of.narrow(length)
    if steps is None:
        return versions.of_ends(first, newest, length), newest
    steps = Steps(steps.first, cells_of.narrow(steps.at), steps.version, cells_of.narrow(steps.length))
    steps = steps._replace(version=converted(names[stamp], steps.version, steps.owner))

    def agree(name: str, stamps: np.ndarray, found: np.ndarray) -> None:
        odd, bound = has_list & (stamps >= 0) & (stamps != found), "the first or last of the versions of the sample"
        beside, remedy = "{} beside versions with {}", "log one of the two, or fix the other"
        refuse(odd, name, lambda row: beside.format(stamps[row], found[row]), bound, remedy)

    agree("start_version", first, steps.oldest())
    agree("end_version", newest, steps.newest())
    return steps, np.where(has_list, steps.newest(), newest)


def _ends(
    cells: Mapping[str, Cells], names: Mapping[str, str], declared: Declared, rows: int, budget: files.Budget
) -> tuple[np.ndarray, np.ndarray]:
    """First and last version as logged, or `MISSING`."""
    nothing = np.full(rows, MISSING)
    start, last = (
        cells_of.integers(names[name], cells[name]) if name in cells else nothing
        for name in ("start_version", "end_version")
    )
    if "call_versions" in cells:
        called = versions.of_calls(names["call_versions"], cells["call_versions"], budget)
        start, last = (np.where(v == MISSING, w, v) for v, w in zip((start, last), called, strict=True))
    if declared.start_is == "end":
        start, last = nothing, np.where(last == MISSING, start, last)
    return start, start if declared.stack.pinned else last


def _lengths(cells: Mapping[str, Cells], rows: int) -> np.ndarray:
    if "tokens" not in cells:
        return np.full(rows, -1)
    found = cells["tokens"]
    if isinstance(found, list):
        # Turns of one sample have a length each.
        found = [sum(v) if isinstance(v, list) and all(isinstance(n, int) for n in v) else v for v in found]
    tokens = cells_of.integers("tokens", found)
    odd = ((tokens < 1) | (tokens > checks.LARGEST)) & (tokens != MISSING)
    refuse(odd, "tokens", tokens, f"in [1, {checks.LARGEST}]", "leave the cell empty where it is unknown")
    return np.maximum(tokens, -1)


def _joined(columns: dict[str, np.ndarray], steps: Steps) -> tuple[dict[str, np.ndarray], Steps]:
    """One record per use of a sample: rows with the same sample, attempt and batch are its segments, in order."""
    if columns["sample"].max(initial=-1) + 1 == len(columns["sample"]):
        return columns, steps
    key = np.stack([columns["sample"], columns["attempt"], columns["label"]], axis=1)
    _, first, member, count = np.unique(key, axis=0, return_index=True, return_inverse=True, return_counts=True)
    if (count == 1).all():
        return columns, steps
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    first, member = first[order], rank[member.reshape(-1)]
    for name in ("group", "v_train", "fate"):
        values = columns[name]
        refuse(
            values != values[first[member]],
            "sample_id",
            lambda row: f"of row {first[member[row]] + 1} again",
            "of one group, fate and train_version in all rows of the sample",
            "number samples uniquely (columns='sample_id=group_id+sample_id' joins columns); rows of one sample "
            "in one batch are its segments",
        )
    unknown, remedy = steps.length < 0, "log the tokens of each segment, or number samples uniquely"
    refuse(unknown & (count[order][member] > 1), "tokens", "empty", "given for every segment of a sample", remedy)
    latest = np.zeros(len(first), dtype=np.int64)
    np.maximum.at(latest, member, np.arange(len(member)))
    ends = ("t_end", "t_ready", "t_train", "v_last", "reward")
    merged = {name: values[latest if name in ends else first] for name, values in columns.items()}
    return merged, versions.appended(steps, member, len(first))


def _check(columns: dict[str, np.ndarray], steps: Steps) -> None:
    start, last, train, row = (columns[name] for name in ("v_start", "v_last", "v_train", "row"))

    def refuse_rows(wrong: np.ndarray, field: str, text: str, bound: str, remedy: str) -> None:
        values = {"start": start, "end": last, "train": train}
        refuse(wrong, field, lambda i: text.format(**{k: v[i] for k, v in values.items()}), bound, remedy, row - 1)

    backwards = np.zeros(len(row), dtype=bool)
    if len(steps.at) > len(row):
        same = np.append(steps.owner[1:] == steps.owner[:-1], False)
        both = same & (steps.version >= 0) & (np.append(steps.version[1:], -1) >= 0)
        back = both & (np.append(steps.version[1:], 0) < steps.version)
        backwards = np.bincount(steps.owner, back, minlength=len(row)) > 0
    known, ended, used, ends = start >= 0, last >= 0, train >= 0, "start {start}, end {end}"
    bound = "at least the version of the first token"
    refuse_rows(known & ended & (start > last), "end_version", ends, bound, "check which column is which")
    bound = "versions that do not go backwards inside a sample"
    refuse_rows(backwards, "versions", ends, bound, "check the order of tokens or segments")
    for name, stamps, field, bound in (
        ("start_version", start, "staleness", ">= 0: data cannot be trained on before its weights exist"),
        ("end_version", last, "train_version", "at least the version of the last token"),
    ):
        both, text = used & (stamps >= 0), f"train_version {{train}}, {name} {{{name[:-8]}}}"
        refuse_rows(both & (train < stamps), field, text, bound, _ahead(name, stamps[both], (stamps - train)[both]))
    times = [name for name in TIMES if name in columns]
    bound, remedy = "not before the event that it follows", "write all times from one clock, in seconds"
    for k, late in enumerate(times):
        for early in times[:k]:
            refuse_rows(columns[early] > columns[late], late, f"before {early}", bound, remedy)


def _ahead(name: str, stamps: np.ndarray, ahead: np.ndarray) -> str:
    """What may explain stamps that are ahead of the versions at which their samples were trained."""
    most, first = int(ahead.max(initial=0)), int(stamps.min(initial=checks.LARGEST))
    if most > 0 and 0 <= ahead.min() < most:
        return f"{name} is nowhere below train_version: check which column is which"
    if first < most:
        later = f"{(ahead > 0).sum()} of {len(ahead)} samples, as others have version {first}"
        return f"no stamp_offset explains {later}: correct these stamps, or leave their rows out"
    return f"if all stamps count {most} too many, add {-most} to stamp_offset; else check unit and train_offset"


def _unknown(columns: dict[str, np.ndarray], steps: Steps, declared: Declared) -> dict[str, int]:
    """Refuse or count missing values; samples without a trained version are counted and lose their batch."""
    trained = columns["fate"] == 0
    unplaced, unstamped = trained & (columns["v_train"] < 0), trained & (columns["v_start"] < 0)
    if not declared.keep:
        for wrong, field, remedy in (
            (unplaced, "train_version", "give a fate to samples that were not trained"),
            (unstamped, "start_version", checks.advice(declared.start_is, "stamp")),
        ):
            remedy += ", or keep unknown versions as such: unknown='keep'"
            refuse(wrong, field, "empty", "given for every trained sample", remedy, columns["row"] - 1)
    columns["trained"] = trained & ~unplaced
    return {"no train_version": int(unplaced.sum())} if unplaced.any() else {}
