"""Low-rank adapters: the weights they stand for, one draw a replicate, small versions, score norms of samples."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.policies import _language_scoring as scoring
from asyncsim.tasks._language import LanguageTask
from tests.language.test_causal_lm import SHAPE, T, batch_of, drawn, ids, plain_logits, rows_of, view_of
from tests.language.test_decoding import at_once, one_by_one
from tests.refusals import refused

pytestmark = pytest.mark.skipif(find_spec("peft") is None, reason="the adapters are those of PEFT")
EXACT = {"sampler": "float64", "compute": "float64"}
RANK, ALPHA = 2, 3.0


def policy(**settings):
    fields = {"r": RANK, "lora_alpha": ALPHA}
    return sim.policies.causal_lm("char", recipe=SHAPE, **{"lora": fields, **EXACT, **settings})


def moved(made, seed=0):
    """Adapters of which both factors count, `[1, P]`."""
    noise = torch.randn((1, made.size), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return made.initial(1, torch.float64) + 0.3 * noise


def merged(made, flat, factor=ALPHA / RANK):
    """Weights `[P]` of the same model without adapters: W + factor B A."""
    whole = sim.policies.causal_lm("char", recipe=SHAPE, **EXACT)
    parts = dict(
        zip([n for n, _ in made.model.trained], flat.split([s.numel() for _, s in made.model.trained]), strict=True)
    )
    weights = []
    for name, shape in whole.model.trained:
        weight, stem = whole.model.network.get_parameter(name).double(), name.removesuffix(".weight")
        if f"{stem}.lora_A.default.weight" in parts:
            a, b = (parts[f"{stem}.lora_{each}.default.weight"] for each in "AB")
            weight = weight + factor * b.reshape(shape[0], RANK) @ a.reshape(RANK, shape[1])
        weights.append(weight.reshape(-1))
    return whole, torch.cat(weights)


@pytest.fixture(scope="module")
def case():
    made = policy()
    seen, flat = ids(made), moved(made)
    action, log_prob = drawn(made, view_of(made, flat), seen)
    return made, flat, seen, action, log_prob


def test_adapters_compute_what_merged_weights_do(case):
    made, flat, seen, action, log_prob = case
    whole, weights = merged(made, flat[0])
    law = rows_of(whole, weights, seen, action)
    expected = law.gather(2, action.reshape(*law.shape[:2], 1))[..., 0].reshape(log_prob.shape)
    torch.testing.assert_close(log_prob, expected, rtol=0, atol=1e-11)
    # Planted: the factor alpha / r is forgotten.
    plain = plain_logits(whole, merged(made, flat[0], 1.0)[1], [2, 11, 3, 15])
    assert (plain - plain_logits(whole, weights, [2, 11, 3, 15])).abs().max() > 1e-2


def test_every_replicate_begins_as_the_loaded_model_with_a_draw_of_its_own():
    made, loaded = policy(), sim.policies.causal_lm("char", recipe=SHAPE, **EXACT)
    first = made.initial(np.array([0, 3]), torch.float64, seed=1)
    assert not torch.equal(first[0], first[1])
    assert torch.equal(made.initial(np.array([3]), torch.float64, seed=1)[0], first[1]), "whatever block it is in"
    assert torch.equal(merged(made, first[0])[1], loaded.initial(1, torch.float64)[0]), "B is 0"
    frozen = made.frozen
    assert policy().frozen == frozen == policy(lora=1).frozen, "drawing adapters leaves the frozen weights alone"


def test_score_norms_are_those_of_the_pullback_of_each_sample(case):
    """Padding, equal prompts and masks change nothing."""
    made, flat, seen, action, _ = case
    generator = torch.Generator().manual_seed(1)
    mask = (torch.rand(action.shape, generator=generator) < 0.8).double()
    mask[..., 0] = 1.0
    weight = mask * torch.rand(action.shape, generator=generator, dtype=torch.float64)
    batch, view = batch_of(seen, action, mask), view_of(made, flat)
    result = made.forward(view, batch, ("log_prob",))
    expected = torch.zeros(action.shape[:3], dtype=torch.float64)
    for place in np.ndindex(*action.shape[:3]):
        one = torch.zeros_like(weight)
        one[place] = weight[place]
        expected[place] = result.pullback({"log_prob": one}).square().sum()
    torch.testing.assert_close(made.score_norm(view, batch, weight), expected, rtol=1e-9, atol=0)
    # Planted: norms of tokens are added, not their vectors.
    tokens = torch.zeros_like(expected)
    for t in range(action.shape[3]):
        alone = torch.zeros_like(weight)
        alone[..., t] = weight[..., t]
        tokens += made.score_norm(view, batch, alone)
    assert ((tokens / expected - 1.0).abs() > 0.05).any()


def test_versions_inside_a_response_are_one_vector_of_its_score():
    made = policy()
    flats, seen = [moved(made), moved(made, 1)], ids(made)[:, :1]
    slot = np.zeros((1, *seen.shape[2:3], 6), dtype=np.int64)
    slot[..., 3:] = 1
    view = view_of(made, *flats, slot=slot)
    action, _ = drawn(made, view_of(made, flats[0]), seen)
    batch, weight = batch_of(seen, action), torch.ones(action.shape, dtype=torch.float64)
    result = made.forward(view, batch, ("log_prob",))
    for n in range(action.shape[2]):
        one = torch.zeros_like(weight)
        one[:, :, n] = 1.0
        expected = result.pullback({"log_prob": one}).square().sum()
        torch.testing.assert_close(made.score_norm(view, batch, weight)[0, 0, n], expected, rtol=1e-9, atol=0)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """Folder of a tiny Llama with the character model's alphabet."""
    import transformers
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("llama")
    vocabulary = {word: number for number, word in enumerate(["<end>", *"0123456789+= \n"])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<end>"))
    words.pre_tokenizer, words.decoder = pre_tokenizers.Split(Regex("[\\s\\S]"), "isolated"), decoders.Fuse()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>").save_pretrained(folder)
    shape = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 3, "num_attention_heads": 4}
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=len(vocabulary), max_position_embeddings=32, eos_token_id=0, **shape)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


