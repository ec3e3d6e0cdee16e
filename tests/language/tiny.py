"""A model of two layers with a tokenizer of single characters, saved as `transformers` does, and data for it."""

import json

import torch

ALPHABET = "0123456789+-*/= abcdefghijklmnopqrstuvwxyzQA:<>.?\n"
CHAT = (
    "{% for m in messages %}<{{ m['role'][0] }}>{{ m['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)
OPTIONS = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "eos_token_id": 1,
    "initializer_range": 0.3,
}


def save(folder, chat=True, tied=True, context=96):
    """Write the model into a folder; the network and the tokenizer."""
    import transformers
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    words = ["<pad>", "<end>", "<begin>", *ALPHABET, "=\n"]
    tokens = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<pad>"))
    tokens.pre_tokenizer = pre_tokenizers.Split(Regex("=\n|[\\s\\S]"), "isolated")
    tokens.decoder = decoders.Fuse()
    special = {"eos_token": "<end>", "pad_token": "<pad>", "bos_token": "<begin>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, **special)
    if chat:
        tokenizer.chat_template = CHAT
    torch.manual_seed(0)
    options = OPTIONS | {"tie_word_embeddings": tied, "max_position_embeddings": context}
    network = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=len(words), **options)).eval()
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return network, tokenizer


def rows(path, *rows):
    """Write rows as JSONL; the path as text."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)
