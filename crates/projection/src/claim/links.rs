//! Claims about links: to peers, to the host and to the network, against what files of parts and
//! links state, in one direction and in both.

use super::{
    Answer, Reading, Verdict,
    hardware::{PEAK_MOST, Stated, verdict},
    unit::Piece,
    wire::{Fabric, Kind, Ways},
};
use fizeau_domain::{
    number::percent,
    spec::{Part, Reach, Wire, part::LinkFile},
    text::counted,
    units::BytesPerSecond,
};
use std::collections::BTreeMap;

/// What is missing where no file states a link.
const NO_LINK: &str = "a file of data/links, or of data/parts, that states this link";

/// A rate that a link's file states, in a direction or in both.
struct Rate<'w> {
    wire: &'w Wire,
    rate: f64,
    ways: Ways,
    /// Of which part of the link: "one GPU", "one link".
    of: String,
    /// Whether it is of several devices together.
    is_whole: bool,
}

impl Rate<'_> {
    fn how(&self) -> String {
        let ways = match self.ways {
            Ways::One => "one way",
            Ways::Both => "both ways",
        };
        let of = if self.of.is_empty() { String::new() } else { format!(" of {}", self.of) };
        format!("{}{of}, {ways}", self.wire.name)
    }
}

/// Every rate of a link, as the text's conditions leave them.
fn rates<'w>(wire: &'w Wire, reading: &Reading) -> Vec<Rate<'w>> {
    let mut found = Vec::new();
    let is_bisection = reading.beside.is_bisection;
    let mut add = |each_way: f64, of: &str, is_whole: bool| {
        for (ways, factor) in [(Ways::One, 1.0), (Ways::Both, 2.0)] {
            if reading.beside.ways.is_none_or(|stated| stated == ways) {
                let (rate, of) = (each_way * factor, of.to_owned());
                found.push(Rate { wire, rate, ways, of, is_whole });
            }
        }
    };
    if is_bisection {
        let half = wire.domain.map(|domain| domain / 2).filter(|half| *half > 0);
        if let Some(half) = half {
            let of = format!("{} with the other {half}", counted(half as usize, "GPU"));
            add(wire.each_way * f64::from(half), &of, true);
        }
        return found;
    }
    match reading.piece {
        Some(Piece::Link) => {
            if let Some(each) = wire.each_link.or(wire.links.is_none().then_some(wire.each_way)) {
                add(each, "one link", false);
            }
            if let Some(line) = line_rate(wire) {
                add(line, "one link before its encoding", false);
            }
            return found;
        }
        Some(Piece::Lane) => {
            if let Some(lane) = wire.lane {
                add(lane / 8.0, "one lane", false);
            }
            return found;
        }
        _ => {}
    }
    let device = if wire.reach == Some(Reach::Peers) { "one GPU" } else { "" };
    add(wire.each_way, device, false);
    for (rate, of) in &wire.others {
        add(*rate, of, of.contains("together"));
    }
    if let Some(each) = wire.each_link {
        add(each, "one link", false);
    }
    let is_open = reading.devices.is_none() && reading.is_each != Some(true);
    if let Some(domain) = wire.domain.filter(|_| is_open) {
        let all = wire.each_way * f64::from(domain);
        add(all, &format!("all {domain} GPUs together"), true);
    }
    found
}

/// What the wires of one NVLink carry in one direction with their encoding, as `nvidia-smi nvlink
/// -s` prints it, by generation: 8 lanes of 25.78125 Gbit/s, 2 of 106.25 and 2 of 212.5.
const LINE_RATES: [(u32, f64); 3] = [(2, 25.781_25e9), (4, 26.5625e9), (5, 53.125e9)];

fn line_rate(wire: &Wire) -> Option<f64> {
    let named = Fabric::of_wire(wire).into_iter().find(|one| one.kind == Kind::Nvlink)?;
    let known = LINE_RATES.iter().find(|(generation, _)| named.generation == Some(*generation));
    let full = |rate: &f64| wire.each_link.is_some_and(|each| (rate / each - 1.0).abs() < 0.1);
    known.map(|(_, rate)| *rate).filter(full)
}

/// The links that a text may mean, and what of the text no link has.
struct Meant {
    wires: Vec<Wire>,
    /// In words; none where all is as the text says.
    contradiction: Option<String>,
    /// What is taken for something that is not stated.
    taken: Option<String>,
}

fn of_files(fabric: Fabric, files: &BTreeMap<String, LinkFile>) -> Vec<Wire> {
    let all = files.iter().map(|(id, file)| Wire::of_file(id, file));
    let all: Vec<Wire> = all.filter(|wire| fabric.is_kind_of(wire)).collect();
    let exact: Vec<Wire> =
        all.iter().filter(|wire| fabric.is_generation_of(wire)).cloned().collect();
    if fabric.generation.is_some() { exact } else { all }
}

