//! Projections: the order of the tiers and how they move with what they depend on, over random
//! models, layouts and parts.

use crate::tokens;
use fizeau::data::Catalogue;
use fizeau_domain::{
    case::{AttentionKind, Mask},
    model::{Format, Model, Module, config},
    suite::Suite,
    units::{Bytes, BytesPerSecond, FlopsPerSecond},
};
use fizeau_projection::project::{
    Apart, By, DraftCost, Hardware, Kind, Layout, Limits, Link, Phase, Routing, Scenario, Serving,
    Slo, Speculation, Speed, Split, Tiers, Unknown, Work,
    measured::Measured,
    operation, point, served,
    shapes::{Forms, Shapes},
    step, sweep,
};
use fizeau_record::store;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use std::{path::Path, sync::OnceLock};

/// A configuration of one of the kinds of architecture, with sizes by chance.
fn configurations() -> impl Strategy<Value = serde_json::Value> {
    let power = |low: u32, high: u32| (low..=high).prop_map(|at| 1u32 << at);
    let base = (power(8, 14), 1u32..12, power(3, 6), power(0, 3), power(5, 7), 100u32..200_000);
    let mixture = proptest::option::of((power(3, 7), 0u32..4, power(6, 11), 0u32..2));
    (base, mixture, 0u32..6, power(8, 14)).prop_map(|(base, mixture, kind, inner)| {
        let (hidden, layers, heads, kv, dim, vocabulary) = base;
        let mut config = serde_json::json!({
            "model_type": architecture(kind, mixture.is_some()),
            "hidden_size": hidden, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim,
            "intermediate_size": inner, "vocab_size": vocabulary,
        });
        if let Some((experts, chosen, width, shared)) = mixture {
            config["num_experts_per_tok"] = (1u32 << chosen).min(experts).into();
            // Each architecture has its own fields for the same numbers.
            match kind {
                0 | 1 => {
                    config["num_local_experts"] = experts.into();
                    config["intermediate_size"] = width.into();
                }
                2 | 3 => {
                    config["n_routed_experts"] = experts.into();
                    config["moe_intermediate_size"] = width.into();
                    config["n_shared_experts"] = shared.into();
                    config["first_k_dense_replace"] = 0.into();
                }
                _ => {
                    config["num_experts"] = experts.into();
                    config["moe_intermediate_size"] = width.into();
                }
            }
        } else if matches!(kind, 2 | 3) {
            config["first_k_dense_replace"] = layers.into();
        }
        match kind {
            0 => config["sliding_window"] = 512.into(),
            1 => config["attention_chunk_size"] = 1024.into(),
            2 | 3 => {
                for (name, value) in [
                    ("kv_lora_rank", 512),
                    ("qk_nope_head_dim", 128),
                    ("qk_rope_head_dim", 64),
                    ("v_head_dim", 128),
                    ("q_lora_rank", 256),
                ] {
                    config[name] = value.into();
                }
                config["num_key_value_heads"] = heads.into();
                if kind == 3 {
                    for (name, value) in
                        [("index_topk", 256), ("index_n_heads", 8), ("index_head_dim", 64)]
                    {
                        config[name] = value.into();
                    }
                }
            }
            4 => {
                for (name, value) in [
                    ("linear_num_value_heads", heads),
                    ("linear_num_key_heads", heads),
                    ("linear_key_head_dim", 64),
                    ("linear_value_head_dim", 64),
                    ("linear_conv_kernel_dim", 4),
                ] {
                    config[name] = value.into();
                }
                let kinds = (0..layers).map(|at| match at % 2 {
                    0 => "linear_attention",
                    _ => "full_attention",
                });
                config["layer_types"] = kinds.collect::<Vec<_>>().into();
            }
            _ => {}
        }
        config
    })
}

/// An architecture of each kind: windows, chunks, latent attention without and with an indexer,
/// linear attention, all layers full.
fn architecture(kind: u32, is_mixture: bool) -> &'static str {
    match (kind, is_mixture) {
        (0, false) => "mistral",
        (0, true) => "mixtral",
        (1, _) => "llama4_text",
        (2 | 3, _) => "deepseek_v32",
        (4, false) => "qwen3_5_text",
        (4, true) => "qwen3_next",
        (_, false) => "llama",
        (_, true) => "qwen3_moe",
    }
}

