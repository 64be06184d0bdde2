//! Every report in every format, from a synthetic record; and a hostile one that must stay
//! harmless.

use crate::{sha256, synthetic};
use fizeau::cmd::document::{ReportFormat, render, write_all};
use fizeau_domain::{
    case::{Point, SparsePoint, SparseTopK},
    dtype::Dtype,
    outcome::{Failure, Measurement, Outcome, Telemetry},
    spec::{Bound, Properties, SpeedOfLight, Tier},
    text::is_hidden,
    units::{BytesPerSecond, Megahertz, Seconds},
};
use fizeau_judge::compare::{Comparison, Options};
use fizeau_record::{CURRENT, Line, Record};
use fizeau_report::{
    self as report, Block,
    format::terminal::{Colour, Terminal},
};
use serde_json::Value;
use std::{
    collections::{HashMap, HashSet},
    env, fs,
    path::Path,
    sync::OnceLock,
};

const PLAIN: Terminal = Terminal { width: Some(120), colour: Colour::Never };

#[test]
fn every_format_of_a_run() {
    let document = report::run(&synthetic::record());
    let shown = |format| render(&document, format, PLAIN).expect("it renders");
    insta::assert_snapshot!("run.txt", shown(ReportFormat::Terminal));
    insta::assert_snapshot!("run.md", shown(ReportFormat::Markdown));
    insta::assert_snapshot!("run.csv", shown(ReportFormat::Csv));
    insta::assert_snapshot!("run.json", shown(ReportFormat::Json));
    insta::assert_snapshot!("run.html", shown(ReportFormat::Html));
}

/// An operation at fewer sizes than a curve needs is drawn as bars, one for each kernel, and what a
/// curve shows is not drawn twice.
#[test]
fn operations_without_a_curve_are_bars() {
    let record = synthetic::record();
    let bars = report::bars(&record);
    let cases = bars.iter().flat_map(|chart| &chart.groups).map(|group| group.bars.len()).sum();
    let is_swept = |one: &&Measurement| {
        matches!(one.case.point, Point::Stream(_) | Point::Latency(_) | Point::Collective(_))
    };
    let measured: Vec<&Measurement> =
        record.outcomes.iter().filter_map(Outcome::measured).collect();
    let least = measured.iter().filter(|one| !is_swept(one)).count();
    assert!(least > 0 && (least..measured.len()).contains(&cases), "{least} to {cases}");
    let gemm = bars.iter().find(|chart| chart.name.starts_with("gemm_")).expect("products");
    let of_limits = gemm
        .groups
        .iter()
        .flat_map(|group| &group.bars)
        .filter_map(|bar| Some((bar.length() / bar.limit?, bar.share?)));
    for (drawn, said) in of_limits {
        assert!((drawn / said - 1.0).abs() < 1e-9, "the line is where the share says");
    }
    let svg = report::format::bars::svg(gemm, &["the machine".into()]).expect("a picture");
    for bar in gemm.groups.iter().flat_map(|group| &group.bars) {
        assert!(svg.contains(&bar.kernel), "{} in {svg}", bar.kernel);
    }
    assert!(svg.contains("the machine"));
    let mut stub = record;
    stub.header.device.vendor = fizeau_domain::spec::STUB.into();
    assert!(report::bars(&stub).is_empty(), "a stub's times mean nothing");
}

/// Whoever reads the CSV finds each of its columns described: those of every table of cases.
#[test]
fn every_column_of_the_csv_is_described() {
    let page = fs::read_to_string("docs/record-format.md").expect("the page");
    let (_, section) = page.split_once("## Columns of a run's CSV").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("another section");
    let is_described = |key: &str| section.contains(&format!("`{key}`"));
    let csv = render(&report::run(&synthetic::record()), ReportFormat::Csv, PLAIN).expect("CSV");
    let header = csv.lines().next().expect("a header");
    let lacking: Vec<&str> = header.split(',').filter(|key| !is_described(key)).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
    // And columns that this record has no case for.
    for module in ["case_table", "attention", "fused", "integrity", "rank", "consistency"] {
        let text = fs::read_to_string(format!("crates/report/src/{module}.rs")).expect("a module");
        let tables = text.split("[Column]").skip(1).chain(text.split("let columns").skip(1));
        for table in tables.filter(|table| table.find("\"case\"").is_some_and(|at| at < 120)) {
            let table = table.split("];").next().unwrap_or_default();
            for piece in table.split("key: \"").skip(1).chain(table.split("Column::new(\"").skip(1))
            {
                let key = piece.split('"').next().unwrap_or_default();
                assert!(is_described(key), "{key} of {module}");
            }
        }
    }
}

/// Few warnings fit the end of a run: those that say which figures are off come first.
#[test]
fn the_summary_names_noise_before_what_is_always_so_on_a_machine() {
    let mut record = synthetic::record();
    record.header.environment.warnings = (0..6).map(|at| format!("always so {at}")).collect();
    let measured = record.outcomes.iter_mut().find_map(|outcome| match outcome {
        Outcome::Measured(of) => Some(of),
        _ => None,
    });
    measured.expect("a measured case").summary.noise = 0.46;
    let brief = render(&report::brief(&record), ReportFormat::Terminal, PLAIN).expect("it renders");
    let noise = brief.find("noisy (more than").expect("it is named");
    assert!(brief.find("always so").is_none_or(|at| noise < at), "{brief}");
}

