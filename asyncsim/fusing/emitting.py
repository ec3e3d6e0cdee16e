"""Translate operations to LLVM instructions for eight replicates at a time, with all values in registers.

A value of a graph is a list of lanes, one per number, and a lane is a vector over replicates. So rearranging, joining
and summing along an axis move no data, and eight replicates cost as much as one.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asyncsim.fusing import elementary
from asyncsim.fusing.elementary import ELEMENT, Name, Writer
from asyncsim.fusing.graph import Unfit, Var

STORED = {"f": "double", "i": "i64", "b": "i8"}
NAME = "program"
INLINE = 64
"""Number of calls up to which elementary functions are inlined, which is faster, but takes longer to compile."""
Lanes = list[Name]


def ordered(outputs: list[Var]) -> list[Var]:
    """All graph nodes that the outputs depend on, operands before the operations that use them."""
    order: list[Var] = []
    seen: set[int] = set()
    stack: list[tuple[Var, bool]] = [(var, False) for var in reversed(outputs)]
    while stack:
        var, ready = stack.pop()
        if ready:
            order.append(var)
        elif id(var) not in seen:
            seen.add(id(var))
            stack.append((var, True))
            stack.extend((x, False) for x in reversed(var.operands))
    return order


def described(order: list[Var], outputs: list[Var]) -> str:
    """Describe a graph as text that is equal for graphs with equal programs."""
    number = {id(var): place for place, var in enumerate(order)}
    rows = []
    for var in order:
        about = var.about
        if isinstance(about, np.ndarray):
            about = hashlib.blake2b(about.tobytes(), digest_size=16).hexdigest()
        operands = [number[id(x)] for x in var.operands]
        rows.append(f"{var.operation}{operands}{var.lanes}{var.axis is None}{var.kind}{about!r}")
    return "\n".join([*rows, str([number[id(x)] for x in outputs])])


class Registers:
    """Writes the LLVM instructions of one program whose values are in registers."""

    def __init__(self, used: list[int], width: int) -> None:
        self.used = used
        self.w, self.head = Writer(width), Writer(width, "h")
        self.functions: set[str] = set()
        self.calls = 0
        self.pointers: dict[tuple[str, int], Name] = {}

    def prepare(self, order: list[Var]) -> None:
        """Write the instructions that are equal for all replicates: addresses of inputs, and settings."""
        # Only numbers that are used: an equal program may be told fewer.
        self.numbers: dict[int, Name] = {}
        for var in order:
            key = var.operation, var.about
            if var.operation in ("input", "constant") and key not in self.pointers:
                number = self.used.index(var.about) if var.operation == "input" else var.about
                self.pointers[key] = self._address(f"{var.operation}s", number)
            elif var.operation == "fill" and isinstance(var.about, tuple):
                place = self.head.line(f"getelementptr double, ptr %scalars, i64 {var.about[1]}")
                single = self.head.line(f"load double, ptr {place}")
                self.numbers[var.about[1]] = self._everywhere(self.head, single, "f")
        # Numbers of the replicates at hand.
        self.replicate = self.w.two("add", self._everywhere(self.w, "%r", "i"), self.w.each(range(self.w.width)), "i")

    # Memory.

    def _address(self, array: str, number: int) -> Name:
        place = self.head.line(f"getelementptr ptr, ptr %{array}, i64 {number}")
        return self.head.line(f"load ptr, ptr {place}")

    def _everywhere(self, w: Writer, single: Name, kind: str) -> Name:
        vector = w.type(kind)
        start = w.line(f"insertelement {vector} poison, {ELEMENT[kind]} {single}, i32 0")
        zeros = f"<{', '.join(['i32 0'] * w.width)}>"
        return w.line(f"shufflevector {vector} {start}, {vector} poison, <{w.width} x i32> {zeros}")

    def _load(self, var: Var) -> Lanes:
        w, base, stored = self.w, self.pointers[var.operation, var.about], STORED[var.kind]
        if var.axis is None:
            return [self._shared(base, stored, str(lane), var.kind) for lane in range(var.lanes)]
        row = w.line(f"mul i64 %r, {var.lanes}")
        start = w.line(f"getelementptr {stored}, ptr {base}, i64 {row}")
        if var.lanes == 1:
            numbers = w.line(f"load <{w.width} x {stored}>, ptr {start}, align {bytes_of(stored)}")
            return [self._loaded(numbers, var.kind)]
        return [self._loaded(x, var.kind) for x in self._turned(start, stored, var.lanes, var.lanes)]

    def _shared(self, base: Name, stored: str, lane: Name, kind: str) -> Name:
        place = self.w.line(f"getelementptr {stored}, ptr {base}, i64 {lane}")
        single = self.w.line(f"load {stored}, ptr {place}, align {bytes_of(stored)}")
        if kind == "b":
            single = self.w.line(f"icmp ne i8 {single}, 0")
        return self._everywhere(self.w, single, kind)

    def _loaded(self, value: Name, kind: str) -> Name:
        if kind != "b":
            return value
        return self.w.line(f"icmp ne <{self.w.width} x i8> {value}, zeroinitializer")

    def _turned(self, start: Name, stored: str, lanes: int, row: int) -> Lanes:
        """Load `lanes` lanes from rows of replicates, where each row has `row` numbers."""
        w, found = self.w, []
        for begin in range(0, lanes, w.width):
            size = min(w.width, lanes - begin)
            rows = []
            for replicate in range(w.width):
                place = w.line(f"getelementptr {stored}, ptr {start}, i64 {replicate * row + begin}")
                rows.append(w.line(f"load <{size} x {stored}>, ptr {place}, align {bytes_of(stored)}"))
            found += self._transposed(rows, stored, size)
        return found

    def _transposed(self, rows: Lanes, stored: str, size: int) -> Lanes:
        """Transpose vectors of `size` numbers to `size` vectors by joining neighbors pairwise."""
        blocks, each, count = rows, 1, len(rows)
        # Joining two blocks keeps the rows of a number side by side.
        while len(blocks) > 1:
            mask = [k + half for n in range(size) for half in (n * each, (size + n) * each) for k in range(each)]
            pairs = zip(blocks[::2], blocks[1::2], strict=True)
            blocks = [self._shuffle(a, b, stored, size * each, mask) for a, b in pairs]
            each *= 2
        whole = blocks[0]
        places = (range(n * count, (n + 1) * count) for n in range(size))
        return [self._shuffle(whole, whole, stored, size * count, each) for each in places]

    def _shuffle(self, a: Name, b: Name, stored: str, size: int, places: Sequence[int]) -> Name:
        vector = f"<{size} x {stored}>"
        mask = ", ".join(f"i32 {place}" for place in places)
        return self.w.line(f"shufflevector {vector} {a}, {vector} {b}, <{len(places)} x i32> <{mask}>")

    def _store_lanes(self, target: Name, kind: str, lanes: Lanes, first: Name = "0", row: int | None = None) -> None:
        """Store lanes from index `first` on in the rows of replicates."""
        w, stored = self.w, STORED[kind]
        row = len(lanes) if row is None else row
        if kind == "b":
            lanes = [w.line(f"zext {w.type('b')} {x} to <{w.width} x i8>") for x in lanes]
        start = w.line(f"getelementptr {stored}, ptr {target}, i64 {w.line(f'mul i64 %r, {row}')}")
        if first != "0":
            start = w.line(f"getelementptr {stored}, ptr {start}, i64 {first}")
        begin = 0
        while begin < len(lanes):
            # As many lanes as a register holds numbers, in a power of two; each replicate has its own together.
            size = 1 << min(3, (len(lanes) - begin).bit_length() - 1)
            for replicate, piece in enumerate(self._transposed(lanes[begin : begin + size], stored, w.width)):
                place = w.line(f"getelementptr {stored}, ptr {start}, i64 {replicate * row + begin}")
                w.do(f"store <{size} x {stored}> {piece}, ptr {place}, align {bytes_of(stored)}")
            begin += size

    # Values.

    def _lanes(self, var: Var, operands: list[Lanes]) -> Lanes:
        operation = var.operation
        if operation in ("input", "constant"):
            return self._load(var)
        special: dict[str, Callable[..., Lanes]] = {
            "fill": self._fill, "cast": self._cast, "scatter": self._scatter, "philox": self._philox,
            "row": lambda var: [self.replicate], "cumsum": self._cumsum,
        }  # fmt: skip
        if operation in special:
            return special[operation](var, *operands)
        if operation in TREES:
            return self._tree(var, operands[0])
        return self._applied(var, list(zip(*operands, strict=True)))

    def _applied(self, var: Var, lanes: list[Any]) -> Lanes:
        """Lanes of an elementwise operation, each from its operands."""
        operation = var.operation
        kind = var.operands[0].kind if operation in (*COMPARED, "isnan", "isinf") else var.kind
        if operation in elementary.FUNCTIONS:
            self.functions.add(operation)
            self.calls += len(lanes)
        return [applied(self.w, operation, kind, operands) for operands in lanes]

    def _fill(self, var: Var) -> Lanes:
        about = var.about
        value = self.numbers[about[1]] if isinstance(about, tuple) else self.w.number(about, var.kind)
        return [value] * var.lanes

    def _cast(self, var: Var, value: Lanes) -> Lanes:
        w, source, kind = self.w, var.operands[0].kind, var.kind
        if kind == "b":
            # NaN is true, as in torch.
            zero = w.number(0, source)
            return [w.compare("une" if source == "f" else "ne", x, zero, source) for x in value]
        if source + kind == "fi":
            return [w.whole(x) for x in value]
        names = {"bi": "zext", "bf": "uitofp", "if": "sitofp"}
        return [w.turn(names[source + kind], x, source, kind) for x in value]

    def _tree(self, var: Var, value: Lanes) -> Lanes:
        """Reduce rows as a tree: combine the first half with the second until one row is left."""
        each, count = var.lanes, var.about
        if count == 0:
            raise Unfit("nothing to put together")
        combine, rows = TREES[var.operation], [value[k * each : (k + 1) * each] for k in range(count)]
        while len(rows) > 1:
            half = len(rows) // 2
            pairs = zip(rows[:half], rows[half : 2 * half], strict=True)
            joined = [[combine(self.w, var.kind, *both) for both in zip(*pair, strict=True)] for pair in pairs]
            rows = joined + rows[2 * half :]
        return rows[0]

    def _cumsum(self, var: Var, value: Lanes) -> Lanes:
        each = len(value) // var.about
        sums = value[:each]
        for lane, number in enumerate(value[each:]):
            sums.append(self.w.two("fadd" if var.kind == "f" else "add", sums[lane], number, var.kind))
        return sums

    # Tables.

    def _chosen(self, table: Lanes, place: Name, kind: str) -> Name:
        """Choose one lane of several, by comparing the index with every lane's."""
        w, value = self.w, table[0]
        for number, lane in enumerate(table[1:], 1):
            value = w.select(w.compare("eq", place, w.number(number, "i"), "i"), lane, value, kind)
        return value

    def _gathered(self, source: Var, place: Name) -> Name:
        """Look up numbers in a table in memory, one per replicate."""
        w, stored = self.w, STORED[source.kind]
        base = self.pointers[source.operation, source.about]
        if source.axis is not None:
            place = w.two("add", place, w.two("mul", self.replicate, w.number(source.lanes, "i"), "i"), "i")
        return self._picked(w.line(f"getelementptr {stored}, ptr {base}, {w.type('i')} {place}"), source.kind)

    def _picked(self, addresses: Name, kind: str) -> Name:
        """Load numbers at one address per replicate."""
        w, stored = self.w, STORED[kind]
        name = f"@llvm.masked.gather.v{w.width}{'f64' if kind == 'f' else 'i64'}.v{w.width}p0"
        vector, pointers, mask = f"<{w.width} x {stored}>", f"<{w.width} x ptr>", w.type("b")
        w.declared[f"declare {vector} {name}({pointers}, i32, {mask}, {vector})"] = None
        every = w.number(True, "b")
        return w.line(f"call {vector} {name}({pointers} {addresses}, i32 8, {mask} {every}, {vector} poison)")

    def _scatter(self, var: Var, values: Lanes, index: Lanes) -> Lanes:
        """Add numbers at their indices one after another, in the order of the compiled loop of tables."""
        w = self.w
        if var.about is None:
            # Counted through all replicates.
            offset = w.two("mul", self.replicate, w.number(var.lanes, "i"), "i")
            places = [w.two("sub", x, offset, "i") for x in index]
        else:
            starts = np.frombuffer(var.about, dtype=np.int64)
            places = [w.two("add", x, w.number(int(n), "i"), "i") for x, n in zip(index, starts, strict=True)]
        table = []
        for cell in range(var.lanes):
            total, number = w.number(0.0), w.number(cell, "i")
            for place, value in zip(places, values, strict=True):
                here = w.compare("eq", place, number, "i")
                total = w.select(here, w.two("fadd", total, value), total)
            table.append(total)
        return table

    # Keyed draws.

    def _philox(self, var: Var, ids: Lanes, replicate: Lanes, key: Lanes) -> Lanes:
        """Both uniform numbers of a block of Philox4x32-10 for every id: all first numbers, then all second ones."""
        w, (token, number) = self.w, var.about
        integers, pair = w.type("i"), f"{{ {w.type('f')}, {w.type('f')} }}"
        self.functions.add("philox")
        pairs = []
        for one in ids:
            words = (replicate[0], one, w.number(token, "i"), w.number(number, "i"), *key)
            both = w.line(f"call {pair} @philox({', '.join(f'{integers} {word}' for word in words)})")
            pairs.append([w.line(f"extractvalue {pair} {both}, {half}") for half in range(2)])
        return [first for first, _ in pairs] + [second for _, second in pairs]


