"""`export_loss`: a method as the policy loss of a trainer, one function of torch that is checked before it is given."""

from __future__ import annotations

import inspect
import re
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

import asyncsim
from asyncsim.base import checks, plugins
from asyncsim.conformance._loss_methods import bare, reason, settings_of, unreadable
from asyncsim.conformance.reports import LossReport, Match
from asyncsim.exporting import checking
from asyncsim.methods._method import Method

HERE = Path(__file__).parent
TABLE: Mapping[str, Any] = tomllib.loads((HERE / "exports.toml").read_text(encoding="utf-8"))
TRAINERS: Mapping[str, Mapping[str, Any]] = TABLE["trainers"]
NAMES: Mapping[str, Mapping[str, Any]] = TABLE["names"]
"""Names that the field has for a method with settings."""
_PARTS = ("token_mask", "sequence_mask", "geometric_mask", "k1", "k2", "k3")
"""Factors and penalties that have a formula here."""


@dataclass(frozen=True)
class Export:
    """A loss as the `text` of a file with the function `name`, and what was checked before it was given.

    `report`: that of `check_loss` beside the method; `deviation`: the largest difference of a token's gradient from the
    method's on random batches, relative to the gradient.
    """

    text: str
    name: str
    trainer: str
    method: Method
    report: LossReport
    deviation: float

    def __str__(self) -> str:
        return self.text


def export_loss(method: str | Method, trainer: str, *, name: str | None = None, command: str = "") -> Export:
    """A method as the policy loss of a trainer: one function of torch in the signature of the trainer's hook.

    The function computes c without a gradient and returns -sum a m c (1 + log pi - sg(log pi)), whose gradient is that
    of the method. a is the average that the trainer's hook makes, m the mask.

    Arguments: `method`, a `Method` or the name of one with its defaults ("tis" and "dr_grpo" are names too); `trainer`,
    "verl", "trl", "areal", "skyrl" or "prime_rl"; `name` of the function, without its ending "_loss" (default: the
    method's); `command`, by which the file says that it was made. Returns an `Export`: print it, or write its `text`.
    Raises `InputError` where the hook lacks what the method needs, and says what; `ConformanceError` if the function is
    not the method. Its gradient must agree to 1e-6 in float64, and `check_loss` must find every token's weight. Source:
    the trainers' own code.

    >>> export_loss("reinforce", "verl").text.splitlines()[0]
    '\"\"\"reinforce for verl: one function that needs torch alone.'
    """
    checks.one_of("trainer", trainer, TRAINERS, "choose the trainer whose hook is filled")
    if isinstance(method, str):
        name = name or method.replace("-", "_")
        known = NAMES.get(name, {"method": method, "settings": {}})
        method = plugins.load("asyncsim.methods", known["method"], "method")(**known["settings"])
    checks.require(isinstance(method, Method), "method", method, "a method or its name", "write sim.methods.NAME(...)")
    name = name or method.name
    checks.require(name.isidentifier(), "name", name, "a name in Python", "use letters, digits and _")
    filled = Filled.of(method, trainer)
    text = filled.text(name, command or f"sim.export_loss({name!r}, {trainer!r})")
    scope: dict[str, Any] = {}
    exec(compile(text, f"{name}_loss.py", "exec"), scope)
    report, deviation = checking.check(scope[f"{name}_loss"], filled.method, trainer, filled.old, filled.carries)
    return Export(text, f"{name}_loss", trainer, method, report, deviation)


def exportable() -> dict[str, dict[str, str]]:
    """By method, for every trainer why its defaults cannot be exported, "" where they can."""
    found: dict[str, dict[str, str]] = {}
    for name in sorted({*plugins.summaries("asyncsim.methods"), *NAMES} - {"from_loss", "given"}):
        known = NAMES.get(name, {"method": name, "settings": {}})
        found[name] = dict.fromkeys(TRAINERS, "")
        for trainer in TRAINERS:
            try:
                Filled.of(plugins.load("asyncsim.methods", known["method"], "method")(**known["settings"]), trainer)
            except checks.InputError as error:
                found[name][trainer] = error.bound
    return found


