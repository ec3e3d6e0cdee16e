"""Rows of an experiment whose code was rewritten and computes the same: its quick rows, made before and after, show it.

A new name for an attribute changes the version of the code, and would ask for hours of the same numbers again. What is
shown is a line of `carried.jsonl`, here for the experiment's own code, in the package for the package's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asyncsim.base import checks, digests, files
from asyncsim.base.manifest import manifest
from experiments import _contract, _store


def carry(name: str, before: Path, after: Path) -> str:
    """Let rows and stores of former code count for the present code; one line about it.

    Arguments: `before`, a folder of quick rows made by the former code; `after`, one made by the present code. Raises
    `InputError` unless both are complete and equal to the bit. A line keeps what was compared.
    """
    old, new = (_store.manifest_of(folder) for folder in (before, after))
    now, code = _store.version(name), _contract.product(name)
    remedy = f"make them with `{_store.command(name, quick=True)}`, from the code before and after"
    checks.require(new["source"] == now, "code of the rows after", new["source"], now, remedy)
    settings = len(_store.settings_of(_store.experiment(name), quick=True))
    for folder, found in ((before, old), (after, new)):
        own = f"complete, with {settings} parts of {name} --quick"
        whole = found["spec"].get("quick") and len(found["parts"]) == settings
        checks.require(bool(whole), "rows", str(folder), own, remedy)
    rows = [_contract.digest([part["sha256"] for part in found["parts"].values()]) for found in (old, new)]
    checks.require(rows[0] == rows[1], "quick rows", rows[1], f"{rows[0]}, as before", "run the whole experiment anew")
    own = f"{_contract.HERE.name}.{name.replace('-', '_')}"
    former = dict(each.split(":") for each in old.get("modules", "").split())
    shown = {"rows": rows[0], "of": f"{own} --quick", "time": manifest()["time"]}
    lines = [_add(_contract.HERE, {own: old["source"]}, {own: now}, shown)]
    if former:
        lines.append(_add(digests.ROOT, former, code, shown))
    carried = "; ".join(filter(None, lines)) or "nothing has changed"
    return f"{name}: {carried}; quick rows {rows[0]} are the same to the bit"


def _add(folder: Path, before: dict[str, str], now: dict[str, str], shown: dict[str, Any]) -> str:
    """Add the line of a refactoring to a folder's file: the modules whose digests differ."""
    odd = {name for name in {*before, *now} if before.get(name) != now.get(name)}
    if not odd:
        return ""
    sides = {"before": before, "now": now}
    line = {side: {name: each[name] for name in sorted(odd & each.keys())} for side, each in sides.items()} | shown
    text = "".join(json.dumps(each) + "\n" for each in [*digests.refactorings(folder), line])
    files.write_atomically(folder / digests.LINES, lambda file: file.write(text.encode()))
    return f"{', '.join(sorted(odd)[:3])}{' ...' * (len(odd) > 3)} computes what it did"
