//! The files of a bundle on disk.

use super::derived;
use crate::cmd::{child::MESSAGES, output, scratch::Scratch};
use anyhow::{Context as _, bail};
use fizeau_domain::{
    node_state::NodeState,
    text::{counted, hex},
};
use fizeau_judge::{
    accept::{Report, history::Event, profile::Profile},
    evidence::{
        account::Account,
        file as names,
        follow::Sources,
        keys,
        manifest::{Entry, is_of_the_manifest},
    },
};
use fizeau_record::{Record, file, identity::Identity, store};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

/// Most files of a bundle: more are no bundle but a mistaken directory.
pub const FILES_MAX: usize = 100_000;

/// Longest file of a bundle that is read whole, but for records.
pub const FILE_MAX: u64 = 256 << 20;

/// Longest file of a bundle: that of a record. A file with a hole in it takes no room and may have
/// any length.
const BYTES_MAX: u64 = store::RECORD_MAX;

/// Why a file can be none of a bundle.
const TOO_LONG: &str = "it is longer than any file of a bundle";

/// A file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Below the bundle's directory, parts separated by `/`.
    pub path: String,
    /// Where it is.
    pub at: PathBuf,
    /// Why it can be no part of a bundle: a link, a device, a name that is no text.
    pub strange: Option<String>,
}

/// All files below a directory, sorted by their paths.
///
/// # Errors
/// Where a directory cannot be read, or there are too many files.
pub fn list(directory: &Path) -> anyhow::Result<Vec<Listed>> {
    let mut all = Vec::new();
    let mut left = vec![(String::new(), directory.to_owned())];
    while let Some((prefix, folder)) = left.pop() {
        let place = output::shown(&folder);
        for entry in fs::read_dir(&folder).with_context(|| place.clone())? {
            let entry = entry.with_context(|| place.clone())?;
            let (at, name) = (entry.path(), entry.file_name());
            let path = format!("{prefix}{}", name.to_string_lossy());
            let kind = entry.file_type().with_context(|| output::shown(&at))?;
            if kind.is_dir() && name.to_str().is_some() {
                left.push((format!("{path}/"), at));
                continue;
            }
            let strange = match () {
                () if name.to_str().is_none() => Some("its name is not UTF-8".to_owned()),
                () if !kind.is_file() => Some("it is a link or no plain file".to_owned()),
                () if entry.metadata().is_ok_and(|file| file.len() > BYTES_MAX) => {
                    Some(TOO_LONG.to_owned())
                }
                () => None,
            };
            all.push(Listed { path, at, strange });
        }
        if all.len() + left.len() > FILES_MAX {
            let place = output::shown(directory);
            bail!("{place} holds more than {FILES_MAX} files, and is no bundle");
        }
    }
    all.sort();
    Ok(all)
}

/// What a file of a bundle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What was observed, measured and done, and what it was judged by.
    Evidence,
    /// What is made of the evidence, and can be made again.
    Derived,
    /// Neither: nobody vouches for what it says.
    Stray,
}

/// What a file is, by its path in the bundle.
pub fn role(path: &str) -> Role {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        [names::VERDICT | names::ROWS] => Role::Derived,
        [name] if derived::NAMES.contains(&name) => Role::Derived,
        [names::MANIFEST | names::SIGNATURE | names::IDENTITY | names::ACCOUNT] => Role::Evidence,
        [names::STATE | names::STATE_AFTER] | [names::PROFILES, _] => Role::Evidence,
        [names::EARLIER, number, names::STATE | names::STATE_AFTER | names::VERDICT]
            if number.parse::<u32>().is_ok() =>
        {
            Role::Evidence
        }
        [names::ROUNDS, _, store::FILE | MESSAGES] | [names::LOCALISE, names::EXCHANGES] => {
            Role::Evidence
        }
        _ => Role::Stray,
    }
}

/// Whether a file of a bundle is the record of a repeat.
pub fn is_record(path: &str) -> bool {
    matches!(path.split('/').collect::<Vec<_>>()[..], [names::ROUNDS, _, store::FILE])
}

