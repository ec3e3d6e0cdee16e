"""Controllers as their authors might have written them, with one mistake each, and the same without."""

import threading

from tests.conformance.controllers import ResetAtPublish, TicketsAtDequeue, TicketsAtPublish, VersionCounter


class Provider:
    """Where the version comes from: somebody else's object."""

    version = 0

    def get_version(self):
        return self.version


class Manager:
    """A capacity manager with counters of its own and the version from elsewhere."""

    def __init__(self, provider, max_concurrent_rollouts, consumer_batch_size, max_staleness):
        self.provider, self.most = provider, max_concurrent_rollouts
        self.batch, self.staleness = consumer_batch_size, max_staleness
        self.enqueued = self.running = self.done = self.refused = 0

    def get_capacity(self):
        bar = (self.staleness + self.provider.get_version() + 1) * self.batch
        return min(self.most - self.running, bar - self.done - self.running)

    def on_rollout_submitted(self):
        self.running += 1

    def on_rollout_accepted(self):
        self.running -= 1
        self.done += 1

    def on_rollout_rejected(self):
        self.running -= 1
        self.refused += 1


class RecoveringManager(Manager):
    def on_version_recovered(self, version):
        self.done = version * self.batch


MANAGER = {
    "capacity": "get_capacity",
    "submitted": "on_rollout_submitted",
    "accepted": "on_rollout_accepted",
    "rejected": "on_rollout_rejected",
    "published": lambda manager, version: setattr(manager.provider, "version", version),
    "recovered": lambda manager, version: setattr(manager.provider, "version", version),
}


def recovered(manager, version):
    manager.provider.version = version
    manager.on_version_recovered(version)


class Versioned(VersionCounter):
    """Is given the version when it is asked, and told nothing after a crash."""

    recovered = published = None

    def capacity(self, version):
        self.version_now = version
        return super().capacity()


class Filtering(VersionCounter):
    """Groups that were accepted and filtered later count for ever."""

    def dropped(self, n):
        pass


class Renamed(TicketsAtDequeue):
    """Takes note of a trained batch under another name than the protocol has."""

    consumed = None

    def trained(self, n):
        self.free += n

    def get_stats(self):
        return {}


class FromZero(VersionCounter):
    """A recovery that forgets the version, until the next publish brings it back."""

    def recovered(self, version, kept):
        self.version_now, self.total, self.running = 0, kept, 0


class CountFromZero(VersionCounter):
    """The same with the accepted count restored."""

    def recovered(self, version, kept):
        super().recovered(version, kept)
        self.version_now = 0


class Behind(VersionCounter):
    """Sees every version one publish late."""

    def published(self, version):
        self.version_now = version - 1


class Unseen(VersionCounter):
    """Forgets what runs, as a counter of finished groups does."""

    def submitted(self, n):
        pass

    def accepted(self, n):
        self.total += n

    def rejected(self, n):
        pass

    failed = rejected


class ByTwo(VersionCounter):
    """Counts every publish as two versions."""

    def published(self, version):
        self.version_now += 2


class Clamped(TicketsAtPublish):
    """Counts no more than six running groups."""

    def submitted(self, n):
        self.running, self.free = min(self.running + n, 6), self.limit - min(self.running + n, 6)


class KeepsRefused(TicketsAtPublish):
    def rejected(self, n):
        self.running -= n


class KeepsFailed(TicketsAtPublish):
    def failed(self, n):
        self.running -= n


class ReturnsTwice(TicketsAtPublish):
    """Returns the ticket where the group is refused, and again in a clean-up."""

    def rejected(self, n):
        super().rejected(n)
        self.free += n


class RunningOnly(VersionCounter):
    def accepted(self, n):
        self.running -= n


class Limiter:
    """A semaphore around generation: full batches may pile up behind it."""

    def __init__(self, most):
        self.most = most
        self.semaphore = threading.Semaphore(most)

    def capacity(self):
        return self.semaphore._value

    def submitted(self, n):
        for _ in range(n):
            assert self.semaphore.acquire(blocking=False)

    def accepted(self, n):
        self.semaphore.release(n)


class Forgetful(ResetAtPublish):
    """Counts from nothing after a publish."""

    def published(self, version):
        self.started = 0


class LateCarry(ResetAtPublish):
    """Counts what is outstanding when the next batch has been taken already."""

    def published(self, version):
        self.started = self.running + max(self.ready - self.consumed_per_publish, 0)


class TooSoon(TicketsAtPublish):
    """As many tickets as where they return at the publish, but they return at the dequeue."""

    consumed = TicketsAtDequeue.consumed
    published = TicketsAtDequeue.published


class Both(TicketsAtPublish):
    consumed = TicketsAtDequeue.consumed


class Greedy(TicketsAtPublish):
    """Has no limit of what runs."""

    def within(self, free):
        return free


class Reserving(TicketsAtPublish):
    """Takes tickets when it is asked."""

    def capacity(self):
        given = super().capacity()
        self.free -= given > 3
        return given


class LosesKept(TicketsAtPublish):
    def recovered(self, version, kept):
        super().recovered(version, 0)


class Leaking(TicketsAtPublish):
    def published(self, version):
        pass


class Negative(TicketsAtPublish):
    """Subtracts what runs twice."""

    def capacity(self):
        return super().capacity() - self.running


class Breaking(TicketsAtPublish):
    def rejected(self, n):
        raise KeyError("group 3")


class Fractional(TicketsAtPublish):
    def capacity(self):
        return super().capacity() / 2


class Stuck(TicketsAtPublish):
    """Reports the version it began with."""

    def version(self):
        return 0
