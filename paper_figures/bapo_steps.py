"""Entropy and return over updates from a policy that is nearly sure of a wrong token, on the stalest data."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import bapo_steps as experiment
from paper_figures import _bapo_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"bapo_steps": {"part": "grid", "task": "long", "rate": "best synchronous", "staleness": (0, 32)}}
SHOWN = ("long", "noisy", "tokens")
DRAWN = "long"
NAMES = {**steps.NAMES, "fresh": "fresh data"}
QUANTITIES = {"entropy": "entropy (nats per token)", "return": "return of the trained policy"}
TITLES = {"entropy": "Entropy of the policy", "return": "Return"}


def oldest(rows: Any) -> int:
    """The largest staleness, updates."""
    return int(rows[rows.part == "course"].staleness.max())


def shown(rows: Any) -> list[str]:
    """Tasks that are drawn."""
    return [task for task in steps.tasks(rows) if task in SHOWN] or steps.tasks(rows)


def curve(rows: Any, task: str, arm: str, quantity: str) -> Any:
    """A quantity over updates at the best synchronous rate."""
    place = {"task": task, "arm": arm, "staleness": oldest(rows), "epochs": 1}
    own = steps.grid(rows, part="course", quantity=quantity, **place)
    return steps.near(own, steps.usual(rows, task)).sort_values("number")


def panel(ax: Axes, rows: Any, task: str, quantity: str) -> None:
    """Curves of all arms; a return is at most 1."""
    for arm, style in steps.ARMS.items():
        own = curve(rows, task, arm, quantity)
        own = own.assign(low=own.low.clip(lower=0.0), high=own.high.clip(upper=1.0 if quantity == "return" else None))
        look.points(ax, own.number, own, **look.CONNECTED, **{**style, "markersize": 2.8, "capsize": 1.0})


def ends(rows: Any, task: str, arm: str, quantity: str, times: float | None = 1.0) -> Any:
    """A quantity of entire runs or of their last tenth, on the stalest data."""
    return steps.at(rows, quantity, times, task=task, arm=arm, staleness=oldest(rows), epochs=1)


def lost(rows: Any, task: str) -> bool:
    """Whether the clip and BAPO end with more entropy than fresh data and less return, and training without a clip not.

    Without a clip the return is as high at the end and over training.
    """
    (entropy, some), *stale = ([ends(rows, task, arm, q) for q in ("entropy_end", "end")]
                               for arm in ("fresh", "clip", "bapo", "half"))  # fmt: skip
    free = all(ends(rows, task, "none", q).high >= ends(rows, task, "fresh", q).low for q in ("end", "mean"))
    return free and all(own.low > entropy.high and end.high < some.low for own, end in stale)


def keeps(rows: Any, task: str, arm: str, times: float) -> bool:
    """Whether an arm has more entropy over training than the clip, beyond both intervals."""
    own, clip = (ends(rows, task, each, "entropy_mean", times) for each in (arm, "clip"))
    return bool(own.low > clip.high)


def draw(rows: Any) -> Figure:
    """Entropy, return."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        task = DRAWN if DRAWN in steps.tasks(rows) else shown(rows)[0]
        axes = figure.subplots(1, 2)
        for ax, (quantity, label) in zip(axes, QUANTITIES.items(), strict=True):
            panel(ax, rows, task, quantity)
            ends = {NAMES[arm]: (float(curve(rows, task, arm, quantity).value.iloc[-1]), style["color"])
                    for arm, style in steps.ARMS.items()}  # fmt: skip
            ax.set(xlabel="update", ylabel=label, title=TITLES[quantity])
            ax.set_ylim(*((-0.09, None) if quantity == "entropy" else (-0.03, 1.03)))
            look.ends(ax, ends)
        look.side(axes[0], steps.TARGET, y=0.92)
        _script.headline(figure, lost(rows, task), f"Entropy and return at staleness {oldest(rows)}")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What is left at the end of training, by task and arm; the start's entropy."""
    found = {
        "less": "0.4",
        "more": f"{experiment.HALF:g}",
        "old": str(oldest(rows)),
        "runs": f"{int(rows.samples.min())} to {int(rows.samples.max())}",
    }
    found["start"] = f"{curve(rows, shown(rows)[0], 'clip', 'entropy').value.iloc[0]:.2f}"
    known = [task for task in SHOWN if task in steps.tasks(rows)]
    found["kept_half"] = str(sum(keeps(rows, task, "half", 1.0) for task in known))
    found["kept_less"] = str(sum(keeps(rows, task, "bapo", 1.0) for task in known))
    found["tasks"] = str(len(known))
    for task, key, quantity in ((DRAWN, "h", "entropy_end"), *((task, "r", "end") for task in SHOWN)):
        for arm in steps.ARMS:
            known = task in steps.tasks(rows)
            text = look.value(row := ends(rows, task, arm, quantity)) if known else "none"
            found[f"{task}_{arm}_{key}"] = f"{row.value:.3f}" if text.endswith("± 0.0000") else text
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the clip ends with less entropy than fresh data and with half of the return; whether BAPO keeps more."""
    readings = {"best synchronous rate": 1.0, "4× rate": steps.BOLD}

    def below(one: str, other: str, quantity: str, share: float = 1.0) -> Any:
        def judged(place: dict[str, Any], times: float | None) -> bool | None:
            own, base = (steps.at(rows, quantity, times, **place, arm=arm) for arm in (one, other))
            return decided(own.high < share * base.low, own.low > share * base.high)

        return judged

    kept = []
    for arm, target in (("bapo", "0.4"), ("half", f"{experiment.HALF:g}")):
        named = {f"target {target}, {reading}": times for reading, times in readings.items()}
        kept += steps.settings(rows, named, below("clip", arm, "entropy_mean"), reused=False)
    return {
        "entropy": steps.settings(rows, readings, below("clip", "fresh", "entropy_mean"), reused=True),
        "stalled": steps.settings(rows, readings, below("clip", "fresh", "end", 0.5), reused=True),
        "kept": kept,
    }
