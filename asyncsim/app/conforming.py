"""The command `asyncsim conformance`: load the target, check it, and print the findings."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from asyncsim.app import streams, wording
from asyncsim.app.options import Options
from asyncsim.base import checks, outside, plugins
from asyncsim.base.arguments import with_settings
from asyncsim.base.notation import plural

PACKAGES = ("trl", "torchrl")
"""Installed packages whose losses can be checked."""
KINDS = ("loss", "metric", "advantage", "controller")
_PARTS = ("adapter", "controller", "names")


def check(o: Options) -> tuple[dict[str, Any], int]:
    """Check a user's function or controller; return findings and exit status: 0 if it conforms, 1 if it deviates."""
    kind = "metric" if o.metric else o.kind
    if kind is not None:
        remedy = checks.advice(f"kind={kind.lower()}", "asyncsim.conformance", otherwise="say what the function is")
        checks.one_of("--kind", kind, KINDS, remedy)
    if kind in ("metric", "advantage"):
        return _number(o, kind)
    # Settings of the thing itself, and those of its parts, PART.KEY=VALUE.
    arguments: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {name: {} for name in _PARTS}
    for key, value in wording.settings(o.set).items():
        part, dot, name = key.partition(".")
        if dot:
            checks.one_of("--set part", part, _PARTS, "write KEY=VALUE, or adapter.KEY=VALUE")
            parts[part][name] = value
        else:
            arguments[key] = value
    # Names of a controller's methods, CALL=METHOD; those of "none" are left out.
    for pair in (each for text in o.names for each in text.split(",")):
        call, equals, method = pair.partition("=")
        checks.require(bool(equals and call and method), "--names", pair, "CALL=METHOD", "write capacity=get_capacity")
        parts["names"][call] = None if method in ("none", "None") else method
    subject = None if o.target in PACKAGES else outside.loaded(o.target)
    if inspect.isclass(subject) and hasattr(subject, "predict") and hasattr(subject, "measure"):
        bound = "a loss, metric, advantage or controller, not a claim"
        raise checks.InputError("target", o.target, bound, f"write asyncsim verify {o.target}")
    part = outside.made_by(subject)
    bound = f"a loss, metric, advantage or controller, not a {part}"
    checks.require(not part, "target", o.target, bound, f"asyncsim run --{part} {o.target} trains with it")
    # A loss takes tensors; a function without arguments makes a controller, as does a class that is no module of torch.
    controls = kind == "controller" or (inspect.isfunction(subject) and not inspect.signature(subject).parameters)
    if inspect.isclass(subject) and kind is None:
        controls = not hasattr(subject, "forward") and o.adapter is None
    if controls:
        for name in ("like", "adapter", "strict", "allow", "advantages_per"):
            option, value = f"--{name.replace('_', '-')}", vars(o)[name]
            checks.require(not value, option, value, "left out for an admission controller", "it is for losses")
        return _admission(subject, arguments, parts)
    for other, own in (("advantages", "advantage"), ("diagnostics", "metric")):
        alike = kind is None and plugins.kinds_of(str(o.like).replace("-", "_")) == [other]
        checks.require(not alike, "--like", o.like, "a method where the function is a loss", f"add --kind {own}")
    return _loss(o, subject, arguments, parts)


def _number(o: Options, kind: str) -> tuple[dict[str, Any], int]:
    """Check a metric or an advantage; `--set` gives the settings of the check."""
    from asyncsim.conformance import check_advantage, check_metric

    for name in ("names", "adapter", "advantages_per"):
        option, value = f"--{name.replace('_', '-')}", vars(o)[name]
        checks.require(not value, option, value, f"left out for --kind {kind}", "it is for losses and controllers")
    ask = check_metric if kind == "metric" else check_advantage
    every = inspect.signature(ask).parameters
    own = [name for name in every if name not in ("fn", "like", "allow", "strict", "seed", "check")]
    settings = wording.settings(o.set)
    checks.each_of("--set", settings, own, f"see asyncsim.conformance.{ask.__name__}")
    settings = {key: wording.understood(value, every[key].default) for key, value in settings.items()}
    found = ask(outside.loaded(o.target), o.like, allow=tuple(o.allow), strict=o.strict, seed=o.seed, **settings)
    print(found)
    return found.record(), 0 if found.conforms else 1


