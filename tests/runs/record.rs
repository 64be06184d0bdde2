//! The record: its schema, its golden file, and what readers and writers do with records that are
//! cut short, of another version, or spoilt.

use crate::program::{self, Place, SMALL, say};
use fizeau::{
    dtype::Dtype,
    record::{
        CURRENT, Header, Line, Record,
        store::{self, RecordError, Writer},
        v1,
    },
};
use proptest::{collection, option, prelude::*, sample, strategy::Union};
use serde_json::{Map, Value, json};
use std::{fs, path::Path, sync::LazyLock};

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
    assert_eq!(record.notes, ["it was resumed at 2026-03-01T12:05:00Z"]);
}

#[test]
fn records_are_valid_by_the_schema_and_spoilt_ones_are_not() {
    let schema = serde_json::from_str(SCHEMA).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let valid = |text: &str| validator.is_valid(&serde_json::from_str(text).expect("JSON"));
    let place = Place::new();
    let said = say(&mut place.run("", FEW, "out"));
    assert_eq!(said.code, Some(0), "{}", said.err);
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
    match (name.as_str().expect("a type's name"), schema["format"].as_str()) {
        ("null", _) => Just(Value::Null).boxed(),
        ("boolean", _) => any::<bool>().prop_map(Value::from).boxed(),
        ("string", _) => any::<String>().prop_map(Value::from).boxed(),
        ("integer", Some("uint32")) => any::<u32>().prop_map(Value::from).boxed(),
        ("integer", Some("uint64")) => any::<u64>().prop_map(Value::from).boxed(),
        ("number", Some("double")) => {
            (NEGATIVE | POSITIVE | NORMAL | SUBNORMAL | ZERO).prop_map(Value::from).boxed()
        }
        ("array", _) => {
            let lengths = length("minItems", 0)..=length("maxItems", 3);
            collection::vec(any_of(&schema["items"]), lengths).prop_map(Value::from).boxed()
        }
        // By element type.
        ("object", _) if schema.get("additionalProperties").is_some() => {
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

proptest! {
    /// From the wire to the domain, to the wire, and once more: nothing is lost on the way.
    #[test]
    fn any_line_is_read_and_written_the_same(mut value in any_of(&WHOLE_SCHEMA)) {
        if value["line"] == "header" {
            value["version"] = json!(CURRENT.number());
        }
        let line = CURRENT.read(value.clone()).expect("a line of the schema");
        let text = CURRENT.write(&line).expect("JSON");
        let wire = |value| serde_json::from_value::<v1::Line>(value).expect("a line");
        prop_assert_eq!(wire(serde_json::from_str(&text).expect("JSON")), wire(value));
        prop_assert_eq!(line_of(&text), line);
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
        (GOLDEN.replace("\"ranks\":2", "\"ranks\":0"), ":1: not a record of fizeau: 0 ranks"),
        (with_median("0.0"), "no case is measured in that time"),
        (with_median("-1.0"), "no case is measured in that time"),
        (with_median("1e308"), "no case is measured in that time"),
        (String::new(), "it has no header"),
        ("PNG".into(), "it has no header"),
    ] {
        let error = refusal(text);
        assert!(error.contains(words), "{error} lacks {words}");
    }
    let twice: String =
        GOLDEN.lines().take(2).chain(GOLDEN.lines().skip(1)).collect::<Vec<_>>().join("\n") + "\n";
    assert!(refusal(twice).contains(":3: not a record of fizeau: its case has an outcome already"));
    assert!(refusal(b"\xff\xfe\n").contains(":1: "), "not UTF-8");
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
