"""Return against hours of synchronous training, truncated IS and VCPO; seconds of a step against length, by part."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments.vcpo_hours import MAIN, PAPER
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures import _vcpo_steps as steps
from paper_figures._vcpo_hours import gain, machine, pick, step_of

EXPERIMENTS = {
    "vcpo_hours": {"task": "bits with a penalty", "staleness": (0, 2), "tuned": True},
    "vcpo_seconds": {"staleness": (0, 2)},
}
ARMS: dict[str, tuple[dict[str, Any], str]] = {
    "synchronous": ({"staleness": 0, "method": "tis"}, look.COLOR["synchronous"]),
    "truncated IS, staleness 2": ({"staleness": PAPER, "method": "tis"}, look.COLOR["stale"]),
    "VCPO, staleness 2": ({"staleness": PAPER, "method": "vcpo"}, look.COLOR["controlled"]),
}

EARLY = 3.0
"""Hours at which both asynchronous arms still learn."""


def learned(hours: Any, place: dict[str, Any]) -> Any:
    """Return of an arm at its own rate, over hours."""
    own = {**machine(*MAIN), **place}
    return pick(hours, "return", step=step_of(hours, own), **own).sort_values("hour")


def seconds(rows: Any, staleness: int, quantity: str) -> Any:
    """A part of the step over lengths."""
    return _script.pick(rows, staleness=staleness, quantity=quantity).sort_values("length")


def draw_seconds(ax: Axes, rows: Any) -> None:
    """Steps of both systems, and what training alone takes."""
    for name, staleness, quantity, looks in (
        ("synchronous step", 0, "step", look.SYNCHRONOUS),
        (f"asynchronous step, staleness {PAPER}", PAPER, "step", look.VCPO),
        ("training and weight transfer alone", 0, "training", {"color": look.COLOR["muted"], "marker": "D"}),
    ):
        own = seconds(rows, staleness, quantity)
        look.points(ax, own.length, own, **look.CONNECTED, **{**looks, "markersize": 3.5})
        ax.plot([], [], label=name, **look.CONNECTED, **{**looks, "markersize": 3.5})
    ax.set(
        xscale="log", yscale="log", xlabel="mean response length (tokens)", ylabel="simulated seconds", ylim=(None, 2e4)
    )
    ax.set_title("Time per step")
    ax.legend(loc="upper left", fontsize=7)


def quicker(rows: Any) -> bool:
    """Whether the asynchronous step is shorter at every length."""
    fresh, old = seconds(rows, 0, "step"), seconds(rows, PAPER, "step")
    return bool((old.high.to_numpy() < fresh.low.to_numpy()).all())


def draw(hours: Any, rows: Any) -> Figure:
    """Curves left, seconds right."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2)
        for place, color in ARMS.values():
            own = learned(hours, place)
            steps.line(left, own.assign(update=own.hour), color=color)
        left.set(title="Return over time", xlabel="simulated hours", ylabel="return of the trained policy")
        draw_seconds(right, rows)
        words = "Asynchronous training reaches the same return in fewer hours, with VCPO or without"
        both = [gain(hours, {**machine(*MAIN), **place}, draws=200) for place, _ in list(ARMS.values())[1:]]
        holds = quicker(rows) and all(found is not None and found[1] > 1.0 for found in both)
        title = _script.finding(holds, words, "Return over hours, and seconds per step by length")
        steps.key(figure, {name: color for name, (_, color) in ARMS.items()}, title)
    return figure


def numbers(hours: Any, rows: Any) -> dict[str, str]:
    """Returns at the same hour, and steps of the longest and the shortest length."""
    found = {"paper": f"{PAPER}", "early": f"{EARLY:g}"}
    fresh = learned(hours, ARMS["synchronous"][0])
    reached = fresh[fresh.value.astype(float) >= 0.5]
    hour = float(reached.hour.iloc[0]) if len(reached) else float(fresh.hour.iloc[-1])
    found["hour"] = f"{hour:g}"
    for short, (place, _) in zip(("sync", "tis", "vcpo"), ARMS.values(), strict=True):
        own = learned(hours, place)
        for key, then in (("return", hour), ("early", EARLY)):
            at = own.loc[(own.hour.astype(float) - then).abs().idxmin()] if len(own) else None
            found[f"{short}_{key}"] = "no value" if at is None else f"{at.value:.2f}"
    for name, length in (("short", rows.length.min()), ("long", rows.length.max())):
        step, old = (_script.pick(seconds(rows, s, "step"), length=length).value.iloc[0] for s in (0, PAPER))
        found[f"{name}_length"] = f"{int(length):,}"
        found[f"{name}_speed"] = f"{step / old:.2f}"
    return found