/// Made-up hardware, or a part of the catalogue.
fn hardware() -> impl Strategy<Value = Hardware> {
    static PARTS: OnceLock<Vec<Hardware>> = OnceLock::new();
    let is_whole = |one: &Hardware| one.link.is_some() && one.arithmetic(Format::Bf16).is_some();
    let parts = PARTS.get_or_init(|| {
        let catalogue = Catalogue::load(None).expect("the embedded catalogue");
        let parts = catalogue.parts.iter().filter_map(|part| Hardware::of_part(part).ok());
        parts.filter(is_whole).collect()
    });
    assert!(parts.len() > 30, "{}", parts.len());
    prop_oneof![2 => made_up(), 1 => proptest::sample::select(parts.as_slice())]
}

fn made_up() -> impl Strategy<Value = Hardware> {
    (1e9f64..1e13, 1.0f64..1.2, 1e12f64..1e16, 1e9f64..1e12, 0u64..1 << 29, 1u32..80, 1e9f64..1e11)
        .prop_map(|(memory, more, peak, link, cache, domain, network)| Hardware {
            name: "made up".into(),
            basis: "made up".into(),
            limits: Limits::Datasheet,
            memory: BytesPerSecond(memory),
            memory_most: BytesPerSecond(memory * more),
            peaks: [(fizeau_domain::dtype::Dtype::Bf16, FlopsPerSecond(peak))].into(),
            link: Some(Link {
                inside: BytesPerSecond(link),
                domain: Some(domain),
                outside: Some(BytesPerSecond(network)),
                basis: "made up".into(),
            }),
            capacity: Bytes(1 << 37),
            cache: Bytes(cache),
            power: None,
            power_limit: None,
            measured: None,
            public: None,
            speed: Speed::FULL,
            notes: Vec::new(),
        })
}

#[derive(Clone, Debug)]
struct Case {
    model: Model,
    hardware: Hardware,
    work: Work,
}

fn cases() -> impl Strategy<Value = Case> {
    let sizes = (0u32..4, 0u32..4, 1u32..512, 1f64..200_000.0, 1f64..5_000.0, 0u32..5);
    (configurations(), hardware(), sizes).prop_map(|(config, hardware, sizes)| {
        let (cut, kind, sequences, context, new, phase) = sizes;
        let model = config::parse("made up", &config.to_string()).expect("understood");
        let n = 1 << cut;
        let split = match kind {
            0 => Split::Tensor(n),
            1 if model.mixtures().next().is_some() => Split::Expert(n),
            3 => Split::Pipeline { tensor: 1 << (cut / 2), stages: 2 + cut },
            _ => Split::Even(n),
        };
        let layout = Layout { replicas: 1, split };
        let split = layout.check(&model).map_or(Split::Even(n), |()| split);
        let phase = match phase {
            0 | 1 => Phase::Decode { context },
            2 => Phase::Verify { context, tokens: f64::from(1 + sequences % 8) },
            _ => Phase::Prefill { new, old: context },
        };
        let (kv, routing) = (Format::Bf16, Routing::Chance);
        let sequences = f64::from(sequences);
        Case { model, hardware, work: Work { phase, sequences, split, kv, routing } }
    })
}

/// L0 <= L1, and neither falls where less is there or more is to be done.
fn check(case: &Case) -> Result<(), String> {
    let Case { model, hardware, work } = case;
    let both = |hardware: &Hardware, work: Work| {
        let step = step(model, hardware, work).map_err(|error| error.to_string())?;
        Ok::<_, String>((step.light().0, step.serial.0))
    };
    let (light, serial) = both(hardware, *work)?;
    let close = 1.0 + 1e-9;
    if light > serial * close {
        return Err(format!("L0 {light} is above L1 {serial}"));
    }
    let mut slow_memory = hardware.clone();
    slow_memory.memory.0 *= 0.7;
    slow_memory.memory_most.0 *= 0.7;
    let mut slow_units = hardware.clone();
    slow_units.peaks.values_mut().for_each(|peak| peak.0 *= 0.7);
    let mut slow_links = hardware.clone();
    if let Some(link) = &mut slow_links.link {
        link.inside.0 *= 0.7;
        link.outside = link.outside.map(|outside| outside * 0.7);
    }
    let phase = match work.phase {
        Phase::Decode { context } => Phase::Decode { context: context * 1.3 },
        Phase::Verify { context, tokens } => Phase::Verify { context: context * 1.3, tokens },
        Phase::Prefill { new, old } => Phase::Prefill { new, old: old * 1.3 },
    };
    let longer = Work { phase, ..*work };
    let more = Work { sequences: work.sequences + 1.0, ..*work };
    check_points(case)?;
    for (what, hardware, work) in [
        ("slower memory", &slow_memory, *work),
        ("slower units", &slow_units, *work),
        ("slower links", &slow_links, *work),
        ("a longer context", hardware, longer),
        ("one sequence more", hardware, more),
    ] {
        let (other_light, other_serial) = both(hardware, work)?;
        if other_light * close < light || other_serial * close < serial {
            return Err(format!(
                "{what}: L0 {light} -> {other_light}, L1 {serial} -> {other_serial}"
            ));
        }
    }
    Ok(())
}

