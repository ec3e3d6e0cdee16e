"""Settings of an event system as staleness rules read them, immediate consequences, and the answers of the rules."""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from asyncsim.base import checks
from asyncsim.base.laws import Law

_RARE = 1e-9
"""Chance for a sample to be read again for longer than a publish period below which none is taken to starve."""
_NAMES = (
    "length", "places", "rates", "groups_per_batch", "batches_per_publish", "difficulty", "accept", "prompt",
    "servers", "slots", "decode", "reward", "reward_holds", "environment", "train_time", "token_time", "prefetch",
    "tickets", "release", "quantum", "lead", "capacity", "overflow", "visible", "max_uses", "order", "window",
    "recent", "max_age", "age_action", "age_at_pack", "age_at_publish", "age_reference", "mode", "sync_time",
    "trainer_waits", "generator_pauses", "prefill_speedup", "failure_rate", "failure_keeps",
)  # fmt: skip
_LATER: dict[str, Any] = {
    "epoch": None, "permits": None, "target_staleness": None, "rolling": False, "rounds": False, "redundant": 0,
    "work_by": "sample", "publish_waits": False, "colocated": False,
}  # fmt: skip
"""Settings that older records lack, and what they were then."""
ADAPTS = "the number of samples under way follows the staleness"


def first(reasons: Mapping[str, Any]) -> str | None:
    """Return the first reason that holds; None if none holds."""
    return next((reason for reason, holds in reasons.items() if holds), None)


class PredictedStaleness(NamedTuple):
    """Predicted staleness of the first tokens (head staleness) of trained groups at steady state, in versions.

    `law`, the claim that decides, None where no law's conditions hold (of the staleness then nothing is known but
    `systems/mean-staleness-identity`); `also`, further claims used. `mean`; `support`, least and largest value, hard;
    `pmf`, probabilities of 0, 1, ...; `tail`, P(s >= k) by k: each None where no law gives it. `approximate`, what
    `mean` may be off by in versions where its law is not exact. `reason`, why this law, or why none.
    """

    law: str | None
    mean: float | None = None
    support: tuple[int, int] | None = None
    pmf: tuple[float, ...] | None = None
    tail: dict[int, float] | None = None
    approximate: float = 0.0
    also: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        """Format the mean, its formula and the reason, or why there is no formula."""
        if self.law is None:
            return f"no formula: {self.reason}"
        return f"{'no mean' if self.mean is None else f'mean staleness {self.mean:g}'}, by {self.law}: {self.reason}"

    def row(self) -> dict[str, Any]:
        """Return the predicted staleness as a JSON object."""
        return json.loads(json.dumps(self._asdict()))


Answer = PredictedStaleness | str
"""What holds, or why nothing does."""


