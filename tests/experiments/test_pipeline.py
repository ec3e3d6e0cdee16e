"""Rows that can be trusted: what is not as it was made is refused by name; papers that ask several questions."""

import json
import os
import shutil
import subprocess
from contextlib import suppress

import pytest

from experiments import _contract, _store
from tests.experiments._lab import PAPER, POWERS, ROOT, parts, ran, run


def altered(where):
    part = where / "part-0001.parquet"
    part.write_bytes((where / "part-0000.parquet").read_bytes())


def extra(where):
    shutil.copy(where / "part-0000.parquet", where / "part-0099.parquet")


def unlisted(where):
    record = json.loads((where / "manifest.json").read_text())
    del record["parts"]["part-0001.parquet"]
    (where / "manifest.json").write_text(json.dumps(record))


def edited(key, value):
    def damage(where):
        path = where / "manifest.json"
        record = json.loads(path.read_text())
        record[key] = {**record[key], **value} if isinstance(value, dict) else value
        path.write_text(json.dumps(record))

    return damage


STALE = {"setting": "", "source": "", "sha256": "", "run": 0}
DAMAGES = {
    "missing": (lambda where: (where / "part-0002.parquet").unlink(), "rows missing", " --resume"),
    "altered": (altered, "rows altered", " --resume"),
    "extra": (extra, "files among the rows", ""),
    "unlisted": (unlisted, "rows missing", " --resume"),
    "other settings": (edited("digest", "0" * 16), "settings of the rows", ""),
    "other code": (edited("source", "0" * 16), "code of the rows", ""),
    "before versions": (edited("source", None), "code of the rows", ""),
    "one part of other code": (edited("parts", {"part-0000.parquet": STALE}), "of the current", " --resume"),
    "nothing": (lambda where: shutil.rmtree(where), "made before they are read", ""),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_rows_that_are_not_as_made_are_refused_with_the_command_that_mends_them(stored, tmp_path, damage):
    where = tmp_path / "stability"
    shutil.copytree(stored, where)
    change, told, how = DAMAGES[damage]
    change(where)
    with pytest.raises(ValueError, match=told) as refused:
        _store.read("stability", True, where)
    assert f"`python -m experiments stability --quick --out {where}{how}`" in refused.value.remedy
    assert "\n" not in str(refused.value)
    # What the message says to run does mend it.
    _store.make("stability", True, bool(how), where)
    assert parts(where) == parts(stored) and len(_store.read("stability", True, where)) > 0


def test_resume_keeps_what_is_right_and_makes_again_what_is_not(lab):
    assert run(lab, "-m", "experiments", "squares")[0] == 0
    where = lab / "experiments" / "results" / "squares"
    whole = parts(where)
    (where / "part-0001.parquet").write_bytes(whole["part-0001.parquet"][:40])
    assert run(lab, "-m", "experiments", "squares", "--resume")[0] == 0
    assert ran(lab)[4:] == ["squares 1"] and parts(where) == whole
    # Code that the experiment imports makes all rows another version's; what does not compute makes none.
    helper = lab / "experiments" / "_powers.py"
    helper.write_text(POWERS.replace("Powers.", "Powers, as floats."))
    assert run(lab, "-m", "experiments", "squares", "--resume")[0] == 0 and len(ran(lab)) == 5
    helper.write_text(POWERS.replace("x ** float(n)", "1.0 * x ** n"))
    status, _, err = run(lab, "-m", "experiments", "squares", "--resume")
    assert status == 2 and "of the current code (4 parts are not)" in err and parts(where) == whole
    assert run(lab, "-m", "experiments", "squares")[0] == 0 and len(ran(lab)) == 9
    (aside,) = where.glob("before-*")
    assert parts(aside) == whole and json.loads((aside / "manifest.json").read_text())["parts"].keys() == whole.keys()


# The code of the package.


def rewrite(where, change):
    record = json.loads((where / "manifest.json").read_text())
    for entry in record["parts"].values():
        change(entry)
    (where / "manifest.json").write_text(json.dumps(record))


@pytest.mark.parametrize("known", [True, False])
def test_parts_of_other_code_of_the_package_are_never_mixed_unasked(stored, tmp_path, monkeypatch, known, capsys):
    where = tmp_path / "stability"
    shutil.copytree(stored, where)
    entries = json.loads((where / "manifest.json").read_text())
    assert len({part["product"] for part in entries["parts"].values()}) == 1
    assert "asyncsim.running.loop:" in entries["modules"] and "asyncsim.plotting" not in entries["modules"]
    assert _store.plan("stability", True, True, where).left == []
    if known:
        code = _contract.product("stability") | {"asyncsim.running.loop": "0" * 16}
        monkeypatch.setattr(_contract, "product", lambda name: code)
    else:  # as rows from before it was recorded
        rewrite(where, lambda entry: entry.pop("product"))
    # Whole rows are read and drawn, and there is nothing to resume.
    assert len(_store.read("stability", True, where)) > 0 and _store.plan("stability", True, True, where).left == []
    (where / "part-0001.parquet").unlink()
    with pytest.raises(
        ValueError, match=r"of the current code of asyncsim \(\d parts are not, or do not say it\)"
    ) as told:
        _store.plan("stability", True, True, where)
    assert "--other-code" in told.value.remedy and "moves the old ones aside" in told.value.remedy
    assert _store.plan("stability", True, True, where, other_code=True).left == [1]
    # A fresh run takes none of them, and loses none.
    planned = _store.plan("stability", True, False, where)
    assert planned.kept == {} and len(planned.left) == len(parts(stored))
    _store._begin(planned, _store.version("stability"))
    (aside,) = where.glob("before-*")
    assert parts(aside) == {name: data for name, data in parts(stored).items() if name != "part-0001.parquet"}
    assert parts(where) == {} and "were moved to" in capsys.readouterr().err


def test_a_run_that_is_killed_while_it_moves_rows_loses_none(stored, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    real, whole = os.replace, parts(stored)
    for moment in range(1, len(whole) + 3):
        where = tmp_path / str(moment)
        shutil.copytree(stored, where)
        rewrite(where, lambda entry: entry.update(source="0" * 16))
        planned, left = _store.plan("stability", True, False, where), [moment]

        def mortal(*arguments, left=left, **more):
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return real(*arguments, **more)

        with monkeypatch.context() as patch, suppress(Killed):
            patch.setattr(os, "replace", mortal)
            _store._begin(planned, "1" * 16)
        found = parts(where) | {name: data for each in where.glob("before-*") for name, data in parts(each).items()}
        assert found == whole
        _store._begin(_store.plan("stability", True, False, where), "1" * 16)
        (aside,) = where.glob("before-*")
        assert parts(aside) == whole and (aside / "manifest.json").exists()


# Papers.


def test_a_paper_runs_all_its_questions_and_in_their_folders(lab):
    status, out, err = run(lab, "-m", "experiments", "growth", "--out", "rows")
    assert status == 0 and out.split() == ["rows", "in", "rows/squares", "rows", "in", "rows/cubes"]
    assert "error" not in err
    assert len(parts(lab / "rows" / "squares")) == 4 and len(parts(lab / "rows" / "cubes")) == 2
    assert run(lab, "-m", "experiments", "growth", "cubes", "--out", "rows", "--resume")[0] == 0
    assert len(ran(lab)) == 6


def test_all_runs_every_experiment_once(lab):
    assert run(lab, "-m", "experiments", "--all", "--quick")[0] == 0
    assert sorted(ran(lab)) == ["cubes 0", "squares 0"]


def test_papers_are_listed_with_their_questions(lab):
    _, out, _ = run(lab, "-m", "experiments", "--list")
    shown = [line.split(maxsplit=1) for line in out.splitlines() if line]
    assert shown[:2] == [["cubes", "Does a cubes grow?"], ["squares", "Does a squares grow?"]]
    assert shown[2:] == [["growth", "Do powers grow?"], shown[1], shown[0]]


@pytest.mark.parametrize("asked", ['["squares", "quads"]', "[]", '["squares", "squares"]', 'list("ab")'])
def test_a_paper_that_asks_for_what_is_not_there_is_refused_before_anything_runs(lab, asked):
    (lab / "experiments" / "growth.py").write_text(PAPER.replace('["squares", "cubes"]', asked))
    status, _, err = run(lab, "-m", "experiments", "growth")
    assert status == 2 and "growth.QUESTIONS" in err and "Traceback" not in err and ran(lab) == []
    assert "quads" not in asked or ("'quads'" in err and "experiments/quads.py" in err)


def test_a_paper_is_no_experiment(lab):
    status, _, err = run(lab, "-c", "from experiments import _store; _store.read('growth')")
    assert status == 1 and "choose one of its questions" in err


@pytest.mark.parametrize("paper", sorted(_contract.papers()))
def test_every_paper_asks_for_experiments_that_exist(paper):
    assert _contract.questions(paper)


def source_at(commit):
    """Reads a file of the experiments as it stands in a commit."""

    def read(stem):
        words = ["git", "show", f"{commit}:experiments/{stem}.py"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else None

    return read


@pytest.mark.rows
@pytest.mark.committed(digits=False)
@pytest.mark.parametrize("name", sorted(_store.names()))
def test_committed_rows_say_which_code_made_them(name):
    record = json.loads((_store.folder(name, False) / "manifest.json").read_text())
    assert _store._same_code(name, record, _store.version(name)) and record["dirty"] is False
    if "source_from" in record:
        return  # rows from before versions were recorded, which say how their version is known
    if source_at(record["commit"])("_store") is None:
        pytest.skip("no history here")
    # Rows may have been carried from one version of the code to the next, each time with what was compared.
    chain = [(step["from"], step["to"]) for step in record.get("carried", [])]
    made = [*(first for first, _ in chain), record["source"]]
    assert made[1:] == [last for _, last in chain]
    # A file that git does not track leaves a checkout clean, so the code of every run must be in its commit.
    for number, each in enumerate([record, *record.get("resumed", [])]):
        own = {part["source"] for part in record["parts"].values() if part["run"] == number}
        if source_at(each["commit"])("_store") is None:
            continue  # a commit that was joined with others when it was merged
        known = _contract.HERE, name, ("run", "COLUMNS"), _contract.MACHINERY, source_at(each["commit"])
        assert own <= ({_contract.version(_contract.own_code(*known))} if not chain else {record["source"]})
        assert not chain or number > 0 or _contract.version(_contract.own_code(*known)) == made[0]
    assert own <= {record["source"]}
