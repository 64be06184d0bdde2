//! What every rank says of itself before the first collective, and what is wrong with them
//! together: one line that names a rank, where the library would fail later and name nobody.

use fizeau_device::Identity;
use fizeau_record::Network;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, path::Path};

/// One rank's words about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Its rank.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// The program's version.
    pub fizeau: String,
    /// What connects the ranks, with its version: all must have the same.
    pub engine: String,
    /// Its device, as the command line names it.
    pub device: String,
    /// The device's name.
    pub name: String,
    /// What tells the device from others.
    pub identity: Identity,
    /// Its process.
    pub process: u32,
    /// The name of the board that it has made, for its node if it is the first one there.
    pub board: Option<String>,
    /// Its network interfaces for messages.
    pub nics: Vec<Nic>,
    /// Why it cannot take part, if so.
    pub trouble: Option<String>,
}

/// A network interface for messages between nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nic {
    /// Its name and port, such as `mlx5_0:1`.
    pub name: String,
    /// `ACTIVE`, `DOWN`.
    pub state: String,
    /// Its rate in Gbit/s.
    pub gigabits: u32,
}

/// Whether several ranks may have one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// They may: for correctness, never for a rate.
    Allowed,
    /// Each needs its own.
    Refused,
}

/// The interfaces of this host, as the kernel lists them below `/sys/class/infiniband`.
pub fn nics(folder: &Path) -> Vec<Nic> {
    let entries = |path: &Path| -> Vec<std::path::PathBuf> {
        let mut found: Vec<_> =
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        found.sort();
        found
    };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut nics = Vec::new();
    for device in entries(folder) {
        for port in entries(&device.join("ports")) {
            let word = |file: &str, at: usize| {
                let text = fs::read_to_string(port.join(file)).unwrap_or_default();
                text.split_whitespace().nth(at).unwrap_or_default().to_owned()
            };
            // `4: ACTIVE`, and `400 Gb/sec (4X NDR)`. EFA's driver says 100 Gb/sec of every
            // generation (Linux before 6.15): its rate is not known.
            let rate = word("rate", 0).parse().unwrap_or(0);
            let gigabits = if is_efa(&device) { 0 } else { rate };
            let name = format!("{}:{}", name(&device), name(&port));
            nics.push(Nic { name, state: word("state", 1), gigabits });
        }
    }
    nics
}

/// Whether a device is one of AWS's Elastic Fabric Adapters.
fn is_efa(device: &Path) -> bool {
    fs::read_link(device.join("device/driver")).is_ok_and(|driver| driver.ends_with("efa"))
}

impl Facts {
    /// `rank 3 on node7 (cuda:1)`.
    fn who(&self) -> String {
        format!("rank {} on {} ({})", self.rank, self.host, self.device)
    }
}

/// Warnings, or the one-line reason why the run must stop.
///
/// # Errors
///
/// Where a rank is missing something, or has another version than the others.
pub fn judge(ranks: &[Facts], sharing: Sharing) -> Result<Vec<String>, String> {
    if let Some(facts) = ranks.iter().find(|facts| facts.trouble.is_some()) {
        let trouble = facts.trouble.as_deref().unwrap_or_default();
        return Err(format!("{}: {trouble}", facts.who()));
    }
    for (what, of) in [
        ("", (|facts| Some((0, facts.engine.clone()))) as fn(&Facts) -> Option<Value>),
        ("fizeau ", |facts| Some((0, facts.fizeau.clone()))),
    ] {
        if let Some(Odd { first, its, common, .. }) = odd_ones(ranks, of) {
            let (who, its) = (first.who(), its.unwrap_or_default());
            return Err(format!("{who} has {what}{its}, and the others have {what}{common}"));
        }
    }
    if sharing == Sharing::Refused
        && let Some((one, other)) = sharers(ranks)
    {
        return Err(format!(
            "{} and rank {} have one GPU between them: start one rank for each GPU, or set \
             NCCL_MULTI_RANK_GPU_ENABLE=1 (NCCL 2.30.3 or newer), which tests no link",
            one.who(),
            other.rank
        ));
    }
    let mut warnings = warnings(ranks);
    if let Some((one, other)) = sharers(ranks) {
        warnings.push(format!(
            "{} and rank {} have one GPU between them: right or wrong is tested, and no link",
            one.who(),
            other.rank
        ));
    }
    Ok(warnings)
}

