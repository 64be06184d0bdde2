//! `fizeau`: see the crate's documentation.

use fizeau::cmd;
use fizeau_device::library;
use std::process::ExitCode;

fn main() -> ExitCode {
    let code = cmd::main();
    match (0..=u8::MAX).find(|&number| ExitCode::from(number) == code) {
        Some(number) => library::leave(number),
        None => code,
    }
}
