"""Claims of papers, and of the package, with what came out here: one list for the tables, the claim map and JSON.

Sentences of papers that exact results decide (`asyncsim list papers`) stand behind those that figures decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from asyncsim import claims
from asyncsim.base import checks
from paper_figures import (
    _claims_across,
    _claims_actor_critic,
    _claims_areal,
    _claims_asymre,
    _claims_bapo,
    _claims_delight,
    _claims_gac,
    _claims_m2po,
    _claims_more,
    _claims_pipeline_rl,
    _claims_replay,
    _claims_roll_flash,
    _claims_step_limits,
    _claims_tba,
    _claims_vcpo,
)
from paper_figures._claim import UNTESTED, VERDICTS, Claim
from paper_figures._gallery import PLACEHOLDER

SEEDS = (_claims_vcpo, _claims_gac, _claims_m2po, _claims_bapo, _claims_tba, _claims_roll_flash)
"""Papers whose figures are all listed."""
ITEMS = tuple(item for paper in SEEDS for item in paper.ITEMS)
OTHERS = (
    _claims_areal,
    _claims_pipeline_rl,
    _claims_step_limits,
    _claims_asymre,
    _claims_delight,
    _claims_replay,
    _claims_actor_critic,
    _claims_across,
    _claims_more,
)
CLAIMS = tuple(claim for paper in (*SEEDS, *OTHERS) for claim in paper.CLAIMS)
OF_STATUS = {
    "exact": "reproduced",
    "asymptotic": "reproduced",
    "conditional": "under conditions",
    "open": UNTESTED,
    "false as stated": "not reproduced",
}
"""What a status of `claims.papers()` is here."""

SHORT = {
    "2602.17616/root-of-ess": "step scales with the root of ESS",
    "2610.01896/group-mass": "delay enters by the cap's bias alone",
    "2607.01083/bias": "bias grows as staleness × step",
    "2607.01083/ballistic": "positive cosine means drift",
    "2609.20807/score-drift": "score drift is the main cause",
    "2604.22407/inflation": "Adam inflates what is projected",
    "2206.08307/average-delay": "average delay decides, not maximum",
}
"""A few words for each sentence that no figure decides."""


def exact() -> tuple[Claim, ...]:
    """Sentences of papers that exact results alone decide."""
    told = {each.stated for each in CLAIMS}
    found = [each for id, each in claims.papers().items() if id not in told]
    return tuple(
        Claim(
            each.paper, SHORT[each.id], OF_STATUS[each.status], each.number(), "",
            when=each.when or each.verdict, stated=each.id,
        )
        for each in found
    )  # fmt: skip


def filled(text: str, numbers: Mapping[str, Mapping[str, str]]) -> str:
    """A claim's number with what the figures give; raises `InputError` for a key that none has."""

    def number(found: Any) -> str:
        own = numbers.get(found[1] or "", {})
        checks.require(found[2] in own, "claim", found[0], "a number of its figure", f"let numbers() give {found[2]}")
        return own[found[2]]

    return PLACEHOLDER.sub(number, text)


def table(known: Iterable[Claim] = CLAIMS) -> str:
    """Claims as Markdown, with placeholders for numbers."""
    rows = ["| source | claim | verdict | number |", "|---|---|---|---|"]
    known = tuple(known)
    for before, each in zip((None, *known), known, strict=False):
        verdict = f"**{each.verdict}**" + (f": {each.when}" if each.when else "")
        source = "" if before and before.source == each.source else each.source
        claim = (f"[{each.text}](#{each.figure})" if each.figure else each.text) + "\\*" * each.rebuilt
        rows.append(f"| {source} | {claim} | {verdict} | {each.number} |")
    note = "\n\\* judged on our reconstruction of the method\n" if any(each.rebuilt for each in known) else ""
    return "\n".join(rows) + "\n" + note


def counts() -> str:
    """How many claims of each source came out how, and of sentences that exact results decide, as Markdown."""
    rows = [f"| source | {' | '.join(VERDICTS)} |", "|---|" + "---|" * len(VERDICTS)]
    own = {each.source: [c for c in CLAIMS if c.source == each.source] for each in CLAIMS}
    listed = [(f"[{source}](#{known[0].figure})", known) for source, known in own.items()]
    for link, known in (*listed, ("[exact results](claims.md#what-exact-results-decide)", list(exact()))):
        found = [sum(each.verdict == verdict for each in known) for verdict in VERDICTS]
        rows.append(f"| {link} | {' | '.join(str(count or '') for count in found)} |")
    return "\n".join(rows) + "\n"


def tables() -> dict[str, str]:
    """Tables of the gallery by the name that stands for them."""
    sources = dict.fromkeys(each.source for each in CLAIMS)
    of = {f"claims {source}": table(each for each in CLAIMS if each.source == source) for source in sources}
    return {"claims": table(), "exact": table(exact()), "counts": counts(), "items": item_table()} | of


def rows(numbers: Mapping[str, Mapping[str, str]], known: Iterable[Claim] = ()) -> list[dict[str, Any]]:
    """Claims with their numbers, all as they stand in claims.json, or those that are known."""
    known = tuple(known) or (*CLAIMS, *exact())
    return [asdict(each) | {"number": filled(each.number, numbers), "claims": list(each.claims)} for each in known]


def items(numbers: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """Items of papers with their numbers, as they stand in items.json; null for what was not read."""
    found = []
    for each in ITEMS:
        row = asdict(each) | {"ours": filled(each.ours, numbers)}
        row["number"] = row.pop("stated") or None
        found.append(row)
    return found


def item_table() -> str:
    """All items as Markdown, with placeholders for numbers."""
    rows = ["| paper | item | known from | shown | verdict | number here | differs |", "|---|---|---|---|---|---|---|"]
    for before, each in zip((None, *ITEMS), ITEMS, strict=False):
        paper = "" if before and before.paper == each.paper else each.paper
        item = each.item + (f" ({each.stated})" if each.stated else "")
        shown = f"[{each.kind}](#{each.figure})" if each.figure else "no"
        rows.append(f"| {paper} | {item} | {each.source} | {shown} | {each.verdict} | {each.ours} | {each.differs} |")
    return "\n".join(rows) + "\n"
