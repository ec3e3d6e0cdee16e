"""Planted bugs and the tests that see them: `python -m tests.defects` writes TABLE.md."""

from pathlib import Path

from asyncsim.base.files import write_atomically
from tests.defects import catalog
from tests.defects.plants import PLANTS

TABLE = Path(__file__).parent / "TABLE.md"


def table() -> str:
    """The table as Markdown."""
    assert len(PLANTS) == catalog.COUNT
    lines = [
        "# Planted bugs and the tests that see them",
        "",
        f"{len(PLANTS)} bugs, each planted into the product (`tests/defects/`): {catalog.FIELD} that trainers have "
        "shipped, and slips of a line in every component. `tests/defects/test_defects.py` plants every bug for the "
        "test that names it.",
        "",
        "What claims see is measured on other faults, at places drawn by chance: `python -m tests.defects.fresh`.",
        "",
        "| # | component | bug | seen in | the test that names it |",
        "|---|---|---|---|---|",
    ]
    for number, plant in sorted(PLANTS.items()):
        test, what = (text.replace("|", "\\|") for text in (plant.killer.removeprefix("tests/"), plant.what))
        lines.append(f"| {number} | {plant.component} | {what} | {plant.seen} | `{test}` |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_atomically(TABLE, lambda file: file.write(table().encode()))