/// A network that a text names: a port of the speed in its name, or what files state of it. Of
/// several files those that are no faster than the network of the part's own system.
fn of_a_network(
    fabric: Fabric,
    part: Option<&Part>,
    files: &BTreeMap<String, LinkFile>,
) -> Vec<Wire> {
    let mut all = of_files(fabric, files);
    if let Some(each_way) = fabric.of_its_name() {
        all.retain(|wire| (wire.each_way / each_way - 1.0).abs() < 1e-6);
        if all.is_empty() {
            return vec![Wire::port(fabric.name(), each_way)];
        }
    }
    let own = part.into_iter().flat_map(|part| &part.wires);
    let own = own.filter(|wire| wire.reach == Some(Reach::Network)).map(|wire| wire.each_way);
    if let Some(most) = own.reduce(f64::max)
        && all.iter().any(|wire| wire.each_way <= most)
    {
        all.retain(|wire| wire.each_way <= most);
    }
    all
}

/// PCI Express as a text names it; what is not said is the part's.
fn slot(fabric: Fabric, part: Option<&Part>) -> Meant {
    let has = part.and_then(|part| part.pcie);
    let generation = fabric.generation.or(has.map(|[generation, _]| generation));
    let lanes = fabric.lanes.or(has.map(|[_, lanes]| lanes)).unwrap_or(16);
    let taken = fabric.lanes.is_none().then(|| format!("lanes of PCI Express: {lanes} taken"));
    let of_part = part.into_iter().flat_map(|part| &part.wires);
    let is_known = of_part.clone().any(|wire| wire.field == "pcie_gen" && wire.is_confirmed);
    let contradiction = part.zip(has).filter(|_| is_known).and_then(|(part, [most, width])| {
        let is_newer = generation.is_some_and(|stated| stated > most);
        let is_wider = lanes > width;
        (is_newer || is_wider).then(|| {
            let stated = Fabric { generation, lanes: Some(lanes), ..fabric }.name();
            format!("the slot of {} is PCIe {most}.0 x{width}, and not {stated}", part.name)
        })
    });
    let wires = match generation {
        Some(generation) => Wire::pcie(generation, lanes).into_iter().collect(),
        None => Vec::new(),
    };
    Meant { wires, contradiction, taken }
}

/// The links of a part that a text may mean, or those of the files where it names no part.
fn meant(fabric: Fabric, part: Option<&Part>, files: &BTreeMap<String, LinkFile>) -> Meant {
    let plain = |wires: Vec<Wire>| Meant { wires, contradiction: None, taken: None };
    if fabric.kind == Kind::Pcie {
        return slot(fabric, part);
    }
    let of_network = fabric.kind.is_network() && fabric.kind != Kind::Network;
    if of_network {
        return plain(of_a_network(fabric, part, files));
    }
    let Some(part) = part else { return plain(of_files(fabric, files)) };
    let own = part.wires.iter().filter(|wire| fabric.is_kind_of(wire)).cloned();
    let own: Vec<Wire> = own.collect();
    let exact: Vec<Wire> =
        own.iter().filter(|wire| fabric.is_generation_of(wire)).cloned().collect();
    if !exact.is_empty() {
        return plain(exact);
    }
    let others = |reach: Reach| part.wires.iter().find(move |wire| wire.reach == Some(reach));
    let of_kind = match fabric.kind {
        Kind::ChipToChip => others(Reach::Host),
        _ => others(Reach::Peers),
    };
    match (own.first(), of_kind, fabric.kind) {
        // Without links of their own GPUs reach each other over their slots.
        (None, None, Kind::Peers) => {
            let slots = part.wires.iter().filter(|wire| wire.reach == Some(Reach::Host));
            plain(slots.cloned().collect())
        }
        (Some(other), ..) | (None, Some(other), _) => Meant {
            contradiction: Some(format!(
                "{} has {}, and no {}",
                part.name,
                other.name,
                fabric.name()
            )),
            taken: None,
            wires: if own.is_empty() { vec![other.clone()] } else { own },
        },
        (None, None, _) => plain(Vec::new()),
    }
}

