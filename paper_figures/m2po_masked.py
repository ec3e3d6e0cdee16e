"""Share of tokens masked by M2PO and by PPO's clip on stale data, against the learning rate."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from asyncsim.plotting import _style
from paper_figures import _m2po as arms
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"m2po": {"part": "grid", "staleness": 256, **arms.PAID}}
CLIPPED, MASKED = 0.0122, 0.0006
"""Shares of tokens that the paper's abstract has, of the clip and of M2PO."""
LOOKS: dict[str, dict[str, Any]] = {
    **arms.ARMS,
    "release": {"color": look.COLOR["tuned"], "marker": "D", **look.HOLLOW, "markersize": 4.4},
}
"""The released code masks nearly as M2PO does: it is drawn around it."""
LABELS = {"clip": "PPO's clip", "m2po": "M2PO", "release": "M2PO's released code"}
SHOWN = {f"masked {arm}": (arm, LOOKS[arm]) for arm in ("clip", "release", "m2po")}


def draw(rows: Any) -> Figure:
    """A panel a task, on a logarithmic scale, with the published shares."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.2)
        axes = figure.subplots(1, len(arms.TASKS), sharey=True)
        for ax, (task, name) in zip(axes, arms.TASKS.items(), strict=True):
            ax.set(yscale="log", ylim=(1e-4, 1.0), title=name)
            arms.lines(ax, rows, task, SHOWN)
            for level in (CLIPPED, MASKED):
                ax.axhline(level, **_style.REFERENCE)
        few = []
        for task in arms.TASKS:
            m2po, clip = (arms.grid(rows, task, arm, "masked").set_index("rate").value for arm in ("m2po", "clip"))
            ratio = (m2po / clip)[clip > 0.0].dropna()
            few.append(len(ratio) and ratio.iloc[0] < 0.2 and ratio.iloc[-1] > 0.4)
        _script.headline(figure, all(few), "Tokens that M2PO and PPO's clip mask")
        marks = [Line2D([], [], label=LABELS[arm], **{**look.CONNECTED, **LOOKS[arm]}) for arm in LABELS]
        look.below(figure, marks)
        axes[0].set_ylabel("share of tokens masked")
        axes[0].yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g} %"))
        for level, name in ((CLIPPED, "clip"), (MASKED, "M2PO")):
            text = f"paper, {name}: {arms.percent(level)}"
            look.say(axes[2], 0.5, 0.9 * level, text, look.COLOR["muted"], ha="right", va="top")
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
