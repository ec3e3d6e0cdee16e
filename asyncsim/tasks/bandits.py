"""Bandits and sequences on a softmax table: arms, tokens, words behind a tool, bits in a chain."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from asyncsim.base import checks
from asyncsim.base.parts import choice, flag, handed_on, made, real, whole
from asyncsim.fusing.tape import entries
from asyncsim.policies._policy import Policy
from asyncsim.step.versions import Weights
from asyncsim.tasks import _tabular
from asyncsim.tasks._task import Turn

_TEXTS = checks.table(__file__, "texts.toml")["bandits"]

_OWN = "a task whose own policy is `policies.tabular`"


@dataclass(frozen=True)
class SoftmaxBandit(_tabular.TabularTask):
    """Bandit with one choice per prompt among A arms; see `softmax_bandit`."""

    means: tuple[tuple[float, ...], ...]

    def begin(self, prompt: Tensor, draws: Any, carried: Any = None) -> Tensor:
        """Return each sample's prompt as its state."""
        return prompt

    def score(self, state: Tensor, action: Tensor, mask: Tensor) -> Tensor:
        """Mean reward of the chosen arm."""
        cell = action[..., 0] if self.prompts == 1 else state[..., 0] * self.actions + action[..., 0]
        return entries(self._means, cell)

    @property
    def scores(self) -> tuple[float, float]:  # type: ignore[override]
        """Minimum and maximum mean reward of an arm."""
        return min(map(min, self.means)), max(map(max, self.means))

    @property
    def best(self) -> float:  # type: ignore[override]
        """Mean reward of the best arm, averaged over prompts."""
        return sum(map(max, self.means)) / len(self.means)

    @cached_property
    def _means(self) -> Tensor:
        return torch.as_tensor(np.array(self.means))


@made("textbook", _OWN, "means outside [0, 1] with Bernoulli rewards, NaN, or shapes that do not fit")
def softmax_bandit(
    arms: int = whole(10, "A, number of arms", 2, _tabular.CELLS, remedy="a bandit needs a choice"),
    means: Any = handed_on(None, "`[A]` or `[prompts, A]` (None: evenly spaced from 0.1 to 0.9)"),
    rewards: str = _tabular.REWARDS.but("bernoulli"),
    deviation: float = _tabular.DEVIATION,
    kl_coef: float = _tabular.KL_COEF,
    reference: Any = _tabular.REFERENCE,
    kl_at: str = _tabular.KL_AT,
    logits: Any = _tabular.LOGITS,
    start: str | None = _tabular.START,
) -> SoftmaxBandit:
    """Bandit with a softmax policy over arms, with one or several prompts and an optional KL penalty.

    Choose an arm a ~ softmax(theta_x) for prompt x, earn r with mean m_xa. Exact gradient of one prompt without
    penalty: pi * (m - pi . m).

    >>> import torch
    >>> task = softmax_bandit(arms=3, means=[0.0, 0.5, 1.0], rewards="fixed")
    >>> value, gradient = task.exact(task.policy(), torch.zeros(1, 3, dtype=torch.float64))
    >>> round(value.item(), 3), [round(x, 4) for x in gradient[0].tolist()]
    (0.5, [-0.1667, 0.0, 0.1667])
    """
    remedy = "give one finite mean per arm, or one row per prompt"
    means = np.linspace(0.1, 0.9, arms) if means is None else means
    paid = checks.numbers("means", means, "a table of numbers", remedy)
    paid = checks.finite_array("means", np.atleast_2d(paid), (None, arms), remedy)
    outside = paid[(paid < 0) | (paid > 1)]
    bound, remedy = "in [0, 1] for bernoulli rewards", "rescale them or use rewards='fixed'"
    checks.require(rewards != "bernoulli" or outside.size == 0, "means", outside[:1].tolist(), bound, remedy)
    each = "give one per arm, the same for all prompts or one row for each"
    # Of equal arms the first one counts as the better one.
    order = (-paid).argsort(-1, kind="stable")
    own = _tabular.table((len(paid), arms), kl_coef, reference, kl_at, logits, each, True, start, order)
    own |= {"prompts": len(paid)}
    return SoftmaxBandit(**own, horizon=1, rewards=rewards, deviation=deviation, means=_tabular.nested(paid))


