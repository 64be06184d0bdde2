//! How much memory the ranks of a run may take.

use super::{join::Link, meet::Roster};
use fizeau_device::host;
use fizeau_domain::units::Bytes;

/// Memory that all ranks together may take; none where this rank's is not known. Ranks of one
/// device share what is free on it, and no rank may take more than the one that has least.
///
/// # Errors
/// Where the ranks cannot agree any more.
pub fn allowed(
    link: &Link<'_>,
    roster: &Roster,
    free: Option<Bytes>,
) -> anyhow::Result<Option<Bytes>> {
    let Some(free) = free else { return Ok(None) };
    let peers = link.peers();
    let here = match link {
        Link::Mpi(mpi) => mpi.ranks_here(),
        Link::Nccl(..) => roster.sharing(link.rank()),
    };
    let mut share = free.0 as f64 / f64::from(here);
    if let Link::Mpi(_) = link {
        // Each process takes memory for itself.
        share = host::for_operands(Bytes(share as u64)).0 as f64;
    }
    // Ranks agree on the largest of what each has: the least is the largest, negated.
    let least = -peers.largest(-share)?;
    Ok(Some(Bytes(least as u64 * u64::from(peers.size()))))
}
