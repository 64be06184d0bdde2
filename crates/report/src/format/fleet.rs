//! The verdict on a fleet: as text for an operator, as CSV, as Prometheus's text format.

use super::{clean, shorten};
use fizeau_domain::{
    node_state::short_uuid,
    text::{VERDICT_LINE_MAX, counted, for_spreadsheets},
    verdict::Verdict,
};
use fizeau_judge::fleet::{
    between::SESSION,
    component::Named,
    flag::{Flagged, SENT},
    gather::column,
    judge::Why,
    row::{NODE, STUB},
    survey::{Counts, Reach, Report, Surveyed},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io,
};

/// The text has at most this many lines: a line for each kind of problem is among them.
pub const LINES_MAX: usize = 40;

/// Lines of each part that the text has at most.
const COMPONENTS_MAX: usize = 4;
const FAILURES_MAX: usize = 8;
const REACH_MAX: usize = 3;
const UNUSABLE_MAX: usize = 4;

/// Nodes that a line names at most.
const NAMED_MAX: usize = 6;

/// What an operator reads: the verdict first, then what to do, then why. At most [`LINES_MAX`]
/// lines, each of them whole.
pub fn text(report: &Report) -> String {
    let mut lines = vec![first(report), format!("do: {}", action(report))];
    lines.extend(components(report));
    lines.extend(failures(report));
    lines.extend(seen(report));
    lines.extend(report.brief.iter().map(|note| format!("note: {note}")));
    if report.notes.len() > report.brief.len() {
        lines.push(format!("{} in all: --json has them", counted(report.notes.len(), "note")));
    }
    let mark = mark(report);
    let whole = |line: &String| shorten(&clean(line), VERDICT_LINE_MAX);
    lines.iter().map(|line| format!("{}{mark}\n", whole(line))).collect()
}

/// What was not decided, what is missing or cannot be used, and which losses the repeats see.
pub fn seen(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = inconclusive(report).into_iter().collect();
    lines.extend(missing(report));
    lines.extend(unusable(report));
    lines.extend(reach(report));
    lines.push(control(report));
    lines
}

/// The mark on every line of a report of what was not measured.
fn mark(report: &Report) -> String {
    match report.mark.as_str() {
        "" => String::new(),
        mark => format!(" ({mark})"),
    }
}

/// The verdict and the counts of devices.
pub fn first(report: &Report) -> String {
    let Counts { pass, fail, inconclusive } = report.devices;
    let word = report.verdict.to_string().to_uppercase();
    let missing = report.presence.as_ref().map_or(0, |one| one.missing.len());
    let sent = match missing {
        0 => String::new(),
        1 => "; 1 node sent nothing".into(),
        count => format!("; {count} nodes sent nothing"),
    };
    let fleet = match is_one_session(report) {
        true => format!("{}, one session", report.fleet),
        false => report.fleet.clone(),
    };
    format!("{word}  {fleet}: {pass} pass, {fail} fail, {inconclusive} inconclusive{sent}")
}

/// Whether nothing tells how sessions differ.
fn is_one_session(report: &Report) -> bool {
    !report.reach.is_empty() && report.reach.iter().all(|one| !one.whole.is_session_known)
}

