"""How far one update moves the log-probs of tokens, against the learning rate, and how unequally."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import model_ratios
from paper_figures import _models, _script, model_law

EXPERIMENTS = {"model_ratios": {"task": "sums", "staleness": 1}}
EQUAL = 0.279
"""Share of the sum of squares in the largest 5 percent of equal normal draws."""


SQUARE, NOISE = "predicted in a: ∝ squared learning rate", "in b: by equal noise in all logits"
"""Names of predictions."""


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
    """Size on the left, inequality on the right."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.2))
        names: list[str] = []
        measured, told = [], []
        for model, color in model_law.COLOR.items():
            points = [(row, value) for name, row, value in judged(rows) if name == model]
            if points:
                shade, mark = _style.COLORS[color], model_law.MARK[model]
                own = _models.means(one(rows), "rate", quantity="token", model=model)
                own = own.assign(low=own.low.clip(lower=1e-4 * own.value))
                left.plot(own.rate, [value for _, value in points], label=SQUARE, **_style.PREDICTED)
                label = {"char": "character model", "smollm2": "SmolLM2"}[model]
                _models.points(left, own.rate, own, shade, linestyle="none", marker=mark, label=label)
                largest = _models.means(one(rows), "rate", quantity="share", model=model)
                places = np.arange(len(names), len(names) + len(largest))
                _models.points(right, places, largest, shade, linestyle="none", marker=mark)
                measured.append(largest)
                told += list(_models.means(one(rows), "rate", quantity="told", model=model).value)
                names += [f"{label},\n{rate:.0e}".replace("e-0", "e−") for rate in largest.rate]
        left.set(
            xscale="log",
            yscale="log",
            xlabel="learning rate",
            ylabel="mean squared change of a token's\nlog-probability (nats²)",
        )
        left.set_ylim(1e-4, 1.0)
        rates = sorted(one(rows).rate.unique())
        left.set_xticks(rates, [f"{rate:.0e}".replace("e-0", "e−") for rate in rates])
        left.minorticks_off()
        left.legend(handles=[each for each in left.get_legend_handles_labels()[0] if each.get_label() != SQUARE])
        for place, value in enumerate(told):
            right.plot([place - 0.3, place + 0.3], [value, value], label=NOISE, **_style.PREDICTED)
        right.set_xticks(range(len(names)), names)
        right.set_xlim(-0.6, len(names) - 0.4)
        equal = f"{100 * EQUAL:.0f} %, if all changes came from one normal distribution"
        right.legend(handles=[right.axhline(EQUAL, label=equal, **_style.REFERENCE)], loc="lower left")
        right.tick_params(axis="x", labelsize=7.0, rotation=0)
        right.set(ylim=(0, 1.02), ylabel="share of the squared change in the\n5 % of tokens that change most")
        holds = float(pd.concat(measured).low.min()) > EQUAL
        left.set_title("Size of an update")
        found = pd.concat(measured).low.to_numpy()
        under = int((found > np.array(told)).sum())
        words = f"Equal noise in all logits predicts\ntoo small a share in {under} of {len(told)}"
        name = _script.finding(under > 0.5 * len(told), words, "Share of the tokens that change most")
        right.set(title=name, xlabel="model, learning rate")
        ends = pd.concat(measured).value
        reach = f"{100 * ends.min():.0f} to {100 * ends.max():.0f} %"
        words = f"In one update, the 5 % of tokens that change most carry {reach} of the squared change"
        title = _script.finding(holds, words, "How far one update moves the log-probabilities of tokens")
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Predicted sizes and shares that are met; shares of the largest tokens."""
    size = [_models.meets(row, value) for _, row, value in others(rows)]
    found = {"size_met": _models.count(size), "share_met": _models.count(shares(rows)), "equal": f"{100 * EQUAL:.0f} %"}
    measured = _models.means(one(rows), "model", "rate", quantity="share").value
    found |= {"least": f"{100 * measured.min():.0f}", "most": f"{100 * measured.max():.0f} %"}
    for model in model_law.COLOR:
        own = [row.value for name, row, _ in judged(rows) if name == model]
        found[f"{model}_token"] = f"{np.sqrt(own[len(own) // 2]):.3f}" if own else "none"
    return found
