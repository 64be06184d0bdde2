//! Claims about memory, arithmetic and links, against the catalogue.

use super::{Answer, Statement, Verdict};
use crate::project::Hardware;
use fizeau_domain::{
    case::Algorithm,
    dtype::Dtype,
    spec::Part,
    units::{BytesPerSecond, FlopsPerSecond},
};

/// Above this share of a peak a measurement is suspicious: the best public reads of HBM reach 0.98
/// of the rate of its pins (gpu-benches on GH200).
const PEAK_MOST: f64 = 0.985;

/// Within this of a stated peak a figure is that peak.
const SAME: f64 = 0.004;

/// Whether a figure is a peak that a vendor's text states, and no measurement.
pub fn is_stated_peak(part: &Part, statement: &Statement) -> bool {
    let stated = match statement {
        Statement::Memory(_) => part.memory_bandwidth.map(|rate| rate.0),
        Statement::Arithmetic(_, Some(dtype)) => part.peaks.get(dtype).map(|rate| rate.0),
        _ => None,
    };
    stated.is_some_and(|stated| (statement.figure() / stated - 1.0).abs() <= SAME)
}

/// What is missing where the catalogue lacks a number.
const NO_PEAK: &str = "the vendor's number of it, in the catalogue (docs/adding.md)";

/// What is missing where a rate of arithmetic has no element type.
const NO_TYPE: &str = "element type: fp8, bf16, ...";

fn verdict(answer: Answer, why: String, share: f64, arithmetic: Vec<String>) -> Verdict {
    Verdict { answer, why, of_light: Some(share), of_serial: None, arithmetic, missing: Vec::new() }
}

/// A figure beside a stated peak, and the most that the part may do.
fn beside(what: &str, rate: f64, stated: f64, most: f64, lines: Vec<String>) -> Verdict {
    let share = rate / most;
    let percent = share * 100.0;
    if (rate / stated - 1.0).abs() <= SAME {
        let why = format!(
            "it is the stated peak of {what} itself: true as a datasheet's number; as a measured \
             one it would be suspicious"
        );
        return verdict(Answer::Possible, why, share, lines);
    }
    let (answer, why) = if share > 1.0 + 1e-9 {
        (Answer::Impossible, format!("it is {percent:.1} % of the most that {what} can do"))
    } else if share > PEAK_MOST || rate > stated {
        let why = format!(
            "it is {percent:.1} % of the most that {what} can do, more than measurements reach"
        );
        (Answer::Suspicious, why)
    } else {
        (Answer::Possible, format!("it is {percent:.1} % of the peak of {what}"))
    };
    verdict(answer, why, share, lines)
}

/// Memory bandwidth.
pub fn memory(part: &Part, rate: f64) -> Verdict {
    let Some(stated) = part.memory_bandwidth else {
        let why = format!("no text states the memory bandwidth of {}", part.name);
        return Verdict::cannot_tell(why, NO_PEAK);
    };
    let most = part.memory_bandwidth_most.unwrap_or(stated).0.max(stated.0);
    let mut lines = vec![format!(
        "{} / {stated} (stated for {}) = {:.1} %",
        BytesPerSecond(rate),
        part.name,
        rate / stated.0 * 100.0
    )];
    if most > stated.0 * 1.001 {
        let most = BytesPerSecond(most);
        lines.push(format!("other texts of the vendor, or its pins, come to {most}"));
    }
    beside("this memory", rate, stated.0, most, lines)
}

/// Arithmetic.
pub fn arithmetic(part: &Part, rate: f64, dtype: Option<Dtype>) -> Verdict {
    let Some(dtype) = dtype else {
        let mut verdict = Verdict::cannot_tell("the element type is not stated", NO_TYPE);
        let known = part.peaks.iter().map(|(dtype, peak)| format!("{dtype}: {peak} dense"));
        verdict.arithmetic = known.collect();
        return verdict;
    };
    let Some(stated) = part.peaks.get(&dtype).copied() else {
        let why = format!("no text states what {} does in {dtype}", part.name);
        return Verdict::cannot_tell(why, NO_PEAK);
    };
    let mut lines = vec![format!(
        "{} / {stated} (dense {dtype} of {}) = {:.1} %",
        FlopsPerSecond(rate),
        part.name,
        rate / stated.0 * 100.0
    )];
    let mut most = stated.0;
    if let (Some(units), Some(each), Some(clock)) =
        (part.units, part.flops_per_clock.get(&dtype), part.clock_most)
    {
        let boosted = f64::from(units) * each * clock.0 * 1e6;
        if boosted > most * 1.001 {
            most = boosted;
            let boosted = FlopsPerSecond(boosted);
            lines.push(format!(
                "at the highest clock: {units} units x {each} a clock x {clock} = {boosted}; for \
                 short work only"
            ));
        }
    }
    if (rate / stated.0 / 2.0 - 1.0).abs() <= SAME {
        lines.push("it is twice the dense peak: vendors print that for 2:4 sparsity".into());
    }
    beside("these units", rate, stated.0, most, lines)
}

