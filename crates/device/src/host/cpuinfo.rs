//! What `/proc/cpuinfo` tells of the CPU: its name and number. On x86 the text has a model's name;
//! on Arm it has only the implementer and the part number of `MIDR_EL1`, which name the core and
//! not the product.

use fizeau_domain::{
    dtype::Dtype,
    spec::{ARM, CpuId, Properties},
};
use std::{collections::BTreeSet, fs, path::Path};

/// A core of Arm servers.
struct Core {
    /// Of `MIDR_EL1`: 0x41 is Arm, 0x4e NVIDIA, 0xc0 Ampere.
    implementer: u32,
    /// Of `MIDR_EL1`.
    part: u32,
    name: &'static str,
    /// The most double-precision operations that it completes in a clock: pipes for vectors x
    /// their lanes of 64 bits x 2 for a fused multiply-add.
    f64_per_clock: f64,
}

/// Numbers: the Linux kernel's `arch/arm64/include/asm/cputype.h`. Pipes: Arm's software
/// optimization guides (N1, N2, N3: two of 128 bits; V1: two of 256 bits for SVE; V2, V3: four of
/// 128 bits), NVIDIA's Vera (six of 128 bits), Ampere's `AmpereOne` (two of 128 bits).
const CORES: [Core; 9] = [
    core(0x41, 0xd0c, "Neoverse N1", 8.0),
    core(0x41, 0xd40, "Neoverse V1", 16.0),
    core(0x41, 0xd49, "Neoverse N2", 8.0),
    core(0x41, 0xd4f, "Neoverse V2", 16.0),
    core(0x41, 0xd84, "Neoverse V3", 16.0),
    core(0x41, 0xd8e, "Neoverse N3", 8.0),
    core(0x4e, 0x010, "Olympus", 24.0),
    core(0xc0, 0xac3, "AmpereOne", 8.0),
    core(0xc0, 0xac4, "AmpereOne", 8.0),
];

const fn core(implementer: u32, part: u32, name: &'static str, f64_per_clock: f64) -> Core {
    Core { implementer, part, name, f64_per_clock }
}

/// Implementer of NVIDIA's systems on a chip, as the firmware's SoC id tells (JEP 106).
const SOC_NVIDIA: &str = "jep106:036b";

/// What the text tells of the first CPU; the number only where all CPUs have the same one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuInfo {
    /// `model name`; none on Arm.
    pub name: Option<String>,
    /// `AMD`, `Intel` or another text of `vendor_id`; [`ARM`] where there is an implementer.
    pub vendor: Option<String>,
    /// CPUID's family, model and stepping; on Arm implementer, part, and variant x 16 + revision.
    pub cpu: Option<CpuId>,
}

impl CpuInfo {
    /// Reads the kernel's text.
    pub fn read() -> CpuInfo {
        CpuInfo::parse(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    /// From a text of the form of `/proc/cpuinfo`.
    pub fn parse(text: &str) -> CpuInfo {
        let all = |key: &str| -> Vec<&str> {
            let pairs = text.lines().filter_map(|line| line.split_once(':'));
            pairs.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).collect()
        };
        // Two kinds of core in one machine have no one number.
        let number = |key: &str| -> Option<u32> {
            let values: BTreeSet<&str> = all(key).into_iter().collect();
            let value = values.first().filter(|_| values.len() == 1)?;
            match value.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => value.parse().ok(),
            }
        };
        let first = |key: &str| all(key).first().map(|value| (*value).to_owned());
        let of_arm = || {
            let stepping = number("CPU variant")? * 16 + number("CPU revision")?;
            let (family, model) = (number("CPU implementer")?, number("CPU part")?);
            Some(CpuId { family, model, stepping })
        };
        let of_x86 = || {
            let stepping = number("stepping")?;
            Some(CpuId { family: number("cpu family")?, model: number("model")?, stepping })
        };
        let is_arm = !all("CPU implementer").is_empty();
        let vendor = first("vendor_id").map(|vendor| match vendor.as_str() {
            "AuthenticAMD" => "AMD".into(),
            "GenuineIntel" => "Intel".into(),
            _ => vendor,
        });
        CpuInfo {
            name: first("model name"),
            vendor: if is_arm { Some(ARM.into()) } else { vendor },
            cpu: if is_arm { of_arm() } else { of_x86() },
        }
    }

    /// Puts what is known into a host's properties. An Arm CPU is named by its core and by whose
    /// machine it is in: "Neoverse V2, Amazon EC2".
    pub fn describe(&self, platform: Option<&str>, properties: &mut Properties) {
        if let Some(vendor) = &self.vendor {
            properties.vendor.clone_from(vendor);
        }
        properties.cpu = self.cpu;
        if let Some(name) = &self.name {
            properties.name.clone_from(name);
        }
        let Some(core) = self.core() else { return };
        properties.name = match platform {
            Some(platform) => format!("{}, {platform}", core.name),
            None => core.name.into(),
        };
        let rates = [(Dtype::F64, core.f64_per_clock), (Dtype::F32, 2.0 * core.f64_per_clock)];
        properties.flops_per_clock.extend(rates);
    }

    /// The core that an Arm CPU has.
    fn core(&self) -> Option<&'static Core> {
        let cpu = self.cpu.filter(|_| self.vendor.as_deref() == Some(ARM))?;
        CORES.iter().find(|core| (core.implementer, core.part) == (cpu.family, cpu.model))
    }
}

/// Whose machine this is: the maker of the system on a chip where the firmware tells NVIDIA's, else
/// the system's vendor as SMBIOS has it (`Amazon EC2`, `Microsoft Corporation`, `Google`). Both may
/// be read by everybody. `root` is `/`.
pub fn platform(root: &Path) -> Option<String> {
    let word = |path: &str| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    match word("sys/devices/soc0/soc_id") {
        Some(id) if id.starts_with(SOC_NVIDIA) => Some("NVIDIA".into()),
        _ => word("sys/class/dmi/id/sys_vendor"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_kinds_of_core_have_no_number_and_another_core_no_rate() {
        let cpu = |part| {
            format!(
                "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\n\
                 CPU part\t: {part}\nCPU revision\t: 2\n\n"
            )
        };
        let one = CpuInfo::parse(&cpu("0xd4f").repeat(2));
        assert_eq!(one.cpu, Some(CpuId { family: 0x41, model: 0xd4f, stepping: 18 }));
        let two = CpuInfo::parse(&[cpu("0xd85"), cpu("0xd87")].concat());
        assert_eq!((two.cpu, two.vendor.as_deref()), (None, Some(ARM)));
        let mut properties = Properties::default();
        CpuInfo::parse(&cpu("0xfff")).describe(Some("Acme"), &mut properties);
        assert!(properties.name.is_empty() && properties.flops_per_clock.is_empty());
        assert_eq!(CpuInfo::parse(""), CpuInfo::default());
    }

    #[test]
    fn a_machine_is_named_by_its_firmware() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(platform(root.path()), None);
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
        assert_eq!(platform(root.path()).as_deref(), Some("Amazon EC2"));
        write("sys/devices/soc0/soc_id", "jep106:036b:0241\n");
        assert_eq!(platform(root.path()).as_deref(), Some("NVIDIA"));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_text_and_the_instruction_agree() {
        let host = crate::host::properties::read();
        let text = CpuInfo::read();
        assert_eq!((text.cpu, text.name), (host.cpu, Some(host.name)));
    }
}
