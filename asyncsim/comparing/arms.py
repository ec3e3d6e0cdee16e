"""The arms of a comparison: specs that differ in some setting, with names; and checks before any run."""

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from asyncsim.base import calls, checks, knobs, notation, plugins
from asyncsim.base.answers import UNCOUNTED
from asyncsim.base.records import Schedule, plain
from asyncsim.base.trace import Trace
from asyncsim.comparing.readings import Reading, ends
from asyncsim.comparing.tuning import spread
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.methods._from_loss import OWN
from asyncsim.running.running import FRESH, one_weight, run
from asyncsim.running.spec import Spec

PACED = 256
"""Number of batches from which the pace of an arm is computed."""
UNLIKE = 1.05
"""Ratio of paces above which arms count as unequally fast."""
PROBED = 8
"""Number of replicates whose first update shows which metrics a spec reports, and their initial values."""


def named(arms: Sequence[Any], clocked: bool = False) -> dict[str, Spec]:
    """Specs by arm name: the given names, else those of methods or systems if they differ, else letters.

    On a clock (`clocked`) arms may make different numbers of updates. Raises `InputError` for fewer than two arms, and
    for arms that are not specs, do not differ or cannot be paired.
    """
    if len(arms) == 1 and isinstance(arms[0], (list, tuple)):
        arms = arms[0]
    if len(arms) == 1 and isinstance(arms[0], Mapping):
        specs = {str(name): spec for name, spec in arms[0].items()}
    else:
        # What differs between the arms in fewest words, else letters.
        names = short_names(arms) if all(isinstance(arm, Spec) for arm in arms) else []
        specs = dict(zip(names or [chr(ord("a") + k) for k in range(len(arms))], arms, strict=True))
    checks.require(len(specs) > 1, "arms", len(specs), "two specs or more", "write (a, b, ...), or {name: spec}")
    remedy = "write sim.Spec(task, system, method, update), or of one at hand spec.replace(method=sim.methods.grpo())"
    for name, spec in specs.items():
        checks.require(isinstance(spec, Spec), f"arm {name}", spec, "a Spec", remedy)
        several = sorted(knobs.lengths(spec.method) | knobs.lengths(spec.update))
        remedy = "give each arm one setting; compare tunes its learning rate itself"
        checks.require(not several, f"arm {name}", f"a knob of {several} values", "one number per knob", remedy)
        saved = isinstance(spec.system, Schedule) and spec.system.realizations > 1
        remedy = "compare on one realization, or on the system that drew them"
        checks.require(not saved, f"system of arm {name}", "a saved schedule of several realizations", "one", remedy)
        rows = np.ndim(spec.initial) if spec.initial is not None else 1
        checks.require(rows == 1, f"initial of arm {name}", np.shape(spec.initial), "one row [P]", "give all one start")
    seen: list[tuple[str, Any]] = []
    for name, spec in specs.items():
        parts = (spec.task, spec.system, spec.method, spec.update, spec.policy)
        sizes = (spec.samples, spec.updates, spec.passes, spec.sampling, spec.precision, spec.micro_batches)
        initial = None if spec.initial is None else np.asarray(spec.initial).tolist()
        # All that a spec depends on, comparable: two of one meaning give the same numbers.
        meaning = content(parts), sizes, plain(spec.describe()), initial
        twin = next((other for other, known in seen if known == meaning), None)
        remedy = "name what differs in the arm itself, as method=VALUE, link=VALUE (update) or system=VALUE"
        checks.require(twin is None, f"arm {name}", f"as {twin}", "different from every other arm", remedy)
        seen.append((name, meaning))
    (first, base), *others = specs.items()
    for name, spec in others:
        remedy = "use one task for all arms; other tasks go into tasks= (--also task=NAME)"
        same = content(spec.task) == content(base.task)
        mine, theirs = (made.arguments if (made := calls.of(each.task)) else {} for each in (spec, base))
        if "kl_coef" in {*mine} ^ {*theirs}:
            remedy = "kl_coef is paid by the task; of one arm write penalty=k3 k3.coefficient=0.1, a part of its method"
        checks.require(same, f"task of arm {name}", "another", f"that of arm {first}", remedy)
        wanted, lengths = ((each.updates, each.every) for each in (base, spec))
        bound, remedy = f"{wanted}, as of arm {first}", "give all arms the same updates and every"
        checks.require(clocked or lengths == wanted, f"updates, every of arm {name}", lengths, bound, remedy)
    return specs