def bytes_of(stored: str) -> int:
    """Bytes of one number in memory, by the number's type."""
    return 1 if stored == "i8" else 8


# Operations on numbers that stand at the same place: (writer, kind, operands).


def _extreme(sign: str) -> Callable[..., Name]:
    """The larger ("gt") or smaller ("lt") of two values; NaN if either is NaN."""

    def chosen(w: Writer, kind: str, a: Name, b: Name) -> Name:
        if kind != "f":
            return w.select(w.compare(f"s{sign}", a, b, kind), a, b, kind)
        value = w.select(w.compare(f"u{sign}", a, b), a, b)
        return w.select(w.isnan(b), b, value)

    return chosen


_larger, _smaller = _extreme("gt"), _extreme("lt")


def _either(name: str) -> Callable[..., Name]:
    """An instruction with different forms for numbers and integers; one on bits has the second form alone."""
    return lambda w, kind, a, b: w.two(f"f{name}" if kind == "f" else name, a, b, kind)


TREES: dict[str, Callable[..., Name]] = {
    "sum": _either("add"), "amax": _larger, "amin": _smaller, "any": _either("or"), "all": _either("and"),
}  # fmt: skip
COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")


def _sign(w: Writer, kind: str, x: Name) -> Name:
    """Sign: -1, 0 or 1; 0 for NaN."""
    if kind != "f":
        raise Unfit("sign of integers")
    zero = w.number(0.0)
    low = w.select(w.compare("olt", x, zero), w.number(-1.0), zero)
    return w.select(w.compare("olt", zero, x), w.number(1.0), low)


