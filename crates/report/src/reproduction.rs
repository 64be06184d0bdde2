//! The report of a claim that was run: one page that the other side can check and run again.

use super::{
    Block, Cell, Column, Document, Fact, Listing, Table, Weight, reproduce as program_and_settings,
};
use fizeau_projection::claim::{Claim, Reproduction, Statement};
use fizeau_record::Record;

const CONDITIONS: &[Column] = &[
    Column { key: "condition", title: "condition", weight: Weight::Essential },
    Column { key: "stated", title: "stated", weight: Weight::Essential },
    Column { key: "here", title: "here", weight: Weight::Essential },
    Column { key: "met", title: "is", weight: Weight::Essential },
];

const ROUNDS: &[Column] = &[
    Column { key: "round", title: "process", weight: Weight::Essential },
    Column { key: "measured", title: "measured", weight: Weight::Essential },
    Column { key: "share", title: "of the claim", weight: Weight::Essential },
];

const FILES: &[Column] = &[
    Column { key: "file", title: "file", weight: Weight::Essential },
    Column { key: "sha256", title: "SHA-256", weight: Weight::Essential },
];

const LISTED: &[Column] = &[
    Column { key: "claim", title: "claim", weight: Weight::Essential },
    Column { key: "value", title: "figure", weight: Weight::Essential },
    Column { key: "on", title: "on", weight: Weight::Essential },
    Column { key: "runs", title: "fizeau reproduce", weight: Weight::Essential },
    Column { key: "source", title: "source", weight: Weight::Detail },
];

/// Everything that stands on the page, beside the answer.
#[derive(Clone, Debug)]
pub struct Bundled<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// What came of it.
    pub found: &'a Reproduction,
    /// The case that counts.
    pub case: &'a str,
    /// The claim's file, whole.
    pub claim_text: &'a str,
    /// The command that did this, word by word, with the claim's file beside it.
    pub command: &'a str,
    /// Files of the directory and their SHA-256, hexadecimal.
    pub files: &'a [(String, String)],
    /// The program's SHA-256, hexadecimal.
    pub program: &'a str,
    /// The record of the first round that counts.
    pub record: &'a Record,
}

/// The page.
pub fn document(of: &Bundled<'_>) -> Document {
    let Bundled { claim, found, record, .. } = of;
    let share = found.spelled_share();
    let answer = found.answer();
    let mut title = answer[..1].to_uppercase() + &answer[1..];
    title.extend(share.iter().map(|share| format!(": {share}")));
    let mut blocks = vec![Block::Text(sentence(claim, found))];
    blocks.extend(found.causes.iter().map(|cause| Block::Warning(cause.clone())));
    blocks.push(Block::Facts(facts(of)));
    blocks.push(Block::Heading("Conditions".into()));
    match found.conditions.is_empty() {
        true => blocks.push(Block::Text("The claim states no conditions.".into())),
        false => blocks.push(Block::Table(conditions(found))),
    }
    blocks.push(Block::Heading("Measurement".into()));
    blocks.push(Block::Text(method(of)));
    blocks.push(Block::Table(rounds(claim, found)));
    blocks.push(Block::Table(program_and_settings::table(record)));
    blocks.push(Block::Heading("The claim".into()));
    for (what, words) in [("Source", &claim.source), ("Note", &claim.note)] {
        blocks.extend(
            words
                .iter()
                .map(|words| Block::Text(format!("{what}: {}.", words.trim_end_matches('.')))),
        );
    }
    blocks.push(listing("claim", "claim.toml", of.claim_text));
    blocks.push(Block::Heading("Check it, run it again".into()));
    blocks.push(Block::Text(
        "The records beside this page hold every sample. The first command compares their hashes \
         and judges them again; the second one measures on your own machine."
            .into(),
    ));
    let commands = format!("fizeau reproduce --check DIRECTORY\n{}", of.command);
    blocks.push(listing("commands", "Commands", &commands));
    blocks.push(Block::Table(files(of)));
    let header = &record.header;
    Document {
        title,
        subtitle: format!(
            "{} on {}, {}, fizeau {}",
            claim.value, header.device.name, header.started, header.fizeau
        ),
        blocks,
    }
}

fn listing(name: &str, title: &str, text: &str) -> Block {
    Block::Listing(Listing { name: name.into(), title: title.into(), text: text.into() })
}