def notes(
    reading: Reading, specs: Mapping[str, Spec], seed: int, smallest: float = math.inf, those: str = "arms"
) -> tuple[str, ...]:
    """Notes on arms or settings of a sweep: unequal samples, other method parts, seconds not counted."""
    sizes = {name: spec.groups * spec.samples / spec.parts for name, spec in specs.items()}
    lines = [reading.aside] * bool(reading.aside and those == "arms")
    if len(set(sizes.values())) > 1:
        each = ", ".join(f"{name} {size:g}" for name, size in sizes.items())
        lines.append(f"{those} train on different numbers of samples per update: {each}")
    if reading.clocked and reading.until and smallest < 1e-4 * (most := reading.horizon or 0.0):
        lines.append(f"with a target the smallest difference is in {reading.over}, {smallest:g} of up to {most:g}")
    headers = {name: spec.describe() for name, spec in specs.items()}
    # With one token, the ratio of a token is that of its sequence.
    longer = {name: str(headers[name].get("level")) for name, spec in specs.items() if spec.task.horizon > 1}
    levels = {name: str(each.method.weight.level) for name, each in specs.items() if each.task.horizon == 1}
    if who := " and ".join(name for name, level in levels.items() if level not in ("none", "token")):
        equal = "the ratio of a sequence equals that of its token, as sequences have one"
        lines.append(f"{who}: {equal}; for several tokens write sim.tasks.token_bandit(horizon=32)")
    # What a loss by hand weighs is not known.
    rated = {name: level for name, level in longer.items() if level not in ("none", OWN)}
    parts = {
        "method.advantage": {name: str(header.get("advantage")) for name, header in headers.items()},
        "the level of the ratio (method.level, where it can be set)": rated,
    }
    for key in ("low", "high", "cap", *(("aggregator", "anchor") if longer else ())):
        parts[f"method.{key}"] = {name: str(header[key]) for name, header in headers.items() if key in header}
    unlike = len({str(header["method"]) for header in headers.values()}) > 1
    # Of one method, only defaults that follow from what was given; a copy does not say what was.
    made = [calls.of(spec.method) for spec in specs.values()]
    inside = [calls.of(part) for each in made if each for part in each.arguments.values()]
    given = {key for each in (*made, *inside) if each for key in each.arguments}
    for part, own in parts.items():
        key, values = part.removeprefix("method."), list(own.values())
        if len(set(values)) > 1 and (unlike or not (key in given or " " in key or None in made)):
            each = ", ".join(f"{name} {value}" for name, value in own.items())
            one = "NAME" if key in ("advantage", "aggregator") else "" if unlike else values[0]
            lines.append(
                f"{those} also differ in {part}: {each}" + f"; method.{key}={one} gives all {those} one" * bool(one)
            )
    critics = {name: bool(spec.method.critic) for name, spec in specs.items()}
    if len({*critics.values()}) > 1:
        has, lacks = (" and ".join(name for name, own in critics.items() if own == one) for one in (True, False))
        lines.append(f"{has}: with a critic, {lacks}: without; for one write advantage=gae method.critic=0.5")
    # A run warns of constant weights itself.
    asked = {k: spec for k, spec in specs.items() if those == "arms" and not getattr(spec.system, "coupled", False)}
    weights = {name: one_weight(spec, functools.partial(_begun, spec, seed)) for name, spec in asked.items()}
    fresh = all(FRESH in told for told in weights.values())
    lines += [f"arm {name}, {told}" for name, told in weights.items() if told and (fresh or FRESH not in told)]
    if reading.over == "slot-hours":
        each = ", ".join(f"{name} {reading.of_arm(spec).slots:g}" for name, spec in specs.items())
        lines.append(f"a slot-hour is a slot for one hour; slots, with {reading.slots:g} of a trainer apart: {each}")
    if reading.clocked or len(specs) == 1:
        return tuple(lines)
    few = [spec.replace(updates=min(spec.updates, PACED * spec.passes), every=1) for spec in specs.values()]
    clocks = [ends(spec, seed) for spec in few]
    paces = [float(c.mean()) / s.updates for c, s in zip(clocks, few, strict=True) if c is not None]
    if len(paces) == len(specs) and max(paces) > UNLIKE * min(paces):
        paced = zip(specs.items(), paces, strict=True)
        each = ", ".join(f"{name} {pace:.3g} (groups of {spec.samples})" for (name, spec), pace in paced)
        lines.append(f"{UNCOUNTED}; seconds per update: {each}. over='seconds' may give another verdict")
    return tuple(lines)


