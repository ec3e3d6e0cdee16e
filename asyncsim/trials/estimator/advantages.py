"""Mean updates of groups under every baseline, over every batch of stale responses, through the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asyncsim import advantages, methods
from asyncsim.trials._plants import FourthPower, with_method
from asyncsim.trials._ragged import SHORT, gradients, of_groups, planted, read
from asyncsim.trials._sequences import token_level
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_MADE: dict[str, Callable[[Any], Any]] = {
    "none": lambda p: advantages.none(),
    "offset": lambda p: advantages.offset(p["scale"]),
    "mean": lambda p: advantages.mean(),
    "group_mean": lambda p: advantages.group_mean(p["scale"]),
    "leave_one_out": lambda p: advantages.leave_one_out(),
    "group_std": lambda p: advantages.group_std(),
    "group_std_unbiased": lambda p: advantages.group_std(unbiased=True),
    "maxrl": lambda p: advantages.maxrl(),
    "opo": lambda p: advantages.opo(),
    "opo_others": lambda p: advantages.opo(leave_one_out=True),
    "opob": lambda p: advantages.opob(),
    "opob_others": lambda p: advantages.opob(leave_one_out=True),
    "opob_median": lambda p: advantages.opob(robust="median"),
    "opob_winsorized": lambda p: advantages.opob(robust="winsorized"),
    "opob_standardized": lambda p: advantages.opob("step", standardize=True),
    "otb": lambda p: advantages.otb(),
    "otb_own": lambda p: advantages.otb(alone="own"),
    "otb_outside": lambda p: advantages.otb("outside"),
    "self_normalized": lambda p: advantages.self_normalized(),
    "self_normalized_others": lambda p: advantages.self_normalized(leave_one_out=True),
    "soft_value": lambda p: advantages.soft_value(p["scale"]),
    "pass_at_2": lambda p: advantages.pass_at_k(2),
    "pass_at_n": lambda p: advantages.pass_at_k(p["samples"], standardize=True),
    "returns_to_go": lambda p: advantages.returns_to_go(p["scale"]),
    "returns_to_go_batch": lambda p: advantages.returns_to_go(p["scale"], "batch"),
    "reinforce_plus_plus": lambda p: advantages.reinforce_plus_plus(discount=p["scale"]),
    "reinforce_plus_plus_unbiased": lambda p: advantages.reinforce_plus_plus(unbiased=True),
    "reinforce_plus_plus_group": lambda p: advantages.reinforce_plus_plus("group"),
    "gdpo": lambda p: advantages.gdpo(p["limit"], p["scale"]),
    "gdpo_reward": lambda p: advantages.gdpo(),
    "remax": lambda p: advantages.remax(),
}


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    # Every rule has some of the knobs.
    knobs = {name: point[name] for name in ("scale", "limit", "samples")}
    level = "token" if point["advantage"].startswith("otb") else "sequence"
    spec = planted(point, methods.full_is(level, _MADE[point["advantage"]](knobs)), plant)
    found = of_groups(spec, point)
    gradient = gradients(point["current_logits"])[0]
    # The variance is a difference of second moments.
    noise = Estimate(found.variance / float(gradient @ gradient), tolerance=1e-9)
    return read(found.mean, point) | {"noise": noise}


def _rule(advantage: Any) -> Plant:
    return with_method(advantage=advantage)


_POINT = {**SHORT, "samples": 3, "scale": 0.4, "limit": 1}
_POINTS = {name: {**_POINT, "advantage": name} for name in _MADE}

trial = Trial(
    points=tuple(_POINTS.values()),
    more=({**_POINTS["pass_at_2"], "samples": 4}, {**_POINTS["opob"], "samples": 2}),
    measure=_measure,
    defects={
        "other divisor of the variance": Defect(_rule(advantages.group_std(unbiased=True)), _POINTS["group_std"]),
        "eps of 0.1": Defect(_rule(advantages.group_std(0.1)), _POINTS["group_std"]),
        "sample in its own baseline": Defect(_rule(advantages.group_mean()), _POINTS["leave_one_out"]),
        "lengths forgotten": Defect(_rule(advantages.group_mean()), _POINTS["opo"]),
        "weights to the fourth power": Defect(_rule(FourthPower(advantages.opob())), _POINTS["opob"]),
        "weights outside the running sum": Defect(_rule(advantages.otb("outside")), _POINTS["otb"]),
        "last sample beside itself": Defect(_rule(advantages.otb(alone="own")), _POINTS["otb"]),
        "unweighted baseline": Defect(_rule(advantages.group_mean()), _POINTS["self_normalized"]),
        "best of one more": Defect(_rule(advantages.pass_at_k(3)), _POINTS["pass_at_2"]),
        "undiscounted": Defect(_rule(advantages.returns_to_go()), _POINTS["returns_to_go"]),
        "not standardized over the step": Defect(
            _rule(advantages.returns_to_go(0.4, "batch")), _POINTS["reinforce_plus_plus"]
        ),
        "length forgotten": Defect(_rule(advantages.gdpo()), _POINTS["gdpo"]),
        "mean for the soft value": Defect(_rule(advantages.group_mean()), _POINTS["soft_value"]),
        "baseline at behavior": Defect(_rule(advantages.group_mean()), _POINTS["remax"]),
        "no shift": Defect(_rule(advantages.group_mean()), _POINTS["group_mean"]),
        "ratio of the token": Defect(token_level(), _POINTS["none"]),
    },
    effect=0.02,
    through="oracle",
)
