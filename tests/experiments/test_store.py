"""The runner and its store, on an experiment of three settings in a folder of its own."""

import json
import signal
import time

import pytest

from experiments import _contract, _store
from tests.experiments import _lab
from tests.experiments._lab import start
from tests.refusals import refused

FAKE = '''"""Does a square grow?"""

import os, pathlib, time

SETTINGS = [{"x": 1, "seed": 5}, {"x": 2, "seed": 5}, {"x": 3, "seed": 5}]
QUICK = [{"x": 1, "seed": 5}]
COLUMNS = ["x", "square", "note"]

def run(setting):
    log = pathlib.Path(__file__).parent / "log"
    with log.open("a") as file:
        file.write(f"{setting['x']}\\n")
    if setting["x"] == 2 and os.environ.get("HANG"):
        time.sleep(60)
    return [{"x": setting["x"], "square": setting["x"] ** 2.0, "note": None if setting["x"] < 3 else "large"}]
'''

READ = """
import sys
from pathlib import Path
from asyncsim.base.checks import InputError
from experiments import _store
try:
    table = _store.read("squares", quick="--quick" in sys.argv)
except InputError as error:
    sys.exit(str(error))
print(table.to_json(orient="records"))
"""


@pytest.fixture
def lab(tmp_path):
    """A checkout with the real runner and one fake experiment."""
    (_lab.machinery(tmp_path) / "squares.py").write_text(FAKE)
    return tmp_path


def run(lab, *arguments):
    return _lab.run(lab, "-m", "experiments", *arguments)


def ran(lab):
    return [line.split()[-1] for line in _lab.ran(lab)]


def read(lab, *arguments):
    process = start(lab, "-c", READ, *arguments)
    out, err = process.communicate(timeout=60)
    return json.loads(out) if process.returncode == 0 else err.strip()


def results(lab):
    return lab / "experiments" / "results" / "squares"


