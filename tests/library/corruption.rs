//! Silent corruption is found: the trials that print docs/appendix/corruption-rates.md, with few
//! seeds.

#[path = "../../examples/corruption_rates/trial.rs"]
mod trial;

use fizeau_bench::sdc::planted::Site;
use fizeau_device::{Backend, host::Host};
use fizeau_domain::stats::rate_seen;

#[test]
fn one_flipped_bit_is_caught_wherever_it_is() {
    let device = Host.open(0).expect("there is always a host");
    for site in Site::ALL {
        let caught = trial::flips(device.as_ref(), site, 0..12, 50).expect("it runs");
        assert_eq!((caught.changed, caught.caught), (12, 12), "{}: {caught:?}", site.name());
        assert_eq!((caught.placed, caught.false_alarms), (12, 0), "{}: {caught:?}", site.name());
    }
}

#[test]
fn many_products_are_clean_but_for_the_one_that_is_spoilt() {
    let device = Host.open(0).expect("there is always a host");
    let [clean, spoilt] = trial::many(device.as_ref(), 20_000).expect("it runs");
    assert_eq!((clean.compared, clean.mismatches), (20_000, 0));
    assert!(clean.words().contains("clean to p < 1.5e-4 a product at 95 %"), "{}", clean.words());
    assert_eq!((spoilt.compared, spoilt.mismatches), (20_000, 1));
}

#[test]
fn the_stated_rate_is_seen_as_often_as_is_stated() {
    assert!((rate_seen(1) - 0.95).abs() < 1e-12 && rate_seen(0) == 1.0);
    // Of rare events 1 - 0.05^(1/n) is 3 / n.
    assert!((rate_seen(1_000_000) * 1e6 - 2.9957).abs() < 1e-3);
    let device = Host.open(0).expect("there is always a host");
    let share = trial::stated_rate(device.as_ref(), 40, 400).expect("it runs");
    // Four standard deviations of 400 runs.
    assert!((share - 0.95).abs() < 0.044, "{share}");
}

mod verdicts {
    use crate::synthetic;
    use fizeau_domain::{
        case::{Case, KernelName, Point, SdcPoint},
        dtype::Dtype,
        outcome::{Failure, Integrity, Outcome},
        stats::rate_seen,
        verdict::Verdict,
    };
    use fizeau_judge::accept::{
        Judged, Level,
        node::{Device, Node},
        profile::Profile,
    };
    use fizeau_record::Record;

    const PROFILE: &str = r#"
name = "bits"
description = "bits"
kind = "derived"
suite = "sdc"

[[check]]
name = "silent corruption"
cases = ["sdc/*"]
resource = "results"
"#;

    /// What a device shows in one look: the number of its hash, or nothing but a mismatch.
    #[derive(Clone, Copy)]
    enum Shows {
        Hash(u64),
        Mismatch,
    }

    fn record(shows: Shows) -> Record {
        let (dtype, rounds) = (Dtype::F32, 10);
        let point = Point::Sdc(SdcPoint::Product { dtype, m: 8, n: 8, k: 8, rounds });
        let case = Case { kernel: KernelName("portable".into()), point };
        let integrity = |mismatches, hash: Option<u64>| {
            Some(Box::new(Integrity {
                unit: "product".into(),
                compared: 1000,
                mismatches,
                rate_seen: rate_seen(1000),
                hash: hash.map(|hash| format!("{hash:016x}")),
                ..Integrity::default()
            }))
        };
        let mut record = synthetic::record();
        let measured = record.outcomes.iter().find_map(Outcome::measured).expect("one").clone();
        let outcome = match shows {
            Shows::Hash(hash) => {
                let (case, integrity) = (case.clone(), integrity(0, Some(hash)));
                let (code, telemetry) = (Vec::new(), None);
                Outcome::Measured(Box::new(fizeau_domain::outcome::Measurement {
                    case,
                    integrity,
                    code,
                    telemetry,
                    ..measured
                }))
            }
            Shows::Mismatch => Outcome::Failed {
                case: case.clone(),
                failure: Failure::WrongResult,
                error: "1 of 1000 products differ in their bits".into(),
                integrity: integrity(1, Some(7)),
            },
        };
        record.header.plan = vec![case];
        record.outcomes = vec![outcome];
        record
    }

