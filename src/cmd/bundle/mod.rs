//! The bundle that an acceptance leaves: what is added to its directory, how names are replaced in
//! it, its manifest and its signature.

pub mod derived;
pub mod files;
pub mod rows;
pub mod ssh;

use super::{disk, exit::Usage, output};
use crate::data::Catalogue;
use anyhow::{Context as _, bail};
use clap::Args;
use fizeau_device::{clock, observe};
use fizeau_judge::{
    accept::{
        Level,
        at_rest::AtRest,
        between, dcgm,
        history::Event,
        network,
        node::{Device, Node},
        profile::Profile,
    },
    evidence::{
        account::{self, Account, Group, Program},
        file as names, follow,
        manifest::Manifest,
    },
};
use fizeau_record::{
    Decided, file,
    identity::Identity,
    redact::{Kind, Redactor},
    store,
};
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

/// The variable that holds the key of redaction.
const KEY: &str = "FIZEAU_REDACT_KEY";

/// Longest file of a key, in bytes.
const KEY_MAX: u64 = 1 << 16;

const OPTION: &str = "--out DIR";

/// Longest word of `--challenge`, in bytes.
const CHALLENGE_MAX: usize = 256;

/// A word of `--challenge`. An empty one, as of a variable of the shell that is not set, would bind
/// a bundle to nothing.
///
/// # Errors
/// In words, where it is none.
pub fn challenge(text: &str) -> Result<String, String> {
    let is_word = text.bytes().all(|byte| byte.is_ascii_graphic());
    match is_word && (1..=CHALLENGE_MAX).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err(format!("write a word of 1 to {CHALLENGE_MAX} letters, digits and signs")),
    }
}

/// Arguments that are about the bundle.
#[derive(Args, Clone, Debug)]
pub struct BundleArgs {
    /// Sign the bundle with this SSH key, or with the public half of a key that an agent or
    /// hardware holds, by `ssh-keygen -Y sign -n fizeau`
    #[arg(long, value_name = "KEY")]
    pub sign: Option<PathBuf>,
    /// A word that the operator chose for today. The bundle contains it, so an older bundle cannot
    /// be sent in its place (`verify` and `fleet survey` check it by --challenge)
    #[arg(long, value_name = "WORD", value_parser = challenge)]
    pub challenge: Option<String>,
    /// Replace names, serials or both (names,serials) in the bundle by keyed hashes
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub redact: Vec<Kind>,
    /// The file of the key for --redact [default: the key in FIZEAU_REDACT_KEY]
    #[arg(long, value_name = "FILE", requires = "redact")]
    pub redact_key: Option<PathBuf>,
}

impl BundleArgs {
    /// Makes ready for a bundle in `out`: what cannot work is said before anything is measured, and
    /// a manifest and rows of what the directory held before go.
    ///
    /// # Errors
    /// Where a key is missing, or there is to be no bundle.
    pub fn begin(&self, out: Option<&Path>) -> anyhow::Result<Bundle> {
        let redactor = self.redactor()?;
        let Some(out) = out else {
            let asked = [
                ("--sign", self.sign.is_some()),
                ("--challenge", self.challenge.is_some()),
                ("--redact", redactor.is_some()),
            ];
            return match asked.iter().find(|(_, is_asked)| *is_asked) {
                Some((option, _)) => {
                    let words =
                        format!("{option} is about a bundle, and none is kept: add {OPTION}");
                    Err(Usage(words).into())
                }
                None => Ok(Bundle { sign: None, challenge: None, redactor: None }),
            };
        };
        if let Some(key) = &self.sign {
            if let Err(why) = ssh::looks_like_key(key) {
                return Err(Usage(format!("--sign {}: {why}", output::shown(key))).into());
            }
            ssh::ready()?;
        }
        for name in [names::SIGNATURE, names::MANIFEST, names::ROWS] {
            match fs::remove_file(out.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| output::shown(&out.join(name)));
                }
                _ => {}
            }
        }
        Ok(Bundle { sign: self.sign.clone(), challenge: self.challenge.clone(), redactor })
    }

    fn redactor(&self) -> anyhow::Result<Option<Redactor>> {
        if self.redact.is_empty() {
            return Ok(None);
        }
        let key = match (&self.redact_key, env::var_os(KEY)) {
            (Some(path), _) => {
                let key = file::read(path, KEY_MAX);
                key.map_err(|error| {
                    Usage(format!("--redact-key {}: {error}", output::shown(path)))
                })?
            }
            (None, Some(key)) => key.into_encoded_bytes(),
            (None, None) => {
                let words = format!(
                    "--redact needs a key, so that nobody without it can try names: --redact-key \
                     FILE, or the key in {KEY}; `openssl rand -hex 32 > FILE` makes one"
                );
                return Err(Usage(words).into());
            }
        };
        Ok(Some(Redactor::new(&key, &self.redact).map_err(Usage)?))
    }
}

