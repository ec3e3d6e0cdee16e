"""Updates per second of TBA's system over a synchronous one's; how much sooner it reaches a return is numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import integrate, stats

from asyncsim.plotting import _style
from experiments import tba_speed
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"tba_speed": {"part": "speed", "task": "none (timing only)"}}
PAPER = 4.0
"""Speed-up that the abstract states."""
SHOWN = {2: ("partial", "v"), 10: ("controlled", "^"), 30: ("tuned", "D")}
"""Color and mark of each interval."""
FREE = "predicted, no waiting"
ARM, TASKS = "TBA, 10", ("noisy bandit", "noisy graded")
"""The arm that is quoted, and the tasks on which a target was timed."""


def mean(rows: Any, quantity: str, training: float, interval: int, trainers: int) -> Any:
    """A quantity of every realization."""
    place = {"part": "speed", "quantity": quantity, "training": training, "interval": interval, "trainers": trainers}
    return _script.pick(rows, **place).sort_values("realization").value.to_numpy(dtype=float)


def base(rows: Any, training: float) -> Any:
    """Seconds of a synchronous step, of every realization."""
    return mean(rows, "step_seconds", training, 0, tba_speed.MACHINES)


def speed(rows: Any, training: float, interval: int, trainers: int = 1) -> tuple[float, float]:
    """Speed over synchronous, with half of its interval between realizations."""
    return _script.interval(base(rows, training) / mean(rows, "step_seconds", training, interval, trainers))


def longest(samples: int = tba_speed.GROUPS * tba_speed.SAMPLES) -> float:
    """Expected seconds of the longest of so many samples: the integral of 1 - P(length <= t)^samples."""
    spread = tba_speed.SPREAD
    law = stats.lognorm(spread, scale=np.exp(-(spread**2) / 2.0))
    return float(integrate.quad(lambda t: 1.0 - law.cdf(t) ** samples, 0.0, np.inf, limit=200)[0])


def data(training: float, trainers: int = 1) -> float:
    """Groups a second that searchers who never wait generate, over those of a synchronous system."""
    alone = (tba_speed.MACHINES - trainers) / longest(tba_speed.SAMPLES)
    return alone * (longest() + training) / tba_speed.GROUPS


def burden(rows: Any, training: float) -> float:
    """Seconds of generation for one of training in a synchronous step."""
    return float(base(rows, training).mean() / training - 1.0)


def sooner(rows: Any, task: str, arm: str) -> tuple[float, float, float] | None:
    """Seconds of synchronous RLOO to the target over those of an arm, with its interval; None where not compared."""
    own = _script.pick(rows, part="clock", task=task, quantity="updates").dropna(subset="value").set_index("arm")
    if "RLOO, synchronous" not in own.index or arm not in own.index:
        return None
    first, there = own.loc["RLOO, synchronous"], own.loc[arm]
    factor = speed(rows, tba_speed.CLOCK, tba_speed.ARMS[arm][1])[0]
    value, low, high = first.value / there.value, first.low / there.high, first.high / there.low
    return factor * value, factor * min(low, value), factor * max(high, value)


def draw_speed(ax: Axes, rows: Any) -> None:
    """Updates per second over synchronous, against how much of a synchronous step is generation."""
    trainings = sorted(_script.pick(rows, part="speed").training.unique())
    x = [burden(rows, training) for training in trainings]
    ax.plot(x, [(longest() + each) / (each * tba_speed.MACHINES) for each in trainings], label=FREE, **_style.PREDICTED)
    names = {}
    for interval, (color, marker) in SHOWN.items():
        found = [speed(rows, training, interval) for training in trainings]
        style = {**_style.MEASURED, **look.CONNECTED, "color": look.COLOR[color], "marker": marker}
        ax.errorbar(x, [v for v, _ in found], yerr=[h for _, h in found], **style)
        names[f"{'weights exchanged' if interval == max(SHOWN) else ''}\nevery {interval} batches".strip()] = (
            found[0][0],
            look.COLOR[color],
        )
    interval = tba_speed.ARMS[ARM][1]
    factor, color = speed(rows, tba_speed.CLOCK, interval)[0], look.COLOR[SHOWN[interval][0]]
    look.say(ax, burden(rows, tba_speed.CLOCK), 0.68 * factor, f"{factor:.1f}", color, ha="center")
    ax.axhline(PAPER, **_style.REFERENCE)
    names[f"paper: {PAPER:g}"] = (PAPER, look.COLOR["muted"])
    ax.set_xlabel("generation time / training time")
    look.say(ax, 25.0, 12.0, FREE, ha="right")
    ax.set(xscale="log", yscale="log", ylabel="updates per second,\nsynchronous = 1")
    ax.set(xlim=(0.8 * min(x), 1.25 * max(x)), ylim=(0.4, 40.0))
    look.ends(ax, names)
    look.ticks(ax.yaxis, (0.5, 1, 2, 4, 8, 16, 32))
    look.ticks(ax.xaxis, (3, 10, 30, 100))


def draw(rows: Any) -> Figure:
    """Speed against the share of generation."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        draw_speed(figure.subplots(), rows)
        factor, half = speed(rows, tba_speed.CLOCK, tba_speed.ARMS[ARM][1])
        _script.headline(figure, factor - half >= PAPER, "Updates per second against the time of generation")
    return figure


