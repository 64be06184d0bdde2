//! Generations beside each other: three records, of which two are a stub driver's, and parts of the
//! catalogue alone.

use crate::synthetic;
use fizeau::{
    cmd::document::{ReportFormat, render},
    data::Catalogue,
};
use fizeau_domain::{
    case::{
        Case, ComputePoint, Contents, GemmPoint, KernelName, LatencyPoint, Layout, Point,
        StreamOperation, StreamPoint,
    },
    dtype::Dtype,
    outcome::{Measurement, Outcome},
    spec::{CacheLevel, Conditions, Part, Properties, headline, lights},
    units::{Bytes, Seconds},
};
use fizeau_record::Record;
use fizeau_report::{
    Block, Cell, Document, Table,
    format::terminal::{Colour, Terminal},
    generations::{self, Side},
};
use std::{env, fs, path::Path, sync::LazyLock};

static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue::load(None).expect("the embedded data"));

fn part(id: &str) -> &'static Part {
    CATALOGUE.parts.iter().find(|part| part.id == id).expect("a part")
}

fn gemm(dtype: Dtype, m: u32, n: u32, k: u32) -> Point {
    Point::Gemm(GemmPoint { dtype, m, n, k, layout: Layout::Nn, contents: Contents::Random })
}

/// Products between the machine balance of an A100 (153 FLOP/B) and that of an H100 (295).
const BETWEEN: (u32, u32, u32) = (256, 8192, 8192);

/// What a stub's record is made of: the part, and what share each kernel reaches of its limit.
struct Stub {
    part: &'static Part,
    shares: Vec<(&'static str, Point, f64)>,
}

impl Stub {
    fn a100() -> Stub {
        let (m, n, k) = BETWEEN;
        let part = part("a100-sxm4-80");
        let units = part.units.expect("SMs");
        Stub {
            part,
            shares: vec![
                ("portable", read(units, 4 << 30), 0.91),
                ("sm80_mma", compute(units), 0.97),
                ("sm80_mma", gemm(Dtype::Bf16, 8192, 8192, 8192), 0.90),
                ("sm80_mma", gemm(Dtype::Bf16, 1024, 1024, 1024), 0.70),
                ("sm80_mma", gemm(Dtype::Bf16, m, n, k), 0.80),
                ("sm80_mma", gemm(Dtype::Int8, 4096, 4096, 4096), 0.85),
                ("portable", chase(), 1.0),
            ],
        }
    }

    fn h100() -> Stub {
        let (m, n, k) = BETWEEN;
        let part = part("h100-sxm");
        let units = part.units.expect("SMs");
        Stub {
            part,
            shares: vec![
                ("portable", read(units, 8 << 30), 0.90),
                ("sm90_wgmma", compute(units), 0.95),
                ("sm80_mma", gemm(Dtype::Bf16, 8192, 8192, 8192), 0.30),
                ("sm80_mma", gemm(Dtype::Bf16, 1024, 1024, 1024), 0.20),
                ("sm90_wgmma", gemm(Dtype::Bf16, m, n, k), 0.78),
                ("sm90_wgmma", gemm(Dtype::Fp8, 8192, 8192, 8192), 0.75),
                ("portable", chase(), 1.0),
            ],
        }
    }

    fn record(&self) -> Record {
        let mut record = synthetic::record();
        let like = record.outcomes.iter().find_map(Outcome::measured).expect("one").clone();
        let units = self.part.units.expect("SMs");
        let cache =
            CacheLevel { level: 2, size: Bytes(40 << 20), shared_by: units, line: Bytes(128) };
        record.header.device = Properties {
            backend: "cuda".into(),
            name: format!("stub {}", self.part.name),
            vendor: "stub".into(),
            units,
            caches: vec![cache],
            ..Properties::default()
        };
        record.header.part = Some(self.part.id.clone());
        record.header.run = format!("stub-{}", self.part.id);
        let device = &record.header.device;
        let outcome = |(kernel, point, share): &(&str, Point, f64)| {
            let clock = self.part.clock_most;
            let conditions = Conditions { clock, hot: false, copies: 1, ..Conditions::default() };
            let speed_of_light = lights(point, device, Some(self.part), &conditions);
            let tier = headline(&speed_of_light);
            let light = speed_of_light.iter().find(|light| Some(light.tier) == tier);
            let time = light.map_or(Seconds(1e-6), |light| light.time);
            let mut one: Measurement = like.clone();
            one.case = Case { kernel: KernelName((*kernel).into()), point: *point };
            one.work = point.work();
            one.summary.median = time * (1.0 / share);
            (one.speed_of_light, one.tier) = (speed_of_light, tier);
            Outcome::Measured(Box::new(one))
        };
        record.outcomes = self.shares.iter().map(outcome).collect();
        record.header.plan = record.outcomes.iter().map(|one| one.case().clone()).collect();
        record
    }
}

fn read(units: u32, working_set: u64) -> Point {
    let working_set = Bytes(working_set);
    Point::Stream(StreamPoint { stream: StreamOperation::Read, working_set, units })
}

fn compute(units: u32) -> Point {
    Point::Compute(ComputePoint { dtype: Dtype::Bf16, units })
}

fn chase() -> Point {
    Point::Latency(LatencyPoint { working_set: Bytes(1 << 20), side: None, pair: None })
}

fn side<'r>(name: &str, record: Option<&'r Record>, id: &str) -> Side<'r> {
    let origin = if record.is_some() { format!("records/{id}") } else { "the catalogue".into() };
    Side { name: name.into(), record, part: Some(part(id)), origin }
}

