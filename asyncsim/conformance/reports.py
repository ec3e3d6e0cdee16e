"""What a check found: a value to read, to print, or to raise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class ConformanceError(AssertionError):
    """A component that breaks a rule; `report` is the whole finding."""

    def __init__(self, report: Any) -> None:
        self.report = report
        super().__init__(str(report))

    def __reduce__(self) -> tuple[Any, ...]:
        # The default rebuild would pass the text as the report.
        return type(self), (self.report,)


@dataclass(frozen=True)
class Failure:
    """One broken rule: `value` was found where `bound` is allowed, after `events`, of which none can be left out.

    `likely`: known mistakes; with `exact`, the controller gave the capacity of each of them at every step of long
    random runs, otherwise they are guessed from the last event.
    """

    rule: str
    message: str
    value: Any
    bound: Any
    events: tuple[str, ...]
    likely: tuple[str, ...] = ()
    exact: bool = False

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.message}"]
        lines += [f"  {number}. {event}" for number, event in enumerate(self.events, 1)] or ["  (before any event)"]
        if self.likely:
            lines.append(("behaves like: " if self.exact else "looks like: ") + "; or: ".join(self.likely))
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """Whether a component kept all rules in `examples` random runs; `unchecked`: what the runs left out, and why.

    `without_losses`: what becomes of a controller whose failing run loses groups where none, or fewer, are lost.
    """

    passed: bool
    examples: int
    settings: Mapping[str, Any]
    unchecked: tuple[str, ...] = ()
    failure: Failure | None = None
    without_losses: tuple[str, ...] = ()

    def raise_for_failure(self) -> Report:
        """This report; raises `ConformanceError` where a rule is broken."""
        if not self.passed:
            raise ConformanceError(self)
        return self

    def __str__(self) -> str:
        shown = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        head = f"{'passed' if self.passed else 'failed'} in {self.examples} runs with {shown}"
        lines = [head] if self.failure is None else [head, str(self.failure)]
        return "\n".join(lines + list(self.without_losses) + [f"unchecked: {each}" for each in self.unchecked])
