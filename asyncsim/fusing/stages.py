"""Plan for values with too many lanes for registers: in which loop each is computed, and where in memory it is kept.

A graph is divided into steps. A step has operations on registers, elementwise operations that share one loop over their
lanes, or a single operation on all lanes: a reduction, a table, numbers read or rearranged. Rearranging and joining are
not operations here: each reader of a value has a map from its elements to the lanes of other values.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from asyncsim.fusing.graph import Var

REGISTERS, LOOP, WHOLE = range(3)
"""How a value is computed; in this order within a stage."""
SMALL = 8
"""Maximum number of lanes in a table whose entries are chosen in registers."""
ROWS = 16
"""Maximum number of rows that are reduced in registers; more rows are first halved in memory."""
ALIGNED = 64
REDUCTIONS = ("sum", "amax", "amin", "any", "all")


@dataclass(eq=False)
class Node:
    """A value that a program computes at `step` (three per stage), and keeps in memory until step `last`."""

    var: Var
    reads: "list[Read]"
    how: int
    shared: bool = False
    step: int = 0
    last: int = -1
    offset: int = -1
    spare: int = -1

    @property
    def remembered(self) -> bool:
        """Whether another node reads this node's value from memory."""
        return self.last >= 0


@dataclass(eq=False)
class Read:
    """Operand of a node: element k of the operand is lane `places[k]` of `sources[which[k]]`."""

    sources: list[Node]
    which: np.ndarray
    places: np.ndarray
    table: bool = False

    @property
    def constant(self) -> bool:
        """Whether all elements of the operand are the same lane."""
        return len(self.sources) == 1 and bool((self.places == self.places[0]).all())

    @property
    def few(self) -> bool:
        """Whether a table has so few entries that lookups compare the index with that of each entry."""
        return len(self.places) <= SMALL

    @property
    def plain(self) -> bool:
        """Whether the operand is all lanes of one value, in order."""
        lanes = self.sources[0].var.lanes
        return len(self.sources) == 1 and np.array_equal(self.places, np.arange(lanes))

    def at(self, places: np.ndarray) -> "Read":
        """The operand restricted to given elements, and to the sources that these elements use."""
        kept, which = np.unique(self.which[places], return_inverse=True)
        return Read([self.sources[n] for n in kept], which.reshape(-1), self.places[places])


def _joined(parts: list[Read]) -> Read:
    parts = [part for part in parts if len(part.places)] or parts[:1]
    sources = list(dict.fromkeys(source for part in parts for source in part.sources))
    number = {id(source): n for n, source in enumerate(sources)}
    which = [np.array([number[id(source)] for source in part.sources])[part.which] for part in parts]
    return Read(sources, np.concatenate(which), np.concatenate([part.places for part in parts]))


