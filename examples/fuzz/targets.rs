//! Records, suites, parts, selectors, and what ranks say when they meet.

use super::{
    kinds::texts,
    mutate::{Chance, change, change_bytes, change_lines, change_point},
};
use fizeau::{
    cmd::document::{ReportFormat, render},
    data::Catalogue,
    session,
    world::Roster,
};
use fizeau_bench::{self as bench, Rank};
use fizeau_comm::{
    Alone,
    preflight::{Facts, Sharing},
    rendezvous::{
        MeetingWay, hear,
        token::{NONCE, TAG, Token},
    },
};
use fizeau_device::{Device, fake::Fake};
use fizeau_domain::{
    case::{Case, KernelName, Point},
    selector::Selector,
    spec::{
        self, Part, Properties,
        part::{GpuFile, HostFile, LinkFile},
    },
    suite::Suite,
    text::is_hidden,
};
use fizeau_judge::compare::{Comparison, Options, Waiver};
use fizeau_record::{Record, store};
use fizeau_report::{
    self as report,
    format::{
        nccl_tests,
        terminal::{Colour, Terminal},
    },
};
use serde_json::{Value, json};
use std::{
    io::{self, ErrorKind, Read, Write},
    sync::LazyLock,
};

static SUITES: LazyLock<Vec<String>> = LazyLock::new(|| texts(&["data/suites"]));
static PARTS: LazyLock<Vec<String>> =
    LazyLock::new(|| texts(&["data/parts", "data/hosts", "data/links"]));
static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::load(None).expect("the data"));
static GOLDEN: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let golden = include_str!("../../tests/golden/v1.jsonl");
    golden.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
});

/// The cases of the golden record.
static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let golden = include_bytes!("../../tests/golden/v1.jsonl");
    store::parse_text(golden).expect("a record").header.plan
});

/// Points of operations that the golden record has none of.
static POINTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let points = json!([
        { "operation": "grouped", "dtype": "bf16", "m": 64, "n": 64, "k": 64, "groups": 8,
          "routing": "skewed" },
        { "operation": "access", "access": "gather", "working_set": 1048576, "row": 64, "units": 4 },
        { "operation": "transfer", "transfer": "host_to_device_memcpy", "size": 65536,
          "host": "pinned", "device": 0, "copies": 1 },
        { "operation": "transfer", "transfer": "all_to_one_read", "size": 65536,
          "host": "pinned", "device": 0, "peer": 3, "copies": 7 },
        { "operation": "launch", "launching": "graph", "kernels": 32 },
        { "operation": "latency", "working_set": 17179869184u64, "side": "far" },
        { "operation": "attention", "attention": "decode", "dtype": "fp8", "batch": 64,
          "heads": 32, "kv_heads": 8, "queries": 1, "keys": 8192, "dim_qk": 128, "dim_v": 128,
          "mask": "causal", "lengths": "ragged", "page": 64 },
        { "operation": "collective", "collective": "all_to_allv", "dtype": "bf16",
          "message": 1048576, "ranks": 8, "place": "in_place", "buffers": "symmetric", "graph": 16 },
        { "operation": "collective", "collective": "all_reduce", "dtype": "f32",
          "message": 65536, "ranks": 3, "place": "out_of_place" }
    ]);
    points.as_array().expect("a list").clone()
});

