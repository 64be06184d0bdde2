//! The profiles of `data/profiles`: each is one, is for what there is, and claims no more than its
//! source.

use fizeau::data::Catalogue;
use fizeau_judge::accept::profile::{Kind, Profile, Quality};

fn profiles() -> Vec<(Catalogue, Profile)> {
    let catalogue = Catalogue::load(None).expect("the catalogue");
    let names: Vec<String> = catalogue.profiles().map(str::to_owned).collect();
    assert!(names.len() >= 7, "{names:?}");
    let read = |name: String| {
        let text = catalogue.profile(&name).expect("a text");
        let profile = Profile::parse(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(profile.name, name);
        (catalogue.clone(), profile)
    };
    names.into_iter().map(read).collect()
}

#[test]
fn profiles_are_for_parts_and_suites_that_there_are() {
    for (catalogue, profile) in profiles() {
        let name = &profile.name;
        let suite = catalogue.suite(&profile.suite).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(!suite.1.is_empty() && !profile.checks.is_empty());
        for check in &profile.checks {
            let suite = catalogue.suite(profile.suite_of(check));
            let (suite, _) = suite.unwrap_or_else(|why| panic!("{name}: {}: {why}", check.name));
            // A suite that plans nothing of a check's operation would leave it without a word.
            let operation = check.cases[0].split('/').next().unwrap_or_default();
            let has_any = match operation {
                "stream" => suite.stream.is_some(),
                "latency" => suite.latency.is_some(),
                "compute" => suite.compute.is_some(),
                "transfer" => suite.transfer.is_some(),
                "gemm" => suite.gemm.is_some(),
                "sdc" => suite.sdc.is_some(),
                "attention" => !suite.attention.is_empty(),
                "collective" => suite.collective.is_some(),
                other => panic!("{name}: {}: {other}", check.name),
            };
            assert!(has_any, "{name}: {} has no case in suite {}", check.name, suite.name);
        }
        let parts: Vec<&str> = catalogue.parts.iter().map(|part| part.id.as_str()).collect();
        match (profile.kind, &profile.part) {
            (Kind::Public, Some(part)) => assert!(parts.contains(&part.as_str()), "{name}"),
            (Kind::Derived, None) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn the_links_that_nodes_should_have_are_those_of_their_part() {
    for (catalogue, profile) in profiles() {
        let Some(part) =
            catalogue.parts.iter().find(|part| Some(&part.id) == profile.part.as_ref())
        else {
            continue;
        };
        let expected = &profile.expected;
        if let Some(pcie) = part.pcie {
            assert_eq!(Some(pcie[0]), expected.pcie_generation, "{}", profile.name);
            assert_eq!(Some(pcie[1]), expected.pcie_lanes, "{}", profile.name);
        }
    }
}

#[test]
fn every_floor_says_where_it_comes_from_and_only_a_good_source_passes() {
    for (_, profile) in profiles() {
        for check in &profile.checks {
            let Some(floor) = &check.floor else { continue };
            assert!(floor.source.len() > 20, "{}: {}", profile.name, check.name);
            let passes = floor.quality != Quality::Weak;
            assert!(!passes || profile.kind == Kind::Public, "{}: {}", profile.name, check.name);
        }
    }
}
