"""What a calibrated run would do at another setting: the event model and laws of ratios over draws of its numbers."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import calls, checks, feeds, files, laws, plugins
from asyncsim.base.forecasts import Band, Forecast, Line
from asyncsim.base.quantiles import critical
from asyncsim.forecasting import drifts
from asyncsim.forecasting.calibrating import SCOPES, Calibration, sigma_of
from asyncsim.forecasting.drifts import Drift
from asyncsim.sweeping import advising

DRAWS = 32
"""Draws of the calibration."""
FIXED = ("trainer", "measured", "drift")
"""Fields that another setting does not change."""
SCALED = ("train_seconds", "sync_seconds", "tokens_per_second")
LENGTHS = ("response_tokens", "longest_response")
"""Means that each draw varies."""
FAR = 2.0
"""Staleness beyond so many times what the log has seen is an extrapolation."""
TOP = 1.0
"""Mean variance of log ratios from which on a few ratios carry every second moment."""
MOVING = math.log(10.0)
"""Half width of the band of the drift's level, as a log, from which on nothing is said."""
ALIKE = 2.0
"""Factor between the variances that the mean size and k3 of normal log ratios say, at most."""
EVENT = "the event model (systems/mean-staleness-identity)"
GROWTH = "ratio/drift-growth"


class Quantity(NamedTuple):
    """A line of the page: name, key of a simulated number, key of the measured one, highest value."""

    name: str
    key: str
    measured: str
    most: float = math.inf


SIMULATED = (
    Quantity("staleness", "staleness", "staleness_mean"),
    Quantity("head staleness", "head", "staleness_mean"),
    Quantity("staleness p99", "p99", ""),
    Quantity("seconds an update", "seconds", "seconds"),
    Quantity("tokens a second", "tokens", "tokens"),
    # What trainers log as idle are pauses of all generators and waits without syncs, which are other shares.
    Quantity("idle slots", "idle", "", most=1.0),
    Quantity("trainer waits", "waiting", "", most=1.0),
    Quantity("discarded", "dropped", "", most=1.0),
)
"""Numbers of the event model."""
RATIOS = {
    "token ESS": ("ess", ("ess", "chi_square", "levels", "kl_k3", "kl_k1", "log_ratio_abs"), 1.0),
    "k3": ("kl_k3", ("kl_k3", "levels", "kl_k1", "chi_square", "ess", "log_ratio_abs"), math.inf),
    "|log ratio|": ("log_ratio_abs", ("log_ratio_abs",), math.inf),
    "chi-square": ("chi_square", ("chi_square",), math.inf),
    "sequence ESS": ("chi_square_sequence", ("chi_square_sequence",), 1.0),
}
"""Numbers of ratios: the gauge that turns variances into them, gauges of the drift by preference, highest value."""


@calls.named
def forecast(
    system: Calibration | Mapping[str, Any] | str | os.PathLike[str],
    method: str | None = None,
    draws: int = DRAWS,
    updates: int = 100,
    seed: int = 0,
    **settings: Any,
) -> Forecast:
    """Staleness, pace, discarded share and ratios of a calibrated run at its own and at other settings, with bands.

    Each draw takes the calibration's numbers from their errors, simulates a realization, and applies the laws of ratios
    with v(s) over its staleness. A band is that of a further draw: mean +- t sd sqrt(1 + 1/draws), and where floor and
    growth are not told apart the union over all fits of the drift.

    Arguments: `system`, a `Calibration`, or the file or mapping of one. `method`: whose clip range is forecast.
    `draws`, 32 or more; `updates` of each simulation; `seed`. `settings`: fields of docs/which-limit.md, each a value
    or a list; all combinations are forecast. Returns a `Forecast`. Raises `InputError`. Assumes that lengths, seconds
    and drift per update stay as they were. Source: this package; each line names its law.
    """
    checks.integer("draws", draws, DRAWS, "a band needs so many", 4096)
    folder = Path()
    if isinstance(system, Calibration):
        rows = system.row() | ({} if system.lengths is None else {"response_lengths": laws.empirical(system.lengths)})
    else:
        if isinstance(system, (str, os.PathLike)):
            folder, system = Path(system).parent, files.read_mapping(system, "system")
        rows = dict(system)
    measured, remedy = rows.get("measured") or {}, "make the file with `asyncsim calibrate LOG --preset NAME`"
    checks.require(bool(measured), "measured", None, "given by a calibration", remedy)
    drift = {name: drifts.of_row(row) for name, row in (rows.get("drift") or {}).items()}
    for name in settings:
        varied = [each for each in advising.FIELDS if each not in FIXED]
        checks.one_of("setting", name, varied, "change a setting of the system")
    lists = {name: list(v) if isinstance(v, (list, tuple)) else [v] for name, v in settings.items()}
    changes = [{}, *(dict(zip(lists, each, strict=True)) for each in itertools.product(*lists.values()) if lists)]
    rows = {name: value for name, value in rows.items() if name not in ("measured", "drift")}
    for name in ("machines", "partial_rollouts"):
        rows[name] = rows[name][0] if isinstance(rows.get(name), list) else rows.get(name)
    rows = {name: value for name, value in rows.items() if value is not None}
    known = [advising.read(rows | change, folder) for change in changes]
    found = _simulated(known, changes, measured, draws, updates, seed)
    lines = [_line(each, found, measured) for each in SIMULATED]
    more, notes = _ratios(found, measured, drift, updates, seed, method)
    trainer = advising.TRAINERS[known[0]["trainer"]]
    if all(each.measured is None for each in lines):
        notes.append("No number of the log is compared with the simulation.")
    words = ["now", *(", ".join(f"{_short(k, trainer)} {v}" for k, v in each.items()) for each in changes[1:])]
    now = known[0]
    about = f"{now['trainer']} at {trainer.limit} {now['staleness_limit'][0]:g}, "
    about += f"{now['machines'][0]} machines of {now['slots_per_machine']} slots."
    return Forecast(about, tuple(words), (*lines, *more), tuple(notes), draws, updates)


