"""Tokens a second of a language model's sampler against `transformers`' own loop, eager, on the same weights and rows.

A Llama of 30 blocks and width 32 spends its time on launches, as one on a GPU does: there the loop of fixed shapes
stands against `generate`. A wider one spends it on numbers, as models on a CPU do: there a prompt is read once for all
of its samples. Random weights say different things in every row, so no response is shared. All rows are drawn to the
end; `generate` gives no log-probabilities, ours does.
"""

from __future__ import annotations

import functools
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np

from benchmarks._record import Benchmark

SHAPES: dict[str, dict[str, Any]] = {
    "deep": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 30, "num_attention_heads": 2},
    "wide": {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 8},
}
VOCABULARY = 512


class Case(NamedTuple):
    """A model, how tokens are drawn, prompts of `length` to `length` - 7 ids, samples of each, and tokens to draw."""

    shape: str
    decode: str
    prompts: int
    samples: int
    length: int
    tokens: int

    @property
    def ids(self) -> np.ndarray:
        """Prompts `[prompts, samples, length]`, padded with -1 on the left; no two begin alike."""
        ids = np.random.default_rng(0).integers(2, VOCABULARY, (self.prompts, self.length))
        padding = np.arange(self.prompts) % 8
        ids[np.arange(self.prompts), padding] = 2 + np.arange(self.prompts)
        ids = np.where(np.arange(self.length) < padding.reshape(-1, 1), -1, ids)
        return np.repeat(ids[:, None], self.samples, 1)

    def rate(self, begin: float) -> float:
        """Tokens a second since `begin`."""
        return self.prompts * self.samples * self.tokens / (time.perf_counter() - begin)


@functools.cache
def made(shape: str, decode: str) -> tuple[Any, Any, Any]:
    """A policy, the view of its weights, and the network of `transformers`, of the same random weights."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models

    import asyncsim as sim
    from asyncsim.step.versions import current

    torch.manual_seed(0)
    transformers.logging.disable_progress_bar()
    words = {f"<{number}>": number for number in range(VOCABULARY)}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="<0>")), eos_token="<1>", pad_token="<0>"
    )
    options: dict[str, Any] = {
        "num_key_value_heads": 1,
        "max_position_embeddings": 128,
        "vocab_size": VOCABULARY,
        "eos_token_id": 1,
    }
    network: Any = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPES[shape], **options)).eval()
    with tempfile.TemporaryDirectory() as folder:
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        policy = sim.policies.causal_lm(folder, decode=decode)
        # Weights are read while the folder is there.
        return policy, current(policy.prepare(policy.initial(1))), network


def ours(case: Case) -> float:
    """Tokens a second of the policy."""
    import torch

    from asyncsim.base import rng
    from asyncsim.policies._policy import Written
    from asyncsim.step.batch import Draws
    from asyncsim.step.versions import threads

    policy, view, _ = made(case.shape, case.decode)
    seen = torch.from_numpy(case.ids)[None]
    numbers = np.arange(case.prompts * case.samples).reshape(1, case.prompts, case.samples)
    draws = Draws(rng.Stream(0, "rollout"), np.arange(1), np.zeros(1, dtype=np.int64), numbers)
    mask = torch.zeros(*seen.shape[:3], case.tokens)
    mask[..., 0] = 1.0
    begin = time.perf_counter()
    with threads(1):
        if policy.writes(view.weights):
            policy.write(view, seen, draws, (), Written(None, mask, {}))
        else:
            memory = policy.remember(seen)
            for token in range(case.tokens):
                policy.act(view, seen, draws, token, memory)
    return case.rate(begin)


def theirs(case: Case) -> float:
    """Tokens a second of `generate`."""
    import torch

    from asyncsim.step.versions import threads

    network = made(case.shape, case.decode)[2]
    ids = torch.from_numpy(case.ids).flatten(0, 1)
    about = {"attention_mask": (ids >= 0).long(), "do_sample": True, "top_k": 0, "top_p": 1.0, "pad_token_id": 0}
    length = {"max_new_tokens": case.tokens, "min_new_tokens": case.tokens, "eos_token_id": None}
    begin = time.perf_counter()
    with threads(1), torch.no_grad():
        network.generate(ids.clamp(min=0), **about, **length)
    return case.rate(begin)


def benchmark(what: str, target: float, *case: Any) -> Benchmark:
    """Both sides of a case."""
    sides = functools.partial(ours, Case(*case)), functools.partial(theirs, Case(*case))
    return Benchmark(*sides, "tokens/s", f"{what}, against `generate` of transformers", target, "transformers")


BENCHMARKS = {
    "decode_launches": benchmark(
        "8 unlike prompts, a Llama of 30 blocks and width 32, loop of fixed shapes", 1.0, "deep", "fixed", 8, 1, 15, 48
    ),
    "decode_launches_128": benchmark("the same on 32 prompts x 4 samples", 1.0, "deep", "fixed", 32, 4, 15, 48),
    "decode_unlike": benchmark(
        "32 unlike prompts, a Llama of 6 blocks and width 512", 1.0, "wide", "packed", 32, 1, 64, 32
    ),
    "decode_groups": benchmark("the same on 4 prompts x 32 samples of 16 tokens", 2.5, "wide", "packed", 4, 32, 64, 16),
}