/// L0 <= L1 of what users see: of plain serving, of speculative decoding, of prefill on devices of
/// its own, and of copies.
fn check_points(case: &Case) -> Result<(), String> {
    let Case { model, hardware, work } = case;
    let (sequences, layout) = (work.sequences as u32, Layout { replicas: 1, split: work.split });
    let scenario = Scenario {
        input: 1 + sequences * 7,
        prefix: (sequences * 7) / 3,
        output: 1 + sequences,
        kv: work.kv,
        memory_share: 0.9,
    };
    let drafted = 1 + sequences % 5;
    let cost = match sequences % 3 {
        0 => DraftCost::Nothing,
        1 => DraftCost::Share(0.1),
        _ => DraftCost::Model(Box::new(model.clone())),
    };
    let speculation = Some(Speculation { accepted: 1.0, drafted, cost });
    let apart = Some(Apart { layout, rate: None });
    let servings = [
        Serving::default(),
        Serving { speculation: speculation.clone(), apart: None },
        Serving { speculation: None, apart: apart.clone() },
        Serving { speculation, apart },
    ];
    let close = 1.0 + 1e-9;
    let mut plain = None;
    for (serving, replicas) in servings.iter().zip([1, 1, 2, 3]) {
        let layout = Layout { replicas, ..layout };
        let point = served(model, hardware, layout, (&scenario, serving), sequences);
        let point = point.map_err(|error| error.to_string())?;
        let output = scenario.output;
        let ordered = [
            ("TTFT", point.first_token),
            ("TPOT", point.token),
            ("E2EL", point.end_to_end(output)),
            ("seconds a request", point.requests.map(|rate| 1.0 / rate)),
        ];
        for (what, tiers) in ordered {
            let is_known = tiers.light.is_finite() && tiers.serial.is_finite();
            if !is_known || tiers.light > tiers.serial * close {
                return Err(format!("{what} of {layout}, {serving:?}: {tiers:?}"));
            }
        }
        // One token gained of several that are checked is never faster than one at a time.
        if let (Some(before), Some(_), 1) = (plain, &serving.speculation, replicas)
            && point.token.serial * close < before
        {
            return Err(format!("{serving:?}: {} after {before}", point.token.serial));
        }
        plain = plain.or(Some(point.token.serial));
    }
    Ok(())
}

fn check_many(cases_count: u32) {
    let mut runner = TestRunner::new(Config { cases: cases_count, ..Config::default() });
    let strategy = cases();
    for number in 0..cases_count {
        let case = strategy.new_tree(&mut runner).expect("a case").current();
        if let Err(why) = check(&case) {
            panic!("case {number}: {why}\n{case:#?}");
        }
    }
}

#[test]
fn tiers_keep_their_order_and_move_the_right_way() {
    check_many(2_000);
}

#[test]
#[ignore = "100,000 cases: scripts/check_long.sh"]
fn tiers_keep_their_order_over_100_000_cases() {
    check_many(100_000);
}

/// The check above finds a bound that is too high.
#[test]
fn a_bound_above_l1_is_found() {
    let mut runner = TestRunner::deterministic();
    let mut found = 0;
    for _ in 0..200 {
        let mut case = cases().new_tree(&mut runner).expect("a case").current();
        case.hardware.memory_most.0 = case.hardware.memory.0 * 0.5;
        found += u32::from(check(&case).is_err());
    }
    assert!(found > 20, "{found}");
}

/// Products on one device are the model's parameters, and on n devices no fewer.
#[test]
fn operations_have_the_parameters_of_the_model() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    for name in catalogue.model_names() {
        let model = catalogue.model(name).expect("understood");
        let work = |split| Work {
            phase: Phase::Decode { context: 1000.0 },
            sequences: 1e9,
            split,
            kv: Format::Bf16,
            routing: Routing::Chance,
        };
        let weights = |split| -> f64 {
            let list = operation::operations(&model, work(split));
            let products = list.iter().map(|one| match one.kind {
                fizeau_projection::project::Kind::Gemm([_, n, k]) => one.count * n * k,
                fizeau_projection::project::Kind::Grouped([_, n, k, groups]) => {
                    one.count * n * k * groups
                }
                _ => 0.0,
            });
            products.sum()
        };
        let head = if model.is_tied { 0.0 } else { model.parameters(Module::Embedding) };
        let expected = model.total() - head;
        let off = weights(Split::Even(1)) / expected - 1.0;
        assert!(off.abs() < 1e-3, "{name}: {off:e}");
        let off = weights(Split::Even(8)) * 8.0 / expected - 1.0;
        assert!(off.abs() < 1e-3, "{name} on 8: {off:e}");
        let layout = Layout { replicas: 1, split: Split::Tensor(2) };
        if layout.check(&model).is_ok() {
            assert!(weights(layout.split) * 2.0 >= expected * 0.999, "{name} by tp2");
        }
    }
}

