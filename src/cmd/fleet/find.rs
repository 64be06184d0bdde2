//! What paths lead to: bundles, records, and files of stores. Links may lead in circles, and a
//! folder may hold anything.

use super::archive::{Unpacked, Unpacker, is_archive, is_other_archive};
use crate::cmd::{bundle::rows, disk, output};
use anyhow::Context as _;
use fizeau_domain::text::counted;
use fizeau_judge::{
    evidence::{
        file::{EARLIER, LOCALISE, OF_A_BUNDLE, PROFILES, ROUNDS},
        manifest::{Manifest, is_of_the_manifest},
    },
    fleet::{
        gather::Gathered,
        problem::{Kind, Problems},
    },
};
use fizeau_record::{file, store};
use globset::GlobBuilder;
use std::{
    collections::HashSet,
    ffi::OsStr,
    fs,
    io::{self, BufRead as _, Read as _},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

/// Deepest folder below a path that is looked into.
const DEPTH_MAX: usize = 32;

/// Folders of a bundle.
const OWN: [&str; 4] = [ROUNDS, LOCALISE, PROFILES, EARLIER];

/// Why a folder counts as one whose sender has no figures.
const EMPTY: &str = "it is empty: an acceptance that wrote nothing has no figures";

/// Most files and folders that are looked at.
const SEEN_MAX: usize = 20_000_000;

/// Longest list of paths on standard input, in bytes.
const LIST_MAX: u64 = 1 << 30;

/// Bytes at the beginning of a file by which it is told what it is.
const START: usize = 4096;

/// Something to read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// The directory of an acceptance.
    Bundle(PathBuf),
    /// The file of a record.
    Record(PathBuf),
    /// A file of a store, with its length in bytes.
    Store(PathBuf, u64),
}

/// Looks for things to read.
#[derive(Default)]
pub struct Finder {
    /// What was found.
    pub found: Vec<Found>,
    /// What was not.
    pub problems: Problems,
    /// Folders of which somebody's figures were to be expected and that have none, with the reason.
    pub unusable: Vec<(PathBuf, String)>,
    /// The paths that were given, without links in them.
    roots: Vec<PathBuf>,
    /// Folders and files that were seen, by device and inode.
    seen: HashSet<(u64, u64)>,
    /// Where archives were unpacked: it goes away with this.
    archives: Option<Unpacker>,
}

impl Finder {
    /// Looks at the paths of a command line: `-` stands for a list on standard input, and what does
    /// not exist may be a glob.
    ///
    /// # Errors
    /// Where standard input cannot be read.
    pub fn paths(&mut self, paths: &[PathBuf]) -> anyhow::Result<()> {
        for path in paths {
            if path.as_os_str() == "-" {
                let stdin = io::stdin().lock().take(LIST_MAX);
                // Names of files are bytes, and need not be UTF-8.
                for line in stdin.split(b'\n') {
                    let line = line.context("cannot read the list of paths on standard input")?;
                    let line = line.strip_suffix(b"\r").unwrap_or(&line);
                    if !line.is_empty() {
                        self.path(Path::new(OsStr::from_bytes(line)));
                    }
                }
            } else {
                self.path(path);
            }
        }
        self.found.sort();
        self.found.dedup();
        Ok(())
    }

    /// Adds what was not found to what was read.
    pub fn tell(self, gathered: &mut Gathered) {
        gathered.problems.merge(self.problems);
        for (path, why) in &self.unusable {
            gathered.unusable(&output::shown(path), why);
        }
    }

    /// Looks at a path of the command line. A store says of every node what it likes, and bundles
    /// come from the nodes themselves: where both lie below one path, a node may have left the
    /// store's files there.
    fn path(&mut self, path: &Path) {
        let before = self.found.len();
        self.given(path);
        let is_store = |one: &Found| matches!(one, Found::Store(..));
        self.strangers(path, before);
        let own = &self.found[before..];
        if own.iter().all(is_store) || !own.iter().any(is_store) {
            return;
        }
        let (stores, sent): (Vec<Found>, Vec<Found>) =
            self.found.drain(before..).partition(|one| is_store(one));
        self.found.extend(sent);
        for store in stores {
            let Found::Store(path, _) = store else { continue };
            let why = "a store among bundles is refused: give a store as a path of its own";
            let words = format!("{}: {why}", output::shown(&path));
            self.problems.add(Kind::Refused, words);
        }
    }

