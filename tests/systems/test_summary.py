"""The summary of a run: the same with and without a record, and what the full record says."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from asyncsim import claims
from asyncsim import systems as presets
from asyncsim.base.checks import InputError
from asyncsim.base.laws import constant, exponential, lognormal, pareto
from asyncsim.systems import _summary
from asyncsim.systems._system import StalledError, System
from tests.systems.histories import token_versions
from tests.systems.settings import MODES, systems


@settings(max_examples=120)
@given(system=systems(), batches=st.integers(1, 14), samples=st.integers(1, 3), seed=st.integers(0, 5))
def test_rows_that_are_used_again_change_nothing(system, batches, samples, seed):
    try:
        lean = system.summary(batches, samples, seed)
    except StalledError:
        reject()
    full, _ = system.recorded(batches, samples, seed, warm=_summary.warm_up(system, batches, samples))
    assert lean == full


def kept_codes(record, system, group, samples):
    """Rows of the samples that trained groups keep, `[groups, samples]`."""
    started = samples + system.redundant
    code = group[:, None] * started + np.arange(started)
    return code[record.samples["fate"][code] == "trained"].reshape(-1, samples)


@settings(max_examples=60)
@given(
    system=systems(exact=False),
    batches=st.integers(2, 14),
    samples=st.integers(1, 3),
    warm=st.integers(0, 1),
    seed=st.integers(0, 5),
)
def test_the_summary_is_what_the_record_says(system, batches, samples, warm, seed):
    try:
        found, record = system.recorded(batches, samples, seed, warm=warm)
    except StalledError:
        reject()
    uses, groups, table = record.uses, record.groups, record.batches
    kept = uses["batch"] >= warm
    group, version = uses["group"][kept], table["version"][uses["batch"][kept]]
    stale = version - groups["v_start"][group]
    assert found["staleness"]["mean"] == pytest.approx(stale.mean())
    assert found["staleness"]["std"] == pytest.approx(stale.std(), abs=1e-6)
    np.testing.assert_allclose(found["staleness"]["pmf"], np.bincount(stale) / stale.size)
    assert found["staleness"]["max"] == stale.max()
    flight = groups["v_done"][group] - groups["v_start"][group]
    assert found["in_flight"] == pytest.approx(flight.mean())
    assert found["in_queue"] == pytest.approx((stale - flight).mean())
    code = kept_codes(record, system, group, samples)
    work = record.samples["work"][code]
    assert found["mean_length_trained"] == pytest.approx(work.mean())
    assert warm or found["mean_length_generated"] == pytest.approx(record.samples["work"].mean())
    newest = version[:, None] - record.samples["v_end"][code]
    assert found["newest"] == pytest.approx(newest.mean())
    begin = table["t_end"][warm - 1] if warm else 0.0
    seconds = record.header["seconds"] - begin
    assert found["throughput"] == pytest.approx((batches - warm) * system.groups_per_batch / seconds)
    busy = (np.fmax(table["t_end"], begin) - np.fmax(table["t_start"], begin)).sum()
    assert found["trainer_utilization"] == pytest.approx(busy / seconds, abs=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_token_staleness_is_the_mean_over_many_tokens(mode):
    crossed = []

    @settings(max_examples=40)
    @given(system=systems(exact=False, modes=(mode,)), samples=st.integers(1, 2), seed=st.integers(0, 5))
    def holds(system, samples, seed):
        try:
            found, record = system.recorded(8, samples, seed)
        except StalledError:
            reject()
        tokens = 400
        versions = token_versions(record, tokens)
        code = kept_codes(record, system, record.uses["group"], samples)
        stale = record.batches["version"][record.uses["batch"]][:, None] - versions[code].mean(axis=-1)
        work = record.samples["work"][code]
        crossed.append(bool((versions[code, -1] > versions[code, 0]).any()))
        # A token's version is that of its beginning: the sum over T tokens errs by at most one version in T each.
        span = 1.0 + found["staleness"]["max"]
        assert found["token_staleness"] == pytest.approx((stale * work).sum() / work.sum(), abs=span / tokens + 1e-9)

    holds()
    # Where samples go on under new weights, half of the examples and more install some while a sample is written.
    goes_on = mode in ("keep", "reprefill")
    assert len(crossed) >= 30 and (sum(crossed) >= len(crossed) / 2 if goes_on else not any(crossed))


AGED = presets.prime_rl(8, 2, 25, 2, length=lognormal(1.0, 0.8), train_time=1.0).replace(
    turns=5, environment=exponential(1.0), max_age=1
)
WASTING = {
    "long tails": (presets.prime_rl(4, 2, length=pareto(0.4, 1.5), train_time=0.1), 20),
    "two batches": (AGED, 2),
    "restarts": (presets.areal(2, 4, 12, length=lognormal(1.0, 0.8), train_time=0.4).replace(mode="restart"), 12),
    "failures": (presets.areal(2, 4, 12, length=lognormal(1.0, 0.8), train_time=0.4).replace(failure_rate=0.5), 12),
}
"""Systems that throw much away, some of it long after it was written."""


@pytest.mark.parametrize("case", WASTING)
def test_the_wasted_share_is_a_share_where_much_is_lost(case):
    system, batches = WASTING[case]
    shares = [system.summary(batches, 1, seed)["wasted_token_fraction"] for seed in range(8)]
    assert min(shares) > 0.0 and max(shares) < 1.0


@settings(max_examples=400)
@given(
    system=systems(exact=False, most=6), batches=st.integers(1, 14), samples=st.integers(1, 3), seed=st.integers(0, 5)
)
def test_shares_are_shares(system, batches, samples, seed):
    try:
        found = system.summary(batches, samples, seed)
    except StalledError:
        reject()
    shares = (
        "wasted_token_fraction",
        "dropped_fraction",
        "rejected_fraction",
        "trainer_utilization",
        "generator_utilization",
    )
    assert all(0.0 <= found[name] <= 1.0 + 1e-9 for name in shares)


@settings(max_examples=60)
@given(system=systems(exact=False), batches=st.integers(1, 14), samples=st.integers(1, 3), seed=st.integers(0, 5))
def test_the_wasted_share_is_that_of_the_record(system, batches, samples, seed):
    try:
        found, record = system.recorded(batches, samples, seed)
    except StalledError:
        reject()
    table = record.samples
    lost = np.isin(table["fate"], ("dropped_age", "dropped_overflow", "rejected")) & ~np.isnan(table["t_end"])
    wasted = table["wasted"].sum() + table["done"][lost].sum()
    trained = table["work"][table["fate"] == "trained"].sum()
    assert found["wasted_token_fraction"] == pytest.approx(wasted / (wasted + trained), abs=1e-9)


def test_the_wasted_share_counts_losses_and_work_after_the_warm_up():
    system, batches = WASTING["long tails"]
    warm = 8
    found, record = system.recorded(batches, 2, 3, warm=warm)
    begin = record.batches["t_end"][warm - 1]
    table = record.samples
    left = np.repeat(record.groups["t_left"], 2)
    # What the install at the very end of the warm-up cuts is lost after it.
    dropped = (table["fate"] == "dropped_age") & (left >= begin)
    wasted = table["done"][dropped].sum()
    trained = table["work"][table["batch"] >= warm].sum()
    assert found["wasted_token_fraction"] == pytest.approx(wasted / (wasted + trained))
    # The planted defect: work lost before the warm-up ended counts too.
    early = table["done"][table["fate"] == "dropped_age"].sum()
    assert found["wasted_token_fraction"] != pytest.approx(early / (early + trained))


def test_a_summary_does_not_depend_on_the_number_of_threads():
    system = presets.areal(2, 4, 12, length=lognormal(1.0, 0.8), load=1.2)
    one, three = system.summaries(60, 5, 2, seed=3), system.summaries(60, 5, 2, seed=3, workers=3)
    assert one == three and one[0] != one[1]
    assert one[2] == system.summary(60, 2, seed=3, realization=2)


def test_memory_is_what_is_outstanding():
    system = presets.areal(3, 8, 64, length=pareto(0.5, 1.5), load=1.5)
    short, long = (system.simulate(batches, 2, 0, 0, record=False) for batches in (50, 2000))
    for name in ("sample", "steps", "group", "moment", "ranks", "timed", "taken"):
        assert getattr(short, name).shape == getattr(long, name).shape, name
    assert long.run.admitted > 100 * len(long.group)


def test_warm_up_is_twice_the_versions_that_are_out():
    system = presets.areal(4, 8, 40, length=constant(1.0), load=1.0)
    assert _summary.warm_up(system, 100, 1) == 10 and _summary.warm_up(system, 10, 1) == 5
    assert system.summary(100)["warm_up_batches"] == 10


DROPS = {"tickets": None, "capacity": 64, "overflow": "drop_oldest"}
FILLING = {
    "miles": presets.miles(8, async_data_buffer_capacity_factor=8, length=lognormal(1.0, 0.8), load=1.1),
    "areal": presets.areal(0, 8, 8, length=lognormal(1.0, 0.8), train_time=1.1).replace(**DROPS),
}


@pytest.mark.parametrize("name", FILLING)
def test_a_run_in_which_the_buffer_still_fills_is_not_steady(name):
    """A buffer of 8 batches fills in 80; what is called steady is the mean of long runs, and the start is below."""
    system = FILLING[name]
    assert _summary.ramp(system, 1) == 160
    assert not system.summary(100, 1)["steady"] and system.summary(320, 1)["steady"]
    limit = system.summary(20_000, 1)["staleness"]["mean"]
    for batches, warm, biased in ((100, 6, True), (320, 160, False)):
        means = [system.summary(batches, 1, seed, warm=warm)["staleness"]["mean"] for seed in range(16)]
        # In standard errors of 16 seeds; one false alarm in a thousand.
        assert ((limit - np.mean(means)) * 4.0 / np.std(means, ddof=1) > 4.1) == biased


def test_a_buffer_that_need_not_fill_takes_no_time_to():
    system = FILLING["miles"]
    slower, equal, faster = (system.replace(load=load) for load in (0.9, 1.0, 8.0))
    assert _summary.ramp(slower, 1) == _summary.ramp(faster, 1) == 6 and _summary.ramp(equal, 1) == 512
    # A limit of staleness of one version leaves room for two batches.
    assert _summary.ramp(system.replace(max_age=1), 1) == 32
    assert _summary.ramp(system.replace(length=pareto(1.0, 1.0), load=None, train_time=1.0), 1) == 6


REFUSED = {
    "law": lambda: presets.areal(1, 2, length=pareto(1.0, 1.0), load=1.0).summary(4),
    "warm": lambda: presets.synchronous().summary(4, warm=4),
    "workers": lambda: presets.synchronous().summaries(4, 2, workers=0),
    "realizations": lambda: presets.synchronous().summaries(4, 0),
    "slots": lambda: presets.synchronous().replace(slots=0),
    "decode": lambda: presets.synchronous().replace(decode=(1.0, 0.0)),
    "servers": lambda: presets.synchronous(2).replace(servers=3),
    "environment": lambda: presets.synchronous().replace(turns=2),
    "capacity": lambda: presets.synchronous(4).replace(capacity=3),
    "initial_fill": lambda: System("x", {}, constant(1.0), (1.0,), train_time=1.0, visible="publish"),
    "max_uses": lambda: System("x", {}, constant(1.0), (1.0,), train_time=1.0, visible="publish", initial_fill=1),
    "capacity = 4": lambda: presets.fixed_lag(2, 2, length=1.0, load=1.0).replace(capacity=4),
    "tickets = None": lambda: presets.areal(1, 2, length=1.0, load=1.0).replace(
        age_action="wait", max_age=3, tickets=None
    ),
    "window": lambda: presets.synchronous().replace(window=2),
    "recent": lambda: presets.synchronous().replace(recent=0.5),
    "max_age": lambda: presets.areal(3, 2, length=1.0, load=1.0).replace(age_action="wait", max_age=2),
    "order": lambda: presets.synchronous().replace(age_action="wait", max_age=2, order="done"),
    "age_at_pack": lambda: presets.synchronous().replace(age_at_pack="now"),
    "age_at_pack, age_at_publish": lambda: presets.synchronous().replace(max_age=1, age_at_pack="none"),
    "publish_waits": lambda: presets.areal(1, 2, length=1.0, load=1.0).replace(publish_waits=True),
    "publish_waits = True: must be False with prefetch = 1, mode = keep, epoch = None, lead = 0": lambda: System(
        "x", {}, constant(1.0), (1.0,), train_time=1.0, prefetch=1, lead=0, publish_waits=True
    ),
    "max_age = 0: must be at least 1 with publish_waits": lambda: System(
        "x", {}, constant(1.0), (1.0,), train_time=1.0, prefetch=1, max_age=0, publish_waits=True
    ),
    "tickets = 3": lambda: System(
        "x", {}, constant(1.0), (1.0,), 2, train_time=1.0, prefetch=1, tickets=3, publish_waits=True
    ),
    "failure_keeps": lambda: presets.synchronous().replace(failure_keeps=True, mode="restart"),
    "accept": lambda: presets.synchronous().replace(accept=0.0),
    "prefill_speedup": lambda: presets.synchronous().replace(prefill_speedup=0.0),
    "token_time": lambda: presets.areal(1, 2, length=1.0, load=1.0).replace(token_time=1.0),
    "tickets": lambda: System("x", {}, constant(1.0), (1.0,) * 4, train_time=1.0).summary(3),
    "tickets = 2": lambda: presets.one_step_off(2).replace(accept=0.8),
    "release_dropped": lambda: presets.areal(3, 2, length=1.0, load=1.0).replace(accept=0.8, release_dropped="never"),
    "turns": lambda: System(
        "x", {}, constant(1.0), (1.0,), train_time=1.0, turns=2, environment=exponential(1.0), tickets=1
    ).start(3, 1, 0, 0, drawn=False),
}


@pytest.mark.parametrize("field", REFUSED)
def test_bad_settings_are_refused_by_name(field):
    with pytest.raises(InputError) as caught:
        REFUSED[field]()
    assert str(caught.value).startswith(field) and caught.value.remedy


def test_a_deadlock_says_who_waits_for_what():
    # What is generated while a batch trains is cut at its publish, and the tickets of what is cut never come back.
    system = presets.one_step_off(2).replace(
        max_age=0, age_at_pack="none", age_at_publish="all", release_dropped="never", quantum=1
    )
    with pytest.raises(StalledError, match=r"stalled after 1 batches at .*; the trainer waits for 2 groups") as caught:
        system.summary(500)
    assert "0 of 2 are free and 0 are out with groups, 2 are not with any of them" in str(caught.value)


def test_a_livelock_is_starvation_and_no_hang():
    # Half of the samples of every group fail a thousand times a unit of work: no group is ever finished.
    system = presets.synchronous(2).replace(failure_rate=1000.0)
    with pytest.raises(StalledError, match="starved"):
        system.summary(2)


def test_a_start_is_counted_in_batches_where_several_make_a_publish():
    """336 permits and batches of 4, four per publish: the first groups are trained after 84 batches, not 84 / 4."""
    system = presets.verl_fully_async(4, 20, 4, replicas=4, length=constant(1.0), load=3.0)
    assert system.tickets == 336 and _summary.ramp(system, 1) == 168
    predicted = claims.predicted_staleness(system.describe_at(1), 1).mean
    assert system.summary(336)["staleness"]["mean"] == pytest.approx(predicted, abs=1e-9)
    # What counting publishes would have left out: 42 of 84 batches.
    short = system.summary(84, warm=42)
    assert short["staleness"]["mean"] < 0.7 * predicted and not short["steady"]
