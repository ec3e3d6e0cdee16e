"""Which of 40 slips at places drawn by chance the claims see: `python -m tests.defects.fresh [COMMIT]`.

Statement and change are drawn by `Random(commit)` over every statement of the product that a change of
`tests.mutation.operators` applies to, but for those of the claims, which are the measure. Each slip stands alone in a
copy of the package, on which the claims that execute its line are verified, the quickest first, until one is violated.
A claim that is inconclusive or falls over has not seen it. A slip that `equivalent.txt` proves to change nothing does
not count.
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

from asyncsim.app import judgments, verifying
from asyncsim.base import manifest
from asyncsim.base.files import write_atomically
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.operators import Mutant, mutants, mutated
from tests.mutation.patching import ROOT

PACKAGE = ROOT / "asyncsim"
COVERAGE = PACKAGE / "app" / judgments.COVERAGE
SLIPS, SECONDS = 40, 300.0
"""Slips that are drawn, and processor seconds after which no further claim is tried on one."""
WORKERS = int(os.environ.get("WORKERS", "2"))


def drawn(commit: str, size: int = SLIPS) -> list[Mutant]:
    """So many statements of the product, and a change of each."""
    chance = random.Random(commit)
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        file = str(path.relative_to(ROOT))
        if file.startswith("asyncsim/claims/"):
            continue
        for each in mutants(file, path.read_text(encoding="utf-8")):
            places[file, each.span].append(each)
    return [chance.choice(places[place]) for place in chance.sample(sorted(places), size)]


def executed(slips: list[Mutant]) -> dict[str, dict[str, Any]]:
    """Processor seconds of every claim that is held, and which of the slips' lines it executes in Python, file:line."""
    wanted = {str(ROOT / each.file): set[int]() for each in slips}
    for each in slips:
        wanted[str(ROOT / each.file)].update(range(each.span[0], each.span[1] + 1))
    lines: set[str] = set()

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and frame.f_lineno in wanted[frame.f_code.co_filename]:
            lines.add(f"{Path(frame.f_code.co_filename).relative_to(ROOT)}:{frame.f_lineno}")
        return line

    def call(frame: FrameType, event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename in wanted else None

    found = {}
    for claim in verifying.every_claim():
        lines.clear()
        start = time.process_time()
        sys.settrace(call)
        verdict = verifying.verify_one(claim).verdict
        sys.settrace(None)
        # One that holds without being tight, as bounds do, is not violated by what makes it looser.
        if verdict == "held":
            found[claim] = {"seconds": time.process_time() - start, "lines": sorted(lines)}
    return found


def candidates(slip: Mutant, known: dict[str, dict[str, Any]]) -> list[str]:
    """Claims that may execute a slip, the quickest first: all where its line is compiled, or run by an import."""
    order = sorted(known, key=lambda claim: known[claim]["seconds"])
    span = range(slip.span[0], slip.span[1] + 1)
    own = {f"{slip.file}:{number}" for number in span}
    ran = [claim for claim in order if not own.isdisjoint(known[claim]["lines"])]
    source = (ROOT / slip.file).read_text(encoding="utf-8")
    inner = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef | ast.Lambda)]
    inside = any(each.body[0].lineno <= slip.line <= each.end_lineno for each in inner if isinstance(each.body, list))
    # A program that was compiled before is not written again here, but is in a copy with other sources.
    compiled = any(word in source for word in ("numba", "compiling"))
    compiled |= slip.file.startswith(("asyncsim/fusing/", "asyncsim/systems/_"))
    return order if compiled or not inside else ran


def tried(slip: Mutant, claims: list[str]) -> dict[str, Any]:
    """The claim that a slip violates, those that fall over on it before, and how many were tried."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PACKAGE, Path(folder, "asyncsim"))
        path = ROOT / slip.file
        wrong = ast.unparse(mutated(path.read_text(encoding="utf-8"), slip.number))
        Path(folder, slip.file).write_text(wrong, encoding="utf-8")
        command = [sys.executable, "-m", "tests.defects.fresh", "--child", *claims]
        # The copy stands before the package that is installed; only the tests are those of the root.
        (Path(folder) / "tests").symlink_to(ROOT / "tests")
        setting = os.environ | {"PYTHONPATH": folder, "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                command, cwd=folder, env=setting, capture_output=True, text=True, check=False, timeout=5 * SECONDS
            )
        except subprocess.TimeoutExpired:
            return {"claims": [], "raised": ["does not end"], "tried": 0}
        last = (done.stdout.splitlines() or [""])[-1]
        if last.startswith("{"):
            return dict(json.loads(last))
        return {"claims": [], "raised": [(done.stderr.splitlines() or ["no word"])[-1]], "tried": 0}


def child(claims: list[str]) -> dict[str, Any]:
    """Verdicts on the package as it stands here."""
    raised: list[str] = []
    for count, claim in enumerate(claims, 1):
        try:
            verdict = verifying.verify_one(claim)
        except Exception:
            raised.append(claim)
            continue
        if verdict.reason.startswith(verifying.BROKEN):
            raised.append(claim)
        elif verdict.verdict == "violated":
            return {"claims": [claim], "raised": raised, "tried": count}
        if time.process_time() > SECONDS:
            break
    return {"claims": [], "raised": raised, "tried": count if claims else 0}


def main(commit: str) -> None:
    """Draw, measure, write the map."""
    slips = [each for each in drawn(commit, 2 * SLIPS) if each.key not in EQUIVALENT][:SLIPS]
    known = executed(slips)
    chosen = [candidates(slip, known) for slip in slips]
    rows = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for slip, claims, found in zip(slips, chosen, pool.map(tried, slips, chosen), strict=True):
            about = {"file": slip.file, "line": slip.line, "text": slip.text, "change": slip.change}
            rows.append(about | found | {"running": len(claims)})
            said = ", ".join(found["claims"]) or f"no claim ({len(found['raised'])} fell over)"
            print(f"{slip}: {found['tried']}/{len(claims)}: {said}", flush=True)
    made = manifest.manifest(spec={"size": "quick", "claims": len(known), "drawn by": f"Random({commit!r})"}, seed=0)
    names = ("asyncsim", "commit", "dirty", "python", "libraries", "spec", "seed", "time")
    text = json.dumps({"rows": rows, "manifest": {name: made[name] for name in names}}, indent=1, sort_keys=True) + "\n"
    write_atomically(COVERAGE, lambda file: file.write(text.encode()))
    print(f"{sum(bool(row['claims']) for row in rows)} of {len(rows)} seen")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--child"]:
        print(json.dumps(child(words[1:])))
    else:
        main(words[0] if words else manifest.manifest(seed=0)["commit"])
