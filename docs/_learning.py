"""Questions that training answers, or a check of a loss or controller: ratios, clips, verdicts with an error rate."""

from __future__ import annotations

import math

from docs import _engines, _pictures
from docs._page import Question, Results
from docs._words import column, final, held, row, rows, share, verdicts, words_of

TASK = "--set task=token-bandit --set task.actions=4 --set task.horizon=8 --set task.rewards=bernoulli"
SMALLEST = 0.02
REPORTED = 0.0596
"""Mean of the sequence weights truncated at 2 in NVIDIA-NeMo/RL #2269, at about 9,000 tokens."""
COMPARE = (
    f"{TASK} --set link=adam --set adam.lr=0.1 --set updates=40 --smallest {SMALLEST:g} --also task=softmax-bandit"
)
CLIP = (
    "asyncsim run --task token-bandit --set task.horizon=8 --set schedule.groups_per_batch=4 --method ppo-clip "
    "--link sgd --set sgd.lr=20 --updates 40 --samples 16 --diagnostics clip_active,clip_outside,trained_return "
    "--set method.anchor={anchor} --staleness 8"
)
CALLED = {
    "clip": "training with a clip",
    "no clip": "training without a clip",
    "recorded": "training with recorded log-probs",
    "recomputed": "training with recomputed log-probs",
    "one version": "a staleness of one version",
    "three versions": "a staleness of three versions",
}
"""What answers call the arms of comparisons."""
WORDS = ("",)


def long_weight(found: Results) -> str:
    """What a sequence weight is at 9,000 tokens."""
    (result,) = found
    tokens = column(result, "mean_weight")[0][-1]
    at = {name: row(result, name, **{"task.horizon": tokens}) for name in result["metrics"]}
    variance = _pictures.variance_of(tokens)
    typical = held(variance > 1.0, "The expected weight is one at any length, but a typical weight is much smaller")
    return (
        f"{typical}. The log weight of such a sequence has a variance of {variance:.2f} nats², so the median weight "
        f"is about {math.exp(-variance / 2):.2f}. If weights are truncated at {_pictures.CAP:g}, their mean is "
        f"{at['applied_mean']['mean']:.2f}, although the code has no bug. ESS/N is {at['ess_mismatch']['mean']:.2f} "
        f"for batches of {_pictures.BATCH} sequences, and {math.exp(-variance):.3f} for an infinite batch. Instead of "
        "sequence weights, use token ratios or their geometric mean. The mean truncated weight reported in the "
        f"thread, {REPORTED:.2f}, corresponds to a mismatch of "
        f"{share(math.sqrt(_engines.variance_at(REPORTED, _pictures.CAP) / tokens))} per "
        "token, if tokens are independent."
    )


def not_on_policy(found: Results) -> str:
    """What samplers do at staleness 0."""
    _, temperature, nucleus, noise = found
    return (
        "The sampler may differ from the trained policy even if no data is stale. "
        f"A sampling temperature below one lowers ESS/N to {final(temperature, 'ess_mismatch'):.2f}, but leaves the "
        f"mean importance ratio at {final(temperature, 'mean_weight'):.2f}. Noise in the sampler's logits lowers "
        f"ESS/N to {final(noise, 'ess_mismatch'):.2f}. Top-p leaves ESS/N at {final(nucleus, 'ess_mismatch'):.2g}, but "
        f"lowers the mean ratio to {final(nucleus, 'mean_weight'):.2f}. "
        "The KL divergence between sampler and trained policy is above zero for all three causes, but only "
        f"{final(noise, 'kl_mismatch'):.2g} for noise. Record ESS, KL and the mean ratio, because only all three "
        "together distinguish temperature, noise and top-p."
    )


