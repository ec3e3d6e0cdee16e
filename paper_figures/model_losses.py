"""Return of the trained language model at equal updates, against staleness, under five losses at two rates."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import model_losses
from paper_figures import _methods, _models, _script

EXPERIMENTS = {"model_losses": {"task": "sums (character model)", "staleness": (0, 64)}}
LOSSES = {name: name for name in ("no correction", "TIS", "PPO clip", "M2PO", "GSPO")}
LOSSES |= {"TIS": "truncated IS", "PPO clip": "PPO's clip"}
"""Losses of the rows with their names."""
FRESH = {
    "no correction": "no correction",
    "PPO clip": "no correction",
    "M2PO": "no correction",
    "TIS": "TIS",
    "GSPO": "TIS",
}
"""On fresh data the losses are two."""


BOUND = "fresh data, {} updates later"
MUTED = {"color": _style.COLORS["muted"], "fontsize": 7}
RATES = {model_losses.USUAL: "best synchronous rate", model_losses.BOLD: "4× rate"}
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


def draw_rate(ax: Axes, rows: Any, rate: float) -> None:
    """A mark for each loss at the largest staleness and one rate, with its bound."""
    oldest = max(each[2] for each in judged(rows))
    found = {each[1]: each for each in judged(rows) if each[0] == rate and each[2] == oldest}
    shown = [method for method in LOSSES if method in found]
    for place, method in enumerate(shown):
        *_, value, reach, _ = found[method]
        style = _methods.look(LOSSES[method])
        ax.errorbar([place], [value], yerr=[reach], **{**_style.MEASURED, **style})
        low, _ = band(rows, rate, method, oldest)
        ax.plot([place - 0.35, place + 0.35], [low, low], label=BOUND.format(oldest), **_style.PREDICTED)
    missing = [name for method, name in LOSSES.items() if method not in found]
    if missing:
        ax.text(0.97, 0.06, f"{len(missing)} losses\nnot run", transform=ax.transAxes, ha="right", **MUTED)
    ax.axhline(0.0, **_style.REFERENCE)
    ax.set_xticks(range(len(shown)), [LOSSES[method].replace(" ", "\n") for method in shown])
    ax.set(xlim=(-0.6, len(shown) - 0.4), title=f"Learning rate {rate:.5f}".rstrip("0") + f" ({RATES[rate]})")


def draw(rows: Any) -> Figure:
    """A panel for each rate."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        axes = figure.subplots(1, 2, sharey=True, width_ratios=(5, 3))
        for ax, rate in zip(axes, RATES, strict=True):
            draw_rate(ax, rows, rate)
        axes[0].set_ylabel("mean return minus\nthat on fresh data")
        axes[0].text(-0.5, 0.012, "fresh data", **MUTED)
        axes[0].text(0.65, -0.085, BOUND.format(f"{rows.staleness.max():g}"), **MUTED)
        _script.headline(figure, _holds(rows), "Returns that staleness costs five losses")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What the largest staleness costs each loss at either rate, and how many differences the law holds for."""
    every = judged(rows)
    found = {"met": _models.count([each[5] for each in every]), "staleness": f"{max(each[2] for each in every)}"}
    rates, name = {"usual": model_losses.USUAL, "bold": model_losses.BOLD}, "no correction"
    times = [lost(rows, rate, name)[0] / band(rows, rate, name, every[-1][2])[0] for rate in rates.values()]
    found |= {"least": f"{min(times):.1f}", "most": f"{max(times):.1f}"}
    for name, rate in rates.items():
        fresh = curves(rows, rate, "no correction", 0).mean(axis=1)
        found |= {"start": f"{fresh.iloc[0]:.2f}", f"end_{name}": f"{fresh.iloc[-1]:.2f}"}
        for method in [each for each in LOSSES if any(one[:2] == (rate, each) for one in every)]:
            value, reach = lost(rows, rate, method)
            found[f"{method.replace(' ', '_').lower()}_{name}"] = f"{value:+.2f} ± {reach:.2f}".replace("-", "−")
    return found
