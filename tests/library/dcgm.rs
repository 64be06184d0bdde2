//! Diagnostics of DCGM as its versions 3.1, 3.3, 4.0 and 4.2 write them, each with the verdict that
//! it must get. The verdicts were written down before the reader was tried.

use fizeau_domain::verdict::Verdict;
use fizeau_judge::accept::{
    Action,
    dcgm::{self, Told},
};
use serde_json::{Value, json};

/// A file as DCGM 3 writes it.
fn three(version: &str, ids: Value, tests: Value) -> String {
    json!({ "DCGM GPU Diagnostic": {
        "Driver Version Detected": "535.104.05",
        "GPU Device IDs": ids,
        "GPU Device Serials": { "0": "1654922003536", "1": "1654922003537" },
        "test_categories": [
            { "category": "Deployment", "tests": [
                { "name": "Denylist", "results": [{ "status": "Pass" }] },
                { "name": "NVML Library", "results": [{ "status": "Pass" }] },
                { "name": "CUDA Main Library", "results": [{ "status": "Pass" }] }
            ]},
            { "category": "Hardware", "tests": tests }
        ],
        "version": version
    }})
    .to_string()
}

/// A file as DCGM 4 writes it.
fn four(version: &str, entities: Value, tests: Value) -> String {
    json!({
        "DCGM Diagnostic": { "test_categories": [
            { "category": "Deployment", "tests": [{
                "name": "software",
                "results": [{ "entity_group": "GPU", "entity_group_id": 1, "entity_id": 0,
                              "status": "Pass" }],
                "test_summary": { "status": "Pass" }
            }]},
            { "category": "Hardware", "tests": tests }
        ]},
        "entity_groups": [
            { "entity_group": "GPU", "entity_group_id": 1, "entities": entities },
            { "entity_group": "CPU", "entity_group_id": 7, "entities": [{ "entity_id": 0 }] }
        ],
        "metadata": { "version": version, "Driver Version Detected": "570.86.15" }
    })
    .to_string()
}

fn h100() -> Value {
    json!([{ "entity_id": 0, "device_id": "2330", "serial_num": "1" },
           { "entity_id": 1, "device_id": "2330", "serial_num": "2" }])
}

/// One test with its results; of DCGM 4 the summary too.
fn test(name: &str, results: Value, summary: Option<Value>) -> Value {
    let mut test = json!({ "name": name, "results": results });
    if let Some(summary) = summary {
        test["test_summary"] = summary;
    }
    test
}

fn gpu(entity: Value, status: &str) -> Value {
    json!({ "entity_group": "GPU", "entity_group_id": 1, "entity_id": entity, "status": status })
}

/// The verdict of the whole.
fn verdict(told: &Told) -> Verdict {
    let all: Vec<Verdict> = told.judged().into_iter().map(|one| one.verdict).collect();
    let any = |verdict| all.contains(&verdict);
    match (any(Verdict::Fail), any(Verdict::Inconclusive)) {
        (true, _) => Verdict::Fail,
        (_, true) => Verdict::Inconclusive,
        _ => Verdict::Pass,
    }
}

