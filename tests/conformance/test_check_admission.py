"""The check of admission controllers: right ones pass, each wrong one is caught, named, and shown in few steps."""

import dataclasses
import pickle
import subprocess
import sys

import pytest

from asyncsim import conformance
from asyncsim.base.checks import InputError
from asyncsim.conformance import ConformanceError, check_admission
from asyncsim.conformance._admission import BASES, MISTAKES, Law, Rules, Run, Tickets, laws, replayed
from tests.conformance import planted
from tests.conformance.controllers import ResetAtPublish, TicketsAtDequeue, TicketsAtPublish, VersionCounter
from tests.refusals import refused

STARVES, BURSTS = "no starvation", "bounded staleness"


@pytest.mark.parametrize("controller", [VersionCounter, ResetAtPublish, TicketsAtPublish, TicketsAtDequeue])
@pytest.mark.parametrize(
    ("batch", "eta", "concurrent", "publish"), [(4, 1, None, 1), (3, 2, 5, 2), (2, 1.5, 1, 3), (64, 8, 64, 1)]
)
def test_the_laws_of_real_systems_pass(controller, batch, eta, concurrent, publish):
    # Where tickets of lost groups return at the publish, eta M may be lost before one: then nothing is left to train.
    losses = int(eta * batch * publish) if controller is ResetAtPublish else None
    report = check_admission(
        lambda: controller(batch, eta, concurrent, publish), batch, eta, concurrent, publish, losses=losses, examples=40
    )
    assert report.passed and report.failure is None and report.examples >= 40, report
    assert report.unchecked == ()


@pytest.mark.parametrize("controller", [VersionCounter, ResetAtPublish, TicketsAtPublish])
def test_a_staleness_of_nothing_passes(controller):
    assert check_admission(lambda: controller(2, 0, None, 3), 2, 0, None, 3, losses=0, examples=40).passed


def test_one_loss_more_starves_a_reset():
    kept = check_admission(lambda: ResetAtPublish(4, 1), 4, 1, losses=4)
    lost = check_admission(lambda: ResetAtPublish(4, 1), 4, 1, losses=5)
    assert kept.passed and not lost.passed
    assert lost.failure.rule == STARVES
    assert lost.failure.likely == ("returns the permits of lost groups only at the next publish",)


