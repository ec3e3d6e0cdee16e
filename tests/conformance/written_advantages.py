"""Advantages written anew, as trainers write them, and texts that turn each into a known mistake."""

import numpy as np

TIME = """
def gae(rewards, values, dones, last_value, gamma, lam):
    out, carried, steps = 0 * rewards, 0.0, len(rewards)
    for t in reversed(range(steps)):
        after = last_value if t == steps - 1 else values[t + 1]
        going = 1 - dones[t]
        on = going
        delta = rewards[t] + gamma * after * going - values[t]
        carried = delta + gamma * lam * on * carried
        out[t] = carried
    return out
"""
CLEANRL = """
def gae(rewards, values, dones, next_value, next_done, gamma, gae_lambda):
    out, carried, steps = 0 * rewards, 0.0, len(rewards)
    for t in reversed(range(steps)):
        going = 1 - (next_done if t == steps - 1 else dones[t + 1])
        after = next_value if t == steps - 1 else values[t + 1]
        delta = rewards[t] + gamma * after * going - values[t]
        carried = delta + gamma * gae_lambda * going * carried
        out[t] = carried
    return out, out + values
"""
LIMITS = """
def gae(rewards, values, next_values, terminated, truncated, gamma, lam):
    out, carried, steps = 0 * rewards, 0.0, len(rewards)
    for t in reversed(range(steps)):
        stop, cut = terminated[t], np.maximum(terminated[t], truncated[t])
        delta = rewards[t] + gamma * next_values[t] * (1 - stop) - values[t]
        carried = delta + gamma * lam * (1 - cut) * carried
        out[t] = carried
    return out
"""
TOKENS = """
def gae(token_level_rewards, values, response_mask, gamma, lam):
    mask, carried, after, out = response_mask, 0.0, 0.0, 0 * values
    for t in reversed(range(values.shape[1])):
        delta = token_level_rewards[:, t] + gamma * after - values[:, t]
        here = delta + gamma * lam * carried
        after = np.where(mask[:, t] > 0, values[:, t], after)
        carried = np.where(mask[:, t] > 0, here, carried)
        out[:, t] = carried
    return out
"""
WHITE = TOKENS.replace(
    "    return out", "    pool = out[mask > 0]\n    return (out - pool.mean()) / (pool.std() + 1e-8)"
)
RETURNS = """
def returns(rewards, dones, gamma):
    out, carried = 0 * rewards, 0.0
    for t in reversed(range(len(rewards))):
        carried = rewards[t] + gamma * carried * (1 - dones[t])
        out[t] = carried
    return out
"""
IMPALA = """
def v_trace(log_rhos, rewards, values, dones, bootstrap_value, gamma, rho_bar, c_bar):
    rho, c = np.minimum(np.exp(log_rhos), rho_bar), np.minimum(np.exp(log_rhos), c_bar)
    going, steps = gamma * (1 - dones), len(rewards)
    after = np.concatenate([values[1:], bootstrap_value[None]])
    delta = rho * (rewards + going * after - values)
    shift, carried = 0 * rewards, 0.0
    for t in reversed(range(steps)):
        carried = delta[t] + going[t] * c[t] * carried
        shift[t] = carried
    target = values + shift
    later = np.concatenate([target[1:], bootstrap_value[None]])
    return target, rho * (rewards + going * later - values)
"""
GROUP = """
def advantage(rewards, group_ids):
    out = 0 * rewards
    for i in range(len(rewards)):
        own = rewards[group_ids == group_ids[i]]
        out[i] = (rewards[i] - own.mean()) / (own.std(ddof=1) + 1e-6)
    return out
"""
ALONE = """
def advantage(rewards, group_ids):
    out = 0 * rewards
    for i in range(len(rewards)):
        own = rewards[group_ids == group_ids[i]]
        out[i] = rewards[i] - (own.sum() - rewards[i]) / (len(own) - 1)
    return out
"""
KEPT = """
def advantage(rewards, group_ids, keep):
    out = 0 * rewards
    for i in range(len(rewards)):
        own = rewards[group_ids == group_ids[i]]
        out[i] = (rewards[i] - own.mean()) * 1.0
    return out
"""
BLOCKS = """
def advantage(rewards, num_generations):
    table = rewards.reshape(-1, num_generations)
    return (table - table.mean(1, keepdims=True)).reshape(-1)
"""

RIGHT = {
    "gae": [TIME, CLEANRL, LIMITS, TOKENS],
    "gae_whitened_population": [WHITE],
    "returns_to_go": [RETURNS],
    "v_trace": [IMPALA],
    "group_std": [GROUP],
    "leave_one_out": [ALONE],
    "group_mean": [KEPT, BLOCKS],
}

