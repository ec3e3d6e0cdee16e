"""What the notebooks call: sliders, a reader's prediction beside theory and measurement, and two small systems.

Notebooks define no functions, so what they need stands here.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.app._lessons_arms import picks as picks
from asyncsim.app._lessons_arms import returns_at as returns_at
from asyncsim.app._lessons_losses import drawn_gradients as drawn_gradients
from asyncsim.app._lessons_losses import score_weights as score_weights
from asyncsim.app._lessons_sizes import SIZES as SIZES
from asyncsim.app._lessons_sizes import ess as ess
from asyncsim.app._lessons_sizes import large_batch as large_batch
from asyncsim.app._lessons_sizes import micro_batched as micro_batched
from asyncsim.app._lessons_sizes import responses as responses
from asyncsim.app._lessons_sizes import shown_size as shown_size
from asyncsim.app._lessons_sizes import sizes as sizes
from asyncsim.app._lessons_sizes import sizes_by_length as sizes_by_length
from asyncsim.base import checks, notation, uncertainty
from asyncsim.base.records import Comparison, Estimate, Verdict
from asyncsim.plotting._points import points
from asyncsim.plotting._weights import weights as weights
from asyncsim.validation import judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REWARDS = np.array([0.0, 0.5, 1.0])
"""Rewards of the three tokens of `policies`."""
ROUNDING = 1e-9
"""Relative tolerance of a measured number that was not sampled."""
HEAD_START = 4
"""Updates that the policy of `policies` learns before it writes its batch."""


def mean(values: Any) -> Estimate:
    """Mean over independent runs with its standard error; of a single run a number without one.

    Arguments: `values` `[run, ...]`, averaged inside a run. Raises `InputError` for no values and infinite ones.

    >>> mean([1.0, 3.0]).error, mean([[1.0, 3.0]]).value
    (1.0, 2.0)
    """
    rows = np.asarray(values, dtype=float)
    if rows.shape[:1] != (1,):
        return uncertainty.between(rows)
    rows = checks.finite_array("values", rows, rows.shape, "keep finite runs only")
    return Estimate(float(rows.mean()), independent=False)


def side_by_side(mine: float | None, measured: Any, predicted: Any = None, **judging: Any) -> None:
    """Print the measurement, and how far off theory and the reader's own prediction are.

    Arguments: `mine`, a number, or None as long as the reader has none; `measured`, an `Estimate`, a number, or what
    `judge` and `verify` return; `predicted`, a number or what `claims.predicted_staleness` returns, None where no
    formula holds; further arguments of `judge`. Raises `InputError` where `mine` is no finite number.

    >>> side_by_side(3, Estimate(2.001, 0.002), 2.0)
    measured 2.0010 ± 0.0066
    theory   2            off by 0.001    held
    you      3            off by 0.999    theory is nearer
    >>> side_by_side(None, 2.5)
    measured 2.5
    theory   —            no formula predicts this
    you      —            enter my_prediction above, then run its cell and this one
    """
    mine = None if mine is None else checks.real("my_prediction", mine, "enter a number, or None")
    row = measured if isinstance(measured, (Comparison, Verdict)) else _judged(measured, predicted, judging)
    off = _apart(row.predicted, row.measured)
    about = row.predicted if math.isfinite(off) else 0.0
    words = "no formula predicts this" if predicted is None else row.reason.partition(";")[0]
    print("measured", notation.measurement(row.measured, (row.high - row.low) / 2.0, about))
    _line("theory", row.predicted, off, row.verdict if math.isfinite(off) else words)
    if mine is None:
        _line("you", math.nan, math.nan, "enter my_prediction above, then run its cell and this one")
    else:
        own = _apart(mine, row.measured)
        _line("you", mine, own, _nearer(own, off))


def _judged(measured: Any, predicted: Any, judging: dict[str, Any]) -> Comparison:
    estimate = measured if isinstance(measured, Estimate) else _exact(float(measured))
    expected = predicted.mean if hasattr(predicted, "reason") else predicted
    if estimate.independent or expected is None:
        return judge(estimate, predicted, **judging)
    # One run has no error bar: its distances are shown, and nothing is judged.
    value, verdict = estimate.value, "not judged: one run has no error bar"
    return Comparison({}, "", float(expected), value, value, value, verdict, math.nan, math.nan, math.nan, 1)


def _exact(value: float) -> Estimate:
    """A number without sampling: all that separates it from its prediction is rounding."""
    return Estimate(value, tolerance=ROUNDING * abs(value))


def _apart(value: float, measured: float) -> float:
    """Distance to the measured number, 0 within rounding."""
    off = abs(value - measured)
    return 0.0 if off <= ROUNDING * abs(measured) else off


def _line(who: str, value: float, off: float, words: str) -> None:
    distance = f"off by {off:<8.3g} " if math.isfinite(off) else ""
    print(f"{who:8} {notation.number(value):12} {distance}{words}".rstrip())


def _nearer(own: float, off: float) -> str:
    if not math.isfinite(off):
        return ""
    if own == off:
        return "as near as theory"
    return "you are nearer" if own < off else "theory is nearer"


def policies(staleness: int, learning_rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Policies over three tokens: the one that wrote a batch, and the one that trains on it.

    theta(t+1) = theta(t) + learning_rate * g(theta(max(t - staleness, 0))), g = p (r - p.r), theta(0) = 0, r = (0, 1/2,
    1): the exact policy gradient, late. The batch is of version 4, its training at update 4 + staleness.

    Arguments: `staleness` >= 0 in updates; `learning_rate` > 0. Returns `mu` and `pi`, probabilities `[token]`. Raises
    `InputError`. Source: textbook (softmax policy gradient).

    >>> mu, pi = policies(staleness=0, learning_rate=0.5)
    >>> bool((mu == pi).all())
    True
    """
    checks.integer("staleness", staleness, 0, "count the updates between writing and training")
    checks.real("learning_rate", learning_rate, "give a positive one", 0.0, open_low=True)
    path, probabilities = np.zeros(3), []
    for t in range(HEAD_START + staleness + 1):
        mass = np.exp(path - path.max())
        probabilities.append(mass / mass.sum())
        old = probabilities[max(t - staleness, 0)]
        path = path + learning_rate * old * (REWARDS - old @ REWARDS)
    return probabilities[HEAD_START], probabilities[-1]


