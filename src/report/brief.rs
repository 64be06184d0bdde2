//! What a run ends with on a terminal: about twenty lines, of which a reader takes the verdict, the
//! numbers to remember and what went wrong.

use super::{
    Block, Ceilings, Document, Fact,
    about::Counts,
    case_table::{failure_name, invalidity_name},
    headline, integrity, rank, summary, without_numbers,
};
use crate::{outcome::Outcome, record::Record, verdict::Verdict};

/// Most element types of matrix products that are listed, those of language models first.
const PRODUCTS_MAX: usize = 5;

/// Element types in the order of interest; others follow.
const DTYPES: [&str; 8] = ["bf16", "fp8", "f16", "f32", "tf32", "int8", "nvfp4", "f64"];

/// Cases without a result and warnings that are named; the report has all.
const NAMED_MAX: usize = 4;

/// The end of a run in a few lines.
pub fn document(record: &Record) -> Document {
    let ceilings = Ceilings::of(record);
    let counts = Counts::of(record);
    let mut blocks = vec![Block::Text(verdict(record, counts))];
    let facts = chosen(headline::facts(record, &ceilings));
    if !facts.is_empty() {
        blocks.push(Block::Facts(facts));
    }
    blocks.extend(integrity::sentences(record).into_iter().map(Block::Text));
    blocks.extend(broken(record).into_iter().map(Block::Warning));
    blocks.extend(few(summary::notes(record)).into_iter().map(Block::Warning));
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

/// The first sentences: the verdict, and what it stands on.
fn verdict(record: &Record, counts: Counts) -> String {
    let Counts { planned, measured, skipped, failed, invalid, not_reached } = counts;
    let mut parts = vec![format!("{measured} of {planned} cases measured")];
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
    let verdict = counts.verdict();
    let why = match (verdict, &record.footer) {
        // Not "pass": whoever reads that may take it for a word about speed.
        (Verdict::Pass, _) => {
            return format!(
                "Complete: {}. Each result was verified; a run does not judge speed, `fizeau \
                 accept` and `fizeau compare` do.",
                parts.join(", ")
            );
        }
        (Verdict::Fail, _) => "Reasons are below.",
        (_, Some(footer)) if footer.interrupted => "The run was interrupted.",
        (_, None) => "The run was killed or is still running.",
        _ => "Reasons are in the report.",
    };
    format!("Verdict: {verdict}. {}. {why}", parts.join(", "))
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
            Some(format!("FAILED {case} ({}): {error}", failure_name(*failure)))
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
