"""Concurrency that follows a target of staleness: counted again from the record, its effect, refusals."""

import numpy as np
import pytest

from asyncsim import claims
from asyncsim.base import laws
from asyncsim.systems._system import System
from tests.refusals import refused


def adapting(**changes):
    base = {"length": laws.lognormal(1.0, 0.8), "rates": (1.0,) * 32, "groups_per_batch": 4, "train_time": 0.5}
    return System("adapting", {}, **{**base, "permits": 64, "target_staleness": 1.0, "capacity": 32, **changes})


def allowed(record, target, ceiling, samples, factor=2):
    """Samples that may be under way after each install, from the staleness of the batches between two."""
    trained = record.groups["fate"] == "trained"
    stale = (record.groups["v_train"] - record.groups["v_start"])[trained]
    # A batch trains at the version that counts the installs before it.
    since = np.bincount(record.groups["v_train"][trained], stale) / np.bincount(record.groups["v_train"][trained])
    levels = [ceiling]
    for mean in since[: len(record.publishes["version"])]:
        levels.append(max(1, levels[-1] // factor) if mean > target else min(ceiling, levels[-1] + samples))
    return np.array(levels)


def excess(record, levels):
    """The most by which a sample that starts finds more under way, itself included, than may be at its version."""
    start, end = record.samples["t_start"], np.nan_to_num(record.samples["t_end"], nan=np.inf)
    begun = np.flatnonzero(~np.isnan(start))
    under_way = np.array([((start <= start[n]) & (end > start[n])).sum() for n in begun])
    return int((under_way - levels[record.samples["v_start"][begun]]).max())


def test_no_sample_starts_above_what_its_version_allows():
    system = adapting()
    record = system.timeline(200, 2)
    levels = allowed(record, 1.0, 64, 2)
    assert len(np.unique(levels)) > 5 and excess(record, levels) <= 0
    # A third instead of a half is seen, and so is a trainer that never adapts.
    assert excess(record, allowed(record, 1.0, 64, 2, factor=3)) > 0
    assert excess(system.replace(target_staleness=None).timeline(200, 2), levels) > 0


@pytest.mark.parametrize("target", [1.0, 2.0, 4.0])
def test_staleness_comes_down_to_about_the_target(target):
    free = adapting(target_staleness=None).summary(600, 2)["staleness"]["mean"]
    mean = adapting(target_staleness=target).summary(600, 2)["staleness"]["mean"]
    assert free > 4.0 and 0.4 * target < mean < 1.3 * target


def test_a_target_needs_a_ceiling_and_promises_no_law():
    refused("permits", adapting, permits=None)
    refused("target_staleness", adapting, target_staleness=-1.0)
    for tickets in (None, 40):
        system = adapting(tickets=tickets)
        assert claims.predicted_staleness(system.describe_at(2), 2).mean is None
