//! What of a part is stated, and what of a draft was measured: a rate that was reached is no limit,
//! so that neither a share nor the guard may come from it.

use super::{Part, part::keys};
use crate::dtype::Dtype;

/// The key of an element type in `[peak]` and `[flop_per_clk_per_unit]`, by the kind of units that
/// compute it. None where no table has such a key.
pub fn key_of(dtype: Dtype, is_matrix: bool) -> Option<&'static str> {
    let end = if is_matrix { "_matrix" } else { "_vector" };
    keys(dtype).iter().find(|key| key.ends_with(end)).copied()
}

impl Part {
    /// The part without the numbers of a draft that were measured.
    pub fn stated(&self) -> Part {
        if self.measured.is_empty() {
            return self.clone();
        }
        let is = |field: &str| self.measured.iter().any(|measured| measured == field);
        let of = |table: &str, dtype: Dtype| {
            let names = keys(dtype).iter().map(|key| format!("{table}.{key}"));
            names.chain([format!("{table}.{dtype}")]).any(|name| is(&name))
        };
        let mut part = self.clone();
        part.peaks.retain(|&dtype, _| !of("peak", dtype));
        part.flops_per_clock.retain(|&dtype, _| {
            !of("flop_per_clk_per_unit", dtype) && !of("flop_per_clk_per_core", dtype)
        });
        part.figures.retain(|figure| !is(&figure.field));
        if is("memory_bandwidth_gb_per_s") || is("bandwidth_gb_per_s_per_socket") {
            (part.memory_bandwidth, part.memory_bandwidth_most) = (None, None);
        }
        let forget = |field: &str, number: &mut Option<f64>| {
            *number = number.filter(|_| !is(field));
        };
        forget("l1_load_bytes_per_clk", &mut part.cache_load_per_clock);
        forget("l1_store_bytes_per_clk", &mut part.cache_store_per_clock);
        part.cache = part.cache.filter(|_| !is("l2_mb"));
        part
    }

    /// Fields that no vendor's text confirms and that a limit comes from.
    pub fn unconfirmed_limits(&self) -> Vec<&str> {
        const TABLES: [&str; 5] = ["peak", "clock_mhz", "flop_per_clk_per_unit", "link", "nic"];
        const FIELDS: [&str; 8] = [
            "boost_clock_mhz",
            "memory_bandwidth_gb_per_s",
            "memory_bus_bits",
            "memory_data_rate_gbit_per_s_per_pin",
            "l2_bytes_per_clk",
            "infinity_cache_gb_per_s",
            "pcie",
            "host_link",
        ];
        let is_limit = |field: &&str| {
            let table = field.split('.').next().unwrap_or_default();
            TABLES.contains(&table) || FIELDS.contains(&table)
        };
        self.unverified.iter().map(String::as_str).filter(is_limit).collect()
    }
}
