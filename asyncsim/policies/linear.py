"""A softmax whose logits are linear in features of the state."""

from typing import Any

from asyncsim.base import checks
from asyncsim.base.parts import handed_on, made, whole
from asyncsim.policies._shared import Shared


@made(
    "textbook",
    "a policy of P = (D + 1) A parameters with the outputs of `policies.tabular`",
    "features that are no finite table, or fewer than two actions",
)
def linear(
    features: Any = handed_on(..., "phi, `[S, D]`: a row of numbers for each state of the task"),
    actions: int = whole(..., "A", 2, remedy="a policy needs a choice"),
) -> Shared:
    """A softmax with logits linear in state features, for tasks with a table; states share parameters.

    log pi(a|s) = phi_s . W_a + b_a - log sum_b exp(phi_s . W_b + b_b), from W = 0, b = 0 on. The gradient of the table
    is pulled back through all states at once. With one feature for each state and no bias it would be the table.

    >>> import asyncsim as sim
    >>> task = sim.tasks.token_bandit(actions=3, horizon=4, dependence="position")
    >>> policy = linear(features=[[1.0, t / 4] for t in range(4)], actions=3)
    >>> policy.size, policy.prepare(policy.initial(1))["prob"].shape
    (9, torch.Size([1, 4, 3]))
    """
    remedy = "give a row of numbers for each state"
    table = checks.finite_array(
        "features", checks.numbers("features", features, "a table of numbers", remedy), (None, None), remedy
    )
    checks.require(table.size > 0, "features", list(table.shape), "a table with rows and columns", remedy)
    rows = tuple(tuple(float(x) for x in row) for row in table)
    return Shared(len(rows), actions, features=rows)