/// Those that are read: a name, the file, the verdict, and words of a check or a note.
fn cases() -> Vec<(&'static str, String, Verdict, &'static str)> {
    let ids = || json!(["2330", "2330"]);
    let warning = |text: &str, severity: Value| {
        let (category, id) = (7, 40);
        json!([{ "error_category": category, "error_id": id, "error_severity": severity,
                 "warning": text }])
    };
    let with = |mut of: Value, key: &str, value: Value| {
        of[key] = value;
        of
    };
    let status = |status: &str| json!({ "status": status });
    let of_three = |gpus: &str, status: &str| json!({ "gpu_ids": gpus, "status": status });
    vec![
        (
            "3.1: all pass, and the EUD is skipped",
            three(
                "3.1.8",
                ids(),
                json!([
                    test("GPU Memory", json!([of_three("0", "Pass"), of_three("1", "Pass")]), None),
                    test(
                        "PCIe",
                        json!([with(
                            of_three("0", "Pass"),
                            "info",
                            json!("GPU to Host bandwidth:\t\t14.26 GB/s")
                        )]),
                        None
                    ),
                    test("EUD Test", json!([status("Skip")]), None),
                ]),
            ),
            Verdict::Pass,
            "skipped, and says nothing of: EUD Test",
        ),
        (
            "3.3: persistence mode is off, of no GPU",
            three(
                "3.3.5",
                ids(),
                json!([test(
                    "Persistence Mode",
                    json!([with(
                        status("Fail"),
                        "warnings",
                        warning("Persistence mode for GPU 0 is disabled", json!(5))
                    )]),
                    None
                )]),
            ),
            Verdict::Fail,
            "Persistence mode for GPU 0 is disabled",
        ),
        (
            "3.1: warnings are one text",
            three(
                "3.1.3",
                ids(),
                json!([test(
                    "PCIe",
                    json!([with(
                        of_three("1", "Fail"),
                        "warnings",
                        json!("PCIe replays exceed 80 per minute")
                    )]),
                    None
                )]),
            ),
            Verdict::Fail,
            "PCIe replays exceed 80 per minute",
        ),
        (
            "3.3: a severity that asks for a reset",
            three(
                "3.3.0",
                ids(),
                json!([test(
                    "GPU Memory",
                    json!([with(
                        of_three("0", "Fail"),
                        "warnings",
                        warning("a DBE was found", json!(6))
                    )]),
                    None
                )]),
            ),
            Verdict::Fail,
            "a DBE was found",
        ),
        (
            "4.0: a summary repeats the failure",
            four(
                "4.0.0",
                h100(),
                json!([test(
                    "memory",
                    json!([
                        gpu(json!(0), "Pass"),
                        with(
                            gpu(json!(1), "Fail"),
                            "warnings",
                            warning("row remap failed", json!(2))
                        )
                    ]),
                    Some(json!({ "status": "Fail" }))
                )]),
            ),
            Verdict::Fail,
            "row remap failed",
        ),
        (
            "4.2: CPUs beside GPUs",
            four(
                "4.2.3",
                h100(),
                json!([test(
                    "cpu_eud",
                    json!([{ "entity_group": "CPU", "entity_group_id": 7, "entity_id": 0,
                         "status": "Pass" }]),
                    Some(json!({ "status": "Pass" }))
                )]),
            ),
            Verdict::Pass,
            "DCGM 4.2.3: pass",
        ),
        (
            "4.0: the summary warns, and no GPU does",
            four(
                "4.0.0",
                h100(),
                json!([test(
                    "pcie",
                    json!([gpu(json!(0), "Pass")]),
                    Some(json!({ "status": "Warn", "warnings": warning("replays", json!(1)) }))
                )]),
            ),
            Verdict::Inconclusive,
            "warn: replays",
        ),
        (
            "4.2: categories of other names",
            json!({ "metadata": { "version": "4.2.3" }, "DCGM Diagnostic": { "test_categories": [
                { "category": "Hardware Tests", "tests": [test("memory",
                    json!([gpu(json!(0), "Pass")]), Some(json!({ "status": "Pass" })))] },
                { "tests": [test("pulse_test", json!([gpu(json!(0), "Fail")]), None)] },
            ]}})
            .to_string(),
            Verdict::Fail,
            "DCGM 4.2.3: fail",
        ),
        (
            "a failure in another spelling",
            three(
                "3.3.5",
                ids(),
                json!([test("SM Stress", json!([of_three("0", "FAILED")]), None)]),
            ),
            Verdict::Fail,
            "fail",
        ),
        (
            "an error beside a pass",
            four(
                "4.2.3",
                h100(),
                json!([test(
                    "nvbandwidth",
                    json!([with(
                        gpu(json!(0), "Pass"),
                        "warnings",
                        warning("NVLink errors were counted", json!(2))
                    )]),
                    None
                )]),
            ),
            Verdict::Inconclusive,
            "NVLink errors were counted",
        ),
        (
            "a severity as text",
            four(
                "4.0.0",
                h100(),
                json!([test(
                    "memtest",
                    json!([with(
                        gpu(json!(1), "Fail"),
                        "warnings",
                        warning("memtest failed", json!("6"))
                    )]),
                    None
                )]),
            ),
            Verdict::Fail,
            "memtest failed",
        ),
        (
            "numbers of GPUs as text, with a limit that nothing fails",
            four(
                "4.2.3",
                json!([{ "entity_id": "0", "device_id": "2335" }]),
                json!([test("memory_bandwidth", json!([gpu(json!("0"), "Pass")]), None)]),
            ),
            Verdict::Pass,
            "memory_bandwidth of 1 GPU is not counted",
        ),
        (
            "identities of GPUs by their numbers, with a limit that nothing fails",
            three(
                "3.3.5",
                json!({ "0": "2335", "1": "2335" }),
                json!([test("Memory Bandwidth", json!([of_three("1", "Pass")]), None)]),
            ),
            Verdict::Pass,
            "Memory Bandwidth of 1 GPU is not counted",
        ),
        (
            "the test of memory bandwidth by a longer name",
            three(
                "3.1.8",
                json!(["2335", "2335"]),
                json!([test("Memory Bandwidth Test", json!([of_three("0", "Pass")]), None)]),
            ),
            Verdict::Pass,
            "Memory Bandwidth Test of 1 GPU is not counted",
        ),
    ]
}

#[test]
fn diagnostics_of_all_versions_get_their_verdicts() {
    let mut wrong = Vec::new();
    for (name, text, expected, words) in cases() {
        let told = dcgm::read(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        let found = verdict(&told);
        let judged = told.judged().into_iter().map(|one| one.words);
        let said: Vec<String> = judged.chain(told.notes()).collect();
        if found != expected || !said.iter().any(|one| one.contains(words)) {
            wrong.push(format!("{name}: {found:?}, not {expected:?}: {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_failure_asks_for_goes_by_its_severity() {
    for (name, text, ..) in cases() {
        let expected = match name {
            "3.3: a severity that asks for a reset" | "a severity as text" => Action::ResetGpu,
            "3.3: persistence mode is off, of no GPU" => Action::ContactSupport,
            _ => continue,
        };
        let all = dcgm::read(&text).expect(name).judged();
        let failed = all.iter().find(|one| one.verdict == Verdict::Fail).expect(name);
        assert_eq!(failed.action, Some(expected), "{name}");
    }
}

/// A verdict is of one node: files of several are refused with what to do, and so is a torn one.
#[test]
fn torn_files_and_those_of_several_nodes_are_refused() {
    let one = four("4.2.3", h100(), json!([]));
    let value: Value = serde_json::from_str(&one).expect("JSON");
    for (name, text, words) in [
        ("torn", one[..one.len() / 2].to_owned(), "it ends too early"),
        ("an array of nodes", json!([value, value]).to_string(), "one node"),
        ("one after the other", format!("{one}\n{one}"), "one node"),
        ("by their names", json!({ "n1": value, "n2": value }).to_string(), "one node"),
    ] {
        let why = dcgm::read(&text).err().unwrap_or_else(|| panic!("{name} is read"));
        assert!(why.contains(words), "{name}: {why}");
    }
}
