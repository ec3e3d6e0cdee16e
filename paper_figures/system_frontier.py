"""What staleness buys: throughput on one machine, speed over synchronous training, return in simulated hours."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from asyncsim import theory
from asyncsim.plotting import _style
from experiments import system_frontier
from paper_figures import _script

EXPERIMENTS = ("system_frontier",)
BLUES = {8: "#9cc4e6", 16: "#4a90cc", 32: _style.COLORS["measured"]}
LOOKS: dict[str, dict[str, Any]] = {
    "synchronous": {"color": _style.INK, "marker": "*", "markersize": 7, "label": "synchronous"},
    "one_step_off": {"color": _style.INK, "marker": "P", "label": "one_step_off"},
    "areal": {"marker": "o"},
    "verl_fully_async": {"color": "#1a7f4e", "marker": "s", "label": "verl_fully_async"},
    "slime_fully_async": {"color": "#9a6b00", "marker": "X", "label": "slime_fully_async"},
    "prime_rl": {"color": _style.COLORS["contrast"], "marker": "^", "label": "prime_rl (drops)"},
    "torchtitan": {"color": "#7b4fa3", "marker": "v", "label": "torchtitan (hard)"},
    "nemo_rl_in_order": {"color": "#77808c", "marker": "D", "label": "nemo_rl, in order (hard)"},
    "verl_separate_async": {"color": "#c26d9b", "marker": "<", "label": "verl_separate, wait (hard)"},
}
RACERS: dict[str, dict[str, Any]] = {
    "synchronous": {"color": _style.INK, "marker": "*", "label": "synchronous"},
    "one_step_off": {"color": _style.COLORS["muted"], "marker": "P", "label": "one_step_off"},
    "nemo_rl_in_order": {"color": "#7b4fa3", "marker": "D", "label": "nemo_rl, in order, 1 ahead"},
    "areal": {"color": _style.COLORS["measured"], "marker": "o", "label": r"areal, $\eta = 1$"},
    "open loop": {"color": _style.COLORS["contrast"], "marker": "X", "label": "open loop"},
}
ETAS: dict[int, dict[str, Any]] = {
    0: {"color": _style.INK, "marker": "*", "label": "synchronous"},
    1: {"color": "#9cc4e6", "marker": "o", "label": r"areal, $\eta = 1$"},
    4: {"color": _style.COLORS["measured"], "marker": "s", "label": r"areal, $\eta = 4$"},
    16: {"color": _style.COLORS["contrast"], "marker": "x", "label": r"areal, $\eta = 16$"},
}
SPREAD = max(system_frontier.SIGMAS)
TITLES = {
    "long tails": r"Long tails ($\sigma = 1.5$), quick trainer",
    "slow trainer": r"Even lengths ($\sigma = 0.25$), slow trainer",
}


def groups(rows: Any) -> list[tuple[str, dict[str, Any], Any]]:
    """System, look and rows of each line of the frontier."""
    found = []
    for system, look in LOOKS.items():
        own = rows[rows.system == system]
        if system != "areal":
            found.append((system, look, own))
            continue
        for places, color in BLUES.items():
            label = f"areal, {places} groups at once"
            found.append((system, {**look, "color": color, "label": label}, own[own.places == places]))
    return found


def points(rows: Any, quantity: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean over realizations and half interval at each setting of a line."""
    own = rows[rows.quantity == quantity].fillna({"knob": -1.0, "places": -1.0})
    found = [_script.interval(part.value) for _, part in own.groupby(["places", "knob"])]
    return np.array(found).T[0], np.array(found).T[1]


def draw_frontier(ax: Axes, rows: Any, across: str, up: str) -> Axes:
    """One measured quantity of every system against another; a line joins the settings of one knob."""
    for _, look, own in groups(rows):
        (x, x_half), (y, y_half) = points(own, across), points(own, up)
        style = {"markersize": 4, **look}
        ax.errorbar(x, y, xerr=x_half, yerr=y_half, linewidth=0.8, elinewidth=0.8, **style)
    return ax


