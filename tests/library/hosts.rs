//! Hosts are recognised by what `/proc/cpuinfo` and the firmware tell of them, and get limits that
//! published results do not exceed. `tests/hosts.toml` has the texts.

use crate::data::files;
use fizeau::data::Catalogue;
use fizeau_device::host::cpuinfo::CpuInfo;
use fizeau_domain::{
    case::{ComputePoint, Point, StreamOperation, StreamPoint},
    dtype::Dtype,
    spec::{
        self, ARM, Bound, Conditions, CpuId, Match, Properties, Tier, Yardstick, part::HostFile,
    },
    units::{Bytes, Megahertz},
};
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Deserialize)]
struct Hosts {
    host: Vec<Host>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    what: String,
    part: Option<String>,
    platform: Option<String>,
    virtualised: Option<String>,
    units: u32,
    sockets: u32,
    stream: Option<f64>,
    source: Option<String>,
    cpuinfo: String,
}

static HOSTS: LazyLock<Vec<Host>> = LazyLock::new(|| {
    let hosts: Hosts = toml::from_str(include_str!("../hosts.toml")).expect("hosts");
    hosts.host
});

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::load(None).expect("the data"));

/// The clock at which limits are computed.
const CLOCK: Megahertz = Megahertz(3000.0);

impl Host {
    fn properties(&self) -> Properties {
        let mut properties = Properties {
            backend: "host".into(),
            name: "a CPU".into(),
            units: self.units,
            sockets: self.sockets,
            virtualised: self.virtualised.clone(),
            ..Properties::default()
        };
        CpuInfo::parse(&self.cpuinfo).describe(self.platform.as_deref(), &mut properties);
        properties
    }

    fn yardstick(&self) -> Yardstick {
        CATALOGUE.yardstick(&self.properties())
    }
}

fn conditions() -> Conditions {
    Conditions { clock: Some(CLOCK), hot: true, ..Conditions::default() }
}

#[test]
fn every_host_is_recognised_by_its_text() {
    let mut wrong = Vec::new();
    for host in HOSTS.iter() {
        let found = host.yardstick().part.map(|part| part.id);
        if found != host.part {
            let name = host.properties().name;
            wrong.push(format!("{} ({name}): {found:?}, not {:?}", host.what, host.part));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(HOSTS.len() > 60);
}

#[test]
fn an_arm_cpu_is_named_by_its_core_and_its_machine() {
    let name = |part: &str| {
        let host = HOSTS.iter().find(|host| host.part.as_deref() == Some(part)).expect(part);
        host.properties().name
    };
    assert_eq!(name("graviton4"), "Neoverse V2, Amazon EC2");
    assert_eq!(name("cobalt-100"), "Neoverse N2, Microsoft Corporation");
    assert_eq!(name("grace"), "Neoverse V2, NVIDIA");
}

/// A machine's limits are those of machines: a core completes 8 to 128 double-precision operations
/// in three clocks, a socket moves from 30 GB/s to 2 TB/s.
#[test]
fn limits_are_physically_plausible() {
    let mut memories = 0;
    for host in HOSTS.iter().filter(|host| host.part.is_some()) {
        let (properties, yardstick) = (host.properties(), host.yardstick());
        let part = yardstick.part.as_ref().expect("recognised");
        if let Some(rate) = part.memory_bandwidth {
            let most = part.memory_bandwidth_most.expect("stated").0;
            assert!(rate.0 > 30e9 && most < 2e12 && most >= rate.0, "{}: {rate:?}", part.id);
            memories += 1;
        }
        let point = Point::Compute(ComputePoint { dtype: Dtype::F64, units: 1 });
        let lights = spec::lights(&point, &properties, Some(part), &conditions());
        if let Some(light) = lights.iter().find(|light| light.tier == Tier::Observed) {
            let per_clock = point.work().flops.0 / light.time.0 / (CLOCK.0 * 1e6);
            assert!((8.0..=32.0).contains(&per_clock), "{}: {per_clock}", part.id);
        }
    }
    assert!(memories > 55, "{memories}");
}

#[test]
fn published_streams_are_within_the_limits() {
    let mut known = 0;
    for host in HOSTS.iter() {
        let Some(stream) = host.stream else { continue };
        assert!(host.source.as_ref().is_some_and(|source| !source.is_empty()), "{}", host.what);
        let (properties, yardstick) = (host.properties(), host.yardstick());
        let point = Point::Stream(StreamPoint {
            stream: StreamOperation::Triad,
            working_set: Bytes::GIB * 8,
            units: properties.units,
        });
        let floor = spec::floor(&point, &properties, yardstick.most.as_ref(), &conditions());
        let floor = floor.expect("a limit");
        assert_eq!(floor.bound, Bound::Memory, "{}", host.what);
        let share = stream * 1e9 * floor.time.0 / point.work().memory.0 as f64;
        assert!((0.5..=1.0).contains(&share), "{}: {share:.2} of the limit", host.what);
        known += 1;
    }
    assert!(known >= 3, "{known}");
}

/// No file of the data is dead: a CPU with its number and a name that it asks for is recognised as
/// it, or as one of several where the file says what does not tell them apart.
#[test]
fn every_file_of_a_host_can_be_matched() {
    for (id, file) in files::<HostFile>("hosts") {
        let family = file.cpuid_family.unwrap_or_else(|| panic!("{id}: no number"));
        let is_arm = file.core.starts_with("Neoverse") || family > 0x40;
        for model in file.cpuid_models.iter().flatten() {
            let stepping = file.cpuid_steppings.first().map_or(0, |range| range[0]);
            let plain = if file.vendor == "Intel" { "Intel(R) Xeon(R) CPU" } else { "AMD EPYC" };
            let properties = Properties {
                backend: "host".into(),
                vendor: if is_arm { ARM.into() } else { file.vendor.clone() },
                name: file.name_contains.first().map_or(plain, String::as_str).to_owned()
                    + if file.vendor == "Intel" { " (R)" } else { "" },
                cpu: Some(CpuId { family, model: *model, stepping }),
                ..Properties::default()
            };
            match CATALOGUE.identify(&properties) {
                Match::One(part) => assert_eq!(part.id, id, "{model}"),
                Match::Ambiguous(parts) => {
                    assert!(file.ambiguous_by.is_some(), "{id}, {model}: {parts:?}");
                    assert!(parts.iter().any(|part| part.id == id), "{id}, {model}");
                }
                Match::None => panic!("{id}, {model}: not recognised"),
            }
        }
    }
}
