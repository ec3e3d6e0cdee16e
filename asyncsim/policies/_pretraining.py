"""Supervised pretraining of the character model on lines of arithmetic, once for each recipe and kept on disk."""

from __future__ import annotations

import hashlib
import json
import operator
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from asyncsim.base import checks, files
from asyncsim.step.versions import threads

FORMAT = 1
"""Version of the weight file and of the training itself: raise it when either changes."""
EVERY = 10
"""Steps between two looks at the exact match."""
HELD = 512
"""Problems on which the exact match is measured."""

CALL = "?"
"""What asks a calculator, whose result stands behind it."""
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


class Characters:
    """Character tokenizer: one id per character of a small alphabet; a line break ends a text."""

    alphabet = "\n0123456789+-*/=() abcdefghijklmnopqrstuvwxyz.,:?"
    size = len(alphabet)
    end = newline = (0,)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; characters outside of the alphabet are refused."""
        for character in text:
            remedy = f"the character model knows {self.alphabet!r}; use causal_lm('smollm2') or a model of words"
            checks.require(character in self.alphabet, "character of a text", character, "in the alphabet", remedy)
        return [self.alphabet.index(character) for character in text]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of character ids."""
        return "".join(self.alphabet[number] for number in ids)


@dataclass(frozen=True)
class Recipe:
    """Shape and pretraining settings of a character model.

    Lines `a+b=c` with operands in [`low`, `high`] and one of `operations`; next-token loss on the answer. Adam at
    `rate` takes `steps` of `batch` lines, or fewer: it ends once a random problem is answered with probability `target`
    (sampled at temperature 1). No steps: random weights. A share `calls` of the lines is `a+b=?c` instead, as where a
    calculator writes c: there the loss is on the question mark and the line break.
    """

    width: int = 128
    layers: int = 5
    heads: int = 4
    hidden: int = 448
    context: int = 128
    operations: str = "+"
    low: int = 0
    high: int = 99
    steps: int = 3000
    batch: int = 64
    rate: float = 1e-3
    target: float = 0.4
    seed: int = 0
    calls: float = 0.0

    def check(self) -> Recipe:
        """Return the recipe itself; refuse settings from which no model can be built."""
        remedy = "give a whole number"
        for name, least in (("width", 1), ("layers", 1), ("heads", 1), ("hidden", 1), ("context", 2), ("batch", 1)):
            checks.integer(f"recipe.{name}", getattr(self, name), least, remedy, 1 << 20)
        for name, least in (("low", 0), ("high", self.low), ("steps", 0), ("seed", 0)):
            checks.integer(f"recipe.{name}", getattr(self, name), least, remedy, checks.LARGEST)
        divides = self.width % self.heads == 0
        checks.require(divides, "recipe.heads", self.heads, f"a divisor of the width {self.width}", "change either")
        checks.real("recipe.rate", self.rate, "give a positive learning rate", 0.0, open_low=True)
        checks.real("recipe.target", self.target, "give a probability", 0.0, 1.0)
        checks.real("recipe.calls", self.calls, "give the share of lines that ask a calculator", 0.0, 1.0)
        text = isinstance(self.operations, str) and bool(self.operations)
        usable = text and set(self.operations) <= set(OPERATIONS)
        checks.require(usable, "recipe.operations", self.operations, "some of + - *", "write operations='+'")
        return self

    def network(self) -> Transformer:
        """The character model before it is trained."""
        shape = (self.width, self.layers, self.heads, self.hidden, self.context)
        with torch.device("cpu"):
            return Transformer(Characters().size, *shape).eval().requires_grad_(False)

    def key(self) -> str:
        """Name of the model's weight file: a hash of everything on which the weights depend."""
        # Files from before there were calls keep their names.
        fields = {name: value for name, value in asdict(self).items() if name != "calls" or value}
        text = json.dumps({**fields, "format": FORMAT, "alphabet": Characters().alphabet}, sort_keys=True)
        return f"char-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def folder() -> Path:
    """Cache folder for model weights: ASYNCSIM_CACHE, or the platform's user cache folder."""
    path = os.environ.get("ASYNCSIM_CACHE")
    if path:
        return Path(path)
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "asyncsim"
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "asyncsim" / "Cache"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asyncsim"
    except RuntimeError as error:  # a user that the system does not know
        bound, remedy = "below a known home folder", "set ASYNCSIM_CACHE to a folder that can be written"
        raise checks.InputError("cache folder", None, bound, remedy) from error


