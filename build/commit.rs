//! Which commit the program is built from.

use std::{path::Path, process::Command};

/// What the program is made of: a change elsewhere, in documentation or tests, does not change it.
pub const SOURCES: [&str; 17] = [
    "Cargo.toml",
    "Cargo.lock",
    "build.rs",
    "build",
    "src",
    "data",
    "kernels",
    "crates/bench",
    "crates/comm",
    "crates/device",
    "crates/domain",
    "crates/hip-sys",
    "crates/judge",
    "crates/nccl-rs",
    "crates/projection",
    "crates/record",
    "crates/report",
];

/// What git says of a folder's commit (`v0.1.0-3-g0a1b2c3d4e5f`, `0a1b2c3d4e5f` where no tag is
/// before it), with `-dirty` behind it where what the program is made of differs from the commit.
/// None where the folder is no work tree of git's, or is part of somebody else's.
pub fn describe(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let commit = git(root, &["describe", "--always", "--tags", "--abbrev=12"])?;
    let changed = git(root, &[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    Some(if changed.is_empty() { commit } else { format!("{commit}-dirty") })
}

/// Files that change with the commit. Only those that there are: cargo would take one that is not
/// there for changed at each build.
pub fn watched(root: &Path) -> Vec<String> {
    // The log of HEAD grows with each commit, wherever the branch itself is kept.
    let paths = ["HEAD", "logs/HEAD"].map(|name| git(root, &["rev-parse", "--git-path", name]));
    let absolute = |path: String| root.join(path);
    let there = paths.into_iter().flatten().map(absolute).filter(|path| path.exists());
    there.map(|path| path.display().to_string()).collect()
}

/// What git prints, without the end of the line. It may not refresh its index meanwhile: other
/// programs are at work in the same folder.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(arguments).env("GIT_OPTIONAL_LOCKS", "0");
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("src")).expect("made");
        fs::write(folder.path().join("src/lib.rs"), "one").expect("written");
        fs::write(folder.path().join("README.md"), "one").expect("written");
        folder
    }

    fn run(folder: &Path, arguments: &[&str]) {
        let identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"];
        let done = git(folder, &[&identity[..], arguments].concat());
        assert!(done.is_some(), "git {arguments:?}");
    }

    #[test]
    fn a_build_is_named_by_its_commit_and_by_what_differs_from_it() {
        let folder = repository();
        let root = folder.path();
        assert_eq!(describe(root), None, "no git tree");
        run(root, &["init", "-q"]);
        run(root, &["add", "."]);
        run(root, &["commit", "-q", "-m", "one"]);
        let named = describe(root).expect("a commit");
        assert_eq!(named.len(), 12, "{named}");
        // What the program is not made of leaves it what it was.
        fs::write(root.join("README.md"), "two").expect("written");
        assert_eq!(describe(root).as_ref(), Some(&named));
        fs::write(root.join("src/lib.rs"), "two").expect("written");
        assert_eq!(describe(root), Some(format!("{named}-dirty")));
        run(root, &["commit", "-q", "-a", "-m", "two"]);
        let next = describe(root).expect("a commit");
        assert!(next != named && !next.contains("dirty"), "{next}");
        fs::write(root.join("src/new.rs"), "new").expect("written");
        assert_eq!(describe(root), Some(format!("{next}-dirty")), "a new file counts");
        fs::remove_file(root.join("src/new.rs")).expect("removed");
        run(root, &["tag", "v1.2.3"]);
        assert_eq!(describe(root).as_deref(), Some("v1.2.3"));
        assert!(!watched(root).is_empty());
        // Unpacked within somebody else's tree it has no commit of its own.
        assert_eq!(describe(&root.join("src")), None);
    }
}
