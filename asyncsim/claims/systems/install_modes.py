r"""How a weight update treats running samples determines the waste, the length of a cycle, and the staleness.

with `w` seconds between installs, samples of `L` seconds that restart are generated `w / (k L)` times, `k =
floor(w/L)`; samples that continue have `1 + L/w` versions; with draining, a cycle takes `ceil(w/L)` samples

Samples take L seconds each, the trainer trains S batches of t seconds and publishes them in `sync_time` y, for which it
waits. Between two installs slots write for w = S t seconds, or S t + y where they do not pause. keep, pin: a slot
completes w/L samples a cycle; none is lost, and a sample has tokens of 1 + L/w versions, pinned of 1. restart: k =
floor(w/L) are completed, w/(k L) is written for every token that is kept, and the first sample of every cycle was begun
before, so that tries are 1 + 1/k on average; all of a sample is of one version. No sample longer than w would ever end.
drain: nothing begins behind the snapshot, so k = ceil(S t/L) samples make a cycle of k L + y seconds. Derivation:
slots begin together at an install that empties them. Of C k groups that a cycle completes S are trained (`dropped`),
and of all work discarded or trained the share 1 - S L / W is wasted, W = C w written under restart, else C k L or C
w. Domain: slots never blocked, a trainer that never lacks a batch, w/L no whole number. Second route: one slot walked
through event by event, and for keep an average over phases.
"""

import math

from asyncsim.claims import _engines, lab
from asyncsim.claims._claim import Choice, Claim, Estimate, Plant, Point, Positive, named, replaced, within

_WALK = 12
_CYCLES, _WARM = 600, 60
_point = named(
    "mode", places=4, batches_per_publish=2, seconds=0.7, train_time=1.0, sync_time=0.25, generator_pauses=False
)
_RESTART, _DRAIN = _point("restart"), _point("drain", generator_pauses=True)
_KEEP = _point("keep", seconds=1.3717)


