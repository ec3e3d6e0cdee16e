"""Which version generates which token: imposed laws, and small systems of events."""

import warnings
from functools import cache
from typing import Any

from hypothesis import strategies as st

from asyncsim import schedules as laws_of
from asyncsim.base import checks
from asyncsim.base.checks import ShortRunWarning
from asyncsim.base.feeds import Source
from asyncsim.base.laws import empirical, gamma, lognormal
from asyncsim.base.records import Schedule
from asyncsim.systems._settings import RELEASES
from asyncsim.systems._system import System

KINDS = ("fixed", "sawtooth", "random", "frozen", "system")
MODES = ("drain", "restart", "reprefill", "keep", "pin")
_IN_FLIGHT = ("keep", "reprefill")
LARGEST = 9
"""Largest staleness of an imposed law, in versions."""

# Few values, all exact in binary: many events fall on the same instant, and no order of additions can tell.
EIGHTHS = st.lists(st.integers(1, 24).map(lambda n: n / 8), min_size=1, max_size=4).map(empirical)
SMOOTH = st.sampled_from([lognormal(1.0, 0.8), gamma(1.0, 0.5), lognormal(0.3, 2.0)])


def sources(*kinds: str) -> st.SearchStrategy[Source]:
    """What makes schedules: `source.schedule(batches, samples, tokens, realizations, seed)`; also for `sim.Spec`.

    An imposed distribution of staleness up to 9 versions, or a system of up to eight generator slots. Its events often
    fall on the same instant. One to three groups are in a batch (a system: four), one to three batches in a publish.

    Arguments: `kinds` among fixed, sawtooth, random, frozen and system; all where none is given. The first use of
    system compiles the event kernel, which takes a minute once in an installation. Raises `InputError` for other
    kinds. Source: textbook; `systems/MODEL.md`.

    >>> from hypothesis import find
    >>> find(sources("fixed"), lambda law: law.knobs["staleness"] > 2)
    Imposed('fixed', staleness=3)
    """
    for kind in kinds:
        checks.one_of("kinds", kind, KINDS, "name kinds of schedules")
    chosen = kinds or KINDS
    if "system" in chosen:
        _compiled()
    return st.one_of(*(_SOURCES[kind] for kind in chosen))


_COUNTS = {"groups_per_batch": st.integers(1, 3), "batches_per_publish": st.integers(1, 3)}
_STALENESS = st.integers(0, LARGEST)
_SHARES = st.lists(st.integers(0, 4), min_size=1, max_size=LARGEST + 1).filter(any)


@st.composite
def plain_systems(draw: Any, exact: bool = True, modes: tuple[str, ...] = MODES) -> dict[str, Any]:
    """Settings of a plain `System` that its checks accept; `exact`: durations that tie, training that takes no time."""
    batch, publish = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    quantum = draw(st.sampled_from([1, 1, 2, 3]))
    places = draw(st.integers(quantum, 8))
    release = draw(st.sampled_from(RELEASES))
    least = batch * (publish if release == "publish" else 1) + quantum - 1
    return {
        "groups_per_batch": batch,
        "batches_per_publish": publish,
        "quantum": quantum,
        "release": release,
        "mode": draw(st.sampled_from(modes)),
        "train_time": draw(st.one_of(st.just(0.0), EIGHTHS) if exact else SMOOTH),
        "length": draw(EIGHTHS if exact else SMOOTH),
        "tickets": draw(st.integers(least, least + 3 * batch * publish)),
        "rates": tuple(draw(st.lists(st.sampled_from([1.0, 0.5, 2.0]), min_size=places, max_size=places))),
    }


_SOURCES: dict[str, st.SearchStrategy[Any]] = {
    "fixed": st.builds(laws_of.fixed, _STALENESS, **_COUNTS),
    "sawtooth": st.builds(laws_of.sawtooth, st.integers(1, LARGEST), groups_per_batch=_COUNTS["groups_per_batch"]),
    "random": st.builds(
        laws_of.random,
        _SHARES.map(lambda shares: [share / sum(shares) for share in shares]),
        per=st.sampled_from(["update", "group", "trajectory"]),
        **_COUNTS,
    ),
    "frozen": st.builds(laws_of.frozen, **_COUNTS),
    # Those of two modes once more: they alone change the version inside a sample.
    "system": st.one_of(
        *(plain_systems(modes=modes).map(lambda found: System("drawn", {}, **found)) for modes in (MODES, _IN_FLIGHT))
    ),
}


@cache
def _compiled() -> None:
    """Load the event kernel here: hypothesis complains of a first example that takes long to draw."""
    System("", {}, empirical([1.0]), (1.0,), tickets=1, train_time=0.0).schedule(1, 1, 1, 1, 0)


def schedules(
    *kinds: str, batches: int = 12, samples: int = 3, tokens: int = 4, realizations: int = 2
) -> st.SearchStrategy[Schedule]:
    """Schedules of the `sources` of these kinds: versions `[M, B, G, N, T or 1]`, trajectories `[M, B, G, N]`.

    Arguments: `kinds` as in `sources`; the largest `batches` B, `samples` N, `tokens` T and `realizations` M, each at
    least 1. A law that a short run does not reach is no warning here. Raises `InputError`. Source: textbook.

    >>> from hypothesis import find
    >>> find(schedules("fixed", "random"), lambda schedule: schedule.staleness().max() == 2).version.ravel().tolist()
    [0, 0, 0]
    """
    remedy, most = "give the largest count that may be drawn", checks.LARGEST
    counts = {"batches": batches, "samples": samples, "tokens": tokens, "realizations": realizations}
    shape = tuple(checks.integer(name, value, 1, remedy, most) for name, value in counts.items())
    return _schedules(sources(*kinds), shape)


@st.composite
def _schedules(draw: Any, source: st.SearchStrategy[Source], shape: tuple[int, ...]) -> Schedule:
    counts = [draw(st.integers(1, most)) for most in shape]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShortRunWarning)
        return draw(source).schedule(*counts, draw(st.integers(0, 999)))
