"""Presets against independent programs of six trainers: staleness of groups and tokens, pace, idle trainer, drops.

Realizations are independent on either side, and each number is compared by Welch's t: where the preset is right, one
comparison rejects with probability FALSE_ALARM over the choice of its seeds, which are fixed. What does not vary must
agree to rounding. The planted defects beside it are those that presets had. The long check rejects beyond 3.9 standard
errors: its 180 comparisons have one false alarm for 2 in 100 choices of all seeds. With 40 realizations of 340 batches
it sees a mean staleness that is off by 0.01 to 0.05.
"""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from asyncsim import systems as presets
from asyncsim.base.laws import lognormal
from tests.statistics import FALSE_ALARM
from tests.systems import trainers

ROUNDING = 1e-6
"""What the same number may be off by on two sides, whose seconds are sums of other terms."""


def one_step_off(P, N, train, sync):
    return presets.one_step_off(P, length=1.0, train_time=train, sync_time=sync)


def areal(P, N, eta, C, train):
    return presets.areal(eta, P, C, length=1.0, train_time=train)


def prime_rl(P, N, m, permits, train):
    return presets.prime_rl(P * N, m, permits, N, length=1.0, train_time=train)


def pipeline_rl(P, N, lag, rollouts, ready, train):
    knobs = {"attempts": N, "llm_max_rollouts": rollouts, "max_ready_samples_per_lead": ready}
    return presets.pipeline_rl(P * N, lag, **knobs, length=1.0, train_time=train)


def slime(P, N, C, train):
    return presets.slime_fully_async(P, C, length=1.0, train_time=train)


def roll(P, N, ratio, train):
    return presets.roll_single_turn(P, ratio, length=1.0, train_time=train)


# Preset, the knobs of both sides, and the spread of lognormal lengths of mean 1; the first of each is the quick one.
SETTINGS = {
    one_step_off: [(8, 4, 2.0, 0.3), (8, 1, 1.0, 0.0), (16, 2, 0.5, 0.1), (4, 8, 4.0, 0.0), (32, 1, 3.0, 0.2)],
    areal: [(8, 2, 2, 16, 1.0), (16, 1, 1, 16, 0.5), (4, 4, 4, 20, 1.0), (8, 2, 3, 12, 2.0), (8, 1, 8, 40, 0.3)],
    prime_rl: [(8, 4, 1, 48, 1.0), (16, 1, 1, 20, 0.7), (8, 1, 2, 16, 0.3), (4, 8, 1, 40, 1.5), (8, 1, 1, 8, 0.5)],
    pipeline_rl: [
        (4, 2, 16, 24, 64, 1.0), (8, 1, 8, 16, 64, 0.5), (4, 4, 33, 40, 16, 0.7), (8, 1, 40, 64, 0, 0.4),
        (4, 4, None, 64, 0, 1.0),
    ],
    slime: [(8, 4, 16, 0.1), (8, 1, 16, 1.0), (4, 2, 12, 0.5), (16, 1, 16, 1.0), (8, 4, 32, 3.0)],
    roll: [(8, 4, 1.5, 1.0), (8, 1, 1, 1.0), (4, 2, 2, 0.5), (16, 1, 1, 0.6), (4, 4, 3, 2.0)],
}  # fmt: skip
SPREADS = (1.0, 0.8, 1.2, 0.5, 1.0)


def lengths(generator, spread):
    """Lognormal numbers of mean 1, one after the other."""
    while True:
        yield from generator.lognormal(-0.5 * spread**2, spread, 1024).tolist()


@cache
def of_program(program, knobs, spread, runs, batches, warm):
    """Numbers of so many realizations, by name."""
    found = []
    for run in range(runs):
        generator = np.random.default_rng([run, *(int(1000 * (knob or 0)) for knob in knobs)])
        clock = trainers.Clock(lengths(generator, spread).__next__)
        clock = getattr(trainers, program.__name__)(clock, batches, *knobs)
        found.append(trainers.numbers(clock, warm))
    return {name: np.array([each[name] for each in found]) for name in found[0]}


def of_preset(system, samples, spread, runs, batches, warm, seed=0):
    """The same of a preset; `seed` so that settings do not share their draws."""
    made = [
        system.replace(length=lognormal(1.0, spread)).summary(batches, samples, seed, run, warm=warm)
        for run in range(runs)
    ]
    return {
        "staleness": np.array([one["staleness"]["mean"] for one in made]),
        "largest": np.array([one["staleness"]["max"] for one in made]),
        "token_staleness": np.array([one["token_staleness"] for one in made]),
        "throughput": np.array([one["throughput"] for one in made]),
        "trainer": np.array([one["trainer_utilization"] for one in made]),
        "dropped": np.array([one["dropped_fraction"] for one in made]),
    }


def differences(first, second, false_alarm=FALSE_ALARM):
    """Names of the numbers whose means differ, by Welch's t or, where nothing varies, by more than rounding."""
    found = []
    for name, a in first.items():
        b = second[name]
        if max(np.ptp(a), np.ptp(b)) <= ROUNDING:
            found += [name] * bool(abs(a.mean() - b.mean()) > ROUNDING)
        else:
            sides = ((each.mean(), each.std(ddof=1), len(each)) for each in (a, b))
            test = stats.ttest_ind_from_stats(*next(sides), *next(sides), equal_var=False)
            found += [name] * bool(test.pvalue < false_alarm)
    return found


def compared(program, place, runs, batches, warm, false_alarm=FALSE_ALARM, **changes):
    """`differences` of one setting, the preset changed as told."""
    knobs, spread = SETTINGS[program][place], SPREADS[place]
    size = {"runs": runs, "batches": batches, "warm": warm}
    theirs = of_program(program, knobs, spread, **size)
    system = program(*knobs).replace(**changes)
    return differences(theirs, of_preset(system, knobs[1], spread, **size, seed=place), false_alarm)


QUICK = {"runs": 8, "batches": 120, "warm": 30}


@pytest.mark.parametrize("program", SETTINGS, ids=lambda program: program.__name__)
def test_a_preset_does_what_the_trainer_does(program):
    assert compared(program, 0, **QUICK) == []


# What presets had at one time, and what it moves.
SLIPS = {
    "running groups cut at the ship": (prime_rl, {"age_at_pack": "all"}, {"throughput", "dropped"}),
    "running groups never cut": (prime_rl, {"age_at_publish": "none"}, {"throughput", "dropped"}),
    "a publish before the next rollout": (slime, {"publish_waits": False}, {"staleness", "token_staleness"}),
    "a permit back at the dequeue": (areal, {"release": "dequeue"}, {"staleness", "token_staleness"}),
    "groups of any step": (roll, {"order": "done"}, {"staleness", "dropped"}),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_of_a_preset_is_seen(slip):
    program, change, moved = SLIPS[slip]
    assert moved <= set(compared(program, 0, **QUICK, **change))


@pytest.mark.long
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("program", SETTINGS, ids=lambda program: program.__name__)
def test_presets_do_what_trainers_do_at_five_settings(program, place):
    assert compared(program, place, runs=40, batches=400, warm=60, false_alarm=1e-4) == []