/// A virtual machine explains figures; noise spoils them, and a quota.
#[test]
fn what_only_explains_figures_is_no_warning() {
    let mut record = synthetic::record();
    let vm = "runs under KVM: other tenants of the same host may affect memory and clock, unseen";
    let quota = "a CPU quota of 0.50 CPUs (cgroup) limits this process";
    record.header.environment.warnings = vec![vm.into(), quota.into()];
    let text = shown(&record, ReportFormat::Terminal);
    let line = |words: &str| text.lines().find(|line| line.contains(&words[..24])).expect("a line");
    assert!(line(vm).starts_with("- ") && line(quota).starts_with("! "), "{text}");
    let json: Value = serde_json::from_str(&shown(&record, ReportFormat::Json)).expect("JSON");
    let holds = |key: &str, words: &str| {
        json[key].as_array().expect("a list").iter().any(|one| one == words)
    };
    assert!(holds("notes", vm) && !holds("warnings", vm), "{json}");
    assert!(holds("warnings", quota) && !holds("notes", quota), "{json}");
    let page = shown(&record, ReportFormat::Html);
    assert!(page.contains("<p class=\"note\" role=\"note\">runs under KVM"));
    assert!(page.contains("<p class=\"warning\" role=\"note\">a CPU quota"));
}

/// Commands in sentences are told apart from their words, and a lone backtick of a machine's own
/// text opens nothing.
#[test]
fn commands_in_sentences_of_the_page_are_code() {
    let mut record = synthetic::record();
    record.header.environment.warnings = vec!["see `lscpu <x>`, not `lsmem`, nor ` alone".into()];
    let page = shown(&record, ReportFormat::Html);
    let words = "see <code>lscpu &lt;x&gt;</code>, not <code>lsmem</code>, nor ` alone</p>";
    assert!(page.contains(words), "{page}");
}

/// Who points at a point of the roofline reads which case it is, its rate and its share.
#[test]
fn a_point_of_the_roofline_says_which_case_it_is() {
    let record = synthetic::record();
    let page = shown(&record, ReportFormat::Html);
    let (_, chart) = page.split_once("id=\"chart-roofline\"").expect("a roofline");
    let (chart, _) = chart.split_once("</figure>").expect("its end");
    let named = |one: &Measurement| {
        let title = format!("<title>{}: ", one.case);
        let (_, rest) = chart.split_once(&title)?;
        rest.split_once("</title>").map(|(words, _)| words.to_owned())
    };
    let measured = record.outcomes.iter().filter_map(Outcome::measured);
    let gemm = measured.filter(|one| matches!(one.case.point, Point::Gemm(_)));
    let mut count = 0;
    for one in gemm {
        let words = named(one).unwrap_or_else(|| panic!("{} has no point", one.case));
        assert!(words.contains("FLOP/s, ") && words.contains(" % of its ceiling, at "), "{words}");
        count += 1;
    }
    assert!(count > 3, "{count}");
}

/// A run does not judge speed: its JSON must not say `pass` of a machine at 3 % of its peak. What a
/// share is of is there as fields.
#[test]
fn programs_read_whether_a_run_is_complete_and_what_its_shares_are_of() {
    let record = synthetic::record();
    let about = report::about::of_run(&record);
    let json = fizeau_report::format::json::render(&report::run(&record), &about);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert!(["complete", "incomplete", "failed"].contains(&json["verdict"].as_str().expect("it")));
    let facts = json["facts"].as_object().expect("facts");
    let with_share = facts.values().filter(|fact| fact["share"].is_number());
    let mut count = 0;
    for fact in with_share {
        let [value, share, limit] = ["value", "share", "limit"].map(|key| fact[key].as_f64());
        let (value, share) = (value.expect("a value"), share.expect("a share"));
        let limit = limit.unwrap_or_else(|| panic!("no limit: {fact}"));
        assert!((value / limit / share - 1.0).abs() < 1e-9, "{fact}");
        assert!(fact["tier"].is_string() && fact["reasons"].is_array(), "{fact}");
        count += 1;
    }
    assert!(count > 3, "{facts:?}");
}

/// Ones draw less power than real operands: a peak of random numbers replaces them as a ceiling.
#[test]
fn a_peak_of_random_numbers_is_the_ceiling_of_products() {
    let mut record = synthetic::record();
    record.outcomes.retain(|outcome| matches!(outcome.case().point, Point::Compute(_)));
    let bf16 = |ceilings: &report::Ceilings| ceilings.compute[&Dtype::Bf16].clone();
    let of_ones = bf16(&report::Ceilings::of(&record));
    let is_bf16 = |one: &&Measurement| one.case.point.dtype() == Some(Dtype::Bf16);
    let measured = record.outcomes.iter().filter_map(Outcome::measured).find(is_bf16);
    let mut random = measured.expect("a peak").clone();
    random.case.kernel.0 = "sm90_wgmma_random".into();
    random.summary.median = Seconds(random.summary.median.0 * 1.25);
    record.outcomes.push(Outcome::Measured(Box::new(random)));
    let ceilings = report::Ceilings::of(&record);
    assert!(bf16(&ceilings).case.ends_with("sm90_wgmma_random"), "{:?}", bf16(&ceilings));
    assert!((of_ones.rate.0 / bf16(&ceilings).rate.0 - 1.25).abs() < 1e-9);
    // Element types without such a peak keep theirs.
    assert!(ceilings.compute[&Dtype::F32].case.ends_with("avx512_fma"));
}

