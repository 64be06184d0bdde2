//! The texts of kernels, made libraries: the compiler of the host takes what the program hands to
//! NVRTC or hipRTC, with the headers of tests/kernel_model in the place of those whose instructions
//! a CPU lacks.

use std::{
    collections::hash_map::DefaultHasher,
    env, fs,
    hash::{Hash, Hasher},
    io,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Headers of the model.
macro_rules! model {
    ($( $name:literal )*) => {
        &[$( ($name, include_str!(concat!("../../../tests/kernel_model/", $name))) ),*]
    };
}
const MODEL: &[(&str, &str)] = model![
    "banks.h" "gpu.h" "lanes.h" "run.h" "scaled_model.h" "sm80.h" "sm89.h" "sm90.h"
    "sm90_attention.h" "sm100.h" "sm100_attention.h" "sm120.h"
];

/// Lists of kernels: the entries of each file.
const LISTS: [&str; 2] =
    [include_str!("../../../kernels/kernels.toml"), include_str!("../../../kernels/amd.toml")];

/// What is handed over to be compiled.
#[derive(Hash)]
pub struct Source {
    /// The file's path in `kernels/`.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Names and texts of what it includes.
    pub headers: Vec<(String, String)>,
}

/// The entries that the lists have of a file.
fn entries(path: &str) -> Vec<String> {
    let rows = LISTS.iter().filter_map(|list| list.parse::<toml::Table>().ok());
    let files = rows.filter_map(|mut list| match list.remove("file") {
        Some(toml::Value::Array(files)) => Some(files),
        _ => None,
    });
    let here = files.flatten().filter(|file| file["path"].as_str() == Some(path));
    let mut entries: Vec<String> = here
        .filter_map(|file| file["kernels"].as_array().cloned())
        .flatten()
        .filter_map(|row| row["entry"].as_str().map(str::to_owned))
        .collect();
    entries.sort();
    entries.dedup();
    entries
}

/// The entries that a text declares itself, as a user's does which no list has:
/// `KERNEL(128, 2) entry(...)`.
fn declared(text: &str) -> Vec<String> {
    let after = text.split("\nKERNEL(").skip(1).filter_map(|rest| rest.split_once(") "));
    let entries = after.filter_map(|(_, rest)| rest.split_once('('));
    entries.map(|(entry, _)| entry.trim().to_owned()).collect()
}

/// Lanes that go in step on a target, and whether it is AMD's.
fn lanes(target: &str) -> (u32, bool) {
    (if target.starts_with("gfx9") { 64 } else { 32 }, target.starts_with("gfx"))
}

impl Source {
    /// Exchanges one text for another, here and in what it includes; how often.
    pub fn exchange(&mut self, find: &str, replace: &str) -> usize {
        let headers = self.headers.iter_mut().map(|(_, text)| text);
        let mut found = 0;
        for text in headers.chain([&mut self.text]) {
            found += text.matches(find).count();
            *text = text.replace(find, replace);
        }
        found
    }

    /// A library of its entries for a target.
    ///
    /// # Errors
    ///
    /// In the compiler's words.
    pub fn library(&self, target: &str) -> Result<Vec<u8>, String> {
        let mut entries = entries(&self.name);
        if entries.is_empty() {
            entries = declared(&self.text);
        }
        if entries.is_empty() {
            let name = &self.name;
            return Err(format!("{name}: error: no list has this file, and it declares no KERNEL"));
        }
        let (lanes, is_amd) = lanes(target);
        let before = if is_amd { "#include \"lanes.h\"\n" } else { "" };
        let all: String = entries.iter().map(|entry| format!(" ENTRY({entry})")).collect();
        let main = format!(
            "#include \"gpu.h\"\n{before}#include \"text.h\"\n#define ENTRIES{all}\n\
             #include \"run.h\"\n"
        );
        let compiler = compiler();
        let mut options: Vec<String> = OPTIONS.iter().map(|&option| option.to_owned()).collect();
        options.push(format!("-DMODEL_LANES={lanes}"));
        if target.starts_with("gfx125") {
            options.push("-DMODEL_CDNA5".into());
        }
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("fma") {
            options.push("-mfma".into());
        }
        let mut hasher = DefaultHasher::new();
        (self, MODEL, &main, &options, compiler).hash(&mut hasher);
        let name = format!("{}-{:016x}", self.name.replace(['/', '.'], "-"), hasher.finish());
        let make = |folder: &Path| self.compile(folder, &main, &options);
        kept(&name, make)
    }

    /// Compiles it in a folder of its own.
    fn compile(&self, folder: &Path, main: &str, options: &[String]) -> Result<Vec<u8>, String> {
        let told = |error: io::Error| format!("{}: error: {error}", self.name);
        fs::create_dir_all(folder).map_err(told)?;
        let headers = self.headers.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let own = [("text.h", self.text.as_str()), ("main.cpp", main)];
        for (name, text) in headers.chain(MODEL.iter().copied()).chain(own) {
            fs::write(folder.join(name), text).map_err(told)?;
        }
        let (program, _) = compiler();
        let made = Command::new(program)
            .args(options)
            .args(["-o", "made.so", "main.cpp"])
            .current_dir(folder)
            .output()
            .map_err(|error| format!("{}: error: {program}: {error}", self.name))?;
        let library = if made.status.success() {
            fs::read(folder.join("made.so")).map_err(told)
        } else {
            Err(String::from_utf8_lossy(&made.stderr).into_owned())
        };
        let _ = fs::remove_dir_all(folder);
        library
    }
}

/// Products and sums stay two operations: the text says which are one.
const OPTIONS: [&str; 8] = [
    "-std=c++17",
    "-O1",
    "-w",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-s",
];

/// The host's compiler, and what it says it is.
fn compiler() -> &'static (String, String) {
    static COMPILER: OnceLock<(String, String)> = OnceLock::new();
    COMPILER.get_or_init(|| {
        let program = env::var("CXX").unwrap_or_else(|_| "c++".into());
        let said = Command::new(&program).arg("--version").output();
        let version = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
        (program, version.unwrap_or_default())
    })
}