GOING = "going = 1 - dones[t]"
PLANTED = [
    # the name of the mistake, the text, what is replaced
    ("dones one slot late", TIME, (GOING, "going = 1 - (dones[t - 1] if t else 0 * dones[t])")),
    ("dones one slot late", CLEANRL, ("dones[t + 1]", "dones[t]")),
    ("dones one slot early", TIME, (GOING, "going = 1 - dones[min(t + 1, steps - 1)]")),
    ("bootstraps from the next episode", TIME, ("after * going", "after")),
    ("trace runs over the end of an episode", TIME, ("lam * on", "lam")),
    ("ends of episodes ignored", TIME, (GOING, "going = 1.0")),
    ("end at the last step ignored", CLEANRL, ("(next_done if t == steps - 1", "(0 if t == steps - 1")),
    ("value behind the last step ignored", CLEANRL, ("(next_done if t == steps - 1", "(1 if t == steps - 1")),
    ("value behind the last step ignored", TIME, ("last_value if t", "0 if t")),
    ("truncation treated as termination", LIMITS, ("(1 - stop)", "(1 - cut)")),
    ("termination treated as truncation", LIMITS, (" * (1 - stop)", "")),
    ("truncation ignored", LIMITS, ("(1 - cut)", "(1 - stop)")),
    (
        "value of the next episode at a cut",
        LIMITS,
        ("next_values[t] *", "(next_values[t] if t == steps - 1 else values[t + 1]) *"),
    ),
    ("own value in place of the next", TIME, ("else values[t + 1]", "else values[t]")),
    ("value not subtracted", TIME, (" - values[t]", "")),
    ("lambda missing", TIME, ("gamma * lam * on", "gamma * on")),
    ("lambda and gamma swapped", TIME, ("+ gamma * after", "+ lam * after")),
    ("lambda in the next value", TIME, ("+ gamma * after", "+ gamma * lam * after")),
    ("gamma missing", TIME, ("gamma * lam * on", "lam * on")),
    ("gamma missing", TIME, ("+ gamma * after", "+ after")),
    ("gamma missing", RETURNS, ("gamma * carried", "carried")),
    ("trace missing", TIME, ("carried = delta + gamma * lam * on * carried", "carried = delta")),
    ("rewards one slot early", TIME, ("= rewards[t]", "= (rewards[t + 1] if t < steps - 1 else 0)")),
    ("rewards one slot late", TIME, ("= rewards[t]", "= (rewards[t - 1] if t else 0)")),
    ("sign reversed", TIME, ("return out", "return -out")),
    ("padding counted", TOKENS, ("np.where(mask[:, t] > 0, values[:, t], after)", "values[:, t]")),
    ("padding counted", WHITE, ("out[mask > 0]", "out * mask")),
    ("rho and c swapped", IMPALA, ("rho, c = ", "c, rho = ")),
    ("product of c one step late", IMPALA, ("c[t] * carried", "c[min(t + 1, steps - 1)] * carried")),
    ("product of c one step early", IMPALA, ("c[t] * carried", "c[t - 1] * carried")),
    ("log ratio reversed", IMPALA, ("    rho, c", "    log_rhos = -log_rhos\n    rho, c")),
    ("ratio not truncated", IMPALA, ("np.minimum(np.exp(log_rhos), rho_bar)", "np.exp(log_rhos)")),
    ("ratio not truncated", IMPALA, ("np.minimum(np.exp(log_rhos), c_bar)", "np.exp(log_rhos)")),
    ("bound of the trace is rho's", IMPALA, ("c_bar)\n", "rho_bar)\n")),
    ("error without its ratio", IMPALA, ("delta = rho * ", "delta = ")),
    ("trace without its ratio", IMPALA, ("* c[t]", "")),
    ("groups mixed up", GROUP, ("group_ids == group_ids[i]", "np.arange(12) // 3 == i // 3")),
    ("groups mixed up", BLOCKS, ("(-1, num_generations)", "(num_generations, -1)")),
    ("groups mixed up", BLOCKS, (".mean(1,", ".mean(0,")),
    (
        "statistics taken after filtering",
        KEPT,
        ("group_ids == group_ids[i]", "(group_ids == group_ids[i]) & (keep > 0)"),
    ),
    ("divided by the variance", GROUP, ("own.std(ddof=1)", "own.var(ddof=1)")),
    ("others divided by N", ALONE, ("(len(own) - 1)", "len(own)")),
    ("missing epsilon", GROUP, (" + 1e-6", "")),
]
TARGETS = [
    ("advantage without its ratio", IMPALA, ("target, rho * (rewards", "target, (rewards")),
    ("value in place of the target", IMPALA, ("rho * (rewards + going * later", "rho * (rewards + going * after")),
]
"""Mistakes in the second array that is returned, where the first is right."""


def made(text, old="", new=""):
    """The function of a text, in which one place is changed."""
    assert text.count(old) == 1 or not old
    space = {}
    exec(text.replace(old, new) if old else text, {"np": np}, space)
    return space.popitem()[1]
