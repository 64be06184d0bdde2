//! The record: its schema, its golden file, and what readers and writers do with records that are
//! cut short, of another version, or spoilt.

use crate::program::{self, Place, SMALL, say};
use fizeau_domain::dtype::Dtype;
use fizeau_record::{
    CURRENT, Header, Line, Record,
    store::{self, RecordError, Writer},
    v1,
};
use proptest::{
    collection, option,
    prelude::*,
    sample,
    strategy::{Union, ValueTree as _},
    test_runner::TestRunner,
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, fs, path::Path, sync::LazyLock};

/// A few cases.
const FEW: &str = "stream/read/{?,??}KiB/*";

const GOLDEN: &str = include_str!("../golden/v1.jsonl");
const SCHEMA: &str = include_str!("../../docs/record-v1.schema.json");

fn line_of(text: &str) -> Line {
    CURRENT.read(serde_json::from_str(text).expect("JSON")).expect("a line of the record")
}

fn lines() -> Vec<Line> {
    GOLDEN.lines().map(line_of).collect()
}

/// Reads a text as a record.
fn read(text: impl AsRef<[u8]>) -> Result<Record, RecordError> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join(store::FILE), text).expect("written");
    store::read(directory.path())
}

#[track_caller]
fn refusal(text: impl AsRef<[u8]>) -> String {
    read(text).expect_err("refused").to_string()
}

/// The golden text with something changed in one line, counted from one.
#[track_caller]
fn spoilt(line: usize, old: &str, new: &str) -> String {
    let change = |(index, text): (usize, &str)| {
        if index + 1 != line {
            return format!("{text}\n");
        }
        assert!(text.contains(old), "line {line} has no {old}");
        format!("{}\n", text.replacen(old, new, 1))
    };
    GOLDEN.lines().enumerate().map(change).collect()
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let remedy = "cargo run -- schema >docs/record-v1.schema.json";
    let said = say(&mut Place::new().fizeau(["schema"]));
    assert!(said.out == SCHEMA, "the schema changed: run `{remedy}`");
}

#[test]
fn the_golden_file_reads_and_writes_the_same() {
    for (text, line) in GOLDEN.lines().zip(lines()) {
        assert_eq!(CURRENT.write(&line).expect("JSON"), text);
    }
    let record = read(GOLDEN).expect("the golden record");
    assert_eq!(record.header.label.as_deref(), Some("golden"));
    let ended: Vec<_> = record.outcomes.iter().map(|outcome| outcome.case().clone()).collect();
    assert_eq!(ended, record.header.plan);
    assert!(record.footer.is_some_and(|footer| !footer.interrupted));
    let thinned = "6 cases keep fewer samples than the summary counts, which cannot be checked";
    assert_eq!(record.notes, ["it was resumed at 2026-03-01T12:05:00Z", thinned]);
}