def edit(lab, old, new):
    file = lab / "experiments" / "squares.py"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def hanging(lab, before=()):
    """A run in its second setting, which takes long; `before`: settings that ran earlier."""
    process = start(lab, "-m", "experiments", "squares", HANG="1")
    deadline = time.monotonic() + 60
    while ran(lab) != [*before, "1", "2"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ran(lab) == [*before, "1", "2"]
    return process


def test_rows_come_back_with_their_manifest(lab):
    assert run(lab, "squares")[0] == 0
    assert read(lab) == [
        {"x": 1, "square": 1.0, "note": None},
        {"x": 2, "square": 4.0, "note": None},
        {"x": 3, "square": 9.0, "note": "large"},
    ]
    record = json.loads((results(lab) / "manifest.json").read_text())
    assert record["seed"] == 5 and record["spec"]["settings"][2] == {"x": 3, "seed": 5}
    assert {"digest", "commit", "libraries", "cpu", "time", "python"} <= set(record)
    assert sorted(p.name for p in results(lab).iterdir()) == [
        "manifest.json",
        "part-0000.parquet",
        "part-0001.parquet",
        "part-0002.parquet",
    ]


def test_quick_rows_go_under_build_and_leave_results_alone(lab):
    assert run(lab, "squares", "--quick")[0] == 0
    assert ran(lab) == ["1"] and not results(lab).exists()
    assert len(read(lab, "--quick")) == 1
    assert "python -m experiments squares`" in read(lab)


def test_a_killed_run_resumes_where_it_was(lab):
    process = hanging(lab)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert ran(lab) == ["1", "2"]
    (results(lab) / ".part-0001.parquet.abandoned").write_text("half")
    assert "rows missing" in read(lab) and "`python -m experiments squares --resume`" in read(lab)
    assert run(lab, "squares", "--resume")[0] == 0
    assert ran(lab) == ["1", "2", "2", "3"]
    assert [row["square"] for row in read(lab)] == [1.0, 4.0, 9.0]
    assert not list(results(lab).glob(".part-*"))
    assert len(json.loads((results(lab) / "manifest.json").read_text())["resumed"]) == 1


def test_a_second_run_into_one_folder_is_refused_and_loses_nothing(lab):
    first = hanging(lab)
    code, _, err = run(lab, "squares")
    assert code == 2 and "written by one run at a time" in err and "choose another --out" in err
    assert first.poll() is None and ran(lab) == ["1", "2"]  # it runs on, and the other computed nothing
    first.kill()
    first.communicate()
    # The system frees a folder whose run was killed.
    assert run(lab, "squares", "--resume")[0] == 0 and len(read(lab)) == 3


def test_a_fresh_run_that_is_killed_leaves_the_rows_before(lab):
    assert run(lab, "squares")[0] == 0
    before = read(lab)
    first = json.loads((results(lab) / "manifest.json").read_text())
    process = hanging(lab, ["1", "2", "3"])
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert ran(lab) == ["1", "2", "3", "1", "2"] and read(lab) == before
    record = json.loads((results(lab) / "manifest.json").read_text())
    assert [part["run"] for part in record["parts"].values()] == [1, 0, 0] and record["time"] == first["time"]
    time.sleep(1.0)  # a manifest tells seconds
    assert run(lab, "squares")[0] == 0 and read(lab) == before
    record = json.loads((results(lab) / "manifest.json").read_text())
    assert [part["run"] for part in record["parts"].values()] == [0, 0, 0] and record["resumed"] == []
    assert record["time"] != first["time"]


def test_a_folder_with_rows_of_another_kind_or_files_of_others_loses_none_of_them(lab):
    assert run(lab, "squares", "--out", "kept")[0] == 0
    (lab / "kept" / "part-mine.parquet").write_text("mine")
    status, _, err = run(lab, "squares", "--quick", "--out", "kept")
    assert status == 2 and "choose another --out" in err and "Traceback" not in err
    assert len(list((lab / "kept").glob("part-000?.parquet"))) == 3
    assert run(lab, "squares", "--out", "kept")[0] == 0
    assert (lab / "kept" / "part-mine.parquet").read_text() == "mine"


def test_a_manifest_that_lacks_something_is_refused(lab):
    assert run(lab, "squares")[0] == 0
    path = results(lab) / "manifest.json"
    whole = json.loads(path.read_text())
    for broken in (
        {**whole, "parts": []},
        {**whole, "parts": {"part-0000.parquet": None}},
        {**whole, "format": 1},
        {name: value for name, value in whole.items() if name != "resumed"},
    ):
        path.write_text(json.dumps(broken))
        assert "manifest" in read(lab) and "remove it" in read(lab)
        status, _, err = run(lab, "squares", "--resume")
        assert status == 2 and "Traceback" not in err


def test_an_interrupt_says_how_to_go_on(lab):
    process = hanging(lab)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in err and "Traceback" not in err


def test_resume_keeps_parts_of_equal_settings_and_makes_the_others_again(lab):
    assert run(lab, "squares")[0] == 0
    edit(lab, '{"x": 3, "seed": 5}]', '{"x": 4, "seed": 5}, {"x": 1, "seed": 6}]')
    told = read(lab)
    assert "settings of the rows in squares" in told and "`python -m experiments squares`" in told
    assert run(lab, "squares", "--resume")[0] == 0
    assert ran(lab) == ["1", "2", "3", "4", "1"]
    assert [row["x"] for row in read(lab)] == [1, 2, 4, 1]
    record = json.loads((results(lab) / "manifest.json").read_text())
    assert [part["run"] for part in record["parts"].values()] == [0, 0, 1, 1]
    assert len(record["resumed"]) == 1 and record["spec"]["settings"][2]["x"] == 4


def test_a_fresh_run_replaces_rows_of_other_settings(lab):
    assert run(lab, "squares")[0] == 0
    edit(lab, '{"x": 2, "seed": 5}, {"x": 3, "seed": 5}]', '{"x": 4, "seed": 5}]')
    assert run(lab, "squares")[0] == 0
    assert [row["x"] for row in read(lab)] == [1, 4] and len(list(results(lab).glob("part-*"))) == 2


@pytest.mark.parametrize("returned", ["[]", "None", '[{"x": 1}]', '[{"x": 1, "square": 1, "note": "", "more": 0}]'])
def test_rows_without_the_declared_columns_are_refused_and_not_written(lab, returned):
    edit(lab, 'return [{"x"', f'return {returned} if True else [{{"x"')
    status, _, err = run(lab, "squares")
    assert status == 2 and "squares" in err and "Traceback" not in err
    assert not list(results(lab).glob("*part*"))


def test_a_folder_of_somebody_else_is_left_alone(lab):
    other = lab / "other"
    other.mkdir()
    (other / "manifest.json").write_text('{"name": "theirs"}')
    status, _, err = run(lab, "squares", "--out", "other")
    assert status == 2 and "choose another folder" in err
    assert (other / "manifest.json").read_text() == '{"name": "theirs"}' and ran(lab) == []


def test_out_takes_the_rows_elsewhere(lab):
    assert run(lab, "squares", "--quick", "--out", "elsewhere")[0] == 0
    assert (lab / "elsewhere" / "part-0000.parquet").exists() and not (lab / "build").exists()


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("SETTINGS = [", "SETTINGS = [1, ", "squares.SETTINGS"),
        ('{"x": 1, "seed": 5}, {"x": 2', '{"x": print, "seed": 5}, {"x": 2', "squares.SETTINGS"),
        ("QUICK = [", "QUICK = [] and [", "squares.QUICK"),
        ('COLUMNS = ["x"', 'COLUMNS = [1, "x"', "squares.COLUMNS"),
        ("def run(", "def ran(", "squares.run"),
    ],
)
def test_a_file_that_breaks_the_contract_is_refused_by_name(lab, old, new, field):
    edit(lab, old, new)
    status, _, err = run(lab, "squares")
    assert status == 2 and field in err and "Traceback" not in err


