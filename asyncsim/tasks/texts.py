"""Problems in writing for a language model: sums, and sums with a calculator."""

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.parts import choice, handed_on, made, real, whole
from asyncsim.policies._policy import Policy
from asyncsim.policies._pretraining import CALL, OPERATIONS
from asyncsim.tasks._language import PARTS, SIGNS, LanguageTask, chosen, few_shot, shuffled

_TEXTS = checks.table(__file__, "texts.toml")["texts"]

_STYLES = {"char": "{}{}{}=", "spaced": "{} {} {} = "}
_TWO = re.compile(r"(-?\d+) ?([-+*]) ?(\d+)")

_OWN = "a task for `policies.causal_lm`, its own policy"
_TOO_MANY = "values outside these ranges, and for more prompts than there are problems"
_OPERATION = choice(*SIGNS, words="what is asked", remedy="choose what is asked")
_DIGITS = whole(2, "digits of an operand", 1, 3, remedy="operands have 1 to 3 digits")
_PROMPTS = handed_on(64, "Q, how many problems are asked")
_PART = choice(*PARTS, **_TEXTS["part"])
_SEED = whole(0, "of the order of problems", 0, 2**63 - 1, remedy="give a non-negative integer seed")
_HORIZON = whole(16, "T, length in tokens", 1, checks.LARGEST, remedy="an answer has at least one token")


@dataclass(frozen=True)
class Arithmetic(LanguageTask):
    """Language task on written arithmetic with operands below 10^digits; see `arithmetic`."""

    operation: str = "add"
    digits: int = 2
    shots: int = 0
    style: str = "char"
    part: str = "all"
    seed: int = 0


@made("textbook", f"{_OWN} the character model", _TOO_MANY)
def arithmetic(
    operation: str = _OPERATION,
    digits: int = _DIGITS,
    shots: int = handed_on(0, "solved problems in front of each prompt, the same for all and never asked"),
    style: str = choice(*_STYLES, **_TEXTS["style"]),
    prompts: int = _PROMPTS,
    part: str = _PART,
    seed: int = _SEED,
    horizon: int | None = handed_on(None, **_TEXTS["horizon"]),
) -> Arithmetic:
    """Written sums, differences and products as a language task; answers must match exactly.

    Problems a o b with 0 <= a, b < 10^digits: reward 1 for the right answer and a line break, else 0.

    >>> task = arithmetic(digits=1, shots=1, style="spaced", prompts=2)
    >>> task.texts[1], task.answers[1], task.horizon
    ('5 + 9 = 14\\n0 + 9 = ', '9', 3)
    """
    sign, solve = SIGNS[operation], OPERATIONS[SIGNS[operation]]
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
    about = (operation, digits, shots, style, part, seed)
    return Arithmetic(texts, answers, _HORIZON.read("horizon", horizon), None, None, *about)


@dataclass(frozen=True)
class Calculator(LanguageTask):
    """Language task on chains of operands below 10^digits, with a calculator; see `calculator`."""

    operation: str = "add"
    terms: int = 2
    digits: int = 2
    price: float = 0.0
    shots: int = 0
    part: str = "all"
    seed: int = 0

    tools = True

    def reply(self, world: Tensor, written: Tensor, token: int, draws: Any) -> Tensor:
        """Next character of the calculator's result that is being written, or -1 if none is."""
        width = world.shape[-1]
        rows, row = torch.unique(torch.cat([world, written], -1).flatten(0, 2), dim=0, return_inverse=True)
        due = [self._due(line[:width], line[width:]) for line in rows.tolist()]
        return torch.tensor(due, device=written.device)[row].reshape(written.shape[:3])

    def score(self, prompt: int, text: str) -> float:
        """1 if the exact right answer follows the last result or is the only text, minus the cost of all calls."""
        return float(text.rpartition(CALL)[2] == self.answers[prompt]) - self.price * text.count(CALL)

    def spoken(self, prompt: int) -> str:
        """The right answer to a prompt, with a calculator call for every operator."""
        return _dialog(self.texts[prompt].rpartition("\n")[2])

    def policy(self, **settings: Any) -> Policy:
        """Default policy: the character model, pretrained on two-operand problems, a fifth of them with a tool call."""
        recipe = {"operations": SIGNS[self.operation], "high": 10**self.digits - 1, "calls": 0.2}
        return super().policy(**{"model": "char", "recipe": recipe, **settings})

    def _due(self, prompt: list[int], written: list[int]) -> int:
        """Next token of the calculator after these tokens, which alone show which are its own; -1 if none is due."""
        due: list[int] = []
        for place, token in enumerate(written):
            if due:
                due = due[1:]
            elif self.tokenizer.decode([token]).rstrip(" ").endswith(CALL):
                question = self.tokenizer.decode([each for each in prompt if each >= 0]).rpartition("\n")[2]
                said = self.tokenizer.decode(written[: place + 1]).rpartition(CALL)[0]
                due = self.tokenizer.encode(_result(question, said))
        return due[0] if due else -1