def _power(w: Writer, kind: str, a: Name, b: Name) -> Name:
    """a^b by the C library, one number at a time."""
    w.declared["declare double @pow(double, double)"] = None
    value, vector = "poison", w.type("f")
    for place in range(w.width):
        pair = [w.line(f"extractelement {vector} {x}, i32 {place}") for x in (a, b)]
        single = w.line(f"call double @pow(double {pair[0]}, double {pair[1]})")
        value = w.line(f"insertelement {vector} {value}, double {single}, i32 {place}")
    return value


def _floored(w: Writer, a: Name, b: Name) -> tuple[Name, Name]:
    """Quotient rounded down, and remainder with the sign of the divisor."""
    quotient, rest = w.two("sdiv", a, b, "i"), w.two("srem", a, b, "i")
    zero = w.number(0, "i")
    uneven = w.compare("ne", rest, zero, "i")
    apart = w.compare("slt", w.two("xor", rest, b, "i"), zero, "i")
    other = w.two("and", uneven, apart, "b")
    down = w.two("sub", quotient, w.number(1, "i"), "i")
    return w.select(other, down, quotient, "i"), w.select(other, w.two("add", rest, b, "i"), rest, "i")


def _negative(w: Writer, kind: str, a: Name) -> Name:
    return w.line(f"fneg {w.type('f')} {a}") if kind == "f" else w.two("sub", w.number(0, "i"), a, "i")