/// Attention by itself has no ceiling of its own run, and a rate all the same.
#[test]
fn attention_without_a_ceiling_has_its_rate() {
    let mut record = synthetic::record();
    let is_attention = |outcome: &Outcome| matches!(outcome.case().point, Point::Attention(_));
    record.outcomes.retain(is_attention);
    record.header.plan.retain(|case| matches!(case.point, Point::Attention(_)));
    assert!(!record.outcomes.is_empty());
    let brief = render(&report::brief(&record), ReportFormat::Terminal, PLAIN).expect("it renders");
    assert!(brief.contains("no ceiling was measured: add gemm and stream/read"), "{brief}");
    assert!(brief.contains("FLOP/s"), "{brief}");
    // The step of sparse attention that selects tokens has no arithmetic: its rate is of bytes.
    let Some(Outcome::Measured(one)) = record.outcomes.first_mut() else { panic!("measured") };
    let point = SparseTopK { rows: 64, selected: 2048, context: 8192 };
    one.case.point = Point::Sparse(SparsePoint::TopK(point));
    one.work = one.case.point.work();
    record.header.plan[0] = one.case.clone();
    let brief = render(&report::brief(&record), ReportFormat::Terminal, PLAIN).expect("it renders");
    let line = brief.lines().find(|line| line.starts_with("Sparse top_k"));
    assert!(line.is_some_and(|line| line.contains("B/s")), "{brief}");
}

/// A later run of the same machine: most of it alike, one operation slower, one kernel broken.
fn later() -> Record {
    let mut record = synthetic::record();
    record.header.run = "b81d44e0".into();
    for (index, outcome) in record.outcomes.iter_mut().enumerate() {
        let Outcome::Measured(of) = outcome else { continue };
        let id = of.case.to_string();
        let scatter = 1.0 + 0.003 * ((index % 7) as f64 - 3.0) / 3.0;
        let factor = if id.starts_with("collective/broadcast") { 1.12 } else { scatter };
        of.summary.median = of.summary.median * factor;
        of.samples.times.iter_mut().for_each(|time| *time = *time * factor);
        if id.contains("4096x4096x64/portable") {
            *outcome = Outcome::Failed {
                case: of.case.clone(),
                failure: Failure::Hang,
                error: "no end within 10 s".into(),
                integrity: None,
            };
        }
    }
    record
}

#[test]
fn every_format_of_a_comparison() {
    let comparison = Comparison::of(&[synthetic::record()], &[later()], &Options::default());
    let comparison = comparison.expect("alike");
    assert_eq!((comparison.regressions(), comparison.longer()), (5 + 3, 0), "what was planted");
    let document = report::comparison(&comparison);
    let shown = |format| render(&document, format, PLAIN).expect("it renders");
    insta::assert_snapshot!("comparison.txt", shown(ReportFormat::Terminal));
    insta::assert_snapshot!("comparison.md", shown(ReportFormat::Markdown));
    insta::assert_snapshot!("comparison.csv", shown(ReportFormat::Csv));
    insta::assert_snapshot!("comparison.json", shown(ReportFormat::Json));
    let page = shown(ReportFormat::Html);
    insta::assert_snapshot!("comparison.html", page);
    if let Some(dir) = env::var_os("FIZEAU_REPORT_DIR") {
        fs::write(Path::new(&dir).join("comparison.html"), page).expect("it can be written");
    }
}

/// A stream a little larger than the last cache, most of which the cache can keep, has a limit that
/// is no peak of memory.
#[test]
fn memorys_peak_is_that_of_working_sets_in_memory() {
    let mut record = synthetic::record();
    let mut planted = 0;
    for of in synthetic::measured_in(&mut record) {
        let Point::Stream(point) = of.case.point else { continue };
        if ((64 << 20)..(128 << 20)).contains(&point.working_set.0) {
            let time = of.work.memory / BytesPerSecond(200e9);
            let (bound, tier) = (Bound::Memory, Tier::Datasheet);
            of.speed_of_light = vec![SpeedOfLight { time, bound, tier }];
            planted += 1;
        }
    }
    assert!(planted > 0);
    let document = report::run(&record);
    let facts = document.blocks.iter().filter_map(|block| match block {
        Block::Facts(facts) => Some(facts),
        _ => None,
    });
    let memory = facts.flatten().find(|fact| fact.key == "memory_bandwidth").expect("its fact");
    assert!(memory.of.starts_with("of 51.20 GB/s (datasheet)"), "{}", memory.of);
}

/// Text that some reader somewhere acts upon.
const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script><!--",
    "</style><img src=x onerror=alert(1)>",
    "=cmd|' /C calc'!A0",
    "+1+1|x",
    "-2+3",
    "@SUM(1)",
    "\t=1+1",
    "\r\n=1+1",
    "javascript:alert(1)",
    "[x](javascript:alert(1)) ![y](http://example.invalid/z.png)",
    "\x1b[2J\x1b[31mred\x1b]0;title\x07",
    "\u{9b}31mred\u{0}\u{8}\u{7f}",
    "\u{202e}txt.exe\u{2066}\u{200b}\u{feff}",
    "\u{ad}a\u{34f}b\u{180e}c\u{3164}d\u{115f}e\u{ffa0}f\u{e0041}\u{e007f}g\u{fe0f}\u{1d173}",
    "\u{ff1d}1+1",
    "\u{ad}\u{ff0b}1",
    "\u{3000}\u{ff0d}1",
    "\u{feff}\u{ff20}SUM(1)",
    "]]> <![CDATA[ &lt; &#60;script&#62;",
    "\" onmouseover=\"alert(1)\" '",
    "${jndi:ldap://x} {{ 7 * 7 }} {% raw %}",
    "| a | b |\n|---|---|\n# heading\n```",
];

