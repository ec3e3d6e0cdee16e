"""Falls of every method at one bold learning rate; returns there and at each one's best rate are numbers."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from asyncsim.plotting import _style
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

__all__ = ["EXPERIMENTS", "draw", "numbers"]

SHOWN_TASK = "chain"
"""The task that is drawn; falls on others are numbers."""
EXPERIMENTS = {"one_rate": {"task": SHOWN_TASK, "law": "constant 32", "rate": "4 × best synchronous"}}
SHOWN = {"VCPO": "VCPO", "GAC": "GAC (on RLOO)", "PPO": "PPO", "TIS, sequence": "truncated IS", "RLOO": "RLOO"}
"""Methods that are drawn, with their names."""
PRIOR = ("PPO", "decoupled PPO", "TIS, token", "TIS, sequence", "CISPO", "GSPO", "M2PO", "BAPO")
"""Methods before VCPO that clip, truncate or mask ratios."""
TASKS = ("chain", "graded", "kinds")
DRAWN = {"chain": "chain of bits", "kinds": "tokens of 4 kinds"}
"""Tasks on which runs fall."""
AS_GOOD = 0.005
"""Difference of returns that decides nothing, as in `sim.compare` at a smallest effect of 0.02."""
BOLD = 4.0
"""The 4× rate, in best synchronous ones."""


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


def draw_one(ax: Axes, rows: Any, task: str) -> None:
    """Share of the runs of each method that fall at the 4× rate."""
    for y, arm in enumerate(SHOWN):
        own = at(rows, task, arm, "fell", BOLD * usual(rows, task)).to_frame().T.infer_objects()
        own = own.assign(low=own.low.clip(lower=0.0))
        style = _methods.look(SHOWN[arm])
        ax.barh(y, own.value, height=0.5, color=style["color"], alpha=0.35)
        look.points(ax, [y], own, sideways=True, **style)
    ax.set(xlim=(-0.02, 1), ylim=(len(SHOWN) - 0.5, -0.5), xlabel="runs that fall (lose half of their gain)")
    ax.set_title(f"{DRAWN[task]}, staleness {stale(rows, task).law.iloc[0].split()[1]}")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    look.ticks(ax.yaxis, range(len(SHOWN)), SHOWN.values())


def never(rows: Any, arm: str, times: float) -> bool:
    """Whether no run of a method falls at so many best synchronous rates, anywhere."""
    return not any(falls(rows, task, arm, times) for task in TASKS)


def falls(rows: Any, task: str, arm: str, times: float = BOLD) -> bool:
    """Whether any run of a method falls on a task at so many best synchronous rates."""
    return bool(fallen(rows, task, arm, times).value > 0)


def fallen(rows: Any, task: str, arm: str, times: float = BOLD) -> Any:
    """The row with the share of runs that fall."""
    return at(rows, task, arm, "fell", times * usual(rows, task))


def ahead(rows: Any, arm: str, other: str) -> list[str]:
    """Tasks on which a method at its best rate returns more than another at its own, beyond both intervals."""
    return [task for task in TASKS if best(rows, task, arm).low > best(rows, task, other).high]


def draw(rows: Any) -> Figure:
    """Shares of falls on the task on which most runs fall."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.3)
        draw_one(figure.subplots(), rows, SHOWN_TASK)
        most = all(fallen(rows, SHOWN_TASK, arm).low > 0.5 for arm in ("TIS, sequence", "RLOO"))
        _script.headline(figure, never(rows, "VCPO", BOLD) and most, "Falls at one learning rate for all methods")
    return figure


def pooled(rows: Any, arm: str) -> str:
    """Share of runs that fall at the 4× rate, over all tasks."""
    found = [at(rows, task, arm, "fell", BOLD * usual(rows, task)).value for task in TASKS]
    return f"{100 * sum(found) / len(found):.0f} %"


def numbers(rows: Any) -> dict[str, str]:
    """Of each method: falls at the 4× rate, its return there and at its own best."""
    oldest = max(int(stale(rows, task).law.iloc[0].split()[1]) for task in TASKS)
    found = {"places": str(len(TASKS)), "oldest": str(oldest), "runs": str(int(rows.samples.max()))}
    for arm in SHOWN:
        key = key_of(arm)
        if arm != "TIS, sequence":
            found[f"{key}_bold"] = pooled(rows, arm)
        for task in DRAWN:
            found[f"{key}_{task}"] = f"{100 * at(rows, task, arm, 'fell', BOLD * usual(rows, task)).value:.0f} %"
        there = [at(rows, task, arm, "return", BOLD * usual(rows, task)).value for task in TASKS]
        own = [best(rows, task, arm).value for task in TASKS]
        found[f"{key}_return"] = f"{sum(there) / len(there):.3f}"
        found[f"{key}_best"] = f"{sum(own) / len(own):.3f}"
    found["decoupled_ppo_falls"] = pooled(rows, "decoupled PPO")
    for arm in ("DG", "full IS"):
        there = [at(rows, task, arm, "return", usual(rows, task)).value for task in TASKS]
        found[f"{key_of(arm)}_usual"] = f"{sum(there) / len(there):.3f}"
    fresh = [best(rows, task, "RLOO", "fresh").value for task in TASKS]
    found["vcpo_leads"], found["vcpo_trails"] = (
        str(len(ahead(rows, *arms))) for arms in (("VCPO", "RLOO"), ("RLOO", "VCPO"))
    )
    most = max(_script.pick(stale(rows, task), arm="VCPO", quantity="fell").value.max() for task in TASKS)
    found["vcpo_most"] = f"{100 * most:.0f} %"
    return found | {"fresh": f"{sum(fresh) / len(fresh):.3f}"}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether at the 4× rate most runs of a method fall and hardly any of VCPO's; whether fewer fall with GAC."""
    found, fewer = [], []
    for task in TASKS:
        vcpo, *rivals = (at(rows, task, arm, "fell", BOLD * usual(rows, task)) for arm in ("VCPO", *PRIOR))
        for arm, row in zip(PRIOR, rivals, strict=True):
            answer = decided(row.low > 0.5 and vcpo.high < 0.1, row.high < 0.5 or vcpo.low >= 0.1)
            found.append(Setting((DRAWN.get(task, task), _methods.called(arm)), answer))
        gac, rloo = (at(rows, task, arm, "fell", BOLD * usual(rows, task)) for arm in ("GAC", "RLOO"))
        fewer.append(Setting((DRAWN.get(task, task),), decided(gac.high < rloo.low, gac.low > rloo.high)))
    return {"prior": found, "fewer": fewer}
