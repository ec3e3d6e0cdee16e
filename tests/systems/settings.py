"""Random systems for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from asyncsim.laws import empirical, gamma, lognormal
from asyncsim.systems._system import MODES, ORDERS, RELEASES, System

# Few values, all exact in binary: many events fall on the same instant, and no order of additions can tell.
EIGHTHS = st.lists(st.integers(1, 24).map(lambda n: n / 8), min_size=1, max_size=4).map(empirical)
SMOOTH = st.sampled_from([lognormal(1.0, 0.8), gamma(1.0, 0.5), lognormal(0.3, 2.0)])


@st.composite
def systems(draw, exact: bool = True, modes=MODES):
    """A system that the checks accept; `exact`: durations that tie, pauses, training that takes no time."""
    batch, publish = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    quantum = draw(st.sampled_from([1, 1, 2, 3]))
    places = draw(st.integers(quantum, 10))
    release = draw(st.sampled_from(RELEASES))
    train_time = draw(st.one_of(st.just(0.0), EIGHTHS) if exact else SMOOTH)
    settings = {
        "groups_per_batch": batch, "batches_per_publish": publish, "quantum": quantum, "release": release,
        "order": draw(st.sampled_from(ORDERS)), "mode": draw(st.sampled_from(modes)), "train_time": train_time,
        "length": draw(EIGHTHS if exact else SMOOTH),
        "rates": tuple(draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=places, max_size=places))),
    }
    if exact:
        settings["sync_time"] = draw(st.sampled_from([0.0, 0.0, 0.125, 1.5]))
        starts = st.lists(st.sampled_from([0.0, 0.5, 0.5, 3.0]), min_size=places, max_size=places)
        settings["offsets"] = draw(st.one_of(st.none(), starts.map(tuple)))
    least = batch * (publish if release == "publish" else 1) + quantum - 1
    tickets = draw(st.integers(least, least + 3 * batch * publish))
    # No limit only where training keeps up whatever happens.
    unlimited = train_time == 0.0 and draw(st.booleans())
    return System("random", {}, tickets=None if unlimited else tickets, **settings)


