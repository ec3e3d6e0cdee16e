"""The two sides of a claim stay apart, calls followed through helpers: what both used could check neither.

A prediction (`predict`, `check`, `wrong`, `terms`, parameters) reaches neither `sim` nor `lab`, and formulas that it
imports stand on floor 0. A measurement (`measure`, `reach`, `defects`) reaches no formula, and no function that the
prediction reaches; of its claim it reads points and other constants, which are shared.
"""

import ast

import pytest

from tests.architecture.source import imports, modules

MEASURED = {"measure", "reach", "defects"}
NEITHER = {"points", "more", "through", "effect", "loose"}
SHARED = {"asyncsim.claims._claim", "asyncsim.claims._trial", "asyncsim.claims._registry"}
CLAIMS = {
    name: path
    for name, path in modules().items()
    if name.startswith("asyncsim.claims.") and name.count(".") == 3 and not path.stem.startswith("_")
    if ".lab" not in name
}
FORMULAS = [
    name for name, path in modules().items() if name.startswith("asyncsim.claims.") and path.stem.startswith("_")
    if path.stem != "__init__" and name not in SHARED and ".lab." not in name
]  # fmt: skip


def faults(source: str) -> list[str]:
    """What either side of a claim reaches of the other's."""
    body = ast.parse(source).body
    origin = {
        alias.asname or alias.name.partition(".")[0]: f"{getattr(node, 'module', None) or ''}.{alias.name}".lstrip(".")
        for node in body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    defined = {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    values = {
        leaf.id: node
        for node in body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for leaf in ast.walk(target)
        if isinstance(leaf, ast.Name)
    }
    own = next(node for node in reversed(body) if isinstance(node, ast.ClassDef))

    def reached(roots: list[ast.AST]) -> set[str]:
        found: set[str] = set()
        left = list(roots)
        while left:
            names = _read(left.pop()) - found - {own.name}
            found |= names
            left += [(defined | values)[name] for name in names if name in defined or name in values]
        return found

    members = [(_name(node), node) for node in own.body]
    measured = reached([node for name, node in members if name in MEASURED])
    predicted = reached([*own.bases, *(node for name, node in members if name not in MEASURED | NEITHER)])
    formulas = {name for name in measured if "claims._" in origin.get(name, "") + "." and _formula(origin[name])}
    found = [f"a prediction reaches {name}" for name in sorted(predicted & {"sim", "lab"})]
    found += [f"a measurement reaches the formula {name}" for name in sorted(formulas)]
    own_reads = {name for key, node in members if key in MEASURED for name in _own(node)}
    found += [f"a measurement reads {name} of its claim" for name in sorted(own_reads - MEASURED - NEITHER)]
    return found + [f"both sides use {name}" for name in sorted(predicted & measured & set(defined))]


def _formula(origin: str) -> bool:
    return not any(origin.startswith(each) for each in SHARED)


def _name(node: ast.stmt) -> str:
    """The name that a member of a class has."""
    if isinstance(node, ast.Assign):
        return next((each.id for each in ast.walk(node.targets[0]) if isinstance(each, ast.Name)), "")
    return getattr(node, "name", "")


def _own(node: ast.stmt) -> set[str]:
    """What a method reads of its instance."""
    if not isinstance(node, ast.FunctionDef):
        return set()
    read = (each for each in ast.walk(node) if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name))
    return {each.attr for each in read if each.value.id == node.args.args[0].arg}


def _code(node: ast.AST) -> ast.AST:
    """A function without its annotations."""
    if isinstance(node, ast.FunctionDef):
        return ast.Module([*node.body, *(ast.Expr(each) for each in node.args.defaults)], [])
    return node


def _read(node: ast.AST) -> set[str]:
    """Names that code reads and does not bind itself."""
    names = [each for each in ast.walk(_code(node)) if isinstance(each, ast.Name)]
    bound = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    bound |= {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    return {each.id for each in names if isinstance(each.ctx, ast.Load)} - bound


@pytest.mark.parametrize("module", sorted(CLAIMS))
def test_the_sides_of_a_claim_stay_apart(module):
    assert faults(CLAIMS[module].read_text(encoding="utf-8")) == []


def test_formulas_stand_on_the_ground():
    known = set(modules())
    for module in FORMULAS:
        every = imports(modules()[module].read_text(encoding="utf-8"), module, False, known)
        assert all(each.startswith(("asyncsim.base.", "asyncsim.claims")) and ".lab" not in each for each in every), (
            module
        )


CLAIM = """
from asyncsim.claims import _work, lab
from asyncsim.claims._bandit import softmax
from asyncsim.claims._claim import Claim

def _helper(x):
    return x

class One(Claim):
    def predict(s):
        return softmax(s.x)
    def measure(self, point, effect, seed, plant):
        return lab.run(point)
"""


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("return softmax(s.x)", "return lab.run(s.x)", "a prediction reaches lab"),
        ("return x\n", "return lab.run(x)\n", "a prediction reaches lab"),
        ("lab.run(point)", "softmax(point)", "the formula softmax"),
        ("lab.run(point)", "_work.seconds(point)", "the formula _work"),
        ("lab.run(point)", "self.predict()", "reads predict of its claim"),
        ("lab.run(point)", "_helper(point)", "both sides use _helper"),
    ],
)
def test_a_side_that_reaches_the_other_is_seen(old, new, word):
    source = CLAIM.replace("softmax(s.x)", "_helper(softmax(s.x))")
    assert faults(source) == []
    assert any(
        word in each for each in faults(CLAIM.replace(old, new).replace("softmax(s.x)", "_helper(softmax(s.x))"))
    )
