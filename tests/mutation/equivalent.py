"""Mutants that no test can notice, each with the reason: they do not count, but are printed.

`equivalent.txt` has a file, indented below it its lines with single spaces, and below each line `change | reason`.
"""

from pathlib import Path


def listed(text: str) -> dict[tuple[str, str, str], str]:
    """(file, line, change as printed) -> why the mutant behaves like the original."""
    found, above = {}, ["", ""]
    for row in text.splitlines():
        depth = (len(row) - len(row.lstrip())) // 2
        if depth < 2:
            above[depth] = row.strip()
        else:
            change, _, reason = row.strip().partition(" | ")
            found[above[0], above[1], change] = reason
    return found


EQUIVALENT = listed((Path(__file__).parent / "equivalent.txt").read_text(encoding="utf-8"))
