"""Effective sample size of texts of 8 and 512 characters, on what one update predicts; variance and tail in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import model_ratios
from paper_figures import _models, _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"model_ratios": {"task": "text", "model": "char"}}
QUANTITIES = ("variance", "ess", "hill")


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
    return [_models.meets(*each) for quantity in QUANTITIES for each in judged(text(rows), quantity)]


def draw(rows: Any) -> Figure:
    """ESS of the shortest and the longest texts against staleness, on its predictions."""
    own = text(rows)
    lengths = sorted({*own.tokens} - {0})
    levels = sorted(own.staleness.unique())
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        ax, ends = figure.subplots(), {}
        for tokens, color in ((lengths[0], "measured"), (lengths[-1], "contrast")):
            shade = _style.COLORS[color]
            shown = _models.means(own, "staleness", quantity="ess", tokens=tokens)
            shown = shown.assign(high=shown.high.clip(upper=1.0), low=shown.low.clip(lower=0.0))
            _models.points(ax, shown.staleness, shown, shade)
            style = {**_style.PREDICTED, "color": shade, "label": "predicted from one update"}
            ax.plot(levels, [told(own, "ess", s, tokens) for s in levels], **style)
            ends[f"{tokens} tokens"] = (float(shown.value.iloc[-1]), shade)
        _models.levels(ax, levels)
        ax.set(xlim=(levels[0] / 1.1, levels[-1] * 1.1), ylim=(0.0, 1.03))
        ax.set(xlabel="staleness (versions)", ylabel="ESS / number of texts")
        found = list(judged(own, "ess"))
        short = [_models.meets(*each) for each in found if each[0].tokens == lengths[0]]
        under = [row.low > law for row, law in found if row.tokens == lengths[-1] and row.staleness == levels[-1]]
        look.ends(ax, ends)
        _script.headline(figure, all(short) and any(under), "ESS of texts, and what one update predicts")
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
    for quantity in QUANTITIES:
        found[f"{quantity}_met"] = _models.count([_models.meets(*each) for each in judged(own, quantity)])
        place = {"staleness": staleness, "tokens": tokens}
        found[quantity] = _models.value(_models.mean(own, quantity=quantity, **place))
        found[f"{quantity}_told"] = f"{told(own, quantity, **place):.2f}"
    return found | {"met": _models.count(kept(rows))}
