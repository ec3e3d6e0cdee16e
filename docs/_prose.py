"""What prose may look like: sentences of at most 25 words and three numbers, outside of code and tables.

Docstrings have other rules: formulas are no words, an argument is an item, and 35 words are the limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

WORDS, NUMBERS, DOCSTRING = 25, 3, 35
FENCED = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
HIDDEN = re.compile(r"<!--.*?-->|<[^>]+>|!\[[^]]*\](?:\([^)]*\))?|\]\([^)]*\)", re.S)
"""Comments, tags, targets of links, and the words for a picture."""
CODE = re.compile(r"`[^`]*`|\$[^$`]*\$")
"""Names and formulas: each counts as one word."""
END = re.compile(r"(?<=[.!?])[*_)\"]*\s+(?=[A-Z0-9`$*_(\[\"{]|asyncsim)")
"""The end of a sentence."""
SHORT = re.compile(r"\b(e\.g|i\.e|vs|cf|etc|approx|no|fig|eq)\.", re.I)
ARXIV = re.compile(r"\b\d{4}\.\d{5}\b")
"""A name, not a number."""
SPOKEN = re.compile(r"(?<![\w.])[A-Za-z][a-z’'-]+(?![\w(])")
"""A word of a docstring: no single letter, no name with an index, no call."""
EXAMPLE = re.compile(r"^ *>>> .*?(?=\n *\n|\Z)", re.M | re.S)
LAID_OUT = re.compile(r"^.*\S {2,}\S.*$", re.M)
"""Lines of a docstring in columns, such as cases of a formula."""
ITEM = re.compile(r";|[.)]\s+(?=[a-z]\w*(?: and \w+)?:)")
"""The end of an argument in a list of arguments."""
FORMULA = {"log", "pi", "mu", "grad", "rho", "sum", "min", "max", "exp", "clip", "tau", "theta", "eta", "beta", "iff"}
NUMBER = re.compile(r"\{[^{}]*\}|(?<![\w.])[-+−]?\d[\d.,]*")


def sentences(text: str) -> Iterator[str]:
    """Sentences of a page of Markdown: of paragraphs and lists, not of code, headings or tables."""
    text = HIDDEN.sub(" ", FENCED.sub("\n", text))
    for block in re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.)\s+", text, flags=re.M):
        lines = [line.strip().lstrip("> ") for line in block.splitlines()]
        prose = " ".join(line for line in lines if line and not line.startswith(("#", "|", "![", ":::", "---")))
        yield from (each for each in END.split(SHORT.sub(lambda found: found[0][:-1], prose)) if each.strip())


def words(text: str) -> int:
    """Words that are read in a sentence or page, headings and tables included; a piece of code counts as one.

    Fenced code, comments, tags, targets of links and the words for a picture do not count.
    """
    return len(re.findall(r"\w[\w'’./×%-]*", CODE.sub("code", HIDDEN.sub(" ", FENCED.sub("\n", text)))))


def items(docstring: str) -> Iterator[str]:
    """Sentences of a docstring; in a list of arguments, each of its items."""
    text = LAID_OUT.sub("", EXAMPLE.sub("", docstring)).translate(str.maketrans("<>", "‹›"))
    for each in sentences(text):
        listed = re.match(r"\s*(Arguments|Columns|Raises|Returns)\b|\s*`", each) or len(ITEM.findall(each)) > 1
        yield from ITEM.split(each) if listed else [each]


def too_long(docstring: str, most: int = DOCSTRING) -> list[str]:
    """Sentences of a docstring with too many words, in one line each; what stands in formulas does not count."""
    counts = {
        each: sum(word not in FORMULA for word in SPOKEN.findall(CODE.sub("code", each))) for each in items(docstring)
    }
    return [f"{count} words: {' '.join(each.split())[:100]}" for each, count in counts.items() if count > most]


def faults(text: str, most: int = WORDS) -> list[str]:
    """Sentences with too many words or numbers, in one line each."""
    wrong = []
    for each in sentences(text):
        count, numbers = words(each), len(NUMBER.findall(ARXIV.sub("", CODE.sub("", each))))
        if count > most:
            wrong.append(f"{count} words: {each[:100]}")
        if numbers > NUMBERS:
            wrong.append(f"{numbers} numbers: {each[:100]}")
    return wrong
