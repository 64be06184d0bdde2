//! Models: parameters and caches against what publishers state and against sums written out, and
//! configurations that have to be refused.

use fizeau::data::Catalogue;
use fizeau_domain::model::{Format, Model, config};

fn catalogue() -> Catalogue {
    Catalogue::load(None).expect("the embedded catalogue")
}

fn model(name: &str) -> Model {
    catalogue().model(name).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_total_is_within_one_percent_of_what_is_published() {
    let catalogue = catalogue();
    let mut compared = 0;
    for name in catalogue.model_names() {
        let file = catalogue.model_file(name).expect("a file");
        let model = file.model().unwrap_or_else(|error| panic!("{name}: {error}"));
        let Some(published) = file.published else { continue };
        // Exceptions stand in the notes of their files: an encoder of images, a rounded total.
        let allowed = match name {
            "llama-4-scout" => 0.012,
            "deepseek-v4-pro" => 0.018,
            _ => 0.01,
        };
        let off = model.total() / published.total - 1.0;
        assert!(off.abs() <= allowed, "{name}: {:.4e} is {off:+.4} off", model.total());
        compared += 1;
        // Publishers round active parameters, and differ in whether embeddings count.
        if let Some(active) = published.active {
            let off = model.active() / active - 1.0;
            assert!(off.abs() <= 0.12, "{name}: active {:.4e}, {off:+.3} off", model.active());
        }
    }
    assert!(compared >= 21, "{compared} models have a published total");
    assert!(catalogue.model_names().count() >= 34);
}

#[test]
fn six_models_are_equal_to_sums_written_out() {
    // (name, active parameters, bytes of the cache for one token in bf16, and for 10,000 tokens)
    let d = 4096.0;
    let llama_8b = 32.0
        * (d * 32.0 * 128.0 + 2.0 * d * 8.0 * 128.0 + 32.0 * 128.0 * d + 3.0 * d * 14336.0)
        + d * 128256.0;
    let llama_8b_kv = 32.0 * 2.0 * 8.0 * 128.0 * 2.0;

    let d = 8192.0;
    let llama_70b =
        80.0 * (2.0 * d * 64.0 * 128.0 + 2.0 * d * 8.0 * 128.0 + 3.0 * d * 28672.0) + d * 128256.0;
    let llama_70b_kv = 80.0 * 2.0 * 8.0 * 128.0 * 2.0;

    // Attention with biases; 4 of 128 experts of 3 x 2880 x 2880; a router; the output layer.
    let d = 2880.0;
    let gpt_oss = 36.0
        * (2.0 * d * 4096.0
            + 2.0 * d * 512.0
            + (4096.0 + 2.0 * 512.0)
            + d
            + 4.0 * 3.0 * d * 2880.0
            + d * 128.0)
        + d * 201088.0;
    let gpt_oss_layer = 2.0 * 8.0 * 64.0 * 2.0;

    // Queries by a latent of 1536, keys and values by one of 512 + 64; 8 of 256 experts and a
    // shared one of 2048; three layers of 18432.
    let d = 7168.0;
    let mla =
        d * 1536.0 + 1536.0 * 128.0 * 192.0 + d * 576.0 + 512.0 * 128.0 * 256.0 + 128.0 * 128.0 * d;
    let deepseek = 61.0 * mla
        + 3.0 * 3.0 * d * 18432.0
        + 58.0 * (9.0 * 3.0 * d * 2048.0 + d * 256.0)
        + d * 129280.0;

    let d = 4096.0;
    let qwen = 94.0
        * (2.0 * d * 64.0 * 128.0 + 2.0 * d * 4.0 * 128.0 + 8.0 * 3.0 * d * 1536.0 + d * 128.0)
        + d * 151936.0;

    // 12 layers of attention whose queries are twice as wide for a gate; 36 of the delta net: 16
    // key heads and 64 value heads of 128, a gate, two numbers a head, a convolution over 4; 8 of
    // 256 experts and a shared one of 1024 with its gate.
    let d = 3072.0;
    let full = 3.0 * d * 32.0 * 256.0 + 2.0 * d * 2.0 * 256.0;
    let mixed = 2.0 * 2048.0 + 8192.0;
    let delta = d * (mixed + 8192.0 + 128.0) + 8192.0 * d + mixed * 4.0;
    let qwen_next =
        12.0 * full + 36.0 * delta + 48.0 * (9.0 * 3.0 * d * 1024.0 + d + d * 256.0) + d * 248320.0;
    let state = 64.0 * 128.0 * 128.0 * 4.0;

    for (name, active, token, long) in [
        ("llama-3.1-8b", llama_8b, llama_8b_kv, 1e4 * llama_8b_kv),
        ("llama-3.1-70b", llama_70b, llama_70b_kv, 1e4 * llama_70b_kv),
        // Half of its layers see 128 tokens alone.
        ("gpt-oss-120b", gpt_oss, 18.0 * gpt_oss_layer, 18.0 * gpt_oss_layer * (1e4 + 128.0)),
        ("deepseek-v3", deepseek, 61.0 * 576.0 * 2.0, 1e4 * 61.0 * 576.0 * 2.0),
        ("qwen3-235b-a22b", qwen, 94.0 * 2048.0, 1e4 * 94.0 * 2048.0),
        ("qwen3.5-122b-a10b", qwen_next, 12.0 * 2048.0, 1e4 * 12.0 * 2048.0 + 36.0 * state),
    ] {
        let model = model(name);
        assert_eq!(model.active(), active, "{name}");
        assert_eq!(model.kv_bytes_per_token(Format::Bf16), token, "{name}");
        assert_eq!(model.kv_bytes(1e4, Format::Bf16), long, "{name}");
    }
}

#[test]
fn precision_is_read_by_module() {
    let bytes = |name: &str| model(name).weight_bytes() / 1e9;
    // 4-bit experts beside 16-bit attention: 63.4 GB of files on the hub.
    assert!((bytes("gpt-oss-120b") - 65.0).abs() < 1.5, "{}", bytes("gpt-oss-120b"));
    // 8 bits but for embedding and output layer.
    assert!((bytes("deepseek-v3") - 672.9).abs() < 3.0, "{}", bytes("deepseek-v3"));
    assert_eq!(bytes("llama-3.1-8b"), model("llama-3.1-8b").total() * 2.0 / 1e9);
    // ggml's files keep 32 weights in 34 bytes.
    let ggml: Format = "q8_0".parse().expect("a format");
    assert_eq!((ggml.bytes() * 32.0, ggml.to_string()), (34.0, "q8_0".into()));
    let kimi = model("kimi-k2.5").precision.describe();
    assert_eq!(
        kimi,
        "int4-g32, but attention bf16, dense bf16, shared bf16, router bf16, \
                      embedding bf16, head bf16"
    );
}

/// A configuration that is understood, to be changed.
fn plain() -> serde_json::Value {
    serde_json::json!({
        "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4,
        "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 1024,
        "vocab_size": 1000, "max_position_embeddings": 2048, "torch_dtype": "bfloat16",
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "bos_token_id": 1,
        "rope_scaling": {"factor": 8.0}, "unsloth_version": "2026.1"
    })
}

#[test]
fn pythons_numbers_are_unknown_and_refused_where_they_are_needed() {
    let with = |field: &str, word: &str| {
        let mut value = plain();
        value[field] = serde_json::json!("HERE");
        config::parse("m", &value.to_string().replace("\"HERE\"", word))
    };
    let known = config::parse("m", &plain().to_string()).map(|model| model.total());
    assert_eq!(with("unsloth_version", "NaN").map(|model| model.total()), known);
    let why = with("hidden_size", "NaN").expect_err("it is needed").to_string();
    assert!(why.contains("hidden_size"), "{why}");
}

#[test]
fn what_is_not_understood_is_refused_by_its_field() {
    let read = |changes: serde_json::Value| {
        let mut config = plain();
        for (key, value) in changes.as_object().expect("an object") {
            config[key] = value.clone();
        }
        config::parse("made up", &config.to_string())
    };
    assert_eq!(read(serde_json::json!({})).expect("understood").context, Some(2048));
    for (changes, field) in [
        (serde_json::json!({"model_type": "hyena"}), "model_type"),
        (
            serde_json::json!({"layer_types": ["full_attention", "full_attention",
            "lightning_attention", "full_attention"]}),
            "layer_types",
        ),
        (serde_json::json!({"num_memory_slots": 64}), "num_memory_slots"),
        (
            serde_json::json!({"quantization_config": {"quant_method": "ternary"}}),
            "quantization_config.quant_method",
        ),
        (
            serde_json::json!({"model_type": "deepseek_v4", "compress_ratios": [4, 16, 4, 128],
            "num_key_value_heads": 1, "head_dim": 64, "q_lora_rank": 64, "o_groups": 2,
            "o_lora_rank": 64, "sliding_window": 128, "index_topk": 8, "index_n_heads": 1,
            "index_head_dim": 8}),
            "compress_ratios",
        ),
        (serde_json::json!({"num_key_value_heads": 3}), "num_key_value_heads"),
        (serde_json::json!({"hidden_size": -512}), "hidden_size"),
        (serde_json::json!({"hidden_size": 1u64 << 60}), "hidden_size"),
        (serde_json::json!({"num_hidden_layers": 1_000_000}), "num_hidden_layers"),
        (serde_json::json!({"hidden_act": "xielu"}), "hidden_act"),
        (serde_json::json!({"layer_types": ["full_attention"]}), "layer_types"),
        (
            serde_json::json!({"model_type": "mixtral", "num_local_experts": 4,
            "num_experts_per_tok": 9}),
            "num_experts_per_tok",
        ),
        (
            serde_json::json!({"quantization_config": {"quant_method": "fp8",
            "ignore": ["model.secret"]}}),
            "quantization_config.ignore",
        ),
    ] {
        let error = read(changes.clone()).expect_err("refused").to_string();
        assert!(error.starts_with(&format!("field {field}: ")), "{changes}: {error}");
    }
    assert!(config::parse("x", "[1]").is_err() && config::parse("x", "{").is_err());
}

/// Which of two values a reader takes differs between readers.
#[test]
fn a_field_that_stands_twice_is_refused() {
    let once = plain().to_string();
    assert!(config::parse("x", &once).is_ok());
    let twice = once.replacen('{', "{\"num_hidden_layers\": 1, ", 1);
    let error = config::parse("x", &twice).expect_err("twice").to_string();
    assert!(error.contains("field num_hidden_layers stands twice"), "{error}");
}

#[test]
fn a_model_is_found_by_its_publishers_name_and_a_file_by_its_path() {
    let catalogue = catalogue();
    assert_eq!(model("Llama-3.3-70B-Instruct"), model("llama-3.1-70b"));
    let error = catalogue.model("llama-9").expect_err("none").to_string();
    assert!(error.contains("no model is called") && error.contains("qwen3-8b"), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config.json");
    std::fs::write(&path, plain().to_string()).expect("written");
    let model = catalogue.model(path.to_str().expect("UTF-8")).expect("understood");
    assert_eq!(model.layer_count(), 4);
    assert!(catalogue.model("/dev/zero.json").is_err());
}