/// A record of a few of the golden record's outcomes, with other points and numbers.
pub fn record(chance: &mut Chance) -> Vec<u8> {
    let mut header = GOLDEN[0].clone();
    let outcomes: Vec<&Value> = GOLDEN.iter().filter(|line| line["line"] == "outcome").collect();
    let (mut plan, mut lines) = (Vec::new(), Vec::new());
    for number in 0..1 + chance.below(5) {
        let mut line = (*chance.pick(&outcomes)).clone();
        let owner =
            if line.get("measurement").is_some() { &mut line["measurement"] } else { &mut line };
        let case = &mut owner["case"];
        if chance.one_in(2) {
            case["point"] = chance.pick(&POINTS).clone();
        }
        if chance.one_in(2) {
            change_point(&mut case["point"], chance);
        }
        if !chance.one_in(8) {
            case["kernel"] = json!(format!("k{number}"));
        }
        plan.push(case.clone());
        if chance.one_in(3) {
            owner["rank_times"] = json!([0.001, 0.002, 0.0011, 0.001, 0.0012]);
        }
        lines.push(line);
    }
    header["plan"] = plan.into();
    if chance.one_in(3) {
        header["device"]["vendor"] = json!("stub");
    }
    if chance.one_in(3) {
        header["environment"]["ranks"] =
            json!(["rank 0: n1, cuda:0 (X)", "rank 1: n1, cuda:1 (X)"]);
        header["environment"]["network"] = json!({ "nodes": 2, "interfaces": 1, "gigabits": 400 });
    }
    let mut all = vec![header];
    all.append(&mut lines);
    if !chance.one_in(4) {
        all.push(GOLDEN.last().expect("a footer").clone());
    }
    for _ in 0..chance.below(5) {
        let at = chance.below(all.len());
        change(&mut all[at], chance);
    }
    let lines = all.iter().map(|line| format!("{line}\n"));
    let text: String = lines.collect();
    if chance.one_in(16) { format!("\u{feff}{text}").into() } else { text.into() }
}

/// A record of many outcomes, one in ten of them measured.
pub fn long_record(outcomes: usize) -> Vec<u8> {
    let measured = GOLDEN.iter().find(|line| line["outcome"] == "measured").expect("one");
    let mut header = GOLDEN[0].clone();
    let case = |number: usize| {
        json!({
            "kernel": format!("k{number}"),
            "point": { "operation": "compute", "dtype": "f64", "units": 2 }
        })
    };
    header["plan"] = (0..outcomes).map(case).collect();
    let mut text = format!("{header}\n");
    for number in 0..outcomes {
        let line = if number % 10 == 0 {
            let mut line = measured.clone();
            line["case"] = case(number);
            line
        } else {
            json!({ "line": "outcome", "outcome": "skipped", "case": case(number), "reason": "r" })
        };
        text += &format!("{line}\n");
    }
    text.into()
}

pub fn read_record(input: &[u8]) -> bool {
    match store::parse_text(input) {
        Err(error) => {
            assert!(error.to_string().len() < 10_000, "an error without an end");
            false
        }
        Ok(record) => {
            // Pages and comparisons take long: of one in sixteen.
            let sum = input.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            show(&record, sum.is_multiple_of(16));
            let _ = Suite::parse(&record.header.suite_text);
            true
        }
    }
}

/// Makes every report of a record, and looks for what a reader would act upon.
fn show(record: &Record, at_length: bool) {
    let terminal = Terminal { width: Some(100), colour: Colour::Never };
    let document = report::run(record);
    let show = |document: &report::Document, format| {
        let text = render(document, format, terminal).expect("it renders");
        harmless(&text);
        text
    };
    show(&document, ReportFormat::Terminal);
    show(&document, ReportFormat::Markdown);
    show(&document, ReportFormat::Csv);
    let text = show(&document, ReportFormat::Json);
    serde_json::from_str::<Value>(&text).expect("it is JSON");
    let tests = report::nccl_tests(record);
    harmless(&nccl_tests::text(&tests));
    harmless(&nccl_tests::json(&tests));
    if at_length {
        show(&document, ReportFormat::Html);
        let (a, b) = (std::slice::from_ref(record), std::slice::from_ref(record));
        if let Ok(comparison) =
            Comparison::of(a, b, &Options { across: true, ..Options::default() })
        {
            show(&report::comparison(&comparison), ReportFormat::Terminal);
        }
    }
}

fn harmless(text: &str) {
    let bad = text.chars().find(|&c| c != '\n' && is_hidden(c));
    assert_eq!(bad, None, "a character that cannot be seen or acts on its reader");
}

/// A suite with lines of others.
pub fn suite(chance: &mut Chance) -> Vec<u8> {
    lines_of(&SUITES, chance)
}

/// A part with lines of others.
pub fn part(chance: &mut Chance) -> Vec<u8> {
    lines_of(&PARTS, chance)
}

pub fn lines_of(texts: &[String], chance: &mut Chance) -> Vec<u8> {
    let (text, other) = (chance.pick(texts).clone(), chance.pick(texts).clone());
    change_lines(&text, &other, chance).into()
}

