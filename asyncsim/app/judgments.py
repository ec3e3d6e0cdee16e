"""What `asyncsim verify` says of its verdicts: the table, the error rates of all together, and what to do next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from asyncsim import claims
from asyncsim.app import evidence
from asyncsim.app.page import TOGETHER, Page, cost, point_text, rate
from asyncsim.base.records import LOOSE, Comparison, Verdict
from asyncsim.claims._trial import FALSE_FAIL, FALSE_PASS, Trial

SUCCESSES = ("held", LOOSE)
"""Verdicts that leave nothing to do; the second is that of a bound with a term that nothing attains."""
HELD, VIOLATED, INCONCLUSIVE = 0, 1, 3
NAMED = 5
"""Claims that the advice names, at most."""
PAGE = "docs/verdicts.md"
"""Where error rates and verdicts are explained."""


def status(verdicts: Sequence[Verdict], bets: Mapping[str, evidence.Evidence] | None = None) -> int:
    """Exit status: 1 where a claim is violated or a planted defect not caught, 3 where one is undecided, else 0.

    Where there are `bets` over many runs they decide instead of one run's verdict, which is then undecided at most
    unless a component broke off.
    """
    violated = [v.id for v in verdicts if v.verdict == "violated" and (not bets or math.isnan(v.p))]
    if violated or evidence.against(bets or {}) or missed(verdicts):
        return VIOLATED
    return HELD if all(v.verdict in SUCCESSES for v in verdicts) else INCONCLUSIVE


def missed(verdicts: Sequence[Verdict]) -> list[str]:
    """Planted defects that did not turn the verdict of their claim, as "claim: defect"."""
    return [f"{v.id}: {d['name']}" for v in verdicts for d in v.defects if d["verdict"] != "violated"]


def table(verdicts: Sequence[Verdict], defects: bool, bets: Mapping[str, evidence.Evidence] | None = None) -> Any:
    """The comparison with the least margin of each claim, and its money in the `bets` over many runs."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False)
    # Head the columns.
    for name, justify in (
        ("claim", "left"),
        ("quantity", "left"),
        ("prediction", "right"),
        ("measured [interval]", "left"),
        ("verdict", "left"),
        ("seconds", "right"),
    ):
        grid.add_column(name, justify=justify)  # type: ignore[arg-type]
    if bets:
        grid.add_column("e", justify="right")
    if defects:
        grid.add_column("planted defects")
    # Fill a row for each claim.
    for v in verdicts:
        color = {"held": "green", "violated": "red"}.get(v.verdict, "yellow")
        row = [
            v.id,
            v.quantity,
            "—" if math.isnan(v.predicted) else f"{v.predicted:.6g}",
            "—" if math.isnan(v.measured) else f"{v.measured:.6g} [{v.low:.6g}, {v.high:.6g}]",
            f"[{color}]{v.verdict}[/]",
            f"{v.seconds:.1f}",
        ]
        if bets:
            row.append(f"{bets[v.id].e:.3g}" if v.id in bets else "—")
        if defects:
            row.append("; ".join(f"{d['name']}: {d['verdict']}" for d in v.defects))
        grid.add_row(*(cell.replace("[", r"\[") if i in (1, 3) else cell for i, cell in enumerate(row)))
    return grid


def lines(page: Page, defects: bool) -> list[str]:
    """How many claims have which verdict, what they cost, and the error rates of one and of all together."""
    verdicts = page.verdicts
    held, loose = (sum(v.verdict == word for v in verdicts) for word in SUCCESSES)
    rates = f"false fail <= {FALSE_FAIL:g} each, false pass <= {FALSE_PASS:g}"
    beyond = page.summary["counts"]["outside"]
    others = f", {loose} hold without being tight" * bool(loose) + f", {beyond} outside" * bool(beyond)
    line = f"{held} of {len(verdicts)} claims held{others} ({rates})"
    if defects:
        caught = sum(d["verdict"] == "violated" for v in verdicts for d in v.defects)
        line += f"; {caught} of {sum(len(v.defects) for v in verdicts)} planted defects turned their claim to violated"
    loosest = [f"{v.id}: {v.reason}" for v in verdicts if v.verdict == LOOSE]
    return [line, *loosest, f"measured in {cost(page.summary)}", together(page)]


def together(page: Page) -> str:
    """The probability of any false alarm, by the claims' own rates and after Holm's correction."""
    count = len(page.verdicts)
    chance = rate(page.summary["false_fail_of_all"])
    line = f"chance of any false alarm over all {count} claims: at most {chance}"
    violated = page.summary["counts"]["violated"]
    standing = f": {sum(map(page.stands, page.verdicts))} of {violated} violated stay so" if violated else ""
    least = rate(min(TOGETHER, page.summary["false_fail_of_all"]))
    return f"{line} by their own rates, {least} after Holm's correction{standing}"


