//! What NVIDIA's DCGM says of a node: the JSON of its diagnostic (`dcgmi diag -r 3 -j`) as checks,
//! so that an operator has one verdict. Forms as of DCGM 3 (`DCGM GPU Diagnostic`) and of DCGM 4
//! (`DCGM Diagnostic`, testing/python3/dcgm_diag_schema.json); severities as of
//! `dcgmErrorSeverity_t` (dcgmlib/dcgm_errors.h).

use super::{Action, Judged};
use fizeau_domain::{
    text::{counted, shorten},
    verdict::Verdict,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The check of the diagnostic as a whole.
pub const CHECK: &str = "DCGM diagnostic";

/// Most results of a file, and most characters that are kept of one's words.
const RESULTS_MAX: usize = 100_000;
const WORDS_MAX: usize = 500;

/// Characters of what is a name or a word: a version, a status.
const NAME_MAX: usize = 60;

/// What the diagnostic told: [`Told::judged`] decides the same from it. Serial numbers, which the
/// file has too, are not kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// DCGM's version, as it states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why the diagnostic did not run, as it states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_error: Option<String>,
    /// Its results, in their order.
    pub results: Vec<Outcome>,
    /// What of the file is of another form than this program reads: it may have said anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// What became of one test on one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The test's name, as DCGM has it.
    pub test: String,
    /// The device by DCGM's own number, which need not be that of CUDA; `node` where none is named.
    pub device: String,
    /// Its status, in lower case.
    pub status: String,
    /// DCGM's warnings and remarks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// The severity of its worst error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<u64>,
    /// The identity of the device's kind on the PCI bus, as `2335`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
}

/// Limits of DCGM's test of memory bandwidth that nothing that works at all fails, by the PCI
/// identity of the GPU, in MB/s, with what is wrong (nvvs/diag-skus.yaml.in of DCGM).
const HOLLOW: [(&str, u32, &str); 3] = [
    ("2335", 2_333, "a limit in GB/s stands in a field of MB/s: its sibling has 2,212,500"),
    ("20b0", 137_500, "a digit is missing: its own comment computes 1,372,500"),
    ("26b5", 49_050, "it is a tenth of what another entry of this GPU has: 551,800"),
];

/// Under what the diagnostic stands: in DCGM 4, in DCGM 3.
const TOPS: [&str; 2] = ["DCGM Diagnostic", "DCGM GPU Diagnostic"];

const OF_SEVERAL: &str = "it has the diagnostics of several nodes, or several of one: a verdict is \
    of one node, so give one diagnostic of one node";

/// The JSON of one diagnostic.
fn of_one_node(text: &str) -> Result<Value, String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) if error.is_eof() => {
            return Err(format!("it is no JSON to its end, where it ends too early: {error}"));
        }
        Some(Err(error)) => {
            return Err(format!("it is no JSON, which `dcgmi diag -r 3 -j` writes: {error}"));
        }
        None => return Err("it is no JSON, but empty; `dcgmi diag -r 3 -j` writes some".into()),
    };
    match values.next() {
        Some(Ok(_)) => return Err(OF_SEVERAL.into()),
        Some(Err(error)) => return Err(format!("it is no JSON to its end: {error}")),
        None => {}
    }
    let is_one = |inner: &Value| TOPS.iter().any(|key| inner.get(key).is_some());
    let inner = || match &value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    if !is_one(&value) && inner().into_iter().any(is_one) {
        return Err(OF_SEVERAL.into());
    }
    Ok(value)
}

