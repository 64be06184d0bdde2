//! hipRTC, AMD's run-time compiler: NVRTC by other names.

use super::functions;
use crate::{
    gpu::compiler::{CompilerDialect, LazyCompiler},
    library::Wanted,
};

/// hipRTC, which comes with the driver and suits it.
pub static HIPRTC: LazyCompiler = LazyCompiler::new(CompilerDialect {
    name: "hipRTC",
    library: Wanted {
        files: hip_sys::HIPRTC_FILES,
        before: "",
        folders: functions::FOLDERS,
        remedy: "install hipRTC (AMD's package hip-runtime-amd has it), or build fizeau where a \
               clang for AMD's targets is found, which embeds binaries",
    },
    functions: functions::compiler,
    target: "--offload-arch=",
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bundle::folder, gpu::compiler::Source, skipped};

    /// Runs where a hipRTC is found; scripts/check_hip.sh brings Debian's, of HIP 5.2, which knows
    /// gfx90a and no later target of Instinct's.
    #[test]
    fn portable_kernels_compile_through_hiprtc_from_their_text() {
        let compiler = match HIPRTC.get() {
            Ok(compiler) => compiler,
            Err(error) => return skipped::because("hip", error),
        };
        let (headers, files) = (folder::headers(), folder::files("kernels/amd.toml"));
        for (file, text) in files.iter().filter(|(file, _)| file.path.ends_with(".cu")) {
            let name = &file.path;
            let source = Source { name, text, headers: &headers, target: "gfx90a" };
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