/// What to do next.
pub fn action(report: &Report) -> String {
    let failed = || report.flagged.iter().filter(|one| one.verdict == Verdict::Fail);
    let devices = |confirmed: bool| {
        let its = failed().filter(|one| one.confirmed == confirmed && one.component.is_none());
        let mut all: Vec<(&str, &str)> =
            its.map(|one| (one.node.as_str(), one.device.as_str())).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    let (sure, unsure) = (devices(true), devices(false));
    let mut words = Vec::new();
    if !report.components.is_empty() {
        words.push("look at the components named below first".to_owned());
    }
    if sure > 0 {
        let devices = counted(sure, "device");
        words.push(format!("take out {devices} that failed again when measured anew"));
    }
    if unsure > 0 {
        words.push(format!(
            "measure {} again, each in turn with one that passed, before anything is taken out",
            counted(unsure, "device")
        ));
    }
    let Counts { pass, fail, inconclusive } = report.devices;
    if words.is_empty() && pass + fail + inconclusive == 0 {
        return "no device was judged: nothing that was found has a figure that counts. Look at \
                what was left out, and at --since and --until"
            .into();
    }
    match (words.is_empty(), report.verdict) {
        (false, _) => words.join("; "),
        (true, Verdict::Pass | Verdict::Waived) => "nothing".into(),
        (true, _) => {
            "nothing is below contract as far as was seen; see what is missing below".into()
        }
    }
}

/// Components that are slow as a whole.
pub fn components(report: &Report) -> Vec<String> {
    let line = |one: &Named| {
        let also = match one.also.is_empty() {
            true => String::new(),
            false => format!(" (also {})", one.also.join(", ")),
        };
        let nodes = match one.by_node {
            true => format!(" of {}", counted(one.members, "node")),
            false => String::new(),
        };
        format!(
            "{} {}{also}: {} slower by {:.1} % on {}{nodes}",
            one.kind,
            one.name,
            one.metric,
            100.0 * one.loss,
            counted(one.gpus.len(), "device")
        )
    };
    with_rest(report.components.iter().map(line).collect(), COMPONENTS_MAX, "component")
}

/// The first lines, and one for the rest.
fn with_rest(mut lines: Vec<String>, most: usize, word: &str) -> Vec<String> {
    if lines.len() > most {
        let rest = lines.len() - (most - 1);
        lines.truncate(most - 1);
        lines.push(format!("and {} more: --json has them", counted(rest, word)));
    }
    lines
}

fn failures(report: &Report) -> Vec<String> {
    let failed = report.flagged.iter().filter(|one| one.verdict == Verdict::Fail);
    let (explained, rest): (Vec<&Flagged>, Vec<&Flagged>) =
        failed.partition(|one| one.component.is_some() && !one.confirmed);
    let lines = rest.into_iter().map(|one| format!("FAIL  {}", told(one))).collect();
    let mut lines = with_rest(lines, FAILURES_MAX, "failure");
    if !explained.is_empty() {
        let failures = counted(explained.len(), "failure");
        lines.push(format!("{failures} explained by the components above"));
    }
    lines
}

/// A flagged device in words.
pub fn told(one: &Flagged) -> String {
    let mut words = format!("{} {}", one.node, one.device);
    let board = [short_uuid(&one.uuid), one.place.clone()];
    let board: Vec<String> = board.into_iter().filter(|text| !text.is_empty()).collect();
    if !board.is_empty() {
        let _ = write!(words, " ({})", board.join(", "));
    }
    let _ = write!(words, "  {}: ", one.metric);
    if let Some(loss) = one.below_floor.or(one.loss) {
        let side = if loss >= 0.0 { "below" } else { "above" };
        let what = if one.below_floor.is_some() { "floor" } else { "stratum" };
        let repeats = counted(one.repeats as usize, "repeat");
        let _ = match one.below_floor.is_some() || one.has_peers {
            true => write!(words, "{:.1} % {side} its {what}, {repeats}", 100.0 * loss.abs()),
            false => write!(words, "no other device to compare it with, {repeats}"),
        };
    }
    if let Some(probability) = one.probability {
        let _ = match probability {
            tiny if tiny < 1e-99 => write!(words, ", p < 1e-99"),
            some => write!(words, ", p = {some:.0e}"),
        };
    }
    if !one.words.is_empty() {
        let start = if one.loss.is_some() { "; its own acceptance: " } else { "" };
        let _ = write!(words, "{start}{}", one.words);
    }
    if !one.retest.is_empty() {
        let _ = write!(words, "; {}", one.retest);
    }
    if !one.action.is_empty() {
        let _ = write!(words, " -> {}", one.action);
    }
    words
}

/// Why a metric of a device is open of which bundles say different things.
const DISPUTED: &str =
    "on which two bundles that are not both signed do not agree (--allowed-signers, --since)";

/// Why a metric of a device is open that stands far above the others.
const TOO_FAST: &str = "faster than any of the stratum can be (a wrong unit, size or name)";

/// Why a metric of a device could not be decided, as a line says it of several.
fn why(one: &Flagged) -> &'static str {
    match one.why {
        Some(Why::Decided) if !one.retest.is_empty() => "not slow again when measured anew",
        Some(Why::Alone) => "in a stratum of fewer than three nodes, which shows no slow node",
        Some(Why::Disputed) => DISPUTED,
        None if one.device == NODE => "of nodes of which not all can be used",
        Some(Why::TooFew) => "too few devices of the same stratum",
        Some(Why::NoRepeats) => "measured only once",
        Some(Why::TooNoisy) => "repeats scatter too much",
        Some(Why::TooClose) => "too close to the least effect",
        Some(Why::TooFast) => TOO_FAST,
        Some(Why::OneSession) => "slow by no more than two sessions may differ: measure another",
        Some(Why::Decided) | None => "by the node's own acceptance",
    }
}

