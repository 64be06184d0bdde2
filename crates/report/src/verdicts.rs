//! The report of claims: what can be said of each, and the arithmetic.

use super::{Block, Cell, Column, Document, Table, Weight};
use fizeau_projection::claim::{Answer, Claim, Verdict};

const COLUMNS: &[Column] = &[
    Column { key: "claim", title: "claim", weight: Weight::Essential },
    Column { key: "value", title: "figure", weight: Weight::Essential },
    Column { key: "on", title: "on", weight: Weight::Essential },
    Column { key: "gpus", title: "GPUs", weight: Weight::Useful },
    Column { key: "answer", title: "answer", weight: Weight::Essential },
    Column { key: "only", title: "only", weight: Weight::Useful },
    Column { key: "of_light", title: "of the bound", weight: Weight::Essential },
    Column { key: "of_serial", title: "of L1", weight: Weight::Useful },
    Column { key: "why", title: "why", weight: Weight::Machine },
    Column { key: "arithmetic", title: "arithmetic", weight: Weight::Machine },
    Column { key: "missing", title: "missing", weight: Weight::Machine },
    Column { key: "source", title: "source", weight: Weight::Machine },
];

/// What is said of some claims: all in a table where there are several, then each with its
/// arithmetic.
pub fn document(judged: &[(Claim, Verdict)]) -> Document {
    let mut blocks = Vec::new();
    if judged.len() > 1 {
        blocks.push(Block::Heading("All of them".into()));
        blocks.push(Block::Table(table(judged)));
    }
    for (claim, verdict) in judged {
        blocks.push(Block::Heading(name(claim, judged.len())));
        blocks.push(Block::Text(format!("{}: {}.", capital(&answer(verdict)), verdict.why)));
        blocks.extend(verdict.arithmetic.iter().cloned().map(Block::Text));
        if !verdict.missing.is_empty() {
            let missing = verdict.missing.join("; ");
            blocks.push(Block::Text(format!("Not stated: {missing}.")));
        }
        for (what, words) in [("Note", &claim.note), ("Source", &claim.source)] {
            let words = words.iter().map(|words| words.trim_end_matches('.'));
            blocks.extend(words.map(|words| Block::Text(format!("{what}: {words}."))));
        }
    }
    if judged.len() <= 1 {
        blocks.push(Block::Table(table(judged)));
    }
    Document {
        title: match judged {
            [(claim, verdict)] => format!("{}: {}", claim.value, answer(verdict)),
            many => format!("{} claims: {}", many.len(), counts(many)),
        },
        subtitle: "L0: the hard limit. L1: a perfect engine that does one operation after \
                   the other. Whatever a claim does not state is taken in its favour."
            .into(),
        blocks,
    }
}

/// How many claims have each answer, the worst first: `5 impossible, 2 cannot tell, 52 possible`.
fn counts(judged: &[(Claim, Verdict)]) -> String {
    let count = |answer: &Answer| judged.iter().filter(|(_, v)| v.answer == *answer).count();
    let answers = [Answer::Impossible, Answer::Suspicious, Answer::CannotTell, Answer::Possible];
    let counted = answers.iter().map(|answer| (count(answer), answer));
    let words = counted.filter(|(count, _)| *count > 0).map(|(n, answer)| format!("{n} {answer}"));
    words.collect::<Vec<_>>().join(", ")
}

/// What a claim is about; of several claims the table has the number of GPUs.
fn name(claim: &Claim, of: usize) -> String {
    let on = claim.on.as_deref().unwrap_or("hardware that is not named");
    let several = claim.gpus.filter(|count| *count > 1 && of == 1);
    let gpus = several.map(|count| format!("{count} x ")).unwrap_or_default();
    let model = claim.model.as_ref().map(|model| format!("{model} ")).unwrap_or_default();
    let id = if claim.id.is_empty() { String::new() } else { format!("{}: ", claim.id) };
    format!("{id}{model}{} on {gpus}{on}", claim.value)
}

/// The answer with the condition that it depends on.
fn answer(verdict: &Verdict) -> String {
    let only = verdict.only.as_ref().filter(|_| verdict.answer == Answer::Possible);
    only.map_or_else(
        || verdict.answer.to_string(),
        |condition| format!("{} only {condition}", verdict.answer),
    )
}

fn capital(words: &str) -> String {
    let (first, rest) = words.split_at(1);
    first.to_uppercase() + rest
}

fn table(judged: &[(Claim, Verdict)]) -> Table {
    let share = |share: Option<f64>| share.map_or(Cell::Absent, Cell::Share);
    let text = |text: &Option<String>| text.clone().map_or(Cell::Absent, Cell::Text);
    let row = |(claim, verdict): &(Claim, Verdict)| {
        vec![
            Cell::Code(claim.id.clone()),
            Cell::Text(claim.value.clone()),
            text(&claim.on),
            claim.gpus.map_or(Cell::Absent, |count| Cell::Count(count.into())),
            Cell::Text(verdict.answer.to_string()),
            text(&verdict.only),
            share(verdict.of_light),
            share(verdict.of_serial),
            Cell::Text(verdict.why.clone()),
            Cell::Text(verdict.arithmetic.join("\n")),
            Cell::Text(verdict.missing.join("\n")),
            text(&claim.source),
        ]
    };
    Table::new("claims", "Claims", COLUMNS, judged.iter().map(row))
}
