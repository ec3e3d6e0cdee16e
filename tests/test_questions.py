"""The page of questions is what its commands say, and its answers are made of their numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import docs.__main__ as command
from docs import _questions

PAGE = Path(_questions.__file__).parent / "questions.md"


def test_the_page_is_what_its_commands_say(capsys):
    assert command.main(["--check"]) == 0, capsys.readouterr().out


def test_a_number_that_is_off_is_found(monkeypatch, tmp_path, capsys):
    text = PAGE.read_text(encoding="utf-8")
    (tmp_path / "questions.md").write_text(text.replace("2.48 steps", "2.49 steps"), encoding="utf-8")
    monkeypatch.setattr(command, "HERE", tmp_path)
    monkeypatch.setattr(command, "page", lambda: text)
    assert command.main(["--check"]) == 1
    assert "not up to date" in capsys.readouterr().out


def test_sentences_of_answers_are_short():
    answers = re.findall(r"^\*\*(.+)\*\*$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(answers) == len(_questions.QUESTIONS)
    for sentence in (each for answer in answers for each in re.split(r"(?<=[.:;]) ", answer)):
        assert len(sentence.split()) <= 25, sentence


def test_a_command_that_fails_is_no_answer():
    with pytest.raises(RuntimeError, match="ended with 2"):
        _questions.said("timeline nothing")
