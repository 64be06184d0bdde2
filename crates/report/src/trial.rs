//! The report of two settings in fresh pairs.

use super::{Block, Cell, Column, Document, Fact, Table, Weight};
use fizeau_domain::{
    text::{agreed, counted},
    verdict::Verdict,
};
use fizeau_judge::ab::{Fate, JudgedCase, Trial};

const COLUMNS: &[Column] = &[
    Column { key: "case", title: "case", weight: Weight::Essential },
    Column { key: "verdict", title: "B is", weight: Weight::Essential },
    Column { key: "ratio", title: "B / A", weight: Weight::Essential },
    Column { key: "ratio_low", title: "95 % from", weight: Weight::Useful },
    Column { key: "ratio_high", title: "to", weight: Weight::Useful },
    Column { key: "pairs", title: "pairs", weight: Weight::Useful },
    Column { key: "note", title: "note", weight: Weight::Detail },
];

/// What a trial found, in reading order. `sides` says what A and B are.
pub fn document(trial: &Trial, sides: &[String; 2], warnings: &[String]) -> Document {
    let mut blocks = vec![Block::Text(outcome(trial))];
    blocks.extend(early_end(trial).map(Block::Warning));
    blocks.extend(remedy(trial).map(Block::Text));
    blocks.push(Block::Facts(facts(trial)));
    let groups = trial.groups.iter().map(super::comparison::group);
    blocks.extend(groups.map(Block::Text));
    blocks.extend(warnings.iter().cloned().map(Block::Warning));
    blocks.push(Block::Text(method(trial)));
    let noted = |row: &&JudgedCase| row.note.is_some();
    blocks.extend(trial.rows.iter().filter(noted).map(|row| Block::Text(reason(row))));
    let mut rows: Vec<&JudgedCase> = trial.rows.iter().collect();
    let slowness = |row: &JudgedCase| -row.ratio.unwrap_or(0.0);
    rows.sort_by(|a, b| a.fate.cmp(&b.fate).then(slowness(a).total_cmp(&slowness(b))));
    blocks.extend(table(&rows).map(Block::Table));
    let [a, b] = sides;
    Document { title: "B against A".into(), subtitle: format!("A: {a}. B: {b}."), blocks }
}

/// The first sentence: whether anything is worse.
fn outcome(trial: &Trial) -> String {
    let worse = trial.count(Fate::Slower) + trial.count(Fate::Broken);
    let found = match worse {
        0 if trial.verdict() == Verdict::Inconclusive => {
            "Cannot tell whether B is slower".to_owned()
        }
        0 => "B is slower in no case".to_owned(),
        some => format!("B is slower or broken in {}", counted(some, "case")),
    };
    let counts: Vec<_> = Fate::ALL
        .into_iter()
        .map(|fate| (trial.count(fate), fate))
        .filter(|(count, _)| *count > 0)
        .map(|(count, fate)| format!("{count} {}", fate.name()))
        .collect();
    format!("{found}: of {}, {}.", trial.rows.len(), counts.join(", "))
}

/// That a trial ended before its time, and what that leaves.
fn early_end(trial: &Trial) -> Option<String> {
    let why = trial.ended.as_ref()?;
    Some(format!(
        "The trial ended early: {why}. What was decided until then stands, with the same error \
         rates; every other case is unclear."
    ))
}

/// What to do where cases could not be decided.
fn remedy(trial: &Trial) -> Option<String> {
    let unclear = trial.count(Fate::Unclear);
    let width = |row: &JudgedCase| row.interval.map(|[low, high]| (high / low).sqrt() - 1.0);
    let rows = trial.rows.iter().filter(|row| row.fate == Fate::Unclear);
    let mut widths: Vec<f64> = rows.filter_map(width).filter(|width| width.is_finite()).collect();
    widths.sort_by(f64::total_cmp);
    // Pairs that others disturb are no matter of time.
    let pairs: u32 = trial.rows.iter().map(|row| row.pairs).sum();
    let to_decide = match trial.ended {
        Some(_) if trial.repeated > pairs => {
            "end other work on the machine, which disturbed most pairs,"
        }
        Some(_) => "give it more time (--budget)",
        None => "end other work on the machine",
    };
    let reach = widths.get(widths.len() / 2).map(|width| {
        let effect = trial.settings.least_effect * 100.0;
        format!(
            " In the median the interval of their ratio is {:.1} % wide on each side, and the \
             least effect is {effect:.1} %.",
            width * 100.0
        )
    });
    (unclear > 0).then(|| {
        format!(
            "{} not decided.{} To decide: {to_decide} and measure fewer cases again, or ask for a \
             larger --least-effect.",
            agreed_count(unclear),
            reach.unwrap_or_default()
        )
    })
}

/// How many cases are undecided, with its verb.
fn agreed_count(count: usize) -> String {
    format!("{} {}", counted(count, "case"), agreed(count, "is", "are"))
}

fn method(trial: &Trial) -> String {
    let settings = trial.settings;
    let repeated = match trial.repeated as usize {
        0 => "No pairs were".to_owned(),
        count => format!("{} {}", counted(count, "pair"), agreed(count, "was", "were")),
    };
    format!(
        "B / A is the ratio of times in fresh pairs: above one is slower. \"95 % from .. to\" is \
         the interval that holds it with a confidence of 95 %. A case counts as slower when its \
         pairs refute that it is slower by no more than {:.1} %. The probability that any case is \
         called slower wrongly is {:.1} % or less over all cases and looks together. \"cleared\": \
         the whole interval from fresh pairs lies within the least effect; \"unclear\": fresh \
         pairs decide neither; \"no candidate\": the two pairs of the screening showed no more \
         than the least effect, and nothing was measured after them. {repeated} measured again \
         because other work disturbed them. Order of measurements: seed {}.",
        settings.least_effect * 100.0,
        settings.error_rate * 100.0,
        settings.seed
    )
}

fn reason(row: &JudgedCase) -> String {
    format!("{}, {}: {}.", row.id, row.fate.name(), row.note.as_deref().unwrap_or_default())
}

fn facts(trial: &Trial) -> Vec<Fact> {
    let fact = |fate: Fate| {
        let count = Cell::Count(trial.count(fate) as u64);
        Fact::new(fate.name().replace(' ', "_"), fate.name(), count)
    };
    Fate::ALL.into_iter().map(fact).collect()
}

fn table(rows: &[&JudgedCase]) -> Option<Table> {
    let relative = |value: f64| Cell::Relative { value, is_stub: false };
    let cells = |row: &&JudgedCase| {
        let [low, high] = match row.interval {
            Some([low, high]) => [relative(low), relative(high)],
            None => [Cell::Absent, Cell::Absent],
        };
        vec![
            Cell::Code(row.id.clone()),
            Cell::Text(row.fate.name().into()),
            row.ratio.map_or(Cell::Absent, relative),
            low,
            high,
            Cell::Count(u64::from(row.pairs)),
            row.note.clone().map_or(Cell::Absent, Cell::Text),
        ]
    };
    Table::unless_empty("cases", "Every case", COLUMNS, rows.iter().map(cells))
}
