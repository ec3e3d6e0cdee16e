"""`verify`: run a claim's trial, compute the prediction of the theory, and compare them."""

import contextlib
import dataclasses
import math
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from asyncsim import claims, validation
from asyncsim.base import calls, checks, outside, records
from asyncsim.base import workers as spreading
from asyncsim.base.records import Claim, Estimate, Point, Unmeasured, Verdict
from asyncsim.claims import _claim, _registry
from asyncsim.claims._trial import FALSE_FAIL, FALSE_PASS, SIZES, SPARE, Plant, untouched

EACH = 8
"""Number of claims per worker process that is started by default."""
Trial = _claim.Claim
Measured = dict[str, Estimate] | Unmeasured
"""Estimates by quantity, or why there are none."""
COARSE = 3.0
"""Multiple of the trial's effect at which the detection of a bug is tried first."""
BROKEN = "the measurement broke off:"
"""Start of the reason if a trial raised an exception."""
ALIKE = 1e-12
"""Relative standard error below which all realizations count as equal."""


@calls.named
def verify(
    claim: Any = None,
    size: str = "quick",
    defects: bool = False,
    seed: int = 0,
    at: Point | None = None,
    workers: int | None = None,
) -> Verdict | list[Verdict]:
    """Measure a claim and compare it with its prediction; without an argument, all claims.

    The verdict on a true claim is "violated" with probability at most 1e-3. On a claim that is wrong by the trial's
    effect it is "held" with probability at most 0.05. The effect is at most 5 percent, 2 percent for exact identities
    and expectations.

    Arguments: `claim`, an id of `sim.claims.claims()`, or a user's conjecture: a class that inherits
    `sim.claims.Claim`, its instance (that point alone), its location, my.py:MyClaim, or a list of these. Bugs of such a
    claim are always injected; unless it has some and all are caught, it "holds, not tested" at best. `size`: "quick",
    or "full" (half the effect, more points); `seed`. `defects`: also inject each of the trial's bugs, check that the
    verdict changes, and try the wrong formulas. `at`: parameters that replace those of the trial's first point. If the
    statement holds, but its trial or a limit of the package cannot judge it, the verdict is "outside", and its reason
    names bound and remedy. `workers`: number of processes that share the claims (default: one per core; few claims are
    measured in this process); verdicts do not depend on it. Returns one `Verdict`, or a list of them. Raises
    `InputError` for an unknown claim, or a point outside of the claim's domain, where nothing is stated.

    >>> verify("estimator/truncation-bias").verdict
    'held'
    """
    if isinstance(claim, (list, tuple)):
        return verify_many([_registry.taken(each) for each in claim], size, defects, seed, at, workers=workers)
    if isinstance(claim, str) and claim not in claims.claims() and (said := claims.papers_of(claim)):
        ids = list(dict.fromkeys(id for each in said for id in each.claims))
        remedy = f"write sim.verify({ids}), which measures what bears on {', '.join(each.id for each in said)}"
        raise checks.InputError("claim", claim, "the id of a claim", remedy)
    if claim is not None:
        return verify_one(_registry.taken(claim), size, defects, seed, at)
    checks.require(at is None, "at", at, "used with one claim", "name the claim")
    return verify_many(every_claim(), size, defects, seed, workers=workers)


def every_claim() -> list[str]:
    """Ids of all claims in the catalogue, in order."""
    return sorted(claims.claims())


