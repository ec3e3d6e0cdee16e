r"""In processes with real clocks exactly as many groups stay out at each publish as there are permits for them.

K permits, a generator slot for each, M groups a batch. Of the groups admitted before version v appears, those trained
behind it number K - M where permits return at the publish (its M groups still hold theirs) and K where they return at
the dequeue. Each such group grows one version staler. So over the publishes
    mean staleness = least = most = K/M - 1  (publish)  or  K/M  (dequeue)      [versions a trained group],
whatever the processes, their speed, and the order in which messages arrive. Staleness counts from the admission: a
first token may come publishes later, and those are the race of a real trainer (`Live.raced`). Domain: nothing dropped,
every permit used at once. Second route: permits handed out and back in a random order, the versions counted. Source:
derived.
"""

from __future__ import annotations

from asyncsim.theory._stated import stated
from asyncsim.theory.live._permits import Permits, path

_BATCHES = 40


def _same(value: float) -> dict[str, float]:
    return {"mean": value, "least": value, "most": value}


def _predict(s: Permits) -> dict[str, float]:
    return _same(s.outstanding / s.publish_groups)


def _cross_check(s: Permits) -> dict[str, float]:
    made = path(s, _BATCHES)
    ends = [made.trained.get(group, _BATCHES) for group in range(len(made.admitted))]
    spans = list(zip(made.admitted, ends, strict=True))
    levels = [sum(first < v <= last for first, last in spans) / s.publish_groups for v in range(1, _BATCHES)]
    return {"mean": sum(levels) / len(levels), "least": min(levels), "most": max(levels)}


claim = stated(
    id="live/staleness",
    statement="a live run with `K` permits and `M` groups a batch has mean staleness `K/M-1` (release at publish) or "
    "`K/M` (release at dequeue), at every single publish",
    kind="identity",
    status="exact",
    point=Permits,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: groups outstanding at a publish grow one version staler",
    formula_defects={
        "permits counted as if all stayed out": lambda s: _same(s.tickets / s.publish_groups + 1.0),
        "half of the permits, as if starts were spread evenly": lambda s: _same(s.outstanding / s.publish_groups / 2),
    },
)
