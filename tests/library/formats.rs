//! Formats that other programs read, read back by strict parsers of their documented grammar:
//! nvbandwidth's text and JSON, SuperBench's lines, JUnit's XML, Prometheus's text.

use crate::synthetic;
use fizeau_domain::{
    case::{Case, HostMemory, KernelName, Point, Transfer, TransferPoint},
    outcome::{Failure, Outcome},
    units::{Bytes, Seconds},
    verdict::Verdict,
};
use fizeau_judge::accept::{FORMAT, Judged, Level, Report, cause::Cause, profile::Kind};
use fizeau_record::Record;
use fizeau_report::{
    self as report,
    format::{acceptance, nvbandwidth, superbench},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The record of one of three GPUs: copies with the host, to both peers, a latency.
fn gpu(own: u32) -> Record {
    let mut record = synthetic::with_a_gpu();
    record.header.device.ordinal = own;
    record.header.device.name = "NVIDIA H200".into();
    record.header.environment.libraries.push("NVML 580.95.05".into());
    let Some(Outcome::Measured(model)) = record.outcomes.first().cloned() else {
        panic!("a measurement")
    };
    let one = |transfer, peer, kernel: &str, seconds: f64| {
        let (size, host, node) = (Bytes(256 << 20), HostMemory::Pinned, None);
        let point = TransferPoint { transfer, size, host, node, device: own, peer, copies: 1 };
        let mut one = model.clone();
        one.case = Case { kernel: KernelName(kernel.into()), point: Point::Transfer(point) };
        one.summary.median = Seconds(seconds);
        Outcome::Measured(one)
    };
    let time = |rate: f64| 256.0 * f64::from(1 << 20) / (rate * 1e9);
    let mut all = vec![
        one(Transfer::HostToDeviceMemcpy, None, "ce", time(50.0 + f64::from(own))),
        one(Transfer::HostDeviceLatency, None, "portable", 700e-9),
        one(Transfer::DeviceLocalCopy, None, "ce", time(1900.0)),
        one(Transfer::DeviceLocalCopy, None, "sm", time(1950.0)),
        one(Transfer::DeviceLocalCopy, None, "tma", time(1980.0)),
        one(Transfer::AllToOneRead, None, "ce", time(400.0)),
    ];
    for peer in (0..3).filter(|peer| *peer != own) {
        let rate = 300.0 + f64::from(10 * own + peer);
        all.push(one(Transfer::DeviceToDeviceMemcpyRead, Some(peer), "ce", time(rate)));
        all.push(one(Transfer::DeviceToDeviceMemcpyRead, Some(peer), "sm", time(rate / 2.0)));
        all.push(one(Transfer::DeviceToDeviceMemcpyRead, Some(peer), "tma", time(rate * 0.75)));
        all.push(one(Transfer::DeviceToDeviceLatency, Some(peer), "tma", 900e-9));
        let both = Transfer::DeviceToDeviceBidirectionalMemcpyRead;
        all.push(one(both, Some(peer), "ce", time(rate)));
    }
    record.header.plan = all.iter().map(|one| one.case().clone()).collect();
    Record { outcomes: all, ..record }
}

fn three() -> Vec<Record> {
    (0..3).map(gpu).collect()
}

/// A test as its text says.
#[derive(Debug, PartialEq)]
struct Read {
    description: String,
    rows: Vec<Vec<Option<f64>>>,
    sum: f64,
}

/// Reads the text as `operator<<` of its `inline_common.h` writes it: widths of 2 and 10, two
/// decimals.
fn read_text(text: &str) -> Result<BTreeMap<String, Read>, String> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    first.strip_prefix("nvbandwidth Version: ").ok_or(format!("{first:?} is no version"))?;
    let mut tests = BTreeMap::new();
    // What it was built from and runs on; then the host, its devices and an empty line.
    let known = ["Built from Git version: ", "Driver Version: "];
    let (mut hosts, mut devices) = (0, 0);
    loop {
        match lines.next().ok_or("there are no devices")? {
            "" if devices > 0 => break,
            line if line.starts_with(&format!("Device {devices}: ")) => devices += 1,
            line if devices > 0 => return Err(format!("{line:?} is no device")),
            line if line.is_empty() || known.iter().any(|start| line.starts_with(start)) => {}
            line if hosts == 0 && !line.contains(' ') => hosts += 1,
            line => return Err(format!("{line:?} has no place there")),
        }
    }
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("Running ").and_then(|line| line.strip_suffix('.'))
        else {
            match line.is_empty() || line.starts_with("Waived: ") {
                true => continue,
                false => return Err(format!("{line:?} begins no test")),
            }
        };
        let description = lines.next().unwrap_or_default().to_owned();
        if description.starts_with("Error: ") {
            continue;
        }
        let head = lines.next().unwrap_or_default();
        let columns = cells(head)?;
        for (at, column) in columns.iter().enumerate() {
            if column.parse() != Ok(at) {
                return Err(format!("{head:?} does not number its columns"));
            }
        }
        let mut rows = Vec::new();
        loop {
            let line = lines.next().ok_or("a matrix has no end")?;
            if line.is_empty() {
                break;
            }
            if line[..2].trim().parse() != Ok(rows.len()) {
                return Err(format!("{line:?} is not row {}", rows.len()));
            }
            let row: Result<Vec<_>, String> =
                cells(line)?.iter().map(|cell| number(cell)).collect();
            let row = row?;
            if row.len() != columns.len() {
                return Err(format!("{line:?} has {} cells", row.len()));
            }
            rows.push(row);
        }
        let line = lines.next().unwrap_or_default();
        let total = if description.contains(" Total ") { "_total" } else { "" };
        let start = format!("SUM {name}{total} ");
        let sum = line.strip_prefix(&start).ok_or(format!("{line:?}: no sum"))?;
        let sum = number(sum)?.ok_or("a sum is a number")?;
        let line = lines.next().unwrap_or_default();
        let start = format!("COEFFICIENT_OF_VARIATION {name}{total} ");
        let variation = line.strip_prefix(&start).ok_or(format!("{line:?}: no variation"))?;
        number(variation)?.ok_or("a variation is a number")?;
        tests.insert(name.to_owned(), Read { description, rows, sum });
    }
    Ok(tests)
}

