"""Claims of the delightful policy gradient (arXiv 2603.20521)."""

from __future__ import annotations

from paper_figures._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
