//! Collectives as `nccl-tests` reports them, read as its readers do: by column position, by white
//! space, by key.

use crate::synthetic;
use fizeau_domain::{
    case::{Collective, Place, Point},
    outcome::{Failure, Outcome},
};
use fizeau_record::Record;
use fizeau_report::{self as report, format::nccl_tests};
use serde_json::{Value, json};

/// Where the columns of a row end, by the widths of its `printf`.
const ENDS: [usize; 13] = [12, 26, 36, 44, 52, 61, 69, 77, 85, 94, 102, 110, 118];

fn column(line: &str, at: usize) -> &str {
    let start = if at == 0 { 0 } else { ENDS[at - 1] };
    line[start..ENDS[at]].trim()
}

fn measured(record: &Record, collective: Collective, size: u64, place: Place) -> Option<f64> {
    record.outcomes.iter().find_map(|outcome| {
        let measurement = outcome.measured()?;
        let Point::Collective(point) = measurement.case.point else { return None };
        let wanted = (collective, size, place);
        let times = &measurement.samples.times;
        let mean = times.iter().map(|time| time.0).sum::<f64>() / times.len() as f64;
        ((point.collective, point.message.0, point.place) == wanted).then_some(mean)
    })
}

#[test]
fn rows_are_read_by_column_position() {
    let record = synthetic::record();
    let text = nccl_tests::text(&report::nccl_tests(&record));
    let mut collective = None;
    let mut rows = 0;
    for line in text.lines() {
        if let Some(program) = line.strip_prefix("# Collective test starting: ") {
            collective = Some(match program {
                "all_reduce_perf" => Collective::AllReduce,
                "alltoall_perf" => Collective::AllToAll,
                "all_gather_perf" => Collective::AllGather,
                "reduce_scatter_perf" => Collective::ReduceScatter,
                "broadcast_perf" => Collective::Broadcast,
                "sendrecv_perf" => Collective::SendReceive,
                other => panic!("{other}"),
            });
        }
        if line.starts_with('#') {
            continue;
        }
        rows += 1;
        let collective = collective.expect("a heading comes first");
        assert_eq!(line.len(), 118, "{line:?}");
        assert_eq!(line.split_whitespace().count(), 13, "{line:?}");
        let size: u64 = column(line, 0).parse().expect("a size");
        assert_eq!(column(line, 2), "float");
        let named = collective.sums() || collective == Collective::SendReceive;
        assert_eq!(column(line, 3), if named { "sum" } else { "none" });
        assert_eq!(column(line, 4), if collective.has_root() { "0" } else { "-1" });
        for (place, first) in [(Place::OutOfPlace, 5), (Place::InPlace, 9)] {
            let number = |at: usize| column(line, first + at).parse::<f64>().expect("a number");
            let Some(mean) = measured(&record, collective, size, place) else {
                assert!(number(0).is_nan(), "{line}");
                assert_eq!(column(line, first + 3), "N/A");
                continue;
            };
            assert!((number(0) / (mean * 1e6) - 1.0).abs() < 5e-3, "{line}");
            let algorithm = size as f64 / mean / 1e9;
            assert!((number(1) - algorithm).abs() <= 0.0051, "{line}: {algorithm}");
            let bus = algorithm * collective.bus_factor(2);
            assert!((number(2) - bus).abs() <= 0.0051, "{line}: {bus}");
            assert_eq!(column(line, first + 3), "0");
        }
    }
    assert!(rows >= 10, "{text}");
    assert!(text.contains("# Out of bounds values : 0 OK"));
    let average = text.lines().find(|line| line.starts_with("# Avg bus bandwidth    : "));
    let average = average.and_then(|line| line.split_whitespace().nth(5)).expect("a footer");
    assert!(average.parse::<f64>().expect("a number") > 0.0);
}

#[test]
fn headings_stand_over_their_columns() {
    let text = nccl_tests::text(&report::nccl_tests(&synthetic::record()));
    let heading = text.lines().find(|line| line.contains("algbw")).expect("a heading");
    let names = ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"];
    for (at, name) in names.into_iter().enumerate() {
        let name = if at == 0 { "#       size" } else { name };
        assert_eq!(column(heading, at), name);
    }
    assert_eq!(heading.len(), 118);
}

