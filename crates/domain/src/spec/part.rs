//! Parts: products with vendor numbers, as `data/parts` and `data/hosts` state them.
//!
//! The files keep everything that is known; a [`Part`] is what the program computes with.

use super::{Figure, MemoryStated, Wire, figures, pcie_bandwidth, wires};
use crate::{
    case::Algorithm,
    dtype::Dtype,
    units::{Bytes, BytesPerSecond, FlopsPerSecond, Megahertz, Watts},
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Bytes of all banks of shared memory.
pub(super) const BANKS_BYTES: f64 = 128.0;

/// A product with vendor numbers; the default is one of which nothing is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Its file's name: `h200-sxm`, `epyc-9005`.
    pub id: String,
    /// As people call it.
    pub name: String,
    /// Who makes it.
    pub vendor: String,
    /// Units of one device (not of a package with several), where that is one number.
    pub units: Option<u32>,
    /// Dense peaks of one device as the vendor prints them.
    pub peaks: BTreeMap<Dtype, FlopsPerSecond>,
    /// Operations that one unit completes each clock.
    pub flops_per_clock: BTreeMap<Dtype, f64>,
    /// Width of a host's memory bus, of one socket, where it is stated. (A GPU's driver says it.)
    pub memory_bus_bits: Option<u32>,
    /// Memory bandwidth of one device; of a whole socket for a host.
    pub memory_bandwidth: Option<BytesPerSecond>,
    /// The same with the fastest memory that this part is met with: overclocked where it can be,
    /// or the best of what texts say; of a host with the fastest modules that it takes.
    pub memory_bandwidth_most: Option<BytesPerSecond>,
    /// Memory of one device.
    pub memory: Option<Bytes>,
    /// Bytes that a unit loads from its first-level cache each clock.
    pub cache_load_per_clock: Option<f64>,
    /// Bytes that a unit stores to it each clock.
    pub cache_store_per_clock: Option<f64>,
    /// Bytes that a core moves each clock to and from what lies beyond its own caches, each way.
    pub core_per_clock: Option<f64>,
    /// Bytes that the second-level caches of a whole GPU deliver each clock.
    pub l2_per_clock: Option<f64>,
    /// What the cache on the memory's side delivers, where there is one whose rate is stated.
    pub memory_cache_bandwidth: Option<BytesPerSecond>,
    /// The most that last-level caches of one socket of a host hold.
    pub last_cache_most: Option<Bytes>,
    /// What one device sends to all its peers together, in one direction.
    pub link_bandwidth: Option<BytesPerSecond>,
    /// What it sends to one peer at most, in one direction: over the links of that pair alone.
    pub pair_bandwidth: Option<BytesPerSecond>,
    /// GPUs that these links connect at most; others are reached over PCI Express or a network.
    pub link_domain: Option<u32>,
    /// Whether a bridge that may not be there makes these links.
    pub bridged: bool,
    /// What the link to the host's memory carries in one direction, where it is not PCI Express.
    pub host_bandwidth: Option<BytesPerSecond>,
    /// The slot: generation and lanes of PCI Express.
    pub pcie: Option<[u32; 2]>,
    /// Kind of the links to peers.
    pub link: Option<String>,
    /// How collectives may be carried out over it.
    pub algorithms: &'static [Algorithm],
    /// The highest clock of a GPU's units that the vendor states. Peaks may be stated at a lower
    /// one.
    pub clock_most: Option<Megahertz>,
    /// What the last-level caches of a GPU hold, together.
    pub cache: Option<Bytes>,
    /// What the network interfaces beside one device carry in one direction, in the vendor's own
    /// system.
    pub network_bandwidth: Option<BytesPerSecond>,
    /// The most power that one device is stated to take.
    pub power: Option<Watts>,
    /// Every number that the file states of memory and arithmetic.
    pub figures: Vec<Figure>,
    /// Its links to peers, host and network.
    pub wires: Vec<Wire>,
    /// What the file states of its memory beside bandwidth.
    pub memory_stated: MemoryStated,
    /// Whether the stated boost clock is what such a card typically reaches, and no maximum: cards
    /// for desktops and workstations run above it where temperature and power allow.
    pub boosts_beyond: bool,
    /// Whether its matrix units skip zeros of structured sparsity: the file states a rate with it,
    /// or the architecture has it (NVIDIA since Ampere; AMD CDNA 3 and 4, RDNA 4).
    pub has_sparsity: bool,
    /// Keys of stated peaks that no kernel reaches by the instructions made for them on this
    /// architecture, each with the reason.
    pub no_native_kernel: BTreeMap<String, String>,
    /// Fields that no vendor's text confirms.
    pub unverified: Vec<String>,
    /// Fields of a draft that `fizeau discover` measured: rates that were reached, and no limits.
    pub measured: Vec<String>,
    /// How many sources the file names.
    pub sources: usize,
    /// What they are: titles, with an address where there is one.
    pub source_titles: Vec<String>,
    pub(super) identity: Identity,
}

