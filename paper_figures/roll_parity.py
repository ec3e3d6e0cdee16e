"""Return of ROLL Flash's off-policy methods over updates, and what old data cost where tasks are still unsolved."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import league, roll_parity, token_ratios
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = {"roll_parity": {"rate": "best synchronous", "staleness": "0 (synchronous) or up to 8"}}
NAMES = {"arms": "many arms", "graded": "graded", "peaked": "64 graded tokens"}
SAID = {"TIS": "token truncated IS"}
SHOWN = {arm: _methods.look(SAID.get(arm, arm)) for arm in ("PPO", "TOPR", "TIS")}
ARMS, UNSOLVED = list(token_ratios.METHODS), 0.8
LATE = roll_parity.RATIOS[-1]


def fresh(rows: Any, task: str) -> Any:
    """Rows of synchronous PPO."""
    return _script.pick(rows, task=task, ratio=0, arm="PPO")


def usual(rows: Any, task: str) -> float:
    """The rate at which synchronous PPO returns most over all updates."""
    own = fresh(rows, task)
    widths = own["update"] - own.groupby("rate")["update"].shift(fill_value=0)
    means: Any = (own.value * widths).groupby(own.rate).sum()
    return float(means.idxmax())


def middle(rows: Any, task: str) -> int:
    """The last window in which synchronous PPO at its best rate has not reached most of what it ever does."""
    own = fresh(rows, task)
    own = own[own.rate == usual(rows, task)].sort_values("update")
    low = own[own.value < UNSOLVED * own.value.max()]
    return int((low if len(low) else own)["update"].iloc[-1 if len(low) else 0])


def at(rows: Any, task: str, ratio: int, arm: str, update: int, own: bool) -> Any:
    """A method's row in a window: at the best synchronous rate, or at its own best one there."""
    found = _script.pick(rows, task=task, ratio=ratio, arm=arm, update=update)
    return found.loc[found.value.idxmax()] if own else found[found.rate == usual(rows, task)].iloc[0]


def differences(rows: Any, unsolved: bool, own: bool) -> Any:
    """Return less that of synchronous PPO, with intervals, and what that means, at every task, ratio and method."""
    found = []
    for task in [each for each in roll_parity.TASKS if (rows.task == each).any()]:
        when = middle(rows, task) if unsolved else int(rows[rows.task == task]["update"].max())
        base = at(rows, task, 0, "PPO", when, own)
        for ratio in roll_parity.RATIOS:
            for arm in ARMS:
                row = at(rows, task, ratio, arm, when, own)
                reach = math.hypot(row.high - row.low, base.high - base.low) / 2
                value = row.value - base.value
                ends = {"value": value, "low": value - reach, "high": value + reach}
                inside = max(abs(ends["low"]), abs(ends["high"])) <= league.SMALLEST
                word = (
                    "equal" if inside else "worse" if ends["high"] < 0 else "better" if ends["low"] > 0 else "undecided"
                )
                found.append({"task": task, "ratio": ratio, "arm": arm, "word": word, **ends})
    return pd.DataFrame(found)


def draw_task(ax: Axes, rows: Any, task: str) -> dict[str, tuple[float, str]]:
    """Curves of synchronous PPO and of three methods on old data, at the best synchronous rate. Where they end."""
    rate, names = usual(rows, task), {}
    for arm, ratio, style in (("PPO", 0, look.SYNCHRONOUS), *((arm, LATE, style) for arm, style in SHOWN.items())):
        own = _script.pick(rows, task=task, ratio=ratio, arm=arm, rate=rate).sort_values("update")
        look.points(ax, own["update"], own, **{**look.CONNECTED, "markersize": 3.0, "capsize": 0, **style})
        name = f"{SAID.get(arm, arm)}, stale" if ratio else "synchronous PPO"
        names[name] = (float(own.value.iloc[-1]), style["color"])
    ax.set(xscale="log", ylim=(0.0, 1.05), title=NAMES[task])
    ends = [end for end in roll_parity.ENDS if end in set(rows["update"])]
    look.ticks(ax.xaxis, [end for end in ends if end.bit_count() == 1])
    return names


def draw(rows: Any) -> Figure:
    """Curves on three tasks."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        axes = figure.subplots(1, len(NAMES), sharey=True)
        for ax, task in zip(axes, [each for each in NAMES if (rows.task == each).any()], strict=False):
            names, last = draw_task(ax, rows, task), ax
        look.ends(last, names)
        axes[1].set_xlabel("update (log scale)")
        axes[0].set_ylabel("return of the trained policy")
        found = differences(rows, True, False)
        late = found[(found.ratio == LATE) & found.task.isin(list(NAMES))].set_index("arm")
        lost = all((late.word[[arm]] == "worse").all() for arm in ("PPO", "TOPR"))
        near = late.value[["TIS"]].min() > -0.1 and late.value[["TIS"]].mean() > -0.05
        _script.headline(figure, lost and near, "Return over updates on stale data")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Worse comparisons: at one rate, at own best rates, while unsolved, at the end; and mean losses."""
    found = {"smallest": f"{league.SMALLEST:g}", "late": str(LATE)}
    found["unsolved"] = f"{100 * UNSOLVED:.0f}"
    readings = {"one": (True, False), "own": (True, True), "end_own": (False, True)}
    for key, (unsolved, own) in readings.items():
        table = differences(rows, unsolved, own)
        found |= {f"{key}_{word}": str(int((table.word == word).sum())) for word in ("better", "worse")}
        late = table[table.ratio == LATE].groupby("arm").value.mean()
        found |= {f"{key}_{arm.lower()}": f"{late[arm]:+.2f}".replace("-", "−") for arm in SHOWN}
    pair, tokens = ("PPO", "TOPR"), roll_parity.TASKS["peaked"].horizon
    hard = "peaked" if (table.task == "peaked").any() else "arms"  # quick rows have one task
    last, shared = (
        each[each.ratio == LATE].set_index(["task", "arm"]).value for each in (table, differences(rows, False, False))
    )
    early = differences(rows, True, True)
    worse = early[early.word == "worse"]
    found |= {"own_pair": str(int(worse.arm.isin(pair).sum())), "hard": str(tokens)}
    found["end_own_hard"] = " and ".join(f"{last[hard, arm]:+.2f}".replace("-", "−") for arm in pair)
    found["end_one_hard"] = " and ".join(f"{shared[hard, arm]:+.2f}".replace("-", "−") for arm in pair)
    return found | {"end_own_equal": str(int((table.word == "equal").sum())), "judged": str(len(table))}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether methods are not worse than synchronous PPO, each at its best rate; undecided if that far below it."""
    found = []
    for unsolved, stage in ((True, "while unsolved"), (False, "at the end")):
        for row in differences(rows, unsolved, True).itertuples():
            par = decided(row.low > -league.SMALLEST, row.word == "worse")
            found.append(Setting((f"{stage}, ratio {row.ratio}", NAMES[row.task], SAID.get(row.arm, row.arm)), par))
    return {"par": sorted(found, key=lambda each: each.place[0], reverse=True)}
