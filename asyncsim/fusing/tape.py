"""Record a function of tensors while it runs, operation by operation, some of them as single primitives."""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.weak import WeakIdKeyDictionary

from asyncsim.fusing.graph import Graph, Unfit, Var

KINDS = {torch.float64: "f", torch.int64: "i", torch.int32: "i", torch.int8: "i", torch.bool: "b"}
Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
"""Rules for operations of torch, by name; a rule gets the tape, the actual result, and the arguments."""


class _Running(threading.local):
    """Tapes that record in the current thread; torch's modes are per thread, too."""

    def __init__(self) -> None:
        self.tapes: list[Tape] = []


_running = _Running()


def surely(shortcut: Callable[[], bool]) -> bool:
    """Whether a shortcut that gives an equal result may be taken; False during recording, which must fit all values."""
    return not _running.tapes and shortcut()


def none(flag: Tensor) -> bool:
    """Whether a flag on the CPU is False everywhere; False on a GPU and during recording, which never read flags."""
    return surely(lambda: flag.device.type == "cpu" and not bool(flag.any()))


def recording() -> "Tape | None":
    """The tape that records operations now, or None."""
    return _running.tapes[-1] if _running.tapes else None


def refuse(what: str) -> None:
    """Raise `Unfit` during recording, because a function needs something other than tensors."""
    if _running.tapes:
        raise Unfit(what)


class Varies:
    """Placeholder for a value that is no tensor and differs between calls; a compiled program cannot read it."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Unfit("a value that is known at the call only")

    __getattr__ = __getitem__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __pow__ = __neg__ = __bool__ = __len__ = __iter__ = _refuse
    __int__ = __float__ = __index__ = __hash__ = __call__ = _refuse

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise Unfit("a value that is known at the call only")


class Tape(TorchDispatchMode):
    """Records the graph of operations on tensors while the tape is active.

    Inputs are declared in advance. Every other tensor has to be constant: its numbers are stored, and `per_replicate`
    lists the tensors with a row per replicate.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would load its own compiler, a second's work, only to keep it away from here.
        return False

    def __init__(self, replicates: int, per_replicate: list[Tensor]) -> None:
        super().__init__()
        self.graph, self.replicates = Graph(), replicates
        self.vars: Any = WeakIdKeyDictionary()
        self.storages: dict[int, list[weakref.ref[Tensor]]] = {}
        self.rows, self.untold, self.noted = (WeakIdKeyDictionary() for _ in range(3))
        for tensor in per_replicate:
            self.rows[tensor] = True
        self.constants: list[Tensor] = []

    def input(self, tensor: Tensor, number: int, axis: int | None) -> None:
        """Declare a tensor that differs between calls, with replicates on `axis`: 0, or None if all share it."""
        self.tell(tensor, self.graph.make("input", (), tuple(tensor.shape), axis, self.kind(tensor), number))

    def kind(self, tensor: Tensor) -> str:
        """The kind of a tensor's numbers: float, integer or boolean."""
        if tensor.dtype not in KINDS or tensor.device.type != "cpu":
            raise Unfit(f"{tensor.dtype} on {tensor.device.type}")
        return KINDS[tensor.dtype]

    def tell(self, tensor: Tensor, var: Var) -> None:
        """Set the graph node that a tensor represents from now on."""
        self._note(tensor)
        self.vars[tensor] = var

    def _note(self, tensor: Tensor) -> None:
        """Record which memory a tensor uses."""
        if tensor not in self.noted:
            self.noted[tensor] = True
            self.storages.setdefault(tensor.untyped_storage()._cdata, []).append(weakref.ref(tensor))

    def _alike(self, tensor: Tensor) -> list[Tensor]:
        """Tensors that use the same memory, including this one."""
        alive = [ref() for ref in self.storages.get(tensor.untyped_storage()._cdata, ())]
        return [other for other in alive if other is not None]

    def var(self, value: Any) -> Var:
        """The graph node of a tensor or a number."""
        if not isinstance(value, Tensor):
            return self.graph.fill(value)
        if value in self.untold:
            raise Unfit("a result of an operation that has no rule")
        if value not in self.vars:
            self.tell(value, self._constant(value))
        return self.vars[value]

    def knows(self, value: Any) -> bool:
        """Whether a value depends on an input or has a row per replicate."""
        return isinstance(value, Tensor) and any(value in known for known in (self.vars, self.rows, self.untold))

    def _constant(self, tensor: Tensor) -> Var:
        kind, axis = self.kind(tensor), 0 if tensor in self.rows else None
        if axis is None and tensor.numel():
            first = tensor.reshape(-1)[:1]
            if bool((tensor == first).all() | (tensor != tensor).all()):
                return self.fill(first.item(), tensor)
            if tensor.ndim and tensor.shape[0] == self.replicates > 1 and bool((tensor == tensor[:1]).all()):
                # Rows that are all equal may be taken for those of the replicates as well.
                row = self._constant(tensor[:1].clone())
                return self.graph.arranged(row, row.places(), tuple(tensor.shape), 0)
        self.constants.append(tensor.detach().clone(memory_format=torch.contiguous_format))
        return self.graph.make("constant", (), tuple(tensor.shape), axis, kind, len(self.constants) - 1)

    def fill(self, value: float | int | bool, like: Tensor, axis: int | None = None) -> Var:
        """Graph node of a constant in the shape of a tensor.

        If the first axis is as long as the number of replicates, it is used as theirs, which is correct for a constant.
        """
        shape = tuple(like.shape)
        if axis is None and shape and shape[0] == self.replicates:
            axis = 0
        return self.graph.cast_fill(value, shape, axis, self.kind(like))

    def changed(self, tensor: Tensor, var: Var) -> None:
        """Update the nodes of a tensor that was changed in place, and of other tensors on the same memory."""
        if tensor not in self.vars:
            raise Unfit("a constant changed in place")
        here = _places(tensor, self.vars[tensor].axis)
        if not len(here):
            return
        lane_at = np.argsort(here, kind="stable")
        for other in self._alike(tensor):
            seen = self.vars.get(other)
            if other is tensor or seen is None:
                continue
            there = _places(other, seen.axis)
            found = lane_at[np.searchsorted(here, there, sorter=lane_at).clip(max=len(here) - 1)]
            fresh = here[found] == there
            if not fresh.any():
                continue
            if _row(tensor, self.vars[tensor].axis) != _row(other, seen.axis):
                raise Unfit("a tensor changed in place that another one shows")
            lanes = np.where(fresh, seen.lanes + found, np.arange(seen.lanes))
            both = self.graph.make("join", (seen, var), (seen.lanes + var.lanes,), None, seen.kind)
            self.vars[other] = self.graph.arranged(both, lanes, seen.shape, seen.axis)
        self.vars[tensor] = var

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.name().removeprefix("aten::")
        with _paused(self):
            flat = [x for x in args if isinstance(x, Tensor)]
            flat += [y for x in args if isinstance(x, (list, tuple)) for y in x if isinstance(y, Tensor)]
            known = any(self.knows(x) for x in (*flat, *kwargs.values()))
            if known and name.partition(".")[0].endswith("_"):
                # What it shows now is told before it changes.
                for tensor in self._alike(args[0]):
                    self.var(tensor)
            out = func(*args, **kwargs)
            if not known:
                for tensor in _several(out):
                    if isinstance(tensor, Tensor):
                        self._note(tensor)
                return out
            if name not in RULES:
                raise Unfit(f"no rule for {name}")
            result = RULES[name](self, out, *args, **kwargs)
            for tensor, var in zip(_several(out), _several(result), strict=True):
                if var is None:
                    self.untold[tensor] = True
                    continue
                if tuple(tensor.shape) != var.shape and not (var.axis is None and var.operation == "fill"):
                    raise Unfit(f"a rule gave {var.operation} {var.shape} for {tuple(tensor.shape)}")
                self.tell(tensor, var)
        return out