def bets(page: Page) -> list[str]:
    """What the e-values over many runs mean, and what they say of the claims that they speak against."""
    if not page.evidence:
        return []
    one = next(iter(page.evidence.values()))
    against = sorted(
        (own for own in page.evidence.items() if own[1].greatest >= one.own_limit), key=lambda own: -own[1].greatest
    )
    return [
        f"e is the money of a bet against a claim over all runs, from 1. A true claim ever brings it to "
        f"{one.own_limit:.6g} with probability at most {FALSE_FAIL:g}.",
        f"Any of all true claims ever brings its bet to {one.limit:.6g} with probability at most {evidence.EVER:g}. "
        "A small e is no evidence for a claim.",
        *(f"{id}: {own}" for id, own in against),
    ]


def begun(reasons: Mapping[str, str]) -> list[str]:
    """Claims whose bets begin anew, by the reason."""
    sentences = []
    for reason in dict.fromkeys(reasons.values()):
        ids = [id for id, own in reasons.items() if own == reason]
        more = f" and {len(ids) - NAMED} more" * (len(ids) > NAMED)
        sentences.append(f"bets begun anew, since {reason}: {', '.join(ids[:NAMED])}{more}")
    return sentences


def advice(page: Page) -> list[str]:
    """What to do where not everything held: the claims and points that decide, and how to rule out chance."""
    sentences, verdicts = [], page.verdicts
    # Name the claims that decide.
    for word in ("violated", "inconclusive", "outside"):
        rows = [v for v in verdicts if v.verdict == word]
        for v in rows[:NAMED]:
            sentences += [f"{word}: {v.id}{_decisive(v)}", *([f"  {page.beside(v)}"] * (word == "violated"))]
        sentences += [f"{word}: {len(rows) - NAMED} claims more"] * (len(rows) > NAMED)
    # Separate chance, theory and product.
    broken = [v for v in verdicts if v.verdict == "violated"]
    unsure = [v for v in verdicts if v.verdict == "inconclusive" and not math.isnan(v.p)]
    if broken:
        sentences += [line.replace("`", "") for line in steps(broken[0], page)]
    # Suggest remeasuring and missing checks.
    if unsure:
        sentences.append(
            "inconclusive does not contradict the claim: the measurement was too coarse. Measure again: "
            f"{_again(unsure[0], page)}"
        )
    if page.summary["counts"]["outside"]:
        sentences.append("outside says nothing about the claim: its trial cannot judge that point. Move it as advised.")
    if missed(verdicts):
        sentences.append(
            f"not caught: {'; '.join(missed(verdicts)[:NAMED])}. These trials would overlook such a mistake."
        )
    return sentences


def steps(verdict: Verdict, page: Page) -> list[str]:
    """What to do about a violated claim, in order: chance, theory, product, where to read on; code in backticks."""
    id, sentences = verdict.id, []
    if math.isnan(verdict.p):
        sentences.append("neither chance nor theory: a component raised, and nothing was measured.")
    else:
        sentences += [
            f"chance? A true claim is called violated once in {1 / FALSE_FAIL:.0f} measurements. Measure again: "
            f"`{_again(verdict, page)}`",
            "theory? If it stays violated, compare predict(point) and cross_check(point) of "
            f"`sim.claims.claim({id!r})`.",
            f"product? If those two agree, the measured code is wrong: `asyncsim verify {id} --defects` shows what "
            "this trial notices.",
        ]
    if id in claims.claims():
        trial = claims.trial(id)
        sentences.append(f"suspects? It goes through: {trial.through}. Its defects: {'; '.join(trial.defects)}.")
        if not page.at:
            sentences.append(f"where? `asyncsim verify {id}{_narrow(verdict, trial)}` measures that point alone.")
    return [*sentences, f"more: {PAGE}"]


def _again(verdict: Verdict, page: Page) -> str:
    """The command that measures a claim again, at the same point, another seed and with more samples."""
    place = "".join(f" {_option(key, value)}" for key, value in (page.at or {}).items())
    if page.evidence:
        return f"asyncsim verify {verdict.id} --size long"
    return f"asyncsim verify {verdict.id}{place} --seed {page.seed + 1}" + " --size full" * (page.size != "full")


def _narrow(verdict: Verdict, trial: Trial) -> str:
    """The options that lead from the trial's first point to where a claim is violated most."""
    rows = [row for row in verdict.points if row.verdict == "violated"] or verdict.points
    worst = min(rows, key=lambda row: row.margin).point
    changes = {key: value for key, value in worst.items() if value != trial.points[0].get(key)}
    # The first point has no change, but a command for it needs one.
    return "".join(f" {_option(key, value)}" for key, value in (changes or dict([*worst.items()][:1])).items())


def _option(key: str, value: Any) -> str:
    return f"--at {shlex.quote(f'{key}={value}')}"


def _decisive(verdict: Verdict) -> str:
    """Where, and by what numbers, a claim came to its verdict: the comparison with the least margin among those."""
    rows: list[Comparison] = [row for row in verdict.points if row.verdict == verdict.verdict] or list(verdict.points)
    if not rows:
        return ""
    row = min(rows, key=lambda each: each.margin)
    return f" at {point_text(row.point)}: {str(row).removeprefix(f'{row.verdict}: ')}"
