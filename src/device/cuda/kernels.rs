//! The kernels of `kernels/kernels.toml`: texts and binaries that this build has.

use crate::device::gpu::vendor::Bundled;

/// The list's text.
pub const MANIFEST: &str = include_str!("../../../kernels/kernels.toml");

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// A file of kernels.toml.
pub fn find(path: &str, _target: &str) -> Option<Bundled> {
    BUNDLED.iter().find(|bundled| bundled.path == path).copied()
}

/// What this build has of its kernels, for `doctor`.
pub fn built_with() -> String {
    match NVCC {
        Some(version) => format!("binaries for all targets, by {version}"),
        None => "no binaries: no nvcc was found at build time; NVRTC compiles their text".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::nvrtc;
    use super::*;
    use crate::device::gpu::{
        compiler::Source,
        kernels::HEADERS,
        manifest::{File, Manifest},
    };

    fn manifest() -> Manifest {
        toml::from_str(MANIFEST).expect("kernels.toml")
    }

    #[test]
    fn every_file_of_the_list_is_embedded() {
        let files = manifest().file;
        let embedded = |file: &File| BUNDLED.iter().any(|bundled| bundled.path == file.path);
        assert!(files.iter().all(embedded) && files.len() == BUNDLED.len());
        assert!(BUNDLED.iter().all(|bundled| bundled.binary.is_some() == NVCC.is_some()));
    }

    /// Runs where an NVRTC is found (`FIZEAU_LIBRARY_PATH` names its folder, or it is installed);
    /// scripts/check_nvrtc.sh brings two.
    #[test]
    fn every_kernel_compiles_from_its_embedded_text() {
        let compiler = match nvrtc::compiler() {
            Ok(compiler) => compiler,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        for file in manifest().file {
            let bundled = BUNDLED.iter().find(|bundled| bundled.path == file.path);
            let (name, text) = bundled.map(|b| (b.path, b.text)).expect("embedded");
            for target in &file.targets {
                let source = Source { name, text, headers: HEADERS, options: &[], target };
                let binary = compiler.compile(&source).unwrap_or_else(|error| {
                    panic!("{name} for {target}: {error}");
                });
                assert!(binary.starts_with(b"\x7fELF"), "{name} for {target}");
                for row in &file.kernels {
                    let entry = row.entry.as_bytes();
                    let there = binary.windows(entry.len()).any(|window| window == entry);
                    assert!(there, "{name} for {target} has no {}", row.entry);
                }
            }
        }
    }
}