def test_names_are_listed_and_unknown_ones_refused(lab):
    status, out, _ = run(lab, "--list")
    assert status == 0 and out.split(maxsplit=1) == ["squares", "Does a square grow?\n"]
    status, _, err = run(lab, "sqares")
    assert status == 2 and "did you mean squares?" in err
    assert run(lab)[0] == 2


def test_values_that_the_experiment_does_not_know_are_refused_before_it_runs(lab):
    edit(lab, '"seed": 5}', '"seed": 5, "task": "easy", "law": "gamma:1:2", "arms": ["a", "b"]}')
    for wrong, bound in (("task=hard", "one of easy"), ('arms=["a","c"]', "one of a, b")):
        status, _, err = run(lab, "squares", "--quick", "--set", wrong, "--out", "own")
        assert status == 2 and bound in err and "Traceback" not in err and not (lab / "experiments" / "log").exists()
    status, _, err = run(lab, "squares", "--set", "law=gamma:1:3", "--set", "x=2", "--set", "seed=6", "--out", "own")
    assert status == 0 and "note: figures of squares may need all its values of x (1, 2, 3)" in err
    assert "of law" not in err and "of seed" not in err


def test_settings_are_no_options_and_figures_are_no_experiments(lab):
    for words, advice in (
        ("--seeds 7", "write --set seed=7"),
        ("--outt d", "mean --out?"),
        ("--nothing", "one of x, seed"),
    ):
        status, _, err = run(lab, "squares", *words.split())
        assert status == 2 and f"{words.split()[0]} is no option" in err and advice in err
    figures = lab / "paper_figures"
    figures.mkdir()
    (figures / "__init__.py").touch()
    (figures / "growth_speed.py").write_text('EXPERIMENTS = ("squares",)\n')
    status, _, err = run(lab, "growth_speed")
    assert status == 2 and "write python -m experiments squares, then python -m paper_figures growth_speed" in err


