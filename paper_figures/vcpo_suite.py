"""Thirteen estimators on data 12 versions old, at four times the best synchronous rate; tuned ones are numbers."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from asyncsim.plotting import _style
from experiments import vcpo_steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures import _vcpo_steps as steps
from paper_figures._vcpo_steps import BOLD, USUAL

EXPERIMENTS = steps.drawn("rates", "4 × best synchronous")
RATES = f"{BOLD / USUAL:g}× the best synchronous rate"
RIVAL: dict[str, Any] = {"color": look.COLOR["muted"], "marker": "o"}
LITTLE = 0.02
"""Differences up to this one are drawn to scale, larger ones by their logarithm."""
RELEASE = "VCPO, standardized"


def arms(rows: Any) -> list[str]:
    """Arms of the rows in the order of the experiment."""
    known = set(_script.pick(rows, part="rates", law="constant").arm)
    return [arm for arm in vcpo_steps.ARMS if arm in known]


def called(arm: str) -> str:
    """An arm in a sentence: the level before the method, which is spelled out; truncated IS is that of sequences."""
    words = " ".join(reversed(arm.split(", "))).replace("TIS", "truncated IS").replace("MIS", "masked IS")
    return words.replace("sequence truncated", "truncated")


def rivals(rows: Any) -> list[str]:
    """Those that are no form of VCPO."""
    return [arm for arm in arms(rows) if not arm.startswith("VCPO")]


def places(rows: Any, arm: str) -> list[Any]:
    """Rows of mean return by the three readings."""
    return [*(steps.one(rows, arm, "return", rate) for rate in (USUAL, BOLD)), steps.best(rows, arm)]


def beaten(rows: Any, reading: int) -> tuple[int, int, int]:
    """Rivals of VCPO that return less, as much within intervals, and more."""
    own = places(rows, "VCPO")[reading]
    others = [places(rows, arm)[reading] for arm in rivals(rows)]
    less, more = sum(x.high < own.low for x in others), len(above(rows, reading))
    return less, len(others) - less - more, more


def above(rows: Any, reading: int) -> list[str]:
    """Rivals that return more than VCPO, beyond both intervals."""
    own = places(rows, "VCPO")[reading]
    return [arm for arm in rivals(rows) if places(rows, arm)[reading].low > own.high]


def never(rows: Any) -> list[str]:
    """Arms of which no run falls at the bold rate."""
    return [arm for arm in arms(rows) if steps.one(rows, arm, "fell", BOLD).value == 0]


def beside(rows: Any, arm: str) -> Any:
    """Return at the bold rate less VCPO's, as if both were independent."""
    own, base = places(rows, arm)[1], places(rows, "VCPO")[1]
    value, reach = own.value - base.value, math.hypot(own.high - own.low, base.high - base.low) / 2
    return pd.DataFrame([{"value": value, "low": value - reach, "high": value + reach}])


def draw(rows: Any) -> Figure:
    """Falls left, returns beside VCPO's right."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.4)
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.0, 1.5))
        names = sorted(arms(rows), key=lambda arm: -places(rows, arm)[1].value)
        for place, arm in enumerate(names):
            style = look.VCPO if arm == "VCPO" else RIVAL
            fell = _script.pick(rows, part="rates", law="constant", arm=arm, quantity="fell")
            look.points(left, [place], steps.at(fell, BOLD), sideways=True, **style)
            if arm == "VCPO":
                right.plot(0.0, place, linestyle="none", markersize=4.0, **style)
            else:
                look.points(right, [place], beside(rows, arm), sideways=True, **style)
        right.axvline(0.0, **_style.REFERENCE)
        left.set(xlabel="runs that lose half of their gain", xlim=(-0.03, 1.03))
        left.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        right.set(xlabel=f"mean return over training − VCPO's (logarithmic beyond ±{LITTLE:g})", xlim=(-0.7, 0.03))
        right.set_xscale("symlog", linthresh=LITTLE)
        marks = (-0.5, -0.2, -0.1, -0.05, -LITTLE, 0.0, LITTLE)
        look.ticks(right.xaxis, marks, [f"{mark:g}".replace("-", "−") for mark in marks])
        left.invert_yaxis()
        look.ticks(left.yaxis, range(len(names)), [called(arm) for arm in names])
        left.get_yticklabels()[names.index("VCPO")].set_color(look.VCPO["color"])
        more = [arm for arm in rivals(rows) if beside(rows, arm).low[0] > 0.0]
        words = f"At {RATES}, only GRPO returns measurably more than VCPO"
        title = _script.finding(
            more == above(rows, 1) == ["GRPO"], words, "Falls and returns of estimators on old data"
        )
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Rivals below, beside and above VCPO by reading; falls and returns of some."""
    found = steps.sizes(rows) | {
        "arms": f"{len(arms(rows)) - 2}",
        "never": _script.listed(called(arm) for arm in never(rows)),
    }
    for k, reading in enumerate(("usual", "bold", "own")):
        for word, count in zip(("less", "even", "more"), beaten(rows, k), strict=True):
            found[f"{reading}_{word}"] = f"{count}"
        found[f"vcpo_{reading}"] = f"{places(rows, 'VCPO')[k].value:.3f}"
        found[f"tis_{reading}"] = f"{places(rows, 'TIS, sequence')[k].value:.3f}"
        found[f"ppo_{reading}"] = f"{places(rows, 'PPO')[k].value:.3f}"
    found |= {
        "release_fell": steps.percent(steps.one(rows, RELEASE, "fell", BOLD)),
        "sync": f"{steps.best(rows, 'RLOO', 'fresh').value:.3f}",
    }
    fell = [arm for arm in arms(rows) if steps.one(rows, arm, "fell", BOLD).value > 0.5 and not arm.startswith("VCPO")]
    return found | {
        "fallen": _script.listed(called(arm) for arm in fell) or "none",
        "usual_fell": _script.listed(called(a) for a in rivals(rows) if steps.one(rows, a, "fell", USUAL).value > 0)
        or "none",
    }
