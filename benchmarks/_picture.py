"""The figure of the page: ratios to every peer, and how cost grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from asyncsim.plotting import _style

PEERS = {
    "bandit_vs_numpy": "NumPy, bandit",
    "bandit_vs_jax": "JAX threefry, bandit",
    "bandit_vs_jax_rbg": "JAX rbg, bandit",
    "cartpole_vs_sb3": "stable-baselines3, CartPole",
    "generate_vs_transformers": "transformers, generate",
    "events_vs_simpy": "SimPy, events",
    "events_vs_salabim": "salabim, events",
    "events_vs_heap": "heapq in Python, events",
    "events_vs_compiled_heap": "compiled heap, events",
    "events_full_vs_simpy": "SimPy, record",
    "events_full_vs_ciw": "ciw, record",
    "slots_vs_simpy": "SimPy, slots",
}


def draw(found: dict[str, Any], path: Path) -> None:
    """Write the figure of four panels."""
    curves = found["growth"]
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 4.8)
        axes = figure.subplots(2, 2)
        ratios(axes[0, 0], found["benchmarks"])
        curve(axes[0, 1], "Replicates share the cost of an update", "replicates")
        line(axes[0, 1], curves["replicates"], "measured", "", per_size=True)
        axes[0, 1].set_ylabel("update of one replicate (µs)")
        curve(axes[1, 0], "Staleness costs little", "samples, tokens or versions")
        axes[1, 0].set_ylabel("update of all replicates (ms)")
        for name, color in (("samples", "measured"), ("tokens", "contrast"), ("staleness", "synchronous")):
            line(axes[1, 0], curves[name], color, name, scale=1e3)
        axes[1, 0].legend()
        curve(axes[1, 1], "Long simulations cost least a sample", "samples of the simulation")
        axes[1, 1].set_ylabel("one sample (µs)")
        for name, color, text in (("timeline", "contrast", "with its record"), ("summary", "measured", "summary only")):
            line(axes[1, 1], curves[name], color, text, per_size=True)
        axes[1, 1].legend()
        _style.write(figure, path)


def ratios(ax: Axes, rows: list[dict[str, Any]]) -> None:
    """Median and range of the ratio to every peer that was there; bars where a target stands."""
    known = {row["name"]: row for row in rows}
    names = [name for name in PEERS if name in known][::-1]
    for place, name in enumerate(names):
        row = known[name]
        errors = [[row["ratio"] - row["low"]], [row["high"] - row["ratio"]]]
        ax.errorbar(row["ratio"], place, xerr=errors, color=_style.COLORS["measured"], **_style.MEASURED)
        if row["target"]:
            ax.plot(row["target"], place, marker="|", markersize=9, color=_style.COLORS["contrast"])
    ax.axvline(1.0, color=_style.COLORS["muted"], linewidth=0.7)
    ax.set_xscale("log")
    ax.set_yticks(range(len(names)), [PEERS[name] for name in names])
    ax.set_xlabel("rate over the peer's (bar: target)")
    ax.set_title("Against each peer")


def curve(ax: Axes, title: str, label: str) -> None:
    """An empty panel with both axes logarithmic."""
    ax.set(xscale="log", yscale="log", xlabel=label, title=title)


def line(
    ax: Axes, points: list[tuple[int, float]], color: str, text: str, per_size: bool = False, scale: float = 1e6
) -> None:
    """Seconds over size, of one unit of size where asked."""
    sizes = [size for size, _ in points]
    values = [scale * seconds / (size if per_size else 1) for size, seconds in points]
    ax.plot(sizes, values, marker="o", markersize=3.5, color=_style.COLORS[color], label=text)
