//! The survey: from all rows to verdicts on metrics, devices, nodes, labels and the fleet.

use super::{
    across,
    component::{self, Kind as Components, Named},
    dispute,
    flag::{Basis, Flagged, Flags, Own},
    gather::{Gathered, Said, column},
    judge::{Settings, Survey, Whole, judge},
    plan::{Outcome, Retest},
    problem::Kind,
    sender,
    site::{self, Expected},
    strata::{Rule, Strata},
    units::{Units, Window, by_number, counted_units, is_gpu, unlisted},
};
use fizeau_domain::{
    labels::{Belonging, Labels},
    text::clean,
    verdict::Verdict,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The format of the JSON of a survey, counted up when a field changes its meaning.
pub const FORMAT: u32 = 1;

/// How a survey is made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How errors are controlled.
    pub settings: Settings,
    /// How strata are made.
    pub rule: Rule,
    /// Which sessions count.
    pub window: Window,
    /// What was measured anew.
    pub retest: Retest,
}

/// How many have which verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// That pass.
    pub pass: usize,
    /// That fail.
    pub fail: usize,
    /// That could not be decided.
    pub inconclusive: usize,
}

impl Counts {
    /// Adds one.
    pub fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Pass | Verdict::Waived => self.pass += 1,
            Verdict::Fail => self.fail += 1,
            Verdict::Inconclusive => self.inconclusive += 1,
        }
    }

    /// Counts verdicts.
    pub fn of(verdicts: impl Iterator<Item = Verdict>) -> Counts {
        let mut counts = Counts::default();
        verdicts.for_each(|verdict| counts.add(verdict));
        counts
    }

    /// The worst of them; inconclusive of none.
    pub fn verdict(&self) -> Verdict {
        match self {
            Counts { fail: 1.., .. } => Verdict::Fail,
            Counts { inconclusive: 1.., .. } | Counts { pass: 0, .. } => Verdict::Inconclusive,
            _ => Verdict::Pass,
        }
    }
}

/// What the repeats of a metric can tell, in one stratum.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reach {
    /// The metric.
    pub metric: String,
    /// The stratum, by its number.
    pub stratum: usize,
    /// The unit of its rates.
    pub unit: String,
    /// Median rate, in the unit; absent of a stub driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// The least loss that counts.
    pub least_effect: f64,
    /// The rest.
    #[serde(flatten)]
    pub whole: Whole,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfNode {
    /// Its name.
    pub node: String,
    /// The worst of its devices and of its own acceptance.
    pub verdict: Verdict,
    /// Its devices.
    #[serde(flatten)]
    pub devices: Counts,
    /// When its latest session began.
    pub time: String,
}

/// A component that a label names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfLabel {
    /// `rack`.
    pub label: String,
    /// `r12`.
    pub name: String,
    /// The worst of its devices.
    pub verdict: Verdict,
    /// Its devices.
    #[serde(flatten)]
    pub devices: Counts,
}

/// Nodes there are to be, and what is there of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Presence {
    /// How many there are to be: measured, unusable and missing.
    pub planned: usize,
    /// Of these, how many have figures that count.
    pub measured: usize,
    /// Those that sent something of which nothing counts: the report's list has the reasons.
    pub unusable: Vec<String>,
    /// Those that sent nothing.
    pub missing: Vec<String>,
    /// Those that sent something and are not in the list: it counts for nothing.
    pub unexpected: Vec<String>,
    /// Nodes with fewer GPUs than there are to be, in words.
    pub short: Vec<String>,
}

impl Presence {
    /// Whether what was sent is not what the list has.
    fn is_not_the_list(&self) -> bool {
        [&self.missing, &self.short, &self.unexpected].into_iter().any(|nodes| !nodes.is_empty())
    }
}

/// A sender of whose files none counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unusable {
    /// The node, or the path of what does not name its node.
    pub sender: String,
    /// Why nothing counts.
    pub why: String,
}

/// What a survey comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The format of this document.
    pub format: u32,
    /// The program's version.
    pub fizeau: String,
    /// `stub` or `simulated` where nothing was measured.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mark: String,
    /// The verdict on the fleet: the worst of all, and inconclusive where a node sent nothing.
    pub verdict: Verdict,
    /// The fleet in words: how many of what.
    pub fleet: String,
    /// Start of the first session that counts, and of the last.
    pub from: String,
    /// Start of the last session that counts.
    pub to: String,
    /// Devices.
    pub devices: Counts,
    /// Nodes.
    pub nodes: Counts,
    /// Nodes there are to be, where a list was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence: Option<Presence>,
    /// Who sent something of which nothing counts: a node, or a path that does not name its node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unusable: Vec<Unusable>,
    /// How errors were controlled.
    pub control: Control,
    /// Components that are slow as a whole.
    pub components: Vec<Named>,
    /// What does not pass: failures first, and of these the largest losses.
    pub flagged: Vec<Flagged>,
    /// What each metric's repeats can tell.
    pub reach: Vec<Reach>,
    /// Strata in words, by their numbers.
    pub strata: Vec<String>,
    /// Each node.
    pub by_node: Vec<OfNode>,
    /// Each component that a label names.
    pub by_label: Vec<OfLabel>,
    /// Repeats that were left out because something else took a part of a machine.
    pub disturbed: u64,
    /// What was left out, or could not be trusted.
    pub notes: Vec<String>,
    /// The same in few lines: the first of each kind.
    #[serde(skip)]
    pub brief: Vec<String>,
}

