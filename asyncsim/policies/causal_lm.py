"""A causal language model that is sampled with a key-value cache and trained in its last layers or all of them."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from asyncsim.base import checks, files
from asyncsim.base.parts import choice, flag, handed_on, made, real, whole
from asyncsim.policies._policy import Act, Forward, Policy, Replicates, count, fingerprint
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.versions import View, current

if TYPE_CHECKING:
    from asyncsim.policies._language_network import Model
    from asyncsim.policies._language_sampling import Memory
    from asyncsim.policies._pretraining import Recipe


_REFERENCE = {"reference": "log_prob", "reference_log_probs": "log_probs"}
"""Outputs of the reference, and what each of them is of the policy."""


@dataclass(frozen=True)
class CausalLM(Policy):
    """Language model; see `causal_lm`."""

    name: str
    temperature: float
    top_p: float
    top_k: int
    sampler: str
    compute: str
    train_layers: int | None
    micro_batch: int | None
    recipe: Recipe | None
    cache: str = "reread"
    distributions: bool = False
    has_critic: bool = False
    reference: str | None = None

    together: ClassVar[int | None] = 1
    whole: ClassVar[bool] = True
    drawing: ClassVar[str] = "early"
    precision: ClassVar[str] = "float32"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    @property
    def outputs(self) -> tuple[str, ...]:  # type: ignore[override]
        held = ("reference", "reference_log_probs") if self.reference is not None else ()
        return ("log_prob", "entropy", *(("value",) if self.has_critic else ()), "log_probs", *held)

    @property
    def mismatched(self) -> bool:  # type: ignore[override]
        """Whether it samples with other numerics than it is trained with.

        A kept cache counts as such: it samples from what no weights alone would say.
        """
        return self.rounds or self.cache == "keep"

    @property
    def rounds(self) -> bool:
        """Whether sampler and trainer round differently.

        In bfloat16 always: token by token from a cache it rounds otherwise than in one pass over the whole text.
        """
        return self.sampler != self.compute or self.compute == "bfloat16"

    @property
    def size(self) -> int:
        return self.model.size

    @property
    def actions(self) -> int:
        """V, the tokens of the vocabulary."""
        return self.model.vocabulary

    @property
    def tokenizer(self) -> Any:
        """From text to ids and back: `encode`, `decode`, `size`, `end`, `newline`."""
        return self._loaded[1]

    @property
    def context(self) -> int:
        """Most tokens of a prompt and its response."""
        return self._loaded[2]

    @property
    def model(self) -> Model:
        """The network, and where its trained weights stand."""
        return self._loaded[0]

    @cached_property
    def frozen(self) -> str:
        """What is loaded, by its contents: all files of a folder, a revision of the hub, or pretrained weights."""
        header = self._loaded[3]
        return header.get("files") or header.get("revision") or fingerprint(self.model.network.named_parameters())

    def initial(self, replicates: Replicates, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
        """The trained weights as they were loaded, `[R, P]`, the same for every replicate and seed."""
        flat = self.model.flat().to(torch.get_default_device(), dtype)
        return flat.unsqueeze(0).repeat(count(replicates), 1)

    def remember(self, seen: Tensor) -> Memory:
        """Prompts `[R, G, N, L]`, ids padded with -1 on the left, and caches for the tokens to come."""
        from asyncsim.policies._language_prompts import Kept, lay_out
        from asyncsim.policies._language_sampling import Memory

        ids = seen.reshape(-1, seen.shape[-1])
        kept = Kept(len(ids)) if self.cache == "keep" else None
        return Memory(lay_out(ids, self.context), self.context, ids.new_zeros(ids.shape[0], 0), kept)

    def recall(self, memory: Memory, row: int) -> Memory:
        """What is remembered of one sample alone."""
        return memory.cut(row)

    def packed(self, memory: Memory) -> dict[str, Any]:
        """Prompts, actions and kept caches; others are made again with the next weights."""
        return memory.packed()

    def unpacked(self, tree: dict[str, Any]) -> Memory:
        """The memory that `packed` wrote."""
        from asyncsim.policies._language_sampling import Memory

        return Memory.unpacked(tree, self.context)

    def act(
        self,
        view: View,
        seen: Tensor,
        draws: Draws,
        token: int,
        memory: Memory | None = None,
        active: Tensor | None = None,
    ) -> Act:
        """Tokens by inverse CDF, int64 `[R, G, N]`, and `log_prob` of the distribution that they were drawn from.

        Where weights change inside a response, it is read again with the new ones: pi_v(a | everything before). With
        cache="keep" it goes on with the old entries, and `stale_cache` says of which tokens that is so.
        """
        from asyncsim.policies._language_sampling import draw

        memory = self.remember(seen) if memory is None else memory
        active = torch.ones(seen.shape[:3], dtype=torch.bool) if active is None else active
        with torch.no_grad():
            return Act(*draw(self, view, memory, draws, token, active))

    def value(self, view: View, seen: Tensor) -> Tensor:
        """Values of prompts `[R, G, N, L]` in the trainer's numerics, `[R, G, N]`."""
        if not self.has_critic:
            return super().value(view, seen)
        shape = seen.shape[:3]
        first, mask, nothing = seen.new_zeros(*shape, 1), torch.ones(*shape, 1), torch.zeros(shape)
        batch = Batch.of_nobody(first, seen.unsqueeze(3), mask, nothing, nothing, shape[2])
        return self.forward(view, batch, ("value",)).outputs["value"][..., 0]

    def hear(self, memory: Memory, token: int, action: Tensor, rows: Tensor) -> None:
        """Note a token that the environment wrote; it is read in front of the next one that is drawn."""
        where = rows.reshape(-1).nonzero()[:, 0]
        if len(where):
            memory.note(token, where, action.reshape(-1)[where])

    def score(self, view: View, batch: Batch) -> Tensor:
        """Log-probs of a batch in the trainer's numerics, `[R, G, N, T]`."""
        return self._log_prob(self.compute, view, batch)

    def compared(self, view: View, batch: Batch) -> Outputs:
        """Log-probs of the trainer, `scored_log_prob`; where caches are kept `reread_log_prob` as well.

        These are the sampler's own after a reread. Tokens that saw no old entry have the sampled log-prob, to the bit.
        """
        if self.cache == "reread":
            return super().compared(view, batch)
        reread, stale = batch.behavior["log_prob"], (batch.behavior["stale_cache"] > 0) & (batch.mask > 0)
        if bool(stale.any()):
            there = dataclasses.replace(batch, mask=stale.to(batch.mask.dtype))
            reread = torch.where(stale, self._log_prob(self.sampler, view, there), reread)
        return {"scored_log_prob": self.score(view, batch) if self.rounds else reread, "reread_log_prob": reread}

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """Outputs by name, `[R, G, N, T]` each, 0 where masked, and the pullback at the weights of every token.

        `log_probs` of the whole vocabulary are `[R, G, N, T, V]`. A token outside the nucleus has log-prob -inf and no
        gradient. Log-probs of the reference have none either, and are computed once for a batch.
        """
        from asyncsim.policies._language_scoring import forward, prepare

        names = self.named(names)
        live = tuple(name for name in names if name not in _REFERENCE) or ("log_prob",)
        with torch.no_grad():
            passed = forward(prepare(self, self.compute, view, batch, live), tuple(batch.action.shape))
            return Forward(
                passed.outputs | self._referred(batch, [n for n in names if n in _REFERENCE]), passed.pullback
            )

    def _referred(self, batch: Batch, names: Iterable[str]) -> Outputs:
        """Log-probs of a batch at the initial weights; the batch keeps them for later updates on it."""
        from asyncsim.policies._language_scoring import prepare, widened

        for name in names:
            if name not in batch.behavior:
                flat = self._start.to(batch.mask.device).expand(len(batch.action), -1)
                scoring = prepare(self, self.compute, current({"parameters": flat}), batch, (_REFERENCE[name],))
                batch.behavior[name] = widened(scoring.values()[_REFERENCE[name]], tuple(batch.action.shape))
        return {name: batch.behavior[name] for name in names}

    @cached_property
    def _start(self) -> Tensor:
        """The weights as they were loaded, `[1, P]`."""
        return self.initial(1)

    def greedy(self) -> CausalLM:
        """The same policy that always takes the likeliest token."""
        twin = dataclasses.replace(self, temperature=1.0, top_p=1.0, top_k=1)
        # What is loaded is the same.
        twin.__dict__["_loaded"] = self._loaded
        return twin

    def as_module(self, parameters: Tensor) -> nn.Module:
        """The network with trained weights `[P]` in place of the loaded ones, float32, without a value head."""
        from asyncsim.policies import _hub
        from asyncsim.policies._language_network import CRITIC

        if self.recipe is None:
            network = _hub.load(self.name, torch.float32)[0]
        else:
            network = copy.deepcopy(self.model.network)
            network._modules.pop(CRITIC, None)
        own = dict(network.named_parameters())
        parts = parameters.float().split([shape.numel() for _, shape in self.model.trained])
        for (name, shape), part in zip(self.model.trained, parts, strict=True):
            if name in own:
                own[name].data.copy_(part.reshape(shape))
        return network

    def export(self, parameters: Tensor, folder: files.Where) -> None:
        """Weights, configuration and tokenizer as `save_pretrained` writes them, in a new or empty folder."""
        from asyncsim.policies import _hub
        from asyncsim.policies._pretraining import scratch

        if self.recipe is not None:
            super().export(parameters, folder)
        path = files.named("folder", folder).expanduser().absolute()
        free = not path.exists() or (path.is_dir() and not any(path.iterdir()))
        checks.require(free, "folder", str(path), "new or empty", "give another folder")
        network: Any = self.as_module(parameters)
        fresh = scratch(path.parent)
        try:
            with _hub.quiet(_hub.library()):
                network.save_pretrained(fresh.path)
                self.tokenizer.tokenizer.save_pretrained(fresh.path)
            os.chmod(fresh.path, 0o755)
            os.replace(fresh.path, path)
        finally:
            fresh.remove()

    def describe(self) -> dict[str, Any]:
        settings = ("temperature", "top_p", "top_k", "sampler", "compute", "train_layers")
        chosen = {name: getattr(self, name) for name in settings} | ({"cache": "keep"} if self.cache == "keep" else {})
        chosen |= {"critic": True} if self.has_critic else {}
        chosen |= {"reference": self.reference} if self.reference is not None else {}
        return {"policy": "causal_lm", "model": self.name, **chosen, **self._loaded[3]}

    @cached_property
    def distribution(self) -> Any:
        """What tokens are drawn from."""
        from asyncsim.policies._language_sampling import Distribution

        return Distribution(self.temperature, self.top_p, self.top_k)

    @cached_property
    def _loaded(self) -> tuple[Model, Any, int, dict[str, Any]]:
        from asyncsim.policies import _pretraining as pretraining
        from asyncsim.policies._language_network import Model, weights_of

        if self.recipe is not None:
            recipe = self.recipe
            shape = recipe.network()
            header = {"architecture": type(shape).__name__, "model_parameters": weights_of(shape)}
            model = Model(shape, lambda: pretraining.pretrained(recipe), self.train_layers, critic=self.has_critic)
            return model, pretraining.Characters(), recipe.context, {**header, "recipe": asdict(recipe)}
        from asyncsim.policies import _hub

        network, tokenizer, context, header = _hub.load(self.name, torch.float32)
        model = Model(network, lambda: network, self.train_layers, critic=self.has_critic)
        return model, tokenizer, context, header

    def _log_prob(self, form: str, view: View, batch: Batch) -> Tensor:
        """Log-probs of a batch in a number format, each text read once, `[R, G, N, T]`."""
        from asyncsim.policies._language_scoring import prepare, widened

        with torch.no_grad():
            log_prob = prepare(self, form, view, batch, ("log_prob",)).values()["log_prob"]
        return widened(log_prob, tuple(batch.action.shape))