fn h200() -> Hardware {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let part = catalogue.parts.iter().find(|part| part.id == "h200-sxm").expect("a part");
    Hardware::of_part(part).expect("whole")
}

fn scenario() -> Scenario {
    Scenario { input: 1000, prefix: 0, output: 1000, kv: Format::Bf16, memory_share: 0.9 }
}

#[test]
fn times_follow_from_the_text_book() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let model = catalogue.model("llama-3.1-8b").expect("a model");
    let hardware = h200();
    let layout: Layout = "tp1".parse().expect("a layout");
    let point = point(&model, &hardware, layout, &scenario(), 1).expect("a point");
    // BW / (weights + context x KV), less what the caches keep.
    let bytes = (model.active() * 2.0 + 1500.0 * 131_072.0) - hardware.cache.0 as f64;
    assert!((point.token.light - bytes / 4916.736e9).abs() < 1e-12);
    // 2 x active x tokens, but the output layer for one token alone; causal attention.
    let head = 4096.0 * 128_256.0;
    let flops = 2.0 * (model.active() - head) * 1000.0
        + 2.0 * head
        + 32.0 * 2.0 * 32.0 * 256.0 * 1000.0 * 1001.0 / 2.0;
    assert!((point.first_token.light - flops / 989.4e12).abs() < 1e-9);
    let end = point.end_to_end(1000).light;
    assert!((end - (point.first_token.light + 999.0 * point.token.light)).abs() < 1e-12);
    // 141 GB x 0.9 less 16.06 GB of weights, 1500 tokens each.
    let most = ((141e9 * 0.9 - model.weight_bytes()) / (1500.0 * 131_072.0)).floor();
    assert_eq!(point.fit.sequences, Some(most as u64));
    assert_eq!(sweep::cost_of_million(3.6, 1000.0), 1.0);
}

#[test]
fn layouts_that_do_not_divide_are_refused() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let check = |model: &str, layout: &str| {
        let layout: Layout = layout.parse().map_err(|why: String| why)?;
        layout.check(&catalogue.model(model).expect("a model"))
    };
    for (model, layout, words) in [
        ("llama-3.1-8b", "tp3", "3 devices do not divide its 32 heads"),
        ("llama-3.1-8b", "ep8", "no experts"),
        ("llama-3.1-8b", "tp0", "is no layout"),
        ("llama-3.1-8b", "0xtp2", "is no layout"),
        ("llama-3.1-8b", "4096xtp4096", "is no layout"),
        ("llama-3.1-8b", "fast", "is no layout"),
        ("llama-3.1-8b", "pp", "is no layout"),
        ("llama-3.1-8b", "tp2pp", "is no layout"),
        ("llama-3.1-8b", "tp64pp128", "is no layout"),
        ("llama-3.1-8b", "tp-8", "is no layout"),
        ("llama-3.1-8b", "pp33", "33 stages are more than its 32 layers"),
        ("llama-3.1-8b", "tp3pp2", "3 devices do not divide its 32 heads"),
    ] {
        let why = check(model, layout).expect_err("refused");
        assert!(why.contains(words), "{layout}: {why}");
    }
    assert_eq!(check("deepseek-v3", "2xep128"), Ok(()));
    assert_eq!(check("deepseek-v3", "ep72"), Ok(()));
    let model = catalogue.model("qwen3-8b").expect("a model");
    let long = Scenario { input: 40_000, output: 2_000, ..scenario() };
    assert!(long.check(&model).expect_err("too long").contains("max_position_embeddings"));
    assert!(Scenario { prefix: 1000, ..scenario() }.check(&model).is_err());
}

