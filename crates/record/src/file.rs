//! Files that others may have had a hand in: read only if they are plain files of a size that was
//! agreed on, written whole or not at all.
//!
//! Reading opens first and asks about what was opened, so that nobody can exchange a file between
//! the question and its use. A FIFO, a device or a terminal is refused at once, where reading it
//! would wait without end. Writing goes to a new file beside its destination, which is then
//! renamed: a symbolic link that another user has planted in its place is replaced, never followed.

use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};
use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, ErrorKind, Read, Write as _},
    os::unix::fs::{FileExt as _, FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// What a UTF-8 file of other systems may begin with.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a file is, where it is no plain one.
fn kind(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a directory")
    } else if kind.is_fifo() {
        Some("a FIFO")
    } else if kind.is_socket() {
        Some("a socket")
    } else if kind.is_char_device() || kind.is_block_device() {
        Some("a device")
    } else if kind.is_symlink() {
        Some("a symbolic link")
    } else {
        Some("something else")
    }
}

fn plain(metadata: &Metadata) -> io::Result<()> {
    match kind(metadata) {
        None => Ok(()),
        Some(kind) => Err(io::Error::other(format!("it is {kind} and not a plain file"))),
    }
}

/// Opens a plain file for reading.
///
/// # Errors
/// Where it cannot be opened or is not a plain file.
pub fn open(path: &Path) -> io::Result<File> {
    opened(path, OpenOptions::new().read(true), OFlags::empty())
}

/// Opens a plain file that is there already, to read it and to append to it. A symbolic link in
/// its place is refused.
///
/// # Errors
/// Where it cannot be opened or is not a plain file.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    opened(path, OpenOptions::new().read(true).append(true), OFlags::NOFOLLOW)
}

fn opened(path: &Path, options: &mut OpenOptions, flags: OFlags) -> io::Result<File> {
    // Without NONBLOCK a FIFO would be waited for; without NOCTTY a terminal could become ours.
    let flags = (flags | OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = options.custom_flags(flags).open(path).map_err(|error| {
        let is_plain = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied);
        match fs::symlink_metadata(path) {
            // The system reports loops and missing devices where it is a link or a socket.
            Ok(there) if !is_plain => plain(&there).err().unwrap_or(error),
            _ => error,
        }
    })?;
    plain(&file.metadata()?)?;
    Ok(file)
}

/// Reads a plain file of `most` bytes at most, whole.
///
/// # Errors
/// Where it cannot be read, is not a plain file, or is longer.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    contents(&open(path)?, most)
}

/// Reads what an open file holds from its beginning.
///
/// # Errors
/// Where it cannot be read or is longer than `most` bytes.
pub fn contents(mut file: &File, most: u64) -> io::Result<Vec<u8>> {
    let too_long = || {
        let mebibytes = most >> 20;
        io::Error::other(format!("it is longer than {mebibytes} MiB, the most that is read"))
    };
    let length = file.metadata()?.len();
    if length > most {
        return Err(too_long());
    }
    io::Seek::rewind(&mut file)?;
    let mut bytes = Vec::with_capacity(length as usize);
    // It may grow meanwhile, and files of the kernel state no length.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_long()) } else { Ok(bytes) }
}

/// Reads a plain file of text, without the mark that may stand at its beginning.
///
/// # Errors
/// As [`read`], and where it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let mut bytes = read(path, most)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(ErrorKind::InvalidData, format!("it is not UTF-8 from byte {at} on"))
    })
}

/// Folders in which a loader looks for a bare name, behind those of `LD_LIBRARY_PATH`.
const LOADERS_FOLDERS: [&str; 8] = [
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib",
    "/usr/lib",
];

/// Refuses what a loader would open to the harm of this process: what is no plain file, since it
/// waits without end for what a FIFO never gives, and a library that was cut short, since its pages
/// behind the end of the file are a SIGBUS. A bare name is looked for where the loader looks; what
/// is not there is for the loader to find.
///
/// # Errors
/// Where something else than a whole plain file is there.
pub fn loadable(path: &Path) -> io::Result<()> {
    let listed = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    loadable_from(path, &listed)
}