/// What a part is recognised by.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Identity {
    /// Names as drivers report them, and PCI ids; shared with other parts where ambiguous. The
    /// compiler's target of its architecture, `sm_90` or `gfx942`, where the file states it.
    Gpu { names: Vec<String>, pci_ids: Vec<String>, target: Option<String> },
    /// CPUID family, ranges of models and of steppings; on Arm implementer and part numbers.
    Host {
        family: Option<u32>,
        models: Vec<[u32; 2]>,
        /// None where any stepping is meant.
        steppings: Vec<[u32; 2]>,
        /// Parts of a CPU's name; none where its number is enough.
        names: Vec<String>,
        ambiguous_by: Option<String>,
    },
}

impl Default for Identity {
    /// Nothing is recognised by it.
    fn default() -> Identity {
        Identity::Gpu { names: Vec::new(), pci_ids: Vec::new(), target: None }
    }
}

/// A file of `data/parts`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of data/README.md, by the same names")]
pub struct GpuFile {
    pub vendor: String,
    pub name: String,
    pub aliases: Vec<String>,
    #[serde(default)]
    pub ambiguous_aliases: Vec<String>,
    pub pci_ids: Vec<String>,
    #[serde(default)]
    pub ambiguous_pci_ids: Vec<String>,
    pub resolve_ambiguous_by: Option<String>,
    pub devices_per_package: Option<u32>,
    #[serde(default)]
    pub arch: String,
    pub compute_capability: Option<String>,
    pub gfx_target: Option<String>,
    #[serde(default)]
    pub form_factor: String,
    #[serde(default)]
    pub release_year: u32,
    pub unit: String,
    pub units: Option<u32>,
    pub matrix_cores: Option<u32>,
    pub boost_clock_mhz: Option<f64>,
    #[serde(default)]
    pub memory_type: String,
    pub capacity_gb: f64,
    pub driver_reported_mib: Option<u64>,
    pub driver_reported_gb_decimal: Option<f64>,
    pub memory_bus_bits: Option<u32>,
    pub memory_data_rate_gbit_per_s_per_pin: Option<f64>,
    pub memory_data_rate_max_gbit_per_s_per_pin: Option<f64>,
    pub memory_bandwidth_gb_per_s: Option<f64>,
    #[serde(default)]
    pub memory_bandwidth_alt_gb_per_s: Vec<f64>,
    pub bandwidth_check_tolerance: Option<f64>,
    pub l2_mb: Option<f64>,
    pub l2_bytes_per_clk: Option<f64>,
    pub infinity_cache_mb: Option<f64>,
    pub infinity_cache_gb_per_s: Option<f64>,
    pub smem_per_unit_kb: Option<f64>,
    pub tdp_w: Option<f64>,
    pub pcie_gen: Option<u32>,
    pub pcie_lanes: Option<u32>,
    pub host_link: Option<String>,
    pub fp8_formats: Option<String>,
    pub flop_per_clk_note: Option<String>,
    pub unverified: Vec<String>,
    #[serde(default)]
    pub measured: Vec<String>,
    #[serde(default)]
    pub missing: Vec<String>,
    pub notes: Vec<String>,
    pub clock_mhz: Option<ClockTable>,
    pub link: Option<LinkTable>,
    pub nic: Option<toml::Table>,
    pub peak: BTreeMap<String, f64>,
    #[serde(default)]
    pub no_native_kernel: BTreeMap<String, String>,
    #[serde(default)]
    pub also_stated: Vec<AlsoStated>,
    #[serde(default)]
    pub sparse_multiplier: BTreeMap<String, f64>,
    #[serde(default)]
    pub check_tolerance: BTreeMap<String, f64>,
    #[serde(default)]
    pub flop_per_clk_per_unit: BTreeMap<String, f64>,
    pub source: Vec<Source>,
}

