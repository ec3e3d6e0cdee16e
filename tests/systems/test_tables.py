"""What compiled code sees of a state: addresses of its own tables, and settings that a plain system leaves out."""

import copy
import pickle

import numpy as np
import pytest

from asyncsim.base.laws import constant, exponential, lognormal
from asyncsim.systems import _kernel
from asyncsim.systems import _state as k
from asyncsim.systems._system import System, stepped

RATES = (1.0, 0.7, 1.3, 0.9, 1.1)
LENGTH = lognormal(1.0, 0.8)
PLAIN_SYSTEMS = {
    "open loop": {"tickets": None, "mode": "pin", "train_time": 0.1},
    "drained": {"mode": "drain", "tickets": 6, "groups_per_batch": 3, "train_time": 0.5, "sync_time": 0.3},
    "prefetch": {"tickets": 8, "groups_per_batch": 2, "batches_per_publish": 2, "prefetch": 2, "train_time": 0.4},
    "slots": {"tickets": 5, "slots": 3, "reward": exponential(0.2), "order": "oldest_start", "train_time": 0.2},
    "window": {"tickets": 9, "order": "oldest_start", "window": 4, "train_time": 0.3, "release": "dequeue"},
    "rejecting": {"tickets": 9, "accept": 0.6, "decode": (1.0, 0.9, 0.7), "token_time": 0.01, "train_time": 0.1},
}

WORKER_SYSTEMS = {
    "open loop": {"mode": "pin", "train_time": 0.1},
    "waiting": {"tickets": 3, "train_time": 0.3},
    "many tickets": {"tickets": 9, "release": "dequeue", "train_time": exponential(0.2)},
    "ties": {"tickets": 6, "length": constant(1.0), "rates": (1.0, 0.5, 1.0, 0.25, 1.0), "train_time": 0.25},
    "staggered": {"tickets": 5, "offsets": (0.0, 0.4, 0.8, 1.2, 9.0), "train_time": 0.1},
    "hard": {"tickets": 5, "difficulty": exponential(1.0), "mode": "pin", "train_time": 0.2},
    "alone": {"rates": (1.0,), "train_time": 0.5},
}
"""Systems of workers; the length, where it is given, replaces the usual one."""


def worker_system(name):
    settings = {"length": LENGTH, "rates": RATES, **WORKER_SYSTEMS[name]}
    return System(name, {}, **settings)


def plain_system(name):
    return System(name, {}, LENGTH, RATES, **PLAIN_SYSTEMS[name])


def start(**changes):
    return plain_system("prefetch").replace(**changes).start(6, 2, 0, 3, drawn=True)


def content(state):
    return {name: getattr(state, name).tobytes() for name in k.LAYOUT}


def ended(state):
    state, why = stepped(plain_system("prefetch"), state, k.UNLIMITED, 6, 3)
    assert why == k.DONE_RUN
    return state.run.tobytes(), state.sums.tobytes(), state.taken.tobytes()


def in_both(simulated, monkeypatch):
    """A record and a summary are equal in every bit, whichever kernel simulates them."""
    found = []
    for at in (_kernel.advance_plain_at, _kernel.advance_at):
        monkeypatch.setattr(_kernel, "advance_plain_at", at)
        found.append(simulated())
    (record, summary), (other_record, other_summary) = found
    assert summary == other_summary
    for table in record.TABLES:
        for column, values in getattr(record, table).items():
            np.testing.assert_array_equal(values, getattr(other_record, table)[column], err_msg=f"{table}.{column}")


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("name", PLAIN_SYSTEMS)
def test_a_plain_system_is_the_same_to_both_kernels(name, samples, monkeypatch):
    system = plain_system(name)
    assert system.start(30, samples, 0, 1, drawn=True).plain
    in_both(lambda: (system.timeline(30, samples, seed=1), system.summary(30, samples, 1)), monkeypatch)


@pytest.mark.parametrize("name", WORKER_SYSTEMS)
def test_a_system_of_workers_is_the_same_to_both_kernels(name, monkeypatch):
    system = worker_system(name)
    assert system.start(200, 1, 0, 1, drawn=True).plain
    in_both(lambda: (system.timeline(200, 1, seed=1), system.summary(200, 1, 1, warm=50)), monkeypatch)


@pytest.mark.parametrize("setting", k.PLAIN)
def test_a_state_is_plain_only_as_long_as_every_setting_is(setting):
    state = start()
    assert state.plain
    state.settings[setting] += 1
    assert not state.replace().plain


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))])
def test_a_copy_runs_on_tables_of_its_own(copied):
    state = start()
    before, other = content(state), copied(state)
    assert (other.addresses[:, 0] != state.addresses[:, 0]).all()
    result = ended(other)
    assert content(state) == before
    assert ended(state) == result


def address(record):
    return np.frombuffer(record, np.uint8).ctypes.data


@pytest.mark.parametrize("name", k.RECORDS)
def test_records_stand_where_compiled_code_looks_for_them(name):
    given = start()
    for state in (given, given.replace(), copy.deepcopy(given)):
        expected = state.addresses.ctypes.data + k.RECORDS[name]
        assert address(getattr(state, name)) == expected == state.addresses[list(k.LAYOUT).index(name), 0]
        # The planted defect: a record that was made for another state.
        assert address(getattr(start(), name)) != expected


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("rows", lambda array: array.astype(np.int64)),
        ("marks", lambda array: array.reshape(-1)),
        ("marks", lambda array: np.repeat(array, 2, axis=1)[:, ::2]),
        ("group", lambda array: np.zeros(len(array), k.SAMPLE).view(np.recarray)),
    ],
)
def test_tables_of_another_layout_never_reach_compiled_code(name, change):
    state = start()
    with pytest.raises(TypeError, match=f"the state's {name} is not as LAYOUT says"):
        state.replace(**{name: change(getattr(state, name))})


def test_every_table_of_the_state_has_a_place_in_the_list_of_addresses():
    state = start()
    assert state.addresses.shape == (len(k.LAYOUT), k.SLOT) and state.addresses.dtype == np.int64
    assert set(vars(state)) == {*k.LAYOUT, "addresses", "plain"}
