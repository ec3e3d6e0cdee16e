"""Claims of papers, and of the package, with what came out here: one list for the tables, the claim map and JSON.

Sentences of papers that exact results decide (`asyncsim list papers`) stand behind those that figures decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
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
from paper_figures._claim import MARKS, OF_OWN, OWN, UNTESTED, VERDICTS, Claim, Item
from paper_figures._gallery import BY_SETTING, PLACEHOLDER
from paper_figures._grids import MEANING

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

ORDER = ("holds", *VERDICTS[:2], VERDICTS[5], *VERDICTS[2:5], VERDICTS[6])
"""Verdicts from the best on, as in the picture of all claims, without those of own claims that do not hold."""
NO_PAPER = (OWN, "several papers", "delay theory")
"""Sources that are no paper."""
NAMED = {"2602.17616": "VCPO"}
"""Papers whose page has a name for them, by the arXiv id that exact results give."""
SHORT = {
    "2602.17616/root-of-ess": "the step size scales with the root of ESS",
    "2610.01896/group-mass": "delay acts only through the bias of the cap",
    "2607.01083/bias": "bias grows as staleness × step size",
    "2607.01083/ballistic": "a positive cosine of gradients means drift",
    "2609.20807/score-drift": "score drift is the main cause of instability",
    "2604.22407/inflation": "Adam inflates the projected direction",
    "2206.08307/average-delay": "the average delay matters, not the maximum",
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
    known = tuple(known)
    sources = {each.source for each in known}
    several = len(sources) > 1 and not sources <= {*NO_PAPER}
    head = "claim" if several or known[0].source in NO_PAPER else f"{known[0].source} claims"
    heads = [*["source"] * several, head, "result", "verdict (holds in)"]
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for each in known:
        claim = (f"[{each.text}](#{each.figure})" if each.figure else each.text) + "\\*" * each.rebuilt
        claim += f" ([more settings](#{each.also}))" if each.also else ""
        count = f" ({{{each.figure}:{each.held}_share}})" if each.held else ""
        verdict = f"**{each.verdict}**{count}" + (f": {each.when}" if each.when else "")
        cells = [*[each.source] * several, claim, each.number, verdict]
        rows.append(f"| {' | '.join(cells)} |")
    note = "\n\\* judged on our reconstruction of the method\n" if any(each.rebuilt for each in known) else ""
    return "\n".join(rows) + "\n" + note + by_setting(known)


def list_of_all() -> str:
    """Every claim that figures decide, with its verdict, as Markdown with placeholders."""
    rows = ["| source | claim | verdict | settings where it holds |", "|---|---|---|---|"]
    for each in CLAIMS:
        count = f"{{{each.figure}:{each.held}_share}}" if each.held else ""
        rows.append(f"| {each.source} | [{each.text}](#{each.figure}) | **{each.verdict}** | {count} |")
    return "\n".join(rows) + "\n"


def by_setting(known: Iterable[Claim]) -> str:
    """Each claim with the settings in which it holds, folded, with placeholders for tables."""
    meant = ", ".join(f"{MARKS[held]} {MEANING[held]}" for held in MARKS)
    parts = [
        f"**{each.text}.** The claim holds if {each.test}:\n\n{{{each.figure}:{each.held}_places}}"
        for each in known
        if each.held
    ]
    return (
        "\n\n".join(["", BY_SETTING, f"{meant}; a number says in how many settings.", *parts, "</details>\n"])
        if parts
        else ""
    )


def verdicts(known: Iterable[Claim]) -> str:
    """How many claims have each verdict, those that hold first."""
    counts = Counter(each.verdict for each in known)
    words = [f"*{word}*" for word in ORDER if counts[word]]
    heads = [f"{sum(counts.values())} [claims](#all-claims)", *words]
    numbers = [str(counts[word.strip("*")]) for word in words]
    return f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|\n| | {' | '.join(numbers)} |"


def uncounted(numbers: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Numbers of quick rows, which leave out settings, with a dash for each count."""
    found = {figure: dict(known) for figure, known in numbers.items()}
    for each in CLAIMS:
        if each.held and each.figure in found:
            found[each.figure] |= {f"{each.held}_{key}": "–" for key in ("count", "share", "places")}
    return found


def wrong(numbers: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Claims whose verdict is not what the count of their settings gives, in one line each."""
    found = []
    for each in CLAIMS:
        known = numbers.get(each.figure, {})
        if not (each.held and known):
            continue
        word = known[f"{each.held}_verdict"]
        word = dict(zip(VERDICTS, OF_OWN, strict=True))[word] if each.source == OWN else word
        if word != each.verdict:
            count = known[f"{each.held}_count"]
            found.append(f"claim {each.text!r} of {each.source}: {each.verdict}, but {count}: write {word!r}")
    return found


def tables() -> dict[str, str]:
    """Tables of the gallery by the name that stands for them."""
    of: dict[str, list[Claim]] = {}
    for each in CLAIMS:
        of.setdefault(f"claims {each.subject or each.source}", []).append(each)
    alone = []
    for each in exact():
        source = NAMED.get(each.source, each.source)
        of.get(f"claims {source}", alone).append(replace(each, source=source))
    return (
        {"exact": table(alone), "every claim": list_of_all(), "items": item_table()}
        | {name: table(known) for name, known in of.items()}
        | {name.replace("claims", "verdicts"): verdicts(known) for name, known in of.items()}
    )


def rows(numbers: Mapping[str, Mapping[str, str]], known: Iterable[Claim] = ()) -> list[dict[str, Any]]:
    """Claims with their numbers, all as they stand in claims.json, or those that are known."""
    known = tuple(known) or (*CLAIMS, *exact())
    return [asdict(each) | {"number": filled(each.number, numbers), "claims": list(each.claims)} for each in known]


def judged(item: Item) -> str:
    """An item's verdict: its own, or that of the claim that it states."""
    if not item.claim:
        return item.verdict
    known = {each.text: each.verdict for each in CLAIMS if each.source == item.paper}
    checks.one_of("claim", item.claim, known, "name a claim of its paper")
    return known[item.claim]


def items(numbers: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """Items of papers with their numbers, as they stand in items.json; null for what was not read."""
    found = []
    for each in ITEMS:
        row = asdict(each) | {"ours": filled(each.ours, numbers), "verdict": judged(each)}
        row["number"] = row.pop("stated") or None
        found.append(row)
    return found


def item_table() -> str:
    """All items as Markdown, with placeholders for numbers."""
    rows = ["| paper | item | known from | verdict | number here | differs |", "|---|---|---|---|---|---|"]
    for before, each in zip((None, *ITEMS), ITEMS, strict=False):
        paper = "" if before and before.paper == each.paper else each.paper
        item = f"[{each.item}](#{each.figure})" if each.figure else f"{each.item}, not shown"
        item += ", proxy" * (each.kind == "proxy") + (f" ({each.stated})" if each.stated else "")
        rows.append(f"| {paper} | {item} | {each.source} | {judged(each)} | {each.ours} | {each.differs} |")
    return "\n".join(rows) + "\n"
