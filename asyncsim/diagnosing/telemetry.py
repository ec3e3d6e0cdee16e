"""Telemetry as columns, with one row per step or per token, from a mapping or a file.

Axes: `U` logged steps, `K` tokens.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks, files
from asyncsim.diagnosing import aliases
from asyncsim.schedules import _log_cells, _log_files, _log_places, _log_stacks
from asyncsim.schedules._log_versions import resumed

RUNS = ({"Name", "State"}, {"name", "summary", "config"})
"""Columns of tables of runs."""
REMEDY = "give columns by name, {'step': [0, 1], 'ess': [0.9, 0.8]}, or the path of a .csv, .jsonl or .parquet file"


@dataclass(frozen=True)
class Tokens:
    """Trained tokens, `[K]` each: log ratio of trainer to sampler, and other known columns.

    `row`: the place of the token's step among the steps. `masked`: rows and log ratios of tokens outside of the mask.
    """

    row: np.ndarray
    step: np.ndarray
    log_ratio: np.ndarray
    staleness: np.ndarray | None = None
    sequence: np.ndarray | None = None
    micro: np.ndarray | None = None
    masked: tuple[np.ndarray, np.ndarray] | None = None

    def means(self, values: np.ndarray) -> np.ndarray:
        """Mean of values over the tokens of every step `[U]`, NaN for a step without tokens."""
        count = np.bincount(self.row, minlength=len(self.step))
        sums = np.bincount(self.row, weights=values, minlength=len(self.step))
        return np.where(count > 0, sums / np.maximum(count, 1), np.nan)


@dataclass(frozen=True)
class Setup:
    """Settings from the user that no log contains; see `diagnose`."""

    batch: float | None = None
    staleness: Any = None
    learning_rate: float | None = None
    curvature: float | None = None
    momentum: float | None = None
    cap: float | None = None
    floor: float = 1e-3


@dataclass(frozen=True)
class Telemetry:
    """A run: quantities by name `[U]`, NaN where a step did not log them, and its tokens if they are known.

    `scope`: what each quantity is averaged over. `names`: its column. `unknown`: columns that were not understood, each
    with known names that are spelled alike. `refused`: columns that are known and not used, with the reason.
    `used`: quantities that were asked for.
    """

    quantities: Mapping[str, np.ndarray]
    tokens: Tokens | None
    setup: Setup
    scope: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, list[str]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set, compare=False)

    def get(self, name: str) -> np.ndarray | None:
        """A quantity `[U]`, or None if it was not logged."""
        self.used.add(name)
        return self.quantities.get(name)

    @property
    def milliseconds(self) -> list[str]:
        """Quantities in seconds, read from columns whose names say milliseconds."""
        timed = {name: each for name, each in self.names.items() if "seconds" in self.scope.get(name, "")}
        return [name for name, column in timed.items() if aliases.MILLISECONDS.search(column)]

    @property
    def steps(self) -> int:
        """U, the number of steps in the log."""
        return len(self.quantities["step"]) if "step" in self.quantities else len(self.tokens.step)  # type: ignore[union-attr]


class Header(NamedTuple):
    """Columns: `used`, to (quantity, scope); `shown`, without run prefix; `refused` and `unknown` as in `Telemetry`."""

    used: dict[str, tuple[str, str]]
    refused: dict[str, str]
    unknown: dict[str, list[str]]
    tokens: bool
    shown: dict[str, str]

    def names(self) -> dict[str, str]:
        """Column name of every quantity in the log."""
        return {quantity: self.shown[name] for name, (quantity, _) in self.used.items()}


def read(
    source: Any, tokens: Any, setup: Setup, columns: Any = None, run: str | None = None, system: bool = False
) -> Telemetry:
    """Read telemetry from a table and, if given, a second table of tokens; `system` adds seconds and lengths."""
    mapping = _log_stacks.mapping_of(columns, declarable(system), "write columns='kl_k3=THEIRS,staleness_mean=THEIRS'")
    own = {ours: theirs for ours, theirs in mapping.items() if tokens is not None and ours in OF_TOKENS}
    mapping = {ours: theirs for ours, theirs in mapping.items() if ours not in own}
    cells, head, rows = _columns("telemetry", source, mapping, run, system)
    names = head.names()
    if head.tokens:
        checks.require(tokens is None, "tokens", "given twice", "given once", "the first table has tokens already")
        return Telemetry({}, _tokens(cells, names), setup, {}, names, head.unknown, head.refused)
    several = [f"write a file for each value of column {n}; " for n in head.shown.values() if n in ("seed", "run_id")]
    if isinstance(source, (str, Path)) and not Path(source).is_file():
        several = ["these files are of several runs: give one of them; "]
    found, second, more = _steps(cells, names, rows, "".join(several)), None, Header({}, {}, {}, True, {})
    full = np.any([np.isfinite(found[name]) for name in found if name != "step"] or [[True]], axis=0)
    if "step" not in names and not system and full.any():
        found = {name: column[full] for name, column in found.items()} | {"step": np.arange(full.sum(), dtype=float)}
    if tokens is not None:
        flat, more, _ = _columns("tokens", tokens, own, run)
        second = _tokens(flat, more.names())
        names = more.names() | names
    scope = dict(head.used.values())
    made = Telemetry(found, second, setup, scope, names, head.unknown | more.unknown, head.refused | more.refused)
    found |= {name: found[name] / 1000.0 for name in made.milliseconds}
    return made


def refuse_runs(names: Iterable[str]) -> None:
    """Refuse a table with one row per run, as W&B exports it or its API returns it, because it has no steps."""
    of_runs = next((each for each in RUNS if each <= set(names)), None)
    bound = "of steps; a row of this table is a run"
    write = "wandb.Api().run('ENTITY/PROJECT/ID').history(samples=100_000).to_csv('a.csv')"
    remedy = f"export the history of each run, in W&B by the menu of a chart, in Python by {write}"
    checks.require(of_runs is None, "columns", ", ".join(sorted(of_runs or ())), bound, remedy)


def _header(names: Iterable[str], mapping: Mapping[str, str], run: str | None, system: bool, of: str = "") -> Header:
    """Identify each column: as mapped, else by its name, for one run where W&B wrote `run - metric`."""
    names = list(names)
    refuse_runs(names)
    for ours, theirs in mapping.items():
        checks.one_of(f"columns[{ours}]", theirs, names, "correct the name")
        ages = not (ours.startswith("staleness") and re.search("count|processed|total", theirs))
        remedy = "log staleness_mean, _min and _max of each step: the trained version less that of the weights"
        checks.require(ages, f"columns[{ours}]", theirs, "ages in versions; this column counts samples", remedy)
    runs = {name: name.rpartition(" - ")[0] for name in names if " - " in name}
    several = list(dict.fromkeys(runs.values()))
    checks.require(run is None or bool(several), "run", run, "left out", "no column is named RUN - METRIC")
    if run is not None or len(several) > 1:
        checks.one_of("run", run, several, f"{of}name the run of which the columns are, as run={several[0]!r}")
    bare = {name: name.removeprefix(f"{runs[name]} - ") if name in runs else name for name in names}
    bare = {name: metric for name, metric in bare.items() if runs.get(name, run) == run or run is None}
    given = {theirs: declarable(system)[ours] for ours, theirs in mapping.items()}
    table = aliases.tokens()
    known = [given[name][0] if name in given else table.get(aliases.plain(bare[name]), ("", ""))[0] for name in bare]
    of_tokens = bool({"sampler", "trainer"} & set(known))
    table = table if of_tokens else aliases.steps(system)
    head, first = Header({}, {}, {}, of_tokens, bare), dict[str, str]()
    refused = head.refused
    rank = {x.column: k for k, x in enumerate([*aliases.STEPS, *aliases.SYSTEM]) if x.quantity in CHOSEN}
    for name in sorted(bare, key=lambda each: (each not in given, rank.get(aliases.plain(bare[each]), -1))):
        metric = bare[name]
        meaning = given.get(name) or table.get(metric) or table.get(aliases.plain(metric))
        for spelled in aliases.in_seconds(metric):
            meaning = meaning or (table[spelled] if "seconds" in table.get(spelled, ("", ""))[1] else None)
        if metric.endswith(("__MIN", "__MAX")) and name not in given:
            refused[metric] = "minimum or maximum over the steps that W&B merged into one point of the chart"
        elif meaning is None and (why := aliases.reason(metric)):
            refused[metric] = why
        elif meaning is None:
            alike = aliases.near(metric)
            if of_tokens or not aliases.SHARE.search(aliases.plain(metric)):
                head.unknown[metric] = alike
                continue
            also = f" (near {' or '.join(alike)})" if alike else ""
            first[f"share named {metric}"] = name
            head.used[name] = f"share named {metric}", f"{aliases.GUESSED}{also}"
        elif meaning[0] not in first:
            first[meaning[0]], head.used[name] = name, meaning
        elif meaning[0] in CHOSEN or first[meaning[0]] in given:
            refused[metric] = f"{bare[first[meaning[0]]]} is taken for {meaning[0]}"
        else:
            both, remedy = f"{first[meaning[0]]} and {name}", f"name one: columns='{meaning[0]}={name}'"
            raise checks.InputError("columns", both, f"one column for {meaning[0]}", of + remedy)
    refused |= {name: "of another run" for name in names if name not in bare}
    stacks = _log_stacks.STACKS.values()
    stamps = {theirs for stack in stacks for ours in STAMPS for theirs in stack.columns.get(ours, ())}
    alone = set(first) - {"step", "length_mean"}
    if not alone - {"reward"} and ({"sample_id", *STAMPS} | stamps) & {*names} - {first.get("step")}:
        remedy = "use `asyncsim log`, which reads stamps of versions: a row of this file is a sample"
        raise checks.InputError("columns", names, "of steps or tokens", remedy)
    # Steps with nothing but columns of other quantities are telemetry: why each is not used is an answer.
    if not alone and not (first and refused):
        remedy = "is this the right file? rename one, as to ess or kl_k3, or say what it is: columns='kl_k3=THEIRS'"
        remedy += " (of tokens: columns='sampler_log_prob=THEIRS,trainer_log_prob=THEIRS')"
        raise checks.InputError("columns", names, "at least one that is known", remedy)
    return head


CELLS = _log_files.Layout(empty=("",))
"""Cells with nan, NULL or n/a are refused: only those without any text are empty."""
OF_TOKENS = {n for a in aliases.TOKENS for n in (a.column, a.quantity)} - {n for a in aliases.STEPS for n in a[:2]}
"""Names that a user may assign to columns of tokens alone."""
STAMPS = ("start_version", "end_version", "versions", "train_version")
"""Columns of a log of samples."""
SCORES = ("sampler", "trainer")
"""Log-probs of a token."""
CHOSEN = ("step", "reward", "clock", "seconds_step", *aliases.WATCHED)
"""Quantities of which a table may have several columns; the first in the table of names is taken."""


def declarable(system: bool) -> dict[str, tuple[str, str]]:
    """Names that a user may assign to a column: asyncsim's own column names, and quantities."""
    known = [*aliases.STEPS, *aliases.TOKENS, *(aliases.SYSTEM if system else ())]
    own = [alias for alias in known if alias.quantity not in ("-", "share")]
    return {alias.quantity: (alias.quantity, alias.scope) for alias in own} | {
        alias.column: (alias.quantity, alias.scope) for alias in own if alias.source == "asyncsim"
    }


