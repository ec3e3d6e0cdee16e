"""Claims on limits, gates, replay and actor-critics, and those that papers share: what came out, and its number."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from paper_figures import _claim_map, _claims

EXPERIMENTS = _claim_map.experiments(_claims.BASELINES)


def draw(*tables: Any) -> Figure:
    """A line a claim, a column a verdict."""
    return _claim_map.draw(_claims.BASELINES, tables, "Claims on baselines, verdict, deciding number")


def numbers(*tables: Any) -> dict[str, str]:
    """How many claims these are."""
    return {"claims": str(len(_claims.BASELINES))}
