"""Small changes of a source file, one at a time: what a test suite that checks the code must notice.

Changed are operators, numbers, flags, extremes, bounds and branches; never text, annotations, decorators or what stands
in a `raise`, and of `require(...)` only the condition.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

Change = tuple[str, ast.expr | ast.operator]

SIGNS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|", ast.And: "and", ast.Or: "or",
    ast.Not: "not", ast.Invert: "~", ast.USub: "-",
}  # fmt: skip

OTHERS = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,), ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div,), ast.Mod: (ast.Mult,), ast.Pow: (ast.Mult,), ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,), ast.And: (ast.Or,), ast.Or: (ast.And,),
}  # fmt: skip

NAMES = {
    "min": "max", "amin": "amax", "minimum": "maximum", "fmin": "fmax", "argmin": "argmax", "any": "all",
    "floor": "ceil", "zeros": "ones", "zeros_like": "ones_like", "logical_and": "logical_or", "cumsum": "cumprod",
    "mul": "div", "mul_": "div_", "add_": "sub_",
}  # fmt: skip
NAMES |= {other: name for name, other in NAMES.items()} | {"sum": "mean", "mean": "sum"}

REMOVED = ("abs", "sqrt", "square", "flip", "logical_not", "nan_to_num")
"""Functions and tensor methods that are taken off what they are applied to."""

_OPERATED = (ast.Compare, ast.BoolOp, ast.UnaryOp)


@dataclass(frozen=True)
class Mutant:
    """One change of a file: where it stands, what the line says (its spaces made one), and the `number` of the change.

    `span`: lines of the statement, of its header where it has a body. Equal changes of equal lines are told apart by a
    number in `change`, from the second one on.
    """

    file: str
    line: int
    text: str
    change: str
    number: int
    span: tuple[int, int]

    @property
    def key(self) -> tuple[str, str, str]:
        """What stays when other lines move."""
        return self.file, self.text, self.change

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.change}: {self.text}"


def mutants(file: str, source: str) -> list[Mutant]:
    """Every mutant of a source text, in the order of the text's statements."""
    lines, seen, found = source.splitlines(), Counter[tuple[str, str]](), []
    for number, (node, span, (change, _)) in enumerate(_sites(ast.parse(source))):
        text = " ".join(lines[node.lineno - 1].split())
        seen[text, change] += 1
        count = seen[text, change]
        named = change if count == 1 else f"{change} ({count})"
        found.append(Mutant(file, node.lineno, text, named, number, span))
    return found


def mutated(source: str, number: int) -> ast.Module:
    """The tree with change `number` made; positions are those of the source."""
    tree = ast.parse(source)
    for index, (node, _, (_, new)) in enumerate(_sites(tree)):
        if index == number:
            changed = ast.AugAssign(node.target, new, node.value) if isinstance(node, ast.AugAssign) else new
            return ast.fix_missing_locations(_Replaced(node, ast.copy_location(changed, node)).visit(tree))
    raise IndexError(f"there is no change {number}")


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else super().generic_visit(node)


