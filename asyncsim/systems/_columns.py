"""Columns of tables of records, each in one piece: compiled, as a pass for every field reads a long table often."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from asyncsim.base.compiling import kept
from asyncsim.systems._state import Table


@kept(nogil=True)
def _copy(words, size, places, columns):
    """Of records of so many words the words at these places, one column behind the other."""
    count = words.size // size
    for i in range(count):
        for j in range(places.size):
            # Unsigned: no index is looked at for its sign.
            columns[np.uint64(j * count + i)] = words[np.uint64(i * size + places[j])]


def columns_of(table: Table, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Copies of fields of a table, each in one piece.

    >>> from asyncsim.systems._state import NODE
    >>> columns_of(np.array([(0.5, 3), (1.5, 4)], dtype=NODE).view(np.recarray), ["code"])
    {'code': array([3, 4])}
    """
    kinds = {name: table.dtype.fields[name][:2] for name in names}
    found: dict[str, np.ndarray] = {}
    for word in (np.dtype(np.int64), np.dtype(np.int32)):
        chosen = [name for name, (kind, _) in kinds.items() if kind.itemsize == word.itemsize]
        columns = np.empty((len(chosen), len(table)), dtype=word)
        if chosen:
            places = np.array([kinds[name][1] // word.itemsize for name in chosen])
            _copy(table.view(np.ndarray).view(word), table.itemsize // word.itemsize, places, columns.reshape(-1))
        found |= {name: column.view(kinds[name][0]) for name, column in zip(chosen, columns, strict=True)}
    return {name: found[name] for name in kinds}
