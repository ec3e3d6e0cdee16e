"""Does truncated importance sampling collapse when data is stale, and does VCPO prevent it?

Problems are those of `_vcpo`; arms `truncated` (sequence ratios cut at 8, group-mean baseline) and `vcpo` (the same
ratios, its optimal baseline, its step rule), both at the same batch, samples, optimizer and step. That is the step of a
grid whose return, averaged over synchronous runs on held-out seeds, is best. `factor` says how many times that step was
taken: once, and at the oldest data also half of it, twice and four times.
`staleness` in versions, constant; 0 is synchronous. A row has one `quantity`, told by `part`:
step      for each step of the grid, synchronous, held-out seeds: mean_return over a run, and solved (share)
curve     at an `update`: return (exact, of the current policy; mean), ess (share of samples that still count; mean),
          kl (nats per sequence from behavior to current policy; median), gradient_norm (before the clip; median); of
          single replicates where `replicate` is not -1
end       after `horizon` updates: final (mean return over the last tenth), collapsed and solved (shares of replicates,
          see `_vcpo.Outcome`), clipped (share of updates whose gradient norm exceeds 1), idle (of the last tenth's
          whose gradient is 0), entropy (exact, nats per token, median over the last tenth `among` solved replicates or
          unsolved ones)
anatomy   medians around the onset of collapse, `among` collapsed replicates or others of the same arm at the same
          updates (each at the onset of one of the collapsed ones): spike, largest gradient norm within 8 updates over
          its median 8 to 32 before; after, median 8 to 32 after over that before
Intervals: 95 percent over replicates (means: t; shares: Wilson; medians: order statistics).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import _vcpo

COLUMNS = [
    "part", "problem", "optimizer", "staleness", "arm", "step", "factor", "quantity", "horizon", "update", "replicate",
    "among", "value", "low", "high", "samples", "note",
]  # fmt: skip
CASES = {
    ("graded", "adam"): (0.2, (0.05, 0.1, 0.2, 0.4, 0.8)),
    ("exact", "adam"): (0.8, (0.4, 0.8, 1.6, 3.2, 6.4, 12.8)),
    ("noisy", "adam"): (0.2, (0.1, 0.2, 0.4, 0.8, 1.6)),
    ("graded", "sgd"): (100.0, (25.0, 50.0, 100.0, 200.0, 400.0)),
}
"""The step of each problem and optimizer, and the grid that it was chosen from."""
FACTORS = (0.5, 2.0, 4.0)
"""Shares of the step at which training on the oldest data is repeated: whether it collapses depends on the step."""
ARMS = {"truncated": "group mean", "vcpo": "opob"}
SHOWN, LEVELS, FEWER = 32, (0, 2, 8, 32, _vcpo.OLDEST), (0, 32, _vcpo.OLDEST)
NEAR, FAR = 8, 32
"""Updates around the onset of a collapse: spikes are looked for within the first and compared up to the second."""


def _setting(part: str, case: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {"part": part, "problem": case[0], "optimizer": case[1], "horizons": _vcpo.horizons(0), "seed": 0, **more}


def _steps(case: tuple[str, str], choosing: int, **more: Any) -> dict[str, Any]:
    return _setting("step", case, steps=list(CASES[case][1]), choosing=choosing, **more)


def _training(case: tuple[str, str], staleness: int, arm: str, replicates: int, **more: Any) -> dict[str, Any]:
    shape = {"staleness": staleness, "arm": arm, "step": CASES[case][0], "replicates": replicates, "every": 4}
    return _setting("training", case, **{**shape, "horizons": _vcpo.horizons(staleness), **more})


def _bolder(problem: str, arm: str, replicates: int, **more: Any) -> dict[str, Any]:
    shape = _training((problem, "adam"), _vcpo.OLDEST, arm, replicates, factors=list(FACTORS))
    return {**shape, "part": "factors", **more}


SETTINGS = [
    *(_steps(case, 384) for case in CASES),
    *(_training(("graded", "adam"), staleness, arm, 256) for staleness in LEVELS for arm in ARMS),
    *(_training(case, staleness, arm, 256) for case in list(CASES)[1:] for staleness in FEWER for arm in ARMS),
    *(_bolder(problem, arm, 64) for problem in _vcpo.PROBLEMS for arm in ARMS),
]
QUICK = [
    *({**_steps(case, 2), "horizons": [60]} for case in CASES),
    *(
        _training(case, staleness, arm, 12, horizons=_vcpo.horizons(staleness, 60, 90))
        for case in CASES
        for staleness in FEWER
        for arm in ARMS
    ),
    *(_bolder(problem, arm, 4, horizons=[20, 30]) for problem in _vcpo.PROBLEMS for arm in ARMS),
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one grid of steps, or of one arm at one staleness, at the step or at multiples of it."""
    return {"step": grid, "training": training, "factors": factors}[setting["part"]](setting)


