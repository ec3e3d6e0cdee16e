"""Return and divergence over updates at one 4× rate, data 12 versions old; effective sample sizes are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures import _vcpo_steps as steps
from paper_figures._claim import Setting, decided
from paper_figures._vcpo_steps import BOLD, FOLLOWED, USUAL

EXPERIMENTS = steps.drawn("curve", "4 × best synchronous", "0, 12")
PANELS = {
    "return": ("Return", "return of the trained policy"),
    "kl_start": ("Divergence", "KL from the initial policy (nats)"),
}
NAMES = {"RLOO": "RLOO, no ratio"}


def holds(rows: Any) -> bool:
    """Whether, at the 4× rate, truncated IS loses most of its return and ends furthest away, and VCPO does neither."""
    end = {name: steps.one(rows, place["arm"], "end", BOLD, place["law"]) for name, (place, _) in FOLLOWED.items()}
    far = {name: steps.lag_ends(rows, name, "kl_start") for name in FOLLOWED}
    lost = end["truncated IS"].high < end["synchronous"].value / 2 and end["VCPO"].low > 0.95 * end["synchronous"].value
    return (
        bool(lost)
        and max(far, key=lambda name: far[name]) == "truncated IS"
        and min(far, key=lambda name: far[name]) == "VCPO"
    )


def draw(rows: Any) -> Figure:
    """One panel for each quantity."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        axes = figure.subplots(1, len(PANELS))
        for ax, (quantity, (title, label)) in zip(axes, PANELS.items(), strict=True):
            for place, looks in FOLLOWED.values():
                steps.line(ax, steps.curve(rows, place, quantity, BOLD), **looks)
            ax.set(title=title, xlabel="update", ylabel=label)
            ends = {
                NAMES.get(name, name): (steps.lag_ends(rows, name, quantity), looks["color"])
                for name, (_, looks) in FOLLOWED.items()
            }
            look.ends(ax, ends, 0.08)
        axes[-1].set_yticks([0, 5, 10, 15])
        _script.headline(figure, holds(rows), "Training on data 12 versions old, over updates")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """At the 4× rate: falls, return and divergence in the end, ESS while learning."""
    found = steps.sizes(rows)
    for name, short in (("synchronous", "sync"), ("RLOO", "rloo"), ("truncated IS", "tis"), ("VCPO", "vcpo")):
        place = FOLLOWED[name][0]
        found[f"{short}_fell"] = steps.percent(steps.one(rows, place["arm"], "fell", BOLD, place["law"]))
        end = steps.one(rows, place["arm"], "end", BOLD, place["law"])
        found[f"{short}_end"] = f"{end.value:.2f}"
        found[f"{short}_kl"] = f"{steps.lag_ends(rows, name, 'kl_start'):.1f}"
        ess = steps.curve(rows, place, "ess", BOLD)
        found[f"{short}_ess"] = f"{np.mean(ess.value.astype(float)[ess['update'] > 0]):.2f}"
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether most runs of truncated IS fall and end below half of the synchronous return, by staleness and rate."""
    found = []
    for law in ("constant", "mixed"):
        for rate, name in ((USUAL, "best synchronous rate"), (BOLD, "4× rate")):
            fell, end = (steps.one(rows, "TIS, sequence", quantity, rate, law) for quantity in ("fell", "end"))
            half = steps.one(rows, "RLOO", "end", rate, "fresh").value / 2
            answer = decided(fell.low > 0.5 and end.high < half, fell.high < 0.5 or end.low > half)
            found.append(Setting((f"{law} staleness", name), answer))
    return {"truncated": found}
