"""Whatever moment a run is killed at or a disk is full, what is left reads as whole rows or says how to go on."""

import os

import pytest

from experiments import _store
from tests.experiments._lab import parts, ran, run

EVERYWHERE = """
import os, sys
from pathlib import Path
from asyncsim.base.checks import InputError
from experiments import _store

class Killed(BaseException):
    pass

left, dead = None, False
def mortal(function, after):
    def called(*arguments, **more):
        global left, dead
        if dead:
            return None                     # a dead process cleans nothing up
        left -= 1
        if left == 0 and not after:
            dead = True
            raise Killed
        done = function(*arguments, **more)
        if left == 0:
            dead = True
            raise Killed
        return done
    return called

real = {name: getattr(os, name) for name in ("replace", "unlink", "fsync")}
def attempt(moment, after, resume):
    global left, dead
    left, dead = moment, False
    for name, function in real.items():
        setattr(os, name, mortal(function, after))
    try:
        _store.make("squares", resume=resume, out=where)
        return True
    except Killed:
        return False
    finally:
        for name, function in real.items():
            setattr(os, name, function)

def parts(folder):
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}

where = Path("whole")
_store.make("squares", out=where)
expected, rows = parts(where), _store.read("squares", out=where).to_json()
where, kills, read = Path("rows"), 0, 0
for after in (False, True):
    for resume in (False, True):
        for moment in range(1, 200):
            if attempt(moment, after, resume):
                break
            kills += 1
            try:
                found = _store.read("squares", out=where).to_json()
                read += 1
                assert found == rows
            except InputError as error:
                assert "python -m experiments squares --out rows" in str(error), error
            if moment % 3 == 0:
                _store.make("squares", resume=True, out=where)
                assert parts(where) == expected and _store.read("squares", out=where).to_json() == rows
                assert sorted(p.name for p in where.iterdir()) == ["manifest.json", *sorted(expected)]
            if moment % 3 == 1:  # damage of another kind on top
                next(where.glob("part-*"), where / "part-0000.parquet").write_bytes(b"half")
        else:
            raise SystemExit("never finished")
        _store.make("squares", resume=True, out=where)
        assert parts(where) == expected
print(kills, read)
"""


def test_a_kill_at_any_step_of_writing_leaves_what_can_be_continued(lab):
    status, out, err = run(lab, "-c", EVERYWHERE)
    assert status == 0, err
    kills, read = map(int, out.split())
    assert kills > 40 and read > 0


# A disk that is full or must not be written.


def test_a_full_disk_is_one_line_and_keeps_what_is_finished(lab):
    status, _, err = run(lab, "-m", "experiments", "squares", limit=40_000, BIG="1")
    line = err.splitlines()[-1]
    assert status == 2 and "Traceback" not in err and "File too large" in line
    assert "make room and go on with `python -m experiments squares --resume`" in line
    where = lab / "experiments" / "results" / "squares"
    assert sorted(path.name for path in where.iterdir()) == ["manifest.json", "part-0000.parquet", "part-0001.parquet"]
    assert run(lab, "-m", "experiments", "squares", "--resume")[0] == 0
    assert [line.split()[1] for line in ran(lab)] == ["0", "1", "2", "2", "3"]


@pytest.mark.parametrize("where", ["part", "manifest"])
def test_no_space_left_is_said_with_the_remedy(stored, tmp_path, monkeypatch, where):
    folder = tmp_path / "stability"
    real = os.replace

    def full(source, target):
        if where in str(target) and len(list(folder.glob("part-*"))) >= 1:
            raise OSError(28, "No space left on device")
        return real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ValueError, match="No space left on device") as refused:
        _store.make("stability", quick=True, out=folder)
    assert "make room and go on with" in refused.value.remedy and not list(folder.glob(".*"))
    monkeypatch.setattr(os, "replace", real)
    _store.make("stability", quick=True, resume=True, out=folder)
    assert parts(folder) == parts(stored)


def test_a_folder_that_must_not_be_written_is_one_line(lab):
    (lab / "file").write_text("in the way")
    status, _, err = run(lab, "-m", "experiments", "squares", "--out", "file/rows")
    assert status == 2 and "Traceback" not in err and "Not a directory" in err and "--out" in err.splitlines()[-1]
