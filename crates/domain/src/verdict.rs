//! The verdict on a machine, or on a change of it: the one vocabulary of everything that judges.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a judgement comes to. Several verdicts combine into one by [`Verdict::and`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All is as it should be.
    Pass,
    /// Something is not, and a waiver was given for it beforehand.
    Waived,
    /// It cannot be told.
    Inconclusive,
    /// Something is not as it should be.
    Fail,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 4] =
        [Verdict::Pass, Verdict::Waived, Verdict::Inconclusive, Verdict::Fail];

    /// The verdict on two things together: the worse of the two. What is waived does not count, so
    /// that it changes no other verdict.
    pub fn and(self, other: Verdict) -> Verdict {
        let weight = |verdict: &Verdict| match verdict {
            Verdict::Waived => 0,
            Verdict::Pass => 1,
            Verdict::Inconclusive => 2,
            Verdict::Fail => 3,
        };
        std::cmp::max_by_key(self, other, weight)
    }

    /// The verdict on many things together. On nothing at all it is inconclusive.
    pub fn on_all(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
        verdicts.into_iter().reduce(Verdict::and).unwrap_or(Verdict::Inconclusive)
    }

    /// Its name, as programs read it.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Waived => "waived",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Fail => "fail",
        }
    }

    /// The exit code of a program that ends with this verdict.
    pub const fn exit_code(self) -> u8 {
        match self {
            Verdict::Pass | Verdict::Waived => 0,
            Verdict::Fail => 1,
            Verdict::Inconclusive => 4,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{self, *};
    use proptest::prelude::*;

    fn any() -> impl Strategy<Value = Verdict> {
        proptest::sample::select(Verdict::ALL.to_vec())
    }

    proptest! {
        #[test]
        fn order_and_grouping_do_not_matter(a in any(), b in any(), c in any()) {
            prop_assert_eq!(a.and(b), b.and(a));
            prop_assert_eq!(a.and(b).and(c), a.and(b.and(c)));
            prop_assert_eq!(a.and(a), a);
        }

        #[test]
        fn what_is_waived_changes_nothing(all in prop::collection::vec(any(), 0..8)) {
            let kept: Vec<Verdict> = all.iter().copied().filter(|one| *one != Waived).collect();
            let expected = if kept.is_empty() && !all.is_empty() { Waived } else {
                Verdict::on_all(kept.iter().copied())
            };
            prop_assert_eq!(Verdict::on_all(all), expected);
        }

        #[test]
        fn one_failure_fails_all(all in prop::collection::vec(any(), 1..8)) {
            let verdict = Verdict::on_all(all.iter().copied());
            prop_assert_eq!(verdict == Fail, all.contains(&Fail));
            prop_assert_eq!(verdict.exit_code() == 1, all.contains(&Fail));
            let passes = |one: &Verdict| matches!(one, Pass | Waived);
            prop_assert_eq!(verdict.exit_code() == 0, all.iter().all(passes));
        }
    }

    #[test]
    fn nothing_judged_proves_nothing() {
        assert_eq!(Verdict::on_all([]), Inconclusive);
    }
}
