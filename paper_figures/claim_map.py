"""Claims of papers on methods that figures decide: what came out, and the number that decides."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from paper_figures import _claim, _claim_map, _claims

EXPERIMENTS = _claim_map.experiments(_claims.METHODS)


def draw(*tables: Any) -> Figure:
    """A line a claim, a column a verdict."""
    return _claim_map.draw(_claims.METHODS, tables, "Claims on methods, verdict, deciding number")


def numbers(*tables: Any) -> dict[str, str]:
    """How many claims came out how."""
    names = [each.verdict for each in (*_claims.CLAIMS, *_claims.exact())]
    return {verdict.replace(" ", "_"): str(names.count(verdict)) for verdict in _claim.VERDICTS}
