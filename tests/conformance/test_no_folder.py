"""A check leaves nothing where its user stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from asyncsim.conformance import check_admission
from tests.conformance import controllers
from tests.conformance.controllers import VersionCounter

USE = """
from asyncsim.conformance import check_admission
from mine import VersionCounter

assert check_admission(lambda: VersionCounter(4, 1), batch_size=4, max_staleness=1, examples=5).passed
"""


def test_no_folder_of_hypothesis_is_made(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(Path(controllers.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "use.py").write_text(USE)
    command = [sys.executable, "-B", "use.py"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    assert {path.name for path in tmp_path.iterdir()} == {"mine.py", "use.py"}


def test_a_home_that_was_chosen_stays_chosen(tmp_path: Path) -> None:
    from hypothesis import configuration

    before = vars(configuration)["__hypothesis_home_directory"]
    configuration.set_hypothesis_home_dir(tmp_path)
    try:
        check_admission(lambda: VersionCounter(4, 1), batch_size=4, max_staleness=1, examples=5)
        assert vars(configuration)["__hypothesis_home_directory"] == tmp_path and not list(tmp_path.iterdir())
    finally:
        configuration.set_hypothesis_home_dir(before)
