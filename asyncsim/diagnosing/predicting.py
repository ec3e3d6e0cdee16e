"""`predict`: which alarm announces the fall of a run, at which level and how long ahead, from traces or logs."""

import glob
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from asyncsim.base import calls, checks, files, uncertainty
from asyncsim.base.answers import CHANCE, UNTOLD, Alarm, Prediction
from asyncsim.base.notation import TRAINED
from asyncsim.base.trace import Trace
from asyncsim.comparing import readings
from asyncsim.comparing.readings import WINDOW, trailing
from asyncsim.diagnosing import alarms, aliases
from asyncsim.diagnosing.alarms import Matched, Signal, signal_of
from asyncsim.schedules import _log_files, _log_places

LEAST = 8
"""Runs of either kind below which nothing is said: not even an area of 1 could be told from chance."""
ALIKE = "all runs have the same most alarming value, or none; give a shorter watch=, or a Signal of the other side"
FELL = {"fall": "fell", "collapse": "collapsed"}
EARLY = checks.advice("early", "alarm")
REMEDY = "give a trace, as of sim.run(spec), columns by name (dict(df)), the path of a log, or a list of these"


@calls.named
def predict(
    runs: Any,
    signal: Any = "ess",
    returns: str | None = None,
    *,
    start: float | None = None,
    best: float | None = None,
    event: str = "fall",
    lead: Iterable[int] = (10, 0, 5, 20),
    watch: int | None = 30,
    window: int = WINDOW,
    rate: float = 0.1,
    seed: int = 0,
) -> Prediction:
    """Test how well alarms on signals announce the fall of a run: level, lead time, false alarms and AUC.

    Let m_t be the mean of the last `window` returns and p_t its running peak. A run falls at the first t with m_t <
    start + (p_t - start)/2, whether or not it comes back. With event="collapse", this has to hold up to the end.
    Before, the run must have learned: m_t >= start + (best - start)/2. The score of a run is its largest s_t in the
    last `watch` updates with t < t_c - lead. Healthy runs are cut at times drawn from those of falls. The area is
    P(score before a fall > score of a healthy run), ties counted half, with its error between runs.

    Arguments: `runs`, a `Trace` with replicates, columns by name (`[U]` or `[U, R]`), the path of a log with a row for
    each update (.csv, .jsonl, .parquet), or a list of these. `signal`, a metric's name (low ESS, entropy, mean ratios
    and returns are alarming, but high values of most others), a `Signal`, or a list of them. `returns`, the metric that
    falls (None: "trained_return" where runs have it at every update, else "batch_return", the behavior policy's, which
    falls later by its staleness). `start`, return of the initial policy (None: the mean of the first ones), and `best`,
    the maximum return (None: the largest trailing mean of all runs). `event`: "fall" or "collapse". `lead`, `watch` and
    `window` in recorded updates: times before the fall at which scores end, the first for the verdict; updates of a
    score (None: all); length of means. `rate`, share of healthy runs with a false alarm, in (0, 1). `seed` of the
    draws. Returns a `Prediction`: it prints the level of each alarm, the share of falls that it announces, by how many
    updates, and the share of healthy runs with a false alarm; below eight scored runs of a kind, a reason. Verdicts
    compare runs at equal times, and each is wrong with probability 0.05 at most. A run without returns from some update
    on (it diverged) has fallen there. Raises `InputError` for other values or lengths, or missing metrics. Assumes
    independent runs, and metrics known at their update. Source: areas, DeLong 1988; words, Hoeffding 1963; band,
    Massart 1990; the protocol is this package's.

    >>> random = np.random.default_rng(0)
    >>> returns, norm = np.ones((60, 400)), random.exponential(size=(60, 400))
    >>> returns[0], returns[40:, :200], norm[30:, :200] = 0.0, 0.1, 100.0
    >>> found = predict({"batch_return": returns, "gradient_norm": norm}, "gradient_norm", lead=(0, 20), window=5)
    >>> found.runs["fell"], [round(e.value, 1) for e in found.alarms["gradient_norm"].unequal.values()]
    (200, [1.0, 0.5])
    """
    signals = _named(signal, window)
    leads = [checks.integer("lead", each, 0, "count recorded updates before the fall") for each in lead]
    checks.require(bool(leads), "lead", leads, "at least one time", "count recorded updates before the fall")
    checks.integer("window", window, 1, "count recorded updates")
    if watch is not None:
        shorter = f"write watch={max(leads) + 10}, or a shorter lead, as lead=[{max(0, int(watch or 0) // 2)}]"
        checks.integer("watch", watch, max(leads) + 1, shorter)
    checks.rate("rate", rate, "give the accepted share of healthy runs with a false alarm")
    checks.one_of("event", event, tuple(FELL), "say which runs are told apart")
    returns = returns or returns_of(runs)
    metrics = metrics_of(runs, list(dict.fromkeys([returns, *(each.metric for each in signals.values())])))
    earned = metrics[returns]
    checks.integer("window", window, 1, "count recorded updates, no more than a run has", len(earned))
    first, units = earned[0][np.isfinite(earned[0])], "give {}= in units of the return"
    checks.require(start is not None or first.size > 0, "start", None, "known", units.format("start"))
    begin = checks.real("start", first.mean() if start is None else start, units.format("start"))
    # A run that has no returns any more (it diverged) is back where it began.
    gone = np.logical_and.accumulate(~np.isfinite(earned)[::-1], axis=0)[::-1]
    earned = np.where(gone, begin, earned)
    top = checks.real("best", np.nanmax(trailing(earned, window)) if best is None else best, units.format("best"))
    remedy = "give start= and best= of the task: no run has gained anything"
    checks.require(top > begin, "best", top, f"above start = {begin:g}", remedy)
    found, fell = alarms.course(earned, begin, top, window, event), FELL[event]
    ends = (found.collapsed >= 0, found.recovered, alarms.healthy(found), found.learned < 0)
    kinds = dict(zip((fell, "recovered", "healthy", "never learned"), ends, strict=True))
    # Find falls and healthy runs; without a watch scores still need one update ahead of the largest lead.
    ahead = max(leads) + 1 if watch is None else watch
    behind = window * (event == "collapse")
    pairs = alarms.matched(found, kinds["healthy"], len(earned), ahead, behind, seed, window)
    counts = {name: int(is_.sum()) for name, is_ in kinds.items()}
    counted = checks.advice(event, "alarm").format(window, readings.collapses(earned).sum())
    scored = {fell: len(pairs.cases), "healthy": len(pairs.controls)}
    over = "the whole history before" if watch is None else f"the last {watch} updates before"
    late = f"the others learned less than {ahead + window} updates before a {event}"
    late += f", or {fell} in the last {behind}" * bool(behind)
    since = np.sort(found.collapsed[found.collapsed >= 0] - found.learned[found.collapsed >= 0] - window)
    half = int(since[-max(LEAST, len(since) // 2)]) if len(since) >= LEAST else 0
    late += f"; watch={half} would score half of the falls" * (watch is not None and max(leads) < half < watch)
    few = " and ".join(f"{scored[kind]} of {counts[kind]} {kind}" for kind in scored if scored[kind] < LEAST)
    if few:
        fewest = min(counts[kind] for kind in scored)
        remedy = _remedy(runs, half * (fewest >= LEAST), min(scored.values()), event)
        why = f"at least {LEAST} of each must be scored, and {few} are; {remedy}"
        late = late if counts[fell] else f"healthy runs are cut where others {event}"
        return Prediction(found, counts, scored, late, over, {}, why, counted)
    about = leads, watch, rate, found.learned, event
    found_by = {name: _alarm(one, one(metrics), pairs, *about) for name, one in signals.items()}
    return Prediction(found, counts, scored, late, over, found_by, "", counted)


def _remedy(runs: Any, most: int, scored: int, event: str) -> str:
    """What to do where too few runs fell or were healthy: more replicates, or a search for a setting, to be pasted."""
    if most > 1:
        return checks.advice("late", "alarm").format(most, most // 2)
    times = math.ceil(2 * LEAST / max(scored, 1))
    spec = runs.header.get("spec", {}) if isinstance(runs, Trace) else {}
    rates = re.findall(r"\blr=([\d.e+-]+)", str(spec.get("update")))
    if not rates or times <= 4:
        paste = f": sim.run(spec.replace(replicates={times * spec['replicates']}))" if rates else ""
        more = f"take about {times} times as many {'replicates' if spec else 'runs'}{paste}"
        return more if scored or spec else "add runs of the kind that is missing"
    grid = {"lr": [float(f"{float(rates[-1]) * each:.3g}") for each in (0.1, 0.3, 1.0, 3.0, 10.0)]}
    if spec["system"].get("name") == "fixed" and (most := (spec["updates"] - 1) // 3) > 0:
        own = spec["system"]["knobs"]["staleness"]
        grid["staleness"] = sorted({own, *(each for each in (16, 64) if each <= most)})
    return checks.advice("search", "alarm").format(event, grid)


def _named(signal: Any, window: int) -> dict[str, Signal]:
    """Map names to signals: the metric's name, numbered if several use one metric, or the keys of a mapping."""
    if isinstance(signal, Mapping):
        return {str(name): signal_of(each, window) for name, each in signal.items()}
    given = [signal_of(each, window) for each in (signal if isinstance(signal, (list, tuple)) else [signal])]
    named: dict[str, Signal] = {}
    for each in given:
        twins = sum(other.metric == each.metric for other in named.values())
        named[each.metric if not twins else f"{each.metric} {twins + 1}"] = each
    checks.require(bool(named), "signal", signal, "one signal at least", "name a metric of the trace")
    return named


def _alarm(
    signal: Signal, values: np.ndarray, pairs: Matched, leads: list[int], watch: int | None, rate: float,
    learned: np.ndarray, event: str,
) -> Alarm:  # fmt: skip
    """AUC by lead, and the performance of a threshold set on half of the healthy runs on all other runs."""
    sides = (pairs.cases, pairs.case_times), (pairs.controls, pairs.control_times)
    scores = {lead: [alarms.worst(values, *side, watch, lead) for side in sides] for lead in leads}
    unequal = {lead: alarms.auc(*both) for lead, both in scores.items()}
    cases, controls = scores[leads[0]]
    whole = alarms.worst(values, pairs.controls, pairs.control_times, watch)
    # Replicates alternate between the half that sets the level and the half that is reported.
    setting, held_out = alarms.halves(np.arange(len(pairs.controls)))
    level = alarms.threshold(whole[:, setting], rate)
    woken = (whole[:, held_out] > level).mean(axis=0)
    first = alarms.announced(values, pairs.cases, pairs.case_times, watch, level)
    hits = uncertainty.proportion(int((first > leads[0]).sum()), len(first))
    false = uncertainty.proportion(round(float(woken.sum())), len(woken))._replace(value=float(woken.mean()))
    fair, reach = alarms.at_equal_times(cases, controls, pairs)
    word, why, every = UNTOLD, "", np.append(cases, controls)
    runs, peaks = np.append(pairs.cases, pairs.controls), np.fmax.accumulate(values, axis=0)
    # Share of scores from before their runs learned: where these began, not how they end.
    early = float(((peaks[:, runs] < np.append(cases, controls[0])).sum(axis=0) < learned[runs]).mean())
    if np.allclose(every, every[0], rtol=1e-9, atol=0.0):
        why = ALIKE
    elif watch is None and early > 0.5:
        why = EARLY.format(early, max(leads) + 5)
    elif abs(fair - 0.5) > reach:
        word = f"{'better' if fair > 0.5 else 'worse'} than chance"
    elif fair + reach < 0.5 + CHANCE:
        word = "no better than chance"
    late = stats.binomtest(int((first <= leads[0]).sum()), len(first))
    missed = late.statistic, *late.proportion_ci()
    ahead = float(np.median(first[first > leads[0]])) if hits.value else math.nan
    known = (fair, reach), unequal, alarms.roc(cases, controls), level, false, hits, word, missed
    return Alarm(signal, *known, ahead, why, event, watch)


def metrics_of(runs: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The named metrics `[U, R]`, with several sources concatenated along runs."""
    runs = sorted(glob.glob(runs)) or runs if isinstance(runs, str) and glob.has_magic(runs) else runs
    sources = list(runs) if isinstance(runs, (list, tuple)) else [runs]
    checks.require(bool(sources), "runs", runs, "at least one run", REMEDY)
    tables = [_table(source, number, names) for number, source in enumerate(sources)]
    lengths = sorted({len(next(iter(table.values()))) for table in tables})
    remedy = f"cut them to the shortest, {lengths[0]}, or leave short ones out"
    checks.require(len(lengths) == 1, "recorded updates", lengths, "the same for all runs", remedy)
    return {name: np.hstack([table[name] for table in tables]) for name in names}


def returns_of(runs: Any) -> str:
    """The default return metric: the trained policy's exact return if all sources have it at every update."""
    tables = [getattr(source, "metrics", source) for source in (runs if isinstance(runs, (list, tuple)) else [runs])]
    there = [table[TRAINED] for table in tables if isinstance(table, Mapping) and TRAINED in table]
    known = len(there) == len(tables) and all(np.isfinite(_column(TRAINED, x)).any(1).all() for x in there)
    return TRAINED if known else "batch_return"


def _table(source: Any, number: int, names: Sequence[str]) -> dict[str, np.ndarray]:
    if isinstance(source, Trace):
        return {name: source[name] for name in names}
    if isinstance(source, Mapping):
        known, columns = [*source], source
    else:
        checks.require(isinstance(source, (str, Path)), f"runs[{number}]", source, "a run", REMEDY)
        path = Path(source)
        table = _log_files.read(_log_places.found(path, ""), names, files.Budget(path))
        known, columns = [name for name in table.names if name != _log_files.NUMBERED], table.cells
    reward = next((name for name in known if aliases.steps().get(name, ("",))[0] == "reward"), "reward")
    own = f"it must be a column of runs[{number}]; name its columns, as sim.predict(runs, ['kl'], returns='{reward}')"
    checks.each_of("metric", names, known, own)
    return {name: _column(f"{name} of runs[{number}]", columns[name]) for name in names}


def _column(field: str, cells: Any) -> np.ndarray:
    """Convert cells to an array `[U, R]`, NaN for empty cells."""
    try:
        plain = [np.nan if cell is None or (isinstance(cell, str) and not cell) else cell for cell in cells]
        array = np.asarray(plain, dtype=np.float64)
    except (TypeError, ValueError):
        raise checks.InputError(field, cells, "numbers, one a recorded update", "drop rows that have none") from None
    whole = array.ndim in (1, 2) and array.size > 0
    checks.require(whole, field, array.shape, "of shape [U] or [U, R]", "give one number for each recorded update")
    return array.reshape(len(array), -1)
