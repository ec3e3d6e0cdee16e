"""Claims of AsymRE (arXiv 2506.20520)."""

from __future__ import annotations

from paper_figures._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
