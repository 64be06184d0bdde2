//! What has to be the same for the same numbers: the program, its command line, how the device and
//! the host are set up, and the code that ran. What a record does not have is left out.

use super::{Cell, Column, Table, Weight, chart::measurements};
use fizeau_domain::{
    outcome::{Code, Measurement},
    stats::quantile,
    text::for_shells,
    units::Megahertz,
};
use fizeau_record::{Environment, Record};
use std::collections::BTreeMap;

/// One row for each thing that is known.
pub fn table(record: &Record) -> Table {
    let environment = &record.header.environment;
    let mut rows = vec![("program", program(record))];
    rows.extend(command(record).map(|command| ("command", command)));
    rows.extend(settings(environment));
    rows.extend(timed_clocks(record).map(|clocks| ("clock in timed regions", clocks)));
    rows.extend(host(environment));
    rows.extend(libraries(record).into_iter().map(|library| ("library", text(library))));
    rows.extend(images(record).into_iter().map(|images| ("kernel images", text(images))));
    let title = "Program, settings and code";
    let columns = vec![
        Column { key: "what", title: "what", weight: Weight::Essential },
        Column { key: "value", title: "is", weight: Weight::Essential },
    ];
    let rows = rows.into_iter().map(|(what, value)| vec![text(what), value]);
    Table::new("reproduce", title, columns, rows)
}

fn text(words: impl Into<String>) -> Cell {
    Cell::Text(words.into())
}

fn program(record: &Record) -> Cell {
    let header = &record.header;
    let build = header.build.as_ref().map(|build| format!(", build {build}"));
    text(format!("fizeau {}{}", header.fizeau, build.unwrap_or_default()))
}

fn command(record: &Record) -> Option<Cell> {
    let words: Vec<String> = record.header.command.iter().map(|word| for_shells(word)).collect();
    (!words.is_empty()).then(|| Cell::Code(words.join(" ")))
}

fn settings(environment: &Environment) -> Vec<(&'static str, Cell)> {
    let Some(settings) = &environment.settings else { return Vec::new() };
    let rows = [
        ("power limit", settings.power_limit.map(|limit| limit.to_string())),
        ("ECC", settings.ecc.map(on_or_off)),
        ("clocks held to", settings.clock_locks.clone()),
        ("VBIOS", settings.vbios.clone()),
    ];
    rows.into_iter().filter_map(|(what, value)| Some((what, text(value?)))).collect()
}

fn on_or_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// The clocks that sensors read while a kernel was timed.
fn timed_clocks(record: &Record) -> Option<Cell> {
    let telemetry = measurements(record).filter_map(|one| one.telemetry.as_ref());
    let clocks: Vec<f64> =
        telemetry.flat_map(|seen| &seen.timed_clocks).map(|clock| clock.0).collect();
    let sorted = quantile::sorted(&clocks);
    let (first, last) = (sorted.first()?, sorted.last()?);
    let [low, median, high] =
        [*first, quantile::quantile(&sorted, 0.5), *last].map(|clock| Megahertz(clock).to_string());
    Some(text(format!("{low} to {high}, median {median}, by {} readings", sorted.len())))
}

fn host(environment: &Environment) -> Vec<(&'static str, Cell)> {
    let rows = [
        ("host", Some(environment.os.clone()).filter(|os| !os.is_empty())),
        ("governor", environment.governor.clone()),
        ("boost", environment.boost.map(on_or_off)),
        ("microcode", environment.microcode.clone()),
    ];
    rows.into_iter().filter_map(|(what, value)| Some((what, text(value?)))).collect()
}

/// Every version of a library that the environment or a case names.
fn libraries(record: &Record) -> Vec<String> {
    let mut libraries = record.header.environment.libraries.clone();
    for code in measurements(record).flat_map(|one| &one.code) {
        if let Code::Library { name, version } = code {
            let named = format!("{name} {version}");
            if !libraries.contains(&named) {
                libraries.push(named);
            }
        }
    }
    libraries
}

/// How many images there were for each target and by each compiler; their hashes stand with the
/// cases.
fn images(record: &Record) -> Vec<String> {
    let mut images: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for code in measurements(record).flat_map(|one| &one.code) {
        if let Code::Image { sha256, target, compiler } = code {
            let same = images.entry((target, compiler)).or_default();
            if !same.contains(&sha256.as_str()) {
                same.push(sha256);
            }
        }
    }
    let of = |((target, compiler), all): ((&str, &str), Vec<&str>)| {
        format!("{} for {target} by {compiler}", all.len())
    };
    images.into_iter().map(of).collect()
}

/// The code of a case in one word each, for machines: `sm_90a:sha256:...`, `cublaslt 13.0.0`.
pub fn code(measurement: &Measurement) -> Cell {
    let spelled = measurement.code.iter().map(|code| match code {
        Code::Image { sha256, target, .. } => format!("{target}:sha256:{sha256}"),
        Code::Library { name, version } => format!("{name} {version}"),
    });
    let words: Vec<String> = spelled.collect();
    if words.is_empty() { Cell::Absent } else { Cell::Code(words.join(", ")) }
}
