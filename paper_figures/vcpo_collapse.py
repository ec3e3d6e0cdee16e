"""Does a low effective sample size announce collapse? What runs look like before it, and how early alarms sound."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import vcpo_collapse
from paper_figures import _script

EXPERIMENTS = ("vcpo_collapse",)
ALARMS: dict[str, dict[str, Any]] = {
    "return": {"color": _style.COLORS["muted"], "marker": "D", "label": "return itself"},
    "ess": {"color": _style.COLORS["controlled"], "marker": "o", "label": "low ESS"},
    "kl": {"color": _style.COLORS["tuned"], "marker": "^", "label": "far from old policy (KL)"},
    "norm": {"color": _style.COLORS["stale"], "marker": "s", "label": "large gradient"},
    "ess_drop": {"color": _style.COLORS["partial"], "marker": "v", "label": "sudden drop of ESS"},
}
SOUNDED = ("return", "ess", "norm", "ess_drop")
GROUPS = {
    "collapsing": {"color": _style.COLORS["violated"], "marker": "o"},
    "healthy": {"color": _style.COLORS["held"], "marker": "^", "markerfacecolor": "white"},
}
SHOWN = {
    "return": ("What happens", "expected return"),
    "ess": ("Is ESS low before?", "ESS/N: share of samples\nthat still count"),
    "norm": ("Does the gradient grow?", "norm of the gradient"),
}
TITLES = {"chain": "chain of bits, with a penalty", "tokens": "tokens, no penalty"}


def pick(rows: Any, **place: Any) -> Any:
    """Rows at a place."""
    for name, value in place.items():
        rows = rows[rows[name] == value]
    return rows


def points(ax: Axes, own: Any, shift: float = 0.0, **look: Any) -> None:
    """Values with their intervals against the lead, which runs backwards, moved aside by `shift` updates."""
    own = own.sort_values("lead")
    reach = [(own.value - own.low).clip(lower=0.0), (own.high - own.value).clip(lower=0.0)]
    style = {**_style.MEASURED, "linestyle": "-", "linewidth": 1.0, **look}
    ax.errorbar(shift - own.lead, own.value, yerr=reach, **style)


def draw_aligned(ax: Axes, rows: Any, statistic: str) -> Axes:
    """Medians before collapse, and before matched times of runs that stay healthy."""
    for group, look in GROUPS.items():
        points(ax, pick(rows, quantity="aligned", statistic=statistic, group=group), markersize=2.8, **look)
    title, label = SHOWN[statistic]
    ax.set(xlabel="updates before collapse", ylabel=label)
    ax.set_title(title)
    if statistic == "norm":
        ax.set_yscale("log")
    if statistic == "ess":
        ax.set_ylim(bottom=0.0)
    if statistic == "return":
        ax.set_ylim(top=1.08 * ax.get_ylim()[1])
    return ax


def draw_areas(ax: Axes, rows: Any, regime: str) -> Axes:
    """How well each statistic tells who is about to collapse."""
    own = pick(rows, regime=regime, quantity="auc")
    ax.axhline(0.5, **_style.PREDICTED)
    for place, (name, look) in enumerate(ALARMS.items()):
        # Side by side: as many percent of the axis as can be told apart.
        points(ax, pick(own, statistic=name), 0.006 * (place - 2) * own.lead.max(), markersize=3.5, **look)
    ax.set(ylim=(0.25, 1.03), xlabel="updates before collapse")
    ax.set_title(TITLES[regime].capitalize())
    return ax


def draw_sounded(ax: Axes, rows: Any, regime: str) -> Axes:
    """Share of collapses with an alarm so early, and of healthy runs: chance."""
    own = pick(rows, regime=regime, quantity="announced")
    for name in SOUNDED:
        look = ALARMS[name]
        curve = pick(own, statistic=name, group="collapsing").sort_values("lead")
        ax.plot(-curve.lead, curve.value, drawstyle="steps-post", color=look["color"], linewidth=1.4)
        some = curve.iloc[::4]
        ax.plot(-some.lead, some.value, linestyle="none", marker=look["marker"], color=look["color"], markersize=3.5)
        if name == "ess":
            ax.fill_between(
                -curve.lead, curve.low, curve.high, step="post", color=look["color"], alpha=0.13, linewidth=0
            )
        chance = pick(own, statistic=name, group="healthy").sort_values("lead")
        ax.plot(-chance.lead, chance.value, drawstyle="steps-post", color=look["color"], linewidth=0.8, linestyle=":")
    ax.set(ylim=(0.0, 1.02), xlabel="updates by which the first alarm precedes collapse")
    ax.set_title("Alarms at equal false alarms")
    return ax


def draw(rows: Any) -> Figure:
    """Before collapse; who is about to collapse; alarms at equal false alarms."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 8.2)
        parts = np.asarray(figure.subfigures(3, 1, height_ratios=(1.25, 1.1, 1.0)))
        for ax, statistic in zip(parts[0].subplots(1, 3), SHOWN, strict=True):
            draw_aligned(ax, pick(rows, regime="chain"), statistic)
            if statistic == "return":
                ax.text(0.3, 0.42, "runs that\ncollapse", color=GROUPS["collapsing"]["color"], transform=ax.transAxes)
                ax.text(0.3, 0.99, "healthy", color=GROUPS["healthy"]["color"], transform=ax.transAxes, va="top")
        areas, sounded = parts[1].subplots(1, 2, sharey=True), parts[2].subplots(1, 2, sharey=True)
        for column, regime in enumerate(vcpo_collapse.REGIMES):
            draw_areas(areas[column], rows, regime)
            draw_sounded(sounded[column], rows, regime)
        areas[0].set(ylabel="chance that a run about to collapse\nscores above a healthy one (AUC)")
        areas[1].text(0.1, 0.485, "guessing", transform=areas[1].get_yaxis_transform(), va="top")
        sounded[0].set(ylabel="share of collapses announced\nat least so early")
        place = {"transform": sounded[1].transAxes, "va": "top", "fontsize": 7.0}
        sounded[1].text(0.02, 0.95, "dotted: the same of healthy runs, which is chance", **place)
        parts[1].legend(*areas[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, handlelength=1.6)
        said(figure)
    return figure


def said(figure: Figure) -> None:
    """What is seen, in words."""
    staleness = vcpo_collapse.REGIMES["chain"]["staleness"]
    _script.caption(
        figure,
        f"Training on data {staleness} versions old (truncated ratios) at a step that is safe when synchronous: some",
        "runs collapse, each at its own time. Top: medians of these and of healthy runs cut at the same times.",
        "Middle: how well a number read so many updates before tells the ones from the others; 0.5 is guessing.",
        "Bottom: alarms whose level wakes one healthy run in ten. Bars: 95 % intervals; the band holds a whole curve.",
    )


def value(rows: Any, **place: Any) -> Any:
    """The one row at a place, or None."""
    found = pick(rows, **place)
    return None if found.empty else found.iloc[0]


def quoted(row: Any, digits: int = 2) -> str:
    """A value with its interval."""
    if row is None:
        return "no value"
    return f"{row.value:.{digits}f} ({row.low:.{digits}f} to {row.high:.{digits}f})"


def numbers(rows: Any) -> dict[str, str]:
    """What the entry quotes."""
    stale = {str(regime["staleness"]) for regime in vcpo_collapse.REGIMES.values()}
    found = {"staleness": _script.listed(sorted(stale)), "rate": f"{100 * vcpo_collapse.RATE:.0f}"}
    for regime in vcpo_collapse.REGIMES:
        own = pick(rows, regime=regime)
        shares = pick(own, quantity="share").set_index("statistic")
        found[f"{regime}_replicates"] = f"{shares.samples['collapsed']:.0f}"
        for name in ("collapsed", "never learned", "recovered", "synchronous collapsed"):
            found[f"{regime}_{name.replace(' ', '_')}"] = f"{100 * shares.value[name]:.0f}"
        area = pick(own, quantity="auc")
        found[f"{regime}_leads"] = _script.listed(f"{lead:.0f}" for lead in sorted(set(area.lead)))
        for name in (*ALARMS, "cosine"):
            ordered = pick(area, statistic=name).sort_values("lead")
            found[f"{regime}_{name}"] = _script.listed(f"{one:.2f}" for one in ordered.value)
        for name in ("ess", "norm"):
            for group in GROUPS:
                share = value(own, quantity="announced", lead=1, statistic=name, group=group)
                found[f"{regime}_{name}_{group}"] = "no" if share is None else f"{100 * share.value:.0f}"
    return found | verdict(rows)


def verdict(rows: Any) -> dict[str, str]:
    """The areas that the verdict names, with intervals."""
    area = pick(rows, quantity="auc")
    chain, tokens = pick(area, regime="chain"), pick(area, regime="tokens")
    near, soon = (sorted(set(own.lead))[own.lead.nunique() // 2] for own in (chain, tokens))
    far = chain.lead.max()
    found = {"chain_far": f"{far:.0f}", "chain_near": f"{near:.0f}", "tokens_near": f"{soon:.0f}"}
    for key, own, name, lead in (
        ("chain_ess_far", chain, "ess", far), ("chain_kl_far", chain, "kl", far),
        ("chain_drop_far", chain, "ess_drop", far), ("chain_norm_near", chain, "norm", near),
        ("tokens_norm_near", tokens, "norm", soon), ("tokens_ess_near", tokens, "ess", soon),
    ):  # fmt: skip
        found[key] = quoted(value(own, statistic=name, lead=lead))
    return found
