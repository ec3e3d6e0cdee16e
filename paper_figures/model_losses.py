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


BOUND = "predicted minimum: a fresh run that many updates earlier"
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
    return kept(rows)[2] and all(min(each, key=each.__getitem__) == "no correction" for each in ends.values())


def draw(rows: Any) -> Figure:
    """Both rates."""
    every = judged(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        axes = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1.2))
        for ax, rate in zip(axes, (model_losses.USUAL, model_losses.BOLD), strict=True):
            levels = sorted({each[2] for each in every if each[0] == rate})
            for place, (method, color) in enumerate(COLOR.items()):
                own = [each for each in every if each[:2] == (rate, method)]
                at = [levels.index(each[2]) + 0.12 * (place - 2) for each in own]
                look = {**_style.MEASURED, "marker": MARK[method], "color": _style.COLORS[color], "label": method}
                ax.errorbar(at, [each[3] for each in own], yerr=[each[4] for each in own], **look)
                for x, each in zip(at, own, strict=True):
                    low, _ = band(rows, rate, method, each[2])
                    ax.plot([x - 0.05, x + 0.05], [low, low], label=BOUND, **_style.PREDICTED)
            ax.axhline(0.0, **_style.REFERENCE)
            ax.set_xticks(range(len(levels)), [f"{level}" for level in levels])
            ax.set(
                xlim=(-0.5, len(levels) - 0.5),
                xlabel="staleness (versions)",
                title=f"learning rate {rate:.0e}".replace("e-0", "e−"),
            )
        axes[0].set_ylabel("mean return − that on fresh data")
        words = "On the oldest data, training without a correction loses the most return"
        title = _script.finding(_holds(rows), words, "Returns that staleness costs five losses")
        handles, labels = (each[-len(COLOR) :] for each in axes[0].get_legend_handles_labels())
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles, labels, ncols=5, title=title, columnspacing=1.0, handletextpad=0.3, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What the largest staleness costs each loss at either rate, and how many differences the law holds for."""
    every = judged(rows)
    found = {"met": _models.count([each[5] for each in every]), "staleness": f"{max(each[2] for each in every)}"}
    for name, rate in (("usual", model_losses.USUAL), ("bold", model_losses.BOLD)):
        for method in [each for each in COLOR if any(one[:2] == (rate, each) for one in every)]:
            value, reach = lost(rows, rate, method)
            found[f"{method.replace(' ', '_').lower()}_{name}"] = f"{value:+.2f} ± {reach:.2f}".replace("-", "−")
    return found
