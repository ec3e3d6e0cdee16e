"""Write the explorer and the page of questions with its pictures, or compare them with what makes them now."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import BinaryIO

from asyncsim.base import checks, files
from docs import _explorer, _page, _shown
from docs._questions import FOOT, HEAD, QUESTIONS

HERE = _page.HERE


def main(words: list[str] | None = None) -> int:
    """Exit status: 0 done; 1 something is not up to date."""
    parser = argparse.ArgumentParser(prog="python -m docs", description="Write the generated pages and their pictures.")
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 where something is out of date")
    parser.add_argument("--stored", action="store_true", help="run only commands whose results are not stored")
    options = checks.options(parser, words)
    # A stored result counts as long as the files that its command names are what they were.
    before = _page.stored(HERE)
    known = {name: each for name, each in before.items() if each.source == _page.source(name)}
    results = {
        command: known[command]
        if options.stored and command in known
        else _page.settled(before.get(command), _page.said(command))
        for command in _page.commands(QUESTIONS)
    }
    if options.check:
        wrong = faults(results)
        print("\n".join(wrong) or "questions.md, explorer.html: up to date")
        return 1 if wrong else 0
    write(results)
    if not options.stored:
        _shown.draw()
    return 0


def faults(results: dict[str, _page.Said]) -> list[str]:
    """What is not up to date: commands, the page, its pictures, in a line each."""
    known, path = _page.stored(HERE), HERE / "questions.md"
    # As text: in a result a missing number is NaN, which equals nothing.
    wrong = [f"said otherwise: {command}" for command in results if repr(known.get(command)) != repr(results[command])]
    wrong += [
        f"files changed since: {command}" for command in results if results[command].source != _page.source(command)
    ]
    wrong += [f"not asked: {command}" for command in known if command not in results]
    if not path.exists() or path.read_text(encoding="utf-8") != _page.page(HEAD, QUESTIONS, results, FOOT):
        wrong.append("questions.md: not up to date; run `python -m docs`")
    if (_explorer.HERE / "explorer.html").read_text(encoding="utf-8") != _explorer.page():
        wrong.append("explorer.html: not up to date; run `python -m docs --stored`")
    for question in QUESTIONS:
        picture = HERE / _page.FOLDER / _page.name(question)
        if question.draw and _page.drawn_from(picture) != _page.origin(question, results):
            wrong.append(f"{picture.name}: not drawn from these results; run `python -m docs --stored`")
    return wrong


def write(results: dict[str, _page.Said]) -> None:
    """Results, pictures and page."""
    _page.store(results, HERE)
    for question in QUESTIONS:
        if question.draw:
            files.write_atomically(
                HERE / _page.FOLDER / _page.name(question), partial(_put, _page.drawn(question, results))
            )
    files.write_atomically(HERE / "questions.md", partial(_put, _page.page(HEAD, QUESTIONS, results, FOOT).encode()))
    files.write_atomically(_explorer.HERE / "explorer.html", partial(_put, _explorer.page().encode()))
    print(HERE / "questions.md", _explorer.HERE / "explorer.html")


def _put(data: bytes, file: BinaryIO) -> None:
    file.write(data)


if __name__ == "__main__":
    sys.exit(main())
