"""PipelineRL: staleness along a sample, and effective samples against lag."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.base import laws
from asyncsim.plotting import _style
from experiments import pipeline_rl
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"pipeline_rl": {"part": "ess", "rate": "0.2", "staleness": "measured"}}
TASKS = {"bandit": "bandit", "graded": "graded", "sparse": "sparse"}
PIPELINE: dict[str, Any] = {"color": look.COLOR["controlled"], "marker": "^"}
CONVENTIONAL: dict[str, Any] = {"color": look.COLOR["stale"], "marker": "o"}


def predicted(sigma: float, places: np.ndarray) -> np.ndarray:
    """Staleness of the first token less the publishes expected since: samples begin at a publish."""
    law = laws.as_law("length", f"lognormal:1.0:{sigma}")
    publishes = np.arange(1, 400)[:, None]
    return pipeline_rl.HEAD - law.survival(publishes / (pipeline_rl.PUBLISHES * np.maximum(places, 1e-9))).sum(0)


def speed(rows: Any, steps: int) -> tuple[float, float, float]:
    """Mean lag, seconds of a step with half of its interval, of the share that trains fastest."""
    own = _script.pick(rows, part="speed", steps=steps)
    own = own[own.share == own.groupby("share").seconds.mean().idxmin()]
    seconds = _script.interval(own.seconds.to_numpy())
    return float(own.lag.mean()), *seconds


def conventional(rows: Any, part: str) -> list[int]:
    """Numbers of optimizer steps to a generation that were measured."""
    return sorted(int(s) for s in _script.pick(rows, part=part).steps.unique() if s > 0)


def fastest(rows: Any, task: str, steps: int) -> Any:
    """The row of the best rate of an arm."""
    return _script.pick(rows, part="learning", task=task, steps=steps, chosen=True).iloc[0]


def best(rows: Any, task: str) -> Any:
    """The fastest conventional arm's row at its best rate."""
    found = [fastest(rows, task, steps) for steps in conventional(rows, "learning")]
    return min(found, key=lambda row: float(row.value))


def draw_stairs(ax: Axes, rows: Any) -> bool:
    """Tokens of samples whose lengths have the largest spread, on the prediction; whether later ones are fresher."""
    sigma = pipeline_rl.SPREADS[-1]
    found = _script.pick(rows, part="stairs", sigma=sigma).groupby("place").value.apply(_script.interval)
    fine = np.linspace(0.0, 1.0, 200)
    ax.plot(fine, predicted(sigma, fine), **_style.PREDICTED)
    shown = found.iloc[::4]
    means, reach = zip(*shown, strict=True)
    ax.errorbar(shown.index, means, yerr=reach, **{**_style.MEASURED, **PIPELINE})
    ax.set(
        xlabel="position in the sample (0: first token)", ylabel="staleness of the token (versions)", ylim=(8.0, 16.5)
    )
    means = _script.pick(rows, part="stairs", sigma=sigma).groupby("place").value.mean()
    ax.set_title(f"Samples that take {pipeline_rl.PUBLISHES} updates on average")
    return bool(round(means.iloc[0]) == pipeline_rl.HEAD and means.iloc[-1] < means.iloc[0] - 1.0)


def draw_lag(ax: Axes, rows: Any, part: str, value: Any) -> None:
    """A quantity of conventional arms against their lag, and PipelineRL's: means with half of their intervals."""
    own = conventional(rows, part)
    for steps, more in ((own, {**look.CONNECTED, **CONVENTIONAL}), ([0], {**PIPELINE, "markersize": 6.0})):
        means, reach = zip(*map(value, steps), strict=True)
        ax.errorbar([speed(rows, each)[0] for each in steps], means, yerr=reach, **{**_style.MEASURED, **more})
    ax.set(xlabel="mean staleness of a token (versions)")