/// Reads the JSON of a diagnostic.
///
/// # Errors
/// In words: where it is none.
pub fn read(text: &str) -> Result<Told, String> {
    let value = of_one_node(text)?;
    let tops = TOPS.map(|key| value.get(key));
    let top = tops[0].or(tops[1]);
    let top = top.ok_or("it is no diagnostic of DCGM: `dcgmi diag -r 3 -j` writes one")?;
    let words = |value: &Value| value.as_str().map(|text| shorten(text, WORDS_MAX));
    let version = [&value["metadata"]["version"], &top["version"]].into_iter().find_map(words);
    let version = version.map(|version| shorten(&version, NAME_MAX));
    let mut unread = Unread::default();
    if tops.iter().all(Option::is_some) {
        unread.note("there are two diagnostics in it");
    }
    for of in [&value, top] {
        for key in ["status", "error", "errors"].iter().filter(|key| !of[**key].is_null()) {
            unread.note(&format!("{key} of the whole: {}", of[*key]));
        }
    }
    let mut tests = Vec::new();
    for category in unread.list(top, "test_categories") {
        tests.extend(unread.list(category, "tests"));
    }
    let mut results = Vec::new();
    for test in tests {
        let name = words(&test["name"]).unwrap_or_else(|| "without a name".into());
        let of_test = unread.list(test, "results");
        let outcomes = of_test.iter().map(|one| outcome(&name, one, &value, top));
        let known = results.len();
        results.extend(outcomes);
        // DCGM 4 sums a test up: what no device says stands for the node.
        let summary = &test["test_summary"];
        let is_said = |status: &str| results[known..].iter().any(|one| one.status == status);
        let status = status(summary);
        // What passes or was skipped adds nothing to what devices say.
        let adds = !["pass", "skip"].contains(&status.as_str()) && !is_said(&status);
        if summary.is_object() && (of_test.is_empty() || adds) {
            results.push(outcome(&name, summary, &value, top));
        } else if !summary.is_object() && !summary.is_null() {
            unread.note(&format!("test_summary of {name}: {summary}"));
        }
        if results.len() > RESULTS_MAX {
            return Err(format!("it has more than {RESULTS_MAX} results"));
        }
    }
    let errors = [&top["runtime_error"], &value["runtime_error"]].into_iter();
    let mut errors = errors.filter(|error| !error.is_null());
    let runtime_error = errors.next().map(|error| match error.as_str() {
        Some(text) => shorten(text, WORDS_MAX),
        None => shorten(&error.to_string(), WORDS_MAX),
    });
    Ok(Told { version, runtime_error, results, unread: unread.0 })
}

/// What of a file is of another form than it should be.
#[derive(Default)]
struct Unread(Vec<String>);

impl Unread {
    /// Kept of a file.
    const MOST: usize = 8;

    fn note(&mut self, what: &str) {
        if self.0.len() < Self::MOST {
            self.0.push(shorten(what, WORDS_MAX));
        }
    }

    /// The list that a value has by a name: none where it has none, and noted where it is no list.
    fn list<'v>(&mut self, of: &'v Value, key: &str) -> &'v [Value] {
        match of.get(key) {
            Some(Value::Array(list)) => list,
            Some(Value::Null) => &[],
            None if of.is_object() => &[],
            _ => {
                self.note(&format!("{key} is no list"));
                &[]
            }
        }
    }
}

fn status(of: &Value) -> String {
    let status = of["status"].as_str().unwrap_or("not stated").to_lowercase();
    match status.as_str() {
        "skipped" => "skip".into(),
        "failed" | "failure" => "fail".into(),
        _ => shorten(&status, NAME_MAX),
    }
}

/// A whole number, which some versions write as text.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn outcome(test: &str, of: &Value, file: &Value, top: &Value) -> Outcome {
    let group = of["entity_group"].as_str().unwrap_or("GPU");
    // Version 3 has the GPU's number as text, some of its forms several.
    let place = ["entity_id", "gpu_ids", "gpu_id"].iter().find_map(|key| match &of[*key] {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.trim().to_owned()),
        _ => None,
    });
    let device = match &place {
        Some(place) => shorten(&format!("DCGM {group} {place}"), 60),
        None => "node".into(),
    };
    let warnings = of["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let severity = warnings.iter().filter_map(|one| whole(&one["error_severity"]));
    let lists = [&of["warnings"], &of["info"]].map(|list| match list {
        Value::Array(items) => items.iter().collect(),
        Value::Null => Vec::new(),
        one => vec![one],
    });
    let said = lists.iter().flatten().filter_map(|one| one.as_str().or(one["warning"].as_str()));
    let said: Vec<&str> = said.map(str::trim).filter(|text| !text.is_empty()).collect();
    Outcome {
        test: test.to_owned(),
        device,
        status: status(of),
        words: shorten(&said.join("; "), WORDS_MAX),
        severity: severity.max_by_key(|severity| rank(*severity)),
        device_id: device_id(file, top, group, place.as_deref()),
    }
}

