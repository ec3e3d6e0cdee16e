"""What a card is asked in the minutes that it is there: `asyncsim device`, then every experiment with settings for one.

An experiment declares `GPU`, a list of settings. Small settings run first, each setting's rows are written once it is
over, and a later call goes on with those that are left. Nothing is installed or looked for elsewhere: what is missing
is said and left out. Two files: `device.json`, and `rows.json` with commit, card, rows and seconds of every setting.
"""

from __future__ import annotations

import ast
import json
import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asyncsim.base import checks, digests, files
from asyncsim.base.manifest import manifest
from asyncsim.base.records import plain
from experiments import _contract

SIZES = ("replicates", "groups", "samples", "tokens", "updates", "batches")
"""Words of a setting whose product is about what it costs."""
LOADED = 150.0
"""A model of words against the character model."""
MARGIN = 5.0
"""Seconds of the budget that are kept for writing."""


class Over(BaseException):
    """The budget is spent; no `except Exception` of an experiment stops it."""


def carry_out(
    names: Iterable[str],
    out: Path,
    budget: float,
    device: str = "cuda",
    quick: bool = False,
    say: Callable[[str], Any] = print,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run what is left within a budget of seconds; how many settings are left then.

    Raises `InputError` for a folder that holds something else, or an unknown experiment.
    """
    end = clock() + checks.real("--budget", budget, "give seconds", 0.0, open_low=True) - min(MARGIN, 0.1 * budget)
    out.mkdir(parents=True, exist_ok=True)
    kept = _read(out / "rows.json")
    left, missing = _left(names, kept["settings"], device, quick)
    report, about = out / "device.json", f"device {device}"
    try:
        with _until(end - clock()):
            if not report.exists():
                _device(report, device, quick, say)
            whole, first = clock(), True
            for name, setting in left[:]:
                known = [row for row in kept["settings"] if row["experiment"] == name]
                pace = sum(row["seconds"] for row in known) / max(1.0, sum(row["size"] for row in known))
                # What no budget is long enough for is tried at least when it comes first; sizes of two experiments
                # say nothing about each other.
                if clock() + (0.0 if first else pace * _size(setting)) > end:
                    continue
                about = f"{name} {_contract.digest(setting)}"
                begun, first = clock(), False
                rows, reason = _rows(name, setting)
                if rows is None:
                    missing[about] = reason
                else:
                    entry = {**_entry(name, setting, device), "rows": plain(rows), "seconds": clock() - begun}
                    kept["settings"].append(entry)
                    say(f"{about}: {len(rows)} rows in {entry['seconds']:.0f} s")
                left.remove((name, setting))
                _write(out / "rows.json", {**kept, "missing": missing})
            say(f"{clock() - whole:.0f} s for experiments")
    except Over:
        say(f"{about}: stopped by the budget of {budget:g} s")
    _write(out / "rows.json", {**kept, "missing": missing})
    for each, reason in missing.items():
        say(f"{each}: left out, {reason}")
    say(f"{len(kept['settings'])} settings are there, {len(left)} are left; rows in {out}")
    return len(left)


def with_settings() -> list[str]:
    """Experiments that declare `GPU`, found without importing any."""
    found = []
    for name in _contract.names():
        body = ast.parse((_contract.HERE / f"{name}.py").read_text(encoding="utf-8")).body
        targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
        if any(isinstance(target, ast.Name) and target.id == "GPU" for target in targets):
            found.append(name)
    return found


def _left(
    names: Iterable[str], known: list[dict[str, Any]], device: str, quick: bool
) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, str]]:
    """Settings without rows of the same code, small ones first; and experiments that cannot be loaded, with reasons."""
    left, missing = [], {}
    for name in names:
        try:
            module = _contract.experiment(name)
        except ImportError as error:
            missing[name] = str(error)
            continue
        listed: Any = module.QUICK if quick else getattr(module, "GPU", None)
        checks.require(bool(listed), f"{name}.GPU", listed, "a list of settings", "choose an experiment with GPU")
        for each in listed:
            setting = {**each, "device": device}
            own = _entry(name, setting, device)
            if not any(all(row[key] == own[key] for key in ("digest", "code")) for row in known):
                left.append((name, setting))
    return sorted(left, key=lambda pair: _size(pair[1])), missing


def _size(setting: dict[str, Any]) -> float:
    words = 1.0 if setting.get("model", "char") == "char" else LOADED
    return words * math.prod(float(setting[name]) for name in SIZES if isinstance(setting.get(name), (int, float)))


def _entry(name: str, setting: dict[str, Any], device: str) -> dict[str, Any]:
    """Where rows come from: setting, code, commit, card."""
    code = digests.of([_contract.version(_contract.code(name)), sorted(_contract.product(name).items())])
    made = manifest(device=device)
    place = {key: made[key] for key in ("commit", "dirty", "accelerator", "cpu", "libraries", "time")}
    own = {"experiment": name, "setting": plain(setting), "digest": _contract.digest([name, setting])}
    return {**own, "code": code, "size": _size(setting), **place}


def _rows(name: str, setting: dict[str, Any]) -> tuple[list[dict[str, Any]] | None, str]:
    """Rows of a setting; None, with the reason, where something is missing or it fails."""
    module = _contract.experiment(name)
    try:
        rows = module.run(setting)
        _contract.check_rows(name, rows, module.COLUMNS)
    except Exception as error:  # one setting must not cost the minutes of all others
        return None, f"{type(error).__name__}: {error}".splitlines()[0]
    return rows, ""


def _device(path: Path, device: str, quick: bool, say: Callable[[str], Any]) -> None:
    from asyncsim.app import devices

    found = devices.check(device, devices.QUICK if quick else None)
    _write(path, found)
    say("\n".join(devices.lines(found)))


@contextmanager
def _until(seconds: float) -> Iterator[None]:
    """Raise `Over` so many seconds from now, where the system has such a timer."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def over(*_: Any) -> None:
        raise Over

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"settings": [], "missing": {}}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        whole = isinstance(found["settings"], list) and all("digest" in row for row in found["settings"])
    except (ValueError, KeyError, TypeError):
        whole = False
    checks.require(whole, "rows", str(path), "a file that --gpu wrote", "choose another --out")
    return dict(found)


def _write(path: Path, value: dict[str, Any]) -> None:
    files.write_atomically(path, lambda file: file.write((json.dumps(plain(value), indent=1) + "\n").encode("utf-8")))
