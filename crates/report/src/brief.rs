//! What a run ends with on a terminal: about twenty lines, of which a reader takes the verdict, the
//! numbers to remember and what went wrong.

use super::{
    Block, Ceilings, Document, Fact,
    about::{Counts, RunState},
    case_table::{failure_name, invalidity_name},
    chart::measurements,
    headline, integrity, own_kernels, rank, regime,
    summary::{self, NOISY},
    unknown, without_numbers,
};
use fizeau_domain::{
    outcome::{Measurement, Outcome},
    text::{agreed, counted},
};
use fizeau_record::Record;

/// Most element types of matrix products that are listed, those of language models first.
const PRODUCTS_MAX: usize = 5;

/// Element types in the order of interest; others follow.
const DTYPES: [&str; 8] = ["bf16", "fp8", "f16", "f32", "tf32", "int8", "nvfp4", "f64"];

/// Cases without a result and warnings that are named; the report has all.
const NAMED_MAX: usize = 4;

/// Cases of the user's kernels that are listed; the report has all.
const OWN_MAX: usize = 8;

/// The end of a run in a few lines.
pub fn document(record: &Record) -> Document {
    let ceilings = Ceilings::of(record);
    let mut blocks = verdict(record);
    blocks.extend(own_kernels::blocks(record, OWN_MAX));
    let facts = chosen(headline::facts(record, &ceilings));
    if !facts.is_empty() {
        blocks.push(Block::Facts(facts));
    }
    blocks.extend(regime::sentence(record).map(Block::Text));
    blocks.extend(integrity::sentences(record).into_iter().map(Block::Text));
    blocks.extend(broken(record).into_iter().map(Block::Failure));
    blocks.extend(summary::short_remarks(record).first(NAMED_MAX).blocks());
    blocks.extend(unknown::of_record(record).iter().map(|one| Block::Note(one.words())));
    let (title, subtitle) = (summary::title(record), summary::subtitle(record));
    let mut document = Document { title, subtitle, blocks };
    if record.header.device.is_stub() {
        document = without_numbers(document);
    }
    // What is said of ranks is relative, and marks its own numbers.
    document.blocks.extend(rank::all_alike(record).map(Block::Text));
    document.blocks.extend(rank::warnings(record).into_iter().map(Block::Warning));
    document
}

