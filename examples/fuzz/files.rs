//! Files that people are sent or fetch: claims and their reproductions, models, profiles, kernels'
//! sections, and what an operator tells of a fleet.

use super::{
    bundles::{change_files, folder},
    kinds::{corpus_texts, texts},
    mutate::{Chance, change, change_bytes, change_lines},
    served::harmless,
};
use fizeau::{
    cmd::{
        document::{ReportFormat, render},
        fed,
    },
    data::Catalogue,
};
use fizeau_domain::{
    kernel::user::{Form, section},
    labels::{Labels, in_one, of_one},
    model::{Format, Model, config, file::ModelFile},
};
use fizeau_judge::{
    accept::profile::Profile,
    fleet::{plan::Plan, recipe::Recipe, score, signers::Keys, site::Expected},
};
use fizeau_projection::{
    claim::{ClaimFile, Named, judge},
    project::{Hardware, MediansFile, Phase, Public, Routing, Split, Work, operation::operations},
    validate,
};
use fizeau_report::format::terminal::{Colour, Terminal};
use serde_json::{Map, Value, json};
use std::{fs, sync::LazyLock};
use tempfile::TempDir;

/// Most characters of a message that refuses a file, besides those that it quotes of it.
const WORDS_MAX: usize = 10_000;

const TERMINAL: Terminal = Terminal { width: Some(100), colour: Colour::Never };

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::load(None).expect("the data"));

/// A text of some with lines of another.
fn lines_of(texts: &[String], chance: &mut Chance) -> Vec<u8> {
    let (text, other) = (chance.pick(texts).clone(), chance.pick(texts).clone());
    change_lines(&text, &other, chance).into()
}

/// A message about an input is no longer than the input and some words.
#[track_caller]
fn refused(why: &str, input: &[u8]) -> bool {
    assert!(why.len() < WORDS_MAX + 8 * input.len(), "a message without an end");
    false
}

static CLAIMS: LazyLock<Vec<String>> = LazyLock::new(|| corpus_texts("claims"));

/// A file of claims with other lines.
pub fn claims(chance: &mut Chance) -> Vec<u8> {
    lines_of(&CLAIMS, chance)
}

/// Reads claims, and judges each about a part.
pub fn read_claims(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let file = match ClaimFile::parse(text) {
        Ok(file) => file,
        Err(why) => return refused(&why, input),
    };
    let part = CATALOGUE.parts.iter().find(|part| part.id == "h200-sxm");
    let named = Named { part, model: None, layout: None, links: &CATALOGUE.links };
    let judged = file.claim.into_iter().take(8).map(|claim| {
        let verdict = judge(&claim, &named);
        (claim, verdict)
    });
    let judged: Vec<_> = judged
        .filter_map(|(claim, verdict)| verdict.ok().map(|verdict| (claim, verdict)))
        .collect();
    let document = fizeau_report::verdicts(&judged);
    harmless(&render(&document, ReportFormat::Terminal, TERMINAL).expect("it renders"));
    true
}

/// Folders of a kind, of which each input is one with other files.
fn folders(name: &str) -> Vec<Map<String, Value>> {
    let read = |text: &String| serde_json::from_str(text).expect("a folder");
    corpus_texts(name).iter().map(read).collect()
}

fn changed(folders: &[Map<String, Value>], chance: &mut Chance) -> Vec<u8> {
    let mut files = chance.pick(folders).clone();
    change_files(&mut files, chance);
    Value::from(files).to_string().into()
}

static REPRODUCTIONS: LazyLock<Vec<Map<String, Value>>> = LazyLock::new(|| folders("reproduction"));

/// The folder of a reproduction.
pub fn reproduction(chance: &mut Chance) -> Vec<u8> {
    changed(&REPRODUCTIONS, chance)
}

/// Judges a reproduction again.
pub fn read_reproduction(input: &[u8]) -> bool {
    let Some(folder) = folder(input) else { return false };
    match fed::reproduction(folder.path(), &CATALOGUE) {
        Err(why) => refused(&format!("{why:#}"), input),
        Ok(_) => true,
    }
}

static FRONTIERS: LazyLock<Vec<Map<String, Value>>> = LazyLock::new(|| folders("frontier"));

/// The folder of a ladder of power limits.
pub fn frontier(chance: &mut Chance) -> Vec<u8> {
    changed(&FRONTIERS, chance)
}

/// Reports a ladder.
pub fn read_frontier(input: &[u8]) -> bool {
    let Some(folder) = folder(input) else { return false };
    match fed::frontier(folder.path()) {
        Err(why) => refused(&format!("{why:#}"), input),
        Ok(document) => {
            for format in [ReportFormat::Terminal, ReportFormat::Html] {
                harmless(&render(&document, format, TERMINAL).expect("it renders"));
            }
            true
        }
    }
}

static PUBLISHED: LazyLock<Vec<String>> = LazyLock::new(|| corpus_texts("published"));

/// A list of published figures.
pub fn published(chance: &mut Chance) -> Vec<u8> {
    lines_of(&PUBLISHED, chance)
}