/// The cells of a line behind its first two characters.
fn cells(line: &str) -> Result<Vec<&str>, String> {
    let rest = line.get(2..).filter(|rest| line.is_ascii() && rest.len() % 10 == 0);
    let rest = rest.ok_or(format!("{line:?} has other widths"))?;
    let cells = (0..rest.len() / 10).map(|at| &rest[10 * at..10 * at + 10]);
    cells
        .map(|cell| match cell.trim_start() {
            "" => Err(format!("{line:?} has an empty cell")),
            text if text.ends_with(' ') => Err(format!("{line:?} is not aligned to the right")),
            text => Ok(text),
        })
        .collect()
}

fn number(text: &str) -> Result<Option<f64>, String> {
    if text == "N/A" {
        return Ok(None);
    }
    let decimals = text.split_once('.').map(|(_, decimals)| decimals.len());
    match (text.parse::<f64>(), decimals) {
        (Ok(value), Some(2)) if value.is_finite() => Ok(Some(value)),
        _ => Err(format!("{text:?} is no number of two decimals")),
    }
}

#[test]
fn nvbandwidths_text_is_read_back() {
    let records = three();
    let of: Vec<&Record> = records.iter().collect();
    let text = nvbandwidth::text(&report::nvbandwidth(&of));
    let tests = read_text(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    let names: Vec<&str> = tests.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "device_local_copy",
            "device_local_copy_sm",
            "device_local_copy_tma",
            "device_to_device_bidirectional_memcpy_read_ce",
            "device_to_device_latency_tma",
            "device_to_device_memcpy_read_ce",
            "device_to_device_memcpy_read_sm",
            "device_to_device_memcpy_read_tma",
            "host_device_latency_sm",
            "host_to_device_memcpy_ce",
            "one_to_all_read_ce",
        ]
    );
    let host = &tests["host_to_device_memcpy_ce"];
    assert_eq!(host.description, "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)");
    assert_eq!(host.rows, [[Some(50.0), Some(51.0), Some(52.0)]]);
    assert!((host.sum - 153.0).abs() < 0.01);
    let peers = &tests["device_to_device_memcpy_read_ce"];
    assert_eq!(peers.rows[2], [Some(320.0), Some(321.0), None]);
    assert_eq!(tests["host_device_latency_sm"].rows, [[Some(700.0); 3]]);
    assert!(text.contains("Driver Version: 580.95.05\n") && text.contains("Device 2: NVIDIA H200"));
    // What is not known is absent.
    assert!(!text.contains("CUDA Runtime") && !text.contains("CUDA Driver"));

    // One GPU by itself: the others' cells were not measured.
    let alone = nvbandwidth::text(&report::nvbandwidth(&[&records[1]]));
    let alone = alone.replace("Device 1: ", "Device 0: ");
    let tests = read_text(&alone).expect("a text");
    assert_eq!(tests["host_to_device_memcpy_ce"].rows, [[None, Some(51.0)]]);
    assert_eq!(tests["device_to_device_memcpy_read_ce"].rows[0], [None; 3]);

    for (find, replace) in [
        ("     50.00", "    50.00"),
        ("     50.00", "    50.000"),
        ("     50.00", "     fifty"),
        ("\nSUM ", "\nsum "),
        (" 0     50.00", " 1     50.00"),
        ("Running ", "running "),
        ("           0         1", "           1         0"),
    ] {
        let spoilt = text.replacen(find, replace, 1);
        assert_ne!(spoilt, text, "{find:?}");
        assert!(read_text(&spoilt).is_err(), "{find:?} to {replace:?} was read");
    }
}

