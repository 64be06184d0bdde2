//! Ranks of one run: how they find each other, join, agree, and end together.
//!
//! [`attend`] takes a rank through all of it: it opens its device ([`choice`]), meets the others
//! before anything connects them ([`meet`]), joins them ([`join`]), does its work, and leaves.
//! During the work ranks agree on results ([`mod@settle`]) and on memory ([`memory`]). A rank that
//! waits too long ends the run ([`hang`]). Nothing here prints: what has to be said goes back to
//! the caller, or through [`Ending`].

pub mod choice;
pub mod exchanges;
pub mod hang;
pub mod join;
pub mod meet;
pub mod memory;
pub mod seat;
pub mod settle;

pub use choice::{Choice, NoSuchDevice};
pub use hang::{Ending, KeptRecord};
pub use join::Link;
pub use meet::{HostName, Roster};
pub use seat::{Seat, Seats};
pub use settle::{ToldByAnother, settle};

use anyhow::Context;
use fizeau_device::Device;
use fizeau_domain::units::Seconds;
use meet::Candidate;
use std::{sync::atomic::AtomicBool, time::Duration};

/// How long a rank other than the first waits before it ends, once something failed. Launchers end
/// all processes when one has ended, and the first rank still has to say what failed.
const GRACE: Duration = Duration::from_secs(1);

/// What the ranks of a run have in common before they meet.
#[derive(Clone, Copy)]
pub struct Terms<'t> {
    /// Which device each rank takes.
    pub choice: &'t Choice,
    /// Whether the host's name may be said.
    pub host_name: HostName,
    /// The longest wait for one collective.
    pub deadline: Seconds,
    /// Becomes true when the run is to end.
    pub interrupted: &'t AtomicBool,
    /// How the process ends if a rank hangs.
    pub ending: Ending,
}

/// A rank that has joined the others.
pub struct Joined<'j> {
    /// What connects it to them.
    pub link: &'j Link<'j>,
    /// Its own device.
    pub device: &'j dyn Device,
    /// What all ranks have told of themselves.
    pub roster: &'j Roster,
    /// Where to name the record, as soon as this rank keeps one.
    pub record: &'j KeptRecord,
}

/// Meets and joins the other ranks, does this rank's work, and leaves with the others.
///
/// # Errors
/// Where a rank cannot take part, the work fails, or ranks do not leave together. Of an error that
/// concerns all, the first rank gives the reason and every other rank gives [`ToldByAnother`].
pub fn attend<R>(
    seat: Seat,
    terms: Terms<'_>,
    work: impl FnOnce(Joined<'_>) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    let (candidate, device) = Candidate::new(seat, terms.choice, terms.host_name);
    let roster = candidate.meet(terms.interrupted)?;
    let device = device.with_context(|| format!("cannot open {}", candidate.device()))?;
    let record = KeptRecord::default();
    let link = join::join(candidate, &roster, device.as_ref(), terms, &record)?;
    let joined = Joined { link: &link, device: device.as_ref(), roster: &roster, record: &record };
    let result = work(joined)?;
    link.finish()?;
    Ok(result)
}
