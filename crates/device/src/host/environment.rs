//! What the host's programs run in, as the record keeps it.

use super::{
    cgroup,
    cpuinfo::CpuInfo,
    cpus::{self, CPUS},
    gemm::library,
    memory::{meminfo, memory_free},
    properties::read,
};
use fizeau_domain::units::Bytes;
use fizeau_record::Environment;
use std::{fs, path::Path};

/// What the host's programs run in. Nothing of the user, no variables, no paths.
pub fn environment() -> Environment {
    let cpus = cpus::allowed_cpus();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let huge = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let load = fs::read_to_string("/proc/loadavg").ok();
    let cpu = cpus.first().copied().unwrap_or(0);
    let governor = fs::read_to_string(format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor")).ok();
    let mut environment = Environment {
        host: fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().into()),
        os: format!("{} {}", std::env::consts::OS, release.trim()).trim().to_owned(),
        cpu: CpuInfo::read().name.unwrap_or_default(),
        cpus: cpus.len() as u32,
        pinned: cpus::can_pin(),
        huge_pages: huge.ok().and_then(|text| chosen(&text)).unwrap_or_else(|| "none".into()),
        governor: governor.map(|governor| governor.trim().to_owned()),
        boost: boost(Path::new(CPUS)),
        microcode: microcode(Path::new(CPUS), cpu),
        settings: None,
        board: None,
        unknown_architecture: None,
        kernels_left_out: Vec::new(),
        load: load.and_then(|text| text.split(' ').next()?.parse().ok()),
        memory_free: memory_free(),
        memory_limit: memory_limit(cgroup::groups().memory_limit(), meminfo("MemTotal")),
        cpu_quota: cgroup::groups().cpu_quota(),
        cpus_online: cpus::online().and_then(|online| u32::try_from(online).ok()),
        libraries: library::versions(),
        ranks: Vec::new(),
        network: None,
        host_memory_node: None,
        side_by_side: Vec::new(),
        warnings: Vec::new(),
    };
    environment.warnings = warnings(&environment);
    environment
}

/// A control group's limit on memory, where it is one: less than the machine has.
fn memory_limit(of_group: Option<Bytes>, in_all: Option<Bytes>) -> Option<Bytes> {
    of_group.filter(|&limit| in_all.is_none_or(|in_all| limit < in_all))
}

/// What a CPU quota does to a run that may use `cpus` CPUs, in words; `None` where there is none
/// or it is no limit. The thread that asks may be pinned to one of them by now: see
/// [`crate::Reports::describe`].
pub fn quota_words(quota: Option<f64>, cpus: u32) -> Option<String> {
    let quota = quota.filter(|&quota| quota < f64::from(cpus.max(1)))?;
    let limits = format!("a CPU quota of {quota:.2} CPUs (cgroup) limits this process");
    Some(match quota as u32 {
        0 => format!(
            "{limits}: the kernel stops it for {:.0} % of the time when it works, and figures may \
             show the quota and not the machine",
            100.0 * (1.0 - quota)
        ),
        whole => format!(
            "{limits}, which may use {cpus} CPUs: no more than {whole} of its threads work at once"
        ),
    })
}

/// Whether CPUs may clock above their base frequency, by either file that a driver of frequencies
/// has.
fn boost(cpus: &Path) -> Option<bool> {
    let flag = |file: &str| match fs::read_to_string(cpus.join(file)).ok()?.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    flag("cpufreq/boost").or_else(|| flag("intel_pstate/no_turbo").map(|off| !off))
}

/// Revision of a CPU's microcode, by its own file or by the kernel's list.
fn microcode(cpus: &Path, cpu: usize) -> Option<String> {
    let own = cpus.join(format!("cpu{cpu}/microcode/version"));
    let listed = || {
        let list = fs::read_to_string("/proc/cpuinfo").ok()?;
        let line = list.lines().find(|line| line.starts_with("microcode"))?;
        Some(line.split_once(':')?.1.to_owned())
    };
    let found = fs::read_to_string(own).ok().or_else(listed)?;
    Some(found.trim().to_owned()).filter(|found| !found.is_empty())
}

/// The word in brackets, which is how sysfs marks a choice: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Loops of its kernels are not the released ones: products of one host came to 105 GFLOP/s, and to
/// 320 by a release build.
const DEBUG_BUILD: &str = "a debug build measures: host kernels may take three times as long as \
                           those of a release build (cargo build --release)";

/// What may spoil numbers, in words.
fn warnings(environment: &Environment) -> Vec<String> {
    let mut warnings = Vec::new();
    if cfg!(debug_assertions) {
        warnings.push(DEBUG_BUILD.into());
    }
    if let Some(kind) = read().virtualised {
        warnings.push(format!(
            "runs under {kind}: other tenants of the same host may affect memory and clock, unseen"
        ));
    }
    if let Some(load) = environment.load
        && load > 0.5
    {
        warnings.push(format!("the machine was busy at the start: load average {load:.2}"));
    }
    if environment.governor.as_deref() == Some("powersave") {
        warnings.push("the frequency governor is powersave: clocks may stay low".into());
    }
    if !environment.pinned {
        warnings.push("threads could not be pinned to cores".into());
    }
    if matches!(environment.huge_pages.as_str(), "none" | "never") {
        warnings.push("no transparent huge pages: translation misses slow large arrays".into());
    }
    warnings.extend(environment.memory_limit.map(|limit| {
        format!(
            "a limit of {limit} on memory (cgroup) holds here: cases that need more are skipped"
        )
    }));
    warnings.extend(cgroup::groups().hidden().map(|mount| {
        format!(
            "this process's own control group cannot be found below {}: limits on memory and CPU \
             time may be set there unseen",
            mount.display()
        )
    }));
    for variable in library::steered() {
        warnings.push(format!("{variable} is set: the library may not choose its best kernels"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boost_and_microcode_are_what_the_kernel_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        assert_eq!(boost(folder.path()), None);
        write("intel_pstate/no_turbo", "1\n");
        assert_eq!(boost(folder.path()), Some(false));
        write("intel_pstate/no_turbo", "0\n");
        assert_eq!(boost(folder.path()), Some(true));
        write("cpufreq/boost", "0\n");
        assert_eq!(boost(folder.path()), Some(false));
        write("cpufreq/boost", "on\n");
        write("cpu3/microcode/version", "0xb002151\n");
        assert_eq!(boost(folder.path()), Some(true));
        assert_eq!(microcode(folder.path(), 3).as_deref(), Some("0xb002151"));
    }

    #[test]
    fn a_quota_is_told_where_it_limits() {
        let words = |quota, cpus| quota_words(quota, cpus).unwrap_or_default();
        assert_eq!((words(None, 2), words(Some(2.0), 2)), (String::new(), String::new()));
        let tenth = words(Some(0.1), 2);
        assert!(tenth.starts_with("a CPU quota of 0.10 CPUs") && tenth.contains("90 %"), "{tenth}");
        let some = words(Some(2.5), 8);
        assert!(some.contains("8 CPUs: no more than 2 of its threads"), "{some}");
        let limit =
            |limit, in_all: Option<u64>| memory_limit(Some(Bytes(limit)), in_all.map(Bytes));
        assert_eq!(limit(1 << 40, Some(1 << 30)), None);
        assert_eq!(limit(1 << 20, Some(1 << 30)), Some(Bytes::MIB));
        assert_eq!(limit(1 << 20, None), Some(Bytes::MIB));
    }

    #[test]
    fn the_chosen_word_is_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise".into()));
        assert_eq!(chosen("none"), None);
    }
}
