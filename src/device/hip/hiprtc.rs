//! hipRTC, AMD's run-time compiler: NVRTC by other names.

use super::functions;
use crate::device::{
    DeviceError,
    gpu::compiler::{Compiler, CompilerDialect},
    library::Wanted,
};
use std::sync::{Arc, OnceLock};

/// hipRTC, opened once in a process.
///
/// # Errors
///
/// [`DeviceError::Missing`] where there is none.
pub fn compiler() -> Result<Arc<Compiler>, DeviceError> {
    static COMPILER: OnceLock<Result<Arc<Compiler>, DeviceError>> = OnceLock::new();
    COMPILER.get_or_init(|| Compiler::open(&HIPRTC).map(Arc::new)).clone()
}

pub static HIPRTC: CompilerDialect = CompilerDialect {
    name: "hipRTC",
    library: Wanted {
        files: hip_sys::HIPRTC_FILES,
        before: "",
        folders: functions::FOLDERS,
        mend: "install hipRTC (AMD's package hip-runtime-amd has it), or build fizeau where a \
               clang for AMD's targets is found, which embeds binaries",
    },
    functions: functions::compiler,
    target: "--offload-arch=",
};
