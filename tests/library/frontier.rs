//! The report of a power frontier, from synthetic records.

use crate::synthetic;
use fizeau_domain::{
    outcome::Telemetry,
    units::{Joules, Seconds, Watts},
};
use fizeau_record::Record;
use fizeau_report::{Block, Cell, Document, Rung, format::html, frontier};
use std::{env, fs};

/// A rung at which everything takes `time` times as long, at a power.
pub fn rung(setting: &str, time: f64, watts: f64, by_counter: bool) -> Rung {
    let mut record: Record = synthetic::record();
    record.outcomes.retain(|outcome| {
        let id = outcome.case().to_string();
        ["gemm/f32/1024x", "attention/decode", "stream/copy/"].iter().any(|of| id.starts_with(of))
    });
    record.outcomes.truncate(3);
    for one in synthetic::measured_in(&mut record) {
        one.summary.median = one.summary.median * time;
        let telemetry = Telemetry {
            power_mean: Some(Watts(watts)),
            energy: by_counter.then_some(Joules(watts * 6.0)),
            elapsed: by_counter.then_some(Seconds(6.0)),
            ..Telemetry::default()
        };
        one.telemetry = Some(telemetry);
    }
    record.header.device.name = "a synthetic GPU".into();
    Rung { setting: setting.into(), is_set: !setting.starts_with("as"), record }
}

fn words(document: &Document) -> String {
    let text = |block: &Block| match block {
        Block::Text(text) | Block::Warning(text) => Some(text.clone()),
        _ => None,
    };
    document.blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

#[test]
fn speed_and_energy_are_relative_to_the_first_rung() {
    let rungs = [
        rung("as it is set", 1.0, 700.0, true),
        rung("power limit 500 W", 1.0 / 0.92, 500.0, true),
        rung("power limit 350 W", 1.0 / 0.7, 350.0, true),
        rung("as it is set, again", 1.03, 700.0, true),
    ];
    let document = frontier(&rungs, &["a note".into()]);
    let said = words(&document);
    assert!(
        said.contains("70.0 % of the speed at 71.4 % of the energy, power limit 350 W."),
        "{said}"
    );
    assert!(said.contains("the device's own counter") && said.contains("a note"), "{said}");
    assert!(said.contains("97.1 % of the first one's speed"), "{said}");
    let table = document.tables().next().expect("a table");
    let at = |key: &str| table.columns.iter().position(|column| column.key == key).expect("there");
    let value = |row: usize, key: &str| match table.rows[row][at(key)] {
        Cell::Relative { value, .. } => value,
        ref other => panic!("{other:?}"),
    };
    assert!((value(1, "speed") - 0.92).abs() < 1e-9);
    assert!((value(1, "energy") - 500.0 / 700.0 / 0.92).abs() < 1e-9);
    let chart = document.charts().next().expect("a figure");
    assert!(chart.series.iter().all(|series| series.points.len() == 4));
    if let Some(dir) = env::var_os("FIZEAU_REPORT_DIR") {
        let page = html::render(&document).expect("a page");
        fs::write(std::path::Path::new(&dir).join("frontier.html"), page).expect("written");
    }
}

#[test]
fn energies_of_different_kinds_are_not_set_beside_each_other() {
    let rungs =
        [rung("as it is set", 1.0, 700.0, true), rung("power limit 500 W", 1.1, 500.0, false)];
    let document = frontier(&rungs, &[]);
    let text = words(&document);
    assert!(text.contains("own counter") && text.contains("mean of the power"), "{text}");
    let table = document.tables().next().expect("a table");
    let at = table.columns.iter().position(|column| column.key == "energy").expect("there");
    assert_eq!(table.rows[1][at], Cell::Absent);
    let mut without = [rung("as it is set", 1.0, 1.0, false)];
    for one in synthetic::measured_in(&mut without[0].record) {
        one.telemetry = None;
    }
    assert!(words(&frontier(&without, &[])).contains("Energy is unknown"));
}
