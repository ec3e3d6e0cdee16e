"""Which tokens are clipped on old data, by kind; entropies by distance of the ratio from 1 are numbers."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from asyncsim.plotting import _style
from paper_figures import _m2po_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = steps.drawn(task="forks", staleness=256, rate=steps.SLOW, names={"forks": "forks"})
KINDS = {1.0: "uncertain", 0.0: "nearly certain"}
ANY = 1e-4
"""Share of tokens below which the clip masks none: such data cannot show which it masks."""
ALL = 0.25
"""Share of bits about which the first policy of forks is uncertain: every fourth."""
COLOR = look.COLOR["clip"]


def tokens(rows: Any, task: str, over: str) -> Any:
    """Rows of tokens of the clip on old data, at the rate of the task."""
    own = _script.pick(rows, over=over, task=task, arm="clip", staleness=steps.oldest(rows)).dropna(subset="value")
    return own[(own.rate / steps.rate_of(rows, task) - 1.0).abs() < 1e-6].sort_values("at").reset_index(drop=True)


def uncertain(rows: Any) -> dict[str, float]:
    """Of the tokens that the clip masks, the share of uncertain ones, with its interval."""
    own = tokens(rows, "forks", "kind").set_index("at")
    masked, others = own.loc[1.0], own.loc[0.0]
    odds = ALL / (1.0 - ALL) * masked.value / max(others.value, ANY)
    reach = math.hypot(*((each.high - each.low) / 2.0 / max(each.value, ANY) for each in (masked, others)))
    shares = {"low": odds * math.exp(-reach), "value": odds, "high": odds * math.exp(reach)}
    return {name: each / (1.0 + each) for name, each in shares.items()}


def percent(share: float) -> str:
    """A share in whole percent."""
    return f"{100 * share:.0f} %"


def draw(rows: Any) -> Figure:
    """Kinds of all tokens, and of those that are clipped."""
    found = uncertain(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 1.8)
        ax = figure.subplots()
        for place, share in ((1.0, ALL), (0.0, found["value"])):
            ax.barh([place], [share], height=0.5, color=COLOR, alpha=0.5)
            ax.barh([place], [1.0 - share], left=share, height=0.5, color=look.COLOR["muted"], alpha=0.25)
            for kind, middle in ((1.0, share / 2.0), (0.0, (1.0 + share) / 2.0)):
                size = share if kind else 1.0 - share
                # A narrow part has room for its share alone.
                text = f"{KINDS[kind]}: {percent(size)}" if size > 0.2 else percent(size)
                look.say(ax, middle, place, text, ha="center")
        look.points(ax, [0.0], pd.DataFrame([found]), sideways=True, color=COLOR, markersize=0.0)
        ax.set(ylim=(-0.5, 1.5), xlim=(0, 1), xlabel="share of tokens")
        look.ticks(ax.yaxis, [1.0, 0.0], ["all tokens", "masked tokens"])
        ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        _script.headline(figure, found["low"] > 0.5, "Tokens that PPO's clip masks on stale data")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Entropies over distances, clipped shares by kind, largest KL, and how often the bound holds."""
    found = {"slow": f"{steps.SLOW:g}"}
    own = tokens(rows, "forks", "distance").value
    if len(own):
        found |= {"forks_near": f"{own.iloc[0]:.2f}", "forks_far": f"{own.iloc[-1]:.2f}"}
        found["forks_peak"] = f"{own.max():.2f}"
    kinds = tokens(rows, "forks", "kind").set_index("at").value
    if len(kinds):
        found |= {"forks_clipped": steps.percent(kinds[1.0]), "others_clipped": steps.percent(kinds[0.0])}
        found |= {"unsure": percent(uncertain(rows)["value"]), "every": percent(ALL)}
    rate, held, points = steps.usual(rows), 0, 0
    for arm in ("clip", "m2po", "none"):
        chi, most = (steps.curve(rows, arm, name, rate) for name in ("chi", "bound"))
        held, points = held + int((chi.value <= most.value).sum()), points + len(chi)
    for arm in ("clip", "m2po"):
        for key, times, digits in (("usual", 1.0, 2), ("bold", steps.BOLD, 1)):
            found[f"kl_{arm}_{key}"] = f"{steps.curve(rows, arm, 'kl', times * rate).value.max():.{digits}f}"
    found |= {"held": str(held), "points": str(points)}
    keys = [f"forks_{key}" for key in ("near", "peak", "far", "clipped")]
    return steps.complete(found, [*keys, "others_clipped", "unsure", "every"])


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the clip masks mainly uncertain bits, by staleness and rate at which it masks any."""
    found, own = [], _script.pick(rows, over="kind", task="forks", arm="clip").dropna(subset="value")
    for (staleness, rate), both in own[own.staleness > 0].groupby(["staleness", "rate"]):
        sure, unsure = (both[both["at"] == kind].iloc[0] for kind in sorted(KINDS))
        if max(unsure.value, sure.value) < ANY:
            continue
        answer = decided(unsure.low > sure.high, unsure.high < sure.low)
        found.append(Setting((f"forks, staleness {staleness:g} at rates", f"{rate:g}"), answer))
    return {"prunes": found}
