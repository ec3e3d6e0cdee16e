"""A flipped bit gives no other number: units, plans, checkpoints and evidence are refused, or read as they were."""

from pathlib import Path

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.app.evidence import APART, Ledger
from asyncsim.base import store as storing
from asyncsim.base.checks import InputError
from asyncsim.running import checkpoint
from asyncsim.running.checkpoint import flattened
from asyncsim.sweeping import plans, units
from tests.refusals import refused
from tests.sweeping.laboratory import bandit

FLIPS = 250
"""Of each of four kinds: a thousand in all."""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A file of each kind, and what gives everything that is read of it as text."""
    folder = tmp_path_factory.mktemp("kept")
    spec = bandit()
    grid = {"staleness": [0], "method": [sim.methods.grpo()], "lr": [0.1, 0.2]}
    answer = sim.sweep(spec, grid, replicates=8, store=str(folder / "s"), workers=1)
    unit = next(storing.Store(folder / "s").names("units"))
    trace = sim.run(spec, seed=3, checkpoint=folder / "c.npz")
    trace.save(folder / "trace.npz")
    trace.schedule.save(folder / "schedule.npz")
    sim.systems.areal(2, 2, 3, length=1.0, train_time=2.0).timeline(400, 2).save(folder / "timeline.npz")
    ledger = Ledger(folder / "e.json")
    for k, p in enumerate((0.5, 0.01, 0.9)):
        ledger.add("ess/clamp-floor", 5 * k * APART, p)

    def checkpointed(path):
        arrays = {}
        saved = checkpoint.read(path)
        tree = flattened(
            [saved.seed, saved.spec, saved.identity, saved.code, [p.packed() for p in saved.parts]], arrays
        )
        return repr(tree) + repr({name: values.tobytes() for name, values in arrays.items()})

    def packed(kind):
        return lambda path: repr([(k, v.tolist()) for k, v in kind.load(path).packed()[0].items()])

    return {
        "unit": (folder / "s" / unit, lambda path: storing.content(units.read(path.read_bytes(), Path(unit).stem))),
        "plan": (folder / "s" / plans.plan_of(answer.id), lambda path: repr(vars_of(path, answer.id))),
        "checkpoint": (folder / "c.npz", checkpointed),
        "evidence": (folder / "e.json", lambda path: repr((Ledger(path), Ledger(path)._read())[1])),
        "schedule": (folder / "schedule.npz", packed(sim.Schedule)),
        "timeline": (folder / "timeline.npz", lambda path: repr(sim.Timeline.load(path).__dict__)),
        "trace": (folder / "trace.npz", lambda path: repr(sim.Trace.load(path)._packed())),
    }


def vars_of(path, id):
    store = storing.Store(path.parent.parent)
    return plans.loaded(store, id)


def flipped(path, count, seed):
    """Copies of a file in its own place, each with one bit flipped; the file is as before at the end."""
    data = path.read_bytes()
    for bit in np.random.default_rng(seed).permutation(8 * len(data))[:count].tolist():
        odd = bytearray(data)
        odd[bit // 8] ^= 1 << bit % 8
        path.write_bytes(odd)
        yield bit
    path.write_bytes(data)


def outcomes(place, read, count, seed=0):
    """How many flips were refused by name, and how many changed nothing; another number fails."""
    whole, refused, same = read(place), 0, 0
    for bit in flipped(place, count, seed):
        try:
            assert read(place) == whole, f"bit {bit} gives other numbers"
            same += 1
        except InputError as error:
            assert "\n" not in str(error)
            refused += 1
    assert read(place) == whole
    return refused, same


@pytest.mark.parametrize("kind", ["unit", "plan", "checkpoint", "evidence"])
def test_a_flipped_bit_gives_no_other_number(places, kind):
    refused, same = outcomes(*places[kind], FLIPS)
    # Only times and sizes in the table of a zip archive can change unseen: they are not read.
    assert refused + same == FLIPS and refused > (0.9 if kind == "checkpoint" else 0.99) * FLIPS


@pytest.mark.parametrize("kind", ["schedule", "timeline", "trace"])
def test_saved_arrays_are_guarded_as_well(places, kind):
    refused, same = outcomes(*places[kind], 30)
    assert refused + same == 30 and refused > 20


@pytest.mark.long
@pytest.mark.parametrize("kind", ["unit", "plan", "checkpoint", "evidence", "schedule", "timeline", "trace"])
def test_many_flips(places, kind):
    for seed in range(1, 5):
        outcomes(*places[kind], 1000, seed)


def test_planted_a_reader_without_digests_would_be_seen(places, monkeypatch):
    """A unit whose seal is not looked at gives other numbers within some hundred flips."""
    place, read = places["unit"]
    monkeypatch.setattr(storing, "_seal", lambda data: (0, data[:1]))
    with pytest.raises(AssertionError, match="gives other numbers"):
        outcomes(place, read, 2000)


def test_a_file_under_the_name_of_another_is_refused(places, tmp_path):
    """Whole files that were exchanged, or renamed."""
    sim.sweep(bandit(), {"staleness": [0, 4]}, replicates=4, store=str(tmp_path), workers=1)
    store = storing.opened(str(tmp_path))
    one, two = store.names("units")
    store.write(one, store.read(two))
    refused("the unit that its name says", plans.answered, store, plans.chosen(store, None), 0, 0.0)
    (name,) = store.names("sweeps")
    store.write("sweeps/000000000000.parquet", store.read(name))
    refused("a plan that a sweep wrote", plans.sweeps, store)
