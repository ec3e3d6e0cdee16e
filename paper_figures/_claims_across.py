"""Claims of papers that share a claim, judged on the same runs."""

from __future__ import annotations

from paper_figures._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
