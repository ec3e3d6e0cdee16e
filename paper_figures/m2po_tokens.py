"""Which tokens are clipped on old data, by kind; entropies by distance of the ratio from 1 are numbers."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from asyncsim.plotting import _style
from paper_figures import _m2po_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = steps.drawn(task="forks", staleness=256, rate=steps.SLOW, names={"forks": "forks"})
KINDS = {1.0: "uncertain bits", 0.0: "nearly certain bits"}
ANY = 1e-4
"""Share of tokens below which the clip masks none: such data cannot show which it masks."""
COLOR = look.COLOR["stale"]


def tokens(rows: Any, task: str, over: str) -> Any:
    """Rows of tokens of the clip on old data, at the rate of the task."""
    own = _script.pick(rows, over=over, task=task, arm="clip", staleness=steps.oldest(rows)).dropna(subset="value")
    return own[(own.rate / steps.rate_of(rows, task) - 1.0).abs() < 1e-6].sort_values("at").reset_index(drop=True)


def draw(rows: Any) -> Figure:
    """Share of the tokens of either kind that is clipped."""
    own = tokens(rows, "forks", "kind")
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 1.7)
        ax = figure.subplots()
        ax.barh(own["at"], own.value, height=0.5, color=COLOR, alpha=0.35)
        look.points(ax, own["at"], own, sideways=True, color=COLOR)
        ax.set(ylim=(-0.6, 1.6), xlim=(0, None), xlabel="share of tokens that PPO's clip masks")
        look.ticks(ax.yaxis, list(KINDS), list(KINDS.values()))
        ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        share = own.set_index("at").value
        holds = len(share) == len(KINDS) and share[1.0] > 3.0 * share[0.0]
        for row in own.itertuples():
            look.say(ax, row.high + 0.02 * own.high.max(), row.at, steps.percent(row.value), COLOR)
        _script.headline(figure, holds, "Tokens that PPO's clip masks on stale data")
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
    rate, held, points = steps.usual(rows), 0, 0
    for arm in ("clip", "m2po", "none"):
        chi, most = (steps.curve(rows, arm, name, rate) for name in ("chi", "bound"))
        held, points = held + int((chi.value <= most.value).sum()), points + len(chi)
    for arm in ("clip", "m2po"):
        for key, times, digits in (("usual", 1.0, 2), ("bold", steps.BOLD, 1)):
            found[f"kl_{arm}_{key}"] = f"{steps.curve(rows, arm, 'kl', times * rate).value.max():.{digits}f}"
    found |= {"held": str(held), "points": str(points)}
    keys = [f"forks_{key}" for key in ("near", "peak", "far", "clipped")]
    return steps.complete(found, [*keys, "others_clipped"])


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
