"""Other claims, and sentences that exact results decide: what came out, and the number that decides."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from paper_figures import _claim_map, _claims, _claims_more

DECIDED = (*_claims.SYSTEMS, *_claims_more.CLAIMS)
EXPERIMENTS = _claim_map.experiments(DECIDED)


def draw(*tables: Any) -> Figure:
    """A line a claim, a column a verdict."""
    claims = (*DECIDED, *_claims.exact())
    return _claim_map.draw(claims, tables, "Other claims, verdict, deciding number")


def numbers(*tables: Any) -> dict[str, str]:
    """How many sentences exact results decide."""
    return {"exact": str(len(_claims.exact()))}
