"""What a system's settings must satisfy: each value by itself, and together what would come to a standstill."""

from __future__ import annotations

import math
from typing import Any

from asyncsim.base import checks
from asyncsim.base.laws import Law

MODES = ("drain", "keep", "restart", "pin", "reprefill")
RELEASES = ("dequeue", "publish")
RETURNS = ("now", "publish", "never")
ORDERS = ("done", "oldest_start", "version_strict", "target", "freshest", "random")
OVERFLOWS = ("block", "close", "drop_oldest")
VISIBILITIES = ("completion", "publish")
ACTIONS = ("drop", "requeue", "wait")
REACHES = ("none", "ready", "all")
REFERENCES = ("submit", "start", "end")

_CHOICES = {
    "release": (RELEASES, "say when the permit of a trained group returns"),
    "release_dropped": (RETURNS, "say when the permit of a dropped group returns"),
    "order": (ORDERS, "say which ready groups go first"),
    "overflow": (OVERFLOWS, "say what happens to a group at a full buffer"),
    "visible": (VISIBILITIES, "say when a finished group can be chosen"),
    "age_action": (ACTIONS, "say what happens to a group that is too old"),
    "age_at_pack": (REACHES, "say which groups are looked at when a batch is packed"),
    "age_at_publish": (REACHES, "say which groups are looked at at an install"),
    "work_by": (("sample", "group"), "say whose work is drawn"),
    "age_reference": (REFERENCES, "say which version stamp counts"),
    "mode": (MODES, "say what an install does to samples in flight"),
}
_COUNTS = ("groups_per_batch", "batches_per_publish", "quantum", "servers", "turns")
LIMITS = {
    "slots": 1,
    "tickets": 1,
    "lead": 0,
    "epoch": 1,
    "permits": 1,
    "capacity": 1,
    "max_uses": 1,
    "window": 1,
    "max_age": 0,
}
_FLAGS = (
    "rounds",
    "reward_holds",
    "environment_holds",
    "trainer_waits",
    "publish_waits",
    "generator_pauses",
    "rolling",
    "failure_keeps",
)
_REALS = {
    "accept": (0.0, 1.0),
    "prompt": (0.0, math.inf),
    "token_time": (0.0, math.inf),
    "recent": (0.0, 1.0),
    "sync_time": (0.0, math.inf),
    "failure_rate": (0.0, math.inf),
    "restart_delay": (0.0, math.inf),
}


def check(system: Any) -> None:
    """Refuse settings that are not of their kind, contradict each other, or come to a standstill; `InputError`."""
    _values(system)
    _times(system)
    _generator(system)
    _buffer(system)
    _age(system)
    _admission(system)


def _values(s: Any) -> None:
    for name, (allowed, remedy) in _CHOICES.items():
        checks.one_of(name, getattr(s, name), allowed, remedy)
    for name in _COUNTS:
        checks.integer(name, getattr(s, name), 1, "count from one", checks.LARGEST)
    for name in ("prefetch", "initial_fill", "redundant"):
        checks.integer(name, getattr(s, name), 0, "count from zero", checks.LARGEST)
    for name, low in LIMITS.items():
        if getattr(s, name) is not None:
            checks.integer(name, getattr(s, name), low, "count, or give None for no limit", checks.LARGEST)
    for name in _FLAGS:
        checks.boolean(name, getattr(s, name), "say whether")
    for name, (least, most) in _REALS.items():
        checks.real(name, getattr(s, name), "give a number", least, most, open_low=name == "accept")
    checks.real(
        "prefill_speedup", s.prefill_speedup, "give tokens read while one is written", 0.0, open_low=True, finite=False
    )
    for name in ("length", "difficulty", "reward", "environment"):
        law = getattr(s, name)
        fits = isinstance(law, Law) or (law is None and name != "length")
        checks.require(fits, name, law, "a distribution", "make one with asyncsim.base.laws")


def _times(s: Any) -> None:
    fits = (s.train_time is None) != (s.load is None)
    bound = "exactly one number and one None"
    checks.require(fits, "load, train_time", (s.load, s.train_time), bound, "give exactly one of load, train_time")
    if s.load is not None:
        checks.real("load", s.load, "give generation rate over training rate", 0.0, open_low=True)
        checks.require(
            s.token_time == 0.0, "token_time", s.token_time, "0 beside a load", "give train_time instead of load"
        )
    elif not isinstance(s.train_time, Law):
        checks.real("train_time", s.train_time, "give seconds for a batch", 0.0)


