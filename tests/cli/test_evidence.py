"""`asyncsim verify --size long`: seeds that are fresh, bets that add up over runs, a file that no end of a run damages.

Measurements are those of a cheap exact claim with normal noise of known error added, so that a run takes milliseconds.
"""

import dataclasses
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsim import claims
from asyncsim.app import evidence, judgments, verdicts, verifying
from asyncsim.app.evidence import APART, Evidence, Ledger, Run
from asyncsim.base import files
from asyncsim.base.checks import InputError
from asyncsim.claims._trial import SIZES, SPARE
from tests.cli.test_cli import call
from tests.refusals import refused

CLAIM, OTHER = "ess/invariances", "ess/clamp-floor"
ERROR = 5e-4
"""Relative standard error of each number; the wrong constant is 2 percent off."""


@pytest.fixture
def noisy(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Trials with noise that their seed draws; `factor` multiplies what the claim predicts, `fail` stops a claim."""
    knobs: dict[str, Any] = {"factor": 1.0, "fail": None, "measured": []}
    known, formula = claims.trial, claims.claim

    def trial(name: str) -> Any:
        own = known(name)

        def measure(point: Any, effect: float, seed: int, plant: Any) -> Any:
            knobs["measured"].append((name, seed, effect))
            if name == knobs["fail"]:
                raise knobs.get("error", KeyboardInterrupt)
            rng = np.random.default_rng([seed, len(name)])
            exact = formula(name).predict(point)
            return {
                key: evidence_of(value * (1.0 + ERROR * rng.standard_normal()), value) for key, value in exact.items()
            }

        monkeypatch.setattr(own, "measure", measure)
        return own

    def claim(name: str) -> Any:
        own = formula(name)
        return dataclasses.replace(
            own, predict=lambda point: {key: knobs["factor"] * value for key, value in own.predict(point).items()}
        )

    # The suite's seeds are always the same, here too.
    generator = np.random.default_rng(11)
    monkeypatch.setattr(evidence.secrets, "randbelow", lambda most: int(generator.integers(most)))
    monkeypatch.setattr(verifying.claims, "trial", trial)
    monkeypatch.setattr(verifying.claims, "claim", claim)
    yield knobs


def evidence_of(value: float, exact: float) -> Any:
    from asyncsim.base.records import Estimate

    return Estimate(value, ERROR * abs(exact) or 1e-12)


def long(tmp_path: Path, *claims: str, **changes: Any) -> tuple[dict[str, Any], int]:
    """One run of the long size."""
    request = verdicts.Request(claims or (CLAIM,), verdicts.LONG, evidence=tmp_path / "evidence.json", **changes)
    return verdicts.verify(request, tmp_path / "report.html")


def runs(tmp_path: Path, name: str = CLAIM) -> tuple[Run, ...]:
    return Ledger(tmp_path / "evidence.json").processes(1)[name].runs


def test_runs_add_up_at_seeds_of_their_own(tmp_path: Path, noisy: dict[str, Any]) -> None:
    for count in (1, 2, 3):
        result, status = long(tmp_path, CLAIM, OTHER)
        assert status == 0 and {row["evidence"]["runs"] for row in result["claims"]} == {count}
        (row, _) = result["claims"]
        assert row["evidence"]["e"] == runs(tmp_path)[-1].e and runs(tmp_path)[-1].p == row["p"]
    seeds = [run.seed for run in runs(tmp_path)]
    assert len(set(seeds)) == 3 and {seed for _, seed, _ in noisy["measured"]} == set(seeds)
    # All points of the full size, at half the effect.
    points = len(claims.trial(CLAIM).at("full"))
    assert sum(name == CLAIM for name, _, _ in noisy["measured"]) == 3 * points
    assert noisy["measured"][0][2] == SPARE["full"] * SIZES["full"] * claims.trial(CLAIM).effect


def test_a_wrong_constant_reaches_the_limit_within_a_few_runs(tmp_path: Path, noisy: dict[str, Any]) -> None:
    """2 percent off, forty standard errors: the first runs bring the bet above the limit of all claims.

    A right claim's bets stay below it but for a rate of 0.01 ever.
    """
    for _ in range(3):
        assert long(tmp_path)[1] == 0
    noisy["factor"] = 1.02
    _, status = long(tmp_path)
    assert status == 1
    result, status = long(tmp_path)
    assert status == 1 and result["claims"][0]["evidence"]["word"] == "against the claim"
    assert result["claims"][0]["evidence"]["greatest"] > 1e6
    # It stays so when the claim is right again: the most that the bet ever was decides.
    noisy["factor"] = 1.0
    assert long(tmp_path)[1] == 1


def test_one_violated_run_is_undecided_where_the_bets_are_low(tmp_path: Path, noisy: dict[str, Any]) -> None:
    """A p-value of some 1e-4 in one of many nights is expected; only the bets over all of them decide."""
    assert long(tmp_path)[1] == 0
    made = verifying.verify_one(CLAIM)
    odd = dataclasses.replace(made, verdict="violated", p=2e-4)
    low = Evidence("0.1.0", "x", (Run(1, 2e-4, 40.0),), 114)
    assert judgments.status([odd], {CLAIM: low}) == 3 and judgments.status([odd]) == 1
    high = Evidence("0.1.0", "x", (Run(1, 0.0, 11_401.0), Run(2 * APART, 1.0, 4.0)), 114)
    assert judgments.status([made], {CLAIM: high}) == 1
    alone = Evidence("0.1.0", "x", (Run(1, 0.0, 1_001.0),), 114)
    assert judgments.status([made], {CLAIM: alone}) == 0 and "its own limit only" in str(alone)


@pytest.mark.parametrize("distance", [0, 1, -1, APART - 1])
def test_a_seed_that_was_used_or_lies_close_to_one_is_refused(
    tmp_path: Path, noisy: dict[str, Any], distance: int
) -> None:
    """Trials draw at the seeds behind theirs too, so neighbors share draws; an `APART` is enough."""
    seed = 5 * APART
    long(tmp_path, seed=seed)
    before = (tmp_path / "evidence.json").read_bytes()
    with pytest.raises(InputError, match="--seed") as refusal:
        long(tmp_path, CLAIM, OTHER, seed=seed + distance)
    assert CLAIM in str(refusal.value) and "leave out --seed" in str(refusal.value)
    assert (tmp_path / "evidence.json").read_bytes() == before
    # Another claim is free to use it, and so is this one at some distance.
    assert long(tmp_path, OTHER, seed=seed + distance)[1] == 0
    assert long(tmp_path, seed=seed + APART)[1] == 0


def test_seeds_of_trials_reach_less_far_than_seeds_are_apart() -> None:
    """No trial adds more than some thousands to its seed: a hundred times each number added in the sources is less."""
    for path in Path(claims.__file__).parent.rglob("*.py"):
        for number in re.findall(r"seed \+ (\d+)", path.read_text(encoding="utf-8")):
            assert int(number) * 100 < APART, path


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("killed")])
def test_a_run_that_ends_in_the_middle_loses_nothing_and_the_next_begins_with_the_rest(
    tmp_path: Path, noisy: dict[str, Any], error: Any
) -> None:
    noisy.update(fail=OTHER, error=error)
    assert long(tmp_path, CLAIM, OTHER)[1] == (130 if error is KeyboardInterrupt else 1)
    (kept,) = runs(tmp_path)
    assert OTHER not in Ledger(tmp_path / "evidence.json").processes(1)
    noisy.update(fail=None, measured=[])
    result, status = long(tmp_path, CLAIM, OTHER)
    assert status == 0 and noisy["measured"][0][0] == OTHER
    assert runs(tmp_path)[0] == kept and len(runs(tmp_path)) == 2 and len(runs(tmp_path, OTHER)) == 1
    assert [row["id"] for row in result["claims"]] == [CLAIM, OTHER]
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".json"] == ["evidence.json"]


def test_a_changed_trial_and_another_version_begin_anew_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "evidence.json"
    ledger = Ledger(path, digest=lambda id: "first")
    ledger.add(CLAIM, 0, 1e-9)
    changed = Ledger(path, digest=lambda id: "second")
    changed.add(CLAIM, 5 * APART, 0.5)
    assert changed.begun == {CLAIM: "its code changed"} and ledger.begun == {}
    assert changed.processes(1)[CLAIM].greatest < 1.0 and len(changed.processes(1)[CLAIM].runs) == 1
    monkeypatch.setattr(evidence, "version_of", lambda name: "9.9")
    newer = Ledger(path, digest=lambda id: "second")
    newer.add(CLAIM, 9 * APART, 0.5)
    assert "became 9.9" in newer.begun[CLAIM] and judgments.begun(newer.begun) == [
        f"bets restarted, since {newer.begun[CLAIM]}: {CLAIM}"
    ]
    # Seeds of earlier processes stay used.
    refused("--seed", newer.fresh, [CLAIM], 3)


def test_commands_that_write_at_the_same_time_lose_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three writers, each of which takes a while between reading and writing."""
    read = Ledger._read

    def slowly(self: Ledger) -> Any:
        whole = read(self)
        time.sleep(0.01)
        return whole

    monkeypatch.setattr(Ledger, "_read", slowly)
    ledgers = [Ledger(tmp_path / "e.json", digest=lambda id: "x") for _ in range(3)]

    def write(k: int) -> None:
        for run in range(3):
            ledgers[k].add(CLAIM, (3 * k + run) * 2 * APART, 0.5)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(write, range(3)))
    assert sorted(run.seed for run in ledgers[0].processes(1)[CLAIM].runs) == [2 * k * APART for k in range(9)]
    # One that is held for too long is said in a line.
    monkeypatch.setattr(evidence, "PATIENCE", 0.05)
    with files.locked(ledgers[0].lock, RuntimeError()), pytest.raises(InputError, match="by one command at a time"):
        ledgers[0].add(CLAIM, 99 * APART, 0.5)