def _begun(spec: Spec, seed: int) -> Schedule:
    if isinstance(spec.system, Schedule):
        return spec.system
    sizes = min(PACED, spec.updates // spec.passes), spec.samples, min(spec.task.horizon, 4)
    with warnings.catch_warnings(action="ignore", category=checks.RunWarning):
        return spec.system.schedule(*sizes, 1, seed)


def short_names(specs: Sequence[Spec]) -> list[str]:
    """Names of the arms' methods or systems, if these are distinct; else an empty list."""
    headers = [spec.describe() for spec in specs]
    methods = [str(header["method"]) for header in headers]
    systems = [str(plugins.name_of(spec.system)) for spec in specs]
    return next((names for names in (methods, systems) if len(set(names)) == len(names)), [])


def caution(metric: str, specs: Mapping[str, Spec]) -> str:
    """Suffix of a reading: the samples that its metric uses, or a warning that it does not measure trained policies."""
    base, *others = specs.values()
    if metric == notation.TRAINED and base.evaluation is not None:
        return f", {base.evaluation}"
    ages: dict[str, Callable[[Spec], Any]] = {
        "system": lambda spec: content(spec.system),
        "updates on a batch": lambda spec: (spec.rounds, spec.parts),
        "late rewards": lambda spec: content(spec.rewards),
    }
    unlike = [name for name, age in ages.items() if any(age(each) != age(base) for each in others)]
    if metric not in notation.BEHAVIOR or not unlike:
        return ""
    return f"; the arms differ in {', '.join(unlike)}, so this does not compare the trained policies"


def content(value: Any) -> Any:
    """Content of a setting's value in comparable form; `repr` omits the middle of long arrays and systems."""
    if isinstance(value, (np.ndarray, Tensor)):
        array = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
        return ("array", array.dtype.str, array.shape, array.tobytes() if array.dtype.kind != "O" else repr(array))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value), [content(getattr(value, f.name)) for f in dataclasses.fields(value) if f.compare]
    if isinstance(value, functools.partial):
        return "partial", value.func, content(value.args), content(value.keywords)
    if isinstance(value, Mapping):
        return "mapping", [(key, content(each)) for key, each in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [content(each) for each in value]
    return repr(value)


def recorded(metric: Any) -> tuple[tuple[Any, ...], str]:
    """Diagnostics that a metric needs (none if a link or method reports it), and its name in the trace."""
    several = isinstance(metric, (list, tuple, set))
    checks.require(not several, "metric", metric, "one, which decides", "sim.sweep(spec, grid, metric=[...]) has more")
    if not isinstance(metric, str):
        return (metric,), str(getattr(metric, "name", metric))
    return ((metric,) if metric in plugins.summaries("asyncsim.diagnostics") else ()), metric


def refuse(readings: Sequence[Reading], specs: Iterable[tuple[str, Spec]]) -> None:
    """Raise `InputError` for a metric that a spec lacks, and for a target that is met at once or unreachable.

    This takes one update of a few replicates, for specs that differ in task, policy, method or links. The update is
    made only if there is a target, or if no diagnostic has the name of the metric, so that a link or method has to
    report it. `specs`: each with its name in messages, and with the diagnostics that it records."""
    asked, seen = [], list[Any]()
    for each in readings:
        diagnostic = each.metric in plugins.summaries("asyncsim.diagnostics")
        if diagnostic and each.target is None:
            curve = isinstance(plugins.load("asyncsim.diagnostics", each.metric, "metric")(), Metric)
            remedy = "read it of sim.run's trace.accumulated"
            checks.require(curve, "metric", each.metric, "a number for every update", remedy)
        asked += [each] * (each.target is not None or not diagnostic)
    for name, spec in specs if asked else ():
        parts = content((spec.task, spec.policy, spec.method, spec.update, spec.initial))
        if parts in seen:
            continue
        seen.append(parts)
        few = spec.replace(updates=spec.passes, every=1, replicates=PROBED, block=None, realizations=None)
        with warnings.catch_warnings(action="ignore", category=checks.RunWarning):
            trace = run(spread(few), progress=False)
        for reading in asked:
            listed = [*plugins.summaries("asyncsim.diagnostics"), *trace.metrics]
            link, see = plugins.reporter(reading.metric), checks.advice("own", "metric")
            asked_of = f"add sim.updates.{link}(...), which reports it, to every arm"
            hint = asked_of if link else checks.hint(reading.metric, listed, see) if ":" not in reading.metric else see
            hint = checks.advice(reading.metric, "metric", otherwise=hint)
            bound = f"a diagnostic, or a number that a link or method of {name} reports"
            checks.require(reading.metric in trace.metrics, "metric", reading.metric, bound, hint)
            if reading.target is not None:
                _refuse_target(reading, reading.target, name, trace, spec)


def _refuse_target(reading: Reading, target: float, name: str, trace: Trace, spec: Spec) -> None:
    higher, first = reading.better == "higher", trace.metrics[reading.metric][0]
    start = float(first[np.isfinite(first)].mean()) if np.isfinite(first).any() else math.nan
    met = start >= target if higher else start <= target
    bound = f"{'above' if higher else 'below'} {start:.6g}, where {reading.metric} of {name} is before training"
    other = "lower" if higher else "higher"
    checks.require(not met, "target", target, bound, f"give a value that has to be learned, or better={other!r}")
    low, high = reading.range(trace, spec.fitted_task)
    bound = f"in [{low:g}, {high:g}], the range of {reading.metric}"
    checks.require(low <= target <= high, "target", target, bound, "give a value that can be reached")
