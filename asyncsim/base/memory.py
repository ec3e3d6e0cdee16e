"""Memory: how much the process may still allocate, and how to keep freed arrays in the process."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

_LARGEST_REQUEST, _TRIM = -3, -1

ASSUMED = 16 << 30
"""Free memory in bytes that is assumed if the machine does not report it, 16 GiB."""


class Free(NamedTuple):
    """Memory in bytes that this process may still allocate, and a description of the limit that applies."""

    size: int
    whose: str


def free(root: str | os.PathLike[str] = "/") -> Free:
    """The tightest memory limit of the machine, its control groups (both versions) and the process.

    `root` contains /proc and /sys. Without them the result is the memory of the machine, else 16 GiB.
    """
    root = Path(root)
    limits = [*_machine(root), *_groups(root), *_process(root)]
    return min(limits, default=Free(ASSUMED, "assumed, as this machine does not say"))


def free_on(device: str) -> Free:
    """Free memory of a device, including what this process has reserved from its driver and not yet used."""
    import torch

    left, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return Free(left + unused, f"free on the {device} device")


def _machine(root: Path) -> Iterator[Free]:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            yield Free(1024 * int(line.split()[1]), "free on this machine")
            return
    # Systems without /proc, as macOS, say only how much there is.
    with suppress(AttributeError, OSError, ValueError):
        yield Free(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "the memory of this machine")


def _groups(root: Path) -> Iterator[Free]:
    """Free memory in every control group that contains the process; reclaimable file caches do not count as used."""
    for line in _lines(root / "proc/self/cgroup"):
        _, kinds, inside = line.split(":", 2)
        if kinds == "":
            place, names = "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            place = "sys/fs/cgroup/memory"
        else:
            continue
        # Inside a container the path may be the host's: then only the folder above all is there.
        inner = Path(inside.strip().lstrip("/"))
        for group in (inner, *inner.parents):
            most, taken, counts = (_lines(root / place / group / name) for name in (*names[:2], "memory.stat"))
            if most and taken and most[0].isdecimal() and taken[0].isdecimal():
                cached = [line.split()[1] for line in counts if line.split()[:1] == [names[2]]]
                spare = int((cached or ["0"])[0])
                yield Free(max(0, int(most[0]) - int(taken[0]) + spare), "left in this control group")


def _process(root: Path) -> Iterator[Free]:
    """Memory left under the address limit (`ulimit -v`)."""
    try:
        import resource
    except ImportError:  # Windows has none
        return
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _lines(root / "proc/self/statm")
    if most != resource.RLIM_INFINITY:
        taken = int(pages[0].split()[0]) * resource.getpagesize() if pages else 0
        yield Free(max(0, most - taken), "left under the limit of this process (ulimit -v)")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []


@cache
def keep(largest: int = 32 << 20) -> None:
    """Let the C library keep freed arrays of up to `largest` bytes, in total at most 512 MiB, for reuse.

    It would return them to the system and get them back page by page, half the time of a simulation that records.
    """
    try:
        library = ctypes.CDLL(None)
        library.mallopt(_LARGEST_REQUEST, largest)
        library.mallopt(_TRIM, 512 << 20)
    except (OSError, AttributeError, TypeError):
        return
