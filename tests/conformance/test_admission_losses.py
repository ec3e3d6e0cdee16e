"""Lost groups and dropped ones: what a reset bears, what a doctored reset is called, trainers that drop by age."""

import re

import pytest

from asyncsim.base.checks import InputError
from asyncsim.conformance import check_admission
from asyncsim.conformance._admission import Rules, Run
from tests.conformance import planted
from tests.conformance.controllers import ResetAtPublish, TicketsAtPublish

STARVES, BURSTS = "no starvation", "bounded staleness"


class Quota(ResetAtPublish):
    """(k + 1) P a publish, counted anew from what runs or waits."""

    def __init__(self, k=1, batch=4):
        super().__init__(batch, k)


def test_a_reset_that_losses_starve_is_told_to_try_without():
    report = check_admission(Quota, 4, 1, examples=30)
    assert not report.passed and report.failure.rule == STARVES
    assert report.failure.likely == ("returns the permits of lost groups only at the next publish",)
    (told,) = report.without_losses
    runs = r"with losses=0 it passes in \d+ runs, with losses=4 it passes in \d+ runs"
    assert re.fullmatch(f"the failing run loses groups: try losses=0; {runs}", told) and told in str(report)
    assert check_admission(Quota, 4, 1, losses=4, examples=30).passed


def test_nothing_is_told_where_no_group_is_lost():
    assert check_admission(lambda: planted.RunningOnly(4, 1), 4, 1, losses=0).without_losses == ()
    assert check_admission(lambda: planted.Forgetful(4, 1), 4, 1).without_losses == ()
    assert check_admission(lambda: TicketsAtPublish(4, 1), 4, 1, examples=20).without_losses == ()


class ToRunning(Quota):
    def published(self, version):
        self.started = self.running


class ToQueued(Quota):
    def published(self, version):
        self.started = self.ready


class ToNothing(Quota):
    def published(self, version):
        self.started = 0


class ToHalf(Quota):
    def published(self, version):
        self.started = (self.running + self.ready) // 2


DOCTORED = {
    # controller: what it behaves like
    ToRunning: ("resets at a publish to the running groups, without accepted groups",),
    ToQueued: ("resets at a publish to the accepted groups, without running groups",),
    ToNothing: ("resets at a publish without carrying over outstanding groups",),
    ToHalf: (),
}


@pytest.mark.parametrize("controller", DOCTORED)
@pytest.mark.parametrize("losses", [None, 0])
def test_a_doctored_reset_has_the_name_of_a_reset(controller, losses):
    report = check_admission(controller, 4, 1, losses=losses)
    assert not report.passed and report.failure.likely == DOCTORED[controller], report
    if report.failure.rule == STARVES:
        assert report.without_losses[0].startswith("with losses=0 it fails, too: bounded staleness")


class Late(TicketsAtPublish):
    """Failed groups return their tickets at the publish, rejected ones at once."""

    waiting = 0

    def failed(self, n):
        self.running, self.waiting = self.running - n, self.waiting + n

    def published(self, version):
        super().published(version)
        self.free, self.waiting = self.free + self.waiting, 0


def test_failed_groups_are_told_from_rejected_ones():
    report = check_admission(lambda: Late(4, 1), 4, 1, examples=20)
    assert report.failure.rule == STARVES
    assert report.failure.likely == ("returns the permits of failed groups only at the next publish",)
    report = check_admission(lambda: planted.KeepsFailed(4, 1), 4, 1, examples=20)
    assert report.failure.likely == ("never returns the permit of a failed group",)


class Semaphore:
    """At most so many run."""

    def __init__(self, most=8):
        self.most, self.running = most, 0

    def capacity(self):
        return self.most - self.running

    def submitted(self, n):
        self.running += n

    def accepted(self, n):
        self.running -= n

    rejected = accepted

    def recovered(self, version, kept):
        self.running = 0


class Buffer(Quota):
    """At most so many run or wait."""

    def capacity(self):
        return self.limit - self.running - self.ready


class Leaking(Buffer):
    """Forgets what the trainer drops."""

    def dropped(self, n):
        pass


class Untold(Buffer):
    dropped = None


class Refusing(Semaphore):
    def rejected(self, n):
        pass


@pytest.mark.parametrize("controller", [Semaphore, Buffer])
@pytest.mark.parametrize("eta", [0, 1, 2.5])
def test_a_trainer_that_drops_by_age_needs_no_bound_of_admission(controller, eta):
    report = check_admission(controller, 4, eta, enforced="training", examples=30)
    assert report.passed and report.settings["enforced"] == "training"
    assert any("the trainer drops" in text for text in report.unchecked)
    if controller is Semaphore:
        assert not check_admission(controller, 4, eta).passed


DROPPING = {
    "leaks": (Leaking, {}, STARVES, "never returns the permit of an accepted group that is dropped"),
    "is not told": (Untold, {"losses": 0}, STARVES, "never returns the permit of an accepted group that is dropped"),
    "too many run": (lambda: Semaphore(9), {"max_concurrent": 8}, "at most max_concurrent run", ""),
    "keeps refused": (Refusing, {}, STARVES, "never returns the permit of a rejected group"),
}


@pytest.mark.parametrize("name", DROPPING)
def test_what_leaks_is_found_there_too(name):
    controller, keywords, rule, mistake = DROPPING[name]
    report = check_admission(controller, 4, 0, enforced="training", **keywords)
    assert not report.passed and report.failure.rule == rule, report
    assert not mistake or mistake in report.failure.likely, report


def test_the_oldest_wait_until_they_are_dropped():
    run = Run(Rules(2, 1, 4, None, None, True, 1.0), lambda: Buffer(3, 1), {})
    for event, n in (("submit", 4), ("accept", 2), ("consume", 1), ("publish", 1), ("submit", 2), ("accept", 2)):
        run.capacity = run.look()
        assert run.limits().get(event, 0) >= n, event
        run.happen(event, n)
    assert (run.counts.version, run.counts.running, run.counts.ready, run.limits().get("expire", 0)) == (1, 2, 2, 0)
    for event, n in (("consume", 1), ("publish", 1), ("accept", 2)):
        run.happen(event, n)
    # Two groups of version 0 at version 2 are more than one version old.
    assert run.limits()["expire"] == 2 and "consume" not in run.limits()
    run.happen("expire", 2)
    assert run.lines[-1] == "drop 2 that are more than 1 versions old" and run.counts.ready == 0


def test_who_bounds_staleness_is_one_of_two():
    with pytest.raises(InputError, match="enforced"):
        check_admission(lambda: ResetAtPublish(4, 1), 4, 1, enforced="buffer")
