//! Whether records reproduce a claim, and why not: synthetic records with planted reasons.

use crate::synthetic;
use fizeau::data::Catalogue;
use fizeau_domain::{
    outcome::{InRegime, Outcome, Regime, Telemetry},
    units::{Megahertz, Watts},
    verdict::Verdict,
};
use fizeau_projection::claim::{
    Claim, ClaimFile, Here, Met, Named, Reproduction, best_case, judge, reproduce,
};
use fizeau_record::{DeviceSettings, Record};

/// The rate of the case below in the synthetic record, and the case.
fn of(record: &Record, start: &str) -> (f64, String) {
    let mut measured = record.outcomes.iter().filter_map(Outcome::measured);
    let one = measured.find(|one| one.case.to_string().starts_with(start)).expect("a case");
    let rate = match one.work.flops.0 > 0.0 && start.starts_with("gemm") {
        true => (one.work.flops / one.summary.median).0,
        false => (one.work.memory / one.summary.median).0,
    };
    (rate, one.case.to_string())
}

/// A quiet machine of its own, whose case took these shares of its time.
pub fn rounds(times: &[f64], change: impl Fn(&mut Record)) -> Vec<Record> {
    let round = |time: &f64| {
        let mut record = synthetic::record();
        record.header.device.virtualised = None;
        record.header.environment.cpus_online = Some(2);
        record.header.environment.load = Some(0.1);
        for one in synthetic::measured_in(&mut record) {
            one.summary.median = one.summary.median * *time;
            one.available = None;
            one.stopped_by_quota = None;
        }
        change(&mut record);
        record
    };
    times.iter().map(round).collect()
}

fn claim(value: &str, conditions: &str) -> Claim {
    let text = format!(
        "[[claim]]\nid = \"own\"\nvalue = \"{value}\"\non = \"epyc-9005\"\n[claim.run.suite]\n\
         [claim.run.conditions]\n{conditions}"
    );
    let file: ClaimFile = toml::from_str(&text).expect("a claim");
    file.claim[0].clone()
}

/// A claim of twice what the synthetic record's copy reaches, and its case.
pub fn twice(conditions: &str) -> (Claim, String) {
    let (rate, case) = of(&synthetic::record(), "stream/copy");
    (claim(&format!("{:.3} GB/s", rate * 2.0 / 1e9), conditions), case)
}

fn judged(claim: &Claim, case: &str, rounds: &[Record]) -> Reproduction {
    let catalogue = Catalogue::load(None).expect("the data");
    let part = catalogue.parts.iter().find(|part| Some(&part.id) == claim.on.as_ref());
    let named = Named { part, model: None, layout: None, links: &catalogue.links };
    let possible = judge(claim, &named).expect("judged");
    let run = claim.run.as_ref().expect("it runs");
    reproduce(claim, run, Here { part, possible: &possible, case, rounds }).expect("rounds")
}

pub const STEADY: [f64; 4] = [1.0, 1.001, 0.999, 1.0];

#[test]
fn the_mean_of_processes_decides_beside_its_interval() {
    let (rate, case) = of(&synthetic::record(), "stream/copy");
    let value = |share: f64| claim(&format!("{} GB/s", rate / share / 1e9), "");
    let found = judged(&value(0.961), &case, &rounds(&STEADY, |_| ()));
    assert_eq!(found.verdict, Verdict::Pass, "{found:?}");
    let share = found.spelled_share().expect("a share");
    assert!(share.starts_with("96.1 % +- 0.1"), "{share}");
    assert!(found.causes.is_empty());
    assert_eq!(judged(&value(0.9), &case, &rounds(&STEADY, |_| ())).verdict, Verdict::Fail);
    // As far from it, but the processes scatter: 95 % may lie on either side.
    let scattered = judged(&value(0.95), &case, &rounds(&[0.9, 1.1, 1.0, 1.05], |_| ()));
    assert_eq!(scattered.verdict, Verdict::Inconclusive);
    assert!(scattered.why.contains("more rounds"), "{}", scattered.why);
    let alone = judged(&value(1.0), &case, &rounds(&[1.0], |_| ()));
    assert_eq!((alone.verdict, alone.half), (Verdict::Inconclusive, None));
}

#[test]
fn nothing_is_refuted_where_a_condition_is_not_met_or_the_machine_was_busy() {
    let (rate, case) = of(&synthetic::record(), "stream/copy");
    let twice = |conditions| claim(&format!("{} GB/s", rate * 2.0 / 1e9), conditions);
    let other = judged(
        &twice("whole = true\n"),
        &case,
        &rounds(&STEADY, |record| {
            record.header.device.virtualised = Some("KVM".into());
        }),
    );
    assert_eq!(other.verdict, Verdict::Inconclusive);
    let whole = other.conditions.iter().find(|one| one.name.contains("cores")).expect("stated");
    assert_eq!(whole.met, Met::No);
    let untold = judged(&twice("ecc = true\n"), &case, &rounds(&STEADY, |_| ()));
    assert_eq!(untold.verdict, Verdict::Inconclusive);
    assert!(
        untold.why.contains("nothing here tells") && untold.why.contains("ECC"),
        "{}",
        untold.why
    );
    let busy = rounds(&STEADY, |record| record.header.environment.load = Some(1.9));
    let busy = judged(&twice(""), &case, &busy);
    assert_eq!(busy.verdict, Verdict::Inconclusive);
    assert!(busy.why.contains("busy at the start"), "{}", busy.why);
    let disturbed = rounds(&STEADY, |record| {
        for one in synthetic::measured_in(record) {
            one.available = Some(0.5);
        }
    });
    assert_eq!(judged(&twice(""), &case, &disturbed).verdict, Verdict::Inconclusive);
    let part = judged(&twice(""), &case, &rounds(&STEADY, |record| record.header.part = None));
    assert_eq!(part.verdict, Verdict::Inconclusive);
    assert!(part.why.contains("part"), "{}", part.why);
}

