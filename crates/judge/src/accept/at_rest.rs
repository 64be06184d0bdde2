//! All checks of a node at rest, and what they were made of besides its state.

use super::{Judged, Level, cause::Cause, passive, profile::Expected, shared};
use fizeau_domain::{node_state::NodeState, verdict::Verdict};
use serde::{Deserialize, Serialize};

/// What the checks of a state are made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AtRest {
    /// What the node should be made up of.
    pub expected: Expected,
    /// What drivers said that are installed and do not work.
    pub broken_drivers: Vec<String>,
    /// What is said of drivers that are installed, work and show no device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drivers_without_devices: Vec<String>,
    /// What libraries said that read the sensors of GPUs, are installed and do not work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broken_sensors: Vec<String>,
    /// Whether other jobs may run on the node.
    pub is_shared: bool,
}

impl AtRest {
    /// Every check of a state.
    pub fn judge(&self, state: &NodeState, level: Level) -> Vec<Judged> {
        let mut checks = passive::judge(state, &self.expected, level);
        if self.is_shared {
            checks = shared::allow(state, checks);
        }
        checks.extend(self.broken_drivers.iter().cloned().map(|words| {
            Judged::of_state("GPU driver", "node", Verdict::Fail, words).because(Cause::Missing)
        }));
        checks.extend(self.drivers_without_devices.iter().cloned().map(|words| {
            let verdict = Verdict::Inconclusive;
            Judged::of_state("GPU driver", "node", verdict, words).because(Cause::Missing)
        }));
        // Errors of memory, links and clocks are not known then.
        checks.extend(
            self.broken_sensors
                .iter()
                .cloned()
                .map(|words| Judged::of_state("GPU sensors", "node", Verdict::Inconclusive, words)),
        );
        checks
    }
}
