"""Falls of thirteen estimators on data 12 versions old, at the 4× rate; returns are numbers."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import vcpo_steps
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures import _vcpo_steps as steps
from paper_figures._claim import Setting, decided
from paper_figures._vcpo_steps import BOLD, USUAL

EXPERIMENTS = {
    **steps.drawn("rates", "4 × best synchronous"),
    "paired": {"of": "vcpo_steps", "rate": "4 × best synchronous", "staleness": "12", "seeds": ""},
}
FORM: dict[str, Any] = {**look.VCPO, **look.HOLLOW}
"""VCPO with standardized advantages."""
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


def called(arm: str) -> str:
    """What the title calls an arm."""
    return "standardized VCPO" if arm == RELEASE else _methods.called(arm)


def draw(rows: Any, paired: Any) -> Figure:
    """Share of runs that fall, a line for each estimator."""
    del paired
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.2)
        ax = figure.subplots()
        names = sorted(arms(rows), key=lambda arm: (steps.one(rows, arm, "fell", BOLD).value, arm != "VCPO"))
        for place, arm in enumerate(names):
            fell = _script.pick(rows, part="rates", law="constant", arm=arm, quantity="fell")
            look.points(ax, [place], steps.at(fell, BOLD), sideways=True, **look_of(arm))
        ax.set(xlabel="runs that fall (lose more than half of their gain)", xlim=(-0.03, 1.03))
        look.percents(ax.xaxis)
        ax.invert_yaxis()
        whole = {RELEASE: "VCPO, standardized advantages"}
        look.ticks(ax.yaxis, range(len(names)), [whole.get(arm, called(arm)) for arm in names])
        for tick, arm in zip(ax.get_yticklabels(), names, strict=True):
            tick.set_color(look_of(arm)["color"])
        holds = "VCPO" in never(rows) and RELEASE in fallen(rows) and len(fallen(rows)) < len(names) / 2
        _script.headline(figure, holds, "Falls of estimators on stale data")
    return figure


def numbers(rows: Any, paired: Any) -> dict[str, str]:
    """Rivals below and above VCPO at the 4× rate, and below at tuned rates; which of them fall."""
    less, _, more = beaten(rows, paired, "bold")
    fell = [arm for arm in fallen(rows) if not arm.startswith("VCPO")]
    return steps.sizes(rows) | {
        "arms": f"{len(arms(rows)) - 2}",
        "never": _script.listed(_methods.called(arm) for arm in never(rows)),
        "least": f"{AS_GOOD:g}",
        "pairs": f"{int(_script.pick(paired, of='vcpo_steps').samples.max())}",
        "bold_less": f"{less}",
        "bold_more": f"{more}",
        "own_less": f"{beaten(rows, paired, 'best')[0]}",
        # Quick rows have no GRPO.
        "grpo_fell": steps.percent(steps.one(rows, "GRPO", "fell", BOLD)) if "GRPO" in arms(rows) else "none",
        "release_fell": steps.percent(steps.one(rows, RELEASE, "fell", BOLD)),
        "falling": _script.listed(called(arm) for arm in fallen(rows)) or "none",
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
