"""Forecasts of a calibrated run at other settings: event model and ratios over draws of its parameters."""

import itertools
import math
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import normaltest

from asyncsim.base import calls, checks, feeds, files, laws, plugins
from asyncsim.base.forecasts import Band, Forecast, Line
from asyncsim.base.notation import plural
from asyncsim.base.quantiles import critical
from asyncsim.forecasting import drifts
from asyncsim.forecasting.calibrating import SCOPES, SELECTED, TABLE, Calibration, assumed, sigma_of
from asyncsim.forecasting.drifts import Drift
from asyncsim.sweeping import advising

DRAWS = 32
"""Draws of the calibration."""
FIXED = ("trainer", "measured", "drift")
"""Fields that another setting does not change."""
SCALED = ("train_seconds", "sync_seconds", "tokens_per_second")
PAUSE = "pause"
"""Pause of a slot between two responses, divided by a mean response."""
SINGLE = 20
"""Single lengths from which on a test says whether they are log-normal."""
LENGTHS = ("response_tokens", "longest_response")
"""Means that each draw varies."""
FAR = 2.0
"""Staleness beyond so many times what the log has seen is an extrapolation."""
TOP = 1.0
"""Mean variance of log ratios from which on a few ratios carry every second moment."""
MOVING = math.log(10.0)
"""Change of the log of the drift's level, were its trend to go on, from which on nothing is said."""
LEARNED = 1.0
"""Standard deviations of reward from which on the later policy is another one: chi-square 1 leaves an ESS of a half."""
ALIKE = 2.0
"""Factor between the variances that the mean size and k3 of normal log ratios say, at most."""
UNSEEN = math.log(40.0)
"""Tokens expected where none is seen with probability 0.025, the half of what a 95 % band leaves out."""
EVENT = "the event model (systems/mean-staleness-identity)"
GROWTH = "ratio/drift-growth"


