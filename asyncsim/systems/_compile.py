"""How the kernel's functions are compiled, and how what was compiled is kept.

Passing an array to a function counts a reference to it, atomically, even where the function is inlined afterwards: with
some thirty arrays that costs ten times the event. The kernel's functions allocate nothing and are compiled without
counting.

numba keeps compiled code until the file of the kept function changes, whatever happens to the functions inside it. So
only entry points are kept, under a key that contains a digest of every source that they are made of.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numba

from asyncsim.base import compiling

_njit: Any = numba.njit
inlined = _njit(error_model="numpy", forceinline=True, _nrt=False)
"""Becomes a part of its callers."""
compiled = _njit(error_model="numpy", _nrt=False)
"""Is called."""
kept = compiling.kept(error_model="numpy", nogil=True, _nrt=False)
"""An entry point: its code is kept on disk, other threads run meanwhile."""

_SOURCES = ("_compile", "_state", "_heaps", "_engine", "_buffer", "_groups", "_weights", "_kernel")


def digest() -> int:
    """A number that changes with every source of the kernel; 1 where they are not there to be read.

    An entry point has it as a variable of its closure, which numba makes a part of the key of what it keeps.
    """
    here = Path(__file__).parent
    paths = [here / f"{name}.py" for name in _SOURCES] + [here.parent / "base" / "rng_compiled.py"]
    if not all(path.is_file() for path in paths):
        return 1
    text = b"".join(path.read_bytes() for path in paths)
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "little") | 1
