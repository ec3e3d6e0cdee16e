"""Sizes that a Parquet file declares in its footer, read before a library allocates memory for them.

pyarrow (as of version 26) ends the process when it reads the columns of a damaged footer, which cannot be caught. The
footer is one structure of Thrift's compact protocol; unused fields are skipped.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

from asyncsim.base import files

MAGIC = b"PAR1"
TEXT = 6
"""Physical type of byte arrays."""
EACH = 200
"""Bytes that a byte of the footer becomes at most: an empty structure is one of them, a dictionary here."""


class Leaf(NamedTuple):
    """A chunk of one leaf of a nested column: path in the schema, values, bytes unpacked, whether they are texts."""

    path: str
    values: int
    size: int
    text: bool


class Footer(NamedTuple):
    """Rows of a file and the chunks of its columns."""

    rows: int
    leaves: list[Leaf]


def footer(path: Path, budget: files.Budget) -> Footer:
    """The footer of a file; raises what a damaged one comes to, and `InputError` for one that is too big."""
    with open(path, "rb") as file:
        whole = file.seek(0, os.SEEK_END)
        file.seek(max(0, whole - 8))
        length, magic = struct.unpack("<I4s", file.read(8))
        if magic != MAGIC or length > whole - 12:
            raise ValueError("it does not end as a Parquet file does")
        budget.fit(EACH * length)
        file.seek(whole - 8 - length)
        fields = _Reader(file.read(length)).structure()
    leaves = []
    for group in fields.get(4, []):
        for column in group[1]:
            chunk = column[3]
            leaves.append(Leaf(".".join(chunk[3]), chunk[5], chunk[6], chunk[1] == TEXT))
    least = min([fields[3], *(number for leaf in leaves for number in (leaf.values, leaf.size))])
    if least < 0:
        raise ValueError("it declares less than nothing")
    return Footer(fields[3], leaves)


class _Reader:
    """Thrift's compact protocol: fields by their number, lists as lists, texts as texts."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def structure(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while kind := self.byte():
            number = number + (kind >> 4) if kind >> 4 else self.integer()
            fields[number] = kind & 15 == 1 if kind & 15 < 3 else self.value(kind & 15)
        return fields

    def value(self, kind: int) -> Any:
        match kind:
            case 1 | 2 | 3:
                return self.byte()
            case 4 | 5 | 6:
                return self.integer()
            case 7:
                return self.bytes(8)
            case 8:
                return self.bytes(self.varint()).decode(errors="replace")
            case 9 | 10:
                head = self.byte()
                count = self.varint() if head >> 4 == 15 else head >> 4
                self.require(count)
                return [self.value(head & 15) for _ in range(count)]
            case 11:
                count = self.varint()
                self.require(count)
                kinds = self.byte() if count else 0
                return [(self.value(kinds >> 4), self.value(kinds & 15)) for _ in range(count)]
            case 12:
                return self.structure()
        raise ValueError(f"unknown type {kind} in its footer")

    def integer(self) -> int:
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def varint(self) -> int:
        number, shift = 0, 0
        while True:
            byte = self.byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > 63:
                raise ValueError("a number in its footer is too long")

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def bytes(self, count: int) -> bytes:
        self.require(count)
        self.at += count
        return self.data[self.at - count : self.at]

    def require(self, count: int) -> None:
        """Refuse more entries than bytes: every entry has one at least."""
        if count > len(self.data) - self.at:
            raise ValueError("its footer is cut short")