@calls.named
def forecast(
    system: Calibration | Mapping[str, Any] | str | os.PathLike[str],
    method: str | None = None,
    draws: int = DRAWS,
    updates: int = 100,
    seed: int = 0,
    **settings: Any,
) -> Forecast:
    """Forecast staleness, speed, discarded share and ratios of a calibrated run at other settings, with 95 % bands.

    Each draw samples the calibrated numbers within their errors, simulates a realization, and applies the laws of
    ratios with v(s) over its staleness. A band is the prediction interval of one further draw: mean +- t sd sqrt(1 +
    1/draws), and where floor and growth cannot be separated the union over all fits of the drift.

    Arguments: `system`, a `Calibration`, or the file or mapping of one. `method`: whose clip range is forecast.
    `draws`, 32 or more; `updates` of each simulation; `seed`. `settings`: fields of docs/which-limit.md, each a value
    or a list; all combinations are forecast. Returns a `Forecast`. Raises `InputError`. Assumes that lengths, seconds
    and drift per update stay as they were. Source: this package; each line names its law.
    """
    called = method is None or isinstance(method, str)
    checks.require(called, "method", method, "the name of a method", "name other settings, as staleness_limit=4")
    checks.integer("draws", draws, DRAWS, "a band needs so many; fewer updates are faster", 4096)
    folder = Path()
    if isinstance(system, Calibration):
        rows = system.row() | ({} if system.lengths is None else {"response_lengths": laws.empirical(system.lengths)})
    else:
        if isinstance(system, (str, os.PathLike)):
            log, there = bool(laws.FILE.search(str(system))), Path(system).exists()
            make = f"make one: asyncsim calibrate {system if log else 'LOG'} --preset NAME --out cal.yaml"
            checks.require(there and not log, "system", str(system), "an existing file of a system, not a log", make)
            folder, system = Path(system).parent, files.read_mapping(system, "system")
        remedy = "write sim.forecast(sim.calibrate(log, 'verl'), staleness_limit=4)"
        checks.require(isinstance(system, Mapping), "system", type(system).__name__, "a calibration, not a log", remedy)
        rows = dict(system)
    measured, remedy = rows.get("measured") or {}, "make the file with `asyncsim calibrate LOG --preset NAME`"
    checks.require(bool(measured), "measured", None, "given by a calibration", remedy)
    drift = {name: drifts.of_row(row) for name, row in (rows.get("drift") or {}).items()}
    fields = [name for name in advising.FIELDS if name not in FIXED]
    settings = advising.renamed(settings, str(rows.get("trainer")))
    advising.known_fields(settings, str(rows.get("trainer")), "forecast", fields)
    lists = {name: list(v) if isinstance(v, (list, tuple)) else [v] for name, v in settings.items()}
    changes = [{}, *(dict(zip(lists, each, strict=True)) for each in itertools.product(*lists.values()) if lists)]
    rows = {name: value for name, value in rows.items() if name not in ("measured", "drift") and value is not None}
    rows |= {n: rows[n][0] for n in ("machines", "partial_rollouts") if isinstance(rows.get(n), list)}
    known = [advising.read(rows | change, folder) for change in changes]
    found = _simulated(known, changes, measured, draws, updates, seed)
    lines = [_line(name, found, measured, **about) for name, about in TABLE["simulated"].items()]
    more, notes = _ratios(found, measured, drift, updates, seed, method)
    now, trainer = known[0], advising.TRAINERS[known[0]["trainer"]]
    usual = {"staleness_limit": "limit", "slots_per_machine": "slots"}
    short = {name: usual.get(name, name.replace("_", " ")) for name in lists}
    words = ["now", *(", ".join(f"{short[name]} {v}" for name, v in each.items()) for each in changes[1:])]
    if {"prompts_per_batch", "samples_per_prompt"} & settings.keys() and "train_seconds" not in settings:
        notes.append(TABLE["same_seconds"])
    if "publish_every" in settings:
        past = ", ".join(f"{np.mean([d.numbers['age'] for d in each]):.3g}" for each in found)
        notes.append(f"A version is publish_every training steps. In training steps, tokens are {past} old on average.")
    times = {"train_seconds": now["train_seconds"].mean(), "sync_seconds": now["sync_seconds"]}
    logged = {n: measured[n]["value"] for n in times if n in measured}
    odd = [f"{n} is {times[n]:.4g} here, and {own:.4g} in the log: try --set {n}={own:.4g}."
           for n, own in logged.items() if abs(times[n] - own) > 0.1 * own]  # fmt: skip
    notes = [*odd, *assumed(now), *([] if "reward" in measured or not drift else [TABLE["unlearned"]]), *notes]
    lost = [float(np.mean([draw.numbers["dropped"] for draw in each])) for each in found]
    many = ", ".join(f"{share:.0%} ({words[k]})" for k, share in enumerate(lost) if share > SELECTED)
    notes += [TABLE["discarded"].format(many)] * bool(many)
    told = [[f"{line.forecasts[k].value or 0.0:.2g}" for line in lines] for k in range(len(changes))]
    same = [k for k in range(1, len(changes)) if told[k] == told[k - 1]]
    notes += [TABLE["same"].format(words[k], words[k - 1]) for k in same]
    about = f"{now['trainer']} at {trainer.limit} {now['staleness_limit'][0]:g}, "
    about += f"{plural(now['machines'][0], 'machine')} of {plural(now['slots_per_machine'], 'slot')}."
    at = {short[n]: [v[0] if isinstance(v := each[n], list) else v for each in known] for n in lists}
    at = at if all(checks.is_number(value) for row in at.values() for value in row) else {}
    return Forecast(about, tuple(words), (*lines, *more), tuple(notes), draws, updates, at)


class Drawn(NamedTuple):
    """Result of one simulation: its numbers, and the distribution of trained tokens over staleness in steps `[S]`."""

    numbers: dict[str, float]
    share: np.ndarray


