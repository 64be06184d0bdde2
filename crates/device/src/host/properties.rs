//! What the host says of itself: CPUID, sysfs, /proc. Nothing here is guessed: what cannot be read
//! is left out.

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::{
    cgroup,
    cpuinfo::{CpuInfo, platform},
    cpus::{CPUS, allowed_cpus, cores, cpu_list, number},
    dmi,
    memory::meminfo,
};
use fizeau_domain::{
    dtype::Dtype,
    spec::{CacheLevel, CpuId, Properties},
    units::{Bytes, Megahertz},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Reads them, for the CPUs that this process may use.
pub fn read() -> Properties {
    let cpus = cores(&allowed_cpus());
    let modules = dmi::modules();
    let mut properties = Properties {
        backend: "host".into(),
        name: format!("{} CPU", std::env::consts::ARCH),
        vendor: std::env::consts::ARCH.into(),
        units: units(cpus.len(), cgroup::groups().cpu_quota()),
        clock: stated_clock(&cpus),
        sockets: sockets(&cpus),
        memory: meminfo("MemTotal").unwrap_or_default(),
        memory_mts: modules.map(|modules| f64::from(modules.mts)),
        memory_bus_bits: modules.map(|modules| modules.width_bits),
        caches: caches(&cpus),
        ..Properties::default()
    };
    CpuInfo::read().describe(platform(Path::new("/")).as_deref(), &mut properties);
    identify(&mut properties);
    if properties.virtualised.is_none() && Path::new("/.dockerenv").exists() {
        properties.virtualised = Some("container".into());
    }
    properties
}

/// Cores to work on at once: all of them, or as many whole ones as a CPU quota pays for. With more
/// threads than that, the kernel would stop all of them for a part of each period (100 ms, unless
/// set otherwise), and they would wait for each other at every barrier.
fn units(cores: usize, quota: Option<f64>) -> u32 {
    let paid = quota.map_or(cores, |quota| quota as usize);
    cores.min(paid).max(1) as u32
}

/// The vendor, number and instruction sets of the CPU, by CPUID.
#[cfg(target_arch = "x86_64")]
fn identify(properties: &mut Properties) {
    use std::arch::is_x86_feature_detected as has;
    let cpuid = raw_cpuid::CpuId::new();
    if let Some(vendor) = cpuid.get_vendor_info() {
        properties.vendor = match vendor.as_str() {
            "AuthenticAMD" => "AMD".into(),
            "GenuineIntel" => "Intel".into(),
            other => other.into(),
        };
    }
    properties.cpu = cpuid.get_feature_info().map(|info| CpuId {
        family: u32::from(info.family_id()),
        model: u32::from(info.model_id()),
        stepping: u32::from(info.stepping_id()),
    });
    properties.virtualised = cpuid.get_hypervisor_info().map(|info| {
        format!("{:?}", info.identify()).split('(').next().unwrap_or_default().to_owned()
    });
    let amx = amx::Amx::here();
    let features = [
        ("avx2", has!("avx2")),
        ("fma", has!("fma")),
        ("f16c", has!("f16c")),
        ("avx512f", has!("avx512f")),
        ("avx512bw", has!("avx512bw")),
        ("avx512vl", has!("avx512vl")),
        ("avx512dq", has!("avx512dq")),
        ("avx512vnni", has!("avx512vnni")),
        ("avx512bf16", has!("avx512bf16")),
        ("avxvnni", has!("avxvnni")),
        ("amx-bf16", amx.bf16),
        ("amx-int8", amx.int8),
    ];
    let present = features.into_iter().filter(|(_, present)| *present);
    properties.features = present.map(|(name, _)| name.to_owned()).collect();
    // Matrix tiles have rates of their own, which are in the parts' data alone.
    let tiles = cpuid.get_extended_feature_info().is_some_and(|info| info.has_amx_tile());
    properties.flops_per_clock = flops_per_clock(&properties.features, tiles);
}

/// The most that a core with these instruction sets completes each clock: no x86 core has more than
/// two pipes for fused multiply-adds, each as wide as its widest vectors. Some have less, so that
/// this bounds a peak from above.
#[cfg(target_arch = "x86_64")]
fn flops_per_clock(features: &[String], tiles: bool) -> BTreeMap<Dtype, f64> {
    const PIPES: f64 = 2.0;
    let has = |name: &str| features.iter().any(|feature| feature == name);
    let bits = match () {
        () if has("avx512f") => 512.0,
        () if has("avx2") && has("fma") => 256.0,
        () => return BTreeMap::new(),
    };
    let fused = |bits_of_element: f64| PIPES * 2.0 * bits / bits_of_element;
    let mut flops = BTreeMap::from([(Dtype::F64, fused(64.0)), (Dtype::F32, fused(32.0))]);
    if has("avx512bf16") && !tiles {
        flops.insert(Dtype::Bf16, fused(16.0));
    }
    if (has("avx512vnni") || has("avxvnni")) && !tiles {
        flops.insert(Dtype::Int8, fused(8.0));
    }
    flops
}

/// Sockets that the CPUs are in.
fn sockets(cpus: &[usize]) -> u32 {
    let of = |cpu: &usize| number(&format!("{CPUS}/cpu{cpu}/topology/physical_package_id"));
    cpus.iter().filter_map(of).collect::<BTreeSet<_>>().len().max(1) as u32
}

/// Without CPUID the kernel's text is all there is.
#[cfg(not(target_arch = "x86_64"))]
fn identify(_properties: &mut Properties) {}

/// The highest clock that the driver of the frequencies states; not there in most virtual machines.
fn stated_clock(cpus: &[usize]) -> Option<Megahertz> {
    let cpu = cpus.first()?;
    let kilohertz = number(&format!("{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq"))?;
    Some(Megahertz(kilohertz as f64 / 1e3))
}

/// Data and unified caches of the first allowed CPU, smallest first.
fn caches(cpus: &[usize]) -> Vec<CacheLevel> {
    let Some(first) = cpus.first() else { return Vec::new() };
    let allowed: BTreeSet<usize> = cpus.iter().copied().collect();
    let mut caches = Vec::new();
    for index in 0..8 {
        let folder = format!("{CPUS}/cpu{first}/cache/index{index}");
        let text = |name: &str| fs::read_to_string(format!("{folder}/{name}")).ok();
        let Some(kind) = text("type") else { break };
        if kind.trim() == "Instruction" {
            continue;
        }
        let size = text("size").and_then(|size| size.trim().parse::<Bytes>().ok());
        let (Some(level), Some(size)) = (number(&format!("{folder}/level")), size) else {
            continue;
        };
        let sharing = text("shared_cpu_list").map(|list| cpu_list(&list)).unwrap_or_default();
        caches.push(CacheLevel {
            level: level as u32,
            size,
            shared_by: sharing.intersection(&allowed).count().max(1) as u32,
            line: Bytes(number(&format!("{folder}/coherency_line_size")).unwrap_or(64)),
        });
    }
    caches.sort_by_key(|cache| cache.level);
    caches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_cores_work_than_a_quota_pays_for() {
        for (cores, quota, wanted) in [
            (8, None, 8),
            (8, Some(16.0), 8),
            (8, Some(8.0), 8),
            (8, Some(3.9), 3),
            (8, Some(0.1), 1),
            (0, None, 1),
        ] {
            assert_eq!(units(cores, quota), wanted, "{cores} cores, {quota:?}");
        }
    }

    #[test]
    fn the_host_has_units_and_caches_in_order() {
        let host = read();
        assert!(host.units >= 1 && !host.name.is_empty());
        assert!(host.caches.windows(2).all(|pair| pair[0].level < pair[1].level));
    }
}
