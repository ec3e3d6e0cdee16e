"""Weights that arrive server by server: stamps, tokens and pauses by hand, records that are checked, refusals."""

import dataclasses

import numpy as np
import pytest

import asyncsim as sim
from asyncsim import claims
from asyncsim.base import laws
from asyncsim.schedules import coupled
from asyncsim.systems._system import System
from tests.refusals import refused
from tests.systems.histories import token_versions
from tests.systems.test_twin import by_hand


def servers(**changes):
    base = {"length": laws.lognormal(1.0, 0.8), "rates": (1.0,) * 8, "groups_per_batch": 2, "tickets": 10, "servers": 4}
    return System("servers", {}, **{**base, "train_time": 0.4, "sync_time": 0.25, "rolling": True, **changes})


def test_every_server_takes_the_version_at_its_own_second():
    # Place 0 ends at 1, trains until 2; server 0 has the weights at 2.5, server 1 at 3, which is the install.
    twin = by_hand([1.0, 8.0, 8.0], [1.0, 1.0], 2, rates=(1.0, 1.0), servers=2, tickets=3, sync_time=0.5, rolling=True)
    second, third = twin.samples[1], twin.samples[2]
    assert twin.publishes[0].t_install == 3.0
    # Server 0 stands still from 2 to 2.5, server 1 from 2.5 to 3: both have done 1.5 more by 4.
    assert third.breakpoints[1] == (1.0, 1) and second.breakpoints[1] == (2.5, 1)
    assert (third.t_end, second.t_end) == (9.5, 8.5)
    # Where all take them together the install is at 2.5, and both have written until 2.
    alone = by_hand([1.0, 8.0, 8.0], [1.0, 1.0], 2, rates=(1.0, 1.0), servers=2, tickets=3, sync_time=0.5)
    assert alone.publishes[0].t_install == 2.5
    assert [alone.samples[n].breakpoints[1] for n in (1, 2)] == [(2.0, 1), (1.0, 1)]


def test_tokens_have_the_versions_of_their_own_server():
    system = servers(generator_pauses=False)
    record = system.timeline(60, 2)
    versions = token_versions(record, 40)
    samples, installs = record.samples, record.publishes["t_install"]
    checked = ahead = 0
    for row in np.flatnonzero(samples["fate"] == "trained"):
        # Nothing pauses and the rate is 1: token t is written t / 40 of the work after the start.
        seconds = samples["t_start"][row] + samples["work"][row] * np.arange(40) / 40
        mine = installs - (system.servers - 1 - samples["server"][row]) * system.sync_time
        expected = np.searchsorted(mine + 1e-9, seconds[1:])
        assert np.array_equal(versions[row, 1:], expected)
        ahead += int((expected > np.searchsorted(installs, seconds[1:])).sum())
        checked += 1
    assert checked == 240 and ahead > 50


def test_servers_pause_one_after_the_other():
    # All of one length, always busy: a server loses its own seconds at each install, not those of the others.
    whole, rolled = (servers(rolling=flag, length=2.0).timeline(40, 1) for flag in (False, True))
    for record in (whole, rolled):
        r = record.resources
        np.testing.assert_allclose(
            sum(r[name] for name in ("busy", "blocked", "idle", "syncing")), record.header["seconds"]
        )
    per_install = [record.resources["syncing"][0] / len(record.publishes["version"]) for record in (whole, rolled)]
    assert per_install == pytest.approx([0.25, 0.25])
    seconds = [float((r.publishes["t_install"] - r.publishes["t_snapshot"]).mean()) for r in (whole, rolled)]
    assert seconds == pytest.approx([0.25, 1.0])


@pytest.mark.parametrize("mode", ["keep", "reprefill", "restart", "pin"])
def test_a_record_is_saved_and_checked(mode, tmp_path):
    record = servers(mode=mode, generator_pauses=False).timeline(60, 2)
    record.save(tmp_path / "record")
    loaded = sim.Timeline.load(tmp_path / "record")
    ahead = loaded.samples["v_start"] - np.searchsorted(loaded.publishes["t_install"], loaded.samples["t_start"])
    assert (ahead[loaded.samples["v_start"] >= 0] > 0).any()
    # Without the setting a start ahead of the install is a wrong stamp.
    wrong = dataclasses.replace(record, header={**record.header, "rolling": False})
    wrong.save(tmp_path / "wrong")
    refused("v_", sim.Timeline.load, tmp_path / "wrong")


def test_a_coupled_run_is_that_of_its_record():
    def spec(source):
        task = sim.tasks.token_bandit(actions=3, horizon=6, ends=True, logits=[[0.0, 0.0, -1.5]])
        links = sim.chain(sim.updates.sgd(0.5))
        return sim.Spec(task, source, sim.methods.reinforce(), links, updates=12, samples_per_group=2, replicates=2)

    first = sim.run(spec(coupled(servers(length=2.0, generator_pauses=False))), progress=False)
    assert (np.diff(first.schedule.version, axis=-1) > 0).any()
    again = sim.run(spec(first.schedule), progress=False)
    np.testing.assert_array_equal(first.parameters, again.parameters)


def test_no_mean_is_promised_and_the_bound_stands():
    system = servers(order="target")
    prediction = claims.predicted_staleness(system.describe_at(1), 1)
    assert prediction.mean is None and "one after the other" in prediction.reason
    assert system.staleness(200, 2, 0).max() <= prediction.support[1]


REFUSED = [
    ({"servers": 1}, "servers"),
    ({"sync_time": 0.0}, "sync_time"),
    ({"mode": "drain"}, "mode"),
    ({"trainer_waits": False, "train_time": 0.5}, "sync_time"),
    ({"rolling": 1}, "rolling"),
]


@pytest.mark.parametrize(("changes", "name"), REFUSED)
def test_what_cannot_roll_is_refused_by_name(changes, name):
    refused(name, lambda: servers(**changes))


def test_a_roll_that_ends_before_the_next_publish_is_accepted():
    assert servers(trainer_waits=False, train_time=1.0).timeline(20).batches["t_start"].size == 20