def _simulated(
    known: list[dict[str, Any]], changes: list[dict[str, Any]], measured: Mapping[str, Any], draws: int, updates: int,
    seed: int,
) -> list[list[Drawn]]:  # fmt: skip
    """All draws of every setting; the k-th draw uses the same numbers and responses at all settings."""
    random = np.random.default_rng([seed, 40])
    scale = {name: _factors(measured.get(name), draws, random) for name in (*SCALED, *LENGTHS, PAUSE)}
    pause = measured.get(PAUSE, {"value": 0.0})["value"] * scale[PAUSE]

    def one(work: tuple[int, int]) -> Drawn:
        at, k = work
        given, change = dict(known[at]), changes[at]
        samples = given["prompts_per_batch"] * given["samples_per_prompt"]
        for name in SCALED:
            if name not in change:
                given[name] = _scaled(given[name], scale[name][k])
        # A slot is taken by a response and by the pause behind it.
        given["tokens_per_second"] = _scaled(given["tokens_per_second"], busy := 1.0 / (1.0 + pause[k]))
        if "response_lengths" not in change:
            law = _scaled(given["response_lengths"], scale["response_tokens"][k])
            if law.kind == "empirical":
                # Other responses than those of the log may come, and longer ones where a log-normal is not excluded.
                drawn = np.random.default_rng([seed, 42, k]).choice(law.parameters, len(law.parameters))
                spread = float(np.log(drawn).std()) if smooth(given["response_lengths"]) else 0.0
                mean = law.mean()
                law = laws.lognormal(mean, spread) if spread else laws.empirical(drawn * mean / drawn.mean())
            elif law.kind == "lognormal" and "longest_response" in measured:
                mean, longest = (measured[name]["value"] for name in LENGTHS)
                moved = sigma_of(mean * scale[LENGTHS[0]][k], longest * scale[LENGTHS[1]][k], samples)
                sigma = max(0.0, law.parameters[1] + moved - sigma_of(mean, longest, samples))
                law = laws.lognormal(law.parameters[0], sigma, law.maximum)
            given["response_lengths"] = law
        now = (given[name][0] for name in ("staleness_limit", "machines", "partial_rollouts"))
        system, _ = advising.system_of(given, *now)
        passes = feeds.updates_of(system)
        numbers, stale = advising.measure(system, max(2, updates // passes), given["samples_per_prompt"], seed, k)
        # Trainers log the mean of a step, so here too steps count alike, however many tokens they have.
        mean, age = (float(share @ np.arange(len(share))) for share in (stale.cells, stale.ages))
        numbers["generator_idle"] = 1.0 - (1.0 - numbers["generator_idle"]) * busy
        numbers |= {"seconds": numbers["seconds"] * passes, "head": stale.head, "staleness": mean, "age": age}
        numbers |= {"sequence": samples, "token": samples * given["response_lengths"].mean()}
        return Drawn(numbers, stale.ages)

    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        found = list(pool.map(one, itertools.product(range(len(known)), range(draws))))
    return [found[k : k + draws] for k in range(0, len(found), draws)]


def smooth(law: laws.Law) -> bool:
    """Whether single untruncated response lengths are consistent with a log-normal distribution at level 0.05."""
    x = np.array(law.parameters if law.kind == "empirical" else ())
    single = len(x) >= SINGLE and (x == x.max()).mean() < 2.0 / len(x)
    return bool(single and normaltest(np.log(x)).pvalue > 0.05)


def _factors(row: Mapping[str, Any] | None, draws: int, random: np.random.Generator) -> np.ndarray:
    """Random factors `[draws]` for the error of a measured mean."""
    if row is None or not row["value"] > 0.0:
        return np.ones(draws)
    freedom = float(row["freedom"])
    error = (row["high"] - row["low"]) / 2.0 / critical(0.05, freedom) / row["value"]
    return np.asarray(np.maximum(1.0 + error * random.standard_t(freedom, draws), 0.05))


def _scaled(value: Any, factor: float) -> Any:
    """A number, a distribution or a table of speeds, multiplied by a factor."""
    if isinstance(value, tuple) and not isinstance(value, laws.Law):
        return value[0], [speed * factor for speed in value[1]]
    if not isinstance(value, laws.Law):
        return value * factor
    # Of a list every number is in units, of other distributions the first.
    count = len(value.parameters) if value.kind in ("empirical", "recorded") else 1
    first, rest = value.parameters[:count], value.parameters[count:]
    return laws.Law(value.kind, (*(p * factor for p in first), *rest), value.maximum * factor)


def band_of(values: Any, most: float = math.inf) -> Band:
    """Mean of simulated values and 95 % prediction band of one further value, clipped to the quantity's range.

    >>> band_of([1.0, 1.0, 1.0])
    Band(value=1.0, low=1.0, high=1.0, why='')
    """
    x = np.asarray(values, dtype=float)
    half = critical(0.05, len(x) - 1.0) * float(x.std(ddof=1)) * math.sqrt(1.0 + 1.0 / len(x))
    mean = float(x.mean())
    return Band(mean, max(0.0, mean - half), min(most, mean + half))


def _own(row: Mapping[str, Any] | None) -> Band | None:
    return None if row is None else Band(row["value"], row["low"], row["high"])


def _line(
    name: str, found: list[list[Drawn]], rows: Mapping[str, Any], key: str, measured: str = "", most: float = math.inf
) -> Line:
    """One quantity of the event model at every setting."""
    row = rows.get(measured)
    if measured == "staleness_mean" and row is not None:
        # Trainers log the staleness of a first token, or the mean over tokens.
        row = row if str(row.get("scope", "")).startswith(SCOPES) == (key == "head") else None
    bands = [band_of([d.numbers[key] for d in each], most) for each in found]
    if key == "p99":
        bands = [Band(round(b.value or 0.0), math.floor(b.low or 0.0), math.ceil(b.high or 0.0)) for b in bands]
    return Line(name, EVENT, _own(row), tuple(bands))


def _ratios(
    found: list[list[Drawn]], measured: Mapping[str, Any], drift: Mapping[str, Drift], updates: int, seed: int,
    method: str | None,
) -> tuple[list[Line], list[str]]:  # fmt: skip
    """Quantities of ratios from the drift formulas, and notes on extrapolation."""
    lines, notes = list[Line](), list[str]()

    def add(name: str, law: str, own: Band | None, order: list[str], why: str, *number: Any, **about: Any) -> str:
        """Add a line from the first available gauge of the drift, and return its name; `why` explains a missing one."""
        chosen = next((each for each in order if each in drift), "")
        bands = [Band(None, why=why)] * len(found)
        if chosen:
            bands = [_over(each, drift[chosen], number[0], updates, seed, *number[1:], **about) for each in found]
        if chosen or why:
            lines.append(Line(name, law, own, tuple(bands)))
        return chosen

    for name, about in TABLE["ratios"].items():
        gauge, order = about["gauge"], about["order"]
        row, own = measured.get(gauge), _own(measured.get(gauge))
        if gauge == "chi_square_sequence" or (gauge == "ess" and row is None):
            # ESS/N is 1 / (1 + chi-square).
            row = measured.get("chi_square" if gauge == "ess" else gauge)
            own = None if row is None else Band(*(1.0 / (1.0 + max(row[end], 0.0)) for end in ("value", "high", "low")))
        most, heavy, back = about.get("most", math.inf), about.get("heavy", False), drifts.GAUGES[gauge].back
        law = f"{drifts.GAUGES[gauge].claim} over {GROWTH}"
        chosen = add(name, law, own, order, about.get("lacking", ""), back, most, heavy)
        if chosen not in ("", gauge):
            notes.append(f"{name} is derived from {chosen}: {drifts.GAUGES[chosen].assumes}.")
    # The factor of the variance of an importance-weighted gradient.
    law, order = f"ess/limit over {GROWTH}", TABLE["ratios"]["token ESS"]["order"]
    chosen = add("E w^2 relative to now", law, None, order, "", drifts.second_moment, math.inf, True, base=found[0])
    if chosen:
        seen = drift[chosen].seen
        far = sum(np.mean([d.numbers["age"] for d in each]) > FAR * seen for each in found)
        if far:
            words = f"tokens are over {FAR:g} times as stale as the log's stalest step (mean {seen:.2g} training steps)"
            notes.append(f"In {far} of {len(found)} settings, {words}, so their drift is extrapolated.")
    if method is not None:
        made = plugins.load("asyncsim.methods", method, "method")()
        clip, kind = made.weight.describe(), "token" if made.weight.level == "token" else "sequence"
        low, high, (order, why) = clip.get("low"), clip.get("high"), TABLE["clipped"][kind].values()
        if None not in (low, high) and made.ratio_to != "behavior":
            order, why = [], f"{method} clips the ratio to {made.ratio_to}, which staleness does not move"
        elif not made.weight.banded:
            order, why = [], f"{method} has no fixed range [1 - low, 1 + high] of the ratio"
        elif kind == "token" and "levels" not in drift and drift:
            # Of a language model few tokens carry the variance, and shares of normal ratios are far off.
            sizes = [float(drift[n].fits[0].values @ (1.0, drift[n].seen, drift[n].seen**2))
                     for n in ("log_ratio_abs", "kl_k3", "kl_k1") if n in drift]  # fmt: skip
            if "log_ratio_abs" not in drift or len(sizes) < 2:
                order = []
                why = "whether log ratios are normal is not known: log the mean |log ratio| of tokens beside kl_k3"
            elif not 1.0 / ALIKE < sizes[0] / max(sizes[1], 1e-300) < ALIKE:
                order, why = [], "log ratios are not normal: their mean size says another variance than k3"
        share = partial(drifts.outside, low=low, high=high, tokens=kind == "token")
        seen = max((row["steps"] for name, row in measured.items() if name != PAUSE), default=1) * _size(found[0], kind)
        law, about = f"{GROWTH}, log ratios normal", {"seen": seen, "unit": kind}
        add(f"outside {method}'s clip", law, None, order, why, share, 1.0, False, **about)
    return lines, notes


def _size(each: list[Drawn], unit: str) -> float:
    """Mean number of tokens or sequences of an update."""
    return float(np.mean([draw.numbers[unit] for draw in each]))


def resolved(low: float, high: float, seen: float, later: float) -> tuple[float, float]:
    """Ends of a fraction's band, widened to what a log of `seen` tokens can resolve about `later` tokens.

    Normal log ratios may say 1e-200, but a log cannot exclude other rare tokens. If T of all are outside, the log has
    none of them with probability (later / (seen + later))^T at most: 0.025 at T = log 40 / log(1 + seen / later).
    Of endless later tokens that is Clopper and Pearson's share, log 40 / seen. Assumes independent tokens.
    """
    return low if low * later > UNSEEN else 0.0, min(1.0, max(high, UNSEEN / later / math.log1p(seen / later)))


def _over(
    each: list[Drawn], drift: Drift, back: Any, updates: int, seed: int, most: float, heavy: bool, base: Any = None,
    seen: float = 0.0, unit: str = "",
) -> Band:  # fmt: skip
    """Band of a ratio quantity at one setting: the union over all fits that the data do not exclude."""
    # Between the middles of the log and of what is forecast.
    apart = (drift.steps + updates) / 2.0
    if drift.learns * apart > LEARNED:
        why = "the policy learns so fast that its later drift is another: log until the reward is level"
        return Band(None, why=why)
    if abs(drift.trend) * apart > MOVING:
        return Band(None, why="the drift of an update changed during the log: log more of it, or give its later part")
    bands, spread, values = [], [], np.empty((len(each), 2))
    for place, fit in enumerate(drift.fits):
        random = np.random.default_rng([seed, 41, place])
        for k, draw in enumerate(each):
            coefficients = fit.drawn(random)
            noise = max(0.0, 1.0 + drift.noise / math.sqrt(updates) * random.standard_t(fit.freedom))
            spread.append(noise * float(draw.share @ drifts.variances(coefficients, len(draw.share))))
            for column, level in enumerate((noise, noise * math.exp(drift.trend * apart))):
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
    low, high = min(b.low for b in bands), max(b.high for b in bands)  # type: ignore[type-var, assignment]
    if unit:
        low, high = resolved(low, high, seen, updates * _size(each, unit))
    return Band(bands[0].value, low, high)
