"""Divide the learning rate by the staleness of the batch."""

from __future__ import annotations

from dataclasses import dataclass

from asyncsim.updates._link import Record, State, Stateless


@dataclass(frozen=True)
class StalenessStep(Stateless):
    """direction / max(1, largest update staleness); see `staleness_step`."""

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Scale the direction and report the scale."""
        scale = 1.0 / record.step.update_staleness.clamp(min=1.0)
        record.statistics["staleness_step_scale"] = scale
        record.direction = record.direction * scale.unsqueeze(-1).to(record.direction.dtype)
        return record, state


def staleness_step() -> StalenessStep:
    """Delay-adaptive step: step <- step / max(1, tau), tau the largest update staleness in the batch.

    Put it behind `adam`: a factor on the gradient before it is nearly without effect. Returns a link on directions
    `[R, P]` that reports staleness_step_scale, `[R]`, a pure number. Source: 2206.07638, 2206.08307.

    >>> staleness_step()
    StalenessStep()
    """
    return StalenessStep()