def _columns(
    field_name: str, source: Any, mapping: Mapping[str, str], run: str | None, system: bool = False
) -> tuple[dict[str, Any], Header, int]:
    """Columns by quantity as lists of cells (None: empty), what the header says, and the number of rows."""
    if isinstance(source, Mapping) or hasattr(source, "columns"):  # a table of pandas has items too
        given = {str(name): _listed(str(name), column) for name, column in source.items()}
        checks.require(len(given) > 0, field_name, source, "at least one column", REMEDY)
        rows = max(len(column) for column in given.values())
        for name, column in given.items():
            bound = f"there, as in the other columns ({rows} rows)"
            remedy = "give all columns the same rows"
            checks.require(len(column) == rows, f"column {name}, row {len(column) + 1}", None, bound, remedy)
        checks.require(rows > 0, field_name, source, "at least one row", "log a row for every step")
        head = _header(given, mapping, run, system)
    else:
        remedy = checks.advice(type(source).__name__, "logged", otherwise=REMEDY)
        checks.require(isinstance(source, (str, Path)), field_name, source, "columns or a path", remedy)
        path = Path(source)
        places = _log_places.found(path, "")
        wanted = aliases.steps(system).keys() | aliases.tokens().keys() | set(mapping.values()) | BOARD
        table = _log_files.read(places, wanted, files.Budget(path), CELLS)
        if set(table.names) >= BOARD and not {"Value"} & set(mapping.values()):
            return _columns(field_name, _board(places), mapping, run, system)
        own = [name for name in table.names if name != _log_files.NUMBERED]
        head = _header(own, mapping, run, system, "of several runs give one file; " * (len(places) > 1))
        if not head.used.keys() <= table.cells.keys():
            # An export, whose names are known when its header is read.
            table = _log_files.read(places, head.used, files.Budget(path), CELLS)
        rows = table.rows
        given = {
            name: column if isinstance(column, np.ndarray) and not _log_cells.empty(column).any()
            else _log_cells.listed(column)
            for name, column in table.cells.items()
        }  # fmt: skip
    return {quantity: given[name] for name, (quantity, _) in head.used.items()}, head, rows