class Facts:
    """Settings of `asyncsim/systems/MODEL.md` as `describe_at` writes them: distributions as text, infinity as None.

    `batches` S of a publish, `batch` P, groups of a batch, `publish` M = S P groups, `returned`, group permits that
    return together. `started`, samples that a group starts; `drawn`, those whose work is independent, 1 where all have
    the same. `rate_curve`, speed with n active samples, None where it is that of one. `follows`: the generators have
    every snapshot before the next batch trains. `cuts`: an age rule drops groups. `work_alone`: the seconds of a sample
    are those of its work at the rate of its place. `serial`: a batch of groups is admitted only when all of the batch
    before have left their places. `instant`: training takes no time; `immediate`: nor does the install. `speeds`, work
    per second of each place, or one number for all; `rate`, that of all where they are alike, else None.
    """

    def __init__(self, settings: Mapping[str, Any], samples: int) -> None:
        remedy = "take System.describe_at(N), or the header of a timeline"
        checks.require(isinstance(settings, Mapping), "settings", settings, "a mapping", remedy)
        missing = [name for name in _NAMES if name not in settings]
        checks.require(not missing, "settings", sorted(settings), f"all settings, {', '.join(missing)} too", remedy)
        self.settings, self.samples = settings, samples
        self.batches, self.batch = int(self.batches_per_publish), int(self.groups_per_batch)
        self.publish = self.batch * self.batches
        self.returned = self.publish if self.release == "publish" else self.batch
        self.started, self.drawn = samples + self.redundant, 1 if self.work_by == "group" else samples
        self.rate_curve = None if self.decode is None or set(self.decode) == {1.0} else self.decode
        self.follows = bool(self.trainer_waits) or (self.sync_time == 0.0 and self.mode != "drain")
        self.cuts = self.max_age is not None and self.age_action != "wait"
        others = self.difficulty, self.environment, self.reward, self.rate_curve
        self.work_alone = all(each is None for each in others) and not self.failure_rate and not self.colocated
        self.serial = bool(self.places == self.quantum == self.batch)
        self.instant = self.period == 0.0
        self.immediate = self.instant and self.sync_time == 0.0 and self.mode != "drain"
        self.speeds = [float(r) for r in (self.rates if isinstance(self.rates, list | tuple) else [self.rates])]
        self.rate = min(self.speeds) if len(set(self.speeds)) == 1 else None

    def __getattr__(self, name: str) -> Any:
        if name in _LATER:
            return self.settings.get(name, _LATER[name])
        if name not in _NAMES:
            raise AttributeError(name)
        return self.settings[name]

    @property
    def period(self) -> float | None:
        """Seconds of training per batch if constant, else None."""
        time = self.train_time
        if isinstance(time, str):
            law = Law.parse(time)
            time = law.parameters[0] if law.kind == "constant" else None
        return None if time is None or self.token_time else float(time)

    @property
    def law(self) -> Law:
        """Distribution of the work of one sample, without the prompt's difficulty factor."""
        return Law.parse(self.length)

    def why_dependent(self) -> str | None:
        """Return why draws are not independent: a recording is replayed in order."""
        names = ("length", "difficulty", "reward", "environment", "train_time")
        recorded = [name for name in names if str(self.settings.get(name)).startswith("recorded:")]
        return f"{recorded[0]} is a record in its order, so its values are not independent" if recorded else None

    def why_samples_wait(self) -> str | None:
        """Return why a sample may start later than its group is admitted."""
        for room, places, what in (
            (self.slots, math.ceil(self.places / self.servers), "slots of a server"),
            (self.permits, self.places, "permits"),
        ):
            groups = places if self.tickets is None else min(places, int(self.tickets))
            if room is not None and room < groups * self.started:
                return f"{groups} groups of {self.started} samples wait for {room} {what}"
        return None

    def why_stamps_move(self, crowded: bool = False) -> str | None:
        """Return why a group's first token may have a later version than its admission; else None.
        `crowded` ignores waits for a slot."""
        reasons = {
            "an install makes samples begin again, and their stamps with them": self.mode == "restart",
            "servers take weights one after the other, so a start may be newer than its admission": self.rolling,
            "samples that fail begin again, and their stamps with them": self.failure_rate and not self.failure_keeps,
        }
        return first(reasons) or (None if crowded else self.why_samples_wait())

    def why_starved(self) -> str | None:
        """Return why a long sample may be re-prefilled at every install and never progress."""
        speedup = self.prefill_speedup
        if self.mode != "reprefill" or speedup is None:
            return None
        seconds = (self.period or 0.0) * self.batches
        readable = speedup * min(self.speeds) * seconds - self.prompt
        constant = self.difficulty is None and readable > 0.0
        if constant and self.started * float(self.law.survival(readable)) <= _RARE:
            return None
        return "a long sample may be read again for a whole publish period"

    def why_places_bind(self) -> str | None:
        """Return why a permit may wait for a generator slot."""
        # When the last batch before a publish starts to train, K - M groups are left. A ticket that is free then would
        # have had a place. Where tickets return earlier, or training takes no time, all must have places.
        spare = self.publish if self.release == "publish" and not self.instant else 0
        # Where samples wait for permits, as many places as permits are never all taken.
        permitted = self.permits is not None and self.places >= self.permits and self.why_samples_wait()
        if self.places < self.tickets - spare and not permitted:
            few = f"{self.places} slot{'s are' if self.places > 1 else ' is'} too few"
            return f"it needs all {self.tickets} permits in use, and {few}; give {self.tickets - spare} slots or more"
        return None

    def why_closed(self) -> str | None:
        """Return why a permit may wait although generator slots are free."""
        if self.target_staleness is not None:
            return ADAPTS
        if self.epoch is not None:
            epoch = int(self.epoch or 0)
            text = f"every epoch of {epoch} batches begins and ends with nothing outstanding"
            if self.tickets is None or self.release != "publish" or epoch % self.batches:
                return text
            ends = range(self.batches, epoch + 1, self.batches)
            left = sum(min(self.tickets - self.publish, (epoch - end) * self.batch) for end in ends)
            mean = left / (epoch * self.batch)
            return f"{text}; over whole epochs the mean is {mean:.4g} where every group permit is used"
        ahead = (1 if self.follows else 2) + self.prefetch // self.batches
        shut = self.overflow == "close" and self.capacity is not None and self.capacity < self.tickets
        uneven = self.quantum > 1 and (self.tickets % self.quantum or self.returned % self.quantum)
        late = not self.follows and (self.generator_pauses or self.mode == "drain")
        led, delayed = self.lead is not None and self.lead < ahead, self.instant and not self.immediate
        # Nothing is generated in training, so a second batch is ready only where groups end together or are waited for.
        smooth = self.law.kind not in ("constant", "empirical", "recorded") and self.reward is None
        alone = smooth and self.order in ("done", "oldest_start") and not self.window and self.release == "publish"
        reasons = {
            f"admission is closed while the buffer holds {self.capacity} groups": shut,
            f"group permits lie idle until there are {self.quantum} for a quantum": uneven,
            f"admission waits while packed batches lead by more than {self.lead}": led,
            "after a delayed install all that is ready trains at once, before anything is admitted": delayed,
            "admission is closed while weights are on their way and training goes on": late,
            "admission is closed while a batch trains, and the next may be ready at its end": self.colocated
            and not alone,
        }
        return first(reasons)

    def why_dropped(self) -> str | None:
        """Return why a group may be discarded, other than by its age."""
        holds = self.capacity is None or (self.tickets is not None and self.capacity >= self.tickets)
        reasons = {
            f"a share {1.0 - self.accept:.3g} of the groups is rejected": self.accept < 1.0,
            "groups are used again": self.max_uses != 1,
            "a full buffer drops its oldest group": self.overflow == "drop_oldest" and not holds,
        }
        return first(reasons)

    def why_some_never_train(self) -> str | None:
        """Return why a group may wait forever without being trained."""
        if self.order in ("freshest", "latest") or (self.order == "random" and self.recent == 1.0):
            return "the freshest go first, so an old group may never train and counts for ever"
        return None