/// Reads a list, and sets its figures beside the tiers.
pub fn read_published(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let entries = match validate::read(text) {
        Ok(entries) => entries,
        Err(why) => return refused(&why, input),
    };
    let model = CATALOGUE.model("llama-3.1-8b").expect("a model");
    let part = CATALOGUE.parts.iter().find(|part| part.id == "h200-sxm").expect("a part");
    let hardware = Hardware::of_part(part).expect("it is stated");
    for entry in entries.iter().take(4) {
        assert!(entry.rate() > 0.0, "{entry:?}");
        let _ = validate::beside(entry, &model, &hardware);
    }
    true
}

/// Configurations of models.
static CONFIGS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let all = include_str!("../../crates/domain/tests/configurations.json");
    let all: Vec<Value> = serde_json::from_str(all).expect("JSON");
    all.into_iter().map(|mut one| one["config"].take()).collect()
});

/// A `config.json` with other fields.
pub fn config(chance: &mut Chance) -> Vec<u8> {
    let mut all = chance.pick(&CONFIGS).clone();
    for _ in 0..chance.below(4) {
        change(&mut all, chance);
    }
    let text = all.to_string();
    let word = if chance.one_in(8) { "NaN" } else { "null" };
    text.replace("null", word).into()
}

/// Computes what a model is made of, and a step of it.
fn counted(model: &Model) {
    for number in [model.total(), model.active(), model.weight_bytes()] {
        assert!(number.is_finite() && number >= 0.0, "{number}");
    }
    assert!(model.kv_bytes(4096.0, Format::Bf16).is_finite());
    let phases = [Phase::Decode { context: 4096.0 }, Phase::Prefill { new: 512.0, old: 0.0 }];
    for (phase, split) in phases
        .into_iter()
        .flat_map(|phase| [Split::Tensor(1), Split::Expert(8)].map(|s| (phase, s)))
    {
        let (kv, routing) = (Format::Bf16, Routing::Chance);
        let work = Work { phase, sequences: 16.0, split, kv, routing };
        for one in operations(model, work) {
            assert!(one.count.is_finite() && one.bytes.is_finite() && one.bytes >= 0.0, "{one:?}");
        }
    }
    model.notes.iter().for_each(|note| harmless(&fizeau_domain::text::clean(note)));
}

/// Reads a configuration.
pub fn read_config(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    match config::parse("config.json", text) {
        Err(why) => refused(&why.to_string(), input),
        Ok(model) => {
            counted(&model);
            true
        }
    }
}

/// A small model, whose checkpoint is read.
const SMALL: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}"#;

/// A safetensors file: its header's length, the header, and a few bytes of data.
pub fn checkpoint(chance: &mut Chance) -> Vec<u8> {
    let mut header = json!({
        "__metadata__": { "format": "pt" },
        "lm_head.weight": { "dtype": "BF16", "shape": [100, 64], "data_offsets": [0, 12800] },
        "model.layers.0.mlp.up_proj.weight":
            { "dtype": "F8_E4M3", "shape": [128, 64], "data_offsets": [12800, 20992] },
        "model.layers.1.input_layernorm.weight":
            { "dtype": "F32", "shape": [64], "data_offsets": [20992, 21248] }
    });
    for _ in 0..chance.below(4) {
        change(&mut header, chance);
    }
    let mut header = header.to_string().into_bytes();
    if chance.one_in(8) {
        change_bytes(&mut header, chance);
    }
    let length = match chance.below(12) {
        0 => 1 << chance.below(63),
        1 => header.len() as u64 + 1,
        _ => header.len() as u64,
    };
    let data = vec![0; if chance.one_in(6) { chance.below(30_000) } else { 21_248 }];
    [&length.to_le_bytes()[..], &header, &data].concat()
}

/// Reads a folder with a checkpoint of this file, or with the index that it is.
pub fn read_checkpoint(input: &[u8]) -> bool {
    let folder = TempDir::new().expect("a folder");
    let write =
        |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).expect("file");
    write("config.json", SMALL.as_bytes());
    let is_index = input.starts_with(b"{");
    let name = if is_index { "model.safetensors.index.json" } else { "model.safetensors" };
    write(name, input);
    match CATALOGUE.model(&folder.path().to_string_lossy()) {
        Err(why) => refused(&why.to_string(), input),
        Ok(model) => {
            counted(&model);
            true
        }
    }
}

static MODELS: LazyLock<Vec<String>> = LazyLock::new(|| texts(&["data/models"]));

/// A model's file of the catalogue.
pub fn model(chance: &mut Chance) -> Vec<u8> {
    lines_of(&MODELS, chance)
}

/// Reads a model's file.
pub fn read_model(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(file) = toml::from_str::<ModelFile>(text) else { return false };
    let _ = file.is_called("llama");
    match file.model() {
        Err(why) => refused(&why.to_string(), input),
        Ok(model) => {
            counted(&model);
            true
        }
    }
}

static MEDIANS: LazyLock<Vec<String>> = LazyLock::new(|| texts(&["data/medians", "data/costs"]));

