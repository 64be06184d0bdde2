//! What other clients measured of a server, and what others recorded of one: files that are fed to
//! `load report` and to `load --trace`.

use super::mutate::{Chance, change, change_lines};
use fizeau::{
    cmd::document::{ReportFormat, render},
    data::Catalogue,
};
use fizeau_domain::{model::Format, text::is_hidden};
use fizeau_judge::{accept::dcgm, localise::raw::Measured};
use fizeau_projection::{
    load::{
        self, Engine, Source,
        capacity::Goal,
        level::Limits,
        trace::{self, Unit},
    },
    project::Hardware,
};
use fizeau_report::{
    Block, Document, LoadJoin, LoadResults,
    format::{
        cell,
        terminal::{Colour, Terminal},
    },
};
use serde_json::{Value, json};
use std::{fs, path::Path, sync::LazyLock};

/// The most characters that a number of a cell has: digits, a sign, a point, an exponent.
pub const NUMBER_MAX: usize = 14;

/// The most characters of a message that refuses a file.
const MESSAGE_MAX: usize = 10_000;

/// The tests' files of all clients and traces, by their names.
pub static FILES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/served");
    let entries = fs::read_dir(folder).expect("the folder").flatten();
    let file = |path: std::path::PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        Some((name, fs::read_to_string(&path).ok()?))
    };
    let mut files: Vec<_> = entries.filter_map(|entry| file(entry.path())).collect();
    files.sort();
    files
});

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::load(None).expect("the data"));

fn files(of_traces: bool) -> Vec<&'static str> {
    let is = |name: &str| name.starts_with("trace") == of_traces;
    FILES.iter().filter(|(name, _)| is(name)).map(|(_, text)| text.as_str()).collect()
}

/// Results of a client with other numbers, fields and ends.
pub fn served(chance: &mut Chance) -> Vec<u8> {
    let text = *chance.pick(&files(false));
    let plain = text.replace("NaN", "null").replace("Infinity", "\"inf\"");
    let values = serde_json::Deserializer::from_str(&plain).into_iter::<Value>();
    let mut values: Vec<Value> = values.map_while(Result::ok).collect();
    for _ in 0..chance.below(5) {
        let at = chance.below(values.len());
        change(&mut values[at], chance);
    }
    let lines = values.iter().map(|value| format!("{value}\n"));
    let mut text: String = lines.collect();
    if chance.one_in(4) {
        let word = *chance.pick(&["NaN", "Infinity", "-Infinity"]);
        text = text.replacen("null", word, 1 + chance.below(3));
    }
    let mut bytes = text.into_bytes();
    if chance.one_in(8) {
        bytes.truncate(chance.below(bytes.len() + 1));
    }
    bytes
}

/// A trace with other lines and numbers.
pub fn traced(chance: &mut Chance) -> Vec<u8> {
    const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                         2023-11-16 18:17:03.5,4808,10\n2023-11-16 18:17:04.25,3180,8\n";
    const BURST: &str = "Timestamp,Model,Request tokens,Response tokens\n45.25,a,3180,8\n\
                         44.5,b,4808,10\n46,b,5,0\n";
    let texts = [files(true), vec![AZURE, BURST]].concat();
    let (text, other) = (*chance.pick(&texts), *chance.pick(&texts));
    change_lines(text, other, chance).into()
}

/// What p2pBandwidthLatencyTest and nvbandwidth print: a row and a column for each GPU.
const MATRICES: [&str; 2] = [
    "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1      2      3
     0 1520.51 372.04 391.22 391.31
     1 372.30 1524.97 391.40 391.08
     2 391.25 391.19 1526.46 372.11
     3 391.33 391.27 372.15 1523.48
P2P=Enabled Latency (P2P Writes) Matrix (us)
   GPU     0      1
     0   2.31   2.17
     1   2.20   2.34
",
    "Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1         2
 0       N/A    391.96    392.10
 1    392.03       N/A    391.88
 2    391.91    392.17       N/A

SUM device_to_device_memcpy_read_ce 2352.05
",
];

