"""Arms of an experiment, each at its own best learning rate: `sim.compare` as rows, one for each arm."""

from __future__ import annotations

import math
from typing import Any

import asyncsim as sim
from asyncsim.base.checks import InputError

COLUMNS = [
    *("arm", "word", "difference", "low", "high", "mean", "end", "end_error", "rate", "tried", "diverged"),
    *("replicates", "reason"),
]


def rows(arms: dict[str, sim.Spec], base: str, **choices: Any) -> list[dict[str, Any]]:
    """Every arm beside `base`, the first: the same grid of rates, best ones on other seeds, never at an edge.

    `word` says whether an arm is better, worse or equal; `difference` with `low` and `high` by how much, an interval
    that counts all looks and arms. `reason`: why there is no word, where the best rate stays at an edge.
    """
    arms, reasons = dict(arms), {}
    while True:
        try:
            found = sim.compare(arms, **choices).tasks[0]
            break
        except InputError as refusal:
            # An arm whose best rate stays at an edge has no place in a comparison at best rates.
            arm = next((name for name in arms if refusal.field == f"best adam.lr of arm {name}"), base)
            if arm == base:
                raise
            reasons[arm] = str(refusal)
            arms.pop(arm)
    pairs = {pair.arm: pair for pair in found.pairs}
    rows: list[dict[str, Any]] = [{"arm": arm, "reason": reason} for arm, reason in reasons.items()]
    for each in found.arms:
        row = {"arm": each.name, "mean": each.mean, "end": each.end, "end_error": each.end_error}
        row |= {"rate": each.tuned.chosen, "tried": len(each.tuned.grid), "diverged": each.diverged}
        if each.name in pairs:
            last = pairs[each.name].last
            row |= {"word": last.word, "difference": last.difference, "low": last.low, "high": last.high}
            row |= {"replicates": last.replicates}
            if math.isinf(pairs[each.name].pairing) and last.difference == 0.0:
                row |= {"word": "equal", "low": 0.0, "high": 0.0, "reason": f"the same as {base} in every replicate"}
        rows.append(row)
    return [{name: row.get(name) for name in COLUMNS} for row in rows]
