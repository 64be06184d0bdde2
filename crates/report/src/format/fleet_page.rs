//! A survey of a fleet as one page that needs nothing else: the verdict first, where what fails
//! stands, how each metric is distributed, and the evidence on each device that is flagged. No
//! script: it is used by keyboard and printed as it is. Devices are drawn by a few paths and not by
//! an element each, so that a page of 10^5 of them stays light.

use super::{clean, fleet};
use fizeau_domain::{
    stats::quantile::median,
    text::{agreed, counted},
    verdict::Verdict,
};
use fizeau_judge::fleet::{
    flag::Flagged,
    gather::column,
    row::STUB,
    survey::{Counts, OfLabel, Reach, Report, Surveyed},
    units::by_number,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write as _,
};

/// The style of all pages, and what is drawn here alone.
const STYLE: &str = concat!(include_str!("html/style.css"), include_str!("html/fleet.css"));

/// Flagged figures whose evidence is on the page; the rest is in the CSV file.
const EVIDENCE_MAX: usize = 600;

/// Rows of a table of labels, nodes or notes.
const ROWS_MAX: usize = 300;

/// Metrics and strata whose distribution is drawn.
const CHARTS_MAX: usize = 120;

/// Racks that have their name in the map.
const RACK_NAMES_MAX: usize = 4000;

/// Sessions of a flagged device that its history shows.
const HISTORY_MAX: usize = 12;

/// The page.
pub fn page(surveyed: &Surveyed) -> String {
    let report = &surveyed.report;
    let mark = match report.mark.as_str() {
        "" => String::new(),
        mark => format!("<p class=mark>Nothing here was measured: {}.</p>", text(mark)),
    };
    let mut out = format!(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; \
         style-src 'unsafe-inline'\"><meta name=viewport content=\"width=device-width\">\
         <meta name=color-scheme content=\"light dark\">\
         <title>{} - a fleet by fizeau {}</title><style>{STYLE}</style></head><body><header>\
         <p class=brand>Fizeau</p>\
         <h1 class={}>{}</h1><p class=subtitle>{}</p></header>",
        report.verdict.to_string().to_uppercase(),
        text(&report.fizeau),
        report.verdict,
        text(&fleet::first(report)),
        when(report)
    );
    out += "<nav class=contents><a href=#evidence>Fails</a> <a href=#map>Where</a> \
            <a href=#open>Not decided</a> <a href=#metrics>Metrics</a> \
            <a href=#labels>Labels</a> <a href=#notes>Notes</a></nav><main>";
    out += &mark;
    let _ = write!(out, "<p class=do>Do: {}.</p>", text(&fleet::action(report)));
    for line in fleet::components(report) {
        let _ = write!(out, "<p class=failure>{}</p>", text(&line));
    }
    let mut shown: Vec<&Flagged> = report.flagged.iter().collect();
    shown.sort_by_key(|one| one.verdict != Verdict::Fail);
    shown.truncate(EVIDENCE_MAX);
    let fails = shown.iter().take_while(|one| one.verdict == Verdict::Fail).count();
    let (fails, undecided) = shown.split_at(fails);
    let left_out = report.flagged.len() - shown.len();
    let evidence = Evidence::of(surveyed, &shown);
    out += "<section id=evidence><h2>Fails</h2>";
    evidence.figures(fails, &mut out);
    out += "</section>";
    map(surveyed, &mut out);
    // Their number can be large, and nothing follows from them yet.
    let count = counted(undecided.len(), "figure");
    let _ = write!(out, "<section id=open><h2>Not decided</h2><details><summary>{count}</summary>");
    evidence.figures(undecided, &mut out);
    out += "</details></section>";
    if left_out > 0 {
        let _ = write!(
            out,
            "<p>{} more {} in the file of --csv.</p>",
            counted(left_out, "flagged figure"),
            agreed(left_out, "is", "are")
        );
    }
    metrics(surveyed, &mut out);
    labels(surveyed, &mut out);
    notes(surveyed, &mut out);
    out + "</main></body></html>\n"
}

