//! `explain` and the report of a run speak of one limit, for every operation of a host.

use crate::program::{MEASURE, Place, Said, say};
use serde_json::Value;
use std::{collections::BTreeSet, fs};

/// Every operation that a host has, at sizes that take milliseconds; streams also at sizes of which
/// caches keep a part.
const EACH: &str = r#"
[compute]
dtypes = ["f64", "f32", "bf16", "int8"]

[stream]
memory = []
scaling = []
sweep = ["read", "triad"]
sweep_units = ["one", "all"]
sweep_points_per_octave = 1

[latency]
points_per_octave = 1

[gemm]
dtypes = ["f32", "bf16"]
shapes = [[64, 64, 64], [1, 512, 512]]

[grouped]
dtypes = ["f32"]
shapes = [[8, 64, 64, 4]]
routings = ["balanced"]

[[fused]]
fused = "norm"
outputs = ["bf16"]
rows = [4]
widths = [1024]

[[fused]]
fused = "swiglu"
outputs = ["fp8block"]
rows = [4]
widths = [1024]

[[recurrence]]
recurrence = "kda"
states = ["f32", "bf16"]
batches = [2]
heads = 3
key_heads = 3
dims = [64, 21]

[[sparse]]
step = "top_k"
rows = [2]
selected = 32
contexts = [300]

[[sparse]]
step = "decode"
batches = [1]
heads = [5]
selected = 32
contexts = [64]

[collective]
collectives = ["all_reduce", "broadcast"]
dtypes = ["f32"]
from = "4KiB"
to = "4KiB"
factor = 2
places = ["out_of_place"]

[[attention]]
attention = "prefill"
dtype = "f32"
batch = 1
heads = 2
kv_heads = 2
queries = 64
keys = 64
dim_qk = 64
dim_v = 64
mask = "causal"

[[attention]]
attention = "decode"
dtype = "bf16"
batch = 1
heads = 4
kv_heads = 2
queries = 1
keys = 256
dim_qk = 128
dim_v = 128
mask = "full"

[sdc]
dtypes = ["f32"]
shapes = [[32, 32, 32]]
products = 4
patterns = ["walking"]
memory = [65536]
"#;

/// The case's row of the report's tables, where it was measured.
fn row<'r>(report: &'r Value, id: &str) -> &'r Value {
    let rows = report["tables"]["cases"].as_array().expect("a table of cases");
    rows.iter().find(|row| row["case"] == id).expect("a row for each case")
}

/// What lies between two pieces of a text.
fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}

/// Whose limit a row's share is of; none where it has none.
fn tier_of(row: &Value) -> Option<&str> {
    let names = ["datasheet", "observed clock", "algorithm", "own best"];
    row["tier"].as_str().filter(|tier| names.contains(tier))
}

/// What `explain` says otherwise than the report of a run.
fn faults(explained: &Said, row: &Value) -> Vec<String> {
    // Lines of prose are broken anywhere.
    let text = explained.out.split_whitespace().collect::<Vec<_>>().join(" ");
    const SHARE: &str = "of this case is of the limit of the ";
    let of_share = between(&text, SHARE, ",");
    // Where the machine had two states no share is printed, and the limit is named all the same.
    let printed = tier_of(row);
    let mut faults = Vec::new();
    if of_share != printed {
        faults.push(format!("a share of {of_share:?}, printed {printed:?}"));
    }
    let behind = text.split_once(SHARE).map(|(_, behind)| behind);
    let caches = behind.and_then(|behind| between(behind, ", with ", " caches."));
    if caches.is_some() && caches != row["caches"].as_str() {
        faults.push(format!("{caches:?} caches, measured {}", row["caches"]));
    }
    faults
}

#[test]
fn explain_names_the_limit_that_the_share_is_of() {
    let place = Place::new();
    let suite = format!("name = \"each\"\ndescription = \"Every operation\"\n{EACH}{MEASURE}");
    fs::write(place.path("each.toml"), suite).expect("the suite is written");
    let run = ["run", "--suite", "each.toml", "--device", "host", "--out", "out", "--ranks", "2"];
    // Where caches are small nothing is as large, and what excludes nothing is an error.
    let planned = say(&mut place.fizeau(["list", "--suite", "each.toml", "--device", "host"])).out;
    let is_large = |start: &str| {
        planned.lines().any(|line| line.trim_start().starts_with(start) && line.contains("GiB/"))
    };
    let large = [("latency/", "!latency/*GiB/*"), ("stream/", "!stream/*GiB/*")];
    let large = large.into_iter().filter(|(start, _)| is_large(start)).map(|(_, one)| one);
    let ended = say(&mut place.fizeau(run.into_iter().chain(large)));
    assert!(ended.code == Some(0) || ended.code == Some(1), "{}{}", ended.out, ended.err);
    let report = say(&mut place.fizeau(["report", "out", "--json"])).json();
    let mut operations = BTreeSet::new();
    let (mut faulty, mut shares, mut without) = (Vec::new(), 0, 0);
    for outcome in &place.record("out").outcomes {
        let Some(one) = outcome.measured() else { continue };
        let id = one.case.to_string();
        // One kernel of each point tells it.
        let point = id.rsplit_once('/').map_or(&*id, |(point, _)| point).to_owned();
        if !operations.insert(point) {
            continue;
        }
        let explain = ["explain", &id, "--suite", "each.toml", "--device", "host", "--ranks", "2"];
        let explained = say(&mut place.fizeau(explain));
        assert_eq!(explained.code, Some(0), "{}", explained.err);
        let row = row(&report, &id);
        shares += usize::from(tier_of(row).is_some());
        without += usize::from(row["tier"] == "partly cached");
        faulty.extend(faults(&explained, row).into_iter().map(|fault| format!("{id}: {fault}")));
    }
    assert!(faulty.is_empty(), "{}", faulty.join("\n"));
    let kinds: BTreeSet<&str> =
        operations.iter().filter_map(|point| point.split('/').next()).collect();
    let all =
        "attention collective compute fused gemm grouped latency recurrence sdc sparse stream";
    assert_eq!(kinds.into_iter().collect::<Vec<_>>().join(" "), all);
    assert!(shares >= 10 && without >= 1, "{shares} shares, {without} partly cached");
}

/// A run of one operation alone ends with its own figure, beside memory's peak where nothing of
/// this run's memory was measured.
#[test]
fn fused_operations_recurrences_and_sparse_attention_have_a_figure_in_the_summary() {
    let place = Place::new();
    let suite = format!("name = \"each\"\ndescription = \"Every operation\"\n{EACH}{MEASURE}");
    fs::write(place.path("each.toml"), suite).expect("the suite is written");
    for (selector, label, unit) in [
        ("fused", "Fused ", "B/s"),
        ("recurrence", "Linear attention ", "B/s"),
        ("sparse", "Sparse decode, cold", "FLOP/s"),
    ] {
        let run = ["run", selector, "--suite", "each.toml", "--device", "host", "--out", selector];
        let said = say(&mut place.fizeau(run)).ended(0);
        let line = said.out.lines().find(|line| line.starts_with(label));
        assert!(line.is_some_and(|line| line.contains(unit)), "{label}: {}", said.out);
    }
}
