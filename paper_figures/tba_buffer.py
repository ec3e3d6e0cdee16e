"""How TBA's buffer is drawn from and how large it is, and resets of its reference: return and diversity."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _tba_steps as tba
from paper_figures import _vcpo as look

EXPERIMENTS = ("tba_steps",)
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "uniform 0": ("any", {"color": look.COLOR["muted"], "marker": "o"}),
    "uniform 0.95": ("recent", {"color": look.COLOR["controlled"], "marker": "^"}),
    "reward 0.5": ("half recent, half by reward", {"color": look.COLOR["tuned"], "marker": "D"}),
    "reward 0": ("by reward", {"color": look.COLOR["stale"], "marker": "s"}),
}
PRICES: dict[float, dict[str, Any]] = {
    0.05: {"color": look.COLOR["partial"], "marker": "D"},
    0.2: {"color": look.COLOR["controlled"], "marker": "^"},
}


def at(rows: Any, part: str, place: str, quantity: str, reading: str, times: float | None = 1.0, **more: Any) -> Any:
    """A row of the loop at so many best synchronous rates, or at its best."""
    return tba.at(rows, part, quantity, reading, times, task=tba.TASK, place=place, **more)


def parted(rows: Any) -> Any:
    """Settings of the buffer: rule, samples stored at an exchange, size."""
    own = rows[rows.part == "buffer"]
    pieces = own.place.str.extract(r"^(\w+ [\d.]+) (\d+) (\d+)$")
    found = own.assign(rule=pieces[0], stored=pieces[1].astype(int), size=pieces[2].astype(int))
    return found[["place", "rule", "stored", "size"]].drop_duplicates()


def whole(rows: Any, rule: str) -> Any:
    """Places of a rule whose buffer keeps everything, by samples stored at an exchange."""
    own = _script.pick(parted(rows), rule=rule)
    return own.loc[own.groupby("stored")["size"].idxmax()].sort_values("stored")


def draw_rules(ax: Axes, rows: Any, quantity: str, reading: str) -> None:
    """A quantity against the samples that are stored, a line a rule."""
    for rule, (_, style) in RULES.items():
        places = whole(rows, rule)
        own = type(rows)([at(rows, "buffer", place, quantity, reading) for place in places.place])
        look.points(ax, places.stored, own, **look.CONNECTED, **style)
    ax.set(xlabel="samples generated at every exchange", xscale="log")
    look.ticks(ax.xaxis, sorted(parted(rows).stored.unique()))


def sizes(rows: Any) -> Any:
    """Places of a buffer, half recent and half by reward, by its size."""
    own = _script.pick(parted(rows), rule="reward 0.5")
    widest = own.groupby("stored").size().idxmax()
    return own[own.stored == widest].sort_values("size")


def draw_size(ax: Axes, rows: Any) -> None:
    """Return against diversity at the end, from size to size."""
    places = sizes(rows)
    one, two = (
        type(rows)([at(rows, "buffer", place, q, "end") for place in places.place]) for q in ("distinct", "return")
    )
    style = {**RULES["reward 0.5"][1], "xerr": [one.value - one.low, one.high - one.value]}
    look.points(ax, one.value, two, **look.CONNECTED, **style)
    for size, x, y in zip(places["size"], one.value, two.value, strict=True):
        look.say(ax, x, y, f"  {size}", va="bottom")
    ax.set(xlabel="different good arms at the end", ylabel="return at the end", title="by size of the buffer")


def resets(rows: Any, beta: float) -> list[str]:
    """Updates between resets, never first and then the rarest."""
    own = _script.pick(rows, part="reset", beta=beta)
    return sorted(own.place.unique(), key=lambda each: (each != "0", -int(each)))


def draw_reset(ax: Axes, rows: Any) -> None:
    """Return against diversity at the end, from no resets to the most frequent ones."""
    for beta, style in PRICES.items():
        places = resets(rows, beta)
        one, two = (
            type(rows)([at(rows, "reset", place, q, "end", beta=beta) for place in places])
            for q in ("distinct", "return")
        )
        reach = [one.value - one.low, one.high - one.value]
        look.points(ax, one.value, two, **look.CONNECTED, **{**style, "xerr": reach})
        for place, x, y in zip(places, one.value, two.value, strict=True):
            if beta == max(PRICES):
                look.say(ax, x, y, "  never" if place == "0" else f"  {place}", style["color"], va="top")
        look.say(ax, 1.0, 0.62 - 0.06 * (beta == max(PRICES)), f"KL coefficient {beta:g}", style["color"])
    ax.set(xlabel="different good arms at the end", ylabel="return at the end", title="by resets of the reference")


def draw(rows: Any) -> Figure:
    """Rules, over training and diversity at the end; sizes; resets."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 5.0)
        axes = figure.subplots(2, 2).ravel()
        draw_rules(axes[0], rows, "return", "mean")
        axes[0].set(ylabel="mean return over training", ylim=(0.0, 0.9))
        draw_rules(axes[1], rows, "distinct", "end")
        axes[1].set(ylabel="different good arms at the end", ylim=(0.0, None))
        draw_size(axes[2], rows)
        draw_reset(axes[3], rows)
        handles = [
            axes[0].errorbar([], [], yerr=[], label=name, **{**_style.MEASURED, **look.CONNECTED, **style})
            for name, style in RULES.values()
        ]
        title = _script.finding(
            both(rows),
            "With resets a large KL coefficient returns as a small one does, more diversely",
            "Buffer and reference",
        )
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles=handles, ncols=len(handles), title=title, **more)
    return figure


