"""Resets of TBA's reference at two KL coefficients: return and diversity at the end."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _tba_steps as tba
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.tba_buffer import PRICES, at, resets

EXPERIMENTS = {"tba_steps": {"part": "reset", "rate": "best synchronous"}}
LOOKS: dict[float, dict[str, Any]] = {
    PRICES[0]: {"color": look.COLOR["partial"], "marker": "D"},
    PRICES[1]: {"color": look.COLOR["controlled"], "marker": "^"},
}


def draw_resets(ax: Axes, rows: Any, quantity: str) -> None:
    """A quantity at the end against how often the reference is reset, a line a KL coefficient."""
    names = {}
    for beta, style in LOOKS.items():
        places = resets(rows, beta)
        own = type(rows)([at(rows, "reset", place, quantity, "end", beta=beta) for place in places])
        look.points(ax, range(len(places)), own, **look.CONNECTED, **style)
        names[f"KL coefficient {beta:g}"] = (float(own.value.iloc[-1]), style["color"])
    look.ticks(ax.xaxis, range(len(places)), ["no reset" if place == "0" else place for place in places])
    ax.set(xlabel="updates between resets of TBA's reference policy")
    ax.set_ylim(0.0, None)
    look.ends(ax, names)


def draw(rows: Any) -> Figure:
    """Return, diversity."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        left, right = figure.subplots(1, 2)
        draw_resets(left, rows, "return")
        left.set(ylabel="return of the trained policy", title="Return after training")
        draw_resets(right, rows, "distinct")
        right.set(ylabel="different good arms in 64 samples", title="Diversity after training")
        _script.headline(
            figure, both(rows) and fewer(rows), "Return and diversity at the end by resets of the reference"
        )
    return figure


def fewer(rows: Any) -> bool:
    """Whether rare resets at the high price leave fewer different arms than none."""
    places = resets(rows, max(PRICES))[:2]
    never, rare = (at(rows, "reset", place, "distinct", "end", beta=max(PRICES)) for place in places)
    return bool(rare.high < never.low)


def both(rows: Any) -> bool:
    """Whether rare resets at the high price return as much as the low price without them, with more different arms."""
    low, high = min(PRICES), max(PRICES)
    first, after = (at(rows, "reset", "0", q, "end", beta=low) for q in ("return", "distinct"))
    place = resets(rows, high)[1]
    one, two = (at(rows, "reset", place, q, "end", beta=high) for q in ("return", "distinct"))
    never = at(rows, "reset", "0", "return", "end", beta=high)
    return bool(one.value > first.value - 0.02 and two.low > after.high and one.low > never.high)


def numbers(rows: Any) -> dict[str, str]:
    """Returns with resets stand beside those of the buffer."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether resets of the reference raise the final return, by KL coefficient, rate and updates between resets."""
    found = []
    for beta in PRICES:
        for reading, times in (("one rate", 1.0), ("tuned rates", None)):
            never, *more = resets(rows, beta)
            without, *others = (at(rows, "reset", place, "return", "end", times, beta=beta) for place in (never, *more))
            for place, own in zip(more, others, strict=True):
                apart, reach = own.value - without.value, tba.reach(own, without)
                answer = decided(apart > max(reach, tba.SMALLEST), apart + reach < tba.SMALLEST)
                found.append(Setting((f"coefficient {beta:g}, {reading}", place), answer, beta == max(PRICES)))
    return {"raised": found}
