"""Thirteen estimators on data 12 versions old, at four times the best synchronous rate; tuned ones are numbers."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from asyncsim.plotting import _style
from experiments import vcpo_steps
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures import _vcpo_steps as steps
from paper_figures._claim import Setting, decided
from paper_figures._vcpo_steps import BOLD, USUAL

EXPERIMENTS = {
    **steps.drawn("rates", "4 × best synchronous"),
    "paired": {"of": "vcpo_steps", "rate": "4 × best synchronous", "staleness": "12"},
}
FORM: dict[str, Any] = {**look.VCPO, **look.HOLLOW}
"""VCPO with standardized advantages."""
SHOWN = 0.1
"""Largest difference that is drawn as a mark; larger ones are numbers at the edge."""
AS_GOOD = 0.005
"""Smaller differences of return count as none."""
RELEASE = "VCPO, standardized"


def arms(rows: Any) -> list[str]:
    """Arms of the rows in the order of the experiment."""
    known = set(_script.pick(rows, part="rates", law="constant").arm)
    return [arm for arm in vcpo_steps.ARMS if arm in known]


def rivals(rows: Any) -> list[str]:
    """Those that are no form of VCPO."""
    return [arm for arm in arms(rows) if not arm.startswith("VCPO")]


def apart(paired: Any, arm: str, reading: str, base: str = "VCPO") -> Any:
    """Mean return of an arm less VCPO's, replicate by replicate; without a `base`, that of the arm."""
    return _script.pick(paired, of="vcpo_steps", arm=arm, reading=reading, base=base)


def beyond(rows: Any, paired: Any, reading: str, side: int) -> list[str]:
    """Rivals that return more than VCPO (`side` 1) or less (-1), beyond the interval and by `AS_GOOD` at least."""
    found = {arm: apart(paired, arm, reading).iloc[0] for arm in rivals(rows)}
    ends = {arm: (row.value, row.low if side > 0 else row.high) for arm, row in found.items()}
    return [arm for arm, (value, end) in ends.items() if side * value >= AS_GOOD and side * end > 0.0]


def beaten(rows: Any, paired: Any, reading: str) -> tuple[int, int, int]:
    """Rivals of VCPO that return less, as much within the interval, and more."""
    less, more = (len(beyond(rows, paired, reading, side)) for side in (-1, 1))
    return less, len(rivals(rows)) - less - more, more


def never(rows: Any) -> list[str]:
    """Arms of which no run falls at the 4× rate."""
    return [arm for arm in arms(rows) if steps.one(rows, arm, "fell", BOLD).value == 0]


def fallen(rows: Any) -> list[str]:
    """Arms of which most runs fall at the 4× rate."""
    return [arm for arm in arms(rows) if steps.one(rows, arm, "fell", BOLD).value > 0.5]


def look_of(arm: str) -> dict[str, Any]:
    """Color and marker of an arm."""
    return FORM if arm == RELEASE else _methods.look(_methods.called(arm))


def draw_apart(ax: Axes, rows: Any, paired: Any, names: list[str]) -> None:
    """Returns less VCPO's; those far below are numbers at the left edge."""
    for place, arm in enumerate(names):
        if arm == "VCPO":
            ax.plot(0.0, place, linestyle="none", markersize=4.0, **look.VCPO)
        elif (own := apart(paired, arm, "bold")).value.iloc[0] < -SHOWN:
            words = f"← {own.value.iloc[0]:.2f}".replace("-", "−")
            look.say(ax, -SHOWN, place, words, _methods.look(_methods.called(arm))["color"])
        else:
            look.points(ax, [place], own, sideways=True, **look_of(arm))
    ax.axvline(0.0, **_style.REFERENCE)
    ax.set(xlabel="mean return over training minus VCPO's", xlim=(-1.03 * SHOWN, 0.2 * SHOWN), title="Return")
    look.side(ax, "left: worse", 0.8, 0.96)


def draw(rows: Any, paired: Any) -> Figure:
    """Falls left, returns beside VCPO's right."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.4)
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.0, 1.3))
        names = sorted(arms(rows), key=lambda arm: -apart(paired, arm, "bold", "").value.iloc[0])
        for place, arm in enumerate(names):
            fell = _script.pick(rows, part="rates", law="constant", arm=arm, quantity="fell")
            look.points(left, [place], steps.at(fell, BOLD), sideways=True, **look_of(arm))
        draw_apart(right, rows, paired, names)
        left.set(xlabel="runs that fall (lose half of their gain)", xlim=(-0.03, 1.03), title="Falls")
        left.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        left.invert_yaxis()
        look.ticks(left.yaxis, range(len(names)), [_methods.called(arm) for arm in names])
        left.get_yticklabels()[names.index("VCPO")].set_color(look.VCPO["color"])
        holds = "VCPO" in never(rows) and RELEASE in fallen(rows) and len(fallen(rows)) < len(names) / 2
        _script.headline(figure, holds, "Falls and returns of estimators on stale data")
    return figure


def numbers(rows: Any, paired: Any) -> dict[str, str]:
    """Rivals below and above VCPO at the 4× rate, and below at tuned rates; which of them fall."""
    less, _, more = beaten(rows, paired, "bold")
    # Quick rows have no GRPO.
    ended = {arm: steps.one(rows, arm, "end", BOLD) for arm in ("GRPO", "PPO", "VCPO") if arm in arms(rows)}
    fell = [arm for arm in fallen(rows) if not arm.startswith("VCPO")]
    return steps.sizes(rows) | {
        "all": f"{len(arms(rows))}",
        "most_fall": f"{len(fallen(rows))}",
        "arms": f"{len(arms(rows)) - 2}",
        "never": _script.listed(_methods.called(arm) for arm in never(rows)),
        "least": f"{AS_GOOD:g}",
        "pairs": f"{int(_script.pick(paired, of='vcpo_steps').samples.max())}",
        "bold_less": f"{less}",
        "bold_more": f"{more}",
        "own_less": f"{beaten(rows, paired, 'best')[0]}",
        "grpo_end": "none",
        **{f"{arm.lower()}_end": f"{row.value:.2f}" for arm, row in ended.items()},
        "grpo_fell": steps.percent(steps.one(rows, "GRPO", "fell", BOLD)) if "GRPO" in ended else "none",
        "release_fell": steps.percent(steps.one(rows, RELEASE, "fell", BOLD)),
        "fallen": _script.listed(_methods.called(arm) for arm in fell) or "none",
    }


def held(rows: Any, paired: Any) -> dict[str, list[Setting]]:
    """Whether most runs of a mask or clip fall and hardly any of VCPO's; whether hardly any of its release do."""
    found, released = [], []
    for rate, where in ((USUAL, "best synchronous rate"), (BOLD, "4× rate")):
        vcpo, release = (steps.one(rows, arm, "fell", rate) for arm in ("VCPO", RELEASE))
        released.append(Setting((where,), decided(release.high < 0.1, release.low >= 0.1)))
        for arm in (arm for arm in rivals(rows) if arm != "RLOO"):
            row = steps.one(rows, arm, "fell", rate)
            answer = decided(row.low > 0.5 and vcpo.high < 0.1, row.high < 0.5 or vcpo.low >= 0.1)
            found.append(Setting((where, _methods.called(arm)), answer))
    return {"prior": found, "released": released}
