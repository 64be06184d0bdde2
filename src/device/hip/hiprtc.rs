//! hipRTC, AMD's run-time compiler: NVRTC by other names.

use super::functions;
use crate::device::{
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
