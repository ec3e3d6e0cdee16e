"""What VCPO's step rule gains over factors that were made by another run, shuffled over updates, or kept constant."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments.vcpo_controls import LEARNED
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.vcpo_controls import ends, of

EXPERIMENTS = {"vcpo_controls": {"task": "graded"}}
AGAINST = {
    "learning": f"constant rate: VCPO's mean\nwhile return is below {LEARNED:g}",
    "constant": "constant rate: VCPO's mean\nover the entire run",
    "other": "rates of another VCPO run,\nin order",
    "shuffled": "rates of another VCPO run,\nshuffled",
}
"""Learning rates that VCPO's own are compared with, from the top down."""
NEAR = 0.02
"""Difference in return that is small."""


def shown(rows: Any) -> list[tuple[int, int]]:
    """Ends that are drawn: the last updates of every staleness."""
    return list({staleness: (staleness, horizon) for staleness, horizon in ends(rows)}.values())


def gain(rows: Any, place: tuple[int, int], against: str) -> Any:
    """Paired difference of final return, VCPO minus VCPO with other learning rates."""
    return of(rows, ("opob", "ess"), "difference", *place, against)


def draw(rows: Any) -> Figure:
    """Four controls at every staleness."""
    places = shown(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        ax = figure.subplots()
        for which, (staleness, _) in enumerate(places):
            color = _style.staleness(0.4 + 0.6 * which / len(places))
            shift = 0.2 * (which - (len(places) - 1) / 2)
            for y, against in enumerate(AGAINST):
                look.points(ax, [y + shift], gain(rows, places[which], against), sideways=True, color=color)
            look.say(ax, 0.125, 1.7 * shift, f"staleness {staleness}", color)
        ax.set_title("VCPO: learning rate × √(ESS / samples) of its own batch")
        ax.axvline(0.0, **_style.REFERENCE)
        ax.set(ylim=(3.6, -0.6), xlim=(-0.06, 0.155), ylabel="learning rates of the control")
        ax.set_xlabel("final return of VCPO minus that of the control")
        look.ticks(ax.yaxis, range(len(AGAINST)), AGAINST.values())
        look.side(ax, "right of 0: VCPO is better", 0.98, 0.4)
        ax.tick_params(axis="y", length=0)
        low = {name: [gain(rows, place, name).iloc[0].low for place in places] for name in AGAINST}
        holds = max(low["learning"]) <= NEAR and min(low["shuffled"]) > 0.0
        _script.headline(figure, holds, "VCPO beside other learning rates")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What the entry quotes: gains over every control at the last end."""
    last = ends(rows)[-1]
    found = {"high": f"{last[0]}", "long": f"{last[1]}"}
    found["replicates"] = f"{int(rows[rows.quantity == 'difference'].samples.max())}"
    for against in AGAINST:
        found[f"late_{against}"] = look.value(gain(rows, last, against).iloc[0], "+")
    middle = shown(rows)[-2]
    found["middle"] = f"{middle[0]}"
    return found | {"middle_other": look.value(gain(rows, middle, "other").iloc[0], "+")}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether VCPO's own factors do better than all others, by staleness."""
    found = []
    for place in shown(rows):
        gains = [gain(rows, place, against).iloc[0] for against in AGAINST]
        answer = decided(all(row.low > NEAR for row in gains), any(row.high <= NEAR for row in gains))
        found.append(Setting(("staleness", f"{place[0]}"), answer))
    return {"rule": found}