/// A number that another text states of a part, beside the main one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of data/README.md, by the same names")]
pub struct AlsoStated {
    pub key: String,
    pub value: f64,
    pub what: String,
    #[serde(default)]
    pub sparse: bool,
    pub source: String,
}

/// The clocks at which a vendor quotes peaks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of data/README.md, by the same names")]
pub struct ClockTable {
    pub vector: f64,
    pub fp64_matrix: Option<f64>,
    pub int8_matrix: Option<f64>,
    pub matrix: Option<f64>,
    pub basis: String,
}

/// The links of a GPU to its peers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of data/README.md, by the same names")]
pub struct LinkTable {
    pub kind: String,
    pub generation: Option<u32>,
    pub links: Option<u32>,
    pub gb_per_s_per_link_per_dir: Option<f64>,
    pub total_bidir_gb_per_s: Option<f64>,
    pub links_per_pair: Option<u32>,
    pub in_package_gb_per_s_per_dir: Option<f64>,
    pub max_domain: u32,
    #[serde(default)]
    pub bridge: bool,
    pub note: Option<String>,
}

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of data/README.md, by the same names")]
pub struct Source {
    pub title: String,
    pub url: Option<String>,
    pub section: Option<String>,
    pub kind: Option<String>,
    pub access: Option<String>,
    pub via: Option<String>,
}

impl Source {
    /// Title and address in a line.
    fn line(&self) -> String {
        match &self.url {
            Some(url) => format!("{}, {url}", self.title),
            None => self.title.clone(),
        }
    }
}

/// A file of `data/hosts`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of data/README.md, by the same names")]
pub struct HostFile {
    pub vendor: String,
    pub name: String,
    #[serde(default)]
    pub core: String,
    pub memory_channels: Option<u32>,
    #[serde(default)]
    pub memory_type: String,
    pub memory_mts: Option<f64>,
    pub memory_mts_max: Option<f64>,
    #[serde(default)]
    pub memory_bus_bits_per_channel: u32,
    pub bandwidth_gb_per_s_per_socket: Option<f64>,
    pub avx512: bool,
    pub amx: bool,
    pub cpuid_family: Option<u32>,
    #[serde(default)]
    pub cpuid_models: Vec<[u32; 2]>,
    #[serde(default)]
    pub cpuid_steppings: Vec<[u32; 2]>,
    #[serde(default)]
    pub name_contains: Vec<String>,
    pub ambiguous_by: Option<String>,
    pub l1_load_bytes_per_clk: Option<f64>,
    pub l1_store_bytes_per_clk: Option<f64>,
    pub core_bytes_per_clk: Option<f64>,
    pub l3_mib_max: Option<u64>,
    pub flop_per_clk_per_core: BTreeMap<Dtype, f64>,
    pub unverified: Vec<String>,
    #[serde(default)]
    pub measured: Vec<String>,
    #[serde(default)]
    pub missing: Vec<String>,
    pub notes: Vec<String>,
    pub source: Vec<Source>,
}

/// A file of `data/links`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of data/README.md, by the same names")]
pub struct LinkFile {
    pub name: String,
    pub raw_gb_per_s_per_dir: f64,
    pub practical_gb_per_s_per_dir: Option<f64>,
    pub practical_gb_per_s_per_link_per_dir: Option<f64>,
    pub gt_per_s: Option<f64>,
    pub lanes: Option<u32>,
    pub encoding: Option<f64>,
    pub links: Option<u32>,
    pub gb_per_s_per_link_per_dir: Option<f64>,
    pub gbit_per_s: Option<f64>,
    pub shared_by: Option<u32>,
    pub unverified: Vec<String>,
    pub note: Option<String>,
    pub source: Vec<Source>,
}

