//! Files of kernels that a user brings, read and checked, but not loaded.

#![expect(unsafe_code, reason = "a process that code of the user's holds up is left by _exit")]

use super::trust;
use fizeau_domain::{
    case::KernelName,
    kernel::{
        Operation,
        manifest::{File, KernelRow},
        user::{self, ENDINGS, Form},
    },
    text::hex,
};
use fizeau_record::{UserKernels, file};
use sha2::{Digest as _, Sha256};
use std::{
    ffi::c_int,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// The largest file of kernels that is read: images of libraries with thousands of kernels are
/// smaller.
const SIZE_MAX: u64 = 512 << 20;

/// The largest section beside one.
const SECTION_MAX: u64 = 1 << 20;

/// A file of a user's kernels.
#[derive(Clone, Debug)]
pub struct UserFile {
    /// As it was given.
    pub path: PathBuf,
    /// What it is.
    pub form: Form,
    /// Its bytes; of a library none, since the loader reads it.
    pub bytes: Vec<u8>,
    /// What stands beside it.
    pub section: File,
    /// The same as a record has it.
    pub told: UserKernels,
}

impl UserFile {
    /// Reads a file and the section beside it: the file of the same name that ends in `.toml`.
    ///
    /// # Errors
    /// In words for users: which of the two cannot be read, or what is wrong in it.
    pub fn read(path: &Path) -> Result<UserFile, String> {
        let shown = path.display();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let form = ENDINGS.iter().find(|(known, _)| *known == ending).map(|(_, form)| *form);
        let form = form.ok_or_else(|| {
            let known: Vec<String> = ENDINGS.iter().map(|(known, _)| format!(".{known}")).collect();
            format!("{shown}: a file of kernels ends in {}", known.join(", "))
        })?;
        let read = trust::of_root(path).and_then(|()| file::read(path, SIZE_MAX));
        let bytes = read.map_err(|error| format!("{shown}: {error}"))?;
        let beside = path.with_extension("toml");
        let text = file::read_text(&beside, SECTION_MAX).map_err(|error| {
            let place = beside.display();
            let why = format!("{place}, which says how {shown} is launched: {error}");
            match beside.exists() {
                true => why,
                false => format!("{why}; for one kernel it holds:\n{}", least_section(form)),
            }
        })?;
        let section = user::section(&text, &shown.to_string(), form)
            .map_err(|why| format!("{}: {why}", beside.display()))?;
        let mut names: Vec<String> = section.kernels.iter().map(|row| row.name.clone()).collect();
        names.sort();
        names.dedup();
        let told = UserKernels {
            names,
            path: shown.to_string(),
            sha256: hex(&Sha256::digest(&bytes)),
            section_sha256: hex(&Sha256::digest(&text)),
        };
        let bytes = if form == Form::Library { Vec::new() } else { bytes };
        Ok(UserFile { path: path.to_owned(), form, bytes, section, told })
    }

    /// An error where fizeau has a kernel of a name of its kernels, on the device that is measured,
    /// or a file before it one of the same name for the same operation.
    ///
    /// # Errors
    /// Which one.
    pub fn collides(
        &self,
        is_own: impl Fn(&str) -> bool,
        before: &[UserFile],
    ) -> Result<(), String> {
        let beside = self.section_path();
        for row in &self.section.kernels {
            let (name, operation) = (&row.name, row.operation);
            if is_own(name) {
                return Err(format!(
                    "{beside}: fizeau has a kernel that is named {name:?}; choose another name"
                ));
            }
            let same = |file: &&UserFile| file.row(operation, name).is_some();
            if let Some(other) = before.iter().find(same) {
                let other = other.path.display();
                return Err(format!(
                    "{beside}: {other} has a kernel {name:?} of {operation} too; choose another \
                     name"
                ));
            }
        }
        Ok(())
    }

    /// The file that says how its kernels are launched, as messages show it.
    pub fn section_path(&self) -> String {
        self.path.with_extension("toml").display().to_string()
    }

    /// Its kernel of an operation and a name.
    pub fn row(&self, operation: Operation, name: &str) -> Option<&KernelRow> {
        let mut rows = self.section.kernels.iter();
        rows.find(|row| row.operation == operation && row.name == name)
    }

    /// Whether a kernel of this name is in it.
    pub fn has(&self, kernel: &KernelName) -> bool {
        self.told.names.contains(&kernel.0)
    }
}

/// The least that has to stand beside a file of kernels.
fn least_section(form: Form) -> String {
    let (head, more) = match form {
        Form::Library => ("", ""),
        Form::Text | Form::Image => ("targets = [\"sm_90a\"]\n", ", threads = 256"),
    };
    format!(
        "{head}kernels = [{{ operation = \"stream/copy\", name = \"mine\", entry = \
         \"my_copy\"{more} }}]"
    )
}

/// Calls into users' libraries: how many have begun, and how many have ended.
#[derive(Debug, Default)]
pub struct Calls {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Calls {
    /// Makes a call.
    pub fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let said = call();
        self.ended.fetch_add(1, Ordering::Relaxed);
        said
    }

    /// The number of the call that has begun and not ended; `None` where none is under way.
    pub fn under_way(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::Relaxed);
        let begun = self.begun.load(Ordering::Relaxed);
        (begun > ended).then_some(begun)
    }
}

/// Ends this process at once. No destructor runs: `exit` would wait for a library whose
/// initialisers do not return.
pub fn leave(code: u8) -> ! {
    unsafe extern "C" {
        fn _exit(code: c_int) -> !;
    }
    // SAFETY: POSIX's own, of this signature.
    unsafe { _exit(c_int::from(code)) }
}
