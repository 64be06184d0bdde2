//! Which tier a figure is of, and by which tier several may be compared.
//!
//! A figure that rests on measurements counts all that kernels lose; one that rests on limits
//! counts nothing of it. Beside each other the second one looks better by that alone. So figures
//! whose best tiers rest on different things are compared by L1, which all have; and not at all
//! where even their limits are of different kinds.

use super::{
    hardware::{Hardware, Limits},
    measured::Whence,
    step::{Class, Step},
    sweep::{Point, Tiers},
};

/// How far apart the shares of two figures may be that still count as resting on the same: with a
/// fifth of the time measured in one and not in the other, kernels at 60 % of their limits move a
/// figure by an eighth.
const ALIKE: f64 = 0.2;

/// The tier that numbers are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// L2 where anything is known beside limits, else L1.
    BestKnown,
    /// L1.
    Serial,
}

impl Tiers {
    /// The number of a tier.
    pub fn by(&self, by: By) -> f64 {
        match by {
            By::BestKnown => self.best_known(),
            By::Serial => self.serial,
        }
    }
}

/// What the best tier of a figure rests on: shares of its time in L1. The rest counts as in L1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rests {
    /// On cases of this operator's record.
    pub record: f64,
    /// On rates that others published of the part.
    pub published: f64,
    /// Whether it has messages between devices of which nothing but the links' rate is known, while
    /// more is known of other operations: what they take beyond that is latency, which L1 has not.
    pub lacks_messages: bool,
}

impl Rests {
    /// Of steps, each as often as its weight.
    pub fn of(steps: &[(&Step, f64)]) -> Rests {
        let (mut all, mut rests) = (0.0, Rests::default());
        for (step, weight) in steps {
            for row in &step.rows {
                let time = row.serial.0 * weight;
                all += time;
                match row.basis.as_ref().map(|basis| basis.whence) {
                    Some(Whence::Record) => rests.record += time,
                    Some(Whence::Published) => rests.published += time,
                    Some(Whence::Limits) => {
                        rests.lacks_messages |= row.class == Class::Communication;
                    }
                    None => {}
                }
            }
        }
        let all = f64::max(all, f64::MIN_POSITIVE);
        Rests { record: rests.record / all, published: rests.published / all, ..rests }
    }

    /// Of the requests of a point: of all decode steps and of the prefill. Of a point whose L2 is
    /// not known, L1.
    pub fn of_point(point: &Point, output: u32) -> Rests {
        if point.token.measured.is_none() {
            return Rests::default();
        }
        let steps = (f64::from(output) - 1.0) / f64::from(point.concurrency);
        Rests::of(&[(&point.decode, steps), (&point.prefill, 1.0)])
    }

    /// The largest share in a word or two, for tables: `82 % record`, `L1`.
    pub fn brief(&self) -> String {
        let (share, name) = match self.record >= self.published {
            true => (self.record, "record"),
            false => (self.published, "published"),
        };
        match share > 0.0 {
            true => format!("L2, {:.0} % {name}", share * 100.0),
            false => "L1".into(),
        }
    }

    /// In words: `L2: 82 % record, 10 % published, 8 % L1`; `L1` where nothing else is known.
    pub fn describe(&self) -> String {
        let shares = [(self.record, "record"), (self.published, "published")];
        let mut words: Vec<String> = shares
            .iter()
            .filter(|(share, _)| *share > 0.0)
            .map(|(share, name)| format!("{:.0} % {name}", share * 100.0))
            .collect();
        if words.is_empty() {
            return "L1".into();
        }
        let rest = (1.0 - self.record - self.published) * 100.0;
        if rest >= 0.5 {
            words.push(format!("{rest:.0} % L1"));
        }
        if self.lacks_messages {
            words.push("messages as in L1".into());
        }
        format!("L2: {}", words.join(", "))
    }
}

/// The tier by which figures may be compared; none where their limits are of different kinds, a
/// datasheet's and the best rates of a record, so that no tier means the same of all.
pub fn common<'h>(all: impl IntoIterator<Item = (&'h Hardware, Rests)>) -> Option<By> {
    let all: Vec<_> = all.into_iter().collect();
    let kinds: Vec<Limits> = all.iter().map(|(hardware, _)| hardware.limits).collect();
    if kinds.windows(2).any(|pair| pair[0] != pair[1]) {
        return None;
    }
    let spread = |of: &dyn Fn(&Rests) -> f64| {
        let shares = all.iter().map(|(_, rests)| of(rests));
        let [low, high] = shares
            .fold([1.0, 0.0], |[low, high]: [f64; 2], share| [low.min(share), high.max(share)]);
        high - low
    };
    let messages = |rests: &Rests| f64::from(u8::from(rests.lacks_messages));
    let is_alike = spread(&|rests| rests.record) <= ALIKE
        && spread(&|rests| rests.published) <= ALIKE
        && spread(&messages) <= 0.0;
    Some(if is_alike { By::BestKnown } else { By::Serial })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Speed;
    use fizeau_domain::units::{Bytes, BytesPerSecond};

    fn hardware(limits: Limits) -> Hardware {
        Hardware {
            name: "own".into(),
            basis: String::new(),
            limits,
            memory: BytesPerSecond(1.0),
            memory_most: BytesPerSecond(1.0),
            peaks: [].into(),
            link: None,
            capacity: Bytes(1),
            cache: Bytes(0),
            power: None,
            power_limit: None,
            measured: None,
            public: None,
            speed: Speed::FULL,
            notes: Vec::new(),
        }
    }

    #[test]
    fn unlike_tiers_are_compared_by_what_all_have() {
        let (sheet, record) = (hardware(Limits::Datasheet), hardware(Limits::Record));
        let rests = |record, published| Rests { record, published, lacks_messages: false };
        let of = |one, other| common([(&sheet, one), (&sheet, other)]);
        assert_eq!(of(rests(0.0, 0.0), rests(0.0, 0.0)), Some(By::BestKnown));
        assert_eq!(of(rests(0.9, 0.0), rests(0.8, 0.1)), Some(By::BestKnown));
        assert_eq!(of(rests(0.9, 0.0), rests(0.0, 0.0)), Some(By::Serial));
        assert_eq!(of(rests(0.9, 0.0), rests(0.0, 0.9)), Some(By::Serial));
        assert_eq!(of(rests(0.0, 0.9), rests(0.0, 0.0)), Some(By::Serial));
        assert_eq!(common([(&sheet, rests(0.5, 0.0)), (&record, rests(0.5, 0.0))]), None);
        assert_eq!(common([]), Some(By::BestKnown));
        // Messages take little time in L1, and much on a machine.
        let unmeasured = Rests { lacks_messages: true, ..rests(0.9, 0.0) };
        assert_eq!(of(rests(0.9, 0.0), unmeasured), Some(By::Serial));
        assert_eq!(of(unmeasured, unmeasured), Some(By::BestKnown));
    }

    #[test]
    fn what_a_figure_rests_on_is_told() {
        let rests = |record, published| Rests { record, published, lacks_messages: false };
        let words = |record, published| rests(record, published).describe();
        assert_eq!(words(0.0, 0.0), "L1");
        assert_eq!(words(0.82, 0.1), "L2: 82 % record, 10 % published, 8 % L1");
        assert_eq!(words(0.0, 1.0), "L2: 100 % published");
        assert_eq!(rests(0.3, 0.6).brief(), "L2, 60 % published");
        assert_eq!(Rests::default().brief(), "L1");
    }
}
