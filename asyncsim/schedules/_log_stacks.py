"""How the logs of trainers name their stamps: a table that maps their columns, units and offsets to ours."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from asyncsim.base import checks
from asyncsim.schedules._log_files import Layout

STARTS = ("start", "submit", "end")
STAMPS = ("start_version", "end_version", "versions", "call_versions")
TIMES = ("t_submit", "t_start", "t_end", "t_ready", "t_train")
COLUMNS = (
    *("sample_id", "group_id", "attempt", "use", *STAMPS, "train_version", "train_step", "batch", *TIMES),
    *("prompt_tokens", "tokens", "fate", "server", "reward"),
)
"""Columns of a log under the names of this package."""

TRAINED = "trained"
FATES = (TRAINED, "dropped_age", "dropped_overflow", "dropped", "rejected", "failed", "unfinished")


class Stack(NamedTuple):
    """Log conventions of one trainer.

    `columns`: ours -> theirs, the first that the file has ("a+b" joins columns into one name); `unit` of all versions;
    `train_offset` and `stamp_offset`, what is added to the trained and to the generating version; `start_is`, which
    stamp `start_version` is; `pinned`: a sample finishes under the weights that it started with; `layout` of its files;
    `paired`: the trained column -> the stamp offset beside it, where that differs;
    `traps`: (ours, theirs) -> why that column is wrong, and which one is right; `disk`: what the trainer writes itself,
    and what that lacks; `source` of these facts, read in November 2026.
    """

    columns: Mapping[str, tuple[str, ...]]
    unit: str = "publishes"
    train_offset: int = 0
    stamp_offset: int = 0
    start_is: str = "start"
    pinned: bool = False
    layout: Layout = Layout()
    paired: Mapping[str, int] = {}
    traps: Mapping[tuple[str, str], str] = {}
    disk: str = ""
    source: str = ""

    @property
    def whole(self) -> bool:
        """Whether the trainer's own files have all stamps; otherwise the stack's writer makes the log."""
        return "writer" not in self.disk


def _stack(row: Mapping[str, Any]) -> Stack:
    """Make the conventions of a trainer from its table, in which a column is ours=theirs|theirs."""
    pairs = (pair.split("=") for pair in row["columns"].split())
    columns = {ours: tuple(theirs.split("|")) for ours, theirs in pairs}
    traps = {tuple(pair): why for *pair, why in row.get("traps", ())}
    own = {"columns": columns, "layout": Layout(**row.get("layout", {})), "traps": traps}
    return Stack(**{**row, **own})


_TABLES = checks.table(__file__, "log_stacks.toml")
STALENESS: dict[str, tuple[str, str, str]] = {name: tuple(row) for name, row in _TABLES.pop("staleness").items()}
"""Staleness of a sample: the newer version, the older one that is taken from it, and in words."""
UNITS: dict[str, tuple[str, ...]] = {name: tuple(row.split()) for name, row in _TABLES.pop("units").items()}
"""What versions may count, and the counts that are needed then."""
STAMPLESS: dict[str, str] = _TABLES.pop("stampless")
"""Trainers that write no version for a sample: only batch counter and law of the system give the staleness."""
STACKS = {name: _stack(row) for name, row in _TABLES.items()}
"""Trainers by name. Where no train column is listed the log has to bring `train_version`, or `train_step` with its
offset. A convention that has changed shows: the first batch then does not train at the first version, or before it."""

PLAIN = Stack({})
"""A log under the names of this package."""


def stack_of(name: str | None) -> Stack:
    """Log conventions of a trainer, named in kebab or snake case; raises `InputError` for other trainers."""
    if name is None:
        return PLAIN
    key = str(name).lower().replace("-", "_").replace(" ", "_")
    without = STAMPLESS.get(key)
    remedy = (
        f"{without} does not: use the preset of that system (`asyncsim list systems`), which gives the versions "
        "from the batch counter"
    )
    checks.require(without is None, "stack", name, "one that stamps its samples with a version", remedy)
    checks.one_of("stack", key, STACKS, "leave it out and map the columns: columns='start_version=THEIRS,...'")
    return STACKS[key]


def mapping_of(
    columns: Mapping[str, str] | str | None,
    known: Iterable[str] = COLUMNS,
    remedy: str = "write columns='sample_id=THEIRS,train_version=THEIRS'",
) -> dict[str, str]:
    """Parse a mapping from this package's column names to a log's, also as text "ours=theirs,ours=theirs"."""
    if columns is None:
        return {}
    if isinstance(columns, str):
        pairs = [pair.partition("=") for pair in columns.split(",") if pair.strip()]
        whole = all(ours.strip() and theirs.strip() for ours, _, theirs in pairs)
        written = remedy.replace("THEIRS", columns) if len(pairs) == 1 == remedy.count("THEIRS") else remedy
        checks.require(whole, "columns", columns, "pairs OURS=THEIRS separated by commas", written)
        columns = {ours.strip(): theirs.strip() for ours, _, theirs in pairs}
    checks.require(isinstance(columns, Mapping), "columns", columns, "a mapping or text", remedy)
    for ours, theirs in columns.items():
        checks.require(isinstance(theirs, str), f"columns[{ours}]", theirs, "the name of a column", remedy)
        named = not re.search(r"\*[\d.e+-]+$", theirs)
        checks.require(named, f"columns[{ours}]", theirs, "a name without a factor", "multiply the column in the file")
        near = checks.near(theirs, known) if "/" in ours and ours not in known else [theirs] * (theirs in known)
        other = next((f"write columns='{each}={theirs}'" for each in checks.near(ours, known, 1, 0.75)), remedy)
        other = f"write OURS first: columns='{near[0]}={ours}'" if near else other
        if "seconds_step" in known and re.search("tim(e|ing)|second", theirs) and not near:
            other = f"write columns='seconds_step={theirs}' if it is seconds of each step"
        checks.one_of("columns", ours, known, f"leave {theirs} out if nothing reads it, or {other}")
    return dict(columns)
