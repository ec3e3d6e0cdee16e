"""Bugs of weights, masks, baselines and aggregators."""

import dataclasses
import importlib
import itertools
import math

import torch

from asyncsim.advantages import _advantage
from asyncsim.advantages.baselines import GroupStd
from asyncsim.advantages.optimal import Otb
from asyncsim.factors import _factor
from asyncsim.factors._factor import Band
from asyncsim.methods import _adaptive, _method, _weights
from asyncsim.methods._adaptive import Adaptive, Parts
from asyncsim.methods._method import Method
from asyncsim.methods.adaptive import M2poWaterfill
from asyncsim.methods.clipped import A3po, DecoupledPpo
from asyncsim.methods.importance import truncated_is
from asyncsim.methods.shaped import Topr
from asyncsim.penalties.divergences import K2
from asyncsim.step import ratios
from asyncsim.step.step import Step
from asyncsim.updates.steps import EssStep
from tests.defects.plants import plant

METHODS, EVERY = "tests/contracts/test_methods.py", "tests/contracts/test_every_plugin.py"
ADVANTAGES, FIELD = "tests/contracts/test_advantages.py", "tests/contracts/test_field.py"
LINKS = "tests/contracts/test_links.py"
PRINTED = f"{METHODS}::test_score_weights_are_those_of_the_printed_loss"
SQUARES = f"{ADVANTAGES}::test_opob_minimizes_the_second_moment"


@plant(1, "advantages", "OPOB weights by w^4", "VCPO release", SQUARES, method="full_is", aggregator="sequence_sum")
def fourth_power():
    right = Step.score_norm.func
    return [(Step, "score_norm", property(lambda self: right(self) * self.sample_weight**2))]


@plant(
    2, "advantages", "score norm without 1/T", "VCPO release", SQUARES, method="truncated_is",
    aggregator="sequence_mean",
)  # fmt: skip
def forgotten_length():
    def norm(self):
        share = (self.batch.mask * self.applied).expand(self.batch.mask.shape)
        return self.policy.score_norm(self.view, self.batch, share)

    return [(Step, "score_norm", property(norm))]


@plant(
    3, "links", "ESS control fails open", "VCPO release, FeynRL", f"{LINKS}::test_ess_step_fails_closed",
    bad=[torch.inf, 0.0, 0.0, 0.0],
)  # fmt: skip
def open_control():
    right = EssStep.apply

    def apply(self, record, state):
        before = record.direction
        record, state = right(self, record, state)
        broken = record.statistics["ess_step_broken"] > 0
        record.direction = torch.where(broken.unsqueeze(-1), before, record.direction)
        record.statistics["ess_step_scale"] = torch.where(broken, 1.0, record.statistics["ess_step_scale"])
        return record, state

    return [(EssStep, "apply", apply)]


@plant(7, "ratios", "ratio identically 1", "AReno", PRINTED, name="ppo_clip")
def detached_anchor():
    return [(Step, "log_ratio", property(lambda self: torch.zeros_like(self.mask)))]


@plant(8, "anchors", "anchor recomputed with the current weights", "SkyRL default", PRINTED, name="ppo_clip")
def clipping_off():
    return [(Step, "anchored", property(lambda self: self.drift))]


@plant(
    13, "penalties", "penalty inside the kept mask only", "prime-rl, earlier",
    f"{FIELD}::test_masks_leave_penalties_alone",
)  # fmt: skip
def masked_penalty():
    right = Method._of_scores

    def wrong(self, step, share):
        if not (self.factors and self.penalties):
            return right(self, step, share)
        found = right(self.replace(factors=()), step, share)
        advantages = step.advantages
        wide = advantages if advantages.ndim == 4 else advantages.unsqueeze(-1)
        for part in self.factors:
            found["log_prob"] = found["log_prob"] * part.factor(step, wide)
        return found

    return [(Method, "_of_scores", wrong)]