def _short(name: str, trainer: advising.Trainer) -> str:
    return {"staleness_limit": "limit", "slots_per_machine": "slots"}.get(name, name.replace("_", " "))


class Drawn(NamedTuple):
    """One simulated draw: numbers, and shares of the staleness of trained tokens `[S]`."""

    numbers: dict[str, float]
    share: np.ndarray


def _simulated(
    known: list[dict[str, Any]], changes: list[dict[str, Any]], measured: Mapping[str, Any], draws: int, updates: int,
    seed: int,
) -> list[list[Drawn]]:  # fmt: skip
    """All draws of every setting; the k-th draw has the same numbers and the same responses at all settings."""
    random = np.random.default_rng([seed, 40])
    scale = {name: _factors(measured.get(name), draws, random) for name in (*SCALED, *LENGTHS)}

    def one(work: tuple[int, int]) -> Drawn:
        at, k = work
        given, change = dict(known[at]), changes[at]
        for name in SCALED:
            if name not in change:
                given[name] = _scaled(given[name], scale[name][k])
        if "response_lengths" not in change:
            law = _scaled(given["response_lengths"], scale["response_tokens"][k])
            if law.kind == "empirical":
                # Other responses than those of the log may come.
                drawn = np.random.default_rng([seed, 42, k]).choice(law.parameters, len(law.parameters))
                law = laws.empirical(drawn * law.mean() / drawn.mean())
            if law.kind == "lognormal" and "longest_response" in measured:
                number = given["prompts_per_batch"] * given["samples_per_prompt"]
                mean, longest = (measured[name]["value"] for name in LENGTHS)
                moved = sigma_of(mean * scale[LENGTHS[0]][k], longest * scale[LENGTHS[1]][k], number)
                law = laws.lognormal(law.mean(), max(0.0, law.parameters[1] + moved - sigma_of(mean, longest, number)))
            given["response_lengths"] = law
        system = advising.system_of(
            given, given["staleness_limit"][0], given["machines"][0], given["partial_rollouts"][0]
        )
        passes = feeds.updates_of(system)
        numbers, stale = advising.measure(system, max(2, updates // passes), given["samples_per_prompt"], seed, k)
        numbers |= {"seconds": numbers["seconds"] * passes, "head": stale.head}
        return Drawn(numbers, stale.cells / stale.cells.sum())

    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        found = list(pool.map(one, itertools.product(range(len(known)), range(draws))))
    return [found[k : k + draws] for k in range(0, len(found), draws)]


def _factors(row: Mapping[str, Any] | None, draws: int, random: np.random.Generator) -> np.ndarray:
    """Factors `[draws]` by which a measured mean may be off."""
    if row is None or not row["value"] > 0.0:
        return np.ones(draws)
    freedom = float(row["freedom"])
    error = (row["high"] - row["low"]) / 2.0 / critical(0.05, freedom) / row["value"]
    return np.asarray(np.maximum(1.0 + error * random.standard_t(freedom, draws), 0.05))


def _scaled(value: Any, factor: float) -> Any:
    """A number, a distribution or a table of speeds, times a factor."""
    if isinstance(value, tuple) and not isinstance(value, laws.Law):
        return value[0], [speed * factor for speed in value[1]]
    if not isinstance(value, laws.Law):
        return value * factor
    scaled = {"lognormal": 1, "pareto": 1, "gamma": 1, "constant": 1, "exponential": 1}.get(value.kind)
    count = len(value.parameters) if scaled is None else scaled
    return laws.Law(value.kind, tuple(p * factor if i < count else p for i, p in enumerate(value.parameters)))


def band_of(values: Any, most: float = math.inf) -> Band:
    """Mean and 95 % band of a further draw, cut at the range of the quantity.

    >>> band_of([1.0, 1.0, 1.0])
    Band(value=1.0, low=1.0, high=1.0, why='')
    """
    x = np.asarray(values, dtype=float)
    half = critical(0.05, len(x) - 1.0) * float(x.std(ddof=1)) * math.sqrt(1.0 + 1.0 / len(x))
    mean = float(x.mean())
    return Band(mean, max(0.0, mean - half), min(most, mean + half))


def _own(row: Mapping[str, Any] | None) -> Band | None:
    return None if row is None else Band(row["value"], row["low"], row["high"])


def _line(quantity: Quantity, found: list[list[Drawn]], measured: Mapping[str, Any]) -> Line:
    """One number of the event model at every setting."""
    row = measured.get(quantity.measured)
    if quantity.measured == "staleness_mean" and row is not None:
        # Trainers log the staleness of a first token, or the mean over tokens.
        row = row if str(row.get("scope", "")).startswith(SCOPES) == (quantity.key == "head") else None
    bands = [band_of([d.numbers[quantity.key] for d in each], quantity.most) for each in found]
    if quantity.key == "p99":
        bands = [Band(round(b.value or 0.0), math.floor(b.low or 0.0), math.ceil(b.high or 0.0)) for b in bands]
    return Line(quantity.name, EVENT, _own(row), tuple(bands))


def _ratios(
    found: list[list[Drawn]], measured: Mapping[str, Any], drift: Mapping[str, Drift], updates: int, seed: int,
    method: str | None,
) -> tuple[list[Line], list[str]]:  # fmt: skip
    """Numbers of ratios by the laws, and what is extrapolated."""
    lines, notes = list[Line](), list[str]()
    for name, (gauge, order, most) in RATIOS.items():
        chosen = next((each for each in order if each in drift), None)
        if chosen is None and name not in ("token ESS", "sequence ESS", "k3"):
            continue
        back = drifts.GAUGES[gauge].back
        row = measured.get(gauge)
        own = _own(row)
        if (name.endswith("ESS") and gauge != "ess") or (name == "token ESS" and row is None):
            # ESS/N is 1 / (1 + chi-square).
            row = measured.get("chi_square" if name == "token ESS" else gauge)
            own = None if row is None else Band(*(1.0 / (1.0 + max(row[end], 0.0)) for end in ("value", "high", "low")))
        law = f"{drifts.GAUGES[gauge].claim} over {GROWTH}"
        if chosen is None:
            why = "no chi-square of sequences is logged" if name == "sequence ESS" else "no mismatch is logged"
            lines.append(Line(name, law, own, tuple(Band(None, why=why) for _ in found)))
            continue
        # Second moments are carried by a few ratios where the spread is wide.
        heavy = name in ("token ESS", "sequence ESS", "chi-square")
        bands = tuple(_over(each, drift[chosen], back, updates, seed, most, heavy) for each in found)
        lines.append(Line(name, law, own, bands))
        if chosen != gauge:
            notes.append(f"{name} is derived from {chosen}: {drifts.GAUGES[chosen].assumes}.")
    chosen = next((each for each in RATIOS["token ESS"][1] if each in drift), None)
    if chosen is not None:
        lines.append(_relative(found, drift[chosen], updates, seed))
        seen = drift[chosen].seen
        far = [k for k, each in enumerate(found) if np.mean([d.numbers["staleness"] for d in each]) > FAR * seen]
        if far:
            notes.append(f"Mean staleness exceeds {FAR:g} times the {seen:.2g} versions of the log in {len(far)} of "
                         f"{len(found)} settings: there v(s) is an extrapolation.")  # fmt: skip
    if method is not None:
        lines.append(_clipped(method, found, drift, updates, seed))
    return lines, notes


def _over(
    each: list[Drawn], drift: Drift, back: Any, updates: int, seed: int, most: float, heavy: bool, base: Any = None
) -> Band:
    """Band of a number of ratios at one setting: the union over all fits that the data do not exclude."""
    walk = drift.walk(updates)
    if walk > MOVING:
        return Band(None, why="the drift of an update changed during the log: log more of it, or give its later part")
    bands, spread, values = [], [], np.empty((len(each), 3))
    for place, fit in enumerate(drift.fits):
        random = np.random.default_rng([seed, 41, place])
        for k, draw in enumerate(each):
            coefficients = fit.drawn(random)
            noise = max(0.0, 1.0 + drift.noise / math.sqrt(updates) * random.normal())
            spread.append(noise * float(draw.share @ drifts.variances(coefficients, len(draw.share))))
            for column, level in enumerate((noise, noise * math.exp(-walk), noise * math.exp(walk))):
                value = back(level * drifts.variances(coefficients, len(draw.share)), draw.share)
                if base is not None:
                    first = base[k].share
                    value /= back(level * drifts.variances(coefficients, len(first)), first)
                values[k, column] = value
        band = band_of(values[:, 0], most)
        mean, low, high = (float(x or 0.0) for x in (band.value, band.low, band.high))
        moved = values.mean(0) - mean
        low, high = mean - math.hypot(mean - low, moved.min()), mean + math.hypot(high - mean, moved.max())
        bands.append(Band(mean, max(0.0, low), min(most, high)))
    if heavy and float(np.median(spread)) > TOP:
        return Band(None, why=f"log ratios vary by more than {TOP:g} nats^2, so a few ratios carry the mean")
    ends = [end for b in bands for end in (b.low, b.high) if end is not None]
    return Band(bands[0].value, min(ends), max(ends))


def _relative(found: list[list[Drawn]], drift: Drift, updates: int, seed: int) -> Line:
    """E w^2 at every setting over that of today's: the factor of the variance of an importance-weighted gradient."""
    bands = [_over(each, drift, drifts.second_moment, updates, seed, math.inf, True, found[0]) for each in found]
    return Line("E w^2 over now's", f"ess/limit over {GROWTH}", None, tuple(bands))


def _clipped(method: str, found: list[list[Drawn]], drift: Mapping[str, Drift], updates: int, seed: int) -> Line:
    """Share of ratios outside of a method's clip range."""
    made = plugins.load("asyncsim.methods", method, "method")()
    about, name = made.weight.describe(), f"outside {method}'s clip"
    low, high, level = about.get("low"), about.get("high"), made.weight.level
    law = f"{GROWTH}, log ratios normal"
    order: tuple[str, ...] = ("levels", "log_ratio_abs", "kl_k3", "kl_k1", "chi_square", "ess")
    why = ""
    if low is None or high is None:
        why = f"{method} has no fixed clip range"
    elif made.ratio_to != "behavior":
        why = f"{method} clips the ratio to {made.ratio_to}, which staleness does not move"
    elif level != "token":
        order, why = ("geometric_abs",), ""
    elif "levels" not in drift and drift:
        # Of a language model few tokens carry the variance, and shares of normal ratios are far off.
        sizes = [float(drift[n].fits[0].values @ (1.0, drift[n].seen, drift[n].seen**2))
                   for n in ("log_ratio_abs", "kl_k3", "kl_k1") if n in drift]  # fmt: skip
        if "log_ratio_abs" not in drift or len(sizes) < 2:
            why = "whether log ratios are normal is not known: log the mean |log ratio| of tokens beside kl_k3"
        elif not 1.0 / ALIKE < sizes[0] / max(sizes[1], 1e-300) < ALIKE:
            why = "log ratios are not normal: their mean size says another variance than k3"
    chosen = next((each for each in order if each in drift), None)
    if not why and chosen is None:
        what = (
            "the mean |log ratio| of sequences (verl: rollout_corr/log_ppl_abs_diff)" if level != "token" else "kl_k3"
        )
        why = f"no mismatch of {'sequences' if level != 'token' else 'tokens'} is logged: log {what}"
    if why or chosen is None:
        return Line(name, law, None, tuple(Band(None, why=why) for _ in found))

    def share(v: np.ndarray, p: np.ndarray) -> float:
        return drifts.outside(v, p, float(low), float(high), level == "token")

    bands = tuple(_over(each, drift[chosen], share, updates, seed, 1.0, False) for each in found)
    return Line(name, law, None, bands)
