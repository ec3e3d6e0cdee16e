"""A claim of a paper or of the package, an item that a paper shows, and what came out here.

Those of a source stand in `_claims_SOURCE.py`, those of several in `_claims_more.py`; `_claims` puts them in order. A
number is text with `{figure:key}` for what a figure's `numbers()` gives. A verdict says what was tested, no more.
"""

from __future__ import annotations

from dataclasses import dataclass

from asyncsim import claims
from asyncsim.base import checks

UNTESTED = "not tested here"
OWN = "asyncsim"
"""The source of our own claims."""
VERDICTS = ("reproduced", "mostly", "mixed", "mostly not", "not reproduced", "under conditions", UNTESTED)
"""Reproduced at all places, at most, at some, at few, at none; where one condition holds; no regime shows it."""
OF_OWN = ("holds", *VERDICTS[1:4], "does not hold", *VERDICTS[5:])
"""Of our own claims, which have nothing to reproduce."""
SOURCES = ("text", "repo", "notes", "abstract")
"""What is known of an item: its text was read, the authors' code, notes of others on the text, the abstract alone."""
KINDS = ("figure", "proxy", "none")
"""Ours shows the same quantity on the same axes, something near it, or nothing."""


@dataclass(frozen=True)
class Claim:
    """One claim: who says it, what came out, the number that decides, and the figure that shows it.

    `when`: the conditions, or what was not tested; `rebuilt`: our reconstruction of the method is judged. `stated`: the
    sentence in `claims.papers()`, whose exact results are set against it too. Without a figure they alone decide.
    `subject`: the table that it stands in, if not that of its source.
    """

    source: str
    text: str
    verdict: str
    number: str
    figure: str
    when: str = ""
    rebuilt: bool = False
    stated: str = ""
    subject: str = ""

    @property
    def claims(self) -> tuple[str, ...]:
        """Ids of the exact results."""
        return claims.papers()[self.stated].claims if self.stated else ()

    def __post_init__(self) -> None:
        checks.one_of("verdict", self.verdict, OF_OWN if self.source == OWN else VERDICTS, "choose one")
        conditional = self.verdict in ("under conditions", UNTESTED)
        checks.require(bool(self.when) or not conditional, "when", self.when, f"given where {self.verdict}", "say it")


@dataclass(frozen=True)
class Item:
    """A figure, table or headline statement of a paper, and its counterpart here.

    `stated`: the paper's own number, only where it was read. `ours`: what came out here, text as in `Claim`. `differs`:
    what differs beyond what the page says of all items of the paper, or why there is no counterpart.
    """

    paper: str
    item: str
    source: str
    kind: str
    differs: str
    figure: str = ""
    verdict: str = ""
    ours: str = ""
    stated: str = ""

    def __post_init__(self) -> None:
        checks.one_of("source", self.source, SOURCES, "say what was read")
        checks.one_of("kind", self.kind, KINDS, "choose one")
        shown = self.kind != "none"
        for name in ("figure", "verdict", "ours"):
            value = getattr(self, name)
            checks.require(bool(value) == shown, name, value, "given unless kind is none", "mend it")
        if shown:
            checks.one_of("verdict", self.verdict, VERDICTS, "choose one")
        checks.require(bool(self.differs) or shown, "differs", self.differs, "a reason unless it is shown", "say it")