/// What a group of devices was told, for the account.
pub struct Told {
    profile: Profile,
    devices: Vec<Device>,
    events: Vec<Event>,
}

impl Told {
    /// Of a node that was judged.
    pub fn of(profile: &Profile, node: &Node<'_>) -> Told {
        let (devices, events) = (node.devices().to_vec(), node.history().to_vec());
        Told { profile: profile.clone(), devices, events }
    }
}

/// What goes into a bundle besides what an acceptance has written.
pub struct Contents<'c> {
    /// Built-in profiles.
    pub catalogue: &'c Catalogue,
    /// The directory.
    pub out: &'c Path,
    /// Where the kernel's files are.
    pub root: &'c Path,
    /// Whether the host's name may be in it.
    pub names_host: bool,
    /// Start, RFC 3339 in UTC.
    pub started: &'c str,
    /// How much was checked.
    pub level: Level,
    /// What the checks of the state were made of.
    pub at_rest: AtRest,
    /// What each group was told.
    pub told: Vec<Told>,
    /// How much of each record was decided on.
    pub decided: Vec<Decided>,
    /// What the decision on the network was told, where anything was measured of it.
    pub network: Option<network::Told>,
    /// What the check between nodes was told, where there are several.
    pub between: Option<between::Told>,
    /// What DCGM's diagnostic told, where one was given.
    pub dcgm: Option<dcgm::Told>,
}

/// A bundle to be closed.
pub struct Bundle {
    sign: Option<PathBuf>,
    challenge: Option<String>,
    redactor: Option<Redactor>,
}

impl Bundle {
    /// Closes it: adds identity, account and profiles, replaces what is to be redacted, adds the
    /// rows that its records come to, and writes the manifest and its signature.
    ///
    /// # Errors
    /// Where a file cannot be written, something could not be replaced, or `ssh-keygen` refuses.
    pub fn close(self, contents: Contents<'_>) -> anyhow::Result<()> {
        let Contents { catalogue, out, root, names_host, .. } = contents;
        let mut identity = observe::identity(root);
        let host = identity.host.clone();
        if !names_host {
            identity.host = None;
        }
        let profiles = profiles(out, &contents.told)?;
        let aside = aside(out, &contents.decided)?;
        let mut hosts = contents.between.as_ref().map(between::Told::hosts).unwrap_or_default();
        hosts.extend(host);
        write_json(out, names::ACCOUNT, &self.account(contents, profiles, aside)?)?;
        match self.redactor {
            Some(mut redactor) => {
                learn(&mut redactor, out, &identity, hosts)?;
                write_json(out, names::IDENTITY, &identity.redacted(&redactor))?;
                redact(out, &redactor)?;
            }
            None => write_json(out, names::IDENTITY, &identity)?,
        }
        if let Some(rows) = rows::rows_file(out, catalogue)? {
            disk::write_file(&out.join(names::ROWS), rows.as_bytes(), OPTION)?;
        }
        seal(out, self.sign.as_deref())
    }

    fn account(
        &self,
        contents: Contents<'_>,
        profiles: Vec<String>,
        aside: Vec<Decided>,
    ) -> anyhow::Result<Account> {
        let program = env::current_exe().context("cannot find this program's own file")?;
        let kinds = self.redactor.as_ref().map(|one| one.kinds().to_vec()).unwrap_or_default();
        let words = env::args_os().map(|word| word.to_string_lossy().into_owned());
        let command = match kinds.contains(&Kind::Names) {
            true => words.map(|word| without_folders(&word)).collect(),
            false => words.collect(),
        };
        let groups = profiles.into_iter().zip(contents.told).map(|(profile, told)| {
            let Told { devices, events, .. } = told;
            Group { profile, devices, events }
        });
        Ok(Account {
            format: account::FORMAT,
            command,
            program: Program {
                version: env!("CARGO_PKG_VERSION").into(),
                build: env!("FIZEAU_BUILD").into(),
                sha256: files::hash(&program)?.0,
            },
            started: contents.started.into(),
            closed: clock::utc_now(),
            level: contents.level,
            at_rest: contents.at_rest,
            groups: groups.collect(),
            network: contents.network,
            between: contents.between,
            records: [contents.decided, aside].concat(),
            dcgm: contents.dcgm,
            challenge: self.challenge.clone(),
            redacted: kinds,
        })
    }
}

/// Writes the manifest of all files of a directory, and signs it.
fn seal(out: &Path, key: Option<&Path>) -> anyhow::Result<()> {
    let files = files::list(out)?;
    if let Some(strange) = files.iter().find(|listed| listed.strange.is_some()) {
        let why = strange.strange.as_deref().unwrap_or_default();
        bail!("{} cannot be a part of the bundle: {why}", output::shown(&strange.at));
    }
    let manifest = Manifest::of(files::entries(&files)?).text();
    disk::write_file(&out.join(names::MANIFEST), manifest.as_bytes(), OPTION)?;
    let Some(key) = key else { return Ok(()) };
    let signature = ssh::sign(key, manifest.as_bytes()).with_context(|| {
        format!("the bundle in {} is complete and not signed", output::shown(out))
    })?;
    disk::write_file(&out.join(names::SIGNATURE), &signature, OPTION)
}

