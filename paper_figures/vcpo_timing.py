"""What VCPO's step rule gains over factors that were made by another run, shuffled over updates, or kept constant."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _vcpo as look
from paper_figures._script import finding
from paper_figures.vcpo_controls import ends, of

EXPERIMENTS = {"vcpo_controls": {"task": "graded"}}
AGAINST = {
    "other": "factors of another VCPO run,\nat the same updates",
    "shuffled": "factors of another VCPO run,\nshuffled over updates",
    "constant": "constant factor: VCPO's mean\nover the whole run",
    "learning": "constant factor: VCPO's mean\nwhile its return is below 0.9",
}
"""What the factors on the learning rate are that VCPO's own are compared with, from the top down."""
NEAR = 0.02
"""Difference in return that is small."""
SHADE = {8: 0.4, 32: 0.7, 128: 1.0}
"""Place of a staleness on the ramp."""


def draw_gains(ax: Axes, rows: Any) -> None:
    """Paired differences of final return, VCPO minus VCPO with other factors; hollow after more updates."""
    places = ends(rows)
    for y, against in enumerate(AGAINST):
        for which, place in enumerate(places):
            own = of(rows, ("opob", "ess"), "difference", *place, against)
            fill = look.HOLLOW if place[1] > places[0][1] else {}
            style = {"color": _style.staleness(SHADE[place[0]]), **fill}
            look.points(ax, [y + 0.2 * (which - (len(places) - 1) / 2)], own, sideways=True, **style)
    ax.axvline(0.0, **_style.REFERENCE)
    ax.set(ylim=(3.6, -0.6), xlim=(-0.1, 0.2))
    ax.set(xlabel="final return of VCPO − final return of the control (right: VCPO is better)")
    ax.set_ylabel("control: learning rate times")
    look.ticks(ax.yaxis, range(len(AGAINST)), AGAINST.values())
    ax.tick_params(axis="y", length=0)


def draw(rows: Any) -> Figure:
    """Four controls at every end."""
    places = ends(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        ax = figure.subplots()
        draw_gains(ax, rows)
        gains = {
            name: [of(rows, ("opob", "ess"), "difference", *place, name).iloc[0] for place in places]
            for name in AGAINST
        }
        as_well = all(row.low <= NEAR for row in gains["learning"]) and any(row.low > 0.0 for row in gains["constant"])
        words = "A constant learning rate (VCPO's mean while it learns) does as well as VCPO"
        figure.suptitle(finding(as_well, words, "VCPO beside other learning rates"), x=0.01, ha="left")
        for which, (staleness, horizon) in enumerate(places):
            late = f", {horizon} updates (hollow)" if horizon > places[0][1] else ""
            y = 0.24 * (which - (len(places) - 1) / 2)
            look.say(ax, 0.085, y, f"staleness {staleness}{late}", _style.staleness(SHADE[staleness]))
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What the entry quotes: gains over each control at the ends."""
    places = ends(rows)
    named = dict(zip(("low", "middle", "late"), (places[0], places[len(places) // 2 - 1], places[-1]), strict=True))
    found = {"low": f"{places[0][0]}", "middle": f"{named['middle'][0]}", "high": f"{places[-1][0]}"}
    found |= {"long": f"{places[-1][1]}", "replicates": f"{int(rows[rows.quantity == 'difference'].samples.max())}"}
    for name, place in named.items():
        for against in AGAINST:
            found[f"{name}_{against}"] = look.value(
                of(rows, ("opob", "ess"), "difference", *place, against).iloc[0], "+"
            )
    return found