BOARD = {"Wall time", "Step", "Value"}
"""Columns of the file of one scalar that TensorBoard writes."""


def _board(places: list[_log_places.Place]) -> dict[str, Any]:
    """Columns of files with one scalar each, joined by step; a file name ends in its tag, with `_` for `/`."""
    tags = {name.replace("/", "_"): name for name in aliases.steps(system=True)}
    values: dict[str, dict[float, Any]] = {}
    for place in places:
        stem = place.path.name.partition(".csv")[0]
        fits = [tag for tag in tags if stem.endswith(tag)]
        table = _log_files.read([place], BOARD, files.Budget(place.path)).cells
        name = tags[max(fits, key=len)] if fits else stem
        checks.require(name not in values, "path", place.name, f"the only file of {name}", "give the files of one run")
        values[name] = dict(zip(*(_log_cells.listed(table[each]) for each in ("Step", "Value")), strict=True))
    steps = sorted({step for column in values.values() for step in column})
    return {"Step": steps} | {name: [column.get(step) for step in steps] for name, column in values.items()}


def _listed(name: str, column: Any) -> Any:
    """A column as a numeric array if it is one, else as a list of cells."""
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iuf":
        return column
    listed = not isinstance(column, (str, bytes)) and hasattr(column, "__len__") and getattr(column, "ndim", 1) > 0
    checks.require(listed, f"column {name}", column, "a list of cells", "give a column one value for each row")
    # pandas reads an empty cell as NaN.
    gaps = hasattr(column, "isna") and column.isna().any()
    column = column.astype(object).where(column.notna(), None) if gaps else column
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _refuse_cell(name: str, row: int, cell: Any) -> None:
    """Refuse a cell that is neither a finite number nor empty."""
    if cell is None:
        return
    try:
        finite = np.isfinite(float(cell))
    except (TypeError, ValueError):
        finite = False
    remedy = "write the number, with a point as 0.5, or leave the cell empty where the step has none"
    if not finite and (unit := re.fullmatch(r"\s*([-+\d.eE]+)\s*[%s]\s*", str(cell))):
        remedy = f"write {float(unit[1]) / (100.0 if '%' in str(cell) else 1.0):.15g} for {cell}, in every row"
    checks.require(bool(finite), f"column {name}, row {row}", cell, "a finite number", remedy)


