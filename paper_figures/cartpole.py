"""Final return of PPO on CartPole against the learning rate, by staleness and anchor of the clipped ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _methods, _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"cartpole_staleness": {"task": "CartPole"}}
ANCHORS: dict[str, tuple[str, dict[str, Any]]] = {
    "behavior": ("PPO, recorded\nlog-probs", _methods.look("PPO")),
    "none": ("PPO, recomputed\nlog-probs", _methods.look("PPO, recomputed")),
}
"""What the clip is around."""
LARGEST = 500.0
"""Return of an episode that is never lost."""


def ends(rows: Any, correction: str, level: int) -> Any:
    """Final return at every rate, in order: mean with its interval, cut at the largest return."""
    own = rows[(rows.staleness == level) & (rows.correction == correction)]
    rates = np.sort(own.rate.unique())
    found = [(rate, *_script.interval(own[own.rate == rate].final_return.to_numpy())) for rate in rates]
    cut = [(rate, mean, max(0.0, mean - half), min(LARGEST, mean + half)) for rate, mean, half in found]
    return pd.DataFrame(cut, columns=["rate", "value", "low", "high"])


def draw_best(ax: Axes, rows: Any) -> None:
    """Final return at the best rate against staleness, a line for each anchor."""
    levels = sorted(rows.staleness.unique())
    for correction, (_, style) in ANCHORS.items():
        own = pd.concat([ends(rows, correction, level).nlargest(1, "value") for level in levels])
        look.points(ax, range(len(levels)), own, **look.CONNECTED, **style)
        edge = [rate in (rows.rate.min(), rows.rate.max()) for rate in own.rate]
        look.points(ax, np.flatnonzero(edge), own[edge], **style, **look.HOLLOW)
    ax.set(xlabel="staleness (versions)", ylabel="final episode return", title="With the learning rate tuned")
    look.say(ax, -0.1, 0.07 * LARGEST, "hollow: edge of the\nlearning-rate grid", look.COLOR["muted"])
    look.ticks(ax.xaxis, range(len(levels)), levels)


def draw_rates(ax: Axes, rows: Any) -> None:
    """Final return at staleness 8 against the learning rate, a line for each anchor."""
    last, names = min(8, rows.staleness.max()), {}
    for correction, (name, style) in ANCHORS.items():
        own = ends(rows, correction, last)
        look.points(ax, own.rate, own, **look.CONNECTED, **style)
        names[name] = (own.value.iloc[-1], style["color"])
    ax.set(xscale="log", xlabel="learning rate (× 0.001)", title=f"At staleness {last}, by learning rate")
    look.ticks(ax.xaxis, own.rate, [f"{1e3 * rate:.3g}" for rate in own.rate])
    look.ends(ax, names, 0.3)


def holds(rows: Any) -> bool:
    """Whether at a staleness of 8 the best return is higher around recorded log-probs, beyond both intervals."""
    if 8 not in set(rows.staleness):
        return False
    recorded, recomputed = (ends(rows, anchor, 8).nlargest(1, "value").iloc[0] for anchor in ANCHORS)
    return bool(recorded.low > recomputed.high)


def draw(rows: Any) -> Figure:
    """Best rates by staleness on the left, all rates at staleness 8 on the right."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        left, right = figure.subplots(1, 2, sharey=True)
        left.set(ylim=(0, 1.1 * LARGEST))
        draw_best(left, rows)
        draw_rates(right, rows)
        for ax in (left, right):
            ax.axhline(LARGEST, **_style.REFERENCE)
        look.say(left, 1.5, 1.01 * LARGEST, "maximum", look.COLOR["muted"], va="bottom", ha="center")
        _script.headline(figure, holds(rows), "Final return of PPO by staleness")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Best final returns by staleness and anchor, with which of them lie at an edge of the grid of learning rates."""
    final = rows.groupby(["correction", "staleness", "rate"]).final_return.mean().unstack()
    ends = (final.columns[0], final.columns[-1])
    found = {
        "rates": f"{len(final.columns)}",
        "least": f"{ends[0]:g}",
        "most": f"{ends[1]:g}",
        "seeds": f"{rows.seed.nunique()}",
    }
    lines = ["| staleness | recomputed | recorded |", "|---|---|---|"]
    for level in sorted(rows.staleness.unique()):
        cells = [str(level)]
        for anchor in ("none", "behavior"):
            own = final.loc[anchor, level]
            # A tie is no edge where a rate inside does as well.
            rate = max(own.index, key=lambda rate, own=own: (round(own[rate]), rate not in ends))  # type: ignore[misc]
            seeds = _script.pick(rows, correction=anchor, staleness=level, rate=rate).final_return
            half = _script.interval(seeds.to_numpy())[1]
            cells.append(f"{own.max():.0f} ± {half:.0f}" + " (edge)" * (rate in ends))
            found |= {f"{anchor}_late": f"{own.max():.0f}"} if level <= 8 else {}
            found["recomputed" if anchor == "none" else "recorded"] = cells[-1]
        lines.append(f"| {' | '.join(cells)} |")
    return {**found, "table": "\n".join(lines)}
