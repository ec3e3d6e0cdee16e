"""How answers say numbers: every number of an answer is one of the results, formatted here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Result = Mapping[str, Any]


def final(result: Result, metric: str) -> float:
    """A metric over the last tenth of a run."""
    return float(result["settings"][0]["final"][metric]["value"])


def share(value: float) -> str:
    """A share in percent.

    >>> share(0.1109), share(0.0002)
    ('11.1 %', '0.02 %')
    """
    return f"{100 * value:.3g} %"


def knob(result: Result, name: str) -> Any:
    """A knob of a simulated system."""
    return result["system"]["knobs"][name]


def row(result: Result, metric: str, **place: Any) -> Mapping[str, Any]:
    """The row of a sweep's summary for a metric at a setting."""
    (found,) = (
        each
        for each in result["summary"]
        if each["metric"] == metric and all(each[key] == value for key, value in place.items())
    )
    return dict(found)


def rows(result: Result, metric: str) -> list[Mapping[str, Any]]:
    """The rows of a sweep's summary for a metric, in order."""
    return [each for each in result["summary"] if each["metric"] == metric]


def column(result: Result, metric: str) -> tuple[list[float], list[float], list[float], list[float]]:
    """Of a sweep over one setting: its values, the means, and the lower and upper ends of their intervals."""
    (name,) = result["names"]
    found = rows(result, metric)
    return (*([float(each[key]) for each in found] for key in (name, "mean", "low", "high")),)  # type: ignore[return-value]


def held(true: bool, words: str) -> str:
    """Words that the results must support: another outcome ends the generator instead of leaving a false answer.

    >>> held(True, "Yes.")
    'Yes.'
    """
    if not true:
        raise RuntimeError(f"the results no longer say: {words}")
    return words


def words_of(result: Result) -> set[str]:
    """The words of a comparison on all tasks."""
    return {pair["word"] for on in result["tasks"] for pair in on["pairs"]}


def task_of(on: Result) -> str:
    """Name of a task, with how its rewards are random, if they are."""
    random = "" if on["task"].get("rewards", "fixed") == "fixed" else f" with {on['task']['rewards'].title()} rewards"
    return f"`{on['task']['task']}`{random}"


def verdict(on: Result, called: Mapping[str, str] | None = None) -> str:
    """The verdict on one task, with the difference and its interval; `called`: what an answer calls its arms.

    >>> pair = {"arm": "b", "base": "a", "word": "worse", "looks": [{"difference": -0.1, "low": -0.2, "high": -0.05}]}
    >>> verdict({"pairs": [pair], "task": {"task": "softmax_bandit", "rewards": "fixed"}, "blind": ""})
    'On `softmax_bandit`, b gives a lower return than a, by 0.1 [0.05, 0.2].'
    """
    (pair,) = on["pairs"]
    look = pair["looks"][-1]
    # "by" needs a size; where lower is better, a worse arm has a positive difference.
    sign = -1.0 if pair["word"] in ("better", "worse") and look["difference"] < 0.0 else 1.0
    low, high = sorted((sign * look["low"], sign * look["high"]))
    between = {
        "better": "gives a higher return than",
        "worse": "gives a lower return than",
        "equal": "is as good as",
        "undecided": "is undecided against",
    }
    word = "is not significantly different from" if on["blind"] else between[pair["word"]]
    by = ", by" if word.endswith("than") else "; the difference in return is"
    arm, base = ((called or {}).get(pair[each], pair[each]) for each in ("arm", "base"))
    interval = f"{sign * look['difference']:.2g} [{low:.2g}, {high:.2g}]"
    return f"On {task_of(on)}, {arm} {word} {base}{by} {interval}."


def verdicts(result: Result, called: Mapping[str, str] | None = None) -> str:
    """The verdicts on all tasks of a comparison."""
    return " ".join(verdict(on, called) for on in result["tasks"])
