"""Rounds of a filter that resamples: by hand, their law by enumeration, and what may not stand beside them."""

import numpy as np
import pytest

import asyncsim as sim
from asyncsim import claims
from asyncsim.base import laws
from asyncsim.base.checks import InputError
from asyncsim.systems._system import System
from tests.refusals import refused


def rounds(**changes):
    base = {"length": laws.lognormal(1.0, 0.8), "rates": (1.0,) * 6, "groups_per_batch": 4, "train_time": 0.5}
    return System("rounds", {}, **{**base, "quantum": 6, "rounds": True, "accept": 0.5, **changes})


def test_a_round_follows_when_all_are_finished_and_too_few_are_accepted():
    record = rounds().timeline(100, 2)
    groups, starts = record.groups, record.batches["t_start"]
    submitted = groups["t_submit"].reshape(-1, 6)
    assert (submitted == submitted[:, :1]).all()
    # A batch starts when the last of its last round is finished, and that is when the next round could.
    batch = np.searchsorted(starts, submitted[:, 0], side="right")
    for b in range(100):
        mine = batch == b
        accepted = np.cumsum((groups["fate"].reshape(-1, 6)[mine] != "rejected").sum(axis=1))
        assert accepted[-1] >= 4 and (accepted[:-1] < 4).all()
        assert starts[b] == np.nanmax(groups["t_done"].reshape(-1, 6)[mine])
    trained = groups["fate"] == "trained"
    assert (groups["v_train"][trained] == groups["v_start"][trained]).all()


def test_groups_beyond_a_batch_are_dropped_by_number_or_by_their_end():
    for order, column in (("oldest_start", "group"), ("done", "t_ready")):
        record = rounds(order=order, accept=1.0).timeline(40, 2)
        rows = record.groups[column].reshape(-1, 6)
        trained = record.groups["fate"].reshape(-1, 6) == "trained"
        assert np.array_equal(np.argsort(np.argsort(rows, axis=1), axis=1) < 4, trained)
    # First come first served keeps short groups, the order of numbers any.
    shorter = rounds(order="done", accept=1.0).summary(400, 2)
    whole = rounds(order="oldest_start", accept=1.0).summary(400, 2)
    assert shorter["mean_length_trained"] < 0.9 * whole["mean_length_trained"]


def test_a_filter_alone_replaces_rejected_groups_at_once():
    # Negative binomial, with tickets and without rounds: P / a groups are generated for each batch, 2 percent.
    system = sim.systems.synchronous(8, length="lognormal:1.0:0.8", train_time=0.5).replace(quantum=1, accept=0.4)
    record = system.timeline(1500)
    assert len(record.groups["group"]) / 1500 == pytest.approx(8 / 0.4, rel=0.02)
    assert record.groups["v_start"][record.groups["fate"] == "trained"].max() < 1500


def test_the_law_is_what_enumeration_says():
    # P = 2 of rounds of 2 at a = 1/2: every way to two accepted, of up to 200 rounds.
    mean, chain = 0.0, {0: 1.0}
    for number in range(1, 200):
        following: dict[int, float] = {}
        for accepted, chance in chain.items():
            for more, share in ((0, 0.25), (1, 0.5), (2, 0.25)):
                if accepted + more >= 2:
                    mean += number * chance * share
                else:
                    following[accepted + more] = following.get(accepted + more, 0.0) + chance * share
        chain = following
    point = {"groups_per_batch": 2, "round": 2, "accept": 0.5}
    assert claims.claim("systems/dynamic-sampling").predict(point)["rounds"] == pytest.approx(mean, rel=1e-12)
    single = claims.claim("systems/dynamic-sampling").predict(point | {"round": 1})
    assert single["rounds"] == pytest.approx(4.0) and single["kept"] == pytest.approx(1.0)


def test_nothing_is_stale_and_the_prediction_says_so():
    system = rounds(batches_per_publish=2, sync_time=0.3)
    assert claims.predicted_staleness(system.describe_at(2), 2).support == (0, 0)
    assert (system.staleness(40, 4, 0, 2) == 0.0).all()


BESIDE = {"tickets": 9, "capacity": 8, "epoch": 3, "max_age": 1, "lead": 1, "max_uses": 2, "prefetch": 1}


@pytest.mark.parametrize("name", BESIDE)
def test_what_does_not_go_with_rounds_is_refused_by_name(name):
    refused(name, lambda: rounds(**{name: BESIDE[name]}))


def test_a_filter_that_accepts_nothing_and_orders_that_wait_are_refused():
    refused("accept", rounds, accept=0.0)
    refused("order", rounds, order="version_strict")
    with pytest.raises(InputError, match="accept"):
        claims.claim("systems/dynamic-sampling").predict({"groups_per_batch": 2, "round": 2, "accept": 0.0})


def test_the_recipe_of_a_synchronous_trainer_is_one_call():
    recipe = {"rounds": True, "tickets": None, "accept": 0.5}
    system = sim.systems.synchronous(8, length="lognormal:1.0:0.8", train_time=0.5, model=recipe)
    found = system.summary(1000)
    used = (1.0 - found["rejected_fraction"]) * (1.0 - found["dropped_fraction"])
    point = {"groups_per_batch": 8, "round": 8, "accept": 0.5}
    assert 1.0 / used == pytest.approx(claims.claim("systems/dynamic-sampling").predict(point)["generated"], rel=0.05)
