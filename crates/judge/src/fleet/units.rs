//! Who is who: sessions become nodes and devices, of which each has its latest figures.
//!
//! - A device is a GPU by its UUID or serial number on a node; where neither is told, its place.
//! - Where two boards were in one place, or two machines had one name, the later is taken for the
//!   replacement of the earlier if their sessions do not interleave and are far enough apart for an
//!   exchange. Else both exist.
//! - A session that is made up, or dated in the future, does not count beside real ones.

use super::{
    gather::{Entry, Gathered, Said, column},
    problem::{Kind, Problems},
    row::{ACCEPTANCE, NODE, date, seconds},
    sender::{self, Left},
    site::Expected,
};
use fizeau_domain::text::{clean, counted};
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
};

/// Which sessions count.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// From this date on, `2026-11-23`.
    pub since: Option<String>,
    /// Up to the end of this date.
    pub until: Option<String>,
    /// Whether all sessions of a device in the window count together, and not its latest alone.
    pub combine: bool,
    /// The last date that may be: the day after today.
    pub latest: String,
}

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Index of its node.
    pub node: u32,
    /// Its latest entry, which says who it is.
    pub entry: u32,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its name, with the machine's number where two have the name.
    pub name: String,
    /// The name alone.
    pub plain: String,
    /// The session of its latest acceptance, as the number of a text; 0 of none.
    pub acceptance: u32,
    /// When its latest session began.
    pub time: String,
    /// Whether its latest acceptance did not come to its end.
    pub is_incomplete: bool,
}

/// Whether a name is that of one GPU, as `fizeau devices` names it.
pub fn is_gpu(device: &str) -> bool {
    let number = ["cuda:", "hip:"].iter().find_map(|backend| device.strip_prefix(backend));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// All nodes and devices.
#[derive(Clone, Debug, Default)]
pub struct Units {
    /// Nodes, by name.
    pub nodes: Vec<Node>,
    /// Devices, by node and name.
    pub units: Vec<Unit>,
    /// The device of each entry; none of entries that do not count, and of those about a node.
    pub unit_of: Vec<Option<u32>>,
    /// The node of each entry; none of entries that do not count.
    pub node_of: Vec<Option<u32>>,
    /// The mark that all that counts has, if any.
    pub mark: String,
    /// Whether each entry is of the operator's window, can have been, and is not made up.
    pub is_asked: Vec<bool>,
    /// Who sent, or should have sent, what does not count: by node or path, with the reason.
    pub accounts: BTreeMap<String, String>,
    /// Those of them of which nothing counts, since another board, machine or node has their place.
    pub displaced: BTreeMap<String, String>,
}

/// First and last time of something, as texts.
type Span<'t> = (&'t str, &'t str);

fn widen<'t>(span: &mut Span<'t>, time: &'t str) {
    span.0 = span.0.min(time);
    span.1 = span.1.max(time);
}

/// Seconds between sessions of two boards in one place, or of one board in two: an exchange takes
/// longer than this.
const BOARD_EXCHANGE: f64 = 15.0 * 60.0;

/// The same of two machines with one name. All nodes of a fleet may be measured within hours, each
/// once: of two that began apart by less, it is not known that one replaced the other.
const MACHINE_EXCHANGE: f64 = 12.0 * 3600.0;

