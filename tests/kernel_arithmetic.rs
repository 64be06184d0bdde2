//! GPU kernels run on the CPU: the same text, with a model of what their instructions do, against
//! plain computations of the same. See `tests/kernel_model/`.
//!
//! It needs a C++ compiler and says so where there is none.

use std::{
    path::Path,
    process::{Command, Output},
};

/// The model, compiled; `None`, having said so, where no compiler is.
fn model(folder: &Path) -> Option<Command> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let program = folder.join("model");
    let made = Command::new(&compiler)
        .args(["-std=c++17", "-O1", "-Wall", "-Werror", "-Wno-unknown-pragmas"])
        .args(["-Itests/kernel_model", "-Ikernels/include", "tests/kernel_model/main.cpp", "-o"])
        .arg(&program)
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

#[test]
fn kernels_compute_what_they_say() {
    let folder = tempfile::tempdir().expect("a directory");
    let Some(mut program) = model(folder.path()) else { return };
    let right = program.output().expect("the model runs");
    assert!(right.status.success(), "{}", text(&right));
    assert!(text(&right).contains("checks passed"));
    // A model whose fragments are laid otherwise must not pass: the kernel's layout is tested.
    let wrong = program.arg("--planted").output().expect("the model runs");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong).contains("fault: gemm/bf16/sm80_mma"), "{}", text(&wrong));
}
