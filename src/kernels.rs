//! The GPU kernels of `kernels/` that build.rs embeds into the program, handed to the device crate.

use anyhow::Context as _;
use fizeau_device::bundle::{Bundle, KernelFile, KernelFiles};
use fizeau_domain::kernel::manifest::{self, Manifest};
use std::{fs, path::Path};

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// The kernels of this program.
pub static BUNDLE: Bundle = Bundle {
    nvidia: KernelFiles {
        manifest: include_str!("../kernels/kernels.toml"),
        files: NVIDIA,
        compilers: NVIDIA_COMPILERS,
    },
    amd: KernelFiles {
        manifest: include_str!("../kernels/amd.toml"),
        files: AMD,
        compilers: AMD_COMPILERS,
    },
    headers: HEADERS,
};

/// The folder whose texts are taken for those of [`BUNDLE`], where this variable names one: a copy
/// of `kernels/`, for trying a change of a kernel without building the program anew.
pub const FROM: &str = "FIZEAU_KERNELS_FROM";

/// The kernels of this process: those of the program, or the texts of the folder that [`FROM`]
/// names, without binaries.
///
/// # Errors
///
/// Where the folder lacks a file of its list, or the list is broken.
pub fn bundle() -> anyhow::Result<Bundle> {
    let Some(folder) = std::env::var_os(FROM) else { return Ok(BUNDLE) };
    let folder = Path::new(&folder);
    let text = |below: &str| -> anyhow::Result<&'static str> {
        let path = folder.join(below);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{FROM}: cannot read {}", path.display()))?;
        // One bundle for the life of the process.
        Ok(text.leak())
    };
    let kernels = |list: &str| -> anyhow::Result<KernelFiles> {
        let manifest = text(list)?;
        let listed: Manifest = toml::from_str(manifest)
            .with_context(|| format!("{FROM}: {}", folder.join(list).display()))?;
        let file = |file: manifest::File| {
            let text = text(&file.path)?;
            Ok(KernelFile { path: file.path.leak(), text, binaries: &[] })
        };
        let files: anyhow::Result<Vec<KernelFile>> = listed.file.into_iter().map(file).collect();
        Ok(KernelFiles { manifest, files: files?.leak(), compilers: &[] })
    };
    let mut headers = Vec::new();
    for &(name, _) in HEADERS {
        headers.push((name, text(&format!("include/{name}"))?));
    }
    let (nvidia, amd) = (kernels("kernels.toml")?, kernels("amd.toml")?);
    Ok(Bundle { nvidia, amd, headers: headers.leak() })
}

/// What a record says of kernels that are not the program's own.
pub fn words() -> Option<String> {
    let folder = std::env::var_os(FROM)?;
    let folder = Path::new(&folder).file_name().unwrap_or_default().display();
    Some(format!("kernels are compiled from the texts of the folder {folder}, by {FROM}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_domain::kernel::manifest::family;

    fn manifest(kernels: &KernelFiles) -> Manifest {
        toml::from_str(kernels.manifest).expect("a list of kernels")
    }

    #[test]
    fn every_file_of_each_list_is_embedded_with_a_binary_for_each_target_or_none() {
        for kernels in [BUNDLE.nvidia, BUNDLE.amd] {
            let list = manifest(&kernels).file;
            assert_eq!(list.len(), kernels.files.len());
            for file in &list {
                for target in &file.targets {
                    let has = |to: &str| kernels.find(&file.path, to).expect("embedded").binary;
                    let binary = has(target).or_else(|| has(family(target)?));
                    let place = format!("{} for {target}", file.path);
                    // Compilers before CUDA 13.4 do not know compute capability 10.7.
                    let knows = |(_, all): &(&str, &str)| all.split(", ").any(|one| one == target);
                    let may_lack = target == "sm_107a" && !kernels.compilers.iter().any(knows);
                    let is_made = !kernels.compilers.is_empty() && !may_lack;
                    assert_eq!(binary.is_some(), is_made, "{place}");
                    let image = binary.map(|binary| binary.image().expect("whole"));
                    assert!(image.is_none_or(|image| image.starts_with(b"\x7fELF")), "{place}");
                }
            }
        }
    }

    /// scripts/kernels.sh compiles the files; this program compiles what is embedded in it.
    #[test]
    fn what_is_embedded_is_the_text_of_the_files() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let files = BUNDLE.nvidia.files.iter().chain(BUNDLE.amd.files);
        let files = files.map(|file| (folder.join(file.path), file.text));
        let headers = HEADERS.iter().map(|&(name, text)| (folder.join("include").join(name), text));
        for (path, text) in files.chain(headers) {
            let file = fs::read_to_string(&path).expect("a file of kernels/");
            assert!(file == text, "{}: another text is embedded", path.display());
        }
        assert_eq!(fs::read_dir(folder.join("include")).expect("it").count(), HEADERS.len());
    }
}
