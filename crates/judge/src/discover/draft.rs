//! A draft of a part's file: what the driver says, what was measured, and what is not known, each
//! told from the others.

use super::{ArithmeticFound, Discovery, unknown};
use fizeau_domain::spec::{STUB, key_of};
use fizeau_record::Record;
use std::collections::BTreeMap;

/// A draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The folder of a catalogue that it belongs in: `parts` or `hosts`.
    pub folder: &'static str,
    /// Its file's name without an ending.
    pub name: String,
    /// The file's text.
    pub text: String,
}

/// Significant digits of a measured number: more would not come out the same again.
const DIGITS: i32 = 4;

/// A file that is being written, and which of its fields are whose.
#[derive(Default)]
struct File {
    lines: Vec<String>,
    /// Tables come after all fields.
    tables: Vec<String>,
    measured: Vec<String>,
    told: Vec<String>,
    is_stub: bool,
}

impl File {
    /// What the driver or the operating system says.
    fn told(&mut self, key: &str, value: impl Into<toml::Value>) {
        self.lines.push(format!("{key} = {}", value.into()));
        self.told.push(key.into());
    }

    /// A number that was measured; a stub's is none.
    fn measured(&mut self, key: &str, value: Option<f64>) {
        let Some(value) = value else { return };
        if self.is_stub {
            self.lines.push(format!("# {key}: {STUB}"));
            return;
        }
        self.lines.push(format!("{key} = {:?}", rounded(value)));
        self.measured.push(key.into());
    }

    /// A table of numbers that were measured.
    fn table(&mut self, name: &str, values: &BTreeMap<String, f64>) {
        self.tables.extend([String::new(), format!("[{name}]")]);
        for (key, &value) in values {
            if self.is_stub {
                self.tables.push(format!("# {key}: {STUB}"));
                continue;
            }
            self.tables.push(format!("{key} = {:?}", rounded(value)));
            self.measured.push(format!("{name}.{key}"));
        }
    }

    fn list(&mut self, key: &str, values: &[String]) {
        self.lines.push(format!("{key} = {}", toml::Value::from(values.to_vec())));
    }

    fn text(self) -> String {
        let mark = if self.is_stub { " # stub" } else { "" };
        let line = |line: String| match line.is_empty() {
            true => "\n".to_owned(),
            false => format!("{line}{mark}\n"),
        };
        self.lines.into_iter().chain(self.tables).map(line).collect()
    }
}

/// A number of few digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(DIGITS - 1 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// A name that a file can have, from the device's own: `nvidia-h200`.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    let words: String = name.chars().map(plain).take(60).collect();
    let joined = words.split_whitespace().collect::<Vec<_>>().join("-");
    if joined.is_empty() { "unknown".into() } else { joined }
}

/// The draft of what a record tells; `name` where the user gave one. A known part's keeps its name,
/// so that it stands for the table's file.
pub fn draft(record: &Record, found: &Discovery, name: Option<&str>) -> Draft {
    let device = &record.header.device;
    let is_host = device.backend == "host";
    let mut file = File { is_stub: device.is_stub(), ..File::default() };
    file.lines.extend([
        "# A draft by `fizeau discover`. No vendor stated any of it.".into(),
        "# `measured` names rates that were reached. They are used as no limit until their".into(),
        "# names are taken out of that list.".into(),
        "# `unverified` names what the driver or the operating system says.".into(),
    ]);
    file.lines.push(format!("vendor = {}", toml::Value::from(device.vendor.as_str())));
    file.lines.push(format!("name = {}", toml::Value::from(device.name.as_str())));
    match is_host {
        true => host(&mut file, record, found),
        false => gpu(&mut file, record, found),
    }
    let (told, measured) = (file.told.clone(), file.measured.clone());
    file.list("unverified", &told);
    file.list("measured", &measured);
    let missing: &[&str] = match is_host {
        true => &["core", "memory_channels", "memory_type", "memory_mts", "l3_mib_max"],
        false => &["arch", "form_factor", "release_year", "memory_type", "tdp_w", "link"],
    };
    file.list("missing", &missing.iter().map(|&field| field.to_owned()).collect::<Vec<_>>());
    file.list("notes", &notes(found, is_host, device.is_stub()));
    file.tables.extend([String::new(), "[[source]]".into()]);
    let header = &record.header;
    let title =
        format!("fizeau {} discover, run {}, {}", header.fizeau, header.run, header.started);
    file.tables.push(format!("title = {}", toml::Value::from(title)));
    file.tables.push("kind = \"measured\"".into());
    let known = name.map(str::to_owned).or_else(|| header.part.clone());
    Draft {
        folder: if is_host { "hosts" } else { "parts" },
        name: known.unwrap_or_else(|| file_name(&device.name)),
        text: file.text(),
    }
}

