"""Exponential, logarithm and related functions, from additions and multiplications: equal bits on every machine.

Each agrees with the C library to about one unit in the last place, infinities, zeros and NaN included. A library
call works on one number; these work on the numbers of eight replicates.
"""

import math
import struct
from collections.abc import Callable, Sequence

from asyncsim.base import rng

Name = str
"""A value in LLVM's text, `%12` or a constant."""
ELEMENT = {"f": "double", "i": "i64", "b": "i1"}


class Writer:
    """Writes the LLVM instructions of one function, whose values are vectors of `width` replicates."""

    def __init__(self, width: int, prefix: str = "v") -> None:
        self.width, self.prefix = width, prefix
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}

    def type(self, kind: str) -> str:
        """LLVM's type for a kind of values: "f" float64, "i" int64, "b" booleans."""
        return f"<{self.width} x {ELEMENT[kind]}>"

    def number(self, value: float | int | bool, kind: str = "f") -> Name:
        """A constant that is equal in all replicates."""
        text = "0x" + struct.pack(">d", float(value)).hex().upper() if kind == "f" else str(int(value))
        return f"<{', '.join([f'{ELEMENT[kind]} {text}'] * self.width)}>"

    def each(self, values: Sequence[int]) -> Name:
        """Vector of integer constants, one per replicate."""
        return f"<{', '.join(f'i64 {value}' for value in values)}>"

    def line(self, text: str) -> Name:
        """Write an LLVM instruction that has a result."""
        name = f"%{self.prefix}{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Write an LLVM instruction that has no result."""
        self.lines.append(f"  {text}")

    def two(self, operation: str, a: Name, b: Name, kind: str = "f") -> Name:
        """Write an LLVM instruction, given by name, on two values of a kind."""
        return self.line(f"{operation} {self.type(kind)} {a}, {b}")

    def compare(self, sign: str, a: Name, b: Name, kind: str = "f") -> Name:
        """Write a comparison by LLVM's condition, such as `olt` for numbers or `slt` for integers."""
        return self.line(f"{'fcmp' if kind == 'f' else 'icmp'} {sign} {self.type(kind)} {a}, {b}")

    def select(self, condition: Name, a: Name, b: Name, kind: str = "f") -> Name:
        """Select the first value where the condition holds, else the second."""
        return self.line(f"select {self.type('b')} {condition}, {self.type(kind)} {a}, {self.type(kind)} {b}")

    def turn(self, operation: str, a: Name, source: str, kind: str) -> Name:
        """Convert a value to another kind with the LLVM instruction of the given name."""
        return self.line(f"{operation} {self.type(source)} {a} to {self.type(kind)}")

    def call(self, name: str, *operands: Name) -> Name:
        """Call an LLVM intrinsic function, given by name, on numbers."""
        kind = self.type("f")
        full = f"@llvm.{name}.v{self.width}f64"
        self.declared[f"declare {kind} {full}({', '.join([kind] * len(operands))})"] = None
        return self.line(f"call {kind} {full}({', '.join(f'{kind} {x}' for x in operands)})")

    def whole(self, x: Name) -> Name:
        """Convert numbers to integers, truncated towards 0; NaN becomes 0, since the result may index a table."""
        numbers, integers = self.type("f"), self.type("i")
        name = f"@llvm.fptosi.sat.v{self.width}i64.v{self.width}f64"
        self.declared[f"declare {integers} {name}({numbers})"] = None
        return self.line(f"call {integers} {name}({numbers} {x})")

    def function(self, name: str, *operands: Name) -> Name:
        """Call a function of the same LLVM module."""
        kind = self.type("f")
        return self.line(f"call {kind} @{name}({', '.join(f'{kind} {x}' for x in operands)})")

    def isnan(self, x: Name) -> Name:
        """Test numbers for NaN."""
        return self.compare("uno", x, x)


_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
"""ln 2 in two parts, the first with 21 zero bits at its end, so that its multiples are exact."""