/// The data's keys for an element type: that of the matrix units before that of the vector units.
pub fn keys(dtype: Dtype) -> &'static [&'static str] {
    match dtype {
        Dtype::F64 => &["fp64_matrix", "fp64_vector"],
        Dtype::F32 => &["fp32_matrix", "fp32_vector"],
        Dtype::Tf32 => &["tf32_matrix"],
        Dtype::F16 => &["fp16_matrix", "fp16_vector"],
        Dtype::Bf16 => &["bf16_matrix"],
        Dtype::Fp8 | Dtype::Mxfp8 | Dtype::Fp8Block => &["fp8_matrix"],
        Dtype::Fp6 => &["fp6_matrix"],
        Dtype::Fp4 | Dtype::Mxfp4 | Dtype::Nvfp4 => &["fp4_matrix"],
        Dtype::Int8 => &["int8_matrix", "int8_vector"],
        // They are multiplied as bf16.
        Dtype::Bf16Fp8 | Dtype::Bf16Int4 | Dtype::Bf16Mxfp4 => &[],
    }
}

/// For each element type the largest number that the table has for it.
pub(super) fn by_dtype(table: &BTreeMap<String, f64>) -> BTreeMap<Dtype, f64> {
    let largest = |dtype| {
        let values = keys(dtype).iter().filter_map(|&key| table.get(key).copied());
        values.reduce(f64::max).map(|value| (dtype, value))
    };
    Dtype::ALL.into_iter().filter_map(largest).collect()
}

/// Switches of NVLink reduce since its fourth generation ("NVLink SHARP": NVIDIA H100 Tensor Core
/// GPU Architecture, 2022); where a bridge connects GPUs there is no switch.
fn algorithms(link: &LinkTable) -> &'static [Algorithm] {
    const PLAIN: [Algorithm; 3] = [Algorithm::Ring, Algorithm::Tree, Algorithm::Direct];
    match (link.kind.as_str(), link.generation) {
        ("NVLink", Some(4..)) if !link.bridge => &Algorithm::ALL,
        _ => &PLAIN,
    }
}

/// Rates of a GPU's links to its peers, of one device, in bytes each second in one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    total: Option<f64>,
    pair: Option<f64>,
}

impl Links {
    /// A switch, or a bridge between two, gives a pair all links; a mesh has its own for each pair.
    /// Two dies of a package have links of their own, beside those of the package.
    fn of(link: &LinkTable, devices: f64) -> Links {
        let within = link.in_package_gb_per_s_per_dir;
        let outside = link.total_bidir_gb_per_s.map(|both| both / 2.0 / devices);
        let each = link.gb_per_s_per_link_per_dir;
        let of_pair = link.links_per_pair.zip(each).map(|(links, each)| f64::from(links) * each);
        let total = outside.map(|outside| outside + within.unwrap_or(0.0));
        let pair = [of_pair.or(outside), within].into_iter().flatten().reduce(f64::max);
        let bytes = |giga: Option<f64>| giga.map(|giga| giga * 1e9);
        Links { total: bytes(total), pair: bytes(pair) }
    }
}

/// Everything that texts say of a GPU's memory, in GB/s.
fn memory_bandwidths(file: &GpuFile) -> Vec<f64> {
    let rates =
        [file.memory_data_rate_gbit_per_s_per_pin, file.memory_data_rate_max_gbit_per_s_per_pin];
    let bits = file.memory_bus_bits.map(f64::from);
    let by_pins = rates.into_iter().filter_map(|rate| Some(rate? * bits? / 8.0));
    let stated = file.memory_bandwidth_gb_per_s.into_iter();
    stated.chain(file.memory_bandwidth_alt_gb_per_s.iter().copied()).chain(by_pins).collect()
}

/// Bytes of a package's last-level caches: vendors write MB and mean MiB.
fn cache(file: &GpuFile) -> Option<f64> {
    let sizes = [file.l2_mb, file.infinity_cache_mb].into_iter().flatten();
    sizes.reduce(f64::max).map(|mebi| mebi * 1048576.0)
}

/// The network interfaces of one package in the vendor's own system.
fn network(file: &GpuFile) -> Option<BytesPerSecond> {
    let number = |name: &str| {
        let value = file.nic.as_ref()?.get(name)?;
        value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
    };
    let gigabits = number("nics_per_gpu")? * number("gbit_per_nic")?;
    Some(BytesPerSecond(gigabits * 1e9 / 8.0)).filter(|rate| rate.0 > 0.0)
}

