"""Expected reward of the current policy.

J(theta) = E_pi r before the update, less the penalty of a task, averaged over prompts: shape `[R]`, in units of reward.
Blind to how the reward is spread over prompts. Needs a task that can be enumerated. Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

exact_return = Metric("exact_return", lambda step: step.exact[0], enumerates=True, doc=__doc__, subject="policy")
