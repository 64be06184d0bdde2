//! hipRTC, AMD's run-time compiler: NVRTC by other names.

use super::driver::{FOLDERS, spelled_in};
use crate::device::{
    DeviceError,
    gpu::compiler::{Compiler, CompilerDialect},
    library::Wanted,
};
use std::sync::{Arc, OnceLock};

/// What hipRTC calls the functions of NVRTC.
pub const NAMES: &[(&str, &str)] = &[
    ("nvrtcVersion", "hiprtcVersion"),
    ("nvrtcCreateProgram", "hiprtcCreateProgram"),
    ("nvrtcCompileProgram", "hiprtcCompileProgram"),
    ("nvrtcGetProgramLogSize", "hiprtcGetProgramLogSize"),
    ("nvrtcGetProgramLog", "hiprtcGetProgramLog"),
    ("nvrtcGetCUBINSize", "hiprtcGetCodeSize"),
    ("nvrtcGetCUBIN", "hiprtcGetCode"),
    ("nvrtcDestroyProgram", "hiprtcDestroyProgram"),
    ("fizeau_stub_driver", "fizeau_stub_driver"),
];

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
    // Before ROCm 7 the runtime has the compiler in it as well.
    library: Wanted {
        files: &[
            "libhiprtc.so.10",
            "libhiprtc.so.9",
            "libhiprtc.so.8",
            "libhiprtc.so.7",
            "libhiprtc.so.6",
            "libhiprtc.so.5",
            "libhiprtc.so",
            "libamdhip64.so.6",
            "libamdhip64.so.5",
        ],
        before: "",
        folders: FOLDERS,
        mend: "install hipRTC (AMD's package hip-runtime-amd has it), or build fizeau where a \
               clang for AMD's targets is found, which embeds binaries",
    },
    spelled: |name| spelled_in(NAMES, name),
    target: "--offload-arch=",
};