fn loadable_from(path: &Path, listed: &OsStr) -> io::Result<()> {
    let folders: Vec<PathBuf> = match path.components().count() {
        0 | 1 => env::split_paths(listed).chain(LOADERS_FOLDERS.map(PathBuf::from)).collect(),
        _ => vec![PathBuf::new()],
    };
    let mut there = folders.iter().map(|folder| folder.join(path));
    let found = there.find_map(|path| fs::metadata(&path).ok().map(|metadata| (path, metadata)));
    let Some((path, metadata)) = found else { return Ok(()) };
    plain(&metadata)?;
    match File::open(&path) {
        Ok(file) => whole(&file, metadata.len()),
        // The loader says why it may not be read.
        Err(_) => Ok(()),
    }
}

/// Refuses an ELF file of 64 bits that ends before its segments do (elf(5)). What is no such file
/// is for the loader to refuse.
fn whole(file: &File, length: u64) -> io::Result<()> {
    const HEADER: usize = 64;
    const SEGMENT: usize = 56;
    let mut header = [0; HEADER];
    let little_endian_64 = [0x7f, b'E', b'L', b'F', 2, 1];
    if file.read_exact_at(&mut header, 0).is_err() || !header.starts_with(&little_endian_64) {
        return Ok(());
    }
    let cut = |least: u64| {
        let why = format!("it is cut short: it has {length} bytes, and its segments {least}");
        io::Error::new(ErrorKind::InvalidData, why)
    };
    let (at, size, count) = (word(&header, 32, 8), word(&header, 54, 2), word(&header, 56, 2));
    for index in 0..count {
        let mut segment = [0; SEGMENT];
        let place = at.saturating_add(index * size);
        let end = place.saturating_add(SEGMENT as u64);
        file.read_exact_at(&mut segment, place).map_err(|_| cut(end))?;
        let end = word(&segment, 8, 8).saturating_add(word(&segment, 32, 8));
        // PT_LOAD.
        if word(&segment, 0, 4) == 1 && end > length {
            return Err(cut(end));
        }
    }
    Ok(())
}

/// A little-endian number of `size` bytes.
fn word(bytes: &[u8], at: usize, size: usize) -> u64 {
    bytes[at..at + size].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Writes a file, whole or not at all, with the permissions that the user's mask leaves.
///
/// # Errors
/// Where something else than a plain file is in its place, or the file system refuses.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = Draft::beside(path)?;
    draft.file.write_all(bytes)?;
    draft.file.sync_all()?;
    draft.publish(Existing::Replaced).map(drop)
}

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It goes.
    Replaced,
    /// It stays, and the new one gets no name.
    Kept,
}

/// A new file beside the one that it is to become. It is removed where it gets no name.
pub struct Draft {
    file: File,
    path: PathBuf,
    target: PathBuf,
    is_published: bool,
}

