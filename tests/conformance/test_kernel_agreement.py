"""Laws of admission as real systems write them against the kernel's tickets: as many groups at the same instants."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from asyncsim.base.laws import lognormal
from asyncsim.systems._system import StalledError, System
from asyncsim.testing.events import EIGHTHS, SMOOTH
from tests.conformance import planted
from tests.conformance.controllers import ResetAtPublish, TicketsAtDequeue, TicketsAtPublish, VersionCounter
from tests.systems.settings import some

COMPLETED, TRAINED, INSTALLED = range(3)
AT_PUBLISH = (VersionCounter, ResetAtPublish, TicketsAtPublish)


def events_of(timeline, system):
    """(second, place in the model's order, kind, group) of everything that a controller is told."""
    g, p, b = timeline.groups, timeline.publishes, timeline.batches
    rejected = g["fate"] == "rejected"
    left = np.where(rejected, g["t_left"], g["t_ready"])
    events = [
        (time, -1.0, COMPLETED, "rejected" if lost else "accepted")
        for time, lost in zip(left, rejected, strict=True)
        if not np.isnan(time)
    ]
    # A batch is dequeued behind the publishes that its version contains, before the one behind its own training.
    events += [(time, float(batch), TRAINED, "") for batch, time in enumerate(b["t_pack"])]
    events += [(time, v * system.batches_per_publish - 0.5, INSTALLED, v) for v, time in enumerate(p["t_install"], 1)]
    return sorted(events, key=lambda event: event[:3])


def disagreements(system, controller, batches=14, samples=1, seed=0):
    """Instants at which the controller would admit other numbers of groups than the kernel did."""
    timeline = system.timeline(batches, samples, seed=seed)
    events, submitted = events_of(timeline, system), timeline.groups["t_submit"]
    waits = list(zip(timeline.publishes["t_snapshot"], timeline.publishes["t_install"], strict=True))
    # What was admitted at the very end depends on whether the run had stopped by then.
    instants = [t for t in sorted({0.0, *(event[0] for event in events)}) if t < timeline.header["seconds"]]
    found, at = [], 0
    for now in instants:
        while at < len(events) and events[at][0] == now:
            tell(controller, events[at], system)
            at += 1
        closed = any(start <= now < end for start, end in waits) and (system.mode == "drain" or system.generator_pauses)
        able, admitted = 0 if closed else controller.capacity(), int((submitted == now).sum())
        if able != admitted:
            found.append((now, able, admitted))
        controller.submitted(admitted)
    return found


def tell(controller, event, system):
    _, _, kind, what = event
    if kind == COMPLETED:
        getattr(controller, what)(1)
    elif kind == TRAINED:
        if hasattr(controller, "consumed"):
            controller.consumed(system.groups_per_batch)
    else:
        controller.published(what)


@st.composite
def cases(draw, accepts=(1.0,)):
    """A system whose tickets are the law of a controller, and the controller."""
    law = draw(some(*AT_PUBLISH, TicketsAtDequeue))
    at_dequeue = law is TicketsAtDequeue
    batch, publish, places = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 9))
    # Whole tickets, but not always whole versions.
    eta = (draw(st.integers(batch * publish if at_dequeue else 0, 3 * batch * publish))) / (batch * publish)
    own = law(batch, eta, places, publish)
    rates = draw(st.lists(some(0.5, 1.0), min_size=places, max_size=places))
    # With instant training admission may open and close within one instant, which a list of instants does not tell.
    train, sync = draw(some((0.0, 0.0), (0.125, 0.0), (1.0, 0.0), (0.125, 0.25), (1.0, 0.25)))
    options = {"groups_per_batch": batch, "batches_per_publish": publish, "train_time": train, "sync_time": sync}
    system = System(
        "law",
        {},
        draw(st.one_of(SMOOTH, EIGHTHS)),
        tuple(rates),
        accept=draw(some(*accepts)),
        tickets=own.limit,
        release="dequeue" if at_dequeue else "publish",
        release_dropped="publish" if law is ResetAtPublish else "now",
        order=draw(some("done", "oldest_start", "freshest", "random")),
        mode=draw(some("keep", "pin", "drain" if train else "keep")),
        **options,
    )
    return system, own


@settings(max_examples=200)
@given(case=cases(), samples=st.integers(1, 2), seed=st.integers(0, 3))
def test_every_law_admits_what_the_tickets_admit(case, samples, seed):
    system, controller = case
    assert disagreements(system, controller, 14, samples, seed) == []


@settings(max_examples=100)
@given(case=cases(accepts=(0.7, 0.4)), seed=st.integers(0, 3))
def test_with_rejections_the_laws_are_the_kernels_ways_to_return_tickets(case, seed):
    system, controller = case
    try:
        assert disagreements(system, controller, 14, 1, seed) == []
    except StalledError:
        # A law that returns the permits of rejected groups at the publish may have none left before it.
        assume(False)


def example(law, tickets, eta=1, **changes):
    options = {"groups_per_batch": 2, "tickets": tickets, "release": "publish", "mode": "keep", "train_time": 0.4}
    system = System("example", {}, lognormal(1.0, 0.8), (1.0,) * 6, **options).replace(**changes)
    return disagreements(system, law(2, eta, 6), 30)


@pytest.mark.parametrize("law", AT_PUBLISH)
def test_the_comparison_sees_the_number_of_tickets(law):
    assert example(law, 4) == []
    assert example(law, 5) != [] and example(law, 3) != []


def test_the_comparison_sees_when_tickets_return():
    assert example(TicketsAtPublish, 4, release="dequeue") != []
    assert example(VersionCounter, 6, eta=2, accept=0.9) == []
    assert example(VersionCounter, 6, eta=2, accept=0.9, release_dropped="publish") != []
    assert example(ResetAtPublish, 6, eta=2, accept=0.9, release_dropped="publish") == []
    assert example(ResetAtPublish, 6, eta=2, accept=0.9) != []


@pytest.mark.parametrize(
    "wrong", [planted.Forgetful, planted.LateCarry, planted.RunningOnly, planted.Leaking, planted.Both]
)
def test_the_comparison_sees_a_wrong_law(wrong):
    assert example(wrong, 4) != []
