//! Whose code this program runs as root: that of root alone.

use rustix::process::geteuid;
use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Mode of a folder in which a file's owner alone may rename it.
const STICKY: u32 = 0o1000;

/// Refuses a file of code, where this process is root, that another user may change or put another
/// one in the place of.
///
/// # Errors
/// Where it is such a file, or cannot be looked at.
pub fn of_root(path: &Path) -> io::Result<()> {
    match geteuid() {
        user if user.is_root() => of(path, user.as_raw()),
        _ => Ok(()),
    }
}

/// Refuses a file that others than its owner may change.
fn of(path: &Path, owner: u32) -> io::Result<()> {
    let whole = fs::canonicalize(path)?;
    let folder = whole.parent().map(Path::to_owned);
    for place in [whole].into_iter().chain(folder) {
        let found = fs::metadata(&place)?;
        let mode = found.mode();
        let by_others = mode & 0o002 != 0 || mode & 0o020 != 0 && found.gid() != owner;
        let is_kept = found.is_dir() && mode & STICKY != 0;
        if found.uid() != owner && found.uid() != 0 || by_others && !is_kept {
            return Err(refusal(place));
        }
    }
    Ok(())
}

fn refusal(place: PathBuf) -> io::Error {
    io::Error::other(format!(
        "users other than root may write to {}, and root does not run their code: chown it to \
         root, and chmod go-w",
        place.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn code_that_others_may_write_to_is_refused() {
        let own = geteuid().as_raw();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kernel.so");
        fs::write(&path, "code").expect("written");
        let with = |file: u32, of: u32| {
            let set = |path: &Path, mode| {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
            };
            set(&path, file);
            set(folder.path(), of);
            super::of(&path, own).is_ok()
        };
        assert!(with(0o755, 0o755) && with(0o644, 0o700));
        assert!(!with(0o646, 0o755) && !with(0o644, 0o757));
        // Nobody but a file's owner takes it away there, as in /tmp.
        assert!(with(0o644, 0o1777) && !with(0o646, 0o1777));
        // Root's own files are everybody's to run, and another user's are not.
        assert!(with(0o644, 0o755));
        assert_eq!(super::of(&path, own + 1).is_ok(), own == 0);
        assert!(super::of(&folder.path().join("none.so"), own).is_err());
    }
}