/// Rates between ranks, as another program may have measured them.
pub fn rates(chance: &mut Chance) -> Vec<u8> {
    if chance.one_in(3) {
        let (text, other) = (*chance.pick(&MATRICES), *chance.pick(&MATRICES));
        return change_lines(text, other, chance).into();
    }
    let exchange = |number: u32| {
        json!({
            "round": number / 2, "rank_a": number % 4, "rank_b": (number + 1 + number / 4) % 4,
            "bytes_per_second": 1e9 + f64::from(number)
        })
    };
    let places: Vec<Value> = (0..4)
        .map(|rank| json!({ "host": format!("n{}", rank / 2), "device": "cuda:0 (X)" }))
        .collect();
    let count = 1 + chance.below(16) as u32;
    let exchanges: Vec<Value> = (0..count).map(exchange).collect();
    let mut all = json!({ "size_bytes": 65536, "ranks": places, "exchanges": exchanges });
    let is_csv = chance.one_in(2);
    if let Some(text) = serde_json::from_value::<Measured>(all.clone()).ok().filter(|_| is_csv) {
        let text = text.to_csv().expect("CSV");
        return change_lines(&text, &text, chance).into();
    }
    for _ in 0..chance.below(5) {
        change(&mut all, chance);
    }
    all.to_string().into()
}

/// Reads rates and judges them.
pub fn read_rates(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(measured) = Measured::parse(text) else { return false };
    harmless(&measured.to_json().expect("JSON"));
    harmless(&measured.to_csv().expect("CSV"));
    let _ = measured.rounds();
    if measured.ranks.len() <= 64 {
        measured.judge();
    }
    true
}

/// A diagnostic of DCGM, of version 3 or 4, with other fields.
pub fn diagnostic(chance: &mut Chance) -> Vec<u8> {
    let status = *chance.pick(&["Pass", "Fail", "Skip", "Warn", "Not Run", "SKIPPED"]);
    let is_older = chance.one_in(2);
    let result = match is_older {
        true => json!({ "gpu_ids": "0,1", "status": status, "warnings": ["w"], "info": "i" }),
        false => json!({
            "entity_group": "GPU", "entity_group_id": 1, "entity_id": chance.below(3),
            "status": status,
            "warnings": [{ "warning": "w", "error_id": 1, "error_severity": chance.below(8) }]
        }),
    };
    let summary = json!({ "status": status });
    let tests = json!([
        { "name": "memory_bandwidth", "results": [result, result], "test_summary": summary },
        { "name": "pcie", "results": [result], "test_summary": { "status": "Pass" } }
    ]);
    let categories = json!([{ "category": "Hardware", "tests": tests }]);
    let mut all = match is_older {
        true => json!({ "DCGM GPU Diagnostic": {
            "version": "3.3.1", "GPU Device IDs": ["2335", "2330"], "test_categories": categories
        }}),
        false => json!({
            "metadata": { "version": "4.2.3" },
            "entity_groups": [{ "entity_group": "GPU", "entity_group_id": 1, "entities": [
                { "entity_id": 0, "device_id": "2335", "serial_num": "1" }
            ]}],
            "DCGM Diagnostic": { "test_categories": categories }
        }),
    };
    for _ in 0..chance.below(5) {
        change(&mut all, chance);
    }
    all.to_string().into()
}

/// Reads a diagnostic and judges it.
pub fn read_diagnostic(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(told) = dcgm::read(text) else { return false };
    let judged = told.judged();
    assert!(!judged.is_empty(), "a diagnostic that says nothing passes");
    assert!(judged.iter().all(|one| one.words.chars().count() < 1_200), "words without an end");
    let kept = serde_json::to_string(&told).expect("JSON");
    assert_eq!(serde_json::from_str::<dcgm::Told>(&kept).expect("what was written"), told);
    true
}

/// Reads a trace with every unit, and says what was read.
pub fn read_trace(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let units = [Unit::Seconds, Unit::Milliseconds, Unit::Microseconds, Unit::Nanoseconds];
    let mut is_read = false;
    for unit in units.map(Some).into_iter().chain([None]) {
        match trace::read(text, unit) {
            Err(why) => assert!(why.len() < MESSAGE_MAX, "a message without an end"),
            Ok(trace) => {
                is_read = true;
                let moments = trace.requests.iter().map(|one| one.moment);
                assert!(moments.is_sorted(), "moments that run backwards");
                let words = trace.words().join("\n");
                assert!(longest_number(&words) <= NUMBER_MAX, "{words}");
            }
        }
    }
    is_read
}

