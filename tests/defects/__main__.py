"""Planted bugs: their killers and the claims that see them.

`python -m tests.defects [NUMBER ...]` runs the shared contract tests on the product with each of the field's bugs in
it, and names the first five that fail. `python -m tests.defects --map [NUMBER ...]` does so with the claims, for the
plants without a row (all of them after `--map --anew`). Both write TABLE.md.
"""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from asyncsim.base.files import write_atomically
from tests.defects import catalog, mapping
from tests.defects.plants import PLANTS

HERE = Path(__file__).parent
ROWS, TABLE = HERE / "killers.json", HERE / "TABLE.md"
SHARED, MOST = "tests/contracts", 5
WORKERS = int(os.environ.get("WORKERS", "2"))


def killers(number: int) -> list[str]:
    """Shared contract tests that fail on the product with this bug, at most five."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.defects.plugin", "-p", "no:cacheprovider", SHARED]
    command += [f"--maxfail={MOST}", "--tb=no", "--no-header", "-n", "0"]
    done = subprocess.run(
        command, env=os.environ | {"ASYNCSIM_DEFECT": str(number)}, capture_output=True, text=True, check=False
    )
    found = re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1, 2) or re.search(r"^ERROR ", done.stdout, re.MULTILINE):
        raise RuntimeError(f"bug {number}: pytest ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
    print(f"{number:2} {len(found)} {PLANTS[number].what}", flush=True)
    return found


def table(rows: dict[str, list[str]], coverage: list[dict[str, Any]]) -> str:
    """The table as Markdown."""
    shared, seen = sum(bool(found) for found in rows.values()), sum(bool(at["claims"]) for at in coverage)
    noticed = {at["number"] for at in coverage if at["claims"]}

    def share(numbers: range) -> str:
        return f"{len(noticed.intersection(numbers))} of {len(numbers)}"

    claims = {at["number"]: ", ".join(f"`{claim}`" for claim in at["claims"]) or "none" for at in coverage}
    lines = [
        "# Planted bugs and who sees them",
        "",
        f"{len(PLANTS)} bugs, each planted into the product (`tests/defects/`). The verification alone sees {seen}: a "
        f"claim comes out violated at quick size. At most {mapping.ENOUGH} claims are looked for.",
        "",
        *(f"* {kind}: {share(numbers)}" for kind, numbers in catalog.KINDS.items()),
        "",
        "Some claims were written with the list of slips in hand, so the last share is what to expect of a new bug.",
        "`python -m tests.defects --map` writes the column of claims and `asyncsim/app/coverage.json`.",
        "",
        f"The shared contract tests of `tests/contracts` kill {shared} of the {catalog.FIELD} field bugs, by "
        "`python -m tests.defects`. `tests/defects/test_defects.py` plants every bug for the test that names it.",
        "",
        "| # | component | bug | seen in | claims that see it | shared contract tests that fail (of the first five) "
        "| the test that names it |",
        "|---|---|---|---|---|---|---|",
    ]
    for number, plant in sorted(PLANTS.items()):
        found = rows.get(str(number))
        kinds = sorted({name.partition("::")[2].partition("[")[0] for name in found or ()})
        told = "" if found is None else f"{len(found)}: {', '.join(f'`{kind}`' for kind in kinds) or 'none'}"
        test = plant.killer.removeprefix("tests/").replace("|", "\\|")
        named = f"`{test}`" if test else "claims alone"
        cells = (number, plant.component, plant.what.replace("|", "\\|"), plant.seen, claims.get(number, ""), told)
        lines.append(f"| {' | '.join(map(str, cells))} | {named} |")
    return "\n".join(lines) + "\n"


def written() -> tuple[dict[str, list[str]], list[dict[str, Any]]]:
    """Both tables of rows as they were last written."""
    rows = json.loads(ROWS.read_text(encoding="utf-8")) if ROWS.exists() else {}
    return rows, json.loads(mapping.COVERAGE.read_text())["rows"] if mapping.COVERAGE.exists() else []


def main() -> None:
    """Run what is asked for, keep the rest, write the files."""
    assert len(PLANTS) == catalog.COUNT
    words = sys.argv[1:]
    asked = [int(word) for word in words if word.isdigit()]
    rows, coverage = written()
    if "--map" in words:
        coverage = mapping.write_map(asked or (sorted(PLANTS) if "--anew" in words else []), WORKERS)
    else:
        asked = asked or [number for number in sorted(PLANTS) if number <= catalog.FIELD]
        with ThreadPoolExecutor(WORKERS) as pool:
            rows |= {str(n): found for n, found in zip(asked, pool.map(killers, asked), strict=True)}
    texts = {ROWS: json.dumps(rows, indent=1, sort_keys=True), TABLE: table(rows, coverage)}
    for path, text in texts.items():
        write_atomically(path, lambda file, text=text: file.write(text.encode()))


if __name__ == "__main__":
    main()
