"""Which tokens are clipped on old data, by kind and by distance of the ratio from 1."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from asyncsim.plotting import _style
from paper_figures import _m2po_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = steps.drawn(task=("chain", "forks"), staleness=256, rate="best synchronous", names={"forks": "forks"})
KINDS = {1.0: "uncertain bits\n(every fourth)", 0.0: "nearly\ncertain bits"}
NAMES = {"forks": "forks", "chain": "chain of bits"}
SHOWN = {
    "forks": {"color": look.COLOR["tuned"], "marker": "D"},
    "chain": {"color": look.COLOR["controlled"], "marker": "^"},
}


def tokens(rows: Any, task: str, over: str) -> Any:
    """Rows of tokens of the clip on old data, at the rate of the task."""
    own = _script.pick(rows, over=over, task=task, arm="clip", staleness=steps.oldest(rows)).dropna(subset="value")
    return own[(own.rate / steps.rate_of(rows, task) - 1.0).abs() < 1e-6].sort_values("at").reset_index(drop=True)


def draw_kinds(ax: Axes, rows: Any) -> None:
    """Share of the tokens of either kind that is clipped."""
    own = tokens(rows, "forks", "kind")
    ax.bar(own["at"], own.value, width=0.5, color=SHOWN["forks"]["color"], alpha=0.35)
    look.points(ax, own["at"], own, **SHOWN["forks"])
    ax.set(xlim=(1.6, -0.6), ylim=(0, None), ylabel="share of tokens clipped", title="Kinds of token in the task forks")
    look.ticks(ax.xaxis, list(KINDS), list(KINDS.values()))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def draw(rows: Any) -> Figure:
    """Kinds, entropy."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        kinds, entropy = figure.subplots(1, 2, width_ratios=(1.0, 1.4))
        draw_kinds(kinds, rows)
        for task, style in SHOWN.items():
            own = tokens(rows, task, "distance")
            look.points(entropy, own["at"], own, **{**look.CONNECTED, **style})
            if len(own):
                fewer = task == "forks" and own.value.iloc[-1] < 0.5 * own.value.max()
                name = f"{NAMES[task]}: the largest\nratios are of nearly\ncertain bits" if fewer else NAMES[task]
                look.say(entropy, own["at"].iloc[-1] + 0.02, own.value.iloc[-1], name, style["color"])
        entropy.axvline(0.2, **_style.REFERENCE)
        look.say(entropy, 0.19, 0.03, "clip at 0.2", look.COLOR["muted"], ha="right")
        entropy.set(xlim=(0, 0.75), ylim=(0, 0.75), xlabel="|importance ratio − 1|", ylabel="entropy (nats)")
        entropy.set_title("Entropy of tokens by their ratio")
        look.ticks(entropy.xaxis, (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6))
        own = tokens(rows, "forks", "kind").set_index("at").value
        holds = len(own) == len(KINDS) and own[1.0] > 3.0 * own[0.0]
        words = "PPO's clip masks mostly uncertain tokens where tokens differ in certainty"
        figure.suptitle(_script.finding(holds, words, "Tokens that the clip prunes on old data"), x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Entropies over distances, clipped shares by kind, largest KL, and how often the bound holds."""
    found = {"slow": f"{steps.SLOW:g}"}
    for task in SHOWN:
        own = tokens(rows, task, "distance").value
        if len(own):
            found |= {f"{task}_near": f"{own.iloc[0]:.2f}", f"{task}_far": f"{own.iloc[-1]:.2f}"}
            found |= {"forks_peak": f"{own.max():.2f}"} if task == "forks" else {}
    kinds = tokens(rows, "forks", "kind").set_index("at").value
    if len(kinds):
        found |= {"forks_clipped": steps.percent(kinds[1.0]), "others_clipped": steps.percent(kinds[0.0])}
    rate, held, points = steps.usual(rows), 0, 0
    for arm in ("clip", "m2po", "none"):
        chi, most = (steps.curve(rows, arm, name, rate) for name in ("chi", "bound"))
        held, points = held + int((chi.value <= most.value).sum()), points + len(chi)
    for times, key in ((1.0, "usual"), (steps.BOLD, "bold")):
        for arm in ("clip", "m2po"):
            found[f"kl_{arm}_{key}"] = f"{steps.curve(rows, arm, 'kl', times * rate).value.max():.2f}"
    found |= {"held": str(held), "points": str(points)}
    keys = [f"forks_{key}" for key in ("near", "peak", "far", "clipped")]
    return steps.complete(found, [*keys, "chain_near", "chain_far", "others_clipped"])
