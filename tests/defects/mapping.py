"""Which claim sees which plant: `python -m tests.defects --map [NUMBER ...]`.

Every claim is run once to see which functions and lines of the product it executes. Then a copy of this process plants
each defect and measures the claims that execute it, the quickest first, until three are violated. A claim that is
inconclusive, or holds without being tight, has not seen it; one that fell over is told apart.
"""

import functools
import hashlib
import importlib
import json
import os
import pkgutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import asyncsim
from asyncsim.app import verifying
from asyncsim.base import manifest
from asyncsim.base.files import write_atomically
from tests.defects import slips
from tests.defects.plants import PLANTS, Plant

PACKAGE = Path(asyncsim.__file__).parent
COVERAGE = PACKAGE / "app" / "coverage.json"
EXECUTED = Path(__file__).parents[2] / "build" / "defects"
SEED, ENOUGH = 0, 3
PER_CLAIM, PER_PLANT = 20.0, 45.0
"""Processor seconds that a claim may take on a defective product, and after which no further one is tried."""


class Late(BaseException):
    """A claim took too long."""


def write(path: Path, value: Any) -> None:
    """JSON in one step, so that a stopped map goes on where it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def copies(calls: dict[Any, Callable[[], Any]], workers: int) -> Iterator[tuple[Any, Any]]:
    """(key, answer) of every call, each made in a silent copy of this process; None where a copy ended without one."""
    waiting, running = list(calls), {}
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < workers:
                key, path = waiting.pop(0), Path(folder, str(len(waiting)))
                running[_copy(calls[key], path)] = key, path
            pid, _ = os.wait()
            key, path = running.pop(pid)
            yield key, json.loads(path.read_text()) if path.exists() else None


def _copy(call: Callable[[], Any], path: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            warnings.simplefilter("ignore")
            answer = json.dumps(call())
            path.with_suffix(".part").write_text(answer)
            path.with_suffix(".part").rename(path)
        finally:
            os._exit(0)
    return child


def measured(claim: str) -> str:
    """The verdict of a claim on the product as it is now: "raised" where it fell over, "late" where it did not end."""

    def stop(*_: Any) -> None:
        raise Late

    # Processor time: the machine may be shared.
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, PER_CLAIM)
    try:
        verdict = verifying.verify_one(claim, "quick", seed=SEED)
        return "raised" if verdict.reason.startswith(verifying.BROKEN) else verdict.verdict
    except Late:
        return "late"
    except Exception:
        return "raised"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def place(code: CodeType) -> str:
    """Where a function of the package stands: file:name."""
    return f"{Path(code.co_filename).relative_to(PACKAGE)}:{code.co_qualname}"


def profiled(claim: str, wanted: dict[str, list[int]]) -> dict[str, Any]:
    """Verdict, seconds and executed functions of a claim, and which of the wanted lines by file it executes."""
    codes: set[CodeType] = set()
    lines: set[str] = set()
    numbers = {str(PACKAGE / name): frozenset(each) for name, each in wanted.items()}

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and frame.f_lineno in numbers[frame.f_code.co_filename]:
            lines.add(f"{Path(frame.f_code.co_filename).relative_to(PACKAGE)}:{frame.f_lineno}")
        return line

    def call(frame: FrameType, event: str, _: Any) -> Any:
        codes.add(frame.f_code)
        return line if frame.f_code.co_filename in numbers else None

    start = time.process_time()
    sys.settrace(call)
    verdict = measured(claim)
    sys.settrace(None)
    seconds = time.process_time() - start
    ours = sorted({place(code) for code in codes if Path(code.co_filename).is_relative_to(PACKAGE)})
    return {"verdict": verdict, "seconds": round(seconds, 3), "functions": ours, "lines": sorted(lines)}


def changed_lines(plant: Plant) -> set[str]:
    """Lines that a slip changes, file:line; none where only its function is known."""
    if not plant.changes:
        return set()
    file = place(slips.plain(slips.named(plant.by)).__code__).partition(":")[0]
    return {f"{file}:{line}" for line in slips.lines(plant.by, plant.changes)}


def executed(workers: int) -> dict[str, dict[str, Any]]:
    """`profiled` of every claim, kept until a file of the package or the slips change."""
    wanted: dict[str, list[int]] = {}
    for each in sorted(set().union(*(changed_lines(plant) for plant in PLANTS.values()))):
        wanted.setdefault(each.partition(":")[0], []).append(int(each.partition(":")[2]))
    digest = hashlib.blake2b(json.dumps(wanted).encode(), digest_size=8)
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    path = EXECUTED / f"{digest.hexdigest()}.json"
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    missing = [claim for claim in verifying.every_claim() if claim not in known]
    for claim, found in copies({claim: functools.partial(profiled, claim, wanted) for claim in missing}, workers):
        assert found is not None, claim
        known[claim] = found
        write(path, known)
    return known


def targets(plant: Plant) -> set[str]:
    """Functions that a plant changes, file:name; file:* where it changes a table or a number of the module."""
    if "<locals>" in plant.by:
        return {plant.by}
    if plant.by:
        return {place(slips.plain(slips.named(plant.by)).__code__)}
    found = set()
    for target, name, _ in plant.patches():
        right = target[name] if isinstance(target, dict) else getattr(target, name)
        if isinstance(target, type):
            right = next(vars(each)[name] for each in target.__mro__ if name in vars(each))
        code = getattr(slips.plain(right), "__code__", None)
        if code is not None and Path(code.co_filename).is_relative_to(PACKAGE):
            found.add(place(code))
        elif hasattr(target, "__file__"):
            found.add(f"{Path(target.__file__).relative_to(PACKAGE)}:*")
    return found


def relevant(plant: Plant, known: dict[str, dict[str, Any]]) -> list[str]:
    """Claims that execute what the plant changes and hold on the product, the quickest first."""
    wanted, lines = targets(plant), changed_lines(plant)
    files = {each.removesuffix("*") for each in wanted if each.endswith("*")}

    def runs(at: dict[str, Any]) -> bool:
        if lines:
            return not lines.isdisjoint(at["lines"])
        return any(each in wanted or each.partition(":")[0] + ":" in files for each in at["functions"])

    chosen = [claim for claim, at in known.items() if at["verdict"] == "held" and runs(at)]
    return sorted(chosen, key=lambda claim: known[claim]["seconds"])


def seen(plant: Plant, claims: list[str]) -> dict[str, Any]:
    """Claims that the plant violates, those that fall over on it, and how many were tried."""
    start, verdicts = time.process_time(), {}
    with plant.planted():
        for claim in claims:
            verdicts[claim] = measured(claim)
            enough = sum(verdict == "violated" for verdict in verdicts.values()) >= ENOUGH
            if enough or time.process_time() - start > PER_PLANT:
                break
    named = {kind: [claim for claim in verdicts if verdicts[claim] == kind] for kind in ("violated", "raised", "late")}
    return {**named, "tried": len(verdicts), "seconds": round(time.process_time() - start, 1)}


def everything() -> None:
    """Import all of the package that can be: copies then start with it, and nothing is imported under a plant."""
    for module in pkgutil.walk_packages([str(PACKAGE)], "asyncsim."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError:
                continue


def row(number: int, found: dict[str, Any], known: int) -> dict[str, Any]:
    """A row of the map; `claims` are the first that see the plant, in the order of the catalogue."""
    plant = PLANTS[number]
    test = plant.killer.removeprefix("tests/")
    about = {"number": number, "component": plant.component, "defect": plant.what, "seen_in": plant.seen, "test": test}
    return {**about, "claims": sorted(found["violated"]), "raised": sorted(found["raised"]), "running": known,
            "tried": found["tried"]}  # fmt: skip


def write_map(asked: list[int], workers: int) -> list[dict[str, Any]]:
    """Measure the plants that are asked for (default: those without a row), write the map after each of them."""
    everything()
    known = executed(workers)
    kept = json.loads(COVERAGE.read_text())["rows"] if COVERAGE.exists() else []
    rows = {at["number"]: at for at in kept if at["number"] in PLANTS}
    numbers = asked or [number for number in sorted(PLANTS) if number not in rows]
    claims = {number: relevant(PLANTS[number], known) for number in numbers}
    calls = {number: functools.partial(seen, PLANTS[number], claims[number]) for number in numbers}
    for number, found in copies(calls, workers):
        found = found or {"violated": [], "raised": [], "late": [], "tried": 0, "seconds": 0.0, "ended": True}
        rows[number] = row(number, found, len(claims[number]))
        said = ", ".join(found["violated"]) or "no claim"
        print(f"{number:3} {found['seconds']:5.1f} s {found['tried']:3}/{len(claims[number]):3} {said}", flush=True)
        write(COVERAGE, {"rows": [rows[n] for n in sorted(rows)], "manifest": about(known)})
    return [rows[n] for n in sorted(rows)]


def about(known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the map was made with."""
    made = manifest.manifest(spec={"size": "quick", "claims": len(known), "enough": ENOUGH}, seed=SEED)
    return {name: made[name] for name in ("asyncsim", "commit", "dirty", "python", "libraries", "spec", "seed", "time")}
