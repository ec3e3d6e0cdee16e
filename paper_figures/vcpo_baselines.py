"""What baselines do to the gradient of a stale batch: its variance, its mean along the exact gradient, its worth."""

from __future__ import annotations

import textwrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script

EXPERIMENTS = ("vcpo_baselines",)
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "group mean": ("usual baseline: mean reward of the batch", {"color": _style.COLORS["stale"], "marker": "o"}),
    "OPOB": (
        "OPOB: mean reward of the batch, weighted by ratio² × |score|²",
        {"color": _style.COLORS["controlled"], "marker": "s"},
    ),
    "OPOB, leave one out": (
        "OPOB, leave-one-out: the same over the other samples of the batch only",
        {"color": _style.COLORS["controlled"], "marker": "s", "mfc": "white"},
    ),
    "best constant": (
        "best fixed number: what OPOB estimates, known beforehand from 16384 other samples",
        {"color": _style.COLORS["tuned"], "marker": "*"},
    ),
}
"""Words and look of the baselines drawn."""
QUANTITIES = ("variance", "length", "cosine", "worth")
"""Compared with exact values where every batch can be listed."""
LATE, YOUNG = 32, 8
"""Staleness at which cases are quoted."""
WORDS = {
    "mean": "group mean",
    "opob": "OPOB",
    "loo": "OPOB, leave one out",
    "best": "best constant",
    "weighted": "self-normalized",
}
QUOTED = {
    "few": (
        *("opob variance", "best variance", "opob length", "opob noise", "best noise", "loo noise", "loo length"),
        *("opob cosine", "mean worth", "opob worth", "loo worth"),
    ),
    "full": (*("opob variance", "opob noise", "loo noise", "best noise"), *("opob cosine", "mean worth", "opob worth")),
    "many": (
        *("opob variance", "best variance", "mean cosine", "opob cosine"),
        *("mean worth", "opob worth", "weighted worth"),
    ),
}
PANELS = {
    "variance": ("variance of the gradient\n(usual baseline: 100 %)", "log", (8e-5, 3.5)),
    "length": ("mean gradient along the\nexact one (1: unbiased)", "linear", (-1.4, 1.55)),
    "worth": ("progress (defined at top;\nexact gradient: 1)", "linear", (-0.38, 1.08)),
}
PERCENT = [1e-4, 1e-3, 0.01, 0.1, 1.0]


def cases(rows: Any) -> list[tuple[str, Any]]:
    """Title and rows of each column; from one to the next one thing changes."""
    main = rows[(rows.seed == 1) & (rows.case == "long")]
    few, many, cap = int(main.batch.min()), int(main.batch.max()), float(main.cap.max())
    return [
        (f"Batch of {few}", of(main, "long", few, None)),
        (f"Batch of {many}", of(main, "long", many, None)),
        (f"Batch of {many}, ratios above\n{cap:g} set to {cap:g}, as in VCPO", of(main, "long", many, cap)),
    ]


def of(rows: Any, case: str, batch: int, cap: float | None) -> Any:
    """Rows of one case, batch size and cap (None: full ratios)."""
    chosen = rows.cap.isna() if cap is None else rows.cap == cap
    return rows[(rows.case == case) & (rows.batch == batch) & chosen]


def select(rows: Any, arm: str, quantity: str, source: str = "sampled") -> Any:
    """One arm's values by staleness, without what is missing."""
    own = rows[(rows.arm == arm) & (rows.quantity == quantity) & (rows.source == source)]
    return own[own.value.notna()].sort_values("staleness")


def draw_panel(ax: Axes, rows: Any, quantity: str) -> Axes:
    """All arms against staleness."""
    _, scale, limits = PANELS[quantity]
    if quantity != "variance":
        ax.axhline(0.0, color=_style.COLORS["muted"], linewidth=0.5)
    for arm, (_, look) in ARMS.items():
        own = select(rows, arm, quantity)
        ax.plot(own.staleness, own.value, color=look["color"], linewidth=0.7, alpha=0.6)
        reach = [own.value - own.low, own.high - own.value]
        size = {"markersize": 6.0} if look["marker"] == "*" else {"markersize": 3.8}
        ax.errorbar(own.staleness, own.value, yerr=reach, **{**_style.MEASURED, **size, **look})
    ax.set_yscale(scale)
    ax.set(ylim=limits, xlim=(-2.0, 42.0), xticks=[0, 10, 20, 30, 40])
    if scale == "log":
        ax.set(yticks=PERCENT)
        ax.set_yticklabels([f"{100 * level:g} %" for level in PERCENT])
    return ax