/// Reads the JSON by the keys of its `json_output.cpp`, and no others.
fn read_json(text: &str) -> Result<BTreeMap<String, Read>, String> {
    let known = |object: &Value, keys: &[&str]| {
        let fields = object.as_object().ok_or("no object")?;
        let other = fields.keys().find(|key| !keys.contains(&key.as_str()));
        other.map_or(Ok(()), |key| Err(format!("{key:?} is no key of it")))
    };
    let root: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    known(&root, &["nvbandwidth"])?;
    let root = &root["nvbandwidth"];
    let keys = ["Driver Version", "GPU Device list", "git_version", "testcases", "version"];
    known(root, &keys)?;
    for (at, device) in root["GPU Device list"].as_array().ok_or("devices")?.iter().enumerate() {
        let text = device.as_str().ok_or("a device is a text")?;
        text.strip_prefix(&format!("{at}: ")).ok_or(format!("{text:?}"))?;
    }
    let mut tests = BTreeMap::new();
    for test in root["testcases"].as_array().ok_or("tests")? {
        let keys = [
            "average",
            "bandwidth_description",
            "bandwidth_matrix",
            "error",
            "max",
            "min",
            "name",
            "status",
            "sum",
        ];
        known(test, &keys)?;
        let name = test["name"].as_str().ok_or("a name")?;
        if test["status"] != "Passed" {
            let is_known = ["Error", "Waived"].iter().any(|status| test["status"] == *status);
            let is_bare = test["sum"].is_null() && test["bandwidth_matrix"].is_null();
            match is_known && is_bare {
                true => continue,
                false => return Err(format!("{test}")),
            }
        }
        let cell = |cell: &Value| match cell.as_str().ok_or("a cell is a text")? {
            "N/A" => Ok(None),
            text => text.parse::<f64>().map(Some).map_err(|_| format!("{text:?}")),
        };
        let mut rows = Vec::new();
        for row in test["bandwidth_matrix"].as_array().ok_or("a matrix")? {
            let row: Result<Vec<_>, String> =
                row.as_array().ok_or("a row")?.iter().map(cell).collect();
            rows.push(row?);
        }
        let values: Vec<f64> = rows.iter().flatten().flatten().copied().collect();
        let of = |key: &str| test[key].as_f64().ok_or(format!("{name}: {key} is no number"));
        let (sum, count) = (values.iter().sum::<f64>(), values.len() as f64);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        for (key, wanted) in [("sum", sum), ("average", sum / count), ("min", least), ("max", most)]
        {
            // Cells have six digits.
            if (of(key)? / wanted - 1.0).abs() > 1e-5 {
                return Err(format!("{name}: {key} is {} and not {wanted}", test[key]));
            }
        }
        let description = test["bandwidth_description"].as_str().ok_or("a description")?.to_owned();
        tests.insert(name.to_owned(), Read { description, rows, sum: of("sum")? });
    }
    Ok(tests)
}

