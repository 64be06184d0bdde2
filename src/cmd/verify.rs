//! `fizeau verify`: whether a bundle is as it was closed, who signed it, and whether its verdict
//! follows from its records.

use super::{
    bundle::{
        derived,
        files::{self, Listed, Made, Missing},
        rows,
        ssh::{self, Checked},
    },
    exit,
    global::Global,
    output, plan,
};
use crate::data::Catalogue;
use anyhow::Context as _;
use clap::Args;
use fizeau_device::clock;
use fizeau_domain::{
    text::{clean, counted},
    verdict::Verdict,
};
use fizeau_judge::{
    accept::{Report, node::Sample},
    evidence::{
        account::{Account, Program},
        file as names,
        follow::{self, Again},
        manifest::{self, Manifest},
        whose,
    },
    fleet::row,
};
use fizeau_record::{file, identity::Identity};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    process::ExitCode,
};

const AFTER_HELP: &str = "\
Exit codes:
    0  every file is as the signer left it, and the verdict follows from the records
    1  something was changed, added or taken away, or the signature is not the signer's: the first
       such thing is named
    2  the command line is wrong
    3  it could not be checked: ssh-keygen is missing, or a file cannot be read
    4  nothing was changed as far as can be seen, and nobody vouches for it: not signed, or no
       --allowed-signers to say whose key it is";

/// Arguments of `verify`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct VerifyArgs {
    /// The directory of an acceptance
    #[arg(value_name = "BUNDLE")]
    pub bundle: PathBuf,
    /// The file of signers and their keys that `ssh-keygen -Y verify` reads (ssh-keygen(1), ALLOWED
    /// SIGNERS)
    #[arg(long, value_name = "FILE", requires = "signer")]
    pub allowed_signers: Option<PathBuf>,
    /// The expected signer, by the name in the file of allowed signers
    #[arg(long, value_name = "ID", requires = "allowed_signers")]
    pub signer: Option<String>,
    /// The expected node, by the name in the verdict
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// The word that `accept --challenge` was given
    #[arg(long, value_name = "WORD", value_parser = super::bundle::challenge)]
    pub challenge: Option<String>,
    /// The earliest date: a bundle of an earlier day is refused
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = row::parse_date)]
    pub since: Option<String>,
}

/// What was found.
#[derive(Debug, Default, Serialize)]
struct Found {
    /// Pass: as the signer left it. Fail: something was changed. Inconclusive: nobody vouches.
    verdict: Option<Verdict>,
    /// The first thing that was changed, added or taken away.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    /// What could not be decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unclear: Vec<String>,
    /// What holds.
    holds: Vec<String>,
    /// Whether a stub driver stood in for a device.
    stub: bool,
}

