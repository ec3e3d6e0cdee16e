"""A word to be found out: guess it, or ask a tool whose answer is inserted into the response; exact by enumeration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.tasks._tabular import REWARDS, TabularTask, penalty, start_rows
from asyncsim.tasks._task import Turn


@dataclass(frozen=True)
class ToolBandit(TabularTask):
    """K words and a call; see `tool_bandit`.

    Row (K + 1) j + k: the policy writes (j = 0), or the j-th token of a reply is due; k = 0 before any reply, else the
    word that the tool has said is k - 1.
    """

    reply_tokens: int
    accuracy: float
    price: float
    opens: bool

    @property
    def words(self) -> int:
        """K; the call is token K."""
        return self.actions - 1

    @cached_property
    def speech(self) -> Tensor:
        """What the tool writes: calls as filling, then one of the words, the same whenever it is asked again."""
        K, L, A = self.words, self.reply_tokens, self.actions
        table = torch.zeros((self.rows, A), dtype=torch.float64)
        table[A : A * L, K] = 1.0
        last = table[A * L :]
        last[0, :K] = 1.0 / K
        last[1:, :K] = torch.eye(K, dtype=torch.float64)
        return table

    def begin(self, prompt: Tensor, draws: Any, carried: Any = None) -> Tensor:
        """Before any reply; where the tool opens, its first token is due."""
        return torch.full_like(prompt, self.actions if self.opens else 0)

    def step(self, world: Tensor, action: Tensor, token: int, draws: Any) -> Turn:
        """A word of the policy ends the sequence; a call is followed by the reply."""
        due, known = torch.div(world, self.actions, rounding_mode="floor"), world % self.actions
        called = action == self.words
        after = torch.where(due == self.reply_tokens, action + 1, known + self.actions * (due + 1))
        # A word of the policy leads nowhere, but its row has to exist.
        following = torch.where((due > 0) | called, after, known)
        return Turn(following.clamp(max=self.rows - 1), (due > 0) | called)

    def score(self, state: Tensor, action: Tensor, mask: Tensor) -> Tensor:
        """Chance that the last word is right, 0 without one, less the price of every call."""
        own = (state < self.actions) & (mask > 0)
        calls = (own & (action == self.words)).sum(-1)
        answer = own & (action < self.words)
        # Before any reply every word is right with the same chance.
        unknown = torch.full((), 1.0 / self.words, dtype=torch.float64)
        wrong = torch.full((), (1.0 - self.accuracy) / (self.words - 1), dtype=torch.float64)
        repeated = torch.where(action == state - 1, torch.full_like(wrong, self.accuracy), wrong)
        right = torch.where(state == 0, unknown, repeated)
        paid = torch.where(answer, right, torch.zeros_like(right)).sum(-1)
        return paid - self.price * calls.to(torch.float64)

    @property
    def scores(self) -> tuple[float, float]:  # type: ignore[override]
        """Least and largest score: nothing but calls, or a right word."""
        turns = -(-self.horizon // (1 + self.reply_tokens))
        return -self.price * turns, 1.0

    @property
    def best(self) -> float:  # type: ignore[override]
        """The best of a guess and a word behind one call, where there is room for it."""
        due = self.reply_tokens if self.opens else 0
        room = self.horizon - due
        guess = self.accuracy if self.opens else 1.0 / self.words
        asked = self.accuracy - self.price if room >= 2 + self.reply_tokens else guess
        return max(guess, asked) if room > 0 else 0.0

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        own = ("reply_tokens", "accuracy", "price", "opens")
        return {**super().describe(), **{name: getattr(self, name) for name in own}}


def tool_bandit(
    words: int = 2,
    horizon: int = 6,
    reply_tokens: int = 2,
    accuracy: float = 1.0,
    price: float = 0.0,
    opens: bool = False,
    rewards: str = "fixed",
    kl_coef: float = 0.0,
    reference: Any = None,
    kl_at: str = "behavior",
    logits: Any = None,
) -> ToolBandit:
    """Find the right one of K words: write it, or write a call, whose reply the environment inserts, and go on.

    J = E[q 1[y = word said] + (1 - q) / (K - 1) 1[y = another] - price calls], y the last token: a word of the policy.
    Before any reply y is right with chance 1/K; without a word of the policy within T the first part is 0. Tokens of a
    reply have mask 0: the policy reads them (its next row), and no loss, ratio or mean does.

    Arguments: `words` K; tokens 0 to K - 1 are words, token K is the call; `horizon` T in tokens, replies included;
    `reply_tokens` L, tokens of a reply: L - 1 of filling and a word, drawn uniformly the first time and then repeated;
    `accuracy` q in [1/K, 1], chance that the tool says the right word; `price` of a call in units of reward; `opens`,
    whether a reply stands in front of the policy's first token; `rewards`, "fixed" (the mean) or "bernoulli" (without a
    price); `kl_coef`, `reference`, `kl_at` as in `token_bandit`; `logits`, initial table `[S, A]` in nats, S = (K + 1)
    (L + 1), A = K + 1. Returns a task whose own policy is `policies.tabular`. Raises `InputError` for values outside
    these ranges, or a horizon that the opening reply fills. Source: this package.

    >>> import torch
    >>> task = tool_bandit(words=2, horizon=4)
    >>> round(task.exact(task.policy(), task.policy().initial(1))[0].item(), 4), task.optimum
    (0.4444, 1.0)
    """
    checks.integer("words", words, 2, "a guess needs a choice", 1 << 10)
    checks.integer("reply_tokens", reply_tokens, 1, "a reply has at least one token", 1 << 10)
    checks.boolean("opens", opens, "say whether a reply stands in front")
    least = 1 + (reply_tokens if opens else 0)
    checks.integer("horizon", horizon, least, "leave a token for the policy", checks.LARGEST)
    checks.real("accuracy", accuracy, "1 / words is a tool that knows nothing", 1.0 / words, 1.0)
    checks.real("price", price, "give what a call costs", 0.0)
    checks.one_of("rewards", rewards, REWARDS[:2], "choose how rewards are drawn")
    free = rewards == "fixed" or price == 0.0
    checks.require(free, "price", price, "0 with rewards='bernoulli'", "use rewards='fixed'")
    shape = ((words + 1) * (reply_tokens + 1), words + 1)
    start = start_rows(logits, shape)
    return ToolBandit(
        rows=shape[0],
        actions=shape[1],
        horizon=horizon,
        prompts=1,
        rewards=rewards,
        deviation=0.0,
        penalty=penalty(kl_coef, reference, kl_at, shape),
        logits=start,
        reply_tokens=reply_tokens,
        accuracy=float(accuracy),
        price=float(price),
        opens=opens,
    )
