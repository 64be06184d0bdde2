//! What a configuration is read as: for each line of standard input, a configuration in JSON on
//! one line, prints one line of JSON with the layers, parameters and bytes that follow from it, or
//! with the reason for which it is refused. scripts/config_oracle.py compares these with the
//! configuration classes of the `transformers` package.

use fizeau_domain::model::{FeedForward, Format, Layers, Mixer, Model, Module, Reach, config};
use serde_json::{Value, json};
use std::io::{BufRead, Write};

/// A kind of layer and what it holds for one token, in numbers: keys and values, or a state.
fn mixer(layers: &Layers) -> Value {
    match &layers.mixer {
        None => json!(null),
        Some(Mixer::Grouped(mixer)) => {
            let (kind, reach) = match mixer.reach {
                Reach::All => ("full", 0),
                Reach::Window(window) => ("window", window),
                Reach::Chunk(chunk) => ("chunk", chunk),
            };
            json!([kind, reach, mixer.kv_heads * (mixer.dim_qk + mixer.dim_v)])
        }
        Some(Mixer::Latent(mixer)) => json!(["latent", 0, mixer.kv_rank + mixer.rope]),
        Some(Mixer::Compressed(mixer)) => json!(["compressed", mixer.ratio, mixer.dim]),
        Some(Mixer::Linear(mixer)) => json!(["linear", 0, mixer.state]),
    }
}

fn feed_forward(layers: &Layers) -> Value {
    match &layers.feed_forward {
        None => json!(null),
        Some(FeedForward::Dense(dense)) => json!(["dense", dense.inner]),
        Some(FeedForward::Mixture(one)) => {
            json!(["mixture", one.experts, one.chosen, one.inner, one.shared])
        }
    }
}

fn facts(model: &Model) -> Value {
    let layers = model
        .layers
        .iter()
        .map(|layers| json!({"count": layers.count, "mixer": mixer(layers), "ffn": feed_forward(layers)}));
    let modules = Module::ALL
        .iter()
        .map(|module| (module.name().to_owned(), json!(model.parameters(*module))));
    let kv = model.kv_format(None);
    json!({
        "total": model.total(),
        "active": model.active(),
        "bytes": model.weight_bytes(),
        "kv": kv.to_string(),
        "kv_token": model.kv_bytes_per_token(kv),
        "kv_8191": model.kv_bytes(8191.0, Format::Bf16),
        "precision": model.precision.describe(),
        "layers": layers.collect::<Vec<_>>(),
        "modules": modules.collect::<serde_json::Map<_, _>>(),
        "notes": model.notes,
    })
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let said = match config::parse("the file", &line?) {
            Ok(model) => facts(&model),
            Err(error) => json!({"error": error.to_string()}),
        };
        writeln!(out, "{said}")?;
    }
    Ok(())
}
