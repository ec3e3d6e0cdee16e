"""How much faster than synchronous training AReaL's bound on staleness lets training run, by the spread of lengths."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import areal as experiment
from paper_figures import _script, areal
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"areal": {"part": "speed", "task": "none (timing only)"}}
LOOKS = dict(zip(experiment.SPREADS, (("partial", "v"), ("controlled", "o"), ("tuned", "^")), strict=True))


def draw(rows: Any) -> Figure:
    """Speed against the bound, a line for each spread of lengths."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        ax, names = figure.subplots(), {}
        for sigma, (color, marker) in LOOKS.items():
            found = list(areal.speeds(rows, sigma).values())
            style = {**_style.MEASURED, **look.CONNECTED, "color": look.COLOR[color], "marker": marker}
            means, reach = zip(*found, strict=True)
            ax.errorbar(experiment.BOUNDS, means, yerr=reach, **style)
            names[f"spread {sigma:g}"] = (means[-1], look.COLOR[color])
        for value, name, color in (
            (1.0, "synchronous", "synchronous"),
            (areal.PAPER, f"paper's best: {areal.PAPER:g}", "muted"),
        ):
            ax.axhline(value, **{**_style.REFERENCE, "color": look.COLOR[color]})
            names[name] = (value, look.COLOR[color])
        ax.set(yscale="log", ylim=(0.55, 8.0))
        ax.set_xlabel("staleness limit (versions); spread: standard deviation of log length")
        ax.set_ylabel("speed divided by\nsynchronous speed")
        ax.set_xscale("symlog", base=2, linthresh=1, linscale=0.5)
        ax.set_xlim(-0.2, 1.15 * experiment.BOUNDS[-1])
        look.ticks(ax.xaxis, experiment.BOUNDS)
        look.ticks(ax.yaxis, [1, 2, 4, 8])
        look.ends(ax, names, gap=0.085)
        # Of the pool, AReaL trains on a share alone, at every bound.
        look.say(ax, 0.2, 0.64, "limit 0: generation and training wait for each other", look.COLOR["muted"])
        few = areal.enough(rows) < experiment.BOUNDS[-2]
        _script.headline(figure, few, "Speed of AReaL against its staleness limit")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Speeds stand beside returns."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether AReaL is as many times as fast as in its paper, by spread of lengths and bound above 0."""
    found = []
    for sigma in experiment.SPREADS:
        for eta, (value, half) in areal.speeds(rows, sigma).items():
            if eta > 0:
                fast = decided(value - half >= areal.PAPER, value + half < areal.PAPER)
                found.append(Setting((f"spread {sigma:g} at bounds", str(eta)), fast, sigma >= 1.0 and eta >= 2))
    return {"fast": found}
