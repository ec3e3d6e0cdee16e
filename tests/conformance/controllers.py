"""Admission as real systems write it, correctly: what the checks must pass and the event kernel must agree with."""

from asyncsim.conformance._admission import tickets_of


class _Running:
    """What all have in common: groups that run, at most C."""

    def __init__(
        self, batch_size: int, max_staleness: float, max_concurrent: int | None = None, batches_per_publish: int = 1
    ) -> None:
        self.consumed_per_publish = batch_size * batches_per_publish
        self.limit = tickets_of(batch_size, max_staleness, batches_per_publish)
        self.max_concurrent, self.running = max_concurrent, 0

    def within(self, free: int) -> int:
        """The free groups, or those that may still run."""
        return free if self.max_concurrent is None else min(free, self.max_concurrent - self.running)


class VersionCounter(_Running):
    """accepted + running < (h + V + 1) M: nothing ever leaves the count, the version raises the bar."""

    version_now, total = 0, 0

    def capacity(self) -> int:
        """(h + V + 1) M - accepted - running."""
        bar = self.limit + self.version_now * self.consumed_per_publish
        return self.within(bar - self.total - self.running)

    def submitted(self, n: int) -> None:
        """More run."""
        self.running += n

    def accepted(self, n: int) -> None:
        """They count for ever."""
        self.running, self.total = self.running - n, self.total + n

    def rejected(self, n: int) -> None:
        """They never count."""
        self.running -= n

    def dropped(self, n: int) -> None:
        """They count no longer."""
        self.total -= n

    def published(self, version: int) -> None:
        """The bar rises."""
        self.version_now = version

    def recovered(self, version: int, kept: int) -> None:
        """Everything that the version contains was accepted once."""
        self.version_now, self.total, self.running = version, version * self.consumed_per_publish + kept, 0


class ResetAtPublish(_Running):
    """carry + started since the publish < (1 + tau) M; carry is what is outstanding at the publish."""

    started, ready = 0, 0

    def capacity(self) -> int:
        """What may still start before the next publish."""
        return self.within(self.limit - self.started)

    def submitted(self, n: int) -> None:
        """More have started."""
        self.running, self.started = self.running + n, self.started + n

    def accepted(self, n: int) -> None:
        """They wait."""
        self.running, self.ready = self.running - n, self.ready + n

    def rejected(self, n: int) -> None:
        """They have started all the same."""
        self.running -= n

    def dropped(self, n: int) -> None:
        """They have started all the same."""
        self.ready -= n

    def consumed(self, n: int) -> None:
        """They wait no longer."""
        self.ready -= n

    def published(self, version: int) -> None:
        """Count anew from what is outstanding."""
        self.started = self.running + self.ready

    def recovered(self, version: int, kept: int) -> None:
        """Count anew from what was kept."""
        self.running, self.ready, self.started = 0, kept, kept


class TicketsAtPublish(_Running):
    """(h + 1) M tickets, M of which return at every publish."""

    def __init__(
        self, batch_size: int, max_staleness: float, max_concurrent: int | None = None, batches_per_publish: int = 1
    ) -> None:
        super().__init__(batch_size, max_staleness, max_concurrent, batches_per_publish)
        self.free = self.limit

    def capacity(self) -> int:
        """Free tickets."""
        return self.within(self.free)

    def submitted(self, n: int) -> None:
        """Each takes one."""
        self.running, self.free = self.running + n, self.free - n

    def accepted(self, n: int) -> None:
        """They keep theirs."""
        self.running -= n

    def rejected(self, n: int) -> None:
        """They give theirs back."""
        self.running, self.free = self.running - n, self.free + n

    def dropped(self, n: int) -> None:
        """They give theirs back."""
        self.free += n

    def published(self, version: int) -> None:
        """Those of the trained groups return."""
        self.free += self.consumed_per_publish

    def recovered(self, version: int, kept: int) -> None:
        """What was kept has a ticket."""
        self.running, self.free = 0, self.limit - kept


class TicketsAtDequeue(TicketsAtPublish):
    """h M tickets, P of which return when a batch begins to train; h M of at least P."""

    def __init__(
        self, batch_size: int, max_staleness: float, max_concurrent: int | None = None, batches_per_publish: int = 1
    ) -> None:
        super().__init__(batch_size, max_staleness, max_concurrent, batches_per_publish)
        self.limit -= self.consumed_per_publish
        self.free = self.limit

    def consumed(self, n: int) -> None:
        """Those of the batch return."""
        self.free += n

    def published(self, version: int) -> None:
        """Nothing returns."""
