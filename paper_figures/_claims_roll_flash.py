"""Claims of ROLL Flash (arXiv 2510.11345)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "ROLL Flash")
_claim = partial(Claim, "ROLL Flash")
CLAIMS = (
    _claim(
        "2.24 times faster on reasoning",
        "under conditions",
        "{roll_flash:long_2} times at ratio 2, {roll_flash:long_4} at 4",
        "roll_flash",
        when="long-tailed lengths; equal ones lose",
    ),
    _claim(
        "2.72 times faster on agentic tasks",
        "under conditions",
        "{roll_flash:agentic_2} times at ratio 2, {roll_flash:agentic_4} at 4",
        "roll_flash",
        when="long-tailed lengths, and environments that free their place",
    ),
    _claim(
        "Modest asynchrony has nearly all of the gain",
        "under conditions",
        "{roll_flash:most} % of it at ratio {roll_flash:mild_enough}, long tails {roll_flash:long_enough}",
        "roll_flash",
        when="lengths that spread little",
    ),
    _claim(
        "Off-policy methods end on par with synchronous",
        "under conditions",
        "{roll_returns:equal} of {roll_returns:judged} equal; without a correction {roll_returns:bare}",
        "roll_returns",
        when="tasks that training solves, at the end",
    ),
)
ITEMS: tuple[Item, ...] = ()
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
