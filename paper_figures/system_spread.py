"""Speed of asynchronous systems over the synchronous one, against the spread of lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim import claims
from asyncsim.plotting import _style
from experiments import system_frontier
from paper_figures import _script
from paper_figures._claim import Setting, decided
from paper_figures._vcpo import ends as look_ends
from paper_figures._vcpo import ticks as look_ticks
from paper_figures.roll_flash import rounded
from paper_figures.systems_stories import NEAR

EXPERIMENTS = {"system_frontier": {"part": "speed", "task": "none (timing only)", "staleness": ""}}
RACERS: dict[str, tuple[str, str]] = {
    "open loop": ("contrast", "X"),
    "areal": ("measured", "o"),
    "nemo_rl_in_order": ("muted", "D"),
    "one_step_off": ("muted", "P"),
}
"""Color and marker of each system."""
NAMES = {
    "open loop": "no staleness limit",
    "areal": "AReaL, limit 1",
    "nemo_rl_in_order": "NeMo RL, in order",
    "one_step_off": "one step off",
}
STRICT = ("nemo_rl_in_order", "one_step_off")
"""Systems that train on batches in the order in which they began."""
SPREAD = max(system_frontier.SIGMAS)
TRAINING = {
    0.5: "Fast trainer: a step takes half a response time",
    2.0: "Slow trainer: a step takes two response times",
}
"""Seconds of training in mean lengths."""


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
        return claims.claim("systems/synchronous-throughput").predict(point | {"rate": 1.0})["step_seconds"]
    point |= {"places": 32, "batches_per_publish": 1, "generator_pauses": True, "capacity": 256, "overflow": "block"}
    return 32.0 / claims.claim("systems/asynchronous-throughput").predict(point)["groups_per_second"]


def speeds(rows: Any, system: str, train_time: float) -> Any:
    """Speed-up of each spread and realization; realizations share their lengths."""
    own = rows[(rows.part == "speed") & (rows.train_time == train_time)]
    seconds = own.set_index(["system", "knob", "realization"]).value
    return seconds["synchronous"] / seconds[system]


def draw_speed(ax: Axes, rows: Any, train_time: float) -> Axes:
    """Speed-up over the synchronous system against the spread of lengths."""
    ends: dict[str, tuple[float, Any]] = {}
    for system, (color, marker) in RACERS.items():
        ratio, shade = speeds(rows, system, train_time), _style.COLORS[color]
        mean, half = np.array([_script.interval(ratio.loc[sigma]) for sigma in system_frontier.SIGMAS]).T
        if system != "open loop":
            ax.plot(system_frontier.SIGMAS, mean, color=shade, linewidth=0.9)
        look = {**_style.MEASURED, "marker": marker, "color": shade}
        ax.errorbar(system_frontier.SIGMAS, mean, yerr=half, **look)
        ends[NAMES[system]] = (mean[-1], shade)
    fine = np.linspace(0.0, SPREAD, 31)
    curve = [predicted("synchronous", s, train_time) / predicted("open loop", s, train_time) for s in fine]
    ax.plot(fine, curve, label="predicted, no staleness limit", zorder=1, **_style.PREDICTED)
    ax.plot([0.0, SPREAD], [1.0, 1.0], **{**_style.REFERENCE, "color": _style.COLORS["synchronous"]})
    ax.set(
        xlabel="spread (standard deviation of log length)",
        yscale="log",
        ylim=(0.85, 12.0),
        xlim=(-0.05, 1.55),
        xticks=[0, 0.5, 1, 1.5],
    )
    look_ticks(ax.yaxis, (1, 2, 4, 8))
    look_ends(ax, ends | {"synchronous": (1.0, _style.COLORS["synchronous"])})
    ax.set_title(TRAINING[train_time])
    return ax


def holds(rows: Any) -> bool:
    """Whether only systems that do not wait gain with the spread of lengths, and less with a slow trainer."""
    quick, slow = (speeds(rows, "open loop", each) for each in TRAINING)
    less = slow.loc[SPREAD].mean() < 0.75 * quick.loc[SPREAD].mean()
    grown = {}
    for system in RACERS:
        found = [speeds(rows, system, each) for each in TRAINING]
        grown[system] = [own.loc[SPREAD].mean() / own.loc[min(system_frontier.SIGMAS)].mean() for own in found]
    free = [min(grown[system]) > 2.0 for system in ("open loop", "areal")]
    return bool(less and all(free) and max(*grown["nemo_rl_in_order"], *grown["one_step_off"]) < 1.2)


def draw(rows: Any) -> Figure:
    """A panel for each time of training."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, train_time in zip(axes, TRAINING, strict=True):
            draw_speed(ax, rows, train_time)
        axes[0].set_ylabel("throughput / synchronous throughput")
        _script.headline(figure, holds(rows), "Throughput against the spread of lengths")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Largest deviation from the predicted seconds, and speed-ups at the widest spread of lengths."""
    mean = rows[rows.part == "speed"].groupby(["system", "train_time", "knob"]).value.mean()
    known = [key for key in mean.index if key[0] in ("synchronous", "open loop")]
    off = [abs(mean[key] / predicted(key[0], float(key[2]), float(key[1])) - 1.0) for key in known]
    found = {"points": f"{len(known)}", "off": f"{100 * max(off):.1f}", "spread": f"{SPREAD:g}"}
    for system in RACERS:
        for train_time, name in zip(TRAINING, ("quick", "slow"), strict=True):
            ratio, half = _script.interval(speeds(rows, system, train_time).loc[SPREAD])
            found[f"{system.replace(' ', '_')}_{name}"] = rounded(ratio, half)
    strict = [speeds(rows, system, each).groupby("knob").mean().max() for system in STRICT for each in TRAINING]
    return found | {"strict": f"{max(strict):.2f}"}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the mean time of a batch lies near its formula, of both systems that have one, by spread of lengths."""
    seconds = rows[rows.part == "speed"].set_index(["system", "train_time", "knob"]).value
    found = []
    for system in ("synchronous", "open loop"):
        for train_time, name in ((0.5, "fast trainer"), (2.0, "slow trainer")):
            for sigma in system_frontier.SIGMAS:
                expected = predicted(system, sigma, train_time)
                value, half = _script.interval(seconds.loc[system, train_time, sigma])
                off, reach = abs(value / expected - 1.0), half / expected
                near = decided(off + reach < NEAR, off - reach > NEAR)
                found.append(Setting((f"{system}, {name}, spread", f"{sigma:g}"), near))
    return {"formula": found}
