//! How much a sentence about a run should alarm its reader: the one rule, for every report.
//!
//! What spoils figures, or may, is a warning: noise, throttling, other processes, a quota, a
//! setting that slows. A note explains figures, or says what is not known of them, and spoils none:
//! a virtual machine, a limit on memory, a peak that no table has. Beside a warning a note must not
//! look like one, or the reader learns to pass by both.

use super::Block;
use fizeau_record::Environment;

/// How the sentences of a record's environment begin that explain, in all versions of the program.
/// The environment keeps words alone; what is not listed is taken for a warning.
const EXPLAIN: [&str; 9] = [
    "runs under ",
    "A virtual machine",
    "a limit of ",
    "this process's own control group cannot be found",
    "no telemetry",
    "not all GPUs of this machine are visible",
    "this is a slice of a GPU",
    "Whether a bridge connects",
    "Of the limits of ",
];

/// How the sentence about the load begins, which stands in a record above a load average of 0.5 and
/// counts by the number of CPUs.
const LOAD: &str = "the machine was busy at the start";

/// How the sentence begins that another device was measured than a reader may think. It stands
/// before every doubt about a figure: whoever reads one line has to learn it.
const OTHER_DEVICE: &str = "no GPU was measured";

/// What may spoil figures, and what only explains them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// What may spoil figures, the worst first.
    pub warnings: Vec<String>,
    /// What explains figures.
    pub notes: Vec<String>,
}

impl Remarks {
    /// Adds the sentences of an environment, each to what it is.
    pub fn add_environment<'w>(
        &mut self,
        environment: &Environment,
        words: impl Iterator<Item = &'w String>,
    ) {
        let is_idle = environment.busy_load().is_none();
        let (notes, warnings): (Vec<&String>, Vec<&String>) = words.partition(|words| {
            EXPLAIN.iter().any(|start| words.starts_with(start))
                || (words.starts_with(LOAD) && is_idle)
        });
        let (first, warnings): (Vec<&String>, Vec<&String>) =
            warnings.into_iter().partition(|words| words.starts_with(OTHER_DEVICE));
        self.warnings.splice(..0, first.into_iter().cloned());
        self.warnings.extend(warnings.into_iter().cloned());
        self.notes.extend(notes.into_iter().cloned());
    }

    /// All of them, warnings first.
    pub fn blocks(self) -> impl Iterator<Item = Block> {
        let warnings = self.warnings.into_iter().map(Block::Warning);
        warnings.chain(self.notes.into_iter().map(Block::Note))
    }

    /// The first of them, warnings before notes, and how many there are more.
    pub fn first(mut self, most: usize) -> Remarks {
        let all = self.warnings.len() + self.notes.len();
        self.warnings.truncate(most);
        self.notes.truncate(most - self.warnings.len());
        let more = all - self.warnings.len() - self.notes.len();
        if more > 0 {
            self.notes.push(format!("and {more} more, in the report"));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remarks(load: f64, words: &[&str]) -> Remarks {
        let environment = Environment { load: Some(load), cpus: 2, ..Environment::default() };
        let words: Vec<String> = words.iter().map(|&words| words.to_owned()).collect();
        let mut remarks = Remarks::default();
        remarks.add_environment(&environment, words.iter());
        remarks
    }

    #[test]
    fn a_virtual_machine_explains_and_a_quota_spoils() {
        let [vm, quota, load] = [
            "runs under KVM: other tenants of the same host may affect memory and clock, unseen",
            "a CPU quota of 0.50 CPUs (cgroup) limits this process",
            "the machine was busy at the start: load average 0.90",
        ];
        let idle = remarks(0.9, &[vm, quota, load]);
        assert_eq!(
            (idle.warnings, idle.notes),
            (vec![quota.to_owned()], vec![vm.into(), load.into()])
        );
        assert_eq!(remarks(1.1, &[load]).warnings, [load], "more than half of two CPUs");
        assert_eq!(remarks(0.0, &["something new"]).warnings, ["something new"]);
    }

    #[test]
    fn that_no_gpu_was_measured_is_said_before_every_doubt() {
        let [quota, broken] = [
            "a CPU quota of 0.50 CPUs (cgroup) limits this process",
            "no GPU was measured: the NVIDIA driver does not work",
        ];
        let mut all = Remarks { warnings: vec!["noise".into()], notes: Vec::new() };
        let words = [quota.to_owned(), broken.to_owned()];
        all.add_environment(&Environment::default(), words.iter());
        assert_eq!(all.warnings, [broken, "noise", quota]);
        assert_eq!(all.first(1).warnings, [broken]);
    }

    #[test]
    fn warnings_are_named_before_notes() {
        let all = Remarks {
            warnings: vec!["a".into(), "b".into()],
            notes: vec!["c".into(), "d".into(), "e".into()],
        };
        let first = all.clone().first(3);
        assert_eq!(first.warnings, ["a", "b"]);
        assert_eq!(first.notes, ["c", "and 2 more, in the report"]);
        assert_eq!(all.clone().first(1).warnings, ["a"]);
        assert_eq!(all.clone().first(5), all);
    }
}
