//! The kernels of `kernels/kernels.toml`: texts and binaries that this build has.

use crate::device::gpu::vendor::{Binary, Bundled};

/// The list's text.
pub const MANIFEST: &str = include_str!("../../../kernels/kernels.toml");

/// A file, embedded.
struct Files {
    path: &'static str,
    text: &'static str,
    /// Targets with their packed binaries and the place of what made them in `COMPILERS`, where the
    /// build found a compiler. `compute_80` is PTX.
    binaries: &'static [(&'static str, &'static [u8], usize)],
}

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// A file's text, with its binary for a target if this build has one.
pub fn find(path: &str, target: &str) -> Option<Bundled> {
    let file = BUNDLED.iter().find(|file| file.path == path)?;
    let binary = file.binaries.iter().find(|(of, ..)| *of == target);
    let binary = binary.map(|&(_, packed, by)| Binary { packed, compiler: COMPILERS[by].0 });
    Some(Bundled { path: file.path, text: file.text, binary })
}

/// The binaries that this build has of its kernels, for `doctor`; none where it found no compiler.
pub fn built_with() -> Option<String> {
    let of = |(version, targets): &(&str, &str)| format!("{targets} by {version}");
    let used: Vec<String> =
        COMPILERS.iter().filter(|(_, targets)| !targets.is_empty()).map(of).collect();
    (!used.is_empty()).then(|| format!("binaries: {}", used.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::super::nvrtc;
    use super::*;
    use crate::{
        device::{
            gpu::{
                compiler::{self, Source},
                kernels::HEADERS,
            },
            user::UserFile,
        },
        kernel::manifest::{File, Manifest, family},
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
        let targets =
            || files.iter().flat_map(|file| file.targets.iter().map(move |to| (file, to)));
        for (file, target) in targets().filter(|_| !COMPILERS.is_empty()) {
            let has = |target| find(&file.path, target).expect("embedded").binary;
            let binary = has(target).or_else(|| has(family(target)?));
            let binary = binary.unwrap_or_else(|| panic!("{} for {target}", file.path));
            let image = binary.image().expect("whole");
            assert!(image.starts_with(b"\x7fELF"), "{} for {target}", file.path);
        }
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
        let compilers = match compiler::found(&nvrtc::compilers(13_000)) {
            Ok(compilers) => compilers,
            Err(error) => return skipped::because("nvrtc", error),
        };
        let mut files = manifest().file;
        let embedded = |file: &File| BUNDLED.iter().find(|bundled| bundled.path == file.path);
        files.sort_by_key(|file| embedded(file).expect("embedded").text.len());
        let mut compiled = BTreeSet::new();
        let jobs = files.iter().flat_map(|file| {
            let own = file.targets.iter().map(String::as_str);
            let families = file.targets.iter().filter_map(|target| family(target));
            own.chain(families).chain(file.ptx.as_deref()).map(move |to| (file, to))
        });
        let jobs = jobs.filter(|(_, target)| compiled.insert(target.to_string()));
        let jobs = jobs.flat_map(|job| compilers.iter().map(move |compiler| (job, compiler)));
        for ((file, target), compiler) in jobs {
            let Files { path: name, text, .. } = embedded(file).expect("embedded");
            let source = Source { name, text, headers: HEADERS, options: &[], target };
            let by = compiler.named();
            let binary = compiler.compile(&source).unwrap_or_else(|error| {
                panic!("{name} for {target} by {by}: {error}");
            });
            let start: &[u8] = if target.starts_with("sm_") { b"\x7fELF" } else { b"//" };
            assert!(binary.starts_with(start), "{name} for {target} by {by}");
            for row in &file.kernels {
                let entry = row.entry.as_bytes();
                let there = binary.windows(entry.len()).any(|window| window == entry);
                assert!(there, "{name} for {target} by {by} has no {}", row.entry);
            }
        }
        assert!(compiled.len() > 5, "{compiled:?}");
    }

    /// The examples of docs/your-kernel.md, as `fizeau run --kernel` reads and compiles them.
    #[test]
    fn the_examples_for_users_compile_for_their_targets() {
        let compilers = match compiler::found(&nvrtc::compilers(13_000)) {
            Ok(compilers) => compilers,
            Err(error) => return skipped::because("nvrtc", error),
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/your-kernel");
        for name in ["gemm.cu", "decode.cu"] {
            let file = UserFile::read(&folder.join(name)).expect("an example");
            let text = std::str::from_utf8(&file.bytes).expect("a text");
            let targets = file.section.targets.iter().chain(&file.section.ptx);
            for (target, compiler) in
                targets.flat_map(|to| compilers.iter().map(move |one| (to, one)))
            {
                let source = Source { name, text, headers: HEADERS, options: &[], target };
                let image = compiler.compile(&source).unwrap_or_else(|error| {
                    panic!("{name} for {target} by {}: {error}", compiler.named());
                });
                let entry = file.section.kernels[0].entry.as_bytes();
                assert!(image.windows(entry.len()).any(|window| window == entry), "{name}");
            }
        }
    }
}
