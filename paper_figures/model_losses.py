"""Return of the trained language model at equal updates, against staleness, under five losses at two rates."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import model_losses
from paper_figures import _models, _script

EXPERIMENTS = {"model_losses": {"task": "sums (character model)"}}
COLOR = {"no correction": "stale", "TIS": "random", "PPO clip": "partial", "M2PO": "controlled", "GSPO": "tuned"}
MARK = dict(zip(COLOR, "osD^v", strict=True))
FRESH = {
    "no correction": "no correction",
    "PPO clip": "no correction",
    "M2PO": "no correction",
    "TIS": "TIS",
    "GSPO": "TIS",
}
"""On fresh data the losses are two."""


BOUND = "our lower bound: the fresh run, delayed by the staleness"
SAID = {"TIS": "truncated IS", "PPO clip": "PPO's clip"}
KEPT, RUINED = 0.03, 0.1
"""Loss of return that counts as none where a whole interval is above it, and as ruin where one is below it."""


def curves(rows: Any, rate: float, method: str, staleness: int) -> Any:
    """Returns of replicates over updates, `[updates, replicates]`, with the updates as index."""
    own = _script.pick(rows, rate=rate, method=method, staleness=staleness, quantity="return")
    return own.pivot(index="update", columns="seed", values="value").sort_index()


def behind(rows: Any, rate: float, method: str, staleness: int) -> Any:
    """Mean returns over a run less those of the fresh one, a number for each replicate."""
    fresh = curves(rows, rate, FRESH[method], 0).mean(axis=0)
    return (curves(rows, rate, method, staleness).mean(axis=0) - fresh).to_numpy()


def band(rows: Any, rate: float, method: str, staleness: int) -> tuple[float, float]:
    """What is predicted of the mean return less that of the fresh run: at least the fresh run so many updates ago."""
    fresh = curves(rows, rate, FRESH[method], 0).mean(axis=1)
    ago = model_losses.shifted(fresh.index.to_numpy(dtype=float), fresh.to_numpy(), staleness)
    return float(np.minimum(ago, fresh).mean() - fresh.mean()), 0.0


def judged(rows: Any) -> list[tuple[float, str, int, float, float, bool]]:
    """Rate, loss, staleness, mean difference, half of its interval, and whether the band meets it."""
    found = []
    for (rate, method, staleness), _ in rows[rows.staleness > 0].groupby(["rate", "method", "staleness"]):
        value, reach = _script.interval(behind(rows, rate, method, staleness))
        low, high = band(rows, rate, method, staleness)
        found.append((rate, method, int(staleness), value, reach, value + reach >= low and value - reach <= high))
    return found


def lost(rows: Any, rate: float, method: str) -> tuple[float, float]:
    """Difference at the largest staleness, and half of its interval."""
    every = [each for each in judged(rows) if each[:2] == (rate, method)]
    return max(every, key=lambda each: each[2])[3:5]


def kept(rows: Any) -> list[bool]:
    """M2PO keeps the return of fresh data at either rate; training without correction is ruined at the usual one."""
    m2po = [lost(rows, rate, "M2PO") for rate in (model_losses.USUAL, model_losses.BOLD)]
    plain = lost(rows, model_losses.USUAL, "no correction")
    return [*(value - reach > -KEPT for value, reach in m2po), plain[0] + plain[1] < -RUINED]


def _holds(rows: Any) -> bool:
    ends = {}
    for rate in (model_losses.USUAL, model_losses.BOLD):
        ran = {each[1] for each in judged(rows) if each[0] == rate}
        ends[rate] = {method: lost(rows, rate, method)[0] for method in ran}
    most = all(min(each, key=each.__getitem__) == "no correction" for each in ends.values())
    plain = {rate: lost(rows, rate, "no correction") for rate in ends}
    bounds = {rate: band(rows, rate, "no correction", int(rows.staleness.max()))[0] for rate in ends}
    return kept(rows)[2] and most and all(sum(plain[rate]) < bounds[rate] for rate in ends)


def draw(rows: Any) -> Figure:
    """A group of marks for each rate and staleness."""
    every = judged(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        ax, at, ticks = figure.subplots(), 0, {}
        for rate, staleness in sorted({(each[0], each[2]) for each in every}):
            first = at
            for method, color in COLOR.items():
                for *_, value, reach, _ in (each for each in every if each[:3] == (rate, method, staleness)):
                    look = {"marker": MARK[method], "color": _style.COLORS[color], "label": SAID.get(method, method)}
                    ax.errorbar([at], [value], yerr=[reach], **{**_style.MEASURED, **look})
                    low, _ = band(rows, rate, method, staleness)
                    ax.plot([at - 0.4, at + 0.4], [low, low], label=BOUND, **_style.PREDICTED)
                    at += 1
            rate_said = f"{rate:.0e}".replace("e-0", "e−")
            ran = {each[1] for each in every if (each[0], each[2]) == (rate, staleness)}
            left = [SAID.get(method, method) for method in COLOR if method not in ran]
            missing = f"\n(not run: {', '.join(left)})" if left else ""
            ticks[(first + at - 1) / 2] = f"{staleness} versions old,\nlearning rate {rate_said}{missing}"
            at += 1
        ax.axhline(0.0, **_style.REFERENCE)
        ax.text(at - 4, 0.012, "fresh data", color=_style.COLORS["muted"], fontsize=7, ha="center")
        ax.set_xticks(list(ticks), list(ticks.values()))
        ax.set(xlim=(-1.0, at - 1.0), ylabel="mean return minus\nthat on fresh data")
        oldest = f"{max(each[2] for each in every)}"
        first = f"At staleness {oldest}, training without a correction loses the most return"
        words = f"{first}, more than a delay of {oldest} updates explains"
        title = _script.finding(_holds(rows), words, "Returns that staleness costs five losses")
        named = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        marks = [named[name] for method in COLOR if (name := SAID.get(method, method)) in named]
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles=marks, ncols=5, title=title, columnspacing=1.0, handletextpad=0.3, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What the largest staleness costs each loss at either rate, and how many differences the law holds for."""
    every = judged(rows)
    found = {"met": _models.count([each[5] for each in every]), "staleness": f"{max(each[2] for each in every)}"}
    for name, rate in (("usual", model_losses.USUAL), ("bold", model_losses.BOLD)):
        fresh = curves(rows, rate, "no correction", 0).mean(axis=1)
        found |= {"start": f"{fresh.iloc[0]:.2f}", f"end_{name}": f"{fresh.iloc[-1]:.2f}"}
        for method in [each for each in COLOR if any(one[:2] == (rate, each) for one in every)]:
            value, reach = lost(rows, rate, method)
            found[f"{method.replace(' ', '_').lower()}_{name}"] = f"{value:+.2f} ± {reach:.2f}".replace("-", "−")
    return found