/// Whether a file of a bundle is a profile as an acceptance names them, by a number.
pub fn is_profile(path: &str) -> bool {
    let number = path.strip_prefix(names::PROFILES).and_then(|rest| rest.strip_prefix('/'));
    let number = number.and_then(|rest| rest.strip_suffix(".toml"));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// A copy of the plain files of a bundle that this user alone can reach: what is checked is then
/// what is read, whoever may write to the bundle meanwhile. It goes away with this.
pub struct Copy {
    scratch: Scratch,
}

impl Copy {
    /// Copies the files that were listed.
    ///
    /// # Errors
    /// Where one cannot be read or written, or there is no room for them.
    pub fn of(files: &[Listed]) -> anyhow::Result<Copy> {
        let copy = Copy { scratch: Scratch::new("verify", "for a copy of the bundle")? };
        for listed in files.iter().filter(|listed| listed.strange.is_none()) {
            let place = || output::shown(&listed.at);
            let to = copy.root().join(&listed.path);
            let words = || format!("cannot copy {} to {}", place(), output::shown(&to));
            fs::create_dir_all(to.parent().unwrap_or(copy.root())).with_context(words)?;
            let from = file::open(&listed.at).with_context(place)?;
            copy.scratch
                .has_room(from.metadata().with_context(place)?.len())
                .with_context(words)?;
            let mut to = fs::File::create(&to).with_context(words)?;
            // One that grows meanwhile is no longer what was listed.
            let length = io::copy(&mut from.take(BYTES_MAX + 1), &mut to).with_context(words)?;
            if length > BYTES_MAX {
                bail!("{}: {TOO_LONG}", place());
            }
        }
        Ok(copy)
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        self.scratch.root()
    }
}

/// The entries of a manifest for some files: their sizes and hashes.
///
/// # Errors
/// Where one cannot be read.
pub fn entries(files: &[Listed]) -> anyhow::Result<Vec<Entry>> {
    let own = files.iter().filter(|file| !is_of_the_manifest(&file.path));
    let entry = |listed: &Listed| {
        let (sha256, size) = hash(&listed.at)?;
        Ok(Entry { path: listed.path.clone(), sha256, size })
    };
    own.map(entry).collect()
}

/// SHA-256 of a file, hexadecimal, and its size in bytes.
///
/// # Errors
/// Where it cannot be read, or is not a plain file.
pub fn hash(path: &Path) -> anyhow::Result<(String, u64)> {
    let place = || output::shown(path);
    let mut file = file::open(path).with_context(place)?;
    let (mut hash, mut buffer, mut size) = (Sha256::new(), vec![0; 1 << 17], 0);
    loop {
        let length = file.read(&mut buffer).with_context(place)?;
        if length == 0 {
            return Ok((hex(&hash.finalize()), size));
        }
        hash.update(&buffer[..length]);
        size += length as u64;
        if size > BYTES_MAX {
            bail!("{}: {TOO_LONG}", place());
        }
    }
}

/// What a verdict was made of, as the files of a bundle have it.
pub struct Made {
    account: Account,
    profiles: BTreeMap<String, Profile>,
    state: NodeState,
    after: NodeState,
    /// What nothing that was decided on has a use for: what records have beyond it, records and
    /// profiles of which the account knows nothing; in words.
    pub unused: Vec<String>,
    /// Whether records were added, of which the rows of a bundle know nothing.
    pub has_added: bool,
    /// Records that the account has as decided on, and that it told no decision of.
    pub aside: Vec<String>,
    /// The first record that is not the one that was decided on, in words.
    pub changed: Option<String>,
    records: BTreeMap<String, Record>,
}

impl Made {
    /// Reads it.
    ///
    /// # Errors
    /// In words, where something is missing or is not what it should be.
    pub fn read(directory: &Path, files: &[Listed]) -> anyhow::Result<Made> {
        let account: Account = json(directory, names::ACCOUNT)?;
        let mut profiles = BTreeMap::new();
        for group in &account.groups {
            let file = &group.profile;
            // The path comes from a file that others may have written.
            let at = files.iter().find(|listed| &listed.path == file);
            let at = at.ok_or_else(|| Missing(file.clone()))?;
            let text = file::read_text(&at.at, FILE_MAX).with_context(|| file.clone())?;
            let profile = Profile::parse(&text).map_err(anyhow::Error::msg);
            profiles.insert(file.clone(), profile.with_context(|| file.clone())?);
        }
        let state = json(directory, names::STATE)?;
        let after = json(directory, names::STATE_AFTER)?;
        let mut made = Made {
            account,
            profiles,
            state,
            after,
            unused: Vec::new(),
            has_added: false,
            aside: Vec::new(),
            changed: None,
            records: BTreeMap::new(),
        };
        for listed in files {
            made.add(listed);
        }
        Ok(made)
    }

    /// Adds a record, and says of what has no use that it has none.
    fn add(&mut self, listed: &Listed) {
        let parts: Vec<&str> = listed.path.split('/').collect();
        let why = match parts[..] {
            [names::ROUNDS, _, store::FILE] => return self.add_record(listed),
            [names::ROUNDS, folder, MESSAGES] if !self.is_of_a_device(folder) => {
                "it is of no device that was measured"
            }
            [names::PROFILES, _] if !self.profiles.contains_key(&listed.path) => {
                "nothing was judged by it"
            }
            _ => return,
        };
        self.unused.push(format!("{}: {why}", listed.path));
    }

    fn add_record(&mut self, listed: &Listed) {
        let path = &listed.path;
        let read = match store::read_as_decided(&listed.at, &self.account.records) {
            Ok(read) => read,
            // A machine that went down may leave the name of a file and nothing in it.
            Err(_) if fs::metadata(&listed.at).is_ok_and(|file| file.len() == 0) => return,
            Err(error) => {
                self.unused.push(format!("{path}: it is no record that can be read: {error}"));
                self.has_added = true;
                return;
            }
        };
        // Names that were replaced since have changed the bytes, and not what was measured.
        if !read.is_same && self.account.redacted.is_empty() {
            let words = format!("{path} is not the record that was decided on");
            self.changed.get_or_insert(words);
        }
        let run = read.record.header.run.clone();
        // Names that were replaced there have changed its length.
        let is_torn = match (self.account.redacted.is_empty(), read.rest) {
            (true, [then, now]) => then != now,
            (false, [then, now]) => (then == 0) != (now == 0),
        };
        let more = match read.more {
            0 if is_torn => Some("the beginning of a line".to_owned()),
            0 => None,
            more => Some(counted(more, "line")),
        };
        if let Some(more) = more {
            self.unused.push(format!(
                "{path} has {more} that came after the decision: a process that was killed late, \
                 or another user, has written there"
            ));
        }
        if self.records.contains_key(&run) {
            let words = "another record is of the same run, and one of them was added";
            self.unused.push(format!("{path}: {words}"));
            self.has_added = true;
            return;
        }
        match self.is_told_of(&run) {
            true => {}
            false if read.is_listed => self.aside.push(path.clone()),
            false => {
                self.unused.push(format!("{path}: nothing was decided on it"));
                self.has_added = true;
            }
        }
        self.records.insert(run, read.record);
    }

    /// Whether a decision was told of the record of a run.
    fn is_told_of(&self, run: &str) -> bool {
        let mut events = self.account.groups.iter().flat_map(|group| &group.events);
        events.any(|event| match event {
            Event::Record { run: of, .. } | Event::Earlier { run: of, .. } => of == run,
            Event::Lost { .. } | Event::Judge | Event::End => false,
        })
    }

    /// Whether the folder of a repeat is named after a device that was measured: `0001-cuda0`.
    fn is_of_a_device(&self, folder: &str) -> bool {
        let mut devices = self.account.groups.iter().flat_map(|group| &group.devices);
        let name = folder.split('-').nth(1);
        devices.any(|device| name == Some(device.name.replace(':', "").as_str()))
    }

    /// The first run that a decision was told of and whose record the account has no hash of.
    pub fn without_hash(&self) -> Option<&str> {
        let events = self.account.groups.iter().flat_map(|group| &group.events);
        let mut runs = events.filter_map(|event| match event {
            Event::Record { run, .. } | Event::Earlier { run, .. } => Some(run.as_str()),
            Event::Lost { .. } | Event::Judge | Event::End => None,
        });
        runs.find(|run| !self.account.records.iter().any(|one| one.run == *run))
    }

    /// The node at rest, before and after everything was measured.
    pub fn states(&self) -> [&NodeState; 2] {
        [&self.state, &self.after]
    }

    /// The records, by their runs.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// What was done.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// For those who decide again.
    pub fn sources(&self) -> Sources<'_> {
        let Made { account, profiles, state, after, records, .. } = self;
        Sources { account, profiles, state, after, records }
    }
}

