//! Configurations as they are published: what they are read as, beside the answers of the
//! `transformers` package; quantisations field by field; and the advice of refusals, followed to
//! its end.

use fizeau_domain::model::{Format, Mixer, Model, Module, Reach, config, family};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Combinations with the package's answers, written by `scripts/config_oracle.py --golden`.
const GOLDEN: &str = include_str!("configurations.json");

/// Parameters of safetensors files as the hub or the index of the files states them (`url`; seen at
/// `via`), with the fields that sizes follow from, or all (seen at `config_via`, or at `via` too).
/// Models whose totals count heads that predict more than one token, encoders, or a tied matrix
/// twice (Qwen3-0.6B and 1.7B) are left out.
const PUBLISHED: &str = include_str!("published.json");

fn read(config: &Value) -> Result<Model, String> {
    config::parse("made up", &config.to_string()).map_err(|error| error.to_string())
}

/// Layers by kind, window and numbers that a token holds, as the script writes them.
fn layers(model: &Model) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for layers in &model.layers {
        let name = match &layers.mixer {
            None => continue,
            Some(Mixer::Grouped(mixer)) => {
                let token = mixer.kv_heads * (mixer.dim_qk + mixer.dim_v);
                match mixer.reach {
                    Reach::All => format!("full {token}"),
                    Reach::Window(window) => format!("window {window} {token}"),
                    Reach::Chunk(chunk) => format!("chunk {chunk} {token}"),
                }
            }
            Some(Mixer::Latent(mixer)) => format!("full {}", mixer.kv_rank + mixer.rope),
            Some(Mixer::Compressed(_)) => "compressed".into(),
            Some(Mixer::Linear(_)) => "linear".into(),
        };
        *found.entry(name).or_default() += u64::from(layers.count);
    }
    found
}

