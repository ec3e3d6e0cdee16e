"""Shared parts of language tasks: prompts in tokens, the end of an answer, and the score of an answer."""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, plugins, rng
from asyncsim.policies._policy import Policy
from asyncsim.step.batch import Draws
from asyncsim.step.versions import tensor
from asyncsim.tasks._task import Outcomes, Task, Turn

_LISTED = "one whose outcomes can be listed"
SIGNS = {"add": "+", "subtract": "-", "multiply": "*"}
"""Signs of what is asked in arithmetic."""
PARTS = {"all": slice(None), "even": slice(0, None, 2), "odd": slice(1, None, 2)}
"""Parts of a shuffled list of problems: two runs with `even` and `odd` share none."""

Bound = TypeVar("Bound", bound="LanguageTask")
Problem = TypeVar("Problem")


class Answer(NamedTuple):
    """One sampled answer: its token ids with the stop token, its text without, and whether it ended."""

    ids: tuple[int, ...]
    text: str
    ended: bool


@dataclass(frozen=True)
class LanguageTask(Task):
    """Base of tasks with text prompts and text answers; see `arithmetic` and `text`.

    An answer ends with a line break or with the model's own end of text. One that has not ended within the horizon
    earns 0: a truncated answer is no answer. `texts` and `answers` have one entry for each prompt; `tokenizer` and
    `ids` (int64 `[Q, L]`, padded with -1 on the left) are set by `fit`.
    """

    texts: tuple[str, ...]
    answers: tuple[str, ...]
    horizon: int
    tokenizer: Any = field(default=None, compare=False, repr=False)
    ids: Any = field(default=None, compare=False, repr=False)

    header = ("horizon", "prompts")
    enumerable = False
    still = True
    speaker: ClassVar[str] = "char"
    """Model that the texts are written for."""

    @property
    def prompts(self) -> int:  # type: ignore[override]
        return len(self.texts)

    @property
    def stops(self) -> tuple[int, ...] | None:  # type: ignore[override]
        """Ids of tokens that end an answer; None if a user's subclass decides how an answer continues."""
        plain = type(self).step is LanguageTask.step and not (self.tools or self.pays)
        return self._stops() if plain else None

    def score(self, prompt: int, text: str) -> float:
        """Score of an ended answer to a prompt: 1 if it equals the right text exactly, else 0."""
        return float(text == self.answers[prompt])

    def spoken(self, prompt: int) -> str:
        """The right answer to a prompt as few-shot lines write it, without the line break."""
        return self.answers[prompt]

    def policy(self, **settings: Any) -> Policy:
        """Default policy: the language model for which the texts are written; arguments as in `causal_lm`.

        >>> import asyncsim as sim
        >>> sim.tasks.arithmetic().policy(cache="keep").describe()["cache"]
        'keep'
        """
        make = plugins.load("asyncsim.policies", "causal_lm", "policy")
        checks.each_of("policy argument", settings, inspect.signature(make).parameters, "see policies.causal_lm")
        policy: Policy = make(**{"model": self.speaker, **settings})
        return policy

    def fit(self: Bound, policy: Any) -> Bound:
        """Tokenize the task for a language model; refuse other policies, and prompts or answers that are too long."""
        tokenizer, context = (getattr(policy, name, None) for name in ("tokenizer", "context"))
        usable = tokenizer is not None and context is not None
        bound, remedy = "a language model", "use policies.causal_lm()"
        checks.require(usable, "policy", plugins.name_of(policy), bound, remedy)
        assert tokenizer is not None and context is not None
        paired = 0 < self.prompts == len(self.answers)
        bound = "as many as there are answers, and at least one"
        checks.require(paired, "texts", self.prompts, bound, f"there are {len(self.answers)} answers")
        encoded = self.encoded(tokenizer)
        longest, shortest = (pick(range(self.prompts), key=lambda q: len(encoded[q])) for pick in (max, min))
        tokens = len(encoded[shortest])
        checks.require(tokens > 0, f"tokens of prompt {shortest}", tokens, "at least 1", "give every prompt a text")
        tokens, field = len(encoded[longest]) + self.horizon, f"tokens of prompt {longest} and its answer"
        remedy = "give shorter prompts, fewer shots or a shorter horizon, or a model with a longer context"
        checks.require(tokens <= context, field, tokens, f"at most {context}, the context of the model", remedy)
        lengths = self.needed(tokenizer)
        worst = max(range(len(lengths)), key=lambda q: lengths[q], default=0)
        longest_answer = lengths[worst] if lengths else 0
        least = f"at least {longest_answer}, tokens of the right answer to prompt {worst}"
        checks.require(longest_answer <= self.horizon, "horizon", self.horizon, least, "raise the horizon")
        return replace(self, tokenizer=tokenizer, ids=padded(encoded))

    def encoded(self, tokenizer: Any) -> list[list[int]]:
        """Token ids of every prompt of the task."""
        return [tokenizer.encode(text) for text in self.texts]

    def needed(self, tokenizer: Any) -> list[int]:
        """Number of tokens of each prompt's right answer, with its stop; empty if the task has no right answers."""
        return [len(tokenizer.encode(self.spoken(q) + "\n")) for q in range(self.prompts)]

    def begin(self, prompt: Tensor, draws: Draws, carried: Any = None) -> Tensor:
        """Token ids of each sample's prompt, int64 `[R, G, N, L]`."""
        return tensor(self.ids)[prompt]

    def step(self, world: Tensor, action: Tensor, token: int, draws: Draws) -> Turn:
        """Continue the answer until a stop token; the state remains the prompt."""
        return Turn(world, ~torch.isin(action, tensor(np.array(self._stops(), dtype=np.int64))))

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        """Reward of each answer, `[R, G, N]`; 0 if it has not ended within the horizon."""
        asked = draws.asked[draws.realization].ravel().tolist()
        rewards = self.rewards(asked, self.read(action, mask))
        return torch.tensor(rewards, dtype=mask.dtype, device=mask.device).reshape(mask.shape[:3])

    def read(self, action: Tensor, mask: Tensor) -> list[Answer]:
        """Convert tokens int64 `[R, G, N, T]` to answers, flattened; each ends at its last token with mask 1."""
        T = action.shape[-1]
        lengths = (torch.arange(1, T + 1, device=mask.device) * (mask > 0)).amax(-1).reshape(-1).tolist()
        rows = [tuple(row[:length]) for row, length in zip(action.reshape(-1, T).tolist(), lengths, strict=True)]
        return [Answer(ids, self._text(ids), self._ended(ids)) for ids in rows]

    def rewards(self, prompts: Sequence[int], answers: Sequence[Answer]) -> list[float]:
        """Rewards of answers to prompts: their score, or 0 if an answer has not ended."""
        pairs = zip(prompts, answers, strict=True)
        return [reward_of(f"score of an answer to prompt {q}", self.score(q, a.text)) if a.ended else 0.0
                for q, a in pairs]  # fmt: skip

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """Raise `InputError`, because there are too many texts to enumerate."""
        raise self.refusal(_LISTED, "use sampling='monte_carlo', and diagnostics that need no oracle")

    def exact(self, policy: Policy, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """Raise `InputError`, because there are too many texts to enumerate."""
        raise self.refusal(_LISTED, "estimate the return from samples (diagnostics.batch_return)")

    def describe(self) -> dict[str, Any]:
        """Settings of the task for the header of a run."""
        own = [each.name for each in fields(self) if each.repr][3:]
        first = {"first_prompt": self.texts[0], "first_answer": self.answers[0]}
        return {**super().describe(), **first, **{f"task_{name}": getattr(self, name) for name in own}}

    def _stops(self) -> tuple[int, ...]:
        """Ids of stop tokens."""
        return tuple(sorted({*self.tokenizer.newline, *self.tokenizer.end}))

    def _text(self, ids: Iterable[int]) -> str:
        """Text of an answer up to its line break."""
        return str(self.tokenizer.decode(ids)).partition("\n")[0]

    def _ended(self, ids: Sequence[int]) -> bool:
        """Whether the last token of an answer is a stop token."""
        return bool(ids) and ids[-1] in self._stops()


def reward_of(what: str, score: Any, remedy: str = "return a number from `score`") -> float:
    """Convert a user's reward to a number; refuse other values, naming them by `what`."""
    number = float(score) if isinstance(score, (bool, np.bool_)) else score
    return checks.real(what, number, remedy)


def padded(encoded: Sequence[Sequence[int]]) -> np.ndarray:
    """Token ids of prompts as a table int64 `[Q, L]`, padded with -1 on the left.

    >>> padded([[5], [6, 7]]).tolist()
    [[-1, 5], [6, 7]]
    """
    ids = np.full((len(encoded), max(map(len, encoded))), -1, dtype=np.int64)
    for row, text in zip(ids, encoded, strict=True):
        row[len(row) - len(text) :] = text
    return ids


def shuffled(count: int, seed: int) -> np.ndarray:
    """Permutation of 0 to count - 1 that depends only on the seed, int64 `[count]`."""
    return np.argsort(rng.Stream(seed, "prompts").uniform(0, np.arange(count)), kind="stable")


def chosen(problems: Sequence[Problem], prompts: int, part: str) -> list[Problem]:
    """The first `prompts` problems of a part of the shuffled list; refuse more than the part has."""
    half = list(problems[PARTS[part]])
    checks.integer("prompts", prompts, 1, f"part {part!r} has {len(half)} problems", len(half))
    return half[:prompts]


def few_shot(lines: Iterable[str], last: str) -> str:
    """Join solved lines and the unsolved last line to a few-shot prompt.

    >>> few_shot(["1+1=2"], "2+2=")
    '1+1=2\\n2+2='
    """
    return "".join(f"{line}\n" for line in lines) + last
