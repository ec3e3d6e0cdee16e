"""Throughput of eight systems on one machine against the mean staleness that each allows."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments.system_frontier import BATCH
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting
from paper_figures.systems_stories import capped

EXPERIMENTS = {"system_frontier": {"part": "frontier", "task": "none (timing only)"}}
PLACES = 32
"""Groups in generation at once, of systems whose number is a setting."""
FEW = 16
"""Groups in generation with which a limit of 4 on mean staleness is not reached."""
LOOKS: dict[str, tuple[str, str]] = {
    "synchronous": ("synchronous", "*"),
    "one_step_off": ("muted", "P"),
    "areal": ("measured", "o"),
    "nemo_rl_in_order": ("muted", "D"),
    "torchtitan": ("muted", "v"),
    "verl_separate_async": ("muted", "s"),
    "prime_rl": ("contrast", "^"),
}
"""Color and marker: gray where the trainer waits for late groups, orange where they are dropped."""
NAMES = {
    "synchronous": "synchronous",
    "one_step_off": "one-step-off (waits)",
    "areal": "AReaL (limits mean)",
    "nemo_rl_in_order": "NeMo RL (waits)",
    "torchtitan": "torchtitan (waits)",
    "verl_separate_async": "verl (waits)",
    "prime_rl": "prime-rl (drops stale samples)",
}


def points(rows: Any, quantity: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean over realizations and half interval at each setting of a line."""
    own = rows[rows.quantity == quantity].fillna({"knob": -1.0})
    found = [_script.interval(part.value) for _, part in own.groupby("knob")]
    return np.array(found).T[0], np.array(found).T[1]


def line(rows: Any, system: str) -> Any:
    """Rows of one system, with all places."""
    own = rows[(rows.part == "frontier") & (rows.system == system)]
    return own[own.places.isna() | (own.places == PLACES)]


def draw_frontier(ax: Axes, rows: Any) -> Axes:
    """Throughput against staleness; a line joins the settings of one limit."""
    names: dict[str, tuple[float, Any]] = {}
    for system, (color, marker) in LOOKS.items():
        own = line(rows, system)
        (x, x_half), (y, y_half) = points(own, "staleness"), points(own, "throughput")
        shade = _style.COLORS[color]
        ax.plot(x, y, color=shade, linewidth=0.9)
        ax.errorbar(x, y, xerr=x_half, yerr=y_half, **{**_style.MEASURED, "marker": marker, "color": shade},
                    zorder=4 if system == "synchronous" else 3)  # fmt: skip
        if system == "prime_rl":
            for limit, across, up in zip(sorted(own.knob.unique()), x, y, strict=True):
                look.say(ax, across, up - 0.35, f"{limit:g}", shade, ha="center")
        if x[-1] > 4.0:
            names[NAMES[system]] = (y[-1], shade)
        else:
            below = 0.35 * (system == "prime_rl")
            ax.text(x[-1] + 0.12 + below, y[-1] - below, NAMES[system], color=shade, va="center")
    busy = BATCH / float(rows[rows.part == "frontier"].train_time.iloc[0])
    ax.axhline(busy, **_style.REFERENCE)
    look.say(ax, -0.2, busy + 0.22, "a trainer that is always busy", look.COLOR["muted"])
    ax.set(
        xlim=(-0.3, 8.3),
        ylim=(0, 6.0),
        xlabel="measured mean staleness (versions); numbers: prime-rl's limits",
        ylabel="groups per second",
    )
    look.ends(ax, names, gap=0.065)
    return ax


def draw(rows: Any) -> Figure:
    """One panel."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        draw_frontier(figure.subplots(), rows)
        stale, speed = points(line(rows, "areal"), "staleness")[0], points(line(rows, "areal"), "throughput")[0]
        slower = [
            points(line(rows, system), "throughput")[0]
            < np.interp(points(line(rows, system), "staleness")[0], stale, speed)
            for system, name in NAMES.items()
            if "(waits)" in name
        ]
        _script.headline(figure, all(map(all, slower)), "Throughput and staleness")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Throughputs: means over realizations."""
    mean = rows[rows.part == "frontier"].fillna({"knob": -1.0, "places": -1.0})
    mean = mean.groupby(["system", "places", "knob", "quantity"]).value.mean()

    def at(system: str, quantity: str, knob: float = -1.0, places: float = -1.0) -> float:
        return float(mean.get((system, places, knob, quantity), np.nan))

    hard = [at(name, "throughput", 2.0) for name in ("nemo_rl_in_order", "torchtitan", "verl_separate_async")]
    return {
        "sync": f"{at('synchronous', 'throughput'):.2f}",
        **{f"areal_{eta}": f"{at('areal', 'throughput', eta, PLACES):.2f}" for eta in (2, 4)},
        "hard_least": f"{min(hard):.2f}",
        "hard_most": f"{max(hard):.2f}",
        "prime": f"{at('prime_rl', 'throughput', 2.0, PLACES):.2f}",
        "prime_dropped": f"{100 * at('prime_rl', 'dropped', 2.0, PLACES):.0f}",
        "few": f"{at('areal', 'staleness', 4, FEW):.1f}",
        "few_places": str(FEW),
    }


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether AReaL's cap of 4 is the maximum and the mean staleness, on other machines than those of the stories."""
    found, largest = [], []
    for count in (8, 16, 32):
        place = ("groups in progress", str(count))
        own = _script.pick(rows, part="frontier", places=count, system="areal", knob=4.0)
        found.append(Setting(place, capped(_script.pick(own, quantity="staleness")), count == 32))
        largest.append(Setting(place, bool(_script.pick(own, quantity="largest").value.max() <= 4.0)))
    for regime in ("slow trainer", "long tails"):
        own = _script.pick(rows, part="learning", regime=regime, system="areal", quantity="staleness", knob=4.0)
        name = "slow trainer" if regime == "slow trainer" else "long tails, slow generation"
        found.append(Setting((f"learning, {name}",), capped(own), regime == "slow trainer"))
    return {"capped": found, "bounded": largest}
