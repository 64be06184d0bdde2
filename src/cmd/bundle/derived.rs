//! The documents of an acceptance that are made of its verdict: for people, for Jenkins, for
//! Prometheus. Whoever verifies a bundle makes them again, since many read nothing else of it.

use fizeau_domain::text::for_spreadsheets;
use fizeau_judge::accept::{Level, Report, node::Sample};
use fizeau_report::{
    self as report,
    format::{acceptance, html},
};

/// Their names in the bundle; the last one of a soak alone.
pub const NAMES: [&str; 4] = ["junit.xml", "metrics.prom", "verdict.html", "series.csv"];

/// Each document with its name.
///
/// # Errors
/// Where one cannot be made.
pub fn documents(
    report: &Report,
    series: &[&Sample],
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let [junit, metrics, page, table_name] = NAMES;
    let mut all = vec![
        (junit, acceptance::junit(report)),
        (metrics, acceptance::prometheus(report)),
        (page, html::render(&report::acceptance(report, series))?),
    ];
    if report.level == Level::Soak {
        all.push((table_name, table(series)?));
    }
    Ok(all)
}

/// Columns of a series.
const COLUMNS: [&str; 18] = [
    "started",
    "device",
    "stub",
    "check",
    "point",
    "rate_of_median",
    "clock_mhz",
    "clock_min_mhz",
    "temperature_c",
    "memory_temperature_c",
    "power_w",
    "held_by",
    "ecc_corrected",
    "ecc_uncorrected",
    "remapped_rows",
    "pcie_replays",
    "link_errors",
    "faults",
];

/// What lasts, in the course of time, as CSV: a line for each reading of each device.
fn table(series: &[&Sample]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for one in series {
        let seen = one.telemetry.as_ref();
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value}"));
        let count = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        let faults = seen.map(|seen| seen.faults.iter().map(u64::to_string).collect::<Vec<_>>());
        let cells: [String; COLUMNS.len()] = [
            one.started.clone(),
            one.device.clone(),
            one.stub.to_string(),
            one.check.clone(),
            one.point.clone(),
            format!("{:.5}", one.relative),
            number(one.clock),
            number(seen.and_then(|seen| seen.clock_min).map(|clock| clock.0)),
            number(seen.and_then(|seen| seen.temperature_max).map(|heat| heat.0)),
            number(seen.and_then(|seen| seen.memory_temperature_max).map(|heat| heat.0)),
            number(seen.and_then(|seen| seen.power_mean).map(|power| power.0)),
            seen.map(|seen| seen.held_by.join("; ")).unwrap_or_default(),
            count(seen.and_then(|seen| seen.ecc_corrected)),
            count(seen.and_then(|seen| seen.ecc_uncorrected)),
            count(seen.and_then(|seen| seen.remapped_rows)),
            count(seen.and_then(|seen| seen.pcie_replays)),
            count(seen.and_then(|seen| seen.nvlink_errors)),
            faults.unwrap_or_default().join(" "),
        ];
        writer.write_record(cells.map(|cell| for_spreadsheets(&cell)))?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
