"""What the notebooks call, since their cells define nothing: `import lessons`, as this file lies beside them.

Sliders, a reader's prediction beside theory and measurement, two small systems (notebooks 1 to 3), sizes of one stale
batch (5), weights by which a loss or a method multiplies the score of each token (6, 8), and tables of arms (7).
"""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.special import gammaln, ndtr

import asyncsim as sim
from asyncsim.base import checks, notation, uncertainty
from asyncsim.base.records import Comparison, Estimate, Verdict
from asyncsim.comparing.intervals import common_bound
from asyncsim.comparing.tuning import set_knob, spread
from asyncsim.plotting import _style
from asyncsim.step import ratios
from asyncsim.step.step import given

REWARDS = np.array([0.0, 0.5, 1.0])
"""Rewards of the three tokens of `policies`."""
ROUNDING = 1e-9
"""Relative tolerance of a measured number that was not sampled."""
HEAD_START = 4
"""Updates that the policy of `policies` learns before it writes its batch."""
SIZES = ("sequence", "token", "position", "within", "clamped")
"""Effective sample sizes: of responses, of all tokens, of each position, inside a response, of clamped responses."""
RESAMPLES = 1000
"""Resamples of the runs at hand, and tables that are drawn from them."""
YOURS = "#b5176b"
"""Color of a guess, which no series has."""
DIGITS = 1e-3
"""Half an interval, as a share of its number, up to which three digits stand for the number alone."""
_LONGEST = 2048
"""Tokens of a response whose count vectors are listed."""


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


def side_by_side(
    measured: Any, predicted: Any = None, *, guess: float | str | None = "", outside: str = "", **judging: Any
) -> None:
    """Show the measurement, and how far off theory and the reader's guess are.

    Arguments: `measured`, an `Estimate`, a number, or what `judge` and `verify` return; `predicted`, a number or what
    `claims.predicted_staleness` returns, None where no formula holds; `guess`, a number, None as long as the reader has
    none, left out where none was asked for; `outside`, the domain of a formula that is used outside of it: it then gets
    no verdict; further arguments of `judge`. Raises `InputError` where `guess` is no finite number.

    >>> side_by_side(Estimate(2.001, 0.002), 2.0, guess=3)
                value            off by  verdict
    measured    2.0010 ± 0.0066
    theory      2                0.001   held
    your guess  3                0.999   theory is nearer
    >>> side_by_side(2.5)
              value
    measured  2.5
    >>> side_by_side(2.5, guess=None)
                value  off by  verdict
    measured    2.5
    your guess  —              enter a number as guess, then run both cells
    """
    mine = guess if guess is None or guess == "" else checks.real("guess", guess, "enter a number, or None")
    row = measured if isinstance(measured, (Comparison, Verdict)) else _judged(measured, predicted, judging)
    half, off = (row.high - row.low) / 2.0, _apart(row.predicted, row.measured)
    places = _places(row.measured, half)
    rows = [("measured", _measured(row.measured, half), "", "")]
    if predicted is not None or math.isfinite(off):
        verdict = f"outside: {outside}" if outside else row.verdict
        words = verdict if math.isfinite(off) else row.reason.partition(";")[0]
        rows.append(("theory", _rounded(row.predicted, places), _off(off, places), words))
    if mine is None:
        rows.append(("your guess", "—", "", "enter a number as guess, then run both cells"))
    elif mine != "":
        own = _apart(float(mine), row.measured)
        rows.append(("your guess", f"{mine:g}".replace("-", "−"), _off(own, places), _nearer(own, off)))
    # A measurement alone is off nothing.
    shown = 4 if len(rows) > 1 else 2
    table(("", "value", "off by", "verdict")[:shown], [row[:shown] for row in rows])