fn inconclusive(report: &Report) -> Option<String> {
    let open: Vec<&Flagged> =
        report.flagged.iter().filter(|one| one.verdict == Verdict::Inconclusive).collect();
    if open.is_empty() {
        return None;
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for one in &open {
        *reasons.entry(why(one)).or_default() += 1;
    }
    let nodes_of = |reason: Why| {
        let own = open.iter().filter(|one| one.why == Some(reason)).map(|one| one.node.as_str());
        let nodes: BTreeSet<&str> = own.collect();
        named(&nodes.into_iter().map(str::to_owned).collect::<Vec<String>>())
    };
    let part = |(reason, count): (&&str, &usize)| match *reason {
        DISPUTED => (*count, format!("{count} of {} {reason}", nodes_of(Why::Disputed))),
        TOO_FAST => (*count, format!("{count} of {} {reason}", nodes_of(Why::TooFast))),
        _ => (*count, format!("{count} {reason}")),
    };
    let mut parts: Vec<(usize, String)> = reasons.iter().map(part).collect();
    parts.sort_by_key(|(count, _)| Reverse(*count));
    let words: Vec<String> = parts.into_iter().map(|(_, words)| words).collect();
    let mut needed: Vec<u32> =
        open.iter().map(|one| one.needed).filter(|needed| *needed > 0).collect();
    needed.sort_unstable();
    let more = match needed.get(needed.len().saturating_mul(9) / 10) {
        Some(most) => {
            let repeats = counted(*most as usize, "repeat");
            format!("; {repeats} may decide nine in ten of those that are too close")
        }
        None => String::new(),
    };
    let figures = counted(open.len(), "figure");
    Some(format!("?     {figures} not decided: {}{more}", words.join(", ")))
}

/// The first of some names, and how many more.
fn named(names: &[String]) -> String {
    let mut words: Vec<String> = names.iter().take(NAMED_MAX).cloned().collect();
    if names.len() > NAMED_MAX {
        words.push(format!("{} more", names.len() - NAMED_MAX));
    }
    words.join(", ")
}

/// Who sent what cannot be used, and nodes of which not all can be.
fn unusable(report: &Report) -> Vec<String> {
    let line = |(sender, why): (&str, &str)| format!("unusable  {sender}: {why}");
    let senders = report.unusable.iter().map(|one| (one.sender.as_str(), one.why.as_str()));
    let of_nodes = report.flagged.iter().filter(|one| one.device == NODE && one.metric == SENT);
    let of_nodes = of_nodes.map(|one| (one.node.as_str(), one.words.as_str()));
    with_rest(senders.chain(of_nodes).map(line).collect(), UNUSABLE_MAX, "sender")
}

fn missing(report: &Report) -> Vec<String> {
    let Some(presence) = &report.presence else { return Vec::new() };
    let unusable = match presence.unusable.len() {
        0 => String::new(),
        count => format!(" + {count} unusable"),
    };
    let mut lines = vec![format!(
        "{} planned = {} measured{unusable} + {} missing",
        counted(presence.planned, "node"),
        presence.measured,
        presence.missing.len()
    )];
    if !presence.missing.is_empty() {
        lines[0] = format!("{}: {}", lines[0], named(&presence.missing));
    }
    for (words, names) in
        [("fewer GPUs than planned", &presence.short), ("not in the list", &presence.unexpected)]
    {
        if !names.is_empty() {
            lines.push(format!("{words}: {}", named(names)));
        }
    }
    lines
}

/// Whether a metric can tell what it should: twice its least effect.
fn is_able(one: &Reach) -> bool {
    one.whole.sees.is_some_and(|sees| sees <= 2.0 * one.least_effect)
}

/// What the repeats see: the metrics that see too little each, the others on one line.
fn reach(report: &Report) -> Vec<String> {
    let (able, unable): (Vec<&Reach>, Vec<&Reach>) =
        report.reach.iter().partition(|one| is_able(one));
    let mut lines = Vec::new();
    let sees = |one: &&Reach| one.whole.sees.unwrap_or_default();
    let by_reach = |a: &&&Reach, b: &&&Reach| sees(a).total_cmp(&sees(b));
    if let (Some(least), Some(most)) = (able.iter().min_by(by_reach), able.iter().max_by(by_reach))
    {
        let repeats = counted(most.whole.repeats, "repeat");
        let loss = |one: &&Reach| format!("{:.1} % of {}", 100.0 * sees(one), one.metric);
        lines.push(match able.len() {
            1 => format!("{repeats} see a loss of {}", loss(least)),
            _ => format!("{repeats} see a loss of {}, and at worst {}", loss(least), loss(most)),
        });
    }
    // Of strata, the largest says it.
    let mut by_metric: BTreeMap<&str, &Reach> = BTreeMap::new();
    for one in unable {
        let known = by_metric.entry(&one.metric).or_insert(one);
        if one.whole.gpus > known.whole.gpus {
            *known = one;
        }
    }
    let mut blind: Vec<&Reach> = by_metric.into_values().collect();
    blind.sort_by_key(|one| Reverse(one.whole.gpus));
    let of = |one: &&Reach| format!("{}: {}", one.metric, blindness(one));
    lines.extend(with_rest(blind.iter().map(of).collect(), REACH_MAX, "metric"));
    let doubts = report.reach.iter().flat_map(|one| {
        one.whole.doubts.iter().map(move |doubt| format!("{}: {doubt}", one.metric))
    });
    let mut doubts: Vec<String> = doubts.collect();
    doubts.sort();
    doubts.dedup();
    lines.extend(with_rest(doubts, REACH_MAX, "doubt"));
    lines
}

fn blindness(one: &Reach) -> String {
    let effect = 100.0 * one.least_effect;
    let noise = 100.0 * one.whole.noise;
    match (one.whole.sees, one.whole.needed) {
        _ if one.whole.freedom <= 0.0 => {
            format!("measured once on each of {}: repeat it", counted(one.whole.gpus, "device"))
        }
        _ if one.whole.is_gated => format!(
            "repeats scatter by {noise:.1} %, more than a third of {effect:.1} %: it fails nobody"
        ),
        (Some(sees), Some(needed)) => format!(
            "{} see {:.1} %; {needed} would see {:.1} %",
            counted(one.whole.repeats, "repeat"),
            100.0 * sees,
            2.0 * effect
        ),
        (Some(sees), None) => {
            format!("{} see {:.1} %", counted(one.whole.repeats, "repeat"), 100.0 * sees)
        }
        (None, _) => {
            format!("{} are too few to be set beside each other", counted(one.whole.gpus, "device"))
        }
    }
}

fn control(report: &Report) -> String {
    let control = &report.control;
    let session = match is_one_session(report) {
        true => format!("; another session may differ by {SESSION} of it, as is assumed"),
        false => String::new(),
    };
    format!(
        "of those that fail, at most {:.1} % lose no more than the least effect, on average \
         ({}, {}){session}",
        100.0 * control.false_discoveries,
        control.procedure,
        counted(control.tests, "test")
    )
}

/// Columns of the table of all verdicts.
const COLUMNS: [&str; 20] = [
    "node",
    "device",
    "uuid",
    "serial",
    "place",
    "metric",
    "point",
    "unit",
    "median",
    "stratum",
    "verdict",
    "why",
    "loss",
    "error",
    "probability",
    "repeats",
    "needed",
    "component",
    "acceptance",
    "mark",
];

/// Every verdict on a metric of a device as CSV, a line each, and what the nodes' own acceptances
/// said of the rest.
///
/// # Errors Where it cannot be written.
pub fn csv(surveyed: &Surveyed, out: &mut dyn io::Write) -> Result<(), csv::Error> {
    let Surveyed { gathered, units, strata, survey, report, failed, retested, .. } = surveyed;
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(COLUMNS)?;
    let flagged: BTreeMap<(u32, &str), &Flagged> = { report.flagged.iter() }
        .filter_map(|one| Some(((one.unit?, one.metric.as_str()), one)))
        .collect();
    let cell = |text: &str| for_spreadsheets(text);
    let number = |value: f64| if value.is_finite() { format!("{value}") } else { String::new() };
    let is_stub = report.mark == STUB;
    for (at, group) in strata.groups.iter().enumerate() {
        let subject = &strata.subjects[strata.subjects_of[at] as usize];
        for (row, judged) in survey.judged[at].iter().enumerate() {
            let unit = group.gpu(row);
            let one = &units.units[unit as usize];
            let told = |column| cell(gathered.told(one.entry, column));
            let own = failed.get(&(unit, strata.subjects_of[at]));
            let again = retested.get(&(at, row)).map(|again| again.verdict);
            let verdict = match own {
                Some(_) => Verdict::Fail,
                None => again.unwrap_or(judged.verdict),
            };
            let flagged = flagged.get(&(unit, group.metric.as_str()));
            let verdict = flagged.map_or(verdict, |one| one.verdict);
            let component = flagged.and_then(|one| one.component.as_deref()).unwrap_or_default();
            let words = own.map(|said| gathered.texts.text(said.words)).unwrap_or_default();
            let median = if is_stub { String::new() } else { number(judged.log.exp()) };
            let cells: [String; COLUMNS.len()] = [
                cell(&units.nodes[one.node as usize].name),
                told(column::DEVICE),
                told(column::UUID),
                told(column::SERIAL),
                told(column::PLACE),
                cell(&subject.metric),
                cell(&subject.point),
                subject.unit.clone(),
                median,
                group.stratum.to_string(),
                verdict.to_string(),
                why_name(judged.why).into(),
                number(judged.loss),
                number(judged.error),
                number(judged.probability),
                judged.repeats.to_string(),
                judged.needed.to_string(),
                cell(component),
                cell(words),
                report.mark.clone(),
            ];
            writer.write_record(cells)?;
        }
    }
    for one in report.flagged.iter().filter(|one| one.loss.is_none()) {
        let mut cells: [String; COLUMNS.len()] = Default::default();
        let texts = [&one.node, &one.device, &one.uuid, &one.serial, &one.place, &one.metric];
        for (cell_of, text) in cells.iter_mut().zip(texts) {
            *cell_of = cell(text);
        }
        cells[10] = one.verdict.to_string();
        cells[18] = cell(&one.words);
        cells[19].clone_from(&report.mark);
        writer.write_record(cells)?;
    }
    writer.flush()?;
    Ok(())
}

fn why_name(why: Why) -> &'static str {
    match why {
        Why::Decided => "decided",
        Why::TooFew => "too_few",
        Why::Alone => "alone",
        Why::Disputed => "disputed",
        Why::NoRepeats => "no_repeats",
        Why::TooNoisy => "too_noisy",
        Why::TooClose => "too_close",
        Why::TooFast => "too_fast",
        Why::OneSession => "one_session",
    }
}

