"""The runner pairs, alternates and reports; no speed is tested here."""

import json
from pathlib import Path

import pytest

from asyncsim.base.checks import InputError
from benchmarks import __main__ as runner
from benchmarks._record import Benchmark


def side(log, letter, rates):
    """A measure that notes its turn and returns the next of the given rates."""
    remaining = iter(rates)

    def measure():
        log.append(letter)
        return next(remaining)

    return measure


def test_rounds_are_paired_and_alternate():
    log = []
    ours, theirs = side(log, "o", [99.0, 2.0, 30.0, 8.0]), side(log, "t", [99.0, 1.0, 10.0, 1.0])
    row = runner.compare("x", (ours, theirs, "events/s"), rounds=3)
    assert "".join(log) == "ot" + "ot" + "to" + "ot"
    # Medians of the sides, but the ratio is the median of ratios within rounds: 2, 3, 8 and not 8 / 1.
    assert row == {
        "name": "x", "value": 8.0, "unit": "events/s", "against": 1.0, "ratio": 3.0, "low": 2.0, "high": 8.0,
        "values": [2.0, 30.0], "others": [1.0, 10.0],
    }  # fmt: skip


def test_a_rate_that_is_none_is_refused():
    with pytest.raises(InputError, match="rates of x"):
        runner.compare("x", (lambda: 1.0, lambda: 0.0, "1/s"), rounds=1)


def test_the_file_has_one_row_for_each_benchmark(tmp_path, monkeypatch, capsys):
    known = {"a": (lambda: 2.0, lambda: 1.0, "1/s"), "b": (lambda: 1.0, lambda: 1.0, "1/s")}
    monkeypatch.setattr(runner, "collect", lambda: known)
    assert runner.main(["--rounds", "2", "--out", str(tmp_path / "new" / "bench.json")]) == 0
    found = json.loads((tmp_path / "new" / "bench.json").read_text())
    assert [(row["name"], row["ratio"]) for row in found["benchmarks"]] == [("a", 2.0), ("b", 1.0)]
    assert "commit" in found["manifest"] and "a " in capsys.readouterr().out
    assert runner.main(["b", "--rounds", "1", "--out", str(tmp_path / "one.json")]) == 0
    assert [row["name"] for row in json.loads((tmp_path / "one.json").read_text())["benchmarks"]] == ["b"]


@pytest.mark.parametrize("arguments", [["c"], ["--rounds", "0"]])
def test_bad_arguments_leave_no_file(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "collect", lambda: {"a": (lambda: 1.0, lambda: 1.0, "1/s")})
    assert runner.main([*arguments, "--out", str(tmp_path / "bench.json")]) == 2
    assert "error:" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_peer_that_is_missing_is_named_and_left_out(tmp_path, monkeypatch, capsys):
    missing = Benchmark(lambda: 1.0, lambda: 1.0, "1/s", needs="no_such_simulator")
    monkeypatch.setattr(runner, "collect", lambda: {"a": missing, "b": missing._replace(needs="json")})
    assert runner.main(["--rounds", "1", "--out", str(tmp_path / "bench.json")]) == 0
    assert [row["name"] for row in json.loads((tmp_path / "bench.json").read_text())["benchmarks"]] == ["b"]
    assert "no_such_simulator is not installed" in capsys.readouterr().out


def test_slow_work_has_fewer_rounds(monkeypatch):
    asked = []
    monkeypatch.setattr(runner, "compare", lambda name, benchmark, rounds: asked.append(rounds) or {
        "value": 1.0, "unit": "", "against": 1.0, "ratio": 1.0, "low": 1.0, "high": 1.0})  # fmt: skip
    slow = Benchmark(lambda: 1.0, lambda: 1.0, "1/s", rounds=2)
    runner.compare_all(["a"], {"a": slow}, 7)
    runner.compare_all(["a"], {"a": slow}, 1)
    runner.compare_all(["a"], {"a": slow._replace(rounds=None)}, 7)
    assert asked == [2, 1, 7]


def test_every_file_declares_its_benchmarks():
    for path in sorted(Path(runner.HERE).glob("[!_]*.py")):
        assert "BENCHMARKS" in path.read_text(encoding="utf-8"), path.name
    for benchmark in runner.collect().values():
        assert callable(benchmark.ours) and callable(benchmark.theirs) and benchmark.unit and benchmark.what
