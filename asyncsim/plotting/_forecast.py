"""A forecast, drawn for whoever decides: what the log measured, and the band at every setting that was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asyncsim.base.notation import plural
from asyncsim.plotting import _style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asyncsim.base.forecasts import Forecast

PANELS = (
    ("seconds per update", "seconds per update", "s"),
    ("staleness", "mean staleness of tokens", "versions"),
    ("token ESS", "token ESS", "share of N"),
)
COLORS = ("predicted", "contrast", "held", "tuned", "partial")


def draw_forecast(found: Forecast) -> Figure:
    """Seconds, staleness and ESS by setting, or over the number that varies: points of the log, and 95 % bands."""
    figure, count = _style.picture(_style.WIDTH, 2.9), len(found.settings)
    one = [0.0] * count
    name, *more = [each for each in found.at if each != "machines"] or ["machines"]
    machines = one if name == "machines" else found.at.get("machines", one)
    number = not more and len({*found.at.get(name, one)}) > 2 and len({*machines}) <= len(COLORS)
    at, machines = (found.at[name], machines) if number else (range(count), one)
    for ax, (quantity, title, unit) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        line = found.line(quantity)
        if line.measured is None and quantity == "staleness" and (first := found.line("head staleness")).measured:
            line, title = first, "head staleness"
        for color, many in zip(COLORS, dict.fromkeys(machines), strict=False):
            drawn = [k for k in range(count) if machines[k] == many and line.forecasts[k].value is not None]
            rows = [(at[k], line.forecasts[k]) for k in sorted(drawn, key=at.__getitem__)]
            words = "forecast, 95 % band" + f", {plural(many, 'machine')}" * (len({*machines}) > 1)
            _mark(ax, rows, color, "_-" if number else "_", words)
        if line.measured is not None:
            beside = at[0] - 0.04 * (max(at) - min(at)) if number else -0.22
            _mark(ax, [(beside, line.measured)], "measured", "o", "the log, 95 % interval")
        if not number:
            long = max(map(len, found.settings)) * count > 60  # letters that fit below a panel
            ax.set_xticks(at, found.settings, rotation=30 * long, ha="right" if long else "center")
            ax.set_xlim(-0.6, count - 0.5)
        ax.set(xlabel=name if number else "", ylabel=unit, title=title)
        ax.set_ylim(None if quantity == "token ESS" else 0.0)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    seconds, ess = (found.line(PANELS[k][0]).forecasts[-1] for k in (0, -1))
    said = f"{found.about.partition(' ')[0]}, {found.settings[-1]}: {seconds} s per update and {ess} of N as ESS"
    figure.suptitle(said, ha="left", x=0.02)
    return figure


def _mark(ax: Any, rows: list[Any], color: str, form: str, label: str) -> None:
    at, bands = zip(*rows, strict=True) if rows else ((), ())
    # The band is what is forecast, its value a line across.
    wide, low, high = form[0] == "_", [b.low for b in bands], [b.high for b in bands]
    marks = {"marker": form[0], "markersize": 8.0 if wide else 4.0, "linestyle": form[1:] or "none", "linewidth": 1.0}
    ax.vlines(at, low, high, color=_style.COLORS[color], linewidth=5.0 if wide else 1.2, alpha=0.4 if wide else 1.0)
    ax.plot(at, [b.value for b in bands], color=_style.COLORS[color], label=label, **marks)
