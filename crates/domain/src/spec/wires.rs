//! Links as files of parts and links state them, each with its rates in one direction.

use super::{
    part::{GpuFile, LinkFile},
    pcie_bandwidth,
};
use std::collections::BTreeMap;

/// What a link connects a device with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// GPUs with each other.
    Peers,
    /// A device with its host: the slot, or a link in its place.
    Host,
    /// A node with others.
    Network,
}

/// A link with the rates that a file states.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// The field of the part's file, or the name of a file of `data/links`.
    pub field: String,
    /// As people call it: "NVLink 5", "PCIe 5.0 x16".
    pub name: String,
    /// What it connects; none where the file does not say.
    pub reach: Option<Reach>,
    /// Bytes each second in one direction over all links of one device.
    pub each_way: f64,
    /// The same of one link, where there are several.
    pub each_link: Option<f64>,
    /// How many there are, where it is stated.
    pub links: Option<u32>,
    /// Other rates in one direction that texts state of it, in bytes each second, with what they
    /// are of: "one die", "one pair of GPUs".
    pub others: Vec<(f64, String)>,
    /// Devices that it connects at most.
    pub domain: Option<u32>,
    /// Transfers each second of one lane.
    pub lane: Option<f64>,
    /// What was measured of it in one direction, where others reported it.
    pub practical: Option<f64>,
    /// Whether a source confirms the rate.
    pub is_confirmed: bool,
}

/// A generation and lanes of PCI Express as people write them, without and with the encoding.
fn slot(field: &str, [generation, lanes]: [u32; 2]) -> Option<Wire> {
    let each_way = pcie_bandwidth([generation, lanes])?.0;
    let lane = 2.5e9 * f64::from(1 << (generation - 1));
    let lane = if generation >= 3 { 8e9 * f64::from(1 << (generation - 3)) } else { lane };
    let raw = lane * f64::from(lanes) / 8.0;
    Some(Wire {
        field: field.into(),
        name: format!("PCIe {generation}.0 x{lanes}"),
        reach: Some(Reach::Host),
        each_way,
        each_link: None,
        links: None,
        others: vec![(raw, "all lanes before their encoding".into())],
        domain: None,
        lane: Some(lane),
        practical: None,
        is_confirmed: true,
    })
}

impl Wire {
    /// PCI Express of a generation and number of lanes, whichever part has it.
    pub fn pcie(generation: u32, lanes: u32) -> Option<Wire> {
        (1..=6).contains(&generation).then(|| slot("PCI Express", [generation, lanes])).flatten()
    }

    /// A port of a network by the speed in its name, in bytes each second in one direction.
    pub fn port(name: String, each_way: f64) -> Wire {
        Wire {
            field: "its name".into(),
            name,
            reach: Some(Reach::Network),
            each_way,
            each_link: None,
            links: None,
            others: Vec::new(),
            domain: None,
            lane: None,
            practical: None,
            is_confirmed: true,
        }
    }

    /// Of a file of `data/links`.
    pub fn of_file(id: &str, file: &LinkFile) -> Wire {
        let giga = |value: f64| value * 1e9;
        let is_open = file.unverified.iter().any(|field| field == "raw_gb_per_s_per_dir");
        let mut others = Vec::new();
        if let Some((lane, lanes)) = file.gt_per_s.zip(file.lanes) {
            let raw = giga(lane) * f64::from(lanes) / 8.0;
            if (raw / giga(file.raw_gb_per_s_per_dir) - 1.0).abs() > 1e-6 {
                others.push((raw, "all lanes before their encoding".into()));
            }
        }
        if let Some(devices) = file.shared_by {
            let all = giga(file.raw_gb_per_s_per_dir) * f64::from(devices);
            others.push((all, format!("all {devices} GPUs of a superchip together")));
        }
        Wire {
            field: id.into(),
            name: file.name.clone(),
            reach: None,
            each_way: giga(file.raw_gb_per_s_per_dir),
            each_link: file.gb_per_s_per_link_per_dir.map(giga),
            links: file.links,
            others,
            domain: None,
            lane: file.gt_per_s.map(giga),
            practical: file.practical_gb_per_s_per_dir.map(giga),
            is_confirmed: !is_open,
        }
    }
}

/// The links between GPUs; none where the file states no rate of them.
fn peers(file: &GpuFile) -> Option<Wire> {
    let link = file.link.as_ref()?;
    let devices = f64::from(file.devices_per_package.unwrap_or(1));
    let giga = |value: f64| value * 1e9;
    let total = giga(link.total_bidir_gb_per_s?) / 2.0;
    let mut others = Vec::new();
    if devices > 1.0 {
        others.push((total / devices, "one die, which appears as a device".into()));
    }
    others.extend(
        link.in_package_gb_per_s_per_dir.map(|it| (giga(it), "two dies of one package".into())),
    );
    let pair = link.links_per_pair.zip(link.gb_per_s_per_link_per_dir);
    if let Some((links, each)) = pair.filter(|(links, _)| *links > 1) {
        others.push((giga(each) * f64::from(links), "one pair of GPUs".into()));
    }
    let generation = link.generation.map(|one| format!(" {one}")).unwrap_or_default();
    Some(Wire {
        field: "link".into(),
        name: format!("{}{generation}", link.kind),
        reach: Some(Reach::Peers),
        each_way: total,
        each_link: link.gb_per_s_per_link_per_dir.map(giga),
        links: link.links,
        others,
        domain: Some(link.max_domain),
        lane: None,
        practical: None,
        // How many links share the rate does not change it.
        is_confirmed: !file
            .unverified
            .iter()
            .any(|one| one == "link" || one.starts_with("link.") && one != "link.links"),
    })
}

/// The network interfaces of the vendor's own system; none where the file states none.
fn network(file: &GpuFile) -> Option<Wire> {
    let table = file.nic.as_ref()?;
    let number = |name: &str| {
        let value = table.get(name)?;
        value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
    };
    let (count, gigabits) = (number("nics_per_gpu")?, number("gbit_per_nic")?);
    let port = gigabits * 1e9 / 8.0;
    let system = table.get("system").and_then(|one| one.as_str()).unwrap_or("its system");
    let others = if count == 1.0 { Vec::new() } else { vec![(port, "one interface".into())] };
    Some(Wire {
        field: "nic".into(),
        name: format!("network of {system}"),
        reach: Some(Reach::Network),
        each_way: port * count,
        each_link: None,
        links: None,
        others,
        domain: None,
        lane: None,
        practical: None,
        is_confirmed: true,
    })
}

/// Every link of a part: to its peers, to its host and to the network.
pub(super) fn of_gpu(file: &GpuFile, links: &BTreeMap<String, LinkFile>) -> Vec<Wire> {
    let host = file.host_link.as_ref().and_then(|id| {
        let wire = Wire::of_file(id, links.get(id)?);
        Some(Wire { field: "host_link".into(), reach: Some(Reach::Host), ..wire })
    });
    let pcie = file.pcie_gen.zip(file.pcie_lanes);
    let pcie = pcie.and_then(|(generation, lanes)| slot("pcie_gen", [generation, lanes]));
    let pcie = pcie.map(|wire| Wire {
        is_confirmed: !file.unverified.iter().any(|one| one.starts_with("pcie")),
        ..wire
    });
    [peers(file), host, pcie, network(file)].into_iter().flatten().collect()
}