/// Judges a rate of a link.
pub fn judge(
    part: Option<&Part>,
    files: &BTreeMap<String, LinkFile>,
    reading: &Reading,
    rate: f64,
    devices: Option<u32>,
) -> Verdict {
    let fabric = reading.beside.link.unwrap_or(Fabric::of(Kind::Any));
    let Meant { wires, contradiction, taken } = meant(fabric, part, files);
    if wires.is_empty() {
        let whose = part.map(|part| format!(" of {}", part.name)).unwrap_or_default();
        let why = format!("no text of the catalogue states {}{whose}", fabric.name());
        return Verdict::cannot_tell(why, NO_LINK);
    }
    // Ports of a network are counted as its links are: each has a share of the figure.
    let ports = reading.beside.links.filter(|_| fabric.kind.is_network());
    let devices = match (ports, devices) {
        (Some(count), _) => Some(devices.unwrap_or(1).saturating_mul(count)),
        // nvbandwidth adds the cells of its table: of each device, or of each two.
        (None, Some(count)) if reading.beside.is_sum && fabric.kind == Kind::Peers => {
            Some(count.saturating_mul(count.saturating_sub(1)))
        }
        _ => devices,
    };
    let stated = Stated::of(reading, rate, devices);
    let all: Vec<Rate<'_>> = wires.iter().flat_map(|wire| rates(wire, reading)).collect();
    let mut found = beside_rates(&all, &wires, reading, stated);
    if reading.beside.is_sum && devices.is_none() && found.answer == Answer::Impossible {
        let why = format!("it is the sum of a table, of one device {}", found.why);
        found = Verdict { answer: Answer::CannotTell, why, ..found };
        found.missing.push("how many devices the table has: on 8 GPUs".into());
    }
    found.missing.extend(taken);
    if let Some(stated) = reading.beside.lane
        && let Some(wire) = wires.iter().find(|wire| wire.lane.is_some_and(|lane| stated > lane))
    {
        let why = format!("a lane of {} has no {} GT/s", wire.name, stated / 1e9);
        return against(found, why);
    }
    if let Some(count) = reading.beside.links
        && let Some(wire) = wires.iter().find(|wire| wire.links.is_some_and(|has| has != count))
        && contradiction.is_none()
    {
        let has = wire.links.unwrap_or_default();
        let why = format!("{} has {}, and not {count}", wire.name, counted(has as usize, "link"));
        return against(found, why);
    }
    match contradiction {
        Some(why) => against(found, why),
        None => found,
    }
}

/// A verdict on a text that names what its part does not have.
pub fn against(found: Verdict, why: String) -> Verdict {
    let why = format!("{why}; the figure alone: {}", found.why);
    Verdict { answer: Answer::Impossible, why, ..found }
}

