"""Log ratios between a sampler in bfloat16 or int8 and a trainer in float32: size, tails, growth with length."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import model_numerics
from paper_figures import _models, _script

EXPERIMENTS = {"model_numerics": {"staleness": "0", "rate": ""}}
COLOR = {"bfloat16": "measured", "int8": "contrast", "tf32": "tuned"}
MARK = {"bfloat16": "o", "int8": "s", "tf32": "^"}
CASES = {
    ("char", "sums"): "character model, sums",
    ("char", "text"): "character model, text",
    ("smollm2", "text"): "SmolLM2, text",
}


def tails(rows: Any) -> list[tuple[str, str, str, Any, float]]:
    """Model, task and format with the kurtosis of tokens and its prediction."""
    found = []
    for (model, task, sampler), own in rows[rows.tokens == 0].groupby(["model", "task", "sampler"]):
        told = _models.mean(own, quantity="told").value
        found.append((model, task, sampler, _models.mean(own, quantity="kurtosis"), told))
    return found


def lengths(rows: Any) -> list[tuple[str, str, int, Any, float]]:
    """Model, format and length with the variance of texts and its prediction."""
    found = []
    own = rows[(rows.task == "text") & (rows.tokens > 0)]
    for (model, sampler, tokens), at in own.groupby(["model", "sampler", "tokens"]):
        told = model_numerics.predicted(_models.mean(at, quantity="sum").value)["variance"]
        found.append((model, sampler, int(tokens), _models.mean(at, quantity="variance"), told))
    return found


def kept(rows: Any) -> list[bool]:
    """Whether tails and growth are as predicted."""
    return [_models.meets(row, told) for *_, row, told in [*tails(rows), *lengths(rows)]]


def draw(rows: Any) -> Figure:
    """Size of a token's error: a row for each model and task, a color for each format."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        ax = figure.subplots()
        own = _models.means(rows[rows.tokens == 0], "model", "task", "sampler", quantity="deviation")
        present = [case for case in CASES if len(_script.pick(own, model=case[0], task=case[1]))]
        for shift, (sampler, color) in zip((-0.27, 0.0, 0.27), COLOR.items(), strict=True):
            for place, (model, task) in enumerate(present):
                for one in _script.pick(own, model=model, task=task, sampler=sampler).itertuples():
                    shade, reach = _style.COLORS[color], [[one.value - one.low], [one.high - one.value]]
                    look = {**_style.MEASURED, "color": shade, "marker": MARK[sampler]}
                    ax.errorbar(one.value, place + shift, xerr=reach, **look)
                    if not place:
                        name = f"sampler in {sampler.replace('tf', 'TF')}"
                        ax.text(1.12 * one.high, place + shift, name, color=shade, fontsize=7.5, va="center")
        ax.set_yticks(range(len(present)), [CASES[case] for case in present])
        ax.set(xscale="log", ylim=(len(present) - 0.5, -0.5))
        ax.set_xticks([1e-4, 1e-3, 1e-2, 1e-1], ["0.0001", "0.001", "0.01", "0.1"])
        ax.set_xlabel("root mean square of a token's log ratio, float32 trainer to sampler (nats)")
        most = [
            _script.pick(own, sampler=sampler).sort_values("value").iloc[-1].model == "smollm2"
            for sampler in COLOR
            if len(_script.pick(own, sampler=sampler))
        ]
        holds = all(most) and own.low.min() > 0.0
        _script.headline(figure, holds, "Change of log probabilities by rounding in the sampler")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Size of the noise on either model, and predictions that are met."""
    tail, growth = ([_models.meets(row, told) for *_, row, told in made(rows)] for made in (tails, lengths))
    found = {"tail_met": _models.count(tail), "growth_met": _models.count(growth)}
    for sampler in COLOR:
        own = _script.pick(rows, model="smollm2", sampler=sampler, quantity="deviation", task="text")
        found[f"smollm2_{sampler}"] = f"{own.value.mean():.3f}" if len(own) else "none"
    small = _models.means(_script.pick(rows, model="char", tokens=0), "task", "sampler", quantity="deviation")
    found["char_most"] = f"{small.value.max():.3f}"
    kurtosis = sorted((row for *_, row, _ in tails(rows)), key=lambda row: float(row.value))
    return found | {"least": f"{kurtosis[0].value:.1f}", "most": _models.value(kurtosis[-1], 0)}
