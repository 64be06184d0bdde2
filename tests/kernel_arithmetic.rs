//! GPU kernels run on the CPU: the same text, with a model of what their instructions do, against
//! plain computations of the same. See `tests/kernel_model/`.
//!
//! It needs a C++ compiler and says so where there is none.

use std::{
    path::Path,
    process::{Command, Output},
};

/// A file of the model, compiled for so many lanes in step; `None`, having said so, where no
/// compiler is.
fn model(folder: &Path, source: &str, lanes: u32) -> Option<Command> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let program = folder.join("model");
    let made = Command::new(&compiler)
        .args(["-std=c++17", "-O1", "-Wall", "-Werror", "-Wno-unknown-pragmas"])
        .args(["-Itests/kernel_model", "-Ikernels/include"])
        .arg(format!("-DMODEL_LANES={lanes}"))
        .arg("-o")
        .arg(&program)
        .arg(Path::new("tests/kernel_model").join(source))
        .output();
    match made {
        Err(error) => {
            eprintln!("skipped: no C++ compiler ({compiler}: {error})");
            None
        }
        Ok(made) => {
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            Some(Command::new(program))
        }
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a model as it is, and with fragments laid otherwise: that must not pass, so that the
/// kernels' layout is tested.
#[track_caller]
fn check(source: &str, lanes: u32, planted: &str) {
    let folder = tempfile::tempdir().expect("a directory");
    let Some(mut program) = model(folder.path(), source, lanes) else { return };
    let right = program.output().expect("the model runs");
    assert!(right.status.success(), "{}", text(&right));
    assert!(text(&right).contains("checks passed"));
    let wrong = program.arg("--planted").output().expect("the model runs");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong).contains(planted), "{}", text(&wrong));
}

#[test]
fn kernels_compute_what_they_say() {
    check("main.cpp", 32, "fault: gemm/bf16/sm80_mma");
}

#[test]
fn attention_is_what_it_is_defined_as() {
    check("attention.cpp", 32, "fault: attention/prefill/bf16/sm80");
}

#[test]
fn matrix_kernels_of_amd_compute_what_they_say() {
    check("amd.cpp", 64, "fault: gemm/bf16/cdna2_mfma");
    check("amd.cpp", 32, "fault: gemm/bf16/rdna3_wmma");
}
