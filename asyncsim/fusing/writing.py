"""LLVM instructions as text: every value is one number of eight replicates (or of one), side by side in a register."""

from __future__ import annotations

import struct
from collections.abc import Sequence

Name = str
"""A value in the text, `%12` or a constant."""
ELEMENT = {"f": "double", "i": "i64", "b": "i1"}


class Writer:
    """Instructions of one function, on values of `width` replicates."""

    def __init__(self, width: int, prefix: str = "v") -> None:
        self.width, self.prefix = width, prefix
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}

    def type(self, kind: str) -> str:
        """The type of a value: "f" float64, "i" int64, "b" booleans."""
        return f"<{self.width} x {ELEMENT[kind]}>"

    def number(self, value: float | int | bool, kind: str = "f") -> Name:
        """A constant in all replicates."""
        text = _hexadecimal(float(value)) if kind == "f" else str(int(value))
        return f"<{', '.join([f'{ELEMENT[kind]} {text}'] * self.width)}>"

    def each(self, values: Sequence[int]) -> Name:
        """Integers, one for each replicate."""
        return f"<{', '.join(f'i64 {value}' for value in values)}>"

    def line(self, text: str) -> Name:
        """An instruction that gives a value."""
        name = f"%{self.prefix}{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction that gives none."""
        self.lines.append(f"  {text}")

    def two(self, operation: str, a: Name, b: Name, kind: str = "f") -> Name:
        """An instruction on two values of a kind, by LLVM's name."""
        return self.line(f"{operation} {self.type(kind)} {a}, {b}")

    def compare(self, sign: str, a: Name, b: Name, kind: str = "f") -> Name:
        """A comparison: LLVM's condition, as `olt` for numbers or `slt` for integers."""
        return self.line(f"{'fcmp' if kind == 'f' else 'icmp'} {sign} {self.type(kind)} {a}, {b}")

    def select(self, condition: Name, a: Name, b: Name, kind: str = "f") -> Name:
        """a where the condition holds, else b."""
        return self.line(f"select {self.type('b')} {condition}, {self.type(kind)} {a}, {self.type(kind)} {b}")

    def turn(self, operation: str, a: Name, source: str, kind: str) -> Name:
        """A conversion, by LLVM's name."""
        return self.line(f"{operation} {self.type(source)} {a} to {self.type(kind)}")

    def call(self, name: str, *operands: Name) -> Name:
        """An operation of the machine on numbers, by LLVM's name."""
        kind = self.type("f")
        full = f"@llvm.{name}.v{self.width}f64"
        self.declared[f"declare {kind} {full}({', '.join([kind] * len(operands))})"] = None
        return self.line(f"call {kind} {full}({', '.join(f'{kind} {x}' for x in operands)})")

    def whole(self, x: Name) -> Name:
        """Numbers as integers, cut towards 0; NaN is 0, since what follows may look up a table."""
        numbers, integers = self.type("f"), self.type("i")
        name = f"@llvm.fptosi.sat.v{self.width}i64.v{self.width}f64"
        self.declared[f"declare {integers} {name}({numbers})"] = None
        return self.line(f"call {integers} {name}({numbers} {x})")

    def function(self, name: str, *operands: Name) -> Name:
        """A function of the same module."""
        kind = self.type("f")
        return self.line(f"call {kind} @{name}({', '.join(f'{kind} {x}' for x in operands)})")

    def isnan(self, x: Name) -> Name:
        """Whether numbers are NaN."""
        return self.compare("uno", x, x)


def _hexadecimal(value: float) -> str:
    return "0x" + struct.pack(">d", value).hex().upper()
