"""What the figures on VCPO's regime share: the arms that are followed, curves with bands, and the two rates."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from asyncsim.plotting import _style
from experiments.vcpo_steps import BOLD, USUAL
from paper_figures import _methods, _script
from paper_figures import _vcpo as look

FOLLOWED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "synchronous": ({"law": "fresh", "arm": "RLOO"}, look.SYNCHRONOUS),
    "RLOO": ({"law": "constant", "arm": "RLOO"}, _methods.look("RLOO")),
    "truncated IS": ({"law": "constant", "arm": "TIS, sequence"}, look.TRUNCATED),
    "VCPO": ({"law": "constant", "arm": "VCPO"}, look.VCPO),
}
"""Arms by name: where their rows are, and their looks."""


def drawn(part: str, rate: str, staleness: str = "12") -> dict[str, dict[str, str]]:
    """Which rows a figure draws, with what they do not say."""
    return {"vcpo_steps": {"part": part, "task": "bits with a penalty", "rate": rate, "staleness": staleness}}


def at(rows: Any, rate: float) -> Any:
    """Rows of a rate."""
    return rows[np.isclose(rows.rate.astype(float), rate)]


def one(rows: Any, arm: str, quantity: str, rate: float, law: str = "constant") -> Any:
    """The row of an arm at a rate."""
    return at(_script.pick(rows, part="rates", law=law, arm=arm, quantity=quantity), rate).iloc[0]


def best(rows: Any, arm: str, law: str = "constant") -> Any:
    """The row of the rate at which an arm's mean return is largest."""
    own = _script.pick(rows, part="rates", law=law, arm=arm, quantity="return")
    return own.loc[own.value.astype(float).idxmax()]


def curve(rows: Any, place: dict[str, Any], quantity: str, rate: float) -> Any:
    """A quantity of an arm over updates."""
    return at(_script.pick(rows, part="curve", quantity=quantity, **place), rate).sort_values("update")


def line(ax: Axes, own: Any, **style: Any) -> None:
    """Values over updates with their band."""
    ax.plot(own["update"], own.value, color=style["color"], linewidth=1.2)
    ax.fill_between(
        own["update"].astype(float),
        own.low.astype(float),
        own.high.astype(float),
        color=style["color"],
        alpha=0.2,
        linewidth=0,
        label="95 % intervals",
    )


def percent(row: Any) -> str:
    """A share in percent."""
    return f"{100 * row.value:.0f} %"


def lag_ends(rows: Any, name: str, quantity: str, rate: float = BOLD) -> float:
    """Mean of a curve over its last tenth."""
    own = curve(rows, FOLLOWED[name][0], quantity, rate).value.astype(float)
    return float(own.iloc[-max(1, len(own) // 10) :].mean())


def sizes(rows: Any) -> dict[str, str]:
    """Runs a point, and the best synchronous rate."""
    return {"runs": f"{int(rows[rows.part == 'rates'].samples.max())}", "usual": f"{USUAL:.2g}"}


__all__ = ["BOLD", "FOLLOWED", "USUAL", "_style", "at", "best", "curve", "lag_ends", "line", "one", "percent", "sizes"]