@dataclass(frozen=True)
class TokenBandit(_tabular.TabularTask):
    """Bandit over T tokens, with a reward for the number of tokens equal to 0; see `token_bandit`."""

    dependence: str
    success: float | None
    ends: bool

    header = (*_tabular.TabularTask.header, "dependence", "success", "ends")
    followed = True
    scores = (0.0, 1.0)
    best = 1.0

    def step(self, state: Tensor, action: Tensor, token: int, draws: Any) -> Turn:
        """Move to the next table row: always 0 (iid), one per position, or one per previous token (row 0: start)."""
        following = {"iid": torch.zeros_like(state), "position": state + 1, "markov": action + 1}[self.dependence]
        goes_on = action != self.actions - 1 if self.ends else torch.ones(state.shape, dtype=torch.bool)
        # The row after the last token is never read, but has to exist.
        return Turn(following.clamp(max=self.rows - 1), goes_on)

    def score(self, state: Tensor, action: Tensor, mask: Tensor) -> Tensor:
        """Fraction of a sequence's T tokens equal to 0, or whether that fraction reaches `success`."""
        right = ((action == 0) & (mask > 0)).sum(-1).to(torch.float64)
        if self.success is None:
            return right / self.horizon
        return (right >= self.success * self.horizon - 1e-9).to(torch.float64)

    @property
    def solved(self) -> bool:  # type: ignore[override]
        """Whether the exact return is cheap: without penalty and with a small sum, or by short enumeration."""
        terms = self.horizon * self.rows * self.actions * (1 if self.success is None else self.horizon + 1)
        small = self.dependence != "markov" or terms <= 16 * _tabular.SUMMED
        return (self.kl_coef == 0.0 and small) or super().solved

    def expected(self, policy: Policy, parameters: Tensor, weights: Weights) -> Tensor:
        """Expected return J `[R]` from row probabilities, jointly with the number of right tokens for `success`.

        Each replicate is summed by itself: a product of matrices would round it by how many stand beside it.
        """
        if self.kl_coef:
            return super().expected(policy, parameters, weights)
        prob, T = self.chances(policy, parameters, weights), self.horizon
        chained, joint = self.dependence == "markov", self.success is not None
        if not (chained or joint or self.ends):
            return prob[:, :, 0].mean(-1)
        worth = (torch.arange(T + 1 if joint else 1) >= (self.success or 0.0) * T - 1e-9).to(prob.dtype) * joint
        reached = prob.new_zeros((len(prob), self.rows if chained else 1, len(worth)))
        reached[:, 0, 0] = 1.0
        earned = prob.new_zeros(len(prob))
        for t in range(T):
            rows = prob if chained else prob[:, t % self.rows].unsqueeze(1)
            taken = (rows.unsqueeze(-1) * reached.unsqueeze(-2)).sum(1)
            if joint:
                # No more than t of t tokens are right, so that nothing is rolled over.
                taken[:, 0] = taken[:, 0].roll(1, -1)
            else:
                earned = earned + taken[:, 0, 0] / T
            if self.ends:
                earned = earned + (taken[:, -1] * worth).sum(-1)
                taken[:, -1] = 0.0
            reached = pad(taken, (0, 0, 1, 0)) if chained else taken.sum(1, keepdim=True)
        return earned + (reached.sum(1) * worth).sum(-1)


