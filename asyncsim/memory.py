"""Memory that comes back from arrays: kept by the process instead of returned page by page."""

from __future__ import annotations

import ctypes
from functools import cache

_LARGEST_REQUEST, _TRIM = -3, -1


@cache
def keep(largest: int = 32 << 20) -> None:
    """Let the C library keep arrays of up to so many bytes when they are given back, half a gigabyte of them at most.

    It does so for the rest of the process. Left to itself it returns every few megabytes to the system and takes
    them again page by page, which costs networks a tenth of their time on one thread and a third on two, and a
    simulation with its record half. Other C libraries do without.
    """
    try:
        library = ctypes.CDLL(None)
        library.mallopt(_LARGEST_REQUEST, largest)
        library.mallopt(_TRIM, 512 << 20)
    except (OSError, AttributeError, TypeError):
        return
