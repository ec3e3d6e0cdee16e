"""What a system, a schedule and a timeline say of themselves, and what limits mean."""

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim import schedules
from asyncsim import systems as presets
from asyncsim.base import checks, laws, records
from asyncsim.base.checks import InputError
from asyncsim.systems._settings import Settings
from tests.systems.contract import CASES
from tests.systems.contract import system as case_system
from tests.systems.settings import systems

MOST = 500
MEASURED = laws.empirical(np.linspace(0.123456789, 7.0, 4000))


@settings(max_examples=100)
@given(system=systems(exact=False, most=8))
def test_a_system_says_what_it_is_in_one_line(system):
    assert len(repr(system)) < MOST and "\n" not in repr(system) and repr(system).startswith("System('random'")


@pytest.mark.parametrize("case", CASES)
def test_presets_and_coupled_systems_say_their_name(case):
    system, _ = case_system(case, 1)
    assert len(repr(system)) < MOST and repr(system).startswith(f"System('{system.name}'")
    if system.load is None:
        assert len(repr(schedules.coupled(system))) < MOST


def long():
    """A system with as many numbers as it can have."""
    many = tuple(np.linspace(1.0, 2.0, 3000).tolist())
    return presets.areal(2, 4, 3000, length=MEASURED, train_time=1.0).replace(
        rates=many, decode=many, offsets=many, reward=MEASURED, difficulty=MEASURED
    )


def test_long_laws_and_tables_are_counted():
    system = long()
    assert len(repr(system)) < MOST and "4000 values" in repr(system) and "3000 places" in repr(system)
    assert len(repr(MEASURED)) < 80 and laws.Law.parse(str(MEASURED)) == MEASURED
    assert len(repr(schedules.random("uniform:0:5000"))) < MOST
    assert len(repr(schedules.fixed(7))) < 60


def test_records_say_their_shape():
    schedule, timeline = long().schedule(5, 2, 3, 2, 0), long().timeline(5, 2)
    assert len(repr(schedule)) < MOST and "2x5x4x2x3" in repr(schedule) and "staleness" in repr(schedule)
    assert len(repr(timeline)) < MOST and "5 batches" in repr(timeline)
    unknown = records.Schedule(np.full((1, 2, 1, 1, 1), -1), np.zeros((1, 2, 1, 1), dtype=np.int64))
    assert "no version known" in repr(unknown)
    bare = records.Timeline({}, {}, {}, {}, {})
    assert len(repr(bare)) < MOST


@given(text=st.text(max_size=600), most=st.integers(20, 400))
def test_a_clipped_text_keeps_both_ends(text, most):
    found = checks.clipped(text, most)
    assert len(found) <= most and (found == text) == (len(text) <= most)
    if found != text:
        assert text.startswith(found[: most // 2 - 3]) and text.endswith(found[-(most // 2 - 3) :])


@pytest.mark.parametrize("name", [each.name for each in fields(Settings) if each.type == "int | None"])
def test_infinity_is_no_limit(name):
    base = presets.areal(2, 4, length=1.0, train_time=1.0)
    if name == "window":
        base = base.replace(order="oldest_start")
    if name == "max_uses":
        base = base.replace(tickets=None, capacity=8)
    assert base.replace(**{name: math.inf}) == base.replace(**{name: None})
    with pytest.raises(InputError):
        base.replace(**{name: -math.inf})


def test_infinity_is_no_limit_in_a_knob():
    assert presets.torchforge(2, 3, math.inf, length=1.0, load=1.0) == presets.torchforge(2, 3, length=1.0, load=1.0)
