"""Multiply by a learning rate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from asyncsim.base.knobs import MARK, knob
from asyncsim.updates._link import Record, State, Stateless


@dataclass(frozen=True)
class Sgd(Stateless):
    """step = lr * direction; see `sgd`."""

    lr: Any = field(metadata=MARK)

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Scale the direction."""
        record.direction = record.direction * self.lr
        return record, state


def sgd(lr: Any) -> Sgd:
    """Gradient ascent: theta <- theta + lr * direction.

    Arguments: `lr` >= 0 in units of parameter per direction, a number or one per replicate. Returns a link on
    directions `[R, P]`. Raises `InputError` for a negative lr, or one that is not finite. Source: textbook.

    >>> sgd(0.1).lr
    0.1
    """
    return Sgd(knob("lr", lr, "give a non-negative learning rate", 0.0))