#[test]
fn nvbandwidths_json_is_read_back_and_says_what_the_text_does() {
    let mut records = three();
    // A test of which one GPU failed has no numbers.
    let broken = records[2].outcomes[0].case().clone();
    records[2].outcomes[0] = Outcome::Failed {
        case: broken,
        failure: Failure::Other,
        error: "it \"hangs\"".into(),
        integrity: None,
    };
    let skipped = records[0].outcomes[2].case().clone();
    for record in &mut records {
        record.outcomes[2] = Outcome::Skipped { case: skipped.clone(), reason: "no memory".into() };
    }
    let of: Vec<&Record> = records.iter().collect();
    let of = report::nvbandwidth(&of);
    let (json, text) = (nvbandwidth::json(&of), nvbandwidth::text(&of));
    let tests = read_json(&json).unwrap_or_else(|why| panic!("{why}\n{json}"));
    let same = read_text(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    assert_eq!(tests.keys().collect::<Vec<_>>(), same.keys().collect::<Vec<_>>());
    for (name, test) in &tests {
        assert_eq!(test.description, same[name].description);
        let near = |(one, other): (&Option<f64>, &Option<f64>)| match (one, other) {
            (Some(one), Some(other)) => (one - other).abs() <= 0.0051,
            (one, other) => one == other,
        };
        let all = |of: &Read| of.rows.iter().flatten().copied().collect::<Vec<_>>();
        assert!(all(test).iter().zip(&all(&same[name])).all(near), "{name}");
    }
    assert!(!tests.contains_key("host_to_device_memcpy_ce"), "one of its cells failed");
    assert!(text.contains("Error: transfer/host_to_device_memcpy/256MiB/pinned/ce: it"), "{text}");
    assert!(text.contains("Waived: device_local_copy: no memory"), "{text}");
    for (find, replace) in [
        ("\"sum\"", "\"total\""),
        ("\"N/A\"", "null"),
        ("\"0: NVIDIA", "\"1: NVIDIA"),
        ("\"testcases\"", "\"tests\""),
        ("\"Passed\"", "\"passed\""),
    ] {
        let spoilt = json.replacen(find, replace, 1);
        assert_ne!(spoilt, json, "{find}");
        assert!(read_json(&spoilt).is_err(), "{find} to {replace} was read");
    }
}

/// Reads a line as SuperBench's `data-diagnosis.md` and `file_handler.py` have it: a node, and
/// numbers under `benchmark[:annotation]/metric:rank`, each benchmark with its return code.
fn read_line(line: &str) -> Result<BTreeMap<String, f64>, String> {
    let object: BTreeMap<String, Value> =
        serde_json::from_str(line).map_err(|error| error.to_string())?;
    object.get("node").and_then(Value::as_str).ok_or("no node")?;
    let (mut metrics, mut benchmarks) = (BTreeMap::new(), BTreeSet::new());
    for (key, value) in object.iter().filter(|(key, _)| *key != "node") {
        let (benchmark, rest) = key.split_once('/').ok_or(format!("{key:?} has no benchmark"))?;
        let (metric, rank) = rest.rsplit_once(':').ok_or(format!("{key:?} has no rank"))?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.x".contains(c);
        rank.parse::<u32>().map_err(|_| format!("{key:?}: its rank"))?;
        if metric.is_empty() || !metric.chars().all(is_word) {
            return Err(format!("{key:?}: its metric"));
        }
        if !benchmark.split(':').next().unwrap_or_default().chars().all(is_word) {
            return Err(format!("{key:?}: its benchmark"));
        }
        let value = value.as_f64().ok_or(format!("{key:?} is no number"))?;
        benchmarks.insert(benchmark.to_owned());
        metrics.insert(key.clone(), value);
    }
    let code = |benchmark: &String| {
        let start = format!("{benchmark}/return_code:");
        let mut codes = metrics.iter().filter(|(key, _)| key.starts_with(&start));
        codes.any(|(_, code)| code.fract() == 0.0)
    };
    match benchmarks.iter().find(|benchmark| !code(benchmark)) {
        Some(benchmark) => Err(format!("{benchmark} has no return code")),
        None => Ok(metrics),
    }
}

#[test]
fn superbenchs_lines_are_read_back() {
    let records = three();
    let of: Vec<&Record> = records.iter().collect();
    let line = superbench::line(&report::superbench(&of).expect("records"));
    let metrics = read_line(&line).unwrap_or_else(|why| panic!("{why}\n{line}"));
    assert_eq!(line.lines().count(), 1);
    assert_eq!(metrics["nvbandwidth/host_to_device_memcpy_ce_cpu0_gpu2_bw:0"].round(), 52.0);
    assert_eq!(
        metrics["nvbandwidth/device_to_device_memcpy_read_ce_gpu2_gpu1_bw:0"].round(),
        321.0
    );
    assert_eq!(metrics["nvbandwidth/host_device_latency_sm_sum_lat:0"].round(), 2100.0);
    assert_eq!(metrics["fizeau-transfer/device_local_copy_gpu1_bw:0"].round(), 1900.0);
    assert_eq!(metrics["nvbandwidth/return_code:0"], 0.0);
    assert!(!metrics.contains_key("nvbandwidth/device_to_device_memcpy_read_ce_gpu1_gpu1_bw:0"));

    // The host's operations, one of which failed and one of which is invalid.
    let host = synthetic::record();
    let line = superbench::line(&report::superbench(&[&host]).expect("a record"));
    let metrics = read_line(&line).unwrap_or_else(|why| panic!("{why}\n{line}"));
    assert!(line.starts_with("{\"") && line.contains("\"node\":\"node-17\""), "{line}");
    assert_eq!(metrics["fizeau-stream/return_code:0"], 0.0);
    assert_eq!(metrics["fizeau-gemm/return_code:0"], 32.0);
    assert!(!metrics.keys().any(|key| key.contains("impossible") || key.contains("onednn")));
    // Collectives among threads are not NCCL's.
    assert!(metrics.keys().any(|key| key.starts_with("fizeau-collective/all_reduce")));
    assert!(!metrics.keys().any(|key| key.starts_with("nccl-bw")));
    for (find, replace) in [
        ("\"node\"", "\"host\""),
        ("/return_code:0", "/code:0"),
        (":0\":", "\":"),
        ("fizeau-stream/", "fizeau-stream "),
    ] {
        let spoilt = line.replace(find, replace);
        assert_ne!(spoilt, line, "{find}");
        assert!(read_line(&spoilt).is_err(), "{find} to {replace} was read");
    }
}

#[test]
fn superbench_has_its_own_names_for_nccl_alone() {
    let mut record = synthetic::record();
    for outcome in &mut record.outcomes {
        if let Outcome::Measured(one) = outcome
            && matches!(one.case.point, Point::Collective(_))
        {
            one.case.kernel = KernelName("nccl".into());
        }
    }
    let line = superbench::line(&report::superbench(&[&record]).expect("a record"));
    let metrics = read_line(&line).unwrap_or_else(|why| panic!("{why}\n{line}"));
    let of = |what: &str| metrics[&format!("nccl-bw/allreduce_268435456_{what}:0")];
    // On two ranks an all_reduce's bus bandwidth is its algorithm's.
    assert_eq!(of("busbw"), of("algbw"));
    let rate = 268_435_456.0 / (of("time") * 1e-6) / 1e9;
    assert!((rate / of("algbw") - 1.0).abs() < 1e-9, "{rate}");
    assert_eq!(metrics["nccl-bw/return_code:0"], 0.0);
}

/// A verdict with all that formats have to escape.
pub fn verdict() -> Report {
    let one = |device: &str, verdict, words: &str| {
        Judged::of_state("memory \"<&>'", device, verdict, words.into())
    };
    let failed = one("cuda:0", Verdict::Fail, "slow\u{1b}[1m \\ \"x\" <y> & 'z'\nnext");
    let failed = Judged { above_floor: Some(-0.02), point: Some("stream/read".into()), ..failed };
    Report {
        format: FORMAT,
        fizeau: "0".into(),
        node: Some("n<1>\\\"".into()),
        started: "2026-01-01T00:00:00Z".into(),
        ended: Some("2026-01-01T00:01:00Z".into()),
        level: Level::Quick,
        profile: "own \"\\".into(),
        profile_kind: Kind::Learnt,
        stub: false,
        verdict: Verdict::Inconclusive,
        action: None,
        complete: true,
        machine: vec!["2 x GPU <1>, driver 1".into()],
        boards: BTreeMap::new(),
        checks: vec![
            one("host", Verdict::Pass, "fine"),
            failed.because(Cause::MemoryStack),
            Judged { stub: true, ..one("cuda:1", Verdict::Inconclusive, "no") },
        ],
        unread: Vec::new(),
        notes: Vec::new(),
    }
    .concluded()
}

type Names = &'static [&'static str];

