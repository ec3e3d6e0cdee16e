"""A page of verdicts in any format: joint error rates, the printed table and lines, and advice on what to do next."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from asyncsim import claims, validation
from asyncsim.app import evidence
from asyncsim.base import records
from asyncsim.base.notation import measurement, number
from asyncsim.base.records import LOOSE, UNTESTED, Comparison, Verdict
from asyncsim.claims import _registry
from asyncsim.claims._trial import FALSE_FAIL, FALSE_PASS

TOGETHER = 0.01
"""Probability that any true claim of a page is violated after Holm's correction."""
SLOWEST = 5
"""Number of slowest claims whose seconds are reported."""
COVERAGE = "coverage.json"
"""File in this folder with small faults at random positions, and the claims that detect each."""
SUCCESSES = ("held", LOOSE, UNTESTED)
"""Verdicts that need no action; the second is for a bound with a term that no measurement attains.

The third is for a user's claim whose measurement has not caught an injected bug.
"""
HELD, VIOLATED, INCONCLUSIVE = 0, 1, 3
NAMED = 5
"""Maximum number of claims named in the advice."""
MANY = 20
"""Number of claims above which verdicts are printed as one row per family."""
PAGE = "docs/verdicts.md"
"""Documentation of error rates and verdicts."""


@dataclass(frozen=True)
class Page:
    """Verdicts on claims, and what concerns all of them: sizes, seeds and joint error rates.

    `manifest`: versions and hardware. `at`: parameters that replaced those of the claim's first point. `evidence`:
    claim id to its bets over runs, if there are any. `coverage`: random faults and the claims that detect them, None if
    they were not measured.
    """

    verdicts: Sequence[Verdict]
    manifest: Mapping[str, Any]
    at: Mapping[str, Any] | None = None
    evidence: Mapping[str, evidence.Evidence] = field(default_factory=dict)
    coverage: Mapping[str, Any] | None = None

    @cached_property
    def holm(self) -> dict[str, float]:
        """Adjusted p-value of each claim on the page by Holm's method."""
        return validation.holm({v.id: v.p for v in self.verdicts})

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Counts of verdicts, error rates and seconds, as the function `summary` returns them."""
        return summary(self.verdicts)

    @property
    def size(self) -> str:
        """Size of the measurements, such as quick or full."""
        return str((self.manifest.get("spec") or {}).get("size", "quick"))

    @property
    def seed(self) -> int:
        """The seed of every measurement on the page."""
        return int(self.manifest.get("seed") or 0)

    def stands(self, verdict: Verdict) -> bool:
        """Whether a claim is violated even after Holm's correction."""
        return verdict.verdict == "violated" and self.holm[verdict.id] <= TOGETHER

    def beside(self, verdict: Verdict) -> str:
        """Effect of Holm's correction on a violated claim; "" for other claims."""
        if verdict.verdict != "violated" or math.isnan(verdict.p):
            return ""
        if self.stands(verdict):
            return "violated, and also after Holm"
        pages = 1.0 / max(self.summary["false_fail_of_all"], records.ANY)
        return f"violated by its own rate only: expected once in {pages:.0f} such pages; ask again with --seed"

    def json(self) -> dict[str, Any]:
        """The page as a JSON object: a row for each claim, joint results, random-fault detection, the manifest."""
        rows = []
        for verdict in self.verdicts:
            row = verdict.row() | {"holm": self.holm[verdict.id], "stands": self.stands(verdict)}
            own = self.evidence.get(verdict.id)
            rows.append(row if own is None else row | {"evidence": own.row()})
        together = {"together": TOGETHER, "stand": sum(map(self.stands, self.verdicts))}
        return {
            "claims": rows,
            "summary": self.summary | together,
            "coverage": None if self.coverage is None else [*self.coverage["rows"]],
            "manifest": dict(self.manifest),
        }