/// Reads results and reports them; whether they were understood.
pub fn read_served(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let limits = Limits { ttft: Some(0.2), tpot: Some(0.02), e2el: Some(2.0) };
    match load::read(text, &limits) {
        Err(why) => {
            assert!(why.len() < MESSAGE_MAX, "a message without an end");
            false
        }
        Ok(source) => {
            let sum = input.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            show(source, limits, [4, 8, 128].map(|of| sum.is_multiple_of(of)));
            true
        }
    }
}

/// Reports results, beside hardware, in every format and as a page where that is asked for. Panics
/// where a cell has no number, or one without an end.
pub fn show(source: Source, limits: Limits, [is_joined, is_shown, is_page]: [bool; 3]) {
    for level in &source.levels {
        let name = level.offered.describe();
        assert!(longest_number(&name) <= NUMBER_MAX, "{name}");
        load::vllm::written(&source, level).to_string();
    }
    let goal = Goal { limits, target: Some(100.0), ..Goal::default() };
    let levels = source.levels.clone();
    let results = [LoadResults { file: "a.json".into(), source }];
    let mut documents = vec![fizeau_report::load(&results, None, &goal)];
    if is_joined {
        let model = CATALOGUE.model("llama-3.1-8b").expect("a model");
        let part = CATALOGUE.parts.iter().find(|part| part.id == "h200-sxm").expect("a part");
        let hardware = Hardware::of_part(part).expect("it is stated");
        let layout = "tp1".parse().expect("a layout");
        let (model, hardware, kv) = (&model, &hardware, Format::Bf16);
        let engine = Engine { model, hardware, layout, kv, prefix: 0.0 };
        let joined: Result<Vec<_>, _> =
            levels.into_iter().map(|level| load::join(level, &engine)).collect();
        if let Ok(levels) = joined {
            let join = LoadJoin { engine, levels };
            documents.push(fizeau_report::load(&results, Some(&join), &goal));
        }
    }
    let page = is_page.then_some(ReportFormat::Html);
    for document in &documents {
        check(document);
        if !is_shown {
            continue;
        }
        let formats =
            [ReportFormat::Terminal, ReportFormat::Markdown, ReportFormat::Csv, ReportFormat::Json];
        for format in formats.into_iter().chain(page) {
            let terminal = Terminal { width: Some(100), colour: Colour::Never };
            let text = render(document, format, terminal).expect("it renders");
            harmless(&text);
        }
    }
}

pub fn harmless(text: &str) {
    let bad = text.chars().find(|&c| c != '\n' && is_hidden(c));
    assert_eq!(bad, None, "a character that acts on its reader");
}

/// Every cell that is a number is one, and no longer than that.
pub fn check(document: &Document) {
    let tables = document.blocks.iter().filter_map(|block| match block {
        Block::Table(table) => Some(table.rows.iter().flatten()),
        _ => None,
    });
    let facts = document.blocks.iter().filter_map(|block| match block {
        Block::Facts(facts) => Some(facts.iter().map(|fact| &fact.value)),
        _ => None,
    });
    for one in tables.flatten().chain(facts.flatten()).filter(|one| cell::is_number(one)) {
        let text = cell::text(one);
        assert!(longest_number(&text) <= NUMBER_MAX, "{text}");
        let number = cell::number(one);
        assert!(number.is_none_or(f64::is_finite), "{one:?} is no number");
        let has_word = text.split(' ').any(|word| ["inf", "NaN", "-inf"].contains(&word));
        assert!(!has_word, "{text}");
    }
    for block in &document.blocks {
        let (Block::Text(words) | Block::Note(words) | Block::Warning(words)) = block else {
            continue;
        };
        // A client's own words may be long numbers; more than a seed has are none.
        assert!(longest_number(words) <= 20 + NUMBER_MAX, "{words}");
    }
}

/// The longest run of characters of a number.
pub fn longest_number(text: &str) -> usize {
    let is_of_number = |c: char| c.is_ascii_digit() || "+-.e".contains(c);
    let runs = text.split(|c| !is_of_number(c));
    runs.filter(|run| run.contains(|c: char| c.is_ascii_digit())).map(str::len).max().unwrap_or(0)
}
