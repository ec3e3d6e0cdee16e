"""A page of questions: commands are run and their results stored; text and pictures are made of stored results."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import re
import runpy
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asyncsim.base import files
from docs import _claimed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
FOLDER = "questions"
"""Beside the page: pictures, results, and what commands name: losses, controllers, descriptions of systems."""
DRAWN_FROM = "asyncsim results and script"
"""Key in a picture: a digest of the results and the script it was drawn from."""
UNSTORED = ("manifest", "seconds", "store", "id", "grid", "scores", "errors", "uncompared", "examples")
"""Keys of results that say where and how long, or that no answer reads."""
TIMED = re.compile(r"^\d+ units: ")
"""Lines with seconds that a command took."""
ANSWER = re.compile(r"(?:(?:No|Yes)\. )?.*?[.?](?= [A-Z`]|$)")
"""The sentence of an answer that is shown first."""
CLOSE, ROUNDING = 1e-9, 1e-12
"""Largest relative and absolute difference between a number of a result and the stored one: last digits of matrix
products, exponentials and sums are those of one processor."""
SEARCHED = re.compile(r"(?<= in )\d+(?= runs )")
"""How many runs a search made: it draws on constants of all modules that are loaded, so their number says little."""

TOPICS = {"docs._seconds": "Speed and cost", "docs._staleness": "Staleness", "docs._learning": "Losses and learning"}
"""Headings of the page, by the file of a question."""

Results = Sequence[Mapping[str, Any]]


class Said(NamedTuple):
    """What a command printed, its result without what differs from machine to machine, and a digest of its files."""

    lines: list[str]
    result: dict[str, Any]
    source: str = ""


class Question(NamedTuple):
    """One section of the page.

    `asked`: the question, and in `threads` where; `commands`: those that answer it, of `asyncsim` or `python`. `keep`:
    beginnings of the lines of their output that are shown. `answer`: sentences from the results, one for each command.
    `draw`: a picture of the same results, if any, and in `caption` what it shows beside its title. `claims`: ids of
    the exact results that the answer rests on.
    """

    asked: str
    threads: str
    commands: Sequence[str]
    keep: Sequence[str]
    answer: Callable[[Results], str]
    draw: Callable[[Results], Figure] | None = None
    caption: str = ""
    claims: tuple[str, ...] = ()


HEADED = "-v prints all settings"
"""Last line of the settings in front of a result."""


def said(command: str) -> Said:
    """Run a command; raises `RuntimeError` where it refuses."""
    text = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(HERE.parent):
        path = Path(folder) / "result.json"
        words = [*shlex.split(command), "--json", str(path)]
        words += ["--store", f"{folder}/store"] if words[1] == "sweep" else []
        with contextlib.redirect_stdout(text):
            run(words[0], words[1:])
        lines = [line for line in text.getvalue().splitlines() if folder not in line and not TIMED.match(line)]
        result = json.loads(path.read_text(encoding="utf-8"))
        return Said([SEARCHED.sub("N", line.rstrip()) for line in lines], pruned(result), source(command))


def source(command: str) -> str:
    """Digest of the files beside the page that a command names; empty where it names none."""
    named = re.findall(rf"docs/({FOLDER}/\w+\.(?:py|yaml))", command)
    data = b"".join((HERE / path).read_bytes() for path in named)
    return hashlib.sha256(data).hexdigest()[:16] if named else ""


def run(program: str, words: list[str]) -> None:
    """Run `asyncsim WORDS` or `python FILE WORDS` in this process. A finding or an undecided verdict is an answer."""
    from asyncsim.app.cli import main

    before, sys.argv = sys.argv, words
    try:
        main(words) if program == "asyncsim" else runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0, 1, 3):
            raise RuntimeError(f"{program} {shlex.join(words)} ended with {end.code}") from None
    finally:
        sys.argv = before


def pruned(value: Any) -> Any:
    """A result without the keys that are not stored; of a system its knobs alone.

    >>> pruned({"seconds": 3.0, "system": {"name": "areal", "rates": 1.0, "knobs": {"eta": 4}}, "lost": [0.0]})
    {'system': {'knobs': {'eta': 4}}, 'lost': [0.0]}
    >>> pruned({"seconds": {"mean": 3.0}})
    {'seconds': {'mean': 3.0}}
    """
    if isinstance(value, dict):
        # Seconds that a command took are one number; those of an answer have an interval, and stay.
        stays = [key for key in value if key not in UNSTORED or (key == "seconds" and isinstance(value[key], dict))]
        kept = {key: pruned(value[key]) for key in stays}
        if "knobs" in kept.get("system", {}):
            kept["system"] = {"knobs": kept["system"]["knobs"]}
        return kept
    return [pruned(each) for each in value] if isinstance(value, list) else value


def alike(first: Any, second: Any) -> bool:
    """Whether two results are equal, numbers to `CLOSE` or `ROUNDING`; a missing number is like another.

    >>> alike({"mean": 3.0, "lost": [float("nan")]}, {"mean": 3.0 + 1e-12, "lost": [float("nan")]}), alike(3.0, 3.1)
    (True, False)
    """
    if type(first) is not type(second):
        return False
    if isinstance(first, float):
        return math.isclose(first, second, rel_tol=CLOSE, abs_tol=ROUNDING) or (
            math.isnan(first) and math.isnan(second)
        )
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(alike(first[key], second[key]) for key in first)
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(alike, first, second))
    return bool(first == second)


def settled(before: Said | None, now: Said) -> Said:
    """What is stored, where a command says the same now; else what it says."""
    return before if before is not None and alike(before, now) else now


def stored(where: Path = HERE) -> dict[str, Said]:
    """What every command said when it was last run."""
    path = where / FOLDER / "results.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {command: Said(**each) for command, each in found.items()}


def store(results: Mapping[str, Said], where: Path = HERE) -> None:
    """Write what the commands said, one command a line."""
    rows = [f"{json.dumps(command)}: {json.dumps(each._asdict())}" for command, each in results.items()]
    text = "{\n" + ",\n".join(rows) + "\n}\n"
    files.write_atomically(where / FOLDER / "results.json", lambda file: file.write(text.encode()))


def commands(questions: Sequence[Question]) -> list[str]:
    """All commands in the order of the page, each once."""
    return list(dict.fromkeys(command for question in questions for command in question.commands))


def name(question: Question) -> str:
    """Name of a question's picture."""
    return f"{question.draw.__name__}.png" if question.draw else ""


