"""`plot`: one call draws a trace or several, schedule, timeline, verdict or answer; panels draw into an `ax`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asyncsim.base import calls, checks, records, trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asyncsim.base.advice import Advice
    from asyncsim.base.answers import Answer, Boundary, Prediction, Sweep
    from asyncsim.base.forecasts import Forecast
    from asyncsim.base.judgment import Judgment

    Run = trace.Trace | records.Schedule | records.Timeline
    Drawn = Run | records.Verdict | Answer | Sweep | Boundary | Prediction
    Judged = Advice | Judgment | Forecast


@calls.named
def plot(
    value: Drawn | Judged | Sequence[trace.Trace] | Mapping[str, trace.Trace],
    path: str | os.PathLike[str] | None = None,
    over: str = "updates",
) -> Figure:
    """Draw traces, a schedule, a timeline, a verdict, an answer, a prediction, advice, a judgment or a forecast.

    Measured means come with 95 percent intervals between schedule realizations (replicates where schedules are not
    random). They end at the bounds of the metric. A verdict comes with the intervals it was judged by; predictions are
    dashed. A trace whose replicates have different settings has a line for each. Several traces, as a list or by names,
    share the panels of the metrics that all of them have.

    Arguments: `value`; `path` to write to, ending in .png, .pdf or .svg, written atomically, always the same bytes;
    `over`: traces are drawn over "updates", or over simulated "seconds" as far as the shortest replicate of each goes.
    Returns a matplotlib figure that no window shows. Raises `InputError` for another type of value or another ending,
    traces without a common metric, and seconds of a schedule that is imposed.

    >>> import asyncsim as sim
    >>> figure = plot(sim.schedules.fixed(2).schedule(5, 1, 1, 1, seed=0))
    >>> figure.axes[0].get_ylabel()
    'staleness $s$ (versions)'
    """
    # matplotlib takes a third of a second to import, which `import asyncsim` must not.
    from asyncsim.base.advice import Advice
    from asyncsim.base.answers import Answer, Boundary, Prediction, Sweep
    from asyncsim.base.forecasts import Forecast
    from asyncsim.base.judgment import Judgment
    from asyncsim.plotting import _answers, _decisions, _metrics, _style, _timeline, _verdict

    if path is not None:
        _style.kind_of(path)
    drawings: dict[type, Any] = {
        trace.Trace: _metrics.draw_traces, records.Schedule: _metrics.draw_schedule,
        records.Timeline: _timeline.draw_timeline, records.Verdict: _verdict.draw_verdict,
        Answer: _answers.draw_answer, Sweep: _answers.draw_sweep, Boundary: _answers.draw_boundary,
        Prediction: _answers.draw_prediction, Advice: _decisions.draw_advice, Judgment: _decisions.draw_judgment,
        Forecast: _decisions.draw_forecast,
    }  # fmt: skip
    remedy = "say what traces are drawn against; metrics are those of Spec(diagnostics=[...])"
    checks.one_of("over", over, ("updates", "seconds"), remedy)
    given: Any = value if isinstance(value, (list, tuple, Mapping)) else [value]
    several = list(given.values()) if isinstance(given, Mapping) else given
    if several and all(isinstance(each, trace.Trace) for each in several):
        drawings[type(value)] = lambda _: _metrics.draw_traces(_metrics.named(given), over)
    else:
        checks.require(over == "updates", "over", over, "updates for what is no trace", "leave it out")
    made = {"System": "write sim.plot(system.timeline(batches=100))", "Spec": "write sim.plot(sim.run(spec))"}
    remedy = made.get(type(value).__name__, "or several traces; numbers of your own: sim.points(x, y)")
    checks.one_of("type of value", type(value).__name__, [t.__name__ for t in drawings], remedy)
    with _style.applied():
        figure = drawings[type(value)](value)
    if path is not None:
        _style.write(figure, path)
    return figure
