"""Admission as real systems write it, correctly: what the checks must pass and the event kernel must agree with."""

from asyncsim.conformance._admission import tickets_of


class _Running:
    """What all have in common: groups that run, at most C."""

    def __init__(self, batch_size, max_staleness, max_concurrent=None, batches_per_publish=1):
        self.consumed_per_publish = batch_size * batches_per_publish
        self.limit = tickets_of(batch_size, max_staleness, batches_per_publish)
        self.max_concurrent, self.running = max_concurrent, 0

    def within(self, free):
        return free if self.max_concurrent is None else min(free, self.max_concurrent - self.running)


class VersionCounter(_Running):
    """accepted + running < (h + V + 1) M: nothing ever leaves the count, the version raises the bar."""

    version_now, total = 0, 0

    def capacity(self):
        """(h + V + 1) M - accepted - running."""
        bar = self.limit + self.version_now * self.consumed_per_publish
        return self.within(bar - self.total - self.running)

    def submitted(self, n):
        self.running += n

    def accepted(self, n):
        self.running, self.total = self.running - n, self.total + n

    def rejected(self, n):
        self.running -= n

    def dropped(self, n):
        self.total -= n

    def published(self, version):
        self.version_now = version

    def recovered(self, version, kept):
        """Everything that the version contains was accepted once."""
        self.version_now, self.total, self.running = version, version * self.consumed_per_publish + kept, 0


class ResetAtPublish(_Running):
    """carry + started since the publish < (1 + tau) M; carry is what is outstanding at the publish."""

    started, ready = 0, 0

    def capacity(self):
        return self.within(self.limit - self.started)

    def submitted(self, n):
        self.running, self.started = self.running + n, self.started + n

    def accepted(self, n):
        self.running, self.ready = self.running - n, self.ready + n

    def rejected(self, n):
        self.running -= n

    def dropped(self, n):
        self.ready -= n

    def consumed(self, n):
        self.ready -= n

    def published(self, version):
        self.started = self.running + self.ready

    def recovered(self, version, kept):
        self.running, self.ready, self.started = 0, kept, kept


class TicketsAtPublish(_Running):
    """(h + 1) M tickets, M of which return at every publish."""

    def __init__(self, *settings, **named):
        super().__init__(*settings, **named)
        self.free = self.limit

    def capacity(self):
        return self.within(self.free)

    def submitted(self, n):
        self.running, self.free = self.running + n, self.free - n

    def accepted(self, n):
        self.running -= n

    def rejected(self, n):
        self.running, self.free = self.running - n, self.free + n

    def dropped(self, n):
        self.free += n

    def published(self, version):
        self.free += self.consumed_per_publish

    def recovered(self, version, kept):
        self.running, self.free = 0, self.limit - kept


class TicketsAtDequeue(TicketsAtPublish):
    """h M tickets, P of which return when a batch begins to train; h M of at least P."""

    def __init__(self, *settings, **named):
        super().__init__(*settings, **named)
        self.limit -= self.consumed_per_publish
        self.free = self.limit

    def consumed(self, n):
        self.free += n

    def published(self, version):
        """Nothing returns."""
