//! A page says each of its headings once: none stands below another of the same words, or twice
//! under one parent.

use crate::{formats, synthetic};
use fizeau_domain::outcome::Integrity;
use fizeau_report::{self as report, Document, GpuRun, format::html};
use std::{collections::HashSet, fs};

/// The headings of a page that stand below one of the same words, or beside one.
fn faults(page: &str) -> Vec<String> {
    let mut faults = Vec::new();
    // The heading of each level that is open, and what stood under it so far.
    let mut open: Vec<(String, HashSet<String>)> = vec![Default::default(); 7];
    for (at, _) in page.match_indices("<h") {
        let level = page[at + 2..].chars().next().and_then(|digit| digit.to_digit(10));
        let Some(level) = level.map(|level| level as usize).filter(|level| (1..7).contains(level))
        else {
            continue;
        };
        let end = page[at..].find(&format!("</h{level}>")).expect("a heading has an end");
        let text = words(&page[at..at + end]);
        let parent = (0..level).rev().find(|above| *above == 0 || !open[*above].0.is_empty());
        let (above, siblings) = &mut open[parent.unwrap_or(0)];
        if *above == text || !siblings.insert(text.clone()) {
            faults.push(format!("h{level} {text:?} below {above:?}"));
        }
        open[level..].fill_with(Default::default);
        open[level].0 = text;
    }
    faults
}

/// The text of a heading, without the number of rows that stands in it.
fn words(heading: &str) -> String {
    let heading = heading.split("<span class=\"count\">").next().unwrap_or_default();
    let mut text = String::new();
    for piece in heading.split('<').filter_map(|piece| piece.split_once('>')) {
        text += piece.1;
    }
    text.trim().to_owned()
}

fn page(document: &Document) -> String {
    html::render(document).expect("a page")
}

#[test]
fn a_heading_that_stands_twice_is_found() {
    let section =
        |name: &str| format!("<h2 id=\"x\">{name}</h2><h3>Checks <span class=\"count\">3");
    let section = |name: &str| section(name) + "</span></h3>";
    let page = format!("<h1>PASS</h1>{}{}", section("What passed"), section("What failed"));
    assert_eq!(faults(&page), [""; 0], "the same table in two sections");
    for (spoilt, count) in [
        (page.replace("Checks", "What passed"), 1),
        (page.replace("What failed", "What passed"), 1),
        (page.replace("What passed", "PASS"), 1),
        (format!("{page}<h3>Checks</h3>"), 1),
    ] {
        assert_eq!(faults(&spoilt).len(), count, "{spoilt}");
    }
}

#[test]
fn no_page_says_a_heading_twice() {
    let mut pages = Vec::new();
    // Those of a run, a comparison and a projection.
    for entry in fs::read_dir("tests/library/snapshots").expect("snapshots").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".html.snap") {
            pages.push((name, fs::read_to_string(entry.path()).expect("a snapshot")));
        }
    }
    assert!(pages.len() >= 3, "{}", pages.len());
    let mut compared = synthetic::record();
    for one in synthetic::measured_in(&mut compared) {
        let integrity = Integrity { unit: "product".into(), ..Integrity::default() };
        one.integrity = Some(Box::new(integrity));
    }
    let gpus: Vec<GpuRun> = (0..3)
        .map(|gpu| GpuRun {
            name: format!("cuda:{gpu}"),
            record: Some(synthetic::with_a_gpu()),
            failure: None,
        })
        .collect();
    let documents = [
        ("an acceptance", report::acceptance(&formats::verdict(), &[])),
        ("silent corruption", report::run(&compared)),
        ("GPUs side by side", report::side_by_side(&gpus)),
    ];
    pages.extend(documents.iter().map(|(name, document)| ((*name).to_owned(), page(document))));
    for (name, page) in &pages {
        assert!(page.contains("<h1"), "{name}");
        assert_eq!(faults(page), [""; 0], "{name}");
    }
}