/// An element of JUnit's XML: its name, the attributes that it must have, those that it may have,
/// what may be in it. As in the schema that Jenkins publishes (junit-10.xsd).
const JUNIT: [(&str, Names, Names, Names); 5] = [
    (
        "testsuites",
        &[],
        &["name", "tests", "failures", "errors", "disabled", "time"],
        &["testsuite"],
    ),
    (
        "testsuite",
        &["name", "tests"],
        &["failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"],
        &["testcase", "properties", "system-out", "system-err"],
    ),
    (
        "testcase",
        &["name", "classname"],
        &["time", "assertions", "status", "file", "line"],
        &["failure", "error", "skipped", "system-out", "system-err"],
    ),
    ("failure", &[], &["message", "type"], &[]),
    ("error", &[], &["message", "type"], &[]),
];

fn read_junit(text: &str) -> Result<Vec<(String, Option<String>)>, String> {
    let document = roxmltree::Document::parse(text).map_err(|error| error.to_string())?;
    let root = document.root_element();
    if root.tag_name().name() != "testsuites" {
        return Err("the root is no testsuites".into());
    }
    let elements = |node: roxmltree::Node<'_, '_>, name: &str| {
        node.descendants().filter(|one| one.tag_name().name() == name).count().to_string()
    };
    for node in root.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        let rule = JUNIT.iter().find(|rule| rule.0 == name).ok_or(format!("<{name}>"))?;
        let (_, needed, allowed, children) = rule;
        let lacks = needed.iter().find(|attribute| node.attribute(**attribute).is_none());
        let odd = node
            .attributes()
            .find(|one| !needed.contains(&one.name()) && !allowed.contains(&one.name()));
        let child = node
            .children()
            .filter(roxmltree::Node::is_element)
            .find(|child| !children.contains(&child.tag_name().name()));
        if let Some(lacks) = lacks {
            return Err(format!("<{name}> has no {lacks}"));
        }
        if odd.is_some() || child.is_some() {
            return Err(format!("<{name}> has what it may not have: {odd:?} {child:?}"));
        }
        let counts = [("tests", "testcase"), ("failures", "failure"), ("errors", "error")];
        for (attribute, of) in counts {
            let is = node.attribute(attribute);
            if is.is_some_and(|count| count != elements(node, of)) {
                return Err(format!("<{name}> says {attribute} {is:?}"));
            }
        }
        let is_date = |text: &str| {
            let shape: String =
                text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
            shape == "0000-00-00T00:00:00"
        };
        if node.attribute("timestamp").is_some_and(|time| !is_date(time)) {
            return Err(format!("{:?} is no time", node.attribute("timestamp")));
        }
    }
    let cases = root.descendants().filter(|node| node.tag_name().name() == "testcase");
    let read = |node: roxmltree::Node<'_, '_>| {
        let end = node.first_element_child();
        let message = end.and_then(|end| end.attribute("message"));
        (node.attribute("name").unwrap_or_default().into(), message.map(str::to_owned))
    };
    Ok(cases.map(read).collect())
}