def ess(rows: Any, steps: int) -> tuple[float, float]:
    """Effective samples of a batch over its samples, with half of the interval."""
    own = _script.pick(rows, part="ess", steps=steps).iloc[0]
    return float(own.value), float(own.high - own.low) / 2.0


def sooner(rows: Any, task: str, steps: int) -> tuple[float, float, float]:
    """Seconds of a conventional arm over PipelineRL's, each at its best rate, with the widest interval of the ratio."""
    base, other = fastest(rows, task, 0), fastest(rows, task, steps)
    return other.value / base.value, other.low / base.high, other.high / base.low


def near(rows: Any) -> int:
    """The number of conventional steps whose lag is nearest to PipelineRL's."""
    lag = speed(rows, 0)[0]
    return min(conventional(rows, "speed"), key=lambda each: abs(speed(rows, each)[0] - lag))


def draw(rows: Any) -> Figure:
    """Staleness along a sample, and what it does to the effective samples."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2)
        fresher = draw_stairs(left, rows)
        draw_lag(right, rows, "ess", lambda steps: ess(rows, steps))
        same = abs(ess(rows, 0)[0] - ess(rows, near(rows))[0]) < 0.05
        right.set(ylabel="effective sample size (ESS) / samples", title="Effective samples", ylim=(0.8, 1.02))
        _script.headline(figure, fresher and same, "PipelineRL: staleness along a sample, and ESS")
        lag = speed(rows, 0)[0]
        look.say(right, lag, ess(rows, 0)[0] - 0.05, "PipelineRL\n(in flight)", PIPELINE["color"], ha="center")
        look.say(right, 2.2 * lag, 0.93, "conventional\n(alternating)", CONVENTIONAL["color"], ha="center")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Prediction's error, speeds, effective samples, and how much sooner a return is there."""
    stairs = _script.pick(rows, part="stairs").groupby(["sigma", "place"]).value.mean().reset_index()
    off = max(abs(row.value - predicted(row.sigma, np.array([row.place]))[0]) for row in stairs.itertuples())
    lag, seconds, _ = speed(rows, 0)
    steps = conventional(rows, "speed")
    beside = near(rows)
    found = {"off": f"{off:.2f}", "lag": f"{lag:.1f}", "seconds": f"{seconds:.2f}"}
    found |= {"near_lag": f"{speed(rows, beside)[0]:.1f}", "near_seconds": f"{speed(rows, beside)[1]:.2f}"}
    found |= {"last_seconds": f"{speed(rows, steps[-1])[1]:.2f}"}
    found |= {"ess": f"{ess(rows, 0)[0]:.2f}", "near_ess": f"{ess(rows, beside)[0]:.2f}"}
    found["last_ess"] = f"{ess(rows, steps[-1])[0]:.2f}"
    for task in TASKS:
        base, other = fastest(rows, task, 0), best(rows, task)
        found[f"{task}_pipeline"] = look.spread(base, 1)
        found[f"{task}_conventional"] = look.spread(other, 1)
    ratios = [sooner(rows, task, each) for task in TASKS for each in conventional(rows, "learning")]
    found |= {"all": str(len(ratios)), "sooner": str(sum(low > 1.0 for _, low, _ in ratios))}
    found["twice"] = str(sum(low >= 2.0 for _, low, _ in ratios))
    ends = [sooner(rows, task, int(best(rows, task).steps)) for task in TASKS]
    found["undecided"] = str(sum(low <= 1.0 <= high for _, low, high in ends))
    return found | {"tasks": str(len(TASKS)), "target": f"{pipeline_rl.TARGET:g}", "head": str(pipeline_rl.HEAD)}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether ESS is higher than in conventional training, by steps per generation."""
    (value, half), found = ess(rows, 0), []
    for steps in conventional(rows, "ess"):
        other, reach = ess(rows, steps)
        apart, both = value - other, math.hypot(half, reach)
        found.append(Setting(("graded, steps per generation", str(steps)), decided(apart > both, apart < -both)))
    return {"close": found}