def polynomial(w: Writer, x: Name, coefficients: list[float]) -> Name:
    """Polynomial c0 + c1 x + c2 x^2 + ... by Horner's method."""
    total = w.number(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = w.call("fma", total, x, w.number(coefficient))
    return total


def _bits(w: Writer, x: Name) -> Name:
    return w.turn("bitcast", x, "f", "i")


def _of_bits(w: Writer, x: Name) -> Name:
    return w.turn("bitcast", x, "i", "f")


def exp(w: Writer, x: Name) -> Name:
    """e^x = 2^n e^r with |r| <= ln 2 / 2, by a Taylor polynomial of degree 13 with a remainder below 1e-17."""
    low, high = w.number(-746.0), w.number(710.0)
    x = w.select(w.compare("olt", high, x), high, x)
    x = w.select(w.compare("olt", x, low), low, x)
    # Adding 1.5 * 2^52 rounds to an integer, which then stands in the low bits.
    magic = w.number(1.5 * 2.0**52)
    shifted = w.call("fma", x, w.number(1.0 / math.log(2.0)), magic)
    n = w.two("fsub", shifted, magic)
    r = w.call("fma", n, w.number(-_LN2_HIGH), x)
    r = w.call("fma", n, w.number(-_LN2_LOW), r)
    value = polynomial(w, r, [1.0 / math.factorial(k) for k in range(14)])
    # In two steps, so that neither factor leaves the range of a number where the result does not.
    power = w.two("sub", _bits(w, shifted), _bits(w, magic), "i")
    half = w.two("ashr", power, w.number(1, "i"), "i")
    rest = w.two("sub", power, half, "i")
    return w.two("fmul", w.two("fmul", value, _power_of_two(w, half)), _power_of_two(w, rest))


def _power_of_two(w: Writer, n: Name) -> Name:
    return _of_bits(w, w.two("shl", w.two("add", n, w.number(1023, "i"), "i"), w.number(52, "i"), "i"))


def expm1(w: Writer, x: Name) -> Name:
    """e^x - 1, by its power series near 0."""
    small = w.compare("olt", w.call("fabs", x), w.number(0.35))
    near = w.two("fmul", x, polynomial(w, x, [1.0 / math.factorial(k + 1) for k in range(14)]))
    return w.select(small, near, w.two("fsub", w.function("exp", x), w.number(1.0)))


def log(w: Writer, x: Name) -> Name:
    """ln x = e ln 2 + 2 artanh(s), s = (m - 1)/(m + 1) with x = 2^e m and m near 1, by a power series."""
    # Make subnormal numbers normal.
    tiny = w.compare("olt", x, w.number(2.0**-1022))
    scaled = w.select(tiny, w.two("fmul", x, w.number(2.0**54)), x)
    # Take the exponent so that m lies in [sqrt(1/2), sqrt(2)).
    whole = _bits(w, scaled)
    e = w.two("ashr", w.two("sub", whole, w.number(0x3FE6A09E667F3BCD, "i"), "i"), w.number(52, "i"), "i")
    m = _of_bits(w, w.two("sub", whole, w.two("shl", e, w.number(52, "i"), "i"), "i"))
    power = w.turn("sitofp", e, "i", "f")
    power = w.two("fsub", power, w.select(tiny, w.number(54.0), w.number(0.0)))
    # Sum the series; what f = m - 1 contributes exactly is kept apart.
    f = w.two("fsub", m, w.number(1.0))
    s = w.two("fdiv", f, w.two("fadd", f, w.number(2.0)))
    z = w.two("fmul", s, s)
    rest = w.two("fmul", z, polynomial(w, z, [2.0 / (2 * k + 3) for k in range(11)]))
    half = w.two("fmul", w.number(0.5), w.two("fmul", f, f))
    low = w.two("fmul", power, w.number(_LN2_LOW))
    inner = w.two("fadd", w.two("fmul", s, w.two("fadd", half, rest)), low)
    fine = w.two("fsub", w.two("fsub", half, inner), f)
    value = w.two("fsub", w.two("fmul", power, w.number(_LN2_HIGH)), fine)
    infinity, zero = w.number(math.inf), w.number(0.0)
    value = w.select(w.compare("oeq", x, infinity), infinity, value)
    value = w.select(w.compare("oeq", x, zero), w.number(-math.inf), value)
    value = w.select(w.compare("olt", x, zero), w.number(math.nan), value)
    return w.select(w.isnan(x), x, value)


def log1p(w: Writer, x: Name) -> Name:
    """ln(1 + x), with the rounding of u = 1 + x corrected by the factor x/(u - 1)."""
    one = w.number(1.0)
    u = w.two("fadd", one, x)
    exact = w.two("fmul", w.function("log", u), w.two("fdiv", x, w.two("fsub", u, one)))
    value = w.select(w.compare("oeq", u, w.number(math.inf)), u, exact)
    return w.select(w.compare("oeq", u, one), x, value)


def sigmoid(w: Writer, x: Name) -> Name:
    """Logistic function 1/(1 + e^-x)."""
    one = w.number(1.0)
    return w.two("fdiv", one, w.two("fadd", one, w.function("exp", w.two("fsub", w.number(-0.0), x))))


def tanh(w: Writer, x: Name) -> Name:
    """Hyperbolic tangent: t/(t + 2) with t = e^(2|x|) - 1, with the sign of x."""
    size = w.call("fabs", x)
    bounded = w.select(w.compare("olt", w.number(30.0), size), w.number(30.0), size)
    t = w.function("expm1", w.two("fadd", bounded, bounded))
    return w.call("copysign", w.two("fdiv", t, w.two("fadd", t, w.number(2.0))), x)


FUNCTIONS: dict[str, Callable[[Writer, Name], Name]] = {
    "exp": exp, "expm1": expm1, "log": log, "log1p": log1p, "sigmoid": sigmoid, "tanh": tanh,
}  # fmt: skip
NEEDS = {"expm1": ("exp",), "log1p": ("log",), "sigmoid": ("exp",), "tanh": ("expm1", "exp")}
"""Other functions that each function calls."""


def philox(w: Writer) -> tuple[Name, Name]:
    """Both uniform numbers of a Philox4x32-10 block, from 32-bit counter words %c0 to %c3 and key words %k0, %k1."""
    c, k = [f"%c{place}" for place in range(4)], ["%k0", "%k1"]
    mask, shift = w.number(rng.MASK, "i"), w.number(32, "i")
    for _ in range(10):
        p0 = w.two("mul", w.two("and", c[0], mask, "i"), w.number(rng.MULTIPLIER_0, "i"), "i")
        p1 = w.two("mul", w.two("and", c[2], mask, "i"), w.number(rng.MULTIPLIER_1, "i"), "i")
        high = [w.two("lshr", product, shift, "i") for product in (p1, p0)]
        first, third = (w.two("xor", w.two("xor", high[n], c[2 * n + 1], "i"), k[n], "i") for n in range(2))
        c = [first, w.two("and", p1, mask, "i"), third, w.two("and", p0, mask, "i")]
        weyl = (rng.WEYL_0, rng.WEYL_1)
        k = [w.two("and", w.two("add", x, w.number(y, "i"), "i"), mask, "i") for x, y in zip(k, weyl, strict=True)]
    return _fraction(w, c[0], c[1]), _fraction(w, c[2], c[3])


def _fraction(w: Writer, high: Name, low: Name) -> Name:
    """Combine two words to a 53-bit fraction in [0, 1)."""
    top = w.turn("sitofp", w.two("lshr", high, w.number(5, "i"), "i"), "i", "f")
    rest = w.turn("sitofp", w.two("lshr", low, w.number(6, "i"), "i"), "i", "f")
    joined = w.two("fadd", w.two("fmul", top, w.number(rng.TWO_26)), rest)
    return w.two("fmul", joined, w.number(rng.TWO_M53))


def defined(names: set[str], width: int, inline: bool) -> tuple[list[str], dict[str, None]]:
    """LLVM definitions of the named functions and of the functions they call, and the declarations that they need."""
    lines: list[str] = []
    declared: dict[str, None] = {}
    how = "alwaysinline" if inline else "noinline"
    for name in sorted(names.union(*(NEEDS.get(each, ()) for each in names)) - {"philox"}):
        w = Writer(width)
        result, kind = FUNCTIONS[name](w, "%x"), w.type("f")
        lines += [f"define internal {kind} @{name}({kind} %x) {how} {{", *w.lines, f"  ret {kind} {result}", "}"]
        declared |= w.declared
    if "philox" in names:
        lines += _draws(width)
    return lines, declared


def _draws(width: int) -> list[str]:
    """The function of keyed draws, never inlined: ten rounds for every draw take long to compile."""
    w = Writer(width)
    kind = w.type("f")
    pair = f"{{ {kind}, {kind} }}"
    words = ", ".join(f"{w.type('i')} %{name}" for name in ("c0", "c1", "c2", "c3", "k0", "k1"))
    first, second = philox(w)
    half = w.line(f"insertvalue {pair} poison, {kind} {first}, 0")
    both = w.line(f"insertvalue {pair} {half}, {kind} {second}, 1")
    return [f"define internal {pair} @philox({words}) noinline {{", *w.lines, f"  ret {pair} {both}", "}"]