def predicted(system: str, sigma: float, train_time: float) -> float:
    """Seconds for a batch of 32 samples, of the synchronous system or of the open loop."""
    point: dict[str, Any] = {
        "groups_per_batch": 32,
        "samples_per_group": 1,
        "length": f"lognormal:1.0:{sigma}",
        "train_time": train_time,
        "sync_time": 0.0,
    }
    if system == "synchronous":
        return theory.claim("systems/synchronous-throughput").predict(point | {"rate": 1.0})["step_seconds"]
    point |= {"places": 32, "batches_per_publish": 1, "generator_pauses": True, "capacity": 256, "overflow": "block"}
    return 32.0 / theory.claim("systems/asynchronous-throughput").predict(point)["groups_per_second"]


def draw_speed(ax: Axes, rows: Any, train_time: float) -> Axes:
    """Speed-up over the synchronous system against the spread of lengths; realizations share their lengths."""
    own = rows[(rows.train_time == train_time) & (rows.system != "synchronous")]
    sync = rows[(rows.train_time == train_time) & (rows.system == "synchronous")]
    base = sync.set_index(["knob", "realization"]).value
    sigmas = np.linspace(0.0, 1.5, 31)
    for system, look in RACERS.items():
        if system == "synchronous":
            continue
        one = own[own.system == system].set_index(["knob", "realization"]).value
        ratio = base / one
        found = [_script.interval(ratio.loc[sigma]) for sigma in system_frontier.SIGMAS]
        mean, half = np.array(found).T
        style = {**_style.MEASURED, **look, "linestyle": "-", "linewidth": 0.8, "markersize": 4}
        ax.errorbar(system_frontier.SIGMAS, mean, yerr=half, **style)
    law = [predicted("synchronous", s, train_time) / predicted("open loop", s, train_time) for s in sigmas]
    ax.plot(sigmas, law, zorder=4, **_style.PREDICTED)
    ax.axhline(1.0, color=_style.COLORS["muted"], linewidth=0.6)
    ax.set(xlabel=r"spread of lengths $\sigma$", ylabel="speed-up over synchronous", ylim=(0.0, None))
    ax.set_title(f"Training takes {train_time:g} mean lengths")
    return ax


