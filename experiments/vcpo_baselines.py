"""What does the off-policy optimal baseline do to the variance of a stale batch's gradient, and what to its mean?

A bandit over tokens that follow the previous one, paid by the share of tokens 0. The current policy is the end of a
path along the exact gradient, the batch (one group of `batch` sequences) is written by the policy `staleness` steps
earlier on it; `deviation` is that of the sequences' log ratio under it, in nats. The gradient has the sequence ratio,
truncated at `cap` where one is given. All baselines (`arm`) see the same batches; "best constant" is the number that
OPOB estimates from the batch, given from outside (exact, or of held-out sequences). `case` "short": 3 tokens of 2
kinds, where `source` "exact" enumerates every batch (`oracle.moments`); "long": 64 tokens of 4 kinds.

Quantities, pure numbers, with 95 percent jackknife intervals over `samples` batches that arms share:
variance  tr Cov g over that of the group mean
length    <E g, G>/|G|^2, the length of the mean along the exact gradient G; 1 where there is no bias
cosine    between E g and G
noise     tr Cov g/|E g|^2 over that of the group mean: the variance once every arm's mean has the same length
worth     <E g, G>^2/(E|g|^2 |G|^2), with the sign of <E g, G>: what the best-tuned step along a batch's gradient gains
          on a smooth objective, over what the exact gradient gains
`heaviest`: share of one batch in the sum of |g|^2, of the worst arm; above a tenth, moments rest on batches that are
hardly ever drawn. Where a mean is not told from 0, cosine and noise are missing, with a `reason`.
"""

from __future__ import annotations

import math
from typing import Any

from experiments._vcpo_estimators import MEASURES, Cell, heaviest, measured

COLUMNS = [
    "case", "cap", "batch", "staleness", "seed", "deviation", "arm", "source", "quantity", "value", "low", "high",
    "samples", "heaviest", "reason",
]  # fmt: skip
CAP = 8.0
_SHORT = {
    "case": "short", "actions": 2, "sticky": 0.5, "spread": 0.5, "updates": 64, "path_length": 3, "step": 0.04,
    "length": 3, "cap": None, "samples": 4, "exact": True, "seed": 1,
}  # fmt: skip
_LONG = {
    "case": "long", "actions": 4, "sticky": 1.5, "spread": 0.5, "updates": 64, "path_length": 64, "step": 0.05,
    "length": 64, "exact": False, "seed": 1,
}  # fmt: skip
LEVELS = (0, 4, 8, 16, 24, 32, 40)


def _long(cap: float | None, samples: int, replicates: int, levels: tuple[int, ...] = LEVELS) -> dict[str, Any]:
    return {**_LONG, "cap": cap, "samples": samples, "stalenesses": levels, "replicates": replicates}


SETTINGS = [
    {**_SHORT, "stalenesses": (0, 8, 16, 32, 48, 64), "replicates": 1 << 15},
    *(_long(cap, samples, (1 << 18) // samples) for cap, samples in ((None, 8), (CAP, 64), (None, 64))),
    *({**_long(CAP, 64, 1 << 12, (32,)), "seed": seed} for seed in (2, 3, 4)),
]
QUICK = [
    {**_SHORT, "stalenesses": (0, 32, 64), "replicates": 1 << 10},
    _long(None, 8, 256, (0, 16, 32)),
    _long(CAP, 64, 256, (0, 8, 16, 32)),
    _long(None, 64, 256, (32,)),
    {**_long(CAP, 64, 128, (32,)), "seed": 2},
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one case, size and cap at several stalenesses."""
    rows = []
    for staleness in setting["stalenesses"]:
        cell = Cell({**setting, "staleness": staleness})
        shared = {**dict.fromkeys(COLUMNS), **{name: setting[name] for name in ("case", "cap", "seed")}}
        shared |= {"batch": setting["samples"], "staleness": staleness, "deviation": cell.law.deviation}
        arms = cell.arms()
        gradients = cell.gradients(arms)
        sampled = {**shared, "source": "sampled", "samples": setting["replicates"], "heaviest": heaviest(gradients)}
        for arm, found in measured(gradients, cell.truth).items():
            rows += [{**sampled, "arm": arm, **_row(name, *found[name])} for name in MEASURES]
        if setting["exact"]:
            for arm, values in cell.exact(arms).items():
                exact = {**shared, "source": "exact", "arm": arm}
                rows += [{**exact, **_row(name, float(values[name]))} for name in MEASURES]
    return rows


def _row(quantity: str, value: float, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    if math.isfinite(value) and (low is None or math.isfinite(low)):
        return {"quantity": quantity, "value": value, "low": low, "high": high}
    return {"quantity": quantity, "reason": "the mean gradient is not told from 0"}