@made("textbook", _OWN, "unknown names, a success outside [0, 1], or tables of another shape")
def token_bandit(
    actions: int = whole(3, "A, number of actions", 2, checks.LARGEST, remedy="a token needs a choice"),
    horizon: int = whole(4, "T, length in tokens", 1, checks.LARGEST, remedy="a sequence has at least one token"),
    dependence: str = choice("iid", "position", "markov", **_TEXTS["dependence"]),
    success: float | None = handed_on(None, **_TEXTS["success"]),
    ends: bool = flag("the last token ends the sequence"),
    rewards: str = _tabular.REWARDS,
    deviation: float = _tabular.DEVIATION,
    kl_coef: float = _tabular.KL_COEF,
    reference: Any = _tabular.REFERENCE,
    kl_at: str = _tabular.KL_AT,
    logits: Any = _tabular.LOGITS,
    start: str | None = _tabular.START,
) -> TokenBandit:
    """Bandit over sequences of T categorical tokens, with one reward per sequence and an optional end token.

    y_1..y_T from softmax(theta_row), reward R(y) at the end only. With `ends` token A - 1 ends the sequence, whose
    length is then the work of a coupled run.

    >>> import torch
    >>> task = token_bandit(actions=2, horizon=3, success=1.0)
    >>> round(task.exact(task.policy(), torch.zeros(1, 2, dtype=torch.float64))[0].item(), 12)
    0.125
    """
    if success is not None:
        checks.real("success", success, "give the fraction of right tokens that earns 1", 0.0, 1.0)
    rows = {"iid": 1, "position": horizon, "markov": actions + 1}[dependence]
    own = _tabular.table((rows, actions), kl_coef, reference, kl_at, logits, start=start)
    own |= {"horizon": horizon, "rewards": rewards, "deviation": deviation}
    return TokenBandit(**own, dependence=dependence, success=success, ends=ends)


