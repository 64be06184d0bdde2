//! Directories that only this user can enter, for what ranks of one node share: nobody else can
//! read, guess, plant or exchange what lies there.
//!
//! What is left behind by processes that were killed is removed by the next one that makes an
//! entry: whoever uses an entry holds a lock on it, which ends with its process.

use rustix::{
    fd::OwnedFd,
    fs::{
        AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat,
        unlinkat,
    },
    io::Errno,
    process::geteuid,
};
use std::{
    io,
    path::{Path, PathBuf},
};

/// How often something is tried again that another process removes as abandoned while it is made.
const TRIES: usize = 50;

/// A file or a directory that this process uses in a private directory. It is removed when this
/// goes.
pub struct Entry {
    directory: Directory,
    name: String,
    kind: Kind,
    /// Holds a shared lock.
    file: OwnedFd,
}

/// What an entry is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
}

/// A directory of mode 0700 that belongs to this user, named `fizeau-UID`.
struct Directory {
    file: OwnedFd,
    path: PathBuf,
}

/// Makes a file of mode 0600 that was not there, in the first of some parents where this user has a
/// private directory or can make one.
///
/// # Errors
/// Where there is none (what is wrong with each parent), or whatever the file system says.
pub fn create_file(parents: &[PathBuf], name: &str) -> io::Result<Entry> {
    create(parents, name, Kind::File)
}

/// Makes a directory of mode 0700 in the same way.
///
/// # Errors
/// As [`create_file`].
pub fn create_directory(parents: &[PathBuf], name: &str) -> io::Result<Entry> {
    create(parents, name, Kind::Directory)
}

/// Opens a file that another process of this user has made in the same way, and tells its size in
/// bytes.
///
/// # Errors
/// Where there is no such file, or it is no plain file of this user.
pub fn open_file(parents: &[PathBuf], name: &str) -> io::Result<(OwnedFd, u64)> {
    // Without NONBLOCK a FIFO would be waited for.
    let file = Directory::of(parents)?.open_entry(name, OFlags::RDWR | OFlags::NONBLOCK)?;
    let found = fstat(&file)?;
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if !is_file || found.st_uid != geteuid().as_raw() {
        return Err(io::Error::other(format!("{name} is no plain file of this user")));
    }
    Ok((file, found.st_size as u64))
}

/// Makes an entry and locks it. Between the two another process may take it for abandoned.
fn create(parents: &[PathBuf], name: &str, kind: Kind) -> io::Result<Entry> {
    for _ in 0..TRIES {
        let directory = Directory::of(parents)?;
        let file = match directory.make(name, kind) {
            // Its directory was empty, and another process that ended has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            made => made?,
        };
        flock(&file, FlockOperation::LockShared)?;
        if fstat(&file)?.st_nlink > 0 {
            return Ok(Entry { directory, name: name.to_owned(), kind, file });
        }
    }
    Err(io::Error::other("another process removes what is made there"))
}

impl Directory {
    fn of(parents: &[PathBuf]) -> io::Result<Directory> {
        let mut reasons = Vec::new();
        for parent in parents {
            let path = parent.join(format!("fizeau-{}", geteuid().as_raw()));
            match Directory::open(&path) {
                Ok(directory) => return Ok(directory),
                Err(error) => reasons.push(format!("{}: {error}", path.display())),
            }
        }
        Err(io::Error::other(format!(
            "there is no directory that this user alone can enter ({}); set TMPDIR to a directory \
             of yours",
            reasons.join("; ")
        )))
    }

    fn open(path: &Path) -> io::Result<Directory> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let make_and_open = || match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(openat(CWD, path, flags, Mode::empty())),
            Err(error) => Err(error),
        };
        let mut opened = make_and_open()?;
        for _ in 0..TRIES {
            // Another process has removed it, which was empty.
            if !matches!(opened, Err(Errno::NOENT)) {
                break;
            }
            opened = make_and_open()?;
        }
        let file = opened?;
        let found = fstat(&file)?;
        if found.st_uid != geteuid().as_raw() {
            return Err(io::Error::other(format!("it belongs to user {}", found.st_uid)));
        }
        if found.st_mode & 0o077 != 0 {
            let mode = found.st_mode & 0o777;
            return Err(io::Error::other(format!("others can enter it (its mode is {mode:o})")));
        }
        Ok(Directory { file, path: path.to_owned() })
    }

    fn make(&self, name: &str, kind: Kind) -> io::Result<OwnedFd> {
        self.remove_abandoned();
        match kind {
            Kind::File => self.open_entry(name, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR),
            Kind::Directory => {
                mkdirat(&self.file, name, Mode::RWXU)?;
                self.open_entry(name, OFlags::DIRECTORY | OFlags::RDONLY)
            }
        }
    }

    fn open_entry(&self, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.file, name, flags, Mode::RUSR | Mode::WUSR)?)
    }

    /// Removes what nobody uses any more. What cannot be removed is left: it does no harm.
    fn remove_abandoned(&self) {
        for (name, kind) in entries(&self.file) {
            let Ok(file) = self.open_entry(&name, OFlags::RDONLY | OFlags::NONBLOCK) else {
                continue;
            };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                self.remove(&name, kind, &file);
            }
        }
    }

    fn remove(&self, name: &str, kind: Kind, file: &OwnedFd) {
        if kind == Kind::File {
            let _ = unlinkat(&self.file, name, AtFlags::empty());
            return;
        }
        for (inner, _) in entries(file) {
            let _ = unlinkat(file, inner, AtFlags::empty());
        }
        let _ = unlinkat(&self.file, name, AtFlags::REMOVEDIR);
    }
}

