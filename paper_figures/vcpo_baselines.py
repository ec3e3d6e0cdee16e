"""What baselines do to the gradient of a stale batch: its variance, and the progress that it makes."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"vcpo_baselines": {"case": "long", "task": "Markov token bandit"}}
ARMS: dict[str, dict[str, Any]] = {
    "group mean": look.TRUNCATED,
    "best constant": {"color": look.COLOR["muted"], "marker": "*", "markersize": 6.0},
    "OPOB": look.VCPO,
}
NAMES = {"group mean": "batch mean", "best constant": "best constant", "OPOB": "VCPO's baseline"}
BASELINES = ("none", "group mean", "leave one out", "best constant")
"""Baselines that OPOB is compared with."""
LATE, YOUNG = 32, 8
"""Staleness at which cases are quoted."""
WORDS = {"mean": "group mean", "opob": "OPOB", "loo": "OPOB, leave one out", "constant": "best constant"}
QUOTED = {
    "few": ["opob variance", "loo variance"],
    "full": ["opob variance"],
    "many": ["opob variance", "constant variance", "mean worth", "opob worth", "constant worth"],
}  # fmt: skip
"""What is quoted of small batches, of large ones, and of large ones with cut ratios."""
PERCENT = [0.01, 0.1, 1.0]


def cases(rows: Any) -> tuple[Any, Any, Any]:
    """Rows of small batches, of large ones, and of large ones with cut ratios."""
    main = rows[(rows.seed == 1) & (rows.case == "long")]
    few, many, cap = int(main.batch.min()), int(main.batch.max()), float(main.cap.max())
    return of(main, "long", few, None), of(main, "long", many, None), of(main, "long", many, cap)


def of(rows: Any, case: str, batch: int, cap: float | None) -> Any:
    """Rows of one case, batch size and cap (None: full ratios)."""
    chosen = rows.cap.isna() if cap is None else rows.cap == cap
    return rows[(rows.case == case) & (rows.batch == batch) & chosen]


def select(rows: Any, arm: str, quantity: str, source: str = "sampled") -> Any:
    """One arm's values by staleness, without what is missing."""
    own = rows[(rows.arm == arm) & (rows.quantity == quantity) & (rows.source == source)]
    return own[own.value.notna()].sort_values("staleness")


def draw_panel(ax: Axes, rows: Any, quantity: str) -> None:
    """All arms against staleness."""
    for arm, style in ARMS.items():
        own = select(rows, arm, quantity)
        look.points(ax, own.staleness, own, **look.CONNECTED, **style)
    ax.set(xlim=(-2.0, 42.0), xticks=[0, 10, 20, 30, 40])
    if quantity == "variance":
        ax.set(yscale="log", ylim=(8e-3, 2.0))
        look.ticks(ax.yaxis, PERCENT, [f"{100 * level:g} %" for level in PERCENT])
    else:
        ax.axhline(0.0, **_style.REFERENCE)
        ax.set(ylim=(-0.4, 1.05))


def draw(rows: Any) -> Figure:
    """Variance and progress with truncated ratios."""
    _, _, own = cases(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        left, right = figure.subplots(1, 2)
        for ax, quantity in ((left, "variance"), (right, "worth")):
            draw_panel(ax, own, quantity)
        less = all((select(own, arm, "variance").high < 1.01).all() for arm in ("OPOB", "best constant"))
        opob, mean = (select(own, arm, "worth").set_index("staleness").value for arm in ("OPOB", "group mean"))
        longer = (opob >= mean).all() and opob.iloc[-1] > mean.iloc[-1]
        away = select(own, "group mean", "worth").high.iloc[-1] < 0.0
        for ax, what in ((left, "Variance"), (right, "Progress")):
            ax.set(title=f"{what}, ratios truncated at {own.cap.iloc[0]:g}", xlabel="staleness (versions)")
        left.set_ylabel("variance of the gradient /\nthat with the batch mean")
        right.set_ylabel("progress of one step\n(exact gradient: 1)")
        look.say(right, 0.0, -0.15, "below 0: lower return", look.COLOR["muted"])
        last = {NAMES[arm]: (select(own, arm, "worth").value.iloc[-1], style["color"]) for arm, style in ARMS.items()}
        look.ends(right, last, 0.09)
        _script.headline(figure, less and longer and away, "Variance and progress of stale gradients")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What the gallery quotes."""
    few, full, many = cases(rows)
    named = (("few", few), ("many", many), ("full", full))
    late = {key: text for name, own in named for key, text in _at(name, own).items()}
    return {**_setting(few, many), **late, **_young(many)}


def _setting(few: Any, many: Any) -> dict[str, str]:
    return {
        "few": str(int(few.batch.iloc[0])),
        "many": str(int(many.batch.iloc[0])),
        "cap": f"{many.cap.iloc[0]:g}",
        "late": str(LATE),
        "batches": f"{int(many.samples.max())}",
        "few_batches": f"{int(few.samples.max())}",
    }


def _at(name: str, rows: Any) -> dict[str, str]:
    """What is quoted of a case at staleness `LATE`."""
    found = {}
    for key in QUOTED[name]:
        word, quantity = key.split()
        own = select(rows, WORDS[word], quantity)
        one = own[own.staleness == LATE].iloc[0]
        found[f"{name}_{word}_{quantity}"] = f"{100 * one.value:.2g}" if quantity == "variance" else look.value(one)
    return found


def _young(rows: Any) -> dict[str, str]:
    """Variance that OPOB leaves where ratios are still near 1, and on fresh data."""
    own = select(rows, "OPOB", "variance").set_index("staleness").value
    return {"young": str(YOUNG), "young_variance": f"{100 * own[YOUNG]:.0f}", "fresh_variance": f"{100 * own[0]:.0f}"}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the variance with OPOB is below that with any other baseline, by batch, ratios and staleness."""
    found = []
    for own in cases(rows):
        cut = "full" if own.cap.isna().all() else "truncated"
        opob, *others = (select(own, arm, "variance").set_index("staleness") for arm in ("OPOB", *BASELINES))
        for staleness, row in opob.iterrows():
            rest = [other.loc[staleness] for other in others if staleness in other.index]
            answer = decided(row.high < min(one.low for one in rest), any(row.low > one.high for one in rest))
            found.append(Setting((f"batches of {row.batch}, {cut} ratios", f"{staleness}"), answer))
    return {"least": found}