_TEMPERATURE = real(1.0, "temperature", 0.0, 1e6, above=True, remedy="1 samples from the model as it is")
_TOP_P = real(
    1.0, "the probability that the likeliest tokens must hold", 0.0, 1.0, above=True, remedy="1 keeps every token"
)


@made(
    "textbook",
    "a policy of P trained weights with the outputs `log_prob` and `entropy` per token in nats, `[R, G, N, T]`. A "
    "critic adds `value` of everything before the token, in units of reward, `[R, G, N, T]`. A "
    "reference adds `reference`, its log-prob of the token in nats, and `reference_log_probs` of the vocabulary. Where "
    "a part asks for it there is `log_probs` of the vocabulary, `[R, G, N, T, V]`",
    "settings outside these ranges",
)
def causal_lm(
    model: str = handed_on(
        "char",
        '"char" (a transformer of 0.9 million weights, pretrained once on two-digit addition and kept on disk), '
        '"smollm2" (SmolLM2-135M-Instruct, whose 4-bit weights are made float32), or the folder or hub name of a model '
        "for `transformers`",
    ),
    temperature: float = _TEMPERATURE,
    top_p: float = _TOP_P,
    top_k: int = whole(
        0, "how many of the likeliest tokens can be drawn (0: all)", 0, checks.LARGEST, remedy="0 keeps every token"
    ),
    sampler: str = choice(
        *("float32", "bfloat16", "int8", "float64"),
        words="number format in which tokens are drawn (int8: weights rounded by row)",
        remedy="choose a number format",
    ),
    compute: str = choice(
        *("float32", "bfloat16", "float64"),
        words="format of the trainer (bfloat16 rounds otherwise token by token than in one pass over a text, which "
        "counts as mismatch)",
        remedy="choose a number format",
    ),
    train_layers: int | None = handed_on(
        None, "how many of the last blocks are trained, with the final norm (None: every weight)"
    ),
    micro_batch: int | None = handed_on(None, "most sequences in one pass of the trainer (None: all)"),
    recipe: Mapping[str, Any] | None = handed_on(
        None, 'fields of the "char" model\'s shape and pretraining (`steps=0`: random weights)'
    ),
    cache: str = choice(
        *("reread", "keep"),
        words="what an install inside a response does to keys and values: it is read again with the new ones, or goes "
        "on with the old entries, 2 numbers a layer, token and unit of width for every response in flight, in systems "
        'whose samples go on under new weights (mode "keep")',
        remedy="say what an install does to keys and values",
    ),
    distributions: bool = flag("the sampler records whole distributions"),
    critic: bool = flag("there is a value head"),
    reference: str | None = choice(
        "start", words="which policy KL penalties and TBA hold close: the one that training starts from"
    ).but(None, optional=True),
) -> CausalLM:
    """A causal language model that is sampled with a key-value cache and trained in its last layers or all of them.

    pi(a|s) = softmax(logits(s) / temperature), cut to its nucleus and renormalized. Prompts are ids `[R, G, N, L]`
    padded with -1 on the left. Whole distributions, the log-probs of all tokens, are for parts that compare them where
    no weights are kept. A value head is a linear map of the states that the logits are made from, 0 at first, whose
    loss trains the network too.

    >>> policy = causal_lm("char", recipe={"width": 32, "layers": 2, "steps": 0})
    >>> policy.size, policy.tokenizer.encode("1+2=")
    (71360, [2, 11, 3, 15])
    """
    remedy = "name a model, as 'char' or 'smollm2', or the folder of one"
    checks.require(isinstance(model, str) and bool(model), "model", model, "a name or a folder", remedy)
    for name, value in (("train_layers", train_layers), ("micro_batch", micro_batch)):
        if value is not None:
            checks.integer(name, value, 1, "leave it out for all", checks.LARGEST)
    settings = (sampler, compute, train_layers, micro_batch, _recipe(model, recipe), cache, distributions, critic)
    return CausalLM(model, temperature, top_p, top_k, *settings, reference)


def _recipe(model: str, fields: Mapping[str, Any] | None) -> Recipe | None:
    from asyncsim.policies._pretraining import Recipe

    if model != "char":
        checks.require(fields is None, "recipe", fields, "absent with a loaded model", "it describes model='char'")
        return None
    usable = fields is None or isinstance(fields, Mapping)
    checks.require(usable, "recipe", fields, "a dictionary", "name fields of the recipe, as {'steps': 0}")
    known = list(Recipe.__dataclass_fields__)
    for name in fields or {}:
        checks.one_of("field of recipe", name, known, "name a field of the recipe")
    return Recipe(**(fields or {})).check()