    /// Leaves out files of a store that another user may have put there: a store has the sessions
    /// of all nodes, and the latest of each counts.
    fn strangers(&mut self, path: &Path, before: usize) {
        let found = self.found.split_off(before);
        let mut others = Vec::new();
        for one in found {
            match &one {
                Found::Store(file, _) if file != path => {
                    // Of a glob, the folder that has those of the dates.
                    let store = if path.is_dir() { Some(path) } else { file.ancestors().nth(2) };
                    let store = store.unwrap_or(path);
                    match disk::stranger(store, file, &disk::owners(store)) {
                        Some(whose) => others.push((file.clone(), whose)),
                        None => self.found.push(one),
                    }
                }
                _ => self.found.push(one),
            }
        }
        if let Some((first, whose)) = others.first() {
            let (place, count) = (output::shown(path), counted(others.len(), "file"));
            let first = output::shown(first);
            let why = "which others may have put there";
            let words = format!("{place}: {count} left out, {why}: {first} is {whose}");
            self.problems.add(Kind::Refused, words);
        }
    }

    fn given(&mut self, path: &Path) {
        match fs::symlink_metadata(path) {
            Ok(_) => self.look_below(path),
            Err(error) => match globbed(path) {
                Some(all) if !all.is_empty() => {
                    all.iter().for_each(|one| self.look_below(one));
                }
                Some(_) => self.unreadable(path, "no path is like that"),
                None => self.unreadable(path, &error.to_string()),
            },
        }
    }

    fn look_below(&mut self, path: &Path) {
        self.roots.extend(path.canonicalize());
        self.look(path, 0, true);
    }

    fn unreadable(&mut self, path: &Path, why: &str) {
        let words = format!("{}: {why}", output::shown(path));
        self.problems.add(Kind::Unreadable, words);
    }

    fn other(&mut self, path: &Path, why: &str) {
        let words = format!("{}: {why}", output::shown(path));
        self.problems.add(Kind::OtherFile, words);
    }

    /// Whether it is a link out of the paths that were given. One that a node leaves in a shared
    /// folder must not bring the rest of the machine in.
    fn leads_out(&self, path: &Path) -> bool {
        let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        let place = |path: &Path| path.canonicalize().ok();
        is_link
            && place(path).is_some_and(|end| !self.roots.iter().any(|root| end.starts_with(root)))
    }

