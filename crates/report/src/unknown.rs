//! What this program does not know of a device: an architecture that no kernel is made for, a part
//! or a CPU that no table names. Nothing of it is a fault of the machine, and no share is told of a
//! limit that is not known.

use fizeau_domain::{case::KernelName, spec::Properties};
use fizeau_record::{Environment, Record};

/// Something that is not known, and what would make it known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// What is not known, and what follows for figures.
    pub what: String,
    /// What would bring more.
    pub remedy: String,
}

impl Unknown {
    /// Both in a sentence or two.
    pub fn words(&self) -> String {
        format!("{} {}", self.what, self.remedy)
    }
}

/// What is not known of a device. `is_named` says whether a table names its part.
pub fn unknowns(device: &Properties, is_named: bool, environment: &Environment) -> Vec<Unknown> {
    let part = (!is_named).then(|| part(device));
    architecture(device, environment).into_iter().chain(part).collect()
}

/// The same of a record.
pub fn of_record(record: &Record) -> Vec<Unknown> {
    let header = &record.header;
    unknowns(&header.device, header.part.is_some(), &header.environment)
}

/// An architecture that no kernel of this program is made for.
fn architecture(device: &Properties, environment: &Environment) -> Option<Unknown> {
    let target = environment.unknown_architecture.as_ref()?;
    let (translated, newer) = match device.backend.as_str() {
        "hip" => (
            "hipRTC compiles from text",
            format!("A newer ROCm brings a hipRTC and a hipBLASLt that know {target}"),
        ),
        _ => (
            "NVRTC compiles from text or the driver from PTX",
            format!(
                "A newer driver, NVRTC and cuBLASLt, which know {target}, bring machine code in \
                 place of PTX"
            ),
        ),
    };
    // Their names say for which architectures; the record has their targets too.
    let names = environment.kernels_left_out.iter().filter_map(|one| one.split(' ').next());
    let left_out = match names.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        names => format!(
            " Not planned, since they use instructions of other architectures alone: {names}."
        ),
    };
    Some(Unknown {
        what: format!(
            "This GPU's architecture, {target}, is in no table of fizeau, and no kernel is made \
             for it. Planned are the vendor's library and portable kernels, which {translated}. \
             Portable kernels do not show what this GPU can do, so that no share of a limit is \
             told of them.{left_out}"
        ),
        remedy: format!(
            "{newer}; a newer fizeau may have kernels and limits for it; a file of the part \
             states its peaks today, by --data (docs/adding.md)."
        ),
    })
}

/// A part that no table names.
fn part(device: &Properties) -> Unknown {
    let (what, limit) = match device.backend.as_str() {
        "host" => ("CPU", "its instruction sets allow"),
        "cuda" | "hip" => ("GPU", "units of its architecture can do at its clock"),
        _ => ("device", "units of its architecture can do at its clock"),
    };
    let limit = match device.flops_per_clock.is_empty() {
        true => "its limits of arithmetic are unknown".to_owned(),
        false => format!("its peak arithmetic is the most that {limit}, which it may not have"),
    };
    Unknown {
        what: format!("No table names this {what}: {limit}."),
        remedy: "Describe it in a file and name its folder by --data (docs/adding.md).".into(),
    }
}

/// A peak of a part that no kernel reaches by instructions made for it, in the part's own words.
pub fn lacking_kernel(what: String) -> Unknown {
    Unknown { what, remedy: "A newer fizeau may have one.".into() }
}

/// What a kernel is on an architecture that no kernel is made for.
pub fn kind_of(kernel: &KernelName) -> &'static str {
    match kernel.0.as_str() {
        // The copy engine, which has no code of anybody's.
        "ce" => "driver",
        _ if kernel.is_of_library() => "library",
        _ => "portable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_domain::dtype::Dtype;

    fn device(backend: &str, is_known: bool) -> Properties {
        let rates = is_known.then_some((Dtype::F32, 64.0)).into_iter().collect();
        Properties { backend: backend.into(), flops_per_clock: rates, ..Properties::default() }
    }

    #[test]
    fn an_unknown_cpu_and_an_unknown_part_are_told_and_a_known_one_is_not() {
        let none = Environment::default();
        assert_eq!(unknowns(&device("cuda", true), true, &none), []);
        let [cpu] = &unknowns(&device("host", true), false, &none)[..] else { panic!("one") };
        assert!(cpu.what.starts_with("No table names this CPU: its peak arithmetic"), "{cpu:?}");
        let [gpu] = &unknowns(&device("cuda", true), false, &none)[..] else { panic!("one") };
        assert!(gpu.what.contains("this GPU: its peak arithmetic is the most that units"));
        assert!(gpu.remedy.contains("--data"), "{gpu:?}");
    }

    #[test]
    fn an_unknown_architecture_names_what_is_left_out_and_what_would_bring_more() {
        let environment = Environment {
            unknown_architecture: Some("gfx1350".into()),
            kernels_left_out: vec!["cdna3_mfma (gfx942)".into()],
            ..Environment::default()
        };
        let [target, part] = &unknowns(&device("hip", false), false, &environment)[..] else {
            panic!("two")
        };
        assert!(target.what.contains("gfx1350, is in no table"), "{target:?}");
        assert!(target.what.ends_with("alone: cdna3_mfma."), "{target:?}");
        assert!(target.remedy.contains("newer ROCm") && target.remedy.contains("newer fizeau"));
        assert_eq!(part.what, "No table names this GPU: its limits of arithmetic are unknown.");
        // A file of the part makes its limits known, and no kernel.
        assert_eq!(unknowns(&device("hip", false), true, &environment).len(), 1);
    }

    #[test]
    fn kernels_are_labelled() {
        let kind = |name: &str| kind_of(&KernelName(name.into()));
        assert_eq!(
            [kind("cublaslt"), kind("ce"), kind("sm80_mma")],
            ["library", "driver", "portable"]
        );
    }
}
