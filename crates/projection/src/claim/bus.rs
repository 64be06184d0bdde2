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
        let switch = part.algorithms.contains(&Algorithm::Switch);
        return between_nodes(&hardware.name, rate, n, &link, (reading.beside.collective, switch));
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

/// Shares of what a network and the links of a node carry, where devices of several nodes take
/// part: the larger one decides.
///
/// With n devices in k nodes of d, and B the bus bandwidth as nccl-tests counts it, which is S / t
/// of a message of S bytes times 2 (n - 1) / n (all_reduce), (n - 1) / n (all_gather,
/// reduce_scatter, all_to_all) or 1:
///
/// - Of an all_reduce, all_gather and reduce_scatter a node sends or receives 2 (k - 1) / k or
///   (k - 1) / k of S through its d interfaces, which is B (k - 1) / (n - 1) for each. A network
///   that sums has S of an all_reduce instead.
/// - Of an all_to_all each device sends (n - d) / n of S to other nodes: B (n - d) / (n - 1).
/// - Of a broadcast, reduce and sendrecv a node takes or gives S: B / d.
/// - Each device sends or receives B in all, through its links and its interface together. A
///   switch that sums leaves (d + 1) / d of S of an all_reduce to send in place of 2 (n - 1) / n.
///   An all_to_all has (d - 1) / n of S for devices of the same node, which no interface takes.
fn between_nodes(
    name: &str,
    rate: f64,
    n: u32,
    link: &Link,
    (collective, switch): (Option<&'static str>, bool),
) -> Verdict {
    let Some((outside, domain)) = link.outside.zip(link.domain) else {
        let why = format!("{name}: nothing is known of its network");
        return Verdict::cannot_tell(why, NO_PEAK);
    };
    let nodes = n.div_ceil(domain);
    let [count, of_node, k] = [n, domain, nodes].map(f64::from);
    let all_reduce = collective.is_none();
    let (formula, factor) = match collective {
        Some("alltoall") => ("(n - d) / (n - 1)", (count - of_node) / (count - 1.0)),
        Some("broadcast" | "reduce" | "sendrecv") => ("1 / d", 1.0 / of_node),
        _ => ("(k - 1) / (n - 1)", (k - 1.0) / (count - 1.0)),
    };
    let wire = rate * factor;
    let over_network = wire / outside.0;
    let (what, within) = match collective {
        Some("alltoall") => {
            ("its links, to devices of its node", rate * (of_node - 1.0) / (count - 1.0))
        }
        _ => ("its links and interface", rate),
    };
    let carries = match collective {
        Some("alltoall") => link.inside.0,
        _ => link.inside.0 + outside.0,
    };
    let over_links = within / carries;
    let lines = vec![
        format!(
            "{nodes} nodes of {domain} devices: {} x {formula} = {} over each device's interface \
             of {outside} = {}",
            BytesPerSecond(rate),
            BytesPerSecond(wire),
            percent(over_network, 1)
        ),
        format!(
            "{} of each device over {what}, which carry {} ({}) = {}",
            BytesPerSecond(within),
            BytesPerSecond(carries),
            link.basis,
            percent(over_links, 1)
        ),
    ];
    // What is left of both where the node's switch and the network sum.
    let summed = match all_reduce {
        true => {
            let by_network = over_network / (2.0 * (k - 1.0) / k).max(1.0);
            let by_switch = (of_node + 1.0) / of_node * count / (2.0 * (count - 1.0));
            let by_switch = if switch { over_links * by_switch.min(1.0) } else { over_links };
            [by_network, by_switch]
        }
        false => [over_network, over_links],
    };
    judged([over_network, over_links], summed, lines)
}

/// The verdict on shares of a network and of a node's links, as they are and as they would be with
/// sums within them.
fn judged([network, links]: [f64; 2], summed: [f64; 2], lines: Vec<String>) -> Verdict {
    let what = |[network, links]: [f64; 2]| match network >= links {
        true => (network, "what its network carries"),
        false => (links, "what its links carry"),
    };
    let (share, carries) = what([network, links]);
    let (least, most) = what(summed);
    if share <= PEAK_MOST {
        let why = format!("it is {} of {carries}", percent(share, 1));
        return verdict(Answer::Possible, why, share, lines);
    }
    if least <= PEAK_MOST && least < share {
        let why = format!("it is {} of {carries}, unless sums are made within", percent(share, 1));
        let only = Some("with sums within the network or a switch (in-network reduction)".into());
        return Verdict { only, ..verdict(Answer::Possible, why, least, lines) };
    }
    let (share, carries) = if least < share { (least, most) } else { (share, carries) };
    let why = format!("it is {} of {carries}", percent(share, 1));
    let answer = if share > 1.0 { Answer::Impossible } else { Answer::Suspicious };
    verdict(answer, why, share, lines)
}
