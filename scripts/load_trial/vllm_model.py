"""A directory that `vllm serve DIR --load-format dummy` takes: a small Llama's shape, a tokenizer.

vllm_model.py DIR
"""

import json
import pathlib
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CONSONANTS, VOWELS = "bcdfghklmnprst", "aeiou"


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    syllables = [one + vowel + last for one in CONSONANTS for vowel in VOWELS for last in CONSONANTS]
    tokenizer.train_from_iterator([" ".join(syllables)], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    write(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|end|>",
        "model_max_length": 4096,
    })
    write(folder / "config.json", {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": tokenizer.get_vocab_size(),
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 0,
        "hidden_act": "silu",
    })


def write(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main()
