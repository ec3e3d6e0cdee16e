r"""Staleness without randomness: servers that never pause, and a trainer that is faster than they are.

with `C` slots, `S` batches per publish and a trainer that keeps up, first tokens are `C/S` versions old on average, and
all tokens `C (t + y)/(S L) + (C - 1)/(2 S)` versions

C slots write samples of L seconds, staggered by L/C; each is trained at once, in t seconds, S batches of it make a
publish, installed y seconds later, t + y < L/C. The sample that begins as number i ends is trained as number i + C. So
its head is floor((i + C)/S) - floor(i/S) versions old: C/S on average, with variance f (1 - f), f the fraction of C/S;
all of it in flight. During it publish j of 0, ..., C - 1 comes at t + y + j L/C with frequency 1/S, so a token written
u seconds after the first is sum_j [t + y + j L/C > u] / S versions old (`token`, at u = L k/T), in the mean over u C (t
+ y)/(S L) + (C - 1)/(2 S), the last one not at all. Throughput C/L, the trainer works t C/L of the time, slots always,
C groups are out at an install: nothing is dropped or wasted. Derivation: counting. Domain: no token written at an
install. Second route: installs and tokens of many samples, one by one.
"""

import numpy as np

from asyncsim.claims import _engines, lab
from asyncsim.claims._claim import Claim, Count, Estimate, Plant, Point, Positive, indexed, named, replaced, within

_WARM = 120
_point = named("places", "batches_per_publish", seconds=1.8, train_time=0.31, sync_time=0.1, tokens=4)


class Pipeline(Claim):
    kind, source, relative_to, through = "expectation", "derived: counting", "norm", "kernel"

    places = _engines.places(typical=(1, 6), example=3)
    batches_per_publish = _engines.batches(typical=(1, 4), example=2)
    seconds = Positive(typical=(0.5, 3.0), example=1.8, unit="seconds", doc="seconds that a sample takes")
    train_time = Positive(typical=(0.05, 0.3), example=0.31, unit="seconds", doc=_engines.OF_ONE_GROUP)
    sync_time = _engines.sync_time(typical=(0.0, 0.2), example=0.1, doc="seconds from the snapshot to the install")
    tokens = Count(1, 64, typical=(1, 5), example=4, unit="tokens", doc="tokens of a sample")

    def joint(self) -> None:
        late = self.train_time + self.sync_time
        faster = late < 0.98 * self.seconds / self.places
        self.require(faster, "train_time", "with sync_time below seconds/places", "train faster")
        # Seconds from the start of a sample to what may be an install, and to its tokens.
        self.installs = late + self.seconds / self.places * np.arange(self.places)
        self.times = self.seconds * np.arange(self.tokens) / self.tokens
        clear = np.abs(self.installs[:, None] - self.times[None, :]).min() > 1e-6
        self.require(clear, "tokens", "not written at an install", "choose another number")

    def quantities(s, mean: float, deviation: float, written: float, token: np.ndarray) -> dict[str, float]:
        rate = s.places / s.seconds
        rates = {"throughput": rate, "trainer": s.train_time * rate, "generator": 1.0, "outstanding": float(s.places)}
        # One more, since any of them may be 0.
        ages = {"head": mean, "deviation": 1.0 + deviation, "in_flight": mean, "in_queue": 1.0, "newest": 1.0}
        return rates | ages | {"tokens": written} | indexed("token", token)

    def predict(s, late: float | None = None) -> dict[str, float]:
        mean = s.places / s.batches_per_publish
        fraction = mean - int(mean)
        late = s.train_time + s.sync_time if late is None else late
        written = mean * late / s.seconds + (s.places - 1) / (2.0 * s.batches_per_publish)
        ahead = late + s.seconds / s.places * np.arange(s.places)[:, None] > s.times
        token = ahead.sum(axis=0) / s.batches_per_publish
        return s.quantities(mean, float(np.sqrt(fraction * (1.0 - fraction))), written, token)

    def check(s) -> dict[str, float]:
        """Enumerate all samples of enough cycles to visit every phase equally often, with explicit installs."""
        step, count = s.seconds / s.places, s.places * s.batches_per_publish
        publishing = [i for i in range(-4 * count, 4 * count) if i % s.batches_per_publish == s.batches_per_publish - 1]
        installs = np.array([step * i + s.train_time + s.sync_time for i in publishing])
        head, written, token = [], [], []
        for i in range(count):
            begin, end = step * i, step * (i + s.places)
            seen = installs[(installs > begin) & (installs < end)]
            head.append(len(seen))
            written.append(float((seen - begin).sum()) / s.seconds)
            token.append([(seen > begin + u).sum() for u in s.times])
        return s.quantities(float(np.mean(head)), float(np.std(head)), float(np.mean(written)), np.mean(token, axis=0))

    wrong = {
        "installs without delay": lambda s: s.predict(late=0.0),
        "half of the head for the tokens": lambda s: {"tokens": s.places / s.batches_per_publish / 2.0},
    }

    points = (_point(3, 2), _point(4, 1, sync_time=0.0))
    more = (_point(5, 3, train_time=0.2), _point(1, 2, tokens=7))

    def reach(self, point: Point) -> str | None:
        long = "places * batches_per_publish of at most 120; lower either, so that the warm-up holds a cycle"
        fits = point["places"] * point["batches_per_publish"] <= _WARM
        return within(places=64, batches_per_publish=8)(point) or (None if fits else long)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        system = lab.engine(point, length=f"constant:{point['seconds']!r}", generator_pauses=False)
        system = plant(lab.staggered(system, 1))
        # Whole cycles of publishes behind the warm-up, so that every phase counts alike.
        cycle = point["places"] * point["batches_per_publish"]
        batches, warm = (count // cycle * cycle for count in (6_000, _WARM))
        found = system.summary(batches, 1, seed, warm=warm)
        schedule = system.schedule(3 * warm, 1, point["tokens"], 1, seed)
        ages = schedule.staleness()[0, warm : warm + warm // cycle * cycle, 0, 0].mean(axis=0)
        values = {
            **{name: found[name] for name in ("throughput", "outstanding", "in_flight")},
            **{name: 1.0 + found[name] for name in ("in_queue", "newest")},
            "trainer": found["trainer_utilization"],
            "generator": found["group_slots"]["busy"],
            "head": found["staleness"]["mean"],
            "deviation": 1.0 + found["staleness"]["std"],
            "tokens": found["token_staleness"],
        }
        values |= {f"token[{k}]": x for k, x in enumerate(np.broadcast_to(ages, point["tokens"]))}
        # What the ends of the window may make.
        return {name: Estimate(float(x), tolerance=0.001 * max(float(x), 0.01)) for name, x in values.items()}

    defects = {
        "stamped one version earlier": lambda: lab.OffByOne,
        "a place more": lambda: replaced(rates=(1.0,) * 4, offsets=None),
        "old weights to the end": lambda: replaced(mode="pin"),
    }