/// Every free string of a record replaced by hostile text of its own; tags of enums and the
/// numbers stay, so that it is still a record.
fn hostile() -> Record {
    let long = "very long ".repeat(5_000);
    let texts: Vec<&str> = HOSTILE.iter().copied().chain([long.as_str()]).collect();
    let mut replaced = HashMap::new();
    let mut text = |text: &str| {
        // Equal strings stay equal, so that cases still belong together.
        let next = replaced.len();
        replaced.entry(text.to_owned()).or_insert_with(|| texts[next % texts.len()]).to_string()
    };
    let mut record = synthetic::record();
    let header = Line::Header(Box::new(record.header.clone()));
    let outcomes: Vec<Line> = record.outcomes.drain(..).map(Line::Outcome).collect();
    for line in [header].into_iter().chain(outcomes).chain(record.footer.take().map(Line::Footer)) {
        let line = CURRENT.write(&line).expect("JSON");
        let mut value = serde_json::from_str(&line).expect("JSON");
        poison(&mut value, &mut text);
        match CURRENT.read(value).expect("still a line of a record") {
            Line::Header(header) => record.header = *header,
            Line::Outcome(outcome) => record.outcomes.push(outcome),
            Line::Footer(footer) => record.footer = Some(footer),
        }
    }
    record.notes = HOSTILE.iter().copied().map(String::from).collect();
    assert!(replaced.len() > texts.len(), "each text stands somewhere");
    record
}

/// Replaces strings under keys that hold free text.
fn poison(value: &mut Value, text: &mut dyn FnMut(&str) -> String) {
    const FREE: &[&str] = &[
        "run",
        "fizeau",
        "started",
        "suite",
        "suite_text",
        "selectors",
        "part",
        "host",
        "os",
        "cpu",
        "huge_pages",
        "governor",
        "libraries",
        "warnings",
        "kernel",
        "reason",
        "error",
        "ended",
        "backend",
        "name",
        "vendor",
        "pci_id",
        "features",
        "virtualised",
    ];
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                match field {
                    Value::String(free) if FREE.contains(&key.as_str()) => {
                        *free = text(free);
                    }
                    Value::Array(list) if FREE.contains(&key.as_str()) => {
                        *list = HOSTILE.iter().map(|text| Value::from(*text)).collect();
                    }
                    _ => poison(field, text),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|field| poison(field, text)),
        _ => {}
    }
}

/// Nothing that a terminal, an editor or a browser acts upon without markup.
fn assert_no_controls(text: &str) {
    let bad = text.chars().find(|&c| c != '\n' && is_hidden(c));
    assert_eq!(bad, None);
}

fn shown(record: &Record, format: ReportFormat) -> String {
    render(&report::run(record), format, PLAIN).expect("it renders")
}

/// A share above the limit is said with its reason: what the clock's observation allows, and what
/// no clock that was observed explains.
#[test]
fn what_is_above_its_limit_is_said_with_its_reason() {
    for (share, said) in [
        (1.0, None),
        (1.01, Some("a clock is observed before and after samples")),
        (1.05, Some("do not use these shares, only the rates")),
    ] {
        let mut record = synthetic::record();
        let (mut case, mut first) = (String::new(), true);
        for of in synthetic::measured_in(&mut record) {
            let Some(reached) = of.utilisation() else { continue };
            if reached > 1.0 || std::mem::take(&mut first) {
                let wanted = if case.is_empty() { share } else { 1.0 };
                of.summary.median = of.summary.median * (reached / wanted);
                case = if case.is_empty() { of.case.to_string() } else { case };
            }
        }
        let page: Value = serde_json::from_str(&shown(&record, ReportFormat::Json)).expect("JSON");
        let warnings = page["warnings"].as_array().expect("warnings");
        let above =
            warnings.iter().filter_map(Value::as_str).find(|one| one.contains("above 100 %"));
        match (above, said) {
            (None, None) => {}
            (Some(above), Some(said)) => {
                assert!(above.contains(said) && above.contains(&case), "{share}: {above}");
                let percent = format!("{:.1} %", share * 100.0);
                assert!(above.contains(&percent), "{share}: {above}");
            }
            other => panic!("{share}: {other:?}"),
        }
    }
}

/// The summary and the table say the same of attention, and each names what it is set against.
#[test]
fn attention_is_set_against_one_thing_that_has_a_name() {
    let without = |left_out: &[&str]| {
        let mut record = synthetic::record();
        record.outcomes.retain(|outcome| {
            let id = outcome.case().to_string();
            !left_out.iter().any(|start| id.starts_with(start))
        });
        shown(&record, ReportFormat::Json)
    };
    for (left_out, memory, arithmetic) in [
        (&[][..], "stream/read", "hot gemm/bf16"),
        (&["gemm/"], "stream/read", "compute/bf16"),
        (&["gemm/", "stream/read"], "stream/copy", "compute/bf16"),
    ] {
        let page: Value = serde_json::from_str(&without(left_out)).expect("JSON");
        let facts = page["facts"].as_object().expect("facts").iter();
        let of_attention = facts.filter(|(key, _)| key.starts_with("attention_"));
        let share_of = |fact: &Value| fact["share"].as_f64().expect("a share");
        let best = of_attention.max_by(|a, b| share_of(a.1).total_cmp(&share_of(b.1)));
        let (_, fact) = best.expect("attention");
        let rows = page["tables"]["attention"].as_array().expect("a table");
        let words = fact["of"].as_str().expect("words");
        assert!(words.contains(arithmetic), "{words}");
        let share = |row: &Value| {
            let of = |key: &str| row[key].as_f64().expect("a share");
            of("share_of_memory").max(of("share_of_arithmetic"))
        };
        let shares: Vec<f64> = rows.iter().map(share).collect();
        let most = shares.iter().copied().fold(0.0, f64::max);
        let told = fact["share"].as_f64().expect("a share");
        assert!((told - most).abs() < 1e-12, "{told} in the summary, {shares:?} in the table");
        let named = format!("{memory} and {arithmetic}");
        assert!(rows.iter().all(|row| row["set_against"] == *named), "{rows:?}, not {named}");
        // Its headline is cold, which is said; what is set against a hot product is hot as well.
        assert!(rows.iter().all(|row| row["caches"] == "cold"), "{rows:?}");
        let label = fact["label"].as_str().expect("a label");
        assert!(label.contains("bf16") && label.ends_with(", cold"), "{label}");
        let hot = rows.iter().filter_map(|row| {
            row["share_both_hot"].as_f64().zip(row["share_of_arithmetic"].as_f64())
        });
        let hot: Vec<_> = hot.collect();
        assert_eq!(hot.len(), if left_out.is_empty() { rows.len() } else { 0 }, "{rows:?}");
        assert!(hot.iter().all(|(hot, cold)| (hot * 0.96 - cold).abs() < 1e-12), "{hot:?}");
    }
}

