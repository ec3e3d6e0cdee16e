"""Every method at every staleness: progress of one batch, why it is lost, and what length has to do with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from asyncsim.plotting import _style
from experiments._atlas_methods import FAMILIES
from paper_figures import _script

EXPERIMENTS = ("atlas",)
COLORS = dict(zip(FAMILIES, ("#4a5361", "#0b66b0", "#1a7f4e", "#c22f2f", "#d1690e", "#7b4fa3", "#9a6b00"), strict=True))
"""One color per family."""
SHOWN = {
    "score_centering": "o", "truncated_is token": "^", "reinforce": "s", "ppo_clip": "D", "truncated_is": "v",
    "vcpo": "P",
}  # fmt: skip
"""Representatives with their markers."""
BESIDE: dict[str, tuple[float, float]] = {
    "score_centering": (-4, -9), "truncated_is token": (6, 4), "reinforce": (6, -9), "ppo_clip": (-2, -10),
    "truncated_is": (5, -8), "vcpo": (6, -3),
}  # fmt: skip
"""Where their names stand, in points from the marker."""
STALENESS, LENGTH, SAMPLES = 16, 512, 64
RARE = 0.1
"""Share of one batch in sum |g|^2 above which moments rest on batches that are hardly ever drawn."""


def part(rows: Any, **where: Any) -> Any:
    """Sampled rows of methods that apply, on the path of ascent unless said otherwise."""
    keep = (rows.source == "sampled") & (rows.left_out == "")
    usual = {"drift": "ascent", "samples": SAMPLES, "length": LENGTH, "reward": "own", "seed": 1}
    for name, value in {**usual, **where}.items():
        keep &= rows[name] == value
    return rows[keep]


def order(rows: Any) -> list[tuple[str, str]]:
    """(family, method) of every row of the atlas: families in order, in each the best at the reading point first."""
    here = part(rows, staleness=STALENESS)
    rank = {family: place for place, family in enumerate(FAMILIES)}
    return sorted(
        zip(here.family, here.method, strict=True),
        key=lambda each: (rank[each[0]], -float(here[here.method == each[1]].progress.iloc[0])),
    )


def columns(rows: Any) -> list[tuple[float, str, Any]]:
    """Place, head and cells of the columns of the atlas: the staleness, then the reading point otherwise."""
    levels = sorted(int(d) for d in part(rows).staleness.unique())
    found = [(float(x), f"{d}", part(rows, staleness=d)) for x, d in enumerate(levels)]
    end = len(levels) + 0.25
    return [
        *found,
        (end, f"{STALENESS}\nrand.", part(rows, staleness=STALENESS, drift="random")),
        (end + 1.0, f"{STALENESS}\nN = 8", part(rows, staleness=STALENESS, samples=8)),
    ]


def places(methods: list[tuple[str, str]]) -> dict[str, float]:
    """Height of every method, with room for the name of each family above its first one."""
    found: dict[str, float] = {}
    for i, (_, method) in enumerate(methods):
        found[method] = i + 0.85 * len({name for name, _ in methods[: i + 1]} - {methods[0][0]})
    return found


def draw_atlas(ax: Axes, rows: Any) -> Axes:
    """Progress of every method against staleness, the best of each column framed."""
    methods, heads = order(rows), columns(rows)
    place = places(methods)
    for x, head, cells in heads:
        ax.text(x, -1.55, head, ha="center", va="bottom", fontsize=6)
        for row in cells.itertuples():
            draw_cell(ax, x, place[row.method], row)
    kept = part(rows, staleness=STALENESS).set_index("method").kept
    edge = heads[-1][0] + 1.15
    ax.text(edge, -1.55, "kept\n%", ha="right", va="bottom", fontsize=6)
    for i, (family, method) in enumerate(methods):
        ax.text(edge, place[method], f"{100 * kept[method]:.0f}", ha="right", va="center", fontsize=5)
        if i == 0 or methods[i - 1][0] != family:
            spot = place[method] - 0.55
            ax.text(-0.5, spot, family, fontsize=6, weight="bold", color=COLORS[family], va="bottom")
    ax.set(xlim=(-0.5, edge + 0.05), ylim=(max(place.values()) + 0.55, -1.5), xticks=[])
    ax.set_yticks(list(place.values()), [method for _, method in methods], fontsize=6)
    for text, (family, _) in zip(ax.get_yticklabels(), methods, strict=True):
        text.set_color(COLORS[family])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def draw_cell(ax: Axes, x: float, y: float, row: Any) -> None:
    """One number on its color; framed where no other method is significantly better, in brackets where it is unsure."""
    shade = colormaps["RdBu"](0.5 + 0.44 * row.progress)
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1.0, 1.0, facecolor=shade, edgecolor="white", linewidth=0.4))
    best = row.behind_low <= 0.0
    text = f"{row.progress + 0.0:.2f}".replace("-0.00", "0.00").replace("0.", ".").replace("-", "−")
    text = f"({text})" if row.largest > RARE else text
    color = "white" if abs(row.progress) > 0.6 else _style.INK
    ax.text(x, y, text, ha="center", va="center", fontsize=5, color=color, weight="bold" if best else "normal")
    if best:
        ax.add_patch(Rectangle((x - 0.46, y - 0.44), 0.92, 0.88, fill=False, edgecolor=_style.INK, linewidth=0.8))


def draw_errors(ax: Axes, rows: Any) -> Axes:
    """Direction of the mean against noise, at the reading point; lines from staleness 1; dashed: equal progress."""
    lines(ax)
    here = part(rows, staleness=STALENESS)
    for row in here.itertuples():
        draw_error(ax, row, row.method in SHOWN)
    for method, marker in SHOWN.items():
        own = part(rows, method=method)
        own = own[own.staleness.between(1, STALENESS)].sort_values("staleness")
        color = COLORS[own.family.iloc[0]]
        ax.plot(limited(own.variance, *NOISE), limited(own.direction, *ANGLE), color=color, linewidth=0.8, zorder=3)
        last = own.iloc[-1]
        spot = (limited(last.variance, *NOISE), limited(last.direction, *ANGLE))
        ax.plot(*spot, marker=marker, color=color, markersize=5, zorder=4)
        ax.annotate(method, spot, BESIDE[method], textcoords="offset points", fontsize=6, color=color, zorder=5)
    ax.set(xscale="log", yscale="log", xlim=NOISE, ylim=ANGLE)
    ax.set(xlabel=r"noise of one batch: tr Cov $g$ / $|E g|^2$", ylabel=r"bias: $1 - \cos(E g, \nabla J)$")
    ax.set_title(f"Bias or noise? (staleness 1 to {STALENESS})")
    return ax


NOISE, ANGLE = (0.007, 1000.0), (1e-4, 3.0)


def limited(values: Any, low: float, high: float) -> Any:
    """Values moved onto the frame where they lie outside."""
    return np.clip(np.nan_to_num(values, nan=high), 1.08 * low, high / 1.08)


def draw_error(ax: Axes, row: Any, shown: bool) -> None:
    """One method with its intervals; without them on the frame, and hollow where moments are unsure."""
    x, y = limited(row.variance, *NOISE), limited(row.direction, *ANGLE)
    style = {"color": COLORS[row.family], "marker": "" if shown else "o", "markersize": 2.5, "elinewidth": 0.5}
    if row.largest > RARE or not (NOISE[0] < row.variance < NOISE[1] and ANGLE[0] < row.direction < ANGLE[1]):
        inside = "white" if row.largest > RARE else COLORS[row.family]
        ax.plot(x, y, color=COLORS[row.family], marker="" if shown else "o", markersize=2.5, mfc=inside)
        return
    ends = [limited(getattr(row, name), *frame) for name, frame in (
        ("variance_low", NOISE), ("variance_high", NOISE), ("direction_low", ANGLE), ("direction_high", ANGLE)
    )]  # fmt: skip
    reach = np.maximum([[[x - ends[0]], [ends[1] - x]], [[y - ends[2]], [ends[3] - y]]], 0.0)
    ax.errorbar(x, y, xerr=reach[0], yerr=reach[1], linestyle="none", alpha=0.8, **style)


def lines(ax: Axes) -> None:
    """Equal progress cos^2 / (1 + noise), which follows from the two axes."""
    noise = np.geomspace(*NOISE, 400)
    look = {**_style.PREDICTED, "linewidth": 0.7, "color": _style.COLORS["muted"]}
    for progress in (0.9, 0.7, 0.5, 0.3, 0.1):
        cosine = np.sqrt(progress * (1.0 + noise))
        inside = cosine < 1.0
        ax.plot(noise[inside], 1.0 - cosine[inside], zorder=0, **look)
        style = {"color": look["color"], "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.5}}
        ax.text(1.5 * NOISE[0], 1.0 - cosine[0], f"{progress:g}", fontsize=5.5, va="center", **style)


def draw_length(ax: Axes, rows: Any) -> Axes:
    """Progress of representatives and ESS against length at the reading staleness."""
    lengths = sorted(int(length) for length in rows[(rows.source == "sampled") & (rows.length > 3)].length.unique())
    found = {length: part(rows, length=length, staleness=STALENESS) for length in lengths}
    cells = [found[length].iloc[0] for length in lengths]
    ax.axhline(0.0, color=_style.COLORS["muted"], linewidth=0.6)
    ends = {}
    for i, (method, marker) in enumerate(SHOWN.items()):
        own = [cell[cell.method == method].iloc[0] for cell in found.values()]
        color, x = COLORS[own[0].family], np.array(lengths) * 1.05 ** (i - 2.5)
        reach = [[o.progress - o.progress_low for o in own], [o.progress_high - o.progress for o in own]]
        ax.errorbar(x, [o.progress for o in own], reach, color=color, marker=marker, markersize=4, linewidth=0.9)
        ends[method] = (own[-1].progress, color)
    for (method, (_, color)), y in zip(
        sorted(ends.items(), key=lambda each: each[1][0]), apart([y for y, _ in ends.values()], 0.1), strict=True
    ):
        ax.text(1.5 * lengths[-1], y, method, fontsize=6, color=color, va="center")
    look = {**_style.MEASURED, "color": _style.INK, "mfc": "white", "markersize": 3.5}
    reach = [[c.ess - c.ess_low for c in cells], [c.ess_high - c.ess for c in cells]]
    ax.errorbar(lengths, [c.ess for c in cells], reach, label="ESS/N of the batches", **look)
    ax.plot(lengths, [c.ess_limit for c in cells], label="its limit, predicted", **_style.PREDICTED)
    ax.legend(loc="lower left", fontsize=6, borderpad=0.0)
    pull = pulls(rows)["ppo_clip"]
    told = "\n".join(f"{pull[length]:+.2f} at {length}".replace("-", "−") for length in sorted(pull))
    ax.text(6.5, -0.12, f"clip, rewards shuffled,\nover the fresh signal:\n{told}", color=COLORS["clip around anchor"],
            fontsize=6, va="top")  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set(xticks=lengths, xlim=(6, 6000), ylim=(-1.0, 1.05), xlabel="length (tokens)", ylabel="progress, ESS / N")
    ax.set_xticklabels([str(length) for length in lengths])
    ax.minorticks_off()
    ax.set_title(f"Length decides (staleness {STALENESS}, N = {SAMPLES})")
    return ax


def apart(places: list[float], gap: float) -> list[float]:
    """The places in order, moved so that none is closer than `gap` to the next."""
    found = sorted(places)
    for _ in range(50):
        for i in range(len(found) - 1):
            lack = gap - (found[i + 1] - found[i])
            if lack > 0:
                found[i], found[i + 1] = found[i] - lack / 2, found[i + 1] + lack / 2
    return found


def draw_exact(ax: Axes, rows: Any) -> Axes:
    """Sampled progress on the exact one, where every batch can be enumerated."""
    keys = ["length", "samples", "method"]  # the corner has one cell for each
    both = rows[(rows.source == "sampled") & (rows.left_out == "")].merge(
        rows[rows.source == "exact"][[*keys, "progress"]], on=keys, suffixes=("", "_exact")
    )
    ax.plot([-1, 1], [-1, 1], **_style.PREDICTED)
    for row in both.itertuples():
        reach = np.maximum([[row.progress - row.progress_low], [row.progress_high - row.progress]], 0.0)
        look = {"color": COLORS[row.family], "mfc": "white", "markersize": 2.5, "marker": "o", "elinewidth": 0.5}
        ax.errorbar(row.progress_exact, row.progress, reach, alpha=0.8, **look)
    inside = both.progress_exact.between(both.progress_low - 1e-12, both.progress_high + 1e-12)
    low = min(0.0, both.progress_exact.min()) - 0.05
    ax.set(xlim=(low, 1.02), ylim=(low, 1.02), xlabel="exact (every batch enumerated)", ylabel="sampled")
    ax.set_title("Sampled against exact progress")
    ax.text(0.98, 0.04, f"{inside.sum()} of {len(both)} intervals\nhold the exact value", ha="right", fontsize=6,
            transform=ax.transAxes)  # fmt: skip
    return ax


def draw(rows: Any) -> Figure:
    """The atlas on the left, on the right why, since when, and whether to believe it."""
    here = part(rows, staleness=STALENESS).iloc[0]
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 9.3)
        left, right = figure.subfigures(1, 2, width_ratios=(1.2, 1))
        draw_atlas(left.subplots(), rows)
        why, since, exact = right.subplots(3, 1, height_ratios=(1.35, 1.1, 0.9))
        draw_errors(why, rows)
        draw_length(since, rows)
        draw_exact(exact, rows)
        left.suptitle(
            f"Progress of a batch of {SAMPLES} samples of {LENGTH} tokens\nagainst staleness (updates)",
            x=0.02, ha="left", fontsize=8,
        )  # fmt: skip
        _script.caption(
            figure,
            "What is a stale batch worth? Progress: what the best step along its gradient gains, over what the exact",
            "one gains: 1 is perfect, below 0 leads away. Framed: none is significantly better. (In brackets): rests",
            "on rare batches. +: a mask on truncated_is token. Rand.: data as far off as at 16, but not by learning.",
            f"{verdict(rows)} There log ratios deviate by {here.token_rms:.2f} per token, "
            f"{here.log_deviation:.1f} per sequence.",
        )
    return figure


def verdict(rows: Any) -> str:
    """The best method at the reading point."""
    here = part(rows, staleness=STALENESS)
    best = here.loc[here.progress.idxmax()]
    return f"At staleness {STALENESS} and {LENGTH} tokens: {best.method}."


def answer(rows: Any) -> list[str]:
    """The table of the reading point: the best and the last of each family, and who cannot be told from the best."""
    here = part(rows, staleness=STALENESS)
    told = [
        f"At staleness {STALENESS}, length {LENGTH}, N = {SAMPLES}:",
        "",
        "| family | method | progress (95 %) | cosine of a batch | 1 - cos of the mean | noise | kept |",
        "|---|---|---|---|---|---|---|",
    ]
    for family in FAMILIES:
        own = here[here.family == family].sort_values("progress", ascending=False)
        for row in [] if own.empty else [own.iloc[0], own.iloc[-1]][: len(own)]:
            told.append(
                f"| {family} | {row.method} | {row.progress:.3f} ({row.progress_low:.3f} to {row.progress_high:.3f}) | "
                f"{row.cosine:.2f} | {row.direction:.2f} | {row.variance:.2g} | {100 * row.kept:.0f} % |"
            )
    tied = here[here.behind_low <= 0.0].sort_values("progress", ascending=False).method
    return [*told, "", f"Not told from the best: {', '.join(tied)}.", "", *elsewhere(rows)]


def elsewhere(rows: Any) -> list[str]:
    """The representatives on other tables and under random drift; and what they still do where rewards say nothing."""
    told = [
        "| method | progress, all tables | the same, random drift | along the gradient with shuffled rewards / fresh |",
        "|---|---|---|---|",
    ]
    pull = pulls(rows)
    seeds = sorted(int(seed) for seed in rows[(rows.samples == SAMPLES) & (rows.length == LENGTH)].seed.unique())
    for method in SHOWN:
        ranges = []
        for drift in ("ascent", "random"):
            cells = [part(rows, staleness=STALENESS, drift=drift, seed=seed, method=method) for seed in seeds]
            values = [float(cell.progress.iloc[0]) for cell in cells if len(cell)]
            ranges.append(f"{min(values):.2f} to {max(values):.2f}")
        told.append(f"| {method} | {ranges[0]} | {ranges[1]} | {pull[method][LENGTH]:+.2f} |")
    clip = pull["ppo_clip"]
    lengths = ", ".join(f"{clip[length]:+.2f} at {length}" for length in sorted(clip))
    return [*told, "", f"`ppo_clip` with shuffled rewards, along the gradient (fresh signal: 1): {lengths} tokens."]


def pulls(rows: Any) -> dict[str, dict[int, float]]:
    """By representative and length: what is left along the gradient with shuffled rewards, over that of fresh data."""
    found: dict[str, dict[int, float]] = {method: {} for method in SHOWN}
    for length in sorted(int(x) for x in rows[rows.reward == "shuffled"].length.unique()):
        fresh, pull = (
            part(rows, length=length, **where).set_index("method").scale
            for where in ({"staleness": 0}, {"staleness": STALENESS, "reward": "shuffled"})
        )
        for method in SHOWN if len(fresh) else ():
            found[method][length] = float(pull[method] / fresh[method])
    return found


def numbers(rows: Any) -> dict[str, str]:
    """The reading point: its log ratios, the tables, and who cannot be told from the best."""
    here = part(rows, staleness=STALENESS)
    cell, clip = here.iloc[0], here[here.method == "ppo_clip"]
    best = here.loc[here.progress.idxmax()]
    return {
        "token": f"{cell.token_rms:.2f}",
        "sequence": f"{cell.log_deviation:.1f}",
        "weight": f"{SAMPLES * cell.ess:.1f}",
        "limit": f"{SAMPLES * cell.ess_limit:.2f}",
        "best": f"`{best.method}` {best.progress:.3f} ({best.progress_low:.3f} to {best.progress_high:.3f})",
        "clipped": f"{100 * (1 - clip.kept.iloc[0]):.0f}",
        **{key: "\n".join(lines) for key, lines in _tables(rows).items()},
    }


def _tables(rows: Any) -> dict[str, list[str]]:
    """Lines of the answer by what they say."""
    told = answer(rows)
    ends = [i for i, line in enumerate(told) if not line]
    return {"methods": told[ends[0] + 1 : ends[1]], "tied": [told[ends[1] + 1]], "others": told[ends[2] + 1 :]}
