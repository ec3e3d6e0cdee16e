"""Distance of TBA and RLOO to the optimum of their objective over training, on fresh, replayed and frozen data."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim import claims
from asyncsim.plotting import _style
from experiments import tba_optimum
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures._script import pick

TASK = "bandit"
"""The task that is drawn; the entry has both."""
NAMES = {"RLOO": "RLOO, no ratio", "RLOO, ratio": "RLOO with ratios", "TBA": "TBA"}
ARMS = {arm: str(_methods.look(name)["color"]) for arm, name in NAMES.items()}
TITLES = {"replay": "Half of the data replayed", "narrow": "Frozen data that rarely show the best arms"}
EXPERIMENTS = {
    "tba_optimum": {
        "task": "bandit",
        "law": ("replay", "narrow"),
        "quantity": "distance",
        "rate": 0.25,
        "names": {"replay": "half replayed", "narrow": "frozen with rare best arms"},
    }
}
LEAST = 1e-7
"""Distances below are drawn there: rounding."""
THERE = 1e-2
"""Distance in nats, a hundredth of the first one, from which on an arm counts as there."""


def curve(ax: Axes, rows: Any, law: str, arm: str) -> None:
    """Medians with the band of their intervals, and the mean dynamics."""
    own = pick(rows, task=TASK, law=law, arm=arm)
    for quantity, style in (("distance", {"color": ARMS[arm], "linewidth": 2.2}), ("predicted", _style.PREDICTED)):
        part = own[own.quantity == quantity].sort_values("update")
        if not len(part):
            continue
        x, y = part["update"].to_numpy(dtype=float), part.value.clip(lower=LEAST).to_numpy(dtype=float)
        ax.plot(x, y, **style)
        if quantity == "distance":
            low, high = (part[name].clip(lower=LEAST).to_numpy(dtype=float) for name in ("low", "high"))
            ax.fill_between(x, low, high, color=ARMS[arm], alpha=0.2, linewidth=0)


def tuned(ax: Axes, rows: Any, law: str) -> None:
    """Where arms end at their best rates, in a strip right of the axis of updates."""
    ax.axvspan(2150, 2750, color=look.COLOR["muted"], alpha=0.12, linewidth=0)
    look.say(ax, 2450, 1.2e-8, "best rate", look.COLOR["muted"], ha="center")
    for place, arm in enumerate(ARMS):
        look_of = {**_methods.look(NAMES[arm]), **look.HOLLOW, "markersize": 5.0}
        ax.plot([2290 + 160 * place], [max(LEAST, end(rows, TASK, law, arm))], **look_of, linestyle="none", zorder=4)


def last(rows: Any, law: str, arm: str) -> float:
    """Where a drawn line ends."""
    own = pick(rows, task=TASK, law=law, arm=arm, quantity="distance").sort_values("update")
    return max(LEAST, float(own.value.iloc[-1]))


def draw(rows: Any) -> Figure:
    """A panel for each law."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        axes = figure.subplots(1, 2, sharex=True, sharey=True)
        for ax, (law, title) in zip(axes, TITLES.items(), strict=True):
            for arm in ARMS:
                curve(ax, rows, law, arm)
            ax.axhline(LEAST, **_style.REFERENCE)
            ax.set(yscale="log", ylim=(LEAST / 20.0, 10.0), title=title, xticks=(0, 1000, 2000))
            ax.set(xlabel="update", xlim=(-110, 2750))
            tuned(ax, rows, law)
            look.ends(ax, {NAMES[arm]: (last(rows, law, arm), ARMS[arm]) for arm in ARMS}, 0.11)
        look.say(axes[0], 0.0, LEAST / 4.0, "rounding limit", look.COLOR["muted"])
        axes[0].set_ylabel("KL to the optimum (nats)")
        there = all(last(rows, law, "TBA") < THERE for law in ("fresh", "replay", "frozen"))
        all_there = all(last(rows, law, "RLOO, ratio") < THERE for law in ("fresh", "replay", "frozen", "narrow"))
        holds = there and all_there and last(rows, "narrow", "TBA") > THERE
        _script.headline(figure, holds, "Distance from TBA's optimum over updates")
    return figure