@plant(
    14, "aggregators", "masked tokens shrink the denominator", "slime, ROLL, TRL, open-instruct",
    f"{FIELD}::test_rejected_tokens_stay_in_the_denominator", aggregator="token_mean",
)  # fmt: skip
def shrunk_denominator():
    right = Method._of_scores

    def wrong(self, step, share):
        found = right(self, step, share)
        kept = (found["log_prob"] != 0).to(share.dtype)
        whole, left = (x.sum((1, 2, 3), keepdim=True) for x in (share.expand(kept.shape), share * kept))
        found["log_prob"] = found["log_prob"] * whole / left
        return found

    return [(Method, "_of_scores", wrong)]


@plant(
    15, "aggregators", "sequences without tokens dropped from B", "several",
    f"{FIELD}::test_a_sequence_without_tokens_is_a_sequence", aggregator="sequence_mean",
)  # fmt: skip
def dropped_sequences():
    right = _method.sequence_mean

    def wrong(step):
        some = (step.lengths > 0).to(step.mass.dtype)
        return right(step) * some.numel() / some.sum()

    return [(_method.AGGREGATORS, "sequence_mean", wrong)]


@plant(16, "truncation", "truncated ratio left differentiable", "prime-rl, fixed", PRINTED, name="truncated_is token")
def differentiable_cap():
    def at_most(weight, cap):
        return torch.where(weight > _weights.per_sample(cap), torch.zeros_like(weight), weight)

    return [(_weights, "at_most", at_most)]


@plant(
    17, "masks", "0 * inf through a multiplicative mask", "prime-rl, NeMo-RL",
    f"{FIELD}::test_masked_tokens_of_given_tensors_cannot_matter", name="full_is", garbage=torch.inf,
)  # fmt: skip
def multiplied_mask():
    return [(ratios, "log_ratio", lambda current, anchor, mask: (current - anchor) * mask)]


@plant(
    18, "truncation", "infinite weights mapped to 0 before the cap", "NeMo-RL",
    f"{EVERY}::test_weights_rise_with_the_log_ratio_to_the_end", method=truncated_is("token"),
)  # fmt: skip
def vanishing_infinity():
    return [(ratios, "usable", lambda log: torch.nan_to_num(log.exp(), posinf=0.0))]


@plant(
    31, "advantages", "group of one unnoticed", "GRPO and RLOO paths of verl", f"{ADVANTAGES}::test_groups_of_one",
    name="group_std",
)  # fmt: skip
def lonely_group():
    return [(_advantage.GroupBaseline, "check", lambda self, samples_per_group: None)]


@plant(
    32, "advantages", "std with N - 1 where N is meant", "paths of one trainer",
    f"{METHODS}::test_score_weights_are_those_of_the_printed_loss", name="grpo",
)  # fmt: skip
def other_deviation():
    right = GroupStd.__call__
    return [(GroupStd, "__call__", lambda self, samples: right(self, samples) * (1.0 - 1.0 / samples.size) ** 0.5)]


@plant(
    33, "micro-batches", "micro-batches averaged by their own denominators", "several",
    "tests/contracts/test_micro_batches.py::test_the_split_does_not_change_the_gradient", name="reinforce",
)  # fmt: skip
def local_denominator():
    right = _method._cuts

    def forward(policy, view, batch, names, parts):
        found = _right_forward(policy, view, batch, names, parts)
        if parts == 1:
            return found
        axis, edges = right(batch, parts)
        sizes = [b - a for a, b in itertools.pairwise(edges)]
        scale = torch.cat([torch.full((n,), edges[-1] / (n * parts), dtype=torch.float64) for n in sizes])
        shape = [1, 1, 1, 1]
        shape[axis] = -1

        def pullback(cotangents):
            return found.pullback({k: v * scale.reshape(shape + [1] * (v.ndim - 4)) for k, v in cotangents.items()})

        return found._replace(pullback=pullback)

    return [(_method, "forward", forward)]


_right_forward = _method.forward


@plant(
    39, "ratios", "ratios pooled over replicates", "a broadcast",
    f"{METHODS}::test_score_weights_are_those_of_the_printed_loss", name="truncated_is",
)  # fmt: skip
def pooled():
    return [(Step, "sequence", lambda self, log: log.mean(0, keepdim=True).expand(log.shape).sum(-1, keepdim=True))]