#[test]
fn a_hostile_record_is_harmless_in_html() {
    let page = shown(&hostile(), ReportFormat::Html);
    assert_no_controls(&page);
    assert_eq!(page.matches("<script").count(), 1, "our own, and no other");
    assert_eq!(page.matches("</script").count(), 1);
    assert_eq!(page.matches("</style").count(), 1);
    assert!(!page.contains("<img"), "no picture is loaded");
    for link in page.split("href=\"").skip(1) {
        let target = link.split('"').next().expect("its end");
        let place = target.strip_prefix("#section-").unwrap_or("no place on the page");
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(place.chars().all(is_plain), "{target:?} is a link made of a record's text");
    }
    for tag in tags(&page) {
        let known = synthetic_tags();
        assert!(known.contains(tag.name.as_str()), "<{}> comes from a record", tag.name);
        let wrong = tag.attributes.iter().find(|attribute| attribute.starts_with("on"));
        assert_eq!(wrong, None, "in <{}>", tag.name);
    }
    assert!(page.len() < 2_000_000, "long strings are cut: {} bytes", page.len());
}

/// A tag with the names of its attributes.
struct Tag {
    name: String,
    attributes: Vec<String>,
}

/// Every opening tag of a page, its script and style left out.
fn tags(page: &str) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let mut quote = None;
        let end = rest.find(|c| match quote {
            Some(open) => {
                if c == open {
                    quote = None;
                }
                false
            }
            None if c == '"' => {
                quote = Some(c);
                false
            }
            None => c == '>',
        });
        let Some(end) = end else { panic!("a tag without an end: {:.80}", rest) };
        let inside = &rest[..end];
        rest = &rest[end + 1..];
        let name: String = inside.chars().take_while(|c| !c.is_whitespace() && *c != '/').collect();
        if inside.starts_with('/') || inside.starts_with('!') {
            continue;
        }
        if name == "script" || name == "style" {
            let close = rest.find("</").expect("it is closed");
            rest = &rest[close..];
        }
        // Names stand before `="`; what is between quotes is a value.
        let outside: String = inside.split('"').step_by(2).collect::<Vec<_>>().join(" ");
        let attributes =
            outside.split_whitespace().skip(1).map(|word| word.trim_end_matches('=').to_owned());
        tags.push(Tag { name, attributes: attributes.collect() });
    }
    tags
}

/// The names of tags in the page of the friendly record.
fn synthetic_tags() -> HashSet<String> {
    static KNOWN: OnceLock<HashSet<String>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let mut record = synthetic::record();
        // Sentences name commands, as those of an interrupted run do.
        record.header.environment.warnings.push("see `lscpu`".into());
        let page = shown(&record, ReportFormat::Html);
        tags(&page).into_iter().map(|tag| tag.name).collect()
    });
    known.clone()
}

