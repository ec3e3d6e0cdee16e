"""Errors of real engines, measured on a language model, as settings of the sampler of a table."""

from __future__ import annotations

from typing import Any


class Engines:
    """Named engines: each gives the arguments of `task.policy(...)` on tables that make errors of its size.

    Measured once by `python -m experiments engine_errors` on the character model (0.9 million weights) that answers
    sums: the error of a logit is half of the squared gap between the errors of the two likeliest tokens, root mean
    square. Its tail is that of a t distribution of the same kurtosis; large errors belong to few states. It lasts for a
    version, as rounding is the same whenever the same text is read. A table draws it anew for every version, while
    between two updates of a model part of it stays (0.4 in bfloat16, 0.6 in int8). Larger models have other errors.
    """

    @staticmethod
    def bfloat16() -> dict[str, Any]:
        """An engine that computes in bfloat16 beside a float32 trainer: errors of 0.018 nats a logit, t of 4.2 degrees.

        mu(a|s) ~ pi(a|s) exp(e_a), e of standard deviation 0.018, drawn for each state, action and version.

        Returns the settings `noise` in nats, `noise_law`, `noise_per` and `noise_in` of `policies.tabular`. Raises
        nothing. Assumes the errors of one small model. Source: this package, `experiments/engine_errors.py`.

        >>> import asyncsim as sim
        >>> sim.tasks.softmax_bandit().policy(**sim.policies.engines.bfloat16()).engine.noise
        0.018
        """
        return {"noise": 0.018, "noise_law": "student:4.2", "noise_per": "version", "noise_in": "logits"}

    @staticmethod
    def int8() -> dict[str, Any]:
        """An engine with int8 weights, a scale for each row: errors of 0.017 nats a logit, t of 4.4 degrees.

        mu(a|s) ~ pi(a|s) exp(e_a), e of standard deviation 0.017, drawn for each state, action and version.

        Returns the settings `noise` in nats, `noise_law`, `noise_per` and `noise_in` of `policies.tabular`. Raises
        nothing. Assumes the errors of one small model. Source: this package, `experiments/engine_errors.py`.

        >>> import asyncsim as sim
        >>> sim.tasks.token_bandit().policy(**sim.policies.engines.int8(), top_p=0.9).engine.noise_law
        'student:4.4'
        """
        return {"noise": 0.017, "noise_law": "student:4.4", "noise_per": "version", "noise_in": "logits"}


engines = Engines()
"""The named engines."""