/// Operations of one unit in a clock.
pub fn per_clock(part: &Part, rate: f64, dtype: Option<Dtype>) -> Verdict {
    let Some(dtype) = dtype else {
        let mut verdict = Verdict::cannot_tell("the element type is not stated", NO_TYPE);
        let known = part.flops_per_clock.iter();
        verdict.arithmetic =
            known.map(|(dtype, each)| format!("{dtype}: {each} a clock")).collect();
        return verdict;
    };
    let Some(stated) = part.flops_per_clock.get(&dtype).copied() else {
        let why = format!("no text states what a unit of {} does in {dtype} each clock", part.name);
        return Verdict::cannot_tell(why, NO_PEAK);
    };
    let lines = vec![format!(
        "{rate} / {stated} operations each clock (dense {dtype} of one unit of {}) = {:.1} %",
        part.name,
        rate / stated * 100.0
    )];
    beside("a unit", rate, stated, stated, lines)
}

/// Bus bandwidth of an all_reduce.
pub fn bus(part: &Part, rate: f64, devices: Option<u32>) -> Verdict {
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
    if link.domain.is_some_and(|domain| n > domain) {
        return between_nodes(&hardware.name, rate, n, &link);
    }
    let mut lines = vec![format!(
        "a ring sends 2 (n - 1) / n of a message over each device's links, which is what bus \
         bandwidth counts: {} / {} ({}) = {:.1} %",
        BytesPerSecond(rate),
        link.inside,
        link.basis,
        rate / inside * 100.0
    )];
    let mut most = inside;
    let reduces = part.algorithms.contains(&Algorithm::Switch);
    if reduces {
        most = inside * 2.0 * (count - 1.0) / (count + 1.0);
        let wire = rate * (count + 1.0) / (2.0 * (count - 1.0));
        lines.push(format!(
            "a switch that sums sends (n + 1) / n: {} on the wire, {:.1} % of the links; the most \
             is {}",
            BytesPerSecond(wire),
            wire / inside * 100.0,
            BytesPerSecond(most.max(inside))
        ));
    }
    let most = most.max(inside);
    let share = rate / most;
    let percent = share * 100.0;
    let (answer, why) = if share > 1.0 {
        (Answer::Impossible, format!("it is {percent:.1} % of what these links carry"))
    } else if share > PEAK_MOST {
        (Answer::Suspicious, format!("it is {percent:.1} % of what these links carry"))
    } else if rate > inside {
        let why = "it is above what a ring can do and needs a switch that sums".into();
        (Answer::Possible, why)
    } else {
        (Answer::Possible, format!("it is {percent:.1} % of what these links carry"))
    };
    verdict(answer, why, share, lines)
}

/// Over a network each device's interface carries (k - 1) / (n - 1) of the bus bandwidth, with k
/// nodes: a hierarchical all_reduce sends 2 (k - 1) / k of a node's share (stas00/ml-engineering,
/// network).
fn between_nodes(name: &str, rate: f64, n: u32, link: &crate::project::Link) -> Verdict {
    let Some((outside, domain)) = link.outside.zip(link.domain) else {
        let why = format!("{name}: nothing is known of its network");
        return Verdict::cannot_tell(why, NO_PEAK);
    };
    let nodes = n.div_ceil(domain);
    let wire = rate * f64::from(nodes - 1) / f64::from(n - 1);
    let share = wire / outside.0;
    let lines = vec![format!(
        "{nodes} nodes: {} x (k - 1) / (n - 1) = {} over each device's interface of {outside} = \
         {:.1} %",
        BytesPerSecond(rate),
        BytesPerSecond(wire),
        share * 100.0
    )];
    let percent = share * 100.0;
    let (answer, why) = if share > 1.0 {
        (Answer::Impossible, format!("it is {percent:.1} % of what its network carries"))
    } else if share > PEAK_MOST {
        (Answer::Suspicious, format!("it is {percent:.1} % of what its network carries"))
    } else {
        (Answer::Possible, format!("it is {percent:.1} % of what its network carries"))
    };
    verdict(answer, why, share, lines)
}
