"""Threads that an exact result answers: what was asked, where, a sentence or two, and the claims that stand behind it.

A claim is linked by the file that states it; `docs/_site.py` leads the link to the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from asyncsim import claims
from asyncsim.claims import _registry

ROOT = _registry.__file__.partition("asyncsim/claims/")[0]
HEAD = """## Answered by a claim

These threads need no run: an exact result answers them. The command after each measures that result on the product
beside its prediction. What an answer leaves out was not tested."""


class Claimed(NamedTuple):
    """A thread without a run: the question, where it was asked, the answer, and ids of its claims."""

    asked: str
    threads: str
    answer: str
    claims: tuple[str, ...]


CLAIMED = [
    Claimed(
        "What does the ratio of an unchanged policy read under top-p?",
        "TRL #6789 and #6945, verl #6240",
        "The policy's mass on what is kept, once for each token. ESS does not show it; the mean ratio does.",
        ("ratio/top-p", "predictor/mean-weight"),
    ),
    Claimed(
        "Micro-batches with weights of one and of two: is ESS one?",
        "Megatron-LM #5420, torchrl #1708",
        "In each of them, since a common factor is invisible to ESS; over both together it is lower.",
        ("ess/invariances",),
    ),
    Claimed(
        "Which of the quantities called ESS is logged?",
        "miles #1000 and #3230",
        "Five are in use, and they differ on the same batch. The ESS of sequences falls with their length. The ESS of "
        "clamped weights has a floor. A share inside a sequence cannot see how weights differ between sequences. "
        "`asyncsim diagnose` compares a log's ESS with each of them.",
        ("ess/length-law", "ess/clamp-floor"),
    ),
    Claimed(
        "An arm fails while its ESS stays near one: what did ESS miss?",
        "marin #8955",
        "ESS may miss a common drift of the ratios. ESS is also no variance ratio: a gradient's variance can differ "
        "from `N/ESS` by any factor.",
        ("ess/is-not-variance", "ess/invariances"),
    ),
    Claimed(
        "Should a sequence-level correction sum log ratios, or average them?",
        "TRL #5814 and #4891",
        "The sum is the importance weight. The average is the geometric mean, whose expectation under behavior is not "
        "one. This mean hides length and removes no bias.",
        ("estimator/geometric-ratio", "ess/length-law"),
    ),
    Claimed(
        "Token or sequence ratios?",
        "verl #3984 and #3694",
        "Token ratios leave a bias that starts linear in the distance of the policies. Sequence ratios have none, and "
        "a variance that grows exponentially in the length.",
        ("estimator/token-is-bias", "ess/length-law"),
    ),
    Claimed(
        "Which KL estimator belongs in the loss?",
        "NeMo-RL #2506, TRL #3025 and #4967",
        "With ratios, k1 has mean gradient zero, and k2 that of the divergence that is meant. k3 follows the other "
        "direction. Without a ratio, k1 pushes away from the data.",
        ("estimator/kl-estimators",),
    ),
    Claimed(
        "KL penalty in the reward or in the loss, on stale data?",
        "verl #211, TRL #4967",
        "Read at behavior log-probs, it leaves the update fully stale. Read at current log-probs in the reward, it "
        "removes the staleness limit of a regularized bandit.",
        ("staleness/regularizer-placement",),
    ),
    Claimed(
        "Why leave a sample out of its own baseline?",
        "Relax #174, AReaL #354",
        "Its reward in the baseline shrinks its own gradient, the more the heavier its weight. Without it, the mean "
        "gradient is exact.",
        ("estimator/plug-in-baseline",),
    ),
    Claimed(
        "Should the learning rate fall with staleness?",
        "elasticdl #1139",
        "Where delay limits it, in inverse proportion to staleness. Where cumulative drift limits it, updates times "
        "learning rate decides, whatever the staleness.",
        ("convergence/step-size-law",),
    ),
    Claimed(
        "Should the learning rate follow the batch size, or its root?",
        "HandyRL #321",
        "The scaling depends on the aim and the optimizer. At an equal noise floor plain SGD needs the first power, "
        "and Adam the root.",
        ("predictor/step-under-inflation",),
    ),
]


def link(id: str) -> str:
    """A claim's id, leading to the file that states it."""
    path = claims.claims()[id].as_posix().removeprefix(ROOT)
    return f"[`{id}`](../{path})"


def rests_on(claims: Sequence[str]) -> str:
    """The claims and the command that measures them; empty where there is none."""
    return f"Claims: {', '.join(map(link, claims))}; `asyncsim verify {' '.join(claims)}`." if claims else ""


def sections() -> str:
    """All threads that a claim answers."""
    blocks = [
        f"### {each.asked}\n\nAsked in {each.threads}.\n\n{each.answer}\n\n{rests_on(each.claims)}" for each in CLAIMED
    ]
    return "\n\n".join([HEAD, *blocks])
