"""Return of RLOO and Dr. GRPO − TBA's on fresh, stale and replayed data, each at its best learning rate."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import tba_returns
from paper_figures import _script
from paper_figures import _tba_steps as tba
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures._script import pick

EXPERIMENTS = {"tba_returns": {"part": "compare", "staleness": "0, 32, or half replayed"}}
TITLES = {"bandit": "bandit", "graded": "graded", "rare": "rarely rewarded"}
LAWS = {"fresh": "fresh data", "constant 32": "data 32\nversions old", "replay": "half of the\ndata replayed"}
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "RLOO": ("RLOO on the same data", tba.ARMS["RLOO"]),
    "Dr. GRPO": ("Dr. GRPO on the same data", tba.ARMS["Dr. GRPO"]),
    tba_returns.FRESH: ("RLOO on fresh data", look.SYNCHRONOUS),
}
BASELINES = ("RLOO", "Dr. GRPO")
RECENT = (("rare", "1"), ("rare", "16"), ("graded", "16"))
STALE = ("constant 32", "replay")


def cell(rows: Any, task: str, law: str, arm: str, part: str = "compare") -> Any:
    """The row of an arm; None where it was not compared."""
    own = pick(rows, part=part, task=task, place=law, arm=arm)
    return own.iloc[0] if len(own) else None


def draw_task(ax: Axes, rows: Any, task: str) -> None:
    """A line for each kind of data, a mark for each method."""
    for y, law in enumerate(LAWS):
        for side, (arm, (_, style)) in zip((-0.22, 0.0, 0.22), ARMS.items(), strict=True):
            row = cell(rows, task, law, arm)
            if row is not None and isinstance(row.word, str):
                own = row.to_frame().T.infer_objects().rename(columns={"difference": "value"})
                look.points(ax, [y + side], own, sideways=True, **style)
    ax.set(ylim=(len(LAWS) - 0.5, -0.6), title=TITLES[task], xlabel="return minus TBA's")
    look.ticks(ax.yaxis, range(len(LAWS)), list(LAWS.values()))


def draw(rows: Any) -> Figure:
    """A panel for each task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.7)
        axes = figure.subplots(1, 3, sharey=True, width_ratios=(0.12, 0.12, 0.32))
        for ax, task in zip(axes, TITLES, strict=True):
            draw_task(ax, rows, task)
            ax.set_xlim(-0.06, 0.26 if task == "rare" else 0.06)
            places = (0, 0.1, 0.2) if task == "rare" else (-0.05, 0, 0.05)
            look.ticks(ax.xaxis, places, [f"{place:g}".replace("-", "−") for place in places])
        look.say(axes[2], 0.25, -0.35, "right of 0: TBA is worse", look.COLOR["muted"], ha="right")
        found = numbers(rows)
        little = int(found["wins"]) <= 0.4 * sum(int(found[word]) for word in ("wins", "ties", "losses"))
        rare = cell(rows, "rare", STALE[0], "RLOO")
        loses = rare is not None and rare.word == "better"
        _script.headline(figure, little and loses, "Returns at best rates beside TBA's")
        axes[0].set_ylabel("TBA trained on")
        look.legend(figure, axes, dict(ARMS.values()), tba_returns.SMALLEST)
        figure.legends[-1].get_texts()[-1].set_text(f"equal: interval within ±{tba_returns.SMALLEST:g}")
    return figure


def said(row: Any) -> str:
    """A difference with its word."""
    if row is None or not isinstance(row.word, str):
        return "not compared"
    size = f"{row.difference:+.2f}".replace("-", "−")
    return f"{row.word} ({size})" if abs(row.difference) >= 0.005 else row.word


def numbers(rows: Any) -> dict[str, str]:
    """Differences with words, and how many comparisons TBA wins, ties and loses."""
    found = {"smallest": f"{tba_returns.SMALLEST:g}", "price": tba_returns.BASE.split()[1], "old": "32"}
    found["many"] = tba_returns.SEARCHERS[-1]
    for task in TITLES:
        for law in STALE:
            for arm, key in zip(BASELINES, ("rloo", "grpo"), strict=True):
                found[f"{task}_{law.split()[0]}_{key}"] = said(cell(rows, task, law, arm))
    judged = [
        row for task in TITLES for law in STALE for arm in BASELINES if (row := cell(rows, task, law, arm)) is not None
    ]
    words = [row.word for row in judged]
    # TBA is the base: an arm that is worse is one that TBA beats.
    found |= {
        "wins": str(words.count("worse")),
        "ties": str(words.count("equal")),
        "losses": str(words.count("better")),
    }
    for task, place in RECENT:
        found[f"{task}_recent_{place}"] = said(cell(rows, task, place, "0.95", "recency"))
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Settings of claims on other tasks: staleness, rivals, and whether recent samples gain more with generators."""
    accurate, ahead, recent = [], [], []
    for task, name in TITLES.items():
        # RLOO and TBA are equal on fresh data.
        row = cell(rows, task, STALE[0], tba_returns.FRESH)
        accurate.append(Setting(("tuned rates", name, "32"), tba.as_good(-row.high, -row.low)))
    for arm in BASELINES:
        for task, name in TITLES.items():
            for law, data in zip(STALE, ("32", "half replayed"), strict=True):
                row = cell(rows, task, law, arm)
                won = decided(row.high < -tba.SMALLEST or row.word == "worse", row.low > -tba.SMALLEST)
                ahead.append(Setting((f"{arm}, tuned rates", name, data), won))
    for task in ("graded", "rare"):
        own = [cell(rows, task, place, "0.95", "recency") for place in tba_returns.SEARCHERS]
        gains = [(row.difference, (row.high - row.low) / 2.0) for row in own]
        recent.append(Setting((f"generators: {TITLES[task]}, tuned rates",), tba.grown(gains)))
    return {"accurate": accurate, "ahead": ahead, "recent": recent}