def cached(found: Results) -> str:
    """What a kept cache changes."""
    (result,) = found
    gaps, ess = (rows(result, name) for name in ("cache_gap", "ess_mismatch"))
    small, large, last = gaps
    held(small["low"] > 0.0 and small["mean"] < large["mean"], "The gap grows at first.")
    least = min(each["mean"] for each in ess)
    held(abs(last["mean"] / large["mean"] - 1.0) < 0.1, "the difference is about the same as at")
    unclear = held(ess[0]["high"] >= 1.0, "so few replicates cannot distinguish from one")
    return (
        f"You can keep the cache if you compute ratios from the sampler's log-probs. "
        f"With a kept cache, mean ESS/N is at least {least:.2g} at all three learning rates. "
        f"At the lowest learning rate, {small['lr']:g}, ESS/N is {ess[0]['mean']:.2g}, which {unclear}. "
        f"At this learning rate, the log-probs with a kept cache and with a recomputed cache differ by "
        f"{small['mean']:.2g} nats. At a learning rate of {large['lr']:g}, the difference is "
        f"{large['mean']:.2g} nats. At a learning rate of {last['lr']:g}, the difference is about the same as at "
        f"{large['lr']:g}. Recomputing the cache avoids this mismatch, but needs a second prefill. "
        "We did not test how a kept cache affects learning."
    )


def clip(found: Results) -> str:
    """Whether the clip acts."""
    swept, compared = found
    counts, shares, *_ = column(swept, "clip_active")
    at = dict(zip(counts, shares, strict=True))
    never = held(at[min(counts)] == 0.0 < at[max(counts)], "Yes, but not in the first update on a batch")
    return (
        f"{never}, because the weights have not changed yet. With {min(counts):.0f} minibatch per batch, the clip "
        f"stops the gradient of {share(at[min(counts)])} of tokens. With {max(counts):.0f} minibatches, the clip stops "
        f"the gradient of {share(at[max(counts)])} of tokens, because each update makes the later minibatches "
        f"off-policy. {verdicts(compared, CALLED)}"
    )


def anchor(found: Results) -> str:
    """Whether a recomputed anchor sees staleness."""
    recomputed, behavior, compared = found
    no = held(final(recomputed, "clip_outside") == 0.0, "No. With one update per batch, the clip never acts")
    return (
        f"{no}, whatever the staleness. With recomputed log-probs, {share(final(recomputed, 'clip_outside'))} of "
        f"tokens are outside the clip range. With the sampler's recorded log-probs, "
        f"{share(final(behavior, 'clip_outside'))} of tokens are outside this range. {verdicts(compared, CALLED)} "
        "With ten epochs per batch on CartPole, in contrast, "
        "[recorded log-probs give a far higher return](../paper_figures/actor_critic.md#cartpole). "
        "Compare recorded and recomputed log-probs on your own task."
    )


def unclipped(found: Results) -> str:
    """Whether ratios without a clip are worse at staleness 3."""
    words = "No. With token ratios and tuned learning rates, importance sampling (IS) is at least as good as PPO."
    not_here = held(words_of(found[0]) <= {"better", "equal"}, words)
    fair = "A comparison with the same learning rate for both losses would be unfair to one of the losses."
    return f"{not_here} {verdicts(found[0])} {fair}"


def different(found: Results) -> str:
    """Whether staleness 1 and 3 differ, and what can be seen."""
    compared, planned = found
    words = [pair["word"] for on in compared["tasks"] for pair in on["pairs"]]
    lost, most = words.count("worse"), len(words)
    other = held(words.count("equal") == most - lost, ", and equal on the other") * (lost < most)
    answer = f"A staleness of three versions is worse than a staleness of one version on {lost} of {most} tasks{other}."
    hard = max(planned["plans"], key=lambda plan: plan["replicates"])
    return (
        f"{answer} {verdicts(compared, CALLED)} The metric is the return of the trained policy. Trainers, in contrast, "
        "log the reward of the older policies that sampled the data. "
        f"With one seed per staleness value, no difference below {1.96 * hard['unpaired']:.2f} is detectable on the "
        f"{hard['task']}. To detect a difference of {hard['effect']:g} with a power of {share(hard['power'])}, you "
        f"need {hard['replicates']:,} paired replicates."
    )


