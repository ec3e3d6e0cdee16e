"""Programs for graphs with many numbers: loops over lanes, with values between them in memory.

Every lane has the same result as in an unrolled program, in the same order of operations, to the bit.
"""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from asyncsim.fusing import elementary
from asyncsim.fusing.elementary import Name
from asyncsim.fusing.emitting import INLINE, NAME, STORED, TREES, Lanes, Registers
from asyncsim.fusing.graph import Unfit, Var
from asyncsim.fusing.stages import ALIGNED, LOOP, REDUCTIONS, REGISTERS, ROWS, Node, Plan, Read, lane_bytes, told

HELD = (16, 8, 4, 2, 1)
"""Candidate limits on the lanes of a value in registers; the largest limit that gives a short program is used."""
WRITTEN = 16_000
"""Maximum number of instructions in a program, about: two seconds of compile time."""
LONGEST = 32_000
"""The limit if only values of one lane are in registers; for longer programs updates run on tensors."""
SCRATCH = "scratch"
"""Name of the memory between loops, and of the function that returns the bytes a program needs."""
FREE = ("arrange", "join", "same", "fill", "input", "constant")
"""Operations with few or no instructions."""
LOOPED = 8
"""Instructions of an operation in a loop, about."""


def held(order: list[Var]) -> int:
    """Maximum number of lanes for a value to stay in registers, such that the program does not become too long."""
    sizes = [var.lanes for var in order if var.operation not in FREE]
    for most in HELD:
        written = sum(size if size <= most else LOOPED for size in sizes)
        if written <= (WRITTEN if most > 1 else LONGEST):
            return most
    raise Unfit(f"{len(sizes)} operations, more than a program can have")


def emitted(order: list[Var], outputs: list[Var], used: list[int], width: int) -> str:
    """LLVM text of a module with two functions: the program, and `scratch()`, the program's scratch memory in bytes.

    The program is (first, last, step, inputs, constants, scalars, outputs, scratch), for `width` replicates or more:
    from `first`, then from `first + step` and so on, and finally from `last` on. `used`: numbers of inputs in order.
    """
    body = Body(order, outputs, used, width)
    body.write()
    functions, declared = elementary.defined(body.functions, width, inline=body.calls <= INLINE)
    needs = [f"define i64 @{SCRATCH}() {{", f"  ret i64 {body.plan.bytes}", "}"]
    return "\n".join([*(body.w.declared | declared), *body.tables, *functions, *body.text(), *needs, ""])