/// What was made before under this name, else makes it. Nothing depends on the folder, which the
/// variable `FIZEAU_STUB_CACHE` names: without one, everything is made where it is needed.
fn kept(name: &str, make: impl Fn(&Path) -> Result<Vec<u8>, String>) -> Result<Vec<u8>, String> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let own = format!("{name}-{}-{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let Some(cache) = env::var_os("FIZEAU_STUB_CACHE").map(PathBuf::from) else {
        return make(&env::temp_dir().join(own));
    };
    let path = cache.join(name);
    // One process makes it, the others wait.
    let lock = fs::create_dir_all(&cache)
        .and_then(|()| fs::File::create(cache.join(format!("{name}.lock"))));
    let _held = lock.and_then(|lock| lock.lock().map(|()| lock));
    if let Some(library) = fs::read(&path).ok().and_then(whole) {
        // scripts/check.sh removes what nobody has asked for in a month.
        let now = fs::FileTimes::new().set_modified(std::time::SystemTime::now());
        let _ = fs::File::options().append(true).open(&path).and_then(|file| file.set_times(now));
        return Ok(library);
    }
    let library = make(&cache.join(&own))?;
    let part = cache.join(format!("{own}.part"));
    let with_sum = [&library[..], &sum(&library)].concat();
    let _ = fs::write(&part, with_sum).and_then(|()| fs::rename(&part, &path));
    Ok(library)
}

/// A hash that tells damage.
fn sum(bytes: &[u8]) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish().to_le_bytes()
}

/// What was kept, without the sum behind it; nothing where it is damaged.
fn whole(mut kept: Vec<u8>) -> Option<Vec<u8>> {
    let behind = kept.split_off(kept.len().checked_sub(8)?);
    (sum(&kept)[..] == behind).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_is_not_taken_for_what_was_kept() {
        let kept = [&b"a library"[..], &sum(b"a library")].concat();
        assert_eq!(whole(kept.clone()).as_deref(), Some(&b"a library"[..]));
        for at in 0..kept.len() {
            let mut damaged = kept.clone();
            damaged[at] ^= 1;
            assert_eq!(whole(damaged), None, "byte {at}");
            assert_eq!(whole(kept[..at].to_vec()), None, "cut at {at}");
        }
    }

    #[test]
    fn lists_name_the_entries_of_files_and_targets_their_lanes() {
        let found = entries("launch/portable.cu");
        assert_eq!(found, ["launch_count"]);
        assert!(entries("stream/portable.cu").len() > 15 && entries("stream/none.cu").is_empty());
        let text = "\nKERNEL(128, 2) one(const P p, MAP a) {\n}\nKERNEL(64, 1) two(const P p) {}";
        assert_eq!(declared(text), ["one", "two"]);
        assert_eq!((lanes("sm_90a"), lanes("gfx942")), ((32, false), (64, true)));
        assert_eq!(lanes("gfx1100"), (32, true));
    }
}