/// When the sessions began.
fn when(report: &Report) -> String {
    match report.from == report.to {
        true => text(&report.from),
        false => format!("from {} to {}", text(&report.from), text(&report.to)),
    }
}

/// Text for the page.
fn text(raw: &str) -> String {
    let clean = clean(raw).replace(" %", "\u{a0}%");
    clean.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// How a device is drawn, the worst first: its class, and in words.
const CLASSES: [(&str, &str); 5] = [
    ("c0", "fails"),
    ("c1", "not decided, and slower than the least effect in some metric"),
    ("c2", "not decided"),
    ("c3", "passes, and loses more than half of the least effect in some metric"),
    ("c4", "passes"),
];

/// The class of each device, by its worst metric.
fn classes(surveyed: &Surveyed) -> Vec<usize> {
    let Surveyed { strata, survey, units, report, .. } = surveyed;
    let mut worst = vec![4; units.units.len()];
    for (at, group) in strata.groups.iter().enumerate() {
        for (row, judged) in survey.judged[at].iter().enumerate() {
            let share = judged.loss / group.least_effect;
            let class = match judged.verdict {
                Verdict::Fail => 2,
                Verdict::Inconclusive if share > 1.0 => 1,
                Verdict::Inconclusive => 2,
                _ if share > 0.5 => 3,
                _ => 4,
            };
            let own = &mut worst[group.gpu(row) as usize];
            *own = class.min(*own);
        }
    }
    // Whether it fails is decided with retests and its own acceptance.
    for flagged in report.flagged.iter().filter(|one| one.verdict == Verdict::Fail) {
        if let Some(unit) = flagged.unit {
            worst[unit as usize] = 0;
        }
    }
    worst
}

/// Side of a device, and of what is around it, on the map.
const CELL: usize = 6;
const PITCH: usize = 7;

/// Nodes of a block where no label says what stands in one rack.
const BLOCK: usize = 16;

/// Devices and gaps side by side in one picture of the map, at most: as many as a phone shows.
/// Pictures stand beside each other where there is room.
const WIDE_MAX: usize = 40;

/// The racks: their names, and the nodes of each.
fn racks(surveyed: &Surveyed) -> Vec<(String, Vec<u32>)> {
    let Surveyed { units, belongings, .. } = surveyed;
    let kind = belongings.iter().flat_map(|own| own.keys()).find(|kind| kind.contains("rack"));
    let mut of_node: BTreeMap<u32, String> = BTreeMap::new();
    for (unit, own) in units.units.iter().zip(belongings) {
        let name = kind.and_then(|kind| own.get(kind)).cloned().unwrap_or_default();
        of_node.entry(unit.node).or_insert(name);
    }
    if kind.is_none() {
        let nodes: Vec<u32> = of_node.into_keys().collect();
        let name = |own: &[u32]| units.nodes[own[0] as usize].name.clone() + " ..";
        return nodes.chunks(BLOCK).map(|own| (name(own), own.to_vec())).collect();
    }
    let mut all: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (node, name) in of_node {
        all.entry(name).or_default().push(node);
    }
    let mut all: Vec<(String, Vec<u32>)> = all.into_iter().collect();
    all.sort_by(|a, b| by_number(&a.0, &b.0));
    all
}

fn map(surveyed: &Surveyed, out: &mut String) {
    let units = &surveyed.units;
    let mut of_node: Vec<Vec<usize>> = vec![Vec::new(); units.nodes.len()];
    for (at, unit) in units.units.iter().enumerate() {
        of_node[unit.node as usize].push(at);
    }
    let (classes, racks) = (classes(surveyed), racks(surveyed));
    let wide = of_node.iter().map(Vec::len).max().unwrap_or(1).clamp(8, 64);
    let mut counts = [0; CLASSES.len()];
    classes.iter().for_each(|class| counts[*class] += 1);
    let _ = write!(
        out,
        "<section id=map><h2>Where</h2><p>A line for each node, a square for each device in the \
         order of its slots, coloured by its worst metric.</p><ul class=legend>"
    );
    for ((class, words), count) in CLASSES.iter().zip(counts).filter(|(_, count)| *count > 0) {
        let _ = write!(out, "<li><span class={class}></span> {count}: {words}");
    }
    *out += "</ul><div class=map>";
    let across = (WIDE_MAX / (wide + 2)).max(1);
    for (at, racks) in racks.chunks(across).enumerate() {
        let names = (at * across < RACK_NAMES_MAX).then_some(wide);
        picture(&Racks { of_node: &of_node, classes: &classes, wide, across }, racks, names, out);
    }
    *out += "</div></section>";
}

/// What racks are drawn from.
struct Racks<'m> {
    /// Devices of each node.
    of_node: &'m [Vec<usize>],
    /// The class of each device.
    classes: &'m [usize],
    /// Devices of a line.
    wide: usize,
    /// Racks of a picture.
    across: usize,
}

