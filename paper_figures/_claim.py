"""A claim of a paper or of the package, an item that a paper shows, and what came out here.

Those of a source stand in `_claims_SOURCE.py`, those of several in `_claims_more.py`; `_claims` puts them in order. A
number is text with `{figure:key}` for what a figure's `numbers()` gives. A verdict says what was tested, no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asyncsim import claims
from asyncsim.base import checks

UNTESTED = "not tested here"
OWN = "asyncsim"
"""The source of our own claims."""
VERDICTS = ("reproduced", "mostly", "mixed", "mostly not", "not reproduced", "under conditions", UNTESTED)
"""Reproduced at all places, at most, at some, at few, at none; where one condition holds; no regime shows it."""
OF_OWN = ("holds", *VERDICTS[1:4], "does not hold", *VERDICTS[5:])
"""Of our own claims, which have nothing to reproduce."""
MOST = 0.75
"""Share of settings from which on it is most of them."""
MARKS = {True: "✓", False: "✗", None: "?"}
"""Whether a claim holds in a setting, in a table."""
SOURCES = ("text", "repo", "notes", "abstract")
"""What is known of an item: its text was read, the authors' code, notes of others on the text, the abstract alone."""
KINDS = ("figure", "proxy", "none")
"""Ours shows the same quantity on the same axes, something near it, or nothing."""


@dataclass(frozen=True)
class Setting:
    """A setting in which a claim was tested: what was varied, outermost first, and whether the claim holds there.

    `held`: None where the rows do not decide. `inside`: whether the condition that the claim's verdict names is met.
    """

    place: tuple[str, ...]
    held: bool | None
    inside: bool = True

    def __post_init__(self) -> None:
        known = self.held is None or isinstance(self.held, bool)
        checks.require(known, "held", self.held, "True, False or None", "make it with decided")


def decided(held: Any, failed: Any) -> bool | None:
    """Whether a claim holds, from intervals that show that it does or that it does not; None where neither."""
    return True if held else False if failed else None


def counted(settings: Sequence[Setting]) -> dict[str, str]:
    """What the settings of a claim come to: the verdict, how many hold (`share`: in tables), and which do and do not.

    The verdict follows from counts alone. With a condition, which two settings have to meet, the claim has to hold
    wherever it is met, and in few of the other settings.
    """
    inside, outside = ([each for each in settings if each.inside == met] for met in (True, False))
    share = _shares(outside)[0] if outside else 1.0
    bounded = len(inside) > 1 and all(each.held for each in inside) and share <= 1.0 - MOST
    parts = {"settings where met": inside, "elsewhere": outside} if bounded else {"settings": [*settings]}
    counts = [f"{sum(each.held is True for each in part)} of {len(part)} {name}" for name, part in parts.items()]
    # Where none holds, 0 of N would look as if all N failed.
    undecided = sum(each.held is None for each in settings) * all(not each.held for each in settings)
    share = ", ".join([*counts, *[f"{undecided} undecided"] * bool(undecided)]).replace(" settings", "")
    verdict = "under conditions" if bounded else word(*_shares(settings))
    return {"verdict": verdict, "count": ", ".join(counts), "share": share}


def _shares(settings: Sequence[Setting]) -> tuple[float, float]:
    """Shares of settings in which a claim holds, and in which it does not."""
    return tuple(sum(each.held is held for each in settings) / len(settings) for held in (True, False))


def word(held: float, failed: float) -> str:
    """The verdict of a claim that holds in one share of its settings and fails in another; the rest is undecided."""
    if held == 1.0 or failed == 1.0:
        return "reproduced" if held else "not reproduced"
    few = held <= 1.0 - MOST and failed > held
    return "mostly" if held >= MOST else "mostly not" if few else "mixed"


@dataclass(frozen=True)
class Claim:
    """One claim: who says it, what came out, the number that decides, and the figure that shows it.

    `when`: the conditions, or what was not tested; `rebuilt`: our reconstruction of the method is judged. `stated`: the
    sentence in `claims.papers()`, whose exact results are set against it too. Without a figure they alone decide.
    `subject`: the table that it stands in, if not that of its source. `test`: when the claim holds in one setting;
    the figure's `held()` gives all settings under the name `held`, and their count has to give the verdict. `also`: a
    second figure, whose `held()` gives more settings under this name, from rows of its own.
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
    held: str = ""
    test: str = ""
    also: str = ""

    @property
    def claims(self) -> tuple[str, ...]:
        """Ids of the exact results."""
        return claims.papers()[self.stated].claims if self.stated else ()

    def __post_init__(self) -> None:
        checks.one_of("verdict", self.verdict, OF_OWN if self.source == OWN else VERDICTS, "choose one")
        conditional = self.verdict in ("under conditions", UNTESTED)
        checks.require(bool(self.when) or not conditional, "when", self.when, f"given where {self.verdict}", "say it")
        checks.require(bool(self.test) == bool(self.held), "test", self.test, "given with held", "say when it holds")


@dataclass(frozen=True)
class Item:
    """A figure, table or headline statement of a paper, and its counterpart here.

    `stated`: the paper's own number, only where it was read. `ours`: what came out here, text as in `Claim`. `differs`:
    what differs beyond what the page says of all items of the paper, or why there is no counterpart. `claim`: the text
    of the paper's claim that the item states, in place of a verdict, which is then the claim's.
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
    claim: str = ""

    def __post_init__(self) -> None:
        checks.one_of("source", self.source, SOURCES, "say what was read")
        checks.one_of("kind", self.kind, KINDS, "choose one")
        shown = self.kind != "none"
        for name in ("figure", "ours"):
            value = getattr(self, name)
            checks.require(bool(value) == shown, name, value, "given unless kind is none", "mend it")
        judged = bool(self.verdict) + bool(self.claim)
        checks.require(judged == shown, "verdict", self.verdict, "given unless kind is none, or claim is", "mend it")
        if self.verdict:
            checks.one_of("verdict", self.verdict, VERDICTS, "choose one")
        checks.require(bool(self.differs) or shown, "differs", self.differs, "a reason unless it is shown", "say it")