def _generator(s: Any) -> None:
    rates = checks.finite_array("rates", s.rates, (None,), "give each generator slot its work per second")
    checks.require(bool((rates > 0).all()), "rates", float(rates.min()), "positive", "leave stopped slots out")
    if s.offsets is not None:
        offsets = checks.finite_array("offsets", s.offsets, (rates.size,), "give each generator slot its first second")
        checks.require(bool((offsets >= 0).all()), "offsets", float(offsets.min()), ">= 0", "the run starts at 0")
    if s.decode is not None:
        decode = checks.finite_array("decode", s.decode, (None,), "give the speed with 1, 2, ... active samples")
        checks.require(bool((decode > 0).all()), "decode", float(decode.min()), "positive", "let samples go on")
    checks.integer("servers", s.servers, 1, "give every server a generator slot", rates.size)
    if s.rolling:
        _rolling(s)
    bound, remedy = f"a distribution with turns = {s.turns}", "say how long a step between turns takes"
    checks.require(s.turns == 1 or s.environment is not None, "environment", s.environment, bound, remedy)
    bound, remedy = "False in mode restart", "a restart throws tokens away that a failure would keep"
    checks.require(not (s.failure_keeps and s.mode == "restart"), "failure_keeps", s.failure_keeps, bound, remedy)


def _rolling(s: Any) -> None:
    """Refuse a rolling install that has nothing to roll over, or that the next weights would always wait for."""
    checks.integer("servers", s.servers, 2, "one server has no other to wait for; leave rolling out")
    checks.real("sync_time", s.sync_time, "give the seconds of one server's install", 0.0, open_low=True)
    remedy = "a drain stops all servers at once; choose keep, reprefill, restart or pin"
    checks.require(s.mode != "drain", "mode", s.mode, "another where servers take weights in turn", remedy)
    known = s.train_time is not None and not isinstance(s.train_time, Law) and s.token_time == 0.0
    if not s.trainer_waits and known:
        seconds, period = s.servers * s.sync_time, float(s.train_time) * s.batches_per_publish
        bound = f"at most {period / s.servers:.6g}, so that {s.servers} servers are through before the next publish"
        remedy = "the next weights would wait for every install; lower it, publish less often, or let the trainer wait"
        checks.require(seconds <= period, "sync_time", s.sync_time, bound, remedy)


def _buffer(s: Any) -> None:
    if s.capacity is not None:
        bound, remedy = f"at least groups_per_batch = {s.groups_per_batch}", "a batch has to fit into the buffer"
        checks.require(s.capacity >= s.groups_per_batch, "capacity", s.capacity, bound, remedy)
    if s.visible == "publish":
        bound = f"at least groups_per_batch = {s.groups_per_batch} where groups become visible at a publish"
        remedy = "without a first batch there is no first publish"
        checks.require(s.initial_fill >= s.groups_per_batch, "initial_fill", s.initial_fill, bound, remedy)
        bound = "None where groups become visible at a publish"
        remedy = "a trainer that has used all visible groups waits for its own publish; let groups be used again"
        checks.require(s.max_uses is None, "max_uses", s.max_uses, bound, remedy)
        keeps = s.max_age is None and (s.capacity is None or s.overflow != "drop_oldest")
        bound = "None, and block or close, where groups become visible at a publish"
        remedy = "visible groups could leave before a publish shows more; keep them"
        checks.require(keeps, "max_age, overflow", (s.max_age, s.overflow), bound, remedy)
    bound, remedy = f"None with max_uses = {s.max_uses}", "replay returns no permits; leave tickets out"
    checks.require(s.max_uses == 1 or s.tickets is None, "tickets", s.tickets, bound, remedy)
    remedy = "a group belongs to one batch; choose another order for replay"
    checks.require(s.max_uses == 1 or s.order != "target", "max_uses", s.max_uses, "1 with order = target", remedy)
    strict = s.window is not None or s.order in ("version_strict", "target") or s.age_action == "wait"
    if s.capacity is not None and s.overflow != "drop_oldest" and strict:
        bound = f"at least tickets = {s.tickets} where a batch waits for certain groups"
        remedy = "the awaited group would be blocked by a full buffer; raise the capacity or drop_oldest"
        checks.require(s.tickets is not None and s.capacity >= s.tickets, "capacity", s.capacity, bound, remedy)
    fits = s.window is None or s.order == "oldest_start"
    checks.require(fits, "window", s.window, f"None with order = {s.order}", "a window belongs to oldest_start")
    remedy = "recent groups are preferred by order random only"
    checks.require(s.recent == 0.0 or s.order == "random", "recent", s.recent, f"0 with order = {s.order}", remedy)