class InstallModes(Claim):
    kind, source, through = "expectation", "derived: places that begin together", "kernel"

    mode = Choice("keep", "pin", "restart", "drain", example="restart", doc="how an install treats samples")
    places = _engines.places(typical=(1, 9), example=4)
    batches_per_publish = _engines.batches(typical=(1, 3), example=2)
    seconds = Positive(typical=(0.3, 3.0), example=0.7, unit="seconds", doc="seconds that a sample takes")
    train_time = Positive(typical=(0.5, 2.0), example=1.0, unit="seconds", doc=_engines.OF_ONE_GROUP)
    sync_time = _engines.sync_time(typical=(0.0, 0.5), example=0.25)
    generator_pauses = _engines.generator_pauses(example=False)

    def joint(self) -> None:
        self.trained = self.batches_per_publish * self.train_time  # seconds of training in a cycle
        self.busy = self.trained + (0.0 if self.generator_pauses else self.sync_time)  # w
        whole = self.busy / self.seconds if self.mode != "drain" else self.trained / self.seconds
        clear = abs(whole - round(whole)) > 1e-6
        self.require(clear, "seconds", "not a whole share of a cycle", "change it a little")
        completed = self.places * (whole if self.mode in ("keep", "pin") else math.floor(whole))
        fed = completed >= 1.25 * self.batches_per_publish
        self.require(fed, "places", "such that a cycle completes more than it trains", "add places")

    def quantities(s, cycle: float, completed: float, factor: float, tries: float, seen: float) -> dict[str, float]:
        """Quantities for `completed` samples per slot and cycle, each written `factor` times on average."""
        groups, kept = s.places * completed, s.batches_per_publish
        rates = {"cycle": cycle, "groups_per_second": groups / cycle, "throughput": kept / cycle}
        losses = {"dropped": 1.0 - kept / groups, "wasted": 1.0 - kept / (groups * factor)}
        return rates | losses | {"trainer": s.trained / cycle, "written": factor, "tries": tries, "versions": seen}

    def phases(s) -> dict[str, float]:
        """Average over a uniform start phase, where a sample sees one of two numbers of installs; slots never idle."""
        whole = math.floor(s.seconds / s.busy)
        rest = s.seconds - whole * s.busy
        seen = (whole * (s.busy - rest) + (whole + 1) * rest) / s.busy
        return s.quantities(s.trained + s.sync_time, 1.0 / seen, 1.0, 1.0, 1.0 + seen if s.mode == "keep" else 1.0)

    def walk(s) -> dict[str, float]:
        """Follow one slot over cycles in which no sample is inherited, and count samples and lost tokens."""
        clock, finished, tries, written, anew = 0.0, 0, 0, 0.0, s.mode == "restart"
        for _ in range(_WALK):
            wrote = 0.0
            while (wrote + s.seconds <= s.busy) if anew else (wrote < s.trained):
                # The first of a cycle was begun before.
                finished, tries = finished + 1, tries + 1 + (anew and wrote == 0.0)
                wrote += s.seconds
            written += s.busy if anew else wrote
            clock += (s.trained if anew else wrote) + s.sync_time
        return s.quantities(clock / _WALK, finished / _WALK, written / (finished * s.seconds), tries / finished, 1.0)

    def predict(s) -> dict[str, float]:
        cycle = s.trained + s.sync_time
        if s.mode == "restart":
            k = math.floor(s.busy / s.seconds)
            return s.quantities(cycle, k, s.busy / (k * s.seconds), 1.0 + 1.0 / k, 1.0)
        if s.mode == "drain":
            k = math.ceil(s.trained / s.seconds)
            return s.quantities(k * s.seconds + s.sync_time, k, 1.0, 1.0, 1.0)
        share = s.busy / s.seconds
        return s.quantities(cycle, share, 1.0, 1.0, 1.0 + (s.mode == "keep") / share)

    def check(s) -> dict[str, float]:
        return s.phases() if s.mode in ("keep", "pin") else s.walk()

    wrong = {"samples that go on": lambda s: s.but(mode="keep").predict()}

    points = (_RESTART, _DRAIN, _KEEP)
    more = (_point("restart", generator_pauses=True, seconds=0.9), _point("pin", seconds=2.7183))
    reach = staticmethod(within(places=64, batches_per_publish=16))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        length, room = f"constant:{point['seconds']!r}", 8 * point["places"]
        system = lab.engine(point, length=length, capacity=room, overflow="drop_oldest")
        system = plant(lab.staggered(system, 1))
        # Groups of a cycle that nobody trains: a buffer that fills slowly drops nothing at first.
        stop = 0.0 if point["generator_pauses"] else point["sync_time"]
        each = (point["batches_per_publish"] * point["train_time"] + stop) / point["seconds"]
        each = math.floor(each) if point["mode"] in ("restart", "drain") else each
        surplus = max(0.25, float(point["places"] * each - point["batches_per_publish"]))
        warm = max(_WARM, int(1.5 * system.capacity / surplus))
        summary, record = system.recorded((_CYCLES - _WARM + warm) * system.batches_per_publish, 1, seed, warm=warm)
        installs, samples = record.publishes["t_install"], record.samples
        first, last = installs[warm], installs[-2]
        inside = (samples["t_end"] > first) & (samples["t_end"] <= last)
        ended = {name: column[inside] for name, column in samples.items()}
        written = ended["work"] + ended["wasted"]
        found = {
            "cycle": (last - first) / (len(installs) - 2 - warm),
            "groups_per_second": inside.sum() / (last - first),
            "throughput": summary["throughput"],
            "dropped": summary["dropped_fraction"],
            "wasted": summary["wasted_token_fraction"],
            "trainer": summary["trainer_utilization"],
            "written": written.sum() / ended["work"].sum(),
            "tries": 1.0 + ended["attempt"].mean(),
            "versions": 1.0 + (ended["v_end"] - ended["v_start"]).mean(),
        }
        # What samples on the edges of the window may make, where places are out of step with installs.
        return {name: Estimate(float(x), tolerance=0.004 * float(x)) for name, x in found.items()}

    defects = {
        "samples begin anew": lambda: (replaced(mode="restart"), _DRAIN),
        "nothing waits for the install": lambda: (replaced(mode="keep"), _DRAIN),
        "installs at once": lambda: (replaced(sync_time=0.0), _KEEP),
        "places pause": lambda: replaced(generator_pauses=True),
    }