/// Why a check went no further.
enum Stop {
    /// Something was changed.
    Fault(String),
    /// It could not be checked.
    Error(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Stop {
        match error.downcast::<Missing>() {
            Ok(missing) => Stop::Fault(missing.to_string()),
            Err(error) => Stop::Error(error),
        }
    }
}

/// Checks a bundle.
///
/// # Errors
/// Where it cannot be checked.
pub fn run(args: &VerifyArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let (found, verdict) = looked(args, &|| plan::catalogue(global))?;
    if global.json {
        output::print_json(&found)?;
    } else {
        output::write_out(&told(&found))?;
    }
    Ok(ExitCode::from(match verdict {
        Verdict::Fail => exit::FAILED,
        other => other.exit_code(),
    }))
}

/// What it would print of a bundle without signers, and the verdict.
///
/// # Errors
/// Where it cannot be checked.
pub fn said_of(bundle: &Path, data: Data<'_>) -> anyhow::Result<(String, Verdict)> {
    let args = VerifyArgs {
        bundle: bundle.to_owned(),
        allowed_signers: None,
        signer: None,
        node: None,
        challenge: None,
        since: None,
    };
    let (found, verdict) = looked(&args, data)?;
    Ok((told(&found), verdict))
}

/// What loads the catalogue, which few checks need.
type Data<'d> = &'d dyn Fn() -> anyhow::Result<Catalogue>;

fn looked(args: &VerifyArgs, data: Data<'_>) -> anyhow::Result<(Found, Verdict)> {
    let mut found = Found::default();
    match look(args, data, &mut found) {
        Ok(()) => {}
        Err(Stop::Fault(fault)) => found.fault = Some(fault),
        Err(Stop::Error(error)) => return Err(error),
    }
    let verdict = match (&found.fault, found.unclear.is_empty()) {
        (Some(_), _) => Verdict::Fail,
        (None, true) => Verdict::Pass,
        (None, false) => Verdict::Inconclusive,
    };
    found.verdict = Some(verdict);
    Ok((found, verdict))
}

/// For people: the fault first, or what holds.
fn told(found: &Found) -> String {
    let mark = if found.stub { " (stub)" } else { "" };
    let faults = found.fault.iter().map(|words| format!("FAIL  {words}"));
    let unclear = found.unclear.iter().map(|words| format!("?     {words}"));
    let holds = found.holds.iter().map(|words| format!("ok    {words}"));
    faults.chain(unclear).chain(holds).map(|line| format!("{}{mark}\n", clean(&line))).collect()
}

fn look(args: &VerifyArgs, data: Data<'_>, found: &mut Found) -> Result<(), Stop> {
    let listed = files::list(&args.bundle)?;
    if listed.is_empty() {
        let words = "it is no bundle, since there is no file in it: name the directory that \
                     `fizeau accept --out DIR` made";
        return Err(anyhow::anyhow!("{}: {words}", output::shown(&args.bundle)).into());
    }
    plain(&listed)?;
    // From here on nobody else can change what is read.
    let copy = files::Copy::of(&listed)?;
    let (bundle, files) = (copy.root(), files::list(copy.root())?);
    let bytes = match file::read(&bundle.join(names::MANIFEST), files::FILE_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Stop::Fault(format!(
                "missing: {}: it was taken away, or the acceptance never ended",
                names::MANIFEST
            )));
        }
        Err(error) => return Err(anyhow::Error::new(error).context(names::MANIFEST).into()),
    };
    let fault = |why: String| Stop::Fault(format!("changed: {}: {why}", names::MANIFEST));
    let manifest = Manifest::parse(&bytes).map_err(fault)?;
    signature(args, bundle, &bytes, found)?;
    unchanged(&manifest, &files)?;
    let count = manifest.files.len();
    let are = if count == 1 { "is" } else { "are" };
    found.holds.push(format!("{} {are} as the manifest has them", counted(count, "file")));
    for stray in files.iter().filter(|one| files::role(&one.path) == files::Role::Stray) {
        let words = "it is no evidence, and no document that this program makes of evidence";
        found.unclear.push(format!("{}: {words}", stray.path));
    }
    let made = decided(bundle, &files, found)?;
    whose(args, bundle, &made, found)?;
    documents(bundle, &files, &made, found)?;
    if made.has_added {
        found
            .unclear
            .push(format!("{}: not made again beside records that were added", names::ROWS));
        return Ok(());
    }
    rows(bundle, &files, data, found)
}

/// Checks the signature, if there is one.
fn signature(
    args: &VerifyArgs,
    bundle: &Path,
    manifest: &[u8],
    found: &mut Found,
) -> Result<(), Stop> {
    let path = bundle.join(names::SIGNATURE);
    let signer = args.allowed_signers.as_deref().zip(args.signer.as_deref());
    if let Some((allowed, _)) = signer {
        // ssh-keygen says of a file that it cannot read what it says of a bad signature.
        file::read(allowed, files::FILE_MAX).with_context(|| output::shown(allowed))?;
    }
    let text = match file::read(&path, files::FILE_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if let Some((_, id)) = signer {
                let name = names::SIGNATURE;
                return Err(Stop::Fault(format!("missing: {name}: {id} has not signed it")));
            }
            found.unclear.push(format!(
                "it is not signed: `ssh-keygen -Y sign -n {} -f KEY {}` signs it",
                ssh::NAMESPACE,
                names::MANIFEST
            ));
            return Ok(());
        }
        Err(error) => return Err(anyhow::Error::new(error).context(names::SIGNATURE).into()),
    };
    let fault = |why: String| Stop::Fault(format!("changed: {}: {why}", names::SIGNATURE));
    if !manifest::is_signature(&text) {
        return Err(fault("it is not as ssh-keygen writes signatures".into()));
    }
    let said = match ssh::check(&path, manifest, None)? {
        Checked::Good(said) => said,
        Checked::Bad(said) => {
            let name = names::MANIFEST;
            return Err(fault(format!("it does not fit {name}, or {name} was changed ({said})")));
        }
    };
    let Some((allowed, id)) = signer else {
        found.unclear.push(format!(
            "whose key signed it was not checked: add --allowed-signers FILE --signer ID ({said})"
        ));
        return Ok(());
    };
    match ssh::check(&path, manifest, Some((allowed, id)))? {
        Checked::Good(said) => {
            found.holds.push(said);
            Ok(())
        }
        Checked::Bad(_) => Err(Stop::Fault(format!(
            "another signer: {} is not by a key that {} has for {id} ({said})",
            names::SIGNATURE,
            output::shown(allowed)
        ))),
    }
}

