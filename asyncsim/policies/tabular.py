"""A softmax over a table of logits: one row per state, one column per action; gradients in closed form."""

from typing import Any

from asyncsim.base import checks
from asyncsim.base.parts import choice, handed_on, made, real, whole
from asyncsim.policies._engine import Engine
from asyncsim.policies._tables import Tabular

_TEXTS = checks.table(__file__, "texts.toml")["tabular"]


@made(**_TEXTS["tabular"])
def tabular(
    rows: int = whole(1, "S, number of states", 1, remedy="give every state a row"),
    actions: int = whole(2, "A, number of actions", 2, remedy="a policy needs a choice"),
    logits: Any = handed_on(None, "initial values `[S, A]` in nats (None: zeros)"),
    reference: Any = handed_on(None, **_TEXTS["reference"]),
    temperature: float = real(
        1.0, "temperature of the engine", 0.0, 1e6, above=True, remedy="1 samples from the policy as it is"
    ),
    top_p: float = real(1.0, low=0.0, high=1.0, above=True, **_TEXTS["top_p"]),
    top_k: int = handed_on(0, "how many of the likeliest actions are kept (0: all)"),
    noise: float = real(0.0, "standard deviation of e in nats", 0.0, 10.0),
    noise_law: str = handed_on("normal", '"normal", "uniform", or "student" (5 degrees of freedom; student:3 has 3)'),
    noise_per: str = choice("token", "sequence", "prompt", "version", **_TEXTS["noise_per"]),
    noise_in: str = choice("logits", "reports", **_TEXTS["noise_in"]),
) -> Tabular:
    """Softmax policy over a table of logits: one row per state, one column per action; gradients in closed form.

    pi(a|s) = exp(theta_sa) / sum_b exp(theta_sb). It may be sampled by an engine that differs from it: mu(a|s) ~
    exp((log pi(a|s) + e_a) / temperature) on the actions that are kept. The recorded `log_prob` is then the engine's,
    and `scored_log_prob` is log pi at the same weights.

    >>> policy = tabular(rows=1, actions=2, logits=[[0.0, 1.0]])
    >>> policy.prepare(policy.initial(1))["prob"].round(decimals=3).tolist()
    [[[0.269, 0.731]]]
    >>> policy = tabular(rows=1, actions=3, logits=[[2.0, 1.0, 0.0]], top_p=0.8)
    >>> policy.install(policy.prepare(policy.initial(1)), None)["sampled"].exp().round(decimals=3).tolist()
    [[[0.731, 0.269, 0.0]]]
    """
    tables = []
    for name, value in (("logits", logits), ("reference", reference)):
        own = None if value is None else checks.finite_array(name, value, (rows, actions), "give one row per state")
        tables.append(None if own is None else tuple(map(tuple, own.tolist())))
    checks.integer("top_k", top_k, 0, "0 keeps every action", actions)
    engine = Engine(temperature, top_p, top_k, noise, noise_law, noise_per, noise_in)
    _ = engine.law  # refuses an unknown one
    return Tabular(rows, actions, tables[0], tables[1], engine)