#[test]
fn layers_and_caches_are_those_of_the_transformers_package() {
    let rows: Vec<Value> = serde_json::from_str(GOLDEN).expect("JSON");
    let (mut compared, mut refused) = (0, 0);
    for row in &rows {
        match read(&row["config"]) {
            Ok(model) => {
                let right: BTreeMap<String, u64> =
                    serde_json::from_value(row["layers"].clone()).expect("counts");
                assert_eq!(layers(&model), right, "{}", row["config"]);
                assert_eq!(Value::Bool(model.is_tied), row["tied"], "{}", row["config"]);
                compared += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(compared >= 300 && refused * 20 < compared, "{compared} compared, {refused} refused");
}

#[test]
fn parameters_are_within_a_thousandth_of_what_the_hub_states() {
    let rows: Vec<Value> = serde_json::from_str(PUBLISHED).expect("JSON");
    for row in &rows {
        let model = read(&row["config"]).unwrap_or_else(|error| panic!("{}: {error}", row["url"]));
        let off = model.total() / row["total"].as_f64().expect("a number") - 1.0;
        assert!(off.abs() <= 1e-3, "{}: {off:+.5}", row["url"]);
    }
    assert!(rows.len() >= 83, "{}", rows.len());
}

/// Fields of publishers' files that change no size, and sizes that stand there under two names.
#[test]
fn what_publishers_state_beside_sizes_is_read_over_and_sizes_stated_twice_must_agree() {
    for (model_type, fields) in [
        ("apertus", json!({"qk_norm": true})),
        ("cohere", json!({"model_max_length": 131_072})),
        ("cohere2", json!({"layer_switch": 4, "sliding_window_pattern": 4, "rotary_pct": 1.0})),
        ("hunyuan_v1_dense", json!({"attention_head_dim": 128, "head_dim": 128})),
        ("hunyuan_v1_dense", json!({"cla_share_factor": 2, "use_cla": false})),
        ("llama", json!({"is_llama_config": true})),
        ("minimax", json!({"postnorm": true})),
        ("nemotron_h", json!({"attention_head_dim": 128})),
        ("starcoder2", json!({"scale_attn_weights": true, "attention_softmax_in_fp32": true})),
    ] {
        let base = if model_type == "nemotron_h" { nemotron() } else { llama() };
        let plain = with(base, json!({"model_type": model_type}));
        let read_as = |config: Value| {
            let model = read(&config).unwrap_or_else(|error| panic!("{error}"));
            (model.total(), layers(&model))
        };
        assert_eq!(read_as(with(plain.clone(), fields.clone())), read_as(plain), "{fields}");
    }
    for (model_type, fields, field) in [
        ("cohere2", json!({"layer_switch": 8, "sliding_window_pattern": 4}), "sliding_window"),
        ("cohere2", json!({"use_embedding_sharing": true}), "use_embedding_sharing"),
        ("hunyuan_v1_dense", json!({"attention_head_dim": 64, "head_dim": 128}), "head_dim"),
        ("hunyuan_v1_dense", json!({"use_cla": true}), "use_cla"),
    ] {
        let config = with(llama(), with(json!({"model_type": model_type}), fields));
        let error = read(&config).expect_err("another model");
        assert!(error.contains(field), "{error}");
    }
}

/// An architecture's defaults, patterns and switches: one that is made wrong changes an answer.
#[test]
fn a_field_that_is_absent_is_not_one_that_is_zero() {
    let rows: Vec<Value> = serde_json::from_str(GOLDEN).expect("JSON");
    for (field, other) in [
        ("use_sliding_window", json!(true)),
        ("sliding_window", json!(31)),
        ("head_dim", json!(96)),
        ("num_key_value_heads", json!(1)),
        ("sliding_window_pattern", json!(2)),
        ("full_attention_interval", json!(2)),
        ("no_rope_layer_interval", json!(2)),
        ("attention_chunk_size", json!(77)),
        ("tie_word_embeddings", json!(true)),
        ("attn_layer_period", json!(2)),
        ("kv_lora_rank", json!(7)),
    ] {
        let is_seen = rows.iter().any(|row| {
            let mut config = row["config"].clone();
            if config.get(field).is_some() {
                return false;
            }
            config[field] = other.clone();
            let right: BTreeMap<String, u64> =
                serde_json::from_value(row["layers"].clone()).expect("counts");
            read(&config).is_ok_and(|model| {
                layers(&model) != right || Value::Bool(model.is_tied) != row["tied"]
            })
        });
        assert!(is_seen, "{field}");
    }
}

/// A dense model of 8.03 x 10^9 parameters, to be changed.
fn llama() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16", "hidden_act": "silu", "tie_word_embeddings": false,
        "attention_bias": false, "mlp_bias": false, "rms_norm_eps": 1e-5, "rope_theta": 500000.0
    })
}

fn qwen2(changes: Value) -> Value {
    with(
        json!({
            "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
            "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
            "vocab_size": 152064, "sliding_window": 4096, "torch_dtype": "bfloat16"
        }),
        changes,
    )
}

fn with(mut config: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().expect("an object") {
        config[key] = value.clone();
    }
    config
}

/// The hub's form of Qwen3-Next, which has no list of layers.
fn qwen3_next() -> Value {
    json!({
        "model_type": "qwen3_next", "attention_bias": false, "decoder_sparse_step": 1,
        "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu",
        "hidden_size": 2048, "intermediate_size": 5120, "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_value_head_dim": 128, "mlp_only_layers": [], "moe_intermediate_size": 512,
        "num_attention_heads": 16, "num_experts": 512, "num_experts_per_tok": 10,
        "num_hidden_layers": 48, "num_key_value_heads": 2, "partial_rotary_factor": 0.25,
        "shared_expert_intermediate_size": 512, "tie_word_embeddings": false,
        "torch_dtype": "bfloat16", "use_sliding_window": false, "vocab_size": 151936
    })
}

