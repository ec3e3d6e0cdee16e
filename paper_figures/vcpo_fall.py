"""Return, effective sample size and gradient norm of truncated IS around its falls, beside runs that did not fall."""

from __future__ import annotations

import itertools
from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments.vcpo_steps import ALIGNED, NEAR
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures import _vcpo_steps as steps
from paper_figures._claim import Setting, decided

RUNS = {"seeds": "48 per rate"}
EXPERIMENTS = {"vcpo_steps": steps.drawn("aligned", "2.8, 4 and 5.7 × best synchronous")["vcpo_steps"] | RUNS}
ARM = "TIS, sequence"
SIDES = {"fell": look.TRUNCATED["color"], "others": look.COLOR["muted"]}
SOON = 16
"""Updates before a fall at which ESS has dropped, and the return hardly."""
WHEN = ("before", "soon", "near", "fell")
"""First time that is quoted, `SOON` and `NEAR` before the fall, and the fall."""
PANELS = {
    "return": ("Return (fall: half of gain lost)", "return (median over runs)"),
    "ess": ("Effective sample size (ESS)", "ESS / batch size (median)"),
    "norm": ("Gradient norm", "norm / its earlier median (median)"),
}


def around(rows: Any, quantity: str, among: str) -> Any:
    """Medians of a quantity around the falls."""
    own = _script.pick(rows, part="aligned", law="constant", arm=ARM, quantity=quantity, among=among)
    return own.sort_values("update")


def draw(rows: Any) -> Figure:
    """One panel for each quantity, the fall at 0."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        axes = figure.subplots(1, 3)
        for ax, (quantity, (title, label)) in zip(axes, PANELS.items(), strict=True):
            for among, color in SIDES.items():
                steps.line(ax, around(rows, quantity, among), color=color)
            ax.axvline(0.0, **_style.REFERENCE)
            ax.set(xlabel="updates since the fall", ylabel=label, title=title)
        axes[0].set_ylim(None, 0.95)
        axes[1].set_ylim(0.0, 1.0)
        axes[2].set_ylim(0.0, None)
        look.say(axes[0], -32, 0.42, "runs that\nfall", SIDES["fell"])
        look.say(axes[0], 2, 0.7, "other runs, at\nequal updates", SIDES["others"])
        holds = spikes(rows) and drops(rows) and peak(rows)[0]["update"] > 0
        _script.headline(figure, holds, "Return, effective sample size and gradient norm around falls")
    return figure


def peak(rows: Any) -> Any:
    """The row of the largest median norm near falls, and the other runs' at that update; else none."""
    own = around(rows, "norm", "fell")
    own = own[(own["update"] >= -NEAR) & (own["update"] <= NEAR)]
    if own.empty:
        return None
    top = own.loc[own.value.astype(float).idxmax()]
    others = _script.pick(around(rows, "norm", "others"), update=top["update"])
    return (top, others.iloc[0]) if len(others) else None


def spikes(rows: Any) -> bool:
    """Whether the norm is larger at falls than in other runs, beyond both intervals."""
    found = peak(rows)
    return found is not None and bool(found[0].low > found[1].high)


def drops(rows: Any) -> bool:
    """Whether ESS is smaller in runs that fall already before they do, beyond both intervals."""
    fell, others = (around(rows, "ess", among).set_index("update") for among in SIDES)
    return bool(fell.high[-NEAR] < others.low[-NEAR])


def numbers(rows: Any) -> dict[str, str]:
    """The peak of the norm and when it rises, ESS long before and at the fall, and how many runs fell."""
    names = [f"{quantity}_{name}" for name in WHEN for quantity in ("ess", "return")]
    found = peak(rows)
    if found is None:
        others = (
            "peak_fell",
            "runs_fell",
            "runs_others",
            "runs_left",
            "when",
            "ess_others",
            "before",
            "soon",
            "near",
            "rises",
        )
        return dict.fromkeys((*names, *others), "no falls")
    top = found[0]
    told = {"when": f"{int(top['update'])}", "peak_fell": look.spread(top, 1)}
    first = int(around(rows, "ess", "fell")["update"].min())
    told |= {"before": f"{-first}", "soon": f"{SOON}", "near": f"{NEAR}"}
    for among, row in zip(SIDES, found, strict=True):
        told[f"runs_{among}"] = f"{int(row.samples)}"
    places = itertools.product((first, -SOON, -NEAR, 0), ("ess", "return"))
    for name, (update, quantity) in zip(names, places, strict=True):
        told[name] = f"{_script.pick(around(rows, quantity, 'fell'), update=update).value.iloc[0]:.2f}"
    told["rises"] = look.spread(_script.pick(around(rows, "norm", "fell"), update=-NEAR).iloc[0], 1)
    every = sum(int(steps.one(rows, ARM, "fell", rate).samples) for rate in ALIGNED)
    told["runs_left"] = f"{every - sum(int(row.samples) for row in found)}"
    others = around(rows, "ess", "others")
    others = others[others["update"] <= 0].value
    return told | {"ess_others": f"{others.min():.2f} to {others.max():.2f}"}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether ESS drops before falls, by method and distribution of staleness."""
    found = []
    own = _script.pick(rows, part="aligned", quantity="ess", among="fell")
    for (law, arm), course in own.groupby(["law", "arm"], sort=False):
        early, late = (_script.pick(course, update=update).iloc[0] for update in (course["update"].min(), -NEAR))
        answer = decided(late.high < early.low, late.low > early.high)
        found.append(Setting((f"{law} staleness", _methods.called(arm)), answer))
    return {"drop": found}
