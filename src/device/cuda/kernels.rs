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
    use crate::{
        device::gpu::{
            compiler::Source,
            kernels::HEADERS,
            manifest::{File, Manifest},
        },
        skipped,
    };
    use std::{collections::BTreeSet, fs, path::Path};

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

    /// scripts/kernels.sh compiles the files; this program compiles what is embedded in it.
    #[test]
    fn what_is_embedded_is_the_text_of_the_files() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let files = BUNDLED.iter().map(|bundled| (folder.join(bundled.path), bundled.text));
        let headers = HEADERS.iter().map(|&(name, text)| (folder.join("include").join(name), text));
        for (path, text) in files.chain(headers) {
            let file = fs::read_to_string(&path).expect("a file of kernels/");
            assert!(file == text, "{}: another text is embedded", path.display());
        }
        assert_eq!(fs::read_dir(folder.join("include")).expect("it").count(), HEADERS.len());
    }

    /// The smallest file of each target compiles as the program compiles all of them. With the
    /// tests of what is embedded and of the options, scripts/kernels.sh has proved the others too.
    ///
    /// Runs where an NVRTC is found (`FIZEAU_LIBRARY_PATH` names its folder, or it is installed);
    /// scripts/check_nvrtc.sh brings two.
    #[test]
    fn a_kernel_of_each_target_compiles_from_its_embedded_text() {
        let compiler = match nvrtc::compiler() {
            Ok(compiler) => compiler,
            Err(error) => return skipped::because("nvrtc", error),
        };
        let mut files = manifest().file;
        let embedded = |file: &File| BUNDLED.iter().find(|bundled| bundled.path == file.path);
        files.sort_by_key(|file| embedded(file).expect("embedded").text.len());
        let mut compiled = BTreeSet::new();
        let jobs = files.iter().flat_map(|file| file.targets.iter().map(move |to| (file, to)));
        for (file, target) in jobs.filter(|(_, target)| compiled.insert(target.to_string())) {
            let Bundled { path: name, text, .. } = embedded(file).expect("embedded");
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
        assert!(compiled.len() > 5, "{compiled:?}");
    }
}
