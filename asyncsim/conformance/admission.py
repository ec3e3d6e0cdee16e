"""`check_admission`: random runs of an admission controller against the rules that bound staleness."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from asyncsim.base import calls, checks
from asyncsim.conformance._admission import CRASHES, LOSSES, Rules, Run, Searched, likely, searched, tickets_of
from asyncsim.conformance.controller import Hooks, Names, uncalled
from asyncsim.conformance.reports import Failure, Report

_SHARE = 4
"""A controller that fails is asked again in this part of the runs."""


@calls.named
def check_admission(
    controller: Callable[[], Any],
    batch_size: int,
    max_staleness: float,
    max_concurrent: int | None = None,
    batches_per_publish: int = 1,
    *,
    names: Names | None = None,
    enforced: str = "admission",
    losses: int | None = None,
    recovery: bool | None = None,
    examples: int = 100,
    steps: int = 50,
    seed: int = 0,
    check: bool = False,
) -> Report:
    """Test an admission controller on random events (submit, finish, lose, train, publish, crash) against bounds.

    The rules, with M = S P:

    - capacity <= (eta + 1) M - running - accepted - taken since the last publish. So at most eta M groups are
      outstanding at a publish, and the mean staleness is at most eta.
    - capacity <= C - running.
    - capacity >= 1 where nothing runs, no publish is due and no batch can be formed.
    - capacity >= 0; asking changes nothing; a version that it reports is that of the weights.

    Arguments: `controller`, a function without arguments that makes a new one (see `Controller` for the calls); its own
    settings: `batch_size` P in groups; `max_staleness` eta in publishes, which need not be whole; `max_concurrent` C in
    groups; `batches_per_publish` S. `names`: for every call of another name a method name, a function of the controller
    and the call's arguments, or None to leave it out. `losses`: groups rejected, failed or dropped between two
    publishes, at most (None: any number; a law that returns their tickets at the publish bears eta M). `enforced`, by
    what staleness is bounded: "admission", or "training" where the trainer drops accepted groups of more than eta
    versions (`dropped` is then told, and the first rule is left out). `recovery`: whether crashes happen (None: if it
    can learn of one, by `recovered` or a version given to `capacity`). `examples` runs of `steps` events are made from
    `seed`; `check` raises where a rule breaks.
    Returns a report with a failing run of which no event can be left out. Raises `InputError`, and `ConformanceError`
    with `check`. Source: AReaL (2505.24298).

    >>> class Tickets:
    ...     def __init__(self, eta):
    ...         self.free = 4 * (eta + 1)
    ...     def capacity(self):
    ...         return self.free
    ...     def submitted(self, n):
    ...         self.free -= n
    ...     def accepted(self, n):
    ...         pass
    ...     def published(self, version):
    ...         self.free += 4
    >>> check_admission(lambda: Tickets(1), batch_size=4, max_staleness=1, examples=20).passed
    True
    >>> report = check_admission(lambda: Tickets(1), batch_size=4, max_staleness=0, examples=20)
    >>> print(report.failure)
    bounded staleness: capacity 8 with 0 running, 0 accepted, 0 taken since the last publish; at most 4 in all, ...
      (before any event)
    behaves like: off by one version: (h + 2) M
    """
    name = getattr(controller, "__name__", "Yours")
    bound, remedy = "a function without arguments", f"give lambda: {name}(...)"
    checks.require(callable(controller), "controller", controller, bound, remedy)
    needs: list[str] = []
    with suppress(ValueError):  # a class of C has no signature
        takes = inspect.signature(controller).parameters.values()
        needs = [each.name for each in takes if each.default is each.empty and each.kind < each.VAR_POSITIONAL]
    checks.require(not needs, "controller", name, f"{bound}, and it needs {', '.join(needs)}", remedy)
    batch = checks.integer("batch_size", batch_size, 1, "count groups", checks.LARGEST)
    publish = checks.integer("batches_per_publish", batches_per_publish, 1, "count batches", checks.LARGEST)
    eta = checks.real("max_staleness", max_staleness, "give publishes", 0.0, 1e6)
    if max_concurrent is not None:
        checks.integer("max_concurrent", max_concurrent, 1, "count groups, or give None", checks.LARGEST)
    if losses is not None:
        checks.integer("losses", losses, 0, "count groups between two publishes, or give None", checks.LARGEST)
    if recovery is not None:
        checks.boolean("recovery", recovery, "say whether crashes happen, or give None")
    checks.one_of("enforced", enforced, ("admission", "training"), "say who bounds staleness")
    oldest = eta if enforced == "training" else None
    rules = Rules(batch, publish, tickets_of(batch, eta, publish), max_concurrent, losses, bool(recovery), oldest)
    checks.integer("examples", examples, 1, "make at least one run")
    checks.integer("steps", steps, 1, "let at least one thing happen")
    checks.integer("seed", seed, 0, "give a whole number")
    checks.boolean("check", check, "say whether")
    names = names or {}
    one, other = controller(), controller()
    checks.require(one is not other, "controller", one, "new at every call", "make it inside the function")
    hooks = Run(rules, controller, names).hooks
    rules = replace(rules, recovery=hooks.recovers() if recovery is None else recovery)
    unchecked = _unchecked(hooks, rules, recovery)
    found = searched(rules, controller, names, examples, steps, seed)
    settings: dict[str, Any] = {"batch_size": rules.batch, "max_staleness": max_staleness}
    settings |= {"batches_per_publish": rules.publish}
    settings |= {} if max_concurrent is None else {"max_concurrent": max_concurrent}
    settings |= {} if enforced == "admission" else {"enforced": enforced}
    report = Report(found.broken is None, found.examples, settings, unchecked)
    asked = partial(searched, factory=controller, examples=max(examples // _SHARE, 1), steps=steps, seed=seed)
    lines, named = _uncalled(one, names, found.broken is not None, partial(asked, rules))
    if found.broken is not None:
        run, broken = found.broken
        known = None if named else likely(rules, controller, names, seed)
        failure = Failure(broken.rule, broken.message, broken.value, broken.bound, tuple(run.lines), known)
        report = replace(report, failure=failure, without_losses=_without_losses(run, partial(asked, names=names)))
    report = replace(report, uncalled=lines)
    return report.raise_for_failure() if check else report


def _uncalled(one: Any, names: Names, failed: bool, asked: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """Methods that are never called, and the result with them in place of the calls that they resemble."""
    methods = uncalled(one, names)
    if not methods:
        return (), False
    meant = {call: method for method, call in methods.items() if call}
    words = [f"{method} (is it {call}?)" for method, call in methods.items() if call]
    words += [method for method, call in methods.items() if not call]
    line = f"never called: {', '.join(words)}"
    if not (meant and failed):
        return (line + (f"; if so, give names={meant!r}" if meant else ""),), False
    again = asked(names={**names, **meant})
    return (f"{line}; with names={meant!r} it {_end(again)}",), again.broken is None


def _end(again: Searched) -> str:
    if again.broken is None:
        return f"passes in {again.examples} runs"
    return f"fails, too: {again.broken[1].rule}: {again.broken[1].message}"


def _unchecked(hooks: Hooks, rules: Rules, recovery: bool | None) -> tuple[str, ...]:
    """What the runs leave out because the controller has no method for it, or by request."""
    gaps = []
    if rules.losses == 0:
        gaps.append("groups that are rejected, fail or are dropped (losses = 0)")
    else:
        lost = "are rejected" if hooks.fails else "are rejected or fail"
        gaps += [] if hooks.has("rejected") else [f"groups that {lost} (no `rejected`)"]
        gaps += [] if hooks.has("dropped") else ["accepted groups that are dropped (no `dropped`)"]
    if rules.oldest is not None:
        gaps.append(f"that the trainer drops what is more than {rules.oldest:g} versions old (enforced = 'training')")
    if not rules.recovery:
        why = "no `recovered`; recovery=True lets a new controller go on" if recovery is None else "recovery = False"
        gaps.append(f"crashes ({why})")
    elif not hooks.takes_kept():
        told = hooks.has("recovered")
        gaps += [] if told else ["what it is told of a crash (no `recovered`): a new controller goes on"]
        gaps.append("crashes that leave accepted groups (no `recovered(version, kept)`)")
    return tuple(gaps)


def _without_losses(run: Run, asked: Callable[..., Any]) -> tuple[str, ...]:
    """For a failing run with crashes or lost groups, results without, and with as many as the controller tolerates."""
    rules, events = run.rules, {event for event, _ in run.events}
    if events & {*CRASHES} and not run.hooks.has("recovered"):
        again = f"with recovery=False, which leaves crashes out, it {_end(asked(replace(rules, recovery=False)))}"
        tell = "a method recovered(version, kept), or names={'recovered': 'your_method'}, tells it of the crash"
        return (f"the failing run has a crash, and a new controller goes on: {again}; {tell}",)
    if rules.losses == 0 or not events & {*LOSSES}:
        return ()
    spare = rules.limit - rules.consumed
    lines: list[str] = []
    for losses in (0, spare) if rules.oldest is None and spare > 0 else (0,):
        other = asked(replace(rules, losses=losses))
        lines.append(f"with losses={losses} it {_end(other)}")
        if other.broken is not None:
            return tuple(lines)
    return (f"the failing run loses groups: try losses=0; {', '.join(lines)}",)