@pytest.mark.parametrize("name", sorted(_store.names()))
def test_every_experiment_keeps_the_contract(name):
    module = _store.experiment(name)
    for settings in (module.SETTINGS, module.QUICK):
        assert all(settings.count(setting) == 1 for setting in settings), "two settings are the same"
    assert _store.digest(module.QUICK, module.COLUMNS) != _store.digest(module.SETTINGS, module.COLUMNS)


def test_rows_are_carried_to_rewritten_code_that_computes_the_same_and_to_no_other(lab):
    """The committed rows count for the new version when quick rows agree; the planted code computes something else."""
    file = lab / "experiments" / "squares.py"
    before = file.read_text(encoding="utf-8")
    assert run(lab, "squares")[0] == run(lab, "squares", "--quick", "--out", "old/squares")[0] == 0
    wrong = before.replace('"square": ', '"square": 1 + ')
    for text, good in ((wrong, False), (before.replace("def run(setting):", "def run(setting, *rest):"), True)):
        assert text != before
        file.write_text(text, encoding="utf-8")
        assert run(lab, "squares", "--quick", "--out", f"new{good}/squares")[0] == 0
        status, _, said = run(lab, "squares", "--carry", "old", f"new{good}")
        assert (status == 0) == good, said
        assert good or "quick rows" in said
    # One line says it, and the rows are as they were made.
    (line,) = map(json.loads, (lab / "experiments" / "carried.jsonl").read_text(encoding="utf-8").splitlines())
    assert line["now"].keys() == line["before"].keys() == {"experiments.squares"} and line["now"] != line["before"]
    assert [row["square"] for row in read(lab)] == [1.0, 4.0, 9.0]
    assert run(lab, "squares", "--resume")[0] == 0 and len(ran(lab)) == 6


def test_rows_do_not_depend_on_the_number_of_workers(lab):
    def made(count):
        assert run(lab, "squares", "--workers", count, "--out", f"of{count}")[0] == 0
        return [path.read_bytes() for path in sorted((lab / f"of{count}").glob("part-*"))]

    assert made("1") == made("2") and sorted(ran(lab)) == ["1", "1", "2", "2", "3", "3"]


def test_a_worker_that_dies_is_one_line_and_the_rest_goes_on(lab):
    edit(lab, "time.sleep(60)", "os._exit(9)")
    process = start(lab, "-m", "experiments", "squares", "--workers", "2", HANG="1")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "a worker process ended with status 9" in err and "Traceback" not in err
    assert run(lab, "squares", "--resume", "--workers", "2")[0] == 0
    assert [row["x"] for row in read(lab)] == [1, 2, 3]


def test_other_values_go_into_a_folder_of_their_own(lab):
    status, _, err = run(lab, "squares", "--set", "seed=7")
    assert status == 2 and "used with --out" in err
    status, _, err = run(lab, "squares", "--set", "seeds=7", "--out", "other")
    assert status == 2 and "one of seed, x" in err and not (lab / "other").exists()
    assert run(lab, "squares", "--set", "x=5", "--out", "other")[0] == 0
    assert ran(lab) == ["5"] * 3 and not results(lab).exists()
    record = json.loads((lab / "other" / "manifest.json").read_text())
    assert {setting["x"] for setting in record["spec"]["settings"]} == {5}


@pytest.mark.parametrize(
    ("name", "word", "remedy"),
    [
        ("areal", "staleness", "write --set eta=3"),
        ("pipeline_rl", "lag", "write --set steps=3"),
        ("vcpo_ess", "staleness", "write --set 'stalenesses=\\[3\\]'"),
        ("areal", "n_seeds", "write --set realizations=3"),
    ],
)
def test_another_word_for_a_setting_is_answered_with_its_own(name, word, remedy):
    error = refused(remedy, _contract.changed, _store.experiment(name), False, {word: 3}, name)
    assert any("  part: " in note or "  kind: " in note for note in error.__notes__)
    nested = {"stalenesses": [(1, 8)]}
    refused("write --set 'stalenesses=\\[1, 8\\]'", _contract.changed, _store.experiment("vcpo_ess"), False, nested, "")