class Table:
    """Rows under a head: a table in a notebook, columns of text elsewhere."""

    def __init__(self, head: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        self.rows = [[*head], *([cell if isinstance(cell, str) else _short(cell) for cell in row] for row in rows)]

    def __repr__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self.rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in self.rows)
        return "\n".join(lines) + "\n"

    def _repr_markdown_(self) -> str:
        head, *rows = (f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in self.rows)
        return "\n".join([head, "|---" * len(self.rows[0]) + "|", *rows])


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Show rows of words and numbers under a head; an `Estimate` has its 95 percent interval.

    >>> table(("system", "staleness"), [("areal", 2.0001), ("measured", Estimate(2.0, 0.01))])
    system    staleness
    areal     2
    measured  2.000 ± 0.020
    """
    _show(Table(head, rows))


def claims(words: dict[str, str]) -> None:
    """Test claims of the package, and show each in words with its verdict.

    >>> claims({"ess/clamp-floor": "a clamp gives the ESS a floor"})
    claim            in words                       verdict
    ess/clamp-floor  a clamp gives the ESS a floor  held
    """
    rows = ((name, text, str(sim.verify(name)).partition(":")[0]) for name, text in words.items())
    table(("claim", "in words", "verdict"), rows)


def mark(figure: Figure, guess: float | None, at: float | None = None, panel: int = 0, level: bool = False) -> Figure:
    """Draw the reader's guess into a picture: a point at x = `at`, or a line, upright unless `level`; None draws none.

    A guess beyond the axes stands at their edge, with its number beside it. Raises `InputError` for no finite number.

    >>> figure = mark(sim.points([0, 1], [0.0, 2.0]), 3, at=1)
    >>> figure.axes[0].texts[-1].get_text()
    'your guess: 3'
    """
    if guess is None:
        return figure
    value, ax, color = checks.real("guess", guess, "enter a number, or None"), figure.axes[panel], YOURS
    upright = at is None and not level
    low, high = sorted(ax.get_xlim() if upright else ax.get_ylim())
    place, words = min(max(value, low), high), f"your guess: {value:g}"
    if at is not None:
        where, frame = (at, place), ax.transData
        ax.plot(*where, marker="D", markersize=7, color=color, zorder=6, clip_on=False)
    elif level:
        where, frame = (0.02, place), ax.get_yaxis_transform()
        ax.axhline(place, color=color, linestyle="-.")
    else:
        where, frame = (place, 0.85), ax.get_xaxis_transform()
        ax.axvline(place, color=color, linestyle="-.")
    ax.annotate(words, where, (5, 5), frame, "offset points", color=color, fontsize=8, zorder=6)
    return figure


def _shell() -> Any:
    """The kernel that shows things; asking for it must not import IPython where nobody has."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def _show(thing: Any) -> None:
    if _shell() is None:
        print(thing, end="")
    else:
        from IPython.display import display

        display(thing)


def _short(value: Any) -> str:
    """A number with three digits, or with the two that its interval leaves uncertain."""
    if isinstance(value, Estimate):
        return _measured(value.value, 1.96 * value.error if value.independent else 0.0)
    number = float(value)
    if not math.isfinite(number):
        return "—"
    return (f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}").replace("-", "−")


def _measured(value: float, half: float) -> str:
    exact = not math.isfinite(half) or half <= DIGITS * abs(value)
    return _short(value) if exact else notation.measurement(value, half, math.nan)


def _places(value: float, half: float) -> int:
    """Decimals that a measurement is shown with."""
    scale = half if math.isfinite(half) and half > DIGITS * abs(value) else abs(value) / 10.0
    return 1 - math.floor(math.log10(scale)) if scale > 0.0 else 2


def _rounded(value: float, places: int) -> str:
    """A number with the decimals of a measurement, or with three digits where these are more."""
    near = round(value, places) if math.isfinite(value) else 0.0
    return f"{near:.10g}".replace("-", "−") if abs(near) > 10.0 ** (2 - places) else _short(value)


def _off(off: float, places: int) -> str:
    """A distance with the decimals of the measurement, so that rounding is none."""
    return f"{round(off, places):g}" if math.isfinite(off) else ""


def _judged(measured: Any, predicted: Any, judging: dict[str, Any]) -> Comparison:
    estimate = measured if isinstance(measured, Estimate) else _exact(float(measured))
    expected = predicted.mean if hasattr(predicted, "reason") else predicted
    if estimate.independent or expected is None:
        return sim.judge(estimate, predicted, **judging)
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


