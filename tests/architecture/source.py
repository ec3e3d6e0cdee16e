"""What the architecture tests read: the files of the package, their imports and their public names."""

import ast
from functools import cache
from pathlib import Path

from asyncsim import NAMES

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "asyncsim"


@cache
def modules() -> dict[str, Path]:
    """Dotted names of all modules of the package with their files."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def _parsed(source: str) -> list[ast.AST]:
    return [
        each for each in ast.walk(ast.parse(source)) if isinstance(each, (ast.Import, ast.ImportFrom, ast.Attribute))
    ]


def imports(source: str, module: str, is_package: bool, known: set[str]) -> set[str]:
    """Modules of `known` that the source imports anywhere, inside functions too; relative imports resolved.

    `from a import b` counts as a.b where that is a module, else as a; `import asyncsim as sim` as what `sim.b` names.
    """
    found, nodes = set(), _parsed(source)
    for node in nodes:
        if isinstance(node, ast.Import):
            lazy = {alias.asname for alias in node.names if alias.name == "asyncsim"} - {None}
            read = (each for each in nodes if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name))
            names = {each.attr for each in read if each.value.id in lazy}
            found |= {_longest(NAMES.get(name, f"asyncsim.{name}"), known) for name in names}
            found |= {_longest(alias.name, known) for alias in node.names if alias.asname not in lazy}
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")
            # One dot is the package itself: the module's own name, or that without its last part.
            base = base[: len(base) - node.level + is_package] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            found |= {_longest(f"{origin}.{alias.name}", known) for alias in node.names}
    return found - {""}


def _longest(name: str, known: set[str]) -> str:
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def public_names(source: str) -> set[str]:
    """Names without a leading underscore that a module defines at its top level, imports excluded."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}
    return {name for name in found if not name.startswith("_")}