/// The first sentences: that figures are not to be quoted, where that is so; below it whether the
/// run did what it planned, and what that stands on.
pub fn verdict(record: &Record) -> Vec<Block> {
    let counts = Counts::of(record);
    let Counts { planned, measured, skipped, failed, invalid, not_reached } = counts;
    let selected = if record.header.selectors.is_empty() { "" } else { "selected " };
    let cases = counted(planned, &format!("{selected}case"));
    let mut parts = vec![format!("{measured} of {cases} measured")];
    let others = [
        (skipped, "skipped"),
        (failed, "failed"),
        (invalid, "invalid"),
        (not_reached, "not reached"),
    ];
    for (count, what) in others {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    let (state, why) = match (counts.state(), &record.footer) {
        (RunState::Complete, _) => (
            "Complete",
            "Each result was verified; a run does not judge speed, `fizeau accept` and `fizeau \
             compare` do.",
        ),
        (RunState::Failed, _) => ("Failed", "The reasons are below."),
        (RunState::Incomplete, Some(footer)) if footer.interrupted => {
            ("Incomplete", "The run was interrupted; `fizeau run --resume DIR` continues it.")
        }
        (RunState::Incomplete, None) => (
            "Incomplete",
            "The run is still running, or was killed: then `fizeau run --resume DIR` continues it.",
        ),
        (RunState::Incomplete, Some(_)) => ("Incomplete", "The reasons are in the report."),
    };
    let resumed = if record.was_resumed() { " The run was interrupted and resumed." } else { "" };
    let unfit = unfit(record);
    // "Complete" beside figures that are not to be quoted reads as praise of them.
    let state = match (&unfit, counts.state()) {
        (Some(_), RunState::Complete) => String::new(),
        _ => format!("{state}: "),
    };
    let done = format!("{state}{}. {why}{resumed}", parts.join(", "));
    unfit.into_iter().chain([done]).map(Block::Text).collect()
}

/// How the sentence begins that warns of a run's figures.
pub const NOT_TO_BE_QUOTED: &str = "Do not quote these figures";

/// What a reader has to know first where more than half of the figures are not the machine's own.
/// None of a stub driver, whose times mean nothing.
fn unfit(record: &Record) -> Option<String> {
    let all: Vec<&Measurement> = measurements(record).collect();
    let count = |is: fn(&Measurement) -> bool| all.iter().filter(|one| is(one)).count();
    let is_noisy = |one: &Measurement| one.summary.noise > NOISY;
    let is_unfit =
        |one: &Measurement| one.disturbed() || one.summary.noise > NOISY || one.doubt().is_some();
    let unfit = count(is_unfit);
    if record.header.device.is_stub() || 2 * unfit <= all.len() {
        return None;
    }
    let noisy = count(is_noisy);
    let scatter = agreed(noisy, "scatters by more than 5 %", "scatter by more than 5 %");
    let kinds = [
        (count(Measurement::disturbed), "lost CPU time to other processes or a quota"),
        (noisy, scatter),
        (count(|one| one.doubt().is_some()), "had two states of the machine"),
    ];
    let kinds = kinds.iter().filter(|(count, _)| *count > 0);
    let kinds: Vec<String> = kinds.map(|(count, words)| format!("{count} {words}")).collect();
    Some(format!("{NOT_TO_BE_QUOTED}: of {}, {}.", counted(all.len(), "case"), kinds.join(", ")))
}

/// The facts of the short form, in its order.
fn chosen(facts: Vec<Fact>) -> Vec<Fact> {
    let has = |key: &str| facts.iter().any(|fact| fact.key == key);
    let has_products = facts.iter().any(|fact| fact.key.starts_with("gemm_"));
    let memory = if has("memory_read") || has("memory_copy") {
        &["memory_read", "memory_copy"][..]
    } else {
        &["memory_bandwidth"][..]
    };
    let arithmetic = if has_products { "gemm_" } else { "arithmetic_" };
    let mut first: Vec<Fact> = Vec::new();
    let mut products: Vec<Fact> = Vec::new();
    let mut rest: Vec<Fact> = Vec::new();
    for mut fact in facts {
        fact.case.clear();
        let key = fact.key.as_str();
        if memory.contains(&key) {
            first.push(fact);
        } else if key.starts_with(arithmetic) {
            fact.label = fact.label.trim_start_matches("Best ").to_owned();
            products.push(fact);
        } else if !["memory_", "gemm_", "arithmetic_"].iter().any(|of| key.starts_with(of)) {
            rest.push(fact);
        }
    }
    let place = |fact: &Fact| {
        let dtype = fact.key.strip_prefix(arithmetic).unwrap_or_default();
        DTYPES.iter().position(|one| *one == dtype).unwrap_or(DTYPES.len())
    };
    products.sort_by_key(place);
    products.truncate(PRODUCTS_MAX);
    first.into_iter().chain(products).chain(rest).collect()
}

/// Failed and invalid cases with their reasons, the first few of them.
fn broken(record: &Record) -> Vec<String> {
    let words = |outcome: &Outcome| match outcome {
        Outcome::Failed { case, failure, error, .. } => {
            let kind = failure_name(*failure);
            // Some errors begin with their kind.
            let kind = if error.starts_with(kind) { "" } else { &format!(" ({kind})") };
            Some(format!("FAILED {case}{kind}: {error}"))
        }
        Outcome::Invalid { invalidity, reason, measurement } => {
            let kind = invalidity_name(*invalidity);
            Some(format!("INVALID {} ({kind}): {reason}", measurement.case))
        }
        Outcome::Measured(_) | Outcome::Skipped { .. } => None,
    };
    few(record.outcomes.iter().filter_map(words).collect())
}

/// The first few of many sentences, and how many there are more.
fn few(mut all: Vec<String>) -> Vec<String> {
    let more = all.len().saturating_sub(NAMED_MAX);
    all.truncate(NAMED_MAX);
    if more > 0 {
        all.push(format!("and {more} more, in the report"));
    }
    all
}