DEFECTS = {
    # name: (controller with batches of 4 and a staleness of 1, or what makes one, keywords of the check, rule, known
    # mistake; "": none behaves like it)
    "recovery": (lambda *_: planted.Manager(planted.Provider(), 9, 4, 1), {"names": planted.MANAGER,
        "max_concurrent": 9}, BURSTS, "forgets accepted groups on recovery"),
    "recovery, asked with the version": (planted.Versioned, {}, BURSTS, "forgets accepted groups on recovery"),
    "kept": (planted.LosesKept, {}, BURSTS, "forgets the data kept through a recovery"),
    "filtered": (planted.Filtering, {}, STARVES, "never returns the permit of an accepted group that is dropped"),
    "refused": (planted.KeepsRefused, {}, STARVES, "never returns the permit of a rejected group"),
    "failed": (planted.KeepsFailed, {}, STARVES, "never returns the permit of a failed group"),
    "twice": (planted.ReturnsTwice, {}, BURSTS, "returns the permit of a rejected group twice"),
    "running": (planted.RunningOnly, {}, BURSTS, "counts only running groups"),
    "semaphore": (lambda *_: planted.Limiter(8), {}, BURSTS, "counts only running groups"),
    "h + 2": (lambda *_: VersionCounter(4, 2), {}, BURSTS, "off by one version: (h + 2) M"),
    "unseen": (planted.Unseen, {}, BURSTS, "forgets running groups: counts only finished groups"),
    "unseen, h + 2": (lambda *_: planted.Unseen(4, 2), {}, BURSTS,
        "forgets running groups: counts only finished groups, and off by one version: (h + 2) M"),
    "by two": (planted.ByTwo, {}, BURSTS, "counts every publish as two versions"),
    "h + 2 behind a cap": (lambda *_: VersionCounter(4, 2, 4), {"max_concurrent": 4}, BURSTS,
        "off by one version: (h + 2) M"),
    "h": (lambda *_: VersionCounter(4, -1), {"max_staleness": 0}, STARVES,
        "off by one version: h M instead of (h + 1) M"),
    "one more": (lambda *_: VersionCounter(4, 1.25), {}, BURSTS, "one group too many"),
    "reset": (planted.Forgetful, {"losses": 0}, BURSTS,
        "resets at a publish without carrying over outstanding groups"),
    "late carry": (planted.LateCarry, {"losses": 0}, BURSTS, ""),
    "too soon": (planted.TooSoon, {}, BURSTS, "returns permits at the dequeue, with M permits too many"),
    "both": (planted.Both, {}, BURSTS, "returns permits at the dequeue and again at the publish"),
    "leaking": (planted.Leaking, {}, STARVES, "never returns the permits of trained groups"),
    "greedy": (lambda *_: planted.Greedy(4, 1, 3), {"max_concurrent": 3}, "at most max_concurrent run",
        "ignores max_concurrent"),
    "from version 0": (planted.FromZero, {}, BURSTS, "counts from version 0 after a recovery, until the next publish"),
    "count from version 0": (planted.CountFromZero, {}, STARVES,
        "counts from version 0 after a recovery, and its groups until the next publish"),
    "one publish late": (lambda *_: planted.Behind(4, 0), {"max_staleness": 0}, STARVES,
        "sees each version one publish late"),
    "clamped": (planted.Clamped, {}, BURSTS, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_caught_named_and_shown(name):
    controller, keywords, rule, mistake = DEFECTS[name]
    report = check_admission(lambda: controller(4, 1), 4, **{"max_staleness": 1, **keywords})
    failure = report.failure
    assert not report.passed and failure.rule == rule, report
    assert (mistake in failure.likely) if mistake else failure.likely == (), report
    assert len(failure.events) <= 10 and len(failure.likely) <= 2
    # A fifth of the runs made by default, so that another seed would find it too.
    assert report.examples <= 20
    assert mistake in str(report) and str(len(failure.events) or "before any event") in str(report)


def test_the_manager_that_counts_again_after_a_recovery_passes():
    names = {**planted.MANAGER, "recovered": planted.recovered}
    report = check_admission(lambda: planted.RecoveringManager(planted.Provider(), 9, 4, 1), 4, 1, 9, names=names)
    assert report.passed
    assert any("dropped" in text for text in report.unchecked) and any("kept" in text for text in report.unchecked)


class FromZeroUntold(VersionCounter):
    """Counts publishes from 0, and is told of no crash."""

    recovered = None


@pytest.mark.parametrize("maker", [VersionCounter, FromZeroUntold])
def test_crashes_are_left_out_where_a_controller_cannot_learn_of_them_unless_asked(maker):
    untold = check_admission(lambda: maker(4, 1), 4, 1, names={"recovered": None})
    line = "crashes (no `recovered`; recovery=True lets a new controller go on)"
    assert untold.passed and line in untold.unchecked
    asked = check_admission(lambda: maker(4, 1), 4, 1, names={"recovered": None}, recovery=True)
    assert not asked.passed and any("from version 0" in each for each in asked.failure.likely), asked
    assert "what it is told of a crash (no `recovered`): a new controller goes on" in asked.unchecked
    assert not any("no `recovered`" in each for each in check_admission(lambda: VersionCounter(4, 1), 4, 1).unchecked)


def test_a_controller_asked_with_the_version_learns_of_a_crash_unless_that_is_left_out():
    report = check_admission(lambda: planted.Versioned(4, 1), 4, 1)
    assert not report.passed and "with recovery=False, which leaves crashes out, it passes" in report.without_losses[0]
    # A limit of running groups that nobody gave hides no mistake.
    free = planted.Versioned.capacity
    capped = type("Capped", (planted.Versioned,), {"capacity": lambda self, v: min(free(self, v), 12 - self.running)})
    likely = check_admission(lambda: capped(4, 1), 4, 1).failure.likely
    assert likely == tuple(f"{each}, if max_concurrent = 12" for each in report.failure.likely) != ()
    assert check_admission(lambda: planted.Versioned(4, 1), 4, 1, names={"recovered": None}).passed


def test_a_method_outside_of_the_protocol_is_said_before_anything_is_blamed():
    report = check_admission(lambda: planted.Renamed(4, 1), 4, 1)
    assert not report.passed and report.failure.likely is None
    line = "never called: trained (is it consumed?), get_stats, within; with names={'consumed': 'trained'} it passes"
    line += " in 25 runs"
    assert report.uncalled == (line,) and str(report).splitlines()[1] == line and "behaves like" not in str(report)
    named = check_admission(lambda: planted.Renamed(4, 1), 4, 1, names={"consumed": "trained"}, examples=20)
    assert named.passed and named.uncalled == ("never called: get_stats, within",)
    # A name that changes nothing is no excuse.
    greedy = type("Greedy", (planted.Renamed,), {"capacity": lambda self: 9})
    report = check_admission(lambda: greedy(4, 1), 4, 1)
    assert "it fails, too: bounded staleness: capacity 9" in report.uncalled[0] and report.failure.likely == ()
    assert "behaves like: no known mistake (unknown)" in str(report)


def test_a_method_that_takes_the_version_is_told_it_and_not_asked_for_it():
    """`set_version(v)` sounds like the published version; called without one, it would raise its own TypeError."""
    told = type("Told", (VersionCounter,), {"published": None, "set_version": VersionCounter.published})
    report = check_admission(lambda: told(4, 1), 4, 1)
    assert not report.passed and "set_version (is it published?)" in report.uncalled[0]
    assert "with names={'published': 'set_version'} it passes" in report.uncalled[0]
    with pytest.raises(InputError, match=r"Told.set_version': must be a method without an argument"):
        check_admission(lambda: told(4, 1), 4, 1, names={"version": "set_version"})


def test_the_nearest_methods_are_named_together_where_needed_ones_are_missing():
    all_three = r"names=\{'capacity': 'get_capacity', 'submitted': 'on_rollout_submitted', 'accepted': 'on_rollout_acc"
    refused(all_three, check_admission, lambda: planted.Manager(planted.Provider(), 9, 4, 1), 4, 1)


def test_a_recovery_is_shown_in_five_events():
    report = check_admission(lambda: planted.Versioned(4, 1), 4, 1)
    kinds = [event.partition(" ")[0] for event in report.failure.events]
    assert kinds == ["submit", "accept", "train", "publish", "crash,"]
    assert (report.failure.value, report.failure.bound) == (12, 8)


@pytest.mark.parametrize(
    ("controller", "rule"),
    [
        (planted.Reserving, "asking changes nothing"),
        (planted.Breaking, "it takes every event"),
        (planted.Fractional, "capacity is a number of groups"),
        (planted.Stuck, "versions"),
        (planted.Negative, "capacity is never negative"),
    ],
)
def test_other_rules(controller, rule):
    report = check_admission(lambda: controller(4, 1), 4, 1)
    assert report.failure.rule == rule, report


def test_a_controller_that_depends_on_more_than_events_is_told():
    calls = iter(range(10**9))

    class Moody(TicketsAtPublish):
        def capacity(self):
            return super().capacity() + (next(calls) == 700)

    report = check_admission(lambda: Moody(4, 1), 4, 1)
    assert report.failure.rule == "same events, same answers", report


def test_no_event_of_a_failing_run_can_be_left_out():
    rules = Rules(4, 2, 16, None, None, True)
    run = Run(rules, lambda: planted.Forgetful(4, 1, None, 2), {})
    report = check_admission(lambda: planted.Forgetful(4, 1, None, 2), 4, 1, batches_per_publish=2, losses=0)
    words = {"submit": "submit", "accept": "accept", "train": "consume", "publish": "publish"}
    events = []
    for line in report.failure.events:
        first, _, rest = line.partition(" ")
        events.append((words[first], int(rest) if first in ("submit", "accept") else 1))
    assert replayed(run, events) is not None
    for at in range(len(events)):
        assert replayed(run, events[:at] + events[at + 1 :]) is None, events[at]


def test_the_same_seed_gives_the_same_report():
    reports = [check_admission(lambda: planted.ReturnsTwice(4, 1), 4, 1, seed=seed) for seed in (0, 0, 1)]
    assert reports[0] == reports[1]
    assert [r.failure.likely for r in reports] == [reports[0].failure.likely] * 3


# A mistake in a ticket law, told by the law itself: what it is called does not depend on how it is written.
RULES = Rules(2, 2, 8, 5, None, True)
SEEN = [(name, law) for name, law in laws(RULES) if law.concurrent]


class Told(Tickets):
    """A law of tickets as a controller."""

    def capacity(self):
        return max(super().capacity(), 0)


@pytest.mark.parametrize("number", range(len(SEEN)))
def test_every_known_mistake_is_recognized(number):
    name, law = SEEN[number]
    report = check_admission(lambda: Told(law, RULES), 2, 1, 5, 2, examples=40)
    few = name.startswith(("one group too few", "sees each version one publish late"))
    few = few or (name.startswith("off by one version: h M") and law.consume == 0)
    if few and law.lose:
        assert report.passed  # Fewer tickets than allowed break no rule while a batch can be formed.
    else:
        assert not report.passed and name in report.failure.likely, report


def test_the_right_laws_are_no_mistakes():
    assert all(law != Law() and law != dataclasses.replace(Law(), **BASES[1]) for _, law in MISTAKES)
    for base in BASES:
        law = dataclasses.replace(Law(), **base)
        assert check_admission(lambda law=law: Told(law, RULES), 2, 1, 5, 2, examples=40).passed


def test_a_report_is_a_value_and_an_error():
    report = check_admission(lambda: VersionCounter(4, 2), 4, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.passed = True
    with pytest.raises(ConformanceError, match=r"off by one version") as caught:
        report.raise_for_failure()
    assert pickle.loads(pickle.dumps(caught.value)).report == report
    with pytest.raises(ConformanceError):
        check_admission(lambda: VersionCounter(4, 2), 4, 1, check=True)
    good = check_admission(lambda: VersionCounter(4, 1), 4, 1, examples=5, check=True)
    assert good.raise_for_failure() is good


class Nothing:
    def capacity(self):
        return 0


class Waiting(TicketsAtPublish):
    async def submitted(self, n):
        pass


ONE = VersionCounter(4, 1)
REFUSED = {
    "no factory": (ONE, {}, "controller"),
    "one for all": (lambda: ONE, {}, "controller"),
    "no calls": (Nothing, {}, "controller"),
    "a coroutine": (lambda: Waiting(4, 1), {}, "controller"),
    "an unknown call": (lambda: VersionCounter(4, 1), {"names": {"started": "submitted"}}, "names"),
    "an unknown method": (lambda: VersionCounter(4, 1), {"names": {"rejected": "refuse"}}, "names['rejected']"),
    "no batch": (lambda: VersionCounter(4, 1), {"batch_size": 0}, "batch_size"),
    "negative staleness": (lambda: VersionCounter(4, 1), {"max_staleness": -1}, "max_staleness"),
    "no slot": (lambda: VersionCounter(4, 1), {"max_concurrent": 0}, "max_concurrent"),
    "negative losses": (lambda: VersionCounter(4, 1), {"losses": -1}, "losses"),
    "no examples": (lambda: VersionCounter(4, 1), {"examples": 0}, "examples"),
    "a word": (lambda: VersionCounter(4, 1), {"recovery": "yes"}, "recovery"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    controller, keywords, field = REFUSED[name]
    with pytest.raises(InputError) as error:
        check_admission(controller, **{"batch_size": 4, "max_staleness": 1, **keywords})
    assert error.value.field == field and error.value.remedy


def test_the_package_is_light_until_it_is_used():
    code = "import sys, asyncsim.conformance; print([m for m in ('hypothesis', 'torch', 'numba') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_every_public_name_is_there():
    assert all(hasattr(conformance, name) for name in (*conformance.__all__, "adapters"))


def test_failures_that_a_controller_takes_are_not_called_unchecked():
    report = check_admission(lambda: planted.KeepsFailed(4, 1), 4, 1, names={"rejected": None}, examples=20)
    assert not report.passed and "groups that are rejected (no `rejected`)" in report.unchecked
    silent = check_admission(lambda: VersionCounter(4, 1), 4, 1, names={"rejected": None, "failed": None}, examples=20)
    assert "groups that are rejected or fail (no `rejected`)" in silent.unchecked


def test_a_question_whether_to_start_is_no_report_of_a_start():
    class Gate:
        def may_start(self):
            return 1

    refused(r"'capacity': 'may_start', 'submitted': 'your_method'.* how many groups", check_admission, Gate, 4, 1)


def test_a_call_can_be_left_out():
    report = check_admission(lambda: planted.KeepsRefused(4, 1), 4, 1, names={"rejected": None}, examples=20)
    assert report.passed and any("rejected" in text for text in report.unchecked)
    assert check_admission(lambda: planted.Versioned(4, 1), 4, 1, recovery=False, examples=20).passed