def grid(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """What becomes of synchronous training at every step."""
    found = _vcpo.grid(setting["problem"], 0, "group mean", setting["optimizer"], (), setting)
    rows = []
    for place, step in enumerate(setting["steps"]):
        curve, more = found[:, place], {"staleness": 0, "arm": "truncated", "step": step}
        rows.append(_row(setting, "step", "mean_return", _vcpo.mean(curve.mean(axis=0)), **more))
        rows.append(_row(setting, "step", "solved", _vcpo.share(_vcpo.outcome(curve).solved), **more))
    return rows


def training(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Curves, ends and the anatomy of collapse of one arm."""
    found = _train(setting, setting["step"], setting["replicates"])
    rows = [row for horizon in setting["horizons"] for row in ends(setting, found, horizon)]
    rows += anatomy(setting, found)
    # The figure shows curves of one staleness beside those of none.
    return rows + curves(setting, found) if setting["staleness"] in (0, SHOWN) else rows


def factors(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Ends of one arm at multiples of its step."""
    each, steps = setting["replicates"], [factor * setting["step"] for factor in setting["factors"]]
    found = _train(setting, np.repeat(steps, each), each * len(steps))
    rows = []
    for place, (factor, step) in enumerate(zip(setting["factors"], steps, strict=True)):
        part = {name: values[:, place * each : (place + 1) * each] for name, values in found.items()}
        own = {**setting, "factor": factor, "step": step}
        rows += [row for horizon in setting["horizons"] for row in ends(own, part, horizon)]
    return rows


def _train(setting: dict[str, Any], step: Any, replicates: int) -> dict[str, np.ndarray]:
    arm, optimizer = setting["arm"], setting["optimizer"]
    tail = (_vcpo.ess_step(optimizer),) if arm == "vcpo" else ()
    links = _vcpo.update(optimizer, step, *tail)
    sizes = (setting["horizons"][-1], replicates, setting["seed"])
    return _vcpo.train(setting["problem"], setting["staleness"], ARMS[arm], links, *sizes, record=_vcpo.RECORDED)


def curves(setting: dict[str, Any], found: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Curves of all replicates, and of the first eight one by one where collapse can be seen."""
    named = {"return": "policy_return", "ess": "ess", "kl": "kl_k1", "gradient_norm": "gradient_norm"}
    average = {"return": _vcpo.mean, "ess": _vcpo.mean, "kl": _vcpo.median, "gradient_norm": _vcpo.median}
    rows = []
    for u in range(0, setting["horizons"][-1], setting["every"]):
        for quantity, name in named.items():
            rows.append(_row(setting, "curve", quantity, average[quantity](found[name][u]), update=u))
        if setting["staleness"] and setting["arm"] == "truncated":
            for quantity in ("return", "gradient_norm"):
                for r, value in enumerate(found[named[quantity]][u][:8].tolist()):
                    single = {"value": value, "low": value, "high": value, "samples": 1, "note": ""}
                    rows.append(_row(setting, "curve", quantity, single, update=u, replicate=r))
    return rows


def ends(setting: dict[str, Any], found: dict[str, np.ndarray], horizon: int) -> list[dict[str, Any]]:
    """What became of the replicates after so many updates."""
    out, norm = _vcpo.outcome(found["policy_return"][:horizon]), found["gradient_norm"][:horizon]
    last = norm[-max(1, len(norm) // 10) :]
    measured = {
        "final": _vcpo.mean(out.final),
        "collapsed": _vcpo.share(out.collapsed),
        "solved": _vcpo.share(out.solved),
        "clipped": _vcpo.mean((norm > 1.0).mean(axis=0)),
        "idle": _vcpo.mean((last == 0.0).mean(axis=0)),
    }
    rows = [_row(setting, "end", quantity, value, horizon=horizon) for quantity, value in measured.items()]
    late = found["policy_entropy"][:horizon][-len(last) :].mean(axis=0)
    for among, which in (("solved", out.solved), ("unsolved", ~out.solved)):
        enough = which.sum() > 1
        value = _vcpo.median(late[which]) if enough else _vcpo.missing(f"{which.sum()} replicates {among}")
        rows.append(_row(setting, "end", "entropy", value, among=among, horizon=horizon))
    return rows


def anatomy(setting: dict[str, Any], found: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Gradient norms around the onset of collapse, beside those of replicates that did not, at the same updates."""
    out, norm = _vcpo.outcome(found["policy_return"]), found["gradient_norm"]
    inside = (out.onset >= FAR) & (out.onset < len(norm) - FAR)
    fallen, others = np.flatnonzero(out.collapsed & inside), np.flatnonzero(~out.collapsed)
    rows = []
    for among, which in (("collapsed", fallen), ("others", others)):
        if len(fallen) < 2 or len(which) < 2:
            why = f"{len(fallen)} replicates collapsed in mid-run, {len(others)} did not"
            rows += [_row(setting, "anatomy", q, _vcpo.missing(why), among=among) for q in ("spike", "after")]
            continue
        at = out.onset[fallen] if among == "collapsed" else out.onset[fallen][np.arange(len(which)) % len(fallen)]
        spike, after = around(norm, which, at)
        rows.append(_row(setting, "anatomy", "spike", _vcpo.median(spike), among=among))
        rows.append(_row(setting, "anatomy", "after", _vcpo.median(after), among=among))
    return rows


def around(norm: np.ndarray, which: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Spike and aftermath of gradient norms `[U, R]` of replicates `which` around updates `at`."""

    def window(first: int, last: int) -> np.ndarray:
        return np.stack([norm[at + u, which] for u in range(first, last)])

    # A gradient that is exactly 0 is below every positive one, whatever the unit.
    before = np.maximum(np.median(window(-FAR, -NEAR), axis=0), np.finfo(float).tiny)
    return window(-NEAR, NEAR).max(axis=0) / before, np.median(window(NEAR, FAR), axis=0) / before


def _row(setting: dict[str, Any], part: str, quantity: str, found: dict[str, Any], **more: Any) -> dict[str, Any]:
    place = {name: setting.get(name) for name in ("problem", "optimizer", "staleness", "arm", "step")}
    none = {"factor": setting.get("factor", 1.0), "horizon": setting["horizons"][-1], "update": -1, "replicate": -1}
    return {"part": part, **place, **none, "quantity": quantity, "among": "", **found, **more}
