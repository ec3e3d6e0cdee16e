"""Planted bugs and their killers.

`python -m tests.defects [NUMBER ...]` runs the shared contract tests on the product with each of the field's bugs in
it, names the first five that fail, and writes TABLE.md.
"""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from asyncsim.base.files import write_atomically
from tests.defects import catalog
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


def table(rows: dict[str, list[str]]) -> str:
    """The table as Markdown."""
    shared = sum(bool(found) for found in rows.values())
    lines = [
        "# Planted bugs and the tests that see them",
        "",
        f"{len(PLANTS)} bugs, each planted into the product (`tests/defects/`): {catalog.FIELD} that trainers have "
        "shipped, and slips of a line in every component. `tests/defects/test_defects.py` plants every bug for the "
        "test that names it.",
        "",
        f"The shared contract tests of `tests/contracts` kill {shared} of the {catalog.FIELD} field bugs, by "
        "`python -m tests.defects`. What claims see is measured on other faults, at places drawn by chance: "
        "`python -m tests.defects.fresh`.",
        "",
        "| # | component | bug | seen in | shared contract tests that fail (first five) | the test that names it |",
        "|---|---|---|---|---|---|",
    ]
    for number, plant in sorted(PLANTS.items()):
        found = rows.get(str(number))
        kinds = sorted({name.partition("::")[2].partition("[")[0] for name in found or ()})
        told = "" if found is None else f"{len(found)}: {', '.join(f'`{kind}`' for kind in kinds) or 'none'}"
        test = plant.killer.removeprefix("tests/").replace("|", "\\|")
        cells = (number, plant.component, plant.what.replace("|", "\\|"), plant.seen, told)
        lines.append(f"| {' | '.join(map(str, cells))} | `{test}` |")
    return "\n".join(lines) + "\n"


def written() -> dict[str, list[str]]:
    """The rows as they were last written."""
    return json.loads(ROWS.read_text(encoding="utf-8")) if ROWS.exists() else {}


def main() -> None:
    """Run what is asked for, keep the rest, write the files."""
    assert len(PLANTS) == catalog.COUNT
    asked = [int(word) for word in sys.argv[1:]] or [number for number in sorted(PLANTS) if number <= catalog.FIELD]
    with ThreadPoolExecutor(WORKERS) as pool:
        rows = written() | {str(n): found for n, found in zip(asked, pool.map(killers, asked), strict=True)}
    texts = {ROWS: json.dumps(rows, indent=1, sort_keys=True), TABLE: table(rows)}
    for path, text in texts.items():
        write_atomically(path, lambda file, text=text: file.write(text.encode()))


if __name__ == "__main__":
    main()
