"""A language model's sampler against `transformers`' own loop, eager, and its update against a plain torch loop.

A Llama of 30 blocks and width 32 spends its time on launches, as one on a GPU does: there the loop of fixed shapes
stands against `generate`. A wider one spends it on numbers, as models on a CPU do: there a prompt is read once for all
of its samples. Random weights say different things in every row, so no response is shared. All rows are drawn to the
end; `generate` gives no log-probabilities, ours does. An update is GRPO's on one batch of fresh samples: outputs,
gradient, clipped norm, Adam.
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
        """Tokens per second since `begin`."""
        return self.prompts * self.samples * self.tokens / (time.perf_counter() - begin)


@functools.cache
def made(shape: str, decode: str) -> tuple[Any, Any, Any]:
    """A policy, the view of its weights, and the network of `transformers`, of the same random weights."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    import asyncsim as sim
    from asyncsim.step.versions import current

    torch.manual_seed(0)
    transformers.logging.disable_progress_bar()
    words = {f"<{number}>": number for number in range(VOCABULARY)}
    tokens = Tokenizer(models.WordLevel(words, unk_token="<0>"))
    tokens.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    about = {"eos_token": "<1>", "pad_token": "<0>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, **about)
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


@functools.cache
def update() -> tuple[Any, Any, Any]:
    """An updater, where training stands, and a batch of 4 prompts x 8 samples of 48 tokens."""
    import torch

    import asyncsim as sim
    from asyncsim.running.updating import Now, Updater
    from asyncsim.sampling.rollouts import Sampler, monte_carlo
    from asyncsim.tasks._language import LanguageTask

    class Paid(LanguageTask):
        """Any answer, to the end, pays by its ids."""

        def _stops(self) -> tuple[int, ...]:
            return ()

        def earn(self, state: Any, action: Any, mask: Any, draws: Any) -> Any:
            return (action.sum(-1) % 7).double()

    policy, view, _ = made("wide", "packed")
    texts = tuple(" ".join(f"<{id}>" for id in row if id >= 0) for row in Case("wide", "", 4, 1, 24, 0).ids[:, 0])
    task = Paid(texts, ("",) * 4, horizon=48).fit(policy)
    sampler = Sampler(task, policy, 8, 0, np.arange(1), np.zeros(1, dtype=np.int64))
    version, ids = np.zeros((1, 1, 1, 1), dtype=np.int64), np.arange(32).reshape(1, 4, 8)
    chain = sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(1e-4))
    with torch.no_grad():
        batch, start = monte_carlo(sampler, version, 0, ids, view), policy.initial(1)
        now = Now(start, policy.prepare(start), chain.init(start), torch.full((1,), -1))
    return Updater(task, policy, sim.methods.grpo(), chain, (), 1, 1, 1e18), now, batch


def updated() -> float:
    """Updates per second."""
    import torch

    from asyncsim.running.updating import When
    from asyncsim.step.versions import threads

    updater, now, batch = update()
    begin = time.perf_counter()
    with threads(1), torch.no_grad():
        updater(now, batch, None, When(0, 0))
    return 1.0 / (time.perf_counter() - begin)


@functools.cache
def peer() -> tuple[Any, Any, Any]:
    """Ids `[32, L]`, the network as a trainer holds it, and its optimizer."""
    import copy

    import torch

    batch = update()[2]
    ids = torch.cat([batch.state[0, :, :, 0].flatten(0, 1), batch.action[0].flatten(0, 1)], 1)
    network = copy.deepcopy(made("wide", "packed")[2]).requires_grad_(True)
    return ids, network, torch.optim.Adam(network.parameters(), 1e-4)


def plain() -> float:
    """Updates a second of a plain loop."""
    import torch

    from asyncsim.step.versions import threads

    ids, network, optimizer = peer()
    reward = (ids[:, -48:].sum(1) % 7).float().reshape(4, 8)
    begin = time.perf_counter()
    with threads(1), torch.enable_grad():
        centered = reward - reward.mean(1, keepdim=True)
        advantage = (centered / (centered.square().mean(1, keepdim=True).sqrt() + 1e-6)).reshape(-1, 1)
        padding = (ids < 0).sum(1, keepdim=True)
        about = {
            "attention_mask": (ids >= 0).long(),
            "position_ids": (torch.arange(ids.shape[1]) - padding).clamp(min=0),
        }
        logits = network(input_ids=ids.clamp(min=0), **about, use_cache=False, logits_to_keep=49).logits[:, :-1]
        log_prob = logits.log_softmax(-1).gather(2, ids[:, -48:, None])[..., 0]
        ratio = (log_prob - log_prob.detach()).exp()
        loss = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean(1).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return 1.0 / (time.perf_counter() - begin)


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
    "update_vs_torch": Benchmark(
        updated,
        plain,
        "updates/s",
        "GRPO on 4 prompts x 8 samples of 48 tokens, against a plain torch loop",
        1 / 1.3,
        "transformers",
    ),
}
