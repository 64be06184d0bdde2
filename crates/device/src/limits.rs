//! Limits of power and clock that an operator sets on a device, and how they are put back.

use fizeau_domain::units::{Megahertz, Watts};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
};

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The most power that the device takes.
    Power(Watts),
    /// The clock that its units are held to (a GPU), or that they do not exceed (a host).
    Clock(Megahertz),
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Limit::Power(watts) => write!(f, "power limit {:.0} W", watts.0),
            Limit::Clock(clock) => write!(f, "clock {clock}"),
        }
    }
}

/// What a limit can be set to, in watts or MHz.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The limit that is in force.
    pub now: f64,
    /// The least that can be set.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// The limit where nobody has set one.
    pub default: f64,
}

/// What can be set on a device, or why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adjustable {
    /// Of power, watts.
    pub power: Result<Range, String>,
    /// Of the clock, MHz.
    pub clock: Result<Range, String>,
}

/// One device's limits. What was there when this was made is what [`Limits::restore`] puts back.
pub trait Limits {
    /// What can be set.
    fn adjustable(&self) -> Adjustable;

    /// Sets a limit, and reads it back.
    ///
    /// # Errors
    /// In words: what the driver or the kernel refused, or what it made of it.
    fn set(&mut self, limit: Limit) -> Result<(), String>;

    /// Puts back what was set, and reads it back. Nothing where nothing was set.
    ///
    /// # Errors
    /// In words: what could not be put back, and how to do it by hand.
    fn restore(&mut self) -> Result<(), String>;
}

/// Files of the kernel (sysfs) that hold one limit, with what stood in each before.
#[derive(Debug)]
pub struct Files {
    saved: Vec<(PathBuf, String)>,
    is_set: bool,
}

impl Files {
    /// The files that there are, with what stands in them.
    ///
    /// # Errors
    /// In words: where there is none, one cannot be read, or it may not be written to.
    pub fn open(paths: Vec<PathBuf>, missing: &str) -> Result<Files, String> {
        let mut saved = Vec::new();
        for path in paths {
            let refuse = |error: std::io::Error| format!("{}: {error}", path.display());
            let text = fs::read_to_string(&path).map_err(refuse)?;
            OpenOptions::new().write(true).open(&path).map_err(refuse)?;
            saved.push((path, text.trim().to_owned()));
        }
        if saved.is_empty() { Err(missing.into()) } else { Ok(Files { saved, is_set: false }) }
    }

    /// What stood in the first of them.
    ///
    /// # Errors
    /// In words: where it is no number.
    pub fn before(&self) -> Result<f64, String> {
        let (path, text) = &self.saved[0];
        text.parse().map_err(|_| format!("{}: {text:?} is no number", path.display()))
    }

    /// The directory of the first of them.
    pub fn folder(&self) -> &Path {
        self.saved[0].0.parent().unwrap_or(Path::new("/"))
    }

    /// Writes a number to all of them.
    ///
    /// # Errors
    /// In words: what was refused, or reads otherwise afterwards.
    pub fn set(&mut self, value: u64) -> Result<(), String> {
        self.is_set = true;
        self.saved.iter().try_for_each(|(path, _)| write(path, &value.to_string()))
    }

    /// Writes what stood there before.
    ///
    /// # Errors
    /// In words: which file has what instead; all are tried.
    pub fn restore(&mut self) -> Result<(), String> {
        if !self.is_set {
            return Ok(());
        }
        let by_hand = |(path, text): &(PathBuf, String)| {
            write(path, text).err().map(|why| format!("{why}; write {text} to it by hand"))
        };
        let faults: Vec<String> = self.saved.iter().filter_map(by_hand).collect();
        self.is_set = !faults.is_empty();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }
}

/// Writes a word to a file of the kernel, and reads it back.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let shown = path.display();
    fs::write(path, format!("{text}\n")).map_err(|error| format!("{shown}: {error}"))?;
    let now = fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    match now.trim() == text {
        true => Ok(()),
        false => Err(format!("{shown} was given {text} and reads {}", now.trim())),
    }
}

/// A number in a file of a folder.
///
/// # Errors
/// In words: where it is not there, or no number.
pub fn number(folder: &Path, file: &str) -> Result<f64, String> {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.trim().parse().map_err(|_| format!("{}: {:?} is no number", path.display(), text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hold_again_what_they_held() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        paths.iter().for_each(|path| fs::write(path, "700000000\n").expect("written"));
        let mut files = Files::open(paths.to_vec(), "none").expect("files");
        assert_eq!(files.before(), Ok(7e8));
        assert_eq!(files.restore(), Ok(()), "nothing was set");
        files.set(500).expect("set");
        let read = |path: &PathBuf| fs::read_to_string(path).expect("there");
        assert!(paths.iter().all(|path| read(path) == "500\n"));
        assert_eq!(files.restore(), Ok(()));
        assert!(paths.iter().all(|path| read(path) == "700000000\n"));
        // A file that goes away meanwhile is named.
        files.set(400).expect("set");
        fs::remove_file(&paths[1]).expect("removed");
        fs::create_dir(&paths[1]).expect("made");
        let fault = files.restore().expect_err("a directory takes no number");
        assert!(fault.contains("write 700000000 to it by hand"), "{fault}");
        assert_eq!(read(&paths[0]), "700000000\n", "the others are tried all the same");
        assert!(Files::open(vec![folder.path().join("c")], "none").is_err());
        assert_eq!(Files::open(Vec::new(), "none").expect_err("no file"), "none");
    }
}
