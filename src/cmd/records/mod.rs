//! What a run left in its directory: one record, or those of several GPUs or settings.

pub mod frontier;
pub mod gpus;

use fizeau_domain::outcome::Outcome;
use fizeau_record::Record;

/// Whether a case failed, or its time cannot be believed.
pub fn is_broken(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { .. } | Outcome::Invalid { .. })
}

/// Whether every planned case has its outcome and the run its end.
pub fn complete(record: &Record) -> bool {
    record.outcomes.len() == record.header.plan.len() && record.footer.is_some()
}

/// Whether a case failed or was invalid.
pub fn has_broken(record: &Record) -> bool {
    record.outcomes.iter().any(is_broken)
}
