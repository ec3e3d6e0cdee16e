"""Log ratios between a sampler in bfloat16 or int8 and a trainer in float32: size, tails, growth with length."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import model_numerics
from paper_figures import _models, _script

EXPERIMENTS = {"model_numerics": {"staleness": "0"}}
COLOR = {"bfloat16": "measured", "int8": "contrast", "tf32": "tuned"}
MARK = {"bfloat16": "o", "int8": "s", "tf32": "^"}
CASES = {
    ("char", "sums"): "character\nmodel,\nsums",
    ("char", "text"): "character\nmodel,\ntext",
    ("smollm2", "text"): "SmolLM2,\ntext",
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
    """Size, tails, growth."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.3)
        first, second, third = figure.subplots(1, 3)
        present = [case for case in CASES if len(_script.pick(rows, model=case[0], task=case[1]))]
        for shift, (sampler, color) in zip((-0.24, 0.0, 0.24), COLOR.items(), strict=True):
            shade = _style.COLORS[color]
            look: dict[str, Any] = {"linestyle": "none", "marker": MARK[sampler], "label": f"sampler in {sampler}"}
            for place, (model, task) in enumerate(present):
                own = _script.pick(rows, model=model, task=task, sampler=sampler)
                if not len(own):
                    continue
                for ax, quantity in ((first, "deviation"), (second, "kurtosis")):
                    one = _models.means(own, "tokens", quantity=quantity)
                    # No kurtosis is below 1.
                    one = one.assign(low=one.low.clip(lower=1.0)) if quantity == "kurtosis" else one
                    _models.points(ax, [place + shift], one, shade, **look)
                    look.pop("label", None)
                told = _models.mean(own, quantity="told").value
                second.plot([place + shift - 0.1, place + shift + 0.1], [told, told], **_style.PREDICTED)
            for model, task in present:
                at = [each for each in lengths(rows) if each[:2] == (model, sampler) and task == "text"]
                if at:
                    where: dict[str, Any] = {"model": model, "sampler": sampler, "quantity": "variance", "task": task}
                    own = _models.means(rows[rows.tokens > 0], "tokens", **where)
                    _models.points(third, own.tokens, own, shade, linestyle="none", marker=MARK[sampler])
                    law = [each[4] for each in at]
                    third.plot([each[2] for each in at], law, **{**_style.PREDICTED, "color": shade})
        for ax in (first, second):
            ax.set_xticks(range(len(present)), [CASES[case] for case in present])
            ax.set(xlim=(-0.5, len(present) - 0.5), yscale="log")
        first.set_title("Size of the error of a token")
        first.set_ylabel("root mean square of a token's log ratio,\nfloat32 trainer to sampler (nats)")
        second.set(title="Tails of the error", ylabel="kurtosis of the log ratio", ylim=(1.0, 600.0))
        second.axhline(3.0, **_style.REFERENCE)
        second.text(
            0.5, 2.2, "normal distribution", color=_style.COLORS["muted"], fontsize=7.5, ha="center", va="center"
        )
        second.set_yticks([1, 3, 10, 30, 100, 300], ["1", "3", "10", "30", "100", "300"])
        second.minorticks_off()
        third.set(xscale="log", yscale="log", xlabel="tokens in the text", ylabel="variance of its log ratio (nats²)")
        third.set_title("Sum of the errors of a text")
        third.text(2.0, 0.6, "SmolLM2", fontsize=7.5)
        third.text(300.0, 1.2e-2, "character model", fontsize=7.5, ha="right")
        third.set_ylim(3e-7, 2.0)
        wide = [row.low > 3.0 for *_, row, _ in tails(rows)]
        drawn = "Rounding in the sampler changes log-probabilities"
        words = f"{drawn}; tails are heavier than normal in {_models.count(wide)} cases"
        title = _script.finding(sum(wide) > 2 / 3 * len(wide), words, drawn)
        handles, labels = first.get_legend_handles_labels()
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles, labels, ncols=3, title=title, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Size of the noise on either model, and predictions that are met."""
    tail, growth = ([_models.meets(row, told) for *_, row, told in made(rows)] for made in (tails, lengths))
    found = {"tail_met": _models.count(tail), "growth_met": _models.count(growth)}
    for model in ("char", "smollm2"):
        for sampler in COLOR:
            own = _script.pick(rows, model=model, sampler=sampler, quantity="deviation", task="text")
            found[f"{model}_{sampler}"] = f"{own.value.mean():.4f}" if len(own) else "none"
    kurtosis = [row.value for *_, row, _ in tails(rows)]
    return found | {"least": f"{min(kurtosis):.1f}", "most": f"{max(kurtosis):.1f}"}
