"""Which tokens are clipped on old data, by distance of the ratio from 1 and by kind; KL and the bound on divergence."""

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

EXPERIMENTS = ("m2po_steps",)
KINDS = {1.0: "forks", 0.0: "nearly\ncertain bits"}
KL = ("clip", "m2po", "fresh")
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
    look.points(ax, own["at"], own, **SHOWN["forks"])
    ax.set(xlim=(1.6, -0.6), ylim=(0, None), ylabel="tokens clipped", title="kinds of token, forks")
    look.ticks(ax.xaxis, list(KINDS), list(KINDS.values()))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def draw_divergence(ax: Axes, rows: Any) -> None:
    """KL from behavior of the clip and of M2PO."""
    steps.traces(ax, rows, KL, "kl", steps.usual(rows))
    ax.set(xlabel="updates", xlim=(0, None), ylabel="KL from behavior\n(nats a response)", title="divergence, bits")
    for arm, x, y in zip(KL, (0.62, 0.5, 0.98), (0.36, 0.8, 0.12), strict=True):
        steps.label(ax, x, y, arm)


def draw_bound(ax: Axes, rows: Any) -> None:
    """The divergence of M2PO's policy from behavior, under what the second moment allows."""
    rate = steps.usual(rows)
    steps.trace(ax, steps.curve(rows, "m2po", "chi", rate), **steps.LOOKS["m2po"])
    own = steps.curve(rows, "m2po", "bound", rate)
    ax.plot(own["at"], own.value, **_style.PREDICTED)
    ax.set(yscale="log", xlabel="updates", xlim=(0, None), ylabel="divergence χ²", title="bound on it, M2PO")
    for x, y, text, color in ((0.42, 0.7, "bound", look.INK), (0.98, 0.3, "measured", steps.LOOKS["m2po"]["color"])):
        look.say(ax, x, y, text, color, transform=ax.transAxes, ha="right")


def draw(rows: Any) -> Figure:
    """Entropy, kinds, divergence."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.5)
        (entropy, kinds), (kl, divergence) = figure.subplots(2, 2)
        for task, style in SHOWN.items():
            own = tokens(rows, task, "distance")
            look.points(entropy, own["at"], own, **{**look.CONNECTED, **style})
        entropy.axvline(0.2, **_style.REFERENCE)
        entropy.set(xlim=(0, 0.6), ylim=(0, 0.75), xlabel="|ratio − 1|", ylabel="entropy (nats)", title="entropy")
        for y, task, text in ((0.12, "chain", "bits"), (0.04, "forks", "forks")):
            look.say(entropy, 0.98, y, text, SHOWN[task]["color"], transform=entropy.transAxes, ha="right")
        draw_kinds(kinds, rows)
        draw_divergence(kl, rows)
        draw_bound(divergence, rows)
        own = tokens(rows, "forks", "kind").set_index("at").value
        holds = len(own) == len(KINDS) and own[1.0] > 3.0 * own[0.0]
        words = "The clip prunes uncertain tokens where tokens differ in certainty"
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