def test_a_digest_follows_the_code_of_trial_and_formula_and_what_they_run_not_its_comments(edited: Any) -> None:
    fresh = evidence.digest_of.__wrapped__
    assert fresh(CLAIM) == evidence.digest_of(CLAIM) != evidence.digest_of(OTHER)
    own = ".".join(
        ["asyncsim", *claims.claims()[CLAIM].relative_to(Path(claims.__file__).parents[1]).with_suffix("").parts]
    )
    changes = {
        "docstring": (own, '"""', '"""Other words. '),
        "a number of the trial": (own, "800.0, 1e-8, 1e-10", "800.0, 1e-8, 1e-9"),
        "what it imports": ("asyncsim.claims._trial", "FALSE_FAIL, FALSE_PASS = 1e-3", "FALSE_FAIL, FALSE_PASS = 1e-4"),
        "what it does not reach": ("asyncsim.systems.families", "return", "assert True; return"),
    }
    digests = {name: edited(change, lambda: fresh(CLAIM)) for name, change in changes.items()}
    same = {name for name, digest in digests.items() if digest == fresh(CLAIM)}
    assert same == {"docstring", "what it does not reach"} and len(set(digests.values())) == 3


def test_a_file_that_was_changed_or_is_another_is_refused_by_name(tmp_path: Path, noisy: dict[str, Any]) -> None:
    long(tmp_path)
    path = tmp_path / "evidence.json"
    whole = json.loads(path.read_text())
    whole["claims"][CLAIM][0]["runs"][0][2] *= 2.0
    for text in (json.dumps(whole), '{"kind": "other", "format": 1, "claims": {}}', "{}", "[", '{"kind": 3}'):
        path.write_text(text)
        refused(r"evidence", long, tmp_path)
        assert path.read_text() == text