/// The hub's form of Nemotron-H: letters by layer.
fn nemotron() -> Value {
    json!({
        "model_type": "nemotron_h", "chunk_size": 128, "conv_kernel": 4, "expand": 2,
        "head_dim": 128, "hidden_size": 4480,
        "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
        "intermediate_size": 15680, "mamba_head_dim": 80, "mamba_num_heads": 128,
        "mlp_hidden_act": "relu2", "n_groups": 8, "num_attention_heads": 40,
        "num_hidden_layers": 56, "num_key_value_heads": 8, "num_logits_to_keep": 1,
        "residual_in_fp32": false, "sliding_window": null, "ssm_state_size": 128,
        "time_step_rank": 256, "torch_dtype": "bfloat16", "use_bias": false,
        "vocab_size": 131072
    })
}

#[test]
fn windows_count_only_where_the_architecture_switches_them_on() {
    // (configuration, bytes a token adds far out, bytes of a sequence of 8,191.5 tokens)
    let one = 2.0 * 4.0 * 128.0 * 2.0;
    for (changes, token, long) in [
        (json!({}), 28.0 * one, 28.0 * one * 8191.5),
        (json!({"use_sliding_window": false}), 28.0 * one, 28.0 * one * 8191.5),
        (
            json!({"use_sliding_window": true, "max_window_layers": 28}),
            28.0 * one,
            28.0 * one * 8191.5,
        ),
        (
            json!({"use_sliding_window": true, "max_window_layers": 21}),
            21.0 * one,
            one * (21.0 * 8191.5 + 7.0 * 4096.0),
        ),
    ] {
        let model = read(&qwen2(changes.clone())).expect("understood");
        assert_eq!(model.kv_bytes_per_token(Format::Bf16), token, "{changes}");
        assert_eq!(model.kv_bytes(8191.5, Format::Bf16), long, "{changes}");
    }
    let off = json!({"layer_types": vec!["sliding_attention"; 28]});
    let error = read(&qwen2(off)).expect_err("a window that is off");
    assert!(error.contains("sliding_window"), "{error}");
}

#[test]
fn layers_follow_from_an_interval_and_from_letters() {
    let model = read(&qwen3_next()).expect("understood");
    assert_eq!(model.kv_bytes_per_token(Format::Bf16), 24576.0);
    // Published weights: 79,674,391,296 with norms, of them 3,563,764,480 active but for the
    // embedding.
    assert!((model.total() / 79_674_391_296.0 - 1.0).abs() < 1e-5, "{}", model.total());
    assert!((model.active() / 3_563_764_480.0 - 1.0).abs() < 1e-4, "{}", model.active());
    let model = read(&nemotron()).expect("understood");
    assert_eq!(model.kv_bytes_per_token(Format::Bf16), 16384.0);
    assert!((model.total() / 8.89e9 - 1.0).abs() < 1e-3, "{}", model.total());
}

/// Fields that a refusal tells to take out of the file; none where it does not.
fn told(error: &str) -> Vec<String> {
    let Some(rest) = error.strip_prefix("field ").or(error.strip_prefix("fields ")) else {
        return Vec::new();
    };
    let (names, why) = rest.split_once(": ").unwrap_or((rest, ""));
    match why.contains("take them out") {
        true => names.split(", ").map(str::to_owned).collect(),
        false => Vec::new(),
    }
}

fn take_out(config: &mut Value, path: &str) {
    let mut place = config;
    let names: Vec<_> = path.split('.').collect();
    for name in &names[..names.len() - 1] {
        place = &mut place[*name];
    }
    place.as_object_mut().expect("a table").remove(names[names.len() - 1]);
}