class Digits(LanguageTask):
    """Every answer, of any length, earns its share of digits below 5."""

    def score(self, prompt, text):
        return sum(character in "01234" for character in text) / max(len(text), 1)

    def _stops(self):
        return tuple(range(len(self.tokenizer.tokenizer)))[:5]


def study(folder):
    task = Digits(("1+2=", "3+4="), ("3", "7"), horizon=6)
    made = sim.policies.causal_lm(str(folder), lora={"r": 8, "target_modules": ["q_proj", "v_proj"]})
    system, update = sim.schedules.fixed(8, groups_per_batch=2), (sim.updates.ess_step("sqrt"), sim.updates.adam(0.05))
    sizes = {"samples_per_group": 4, "updates": 12, "replicates": 1}
    return sim.Spec(task, system, sim.methods.vcpo(), sim.chain(*update), made, **sizes)


@pytest.mark.rows
def test_vcpo_trains_a_llama_by_versions_of_one_part_in_fifty(llama, tmp_path):
    """Rank 8, staleness 8; a run that is cut short goes on to the bit."""
    spec = study(llama)
    base = spec.policy.describe()["model_parameters"]
    assert spec.policy.size <= 0.02 * base
    plain = sim.run(spec, progress=False)
    assert np.isfinite(plain["gradient_norm"]).all() and plain["gradient_norm"].max() > 0.0 and plain["ess"][-1] < 1.0

    def stop(record):
        if record.update == 9:
            raise RuntimeError("cut short")

    path = tmp_path / "run.npz"
    with pytest.raises(RuntimeError, match="cut short"):
        sim.run(spec, checkpoint=path, checkpoint_every=1e-9, callback=stop, progress=False)
    again = sim.run(spec, resume=path, progress=False)
    np.testing.assert_array_equal(again.parameters, plain.parameters)
    for name, values in plain.metrics.items():
        np.testing.assert_array_equal(again[name], values)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lora": 0}, "rank of adapters"),
        ({"lora": {"r": 2, "rank": 3}}, "field of lora"),
        ({"lora": {"r": 2, "modules_to_save": ["head"]}}, "field of lora"),
        ({"lora": {"r": 2, "target_modules": ["embedding"]}}, "linear maps but the head"),
        ({"lora": {"r": 2, "init_lora_weights": "pissa"}}, "init_lora_weights"),
        ({"lora": {"r": 2, "rank_pattern": 3}}, "fields of peft.LoraConfig"),
        ({"lora": {"target_modules": ["nowhere"]}}, "nowhere"),
        ({"lora": {"lora_dropout": 0.1}}, "lora_dropout"),
        ({"lora": 2, "train_layers": 1}, "layers_to_transform"),
    ],
)
def test_adapters_that_cannot_be_made_are_refused(settings, words):
    refused(words, lambda: policy(**settings).size)