def draw_means(ax: Axes, batch: int) -> None:
    """Means of the gradient that are known exactly where ratios are full; near 1 two lines would be one blur."""
    for level in {1.0, 1.0 - 1.0 / batch} if batch < 32 else {1.0}:
        ax.plot([0.0, 40.0], [level, level], **_style.PREDICTED, zorder=1.5)


def draw(rows: Any) -> Figure:
    """Rows of panels are quantities, columns the cases."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 7.0)
        grid = figure.subplots(len(PANELS), 3, sharex="col", sharey="row")
        for column, (title, own) in enumerate(cases(rows)):
            for line, (quantity, (words, _, _)) in enumerate(PANELS.items()):
                ax = draw_panel(grid[line, column], own, quantity)
                ax.set_ylabel("" if column else words)
            grid[0, column].set_title(title)
            grid[-1, column].set_xlabel("staleness (gradient steps)")
            if own.cap.isna().all():
                draw_means(grid[1, column], int(own.batch.iloc[0]))
        remarks(grid, rows)
        handles = [
            grid[0, 0].errorbar([], [], yerr=[], label=words, **{**_style.MEASURED, **look})
            for words, look in ARMS.values()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=1, handletextpad=0.3)
        _script.caption(figure, *textwrap.wrap(_told(rows), 112))
    return figure


def _told(rows: Any) -> str:
    (_, few), (_, many), _ = cases(rows)
    listed = _listed(rows[(rows.seed == 1) & (rows.case == "short")])
    return (
        "How good is a gradient from a stale batch? It is the sum over samples of ratio × (reward − baseline) × score "
        "(ratio: a sample's probability now over that when written; score: gradient of its log-probability). Varied: "
        "the baseline (marks; OPOB, off-policy optimal baseline, is that of VCPO, the method studied), staleness "
        "(steps of the policy since the batch was written) and, between columns, batch size and a limit on ratios. "
        "Measured: sequences of 64 tokens, "
        f"{int(few.samples.max())} batches a mark on the left, {int(many.samples.max())} elsewhere; 95 % intervals, "
        "mostly inside the marks. Progress: of a gradient g at its best step size, over that of the exact gradient G: "
        "(mean of g · G)² / (mean |g|² × |G|²), with a minus sign where mean g points away from G. "
        "Dashed black (middle row, left two columns): exact; all else is measured only. Separately, not shown: with 3 "
        f"tokens every batch can be listed, {listed['short_inside']} of {listed['short_count']} intervals contain the "
        "exact value."
    )


def remarks(grid: Any, rows: Any) -> None:
    """What to see, beside the marks."""
    (_, small), (_, full), _ = cases(rows)
    few, last = int(small.batch.iloc[0]), select(full, "group mean", "length").iloc[-1]
    held = last.low <= 1.0 - 1.0 / full.batch.iloc[0] <= last.high
    wide = f"to draw, their interval at {last.staleness:g}\n{'contains' if held else 'misses'} it"
    for (line, column), (y, told) in {
        (0, 0): (1.3e-4, "OPOB: less than even with the\nbest fixed number, because it\nis shrunken (row below)"),
        (0, 1): (1.3e-4, "larger batch: OPOB is at the best\nfixed number up to staleness 24,\n"
                 "shrunken (row below) beyond"),
        (0, 2): (1.3e-4, "OPOB: a small part of the\nusual variance, once the\nbatch is old"),
        (1, 0): (-1.3, f"dashed, exact: 1 (open squares,\nstars) and 1 − 1/{few} (circles).\n"
                 "OPOB is shrunken toward 0: a sample\nin its own baseline cancels in part"),
        (1, 1): (-1.3, "dashed, exact: 1 (open squares,\nstars); circles: 1 − 1/64, too near\n" + wide),
        (1, 2): (-1.3, "limited ratios bias all;\nwith the usual baseline\nthe mean even points\nthe wrong way (< 0)"),
        (2, 0): (0.82, "below 0: the mean gradient\npoints the wrong way"),
        (2, 1): (-0.33, "OPOB keeps the progress that\nthe usual baseline loses, here\nby its variance alone"),
        (2, 2): (-0.33, "usual baseline:\nits steps lead away"),
    }.items():  # fmt: skip
        grid[line, column].text(-1.0, y, told, fontsize=6.4, color=_style.INK, linespacing=1.1)


def numbers(rows: Any) -> dict[str, str]:
    """What the gallery quotes."""
    main = rows[rows.seed == 1]
    (_, few), (_, full), (_, many) = cases(rows)
    small = main[main.case == "short"]
    named = (("few", few), ("many", many), ("full", full))
    late = {key: value for name, own in named for key, value in _at(name, own).items()}
    return {**_setting(rows, few, many), **late, **_young(many), **_tables(rows), **_listed(small)}


def _setting(rows: Any, few: Any, many: Any) -> dict[str, str]:
    sampled = rows[rows.source == "sampled"]
    return {
        "few": str(int(few.batch.iloc[0])),
        "many": str(int(many.batch.iloc[0])),
        "cap": f"{many.cap.iloc[0]:g}",
        "late": str(LATE),
        "deviation": f"{few[few.staleness == LATE].deviation.iloc[0]:.1f}",
        "batches": f"{int(sampled.samples.min())} to {int(sampled.samples.max())}",
        "heaviest": f"{100 * sampled.heaviest.max():.1f}",
    }


def _at(name: str, rows: Any) -> dict[str, str]:
    """What is quoted of a case at staleness `LATE`."""
    found = {}
    for key in QUOTED[name]:
        word, quantity = key.split()
        own = select(rows, WORDS[word], quantity)
        one = own[own.staleness == LATE].iloc[0]
        share = quantity in ("variance", "noise")
        reach = (one.high - one.low) / 2
        digits = 2 if reach >= 0.005 else 3
        told = f"{100 * one.value:.2g}" if share else f"{one.value:.{digits}f} ± {reach:.{digits}f}"
        found[f"{name}_{word}_{quantity}"] = told
    return found


def _young(rows: Any) -> dict[str, str]:
    """OPOB where ratios are still near 1."""
    found = {"young": str(YOUNG)}
    for arm, quantity, key in (
        ("OPOB", "variance", "young_variance"),
        ("OPOB", "worth", "young_worth"),
        ("group mean", "worth", "young_usual"),
    ):
        own = select(rows, arm, quantity)
        value = own[own.staleness == YOUNG].value.iloc[0]
        found[key] = f"{100 * value:.0f}" if quantity == "variance" else f"{value:.3f}"
    own = select(rows, "OPOB", "variance")
    return {**found, "fresh_variance": f"{100 * own[own.staleness == 0].value.iloc[0]:.0f}"}


def _tables(rows: Any) -> dict[str, str]:
    """The same cell of other tables of policies."""
    own = of(rows, "long", int(rows[rows.case == "long"].batch.max()), float(rows.cap.max()))
    own = own[own.staleness == LATE]
    found = {"tables": str(own.seed.nunique())}
    for word in ("mean", "opob"):
        values = select(own, WORDS[word], "cosine").value
        found[f"tables_{word}_cosine"] = f"{values.min():.2f} to {values.max():.2f}"
    return found


def _listed(rows: Any) -> dict[str, str]:
    """Where every batch is listed: sampled against exact, and what OPOB does."""
    inside, count = 0, 0
    for arm in rows.arm.unique():
        for quantity in QUANTITIES:
            own, exact = (select(rows, arm, quantity, source).set_index("staleness") for source in ("sampled", "exact"))
            # The group mean over itself is no measurement.
            told = own.high - own.low > 1e-9
            within = (own.low <= exact.value) & (exact.value <= own.high)
            inside, count = inside + int(within[told].sum()), count + int(told.sum())
    length, cosine = (select(rows, "OPOB", name, "exact").value for name in ("length", "cosine"))
    return {
        "short_count": str(count),
        "short_inside": str(inside),
        "short_length": f"{length.min():.2f} to {length.max():.2f}",
        "short_mean_length": f"{select(rows, 'group mean', 'length', 'exact').value.iloc[0]:.2f}",
        "short_cosine": f"{cosine.min():.2f}",
    }
