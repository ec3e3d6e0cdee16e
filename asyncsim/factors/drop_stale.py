"""Drop tokens or whole sequences beyond a limit of staleness."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from asyncsim import checks
from asyncsim.factors._factor import Mask, ages
from asyncsim.knobs import MARK, knob, per_sample
from asyncsim.step import Step


@dataclass(frozen=True)
class DropStale(Mask):
    """[staleness <= limit]; see `drop_stale`."""

    limit: Any = field(default=8.0, metadata=MARK)
    of: str = "head"

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Tokens, or sequences all of whose tokens are, young enough, `[R, G, N, T or 1]`."""
        age, known = ages(step)
        young = known & (age <= per_sample(self.limit))
        if self.of == "token" or young.shape[-1] == 1:
            return young
        return (young | (step.mask == 0)).all(-1, keepdim=True)


def drop_stale(limit: Any = 8.0, of: str = "head") -> DropStale:
    """Mask by age: c_t -> c_t [d <= limit], d the staleness in versions of the token or of the sequence's oldest one.

    Staleness is the version that is trained minus the one that drew the token; "head" is the largest over the sequence,
    the age of its start where weights only move forward. Denominators still count what is dropped, unlike a queue
    that throws old samples away and fills the batch with others. A token of unknown age is dropped, with "head" its
    whole sequence, and the trace reports the share of such tokens as `unknown_staleness`. What is kept leans to short
    sequences wherever long ones are older.

    Arguments: `limit` >= 0 in versions (or one per replicate; the default is ours); `of`, "head" or "token". Returns a
    factor `[R, G, N, T or 1]`. Raises `InputError` for a negative limit or another `of`, and in `Method.weigh` without
    staleness. Source: textbook; bounds on age are a knob of every asynchronous trainer.

    >>> drop_stale(2).describe()
    {'factor': 'drop_stale', 'limit': 2.0, 'of': 'head'}
    """
    return DropStale(
        knob("limit", limit, "give the largest staleness in versions that stays", 0.0),
        checks.one_of("of", of, ("head", "token"), "say whose age decides"),
    )
