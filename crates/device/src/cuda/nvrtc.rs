//! NVRTC, NVIDIA's run-time compiler.

use crate::{
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
    use crate::{
        bundle::folder,
        gpu::compiler::{self, Source},
        skipped,
        user::UserFile,
    };
    use fizeau_domain::kernel::manifest::{File, family};
    use std::{collections::BTreeSet, fs};

    #[test]
    fn kernels_are_proved_with_the_options_of_the_program() {
        let source = Source { name: "", text: "", headers: &[], target: "{target}" };
        let script = folder::path("scripts/kernels.py");
        let script = fs::read_to_string(script).expect("the script that proves kernels");
        for compiler in compilers(0) {
            let line = format!("\nPROGRAM_OPTIONS = {:?}\n", compiler.options(&source));
            assert!(script.contains(&line), "scripts/kernels.py has no line{line}");
        }
    }

    /// The smallest file of each target compiles as the program compiles all of them. With the
    /// tests of what is embedded and of the options, scripts/kernels.sh has proved the others too.
    ///
    /// Runs where an NVRTC is found (`FIZEAU_LIBRARY_PATH` names its folder, or it is installed);
    /// scripts/check_nvrtc.sh brings two.
    #[test]
    fn a_kernel_of_each_target_compiles_from_its_text() {
        let compilers = match compiler::found(&compilers(13_000)) {
            Ok(compilers) => compilers,
            Err(error) => return skipped::because("nvrtc", error),
        };
        let headers = folder::headers();
        let mut files = folder::files("kernels/kernels.toml");
        files.sort_by_key(|(_, text)| text.len());
        let mut compiled = BTreeSet::new();
        let targets = |file: &File| -> Vec<String> {
            let own = file.targets.iter().map(String::as_str);
            let families = file.targets.iter().filter_map(|target| family(target));
            own.chain(families).chain(file.ptx.as_deref()).map(str::to_owned).collect()
        };
        let jobs =
            files.iter().flat_map(|file| targets(&file.0).into_iter().map(move |to| (file, to)));
        let jobs = jobs.filter(|(_, target)| compiled.insert(target.clone()));
        for (((file, text), target), compiler) in
            jobs.flat_map(|job| compilers.iter().map(move |compiler| (job.clone(), compiler)))
        {
            let name = &file.path;
            let source = Source { name, text, headers: &headers, target: &target };
            let by = compiler.named();
            let binary = match compiler.compile(&source) {
                Ok(binary) => binary,
                // Compilers before CUDA 13.4 do not know compute capability 10.7.
                Err(error)
                    if target == "sm_107a" && error.to_string().contains("gpu-architecture") =>
                {
                    continue;
                }
                Err(error) => panic!("{name} for {target} by {by}: {error}"),
            };
            let start: &[u8] = if target.starts_with("sm_") { b"\x7fELF" } else { b"//" };
            assert!(binary.starts_with(start), "{name} for {target} by {by}");
            for row in &file.kernels {
                let entry = row.entry.as_bytes();
                let there = binary.windows(entry.len()).any(|window| window == entry);
                assert!(there, "{name} for {target} by {by} has no {}", row.entry);
            }
        }
        assert!(compiled.len() > 5, "{compiled:?}");
    }

    /// The examples of docs/your-kernel.md, as `fizeau run --kernel` reads and compiles them.
    #[test]
    fn the_examples_for_users_compile_for_their_targets() {
        let compilers = match compiler::found(&compilers(13_000)) {
            Ok(compilers) => compilers,
            Err(error) => return skipped::because("nvrtc", error),
        };
        let headers = folder::headers();
        for name in ["gemm.cu", "decode.cu"] {
            let file = UserFile::read(&folder::path("examples/your-kernel").join(name));
            let file = file.expect("an example");
            let text = std::str::from_utf8(&file.bytes).expect("a text");
            let targets = file.section.targets.iter().chain(&file.section.ptx);
            for (target, compiler) in
                targets.flat_map(|to| compilers.iter().map(move |one| (to, one)))
            {
                let source = Source { name, text, headers: &headers, target };
                let image = compiler.compile(&source).unwrap_or_else(|error| {
                    panic!("{name} for {target} by {}: {error}", compiler.named());
                });
                let entry = file.section.kernels[0].entry.as_bytes();
                assert!(image.windows(entry.len()).any(|window| window == entry), "{name}");
            }
        }
    }
}
