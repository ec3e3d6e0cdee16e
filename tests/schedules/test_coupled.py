"""A system stepped lazily with lengths from a policy: equal to the system where the policy is that of its law."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from asyncsim import schedules
from asyncsim import systems as presets
from asyncsim.base import rng
from asyncsim.base.checks import InputError
from asyncsim.base.feeds import EagerFeed
from asyncsim.base.laws import constant, empirical, exponential
from asyncsim.systems import _build
from asyncsim.systems._system import StalledError
from tests.systems.settings import FEATURES, systems

TOKENS = 6
# Lengths come from the policy: no turns of a length that changes, no factor on it.
PARTS = tuple(name for name in FEATURES if name not in ("turns", "work"))
STOP = 0.3


def stopping(realization, trajectory, token_version):
    """Lengths of a policy that stops at each token with a chance keyed by (realization, trajectory, token, version)."""
    token = np.arange(token_version.shape[1])
    uniform = rng.Stream(0, "stop").uniform(realization[:, None], trajectory[:, None], token, token_version)
    stops = uniform < STOP
    stops[:, -1] = True
    return stops.argmax(axis=1) + 1.0


def drive(feed, batches, lengths_of=stopping):
    """Take all batches; a version may not be used, nor asked for, after it was retired or before it exists."""
    gone = set()
    for batch in range(batches):

        def ask(realization, trajectory, token_version, batch=batch, gone=frozenset(gone)):
            newest = batch // feed.system.batches_per_publish
            assert token_version.dtype == np.int32 and token_version.shape == (trajectory.size, feed.tokens)
            assert token_version.max() <= newest and not gone & set(token_version.ravel().tolist())
            return lengths_of(realization, trajectory, token_version)

        version, trajectory = feed.take(batch, ask)
        assert not gone & set(version.ravel().tolist())
        assert (np.diff(trajectory.reshape(len(trajectory), -1), axis=1) > 0).all()
        retired = feed.retired(batch)
        assert not gone & set(retired)
        gone |= set(retired)
    return feed.record()


def scheduled(system, batches, samples, seed):
    """The schedule of the system; what comes to a standstill (an age limit that nobody meets) is left out."""
    try:
        return system.schedule(batches, samples, TOKENS, 2, seed)
    except StalledError:
        reject()


@settings(max_examples=60)
@given(system=systems(features=PARTS), batches=st.integers(1, 10), samples=st.integers(1, 3), seed=st.integers(0, 3))
def test_constant_lengths_give_the_schedule_of_the_constant_law(system, batches, samples, seed):
    system = system.replace(length=constant(float(TOKENS)), failure_keeps=False)
    plain = scheduled(system, batches, samples, seed)
    feed = schedules.coupled(system).feed(batches, samples, TOKENS, 2, seed)
    record = drive(feed, batches, lambda realization, trajectory, version: np.full(trajectory.size, float(TOKENS)))
    assert np.array_equal(record.trajectory, plain.trajectory)
    assert np.array_equal(*np.broadcast_arrays(record.version, plain.version))
    assert np.array_equal(record.work, plain.work)


@settings(max_examples=60)
@given(system=systems(modes=("drain", "pin"), features=PARTS), batches=st.integers(1, 10), seed=st.integers(0, 3))
def test_given_lengths_give_the_schedule_of_these_lengths(system, batches, seed):
    system = system.replace(length=empirical([1.0, 2.0, 5.0]), failure_keeps=False)
    plain = scheduled(system, batches, 2, seed)

    def law(realization, trajectory, version):
        pairs = zip(realization, trajectory, strict=True)
        works = [_build.works(system, np.array([t]), int(m), seed)[0] for m, t in pairs]
        return np.array(works)

    record = drive(schedules.coupled(system).feed(batches, 2, TOKENS, 2, seed), batches, law)
    assert np.array_equal(record.trajectory, plain.trajectory) and np.array_equal(record.work, plain.work)
    assert np.array_equal(record.version, plain.version)


@settings(max_examples=60)
@given(system=systems(features=PARTS), batches=st.integers(1, 10), samples=st.integers(1, 2))
def test_recorded_versions_explain_the_recorded_lengths(system, batches, samples):
    system = system.replace(failure_keeps=False)
    scheduled(system.replace(length=constant(3.0)), batches, samples, 0)
    record = drive(schedules.coupled(system).feed(batches, samples, TOKENS, 3, 0), batches)
    version = np.broadcast_to(record.version, (*record.version.shape[:4], TOKENS)).reshape(-1, TOKENS)
    realization = np.repeat(np.arange(3), record.trajectory[0].size)
    assert np.array_equal(stopping(realization, record.trajectory.ravel(), version), record.work.ravel())


def test_lengths_are_asked_again_when_weights_move_under_a_running_sample():
    system = presets.areal(2, 2, 6, length=1.0, train_time=1.7)
    asked: dict[tuple[int, int], int] = {}

    def counting(realization, trajectory, version):
        for key in zip(realization.tolist(), trajectory.tolist(), strict=True):
            asked[key] = asked.get(key, 0) + 1
        return stopping(realization, trajectory, version)

    record = drive(schedules.coupled(system).feed(20, 2, TOKENS, 2, 0), 20, counting)
    assert max(asked.values()) > 1 and min(asked.values()) == 1
    assert record.version.shape[-1] == TOKENS and (np.diff(record.version, axis=-1) > 0).any()
    pinned = drive(schedules.coupled(system.replace(mode="pin")).feed(20, 2, TOKENS, 2, 0), 20)
    assert pinned.version.shape[-1] == 1 and not np.array_equal(pinned.work, record.work)


def test_realizations_do_not_see_each_other():
    coupled = schedules.coupled(presets.areal(2, 2, 6, length=1.0, train_time=exponential(2.0)))
    many, one = (drive(coupled.feed(12, 2, TOKENS, m, 0), 12) for m in (3, 1))
    assert np.array_equal(many.version[:1], one.version) and np.array_equal(many.work[:1], one.work)
    assert not np.array_equal(many.work[0], many.work[1])


RANDOM = {
    "rewards": {"reward": exponential(2.0)},
    "training times": {"train_time": exponential(2.0)},
    "rejections": {"accept": 0.5},
    "failures": {"failure_rate": 0.3},
    "choices": {"order": "random"},
}


@pytest.mark.parametrize("part", RANDOM)
def test_realizations_of_a_later_block_are_those_of_one_block(part):
    system = presets.areal(2, 2, 6, length=1.0, train_time=1.7).replace(**RANDOM[part])
    coupled = schedules.coupled(system)

    def record(count, first):
        def lengths_of(realization, trajectory, version):
            return stopping(realization + first, trajectory, version)

        return drive(coupled.feed(12, 2, TOKENS, count, 0, first=first), 12, lengths_of)

    whole, halves = record(4, 0), [record(2, 0), record(2, 2)]
    for name in ("trajectory", "work", "seconds"):
        assert np.array_equal(getattr(whole, name), np.concatenate([getattr(half, name) for half in halves])), name
    # What is drawn differs between realizations, so that the wrong ones would be seen.
    assert not np.array_equal(whole.seconds[2:], whole.seconds[:2])


def test_the_record_can_be_replayed():
    record = drive(schedules.coupled(presets.areal(1, 2, length=1.0, train_time=2.0)).feed(9, 2, TOKENS, 2, 0), 9)
    feed = EagerFeed(record)
    for batch in range(9):
        version, trajectory = feed.take(batch)
        assert np.array_equal(version, record.version[:, batch])
        assert np.array_equal(trajectory, record.trajectory[:, batch])


def test_the_interface_is_that_of_the_system():
    system = presets.areal(1, 3, length=1.0, train_time=2.0).replace(recommended={"epochs": 4})
    coupled = schedules.coupled(system)
    assert (coupled.groups_per_batch, coupled.batches_per_publish, coupled.recommended) == (3, 1, {"epochs": 4})
    assert coupled.random and coupled.realizations(300) == 300
    assert coupled.describe()["length"] == "from the policy" and coupled.knobs == system.knobs


COUPLED = schedules.coupled(presets.one_step_off())


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("system", lambda: schedules.coupled(schedules.fixed(1))),
        ("load", lambda: schedules.coupled(presets.areal(1, 2, length=1.0, load=1.0))),
        ("failure_keeps", lambda: schedules.coupled(presets.one_step_off().replace(failure_keeps=True))),
        ("system", lambda: COUPLED.schedule(2, 1, 1, 1, 0)),
        ("tokens", lambda: COUPLED.feed(2, 1, 0, 1, 0)),
        ("realizations", lambda: COUPLED.feed(2, 1, 1, 0, 0)),
        ("batch", lambda: COUPLED.feed(2, 1, 1, 1, 0).take(1, stopping)),
        ("batch", lambda: drive(COUPLED.feed(2, 1, 1, 1, 0), 3)),
        ("batches taken", lambda: COUPLED.feed(2, 1, 1, 1, 0).record()),
        ("lengths_of", lambda: COUPLED.feed(2, 1, 1, 1, 0).take(0, lambda m, t, v: np.zeros(t.size))),
        ("lengths_of", lambda: COUPLED.feed(2, 1, 1, 1, 0).take(0, lambda m, t, v: np.full(t.size, np.nan))),
        ("lengths_of", lambda: COUPLED.feed(2, 1, 1, 1, 0).take(0, lambda m, t, v: np.ones(t.size + 1))),
    ],
)
def test_bad_input_is_refused_by_name(field, make):
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.field == field


def test_an_open_loop_that_outgrows_its_room_goes_on():
    system = presets.synchronous(length=float(TOKENS)).replace(
        tickets=None, rates=tuple(1.0 + n / 8 for n in range(10)), train_time=0.0
    )
    plain = system.schedule(40, 1, TOKENS, 2, 0)
    feed = schedules.coupled(system).feed(40, 1, TOKENS, 2, 0)
    record = drive(feed, 40, lambda realization, trajectory, version: np.full(trajectory.size, float(TOKENS)))
    assert len(feed.states[0].group) > 300
    assert np.array_equal(record.trajectory, plain.trajectory) and np.array_equal(record.version, plain.version)