/// 256 experts on 72 devices: 288 places, 4 on each, as on 64 devices.
#[test]
fn experts_that_devices_do_not_divide_are_there_twice() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let model = catalogue.model("deepseek-v3").expect("a model");
    let of = |layout: &str| {
        let layout: Layout = layout.parse().expect("a layout");
        let weights = sweep::fit(&model, &h200(), layout, &scenario()).weights;
        (weights, point(&model, &h200(), layout, &scenario(), 64 * 72).expect("a point"))
    };
    let ((of_64, _), (of_72, point), (of_128, _)) = (of("ep64"), of("ep72"), of("ep128"));
    assert!((of_72 / of_64 - 1.0).abs() < 1e-9 && of_128 < of_72, "{of_64} {of_72} {of_128}");
    let experts = point.decode.rows.iter().find(|row| row.operation.name == "experts down");
    let kind = experts.expect("a row").operation.kind;
    assert!(
        matches!(kind, Kind::Grouped([.., groups]) if (3.9..=4.0).contains(&groups)),
        "{kind:?}"
    );
    let Tiers { light, serial, .. } = point.token;
    assert!(0.0 < light && light <= serial);
}

#[test]
fn few_key_heads_are_copied_and_latents_too() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let sequence = |model: &str, layout: &str| {
        let model = catalogue.model(model).expect("a model");
        let layout: Layout = layout.parse().expect("a layout");
        sweep::fit(&model, &h200(), layout, &scenario()).sequence
    };
    // Four key heads on eight devices: as much on each as on four.
    assert_eq!(sequence("qwen3-235b-a22b", "tp8"), sequence("qwen3-235b-a22b", "tp4"));
    assert_eq!(sequence("deepseek-v3", "tp8"), sequence("deepseek-v3", "tp1"));
    assert_eq!(sequence("llama-3.1-8b", "tp8") * 8.0, sequence("llama-3.1-8b", "tp1"));
}

#[test]
fn fronts_and_operating_points() {
    let front = sweep::front(&[(1.0, 5.0), (2.0, 4.0), (1.5, 3.0), (2.0, 4.0)]);
    assert_eq!(front, [true, true, false, true]);
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let model = catalogue.model("llama-3.1-8b").expect("a model");
    let layout: Layout = "tp1".parse().expect("a layout");
    let of = |requests| point(&model, &h200(), layout, &scenario(), requests).expect("a point");
    let points: Vec<_> = [1, 8, 64, 128].map(of).into();
    let slo = |token| Slo { token: Some(fizeau_domain::units::Seconds(token)), ..Slo::default() };
    let best = |slo| {
        let best = sweep::operating_point(&points, &slo, 1000, By::BestKnown);
        best.map(|point| point.concurrency)
    };
    assert_eq!(best(slo(1.0)), Some(128));
    assert_eq!(best(slo(0.0045)), Some(8));
    assert_eq!(best(slo(1e-6)), None);
}

#[test]
fn a_record_of_this_kind_of_machine_gives_all_tiers() {
    let path = Path::new("results/epyc-9005/2026-11-21-kvm-2-cores");
    let record = store::read(path).expect("a record");
    let hardware = Hardware::of_record("host", &record, None).expect("whole");
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let model = catalogue.model("llama-3.2-1b").expect("a model");
    let layout: Layout = "tp1".parse().expect("a layout");
    let point = point(&model, &hardware, layout, &scenario(), 1).expect("a point");
    for step in [&point.decode, &point.prefill] {
        let measured = step.measured.expect("there is a record").0;
        assert!(step.light().0 <= step.serial.0 && step.serial.0 <= measured);
        assert!((0.0..=1.0).contains(&step.coverage.expect("there is a record")));
        assert!(step.rows.iter().all(|row| row.measured.expect("L2").0 >= row.serial.0));
        assert!(step.rows.iter().any(|row| row.basis.as_ref().expect("L2").efficiency.is_some()));
    }
    let mut without = record.clone();
    without.outcomes.retain(|outcome| match outcome {
        fizeau_domain::outcome::Outcome::Measured(one) => {
            matches!(one.case.point.operation(), "stream" | "compute")
        }
        _ => true,
    });
    let hardware = Hardware::of_record("host", &without, None).expect("enough");
    assert!(hardware.notes.iter().any(|note| note.contains("no matrix products")));
    without.outcomes.clear();
    assert!(Hardware::of_record("host", &without, None).is_err());
    let mut stub = record;
    stub.header.device.vendor = "stub".into();
    assert!(Hardware::of_record("stub", &stub, None).expect_err("refused").contains("stub"));
}

/// What is asked of `fizeau project`, as options, of which none fits as it is.
const TOO_MUCH: [&[&str]; 6] = [
    &["llama-3.1-70b", "--on", "h200-sxm"],
    &["llama-3.1-70b", "--on", "rtx-4090"],
    &["llama-3.1-8b", "--on", "h200-sxm", "--concurrency", "4096"],
    &["llama-3.1-8b", "--on", "h200-sxm", "--concurrency", "1000", "--layout", "tp1"],
    &["deepseek-v3", "--on", "h100-sxm", "--concurrency", "512", "--layout", "ep8"],
    &["llama-3.1-405b", "--on", "b200-hgx", "--layout", "tp2,pp2"],
];