/// The rate of the link that a part has to the host's memory in place of PCI Express, if any.
/// Where both have one memory, each byte of a copy is read from it and written to it.
fn host_bandwidth(
    file: &GpuFile,
    links: &BTreeMap<String, LinkFile>,
) -> Result<Option<BytesPerSecond>, String> {
    let giga = match file.host_link.as_deref() {
        None => None,
        Some("same-memory") => {
            memory_bandwidths(file).into_iter().reduce(f64::max).map(|both| both / 2.0)
        }
        Some(id) => match links.get(id) {
            Some(link) => Some(link.raw_gb_per_s_per_dir),
            None => return Err(format!("host_link: no file of data/links is called {id:?}")),
        },
    };
    Ok(giga.map(|giga| BytesPerSecond(giga * 1e9)))
}

impl Part {
    /// Of a file of `data/parts`; `links` are the files of `data/links` by name.
    ///
    /// # Errors
    ///
    /// Where the part names a link that has no file, or a number cannot be.
    pub fn of_gpu(
        id: &str,
        file: &GpuFile,
        links: &BTreeMap<String, LinkFile>,
    ) -> Result<Part, String> {
        if let Some(devices) = file.devices_per_package.filter(|of| !(1..=64).contains(of)) {
            return Err(format!("devices_per_package = {devices}: it is from 1 to 64"));
        }
        // A package whose dies appear as devices has its numbers stated for all of them together.
        let devices = f64::from(file.devices_per_package.unwrap_or(1));
        let giga = |value: f64| BytesPerSecond(value * 1e9 / devices);
        let link = file.link.as_ref().map(|link| Links::of(link, devices)).unwrap_or_default();
        let memory = memory_bandwidths(file);
        let named = Part::named(id, &file.name, &file.vendor, &file.source);
        Ok(Part {
            no_native_kernel: file.no_native_kernel.clone(),
            unverified: file.unverified.clone(),
            measured: file.measured.clone(),
            figures: figures::of_gpu(file),
            wires: wires::of_gpu(file, links),
            memory_stated: MemoryStated::of_gpu(file),
            boosts_beyond: figures::boosts_beyond(file),
            has_sparsity: figures::has_sparsity(file),
            units: file.units.map(|units| units / file.devices_per_package.unwrap_or(1)),
            peaks: by_dtype(&file.peak)
                .into_iter()
                .map(|(dtype, tera)| (dtype, FlopsPerSecond(tera * 1e12 / devices)))
                .collect(),
            flops_per_clock: by_dtype(&file.flop_per_clk_per_unit),
            memory_bandwidth: file.memory_bandwidth_gb_per_s.map(giga),
            memory_bandwidth_most: memory.into_iter().reduce(f64::max).map(giga),
            memory: Some(Bytes((file.capacity_gb * 1e9 / devices) as u64)),
            // Of shared memory and the first-level cache that it is a part of: 32 banks of 4 bytes
            // (CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and newer).
            cache_load_per_clock: (file.vendor == "NVIDIA").then_some(BANKS_BYTES),
            cache_store_per_clock: (file.vendor == "NVIDIA").then_some(BANKS_BYTES),
            l2_per_clock: file.l2_bytes_per_clk.map(|bytes| bytes / devices),
            memory_cache_bandwidth: file.infinity_cache_gb_per_s.map(giga),
            link_bandwidth: link.total.map(BytesPerSecond),
            pair_bandwidth: link.pair.map(BytesPerSecond),
            link_domain: file.link.as_ref().map(|link| link.max_domain),
            bridged: file.link.as_ref().is_some_and(|link| link.bridge),
            host_bandwidth: host_bandwidth(file, links)?,
            pcie: file.pcie_gen.zip(file.pcie_lanes).map(|(generation, lanes)| [generation, lanes]),
            link: file.link.as_ref().map(|link| link.kind.clone()),
            algorithms: file.link.as_ref().map_or(&[], algorithms),
            clock_most: file.boost_clock_mhz.map(Megahertz),
            cache: cache(file).map(|bytes| Bytes((bytes / devices) as u64)),
            network_bandwidth: network(file).map(|giga| giga * (1.0 / devices)),
            power: file.tdp_w.map(|watts| Watts(watts / devices)),
            identity: Identity::Gpu {
                names: [&file.aliases[..], &file.ambiguous_aliases].concat(),
                pci_ids: [&file.pci_ids[..], &file.ambiguous_pci_ids].concat(),
                target: target(file),
            },
            ..named
        })
    }