    fn look(&mut self, path: &Path, depth: usize, is_asked: bool) {
        if !is_asked && self.leads_out(path) {
            return self
                .unreadable(path, "it is a link that leads out of the paths that are given");
        }
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return self.unreadable(path, &error.to_string()),
        };
        if self.seen.len() >= SEEN_MAX {
            let words = format!("more than {SEEN_MAX} files: the rest is not looked at");
            return self.problems.add(Kind::TooMany, words);
        }
        // What was seen already is read once, by whatever path and link.
        if !self.seen.insert((metadata.dev(), metadata.ino())) {
            let is_other_name = !metadata.is_dir() && metadata.nlink() > 1;
            if !is_asked && (path.is_symlink() || is_other_name) {
                self.other(path, "it is a link to what is read already");
            }
            return;
        }
        if metadata.is_dir() {
            self.folder(path, depth);
        } else {
            self.file(path, metadata.len(), depth, is_asked);
        }
    }

    fn folder(&mut self, path: &Path, depth: usize) {
        if is_bundle(path) {
            self.found.push(Found::Bundle(path.to_owned()));
            return self.within_bundle(path, depth);
        }
        if depth >= DEPTH_MAX {
            return self.unreadable(path, "it is too deep below the path that was given");
        }
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(path, &error.to_string()),
        };
        let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        // What a link leads to is read where it is, so that the link is the one that has a line.
        below.sort_by_cached_key(|one| (one.is_symlink(), one.clone()));
        below.retain(|one| !is_draft(one));
        if below.is_empty() {
            self.unusable.push((path.to_owned(), EMPTY.to_owned()));
        }
        for one in below {
            self.look(&one, depth + 1, false);
        }
    }

    /// Looks for what lies within a bundle and is none of its files: whoever may write to a folder
    /// of bundles can leave a bundle, or the name of a bundle's file, there, and must not hide the
    /// others by that. One without a manifest was not closed, and its node passes nothing.
    fn within_bundle(&mut self, path: &Path, depth: usize) {
        if depth >= DEPTH_MAX {
            return self.unreadable(path, "it is too deep below the path that was given");
        }
        match rows::manifest(path) {
            Some((_, manifest)) => self.besides(path, &manifest, depth),
            None => {
                let is_own = |one: &Path| OWN.iter().any(|own| one.ends_with(own));
                let below = below(path).into_iter().filter(|one| !is_own(one));
                below.for_each(|one| self.within(&one, depth + 1));
            }
        }
    }

    /// Looks at what lies in a bundle and is not in its manifest.
    fn besides(&mut self, bundle: &Path, manifest: &Manifest, depth: usize) {
        let files = &manifest.files;
        let is_listed = |name: &str| {
            is_of_the_manifest(name)
                || files.binary_search_by(|file| file.path.as_str().cmp(name)).is_ok()
        };
        let has_listed = |name: &str| {
            let folder = format!("{name}/");
            let first = files.partition_point(|file| file.path < folder);
            files.get(first).is_some_and(|file| file.path.starts_with(&folder))
        };
        let mut folders = vec![bundle.to_owned()];
        while let Some(folder) = folders.pop() {
            for one in below(&folder) {
                let name = one.strip_prefix(bundle).unwrap_or(&one).to_owned();
                let is_own = OWN.iter().any(|own| name.starts_with(own));
                let name = name.to_str().unwrap_or_default();
                if one.is_dir() && !one.is_symlink() {
                    if has_listed(name) && (is_own || !is_bundle(&one)) {
                        folders.push(one);
                    } else {
                        self.look(&one, depth + 1, false);
                    }
                } else if name.ends_with(".jsonl") && !is_listed(name) {
                    self.unreadable(&one, "it lies in a bundle whose manifest does not have it");
                } else if !is_listed(name) {
                    self.look(&one, depth + 1, false);
                }
            }
        }
    }

    fn within(&mut self, path: &Path, depth: usize) {
        if !path.is_dir() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if is_archive(&name, &[]) {
                self.look(path, depth, false);
            }
        } else if is_bundle(path) {
            self.look(path, depth, false);
        } else if !path.is_symlink() && depth < DEPTH_MAX {
            below(path).iter().for_each(|one| self.within(one, depth + 1));
        }
    }

    fn archive(&mut self, path: &Path, depth: usize) {
        if depth >= DEPTH_MAX {
            return self.unreadable(path, "it is too deep below the path that was given");
        }
        if self.archives.is_none() {
            match Unpacker::new() {
                Ok(archives) => self.archives = Some(archives),
                Err(error) => return self.unreadable(path, &format!("{error:#}")),
            }
        }
        let Some(archives) = &mut self.archives else { return };
        let Unpacked { folder, twice, empty, left_out, error } = archives.unpack(path);
        let (place, is_whole) = (output::shown(path), error.is_none());
        if let Some(error) = error {
            let words = format!(
                "{place}: the archive cannot be read to its end ({error}): what is there of it \
                 counts"
            );
            self.problems.add(Kind::HalfWritten, words);
        } else if let Some(twice) = twice {
            let name = output::shown(&twice);
            let words = format!("{place}: {name} is there more than once: the last one counts");
            self.problems.add(Kind::Refused, words);
        }
        if let Some(first) = left_out.first() {
            let (count, first) = (counted(left_out.len(), "special file"), output::shown(first));
            let why = "links and devices are not unpacked, and what they lead to is not in it";
            self.unreadable(path, &format!("{count} left out, such as {first}: {why}"));
        }
        self.unusable.extend(empty.iter().map(|name| (path.join(name), EMPTY.to_owned())));
        if fs::read_dir(&folder).map_or(true, |mut all| all.next().is_none()) {
            let why = if is_whole { EMPTY } else { "the archive cannot be read" };
            if empty.is_empty() {
                self.unusable.push((path.to_owned(), why.to_owned()));
            }
            return;
        }
        self.look(&folder, depth + 1, false);
    }

    fn file(&mut self, path: &Path, length: u64, depth: usize, is_asked: bool) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == store::FILE {
            return self.found.push(Found::Record(path.to_owned()));
        }
        let start = file::open(path).and_then(|file| {
            let mut start = Vec::new();
            file.take(START as u64).read_to_end(&mut start)?;
            Ok(start)
        });
        let begins = start.as_deref().unwrap_or_default();
        if is_archive(&name, begins) {
            return self.archive(path, depth);
        }
        if is_other_archive(&name, begins) {
            let words = "of archives .tar, .tar.gz and .tgz are read: unpack this one first";
            return self.unreadable(path, words);
        }
        if !is_asked && !name.ends_with(".jsonl") {
            return self.other(path, "it is no bundle, record or store");
        }
        match start {
            Err(error) => self.unreadable(path, &error.to_string()),
            Ok(start) if start.starts_with(b"{\"line\":\"header\"") => {
                self.found.push(Found::Record(path.to_owned()));
            }
            Ok(start) if start.is_empty() => self.other(path, "it is empty"),
            Ok(start) if start.starts_with(b"{") => {
                self.found.push(Found::Store(path.to_owned(), length));
            }
            Ok(_) => self.other(path, "it is no bundle, record or store"),
        }
    }
}

