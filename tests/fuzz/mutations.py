"""Seeded damage to files: flipped bits, cuts and splices, and forged insides that every checksum agrees with."""

import gzip
import io
import re
import struct
import zipfile
from random import Random

from tests.fuzz.corpus import Whole

NUMBERS = (
    *b"-1 0 -7 1e999 -1e999 NaN Infinity 2147483648 9007199254740993 1e-400 4294967296".split(),
    *(b"9" * 400, b"9" * 5000),
    *b'1.5 null true "" [] {}'.split(),
    *(b"[" * 3000, b'{"a":' * 3000),
    *b'[[0,1],[2]] "[[[" "\\ud800" 1_0'.split(),
    *(b"\xd9\xa3", b" ", b""),
)
MANY = b"9" * 30
SHAPES = (b"(0,)", b"(1000000000000,)", b"(-1,)", b"()", b"(10,10)", b"(" + MANY + b",)", b"(0," + MANY + b")")
TYPES = (b"<i8", b"<i4", b"|i1", b"<f8", b"|O", b"<U0", b"<U4", b"|V8", b"<M8[s]", b"<c16", b"|b1", b">i8", b"<i3")


def flipped(random: Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        found[random.randrange(len(found))] ^= 1 << random.randrange(8)
    return bytes(found)


def overwritten(random: Random, data: bytes) -> bytes:
    at, size = random.randrange(len(data)), random.choice((1, 2, 4, 8))
    return data[:at] + random.choice((b"\xff" * size, bytes(size), random.randbytes(size))) + data[at + size :]


def cut(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data))]


def cut_out(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + data[at + random.choice((1, 2, 16, 200)) :]


def doubled(random: Random, data: bytes) -> bytes:
    at, size = random.randrange(len(data)), random.choice((1, 16, 200, len(data)))
    return data[: at + size] + data[at:]


def put_in(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice((random.randbytes(9), b"\n", b"\x00", b"\xff\xfe", *NUMBERS)) + data[at:]


def renumbered(random: Random, data: bytes) -> bytes:
    """Another number, or what is none, in place of digits."""
    places = [found.span() for found in re.finditer(rb"\d+", data[:20000])]
    if not places:
        return put_in(random, data)
    start, end = random.choice(places)
    return data[:start] + random.choice(NUMBERS) + data[end:]


ANY = (flipped, overwritten, cut, cut_out, doubled, put_in, renumbered)


def spliced(random: Random, one: Whole, other: Whole) -> bytes:
    """The beginning of one file before the end of another."""
    return one.data[: random.randrange(len(one.data))] + other.data[random.randrange(len(other.data)) :]


def forged(random: Random, one: Whole) -> bytes:
    """Other insides in a container that is whole."""
    if one.suffix == ".npz":
        return archive(random, one.data)
    if one.suffix.endswith(".gz"):
        return gzip.compress(random.choice(ANY)(random, gzip.decompress(one.data)), 1, mtime=0)
    if one.suffix == ".parquet":
        size = struct.unpack("<I", one.data[-8:-4])[0]
        at = len(one.data) - 8 - size
        inside = random.choice((flipped, flipped, overwritten, cut_out, doubled))(random, one.data[at:-8])
        length = random.choice((len(inside), len(inside), size, 0, 2**31, len(one.data)))
        return one.data[:at] + inside + struct.pack("<I", length) + b"PAR1"
    return renumbered(random, renumbered(random, one.data))


def archive(random: Random, data: bytes) -> bytes:
    """An archive with an entry damaged, forged, renamed, left out or taken from another one."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    name = random.choice(list(entries))
    kind = random.randrange(8)
    if kind < 2:
        entries[name] = random.choice(ANY)(random, entries[name])
    elif kind == 2:
        entries[name] = re.sub(rb"\([\d, ]*\)", random.choice(SHAPES), entries[name], count=1)
    elif kind == 3:
        entries[name] = re.sub(rb"[<|>][a-zA-Z]\d+", random.choice(TYPES), entries[name], count=1)
    elif kind == 4:
        entries[name] = entries[random.choice(list(entries))]
    elif kind == 5:
        entries[random.choice((f"x{name}", "__header__.npy", f"groups/{name}", "x", "a" * 300))] = entries.pop(name)
    elif kind == 6:
        del entries[name]
    else:
        # Numbers of the array itself, behind a header that stays.
        head = 10 + struct.unpack("<H", entries[name][8:10])[0]
        values = entries[name][head:]
        entries[name] = entries[name][:head] + overwritten(random, values) if values else entries[name]
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", random.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED))) as file:
        for key, value in entries.items():
            file.writestr(key, value)
    return found.getvalue()


def mutated(seed: int, corpus: list[Whole]) -> tuple[Whole, bytes]:
    """The file with this number: which it was made of, and its bytes."""
    random = Random(seed)
    # Saved values are few beside the logs of all trainers in all forms.
    saved = [one for one in corpus if one.suffix == ".npz"]
    one = random.choice(saved if random.random() < 0.4 else corpus)
    kind = random.randrange(10)
    if kind < 5:
        data = random.choice(ANY)(random, one.data)
    elif kind < 6:
        data = spliced(random, one, random.choice([other for other in corpus if other.suffix == one.suffix]))
    else:
        data = forged(random, one)
    return one, data
