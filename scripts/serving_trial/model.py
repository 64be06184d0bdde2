"""A Llama with random weights: config.json for `fizeau project`, GGUF files for llama.cpp.

    model.py DIRECTORY

Widths are those of LLaMA-30B (hidden 6656, inner 17920, 52 heads); two layers of its sixty, and a
vocabulary of 6,144. Weights are normal random numbers, the same in both formats. No vocabulary has
to be downloaded: a prompt is a list of token ids, and what comes out is never read.
"""

import json
import pathlib
import sys

import gguf
import numpy as np

HIDDEN, INNER, HEADS, LAYERS, VOCABULARY, CONTEXT = 6656, 17920, 52, 2, 6144, 4096
# The first tokens are control and byte tokens, which no answer shall have: a byte may be half of a
# character, which a server keeps back.
NOT_WORDS = 259
FORMATS = {
    "bf16": (gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": CONTEXT,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
}


def matrices():
    """Name and shape of each matrix, outputs x inputs."""
    yield "token_embd.weight", (VOCABULARY, HIDDEN)
    yield "output.weight", (VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{layer}.{name}.weight", (HIDDEN, HIDDEN)
        for name in ("ffn_gate", "ffn_up"):
            yield f"blk.{layer}.{name}.weight", (INNER, HIDDEN)
        yield f"blk.{layer}.ffn_down.weight", (HIDDEN, INNER)


def norms():
    yield "output_norm.weight"
    for layer in range(LAYERS):
        yield f"blk.{layer}.attn_norm.weight"
        yield f"blk.{layer}.ffn_norm.weight"


def weights(name, shape, seed):
    values = np.random.default_rng([seed, *name.encode()]).standard_normal(shape, np.float32)
    values *= 0.02
    if name == "output.weight":
        values[:NOT_WORDS] = 0.0
    return values


def write_vocabulary(writer):
    words = [first + second for first in "abcdefghijklmnopqrstuvwxyz" for second in "aeiou"]
    words = [one + other for one in words for other in words]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256
    tokens += ["\u2581" + word for word in words[: VOCABULARY - len(tokens)]]
    kinds += [gguf.TokenType.NORMAL] * (len(tokens) - len(kinds))
    assert len(tokens) == VOCABULARY
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template("{% for message in messages %}{{ message['content'] }}{% endfor %}")


def write(path, format_name, seed=1):
    kind, file_type = FORMATS[format_name]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(CONFIG["rms_norm_eps"])
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(CONFIG["rope_theta"])
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(int(file_type))
    write_vocabulary(writer)
    for name in norms():
        writer.add_tensor(name, np.ones(HIDDEN, np.float32))
    for name, shape in matrices():
        stored = gguf.quants.quantize(weights(name, shape, seed), kind)
        writer.add_tensor(name, stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    for format_name in FORMATS:
        path = folder / f"{format_name}.gguf"
        if not path.exists():
            half = path.with_suffix(".part")
            write(half, format_name)
            half.rename(path)
        print(f"{path}: {path.stat().st_size / 1e9:.3f} GB")


if __name__ == "__main__":
    main()