@dataclass
class Plan:
    """Order of computing a graph, for `width` replicates in parallel with values of up to `most` lanes in registers."""

    order: list[Var]
    outputs: list[Var]
    most: int
    width: int
    nodes: list[Node] = field(default_factory=list)
    bytes: int = 0

    def __post_init__(self) -> None:
        self.read_of: dict[int, Read] = {}
        self.laid: dict[bytes, Node] = {}
        for var in self.order:
            self.read_of[id(var)] = self._known(var) or self._made(var)
        stores = [Var("store", (var,), var.shape, var.axis, var.kind, n) for n, var in enumerate(self.outputs)]
        self.stores = [self._add(var, [self.read_of[id(var.operands[0])]]) for var in stores]
        self._late()
        for node in self.nodes:
            self._remember(node)
        self._place()

    def steps(self) -> Iterator[tuple[int, list[Node]]]:
        """The steps of a plan in order: how the nodes of each step are computed, and these nodes."""

        def together(node: Node) -> tuple[int, int]:
            return node.step, node.var.lanes if node.how == LOOP else 0

        done = [node for node in self.nodes if not node.shared]
        for (step, _), group in groupby(sorted(done, key=together), key=together):
            yield step % 3, list(group)

    # Values.

    def _known(self, var: Var) -> Read | None:
        """Lanes of a value that only rearranges other values, else None."""
        parts = [self.read_of[id(x)] for x in var.operands]
        if var.operation == "join":
            return _joined(parts)
        if var.operation == "arrange":
            return parts[0].at(var.about)
        if var.operation == "take" and var.operands[0].lanes == 1:
            return parts[0].at(np.zeros(var.lanes, dtype=np.int64))
        return parts[0] if var.operation == "same" else None

    def _made(self, var: Var) -> Read:
        node = self._add(var, [self.read_of[id(x)] for x in var.operands])
        places = np.zeros(var.lanes, dtype=np.int64) if var.operation == "fill" else np.arange(var.lanes)
        return Read([node], np.zeros(var.lanes, dtype=np.int64), places)

    def _add(self, var: Var, reads: list[Read]) -> Node:
        how = self._how(var)
        if var.operation == "take":
            # Few lanes of a table are in registers, else all of them in order in memory.
            table = reads[0] if reads[0].plain or reads[0].few else self._laid(reads[0])
            reads = [Read(table.sources, table.which, table.places, True), *reads[1:]]
        if how != REGISTERS:
            reads = [x if len(x.sources) == 1 or (x.table and x.few) else self._laid(x) for x in reads]
        shared = var.operation == "fill" or (var.operation in ("input", "constant") and var.axis is None)
        node = Node(var, reads, how, shared)
        least = max([_after(node, read, source) for read in reads for source in read.sources], default=0)
        node.step = least + (how - least) % 3
        self.nodes.append(node)
        return node

    def _how(self, var: Var) -> int:
        """How to compute a value: in registers if its operands and result are small."""
        read = [x.lanes for x in var.operands[: 1 if var.operation == "philox" else None]]
        if var.operation == "take":
            read = []
        if var.operation == "fill" or max([var.lanes, *read]) <= self.most:
            return REGISTERS
        whole = ("input", "constant", "cumsum", "scatter", "philox", "store", *REDUCTIONS)
        return WHOLE if var.operation in whole else LOOP

    def _laid(self, read: Read) -> Read:
        """Lanes of several values copied to one value, once."""
        key = repr([id(source) for source in read.sources]).encode() + read.which.tobytes() + read.places.tobytes()
        if key not in self.laid:
            lanes, kind = len(read.places), read.sources[0].var.kind
            parts = [Read([source], *_part(read, n)[1:]) for n, source in enumerate(read.sources)]
            about = [_part(read, n)[0] for n in range(len(read.sources))]
            made = Node(Var("lay", (), (lanes,), None, kind, about), parts, WHOLE)
            least = max(_after(made, part, part.sources[0]) for part in parts)
            made.step = least + (WHOLE - least) % 3
            self.nodes.append(made)
            self.laid[key] = made
        made = self.laid[key]
        return Read([made], np.zeros(len(read.places), dtype=np.int64), np.arange(len(read.places)))

    # Memory.

    def _late(self) -> None:
        """Move the reading of inputs to the step before their first use."""
        needed: dict[int, int] = {}
        for node in self.nodes:
            for source in (source for read in node.reads for source in read.sources):
                needed[id(source)] = min(node.step, needed.get(id(source), node.step))
        for node in self.nodes:
            if node.how == WHOLE and node.var.operation in ("input", "constant") and id(node) in needed:
                node.step = max(node.step, needed[id(node)] - 1 - (needed[id(node)] - 1 - WHOLE) % 3)

    def _remember(self, node: Node) -> None:
        """Keep the values that a node reads from memory until its step."""
        for read in node.reads:
            for source in read.sources:
                if source.shared or _beside(node, read, source) or (read.table and not read.few and told(source)):
                    continue
                moves = not read.few if read.table else node.how != REGISTERS and not read.constant
                if source.how != REGISTERS or moves:
                    source.last = max(source.last, node.step)

    def _place(self) -> None:
        """Assign memory to values; values that are not needed at the same time may share it."""
        wanted = []
        for node in self.nodes:
            if node.remembered:
                # Behind a table of sums stands a lane for what belongs nowhere.
                size = self._size(node.var, node.var.lanes + (node.var.operation == "scatter"))
                wanted.append((node.step, node.last, size, node, "offset"))
            if node.var.operation in REDUCTIONS and node.how == WHOLE and node.var.about > ROWS:
                half = (node.var.about + 1) // 2 * node.var.lanes
                wanted.append((node.step, node.step, self._size(node.var, half), node, "spare"))
        held: list[tuple[int, int, int]] = []
        for first, last, size, node, name in sorted(wanted, key=lambda row: row[0]):
            held = [row for row in held if row[2] >= first]
            begin = _free(held, size)
            setattr(node, name, begin)
            held.append((begin, begin + size, last))
            self.bytes = max(self.bytes, begin + size)

    def _size(self, var: Var, lanes: int) -> int:
        size = lanes * lane_bytes(var.kind, self.width)
        return size + -size % ALIGNED


def lane_bytes(kind: str, width: int) -> int:
    """Bytes of one lane in memory; a lane of booleans takes one bit."""
    return (width + 7) // 8 if kind == "b" else 8 * width


def told(source: Node) -> bool:
    """Whether a table is an input or a constant, so that lookups can read its memory directly."""
    return source.var.operation in ("input", "constant") and source.var.kind != "b"


def _part(read: Read, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Elements that come from one source, and their lanes in it."""
    here = np.flatnonzero(read.which == number)
    return here, np.zeros(len(here), dtype=np.int64), read.places[here]


def _beside(node: Node, read: Read, source: Node) -> bool:
    """Whether a value is available in the loop that reads it."""
    same = node.how == source.how == LOOP and node.step == source.step and node.var.lanes == source.var.lanes
    return same and not read.table and read.plain


def _after(node: Node, read: Read, source: Node) -> int:
    """The first step in which a node can read another one."""
    if source.shared:
        return 0
    together = node.how == source.how == LOOP and node.var.lanes == source.var.lanes and read.plain and not read.table
    return source.step + (not together and not node.how == source.how == REGISTERS)


def _free(held: Iterable[tuple[int, int, int]], size: int) -> int:
    """The first free block of `size` bytes."""
    begin = 0
    for low, high, _ in sorted(held):
        if begin + size <= low:
            break
        begin = max(begin, high)
    return begin
