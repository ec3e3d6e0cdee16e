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
    "return": {"color": _style.COLORS["muted"], "marker": "D", "label": "low return (mean of 10 updates)"},
    "ess": {"color": _style.COLORS["controlled"], "marker": "o", "label": "low ESS (mean of 10)"},
    "kl": {"color": _style.COLORS["tuned"], "marker": "^", "label": "large KL to the old policy (mean of 10)"},
    "norm": {"color": _style.COLORS["stale"], "marker": "s", "label": "large gradient (largest of 10)"},
    "ess_drop": {
        "color": _style.COLORS["partial"], "marker": "v", "markerfacecolor": "white",
        "label": "drop of ESS (against the 40 updates before)",
    },
}  # fmt: skip
AHEAD = (1, 10, 19, 40, 79)
"""Leads at which alarms are shown, of those in the rows."""
GROUPS = {
    "collapsing": {"color": _style.COLORS["violated"], "marker": "o"},
    "healthy": {"color": _style.COLORS["held"], "marker": "^", "markerfacecolor": "white"},
}
SHOWN = {
    "return": ("Chain: update 0 is the collapse", "expected return"),
    "ess": ("Chain: ESS is low all along", "ESS/N: share of samples\nthat still count"),
    "norm": ("Chain: gradient no larger", "norm of the gradient (one update)"),
}
FOUND = {"chain": "Chain: low ESS marks runs, early learning too", "tokens": "Tokens: none as telling as the return"}
WARNED = {"chain": "Chain: ESS warns of few, the return late", "tokens": "Tokens: only the return warns, of few"}


def areas_of(rows: Any, regime: str, group: str = "healthy") -> Any:
    """How well scores tell runs that collapse from these others; none where there are too few."""
    return _script.pick(rows, regime=regime, quantity="auc", group=group).dropna(subset="value")


def points(ax: Axes, own: Any, shift: float = 0.0, **look: Any) -> None:
    """Values with their intervals against the lead, which runs backwards, moved aside by `shift` updates."""
    own = own.sort_values("lead")
    reach = [(own.value - own.low).clip(lower=0.0), (own.high - own.value).clip(lower=0.0)]
    style = {**_style.MEASURED, "linestyle": "-", "linewidth": 1.0, **look}
    ax.errorbar(shift - own.lead, own.value, yerr=reach, **style)


def draw_aligned(ax: Axes, rows: Any, statistic: str) -> Axes:
    """Medians before collapse, and before matched times of runs that stay healthy."""
    for group, look in GROUPS.items():
        points(ax, _script.pick(rows, quantity="aligned", statistic=statistic, group=group), markersize=2.8, **look)
    title, label = SHOWN[statistic]
    ax.set(xlabel="updates from collapse", ylabel=label)
    ax.set_title(title)
    if statistic == "norm":
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.15 * ax.get_ylim()[0])
        said = "peaks within 10 updates:\n\u201clarge gradient\u201d below"
        ax.text(0.04, 0.02, said, transform=ax.transAxes, va="bottom", fontsize=6.5)
    if statistic == "ess":
        ax.set_ylim(bottom=0.0)
    if statistic == "return":
        ax.set_ylim(0.0, 1.12 * ax.get_ylim()[1])
    return ax


def draw_areas(ax: Axes, rows: Any, regime: str) -> Axes:
    """How well each statistic tells who is about to collapse."""
    own = areas_of(rows, regime)
    ax.axhline(0.5, **_style.PREDICTED)
    for place, (name, look) in enumerate(ALARMS.items()):
        # Side by side: as many percent of the axis as can be told apart.
        points(ax, _script.pick(own, statistic=name), 0.008 * (place - 2) * own.lead.max(), markersize=3.5, **look)
    known = value(own, statistic="learned")
    if known is not None and regime == "chain":
        ax.axhline(known.value, color=_style.COLORS["muted"], linewidth=0.8, linestyle=":")
        words = f"dotted: how early\na run learned, {known.value:.2f}"
        ax.text(0.02, 0.83, words, fontsize=6.5, color=_style.COLORS["muted"], transform=ax.transAxes)
    ax.set(ylim=(0.1, 1.03), xlabel="update at which the score is read (0: collapse)")
    ax.text(0.02, 0.02, f"dashed: guessing; below: points the wrong way\n{told(rows, regime)}", va="bottom",
            fontsize=6.5, transform=ax.transAxes)  # fmt: skip
    ax.set_title(FOUND[regime])
    return ax


