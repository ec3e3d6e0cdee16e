"""The command `asyncsim timeline`: simulate a system, compare results with predictions, draw, and save."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING, Any

from asyncsim import claims
from asyncsim.app import streams
from asyncsim.base import checks, feeds, plugins, quantiles, records

if TYPE_CHECKING:
    from asyncsim.systems._system import System

REALIZATIONS, SAMPLES = 8, 1 << 20
"""Number of realizations for the 99th percentile, and their maximum number of samples in total."""


def header(system: "System", samples: int, seed: int) -> dict[str, Any]:
    """Settings that determine the result of `timeline`, if they differ from a system's defaults."""
    usual = {f.name: records.plain(f.default) for f in fields(system)} | {"recommended": {}}
    settings = system.describe_at(samples) | {"seed": seed}
    return {name: value for name, value in settings.items() if name not in usual or value != usual[name]}


def timeline(
    system: "System", updates: int, samples: int, seed: int, recorded: bool
) -> tuple[dict[str, Any], records.Timeline | None]:
    """Simulate a system; return the result as a JSON object, and on request the full record of events."""
    from asyncsim.systems import _summary

    checks.integer("updates", updates, 1, "train one batch at least")
    passes = feeds.updates_of(system)
    whole = f"a multiple of the {passes} updates that are recommended for each batch"
    checks.require(updates % passes == 0, "updates", updates, whole, "whole batches are trained")
    checks.integer("samples", samples, 1, "a group has at least one sample")
    checks.integer("seed", seed, 0, "give a non-negative integer seed")
    batches = updates // passes
    record = None
    if recorded:
        summary, record = system.recorded(batches, samples, seed=seed, warm=_summary.warm_up(system, batches, samples))
    else:
        summary = system.summary(batches, samples, seed)

    def count(length: int, realization: int) -> Any:
        return system.simulate(length, samples, realization, seed, record=False, warm=length // 2).histogram

    many = REALIZATIONS if system.random else 1
    summary["staleness"]["p99"] = _summary.tail(system, batches, samples, count, many, SAMPLES)._asdict()
    about = system.describe_at(samples)
    predicted = claims.predicted_staleness(about, samples).row()
    result = {"system": about | {"seed": seed}, **summary, "predicted": predicted}
    # A group is as likely to be trained at any update of a version.
    each = system.batches_per_publish * passes
    result["update_staleness"] = each * summary["staleness"]["mean"] + (each - 1) / 2
    return result, record


def lines(result: Mapping[str, Any], verbose: bool) -> list[str]:
    """Lines that `timeline` prints: measured and predicted values, then costs."""
    without = "" if result["predicted"]["mean"] is not None else "; no formula says the mean of this system"
    law, stale, tail = result["predicted"], result["staleness"], quantiles.Tail(**result["staleness"]["p99"])
    if not result["steady"]:
        # A steady-state prediction beside an unsteady measurement would look like an error.
        law = {**law, "mean": None, "support": None, "pmf": None, "tail": None}
    # Less than a digit of the mean is no uncertainty that anybody sees.
    about = f" ± {law['approximate']:.2g}" if law["approximate"] > 5e-4 * (law["mean"] or 1.0) else ""
    expected = "no formula" if law["mean"] is None else f"{law['mean']:.4g}{about}"
    predicted = expected if result["steady"] else ""
    rows = [("mean", f"{stale['mean']:.4g}", predicted), ("std", f"{stale['std']:.4g}", "")]
    rows.append(("99th percentile", str(tail), str(_p99(law["pmf"])) if law["pmf"] else ""))
    alone = tail.high > stale["max"]
    least, support = next(k for k, p in enumerate(stale["pmf"]) if p > 0), law["support"]
    ends = f"{support[0]}, {support[1]}" if support else ""
    rows.append(("run's min, max" if alone else "min, max", f"{least}, {stale['max']}", ends))
    if result["update_staleness"] != stale["mean"]:
        rows.append(("in updates", f"{result['update_staleness']:.4g}", ""))
    both = [*zip_longest(stale["pmf"], law["pmf"] or ())][: len(stale["pmf"]) if verbose or law["pmf"] else 0]
    likely = [(k, p, q) for k, (p, q) in enumerate(both) if max(p, q or 0.0) >= 5e-4]
    cells = [(f"P(s = {k})", f"{p:.4f}", "" if q is None else f"{q:.4f}") for k, p, q in likely]
    room = 25 - len(rows)
    rows += [*cells[:room], *[("...", "", "")] * (len(cells) >= room)]
    for k, p in (law["tail"] or {}).items():
        rows.append((f"P(s >= {k})", f"{sum(stale['pmf'][int(k) :]):.4f}", f"{p:.4f}"))
    page = [f"staleness in versions, of the groups trained after batch {result['warm_up_batches']}"]
    page.append(f"  {'':16}{'measured':>12}{'predicted':>12}")
    page += [f"  {name:15} {realized:>11} {expected:>11}".rstrip() for name, realized, expected in rows]
    remark = f"{law['law'] or 'no formula'}: {law['reason']}"
    if remark.endswith("slots or more") and result["system"]["name"] in plugins.summaries("asyncsim.systems"):
        places = vars(plugins.load("asyncsim.systems", result["system"]["name"], "system"))["places"]
        remark = remark.removesuffix(" slots or more").replace("give", f"set {places} to") + " or more"
    if not result["steady"]:
        recommended = {**feeds.USUAL, **result["system"]["recommended"]}
        enough = 2 * result["ramp_batches"] * recommended["epochs"] * recommended["minibatches"]
        start = f"the start alone takes {result['ramp_batches']} batches; use --updates {enough} or more"
        remark = f"too short for {'the prediction for ' * (not without)}the steady state: {start}{without}"
    page += ["", remark]
    if tail.low < tail.high or not tail.stands:
        longer = "" if tail.stands else "; longer ones may give another: raise --updates"
        many = f"{REALIZATIONS} realizations of {tail.batches} batches{longer}"
        more = "; the other numbers are of this run alone" * alone
        page.append(f"99th percentile and its 95 % interval: from groups in the second halves of {many}{more}")
    # The mean by counting: groups outstanding at an install over groups trained between two.
    r, settings = result, result["system"]
    trained = settings["groups_per_batch"] * settings["batches_per_publish"]
    lost = r["dropped_fraction"] + r["rejected_fraction"] > 0 or settings["max_uses"] != 1
    less = ", less what dropped, rejected or reused groups take" if lost else ""
    counted = f"{r['outstanding']:.4g} outstanding at an install / {trained} trained = {r['outstanding'] / trained:.4g}"
    size, redundant = settings["samples_per_group"], settings["redundant"]
    shortest = f"; a group keeps the first {size} of its {size + redundant} samples" if redundant else ""
    used = (1.0 - r["rejected_fraction"]) * (1.0 - r["dropped_fraction"])
    filtered = f"; {1.0 / used:.4g} groups generated for each one trained" if settings["accept"] < 1.0 else ""
    # At one unit a second the unit of lengths is as well a second.
    rates, unit = settings["rates"], " units of work (each sample decodes 1 per second)"
    if rates != 1.0:
        own = rates if isinstance(rates, list) else [rates]
        speeds = [rate * share for rate in own for share in settings["decode"] or (1.0,)]
        speed = " to ".join(dict.fromkeys(f"{end:g}" for end in (min(speeds), max(speeds))))
        unit = f" tokens (each sample decodes {speed} per second)"
    # How many of the named slots are used, and the busy share of all of them.
    groups, samples = r["group_slots"], r["sample_slots"]
    slots = [("", samples)] if groups in (None, samples) else [("group ", groups), ("sample ", samples)]
    kind = "sample permits" if groups is None and settings["slots"] is None else "slots"
    busy = (f"{each['used']} of {each['named']} {of}{kind} used, busy {each['busy']:.1%}" for of, each in slots)
    gone = f"{r['dropped_fraction']:.2%} of groups as too old, {r['rejected_fraction']:.2%} filtered out"
    wasted = r["wasted_token_fraction"]
    gone = f"{gone}; {wasted:.2%} of tokens wasted" if lost or wasted else "none"
    counting = [
        f"  identity: {counted}{less}",
        f"parts of the mean: {r['in_flight']:.4g} in flight, {r['in_queue']:.4g} in the queue; mean staleness of "
        f"tokens {r['token_staleness']:.4g}, of last tokens {r['newest']:.4g}",
    ]
    return [
        *page,
        *counting * verbose,
        f"discarded: {gone}{filtered}",
        f"mean length: {r['mean_length_generated']:.4g} generated, {r['mean_length_trained']:.4g} trained,{unit}"
        f"{shortest}",
        f"speed: {r['throughput']:.4g} groups per second, {r['seconds_per_update']:.4g} s per update; trainer busy "
        f"{r['trainer_utilization']:.1%}",
        f"generators: {'; '.join(busy)}",
        *(["  " + idle] if (idle := unused(r)) else []),
    ]


def unused(result: Mapping[str, Any]) -> str:
    """Explain why some sample slots of a system are never used; "" if all are used."""
    slots, groups, name = result["sample_slots"], result["group_slots"], result["system"]["name"]
    if slots["used"] >= slots["named"] or name not in plugins.summaries("asyncsim.systems"):
        return ""
    knob = vars(plugins.load("asyncsim.systems", name, "system"))["places"]
    own = f"{name} generates {slots['used']} samples at once, by {knob}"
    why = own if groups and groups["used"] == groups["named"] else "its limit lets no more run"
    return f"{slots['used']} of {slots['named']} slots are ever used: {why}"


def _p99(pmf: Sequence[float]) -> int:
    """The smallest staleness that 99 percent do not exceed, up to rounding of the sum."""
    return next(k for k, total in enumerate(accumulate(pmf)) if total >= 0.99 * sum(pmf) * (1.0 - 1e-12))


def write(record: records.Timeline, outputs: streams.Files) -> None:
    """Write the requested outputs of `timeline`: `save`, `csv` (a row per group), `plot` and `trace`."""
    import pandas as pd

    from asyncsim.plotting._perfetto import perfetto

    outputs.write("save", record.save)
    outputs.text("csv", lambda: str(pd.DataFrame(record.groups).to_csv(index=False)))
    outputs.draw(record)
    outputs.text("trace", lambda: json.dumps(records.plain(perfetto(record))))
