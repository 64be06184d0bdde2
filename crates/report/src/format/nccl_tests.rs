//! The text and the JSON of `nccl-tests`, which parsers of many sites read by column position or
//! by key (its `src/util.cu`, version 2.19). Where it prints its environment, this does not.
//!
//! What a record does not know (processes, bus addresses) is left out and not made up. Figures of
//! a stub driver are marked on every line that has some: `stub` behind the last column, in JSON
//! `"stub": true`.
//!
//! A row's `time` is the mean, as there. What was not measured in a row (in place, where that does
//! not exist) is `nan`, with `N/A` for its wrong elements. Several collectives in one record make
//! several reports, one after the other; as JSON one object a line.

use super::clean;
use crate::nccl_tests::{BufferTimes, NcclTest, RankDevice, SizeRow};
use fizeau_domain::{spec::STUB, stats::quantile, text::escaped, units::Seconds};
use serde_json::{Value, json};
use std::fmt::Write;

/// The text.
pub fn text(tests: &[NcclTest]) -> String {
    tests.iter().map(one).collect()
}

fn one(test: &NcclTest) -> String {
    let mut out = header(test);
    let mark = if test.is_stub { format!("  {STUB}") } else { String::new() };
    for row in &test.rows {
        let SizeRow { size, count, dtype, operation, root, .. } = row;
        let _ = write!(out, "{:>12}  {count:>12}  {dtype:>8}  {operation:>6}  {root:>6}", size.0);
        for side in [&row.out_of_place, &row.in_place] {
            out += &columns(side.as_ref());
        }
        out += &format!("{mark}\n");
    }
    for missing in &test.missing {
        out += &format!("# {}\n", clean(missing));
    }
    let okay = if test.wrong == 0 { "OK" } else { "FAILED" };
    out += &format!("# {:<20} : {} {okay}{mark}\n", "Out of bounds values", test.wrong);
    let average = test.average_bus_bandwidth().0 / 1e9;
    out += &format!("# {:<20} : {} {mark}\n", "Avg bus bandwidth", general(average));
    out += &format!("#\n# Collective test concluded: {}\n#\n", test.program);
    out
}

fn header(test: &NcclTest) -> String {
    let sizes = || test.rows.iter().map(|row| row.size.0);
    let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    let mut out = format!(
        "# fizeau version {} kernel {}, times are means as nccl-tests' are, not medians\n\
         # Collective test starting: {}\n",
        env!("CARGO_PKG_VERSION"),
        clean(&test.kernel),
        test.program
    );
    out += &format!(
        "# nThread 1 nGpus 1 minBytes {least} maxBytes {most} step: {}(factor) warmup iters: 1 \
         iters: {} agg iters: 1 validation: 1 graph: 0 unalign: 0\n#\n# Using devices\n",
        factor(test),
        iterations(test)
    );
    for RankDevice { ranks: [first, last], host, device, product } in &test.devices {
        let ranks = if first == last {
            format!("Rank {first:>2}")
        } else {
            format!("Ranks {first} to {last}")
        };
        let host = clean(host.as_deref().unwrap_or("unnamed"));
        out += &format!("#  {ranks} on {host:>10} device {} {}\n", clean(device), clean(product));
    }
    if let Some(left) = unnamed(test) {
        out += &format!("#  and {left} more ranks, which the record names\n");
    }
    let [blank, size, count, dtype, operation, root] =
        ["", "size", "count", "type", "redop", "root"];
    out += "#\n";
    out += &format!(
        "# {blank:>10}  {blank:>12}  {blank:>8}  {blank:>6}  {blank:>6}           out-of-place\
         {blank:>23}in-place{blank:>10}\n"
    );
    out += &format!("# {size:>10}  {count:>12}  {dtype:>8}  {operation:>6}  {root:>6}");
    out += &"     time   algbw   busbw  #wrong".repeat(2);
    out += &format!("\n# {:>10}  {:>12}  {blank:>8}  {blank:>6}  {blank:>6}", "(B)", "(elements)");
    out += &"     (us)  (GB/s)  (GB/s)        ".repeat(2);
    out.push('\n');
    out
}

/// How many ranks have no line of their own.
fn unnamed(test: &NcclTest) -> Option<u32> {
    let named = test.devices.last().map_or(0, |device| device.ranks[1] + 1);
    (named < test.ranks).then(|| test.ranks - named)
}

/// From one size to the next, rounded.
fn factor(test: &NcclTest) -> u64 {
    match test.rows.as_slice() {
        [first, second, ..] => (second.size.0 as f64 / first.size.0.max(1) as f64).round() as u64,
        _ => 2,
    }
}

/// The most that any row has.
fn iterations(test: &NcclTest) -> usize {
    let sides = test.rows.iter().flat_map(|row| [&row.out_of_place, &row.in_place]).flatten();
    sides.map(|side| side.times.len()).max().unwrap_or(0)
}

fn columns(side: Option<&BufferTimes>) -> String {
    let Some(side) = side else {
        return format!("  {:>7}  {:>6}  {:>6}  {:>6}", "nan", "nan", "nan", "N/A");
    };
    let time = fixed(side.mean().0 * 1e6, 7);
    let algorithm = fixed(side.algorithm_bandwidth.0 / 1e9, 6);
    let bus = fixed(side.bus_bandwidth.0 / 1e9, 6);
    format!("  {time}  {algorithm}  {bus}  {:>6}", side.wrong)
}

