"""Sampling from a small language model against `generate` of transformers on the same network, tokens per second.

A Llama of 11 million random weights answers 32 equal prompts of 8 tokens with 48 tokens. Ours also records every
token's log-prob and draws with keys. Where only the likeliest token may be drawn both must say the same.
"""

from __future__ import annotations

import functools
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.step.versions import threads
from benchmarks._record import Benchmark

LETTERS = "0123456789+-=abcdefghijklmnopqrst"
PROMPT, TOKENS, ROWS = "12+34=ab", 48, 32
SHAPE: dict[str, Any] = {
    "hidden_size": 384,
    "intermediate_size": 1024,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "max_position_embeddings": 128,
    "initializer_range": 0.1,
}


@functools.cache
def network() -> Any:
    """The network; random weights cost as much as trained ones."""
    import transformers

    # The vocabulary: padding, end, letters. No end is ever drawn, so that both sides write all tokens.
    config = transformers.LlamaConfig(vocab_size=2 + len(LETTERS), eos_token_id=None, **SHAPE)
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


def saved(folder: Path) -> str:
    """Write network and tokenizer as transformers does."""
    import transformers
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {word: number for number, word in enumerate(["<pad>", "<end>", *LETTERS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), "isolated")
    words.decoder = decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", pad_token="<pad>")
    transformers.logging.disable_progress_bar()
    network().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@functools.cache
def policy(top_k: int = 0) -> Any:
    """The product's policy on that network."""
    import asyncsim as sim

    with tempfile.TemporaryDirectory() as folder:
        made = sim.policies.causal_lm(saved(Path(folder)), top_k=top_k)
        assert made.size > 0, "the weights are read here, while the folder is there"
    return made


def prompt() -> Tensor:
    """Ids of the prompt, the same in all rows."""
    return torch.tensor(policy().tokenizer.encode(PROMPT)).expand(ROWS, -1)


def ours(top_k: int = 0, tokens: int = TOKENS) -> tuple[Tensor, float]:
    """What was said, `[ROWS, tokens]`, and the seconds of saying it."""
    from asyncsim.base import rng
    from asyncsim.step.batch import Draws
    from asyncsim.step.versions import current

    made, seen = policy(top_k), prompt().reshape(1, 1, ROWS, -1)
    view = current(made.prepare(made.initial(1)))
    trajectory = np.arange(ROWS).reshape(1, 1, ROWS)
    draws = Draws(rng.Stream(0, "rollout"), np.arange(1), np.zeros(1, dtype=np.int64), trajectory)
    start = time.perf_counter()
    memory = made.remember(seen)
    said = [made.act(view.token(t), seen, draws, t, memory).action for t in range(tokens)]
    return torch.stack(said, -1).reshape(ROWS, tokens), time.perf_counter() - start


def theirs(sample: bool = True, tokens: int = TOKENS) -> tuple[Tensor, float]:
    """The same by `generate`."""
    seen = prompt()
    settings = {"do_sample": True, "top_k": 0, "top_p": 1.0} if sample else {"do_sample": False}
    start = time.perf_counter()
    with torch.no_grad():
        said = network().generate(
            seen,
            attention_mask=torch.ones_like(seen),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            pad_token_id=0,
            **settings,
        )
    return said[:, seen.shape[1] :], time.perf_counter() - start


def _rate(side: Any) -> float:
    with threads(1):
        return ROWS * TOKENS / side()[1]


BENCHMARKS = {
    "generate_vs_transformers": Benchmark(
        lambda: _rate(ours),
        lambda: _rate(theirs),
        "tokens/s",
        "32 responses of 48 tokens by a Llama of 11 million weights, one thread, against `generate`",
        needs="transformers",
    )
}