/// The host, an A100 and an H100, both of a stub driver.
fn three<R>(then: impl FnOnce(&[Side<'_>]) -> R) -> R {
    let (host, a100, h100) = (synthetic::record(), Stub::a100().record(), Stub::h100().record());
    then(&[
        side("epyc-9005", Some(&host), "epyc-9005"),
        side("a100-sxm4-80", Some(&a100), "a100-sxm4-80"),
        side("h100-sxm", Some(&h100), "h100-sxm"),
    ])
}

/// Parts alone.
fn parts() -> [Side<'static>; 3] {
    ["a100-sxm4-80", "h100-sxm", "b200-hgx"].map(|id| side(id, None, id))
}

fn shown(document: &Document, format: ReportFormat, width: usize) -> String {
    let terminal = Terminal { width: Some(width), colour: Colour::Never };
    render(document, format, terminal).expect("it renders")
}

fn table<'d>(document: &'d Document, name: &str) -> &'d Table {
    document.tables().find(|table| table.name == name).expect("the table")
}

#[test]
fn every_format_of_three_records_and_of_parts_alone() {
    let page = |name: &str, document: &Document, table: &Table| {
        for width in [80, 120] {
            let text = shown(document, ReportFormat::Terminal, width);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{longest:?} of {width}");
            insta::assert_snapshot!(format!("{name}_{width}.txt"), text);
        }
        insta::assert_snapshot!(format!("{name}.md"), shown(document, ReportFormat::Markdown, 0));
        insta::assert_snapshot!(format!("{name}.json"), shown(document, ReportFormat::Json, 0));
        let csv = fizeau_report::format::csv::of_table(table).expect("a table");
        insta::assert_snapshot!(format!("{name}.csv"), csv);
        let html = shown(document, ReportFormat::Html, 0);
        assert!(html.contains("machine balance") && html.trim_end().ends_with("</html>"), "{html}");
        if let Some(dir) = env::var_os("FIZEAU_REPORT_DIR") {
            fs::write(Path::new(&dir).join(format!("{name}.html")), html).expect("written");
        }
    };
    three(|sides| page("three", &generations::document(sides), &generations::table(sides)));
    let sides = parts();
    page("parts", &generations::document(&sides), &generations::table(&sides));
}

/// The rule: the time that an iteration would save at the old share. A large product that fell to
/// 30 % comes before a small one that fell deeper; what fell by 2 points is no loss.
#[test]
fn what_lost_most_time_is_tuned_first() {
    three(|sides| {
        let document = generations::document(sides);
        let rows = &table(&document, "tune_again").rows;
        let names: Vec<_> = rows.iter().map(|row| row[0].clone()).collect();
        let code = |name: &str| Cell::Code(name.into());
        assert_eq!(names, [code("gemm/bf16/8192x8192x8192"), code("gemm/bf16/1024x1024x1024")]);
        let share = |cell: &Cell| match cell {
            Cell::StubShare(share) => *share,
            other => panic!("{other:?}"),
        };
        assert!((share(&rows[0][1]) - 0.30).abs() < 1e-9, "{:?}", rows[0]);
        assert!((share(&rows[0][2]) - 0.90).abs() < 1e-9, "{:?}", rows[0]);
        let of_all: f64 = rows.iter().map(|row| share(&row[4])).sum();
        assert!((of_all - 1.0).abs() < 1e-9, "{of_all}");
        // t (1 - s / s') of both, by hand: t is the limit's time over the share.
        let work = |m: f64| 2.0 * m * m * m;
        let lost = |m: f64, now: f64, before: f64| work(m) / now * (1.0 - now / before);
        let first = lost(8192.0, 0.3, 0.9);
        let expected = first / (first + lost(1024.0, 0.2, 0.7));
        assert!((share(&rows[0][4]) - expected).abs() < 1e-6, "{:?}", rows[0][4]);
        let Block::Text(words) = &document.blocks[1] else { panic!("{:?}", document.blocks[1]) };
        let said = "gemm/bf16/8192x8192x8192: 90 % (stub) on a100-sxm4-80 (stub), 30 % (stub) on \
                    h100-sxm (stub)";
        assert!(words.contains(said), "{words}");
    });
}

