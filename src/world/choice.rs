//! Which device, and how many ranks: by the names of a command line.

use anyhow::Context;
use fizeau_comm::{Alone, Communicator, Planned, host::ThreadRanks, nccl::Engine};
use fizeau_device::{BACKENDS, Backend, Device, DeviceError, clock, fake::Fake};
use fizeau_domain::{case::KernelName, near};

/// The backend that is always there.
pub(super) const HOST: &str = "host";

/// The name of every GPU that there is.
const ALL: &str = "all";

/// Most ranks of one process.
const RANKS_MAX: u32 = 1024;

/// A device or a number of ranks that cannot be had, by what was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoSuchDevice(String);

/// A GPU's driver is installed and does not work: a run that took the host instead would pass off a
/// broken machine as a good one.
#[derive(Debug, thiserror::Error)]
#[error("no GPU can be measured: {0}; or measure the host all the same: --device host")]
pub struct BrokenDriver(DeviceError);

/// What was asked for; an absent field is chosen by what there is.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// A device as `fizeau devices` names it, such as `cuda:1`, or its backend alone.
    pub device: Option<String>,
    /// Ranks of collectives.
    pub ranks: Option<u32>,
}

impl Choice {
    /// The device's name: as given, else the first GPU, else the host.
    ///
    /// # Errors
    /// Where none is given, and the driver of a GPU is installed and does not work.
    pub fn device(&self) -> Result<String, BrokenDriver> {
        if let Some(device) = &self.device {
            return Ok(device.clone());
        }
        for backend in gpu_backends() {
            if let Ok(Some(first)) = backend.devices().map(|devices| devices.into_iter().next()) {
                return Ok(format!("{}:{}", backend.name(), first.ordinal));
            }
            if let Some(error) = backend.broken() {
                return Err(BrokenDriver(error));
            }
        }
        Ok(HOST.into())
    }

    /// The GPUs to measure side by side: all there are for `all`, or those between commas; `None`
    /// where one device is named, or none.
    ///
    /// # Errors
    /// Where there is no GPU, or not this one; where one is named twice, or is no GPU.
    pub fn several(&self) -> anyhow::Result<Option<Vec<String>>> {
        let Some(given) = self.device.as_deref() else { return Ok(None) };
        if given == ALL {
            return every_gpu().map(Some);
        }
        // The script of a fake device has commas of its own.
        if !given.contains(',') || given.starts_with("fake:") {
            return Ok(None);
        }
        let names: Vec<String> = given.split(',').map(|name| name.trim().to_owned()).collect();
        for (place, name) in names.iter().enumerate() {
            let refuse = |why: &str| NoSuchDevice(format!("--device {given}: {name:?} {why}"));
            let Some((family, ordinal)) = name.split_once(':').filter(|_| is_gpu(name)) else {
                return Err(refuse("is no GPU as `fizeau devices` names it, such as cuda:1").into());
            };
            if names[..place].contains(name) {
                return Err(refuse("is there twice").into());
            }
            let count = backend(family)?.devices()?.len();
            if ordinal.parse::<usize>().map_or(true, |ordinal| ordinal >= count) {
                let why = format!("is not there: {family} has {count}, counted from 0");
                return Err(refuse(&why).into());
            }
        }
        Ok(Some(names))
    }

    /// The device of one of many ranks: as given, or the GPU of its place on its node, or the host
    /// where there is no GPU.
    ///
    /// # Errors
    /// Where no backend has the name, or its devices cannot be listed.
    pub fn device_of_rank(&self, place: u32) -> anyhow::Result<String> {
        let name = self.device()?;
        if is_host(&name) || self.device.as_ref().is_some_and(|given| given.contains(':')) {
            return Ok(name);
        }
        let (family, _) = name.split_once(':').unwrap_or((&name, ""));
        let count = backend(family)?.devices()?.len().max(1);
        Ok(format!("{family}:{}", place as usize % count))
    }

    /// The ranks beside a device that is opened by one process alone: threads of the host, or GPUs
    /// that are only planned for.
    ///
    /// # Errors
    /// Where there cannot be as many ranks, or the library that connects GPUs is missing.
    pub fn peers<'d>(&self, device: &'d dyn Device) -> anyhow::Result<Box<dyn Communicator + 'd>> {
        let backend = &device.properties().backend;
        if let Some(ranks) = self.ranks {
            ranks_allowed(ranks)?;
        }
        if let Some(ranks) = self.ranks.filter(|_| matches!(backend.as_str(), "cuda" | "hip")) {
            let engine = Engine::open(backend)?;
            return Ok(Box::new(Planned { kernel: KernelName(engine.name.into()), ranks }));
        }
        let ranks = self.ranks.unwrap_or_else(|| device.properties().units.max(2));
        if !(2..=RANKS_MAX).contains(&ranks) {
            let why = format!("--ranks {ranks}: a world has 2 to {RANKS_MAX} ranks");
            return Err(NoSuchDevice(why).into());
        }
        Ok(match device.capabilities().threads {
            Some(threads) => Box::new(ThreadRanks::new(threads, ranks)),
            None => Box::new(Alone),
        })
    }
}

/// Refuses a number of ranks that one process cannot have.
///
/// # Errors
/// Where it cannot.
pub fn ranks_allowed(ranks: u32) -> Result<(), NoSuchDevice> {
    if (1..=RANKS_MAX).contains(&ranks) {
        return Ok(());
    }
    Err(NoSuchDevice(format!("--ranks {ranks}: a world has 1 to {RANKS_MAX} ranks")))
}

