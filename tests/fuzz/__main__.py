"""`python -m tests.fuzz [--files N] [--texts N] [--seed N]`: damaged files and texts, each read or refused by name.

Anything but `InputError` is a failure: a traceback, a crash, more than 20 seconds, or more memory than the limit. The
work is done in processes of their own; the report is printed as JSON.
"""

import argparse
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from asyncsim.base.checks import InputError

LIMIT = 64 << 20
"""Bytes of memory that reading a file may take here."""
PART = 2000
"""Files that one process reads."""
PATIENCE = 20.0


class Hang(BaseException):
    """Nothing came back."""


def _hang(number: int, frame: Any) -> None:
    raise Hang


def outcome(ask: Any) -> str:
    """What became of a call: read, a kind of refusal, or the traceback of a failure."""
    try:
        ask()
    except InputError as error:
        text = str(error)
        if "\n" in text:
            return f"failed: two lines\n{text}"
        return (
            "refused: too big"
            if "ASYNCSIM_READ_LIMIT" in text
            else ("refused: damaged" if "must be a whole" in text else "refused: by a rule")
        )
    except (Exception, Hang):
        return f"failed: {traceback.format_exc()[-1500:]}"
    return "read"


def files(numbers: range, folder: Path, mark: Any = None) -> Counter[str]:
    """Outcomes of the mutated files with these numbers."""
    from tests.fuzz import corpus, mutations

    known = corpus.whole(folder)
    for one in known:
        path = folder / f"whole{one.suffix}"
        path.write_bytes(one.data)
        assert outcome(lambda one=one, path=path: one.read(path)) == "read", one.name
    gc.collect()
    before = peak()
    found: Counter[str] = Counter()
    for number in numbers:
        one, data = mutations.mutated(number, known)
        path = folder / f"file{one.suffix}"
        path.write_bytes(data)
        if mark:
            mark(number)
        result = watched(lambda one=one, path=path: one.read(path))
        if result.startswith("failed"):
            found[f"failed: {one.name}, number {number}: {result}"] += 1
        found[result.partition(":")[0] if result.startswith("failed") else result] += 1
        found[f"of {one.name.partition('.')[0]}"] += 1
    found["peak"] = peak() - before
    return found


def texts(numbers: range, mark: Any = None) -> Counter[str]:
    """Outcomes of the parsers' calls with these numbers."""
    from tests.fuzz import texts as short

    found: Counter[str] = Counter()
    # What is imported is not what is read.
    for command, ends in short.ENDS.items():
        short.command(short.BETWEEN.join([command, *ends]))
    short.command(short.BETWEEN.join(["verify", "--size", "no/such"]))
    before = peak()
    for number in numbers:
        parser, given = short.mutated(number)
        if mark:
            mark(number)
        result = watched(lambda parser=parser, given=given: parser(given))
        if result.startswith("failed"):
            found[f"failed: number {number}, {given[:200]!r}: {result}"] += 1
        found[result.partition(":")[0]] += 1
    found["peak"] = peak() - before
    return found


def watched(ask: Any) -> str:
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        return outcome(ask)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def child(kind: str, first: int, count: int, handle: int) -> None:
    """The part of a process: its outcomes as JSON; through the handle it says what it is at."""
    signal.signal(signal.SIGALRM, _hang)
    numbers = range(first, first + count)
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder

        def mark(number: int) -> None:
            os.pwrite(handle, f"{number:12d}".encode(), 0)

        makers = {"files": lambda: files(numbers, Path(folder), mark), "texts": lambda: texts(numbers, mark)}
        found = makers[kind]()
    print(json.dumps(found))


def part(kind: str, first: int, count: int) -> Counter[str]:
    """The outcomes of a process of its own; its death is one of them."""
    with tempfile.TemporaryFile() as marked:
        handle = marked.fileno()
        command = [sys.executable, "-m", "tests.fuzz", "--child", kind, str(first), str(count), str(handle)]
        environment = {**os.environ, "ASYNCSIM_READ_LIMIT": str(LIMIT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=environment,
            pass_fds=[handle],
            check=False,
            timeout=600 + 0.2 * count,
        )
        last = os.pread(handle, 12, 0).decode()
    if done.returncode != 0:
        return Counter({"failed": 1, f"failed: number {last}: status {done.returncode}: {done.stderr[-1500:]}": 1})
    return Counter(json.loads(done.stdout))


def report(kind: str, count: int, seed: int) -> dict[str, Any]:
    """The outcomes of so many, in processes of their own."""
    begin, total, peaks = time.monotonic(), Counter[str](), []
    size = PART if kind == "files" else 100 * PART
    for first in range(0, count, size):
        found = part(kind, seed * 10**9 + first, min(size, count - first))
        peaks.append(found.pop("peak", 0))
        total += found
    failures = sorted(key for key in total if key.startswith("failed: "))
    return {
        "kind": kind,
        "count": count,
        "seed": seed,
        "seconds": round(time.monotonic() - begin, 1),
        "outcomes": {key: number for key, number in sorted(total.items()) if not key.startswith(("failed: ", "of "))},
        "files of": {key[3:]: number for key, number in sorted(total.items()) if key.startswith("of ")},
        "peak MiB": max(peaks, default=0) >> 20,
        "limit MiB": LIMIT >> 20,
        "failures": failures[:20],
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        child(given.child[0], *map(int, given.child[1:]))
        return 0
    status = 0
    for kind, count in (("files", given.files), ("texts", given.texts)):
        found = report(kind, count, given.seed)
        print(json.dumps(found, indent=1, ensure_ascii=False), flush=True)
        status |= bool(found["failures"]) or found["peak MiB"] > found["limit MiB"]
    return status


if __name__ == "__main__":
    sys.exit(main())
