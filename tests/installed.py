"""What a wheel brings, tried where it is installed: `python -I tests/installed.py WHEEL`, far from the checkout.

The command line runs, and every file of the package that the checkout has is in the wheel.
"""

import importlib.metadata
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (
    "--version",
    "list",
    "list papers",
    "run --method gspo --staleness 2 --set sgd.lr=0.2 --updates 4 --replicates 2 --plot run.svg --json run.json",
    "verify ess/limit --report report.html",
)


def main(wheel: str) -> int:
    """Exit status 1 with what is missing."""
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    listed = subprocess.run(["git", "ls-files", "asyncsim"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    missing = sorted(set(listed) - names)
    if missing or not listed:
        print(f"not in {wheel}: {', '.join(missing) or 'nothing, since this is no checkout'}")
        return 1
    import asyncsim

    version = importlib.metadata.version("asyncsim")
    if ROOT / "asyncsim" in Path(asyncsim.__file__).parents or f"-{version}-" not in wheel:
        print(f"{asyncsim.__file__} {version} is not of {wheel}")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        for words in COMMANDS:
            command = [str(Path(sys.executable).parent / "asyncsim"), *words.split()]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode != 0:
                print(f"asyncsim {words}: status {done.returncode}\n{done.stdout}{done.stderr}")
                return 1
        written = sorted(path.name for path in Path(folder).iterdir())
    if written != ["report.html", "run.json", "run.svg"]:
        print(f"written: {written}")
        return 1
    print(f"asyncsim {version}: {len(names)} files, {len(COMMANDS)} commands")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