/// What lies in a directory; nothing where it cannot be read.
fn entries(directory: &OwnedFd) -> Vec<(String, Kind)> {
    let entries = Dir::read_from(directory).into_iter().flatten().flatten();
    let named = entries.map(|entry| {
        let is_directory = entry.file_type() == FileType::Directory;
        let kind = if is_directory { Kind::Directory } else { Kind::File };
        (entry.file_name().to_string_lossy().into_owned(), kind)
    });
    named.filter(|(name, _)| name != "." && name != "..").collect()
}

impl Entry {
    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.directory.path.join(&self.name)
    }

    /// Its name in the private directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The open file.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.directory.remove(&self.name, self.kind, &self.file);
        // Where something else lies in it, it stays.
        let _ = unlinkat(CWD, &self.directory.path, AtFlags::REMOVEDIR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    fn only(parent: &Path) -> PathBuf {
        let mut all = fs::read_dir(parent).expect("it is there");
        all.next().expect("something lies in it").expect("it can be read").path()
    }

    #[test]
    fn what_is_made_is_this_users_alone_and_goes_away() {
        let parent = tempfile::tempdir().expect("a directory");
        let parents = [parent.path().to_owned()];
        let file = create_file(&parents, "one").expect("a file");
        let folder = create_directory(&parents, "two").expect("a directory");
        for (path, mode) in
            [(file.path(), 0o600), (folder.path(), 0o700), (only(parent.path()), 0o700)]
        {
            let found = fs::metadata(&path).expect("it is there").permissions().mode();
            assert_eq!(found & 0o777, mode, "{}", path.display());
        }
        assert!(create_file(&parents, "one").is_err(), "it is there already");
        assert_eq!(open_file(&parents, "one").expect("the same").1, 0);
        fs::write(folder.path().join("inner"), "left behind").expect("it is written");
        drop((file, folder));
        assert_eq!(fs::read_dir(parent.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn what_others_could_have_planted_is_not_taken() {
        let parent = tempfile::tempdir().expect("a directory");
        let parents = [parent.path().to_owned()];
        let kept = create_file(&parents, "kept").expect("a file");
        let folder = only(parent.path());
        symlink("/etc/passwd", folder.join("link")).expect("a link");
        assert!(open_file(&parents, "link").is_err());
        rustix::fs::mknodat(CWD, folder.join("pipe"), FileType::Fifo, Mode::RUSR, 0)
            .expect("a FIFO");
        assert!(open_file(&parents, "pipe").is_err());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("its mode");
        let said = create_file(&parents, "more").err().expect("refused").to_string();
        assert!(said.contains("others can enter it (its mode is 755)"), "{said}");
        drop(kept);
        // Another place for the directory itself.
        let parent = tempfile::tempdir().expect("a directory");
        let elsewhere = tempfile::tempdir().expect("a directory");
        let name = folder.file_name().expect("a name");
        symlink(elsewhere.path(), parent.path().join(name)).expect("a link");
        assert!(create_file(&[parent.path().to_owned()], "one").is_err());
    }

    #[test]
    fn what_a_killed_process_left_is_removed_by_the_next() {
        let parent = tempfile::tempdir().expect("a directory");
        let parents = [parent.path().to_owned()];
        let used = create_file(&parents, "used").expect("a file");
        let folder = only(parent.path());
        // Nobody holds a lock on these.
        fs::write(folder.join("left"), "x").expect("a file");
        fs::create_dir(folder.join("left too")).expect("a directory");
        fs::write(folder.join("left too/inner"), "x").expect("a file");
        let more = create_file(&parents, "more").expect("a file");
        let mut names: Vec<_> = entries(&Directory::open(&folder).expect("it is there").file)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        names.sort();
        assert_eq!(names, ["more", "used"]);
        drop((used, more));
    }

    #[test]
    fn processes_that_come_and_go_at_once_do_not_disturb_each_other() {
        let parent = tempfile::tempdir().expect("a directory");
        let parents = [parent.path().to_owned()];
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let parents = &parents;
                scope.spawn(move || {
                    for round in 0..50 {
                        let name = format!("{thread}-{round}");
                        let entry = create_file(parents, &name).expect("a file");
                        open_file(parents, entry.name()).expect("it stays while it is used");
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(parent.path()).expect("it is there").count(), 0);
    }
}