def curve(rows: Any, hours: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at the given hours, mean over realizations with half intervals; NaN after the end of the shortest."""
    values = []
    for _, one in rows.groupby("realization"):
        one = one.sort_values("update")
        values.append(np.interp(hours, one.hours, one.value, right=np.nan))
    inside = np.isfinite(values).all(axis=0)
    mean, half = np.full(len(hours), np.nan), np.full(len(hours), np.nan)
    for i in np.flatnonzero(inside):
        mean[i], half[i] = _script.interval(np.array(values)[:, i])
    return mean, half


def draw_curves(ax: Axes, rows: Any, regime: str, until: float) -> Axes:
    """Batch return against simulated hours, with bands of 95 percent."""
    hours = np.linspace(0.0, until, 81)
    for eta, look in ETAS.items():
        own = rows[(rows.regime == regime) & (rows.knob == eta) & (rows.quantity == "return")]
        mean, half = curve(own, hours)
        ax.plot(hours, mean, color=look["color"], linewidth=2.4 if eta == 4 else 1.1, label=look["label"])
        ax.fill_between(hours, mean - half, mean + half, color=look["color"], alpha=0.2, linewidth=0)
    target = 0.95 * system_frontier.largest_return()
    ax.text(0.99 * until, target - 0.004, "95 % of the best", ha="right", va="top", fontsize=6)
    ax.axhline(target, color=_style.COLORS["muted"], linewidth=0.7, linestyle=":")
    ax.set(xlim=(0, until), xlabel="simulated hours")
    ax.set_title(TITLES[regime])
    return ax


def draw_hours(ax: Axes, rows: Any, regime: str) -> Axes:
    """Hours to 95 percent of the largest return against the step; a point only where every realization stays there."""
    own = rows[(rows.regime == regime) & (rows.quantity == "hours_to_target")]
    for eta, look in ETAS.items():
        found = []
        for step, part in own[own.knob == eta].groupby("step"):
            if part.value.notna().all():
                found.append((step, *_script.interval(part.value)))
        x, mean, half = np.array(found).reshape(-1, 3).T
        style = {**_style.MEASURED, **look, "linestyle": "-", "linewidth": 2.4 if eta == 4 else 1.1, "markersize": 4}
        ax.errorbar(x, mean, yerr=half, **style)
    ax.set(xscale="log", yscale="log", xlabel="learning rate")
    ax.set(xticks=system_frontier.STEPS, xticklabels=[f"{step:g}" for step in system_frontier.STEPS])
    ax.set(ylim=(0.07, 8), yticks=[0.1, 1], yticklabels=["0.1", "1"], xlim=(0.2, 20))
    ax.xaxis.set_minor_locator(NullLocator())
    return ax


def draw_machine(part: Any, rows: Any) -> None:
    """Throughput against both kinds of staleness, and who works, with one legend for the three."""
    heads, tokens, work = part.subplots(1, 3)
    draw_frontier(heads, rows, "staleness", "throughput")
    heads.set(xlabel="mean staleness of groups (versions)", ylabel="groups a second")
    heads.set_title("Staleness buys throughput ...")
    draw_frontier(tokens, rows, "token_staleness", "throughput")
    tokens.set(xlabel="mean staleness of tokens (versions)")
    tokens.set_title("... by the token as well")
    for ax in (heads, tokens):
        ax.set(xlim=(-0.3, 8.5), ylim=(1.2, 5.5))
    draw_frontier(work, rows, "generators", "trainer")
    work.set(xlabel="share of generator slots that write", ylabel="share of time the trainer trains")
    work.set_title("Who works")
    part.legend(*heads.get_legend_handles_labels(), loc="outside lower center", ncols=4, handlelength=1.6)


def draw(rows: Any) -> Figure:
    """Three parts: the frontier, speed over synchronous training, and learning in hours."""
    parts = {name: rows[rows.part == name] for name in ("frontier", "speed", "learning")}
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 9.2)
        first, second, third = np.asarray(figure.subfigures(3, 1, height_ratios=(1.1, 0.75, 1.35)))
        draw_machine(first, parts["frontier"])
        fast, slow = second.subplots(1, 2)
        draw_speed(fast, parts["speed"], 0.5)
        draw_speed(slow, parts["speed"], 2.0)
        fast.plot([], [], label="predicted", **_style.PREDICTED)
        fast.legend(loc="upper left", borderpad=0.0)
        panels = third.subplots(2, 2, sharey="row")
        for column, regime in zip(panels.T, system_frontier.REGIMES, strict=True):
            draw_curves(column[0], parts["learning"], regime, 1.0)
            draw_hours(column[1], parts["learning"], regime)
        panels[0, 0].set(ylabel=f"return of the batch, rate {system_frontier.SHOWN:g}")
        panels[1, 0].set(ylabel="hours to 95 % of the best")
        panels[0, 0].legend(loc="lower right", borderpad=0.0)
        _script.caption(
            figure,
            "Varied: the system; the machine is the same within a panel. Top: 16 groups of 4 samples a batch;",
            "a line joins settings of a system's own limit (areal 0 to 8). Middle: 32 samples a batch on 32 slots;",
            "dashed, nothing fitted: (E[longest of 32 samples] + training) / max(mean length, training).",
            "Bottom: a token bandit; a point only where all realizations get there and stay. 95 % intervals.",
        )
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Throughputs of the top row, seconds and speed-ups of the middle one, hours to the target of the bottom one."""
    parts = {name: rows[rows.part == name] for name in ("frontier", "speed", "learning")}
    return {**_throughputs(parts["frontier"]), **_speeds(parts["speed"]), **_hours(parts["learning"])}


def _throughputs(rows: Any) -> dict[str, str]:
    """Means over realizations; areal's with all places unless said otherwise."""
    mean = rows.fillna({"knob": -1.0, "places": -1.0}).groupby(["system", "places", "knob", "quantity"]).value.mean()

    def at(system: str, quantity: str, knob: float = -1.0, places: float = -1.0) -> float:
        return float(mean.get((system, places, knob, quantity), np.nan))

    hard = [at(name, "throughput", 2.0) for name in ("nemo_rl_in_order", "torchtitan", "verl_separate_async")]
    few = [at("areal", "staleness", knob, 8.0) for knob in (2.0, 4.0, 8.0)]
    return {
        "sync": f"{at('synchronous', 'throughput'):.2f}",
        **{f"areal_{eta}": f"{at('areal', 'throughput', eta, 32.0):.2f}" for eta in (1, 2, 4, 8)},
        "few": f"{np.mean(few):.1f}",
        "hard_least": f"{min(hard):.2f}",
        "hard_most": f"{max(hard):.2f}",
        "prime": f"{at('prime_rl', 'throughput', 2.0, 32.0):.2f}",
        "prime_dropped": f"{100 * at('prime_rl', 'dropped', 2.0, 32.0):.0f}",
    }


def _speeds(rows: Any) -> dict[str, str]:
    """Largest deviation from the predicted seconds, and speed-ups at the widest spread of lengths."""
    mean = rows.groupby(["system", "train_time", "knob"]).value.mean()
    known = [key for key in mean.index if key[0] in ("synchronous", "open loop")]
    off = [abs(mean[key] / predicted(key[0], float(key[2]), float(key[1])) - 1.0) for key in known]
    found = {"points": f"{len(known)}", "off": f"{100 * max(off):.1f}"}
    for system in ("open loop", "nemo_rl_in_order", "one_step_off"):
        for train_time, name in ((0.5, "quick"), (2.0, "slow")):
            ratio = np.nan
            if (system, train_time, SPREAD) in mean.index:
                pair = (rows[(rows.system == s) & (rows.train_time == train_time) & (rows.knob == SPREAD)]
                        .set_index("realization").value for s in ("synchronous", system))  # fmt: skip
                ratio = next(pair).div(next(pair)).mean()
            found[f"{system.replace(' ', '_')}_{name}"] = f"{ratio:.3g}"
    return found


def _hours(rows: Any) -> dict[str, str]:
    """Least hours to the target over the steps at which every realization gets there, and those of the least step."""
    own = rows[rows.quantity == "hours_to_target"]
    found = {}
    for regime, name in (("long tails", "long"), ("slow trainer", "slow")):
        for eta in (0, 1, 4):
            cell = own[(own.regime == regime) & (own.knob == eta)]
            kept = [part.value for _, part in cell.groupby("step") if part.value.notna().all()]
            best = _script.interval(min(kept, key=lambda value: value.mean())) if kept else (np.nan, np.nan)
            found[f"{name}_{eta}"] = f"{best[0]:.3f} ± {best[1]:.3f} h"
    slow = rows[(rows.regime == "slow trainer") & (rows.quantity == "return")]
    slow = slow.groupby(["knob", "realization"]).hours.max().groupby("knob").mean()
    found["saved"] = f"{100 * (1 - slow.get(1, np.nan) / slow.get(0, np.nan)):.0f}"
    small = own[(own.regime == "slow trainer") & (own.step == system_frontier.STEPS[0])].groupby("knob").value.mean()
    return {**found, "small_0": f"{small.get(0, np.nan):.2f}", "small_1": f"{small.get(1, np.nan):.2f}"}