#[test]
fn a_hostile_record_is_harmless_in_csv() {
    let text = shown(&hostile(), ReportFormat::Csv);
    assert_no_controls(&text);
    let mut fields = 0;
    for line in csv::Reader::from_reader(text.as_bytes()).records() {
        for field in &line.expect("it is CSV") {
            fields += 1;
            let fullwidth = ['\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];
            let start = field.trim_start().trim_start_matches('\u{fffd}');
            let formula = start.starts_with(['=', '+', '-', '@']) || start.starts_with(fullwidth);
            let number = field.parse::<f64>().is_ok();
            assert!(!formula || number, "{field:?} would be run");
        }
    }
    assert!(fields > 1_000);
}

#[test]
fn csv_has_one_line_for_each_case() {
    let mut record = synthetic::record();
    for of in synthetic::measured_in(&mut record) {
        if of.case.to_string().starts_with("collective/") {
            let median = of.summary.median;
            of.rank_times = vec![median, median * 0.9];
        }
    }
    let text = shown(&record, ReportFormat::Csv);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let columns = reader.headers().expect("a heading").clone();
    let at = |key: &str| columns.iter().position(|column| column == key).expect("a column");
    let names: HashSet<&str> = columns.iter().collect();
    assert_eq!(names.len(), columns.len(), "a column twice");
    let lines: Vec<_> = reader.records().map(|line| line.expect("it is CSV")).collect();
    let cases: HashSet<&str> = lines.iter().map(|line| &line[0]).collect();
    assert_eq!((lines.len(), cases.len()), (record.header.plan.len(), record.header.plan.len()));
    let of_collectives = lines.iter().filter(|line| line[0].starts_with("collective/"));
    for line in of_collectives {
        assert!(!line[at("busbw_bytes_per_second")].is_empty(), "{line:?}");
        assert_eq!(&line[at("slowest_rank")], "rank 0", "{line:?}");
        assert_eq!(line[at("rank_seconds")].split(';').count(), 2, "{line:?}");
    }
}

#[test]
fn a_hostile_record_is_harmless_in_markdown() {
    let text = shown(&hostile(), ReportFormat::Markdown);
    assert_no_controls(&text);
    assert!(!text.contains('<'), "no tag");
    assert!(!text.replace("\\]", "").contains("]("), "no link");
    assert!(!text.contains("://"), "no address becomes a link");
    assert!(!text.contains("```"));
    // Each table keeps its width.
    let mut width = None;
    for line in text.lines() {
        let bars = line.replace("\\|", "").matches('|').count();
        if bars == 0 {
            width = None;
        } else {
            assert_eq!(*width.get_or_insert(bars), bars, "{line:.200}");
        }
    }
}

#[test]
fn a_hostile_record_is_harmless_in_the_terminal() {
    let text = shown(&hostile(), ReportFormat::Terminal);
    assert_no_controls(&text);
    let document = report::run(&hostile());
    let coloured = Terminal { width: Some(90), colour: Colour::Ansi };
    let text = render(&document, ReportFormat::Terminal, coloured).expect("it renders");
    for (at, _) in text.match_indices('\x1b') {
        let known = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];
        assert!(known.iter().any(|code| text[at..].starts_with(code)), "an escape of its own");
    }
}