def _places(tensor: Tensor, axis: int | None) -> np.ndarray:
    """Positions in memory of the numbers of the first replicate."""
    places = np.array([tensor.storage_offset()])
    for place, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if place != axis:
            places = (places[:, None] + np.arange(size) * stride).reshape(-1)
    return places


def _row(tensor: Tensor, axis: int | None) -> int | None:
    """Distance in memory between the numbers of two replicates."""
    return None if axis is None else tensor.stride(axis)


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


@contextlib.contextmanager
def off(tape: Tape) -> Iterator[None]:
    """Context in which operations on tensors are not recorded."""
    with _disable_current_modes(), _paused(tape):
        yield


@contextlib.contextmanager
def _paused(tape: Tape) -> Iterator[None]:
    """Operations inside the context, which are those of rules, are not recorded."""
    position = _running.tapes.index(tape)
    del _running.tapes[position]
    try:
        yield
    finally:
        _running.tapes.insert(position, tape)


class _Closed(TorchFunctionMode):
    """Prevents reading numbers of tensors past the tape: an array of such numbers would be a constant to it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tape = recording()
        if func in _READING and tape is not None and tape.knows(args[0]):
            raise Unfit("numbers read out of a tensor")
        return func(*args, **(kwargs or {}))


_READING = (torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__)


@contextlib.contextmanager
def record(tape: Tape) -> Iterator[None]:
    """Context in which a tape records all operations on tensors."""
    _running.tapes.append(tape)
    try:
        with _Closed(), tape:
            yield
    finally:
        _running.tapes.remove(tape)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Make a function the rule by which the named torch operations are recorded."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


@contextlib.contextmanager
def primitive(rule: Rule, *operands: Tensor) -> Iterator[Callable[..., Tensor]]:
    """Record all operations inside the context as one graph node; `done(result)` sets its result, or one of several."""
    tape = recording()
    if tape is None or not any(tape.knows(x) for x in operands):
        yield lambda result, *which: result
        return

    def done(result: Tensor, *which: int) -> Tensor:
        assert tape is not None
        tape.tell(result, rule(tape, result, *(tape.var(x) for x in operands), *which))
        return result

    with off(tape):
        yield done


def entries(table: Tensor, index: Tensor) -> Tensor:
    """Entries of the tables `[..., R, n]` at indices of any shape, counted through the tables of all replicates."""
    with primitive(_entries, table, index) as done:
        return done(table.reshape(-1).index_select(0, index.reshape(-1)).reshape(index.shape))


def _entries(tape: Tape, out: Tensor, table: Var, index: Var) -> Var:
    axis = index.axis if index.axis is not None else table.axis
    about = (np.zeros(index.lanes, dtype=np.int64).tobytes(), 1, "local" if table.axis is None else "global")
    return tape.graph.make("take", (table, index), tuple(out.shape), axis, tape.kind(out), about)


def rows_of(table: Tensor, row: Tensor) -> Tensor:
    """Complete rows of the tables `[..., R, S, A]`, `[..., A]`, at row indices counted through all replicates."""
    with primitive(_rows_of, table, row) as done:
        return done(table.reshape(-1, table.shape[-1])[row])


def _rows_of(tape: Tape, out: Tensor, table: Var, row: Var) -> Var:
    if table.axis is None or row.axis is None:
        raise Unfit("a table that replicates share")
    return repeated(tape, out, table, row, "global")


def repeated(tape: Tape, out: Tensor, table: Var, row: Var, counted: str) -> Var:
    """Graph node of table rows as the last axis, looked up one number at a time."""
    size = out.shape[-1]
    places = np.repeat(row.places()[..., None], size, -1)
    wide = tape.graph.arranged(row, places, tuple(out.shape), row.axis)
    start = np.broadcast_to(np.arange(size), places.shape).reshape(-1)
    about = (np.ascontiguousarray(start).tobytes(), size, counted)
    return tape.graph.make("take", (table, wide), tuple(out.shape), row.axis, tape.kind(out), about)


def first_places(replicates: int, size: int) -> Tensor:
    """Index of the first entry of each replicate's table, counted through all tables, int64 `[R, 1, 1, 1]`."""
    places = (torch.arange(replicates) * size).reshape(-1, 1, 1, 1)
    tape = recording()
    if tape is not None and replicates == tape.replicates:
        graph = tape.graph
        row = graph.make("row", (), tuple(places.shape), 0, "i")
        tape.tell(places, graph.make("mul", (row, graph.fill(size)), tuple(places.shape), 0, "i"))
    return places


