r"""With r seconds of generation left, a token has r/tau versions of in-flight staleness on average: a staircase.

a token with `r` seconds left has mean staleness `r/tau` in flight: `E[L]/(2 tau)` on average over samples and
`E[L^2]/(2 tau E[L])` over tokens, half of the first token's

Constant rate of writing, publishes every tau seconds, tokens keep or gain versions at installs, start phase uniform and
independent of L. In-flight staleness of a token counts the installs between it and the end of its sample. Derivation: r
seconds hold r/tau installs on average. So, over samples, the mean over a sample's tokens is E[L]/(2 tau) and its head
has E[L]/tau. Over all tokens the mean is E[L^2]/(2 tau E[L]), and that of heads weighted by tokens twice as much. A
wait in the queue adds to all alike. Domain: that of `systems/in-flight`, with lengths whose square a run can measure
(exponential, gamma, lognormal up to sigma = 1.5); all completions. Second route: installs placed one by one, averaged
over phase and integrated over the density of L.
"""

import math

import numpy as np

from asyncsim.base import checks, laws
from asyncsim.claims import _engines, _lengths, _openloop, lab
from asyncsim.claims._claim import Estimate, Plant, Point, named, replaced

_point = named("length", "period", "places", groups_per_batch=8)


def _over_phases(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Staleness of a sample of x periods, averaged over phase: the mean over its tokens, and at its head.

    Phase f in (0, 1): installs at 1 - f, 2 - f, ... before x. All the tokens before an install are one version behind
    by it, so tokens lose (time of the install)/x. Between phases 0, frac(1 - x) and 1 all is linear:
    midpoints are exact.
    """
    tokens, heads = np.zeros_like(x), np.zeros_like(x)
    jump = np.ceil(x) - x
    for low, high in ((np.zeros_like(x), jump), (jump, np.ones_like(x))):
        phase, width = (low + high) / 2.0, high - low
        installs = np.floor(x + phase)
        # sum of (j - f), j = 1 .. installs
        install_times = installs * (installs + 1.0) / 2.0 - installs * phase
        tokens += width * install_times / x
        heads += width * installs
    return tokens, heads


class TokenStaircase(_openloop.Clocked):
    kind, source = "expectation", "derived: uniform phase"

    length = _engines.smooth_length(typical=_lengths.LIGHT, example="lognormal:1.0:0.8")

    def joint(self) -> None:
        law, remedy = self.length, "choose exponential, gamma, or lognormal with sigma up to 1.5"
        light = law.kind != "pareto" and (law.kind != "lognormal" or law.parameters[1] <= 1.5)
        checks.require(light, "length", str(law), "a distribution whose square a run can measure", remedy)

    def predict(s) -> dict[str, float]:
        first, second = (s.length.moment_below(power, math.inf) for power in (1, 2))
        sample, tokens = first / (2.0 * s.period), second / (2.0 * s.period * first)
        return {"sample_mean": sample, "token_mean": tokens, "sample_head": 2.0 * sample, "token_head": 2.0 * tokens}

    def check(s) -> dict[str, float]:
        law, period = s.length, s.period
        mean = _lengths.expectation(law, lambda x: x)
        return {
            "sample_mean": _lengths.expectation(law, lambda x: _over_phases(x / period)[0], power=2.0),
            "token_mean": _lengths.expectation(law, lambda x: x * _over_phases(x / period)[0], power=2.0) / mean,
            "sample_head": _lengths.expectation(law, lambda x: _over_phases(x / period)[1], power=2.0),
            "token_head": _lengths.expectation(law, lambda x: x * _over_phases(x / period)[1], power=2.0) / mean,
        }

    wrong = {
        "tokens averaged as samples": lambda s: {f"token_{x}": s.predict()[f"sample_{x}"] for x in ("mean", "head")}
    }

    points = (_point("exponential:1.0", 1.0, 32), _point("gamma:1.0:4.0", 0.25, 64))
    more = (_point("lognormal:1.0:0.8", 0.4, 64),)

    def reach(self, point: Point) -> str | None:
        law = laws.as_law("length", point["length"])
        if law.kind == "lognormal" and law.parameters[1] > 1.0:
            return "a log-normal sigma of at most 1; the square of a longer tail takes more samples than a run has"
        if law.kind == "gamma" and law.parameters[1] < 0.25:
            return "a gamma shape of at least 0.25; the square of a longer tail takes more samples than a run has"
        return lab.crowded(point)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        law = laws.as_law("length", point["length"])
        realizations = lab.realizations_for(0.05 if law.kind == "lognormal" else 0.02, effect, 0.0, 12)
        window = 8000 * law.mean() / point["places"]
        runs = [lab.completions(point, window, m, seed, plant) for m in range(realizations)]
        heads, tokens, works = zip(*runs, strict=True)
        over_samples = {"sample_mean": lab.per_sample(tokens), "sample_head": lab.per_sample(heads)}
        return over_samples | {"token_mean": lab.per_sample(tokens, works), "token_head": lab.per_sample(heads, works)}

    defects = {
        "all tokens stamped with the first version": lambda: replaced(mode="pin"),
        "ends stamped a version early": lambda: lab.kernel_defects.end_stamped_early,
        "the trainer waits for installs": lambda: lab.slow_installs,
    }
