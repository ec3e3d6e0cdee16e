"""What trials are made of: error rates, sizes, plants, points, and what is out of reach."""

import math
from collections.abc import Callable
from typing import Any

from asyncsim import validation
from asyncsim.base import laws
from asyncsim.base.records import Estimate, Point  # noqa: F401

Plant = Callable[[Any], Any]
"""A change of a product component: from the spec (or system) that a trial is about to run to a defective one."""

FALSE_FAIL, FALSE_PASS = 1e-3, 0.05
"""Error rates: a true claim called violated, and a claim off by the trial's effect called held."""
SIZES = {"quick": 1.0, "full": 0.5}
"""Size of a verification, and the factor on the effect that it must see."""
SPARE = {"quick": 1.0, "full": 0.9}
"""Samples are those of this share of the effect: the full size adds points, and so comparisons, of other spreads."""
EVENTS = 400
"""Effective samples that a sampled mean must rest on."""


class Wrapped:
    """A simulator component with some methods replaced; calls of all other methods are forwarded to it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def overriding(**methods: Callable[..., Any]) -> Any:
    """Make a wrapper class that overrides the named methods; each override first receives the wrapped component."""
    members = {name: lambda self, *args, to=to, **more: to(self._inner, *args, **more) for name, to in methods.items()}
    return type("Overriding", (Wrapped,), members)


def untouched(spec: Any) -> Any:
    """Identity plant, which injects no defect into a spec or system."""
    return spec


def replaced(**settings: Any) -> Plant:
    """Plant that injects a defect by replacing settings of a spec or system."""
    return lambda spec: spec.replace(**settings)


def named(*names: str, **fixed: Any) -> Callable[..., dict[str, Any]]:
    """Make a function that builds points from values in the order of `names`, the `fixed` values, and changes by name.

    >>> named("staleness", "step", curvature=2.0)(4, 0.1)
    {'curvature': 2.0, 'staleness': 4, 'step': 0.1}
    """
    return lambda *values, **changes: fixed | dict(zip(names, values, strict=False)) | changes


def within(**limits: float) -> Callable[[Point], str | None]:
    """Return a `Claim.reach` that allows parameters up to these maxima; larger ones make runs or lists too long.

    >>> within(staleness=64)({"staleness": 80})
    'staleness of at most 64, not 80; lower it'
    """

    def reach(point: Point) -> str | None:
        above = ((name, most) for name, most in limits.items() if point[name] > most)
        return next((f"{name} of at most {most:g}, not {point[name]:g}; lower it" for name, most in above), None)

    return reach


def up_to(most: float, count: Callable[[Point], float], text: str) -> Callable[[Point], str | None]:
    """Return a `Claim.reach` that limits a number computed from the point; {} in `text` stands for the number.

    >>> up_to(8, lambda point: point["samples"] ** 2, "at most 8, not {}; take fewer")({"samples": 3})
    'at most 8, not 9; take fewer'
    """
    return lambda point: text.format(count(point)) if count(point) > most else None


def heavy(point: Point, *names: str, index: float = 3.0, shape: float = 0.2) -> str | None:
    """Return why the mean of a heavy-tailed work or training time cannot be sampled in a reasonable run; else None."""
    for name in names:
        law = laws.as_law(name, point[name]) if isinstance(point[name], str) else laws.constant(1.0)
        last, reason = law.parameters[-1], "errors of heavier tails are not normal"
        if law.cut:
            continue
        if law.kind == "pareto" and last < index:
            return f"a Pareto index of {name} of at least {index:g}; {reason}"
        if law.kind == "lognormal" and last > 1.5:
            return f"a log-normal sigma of {name} of at most 1.5; {reason}"
        if law.kind == "gamma" and last < shape:
            return f"a gamma shape of {name} of at least {shape:g}; {reason}"
    return None


def sampled(*names: str, **limits: float) -> Callable[[Point], str | None]:
    """Return a `Claim.reach` that checks the tails of the named works and limits parameters to maxima."""
    return lambda point: heavy(point, *names) or within(**limits)(point)


def too_rare(spread: float, most: float) -> str | None:
    """Return why a mean over `most` units is too noisy, else None; `spread` is one unit's relative deviation.

    Where an event of probability p decides the mean, most/spread^2 is nearly how often it is seen. Fewer than `EVENTS`
    are not nearly normal, and none at all would look like a wrong product.
    """
    seen = most / spread**2 if math.isfinite(spread) else 0.0
    if seen >= EVENTS:
        return None
    return (
        f"{EVENTS} effective samples or more of {most:.2g}, not {seen:.2g}; ask where the event that decides the mean "
        "is likelier"
    )


def units_for(spread: float, effect: float, comparisons: int, kind: str = "expectation", scale: float = 1.0) -> int:
    """Number of replicates or realizations that detect an effect at the error rates of a verification.
    `spread` is the standard deviation of one of them. The rates hold in each of the comparisons."""
    return validation.sample_size(spread, effect, scale, FALSE_FAIL, FALSE_PASS, comparisons, kind)
