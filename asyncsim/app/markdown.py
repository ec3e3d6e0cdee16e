"""A page of verdicts as Markdown: a table of all claims, then what is violated, undecided or not tight."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from asyncsim.app import judgments
from asyncsim.app.page import Page, cost, detection, measured, point_text, rate
from asyncsim.base import records
from asyncsim.base.notation import number


def text(page: Page, title: str) -> str:
    """The whole page."""
    parts = [f"# {escaped(title)}", *_head(page), "## Claims", _claims(page)]
    unsettled = [v for v in page.verdicts if v.verdict != "held"]
    if unsettled:
        parts.append("## What is not held")
    for verdict in unsettled:
        parts += _details(verdict, page)
    missed = judgments.missed(page.verdicts)
    if missed:
        parts += ["## Planted defects that were not caught", *_list(missed)]
    if page.coverage is not None:
        parts += _coverage(page.coverage["rows"])
    manifest = json.dumps(records.plain(page.manifest), indent=1, ensure_ascii=False)
    return "\n\n".join([*parts, "## What this was measured on", f"```json\n{manifest}\n```"]) + "\n"


def escaped(words: str) -> str:
    """Text as it is, in a cell too: nothing in it is markup but code between backticks.

    >>> escaped("a*b | `c_d`"), escaped("grad[2]")
    ('a\\\\*b \\\\| `c_d`', 'grad\\\\[2]')
    """
    parts = re.split("(`[^`]*`)", " ".join(words.split()))
    signs = [re.compile(r"([\\|<*_\[])"), re.compile(r"([|])")]
    return "".join(signs[k % 2].sub(r"\\\1", part) for k, part in enumerate(parts))


def _head(page: Page) -> list[str]:
    """Counts, rates, seconds and what the bets mean."""
    counts = page.summary["counts"].items()
    planted = page.summary["defects"]
    lines = [", ".join(f"{count} {word}" for word, count in counts if count or word in ("held", "violated"))]
    lines += [f"{judgments.together(page)}. False pass of those held: {rate(page.summary['false_pass'])} at most."]
    if planted["planted"]:
        lines.append(f"{planted['caught']} of {planted['planted']} planted defects turned their claim to violated.")
    lines += [f"Measured in {cost(page.summary)}.", *judgments.bets(page)]
    return [escaped(line[0].upper() + line[1:]) for line in lines]


def _claims(page: Page) -> str:
    """The table of all claims."""
    heads = ["claim", "verdict", "quantity", "predicted", "measured", "false fail", "false pass", "p", "p after Holm"]
    heads += ["e"] * bool(page.evidence) + ["seconds"]
    rows = []
    for v in page.verdicts:
        rates = [rate(v.false_fail), rate(v.false_pass), rate(v.p), rate(page.holm[v.id])]
        own = page.evidence.get(v.id)
        money = ["—" if own is None else f"{own.e:.3g}"] * bool(page.evidence)
        row = [v.id, v.verdict, v.quantity, number(v.predicted), measured(v), *rates, *money, f"{v.seconds:.1f}"]
        rows.append(row)
    return _table(heads, rows)


def _details(verdict: records.Verdict, page: Page) -> list[str]:
    """A claim that is not held: where, why, and what to do if it is violated."""
    parts = [f"### {verdict.id}: {verdict.verdict}", escaped(verdict.statement)]
    parts += [escaped(word) for word in (page.beside(verdict), verdict.reason) if word]
    worst = [row for row in verdict.points if row.verdict == verdict.verdict]
    if worst:
        heads = ["quantity", "predicted", "measured", "p", "point"]
        rows = [[r.quantity, number(r.predicted), measured(r), rate(r.p), point_text(r.point)] for r in worst]
        parts.append(_table(heads, rows))
    steps = judgments.steps(verdict, page) if verdict.verdict == "violated" else []
    return [*parts, *_list(steps)]


def _coverage(rows: Sequence[dict[str, Any]]) -> list[str]:
    """How many faults drawn by chance are seen, then each with what sees it."""
    each = [[f"{r['file']}:{r['line']}", r["change"], r["text"], ", ".join(r["claims"]) or "—"] for r in rows]
    heads = ["place", "change", "statement", "claim that sees it"]
    return ["## What the claims see", detection(rows), _table(heads, each)]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _list(lines: Sequence[str]) -> list[str]:
    return ["\n".join(f"- {escaped(line)}" for line in lines)] if lines else []