/// Refuses what can be no file of a bundle.
fn plain(files: &[Listed]) -> Result<(), Stop> {
    let Some(listed) = files.iter().find(|listed| listed.strange.is_some()) else { return Ok(()) };
    let why = listed.strange.as_deref().unwrap_or_default();
    Err(Stop::Fault(format!("added or changed: {}: {why}", listed.path)))
}

/// Whose acceptance it is and of when: whether identity and records name one machine, and the node
/// and the date that were asked for.
fn whose(args: &VerifyArgs, bundle: &Path, made: &Made, found: &mut Found) -> Result<(), Stop> {
    let identity: Identity = files::json(bundle, names::IDENTITY)?;
    let verdict: Value = files::json(bundle, names::VERDICT)?;
    let node = verdict["node"].as_str();
    let account = made.account();
    let told = whose::Told { node, states: made.states(), records: made.records().collect() };
    let unclear = whose::compare(&identity, &told)
        .map_err(|why| Stop::Fault(format!("{} does not follow: {why}", names::IDENTITY)))?;
    found.unclear.extend(unclear);
    for (key, own) in [
        ("started", Value::from(account.started.as_str())),
        ("fizeau", Value::from(account.program.version.as_str())),
        ("level", serde_json::to_value(account.level).context(names::ACCOUNT)?),
    ] {
        let is = &verdict[key];
        if *is != own {
            let (verdict, name) = (names::VERDICT, names::ACCOUNT);
            let words =
                format!("{verdict} does not follow: its {key} is {is}, and {name} has {own}");
            return Err(Stop::Fault(words));
        }
    }
    let (from, to) = (&account.started, &account.closed);
    let named = node.or(identity.host.as_deref());
    let shown = named.unwrap_or("a node that is not named");
    found.holds.push(format!("it is of {shown}, from {from} to {to}"));
    if let Some(asked) = args.node.as_deref().filter(|asked| Some(*asked) != named) {
        return Err(Stop::Fault(format!("another node: it is of {shown}, and not of {asked}")));
    }
    if args.challenge.is_some() && args.challenge != account.challenge {
        let words = "another acceptance: it was not given the word of --challenge";
        return Err(Stop::Fault(words.into()));
    }
    if let Some(since) = args.since.as_deref().filter(|since| from.as_str() < *since) {
        return Err(Stop::Fault(format!("too old: it is of {from}, before {since}")));
    }
    if from.max(to).as_str() > clock::utc_tomorrow().as_str() {
        found.unclear.push(format!("it is dated {}, which is yet to come", from.max(to)));
    }
    Ok(())
}

/// Makes the documents for people, Jenkins and Prometheus again.
fn documents(bundle: &Path, files: &[Listed], made: &Made, found: &mut Found) -> Result<(), Stop> {
    let fault = |name: &str, why: &str| Stop::Fault(format!("{name} does not follow: {why}"));
    let account = made.account();
    // Names that were replaced may stand where lines were broken by their lengths.
    let is_sure = is_own(account) && account.redacted.is_empty();
    let report: Report = match files::json(bundle, names::VERDICT) {
        Ok(report) => report,
        Err(error) if is_sure => return Err(fault(names::VERDICT, &format!("{error:#}"))),
        Err(error) => {
            found.unclear.push(format!("{} is of another fizeau: {error:#}", names::VERDICT));
            return Ok(());
        }
    };
    let samples = follow::samples(&made.sources()).map_err(|why| fault(names::ACCOUNT, &why))?;
    let series: Vec<&Sample> = samples.iter().collect();
    let again = derived::documents(&report, &series)?;
    let is_there = |name: &str| files.iter().any(|listed| listed.path == name);
    let missing = again.iter().filter(|(name, _)| is_sure && !is_there(name));
    found.unclear.extend(missing.map(|(name, _)| missing_words(name)));
    let kept = files.iter().filter(|listed| derived::NAMES.contains(&listed.path.as_str()));
    let mut same = Vec::new();
    for listed in kept {
        let name = listed.path.as_str();
        let bytes = file::read(&listed.at, files::FILE_MAX).with_context(|| name.to_owned())?;
        match again.iter().find(|(of, _)| *of == name) {
            Some((_, text)) if text.as_bytes() == bytes => same.push(name),
            _ if is_sure => {
                let why = format!("this fizeau makes another one of {}", names::VERDICT);
                return Err(fault(name, &why));
            }
            _ => found.unclear.push(format!(
                "{name}: made again of {} it is another one: by another fizeau, or after names \
                 were replaced",
                names::VERDICT
            )),
        }
    }
    if !same.is_empty() {
        found.holds.push(format!("made again and the same: {}", same.join(", ")));
    }
    Ok(())
}