/// Most devices that Prometheus's text names.
const SERIES_MAX: usize = 5_000;

/// Prometheus's text format, for the textfile collector of its node exporter.
pub fn prometheus(report: &Report) -> String {
    let mut out = String::new();
    let own = format!("mark=\"{}\"", label(&report.mark));
    let mut gauge = |name: &str, help: &str, rows: Vec<(String, f64)>| {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
        let mut told = BTreeSet::new();
        for (labels, value) in rows.into_iter().filter(|(labels, _)| told.insert(labels.clone())) {
            let labels = if labels.is_empty() { own.clone() } else { format!("{own},{labels}") };
            let _ = writeln!(out, "{name}{{{labels}}} {value}");
        }
    };
    let code = f64::from(report.verdict.exit_code());
    gauge(
        "fizeau_fleet_verdict",
        "Verdict on the fleet: 0 pass, 1 fail, 4 inconclusive",
        vec![(String::new(), code)],
    );
    let counts = |counts: &Counts| {
        let Counts { pass, fail, inconclusive } = *counts;
        let rows = [("pass", pass), ("fail", fail), ("inconclusive", inconclusive)];
        rows.map(|(word, count)| (format!("verdict=\"{word}\""), count as f64)).to_vec()
    };
    gauge("fizeau_fleet_devices", "Devices by verdict", counts(&report.devices));
    gauge("fizeau_fleet_nodes", "Nodes by verdict", counts(&report.nodes));
    let missing = report.presence.as_ref().map_or(0, |presence| presence.missing.len());
    gauge(
        "fizeau_fleet_nodes_missing",
        "Nodes of the list that sent nothing",
        vec![(String::new(), missing as f64)],
    );
    let failed = || report.flagged.iter().filter(|one| one.verdict == Verdict::Fail);
    gauge(
        "fizeau_fleet_failures",
        "Figures and checks that fail, of which the first are named below",
        vec![(String::new(), failed().count() as f64)],
    );
    let named = failed().take(SERIES_MAX).map(|one| {
        let labels = format!(
            "node=\"{}\",device=\"{}\",uuid=\"{}\",metric=\"{}\",confirmed=\"{}\"",
            label(&one.node),
            label(&one.device),
            label(&one.uuid),
            label(&one.metric),
            one.confirmed
        );
        (labels, one.loss.unwrap_or(1.0))
    });
    gauge(
        "fizeau_fleet_failure_loss_ratio",
        "Loss beside the stratum of what fails; 1 where a check of the node's own acceptance does",
        named.collect(),
    );
    let components = report.components.iter().map(|one| {
        let labels = format!(
            "kind=\"{}\",name=\"{}\",metric=\"{}\"",
            label(&one.kind),
            label(&one.name),
            label(&one.metric)
        );
        (labels, one.loss)
    });
    gauge(
        "fizeau_fleet_component_loss_ratio",
        "Loss of components that are slow as a whole",
        components.collect(),
    );
    out
}

/// A label's value.
fn label(text: &str) -> String {
    clean(text).replace('\\', "\\\\").replace('"', "\\\"")
}