/// Whether a folder has a file that only an acceptance leaves.
fn is_bundle(folder: &Path) -> bool {
    OF_A_BUNDLE.into_iter().any(|name| folder.join(name).exists())
}

/// What a folder holds, but for drafts of files that are being written.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.retain(|one| !is_draft(one));
    all.sort();
    all
}

fn is_draft(path: &Path) -> bool {
    path.file_name().unwrap_or_default().as_encoded_bytes().starts_with(b".")
}

/// The paths that are like a glob; none where it is no glob.
fn globbed(path: &Path) -> Option<Vec<PathBuf>> {
    let text = path.to_str()?;
    let is_glob = |part: &str| part.contains(['*', '?', '[', '{']);
    let parts: Vec<&str> = text.split('/').collect();
    let fixed = parts.iter().position(|part| is_glob(part))?;
    let matcher = GlobBuilder::new(text).literal_separator(true).build().ok()?.compile_matcher();
    let root = match parts[..fixed].join("/") {
        root if root.is_empty() && text.starts_with('/') => "/".into(),
        root => root,
    };
    let mut all = Vec::new();
    let mut level = vec![PathBuf::from(root)];
    for part in &parts[fixed..] {
        let mut next = Vec::new();
        for folder in &level {
            if !is_glob(part) {
                next.push(folder.join(part));
                continue;
            }
            if *part == "**" {
                folders_below(folder, 0, &mut next);
            }
            let at = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let Ok(entries) = fs::read_dir(at) else { continue };
            next.extend(entries.flatten().map(|entry| folder.join(entry.file_name())));
        }
        level = next;
    }
    all.extend(level.into_iter().filter(|path| matcher.is_match(path) && path.exists()));
    all.sort();
    Some(all)
}

/// A folder and all that are below it, but for those behind links.
fn folders_below(folder: &Path, depth: usize, all: &mut Vec<PathBuf>) {
    if depth > DEPTH_MAX || all.len() >= SEEN_MAX {
        return;
    }
    all.push(folder.to_owned());
    let at = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = fs::read_dir(at) else { return };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    for entry in entries.flatten().filter(is_folder) {
        folders_below(&folder.join(entry.file_name()), depth + 1, all);
    }
}