#[test]
fn advice_that_is_followed_never_ends_in_another_model() {
    let rows: Vec<Value> = serde_json::from_str(GOLDEN).expect("JSON");
    let golden = rows.iter().map(|row| row["config"].clone());
    let mut loops = 0;
    for config in golden.chain([qwen3_next(), nemotron(), llama(), qwen2(json!({}))]) {
        let Ok(right) = read(&config) else { continue };
        // Under a name that does not know its fields, and with fields that nobody knows.
        let foreign = ["llama", "qwen3", "mistral", "qwen3_moe", "deepseek_v3"]
            .map(|name| with(config.clone(), json!({"model_type": name})));
        let strange = with(config.clone(), json!({"num_memory_slots": 4, "is_strange": true}));
        for (config, is_same) in
            foreign.into_iter().map(|one| (one, false)).chain([(strange, true)])
        {
            let mut config = config;
            for round in 0.. {
                let error = match read(&config) {
                    Ok(model) if is_same => {
                        assert_eq!(model, right, "{config}");
                        break;
                    }
                    Ok(model) => {
                        // What states other layers was never told to be taken out.
                        let linear = |model: &Model| layers(model).contains_key("linear");
                        assert!(!linear(&right) || linear(&model) || round == 0, "{config}");
                        break;
                    }
                    Err(error) => error,
                };
                let fields = told(&error);
                assert!(round < 2, "advice does not end: {error}");
                if fields.is_empty() {
                    break;
                }
                loops += 1;
                fields.iter().for_each(|field| take_out(&mut config, field));
            }
        }
    }
    assert!(loops > 300, "{loops}");
}

#[test]
fn every_field_that_is_refused_is_named_at_once() {
    let strange = with(llama(), json!({"slots": 4, "memory": [1], "extra": {"a": 1}, "no": false}));
    let error = read(&strange).expect_err("refused");
    assert!(error.starts_with("fields extra, memory, slots: "), "{error}");
    // A field that states layers names the cause, and is not told to be taken out.
    let error = read(&with(llama(), json!({"linear_conv_kernel_dim": 4, "slots": 1})));
    let error = error.expect_err("refused");
    assert!(error.contains("makes a wrong model") && told(&error).is_empty(), "{error}");
}

fn quantised(table: Value) -> Value {
    with(llama(), json!({"quantization_config": table}))
}

/// Parameters of the model above: layers, and embedding or output layer.
const DENSE: f64 = 32.0 * 3.0 * 4096.0 * 14336.0;
const ATTENTION: f64 = 32.0 * (2.0 * 4096.0 * 4096.0 + 2.0 * 4096.0 * 1024.0);
const TABLE: f64 = 4096.0 * 128_256.0;

fn compressed(targets: Value, ignore: Value) -> Value {
    json!({
        "quant_method": "compressed-tensors", "format": "float-quantized",
        "global_compression_ratio": 1.5, "ignore": ignore, "kv_cache_scheme": null,
        "quantization_status": "compressed",
        "config_groups": {"group_0": {
            "input_activations": null, "output_activations": null, "targets": targets,
            "weights": {"actorder": null, "block_structure": null, "dynamic": false,
                "group_size": null, "num_bits": 8, "observer": "minmax", "observer_kwargs": {},
                "strategy": "channel", "symmetric": true, "type": "float"}
        }}
    })
}