def _sites(node: ast.AST, span: tuple[int, int] = (0, 0)) -> Iterator[tuple[ast.AST, tuple[int, int], Change]]:
    if isinstance(node, ast.stmt):
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        span = (first, max(last, node.lineno))
    for change in _changes(node):
        yield node, span, change
    if isinstance(node, (ast.If, ast.IfExp, ast.While)) and not isinstance(node.test, _OPERATED):
        yield node.test, span, ("negate the condition", ast.UnaryOp(ast.Not(), node.test))
    for child in _children(node):
        yield from _sites(child, span)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What of a node may be changed on its own."""
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)):
        return
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and _number(node.operand):
        return
    if isinstance(node, ast.Call) and _name(node) == "require":
        yield from node.args[:1]
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            silent = isinstance(child, ast.keyword) and child.arg in ("keepdim", "strict")
            if isinstance(child, ast.AST) and not silent:
                yield child


def _changes(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        yield from _compared(node)
    elif isinstance(node, ast.BoolOp):
        for other in OTHERS[type(node.op)]:
            yield _sign(node.op, other()), ast.BoolOp(other(), node.values)
    elif isinstance(node, ast.BinOp):
        for other in OTHERS.get(type(node.op), ()):
            yield _sign(node.op, other()), ast.BinOp(node.left, other(), node.right)
    elif isinstance(node, ast.AugAssign):
        for other in OTHERS.get(type(node.op), ()):
            yield f"{SIGNS[type(node.op)]}= -> {SIGNS[other]}=", other()
    elif isinstance(node, ast.UnaryOp):
        yield from _signed(node)
    elif isinstance(node, ast.Constant):
        yield from _constant(node)
    elif isinstance(node, ast.Call):
        yield from _called(node)


def _compared(node: ast.Compare) -> Iterator[Change]:
    for place, op in enumerate(node.ops):
        for other in OTHERS[type(op)]:
            ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
            yield _sign(op, other()), ast.Compare(node.left, ops, node.comparators)


def _signed(node: ast.UnaryOp) -> Iterator[Change]:
    if isinstance(node.op, ast.USub) and _number(node.operand):
        value = node.operand.value  # type: ignore[attr-defined]
        yield f"-{value!r} -> -{value + 1!r}", ast.UnaryOp(ast.USub(), ast.Constant(value + 1))
        if type(value) is float:
            yield f"-{value!r} -> {value!r}", ast.Constant(value)
    elif not isinstance(node.op, ast.UAdd):
        yield f"drop {SIGNS[type(node.op)]}", node.operand


def _constant(node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield f"{value} -> {not value}", ast.Constant(not value)
    elif _number(node):
        yield f"{value!r} -> {value + 1!r}", ast.Constant(value + 1)
        # Whole numbers are mostly axes and places, which mean the same from the other end or fail at once.
        if value and type(value) is float:
            yield f"{value!r} -> -{value!r}", ast.UnaryOp(ast.USub(), ast.Constant(value))


def _called(node: ast.Call) -> Iterator[Change]:
    name, method = _name(node), isinstance(node.func, ast.Attribute)
    if name in NAMES and (method or name not in ("sum", "mean")):
        yield f"{name} -> {NAMES[name]}", _renamed(node, NAMES[name])
    if name.rstrip("_") in REMOVED:
        of_module = method and isinstance(node.func.value, ast.Name) and node.func.value.id in ("torch", "np", "math")
        if method and not of_module:
            yield f"drop .{name}()", node.func.value
        elif node.args:
            yield f"drop {name}()", node.args[0]
    if name == "where" and len(node.args) == 3:
        yield "where: swap", ast.Call(node.func, [node.args[0], node.args[2], node.args[1]], node.keywords)
    if name in ("clamp", "clamp_") and method:
        yield from _clamped(node)


def _clamped(node: ast.Call) -> Iterator[Change]:
    """Each bound taken away; without bounds only what was clamped is left."""
    torch = isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"  # type: ignore[attr-defined]
    taken = node.args[:1] if torch else []
    positions = zip(("min", "max"), node.args[len(taken) :], strict=False)
    bounds = [*(ast.keyword(name, value) for name, value in positions), *node.keywords]
    for gone in bounds:
        left = [bound for bound in bounds if bound is not gone]
        bare = taken[0] if torch else node.func.value  # type: ignore[attr-defined]
        yield f"clamp: drop {gone.arg}", ast.Call(node.func, taken, left) if left else bare


def _renamed(node: ast.Call, name: str) -> ast.Call:
    func = node.func
    new = ast.Attribute(func.value, name, func.ctx) if isinstance(func, ast.Attribute) else ast.Name(name, ast.Load())
    return ast.Call(ast.copy_location(new, func), node.args, node.keywords)


def _name(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _sign(old: ast.AST, new: ast.AST) -> str:
    return f"{SIGNS[type(old)]} -> {SIGNS[type(new)]}"
