"""Which methods the atlas compares: every discovered one with its defaults, a few variants, masks on token ratios."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from asyncsim import advantages
from asyncsim.base import checks, plugins
from asyncsim.methods._method import Method
from asyncsim.policies._policy import Policy

FAMILIES = {
    "no ratio": ("reinforce", "asym_re", "asymre", "opmd", "a3c"),
    "token truncation": ("full_is token", "truncated_is token", "three_policy_tis", "cispo", "topr_roll", "gipo"),
    "masks": ("icepop", "geometric_rs", "sequence_mis", "dppo", "ipo_mask", "kpop", "opsm", "+"),
    "sequence ratio": ("full_is", "truncated_is", "prefix_is", "per_decision_is", "vcpo", "topr", "vespo"),
    "clip around anchor": ("ppo_clip", "grpo", "dapo", "dual", "decoupled_ppo", "a3po", "gspo", "gmpo", "sapo"),
    "batch-adaptive": ("m2po", "bapo", "p3o", "sat", "gac"),
    "regression": ("kimi", "dro", "oapl", "tba", "kl_dro", "vargrad"),
}
"""Beginnings of labels by family; the longest that fits decides, and what fits none goes by its ratio."""
LEVELS = {"none": "no ratio", "token": "token truncation", "geometric": "clip around anchor"}
"""Family of methods that `FAMILIES` does not know, by level; all others are of sequences."""

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "full_is token": ("full_is", {"level": "token"}),
    "truncated_is token": ("truncated_is", {"level": "token"}),
    "truncated_is, SNIS baseline": ("truncated_is", {"advantage": advantages.self_normalized()}),
    "full_is, SNIS baseline": ("full_is", {"advantage": advantages.self_normalized()}),
    "ppo_clip proximal": ("ppo_clip", {"anchor": "proximal"}),
    "ppo_clip, no baseline": ("ppo_clip", {"advantage": advantages.none()}),
}
"""Methods with other arguments than their defaults, where these matter most."""


@dataclass(frozen=True)
class Entry:
    """A row of the atlas: a method with its family, or the reason why it has none."""

    label: str
    family: str
    status: str
    method: Method | None
    left_out: str


def entries(policy: Policy) -> list[Entry]:
    """Every method that the policy can serve, and the others by name, in a fixed order."""
    found = [entry(name, name, {}, policy) for name in plugins.summaries("asyncsim.methods")]
    found += [entry(label, name, arguments, policy) for label, (name, arguments) in VARIANTS.items()]
    base = plugins.load("asyncsim.methods", "truncated_is", "method")("token")
    for name in plugins.summaries("asyncsim.factors"):
        part, reason = made("asyncsim.factors", name, {})
        method = None if part is None else base.replace(factors=(part,))
        found.append(judged(f"+ {name}", method, reason, policy))
    return found


def entry(label: str, name: str, arguments: dict[str, Any], policy: Policy) -> Entry:
    """One method made from its factory."""
    return judged(label, *made("asyncsim.methods", name, arguments), policy)


def made(package: str, name: str, arguments: dict[str, Any]) -> tuple[Any, str]:
    """A plug-in with its defaults and these arguments, or None with the reason."""
    factory = plugins.load(package, name, package.rpartition(".")[2])
    asked = [p.name for p in inspect.signature(factory).parameters.values() if p.default is p.empty]
    if missing := [one for one in asked if one not in arguments]:
        return None, f"has no default for {', '.join(missing)}"
    try:
        return factory(**arguments), ""
    except checks.InputError as error:
        return None, str(error).splitlines()[0]


def judged(label: str, method: Method | None, reason: str, policy: Policy) -> Entry:
    """The entry, without its method where the task's policy cannot serve it."""
    if method is None:
        return Entry(label, family(label, None), "", None, reason)
    read = {*method.outputs, *getattr(method.advantage, "outputs", ())}
    missing = sorted(read - set(policy.outputs))
    if not method.scored:
        reason = "descends a loss of the policy's own"
    elif missing:
        reason = f"reads {', '.join(missing)}: needs a critic or another policy"
    return Entry(label, family(label, method), method.status, None if reason else method, reason)


def family(label: str, method: Method | None) -> str:
    """Family of a label."""
    fits = [(len(start), name) for name, starts in FAMILIES.items() for start in starts if label.startswith(start)]
    if fits:
        return max(fits)[1]
    if method is None:
        return "no ratio"
    return "masks" if method.factors else LEVELS.get(method.weight.level, "sequence ratio")
