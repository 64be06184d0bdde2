//! Claims about bus bandwidth, as nccl-tests and rccl-tests count it.

use super::{
    Answer, Reading, Verdict,
    hardware::{NO_PEAK, PEAK_MOST, verdict},
};
use crate::project::{Hardware, Link};
use fizeau_domain::{case::Algorithm, number::percent, spec::Part, units::BytesPerSecond};

/// Bus bandwidth of a collective as nccl-tests counts it; a switch that sums helps an all_reduce
/// alone.
pub fn judge(part: &Part, reading: &Reading, rate: f64, devices: Option<u32>) -> Verdict {
    let hardware = match Hardware::of_part(part) {
        Ok(hardware) => hardware,
        Err(why) => return Verdict::cannot_tell(why, NO_PEAK),
    };
    let Some(link) = hardware.link else {
        let why = format!("no text states the links of {}", part.name);
        return Verdict::cannot_tell(why, NO_PEAK);
    };
    let inside = link.inside.0;
    let Some(n) = devices.filter(|n| *n >= 2) else {
        let (why, missing) = match devices {
            Some(_) => ("one device exchanges nothing", "devices: 2 at least"),
            None => ("the number of devices is not stated", "devices: busbw 480 on 8 GPUs"),
        };
        let mut verdict = Verdict::cannot_tell(why, missing);
        verdict.arithmetic.push(format!("links: {}", link.basis));
        return verdict;
    };
    let count = f64::from(n);
    let (rate, by_message) = match reading.beside.is_by_message {
        true => {
            let factor = match reading.beside.collective {
                None => 2.0 * (count - 1.0) / count,
                Some("broadcast" | "reduce" | "sendrecv") => 1.0,
                Some(_) => (count - 1.0) / count,
            };
            let line = format!(
                "{} by the message = {} on the bus of {n} devices",
                BytesPerSecond(rate),
                BytesPerSecond(rate * factor)
            );
            (rate * factor, Some(line))
        }
        false => (rate, None),
    };
    if link.domain.is_some_and(|domain| n > domain) {
        return between_nodes(&hardware.name, rate, n, &link);
    }
    let mut lines = vec![format!(
        "a ring sends 2 (n - 1) / n of a message over each device's links, which is what bus \
         bandwidth counts: {} / {} ({}) = {}",
        BytesPerSecond(rate),
        link.inside,
        link.basis,
        percent(rate / inside, 1)
    )];
    lines.extend(by_message);
    let mut most = inside;
    let reduces =
        reading.beside.collective.is_none() && part.algorithms.contains(&Algorithm::Switch);
    if reduces {
        most = inside * 2.0 * (count - 1.0) / (count + 1.0);
        let wire = rate * (count + 1.0) / (2.0 * (count - 1.0));
        lines.push(format!(
            "a switch that sums sends (n + 1) / n: {} on the wire, {} of the links; the most \
             is {}",
            BytesPerSecond(wire),
            percent(wire / inside, 1),
            BytesPerSecond(most.max(inside))
        ));
    }
    let most = most.max(inside);
    let share = rate / most;
    let of_most = percent(share, 1);
    let (answer, why) = if share > 1.0 {
        (Answer::Impossible, format!("it is {of_most} of what these links carry"))
    } else if share > PEAK_MOST {
        (Answer::Suspicious, format!("it is {of_most} of what these links carry"))
    } else if rate > inside {
        let why = "it is above what a ring can do and needs a switch that sums".into();
        (Answer::Possible, why)
    } else {
        (Answer::Possible, format!("it is {of_most} of what these links carry"))
    };
    let needs_switch = answer == Answer::Possible && rate > inside;
    let only = needs_switch.then(|| "with a switch that sums (in-network reduction)".into());
    Verdict { only, ..verdict(answer, why, share, lines) }
}

/// Over a network each device's interface carries (k - 1) / (n - 1) of the bus bandwidth, with k
/// nodes: a hierarchical all_reduce sends 2 (k - 1) / k of a node's share (stas00/ml-engineering,
/// network).
fn between_nodes(name: &str, rate: f64, n: u32, link: &Link) -> Verdict {
    let Some((outside, domain)) = link.outside.zip(link.domain) else {
        let why = format!("{name}: nothing is known of its network");
        return Verdict::cannot_tell(why, NO_PEAK);
    };
    let nodes = n.div_ceil(domain);
    let wire = rate * f64::from(nodes - 1) / f64::from(n - 1);
    let share = wire / outside.0;
    let lines = vec![format!(
        "{nodes} nodes: {} x (k - 1) / (n - 1) = {} over each device's interface of {outside} = \
         {}",
        BytesPerSecond(rate),
        BytesPerSecond(wire),
        percent(share, 1)
    )];
    let of_most = percent(share, 1);
    let (answer, why) = if share > 1.0 {
        (Answer::Impossible, format!("it is {of_most} of what its network carries"))
    } else if share > PEAK_MOST {
        (Answer::Suspicious, format!("it is {of_most} of what its network carries"))
    } else {
        (Answer::Possible, format!("it is {of_most} of what its network carries"))
    };
    verdict(answer, why, share, lines)
}
