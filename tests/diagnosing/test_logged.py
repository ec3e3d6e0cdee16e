"""Which distribution a log's staleness follows: logs of systems with a known one, and of one with none."""

import json
import math

import numpy as np
import pytest

import asyncsim as sim
from asyncsim import claims
from asyncsim.base.checks import InputError
from asyncsim.diagnosing import ages, log_law
from tests.cli.test_cli import call, told
from tests.statistics import assert_rate

LINE = "sample_id,group_id,start_version,end_version,train_version,batch\n"


def written(folder, system, batches=400, samples=2, seed=0, drop=0):
    """The log of a system: a row for each trained sample; `drop` start versions are empty."""
    schedule = system.schedule(batches, samples, 1, 1, seed)
    version = schedule.version[0, ..., 0]
    rows = []
    for (b, g, _), v in np.ndenumerate(version):
        start = "" if len(rows) >= version.size - drop else v
        rows.append(f"{len(rows)},{b}-{g},{start},{start},{b // schedule.batches_per_publish},{b}\n")
    path = folder / "log.csv"
    path.write_text(LINE + "".join(rows))
    return path


def law_of(path, staleness=None):
    return log_law(sim.schedules.replay(path, unit="publishes", unknown="keep").log, staleness)


ARRIVALS = sim.systems.update_on_arrival(5)
UNIFORM = sim.schedules.random("uniform:0:4", per="trajectory", groups_per_batch=4)
MIXED = sim.systems.areal(2, 4, length="lognormal:1.0:0.8", load=0.5, model={"rates": (1.0,) * 3 + (0.1,)})


@pytest.mark.parametrize(
    ("system", "cause", "claim", "expected"),
    [
        (sim.systems.fixed_lag(3, 2, length="exponential:1", load=0.5), "constant staleness", "systems/hard-bounds", 3),
        (ARRIVALS, "geometric staleness", "systems/arrivals-per-update", "geometric:4"),
        (UNIFORM, "uniform staleness", "staleness/random-mean", "uniform"),
    ],
    ids=["constant", "geometric", "uniform"],
)
def test_a_known_distribution_is_named_with_its_claim(tmp_path, system, cause, claim, expected):
    path = written(
        tmp_path, system, batches=1500 if system is ARRIVALS else 400, samples=1 if system is ARRIVALS else 2
    )
    found = law_of(path)
    assert (found.verdict, found.cause, found.claim) == ("as predicted", cause, claim)
    assert found.low <= found.predicted[0] <= found.high and claim in claims.claims()
    assert law_of(path, expected).verdict == "as predicted"
    # A planted defect: stamps one version late are another distribution.
    assert law_of(path, "constant:7").verdict == "differs"


def test_a_system_without_a_named_distribution(tmp_path):
    path = written(tmp_path, MIXED)
    found = law_of(path)
    assert (found.verdict, found.cause) == (
        "cannot tell",
        "mixed staleness",
    ) and found.low < found.measured < found.high
    assert law_of(path, "geometric").verdict == "differs" and law_of(path, 2).verdict == "differs"


def test_a_right_expectation_is_rarely_called_wrong(tmp_path):
    """Band of false alarm 1e-6 on 60 logs at a level of 0.01; a geometric one of 4 workers is always excluded."""
    p = [law_of(written(tmp_path, ARRIVALS, 300, 1, seed), "geometric:4").p for seed in range(60)]
    assert_rate(sum(each < ages.FITS for each in p), 60, ages.FITS)
    fewer = sim.systems.update_on_arrival(9)
    assert all(law_of(written(tmp_path, fewer, 300, 1, k), "geometric:4").verdict == "differs" for k in range(10))


def test_unknown_stamps_and_short_logs_cannot_tell(tmp_path):
    found = law_of(written(tmp_path, UNIFORM, 40, 2, drop=3))
    assert found.verdict == "cannot tell" and "3 of 320" in found.sentence and "start_version" in found.action
    found = law_of(written(tmp_path, UNIFORM, 6, 2))
    assert found.verdict == "cannot tell" and "over 8 steps" in found.action
    # Each staleness is known and above 0; the warm-up leaves 3 steps.
    assert "Too few steps (3) follow the warm-up" in found.sentence and "missing" not in found.sentence
    with pytest.raises(InputError, match="staleness"):
        law_of(written(tmp_path, UNIFORM, 6, 2), "often")


def test_means_of_a_report_say_what_they_are_of_and_nan_is_never_predicted(tmp_path):
    words = ["log", written(tmp_path, MIXED), "--set", "unit=publishes", "--staleness"]
    for expected, mean in [("constant:4", 4.0), ("constant", None), ("sawtooth", None), ("sawtooth:1.5", 1.5)]:
        text, found = call(*words, expected).output, law_of(words[1], expected)
        assert found.verdict == "differs" and "nan" not in text and found.predicted == (mean and (mean, mean))
        assert (mean is not None) == ("No mean is predicted" not in text) == (f"; expected {mean or 0:g};" in text)
        assert "head        first token  " in text and "token_mean  tokens of a sample, each sample once  " in text
        warm = int(text.partition("samples, without the ")[2].split()[0])
        assert 0 < warm < 400 and f"first tokens of {8 * (400 - warm)} samples" in text


def test_the_report_of_a_log_ends_with_its_distribution(tmp_path):
    words = ["log", written(tmp_path, UNIFORM), "--set", "unit=publishes"]
    text, found = told(tmp_path, *words)
    assert "distribution of staleness: as predicted (uniform staleness)" in text
    assert "[staleness/random-mean]" in text and "predicted 2" in text
    law = found["law"]
    assert law["claim"] == "staleness/random-mean" and law["low"] < 2.0 < law["high"]
    assert call(*words, "--staleness", "constant:1").exit_code == 1
    assert call(*words, "--staleness", "often").exit_code == 2


def test_each_token_counts_once_in_a_row_of_its_own(tmp_path):
    rows, every = [], []
    for number in range(64):
        length, batch = (100 if number % 2 else 1), number // 8
        stale = [5] if length == 1 else [1] * 98 + [0] * 2
        every += stale
        rows.append(
            {"sample_id": number, "group_id": number // 2, "batch": batch, "train_version": 8 + batch}
            | {"versions": [8 + batch - each for each in stale]}
        )
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    log = sim.schedules.replay(path, unit="publishes", first_version=8, unknown="keep").log
    report = log.report()["staleness"]
    tail = sorted(every)[math.ceil(0.99 * len(every)) - 1]
    assert report["tokens"] == {"mean": sum(every) / len(every), "p99": tail, "max": 5.0, "known": 64, "of": 64}
    assert report["token_mean"]["mean"] == pytest.approx((5 + 0.98) / 2) and report["token_mean"]["p99"] == 5.0
    printed = call("log", path, "--set", "unit=publishes", "--set", "first_version=8").output
    assert "all tokens, each token once            mean 1.020, p99 1, max 5" in printed
    rows[0]["versions"] = None
    path.write_text("\n".join(map(json.dumps, rows)))
    log = sim.schedules.replay(path, unit="publishes", first_version=8, unknown="keep").log
    assert log.report()["staleness"]["tokens"]["mean"] is None
