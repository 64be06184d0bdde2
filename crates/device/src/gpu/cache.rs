//! Images of kernels that were compiled at run time, kept for the next run.
//!
//! What is read back is given to the driver, which runs it: so an image counts only if this user
//! alone could have written it, which is asked of the opened file and not of its name, and if it is
//! whole. A file ends with the SHA-256 of the key that it was kept under and of the image. Whatever
//! is wrong with a file, the kernel is compiled again and the file replaced.

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, CWD, FileType, Mode, OFlags, fchmod, fstat, fsync, openat, renameat, unlinkat},
    process::geteuid,
};
use sha2::{Digest as _, Sha256};
use std::{
    env,
    fs::{self, DirBuilder, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Bytes of a SHA-256.
const DIGEST: usize = 32;

/// No image of a kernel is as large, in bytes.
const IMAGE_MAX: u64 = 256 << 20;

/// Where images are kept: a directory that belongs to this user and that nobody else may write to.
pub struct Cache {
    folder: OwnedFd,
}

/// What an image is compiled from and by, hashed: nothing else has the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u8; DIGEST]);

impl Key {
    /// The key of these texts, in this order. Each counts with its length, so that no other
    /// division of the same bytes has the same key.
    pub fn of<'t>(texts: impl IntoIterator<Item = &'t str>) -> Key {
        let mut hash = Sha256::new();
        for text in texts {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        Key(hash.finalize().into())
    }

    /// The first half of it, hexadecimal: enough for the name of a file, whose end has it whole.
    pub fn short(&self) -> String {
        self.0[..DIGEST / 2].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What stands at the end of a file with this image.
    fn seal(&self, image: &[u8]) -> [u8; DIGEST] {
        Sha256::new().chain_update(self.0).chain_update(image).finalize().into()
    }
}

impl Cache {
    /// This user's: `$XDG_CACHE_HOME/fizeau`, or `~/.cache/fizeau`. `None` where there is no home,
    /// the directory cannot be made, or it belongs to another user. It only saves time.
    pub fn of_user() -> Option<Cache> {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        Cache::open(&caches.join("fizeau")).ok()
    }

    fn open(path: &Path) -> io::Result<Cache> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // It may be a link to where there is more room: what counts is whose directory it is.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let folder = openat(CWD, path, flags, Mode::empty())?;
        let found = fstat(&folder)?;
        if found.st_uid != geteuid().as_raw() {
            return Err(io::Error::other("it belongs to another user"));
        }
        if found.st_mode & 0o022 != 0 {
            fchmod(&folder, Mode::RWXU)?;
        }
        Ok(Cache { folder })
    }

    /// The image under a name, if it was kept under this key by this user, and is whole.
    pub fn read(&self, name: &str, key: &Key) -> Option<Vec<u8>> {
        // Without NONBLOCK a FIFO would be waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.folder, name, flags, Mode::empty()).ok()?;
        let found = fstat(&file).ok()?;
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        let is_own = found.st_uid == geteuid().as_raw() && found.st_mode & 0o022 == 0;
        if !is_file || !is_own || found.st_size as u64 > IMAGE_MAX {
            return None;
        }
        let mut bytes = Vec::new();
        File::from(file).take(IMAGE_MAX).read_to_end(&mut bytes).ok()?;
        let image = bytes.len().checked_sub(DIGEST)?;
        let seal = bytes.split_off(image);
        (seal == key.seal(&bytes)).then_some(bytes)
    }

    /// Keeps an image, whole or not at all, also where the machine loses power. What cannot be
    /// kept costs the time to compile it again, and nothing else.
    pub fn keep(&self, name: &str, key: &Key, image: &[u8]) {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let beside = format!("{name}.{}-{number}.part", std::process::id());
        if self.write(&beside, name, key, image).is_err() {
            self.remove(&beside);
        }
    }

    fn write(&self, beside: &str, name: &str, key: &Key, image: &[u8]) -> io::Result<()> {
        // Of a process that was killed and had the same number.
        self.remove(beside);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.folder, beside, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        file.write_all(image)?;
        file.write_all(&key.seal(image))?;
        file.sync_all()?;
        renameat(&self.folder, beside, &self.folder, name)?;
        Ok(fsync(&self.folder)?)
    }

    /// Removes an image, if it is there.
    pub fn remove(&self, name: &str) {
        let _ = unlinkat(&self.folder, name, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    const NAME: &str = "stream-sm_90a.image";

    fn key() -> Key {
        Key::of(["NVRTC 13.0", "text"])
    }

    /// A cache with one image, and the file that it is in.
    fn cache() -> (tempfile::TempDir, Cache, PathBuf) {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("below/fizeau");
        let cache = Cache::open(&path).expect("it is made");
        cache.keep(NAME, &key(), b"image");
        (parent, cache, path.join(NAME))
    }

    #[test]
    fn an_image_is_kept_whole_and_for_this_user_alone() {
        let (_parent, cache, path) = cache();
        assert_eq!(cache.read(NAME, &key()).as_deref(), Some(&b"image"[..]));
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let folder = path.parent().expect("a folder");
        assert_eq!((mode(&path), mode(folder)), (0o600, 0o700));
        // Nothing is left beside it, and it can be replaced and removed.
        cache.keep(NAME, &key(), b"another");
        assert_eq!(fs::read_dir(folder).expect("a folder").count(), 1);
        assert_eq!(cache.read(NAME, &key()).as_deref(), Some(&b"another"[..]));
        cache.remove(NAME);
        assert_eq!(cache.read(NAME, &key()), None);
    }

    #[test]
    fn a_key_is_of_each_text_and_its_place() {
        let keys = [
            Key::of(["ab", "c"]),
            Key::of(["a", "bc"]),
            Key::of(["abc"]),
            Key::of(["abc", ""]),
            Key::of(["c", "ab"]),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(keys[..at].iter().all(|other| other != key), "{at}");
        }
        assert_eq!(Key::of(["ab", "c"]), keys[0]);
    }

    #[test]
    fn an_image_that_is_cut_changed_or_kept_under_another_key_does_not_count() {
        let (_parent, cache, path) = cache();
        assert_eq!(cache.read(NAME, &Key::of(["NVRTC 13.0", "other text"])), None);
        let whole = fs::read(&path).expect("the file");
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).expect("cut");
            assert_eq!(cache.read(NAME, &key()), None, "{length} bytes");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(&path, &changed).expect("changed");
            assert_eq!(cache.read(NAME, &key()), None, "byte {at}");
        }
        cache.keep(NAME, &key(), b"image");
        assert_eq!(cache.read(NAME, &key()).as_deref(), Some(&b"image"[..]));
    }

    #[test]
    fn a_file_that_others_could_have_written_does_not_count() {
        let (parent, cache, path) = cache();
        for mode in [0o620, 0o602, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
            assert_eq!(cache.read(NAME, &key()), None, "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("its mode");
        assert!(cache.read(NAME, &key()).is_some());
        if geteuid().is_root() {
            chown(&path, Some(12_345), None).expect("root may");
            assert_eq!(cache.read(NAME, &key()), None, "another user's file");
            chown(&path, Some(0), None).expect("root may");
        }
        let elsewhere = parent.path().join("elsewhere");
        fs::rename(&path, &elsewhere).expect("moved");
        symlink(&elsewhere, &path).expect("a link");
        assert_eq!(cache.read(NAME, &key()), None, "a link");
        cache.keep(NAME, &key(), b"image");
        assert!(!path.is_symlink() && cache.read(NAME, &key()).is_some(), "the link is replaced");
        cache.remove(NAME);
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
        assert_eq!(cache.read(NAME, &key()), None, "a FIFO");
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_closed_to_them_and_a_foreign_one_is_not_used() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("fizeau");
        fs::create_dir(&path).expect("made");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("its mode");
        assert!(Cache::open(&path).is_ok());
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o700);
        if geteuid().is_root() {
            chown(&path, Some(12_345), None).expect("root may");
            assert!(Cache::open(&path).is_err());
        }
        let file = parent.path().join("file");
        fs::write(&file, "").expect("written");
        assert!(Cache::open(&file).is_err());
    }
}