/// Each planted reason is named, and none where there is none.
#[test]
fn the_reason_of_a_difference_is_named() {
    let (rate, case) = of(&synthetic::record(), "stream/copy");
    let causes = |value: &str, change: &dyn Fn(&mut Record)| {
        let found = judged(&claim(value, ""), &case, &rounds(&STEADY, change));
        assert_eq!(found.verdict, Verdict::Fail, "{found:?}");
        found.causes.join("\n")
    };
    let times = |factor: f64| format!("{} GB/s", rate * factor / 1e9);
    let none = causes(&times(1.2), &|_| ());
    for words in ["definition", "power cap", "wrong tier", "held down"] {
        assert!(!none.contains(words), "{none}");
    }
    assert!(causes(&times(1.5), &|_| ()).contains("a copy's write-allocate"));
    assert!(causes(&times(8.0), &|_| ()).contains("bits and not bytes"));
    assert!(causes("576 GB/s", &|_| ()).contains("wrong tier"));
    let impossible = causes("5,000 GB/s", &|_| ());
    assert!(impossible.contains("cannot be true"), "{impossible}");
    let capped = causes(&times(1.2), &|record| {
        for one in synthetic::measured_in(record) {
            one.telemetry =
                Some(Telemetry { held_by: vec!["power cap".into()], ..Telemetry::default() });
        }
    });
    assert!(capped.contains("held down by: power cap"), "{capped}");
    let locked = causes(&times(1.2), &|record| {
        record.header.environment.settings = Some(DeviceSettings {
            clock_locks: Some("900 MHz".into()),
            ..DeviceSettings::default()
        });
    });
    assert!(locked.contains("clocks are held: 900 MHz"), "{locked}");
    let in_bursts = |faster: f64| {
        causes(&times(1.2), &move |record| {
            for one in synthetic::measured_in(record) {
                one.regime = Some(Regime::Settled);
                let mut summary = one.summary;
                summary.median = summary.median * (1.0 / faster);
                let samples = one.samples.clone();
                one.beside = Some(InRegime { regime: Regime::Burst, samples, summary });
            }
        })
    };
    let words = "in bursts, each after a rest, 100.0 % of the figure were measured";
    assert!(in_bursts(1.2).contains(words), "{}", in_bursts(1.2));
    assert!(!in_bursts(1.1).contains("in bursts"), "{}", in_bursts(1.1));
}

#[test]
fn settings_that_are_stated_are_compared() {
    let (rate, case) = of(&synthetic::record(), "stream/copy");
    let conditions = "clock_mhz = 1000.0\npower_limit_w = 700.0\necc = true\nsockets = 1\n\
                      library = \"openblas 0.3\"\ncache = \"hot\"\nvendor = \"amd\"\n";
    let of = |watts: f64, clock: f64| {
        let rounds = rounds(&STEADY, |record| {
            record.header.device.sockets = 1;
            record.header.environment.settings = Some(DeviceSettings {
                power_limit: Some(Watts(watts)),
                ecc: Some(true),
                ..DeviceSettings::default()
            });
            for one in synthetic::measured_in(record) {
                one.clock = Some(Megahertz(clock));
            }
        });
        let claim = claim(&format!("{} GB/s", rate / 1e9), conditions);
        judged(&claim, &case, &rounds)
    };
    let met = of(700.0, 1010.0);
    assert!(met.conditions.iter().all(|one| one.met == Met::Yes), "{:?}", met.conditions);
    assert_eq!(met.verdict, Verdict::Pass);
    let open = |found: &Reproduction| -> Vec<&str> {
        let open = found.conditions.iter().filter(|one| one.met == Met::No);
        open.map(|one| one.name).collect()
    };
    assert_eq!(open(&of(500.0, 1010.0)), ["power limit"]);
    assert_eq!(open(&of(700.0, 1400.0)), ["clock"]);
}

#[test]
fn the_fastest_case_that_counts_is_chosen() {
    let record = synthetic::record();
    let mut claim = claim("1 GFLOP/s f32", "");
    let run = claim.run.as_mut().expect("it runs");
    run.cases = vec!["gemm/f32".into()];
    let run = run.clone();
    let best = best_case(&claim, &run, &record).expect("a case");
    assert!(best.starts_with("gemm/f32/"), "{best}");
    claim.value = "1 GFLOP/s fp4".into();
    let none = best_case(&claim, &run, &record).expect_err("no such type");
    assert!(none.contains("1 GFLOP/s fp4"), "{none}");
}
