//! What a measurement is of, beside its id: times of other quantities are not compared.

use fizeau_domain::{
    case::Work,
    outcome::{Cache, Measurement, Regime},
};

/// What a measured time is of. An id has operation, element type, shape, units and kernel; but
/// another version of the program may measure the same id in another state of the caches, or do
/// other work, or in another state of power and heat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    cache: Cache,
    regime: Option<Regime>,
    work: Work,
}

impl Quantity {
    /// That of a measurement.
    pub fn of(measurement: &Measurement) -> Quantity {
        let &Measurement { cache, regime, work, .. } = measurement;
        Quantity { cache, regime, work }
    }

    /// In what one of some runs, each with its name, measured another quantity than the first, in
    /// words; `None` where none did.
    pub fn mixed(runs: &[(&str, &Measurement)]) -> Option<String> {
        let (name, first) = runs.first()?;
        let first = Quantity::of(first);
        runs.iter().find_map(|(other, one)| first.difference(&Quantity::of(one), [name, other]))
    }

    /// In what it is not the same as another, in words; `None` where it is.
    pub fn difference(&self, other: &Quantity, names: [&str; 2]) -> Option<String> {
        let differ = |what: &str, word: fn(&Quantity) -> String| {
            let ([name, other_name], [of, of_other]) = (names, [self, other].map(word));
            Some(format!("{what}: {of} in {name}, {of_other} in {other_name}"))
        };
        let bytes = |of: &Quantity| [of.work.memory, of.work.link];
        if self.cache != other.cache {
            differ("caches", |one| one.cache.to_string())
        } else if self.regime != other.regime {
            differ("regime", |one| one.regime.map_or("none".into(), |regime| regime.to_string()))
        } else if bytes(self) != bytes(other) {
            differ("bytes of an iteration", |one| {
                format!("{} of memory and {} of links", one.work.memory.0, one.work.link.0)
            })
        } else if self.work != other.work {
            differ("operations of an iteration", |one| {
                format!("{} and {} exponentials", one.work.flops.0, one.work.exps)
            })
        } else {
            None
        }
    }
}
