"""Return against staleness, and over updates beside Dr. GRPO."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _tba_steps as tba
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"tba_steps": {"part": "grid", "task": "arms", "rate": "best synchronous"}}
BESIDE, CLIPPED, FREE = ("TBA", "Dr. GRPO"), ("Proximal RLOO", "Dr. GRPO"), ("TBA", "RLOO")
NAMES = {"Proximal RLOO": "Proximal RLOO (clipped)", "Dr. GRPO": "Dr. GRPO (clipped)"}
"""Arms as the labels of this picture have them."""
TASKS = {"arms": "many arms", "tokens": "graded tokens"}
SEARCHED = ("arms", "rare")
"""Tasks on which searchers were varied."""


def price(rows: Any, task: str = tba.TASK) -> float:
    """The least price, near that at which the paper ends."""
    return tba.betas(rows, task)[0]


def level(rows: Any, arm: str, steps: int, quantity: str, times: float | None, task: str = tba.TASK) -> Any:
    """A quantity at a staleness, the mean over training."""
    place = {"task": task, "arm": arm, "steps": steps, "beta": price(rows, task)}
    return tba.at(rows, "grid", quantity, "mean", times, **place)


def draw_steps(ax: Axes, rows: Any) -> None:
    """Mean return against staleness."""
    found, names = tba.steps(rows), {}
    for arm, style in ((arm, style) for arm, style in tba.ARMS.items() if arm not in tba.LABELS):
        own = type(rows)([level(rows, arm, steps, "return", 1.0) for steps in found])
        look.points(ax, found, own, **look.CONNECTED, **{**style, "markersize": 3.5, "zorder": 2 + 2 * (arm == "TBA")})
        names[NAMES.get(arm, arm)] = (float(own.value.iloc[-1]), style["color"])
    ax.set(xlabel="staleness (versions)", ylabel="mean return over training", ylim=(0.0, 1.0))
    ax.set_xscale("symlog", base=2, linthresh=1, linscale=0.5)
    ax.set(xlim=(-0.1, 1.3 * found[-1] + 0.1), title="By staleness")
    look.ticks(ax.xaxis, found)
    look.ends(ax, names)


def draw_course(ax: Axes, rows: Any, steps: int) -> None:
    """Return over updates of TBA and Dr. GRPO."""
    for arm in BESIDE:
        own = tba.of(rows, "grid", "return", "course", task=tba.TASK, arm=arm, steps=steps, beta=price(rows))
        own = tba.near(own, tba.usual(rows)).sort_values("number")
        look.points(ax, own.number, own, **look.CONNECTED, **{**tba.ARMS[arm], "markersize": 3.0, "capsize": 1.0})
        half = own.iloc[(own.value - 0.5 * own.value.max()).abs().argmin()]
        side = {"x": half.number - 6, "ha": "right"} if arm == BESIDE[0] else {"x": half.number + 6, "ha": "left"}
        look.say(ax, y=half.value, text=arm, color=tba.ARMS[arm]["color"], **side)
    ax.set(xlabel="update", ylabel="return of the trained policy", ylim=(0.0, 1.0), title=f"At staleness {steps}")


def searched(rows: Any, task: str, quantity: str, times: float | None) -> Any:
    """A quantity against the number of searchers, a mean over training."""
    own = tba.of(rows, "search", quantity, "mean", task=task)
    if times is None:
        mean = tba.of(rows, "search", "return", "mean", task=task)
        best = mean.loc[mean.groupby("place").value.idxmax()].set_index("place").rate
        own = own[[best[row.place] == row.rate for row in own.itertuples()]]
    else:
        own = tba.near(own, times * tba.usual(rows))
    return own.assign(number=own.place.astype(int)).sort_values("number")


def cost(rows: Any, arm: str, times: float | None, task: str = tba.TASK) -> float:
    """Mean return lost from fresh data to those about fifteen updates old."""
    return cost_to(rows, arm, tba.old(rows), times, task)


def cost_to(rows: Any, arm: str, steps: int, times: float | None, task: str) -> float:
    """Mean return lost from fresh data to those of a staleness."""
    fresh, stale = (level(rows, arm, old, "return", times, task).value for old in (0, steps))
    return float(fresh - stale)


def draw(rows: Any) -> Figure:
    """Staleness; one course."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        left, right = figure.subplots(1, 2)
        draw_steps(left, rows)
        draw_course(right, rows, tba.old(rows))
        holds = max(cost(rows, arm, 1.0) for arm in FREE) < 0.5 * min(cost(rows, arm, 1.0) for arm in CLIPPED)
        _script.headline(figure, holds, "Return by staleness and over updates")
    return figure