def times(found: tuple[float, float, float] | None) -> str:
    """A factor with the ends of its interval."""
    return "not compared" if found is None else f"{found[0]:.1f} ({found[1]:.1f} to {found[2]:.1f})"


def said(own: Any) -> str:
    """A difference in return with its word."""
    if not len(own):
        return "not compared"
    size = f" ({own.value.iloc[0]:+.2f})".replace("-", "−") if abs(own.value.iloc[0]) >= 0.005 else ""
    return f"{own.word.iloc[0]}{size}"


def numbers(rows: Any) -> dict[str, str]:
    """Speed by interval, times to the target, and what searchers gain."""
    found = {}
    for interval in SHOWN:
        found[f"speed_{interval}"] = f"{speed(rows, tba_speed.CLOCK, interval)[0]:.1f}"
    found["stale_10"] = f"{mean(rows, 'staleness', tba_speed.CLOCK, 10, 1).mean():.0f}"
    found["data"] = f"{data(tba_speed.CLOCK):.1f}"
    found["burden"] = f"{burden(rows, tba_speed.CLOCK):.0f}"
    for task in TASKS:
        found[f"{task.split()[1]}_tba_10"] = times(sooner(rows, task, ARM))
    known = [own for task in TASKS if (own := sooner(rows, task, ARM)) is not None]
    found["most_sooner"] = f"{max(high for _, _, high in known):.1f}" if known else "not compared"
    quick = float(_script.pick(rows, part="speed").training.max())
    found |= {"light": f"{burden(rows, quick):.1f}", "light_10": f"{speed(rows, quick, 10)[0]:.2f}"}
    searched = _script.pick(rows, part="search", task="graded", quantity="difference", arm="16")
    return found | {"graded_search_16": said(searched)}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether TBA is at least as fast as the paper says, in updates per second and to a target."""
    found = []
    for interval in SHOWN:
        for training in sorted(_script.pick(rows, part="speed").training.unique(), reverse=True):
            value, half = speed(rows, training, interval)
            place = ("updates per second", f"every {interval} batches", f"{burden(rows, training):.0f}")
            found.append(Setting(place, decided(value - half >= PAPER, value + half < PAPER)))
    for task in TASKS:
        if (ratio := sooner(rows, task, ARM)) is not None:
            found.append(Setting(("speed to a target", task), decided(ratio[1] >= PAPER, ratio[2] < PAPER)))
    return {"times": found}
