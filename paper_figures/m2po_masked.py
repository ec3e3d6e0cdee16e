"""Share of tokens masked by M2PO and by PPO's clip on stale data, against the learning rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import m2po
from paper_figures import _m2po as arms
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

DRAWN = tuple(sorted((*m2po.RATES, *m2po.BETWEEN))[1:])
"""Rates but for the least, at which no token is masked."""
EXPERIMENTS = {"m2po": {"part": "grid", "staleness": 256, "rate": DRAWN, **arms.PAID}}
CLIPPED, MASKED = 0.0122, 0.0006
"""Shares of tokens that the paper's abstract has, of the clip and of M2PO."""
LOOKS: dict[str, dict[str, Any]] = {
    task: {"color": look.COLOR[color], "marker": marker}
    for task, color, marker in (("forks", "sparse", "D"), ("graded", "graded", "s"), ("bandit", "bandit", "v"))
}
"""Looks of tasks."""


def fewer(rows: Any, task: str) -> Any:
    """Tokens that M2PO masks divided by those that the clip masks, by rate, as if both were independent."""
    m2po, clip = (arms.grid(rows, task, arm, "masked").set_index("rate") for arm in ("m2po", "clip"))
    both = m2po.join(clip[clip.value > 0.0].add_suffix("_clip"), how="inner").dropna(subset="value")
    value = both.value / both.value_clip
    reach = np.hypot(
        (both.high - both.low) / both.value_clip, value * (both.high_clip - both.low_clip) / both.value_clip
    )
    found = pd.DataFrame({"value": value, "low": (value - reach / 2).clip(lower=0.0), "high": value + reach / 2})
    return found.reset_index()


def draw(rows: Any) -> Figure:
    """The quotient against the rate, a line a task, with the published one."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        ax, ends, few = figure.subplots(), {}, []
        for task, name in arms.TASKS.items():
            own = fewer(rows, task)
            look.points(ax, own.rate, own, **{**look.CONNECTED, "markersize": 3.5, **LOOKS[task]})
            ends[name] = (float(own.value.iloc[-1]), LOOKS[task]["color"])
            few.append(own.value.iloc[0] < 0.2 and own.value.iloc[-1] > 0.4)
        ax.set(xscale="log", ylim=(-0.03, None), xlabel="learning rate")
        look.ticks(ax.xaxis, (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2))
        ax.set_ylabel("tokens masked by M2PO /\ntokens masked by PPO's clip")
        for level, name in ((MASKED / CLIPPED, f"paper: {MASKED / CLIPPED:.2f}"), (1.0, "as many as the clip")):
            ax.axhline(level, **_style.REFERENCE)
            ends[name] = (level, look.COLOR["muted"])
        look.ends(ax, ends, 0.085)
        _script.headline(figure, all(few), "Tokens that M2PO and PPO's clip mask")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Shares where the clip masks what it does in the paper, over tasks, and the largest quotient of both."""
    found = {"clipped": arms.percent(CLIPPED), "published": arms.percent(MASKED)}
    masked = [arms.beside(rows, task, CLIPPED, "m2po") for task in arms.TASKS]
    found |= {"least": arms.percent(min(masked)), "worst": arms.percent(max(masked))}
    pairs = [[arms.grid(rows, task, arm, "masked").value for arm in ("m2po", "clip")] for task in arms.TASKS]
    return found | {"most": f"{max((m2po / clip).max() for m2po, clip in pairs):.2f}"}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether M2PO masks at most a tenth of what the clip masks, at every rate at which the clip masks tokens."""
    found = []
    for task in arms.TASKS:
        m2po, clip = (arms.grid(rows, task, arm, "masked").set_index("rate") for arm in ("m2po", "clip"))
        for rate in clip.index[clip.value > 0.0].intersection(m2po.index):
            few, many = m2po.high[rate] <= clip.low[rate] / 10.0, m2po.low[rate] > clip.high[rate] / 10.0
            found.append(Setting((f"{task}, rate", f"{rate:.2g}"), decided(few, many)))
    return {"tenth": found}
