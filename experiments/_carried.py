"""Rows of an experiment whose code was rewritten and computes the same: its quick rows, made before and after, show it.

A new name for an attribute changes the version of the code, and would ask for hours of the same numbers again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asyncsim.base import checks
from asyncsim.base.manifest import manifest
from experiments import _contract, _store


def carry(name: str, before: Path, after: Path) -> str:
    """Let the committed rows count for the present code; one line about it.

    Arguments: `before`, a folder of quick rows made by the code that made the committed rows; `after`, one made by the
    present code. Raises `InputError` unless both are complete and equal to the bit. The manifest keeps what was
    compared.
    """
    where = _store.folder(name, quick=False)
    held, old, new = (_store.manifest_of(folder) for folder in (where, before, after))
    now = _store.version(name)
    remedy = f"make them with `{_store.command(name, quick=True)}`, from the code before and after"
    checks.require(old["source"] == held["source"], "code of the rows before", old["source"], held["source"], remedy)
    checks.require(new["source"] == now, "code of the rows after", new["source"], now, remedy)
    settings = len(_store.settings_of(_store.experiment(name), quick=True))
    for folder, found in ((before, old), (after, new)):
        own = f"complete, with {settings} parts of {name} --quick"
        whole = found["spec"].get("quick") and len(found["parts"]) == settings
        checks.require(bool(whole), "rows", str(folder), own, remedy)
    rows = [_contract.digest([part["sha256"] for part in found["parts"].values()]) for found in (old, new)]
    checks.require(rows[0] == rows[1], "quick rows", rows[1], f"{rows[0]}, as before", "run the whole experiment anew")
    said: dict[str, Any] = {"from": held["source"], "to": now, "quick rows": rows[0]}
    said["made"] = {key: value for key, value in manifest().items() if key != "spec"}
    parts = {part: {**entry, "source": now} for part, entry in held["parts"].items()}
    _store.record(where, {**held, "source": now, "parts": parts, "carried": [*held.get("carried", []), said]})
    return f"{name}: rows of {held['source']} count for {now}; quick rows {rows[0]} are the same to the bit"
