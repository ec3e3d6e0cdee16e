"""VCPO and its parts at staleness 128: final return at the synchronous learning rate, and at tuned ones."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

NOISY = {"graded": "fraction of correct tokens plus noise"}
EXPERIMENTS = {"vcpo_controls": {"task": "graded", "staleness": 128, "means": NOISY}}
PART: dict[str, Any] = {"color": look.COLOR["partial"]}
ARMS: dict[str, tuple[str, tuple[str, str], tuple[str, str], dict[str, Any]]] = {
    "tis": ("truncated IS", ("group mean", "plain"), ("group mean", "tuned"), look.TRUNCATED),
    "rule": ("+ VCPO's step rule", ("group mean", "ess"), ("group mean", "tuned ess"), {**PART, "marker": "D"}),
    "baseline": ("+ VCPO's baseline", ("opob", "plain"), ("opob", "tuned"), {**PART, "marker": "d"}),
    "vcpo": ("+ both: VCPO", ("opob", "ess"), ("opob", "tuned ess"), look.VCPO),
}
"""What an arm is called, its rows at the synchronous learning rate and at its own, and its look, from the top down."""
OLD, LEARNED, ALIKE = 32, 0.9, 0.01
"""Staleness from which on it is high; final return of a run that has learned the task; differences that are none."""


def ends(rows: Any) -> list[tuple[int, int]]:
    """Staleness and updates of every end that is read."""
    own = rows[rows.quantity == "final"]
    return sorted({(int(s), int(u)) for s, u in zip(own.staleness, own.horizon, strict=True)})


def of(rows: Any, arm: tuple[str, str], quantity: str, staleness: int, horizon: int, against: str = "") -> Any:
    """The rows of a quantity of an arm at one end: one."""
    place = (rows.baseline == arm[0]) & (rows.arm == arm[1]) & (rows.quantity == quantity) & (rows.against == against)
    return rows[place & (rows.staleness == staleness) & (rows.horizon == horizon)]


def draw_arms(ax: Axes, rows: Any, tuned: bool) -> None:
    """Final return of every arm at the largest staleness; hollow after the larger number of updates."""
    for y, (_, untuned, retuned, style) in enumerate(ARMS.values()):
        for (staleness, horizon), side in zip(ends(rows)[-2:], (-0.14, 0.14), strict=True):
            own = of(rows, retuned if tuned else untuned, "final", staleness, horizon)
            fill = look.HOLLOW if side > 0 else {}
            look.points(ax, [y + side], own, sideways=True, **{**style, "markersize": 4.5, **fill})
            if tuned and side < 0:
                look.say(ax, 0.02, y, f"rate {own.step.iloc[0]:g}")
    ax.axvline(1.0, **_style.REFERENCE)
    ax.set(xlim=(0, 1.06), ylim=(3.5, -0.6), xlabel="final return (maximum: 1)")


def holds(rows: Any) -> bool:
    """Whether VCPO ends higher than truncated IS at one rate; whether at tuned rates all long runs end alike."""
    one = [[of(rows, ARMS[arm][1], "final", *place).iloc[0] for arm in ("tis", "vcpo")] for place in ends(rows)[-2:]]
    long = [of(rows, own[2], "final", *ends(rows)[-1]).value.iloc[0] for own in ARMS.values()]
    return all(vcpo.low > tis.high for tis, vcpo in one) and max(long) - min(long) < ALIKE


def draw(rows: Any) -> Figure:
    """Untuned and tuned side by side."""
    (_, short), (_, late) = ends(rows)[-2:]
    rate = rows[rows.arm == "ess"].step.iloc[0]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, tuned in zip(axes, (False, True), strict=True):
            draw_arms(ax, rows, tuned)
            ax.tick_params(axis="y", length=0)
        axes[0].set_title(f"One learning rate, {rate:g}, for all")
        axes[1].set_title("Each at its own tuned learning rate")
        look.say(axes[0], 0.98, -0.42, f"filled: {short} updates; hollow: {late}", look.COLOR["muted"], ha="right")
        _script.headline(figure, holds(rows), "VCPO and its parts")
        look.ticks(axes[0].yaxis, range(len(ARMS)), [name for name, *_ in ARMS.values()])
        for tick, (*_, style) in zip(axes[0].get_yticklabels(), ARMS.values(), strict=True):
            tick.set_color(style["color"])
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What the entry quotes: final returns at both ends of the largest staleness, some at untuned rates."""
    places = ends(rows)
    named = {"high": places[-2], "late": places[-1]}
    counts = rows[rows.quantity == "final"].groupby("staleness").samples.max()
    found = {"fewer": f"{counts.iloc[-1]}", "short": f"{places[-2][1]}", "long": f"{places[-1][1]}"}
    found["high"] = f"{places[-1][0]}"
    for key, (_, untuned, retuned, _) in ARMS.items():
        for name, place in named.items():
            found[f"{name}_{key}_tuned"] = look.value(of(rows, retuned, "final", *place).iloc[0])
            if name == "late" or key in ("baseline", "vcpo"):
                found[f"{name}_{key}"] = look.value(of(rows, untuned, "final", *place).iloc[0])
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether VCPO learns the task on old data and truncated IS does not, by rate, staleness and updates."""
    found = []
    for reading, which in (("one rate", 1), ("tuned rates", 2)):
        for place in (place for place in ends(rows) if place[0] >= OLD):
            tis, vcpo = (of(rows, ARMS[arm][which], "final", *place).iloc[0] for arm in ("tis", "vcpo"))
            answer = decided(vcpo.low > LEARNED > tis.high, vcpo.high < LEARNED or tis.low > LEARNED)
            found.append(Setting((f"{reading}, staleness {place[0]}", f"{place[1]} updates"), answer))
    return {"prior": found}
