"""Slips in weights, factors, penalties and aggregators."""

from __future__ import annotations

from tests.defects.slips import slip

M, F, P = "asyncsim.methods", "asyncsim.factors", "asyncsim.penalties"

slip(68, "clips", "PPO: the two bounds swapped", f"{M}._weights:Clip.score_weight",
     "1.0 - per_sample(self.low), 1.0 + per_sample(self.high)",
     "1.0 - per_sample(self.high), 1.0 + per_sample(self.low)")  # fmt: skip
slip(69, "clips", "clipped on both sides whatever the sign of the advantage", f"{M}._weights:movable",
     "times(beyond, advantage.sign()).le_(0.0)", "beyond.eq(0.0).to(beyond.dtype)")  # fmt: skip
slip(70, "clips", "dual clip for positive advantages", f"{M}._surrogates:DualClip.score_weight",
     "(advantage < 0) & ", "(advantage > 0) & ")  # fmt: skip
slip(71, "clips", "CISPO: upper bound of the weight forgotten", f"{M}.cispo:ClippedWeight.applied",
     ".clamp(max=highest)", "")  # fmt: skip
slip(72, "clips", "SAPO: the two steepnesses swapped", f"{M}.sapo:SoftGate.score_weight",
     "self.positive, self.negative", "self.negative, self.positive")  # fmt: skip
slip(73, "clips", "Clip-Cov and KL-Cov: covariance with the probability, not its log", f"{M}._covariance:covariance",
     'step.current["log_prob"]', 'step.current["log_prob"].exp()')  # fmt: skip
slip(74, "clips", "KL-Cov: the pull goes away from the anchor", f"{M}.kl_cov:CovariancePull.score_weight",
     ".sub_(pull)", ".add_(pull)")  # fmt: skip
slip(75, "truncation", "ratios of tokens truncated before their product", f"{M}._weights:Ratio.applied",
     "step.sequence(log_ratio) if", "step.sequence(log_ratio.clamp(max=0.7)) if")  # fmt: skip
slip(76, "truncation", "three policies: rollout weight to the current weights, not to the batch's",
     f"{M}._importance:TruncatedClip.carried",
     "step.behavior_log_ratio", "step.log_ratio")  # fmt: skip
slip(77, "truncation", "self-normalized over sequences where tokens were asked for, and the reverse",
     f"{M}._importance:NormalizedRatio._mean",
     'self.normalize == "tokens"', 'self.normalize != "tokens"')  # fmt: skip
slip(78, "truncation", "floor of the ratio forgotten", f"{M}._importance:BoundedRatio.applied",
     "at_least(at_most(ratios.usable(at_level(step, self.level)), self.cap), self.floor)",
     "at_most(ratios.usable(at_level(step, self.level)), self.cap)")  # fmt: skip
slip(79, "token weights", "prefix product without the token itself", f"{M}._importance:PrefixRatio.applied",
     "step.log_ratio.cumsum(-1)", "step.log_ratio.cumsum(-1) - step.log_ratio")  # fmt: skip
slip(80, "token weights", "per-decision: rewards to go counted as rewards",
     f"{M}._importance:PerDecision.score_weight",
     "to_go - next_generated(to_go, mask)", "to_go")  # fmt: skip
slip(81, "token weights", "A-3PO: age counted from 1", f"{M}.a3po:InterpolatedClip.score_weight",
     "age.clamp(min=1.0)", "(age + 1.0)")  # fmt: skip
slip(82, "token weights", "binary KL: the two policies swapped", f"{M}.dppo_kl:BinaryKL.inside",
     'step.behavior["log_prob"], step.current["log_prob"]',
     'step.current["log_prob"], step.behavior["log_prob"]')  # fmt: skip
slip(83, "token weights", "DPPO: room for a fall and for a rise swapped", f"{M}._surrogates:near",
     "-per_sample(low), per_sample(high)", "-per_sample(high), per_sample(low)")  # fmt: skip
