//! `fizeau discover --gemm`: the search for the shape of the fastest matrix product, on the host.

use crate::program::{Place, say};
use fizeau_domain::{case::Point, outcome::Outcome};
use std::collections::BTreeSet;

#[test]
fn a_search_keeps_its_budget_and_records_every_shape() {
    let place = Place::new();
    let args = ["discover", "--gemm", "f32", "--budget", "4s", "--device", "host", "--out", "out"];
    let said = say(&mut place.fizeau(args)).ended(0);
    let record = place.record("out");
    assert_eq!(record.outcomes.len(), record.header.plan.len());
    assert!(record.outcomes.iter().any(|one| matches!(one, Outcome::Measured(_))));
    let shape = |outcome: &Outcome| match outcome.case().point {
        Point::Gemm(point) => [point.m, point.n, point.k],
        other => panic!("{other:?}"),
    };
    let shapes: BTreeSet<[u32; 3]> = record.outcomes.iter().map(shape).collect();
    let told = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shapes.contains(&[256; 3]), "{told}");
    assert!(told.contains(&format!("Best of {} shape", shapes.len())), "{told}");
    for [m, n, k] in &shapes {
        assert!(told.contains(&format!("{m}x{n}x{k}")), "{told}");
    }
    // Nothing of the rounds is left; the record is one as any other, and its suite measures again.
    assert!(!place.path("out/rounds").exists());
    say(&mut place.fizeau(["report", "out", "--summary"])).ended(0);
    let list = ["list", "--suite", "out/suite.toml", "--device", "host", "gemm/f32/256x256x256"];
    say(&mut place.fizeau(list)).ended(0);
    // A record is not written over.
    say(&mut place.fizeau(args)).ended(2);
}

#[test]
fn what_cannot_be_searched_is_refused() {
    let place = Place::new();
    for (args, words) in [
        (&["--gemm", "f31"][..], "one of f64, f32"),
        (&["--gemm", "f32", "--budget", "0"], "--budget: 0 s must be above 0"),
        (&["--gemm", "f32", "--suite", "quick"], "cannot be used with"),
        (&["--budget", "5s"], "--gemm"),
        (&["--gemm", "nvfp4", "--device", "host", "--out", "out"], "plans no case on this device"),
    ] {
        let said = say(&mut place.fizeau(["discover"].iter().chain(args)));
        assert!(said.code != Some(0) && said.err.contains(words), "{args:?}: {}", said.err);
    }
    assert!(!place.path("out/record.jsonl").exists());
}