    /// Of a file of `data/hosts`.
    ///
    /// # Errors
    ///
    /// Where a number cannot be.
    pub fn of_host(id: &str, file: &HostFile) -> Result<Part, String> {
        for (name, number, most) in [
            ("memory_channels", file.memory_channels.map(u64::from), 1 << 10),
            ("memory_bus_bits_per_channel", Some(file.memory_bus_bits_per_channel.into()), 1 << 12),
            ("l3_mib_max", file.l3_mib_max, 1 << 20),
        ] {
            if let Some(number) = number.filter(|number| *number > most) {
                return Err(format!("{name} = {number}: it is {most} at most"));
            }
        }
        let stated = file.bandwidth_gb_per_s_per_socket.map(|giga| giga * 1e9);
        let faster = file.memory_mts_max.zip(file.memory_mts).map_or(1.0, |(max, mts)| max / mts);
        let named = Part::named(id, &file.name, &file.vendor, &file.source);
        Ok(Part {
            unverified: file.unverified.clone(),
            measured: file.measured.clone(),
            figures: figures::of_host(file),
            memory_stated: MemoryStated::of_host(file),
            flops_per_clock: file.flop_per_clk_per_core.clone(),
            memory_bus_bits: file
                .memory_channels
                .map(|channels| channels * file.memory_bus_bits_per_channel),
            memory_bandwidth: stated.map(BytesPerSecond),
            memory_bandwidth_most: stated.map(|rate| BytesPerSecond(rate * faster.max(1.0))),
            cache_load_per_clock: file.l1_load_bytes_per_clk,
            cache_store_per_clock: file.l1_store_bytes_per_clk,
            core_per_clock: file.core_bytes_per_clk,
            last_cache_most: file.l3_mib_max.map(|size| Bytes::MIB * size),
            identity: Identity::Host {
                family: file.cpuid_family,
                models: file.cpuid_models.clone(),
                steppings: file.cpuid_steppings.clone(),
                names: file.name_contains.clone(),
                ambiguous_by: file.ambiguous_by.clone(),
            },
            ..named
        })
    }

    /// A part of which only the names and sources of its file are known.
    fn named(id: &str, name: &str, vendor: &str, sources: &[Source]) -> Part {
        Part {
            id: id.into(),
            name: name.into(),
            vendor: vendor.into(),
            sources: sources.len(),
            source_titles: sources.iter().map(Source::line).collect(),
            ..Part::default()
        }
    }

    /// Why peaks, of an element type or of all, are not reached by instructions made for them: a
    /// sentence for each reason.
    pub fn lacking_kernels(&self, of: Option<Dtype>) -> Vec<String> {
        let mut keys_by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let is_meant = |key: &str| of.is_none_or(|dtype| keys(dtype).contains(&key));
        for (key, reason) in self.no_native_kernel.iter().filter(|(key, _)| is_meant(key)) {
            keys_by_reason.entry(reason).or_default().push(key);
        }
        let sentence = |(reason, keys): (&str, Vec<&str>)| {
            format!("No native kernel of {}: {reason}.", keys.join(", "))
        };
        keys_by_reason.into_iter().map(sentence).collect()
    }

    /// Whether it is a CPU.
    pub fn is_host(&self) -> bool {
        matches!(self.identity, Identity::Host { .. })
    }

    /// What its slot carries in one direction.
    pub fn pcie_bandwidth(&self) -> Option<BytesPerSecond> {
        self.pcie.and_then(pcie_bandwidth)
    }
}

/// The compiler's target of a part's architecture.
fn target(file: &GpuFile) -> Option<String> {
    let of_cuda =
        file.compute_capability.as_ref().map(|one| format!("sm_{}", one.replace('.', "")));
    of_cuda.or_else(|| file.gfx_target.clone())
}