_OPERATIONS: dict[str, Callable[..., Name]] = {
    "add": _either("add"),
    "sub": _either("sub"),
    "mul": _either("mul"),
    "div": _either("div"),
    "maximum": _larger,
    "minimum": _smaller,
    "and": _either("and"),
    "or": _either("or"),
    "xor": _either("xor"),
    "not": lambda w, kind, a: w.two("xor", a, w.number(True, "b"), "b"),
    "same": lambda w, kind, a: a,
    "where": lambda w, kind, c, a, b: w.select(c, a, b, kind),
    "neg": _negative,
    "abs": lambda w, kind, a: w.call("fabs", a) if kind == "f" else _larger(w, kind, a, _negative(w, kind, a)),
    "sqrt": lambda w, kind, a: w.call("sqrt", a),
    "floor": lambda w, kind, a: w.call("floor", a),
    "square": lambda w, kind, a: _either("mul")(w, kind, a, a),
    "reciprocal": lambda w, kind, a: w.two("fdiv", w.number(1.0), a),
    "rsqrt": lambda w, kind, a: w.two("fdiv", w.number(1.0), w.call("sqrt", a)),
    "sign": _sign,
    "isnan": lambda w, kind, a: w.isnan(a),
    "isinf": lambda w, kind, a: w.compare("oeq", w.call("fabs", a), w.number(math.inf)),
    "pow": _power,
    "floordiv": lambda w, kind, a, b: _floored(w, a, b)[0],
    "floormod": lambda w, kind, a, b: _floored(w, a, b)[1],
}


def applied(w: Writer, operation: str, kind: str, operands: Sequence[Name]) -> Name:
    """Apply an elementwise operation to one lane of its operands."""
    if operation in COMPARED:
        equal = operation in ("eq", "ne")
        sign = ("u" if operation == "ne" else "o") if kind == "f" else "" if equal else "u" if kind == "b" else "s"
        return w.compare(sign + operation, operands[0], operands[1], kind)
    if operation in elementary.FUNCTIONS:
        return w.function(operation, *operands)
    return _OPERATIONS[operation](w, kind, *operands)
