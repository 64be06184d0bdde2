//! Images of kernels that are kept from one run to the next: what is wrong with one is found, and
//! it is made again.

use super::machine::{Machine, NVIDIA};
use crate::skipped;
use fizeau_domain::outcome::Outcome;
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, chown},
    path::PathBuf,
};

const ONE: &[&str] = &["stream/copy/512KiB/1u/cached"];

/// A run of one case, which is measured or skipped; how often its kernel was compiled.
#[track_caller]
fn compiled(machine: &Machine, script: &str, is_measured: bool) -> usize {
    for old in ["out", "log"] {
        let path = machine.place.path(old);
        let _ = fs::remove_dir_all(&path);
        let _ = fs::remove_file(&path);
    }
    let (said, record) = machine.run_of(script, ONE);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let [outcome] = &record.outcomes[..] else { panic!("{:?}", record.outcomes) };
    assert_eq!(matches!(outcome, Outcome::Measured(_)), is_measured, "{outcome:?}");
    machine.log().iter().filter(|line| line.starts_with("options stream/cached.cu ")).count()
}

/// The kept image of that case's kernel, if there is one.
fn kept(machine: &Machine) -> Option<PathBuf> {
    let files = fs::read_dir(machine.place.path("cache/fizeau")).ok()?;
    let mut paths = files.map(|file| file.expect("an entry").path());
    paths.find(|path| path.to_string_lossy().contains("stream-cached"))
}

#[test]
fn an_image_that_is_cut_exchanged_or_somebody_elses_is_made_again() {
    let machine = Machine::with(&NVIDIA);
    if compiled(&machine, "", true) == 0 {
        return skipped::because("kernels", "this build has binaries of its kernels");
    }
    assert_eq!(compiled(&machine, "", true), 0, "what was kept is taken");
    let path = kept(&machine).expect("an image");
    let whole = fs::read(&path).expect("it can be read");

    // As a full disk or a power cut leaves it.
    fs::write(&path, &whole[..whole.len() / 2]).expect("cut");
    assert_eq!(compiled(&machine, "", true), 1, "cut");
    assert_eq!(fs::read(&path).expect("it is there").len(), whole.len());

    // Another kernel's image, whole, under this one's name.
    let other = |entry: &fs::DirEntry| entry.path() != path;
    let files = fs::read_dir(path.parent().expect("a folder")).expect("the cache");
    let other = files.flatten().find(other).expect("another kernel's image").path();
    fs::copy(other, &path).expect("exchanged");
    assert_eq!(compiled(&machine, "", true), 1, "exchanged");
    assert_eq!(compiled(&machine, "", true), 0, "and kept");

    // A whole image that somebody else has put there.
    let own = fs::metadata(&path).expect("it is there").uid();
    match chown(&path, Some(12_345), None) {
        Ok(()) => {
            assert_eq!(compiled(&machine, "", true), 1, "somebody else's");
            assert_eq!(fs::metadata(&path).expect("it is there").uid(), own);
        }
        Err(error) => skipped::because("root", format!("no file can be given away: {error}")),
    }
}

#[test]
fn an_image_that_the_driver_refuses_is_removed_and_made_again() {
    let machine = Machine::with(&NVIDIA);
    let script = "driver=13000";
    if compiled(&machine, script, true) == 0 {
        return skipped::because("kernels", "this build has binaries of its kernels");
    }
    assert!(kept(&machine).is_some());
    // The driver was exchanged for an older one, which loads nothing of this compiler.
    assert!(compiled(&machine, "driver=13000,images=12", false) >= 1, "made again");
    assert_eq!(kept(&machine), None, "what the driver refuses is not kept");
    assert_eq!(compiled(&machine, script, true), 1);
    assert!(kept(&machine).is_some());
}
