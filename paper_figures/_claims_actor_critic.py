"""Claims of A2C, A3C and PPO (arXiv 1602.01783, 1707.06347) on stale data."""

from __future__ import annotations

from paper_figures._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