def _result(question: str, said: str) -> str:
    """Result that the calculator writes: the first two-operand expression in the latest part of the text that has one.

    >>> _result("3+4+5=", ""), _result("3+4+5=", "?7+5"), _result("3+4+5=", "?7"), _result("x", "")
    ('7', '12', '7', '')
    """
    for part in (*reversed(said.split(CALL)), question):
        two = _TWO.search(part)
        if two is not None:
            return str(OPERATIONS[two[2]](int(two[1]), int(two[3])))
    return ""


def _dialog(question: str) -> str:
    """Write a call for every operator, from left to right.

    >>> _dialog("3+4+5="), _dialog("9-12=")
    ('?7+5?12', '?-3')
    """
    first, *rest = re.findall(r"[-+*]|\d+", question)
    value, text = first, ""
    for sign, operand in zip(rest[::2], rest[1::2], strict=True):
        value = _result(f"{value}{sign}{operand}", "")
        text += f"{sign}{operand}{CALL}{value}" if text else f"{CALL}{value}"
    return text


@made("this package", f"{_OWN} the character model, which was taught to call", _TOO_MANY)
def calculator(
    operation: str = _OPERATION,
    terms: int = whole(2, "operands of a chain, solved from left to right", 2, 4, remedy="a chain has 2 to 4 operands"),
    digits: int = _DIGITS,
    price: float = real(0.0, "price of a call in units of reward", 0.0, remedy="give what a call costs"),
    shots: int = handed_on(0, "solved problems in front of each prompt, with their calls"),
    prompts: int = _PROMPTS,
    part: str = _PART,
    seed: int = _SEED,
    horizon: int | None = handed_on(None, **_TEXTS["calculator_horizon"]),
) -> Calculator:
    """Arithmetic with a calculator: a question mark calls the tool, which inserts its result into the response.

    Operands below 10^digits: reward 1 for the right answer and a line break, less the price of each call. The
    environment inserts the result: of the first two operands behind the last call, else of the first two that were
    asked for. These tokens have mask 0; the model reads them and goes on. So `3+4+5=` may be answered `12`, or
    `?7+5?12`: behind the last result stands the answer, here nothing but the result itself.

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
    base = 10**digits
    problems = base**terms
    bound = "at most 1000000 problems to choose from"
    checks.require(problems <= 1_000_000, "terms", terms, bound, "use fewer operands, or fewer digits")
    checks.integer("shots", shots, 0, "leave most problems to be asked", problems // 2)
    sign = SIGNS[operation]
    order = shuffled(problems, seed).tolist()
    lines = [_line(number, base, terms, sign) for number in order[problems - shots :]]
    front = [line + _dialog(line) for line in lines]
    asked = [_line(number, base, terms, sign) for number in chosen(order[: problems - shots], prompts, part)]
    answers = tuple(_dialog(line).rpartition(CALL)[2] for line in asked)
    if horizon is None:
        horizon = 1 + max(len(_dialog(line)) for line in asked)
    horizon = _HORIZON.read("horizon", horizon)
    texts = tuple(few_shot(front, line) for line in asked)
    return Calculator(texts, answers, horizon, None, None, operation, terms, digits, price, shots, part, seed)


def _line(number: int, base: int, terms: int, sign: str) -> str:
    """Problem `number` in writing; its digits to a base are the operands.

    >>> _line(345, 10, 3, "+")
    '3+4+5='
    """
    return f"{sign.join([str(number // base**k % base) for k in reversed(range(terms))])}="
