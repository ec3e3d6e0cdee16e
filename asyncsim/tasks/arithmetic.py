"""Sums, differences and products in writing, for a language model; the answer has to be right to the letter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asyncsim.base import checks
from asyncsim.tasks._language import OPERATIONS, LanguageTask, chosen, few_shot, shuffled

_STYLES = {"char": "{}{}{}=", "spaced": "{} {} {} = "}


@dataclass(frozen=True)
class Arithmetic(LanguageTask):
    """Operands below 10^digits; see `arithmetic`."""

    operation: str = "add"
    digits: int = 2
    shots: int = 0
    style: str = "char"
    part: str = "all"
    seed: int = 0

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        names = ("operation", "digits", "shots", "style", "part", "seed")
        return {**super().describe(), **{f"task_{name}": getattr(self, name) for name in names}}


def arithmetic(
    operation: str = "add",
    digits: int = 2,
    shots: int = 0,
    style: str = "char",
    prompts: int = 64,
    part: str = "all",
    seed: int = 0,
    horizon: int | None = None,
) -> Arithmetic:
    """Problems a o b with 0 <= a, b < 10^digits: reward 1 for the right answer and a line break, else 0.

    Arguments: `operation` o, "add", "subtract" or "multiply"; `digits`, 1 to 3; `shots`, solved problems in front of
    each prompt, the same for all and never asked; `style`, "char" (`12+34=`, as the character model was taught) or
    "spaced" (`12 + 34 = `, for models of words); `prompts` Q, how many problems are asked; `part`, "all" or one half,
    "even" or "odd", of all problems: for one seed the two share none, whatever Q is; `seed` of their order; `horizon`
    T in tokens (None: the longest answer, one token for a character, and the line break). Returns a task for
    `policies.causal_lm`, its own policy the character model. Raises `InputError` for values outside these ranges and
    for more prompts than there are problems. Source: textbook.

    >>> task = arithmetic(digits=1, shots=1, style="spaced", prompts=2)
    >>> task.texts[1], task.answers[1], task.horizon
    ('5 + 9 = 14\\n0 + 9 = ', '9', 3)
    """
    checks.one_of("operation", operation, OPERATIONS, "choose what is asked")
    checks.integer("digits", digits, 1, "operands have 1 to 3 digits", 3)
    checks.one_of("style", style, _STYLES, "'char' for the character model, 'spaced' for models of words")
    checks.integer("seed", seed, 0, "give a non-negative integer seed", 2**63 - 1)
    sign, solve = OPERATIONS[operation]
    base = 10**digits
    checks.integer("shots", shots, 0, "leave most problems to be asked", base**2 // 2)
    order = shuffled(base**2, seed).tolist()
    pairs = [divmod(number, base) for number in order]
    lines = [(_STYLES[style].format(a, sign, b), str(solve(a, b))) for a, b in pairs[base**2 - shots :]]
    problems = chosen(pairs[: base**2 - shots], prompts, part)
    front = [question + answer for question, answer in lines]
    texts = tuple(few_shot(front, _STYLES[style].format(a, sign, b)) for a, b in problems)
    answers = tuple(str(solve(a, b)) for a, b in problems)
    if horizon is None:
        horizon = (2 * digits if operation == "multiply" else digits + 1) + 1
    checks.integer("horizon", horizon, 1, "an answer has at least one token", checks.LARGEST)
    return Arithmetic(
        texts, answers, horizon, operation=operation, digits=digits, shots=shots, style=style, part=part, seed=seed
    )