def section(question: Question, results: Mapping[str, Said]) -> str:
    """Question, answer, picture, commands and what they print."""
    blocks = []
    for command in question.commands:
        described = re.search(rf"{FOLDER}/\w+\.yaml", command)
        if described:
            blocks.append(f"```yaml\n{(HERE / described[0]).read_text(encoding='utf-8')}```")
        lines = results[command].lines
        body = lines[lines.index(HEADED) + 1 :] if HEADED in lines else lines
        shown = [line for line in body if line.startswith(tuple(question.keep))]
        blocks.append("\n".join(["```console", f"$ {wrapped(command)}", *shown, "```"]))
    answer, bold = question.answer([results[command].result for command in question.commands]), first(question, results)
    seen = (question.draw.__doc__ or "").partition("\n")[0] if question.draw else ""
    picture = [f"![{seen}]({FOLDER}/{name(question)})", question.caption] if question.draw else []
    rests = [_claimed.rests_on(question.claims)] * bool(question.claims)
    asked = f"Asked in {_claimed.linked(question.threads)}."
    blocks = ["<details>", f"<summary>Command{'s' * (len(blocks) > 1)} and output</summary>", *blocks, "</details>"]
    parts = [f"### {question.asked}", f"**{bold}**", answer[len(bold) :].strip(), *picture, *blocks, *rests, asked]
    return "\n\n".join(filter(None, parts))


def wrapped(command: str, width: int = 68) -> str:
    r"""A command in lines that end with a backslash; an option stays with its value.

    >>> print(wrapped('asyncsim run --set "a=1 2" --updates 3', 26))
    asyncsim run --set "a=1 2" \
        --updates 3
    """
    words = re.findall(r"""(?:--\S+ )?(?:"[^"]*"|(?!--)\S)+|--\S+""", command)
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append(f"    {word}")
        else:
            lines[-1] += f" {word}"
    return " \\\n".join(lines)


def first(question: Question, results: Mapping[str, Said]) -> str:
    """The sentence of the answer that is shown first."""
    return ANSWER.match(question.answer([results[command].result for command in question.commands]))[0]  # type: ignore[index]


def anchor(heading: str) -> str:
    """Where a heading is on its page.

    >>> anchor("Is `N=0` on-policy?")
    'is-n0-on-policy'
    """
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def index(questions: Sequence[Question], results: Mapping[str, Said]) -> str:
    """All questions by topic, each with the first sentence of its answer."""
    topics: dict[str, list[tuple[str, str]]] = {}
    for each in questions:
        topics.setdefault(TOPICS.get(each.answer.__module__, ""), []).append((each.asked, first(each, results)))
    topics["Answered by a claim"] = [(each.asked, each.answer.partition(". ")[0] + ".") for each in _claimed.CLAIMED]
    blocks = ["Topics: " + " · ".join(f"[{topic}](#{anchor(topic)})" for topic in topics)]
    for topic, rows in topics.items():
        named = f"[{topic}](#{anchor(topic)})"
        lines = [f"| [{asked}](#{anchor(asked)}) | {answer} |" for asked, answer in rows]
        blocks.append("\n".join([f"| {named} | short answer |", "|---|---|", *lines]))
    return "\n\n".join(blocks)


def page(head: str, questions: Sequence[Question], results: Mapping[str, Said], foot: str) -> str:
    """The whole page, with a heading above the first question of each file of questions."""
    parts, above = [head, index(questions, results)], ""
    for question in questions:
        under = TOPICS.get(question.answer.__module__, "")
        parts += [f"## {under}"] * (under != above) + [section(question, results)]
        above = under
    return "\n\n".join([*parts, _claimed.sections(), foot]) + "\n"


def origin(question: Question, results: Mapping[str, Said]) -> str:
    """Digest of the results and of the script that a picture is drawn from."""
    found = json.dumps([results[command].result for command in question.commands]).encode()
    return hashlib.sha256(found + (HERE / "_pictures.py").read_bytes()).hexdigest()[:16]


def drawn(question: Question, results: Mapping[str, Said]) -> bytes:
    """The picture as a file that says what it was drawn from."""
    from asyncsim.plotting import _style

    assert question.draw is not None
    with _style.applied():
        figure = question.draw([results[command].result for command in question.commands])
        _style.key(figure)
    return _style.encode(figure, "png", {DRAWN_FROM: origin(question, results)})


def drawn_from(path: Path) -> str:
    """The digest that a picture carries; empty where there is none."""
    key, data = DRAWN_FROM.encode() + b"\0", path.read_bytes() if path.exists() else b""
    start = data.find(key)
    return data[start + len(key) :][:16].decode() if start >= 0 else ""
