"""Generated reasoning problems of the `reasoning-gym` package, for a language model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from asyncsim.base import checks, rng
from asyncsim.tasks._language import LanguageTask, chosen, few_shot


@dataclass(frozen=True)
class Reasoning(LanguageTask):
    """Questions of one dataset, marked by its own rule; see `reasoning`."""

    dataset: str = ""
    shots: int = 0
    part: str = "all"
    seed: int = 0
    marker: Any = field(default=None, compare=False, repr=False)
    entries: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    speaker: ClassVar[str] = "smollm2"  # the questions are written in words

    def score(self, prompt: int, text: str) -> float:
        """1 where the dataset gives full marks to the answer without the white space around it, else 0.

        Partial marks would reward long answers: many datasets give some for any answer that contains the right one.
        """
        return float(self.marker.score_answer(text.strip(), self.entries[prompt]) == 1.0)

    def spoken(self, prompt: int) -> str:
        """The right answer with the space that stands in front of it in solved problems."""
        return f" {self.answers[prompt]}"

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        names = ("dataset", "shots", "part", "seed")
        return {**super().describe(), **{f"task_{name}": getattr(self, name) for name in names}}


def reasoning(
    name: str = "chain_sum",
    prompts: int = 64,
    shots: int = 2,
    part: str = "all",
    seed: int = 0,
    horizon: int = 16,
    settings: Mapping[str, Any] | None = None,
) -> Reasoning:
    """Problems of one generated dataset: reward 1 for full marks by its own rule on a one-line answer, else 0.

    Arguments: `name` of the dataset; `prompts` Q, how many problems are asked; `shots`, solved problems in front of
    each prompt, the same for all and never asked; `part`, "all" or one half of what a seed generates, "even" or "odd":
    with equal shots the two share none whatever Q is; `seed` of the problems; `horizon` T in tokens, enough for the
    longest right answer, the space in front of it and a line break; `settings` of the dataset by its own names (None:
    its defaults). Returns a task for `policies.causal_lm`, its own policy SmolLM2 (`make llm`). Raises `InputError`
    without the package, for an unknown dataset or setting, for values outside these ranges, and for datasets whose
    answers take several lines. Source: Stojanovski et al., "Reasoning Gym: reasoning environments for reinforcement
    learning with verifiable rewards" (2025).

    >>> task = reasoning("chain_sum", prompts=4, shots=0, settings={"max_terms": 2})  # doctest: +SKIP
    >>> task.score(0, task.answers[0]), task.score(0, f"It is {task.answers[0]}.")  # doctest: +SKIP
    (1.0, 0.0)
    """
    checks.integer("prompts", prompts, 1, "ask at least one problem", 1 << 20)
    checks.integer("shots", shots, 0, "give a number of solved problems", 1 << 10)
    checks.integer("seed", seed, 0, "give a non-negative integer seed", 2**31 - 1)
    checks.integer("horizon", horizon, 1, "an answer has at least one token", checks.LARGEST)
    marker = _dataset(name, 2 * prompts + shots, seed, settings)
    entries = _distinct(marker)
    # `spoken` writes the answer that is asked for in the same way.
    front = [f"{_question_line(entry)} {entry['answer']}" for entry in entries[:shots]]
    problems = chosen(entries[shots:], prompts, part)
    texts = tuple(few_shot(front, _question_line(entry)) for entry in problems)
    answers = tuple(str(entry["answer"]) for entry in problems)
    return Reasoning(
        texts, answers, horizon, dataset=name, shots=shots, part=part, seed=seed, marker=marker, entries=tuple(problems)
    )


def _dataset(name: str, size: int, seed: int, settings: Mapping[str, Any] | None) -> Any:
    """A dataset of `size` problems; everything that its package refuses is named."""
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        bound = "an installed package (it makes the problems)"
        remedy = "run `make llm`, or `pip install 'asyncsim[llm]'`"
        raise checks.InputError("package", "reasoning-gym", bound, remedy) from error
    checks.require(name in DATASETS, "dataset", name, "one that reasoning-gym registers", "chain_sum is a small one")
    # Problem i is drawn from the seed plus i, so neighboring seeds would ask nearly the same.
    spread = int(rng.Stream(seed, "problems").uniform(0, 0) * 2**31)
    try:
        return reasoning_gym.create_dataset(name, size=size, seed=spread, **(settings or {}))
    except (TypeError, ValueError, AssertionError) as error:
        remedy = f"mend the settings ({' '.join(str(error).split())})"
        raise checks.InputError(f"settings of {name}", settings, "what the dataset takes", remedy) from error


def _distinct(dataset: Any) -> list[Any]:
    """Its entries, each question once; answers of several lines are refused."""
    entries: dict[str, Any] = {}
    for entry in dataset:
        answer = entry["answer"]
        short = isinstance(answer, str) and bool(answer.strip()) and "\n" not in answer
        bound, remedy = "one line of text", "choose a dataset with short answers"
        checks.require(short, "answer of a problem", answer, bound, remedy)
        entries.setdefault(_question_line(entry), entry)
    return list(entries.values())


def _question_line(entry: Any) -> str:
    """A question on one line, so that the model's own line break can only end an answer."""
    return f"Question: {' '.join(entry['question'].split())}\nAnswer:"
