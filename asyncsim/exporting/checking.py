"""Check that exported code equals its method if it is called as its trainer calls it."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from asyncsim.conformance import adapters
from asyncsim.conformance._loss_subject import Loss
from asyncsim.conformance.losses import check_loss
from asyncsim.conformance.reports import ConformanceError, LossReport
from asyncsim.methods._method import Method
from asyncsim.updates._link import Chain, Record

TOLERANCE = 1e-6
"""Largest difference of a token's gradient, relative to its size."""


def check(fn: Callable[..., Any], method: Method, trainer: str, old: str, cap: Any) -> tuple[LossReport, float]:
    """Check an exported loss: the report of `check_loss` and the maximum deviation, or a `ConformanceError`."""
    loss = called(fn, method, trainer, old, cap)
    deviation = max(difference(loss, method, *batch) for batch in batches(trainer == "trl"))
    if not deviation <= TOLERANCE:
        raise ConformanceError(f"{fn.__name__}: the gradient of a token differs by {deviation:.2g} of itself")
    report = check_loss(loss, method, bias=False)
    return report.raise_for_failure(), deviation


def function(text: str, name: str) -> Callable[..., Any]:
    """Execute Python source and return its function of this name."""
    scope: dict[str, Any] = {}
    exec(compile(text, f"{name}.py", "exec"), scope)
    made: Callable[..., Any] = scope[name]
    return made


