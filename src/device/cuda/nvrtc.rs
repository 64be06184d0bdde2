//! NVRTC, NVIDIA's run-time compiler.

use crate::device::{
    DeviceError,
    gpu::compiler::{Compiler, CompilerDialect, Functions},
    library::Wanted,
};
use std::sync::{Arc, OnceLock};

/// NVIDIA's library.
const LIBRARY: Wanted = Wanted {
    files: &["libnvrtc.so.13", "libnvrtc.so.12"],
    // The library opens its built-in headers by their bare name, and has no path to them.
    before: "libnvrtc-builtins.so.",
    folders: &[],
    mend: "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc` (nvidia-cuda-nvrtc-cu12 \
           for drivers before 580); or build fizeau where nvcc is found, which embeds binaries",
};

const NVRTC: CompilerDialect = CompilerDialect {
    name: "NVRTC",
    library: LIBRARY,
    functions: Functions::of,
    target: "--gpu-architecture=",
};

/// The compiler, opened once in a process.
///
/// # Errors
///
/// [`DeviceError::Missing`] where there is none.
pub fn compiler() -> Result<Arc<Compiler>, DeviceError> {
    static COMPILER: OnceLock<Result<Arc<Compiler>, DeviceError>> = OnceLock::new();
    COMPILER.get_or_init(|| Compiler::open(&NVRTC).map(Arc::new)).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::gpu::compiler::Source;
    use std::{fs, path::Path};

    #[test]
    fn kernels_are_proved_with_the_options_of_the_program() {
        let source = Source { name: "", text: "", headers: &[], options: &[], target: "{target}" };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/kernels.py");
        let script = fs::read_to_string(script).expect("the script that proves kernels");
        let line = format!("\nPROGRAM_OPTIONS = {:?}\n", NVRTC.options(&source));
        assert!(script.contains(&line), "scripts/kernels.py has no line{line}");
    }
}