/// As many decimals, two at most, as leave a number within its width; else an exponent. The rule
/// of `getFloatStr`.
fn fixed(value: f64, width: usize) -> String {
    let power = std::iter::successors(Some(1.0f64), |next| Some(next * 10.0))
        .take_while(|&next| value >= next)
        .count();
    match power {
        power if power < width - 2 => format!("{value:width$.2}"),
        power if power < width - 1 => format!("{value:width$.1}"),
        power if power < width + 1 => format!("{value:width$.0}"),
        _ => format!("{:>width$}", exponent(value, usize::from(width >= 7))),
    }
}

/// C's `%.*e`: an exponent of two digits and a sign.
fn exponent(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or_default();
    format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
}

/// C's `%g`: six significant digits, no trailing zeros.
pub(super) fn general(value: f64) -> String {
    let magnitude = if value > 0.0 { value.log10().floor() as i32 } else { 0 };
    if !(-4..6).contains(&magnitude) {
        return exponent(value, 5);
    }
    let text = format!("{value:.*}", (5 - magnitude) as usize);
    let cut = text.trim_end_matches('0').trim_end_matches('.');
    if text.contains('.') { cut.into() } else { text }
}

/// The JSON, one object for each report, one report a line.
pub fn json(tests: &[NcclTest]) -> String {
    tests.iter().map(|test| escaped(object(test).to_string()) + "\n").collect()
}

fn object(test: &NcclTest) -> Value {
    let sizes = || test.rows.iter().map(|row| row.size.0);
    let device = |of: &RankDevice| {
        let mut device = json!({
            "rank": of.ranks[0], "hostname": of.host, "device": of.device,
            "device_info": of.product,
        });
        if of.ranks[0] != of.ranks[1] {
            device["rank_last"] = json!(of.ranks[1]);
        }
        device
    };
    let devices: Vec<Value> = test.devices.iter().map(device).collect();
    let mut object = json!({
        "version": 3,
        "start_time": when(&test.started),
        "args": [test.program],
        // Never the environment: it holds what is nobody's business.
        "env": [],
        "nccl_version": 0,
        "config": {
            "nthreads": 1, "ngpus": 1,
            "minimum_bytes": sizes().min().unwrap_or(0),
            "maximum_bytes": sizes().max().unwrap_or(0),
            "step_factor": factor(test),
            "warmup_iters": 1, "iterations": iterations(test), "aggregated_iterations": 1,
            "validation": 1, "graph": 0, "blocking_collectives": "false",
            "per_iter_timing": "true", "parallel_init": "false",
            "devices": devices,
        },
        "results": test.rows.iter().map(|row| result(row, test.is_stub)).collect::<Vec<_>>(),
        "out_of_bounds": { "count": test.wrong, "okay": (test.wrong == 0).to_string() },
        "average_bus_bandwidth": {
            "bandwidth": test.average_bus_bandwidth().0 / 1e9, "okay": "unchecked",
        },
        "errors": test.missing,
        "end_time": when(&test.ended),
    });
    if test.is_stub {
        object[STUB] = json!(true);
        object["average_bus_bandwidth"][STUB] = json!(true);
    }
    object
}

/// `2026-11-21T07:32:22Z` as `2026-11-21 07:32:22`.
fn when(time: &str) -> String {
    time.replace('T', " ").trim_end_matches('Z').into()
}

fn result(row: &SizeRow, is_stub: bool) -> Value {
    let mut object = json!({
        "size": row.size.0, "count": row.count, "type": row.dtype, "redop": row.operation,
        "root": format!("{:>6}", row.root),
    });
    let sides = [("out_of_place", &row.out_of_place), ("in_place", &row.in_place)];
    for (name, side) in sides {
        object[name] = side.as_ref().map_or(Value::Null, |side| {
            json!({
                "time": side.mean().0 * 1e6, "alg_bw": side.algorithm_bandwidth.0 / 1e9,
                "bus_bw": side.bus_bandwidth.0 / 1e9, "nwrong": side.wrong,
            })
        });
        object[format!("{name}_per_iter")] = side.as_ref().map_or(Value::Null, iterations_of);
    }
    if is_stub {
        object[STUB] = json!(true);
    }
    object
}

fn iterations_of(side: &BufferTimes) -> Value {
    let times: Vec<f64> = side.times.iter().map(|Seconds(time)| time * 1e6).collect();
    let sorted = quantile::sorted(&times);
    let at = |share| quantile::quantile(&sorted, share);
    let mean = side.mean().0 * 1e6;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
    let deviation = (variance / times.len().max(1) as f64).sqrt();
    json!({
        "skipped_iterations": 0, "min_us": at(0.0), "max_us": at(1.0), "avg_us": mean,
        "p50_us": at(0.5), "p95_us": at(0.95), "p99_us": at(0.99), "stdev_us": deviation,
        "cv_pct": deviation / mean * 100.0, "times_us": times,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What C prints for them.
    #[test]
    fn numbers_stand_as_c_prints_them() {
        assert_eq!(fixed(7.254, 7), "   7.25");
        assert_eq!(fixed(31307.0, 7), "31307.0");
        assert_eq!(fixed(131307.4, 7), " 131307");
        assert_eq!(fixed(1.5e9, 7), "1.5e+09");
        assert_eq!(fixed(480.157, 6), "480.16");
        assert_eq!(fixed(0.0, 6), "  0.00");
        assert_eq!(general(159.151), "159.151");
        assert_eq!(general(0.5), "0.5");
        assert_eq!(general(3.0), "3");
        assert_eq!(general(1234567.0), "1.23457e+06");
        assert_eq!(general(0.0), "0");
    }
}