/// What is said of a file that every acceptance leaves and this bundle does not have.
fn missing_words(name: &str) -> String {
    format!("it has no {name}, which an acceptance leaves: it was taken away")
}

/// Sets the files beside the manifest.
fn unchanged(manifest: &Manifest, files: &[Listed]) -> Result<(), Stop> {
    match manifest.difference(&files::entries(files)?) {
        Some(difference) => Err(Stop::Fault(difference.to_string())),
        None => Ok(()),
    }
}

/// Decides again from the records.
fn decided(bundle: &Path, files: &[Listed], found: &mut Found) -> Result<Made, Stop> {
    let own: Value = files::json(bundle, names::ACCOUNT)?;
    if Program::deserialize(&own["program"]).is_ok_and(|program| is_of_this(&program))
        && let Some(words) = files::not_as_written(files)?
    {
        return Err(Stop::Fault(format!("changed: {words}")));
    }
    let verdict: Value = files::json(bundle, names::VERDICT)?;
    found.stub = verdict["stub"] == true;
    let made = Made::read(bundle, files)?;
    if let Some(words) = &made.changed {
        return Err(Stop::Fault(words.clone()));
    }
    found.unclear.extend(made.unused.iter().cloned());
    if let Some(first) = made.aside.first() {
        found.unclear.push(format!(
            "{} of which the account says that they were decided on, and of which it tells no \
             decision, such as {first}: a repeat may have been left out",
            counted(made.aside.len(), "record")
        ));
    }
    if let Some(run) = made.without_hash().filter(|_| is_own(made.account())) {
        let name = names::ACCOUNT;
        found.unclear.push(format!("{name} has no hash of the record of run {run}, which counts"));
    }
    let program = &made.account().program;
    let word = verdict["verdict"].as_str().unwrap_or_default().to_owned();
    match follow::follow(&made.sources(), &verdict) {
        Ok(Again { same, others }) => {
            let rest = match others {
                0 => String::new(),
                count => format!("; of {count} more the bundle has no records"),
            };
            found.holds.push(format!(
                "the verdict ({word}) follows from the records: {} decided again, all with the \
                 same result{rest}",
                counted(same, "check")
            ));
        }
        Err(why) if is_own(made.account()) => {
            let name = names::VERDICT;
            return Err(Stop::Fault(format!("{name} does not follow from the records: {why}")));
        }
        Err(why) => {
            found.unclear.push(format!(
                "the verdict ({word}) is of fizeau {} ({}), whose rules may differ from those of \
                 this one, which decides otherwise: {why}",
                program.version, program.build
            ));
        }
    }
    Ok(made)
}

/// Makes its rows again from the records, where it keeps some.
fn rows(bundle: &Path, files: &[Listed], data: Data<'_>, found: &mut Found) -> Result<(), Stop> {
    let name = names::ROWS;
    let account: Account = files::json(bundle, names::ACCOUNT)?;
    let made = rows::rows_file(bundle, &data()?)?;
    let Some(listed) = files.iter().find(|listed| listed.path == name) else {
        if made.is_some() && is_own(&account) && account.redacted.is_empty() {
            found.unclear.push(missing_words(name));
        }
        return Ok(());
    };
    let kept = file::read(&listed.at, files::FILE_MAX).context(name)?;
    if made.is_some_and(|made| made.as_bytes() == kept) {
        found.holds.push(format!("{name} follows from the records"));
        return Ok(());
    }
    if is_own(&account) {
        return Err(Stop::Fault(format!("{name} does not follow from the records")));
    }
    let Program { version, build, .. } = account.program;
    found.unclear.push(format!(
        "{name} is of fizeau {version} ({build}), and this one makes other rows of the records: \
         `fizeau fleet survey --from-records` takes those"
    ));
    Ok(())
}

/// Whether this very program closed the bundle.
fn is_own(account: &Account) -> bool {
    is_of_this(&account.program)
}

fn is_of_this(Program { version, build, .. }: &Program) -> bool {
    [version.as_str(), build.as_str()] == [env!("CARGO_PKG_VERSION"), env!("FIZEAU_BUILD")]
}
