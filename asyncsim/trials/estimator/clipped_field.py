"""Updates of every clipped, truncated or masked method on all responses of a stale policy, behind a first update."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch import Tensor

from asyncsim import advantages, methods, penalties
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.trials._plants import with_method
from asyncsim.trials._ragged import TABLES, planted, read, stepped
from asyncsim.trials._sequences import token_level
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped


def _surrogate(log_prob: Tensor, behavior_log_prob: Tensor, advantage: Tensor) -> Tensor:
    """A loss as a user writes it."""
    return -(log_prob - behavior_log_prob).exp() * advantage


_KNOBS = ("low", "high", "cap", "floor", "scale")
_MADE: dict[str, Callable[[Any], Method]] = {
    "full_is": lambda p: methods.full_is(),
    "full_is_token": lambda p: methods.full_is("token"),
    "user_loss": lambda p: methods.from_loss(_surrogate),
    "tba": lambda p: methods.tba(p["scale"]),
    "vcpo": lambda p: methods.vcpo(p["cap"]),
    "a3po": lambda p: methods.a3po(p["low"], p["high"]),
    "icepop_pulled": lambda p: methods.icepop(p["floor"], p["cap"]).replace(
        penalties=(penalties.k2(2.0 * p["scale"], to="behavior"),)
    ),
    "topr_shifted": lambda p: methods.topr(advantages.group_mean(p["scale"])),
    "truncated_whole": lambda p: methods.truncated_is("sequence", p["cap"]),
    "truncated_token": lambda p: methods.truncated_is("token", p["cap"]),
    "truncated_sequence": lambda p: methods.truncated_is("sequence", p["cap"], floor=p["floor"]),
    "truncated_geometric": lambda p: methods.truncated_is("geometric", p["cap"]),
    "normalized_tokens": lambda p: methods.truncated_is("token", p["cap"], normalize="tokens"),
    "normalized_sequences": lambda p: methods.truncated_is("token", p["cap"], normalize="sequences"),
    "cispo": lambda p: methods.cispo(p["low"], p["high"]),
    "cispo_rollout": lambda p: methods.cispo(p["low"], p["high"], "proximal", p["cap"]),
    "cispo_masked": lambda p: methods.cispo(1.0, p["cap"] - 1.0, mask=(p["low"], p["high"])),
    "ppo_clip": lambda p: methods.ppo_clip(p["low"], p["high"]),
    "ppo_dual": lambda p: methods.ppo_clip(p["low"], p["high"], dual=p["cap"]),
    "dapo": lambda p: methods.dapo(p["low"], p["high"]),
    "grpo": lambda p: methods.grpo(p["low"], p["high"]),
    "decoupled_ppo": lambda p: methods.decoupled_ppo(p["low"], p["high"], p["cap"]),
    "decoupled_drop": lambda p: methods.decoupled_ppo(p["low"], p["high"], p["cap"], "drop"),
    "three_policy_tis": lambda p: methods.three_policy_tis(p["cap"], p["low"], p["high"], floor=p["floor"]),
    "icepop": lambda p: methods.icepop(p["floor"], p["cap"]),
    "icepop_lag": lambda p: methods.icepop(p["floor"], p["cap"], "h"),
    "sequence_mis": lambda p: methods.sequence_mis(p["floor"], p["cap"]),
    "geometric_rs": lambda p: methods.geometric_rs(p["floor"], p["cap"], "token", 1.0 + p["scale"]),
    "gspo": lambda p: methods.gspo(p["low"], p["high"]),
    "gmpo": lambda p: methods.gmpo(p["low"], p["high"]),
    "sapo": lambda p: methods.sapo(p["scale"], 1.0 + p["scale"]),
    "topr": lambda p: methods.topr(),
    "topr_roll": lambda p: methods.topr_roll(p["scale"], 1.0 + p["scale"]),
    "dppo_kl": lambda p: methods.dppo_kl(p["low"], p["high"], p["cap"]),
    "dppo_tv": lambda p: methods.dppo_tv(p["low"], p["high"], p["cap"]),
    "dppo_prime": lambda p: methods.dppo_prime(p["low"], p["high"], p["scale"]),
    "vespo": lambda p: methods.vespo(p["scale"], p["cap"], p["cap"], p["scale"]),
    "kpop": lambda p: methods.kpop(p["high"], p["scale"]),
    "ipo_mask": lambda p: methods.ipo_mask(p["high"], p["scale"]),
    "estr": lambda p: methods.estr(p["high"], p["floor"]),
    "gipo": lambda p: methods.gipo(p["scale"]),
    "delight": lambda p: methods.delight(p["scale"]),
    "dro": lambda p: methods.dro(p["scale"]),
    "kimi": lambda p: methods.kimi(p["scale"]),
    "oapl": lambda p: methods.oapl(p["scale"]),
    "opmd": lambda p: methods.opmd(p["scale"], "soft"),
    "asymre": lambda p: methods.asymre(-p["scale"]),
    "prefix_is": lambda p: methods.prefix_is(),
    "per_decision_is": lambda p: methods.per_decision_is(),
    "m2po_mask": lambda p: methods.m2po_mask(p["scale"]),
    "m2po_all": lambda p: methods.m2po_mask(p["scale"], "all"),
    "m2po_areal": lambda p: methods.m2po_areal(p["scale"], p["low"], p["high"]),
    "m2po_waterfill": lambda p: methods.m2po_waterfill(p["scale"]),
    "bapo_paper": lambda p: methods.bapo_paper(p["scale"]),
    "bapo_code": lambda p: methods.bapo_code(1.0 / p["scale"]),
    "bapo_gradient": lambda p: methods.bapo_code(1.0 / p["scale"], count="gradient"),
    "sat": lambda p: methods.sat(p["low"], p["high"], p["scale"]),
    "sat_hill": lambda p: methods.sat(p["low"], p["high"], p["scale"], "hill"),
    "p3o": lambda p: methods.p3o(),
    "p3o_code": lambda p: methods.p3o("code"),
    "clip_cov": lambda p: methods.clip_cov(p["scale"], p["floor"], p["cap"], p["low"], p["high"]),
    "kl_cov": lambda p: methods.kl_cov(p["scale"], p["cap"]),
}


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    # Every method has some of the knobs.
    knobs = {name: point[name] for name in _KNOBS}
    # The reference of those that have one is the policy at the start of the batch.
    spec = planted(point, _MADE[point["method"]](knobs), plant, reference=point["proximal_logits"])
    age = point["staleness"]
    step = stepped(spec, point, lambda batch: dataclasses.replace(batch, train_version=age, age=None))
    return read(step.gradient, point)


class _Swapped(Wrapped):
    """A weight whose gates read the other sign of A."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """What passes for -A, with the sign of A."""
        weight: Tensor = -self._inner.score_weight(step, -advantage)
        return weight


class _Inverted(Wrapped):
    """A weight whose bounds act on mu/pi in place of pi/mu."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """The weight of the inverse ratios, its ratio turned over."""
        turned = dataclasses.replace(step)
        for name in ("log_ratio", "drift", "behavior_log_ratio"):
            setattr(turned, name, -getattr(step, name))
        weight: Tensor = self._inner.score_weight(turned, advantage) * (2.0 * step.anchored).exp()
        return weight


def _with_weight(wrapper: type[Wrapped]) -> Plant:
    return lambda spec: spec.replace(method=spec.method.replace(weight=wrapper(spec.method.weight)))


def _knob(**settings: Any) -> Plant:
    """A plant: the weight with other settings."""

    def plant(spec: Any) -> Any:
        weight: Any = spec.method.weight
        return spec.replace(method=spec.method.replace(weight=dataclasses.replace(weight, **settings)))

    return plant


_POINT = {**TABLES, "staleness": 2, "low": 0.35, "high": 0.55, "cap": 1.35, "floor": 0.735, "scale": 0.5}


def _at(method: str, **knobs: Any) -> dict[str, Any]:
    return {**_POINT, "method": method, **knobs}


# Knobs at which each method stops some tokens and leaves others.
_OTHER: dict[str, dict[str, Any]] = {
    "m2po_mask": {"scale": 0.15}, "m2po_all": {"scale": 0.29}, "m2po_areal": {"scale": 0.045},
    "m2po_waterfill": {"scale": 0.1}, "dppo_kl": {"low": 0.115, "high": 0.105}, "dppo_tv": {"low": 0.18, "high": 0.26},
    "dppo_prime": {"low": 0.18, "high": 0.26, "scale": 0.1}, "kpop": {"high": 0.105, "scale": 0.1},
    "ipo_mask": {"high": 0.18, "scale": 0.1}, "estr": {"high": 0.5}, "geometric_rs": {"scale": 0.3},
    "clip_cov": {"scale": 0.05}, "kl_cov": {"scale": 0.2}, "bapo_paper": {"scale": 0.77}, "bapo_code": {"scale": 0.35},
    "bapo_gradient": {"scale": 0.4}, "a3po": {"low": 0.15, "high": 0.25}, "topr_shifted": {"scale": 0.15},
    "sat": {"scale": 0.2}, "sat_hill": {"scale": 0.05}, "gspo": {"high": 0.1}, "oapl": {"scale": 0.3},
    "decoupled_ppo": {"low": 0.15, "cap": 1.25}, "decoupled_drop": {"low": 0.15, "high": 0.35},
    "three_policy_tis": {"low": 0.15, "high": 0.35, "cap": 1.25}, "cispo_rollout": {"high": 0.35, "cap": 1.25},
    "ppo_dual": {"cap": 1.2}, "icepop": {"floor": 0.7}, "truncated_geometric": {"cap": 1.1},
}  # fmt: skip
# Bad responses that the policy has come to like, and large ratios, are seen the other way round.
_OTHER["topr"] = _OTHER["full_is"] = {
    "behavior_logits": TABLES["current_logits"],
    "current_logits": TABLES["behavior_logits"],
}
_POINTS = {name: _at(name, **_OTHER.get(name, {})) for name in _MADE}

trial = Trial(
    # A user's loss is differentiated by a part of torch that takes a second to load.
    points=tuple(point for name, point in _POINTS.items() if name != "user_loss"),
    more=(_POINTS["user_loss"], _at("decoupled_ppo", high=0.05), _at("gmpo", low=0.05), _at("bapo_paper", scale=0.9)),
    measure=_measure,
    defects={
        "sides of PPO's gate swapped": Defect(_with_weight(_Swapped), _POINTS["decoupled_ppo"]),
        "sides of GMPO's gate swapped": Defect(_with_weight(_Swapped), _POINTS["gmpo"]),
        "sides of a region in probabilities swapped": Defect(_with_weight(_Swapped), _POINTS["dppo_tv"]),
        "bounds on the inverse ratio": Defect(_with_weight(_Inverted), _POINTS["dapo"]),
        "anchored elsewhere": Defect(with_method(anchor="behavior"), _POINTS["kimi"]),
        "tokens in place of sequences": Defect(token_level(1.35), _POINTS["truncated_sequence"]),
        "sequence mean in place of token mean": Defect(with_method(aggregator="sequence_mean"), _POINTS["dapo"]),
        "not standardized": Defect(with_method(advantage=advantages.group_mean()), _POINTS["gspo"]),
        "pull to behavior forgotten": Defect(with_method(penalties=()), _POINTS["dppo_prime"]),
        "mean over sequences, not tokens": Defect(_knob(normalize="sequences"), _POINTS["normalized_tokens"]),
        "second moment of all tokens": Defect(_knob(over="all"), _POINTS["m2po_mask"]),
        "mask forgotten": Defect(with_method(factors=()), _POINTS["icepop"]),
    },
    effect=0.02,
    through="oracle",
)
