"""Result rows in a store: one Parquet file per setting, beside a manifest that names the hash and the version of each.

A part counts once the manifest names its hash. Both are written whole or not at all, the part first: whatever moment a
run is killed at, what is left reads as before, or says how to go on.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asyncsim.base import checks, digests, files
from asyncsim.base import store as storing
from asyncsim.base import workers as spreading
from asyncsim.base.manifest import manifest
from asyncsim.base.records import plain
from asyncsim.base.store import Store
from experiments import _contract
from experiments._contract import experiment, names, papers, questions, settings_of, summaries, values

__all__ = [
    "experiment",
    "make",
    "names",
    "papers",
    "plan",
    "questions",
    "read",
    "settings_of",
    "summaries",
    "values",
    "version",
]

FORMAT = 2
CALL = "experiments._store:rows_of"
HERE = Path(__file__).resolve().parent


class Settings(tuple[dict[str, Any], ...]):
    """What rows were made from; pandas copies it deeply at every step from a table to the next, and need not."""

    def __deepcopy__(self, memo: object) -> Settings:
        return self


@dataclass(frozen=True)
class Plan:
    """An experiment to be run: where its rows go, and the settings that are left with those already there."""

    name: str
    module: Any
    settings: list[dict[str, Any]]
    where: Path
    quick: bool
    device: str
    command: str
    before: dict[str, Any]
    kept: dict[str, Any]
    left: list[int]
    fresh: bool
    code: dict[str, str]
    """Digests of the modules of asyncsim that the experiment reaches."""


def folder(name: str, quick: bool) -> Path:
    """Where rows live: full runs in the repository, quick ones under build/."""
    snake = name.replace("-", "_")
    return HERE.parent / "build" / "experiments" / snake if quick else HERE / "results" / snake


def digest(settings: list[dict[str, Any]], columns: Iterable[str]) -> str:
    """Settings and columns of rows, 16 hexadecimal digits."""
    return _contract.digest([settings, list(columns)])


def version(name: str) -> str:
    """Digest of the experiment's code, with that of the modules of this folder that it imports."""
    return _contract.version(_contract.code(name))


def product(code: Mapping[str, str]) -> str:
    """Digest of the modules of asyncsim that an experiment reaches."""
    return digests.of(sorted(digests.carried(code).items()))


def command(name: str, quick: bool, out: Path | None = None, changes: Mapping[str, Any] | None = None) -> str:
    """What makes the rows."""
    words = ["python -m experiments", name.replace("-", "_"), "--quick" if quick else ""]
    changed = [f"--set {key}={shlex.quote(json.dumps(value))}" for key, value in (changes or {}).items()]
    return " ".join(filter(None, [*words, *changed, f"--out {out}" if out else ""]))


def make(
    name: str,
    quick: bool = False,
    resume: bool = False,
    out: Path | None = None,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
    device: str = "cpu",
    changes: Mapping[str, Any] | None = None,
    other_code: bool = False,
) -> Path:
    """Run every setting of an experiment and write its rows; returns their folder.

    Arguments: `resume` keeps parts of equal settings and code whose hash is right; `out` overrides `folder`; `track`
    wraps the loop over the indices of settings that are left, for a progress bar; `device` is where the networks of
    experiments that take one run, and goes into the manifest; `changes` replace values of all settings that have them;
    `other_code` keeps parts that other modules of asyncsim made. Other parts are moved aside. Raises `InputError` for
    an unknown name, rows without the declared columns, a folder that cannot be written, or `resume` of other code.
    """
    return carry_out(plan(name, quick, resume, out, device, changes, other_code), track)