/// Options that a text names between backticks.
fn options(text: &str) -> Vec<(String, String)> {
    let quoted = text.split('`').skip(1).step_by(2);
    let option = |text: &str| {
        let (name, value) = text.split_once(' ').expect("a value");
        (name.to_owned(), value.to_owned())
    };
    quoted.map(option).collect()
}

/// These arguments with one option otherwise.
fn with(args: &[&str], (name, value): &(String, String)) -> Vec<String> {
    let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    match args.iter().position(|arg| arg == name) {
        Some(at) => args[at + 1].clone_from(value),
        None => args.extend([name.clone(), value.clone()]),
    }
    args
}

#[test]
fn what_does_not_fit_has_no_rate_and_names_options_that_fit() {
    let rates = [
        "tpot_light_seconds",
        "tpot_serial_seconds",
        "tpot_measured_seconds",
        "ttft_seconds",
        "e2el_seconds",
        "user_tokens_per_second",
        "gpu_tokens_per_second",
        "requests_per_second",
        "dollars_per_million",
        "joules_per_token",
    ];
    for args in TOO_MUCH {
        let asked = [&["project"], args].concat();
        let priced = [&asked[..], &["--price", "2", "--json"]].concat();
        let shown = tokens::json(&priced);
        let rows = shown["tables"]["points"].as_array().expect("points");
        assert!(!rows.is_empty());
        for row in rows {
            assert_eq!(row["front"], "does not fit", "{args:?}");
            let rate = rates.iter().find(|rate| !row[**rate].is_null());
            assert_eq!(rate, None, "{args:?}: {row}");
        }
        let names: Vec<_> = shown["tables"].as_object().expect("tables").keys().collect();
        assert!(!names.iter().any(|name| name.starts_with("steps_")), "{names:?}");
        let said = tokens::fizeau(&asked);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let warned = said.find("does not fit on").expect("the first words");
        assert!(warned < said.find("Parameters").expect("facts"), "{said}");
        // People are shown no row that cannot run.
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.matches("does not fit on").count(), 1, "{said}");
        assert!(!words.contains("Layouts and requests at once"), "{said}");
        assert!(words.contains(" not fit into memory "), "{said}");
        let warnings = shown["warnings"].as_array().expect("warnings");
        let first = warnings.first().and_then(|one| one.as_str()).expect("a warning");
        let options = options(first);
        assert!(!options.is_empty(), "{first}");
        for option in options {
            let other = with(&asked, &option);
            let other: Vec<_> = other.iter().map(String::as_str).chain(["--json"]).collect();
            let shown = tokens::json(&other);
            let rows = shown["tables"]["points"].as_array().expect("points");
            let fits = rows.iter().any(|row| {
                row["front"] != "does not fit" && row["user_tokens_per_second"].as_f64() > Some(0.0)
            });
            assert!(fits, "{other:?}: {rows:?}");
        }
    }
}

/// Some requests of a list fit: the rest has no rate anywhere, and the next step says so.
#[test]
fn of_a_list_only_what_fits_has_rates() {
    let args = ["project", "llama-3.1-8b", "--on", "h200-sxm", "--concurrency", "64,8192"];
    let shown = tokens::json(&[&args[..], &["--json"]].concat());
    let rows = shown["tables"]["points"].as_array().expect("points");
    let rates: Vec<_> = rows.iter().map(|row| row["gpu_tokens_per_second"].as_f64()).collect();
    assert!(matches!(rates[..], [Some(rate), None] if rate > 0.0), "{rates:?}");
    let said = tokens::fizeau(&args);
    let said =
        String::from_utf8_lossy(&said.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("8192 do not fit") && !said.contains("does not fit on"), "{said}");
    let said = tokens::fizeau(&[&args[..], &["--format", "csv"]].concat());
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let row = said.lines().find(|line| line.contains(",8192,")).expect("a row");
    assert!(row.contains(",,,,,,,,,"), "{row}");
}

