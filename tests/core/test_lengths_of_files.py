"""Lengths as users have them: a column of a CSV or Parquet file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asyncsim as sim
from asyncsim.base import laws
from asyncsim.base.checks import InputError
from tests.cli.test_cli import call

LENGTHS = [12.0, 250.0, 31.0, 7.0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    table = pd.DataFrame({"response_length": LENGTHS, "prompt_length": [1, 2, 3, 4], "name": list("abcd")})
    table.to_csv(tmp_path / "several.csv", index=False)
    table.to_parquet(tmp_path / "several.parquet")
    table[["response_length", "name"]].to_csv(tmp_path / "one.csv", index=False)
    pd.DataFrame({"response_length": [3.0, np.nan]}).to_csv(tmp_path / "holes.csv", index=False)
    pd.DataFrame({"response_length": [3.0, 0.0]}).to_csv(tmp_path / "zero.csv", index=False)
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and no more")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", ["@one.csv", "@several.csv:response_length", "@several.parquet:response_length"])
def test_a_column_is_a_law(folder, text):
    assert laws.as_law("length", text) == laws.empirical(LENGTHS)


def test_systems_take_files_on_the_command_line_and_in_python(folder):
    knobs = {"max_head_offpolicyness": 2, "consumer_batch_size": 2, "max_concurrent_rollouts": 8, "load": 1.5}
    by_file = sim.systems.areal(**knobs, length="@one.csv")
    assert by_file.length == laws.empirical(LENGTHS)
    words = [word for name, value in knobs.items() for word in ("--set", f"{name}={value}")]
    result = call("timeline", "areal", *words, "--set", "length=@several.csv:response_length", "--updates", "5")
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@absent.csv", "existing file"),
        ("@several.csv", "response_length, prompt_length"),
        ("@several.csv:name", "length column"),
        ("@several.csv:respons_length", "length column"),
        ("@damaged.parquet", "whole CSV or Parquet file"),
        ("@holes.csv", "values"),
        ("@zero.csv", "positive"),
    ],
)
def test_what_is_no_column_of_lengths_is_refused_in_one_line(folder, text, message):
    with pytest.raises(InputError, match=message) as caught:
        laws.as_law("length", text)
    assert "\n" not in str(caught.value)
