#!/usr/bin/env python3
"""Compares what Fizeau reads of configurations with the configuration classes of `transformers`.

For each architecture of crates/domain/src/model/families.toml that the package knows, this script
builds combinations of the fields that decide which layers there are and what they hold in a cache,
gives them to the package's own class and to Fizeau (the example `model_facts` of the crate
fizeau-domain), and compares the kinds of layers, their windows, the numbers a token holds, and
whether the output layer is the embedding. It needs Python 3.11 and `pip install transformers`.

    scripts/config_oracle.py                compare; exit code 1 where anything differs
    scripts/config_oracle.py --planted      each default is made wrong in turn: it has to be found
    scripts/config_oracle.py --weights      compare parameters too, of models without data (torch)
    scripts/config_oracle.py --golden FILE  write combinations with the package's answers
"""

import argparse
import itertools
import json
import random
import re
import subprocess
import sys
import tomllib
import warnings
from collections import Counter

warnings.filterwarnings("ignore")
from transformers import CONFIG_MAPPING  # noqa: E402
from transformers.utils import logging  # noqa: E402

logging.set_verbosity(logging.CRITICAL)

FAMILIES = "crates/domain/src/model/families.toml"
ABSENT = object()
LAYERS = 6

# Sizes that every configuration states. 32 heads are divided by the heads of keys of every default.
SIZES = {
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 32,
    "vocab_size": 1000,
}

# Fields that change kinds of layers or sizes of caches, with values to try.
FIELDS = {
    "use_sliding_window": [ABSENT, True, False],
    "sliding_window": [ABSENT, None, 48],
    "max_window_layers": [ABSENT, 0, 4],
    "full_attention_interval": [ABSENT, 2, 3],
    "sliding_window_pattern": [ABSENT, 2, 3],
    "layer_types": [ABSENT, "list"],
    "head_dim": [ABSENT, 64],
    "num_key_value_heads": [ABSENT, 16],
    "tie_word_embeddings": [ABSENT, True, False],
    "attention_chunk_size": [ABSENT, None, 64],
    "no_rope_layers": [ABSENT, [1, 0, 1, 1, 1, 0]],
    "no_rope_layer_interval": [ABSENT, 2],
    "full_attn_idxs": [ABSENT, [1, 4]],
    "attn_layer_period": [ABSENT, 3],
    "attn_layer_offset": [ABSENT, 1],
    "kv_lora_rank": [ABSENT, 96],
    "qk_rope_head_dim": [ABSENT, 32],
    "hybrid_override_pattern": [ABSENT, "M*-M*-"],
}

# What a family needs beside: fields without which its class says nothing, or which this script
# states because their defaults are sizes of a checkpoint.
BESIDE = {
    "deepseek_v2": {"num_experts_per_tok": 6},
    "deepseek_v3": {"num_key_value_heads": 32},
    "deepseek_v32": {"num_key_value_heads": 32},
    "glm4_moe_lite": {"num_key_value_heads": 32},
    "glm_moe_dsa": {"num_key_value_heads": 32},
    "nemotron_h": {"hybrid_override_pattern": "M-M*-M"},
    "lfm2_moe": {"layer_types": "list"},
    "hunyuan_v1_dense": {"head_dim": 32},
    "hunyuan_v1_moe": {"head_dim": 32},
    "glm4_moe": {"head_dim": 32},
    "mamba2": {"num_heads": 32, "head_dim": 64, "expand": 2},
    "jamba": {"num_hidden_layers": 14},
    "falcon_h1": {"mamba_d_ssm": 1024, "mamba_n_heads": 32},
}

# Fields that a family does not have.
LEFT_OUT = {
    "nemotron_h": ["layer_types"],
    "mamba2": ["intermediate_size", "num_attention_heads"],
    "qwen3_vl_moe_text": ["sliding_window"],
}

# Differences that are meant, with their reason.
SKIPPED = {
    "mimo_v2_flash": "the class counts the token itself in the window",
    "deepseek_v4": "the class replaces compress_ratios by names of its own",
    "step3p5": "its heads of windows differ, which the catalogue's file does not state",
    "step3p7": "its language part has its own section",
    "kimi_linear": "the class reads the hub's older form, without linear_attn_config's lists",
    "qwen2_vl": "its fields are those of qwen2_vl_text",
    "qwen2_5_vl": "its fields are those of qwen2_5_vl_text",
    "qwen3_vl": "its fields are those of qwen3_vl_text",
    "qwen3_vl_moe": "its fields are those of qwen3_vl_moe_text",
    "qwen3_5": "its fields are those of qwen3_5_text",
    "qwen3_5_moe": "its fields are those of qwen3_5_moe_text",
    "gemma3": "its fields are those of gemma3_text",
    "ministral": "the class needs layer_types",
    "kimi_k25": "its fields are those of deepseek_v3",
}