def negative(found: Results) -> str:
    """What a bound on the negative branch buys and costs."""
    free, bent = found
    (unbounded,) = (each for each in free["findings"] if each["name"] == "no dual clip")
    far = max(bent["bias"], key=lambda each: (each["samples"], each["displacement"]))
    trade = held(
        far["variance"] < far["method_variance"] and far["bias"] > far["method_bias"],
        "Yes. With a negative advantage, the weight of a token is unbounded; a gate lowers the variance of the "
        "gradient, but raises its bias",
    )
    return (
        f"{trade}. In this example, the gate keeps the weight constant for a token with negative advantage once the "
        f"ratio of the token exceeds two. Without the gate, this {unbounded['evidence'].partition('the ')[2]}. "
        "Suppose that the logits of the current policy and the behavior policy differ by up to "
        f"{far['displacement']:g}. Then the gate lowers the exact variance of the gradient from "
        f"{far['method_variance']:.3f} to {far['variance']:.3f}. The gate raises the bias from "
        f"{far['method_bias']:.3f} to {far['bias']:.3f}. Use a "
        "gate if individual tokens destabilize the run. The hazards in the output are risks of this short example "
        "code, not of the gate."
    )


def restored(found: Results) -> str:
    """What a controller forgets at a restore."""
    forgets, remembers = found
    events = forgets["failure"]["events"]
    held("forgets accepted groups on recovery" in forgets["failure"]["likely"] and remembers["passed"], "forgets")
    return (
        "The restored admission controller has forgotten how many groups it had accepted, and admits the same number "
        f"again. `asyncsim conformance` reproduces this bug with {len(events)} events, and names the bug. "
        "A controller passes every test run if, at the restore, the controller sets its count of accepted groups to "
        "the version times the batch size."
    )


SAMPLER = (
    "asyncsim run --task token-bandit --set task.actions=4 --set task.horizon=64 --set task.logits=[[2,1,0,-1]] "
    "--staleness 0 --method full-is --link sgd --set sgd.lr=1e-6 --updates 1 --samples 1024 --replicates 16 "
    "--diagnostics ess_mismatch,mean_weight,kl_mismatch"
)

