"""Claims of staleness and learning rate (arXiv 2607.01083)."""

from __future__ import annotations

from paper_figures._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
