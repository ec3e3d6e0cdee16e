"""AReaL's objectives against its bound on staleness, each at its best learning rate, and the speed it buys."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import areal
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = ("areal",)
TASKS = {"bandit": "bandit", "graded": "graded sequences", "sparse": "sparse sequences"}
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "fresh": ("PPO, fresh data", {"color": look.COLOR["synchronous"], "marker": "s"}),
    "uncorrected": ("no behavior weight", {"color": look.COLOR["partial"], "marker": "D"}),
    "naive": ("naive PPO", {"color": look.COLOR["stale"], "marker": "o"}),
}
PAPER = 2.77
"""Speed-up that the abstract states."""


def pair(rows: Any, task: str, eta: int, arm: str, over: str) -> Any:
    """The row of an arm beside the decoupled objective; None where it was not compared."""
    own = _script.pick(rows, part="objective", task=task, eta=eta, arm=arm, over=over)
    own = own[own.word.notna()]
    return own.iloc[0] if len(own) else None


def bounds(rows: Any) -> list[int]:
    """Values of eta that objectives were compared at."""
    return sorted(int(eta) for eta in rows[rows.part == "objective"].eta.unique())


def speeds(rows: Any, sigma: float) -> dict[int, tuple[float, float]]:
    """Speed over synchronous training at each bound with its best share, and half of its interval."""
    own = _script.pick(rows, part="speed", sigma=sigma)
    base = own[own.eta < 0].sort_values("realization").value.to_numpy()
    found = {}
    for eta in areal.BOUNDS:
        times = own[own.eta == eta].pivot_table(index="realization", columns="share", values="value")
        found[eta] = _script.interval(base / times[times.mean().idxmin()].to_numpy())
    return found


def draw_task(ax: Axes, rows: Any, task: str) -> None:
    """Mean return less that of the decoupled objective."""
    etas = bounds(rows)
    for shift, (arm, (name, style)) in zip((-0.12, 0.0, 0.12), ARMS.items(), strict=True):
        own = [(x, row) for x, eta in enumerate(etas) if (row := pair(rows, task, eta, arm, "mean")) is not None]
        if own:
            places, values = [x + shift for x, _ in own], [row.difference for _, row in own]
            reach = [[row.difference - row.low for _, row in own], [row.high - row.difference for _, row in own]]
            ax.errorbar(places, values, yerr=reach, label=name, **{**_style.MEASURED, **look.CONNECTED, **style})
    ax.axhline(0.0, **_style.REFERENCE)
    ax.set(
        title=TASKS[task], xlabel="bound eta, publishes", ylabel="return − decoupled's", xlim=(-0.5, len(etas) - 0.5)
    )
    look.ticks(ax.xaxis, range(len(etas)), [str(eta) for eta in etas])


def draw_speed(ax: Axes, rows: Any) -> None:
    """Speed against the bound, for three spreads of lengths."""
    for sigma, color, marker in zip(areal.SPREADS, ("partial", "measured", "tuned"), "vo^", strict=True):
        values = [mean for mean, _ in speeds(rows, sigma).values()]
        ax.plot(range(len(values)), values, color=look.COLOR[color], marker=marker, markersize=4.0, linewidth=1.0)
        look.say(ax, len(values) - 0.85, values[-1], f"spread {sigma:g}", look.COLOR[color])
    for value in (1.0, PAPER):
        ax.axhline(value, **_style.REFERENCE)
    ax.set(title="speed over synchronous", xlabel="bound eta, publishes", ylabel="times", yscale="log")
    ax.set_xlim(-0.3, len(areal.BOUNDS) + 0.6)
    look.ticks(ax.xaxis, range(len(areal.BOUNDS)), [str(eta) for eta in areal.BOUNDS])
    look.ticks(ax.yaxis, [0.5, 1, 2, 4], ["0.5", "1", "2", "4"])


def draw(rows: Any) -> Figure:
    """A panel a task, then speed."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.4)
        axes = figure.subplots(2, 2).ravel()
        for ax, task in zip(axes, TASKS, strict=False):
            draw_task(ax, rows, task)
        draw_speed(axes[3], rows)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Words of the comparisons, largest differences, and speeds."""
    etas, found = bounds(rows), {"smallest": f"{areal.SMALLEST:g}"}
    for arm in ARMS:
        for over in ("mean", "end"):
            own = [row for task in TASKS for eta in etas if (row := pair(rows, task, eta, arm, over)) is not None]
            found[f"{arm}_{over}"] = said([row.word for row in own], max((row.difference for row in own), key=abs))
            found["places"] = str(len(own))
    naive = {over: _script.pick(rows, arm="naive", over=over, word="worse") for over in ("mean", "end")}
    found |= {"naive_worse": str(len(naive["mean"])), "naive_end_worse": str(len(naive["end"]))}
    held = _script.pick(rows, part="objective", arm="fresh", over="end")
    held = held[held.eta <= 8]
    found |= {"held": str(int((held.word == "equal").sum())), "within": str(len(held))}
    for key, sigma in (("mild", 0.5), ("long", 1.0), ("longest", 1.5)):
        found[f"{key}_4"] = f"{speeds(rows, sigma)[4][0]:.2f}"
    return found | {"paper": f"{PAPER}"}


def said(words: list[str], largest: float) -> str:
    """How often each word was said, and the largest difference."""
    counts = [f"{words.count(word)} {word}" for word in ("better", "equal", "worse", "undecided") if word in words]
    return f"{_script.listed(counts)} ({largest:+.2f})".replace("-", "−")
