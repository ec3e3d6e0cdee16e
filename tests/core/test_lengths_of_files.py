"""Lengths as users have them: a column of a CSV or Parquet file."""

from time import perf_counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet

import asyncsim as sim
from asyncsim.base import laws, rng
from asyncsim.base.checks import InputError
from tests.cli.test_cli import call
from tests.refusals import refused

LENGTHS = [12.0, 250.0, 31.0, 7.0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"prompt_length": [1, 2, 3, 4], "response_length": LENGTHS, "name": list("abcd")})
    table.to_csv(tmp_path / "several.csv", index=False)
    table.to_parquet(tmp_path / "several.parquet")
    table[["response_length", "name"]].to_csv(tmp_path / "one.csv", index=False)
    pd.DataFrame({"response_length": [3.0, np.nan]}).to_csv(tmp_path / "holes.csv", index=False)
    pd.DataFrame({"response_length": [3.0, 0.0]}).to_csv(tmp_path / "zero.csv", index=False)
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and no more")
    delays = {
        "reward_ms": [1200, 300, 10],
        "below": [1.0, -2.0, 3.0],
        "text": ["1", "x", "2"],
        "endless": [1, 2, np.inf],
    }
    pd.DataFrame(delays | {"flag": [True, False, True]}).to_parquet(tmp_path / "delays.parquet")
    pd.DataFrame({"late": [0, 2, 2, 3], "part": [0.5, 1, 2, 3], "early": [-1, 0, 1, 2]}).to_csv(
        "stale.csv", index=False
    )
    (tmp_path / "empty.csv").write_text("n\n")
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
        ("@several.csv", "write several.csv:response_length"),
        ("@several.csv:name", "length column"),
        ("@several.csv:respons_length", "length column"),
        ("@damaged.parquet", "whole CSV or Parquet file"),
        ("@holes.csv", "values"),
        ("@zero.csv", "row 2 = 0.0: must be a positive"),
        ("@holes.csv", "row 2 = nan"),
        ("@delays.parquet:below", "row 2 = -2.0"),
        ("@delays.parquet:endless", "row 3 = inf"),
        ("@delays.parquet:text", "one of reward_ms, below, endless"),
        ("@delays.parquet:flag", "one of reward_ms, below, endless"),
        ("@empty.csv:n", "length column"),
        ("@delays.parquet:reward_ms*0", "length factor = 0.0"),
        ("@delays.parquet:reward_ms*-0.001", "length factor = -0.001"),
        ("@delays.parquet:reward_ms*nan", "length factor = nan"),
        ("@delays.parquet:reward_ms*inf", "length factor = inf"),
        ("@delays.parquet:reward_ms*", "length factor = ''"),
        ("@delays.parquet:reward_ms*ms", "length factor = 'ms'"),
        ("@delays.parquet:reward_ms*1e306", "row 1 = inf"),
        ("@delays.parquet:reward_ms*1e-330", "length factor = 0.0"),
        ("@absent.csv:ms*0.001", "existing file"),
        ("@.", "folder or a device"),
        ("@", "existing file"),
    ],
)
def test_what_is_no_column_of_lengths_is_refused_in_one_line(folder, text, message):
    caught = refused(message, laws.as_law, "length", text)
    assert "\n" not in str(caught)


@pytest.mark.parametrize("name", ["reward", "environment", "train_time", "length", "difficulty"])
def test_every_law_of_a_system_takes_a_column_with_a_factor(folder, name):
    text, seconds = "@delays.parquet:reward_ms*0.001", laws.empirical([1.2, 0.3, 0.01])
    system = sim.systems.areal(1, 2, length=1.0, load=1.0, model={name: text})
    assert getattr(system, name) == seconds
    assert getattr(system.replace(**{name: text}), name) == seconds
    # Milliseconds taken for seconds, and the factor inverted.
    assert seconds not in (laws.as_law(name, text.partition("*")[0]), laws.as_law(name, text.replace("0.001", "1000")))


def test_seconds_that_are_no_law_take_no_file(folder):
    for name in ("sync_time", "restart_delay"):
        with pytest.raises(InputError, match=rf"^{name} = '@delays.parquet:reward_ms': must be a finite number"):
            sim.systems.areal(1, 2, length=1.0, load=1.0, model={name: "@delays.parquet:reward_ms"})


@given(
    numbers=st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=20),
    factor=st.sampled_from([1e-3, 0.5, 2.0, 1e-9, 3600.0]),
    kind=st.sampled_from(["csv", "parquet"]),
)
def test_a_factor_multiplies_every_number(tmp_path_factory, numbers, factor, kind):
    path = tmp_path_factory.getbasetemp() / f"drawn.{kind}"
    table = pa.table({"ms": numbers, "other*2": numbers})
    (csv.write_csv if kind == "csv" else parquet.write_table)(table, str(path))
    read = laws.as_law("reward", f"@{path}:ms*{factor!r}")
    assert read.parameters == pytest.approx([x * factor for x in numbers], rel=1e-12)
    assert laws.Law.parse(str(read)) == read