#[test]
fn wrong_elements_are_out_of_bounds() {
    let mut record = synthetic::record();
    let of = |outcome: &&mut Outcome| {
        matches!(outcome.case().point, Point::Collective(point)
            if point.collective == Collective::AllReduce)
    };
    let outcome = record.outcomes.iter_mut().find(of).expect("an all_reduce");
    let id = outcome.case().to_string();
    *outcome = Outcome::Failed {
        case: outcome.case().clone(),
        failure: Failure::WrongResult,
        error: "3 of 1024 elements are wrong".into(),
        integrity: None,
    };
    let text = nccl_tests::text(&report::nccl_tests(&record));
    let first = text.split("# Collective test concluded").next().expect("a report");
    assert!(first.contains("# Out of bounds values : 1 FAILED"), "{first}");
    assert!(first.contains(&format!("# {id}: failed: 3 of 1024")), "{first}");
}

#[test]
fn json_has_the_keys_and_no_environment() {
    let record = synthetic::record();
    let text = nccl_tests::json(&report::nccl_tests(&record));
    for line in text.lines() {
        let report: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(report["version"], 3);
        assert_eq!(report["env"], Value::Array(vec![]));
        assert_eq!(report["start_time"], "2026-03-01 12:00:00");
        let devices = &report["config"]["devices"];
        assert_eq!(
            (&devices[0]["hostname"], &devices[0]["rank_last"]),
            (&json!("node-17"), &json!(1))
        );
        assert_eq!(devices[0].get("pid"), None, "the record knows none");
        assert_eq!(report.get("stub"), None);
        assert_eq!(report["out_of_bounds"]["okay"], "true");
        for row in report["results"].as_array().expect("rows") {
            let [time, bus] = ["time", "bus_bw"].map(|key| row["out_of_place"][key].as_f64());
            let size = row["size"].as_f64().expect("a size");
            if let (Some(time), Some(bus)) = (time, bus) {
                let program = report["args"][0].as_str().expect("a name");
                let whole = ["all_reduce_perf", "broadcast_perf", "sendrecv_perf"];
                let factor = if whole.contains(&program) { 1.0 } else { 0.5 };
                assert!((bus / (size / time / 1e3 * factor) - 1.0).abs() < 1e-9, "{row}");
                let iterations = &row["out_of_place_per_iter"];
                let count = iterations["times_us"].as_array().map_or(0, Vec::len);
                assert!(
                    count > 0 && iterations["p99_us"].as_f64() >= iterations["p50_us"].as_f64()
                );
            }
        }
    }
}

/// Every line that has a figure says that a stub made it up, and the devices are those of the
/// record.
#[test]
fn stubs_are_marked_on_every_line_and_devices_are_those_of_the_record() {
    let mut record = synthetic::record();
    record.header.device.vendor = "stub".into();
    assert!(record.header.device.is_stub());
    record.header.environment.ranks =
        (0..2).map(|rank| format!("rank {rank}: n1, cuda:{rank} (stub H200)")).collect();
    let tests = report::nccl_tests(&record);
    let text = nccl_tests::text(&tests);
    let has_figures = |line: &&str| {
        !line.starts_with('#') || line.contains("Avg bus") || line.contains("Out of bounds")
    };
    for line in text.lines().filter(has_figures) {
        assert!(line.ends_with("  stub"), "{line}");
    }
    assert!(text.contains("#  Rank  1 on         n1 device cuda:1 stub H200\n"), "{text}");
    assert!(!text.contains("Pid") && !text.contains("0000:00:00"), "{text}");
    for line in nccl_tests::json(&tests).lines() {
        let report: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(report["stub"], true);
        assert!(report["results"].as_array().expect("rows").iter().all(|row| row["stub"] == true));
    }
    // Not a line for each of many ranks.
    let mut record = synthetic::record();
    for of in synthetic::measured_in(&mut record) {
        if let Point::Collective(point) = &mut of.case.point {
            point.ranks = 65_536;
        }
    }
    let text = nccl_tests::text(&report::nccl_tests(&record));
    assert!(text.contains("#  Ranks 0 to 65535 on    node-17 device host AMD EPYC 9575F\n"));
    assert!(text.len() < 100_000, "{} bytes", text.len());
}