# Families whose class ignores a list of layers that engines and newer classes follow.
IGNORES_LIST = {"mistral", "ministral3", "mixtral", "phi3", "phimoe", "starcoder2", "qwen3_moe"}


def families():
    with open(FAMILIES, "rb") as file:
        table = tomllib.load(file)
    found = {}
    for name, family in table.items():
        for model_type in [name, *family.get("also", [])]:
            if model_type in CONFIG_MAPPING and model_type not in SKIPPED:
                found[model_type] = family
    return found


def reads(model_type, family):
    """The fields above that a family reads: those its class or its section names."""
    cls = CONFIG_MAPPING[model_type]
    import inspect

    source = inspect.getsource(cls)
    section = json.dumps(family)
    names = [name for name in FIELDS if re.search(rf"\b{name}\b", source + section)]
    if model_type in IGNORES_LIST:
        names = [name for name in names if name != "layer_types"]
    return names


def kinds_of(family):
    pattern = family.get("layers", {})
    most = pattern.get("most", "full_attention")
    last = pattern.get("last", "full_attention")
    if family.get("linear") == "conv":
        most = "conv"
    if most == last:
        most = "full_attention"
    return [most if at in (0, 3, 4) else last for at in range(LAYERS)]


def combinations(model_type, family, most):
    names = reads(model_type, family)
    beside = BESIDE.get(model_type, {})
    values = [[v for v in FIELDS[name]] for name in names if name not in beside]
    names = [name for name in names if name not in beside]
    every = list(itertools.product(*values))
    if len(every) > most:
        every = [every[0], *random.Random(7).sample(every[1:], most - 1)]
    for chosen in every:
        config = {"model_type": model_type, **SIZES, **beside}
        config.update({n: v for n, v in zip(names, chosen) if v is not ABSENT})
        if config.get("layer_types") == "list":
            config["layer_types"] = kinds_of(family)
        for field in LEFT_OUT.get(model_type, []):
            config.pop(field, None)
        yield config


LINEAR = {"linear_attention", "mamba", "conv"}


def truth(config):
    """What the package's class says, or None where it refuses the fields."""
    model_type = config["model_type"]
    fields = {k: v for k, v in config.items() if k != "model_type"}
    try:
        cls = CONFIG_MAPPING[model_type](**fields)
    except Exception:  # the classes raise errors of several kinds
        return None
    window = getattr(cls, "sliding_window", None)
    if model_type == "mamba2":
        kinds = ["linear_attention"] * cls.num_hidden_layers
    elif model_type == "falcon_h1":
        kinds = ["linear_attention", "full_attention"] * cls.num_hidden_layers
    elif model_type == "jamba":
        kinds = list(cls.layers_block_type)
    elif getattr(cls, "layer_types", None):
        kinds = list(cls.layer_types)
    else:
        kind = "sliding_attention" if window else "full_attention"
        kinds = [kind] * cls.num_hidden_layers
    if hasattr(cls, "kv_lora_rank"):
        token = cls.kv_lora_rank + cls.qk_rope_head_dim
    elif model_type != "mamba2":
        dim = getattr(cls, "head_dim", None) or cls.hidden_size // cls.num_attention_heads
        heads = getattr(cls, "num_key_value_heads", None) or cls.num_attention_heads
        token = 2 * heads * dim
    found = Counter()
    for kind in kinds:
        if kind in LINEAR:
            found["linear"] += 1
        elif kind == "sliding_attention":
            if not window:
                return None  # masks of such a model cannot be made
            found[f"window {window} {token}"] += 1
        elif kind == "chunked_attention":
            found[f"chunk {cls.attention_chunk_size} {token}"] += 1
        elif kind not in ("mlp", "moe"):
            found[f"full {token}"] += 1
    # Language parts beside encoders leave it to the whole: what the file says, counts.
    tied = getattr(cls, "tie_word_embeddings", config.get("tie_word_embeddings", False))
    return {"layers": dict(sorted(found.items())), "tied": bool(tied)}


def as_truth(facts):
    found = Counter()
    for layers in facts["layers"]:
        mixer = layers["mixer"]
        if mixer is None:
            continue
        kind, reach, token = mixer
        name = {
            "full": f"full {token}",
            "latent": f"full {token}",
            "linear": "linear",
            "window": f"window {reach} {token}",
            "chunk": f"chunk {reach} {token}",
        }[kind]
        found[name] += layers["count"]
    return {"layers": dict(sorted(found.items())), "tied": facts["modules"]["head"] == 0}


