"""Claims of TBA (arXiv 2503.18929), of the last abstract and, where it says so, of the first."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "TBA")
_claim = partial(Claim, "TBA")
CLAIMS = (
    _claim(
        "Trajectory balance learns from off-policy data",
        "mostly",
        "on frozen data and at tuned rates, TBA ends at most {tba_optimum:tba_frozen} nats from its optimum",
        "tba_optimum",
        when="TBA learns slowly where frozen data rarely show the optimum",
        held="there",
        test="TBA ends less than {tba_optimum:near} nats from its optimum",
    ),
    _claim(
        "On-policy methods are not robust to replayed data",
        "not reproduced",
        "at tuned rates, RLOO ends {tba_optimum:rloo_moving} nats from the optimum if half of the data are replayed, "
        "and {tba_optimum:rloo_frozen} nats on frozen data",
        "tba_optimum",
        when="half of the data are replayed; RLOO fails on frozen data only",
        held="missed",
        test="RLOO without ratios ends more than {tba_optimum:near} nats from the optimum",
    ),
    _claim(
        "TBA stays accurate as asynchrony grows",
        "mixed",
        "on a bandit at one rate, TBA's return is {tba_asynchrony:tba_old} at staleness {tba_asynchrony:old}, and "
        "{tba_asynchrony:tba_fresh} on fresh data",
        "tba_asynchrony",
        when="not on a bandit with many arms at staleness 15 or more, nor where rewards are rare",
        held="accurate",
        also="tba_returns",
        test="mean return is less than {tba_asynchrony:smallest} below that on fresh data",
    ),
    _claim(
        "TBA outperforms RLOO and Dr. GRPO",
        "mixed",
        "TBA's wins/ties/losses are {tba_asynchrony:beside_grpo_best} against Dr. GRPO and "
        "{tba_asynchrony:beside_rloo_best} against RLOO",
        "tba_asynchrony",
        when="often Dr. GRPO, seldom RLOO; neither where rewards are rare",
        held="ahead",
        also="tba_returns",
        test="TBA's mean return is more than {tba_asynchrony:smallest} above that of the other method",
    ),
    _claim(
        "TBA trains at least 4 times as fast",
        "mixed",
        "TBA makes {tba_speed:speed_10} times as many updates per second as synchronous RLOO, but reaches a target at "
        "most {tba_speed:most_sooner} times as fast",
        "tba_speed",
        when="in updates per second if generation is slow and weights are exchanged rarely; never to a target return",
        held="times",
        test="TBA is at least 4 times as fast as synchronous RLOO",
    ),
    _claim(
        "Sampling recent data helps as generation scales",
        "mixed",
        "on a bandit with many samples, TBA's return is {tba_buffer:uniform_095_many} on recent data, and "
        "{tba_buffer:uniform_0_many} on data of any staleness",
        "tba_buffer",
        when="with more samples on the bandit; not with more generators",
        held="recent",
        also="tba_returns",
        test="recent data raise the mean return more at the maximum scale than at the minimum",
    ),
    _claim(
        "Sampling data by reward helps as generation scales",
        "not reproduced",
        "on a bandit with many samples, TBA's return is {tba_buffer:reward_0_many} on data drawn by reward, and "
        "{tba_buffer:uniform_0_many} with uniform draws",
        "tba_buffer",
        when="the return decreases",
        held="reward",
        test="mean return is higher with draws by reward than with uniform draws, at this number of samples",
    ),
    _claim(
        "Where rewards are rare, more generators raise the return",
        "reproduced",
        "on a bandit, TBA's return is {tba_asynchrony:arms_first} with one generator, and {tba_asynchrony:arms_last} "
        "with {tba_asynchrony:most}",
        "tba_searchers",
        when="two tasks; hardly from 16 generators on",
        held="more",
        test="mean return is higher than with one generator",
    ),
    _claim(
        "TBA defines new frontiers of return against KL",
        "mixed",
        "on stale data, the maximum gap to the best objective is {tba_frontier:tba_old_usual} at one rate (RLOO: "
        "{tba_frontier:rloo_old_usual}), and {tba_frontier:tba_old_best} at tuned rates",
        "tba_frontier",
        when="mostly at medium and large KL coefficients",
        held="objective",
        test="the final objective is above that of RLOO, Proximal RLOO and Dr. GRPO",
    ),
    _claim(
        "Resets of the reference policy make the policy more accurate",
        "under conditions",
        "the return at a KL coefficient of {tba_buffer:price_high} rises from {tba_buffer:high_never_return} to "
        "{tba_buffer:high_reset_return}",
        "tba_resets",
        when="at the larger of two KL coefficients",
        held="raised",
        test="the final return is more than {tba_asynchrony:smallest} higher than without resets",
    ),
)
ITEMS: tuple[Item, ...] = (
    _item(
        "Gradient equals REINFORCE with a KL penalty",
        "text",
        "figure",
        "enumerated answers; plain SGD",
        "tba_optimum",
        "reproduced",
        "mean dynamics differ from training by at most {tba_optimum:off} nats",
    ),
    _item(
        "Share of recent samples m",
        "text",
        "figure",
        "return; rarely rewarded bits",
        "tba_buffer",
        "",
        "recent samples, compared with any: {tba_returns:rare_recent_1} with one generator, "
        "{tba_returns:rare_recent_16} with 16",
        "0.67 at 0.4, 0.82 at 0.5",
        claim="Sampling recent data helps as generation scales",
    ),
    _item(
        "Sensitivity to beta",
        "text",
        "figure",
        "no schedule of beta",
        "tba_frontier",
        "mostly",
        "return: {tba_frontier:at_smallest} at beta 0.004, {tba_frontier:at_largest} at beta 0.4",
        "smaller is better, unstable around 0.003",
    ),
    _item(
        "Accuracy over training time",
        "text",
        "proxy",
        "simulated seconds; two noisy tasks",
        "tba_speed",
        "",
        "TBA makes {tba_speed:speed_10} times as many updates per second; to a target return, synchronous RLOO takes "
        "{tba_speed:graded_tba_10} times as long",
        "4 times or more",
        claim="TBA trains at least 4 times as fast",
    ),
    _item(
        "1, 2 and 15 steps off policy",
        "text",
        "figure",
        "return, not win rate",
        "tba_asynchrony",
        "",
        "return: TBA {tba_asynchrony:tba_old}, Proximal RLOO {tba_asynchrony:prox_old}, RLOO {tba_asynchrony:rloo_old}",
        "win rate 0.86, RLOO 0.77",
        claim="TBA stays accurate as asynchrony grows",
    ),
    _item(
        "Number of generators",
        "text",
        "figure",
        "return, not attack success",
        "tba_searchers",
        "",
        "the return rises from {tba_asynchrony:arms_first} to {tba_asynchrony:arms_last}",
        claim="Where rewards are rare, more generators raise the return",
    ),
    _item(
        "TBA and Dr. GRPO over training",
        "text",
        "figure",
        "clip at 0.2",
        "tba_asynchrony",
        "mostly",
        "TBA's wins/ties/losses at one rate: {tba_asynchrony:beside_grpo_usual}",
    ),
    _item(
        "Speed of red-teaming",
        "text",
        "proxy",
        "simulated seconds of updates",
        "tba_speed",
        "mixed",
        "TBA makes {tba_speed:speed_10} times as many updates per second",
        "6.6 and 7 times",
    ),
    _item(
        "Frontier of reward and KL",
        "text",
        "figure",
        "beta varies, not training steps",
        "tba_frontier",
        "",
        "gap to the best objective: TBA {tba_frontier:tba_old_usual}, Proximal RLOO {tba_frontier:prox_old_usual}",
        claim="TBA defines new frontiers of return against KL",
    ),
    _item(
        "Diversity against reward",
        "text",
        "figure",
        "good arms, not cosine distance",
        "tba_frontier",
        "mixed",
        "different arms: TBA {tba_frontier:tba_diverse}, Dr. GRPO {tba_frontier:grpo_diverse}; at tuned rates, "
        "{tba_frontier:tba_diverse_best} and {tba_frontier:grpo_diverse_best}",
    ),
    _item(
        "Buffer by reward; buffer size",
        "text",
        "figure",
        "our own training loop",
        "tba_buffer",
        "mixed",
        "different arms rise from {tba_buffer:small_distinct} to {tba_buffer:large_distinct}; whether "
        "reward decreases is undecided",
        "toxic 98.1 to 94.8 %",
    ),
    _item(
        "Reset of the reference",
        "text",
        "figure",
        "our own training loop",
        "tba_resets",
        "",
        "the return at beta 0.2 rises from {tba_buffer:high_never_return} to {tba_buffer:high_reset_return}",
        "every 50 steps",
        claim="Resets of the reference policy make the policy more accurate",
    ),
)
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
