"""Mistakes planted into a running kernel do what they are named for, and leave alone what came before them."""

import numpy as np
import pytest

from asyncsim import systems
from asyncsim.base import laws
from asyncsim.claims.lab import kernel_defects as defects
from asyncsim.systems._system import System

BATCHES, PLANTED = 200, 10
AREAL = systems.areal(4, 8, 90, length=laws.lognormal(1.0, 0.8), load=1.5)
OPEN = System("open", {}, laws.exponential(1.0), (1.0,) * 16, groups_per_batch=4, train_time=0.1, slots=12)
CUT = System("cut", {}, laws.exponential(1.0), (1.0,) * 64, groups_per_batch=16, train_time=0.0, max_age=1)


def heads(system: System) -> np.ndarray:
    return system.staleness(BATCHES, 1, seed=0)[0]


@pytest.mark.parametrize(
    ("plant", "shift"),
    [(defects.version_off_by_one, 1.0), (defects.publish_counted_twice, -1.0), (defects.counter_lost, 4.0)],
)
def test_counters_shift_staleness_from_the_mistake_on(plant, shift) -> None:
    """Stamps move by one version; tickets of the 32 groups outstanding, handed out again, are four publishes more."""
    right, wrong = heads(AREAL), heads(plant(AREAL))
    assert np.array_equal(right[: PLANTED - 1], wrong[: PLANTED - 1])
    # 50 batches on, whatever was outstanding at the mistake is trained, but for stragglers.
    assert wrong[60:].mean() - right[60:].mean() == pytest.approx(shift, abs=0.2)


def test_every_record_has_the_mistake() -> None:
    wrong = defects.version_off_by_one(AREAL)
    record, schedule = wrong.timeline(BATCHES), wrong.schedule(BATCHES, 1, 1, 1, seed=0)
    assert len(record.publishes["version"]) == BATCHES - 1
    assert np.array_equal(schedule.staleness()[0, :, :, 0, 0], heads(wrong))
    assert record.header["mistake"] == "version_off_by_one"


@pytest.mark.parametrize("times", [1, 5])
def test_places_freed_twice_run_more_groups(times: int) -> None:
    """To the group: so many more are in generation from the mistake on, and all but the last are in shared places."""
    free = OPEN.replace(slots=None)
    wrong = defects.place_freed_twice(free, times).timeline(BATCHES)
    flying = wrong.publishes["in_flight"][PLANTED + 1 :]
    assert set(flying) == {16 + times} and set(free.timeline(BATCHES).publishes["in_flight"]) == {16}
    assert wrong.groups["place"].max() == 15


def test_a_slot_freed_twice_decodes_one_more() -> None:
    right, wrong = OPEN.timeline(BATCHES), defects.slot_freed_twice(OPEN).timeline(BATCHES)

    def active(record) -> float:
        times = np.linspace(0.3, 0.9, 50) * record.header["seconds"]
        start, end = (np.nan_to_num(record.samples[name], nan=np.inf) for name in ("t_start", "t_end"))
        return float(max(((start <= t) & (t < end)).sum() for t in times))

    assert (active(right), active(wrong)) == (12.0, 13.0)


def test_dropped_work_becomes_trained_work() -> None:
    right, wrong = CUT.timeline(BATCHES).groups, defects.dropped_counted_as_trained(CUT).timeline(BATCHES).groups
    dropped = right["fate"] == "dropped_age"
    assert dropped.sum() > 100 and (wrong["fate"][dropped] == "trained").all() and (wrong["batch"][dropped] >= 0).all()
    assert np.array_equal(wrong["fate"][~dropped], right["fate"][~dropped])


def test_ends_are_stamped_a_version_early() -> None:
    right, wrong = AREAL.timeline(BATCHES).samples, defects.end_stamped_early(AREAL).timeline(BATCHES).samples
    later = right["v_ready"] > 0
    assert np.array_equal(right["v_ready"][later] - 1, wrong["v_ready"][later])