#[test]
fn records_are_valid_by_the_schema_and_spoilt_ones_are_not() {
    let schema = serde_json::from_str(SCHEMA).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let valid = |text: &str| validator.is_valid(&serde_json::from_str(text).expect("JSON"));
    let place = Place::new();
    say(&mut place.run("", FEW, "out")).ended(0);
    for line in GOLDEN.lines().chain(place.text("out").lines()) {
        assert!(valid(line), "{line}");
    }
    assert!(!valid(r#"{"line":"footer","ended":"x","elapsed":"long","interrupted":false}"#));
    assert!(!valid(r#"{"line":"outcome","outcome":"maybe"}"#));
}

static WHOLE_SCHEMA: LazyLock<Value> = LazyLock::new(|| CURRENT.schema());

/// Any JSON that a schema allows: each of its variants, optional fields there or not. It knows the
/// words that the record's schema uses.
fn any_of(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(constant) = schema.get("const") {
        return Just(constant.clone()).boxed();
    }
    if let Some(choices) = schema.get("oneOf").or(schema.get("anyOf")) {
        return Union::new(choices.as_array().expect("a list").iter().map(any_of)).boxed();
    }
    if let Some(path) = schema.get("$ref") {
        let path = path.as_str().and_then(|path| path.strip_prefix('#')).expect("a path");
        let named = any_of(WHOLE_SCHEMA.pointer(path).expect("a definition"));
        return (named, any_fields(schema)).prop_map(|(named, own)| with(named, own)).boxed();
    }
    match &schema["type"] {
        Value::Array(types) => Union::new(types.iter().map(|name| any_typed(name, schema))).boxed(),
        name => any_typed(name, schema),
    }
}

fn any_typed(name: &Value, schema: &Value) -> BoxedStrategy<Value> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    let length = |key: &str, otherwise| schema[key].as_u64().map_or(otherwise, |n| n as usize);
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    let least = schema["minimum"].as_u64().unwrap_or(0);
    match (name.as_str().expect("a type's name"), schema["format"].as_str()) {
        ("null", _) => Just(Value::Null).boxed(),
        ("boolean", _) => any::<bool>().prop_map(Value::from).boxed(),
        ("string", Some("date-time")) => (1970..2100, 1..=12, 1..=28, 0..24, 0..60)
            .prop_map(|(year, month, day, hour, minute)| {
                json!(format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:07.25Z"))
            })
            .boxed(),
        ("string", _) => any::<String>().prop_map(Value::from).boxed(),
        ("integer", Some("uint32")) => (least as u32..=u32::MAX).prop_map(Value::from).boxed(),
        ("integer", Some("uint64")) => (least..=u64::MAX).prop_map(Value::from).boxed(),
        ("number", Some("double")) => match (limit("minimum"), limit("maximum")) {
            (Some(least), Some(most)) => (least..=most).prop_map(Value::from).boxed(),
            (Some(least), None) => {
                (POSITIVE | ZERO).prop_map(move |above| json!(above.abs() + least)).boxed()
            }
            _ => (NEGATIVE | POSITIVE | NORMAL | SUBNORMAL | ZERO).prop_map(Value::from).boxed(),
        },
        ("array", _) => {
            // Pairs have their length; of longer lists a few items show all.
            let lengths = length("minItems", 0)..=length("maxItems", 3).min(3);
            collection::vec(any_of(&schema["items"]), lengths).prop_map(Value::from).boxed()
        }
        // By element type.
        ("object", _) if schema["additionalProperties"].is_object() => {
            let names = sample::select(Dtype::ALL.map(Dtype::name).to_vec());
            let value = any_of(&schema["additionalProperties"]);
            collection::btree_map(names, value, 0..4).prop_map(|map| json!(map)).boxed()
        }
        ("object", _) => any_fields(schema).prop_map(Value::from).boxed(),
        other => panic!("the test does not know {other:?}"),
    }
}

/// The fields that a schema lists by itself.
fn any_fields(schema: &Value) -> BoxedStrategy<Map<String, Value>> {
    let listed = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let required = |name: &String| {
        schema["required"].as_array().is_some_and(|list| list.contains(&json!(name)))
    };
    let field = |(name, schema): (&String, &Value)| {
        let value = any_of(schema);
        let value =
            if required(name) { value.prop_map(Some).boxed() } else { option::of(value).boxed() };
        let name = name.clone();
        value.prop_map(move |value| value.map(|value| (name.clone(), value)))
    };
    let fields: Vec<_> = listed.iter().map(field).collect();
    fields.prop_map(|fields| fields.into_iter().flatten().collect()).boxed()
}

fn with(value: Value, fields: Map<String, Value>) -> Value {
    match value {
        Value::Object(mut object) => {
            object.extend(fields);
            Value::Object(object)
        }
        other => other,
    }
}

/// Whether a line says the same after it was written from what was read: nothing is lost between
/// the wire and the domain.
fn is_kept(value: &Value, written: &Value) -> bool {
    let wire = |value: &Value| serde_json::from_value::<v1::Line>(value.clone()).ok();
    wire(value).is_some() && wire(written) == wire(value)
}

/// From the wire to the domain and back.
fn written(value: &Value) -> Value {
    let line = CURRENT.read(value.clone()).expect("a line of the schema");
    let text = CURRENT.write(&line).expect("JSON");
    assert_eq!(line_of(&text), line);
    serde_json::from_str(&text).expect("JSON")
}

proptest! {
    #[test]
    fn any_line_is_read_and_written_the_same(value in any_of(&WHOLE_SCHEMA)) {
        prop_assert!(is_kept(&value, &written(&value)), "{value}");
    }
}

/// Everything below a value that has fields, itself included.
fn objects(value: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            visit(fields);
            fields.values_mut().for_each(|value| objects(value, visit));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| objects(value, visit)),
        _ => {}
    }
}

/// A conversion that leaves a field out is planted for each field of the schema in turn: lines as
/// the property above draws them must show it.
#[test]
fn a_field_that_a_conversion_leaves_out_is_found() {
    let mut left: BTreeSet<String> = BTreeSet::new();
    objects(&mut WHOLE_SCHEMA.clone(), &mut |schema| {
        let fields = schema.get("properties").and_then(Value::as_object);
        let fields = fields.into_iter().flatten().filter(|(_, of)| of.get("const").is_none());
        left.extend(fields.map(|(name, _)| name.clone()));
    });
    let all = left.len();
    assert!(all > 100, "{left:?}");
    let (mut runner, lines) = (TestRunner::deterministic(), any_of(&WHOLE_SCHEMA));
    for _ in 0..4_000 {
        let value = lines.new_tree(&mut runner).expect("a line").current();
        let right = written(&value);
        left.retain(|name| {
            let mut without = right.clone();
            let mut found = false;
            objects(&mut without, &mut |fields| found |= fields.remove(name).is_some());
            !found || is_kept(&value, &without)
        });
        if left.is_empty() {
            return;
        }
    }
    panic!("of {all} fields, nobody would miss {left:?}");
}

/// Lines with one thing in them that cannot be: by the schema, and by the reader with the place.
#[test]
fn what_cannot_be_is_refused_by_the_schema_and_by_the_reader() {
    let schema = serde_json::from_str(SCHEMA).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for (line, place, value, words) in [
        (1, "/version", json!(2), "version 2"),
        (1, "/version", json!(-1), "version: -1 is not 1"),
        (1, "/started", json!("yesterday"), "started: \"yesterday\" is no date with a time"),
        (1, "/started", json!("2026-13-01T12:00:00Z"), "is no date with a time"),
        (1, "/timer/resolution", json!(-1e-9), "timer.resolution: -1e-9 is less than 0"),
        (1, "/environment/load", json!(-0.5), "environment.load: -0.5 is less than 0"),
        (2, "/summary/min", json!(-1.0), "summary.min: -1.0 is less than 0"),
        (2, "/samples/times/3", json!(-1e-6), "samples.times[3]: -1e-6 is less than 0"),
        (2, "/samples/batch", json!(0), "samples.batch: 0 is less than 1"),
        (2, "/available", json!(7), "available: 7 is more than 1"),
        (2, "/available", json!("all"), "invalid type"),
        (2, "/started", json!("12:00"), "started: \"12:00\" is no date with a time"),
        (2, "/clock", json!(-1500), "clock: -1500 is less than 0"),
        (2, "/summary/interval/confidence", json!(95), "confidence: 95 is more than 1"),
        (2, "/check/tolerance", json!(-1), "check.tolerance: -1 is less than 0"),
        (6, "/elapsed", json!(-3), "elapsed: -3 is less than 0"),
        (6, "/ended", json!(""), "ended: \"\" is no date with a time"),
        (12, "/measurement/summary/median", json!(-1), "measurement.summary.median: -1 is less"),
    ] {
        let lines: Vec<&str> = GOLDEN.lines().collect();
        let mut spoilt: Value = serde_json::from_str(lines[line - 1]).expect("JSON");
        assert!(validator.is_valid(&spoilt), "line {line} as it is");
        let (parent, name) = place.rsplit_once('/').expect("a place");
        match spoilt.pointer_mut(parent).expect("a parent") {
            Value::Array(items) => items[name.parse::<usize>().expect("a number")] = value.clone(),
            parent => parent[name] = value.clone(),
        }
        assert!(!validator.is_valid(&spoilt), "{place} = {value} is valid by the schema");
        let text: String = lines
            .iter()
            .enumerate()
            .map(
                |(at, old)| {
                    if at + 1 == line { format!("{spoilt}\n") } else { format!("{old}\n") }
                },
            )
            .collect();
        let error = refusal(text);
        assert!(error.contains(words), "{place} = {value}: {error} lacks {words}");
        let at = format!(":{line}: not a record of fizeau");
        assert!(error.contains(&at) || words == "version 2", "{error}");
    }
}

#[test]
fn a_record_cut_anywhere_keeps_every_whole_line() {
    let ends: Vec<usize> = GOLDEN.match_indices('\n').map(|(at, _)| at + 1).collect();
    let near = ends.iter().flat_map(|&end| [end.saturating_sub(1), end, end + 1]);
    for cut in near.chain((0..GOLDEN.len()).step_by(211)).filter(|&cut| cut <= GOLDEN.len()) {
        let whole = ends.iter().filter(|&&end| end <= cut).count();
        let read = read(&GOLDEN[..cut]);
        if whole == 0 {
            assert!(read.is_err(), "cut at {cut}");
            continue;
        }
        let record = read.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let outcomes = |line: &Line| matches!(line, Line::Outcome(_));
        let kept = lines()[..whole].iter().filter(|line| outcomes(line)).count();
        assert_eq!(record.outcomes.len(), kept, "cut at {cut}");
        let told = record.notes.iter().any(|note| note.contains("cut short"));
        assert_eq!(told, !ends.contains(&cut), "cut at {cut}: {:?}", record.notes);
        // Over by the footer of the part that was written last, not by one before.
        let last = matches!(lines()[whole - 1], Line::Footer(_));
        assert_eq!(record.footer.is_some(), last, "cut at {cut}");
    }
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let error = refusal(spoilt(1, r#""version":1"#, r#""version":2"#));
    for word in ["version 2", "version 1", "update fizeau"] {
        assert!(error.contains(word), "{error}");
    }
    // Whatever else a later version changes.
    let error = refusal("{\"line\":\"preface\",\"version\":7}\n");
    assert!(error.contains("version 7"), "{error}");
}

/// The golden record with another median in its second line.
fn with_median(median: &str) -> String {
    let line = GOLDEN.lines().nth(1).expect("an outcome");
    let mut value: serde_json::Value = serde_json::from_str(line).expect("JSON");
    value["summary"]["median"] = median.parse::<f64>().expect("a number").into();
    GOLDEN.replace(line, &value.to_string())
}

/// The same of the times in the other state of the caches, in its fifth line.
fn with_contrast(median: &str) -> String {
    let line = GOLDEN.lines().nth(4).expect("an outcome");
    let mut value: serde_json::Value = serde_json::from_str(line).expect("JSON");
    value["contrast"]["summary"]["median"] = median.parse::<f64>().expect("a number").into();
    GOLDEN.replace(line, &value.to_string())
}

#[test]
fn what_is_no_record_is_refused_with_its_line() {
    let lines = GOLDEN.lines().count();
    for (text, words) in [
        (spoilt(3, "{", "garbage {"), ":3: not a record"),
        (spoilt(4, "\"outcome\":\"measured\"", "\"outcome\":\"guessed\""), ":4: "),
        (
            spoilt(3, "\"kernel\":\"avx512\"", "\"kernel\":\"sse\""),
            ":3: not a record of fizeau: its case was not planned",
        ),
        (
            spoilt(7, "\"kernel\":\"chase\"", "\"kernel\":\"hop\""),
            ":7: not a record of fizeau: it was resumed with another plan",
        ),
        (GOLDEN.lines().skip(1).map(|line| format!("{line}\n")).collect(), ":1: not a record"),
        (format!("{GOLDEN}\n"), &*format!(":{}: ", lines + 1)),
        (GOLDEN.replace("\"ranks\":2", "\"ranks\":0"), "plan[5].point.ranks: 0 is less than 1"),
        (with_median("0.0"), "no case is measured in that time"),
        (with_median("-1.0"), "summary.median: -1.0 is less than 0"),
        (with_median("1e308"), "1e308 s for "),
        (with_median("5e-324"), "no case is measured in that time"),
        (with_contrast("5e-324"), "no case is measured in that time"),
        (String::new(), "it is empty"),
        ("PNG".into(), "it does not begin with the header"),
    ] {
        let error = refusal(text);
        assert!(error.contains(words), "{error} lacks {words}");
    }
    let twice: String =
        GOLDEN.lines().take(2).chain(GOLDEN.lines().skip(1)).collect::<Vec<_>>().join("\n") + "\n";
    assert!(refusal(twice).contains(":3: not a record of fizeau: its case has an outcome already"));
    assert!(refusal(b"\xff\xfe\n").contains(":1: "), "not UTF-8");
}

/// The golden record's second case with another point, in the plan and in its outcome.
fn with_point(point: Value) -> String {
    let mut lines: Vec<Value> =
        GOLDEN.lines().take(2).map(|line| serde_json::from_str(line).expect("JSON")).collect();
    lines[1]["case"]["point"] = point;
    lines[0]["plan"] = json!([lines[1]["case"]]);
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Each of these took gigabytes, panicked, or was measured as nothing before it was refused.
#[test]
fn points_that_no_run_has_are_refused_by_the_schema_and_by_the_reader() {
    let schema = serde_json::from_str(SCHEMA).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let attention = |batch: u64, kv_heads: u32| {
        json!({
            "operation": "attention", "attention": "prefill", "dtype": "bf16", "batch": batch,
            "heads": 16, "kv_heads": kv_heads, "queries": 1, "keys": 1, "dim_qk": 128,
            "dim_v": 128, "mask": "causal"
        })
    };
    let ranks = |ranks: u32| {
        json!({
            "operation": "collective", "collective": "all_reduce", "dtype": "f32",
            "message": 4096, "ranks": ranks, "place": "out_of_place"
        })
    };
    let stream = |units: u32, size: u64| {
        json!({
            "operation": "stream", "stream": "read", "working_set": size, "units": units
        })
    };
    assert!(read(with_point(attention(64, 16))).is_ok() && read(with_point(ranks(8))).is_ok());
    let gemm = json!({ "operation": "gemm", "dtype": "f32", "m": 0, "n": 1, "k": 1 });
    for (point, words) in [
        (attention(4_294_967_295, 16), "point.batch: 4294967295 is more than 4096"),
        (attention(1, 0), "point.kv_heads: 0 is less than 1"),
        (ranks(1 << 20), "point.ranks: 1048576 is more than 65536"),
        (gemm, "point.m: 0 is less than 1"),
        (stream(0, 4096), "point.units: 0 is less than 1"),
        (stream(1, 1 << 51), "point.working_set: 2251799813685248 is more than"),
    ] {
        let text = with_point(point);
        let header = serde_json::from_str(text.lines().next().expect("a header")).expect("JSON");
        assert!(!validator.is_valid(&header), "{words}");
        assert!(refusal(text).contains(words), "{words}");
    }
    // What a schema cannot state.
    let latency = json!({ "operation": "latency", "working_set": 0 });
    assert!(refusal(with_point(latency)).contains("latency: working_set = 0: it is from 256"));
    let words = "attention: heads = 16: it is a multiple of kv_heads = 3";
    assert!(refusal(with_point(attention(1, 3))).contains(words));
}

/// Every whole number of a point has a most: a new one that has none may be an allocation.
#[test]
fn every_number_of_a_point_has_limits() {
    let mut without = Vec::new();
    for (name, definition) in WHOLE_SCHEMA["$defs"].as_object().expect("definitions") {
        let fields = definition["properties"].as_object().into_iter().flatten();
        for (field, schema) in fields.filter(|_| name.ends_with("Point")) {
            let is_number = schema["type"] == "integer" || schema["type"][0] == "integer";
            // They say which device or how long a page is; nothing is counted up to them.
            let is_harmless = ["device", "peer", "page"].contains(&field.as_str());
            if is_number && !is_harmless && schema.get("maximum").is_none() {
                without.push(format!("{name}.{field}"));
            }
        }
    }
    assert!(without.is_empty(), "no maximum: {without:?}");
    assert!(WHOLE_SCHEMA["$defs"]["Bytes"].get("maximum").is_some());
}

#[test]
fn a_case_that_is_planned_twice_is_refused() {
    let line = GOLDEN.lines().nth(1).expect("an outcome");
    let case = serde_json::from_str::<Value>(line).expect("JSON")["case"].clone();
    let mut header: Value =
        serde_json::from_str(GOLDEN.lines().next().expect("a header")).expect("JSON");
    header["plan"] = json!([case, case]);
    assert!(refusal(format!("{header}\n{line}\n")).contains("is planned twice"));
}

#[test]
fn an_old_reader_passes_over_new_fields() {
    let newer = spoilt(1, "\"version\":1", "\"version\":1,\"colour\":\"red\"");
    assert_eq!(read(newer).expect("reads"), read(GOLDEN).expect("reads"));
}

fn golden_header() -> Header {
    read(GOLDEN).expect("the golden record").header
}

#[test]
fn two_runs_never_write_one_record() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let header = golden_header();
    let writer = Writer::create(directory.path(), &header).expect("created");
    assert!(matches!(Writer::create(directory.path(), &header), Err(RecordError::Exists(_))));
    assert!(matches!(Writer::resume(directory.path(), &header), Err(RecordError::Busy(_))));
    drop(writer);
    assert!(Writer::resume(directory.path(), &header).is_ok());
    assert_eq!(names(directory.path()), [store::FILE]);
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect()
}

#[test]
fn a_resumed_record_loses_its_cut_line_and_no_other() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join(store::FILE);
    let whole: String = GOLDEN.split_inclusive('\n').take(4).collect();
    fs::write(&path, format!("{whole}{{\"line\":\"outc")).expect("written");
    let header = golden_header();
    let (mut writer, record) = Writer::resume(directory.path(), &header).expect("resumed");
    assert_eq!(record.outcomes.len(), 3);
    let left = lines().into_iter().filter(|line| matches!(line, Line::Outcome(_))).skip(3);
    for line in left {
        writer.append(&line).expect("appended");
    }
    let text = fs::read_to_string(&path).expect("read");
    assert!(text.starts_with(&whole));
    let again = store::read(directory.path()).expect("reads");
    assert_eq!(again.outcomes, read(GOLDEN).expect("reads").outcomes);
    assert_eq!(again.footer, None, "it is not over");
}

#[test]
fn a_run_of_something_else_does_not_go_on() {
    let old = golden_header();
    let check = |change: &dyn Fn(&mut Header)| {
        let mut new = old.clone();
        change(&mut new);
        store::same_run(Path::new("r"), &old, &new).map_err(|error| error.to_string())
    };
    assert_eq!(check(&|new| new.started = "later".into()), Ok(()));
    let error = check(&|new| {
        new.device.name = "Another".into();
        new.device.units = 64;
        new.suite = "full".into();
    });
    let error = error.expect_err("refused");
    for words in
        ["its device is \"AMD EPYC 9575F\", here it is \"Another\"", "units is 2", "\"full\""]
    {
        assert!(error.contains(words), "{error}");
    }
    // Of two builds only where both are known: older records have none.
    assert_eq!(check(&|new| new.build = Some("v0.1.0".into())), Ok(()));
    let error = check(&|new| new.suite_text.push('#')).expect_err("refused");
    assert!(error.contains("another than it was"), "{error}");
}

#[test]
fn a_record_tells_nothing_about_who_ran_it_and_where() {
    let place = Place::new();
    let mut run = place.run("", FEW, "out");
    run.arg("--no-host-name").env("FIZEAU_TEST_SECRET", "hunter2");
    assert_eq!(say(&mut run).code, Some(0));
    let text = place.text("out");
    let directory = place.path("");
    let here = directory.to_str().expect("UTF-8").trim_end_matches('/');
    for secret in [here, env!("CARGO_MANIFEST_DIR"), "hunter2", "/home/", "/root"] {
        assert!(!text.contains(secret), "the record has {secret}");
    }
    assert_eq!(place.record("out").header.environment.host, None);
}

#[test]
fn a_record_says_what_ran_when_and_by_which_build() {
    let place = Place::new();
    let mut run = place.run("", FEW, "out");
    run.args(["--label", "two words", "--no-host-name"]);
    say(run.env("FIZEAU_TOKEN", "hunter2hunter2")).ended(0);
    let record = place.record("out");
    assert_eq!(record.header.build.as_deref(), Some(env!("FIZEAU_BUILD")));
    let words = record.header.command.join(" ");
    let wanted = "--suite tiny.toml --device fake: --label two words --no-host-name";
    assert_eq!(words, format!("fizeau run {FEW} {wanted}"));
    assert!(!place.text("out").contains("hunter2"));
    let started: Vec<&String> =
        record.outcomes.iter().filter_map(|outcome| outcome.measured()?.started.as_ref()).collect();
    assert_eq!(started.len(), record.outcomes.len());
    let (first, last) = (&record.header.started, &record.footer.expect("it is over").ended);
    assert!(started.is_sorted() && started.iter().all(|one| one[..19] >= first[..19]));
    assert!(started.iter().all(|one| one[..19] <= last[..19]), "{started:?} {last}");
    // A terminal cuts what is wider than its window.
    let page = fs::read_to_string(place.path("out/report.md")).expect("a report");
    for words in ["What reproduces this", "fizeau run", "'two words'"] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[test]
fn every_planned_case_is_accounted_for_once() {
    let place = Place::new();
    assert_eq!(say(&mut place.run("", SMALL, "out")).code, Some(0));
    let record = place.record("out");
    assert!(record.header.plan.len() > 50, "{}", record.header.plan.len());
    assert_eq!(program::planned(&record), program::ended(&record));
    // Going on with what is over changes nothing.
    assert_eq!(say(&mut place.resume("out")).code, Some(0));
    assert_eq!(place.record("out"), record);
}
