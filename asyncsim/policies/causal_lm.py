"""A causal language model, sampled with a key-value cache; all weights, last layers or adapters are trained."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from asyncsim.base import checks, files
from asyncsim.base.parts import choice, flag, handed_on, made, real, whole
from asyncsim.policies._policy import Act, Forward, Policy, Replicates, Written, fingerprint, numbers
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.versions import View, Weights, current

_TEXTS = checks.table(__file__, "texts.toml")["causal_lm"]

if TYPE_CHECKING:
    from asyncsim.policies._language_network import Model
    from asyncsim.policies._language_sampling import Memory
    from asyncsim.policies._pretraining import Recipe


_REFERENCE = {"reference": "log_prob", "reference_log_probs": "log_probs"}
"""Outputs of the reference, and what each of them is of the policy."""


@dataclass(frozen=True)
class CausalLM(Policy):
    """Causal language model; see `causal_lm`."""

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
    decode: str = "auto"
    distributions: bool = False
    has_critic: bool = False
    lora: Mapping[str, Any] | None = None
    truncate: str = "both"
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
        """Whether the sampler's numerics differ from the trainer's.

        A kept cache counts as such: it samples from what no weights alone would say. So does a nucleus that the trainer
        does not have.
        """
        return self.differs or self.cache == "keep"

    @property
    def differs(self) -> bool:
        """Whether sampler and trainer assign different log-probs to a token at the same weights.

        Token by token from a cache products have other shapes than in one pass over the whole text. So bfloat16 and
        TF32 always round differently, and float32 on other devices than a CPU.
        """
        rough = self.compute in ("bfloat16", "tf32")
        rough |= self.compute == "float32" and torch.get_default_device().type != "cpu"
        return rough or self.sampler != self.compute or self.scored_distribution != self.distribution

    @property
    def truncates(self) -> bool:  # type: ignore[override]
        """Whether the trainer assigns log-prob -inf to tokens outside of the sampler's nucleus."""
        return self.truncate == "both" and (self.top_p < 1.0 or self.top_k > 0)

    @property
    def size(self) -> int:
        return self.model.size

    @property
    def actions(self) -> int:
        """Number of tokens in the model's vocabulary, V."""
        return self.model.vocabulary

    @property
    def tokenizer(self) -> Any:
        """Tokenizer of the model, with `encode`, `decode`, `size`, `end` and `newline`."""
        return self._loaded[1]

    @property
    def context(self) -> int:
        """Maximum number of tokens in a prompt and its response together."""
        return self._loaded[2]

    @property
    def model(self) -> Model:
        """The model's network, and the positions of its trained weights."""
        return self._loaded[0]

    @cached_property
    def frozen(self) -> str:
        """Identity of the loaded weights: hash of a folder's files, revision of the hub, or hash of the weights."""
        header = self._loaded[3]
        return header.get("files") or header.get("revision") or fingerprint(self.model.loaded())

    def initial(self, replicates: Replicates, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
        """Trained weights as loaded, `[R, P]`, the same for every replicate and seed.

        Of adapters every replicate draws its own A, and B is 0.
        """
        seeds = [int(np.random.SeedSequence([seed, int(each)]).generate_state(1)[0]) for each in numbers(replicates)]
        rows = [self.model.drawn(each) for each in (seeds if self.lora is not None else seeds[:1])]
        # Weights of one replicate are large, and not copied.
        flat = (rows[0].unsqueeze(0) if len(rows) == 1 else torch.stack(rows)).to(torch.get_default_device(), dtype)
        return flat.expand(len(seeds), -1).contiguous()

    def remember(self, seen: Tensor) -> Memory:
        """Memory for prompts `[R, G, N, L]`, ids padded with -1 on the left, with empty key-value caches."""
        from asyncsim.policies._language_prompts import Kept, lay_out
        from asyncsim.policies._language_sampling import Memory

        ids = seen.reshape(-1, seen.shape[-1])
        kept = Kept(len(ids)) if self.cache == "keep" else None
        return Memory(lay_out(ids, self.context), self.context, ids.new_zeros(ids.shape[0], 0), kept)

    def recall(self, memory: Memory | None, row: int) -> Memory | None:
        """Memory of one sample; None if `write` sampled all tokens at once."""
        return None if memory is None else memory.cut(row)

    def packed(self, memory: Memory | None) -> dict[str, Any] | None:
        """Pack prompts, actions and kept caches; other caches are recomputed with the next weights."""
        return None if memory is None else memory.packed()

    def unpacked(self, tree: dict[str, Any] | None) -> Memory | None:
        """Restore the prompts, actions and kept caches that `packed` wrote."""
        from asyncsim.policies._language_sampling import Memory

        return None if tree is None else Memory.unpacked(tree, self.context)

    def act(
        self, view: View, seen: Tensor, draws: Draws, token: int, memory: Any = None, active: Tensor | None = None
    ) -> Act:
        """Sample tokens by inverse CDF, int64 `[R, G, N]`, with `log_prob` of the sampling distribution.

        Where weights change inside a response, it is read again with the new ones: pi_v(a | everything before). With
        cache="keep" it goes on with the old entries, and `stale_cache` says of which tokens that is so.
        """
        from asyncsim.policies._language_sampling import draw

        memory = self.remember(seen) if memory is None else memory
        active = torch.ones(seen.shape[:3], dtype=torch.bool) if active is None else active
        with torch.no_grad():
            return Act(*draw(self, view, memory, draws, token, active))

    def writes(self, weights: Weights) -> bool:
        """Whether all tokens are sampled in a loop of fixed shapes: off the CPU, or on request."""
        fixed = self.decode == "fixed" or (self.decode == "auto" and weights["parameters"].device.type != "cpu")
        return fixed and self.cache == "reread"

    def write(
        self, view: View, seen: Tensor, draws: Draws, stops: tuple[int, ...], before: Written, where: Tensor | None
    ) -> Written:
        """Sample all wanted tokens in a loop of fixed shapes, as `act` does one by one."""
        from asyncsim.policies._language_decoding import write

        with torch.no_grad():
            return write(self, view, seen, draws, stops, before, where)

    def value(self, view: View, seen: Tensor) -> Tensor:
        """Values `[R, G, N]` of prompts `[R, G, N, L]` in the trainer's numerics."""
        if not self.has_critic:
            return super().value(view, seen)
        shape = seen.shape[:3]
        first, mask, nothing = seen.new_zeros(*shape, 1), torch.ones(*shape, 1), torch.zeros(shape)
        batch = Batch.of_nobody(first, seen.unsqueeze(3), mask, nothing, nothing, shape[2])
        return self.forward(view, batch, ("value",)).outputs["value"][..., 0]

    def hear(self, memory: Memory, token: int, action: Tensor, rows: Tensor) -> None:
        """Record a token that the environment wrote, which the model reads before the next sampled token."""
        where = rows.reshape(-1).nonzero()[:, 0]
        if len(where):
            memory.note(token, where, action.reshape(-1)[where])

    def score(self, view: View, batch: Batch) -> Tensor:
        """Log-probs of a batch in the trainer's numerics, `[R, G, N, T]`."""
        return self._log_prob(self.compute, view, batch, self.scored_distribution)

    def compared(self, view: View, batch: Batch) -> Outputs:
        """The trainer's log-probs, `scored_log_prob`, and `reread_log_prob` if the sampler keeps its caches.

        These are the sampler's own after a reread. Tokens that saw no old entry have the sampled log-prob, to the bit.
        """
        if self.cache == "reread":
            return super().compared(view, batch)
        reread, stale = batch.behavior["log_prob"], (batch.behavior["stale_cache"] > 0) & (batch.mask > 0)
        if bool(stale.any()):
            there = dataclasses.replace(batch, mask=stale.to(batch.mask.dtype))
            reread = torch.where(stale, self._log_prob(self.sampler, view, there), reread)
        return {"scored_log_prob": self.score(view, batch) if self.differs else reread, "reread_log_prob": reread}

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """Outputs by name, `[R, G, N, T]` each, 0 where masked, and the pullback at the weights of every token.

        `log_probs` of the whole vocabulary are `[R, G, N, T, V]`. A token outside the nucleus has log-prob -inf and no
        gradient. Log-probs of the reference have none either, and are computed once for a batch.
        """
        from asyncsim.policies._language_scoring import forward, prepare

        names = self.named(names)
        live = tuple(name for name in names if name not in _REFERENCE) or ("log_prob",)
        with torch.no_grad():
            scoring = prepare(self, self.compute, self.scored_distribution, view, batch, live)
            passed = forward(scoring, tuple(batch.action.shape))
            referred = self._referred(batch, [n for n in names if n in _REFERENCE])
            return Forward(passed.outputs | referred, passed.pullback)

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """|sum_t w_t grad log pi(a_t|...)|^2 of each sample, `[R, G, N]`, with one backward pass per sample."""
        from asyncsim.policies._language_scoring import prepare, score_norm

        shape = batch.action.shape
        scoring = prepare(self, self.compute, self.scored_distribution, view, batch, ("log_prob",))
        rows = weight.expand(shape).reshape(-1, shape[3])[:, : scoring.action.shape[1]]
        return score_norm(scoring, rows.to(scoring.flat.dtype)).reshape(shape[:3])

    def _referred(self, batch: Batch, names: Iterable[str]) -> Outputs:
        """Log-probs of a batch at the initial weights, stored in the batch for later updates."""
        from asyncsim.policies._language_scoring import prepare, widened

        for name in names:
            if name not in batch.behavior:
                flat = self._start.to(batch.mask.device).expand(len(batch.action), -1)
                view, law = current({"parameters": flat}), self.scored_distribution
                scoring = prepare(self, self.compute, law, view, batch, (_REFERENCE[name],))
                batch.behavior[name] = widened(scoring.values()[_REFERENCE[name]], tuple(batch.action.shape))
        return {name: batch.behavior[name] for name in names}

    @cached_property
    def _start(self) -> Tensor:
        """Weights as loaded, `[1, P]`."""
        return self.initial(1)

    def greedy(self) -> CausalLM:
        """The same policy with greedy decoding."""
        twin = dataclasses.replace(self, temperature=1.0, top_p=1.0, top_k=1)
        # What is loaded is the same.
        twin.__dict__["_loaded"] = self._loaded
        return twin

    def as_module(self, parameters: Tensor) -> nn.Module:
        """The network with trained weights `[P]` in float32, without a value head."""
        from asyncsim.policies import _hub
        from asyncsim.policies._language_network import CRITIC, adapted, merged

        if self.recipe is None:
            network = _hub.load(self.name, torch.float32)[0]
            if self.lora is not None:
                adapted(network, self.lora)
        else:
            network = copy.deepcopy(self.model.network)
            network._modules.pop(CRITIC, None)
        own = dict(network.named_parameters())
        parts = parameters.float().split([shape.numel() for _, shape in self.model.trained])
        for (name, shape), part in zip(self.model.trained, parts, strict=True):
            if name in own:
                own[name].data.copy_(part.reshape(shape))
        return network if self.lora is None else merged(network)

    def export(self, parameters: Tensor, folder: files.Where) -> None:
        """Write weights, configuration and tokenizer, as `save_pretrained` does, to a new or empty folder."""
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
        chosen |= {} if self.lora is None else {"lora": {**self.lora}, "trained_parameters": self.size}
        chosen |= {"truncate": self.truncate} if self.truncate != "both" else {}
        chosen |= {} if self.decode == "auto" else {"decode": self.decode}
        chosen |= {"reference": self.reference} if self.reference is not None else {}
        return {"policy": "causal_lm", "model": self.name, **chosen, **self._loaded[3]}

    @cached_property
    def distribution(self) -> Any:
        """Distribution of tokens from which the sampler draws."""
        from asyncsim.policies._language_sampling import Distribution

        return Distribution(self.temperature, self.top_p, self.top_k)

    @cached_property
    def scored_distribution(self) -> Any:
        """Distribution with which the trainer scores tokens: the sampler's, or the full softmax."""
        from asyncsim.policies._language_sampling import Distribution

        return self.distribution if self.truncate == "both" else Distribution(self.temperature, 1.0, 0)

    @cached_property
    def _loaded(self) -> tuple[Model, Any, int, dict[str, Any]]:
        from asyncsim.policies import _pretraining as pretraining
        from asyncsim.policies._language_network import Model, weights_of

        if self.recipe is not None:
            recipe = self.recipe
            shape = recipe.network()
            header = {"architecture": type(shape).__name__, "model_parameters": weights_of(shape)}
            model = Model(
                shape, lambda: pretraining.pretrained(recipe), self.train_layers, critic=self.has_critic, lora=self.lora
            )
            return model, pretraining.Characters(), recipe.context, {**header, "recipe": asdict(recipe)}
        from asyncsim.policies import _hub

        network, tokenizer, context, header = _hub.load(self.name, torch.float32)
        first = [network]

        def load() -> Any:
            if first:
                return first.pop()
            network, *_, found = _hub.load(self.name, torch.float32)
            same, remedy = found == header, "make the policy anew, which reads the files as they are now"
            checks.require(same, "model", self.name, "unchanged since it was first read", remedy)
            return network

        model = Model(network, load, self.train_layers, critic=self.has_critic, lora=self.lora, again=True)
        return model, tokenizer, context, header

    def _log_prob(self, form: str, view: View, batch: Batch, law: Any = None) -> Tensor:
        """Log-probs of a batch in a number format, each text read once, `[R, G, N, T]`; default as sampled."""
        from asyncsim.policies._language_scoring import prepare, widened

        with torch.no_grad():
            log_prob = prepare(self, form, law or self.distribution, view, batch, ("log_prob",)).values()["log_prob"]
        return widened(log_prob, tuple(batch.action.shape))


_TEMPERATURE = real(1.0, "temperature", 0.0, 1e6, above=True, remedy="1 samples from the model as it is")
_TOP_P = real(1.0, "probability that the likeliest tokens must hold", 0.0, 1.0, above=True, remedy="1 keeps all tokens")


@made(**_TEXTS["causal_lm"])
def causal_lm(
    model: str = handed_on("char", **_TEXTS["model"]),
    temperature: float = _TEMPERATURE,
    top_p: float = _TOP_P,
    top_k: int = whole(0, low=0, high=checks.LARGEST, **_TEXTS["top_k"]),
    sampler: str = choice("float32", "bfloat16", "int8", "float64", "tf32", **_TEXTS["sampler"]),
    compute: str = choice("float32", "bfloat16", "float64", "tf32", **_TEXTS["compute"]),
    train_layers: int | None = handed_on(None, **_TEXTS["train_layers"]),
    micro_batch: int | None = handed_on(None, **_TEXTS["micro_batch"]),
    recipe: Mapping[str, Any] | None = handed_on(None, **_TEXTS["recipe"]),
    cache: str = choice("reread", "keep", **_TEXTS["cache"]),
    decode: str = choice("auto", "packed", "fixed", **_TEXTS["decode"]),
    distributions: bool = flag("the sampler records whole distributions"),
    critic: bool = flag("there is a value head"),
    lora: int | Mapping[str, Any] | None = handed_on(None, **_TEXTS["lora"]),
    truncate: str = choice("both", "sampler", **_TEXTS["truncate"]),
    reference: str | None = choice("start", **_TEXTS["reference"]).but(None, optional=True),
) -> CausalLM:
    """A causal language model, sampled with a key-value cache; all weights, last layers or adapters are trained.

    pi(a|s) = softmax(logits(s) / temperature), cut to its nucleus and renormalized. Where the trainer truncates too,
    sampled tokens may be outside the nucleus of new weights: their log-prob is -inf, their ratio 0, and
    `outside_nucleus` of the trace is their share. Prompts are ids `[R, G, N, L]` padded with -1 on the left. With
    `lora` pi is of W + (alpha / r) B A in place of W. Whole distributions, the log-probs of all tokens, are for parts
    that compare them where no weights are kept. A value head is a linear map of the states that the logits are made
    from, 0 at first, whose loss trains the network too. Where tools write tokens, caches are kept or a task has a
    `step` of its own, tokens are drawn one by one (packed) on every device.

    >>> policy = causal_lm("char", recipe={"width": 32, "layers": 2, "steps": 0})
    >>> policy.size, policy.tokenizer.encode("1+2=")
    (71360, [2, 11, 3, 15])
    """
    remedy = "name a model, as 'char' or 'smollm2', or the folder of one"
    model = os.fspath(model) if isinstance(model, os.PathLike) else model
    checks.require(isinstance(model, str) and bool(model), "model", model, "a name or a folder", remedy)
    from asyncsim.policies import _hub

    _hub.named(model)
    for name, value in (("train_layers", train_layers), ("micro_batch", micro_batch)):
        if value is not None:
            checks.integer(name, value, 1, "leave it out for all", checks.LARGEST)
    remedy = "leave decode out, or use cache='reread'"
    checks.require(decode != "fixed" or cache == "reread", "decode", decode, "packed where caches are kept", remedy)
    parts = (sampler, compute, train_layers, micro_batch, _recipe(model, recipe), cache, decode, distributions, critic)
    return CausalLM(model, temperature, top_p, top_k, *parts, _adapters(lora, train_layers), truncate, reference)


def _adapters(lora: Any, train_layers: int | None) -> Mapping[str, Any] | None:
    """Validate fields of `peft.LoraConfig`."""
    if lora is None:
        return None
    remedy = "name the layers of adapters by lora={'r': 8, 'layers_to_transform': [28, 29]}"
    checks.require(train_layers is None, "train_layers", train_layers, "absent beside lora", remedy)
    fields = dict(lora) if isinstance(lora, Mapping) else {"r": lora}
    checks.integer("lora", fields.get("r", 8), 1, "give the rank of adapters, as lora=8", 1 << 16)
    drawn = fields.get("init_lora_weights", True)
    usual = isinstance(drawn, bool) or drawn == "gaussian"
    checks.require(usual, "init_lora_weights", drawn, "True, False or 'gaussian'", "leave it out")
    dropout, remedy = fields.get("lora_dropout"), "leave it out: a trained text is scored as sampled"
    checks.require(not dropout, "lora_dropout", dropout, "0", remedy)
    return fields


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
