//! Every number that a part's file states of its memory and its arithmetic, with what each is the
//! number of: what a datasheet, a post or a tool may print of the part.

use super::part::{GpuFile, HostFile, keys};
use crate::dtype::Dtype;

/// What a number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Memory bandwidth, bytes each second.
    Memory,
    /// The cache on the memory's side, bytes each second.
    Cache,
    /// Arithmetic on operands of an element type, operations each second.
    Arithmetic(Dtype),
}

/// One number of a part's file.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The field that has it, as `unverified` names fields: `peak.fp16_matrix`.
    pub field: String,
    /// What it is of.
    pub of: Of,
    /// Bytes or operations each second.
    pub rate: f64,
    /// In words: "dense fp16 on matrix units, accumulated in fp16".
    pub how: String,
    /// Whether it is of a package whose dies appear as devices, and not of one device.
    pub is_package: bool,
    /// Whether it is with structured sparsity.
    pub is_sparse: bool,
    /// Whether the part's main numbers have it, and not another text of the vendor alone.
    pub is_main: bool,
    /// Whether matrix units reach it, or vector units; none where the file does not say.
    pub is_matrix: Option<bool>,
    /// In what products are accumulated, where that is narrower than usual.
    pub accumulate: Option<Dtype>,
    /// Whether a text of the vendor confirms it.
    pub is_confirmed: bool,
}

impl Figure {
    fn new(field: &str, of: Of, rate: f64, how: String) -> Figure {
        Figure {
            field: field.into(),
            of,
            rate,
            how,
            is_package: false,
            is_sparse: false,
            is_main: true,
            is_matrix: None,
            accumulate: None,
            is_confirmed: true,
        }
    }
}

/// Whether a list of unverified fields names a field: by its whole name, by its table, or by its
/// last part.
fn names(unverified: &[String], field: &str) -> bool {
    let (table, key) = field.split_once('.').unwrap_or((field, field));
    unverified.iter().any(|one| one == field || one == key || one == table)
}

/// The element type that a key of `[peak]` begins with.
fn dtype_of(key: &str) -> Option<Dtype> {
    let name = key.split('_').next()?;
    let first = [
        Dtype::F64,
        Dtype::F32,
        Dtype::Tf32,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::Fp8,
        Dtype::Fp6,
        Dtype::Fp4,
        Dtype::Int8,
    ];
    first.into_iter().find(|dtype| {
        keys(*dtype).first().is_some_and(|known| known.split('_').next() == Some(name))
    })
}

/// The dense figure of a key of `[peak]` in 10^12 operations each second.
fn peak(key: &str, tera: f64) -> Option<Figure> {
    let dtype = dtype_of(key)?;
    let name = key.split('_').next()?;
    let is = |word: &str| key.split('_').any(|part| part == word);
    let mut how = format!("dense {name}");
    let is_matrix = (is("matrix") || is("vector")).then(|| is("matrix"));
    match is_matrix {
        Some(true) => how += " on matrix units",
        Some(false) => how += " on vector units",
        None => {}
    }
    if is("packed") {
        how += ", two operations in one instruction";
    }
    let accumulate = is("fp16acc").then_some(Dtype::F16);
    if accumulate.is_some() {
        how += ", accumulated in fp16";
    }
    let figure = Figure::new(&format!("peak.{key}"), Of::Arithmetic(dtype), tera * 1e12, how);
    Some(Figure { is_matrix, accumulate, ..figure })
}

fn arithmetic(file: &GpuFile) -> Vec<Figure> {
    let mut found = Vec::new();
    for figure in file.peak.iter().filter_map(|(key, tera)| peak(key, *tera)) {
        let key = figure.field.trim_start_matches("peak.").trim_end_matches("_fp16acc");
        if let Some(factor) = file.sparse_multiplier.get(key) {
            let how = figure.how.replacen("dense ", "", 1);
            let how = format!("{how} with structured sparsity, {factor} x the dense rate");
            let rate = figure.rate * factor;
            found.push(Figure { rate, how, is_sparse: true, ..figure.clone() });
        }
        found.push(figure);
    }
    found
}

fn memory(file: &GpuFile) -> Vec<Figure> {
    let stated = "memory bandwidth";
    let of = |field: &str, giga: f64, how: String| Figure::new(field, Of::Memory, giga * 1e9, how);
    let main = file.memory_bandwidth_gb_per_s;
    let mut found: Vec<Figure> =
        main.into_iter().map(|it| of("memory_bandwidth_gb_per_s", it, stated.into())).collect();
    let alternatives = file.memory_bandwidth_alt_gb_per_s.iter();
    found.extend(alternatives.map(|giga| {
        let how = format!("{stated}, as another text of the vendor has it");
        Figure { is_main: false, ..of("memory_bandwidth_alt_gb_per_s", *giga, how) }
    }));
    let pins = [
        (file.memory_data_rate_gbit_per_s_per_pin, "memory_data_rate_gbit_per_s_per_pin", ""),
        (
            file.memory_data_rate_max_gbit_per_s_per_pin,
            "memory_data_rate_max_gbit_per_s_per_pin",
            ", overclocked",
        ),
    ];
    for (rate, field, added) in pins {
        let Some((rate, bits)) = rate.zip(file.memory_bus_bits) else { continue };
        let how = format!("what the memory's pins carry: {bits} bits x {rate} Gbit/s{added}");
        let pins = of(field, rate * f64::from(bits) / 8.0, how);
        let is_confirmed = !names(&file.unverified, "memory_bus_bits");
        found.push(Figure { is_main: false, is_confirmed, ..pins });
    }
    found.extend(file.infinity_cache_gb_per_s.map(|giga| {
        let how = "bandwidth of the cache on the memory's side".into();
        Figure::new("infinity_cache_gb_per_s", Of::Cache, giga * 1e9, how)
    }));
    found
}