/// Racks side by side, under their names where these have room for some characters.
fn picture(
    of: &Racks<'_>,
    racks: &[(String, Vec<u32>)],
    names_max: Option<usize>,
    out: &mut String,
) {
    let mut paths: [String; CLASSES.len()] = Default::default();
    let (mut names, mut height) = (String::new(), 0);
    for (at, (name, nodes)) in racks.iter().enumerate() {
        let left = at * (of.wide + 2) * PITCH;
        let mut y = 14;
        if let Some(most) = names_max {
            let name = text(&fizeau_domain::text::shorten(name, most));
            let _ = write!(names, "<text x={left} y=11>{name}</text>");
        }
        for node in nodes {
            let units = &of.of_node[*node as usize];
            for (slot, unit) in units.iter().enumerate() {
                let (x, y) = (left + slot % of.wide * PITCH, y + slot / of.wide * PITCH);
                let path = &mut paths[of.classes[*unit]];
                let _ = write!(path, "M{x} {y}h{CELL}v{CELL}h-{CELL}z");
            }
            y += units.len().div_ceil(of.wide).max(1) * PITCH;
        }
        height = height.max(y + 6);
    }
    let _ = write!(
        out,
        "<svg role=img aria-label=\"Racks and slots; the evidence has the same in words\" \
         viewBox=\"0 0 {} {height}\">",
        of.across * (of.wide + 2) * PITCH
    );
    for ((class, _), path) in CLASSES.iter().zip(paths).filter(|(_, path)| !path.is_empty()) {
        let _ = write!(out, "<path class={class} d=\"{path}\"/>");
    }
    let _ = write!(out, "{names}</svg>");
}

/// What each flagged device reached in earlier sessions, in a metric: date and logarithm.
type Histories = HashMap<(u32, u32), BTreeMap<String, f64>>;

fn histories(surveyed: &Surveyed, shown: &[&Flagged]) -> Histories {
    let Surveyed { gathered, units, strata, .. } = surveyed;
    let wanted: HashSet<u32> = shown.iter().filter_map(|one| one.unit).collect();
    let mut all = Histories::new();
    for row in &gathered.rows {
        let Some(unit) = units.unit_of[row.entry as usize].filter(|unit| wanted.contains(unit))
        else {
            continue;
        };
        let time = clean(gathered.told(row.entry, column::TIME));
        let own = all.entry((unit, strata.subject_of[row.metric as usize])).or_default();
        own.insert(time, median(gathered.values(row)));
    }
    all
}

/// What the evidence on flagged figures is made from.
struct Evidence<'s> {
    surveyed: &'s Surveyed,
    histories: Histories,
    /// The group and its row of a unit and a metric.
    places: HashMap<(u32, &'s str), (usize, usize)>,
}

