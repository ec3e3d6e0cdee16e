r"""Mean numbers of groups in generation and outstanding are throughput times mean seconds, in any system.

the mean numbers of groups in generation and of outstanding groups are throughput times mean seconds

in_flight = (time average in generation) / (X E[seconds from start to end]) = 1, X groups per second. outstanding =
(time average of groups started and not yet in training) / (X E[delay]) = 1, delay from a group's start to the start of
its training. Derivation: the integral of a count over time is the sum of the seconds for which each was counted. Any
consistent bookkeeping satisfies both, so in a closed loop three numbers come with them. The loop has single groups, K
permits that return at the publish, a slot for each, and exponential training of mean t_T. There X = (1 - p0)/t_T with
1/p0 = sum_{n=0..K} K!/(K-n)! (t_T/T)^n, T = E[max of N works]; X T groups are in generation; the mean delay is K/X -
t_T seconds. With exponential generation detailed balance of n groups at the trainer gives p_n = p_{n-1} (K-n+1) t_T/T;
a station without queue enters a product form by its mean alone. p0 is the loss probability of Erlang at load T/t_T.
Domain: any settings with works of finite mean. It is exact over a history that begins and ends empty, else up to the
groups cut off by the ends of the window. These are averages over time, while the mean-staleness identity counts at the
instants of publishes. A mean delay in seconds is not the period times the mean staleness. Second route: counts swept
through an event simulation from empty to empty, beside the sums of its seconds. For the loop, the balance equations
with generation in two exponential phases, whose law is not exponential: equality shows that only the mean enters.
"""

from typing import Any

import numpy as np

from asyncsim.claims import _engines, _events, _work, lab
from asyncsim.claims._claim import Estimate, Parsed, Plant, Point, Timeline, checks, heavy, replaced, within

_BATCHES = 40
_RATIOS = ("in_flight", "outstanding")
_POINT = {
    "places": 6, "tickets": 12, "release": "publish", "groups_per_batch": 4, "samples_per_group": 3,
    "length": "pareto:1:1.5", "train_time": 0.8,
}  # fmt: skip
_LOOP = _POINT | {
    "places": 8, "tickets": 8, "groups_per_batch": 1, "length": "lognormal:1.0:0.8", "train_time": "exponential:0.4",
}  # fmt: skip
"""A closed loop, whose levels follow from its settings."""
_LIGHT = _POINT | {"places": 16, "tickets": 8, "samples_per_group": 2, "length": "exponential:1", "train_time": 0.5}


def _training(field: str, value: Any) -> tuple[float, bool]:
    """Mean seconds, and whether their distribution is exponential."""
    return _work.seconds(field, value), isinstance(value, str) and _work.law_of(field, value).kind == "exponential"


def _swept(begins: np.ndarray, ends: np.ndarray, horizon: float) -> float:
    """Time average of the count of open intervals, by sweeping over their ends in order."""
    times = np.concatenate([begins, ends])
    order = np.argsort(times, kind="stable")
    levels = np.cumsum(np.concatenate([np.ones(len(begins)), -np.ones(len(ends))])[order])
    return float((levels[:-1] * np.diff(times[order])).sum()) / horizon


def _ratio(integral: float, seconds: float, record: Timeline, samples: int, until: str) -> Estimate:
    """Time average of a count divided by (groups per second times mean seconds), for trained groups."""
    begin = record.samples["t_start"].reshape(-1, samples).min(axis=1)
    durations = np.minimum(np.nan_to_num(record.groups[until], nan=np.inf), record.header["seconds"]) - begin
    trained = record.groups["fate"] == "trained"
    rate = float(trained.sum()) / seconds
    average = (integral - float(durations[~trained].sum())) / seconds
    value = average / (rate * float(durations[trained].mean()))
    # Rounding of sums over all events, relative to the sums of all stamps.
    return Estimate(value, tolerance=1e-9, samples=int(trained.sum()))


