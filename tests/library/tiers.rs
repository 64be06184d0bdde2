//! Figures that rest on unlike things are not set against each other as if they were equal: what
//! rests on a datasheet looks better than what was measured by that alone.

use crate::tokens::part;
use fizeau::data::Catalogue;
use fizeau_domain::model::Format;
use fizeau_projection::project::{
    Alternative, Demand, Hardware, Offer, Projection, Scenario, Seen, Serving, Slo, Whence,
    project_with, step,
    symptom::{Resource, losses},
};
use fizeau_record::store;
use fizeau_report::{self as report, Block, Cell, Document, Table};
use std::path::Path;

/// Llama 3.2 1B, 1,024 tokens in and 256 out, 64 requests and 128 at once: as many as make the time
/// of launches small.
pub fn demand() -> Demand {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    Demand {
        model: catalogue.model("llama-3.2-1b").expect("a model"),
        precision: None,
        scenario: Scenario {
            input: 1024,
            prefix: 0,
            output: 256,
            kv: Format::Bf16,
            memory_share: 0.9,
        },
        serving: Serving::default(),
        concurrency: vec![64, 128],
        slo: Slo::default(),
        seen: Seen::default(),
    }
}

fn offer(hardware: Hardware) -> Offer {
    let layouts = vec!["tp1".parse().expect("a layout")];
    Offer { hardware, layouts, price: None, power: None }
}

/// This project's record of a host: its limits are the best rates that it measured.
pub fn host() -> Hardware {
    let record = store::read(Path::new("results/epyc-9005/2026-11-21-kvm-2-cores"));
    Hardware::of_record("a host", &record.expect("a record"), None).expect("whole")
}

fn sides(hardware: Vec<Hardware>) -> Projection {
    let offers = hardware.into_iter().map(offer).collect();
    project_with(demand(), offers, Vec::new()).expect("projected")
}

fn table<'d>(document: &'d Document, name: &str) -> &'d Table {
    document.tables().find(|table| table.name == name).expect("the table")
}

fn cells<'t>(table: &'t Table, key: &str) -> Vec<&'t Cell> {
    let at = table.columns.iter().position(|column| column.key == key).expect("the column");
    table.rows.iter().map(|row| &row[at]).collect()
}

fn warnings(document: &Document) -> String {
    let warning = |block: &Block| match block {
        Block::Warning(text) => Some(text.clone()),
        _ => None,
    };
    document.blocks.iter().filter_map(warning).collect::<Vec<_>>().join("\n")
}

fn text(word: &str) -> Cell {
    Cell::Text(word.into())
}

/// The first sentence of a comparison says which machine is the fastest and by how much, by the
/// same rates as the table; one machine alone is compared with nothing.
#[test]
fn the_first_sentence_says_which_machine_is_faster_and_by_how_much() {
    let first = |hardware: Vec<Hardware>| {
        let document = report::projection(&sides(hardware));
        let words = document.blocks.iter().find_map(|block| match block {
            Block::Text(words) => Some(words.clone()),
            _ => None,
        });
        (words.expect("a sentence"), document)
    };
    let [h100, h200] = ["h100-sxm", "h200-sxm"].map(|id| part(id, true));
    let (words, document) = first(vec![h100.clone(), h200.clone()]);
    let rates = cells(table(&document, "ranking"), "gpu_output_tokens_per_second");
    let [Cell::Number(most, _), Cell::Number(other, _)] = rates[..] else {
        panic!("{rates:?}");
    };
    let ratio = most / other;
    let expected =
        format!("h200-sxm is {ratio:.2} times as fast as h100-sxm ({other:.0}): {most:.0}");
    assert!(ratio > 1.05 && words.starts_with(&expected), "{words}, not {expected}");
    let twin = Hardware { name: "twin".into(), ..h100.clone() };
    let (words, _) = first(vec![h100.clone(), twin]);
    assert!(words.starts_with("h100-sxm is as fast as twin"), "{words}");
    let (words, _) = first(vec![h100]);
    assert!(words.starts_with("h100-sxm: run tp1"), "{words}");
}

#[test]
fn parts_whose_figures_rest_on_unlike_things_are_ranked_by_l1() {
    // The same part twice: only in one of them is anything known beyond its datasheet.
    let known = part("h200-sxm", true);
    let bare = Hardware { name: "bare".into(), ..part("h200-sxm", false) };
    let projected = sides(vec![known.clone(), bare.clone()]);
    let document = report::projection(&projected);
    assert!(warnings(&document).contains("compared by L1, the best tier known"));
    let ranking = table(&document, "ranking");
    assert_eq!(cells(ranking, "basis"), [&text("L1"), &text("L1")]);
    let rates = cells(ranking, "gpu_output_tokens_per_second");
    assert_eq!(rates[0], rates[1], "in one tier the same part is as fast as itself");
    let best = cells(ranking, "best_known_gpu_output_tokens_per_second");
    assert_ne!(best[0], best[1]);
    let of_points = cells(table(&document, "points"), "rests_on");
    let bare_points = of_points.iter().filter(|cell| ***cell == text("L1"));
    assert_eq!((of_points.len(), bare_points.count()), (4, 4));
    // In every column that compares machines the same part is as fast as itself; only one of them
    // has an L2, in a column of its own.
    let points = table(&document, "points");
    for key in [
        "ttft_seconds",
        "e2el_seconds",
        "user_tokens_per_second",
        "gpu_tokens_per_second",
        "requests_per_second",
        "joules_per_token",
    ] {
        let all = cells(points, key);
        assert_eq!(all[..2], all[2..], "{key}");
    }
    let l2 = cells(points, "tpot_measured_seconds");
    assert!(l2[..2].iter().all(|cell| **cell != Cell::Absent), "{l2:?}");
    assert_eq!(l2[2..], [&Cell::Absent, &Cell::Absent]);
    // Alike: by the best tier, without a warning.
    for pair in [[known.clone(), known], [bare.clone(), bare]] {
        let document = report::projection(&sides(pair.to_vec()));
        assert!(!warnings(&document).contains("Compared by"), "{}", warnings(&document));
        let ranks = cells(table(&document, "ranking"), "rank");
        assert_eq!(ranks, [&Cell::Count(1), &Cell::Count(2)]);
    }
}