QUESTIONS = [
    Question(
        "Why is training not on-policy although staleness is 0?",
        "verl #6780",
        [SAMPLER, *(f"{SAMPLER} --set policy.{word}" for word in ("temperature=0.9", "top_p=0.9", "noise=0.05"))],
        ("  ess", "  mean", "  kl"),
        not_on_policy,
        _pictures.not_on_policy,
        "Sequences have 64 tokens, and batches have 1,024 sequences. Bars are 95 % intervals over 16 replicates. "
        "Dashed lines are closed-form predictions for large batches.",
        claims=("ratio/engine-floor", "ratio/top-p"),
    ),
    Question(
        "How large is the weight of a sequence of 9,000 tokens with a 2-percent mismatch per token?",
        "NeMo-RL #2269",
        [
            "asyncsim sweep --grid task.horizon=300,1000,3000,9000 --set task=token-bandit --set task.actions=2 "
            f"--set policy.noise={_pictures.NOISE} --set method=truncated-is --set method.cap={_pictures.CAP:g} "
            f"--set updates=1 --set samples={_pictures.BATCH} --set link=sgd --set sgd.lr=1e-6 --replicates 8 "
            "--metric mean_weight,applied_mean,mismatch_variance,ess_mismatch"
        ],
        ("",),
        long_weight,
        _pictures.sequence_weight,
        "Because of noise in the sampler's logits, the log ratio of each token has a standard deviation of 2 %. "
        "Batches have 256 sequences, and bars are 95 % intervals over 8 replicates. "
        "Dashed lines assume log-normal weights, without fitted parameters. The variance of the log weight is the "
        "sequence length times the squared mismatch per token.",
        claims=("ess/limit", "estimator/geometric-ratio"),
    ),
    Question(
        "Does PPO's clip act with one epoch and several minibatches?",
        "DAPO #11, open-instruct #755",
        [
            "asyncsim sweep --grid minibatches=1,2,4,8 --set cut=samples --set task=token-bandit --set task.horizon=8 "
            "--set schedule=fixed --set schedule.staleness=0 --set schedule.groups_per_batch=4 --set method=ppo-clip "
            "--set method.anchor=proximal --set link=sgd --set sgd.lr=20 --set updates=40 --set samples=16 "
            "--metric clip_active,trained_return --replicates 64",
            'asyncsim compare "clip: method=ppo-clip" "no clip: method=ppo-clip method.low=1 method.high=1000" '
            "--set method=ppo-clip --set method.anchor=proximal --set staleness=0 --set minibatches=4 "
            f"--set cut=samples {COMPARE}",
        ],
        WORDS,
        clip,
        _pictures.clipped_minibatches,
        "The picture shows the share of tokens whose gradient the clip stops, averaged over all updates of a run. Bars "
        "are 95 % intervals over 64 replicates. With one minibatch, this share is exactly 0.",
        claims=("estimator/ppo-gate",),
    ),
    Question(
        "Does PPO's clip act if the trainer recomputes the old log-probs?",
        "SkyRL #1315 and miles #1829",
        [
            *(CLIP.format(anchor=name) for name in ("proximal", "behavior")),
            'asyncsim compare "recorded: method.anchor=behavior" "recomputed: method.anchor=proximal" '
            f"--set method=ppo-clip --set staleness=8 {COMPARE}",
        ],
        (
            "  clip",
            "  trained_return",
            "trained_return,",
            "error",
            "token_",
            "softmax_",
            "     ",
            "  re",
            "re",
            "  un",
            "  [",
        ),
        anchor,
        claims=("estimator/ppo-gate",),
    ),
    Question(
        "Does importance sampling without a clip fail at staleness 3, while PPO does not?",
        "tinker-cookbook #822",
        [
            'asyncsim compare "PPO: method=ppo-clip" '
            '"IS: method=truncated-is method.level=token method.cap=1000000" '
            f"--set staleness=3 {COMPARE}"
        ],
        WORDS,
        unclipped,
        claims=("estimator/token-is-bias",),
    ),
    Question(
        "Is staleness 3 worse than staleness 1, and what difference is detectable?",
        "UniRL #310, marin #8936",
        [
            'asyncsim compare "one version: staleness=1" "three versions: staleness=3" '
            f"--set method=ppo-clip {COMPARE}",
            "python docs/questions/effects.py",
        ],
        WORDS,
        different,
        _pictures.verdict_on_three,
        "The learning rate is tuned for each staleness. Bars are 95 % intervals, corrected for interim "
        "looks and for events too rare to observe. The band marks differences too small to matter. If an interval "
        "lies below 0, the verdict is *worse*, even if the interval extends into the band.",
    ),
    Question(
        "Are weights under PPO's clip unbounded for negative advantages, and does a gate help?",
        "TRL #6945 and #7120",
        [f"asyncsim conformance docs/questions/losses.py:{name} --hazards" for name in ("clipped", "bent")],
        (
            *("conforms", "deviates", "is ", "hazard:", "note: no dual", "  for A < 0 the weight"),
            *("measured:", "  2 arms, 2 tokens", "exact moments"),
        ),
        negative,
        claims=("estimator/ppo-gate",),
    ),
    Question(
        "Why does staleness grow after a checkpoint is restored?",
        "AReaL #1388",
        [
            f"asyncsim conformance docs/questions/controllers.py:{name} --set batch_size=4 --set max_staleness=1 "
            "--set controller.batch=4 --set controller.staleness=1"
            for name in ("Forgets", "Remembers")
        ],
        ("",),
        restored,
    ),
    Question(
        "Should the sampler keep its key-value cache after a weight update, or recompute it?",
        "slime #1694, SkyRL #979, NeMo-RL #4018",
        [
            "asyncsim sweep --grid lr=0.0003,0.001,0.003 --set task=arithmetic --set policy.cache=keep "
            "--set system=pipeline_rl --set system.train_batch_size=64 --set system.length=lognormal:1:0.5 "
            "--set system.load=1 --set method=truncated-is --set link=adam --set updates=20 --set samples=8 "
            "--metric cache_gap,ess_mismatch,cache_stale --replicates 3"
        ],
        ("    lr", "0.", " 0."),
        cached,
        _pictures.kept_cache,
        "A character model learns two-digit sums, and receives new weights while it generates responses. "
        "Bars are 95 % intervals over 3 replicates; intervals of ESS end at its maximum, 100 %.",
    ),
]
