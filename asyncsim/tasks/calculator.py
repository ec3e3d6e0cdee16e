"""Arithmetic with a calculator: a question mark calls it, and it writes its result into the response."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.policies._policy import Policy
from asyncsim.tasks._language import OPERATIONS, LanguageTask, chosen, few_shot, shuffled

_CALL = "?"
_TWO = re.compile(r"(-?\d+) ?([-+*]) ?(\d+)")
_SOLVE = dict(OPERATIONS.values())


@dataclass(frozen=True)
class Calculator(LanguageTask):
    """Chains of operands below 10^digits; see `calculator`."""

    operation: str = "add"
    terms: int = 2
    digits: int = 2
    price: float = 0.0
    shots: int = 0
    part: str = "all"
    seed: int = 0

    tools: ClassVar[bool] = True  # type: ignore[misc]

    def reply(self, world: Tensor, written: Tensor, token: int, draws: Any) -> Tensor:
        """The next character of a result that is being written, -1 where none is."""
        width = world.shape[-1]
        rows, row = torch.unique(torch.cat([world, written], -1).flatten(0, 2), dim=0, return_inverse=True)
        due = [self._due(line[:width], line[width:]) for line in rows.tolist()]
        return torch.tensor(due, device=written.device)[row].reshape(written.shape[:3])

    def score(self, prompt: int, text: str) -> float:
        """1 where the right answer stands behind the last result or alone, to the letter, less the price of calls."""
        return float(text.rpartition(_CALL)[2] == self.answers[prompt]) - self.price * text.count(_CALL)

    def spoken(self, prompt: int) -> str:
        """The right answer with a call for every sign."""
        return _dialog(self.texts[prompt].rpartition("\n")[2])

    def policy(self, **settings: Any) -> Policy:
        """The character model, pretrained on such sums of two operands, of which it asks for a fifth."""
        sign = OPERATIONS[self.operation][0]
        recipe = {"operations": sign, "high": 10**self.digits - 1, "calls": 0.2}
        return super().policy(**{"model": "char", "recipe": recipe, **settings})

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        names = ("operation", "terms", "digits", "price", "shots", "part", "seed")
        return {**super().describe(), **{f"task_{name}": getattr(self, name) for name in names}}

    def _due(self, prompt: list[int], written: list[int]) -> int:
        """What the calculator writes behind these tokens: it is told from them alone which of them are its own."""
        due: list[int] = []
        for place, token in enumerate(written):
            if due:
                due = due[1:]
            elif self.tokenizer.decode([token]).rstrip(" ").endswith(_CALL):
                question = self.tokenizer.decode([each for each in prompt if each >= 0]).rpartition("\n")[2]
                said = self.tokenizer.decode(written[: place + 1]).rpartition(_CALL)[0]
                due = self.tokenizer.encode(_result(question, said))
        return due[0] if due else -1


def _result(question: str, said: str) -> str:
    """What the calculator writes: the value of the first two operands behind the last call, or before, or asked for.

    >>> _result("3+4+5=", ""), _result("3+4+5=", "?7+5"), _result("3+4+5=", "?7"), _result("x", "")
    ('7', '12', '7', '')
    """
    for part in (*reversed(said.split(_CALL)), question):
        two = _TWO.search(part)
        if two is not None:
            return str(_SOLVE[two[2]](int(two[1]), int(two[3])))
    return ""


def _dialog(question: str) -> str:
    """Calls for one sign after the other.

    >>> _dialog("3+4+5="), _dialog("9-12=")
    ('?7+5?12', '?-3')
    """
    first, *rest = re.findall(r"[-+*]|\d+", question)
    value, text = first, ""
    for sign, operand in zip(rest[::2], rest[1::2], strict=True):
        value = _result(f"{value}{sign}{operand}", "")
        text += f"{sign}{operand}{_CALL}{value}" if text else f"{_CALL}{value}"
    return text


def calculator(
    operation: str = "add",
    terms: int = 2,
    digits: int = 2,
    price: float = 0.0,
    shots: int = 0,
    prompts: int = 64,
    part: str = "all",
    seed: int = 0,
    horizon: int | None = None,
) -> Calculator:
    """Operands below 10^digits: reward 1 for the right answer and a line break, less the price of each call.

    A question mark is a call. The environment inserts the result: of the first two operands behind the last call, else
    of the first two that were asked for. These tokens have mask 0; the model reads them and goes on. So `3+4+5=` may
    be answered `12`, or `?7+5?12`: behind the last result stands the answer, here nothing but the result itself.

    Arguments: `operation`, "add", "subtract" or "multiply"; `terms`, 2 to 4 operands of a chain, solved from left to
    right; `digits` 1 to 3; `price` of a call in units of reward; `shots`, solved problems in front of each prompt,
    with their calls; `prompts` Q, how many problems are asked; `part`, "all" or one half, "even" or "odd", of all
    problems, as in `arithmetic`; `seed` of their order; `horizon` T in tokens, those of results included (None: the
    longest answer with its calls, one token for a character, and the line break). Returns a task for
    `policies.causal_lm`, its own policy the character model, which was taught to call. Raises `InputError` for values
    outside these ranges and for more prompts than there are problems. Source: this package.

    >>> task = calculator(terms=3, digits=1, shots=1, prompts=2)
    >>> task.texts[0], task.spoken(0), task.horizon
    ('4+8+9=?12+9?21\\n1+3+6=', '?4+6?10', 9)

    A model that adds badly learns to ask within seconds; `turns` less 1 counts the calls of an answer:

    >>> import asyncsim as sim
    >>> small = {"width": 32, "layers": 2, "heads": 2, "hidden": 64, "context": 16}
    >>> taught = sim.policies.causal_lm("char", recipe={**small, "high": 9, "steps": 150, "calls": 0.2, "target": 1.0})
    >>> spec = sim.Spec(
    ...     calculator(digits=1, prompts=16), sim.schedules.fixed(1, groups_per_batch=8), sim.methods.grpo(),
    ...     sim.chain(sim.updates.adam(5e-3)), taught, updates=25, replicates=1, diagnostics=["turns", "batch_return"])
    >>> trace = sim.run(spec)  # doctest: +SKIP
    >>> (trace["turns"][[0, -1], 0] - 1).round(1).tolist(), trace["batch_return"][[0, -1], 0].round(1).tolist()
    ... # doctest: +SKIP
    ([0.2, 1.0], [0.2, 1.0])
    """
    checks.one_of("operation", operation, OPERATIONS, "choose what is asked")
    checks.integer("terms", terms, 2, "a chain has 2 to 4 operands", 4)
    checks.integer("digits", digits, 1, "operands have 1 to 3 digits", 3)
    checks.real("price", price, "give what a call costs", 0.0)
    checks.integer("seed", seed, 0, "give a non-negative integer seed", 2**63 - 1)
    base = 10**digits
    problems = base**terms
    bound = "at most 1000000 problems to choose from"
    checks.require(problems <= 1_000_000, "terms", terms, bound, "use fewer operands, or fewer digits")
    checks.integer("shots", shots, 0, "leave most problems to be asked", problems // 2)
    sign = OPERATIONS[operation][0]
    order = shuffled(problems, seed).tolist()
    lines = [_line(number, base, terms, sign) for number in order[problems - shots :]]
    front = [line + _dialog(line) for line in lines]
    asked = [_line(number, base, terms, sign) for number in chosen(order[: problems - shots], prompts, part)]
    answers = tuple(_dialog(line).rpartition(_CALL)[2] for line in asked)
    if horizon is None:
        horizon = 1 + max(len(_dialog(line)) for line in asked)
    checks.integer("horizon", horizon, 1, "an answer has at least one token", checks.LARGEST)
    texts = tuple(few_shot(front, line) for line in asked)
    return Calculator(
        texts,
        answers,
        horizon,
        operation=operation,
        terms=terms,
        digits=digits,
        price=float(price),
        shots=shots,
        part=part,
        seed=seed,
    )


def _line(number: int, base: int, terms: int, sign: str) -> str:
    """Problem `number`: its digits to a base are the operands.

    >>> _line(345, 10, 3, "+")
    '3+4+5='
    """
    operands = [str(number // base**k % base) for k in reversed(range(terms))]
    return f"{sign.join(operands)}="
