"""What prose may look like: sentences of at most 25 words and three numbers, outside of code and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

WORDS, NUMBERS = 25, 3
FENCED = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
HIDDEN = re.compile(r"<!--.*?-->|<[^>]+>|!\[[^]]*\](?:\([^)]*\))?|\]\([^)]*\)", re.S)
"""Comments, tags, targets of links, and the words for a picture."""
CODE = re.compile(r"`[^`]*`")
END = re.compile(r"(?<=[.!?])[*_)\"]*\s+(?=[A-Z0-9`*_(\[\"{]|asyncsim)")
"""The end of a sentence."""
SHORT = re.compile(r"\b(e\.g|i\.e|vs|cf|etc|approx|no|fig|eq)\.", re.I)
ARXIV = re.compile(r"\b\d{4}\.\d{5}\b")
"""A name, not a number."""
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