/// How errors were controlled.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Control {
    /// Expected share of wrong ones among all that fail.
    pub false_discoveries: f64,
    /// The procedure, in words.
    pub procedure: String,
    /// Over how many tests.
    pub tests: usize,
}

/// A survey with all that its tables are made from.
pub struct Surveyed {
    /// The rows.
    pub gathered: Gathered,
    /// What was left out so that figures may be lost, in words.
    pub lost: Vec<String>,
    /// Boards and machines whose figures are left out, since others are in their places, in words.
    pub replaced: Vec<String>,
    /// Who is who.
    pub units: Units,
    /// What each device belongs to, by the operator's labels.
    pub belongings: Vec<Belonging>,
    /// What was compared.
    pub strata: Strata,
    /// The verdicts of the fleet's rule.
    pub survey: Survey,
    /// The whole, without each single verdict.
    pub report: Report,
    /// By device and metric: what its own acceptance failed.
    pub failed: HashMap<(u32, u32), Said>,
    /// By group and row: what measuring anew said of it.
    pub retested: HashMap<(usize, usize), Outcome>,
}

/// Surveys. `labels` and `expected` may be empty.
pub fn survey(
    mut gathered: Gathered,
    options: &Options,
    labels: &Labels,
    expected: Option<&Expected>,
) -> Surveyed {
    gathered.end();
    gathered.recall(&options.window);
    let mut problems = std::mem::take(&mut gathered.problems);
    let mut units = Units::of(&gathered, &options.window, expected, &mut problems);
    let (rule, window) = (&options.rule, &options.window);
    let belongings = site::belongings(labels, &units, &gathered, &mut problems);
    let strata = Strata::of(&gathered, &units, &belongings, rule, window, &mut problems);
    sender::add_unmeasured(&gathered, &mut units, &strata);
    let nodes: Vec<u32> = units.units.iter().map(|unit| unit.node).collect();
    let mut survey = judge(&strata.groups, &nodes, &options.settings);
    dispute::settle(&strata, &mut survey);
    let kinds = site::components(labels, &belongings, &units, &gathered);
    let components = component::named(&strata.groups, &survey, &kinds, &nodes);
    let own = Own::of(&gathered, &units, &strata);
    let retested = options.retest.outcomes(&gathered, &units, &strata, &survey);
    let basis = Basis {
        gathered: &gathered,
        units: &units,
        strata: &strata,
        survey: &survey,
        components: &components,
        own: &own,
        retested: &retested,
    };
    let Flags { verdicts, of_nodes, flagged } = basis.flags();
    let mut by_node = by_node(&units, &verdicts, &of_nodes);
    let unusable = unusable(&units);
    let presence = expected.map(|expected| presence(expected, &units, &unusable, &gathered));
    let devices = Counts::of(verdicts.iter().copied());
    let of_nodes = Counts::of(by_node.iter().map(|node| node.verdict));
    let is_short = presence.as_ref().is_some_and(Presence::is_not_the_list);
    let missing = presence.as_ref().map_or(0, |one| one.missing.len());
    let is_short = is_short || !unusable.is_empty() || problems.lose_figures();
    across::hints(&strata, &survey, &units, &gathered, &mut problems);
    let verdict =
        of_nodes.verdict().and(if is_short { Verdict::Inconclusive } else { Verdict::Pass });
    by_node.sort_by_key(|node| std::cmp::Reverse(node.verdict.exit_code().min(2)));
    let [from, to] = span(&gathered, &units);
    let report = Report {
        format: FORMAT,
        fizeau: env!("CARGO_PKG_VERSION").into(),
        mark: units.mark.clone(),
        verdict,
        fleet: counted_units(&units, &gathered, missing + unusable.len()),
        from,
        to,
        devices,
        nodes: of_nodes,
        presence,
        unusable,
        control: control(&options.settings, &survey),
        by_label: by_label(&kinds, &verdicts),
        components,
        flagged,
        reach: reach(&strata, &survey, &units),
        strata: strata.names.clone(),
        by_node,
        disturbed: strata.disturbed,
        notes: problems.lines(),
        brief: problems.brief(),
    };
    Surveyed {
        gathered,
        lost: problems.lost(),
        replaced: problems.of_kind(Kind::Replaced),
        units,
        belongings,
        strata,
        survey,
        report,
        failed: own.measured,
        retested,
    }
}

fn control(settings: &Settings, survey: &Survey) -> Control {
    Control {
        false_discoveries: settings.false_discoveries,
        procedure: settings.dependence.words().into(),
        tests: survey.tests,
    }
}

/// When the first and the last session that counts began; empty where none does.
fn span(gathered: &Gathered, units: &Units) -> [String; 2] {
    let counting = (0..gathered.entries.len() as u32)
        .filter(|entry| units.node_of[*entry as usize].is_some())
        .map(|entry| gathered.told(entry, column::TIME));
    [counting.clone().min(), counting.max()].map(|time| clean(time.unwrap_or_default()))
}

