"""Methods: loss functions, each with an advantage, a weight on the score and an aggregator."""

from typing import Any, Literal

from asyncsim.advantages._advantage import Advantage
from asyncsim.base.knobs import Number
from asyncsim.methods._estimator import estimator as estimator
from asyncsim.methods._from_loss import from_loss as from_loss
from asyncsim.methods._method import Method
from asyncsim.methods._method import added as added
from asyncsim.methods.regression import asymre as asymre
from asyncsim.methods.regression import gradient as gradient

_Anchor = Literal["behavior", "proximal"]
_Aggregator = Literal["sequence_sum", "sequence_mean", "token_mean", "constant"]

def a2c(
    advantage: Advantage | None = None,
    critic: float = 0.5,
    entropy: float = 0.0,
    aggregator: _Aggregator = "token_mean",
    at: str = "current",
) -> Method:
    """Advantage actor-critic without an importance ratio; the advantage is the return minus the critic's value."""

def a3c(
    steps: int = 5,
    advantage: Advantage | None = None,
    critic: float = 0.5,
    entropy: float = 0.0,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """Asynchronous actor-critic (A3C): all gradients are taken at the parameters that sampled the data."""

def a3po(
    low: Number = 0.2, high: Number = 0.2, advantage: Advantage | None = None, aggregator: _Aggregator = "token_mean"
) -> Method:
    """A-3PO: decoupled PPO whose proximal log-probs are interpolated according to staleness, instead of computed."""

def acer(
    cap: Number = 10.0,
    advantage: Advantage | None = None,
    critic: float = 0.5,
    entropy: float = 0.0,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """ACER: a truncated ratio for the sampled action, and a bias correction that sums over all actions."""

def bapo_code(
    target: Number = 1.0,
    low: Number = 0.6,
    low_cap: Number = 0.8,
    high: Number = 1.2,
    high_cap: Number = 2.0,
    dual: Number = 3.0,
    count: Literal["code", "gradient"] = "code",
    low_step: Number = 0.05,
    high_step: Number = 0.05,
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
    scope: Literal["step", "micro_batch"] = "step",
    micro_batches: int = 1,
) -> Method:
    """BAPO as released: the lower clip bound is raised first, and there is a dual clip."""

def bapo_paper(
    target: Number = 0.4,
    low: Number = 0.6,
    low_cap: Number = 0.9,
    high: Number = 1.2,
    high_cap: Number = 3.0,
    count: Literal["code", "gradient"] = "code",
    low_step: Number = 0.02,
    high_step: Number = 0.05,
    weigh: Literal["none", "behavior"] = "none",
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
    scope: Literal["step", "micro_batch"] = "step",
    micro_batches: int = 1,
) -> Method:
    """BAPO, paper form: clip bounds are raised until positive advantages supply a target share of the loss."""

def cispo(
    low: Number = 1.0,
    high: Number = 4.0,
    anchor: _Anchor = "behavior",
    cap: Number | None = None,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
    mask: tuple[Number, Number] | None = None,
) -> Method:
    """CISPO: a clipped importance weight multiplies the score, so that no token loses its gradient."""

def clip_cov(
    share: Number = 0.0002,
    lower: Number = 1.0,
    upper: Number = 5.0,
    low: Number = 0.2,
    high: Number = 0.2,
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """Clip-Cov: PPO's clip, and no gradient for some tokens with a high covariance of advantage and log-prob."""

def dapo(
    low: Number = 0.2,
    high: Number = 0.28,
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """DAPO: PPO's clip with a higher upper bound and token-mean aggregation; groups of equal rewards are dropped."""

def decoupled_ppo(
    low: Number = 0.2,
    high: Number = 0.2,
    cap: Number | None = 5.0,
    beyond: Literal["truncate", "drop"] = "truncate",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """Decoupled PPO: a clip around the policy at the start of the batch, times that policy's ratio to behavior."""

def delight(
    temperature: Number = 1.0, advantage: Advantage | None = None, aggregator: _Aggregator = "token_mean"
) -> Method:
    """Delightful policy gradient: every token is weighted by a gate of advantage times surprisal, without a ratio."""

def dppo_kl(
    low: Number = 0.05,
    high: Number = 0.05,
    cap: Number | None = 10.0,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """DPPO, binary KL: mask tokens outside of the trust region that the update would move further away from behavior."""

def dppo_prime(
    low: Number = 0.2,
    high: Number = 0.2,
    kl: Number = 0.001,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """DPPO as in prime-rl: untruncated ratios, the mask of `dppo_tv`, and a penalty on squared log ratios."""

def dppo_tv(
    low: Number = 0.2,
    high: Number = 0.2,
    cap: Number | None = 10.0,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """DPPO, binary total variation: mask tokens whose probability has moved too far in their advantage's direction."""

def dro(
    tau: Number = 0.1,
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """DRO: regression per token with weight A - tau l, l the token's log ratio (also Kimi's loss as coded per token)."""

def estr(
    limit: Number = 0.5,
    floor: Number = 0.01,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """ESTR: token ratios inside a trust region whose width is proportional to the entropy at the token."""

def full_is(
    level: Literal["token", "sequence"] = "sequence",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "sequence_sum",
) -> Method:
    """Untruncated importance sampling: the advantage is multiplied by the ratio of the sequence or of the token."""

def geometric_rs(
    low: Any = 0.999,
    high: Any = 1.001,
    weight: Literal["none", "token", "sequence"] = "none",
    cap: Number | None = None,
    ratio: str = "r",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """Rejection sampling of sequences by the geometric mean of their token ratios."""

def gipo(
    sigma: Number = 1.0,
    limit: float = 5.0,
    lowest: float = 0.0067,
    highest: float = 148.0,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """GIPO: token ratios damped by a Gaussian of the log ratio."""

def gmc_grpo(
    cap: Number = 2.0, advantage: Advantage | None = None, aggregator: _Aggregator = "sequence_mean"
) -> Method:
    """Group-mass capping: sequence ratios of a group are scaled down together if their mean exceeds a cap."""

def gmpo(
    low: Number = 0.4,
    high: Number = 0.4,
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "sequence_mean",
) -> Method:
    """GMPO: the geometric mean of token ratios, each of which is clipped in log space."""

def grpo(
    low: Number = 0.2,
    high: Number = 0.2,
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "sequence_mean",
    critic: float = 0.0,
    entropy: float = 0.0,
    kl: Number = 0.0,
) -> Method:
    """GRPO: group-standardized rewards, clipped token ratios, sequence-mean aggregation and an optional KL penalty."""

def gspo(
    low: Number = 0.0003,
    high: Number = 0.0004,
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "sequence_mean",
) -> Method:
    """GSPO: PPO's clip applied to the geometric mean of a sequence's token ratios."""

def icepop(
    low: Any = 0.5,
    high: Any = 2.0,
    ratio: str = "r",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """IcePop, masked importance sampling: the weight is the token ratio inside a band, and 0 outside of it."""

def ipo_mask(
    threshold: Number = 0.1,
    kl: Number = 0.001,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """INTELLECT policy optimization: mask tokens whose probability has moved too far from behavior in any direction."""

def kimi(
    tau: Number = 0.1,
    half: bool = True,
    anchor: _Anchor = "proximal",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "sequence_sum",
) -> Method:
    """Kimi k1.5: policy mirror descent as a regression with weight A - tau L, L the log ratio of the sequence."""

def kl_cov(
    share: Number = 0.0002,
    coefficient: Number = 1.0,
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """KL-Cov: unclipped token ratios, and a KL penalty on tokens with the highest covariance of advantage and log-prob."""

def kpop(
    threshold: Number = 0.05,
    kl: Number = 0.001,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """KPop: mask tokens with a large binary KL divergence between behavior and current policy, in either direction."""

def m2po_areal(
    tau: Number = 0.04,
    low: Number = 0.2,
    high: Number = 0.2,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
    scope: Literal["step", "micro_batch"] = "step",
    micro_batches: int = 1,
) -> Method:
    """M2PO as in AReaL: tokens with large log ratios are dropped, then PPO clips around the proximal policy."""

def m2po_mask(
    tau: Number = 0.04,
    over: Literal["harmful", "all"] = "harmful",
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
    scope: Literal["step", "micro_batch"] = "step",
    micro_batches: int = 1,
) -> Method:
    """M2PO, mask form: drop the most extreme log ratios that a step would increase, until the mean square is <= tau."""

def m2po_waterfill(
    tau: Number = 0.04,
    exact: bool = False,
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
    scope: Literal["step", "micro_batch"] = "step",
    micro_batches: int = 1,
) -> Method:
    """M2PO as released: PPO's clip with bounds exp(+-theta), where water-filling finds theta."""

def oapl(beta: Number = 1.0, advantage: Advantage | None = None, aggregator: _Aggregator = "sequence_sum") -> Method:
    """OAPL: least-squares regression of a sequence's log ratio on its optimal advantage."""

def opmd(
    tau: Number = 1.0,
    baseline: Literal["mean", "soft"] = "mean",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """OPMD: REINFORCE without ratios, with advantages divided by 1 + tau."""

def p3o(
    kl: Literal["ratio", "code"] = "ratio",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
    scope: Literal["step", "micro_batch"] = "step",
    micro_batches: int = 1,
) -> Method:
    """P3O: token ratios are capped at the step's normalized ESS, and a KL penalty has weight 1 - ESS."""

def per_decision_is(advantage: Advantage | None = None, aggregator: _Aggregator = "sequence_sum") -> Method:
    """Per-decision importance sampling: every reward is weighted by the ratio of the tokens up to it."""

def ppo_clip(
    low: Number = 0.2,
    high: Number = 0.2,
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
    critic: float = 0.0,
    entropy: float = 0.0,
    dual: Number | None = None,
) -> Method:
    """PPO: the token ratio to the chosen anchor policy is clipped."""

def prefix_is(advantage: Advantage | None = None, aggregator: _Aggregator = "sequence_sum") -> Method:
    """Importance sampling of prefixes: every token is weighted by the product of the ratios up to it."""

def reinforce(
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "sequence_sum",
    at: str = "current",
    entropy: float = 0.0,
    critic: float = 0.0,
) -> Method:
    """REINFORCE: the advantage times the score of the current policy, without a ratio that corrects for stale data."""

def retrace(
    cap: Number | None = None,
    advantage: Advantage | None = None,
    critic: float = 0.5,
    entropy: float = 0.0,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """Actor-critic with Retrace: the ratio multiplies Retrace's action value minus the value of the state."""

def sapo(
    positive: Number = 1.0,
    negative: Number = 1.05,
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "sequence_mean",
) -> Method:
    """SAPO: a smooth sigmoid gate instead of PPO's clip."""

def sat(
    low: Number = 0.2,
    high: Number = 0.2,
    quantile: Number = 0.9,
    kernel: Literal["continuous", "hill"] = "continuous",
    anchor: _Anchor = "behavior",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
    scope: Literal["step", "micro_batch"] = "step",
    micro_batches: int = 1,
) -> Method:
    """SAT: PPO's clip, with tighter bounds for tokens whose absolute log ratio exceeds a quantile."""

def score_centering(
    weight: Literal["none", "truncated"] = "none",
    cap: Number = 2.0,
    top: int | None = None,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """Score centering: the sampler's mean score is subtracted from every token's gradient."""

def sequence_mis(
    low: Any = 0.5,
    high: Any = 2.0,
    weight: Literal["sequence", "token", "none"] = "sequence",
    ratio: str = "r",
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """Masked importance sampling of sequences: the weight is the sequence ratio inside a band, and 0 outside of it."""

def tba(beta: Number = 0.014, advantage: Advantage | None = None, aggregator: _Aggregator = "sequence_sum") -> Method:
    """TBA: trajectory balance in VarGrad form; it reduces the variance of log pi - log pi_ref - r/beta in each group."""

def three_policy_tis(
    cap: Number = 2.0,
    low: Number = 0.2,
    high: Number = 0.2,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
    floor: Number | None = None,
) -> Method:
    """Truncated weights for staleness and for engine mismatch, times PPO's clip for updates within a batch."""

def topr(advantage: Advantage | None = None, aggregator: _Aggregator = "sequence_sum") -> Method:
    """TOPR: no ratio for samples with A >= 0, and the truncated sequence ratio for samples with A < 0."""

def topr_roll(
    positive: Number = 1.0,
    negative: Number = 1.0,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """TOPR as in ROLL: as `topr`, but with token ratios, and chosen by the sign of the reward, not of the advantage."""

def truncated_is(
    level: Literal["token", "sequence", "geometric"] = "sequence",
    cap: Number | None = None,
    advantage: Advantage | None = None,
    aggregator: _Aggregator | None = None,
    normalize: Literal["none", "tokens", "sequences"] = "none",
    floor: Number | None = None,
) -> Method:
    """Truncated importance sampling: the ratio of the sequence or token, truncated at `cap`, times the advantage."""

def vcpo(cap: Number = 8.0, advantage: Advantage | None = None, aggregator: _Aggregator = "sequence_mean") -> Method:
    """VCPO: truncated sequence ratios and off-policy optimal baseline; the link `ess_step` scales the learning rate."""

def vespo(
    k_positive: Number = 2.0,
    lam_positive: Number = 3.0,
    k_negative: Number = 3.0,
    lam_negative: Number = 2.0,
    advantage: Advantage | None = None,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """VESPO: the weight of a sequence is a gamma-shaped function of its ratio, with parameters for each sign of A."""

def vtrace(
    cap: Number = 1.0,
    advantage: Advantage | None = None,
    critic: float = 0.5,
    entropy: float = 0.0,
    aggregator: _Aggregator = "token_mean",
) -> Method:
    """V-trace actor-critic (IMPALA): truncated ratios in the returns and on the score."""
