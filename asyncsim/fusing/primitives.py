"""Operations that a tape records as a whole: table lookups, sums into tables, keyed draws."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from asyncsim.fusing.graph import Unfit, Var
from asyncsim.fusing.tape import Tape, off, recording

Rule = Callable[..., Var]


@contextlib.contextmanager
def primitive(rule: Rule, *operands: Tensor) -> Iterator[Callable[..., Tensor]]:
    """What is done inside is one operation of the graph; `done(result)` says what it gave, and which of several."""
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
    """Entries of a table at indices of any shape; tables of replicates `[..., R, n]` are counted through.

    `index_select` is the fastest of torch's ways.
    """
    with primitive(_entries, table, index) as done:
        return done(table.reshape(-1).index_select(0, index.reshape(-1)).reshape(index.shape))


def _entries(tape: Tape, out: Tensor, table: Var, index: Var) -> Var:
    axis = index.axis if index.axis is not None else table.axis
    about = (np.zeros(index.lanes, dtype=np.int64).tobytes(), 1, "local" if table.axis is None else "global")
    return tape.graph.make("take", (table, index), tuple(out.shape), axis, tape.kind(out), about)


def rows_of(table: Tensor, row: Tensor) -> Tensor:
    """Whole rows of tables of replicates `[..., R, S, A]` at rows counted through all of them, `[..., A]`."""
    with primitive(_rows_of, table, row) as done:
        return done(table.reshape(-1, table.shape[-1])[row])


def _rows_of(tape: Tape, out: Tensor, table: Var, row: Var) -> Var:
    if table.axis is None or row.axis is None:
        raise Unfit("a table that replicates share")
    return repeated(tape, out, table, row, "global")


def repeated(tape: Tape, out: Tensor, table: Var, row: Var, counted: str) -> Var:
    """Rows of a table as its last axis, looked up number by number."""
    size = out.shape[-1]
    places = np.repeat(row.places()[..., None], size, -1)
    wide = tape.graph.arranged(row, places, tuple(out.shape), row.axis)
    start = np.broadcast_to(np.arange(size), places.shape).reshape(-1)
    about = (np.ascontiguousarray(start).tobytes(), size, counted)
    return tape.graph.make("take", (table, wide), tuple(out.shape), row.axis, tape.kind(out), about)


def first_places(replicates: int, size: int) -> Tensor:
    """Where the table of each replicate begins, counted through all of them, int64 `[R, 1, 1, 1]`."""
    places = (torch.arange(replicates) * size).reshape(-1, 1, 1, 1)
    tape = recording()
    if tape is not None and replicates == tape.replicates:
        graph = tape.graph
        row = graph.make("row", (), tuple(places.shape), 0, "i")
        tape.tell(places, graph.make("mul", (row, graph.fill(size)), tuple(places.shape), 0, "i"))
    return places


def added(tape: Tape, out: Tensor, values: Var, index: Var) -> Var:
    """The rule of values added into tables `[..., R, n]` at places counted through all replicates."""
    shape = tuple(out.shape)
    axis = 1 if len(shape) > 1 and shape[0] == 1 else 0
    if index.axis is None or shape[axis] != tape.replicates:
        raise Unfit("a table that replicates share")
    given = tape.graph.broadcast(tape.graph.cast(values, "f"), index.shape, index.axis)
    return tape.graph.make("scatter", (given, index), shape, axis, "f")


def counted(below: float) -> Rule:
    """The rule of drawing: how many entries of a row of a table do not exceed a number.

    uniform and state `[R, G, N]`, table `[1, R, S, A]`; numbers are held `below` times the row's last entry.
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
    """The rule of both draws of a Philox block: ids `[R or 1, G, N]`, replicates `[R]`, the stream's key `[2]`."""

    def work(tape: Tape, out: Tensor, ids: Var, replicates: Var, key: Var, half: int) -> Var:
        graph, shape = tape.graph, tuple(out.shape)
        spread = graph.broadcast(ids, shape, 0)
        pair = graph.make("philox", (spread, replicates, key), (2 * spread.lanes,), None, "f", (token, number))
        return graph.arranged(pair, half * spread.lanes + np.arange(spread.lanes), shape, 0)

    return work
