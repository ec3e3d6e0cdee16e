"""A forecast, drawn for whoever decides: what the log measured, and the band at every setting that was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsim.plotting import _style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asyncsim.base.forecasts import Band, Forecast

PANELS = (
    ("seconds an update", "seconds an update"),
    ("staleness", "staleness of tokens (versions)"),
    ("token ESS", "token ESS / N"),
)
LONG = 60
"""Letters of all settings from which on their names are turned."""


def draw_forecast(found: Forecast) -> Figure:
    """Seconds, staleness and ESS by setting: points of the log with intervals, and forecasts with 95 % bands."""
    figure = _style.picture(2 * _style.COLUMN, 2.9)
    places = range(len(found.settings))
    for letter, ax, (name, label) in zip("abc", figure.subplots(1, len(PANELS)), PANELS, strict=True):
        line = found.line(name)
        measured = line.measured
        if measured is None and name.startswith("staleness") and (first := found.line("head staleness")).measured:
            line, measured, label = first, first.measured, "head staleness (versions)"
        known = [k for k in places if line.forecasts[k].value is not None]
        for k in known:
            _mark(ax, k, line.forecasts[k], "predicted", "s", "forecast, 95 % band" if k == known[0] else "")
        if measured is not None:
            _mark(ax, -0.22, measured, "measured", "o", "the log, 95 % interval")
        long = max(map(len, found.settings)) * len(found.settings) > LONG
        ax.set_xticks(list(places), found.settings, rotation=30 * long, ha="right" if long else "center")
        ax.set_xlim(-0.6, max(places) + 0.5)
        ax.set(ylabel=label, title=letter)
        if name != "token ESS":
            ax.set_ylim(0.0)
        if letter == "a":
            handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    said = [
        f"{found.line(n).forecasts[-1]} {unit}"
        for n, unit in (("seconds an update", "s an update"), ("token ESS", "of N as ESS"))
    ]
    figure.suptitle(f"{found.about.partition(' ')[0]}, {found.settings[-1]}: {' and '.join(said)}", ha="left", x=0.02)
    return figure


def _mark(ax: object, at: float, band: Band, color: str, marker: str, label: str) -> None:
    reach = [[band.value - band.low], [band.high - band.value]]  # type: ignore[operator]
    marks = {**_style.MEASURED, "marker": marker}
    ax.errorbar([at], [band.value], yerr=reach, color=_style.COLORS[color], label=label or None, **marks)  # type: ignore[attr-defined]