pub fn read_suite(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(suite) = Suite::parse(text) else { return false };
    let device = Fake::default().device();
    let properties = device.properties();
    let rank = Rank { device: &device, peers: &Alone };
    let planned = bench::cases(&suite, rank);
    let shapes = suite.attention.iter().map(|point| Point::Attention(*point));
    let shapes = shapes.map(|point| Case { kernel: KernelName("k".into()), point });
    for case in planned.iter().cloned().chain(shapes).take(3000) {
        assert_eq!(case.check(), Ok(()), "{case} is planned");
        case.point.work();
        let _ = session::too_large(&case, properties, Some(properties.memory));
    }
    true
}

pub fn read_part(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let mut parts: Vec<Part> = Vec::new();
    if let Ok(file) = toml::from_str::<GpuFile>(text) {
        parts.extend(Part::of_gpu("fuzzed", &file, &CATALOGUE.links));
    }
    if let Ok(file) = toml::from_str::<HostFile>(text) {
        parts.extend(Part::of_host("fuzzed", &file));
    }
    let is_link = toml::from_str::<LinkFile>(text).is_ok();
    for part in &parts {
        let properties =
            Properties { name: part.name.clone(), units: 132, ..Properties::default() };
        let _ = spec::identify(&parts, &properties);
        let conditions = spec::Conditions::default();
        for case in CASES.iter() {
            let _ = spec::floor(&case.point, &properties, Some(part), &conditions);
        }
    }
    is_link || !parts.is_empty()
}

/// Ids that selectors select.
const IDS: [&str; 4] = [
    "gemm/bf16/512x512x512/avx512",
    "stream/copy/1MiB/1u/plain",
    "collective/all_reduce/f32/4KiB/2r/out_of_place/threads",
    "attention/decode/bf16/b4-h32-kv8-q1-k4096-d128x128-full-ragged-page64/blocked",
];

pub fn selector(chance: &mut Chance) -> Vec<u8> {
    const PIECES: &[&str] = &[
        "*",
        "?",
        "[",
        "]",
        "{",
        "}",
        ",",
        "!",
        "/",
        "\\",
        "-",
        "^",
        "**",
        "gemm",
        "stream",
        "[a-z]",
        "{a,b}",
        "[!x]",
        "\u{1f600}",
        "\u{0}",
        "=reason",
        "a",
        "?????????",
        "{{,}}",
        "[\u{0}-\u{10ffff}]",
    ];
    let mut words = String::new();
    for _ in 0..1 + chance.below(3) {
        if chance.one_in(3) {
            words.push_str(chance.pick::<&str>(&IDS));
        }
        for _ in 0..chance.below(12) {
            let times = if chance.one_in(20) { 1 + chance.below(2000) } else { 1 };
            words.push_str(&chance.pick(PIECES).repeat(times));
        }
        words.push('\n');
    }
    words.into()
}

pub fn read_selector(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let words: Vec<String> = text.lines().map(str::to_owned).collect();
    let ids = IDS.map(str::to_owned);
    if let Some(Ok(waiver)) = words.first().map(|word| word.parse::<Waiver>()) {
        let _ = waiver.knows(IDS[0]);
    }
    match Selector::parse(&words) {
        Err(error) => {
            assert!(error.to_string().len() < 10_000, "an error without an end");
            false
        }
        Ok(selector) => {
            let _ = ids.iter().filter(|id| selector.selects(id)).count();
            let _ = selector.all_select(&ids);
            true
        }
    }
}

/// One who connects to the first rank. The first bytes of an input say what is wrong with it.
struct Peer {
    flags: u8,
    rank: u32,
    said: Vec<u8>,
    token: Token,
    /// What is still to be read.
    waiting: Vec<u8>,
    stage: u8,
}

const TOKEN: &str = "0123456789abcdef";
const OURS: [u8; NONCE] = [7; NONCE];

/// What can be wrong, by bit.
const BAD_PROOF: u8 = 1;
const BAD_TAG: u8 = 2;
const BAD_LENGTH: u8 = 4;
const IN_PIECES: u8 = 8;
const NO_PROTOCOL: u8 = 16;