slip(84, "sequence weights", "GSPO: product of the ratios instead of their geometric mean",
     f"{M}.gspo:GeometricClip.applied",
     "step.geometric(", "step.sequence(")  # fmt: skip
slip(85, "sequence weights", "GMPO: ratios not clipped inside the mean",
     f"{M}.gmpo:GeometricMeanOfClips.score_weight",
     "limited = torch.where(up, log_ratio.clamp(max=highest), log_ratio.clamp(min=lowest))",
     "limited = log_ratio")  # fmt: skip
slip(86, "sequence weights", "TOPR: taper not held at 1", f"{M}.topr:Tapered.score_weight",
     ".clamp(max=1.0)", "")  # fmt: skip
slip(87, "sequence weights", "VESPO: settings of positive and negative advantages swapped",
     f"{M}.vespo:Gamma.score_weight",
     "advantage >= 0", "advantage < 0")  # fmt: skip
slip(88, "sequence weights", "mean over the padded length", "asyncsim.learning.step:Step.geometric",
     "self.lengths.clamp(min=1.0).unsqueeze(-1)", "self.mask.shape[3]")  # fmt: skip
slip(89, "regression", "DRO: pulled away from the behavior policy", f"{M}._regression:Residual.score_weight",
     "advantage - per_sample", "advantage + per_sample")  # fmt: skip
slip(90, "regression", "TBA: log ratios not centered over the group", f"{M}.tba:Tba.score_weight",
     "(gap - counted.sum(2, keepdim=True))", "gap")  # fmt: skip
slip(91, "regression", "OAPL: factor 2 beta forgotten", f"{M}.oapl:Oapl.score_weight",
     "2.0 * beta * (", "(")  # fmt: skip
slip(92, "adaptive weights", "M2PO: second moment not divided by the number of tokens",
     f"{M}.m2po_mask:M2poMask._threshold",
     "_adaptive.row(self.tau) * mass", "_adaptive.row(self.tau)")  # fmt: skip
slip(93, "adaptive weights", "BAPO: bounds stop one step short of their caps", f"{M}._bapo:_grid",
     "torch.arange(steps + 1", "torch.arange(max(steps, 1)")  # fmt: skip
slip(94, "adaptive weights", "P3O: penalty weighted by the ESS, not by what it lacks", f"{M}.p3o:P3o.score_weight",
     "times(slope, 1.0 - ess)", "times(slope, ess)")  # fmt: skip
slip(95, "adaptive weights", "SAT: quantile one token too high", f"{M}.sat:Sat._gate",
     "(masses < goal)", "(masses <= goal)")  # fmt: skip
slip(96, "corrections", "ACER: correction without the state's value", f"{M}._corrections:Corrected.spread",
     'step.current["action_values"] - state_value(step).unsqueeze(-1)', 'step.current["action_values"]')  # fmt: skip
slip(97, "corrections", "scores centered under the current policy", f"{M}._corrections:Centered.spread",
     "if self.truncated else drawn", "if self.truncated else prob")  # fmt: skip
slip(98, "critic", "factor 2 of the squared error forgotten", f"{M}._method:Method.cotangents",
     "2.0 * self.critic * ", "self.critic * ")  # fmt: skip
slip(99, "entropy bonus", "subtracted instead of added", f"{M}._method:Method.cotangents",
     "{name: value * share for", "{name: -value * share for")  # fmt: skip
slip(100, "ratios", "a user's loss: its gradient is climbed", f"{M}._from_loss:Loss.score_weight",
     "            return -gradient\n", "            return gradient\n")  # fmt: skip

slip(101, "factors", "band: the lower bound is one over the upper", f"{F}._factor:Band.keep",
     "value >= log_bound(self.low)", "value >= -log_bound(self.high)")  # fmt: skip
slip(102, "factors", "geometric mask: log ratios summed, not averaged", f"{F}.masks:GeometricMask.value",
     "step.geometric(", "step.sequence(")  # fmt: skip
