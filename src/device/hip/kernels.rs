//! The kernels of `kernels/amd.toml`: texts and binaries that this build has.

use crate::device::gpu::vendor::{Binary, Bundled};

/// The list's text.
pub const MANIFEST: &str = include_str!("../../../kernels/amd.toml");

/// A file for AMD's targets, embedded.
struct Files {
    path: &'static str,
    text: &'static str,
    /// Targets with their packed binaries, where the build found a compiler.
    binaries: &'static [(&'static str, &'static [u8])],
}

include!(concat!(env!("OUT_DIR"), "/kernels_amd.rs"));

/// A file's text, with its binary for a target if this build has one.
pub fn find(path: &str, target: &str) -> Option<Bundled> {
    let file = BUNDLED.iter().find(|file| file.path == path)?;
    let binary = file.binaries.iter().find(|(of, _)| *of == target);
    let binary = binary.map(|&(_, packed)| Binary { packed, compiler: CLANG.unwrap_or_default() });
    Some(Bundled { path: file.path, text: file.text, binary })
}

/// The binaries that this build has of its kernels, for `doctor`; none where it found no compiler.
pub fn built_with() -> Option<String> {
    CLANG.map(|version| format!("binaries for all targets, by {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::{
            gpu::{compiler::Source, kernels::HEADERS},
            hip::hiprtc,
        },
        kernel::manifest::Manifest,
        skipped,
    };
    use std::{fs, path::Path};

    #[test]
    fn every_file_of_the_list_is_embedded_with_all_its_binaries_or_none() {
        let manifest: Manifest = toml::from_str(MANIFEST).expect("amd.toml");
        for file in &manifest.file {
            for target in &file.targets {
                let bundled = find(&file.path, target).expect("embedded");
                assert_eq!(bundled.binary.is_some(), CLANG.is_some(), "{} {target}", file.path);
                let is_elf = |bytes: &[u8]| bytes.starts_with(b"\x7fELF");
                let image = bundled.binary.map(|binary| binary.image().expect("whole"));
                let is_right = image.is_none_or(|image| is_elf(&image));
                assert!(is_right, "{} {target}", file.path);
            }
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels").join(&file.path);
            let text = find(&file.path, &file.targets[0]).expect("embedded").text;
            assert!(fs::read_to_string(path).expect("a file") == text, "{}: its text", file.path);
        }
        assert_eq!(manifest.file.len(), BUNDLED.len());
    }

    /// Runs where a hipRTC is found; scripts/check_hip.sh brings Debian's, of HIP 5.2, which knows
    /// gfx90a and no later target of Instinct's.
    #[test]
    fn portable_kernels_compile_through_hiprtc_from_their_embedded_text() {
        let compiler = match hiprtc::HIPRTC.get() {
            Ok(compiler) => compiler,
            Err(error) => return skipped::because("hip", error),
        };
        let manifest: Manifest = toml::from_str(MANIFEST).expect("amd.toml");
        for file in manifest.file.iter().filter(|file| file.path.ends_with(".cu")) {
            let Bundled { path: name, text, .. } = find(&file.path, "gfx90a").expect("embedded");
            let headers = HEADERS;
            let source = Source { name, text, headers, options: &[], target: "gfx90a" };
            let binary = compiler.compile(&source).unwrap_or_else(|error| panic!("{error}"));
            assert!(binary.starts_with(b"\x7fELF"), "{name}");
            for row in &file.kernels {
                let entry = row.entry.as_bytes();
                let there = binary.windows(entry.len()).any(|window| window == entry);
                assert!(there, "{name} has no {}", row.entry);
            }
        }
    }
}