/// What is degraded, or differs: one line for each thing, whoever many have it.
fn warnings(ranks: &[Facts]) -> Vec<String> {
    let mut warnings = Vec::new();
    let different = |what: &str, of: &dyn Fn(&Facts) -> Option<Value>| {
        let Odd { first, others, its, common } = odd_ones(ranks, of)?;
        let its = its.unwrap_or_else(|| "none that can be read".into());
        let others: Vec<String> = others.iter().map(|facts| facts.rank.to_string()).collect();
        let besides = match others.is_empty() {
            true => String::new(),
            false => format!("; so it is with rank {}", others.join(", ")),
        };
        Some(format!("{} has {what} {its}, and the others have {common}{besides}", first.who()))
    };
    let number = |value: Option<u32>| value.map(|value| (u64::from(value), value.to_string()));
    let word = |text: String| Some((0, text));
    warnings.extend(different("the driver", &|facts| facts.identity.driver.clone().and_then(word)));
    warnings.extend(different("the device", &|facts| word(facts.name.clone())));
    warnings.extend(different("PCIe lanes:", &|facts| number(facts.identity.pcie_width)));
    warnings.extend(different("links up:", &|facts| number(facts.identity.links)));
    let names = ranks.iter().flat_map(|facts| &facts.nics).map(|nic| nic.name.clone());
    let names: std::collections::BTreeSet<String> = names.collect();
    for name in names {
        let of = |facts: &Facts| {
            let nic = facts.nics.iter().find(|nic| nic.name == name)?;
            let rate = u64::from(nic.gigabits) * u64::from(nic.state == "ACTIVE");
            Some((rate, format!("{} at {} Gbit/s", nic.state, nic.gigabits)))
        };
        warnings.extend(different(&format!("the interface {name}"), &of));
    }
    // A port that is down everywhere differs nowhere.
    for facts in ranks {
        let down = facts.nics.iter().filter(|nic| nic.state == "DOWN" && nic.gigabits > 0);
        for nic in down {
            let text = format!("{}: the interface {} is down", facts.who(), nic.name);
            if !warnings.iter().any(|warning| warning.contains(&nic.name)) {
                warnings.push(text);
            }
        }
    }
    warnings
}

/// What a rank has, in words, behind a number that is larger for what is better.
type Value = (u64, String);

/// The ranks that differ from what most have.
struct Odd<'f> {
    first: &'f Facts,
    others: Vec<&'f Facts>,
    /// What the first has.
    its: Option<String>,
    /// What most have.
    common: String,
}

/// Who differs from what most have. Where there are as many of one as of the other, the better is
/// taken to be right, and of what is neither better nor worse that of the first rank.
fn odd_ones(ranks: &[Facts], of: impl Fn(&Facts) -> Option<Value>) -> Option<Odd<'_>> {
    let mut counts: BTreeMap<Option<Value>, usize> = BTreeMap::new();
    for facts in ranks {
        *counts.entry(of(facts)).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    let frequent = ranks.iter().rev().map(&of).filter(|value| counts.get(value) == Some(&most));
    let goodness = |value: &Option<Value>| value.as_ref().map(|(goodness, _)| *goodness);
    let common = frequent.max_by_key(goodness)?;
    let mut odd = ranks.iter().filter(|facts| of(facts) != common);
    let first = odd.next()?;
    let text = |value: Option<Value>| value.map(|(_, text)| text);
    let common_text = text(common.clone()).unwrap_or_else(|| "none".into());
    Some(Odd { first, its: text(of(first)), common: common_text, others: odd.collect() })
}

/// Two ranks with one device.
fn sharers(ranks: &[Facts]) -> Option<(&Facts, &Facts)> {
    let mut seen: BTreeMap<(&str, &str), &Facts> = BTreeMap::new();
    for facts in ranks {
        let Some(uuid) = facts.identity.uuid.as_deref() else { continue };
        if let Some(first) = seen.insert((&facts.host, uuid), facts) {
            return Some((first, facts));
        }
    }
    None
}