slip(103, "factors", "k2 mask: half of the square forgotten", f"{F}.masks:K2Mask.statistic",
     "0.5 * ", "")  # fmt: skip
slip(104, "factors", "k3 mask: the other direction", f"{F}.masks:K3Mask.statistic",
     "torch.expm1(of_tokens) - of_tokens", "torch.expm1(-of_tokens) + of_tokens")  # fmt: skip
slip(105, "factors", "veto: drops the token, not the sequence", f"{F}.masks:TokenVeto.keep",
     ".all(-1, keepdim=True)", "")  # fmt: skip
slip(106, "factors", "OPSM: drops positive advantages", f"{F}.masks:Opsm.keep",
     "(advantage >= 0)", "(advantage <= 0)")  # fmt: skip
slip(107, "factors", "drop_stale: the limit itself is dropped", f"{F}.by_age:DropStale.keep",
     "age <= per_sample", "age < per_sample")  # fmt: skip
slip(108, "factors", "staleness_weight: age^-a instead of (1 + age)^-a", f"{F}.by_age:StalenessWeight._weight",
     "torch.log1p(age)", "torch.log(age.clamp(min=1.0))")  # fmt: skip
slip(109, "factors", "log_clamp: falls are never clamped", f"{F}.regions:LogClamp.keep",
     "each.abs() <= ", "each <= ")  # fmt: skip
slip(110, "factors", "tv_mask: half of |r - 1|", f"{F}.regions:TvMask.keep",
     "distance = step.geometric(", "distance = 0.5 * step.geometric(")  # fmt: skip
slip(111, "factors", "of several factors the last one counts", f"{M}._method:Method.factor",
     "nothing, product * factor)", "nothing, factor)")  # fmt: skip

slip(112, "penalties", "k3: the other direction", f"{P}.divergences:K3.slope",
     "1.0 - ratios.usable(-gap)", "ratios.usable(gap) - 1.0")  # fmt: skip
slip(113, "penalties", "k2: half of the square forgotten", f"{P}.divergences:K2.slope",
     "return gap if", "return 2.0 * gap if")  # fmt: skip
slip(114, "penalties", "reward: a token answers for its own log ratio only", f"{P}.divergences:Reward.slope",
     "gap.flip(-1).cumsum(-1).flip(-1)", "gap")  # fmt: skip
slip(115, "penalties", "straight-through: the slope of its value", f"{P}.divergences:StraightThrough.slope",
     "return gap", "return 1.0 - ratios.usable(-gap)")  # fmt: skip
slip(116, "penalties", "exact: pulled away from the anchor", f"{P}.divergences:Exact.spread",
     "above - below)", "below - above)")  # fmt: skip
slip(117, "penalties", "penalty to the behavior policy taken to the proximal one, and the reverse",
     f"{P}._divergence:Penalty.gap",
     'if self.to == "behavior"', 'if self.to != "behavior"')  # fmt: skip
slip(118, "penalties", "subtracted instead of added", f"{P}._divergence:Sampled.score_weight",
     "return -per_sample", "return per_sample")  # fmt: skip

slip(119, "aggregators", "sequence_mean: over the padded length", f"{M}._method:sequence_mean",
     "step.lengths.clamp(min=1.0)", "step.mask.shape[-1]")  # fmt: skip
slip(120, "aggregators", "token_mean: tokens of each group first", f"{M}._method:token_mean",
     ".sum((1, 2), keepdim=True)", ".sum(2, keepdim=True) * step.groups")  # fmt: skip
slip(121, "aggregators", "constant: over the longest of the batch", f"{M}._method:constant",
     "step.mask.shape[-1]", "step.lengths.amax()")  # fmt: skip
slip(122, "aggregators", "sequence_sum: groups added up, not averaged", f"{M}._method:sequence_sum",
     "(step.mass / step.groups)", "step.mass")  # fmt: skip