/// A figure beside the rates of the links that it may be of.
fn beside_rates(all: &[Rate<'_>], wires: &[Wire], reading: &Reading, stated: Stated) -> Verdict {
    let spelled = |rate: f64| BytesPerSecond(rate).to_string();
    let is_network = reading.beside.link.is_some_and(|link| link.kind.is_network());
    let rate = stated.rate;
    let mut lines = Vec::new();
    if stated.devices > 1.0 {
        let together = spelled(rate * stated.devices);
        lines.push(format!("{together} of {} devices = {} of each", stated.devices, spelled(rate)));
    }
    let is_near = |one: &Rate<'_>| rate <= one.rate * FAR;
    let is_told = |one: &Rate<'_>| is_near(one) || !all.iter().any(is_near);
    for one in all.iter().filter(|one| !one.is_whole && is_told(one)) {
        let share = percent(rate / one.rate, 1);
        lines.push(format!("{} / {} ({}) = {share}", spelled(rate), spelled(one.rate), one.how()));
    }
    lines.dedup();
    lines.truncate(LINES_MAX);
    if let Some(wire) = wires.iter().find(|wire| wire.practical.is_some())
        && let Some(practical) = wire.practical
    {
        let practical = spelled(practical);
        lines.push(format!("others measured {practical} of {} one way", wire.name));
    }
    let same = all.iter().filter(|one| stated.is(reading, one.rate));
    // Ports of networks are stated one way.
    if let Some(same) = same.min_by_key(|one| is_network && one.ways == Ways::Both) {
        let how = format!("the stated {}: {}", same.how(), spelled(same.rate));
        return if reading.is_measured {
            let why = format!("it is {how}, and measurements do not reach peaks");
            verdict(Answer::Suspicious, why, rate / same.rate, lines)
        } else {
            let why = format!("true, as {how}; as a measured rate it would be suspicious");
            verdict(Answer::Possible, why, rate / same.rate, lines)
        };
    }
    let most = |ways: Ways| {
        let is_wanted = |one: &&Rate<'_>| one.ways == ways && is_in_reach(one, reading);
        all.iter().filter(is_wanted).max_by(|a, b| a.rate.total_cmp(&b.rate))
    };
    let least = stated.least(reading);
    let (one, both) = (most(Ways::One), most(Ways::Both));
    let bounds: Vec<&Rate<'_>> = [one, both].into_iter().flatten().collect();
    let Some(first) = bounds.first() else {
        return Verdict::cannot_tell("no text states such a rate of this link", NO_LINK);
    };
    if least <= first.rate * (1.0 + 1e-9) {
        let share = rate / first.rate;
        let how = format!("it is {} of {}", percent(share, 1), first.how());
        let reached = if is_network { NETWORK_MOST } else { PEAK_MOST };
        let (answer, why) = match least > first.rate * reached {
            true => (Answer::Suspicious, format!("{how}, more than measurements reach")),
            false => (Answer::Possible, how),
        };
        return verdict(answer, why, share, lines);
    }
    let above = format!("it is {} of {}", percent(rate / first.rate, 1), first.how());
    if let Some(other) = bounds.get(1).filter(|other| least <= other.rate * (1.0 + 1e-9)) {
        let share = rate / other.rate;
        let why = format!(
            "{above}, which is impossible; as both directions together it is {} of {}",
            percent(share, 1),
            spelled(other.rate)
        );
        let mut found = verdict(Answer::CannotTell, why, share, lines);
        found.missing.push("directions: one way, or both ways".into());
        return found;
    }
    let last = bounds.last().unwrap_or(first);
    let why = format!("it is {} of {}", percent(rate / last.rate, 1), last.how());
    if wires.iter().all(|wire| wire.is_confirmed) {
        return verdict(Answer::Impossible, why, rate / last.rate, lines);
    }
    let why = format!("{why}, which no document of the vendor confirms");
    verdict(Answer::Suspicious, why, rate / last.rate, lines)
}

/// The most that a measurement reaches of a port of a network: 4,096 bytes of a packet with at
/// least 30 of headers and checksums (InfiniBand's local route, transport and both CRCs).
const NETWORK_MOST: f64 = 0.993;

/// Rates that are lower than a figure by this factor are not told beside it.
const FAR: f64 = 10.0;

/// Lines of a verdict on a link.
const LINES_MAX: usize = 12;

/// Whether a figure may be up to this rate: several devices together where the text says so.
fn is_in_reach(one: &Rate<'_>, reading: &Reading) -> bool {
    // What is lost to the encoding is never carried.
    !one.of.contains("encoding") && (!one.is_whole || reading.is_each == Some(false))
}

/// Transfers of one lane.
pub fn lanes(
    part: Option<&Part>,
    files: &BTreeMap<String, LinkFile>,
    reading: &Reading,
    rate: f64,
) -> Verdict {
    let fabric = reading.beside.link.unwrap_or(Fabric::of(Kind::Any));
    let Meant { wires, contradiction, .. } = meant(fabric, part, files);
    let with_lane = wires.iter().filter_map(|wire| Some((wire, wire.lane?)));
    let known: Vec<(&Wire, f64)> = with_lane.collect();
    let Some((wire, most)) = known.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        let why = format!("no text of the catalogue states a lane of {}", fabric.name());
        return Verdict::cannot_tell(why, NO_LINK);
    };
    let (share, giga) = (rate / most, most / 1e9);
    let line = format!("{} / {giga} GT/s of a lane of {}", rate / 1e9, wire.name);
    let is_same = known.iter().any(|(_, lane)| (rate / lane - 1.0).abs() < 0.01);
    let (answer, why) = match (is_same, share > 1.0) {
        (true, _) => {
            (Answer::Possible, format!("true, as the stated rate of a lane of {}", wire.name))
        }
        (false, true) => (Answer::Impossible, format!("a lane of {} has {giga} GT/s", wire.name)),
        (false, false) => {
            let why = format!("a lane of {} has {giga} GT/s where both ends can", wire.name);
            (Answer::Suspicious, why)
        }
    };
    let found = verdict(answer, why, share, vec![line]);
    match contradiction {
        Some(why) => against(found, why),
        None => found,
    }
}

/// What a rate that names nothing is beside each link of a part: whether it is that link's stated
/// rate, and a line.
pub fn unnamed(part: &Part, reading: &Reading, stated: Stated) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    for wire in &part.wires {
        let all = rates(wire, reading);
        // Of several devices, or of one of several links, a text says so.
        let of_device = |one: &&Rate<'_>| one.of.is_empty() || one.of == "one GPU";
        let same = all.iter().filter(of_device).find(|one| stated.is(reading, one.rate));
        if let Some(same) = same {
            found.push((true, format!("the stated {}: {}", same.how(), BytesPerSecond(same.rate))));
            continue;
        }
        let (share, both) = (stated.rate / wire.each_way, stated.rate / wire.each_way / 2.0);
        found.push((
            false,
            format!(
                "as {} it would be {} of {} one way, {} of both ways",
                wire.name,
                percent(share, 1),
                BytesPerSecond(wire.each_way),
                percent(both, 1)
            ),
        ));
    }
    found
}
