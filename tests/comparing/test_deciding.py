"""`compare`: its words against known differences, what it refuses, and what its answer says."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import uncertainty
from asyncsim.base.checks import InputError
from asyncsim.base.progress import Progress
from asyncsim.base.trace import Trace
from asyncsim.comparing import deciding, tuning
from asyncsim.comparing.deciding import Question
from asyncsim.comparing.keeping import Site
from asyncsim.comparing.readings import Reading
from asyncsim.plotting import _answers
from tests.core import runs

BANK = 1024
"""Replicates of the population that repetitions draw from."""
REPETITIONS = 150
WRONG = 18
"""Wrong words of 150 that a rate of 5 percent exceeds in fewer than 1 of 1,000 (false fail); 15 percent stays at or
below it in fewer than 14 of 100 (false pass)."""
DECIDED = 0.9


def bandit(**changes):
    sizes = {"updates": 20, "replicates": 64, "samples_per_group": 16}
    return runs.spec(**{"system": sim.schedules.fixed(4), **sizes, **changes})


def chain():
    return bandit().replace(task=sim.tasks.bit_chain(horizon=6, fraction=0.75), updates=30)


def tailed():
    update = sim.chain(sim.updates.adam(0.05))
    task = sim.tasks.token_bandit(actions=4, horizon=12)
    return bandit().replace(task=task, method=sim.methods.truncated_is("token"), update=update)


CASES = {
    "bandit": (bandit, Reading("batch_return"), "mean", "planned"),
    "chain": (chain, Reading("batch_return", "end"), "mean", "planned"),
    "chain, bets": (chain, Reading("batch_return", "end"), "mean", "betting"),
    "heavy tail": (tailed, Reading("chi_square"), "median", "auto"),
}


@pytest.fixture(scope="module")
def banks():
    """Numbers of both arms, `[2, BANK]`, by case; the arms differ in their baseline or learning rate."""
    found = {}
    for name, (make, reading, _, _) in CASES.items():
        spec = make().replace(replicates=BANK, diagnostics=(reading.metric,))
        other = spec.replace(method=spec.method.replace(advantage=sim.advantages.none()))
        found[name] = np.array([reading.numbers(sim.run(each, seed=5, progress=False)) for each in (spec, other)])
    return found


class Drawn:
    """Stands in for `run`: replicates drawn from a population whose difference is known."""

    def __init__(self, bank: np.ndarray, specs) -> None:
        self.bank, self.specs = bank, list(specs)

    def __call__(self, spec, seed):
        rows = np.random.default_rng(seed).integers(0, self.bank.shape[1], spec.replicates)
        arm = next(k for k, other in enumerate(self.specs) if other.method == spec.method)
        (metric,) = spec.diagnostics
        return Trace(
            metrics={metric: self.bank[arm][rows][None]},
            updates=np.array([0]),
            accumulated={},
            parameters=np.zeros((spec.replicates, 1)),
            diverged=np.full(spec.replicates, -1),
            realization=np.zeros(spec.replicates, dtype=int),
            schedule=None,
            header={"ranges": {}},
        )


def words(case, bank, difference, smallest, monkeypatch, repetitions, planned=None):
    """Words of so many comparisons of two arms whose statistic differs by `difference`."""
    make, reading, statistic, kind = CASES[case]
    location = np.median if statistic == "median" else np.mean
    moved = np.array([bank[0], bank[1] + difference - location(bank[1] - bank[0])])
    spec = make().replace(diagnostics=(reading.metric,))
    specs = {"a": spec, "b": spec.replace(method=spec.method.replace(advantage=sim.advantages.none()))}
    drawn = Drawn(moved, specs.values())
    monkeypatch.setattr(deciding, "together", lambda runs, site: [drawn(*each) for each in runs])
    if planned is not None:
        monkeypatch.setattr(deciding.intervals, "difference", planned)
    plain = Reading(reading.metric)
    # Moved numbers leave the range of a return: the bounds widen with them.
    wide = (float(moved.min()), float(moved.max()))
    monkeypatch.setattr(Reading, "bounds", lambda *_: wide)
    # What holds of these specs holds for any number of replicates: a third of the time went into asking again.
    monkeypatch.setattr(sim.Spec, "_rules", lambda _: ())
    counts: dict[str, int] = {}
    for seed in range(repetitions):
        on = Question(plain, statistic, smallest, 0.05, None, kind, 1024, seed).on(
            specs, Progress("", 1, False), Site(1)
        )
        word = on.pairs[0].word
        counts[word] = counts.get(word, 0) + 1
    return counts


def smallest_of(case, bank):
    """An effect that takes some looks: two and a half standard errors at 128 replicates (bets and medians: six)."""
    x = bank[1] - bank[0]
    low, high = np.quantile(x, [0.16, 0.84])
    factor = 2.5 if case in ("bandit", "chain") else 6.0
    return float(factor * (high - low) / 2.0 / math.sqrt(128))


def check_words(case, banks, monkeypatch, repetitions, wrong):
    bank = banks[case]
    smallest = smallest_of(case, bank)
    # Half of the effect lies between two cases that are always asked; the long check asks it too.
    for multiple in (0.0, 1.0, 2.0, *[0.5] * (repetitions >= 500)):
        counts = words(case, bank, multiple * smallest, smallest, monkeypatch, repetitions)
        mistaken = counts.get("worse", 0)
        mistaken += counts.get("better", 0) if multiple == 0.0 else 0
        mistaken += counts.get("equal", 0) if multiple >= 1.0 else 0
        assert mistaken <= wrong, (case, multiple, counts)
        if multiple == 2.0:
            assert counts.get("better", 0) >= DECIDED * repetitions, (case, counts)


@pytest.mark.parametrize("case", CASES)
def test_words_are_rarely_wrong_and_large_effects_are_decided(case, banks, monkeypatch):
    check_words(case, banks, monkeypatch, REPETITIONS, WRONG)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_words_are_rarely_wrong_in_500_repetitions(case, banks, monkeypatch):
    """At a true rate of 5 percent more than 41 of 500 are wrong in fewer than 1 of 1,000."""
    check_words(case, banks, monkeypatch, 500, 41)


def test_fixed_intervals_give_wrong_words_too_often(banks, monkeypatch):
    """The planted defect: a 95 percent interval for one look, looked at five times."""

    def fixed(statistic, kind, a, b, bounds, looks, alpha):
        mean = uncertainty.between(a - b[: len(a)])
        interval = deciding.intervals.around(mean, 1, alpha)
        return mean.value, interval, interval, 0.0

    bank = banks["bandit"]
    # So small an effect that no look is narrow enough for "equal".
    counts = words("bandit", bank, 0.0, 1e-9, monkeypatch, REPETITIONS, fixed)
    assert counts.get("better", 0) + counts.get("worse", 0) > WRONG


@pytest.mark.parametrize("count", [1, 3])
def test_arms_are_paired_and_the_answer_says_what_that_saved(count):
    a = bandit()
    arms = [a.replace(system=sim.schedules.fixed(k)) for k in range(count)]
    options = {"metric": "batch_return", "tune": None}
    answer = sim.compare(a, *arms, smallest=0.005, **options)
    assert [pair.base for pair in answer.pairs] == [answer.tasks[0].arms[0].name] * count
    assert all(pair.pairing > 1.0 for pair in answer.pairs)
    assert all(pair.word == "better" for pair in answer.pairs)
    # Replicates that are not paired with their own seed differ six times as much.
    assert all(pair.last.seen[1] - pair.last.seen[0] < 0.004 for pair in answer.pairs)
    # With several pairs each interval is wider: all words together err with the stated probability.
    width = answer.pairs[0].last.high - answer.pairs[0].last.low
    alone = sim.compare(a, arms[0], smallest=0.005, **options).pairs[0].last
    assert alone.replicates == answer.pairs[0].last.replicates
    assert width >= alone.high - alone.low


def test_the_same_method_under_another_scale_is_equal():
    """A sum over tokens and a mean differ by the length only: at their best learning rates they learn alike."""
    a = bandit(updates=40).replace(task=sim.tasks.token_bandit(actions=3, horizon=4))
    b = a.replace(method=sim.methods.reinforce(aggregator="sequence_mean"))
    untuned = sim.compare(a, b, smallest=0.01, tune=None)
    assert untuned.word in ("better", "worse")
    tuned = sim.compare(a, b, smallest=0.02)
    assert tuned.pairs[0].last.seen[-1] == "equal" and tuned.word == "not distinguishable on this task"
    for arm in tuned.tasks[0].arms:
        assert arm.tuned.grid[0] < arm.tuned.chosen < arm.tuned.grid[-1]


def test_a_task_that_both_solve_cannot_tell():
    a = bandit(updates=150).replace(task=sim.tasks.token_bandit(actions=2, horizon=2))
    a = a.replace(update=sim.chain(sim.updates.adam(0.3)))
    b = a.replace(method=sim.methods.truncated_is("token"))
    answer = sim.compare(a, b, smallest=0.02, tune=None)
    assert answer.word == "not distinguishable on this task"
    assert "optimum 1" in str(answer)
    # No number of replicates would change that: unseen events are not waited for.
    assert answer.pairs[0].last.replicates == 64


def test_arms_that_never_move_cannot_be_told_apart():
    a = bandit().replace(update=sim.chain(sim.updates.sgd(1e-9)))
    answer = sim.compare(a, a.replace(method=sim.methods.ppo_clip()), smallest=0.05, tune=None)
    assert answer.word == "not distinguishable on this task"
    assert "where it started" in str(answer)


def test_an_answer_is_the_same_at_the_same_seed_and_goes_into_json():
    a, b = bandit(), bandit().replace(method=sim.methods.ppo_clip())
    grid = {"sgd.lr": [0.5, 2.0, 8.0, 32.0, 128.0, 512.0]}
    first, second = (sim.compare(a, b, smallest=0.01, tune=grid) for _ in range(2))
    assert {**first.row(), "seconds": 0} == {**second.row(), "seconds": 0}
    row = json.loads(json.dumps(first.row(), allow_nan=False))
    assert row["tasks"][0]["pairs"][0]["word"] == first.word
    assert row["tasks"][0]["arms"][0]["tuned"]["knob"] == "sgd.lr"


SIGNS = {
    "higher": {},
    "lower": {"metric": "entropy", "better": "lower"},
    "time": {"over": "time", "target": 0.52},
    "collapse": {"over": "collapse"},
    "reached": {"over": "reached", "target": 0.95},
    "end": {"over": "end"},
}


@pytest.mark.parametrize("reading", SIGNS)
def test_a_difference_has_the_sign_of_the_means_below_it(reading):
    """Whatever is better: the word says that, in print, JSON and picture."""
    a = bandit().replace(update=sim.chain(sim.updates.sgd(8.0)))
    arms = {"slow": a, "fast": a.replace(system=sim.schedules.fixed(0))}
    options = {"metric": "batch_return", **SIGNS[reading]}
    answer = sim.compare(arms, smallest=1e-6, tune=None, max_replicates=256, **options)
    slow, fast = answer.tasks[0].arms
    assert answer.difference == pytest.approx(fast.mean - slow.mean) and answer.difference != 0.0
    lower = reading in ("lower", "time", "collapse")
    better = (answer.difference < 0.0) == lower
    allowed = {"better" if better else "worse", *({"undecided"} if reading in ("collapse", "end") else ())}
    assert answer.pairs[0].word in allowed
    row = answer.row()
    assert row["better"] == ("lower" if lower else "higher")
    assert row["tasks"][0]["pairs"][0]["looks"][-1]["difference"] == answer.difference
    text = str(answer)
    assert ("lower is better" in text) == lower
    assert f"difference {answer.difference:+.3g} [" in text
    label = sim.plot(answer).axes[1].get_ylabel()
    assert label.startswith(f"difference in {_answers.axis(answer.unit)}") and ("lower is better" in label) == lower
    # A probability to win is above one half for the better arm, whatever is read.
    wins = sim.compare(arms, smallest=1e-6, tune=None, max_replicates=64, statistic="improvement", **options)
    assert (wins.difference > 0.0) == better and wins.better == "higher" and "lower is better" not in str(wins)


def test_an_answer_says_what_its_replicates_cannot_exclude():
    """What none of n replicates shows has a probability below log(25)/n, and costs an arm at most all it has."""
    a, b = bandit(), bandit().replace(system=sim.schedules.fixed(0))
    bounded = sim.compare(a, b, metric="batch_return", smallest=1e-6, tune=None, max_replicates=64)
    last, (arm, other) = bounded.pairs[0].last, bounded.tasks[0].arms
    assert last.word == "undecided" and last.seen[-1] == "better"
    chance, event = last.unseen
    assert chance == pytest.approx(math.log(25.0) / 64)
    assert event == pytest.approx(max(arm.mean, other.mean, 1.0 - min(arm.mean, other.mean)))
    # All that an arm has, lost as rarely, is in the interval; what was seen is far from 0.
    assert last.low < last.difference - chance * event < 0.0 < last.seen[0]
    assert f"64 replicates cannot exclude that 1 replicate in 20 differs by up to {event:.3g};" in str(bounded)
    assert "undecided; difference" in str(bounded) and "  better [" in str(bounded)
    assert "error rate 0.05 per task, if rare events are no larger than the intervals allow" in str(bounded)
    # Intervals may have room for more than can happen; what is printed keeps the range of the metric.
    far = replace(bounded.pairs[0], looks=(replace(last, unseen=(chance, 2.5)),))
    assert f"by up to {1.0 + abs(last.difference):.3g};" in replace(bounded.tasks[0], pairs=(far,)).unseen
    free = sim.compare(a, b, metric="gradient_norm", smallest=1e-6, tune=None, max_replicates=64)
    assert "; larger ones are assumed not to occur" in free.tasks[0].unseen
    # Bets, medians and populations assume nothing of events that were not seen.
    listed = [spec.replace(sampling="enumerate") for spec in (a, b)]
    for arms, options in (
        ((a, b), {"interval": "betting"}),
        ((a, b), {"statistic": "median"}),
        (listed, {"metric": "exact_return"}),
    ):
        answer = sim.compare(
            *arms, **{"metric": "batch_return", **options}, smallest=1e-6, tune=None, max_replicates=64
        )
        assert "\nerror rate 0.05 per task\n" in str(answer) and "exclude" not in str(answer)


def test_other_tasks_are_asked_too():
    a, b = bandit(), bandit().replace(system=sim.schedules.fixed(0))
    answer = sim.compare(a, b, smallest=0.005, tune=None, tasks=[sim.tasks.softmax_bandit(arms=20)])
    assert len(answer.tasks) == 2
    assert "actions=20" in answer.tasks[1].name or "arms" in answer.tasks[1].name


def test_random_systems_have_a_realization_for_each_replicate(monkeypatch):
    system = sim.systems.areal(
        max_head_offpolicyness=4,
        consumer_batch_size=2,
        max_concurrent_rollouts=10,
        length=sim.lognormal(1.0, 0.8),
        load=1.5,
    )
    asked = []

    def watched(runs, site):
        traces = [sim.run(spec, seed, progress=False) for spec, seed in runs]
        asked.extend((trace.replicates, trace.schedule.realizations) for trace in traces)
        return traces

    monkeypatch.setattr(deciding, "together", watched)
    a = bandit(updates=10).replace(system=system)
    sim.compare(a, a.replace(method=sim.methods.ppo_clip()), smallest=0.02, tune=None, max_replicates=128)
    assert all(realizations == replicates for replicates, realizations in asked)


@pytest.mark.parametrize(
    ("over", "bounds"), [("mean", (0.0, 1.0)), ("end", (0.0, 1.0)), ("time", (0.0, 20.0)), ("reached", (0.0, 1.0))]
)
def test_readings_keep_their_bounds(over, bounds):
    target = 0.55 if over in ("time", "reached") else None
    reading = Reading("batch_return", over, target)
    trace = sim.run(bandit(replicates=32, diagnostics=("batch_return",)), seed=1)
    numbers = reading.numbers(trace)
    assert reading.bounds(trace, bandit().task) == bounds
    assert bounds[0] <= numbers.min() <= numbers.max() <= bounds[1]
    curve = trace["batch_return"]
    if over == "time":
        for r in range(32):
            hits = np.flatnonzero(curve[:, r] >= 0.55)
            assert numbers[r] == (hits[0] if len(hits) else 20)


def test_a_collapse_is_seen_and_a_frozen_replicate_is_one():
    curve = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.1], [0.2, 0.9, np.nan]])
    trace = Trace(
        metrics={"batch_return": curve},
        updates=np.arange(3),
        accumulated={},
        parameters=np.zeros((3, 1)),
        diverged=np.array([-1, -1, 1]),
        realization=np.zeros(3, dtype=int),
        schedule=None,
        header={},
    )
    assert Reading("batch_return", "collapse").numbers(trace).tolist() == [1.0, 0.0, 1.0]
    # Where a replicate stopped, its last value stands.
    assert Reading("batch_return", "end").numbers(trace).tolist() == [0.2, 0.9, 0.1]


def refused(message, *arms, **options):
    with pytest.raises(InputError, match=message) as caught:
        sim.compare(*arms, **{"smallest": 0.01, "tune": None, **options})
    assert "\n" not in str(caught.value)


def test_bad_input_is_one_line():
    a = bandit()
    b = a.replace(method=sim.methods.ppo_clip())
    refused("arms", a)
    refused("different from every other arm", a, bandit())
    refused("smallest", a, b, smallest=0.0)
    refused("task of arm", a, b.replace(task=sim.tasks.softmax_bandit(arms=3)))
    refused("updates", a, b.replace(updates=30))
    refused("one number per knob", a, b.replace(update=sim.chain(sim.updates.sgd((0.1, 0.2))), replicates=2))
    refused("metric", a, b, metric="no_such_metric")
    refused("target", a, b, over="time")
    refused("error", a, b, error=1.0)
    refused("statistic", a, b, statistic="mode")
    refused("max_replicates", a, b, max_replicates=10)
    refused("tune", a, b, tune="adam.lr")
    refused("tune", a, b, tune={"sgd.lr": [0.1, 0.2]})
    refused("a Spec", a, "grpo")


def test_a_metric_that_one_arm_lacks_is_refused():
    a = bandit()
    b = a.replace(update=sim.chain(sim.updates.ess_step("sqrt"), sim.updates.sgd(0.5)))
    refused("ess_step_scale", a, b, metric="ess_step_scale")


def test_a_best_value_at_the_edge_is_refused():
    a = bandit()
    refused("inside the grid", a, a.replace(method=sim.methods.ppo_clip()), tune={"sgd.lr": [0.05, 0.2, 0.8]})


def test_a_mean_of_heavy_tails_has_numbers_and_no_word_and_a_median_has_one(tmp_path):
    a = tailed().replace(updates=30)
    b = a.replace(update=sim.chain(sim.updates.adam(0.3)))
    a = a.replace(update=sim.chain(sim.updates.adam(0.31)))
    answer = sim.compare(a, b, metric="chi_square", smallest=0.1, tune=None)
    assert answer.word == "cannot tell" and "use the statistic median, iqm or improvement" in str(answer)
    assert "not tuned" in str(answer) and len(answer.table()) == 2 and math.isfinite(answer.difference)
    assert answer.interval == (-math.inf, math.inf) and answer.row()["tasks"][0]["pairs"][0]["why"]
    sim.plot(answer, tmp_path / "answer.png")
    # The planted defect: intervals as if the tail were light give a word on the same numbers.
    told = sim.compare(a, b, metric="chi_square", smallest=5e3, tune=None, interval="planned", max_replicates=64)
    assert told.pairs[0].word == "equal" and not told.pairs[0].why
    assert sim.compare(a, b, metric="chi_square", smallest=0.1, tune=None, statistic="median", max_replicates=64)


@pytest.mark.parametrize("tune", [None, {"sgd.lr": [0.25, 0.5, 1.0]}])
def test_replicates_without_a_value_keep_the_numbers_of_the_others(tune, tmp_path):
    task = sim.tasks.gym("CartPole-v1", trajectory="segment", steps=8)
    a = bandit(updates=3).replace(task=task, method=sim.methods.reinforce(), replicates=1, samples_per_group=2)
    b = a.replace(system=sim.schedules.fixed(0))
    answer = sim.compare({"a": a, "b": b}, metric="episode_return", smallest=1.0, tune=tune)
    (on,), numbers = answer.tasks, [arm.lacking for arm in answer.tasks[0].arms]
    assert answer.word == "cannot tell" and all(0 < lacking < 64 for lacking in numbers), numbers
    assert f"{numbers[0]} of 64 replicates of" in on.pairs[0].why or f"{numbers[1]} of 64" in on.pairs[0].why
    assert all(np.isfinite(arm.curve).all() and math.isfinite(arm.mean) for arm in on.arms)
    sim.plot(answer, tmp_path / "answer.png")
    # A metric that every replicate has gets its word.
    assert sim.compare({"a": a, "b": b}, metric="staleness", smallest=0.1, tune=None).word in ("worse", "better")


def tuned(monkeypatch, curve, step, *arguments):
    """What a step of tuning returns if the replicates of a value have the numbers `curve(value, count)`."""

    def scores(spec, knob, grid, reading, each=32):
        yield from ()
        return {v: curve(v, each) for v in grid}

    monkeypatch.setattr(tuning, "_scores", scores)
    return deciding._side_by_side([step(*arguments, Reading("trained_return"), 0.01)], 0, None)[0]


@pytest.mark.parametrize("dip, found", [(0.57, 0.99), (0.3, 0.6)])
def test_a_rate_beyond_a_small_dip_is_found_and_tried_for_every_arm(monkeypatch, dip, found):
    """Returns of 0.6 at 0.4, a dip at 3.2, 0.99 at 51.2. A fall by half of the gain ends an arm's own search alone."""
    rates, heights = np.log2((1e-3, 0.1, 0.4, 1.6, 3.2, 51.2, 1e3)), (0.0, 0.3, 0.6, dip, dip, 0.99, 0.0)
    grid, common = ([0.1 * 2.0**k for k in range(-4, last)] for last in (5, 14))

    def curve(value, count):
        return np.full(count, np.interp(np.log2(value), rates, heights))

    own = tuned(monkeypatch, curve, tuning.explore, None, "sgd.lr", grid, False)
    assert max(each.mean() for each in own.values()) == pytest.approx(found, abs=0.01)
    best = tuned(monkeypatch, curve, tuning.settle, None, "b", "sgd.lr", own, [*{*common, *own}], False)
    assert max(best.scores) == pytest.approx(0.99)


@pytest.mark.parametrize("later", [100, 118])
def test_a_rate_that_was_lucky_in_the_pilot_is_not_chosen(monkeypatch, later):
    """0.9 for certain at 0.8; at 12.8, 1 in all of 32 runs, then in `later` of 128, which is 0.78 or 0.92 ± 0.02."""

    def curve(value, count):
        return np.where(value == 12.8, np.arange(count) < (32 if count == 32 else later), 0.9 * (value == 0.8))

    grid = [0.1 * 2.0**k for k in range(-4, 9)]
    assert tuned(monkeypatch, curve, tuning.settle, None, "a", "sgd.lr", {}, grid, True).chosen == 0.8
