"""Threads that an exact result answers: what was asked, where, a sentence or two, and the claims that stand behind it.

A claim is linked by the file that states it; `docs/_site.py` leads the link to the reference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from asyncsim import claims
from asyncsim.claims import _registry

ROOT = _registry.__file__.partition("asyncsim/claims/")[0]
HEAD = """## Answered by a claim

An exact result answers each of these questions. The command below each answer compares the exact result with a
measurement. Each measurement covers a few parameter values, not the exact result in general."""


class Claimed(NamedTuple):
    """A thread without a run: the question, where it was asked, the answer, and ids of its claims."""

    asked: str
    threads: str
    answer: str
    claims: tuple[str, ...]


CLAIMED = [
    Claimed(
        "What is the mean ratio of an unchanged policy under top-p?",
        "TRL #6789 and #6945, verl #6240",
        "The mean ratio is the product, over all positions, of the policy's probability mass on tokens kept by top-p. "
        "The mean ratio thus reveals the removed probability mass, but ESS does not.",
        ("ratio/top-p", "ratio/engine-floor"),
    ),
    Claimed(
        "If all weights are one in one micro-batch and two in another, is ESS/N one?",
        "Megatron-LM #5420, torchrl #1708",
        "ESS/N is one in each micro-batch, because ESS ignores a factor that all weights share. Over both "
        "micro-batches together, ESS/N is lower than one.",
        ("ess/invariances",),
    ),
    Claimed(
        "Which of the quantities called ESS does my trainer log?",
        "miles #1000 and #3230",
        "Trainers use five definitions of ESS, which give different values on the same batch. The ESS of sequence "
        "weights falls with sequence length. The ESS of clamped weights has a lower bound. An ESS computed within "
        "sequences ignores differences between sequences. `asyncsim diagnose` compares the ESS in your log with each "
        "definition.",
        ("ess/limit", "ess/clamp-floor"),
    ),
    Claimed(
        "What does ESS miss if a run fails while its ESS/N stays near one?",
        "marin #8955",
        "ESS ignores a factor that all ratios share: if all ratios are halved, ESS stays the same. "
        "ESS does not predict the variance of a gradient, either. The ratio of this variance to the variance on fresh "
        "data can differ from `N/ESS` by any factor.",
        ("estimator/is-variance", "ess/invariances"),
    ),
    Claimed(
        "Should a sequence-level correction sum log ratios, or average them?",
        "TRL #5814 and #4891",
        "The sum of the token log ratios is the log of the sequence's importance weight. The average of the log "
        "ratios is the log of the geometric mean, whose expectation under the behavior policy is not one. The "
        "geometric mean hides the effect of length, and removes no bias.",
        ("estimator/geometric-ratio", "ess/limit"),
    ),
    Claimed(
        "Should I use token ratios or sequence ratios?",
        "verl #3984 and #3694",
        "Token ratios leave a bias that grows, to first order, linearly with the distance between the current policy "
        "and the behavior policy. Sequence ratios cause no bias, but their variance grows exponentially with length.",
        ("estimator/token-is-bias", "ess/limit"),
    ),
    Claimed(
        "Which KL estimator belongs in the loss?",
        "NeMo-RL #2506, TRL #3025 and #4967",
        "If importance ratios are constant (detached) weights, the mean gradient of the estimator k1 is zero. "
        "The mean gradient of k2 equals the gradient of KL(pi, mu), where pi is the current policy and mu the "
        "behavior policy. The mean gradient of k3 equals the gradient of the reverse divergence, KL(mu, pi). Without "
        "a ratio, k1 as a loss pushes the policy away from the sampled data.",
        ("estimator/kl-estimators",),
    ),
    Claimed(
        "On stale data, should a KL penalty be in the reward or in the loss?",
        "verl #211, TRL #4967",
        "If the penalty is computed from behavior log-probs, the entire update is stale, and staleness lowers the "
        "maximum stable learning rate. If the penalty uses current log-probs and is added to the reward, "
        "staleness does not lower the maximum stable learning rate of a regularized bandit.",
        ("staleness/regularizer-placement",),
    ),
    Claimed(
        "Why should a sample be left out of its own baseline?",
        "Relax #174, AReaL #354",
        "If the baseline includes a sample's own reward, the baseline shrinks this sample's gradient. The larger the "
        "sample's weight, the more its gradient shrinks. If the baseline excludes the sample's own reward, the "
        "mean gradient is exact.",
        ("estimator/plug-in-baseline",),
    ),
    Claimed(
        "Should the learning rate fall with staleness?",
        "elasticdl #1139",
        "If stability under delay limits the learning rate, the maximum learning rate is inversely proportional to "
        "staleness. If cumulative drift limits training, the maximum learning rate is inversely proportional to the "
        "number of updates, whatever the staleness.",
        ("convergence/step-size-law",),
    ),
    Claimed(
        "Should the learning rate scale with the batch size, or with its square root?",
        "HandyRL #321",
        "The scaling depends on the goal and the optimizer. To keep the noise of the converged policy constant with "
        "plain SGD, scale the learning rate linearly with the batch size. With Adam, scale the learning rate with the "
        "square root of the batch size.",
        ("predictor/step-under-inflation",),
    ),
]


HOMES = {
    "AReaL": "areal-project/AReaL",
    "elasticdl": "sql-machine-learning/elasticdl",
    "HandyRL": "DeNA/HandyRL",
    "marin": "marin-community/marin",
    "Megatron-LM": "NVIDIA/Megatron-LM",
    "NeMo-RL": "NVIDIA-NeMo/RL",
    "open-instruct": "allenai/open-instruct",
    "OpenRLHF": "OpenRLHF/OpenRLHF",
    "prime-rl": "PrimeIntellect-ai/prime-rl",
    "Relax": "redai-studio/Relax",
    "ROLL": "alibaba/ROLL",
    "SkyRL": "NovaSky-AI/SkyRL",
    "slime": "THUDM/slime",
    "TRL": "huggingface/trl",
    "UniRL": "Tencent-Hunyuan/UniRL",
    "verl": "verl-project/verl",
}
"""Repositories of trainers whose threads are linked."""


def linked(threads: str) -> str:
    """Threads as written, "TRL #6789 and #6945, verl #6240", each number with its address where that is known.

    >>> linked("acme #321, verl #211")
    'acme #321, [verl #211](https://github.com/verl-project/verl/issues/211)'
    """
    home = ""

    def address(found: re.Match[str]) -> str:
        nonlocal home
        home = HOMES.get(found[1], "") if found[1] else home
        return f"[{found[0]}](https://github.com/{home}/issues/{found[2]})" if home else found[0]

    return re.sub(r"(?:\b(?!and )([A-Za-z-]+) )?#(\d+)", address, threads)


def link(id: str) -> str:
    """A claim's id, leading to the file that states it."""
    path = claims.claims()[id].as_posix().removeprefix(ROOT)
    return f"[`{id}`](../{path})"


def rests_on(claims: Sequence[str]) -> str:
    """The claims and the command that measures them; empty where there is none."""
    return f"Claims: {', '.join(map(link, claims))}; `asyncsim verify {' '.join(claims)}`." if claims else ""


def sections() -> str:
    """All threads that a claim answers."""
    answers = (each.answer.partition(". ") for each in CLAIMED)
    blocks = [
        f"### {each.asked}\n\n**{first}.** {rest}\n\n{rests_on(each.claims)}\n\nAsked in {linked(each.threads)}."
        for each, (first, _, rest) in zip(CLAIMED, answers, strict=True)
    ]
    return "\n\n".join([HEAD, *blocks])
