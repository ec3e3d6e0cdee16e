"""Admission controllers of the page of questions: one that forgets after a restore, and the same one repaired."""


class Forgets:
    """At most (staleness + version + 1) batches accepted or running; a restore keeps the version and no count."""

    def __init__(self, batch: int, staleness: int) -> None:
        self.batch, self.staleness = batch, staleness
        self.version = self.running = self.accepted_ever = 0

    def capacity(self) -> int:
        """Samples that may be submitted now."""
        return (self.staleness + self.version + 1) * self.batch - self.accepted_ever - self.running

    def submitted(self, n: int) -> None:
        """Samples have been sent to the generators."""
        self.running += n

    def accepted(self, n: int) -> None:
        """Samples have come back and will be trained."""
        self.running -= n
        self.accepted_ever += n

    def rejected(self, n: int) -> None:
        """Samples have come back and will not be trained."""
        self.running -= n

    def published(self, version: int) -> None:
        """The generators have new weights."""
        self.version = version

    def recovered(self, version: int) -> None:
        """The trainer was restored from a checkpoint of this version."""
        self.running = self.accepted_ever = 0
        self.version = version


class Remembers(Forgets):
    """The same, with the count that belongs to the restored version."""

    def recovered(self, version: int) -> None:
        """The trainer was restored: every version before has trained a batch."""
        self.running, self.accepted_ever = 0, version * self.batch
        self.version = version
