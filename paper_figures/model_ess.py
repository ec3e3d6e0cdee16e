"""Variance, ESS and tail of the ratios of texts up to 512 characters, on what one update predicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import model_ratios
from paper_figures import _models, _script

EXPERIMENTS = {"model_ratios": {"task": "text", "model": "char"}}
DRAWN = {
    "variance": ("Variance of a text's log ratio", "variance (nats²)"),
    "ess": ("Effective sample size (ESS)", "ESS / number of texts"),
    "hill": ("Tail of the ratios", "Hill's index (small: heavy tail)"),
}


def text(rows: Any) -> Any:
    """Rows on long texts of characters."""
    return _script.pick(rows, task="text", model="char")


def told(rows: Any, quantity: str, staleness: int, tokens: int) -> float:
    """What the rows at staleness 1 predict; the tail's index from the predicted variance."""
    one = _models.mean(rows, quantity="sum", staleness=1, tokens=tokens).value
    drift = _models.mean(rows, quantity="drift").value
    found = model_ratios.predicted(one, drift, staleness)
    return model_ratios.hill(found["variance"], int(rows.samples.max())) if quantity == "hill" else found[quantity]


def judged(rows: Any, quantity: str) -> Iterator[tuple[Any, float]]:
    """Measured means beyond staleness 1, each with its prediction."""
    own = _models.means(rows, "staleness", "tokens", quantity=quantity)
    for row in own[own.staleness > 1].itertuples():
        yield row, told(rows, quantity, row.staleness, row.tokens)


def kept(rows: Any) -> list[bool]:
    """Whether variances, ESS and tails are as predicted."""
    return [_models.meets(*each) for quantity in DRAWN for each in judged(text(rows), quantity)]


def draw_one(ax: Axes, rows: Any, quantity: str) -> None:
    """One quantity against staleness, a line for each length, on its predictions."""
    lengths = sorted({*rows.tokens} - {0})
    levels = sorted(rows.staleness.unique())
    for place, ((_, color), tokens) in enumerate(zip(_script.shades(lengths), lengths, strict=True)):
        own = _models.means(rows, "staleness", quantity=quantity, tokens=tokens)
        if quantity == "ess":
            own = own.assign(high=own.high.clip(upper=1.0))
        _models.points(ax, own.staleness * 1.06 ** (place - 1.5), own, color, linestyle="none", label=f"{tokens}")
        ax.plot(levels, [told(rows, quantity, s, tokens) for s in levels], **{**_style.PREDICTED, "color": color})
    _models.levels(ax, levels)
    ax.set(xlabel="staleness (versions)", title=DRAWN[quantity][0], ylabel=DRAWN[quantity][1])
    if quantity != "ess":
        ax.set_yscale("log")


def draw(rows: Any) -> Figure:
    """Three panels."""
    own = text(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.1)
        axes = figure.subplots(1, len(DRAWN))
        for ax, quantity in zip(axes, DRAWN, strict=True):
            draw_one(ax, own, quantity)
        last = [_models.meets(row, law) for row, law in judged(own, "variance") if row.tokens == own.tokens.max()]
        words = "One update predicts ratios of long texts sixteen updates later"
        part = f"One update predicts {sum(kept(rows))} of {len(kept(rows))} values on stale ratios of long texts"
        title = _script.finding(all(last), words, part)
        handles, labels = axes[0].get_legend_handles_labels()
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles, [f"texts of {each} tokens" for each in labels], ncols=len(labels), title=title, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Predictions met by quantity, and what there is at the longest text and the largest staleness."""
    own = text(rows)
    tokens, staleness = own.tokens.max(), own.staleness.max()
    found = {
        "tokens": f"{tokens}",
        "staleness": f"{staleness}",
        "drift": _models.value(_models.mean(own, quantity="drift")),
    }
    for quantity in DRAWN:
        found[f"{quantity}_met"] = _models.count([_models.meets(*each) for each in judged(own, quantity)])
        place = {"staleness": staleness, "tokens": tokens}
        found[quantity] = _models.value(_models.mean(own, quantity=quantity, **place))
        found[f"{quantity}_told"] = f"{told(own, quantity, **place):.2f}"
    return found | {"met": _models.count(kept(rows))}
