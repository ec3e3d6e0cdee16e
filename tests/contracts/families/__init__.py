"""Objectives as the papers print them, one file for each family of methods, and what else their contract tests need.

A family file may define

`PAPERS`: label -> (`() -> Method`, `Paper -> objective [R]`); the first word of a label is the name of the plug-in.
`CRITIC`: names of methods that read a critic, whose loss is differentiated in a test of their own.
`KNOBS`: (kind, name) -> {argument: three values}, tried as one per replicate in place of those of a ladder.
`CASES`: label -> `() -> Method`, further ones that go through every contract of methods.
`NOT_RISING`: names of methods whose weight is not monotone in the log ratio, by design.
`ADVANTAGES`, `TOKENWISE`: formulas of advantages, and names of those that differ from token to token.
`STEPWISE`: advantages that compare with the whole step, name -> (rewards `[G, N]` -> advantages `[G, N]`).
`UNSHIFTED`: names of advantages for which the zero of rewards matters.
`ALONE`: names of advantages that compare a sample with no other one.
`LINKS`: label -> (`() -> [plain formula, ...]`, `[updates -> link, ...]`), see `tests/core/formulas.py`.
`MAKE`: (kind, name) -> arguments in place of defaults that would make a test slow or trivial.
"""

import importlib
from pathlib import Path

MODULES = [
    importlib.import_module(f"tests.contracts.families.{path.stem}")
    for path in sorted(Path(__file__).parent.glob("[!_]*.py"))
]


def gathered(name):
    """The union of a table (or a set) over all families; no key may stand in two."""
    found = {}
    for module in MODULES:
        table = getattr(module, name, {})
        table = table if isinstance(table, dict) else dict.fromkeys(table)
        assert not found.keys() & table.keys(), f"{name}: {found.keys() & table.keys()} in two families"
        found |= table
    return found