/// Where floors that nobody published would be most of a step, no number is called measured.
#[test]
fn l2_is_stated_only_where_what_it_would_be_made_of_is_known() {
    let of = |model: &str, on: &str, options: &[&str]| {
        let args = [&["project", model, "--on", on, "--json"], options].concat();
        tokens::json(&args)["tables"]["points"].as_array().expect("points").clone()
    };
    let eight = ["--precision", "nvfp4", "--layout", "tp8", "--concurrency", "1"];
    let unknown = [
        of("deepseek-v3", "mi355x", &["--layout", "tp8", "--concurrency", "1"]),
        of("gpt-oss-120b", "mi355x", &["--concurrency", "1"]),
        of("qwen3-30b-a3b", "mi300x", &["--concurrency", "1"]),
    ];
    // What launches, few rows and small messages take is published of this part: most of a step.
    for row in of("deepseek-v3", "b200-hgx", &eight) {
        let [measured, serial] = ["tpot_measured_seconds", "tpot_serial_seconds"]
            .map(|key| row[key].as_f64().expect("a time"));
        assert!(measured > 5.0 * serial, "{row}");
    }
    for row in unknown.iter().flatten() {
        assert!(row["tpot_measured_seconds"].is_null(), "{row}");
        assert_eq!(row["rests_on"], "L1", "{row}");
        let why = row["no_l2_because"].as_str().expect("a reason");
        assert!(why.contains("least time") || why.contains("only limits are known"), "{why}");
        let rate = row["user_tokens_per_second"].as_f64().expect("a rate");
        let serial = row["tpot_serial_seconds"].as_f64().expect("L1");
        assert!((rate * serial - 1.0).abs() < 1e-9, "{row}");
    }
    // 80 layers of matrices that take long, and messages that were published.
    let known = ["--precision", "fp8", "--layout", "tp8", "--concurrency", "64"];
    for row in of("llama-3.1-405b", "h200-sxm", &known) {
        assert!(row["tpot_measured_seconds"].as_f64() > row["tpot_serial_seconds"].as_f64());
        assert!(row["no_l2_because"].is_null() && row["rests_on"] != "L1", "{row}");
    }
    // One request and 128 at once: L1 of the first is not ranked beside L2 of the second.
    let rows = of("llama-3.2-1b", "mi300x", &["--concurrency", "1,128"]);
    assert_eq!(rows[0]["front"], "not ranked: no L2", "{rows:?}");
    assert!(rows[1]["tpot_measured_seconds"].as_f64() > Some(0.0), "{rows:?}");
    assert_eq!(rows[1]["front"], "both", "{rows:?}");
}

/// The floors decide by what a record or a table has: a launch that was measured is in L2.
#[test]
fn floors_that_are_known_are_no_reason() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let model = catalogue.model("qwen3-30b-a3b").expect("a model");
    let work = scenario().work(Split::Tensor(1), Phase::Decode { context: 1000.0 }, 1.0);
    // Rates of it are published, and no launches.
    let mut hardware = tokens::part("mi300x", true);
    let without = step(&model, &hardware, work).expect("a step");
    assert!(matches!(without.unknown, Some(Unknown::Floors { messages: 0.0, .. })), "{without:?}");
    assert_eq!(without.best_known(), without.serial);
    let launch = Some(fizeau_domain::units::Seconds(2e-6));
    let mut measured = Measured::default();
    measured.queued = launch;
    hardware.measured = Some(measured);
    let with = step(&model, &hardware, work).expect("a step");
    assert_eq!(with.unknown, None);
    let kernels: f64 = with.rows.iter().map(|row| row.operation.count).sum();
    assert!(with.measured.expect("L2").0 > with.serial.0 + kernels * 2e-6 * 0.999);
}

#[test]
fn shapes_are_a_suite_that_can_be_run() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    for (name, layout) in
        [("llama-3.1-8b", "tp2"), ("deepseek-v3", "ep8"), ("qwen3.5-122b-a10b", "tp2")]
    {
        let model = catalogue.model(name).expect("a model");
        let layout: Layout = layout.parse().expect("a layout");
        let of = |forms| Shapes::of(&model, layout, &scenario(), &[1, 8, 64], forms);
        let shapes = of(Forms::Fused);
        let count = |shapes: &Shapes| shapes.products.len() + shapes.grouped.len();
        assert!(count(&of(Forms::Both)) > count(&shapes), "{name}");
        assert!(of(Forms::Separate).products.is_subset(&of(Forms::Both).products), "{name}");
        let text = shapes.suite("shapes", "a test");
        let suite = Suite::parse(&text).unwrap_or_else(|why| panic!("{name}: {why}\n{text}"));
        assert!(suite.gemm.is_some_and(|gemm| gemm.shapes.len() >= 8), "{text}");
        assert!(!suite.attention.is_empty() && suite.collective.is_some(), "{text}");
    }
}

