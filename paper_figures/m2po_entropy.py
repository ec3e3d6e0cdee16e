"""Entropy at tokens that the clip and M2PO mask on stale data, beside that of all tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import m2po
from paper_figures import _m2po as arms
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

RATE = 0.1
"""Largest learning rate whose entropies are quoted; at bolder ones policies end deterministic."""
DRAWN = tuple(sorted(rate for rate in (*m2po.RATES, *m2po.BETWEEN) if rate <= RATE)[1:])
"""Rates but for the least, at which no token is masked."""
EXPERIMENTS = {"m2po": {"part": "grid", "task": "forks", "staleness": 256, "rate": DRAWN, **arms.PAID}}
SHOWN = ("clip", "m2po")
TASK = "forks"
"""The task that is drawn; of the others, whose tokens are alike at first, numbers are told."""
SAID = {"clip": "masked by PPO's clip", "m2po": "masked by M2PO"}


def ratios(rows: Any, task: str, arm: str) -> Any:
    """Entropy at masked tokens over that at all tokens of the same runs, by rate; missing ones left out."""
    masked, every = (arms.grid(rows, task, arm, key) for key in ("entropy_masked", "entropy"))
    both = masked.merge(every, on="rate", suffixes=("", "_all")).dropna(subset=["value", "value_all"])
    # The spread of the mean over all tokens is small beside that of the few that are masked.
    return both.assign(**{name: both[name] / both.value_all for name in ("value", "low", "high")})


def draw(rows: Any) -> Figure:
    """Both methods on one task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        ax, ends, twice = figure.subplots(), {}, True
        for arm in SHOWN:
            own = ratios(rows, TASK, arm)
            own = own[own.rate <= RATE]
            look.points(ax, own.rate, own, **{**look.CONNECTED, **arms.ARMS[arm]})
            ends[SAID[arm]] = (float(own.value.iloc[-1]), arms.ARMS[arm]["color"])
            twice = twice and bool((own.value >= 2.0).all())
        ax.axhline(1.0, **_style.REFERENCE)
        ax.set(xscale="log", xlabel="learning rate", ylabel="entropy of masked tokens\n/ entropy of all tokens")
        ax.set(xlim=(None, 1.1 * RATE), ylim=(0.0, 1.05 * ax.get_ylim()[1]))
        look.ticks(ax.xaxis, (0.002, 0.005, 0.01, 0.02, 0.05, 0.1))
        look.ends(ax, {**ends, "average token": (1.0, look.COLOR["muted"])})
        _script.headline(figure, twice, "Entropy of masked tokens, divided by that of all tokens")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Entropy of masked tokens over that of all, least and largest over rates."""
    found = {"rate": f"{RATE:g}"}
    for task in arms.TASKS:
        for arm in SHOWN:
            own = ratios(rows, task, arm)
            values = own.value[own.rate <= RATE].to_numpy(dtype=float)
            found[f"{task}_{arm}"] = f"{np.min(values):.2f} to {np.max(values):.2f}"
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether tokens that M2PO masks have more entropy than all tokens, by task and rate."""
    found = []
    for task in arms.TASKS:
        own = ratios(rows, task, "m2po")
        for row in own[own.rate <= RATE].itertuples():
            place = (f"{task}, rate", f"{row.rate:.2g}")
            found.append(Setting(place, decided(row.low > 1.0, row.high < 1.0), task == "forks"))
    return {"uncertain": found}
