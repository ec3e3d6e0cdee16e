"""How the kernel's functions are compiled and cached.

Passing an array to a function counts a reference to it atomically, even where the function is inlined afterwards. With
some thirty arrays that costs ten times the event. The kernel's functions allocate nothing and are compiled without
counting.

numba caches compiled code until the file of the cached function changes, even where functions that it calls have
changed. So only entry points are cached, under a key with a digest of all their sources.
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
entry_point = compiling.kept(error_model="numpy", nogil=True, _nrt=False)
"""An entry point: its code is cached on disk, other threads run meanwhile."""

_SOURCES = ("_compile", "_state", "_heaps", "_engine", "_buffer", "_groups", "_weights", "_kernel")


def digest() -> int:
    """A number that changes with every source of the kernel; 1 where the sources are missing.

    Entry points hold it in their closure, which is part of numba's cache key.
    """
    folder = Path(__file__).parent
    paths = [folder / f"{name}.py" for name in _SOURCES] + [folder.parent / "base" / "rng_compiled.py"]
    if not all(path.is_file() for path in paths):
        return 1
    text = b"".join(path.read_bytes() for path in paths)
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "little") | 1