def scratch(parent: Path) -> files.Temporary:
    """Context with a new folder inside another one, so that its contents can be moved there in one step."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return files.Temporary(parent)
    except OSError as error:
        remedy = f"set ASYNCSIM_CACHE to a folder that can be written ({type(error).__name__})"
        raise checks.InputError("cache folder", str(parent), "a folder that can be written", remedy) from error


def pretrained(recipe: Recipe) -> Transformer:
    """Pretrained character model of a recipe on the CPU, loaded from disk or trained and saved now."""
    with torch.device("cpu"):
        network = recipe.network()
        network.reset(torch.Generator().manual_seed(recipe.seed))
        if recipe.steps == 0:
            return network
        path = folder() / f"{recipe.key()}.npz"
        # Unlike Path.exists, it does not raise where a folder is not readable.
        return load(network, path) if os.path.exists(path) else trained(network, recipe, path)


def trained(network: Transformer, recipe: Recipe, path: Path) -> Transformer:
    """Train a recipe's character model now and save its weights to a file."""
    # Find a folder that cannot be written before minutes of training.
    scratch(path.parent).remove()
    print(f"asyncsim: pretraining the character model (a minute or so, once), kept as {path}", file=sys.stderr)
    begin = time.monotonic()
    steps, reached = train(network, recipe)
    seconds = time.monotonic() - begin
    print(f"asyncsim: {steps} steps in {seconds:.0f} s, exact match {reached:.2f}", file=sys.stderr)
    try:
        save(network, path)
    except checks.InputError as error:
        # This run has its model; with a full disk only the next run trains again.
        print(f"asyncsim: the model is not kept: {error}", file=sys.stderr)
    return network


def save(network: Transformer, path: Path) -> None:
    """Write the weights of a character model atomically."""
    weights = {k: w.numpy() for k, w in network.state_dict().items()}
    files.write_atomically(path, lambda file: np.savez(file, **weights))


def load(network: Transformer, path: Path) -> Transformer:
    """Load weights into a character model; files that are damaged, too big or of another shape are refused."""
    remedy = "delete it, it is made again"
    arrays = files.packed_arrays(path, "file with weights of this model", remedy, field="weight file")
    with files.decoding(path, "file with weights of this model", remedy, "weight file"):
        network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return network


def train(network: Transformer, recipe: Recipe) -> tuple[int, float]:
    """Train a character model to its target or last step; return the number of steps and the exact-match rate."""
    random = np.random.Generator(np.random.Philox(key=recipe.seed + 1))
    problems = lines(replace(recipe, calls=0.0), HELD, random)
    weights = list(network.requires_grad_(True).parameters())
    optimizer = torch.optim.Adam(weights, lr=recipe.rate, betas=(0.9, 0.98))
    steps, reached, warm = 0, 0.0, min(100, max(1, recipe.steps // 5))
    with torch.enable_grad(), threads(1):
        while steps < recipe.steps and reached < recipe.target:
            for group in optimizer.param_groups:
                group["lr"] = recipe.rate * min(1.0, (steps + 1) / warm)
            ids, answer = lines(recipe, recipe.batch, random)
            loss = -(token_log_probs(network, ids) * answer).sum() / answer.sum()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            steps += 1
            if steps % EVERY == 0 or steps == recipe.steps:
                reached = exact_match(network, problems)
    network.requires_grad_(False)
    return steps, reached


def lines(recipe: Recipe, count: int, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Token ids `[count, L]` of random training lines, and 1 on trained tokens (answer, call, line break), else 0."""
    first, second = random.integers(recipe.low, recipe.high + 1, (2, count))
    signs = random.integers(0, len(recipe.operations), count)
    asks = random.random(count) < recipe.calls if recipe.calls else np.zeros(count, dtype=bool)
    tokenizer, texts = Characters(), []
    for a, b, sign, ask in zip(first.tolist(), second.tolist(), signs.tolist(), asks.tolist(), strict=True):
        symbol = recipe.operations[sign]
        texts.append((f"{a}{symbol}{b}=", CALL if ask else "", f"{OPERATIONS[symbol](a, b)}\n"))
    longest = max(sum(map(len, parts)) for parts in texts)
    ids, taught = (np.zeros((count, longest), dtype=t) for t in (np.int64, np.float32))
    for row, (prompt, call, answer) in enumerate(texts):
        text = tokenizer.encode(prompt + call + answer)
        ids[row, : len(text)] = text
        taught[row, len(prompt) : len(text)] = 1.0
        if call:
            # The calculator writes the result.
            taught[row, len(prompt + call) : len(text) - 1] = 0.0
    return torch.from_numpy(ids), torch.from_numpy(taught)[:, 1:]


def token_log_probs(network: Transformer, ids: Tensor) -> Tensor:
    """Log-prob of every token except the first under a character model, `[B, L - 1]`."""
    L = ids.shape[1] - 1
    mask = torch.full((1, 1, L, L), -torch.inf).triu(1)
    logits = network(ids[:, :-1], torch.arange(L).unsqueeze(0), mask).logits
    return -functional.cross_entropy(logits.mT, ids[:, 1:], reduction="none")


def exact_match(network: Transformer, problems: tuple[Tensor, Tensor]) -> float:
    """Mean probability that a sampled answer is completely right at temperature 1."""
    ids, answer = problems
    with torch.no_grad():
        return float((token_log_probs(network, ids) * answer).sum(-1).exp().mean())


class Scores(NamedTuple):
    """Output of the character model: logits `[B, K, V]` of the last K positions."""

    logits: Tensor


class Block(nn.Module):
    """Transformer block: attention and a two-layer perceptron, each on the normalized residual stream; no biases."""

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
        """Residual stream `[B, L, W]` after the block; `mask` `[B, 1, L, C]` is added to the attention's logits."""
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
        """Set normal weights with standard deviation 0.02, block outputs divided by sqrt(2 layers), and norms at 1."""
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
