//! Scores of rules on planted fleets.

use super::{
    Dependence, Group,
    component::{self, Kind},
    judge::{Settings, Survey, judge},
    planted::Fleet,
    recipe::Recipe,
    retest,
    rules::{self, Rule},
};
use crate::accept::decide::RETEST;
use fizeau_domain::verdict::Verdict;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a rule did, over all metrics of all GPUs of some fleets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Losses of at least twice the least effect: those that should be found.
    pub bad: usize,
    /// Of these, those that failed.
    pub found: usize,
    /// Losses of at most the least effect.
    pub healthy: usize,
    /// Of these, those that failed: false discoveries.
    pub wrong: usize,
    /// Of these, those that are inconclusive. Of rules in use none is.
    pub inconclusive: usize,
    /// All that failed, whatever their loss.
    pub failed: usize,
    /// The share of false discoveries, summed over fleets; 0 of a fleet without any failure.
    pub wrong_shares: f64,
    /// Fleets.
    pub fleets: usize,
    /// Fleets with a false discovery.
    pub fleets_wrong: usize,
    /// GPUs that are healthy in all metrics.
    pub healthy_gpus: usize,
    /// Of these, GPUs that fail in no metric and are inconclusive in one or more.
    pub open_gpus: usize,
}

impl Tally {
    /// The share of failures whose true loss is above the least effect; `None` without failures.
    pub fn precision(&self) -> Option<f64> {
        (self.failed > 0).then(|| 1.0 - self.wrong as f64 / self.failed as f64)
    }

    /// The share that is found of those that should be; `None` where there are none.
    pub fn recall(&self) -> Option<f64> {
        (self.bad > 0).then(|| self.found as f64 / self.bad as f64)
    }

    /// Mean share of false discoveries of a fleet.
    pub fn false_discovery_rate(&self) -> f64 {
        self.wrong_shares / self.fleets.max(1) as f64
    }

    fn add(&mut self, fleet: &Tally) {
        self.bad += fleet.bad;
        self.found += fleet.found;
        self.healthy += fleet.healthy;
        self.wrong += fleet.wrong;
        self.inconclusive += fleet.inconclusive;
        self.failed += fleet.failed;
        self.wrong_shares += fleet.wrong as f64 / fleet.failed.max(1) as f64;
        self.fleets += 1;
        self.fleets_wrong += usize::from(fleet.wrong > 0);
        self.healthy_gpus += fleet.healthy_gpus;
        self.open_gpus += fleet.open_gpus;
    }

    fn count(&mut self, truth: f64, least_effect: f64, verdict: Verdict) {
        let fails = verdict == Verdict::Fail;
        let is_bad = truth >= 2.0 * least_effect;
        let is_healthy = truth <= least_effect;
        self.bad += usize::from(is_bad);
        self.found += usize::from(is_bad && fails);
        self.healthy += usize::from(is_healthy);
        self.wrong += usize::from(is_healthy && fails);
        self.inconclusive += usize::from(is_healthy && verdict == Verdict::Inconclusive);
        self.failed += usize::from(fails);
    }
}

/// What was named for fleets in which a leaf, a rack or a rail may have been planted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Components {
    /// Fleets in which one was planted.
    pub planted: usize,
    /// Of these, those in which that one was named in each of its metrics.
    pub right: usize,
    /// Fleets in which another leaf, rack or rail was named.
    pub wrong: usize,
}

/// All scores.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Scores {
    /// GPUs of a fleet.
    pub gpus: usize,
    /// Fleets.
    pub fleets: usize,
    /// By rule, in words.
    #[serde(serialize_with = "by_words")]
    pub rules: BTreeMap<Rule, Tally>,
    /// GPUs that were to be measured anew.
    pub retested: usize,
    /// Components.
    pub components: Components,
    /// In how many fleets the output says that noise is not as the test assumes.
    pub doubted: usize,
    /// GPUs whose node sent nothing.
    pub missing: usize,
}

fn by_words<S: serde::Serializer>(
    rules: &BTreeMap<Rule, Tally>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(rules.iter().map(|(rule, tally)| (rule.words(), tally)))
}

impl Scores {
    /// GPUs to be measured anew, as a share of all.
    pub fn retest_share(&self) -> f64 {
        self.retested as f64 / (self.gpus * self.fleets).max(1) as f64
    }
}

/// Scores all rules on fleets of `gpus` GPUs, one for each seed from `seed` on.
pub fn score(recipe: &Recipe, gpus: usize, fleets: usize, seed: u64) -> Scores {
    let mut scores = Scores { gpus, fleets, ..Scores::default() };
    for at in 0..fleets {
        let mut fleet = Fleet::plant(recipe, gpus, seed + at as u64);
        score_one(recipe, &mut fleet, &mut scores);
    }
    scores
}

