//! Archives of bundles, unpacked into a folder of this process that goes away with it. An archive
//! may come from anybody: nothing of it is written outside of its folder, and its size has a limit.

use crate::cmd::{bundle::files::FILES_MAX, scratch::Scratch};
use fizeau_judge::evidence::file::OF_A_BUNDLE;
use fizeau_record::file;
use flate2::read::MultiGzDecoder;
use std::{
    cell::Cell,
    collections::{BTreeSet, HashSet},
    ffi::OsStr,
    fs,
    io::{self, BufRead as _, BufReader, Read},
    path::{Component, Path, PathBuf},
    rc::Rc,
};
use tar::{Archive, EntryType};

/// Most bytes that are unpacked of one archive.
const BYTES_MAX: u64 = 64 << 30;

/// Packed records are a tenth to a hundredth of what they unpack to. What unpacks to more than this
/// multiple of its length, and to more than [`BYTES_FREE`], was made to fill a disk.
const PACKED_MAX: u64 = 300;

/// Bytes that any archive may unpack to.
const BYTES_FREE: u64 = 1 << 30;

/// Most files and folders of one archive: those of one bundle.
const ENTRIES_MAX: usize = FILES_MAX;

/// Deepest folder of an archive. Each folder above a file is looked at anew for each of them.
const DEPTH_MAX: usize = 32;

/// How a file begins that is packed by gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Whether a file is an archive that can be read, by its name or by how it begins.
pub fn is_archive(name: &str, start: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let is_tar = |start: &[u8]| start.get(257..262).is_some_and(|magic| magic == b"ustar");
    let unpacked = || {
        let mut header = Vec::new();
        // What of the header cannot be unpacked is not there.
        let _ = MultiGzDecoder::new(start).take(512).read_to_end(&mut header);
        header
    };
    [".tar", ".tar.gz", ".tgz"].into_iter().any(|ending| name.ends_with(ending))
        || is_tar(start)
        || (start.starts_with(&GZIP) && is_tar(&unpacked()))
}

/// Whether a file is an archive of a kind that is not read, by its name or by how it begins.
pub fn is_other_archive(name: &str, start: &[u8]) -> bool {
    const ENDINGS: [&str; 8] =
        [".zip", ".7z", ".tar.zst", ".tzst", ".tar.xz", ".txz", ".tar.bz2", ".tbz2"];
    const MAGICS: [&[u8]; 5] =
        [b"PK\x03\x04", b"7z\xbc\xaf\x27\x1c", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh"];
    let name = name.to_ascii_lowercase();
    ENDINGS.into_iter().any(|ending| name.ends_with(ending))
        || MAGICS.into_iter().any(|magic| start.starts_with(magic))
}

/// The folder that archives are unpacked into.
pub struct Unpacker {
    scratch: Scratch,
    count: usize,
    /// Bytes that the archive which was given, and those within it, may still unpack to.
    bytes: Rc<Cell<u64>>,
    /// Files and folders that they may still hold.
    entries: usize,
}

impl Unpacker {
    /// Makes it.
    ///
    /// # Errors
    /// Where the file system refuses.
    pub fn new() -> anyhow::Result<Unpacker> {
        let scratch = Scratch::new("fleet", "for what archives hold")?;
        Ok(Unpacker { scratch, count: 0, bytes: Rc::default(), entries: 0 })
    }

    /// Unpacks an archive. Links and devices in it are left out. Archives in an archive share its
    /// limits: many small ones would otherwise unpack to more than any disk holds.
    pub fn unpack(&mut self, path: &Path) -> Unpacked {
        let name = path.file_name().unwrap_or_default();
        let folder = self.scratch.root().join(self.count.to_string()).join(name);
        self.count += 1;
        if !path.starts_with(self.scratch.root()) {
            let length = fs::metadata(path).map_or(0, |file| file.len());
            let most = length.saturating_mul(PACKED_MAX).clamp(BYTES_FREE, BYTES_MAX);
            self.bytes.set(most);
            self.entries = ENTRIES_MAX;
        }
        let mut unpacked = Unpacked { folder, ..Unpacked::default() };
        unpacked.error = self.fill(path, &mut unpacked).err();
        unpacked
    }
}

/// What came of an archive.
#[derive(Default)]
pub struct Unpacked {
    /// Where what it held is.
    pub folder: PathBuf,
    /// The first file that is there more than once, of which the last is kept.
    pub twice: Option<PathBuf>,
    /// Its folders without anything in them. They are not made: to make and remove 20,000 of them
    /// took ten seconds.
    pub empty: Vec<PathBuf>,
    /// Its devices, and its links to what it does not hold.
    pub left_out: Vec<PathBuf>,
    /// What stopped it; what was unpacked before that is there.
    pub error: Option<io::Error>,
}

impl Unpacker {
    fn fill(&mut self, path: &Path, unpacked: &mut Unpacked) -> io::Result<()> {
        let mut names = Names::default();
        let read = self.unpack_files(path, unpacked, &mut names);
        unpacked.empty = names.empty();
        read
    }
}

/// Bytes of an archive, as many as are left of its limit.
struct Limited<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left.get()).unwrap_or(usize::MAX).min(buffer.len());
        let length = self.inner.read(&mut buffer[..most])?;
        self.left.set(self.left.get() - length as u64);
        Ok(length)
    }
}

