"""How far one update moves the log-probs of tokens, against the learning rate, and how unequally."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import model_ratios
from paper_figures import _models, _script, model_law
from paper_figures._vcpo import percents

EXPERIMENTS = {"model_ratios": {"task": "sums", "staleness": 1}}
EQUAL = 0.279
"""Share of the sum of squares in the largest 5 percent of equal normal draws."""


NOISE = "predicted if all logits have equal noise"


def one(rows: Any) -> Any:
    """Rows on sums, one update apart."""
    return _script.pick(rows, task="sums", behind=1, staleness=1)


def judged(rows: Any) -> list[tuple[str, Any, float]]:
    """Means of `token` at other rates than the usual one, each with its prediction."""
    found = []
    for model in model_law.COLOR:
        own = _models.means(one(rows), "rate", quantity="token", model=model)
        runs = model_law.runs(rows, model)
        if len(runs):
            usual = float(runs.rate.iloc[0])
            base = float(own[own.rate == usual].value.iloc[0])
            for row in own.itertuples():
                found.append((model, row, model_ratios.scaled(base, row.rate, usual)))
    return found


def others(rows: Any) -> list[tuple[str, Any, float]]:
    """Of these, the ones that are predicted and no base."""
    return [each for each in judged(rows) if each[1].rate != model_law.runs(rows, each[0]).rate.iloc[0]]


def shares(rows: Any) -> list[bool]:
    """Whether the shares of the largest tokens are as predicted."""
    found, told = (_models.means(one(rows), "model", "rate", quantity=name) for name in ("share", "told"))
    return [_models.meets(row, float(value)) for row, value in zip(found.itertuples(), told.value, strict=True)]


def kept(rows: Any) -> list[bool]:
    """Whether sizes and shares are as predicted."""
    return [_models.meets(row, value) for _, row, value in others(rows)] + shares(rows)


def draw(rows: Any) -> Figure:
    """Share of the tokens that change most, for each model and learning rate."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        ax, names = figure.subplots(), []
        measured, told = (_models.means(one(rows), "model", "rate", quantity=name) for name in ("share", "told"))
        for place, row in enumerate(measured.itertuples()):
            shade = _style.COLORS[model_law.COLOR[row.model]]
            ax.bar(place, row.value, 0.6, color=shade, alpha=0.35)
            _models.points(ax, [place], measured.iloc[[place]], shade, marker=model_law.MARK[row.model])
            rate = f"{row.rate:.5f}".rstrip("0")
            names.append(f"{_models.MODELS[row.model]},\nlearning rate {rate}")
        for place, value in enumerate(told.value):
            ax.plot([place - 0.3, place + 0.3], [value, value], label=NOISE, **_style.PREDICTED)
        ax.axhline(EQUAL, **_style.REFERENCE)
        ax.text(len(names) - 0.6, EQUAL + 0.03, f"if Gaussian:\n{100 * EQUAL:.0f} %", fontsize=7.5)
        ax.set_xticks(range(len(names)), names)
        ax.set(xlim=(-0.6, len(names) - 0.05), ylim=(0, 1.02))
        ax.set_ylabel("share of the squared change\nin log probability in the 5 %\nof tokens that change most")
        percents(ax.yaxis)
        _script.headline(figure, measured.low.min() > 0.5, "Share of an update in the tokens that change most")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Predicted sizes and shares that are met; shares of the largest tokens."""
    size = [_models.meets(row, value) for _, row, value in others(rows)]
    found = {"size_met": _models.count(size), "share_met": _models.count(shares(rows)), "equal": f"{100 * EQUAL:.0f} %"}
    measured = _models.means(one(rows), "model", "rate", quantity="share").value
    told = _models.means(one(rows), "model", "rate", quantity="told").value
    found |= {"told_least": f"{100 * told.min():.0f}", "told_most": f"{100 * told.max():.0f} %"}
    return found | {"least": f"{100 * measured.min():.0f}", "most": f"{100 * measured.max():.0f} %"}