fn score_one(recipe: &Recipe, fleet: &mut Fleet, scores: &mut Scores) {
    let groups = fleet.groups();
    let truth = fleet.truth();
    let nodes = fleet.nodes.clone();
    let tally = |verdict: &dyn Fn(usize, usize) -> Verdict| {
        let mut tally = Tally::default();
        let mut gpus: Vec<Option<(bool, Verdict)>> = vec![None; nodes.len()];
        for (at, group) in groups.iter().enumerate() {
            let losses = &truth[metric_of(recipe, group)];
            for (row, gpu) in group.gpus().iter().enumerate() {
                let (loss, its) = (losses[*gpu as usize], verdict(at, row));
                tally.count(loss, group.least_effect, its);
                let own = gpus[*gpu as usize].get_or_insert((true, Verdict::Pass));
                *own = (own.0 && loss <= group.least_effect, own.1.and(its));
            }
        }
        for (_, verdict) in gpus.into_iter().flatten().filter(|(is_healthy, _)| *is_healthy) {
            tally.healthy_gpus += 1;
            tally.open_gpus += usize::from(verdict == Verdict::Inconclusive);
        }
        tally
    };
    for rule in Rule::ALL.into_iter().filter(|rule| rule.is_in_use()) {
        let failed: Vec<Vec<bool>> =
            groups.iter().map(|group| rules::failed(rule, group, recipe, &nodes)).collect();
        let verdict =
            |at: usize, row: usize| if failed[at][row] { Verdict::Fail } else { Verdict::Pass };
        scores.rules.entry(rule).or_default().add(&tally(&verdict));
    }
    let any = Settings { dependence: Dependence::Any, ..Settings::default() };
    let conservative = judge(&groups, &nodes, &any);
    let verdict = |at: usize, row: usize| conservative.judged[at][row].verdict;
    scores.rules.entry(Rule::OursAny).or_default().add(&tally(&verdict));
    let survey = judge(&groups, &nodes, &Settings::default());
    let verdict = |at: usize, row: usize| survey.judged[at][row].verdict;
    scores.rules.entry(Rule::Ours).or_default().add(&tally(&verdict));
    scores.components.count(recipe, fleet, &groups, &survey);
    scores.doubted += usize::from(survey.wholes.iter().any(|whole| !whole.doubts.is_empty()));
    scores.missing += (0..fleet.len()).filter(|gpu| !fleet.has_sent(*gpu)).count();
    let (confirmed, retested) = retested(recipe, fleet, &groups, &survey);
    scores.retested += retested;
    let verdict = |at: usize, row: usize| match survey.judged[at][row].verdict {
        Verdict::Fail if !confirmed.contains(&(at, row)) => Verdict::Inconclusive,
        verdict => verdict,
    };
    scores.rules.entry(Rule::OursRetested).or_default().add(&tally(&verdict));
}

fn metric_of(recipe: &Recipe, group: &Group) -> usize {
    recipe.metrics.iter().position(|metric| metric.name == group.metric).unwrap_or(0)
}

/// Measures anew what failed: the groups and rows that failed again, and how many GPUs that took.
fn retested(
    recipe: &Recipe,
    fleet: &mut Fleet,
    groups: &[Group],
    survey: &Survey,
) -> (BTreeSet<(usize, usize)>, usize) {
    let (mut confirmed, mut gpus) = (BTreeSet::new(), BTreeSet::new());
    for (at, group) in groups.iter().enumerate() {
        let (whole, judged) = (&survey.wholes[at], &survey.judged[at]);
        let partners = retest::partners(group, judged);
        let sessions = retest::sessions(group, judged, &fleet.nodes);
        let failed = (0..group.len()).filter(|row| judged[*row].verdict == Verdict::Fail);
        for (turn, row) in failed.enumerate() {
            let gpu = group.gpu(row) as usize;
            gpus.insert(gpu);
            // Each has a partner of its own, as far as there are enough.
            let partner = partners.get(turn % partners.len().max(1));
            let partner = partner.map_or(gpu, |row| group.gpu(*row) as usize);
            let is_again = (0..sessions[row]).all(|_| {
                let pair = [gpu, partner];
                let [fresh, beside] = fleet.retest(metric_of(recipe, group), pair, RETEST);
                let beside = if partner == gpu { &[][..] } else { &beside };
                retest::is_confirmed(group, whole, &judged[row], [&fresh, beside])
            });
            if is_again {
                confirmed.insert((at, row));
            }
        }
    }
    (confirmed, gpus.len())
}

impl Components {
    fn count(&mut self, recipe: &Recipe, fleet: &Fleet, groups: &[Group], survey: &Survey) {
        let kinds: Vec<Kind> = fleet.kinds();
        let named = component::named(groups, survey, &kinds, &fleet.nodes);
        let larger = named.iter().filter(|one| one.kind != "node");
        let Some((planted, which)) = recipe.component.as_ref().zip(fleet.slow_component) else {
            self.wrong += usize::from(larger.count() > 0);
            return;
        };
        let name = format!("{}{which}", planted.kind);
        let is_it = |kind: &str, of: &str| kind == planted.kind && of == name;
        let also = format!("{} {name}", planted.kind);
        let is_named = |metric: &String| {
            named.iter().any(|one| {
                &one.metric == metric && (is_it(&one.kind, &one.name) || one.also.contains(&also))
            })
        };
        self.planted += 1;
        self.right += usize::from(planted.metrics.iter().all(is_named));
        let others =
            { larger }.filter(|one| !is_it(&one.kind, &one.name) && !one.also.contains(&also));
        self.wrong += usize::from(others.count() > 0);
    }
}
