"""How five trainers call a policy loss, in few lines: their arguments, shapes and dtypes, two micro-batches per update.

Each takes the function and a batch `[B, T]`, and leaves the gradient of the whole update in the log-probs. What a
trainer does around the call is done here too: verl's counts of the global batch, TRL's accumulation, AReaL's packing
and its weights of micro-batches, SkyRL's divided advantages, the sequences of prime-rl.
"""

from collections import defaultdict
from types import SimpleNamespace

import torch

from asyncsim.conformance.adapters import _truncated

MODES = {
    "verl": {
        "token_mean": "token-mean",
        "sequence_mean": "seq-mean-token-mean",
        "sequence_sum": "seq-mean-token-sum",
        "constant": "seq-mean-token-sum-norm",
    },
    "skyrl": {"token_mean": "token_mean", "sequence_mean": "sequence_mean", "constant": "seq_mean_token_sum_norm"},
}


def verl(fn, b, parts, method, old, cap):
    """Two ranks with the same rows: counts are global, and the mean over ranks is undone by dp_size."""
    counts = {"dp_size": 2, "batch_num_tokens": 2 * int(b.mask.sum()), "global_batch_size": 2 * len(b.mask)}
    config = SimpleNamespace(global_batch_info=counts | {"loss_scale_factor": b.mask.shape[1]})
    for rows in parts:
        weights = None if cap is None else _truncated(b.proximal, b.behavior, b.mask, cap).float()[rows]
        loss, metrics = fn(
            old_log_prob=getattr(b, old)[rows].float(),
            log_prob=b.log_prob[rows],
            advantages=b.advantages[rows].float(),
            response_mask=b.mask[rows].bool(),
            loss_agg_mode=MODES["verl"][method.aggregator],
            config=config,
            rollout_is_weights=weights,
        )
        assert all(isinstance(value, float) for value in metrics.values())
        loss.backward()


def trl(fn, b, parts, method, old, cap):
    class Trainer:
        _compute_loss = fn

        def __init__(self):
            self.model, self.beta = SimpleNamespace(training=True), 0.0
            self.current_gradient_accumulation_steps, self.max_completion_length = len(parts), b.mask.shape[1]
            self.accelerator = SimpleNamespace(num_processes=2, gather=lambda value: torch.stack([value, value]))
            self._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}

        def _get_per_token_logps_and_entropies(self, model, tokens, attended, kept, **_):
            assert tokens.shape == attended.shape and kept == b.mask.shape[1]
            return b.log_prob[self.rows], None, None

    trainer = Trainer()
    for rows in parts:
        trainer.rows, n = rows, len(b.mask[rows])
        inputs = {
            "prompt_ids": torch.ones(n, 3, dtype=torch.long),
            "prompt_mask": torch.ones(n, 3, dtype=torch.long),
            "completion_ids": torch.ones(b.mask[rows].shape, dtype=torch.long),
            "completion_mask": b.mask[rows].long(),
            "advantages": b.advantages[rows][:, 0].float(),
            "num_items_in_batch": 2 * b.mask.sum().long(),
            "old_per_token_logps": b.proximal[rows].float(),
            "sampling_per_token_logps": b.behavior[rows].float(),
        }
        trainer._compute_loss(trainer.model, inputs).backward()
    assert len(trainer._metrics["train"]["clip_ratio/region_mean"]) == len(parts)


def areal(fn, b, parts, method, old, cap):
    """Sequences of their own lengths in one row; a micro-batch counts by its tokens."""
    for rows in parts:
        lengths = [int(row.nonzero().max()) + 1 for row in b.mask[rows]]

        def packed(values, rows=rows, lengths=lengths):
            return torch.cat([row[:n] for row, n in zip(values[rows], lengths, strict=True)])

        mask = packed(b.mask).bool()
        loss, stat = fn(
            logprobs=packed(b.log_prob),
            old_logprobs=packed(b.behavior).float(),
            advantages=packed(b.advantages).float(),
            eps_clip=0.2,
            eps_clip_higher=None,
            loss_mask=mask,
            c_clip=None,
            proximal_logprobs=packed(b.proximal).float(),
            rejection_sampling=None,
            importance_sampling_level="token",
            cu_seqlens=torch.tensor([0, *lengths]).cumsum(0).int(),
        )
        assert all(stat[key].shape == mask.shape for key in ("loss", "importance_weight", "approx_kl"))
        assert stat["clip_mask"].dtype == stat["dual_clip_mask"].dtype == torch.bool
        (loss * mask.sum() / b.mask.sum()).backward()


def skyrl(fn, b, parts, method, old, cap):
    config = SimpleNamespace(loss_reduction=MODES["skyrl"][method.aggregator])
    size = {
        "token_mean": b.mask.sum(),
        "sequence_mean": len(b.mask) * b.mask.sum(1, keepdim=True),
        "constant": b.mask.numel(),
    }[method.aggregator]
    for rows in parts:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss, metrics = fn(
                b.log_prob[rows],
                b.proximal[rows].float(),
                (b.advantages / size)[rows].float(),
                config=config,
                loss_mask=b.mask[rows].float(),
                rollout_logprobs=b.behavior[rows].float(),
            )
        assert isinstance(metrics["clip_ratio"], float)
        loss.backward()


def prime_rl(fn, b, parts, method, old, cap):
    """One sequence a call; the second has weights of 1 for its tokens, which must change nothing."""
    outputs = [
        fn(
            SimpleNamespace(
                trainer_logprobs=b.log_prob[i],
                inference_logprobs=b.behavior[i].float(),
                ref_logprobs=None,
                advantages=b.advantages[i].float(),
                loss_mask=b.mask[i].bool(),
                loss_weights=torch.ones(b.mask.shape[1]) if i == 1 else None,
            )
        )
        for i in range(len(b.mask))
    ]
    assert torch.stack([output.metrics["stopped"] for output in outputs]).isfinite().all()
    (torch.stack([output.loss for output in outputs]).sum() / b.mask.sum()).backward()
