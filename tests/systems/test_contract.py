"""Every preset at its law of staleness, or, where no law's conditions hold, at the identity that always does.

Errors come from independent realizations, of each of which only late batches are looked at. A mean is refused beyond
its Student quantile, a law beyond its expected total variation and McDiarmid's bound: each comparison rejects a right
program with probability FALSE_ALARM over the choice of its seed, which is fixed.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from asyncsim import claims
from asyncsim import systems as presets
from asyncsim.base.laws import constant, exponential, lognormal, pareto
from asyncsim.systems._system import StalledError, System
from tests.refusals import refused
from tests.statistics import FALSE_ALARM
from tests.systems.contract import CASES, NONE, STATED, configurations, first, loaded, system
from tests.systems.preset_table import REQUIRED
from tests.systems.settings import systems

RUNS, LATE, MANY = 24, 30, 2000
"""Realizations, the publishes of each that count, behind as many of start-up, and realizations for a law."""
TAIL = 0.1
"""Relative error of the straggler law at 16 groups a batch, which is asymptotic; 0.01 to 0.03 measured, noise apart."""


def predicted(built, samples):
    return claims.predicted_staleness(built.describe_at(samples), samples)


def summary(prediction):
    """What the table records of a prediction."""
    if prediction.law is None:
        return "no law"
    mean = "" if prediction.mean is None else f" mean {prediction.mean:.4g}"
    support = "" if prediction.support is None else " {}..{}".format(*prediction.support)
    parts = [name for name in ("pmf", "tail") if getattr(prediction, name) is not None]
    return " ".join([prediction.law.removeprefix("systems/") + mean + support, *parts])


def realized(built, samples, prediction):
    """Head staleness of late batches, [M, late, G]: one batch of many runs for a law of many values."""
    many = prediction.pmf is not None and prediction.support is None
    batches = 2 * LATE * built.batches_per_publish
    late = built.staleness(batches, MANY if many else RUNS, 0, samples)
    return late[:, -1:] if many else late[:, batches // 2 :]


def disagreements(prediction, staleness):
    """Names of what realized staleness contradicts in a prediction."""
    each = staleness.mean(axis=(1, 2))
    quantile = stats.t.isf(FALSE_ALARM / 2, len(each) - 1)
    found = []
    if prediction.mean is not None:
        error = quantile * each.std(ddof=1) / len(each) ** 0.5 + prediction.approximate + 1e-9
        found += ["mean"] * bool(abs(each.mean() - prediction.mean) > error)
    if prediction.support is not None:
        low, high = prediction.support
        found += ["support"] * bool(staleness.min() < low or staleness.max() > high)
    if prediction.pmf is not None and prediction.support is None:
        found += ["law"] * bool(variation(prediction.pmf, staleness) > allowed(prediction.pmf, len(each)))
    for level, tail in (prediction.tail or {}).items():
        share = (staleness >= level).mean(axis=(1, 2))
        error = quantile * share.std(ddof=1) / len(share) ** 0.5 + TAIL * tail
        found += [f"tail {level}"] * bool(abs(share.mean() - tail) > error)
    return found


def variation(pmf, staleness):
    """Total variation between the cells of a law and the realized ones."""
    counts = np.bincount(staleness.astype(int).ravel(), minlength=len(pmf)) / staleness.size
    law = np.zeros(len(counts))
    law[: len(pmf)] = pmf
    return 0.5 * float(np.abs(counts - law).sum())


def allowed(pmf, runs):
    """Total variation exceeded with probability FALSE_ALARM at most: one run of `runs` moves it by 1 / runs."""
    p = np.array(pmf)
    return 0.5 * float(np.sqrt(p * (1.0 - p) / runs).sum()) + (np.log(1.0 / FALSE_ALARM) / (2.0 * runs)) ** 0.5


def broken(timeline):
    """Names of the laws of conservation that a record breaks; all are integers."""
    groups, samples, uses, batches = timeline.groups, timeline.samples, timeline.uses, timeline.batches
    publishes = timeline.publishes
    left = np.where(groups["v_left"] >= 0, groups["v_left"], len(publishes["version"]))
    done = np.where(groups["v_done"] >= 0, groups["v_done"], left)
    waiting = sum(publishes[name].sum() for name in ("scoring", "blocked", "ready", "packed"))
    trained = np.flatnonzero(groups["fate"] == "trained")
    size = timeline.header["samples_per_group"]
    head = samples["v_start"].reshape(-1, size).min(axis=1)[trained]
    ended = samples["v_ready"].reshape(-1, size).max(axis=1)[trained]
    total = batches["version"][groups["batch"][trained]] - head
    in_flight, in_queue = ended - head, groups["v_train"][trained] - groups["v_done"][trained]
    laws = {
        "installs seen": (left - groups["v_submit"]).sum() == publishes["outstanding"].sum(),
        "installs in flight": (done - groups["v_submit"]).sum() == publishes["in_flight"].sum(),
        "installs in the queue": (left - done).sum() == waiting,
        "fates": np.array_equal(trained, np.unique(uses["group"])) and (groups["batch"][trained] >= 0).all(),
        "head": np.array_equal(total, in_flight + in_queue) and (in_flight >= 0).all() and (in_queue >= 0).all(),
    }
    return [name for name, holds in laws.items() if not holds]


def test_the_table_of_laws():
    """What each preset is measured against: a preset that falls to "no law" is seen here."""
    table = {case: tuple(summary(predicted(*system(case, c))) for c in range(3)) for case in CASES}
    for case, laws in table.items():
        print(f"{case:28s} {' | '.join(laws)}")
    assert {case: table[case] for case in STATED} == {case: laws for case, (_, laws) in STATED.items()}


@pytest.mark.parametrize("preset", REQUIRED)
def test_a_preset_has_a_law_at_its_first_settings_or_a_row_that_says_none(preset):
    laws = {summary(predicted(*loaded(preset, first(preset), c))) for c in range(3)}
    stated = NONE in [row for case, (_, row) in STATED.items() if case.partition(" ")[0] == preset]
    assert stated or laws != {"no law"}, f"give {preset} a row in STATED of tests/systems/contract.py"


@pytest.mark.parametrize("configuration", range(3), ids=["generators", "balanced", "trainer"])
@pytest.mark.parametrize("case", CASES)
def test_a_preset_follows_its_law(case, configuration):
    built, samples = system(case, configuration)
    prediction = predicted(built, samples)
    assert broken(built.timeline(LATE * built.batches_per_publish, samples)) == []
    if prediction.law is not None:
        assert disagreements(prediction, realized(built, samples, prediction)) == []


PLANTS = {
    "areal": (2, lambda s: s.replace(tickets=s.tickets + 16)),
    "areal few places": (0, lambda s: s.replace(tickets=16)),
    "areal idle cap": (0, lambda s: s.replace(rates=s.rates + (1.0,) * 8)),
    "verl_fully_async": (1, lambda s: s.replace(release="dequeue")),
    "verl_fully_async drained": (1, lambda s: s.replace(mode="keep")),
    "torchtitan in order": (0, lambda s: s.replace(window=9)),
    "tinker_cookbook_pipelined": (0, lambda s: s.replace(age_action="drop", max_age=9)),
    "openrlhf": (2, lambda s: s.replace(tickets=s.tickets + 4)),
    "trl": (2, lambda s: s.replace(max_age=3)),
    "miles": (2, lambda s: s.replace(capacity=12)),
    "update_on_arrival": (0, lambda s: s.replace(length=lognormal(1.0, 0.8))),
    "buffered": (0, lambda s: s.replace(mode="drain")),
}


@pytest.mark.parametrize("case", PLANTS)
def test_a_planted_setting_contradicts_the_law(case):
    configuration, plant = PLANTS[case]
    built, samples = system(case, configuration)
    prediction = predicted(built, samples)
    changed = plant(built)
    if prediction.law is None:
        # Sixteen tickets of places that no longer bind: the law returns, and holds.
        prediction = predicted(changed, samples)
        assert prediction.law == "systems/cap-binds"
        assert disagreements(prediction, realized(changed, samples, prediction)) == []
    else:
        assert disagreements(prediction, realized(changed, samples, prediction)) != []


@pytest.mark.parametrize("case", [case for case, (_, laws) in STATED.items() if "mean" in laws[2]])
def test_stamps_one_version_late_contradict_the_law(case):
    built, samples = system(case, 2)
    prediction = predicted(built, samples)
    late = realized(built, samples, prediction)
    assert "mean" in disagreements(prediction, late - 1.0) and "mean" in disagreements(prediction, late + 1.0)


@pytest.mark.parametrize("preset", REQUIRED)
def test_the_identity_holds_for_random_knobs(preset):
    @settings(max_examples=12)
    @given(built=configurations(preset), samples=st.integers(1, 3), batches=st.integers(1, 24), seed=st.integers(0, 9))
    def holds(built, samples, batches, seed):
        timeline = built.timeline(batches, samples, seed=seed)
        assert broken(timeline) == []
        assert len(timeline.uses["group"]) == batches * built.groups_per_batch

    holds()


def altered(timeline, **columns):
    """The record with other columns of its groups."""
    return type(timeline)(
        timeline.samples,
        timeline.groups | columns,
        timeline.batches,
        timeline.publishes,
        timeline.resources,
        timeline.header,
        timeline.uses,
        timeline.stretches,
    )


def test_the_identity_sees_a_wrong_record():
    timeline = system("trl", 2)[0].timeline(LATE, 2)
    groups = timeline.groups
    dropped = np.flatnonzero(groups["fate"] == "dropped_age")
    assert len(dropped) > 0 and broken(timeline) == []
    assert "installs seen" in broken(altered(timeline, v_submit=groups["v_submit"] + 1))
    assert "head" in broken(altered(timeline, v_done=groups["v_done"] + 1))
    assert "head" in broken(altered(timeline, v_train=groups["v_train"] + 1))
    fate = groups["fate"].copy()
    fate[dropped[0]] = "trained"
    assert "fates" in broken(altered(timeline, fate=fate))
    # A dropped group that is said to have been trained with the last batch.
    left = groups["v_left"].copy()
    left[dropped[0]] = timeline.batches["version"][-1]
    assert "installs seen" in broken(altered(timeline, v_left=left))


@settings(max_examples=150)
@given(built=systems(), samples=st.integers(1, 3), seed=st.integers(0, 5))
def test_hard_is_hard_for_random_systems(built, samples, seed):
    """Bounds of any settings, with instants that tie; and a constant number outstanding where a mean is exact."""
    prediction = predicted(built, samples)
    if prediction.law is None:
        return
    publishes = 40
    try:
        timeline = built.timeline(publishes * built.batches_per_publish, samples, seed=seed)
    except StalledError:
        return
    uses, groups = timeline.uses, timeline.groups
    staleness = timeline.batches["version"][uses["batch"]] - groups["v_start"][uses["group"]]
    late = staleness[uses["batch"] >= len(timeline.batches["batch"]) // 2]
    if prediction.support is not None:
        assert prediction.support[0] <= late.min() and late.max() <= prediction.support[1], prediction
    if "systems/cap-binds" in (prediction.law, *prediction.also) and built.trainer_waits:
        outstanding = timeline.publishes["outstanding"][publishes // 2 :]
        consumed = built.groups_per_batch * built.batches_per_publish
        assert (outstanding == round(prediction.mean * consumed)).all(), prediction


@pytest.mark.parametrize(("groups", "batches"), [(1, 1), (3, 1), (2, 3)])
@pytest.mark.parametrize("rule", ["target", "version_strict", "window:1", "window:4", "drain", "wait:4"])
def test_predictions_are_those_of_the_claims(rule, groups, batches):
    bounds, mean = claims.claim("systems/hard-bounds"), claims.claim("systems/cap-binds")
    consumed = groups * batches
    name, _, number = rule.partition(":")
    change = {
        "window": {"order": "oldest_start", "window": int(number or 1)},
        "drain": {"mode": "drain"},
        "wait": {"order": "oldest_start", "age_action": "wait", "max_age": int(number or 0)},
    }.get(name, {"order": name})
    for tickets in range(consumed + 1, 4 * consumed + 2):
        options = {"groups_per_batch": groups, "batches_per_publish": batches, "tickets": tickets, "train_time": 1.0}
        built = System("x", {}, lognormal(1.0, 0.8), (1.0,) * tickets, **options, **change)
        prediction = predicted(built, 1)
        point = {
            "rule": rule,
            "tickets": tickets,
            "groups_per_batch": groups,
            "batches_per_publish": batches,
            "length": "lognormal:1:0.8",
            "train_time": 1.0,
            "sync_time": 0.0,
        }
        expected = bounds.predict(point)
        assert prediction.support[1] == expected["largest"]
        if "spread" in expected:
            assert prediction.support[1] - prediction.support[0] == expected["spread"]
        level = {"tickets": tickets, "publish_groups": consumed, "release": "publish", "zero_train_time": False}
        assert prediction.mean == pytest.approx(mean.predict(level)["mean"])


@pytest.mark.parametrize("load", [0.2, 1.0])
def test_the_cap_binds_where_places_hold_what_is_left_at_a_publish(load):
    """C = K - M places suffice, for any lengths and loads; one place less does not."""
    built = presets.areal(3, 4, 12, length=lognormal(1.0, 0.8), load=load)
    assert predicted(built, 1).mean == 3.0
    assert (built.timeline(200).publishes["outstanding"][10:] == 12).all()
    # With slow generators all twelve are in generation now and then; the trainer must be waiting to see it.
    fewer = presets.areal(3, 4, 11, length=lognormal(1.0, 0.8), load=load)
    assert predicted(fewer, 1).law is None
    assert (fewer.timeline(200).publishes["outstanding"][10:] < 12).any() == (load < 1.0)


def test_freshest_first_leaves_the_mean_of_the_tickets():
    """Old groups that never train are outstanding at every publish: the identity counts them, the trained mean not."""
    built = System("x", {}, constant(1.0), (1.0,) * 16, groups_per_batch=4, tickets=16, train_time=2.0)
    usual, fresh = (built.replace(order=order).staleness(60, 1, 0)[:, 30:] for order in ("done", "freshest"))
    assert (usual == predicted(built, 1).mean).all() and (usual == 3.0).all()
    assert predicted(built.replace(order="freshest"), 1).law is None and (fresh == 1.0).all()


OPEN = System("x", {}, exponential(1.0), (1.0,) * 16, groups_per_batch=4, train_time=0.1, capacity=32)
REFUSED = {
    "begin again": OPEN.replace(tickets=16, mode="restart"),
    "freshest": OPEN.replace(tickets=16, order="freshest"),
    "slots": OPEN.replace(tickets=16, slots=8),
    "rejected": OPEN.replace(tickets=16, accept=0.5),
    "cut": OPEN.replace(age_reference="end", max_age=3),
    "lead": OPEN.replace(tickets=16, lead=0),
    "waits for their next batch": OPEN.replace(prefetch=1, publish_waits=True),
    "no time and a publish waits": OPEN.replace(train_time=0.0, prefetch=1, publish_waits=True),
    "quantum": OPEN.replace(tickets=17, quantum=2),
    "read again": OPEN.replace(tickets=16, mode="reprefill", prefill_speedup=4.0),
    "used again": OPEN.replace(max_uses=2),
    "reward": OPEN.replace(reward=exponential(1.0)),
    "one constant training time": OPEN.replace(train_time=exponential(0.1)),
    "capacity": OPEN.replace(capacity=4),
    "wait for the trainer": OPEN.replace(tickets=12, release="dequeue", prefetch=2),
    "always full": OPEN.replace(train_time=0.3),
    "tail index": OPEN.replace(length=pareto(1.0, 1.05)),
}


@pytest.mark.parametrize("word", REFUSED)
def test_no_law_outside_its_conditions(word):
    prediction = predicted(REFUSED[word], 1)
    assert prediction.law is None and prediction.mean is None and word in prediction.reason


def test_a_publish_that_waits_makes_slow_generators_staler():
    """Where training takes next to no time C groups are outstanding; where the publish waits for a batch, C - 1 + P."""
    usual = OPEN.replace(prefetch=1)
    waits = usual.replace(publish_waits=True)
    law = predicted(usual, 1)
    assert law.law == "systems/cap-idle" and disagreements(law, realized(usual, 1, law)) == []
    assert disagreements(law, realized(waits, 1, law)) == ["mean"]
    # The last group of the batch has just left its slot, which nobody has taken yet.
    for built, outstanding in ((usual, 16), (waits, 15 + 4)):
        record = built.replace(train_time=1e-9).timeline(60)
        assert (record.publishes["outstanding"][5:-1] == outstanding).all()


def test_missing_settings_are_refused_by_name():
    given_settings = presets.synchronous().describe_at(1)
    assert claims.predicted_staleness(given_settings, 1).row()["support"] == [0, 0]
    refused("window", lambda: claims.predicted_staleness({k: v for k, v in given_settings.items() if k != "window"}, 1))
    refused("samples_per_group", claims.predicted_staleness, given_settings, 0)
