"""Do forecasts of the drift hold for SmolLM2, as `forecasts` asks of a character model?

SmolLM2-135M-Instruct trains its last layer by GRPO with Adam on texts of eight tokens, paid by the share of the letter
e among their characters, under the event model of AReaL. A run is calibrated on its first third, and judged on the rest
and at other settings, after the `begin` updates in which Adam's steps shrink. Columns and rows are those of
`forecasts`: k3 in nats per token, ESS over tokens, `outside` the share of token ratios outside [0.8, 1.2].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from experiments import _models, forecasts

COLUMNS = forecasts.COLUMNS
SYSTEM = {
    "machines": 2,
    "slots_per_machine": 8,
    "tokens_per_second": 8.0,
    "response_lengths": "constant:8",
    "prompts_per_batch": 2,
    "samples_per_prompt": 8,
    "train_seconds": "gamma:1:4",
    "staleness_limit": 2,
}
CHANGES = [{}, {"staleness_limit": 5}, {"staleness_limit": 4, "machines": 3}]
LATER = {"begin": 60, "updates": 120}
RUNS: list[tuple[float, dict[str, Any]]] = [
    (1e-5, {}),
    (3e-5, {}),
    *((rate, LATER | {"changes": CHANGES[:1]}) for rate in (1e-5, 3e-5, 1e-4)),
    (3e-5, LATER | {"changes": CHANGES}),
]
"""Learning rate of each seed's run, and whether its log begins later."""
SETTINGS: list[dict[str, Any]] = [
    {"source": "smollm2", "model": "smollm2", "learns": "task", "task": "text", "tokens": 8, "layers": 1,
     "rate": rate, "groups": 2, "samples": 8, "trainer": "areal", "system": SYSTEM, "changes": CHANGES,
     "updates": 180, "replicates": 1, "seed": seed, **later}
    for seed, (rate, later) in enumerate(RUNS)
]  # fmt: skip
_CHAR = {"source": "characters", "model": "char", "recipe": _models.TINY, "layers": None, "groups": 2, "samples": 8}
QUICK = [{**SETTINGS[0], **_CHAR, "updates": 66, "changes": CHANGES[:2], "begin": begin} for begin in (0, 6)]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of the runs of one setting."""
    made = {k: trained(setting, change, k) for k, change in enumerate(setting["changes"])}
    return [row for r in range(setting["replicates"]) for row in forecasts.rows(setting, r, made[0], made)]


def trained(setting: dict[str, Any], change: dict[str, Any], number: int) -> dict[str, Any]:
    """A model trained under the event model of the setting: its log, and means from an update on."""
    import asyncsim as sim

    begin = setting.get("begin", 0)
    made = _models.spec(setting, 0, begin + setting["updates"], [forecasts.Ratios()])
    made = made.replace(system=forecasts.described(setting, change))
    trace = sim.run(made, seed=1000 * (setting["seed"] + 1) + number, progress=False)
    found = {name.removeprefix("ratios_"): each for name, each in trace.accumulated.items()}

    def series(r: int) -> dict[str, Any]:
        every = forecasts.of_ratios({k: v[..., r] for k, v in found.items()}, found["count"][..., r])
        return {name: each[begin:] for name, each in every.items()}

    def means(r: int, warm: int) -> dict[str, float]:
        return {name: float(series(r)[name][warm:].mean()) for name in ("k3", "ess", "outside")}

    def logs(r: int, first: int) -> dict[str, Any]:
        return forecasts.steps(series(r), first) | {"step": np.arange(begin + 1, begin + first + 1)}

    return {"unknown": (), "logs": logs, "means": means, "load": math.nan}


class Course:
    """Of every update: length of the last weight step, gradient norm, and the share of groups with equal rewards."""

    name, outputs = "course", ("log_prob",)

    def __init__(self) -> None:
        self.found: list[tuple[float, float, float]] = []
        self.before: Any = math.nan

    def fresh(self) -> Course:
        """One that has seen nothing."""
        return Course()

    def observe(self, step: Any) -> None:
        """Compare the weights with those before the last update."""
        moved, self.before = step.parameters - self.before, step.parameters.clone()
        reward = step.batch.reward
        equal = reward.amax(-1) - reward.amin(-1) < 1e-9
        self.found.append((float(moved.norm()), float(step.gradient.norm()), float(equal.double().mean())))

    def result(self) -> dict[str, np.ndarray]:
        """All updates, `[U, 3]`."""
        return {"course": np.array(self.found)}


def course(setting: dict[str, Any], width: int = 20) -> str:
    """A table of how a run moves, in stretches of updates; a step of 1 moves every weight by the learning rate.

    `python -c "from experiments import forecasts_smollm2 as e; print(e.course(e.SETTINGS[0]))"` prints it.
    """
    import asyncsim as sim

    spec = _models.spec(setting, 0, setting.get("begin", 0) + setting["updates"], [forecasts.Ratios(), Course()])
    spec = spec.replace(system=forecasts.described(setting, {}))
    trace = sim.run(spec, seed=1000 * (setting["seed"] + 1), progress=False)
    found = {name.removeprefix("ratios_"): each[..., 0] for name, each in trace.accumulated.items() if name != "course"}
    series = forecasts.of_ratios(found, found["count"])
    step, gradient, equal = trace.accumulated["course"].T
    step = step / setting["rate"] / math.sqrt(trace.parameters.size)
    lines = ["| updates | step | gradient | groups without signal | k3 / staleness^2 | reward |", f"|{'---|' * 6}"]
    for first in range(0, len(step), width):
        part = slice(first, first + width)
        drift = series["k3"][part].sum() / (series["staleness"][part] ** 2).sum()
        cells = f"{np.nanmean(step[part]):.3f} | {gradient[part].mean():.2f} | {equal[part].mean():.2f} | {drift:.2g}"
        lines.append(f"| {first + 1}-{min(first + width, len(step))} | {cells} | {series['reward'][part].mean():.3f} |")
    return "\n".join(lines)