#[test]
fn no_rank_is_given_where_limits_are_of_different_kinds() {
    let document = report::projection(&sides(vec![host(), part("h200-sxm", true)]));
    assert!(warnings(&document).contains("are not ranked"), "{}", warnings(&document));
    let ranking = table(&document, "ranking");
    assert_eq!(cells(ranking, "rank"), [&Cell::Absent, &Cell::Absent]);
    assert_eq!(cells(ranking, "on"), [&text("a host"), &text("h200-sxm")]);
    let brief = cells(ranking, "basis");
    assert!(brief.iter().all(|cell| **cell != Cell::Absent), "{brief:?}");
}

#[test]
fn a_what_if_on_other_hardware_is_compared_in_one_tier() {
    let other = |name: &str, hardware| Alternative {
        name: name.into(),
        demand: demand(),
        offer: offer(hardware),
        accuracy: None,
        notes: Vec::new(),
    };
    let alternatives = vec![
        other("alike", part("h200-sxm", true)),
        other("bare", part("h200-sxm", false)),
        other("host", host()),
    ];
    let base = vec![offer(part("h200-sxm", true))];
    let projected = project_with(demand(), base, alternatives).expect("projected");
    let document = report::projection(&projected);
    let rows = table(&document, "what_if");
    let ratios = cells(rows, "rate_relative");
    // The same part: in L1 it is as fast as itself.
    for ratio in &ratios[..3] {
        assert!(matches!(ratio, Cell::Ratio(ratio) if (ratio - 1.0).abs() < 1e-9), "{ratio:?}");
    }
    assert_eq!(ratios[3], &Cell::Absent);
    let by = cells(rows, "rate_relative_by");
    let best = text("best known");
    assert_eq!(by, [&best, &best, &text("L1"), &Cell::Absent]);
    let map = document.blocks.iter().find_map(|block| match block {
        Block::HeatMap(map) if map.name == "what_if_rates" => Some(map),
        _ => None,
    });
    let map = map.expect("the map");
    assert!(map.rows.iter().flat_map(|row| &row.values).all(|heat| heat.share.is_none()));
}

/// Messages are known by the rate of the links alone, and without their latency eight devices look
/// faster than they are. With a thousand requests at once that latency is a small part of a step.
#[test]
fn layouts_that_rest_on_unlike_things_are_told() {
    let of = |layouts: &[&str]| {
        let mut offer = offer(part("mi300x", true));
        offer.layouts = layouts.iter().map(|text| text.parse().expect("a layout")).collect();
        let catalogue = Catalogue::load(None).expect("the embedded catalogue");
        let model = catalogue.model("llama-3.1-70b").expect("a model");
        let demand = Demand { model, concurrency: vec![64, 1024], ..demand() };
        let projected = project_with(demand, vec![offer], Vec::new()).expect("projected");
        warnings(&report::projection(&projected))
    };
    let said = of(&["tp1", "tp8"]);
    assert!(said.contains("its layouts rest on different sources (tp1 "), "{said}");
    assert!(said.contains("messages as in L1"), "{said}");
    for alike in [&["tp1"][..], &["tp8"]] {
        assert!(!of(alike).contains("its layouts rest"), "{alike:?}");
    }
}

/// What was measured here comes before what others published, and both before what nothing is known
/// of, which has no loss that could be ranked.
#[test]
fn symptoms_are_ranked_within_what_they_rest_on() {
    let model = demand().model;
    let work = demand().scenario.work(
        "tp1".parse::<fizeau_projection::project::Layout>().expect("a layout").split,
        demand().scenario.prefill(),
        1.0,
    );
    let mut step = step(&model, &part("h200-sxm", true), work).expect("a step");
    let of = |row: &fizeau_projection::project::Row| row.operation.name;
    // The attention was measured, and the output layer is known by its limits alone.
    let names: Vec<_> = step.rows.iter().map(of).collect();
    for row in &mut step.rows {
        let basis = row.basis.as_mut().expect("something was published");
        let is_attention =
            matches!(row.operation.kind, fizeau_projection::project::Kind::Attention { .. });
        basis.whence = if is_attention { Whence::Record } else { Whence::Limits };
    }
    let losses = losses(&step);
    let order: Vec<_> = losses.iter().map(|loss| loss.rests_on()).collect();
    let rank = |whence: &Whence| match whence {
        Whence::Record => 0,
        Whence::Published => 1,
        Whence::Limits => 2,
    };
    assert!(order.is_sorted_by_key(rank), "{names:?} {losses:#?}");
    // Those of all kernels together rest on some of the record too.
    let first = losses.iter().find(|loss| loss.resource != Resource::Launches).expect("a loss");
    assert!([Resource::Attention, Resource::Cache].contains(&first.resource), "{losses:#?}");
    let unknown = losses.iter().filter(|loss| loss.rests_on() == Whence::Limits);
    assert!(unknown.clone().count() > 0);
    assert!(unknown.clone().all(|loss| loss.reached().is_none()));
}
