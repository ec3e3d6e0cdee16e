"""Return of sequence, token and geometric ratios on chains of bits over lag and batch; over horizon in numbers."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments.vcpo_prefix import CENTER, LONG
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

PAID = {"bits with a penalty": "1 if enough of 128 are correct, less a KL penalty"}
EXPERIMENTS = {"vcpo_prefix": {"sweep": ("lag", "batch"), "task": "penalty", "rate": "0.05", "means": PAID}}
LOOKS: dict[str, dict[str, Any]] = {
    "sequence": look.TRUNCATED,
    "token": _methods.look("token truncated IS", **look.HOLLOW),
    "geometric": {"color": look.COLOR["muted"], "marker": "D"},
}
NAMES = {"sequence": "sequence ratio", "token": "token ratios", "geometric": "geometric mean\nof token ratios"}
SWEEPS = {"lag": "staleness (versions)", "batch": "batch size (samples)"}
"""What is drawn, with its axis; the rest stays at `CENTER`."""
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
    for shift, (ratio, looks) in zip((-0.06, 0.0, 0.06), LOOKS.items(), strict=True):
        found = own(rows, sweep, ratio)
        if len(found):
            x = [at[int(value)] + shift for value in found[sweep]]
            look.points(ax, x, found, **look.CONNECTED, **{**looks, "markersize": 3.5})
    look.ticks(ax.xaxis, range(len(places)), [f"{value:,}" for value in places])
    ax.set(xlabel=SWEEPS[sweep], ylim=(0.5, 1.0))


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
        axes = figure.subplots(1, len(SWEEPS), sharey=True)
        for ax, sweep in zip(axes, SWEEPS, strict=True):
            draw_one(ax, rows, sweep)
        axes[0].set_title(f"Batches of {CENTER['batch']}, {LONG:,} updates")
        (least, most), *others = (ends(rows, "batch", ratio) for ratio in LOOKS)
        helped = most.low > least.high and all(last.high < first.low for first, last in others)
        words = _script.finding(helped, "only sequence ratios gain", "size of batches")
        axes[1].set_title(f"Staleness {CENTER['lag']}, {CENTER['updates']} updates: {words}")
        axes[0].set_ylabel("return at the end of training\n(axis from 0.5)")
        look.ends(axes[1], {NAMES[k]: (ends(rows, "batch", k)[1].value, LOOKS[k]["color"]) for k in LOOKS}, gap=0.15)
        _script.headline(figure, robust(rows), "Return by ratio, staleness and batch size")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Returns at both ends of each sweep, and on the oldest data without a penalty."""
    found = {"runs": f"{int(rows.samples.max())}", "few": f"{int(rows.samples.min())}"}
    found |= {name: f"{CENTER[name]}" for name in ("lag", "batch", "horizon", "updates")} | {"long": f"{LONG:,}"}
    for sweep in (*SWEEPS, "horizon"):
        for ratio in ("sequence", "token", "geometric"):
            for name, row in zip(("least", "most"), ends(rows, sweep, ratio), strict=True):
                found[f"{sweep}_{ratio}_{name}"] = f"{row.value:.2f}"
                found.setdefault(f"{sweep}_{name}", f"{int(row[sweep]):,}")
    for ratio in ("sequence", "token", "geometric"):
        if ratio != "geometric":
            found[f"success_{ratio}"] = f"{own(rows, 'lag', ratio, 'success').value.iloc[-1]:.2f}"
        oldest = ends(rows, "free", ratio)[1]
        found |= {"free_most": f"{int(oldest.lag):,}", f"free_{ratio}_most": f"{oldest.value:.2f}"}
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether sequence ratios keep their return and token ratios do not, by what grows and how far."""
    found = []
    for sweep, name in {**SWEEPS, "horizon": "bits", "free": "without a penalty, staleness"}.items():
        first, *later = zip(*(own(rows, sweep, ratio).itertuples() for ratio in ("sequence", "token")), strict=True)
        for pair in later:
            # Losses at least and at most, of both ratios.
            losses = [(a.low - b.high, a.high - b.low) for a, b in zip(first, pair, strict=True)]
            (kept, most), (least, lost) = losses
            answer = decided(most <= KEPT < least, kept > KEPT or lost <= KEPT)
            grown = pair[0].lag if sweep == "free" else getattr(pair[0], sweep)
            found.append(Setting((name.partition(" (")[0], f"{grown:,}"), answer))
    return {"sequence": found}
