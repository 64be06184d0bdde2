//! `fizeau`: see the crate's documentation.

fn main() -> std::process::ExitCode {
    fizeau::cmd::main()
}