/// The backends of GPUs.
pub fn gpu_backends() -> impl Iterator<Item = &'static dyn Backend> {
    BACKENDS.iter().copied().filter(|backend| backend.name() != HOST)
}

/// The names of all GPUs.
fn every_gpu() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for backend in gpu_backends() {
        match backend.devices() {
            Ok(devices) => names.extend(
                devices.iter().map(|device| format!("{}:{}", backend.name(), device.ordinal)),
            ),
            Err(DeviceError::Missing { .. } | DeviceError::NoDevice { .. }) => {}
            Err(error) => return Err(BrokenDriver(error).into()),
        }
    }
    if names.is_empty() {
        let why = "--device all: there is no GPU here; `fizeau doctor` says what is missing, and \
                   `--device host` measures the host";
        return Err(NoSuchDevice(why.into()).into());
    }
    Ok(names)
}

/// Why no GPU is taken, in one line: for verbs that chose the host themselves.
pub fn without_gpu() -> String {
    let reason = |backend: &dyn Backend| match backend.devices().err()? {
        DeviceError::Missing { .. } if backend.name() == "cuda" => {
            Some((false, "no NVIDIA driver is installed".to_owned()))
        }
        DeviceError::Missing { .. } => Some((false, "no AMD driver is installed".to_owned())),
        DeviceError::NoDevice { what, .. } => Some((true, format!("the driver shows no {what}"))),
        other => Some((true, other.to_string())),
    };
    let mut reasons: Vec<(bool, String)> = gpu_backends().filter_map(reason).collect();
    // Of a driver that is there first.
    reasons.sort_by_key(|(is_there, _)| !is_there);
    match reasons.first() {
        Some((true, _)) => reasons.into_iter().map(|(_, why)| why).collect::<Vec<_>>().join("; "),
        _ => "no driver of a GPU is installed".into(),
    }
}

/// What a record of a run on the host says of GPUs that might have been measured: drivers that are
/// installed, and do not work or show no device.
pub fn unused_drivers() -> Vec<String> {
    let reason = |backend: &dyn Backend| match backend.devices().err()? {
        DeviceError::Missing { .. } => None,
        DeviceError::NoDevice { what, remedy } => {
            Some(format!("a driver is installed and shows no {what}: {remedy}"))
        }
        broken => Some(format!("no GPU was measured: {broken}")),
    };
    gpu_backends().filter_map(reason).collect()
}

/// Whether a device's name is the host's.
pub fn is_host(name: &str) -> bool {
    name.split(':').next() == Some(HOST)
}

/// Whether a device's name is a GPU's.
pub fn is_gpu(name: &str) -> bool {
    matches!(name.split(':').next(), Some("cuda" | "hip"))
}

/// How a GPU is named, by the number that a name holds: `cuda:1` for `GPU1`.
fn numbered(name: &str) -> String {
    let digits: String = name.chars().filter(char::is_ascii_digit).take(4).collect();
    let number = if digits.is_empty() { "0" } else { &digits };
    format!("cuda:{number}, hip:{number}")
}

fn backend(family: &str) -> anyhow::Result<&'static dyn Backend> {
    let found = BACKENDS.iter().find(|backend| backend.name() == family);
    Ok(*found.ok_or_else(|| {
        if family == "fake" {
            let why =
                "a fake device, which is for tests, needs a script, such as fake:wrong-result";
            return NoSuchDevice(why.into());
        }
        let known: Vec<_> = BACKENDS.iter().map(|backend| backend.name()).collect();
        let known = known.join(", ");
        match family == ALL || family.contains(',') {
            true => NoSuchDevice("only `fizeau run` measures several devices: name one".into()),
            false => {
                let near = near::hint(family, BACKENDS.iter().map(|backend| backend.name()));
                NoSuchDevice(format!(
                    "no device is called {family:?}{near}; there are: {known}, with a number \
                     behind it where there are several ({})",
                    numbered(family)
                ))
            }
        }
    })?)
}

/// Opens a device by its name: `host`, `cuda` (its first), `cuda:1`.
///
/// # Errors
/// Where there is no such device, or it cannot be opened; where no time passes, so that nothing
/// could be timed on it.
pub fn open(name: &str) -> anyhow::Result<Box<dyn Device>> {
    clock::check()?;
    // Never in the list of backends: nobody is to meet it by chance.
    if let Some(script) = name.strip_prefix("fake:") {
        let fake = Fake::parse(script).map_err(|error| NoSuchDevice(error.to_string()))?;
        return Ok(fake.open(0)?);
    }
    let (family, ordinal) = name.split_once(':').unwrap_or((name, "0"));
    let backend = backend(family)?;
    // Before the driver is looked for, which may be missing.
    if ordinal.contains(',') {
        let why = format!("{name:?} is not one device: name one, or all, or give --device again");
        return Err(NoSuchDevice(why).into());
    }
    let count = backend.devices().with_context(|| format!("cannot open {name}"))?.len();
    match ordinal.parse::<u32>() {
        Ok(ordinal) if (ordinal as usize) < count => {
            backend.open(ordinal).with_context(|| format!("cannot open {name}"))
        }
        _ => {
            let hides = |by| format!("; {by} says which of the machine's it shows");
            let hidden = backend.hiding().map(hides).unwrap_or_default();
            let why = format!("no device {name}: {family} has {count}, counted from 0{hidden}");
            Err(NoSuchDevice(why).into())
        }
    }
}
