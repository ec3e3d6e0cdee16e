"""Return of sequence, token and geometric ratios on chains of bits over lag, batch and horizon."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments.vcpo_prefix import CENTER, LONG
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"vcpo_prefix": {"sweep": ("lag", "batch", "horizon"), "task": "penalty", "rate": "0.05"}}
LOOKS: dict[str, dict[str, Any]] = {
    "sequence": {"color": look.COLOR["controlled"], "marker": "^"},
    "sequence, cut at 8": {"color": look.COLOR["tuned"], "marker": "v"},
    "token": {"color": look.COLOR["stale"], "marker": "o"},
    "geometric": {"color": look.COLOR["muted"], "marker": "D"},
}
NAMES = {"sequence": "sequence ratio", "token": "token ratios", "geometric": "geometric mean of token ratios"}
SWEEPS = {
    "lag": ("Staleness", "staleness (versions)"),
    "batch": ("Batch size", "batch size (samples)"),
    "horizon": ("Sequence length", "sequence length (bits)"),
}
"""Title and axis of what is varied; the others stay at `CENTER`."""
KEPT = 0.05
"""Loss of return that counts as none."""


def own(rows: Any, sweep: str, ratio: str, quantity: str = "return") -> Any:
    """Rows of a ratio over one sweep."""
    key = "lag" if sweep == "free" else sweep
    return _script.pick(rows, sweep=sweep, ratio=ratio, quantity=quantity).sort_values(key)


def ends(rows: Any, sweep: str, ratio: str) -> tuple[Any, Any]:
    """The rows at the least and at the largest of what is varied."""
    found = own(rows, sweep, ratio)
    return found.iloc[0], found.iloc[-1]


def draw_one(ax: Axes, rows: Any, sweep: str) -> None:
    """One sweep."""
    places = sorted({int(x) for x in _script.pick(rows, sweep=sweep)[sweep]})
    at = {value: place for place, value in enumerate(places)}
    for shift, (ratio, looks) in zip((-0.09, -0.03, 0.03, 0.09), LOOKS.items(), strict=True):
        found = own(rows, sweep, ratio)
        if len(found):
            x = [at[int(value)] + shift for value in found[sweep]]
            look.points(ax, x, found, **look.CONNECTED, **{**looks, "markersize": 3.5})
    look.ticks(ax.xaxis, range(len(places)), [f"{value:,}" for value in places])
    ax.set(title=SWEEPS[sweep][0], xlabel=SWEEPS[sweep][1])


def robust(rows: Any) -> bool:
    """Whether at the largest lag and batch sequence ratios keep their return, and others have lost some of theirs."""
    last = {
        (s, ratio): ends(rows, s, ratio)[1] for s in ("lag", "batch") for ratio in ("sequence", "token", "geometric")
    }
    leads = [
        last[s, "sequence"].low > last[s, other].high for s in ("lag", "batch") for other in ("token", "geometric")
    ]
    falls = [
        last[s, other].high < ends(rows, s, other)[0].low for s in ("lag", "batch") for other in ("token", "geometric")
    ]
    kept = [last[s, "sequence"].value > ends(rows, s, "sequence")[0].value - KEPT for s in ("lag", "batch")]
    return all(leads) and all(falls) and all(kept)


def draw(rows: Any) -> Figure:
    """A panel for each sweep."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        axes = figure.subplots(1, 3, sharey=True)
        for ax, sweep in zip(axes, SWEEPS, strict=True):
            draw_one(ax, rows, sweep)
        axes[0].set_ylabel("return at the end of training")
        words = "Stale data and large batches cost token ratios return; sequence ratios keep theirs"
        title = _script.finding(robust(rows), words, "Return by ratio, staleness, batch size and sequence length")
        marks = [
            Line2D([], [], label=NAMES.get(k, k), **{**look.CONNECTED, "markersize": 4, **LOOKS[k]}) for k in LOOKS
        ]
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles=marks, ncols=len(marks), title=title, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Returns at both ends of each sweep, and without a penalty."""
    found = {"runs": f"{int(rows.samples.max())}", "few": f"{int(rows.samples.min())}"}
    found |= {name: f"{CENTER[name]}" for name in ("lag", "batch", "horizon", "updates")} | {"long": f"{LONG:,}"}
    for sweep in (*SWEEPS, "free"):
        for ratio in ("sequence", "token", "geometric"):
            for name, row in zip(("least", "most"), ends(rows, sweep, ratio), strict=True):
                found[f"{sweep}_{ratio}_{name}"] = f"{row.value:.2f}"
                found.setdefault(f"{sweep}_{name}", f"{int(row['lag' if sweep == 'free' else sweep]):,}")
    cut, plain = ends(rows, "batch", "sequence, cut at 8")[0], ends(rows, "batch", "sequence")[0]
    found["cut_least"] = f"{cut.value:.2f}"
    helps = "helps" if cut.low > plain.high else "hurts" if cut.high < plain.low else "does not matter"
    return found | {"cut_helps": helps}
