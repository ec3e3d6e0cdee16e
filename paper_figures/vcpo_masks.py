"""Tokens that masks remove over updates."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments.vcpo_steps import LAG
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures import _vcpo_steps as steps
from paper_figures._claim import Setting, decided
from paper_figures._vcpo_steps import BOLD, USUAL

EXPERIMENTS = steps.drawn("curve", "4 × best synchronous", f"{LAG}")
MASKS = {
    "MIS, geometric": ("geometric-mean\nmask", str(_methods.look("geometric masked IS")["color"])),
    "PPO": ("PPO's clip", str(_methods.look("PPO")["color"])),
    "M2PO": ("M2PO's mask", str(_methods.look("M2PO")["color"])),
}
"""Name and color by arm."""
LAWS = ("constant", "mixed")
LEVELS = ("sequence", "token")
SHOWN = 8.0
"""The cap of the paper."""
SETTLED, FEW = 50, 0.05
"""Update from which on the other masks remove at most this share."""
ALL = 0.99
"""Share of tokens that is all of them."""
WARM = 24
"""Updates from which shares are averaged: by then all data are as old as they get."""


def removed(rows: Any, arm: str, law: str = "constant") -> Any:
    """Share of an arm's tokens that are removed, over updates."""
    return steps.curve(rows, {"law": law, "arm": arm}, "removed", BOLD)


def share(rows: Any, arm: str, law: str = "constant") -> float:
    """Its mean from update `WARM` on."""
    own = removed(rows, arm, law)
    return float(own.value[own["update"] >= WARM].astype(float).mean())


def caps(rows: Any, level: str, quantity: str, rate: float) -> Any:
    """Rows over caps; no cap stands last."""
    own = steps.at(_script.pick(rows, part="cap", level=level, quantity=quantity), rate)
    return own.assign(place=own.cap.astype(float).where(own.cap.astype(float) > 0, 256.0)).sort_values("place")


def everything(rows: Any) -> bool:
    """Whether the geometric band removes nine tenths of the tokens of old data, and the others few of them later."""
    return share(rows, "MIS, geometric") > 0.9 and late(rows) < FEW


def late(rows: Any) -> float:
    """The largest share that PPO or M2PO removes at an update from `SETTLED` on."""
    others = [removed(rows, arm) for arm in MASKS if arm != "MIS, geometric"]
    return max(own.value[own["update"] >= SETTLED].astype(float).max() for own in others)


def draw(rows: Any) -> Figure:
    """Shares over updates."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        ax, names = figure.subplots(), {}
        for arm, (name, color) in MASKS.items():
            own = removed(rows, arm)
            if len(own):
                steps.line(ax, own.assign(high=own.high.astype(float).clip(upper=1.0)), color=color)
                names[name] = (float(own.value.iloc[-1]), color)
        ax.set(xlabel="update", ylabel="share of tokens removed")
        ax.set_xlim(0, None)
        look.shares(ax)
        look.ends(ax, names, gap=0.075)
        _script.headline(figure, everything(rows), "Tokens that masks remove on stale data")
    return figure


def last(rows: Any) -> float:
    """Updates of training, which count as the update of the fall where a run has not fallen; rows count from 0."""
    return float(rows["update"].max()) + 1.0


def numbers(rows: Any) -> dict[str, str]:
    """Shares removed and trusted; returns at the paper's cap, and the falls there and at the best cap."""
    found = steps.sizes(rows) | {"lag": f"{LAG}", "cap": f"{SHOWN:g}", "warm": f"{WARM}"}
    for short, arm in (("geometric", "MIS, geometric"), ("ppo", "PPO"), ("m2po", "M2PO")):
        found[f"{short}_removed"] = f"{100 * share(rows, arm):.0f} %"
    for short, arm in (("geometric", "MIS, geometric"), ("vcpo", "VCPO")):
        found[f"{short}_bold"] = f"{steps.one(rows, arm, 'end', BOLD).value:.2f}"
    few = late(rows)
    found |= {"settled": f"{SETTLED}", "few": "no value" if math.isnan(few) else f"{math.ceil(100 * few)} %"}
    for law in LAWS:
        found[f"trusted_{law}"] = f"{100 * (1 - share(rows, 'M2PO', law)):.1f} %"
    for level in LEVELS:
        found[f"{level}_eight"] = f"{caps(rows, level, 'end', BOLD).set_index('cap').value[SHOWN]:.2f}"
    when = caps(rows, "sequence", "when", BOLD)
    longest = when.loc[when.value.astype(float).idxmax()]
    ends = [f"{'> ' if x >= last(rows) else ''}{x:.0f}" for x in (longest.value, longest.low, longest.high)]
    return found | {
        "sequence_longest": "none" if longest.cap == 0 else f"{longest.cap:g}",
        "sequence_latest": ends[0],
        "sequence_when": f"{ends[0]} ({ends[1]} to {ends[2]})",
        "eight_when": f"{when.set_index('cap').value[SHOWN]:.0f}",
    }


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the geometric mask removes all tokens, by rate and distribution of staleness."""
    found = []
    for rate, where in ((USUAL, "best synchronous rate"), (BOLD, "4× rate")):
        for law in LAWS:
            own = steps.curve(rows, {"law": law, "arm": "MIS, geometric"}, "removed", rate)
            low, high = (own[end][own["update"] >= WARM].astype(float).mean() for end in ("low", "high"))
            found.append(Setting((where, f"{law} staleness"), decided(low >= ALL, high < ALL)))
    return {"every": found}