impl<'s> Evidence<'s> {
    fn of(surveyed: &'s Surveyed, shown: &[&Flagged]) -> Evidence<'s> {
        let wanted: HashSet<u32> = shown.iter().filter_map(|one| one.unit).collect();
        let mut places = HashMap::new();
        for (at, group) in surveyed.strata.groups.iter().enumerate() {
            let rows = group.gpus().iter().enumerate();
            for (row, gpu) in rows.filter(|(_, gpu)| wanted.contains(gpu)) {
                places.insert((*gpu, group.metric.as_str()), (at, row));
            }
        }
        Evidence { surveyed, histories: histories(surveyed, shown), places }
    }

    /// A line for each figure, below which its evidence is folded.
    fn figures(&self, shown: &[&Flagged], out: &mut String) {
        if shown.is_empty() {
            *out += "<p>None.</p>";
        }
        shown.iter().for_each(|one| self.figure(one, out));
    }

    fn figure(&self, one: &Flagged, out: &mut String) {
        let Surveyed { strata, survey, .. } = self.surveyed;
        let _ = write!(
            out,
            "<details><summary><b class={}>{}</b> {} {}: {}{}</summary><p>{}",
            one.verdict,
            one.verdict,
            text(&one.node),
            text(&one.device),
            text(&one.metric),
            one.loss.map_or(String::new(), |loss| format!(", loses {:.1} %", 100.0 * loss)),
            text(&fleet::told(one))
        );
        let _ = write!(out, ". UUID {}, serial {}.", told(&one.uuid), told(&one.serial));
        if let Some(component) = &one.component {
            let _ = write!(out, " Explained by {}.", text(component));
        }
        let place = one.unit.and_then(|unit| self.places.get(&(unit, one.metric.as_str())));
        if let (Some(unit), Some((at, row))) = (one.unit, place) {
            let judged = &survey.judged[*at][*row];
            let centre = judged.log - (1.0 - judged.loss).max(f64::MIN_POSITIVE).ln();
            let repeats = strata.groups[*at].values(*row).iter().take(30);
            let repeats: Vec<String> = repeats.map(|log| share(*log - centre)).collect();
            let _ = write!(
                out,
                " Stratum {}: {}. Repeats beside its median: {}.",
                strata.groups[*at].stratum,
                text(&strata.names[strata.groups[*at].stratum]),
                repeats.join(", ")
            );
            let history = self.histories.get(&(unit, strata.subjects_of[*at]));
            let history: Vec<String> = { history.into_iter().flatten() }
                .rev()
                .take(HISTORY_MAX)
                .map(|(time, log)| format!("{} {}", text(time), share(log - centre)))
                .collect();
            let _ = write!(out, " History, beside today's median: {}.", history.join("; "));
        }
        *out += "</details>";
    }
}

fn told(number: &str) -> String {
    if number.is_empty() { "unknown".into() } else { text(number) }
}

/// A value with its unit: a number without one in four digits, a small or large one by its power
/// of ten.
fn quantity(value: f64, unit: &str) -> String {
    let number = match value.abs() {
        0.0 | 1e-3..1e5 => format!("{value:.4}"),
        _ => format!("{value:.3e}"),
    };
    if unit == "1" { number } else { format!("{number} {}", text(unit)) }
}

/// A difference of logarithms as a percentage.
fn share(log: f64) -> String {
    format!("{:+.2} %", 100.0 * log.exp_m1())
}

/// Bars of a distribution, and its size.
const BARS: usize = 90;
const WIDE: usize = 720;
const HIGH: usize = 120;

fn metrics(surveyed: &Surveyed, out: &mut String) {
    let Surveyed { strata, report, .. } = surveyed;
    *out += "<section id=metrics><h2>Metrics</h2><p>Devices by their rate beside the median of \
             like devices; the height is the logarithm of their number. Dashed: the least effect, \
             below which a device loses too much. Dotted: the floor. Devices beyond the axis are \
             drawn at its edge.</p>";
    let (shared, own) = told_apart(&strata.names);
    if !shared.is_empty() {
        let _ = write!(out, "<p>All devices: {}.</p>", text(&shared));
    }
    let mut order: Vec<usize> = (0..report.reach.len()).collect();
    order.sort_by(|a, b| {
        let key = |at: usize| (&report.reach[at].metric, report.reach[at].stratum);
        key(*a).cmp(&key(*b))
    });
    order.truncate(CHARTS_MAX);
    for same in order.chunk_by(|a, b| report.reach[*a].metric == report.reach[*b].metric) {
        let _ = write!(out, "<h3>{}</h3><div class=beside>", text(&report.reach[same[0]].metric));
        for at in same {
            let reach = &report.reach[*at];
            let _ = write!(out, "<div><p>{}", of_stratum(report, reach, &own[reach.stratum]));
            for doubt in &reach.whole.doubts {
                let _ = write!(out, " {}.", text(&doubt.to_string()));
            }
            *out += "</p>";
            chart(surveyed, *at, out);
            *out += "</div>";
        }
        *out += "</div>";
    }
    if report.reach.len() > CHARTS_MAX {
        let _ = write!(out, "<p>{} more: --json has them.", report.reach.len() - CHARTS_MAX);
    }
    *out += "</section>";
}

/// How a metric is distributed in a stratum, in words.
fn of_stratum(report: &Report, reach: &Reach, own: &str) -> String {
    let median = match reach.median {
        Some(median) if report.mark != STUB => {
            format!(", median {}", quantity(median, &reach.unit))
        }
        _ => String::new(),
    };
    let sees = match reach.whole.sees {
        Some(sees) if !reach.whole.is_gated => format!(
            "{} see a loss of {:.1} %",
            counted(reach.whole.repeats, "repeat"),
            100.0 * sees
        ),
        _ => "no device can fail by it".into(),
    };
    let own = if own.is_empty() { String::new() } else { format!("{}: ", text(own)) };
    format!(
        "{own}{}{median}; one repeat scatters by {:.2} %, devices by {:.2} %; least effect \
         {:.1} %; {sees}.",
        counted(reach.whole.gpus, "device"),
        100.0 * reach.whole.noise,
        100.0 * reach.whole.spread,
        100.0 * reach.least_effect
    )
}

/// What all strata have in common, and what tells each from the others; what is unknown of all is
/// in neither.
fn told_apart(names: &[String]) -> (String, Vec<String>) {
    let fields: Vec<Vec<&str>> = names.iter().map(|name| name.split(", ").collect()).collect();
    let is_shared = |field: &&&str| fields.iter().all(|of| of.contains(field));
    let is_known = |field: &&&str| !field.ends_with(" unknown");
    let joined = |all: Vec<&&str>| all.into_iter().copied().collect::<Vec<_>>().join(", ");
    let first = fields.first().map_or(&[][..], Vec::as_slice);
    let shared = joined(first.iter().filter(is_shared).filter(is_known).collect());
    let own = fields.iter().map(|of| joined(of.iter().filter(|one| !is_shared(one)).collect()));
    (shared, own.collect())
}

fn chart(surveyed: &Surveyed, at: usize, out: &mut String) {
    let (group, whole) = (&surveyed.strata.groups[at], &surveyed.survey.wholes[at]);
    let reach = (3.0 * group.least_effect).max(4.0 * whole.spread).clamp(0.01, 0.9);
    let place = |log: f64| {
        let share = (log.exp_m1() / reach).clamp(-1.0, 1.0);
        ((share + 1.0) / 2.0 * WIDE as f64) as usize
    };
    let mut counts = [[0_usize; BARS]; 2];
    for judged in &surveyed.survey.judged[at] {
        let bar = place(judged.log - whole.log) * BARS / (WIDE + 1);
        counts[usize::from(judged.verdict == Verdict::Fail)][bar] += 1;
    }
    let most = counts.iter().flatten().copied().max().unwrap_or(1) as f64;
    let _ = write!(
        out,
        "<svg role=img aria-label=\"{}: from {:+.1} % to {:+.1} % of the median\" \
         viewBox=\"0 0 {WIDE} {}\">",
        text(&group.metric),
        -100.0 * reach,
        100.0 * reach,
        HIGH + 28
    );
    for (class, own) in ["c4", "c0"].iter().zip(counts) {
        let mut path = String::new();
        for (bar, count) in own.iter().enumerate().filter(|(_, count)| **count > 0) {
            let tall = (1.0 + *count as f64).ln() / (1.0 + most).ln();
            let (tall, wide) = ((tall * (HIGH - 4) as f64).ceil() as usize + 2, WIDE / BARS);
            let _ = write!(path, "M{} {HIGH}v-{tall}h{}v{tall}z", bar * wide, wide - 1);
        }
        if !path.is_empty() {
            let _ = write!(out, "<path class={class} d=\"{path}\"/>");
        }
    }
    let bar = place((1.0 - group.least_effect).ln());
    let _ = write!(out, "<path class=bar d=\"M{bar} 0v{HIGH}\"/>");
    if let Some(floor) = group.floor {
        let _ = write!(out, "<path class=floor d=\"M{} 0v{HIGH}\"/>", place(floor - whole.log));
    }
    let _ = write!(
        out,
        "<text x=0 y={0}>{1:+.1} %</text><text x={2} y={0} text-anchor=middle>median</text>\
         <text x={WIDE} y={0} text-anchor=end>{3:+.1} %</text></svg>",
        HIGH + 22,
        -100.0 * reach,
        WIDE / 2,
        100.0 * reach
    );
}

/// A table of counts, the worst first.
fn table<'r>(
    title: &str,
    rows: impl Iterator<Item = (String, Verdict, &'r Counts)>,
    out: &mut String,
) {
    let mut rows: Vec<(String, Verdict, &Counts)> = rows.collect();
    rows.sort_by_key(|(_, verdict, _)| match verdict {
        Verdict::Fail => 0,
        Verdict::Inconclusive => 1,
        _ => 2,
    });
    let _ = write!(
        out,
        "<div><h3>{title}</h3><div class=scroll><table><thead><tr><th>Name<th>Verdict\
         <th class=n>Pass<th class=n>Fail<th class=n>Inconclusive</thead><tbody>"
    );
    for (name, verdict, counts) in rows.iter().take(ROWS_MAX) {
        let Counts { pass, fail, inconclusive } = counts;
        let _ = write!(
            out,
            "<tr><td>{name}<td class={verdict}>{verdict}<td class=n>{pass}<td class=n>{fail}\
             <td class=n>{inconclusive}"
        );
    }
    *out += "</tbody></table></div>";
    if rows.len() > ROWS_MAX {
        let _ = write!(out, "<p>{} more: --json has them.", rows.len() - ROWS_MAX);
    }
    *out += "</div>";
}

/// A label and its value; a value that begins with the label says it already.
fn label(label: &str, name: &str) -> String {
    if name.starts_with(label) { text(name) } else { format!("{} {}", text(label), text(name)) }
}

fn labels(surveyed: &Surveyed, out: &mut String) {
    let report = &surveyed.report;
    *out += "<section id=labels><h2>Labels and nodes</h2><div class=beside>";
    if !report.by_label.is_empty() {
        let row = |one: &'_ OfLabel| label(&one.label, &one.name);
        let rows = report.by_label.iter();
        table("Labels", rows.map(|one| (row(one), one.verdict, &one.devices)), out);
    }
    let nodes = report.by_node.iter();
    table("Nodes", nodes.map(|one| (text(&one.node), one.verdict, &one.devices)), out);
    *out += "</div>";
    if let Some(presence) = &report.presence {
        let _ = write!(out, "<h3>Missing</h3><p>{} sent nothing", presence.missing.len());
        let names: Vec<String> =
            presence.missing.iter().take(ROWS_MAX).map(|name| text(name)).collect();
        let _ = write!(out, ": {}", names.join(", "));
    }
    *out += "</section>";
}

fn notes(surveyed: &Surveyed, out: &mut String) {
    *out += "<section id=notes><h2>Notes</h2><ul>";
    for line in fleet::seen(&surveyed.report) {
        let _ = write!(out, "<li>{}", text(line.trim_start_matches(['?', ' '])));
    }
    for note in surveyed.report.notes.iter().take(ROWS_MAX) {
        let _ = write!(out, "<li>{}", text(note));
    }
    *out += "</ul></section>";
}