#[test]
fn the_terminal_fits_its_window() {
    for record in [synthetic::record(), hostile()] {
        for width in [40, 60, 80, 100, 120, 160] {
            let terminal = Terminal { width: Some(width), colour: Colour::Never };
            let text = render(&report::run(&record), ReportFormat::Terminal, terminal);
            for line in text.expect("it renders").lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn json_is_read_back_whole() {
    for record in [synthetic::record(), hostile()] {
        let document = report::run(&record);
        let text = render(&document, ReportFormat::Json, PLAIN).expect("it renders");
        assert_no_controls(&text);
        let value: Value = serde_json::from_str(&text).expect("it is JSON");
        let measured = record.outcomes.iter().filter_map(|outcome| outcome.measured());
        let cases = value["tables"]["cases"].as_array().expect("a list");
        assert_eq!(cases.len(), measured.clone().count());
        for (case, measurement) in cases.iter().zip(measured) {
            assert_eq!(case["case"], measurement.case.to_string());
            assert_eq!(case["median_seconds"], measurement.summary.median.0);
        }
    }
}

#[test]
fn an_invalid_number_is_nowhere() {
    let record = synthetic::record();
    let impossible = record.outcomes.iter().find_map(|outcome| match outcome {
        Outcome::Invalid { measurement, .. } => Some(measurement),
        _ => None,
    });
    let impossible = impossible.expect("the synthetic record has one");
    let rate = impossible.work.flops / impossible.summary.median;
    assert_eq!(rate.to_string(), "268.4 TFLOP/s");
    let formats = [ReportFormat::Terminal, ReportFormat::Markdown, ReportFormat::Html];
    for format in formats {
        assert!(!shown(&record, format).contains("268.4 TFLOP/s"), "{format:?}");
    }
    let json: Value =
        serde_json::from_str(&shown(&record, ReportFormat::Json)).expect("it is JSON");
    let cases = json["tables"]["cases"].as_array().expect("a list");
    let id = impossible.case.to_string();
    assert!(cases.iter().all(|case| case["case"] != id.as_str()));
}

#[test]
fn records_cut_short_or_empty_have_a_report() {
    let mut record = synthetic::record();
    record.outcomes.truncate(30);
    record.footer = None;
    record.notes.push("the last line was cut short".into());
    let text = shown(&record, ReportFormat::Terminal);
    assert!(text.contains("30 measured + 0 skipped + 0 failed + 0 invalid + 104 not reached"));
    assert!(text.contains("the record ends before it"));
    assert!(text.contains("the last line was cut short"));

    record.outcomes.clear();
    record.header.plan.clear();
    record.header.device = Properties::default();
    record.header.part = None;
    let formats = [ReportFormat::Terminal, ReportFormat::Markdown, ReportFormat::Html];
    for format in formats {
        assert!(shown(&record, format).contains("0 cases planned = 0 measured"), "{format:?}");
    }
    assert_eq!(shown(&record, ReportFormat::Csv), "");
}

#[test]
fn a_run_leaves_a_page_and_a_text() {
    let dir = tempfile::tempdir().expect("a directory");
    let written = write_all(dir.path(), &synthetic::record()).expect("it is written");
    let names: Vec<_> = written.iter().filter_map(|path| path.file_name()).collect();
    assert_eq!(names, ["report.html", "report.md"]);
    for path in &written {
        let text = fs::read_to_string(path).expect("it is there");
        assert!(text.contains("134 cases planned"), "{}", path.display());
    }
}

#[test]
fn the_page_loads_nothing_and_allows_only_its_own_script() {
    let page = shown(&synthetic::record(), ReportFormat::Html);
    // The namespace of SVG is a name and is not loaded.
    let addresses = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!addresses.contains("://"), "an address");
    assert!(!page.contains(" src="), "a source");
    let open = page.find("<script>").expect("a script") + "<script>".len();
    let script = &page[open..page.find("</script>").expect("its end")];
    let hash = sha256::base64(script.as_bytes());
    assert!(page.contains(&format!("script-src 'sha256-{hash}'")), "{hash} is the script's");
}

#[cfg(feature = "png")]
#[test]
fn every_chart_is_a_picture_with_words() {
    for record in [synthetic::record(), hostile()] {
        let document = report::run(&record);
        assert_eq!(document.charts().count(), 6);
        for chart in document.charts() {
            let picture = fizeau_report::format::png::render(chart, &document).expect("it renders");
            assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n"));
            let mut wordless = chart.clone();
            wordless.title = String::new();
            let blank =
                fizeau_report::format::png::render(&wordless, &document).expect("it renders");
            assert_ne!(picture, blank, "the font draws {}", chart.name);
            if let Some(dir) = env::var_os("FIZEAU_REPORT_DIR") {
                let name = format!("{}.png", chart.name);
                let path = Path::new(&dir).join(name);
                if record == synthetic::record() {
                    fs::write(path, picture).expect("the directory can be written");
                }
            }
        }
    }
}

/// Leaves the files where `FIZEAU_REPORT_DIR` says, for people to look at.
#[test]
fn files_to_look_at() {
    let Some(dir) = env::var_os("FIZEAU_REPORT_DIR") else { return };
    let document = report::run(&synthetic::record());
    let html = render(&document, ReportFormat::Html, PLAIN).expect("it renders");
    fs::write(Path::new(&dir).join("report.html"), html).expect("the directory can be written");
}

/// The fact of a key in the JSON report of a record.
fn fact(record: &Record, key: &str) -> Value {
    let page: Value = serde_json::from_str(&shown(record, ReportFormat::Json)).expect("JSON");
    page["facts"][key].clone()
}

#[test]
fn the_summarys_bus_bandwidth_is_that_of_all_reduce() {
    let mut record = synthetic::record();
    // A broadcast that is faster than every all_reduce does not stand in for it.
    for of in synthetic::measured_in(&mut record) {
        if of.case.to_string().starts_with("collective/broadcast/") {
            of.summary.median = of.summary.median * 0.1;
        }
    }
    let all_reduce = fact(&record, "collective_busbw");
    let case = all_reduce["case"].as_str().expect("a case");
    assert!(case.starts_with("collective/all_reduce/f32/256MiB/"), "{case}");
    assert_eq!(all_reduce["label"], "all_reduce busbw");
    record.outcomes.retain(|one| !one.case().to_string().starts_with("collective/all_reduce/"));
    assert_eq!(fact(&record, "collective_busbw")["label"], "broadcast busbw");
}

#[test]
fn a_low_share_has_its_reason_beside_it() {
    let slow = |spoil: &dyn Fn(&mut Record)| {
        let mut record = synthetic::record();
        record.header.device.virtualised = None;
        for of in synthetic::measured_in(&mut record) {
            if of.case.to_string().starts_with("stream/") {
                of.summary.median = of.summary.median * 5.0;
                of.summary.min = of.summary.min * 5.0;
            }
        }
        spoil(&mut record);
        fact(&record, "memory_read")["of"].as_str().expect("words").to_owned()
    };
    let alone = slow(&|_| ());
    assert!(alone.ends_with("(datasheet)"), "{alone}");
    let others = slow(&|record| {
        for of in synthetic::measured_in(record) {
            (of.waited, of.summary.min) = (Some(0.4), of.summary.median * 0.3);
        }
    });
    let words =
        "its best sample took 30 % of the median, other processes took 40 % of its CPU time";
    assert!(others.ends_with(words), "the largest is first: {others}");
    let virtual_machine = slow(&|record| record.header.device.virtualised = Some("KVM".into()));
    assert!(virtual_machine.contains("virtual machine (KVM), 2 of a socket's cores"));
    let few = slow(&|record| record.header.environment.cpus_online = Some(256));
    assert!(few.ends_with("(datasheet): 2 of 256 CPUs"), "{few}");
    let capped = slow(&|record| {
        record.header.environment.cpu_quota = Some(1.5);
        for of in synthetic::measured_in(record) {
            of.stopped_by_quota = Some(0.6);
            of.telemetry =
                Some(Telemetry { held_by: vec!["power cap".into()], ..Default::default() });
        }
    });
    let words =
        "its CPU quota of 1.50 CPUs stopped it 60 % of the time, power cap held the clock down";
    assert!(capped.ends_with(words), "{capped}");
    // What has no size stands behind what has one, and is said to have none.
    let both = slow(&|record| {
        record.header.device.virtualised = Some("KVM".into());
        record.header.device.clock = Some(Megahertz(2000.0));
        for of in synthetic::measured_in(record) {
            of.waited = Some(0.2);
            let held_by = vec!["power cap".into()];
            let clock_min = Some(Megahertz(1000.0));
            of.telemetry = Some(Telemetry { held_by, clock_min, ..Default::default() });
        }
    });
    let words = "(datasheet): power cap held the clock down to 50 % at the lowest, other \
                 processes took 20 % of its CPU time; of unknown size: virtual machine (KVM), 2 of \
                 a socket's cores";
    assert!(both.ends_with(words), "{both}");
    // What is near its limit needs no reason.
    let fine = fact(&synthetic::record(), "memory_read");
    assert!(fine["of"].as_str().is_some_and(|of| of.ends_with("(datasheet)")), "{fine}");
}

#[test]
fn links_launches_power_and_throttling_have_their_lines() {
    let record = synthetic::with_a_gpu();
    let of = |key| fact(&record, key)["of"].as_str().unwrap_or_default().to_owned();
    assert_eq!(fact(&record, "host_to_device")["value"], 50e9);
    assert!(of("peer_read").contains("slowest 90.00 GB/s"), "{}", of("peer_read"));
    assert!(of("launch_latency").contains("queued 2.000 us each"), "{}", of("launch_latency"));
    assert_eq!(fact(&record, "power")["value"], "690.0 W");
    assert_eq!(of("throttling"), "by power cap");
    let brief = report::brief(&record);
    let text = render(&brief, ReportFormat::Terminal, PLAIN).expect("it renders");
    for label in
        ["Host to device", "Peer to device", "Launch latency", "Highest power", "Clock held"]
    {
        assert!(text.contains(label), "{label}: {text}");
    }
}

/// Only a window cuts columns off, and says how many: a pipe gets every column that is for people.
#[test]
fn a_pipe_drops_no_column() {
    let document = report::run(&synthetic::record());
    let at = |width| {
        let terminal = Terminal { width, colour: Colour::Never };
        render(&document, ReportFormat::Terminal, terminal).expect("it renders")
    };
    let (piped, narrow) = (at(None), at(Some(80)));
    let table = document.tables().find(|table| table.name == "cases").expect("the cases");
    let shown = table.columns.iter().filter(|column| column.weight != report::Weight::Machine);
    let titles: Vec<&str> = shown.map(|column| column.title).collect();
    let has_all = |line: &str| titles.iter().all(|title| line.contains(title));
    assert!(titles.len() > 10 && piped.lines().any(has_all), "{titles:?}\n{piped}");
    assert!(!narrow.lines().any(has_all) && narrow.contains("in a wider window"), "{narrow}");
}

/// A document of everything that a window cuts, each text longer than any window.
fn of_long_words() -> (report::Document, Vec<String>) {
    let mut words = Vec::new();
    let mut long = |count: usize, sign: &str| {
        let own: Vec<String> = (0..count).map(|at| format!("word{}", words.len() + at)).collect();
        words.extend(own.clone());
        own.join(sign)
    };
    let column = report::Column {
        key: "name",
        title: "a title that is longer than what stands below it",
        weight: report::Weight::Detail,
    };
    let columns: Vec<report::Column> = (0..12).map(|_| column.clone()).collect();
    let row: Vec<report::Cell> = (0..6)
        .flat_map(|_| [report::Cell::Code(long(30, "/")), report::Cell::Text(long(30, " "))])
        .collect();
    let mut fact = report::Fact::new("key", long(9, " "), report::Cell::Text(long(9, "-")));
    (fact.of, fact.case) = (long(30, " "), long(30, "/"));
    let series =
        report::Series::new(long(9, "-"), report::SeriesKind::Curve, vec![(1.0, 1.0), (2.0, 2.0)]);
    let axis = || report::Axis::linear("n", report::Quantity::Count);
    let chart = report::Chart {
        name: "chart".into(),
        title: long(30, " "),
        caption: String::new(),
        x: axis(),
        y: axis(),
        series: vec![series],
        marks: Vec::new(),
    };
    let map = report::HeatMap {
        name: "map".into(),
        title: long(30, " "),
        caption: String::new(),
        corner: long(9, "-"),
        columns: (0..20).map(|_| long(3, "-")).collect(),
        rows: vec![report::HeatRow {
            label: long(30, "/"),
            values: vec![report::Heat { value: report::Cell::Absent, share: None }; 20],
        }],
    };
    let listing =
        report::Listing { name: "listing".into(), title: long(30, " "), text: long(90, " ") };
    let blocks = vec![
        Block::Heading(long(9, " ")),
        Block::Text(long(900, " ")),
        Block::Warning(long(900, " ")),
        Block::Note(long(900, " ")),
        Block::Failure(long(900, " ")),
        Block::Facts(vec![fact]),
        Block::Table(report::Table::new("table", long(30, " "), columns, [row])),
        Block::HeatMap(map),
        Block::Chart(chart),
        Block::Listing(listing),
    ];
    let (title, subtitle) = (long(90, " "), long(900, " "));
    (report::Document { title, subtitle, blocks }, words)
}

/// Whatever the text is, a pipe gets every word of it and no sign that something was cut.
#[test]
fn a_pipe_drops_no_word() {
    let (document, words) = of_long_words();
    let at = |width| {
        let terminal = Terminal { width, colour: Colour::Never };
        render(&document, ReportFormat::Terminal, terminal).expect("it renders")
    };
    let said = |text: &str| -> HashSet<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned).collect()
    };
    let piped = at(None);
    let found = said(&piped);
    let lost: Vec<&String> = words.iter().filter(|word| !found.contains(*word)).collect();
    assert!(lost.is_empty() && !piped.contains('\u{2026}'), "{} lost: {lost:?}", lost.len());
    assert!(piped.contains("a title that is longer than what stands below it"));
    let narrow = at(Some(80));
    assert!(narrow.contains('\u{2026}'), "a window cuts");
}

#[test]
fn the_short_form_is_short_at_every_width() {
    let document = report::brief(&synthetic::record());
    for (width, lines) in [(Some(80), 36), (Some(200), 24), (None, 26)] {
        let terminal = Terminal { width, colour: Colour::Never };
        let text = render(&document, ReportFormat::Terminal, terminal).expect("it renders");
        assert!(text.lines().count() <= lines, "{width:?}: {} lines\n{text}", text.lines().count());
    }
}