def test_the_command_says_what_an_e_value_means_and_refuses_what_does_not_fit(
    tmp_path: Path, noisy: dict[str, Any]
) -> None:
    where = ["--report", tmp_path / "r.md", "--evidence", tmp_path / "e.json", "--json", tmp_path / "v.json"]
    result = call("verify", CLAIM, "--size", "long", *where)
    assert result.exit_code == 0, result.output + result.stderr
    assert "For a true claim, it ever reaches 1000 with probability at most 0.001." in result.output
    assert "A small e is not evidence for a claim." in result.output
    row = json.loads((tmp_path / "v.json").read_text())["claims"][0]["evidence"]
    assert row["limit"] == pytest.approx(100 * len(verifying.every_claim())) and row["own_limit"] == 1000
    seed = json.loads((tmp_path / "v.json").read_text())["manifest"]["seed"]
    assert f"(seed {seed})" in result.output
    again = call("verify", CLAIM, "--size", "long", "--seed", seed, *where)
    assert again.exit_code == 2 and f"--seed = {seed}: must be" in again.stderr
    quick = call("verify", CLAIM, *where)
    assert quick.exit_code == 2 and "must be used with --size long" in quick.stderr
    other = call("verify", CLAIM, "--size", "long", "--at", "factor=3.5", *where)
    assert other.exit_code == 2 and "left out beside --size long" in other.stderr