def added(tape: Tape, out: Tensor, values: Var, index: Var) -> Var:
    """Graph node that adds values to tables `[..., R, n]` at indices counted through all replicates."""
    shape = tuple(out.shape)
    axis = 1 if len(shape) > 1 and shape[0] == 1 else 0
    if index.axis is None or shape[axis] != tape.replicates:
        raise Unfit("a table that replicates share")
    given = tape.graph.broadcast(tape.graph.cast(values, "f"), index.shape, index.axis)
    return tape.graph.make("scatter", (given, index), shape, axis, "f")


def counted(below: float) -> Rule:
    """Recording rule of inverse-CDF sampling: how many entries of a table row do not exceed a number.

    uniform and state `[R, G, N]`, table `[1, R, S, A]`; numbers are clipped to `below` times the row's last entry.
    """

    def work(tape: Tape, out: Tensor, uniform: Var, table: Var, state: Var) -> Var:
        graph, shape = tape.graph, tuple(out.shape)
        actions = table.shape[-1]
        row = graph.make("mul", _alike(tape, shape, state, graph.fill(actions)), shape, 0, "i")

        def entry(action: int) -> Var:
            if table.lanes == actions:
                one = graph.arranged(table, np.array([action]), (tape.replicates, *(1,) * (len(shape) - 1)), 0)
                return graph.broadcast(one, shape, 0)
            about = (np.full(row.lanes, action).tobytes(), 1, "local")
            return graph.make("take", (table, row), shape, 0, "f", about)

        def apply(operation: str, kind: str, *operands: Var) -> Var:
            return graph.make(operation, _alike(tape, shape, *operands), shape, 0, kind)

        held = apply("minimum", "f", uniform, apply("mul", "f", entry(actions - 1), graph.fill(below)))
        total = graph.broadcast(graph.fill(0), shape, 0)
        for action in range(actions - 1):
            total = apply("add", "i", total, graph.cast(apply("ge", "b", held, entry(action)), "i"))
        return total

    return work


def _alike(tape: Tape, shape: tuple[int, ...], *values: Var) -> tuple[Var, ...]:
    return tuple(tape.graph.broadcast(value, shape, 0) for value in values)


def drawn(token: int, number: int) -> Rule:
    """Recording rule of both draws of a Philox block from ids `[R or 1, G, N]`, replicates `[R]` and a key `[2]`."""

    def work(tape: Tape, out: Tensor, ids: Var, replicates: Var, key: Var, half: int) -> Var:
        graph, shape = tape.graph, tuple(out.shape)
        spread = graph.broadcast(ids, shape, 0)
        pair = graph.make("philox", (spread, replicates, key), (2 * spread.lanes,), None, "f", (token, number))
        return graph.arranged(pair, half * spread.lanes + np.arange(spread.lanes), shape, 0)

    return work
