//! NVRTC, NVIDIA's run-time compiler.

use crate::device::{
    gpu::compiler::{CompilerDialect, Functions, LazyCompiler},
    library::Wanted,
};

/// NVRTC of CUDA 13, whose binaries want a driver for CUDA 13 (580 or newer).
static NVRTC_13: LazyCompiler = LazyCompiler::new(nvrtc(&["libnvrtc.so.13"]));

/// NVRTC of CUDA 12, whose binaries every driver from 525 on loads ("CUDA minor version
/// compatibility"). Architectures that came with CUDA 13 it does not know.
static NVRTC_12: LazyCompiler = LazyCompiler::new(nvrtc(&["libnvrtc.so.12"]));

const fn nvrtc(files: &'static [&'static str]) -> CompilerDialect {
    CompilerDialect {
        name: "NVRTC",
        library: Wanted {
            files,
            // The library opens its built-in headers by their bare name, and has no path to them.
            before: "libnvrtc-builtins.so.",
            folders: &[],
            remedy: "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc` \
                   (nvidia-cuda-nvrtc-cu12 for drivers before 580); or build fizeau where a \
                   compiler for CUDA is found, which embeds binaries",
        },
        functions: Functions::of,
        target: "--gpu-architecture=",
    }
}

/// The compilers for a driver of a version (`12080` for 12.8), the one of the driver's own CUDA
/// first. What that one does not know, the other one may, if the driver loads what it makes.
pub fn compilers(driver: i32) -> Vec<&'static LazyCompiler> {
    if driver < 13_000 { vec![&NVRTC_12, &NVRTC_13] } else { vec![&NVRTC_13, &NVRTC_12] }
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
        for compiler in compilers(0) {
            let line = format!("\nPROGRAM_OPTIONS = {:?}\n", compiler.options(&source));
            assert!(script.contains(&line), "scripts/kernels.py has no line{line}");
        }
    }
}