/// Published rates and costs of a part.
pub fn medians(chance: &mut Chance) -> Vec<u8> {
    lines_of(&MEDIANS, chance)
}

/// Reads rates and costs of a part.
pub fn read_medians(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(file) = toml::from_str::<MediansFile>(text) else { return false };
    let part = CATALOGUE.parts.iter().find(|part| part.id == "h200-sxm").expect("a part");
    let hardware = Hardware::of_part(part).expect("it is stated");
    match Public::of(&file, &hardware) {
        Err(why) => refused(&why, input),
        Ok(_) => true,
    }
}

static PROFILES: LazyLock<Vec<String>> =
    LazyLock::new(|| texts(&["data/profiles", "tests/fuzz/profile"]));

/// A profile of acceptances.
pub fn profile(chance: &mut Chance) -> Vec<u8> {
    lines_of(&PROFILES, chance)
}

/// Reads a profile, and writes it again.
pub fn read_profile(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    match Profile::parse(text) {
        Err(why) => refused(&why, input),
        Ok(profile) => {
            let again = profile.text().expect("it can be written");
            Profile::parse(&again).expect("what was written");
            true
        }
    }
}

static SECTIONS: LazyLock<Vec<String>> = LazyLock::new(|| corpus_texts("kernels"));

/// The section beside a user's kernel.
pub fn kernels(chance: &mut Chance) -> Vec<u8> {
    lines_of(&SECTIONS, chance)
}

/// Reads a section, for each form of a kernel.
pub fn read_kernels(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let mut is_read = false;
    for form in [Form::Text, Form::Image, Form::Library] {
        match section(text, "kernel.cu", form) {
            Err(why) => drop(refused(&why, input)),
            Ok(_) => is_read = true,
        }
    }
    is_read
}

static EXPECTED: LazyLock<Vec<String>> = LazyLock::new(|| corpus_texts("expected"));

/// A list of nodes.
pub fn expected(chance: &mut Chance) -> Vec<u8> {
    lines_of(&EXPECTED, chance)
}

/// Reads a list of nodes.
pub fn read_expected(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    match Expected::parse(text) {
        Err(why) => refused(&why, input),
        Ok(expected) => {
            let _ = expected.named("n0001.example");
            true
        }
    }
}

static SIGNERS: LazyLock<Vec<String>> = LazyLock::new(|| corpus_texts("signers"));

/// A list of allowed signers.
pub fn signers(chance: &mut Chance) -> Vec<u8> {
    lines_of(&SIGNERS, chance)
}

/// Reads a list of allowed signers.
pub fn read_signers(input: &[u8]) -> bool {
    let keys = Keys::parse(&String::from_utf8_lossy(input));
    let print = "SHA256:S/bFd6DJLwgvgnj6u/oZwVhvS4/jOLFDOw+vTVjnzQA";
    assert!(!keys.has("n0001", ""), "a key without a fingerprint");
    ["n0001", "n0002", "", "*"].iter().any(|name| keys.has(name, print))
}

static LABELS: LazyLock<Vec<String>> = LazyLock::new(|| corpus_texts("labels"));

/// Labels of nodes and devices.
pub fn labels(chance: &mut Chance) -> Vec<u8> {
    lines_of(&LABELS, chance)
}

/// Reads labels.
pub fn read_labels(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let _ = of_one(text);
    match Labels::parse(text) {
        Err(why) => refused(&why.to_string(), input),
        Ok(labels) => {
            for device in [None, Some("cuda:1"), Some("1")] {
                let own = labels.of("n0001", device);
                let _ = of_one(&in_one(&own));
            }
            true
        }
    }
}

static RECIPES: LazyLock<Vec<String>> = LazyLock::new(|| corpus_texts("recipe"));

/// A recipe of planted fleets.
pub fn recipe(chance: &mut Chance) -> Vec<u8> {
    lines_of(&RECIPES, chance)
}

/// Reads a recipe, and plants a small fleet where its nodes are no larger than nodes are.
pub fn read_recipe(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    match Recipe::parse(text) {
        Err(why) => refused(&why.to_string(), input),
        Ok(recipe) => {
            if recipe.gpus_per_node <= 16 && recipe.repeats <= 16 {
                let _ = score::score(&recipe, 32, 1, 1);
            }
            true
        }
    }
}

static PLANS: LazyLock<Vec<String>> = LazyLock::new(|| corpus_texts("plan"));

/// A plan of a retest.
pub fn plan(chance: &mut Chance) -> Vec<u8> {
    let mut plan: Value = serde_json::from_str(chance.pick::<String>(&PLANS)).expect("JSON");
    for _ in 0..1 + chance.below(4) {
        change(&mut plan, chance);
    }
    plan.to_string().into()
}

/// Reads a plan, with its rounds and every step.
pub fn read_plan(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    match Plan::parse(text) {
        Err(why) => refused(&why, input),
        Ok(plan) => {
            let _ = plan.rounds();
            let steps = plan.pairs.iter().flat_map(|pair| pair.steps(plan.repeats));
            assert!({ steps }.all(|step| !step.folder.contains("..")), "out of the plan's folder");
            true
        }
    }
}