def told(rows: Any, regime: str) -> str:
    """How many runs are told apart."""
    counts = [_script.pick(rows, regime=regime, quantity="announced", group=group).samples.max() for group in GROUPS]
    own = areas_of(rows, regime).samples.max()
    words = f"{counts[0]:.0f} collapses watched long enough, {own - counts[0]:.0f} healthy"
    return words if own == own else "too few collapses"


def draw_sounded(ax: Axes, rows: Any, regime: str) -> Axes:
    """Share of collapses with an alarm so early or earlier; in gray the same of healthy runs: chance."""
    own = _script.pick(rows, regime=regime, quantity="announced")
    own = own[own.lead.isin(AHEAD)].assign(**{end: 100 * own[end] for end in ("value", "low", "high")})
    chance = _script.pick(own, group="healthy")
    chance = chance[chance.statistic.isin(ALARMS)].groupby("lead").value.agg(["min", "max"])
    ax.fill_between(-chance.index, chance["min"], chance["max"], color=_style.COLORS["muted"], alpha=0.3, linewidth=0)
    for place, (name, look) in enumerate(ALARMS.items()):
        shown = _script.pick(own, statistic=name, group="collapsing")
        points(ax, shown, 0.008 * (place - 2) * own.lead.max(), markersize=3.5, **look)
    ax.set(ylim=(-2.0, 104.0), xlabel="updates from collapse")
    ax.text(0.02, 0.97, "gray: the same of healthy runs (range over\nscores), which is chance", va="top", fontsize=6.5,
            transform=ax.transAxes)  # fmt: skip
    ax.set_title(WARNED[regime])
    return ax