impl Peer {
    fn of(input: &[u8]) -> Option<Peer> {
        let (&flags, rest) = input.split_first()?;
        let (rank, said) = rest.split_first_chunk::<4>()?;
        let token = Token::new(TOKEN.into())?;
        let rank = u32::from_le_bytes(*rank);
        let mut peer =
            Peer { flags, rank, said: said.to_vec(), token, waiting: Vec::new(), stage: 0 };
        if flags & NO_PROTOCOL != 0 {
            peer.waiting = peer.said.clone();
        } else {
            peer.send(&[&OURS]);
        }
        Some(peer)
    }

    fn send(&mut self, parts: &[&[u8]]) {
        let message = parts.concat();
        let wrong = u64::from(self.flags & BAD_LENGTH != 0) * self.said.len() as u64;
        let length = (message.len() as u64).wrapping_add(wrong);
        self.waiting.extend(length.to_le_bytes());
        self.waiting.extend(message);
    }
}

impl Read for Peer {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.waiting.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let most = if self.flags & IN_PIECES != 0 { 3 } else { bytes.len() };
        let count = most.min(bytes.len()).min(self.waiting.len());
        bytes[..count].copy_from_slice(&self.waiting[..count]);
        self.waiting.drain(..count);
        Ok(count)
    }
}

impl Write for Peer {
    /// The first rank's nonce, once: what follows is proved by it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let theirs = bytes.get(8..8 + NONCE).filter(|_| self.stage == 0);
        if let Some(theirs) = theirs.map(<[u8]>::to_vec) {
            self.stage = 1;
            let rank = self.rank.to_le_bytes();
            let proof = self.token.tag(&[b"tcp other", &OURS, &theirs, &rank, b""]);
            let proof = if self.flags & BAD_PROOF != 0 { [0; TAG] } else { proof };
            self.send(&[&rank, &proof]);
            let tag = self.token.tag(&[b"tcp said", &OURS, &theirs, &rank, &self.said]);
            let tag = if self.flags & BAD_TAG != 0 { [0; TAG] } else { tag };
            let said = self.said.clone();
            self.send(&[&tag, &said]);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn introduction() -> Value {
    json!({ "facts": Facts { fizeau: "0.1.0".into(), ..Facts::default() }, "id": null })
}

pub fn rendezvous(chance: &mut Chance) -> Vec<u8> {
    let mut said = introduction();
    said["facts"]["rank"] = json!(1);
    for _ in 0..chance.below(5) {
        change(&mut said, chance);
    }
    let mut said = said.to_string().into_bytes();
    if chance.one_in(4) {
        change_bytes(&mut said, chance);
    }
    if chance.one_in(16) {
        said = format!("tcp:{}:{}", "n".repeat(chance.below(300)), chance.below(99_999)).into();
    }
    // Most know the protocol and the token, and say what is strange.
    let flags = if chance.one_in(2) { 0 } else { chance.below(32) as u8 };
    let rank = if chance.one_in(8) { chance.below(1 << 33) as u32 } else { 1 };
    [&[flags][..], &rank.to_le_bytes(), &said].concat()
}

pub fn read_rendezvous(input: &[u8]) -> bool {
    let Some(peer) = Peer::of(input) else { return false };
    let (flags, rank, said) = (peer.flags, peer.rank, peer.said.clone());
    let word = String::from_utf8_lossy(&said).into_owned();
    let _ = MeetingWay::of(|name| {
        Some(if name == "FIZEAU_TOKEN" { TOKEN.into() } else { word.clone() })
    });
    let heard = match hear(&peer.token.clone(), 3, peer) {
        Ok(Some(heard)) => heard,
        Ok(None) | Err(_) => return false,
    };
    assert_eq!(flags & (BAD_PROOF | BAD_TAG | NO_PROTOCOL), 0, "believed without a proof");
    assert_eq!(heard, (rank, said), "believed, and not as it was said");
    let first = introduction().to_string().into_bytes();
    Roster::of(&[first, heard.1], Sharing::Refused).is_ok()
}

pub fn read_planted(input: &[u8]) -> bool {
    match input {
        b"10" => panic!("a planted panic"),
        // The compiler may leave out memory that nobody looks at.
        b"20" => std::hint::black_box(vec![1u8; 2 << 30]).len() > input.len(),
        b"30" => {
            std::thread::sleep(std::time::Duration::from_secs(60));
            true
        }
        _ => true,
    }
}