/// What other texts state of the part.
fn others(file: &GpuFile) -> Vec<Figure> {
    let stated = file.also_stated.iter().filter_map(|also| {
        let figure = match also.key.as_str() {
            "memory_bandwidth_gb_per_s" => {
                Figure::new(&also.key, Of::Memory, also.value * 1e9, String::new())
            }
            key => peak(key, also.value)?,
        };
        let is_package = file.devices_per_package.is_some();
        let field = format!("also_stated.{}", also.key);
        let how = also.what.clone();
        let is_sparse = also.sparse;
        Some(Figure { field, how, is_main: false, is_package, is_sparse, ..figure })
    });
    stated.collect()
}

/// Every number of a file of `data/parts`: of one device, and of its package where that has
/// several.
pub(super) fn of_gpu(file: &GpuFile) -> Vec<Figure> {
    let mut found = arithmetic(file);
    found.extend(memory(file));
    if let Some(devices) = file.devices_per_package {
        let of_package = |figure: &Figure| Figure {
            how: format!("{}, of the package with {devices} dies", figure.how),
            is_package: true,
            ..figure.clone()
        };
        let packages: Vec<Figure> = found.iter().map(of_package).collect();
        for figure in &mut found {
            figure.rate /= f64::from(devices);
            figure.how += ", of one die, which appears as a device";
        }
        found.extend(packages);
    }
    found.extend(others(file));
    for figure in &mut found {
        figure.is_confirmed &= !names(&file.unverified, &figure.field);
    }
    found
}

/// Every number of a file of `data/hosts`.
pub(super) fn of_host(file: &HostFile) -> Vec<Figure> {
    let field = "bandwidth_gb_per_s_per_socket";
    let Some(giga) = file.bandwidth_gb_per_s_per_socket else { return Vec::new() };
    let how = "memory bandwidth of one socket".to_owned();
    let main = Figure::new(field, Of::Memory, giga * 1e9, how.clone());
    let mut found = vec![main];
    if let Some((most, mts)) = file.memory_mts_max.zip(file.memory_mts).filter(|(a, b)| a > b) {
        let how = format!("{how}, with the fastest modules that it takes, {most} MT/s");
        let rate = giga * 1e9 * most / mts;
        found.push(Figure {
            is_main: false,
            ..Figure::new("memory_mts_max", Of::Memory, rate, how)
        });
    }
    for figure in &mut found {
        figure.is_confirmed = !names(&file.unverified, &figure.field);
    }
    found
}

/// What a file states of a part's memory beside bandwidth.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryStated {
    /// Its kind as the file has it: "HBM3e", "DDR5-5600 or LPDDR5X-8000"; may be empty.
    pub kind: String,
    /// Bytes of one package as the vendor prints them; none of a host, whose modules differ.
    pub capacity: Option<f64>,
    /// Bits of the bus of one package, or of one socket.
    pub bus_bits: Option<u32>,
    /// Channels of a socket.
    pub channels: Option<u32>,
    /// Transfers of one pin each second: as stated, and with the fastest memory that is met with.
    pub pin: Option<f64>,
    /// The most of it.
    pub pin_most: Option<f64>,
}

impl MemoryStated {
    /// Of a file of `data/parts`.
    pub(super) fn of_gpu(file: &GpuFile) -> MemoryStated {
        MemoryStated {
            kind: file.memory_type.clone(),
            capacity: Some(file.capacity_gb * 1e9),
            bus_bits: file.memory_bus_bits,
            channels: None,
            pin: file.memory_data_rate_gbit_per_s_per_pin.map(|giga| giga * 1e9),
            pin_most: file.memory_data_rate_max_gbit_per_s_per_pin.map(|giga| giga * 1e9),
        }
    }

    /// Of a file of `data/hosts`.
    pub(super) fn of_host(file: &HostFile) -> MemoryStated {
        MemoryStated {
            kind: file.memory_type.clone(),
            capacity: None,
            bus_bits: file.memory_channels.map(|it| it * file.memory_bus_bits_per_channel),
            channels: file.memory_channels,
            pin: file.memory_mts.map(|mega| mega * 1e6),
            pin_most: file.memory_mts_max.map(|mega| mega * 1e6),
        }
    }
}

/// Cards for desktops and workstations, and processors with graphics: their makers state a typical
/// boost clock, and drivers raise it further where temperature and power allow.
pub(super) fn boosts_beyond(file: &GpuFile) -> bool {
    ["desktop", "workstation", "iGPU"].iter().any(|kind| file.form_factor.contains(kind))
}

/// Structured sparsity came with compute capability 8.0, and with gfx94x, gfx95x and gfx12xx.
pub(super) fn has_sparsity(file: &GpuFile) -> bool {
    let capability = file.compute_capability.as_ref().and_then(|one| one.parse::<f64>().ok());
    let target = file.gfx_target.as_deref().unwrap_or_default();
    let is_amd = ["gfx94", "gfx95", "gfx12"].iter().any(|one| target.starts_with(one));
    !file.sparse_multiplier.is_empty() || is_amd || capability.is_some_and(|one| one >= 8.0)
}