def both(rows: Any) -> bool:
    """Whether rare resets at the high price return as much as the low price without them, with more different arms."""
    low, high = min(PRICES), max(PRICES)
    first, after = (at(rows, "reset", "0", q, "end", beta=low) for q in ("return", "distinct"))
    place = resets(rows, high)[1]
    one, two = (at(rows, "reset", place, q, "end", beta=high) for q in ("return", "distinct"))
    never = at(rows, "reset", "0", "return", "end", beta=high)
    return bool(one.value > first.value - 0.02 and two.low > after.high and one.low > never.high)


def numbers(rows: Any) -> dict[str, str]:
    """Return and different good arms by rule, by size and by resets, at one rate."""
    found = {"rate": f"{tba.usual(rows):g}", "runs": str(int(rows[rows.part == "buffer"].samples.max()))}
    for rule in RULES:
        key, places = rule.replace(" ", "_").replace(".", ""), whole(rows, rule).place
        for name, k in (("few", 0), ("many", -1)):
            found[f"{key}_{name}"] = f"{at(rows, 'buffer', places.iloc[k], 'return', 'mean').value:.2f}"
            found[f"{key}_{name}_distinct"] = f"{at(rows, 'buffer', places.iloc[k], 'distinct', 'end').value:.1f}"
        found[f"{key}_tuned"] = f"{at(rows, 'buffer', places.iloc[-1], 'return', 'mean', None).value:.2f}"
    stored = parted(rows).stored
    found["few"], found["many"] = str(stored.min()), str(stored.max())
    own = sizes(rows)
    for name, k in (("small", 0), ("large", -1)):
        found[name] = str(own["size"].iloc[k])
        for quantity in ("return", "distinct"):
            found[f"{name}_{quantity}"] = tba.value(at(rows, "buffer", own.place.iloc[k], quantity, "end"))
    for key, beta in (("low", min(PRICES)), ("high", max(PRICES))):
        places = resets(rows, beta)
        found[f"price_{key}"] = f"{beta:g}"
        for name, place in (("never", places[0]), ("reset", places[1])):
            for quantity in ("return", "distinct"):
                found[f"{key}_{name}_{quantity}"] = tba.value(at(rows, "reset", place, quantity, "end", beta=beta))
        found["every"] = places[1]
    return found