fn gpu(file: &mut File, record: &Record, found: &Discovery) {
    let device = &record.header.device;
    file.list("aliases", std::slice::from_ref(&device.name));
    file.list("pci_ids", &device.pci_id.iter().cloned().collect::<Vec<_>>());
    let is_nvidia = device.backend == "cuda";
    let target = |start: &str| {
        let of = device.features.iter().filter(|feature| feature.starts_with(start));
        of.max_by_key(|feature| feature.len()).cloned()
    };
    match is_nvidia {
        true => file.lines.extend(target("sm_").map(|target| format!("# target: {target}"))),
        false => file.lines.extend(
            target("gfx").map(|target| format!("gfx_target = {}", toml::Value::from(target))),
        ),
    }
    file.lines.push(format!("unit = \"{}\"", if is_nvidia { "SM" } else { "CU" }));
    file.told("units", i64::from(device.units));
    if let Some(clock) = device.clock {
        file.told("boost_clock_mhz", clock.0);
    }
    let gigabytes = device.memory.0 as f64 / 1e9;
    file.told("capacity_gb", rounded(gigabytes));
    if let Some([generation, lanes]) = device.pcie {
        file.told("pcie_gen", i64::from(generation));
        file.told("pcie_lanes", i64::from(lanes));
    }
    let best = found.memory.best.as_ref();
    file.measured("memory_bandwidth_gb_per_s", best.map(|(rate, _)| rate.0 / 1e9));
    let last = found.caches.last().map(|cache| cache.size().0 as f64 / 1048576.0);
    file.measured("l2_mb", last);
    let mut peaks: BTreeMap<String, f64> = BTreeMap::new();
    let mut per_clock: BTreeMap<String, f64> = BTreeMap::new();
    for one in &found.arithmetic {
        let Some(key) = key_of_found(one) else { continue };
        if peaks.get(key).is_none_or(|peak| *peak < one.rate.0 / 1e12) {
            peaks.insert(key.into(), one.rate.0 / 1e12);
            per_clock.extend(one.per_clock.map(|rate| (key.to_owned(), rate)));
        }
    }
    file.table("peak", &peaks);
    file.table("flop_per_clk_per_unit", &per_clock);
}

/// The key that a table has for what was measured: kernels of vector units are named so.
fn key_of_found(one: &ArithmeticFound) -> Option<&'static str> {
    key_of(one.dtype, !one.kernel.starts_with("vector"))
}

fn host(file: &mut File, record: &Record, found: &Discovery) {
    let device = &record.header.device;
    let has = |name: &str| device.features.iter().any(|feature| feature.starts_with(name));
    file.told("avx512", has("avx512f"));
    file.told("amx", has("amx"));
    if let Some(cpu) = device.cpu {
        let (family, model) = (i64::from(cpu.family), i64::from(cpu.model));
        file.told("cpuid_family", family);
        file.told("cpuid_models", vec![vec![model, model]]);
    }
    let best = found.memory.best.as_ref();
    file.measured("bandwidth_gb_per_s_per_socket", best.map(|(rate, _)| rate.0 / 1e9));
    let bytes = |of: &Option<super::PerClock>| of.as_ref().map(|of| of.bytes);
    file.measured("l1_load_bytes_per_clk", bytes(&found.load_per_clock));
    file.measured("l1_store_bytes_per_clk", bytes(&found.store_per_clock));
    let rates = found.arithmetic.iter();
    let rates = rates.filter_map(|one| Some((one.dtype.to_string(), one.per_clock?)));
    file.table("flop_per_clk_per_core", &rates.collect());
}

/// What has no field: caches, latencies, what cannot be known.
fn notes(found: &Discovery, is_host: bool, is_stub: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !is_stub {
        for (number, cache) in (1..).zip(&found.caches) {
            let latency = cache.latency.map(|time| format!(", {time} a load")).unwrap_or_default();
            notes.push(format!("Measured: cache {number} holds {}{latency}.", cache.size()));
        }
        notes.extend(found.line.map(|line| format!("Measured: a line has {line}.")));
        notes.extend(found.memory.latency.map(|time| format!("Measured: memory, {time} a load.")));
        for one in &found.instructions {
            let cycles = one.cycles.map(|cycles| format!(", {cycles:.1} cycles"));
            let (time, cycles) = (one.time, cycles.unwrap_or_default());
            let what = format!("{} ({})", one.point, one.kernel);
            notes.push(format!("Measured: {what} takes {time}{cycles}."));
        }
    }
    let unknown = unknown(found, is_host);
    if !is_stub {
        notes.extend(unknown.into_iter().map(|what| format!("Not known: {what}.")));
    }
    notes
}
