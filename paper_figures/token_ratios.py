"""Sequence ratios − token ratios under four laws of staleness, each at its best learning rate."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import league
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"token_ratios": {"part": "pair"}}
TITLES = {"graded": "graded", "sparse": "sparse"}
LAWS = {"constant 8": "8", "constant 32": "32", "sawtooth": "0 to 16 in turn", "heavy": "heavy-tailed"}
PAIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "TIS": ("truncated weights: sequence − token", {"color": look.COLOR["synchronous"], "marker": "s"}),
    "MIS": ("masks: sequence − token", {"color": look.COLOR["controlled"], "marker": "o"}),
    "clip": ("clips: GSPO − PPO", {"color": look.COLOR["stale"], "marker": "^"}),
}
OLD = "constant 32"


def compared(rows: Any, part: str = "pair") -> Any:
    """Arms of a part beside what they were compared with."""
    own = rows[(rows.part == part) & rows.word.notna()]
    return own.assign(value=own.difference)


def draw_task(ax: Axes, rows: Any, task: str) -> None:
    """A line for each law, a mark for each pair."""
    for side, (pair, (_, style)) in zip((-0.24, 0.0, 0.24), PAIRS.items(), strict=True):
        own = _script.pick(compared(rows), task=task, pair=pair)
        look.points(ax, [list(LAWS).index(law) + side for law in own.law], own, sideways=True, **style)
    ax.set(ylim=(len(LAWS) - 0.5, -0.5), title=TITLES[task], xlabel="difference of return")
    look.ticks(ax.yaxis, range(len(LAWS)), list(LAWS.values()))


def draw(rows: Any) -> Figure:
    """A panel a task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        axes = figure.subplots(1, len(TITLES), sharex=True, sharey=True)
        for ax, task in zip(axes, TITLES, strict=True):
            draw_task(ax, rows, task)
        axes[0].set_ylabel("staleness (versions)")
        own = compared(rows).word
        worse, size = (own == "worse").sum(), f"{league.SMALLEST:g}"
        first = f"At tuned rates, sequence ratios are worse than token ratios in {worse} of {len(own)} comparisons"
        holds = worse > 0.5 * len(own) and not (own == "better").any()
        words = f"{first}, and better by {size} in none"
        title = _script.finding(holds, words, "Sequence ratios beside token ratios")
        look.legend(figure, axes, dict(PAIRS.values()), league.SMALLEST, title)
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
