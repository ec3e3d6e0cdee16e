"""Rules that translate operations of torch to a graph."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.fusing.graph import Unfit, Var
from asyncsim.fusing.tape import Rule, Tape, repeated, rule

ARITHMETIC = ("add", "sub", "mul", "div", "maximum", "minimum")
FUNCTIONS = (
    "exp", "log", "expm1", "log1p", "sqrt", "abs", "sign", "neg", "sigmoid", "tanh", "reciprocal", "rsqrt", "floor",
    "isnan", "square", "isinf",
)  # fmt: skip


def together(tape: Tape, operation: str, out: Tensor, values: list[Var]) -> Var:
    """Graph node of an elementwise operation on nodes, in the shape and kind of the result."""
    shape = tuple(out.shape)
    axes = {v.axis + len(shape) - len(v.shape) for v in values if v.axis is not None}
    if len(axes) > 1:
        raise Unfit("replicates stand at different axes")
    axis = axes.pop() if axes else None
    spread = tuple(tape.graph.broadcast(v, shape, axis) for v in values)
    return tape.graph.make(operation, spread, shape, axis, tape.kind(out))


def elementwise(tape: Tape, operation: str, out: Tensor, operands: list[Any], inside: str | None = None) -> Var:
    """Graph node of an elementwise operation on tensors and numbers, computed in the result's kind or in `inside`."""
    values = [tape.graph.cast(tape.var(x), inside or tape.kind(out)) for x in operands]
    return together(tape, operation, out, values)


def _in_place(tape: Tape, target: Tensor, var: Var) -> Var:
    tape.changed(target, var)
    return var


def forms(name: str, *overloads: str, out: tuple[str, ...] = ()) -> Callable[[Rule], Rule]:
    """Make a function the rule of a torch operation, of its in-place form, and of its forms with `out`."""

    def register(work: Rule) -> Rule:
        def change(tape: Tape, result: Tensor, first: Tensor, *others: Any, **more: Any) -> Var:
            return _in_place(tape, first, work(tape, result, first, *others, **more))

        def write(tape: Tape, result: Tensor, *operands: Any, out: Tensor, **more: Any) -> Var:
            var = work(tape, result, *operands, **more)
            return _in_place(tape, out, var) if tape.knows(out) else var

        ends = [f".{each}" if each else "" for each in overloads or ("",)]
        rule(*(name + end for end in ends))(work)
        rule(*(f"{name}_{end}" for end in ends))(change)
        rule(*(f"{name}.{each}" for each in out))(write)
        return work

    return register


def _arithmetic(
    operation: str, tape: Tape, out: Tensor, a: Any, b: Any, alpha: float = 1, rounding_mode: str | None = None
) -> Var:
    if rounding_mode is not None:
        if rounding_mode != "floor" or tape.kind(out) != "i":
            raise Unfit(f"division with rounding {rounding_mode}")
        return elementwise(tape, "floordiv", out, [a, b])
    if alpha != 1:
        raise Unfit("alpha")
    return elementwise(tape, "and" if tape.kind(out) == "b" and operation == "mul" else operation, out, [a, b])


def _comparison(operation: str, tape: Tape, out: Tensor, a: Any, b: Any) -> Var:
    kinds = {tape.var(x).kind for x in (a, b)}
    compared = elementwise(tape, operation, out.bool(), [a, b], next(kind for kind in "fib" if kind in kinds))
    return tape.graph.cast(compared, tape.kind(out))


def _function(operation: str, tape: Tape, out: Tensor, a: Tensor) -> Var:
    return elementwise(tape, operation, out, [a], tape.var(a).kind if operation[:2] == "is" else None)


def _logical(operation: str, tape: Tape, out: Tensor, *operands: Any) -> Var:
    if tape.kind(out) != "b":
        raise Unfit("bits of integers")
    return elementwise(tape, operation, out, list(operands))


for _name in ARITHMETIC:
    forms(_name, "", "Tensor", "Scalar", "Tensor_mode", "Scalar_mode", out=("out",))(partial(_arithmetic, _name))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    forms(_name, "Tensor", "Scalar", out=("Tensor_out", "Scalar_out"))(partial(_comparison, _name))