def _numbers(name: str, cells: Any, rows: np.ndarray | None = None, free: np.ndarray | None = None) -> np.ndarray:
    """Numbers `[U]`, NaN for empty cells; `rows` gives the table row of each cell if it is not its position."""
    values = np.full(len(cells), np.nan)
    with suppress(TypeError, ValueError):
        array = np.asarray(cells, dtype=float)
        values = array if array.ndim == 1 else values
    for place in np.flatnonzero(~np.isfinite(values)).tolist():
        if free is not None and free[place]:
            values[place] = np.nan
            continue
        cell = cells[place] if isinstance(cells, list) else float(values[place])
        _refuse_cell(name, place + 1 if rows is None else int(rows[place]) + 1, None if cell == "" else cell)
        values[place] = np.nan if cell is None or cell == "" else float(cell)
    return values


def _steps(cells: Mapping[str, list[Any]], names: Mapping[str, str], rows: int, several: str) -> dict[str, np.ndarray]:
    """Quantities of a table with one row per step, without W&B's and evaluations' rows that have none of them."""
    # What is a share by its name alone may hold anything.
    free = {q: np.full(rows, q in aliases.WATCHED or q.startswith("share named ")) for q in cells}
    found = {quantity: _numbers(names[quantity], column, None, free[quantity]) for quantity, column in cells.items()}
    for quantity in {*found} & {*aliases.WATCHED}:
        odd = [cell not in (None, "") and np.isnan(x) for cell, x in zip(cells[quantity], found[quantity], strict=True)]
        found |= {f"odd {quantity}": np.where(odd, 1.0, np.nan)} if any(odd) else {}
    if "clock" in found:
        clock, falls = found["clock"], np.zeros(rows, dtype=bool)
        known = np.flatnonzero(np.isfinite(clock))
        falls[known[1:]] = np.diff(clock[known]) < 0
        remedy = "cut the log where the run was resumed, or add the seconds before it to the rows behind"
        if falls.sum() > 0.1 * rows:
            remedy = f"of seconds of each step write columns='seconds_step={names['clock']}'"
        _refuse_first(f"column {names['clock']}", falls, clock, "not below the row before", several + remedy)
    # W&B counts calls, which may log other things than these, and draws some of them.
    calls = names.get("step") in ("Step", "_step")
    if "step" not in found:
        return found | {"step": np.arange(rows, dtype=float)}
    if len(found) > 1:
        some = np.any([np.isfinite(column) for quantity, column in found.items() if quantity != "step"], axis=0)
        again = np.append(np.append(False, np.diff(found["step"]) == 0), False)
        kept = some | (np.isfinite(found["step"]) & ~(again[:-1] | again[1:]) & (not calls))
        found = {quantity: column[kept] for quantity, column in found.items()}
    name, step = names["step"], found["step"]
    _refuse_first(f"column {name}", np.isnan(step), step, "a step number", f"{several}number every row by its step")
    change = np.diff(step)
    remedy = "give one row per step: of samples the means, df.groupby(STEP).mean(), or `asyncsim log` for staleness"
    if not (change == 0).any():
        back = resumed(np.arange(1, len(step) + 1), step) or "sort the rows by their step"
        remedy = back if several else f"{back}; of several runs make a file each"
    _refuse_first(f"column {name}", np.append(False, change <= 0), step, "above the row before", several + remedy)
    if len(change) and not calls:
        stride = float(np.median(change))
        _refuse_first(
            f"column {name}", np.append(False, change != stride), step, f"{stride:g} after the row before",
            "add the missing steps, or give the part without a gap",
        )  # fmt: skip
    return found