fn by_node(units: &Units, verdicts: &[Verdict], own: &[Option<Verdict>]) -> Vec<OfNode> {
    let mut counts = vec![Counts::default(); units.nodes.len()];
    for (unit, verdict) in units.units.iter().zip(verdicts) {
        counts[unit.node as usize].add(*verdict);
    }
    let node = |(at, node): (usize, &super::units::Node)| {
        let devices = counts[at];
        let is_measured = devices != Counts::default();
        let of_devices = is_measured.then(|| devices.verdict());
        let all = [of_devices, own[at]].into_iter().flatten();
        let verdict = Verdict::on_all(all);
        OfNode { node: node.name.clone(), verdict, devices, time: clean(&node.time) }
    };
    units.nodes.iter().enumerate().map(node).collect()
}

fn by_label(kinds: &[Components], verdicts: &[Verdict]) -> Vec<OfLabel> {
    let mut all = Vec::new();
    // Nodes have a list of their own; places within nodes are no label.
    for kind in kinds.iter().filter(|kind| ![site::NODES, site::PLACES].contains(&&*kind.name)) {
        let mut counts = vec![Counts::default(); kind.names.len()];
        for (component, verdict) in kind.of.iter().zip(verdicts) {
            if let Some(component) = component {
                counts[*component as usize].add(*verdict);
            }
        }
        let mut own: Vec<OfLabel> = { kind.names.iter().zip(counts) }
            .map(|(name, devices)| OfLabel {
                label: kind.name.clone(),
                name: name.clone(),
                verdict: devices.verdict(),
                devices,
            })
            .collect();
        own.sort_by(|a, b| by_number(&a.name, &b.name));
        all.extend(own);
    }
    all
}

/// Senders without a figure that counts.
fn unusable(units: &Units) -> Vec<Unusable> {
    let there: BTreeSet<&str> = units.nodes.iter().map(|node| node.plain.as_str()).collect();
    let without = units.accounts.iter().filter(|(sender, _)| !there.contains(sender.as_str()));
    without.map(|(sender, why)| Unusable { sender: sender.clone(), why: why.clone() }).collect()
}

fn presence(
    expected: &Expected,
    units: &Units,
    unusable: &[Unusable],
    gathered: &Gathered,
) -> Presence {
    let all: BTreeSet<&str> = units.nodes.iter().map(|node| node.plain.as_str()).collect();
    let there: BTreeSet<&str> = all.iter().filter_map(|node| expected.named(node)).collect();
    let without: BTreeSet<&str> =
        unusable.iter().filter_map(|one| expected.named(&one.sender)).collect();
    let is_absent = |node: &&String| !there.contains(node.as_str());
    let is_unusable = |node: &&String| is_absent(node) && without.contains(node.as_str());
    let spoilt: Vec<String> =
        expected.nodes.keys().filter(is_unusable).map(|node| clean(node)).collect();
    let missing = expected.nodes.keys().filter(|node| is_absent(node) && !is_unusable(node));
    let missing: Vec<String> = missing.map(|node| clean(node)).collect();
    let unexpected = unlisted(gathered, expected).into_iter();
    let unexpected = unexpected.map(|entry| clean(gathered.told(entry as u32, column::NODE)));
    let unexpected: BTreeSet<String> = unexpected.filter(|node| !node.is_empty()).collect();
    let mut gpus: BTreeMap<&str, usize> = BTreeMap::new();
    for unit in &units.units {
        let device = gathered.told(unit.entry, column::DEVICE);
        let node = &units.nodes[unit.node as usize].plain;
        if let Some(node) = expected.named(node).filter(|_| is_gpu(device)) {
            *gpus.entry(node).or_default() += 1;
        }
    }
    let short = |(node, planned): (&String, &Option<usize>)| {
        let (planned, found) = ((*planned)?, gpus.get(node.as_str()).copied().unwrap_or(0));
        let is_short = there.contains(node.as_str()) && found < planned;
        is_short.then(|| format!("{}: {found} of {planned} GPUs", clean(node)))
    };
    Presence {
        planned: expected.nodes.len(),
        measured: expected.nodes.len() - missing.len() - spoilt.len(),
        unusable: spoilt,
        unexpected: unexpected.into_iter().collect(),
        short: expected.nodes.iter().filter_map(short).collect(),
        missing,
    }
}

fn reach(strata: &Strata, survey: &Survey, units: &Units) -> Vec<Reach> {
    let one = |(at, whole): (usize, &Whole)| {
        let (group, subject) = (&strata.groups[at], strata.subjects_of[at]);
        Reach {
            metric: group.metric.clone(),
            stratum: group.stratum,
            unit: strata.subjects[subject as usize].unit.clone(),
            median: Some(whole.log.exp()).filter(|_| units.mark != super::row::STUB),
            least_effect: group.least_effect,
            whole: whole.clone(),
        }
    };
    survey.wholes.iter().enumerate().map(one).collect()
}