/// Layers with a window or chunks have them as their mask, where the context is longer.
#[test]
fn shapes_of_windows_have_their_mask() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let masks = |name, input| {
        let model = catalogue.model(name).expect("a model");
        let scenario = Scenario { input, ..scenario() };
        let layout: Layout = "tp1".parse().expect("a layout");
        let text = Shapes::of(&model, layout, &scenario, &[1], Forms::Fused).suite("shapes", "");
        let suite = Suite::parse(&text).unwrap_or_else(|why| panic!("{name}: {why}\n{text}"));
        let of = |kind| {
            let cases = suite.attention.iter().filter(|case| case.attention == kind);
            let mut masks: Vec<Mask> = cases.map(|case| case.mask).collect();
            masks.sort_unstable();
            masks
        };
        (of(AttentionKind::Prefill), of(AttentionKind::Decode))
    };
    let (full, causal, window) = (Mask::Full, Mask::Causal, Mask::Window(128));
    assert_eq!(masks("gpt-oss-120b", 1000), (vec![causal, window], vec![full, window]));
    assert_eq!(masks("gpt-oss-120b", 100), (vec![causal], vec![full, window]));
    let chunk = Mask::Chunk(8192);
    assert_eq!(masks("llama-4-scout", 20_000), (vec![causal, chunk], vec![full, full]));
}

#[test]
fn fused_products_are_made_of_separate_ones() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let model = catalogue.model("llama-3.1-8b").expect("a model");
    let layout: Layout = "tp2".parse().expect("a layout");
    let of = |forms| Shapes::of(&model, layout, &scenario(), &[8], forms).products;
    let decode = |shape: [u32; 3]| (fizeau_domain::dtype::Dtype::Bf16, shape);
    // 16 of 32 query heads and 4 of 8 key heads of 128; 7168 of 14336 inner.
    let (fused, separate) = (of(Forms::Fused), of(Forms::Separate));
    assert!(fused.contains(&decode([8, (16 + 2 * 4) * 128, 4096])), "{fused:?}");
    assert!(fused.contains(&decode([8, 2 * 7168, 4096])), "{fused:?}");
    for shape in [[8, 16 * 128, 4096], [8, 4 * 128, 4096], [8, 7168, 4096]] {
        assert!(separate.contains(&decode(shape)) && !fused.contains(&decode(shape)), "{shape:?}");
    }
    assert!(!separate.contains(&decode([8, 2 * 7168, 4096])), "{separate:?}");
}

#[test]
fn a_pipeline_has_the_layers_of_its_stages() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let model = catalogue.model("llama-3.1-8b").expect("a model");
    let of = |layout: &str, requests| {
        let layout: Layout = layout.parse().expect("a layout");
        assert_eq!(layout.to_string().parse(), Ok(layout));
        point(&model, &h200(), layout, &scenario(), requests).expect("a point")
    };
    // Two groups of one sequence each: from token to token as one device with one sequence, and
    // its message between the stages.
    let (one, two) = (of("tp1", 1), of("pp2", 2));
    let sent = 4096.0 * 2.0 / h200().link_rate(2, false).expect("links").0;
    let more = two.token.serial - one.token.serial;
    // Both stages' caches keep bytes, which makes the pipeline a little faster.
    let kept = h200().cache.0 as f64 / h200().memory.0;
    assert!((more - (sent - kept)).abs() < 1e-9, "{more:e}, {sent:e}, {kept:e}");
    assert!(two.token.light <= one.token.light);
    // 32 layers of 2, and the larger of embedding and output layer.
    let layers = model.weight_bytes() - 2.0 * 2.0 * 4096.0 * 128_256.0;
    assert_eq!(two.fit.weights, layers / 2.0 + 2.0 * 4096.0 * 128_256.0);
    assert_eq!(two.fit.sequence, one.fit.sequence / 2.0);
    // 61 layers on 4 stages: one of 16, which sets the pace.
    let deep = catalogue.model("deepseek-v3").expect("a model");
    let split = Split::Pipeline { tensor: 1, stages: 4 };
    assert_eq!(split.pace(deep.layer_count()), 64.0 / 61.0);
    assert_eq!("tp2pp4".parse::<Layout>().expect("a layout").devices(), 8);
    assert_eq!("tp2pp1".parse::<Layout>(), "tp2".parse::<Layout>());
}

#[test]
#[ignore = "it reads the clock: scripts/check_long.sh"]
fn ten_thousand_points_take_less_than_five_seconds() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let model = catalogue.model("deepseek-v3").expect("a model");
    let (hardware, layout) = (h200(), "ep8".parse().expect("a layout"));
    let start = std::time::Instant::now();
    for requests in 1..=10_000 {
        point(&model, &hardware, layout, &scenario(), requests).expect("a point");
    }
    let elapsed = start.elapsed();
    println!("10,000 points in {elapsed:?}");
    assert!(elapsed.as_secs_f64() < 5.0, "{elapsed:?}");
}
