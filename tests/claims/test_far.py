"""Far points: drawn inside the domain and beyond what is typical, and judged so that a wrong formula counts."""

import dataclasses

import numpy as np
import pytest

from asyncsim import claims
from asyncsim.app import verifying
from tests.claims import far
from tests.theory import drawing

CHEAP = "estimator/optimal-baseline"


@pytest.mark.parametrize("id", ["ess/limit", "systems/cap-binds", "systems/mean-staleness-identity", CHEAP])
def test_points_are_inside_the_domain_and_come_out_again(id: str) -> None:
    claim, points = claims.claim(id), [drawing.far(id, np.random.default_rng([3, k])) for k in range(20)]
    again = [drawing.far(id, np.random.default_rng([3, k])) for k in range(20)]
    assert points == again and len({repr(point) for point in points}) == 20
    for point in points:
        assert claim.domain({name: value for name, value in point.items() if value is not None}) is None


def test_points_go_three_times_beyond_what_is_typical_and_no_farther() -> None:
    """Logits are typical up to 2: of 200 points a tenth at least has one beyond 4, none beyond 6."""
    largest = [np.abs(drawing.far("ess/limit", np.random.default_rng(k))["current_logits"]).max() for k in range(200)]
    assert max(largest) <= 6.0 and np.mean(np.array(largest) > 4.0) > 0.1
    typical = [drawing.far("ess/limit", np.random.default_rng(k), most=1.0)["current_logits"] for k in range(50)]
    assert max(np.abs(each).max() for each in typical) <= 2.0


def test_a_true_claim_is_not_contradicted_and_a_wrong_formula_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without sampling there is no false alarm; a formula that is 5 percent off is violated at all three seeds."""
    rows = far.judged(CHEAP, 5, 4)
    assert len(rows) == 4 and not any(map(far.counts, rows)) and "held" in {row["verdict"] for row in rows}
    claim = claims.claim(CHEAP)
    wrong = dataclasses.replace(claim, predict=lambda point: {k: 1.05 * v for k, v in claim.predict(point).items()})
    monkeypatch.setattr(verifying.claims, "claim", lambda name: wrong)
    rows = far.judged(CHEAP, 5, 4)
    assert any(row["again"] == ["violated"] * 2 and far.counts(row) for row in rows)
    assert not far.report(rows)[1]


def test_the_report_counts_what_is_agreed_on_broken_or_too_much() -> None:
    def row(verdict: str, *again: str, reason: str = "") -> dict[str, object]:
        return {
            "id": "ess/limit", "number": 0, "verdict": verdict, "again": list(again), "reason": reason, "seconds": 1.0,
            "routes": 0.0,
        }  # fmt: skip

    good = [row("held")] * 9
    assert far.report([*good, row("violated", "held", "violated"), row("outside")])[1]
    for bad in (
        row("violated", "violated", "violated"),
        row("inconclusive", reason=f"{verifying.BROKEN} KeyError: 'x' (a.py:1)"),
        {**row("held"), "routes": 2.0},
    ):
        lines, fine = far.report([*good, bad])
        assert not fine and any(line.startswith("CONTRADICTED: ess/limit") for line in lines)
    lines, fine = far.report([*good, *[row("outside")] * 3])
    assert not fine and "outside: 25.0 % of 12 points (below 20 % wanted)" in lines
