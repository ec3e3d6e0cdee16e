"""A small decoder-only transformer that is called as the models of `transformers` are."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Scores(NamedTuple):
    """Logits `[B, K, V]` of the last K positions."""

    logits: Tensor


class Block(nn.Module):
    """Attention and a two-layer perceptron, each on the normalized residual stream; no biases."""

    def __init__(self, number: int, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.number, self.heads = number, heads
        self.before_attention = nn.LayerNorm(width, bias=False)
        self.inputs = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.before_perceptron = nn.LayerNorm(width, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """Residual stream `[B, L, W]`; `mask` `[B, 1, L, C]` is added to the attention's logits."""
        B, L, W = x.shape
        mixed = self.inputs(self.before_attention(x)).view(B, L, 3, self.heads, W // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        if cache is not None:
            key, value = cache.update(key, value, self.number)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = x + self.output(attended.transpose(1, 2).reshape(B, L, W))
        return x + self.down(functional.gelu(self.up(self.before_perceptron(x))))


class Transformer(nn.Module):
    """Pre-norm transformer with learned positions and a head tied to the embedding.

    P = layers (4 W^2 + 2 W hidden + 2 W) + (vocabulary + context + 1) W for width W.
    """

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, hidden: int, context: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.layers = nn.ModuleList(Block(i, width, heads, hidden) for i in range(layers))
        self.norm = nn.LayerNorm(width, bias=False)

    def reset(self, generator: torch.Generator) -> None:
        """Normal weights of deviation 0.02, the outputs of each block smaller by sqrt(2 layers); norms at 1."""
        shrink = (2 * len(self.layers)) ** -0.5
        for name, weight in self.named_parameters():
            if weight.ndim == 1:
                nn.init.ones_(weight)
            else:
                inner = name.endswith(("output.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 * (shrink if inner else 1.0), generator=generator)

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        attention_mask: Tensor,
        past_key_values: Any = None,
        logits_to_keep: int = 0,
        use_cache: bool = False,
    ) -> Scores:
        """Logits of the last `logits_to_keep` positions (0: all) for ids and positions `[B, L]`."""
        x = self.embedding(input_ids) + self.positions(position_ids)
        for block in self.layers:
            x = block(x, attention_mask, past_key_values)
        last = x[:, -logits_to_keep:] if logits_to_keep else x
        return Scores(functional.linear(self.norm(last), self.embedding.weight))
