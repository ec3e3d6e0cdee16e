"""The share of a fixed sample of mutants that the suite notices."""

import os
import subprocess
import sys

import pytest

from tests.mutation.patching import ROOT


@pytest.mark.long
def test_nine_of_ten_mutants_are_noticed():
    """The sample that `make mutants` takes; survivors and the interval of the share are in the failure's text."""
    arguments = ["--sample", "200", "--seed", "0", "--at-least", "0.9"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "."},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stdout