#[test]
fn quantisations_of_publishers_are_read() {
    let linear = DENSE + ATTENTION;
    let all = |bytes: f64| linear * bytes + 4.0 * TABLE;
    let list = ["lm_head", "model.layers.0.input_layernorm", "visual", "re:visual.*"];
    let table = |method: &str, rest: Value| with(json!({"quant_method": method}), rest);
    for (config, bytes) in [
        (compressed(json!(["Linear"]), json!(["lm_head"])), all(1.0)),
        // As GLM-4.5 and GLM-5 in fp8 have it: a bias is no matrix.
        (
            compressed(
                json!(["Linear"]),
                json!(["lm_head", "model.layers.0.self_attn.q_proj.bias"]),
            ),
            all(1.0),
        ),
        (
            table(
                "fp8",
                json!({"modules_to_not_convert": ["model.layers.0.self_attn.indexers_proj"]}),
            ),
            all(1.0),
        ),
        // Attention stays as it is.
        (
            compressed(json!(["re:.*mlp.*"]), json!(["lm_head"])),
            DENSE + 2.0 * ATTENTION + 4.0 * TABLE,
        ),
        (
            compressed(json!(["Linear"]), json!(["re:.*self_attn.*", "lm_head"])),
            DENSE + 2.0 * ATTENTION + 4.0 * TABLE,
        ),
        (table("fp8", json!({"modules_to_not_convert": list, "fmt": "e4m3"})), all(1.0)),
        (table("fbgemm_fp8", json!({"activation_scale_ub": 1200.0})), all(1.0)),
        (
            table(
                "gptq",
                json!({"bits": 4, "group_size": 128, "damp_percent": 0.1,
                "desc_act": true, "sym": true, "true_sequential": true, "static_groups": false}),
            ),
            all((4.0 + 16.0 / 128.0) / 8.0),
        ),
        (table("gptq", json!({"bits": 8, "group_size": -1, "lm_head": false})), all(1.0)),
        (
            table(
                "awq",
                json!({"bits": 4, "group_size": 128, "zero_point": true,
                "modules_to_not_convert": ["visual"], "version": "gemm"}),
            ),
            all((4.0 + 16.0 / 128.0) / 8.0),
        ),
        (
            table(
                "auto-round",
                json!({"bits": 4, "group_size": 128, "sym": true, "iters": 200,
                "extra_config": {"lm_head": {"bits": 16}}}),
            ),
            all((4.0 + 16.0 / 128.0) / 8.0),
        ),
        (
            table(
                "modelopt",
                json!({"quant_algo": "NVFP4", "group_size": 16,
                "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}),
            ),
            all(0.5625),
        ),
        (
            table(
                "modelopt",
                json!({"quant_algo": "FP8", "ignore": ["lm_head",
                "model.layers.*self_attn*"]}),
            ),
            DENSE + 2.0 * ATTENTION + 4.0 * TABLE,
        ),
        (
            table(
                "quark",
                json!({"exclude": ["lm_head"], "layer_quant_config": {},
                "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}}),
            ),
            all(0.53125),
        ),
        (
            table(
                "bitsandbytes",
                json!({"load_in_4bit": true, "load_in_8bit": false,
                "bnb_4bit_quant_type": "nf4", "llm_int8_threshold": 6.0}),
            ),
            all(4.5 / 8.0),
        ),
        (
            table(
                "torchao",
                json!({"quant_type": {"default": {"_type": "Int4WeightOnlyConfig",
                "_data": {"group_size": 64}}}}),
            ),
            all((4.0 + 16.0 / 64.0) / 8.0),
        ),
        (
            table(
                "hqq",
                json!({"quant_config": {"weight_quant_params": {"nbits": 4,
                "group_size": 64}}, "skip_modules": ["lm_head"]}),
            ),
            all(4.5 / 8.0),
        ),
        (json!({"bits": 4, "group_size": 64}), (linear + 2.0 * TABLE) * 4.5 / 8.0),
    ] {
        let model = read(&quantised(config.clone())).unwrap_or_else(|e| panic!("{config}: {e}"));
        let found = model.weight_bytes();
        assert!((found / bytes - 1.0).abs() < 1e-9, "{config}: {found} and not {bytes}");
    }
}

#[test]
fn keys_and_values_are_stored_as_the_file_states() {
    let scheme = json!({"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false});
    let table =
        with(compressed(json!(["Linear"]), json!(["lm_head"])), json!({"kv_cache_scheme": scheme}));
    let model = read(&quantised(table)).expect("understood");
    assert_eq!(model.kv_format(None), Format::Fp8);
    assert_eq!(model.kv_bytes_per_token(model.kv_format(None)), 65536.0);
    assert_eq!(model.kv_format(Some(Format::Bf16)), Format::Bf16);
    assert_eq!(read(&llama()).expect("understood").kv_format(None), Format::Bf16);
}

/// Fields of a quantisation that say how scales were found, and nothing of bytes.
const WORDS: [&str; 9] = [
    "quantization_status",
    "format",
    "observer",
    "strategy",
    "symmetric",
    "dynamic",
    "global_compression_ratio",
    "version",
    "zero_point",
];

/// Every scalar of a table, by its path.
fn scalars(value: &Value, path: Vec<String>, found: &mut Vec<Vec<String>>) {
    let inner = |key: &str| [path.clone(), vec![key.to_owned()]].concat();
    match value {
        Value::Object(map) => map.iter().for_each(|(key, one)| scalars(one, inner(key), found)),
        Value::Array(list) => {
            list.iter()
                .enumerate()
                .for_each(|(at, one)| scalars(one, inner(&at.to_string()), found));
        }
        Value::Null => {}
        _ => found.push(path),
    }
}

#[test]
fn each_scalar_of_a_quantisation_changes_the_result_or_is_refused() {
    let kv = json!({"num_bits": 8, "type": "float"});
    let tables = [
        with(compressed(json!(["re:.*mlp.*"]), json!(["lm_head"])), json!({"kv_cache_scheme": kv})),
        json!({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm",
            "zero_point": true, "modules_to_not_convert": ["self_attn"]}),
        json!({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16,
            "kv_cache_quant_algo": "FP8", "exclude_modules": ["model.layers.*self_attn*"]}),
    ];
    let mut changed = 0;
    for table in tables {
        let right = read(&quantised(table.clone())).expect("understood");
        let mut paths = Vec::new();
        scalars(&table, Vec::new(), &mut paths);
        for path in paths {
            let mut other = table.clone();
            let pointer = format!("/{}", path.join("/"));
            let place = other.pointer_mut(&pointer).expect("there");
            *place = match place {
                Value::Bool(flag) => json!(!*flag),
                Value::Number(_) => json!(3),
                _ => json!("something else"),
            };
            let name = path.last().map_or("", String::as_str);
            let is_alike = read(&quantised(other)).is_ok_and(|model| model == right);
            let is_word = WORDS.contains(&name)
                || table["ignore"][0] == *table.pointer(&pointer).expect("there");
            assert!(!is_alike || is_word, "{pointer}");
            changed += usize::from(!is_alike);
        }
    }
    assert!(changed >= 14, "{changed}");
}

#[test]
fn parts_of_a_kind_of_weights_are_refused_and_not_rounded() {
    let first = json!(["re:.*layers\\.0\\.mlp.*", "lm_head"]);
    let error = read(&quantised(compressed(json!(["Linear"]), first))).expect_err("a part");
    assert!(error.contains("part of the weights of dense"), "{error}");
    assert!(error.contains("--precision"), "{error}");
    let strange = compressed(json!(["Linear"]), json!(["model.secret", "model.other"]));
    let error = read(&quantised(strange)).expect_err("unknown");
    assert!(error.contains("model.secret") && error.contains("model.other"), "{error}");
    let model = read(&quantised(compressed(json!(["Linear"]), json!(["re:.*mlp.*"]))));
    assert_eq!(model.expect("understood").precision.of(Module::Dense), Format::Bf16);
}

#[test]
fn the_language_part_is_read_with_the_defaults_that_its_file_leaves_out() {
    // Gemma 3 4B: what equals the class's default is not in the published file.
    let gemma = json!({
        "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255_999,
        "eoi_token_index": 256_000, "eos_token_id": [1, 106], "image_token_index": 262_144,
        "initializer_range": 0.02, "mm_tokens_per_image": 256, "model_type": "gemma3",
        "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
            "model_type": "gemma3_text", "num_hidden_layers": 34,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
        "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1152}
    });
    let model = read(&gemma).expect("understood");
    assert!(model.is_tied && model.notes.iter().any(|note| note.contains("head_dim 256")));
    // 5 of 34 layers are full.
    assert_eq!(model.kv_bytes_per_token(Format::Bf16), 5.0 * 2.0 * 4.0 * 256.0 * 2.0);
    assert_eq!(
        layers(&model),
        BTreeMap::from([("full 2048".into(), 5), ("window 1024 2048".into(), 29)])
    );
}

#[test]
fn a_number_for_each_layer_counts_as_one_where_all_are_equal() {
    let list = with(llama(), json!({"intermediate_size": vec![14336; 32]}));
    assert_eq!(read(&list), read(&llama()));
    let mut other = vec![14336; 32];
    other[3] = 1;
    assert!(read(&with(llama(), json!({"intermediate_size": other}))).is_err());
    assert!(family::known().len() > 70);
    let _: Map<String, Value> = Map::new();
}