def test_a_norm_needs_the_rows_of_its_own_sample(case, monkeypatch):
    """Planted: every response is given the weights of the first one."""
    made, flat, seen, action, _ = case
    batch, view = batch_of(seen, action), view_of(made, flat)
    weight = torch.rand(action.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    right, plain = made.score_norm(view, batch, weight), scoring.score_norm
    monkeypatch.setattr(scoring, "score_norm", lambda made, rows: plain(made, rows[:1].expand_as(rows)))
    assert not torch.allclose(made.score_norm(view, batch, weight), right)


def test_the_head_has_no_adapter(llama):
    fields = {"r": 2, "target_modules": ["lm_head", "q_proj"]}
    refused("lm_head", lambda: sim.policies.causal_lm(str(llama), lora=fields).size)


@pytest.mark.parametrize("settings", [{}, {"reference": "start"}, {"critic": True}], ids=str)
def test_an_export_has_the_adapters_in_its_weights(llama, tmp_path, settings):
    made = sim.policies.causal_lm(str(llama), lora=2, **settings)
    flat = moved(made).float()
    made.export(flat[0], tmp_path / "out")
    network = pytest.importorskip("transformers").AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    text = torch.tensor([made.tokenizer.encode("12+3=")])
    seen = text.reshape(1, 1, 1, -1)
    action = torch.tensor([3, 5, 1]).reshape(1, 1, 1, 3)
    found = made.forward(view_of(made, flat), batch_of(seen, action), ("log_prob",)).outputs["log_prob"][0, 0, 0]
    logits = network(torch.cat([text, action[0, 0]], 1)).logits[0, text.shape[1] - 1 : -1]
    torch.testing.assert_close(found, logits.log_softmax(-1).gather(1, action[0, 0].T)[:, 0], rtol=0, atol=1e-5)
    plain = sim.policies.causal_lm(str(llama)).forward
    start = sim.policies.causal_lm(str(llama)).initial(1)
    loaded = plain(view_of(made, start), batch_of(seen, action), ("log_prob",)).outputs["log_prob"][0, 0, 0]
    assert (loaded - found).abs().max() > 1e-3, "planted: weights without the adapters"


def test_a_loop_of_fixed_shapes_draws_what_the_packed_one_does():
    """Rows of two versions side by side."""
    made = policy(decode="fixed")
    seen = ids(made)
    slot = np.zeros((seen.shape[1], seen.shape[2], T), dtype=np.int64)
    slot[:, 1:] = 1
    view = view_of(made, moved(made), moved(made, 1), slot=slot)
    expected, found = one_by_one(made, view, seen), at_once(made, view, seen)
    assert torch.equal(found.action * found.mask.long(), expected.action * expected.mask.long())
    torch.testing.assert_close(found.outputs["log_prob"], expected.outputs["log_prob"], rtol=0, atol=1e-11)
    alone = at_once(made, view_of(made, moved(made)), seen).outputs["log_prob"]
    assert (alone - expected.outputs["log_prob"]).abs().max() > 1e-3, "planted: all rows read the first version"