for _name in FUNCTIONS:
    forms(_name)(partial(_function, _name))
for _name in ("and", "or", "xor"):
    forms(f"bitwise_{_name}", "Tensor", "Scalar")(partial(_logical, _name))
for _name in ("and", "or", "xor", "not"):
    forms(f"logical_{_name}")(partial(_logical, _name))
forms("bitwise_not")(partial(_logical, "not"))


@rule("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(tape: Tape, out: Tensor, condition: Tensor, a: Any, b: Any) -> Var:
    chosen = [tape.graph.cast(tape.var(x), tape.kind(out)) for x in (a, b)]
    return together(tape, "where", out, [tape.var(condition), *chosen])


@forms("clamp", "", "Tensor")
@forms("clamp_min")
def _clamp(tape: Tape, out: Tensor, a: Tensor, min: Any = None, max: Any = None) -> Var:
    var, kind = tape.var(a), tape.kind(out)
    for operation, bound in (("maximum", min), ("minimum", max)):
        if bound is not None:
            var = together(tape, operation, out, [tape.graph.cast(x, kind) for x in (var, tape.var(bound))])
    return var


forms("clamp_max")(lambda tape, out, a, max: _clamp(tape, out, a, None, max))


@forms("pow", "Tensor_Scalar", "Tensor_Tensor", "Scalar")
def _power(tape: Tape, out: Tensor, a: Any, b: Any) -> Var:
    plain = {2: "square", 0.5: "sqrt", -1: "reciprocal", -0.5: "rsqrt"}
    if isinstance(b, (int, float)) and b in plain and tape.kind(out) == "f":
        return elementwise(tape, plain[b], out, [a])
    return elementwise(tape, "pow", out, [float(x) if isinstance(x, (int, float)) else x for x in (a, b)], "f")


@rule("remainder.Scalar")
def _remainder(tape: Tape, out: Tensor, a: Tensor, b: Any) -> Var:
    if tape.kind(out) != "i" or b <= 0:
        raise Unfit("remainder")
    return elementwise(tape, "floormod", out, [a, b])


@rule("_to_copy", "clone", "detach", "alias", "lift_fresh")
def _copied(tape: Tape, out: Tensor, a: Tensor, **_: Any) -> Var:
    return tape.graph.cast(tape.var(a), tape.kind(out))


@rule("rsub.Scalar", "rsub.Tensor")
def _reversed(tape: Tape, out: Tensor, a: Tensor, b: Any, alpha: float = 1) -> Var:
    if alpha != 1:
        raise Unfit("alpha")
    return elementwise(tape, "sub", out, [b, a])


@forms("exp2")
def _power_of_two(tape: Tape, out: Tensor, a: Tensor) -> Var:
    return elementwise(tape, "pow", out, [2.0, a])


@forms("nan_to_num")
def _numbers(tape: Tape, out: Tensor, a: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Var:
    graph, var = tape.graph, tape.var(a)
    largest = torch.finfo(torch.float64).max
    ends = [(math.inf, largest if posinf is None else posinf), (-math.inf, -largest if neginf is None else neginf)]

    def spread(number: float | Var) -> Var:
        value = number if isinstance(number, Var) else graph.fill(float(number))
        return graph.broadcast(value, var.shape, var.axis)

    result = var
    for end, instead in ends:
        here = graph.make("eq", (var, spread(end)), var.shape, var.axis, "b")
        result = graph.make("where", (here, spread(instead), result), var.shape, var.axis, "f")
    lost = graph.make("isnan", (var,), var.shape, var.axis, "b")
    return graph.make("where", (lost, spread(0.0 if nan is None else nan), result), var.shape, var.axis, "f")


@rule("copy_")
def _copy(tape: Tape, out: Tensor, target: Tensor, source: Tensor, *_: Any) -> Var:
    return _in_place(tape, target, elementwise(tape, "same", out, [source]))


@rule("floor_divide", "floor_divide.Scalar")
def _floor_divide(tape: Tape, out: Tensor, a: Any, b: Any) -> Var:
    if tape.kind(out) != "i":
        raise Unfit("floor division of numbers")
    return elementwise(tape, "floordiv", out, [a, b])


@rule(
    "empty_like",
    "new_empty",
    "zeros_like",
    "ones_like",
    "full_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "zero_",
    "fill_.Scalar",
)
def _filled(tape: Tape, out: Tensor, a: Tensor, *_: Any, **__: Any) -> Var:
    value = out.reshape(-1)[0].item() if out.numel() else 0.0
    var = tape.fill(value, out, tape.var(a).axis if out.shape == a.shape else None)
    if out is a:
        tape.changed(a, var)
    return var


# Views, and other ways to lay numbers out anew.


def _dim(dim: int, ndim: int) -> int:
    return dim + ndim if dim < 0 else dim


@rule("unsqueeze")
def _unsqueeze(tape: Tape, out: Tensor, a: Tensor, dim: int) -> Var:
    var, dim = tape.var(a), _dim(dim, out.ndim)
    axis = None if var.axis is None else var.axis + (dim <= var.axis)
    return tape.graph.arranged(var, var.places(), tuple(out.shape), axis)


@rule("squeeze.dim", "squeeze.dims", "squeeze")
def _squeeze(tape: Tape, out: Tensor, a: Tensor, dim: Any = None) -> Var:
    dims = range(a.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = [d for d in (_dim(d, a.ndim) for d in dims) if a.shape[d] == 1]
    var = tape.var(a)
    if var.axis in gone:
        raise Unfit("one replicate")
    axis = None if var.axis is None else var.axis - sum(d < var.axis for d in gone)
    return tape.graph.arranged(var, np.squeeze(var.places(), tuple(gone)), tuple(out.shape), axis)


@rule("select.int")
def _select(tape: Tape, out: Tensor, a: Tensor, dim: int, index: int) -> Var:
    var, dim = tape.var(a), _dim(dim, a.ndim)
    if dim == var.axis:
        raise Unfit("a single replicate")
    axis = None if var.axis is None else var.axis - (dim < var.axis)
    return tape.graph.arranged(var, np.take(var.places(), index, dim), tuple(out.shape), axis)


@rule("slice.Tensor")
def _slice(tape: Tape, out: Tensor, a: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Var:
    var, dim = tape.var(a), _dim(dim, a.ndim)
    if dim == var.axis:
        if out.shape != a.shape:
            raise Unfit("some replicates")
        return var
    cut = [slice(None)] * a.ndim
    cut[dim] = slice(start, None if end is None or end > a.shape[dim] else end, step)
    return tape.graph.arranged(var, var.places()[tuple(cut)], tuple(out.shape), var.axis)


@rule("expand")
def _expand(tape: Tape, out: Tensor, a: Tensor, *_: Any, **__: Any) -> Var:
    var, shape = tape.var(a), tuple(out.shape)
    ahead = len(shape) - a.ndim
    axis = None if var.axis is None else var.axis + ahead
    if axis is None and shape[0] == tape.replicates and (ahead > 0 or a.shape[0] == 1):
        # All that is repeated is equal, so that it may be taken for a row of each replicate.
        axis = 0
    one = tuple(1 if place == axis else size for place, size in enumerate(shape))
    wide = np.broadcast_to(var.places().reshape((1,) * ahead + var.places().shape), one)
    return tape.graph.arranged(var, wide, shape, axis)


@rule("permute", "transpose.int", "t")
def _permute(tape: Tape, out: Tensor, a: Tensor, *dims: Any) -> Var:
    var = tape.var(a)
    order = list(range(a.ndim))
    if len(dims) == 1:
        order = [_dim(d, a.ndim) for d in dims[0]]
    else:
        first, second = (_dim(d, a.ndim) for d in (dims or (-1, -2)))
        order[first], order[second] = order[second], order[first]
    axis = None if var.axis is None else order.index(var.axis)
    return tape.graph.arranged(var, var.places().transpose(order), tuple(out.shape), axis)


@rule("view", "_unsafe_view", "_reshape_alias")
def _view(tape: Tape, out: Tensor, a: Tensor, *_: Any) -> Var:
    var, shape = tape.var(a), tuple(out.shape)
    if var.axis is None:
        return tape.graph.arranged(var, var.places(), shape, None)
    before, place = math.prod(a.shape[: var.axis]), 0
    while math.prod(shape[:place]) < before:
        place += 1
    # Axes of length 1 may stand in front.
    while place < len(shape) and shape[place] == 1 and a.shape[var.axis] != 1:
        place += 1
    fits = place < len(shape) and math.prod(shape[:place]) == before and shape[place] == a.shape[var.axis]
    if not fits:
        raise Unfit("replicates joined with another axis")
    return tape.graph.arranged(var, var.places(), shape, place)


@rule("flip")
def _flip(tape: Tape, out: Tensor, a: Tensor, dims: Any) -> Var:
    var = tape.var(a)
    if var.axis in [_dim(d, a.ndim) for d in dims]:
        raise Unfit("replicates in another order")
    return tape.graph.arranged(var, np.flip(var.places(), tuple(dims)), tuple(out.shape), var.axis)


@rule("cat", "stack")
def _cat(tape: Tape, out: Tensor, parts: Any, dim: int = 0) -> Var:
    graph, shape = tape.graph, tuple(out.shape)
    stacked = out.ndim > parts[0].ndim
    dim = _dim(dim, out.ndim)
    values = [graph.cast(tape.var(x), tape.kind(out)) for x in parts]
    axes = {v.axis + (stacked and dim <= v.axis) for v in values if v.axis is not None}
    if len(axes) > 1 or dim in axes:
        raise Unfit("replicates beside one another")
    axis = axes.pop() if axes else None
    lanes, start = [], 0
    for value, part in zip(values, parts, strict=True):
        size = [*part.shape[:dim], 1, *part.shape[dim:]] if stacked else list(part.shape)
        one = tuple(1 if place == axis else n for place, n in enumerate(size))
        lanes.append(value.places().reshape(one) + start)
        start += value.lanes
    joined = graph.make("join", tuple(values), (start,), None, tape.kind(out), axis is not None)
    return graph.arranged(joined, np.concatenate(lanes, dim), shape, axis)


@rule("constant_pad_nd")
def _pad(tape: Tape, out: Tensor, a: Tensor, pad: Any, value: float = 0.0) -> Var:
    graph, var = tape.graph, tape.var(a)
    widths = [(0, 0)] * a.ndim
    for place in range(len(pad) // 2):
        widths[a.ndim - 1 - place] = (pad[2 * place], pad[2 * place + 1])
    if var.axis is not None and widths[var.axis] != (0, 0):
        raise Unfit("more replicates")
    edge = graph.cast_fill(value or 0.0, (), None, var.kind)
    joined = graph.make("join", (var, edge), (var.lanes + 1,), None, var.kind, var.axis is not None)
    # Negative widths take some away.
    wider = np.pad(var.places(), [(max(0, low), max(0, high)) for low, high in widths], constant_values=var.lanes)
    ends = zip(wider.shape, widths, strict=True)
    padded = wider[tuple(slice(max(0, -low), size - max(0, -high)) for size, (low, high) in ends)]
    return graph.arranged(joined, padded, tuple(out.shape), var.axis)


def _dims(dim: Any, ndim: int) -> tuple[int, ...]:
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(ndim))
    return tuple(_dim(d, ndim) for d in ([dim] if isinstance(dim, int) else dim))


def reduced(tape: Tape, operation: str, out: Tensor, var: Var, dim: Any) -> Var:
    """Reduce a node along axes, as a binary tree of halves."""
    graph, kind, ndim = tape.graph, tape.kind(out), len(var.shape)
    dims = _dims(dim, ndim)
    if var.axis in dims:
        raise Unfit("replicates put together")
    kept = [place for place in range(ndim) if place not in dims]
    count = math.prod(var.shape[d] for d in dims)
    rows = var.places().transpose([*kept, *dims]).reshape(-1, count)
    flat = graph.arranged(graph.cast(var, kind), rows.T, (rows.size,), None)
    whole = graph.make(operation, (flat,), (rows.shape[0],), None, kind, count)
    axis = None
    if var.axis is not None:
        axis = var.axis if out.ndim == ndim else kept.index(var.axis)
    return graph.arranged(whole, np.arange(rows.shape[0]), tuple(out.shape), axis)


def _reduces(operation: str) -> Callable[..., Var]:
    def reduction(tape: Tape, out: Tensor, a: Tensor, dim: Any = None, keepdim: bool = False, **_: Any) -> Var:
        return reduced(tape, operation, out, tape.var(a), dim)

    return reduction


rule("sum", "sum.dim_IntList")(_reduces("sum"))
rule("amax", "max")(_reduces("amax"))
rule("amin", "min")(_reduces("amin"))
rule("any", "any.dim", "any.dims")(_reduces("any"))
rule("all", "all.dim", "all.dims")(_reduces("all"))
# Where the extreme stands is not told.
rule("max.dim")(lambda tape, out, a, dim, keepdim=False: (reduced(tape, "amax", out[0], tape.var(a), dim), None))
rule("min.dim")(lambda tape, out, a, dim, keepdim=False: (reduced(tape, "amin", out[0], tape.var(a), dim), None))


@rule("mean", "mean.dim")
def _mean(tape: Tape, out: Tensor, a: Tensor, dim: Any = None, keepdim: bool = False, **_: Any) -> Var:
    graph, total = tape.graph, reduced(tape, "sum", out, tape.var(a), dim)
    count = math.prod(a.shape[d] for d in _dims(dim, a.ndim))
    return together(tape, "div", out, [total, graph.fill(float(count))])


@rule("linalg_vector_norm")
def _norm(tape: Tape, out: Tensor, a: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Var:
    if ord != 2 or tape.kind(a) != "f":
        raise Unfit(f"norm of order {ord}")
    total = reduced(tape, "sum", out, elementwise(tape, "square", a, [a]), dim)
    return tape.graph.make("sqrt", (total,), total.shape, total.axis, "f")


@rule("argmax")
def _place_of_extreme(tape: Tape, out: Tensor, a: Tensor, dim: int | None = None, keepdim: bool = False) -> Var:
    """Index of the first maximum: a later entry replaces an earlier one only if it is larger."""
    graph, var = tape.graph, tape.var(a)
    if dim is None or var.axis == _dim(dim, a.ndim):
        raise Unfit("replicates put together")
    dim = _dim(dim, a.ndim)
    rows = np.moveaxis(var.places(), dim, 0).reshape(a.shape[dim], -1)
    lanes = [graph.arranged(var, row, (row.size,), None) for row in rows]
    best, place = lanes[0], graph.broadcast(graph.fill(0), (rows.shape[1],), None)
    for number, lane in enumerate(lanes[1:], 1):
        larger = graph.make("gt", (lane, best), lane.shape, None, "b")
        best = graph.make("where", (larger, lane, best), lane.shape, None, var.kind)
        here = graph.broadcast(graph.fill(number), (rows.shape[1],), None)
        place = graph.make("where", (larger, here, place), lane.shape, None, "i")
    kept = [d for d in range(a.ndim) if d != dim]
    axis = None
    if var.axis is not None:
        axis = var.axis if keepdim else kept.index(var.axis)
    return graph.arranged(place, np.arange(rows.shape[1]), tuple(out.shape), axis)


@rule("cumsum")
def _cumsum(tape: Tape, out: Tensor, a: Tensor, dim: int, **_: Any) -> Var:
    graph, var, dim = tape.graph, tape.var(a), _dim(dim, a.ndim)
    if dim == var.axis:
        raise Unfit("replicates put together")
    rows = np.moveaxis(var.places(), dim, 0)
    kind = tape.kind(out)
    flat = graph.arranged(graph.cast(var, kind), rows, (rows.size,), None)
    sums = graph.make("cumsum", (flat,), (rows.size,), None, kind, a.shape[dim])
    places = np.moveaxis(np.arange(rows.size).reshape(rows.shape), 0, dim)
    return graph.arranged(sums, places, tuple(out.shape), var.axis)


@rule("gather")
def _gather(tape: Tape, out: Tensor, a: Tensor, dim: int, index: Tensor, **_: Any) -> Var:
    """Entries along one axis: the lane of entry 0, plus index times the step along the axis."""
    graph, var, which, dim = tape.graph, tape.var(a), tape.var(index), _dim(dim, a.ndim)
    if dim == var.axis or (which.axis is not None and var.axis not in (None, which.axis)):
        raise Unfit("replicates looked up")
    places = var.places()
    inner = tuple(slice(0, 1 if place == dim else n) for place, n in enumerate(which.places().shape))
    start = np.broadcast_to(np.take(places, [0], dim)[inner], which.places().shape)
    step = int(np.take(places, 1, dim).flat[0] - np.take(places, 0, dim).flat[0]) if a.shape[dim] > 1 else 0
    about = (start.reshape(-1).tobytes(), step, "local")
    axis = which.axis if which.axis is not None else var.axis
    return graph.make("take", (var, which), tuple(out.shape), axis, tape.kind(out), about)


@rule("index_select")
def _index_select(tape: Tape, out: Tensor, a: Tensor, dim: int, index: Tensor) -> Var:
    var, which = tape.var(a), tape.var(index)
    if a.ndim != 1 or var.axis is not None:
        raise Unfit("index_select")
    about = (np.zeros(which.lanes, dtype=np.int64).tobytes(), 1, "local")
    return tape.graph.make("take", (var, which), tuple(out.shape), which.axis, tape.kind(out), about)


@rule("scatter_add_", "scatter_add")
def _scatter_add(tape: Tape, out: Tensor, a: Tensor, dim: int, index: Tensor, source: Tensor) -> Var:
    """Add numbers along the last axis, at given indices within their rows."""
    graph, which, var, dim = tape.graph, tape.var(index), tape.var(a), _dim(dim, a.ndim)
    if dim != a.ndim - 1 or which.axis is None or which.axis == dim or index.shape[:-1] != a.shape[:-1]:
        raise Unfit("scatter_add")
    size, each = a.shape[-1], index.shape[-1]
    rows = np.repeat(np.arange(which.lanes // each), each) * size
    given = graph.broadcast(graph.cast(tape.var(source), "f"), which.shape, which.axis)
    total = graph.make("scatter", (given, which), tuple(out.shape), which.axis, "f", rows.tobytes())
    start = graph.broadcast(var, tuple(out.shape), which.axis)
    result = graph.make("add", (start, total), tuple(out.shape), which.axis, "f")
    if out is a:
        tape.changed(a, result)
    return result


@rule("index.Tensor")
def _index(tape: Tape, out: Tensor, a: Tensor, indices: Any) -> Var:
    """Entries of a table that all replicates share, by one index per axis, or rows by an index of the first axis."""
    graph, var, shape = tape.graph, tape.var(a), tuple(out.shape)
    if var.axis is not None or any(x is None or x.dtype == torch.bool for x in indices):
        raise Unfit("index")
    if len(indices) == 1 and a.ndim == 2:
        return repeated(tape, out, var, tape.var(indices[0]), "local")
    values = [tape.var(x) for x in indices]
    axes = {v.axis + out.ndim - len(v.shape) for v in values if v.axis is not None}
    if len(indices) != a.ndim or len(axes) != 1:
        raise Unfit("index")
    axis = axes.pop()
    place = graph.broadcast(values[0], shape, axis)
    for value, size in zip(values[1:], a.shape[1:], strict=True):
        wide = graph.broadcast(graph.fill(size), shape, axis)
        place = graph.make("mul", (place, wide), shape, axis, "i")
        place = graph.make("add", (place, graph.broadcast(value, shape, axis)), shape, axis, "i")
    about = (np.zeros(place.lanes, dtype=np.int64).tobytes(), 1, "local")
    return graph.make("take", (var, place), shape, axis, tape.kind(out), about)
