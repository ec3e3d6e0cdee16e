"""What a report of verdicts has, whatever its form: HTML, Markdown, JSON, or the lines of the command."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from asyncsim import validation
from asyncsim.app.evidence import Evidence
from asyncsim.base import records
from asyncsim.base.notation import measurement

TOGETHER = 0.01
"""Probability that any true claim of a page is violated after Holm's correction."""
SLOWEST = 5
"""Claims whose seconds are named."""
COVERAGE = "coverage.json"
"""Beside this file: small faults at places drawn by chance, and which claim sees each."""


@dataclass(frozen=True)
class Page:
    """Verdicts with what belongs to all of them together.

    `manifest`: what they were measured on. `at`: parameters that replaced those of the claim's first point. `evidence`:
    claim id to its bets over runs, where there are any. `coverage`: faults drawn by chance and what sees them, None
    where they were not measured.
    """

    verdicts: Sequence[records.Verdict]
    manifest: Mapping[str, Any]
    at: Mapping[str, Any] | None = None
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    coverage: Mapping[str, Any] | None = None

    @cached_property
    def holm(self) -> dict[str, float]:
        """Holm's adjusted p-value of each claim."""
        return validation.holm({v.id: v.p for v in self.verdicts})

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Counts, rates and seconds, as in `summary`."""
        return summary(self.verdicts)

    @property
    def size(self) -> str:
        """How much was measured."""
        return str((self.manifest.get("spec") or {}).get("size", "quick"))

    @property
    def seed(self) -> int:
        """The seed of every measurement."""
        return int(self.manifest.get("seed") or 0)

    def stands(self, verdict: records.Verdict) -> bool:
        """Whether a claim is violated, and after Holm's correction too."""
        return verdict.verdict == "violated" and self.holm[verdict.id] <= TOGETHER

    def beside(self, verdict: records.Verdict) -> str:
        """What Holm's correction says of a violated claim; nothing of the others."""
        if verdict.verdict != "violated" or math.isnan(verdict.p):
            return ""
        if self.stands(verdict):
            return "violated, and also after Holm"
        pages = 1.0 / max(self.summary["false_fail_of_all"], records.ANY)
        return f"violated by its own rate only: expected once in {pages:.0f} such pages; ask again with --seed"

    def json(self) -> dict[str, Any]:
        """The JSON object: a row for each claim, what holds of all, faults drawn by chance, the manifest."""
        rows = []
        for verdict in self.verdicts:
            row = verdict.row() | {"holm": self.holm[verdict.id], "stands": self.stands(verdict)}
            evidence = self.evidence.get(verdict.id)
            rows.append(row if evidence is None else row | {"evidence": evidence.row()})
        together = {"together": TOGETHER, "stand": sum(map(self.stands, self.verdicts))}
        return {
            "claims": rows,
            "summary": self.summary | together,
            "coverage": None if self.coverage is None else [*self.coverage["rows"]],
            "manifest": dict(self.manifest),
        }


def summary(verdicts: Sequence[records.Verdict]) -> dict[str, Any]:
    """Counts and error rates: `counts` by verdict, `false_fail` of one and of all, `false_pass`, defects caught.

    `seconds` of all claims, `slowest` with those of a few.
    """
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
        planted = [defect for v in verdicts for defect in getattr(v, kind)]
        totals[kind] = {"planted": len(planted), "caught": sum(defect["verdict"] == "violated" for defect in planted)}
    return totals


def cost(totals: Mapping[str, Any]) -> str:
    """Seconds of all claims, and of the slowest where there are several."""
    slowest = ", ".join(f"{id} {seconds:.1f}" for id, seconds in totals["slowest"].items())
    return f"{totals['seconds']:.1f} s" + f" over all claims; slowest: {slowest}" * (len(totals["slowest"]) > 1)


def coverage() -> dict[str, Any] | None:
    """The faults drawn by chance that are installed with what sees them; None where there are none."""
    path = Path(__file__).with_name(COVERAGE)
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def detection(rows: Sequence[Mapping[str, Any]]) -> str:
    """What claims see of faults at places drawn by chance, and the share of new ones that this lets expect."""
    from scipy import stats

    seen, run = sum(bool(row["claims"]) for row in rows), sum(bool(row["running"]) for row in rows)
    broken = sum(bool(row["raised"] and not row["claims"]) for row in rows)
    low, high = (100.0 * end for end in stats.binomtest(seen, len(rows)).proportion_ci(method="wilson"))
    return (
        f"Of {len(rows)} small faults at places drawn by chance from the whole package, claims may run {run}. "
        f"They contradict {seen}, and {broken} more break a measurement off. "
        f"Expect a claim to be violated by {low:.0f} to {high:.0f} % of new faults; tests look for the others."
    )


def families(verdicts: Sequence[records.Verdict]) -> list[tuple[str, list[records.Verdict]]]:
    """Verdicts by the first word of their id, in order."""
    members: dict[str, list[records.Verdict]] = {}
    for verdict in verdicts:
        members.setdefault(verdict.id.partition("/")[0], []).append(verdict)
    return list(members.items())


def measured(row: records.Comparison | records.Verdict) -> str:
    """A measurement with half of its interval, in figures that compare with the prediction's."""
    if not math.isfinite(row.measured):
        return "diverged" if row.reason == "diverged" else "—"
    return measurement(row.measured, (row.high - row.low) / 2.0, row.predicted)


def rate(value: float) -> str:
    """A probability in words, a very small one as a bound.

    >>> rate(0.0004), rate(1e-30), rate(0.0)
    ('0.0004', 'below 1e-06', '0')
    """
    if not math.isfinite(value):
        return "—"
    return "below 1e-06" if 0.0 < value < 1e-6 else f"{value:.2g}"


def point_text(point: Mapping[str, Any]) -> str:
    """The parameters of a point on one line."""
    return ", ".join(
        f"{key} = {value:.6g}" if isinstance(value, float) else f"{key} = {value}" for key, value in point.items()
    )
