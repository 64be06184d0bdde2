//! Every format of claims, what-ifs, shapes, reproductions and power frontiers, as snapshots: in
//! the terminal 80 columns wide.

use crate::{frontier::rung, reproduction, tiers, tokens::part};
use fizeau::{
    cmd::{
        document::{ReportFormat, render},
        reproduce::bundle::Bundle,
    },
    data::Catalogue,
};
use fizeau_domain::{
    model::Format,
    units::{BytesPerSecond, Seconds},
};
use fizeau_projection::{
    claim::{Claim, ClaimFile, Here, Named, judge, reproduce},
    project::{
        Alternative, Apart, Demand, DraftCost, Hardware, Offer, Seen, Serving, Speculation, Speed,
        project_with,
        shapes::{Forms, Shapes},
    },
};
use fizeau_report::{
    self as report, Block, Bundled, Document,
    format::{
        csv,
        terminal::{Colour, Terminal},
    },
};
use std::{fs, path::Path};

const NARROW: Terminal = Terminal { width: Some(80), colour: Colour::Never };

/// What of a document is CSV.
enum Csv {
    /// Nothing: no command prints it.
    None,
    /// This table.
    Table(&'static str),
    /// What `fizeau report --format csv` prints.
    Report,
}

/// What a document is in every format.
fn keep(name: &str, document: &Document, csv: Csv) {
    let shown = |format| render(document, format, NARROW).expect("it renders");
    let text = shown(ReportFormat::Terminal);
    let wide = text.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{name} is wider than its terminal");
    let csv = match csv {
        Csv::None => None,
        Csv::Table(table) => Some(csv::of_tables(document, &[table]).expect("CSV")),
        Csv::Report => Some(csv::render(document).expect("CSV")),
    };
    let page = shown(ReportFormat::Html);
    insta::assert_snapshot!(format!("{name}.txt"), text);
    insta::assert_snapshot!(format!("{name}.md"), shown(ReportFormat::Markdown));
    if let Some(csv) = csv {
        insta::assert_snapshot!(format!("{name}.csv"), csv);
    }
    insta::assert_snapshot!(format!("{name}.json"), shown(ReportFormat::Json));
    insta::assert_snapshot!(format!("{name}.html"), page);
    if let Some(dir) = std::env::var_os("FIZEAU_REPORT_DIR") {
        fs::write(Path::new(&dir).join(format!("{name}.html")), page).expect("it is written");
    }
}

/// Every claim that is built in, with its arithmetic.
#[test]
fn claims() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let parse = |text: &String| ClaimFile::parse(text).expect("a file of claims").claim;
    let claims = catalogue.claims.values().flat_map(parse);
    let judged: Vec<_> = claims
        .map(|claim| {
            let model = claim.model.as_ref().map(|name| catalogue.model(name).expect("a model"));
            let part = catalogue.parts.iter().find(|part| Some(&part.id) == claim.on.as_ref());
            let layout = claim.layout.as_ref().map(|text| text.parse().expect("a layout"));
            let verdict = judge(&claim, &Named { part, model, layout, links: &catalogue.links })
                .expect("judged");
            (claim, verdict)
        })
        .collect();
    keep("claims", &report::verdicts(&judged), Csv::Table("claims"));
}

fn demand() -> Demand {
    let seen = Seen { first_token: None, token: Some(Seconds(0.01)) };
    Demand { seen, ..tiers::demand() }
}

fn offer(hardware: Hardware, layout: &str) -> Offer {
    let layouts = vec![layout.parse().expect("a layout")];
    Offer { hardware, layouts, price: Some(2.0), power: None }
}

/// Blocks from a heading up to the next one.
fn section(document: Document, heading: &str) -> Document {
    let is = |block: &Block| matches!(block, Block::Heading(text) if text == heading);
    let is_heading = |block: &Block| matches!(block, Block::Heading(_));
    let start = document.blocks.iter().position(is).expect("the heading");
    let mut blocks = document.blocks;
    blocks.drain(..start);
    let end = blocks.iter().skip(1).position(is_heading).map_or(blocks.len(), |at| at + 1);
    blocks.truncate(end);
    Document { blocks, ..document }
}

