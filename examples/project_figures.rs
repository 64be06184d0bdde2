//! Prints docs/appendix/project-figures.md: how near published rates of tokens come to the three
//! tiers, and how long a projection takes on this machine. `scripts/project_figures.sh` writes the
//! page.

use fizeau::data::Catalogue;
use fizeau_domain::model::Format;
use fizeau_projection::project::{Hardware, Layout, MediansFile, Public, Scenario, point};
use std::time::{Duration, Instant};

#[path = "../tests/tightness/mod.rs"]
mod tightness;

/// Points of the long measurement.
const POINTS: u32 = 10_000;

fn main() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    println!("# Figures of projections\n");
    println!(
        "Printed by `scripts/project_figures.sh`. No row was measured by this project: achieved \
         rates are published ones, and L2 takes published rates of the part (data/medians) for \
         lack of a record of these machines.\n"
    );
    println!("## Published points beside the tiers\n");
    println!(
        "Shares of achieved / tier, where 1 is as fast as the tier. A tier's count is of the points \
         of which it is known. L0 and L1 are taken with as many requests at once as fit, where the \
         source does not state their number; a real engine may have run fewer. A star marks a \
         point of which a condition was not stated: its note in data/claims names what was taken.\n"
    );
    print!("{}", tightness::table(&tightness::all(&catalogue)));
    println!(
        "\nA share of L1's time without published rates counts as in L1, so that L2 is then nearer \
         to L1 than to the machine. L2 is not stated (-) where that is most of the time, where \
         launches and messages whose least time nobody published would count, or where nothing is \
         published of the part.\n"
    );
    speed(&catalogue);
}

/// How long points take.
fn speed(catalogue: &Catalogue) {
    let part = catalogue.parts.iter().find(|part| part.id == "h200-sxm").expect("a part");
    let mut hardware = Hardware::of_part(part).expect("whole");
    let (_, text) = catalogue.medians(&part.id).expect("published rates");
    let file: MediansFile = toml::from_str(text).expect("a file of rates");
    hardware.public = Some(Public::of(&file, &hardware).expect("rates that can be"));
    let scenario =
        Scenario { input: 1000, prefix: 0, output: 1000, kv: Format::Fp8, memory_share: 0.9 };
    let mut slowest = (Duration::ZERO, String::new());
    let mut count = 0;
    for name in catalogue.model_names() {
        let model = catalogue.model(name).expect("understood");
        for text in ["tp1", "tp8", "ep8", "tp2pp4"] {
            let layout: Layout = text.parse().expect("a layout");
            if layout.check(&model).is_err() {
                continue;
            }
            let start = Instant::now();
            point(&model, &hardware, layout, &scenario, 64).expect("a point");
            let time = start.elapsed();
            count += 1;
            if time > slowest.0 {
                slowest = (time, format!("{name}, {text}"));
            }
        }
    }
    let model = catalogue.model("deepseek-v3").expect("a model");
    let layout: Layout = "ep8".parse().expect("a layout");
    let start = Instant::now();
    for requests in 1..=POINTS {
        point(&model, &hardware, layout, &scenario, requests).expect("a point");
    }
    let all = start.elapsed();
    println!("## How long a projection takes\n");
    println!(
        "On one core of this machine ({}), {}: one point is decode and prefill in all tiers, with \
         published rates.\n",
        cpu(),
        if cfg!(debug_assertions) { "a build with debug assertions" } else { "a release build" }
    );
    println!("| what | time | limit |\n|---|--:|--:|");
    let milliseconds = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
    println!(
        "| the slowest of {count} points, each model in up to four layouts ({}) | {} | 10 ms |",
        slowest.1,
        milliseconds(slowest.0)
    );
    println!("| {POINTS} points of DeepSeek-V3 by ep8 | {:.2} s | 5 s |", all.as_secs_f64());
    println!("| one of these on average | {} | 10 ms |", milliseconds(all / POINTS));
    assert!(slowest.0 < Duration::from_millis(10) && all < Duration::from_secs(5));
}

/// The CPU's name.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(": ")).map(|(_, name)| name.to_owned());
    name.unwrap_or_else(|| "unknown CPU".into())
}
