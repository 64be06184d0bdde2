//! The GPU kernels of `kernels/` that build.rs embeds into the program, handed to the device crate.

use fizeau_device::bundle::{Bundle, KernelFile, KernelFiles};

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

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_domain::kernel::manifest::{Manifest, family};
    use std::{fs, path::Path};

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
                    assert_eq!(binary.is_some(), !kernels.compilers.is_empty(), "{place}");
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