#[test]
fn work_between_two_balances_is_bound_by_another_resource() {
    let (m, n, k) = BETWEEN;
    let name = format!("gemm/bf16/{m}x{n}x{k}");
    let bounds = |sides: &[Side<'_>]| {
        let document = generations::document(sides);
        let rows = table(&document, "bounds").rows.clone();
        let of_row = rows.into_iter().filter(|row| row[0] == Cell::Code(name.clone()));
        of_row.map(|row| row[1..].to_vec()).collect::<Vec<_>>()
    };
    let text = |words: &str| Cell::Text(words.into());
    three(|sides| {
        let row = ["memory", "compute", "a100-sxm4-80 (stub)", "both records"].map(text).to_vec();
        assert_eq!(bounds(sides), [row]);
    });
    // Of a part without a record by its datasheet.
    let h100 = Stub::h100().record();
    let sides = [side("a100-sxm4-80", None, "a100-sxm4-80"), side("h100", Some(&h100), "h100-sxm")];
    let row = ["memory", "compute", "a100-sxm4-80", "its datasheet"].map(text);
    assert_eq!(bounds(&sides), [row.to_vec()]);
}

/// What one record alone has is named, and what has no share is counted.
#[test]
fn nothing_that_one_side_alone_has_is_left_out() {
    three(|sides| {
        let document = generations::document(sides);
        let apart = &table(&document, "not_on_all").rows;
        let find = |name: &str| apart.iter().find(|row| row[0] == Cell::Code(name.into()));
        let fp8 = find("gemm/fp8/8192x8192x8192").expect("on the H100 alone");
        assert_eq!(fp8[1], Cell::Text("h100-sxm (stub)".into()));
        assert_eq!(fp8[2], Cell::Text("epyc-9005, a100-sxm4-80 (stub)".into()));
        assert!(find("gemm/int8/4096x4096x4096").is_some(), "on the A100 alone");
        // A stream of other sizes over memory is the same operation on all.
        assert!(find("stream/read/memory").is_none(), "{apart:?}");
        let all: usize = sides
            .iter()
            .filter_map(|side| side.record)
            .map(|record| {
                let measured = record.outcomes.iter().filter_map(Outcome::measured);
                measured.filter(|one| one.utilisation().is_some()).count()
            })
            .sum();
        let rows = table(&document, "generation_rows").rows.len();
        // Working sets that lie in memory share a row for each kernel.
        assert!(rows <= all && rows > all / 2, "{rows} of {all}");
        let notes: Vec<&str> = document
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Note(note) => Some(note.as_str()),
                _ => None,
            })
            .collect();
        assert!(notes[1].contains("stub without a limit (latency)"), "{notes:?}");
    });
}

/// Whatever shows a number of a stub is marked, in every line that has one.
#[test]
fn numbers_of_a_stub_are_marked_wherever_they_stand() {
    three(|sides| {
        let document = generations::document(sides);
        let of_stub = |cell: &Cell| match cell {
            Cell::Text(words) => words.contains("stub") || !words.contains('%'),
            Cell::StubShare(_) | Cell::Code(_) | Cell::Absent => true,
            Cell::Relative { is_stub, .. } => *is_stub,
            _ => false,
        };
        for name in ["generation_rows", "tune_again"] {
            for row in &table(&document, name).rows {
                let is_stub = row
                    .iter()
                    .any(|cell| matches!(cell, Cell::Text(words) if words.ends_with("(stub)")));
                assert!(!is_stub || row.iter().all(of_stub), "{row:?}");
            }
        }
        let json: serde_json::Value =
            serde_json::from_str(&shown(&document, ReportFormat::Json, 0)).expect("JSON");
        let maps = json["heat_maps"]["operation_shares"].as_array().expect("values");
        let mut count = 0;
        for heat in maps.iter().filter(|heat| !heat["value"].is_null()) {
            let is_stub = heat["column"].as_str().expect("a name") != "epyc-9005";
            assert_eq!(heat["stub"] == true, is_stub, "{heat}");
            assert_eq!(heat["share"].is_null(), is_stub, "{heat}");
            count += 1;
        }
        assert!(count > 3, "{count}");
    });
}

/// A record of an architecture that no kernel is made for: its portable kernels have no share, are
/// counted, and nothing is called a loss.
#[test]
fn portable_kernels_of_an_unknown_architecture_are_counted_and_not_judged() {
    let (a100, mut unknown) = (Stub::a100().record(), Stub::h100().record());
    unknown.header.environment.unknown_architecture = Some("sm_130".into());
    for one in synthetic::measured_in(&mut unknown) {
        let image = fizeau_domain::outcome::Code::Image {
            sha256: "0".repeat(64),
            target: "compute_80".into(),
            compiler: "NVRTC stub".into(),
        };
        one.code = vec![image];
    }
    let sides = [side("old", Some(&a100), "a100-sxm4-80"), side("new", Some(&unknown), "h100-sxm")];
    let document = generations::document(&sides);
    assert!(document.tables().all(|table| table.name != "tune_again"), "nothing is judged");
    let text = shown(&document, ReportFormat::Terminal, 120);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("stub of portable kernels, which are not made for its architecture"),
        "{text}"
    );
}