class Settings(dict[str, Any]):
    """Settings by name, None for one that there is not."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


@dataclass(frozen=True)
class Filled:
    """The formula of a method for a trainer: its code, the policies that it reads, and its settings.

    `old`: the policy whose log-probs stand in a hook that has one argument for both; `carries`: the cap of the rollout
    weights that verl makes.
    """

    method: Method
    trainer: str
    code: str
    reads: tuple[str, ...]
    settings: Settings

    @classmethod
    def of(cls, method: Method, trainer: str) -> Filled:
        """Raises `InputError` for what the hook of the trainer lacks."""
        plain, hook = bare(method), TRAINERS[trainer]
        settings = Settings(method.weight.describe())

        def needs(holds: bool, bound: str, remedy: str = "choose another method or trainer") -> None:
            checks.require(holds, "method", method.name, bound, remedy)

        # What no hook has.
        why = "reads rewards" if method.weight.rewarded else reason(plain) or unreadable(plain)
        needs(not why, f"a weight that log-probs, advantages and a mask give (this one {why})")
        formulas = _templates().get_template("weights.py.jinja").make_module({"trainer": trainer, "anchor": method.anchor})
        parts = [(f"weight_{settings.weight}", settings)]
        for part in (*method.factors, *method.penalties):
            about = Settings(part.describe())
            kind = about.factor or about.penalty
            known = kind in _PARTS and about.ratio in ("r", "h", "none") and "reference" != about.to
            needs(known and about.level != "sequence", f"without {kind} as it is set", "leave it out")
            parts.append(("factor" if about.factor else "penalty", about))
        needs(hasattr(formulas, parts[0][0]), f"one whose weight has a formula for exports (not {settings.weight})")
        single = all(checks.is_number(v) or v is None or isinstance(v, (str, bool)) for v in settings.values())
        needs(single, "one with single numbers", "give one number for each setting")
        code = "".join(getattr(formulas, kind)(about) for kind, about in parts)
        code = "\n".join(line.rstrip() for line in code.splitlines() if line.strip())
        words = re.sub("#.*", "", code)
        reads = tuple(policy for policy in ("proximal", "behavior") if re.search(rf"\b{policy}\b", words))
        # What this hook has not.
        given = f"given by the loss hook of {trainer}"
        for policy in reads:
            other = {"proximal": "behavior", "behavior": "proximal"}[policy]
            remedy = {True: {"remedy": f"set method.anchor={other}"}}.get(method.weight.anchored, {})
            needs(policy in hook["policies"], f"without log-probs of the {policy} policy, which are not {given}", **remedy)
        both = len(reads) < 2 or not hook.get("either")
        needs(both, f"around one policy, since log-probs of both are not {given}")
        if "rollout_is_weights" in code:
            made = settings.cap is not None and settings.beyond != "drop" and not settings.floor
            needs(made, f"with min(pi_prox/mu, cap), the only rollout weight that is {given}", "set a cap, without a floor")
        remedy = f"set method.aggregator={hook['aggregators'][0]}"
        averages = f"averaged by {' or '.join(hook['aggregators'])} in {trainer} (this one by {method.aggregator})"
        needs(method.aggregator in hook["aggregators"], averages, remedy)
        pooled = hasattr(method.weight, "scope") or bool(settings.normalize)
        needs(not (pooled and hook.get("single")), f"without a statistic of the batch, of which one sequence is {given}")
        packed = method.weight.level == "prefix" and hook.get("packed")
        needs(not packed, f"without prefixes, since packed sequences are {given}")
        linear = not hook.get("scaled") or _linear(plain)
        needs(linear, f"proportional to the advantages, which are {given} divided by counts of tokens")
        return cls(plain, trainer, code, reads, settings)

    @property
    def old(self) -> str:
        return self.reads[0] if self.reads else "behavior"

    @property
    def carries(self) -> Any:
        return self.settings.cap if "rollout_is_weights" in self.code else None

    def text(self, name: str, command: str) -> str:
        """The file."""
        about = NAMES.get(name, {})
        about = about if about.get("method") == self.method.name else {}
        doc = inspect.getdoc(plugins.load("asyncsim.methods", self.method.name, "method")) or ""
        title, formula = (" ".join(part.split()) for part in doc.split("\n\n")[:2])
        formula = formula[: re.search(r"\.(?= |$)", formula).end()]
        source = re.search(r"Source:\s+(.*?)\.?\s*(?:\n\n|$)", doc, re.DOTALL)[1]
        constants = {k: v for k, v in self.settings.items() if checks.is_number(v) and re.search(rf"\b{k}\b", self.code)}
        lines = TRAINERS[self.trainer]["policies"]
        text = _templates().get_template(f"{self.trainer}.py.jinja").render(
            name=name,
            trainer=self.trainer,
            version=asyncsim.__version__,
            command=command,
            label=Match(self.method.name, settings_of(self.method), 0.0, 0.0).label,
            title=about.get("title", title),
            formula=formula,
            source=about.get("source", " ".join(source.split())),
            constants=f"{', '.join(constants)} = {', '.join(map(repr, constants.values()))}" if constants else "",
            weight=textwrap.indent(self.code, " " * 8),
            policies=[line for policy in self.reads for line in lines[policy].strip().splitlines()],
            reads=self.reads,
            carries=self.carries,
            aggregator=self.method.aggregator,
        )
        return re.sub(r"\n{3,}(?=[ \t])", "\n\n", re.sub(r"[ \t]+\n", "\n", text))


@cache
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["wrap"] = lambda text: textwrap.fill(text, 116, subsequent_indent="    ")
    return environment


def _linear(method: Method) -> bool:
    """Whether c of advantages that are divided, row by row and token by token, is c divided."""
    log_prob, behavior, proximal, advantages, mask = list(checking.batches(False))[2]
    share = 1.0 / (mask.sum(-1, keepdim=True) * len(mask))
    weights = [
        method.weigh(log_prob, behavior, proximal, advantages=advantages * by, mask=mask, categorical=False).score_weight
        for by in (torch.ones_like(share), share)
    ]
    return torch.allclose(weights[0] * share, weights[1], rtol=1e-9, atol=0.0)