@dataclass(frozen=True)
class ToolBandit(_tabular.TabularTask):
    """Bandit with K words and a tool call; see `tool_bandit`.

    Row (K + 1) j + k: the policy writes (j = 0), or the j-th token of a reply is due; k = 0 before any reply, else the
    word that the tool has said is k - 1.
    """

    reply_tokens: int
    accuracy: float
    price: float
    opens: bool

    header = (*_tabular.TabularTask.header, "reply_tokens", "accuracy", "price", "opens")

    @property
    def words(self) -> int:
        """Number of words in the vocabulary, K; token K is the tool call."""
        return self.actions - 1

    @cached_property
    def speech(self) -> Tensor:  # type: ignore[override]
        """Distribution of the tool's tokens: filler, then one word, which is the same at every later call."""
        K, L, A = self.words, self.reply_tokens, self.actions
        table = torch.zeros((self.rows, A), dtype=torch.float64)
        table[A : A * L, K] = 1.0
        last = table[A * L :]
        last[0, :K] = 1.0 / K
        last[1:, :K] = torch.eye(K, dtype=torch.float64)
        return table

    def begin(self, prompt: Tensor, draws: Any, carried: Any = None) -> Tensor:
        """State before any tool reply; if `opens`, the first token of a reply is due."""
        return torch.full_like(prompt, self.actions if self.opens else 0)

    def step(self, world: Tensor, action: Tensor, token: int, draws: Any) -> Turn:
        """End the sequence at a word of the policy; after a tool call, continue with the tool's reply."""
        due, known = torch.div(world, self.actions, rounding_mode="floor"), world % self.actions
        called = action == self.words
        after = torch.where(due == self.reply_tokens, action + 1, known + self.actions * (due + 1))
        # A word of the policy leads nowhere, but its row has to exist.
        following = torch.where((due > 0) | called, after, known)
        return Turn(following.clamp(max=self.rows - 1), (due > 0) | called)

    def score(self, state: Tensor, action: Tensor, mask: Tensor) -> Tensor:
        """Probability that the final word is right (0 without a word), minus the cost of all tool calls."""
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
        """Minimum score (only tool calls) and maximum score (a right word without calls)."""
        turns = -(-self.horizon // (1 + self.reply_tokens))
        return -self.price * turns, 1.0

    @property
    def best(self) -> float:  # type: ignore[override]
        """Optimal expected score: of a guess, or of a word after one tool call if the horizon allows a call."""
        due = self.reply_tokens if self.opens else 0
        room = self.horizon - due
        guess = self.accuracy if self.opens else 1.0 / self.words
        asked = self.accuracy - self.price if room >= 2 + self.reply_tokens else guess
        return max(guess, asked) if room > 0 else 0.0


@made("this package", _OWN, "values outside these ranges, or a horizon that the opening reply fills")
def tool_bandit(
    words: int = whole(2, low=2, high=1 << 10, **_TEXTS["words"]),
    horizon: int = handed_on(6, "T, length in tokens, replies included"),
    reply_tokens: int = whole(2, low=1, high=1 << 10, **_TEXTS["reply_tokens"]),
    accuracy: float = handed_on(1.0, "q in [1/K, 1], chance that the tool says the right word"),
    price: float = real(0.0, "price of a call in units of reward", 0.0, remedy="give what a call costs"),
    opens: bool = flag("a reply stands in front"),
    rewards: str = choice("fixed", "bernoulli", **_TEXTS["rewards"]),
    kl_coef: float = _tabular.KL_COEF,
    reference: Any = _tabular.REFERENCE,
    kl_at: str = _tabular.KL_AT,
    logits: Any = _tabular.LOGITS,
) -> ToolBandit:
    """Guess a hidden word, or call a tool whose answer is inserted into the response; exact by enumeration.

    J = E[q 1[y = word said] + (1 - q) / (K - 1) 1[y = another] - price calls], y the last token: a word of the policy.
    Before any reply y is right with chance 1/K; without a word of the policy within T the first part is 0. Tokens of a
    reply have mask 0: the policy reads them (its next row), and no loss, ratio or mean does. The table is `[S, A]`,
    S = (K + 1) (L + 1), A = K + 1.

    >>> import torch
    >>> task = tool_bandit(words=2, horizon=4)
    >>> round(task.exact(task.policy(), task.policy().initial(1))[0].item(), 4), task.optimum
    (0.4444, 1.0)
    """
    least = 1 + (reply_tokens if opens else 0)
    checks.integer("horizon", horizon, least, "leave a token for the policy", checks.LARGEST)
    accuracy = checks.real("accuracy", accuracy, "1 / words is a tool that knows nothing", 1.0 / words, 1.0)
    free = rewards == "fixed" or price == 0.0
    checks.require(free, "price", price, "0 with rewards='bernoulli'", "use rewards='fixed'")
    own = _tabular.table(((words + 1) * (reply_tokens + 1), words + 1), kl_coef, reference, kl_at, logits)
    own |= {"horizon": horizon, "rewards": rewards, "reply_tokens": reply_tokens}
    return ToolBandit(**own, accuracy=accuracy, price=price, opens=opens)


@dataclass(frozen=True)
class BitChain(_tabular.TabularTask):
    """Sequence of H bits with a row of logits each, and reward 1 for enough right bits; see `bit_chain`."""

    fraction: float

    header = (*_tabular.TabularTask.header, "fraction")
    followed = True
    closed = True
    solved = True
    scores = (0.0, 1.0)
    best = 1.0

    @property
    def needed(self) -> int:
        """Minimum number of right bits for the reward."""
        return math.ceil(self.fraction * self.horizon - 1e-9)

    def step(self, world: Tensor, action: Tensor, token: int, draws: Any) -> Turn:
        """Move to the row of logits of the next position."""
        # The row after the last bit is never read, but has to exist.
        return Turn((world + 1).clamp(max=self.rows - 1), torch.ones(world.shape, dtype=torch.bool))

    def score(self, state: Tensor, action: Tensor, mask: Tensor) -> Tensor:
        """Whether enough bits of each sequence are right."""
        return ((action == 0).sum(-1) >= self.needed).to(torch.float64)

    def exact(self, policy: Policy, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """Expected return J `[R]` and its gradient `[R, P]` from the number of right bits' distribution, in O(H^2).

        With f_t(k) = P(k right before bit t) and b_t(k) = P(paid | k right before bit t),
        J = b_0(0) and grad J = sum_t sum_a pi_t(a) sum_k f_t(k) b_{t+1}(k + 1[a = 0]) grad log pi_t(a).
        The penalty's own part is sum_t KL(pi_t || reference), whose gradient stands in closed form as well.
        """
        prob, pull = _tabular.cells(policy, parameters, self.rows, self.actions)
        paid = self._paid(prob)
        reached = torch.zeros_like(paid[0])
        reached[:, 0] = 1.0
        weight = torch.zeros_like(prob)
        for t in range(self.horizon):
            right, wrong = prob[:, t, 0:1], prob[:, t, 1:2]
            weight[:, t, 0] = prob[:, t, 0] * (reached * _one_more(paid[t + 1])).sum(-1)
            weight[:, t, 1] = prob[:, t, 1] * (reached * paid[t + 1]).sum(-1)
            moved = reached * right
            reached = reached * wrong
            reached[:, 1:] += moved[:, :-1]
            reached[:, -1] += moved[:, -1]
        if self.kl_coef:
            weight = weight - self.kl_coef * prob * self._gap(prob)
        return self._value(prob, paid[0]), pull(weight)

    def expected(self, policy: Policy, parameters: Tensor, weights: Weights) -> Tensor:
        """Expected return J `[R]`, computed as in `exact`."""
        prob = self.chances(policy, parameters, weights)
        return self._value(prob, self._paid(prob)[0])

    def _value(self, prob: Tensor, paid: Tensor) -> Tensor:
        if not self.kl_coef:
            return paid[:, 0]
        return paid[:, 0] - self.kl_coef * (prob * self._gap(prob)).sum((1, 2))

    def ratio_moment(self, policy: Policy, parameters: Tensor, behavior: Tensor, power: float) -> Tensor:
        """Moment E_mu W^power of the sequence ratio W = prod_t pi_t/mu_t, `[R]`, as a product over bits."""
        then, now = (_tabular.cells(policy, at, self.rows, self.actions).prob for at in (behavior, parameters))
        return _tabular.tilted(then, now, power).sum(-1).prod(-1)

    def _paid(self, prob: Tensor) -> list[Tensor]:
        """Success probabilities b_t(k), `[R, needed + 1]` for t = 0..H; counts above `needed` are clipped to it."""
        end = torch.zeros((prob.shape[0], self.needed + 1), dtype=prob.dtype)
        end[:, -1] = 1.0
        tables = [end]
        for t in reversed(range(self.horizon)):
            after = tables[-1]
            tables.append(prob[:, t, 0:1] * _one_more(after) + prob[:, t, 1:2] * after)
        return tables[::-1]


def _one_more(table: Tensor) -> Tensor:
    """Shift entries from k + 1 to k; the last entry is repeated."""
    return torch.cat([table[:, 1:], table[:, -1:]], 1)


@made("textbook", f"{_OWN}, a row per position", "values outside these ranges, or tables of another shape")
def bit_chain(
    horizon: int = whole(4, "H, length in bits", 1, checks.LARGEST, remedy="a chain has at least one bit"),
    fraction: float = real(1.0, "share f of right bits that is paid", 0.0, 1.0),
    kl_coef: float = _tabular.KL_COEF,
    reference: Any = _tabular.REFERENCE,
    kl_at: str = _tabular.KL_AT,
    logits: Any = _tabular.LOGITS,
    start: str | None = _tabular.START,
) -> BitChain:
    """A sequence of bits, with reward 1 if enough of them are right; the exact return is known for any length.

    H bits in order, each from its own row `[H, 2]`, right bit (action 0) first: reward 1 if at least the fraction f of
    them is right, else 0. J = P(K >= f H), K = sum_t 1[bit t right] a sum of independent bits (Poisson binomial). So J
    and its gradient are exact for chains of hundreds of bits.

    >>> import torch
    >>> task = bit_chain(horizon=200, fraction=0.5)
    >>> round(task.exact(task.policy(), torch.zeros(1, 400, dtype=torch.float64))[0].item(), 6)
    0.528174
    """
    own = _tabular.table((horizon, 2), kl_coef, reference, kl_at, logits, "give two logits per bit", start=start)
    return BitChain(**own, horizon=horizon, fraction=fraction)