impl Draft {
    /// Makes one, which is written by appending.
    ///
    /// # Errors
    /// Where something else than a plain file is in its place, or the file system refuses.
    pub fn beside(target: &Path) -> io::Result<Draft> {
        if target.file_name().is_none() {
            let why = "it has no file's name";
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        // A link is replaced; what it points to must not be a device either, as /dev/stdout is.
        if let Ok(there) = fs::metadata(target) {
            plain(&there)?;
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random)?;
        let name = format!(".fizeau-{:016x}.part", u64::from_le_bytes(random));
        let path = directory_of(target).join(name);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true);
        let file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&path)?;
        // Whoever removes what the dead have left sees by it that this process lives.
        let _ = flock(&file, FlockOperation::NonBlockingLockShared);
        sweep(directory_of(target), &file);
        Ok(Draft { file, path, target: target.to_owned(), is_published: false })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it its name at once, and hands it on. What was written must be on the disk.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] where a file is to be kept; or what the file system says.
    pub fn publish(mut self, existing: Existing) -> io::Result<File> {
        match existing {
            Existing::Replaced => fs::rename(&self.path, &self.target)?,
            Existing::Kept => name_once(&self.path, &self.target)?,
        }
        self.is_published = true;
        // The name is on the disk once the directory is; not every file system syncs one.
        let _ = File::open(directory_of(&self.target)).and_then(|directory| directory.sync_all());
        self.file.try_clone()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_published {
            // What stays is small, and nobody reads it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A draft is left behind where its process was killed. One that is this much older than a new one,
/// in seconds, and that no process has locked, is removed.
const LEFT_BEHIND: u64 = 60;

/// Removes the drafts of processes that are dead from a directory: once in each process.
fn sweep(directory: &Path, own: &File) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if !swept.insert(directory.to_owned()) {
        return;
    }
    let modified = |file: &File| file.metadata().and_then(|found| found.modified()).ok();
    let Some(now) = modified(own) else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_draft = name.to_str().is_some_and(|name| {
            name.starts_with(".fizeau-") && name.ends_with(".part") && name.len() == DRAFT_NAME
        });
        if !is_draft || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(file) = open(&entry.path()) else { continue };
        let age = modified(&file).and_then(|then| now.duration_since(then).ok());
        let is_old = age.is_some_and(|age| age.as_secs() >= LEFT_BEHIND);
        // What cannot be removed stays.
        if is_old && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Length of a draft's name: `.fizeau-`, 16 digits, `.part`.
const DRAFT_NAME: usize = 29;

/// Renames a file where nothing has the new name.
fn name_once(path: &Path, target: &Path) -> io::Result<()> {
    match renameat_with(CWD, path, CWD, target, RenameFlags::NOREPLACE) {
        // A file system that cannot: a second name fails in the same way, and the first one goes.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            fs::hard_link(path, target)?;
            fs::remove_file(path)
        }
        result => Ok(result?),
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether two paths lead to one file, by its device and inode. False where either leads nowhere.
pub fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let file = |path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    file(one).is_some_and(|found| Some(found) == file(other))
}

/// Whether writing there is not permitted: another place would help.
pub fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn fifo(path: &Path) {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("a FIFO");
    }

    #[test]
    fn drafts_of_the_dead_are_removed_and_those_of_the_living_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let draft = |number: u8| folder.path().join(format!(".fizeau-{number:016x}.part"));
        for number in 0..3 {
            fs::write(draft(number), "half").expect("written");
        }
        let hour = std::time::Duration::from_secs(3600);
        let old = |number: u8| {
            let file = OpenOptions::new().write(true).open(draft(number)).expect("a file");
            let now = file.metadata().and_then(|found| found.modified()).expect("a time");
            file.set_modified(now - hour).expect("a time");
            file
        };
        let (_, locked) = (old(0), old(1));
        flock(&locked, FlockOperation::NonBlockingLockShared).expect("a lock");
        write(&folder.path().join("whole"), b"whole").expect("written");
        assert_eq!([0, 1, 2].map(|number| draft(number).exists()), [false, true, true]);
    }

    #[test]
    fn a_library_that_was_cut_short_is_not_given_to_the_loader() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lib.so.1");
        let own = fs::read(env::current_exe().expect("a path")).expect("this program");
        let said = |length: usize| {
            fs::write(&path, &own[..length]).expect("a file");
            loadable_from(&path, OsStr::new("")).map_err(|error| error.to_string())
        };
        assert_eq!(said(own.len()), Ok(()));
        for length in [64, 200, 4096] {
            let error = said(length).expect_err("it is cut");
            assert!(error.starts_with(&format!("it is cut short: it has {length} ")), "{error}");
        }
        // Nothing that the loader maps: it refuses them in its own words.
        assert_eq!((said(0), said(63)), (Ok(()), Ok(())));
    }

    #[test]
    fn what_the_loader_would_open_first_is_looked_at_where_it_looks() {
        let folder = tempfile::tempdir().expect("a folder");
        let (good, bad) = (folder.path().join("good"), folder.path().join("bad"));
        for folder in [&good, &bad] {
            fs::create_dir(folder).expect("a folder");
        }
        fs::write(good.join("lib.so.1"), "").expect("a file");
        fifo(&bad.join("lib.so.1"));
        let listed = |folders: &[&Path]| env::join_paths(folders).expect("no colon");
        let bare = Path::new("lib.so.1");
        let (good, bad) = (good.as_path(), bad.as_path());
        assert!(loadable_from(bare, &listed(&[good, bad])).is_ok());
        assert!(loadable_from(bare, OsStr::new("")).is_ok());
        assert!(loadable_from(Path::new("other.so.1"), &listed(&[bad])).is_ok());
        let error = loadable_from(bare, &listed(&[folder.path(), bad, good])).expect_err("a FIFO");
        assert!(error.to_string().contains("a FIFO"), "{error}");
        assert!(loadable_from(&bad.join(bare), &listed(&[good])).is_err());
    }

    #[test]
    fn what_is_no_plain_file_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        fifo(&pipe);
        let link = folder.path().join("link");
        symlink(&pipe, &link).expect("a link");
        for (path, words) in [
            (&*pipe, "a FIFO"),
            (&*link, "a FIFO"),
            (Path::new("/dev/zero"), "a device"),
            (folder.path(), "a directory"),
        ] {
            for error in [read(path, 10).map(drop), loadable(path)] {
                let error = error.expect_err("refused").to_string();
                assert!(error.contains(words), "{}: {error}", path.display());
            }
        }
        let error = read(&folder.path().join("none"), 10).expect_err("not there");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = write(&pipe, b"x").expect_err("a FIFO stays").to_string();
        assert!(error.contains("a FIFO"), "{error}");
    }

    #[test]
    fn what_is_too_long_is_refused_also_where_its_length_is_not_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "0123456789").expect("written");
        assert_eq!(read(&path, 10).expect("short enough"), b"0123456789");
        assert!(read(&path, 9).expect_err("too long").to_string().contains("longer than"));
        assert!(read(Path::new("/proc/self/status"), 9).is_err());
    }

    #[test]
    fn a_mark_at_the_beginning_is_no_text() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "\u{feff}text").expect("written");
        assert_eq!(read_text(&path, 100).expect("text"), "text");
        fs::write(&path, b"a\xff").expect("written");
        let error = read_text(&path, 100).expect_err("no text").to_string();
        assert!(error.contains("not UTF-8 from byte 1"), "{error}");
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let [victim, path] = ["victim", "report"].map(|name| folder.path().join(name));
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, &path).expect("a link");
        write(&path, b"new").expect("written");
        assert_eq!(fs::read(&victim).expect("it is there"), b"precious");
        assert_eq!(fs::read(&path).expect("it is there"), b"new");
        assert!(!fs::symlink_metadata(&path).expect("it is there").is_symlink());
        symlink(&victim, folder.path().join("log")).expect("a link");
        let error = open_to_append(&folder.path().join("log")).expect_err("a link").to_string();
        assert!(error.contains("a symbolic link"), "{error}");
        assert!(write(Path::new("/dev/null"), b"x").is_err(), "a device stays");
    }

    #[test]
    fn files_are_whole_and_nothing_else_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let draft = Draft::beside(&path).expect("a draft");
        draft.file().write_all(b"half").expect("written");
        assert!(!path.exists());
        drop(draft);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        write(&path, b"one").expect("written");
        let again = Draft::beside(&path).expect("a draft").publish(Existing::Kept);
        assert_eq!(again.expect_err("there is one").kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("it is there"), b"one");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o111, 0, "{mode:o}");
    }
}