def plan(
    name: str,
    quick: bool = False,
    resume: bool = False,
    out: Path | None = None,
    device: str = "cpu",
    changes: Mapping[str, Any] | None = None,
    other_code: bool = False,
) -> Plan:
    """What `make` would do; nothing is written. Raises `InputError` as `make` does."""
    module = experiment(name)
    settings = _contract.changed(module, quick, changes or {}, name)
    elsewhere = out is not None or not changes
    checks.require(elsewhere, "--set", sorted(changes or {}), "used with --out", "add --out rows, a folder for them")
    where = out or folder(name, quick)
    known = getattr(module, "DEVICES", ("cpu",))
    checks.one_of("device", device, known, "leave --device out, or choose an experiment on networks")
    snake, before = name.replace("-", "_"), _manifest(where) or {}
    if before:
        made = [before["spec"].get("experiment"), bool(before["spec"].get("quick"))]
        own = f"rows of {snake}{' --quick' if quick else ''}, or empty"
        checks.require(made == [snake, quick], "folder of the rows", str(where), own, "choose another --out")
    source, code, words = version(name), _contract.product(name), command(name, quick, out, changes)
    whole = {}
    for index, setting in enumerate(settings):
        path = _part(where, index)
        entry = before.get("parts", {}).get(path.name)
        same = entry and entry["setting"] == _contract.digest(setting) and path.is_file()
        if same and _hash(path.read_bytes()) == entry["sha256"]:
            whole[path.name] = entry
    kept = {part: entry for part, entry in whole.items() if _same_code(snake, entry, source)}
    if resume and len(kept) < len(whole):
        remedy = f"make them anew with `{words}`, which moves the old ones aside, or show by --carry that they agree"
        bound = f"of the current code ({len(whole) - len(kept)} parts are not)"
        raise checks.InputError(f"rows in {where.name}", "other code", bound, remedy)
    mine = {part: entry for part, entry in kept.items() if entry.get("product") == product(code)}
    if resume and len(mine) < len(kept) < len(settings) and not other_code:
        remedy = f"make all anew with `{words}`, which moves the old ones aside, or keep them with --other-code"
        bound = f"of the current code of asyncsim ({len(kept) - len(mine)} parts are not, or do not say it)"
        raise checks.InputError(f"rows in {where.name}", "other code", bound, remedy)
    kept = kept if resume else mine
    left = [i for i in range(len(settings)) if not resume or _part(where, i).name not in kept]
    return Plan(snake, module, settings, where, quick, device, words, before, kept, left, not resume, code)


def rows_of(name: str, setting: dict[str, Any]) -> Any:
    """What an experiment's `run` gives for a setting; for worker processes, which know it by its name."""
    return experiment(name).run(setting)


def carry_out(
    planned: Plan, track: Callable[[Iterable[int]], Iterable[int]] = iter, workers: int | spreading.Crew = 1
) -> Path:
    """Run what a plan leaves to do, by so many worker processes or those of a crew; returns the folder of the rows."""
    elsewhere = {} if planned.device == "cpu" else {"device": planned.device}
    source = version(planned.name)
    with _writing(planned):
        planned.where.mkdir(parents=True, exist_ok=True)
    remedy = "wait for that run or stop it, or choose another --out"
    refusal = checks.InputError("folder of the rows", str(planned.where), "written by one run at a time", remedy)
    with files.locked(planned.where, refusal):
        return _filled(planned, track, workers, source, elsewhere)


def _filled(
    planned: Plan,
    track: Callable[[Iterable[int]], Iterable[int]],
    workers: int | spreading.Crew,
    source: str,
    elsewhere: dict[str, Any],
) -> Path:
    """The folder with the rows that were left, one part after another."""
    settings = planned.settings
    with _writing(planned):
        entry, now = _begin(planned, source)
    calls = ((planned.name, {**settings[index], **elsewhere}) for index in planned.left)
    # The bar goes on with every setting that is over, whichever it is.
    for _, (number, rows) in zip(track(planned.left), spreading.each(CALL, calls, workers), strict=True):
        index = planned.left[number]
        _contract.check_rows(planned.name, rows, planned.module.COLUMNS)
        data = _parquet(planned.name, rows, planned.module.COLUMNS)
        code = {"source": source, "product": product(planned.code)}
        own = {"setting": _contract.digest(settings[index]), **code, "sha256": _hash(data)}
        path = _part(planned.where, index)
        with _writing(planned):
            Store(planned.where).write(path.name, data)
            entry["parts"][path.name] = {**own, "run": len(entry["resumed"])}
            record(planned.where, entry)
    if planned.fresh and planned.kept:
        # Until here the rows before counted too, so that an interrupted run loses nothing; none of them is left now.
        parts = {name: {**part, "run": 0} for name, part in entry["parts"].items()}
        with _writing(planned):
            record(planned.where, {**entry, **now, "resumed": [], "parts": parts})
    return planned.where


