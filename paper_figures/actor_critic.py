"""Actor-critic methods on gymnasium: return against staleness, and what A3C's workers gain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import actor_critic
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

_TABLED = dict.fromkeys(("task", "rate", "staleness", "seeds"), "")
EXPERIMENTS = {
    "actor_critic": {"part": "returns", "task": ("lake", "cliff"), "chosen": True},
    "cartpole_staleness": _TABLED,
}
"""Of CartPole, the entry has a table alone."""
DRAWN = {"cliff": "CliffWalking (grid world)", "lake": "FrozenLake (grid world)"}
"""Tasks of the picture, with their titles."""
TASKS = {"lake": "FrozenLake (grid world)", "cliff": "CliffWalking (grid world)", "cartpole": "CartPole"}
RETURNS = {"lake": "final return", "cliff": "final return divided by 100"}
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "a2c": ("A2C", _methods.look("A2C")),
    "a3c": ("A3C", {"color": look.COLOR["muted"], "marker": "o"}),
    "vtrace": ("V-trace", _methods.look("V-trace")),
    "ppo_proximal": ("PPO, recomputed log-probs", _methods.look("PPO, recomputed")),
    "ppo_behavior": ("PPO, recorded log-probs", _methods.look("PPO")),
}
SHOWN = ("a2c", "vtrace", "ppo_proximal", "ppo_behavior")
"""Arms of the picture."""
AS_FRESH = {"a3c": "a2c", "vtrace": "a2c", "ppo_behavior": "ppo_proximal"}
"""Arms that are another one without staleness."""
ANCHORS = {"none": "ppo_proximal", "behavior": "ppo_behavior"}
NEAR = {"a2c": "a2c", "vtrace": "vtrace", "ppo_proximal": "ppo", "ppo_behavior": "behavior"}
"""Arms of the table, with their keys at the least staleness."""
SPEED = {"firm": ("non-slippery FrozenLake", "measured", "o"), "cliff": ("CliffWalking", "tuned", "^")}


def poles(rows: Any) -> Any:
    """PPO's committed runs on CartPole as rows of the other arms: the first seeds choose, the others judge."""
    found = []
    for (staleness, anchor), own in rows.groupby(["staleness", "correction"]):
        final = own.pivot_table(index="rate", columns="seed", values="final_return")
        choosing = final.shape[1] // 2
        judged = actor_critic.judged(list(final.index), final.to_numpy(), choosing)
        place = {"part": "returns", "task": "cartpole", "staleness": staleness, "arm": ANCHORS[anchor]}
        found += [{**place, **row} for row in judged]
    return pd.DataFrame(found)


