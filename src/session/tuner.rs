//! Lets a kernel that can do its work in several ways take the fastest, or the one that a record
//! says, before it is verified and timed.

use crate::measure::{
    regime::{self, Timed},
    tuning::{self, Trial},
};
use fizeau_bench::{Rank, Workload};
use fizeau_device::DeviceError;
use fizeau_domain::{
    outcome::{Cache, Regime},
    suite::MeasureSettings,
    tuning::{ChosenBy, Tuning},
    units::Seconds,
};
use fizeau_record::Record;
use std::collections::BTreeMap;

/// Candidates that a record chose, by the id of the case.
pub type Choices = BTreeMap<String, String>;

/// Those of a record.
pub fn choices_of(record: &Record) -> Choices {
    let measured = record.outcomes.iter().filter_map(|outcome| outcome.measured());
    let tuned = measured.filter_map(|one| Some((one.case.to_string(), one.tuning.as_ref()?)));
    tuned.map(|(id, tuning)| (id, tuning.chosen.clone())).collect()
}

/// Tries the candidates of a workload in the regime and with the caches that its headline refers
/// to, and lets it take the fastest; `None` where it has one way alone. A given candidate is taken
/// without a trial.
///
/// # Errors
///
/// Whatever the device says where it hangs or is lost; where the given candidate is not there; what
/// the best guess says where all of them refuse.
pub fn tune(
    rank: Rank<'_>,
    workload: &mut (dyn Workload + '_),
    (cache, asked): (Cache, Option<Regime>),
    settings: &MeasureSettings,
    given: Option<&str>,
) -> Result<Option<Tuning>, DeviceError> {
    let names = workload.candidates()?;
    if names.is_empty() {
        return Ok(None);
    }
    if let Some(given) = given {
        let Some(place) = names.iter().position(|name| name == given) else {
            return Err(DeviceError::Unsupported {
                kernel: format!("the given choice {given}"),
                needs: format!("to be among the candidates here: {}", names.join(", ")),
            });
        };
        rank.device.loaded();
        workload.choose(place)?;
        let (chosen, by) = (given.to_owned(), ChosenBy::Given);
        return Ok(Some(Tuning { chosen, by, candidates: Vec::new() }));
    }
    let takes_turns = cache == Cache::Cold && workload.copies() > 1;
    workload.take_turns(takes_turns);
    let cache = if takes_turns { Cache::Hot } else { cache };
    let regime = regime::possible(asked, rank.peers.processes());
    let mut refusal = None;
    let mut attempt = |place: usize, iterations: u32| {
        let sampled = workload
            .choose(place)
            .and_then(|()| sampled(rank, workload, cache, regime, iterations, settings));
        match sampled {
            // The time of the slowest rank: all ranks choose alike.
            Ok(time) => Ok(Trial::Took(Seconds(rank.peers.largest(time.0)?))),
            Err(DeviceError::Hang { what, limit }) => {
                let what = format!("candidate {}: {what}", names[place]);
                Err(DeviceError::Hang { what, limit })
            }
            Err(DeviceError::Lost(why)) => {
                Err(DeviceError::Lost(format!("candidate {}: {why}", names[place])))
            }
            Err(refused) => {
                let why = refused.to_string();
                refusal.get_or_insert(refused);
                Ok(Trial::Refused(why))
            }
        }
    };
    let is_single = cache == Cache::Cold;
    let (chosen, candidates) = tuning::fastest(names.clone(), is_single, &mut attempt)?;
    let Some(place) = chosen else {
        let none = || DeviceError::Driver("no candidate took any time".into());
        return Err(refusal.unwrap_or_else(none));
    };
    // What a record keeps is the code of the one that is timed.
    rank.device.loaded();
    workload.choose(place)?;
    Ok(Some(Tuning { chosen: names[place].clone(), by: ChosenBy::Tried, candidates }))
}

/// Seconds of some iterations together.
fn sampled(
    rank: Rank<'_>,
    workload: &mut (dyn Workload + '_),
    cache: Cache,
    regime: Option<Regime>,
    iterations: u32,
    settings: &MeasureSettings,
) -> Result<Seconds, DeviceError> {
    let granule = workload.granule();
    let mut enqueue = |repeat: u32| workload.enqueue(repeat.saturating_mul(granule));
    let mut timed = Timed {
        device: rank.device,
        enqueue: &mut enqueue,
        cache,
        batch: iterations,
        lasts: Seconds(0.0),
        settings,
    };
    Ok(timed.sample(regime.unwrap_or(Regime::Settled))?.time)
}