/// The names in an archive, without those of files themselves.
#[derive(Default)]
struct Names {
    folders: HashSet<PathBuf>,
    /// Folders that anything is in.
    filled: HashSet<PathBuf>,
    /// Folders that files are in, or in folders of them.
    with_files: HashSet<PathBuf>,
    /// Folders with a name in them that only an acceptance leaves.
    of_bundles: HashSet<PathBuf>,
}

impl Names {
    /// Takes the name of an entry. The limit on the depth bounds what that adds.
    fn add(&mut self, name: &Path, is_folder: bool) {
        let above = || name.ancestors().skip(1).map(Path::to_owned);
        self.filled.extend(above());
        if is_folder {
            self.folders.insert(name.to_owned());
        } else {
            self.with_files.extend(above());
        }
        let is_of_bundle = |last: &OsStr| OF_A_BUNDLE.iter().any(|of| last == *of);
        if name.file_name().is_some_and(is_of_bundle) {
            self.of_bundles.extend(name.parent().map(Path::to_owned));
        }
    }

    /// Whether it has this folder.
    fn holds(&self, folder: &Path) -> bool {
        self.folders.contains(folder) || self.filled.contains(folder)
    }

    /// The folders that hold nothing; of a bundle without files its own folder. Those within a
    /// bundle that has files are none.
    fn empty(&self) -> Vec<PathBuf> {
        let one = |folder: &PathBuf| {
            let owner = folder.ancestors().filter(|above| self.of_bundles.contains(*above)).last();
            match owner {
                Some(owner) if self.with_files.contains(owner) => None,
                Some(owner) => Some(owner.to_owned()),
                None => Some(folder.clone()),
            }
        };
        let without = self.folders.iter().filter(|folder| !self.filled.contains(*folder));
        without.filter_map(one).collect::<BTreeSet<PathBuf>>().into_iter().collect()
    }
}

impl Unpacker {
    fn unpack_files(
        &mut self,
        path: &Path,
        unpacked: &mut Unpacked,
        names: &mut Names,
    ) -> io::Result<()> {
        let folder = &unpacked.folder;
        fs::create_dir_all(folder)?;
        let file = file::open(path)?;
        let most = self.bytes.get();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let is_packed = file.fill_buf()?.starts_with(&GZIP);
        let bytes: Box<dyn Read> =
            if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        // What a pack of zeros would unpack to has an end too.
        let bytes = Limited { inner: bytes, left: self.bytes.clone() };
        let mut archive = Archive::new(bytes);
        archive.set_preserve_permissions(false);
        archive.set_preserve_mtime(false);
        archive.set_overwrite(true);
        let (mut size, mut is_empty) = (0, true);
        let (mut seen, mut links) = (HashSet::new(), Vec::new());
        for entry in archive.entries()? {
            let mut entry = entry?;
            is_empty = false;
            if self.entries == 0 {
                let words = format!("it holds more than {ENTRIES_MAX} files: the rest is left out");
                return Err(io::Error::other(words));
            }
            self.entries -= 1;
            let kind = entry.header().entry_type();
            let name = below(&entry.path()?);
            match kind {
                EntryType::Regular | EntryType::Continuous | EntryType::Directory => {}
                // It says something of all entries, and is none.
                EntryType::XGlobalHeader => continue,
                _ => {
                    let end = entry.link_name()?.and_then(|end| link_end(&name, &end, kind));
                    links.push((name, end));
                    continue;
                }
            }
            if name.components().count() > DEPTH_MAX {
                let words = format!(
                    "it has more than {DEPTH_MAX} folders in each other: the rest is left out"
                );
                return Err(io::Error::other(words));
            }
            size += entry.size();
            if size > most {
                let words = format!("it holds more than {} MiB: the rest is left out", most >> 20);
                return Err(io::Error::other(words));
            }
            names.add(&name, kind == EntryType::Directory);
            if kind == EntryType::Directory {
                continue;
            }
            self.scratch.has_room(entry.size())?;
            entry.unpack_in(folder)?;
            if let Some(again) = seen.replace(name) {
                unpacked.twice.get_or_insert(again);
            }
        }
        // What a link leads to is read where it is.
        let is_held = |end: &PathBuf| seen.contains(end) || names.holds(end);
        links.retain(|(_, end)| !end.as_ref().is_some_and(is_held));
        unpacked.left_out.extend(links.into_iter().map(|(name, _)| name));
        if is_empty {
            return Err(io::Error::other("it is empty"));
        }
        end_of(archive.into_inner())
    }
}

/// Reads what stands behind the end of an archive: zeros fill its last block, and nothing else may
/// be there, since tar ends there too.
fn end_of(mut rest: impl Read) -> io::Result<()> {
    let mut block = vec![0; 1 << 16];
    loop {
        let length = rest.read(&mut block)?;
        if length == 0 {
            return Ok(());
        }
        if block[..length].iter().any(|&byte| byte != 0) {
            return Err(io::Error::other(
                "something stands behind its end, such as another archive",
            ));
        }
    }
}

/// Where a link leads to within its archive; none where it leads out, or is no link.
fn link_end(name: &Path, end: &Path, kind: EntryType) -> Option<PathBuf> {
    let mut place = match kind {
        EntryType::Link => PathBuf::new(),
        EntryType::Symlink if end.is_relative() => name.parent()?.to_owned(),
        _ => return None,
    };
    for part in end.components() {
        match part {
            Component::Normal(part) => place.push(part),
            Component::ParentDir if !place.pop() => return None,
            _ => {}
        }
    }
    Some(place)
}

/// A path without what leads out of a folder.
fn below(path: &Path) -> PathBuf {
    let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
    names.collect()
}