def beside(rows: Any, arm: str, times: float | None) -> dict[tuple[str, int], tuple[float, float]]:
    """Mean return of TBA less that of an arm, and half of its interval, by task and staleness."""
    found = {}
    for task in (task for task in TASKS if (rows.task == task).any()):
        for steps in tba.steps(rows)[1:]:
            one, other = (level(rows, each, steps, "return", times, task) for each in ("TBA", arm))
            found[task, steps] = one.value - other.value, tba.reach(one, other)
    return found


def ahead(rows: Any, arm: str, times: float | None) -> str:
    """Wins, ties and losses of TBA beside an arm over tasks and stalenesses, on the mean return."""
    words = [
        "tie" if abs(apart) <= max(reach, tba.SMALLEST) else "win" if apart > 0 else "loss"
        for apart, reach in beside(rows, arm, times).values()
    ]
    return "/".join(str(words.count(word)) for word in ("win", "tie", "loss"))


def numbers(rows: Any) -> dict[str, str]:
    """Returns by staleness, wins beside each arm, and what more searchers bring."""
    found = {
        "old": str(tba.old(rows)),
        "smallest": f"{tba.SMALLEST:g}",
        "rate": f"{tba.usual(rows):g}",
        "runs": str(int(rows[rows.part == "grid"].samples.max())),
    }
    found |= {"places": str(2 * (len(tba.steps(rows)) - 1))}
    for arm, key in tba.KEYS.items():
        found[f"{key}_fresh"] = tba.value(level(rows, arm, 0, "return", 1.0))
        found[f"{key}_old"] = tba.value(level(rows, arm, tba.old(rows), "return", 1.0))
        if arm != "TBA":
            for reading, times in (("usual", 1.0), ("best", None)):
                found[f"beside_{key}_{reading}"] = ahead(rows, arm, times)
    found["oldest"] = str(tba.steps(rows)[-1])
    for task in TASKS:
        there = (rows.task == task).any()
        lost = cost_to(rows, "TBA", tba.steps(rows)[-1], 1.0, task) if there else 0.0
        found[f"{task}_lost"] = f"{max(lost, 0.0):.2f}" if there else "none"
    for task in SEARCHED:
        own = searched(rows, task, "return", 1.0)
        for name, place in (("first", 0), ("last", -1)):
            found[f"{task}_{name}"] = f"{own.value.iloc[place]:.2f}"
    found["fewest"], found["most"] = (str(own.number.iloc[k]) for k in (0, -1))
    tuned = searched(rows, "arms", "return", None)
    found["tuned_first"], found["tuned_last"] = (f"{tuned.value.iloc[k]:.2f}" for k in (0, -1))
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether TBA is as good on stale data as on fresh, and beats RLOO and Dr. GRPO."""
    accurate, ahead = [], []
    for reading, times in (("one rate", 1.0), ("tuned rates", None)):
        for task, name in TASKS.items():
            fresh = level(rows, "TBA", 0, "return", times, task)
            for steps in tba.steps(rows)[1:]:
                own = level(rows, "TBA", steps, "return", times, task)
                low, high = (own.value - fresh.value + sign * tba.reach(own, fresh) for sign in (-1.0, 1.0))
                accurate.append(Setting((reading, name, str(steps)), tba.as_good(low, high)))
        for arm in ("RLOO", "Dr. GRPO"):
            for (task, steps), (apart, reach) in beside(rows, arm, times).items():
                won = decided(apart > max(reach, tba.SMALLEST), apart + reach < tba.SMALLEST)
                ahead.append(Setting((f"{arm}, {reading}", TASKS[task], str(steps)), won))
    return {"accurate": accurate, "ahead": ahead}
