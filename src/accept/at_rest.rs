//! All checks of a node at rest, and what they were made of besides its state.

use super::{Judged, Level, cause::Cause, passive, profile::Expected, state::NodeState};
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// What the checks of a state are made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AtRest {
    /// What the node should be made up of.
    pub expected: Expected,
    /// What drivers said that are installed and do not work.
    pub broken_drivers: Vec<String>,
}

impl AtRest {
    /// Every check of a state.
    pub fn judge(&self, state: &NodeState, level: Level) -> Vec<Judged> {
        let mut checks = passive::judge(state, &self.expected, level);
        checks.extend(self.broken_drivers.iter().cloned().map(|words| {
            Judged::of_state("GPU driver", "node", Verdict::Fail, words).because(Cause::Missing)
        }));
        checks
    }
}