def _age(s: Any) -> None:
    looks = s.max_age is None or s.age_at_pack != "none" or s.age_at_publish != "none"
    remedy = "ready, or all for groups in generation too"
    checks.require(looks, "age_at_pack, age_at_publish", "none", f"another beside max_age = {s.max_age}", remedy)
    starts = s.max_age is None or s.max_age >= 1 or not s.publish_waits or s.age_at_pack == "none"
    remedy = "a batch that a publish waits for is packed a version before it is trained; raise the bound"
    checks.require(starts, "max_age", s.max_age, "at least 1 with publish_waits", remedy)
    if s.age_action != "wait":
        return
    checks.require(s.max_age is not None, "max_age", None, "a number where age_action is wait", "give the bound")
    bound = "oldest_start where age_action is wait"
    checks.require(s.order == "oldest_start", "order", s.order, bound, "waiting for the oldest means taking it first")
    remedy = "an open loop always has a group to wait for; set tickets"
    checks.require(s.tickets is not None, "tickets", None, "a number where age_action is wait", remedy)
    least = math.ceil(s.tickets / (s.groups_per_batch * s.batches_per_publish)) - 1
    remedy = "so many versions pass before the last of the tickets is trained; raise the bound or lower the tickets"
    checks.require(s.max_age >= least, "max_age", s.max_age, f"at least {least} with {s.tickets} tickets", remedy)


def _admission(s: Any) -> None:
    """Refuse what comes to a standstill: tickets or places too few for what must be out before any return."""
    checks.integer("quantum", s.quantum, 1, "a quantum larger than the generator slots is never admitted", len(s.rates))
    remedy = "a group begins with the first permit that is free; admit one at a time"
    checks.require(s.permits is None or s.quantum == 1, "quantum", s.quantum, f"1 with permits = {s.permits}", remedy)
    if s.rounds:
        _rounds(s)
    if s.publish_waits:
        open_ahead = s.prefetch > 0 and s.mode != "drain" and s.epoch is None and s.lead != 0
        remedy = "the batch that a publish waits for has to be generated and packed before it"
        bound = f"False with prefetch = {s.prefetch}, mode = {s.mode}, epoch = {s.epoch}, lead = {s.lead}"
        checks.require(open_ahead, "publish_waits", True, bound, remedy)
    if s.target_staleness is not None:
        checks.real("target_staleness", s.target_staleness, "give a mean staleness in versions, or None", 0.0)
        remedy = "permits are the upper bound below which concurrency adapts"
        checks.require(s.permits is not None, "permits", None, "a number beside target_staleness", remedy)
    # Check epochs where groups can be lost.
    cuts = s.max_age is not None and s.age_action != "wait"
    loses = s.accept < 1.0 or cuts or (s.capacity is not None and s.overflow == "drop_oldest")
    if s.epoch is not None:
        remedy = "an epoch uses every prompt once; choose one of them"
        checks.require(s.max_uses == 1, "max_uses", s.max_uses, "1 in epochs", remedy)
        groups = s.epoch * s.groups_per_batch
        bound = f"a divisor of the {groups} groups of an epoch, and 1 where groups are lost"
        remedy = "the rest of a quantum would wait for the next epoch for ever; change one of them"
        checks.require(groups % s.quantum == 0 and (s.quantum == 1 or not loses), "quantum", s.quantum, bound, remedy)
    if s.tickets is None:
        return
    # Bound the tickets that may lie idle.
    at_publish = s.release == "publish"
    unit = s.groups_per_batch * (s.batches_per_publish + s.publish_waits if at_publish else 1)
    # Groups out are whole quanta, so up to quantum - 1 tickets lie idle, how many depends on the returns so far.
    idle = max((s.tickets + returns * unit) % s.quantum for returns in range(s.quantum))
    if loses:
        # Tickets of groups that are lost return one by one.
        idle = s.quantum - 1
    bound = f"now or publish with accept = {s.accept}"
    remedy = "every rejected group would keep its permit, until none is left"
    checks.require(s.accept == 1.0 or s.release_dropped != "never", "release_dropped", s.release_dropped, bound, remedy)
    bound = (
        f"at least {unit + idle}, the groups of a {'publish' if at_publish else 'batch'} and those a quantum of "
        f"{s.quantum} leaves idle"
    )
    remedy = "with fewer the run comes to a standstill; raise the tickets"
    checks.require(s.tickets - idle >= unit, "tickets", s.tickets, bound, remedy)


def _rounds(s: Any) -> None:
    """Refuse beside rounds what would let groups in or out between them."""
    alone = {
        "tickets": None,
        "capacity": None,
        "epoch": None,
        "permits": None,
        "max_age": None,
        "window": None,
        "lead": None,
        "max_uses": 1,
        "prefetch": 0,
        "visible": "completion",
    }
    for name, value in alone.items():
        remedy = "a round ends with all of its groups; leave the other setting out, or rounds"
        checks.require(getattr(s, name) == value, name, getattr(s, name), f"{value} in rounds", remedy)
    first = ("done", "oldest_start")
    checks.one_of("order", s.order, first, "a round has all of its groups; take the first of them")