fn write_json(out: &Path, name: &str, value: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = fizeau_domain::text::escaped(serde_json::to_string_pretty(value)?);
    disk::write_file(&out.join(name), text.as_bytes(), OPTION)
}

/// The records that nothing was decided on: of a device that was lost meanwhile, say.
fn aside(out: &Path, decided: &[Decided]) -> anyhow::Result<Vec<Decided>> {
    let mut aside = Vec::new();
    for listed in files::list(out)?.iter().filter(|listed| files::is_record(&listed.path)) {
        // One that cannot be read says nothing.
        let Ok((_, one)) = store::read_to_decide(&listed.at) else { continue };
        if !decided.iter().any(|other| other.run == one.run) {
            aside.push(one);
        }
    }
    Ok(aside)
}

/// Writes each profile, and says where. Those that an acceptance before this one has left go.
fn profiles(out: &Path, told: &[Told]) -> anyhow::Result<Vec<String>> {
    for listed in files::list(out)?.iter().filter(|listed| files::is_profile(&listed.path)) {
        fs::remove_file(&listed.at).with_context(|| output::shown(&listed.at))?;
    }
    let mut written = Vec::new();
    for (at, told) in told.iter().enumerate() {
        disk::make_directory(&out.join(names::PROFILES), OPTION)?;
        let name = format!("{}/{at}.toml", names::PROFILES);
        let text = told.profile.text().map_err(anyhow::Error::msg)?;
        disk::write_file(&out.join(&name), text.as_bytes(), OPTION)?;
        written.push(name);
    }
    Ok(written)
}

/// A word of a command line with each path's last part alone: in folders are users' names.
fn without_folders(word: &str) -> String {
    let (option, path) = match word.split_once('=') {
        Some((option, path)) if option.starts_with("--") => (format!("{option}="), path),
        _ => (String::new(), word),
    };
    let name = Path::new(path).file_name().filter(|_| path.contains('/'));
    option + &name.map_or(path.into(), |name| name.to_string_lossy())
}

/// Tells a redactor all names and numbers of this node.
fn learn(
    redactor: &mut Redactor,
    out: &Path,
    identity: &Identity,
    mut hosts: BTreeSet<String>,
) -> anyhow::Result<()> {
    hosts.extend(identity.host.clone());
    hosts.extend(fizeau_device::host::environment().host);
    for listed in files::list(out)? {
        if listed.path.rsplit('/').next() != Some(store::FILE) {
            continue;
        }
        // One that cannot be read is swept for what is known by then.
        let Ok(record) = store::read(&listed.at) else { continue };
        hosts.extend(record.header.environment.host);
        // `rank 3: node7, cuda:3 (NVIDIA H200)`
        let ranks = record.header.environment.ranks.iter();
        let named = ranks.filter_map(|line| line.split_once(": ")?.1.split_once(", "));
        hosts.extend(named.map(|(host, _)| host.to_owned()));
    }
    hosts.iter().for_each(|host| redactor.learn(Kind::Names, host));
    if let Some(home) = env::var_os("HOME").filter(|home| home.len() > 1) {
        redactor.learn(Kind::Names, &home.to_string_lossy());
    }
    identity.serials().iter().for_each(|serial| redactor.learn(Kind::Serials, serial));
    for name in redactor.common() {
        output::say(&format!(
            "the name {name:?} is too common a word to be replaced everywhere: it is replaced \
             where it names a host, and may stand in the words of messages"
        ));
    }
    Ok(())
}

/// Replaces what a redactor looks for in all files of a directory, and makes sure that nothing of
/// it is left and that the verdict still follows from the records.
fn redact(out: &Path, redactor: &Redactor) -> anyhow::Result<()> {
    let sweep = redactor.sweep().map_err(anyhow::Error::msg)?;
    for listed in files::list(out)? {
        let place = || output::shown(&listed.at);
        if sweep.is_left(listed.path.as_bytes()) {
            bail!("the name of {} holds what is to be redacted", place());
        }
        let bytes = file::read(&listed.at, store::RECORD_MAX).with_context(place)?;
        if let Some(clean) = sweep.replaced(&bytes) {
            if sweep.is_left(&clean) {
                bail!("{} still holds what is to be redacted: use another key", place());
            }
            disk::write_file(&listed.at, &clean, OPTION)?;
        }
    }
    let made = files::Made::read(out, &files::list(out)?);
    let verdict = files::json(out, names::VERDICT);
    let follows = made
        .and_then(|made| follow::follow(&made.sources(), &verdict?).map_err(anyhow::Error::msg));
    follows.map(drop).context(
        "what is to be redacted is a word of the records, which do not hold without it; the bundle \
         is not closed",
    )
}
