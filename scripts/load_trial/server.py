"""llama.cpp's own HTTP server on a model with random weights, which it makes where it is missing.

    server.py MODEL.gguf [--hidden 256 --layers 4] [--port 0] [--slots 8] [--threads 1]

Prints the server's URL. Beside the model lies config.json, for `fizeau load report --model`. About
one token in a hundred of an answer is a byte that begins a character: a server keeps it back, so
that a chunk holds several tokens, or none.
"""

import argparse
import json
import pathlib
import socket
import time

import gguf
import numpy as np
import xllamacpp

CONTEXT = 8192
# Of the tokens that are no words, an answer has these alone: bytes 0xC2 to 0xC9.
BYTES, BEGINNINGS = 259, slice(3 + 0xC2, 3 + 0xCA)
ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def vocabulary():
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256
    tokens += ["\u2581" + one + other for one in ALPHABET for other in ALPHABET]
    return tokens, kinds + [gguf.TokenType.NORMAL] * (len(tokens) - len(kinds))


def make(path, hidden, layers):
    """Writes the model, and config.json with its shape."""
    heads, keys, inner = hidden // 32, hidden // 64, hidden * 11 // 4
    tokens, kinds = vocabulary()
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path.with_suffix(".part"), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(keys)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(hidden // heads)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}")

    def matrix(name, rows, columns):
        values = random.standard_normal((rows, columns), np.float32) * 0.02
        if name == "output.weight":
            kept = values[BEGINNINGS].copy()
            values[:BYTES] = 0.0
            values[BEGINNINGS] = kept
        writer.add_tensor(name, values.astype(np.float16))

    def norm(name):
        writer.add_tensor(name, np.ones(hidden, np.float32))

    matrix("token_embd.weight", len(tokens), hidden)
    matrix("output.weight", len(tokens), hidden)
    norm("output_norm.weight")
    for layer in range(layers):
        block = f"blk.{layer}."
        norm(block + "attn_norm.weight")
        norm(block + "ffn_norm.weight")
        for name, rows in [("q", heads), ("k", keys), ("v", keys)]:
            matrix(f"{block}attn_{name}.weight", rows * hidden // heads, hidden)
        matrix(block + "attn_output.weight", hidden, hidden)
        matrix(block + "ffn_gate.weight", inner, hidden)
        matrix(block + "ffn_up.weight", inner, hidden)
        matrix(block + "ffn_down.weight", hidden, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "vocab_size": len(tokens),
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "torch_dtype": "float16",
    }
    (path.parent / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    path.with_suffix(".part").rename(path)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    for name, value in [("hidden", 256), ("layers", 4), ("port", 0), ("slots", 8), ("threads", 1)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    args.model.parent.mkdir(parents=True, exist_ok=True)
    if not args.model.exists():
        make(args.model, args.hidden, args.layers)
    params = xllamacpp.CommonParams()
    params.model.path = str(args.model)
    params.port = args.port or free_port()
    params.n_parallel = args.slots
    params.n_ctx = 2048 * args.slots
    # Threads of ggml spin: two on a core that another program shares are many times slower than one.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
    params.cont_batching = params.endpoint_metrics = params.warmup = True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
