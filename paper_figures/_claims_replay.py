"""Claims of experience replay for language models (arXiv 2604.08706)."""

from __future__ import annotations

from paper_figures._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