#[test]
fn junits_xml_is_read_by_its_schema() {
    let text = acceptance::junit(&verdict());
    let cases = read_junit(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    assert_eq!(cases[0], ("memory \"<&>'".into(), None));
    let message = cases[1].1.as_deref().expect("a failure");
    assert_eq!(message, "slow\u{fffd}[1m \\ \"x\" <y> & 'z' next");
    for (find, replace) in [
        ("&lt;", "<"),
        ("</testsuite>", ""),
        ("classname=", "class="),
        ("failures=\"1\"", "failures=\"2\""),
        ("<error", "<mistake"),
        ("T00:00:00\"", " 00:00\""),
    ] {
        let spoilt = text.replacen(find, replace, 1);
        assert_ne!(spoilt, text, "{find}");
        assert!(read_junit(&spoilt).is_err(), "{find} to {replace} was read");
    }
}

/// Reads Prometheus's text format as its documentation has it (exposition formats, version 0.0.4):
/// samples in groups behind their HELP and TYPE, each series once.
fn read_prometheus(text: &str) -> Result<BTreeMap<String, f64>, String> {
    let is_name = |name: &str| {
        let start = |c: char| c.is_ascii_alphabetic() || c == '_';
        name.starts_with(start) && name.chars().all(|c| start(c) || c.is_ascii_digit())
    };
    let (mut series, mut told, mut family) = (BTreeMap::new(), BTreeSet::new(), String::new());
    let body = text.strip_suffix('\n').ok_or("the last line has no end")?;
    for line in body.split('\n') {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap_or_default().to_owned();
            if !told.insert(family.clone()) {
                return Err(format!("{family} is told of twice"));
            }
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            match rest == format!("{family} gauge") {
                true => continue,
                false => return Err(format!("{line:?} is out of place")),
            }
        }
        let (name, rest) = line.split_once('{').ok_or(format!("{line:?} has no labels"))?;
        if name != family || !is_name(name) {
            return Err(format!("{line:?} is not of {family}"));
        }
        let (labels, value) = labels(rest, is_name).ok_or(format!("{line:?}: its labels"))?;
        let value: f64 = value.parse().map_err(|_| format!("{line:?}: its value"))?;
        if series.insert(format!("{name}{labels:?}"), value).is_some() {
            return Err(format!("{line:?} is there twice"));
        }
    }
    Ok(series)
}

