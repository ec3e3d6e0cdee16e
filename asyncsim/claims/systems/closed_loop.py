r"""A trainer that takes single groups from a closed loop of K group permits: exact throughput for any generation times.

a closed loop of `K` group permits with exponential training trains `(1-p0)/t_T` groups per second, `1/p0 = sum
K!/(K-n)! (t_T/T)^n`, whatever the distribution of generation

groups per second = (1 - p0) / t_T with 1/p0 = sum_{n=0..K} K!/(K-n)! (t_T/T)^n: K permits return at the publish and one
group makes a batch (P = S = 1). Training takes an exponential time of mean t_T, generation T = E[max of N works] of any
law. Derivation: n groups at the trainer, K - n in generation. With exponential generation detailed balance gives p_n =
p_{n-1} (K-n+1) t_T/T. A station without queue (a place for every permit) enters a product form by its mean alone. p0 is
the loss probability of Erlang at offered load T/t_T. Domain: places >= permits, no synchronization time, nothing
dropped, rewards at once. Second route: the balance equations of generation in two exponential phases, whose law is not
exponential; so equality also shows that only the mean enters.
"""

from typing import Any

from asyncsim.claims import _engines, _events, _work, lab
from asyncsim.claims._claim import Estimate, Parsed, Plant, Point, checks, named, replaced, sampled

_point = named("places", "tickets", "samples_per_group", "length", "train_time")
_POINT = _point(8, 8, 4, "exponential:1", "exponential:0.3")
_SPARE = _point(16, 8, 1, "exponential:1", "exponential:0.15")


def _exponential(field: str, value: Any) -> float:
    law, remedy = _work.law_of(field, value), "write exponential:mean; others differ"
    checks.require(law.kind == "exponential", field, value, "an exponential distribution", remedy)
    return law.mean()


class ClosedLoop(_engines.Engines):
    kind, source = "expectation", "derived: product form of a delay station and an exponential server"

    places = _engines.places(example=8)
    tickets = _engines.tickets(high=500, example=8)
    samples_per_group = _engines.samples(typical=(1, 4), example=1)
    length = _engines.work(example="lognormal:1.0:1.5")
    train_time = Parsed(
        _exponential, "the text of an exponential distribution", example="exponential:0.15",
        unit="seconds", doc="training time of a group",
    )  # fmt: skip

    def joint(self) -> None:
        remedy = "give every group permit a generator slot, so that no group waits for one"
        checks.integer("places", self.places, self.tickets, remedy)

    def trained(s, busy: float) -> dict[str, float]:
        return {"groups_per_second": busy / s.train_time}

    def predict(s) -> dict[str, float]:
        return s.trained(_events.busy(s.tickets, s.train_time / s.group))

    def check(s) -> dict[str, float]:
        return s.trained(_events.busy_by_balance(s.tickets, s.group_by_quantiles, s.train_time))

    wrong = {
        "the bound min(1/t_T, K/(T + t_T)) taken for the value": lambda s: s.trained(
            min(1.0, s.tickets * s.train_time / (s.group + s.train_time))
        )
    }

    points = (_POINT, _SPARE | {"length": "lognormal:1.0:1.5"}, _point(4, 4, 1, "constant:1", "exponential:0.25"))
    more = (_point(16, 16, 2, "gamma:1:0.5", "exponential:0.08"),)
    reach = staticmethod(sampled("length", tickets=200, places=1024, samples_per_group=64))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        system = plant(lab.engine(point))
        # Forty generations of every ticket, then ten times as many.
        warm = max(800, 40 * point["tickets"])
        count = lab.realizations_for(0.02, effect, 0.0, comparisons=4)
        return lab.groups_per_second(system, 10 * warm, point["samples_per_group"], warm, count, seed)

    defects = {
        "a group permit lost": lambda: lab.ticket_lost,
        "group permits that are out handed out again": lambda: (lab.kernel_defects.counter_lost, _SPARE),
        "group permits returned at the dequeue": lambda: replaced(release="dequeue"),
    }