def draw(rows: Any) -> Figure:
    """Before collapse; who is about to collapse; alarms at equal false alarms."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 8.8)
        parts = np.asarray(figure.subfigures(3, 1, height_ratios=(1.45, 1.15, 0.9)))
        for ax, statistic in zip(parts[0].subplots(1, 3), SHOWN, strict=True):
            draw_aligned(ax, _script.pick(rows, regime="chain"), statistic)
            if statistic == "return":
                ax.text(0.2, 0.42, "runs that\ncollapse", color=GROUPS["collapsing"]["color"], transform=ax.transAxes)
                ax.text(0.2, 0.99, "healthy", color=GROUPS["healthy"]["color"], transform=ax.transAxes, va="top")
        areas, sounded = parts[1].subplots(1, 2, sharey=True), parts[2].subplots(1, 2, sharey=True)
        for column, regime in enumerate(vcpo_collapse.REGIMES):
            draw_areas(areas[column], rows, regime)
            draw_sounded(sounded[column], rows, regime)
        areas[0].set(ylabel="AUC: how well a score tells\ncollapsing from healthy runs")
        sounded[0].set(ylabel="collapses with an alarm\nby then (%)")
        parts[1].legend(*areas[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, handlelength=1.6)
        said(figure, rows)
    return figure


def said(figure: Figure, rows: Any) -> None:
    """What is seen, in words."""
    staleness = vcpo_collapse.REGIMES["chain"]["staleness"]
    fell = [
        f"{100 * found.value:.0f} % of {found.samples:.0f} runs"
        for regime in vcpo_collapse.REGIMES
        if (found := value(rows, regime=regime, quantity="share", statistic="collapsed")) is not None
    ]
    chain, tokens = fell
    early = value(areas_of(rows, "chain"), statistic="learned")
    also = "" if early is None else f" (chain: how early a run learned does it as well, {early.value:.2f})"
    long, short = (regime["watch"] for regime in vcpo_collapse.REGIMES.values())
    text = (
        f"Can collapse be foreseen? Training on data {staleness} versions old (truncated importance ratios) at a step "
        f"that is safe when synchronous. Chain: 24 of 32 bits right, minus a KL penalty; {chain} collapse. Tokens: 32 "
        f"tokens of 4 kinds, no penalty; {tokens} collapse. Collapse: from then to the end the return, averaged over "
        "ten updates, stays below half of its largest gain. Healthy runs never fall below that half (those that do and "
        "recover are left out) and are read at the same update numbers. Top: medians. Middle: AUC, the chance that a "
        f"run that will collapse scores above a healthy one{also}. Bottom: alarms "
        f"set so that one in ten other healthy runs sounds in a whole watch (chain {long} updates, tokens "
        f"{short}), which is harder than to tell runs apart at one time. Bars: 95 % intervals (bottom: bands "
        "of whole distributions, thus wider)."
    )
    _script.caption(figure, text)


def value(rows: Any, **place: Any) -> Any:
    """The one row at a place, or None."""
    found = _script.pick(rows, **place)
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
        own, chain = _script.pick(rows, regime=regime), regime == "chain"
        shares = _script.pick(own, quantity="share").set_index("statistic")
        found[f"{regime}_replicates"] = f"{shares.samples['collapsed']:.0f}"
        for name in [
            name
            for name in shares.index
            if name != "healthy" and (chain or "learned early" not in name) and (chain or "learned later" not in name)
        ]:
            found[f"{regime}_{name.replace(',', '').replace(' ', '_')}"] = f"{100 * shares.value[name]:.0f}"
        area = areas_of(rows, regime)
        found[f"{regime}_leads"] = _script.listed(f"{lead:.0f}" for lead in sorted(set(area.lead)))
        for name in (*ALARMS, "cosine"):
            found[f"{regime}_{name}"] = by_lead(area, name)
        found |= others(rows, regime) if chain else {}
        found[f"{regime}_ess_against_recovered"] = by_lead(areas_of(rows, regime, "recovered"), "ess")
        sounded = _script.pick(own, quantity="announced", group="collapsing")
        sounded = sounded[sounded.lead.isin(AHEAD)].sort_values("lead")
        found[f"{regime}_ahead"] = _script.listed(f"{lead:.0f}" for lead in sorted(set(sounded.lead)))
        for name in ("ess", "norm", "return"):
            shares_ = _script.pick(sounded, statistic=name).value
            found[f"{regime}_{name}_announced"] = _script.listed(f"{100 * share:.0f}" for share in shares_) or "no"
            for group in ("healthy", "recovered") if chain else ("healthy",):
                share = value(own, quantity="announced", lead=1, statistic=name, group=group)
                found[f"{regime}_{name}_{group}"] = "no" if share is None else f"{100 * share.value:.0f}"
    return found | verdict(rows)


def by_lead(area: Any, name: str) -> str:
    """Areas of a score at its leads."""
    own = _script.pick(area, statistic=name).sort_values("lead")
    return _script.listed(f"{one:.2f}" for one in own.value) or "no value"


def others(rows: Any, regime: str) -> dict[str, str]:
    """Areas of ESS among runs that learned early, and that of the time of learning alone."""
    early = areas_of(rows, regime, "learned early")
    found = {f"{regime}_ess_among_early": by_lead(early, "ess")}
    found[f"{regime}_early_pairs"] = "no" if early.empty else f"{early.samples.max():.0f}"
    found[f"{regime}_learned_area"] = quoted(value(areas_of(rows, regime), statistic="learned"))
    return found


def verdict(rows: Any) -> dict[str, str]:
    """The areas that the verdict names, with intervals."""
    chain, tokens = areas_of(rows, "chain"), areas_of(rows, "tokens")
    near, soon = (sorted(set(own.lead))[own.lead.nunique() // 2] for own in (chain, tokens))
    far = chain.lead.max()
    found = {"chain_far": f"{far:.0f}", "chain_near": f"{near:.0f}", "tokens_near": f"{soon:.0f}"}
    for key, own, name, lead in (
        ("chain_ess_far", chain, "ess", far), ("chain_kl_far", chain, "kl", far),
        ("chain_drop_far", chain, "ess_drop", far), ("chain_norm_near", chain, "norm", near),
        ("tokens_norm_near", tokens, "norm", soon), ("tokens_ess_near", tokens, "ess", soon),
    ):  # fmt: skip
        found[key] = quoted(value(own, statistic=name, lead=lead))
    for key, group in (("early", "learned early"), ("recovered", "recovered")):
        found[f"chain_{key}_far"] = quoted(value(areas_of(rows, "chain", group), statistic="ess", lead=far))
    return found
