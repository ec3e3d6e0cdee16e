"""Tables of pyarrow to columns: numbers, numbered texts, and values inside nested columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim.base import files
from asyncsim.schedules._log_cells import MISSING, Cells, Coded


def of_table(columns: dict[str, Any], budget: files.Budget) -> dict[str, Cells]:
    """Columns of a library's table, once there is room for their texts."""
    for column in columns.values():
        budget.take(2 * _text(column))
    # A column leaves as soon as it is converted: both at once would double the memory of a long log.
    return {name: of_arrow(columns.pop(name)) for name in list(columns)}


def is_number(kind: Any) -> bool:
    """Whether a column holds numbers."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind))


def type_inside(schema: Any, name: str) -> Any:
    """The type at a name with dots inside a nested column, None where there is none."""
    from pyarrow import types

    head, *rest = name.split(".")
    if name in schema.names or not rest or head not in schema.names:
        return None
    kind = schema.field(head).type
    for part in rest:
        if not types.is_struct(kind) or kind.get_field_index(part) < 0:
            return None
        kind = kind.field(part).type
    return kind


def field_inside(table: Any, name: str) -> Any:
    """The column at a name with dots."""
    from pyarrow import compute

    head, *rest = name.split(".")
    return compute.struct_field(table.column(head), rest)


def _text(column: Any) -> int:
    """Bytes of the texts of a column once each cell has its own."""
    from pyarrow import compute, types

    size = 0
    for chunk in column.chunks:
        while hasattr(chunk, "flatten") and not types.is_dictionary(chunk.type) and types.is_nested(chunk.type):
            chunk = chunk.flatten()
        if types.is_dictionary(chunk.type) and not types.is_primitive(chunk.type.value_type):
            lengths = compute.binary_length(chunk.dictionary)
            size += compute.sum(compute.take(lengths, chunk.indices)).as_py() or 0
    return size


def of_arrow(column: Any) -> Cells:
    """A column of a library's table."""
    import pyarrow as pa
    from pyarrow import compute, types

    kind = column.type
    if types.is_integer(kind):
        try:
            numbers = column.cast(pa.int64())
            return np.asarray((compute.fill_null(numbers, MISSING) if numbers.null_count else numbers).to_numpy())
        except pa.ArrowInvalid:
            return list(column.to_pylist())
    if types.is_floating(kind):
        # "Not a number" is a value that somebody wrote; only an empty cell is none.
        if compute.any(compute.is_nan(column)).as_py():
            return list(column.to_pylist())
        return np.asarray(compute.fill_null(column.cast(pa.float64()), math.nan).to_numpy())
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_string(inner) or types.is_large_string(inner):
        coded = column if types.is_dictionary(kind) else column.dictionary_encode()
        coded = coded.unify_dictionaries().combine_chunks()
        chunks = coded.chunks if isinstance(coded, pa.ChunkedArray) else [coded]
        if not chunks:
            return []
        found = [compute.fill_null(chunk.indices.cast(pa.int32()), -1).to_numpy() for chunk in chunks]
        return Coded(np.concatenate(found), chunks[0].dictionary.to_pylist())
    return list(column.to_pylist())