/// What lies between the ranks' nodes; none where they are on one.
pub fn network(ranks: &[Facts]) -> Option<Network> {
    let nodes: BTreeMap<&str, &Facts> =
        ranks.iter().map(|facts| (facts.host.as_str(), facts)).collect();
    let up = |facts: &&Facts| -> Vec<u32> {
        let up = facts.nics.iter().filter(|nic| nic.state == "ACTIVE" && nic.gigabits > 0);
        up.map(|nic| nic.gigabits).collect()
    };
    let rates: Vec<Vec<u32>> = nodes.values().map(up).collect();
    (nodes.len() > 1).then(|| Network {
        nodes: nodes.len() as u32,
        interfaces: rates.iter().map(Vec::len).min().unwrap_or(0) as u32,
        gigabits: rates.iter().map(|rates| rates.iter().sum()).min().unwrap_or(0),
    })
}

/// Ranks that have the same device as one of them.
pub fn sharing(ranks: &[Facts], rank: u32) -> u32 {
    let place = |facts: &Facts| (facts.host.clone(), facts.identity.uuid.clone());
    let mine = ranks.iter().find(|facts| facts.rank == rank).map(place);
    ranks.iter().filter(|facts| Some(place(facts)) == mine).count().max(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(count: u32) -> Vec<Facts> {
        let facts = |rank: u32| Facts {
            rank,
            host: format!("node{}", rank / 2),
            fizeau: "0.1.0".into(),
            engine: "NCCL 2.28.3".into(),
            device: format!("cuda:{}", rank % 2),
            name: "NVIDIA H200".into(),
            identity: Identity {
                uuid: Some(format!("uuid-{rank}")),
                pci: None,
                driver: Some("580.1".into()),
                pcie_width: Some(16),
                links: Some(18),
            },
            process: 1000 + rank,
            board: None,
            nics: vec![Nic { name: "mlx5_0:1".into(), state: "ACTIVE".into(), gigabits: 400 }],
            trouble: None,
        };
        (0..count).map(facts).collect()
    }

    fn refused(change: impl FnOnce(&mut Vec<Facts>)) -> String {
        let mut ranks = ranks(4);
        change(&mut ranks);
        judge(&ranks, Sharing::Refused).expect_err("it cannot run")
    }

    fn warned(change: impl FnOnce(&mut Vec<Facts>)) -> Vec<String> {
        let mut ranks = ranks(4);
        change(&mut ranks);
        judge(&ranks, Sharing::Refused).expect("it can run")
    }

    #[test]
    fn what_stops_a_run_is_one_line_with_a_rank() {
        assert_eq!(judge(&ranks(4), Sharing::Refused), Ok(Vec::new()));
        let said = refused(|ranks| ranks[3].trouble = Some("libcuda.so.1 not found".into()));
        assert_eq!(said, "rank 3 on node1 (cuda:1): libcuda.so.1 not found");
        let said = refused(|ranks| ranks[2].engine = "NCCL 2.27.3".into());
        let words = "rank 2 on node1 (cuda:0) has NCCL 2.27.3, and the others have NCCL 2.28.3";
        assert_eq!(said, words);
        let said = refused(|ranks| ranks[1].identity.uuid = Some("uuid-0".into()));
        assert!(said.starts_with("rank 0 on node0 (cuda:0) and rank 1 have one GPU"), "{said}");
        let mut shared = ranks(2);
        shared[1].identity.uuid = shared[0].identity.uuid.clone();
        let warned = judge(&shared, Sharing::Allowed).expect("it can run");
        assert!(warned[0].ends_with("right or wrong is tested, and no link"), "{warned:?}");
        assert_eq!((sharing(&shared, 0), sharing(&ranks(2), 0)), (2, 1));
    }

    #[test]
    fn what_is_degraded_is_one_line_each() {
        let said = warned(|ranks| ranks[3].identity.pcie_width = Some(8));
        assert_eq!(said, ["rank 3 on node1 (cuda:1) has PCIe lanes: 8, and the others have 16"]);
        let said = warned(|ranks| ranks[1].identity.links = Some(17));
        assert_eq!(said, ["rank 1 on node0 (cuda:1) has links up: 17, and the others have 18"]);
        let said = warned(|ranks| ranks[2].nics.clear());
        assert!(said[0].contains("the interface mlx5_0:1 none that can be read"), "{said:?}");
        let said = warned(|ranks| ranks[0].nics[0].gigabits = 100);
        assert!(said[0].contains("ACTIVE at 100 Gbit/s, and the others have"), "{said:?}");
        let said = warned(|ranks| ranks.iter_mut().for_each(|r| r.nics[0].state = "DOWN".into()));
        assert_eq!(said, ["rank 0 on node0 (cuda:0): the interface mlx5_0:1 is down"]);
        let said = warned(|ranks| ranks[3].identity.driver = Some("570.9".into()));
        assert_eq!(
            said,
            ["rank 3 on node1 (cuda:1) has the driver 570.9, and the others have 580.1"]
        );
        let said = warned(|ranks| ranks[2].name = "NVIDIA H100".into());
        assert!(said.len() == 1 && said[0].contains("has the device NVIDIA H100"), "{said:?}");
        // Half of the ranks: the worse half is named, in one line, whichever comes first.
        let said = warned(|ranks| ranks[..2].iter_mut().for_each(|r| r.identity.links = Some(9)));
        let line = "rank 0 on node0 (cuda:0) has links up: 9, and the others have 18; \
                    so it is with rank 1";
        assert_eq!(said, [line]);
        let said = warned(|ranks| ranks[..2].iter_mut().for_each(|r| r.nics.clear()));
        let found =
            said.len() == 1 && said[0].starts_with("rank 0 on node0 (cuda:0) has the inter");
        assert!(found && said[0].ends_with("so it is with rank 1"), "{said:?}");
    }

    #[test]
    fn the_network_is_that_of_the_weakest_node() {
        let nic = |port: u32, state: &str, gigabits: u32| Nic {
            name: format!("mlx5_{port}:1"),
            state: state.into(),
            gigabits,
        };
        let mut ranks = ranks(4);
        assert_eq!(network(&ranks[..2]), None, "one node");
        let whole = Network { nodes: 2, interfaces: 1, gigabits: 400 };
        assert_eq!(network(&ranks), Some(whole));
        for facts in &mut ranks {
            facts.nics = vec![nic(0, "ACTIVE", 400), nic(1, "ACTIVE", 400)];
        }
        for facts in &mut ranks[2..] {
            facts.nics[1] = nic(1, "DOWN", 400);
            facts.nics.push(nic(2, "ACTIVE", 200));
        }
        assert_eq!(network(&ranks), Some(Network { nodes: 2, interfaces: 2, gigabits: 600 }));
        ranks[0].nics.clear();
        ranks[1].nics.clear();
        assert_eq!(network(&ranks), Some(Network { nodes: 2, interfaces: 0, gigabits: 0 }));
    }

    #[test]
    fn interfaces_are_read_as_the_kernel_lists_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let port = folder.path().join("mlx5_0/ports/1");
        fs::create_dir_all(&port).expect("made");
        fs::write(port.join("state"), "4: ACTIVE\n").expect("written");
        fs::write(port.join("rate"), "400 Gb/sec (4X NDR)\n").expect("written");
        let nic = Nic { name: "mlx5_0:1".into(), state: "ACTIVE".into(), gigabits: 400 };
        assert_eq!(nics(folder.path()), [nic]);
        // What EFA's driver says of its rate is no rate.
        let driver = folder.path().join("mlx5_0/device");
        fs::create_dir_all(&driver).expect("made");
        std::os::unix::fs::symlink("/sys/bus/pci/drivers/efa", driver.join("driver"))
            .expect("a link");
        assert_eq!(nics(folder.path())[0].gigabits, 0);
        assert!(nics(Path::new("/nowhere")).is_empty());
    }
}
