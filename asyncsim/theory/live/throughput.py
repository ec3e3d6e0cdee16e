r"""Groups a second of a live run are its permits over the mean seconds for which a group holds one.

X E[hold] = K, hold from the admission to the return of the permit: to the dequeue or to the publish. Derivation:
Little's law for permits. All K are held at every instant, so the seconds of a window times K are the seconds held in
it. It needs each permit handed out again at once. So a live trainer is as fast as its measured latencies say, and no
other property of the machine enters. What a real run loses is the time between a return and the next admission: the
claim says that it is below the effect. Domain: a generator slot for each permit. Second route: permits handed out and
back in a random order at random times, the time for which they are held added up. Source: Little, Oper. Res. 9 (1961).
"""

from __future__ import annotations

from asyncsim.theory._stated import stated
from asyncsim.theory.live._permits import Permits, path

_BATCHES = 40


def _predict(s: Permits) -> dict[str, float]:
    return {"held": float(s.tickets)}


def _cross_check(s: Permits) -> dict[str, float]:
    made = path(s, _BATCHES)
    end = max(made.ends.values())
    seconds = [made.ends.get(group, end) - begin for group, begin in enumerate(made.begins)]
    return {"held": sum(seconds) / end}


claim = stated(
    id="live/throughput",
    statement="groups a second of a live run times mean seconds of a group's permit are its `K` permits",
    kind="identity",
    status="exact",
    point=Permits,
    predict=_predict,
    cross_check=_cross_check,
    reference="Little, Oper. Res. 9 (1961)",
    formula_defects={
        "groups of the batch in training not counted": lambda s: {"held": float(s.tickets - s.publish_groups)},
        "batches a second for groups a second": lambda s: {"held": s.tickets / (s.publish_groups + 1.0)},
    },
)
