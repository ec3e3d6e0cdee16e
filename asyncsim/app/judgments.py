"""What `asyncsim verify` says of its verdicts: the table, the error rates of all together, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from asyncsim.app import reporting, verifying
from asyncsim.base.records import LOOSE, Comparison, Verdict

SUCCESSES = ("held", LOOSE)
"""Verdicts that leave nothing to do; the second is that of a bound with a term that nothing attains."""
HELD, VIOLATED, INCONCLUSIVE = 0, 1, 3
NAMED = 5
"""Claims that the advice names, at most."""


def status(verdicts: Sequence[Verdict]) -> int:
    """Exit status: 1 where a claim is violated or a planted defect not caught, 3 where one is undecided, else 0."""
    if any(v.verdict == "violated" for v in verdicts) or missed(verdicts):
        return VIOLATED
    return HELD if all(v.verdict in SUCCESSES for v in verdicts) else INCONCLUSIVE


def missed(verdicts: Sequence[Verdict]) -> list[str]:
    """Planted defects that did not turn the verdict of their claim, as "claim: defect"."""
    return [f"{v.id}: {d['name']}" for v in verdicts for d in v.defects if d["verdict"] != "violated"]


def table(verdicts: Sequence[Verdict], defects: bool) -> Any:
    """The comparison with the least margin of each claim."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False)
    # Head the columns.
    for name, justify in (
        ("claim", "left"),
        ("quantity", "left"),
        ("prediction", "right"),
        ("measured [interval]", "left"),
        ("verdict", "left"),
        ("seconds", "right"),
    ):
        grid.add_column(name, justify=justify)  # type: ignore[arg-type]
    if defects:
        grid.add_column("planted defects")
    # Fill a row for each claim.
    for v in verdicts:
        color = {"held": "green", "violated": "red"}.get(v.verdict, "yellow")
        row = [
            v.id,
            v.quantity,
            f"{v.predicted:.6g}",
            f"{v.measured:.6g} [{v.low:.6g}, {v.high:.6g}]",
            f"[{color}]{v.verdict}[/]",
            f"{v.seconds:.1f}",
        ]
        if defects:
            row.append("; ".join(f"{d['name']}: {d['verdict']}" for d in v.defects))
        grid.add_row(*(cell.replace("[", r"\[") if i in (1, 3) else cell for i, cell in enumerate(row)))
    return grid


def lines(verdicts: Sequence[Verdict], defects: bool) -> list[str]:
    """How many claims have which verdict, and the error rates of one and of all together."""
    held, loose = (sum(v.verdict == word for v in verdicts) for word in SUCCESSES)
    rates = f"false fail <= {verifying.FALSE_FAIL:g} each, false pass <= {verifying.FALSE_PASS:g}"
    line = f"{held} of {len(verdicts)} claims held{f', {loose} hold without being tight' * bool(loose)} ({rates})"
    if defects:
        caught = sum(d["verdict"] == "violated" for v in verdicts for d in v.defects)
        line += f"; {caught} of {sum(len(v.defects) for v in verdicts)} planted defects turned their claim to violated"
    chance = reporting.rate(reporting.summary(verdicts)["false_fail_of_all"])
    every = f"chance of any false alarm over all {len(verdicts)} claims: at most {chance}"
    return [line, every, *(f"{v.id}: {v.reason}" for v in verdicts if v.verdict == LOOSE)]


def advice(verdicts: Sequence[Verdict], size: str, seed: int, at: Mapping[str, Any] | None = None) -> list[str]:
    """What to do where not everything held: the claims and points that decide, and how to rule out chance.

    `at`: the parameters of the command's --at.
    """
    sentences = []
    # Name the claims that decide.
    for word in ("violated", "inconclusive", "outside"):
        rows = [v for v in verdicts if v.verdict == word]
        sentences += [f"{word}: {v.id}{_decisive(v)}" for v in rows[:NAMED]]
        sentences += [f"{word}: {len(rows) - NAMED} claims more"] * (len(rows) > NAMED)
    # Separate chance, theory and product.
    broken = [v for v in verdicts if v.verdict == "violated"]
    unsure = [v for v in verdicts if v.verdict not in (*SUCCESSES, "violated")]
    if broken:
        chance, id = 1 / verifying.FALSE_FAIL, broken[0].id
        sentences += [
            f"chance? A true claim is called violated once in {chance:.0f} measurements. Measure again: "
            f"{_again(broken[0], size, seed, at)}",
            f"theory? If it stays violated, compare predict(point) and cross_check(point) of sim.theory.claim({id!r}).",
            f"product? If those two agree, the measured code is wrong: asyncsim verify {id} --defects shows what this "
            "trial notices.",
        ]
    # Suggest remeasuring and missing checks.
    if unsure:
        sentences.append(
            "inconclusive does not contradict the claim: the measurement was too coarse. Measure again: "
            f"{_again(unsure[0], size, seed, at)}"
        )
    if missed(verdicts):
        sentences.append(
            f"not caught: {'; '.join(missed(verdicts)[:NAMED])}. These trials would overlook such a mistake."
        )
    return sentences


def _again(verdict: Verdict, size: str, seed: int, at: Mapping[str, Any] | None) -> str:
    """The command that measures a claim again, at the same point, another seed and with more samples."""
    place = "".join(f" --at {shlex.quote(f'{key}={value}')}" for key, value in (at or {}).items())
    return f"asyncsim verify {verdict.id}{place} --seed {seed + 1}" + " --size full" * (size != "full")


def _decisive(verdict: Verdict) -> str:
    """Where, and by what numbers, a claim came to its verdict: the comparison with the least margin among those."""
    rows: list[Comparison] = [row for row in verdict.points if row.verdict == verdict.verdict] or list(verdict.points)
    if not rows:
        return ""
    row = min(rows, key=lambda each: each.margin)
    return f" at {reporting.point_text(row.point)}: {str(row).removeprefix(f'{row.verdict}: ')}"
