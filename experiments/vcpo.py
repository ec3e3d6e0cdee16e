"""When few samples carry a stale batch, what do steps and baselines that know it repair? VCPO (arXiv 2602.17616).

The paper says that high asynchrony makes importance ratios heavy-tailed, so that few samples dominate a batch and
training collapses, preceded by a low effective sample size and unstable gradient norms; and that steps scaled by that
size, with the off-policy baseline of minimum variance, keep learning stable where truncation and masks do not, and
reach the synchronous result in less time. One experiment asks after each of these.
"""

QUESTIONS = [
    "vcpo_training",
    "vcpo_controls",
    "vcpo_ess",
    "vcpo_baselines",
    "vcpo_hours",
    "vcpo_collapse",
    "vcpo_steps",
    "vcpo_prefix",
    "vcpo_seconds",
]
