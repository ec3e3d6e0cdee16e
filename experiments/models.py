"""Do the effects that papers report, and the laws that small tasks obey, show on language models?

Eight effects: ratios against staleness and length (VCPO, arXiv 2602.17616), how far an update moves tokens, what PPO's
clip and M2PO's mask stop (2510.01161), how alike consecutive gradients are (GAC, 2603.01501), gradients of stale
batches, rounding of the sampler, returns at equal updates, and whether a law fitted at staleness 1 predicts larger
ones. Models are a character model of 0.9 million weights, a smaller one for long texts, and SmolLM2 of 135 million with
its last layer trained; every module has settings for a GPU as well (`GPU`).
"""

QUESTIONS = ["model_ratios", "model_gradients", "model_losses", "model_numerics"]
