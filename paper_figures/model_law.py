"""The law fitted at staleness 1 beside runs at 4 and 16: variance and ESS of answers to sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import model_ratios
from paper_figures import _models, _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"model_ratios": {"task": "sums", "rate": (1e-4, 2e-4)}}
COLOR = {"char": "measured", "smollm2": "contrast"}
MARK = {"char": "o", "smollm2": "s"}


def runs(rows: Any, model: str) -> Any:
    """Rows on sums of a model at the rate at which it runs at several levels of staleness."""
    own = _script.pick(rows, task="sums", model=model)
    return own[own.rate == own[own.behind > 1].rate.max()] if len(own) else own


def told(own: Any, staleness: int) -> dict[str, float]:
    """What the run at staleness 1 predicts of another."""
    one = _models.mean(own, quantity="sum", staleness=1, tokens=0).value
    drift = _models.mean(own, quantity="drift", staleness=1).value
    return model_ratios.predicted(one, drift, staleness)


def judged(rows: Any) -> list[tuple[str, int, str, Any, float]]:
    """Model, staleness, quantity, measured mean and prediction beyond staleness 1."""
    found = []
    for model in COLOR:
        own = runs(rows, model)
        for staleness in sorted(set(own.staleness) - {1}):
            for quantity, value in told(own, staleness).items():
                row = _models.mean(own, quantity=quantity, staleness=staleness, tokens=0)
                found.append((model, int(staleness), quantity, row, value))
    return found


def kept(rows: Any) -> list[bool]:
    """Whether variances and ESS are as predicted."""
    return [_models.meets(row, value) for *_, row, value in judged(rows)]


def draw_one(ax: Axes, rows: Any, quantity: str) -> None:
    """One quantity against staleness, of both models."""
    levels: set[int] = set()
    for model in COLOR:
        own = runs(rows, model)
        if len(own):
            at = sorted(own.staleness.unique())
            levels |= set(at)
            color = _style.COLORS[COLOR[model]]
            shown = _models.means(own, "staleness", quantity=quantity, tokens=0)
            law = np.array([told(own, s)[quantity] for s in at])
            ax.plot(at, law, label="predicted from staleness 1", **{**_style.PREDICTED, "color": color})
            for name, staleness, what, row, value in judged(rows):
                if (name, what) == (model, quantity) and not _models.meets(row, value):
                    words = f"{row.value / value:.1f} ×\nprediction"
                    place: dict[str, Any] = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center"}
                    ax.annotate(words, (staleness, row.high), color=color, **place)
            label = _models.MODELS[model]
            _models.points(ax, shown.staleness, shown, color, linestyle="none", marker=MARK[model], label=label)
            for level in sorted(levels - set(at)) if quantity == "variance" else ():
                near_line = float(np.exp(np.interp(np.log(level), np.log(at), np.log(law))))
                words = f"{_models.MODELS[model]}:\nnot run at {level}"
                look.say(ax, 1.1 * level, 0.4 * near_line, words, color)
    _models.levels(ax, sorted(levels))
    ax.set_xlabel("staleness (versions)")


def draw(rows: Any) -> Figure:
    """Variance and ESS."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.7)
        left, right = figure.subplots(1, 2)
        draw_one(left, rows, "variance")
        draw_one(right, rows, "ess")
        left.set_yscale("log")
        left.set(title="Variance of an answer's log ratio", ylabel="variance (nats²)")
        right.set(
            title="Effective sample size (ESS)",
            ylabel="ESS / number of answers",
            ylim=(0, 1.06),
            yticks=(0.0, 0.5, 1.0),
        )
        ends = {}
        for model, color in COLOR.items():
            shown = _models.means(runs(rows, model), "staleness", quantity="ess", tokens=0)
            if len(shown):
                ends[_models.MODELS[model]] = (float(shown.value.iloc[-1]), _style.COLORS[color])
        look.ends(right, ends)
        every = judged(rows)
        larger = all(row.value > value for *_, what, row, value in every if what == "variance")
        larger = larger and not all(kept(rows))
        near = all(_models.meets(row, value) for *_, what, row, value in every if what == "ess")
        _script.headline(figure, larger and near, "Variance and ESS beside what staleness 1 predicts")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Predictions met, and measured over predicted variance at the largest staleness."""
    every = judged(rows)
    low = {s for _, s, what, row, value in every if what == "variance" and not _models.meets(row, value)}
    found = {"met": _models.count(kept(rows)), "low": _script.listed(map(str, sorted(low))) or "none"}
    for model in COLOR:
        own = runs(rows, model)
        last = [(row.value / value) for name, _, what, row, value in every if (name, what) == (model, "variance")]
        drift = _models.value(_models.mean(own, quantity="drift", staleness=1)) if len(own) else "none"
        found |= {f"{model}_times": f"{last[-1]:.2f}" if last else "none", f"{model}_drift": drift}
        found |= {f"{model}_first": f"{last[0]:.1f}" if len(last) > 1 else "none"} if model == "char" else {}
    off = [abs(row.value - value) for *_, what, row, value in every if what == "ess"]
    return found | {"ess_off": f"{max(off):.2f}" if off else "none"}
