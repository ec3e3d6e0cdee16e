"""The loop stays short and knows no task, policy or tier."""

import ast

import pytest

from tests.architecture.source import PACKAGE

LONGEST = 80
ASKING = {"isinstance", "issubclass", "hasattr", "type"}


def branches(source: str, absent: bool = False) -> list[str]:
    """Places where code asks what it was given: type and attribute tests, names compared with text.

    `absent` adds comparisons with None.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKING:
            found.append(f"line {node.lineno}: {node.func.id}()")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            if len(node.args) > 2:
                found.append(f"line {node.lineno}: getattr() with a default")
        elif isinstance(node, ast.Compare):
            sides = [leaf for side in (node.left, *node.comparators) for leaf in ast.walk(side)]
            values = [leaf.value for leaf in sides if isinstance(leaf, ast.Constant)]
            if any(isinstance(value, str) or (absent and value is None) for value in values):
                found.append(f"line {node.lineno}: compared with {values}")
        elif isinstance(node, ast.Match):
            found.append(f"line {node.lineno}: match")
    return found


LOOP = "running/loop.py"
# Minibatches or the whole batch, twice; rewards that are no floats; episodes behind a task of segments, twice.
KNOWN = {LOOP: 2, "sampling/rollouts.py": 1, "sampling/drawing.py": 2}


@pytest.mark.parametrize("name", KNOWN)
def test_no_branch_on_what_is_run(name):
    found = branches((PACKAGE / name).read_text(encoding="utf-8"), absent=name == LOOP)
    assert len(found) <= KNOWN[name], found


def test_the_loop_is_short():
    assert len((PACKAGE / LOOP).read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize(
    "source",
    [
        "if isinstance(task, Bandit): pass",
        "x = 1 if hasattr(policy, 'value') else 2",
        "if task.name == 'bandit': pass",
        "while 'numba' in policy.tier: pass",
        "if type(task) is Bandit: pass",
        "if system is not None: pass",
        "v = getattr(policy, 'value', 0)",
        "match task.kind:\n    case 'bandit': pass",
        "def f():\n    return [t for t in tasks if t.name not in ('a', 'b')]",
    ],
)
def test_a_branch_is_seen(source):
    assert branches(source, absent=True)


def test_plain_code_passes():
    assert branches("for u in range(n):\n    if u % every == 0 and x[u] > 0.5:\n        y = f(getattr(z, name))") == []