def read(name: str, quick: bool = False, out: Path | None = None, own: bool = False) -> Any:
    """All rows of an experiment as a pandas table with the declared columns; `attrs["settings"]` made them.

    With `own` the settings are those that the folder `out` says, which `--set` may have changed. Raises `InputError`,
    naming the command that makes them, where rows are missing, altered, of other settings or columns, or made by
    another version of the experiment.
    """
    import pyarrow as pa

    module, parts, settings = _trusted(name, quick, out, own)
    remedy = f"make them with `{command(name, quick, out)}`"
    tables = [storing.unpack(data, part, remedy)[0] for part, data in parts.items()]
    table = pa.concat_tables(tables, promote_options="permissive")
    columns = list(module.COLUMNS)
    checks.require(table.column_names == columns, "columns", table.column_names, f"exactly {columns}", remedy)
    rows = table.to_pandas()
    rows.attrs["settings"] = Settings(settings)
    return rows


def quick_rows(where: Path) -> bool:
    """Whether a folder says that its rows are those of `--quick`."""
    return bool((_manifest(where) or {"spec": {}})["spec"].get("quick"))


def content(name: str, quick: bool = False, out: Path | None = None, own: bool = False) -> str:
    """Digest of the rows themselves, 16 hexadecimal digits. Raises `InputError` as `read` does."""
    return _contract.digest([_hash(data) for data in _trusted(name, quick, out, own)[1].values()])


def _trusted(
    name: str, quick: bool, out: Path | None, own: bool = False
) -> tuple[Any, dict[str, bytes], list[dict[str, Any]]]:
    """The module, the bytes of its parts in order, each of the current settings and version and unaltered, settings."""
    module = experiment(name)
    where = out or folder(name, quick)
    how = command(name, quick, out)
    remedy, again = f"make them with `{how}`", f"make them with `{how} --resume`"
    found = _manifest(where)
    if found is None:
        raise checks.InputError("rows", where.name, "made before they are read", remedy)
    whose, snake = found["spec"].get("experiment"), name.replace("-", "_")
    checks.require(whose in (None, snake), f"rows in {where.name}", f"of experiment {whose}", f"of {snake}", remedy)
    settings = found["spec"].get("settings", []) if own else settings_of(module, quick)
    again = again if settings == settings_of(module, quick) else f"{again}, and the --set options of that run"
    mine, theirs = digest(settings, module.COLUMNS), found["digest"]
    checks.require(theirs == mine, f"settings of the rows in {where.name}", theirs, f"{mine}, the experiment's", remedy)
    source, made = version(name), found.get("source")
    current = made is not None and _same_code(name, found, source)
    checks.require(current, f"code of the rows in {where.name}", made, f"{source}, the experiment's", remedy)
    expected = [_part(where, index).name for index in range(len(settings))]
    listed = found.get("parts", {})
    missing = [part for part in expected if part not in listed or not (where / part).is_file()]
    checks.require(not missing, f"rows missing in {where.name}", missing, "complete", again)
    extra = sorted({path.name for path in _parts(where)} - set(expected))
    checks.require(not extra, f"files among the rows in {where.name}", extra, "the experiment's own", remedy)
    pairs = zip(expected, settings, strict=True)
    others = [part for part, setting in pairs if not _agrees(name, listed[part], setting, source)]
    checks.require(not others, f"rows in {where.name}", others, "of the current settings and code", again)
    data = {part: (where / part).read_bytes() for part in expected}
    altered = [part for part in expected if _hash(data[part]) != listed[part]["sha256"]]
    checks.require(not altered, f"rows altered in {where.name}", altered, "as they were written", again)
    return module, data, plain(settings)


def _agrees(name: str, entry: dict[str, Any], setting: dict[str, Any], source: str) -> bool:
    return bool(entry["setting"] == _contract.digest(setting)) and _same_code(name, entry, source)


def _same_code(name: str, entry: dict[str, Any], source: str) -> bool:
    """Whether rows are of the experiment's code `source`, or of code that is known to compute the same."""
    return _contract.counted(name, entry["source"]) == _contract.counted(name, source)