/// The labels of a series, and the value behind them.
fn labels(text: &str, is_name: impl Fn(&str) -> bool) -> Option<(BTreeMap<String, String>, &str)> {
    let (mut all, mut rest) = (BTreeMap::new(), text);
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    _ => return None,
                }),
                (_, c) => value.push(c),
            }
        };
        if !is_name(name) || all.insert(name.to_owned(), value).is_some() {
            return None;
        }
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some((all, rest.strip_prefix("} ")?)),
        }
    }
}

#[test]
fn prometheus_text_is_read_by_its_grammar() {
    let text = acceptance::prometheus(&verdict());
    let series = read_prometheus(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    assert_eq!(series.len(), 6, "{series:?}");
    let check = series.iter().find(|(name, _)| name.contains("\"device\": \"cuda:0\""));
    assert_eq!(check.map(|(_, value)| *value), Some(-0.02), "{series:?}");
    assert!(series.keys().any(|name| name.contains(r#""check": "memory \"<&>'""#)), "{series:?}");
    for (find, replace) in [
        ("\\\"", "\""),
        ("# TYPE", "# TIP"),
        ("# HELP", "# HALP"),
        ("} 1\n", "} one\n"),
        ("device=", "de vice="),
        (",check=", ",,check="),
        ("\nfizeau_accept_check{", "\nfizeau_accept_verdict{"),
    ] {
        let spoilt = text.replacen(find, replace, 1);
        assert_ne!(spoilt, text, "{find}");
        assert!(read_prometheus(&spoilt).is_err(), "{find} to {replace} was read");
    }
    let twice = text.clone() + text.lines().last().expect("a line") + "\n";
    assert!(read_prometheus(&twice).is_err());
}
