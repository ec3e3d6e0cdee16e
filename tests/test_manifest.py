"""The manifest is complete, private and never fails."""

import getpass
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asyncsim.base import manifest


@pytest.fixture(autouse=True)
def fresh():
    """The commit is read once for each process; here every test reads it anew."""
    manifest._checkout.cache_clear()
    yield
    manifest._checkout.cache_clear()


def test_names_what_ran_and_is_json():
    record = manifest.manifest({"steps": np.array([1.0, 2.0]), "cap": np.inf}, seed=7)
    assert json.loads(json.dumps(record)) == record
    assert record["spec"] == {"steps": [1.0, 2.0], "cap": None} and record["seed"] == 7
    assert record["python"] == sys.version.split()[0]
    assert record["libraries"]["numpy"] == np.__version__
    assert record["time"].endswith("+00:00") and record["cores"] >= 1 and record["cpu"]


def test_names_no_person_and_no_machine():
    text = json.dumps(manifest.manifest())
    import socket

    for secret in (getpass.getuser(), socket.gethostname(), str(Path.home()), str(Path.cwd()), sys.prefix):
        # Short names ("a") occur in any text; they identify nobody.
        if len(secret) > 4:
            assert secret not in text


@pytest.mark.parametrize(
    "failure", [FileNotFoundError(), subprocess.CalledProcessError(128, "git"), subprocess.TimeoutExpired("git", 10)]
)
def test_works_without_git(monkeypatch, failure):
    def broken(*arguments, **options):
        raise failure

    monkeypatch.setattr(subprocess, "run", broken)
    record = manifest.manifest()
    assert record["commit"] is None and record["dirty"] is None


def test_asks_the_checkout_of_this_package():
    """A manifest that looked in a folder of the package found no commit anywhere."""
    root = Path(manifest.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        pytest.skip("not a checkout")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert manifest.manifest()["commit"] == head.strip()


def test_reports_the_commit_and_whether_it_is_changed(tmp_path):
    read = manifest._checkout.__wrapped__
    package = tmp_path / "asyncsim"
    package.mkdir()
    assert read(package) == (None, None)
    file = package / "a.py"
    file.write_text("x = 1\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    commit, dirty = read(package)
    assert len(commit) == 40 and dirty is False
    file.write_text("x = 2\n")
    assert read(package) == (commit, True)


def test_loads_no_library():
    code = (
        "import sys; from asyncsim.base.manifest import manifest; manifest(); "
        "print(*{'torch', 'numba', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