def crossed(rows: Any) -> Any:
    """PPO's runs on CartPole by anchor and staleness: each half of the seeds at the best rate of the other half."""
    found: dict[str, list[dict[str, Any]]] = {}
    for (staleness, anchor), own in rows.groupby(["staleness", "correction"]):
        table = own.pivot_table(index="rate", columns="seed", values="final_return")
        final, rates = table.to_numpy(), list(table.index)
        both = [actor_critic.judged(rates, side, final.shape[1] // 2) for side in (final, final[:, ::-1])]
        halves = pd.DataFrame([row for side in both for row in side if row["chosen"]])
        value, reach = halves.value.mean(), np.hypot(*(halves.high - halves.low)) / 4
        edge = halves.rate.isin([rates[0], rates[-1]]).any()
        row = {"staleness": staleness, "value": value, "low": value - reach, "high": value + reach, "edge": edge}
        found.setdefault(ANCHORS[anchor], []).append(row)
    return {arm: pd.DataFrame(each).set_index("staleness") for arm, each in found.items()}


def tuned(rows: Any, committed: Any) -> Any:
    """Every arm at its best rate; `edge`: whether that is an end of the grid."""
    own = pd.concat([_script.pick(rows, part="returns"), poles(committed)], ignore_index=True)
    ends = own.groupby(["task", "arm", "staleness"]).rate
    own["edge"] = (own.rate == ends.transform("min")) | (own.rate == ends.transform("max"))
    return own[own.chosen.eq(True)]


def cells(rows: Any, committed: Any) -> Any:
    """Every arm at its best rate at the levels of staleness that all tasks have."""
    own = tuned(rows, committed)
    return own[own.staleness.isin(actor_critic.STALENESS)]


def curve(best: Any, task: str, arm: str) -> Any:
    """An arm's rows against staleness; without it some arms are others."""
    fresh = _script.pick(best, task=task, arm=AS_FRESH.get(arm, arm), staleness=0)
    old = best[(best.task == task) & (best.arm == arm) & (best.staleness > 0)]
    return pd.concat([fresh, old]).sort_values("staleness")


def holds(best: Any) -> bool:
    """Whether on CliffWalking both PPOs beat A2C on stale data, V-trace at the lower level alone; elsewhere mixed."""

    def beats(task: str, arm: str, level: int) -> bool:
        own, base = (_script.pick(curve(best, task, each), staleness=level).iloc[0] for each in (arm, "a2c"))
        return bool(own.low > base.high)

    near, last = actor_critic.STALENESS[1:]
    cliff = [beats("cliff", arm, level) for level in (near, last) for arm in SHOWN[1:]]
    return cliff == [True, True, True, False, True, True] and not all(beats("lake", arm, near) for arm in SHOWN[1:])


def draw_returns(ax: Axes, best: Any, task: str) -> None:
    """The arms of the picture against staleness."""
    places = {level: place for place, level in enumerate(actor_critic.STALENESS)}
    best_return = actor_critic.walk(task, actor_critic.STEPS).best
    for shift, arm in enumerate(SHOWN):
        own, style = curve(best, task, arm), ARMS[arm][1]
        own = own.assign(high=own.high.clip(upper=best_return).clip(lower=own.value))
        x = own.staleness.map(places) + 0.05 * (shift - 1.5)
        ax.plot(x, own.value, color=style["color"], linewidth=0.8)
        look.points(ax, x, own, **style)
    ax.axhline(best_return, **_style.REFERENCE)
    low, high = ax.get_ylim()
    look.say(ax, 2.2, best_return + 0.045 * (high - low), "best possible", look.COLOR["muted"], ha="right")
    ax.set_ylim(low, best_return + 0.09 * (high - low))
    look.ticks(ax.xaxis, places.values(), [str(level) for level in places])
    ax.set(xlabel="staleness (versions)", ylabel=RETURNS[task], title=DRAWN[task], xlim=(-0.25, len(places) - 0.75))


def fastest(rows: Any, task: str, workers: int) -> Any:
    """The row of the best rate."""
    return _script.pick(rows, part="workers", task=task, workers=workers, fresh=False, chosen=True).iloc[0]


def gain(rows: Any, task: str, workers: int) -> tuple[float, ...]:
    """Seconds of one worker over those of so many, with the ends that both intervals allow."""
    if workers == 1:
        return 1.0, 1.0, 1.0
    one, own = fastest(rows, task, 1), fastest(rows, task, workers)
    return tuple(
        workers * one[end] / own[other] for end, other in (("value", "value"), ("low", "high"), ("high", "low"))
    )


def works(rows: Any, task: str, workers: int) -> int:
    """Rates at which at least half of the replicates get to the return."""
    own = _script.pick(rows, part="workers", task=task, workers=workers, fresh=False)
    return int((own.missed <= 0.5).sum())


def draw(rows: Any, committed: Any) -> Figure:
    """A panel for each grid world."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        axes, best = figure.subplots(1, len(DRAWN)), cells(rows, committed)
        for ax, task in zip(axes, DRAWN, strict=True):
            draw_returns(ax, best, task)
        marks: list[Any] = [
            Line2D([], [], label=name, markersize=4, linewidth=0.8, **style)
            for name, style in (ARMS[arm] for arm in SHOWN)
        ]
        look.below(figure, marks)
        _script.headline(figure, holds(best), "Final return at the best learning rates")
    return figure


def numbers(rows: Any, committed: Any) -> dict[str, str]:
    """Returns at most staleness, speedups, and mean staleness beside one less than the workers."""
    best, last, most = cells(rows, committed), actor_critic.STALENESS[-1], actor_critic.WORKERS[-1]
    found = {"near": f"{actor_critic.STALENESS[1]}", "last": f"{last}", "workers": f"{most}"}
    for task, digits in (("lake", 2), ("cartpole", 0)):
        for arm in NEAR:
            row = curve(best, task, arm).iloc[-1]
            found[f"{task}_{arm}_ends"] = _wide(row, digits)
    for task in ("lake", "cliff"):
        for arm, name in NEAR.items():
            near = _script.pick(best, task=task, arm=arm, staleness=actor_critic.STALENESS[1]).iloc[0]
            if name != "behavior":
                found[f"{task}_{name}_near"] = f"{near.value:.2f}".replace("-", "−")
            found[f"{task}_{name}_near_ends"] = _wide(near, 2)
    for task in SPEED:
        value, low, high = gain(rows, task, most)
        found |= {f"{task}_gain": f"{value:.1f}", f"{task}_gain_ends": f"{value:.1f} ({low:.1f} to {high:.1f})"}
    found["gain_least"] = f"{int(min(gain(rows, task, most)[1] for task in SPEED))}"
    lows = [gain(rows, task, number)[1] for task in SPEED for number in actor_critic.WORKERS[1:]]
    found |= {"sooner": f"{sum(low > 1.0 for low in lows)}", "crowds": f"{len(lows)}"}
    for key, number in (("one", 1), ("stale", most)):
        found[f"rates_{key}"] = f"{sum(works(rows, task, number) for task in SPEED)}"
    lag = _script.pick(rows, part="lag", workers=most).iloc[0]
    found["lag"] = f"{lag.value:.2f}"
    return found


def _wide(row: Any, digits: int) -> str:
    """A return with half of its interval, and whether its best rate is at an end of the grid."""
    said = f"{row.value:.{digits}f} ± {(row.high - row.low) / 2:.{digits}f}".replace("-", "−")
    return said + " (edge)" * bool(row.edge)


def beyond(one: Any, other: Any) -> bool | None:
    """Whether one mean is above another, by the interval of the difference of independent runs.

    A best rate at an end of the grid decides nothing.
    """
    if one.edge or other.edge:
        return None
    reach = np.hypot(one.high - one.low, other.high - other.low) / 2
    return decided(one.value - other.value > reach, other.value - one.value > reach)


def held(rows: Any, committed: Any) -> dict[str, list[Setting]]:
    """Whether workers let more rates succeed, V-trace and PPO beat A2C, and recorded log-probs beat recomputed ones."""
    best, halves, stable = tuned(rows, committed), crossed(committed), []
    for task, (name, *_) in SPEED.items():
        for number in actor_critic.WORKERS[1:]:
            more = works(rows, task, number) > works(rows, task, 1)
            stable.append(Setting((name, f"{number}"), more))
    found: dict[str, list[Setting]] = {"stable": stable, "vtrace": [], "epochs": [], "anchor": []}
    pairs = {
        "vtrace": [("vtrace", "a2c", "")],
        "epochs": [("ppo_proximal", "a2c", "recomputed"), ("ppo_behavior", "a2c", "recorded")],
        "anchor": [("ppo_behavior", "ppo_proximal", "")],
    }
    for key, compared in pairs.items():
        for arm, base, anchor in compared:
            for task, name in TASKS.items():
                own, rival = (curve(best, task, each).set_index("staleness") for each in (arm, base))
                if key == "anchor" and task == "cartpole":
                    own, rival = halves[arm], halves[base]
                for level in own.index.intersection(rival.index):
                    # Without staleness, V-trace is A2C, and both anchors of PPO are one.
                    if level > 0 or arm == "ppo_proximal":
                        place = (*filter(None, [anchor]), name.split()[0], f"{level:.0f}")
                        found[key].append(Setting(place, beyond(own.loc[level], rival.loc[level])))
    return found