def verify_many(
    names: Sequence[str],
    size: str,
    defects: bool,
    seed: int,
    at: Point | None = None,
    after: Callable[[Verdict], None] = lambda verdict: None,
    workers: int | None = None,
    call: str = "asyncsim.app.verifying:verify_one",
) -> list[Verdict]:
    """Verdicts of several claims in order; `after` is called with each verdict when it is reached.

    Few claims are measured in this process unless `workers` is given, since workers take seconds to start. `call` names
    the function that returns one verdict.
    """
    count = spreading.count_of(workers, len(names) if workers else len(names) // EACH)
    order = names if count == 1 else kernel_early(names)
    verdicts: dict[str, Verdict] = {}
    calls = ((name, size, defects, seed, at) for name in order)
    for number, verdict in spreading.each(call, calls, count):
        verdicts[order[number]] = verdict
        after(verdict)
    return [verdicts[name] for name in names]


def kernel_early(names: Sequence[str]) -> list[str]:
    """Order claims: one about systems first, the other such claims last, while a worker compiles the kernel.

    >>> kernel_early(["ess/limit", "systems/little", "systems/pipeline"])
    ['systems/little', 'ess/limit', 'systems/pipeline']
    """
    kernel = [name for name in names if name.startswith("systems/")]
    return kernel[:1] + [name for name in names if name not in kernel] + kernel[1:]


def verify_one(
    name: str, size: str = "quick", defects: bool = False, seed: int = 0, at: Point | None = None
) -> Verdict:
    """The verdict of one claim; arguments as in `verify`."""
    claim = claims.claim(name)
    checks.integer("seed", seed, 0, "give a non-negative integer seed", 2**63 - 1)
    checks.boolean("defects", defects, "say whether defects are planted")
    trial = claims.trial(claim.id)
    factor = SIZES[checks.one_of("size", size, SIZES, "choose how much to measure")]
    asked = at is not None
    points = (_point_at(claim, trial, at),) if at is not None else trial.at(size)
    # A mistake in what a user wrote contradicts nothing, and catches no defect.
    own = claim.id if _registry.own(claim.id) else ""
    start, effect = time.perf_counter(), SPARE[size] * factor * trial.effect
    measured = [_measured(trial, point, effect, seed, untouched, asked, own) for point in points]
    for estimates in measured:
        fits = isinstance(estimates, dict) and all(isinstance(each, Estimate) for each in estimates.values())
        fits = fits or isinstance(estimates, Unmeasured)
        remedy = "return {'mean': trace.final('ess')}, or sim.Estimate(value, error)"
        several = estimates.items() if isinstance(estimates, dict) else ()
        if arrays := [each for each in several if getattr(each[1], "shape", ()) or isinstance(each[1], list)]:
            key, array = arrays[0]
            remedy = f"return {{{key!r}: sim.uncertainty.between(values, range({len(array)}), random=True)}}"
        checks.require(fits, f"{claim.id}.measure", estimates, "a dict of sim.Estimate by quantity", remedy)
    pairs = zip(points, measured, strict=True)
    predicted = [{} if isinstance(each, Unmeasured) else claim.predict(point) for point, each in pairs]
    if asked and not isinstance(first := measured[0], Unmeasured):
        measured = [_seen(first, predicted[0])]
    elif asked and not own and isinstance(first, Unmeasured) and first.verdict == "outside":
        # The formula answers where its trial cannot; nothing tests it there.
        values = ", ".join(f"{name} = {value:.6g}" for name, value in claim.predict(points[0]).items())
        measured = [first._replace(reason=f"{first.reason}. Predicted, not tested: {checks.clipped(values, 300)}")]

    def joined(points: Sequence[Point], found: Sequence[Measured], right: Sequence[Any], factor: float) -> Verdict:
        return validation.join(claim, points, found, right, factor * trial.effect, FALSE_FAIL, FALSE_PASS)

    verdict = joined(points, measured, predicted, factor)
    if defects or own:
        planted, wrong = [], []
        for each, (plant, point) in trial.planted().items():
            right = [claim.predict(point)]
            # Most mistakes are so large that a ninth of the samples shows them.
            for times in (COARSE, 1.0):
                seen = _measured(trial, point, times * trial.effect, seed, plant, own=own)
                found = joined((point,), [seen], right, times)
                if found.verdict == "violated":
                    break
            planted.append({"name": each, "verdict": found.verdict})
            if own and not isinstance(seen, Unmeasured):
                planted[-1]["measured"] = ", ".join(f"{name} {value}" for name, value in seen.items())
        for each, formula in claim.formula_defects.items():
            found = joined(points, measured, [formula(point) for point in points], factor)
            wrong.append({"name": each, "verdict": found.verdict})
        verdict = dataclasses.replace(verdict, defects=tuple(planted), formula_defects=tuple(wrong))
        passed, agreeing = (
            ", ".join(
                each["name"] + (f" ({each['measured']} with it)" if "measured" in each else "")
                for each in tried
                if each["verdict"] != "violated"
            )
            for tried in (verdict.defects, verdict.formula_defects)
        )
        # A user's claim is believed no more than the defects that its measurement has caught.
        if own and verdict.verdict in (records.LOOSE, "held") and (passed or agreeing or not verdict.defects):
            what = f"planted and not caught: {passed}" if passed else "no defect was planted"
            reason = (
                f"not tested against defects ({what}): nothing shows that this measurement would notice a mistake; "
                f"write {'other ' * bool(passed)}defects = {{...}} in the class, see docs/conjecture.md"
            )
            if agreeing and verdict.defects and not passed:
                reason = f"the measurement does not contradict what the claim calls wrong: {agreeing}"
            reason += f"; {verdict.reason}" * (verdict.verdict == records.LOOSE)
            verdict = dataclasses.replace(verdict, verdict=records.UNTESTED, reason=reason)
    return dataclasses.replace(verdict, seconds=time.perf_counter() - start)


def _measured(
    trial: Trial, point: Point, effect: float, seed: int, plant: Plant, asked: bool = False, own: str = ""
) -> Measured:
    """Estimates of a trial, or why there are none.

    A component that fails where the trial has measured before contradicts the claim. At a point that the user `asked`
    for, a point that trial or code refuses is outside, and nothing else contradicts. Machines may fail anywhere.
    """
    beyond = trial.reach(point) if asked or own else None
    if beyond is not None:
        return Unmeasured(f"the trial needs {beyond}")
    # Oracles set no limit, and a second thread costs them time.
    limit: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if "torch" in sys.modules:
        from asyncsim.step import versions

        limit = versions.threads(1)
    try:
        with limit, warnings.catch_warnings():
            if not own:
                # A trial means what it does: advice on the user's settings would be none of theirs.
                warnings.simplefilter("ignore", checks.RunWarning)
            return trial.measure(point, effect, seed, plant)
    except Exception as error:
        machine = isinstance(error, (checks.RunError, MemoryError, OSError)) and plant is untouched
        if isinstance(error, checks.InputError) and asked and not (own and plant is not untouched):
            return Unmeasured(f"refused: {error}")
        if own and not machine:
            # A defect that breaks off is one that nothing has caught.
            field, bound = f"{own}.{'measure' if plant is untouched else 'defects'}", "a measurement that runs"
            raise outside.user_error(error, field, point, bound, "see docs/conjecture.md") from error
        package, frames = str(Path(claims.__file__).parents[1]), traceback.extract_tb(error.__traceback__)
        frame = ([f for f in frames if package not in f.filename and "site-packages" not in f.filename] or frames)[-1]
        text = f"{BROKEN} {type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
        return Unmeasured(" ".join(text.split()), "inconclusive" if asked or own or machine else "violated")


def _seen(estimates: dict[str, Estimate], predicted: Mapping[str, float]) -> Measured:
    """The estimates; or outside, if all realizations are equal and the event behind the difference may be in none.

    An event that moves the mean by d is missing from M realizations with probability at most exp(-d M).
    """
    for name, value in predicted.items():
        e = estimates[name]
        off, alike = abs(e.value - value), math.isfinite(e.freedom) and e.error <= ALIKE * abs(e.value)
        if alike and off > e.tolerance and off * e.samples < -math.log(FALSE_FAIL):
            what = f"what moves {name} by {off:.2g} from {e.value:.6g}"
            return Unmeasured(f"none of {e.samples} realizations shows {what}; ask where it is likelier")
    return estimates


def _point_at(claim: Claim, trial: Trial, at: Point) -> dict[str, Any]:
    """The trial's first point with some parameters replaced or (None) removed, checked against the domain."""
    point = dict(trial.points[0])
    checks.require(isinstance(at, Mapping), "at", at, "a mapping of parameters to values", "write at={'clamp': 3.5}")
    at = trial.given(at)
    for key in sorted(at, key=lambda key: not checks.advice(key, claim.id)):
        parameters = getattr(claim.point, "parameters", point)
        takes = {**parameters, **point} or ["no parameter"]
        remedy = f"declare it in the class, {key} = sim.claims.Integer(0, 64, doc='versions')"
        remedy = "name a parameter of the claim's points" if parameters or point else remedy
        remedy = checks.advice(key, claim.id, otherwise=remedy).replace("VALUE", f"{at[key]}")
        meanings = {each["name"]: each["doc"] for each in getattr(claim.point, "described", list)()}
        checks.one_of(f"{claim.id} parameter", key, takes, remedy, meanings)
    point = {key: value for key, value in {**point, **at}.items() if value is not None}
    try:
        reason = claim.domain(point)
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        reason = f"not even comparable with it: {error}"
    one = "must be an integer" in str(reason) or "must be a finite number in" in str(reason)
    several = "; verify once for each value" * any(isinstance(x, (list, tuple)) and one for x in at.values())
    checks.require(reason is None, f"point of {claim.id}", dict(at), "inside the claim's domain", f"{reason}{several}")
    return point