class Body(Registers):
    """Writes the loop over replicates of one compiled program."""

    def __init__(self, order: list[Var], outputs: list[Var], used: list[int], width: int) -> None:
        super().__init__(used, width)
        self.plan = Plan(order, outputs, held(order), width)
        self.values: dict[int, Lanes] = {}
        self.loaded: dict[tuple[int, int], Name] = {}
        self.named: dict[bytes, Name] = {}
        self.tables: list[str] = []
        self.block, self.loops = "replicates", 0

    def text(self) -> list[str]:
        """LLVM text of the program's loop over replicates."""
        arguments = ", ".join(f"ptr %{name}" for name in ("inputs", "constants", "scalars", "outputs", SCRATCH))
        return [
            f'define void @{NAME}(i64 %first, i64 %last, i64 %step, {arguments}) "prefer-vector-width"="512" {{',
            "entry:",
            *self.head.lines,
            "  br label %replicates",
            "replicates:",
            f"  %r = phi i64 [ %first, %entry ], [ %next, %{self.block} ]",
            *self.w.lines,
            # The last step ends where replicates do, even where it does some of them again.
            "  %over = icmp sge i64 %r, %last",
            "  %behind = add i64 %r, %step",
            "  %beyond = icmp sgt i64 %behind, %last",
            "  %next = select i1 %beyond, i64 %last, i64 %behind",
            "  br i1 %over, label %done, label %replicates",
            "done:",
            "  ret void",
            "}",
        ]

    def write(self) -> None:
        """Write the LLVM instructions of all nodes, one step of the plan after another."""
        self.prepare(self.plan.order)
        self.targets = [self._address("outputs", number) for number in range(len(self.plan.outputs))]
        for how, nodes in self.plan.steps():
            if how == LOOP:
                self._loop(nodes)
            work = self._small if how == REGISTERS else self._whole
            for node in nodes if how != LOOP else ():
                work(node)

    # Loops and memory.

    @contextlib.contextmanager
    def _over(self, count: int) -> Iterator[Name]:
        """Write a loop: instructions inside are repeated for 0, 1, ..., count - 1; yields the loop variable."""
        if count == 1:
            yield "0"
            return
        w, n = self.w, self.loops
        self.loops += 1
        w.do(f"br label %loop{n}")
        w.lines.append(f"loop{n}:")
        w.do(f"%i{n} = phi i64 [ 0, %{self.block} ], [ %j{n}, %loop{n} ]")
        yield f"%i{n}"
        w.do(f"%j{n} = add i64 %i{n}, 1")
        more = w.line(f"icmp slt i64 %j{n}, {count}")
        w.do(f"br i1 {more}, label %loop{n}, label %after{n}")
        self.block = f"after{n}"
        w.lines.append(f"{self.block}:")

    def _scaled(self, a: Name, by: int, plus: int = 0) -> Name:
        """Write an integer times a constant plus another constant."""
        if not a.startswith("%"):
            return str(int(a) * by + plus)
        a = a if by == 1 else self.w.line(f"mul i64 {a}, {by}")
        return self.w.line(f"add i64 {a}, {plus}") if plus else a

    def _entry(self, numbers: np.ndarray, i: Name) -> Name:
        """Entry i of known numbers: computed if they are evenly spaced, else read from a table."""
        if not i.startswith("%"):
            return str(int(numbers[int(i)]))
        step = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 0
        if np.array_equal(numbers, numbers[0] + step * np.arange(len(numbers))):
            return self._scaled(i, step, int(numbers[0])) if step else str(int(numbers[0]))
        place = self.w.line(f"getelementptr i32, ptr {self._table_of(numbers)}, i64 {i}")
        return self.w.line(f"sext i32 {self.w.line(f'load i32, ptr {place}, align 4')} to i64")

    def _table_of(self, numbers: np.ndarray) -> Name:
        key = np.asarray(numbers, dtype=np.int64).tobytes()
        if key not in self.named:
            name = self.named[key] = f"@table{len(self.named)}"
            row = f"[{len(numbers)} x i32] [{', '.join(f'i32 {int(n)}' for n in numbers)}]"
            self.tables.append(f"{name} = private unnamed_addr constant {row}, align {ALIGNED}")
        return self.named[key]

    def _memory(self, offset: int, kind: str, lane: Name) -> Name:
        """Address of a lane of a value in memory."""
        assert offset >= 0
        step = self._scaled(lane, lane_bytes(kind, self.w.width))
        place = self.w.line(f"getelementptr i8, ptr %{SCRATCH}, i64 {step}")
        return self.w.line(f"getelementptr i8, ptr {place}, i64 {offset}")

    def _from(self, offset: int, kind: str, lane: Name) -> Name:
        align = lane_bytes(kind, self.w.width)
        return self.w.line(f"load {self.w.type(kind)}, ptr {self._memory(offset, kind, lane)}, align {align}")

    def _into(self, offset: int, kind: str, lane: Name, value: Name) -> None:
        align = lane_bytes(kind, self.w.width)
        self.w.do(f"store {self.w.type(kind)} {value}, ptr {self._memory(offset, kind, lane)}, align {align}")

    # What is read.

    def _lane(self, source: Node, place: int) -> Name:
        """A fixed lane of a value, loaded once, outside of loops."""
        var = source.var
        if var.operation == "fill":
            return self._fill(var)[0]
        if id(source) in self.values:
            return self.values[id(source)][place]
        key = (id(source), place)
        if key not in self.loaded:
            self.loaded[key] = self._any(source, str(place))
        return self.loaded[key]

    def _any(self, source: Node, lane: Name) -> Name:
        """Load a lane of a value in memory, or of an input that all replicates share."""
        var = source.var
        if source.shared:
            return self._shared(self.pointers[var.operation, var.about], STORED[var.kind], lane, var.kind)
        return self._from(source.offset, var.kind, lane)

    def _ready(self, nodes: list[Node]) -> None:
        """Load values that are constant in a loop before it."""
        for node in nodes:
            for read in node.reads:
                if read.table and read.few:
                    self._lanes_of(read)
                elif read.constant and not read.table:
                    self._lane(read.sources[0], int(read.places[0]))

    def _lanes_of(self, read: Read) -> Lanes:
        pairs = zip(read.which.tolist(), read.places.tolist(), strict=True)
        return [self._lane(read.sources[which], place) for which, place in pairs]

    def _fetched(self, read: Read, i: Name, known: dict[tuple[int, bytes], Name] | None = None) -> Name:
        """Load the value at index i of a read."""
        source = read.sources[0]
        if read.constant:
            return self._lane(source, int(read.places[0]))
        known = {} if known is None else known
        key = (id(source), read.places.tobytes())
        if key not in known:
            known[key] = self._any(source, self._entry(read.places, i))
        return known[key]

    # Values in registers.

    def _small(self, node: Node) -> None:
        var = node.var
        if var.operation == "store":
            self._stored(node)
            return
        if var.operation == "take":
            starts = np.frombuffer(var.about[0], dtype=np.int64)
            pairs = zip(self._lanes_of(node.reads[1]), starts, strict=True)
            lanes = [self._looked_up(node, index, str(int(start))) for index, start in pairs]
        else:
            lanes = self._lanes(var, [self._lanes_of(read) for read in node.reads])
        self.values[id(node)] = lanes
        if node.remembered:
            for place, lane in enumerate(lanes):
                self._into(node.offset, var.kind, str(place), lane)

    # Operations number by number.

    def _loop(self, nodes: list[Node]) -> None:
        """Write a loop for operations on equally many lanes, which computes one lane of all of them at a time."""
        self._ready(nodes)
        beside: dict[int, Name] = {}
        known: dict[tuple[int, bytes], Name] = {}
        with self._over(nodes[0].var.lanes) as i:
            for node in nodes:
                reads = [read for read in node.reads if not read.table]
                operands = [beside.get(id(x.sources[0])) or self._fetched(x, i, known) for x in reads]
                value = beside[id(node)] = self._one(node, operands, i)
                if node.remembered:
                    self._into(node.offset, node.var.kind, i, value)

    def _one(self, node: Node, operands: list[Name], i: Name) -> Name:
        var = node.var
        if var.operation == "take":
            start = self._entry(np.frombuffer(var.about[0], dtype=np.int64), i)
            return self._looked_up(node, operands[0], start)
        return self._cast(var, operands)[0] if var.operation == "cast" else self._applied(var, [operands])[0]

    def _looked_up(self, node: Node, index: Name, start: Name) -> Name:
        """Look up an entry of a table, one per replicate."""
        w, var, read = self.w, node.var, node.reads[0]
        source, count = read.sources[0], len(read.places)
        _, step, counted = var.about
        if step != 1:
            index = w.two("mul", index, w.number(step, "i"), "i")
        if counted == "global":
            index = w.two("sub", index, w.two("mul", self.replicate, w.number(count, "i"), "i"), "i")
        if start != "0":
            index = w.two("add", index, self._everywhere(w, start, "i"), "i")
        if read.few:
            return self._chosen(self._lanes_of(read), index, var.kind)
        return self._gathered(source.var, index) if told(source) else self._collected(source, index)

    def _collected(self, source: Node, place: Name) -> Name:
        """Look up numbers of a value in memory; an invalid index gives the first."""
        w, var = self.w, source.var
        there = w.compare("ult", place, w.number(var.lanes, "i"), "i")
        place = w.select(there, place, w.number(0, "i"), "i")
        if var.kind == "b":
            return self._bits(source, place)
        place = w.two("mul", place, w.number(w.width, "i"), "i")
        place = w.two("add", place, w.each(range(w.width)), "i")
        base = self._memory(source.offset, var.kind, "0")
        return self._picked(w.line(f"getelementptr {STORED[var.kind]}, ptr {base}, {w.type('i')} {place}"), var.kind)

    def _bits(self, source: Node, place: Name) -> Name:
        """Look up booleans of a value in memory, where a byte holds eight replicates."""
        w, each = self.w, lane_bytes("b", self.w.width)
        base, value = self._memory(source.offset, "b", "0"), "poison"
        for replicate in range(w.width):
            here = w.line(f"extractelement {w.type('i')} {place}, i32 {replicate}")
            cell = w.line(f"getelementptr i8, ptr {base}, i64 {self._scaled(here, each, replicate // 8)}")
            byte = w.line(f"load i8, ptr {cell}, align 1")
            one = w.line(f"trunc i8 {w.line(f'lshr i8 {byte}, {replicate % 8}')} to i1")
            value = w.line(f"insertelement {w.type('b')} {value}, i1 {one}, i32 {replicate}")
        return value

    # Operations on all lanes.

    def _whole(self, node: Node) -> None:
        self._ready([node])
        work: dict[str, Callable[[Node], None]] = {
            "input": self._read_in, "constant": self._read_in, "store": self._stored, "lay": self._laid,
            "cumsum": self._summed_up, "scatter": self._scattered, "philox": self._drawn,
        }  # fmt: skip
        if node.var.operation in REDUCTIONS:
            self._reduced(node)
        else:
            work[node.var.operation](node)

    def _read_in(self, node: Node) -> None:
        """Read rows of replicates, eight lanes at a time."""
        var = node.var
        if not node.remembered:
            return
        base, stored, each = self.pointers[var.operation, var.about], STORED[var.kind], 8

        def chunk(begin: Name, size: int) -> None:
            row = self.w.line(f"mul i64 %r, {var.lanes}")
            start = self.w.line(f"getelementptr {stored}, ptr {base}, i64 {row}")
            start = self.w.line(f"getelementptr {stored}, ptr {start}, i64 {begin}")
            for place, lane in enumerate(self._turned(start, stored, size, var.lanes)):
                self._into(node.offset, var.kind, self._scaled(begin, 1, place), self._loaded(lane, var.kind))

        if var.lanes >= each:
            with self._over(var.lanes // each) as i:
                chunk(self._scaled(i, each), each)
        if var.lanes % each:
            chunk(str(var.lanes - var.lanes % each), var.lanes % each)

    def _stored(self, node: Node) -> None:
        read, count, each = node.reads[0], len(node.reads[0].places), 8
        target, kind = self.targets[node.var.about], node.var.kind
        if node.how == REGISTERS:
            self._store_lanes(target, kind, self._lanes_of(read))
            return
        if count >= each:
            with self._over(count // each) as i:
                begin = self._scaled(i, each)
                lanes = [self._fetched(read, self._scaled(begin, 1, n)) for n in range(each)]
                self._store_lanes(target, kind, lanes, begin, count)
        rest = range(count - count % each, count)
        if rest:
            self._store_lanes(target, kind, [self._fetched(read, str(n)) for n in rest], str(rest[0]), count)

    def _laid(self, node: Node) -> None:
        """Write lanes of several values, one value after another."""
        for read, places in zip(node.reads, node.var.about, strict=True):
            with self._over(len(places)) as i:
                value = self._fetched(read, i)
                self._into(node.offset, node.var.kind, self._entry(places, i), value)

    def _reduced(self, node: Node) -> None:
        """Reduce rows in memory, the first half with the second, until few are left."""
        var, read, each = node.var, node.reads[0], node.var.lanes
        count, combine = var.about, TREES[var.operation]
        if count == 0:
            raise Unfit("nothing to put together")

        def first(lane: Name) -> Name:
            return self._fetched(read, lane)

        def spare(lane: Name) -> Name:
            return self._from(node.spare, var.kind, lane)

        take = first
        while count > ROWS:
            half = count // 2
            with self._over(half * each) as i:
                both = take(i), take(self._scaled(i, 1, half * each))
                self._into(node.spare, var.kind, i, combine(self.w, var.kind, *both))
            if count % 2:
                with self._over(each) as i:
                    place = self._scaled(i, 1, half * each)
                    self._into(node.spare, var.kind, place, take(self._scaled(i, 1, 2 * half * each)))
            count, take = half + count % 2, spare
        with self._over(each) as i:
            rows = [take(self._scaled(i, 1, row * each)) for row in range(count)]
            while len(rows) > 1:
                half = len(rows) // 2
                joined = [combine(self.w, var.kind, rows[n], rows[half + n]) for n in range(half)]
                rows = joined + rows[2 * half :]
            self._into(node.offset, var.kind, i, rows[0])

    def _summed_up(self, node: Node) -> None:
        var, read = node.var, node.reads[0]
        each = var.lanes // var.about
        with self._over(each) as i:
            self._into(node.offset, var.kind, i, self._fetched(read, i))
        if var.about > 1:
            with self._over(var.lanes - each) as i:
                place = self._scaled(i, 1, each)
                before, number = self._from(node.offset, var.kind, i), self._fetched(read, place)
                total = self.w.two("fadd" if var.kind == "f" else "add", before, number, var.kind)
                self._into(node.offset, var.kind, place, total)

    def _scattered(self, node: Node) -> None:
        """Add numbers at their indices in memory one after another; every replicate has its own cells."""
        w, var, (values, index) = self.w, node.var, node.reads
        with self._over(var.lanes) as i:
            self._into(node.offset, "f", i, w.number(0.0))
        starts = None if var.about is None else np.frombuffer(var.about, dtype=np.int64)
        with self._over(len(index.places)) as i:
            value, place = self._fetched(values, i), self._fetched(index, i)
            if starts is None:
                offset = w.two("mul", self.replicate, w.number(var.lanes, "i"), "i")
                place = w.two("sub", place, offset, "i")
            else:
                place = w.two("add", place, self._everywhere(w, self._entry(starts, i), "i"), "i")
            # What belongs to no cell goes behind the last one.
            there = w.compare("ult", place, w.number(var.lanes, "i"), "i")
            place = w.select(there, place, w.number(var.lanes, "i"), "i")
            self._added(node.offset, place, value)

    def _added(self, offset: int, place: Name, value: Name) -> None:
        w, base = self.w, self._memory(offset, "f", "0")
        place = w.two("mul", place, w.number(w.width, "i"), "i")
        place = w.two("add", place, w.each(range(w.width)), "i")
        for replicate in range(w.width):
            here = w.line(f"extractelement {w.type('i')} {place}, i32 {replicate}")
            cell = w.line(f"getelementptr double, ptr {base}, i64 {here}")
            one = w.line(f"extractelement {w.type('f')} {value}, i32 {replicate}")
            before = w.line(f"load double, ptr {cell}, align 8")
            w.do(f"store double {w.line(f'fadd double {before}, {one}')}, ptr {cell}, align 8")

    def _drawn(self, node: Node) -> None:
        var, (ids, replicate, key) = node.var, node.reads
        words = [self._lanes_of(read) for read in (replicate, key)]
        with self._over(var.lanes // 2) as i:
            first, second = self._philox(var, [self._fetched(ids, i)], *words)
            self._into(node.offset, "f", i, first)
            self._into(node.offset, "f", self._scaled(i, 1, var.lanes // 2), second)