def called(fn: Callable[..., Any], method: Method, trainer: str, old: str = "behavior", cap: Any = None) -> Loss:
    """Loss of five tensors `[B, T]` that calls an exported function as its trainer does."""

    def trl(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        trainer = SimpleNamespace(
            model=SimpleNamespace(training=True),
            beta=0.0,
            accelerator=SimpleNamespace(num_processes=1, gather=lambda value: value),
            current_gradient_accumulation_steps=1,
            max_completion_length=mask.shape[1],
            _metrics={"train": defaultdict(list)},
            _get_per_token_logps_and_entropies=lambda *_, **__: (log_prob, None, None),
        )
        return fn(trainer, trainer.model, adapters.trl_inputs(proximal, behavior, advantages, mask))

    def areal(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        # Packed: all sequences in one row, and where each begins.
        ends = torch.arange(len(mask) + 1, dtype=torch.int32) * mask.shape[1]
        flat = [x.reshape(-1) for x in (log_prob, proximal, behavior, advantages)]
        return fn(*flat, 0.2, mask.reshape(-1) > 0, cu_seqlens=ends)[0]

    def skyrl(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        reduction = {"constant": "seq_mean_token_sum_norm"}.get(method.aggregator, method.aggregator)
        size: Any = {"token_mean": mask.sum(), "constant": mask.numel()}.get(method.aggregator)
        if method.aggregator == "sequence_mean":
            size = len(mask) * mask.sum(-1, keepdim=True).clamp(min=1)
        config = SimpleNamespace(loss_reduction=reduction)
        return fn(log_prob, proximal, advantages / size, config=config, loss_mask=mask, rollout_logprobs=behavior)[0]

    def prime_rl(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        def one(log_prob: Tensor, behavior: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
            inputs = SimpleNamespace(trainer_logprobs=log_prob, inference_logprobs=behavior, advantages=advantages)
            vars(inputs).update(loss_mask=mask > 0, ref_logprobs=None, loss_weights=None)
            value: Tensor = fn(inputs).loss
            return value

        return torch.func.vmap(one)(log_prob, behavior, advantages, mask).sum() / mask.sum()

    if trainer == "verl":
        return adapters.verl(fn, old=old, cap=cap)
    loss = {"trl": trl, "areal": areal, "skyrl": skyrl, "prime_rl": prime_rl}[trainer]
    if trainer == "trl":
        vars(loss)["advantages_per"] = "sequence"
    return loss


def batches(per_sequence: bool) -> Iterator[tuple[Tensor, ...]]:
    """Log-probs of three policies, advantages and a mask with holes, `[8, 6]` in float64: near, far, impossible.

    What stands on masked tokens is NaN, as padding may be. In the last batch one token is impossible for the sampler,
    so that its ratio is infinite, one for the policy at the start of the batch, and one for the current policy.
    """
    draw = torch.Generator().manual_seed(0)
    size: Any = {"size": (8, 6), "generator": draw, "dtype": torch.float64}
    for lag, drift in ((0.0, 0.0), (0.05, 0.05), (0.3, 0.3), (1.5, 1.0), (0.3, 0.2)):
        behavior = -0.05 - 4.0 * torch.rand(**size)
        proximal = (behavior + lag * torch.randn(**size)).clamp(max=-0.01)
        log_prob = (proximal + drift * torch.randn(**size)).clamp(max=-0.01)
        advantages = torch.randn(**size)
        mask = (torch.rand(**size) < 0.8).double().index_fill_(1, torch.tensor([0]), 1.0)
        if (lag, drift) == (0.3, 0.2):
            behavior[0, 0] = proximal[1, 0] = log_prob[2, 0] = -torch.inf
        if per_sequence:
            advantages = advantages[:, :1].expand(8, 6)
        yield (*(x.masked_fill(mask == 0, torch.nan) for x in (log_prob, behavior, proximal)), advantages, mask)


def difference(loss: Loss, method: Method, log_prob: Tensor, *others: Tensor) -> float:
    """Maximum relative deviation of a token's gradient in a loss from the method's gradient; infinite for NaN."""
    behavior, proximal, advantages, mask = others
    ours, theirs = (log_prob.clone().requires_grad_() for _ in range(2))
    expected = method.loss(theirs, behavior, proximal, advantages=advantages, mask=mask, categorical=False)
    (found,), (right,) = torch.autograd.grad(loss(ours, *others), ours), torch.autograd.grad(expected, theirs)
    gap = (found - right).abs() / right.abs().clamp(min=1e-6 * float(right.abs().max()))
    return float(gap.masked_fill(found == right, 0.0).nan_to_num(torch.inf).max())


def check_step(step: Callable[..., Any], link: Any) -> float:
    """Maximum relative deviation of an exported step from the link's; raises `ConformanceError` if it is large."""
    draw = torch.Generator().manual_seed(0)
    weights = [torch.nn.Parameter(torch.zeros(size, dtype=torch.float64)) for size in ((2, 3), (4,))]
    optimizer, memory, chain = torch.optim.SGD(weights, lr=1.0), dict[str, Any](), Chain((link,))
    states, gradient, worst = chain.init(torch.zeros(1, 10, dtype=torch.float64)), torch.zeros(10).double(), 0.0
    for k in range(24):
        noise = torch.randn(10, generator=draw, dtype=torch.float64)
        gradient = (0.0, 0.3, 1.0, 6.0)[k % 4] * gradient + (0.0 if k == 9 else 1.0) * noise
        log_ratios = 0.2 * k * torch.randn(16, generator=draw, dtype=torch.float64)
        log_ratios[: k % 3] = -torch.inf if k < 20 else torch.inf
        # Only these two statistics of a step are read by links.
        mass = torch.full((1, 1, 16), 1 / 16)
        batch: Any = SimpleNamespace(sequence_log_ratio=log_ratios.reshape(1, 1, 16), step_mass=mass)
        record = Record(-gradient.reshape(1, 10), torch.zeros(1, dtype=torch.bool), batch)
        record, states = chain.apply(record, states)
        before = torch.cat([p.detach().flatten().clone() for p in weights])
        for p, g in zip(weights, gradient.split([6, 4]), strict=True):
            p.grad = g.reshape(p.shape).clone()
        step(optimizer, log_ratios if "log_prob" in getattr(link, "outputs", ()) else memory)
        moved = torch.cat([p.detach().flatten() for p in weights]) - before
        gap = (moved - record.direction[0]).norm() / gradient.norm().clamp(min=1e-300)
        worst = max(worst, float(gap))
    if not worst <= TOLERANCE:
        raise ConformanceError(f"{step.__name__}: a step differs by {worst:.2g} of the gradient")
    return worst