/// Of several that claim one name or place: those that are there now, and those that they replaced.
/// The latest is there; so is each whose last session began less than `exchange` seconds before the
/// latest one's first.
fn settle<'t, K: Copy + Ord>(claims: &BTreeMap<K, Span<'t>>, exchange: f64) -> (Vec<K>, Vec<K>) {
    let latest = claims.values().map(|(first, last)| (*last, *first)).max();
    let Some((_, since)) = latest else { return (Vec::new(), Vec::new()) };
    let since = seconds(since).unwrap_or_default();
    let is_gone =
        |(_, (_, last)): &(&K, &Span<'t>)| seconds(last).unwrap_or_default() + exchange < since;
    let (gone, there): (Vec<_>, Vec<_>) = claims.iter().partition(is_gone);
    let keys = |list: Vec<(&K, &Span<'t>)>| list.into_iter().map(|(key, _)| *key).collect();
    (keys(there), keys(gone))
}

/// A node by the numbers of its name and machine; 0 where the machine does not count.
type NodeKey = (u32, u32);

impl Units {
    /// Finds them. Where the operator has a list of nodes, what others sent counts for nothing: who
    /// can write to the place where bundles are collected can make nodes up.
    pub fn of(
        gathered: &Gathered,
        window: &Window,
        expected: Option<&Expected>,
        problems: &mut Problems,
    ) -> Units {
        unusual_names(gathered, problems);
        let mut left = vec![None; gathered.entries.len()];
        let mut counts = in_window(gathered, window, &mut left, problems);
        for at in &gathered.shared {
            (counts[*at as usize], left[*at as usize]) = (false, Some(Left::Shared));
        }
        for node in expected.into_iter().flat_map(|expected| unlisted(gathered, expected)) {
            counts[node] = false;
        }
        let mut step = |before: &[bool], counts: &[bool], why: Left| {
            for (at, left) in left.iter_mut().enumerate() {
                if before[at] && !counts[at] {
                    *left = Some(why);
                }
            }
        };
        let before = counts.clone();
        let mark = without_made_up(gathered, &mut counts, problems);
        step(&before, &counts, Left::MadeUp);
        let is_asked = counts.clone();
        let node_keys = node_keys(gathered, &mut counts, problems);
        step(&is_asked, &counts, Left::Machine);
        let before = counts.clone();
        let ids = ids(gathered, &node_keys, &mut counts, problems);
        step(&before, &counts, Left::Board);
        // The boards of stub drivers have the same numbers on every node.
        if mark.is_empty() {
            let before = counts.clone();
            moved(gathered, &node_keys, &ids, &mut counts, problems);
            step(&before, &counts, Left::Moved);
        }
        let mut found = collect(gathered, &node_keys, &ids, &counts);
        (found.mark, found.is_asked) = (mark, is_asked);
        found.displaced = sender::left_out(gathered, &found, &left, &Left::is_displaced);
        found.accounts = sender::accounts(gathered, &found, &left);
        found
    }

    /// The node's name and the device's, as lines name them.
    pub fn named(&self, gathered: &Gathered, unit: u32) -> [String; 2] {
        let Unit { node, entry } = self.units[unit as usize];
        let device = clean(gathered.told(entry, column::DEVICE));
        [self.nodes[node as usize].name.clone(), device]
    }
}

/// Names each node whose name has letters that are not ASCII, with their numbers: some look like
/// others, and some cannot be seen, so that a reader would take two nodes for one.
fn unusual_names(gathered: &Gathered, problems: &mut Problems) {
    let node = |entry: &Entry| gathered.texts.text(entry.columns[column::NODE]);
    let names: BTreeSet<&str> = gathered.entries.iter().map(node).collect();
    for name in names.into_iter().filter(|name| !name.bytes().all(|byte| byte.is_ascii_graphic())) {
        let words = format!(
            "{}: its name is {}, which may look like that of another node",
            clean(name),
            name.escape_default()
        );
        problems.add(Kind::Twins, words);
    }
}

/// No program of this name measured anything before this date: a clock that was never set says so.
const EARLIEST: &str = "2025-01-01";

fn in_window(
    gathered: &Gathered,
    window: &Window,
    left: &mut [Option<Left>],
    problems: &mut Problems,
) -> Vec<bool> {
    let mut never: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let counts = (0..gathered.entries.len() as u32).map(|entry| {
        let day = date(gathered.told(entry, column::TIME)).unwrap_or_default();
        if day > window.latest.as_str() || day < EARLIEST {
            *never.entry((gathered.told(entry, column::NODE), day)).or_default() += 1;
            left[entry as usize] = Some(Left::Dated);
            return false;
        }
        let is_after = window.since.as_deref().is_none_or(|since| day >= since);
        is_after && window.until.as_deref().is_none_or(|until| day <= until)
    });
    let counts = counts.collect();
    for ((node, day), _) in never {
        let why = if day < EARLIEST { "before anything was measured" } else { "yet to come" };
        let words = format!(
            "{}: its session is dated {day}, which is {why}: left out; set the node's clock",
            clean(node)
        );
        problems.add(Kind::Clock, words);
    }
    counts
}

/// The entries of nodes that are not in the list. One name of the list is one node: the one that is
/// called exactly so, else the only one whose name without its domain is that.
pub fn unlisted(gathered: &Gathered, expected: &Expected) -> Vec<usize> {
    let node = |at: &usize| gathered.entries[*at].columns[column::NODE];
    let all: BTreeSet<u32> = (0..gathered.entries.len()).map(|at| node(&at)).collect();
    let mut claims: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for name in all {
        if let Some(listed) = expected.named(gathered.texts.text(name)) {
            claims.entry(listed).or_default().push(name);
        }
    }
    let one = |(listed, names): (&&str, &Vec<u32>)| match names[..] {
        [only] => Some(only),
        _ => names.iter().copied().find(|name| gathered.texts.text(*name) == *listed),
    };
    let listed: HashSet<u32> = claims.iter().filter_map(one).collect();
    (0..gathered.entries.len()).filter(|at| !listed.contains(&node(at))).collect()
}

/// Leaves what is made up out where there is anything real, and says what mark the rest has.
fn without_made_up(gathered: &Gathered, counts: &mut [bool], problems: &mut Problems) -> String {
    let mut marks: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in (0..gathered.entries.len()).filter(|entry| counts[*entry]) {
        *marks.entry(gathered.told(entry as u32, column::MARK)).or_default() += 1;
    }
    let is_real = marks.contains_key("");
    let made_up: Vec<&str> = marks.keys().copied().filter(|mark| !mark.is_empty()).collect();
    if !is_real || made_up.is_empty() {
        return made_up.iter().map(|mark| clean(mark)).collect::<Vec<_>>().join(", ");
    }
    for (entry, counts) in counts.iter_mut().enumerate() {
        *counts &= gathered.told(entry as u32, column::MARK).is_empty();
    }
    for mark in made_up {
        let words =
            format!("figures marked {} are left out, since others were measured", clean(mark));
        problems.add(Kind::MadeUp, words);
    }
    String::new()
}

/// The node of each entry, by name and, where two machines have the name, by machine.
fn node_keys(gathered: &Gathered, counts: &mut [bool], problems: &mut Problems) -> Vec<NodeKey> {
    let mut machines: HashMap<u32, BTreeMap<u32, Span<'_>>> = HashMap::new();
    for (at, entry) in gathered.entries.iter().enumerate().filter(|(at, _)| counts[*at]) {
        let (node, machine) = (entry.columns[column::NODE], entry.columns[column::MACHINE]);
        if machine != 0 {
            let time = gathered.told(at as u32, column::TIME);
            let span = machines.entry(node).or_default().entry(machine).or_insert((time, time));
            widen(span, time);
        }
    }
    machines.retain(|_, claims| claims.len() > 1);
    let mut twins: HashMap<u32, BTreeSet<u32>> = HashMap::new();
    let mut gone: BTreeSet<NodeKey> = BTreeSet::new();
    for (node, claims) in &machines {
        let (there, replaced) = settle(claims, MACHINE_EXCHANGE);
        let name = clean(gathered.texts.text(*node));
        let number = |machine: &u32| clean(gathered.texts.text(*machine));
        for machine in replaced {
            gone.insert((*node, machine));
            let words = format!(
                "{name}: machine {} was replaced, and what it sent is left out",
                number(&machine)
            );
            problems.add(Kind::Replaced, words);
        }
        if there.len() > 1 {
            let numbers: Vec<String> = there.iter().map(number).collect();
            let words = format!(
                "{name}: {} machines have this name ({}): they are judged apart",
                there.len(),
                numbers.join(", ")
            );
            problems.add(Kind::Twins, words);
            twins.insert(*node, there.into_iter().collect());
        }
    }
    let key = |(at, entry): (usize, &Entry)| {
        let (node, machine) = (entry.columns[column::NODE], entry.columns[column::MACHINE]);
        counts[at] &= !gone.contains(&(node, machine));
        match twins.get(&node) {
            Some(there) if there.contains(&machine) => (node, machine),
            _ => (node, 0),
        }
    };
    gathered.entries.iter().enumerate().map(key).collect()
}

/// What identifies the board of each entry: number of its UUID or serial number; 0 where its place
/// does.
fn ids(
    gathered: &Gathered,
    nodes: &[NodeKey],
    counts: &mut [bool],
    problems: &mut Problems,
) -> Vec<u32> {
    let id = |entry: &Entry| match entry.columns[column::UUID] {
        0 => entry.columns[column::SERIAL],
        uuid => uuid,
    };
    let mut boards: HashMap<(NodeKey, u32), BTreeMap<u32, Span<'_>>> = HashMap::new();
    for (at, entry) in gathered.entries.iter().enumerate().filter(|(at, _)| counts[*at]) {
        let place = (nodes[at], entry.columns[column::DEVICE]);
        let time = gathered.told(at as u32, column::TIME);
        if id(entry) != 0 {
            let span = boards.entry(place).or_default().entry(id(entry)).or_insert((time, time));
            widen(span, time);
        }
    }
    let is_told = |(_, entry): &(usize, &Entry)| entry.columns[column::MACHINE] != 0;
    let told = gathered.entries.iter().enumerate().filter(is_told);
    let machines: HashSet<NodeKey> = told.map(|(at, _)| nodes[at]).collect();
    let mut gone: BTreeSet<(NodeKey, u32, u32)> = BTreeSet::new();
    for ((node, device), claims) in boards.iter().filter(|(_, claims)| claims.len() > 1) {
        // Of a node that does not tell its machine, another may have the name.
        let exchange = match machines.contains(node) {
            true => BOARD_EXCHANGE,
            false => MACHINE_EXCHANGE,
        };
        let (there, replaced) = settle(claims, exchange);
        let [name, device_name] = [node.0, *device].map(|text| clean(gathered.texts.text(text)));
        for board in replaced {
            gone.insert((*node, *device, board));
            let board = clean(gathered.texts.text(board));
            let words =
                format!("{name} {device_name}: board {board} was replaced, and is left out");
            problems.add(Kind::Replaced, words);
        }
        if there.len() > 1 {
            let boards: Vec<String> =
                there.iter().map(|board| clean(gathered.texts.text(*board))).collect();
            let words = format!(
                "{name} {device_name}: {} boards say that they are this one ({}): two nodes may \
                 have one name; each board is judged",
                there.len(),
                boards.join(", ")
            );
            problems.add(Kind::Twins, words);
        }
    }
    let found = |(at, entry): (usize, &Entry)| {
        let (place, own) = ((nodes[at], entry.columns[column::DEVICE]), id(entry));
        counts[at] &= !gone.contains(&(place.0, place.1, own));
        // One that did not tell is the one that is known to be there.
        match boards.get(&place) {
            Some(claims) if own == 0 && claims.len() == 1 => {
                claims.keys().next().copied().unwrap_or_default()
            }
            _ => own,
        }
    };
    gathered.entries.iter().enumerate().map(found).collect()
}

/// Leaves out what a board did on a node that it is no longer in.
fn moved(
    gathered: &Gathered,
    nodes: &[NodeKey],
    ids: &[u32],
    counts: &mut [bool],
    problems: &mut Problems,
) {
    let mut places: HashMap<u32, BTreeMap<NodeKey, Span<'_>>> = HashMap::new();
    for (at, board) in ids.iter().enumerate().filter(|(at, board)| counts[*at] && **board != 0) {
        let time = gathered.told(at as u32, column::TIME);
        let span = places.entry(*board).or_default().entry(nodes[at]).or_insert((time, time));
        widen(span, time);
    }
    let mut gone: BTreeSet<(u32, NodeKey)> = BTreeSet::new();
    for (board, claims) in places.iter().filter(|(_, claims)| claims.len() > 1) {
        let (there, before) = settle(claims, BOARD_EXCHANGE);
        let text = |number: u32| clean(gathered.texts.text(number));
        for node in &before {
            gone.insert((*board, *node));
            let (from, to) = (text(node.0), there.first().map_or(String::new(), |to| text(to.0)));
            let words = format!(
                "board {} was in {from} and is now in {to}: what it did in {from} is left out",
                text(*board)
            );
            problems.add(Kind::Replaced, words);
        }
        if there.len() > 1 {
            let names: Vec<String> = there.iter().map(|node| text(node.0)).collect();
            let words = format!(
                "board {} is said to be in {} at once: each is judged by itself",
                text(*board),
                names.join(" and ")
            );
            problems.add(Kind::Twins, words);
        }
    }
    for (at, counts) in counts.iter_mut().enumerate() {
        *counts &= !gone.contains(&(ids[at], nodes[at]));
    }
}

fn collect(gathered: &Gathered, nodes: &[NodeKey], ids: &[u32], counts: &[bool]) -> Units {
    let name = |key: &NodeKey| {
        let plain = clean(gathered.texts.text(key.0));
        match key.1 {
            0 => plain,
            machine => format!("{plain} (machine {})", clean(gathered.texts.text(machine))),
        }
    };
    let counted = || (0..gathered.entries.len()).filter(|at| counts[*at]);
    let keys: BTreeSet<NodeKey> = counted().map(|at| nodes[at]).collect();
    let mut named: Vec<(String, NodeKey)> = keys.iter().map(|key| (name(key), *key)).collect();
    named.sort_by(|a, b| by_number(&a.0, &b.0));
    let number: HashMap<NodeKey, u32> =
        named.iter().enumerate().map(|(at, (_, key))| (*key, at as u32)).collect();
    let plain = |key: &NodeKey| clean(gathered.texts.text(key.0));
    let new = |(name, key): &(String, NodeKey)| Node {
        name: name.clone(),
        plain: plain(key),
        ..Node::default()
    };
    let mut found = Units { nodes: named.iter().map(new).collect(), ..Units::default() };
    let node_of = |at: usize| counts[at].then(|| number[&nodes[at]]);
    found.node_of = (0..gathered.entries.len()).map(node_of).collect();
    // What was never measured and is no GPU, such as a network port, belongs to its node.
    let place = |at: usize| (nodes[at], gathered.entries[at].columns[column::DEVICE]);
    let measured: HashSet<(NodeKey, u32)> =
        gathered.rows.iter().map(|row| place(row.entry as usize)).collect();
    let is_device = |at: usize| {
        let device = gathered.told(at as u32, column::DEVICE);
        device != NODE && (is_gpu(device) || measured.contains(&place(at)))
    };
    let mut by_unit: BTreeMap<(u32, &str, u32), u32> = BTreeMap::new();
    for at in counted() {
        let device = gathered.told(at as u32, column::DEVICE);
        let time = gathered.told(at as u32, column::TIME);
        let node = &mut found.nodes[number[&nodes[at]] as usize];
        if time > node.time.as_str() {
            node.time = time.to_owned();
        }
        if !is_device(at) {
            continue;
        }
        let latest = by_unit.entry((number[&nodes[at]], device, ids[at])).or_insert(at as u32);
        if time > gathered.told(*latest, column::TIME) {
            *latest = at as u32;
        }
    }
    let mut order: Vec<((u32, &str, u32), u32)> = by_unit.into_iter().collect();
    order.sort_by(|(a, _), (b, _)| a.0.cmp(&b.0).then_with(|| by_number(a.1, b.1)));
    let unit_number: HashMap<(u32, &str, u32), u32> =
        order.iter().enumerate().map(|(at, (key, _))| (*key, at as u32)).collect();
    found.units =
        order.iter().map(|((node, ..), entry)| Unit { node: *node, entry: *entry }).collect();
    let unit_of = |at: usize| {
        let device = gathered.told(at as u32, column::DEVICE);
        (counts[at] && is_device(at)).then(|| unit_number[&(number[&nodes[at]], device, ids[at])])
    };
    found.unit_of = (0..gathered.entries.len()).map(unit_of).collect();
    latest_acceptances(gathered, &mut found);
    found
}

fn latest_acceptances(gathered: &Gathered, found: &mut Units) {
    let Some(acceptance) = gathered.texts.known(ACCEPTANCE) else { return };
    let mut latest: Vec<(&str, bool)> = vec![("", false); found.nodes.len()];
    let verdicts = ["pass", "fail", "inconclusive"].map(|word| gathered.texts.known(word));
    let is_verdict = |said: &&Said| verdicts.contains(&Some(said.verdict));
    for said in gathered.said.iter().filter(|said| said.check == acceptance).filter(is_verdict) {
        let Some(node) = found.node_of[said.entry as usize] else { continue };
        let entry = &gathered.entries[said.entry as usize];
        // A session that was gathered before its end and again after it did come to its end.
        let own = (gathered.told(said.entry, column::TIME), !entry.incomplete);
        if own >= latest[node as usize] {
            latest[node as usize] = own;
            let node = &mut found.nodes[node as usize];
            node.acceptance = entry.columns[column::SESSION];
            node.is_incomplete = entry.incomplete;
        }
    }
}

/// The order of names in which numbers count as such: `n9` before `n10`.
pub fn by_number(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| {
        let mut all: Vec<(bool, u64, String)> = Vec::new();
        for c in text.chars() {
            let digit = c.to_digit(10).map(u64::from);
            match (digit, all.last_mut()) {
                (Some(digit), Some((true, number, _))) => {
                    *number = number.saturating_mul(10).saturating_add(digit);
                }
                (Some(digit), _) => all.push((true, digit, String::new())),
                (None, Some((false, _, words))) => words.push(c),
                (None, _) => all.push((false, 0, c.to_string())),
            }
        }
        all
    };
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}

/// How many of each, in words: `12 nodes, 96 GPUs, 12 hosts`; `11 of 12 nodes` where one of those
/// there are to be, or that sent something, has nothing that counts.
pub fn counted_units(units: &Units, gathered: &Gathered, without: usize) -> String {
    let nodes = units.nodes.len();
    let mut words = vec![match without {
        0 => counted(nodes, "node"),
        _ => format!("{nodes} of {}", counted(nodes + without, "node")),
    }];
    let device = |unit: &Unit| gathered.told(unit.entry, column::DEVICE);
    let gpus = units.units.iter().filter(|unit| is_gpu(device(unit))).count();
    let hosts = units.units.iter().filter(|unit| device(unit) == "host").count();
    let others = units.units.len() - gpus - hosts;
    words.extend((gpus > 0).then(|| counted(gpus, "GPU")));
    words.extend((hosts > 0).then(|| counted(hosts, "host")));
    words.extend((others > 0).then(|| counted(others, "set") + " of GPUs together"));
    words.join(", ")
}