def end(rows: Any, task: str, law: str, arm: str) -> float:
    """Least distance at the end over rates."""
    return float(pick(rows, task=task, law=law, arm=arm, quantity="end").value.min())


def boldest(rows: Any, arm: str, law: str = "constant 32") -> str:
    """Largest rate at which an arm still ends at the optimum."""
    own = pick(rows, task=TASK, law=law, arm=arm, quantity="end")
    stable = own[own.value < THERE]
    return f"{stable.rate.max():g}" if len(stable) else "none"


def limit() -> float:
    """Largest stable rate of RLOO near the optimum on data 32 versions old, by theory."""
    point = {"rewards": tba_optimum.ARM_REWARDS, "reference_logits": tba_optimum.ARM_LOGITS[0]}
    stated = claims.claim("staleness/regularizer-placement")
    return float(stated.predict({**point, "kl": tba_optimum.BETA, "placement": "behavior", "staleness": 32})["step"])


def small(value: float) -> str:
    """A distance in nats."""
    return "≤ 0.0001" if value <= 1e-4 else f"{value:.2g}"


def numbers(rows: Any) -> dict[str, str]:
    """Largest distances at the end at the best of all rates, stable rates, and misses of mean dynamics."""
    found = {"old": "32"}
    for name, laws in (("moving", tuple(tba_optimum.LAWS)[:-2]), ("frozen", ("frozen", "narrow"))):
        for arm, key in (("TBA", "tba"), ("RLOO", "rloo"), ("RLOO, ratio", "ratio")):
            ends = [end(rows, task, law, arm) for task in tba_optimum.REFERENCES for law in laws]
            found[f"{key}_{name}"] = small(max(ends))
    found |= {"stable": boldest(rows, "RLOO"), "all": boldest(rows, "TBA"), "limit": f"{limit():.2f}"}
    found["near"] = f"{THERE:g}"
    there = pick(rows, quantity="distance", law="narrow", arm="TBA", rate=tba_optimum.RATE)
    late = there[there["update"] == there["update"].max()].value
    found["narrow"] = f"{late.min():.2f} to {late.max():.1f}"
    shared = ["task", "law", "arm", "update"]
    both = rows[(rows.quantity == "distance") & (rows.rate == tba_optimum.RATE) & rows.arm.isin(["TBA", "RLOO"])]
    both = both.merge(rows[rows.quantity == "predicted"], on=shared, suffixes=("", "_predicted"))
    found["off"] = f"{(both.value - both.value_predicted).abs().max():.2f}"
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether TBA ends at its optimum on off-policy data, and RLOO without ratios misses it on replayed data."""
    found: dict[str, list[Setting]] = {"there": [], "missed": []}
    kinds = {
        "constant 32": "stale",
        "replay": "half replayed",
        "frozen": "frozen",
        "narrow": "frozen with rare best answers",
    }
    for reading, rates in (("one rate", [tba_optimum.RATE]), ("tuned rates", list(tba_optimum.RATES))):
        for law, name in kinds.items():
            for task in tba_optimum.REFERENCES:
                for key, arm in (("there", "TBA"), ("missed", "RLOO")):
                    own = pick(rows, task=task, law=law, arm=arm, quantity="end")
                    own = own[own.rate.isin(rates)]
                    end = own.loc[own.value.idxmin()]
                    there = decided(end.high < THERE, end.low > THERE)
                    if key == "there":
                        found[key].append(Setting((reading, name, task), there))
                    elif law == "replay":
                        missed = None if there is None else not there
                        found[key].append(Setting((reading, name, task), missed))
    return found
