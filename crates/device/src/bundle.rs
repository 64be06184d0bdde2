//! The bundled GPU kernels. This crate embeds none, so that it compiles without them: the program
//! hands its own down once, at its start ([`install`]).

use lzma_rust2::XzReader;
use std::{io::Read as _, sync::OnceLock};

/// The kernels of a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bundle {
    /// `kernels/kernels.toml` and its files.
    pub nvidia: KernelFiles,
    /// `kernels/amd.toml` and its files.
    pub amd: KernelFiles,
    /// Headers that kernels may include: name and text.
    pub headers: &'static [(&'static str, &'static str)],
}

/// The kernels for one vendor's GPUs.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelFiles {
    /// The text of the list of kernels.
    pub manifest: &'static str,
    /// The files that the list names.
    pub files: &'static [KernelFile],
    /// The compilers that the build found: version, and the targets it made binaries for.
    pub compilers: &'static [(&'static str, &'static str)],
}

/// A file of `kernels/`.
#[derive(Clone, Copy, Debug)]
pub struct KernelFile {
    /// Its path as the list names it.
    pub path: &'static str,
    /// Its text.
    pub text: &'static str,
    /// Its binaries, one for each target that the build found a compiler for: the target
    /// (`compute_80` is PTX), the binary packed as an xz stream, and the index of its
    /// compiler in [`KernelFiles::compilers`].
    pub binaries: &'static [(&'static str, &'static [u8], usize)],
}

/// The text of a file, and its binary for one target.
#[derive(Clone, Copy, Debug)]
pub struct Bundled {
    /// The path of the file as the list names it.
    pub path: &'static str,
    /// The text of the file.
    pub text: &'static str,
    /// The binary, where the build found a compiler for the target.
    pub binary: Option<Binary>,
}

/// An embedded binary.
#[derive(Clone, Copy, Debug)]
pub struct Binary {
    /// What the driver is given, packed as an xz stream.
    pub packed: &'static [u8],
    /// The version of its compiler.
    pub compiler: &'static str,
}

impl KernelFiles {
    /// A file's text, with its binary for a target if this build has one.
    pub fn find(&self, path: &str, target: &str) -> Option<Bundled> {
        let file = self.files.iter().find(|file| file.path == path)?;
        let binary = file.binaries.iter().find(|(of, ..)| *of == target);
        let binary =
            binary.map(|&(_, packed, by)| Binary { packed, compiler: self.compilers[by].0 });
        Some(Bundled { path: file.path, text: file.text, binary })
    }

    /// The binaries that this build has, for `doctor`; `None` where it found no compiler.
    pub fn built_with(&self) -> Option<String> {
        let of = |(version, targets): &(&str, &str)| format!("{targets} by {version}");
        let used: Vec<String> =
            self.compilers.iter().filter(|(_, targets)| !targets.is_empty()).map(of).collect();
        (!used.is_empty()).then(|| format!("binaries: {}", used.join("; ")))
    }
}

impl Binary {
    /// What the driver is given.
    ///
    /// # Errors
    ///
    /// Where the stream is damaged, which its checksum shows.
    pub fn image(&self) -> std::io::Result<Vec<u8>> {
        let mut image = Vec::new();
        XzReader::new(self.packed, false).read_to_end(&mut image)?;
        Ok(image)
    }
}

static BUNDLE: OnceLock<Bundle> = OnceLock::new();

/// Sets the kernels of this process. The first call counts: a process has one bundle.
pub fn install(bundle: Bundle) {
    let _ = BUNDLE.set(bundle);
}

/// The kernels for NVIDIA's GPUs; none before [`install`].
pub fn nvidia() -> KernelFiles {
    bundle().nvidia
}

/// The kernels for AMD's GPUs; none before [`install`].
pub fn amd() -> KernelFiles {
    bundle().amd
}

/// Headers that kernels may include: name and text.
pub fn headers() -> &'static [(&'static str, &'static str)] {
    bundle().headers
}

fn bundle() -> Bundle {
    BUNDLE.get().copied().unwrap_or_default()
}

/// What `kernels/` holds, for tests of compilers: each file with its text, and the headers.
#[cfg(test)]
pub mod folder {
    use fizeau_domain::kernel::manifest::{File, Manifest};
    use std::{fs, path::PathBuf};

    /// A path below the repository's root.
    pub fn path(below: &str) -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(below)
    }

    fn text(below: &str) -> String {
        fs::read_to_string(path(below)).unwrap_or_else(|error| panic!("{below}: {error}"))
    }

    /// The files of a list, each with its text.
    pub fn files(list: &str) -> Vec<(File, String)> {
        let manifest: Manifest = toml::from_str(&text(list)).expect("a list of kernels");
        let with_text = |file: File| (text(&format!("kernels/{}", file.path)), file);
        manifest.file.into_iter().map(with_text).map(|(text, file)| (file, text)).collect()
    }

    /// The headers that kernels may include: name and text.
    pub fn headers() -> Vec<(&'static str, &'static str)> {
        let entries = fs::read_dir(path("kernels/include")).expect("the headers");
        let names = entries.map(|entry| entry.expect("a header").file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        names
            .map(|name| (text(&format!("kernels/include/{name}")), name))
            .map(|(text, name)| (&*name.leak(), &*text.leak()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lzma_rust2::{XzOptions, XzWriter};
    use std::io::Write as _;

    #[test]
    fn a_binary_is_unpacked_whole_or_not_at_all() {
        let image: Vec<u8> = (0..5000u32).flat_map(u32::to_le_bytes).collect();
        let mut stream = XzWriter::new(Vec::new(), XzOptions::default()).expect("options");
        stream.write_all(&image).expect("memory takes it");
        let packed = stream.finish().expect("memory takes it");
        let unpacked = |packed: Vec<u8>| Binary { packed: packed.leak(), compiler: "" }.image();
        assert_eq!(unpacked(packed.clone()).expect("whole"), image);
        assert!(packed.len() < image.len());
        assert!(unpacked(packed[..packed.len() - 5].to_vec()).is_err());
        let mut spoilt = packed;
        *spoilt.last_mut().expect("a byte") ^= 1;
        assert!(unpacked(spoilt).is_err());
    }
}
