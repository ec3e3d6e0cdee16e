"""Prose says what the field says: household words, "a" for "per" and float noise are found where people read."""

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

import asyncsim
from asyncsim.app import commands
from asyncsim.app.cli import app
from tests.architecture.source import ROOT
from tests.architecture.test_text import files

COUNTED = (
    r"(?:[\d%]|\b(?:one|one \w+|once|twice|seconds|hours|updates|tokens|samples|groups|prompts|steps|actions|versions|"
    r"texts|replicates|responses|lines|bytes|points|runs|batches|nats|ms|s|h))"
)
UNIT = (
    r"(?:second|minute|hour|night|update|step|token|sample|batch|group|prompt|row|core|arm|point|run|replicate|query)"
)
"""What is counted, and what it is counted by, where "a" is said for "per"."""
TABLE = {
    r"dear(?:er|est)?": "expensive",
    r"wakes?|waking|woke": "raises a (false) alarm, is called",
    r"prices?": "cost",
    r"(?<!decimal )(?<!take )(?<!takes )(?<!took )(?<!in )places?|in place of": "slot, setting, instead of",
    r"stands?(?! for\b)|standing|stood": "is, is given, is printed",
    r"told": "named, distinguished, significantly different",
    r"whole|wholly": "all, full, entire, complete",
    r"(?:throw|threw|throws|thrown|throwing) away": "discard",
    r"tickets?": "permit",
    r"ages?": "staleness",
    r"(?<!correlation )(?<!correlation at )lags?": "staleness",
    r"(?<!power )(?<!scaling )laws?(?! of large numbers)": "distribution; formula; theorem",
    r"(?:policy|speed|norm|trainer|signal|current|projection|one|1|share) over (?:the|its|that|those|old|other|"
    r"synchronous|sampler|proximal|behavior|current|sampling|noise|projection)|control over projection": "divided by",
    r"(?:speed|seconds|step|entropy) over (?!the run|training|updates|time)": "against",
    r"(?<!at )least|(?<!m )(?<!1 )largest(?! (?:stable|m)\b)": "min, minimum, lowest; max, maximum, highest",
    r"(?:is|are|was|were) (?:called (?:held|equal|better|worse|\w+ed\b)|judged(?! by\b))": "name who judges",
    rf"{COUNTED} an? {UNIT}|rows? an? {UNIT}|an update a batch": "per",
    r"rides?|riding": "vectorized, batched",
    r"money": "wealth",
    r"buys?|bought": "gain, help",
    r"heeds?": "uses",
    r"by chance": "at random",
}
"""What the field does not say, and what it says: one table for every page, help and docstring."""
SAID = {re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.I): better for words, better in TABLE.items()}
EXEMPT = re.compile(r'^(```|~~~).*?^\1|<!--.*?-->|`[^`]*`|\$[^$\n]*\$|\]\([^)]*\)|"[^"\n]*"|<[^>\n]+>', re.M | re.S)
"""Code, comments, formulas, targets of links, quoted titles and tags."""
NOISE = re.compile(r"[\d.]+e-(?:1[3-9]|[2-9]\d)\b|\d\.\d*?(?:0{8}|9{8})\d+")
"""A number that is only rounding, such as 0.30000000000000004."""


def blanked(found: re.Match[str]) -> str:
    """As many spaces, with lines where they were."""
    return re.sub(r"[^\n]", " ", found[0])


def household(text: str, where: str) -> list[str]:
    """Words of the table in a text, each with its line and the better word."""
    blank = re.sub(r"\{[^{}\n]*\}", lambda found: "0" * len(found[0]), EXEMPT.sub(blanked, text))
    flat = blank.replace("\n", " ")
    return [
        f"{where}:{1 + blank.count(chr(10), 0, found.start())}: {found[0]!r}: say {better}"
        for pattern, better in SAID.items()
        for found in pattern.finditer(flat)
    ]


def pages() -> Iterator[tuple[str, str]]:
    """Every page that a person reads, by its path."""
    for path in files():
        name = str(path.relative_to(ROOT))
        if path.suffix == ".md" and name.startswith(("README", "docs/", "notebooks/", "paper_figures/")):
            yield name, path.read_text(encoding="utf-8")


def helps() -> Iterator[tuple[str, str]]:
    """Help of every command and option, as it is printed."""
    left = [("asyncsim", get_command(app))]
    while left:
        name, command = left.pop()
        left += [(f"{name} {each}", below) for each, below in getattr(command, "commands", {}).items()]
        yield f"{name} --help", command.help or ""
        yield from ((f"{name} --{each.name}", getattr(each, "help", None) or "") for each in command.params)


def summaries() -> Iterator[tuple[str, str]]:
    """First lines of docstrings that a user reads: of what is listed, and of names of the package and their members."""
    for kind in commands.KINDS:
        yield from ((f"asyncsim list {kind} {row['name']}", row["summary"]) for row in commands.names(kind))
    for name in asyncsim.NAMES:
        value = getattr(asyncsim, name)
        public = inspect.isclass(value) or inspect.ismodule(value)
        members = [each for each in vars(value) if not each.startswith("_")] if public else []
        for where, each in ((name, value), *((f"{name}.{member}", getattr(value, member)) for member in members)):
            own = inspect.ismodule(each) or getattr(each, "__module__", "").startswith("asyncsim")
            yield f"sim.{where}", ((inspect.getdoc(each) if own else "") or "").partition("\n")[0]


@pytest.mark.parametrize(("read", "count"), [(pages, 140), (helps, 200), (summaries, 500)])
def test_household_words(read, count) -> None:
    texts = list(read())
    assert len(texts) > count
    assert [line for name, text in texts for line in household(text, name)] == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("An alarm of ESS that\nwakes 10 % of healthy runs", "x:2: 'wakes'"),
        ("Where generation is dear, replay saves compute.", "x:1: 'dear'"),
        ("Four of ten groups are thrown away.", "x:1: 'thrown away'"),
        ("It takes 48 s\nan update.", "x:1: 's an update'"),
        ("the current policy over the old one", "x:1: 'policy over the'"),
        ("The least of them stands at the first place.", "x:1: 'place'"),
        ("A wrong one is called held.", "x:1: 'is called held'"),
        ("Rewards under five laws", "x:1: 'laws'"),
    ],
)
def test_a_planted_sentence_is_found(text: str, word: str) -> None:
    assert household(text, "x")[0].startswith(word)


@pytest.mark.parametrize(
    "text",
    ["`max_age` of `places`", "```\ntickets stand\n```", 'see "A Whole New Law"', "at least a batch", "a power law"],
)
def test_names_code_and_titles_pass(text: str) -> None:
    assert household(text, "x") == []


def shown(path: Path) -> str:
    """What a page shows: of a notebook its texts and printed outputs, of Markdown all of it."""
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [each for cell in cells for each in cell.get("outputs", ())]
    return "".join("".join(each.get("text", ())) for each in outputs)


@pytest.mark.committed
def test_no_page_shows_rounding() -> None:
    read = [path for path in files() if path.suffix in (".md", ".ipynb") and "LOG" not in path.name]
    found = {str(path.relative_to(ROOT)): NOISE.findall(shown(path)) for path in read}
    assert len(read) > 140
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
    assert NOISE.findall("0.30000000000000004, -2.3e-15, 4.39e-10, 0.1") == ["0.30000000000000004", "2.3e-15"]
