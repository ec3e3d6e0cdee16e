"""Claims at points up to three times beyond typical: `python -m tests.claims.far --seed N [CLAIM ...]`.

Part of `make test-long`. For each claim `POINTS` are drawn (`tests.theory.drawing.far`) and verified at the quick
size. Stated beforehand: a true claim is violated at a point with probability at most 1e-3, so two of 2,000 by chance. A
violated point is measured at two more seeds at the full size. It counts if it is violated at all three, by chance once
in a billion points. No point may count, none may break off, both routes to each prediction must agree, and less than
`OUTSIDE` of all may be outside. A wrong product is missed where a point is undecided or outside; planted defects say
what each trial sees at its own points.

Rows go to build/far/SEED.jsonl as claims end, so that a stopped command goes on; a claim whose trial or formula changed
is measured anew.
"""

import argparse
import json
import math
import os
import secrets
import sys
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim import claims
from asyncsim.app import verifying
from asyncsim.app.evidence import digest_of
from asyncsim.base import workers
from asyncsim.base.records import Verdict, plain
from tests.theory import drawing

POINTS, OUTSIDE = 14, 0.2
AGAIN = (1 << 40, 1 << 41)
"""Distances to the seeds at which a violated point is measured again."""
FOLDER = Path(__file__).parents[2] / "build" / "far"


def judged(id: str, seed: int, points: int) -> list[dict[str, Any]]:
    """A row for each point of a claim: its verdict, and those of the repetitions where it was violated."""
    # Of runs too short for their staleness, which is as it was asked for.
    warnings.simplefilter("ignore")
    rows = []
    for number in range(points):
        own = [seed, zlib.crc32(id.encode()), number]
        point = drawing.far(id, np.random.default_rng(own))
        start, key = time.process_time(), int(np.random.SeedSequence(own).generate_state(1)[0])
        verdict = verifying.verify_one(id, seed=key, at=point)
        again = [
            verifying.verify_one(id, "full", seed=key + distance, at=point)
            for distance in AGAIN
            if verdict.verdict == "violated"
        ]
        rows.append(_row(id, number, point, verdict) | {
            "again": [each.verdict for each in again],
                "routes": _routes(id, point),
            "seconds": round(time.process_time() - start, 2),
            "digest": digest_of(id),
        })  # fmt: skip
    return rows


def _routes(id: str, point: dict[str, Any]) -> float:
    """By how much both routes to the prediction differ, over what rounding may leave: at most 1 where they agree."""
    claim, given = claims.claim(id), {name: value for name, value in point.items() if value is not None}
    first, second = claim.predict(given), claim.cross_check(given)
    left = [abs(first[n] - second[n]) / (1e-10 * scale + 1e-12) for n, scale in drawing.norms(first).items()]
    return max(left) if list(first) == list(second) else math.inf


def _row(id: str, number: int, point: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
    decisive = {"quantity": verdict.quantity, "predicted": verdict.predicted, "measured": verdict.measured}
    return plain({"id": id, "number": number, "point": point, "verdict": verdict.verdict, "reason": verdict.reason}) | (
        plain(decisive) if verdict.verdict == "violated" else {}
    )


def counts(row: dict[str, Any]) -> bool:
    """Whether a row contradicts its claim: violated at every seed, broken off, or two routes to one number differ."""
    broken = row["reason"].startswith(verifying.BROKEN) or not row["routes"] <= 1.0
    return broken or (row["verdict"] == "violated" and set(row["again"]) <= {"violated"})


def report(rows: Sequence[dict[str, Any]]) -> tuple[list[str], bool]:
    """Lines on all rows, and whether they are as they should be."""
    lines = [f"{'family':12} {'points':>6} {'held':>6} {'undecided':>9} {'outside':>7} {'violated':>8} {'CPU s':>7}"]
    families: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        families.setdefault(row["id"].partition("/")[0], []).append(row)
    for name, own in [*sorted(families.items()), ("all", list(rows))]:
        words = Counter(row["verdict"] for row in own)
        held, seconds = words["held"] + words["holds, not tight"], sum(row["seconds"] for row in own)
        lines.append(
            f"{name:12} {len(own):6} {held:6} {words['inconclusive']:9} {words['outside']:7} {words['violated']:8} "
            f"{seconds:7.0f}"
        )
    share = sum(row["verdict"] == "outside" for row in rows) / len(rows)
    lines.append(f"outside: {100.0 * share:.1f} % of {len(rows)} points (below {100.0 * OUTSIDE:.0f} % wanted)")
    bad = [row for row in rows if counts(row)]
    for row in rows:
        if row["again"] or counts(row):
            word = "CONTRADICTED" if counts(row) else "by chance"
            lines.append(f"{word}: {row['id']} number {row['number']}, again {row['again']}: {json.dumps(row)}")
    slowest = sorted(rows, key=lambda row: -row["seconds"])[:5]
    lines.append("slowest: " + ", ".join(f"{row['id']} {row['number']} {row['seconds']:.0f} s" for row in slowest))
    return lines, not bad and share < OUTSIDE


def main() -> int:
    """Measure what is not yet measured, print the counts, exit with 1 where a point counts or too many are outside."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("claims", nargs="*", help="default: all")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--points", type=int, default=POINTS)
    parser.add_argument("--workers", type=int, default=int(os.environ.get("WORKERS", "0")) or workers.cores())
    given = parser.parse_args()
    path = FOLDER / f"{given.seed}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    ids = given.claims or verifying.every_claim()
    rows = {id: [row for row in written if (row["id"], row["digest"]) == (id, digest_of(id))] for id in ids}
    missing = verifying.kernel_early([id for id in ids if len(rows[id]) != given.points])
    print(f"far points: seed {given.seed}, {len(missing)} of {len(ids)} claims to measure", flush=True)
    calls = ((id, given.seed, given.points) for id in missing)
    for number, made in workers.each("tests.claims.far:judged", calls, given.workers):
        rows[missing[number]] = made
        with path.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in made)
    lines, good = report([row for own in rows.values() for row in own])
    print("\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
