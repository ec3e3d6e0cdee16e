"""How TBA's buffer is drawn from: return and diversity."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import tba_steps
from paper_figures import _script
from paper_figures import _tba_steps as tba
from paper_figures import _vcpo as look
from paper_figures._claim import Setting

EXPERIMENTS = {"tba_steps": {"part": "buffer", "rate": "best synchronous"}}
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "uniform 0": ("uniform", {"color": look.COLOR["muted"], "marker": "o"}),
    "uniform 0.95": ("recent", {"color": look.COLOR["controlled"], "marker": "^"}),
    "reward 0.5": ("half reward,\nhalf recent", {"color": look.COLOR["tuned"], "marker": "D"}),
    "reward 0": ("by reward", {"color": look.COLOR["stale"], "marker": "s"}),
}
PRICES = (0.05, 0.2)
"""KL coefficients whose resets are quoted."""


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


def draw_rules(ax: Axes, rows: Any, quantity: str, reading: str, top: float | None = None) -> None:
    """A quantity against the samples that are stored, a line a rule."""
    names = {}
    for rule, (name, style) in RULES.items():
        places = whole(rows, rule)
        own = type(rows)([at(rows, "buffer", place, quantity, reading) for place in places.place])
        look.points(ax, places.stored, own, **look.CONNECTED, **style)
        names[name] = (float(own.value.iloc[-1]), style["color"])
    ax.set(xlabel="samples generated per exchange of weights", xscale="log")
    look.ticks(ax.xaxis, sorted(parted(rows).stored.unique()))
    ax.set_ylim(0.0, top)
    look.ends(ax, names, gap=0.11)


def sizes(rows: Any) -> Any:
    """Places of a buffer, half recent and half by reward, by its size."""
    own = _script.pick(parted(rows), rule="reward 0.5")
    widest = own.groupby("stored").size().idxmax()
    return own[own.stored == widest].sort_values("size")


def resets(rows: Any, beta: float) -> list[str]:
    """Updates between resets, never first and then the rarest."""
    own = _script.pick(rows, part="reset", beta=beta)
    return sorted(own.place.unique(), key=lambda each: (each != "0", -int(each)))


def draw(rows: Any) -> Figure:
    """Rules, over training and diversity at the end."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        left, right = figure.subplots(1, 2)
        draw_rules(left, rows, "return", "end", 1.0)
        left.set(ylabel="mean return at the end", title="Return")
        draw_rules(right, rows, "distinct", "end")
        right.set(
            ylabel=f"different good arms (of {tba_steps.GOOD})\nin {tba_steps.DRAWS} draws at the end",
            title="Diversity",
        )
        _script.headline(figure, traded(rows), "Return and diversity by how the buffer is drawn from")
    return figure


def traded(rows: Any) -> bool:
    """Whether, of most samples, those by reward alone return far less but no fewer arms; the mixture most arms."""
    ends = {rule: whole(rows, rule).place.iloc[-1] for rule in RULES}
    mean = {rule: at(rows, "buffer", place, "return", "end") for rule, place in ends.items()}
    arms = {rule: at(rows, "buffer", place, "distinct", "end") for rule, place in ends.items()}
    mixed, alone = "reward 0.5", "reward 0"
    others = [rule for rule in RULES if rule != alone]
    poor = all(mean[alone].high < mean[rule].low - 0.2 for rule in others)
    poor &= all(
        at(rows, "buffer", own, "return", "end").high < at(rows, "buffer", place, "return", "end").low
        for rule in others
        for own, place in zip(whole(rows, alone).place, whole(rows, rule).place, strict=True)
    )
    poor &= arms[alone].low > max(arms["uniform 0"].high, arms["uniform 0.95"].high)
    return poor and all(arms[mixed].low > arms[rule].high for rule in RULES if rule != mixed)


def numbers(rows: Any) -> dict[str, str]:
    """Return and different good arms by rule, by size and by resets, at one rate."""
    found = {}
    for rule in RULES:
        key, places = rule.replace(" ", "_").replace(".", ""), whole(rows, rule).place
        for name, k in (("few", 0), ("many", -1)):
            found[f"{key}_{name}"] = f"{at(rows, 'buffer', places.iloc[k], 'return', 'mean').value:.2f}"
        found[f"{key}_many_distinct"] = f"{at(rows, 'buffer', places.iloc[-1], 'distinct', 'end').value:.1f}"
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


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether recent samples gain more with more samples, and whether draws by reward return more than uniform ones."""
    found: dict[str, list[Setting]] = {"recent": [], "reward": []}
    for reading, times in (("one rate", 1.0), ("tuned rates", None)):
        gains = []
        for k, stored in enumerate(whole(rows, "uniform 0").stored):
            base, recent, paid = (
                at(rows, "buffer", whole(rows, rule).place.iloc[k], "return", "mean", times)
                for rule in ("uniform 0", "uniform 0.95", "reward 0")
            )
            gains.append((recent.value - base.value, tba.reach(recent, base)))
            apart, reach = paid.value - base.value, tba.reach(paid, base)
            place = (f"many arms, {reading}", str(stored))
            found["reward"].append(Setting(place, tba.better(apart - reach, apart + reach)))
        found["recent"].append(Setting((f"samples per exchange: many arms, {reading}",), tba.grown(gains)))
    return found