/// A file that every acceptance leaves and this bundle does not have.
#[derive(Debug, thiserror::Error)]
#[error("missing: {0}: every acceptance leaves it, so that it was taken away")]
pub struct Missing(pub String);

/// A file of a bundle as JSON.
///
/// # Errors
/// [`Missing`], or where it cannot be read, or is not what it should be.
pub fn json<T: DeserializeOwned>(directory: &Path, name: &str) -> anyhow::Result<T> {
    let text = match file::read_text(&directory.join(name), FILE_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Missing(name.to_owned()).into());
        }
        text => text.with_context(|| name.to_owned())?,
    };
    serde_json::from_str(&text).with_context(|| name.to_owned())
}

/// What in the documents of a bundle this program does not write, in words: the first one that
/// cannot be read, or has a key that is none of it.
///
/// # Errors
/// Where a file cannot be read.
pub fn not_as_written(files: &[Listed]) -> anyhow::Result<Option<String>> {
    for listed in files.iter().filter(|listed| role(&listed.path) != Role::Stray) {
        let parts: Vec<&str> = listed.path.split('/').collect();
        let written: fn(&[u8]) -> Result<Option<String>, serde_json::Error> = match parts[..] {
            [names::VERDICT] | [names::EARLIER, _, names::VERDICT] => added_key::<Report>,
            [names::STATE | names::STATE_AFTER]
            | [names::EARLIER, _, names::STATE | names::STATE_AFTER] => added_key::<NodeState>,
            [names::IDENTITY] => added_key::<Identity>,
            [names::ACCOUNT] => added_key::<Account>,
            _ => continue,
        };
        let bytes = file::read(&listed.at, FILE_MAX).with_context(|| listed.path.clone())?;
        let why = match written(&bytes) {
            Ok(None) => continue,
            Ok(Some(key)) => format!("{key:?} is no key of it: it was added"),
            Err(error) => error.to_string(),
        };
        return Ok(Some(format!("{}: {why}", listed.path)));
    }
    Ok(None)
}

/// The first key of a document that is not there when it is written again.
fn added_key<T: DeserializeOwned + Serialize>(
    bytes: &[u8],
) -> Result<Option<String>, serde_json::Error> {
    let again: T = serde_json::from_slice(bytes)?;
    Ok(keys::added(&serde_json::from_slice(bytes)?, &serde_json::to_value(again)?))
}
