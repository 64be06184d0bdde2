//! The text and the JSON of NVIDIA's `nvbandwidth` (its `output.cpp`, `inline_common.h` and
//! `json_output.cpp`, version 0.8; the line of the variation, of runs, as version 0.10 prints it),
//! which scripts of many sites read.
//!
//! What a record does not know is left out: the version of CUDA's runtime, places on the PCI bus.
//! `N/A` stands where nothing was measured. Neither form has a place for a mark, so that records of
//! a stub driver are not for them.

use super::{clean, nccl_tests::general};
use crate::nvbandwidth::{Bandwidths, End, Test};
use fizeau_domain::text::escaped;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The text.
pub fn text(of: &Bandwidths) -> String {
    let (version, build) = program(of);
    let mut out = format!("nvbandwidth Version: {version}\n");
    if let Some(build) = build {
        let _ = writeln!(out, "Built from Git version: {build}");
    }
    out.push('\n');
    if let Some(driver) = &of.driver {
        let _ = writeln!(out, "Driver Version: {}\n", clean(driver));
    }
    if let Some(host) = &of.host {
        let _ = writeln!(out, "{}", clean(host));
    }
    for (ordinal, product) in &of.devices {
        let _ = writeln!(out, "Device {ordinal}: {}", clean(product));
    }
    out.push('\n');
    of.tests.iter().for_each(|test| one(&mut out, test));
    out
}

/// Its version and what it was built from: those of this program, which says that it is another.
fn program(of: &Bandwidths) -> (String, Option<String>) {
    let [version, build] = &of.program;
    let version = version.as_deref().map_or("fizeau".into(), |one| format!("fizeau {one}"));
    (clean(&version), build.as_deref().map(clean))
}

fn one(out: &mut String, test: &Test) {
    let name = &test.name;
    let matrix = match &test.end {
        End::Waived(why) => {
            let _ = writeln!(out, "Waived: {name}: {}\n", clean(why));
            return;
        }
        End::Error(why) => {
            let _ = writeln!(out, "Running {name}.\nError: {}\n", clean(why));
            return;
        }
        End::Passed(matrix) => matrix,
    };
    let _ = writeln!(out, "Running {name}.\n{}", test.description);
    let columns = matrix.first().map_or(0, Vec::len);
    let heads: String = (0..columns).map(|column| format!("{column:>10}")).collect();
    let _ = writeln!(out, "  {heads}");
    for (row, values) in matrix.iter().enumerate() {
        let cell = |value: &Option<f64>| match value {
            Some(value) => format!("{value:>10.2}"),
            None => format!("{:>10}", "N/A"),
        };
        let cells: String = values.iter().map(cell).collect();
        let _ = writeln!(out, "{row:>2}{cells}");
    }
    let sum: f64 = test.values().iter().sum();
    let total = test.total();
    let _ = writeln!(out, "\nSUM {total} {sum:.2}");
    if let Some(variation) = test.variation {
        let _ = writeln!(out, "COEFFICIENT_OF_VARIATION {total} {variation:.2}");
    }
    out.push('\n');
}

/// The JSON.
pub fn json(of: &Bandwidths) -> String {
    let (version, build) = program(of);
    let mut root = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            root.insert(key.into(), value);
        }
    };
    put("version", Some(version.into()));
    put("git_version", build.map(Value::from));
    put("Driver Version", of.driver.as_deref().map(Value::from));
    let device = |(ordinal, product): &(u32, String)| match &of.host {
        Some(host) => format!("{ordinal}: {product}: ({host})"),
        None => format!("{ordinal}: {product}"),
    };
    put("GPU Device list", Some(of.devices.iter().map(device).collect()));
    put("testcases", Some(of.tests.iter().map(object).collect()));
    escaped(format!("{:#}", json!({ "nvbandwidth": root }))) + "\n"
}

fn object(test: &Test) -> Value {
    let mut object = json!({ "name": test.name });
    match &test.end {
        End::Waived(why) => {
            object["status"] = "Waived".into();
            object["error"] = why.as_str().into();
        }
        End::Error(why) => {
            object["status"] = "Error".into();
            object["error"] = why.as_str().into();
        }
        End::Passed(matrix) => {
            object["status"] = "Passed".into();
            object["bandwidth_description"] = test.description.as_str().into();
            let cell = |value: &Option<f64>| value.map_or("N/A".into(), general);
            let row = |row: &Vec<Option<f64>>| row.iter().map(cell).collect::<Vec<String>>();
            object["bandwidth_matrix"] = matrix.iter().map(row).collect::<Vec<_>>().into();
            let values = test.values();
            let sum: f64 = values.iter().sum();
            object["sum"] = sum.into();
            object["min"] = values.iter().copied().fold(f64::INFINITY, f64::min).into();
            object["max"] = values.iter().copied().fold(0.0, f64::max).into();
            object["average"] = (sum / values.len() as f64).into();
        }
    }
    object
}