def _begin(planned: Plan, source: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Leave the folder with a manifest of these settings, and parts of other settings or code beside it.

    Returns that manifest, and what it says of this run. Parts that agree stay until they are written anew.
    """
    where, module = planned.where, planned.module
    settings = planned.settings
    seeds = {setting.get("seed") for setting in settings}
    spec = {"experiment": planned.name, "quick": planned.quick, "settings": plain(settings)}
    now = manifest(spec, seed=seeds.pop() if len(seeds) == 1 else None, device=planned.device)
    first: dict[str, Any] = now
    resumed: list[Any] = []
    if planned.kept:
        first = {**planned.before, "spec": spec, "seed": now["seed"]}
        resumed = [*planned.before["resumed"], *([{**now, "spec": None}] if planned.left else [])]
    entry = {
        **first,
        "format": FORMAT,
        "digest": digest(settings, module.COLUMNS),
        "source": source,
        "modules": " ".join(f"{module}:{digest}" for module, digest in sorted(planned.code.items())),
        "resumed": resumed,
        "parts": dict(planned.kept),
    }
    _set_aside(planned)
    # The manifest goes first: what it does not name belongs to nobody, so a kill in between leaves nothing to mistake.
    record(where, entry)
    for path in [*_parts(where), *where.glob(".part-????.parquet.*"), *where.glob(".manifest.json.*")]:
        if path.name not in planned.kept:
            path.unlink()
    return entry, now


def _set_aside(planned: Plan) -> None:
    """Move whole parts of other settings or code into a folder of their own, which has their manifest too."""
    where, parts = planned.where, planned.before.get("parts", {})
    whole = [path for path in _parts(where) if path.name in parts and path.name not in planned.kept]
    whole = [path for path in whole if _hash(path.read_bytes()) == parts[path.name]["sha256"]]
    if not whole:
        return
    aside = where / f"before-{_contract.digest(planned.before)}"
    record(aside, planned.before)
    for path in whole:
        os.replace(path, aside / path.name)
    print(f"{len(whole)} parts of other settings or code were moved to {aside}", file=sys.stderr)


def record(where: Path, entry: dict[str, Any]) -> None:
    """Write the manifest of the rows there, atomically."""
    ordered = {**entry, "parts": dict(sorted(entry["parts"].items()))}
    Store(where).write("manifest.json", json.dumps(ordered, indent=1).encode() + b"\n")


@contextmanager
def _writing(planned: Plan) -> Iterator[None]:
    """Say in one line what keeps rows from being written, and how to go on."""
    try:
        yield
    except (OSError, checks.InputError) as error:
        cause = error if isinstance(error, OSError) else error.__context__
        full = getattr(cause, "errno", None) in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
        reason = getattr(cause, "strerror", None) or "it cannot be written"
        on = f"`{planned.command} --resume`"
        remedy = f"make room and go on with {on}" if full else f"mend that and go on with {on}, or choose another --out"
        raise checks.InputError("folder of the rows", str(planned.where), f"writable ({reason})", remedy) from None


def _manifest(where: Path) -> dict[str, Any] | None:
    """The manifest of the rows there; None where there is none, refused where the file is somebody else's."""
    path = where / "manifest.json"
    try:
        if not path.exists():
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    ours = isinstance(found, dict) and _whole(found)
    remedy = "choose another folder, or remove it"
    checks.require(ours, "manifest", str(path), "one that `python -m experiments` wrote", remedy)
    return found


def manifest_of(where: Path) -> dict[str, Any]:
    """The manifest of the rows there. Raises `InputError` where there is none."""
    found = _manifest(where)
    if found is None:
        raise checks.InputError("rows", str(where), "made before they are read", "make them, or name their folder")
    return found


def _whole(found: dict[str, Any]) -> bool:
    """Whether a manifest has what is read of it."""
    if found.get("format") != FORMAT or not isinstance(found.get("spec"), dict):
        return False
    parts, words = found.get("parts"), ("setting", "source", "sha256")
    return (
        isinstance(found.get("digest"), str)
        and isinstance(found.get("source"), (str, type(None)))
        and isinstance(found.get("resumed"), list)
        and isinstance(parts, dict)
        and all(isinstance(one, dict) and all(isinstance(one.get(w), str) for w in words) for one in parts.values())
    )


def _parts(where: Path) -> list[Path]:
    """Files that are named as parts are; what else lies there is somebody's own."""
    return sorted(path for path in where.glob("part-*.parquet") if re.fullmatch(r"part-\d{4}\.parquet", path.name))


def _part(where: Path, index: int) -> Path:
    return where / f"part-{index:04d}.parquet"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _parquet(name: str, rows: list[dict[str, Any]], columns: Iterable[str]) -> bytes:
    import pyarrow as pa

    try:
        return storing.pack({column: [row[column] for row in rows] for column in columns})
    except pa.ArrowException as error:
        line = str(error).splitlines()[0]
        raise checks.InputError(f"rows of {name}", line, "of one type in each column", "mend run(setting)") from None
