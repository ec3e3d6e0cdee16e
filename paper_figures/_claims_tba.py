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
        "at most {tba_optimum:worst} nats from its optimum",
        "tba_optimum",
        when="slow where data seldom show the optimum",
        test="We train on fresh, stale, replayed and frozen data, and measure KL",
    ),
    _claim(
        "On-policy methods are not robust to replayed data",
        "mixed",
        "lost at one rate: RLOO {tba_frontier:rloo_old_usual}, TBA {tba_frontier:tba_old_usual}",
        "tba_frontier",
        when="RLOO's penalty is as old as its data; with the current penalty it ties",
        test="We vary method and KL coefficient, and measure the objective lost",
    ),
    _claim(
        "TBA stays accurate as asynchrony grows",
        "mostly",
        "{tba_asynchrony:tba_old} at staleness {tba_asynchrony:old}, fresh {tba_asynchrony:tba_fresh}",
        "tba_asynchrony",
        when="one rate; not where rewards are rare and data 32 versions old",
        test="We vary staleness, and measure mean return",
    ),
    _claim(
        "TBA outperforms RLOO and Dr. GRPO",
        "mixed",
        "wins/ties/losses: Dr. GRPO {tba_asynchrony:beside_grpo_best}, RLOO {tba_asynchrony:beside_rloo_best}",
        "tba_asynchrony",
        when="both beat it where rewards are rare and data old",
        test="We vary task and staleness, tune every method, and compare returns",
    ),
    _claim(
        "TBA trains 4 times faster or more",
        "mixed",
        "updates {tba_speed:speed_10} times faster; time to a target undecided",
        "tba_speed",
        when="in updates, where generation dominates",
        test="We vary buffer and method, and measure updates and time to a target",
    ),
    _claim(
        "Sampling recent data helps as generation scales",
        "mixed",
        "return {tba_buffer:uniform_095_many} with many samples, from any {tba_buffer:uniform_0_many}",
        "tba_buffer",
        when="with few samples it loses; rarely paid bits gain most from one searcher",
        test="We vary searchers and sampling, and measure return",
    ),
    _claim(
        "Sampling data by reward helps as generation scales",
        "mixed",
        "return {tba_buffer:reward_05_many}, from any {tba_buffer:uniform_0_many}",
        "tba_buffer",
        when="more diversity, less return",
        test="We vary searchers and sampling, and measure return and diversity",
    ),
    _claim(
        "Where rewards are rare, more searchers raise the return",
        "reproduced",
        "{tba_asynchrony:arms_first} with one searcher, {tba_asynchrony:arms_last} with {tba_asynchrony:most}",
        "tba_searchers",
        when="both tasks, one rate and tuned",
        test="We vary the number of searchers from one to 32",
    ),
)
ITEMS: tuple[Item, ...] = (
    _item(
        "Gradient equals REINFORCE with a KL penalty", "text", "figure", "enumerated tables; plain steps",
        "tba_optimum", "reproduced", "mean dynamics miss by {tba_optimum:off} nats at most",
    ),
    _item(
        "Share of recent samples m", "text", "figure", "returns, not win rates; rarely paid bits; m to 0.95",
        "tba_recent", "mixed",
        "recent over any: {tba_returns:rare_recent_1}, 16 searchers {tba_returns:rare_recent_16}",
        "0.67 at 0.4, 0.82 at 0.5",
    ),
    _item(
        "Sensitivity to beta", "text", "figure", "64 arms; fixed beta, no schedule; no instability at small ones",
        "tba_frontier", "mostly", "return {tba_frontier:at_smallest} at 0.004, {tba_frontier:at_largest} at 0.4",
        "smaller is better, unstable around 0.003",
    ),
    _item(
        "Accuracy over training time", "text", "proxy", "simulated seconds; four machines; two noisy tables",
        "tba_speed", "mixed", "updates {tba_speed:speed_10} times; to a target {tba_speed:graded_tba_10}",
        "4 times or more",
    ),
    _item(
        "1, 2 and 15 steps off policy", "text", "figure", "return, not win rate; no online DPO; constant staleness",
        "tba_asynchrony", "mostly",
        "TBA {tba_asynchrony:tba_old}, clipped {tba_asynchrony:prox_old}, RLOO {tba_asynchrony:rloo_old}",
        "win rate 0.86, RLOO 0.77",
    ),
    _item(
        "Number of searchers", "text", "figure", "return on tables, not attack success; 1 to 32 generators",
        "tba_searchers", "reproduced", "{tba_asynchrony:arms_first} to {tba_asynchrony:arms_last}",
    ),
    _item(
        "TBA beside Dr. GRPO over training", "text", "figure", "64 arms; fixed reference; clip at 0.2",
        "tba_asynchrony", "mostly", "{tba_asynchrony:beside_grpo_usual} wins/ties/losses at one rate",
    ),
    _item(
        "Speed of red-teaming", "text", "proxy", "seconds of updates alone; event simulation; four machines",
        "tba_speed", "mostly", "{tba_speed:speed_10} times the updates", "6.6 and 7 times",
    ),
    _item(
        "Frontier of reward and KL", "text", "figure", "exact, on a table; beta swept, not training steps",
        "tba_frontier", "mixed",
        "lost objective: TBA {tba_frontier:tba_old_usual}, clipped {tba_frontier:prox_old_usual}",
    ),
    _item(
        "Diversity against reward", "text", "figure", "different good arms, not cosine distance; beta swept",
        "tba_frontier", "mostly", "TBA {tba_frontier:tba_diverse}, clipped {tba_frontier:prox_diverse} arms",
    ),
    _item(
        "Buffer by reward; buffer size", "text", "figure", "own loop; softmax of rewards at 0.2; 32 to 768 samples",
        "tba_buffer", "mostly",
        "arms {tba_buffer:small_distinct} to {tba_buffer:large_distinct}; reward loss undecided",
        "toxic 98.1 to 94.8 %",
    ),
    _item(
        "Reset of the reference", "text", "figure", "own loop; resets every 25 to 100 updates; larger beta",
        "tba_resets", "reproduced", "{tba_buffer:high_never_return} to {tba_buffer:high_reset_return} at beta 0.2",
        "every 50 steps",
    ),
)  # fmt: skip
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
