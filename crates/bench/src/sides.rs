//! Latency of the last cache's parts, by how far they are from a unit.
//!
//! A large chip has its last cache in two parts, and a unit reaches the slices of one sooner. Which
//! line belongs to which slice is not published. So each line of a working set that any cache
//! holds is probed first: how many cycles does the slice it belongs to take for an atomic
//! operation, which a copy elsewhere cannot answer? Where the lines fall into two groups, a chain
//! of such operations through those of one group is the case. It has to be walked by the unit that
//! probed; another one makes the result a wrong one.

use super::{
    Prepared, Rank, Unready,
    chain::{Chain, LINE},
    filled,
};
use fizeau_device::{Device, Launch};
use fizeau_domain::{
    case::{CacheSide, Case, KernelName, LatencyPoint, Point},
    kernel::{Operation, ProbeParams},
    units::Bytes,
};

/// More than a unit's own caches hold, far less than the last one's parts.
const WORKING_SET: Bytes = Bytes(2 << 20);

/// Distance of the groups' means, in deviations within the groups: two halves of one group are 2.7
/// (normal) to 3.5 (uniform) apart.
const APART: f64 = 4.0;
/// The least share of the lines that is a group.
const SHARE: f64 = 1.0 / 8.0;

/// The cases of some sides, on devices whose kernels tell them apart.
pub fn cases(sides: &[CacheSide], rank: Rank<'_>) -> Vec<Case> {
    let kernels = rank.device.kernels(Operation::LatencySide);
    let case = |kernel: &KernelName, side| Case {
        kernel: kernel.clone(),
        point: Point::Latency(LatencyPoint {
            working_set: WORKING_SET,
            side: Some(side),
            pair: None,
        }),
    };
    kernels.iter().flat_map(|kernel| sides.iter().map(move |&side| case(kernel, side))).collect()
}

/// Probes the lines and lays a chain through those of a side.
pub fn prepare<'r>(
    working_set: Bytes,
    side: CacheSide,
    kernel: &KernelName,
    Rank { device, .. }: Rank<'r>,
) -> Prepared<'r> {
    let function = device.load(Operation::LatencySide, kernel)?;
    let chain = device.allocate(working_set)?;
    let (taken, unit) = probe(device, kernel, chain.address, working_set.0 / LINE, || {
        device.write(&chain, Bytes(0), &filled(0u8, working_set.0 as usize)?)
    })?;
    let Some(far_from) = split(&taken) else {
        let words = "no two groups of lines of the last cache differ in their distance";
        return Err(Unready::Unsupported(words.into()));
    };
    let of_side = |&line: &u32| (taken[line as usize] >= far_from) == (side == CacheSide::Far);
    let lines: Vec<u32> = (0..taken.len() as u32).filter(of_side).collect();
    Ok(Box::new(Chain::new(device, function, chain, &lines)?.by_unit(unit)))
}

/// Cycles of each line, and the unit that counted them; `empty` makes lines zeros.
fn probe(
    device: &dyn Device,
    kernel: &KernelName,
    cells: u64,
    lines: u64,
    empty: impl FnOnce() -> Result<(), fizeau_device::DeviceError>,
) -> Result<(Vec<u64>, u64), Unready> {
    let function = &device.load(Operation::LatencyProbe, kernel)?;
    let left = device.allocate(Bytes(8 * (lines + 1)))?;
    empty()?;
    let unit = left.address + 8 * lines;
    let params = &ProbeParams { cells, lines, taken: left.address, unit };
    // Twice: the first brings the lines into the cache.
    for _ in 0..2 {
        device.launch(&Launch { function, blocks: 1, repeat: 1, params: (*params).into() })?;
    }
    let mut words = vec![0u64; lines as usize + 1];
    device.read(&left, Bytes(0), bytemuck::cast_slice_mut(&mut words))?;
    let unit = words.pop().unwrap_or_default();
    Ok((words, unit))
}

/// The least number of the upper of two groups: the cut at which the groups differ most beside
/// what differs within them (Otsu, "A threshold selection method from gray-level histograms",
/// 1979). None where that is no more than any cut through one group would give.
fn split(numbers: &[u64]) -> Option<u64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let moments = |part: &[u64]| {
        let count = part.len() as f64;
        let mean = part.iter().map(|&number| number as f64).sum::<f64>() / count;
        let squares = part.iter().map(|&number| (number as f64 - mean).powi(2)).sum::<f64>();
        (count, mean, squares)
    };
    let (all, mean, _) = moments(&sorted);
    let (mut sum, mut best) = (0.0, None::<(f64, usize)>);
    for (at, pair) in sorted.windows(2).enumerate() {
        sum += pair[0] as f64;
        let below = (at + 1) as f64;
        // Between the groups' variance, but for the factor that all cuts share.
        let between = (sum - below * mean).powi(2) / (below * (all - below));
        if pair[0] < pair[1] && best.is_none_or(|(most, _)| between > most) {
            best = Some((between, at + 1));
        }
    }
    let (_, cut) = best?;
    let (near, far) = (moments(&sorted[..cut]), moments(&sorted[cut..]));
    let within = ((near.2 + far.2) / all).sqrt();
    let large = near.0.min(far.0) >= SHARE * all;
    (large && far.1 - near.1 >= APART * within).then(|| sorted[cut])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_groups_are_found_and_one_is_not_cut() {
        let spread = |middle: u64| (0..100).map(move |at| middle + at * 7 % 30);
        let two: Vec<u64> = spread(200).chain(spread(290)).collect();
        assert_eq!(split(&two), Some(290));
        let one: Vec<u64> = spread(200).collect();
        assert_eq!(
            (split(&one), split(&[5; 9]), split(&[]), split(&[1])),
            (None, None, None, None)
        );
        // A few stragglers are no group.
        let stragglers: Vec<u64> = spread(200).chain([900, 901, 902]).collect();
        assert_eq!(split(&stragglers), None);
    }

    proptest! {
        #[test]
        fn uniform_numbers_are_one_group(seed in 0u64..500) {
            let mut random = oorandom::Rand64::new(u128::from(seed));
            let numbers: Vec<u64> = (0..2000).map(|_| random.rand_range(200..300)).collect();
            prop_assert_eq!(split(&numbers), None);
        }
    }
}
