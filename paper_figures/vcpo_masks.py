"""What masks remove over updates, M2PO's trusted share under two laws of staleness, and the cap of truncated ratios."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments.vcpo_steps import LAG
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures import _vcpo_steps as steps
from paper_figures._vcpo_steps import BOLD, USUAL

EXPERIMENTS = ("vcpo_steps",)
MASKS = {"MIS, geometric": look.COLOR["stale"], "PPO": look.COLOR["partial"], "M2PO": look.COLOR["controlled"]}
LAWS = {"constant": look.COLOR["controlled"], "mixed": look.COLOR["tuned"]}
LEVELS: dict[str, dict[str, Any]] = {
    "sequence": look.TRUNCATED,
    "token": {"color": look.COLOR["partial"], "marker": "D"},
}
SHOWN = 8.0
"""The cap of the paper."""
WARM = 24
"""Updates from which shares are averaged: by then all data are as old as they get."""


def removed(rows: Any, arm: str, law: str = "constant", rate: float = BOLD) -> Any:
    """Share of an arm's tokens that are removed, over updates."""
    return steps.curve(rows, {"law": law, "arm": arm}, "removed", rate)


def share(rows: Any, arm: str, law: str = "constant", rate: float = BOLD, since: int = WARM) -> float:
    """Its mean from so many updates on."""
    own = removed(rows, arm, law, rate)
    return float(own.value[own["update"] >= since].astype(float).mean())


def caps(rows: Any, level: str, quantity: str, rate: float) -> Any:
    """Rows over caps; no cap stands last."""
    own = steps.at(_script.pick(rows, part="cap", level=level, quantity=quantity), rate)
    return own.assign(place=own.cap.astype(float).where(own.cap.astype(float) > 0, 256.0)).sort_values("place")


def draw_caps(ax: Axes, rows: Any, quantity: str) -> None:
    """A quantity over caps, of both levels, at the bold rate."""
    for shift, (level, looks) in zip((0.96, 1.04), LEVELS.items(), strict=True):
        own = caps(rows, level, quantity, BOLD)
        look.points(ax, own.place * shift, own, **look.CONNECTED, **{**looks, "markersize": 3.5})
        ax.plot([], [], label=f"{level} ratios", **look.CONNECTED, **{**looks, "markersize": 3.5})
    ax.set_xscale("log", base=2)
    places = sorted(caps(rows, "sequence", quantity, BOLD).place)
    look.ticks(ax.xaxis, places, [f"{x:g}" if x < 256 else "none" for x in places])
    ax.set_xlabel("cap of ratios")


def everything(rows: Any) -> bool:
    """Whether the geometric band removes nine tenths of the tokens of old data, and the others less than a third."""
    found = {arm: share(rows, arm) for arm in MASKS}
    return found.pop("MIS, geometric") > 0.9 and max(found.values()) < 0.33


def draw(rows: Any) -> Figure:
    """Shares above, caps below."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.4)
        axes = figure.subplots(2, 2)
        for arm, color in MASKS.items():
            steps.line(axes[0, 0], removed(rows, arm), color=color)
            axes[0, 0].plot([], [], color=color, label=arm)
        axes[0, 0].set(xlabel="update", ylabel="tokens removed", ylim=(-0.02, 1.02))
        for law, color in LAWS.items():
            own = removed(rows, "M2PO", law)
            trusted = own.assign(value=1 - own.value, low=1 - own.high, high=1 - own.low)
            steps.line(axes[0, 1], trusted, color=color)
            axes[0, 1].plot([], [], color=color, label={"constant": f"{LAG} old", "mixed": f"0 to {2 * LAG} old"}[law])
        axes[0, 1].set(xlabel="update", ylabel="tokens that M2PO trusts")
        draw_caps(axes[1, 0], rows, "end")
        draw_caps(axes[1, 1], rows, "when")
        axes[1, 0].set_ylabel("return at the end")
        axes[1, 1].set(ylabel="update of the fall (median)", ylim=(0, None))
        for ax in axes.flat:
            ax.legend(loc="best", fontsize=7)
        words = "A geometric mask removes nearly every token; no cap keeps sequence ratios from falling"
        figure.suptitle(
            _script.finding(everything(rows) and falls(rows), words, "Masks and caps on old data"),
            x=0.01,
            ha="left",
            fontsize=8.5,
        )
    return figure


def falls(rows: Any) -> bool:
    """Whether half of the runs with sequence ratios fall, or end below half of the best return, at every cap."""
    fell, end = caps(rows, "sequence", "fell", BOLD).value, caps(rows, "sequence", "end", BOLD).value
    return bool(((fell.to_numpy() > 0.5) | (end.to_numpy() < 0.43)).all())


def numbers(rows: Any) -> dict[str, str]:
    """Shares removed and trusted; the best caps by return and by survival."""
    found = steps.sizes(rows) | {"lag": f"{LAG}", "oldest": f"{2 * LAG}", "cap": f"{SHOWN:g}"}
    for short, arm in (("geometric", "MIS, geometric"), ("ppo", "PPO"), ("m2po", "M2PO")):
        found[f"{short}_removed"] = f"{100 * share(rows, arm):.0f} %"
    found["geometric_usual"] = f"{100 * share(rows, 'MIS, geometric', rate=USUAL):.0f} %"
    found["geometric_return"] = f"{steps.one(rows, 'MIS, geometric', 'return', BOLD).value:.2f}"
    for law in LAWS:
        found[f"trusted_{law}"] = f"{100 * (1 - share(rows, 'M2PO', law, since=0)):.1f} %"
        own = removed(rows, "M2PO", law)
        found[f"least_{law}"] = f"{100 * (1 - own.value.astype(float).max()):.0f} %"
    for level in LEVELS:
        when, end = (caps(rows, level, quantity, BOLD) for quantity in ("when", "end"))
        longest = when.loc[when.value.astype(float).idxmax()]
        found[f"{level}_longest"] = "none" if longest.cap == 0 else f"{longest.cap:g}"
        found[f"{level}_when"] = f"{longest.value:.0f} ({longest.low:.0f} to {longest.high:.0f})"
        top = end.loc[end.value.astype(float).idxmax()]
        found[f"{level}_end"] = f"{top.value:.2f}"
        eight = end[end.cap == SHOWN].iloc[0]
        found[f"{level}_eight"] = f"{eight.value:.2f}"
    return found | {"eight_when": f"{caps(rows, 'sequence', 'when', BOLD).set_index('cap').value[SHOWN]:.0f}"}
