"""Token ratios − sequence ratios under four laws of staleness, each at its best learning rate."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import league
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"token_ratios": {"part": "pair"}}
TITLES = {"graded": "graded", "sparse": "sparse"}
LAWS = {"constant 8": "8", "constant 32": "32", "sawtooth": "0 to 16 in turn", "heavy": "heavy-tailed"}
PAIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "TIS": ("truncated IS", look.TRUNCATED),
    "MIS": ("masked IS", {**look.TRUNCATED, "marker": "s"}),
    "clip": ("PPO minus GSPO", _methods.look("PPO", marker="^")),
}
OLD = "constant 32"


def compared(rows: Any, part: str = "pair") -> Any:
    """What sequence ratios were compared with, less sequence ratios; `word` is that of sequence ratios."""
    own = rows[(rows.part == part) & rows.word.notna()]
    return own.assign(value=-own.difference, low=-own.high, high=-own.low)


def draw_task(ax: Axes, rows: Any, task: str) -> None:
    """A line for each law, a mark for each pair."""
    for side, (pair, (_, style)) in zip((-0.24, 0.0, 0.24), PAIRS.items(), strict=True):
        every = _script.pick(compared(rows), task=task, pair=pair)
        for own, fill in ((every[every.word == "worse"], {}), (every[every.word != "worse"], look.HOLLOW)):
            places = [list(LAWS).index(law) + side for law in own.law]
            look.points(ax, places, own, sideways=True, **{**style, **fill})
    ax.set(ylim=(len(LAWS) - 0.5, -0.5), title=TITLES[task], xlabel="return, token ratios minus sequence ratios")
    look.ticks(ax.yaxis, range(len(LAWS)), list(LAWS.values()))


def draw(rows: Any) -> Figure:
    """A panel a task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        axes = figure.subplots(1, len(TITLES), sharex=True, sharey=True)
        for ax, task in zip(axes, TITLES, strict=True):
            draw_task(ax, rows, task)
        axes[0].set_ylabel("staleness (versions)")
        look.say(axes[1], 0.33, 3.0, "right of 0: token ratios are better", look.COLOR["muted"], ha="right")
        own = compared(rows).word
        holds = (own == "worse").sum() > 0.5 * len(own) and not (own == "better").any()
        _script.headline(figure, holds, "Token ratios beside sequence ratios")
        hollow = {"color": look.COLOR["muted"], "marker": "o", **look.HOLLOW}
        shown = {name: {**style, "markersize": 4.0} for name, style in PAIRS.values()}
        look.legend(figure, axes, shown | {"hollow: equal or undecided": hollow}, league.SMALLEST)
        figure.legends[-1].get_texts()[-1].set_text(f"equal: interval within ±{league.SMALLEST:g}")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """How often sequence ratios are worse, equal and better, by how much on old data; methods equal to synchronous."""
    own = compared(rows)
    found = {word: str(int((own.word == word).sum())) for word in ("worse", "equal", "better", "undecided")}
    found |= {"judged": str(len(own)), "smallest": f"{league.SMALLEST:g}", "old": OLD.split()[-1]}
    for pair in PAIRS:
        one = own[own.pair == pair]
        for task in TITLES:
            row = _script.pick(one, task=task, law=OLD)
            found[f"{task}_{pair.lower()}"] = look.value(row.iloc[0]) if len(row) else "not compared"
    par = compared(rows, "par")
    return found | {"par_equal": str(int((par.word == "equal").sum())), "par": str(len(par))}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether token ratios are better than sequence ratios, by task, staleness and what uses them."""
    names = {"TIS": "truncated weights", "MIS": "masks", "clip": "clips"}
    found = []
    for row in compared(rows).itertuples():
        place = (TITLES[row.task], f"staleness {LAWS[row.law]}", names[row.pair])
        found.append(Setting(place, decided(row.word == "worse", row.word in ("equal", "better"))))
    return {"tokens": found}