def fizeau(configs):
    text = "".join(json.dumps(config) + "\n" for config in configs)
    command = "cargo run --locked --quiet -p fizeau-domain --example model_facts".split()
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(most):
    """Differences, by family."""
    wrong = 0
    every = {name: list(combinations(name, family, most)) for name, family in families().items()}
    answers = iter(fizeau([config for configs in every.values() for config in configs]))
    for model_type, configs in every.items():
        compared = refused = different = 0
        for config in configs:
            facts, right = next(answers), truth(config)
            if right is None:
                continue
            if "error" in facts:
                refused += 1
                if refused == 1:
                    print(f"  refused: {json.dumps(config)}: {facts['error']}")
                continue
            compared += 1
            read = as_truth(facts)
            if read != right:
                different += 1
                if different <= 2:
                    print(f"  {json.dumps(config)}\n    read  {read}\n    right {right}")
        print(f"{model_type}: {compared} compared, {different} differ, {refused} refused")
        wrong += different + (compared == 0)
    return wrong


def changed(field, value):
    if field == "attn_layer_offset":
        return 6
    if isinstance(value, bool):
        return not value
    # Beyond the layers of these models a number is not seen.
    return 2 if value > 2 * LAYERS and value < 100 else value * 2


def planted(most):
    """Every default made wrong in the oracle in turn: the comparison has to find it."""
    missed, found = [], 0
    every = {name: list(combinations(name, family, most)) for name, family in families().items()}
    answers = iter(fizeau([config for configs in every.values() for config in configs]))
    for model_type, configs in every.items():
        read = [next(answers) for _ in configs]
        family = families()[model_type]
        for field, value in family.get("defaults", {}).items():
            if field not in FIELDS or field in BESIDE.get(model_type, {}):
                continue
            with_plant = [
                (config if field in config else {**config, field: changed(field, value)}, facts)
                for config, facts in zip(configs, read)
            ]
            is_found = any(
                (right := truth(config)) is not None
                and "error" not in facts
                and as_truth(facts) != right
                for config, facts in with_plant
            )
            found += is_found
            if not is_found:
                missed.append(f"{model_type}.{field}")
    print(f"{found} planted defaults found, {len(missed)} missed: {', '.join(missed)}")
    return len(missed)


def weights():
    """Parameters of each class with its own sizes, norms and sinks left out, beside Fizeau's."""
    import torch
    from transformers import AutoModel, AutoModelForCausalLM

    made = []
    for model_type in families():
        config = CONFIG_MAPPING[model_type]()
        try:
            with torch.device("meta"):
                try:
                    model = AutoModelForCausalLM.from_config(config)
                except ValueError:
                    model = AutoModel.from_config(config)
        except TypeError:
            print(f"{model_type}: the class makes no model of its own defaults")
            continue
        counted = sum(
            weight.numel()
            for name, weight in model.named_parameters()
            if "norm" not in name and "sinks" not in name
        )
        has_head = model.get_output_embeddings() is not None
        fields = json.loads(config.to_json_string(use_diff=False), parse_constant=lambda _: None)
        fields = {k: v for k, v in fields.items() if v is not None and not k.startswith("_")}
        made.append(({**fields, "model_type": model_type}, counted, has_head))
    wrong = 0
    for (config, counted, has_head), facts in zip(made, fizeau([c for c, _, _ in made])):
        if "error" in facts:
            print(f"{config['model_type']}: refused: {facts['error']}")
            continue
        total = facts["total"] - (0 if has_head else facts["modules"]["head"])
        off = total / counted - 1
        wrong += abs(off) > 1e-3
        print(f"{config['model_type']}: {counted:.6e}, read {total:.6e}, {off:+.4%}")
    return wrong


def golden(path, most):
    rows = []
    for model_type, family in families().items():
        configs = [c for c in combinations(model_type, family, 400) if truth(c) is not None]
        picked = [configs[0], *random.Random(11).sample(configs[1:], min(most, len(configs) - 1))]
        rows += [{"config": config, **truth(config)} for config in picked]
    with open(path, "w") as file:
        lines = ",\n".join(json.dumps(row, sort_keys=True) for row in rows)
        file.write(f"[\n{lines}\n]\n")
    print(f"{len(rows)} configurations in {path}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--weights", action="store_true")
    parser.add_argument("--golden")
    parser.add_argument("--most", type=int, default=2000, help="combinations of a family")
    args = parser.parse_args()
    if args.golden:
        return golden(args.golden, 7)
    if args.planted:
        return int(planted(args.most) > 0)
    if args.weights:
        return int(weights() > 0)
    return int(compare(args.most) > 0)


if __name__ == "__main__":
    sys.exit(main())
