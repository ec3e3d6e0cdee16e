"""Damaged files and texts are read or refused by name: a share of `python -m tests.fuzz`, which does them all."""

import signal

import pytest

from asyncsim.base.checks import RunWarning
from tests.fuzz import __main__ as fuzz

FILES, TEXTS = 20_000, 1_000_000


@pytest.fixture
def alarm():
    before = signal.signal(signal.SIGALRM, fuzz._hang)
    yield
    signal.signal(signal.SIGALRM, before)


def failures(found):
    return [key for key in found if key.startswith("failed")]


def test_damaged_files_are_read_or_refused_by_name(tmp_path, monkeypatch, alarm):
    monkeypatch.setenv("ASYNCSIM_READ_LIMIT", str(fuzz.LIMIT))
    found = fuzz.files(range(400), tmp_path)
    assert not failures(found)
    assert found["refused: damaged"] > 150 and found["refused: by a rule"] > 70 and found["read"] > 15


def test_short_texts_are_read_or_refused_by_name(alarm, recwarn):
    found = fuzz.texts(range(10_000))
    # What a text may mean is told (`RunWarning`); nothing is warned of by libraries.
    assert [str(each.message) for each in recwarn if each.category is not RunWarning] == []
    assert not failures(found)
    assert found["refused"] > 3000 and found["read"] > 2000


def test_a_failure_is_seen(monkeypatch, tmp_path, alarm):
    """A traceback, two lines and a hang; and the death of a process."""

    def spin():
        while True:
            pass

    def two_lines():
        error = fuzz.InputError("field", 1, "bound", "remedy")
        error.args = ("one\ntwo",)
        raise error

    monkeypatch.setattr(fuzz, "PATIENCE", 0.2)
    for ask, word in ((lambda: 1 / 0, "ZeroDivisionError"), (two_lines, "two lines"), (spin, "Hang")):
        found = fuzz.watched(ask)
        assert found.startswith("failed") and word in found
    died = fuzz.part("nothing", 0, 1)
    assert died["failed"] == 1 and any("status" in key for key in failures(died))


@pytest.mark.long
@pytest.mark.parametrize(("kind", "count"), [("files", FILES), ("texts", TEXTS)])
def test_the_full_count(kind, count):
    found = fuzz.report(kind, count, seed=0)
    assert not found["failures"] and found["peak MiB"] <= found["limit MiB"], found
    assert sum(found["outcomes"].values()) == count