def _refuse_first(name: str, bad: np.ndarray, values: np.ndarray, bound: str, remedy: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise checks.InputError(f"{name}, row {row + 1}", float(values[row]), bound, remedy)


def _tokens(cells: Mapping[str, list[Any]], names: Mapping[str, str]) -> Tokens:
    """Tokens in order of their steps; a row may hold lists with one cell per token."""
    for needed in ("step", "sampler", "trainer"):
        known = [alias.column for alias in aliases.TOKENS if alias.quantity == needed]
        checks.require(needed in cells, "columns", list(names.values()), f"with {needed} ({', '.join(known)})",
                       f"log it for every token, or name its column: columns='{needed}=THEIRS'")  # fmt: skip
    flat, row_of, lists = _flat(cells, names)
    live = flat["mask"] != 0 if "mask" in flat else np.ones(len(row_of), dtype=bool)
    for quantity, values in flat.items():
        # What the mask leaves out may have no log-prob.
        at = row_of[np.isnan(values) & (live | (quantity not in SCORES))]
        where = f"column {names[quantity]}, row {at[0] + 1 if len(at) else 0}"
        checks.require(not len(at), where, None, "a number", "log it for every token")
    # A count that is a fraction is an average over tokens or ranks.
    for quantity, allowed, bound in (
        ("staleness", lambda x: x % 1 == 0, "a whole number of versions"),
        ("mask", lambda x: (x == 0) | (x == 1), "0 or 1"),
    ):
        values = flat.get(quantity, np.zeros(0))
        for place in np.flatnonzero(~allowed(values))[:1]:
            where = f"column {names[quantity]}, row {row_of[place] + 1}"
            raise checks.InputError(where, float(values[place]), bound, "log it for every token, not an average")
    step = flat["step"]
    back = np.append(False, np.diff(step) < 0)
    _refuse_first(f"column {names['step']}", back, step, "at least that of the row before", "sort rows by step")
    checks.require(bool(live.any()), f"column {names.get('mask', 'mask')}", 0, "1 for some token", "log the loss mask")
    steps, row = np.unique(step, return_inverse=True)
    ratio = flat["trainer"] - flat["sampler"]
    sequence = flat.get("sequence", row_of.astype(float) if lists else None)
    pick = {name: None if flat.get(name) is None else flat[name][live] for name in ("staleness", "micro_batch")}
    shares = all(((flat[name][live] > 0.0) & (flat[name][live] <= 1.0)).all() for name in SCORES)
    remedy = "take the logarithms of these probabilities"
    checks.require(not shares, f"column {names['sampler']}", "all in (0, 1]", "log-probs, not above 0", remedy)
    known = ~live & np.isfinite(ratio)
    hidden = (row[known], ratio[known]) if known.any() else None
    own = None if sequence is None else paired(row, sequence)
    sequence = None if own is None else own[live]
    return Tokens(row[live], steps, ratio[live], pick["staleness"], sequence, pick["micro_batch"], hidden)


def paired(row: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Number every distinct pair of a step index and another number, from 0, in order of the steps."""
    known, rank = np.unique(other, return_inverse=True)
    return np.unique(row.astype(np.int64) * len(known) + rank.ravel(), return_inverse=True)[1].ravel()


def _cells(quantity: str, name: str, cells: Any, free: np.ndarray | None = None) -> np.ndarray:
    """Numbers of a column; texts that name sequences are mapped to numbers."""
    if quantity == "sequence" and any(isinstance(cell, str) for cell in cells) and None not in cells:
        return np.unique([str(cell) for cell in cells], return_inverse=True)[1].astype(float)
    return _numbers(name, cells, None, free)


def _is_list(cell: Any) -> bool:
    return isinstance(cell, (list, tuple, np.ndarray))


def _flat(cells: Mapping[str, list[Any]], names: Mapping[str, str]) -> tuple[dict[str, np.ndarray], np.ndarray, bool]:
    """Every column with one number per token, the table row of each token, and whether cells are lists."""
    lists = any(_is_list(column[0]) for column in cells.values())
    count = np.array([len(cell) if _is_list(cell) else 0 for cell in cells["sampler"]]) if lists else None
    row_of = np.arange(len(cells["step"])) if count is None else np.repeat(np.arange(len(count)), count)
    flat: dict[str, np.ndarray] = {}
    # The mask first: what it leaves out may have any log-prob, or none.
    for quantity in sorted(cells, key=lambda each: each != "mask"):
        column, name = cells[quantity], names[quantity]
        free = flat["mask"] == 0 if quantity in SCORES and "mask" in flat else None
        if count is None:
            flat[quantity] = _cells(quantity, name, column, free)
        elif not any(map(_is_list, column)):
            flat[quantity] = np.repeat(_cells(quantity, name, column), count)
        else:
            for row, cell in enumerate(column):
                if not (_is_list(cell) and len(cell) == count[row]):
                    bound = f"a list of {count[row]} cells, as {names['sampler']} has"
                    raise checks.InputError(f"column {name}, row {row + 1}", cell, bound, "log one cell a token")
            flat[quantity] = _numbers(name, list(itertools.chain.from_iterable(column)), row_of, free)
    return flat, row_of, lists
