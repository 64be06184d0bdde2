//! Signatures, made and checked by `ssh-keygen -Y`: keys in files, in agents and in hardware work
//! as they do for its users, and no key is ever read here.

use crate::cmd::output;
use anyhow::{Context as _, bail};
use fizeau_domain::text;
use std::{
    io::{ErrorKind, Read as _, Write as _},
    path::Path,
    process::{Command, Output, Stdio},
};

/// What a signature is for: one for another purpose is none for a bundle.
pub const NAMESPACE: &str = "fizeau";

const PROGRAM: &str = "ssh-keygen";

/// Bytes of a key's file that are looked at: none of the secret, which follows a line of its own.
const FIRST_BYTES: u64 = 11;

/// Exit code with which `ssh-keygen -Y` refuses; other codes say that it could not do what was
/// asked for.
const REFUSED: i32 = 255;

/// What became of a signature.
#[derive(Debug)]
pub enum Checked {
    /// It holds: what `ssh-keygen` says of the key.
    Good(String),
    /// It does not: why, in the words of `ssh-keygen`.
    Bad(String),
}

/// Whether the program that signs is there.
///
/// # Errors
/// Where it is not.
pub fn ready() -> anyhow::Result<()> {
    // Without arguments it would make a key; this is refused at once.
    let mut command = Command::new(PROGRAM);
    command.args(["-Y", "sign"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(drop).map_err(unavailable)
}

/// Refuses a file that can be no SSH key by how it begins, so that nobody measures for minutes and
/// is told at the end. Nothing behind its first bytes is read.
///
/// # Errors
/// In words, where it cannot be read, or is none.
pub fn looks_like_key(path: &Path) -> Result<(), String> {
    const BEGINNINGS: [&[u8]; 4] = [b"-----BEGIN ", b"ssh-", b"ecdsa-", b"sk-"];
    let mut first = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(FIRST_BYTES).read_to_end(&mut first));
    read.map_err(|error| error.to_string())?;
    match BEGINNINGS.iter().any(|beginning| first.starts_with(beginning)) {
        true => Ok(()),
        false => Err("it is no SSH key; `ssh-keygen -t ed25519 -f KEY` makes one".into()),
    }
}

fn unavailable(error: std::io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!(
            "{PROGRAM} is not installed, which makes and checks signatures: it comes with OpenSSH \
             8.1 or newer (package openssh-client)"
        ),
        _ => anyhow::Error::new(error).context(format!("cannot start {PROGRAM}")),
    }
}

/// A signature of some bytes. What the agent or the key's hardware asks of the user is asked on the
/// terminal.
///
/// # Errors
/// Where `ssh-keygen` is not there, or refuses.
pub fn sign(key: &Path, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut command = Command::new(PROGRAM);
    command.args(["-Y", "sign", "-q", "-n", NAMESPACE, "-f"]).arg(key);
    command.stderr(Stdio::inherit());
    let output = fed(command, bytes)?;
    let key = output::shown(key);
    if !output.status.success() {
        bail!(
            "{PROGRAM} did not sign with {key} (its own words are above): name a private key, or \
             the public half of one that ssh-agent has; -Y needs OpenSSH 8.1 or newer"
        );
    }
    if output.stdout.is_empty() {
        bail!("{PROGRAM} made no signature with {key}");
    }
    Ok(output.stdout)
}

/// Checks a signature of some bytes: that it is of one of the keys that `signer` has in the file of
/// allowed signers; without these two that it is of the key that it names.
///
/// # Errors
/// Where it could not be checked.
pub fn check(
    signature: &Path,
    bytes: &[u8],
    signer: Option<(&Path, &str)>,
) -> anyhow::Result<Checked> {
    let mut command = Command::new(PROGRAM);
    match signer {
        Some((allowed, id)) => {
            command.args(["-Y", "verify", "-I", id, "-f"]).arg(allowed);
        }
        None => {
            command.args(["-Y", "check-novalidate"]);
        }
    }
    command.args(["-n", NAMESPACE, "-s"]).arg(signature).stderr(Stdio::piped());
    let output = fed(command, bytes)?;
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    let lines: Vec<String> = said.lines().map(text::clean).filter(|one| !one.is_empty()).collect();
    let said = lines.join("; ");
    match output.status.code() {
        Some(0) => Ok(Checked::Good(said)),
        Some(REFUSED) => Ok(Checked::Bad(said)),
        code => {
            let code = code.map_or("a signal".into(), |code| format!("exit code {code}"));
            bail!("{PROGRAM} could not check the signature ({code}): {said}")
        }
    }
}

/// Runs it with bytes as its input.
fn fed(mut command: Command, bytes: &[u8]) -> anyhow::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().map_err(unavailable)?;
    if let Some(mut input) = process.stdin.take() {
        // A process that refuses its arguments reads nothing: its exit code tells.
        let _ = input.write_all(bytes);
    }
    process.wait_with_output().with_context(|| format!("waiting for {PROGRAM}"))
}