class Little(_engines.Engines):
    kind, source = "identity", "Little, Oper. Res. 9 (1961)"

    places = _engines.places(typical=(1, 12), example=8)
    tickets = _engines.tickets(example=8)
    release = _engines.release(example="publish")
    groups_per_batch = _engines.groups(typical=(1, 6), example=1)
    samples_per_group = _engines.samples(typical=(1, 6), example=3)
    length = _engines.work(example="lognormal:1.0:0.8")
    train_time = Parsed(
        _training, "number >= 0, or the text of a distribution", typical=(0.5, "exponential:1.5"),
        example="exponential:0.4", unit="seconds", doc="training time of a batch",
    )  # fmt: skip

    def joint(self) -> None:
        reason = "give at least one group permit for each group of a batch"
        checks.integer("tickets", self.tickets, self.groups_per_batch, reason)
        self.training, exponential = self.train_time
        single = self.groups_per_batch == 1 and self.release == "publish"
        # Where throughput is known.
        self.closed = exponential and single and self.places >= self.tickets

    def levels(self, busy: float, generation: float) -> dict[str, float]:
        """Throughput, mean groups in generation and mean delay in seconds, from the trainer's busy fraction."""
        rate = busy / self.training
        return {
            "groups_per_second": rate,
            "generating": rate * generation,
            "delay": self.tickets / rate - self.training,
        }

    def predict(s) -> dict[str, float]:
        levels = s.levels(_events.busy(s.tickets, s.training / s.group), s.group) if s.closed else {}
        return dict.fromkeys(_RATIOS, 1.0) | levels

    def check(s) -> dict[str, float]:
        generator, total = np.random.default_rng(0), _BATCHES * s.groups_per_batch
        works = _work.draws(s.length, generator, (total, s.samples_per_group)).max(axis=1)
        training = generator.exponential(s.training, _BATCHES) if s.training else np.zeros(_BATCHES)
        early, seconds = s.release == "dequeue", (iter(works.tolist()), iter(training.tolist()))
        loop = _events.Loop(*seconds, s.places, s.groups_per_batch, tickets=s.tickets, early=early, total=total)
        horizon = float(loop.run(_BATCHES)[-1])
        start = np.array(loop.started)
        end = np.array([loop.finished[k] for k in range(total)])
        train = np.array([loop.trained[k] for k in range(total)])
        rate = total / horizon
        each = (_swept(start, x, horizon) / (rate * float((x - start).mean())) for x in (end, train))
        ratios = dict(zip(_RATIOS, each, strict=True))
        if not s.closed:
            return ratios
        generation = s.group_by_quantiles
        return ratios | s.levels(_events.busy_by_balance(s.tickets, generation, s.training), generation)

    wrong = {"samples per second for groups per second": lambda s: dict.fromkeys(_RATIOS, 1.0 / s.samples_per_group)}

    points = (_POINT, _LIGHT | {"release": "dequeue"}, _LOOP)
    more = (
        _LIGHT | {"groups_per_batch": 8, "samples_per_group": 8, "length": "constant:1"},
        _LOOP | {"tickets": 4, "samples_per_group": 1, "length": "constant:1", "train_time": "exponential:0.25"},
    )

    def reach(self, point: Point) -> str | None:
        limits = within(places=1024, tickets=4096, groups_per_batch=1024, samples_per_group=64)(point)
        return limits or (heavy(point, "length") if "exponential" in str(point["train_time"]) else None)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        """Compare one run's summary counts with the stamps of its timeline, from empty to the last batch."""
        groups, samples = point["groups_per_batch"], point["samples_per_group"]
        batches = -(-20_000 // groups)
        system = plant(lab.engine(point))
        sums = system.simulate(batches, samples, 0, seed, record=False).sums
        record = system.timeline(batches, samples, seed=seed)
        each = {"in_flight": (sums.in_flight, "t_done"), "outstanding": (sums.outstanding, "t_left")}
        seconds = float(sums.seconds)
        ratios = {k: _ratio(float(count), seconds, record, samples, until) for k, (count, until) in each.items()}
        if "exponential" not in str(point["train_time"]):
            return ratios
        warm, count = max(400, 40 * point["tickets"]), lab.realizations_for(0.03, effect, 0.0, 10)

        def levels(record: Timeline) -> dict[str, float]:
            begin = record.samples["t_start"].reshape(-1, samples).min(axis=1)
            done, exits = (np.nan_to_num(record.groups[name], nan=np.inf) for name in ("t_done", "t_left"))
            low, high = record.publishes["t_install"][[warm, -1]]
            inside = np.clip(np.minimum(done, high) - np.maximum(begin, low), 0.0, None)
            late = (exits > low) & (exits <= high)
            level = float(np.nan_to_num(inside).sum()) / (high - low)
            numbers = {"groups_per_second": float(late.sum()) / (high - low), "generating": level}
            return numbers | {"delay": float((exits - begin)[late].mean())}

        return ratios | lab.means(lab.timelines(system, 10 * warm, samples, count, seed), levels)

    defects = {
        "a group counted twice": lambda: lab.kernel_defects.group_counted_twice,
        "a group permit lost, in counts and stamps alike": lambda: (lab.ticket_lost, _LOOP),
        "group permits that are out handed out again": lambda: (lab.kernel_defects.counter_lost, _LOOP),
        "group permits returned at the dequeue": lambda: (replaced(release="dequeue"), _LOOP),
        "two generator slots lost, in counts and stamps alike": lambda: (replaced(rates=(1.0,) * 6), _LOOP),
    }
