"""The tables of names in `telemetry-names.md`: `python -m docs._names` writes them, from the package's list."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from asyncsim.diagnosing import aliases

PAGE = Path(__file__).with_name("telemetry-names.md")
BEGIN, END = "<!-- names: python -m docs._names -->\n", "<!-- end of names -->\n"


def tables() -> str:
    """A table for each trainer: column, what it is or why it is not used, and the file that says so."""
    verified = [alias for alias in [*aliases.STEPS, *aliases.TOKENS] if "@" in alias.source]
    trainers = {alias.source.partition("@")[0]: None for alias in verified}
    lines = []
    for trainer in trainers:
        lines += ["", f"### {trainer}", "", "| column | is | file |", "|---|---|---|"]
        own = (alias for alias in verified if alias.source.partition("@")[0] == trainer)
        for source, rows in groupby(own, key=lambda alias: alias.source):
            commit, _, path = source.partition("@")[2].partition(":")
            for alias in rows:
                told = (
                    f"*not used*: {alias.scope}" if alias.quantity == "-" else f"`{alias.quantity}`, of {alias.scope}"
                )
                lines.append(f"| `{alias.column}` | {told.replace('|', chr(92) + '|')} | {commit} `{path}` |")
    return "\n".join([*lines, "", ""])


def page(text: str) -> str:
    """The page with its tables as they are now."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{tables()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