#[test]
fn what_ifs() {
    let demand = demand();
    let base = offer(part("h200-sxm", true), "tp1");
    let with = |name: &str, demand: Demand, offer: Offer, accuracy: Option<f64>| Alternative {
        name: name.into(),
        demand,
        offer,
        accuracy,
        notes: vec![format!("a note on {name}")],
    };
    let stored = |format| {
        let mut demand = demand.clone();
        demand.model.precision = demand.model.precision.with_linear(format);
        demand
    };
    let served = |serving| Demand { serving, ..demand.clone() };
    let speculation = Speculation { accepted: 2.6, drafted: 3, cost: DraftCost::Share(0.1) };
    let apart =
        Apart { layout: "tp2".parse().expect("a layout"), rate: Some(BytesPerSecond(50e9)) };
    let mut capped = base.clone();
    capped.hardware.speed = Speed { memory: 1.0, compute: 0.9 };
    let alternatives = vec![
        with("layout=tp2", demand.clone(), offer(part("h200-sxm", true), "tp2"), None),
        with("on=mi300x", demand.clone(), offer(part("mi300x", true), "tp1"), None),
        // Nothing published: it rests on a datasheet alone.
        with("on=l40s", demand.clone(), offer(part("l40s", false), "tp1"), None),
        with("on=a host", demand.clone(), offer(tiers::host(), "tp1"), None),
        with(
            "accept=2.6,draft=3",
            served(Serving { speculation: Some(speculation), apart: None }),
            base.clone(),
            None,
        ),
        with(
            "prefill=tp2",
            served(Serving { speculation: None, apart: Some(apart) }),
            base.clone(),
            None,
        ),
        with("cap=500", demand.clone(), capped, None),
        with("precision=bf16", stored(Format::Bf16), base.clone(), Some(72.1)),
        with("precision=fp8", stored(Format::Fp8), base.clone(), Some(71.8)),
    ];
    let projected = project_with(demand, vec![base], alternatives).expect("projected");
    let document = section(report::projection(&projected), "What if");
    keep("what_if", &document, Csv::Table("what_if_points"));
}

#[test]
fn shapes() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let layout = "tp2".parse().expect("a layout");
    let Demand { scenario, .. } = demand();
    for (name, forms) in
        [("fused", Forms::Fused), ("separate", Forms::Separate), ("both", Forms::Both)]
    {
        let model = catalogue.model("gpt-oss-20b").expect("a model");
        let shapes = Shapes::of(&model, layout, &scenario, &[1, 16], forms);
        insta::assert_snapshot!(format!("shapes_{name}.toml"), shapes.suite("shapes", name));
    }
}

/// A claim of a host that is not reached, with conditions that are met, not met and not told.
#[test]
fn reproductions() {
    let conditions = "vendor = \"amd\"\nwhole = true\necc = true\n";
    let (claim, case) = reproduction::twice(conditions);
    let rounds = reproduction::rounds(&reproduction::STEADY, |record| {
        record.header.device.virtualised = Some("KVM".into());
    });
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let part = catalogue.parts.iter().find(|part| Some(&part.id) == claim.on.as_ref());
    let named = Named { part, model: None, layout: None, links: &catalogue.links };
    let possible = judge(&claim, &named).expect("judged");
    let here = Here { part, possible: &possible, case: &case, rounds: &rounds };
    let run = claim.run.as_ref().expect("it runs");
    let found = reproduce(&claim, run, here).expect("rounds");
    let files = [("claim.toml".to_owned(), "00ff".to_owned())];
    let command = "fizeau reproduce claim.toml --device host --rounds 4";
    let document = report::reproduction(&Bundled {
        claim: &claim,
        found: &found,
        case: &case,
        claim_text: "[[claim]]\nid = \"own\"\n",
        command,
        files: &files,
        program: "not computed by a test build",
        record: &rounds[0],
    });
    keep("reproduction", &document, Csv::None);
    // What `--json` prints and `reproduction.json` holds.
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["claim.toml", "suite.toml", "rounds/01/record.jsonl"] {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, file).expect("written");
    }
    let places = ["rounds/01".to_owned()];
    let bundle = Bundle::of(&found, &claim, &case, &places, command, folder.path());
    bundle.expect("a bundle").write(folder.path()).expect("written");
    let written = fs::read_to_string(folder.path().join("reproduction.json")).expect("text");
    // The hash of the program differs with how it was built.
    let stable = written.lines().filter(|line| !line.contains("program_sha256"));
    let stable: Vec<&str> = stable.collect();
    insta::assert_snapshot!("reproduction.bundle.json", stable.join("\n"));
}

#[test]
fn claims_that_can_be_run() {
    let claim = |id: &str, on: &str| Claim {
        id: id.into(),
        value: "4.8 TB/s".into(),
        on: Some(on.into()),
        source: Some("a datasheet".into()),
        ..Claim::default()
    };
    let listed =
        [(claim("one", "h200-sxm"), Err("on its GPU".into())), (claim("two", "epyc-9005"), Ok(()))];
    keep("reproduce_list", &report::claims_listed(&listed, "host"), Csv::None);
}

#[test]
fn power_frontiers() {
    let rungs = [
        rung("as it is set", 1.0, 700.0, true),
        rung("power limit 500 W", 1.0 / 0.92, 500.0, true),
        rung("power limit 350 W", 1.0 / 0.7, 350.0, true),
        rung("as it is set, again", 1.03, 700.0, true),
    ];
    keep("frontier", &report::frontier(&rungs, &["a note".into()]), Csv::Report);
}