def summary(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Counts per verdict, false-fail rates (maximum per claim, and over all claims), false-pass rate, caught bugs."""
    fails = [v.false_fail for v in verdicts if math.isfinite(v.false_fail)]
    passes = [v.false_pass for v in verdicts if v.verdict == "held" and math.isfinite(v.false_pass)]
    slowest = sorted(verdicts, key=lambda v: -v.seconds)[:SLOWEST]
    totals: dict[str, Any] = {
        "counts": {name: Counter(v.verdict for v in verdicts)[name] for name in records.VERDICTS},
        "false_fail": max(fails, default=math.nan),
        "false_fail_of_all": min(1.0, sum(fails)),
        "false_pass": max(passes, default=math.nan),
        "seconds": sum(v.seconds for v in verdicts),
        "slowest": {v.id: v.seconds for v in slowest},
        "open": sum(v.status == "open" for v in verdicts),
    }
    for kind in ("defects", "formula_defects"):
        # A claim that is violated without a defect shows nothing by its defects.
        planted = [defect for v in verdicts if v.verdict != "violated" for defect in getattr(v, kind)]
        totals[kind] = {"planted": len(planted), "caught": sum(defect["verdict"] == "violated" for defect in planted)}
    return totals


def cost(totals: Mapping[str, Any]) -> str:
    """Format the seconds spent on all claims, and on the slowest claims if there are several."""
    slowest = ", ".join(f"{id} {seconds:.1f}" for id, seconds in totals["slowest"].items())
    return f"{totals['seconds']:.1f} s" + f" over all claims; slowest: {slowest}" * (len(totals["slowest"]) > 1)


def coverage() -> dict[str, Any] | None:
    """The installed list of random faults and the claims that detect them; None if it is missing."""
    path = Path(__file__).with_name(COVERAGE)
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def detection(rows: Sequence[Mapping[str, Any]]) -> str:
    """Describe how many random faults the claims detect, and the rate that this predicts for new faults."""
    from scipy import stats

    seen, run = sum(bool(row["claims"]) for row in rows), sum(bool(row["running"]) for row in rows)
    broken = sum(bool(row["raised"] and not row["claims"]) for row in rows)
    low, high = (100.0 * end for end in stats.binomtest(seen, len(rows)).proportion_ci(method="wilson"))
    return (
        f"Of {len(rows)} random bugs injected into the code, {run} lie in code that claims run. "
        f"Claims caught {seen + broken} of them: {seen} made a claim fail, {broken} crashed its measurement. "
        f"Expect {low:.0f} to {high:.0f} % of new bugs to make a claim fail. Unit tests look for the others."
    )


def families(verdicts: Sequence[Verdict]) -> list[tuple[str, list[Verdict]]]:
    """Group verdicts by the family of their claim, which is the first word of its id, in order."""
    members: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        members.setdefault(verdict.id.partition("/")[0], []).append(verdict)
    return list(members.items())


def measured(row: Comparison | Verdict) -> str:
    """Format a measurement and half its interval, with enough digits to compare it with the prediction."""
    if not math.isfinite(row.measured):
        return "diverged" if row.reason == "diverged" else "—"
    return measurement(row.measured, (row.high - row.low) / 2.0, row.predicted)


def rate(value: float) -> str:
    """Format a probability, and a very small probability as a bound.

    >>> rate(0.0004), rate(1e-30), rate(0.0)
    ('0.0004', 'below 1e-06', '0')
    """
    if not math.isfinite(value):
        return "—"
    return "below 1e-06" if 0.0 < value < 1e-6 else f"{value:.2g}"


def point_text(point: Mapping[str, Any]) -> str:
    """Format the parameters of a point on one line."""
    return ", ".join(f"{key} = {x:.6g}" if isinstance(x, float) else f"{key} = {x}" for key, x in point.items())


def status(verdicts: Sequence[Verdict], bets: Mapping[str, evidence.Evidence] | None = None) -> int:
    """Exit status of `verify`: 1 for a violated claim or a missed bug, 3 for an undecided verdict, else 0."""
    violated = [v.id for v in verdicts if v.verdict == "violated" and (not bets or math.isnan(v.p))]
    if violated or evidence.against(bets or {}) or missed(verdicts):
        return VIOLATED
    return HELD if all(v.verdict in SUCCESSES for v in verdicts) else INCONCLUSIVE


def missed(verdicts: Sequence[Verdict]) -> list[str]:
    """Injected bugs that did not change their claim's verdict, as "claim: bug", without claims that have no verdict."""
    decided = [v for v in verdicts if v.verdict != "inconclusive"]
    return [f"{v.id}: {d['name']}" for v in decided for d in v.defects if d["verdict"] != "violated"]


def table(verdicts: Sequence[Verdict], width: int, bets: Mapping[str, evidence.Evidence] | None = None) -> list[str]:
    """Table of claims in terminal markup: each claim's comparison of smallest margin, or all of a single claim."""
    from rich.markup import escape

    rows = [["claim", "verdict", "quantity", "predicted", "measured"]]
    for v in sorted(verdicts, key=lambda each: each.verdict in SUCCESSES):
        rows.append([v.id, v.verdict, v.quantity, number(v.predicted), measured(v)])
        rows[-1] += ["—" if v.id not in bets else f"{bets[v.id].e:.3g}"] if bets else []
    others = [row for v in verdicts[: len(verdicts) == 1] for row in v.points if row.quantity != v.quantity]
    least = {row.quantity: row for row in sorted(others, key=lambda row: -row.margin)}
    for each in [least[name] for name in dict.fromkeys(row.quantity for row in others)][:MANY]:
        rows.append(["", each.verdict, each.quantity, number(each.predicted), measured(each), *[""] * bool(bets)])
    rows[0] += ["e"] * bool(bets)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if sum(widths) + 2 * len(widths) > width >= sum(widths) + 2 * len(widths) - 2 - widths[2]:
        rows, widths = [row[:2] + row[3:] for row in rows], widths[:2] + widths[3:]
    gap = "  " if sum(widths) + 2 * len(widths) <= width else "\n    "
    lines = []
    for row in rows:
        id, word, *numbers = (escape(f"{cell:{wide}}") for cell, wide in zip(row, widths, strict=True))
        color = {"held": "green", "verdict": "default", "violated": "red"}.get(word.strip(), "yellow")
        lines.append(f"{id}  [{color}]{word}[/]{gap}{'  '.join(numbers)}".rstrip())
    return lines


def overview(verdicts: Sequence[Verdict]) -> Any:
    """Table of how many claims of each family held, and which did not; families with such claims come first."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False)
    for name in ("family", "claims", "held", "exceptions"):
        grid.add_column(name, justify="right" if name in ("claims", "held") else "left", overflow="fold")
    for name, members in sorted(families(verdicts), key=lambda each: all(v.verdict == "held" for v in each[1])):
        others = [f"{v.id.partition('/')[2]} {v.verdict}" for v in members if v.verdict != "held"]
        grid.add_row(name, str(len(members)), str(len(members) - len(others)), "; ".join(others))
    return grid


def lines(page: Page, verbose: bool = False, said: Sequence[Any] = ()) -> list[str]:
    """Summary lines: reasons, then counts of claims by verdict (of formulas if a paper `said` them), and seconds."""
    verdicts = page.verdicts
    held, loose, untested = (sum(v.verdict == word for v in verdicts) for word in SUCCESSES)
    every = f", {rate(page.summary['false_fail_of_all'])} in sum" * (len(verdicts) > 1)
    rates = f"false fail <= {FALSE_FAIL:g} each{every}, false pass <= {FALSE_PASS:g}"
    beyond = page.summary["counts"]["outside"]
    others = f", {loose} hold{'s' * (loose == 1)} without being tight" * bool(loose)
    others += f", {beyond} outside" * bool(beyond)
    others += f", {untested} hold without a test against defects" * bool(untested)
    brief = len(verdicts) > MANY and not verbose
    reasons = [f"{v.id}: {v.reason}" for v in verdicts if v.verdict in (LOOSE, UNTESTED) and not brief]
    counts = ", ".join(f"{number} {name}" for name, number in Counter(each.status for each in said).items())
    what, papers = ("formulas", f"; of the claims of the paper above: {counts}") if said else ("claims", "")
    planted = page.summary["defects"]
    turned = f"{planted['caught']} of {planted['planted']} injected bugs changed the verdict to violated"
    return [
        *reasons,
        *[f"measured in {cost(page.summary)}"] * verbose,
        *[turned] * bool(planted["planted"]),
        *["-v prints each claim"] * brief,
        f"{held} of {len(verdicts)} {what} held{others} ({rates}) in {page.summary['seconds']:.1f} s{papers}",
    ]


def together(page: Page) -> str:
    """Probability of any false fail among all claims, before and after Holm's correction, in one line."""
    count = len(page.verdicts)
    chance = rate(page.summary["false_fail_of_all"])
    line = f"P(any false fail among {count} claims) <= {chance}"
    violated = page.summary["counts"]["violated"]
    standing = f": {sum(map(page.stands, page.verdicts))} of {violated} violated stay so" if violated else ""
    least = rate(min(TOGETHER, page.summary["false_fail_of_all"]))
    return f"{line}, after Holm's correction <= {least}{standing}"


def bets(page: Page) -> list[str]:
    """Explain the e-values over many runs, and list the claims that they contradict."""
    if not page.evidence:
        return []
    one = next(iter(page.evidence.values()))
    beyond = (own for own in page.evidence.items() if own[1].greatest >= one.own_limit)
    against = sorted(beyond, key=lambda own: -own[1].greatest)
    return [
        f"e is the wealth of a bettor against a claim over all runs, from 1. For a true claim, it ever reaches "
        f"{one.own_limit:.6g} with probability at most {FALSE_FAIL:g}.",
        f"Any true claim among all ever reaches {one.limit:.6g} with probability at most {evidence.EVER:g}. "
        "A small e is not evidence for a claim.",
        *(f"{id}: {own}" for id, own in against),
    ]


def begun(reasons: Mapping[str, str]) -> list[str]:
    """Sentences on claims whose bets restart, one for each reason to restart."""
    sentences = []
    for reason in dict.fromkeys(reasons.values()):
        ids = [id for id, own in reasons.items() if own == reason]
        more = f" and {len(ids) - NAMED} more" * (len(ids) > NAMED)
        sentences.append(f"bets restarted, since {reason}: {', '.join(ids[:NAMED])}{more}")
    return sentences


def advice(page: Page) -> list[str]:
    """Advice if not all claims held: the decisive claims and points, and how to rule out chance."""
    sentences, verdicts = [], page.verdicts
    for word in ("violated", "inconclusive", "outside"):
        rows = [v for v in verdicts if v.verdict == word]
        for v in rows[:NAMED]:
            points: Sequence[Comparison] = [row for row in v.points if row.verdict == v.verdict] or v.points
            least = min(points, key=lambda each: each.margin, default=None)
            # Of the comparison with the minimum margin; the table of few claims has its numbers.
            line = least and (least.reason if len(verdicts) <= MANY else str(least).removeprefix(f"{least.verdict}: "))
            where = f" at {point_text(least.point)}{f': {line}' * bool(line)}" if least else ""
            sentences += [f"{word}: {v.id}{where}", *(others(v) if word == "violated" else [])]
            sentences += [f"  {page.beside(v)}"] * (word == "violated")
        sentences += [f"{word}: {len(rows) - NAMED} claims more"] * (len(rows) > NAMED)
    broken = [v for v in verdicts if v.verdict == "violated"]
    unsure = [v for v in verdicts if v.verdict == "inconclusive" and not math.isnan(v.p)]
    if broken:
        # A command to copy has its own line.
        sentences += [re.sub(": `([^`]*)`$", r":\n  \1", line).replace("`", "") for line in steps(broken[0], page)]
    for v in unsure[:1]:
        own = f"Take more replicates in measure of {v.id}. --size full halves effect, which helps where measure uses it"
        what = own if _registry.own(v.id) else f"Measure again:\n  {_again(v, page)}"
        sentences.append(f"inconclusive does not contradict the claim: the measurement was too coarse. {what}")
    if page.summary["counts"]["outside"]:
        sentences.append("outside says nothing about the claim: change the point as advised to test it.")
    if missed(verdicts):
        sentences.append(f"not caught: {'; '.join(missed(verdicts)[:NAMED])}. These trials overlook such mistakes.")
    return sentences


def others(verdict: Verdict) -> list[str]:
    """Predicted and measured value at every point of a violated claim, if several were measured, and the ratios."""
    rows = [row for row in verdict.points if row.quantity == verdict.quantity and math.isfinite(row.measured)]
    if len(rows) < 2:
        return []
    changing = {key for row in rows for key, x in row.point.items() if x != rows[0].point.get(key)}
    found = [f"  at {point_text({k: row.point[k] for k in row.point if k in changing})}: {row}" for row in rows[:MANY]]
    found += [f"  and {len(rows) - MANY} points more"] * (len(rows) > MANY)
    ratios = ", ".join(f"{row.measured / (row.predicted or math.nan):.3g}" for row in rows[:MANY])
    return [*found, f"  measured / predicted at these points: {ratios}"]


def steps(verdict: Verdict, page: Page) -> list[str]:
    """Steps to take for a violated claim, in order: chance, theory, code, further reading; code is in backticks."""
    id, sentences = verdict.id, []
    if math.isnan(verdict.p):
        sentences.append("neither chance nor theory: a component raised, and nothing was measured.")
    else:
        chance = f"Chance? One in {1 / FALSE_FAIL:.0f} measurements of a true claim gives 'violated'."
        sentences.append(f"{chance} Measure again: `{_again(verdict, page)}`")
        own = f"Your code? Either predict of {id} is wrong, or measure does not run what you intended."
        theory = [
            "Theory? If it stays violated, compare predict(point) and cross_check(point) of "
            f"`sim.claims.claim({id!r})`.",
            f"Code? If those two agree, the measured code is wrong: `asyncsim verify {id} --defects` shows what "
            "this trial notices.",
        ]
        sentences += [own] if _registry.own(id) else theory
    if id in claims.claims():
        trial = claims.trial(id)
        sentences.append(f"Suspects? It runs: {trial.through}. Injected bugs: {'; '.join(trial.defects)}.")
        if not page.at:
            sentences.append(f"Where? `{alone(verdict, page)}` measures only this point.")
    return [*sentences, f"more: {PAGE}"]


def alone(verdict: Verdict, page: Page) -> str:
    """Command that repeats the measurement of a verdict's decisive point; "" for claims of other packages."""
    if verdict.id not in claims.claims():
        return ""
    # From the trial's first point. The first itself has no change, but a command for it needs one.
    rows = [row for row in verdict.points if row.verdict == verdict.verdict] or verdict.points
    worst, first = min(rows, key=lambda row: row.margin).point, claims.trial(verdict.id).points[0]
    changes = {key: value for key, value in worst.items() if value != first.get(key)}
    at = page.at or changes or dict([min(worst.items(), key=str)])
    place = "".join(f" {_option(*each)}" for each in at.items())
    size = " --size full" if page.size == "full" else ""
    return f"asyncsim verify {verdict.id}{place}{f' --seed {page.seed}' if page.seed else ''}{size}"


def _again(verdict: Verdict, page: Page) -> str:
    """The command that measures a claim again at the same point, with another seed and more samples."""
    place = "".join(f" {_option(key, value)}" for key, value in (page.at or {}).items())
    if page.evidence:
        return f"asyncsim verify {verdict.id} --size long"
    return f"asyncsim verify {verdict.id}{place} --seed {page.seed + 1}" + " --size full" * (page.size != "full")


def _option(key: str, value: Any) -> str:
    return f"--at {shlex.quote(f'{key}={value}')}"