@plant(
    9, "factors", "bounds on k1 act on 1/r", "verl",
    "tests/methods/test_factors.py::test_bounds_act_on_the_ratio_and_not_on_its_inverse",
)  # fmt: skip
def inverse_bounds():
    def keep(self, step, advantage):
        value = -_factor.at_level(step, _factor.log_ratio(step, self.ratio), self.level)
        return (value >= _factor.log_bound(self.low)) & (value <= _factor.log_bound(self.high))

    return [(Band, "keep", keep)]


@plant(12, "penalties", "k1 as a differentiable loss", "prime-rl, earlier", PRINTED, name="dppo_prime")
def constant_slope():
    return [(K2, "slope", lambda self, seen, gap: torch.ones_like(gap))]


@plant(25, "truncation", "behavior weight not applied", "AReaL default", PRINTED, name="decoupled_ppo")
def no_lag_weight():
    return [(DecoupledPpo, "carried", lambda self, seen: torch.ones_like(seen.mask))]


@plant(
    26, "truncation", "rollout weight applied twice", "CISPO with TIS",
    "tests/methods/test_weighted_scores.py::test_a_rollout_weight_is_not_applied_twice",
)  # fmt: skip
def twice():
    return [(importlib.import_module("asyncsim.methods.clipped"), "_once", lambda anchor: None)]


@plant(
    30, "sequence weights", "branch on the score, size from an advantage of the other sign", "ROLL", PRINTED,
    name="topr shifted",
)  # fmt: skip
def other_sign():
    def score_weight(self, seen, advantage):
        ratio = ratios.usable(seen.sequence(seen.log_ratio)).clamp(max=1.0)
        return torch.where(seen.reward.unsqueeze(-1) > 0, advantage, ratio * advantage)

    return [(Topr, "score_weight", score_weight)]


@plant(40, "clips", "A-3PO's snapshot not detached", "a port", PRINTED, name="a3po")
def live_snapshot():
    right = A3po.score_weight
    return [
        (
            A3po,
            "score_weight",
            lambda self, seen, advantage: right(self, seen, advantage) / seen.staleness.clamp(min=1.0),
        )
    ]


@plant(
    34, "advantages", "weights outside the running sum, not inside", "verl: code and docstring",
    "tests/methods/test_distributions.py::test_by_hand",
)  # fmt: skip
def outside_the_sum():
    right = Otb._energy

    def energy(self, samples, mask):
        return right(dataclasses.replace(self, where="outside"), samples, mask)

    return [(Otb, "_energy", energy)]


@plant(
    41, "advantages", "V-trace's product one token off", "several",
    "tests/methods/test_corrections.py::test_a_product_one_token_off_is_seen",
)  # fmt: skip
def shifted_traces():
    module = importlib.import_module("asyncsim.advantages.traces")
    right = module.corrected

    def corrected(found, discount, weight, keep):
        return right(found, discount, weight, torch.nn.functional.pad(keep[..., 1:], (0, 1)))

    return [(module, "corrected", corrected)]


@plant(
    27, "adaptive weights", "the search for a bound moves its statistic the wrong way", "BAPO release", PRINTED,
    name="bapo_code gradient",
)  # fmt: skip
def wrong_way():
    right = _adaptive._sums

    def sums(seen, parts, rises, size, lows, highs, count):
        return right(seen, parts, rises, size, lows, highs, "code")

    return [(_adaptive, "_sums", sums)]


@plant(
    28, "micro-batches", "adaptive threshold of a micro-batch", "M2PO, BAPO, P3O releases", PRINTED,
    name="m2po_mask",
)  # fmt: skip
def split_threshold():
    def parts(self, seen):
        several = seen.mask.shape[1] * seen.mask.shape[2] > 1 and math.isfinite(seen.size)
        return Parts(seen, max(self.micro_batches, 2 if several else 1))

    return [(Adaptive, "parts", parts)]


@plant(
    29, "adaptive weights", "water level one breakpoint too low", "M2PO release",
    "tests/methods/test_m2po.py::test_the_exact_level_solves_its_equation",
)  # fmt: skip
def stepped_back():
    right = M2poWaterfill._level
    return [(M2poWaterfill, "_level", lambda self, order: right(dataclasses.replace(self, exact=False), order))]
