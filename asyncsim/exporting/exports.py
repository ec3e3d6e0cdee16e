"""`export_loss`: a method as the policy loss of a trainer, one torch function that is checked before it is written."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from asyncsim.base import calls, checks, pages, plugins
from asyncsim.conformance._loss_methods import bare, reason, settings_of, unreadable
from asyncsim.conformance.reports import LossReport, Match
from asyncsim.exporting import checking
from asyncsim.methods._method import Method

HERE = Path(__file__).parent
TABLE: Mapping[str, Any] = checks.table(__file__, "exports.toml")
TRAINERS: Mapping[str, Mapping[str, Any]] = TABLE["trainers"]
NAMES: Mapping[str, Mapping[str, Any]] = TABLE["names"]
"""Names that the field has for a method with settings."""
ELSE = "choose another method or trainer"
_PARTS = ("token_mask", "sequence_mask", "geometric_mask", "k1", "k2", "k3")
"""Factors and penalties that have a formula here."""


@dataclass(frozen=True)
class Export(calls.Told):
    """Exported code: the `text` of a file with the function `name`, and the result of its check.

    `deviation`: the largest difference from the method or link on random tensors, of a token's gradient relative to it,
    or of a step relative to the gradient. `report`: that of `check_loss` beside the method, None for a link.
    """

    text: str
    name: str
    deviation: float
    report: LossReport | None = None

    def __str__(self) -> str:
        return self.text


@calls.named
def export_loss(method: str | Method, trainer: str, *, name: str | None = None, command: str = "") -> Export:
    """Export a method as a trainer's policy loss: one torch function with the signature of the trainer's hook.

    The function computes c without a gradient and returns -sum a m c (1 + log pi - sg(log pi)), whose gradient is that
    of the method. a is the average that the trainer's hook makes, m the mask.

    Arguments: `method`, a `Method` or the name of one with its defaults ("tis" and "dr_grpo" are names too); `trainer`,
    "verl", "trl", "areal", "skyrl" or "prime_rl"; `name` of the function, without its ending "_loss" (default: the
    method's); `command`, by which the file says that it was made. Returns an `Export`: print it, or write its `text`.
    Raises `InputError` where the hook lacks what the method needs, and says what; `ConformanceError` if the function is
    not the method. Its gradient must agree to 1e-6 in float64, and `check_loss` must find every token's weight. Source:
    the trainers' own code.

    >>> export_loss("reinforce", "verl").name
    'reinforce_loss'
    """
    checks.one_of("trainer", trainer, TRAINERS, "choose the trainer whose hook is filled")
    if isinstance(method, str):
        name = name or method.replace("-", "_")
        method = made(method)
    checks.require(isinstance(method, Method), "method", method, "a method or its name", "write sim.methods.NAME(...)")
    name = _named(name or method.name)
    filled = Filled.of(method, trainer)
    text = filled.text(name, command or "sim.export_loss")
    function = checking.function(text, f"{name}_loss")
    report, deviation = checking.check(function, filled.method, trainer, filled.old, filled.carries)
    return Export(text, function.__name__, deviation, report)


@calls.named
def export_link(link: Any, *, name: str | None = None, command: str = "") -> Export:
    """Export an update link as a function that replaces the call of any torch optimizer's step.

    Arguments: `link`, `updates.ess_step(...)`, `updates.align(...)`, or the name of one with its defaults
    ("ess_scaling", "gac"); `name` of the function, without its ending "_step"; `command`, by which the file says that
    it was made. Returns an `Export`. Raises `InputError` for other links, `ConformanceError` if steps on random
    gradients differ from the link's by more than 1e-6 of the gradient. Source: the link's.

    >>> export_link("gac").name
    'gac_step'
    """
    if isinstance(link, str):
        name = name or link.replace("-", "_")
        link = plugins.load("asyncsim.updates", NAMES.get(name, {}).get("link", link), "link")()
    kind = plugins.name_of(link)
    checks.one_of("link", kind, ("ess_step", "align"), "these change a step by what no optimizer has")
    name = _named(name or kind)
    settings = Settings({field.name: getattr(link, field.name) for field in dataclasses.fields(link)})
    settings |= {"title": _about("updates", kind)[0], "source": _about("updates", kind)[2]}
    text = _filled(kind, name, repr(link), command or "sim.export_link", s=settings)
    function = checking.function(text, f"{name}_step")
    return Export(text, function.__name__, checking.check_step(function, link))


def made(name: str, **settings: Any) -> Method:
    """A method by its name, or by a trainer's name for a method with settings."""
    known = NAMES.get(name.replace("-", "_"), {})
    make = plugins.load("asyncsim.methods", known.get("method", name), "method")
    method: Method = make(**known.get("settings", {}) | settings)
    return method


@cache
def exportable() -> dict[str, dict[str, str]]:
    """For each method and trainer, or link and torch, why its defaults cannot be exported, or ""."""
    found: dict[str, dict[str, str]] = {name: {"torch": ""} for name, about in NAMES.items() if "link" in about}
    for name in sorted({*plugins.summaries("asyncsim.methods"), *NAMES} - {*found}):
        found[name] = dict.fromkeys(TRAINERS, "")
        for trainer in TRAINERS:
            try:
                Filled.of(made(name), trainer)
            except checks.InputError as error:
                found[name][trainer] = f"{error.bound}; {error.remedy}"
    return found


class Settings(dict[str, Any]):
    """Settings of a formula by name; a missing setting is None."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


@dataclass(frozen=True)
class Filled:
    """Formula of a method for a trainer: its code, the policies that it uses, and its settings."""

    method: Method
    trainer: str
    code: str
    reads: tuple[str, ...]
    settings: Settings
    drops: bool

    @classmethod
    def of(cls, method: Method, trainer: str) -> Filled:
        """Fill a formula with a method's settings; raise `InputError` if the trainer's hook lacks an input."""
        plain, hook = bare(method), TRAINERS[trainer]
        settings = Settings(method.weight.describe())

        def needs(holds: bool, bound: str, remedy: str = ELSE) -> None:
            checks.require(holds, "method", method.name, bound, remedy)

        # What no hook has.
        own = "a loss of your own is torch already: call it in the trainer's hook; check it by asyncsim conformance "
        needs(settings.weight != "loss", "a method or link of `asyncsim list exports`", f"{own}FILE.py:{method.name}")
        single = all(checks.is_number(v) or v is None or isinstance(v, (str, bool)) for v in settings.values())
        needs(single, "one with single numbers", "give one number for each setting; see `asyncsim list exports`")
        parted = settings.micro_batches not in (None, 1)
        needs(not parted, "one statistic for each call", "leave micro_batches out: a call is a micro-batch")
        why = "reads rewards" if method.weight.rewarded else reason(plain) or unreadable(plain)
        own = "leave kl out, and set the trainer's own KL coefficient, as kl_loss_coef in verl or beta in TRL"
        needs(why != "reads reference" or not method.penalties, "without a KL penalty, which no export contains", own)
        needs(not why, f"a weight that log-probs, advantages and a mask give (this one {why})")
        context = {"trainer": trainer, "anchor": method.anchor}
        formulas = pages.templates(HERE).get_template("weights.py.jinja").make_module(context)
        parts = [(f"weight_{settings.weight}", settings)]
        part: Any
        for part in (*method.factors, *method.penalties):
            about = Settings(part.describe())
            kind = about.factor or about.penalty
            known = kind in _PARTS and about.ratio in ("r", "h", "none") and about.to != "reference"
            needs(known and about.level != "sequence", f"without {kind} as it is set", "leave it out")
            parts.append(("factor" if about.factor else "penalty", about))
        needs(hasattr(formulas, parts[0][0]), f"one whose weight has a formula for exports (not {settings.weight})")
        code = "".join(getattr(formulas, kind)(about) for kind, about in parts)
        code = "\n".join(line.rstrip() for line in code.splitlines() if line.strip())
        words = re.sub("#.*", "", code)
        reads = tuple(policy for policy in ("proximal", "behavior") if re.search(rf"\b{policy}\b", words))
        # What this hook has not.
        given = f"given by the loss hook of {trainer}"
        for policy in reads:
            other = {"proximal": "behavior", "behavior": "proximal"}[policy]
            remedy = f"set method.anchor={other}" if method.weight.anchored else ELSE
            lacked = f"without log-probs of the {policy} policy, which are not {given}"
            needs(policy in hook["policies"], lacked, remedy)
        both = len(reads) < 2 or not hook.get("either")
        needs(both, f"around one policy, since log-probs of both are not {given}")
        if "rollout_is_weights" in code:
            whole = settings.cap is not None and settings.beyond != "drop" and not settings.floor
            bound = f"with min(pi_prox/mu, cap), the only rollout weight that is {given}"
            needs(whole, bound, "set a cap and no floor")
        remedy = f"set method.aggregator={hook['aggregators'][0]}"
        averages = f"averaged by {' or '.join(hook['aggregators'])} in {trainer} (this one by {method.aggregator})"
        needs(method.aggregator in hook["aggregators"], averages, remedy)
        filled = cls(plain, trainer, code, reads, settings, method.drop_equal)
        lacked = f"without a statistic of the batch, of which one sequence is {given}"
        needs(not (filled.pooled and hook.get("single")), lacked)
        packed = method.weight.level == "prefix" and hook.get("packed")
        needs(not packed, f"without prefixes, since packed sequences are {given}")
        linear = not hook.get("scaled") or _linear(plain)
        needs(linear, f"proportional to the advantages, which are {given} divided by counts of tokens")
        return filled

    @property
    def old(self) -> str:
        """The policy that the hook's single old-policy argument stands for."""
        return self.reads[0] if self.reads else "behavior"

    @property
    def pooled(self) -> bool:
        """Whether the formula uses a statistic over all tokens of one call, such as a mean ratio."""
        return hasattr(self.method.weight, "scope") or (self.settings.normalize or "none") != "none"

    @property
    def carries(self) -> Any:
        """Cap of the rollout weights that the hook provides, None if the code uses none."""
        return self.settings.cap if "rollout_is_weights" in self.code else None

    def symbols(self, formula: str) -> str:
        """Explain the symbols in a formula, and those that the explanations use."""
        told: dict[str, str] = {}
        for pattern, words in TABLE["symbols"].items():
            if re.search(pattern, " ".join([formula, *told.values()])):
                told[pattern] = words.replace("ANCHOR", {"behavior": "mu", "proximal": "pi_prox"}[self.method.anchor])
        return f"Here {'; '.join(told.values())}."

    def text(self, name: str, command: str) -> str:
        """Source text of the exported file."""
        about, own = NAMES.get(name, {}), settings_of(self.method) | {"level": self.method.weight.level}
        same = about.get("method") == self.method.name and about["settings"].items() <= own.items()
        about = about if same else {}
        title, formula, source = _about("methods", self.method.name)
        known = {k: v for k, v in self.settings.items() if checks.is_number(v) and re.search(rf"\b{k}\b", self.code)}
        lines = TRAINERS[self.trainer]["policies"]
        constants = f"{', '.join(known)} = {', '.join(repr(float(v)) for v in known.values())}" if known else ""
        label = Match(self.method.name, settings_of(self.method), 0.0, 0.0).label
        told = {"title": about.get("title", title), "formula": formula, "source": about.get("source", source)}
        told |= {"symbols": self.symbols(formula), "constants": constants}
        if self.method.name in plugins.summaries("asyncsim.methods"):
            told |= {"own": own, "usual": (plain := made(self.method.name)).weight.describe() | settings_of(plain)}
        policies = [line for policy in self.reads for line in lines[policy].strip().splitlines()]
        weight = textwrap.indent(self.code, " " * 8)
        return _filled(self.trainer, name, label, command, f=self, weight=weight, policies=policies, **told)


def _named(name: str) -> str:
    checks.require(name.isidentifier(), "name", name, "a name in Python", "use letters, digits and _")
    return name


def _about(kind: str, name: str) -> tuple[str, str, str]:
    """First line, first sentences of the formula, and source of a part, from its docstring."""
    if name not in plugins.summaries(f"asyncsim.{kind}"):
        return "A method of your own.", "See the code below.", "yours."
    doc = inspect.getdoc(plugins.load(f"asyncsim.{kind}", name, plugins.PARTS[kind])) or ""
    title, formula = (" ".join(part.split()) for part in doc.split("\n\n")[:2])
    source = " ".join(re.split(r"Source:\s", doc)[1].split("\n\n")[0].split())
    return title, ". ".join(formula.split(". ")[:2]).rstrip(".") + ".", source


def _filled(template: str, name: str, label: str, command: str, **values: Any) -> str:
    environment = pages.templates(HERE)
    environment.filters["wrap"] = _wrapped
    page = environment.get_template(f"{template}.py.jinja")
    text = page.render(name=name, label=label, command=command, version=sys.modules["asyncsim"].__version__, **values)
    return re.sub(r"\n{3,}(?=[ \t])", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).rstrip() + "\n"


def _wrapped(text: str, indent: str = "    ", first: str = "") -> str:
    text = " ".join(text.split())
    form = textwrap.TextWrapper(116, first, indent, break_long_words=False, break_on_hyphens=False)
    return form.fill(text)


def _linear(method: Method) -> bool:
    """Whether c is linear in the advantages when they are divided per row and token."""
    log_prob, behavior, proximal, advantages, mask = list(checking.batches(False))[2]
    share = 1.0 / (mask.sum(-1, keepdim=True) * len(mask))
    settings = {"mask": mask, "categorical": False}
    whole, divided = (
        method.weigh(log_prob, behavior, proximal, advantages=advantages * by, **settings).score_weight
        for by in (torch.ones_like(share), share)
    )
    return torch.allclose(whole * share, divided, rtol=1e-9, atol=0.0)