def test_a_file_whose_name_has_a_star_or_a_colon_is_found(folder):
    for name in ("a*2.csv", "b:c.csv"):
        pd.DataFrame({"n": [1.0, 2.0]}).to_csv(folder / name, index=False)
        assert laws.as_law("length", f"@{name}") == laws.empirical([1.0, 2.0])


def test_staleness_of_a_file_is_a_law_of_integers(folder):
    assert laws.as_probabilities("law", "@stale.csv:late").tolist() == [0.25, 0.0, 0.5, 0.25]
    drawn = sim.schedules.random(law="@stale.csv:late", per="trajectory").schedule(400, 1, 8, 1, seed=0)
    stale = drawn.staleness()[:, 10:]
    assert set(np.unique(stale)) == {0.0, 2.0, 3.0} and stale.mean() == pytest.approx(1.75, abs=0.1)
    result = call("run", "--schedule", "random", "--set", "schedule.law=@stale.csv:late", "--updates", 8)
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@stale.csv:part", "row 1 = 0.5: must be an integer"),
        ("@stale.csv:early", "row 1 = -1.0: must be an integer"),
        ("@stale.csv:late*1e9", "row 2 = 2000000000.0: must be an integer"),
        ("@stale.csv", "law column"),
        ("@holes.csv", "row 2 = nan"),
        ("@absent.csv", "existing file"),
    ],
)
def test_what_is_no_column_of_versions_is_refused_in_one_line(folder, text, message):
    caught = refused(message, sim.schedules.random, law=text)
    assert "\n" not in str(caught)


def test_words_of_run_and_compare_take_settings_of_the_model(folder):
    areal = ["system=areal", "system.max_head_offpolicyness=1", "system.consumer_batch_size=2"]
    words = [*areal, "system.length=@several.csv:response_length", "system.load=1", "model.rate=30"]
    arms = ["model.reward=@delays.parquet:reward_ms*0.001", "model.reward=none"]
    shared = [word for each in (*words, "updates=8") for word in ("--set", each)]
    result = call("compare", *arms, *shared, "--smallest", 0.5, "--tune", "none", "--max-replicates", 64)
    assert result.exit_code == 0, result.stderr
    options = [word for each in words[1:] for word in ("--set", each)]
    result = call("run", "--system", "areal", *options, "--dry-run")
    assert result.exit_code == 0 and "rates=30" in result.output
    for parts in (("--staleness", 1), ("--schedule", "random", "--set", "schedule.law=uniform:0:1")):
        result = call("run", *parts, "--set", "model.rate=30")
        assert result.exit_code == 2 and "add --system NAME" in result.stderr and result.stderr.count("\n") == 1
    result = call("run", "--system", "areal", *options, "--set", "model.rat=30")
    assert result.exit_code == 2 and "did you mean rate?" in result.stderr and result.stderr.count("\n") == 1


def test_what_is_too_long_is_refused_before_it_is_read(tmp_path, monkeypatch):
    many = tmp_path / "many.parquet"
    parquet.write_table(pa.table({"n": np.full(laws.MANY + 1, 7), "text": ["x"] * (laws.MANY + 1)}), many)
    refused(f"n = '{laws.MANY + 1} values': must be at most {laws.MANY}", laws.as_law, "length", f"@{many}:n")
    refused(f"at most {laws.MANY}", lambda: laws.empirical(np.ones(laws.MANY + 1)))
    # A column of one number is packed a thousandfold: what is counted is what it becomes.
    assert many.stat().st_size < laws.MANY / 2
    monkeypatch.setenv("ASYNCSIM_READ_LIMIT", "8M")
    refused("READ_LIMIT", laws.as_law, "length", f"@{many}:n")


def test_a_compressed_file_is_not_unpacked(folder):
    with pa.CompressedOutputStream("one.csv.gz", "gzip") as file:
        file.write(b"n\n" + b"1\n" * 1000)
    refused(r"one\.csv\.gz", laws.as_law, "length", "@one.csv.gz:n")


def test_a_law_of_a_million_numbers_draws_as_quickly_as_a_short_one():
    """Draws take none of the law's length: each block made an array of all numbers before, 0.1 s a block of two."""
    law = laws.empirical(np.linspace(1.0, 2.0, laws.MANY))
    stream = rng.Stream(0, "work")
    law.sample(stream, 0, np.arange(2))
    begin = perf_counter()
    for block in range(200):
        law.sample(stream, 0, np.arange(2), block)
    assert perf_counter() - begin < 5.0
