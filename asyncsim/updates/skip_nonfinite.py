"""Skip the update of a replicate whose direction is not finite."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from asyncsim.updates._link import Record, State, Stateless


@dataclass(frozen=True)
class SkipNonfinite(Stateless):
    """No step where the direction has a NaN or an infinity; see `skip_nonfinite`."""

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Skip, and count it."""
        broken = ~torch.isfinite(record.direction).all(-1)
        record.statistics["skip_nonfinite_skipped"] = broken.double()
        # The direction stays as it is: links behind see that it was lost, not merely skipped.
        record.skip = record.skip | broken
        return record, state


def skip_nonfinite() -> SkipNonfinite:
    """Skip the update where the direction is not finite: step = 0 where any g_p is NaN or infinite, else unchanged.

    Without it a replicate that meets one such direction stays where it is from then on. The update counts and
    publishes; links behind keep their state, but those that compare directions forget their reference. Put it first.

    Returns a link on directions `[R, P]` that reports skip_nonfinite_skipped, 0 or 1, `[R]`. Source: textbook (loss
    scaling of 1710.03740 skips so).

    >>> skip_nonfinite()
    SkipNonfinite()
    """
    return SkipNonfinite()
