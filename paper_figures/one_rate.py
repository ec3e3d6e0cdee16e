"""Falls and returns of every method at every learning rate: one rate for all, and each at its best, on equal runs."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import one_rate
from paper_figures import _script
from paper_figures import _vcpo as look

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = {"one_rate": {"task": ("chain", "kinds")}}
SHOWN: dict[str, dict[str, Any]] = {
    "RLOO": {"color": look.COLOR["muted"], "marker": "o"},
    "TIS, sequence": {"color": look.COLOR["stale"], "marker": "s"},
    "PPO": {"color": look.COLOR["partial"], "marker": "D"},
    "GAC": {"color": look.COLOR["tuned"], "marker": "v"},
    "VCPO": {"color": look.COLOR["controlled"], "marker": "^"},
}
"""Methods that are followed over rates."""
TASKS = ("chain", "graded", "kinds")
DRAWN = {"chain": "chain of bits", "kinds": "tokens of 8 kinds"}
"""Tasks on which runs fall."""
AS_GOOD = 0.005
"""Difference of returns that decides nothing, as in `sim.compare` at a smallest effect of 0.02."""
BOLD = 4.0
"""The bold rate, in best synchronous ones."""


def key_of(arm: str) -> str:
    """What an arm is called among numbers: `TIS, token` is `tis_token`."""
    return arm.replace(", ", "_").replace(" ", "_").replace("-", "_").lower()


def stale(rows: Any, task: str) -> Any:
    """Rows of a task on old data."""
    return rows[(rows.task == task) & (rows.law != "fresh")]


def usual(rows: Any, task: str) -> float:
    """The best synchronous rate: the least at which RLOO on fresh data returns as much as at any, within `AS_GOOD`."""
    own = _script.pick(rows, task=task, law="fresh", arm="RLOO", quantity="return")
    return float(own[own.value >= own.value.max() - AS_GOOD].rate.min())


def at(rows: Any, task: str, arm: str, quantity: str, rate: float) -> Any:
    """The row of a method on old data at the rate that is nearest."""
    own = _script.pick(stale(rows, task), arm=arm, quantity=quantity)
    return own.loc[(own.rate / rate - 1.0).abs().idxmin()]


def best(rows: Any, task: str, arm: str, law: str | None = None) -> Any:
    """The row of the rate at which a method's mean return is largest."""
    own = stale(rows, task) if law is None else _script.pick(rows, task=task, law=law)
    own = _script.pick(own, arm=arm, quantity="return")
    return own.loc[own.value.idxmax()]


def draw_one(ax: Axes, rows: Any, task: str, quantity: str) -> None:
    """One quantity of the methods that are followed, against the rate, with both rates of the papers' reading."""
    for place, (arm, style) in enumerate(SHOWN.items()):
        own = _script.pick(stale(rows, task), arm=arm, quantity=quantity).sort_values("rate")
        look.points(ax, own.rate * 1.02 ** (place - 2), own, **look.CONNECTED, **{"markersize": 3.5, **style})
    for times in (1.0, BOLD):
        ax.axvline(times * usual(rows, task), **_style.REFERENCE)
    ax.set_xscale("log", base=2)
    look.ticks(ax.xaxis, sorted(rows.rate.unique())[::2])


def never(rows: Any, arm: str, times: float) -> bool:
    """Whether no run of a method falls at so many best synchronous rates, anywhere."""
    return all(at(rows, task, arm, "fell", times * usual(rows, task)).value == 0 for task in TASKS)


def ahead(rows: Any, arm: str, other: str) -> list[str]:
    """Tasks on which a method at its best rate returns more than another at its own, beyond both intervals."""
    return [task for task in TASKS if best(rows, task, arm).low > best(rows, task, other).high]


def draw(rows: Any) -> Figure:
    """Shares of falls above, returns below, for both tasks on which anything falls."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.7)
        axes = figure.subplots(2, len(DRAWN), sharex=True, sharey="row")
        for column, (task, name) in enumerate(DRAWN.items()):
            draw_one(axes[0, column], rows, task, "fell")
            draw_one(axes[1, column], rows, task, "return")
            fresh = best(rows, task, "RLOO", "fresh").value
            axes[1, column].axhline(fresh, **_style.REFERENCE)
            for ax, what in zip(axes[:, column], ("Falls", "Return"), strict=True):
                ax.set_title(f"{what} on {name}, staleness {stale(rows, task).law.iloc[0].split()[1]}")
            axes[1, column].set_xlabel("learning rate")
        look.shares(axes[0, 0])
        axes[0, 0].set_ylabel("runs that lose\nhalf of their gain")
        axes[1, 0].set(ylabel="mean return over training\n(horizontal: fresh data)", ylim=(0, 1.05))
        handles = [
            Line2D([], [], label=arm.replace("TIS, sequence", "truncated IS"), **look.CONNECTED, **style)
            for arm, style in SHOWN.items()
        ]
        handles += [Line2D([], [], label="vertical: best synchronous rate, and 4 × it", **_style.REFERENCE)]
        words = "At four times the best synchronous rate, no run of VCPO falls"
        holds = never(rows, "VCPO", 1.0) and never(rows, "VCPO", BOLD)
        title = _script.finding(holds, words, "Falls and returns against the learning rate")
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles=handles, ncols=len(handles), title=title, **more)
    return figure


def pooled(rows: Any, arm: str, times: float) -> str:
    """Share of runs that fall at so many best synchronous rates, over all tasks."""
    found = [at(rows, task, arm, "fell", times * usual(rows, task)).value for task in TASKS]
    return f"{100 * sum(found) / len(found):.0f} %"


def numbers(rows: Any) -> dict[str, str]:
    """Of each method: falls at the best synchronous rate and at the bold one, its return there and at its own best."""
    oldest = max(int(stale(rows, task).law.iloc[0].split()[1]) for task in TASKS)
    found = {"places": str(len(TASKS)), "oldest": str(oldest), "runs": str(int(rows.samples.max()))}
    for arm in one_rate.TOLD:
        key = key_of(arm)
        found[f"{key}_usual"], found[f"{key}_bold"] = pooled(rows, arm, 1.0), pooled(rows, arm, BOLD)
        there = [at(rows, task, arm, "return", BOLD * usual(rows, task)).value for task in TASKS]
        own = [best(rows, task, arm).value for task in TASKS]
        found[f"{key}_return"] = f"{sum(there) / len(there):.3f}"
        found[f"{key}_best"] = f"{sum(own) / len(own):.3f}"
    for arm in one_rate.LATER:
        key = key_of(arm)
        found[f"{key}_falls"] = pooled(rows, arm, BOLD)
        for name, times in (("usual", 1.0), ("bold", BOLD)):
            there = [at(rows, task, arm, "return", times * usual(rows, task)).value for task in TASKS]
            found[f"{key}_{name}"] = f"{sum(there) / len(there):.3f}"
    fresh = [best(rows, task, "RLOO", "fresh").value for task in TASKS]
    found["vcpo_leads"], found["vcpo_trails"] = (
        str(len(ahead(rows, *arms))) for arms in (("VCPO", "RLOO"), ("RLOO", "VCPO"))
    )
    # On the other tasks every method ends at the optimum.
    rate = usual(rows, "chain")
    found["gac_end"] = look.value(at(rows, "chain", "GAC", "end", rate))
    end = _script.pick(rows, task="chain", law="fresh", arm="RLOO", quantity="end", rate=rate).iloc[0]
    return found | {"fresh": f"{sum(fresh) / len(fresh):.3f}", "fresh_end": look.value(end)}