def _loss(
    o: Options, subject: Any, arguments: dict[str, Any], parts: Mapping[str, dict[str, Any]]
) -> tuple[dict[str, Any], int]:
    from asyncsim.conformance import adapters, check_loss

    for part, option in (("controller", "--set"), ("names", "--names")):
        checks.require(not parts[part], option, parts[part], "left out for a loss", "it is no controller")
    like, adapter = o.like, o.adapter
    # Settings that the method of --like does not have are those of the loss.
    takes = inspect.signature(subject).parameters if inspect.isfunction(subject) and arguments else {}
    made = inspect.signature(plugins.load("asyncsim.methods", like, "method")).parameters if takes and like else {}
    own = {*arguments} & {*takes} - {*made}
    mine = [name for name, x in takes.items() if x.default is not x.empty and name not in made]
    if own:
        subject = with_settings(subject, {key: arguments.pop(key) for key in sorted(own)})
    remedy = "name the method, or an argument of your loss that has a default; of an adapter write adapter.KEY=VALUE"
    if inspect.isclass(subject):
        remedy = f"{subject.__name__} is a class: write loss = {subject.__name__}(...) in your file, and name that"
    checks.require(like is not None or not arguments, "--set", ", ".join(arguments), "used with --like", remedy)
    if subject is None:
        checks.require(adapter is None, "--adapter", adapter, "left out for an installed package", "it has its own")
    method = None if like is None else wording.build("methods", like, arguments)
    name = o.target if subject is None else adapter
    if name is None:
        checks.require(not parts["adapter"], "--set adapter", parts["adapter"], "used with --adapter", "name one")
        fn = subject
    else:
        known = adapters.INSTALLED if subject is None else adapters.ADAPTERS
        given, called = "(log_prob, old_log_prob, advantages, mask)", getattr(subject, "__name__", "loss")
        remedy = f"{name} is a package: asyncsim conformance {name}; of your own loss " * (name in adapters.INSTALLED)
        remedy += f"leave --adapter out; where the loss returns more, write def checked{given}: return {called}(...)[0]"
        checks.one_of("--adapter", name, known, remedy if subject is not None else "name an installed trainer")
        fn = _adapt(known[name], name, subject, parts["adapter"])
    anchor = "either" if method is not None and "anchor" not in arguments else None
    asked = {"advantages_per": o.advantages_per, "strict": o.strict, "allow": tuple(o.allow), "seed": o.seed}
    report = check_loss(fn, method, anchor=anchor, **asked)
    findings = [finding for finding in report.findings if o.hazards or finding.kind != "hazard"]
    lines, folded = report.heading(), len(report.findings) - len(findings)
    lines += [f"--set {', '.join(mine)}: of the loss; --set {', '.join(made)}: of {like}"] * bool(mine and made)
    lines += [f"{plural(folded, 'hazard')} not printed: add --hazards to see them"] * bool(folded)
    for finding in findings:
        lines += [f"{finding.kind}: {finding.name}", f"  {finding.evidence}", f"  remedy: {finding.remedy}"]
    streams.show([*lines, *report.ending()])
    return report.record(), 0 if report.conforms else 1


def _adapt(make: Callable[..., Any], name: str, subject: Any, settings: dict[str, Any]) -> Any:
    from asyncsim.conformance.adapters import own_settings

    if inspect.isclass(subject):
        try:
            subject = subject()
        except TypeError as error:
            remedy = f"name an instance: file.py:loss, with loss = {subject.__name__}(...) in file.py"
            raise checks.InputError("target", subject.__name__, f"made without arguments ({error})", remedy) from error
    try:
        return make(**settings) if subject is None else make(subject, **settings)
    except TypeError as error:
        remedy = f"settings of {name} are {', '.join(own_settings(name))}"
        raise checks.InputError("--adapter", name, f"called with its settings ({error})", remedy) from error


def _admission(
    factory: Any, arguments: dict[str, Any], parts: Mapping[str, dict[str, Any]]
) -> tuple[dict[str, Any], int]:
    from asyncsim.conformance import check_admission

    every = inspect.signature(check_admission).parameters
    known = [name for name in every if name not in ("controller", "check", "names")]
    for key, value in arguments.items():
        its = f"it is an argument of {factory.__name__}: write --set controller.{key}={value}"
        elsewhere = checks.advice(key, "asyncsim.conformance", otherwise="see asyncsim.conformance.check_admission")
        elsewhere = wording.filled(elsewhere, str(value))
        checks.one_of("--set", key, known, its if key in inspect.signature(factory).parameters else elsewhere)
    arguments = {key: wording.understood(value, every[key].default) for key, value in arguments.items()}
    lacks = [key for key in ("batch_size", "max_staleness") if key not in arguments]
    remedy = f"add {' '.join(f'--set {key}=VALUE' for key in lacks)}"
    checks.require(not lacks, "target", factory.__name__, f"given {', '.join(lacks)}", remedy)
    try:
        factory(**parts["controller"])
    except TypeError as error:
        remedy = "add --set controller.KEY=VALUE"
        raise checks.InputError("target", factory.__name__, f"made with its settings ({error})", remedy) from error
    report = check_admission(lambda: factory(**parts["controller"]), names=parts["names"] or None, **arguments)
    print(report)
    return report.record(), 0 if report.passed else 1