def _nearer(own: float, off: float) -> str:
    if not math.isfinite(off):
        return ""
    if own == off:
        return "as near as theory"
    return "you are nearer" if own < off else "theory is nearer"


def staleness_by_permits(batch_size: int, runs: int, seed: int) -> Figure:
    """Mean staleness of AReaL's rule for several numbers of permits and three laws of response times, and K / M - 1."""
    permits = [batch_size * k for k in (1, 2, 3, 5, 9)]

    def measured(law: str, count: int) -> Estimate:
        system = sim.systems.areal(count // batch_size - 1, batch_size, count, length=law, train_time=1.0)
        return mean(system.staleness(200, runs, seed=seed)[:, 20:])

    laws = ("constant:1.0", "exponential:1.0", "pareto:0.4:1.5")
    return sim.points(
        permits,
        {law.partition(":")[0]: [measured(law, count) for count in permits] for law in laws},
        [count / batch_size - 1 for count in permits],
        xlabel="permits",
        ylabel="mean staleness (versions)",
        title="The mean depends on permits, not on response times",
    )


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


def weights(log_ratios: Any, predicted: float | None = None) -> Figure:
    """Draw the shares of the total importance weight in one batch, largest first, and mark the effective sample size.

    share_i = W_i / sum_j W_j with W = exp(log_ratios), ESS = 1 / sum_i share_i^2. The samples that carry half of the
    weight have a color of their own; the dotted line is the share of a sample in a batch of equal weights.

    Arguments: `log_ratios` `[sample]`, the log importance ratio of each response in nats; `predicted`, the ESS / N of a
    large batch, drawn dashed. Returns a matplotlib figure that a notebook shows. Raises `InputError` for log ratios
    that are not finite, and for a prediction outside [0, 1]. Source: ESS of Kong (1992).

    >>> figure = weights([0.0, 0.0, 0.0, 0.0], predicted=1.0)
    >>> figure.axes[0].get_title("left")
    '2 of 4 samples carry half of the weight (ESS 4.0)'
    """
    log = checks.finite_array("log_ratios", log_ratios, (None,), "give one finite number a sample")
    checks.require(len(log) > 0, "log_ratios", "no numbers", "one a sample", "draw a batch first")
    remedy = "give ESS / N of a large batch"
    ceiling = None if predicted is None else checks.real("predicted", predicted, remedy, 0.0, 1.0)
    # Only ratios of weights matter, so the largest is set to 1 before it can overflow.
    shares = np.sort(np.exp(log - log.max()))[::-1]
    shares /= shares.sum()
    count, ess = len(shares), 1.0 / float(shares @ shares)
    carrying = min(count, 1 + int(np.searchsorted(shares.cumsum(), 0.5 - 1e-9)))
    with _style.applied():
        figure = _style.picture(1.7 * _style.COLUMN, 2.5)
        ax = figure.subplots()
        edges = np.arange(count + 1.0)
        contrast, usual = _style.COLORS["contrast"], _style.COLORS["measured"]
        ax.stairs(shares[:carrying], edges[: carrying + 1], fill=True, color=contrast, label="half of the weight")
        ax.stairs(shares[carrying:], edges[carrying:], fill=True, color=usual, label="the other half")
        ax.axhline(1.0 / count, **_style.REFERENCE, label="equal weights")
        ax.axvline(ess, color=usual, linewidth=1.3, label="ESS of this batch")
        if ceiling is not None:
            ax.axvline(ceiling * count, **_style.PREDICTED, label="ESS, predicted")
        ax.set(xlim=(0, count), ylim=(0, None), xlabel="samples of the batch, sorted", ylabel="share of the weight")
        ax.set_title(f"{carrying} of {count} samples carry half of the weight (ESS {ess:.1f})")
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


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


def sliders(
    picture: Callable[..., Figure],
    *,
    guess: float | None = None,
    at: float | None = None,
    **knobs: tuple[Any, Iterable[Any]],
) -> Figure | None:
    """Show a picture with a slider for each of its knobs, which draws it again; without a kernel it stands still.

    Arguments: `picture`, called with the knobs by name; `guess` and `at` of `mark`; each knob as (where it starts,
    values to choose from). Without ipywidgets, and outside of a notebook, returns the picture at the start.

    >>> sliders(lambda tau: sim.points([0, 1], [0, tau]), tau=(1, [0, 1, 2])) is not None
    True
    """
    start = {name: value for name, (value, _) in knobs.items()}
    figure = mark(picture(**start), guess, at)
    if _shell() is None or importlib.util.find_spec("ipywidgets") is None:
        return figure
    from IPython.display import Pretty, display

    def again(shown: Any) -> None:
        handle.update(Pretty(shown) if isinstance(shown, str) else mark(shown, guess, at))

    display(panel(picture, again, **knobs))
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
    checks.integer("staleness", staleness, 0, "count the updates by which a gradient is late")
    checks.real("learning_rate", learning_rate, "give a positive one", 0.0, open_low=True)
    spec = sim.Spec(
        sim.tasks.quadratic((1.0,), noise=0.0, start=1.0),
        sim.schedules.fixed(staleness),
        sim.methods.gradient(),
        sim.chain(sim.updates.sgd(learning_rate)),
        samples_per_group=1,
        updates=length,
        replicates=1,
        sampling="enumerate",
        diagnostics=["exact_gradient_norm"],
    )
    measured = sim.run(spec, seed=0)["exact_gradient_norm"][:, 0]
    point = {"staleness": staleness, "curvatures": (1.0,)}
    limit = sim.claims.claim("staleness/stability-boundary").predict(point)["step"]
    word = "dies out" if learning_rate < limit else "grows"
    return sim.points(
        range(length),
        measured,
        np.abs(delayed_path(staleness, learning_rate, length - 1)),
        xlabel="update",
        ylabel="distance to the optimum",
        title=f"Staleness {staleness}: the error {word} at learning rate {learning_rate:.3g} (limit {limit:.3g})",
        joined=True,
    )


def responses(mu: np.ndarray, pi: np.ndarray, tokens: int, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Log importance ratios of the tokens of responses drawn from `mu`, nats `[batch, sample, token]`.

    >>> half = np.array([0.5, 0.5])
    >>> responses(half, half, 3, (1, 2), seed=0).tolist()
    [[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]
    """
    checks.integer("tokens", tokens, 1, "a response has a token", _LONGEST)
    checks.integer("seed", seed, 0, "give a non-negative integer seed")
    for size in shape:
        checks.integer("samples", size, 1, "draw one response at least")
    drawn = np.random.default_rng(seed).choice(len(mu), size=(*shape, tokens), p=mu)
    log_ratios: np.ndarray = np.log(pi / mu)[drawn]
    return log_ratios


def sizes(log_ratios: np.ndarray, clamp: float) -> dict[str, np.ndarray]:
    """Five numbers that are called ESS / N, by the metrics of the package: name to `[batch]`.

    Arguments: `log_ratios` of tokens `[batch, sample, token]` in nats; `clamp` C >= 1: the last one limits the ratio of
    a response to [1/C, C]. Raises `InputError`.

    >>> {name: round(float(size[0]), 3) for name, size in sizes(np.log([[[1.0, 3.0], [3.0, 1.0]]]), 2.0).items()}
    {'sequence': 1.0, 'token': 0.8, 'position': 0.8, 'within': 0.8, 'clamped': 1.0}
    """
    log = torch.from_numpy(checks.finite_array("log_ratios", log_ratios, (None,) * 3, "one a token")).unsqueeze(1)
    zero = torch.zeros_like(log)
    step = given(sim.methods.reinforce(), {"log_prob": log}, {"log_prob": zero}, torch.ones_like(log))
    metrics = (
        sim.diagnostics.ess,
        sim.diagnostics.ess_token,
        sim.diagnostics.ess_frames,
        sim.diagnostics.ess_within,
        sim.diagnostics.ess_token_clamped(clamp, level="sequence"),
    )
    return {name: metric.at(step).numpy() for name, metric in zip(SIZES, metrics, strict=True)}


def large_batch(mu: np.ndarray, pi: np.ndarray, tokens: int, clamp: float) -> dict[str, float]:
    """The five numbers of a batch of any number of responses whose tokens are independent draws from `mu`.

    With 1 + chi^2 = sum_y pi_y^2 / mu_y a response has (1 + chi^2)^-tokens, tokens and positions 1 / (1 + chi^2), the
    inside of a response `shown_size` of so many samples. Clamped ones are summed over all counts of the three tokens.
    """
    token = float((pi**2 / mu).sum())
    log_weight, mass = _law(mu, pi, tokens)
    weight = np.exp(np.clip(log_weight, -np.log(clamp), np.log(clamp)))
    within = shown_size(mu, pi, 1, tokens)
    values = (token**-tokens, 1 / token, 1 / token, within or 1 / token, (mass @ weight) ** 2 / (mass @ weight**2))
    return dict(zip(SIZES, map(float, values), strict=True))


def _law(mu: np.ndarray, pi: np.ndarray, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Log ratio and probability of every count vector of a response, each `[count vector]`."""
    checks.integer("tokens", tokens, 1, "shorten the responses", _LONGEST)
    first, both = np.triu_indices(tokens + 1)
    counts = np.stack([first, both - first, tokens - both], axis=1).astype(float)
    log_mass = gammaln(tokens + 1.0) - gammaln(counts + 1.0).sum(1) + counts @ np.log(mu)
    return counts @ np.log(pi / mu), np.exp(log_mass)


def shown_size(mu: np.ndarray, pi: np.ndarray, tokens: int, samples: int, rows: int | None = None) -> float | None:
    """Exact mean of ESS / N over batches of so many responses; None where the claim `ess/finite-sample` refuses.

    With `rows` it is the mean over micro-batches of so many responses, the last one shorter.

    >>> shown_size(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 8, 4)
    1.0
    """
    parts = _parts(samples, rows)
    setting = {"behavior_logits": tuple(np.log(mu)), "current_logits": tuple(np.log(pi)), "horizon": tokens}
    predict, exact = sim.claims.claim("ess/finite-sample").predict, {1: 1.0}
    for count in {len(part) for part in parts} - {1}:
        try:
            exact[count] = round(predict({**setting, "samples": count})["ess"], 12)
        except checks.InputError:
            return None
    return sum(exact[len(part)] for part in parts) / len(parts)


def ess(log_ratios: np.ndarray) -> np.ndarray:
    """ESS / N of each batch of equally likely samples: log ratios `[batch, sample]` in nats to `[batch]`.

    >>> ess(np.log([[1.0, 3.0]])).round(12).tolist()
    [0.8]
    """
    log = torch.from_numpy(np.asarray(log_ratios, dtype=float))
    return ratios.ess(log, torch.full_like(log, 1.0 / log.shape[-1])).numpy()


def micro_batched(log_ratios: np.ndarray, rows: int) -> np.ndarray:
    """Mean ESS / N over micro-batches of so many responses, the last one shorter: `[batch, sample]` to `[batch]`.

    >>> micro_batched(np.log([[1.0, 3.0, 1.0, 3.0]]), rows=1).tolist()
    [1.0]
    """
    parts = _parts(log_ratios.shape[1], rows)
    return np.mean([ess(log_ratios[:, part.start : part.stop]) for part in parts], axis=0)


def _parts(samples: int, rows: int | None) -> list[range]:
    step = samples if rows is None else checks.integer("micro_batch", rows, 1, "give the rows of a micro-batch")
    return [range(start, min(start + step, samples)) for start in range(0, samples, step)]


def sizes_by_length(mu: np.ndarray, pi: np.ndarray, clamp: float, samples: int, seed: int) -> Figure:
    """The five numbers of 32 batches at several lengths, beside those of a large batch, which are dashed."""
    lengths, along = (1, 4, 16, 32, 64, 96, 180), np.unique(np.geomspace(1, 180, 30).astype(int)).tolist()
    shown = [sizes(responses(mu, pi, each, (32, samples), seed), clamp) for each in lengths]
    exact = [large_batch(mu, pi, each, clamp) for each in along]
    return sim.points(
        lengths,
        {name: [uncertainty.between(each[name]) for each in shown] for name in SIZES},
        {name: [each[name] for each in exact] for name in SIZES},
        at=along,
        xscale="log",
        xlabel="tokens of a response",
        ylabel="ESS / N",
        title="Three of the five sizes do not see the length of a response",
    )


def score_weights(
    loss: Any, log_ratios: Any, advantages: Any, lengths: Any = None, rows: int | None = None
) -> np.ndarray:
    """Weights of grad log pi in the ascent direction, times the number of tokens: `[row, token]`.

    Arguments: `loss`, a `Method`, or fn(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask) as of
    `sim.conformance.adapters`, asked by autograd; `log_ratios` pi / mu `[row, token]` in nats; `advantages` `[row]`;
    `lengths`, tokens of each row (default: all); `rows` of a micro-batch, over which a loss is averaged. It is the
    first update on the batch: the proximal policy is the current one. Raises `InputError`.

    >>> score_weights(sim.methods.cispo(high=1.0), np.log([[1.5], [3.0]]), [1.0, -1.0]).round(6).tolist()
    [[1.5], [-2.0]]
    """
    log = torch.from_numpy(checks.finite_array("log_ratios", log_ratios, (None, None), "one a token"))
    count, width = log.shape
    advantage = torch.from_numpy(checks.finite_array("advantages", advantages, (count,), "one a row"))
    ends = np.full(count, width) if lengths is None else np.asarray(lengths)
    checks.require(ends.shape == (count,), "lengths", ends.shape, f"({count},)", "give one length a row")
    mask = (torch.arange(width) < torch.from_numpy(ends).unsqueeze(1)).double()
    # Log-probs of -1 and below, so that no ratio needs a probability above 1.
    behavior = (-1.0 - log.clamp(min=0.0).max()) * torch.ones_like(log)
    now = behavior + log * mask
    if hasattr(loss, "weigh"):
        proximal = {"proximal_log_prob": now} if loss.proximal else {}
        found = loss.weigh(now, behavior, advantages=advantage, mask=mask, rewards=advantage, **proximal)
        return np.asarray(found.cotangent * mask.sum()) + 0.0
    return _by_autograd(loss, (now, behavior, advantage.unsqueeze(1).expand_as(mask), mask), rows or count)


def _by_autograd(loss: Callable[..., Any], tensors: tuple[Any, ...], rows: int) -> np.ndarray:
    """-dL/d log_prob times the number of tokens, of a loss that is averaged over micro-batches."""
    now, behavior, advantage, mask = tensors
    leaf = now.clone().requires_grad_()
    parts = [slice(start, start + rows) for start in range(0, len(now), rows)]
    values = [loss(leaf[part], behavior[part], now[part], advantage[part], mask[part]) for part in parts]
    (sum(values) / len(parts)).backward()
    gradient = leaf.grad
    checks.require(gradient is not None, "loss", "no gradient", "one in log_prob", "detach less")
    return np.asarray(-gradient * mask.sum()) + 0.0  # no negative zero


def weights_by_ratio(ratios: Any, methods: dict[str, Any], formulas: dict[str, Any], sign: float) -> Figure:
    """Weight c / |A| of a token by its ratio: of methods, for an advantage of this sign, and dashed of formulas."""
    column, advantages = np.log(ratios)[:, None], np.full(len(ratios), sign)
    return sim.points(
        ratios,
        {name: sign * score_weights(each, column, advantages)[:, 0] for name, each in methods.items()},
        formulas,
        xlabel="ratio of the token, now to then",
        ylabel="weight c / |A|",
        title=f"{'Good' if sign > 0 else 'Bad'} tokens: the methods differ where the ratio is not 1",
        joined=True,
    )


def clip_picture(loss: Any, method: Any) -> Figure:
    """Weight of a good and of a bad token by its ratio: of a loss, and dashed of the method that it should be."""
    ratios, signs = np.linspace(0.1, 3.0, 59).tolist(), {"good token": 1.0, "bad token": -1.0}

    def weights_of(each: Any) -> dict[str, Any]:
        column = np.log(ratios)[:, None]
        return {name: score_weights(each, column, np.full(59, sign))[:, 0] for name, sign in signs.items()}

    return sim.points(
        ratios,
        weights_of(loss),
        weights_of(method),
        xlabel="ratio of the token",
        ylabel="weight of its score",
        title="The clip has one open side for each sign",
        joined=True,
    )


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    """Cosine between two gradients, 0 if one of them is 0.

    >>> cosine(np.array([1.0, 0.0]), np.array([0.0, 2.0]))
    0.0
    """
    return float(first @ second / max(np.linalg.norm(first) * np.linalg.norm(second), 1e-300))


def findings(report: Any) -> None:
    """Show the report of a check line by line, without its exact moments: what each finding is, and what it says."""
    rows: list[tuple[str, str]] = []
    for line in str(report).partition("\nexact moments")[0].partition("\nunchecked")[0].splitlines():
        kind, found, words = re.sub(r" \([^()]*deviation of a token[^()]*\)", "", line).partition(": ")
        known = found and kind in ("hazard", "note", "bug", "measured", "same gradient", "aggregator")
        rows.append((kind, words) if known else ("" if rows else "verdict", line.partition(" (maximum")[0]))
    table(("kind", "finding"), rows)


def drawn_gradients(task: Any, method: Any, pi: np.ndarray, mu: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Gradients of single responses in the logits of one row, `[response, token kind]`, drawn from `mu`.

    g = sum_t a c_t (e_{y_t} - pi): the method weighs each response alone. Arguments: `task`, a `token_bandit` whose
    tokens are independent; `count` of responses. Raises `InputError`. Source: textbook (score of a softmax).

    >>> half = np.array([0.5, 0.5])
    >>> task, method = sim.tasks.token_bandit(2, 1), sim.methods.reinforce(sim.advantages.none())
    >>> sorted(set(map(tuple, drawn_gradients(task, method, half, half, 99, seed=0).tolist())))
    [(0.0, 0.0), (0.5, -0.5)]
    """
    checks.integer("count", count, 1, "draw one response at least")
    checks.integer("seed", seed, 0, "give a non-negative integer seed")
    actions = np.random.default_rng(seed).choice(len(mu), size=(count, 1, 1, task.horizon), p=mu)
    drawn = torch.from_numpy(actions)
    # Each response is a replicate of its own, so that nothing is averaged.
    now, then = (torch.from_numpy(np.log(policy))[drawn] for policy in (pi, mu))
    rewards = task.score(torch.zeros_like(drawn), drawn, torch.ones_like(now))
    cotangent = method.weigh(now, then, rewards=rewards).cotangent.numpy()[:, 0, 0]
    return np.einsum("nt,nta->na", cotangent, np.eye(len(mu))[actions[:, 0, 0]] - pi)


def answer_table(answer: Any) -> None:
    """Show an answer of `compare` on one task: each arm at its best learning rate, against the first arm."""
    pairs = {pair.arm: pair for pair in answer.pairs}
    rows = []
    for arm in answer.tasks[0].arms:
        pair = pairs.get(arm.name)
        against = ("", "", "")
        if pair:
            last = pair.last
            interval = notation.bounded(last.difference, last.low, last.high)[1]
            against = (_short(last.difference), interval, pair.word)
        rows.append((arm.name, arm.tuned.chosen, arm.mean, *against))
    table(("arm", "best learning rate", "mean return", "difference", "interval", "verdict"), rows)


def false_findings(comparisons: int, looks: Sequence[int], seed: int) -> dict[str, list[Estimate]]:
    """Share of comparisons of two equal arms that have found a difference by each look, for two kinds of interval.

    >>> found = false_findings(100, [64, 128], seed=0)
    >>> list(found)
    ['interval for one look', 'interval for 2 looks']
    """
    runs = np.random.default_rng(seed).normal(size=(comparisons, looks[-1]))
    found = {}
    for name, planned in (("interval for one look", 1), (f"interval for {len(looks)} looks", len(looks))):
        bound = common_bound(planned)
        parts = [runs[:, :look] for look in looks]
        excludes = [abs(part.mean(1)) > bound * part.std(1, ddof=1) / part.shape[1] ** 0.5 for part in parts]
        found[name] = [mean(share) for share in np.logical_or.accumulate(excludes)]
    return found


def returns_at(arm: Any, rates: Any, replicates: int, seed: int, knob: str = "adam.lr") -> np.ndarray:
    """Mean return over the updates of a run at each learning rate, `[rate, replicate]`.

    One run has them all: rates are its replicates. Arms with the same seed share draws. Arguments: `arm`, a `Spec`
    whose diagnostics have "trained_return"; `knob`, the learning rate of its chain. Raises `InputError`.
    """
    values = checks.finite_array("rates", rates, (None,), "give positive learning rates")
    checks.integer("replicates", replicates, 1, "run each rate at least once")
    tried = set_knob(arm, knob, tuple(np.repeat(values, replicates).tolist()), len(values) * replicates)
    trace = sim.run(spread(tried), seed=seed, progress=False)
    return np.asarray(trace["trained_return"]).mean(0).reshape(len(values), replicates)


def best_rates(rates: Any, returns: np.ndarray, seed: int) -> np.ndarray:
    """Learning rate of the highest mean return in each of 1,000 resamples of the replicates, `[resample]`.

    Arguments: `rates` `[rate]`; `returns` `[rate, replicate]`, resampled at each rate. Raises `InputError`.

    >>> set(best_rates([0.1, 1.0], np.array([[0.0, 0.1], [0.5, 0.6]]), seed=0).tolist())
    {1.0}
    """
    values = checks.finite_array("rates", rates, (None,), "give positive learning rates")
    rows = checks.finite_array("returns", returns, (len(values), None), "give a row for each rate")
    checks.integer("seed", seed, 0, "give a non-negative integer seed")
    random = np.random.default_rng(seed)
    means = [random.choice(row, size=(RESAMPLES, len(row))).mean(1) for row in rows]
    best: np.ndarray = values[np.argmax(means, axis=0)]
    return best


def right_winners(one: Any, other: Any, sizes: Iterable[int], seed: int) -> list[Estimate]:
    """How often the better of two arms has the higher mean of so many runs: a share of 1,000 tables for each size.

    The better arm has the higher mean of all its runs. Equal means win half of a table each. The error of a share
    counts two more tables of each outcome, so that it is not 0 where every table is right.

    Arguments: `one` and `other`, returns `[run]`, from which tables draw runs independently; `sizes`, runs of each arm
    in a table. Raises `InputError`.

    >>> [float(share) for share in right_winners([1.0, 1.0], [0.0, 0.0], [1, 4], seed=0)]
    [1.0, 1.0]
    """
    better, worse = _ordered(one, other)
    checks.integer("seed", seed, 0, "give a non-negative integer seed")
    random, shares = np.random.default_rng(seed), []
    for size in sizes:
        apart = np.subtract(*(random.choice(runs, size=(RESAMPLES, size)).mean(1) for runs in (better, worse)))
        right = float(np.heaviside(apart, 0.5).sum())
        likely = (right + 2.0) / (RESAMPLES + 4.0)
        shares.append(Estimate(right / RESAMPLES, (likely * (1.0 - likely) / RESAMPLES) ** 0.5, samples=RESAMPLES))
    return shares


def normal_winners(one: Any, other: Any, sizes: Iterable[int]) -> list[float]:
    """The shares of `right_winners` if returns are normal: Phi(d sqrt(n) / s), for each n of `sizes`.

    d is the difference of the two means, s the standard deviation of the difference of two independent runs. Without
    both a table is right by chance, one half. Source: textbook.

    >>> [round(share, 3) for share in normal_winners([1.0, 3.0], [0.0, 2.0], [1, 2])]
    [0.76, 0.841]
    """
    better, worse = _ordered(one, other)
    apart, deviation = better.mean() - worse.mean(), float(np.hypot(better.std(), worse.std()))
    if deviation == 0.0:
        return [1.0 if apart > 0.0 else 0.5 for _ in sizes]
    return [float(ndtr(apart * size**0.5 / deviation)) for size in sizes]


def _ordered(one: Any, other: Any) -> list[np.ndarray]:
    """Returns of two arms, those of the better arm first."""
    both = [checks.finite_array("returns", runs, (None,), "give one number a run") for runs in (one, other)]
    return sorted(both, key=np.mean, reverse=True)