    /// The verdicts on devices that show this, one look after the other; each is looked at as long
    /// as the node wants it.
    fn judged(profile: &str, devices: &[&[Shows]]) -> Vec<Judged> {
        let profile = Profile::parse(profile).expect("a profile");
        let device = |at| Device { name: format!("cuda:{at}"), ..Device::default() };
        let all = (0..devices.len()).map(device).collect();
        let mut node = Node::new(&profile, Level::Quick, all);
        let mut looks = vec![0; devices.len()];
        let mut wanted: Vec<usize> = (0..devices.len()).collect();
        while !wanted.is_empty() {
            for at in wanted {
                node.add(at, &record(devices[at][looks[at].min(devices[at].len() - 1)]));
                looks[at] += 1;
            }
            wanted = node.wanted().into_keys().collect();
        }
        assert!(looks.iter().all(|looks| *looks <= 3), "{looks:?}");
        node.judged()
    }

    fn verdicts(profile: &str, devices: &[&[Shows]]) -> Vec<Verdict> {
        judged(profile, devices).iter().map(|one| one.verdict).collect()
    }

    const RIGHT: &[Shows] = &[Shows::Hash(7)];
    const WRONG: &[Shows] = &[Shows::Mismatch];
    const ONCE: &[Shows] = &[Shows::Mismatch, Shows::Hash(7)];
    const OTHER: &[Shows] = &[Shows::Hash(8)];
    use Verdict::{Fail, Inconclusive, Pass};

    #[test]
    fn what_repeats_on_one_device_fails_and_what_was_seen_once_does_not() {
        assert_eq!(verdicts(PROFILE, &[RIGHT]), [Pass]);
        assert_eq!(verdicts(PROFILE, &[WRONG]), [Fail]);
        assert_eq!(verdicts(PROFILE, &[RIGHT, WRONG, RIGHT]), [Pass, Fail, Pass]);
        let once = judged(PROFILE, &[RIGHT, ONCE, RIGHT]);
        assert_eq!((once[1].verdict, once[1].repeats), (Inconclusive, 3));
        assert!(once[1].words.contains("seen once, and not in 2 further looks"), "{once:?}");
        assert!(once[0].words.contains("clean to p < 3.0e-3 a product at 95 %"), "{once:?}");
    }

    #[test]
    fn a_device_is_set_beside_most_others_and_all_together_blame_none() {
        let found = judged(PROFILE, &[RIGHT, RIGHT, OTHER, RIGHT]);
        assert_eq!(found[2].verdict, Fail);
        assert!(found[2].words.contains("are not those of 3 others"), "{}", found[2].words);
        // Of two nobody knows which is right.
        assert_eq!(verdicts(PROFILE, &[RIGHT, OTHER]), [Inconclusive, Inconclusive]);
        let all = judged(PROFILE, &[WRONG, WRONG, WRONG, RIGHT]);
        assert_eq!(all[0].verdict, Inconclusive);
        assert!(all[0].words.contains("suspect the kernel"), "{}", all[0].words);
    }

    #[test]
    fn a_device_is_set_beside_the_bits_of_good_machines() {
        let hash = "\n[[hash]]\ncase = \"sdc/product/f32/8x8x8/10r/portable\"\n\
                    hash = \"0000000000000007\"\nruns = 5\n";
        let table = format!("{PROFILE}{hash}");
        assert_eq!(verdicts(&table, &[RIGHT]), [Pass]);
        let other = judged(&table, &[OTHER]);
        assert_eq!(other[0].verdict, Fail);
        assert!(other[0].words.contains("the profile's 5 runs"), "{}", other[0].words);
        // All of them: the table is of something else.
        let all = judged(&table, &[OTHER, OTHER]);
        assert_eq!((all[0].verdict, all[1].verdict), (Inconclusive, Inconclusive));
    }
}