def batch(mu: np.ndarray, pi: np.ndarray, tokens: int, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Log importance ratios of responses whose tokens are independent draws from `mu`, by counts.

    log W = sum_y n_y log(pi_y / mu_y), n multinomial. Returns nats `[*shape]`; raises `InputError`.

    >>> batch(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 8, (2,), seed=0).tolist()
    [0.0, 0.0]
    """
    checks.integer("tokens", tokens, 1, "a response has a token")
    checks.integer("seed", seed, 0, "give a non-negative integer seed")
    for size in shape:
        checks.integer("samples", size, 1, "draw one response at least")
    return np.random.default_rng(seed).multinomial(tokens, mu, size=shape) @ np.log(pi / mu)


def stale_batch(staleness: int, learning_rate: float, tokens: int, samples: int, seed: int) -> Figure:
    """Where the weight of one batch of `policies` sits, and ESS / N = (1 + chi-square)^-tokens of a large one."""
    mu, pi = policies(staleness, learning_rate)
    return weights(batch(mu, pi, tokens, (samples,), seed), float((pi**2 / mu).sum()) ** -tokens)


def delayed_path(staleness: int, learning_rate: float, updates: int) -> np.ndarray:
    """x(t+1) = x(t) - learning_rate * x(max(t - staleness, 0)) from x(0) = 1: `[update]`, `updates` + 1 numbers.

    >>> delayed_path(1, 0.5, 3).tolist()
    [1.0, 0.5, 0.0, -0.25]
    """
    path = [1.0]
    for t in range(updates):
        path.append(path[t] - learning_rate * path[max(t - staleness, 0)])
    return np.array(path)


def sliders(picture: Callable[..., Figure], **knobs: tuple[Any, Iterable[Any]]) -> Figure | None:
    """Show a picture with a slider for each of its knobs, which draws it again; without a kernel it stands still.

    Arguments: `picture`, called with the knobs by name; each knob as (where it starts, values to choose from). Without
    ipywidgets, and outside of a notebook, returns the picture at the start.

    >>> sliders(lambda tau: points([0, 1], [0, tau]), tau=(1, [0, 1, 2])) is not None
    True
    """
    start = {name: value for name, (value, _) in knobs.items()}
    figure = picture(**start)
    # Only a kernel has a display; asking for it must not import IPython where nobody has.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or importlib.util.find_spec("ipywidgets") is None:
        return figure
    from IPython.display import Pretty, display

    display(panel(picture, lambda shown: handle.update(Pretty(shown) if isinstance(shown, str) else shown), **knobs))
    handle = display(figure, display_id=True)
    return None


def panel(picture: Callable[..., Figure], show: Callable[[Any], Any], **knobs: tuple[Any, Iterable[Any]]) -> Any:
    """The sliders alone, as an ipywidgets box: each change calls `show` with a picture or an error in words."""
    import ipywidgets

    boxes = {name: _slider(ipywidgets.SelectionSlider, name, *knob) for name, knob in knobs.items()}

    def redraw(_: Any) -> None:
        try:
            show(picture(**{name: box.value for name, box in boxes.items()}))
        except checks.InputError as error:
            show(str(error))

    for box in boxes.values():
        box.observe(redraw, names="value")
    return ipywidgets.VBox(list(boxes.values()))


def _slider(kind: Any, name: str, start: Any, values: Iterable[Any]) -> Any:
    choices = sorted({*values, start})
    return kind(
        options=[(f"{value:g}", value) for value in choices],
        value=start,
        description=name.replace("_", " "),
        continuous_update=False,
        style={"description_width": "initial"},
    )


def descent(staleness: int, learning_rate: float, length: int = 100) -> Figure:
    """Gradient descent on x^2 / 2 with late gradients: the distance to the optimum, trained and predicted.

    Points are the training loop of the package on exact gradients, dashed is `delayed_path`. Its title has the largest
    stable learning rate, 2 sin(pi / (4 staleness + 2)). Raises `InputError`. Source: `staleness/stability-boundary`.
    """
    from asyncsim import claims, methods, schedules, tasks, updates
    from asyncsim.running.running import run
    from asyncsim.running.spec import Spec
    from asyncsim.updates._link import chain

    checks.integer("staleness", staleness, 0, "count the updates by which a gradient is late")
    checks.real("learning_rate", learning_rate, "give a positive one", 0.0, open_low=True)
    spec = Spec(
        tasks.quadratic((1.0,), noise=0.0, start=1.0),
        schedules.fixed(staleness),
        methods.gradient(),
        chain(updates.sgd(learning_rate)),
        samples_per_group=1,
        updates=length,
        replicates=1,
        sampling="enumerate",
        diagnostics=["exact_gradient_norm"],
    )
    measured = run(spec, seed=0)["exact_gradient_norm"][:, 0]
    point = {"staleness": staleness, "curvatures": (1.0,)}
    limit = claims.claim("staleness/stability-boundary").predict(point)["step"]
    word = "dies out" if learning_rate < limit else "grows"
    return points(
        range(length),
        measured,
        np.abs(delayed_path(staleness, learning_rate, length - 1)),
        xlabel="update",
        ylabel="distance to the optimum",
        title=f"Staleness {staleness}: the error {word} at learning rate {learning_rate:.3g} (limit {limit:.3g})",
        joined=True,
    )