/// The answer, with its reason.
fn sentence(claim: &Claim, found: &Reproduction) -> String {
    let id = if claim.id.is_empty() { String::new() } else { format!("{}: ", claim.id) };
    format!("{id}{:?} is {}. {}.", claim.value, words(found), capital(&found.why))
}

fn words(found: &Reproduction) -> String {
    let share = found.spelled_share().map(|share| format!(": {share}")).unwrap_or_default();
    match found.answer() {
        "cannot tell" => format!("neither confirmed nor refuted here{share}"),
        answer => format!("{answer}{share}"),
    }
}

fn capital(text: &str) -> String {
    let first = text.chars().next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + text.get(1..).unwrap_or_default()
}

fn figure(claim: &Claim, figure: f64) -> Cell {
    let spelled = claim.value.parse::<Statement>().map(|statement| statement.spelled(figure));
    Cell::Text(spelled.unwrap_or_default())
}

fn facts(of: &Bundled<'_>) -> Vec<Fact> {
    let Bundled { claim, found, case, .. } = of;
    let logarithms: f64 = found.figures.iter().map(|figure| figure.ln()).sum();
    let mean = (logarithms / found.figures.len().max(1) as f64).exp();
    let fact = |key: &str, label: &str, value, share, of: String, case: &str| Fact {
        share,
        of,
        case: case.into(),
        ..Fact::new(key, label, value)
    };
    let source = claim.source.clone().unwrap_or_default();
    vec![
        fact("claimed", "Claimed", Cell::Text(claim.value.clone()), None, source, ""),
        fact("measured", "Measured", figure(claim, mean), found.share, "of the claim".into(), case),
    ]
}

fn conditions(found: &Reproduction) -> Table {
    let row = |one: &fizeau_projection::claim::Condition| {
        let text = |text: &str| Cell::Text(text.into());
        vec![text(one.name), text(&one.stated), text(&one.here), text(&one.met.to_string())]
    };
    Table::new("conditions", "Stated and met", CONDITIONS, found.conditions.iter().map(row))
}

fn method(of: &Bundled<'_>) -> String {
    let Bundled { claim, found, case, .. } = of;
    let tolerance =
        claim.run.as_ref().map_or(0.0, fizeau_projection::claim::Run::tolerance) * 100.0;
    format!(
        "The case {case} was measured by {} fresh processes, each of which verified its result and \
         left a record. The answer is the geometric mean of their medians with its 95 % interval \
         (Student's t on logarithms, over processes). Up to {tolerance:.1} % below the figure \
         counts as reproduced.",
        found.figures.len()
    )
}

fn rounds(claim: &Claim, found: &Reproduction) -> Table {
    let claimed = claim.value.parse::<Statement>().map_or(f64::NAN, |one| one.figure());
    let row = |(at, measured): (usize, &f64)| {
        vec![Cell::Count(at as u64 + 1), figure(claim, *measured), Cell::Share(measured / claimed)]
    };
    Table::new("rounds", "Each process", ROUNDS, found.figures.iter().enumerate().map(row))
}

fn files(of: &Bundled<'_>) -> Table {
    let row = |file: &str, hash: &str| vec![Cell::Code(file.into()), Cell::Code(hash.into())];
    let mut rows: Vec<Vec<Cell>> = of.files.iter().map(|(file, hash)| row(file, hash)).collect();
    rows.push(row("the program that measured", of.program));
    Table::new("files", "Files and hashes", FILES, rows)
}

/// The claims that there are, each with whether it can be run here.
pub fn listed(claims: &[(Claim, Result<(), String>)], device: &str) -> Document {
    let text = |text: &Option<String>| text.clone().map_or(Cell::Absent, Cell::Text);
    let row = |(claim, runs): &(Claim, Result<(), String>)| {
        vec![
            Cell::Code(claim.id.clone()),
            Cell::Text(claim.value.clone()),
            text(&claim.on),
            Cell::Text(runs.as_ref().map_or_else(Clone::clone, |()| "runs here".into())),
            text(&claim.source),
        ]
    };
    let run = claims.iter().filter(|(_, runs)| runs.is_ok()).count();
    let table = Table::new("claims", "Published claims", LISTED, claims.iter().map(row));
    Document {
        title: format!("{} claims, {run} of which run here ({device})", claims.len()),
        subtitle:
            "fizeau reproduce ID runs one; fizeau claim --from built-in says which can be true"
                .into(),
        blocks: vec![Block::Table(table)],
    }
}