/// The PCI identity of a device's kind; of several devices, or of a test's summary, one whose limit
/// nothing fails, if any of them has it.
fn device_id(file: &Value, top: &Value, group: &str, place: Option<&str>) -> Option<String> {
    let groups = file["entity_groups"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_group = groups.iter().filter(|one| one["entity_group"].as_str() == Some(group));
    let entities = of_group.filter_map(|one| one["entities"].as_array()).flatten();
    let newer = entities.filter_map(|one| Some((whole(&one["entity_id"])?, &one["device_id"])));
    let older: Vec<(u64, &Value)> = match &top["GPU Device IDs"] {
        Value::Array(ids) => (0..).zip(ids).collect(),
        Value::Object(ids) => {
            ids.iter().filter_map(|(at, id)| Some((at.trim().parse().ok()?, id))).collect()
        }
        _ => Vec::new(),
    };
    let places: Option<Vec<u64>> = place
        .map(|place| place.split(',').filter_map(|number| number.trim().parse().ok()).collect());
    let is_its = |at: u64| places.as_ref().is_none_or(|places| places.contains(&at));
    let all = newer.chain(older).filter(|(at, _)| is_its(*at));
    // The device is four digits; its vendor, 10de, may follow.
    let ids = all.filter_map(|(_, id)| {
        let id = id.as_str()?.trim().trim_start_matches("0x").to_lowercase();
        let id = id.get(..4)?.to_owned();
        id.bytes().all(|one| one.is_ascii_hexdigit()).then_some(id)
    });
    let ids: Vec<String> = ids.collect();
    let is_hollow = |id: &&String| HOLLOW.iter().any(|(of, ..)| of == id);
    ids.iter().find(is_hollow).or(ids.first()).cloned()
}

/// How bad a severity is: to be reset, isolated, looked at, set up otherwise, watched.
fn rank(severity: u64) -> u32 {
    match severity {
        2 => 5,
        6 => 4,
        4 => 3,
        5 => 2,
        1 => 1,
        _ => 0,
    }
}

/// What DCGM's severity asks for: isolate, triage and settings need a person.
fn action(severity: Option<u64>) -> Action {
    match severity {
        Some(6) => Action::ResetGpu,
        Some(1) => Action::RestartApp,
        _ => Action::ContactSupport,
    }
}

impl Outcome {
    /// The limit that it was judged by, and what is wrong with it, where it fails nobody.
    fn hollow(&self) -> Option<(u32, &'static str)> {
        let name = self.test.to_lowercase().replace([' ', '_'], "");
        let id = self.device_id.as_deref().filter(|_| name.starts_with("memorybandwidth"))?;
        let found = HOLLOW.iter().find(|(of, ..)| *of == id);
        found.map(|(_, limit, why)| (*limit, *why))
    }

    fn judged(&self, source: &str) -> Option<Judged> {
        let check = format!("DCGM {}", self.test);
        let of = |verdict, status: &str| {
            let rest =
                if self.words.is_empty() { String::new() } else { format!(": {}", self.words) };
            Judged::of_state(&check, &self.device, verdict, format!("{source}: {status}{rest}"))
        };
        match self.status.as_str() {
            "skip" => None,
            "pass" if self.hollow().is_some() => None,
            // 0 is no error.
            "pass" if self.severity.is_some_and(|severity| severity > 0) => {
                Some(of(Verdict::Inconclusive, "pass, with an error beside it"))
            }
            "pass" => Some(of(Verdict::Pass, "pass")),
            "fail" => {
                let judged = of(Verdict::Fail, "fail");
                Some(Judged { action: Some(action(self.severity)), ..judged })
            }
            other => Some(of(Verdict::Inconclusive, other)),
        }
    }
}

impl Told {
    /// Where it comes from, in words.
    fn source(&self) -> String {
        match &self.version {
            Some(version) => format!("DCGM {version}"),
            None => "DCGM of a version that is not stated".into(),
        }
    }

    /// Each result as a check. A test that was skipped is none; where none ran, that is one.
    pub fn judged(&self) -> Vec<Judged> {
        let source = self.source();
        let mut all: Vec<Judged> =
            self.results.iter().filter_map(|one| one.judged(&source)).collect();
        let whole = |words: String| {
            Judged::of_state(CHECK, "node", Verdict::Inconclusive, format!("{source}: {words}"))
        };
        if !self.unread.is_empty() {
            let unread = self.unread.join("; ");
            let unread = shorten(&unread, 2 * WORDS_MAX);
            all.push(whole(format!("not all of it could be read: {unread}")));
        }
        if let Some(why) = &self.runtime_error {
            all.push(whole(format!("it could not run: {why}")));
        } else if all.is_empty() {
            let skipped = counted(self.results.len(), "result");
            all.push(whole(format!("it tells nothing of this node: {skipped}, none that counts")));
        }
        all
    }

    /// What a reader has to know: what was skipped, and passes that are not counted.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut skipped: Vec<&str> = self
            .results
            .iter()
            .filter(|one| one.status == "skip")
            .map(|one| one.test.as_str())
            .collect();
        skipped.sort_unstable();
        skipped.dedup();
        if !skipped.is_empty() {
            notes.push(format!("DCGM skipped, and says nothing of: {}", skipped.join(", ")));
        }
        for (id, ..) in HOLLOW {
            let is = |one: &&Outcome| one.device_id.as_deref() == Some(id) && one.status == "pass";
            let passed: Vec<&Outcome> =
                self.results.iter().filter(is).filter(|one| one.hollow().is_some()).collect();
            if let Some((limit, why)) = passed.first().and_then(|one| one.hollow()) {
                notes.push(format!(
                    "DCGM {} of {} is not counted: its limit for this GPU ({id}) is {limit} MB/s, \
                     which nothing fails ({why})",
                    passed[0].test,
                    counted(passed.len(), "GPU")
                ));
            }
        }
        if self.version.as_ref().is_none_or(|version| !version.starts_with(['3', '4'])) {
            notes.push(format!("{}: it is read as versions 3 and 4 are", self.source()));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(gpu: u64, status: &str) -> Value {
        json!({ "entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": status })
    }

    fn four(tests: Value, device_id: &str) -> String {
        let entities: Vec<Value> = (0..2)
            .map(|gpu| json!({ "entity_id": gpu, "device_id": device_id, "serial_num": "S1" }))
            .collect();
        json!({
            "metadata": { "version": "4.2.3", "Driver Version Detected": "570.00" },
            "entity_groups": [
                { "entity_group": "GPU", "entity_group_id": 1, "entities": entities }
            ],
            "DCGM Diagnostic": { "test_categories": [{ "category": "Hardware", "tests": tests }] }
        })
        .to_string()
    }

    fn test(name: &str, results: Value, summary: &str) -> Value {
        json!({ "name": name, "results": results, "test_summary": { "status": summary } })
    }

    fn verdicts(told: &Told) -> Vec<(String, String, Verdict)> {
        let all = told.judged().into_iter();
        all.map(|one| (one.check, one.device, one.verdict)).collect()
    }

    #[test]
    fn version_4_is_taken_in_with_its_source() {
        let mut failed = result(1, "Fail");
        failed["warnings"] = json!([
            { "warning": "DBE detected", "error_id": 5, "error_category": 7, "error_severity": 6 },
            { "warning": "watch it", "error_id": 6, "error_category": 7, "error_severity": 1 }
        ]);
        let tests = json!([
            test("memory", json!([result(0, "Pass"), failed]), "Fail"),
            test("pcie", json!([result(0, "Warn"), result(1, "Not Run")]), "Warn"),
            test("eud", json!([]), "Skip"),
            test("nvbandwidth", json!([result(0, "Skip"), result(1, "Skip")]), "Skip"),
            test("sm_stress", json!([result(0, "Pass")]), "Fail"),
        ]);
        let told = read(&four(tests, "2330")).expect("a diagnostic");
        let of =
            |check: &str, device: &str, verdict| (check.to_owned(), device.to_owned(), verdict);
        assert_eq!(
            verdicts(&told),
            [
                of("DCGM memory", "DCGM GPU 0", Verdict::Pass),
                of("DCGM memory", "DCGM GPU 1", Verdict::Fail),
                of("DCGM pcie", "DCGM GPU 0", Verdict::Inconclusive),
                of("DCGM pcie", "DCGM GPU 1", Verdict::Inconclusive),
                of("DCGM sm_stress", "DCGM GPU 0", Verdict::Pass),
                // The summary fails what no GPU is said to have failed.
                of("DCGM sm_stress", "node", Verdict::Fail),
            ]
        );
        let failed = &told.judged()[1];
        assert_eq!(failed.action, Some(Action::ResetGpu));
        assert_eq!(failed.words, "DCGM 4.2.3: fail: DBE detected; watch it");
        assert_eq!(told.notes(), ["DCGM skipped, and says nothing of: eud, nvbandwidth"]);
        // What a bundle keeps decides the same again, and has no serial number.
        let kept = serde_json::to_string(&told).expect("JSON");
        assert_eq!(serde_json::from_str::<Told>(&kept).expect("the same"), told);
        assert!(!kept.contains("S1"), "{kept}");
    }

    #[test]
    fn version_3_is_taken_in() {
        let text = json!({ "DCGM GPU Diagnostic": {
            "version": "3.3.1", "Driver Version Detected": "545.23.08",
            "GPU Device IDs": ["2335", "2335"],
            "test_categories": [
                { "category": "Deployment", "tests": [
                    { "name": "Denylist", "results": [{ "gpu_ids": "0,1", "status": "PASS" }] }
                ]},
                { "category": "Hardware", "tests": [
                    { "name": "GPU Memory", "results": [
                        { "gpu_id": "0", "status": "Pass", "info": "all 79 GB tested" },
                        { "gpu_id": "1", "status": "FAIL", "warnings": ["a page is broken"] }
                    ]},
                    { "name": "Memory Bandwidth",
                      "results": [{ "gpu_id": "0", "status": "Pass" }] },
                    { "name": "EUD Test", "results": [{ "gpu_id": "0", "status": "SKIPPED" }] }
                ]}
            ]
        }});
        let told = read(&text.to_string()).expect("a diagnostic");
        let words: Vec<String> = told.judged().into_iter().map(|one| one.words).collect();
        assert_eq!(
            words,
            [
                "DCGM 3.3.1: pass",
                "DCGM 3.3.1: pass: all 79 GB tested",
                "DCGM 3.3.1: fail: a page is broken"
            ]
        );
        assert_eq!(told.judged()[2].action, Some(Action::ContactSupport));
        // An H200's limit of 2,333 MB/s is a thousandth of what was meant.
        let notes = told.notes().join("\n");
        assert!(notes.contains("Memory Bandwidth of 1 GPU is not counted"), "{notes}");
        assert!(notes.contains("2333 MB/s"), "{notes}");
    }

    #[test]
    fn a_hollow_limit_passes_nobody_and_still_fails() {
        let bandwidth = |status| {
            let tests = json!([test("memory_bandwidth", json!([result(0, status)]), status)]);
            verdicts(&read(&four(tests, "0x2335")).expect("a diagnostic"))
        };
        assert_eq!(bandwidth("Fail")[0].2, Verdict::Fail);
        assert_eq!(bandwidth("Pass")[0], (CHECK.into(), "node".into(), Verdict::Inconclusive));
    }

    /// A file of another form may say anything: it passes nothing.
    #[test]
    fn what_is_of_another_form_is_inconclusive_beside_what_passes() {
        let passes = || test("memory", json!([result(0, "Pass")]), "Pass");
        let file = |tests: Value| json!({ "test_categories": [{ "tests": tests }] });
        let whole = |top: Value| json!({ "DCGM Diagnostic": top });
        let with = |more: Value| whole(file(json!([passes(), more])));
        let fail = json!({ "status": "Fail" });
        let mut failed = whole(file(json!([passes()])));
        failed["DCGM Diagnostic"]["status"] = "Fail".into();
        let mut stopped = whole(file(json!([passes()])));
        stopped["DCGM Diagnostic"]["runtime_error"] = json!({ "code": 7 });
        let mut both = whole(file(json!([passes()])));
        both["DCGM GPU Diagnostic"] = file(json!([test("pcie", json!([result(0, "Fail")]), "")]));
        for one in [
            with(json!({ "name": "pcie", "results": fail })),
            with(json!({ "name": "pcie", "test_summary": "Fail" })),
            with(test("pcie", json!([result(0, "Pass")]), "Warn")),
            with(test("pcie", json!([result(0, "Skip")]), "Not Run")),
            whole(json!({ "test_categories": [{ "tests": [passes()] }, { "tests": fail }] })),
            failed,
            stopped,
            both,
        ] {
            let all = read(&one.to_string()).expect("a diagnostic").judged();
            assert!(all.iter().any(|one| one.verdict != Verdict::Pass), "{one}");
        }
    }

    #[test]
    fn a_hollow_limit_is_known_however_its_gpu_is_named() {
        for (result, ids) in [
            (json!({ "gpu_ids": "0,1", "status": "Pass" }), ["2330", "2335"]),
            (json!({ "gpu_id": 0, "status": "Pass" }), ["2335", "2330"]),
            (json!({ "gpu_id": " 0", "status": "Pass" }), ["0x2335", "2330"]),
            (json!({ "gpu_id": "0", "status": "Pass" }), ["233510DE", "2330"]),
        ] {
            let text = json!({ "DCGM GPU Diagnostic": {
                "version": "3.3.1", "GPU Device IDs": ids, "test_categories": [
                    { "tests": [{ "name": "Memory Bandwidth", "results": [result] }] }
                ]
            }});
            let all = verdicts(&read(&text.to_string()).expect("a diagnostic"));
            assert_eq!(all, [(CHECK.into(), "node".into(), Verdict::Inconclusive)], "{text}");
        }
        let summed = json!([{ "name": "memory_bandwidth", "test_summary": { "status": "Pass" } }]);
        let all = verdicts(&read(&four(summed, "2335")).expect("a diagnostic"));
        assert_eq!(all, [(CHECK.into(), "node".into(), Verdict::Inconclusive)]);
    }

    #[test]
    fn what_did_not_run_passes_nothing() {
        let skipped = json!([test("memory", json!([result(0, "Skip")]), "Skip")]);
        for text in [
            four(json!([]), "2330"),
            four(skipped, "2330"),
            r#"{"DCGM GPU Diagnostic": {"version": "4.2.3"}}"#.to_owned(),
            r#"{"DCGM Diagnostic": {"runtime_error": "no GPU", "test_categories": []}}"#.to_owned(),
        ] {
            let told = read(&text).expect("a diagnostic");
            let all = verdicts(&told);
            assert_eq!(all, [(CHECK.into(), "node".into(), Verdict::Inconclusive)], "{text}");
        }
        for (none, words) in [
            ("", "no JSON"),
            ("Error: unable to connect\n{}", "no JSON"),
            ("{}", "no diagnostic of DCGM"),
            ("[1]", "no diagnostic of DCGM"),
        ] {
            assert!(read(none).expect_err(none).contains(words), "{none}");
        }
        // Fields of other kinds than they should be are no crash.
        let strange = json!({ "DCGM Diagnostic": { "test_categories": [
            { "tests": [
                { "name": 3, "results": [7, null, { "status": 1, "warnings": 3, "gpu_ids": [] }] }
            ]},
            { "tests": 5 }, 6
        ]}});
        let told = read(&strange.to_string()).expect("read");
        assert_eq!(told.results.len(), 3);
        assert!(told.judged().iter().all(|one| one.verdict == Verdict::Inconclusive));
    }
}
