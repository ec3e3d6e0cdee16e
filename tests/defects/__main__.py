"""Write the table of planted bugs and their killers: `python -m tests.defects [NUMBER ...]`.

Every bug is planted into the product and the shared contract tests are run on it; the first five that fail are named.
"""

from __future__ import annotations

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
        "# Planted field bugs and who kills them",
        "",
        f"{len(rows)} bugs that trainers have shipped, each planted into the product as a patch (`tests/defects/`). "
        f"The shared contract tests of `tests/contracts` kill {shared} of them, each by the test named for it. "
        "Written by `python -m tests.defects`; `tests/defects/test_defects.py` plants them again in every run of the "
        "suite.",
        "",
        "| # | bug | seen in | shared contract tests that fail (of the first five) | the test that names it |",
        "|---|---|---|---|---|",
    ]
    for key, found in sorted(rows.items(), key=lambda row: int(row[0])):
        plant = PLANTS[int(key)]
        kinds = sorted({name.partition("::")[2].partition("[")[0] for name in found})
        named = plant.killer.removeprefix("tests/")
        told = ", ".join(f"`{kind}`" for kind in kinds) or "none"
        lines.append(f"| {key} | {plant.what} | {plant.seen} | {len(found)}: {told} | `{named}` |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is asked for (default: everything), keep the rest, write both files."""
    assert len(PLANTS) == catalog.COUNT
    rows = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    asked = [int(word) for word in sys.argv[1:]] or sorted(PLANTS)
    with ThreadPoolExecutor(int(os.environ.get("WORKERS", "2"))) as pool:
        rows |= {str(n): found for n, found in zip(asked, pool.map(killers, asked), strict=True)}
    texts = {ROWS: json.dumps(rows, indent=1, sort_keys=True), TABLE: table(rows)}
    for path, text in texts.items():
        write_atomically(path, lambda file, text=text: file.write(text.encode()))


if __name__ == "__main__":
    main()
